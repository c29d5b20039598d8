/* SPDX-License-Identifier: MIT */
/*
 * The lists: which columns each has, and where a column comes from.
 *
 * A column of the table that has several numbers in it, as slabinfo's Slabs/Part/Cpu, is shown only;
 * JSON and CSV have each number in a column of its own.
 */
#include <stdlib.h>
#include "info.h"
#include "tool.h"

/* ---- one cell ---- */

static char *text_name(const struct info_row *row)
{
	return tool_copy(info_name(row->info, row->cache));
}

static char *text_flags(const struct info_row *row)
{
	return info_flags(row->cache);
}

/* A number as it stands between others in a cell. */
static char *bare(double number)
{
	return isnan(number) ? tool_copy("-") : tool_format("%.0f", trunc(number));
}

static char *joined(const char *between, unsigned n, const double numbers[])
{
	char *text = bare(numbers[0]);

	for (unsigned i = 1; i < n; i++) {
		char *next = bare(numbers[i]), *longer = tool_format("%s%s%s", text, between, next);

		free(next);
		free(text);
		text = longer;
	}
	return text;
}

static char *text_slabs(const struct info_row *row)
{
	double cpu = info_value(row, "cpu_slabs");
	double slabs = info_value(row, "slabs");
	const double numbers[] = { isnan(cpu) ? slabs : slabs - cpu, info_value(row, "partial"),
				   cpu };

	return joined("/", TOOL_COUNT(numbers), numbers);
}

static double alloc_fast_percent(const struct info_row *row)
{
	return info_ratio(info_value(row, "alloc_fastpath"), info_alloc(row));
}

static double free_fast_percent(const struct info_row *row)
{
	return info_ratio(info_value(row, "free_fastpath"), info_free(row));
}

static char *text_fast(const struct info_row *row)
{
	const double numbers[] = { alloc_fast_percent(row), free_fast_percent(row) };

	return joined(" ", TOOL_COUNT(numbers), numbers);
}

static double row_index(const struct info_row *row)
{
	return row->index;
}

static double age_seconds(const struct info_row *row)
{
	return row->cache->copied ? row->cache->age_ns / 1e9 : NAN;
}

/* ---- the columns ---- */

/* The views that a column is in. */
enum {
	LIST = 1,
	ACTIVE = 2,
	NODES = 4,
	CPUS = 8,
	LOSS = 16,     /* of the list, when it is sorted by loss */
	NOT_LOSS = 32, /* when it is not */
};

/*
 * struct column - a column of lists
 * @measure: the number that it shows
 * @text: what makes its text, where it shows one
 */
struct column {
	struct info_heading heading;
	unsigned views;
	enum info_kind kind;
	struct info_measure measure;
	char *(*text)(const struct info_row *row);
};

#define SHOWN INFO_ONLY_SHOWN
#define DATA  INFO_ONLY_DATA
#define GOES  INFO_OPTIONAL

#define STAT(name)     .measure = { .stat = (name) }
#define FROM(function) .measure = { .number = (function) }
#define TEXT(function) .text = (function)

/* clang-format off */
static const struct column columns[] = {
	{ { "Name", "name", 21, INFO_LEFT }, LIST | ACTIVE | NODES | CPUS, INFO_TEXT, TEXT(text_name) },
	{ { "Node", "node", 5, 0 }, NODES, INFO_COUNT, FROM(row_index) },
	{ { "CPU", "cpu", 4, 0 }, CPUS, INFO_COUNT, FROM(row_index) },
	{ { "Objects", "objects", 9, 0 }, LIST | ACTIVE | NODES, INFO_COUNT, STAT("objects") },
	{ { "Total", "total_objects", 9, 0 }, NODES, INFO_COUNT, STAT("total_objects") },
	{ { "", "total_objects", 0, DATA }, LIST, INFO_COUNT, STAT("total_objects") },
	{ { "Objsize", "object_size", 8, 0 }, LIST, INFO_COUNT, STAT("object_size") },
	{ { "Space", "space_bytes", 8, SHOWN }, LIST | NOT_LOSS, INFO_BYTES, FROM(info_space) },
	{ { "Loss", "loss_bytes", 8, SHOWN }, LIST | LOSS, INFO_BYTES, FROM(info_loss) },
	{ { "Space", "space_bytes", 9, 0 }, NODES, INFO_BYTES, FROM(info_space) },
	{ { "", "space_bytes", 0, DATA }, LIST, INFO_BYTES, FROM(info_space) },
	{ { "", "loss_bytes", 0, DATA }, LIST | NODES, INFO_BYTES, FROM(info_loss) },
	{ { "Slabs/Part/Cpu", "", 15, SHOWN }, LIST, INFO_TEXT, TEXT(text_slabs) },
	{ { "Slabs", "slabs", 8, 0 }, NODES, INFO_COUNT, STAT("slabs") },
	{ { "Partial", "partial", 8, 0 }, NODES, INFO_COUNT, STAT("partial") },
	{ { "", "slabs", 0, DATA }, LIST, INFO_COUNT, STAT("slabs") },
	{ { "", "partial", 0, DATA }, LIST, INFO_COUNT, STAT("partial") },
	{ { "", "cpu_slabs", 0, DATA }, LIST, INFO_COUNT, STAT("cpu_slabs") },
	{ { "O/S", "objs_per_slab", 4, GOES }, LIST, INFO_COUNT, STAT("objs_per_slab") },
	{ { "Alloc", "allocs", 12, 0 }, ACTIVE | CPUS, INFO_COUNT, FROM(info_alloc) },
	{ { "Free", "frees", 12, 0 }, ACTIVE | CPUS, INFO_COUNT, FROM(info_free) },
	{ { "%Fast", "", 8, SHOWN }, ACTIVE | CPUS, INFO_TEXT, TEXT(text_fast) },
	{ { "", "alloc_fast_percent", 0, DATA }, ACTIVE | CPUS, INFO_PERCENT, FROM(alloc_fast_percent) },
	{ { "", "free_fast_percent", 0, DATA }, ACTIVE | CPUS, INFO_PERCENT, FROM(free_fast_percent) },
	{ { "Refill", "sheaf_refill", 10, GOES }, CPUS, INFO_COUNT, STAT("sheaf_refill") },
	{ { "Flush", "sheaf_flush", 10, GOES }, CPUS, INFO_COUNT, STAT("sheaf_flush") },
	{ { "Fallb", "order_fallback", 6, 0 }, ACTIVE, INFO_COUNT, STAT("order_fallback") },
	{ { "O", "order", 2, 0 }, LIST | ACTIVE, INFO_COUNT, STAT("order") },
	{ { "CmpX", "cmpxchg_double_fail", 6, GOES }, ACTIVE, INFO_COUNT, STAT("cmpxchg_double_fail") },
	{ { "UL", "cmpxchg_double_cpu_fail", 3, GOES }, ACTIVE, INFO_COUNT, STAT("cmpxchg_double_cpu_fail") },
	{ { "%Fr", "partial_percent", 4, 0 }, LIST | NODES, INFO_PERCENT, FROM(info_partial_percent) },
	{ { "%Ef", "used_percent", 4, 0 }, LIST | NODES, INFO_PERCENT, FROM(info_used_percent) },
	{ { "Flg", "flags", 4, GOES }, LIST, INFO_TEXT, TEXT(text_flags) },
	{ { "", "age_seconds", 0, DATA }, LIST | ACTIVE, INFO_COUNT, FROM(age_seconds) },
};
/* clang-format on */

/* Whether a column is in a list of this kind. */
static bool in_list(const struct column *column, unsigned view, const struct info *info)
{
	unsigned not_now = info->options->sort == INFO_BY_LOSS ? NOT_LOSS : LOSS;

	return (column->views & view) && !(column->views & not_now);
}

static void add_headings(const struct info *info, struct info_sheet *sheet, unsigned view)
{
	/* The first one is the name, which a sheet about one cache has in its title. */
	for (unsigned i = sheet->cache ? 1 : 0; i < TOOL_COUNT(columns); i++) {
		const struct info_heading *h = &columns[i].heading;

		if (in_list(&columns[i], view, info))
			info_column(sheet, h->text, h->key, h->width, h->flags);
	}
}

static void add_row(struct info_sheet *sheet, const struct info_row *row, unsigned view)
{
	for (unsigned i = sheet->cache ? 1 : 0; i < TOOL_COUNT(columns); i++) {
		const struct column *column = &columns[i];

		if (!in_list(column, view, row->info))
			continue;
		if (column->text)
			info_text(sheet, column->text(row));
		else
			info_number(sheet, column->kind, info_measure(row, &column->measure));
	}
}

/* ---- the lists ---- */

/* How many caches a list shows. */
static unsigned lines_of(const struct info *info)
{
	unsigned most = info->options->lines;

	return most && most < info->count ? most : info->count;
}

static void list_aliases(const struct info *info, struct info_sheet *sheet)
{
	bool inverted = info->options->inverted;
	unsigned lines = 0;

	info_column(sheet, inverted ? "Alias" : "Name", inverted ? "alias" : "name", 24, INFO_LEFT);
	info_column(sheet, inverted ? "Name" : "Alias", inverted ? "name" : "alias", 24, INFO_LEFT);
	for (unsigned i = 0; i < info->count; i++) {
		const struct snapshot_cache *c = info->caches[i];

		if (c->aliases_count == 1 && !info->options->single_alias)
			continue;
		for (unsigned k = 0; k < c->aliases_count; k++) {
			if (info->options->lines && lines++ == info->options->lines)
				return;
			info_text(sheet, tool_copy(inverted ? c->aliases[k] : c->name));
			info_text(sheet, tool_copy(inverted ? c->name : c->aliases[k]));
		}
	}
}

void info_list(const struct info *info, struct info_document *document, enum info_view view,
	       const char *key, const char *title)
{
	struct info_sheet *sheet = info_sheet(document, key, title, NULL);
	unsigned which = view == INFO_ACTIVE ? ACTIVE : LIST;

	if (view == INFO_ALIASES) {
		list_aliases(info, sheet);
		return;
	}
	add_headings(info, sheet, which);
	for (unsigned i = 0; i < lines_of(info); i++) {
		struct info_row row = { .info = info, .cache = info->caches[i] };

		add_row(sheet, &row, which);
	}
}

/* Whether a line would say anything about its node or CPU. */
static bool has_numbers(const struct info_row *row, unsigned view)
{
	for (unsigned i = 0; i < TOOL_COUNT(columns); i++) {
		const struct column *column = &columns[i];

		if (column->views & view && !column->text && column->measure.number != row_index &&
		    !isnan(info_measure(row, &column->measure)))
			return true;
	}
	return false;
}

/* The lines of one cache; returns how many there are. @sheet may be NULL, to count them only. */
static unsigned add_parts(const struct info *info, struct info_sheet *sheet,
			  const struct snapshot_cache *c, enum info_place place)
{
	struct info_row row = { .info = info, .cache = c, .place = place };
	unsigned view = place == INFO_NODE ? NODES : CPUS;
	unsigned *indices, n = info_places(c, 1, place, &indices), lines = 0;

	for (unsigned i = 0; i < n; i++) {
		row.index = indices[i];
		if (!has_numbers(&row, view))
			continue;
		if (sheet)
			add_row(sheet, &row, view);
		lines++;
	}
	free(indices);
	return lines;
}

static unsigned add_all_parts(const struct info *info, struct info_sheet *sheet,
			      enum info_place place, const struct snapshot_cache *only)
{
	unsigned lines = 0;

	if (only)
		return add_parts(info, sheet, only, place);
	for (unsigned i = 0; i < lines_of(info); i++)
		lines += add_parts(info, sheet, info->caches[i], place);
	return lines;
}

unsigned info_parts(const struct info *info, struct info_document *document, enum info_place place,
		    const struct snapshot_cache *only)
{
	const char *key = place == INFO_NODE ? "nodes" : "cpus";
	const char *title = place == INFO_NODE ? "By node" : "By CPU";
	struct info_sheet *sheet;

	if (!add_all_parts(info, NULL, place, only))
		return 0;
	sheet = info_sheet(document, key, only ? title : NULL, only ? info_name(info, only) : NULL);
	add_headings(info, sheet, place == INFO_NODE ? NODES : CPUS);
	return add_all_parts(info, sheet, place, only);
}
