/* SPDX-License-Identifier: MIT */
/*
 * All caches together, and the memory of the process that they belong to. What is not known of a
 * cache is left out of a line; the column Caches tells of how many it was.
 */
#include "info.h"
#include "tool.h"

/* ---- one number of all caches ---- */

static double object_loss(const struct info_row *row)
{
	return info_value(row, "slab_size") - info_value(row, "object_size");
}

/*
 * struct quantity - a line
 * @measure: of a cache
 * @weight: how often it counts in the average; nothing: once
 * @sum: whether the sum means something
 */
struct quantity {
	const char *label;
	const char *key;
	enum info_kind kind;
	struct info_measure measure;
	struct info_measure weight;
	bool sum;
};

#define STAT(name)                                                                                 \
	{                                                                                          \
		.stat = (name)                                                                     \
	}
#define FROM(function)                                                                             \
	{                                                                                          \
		.number = (function)                                                               \
	}
#define ONCE                                                                                       \
	{                                                                                          \
		.stat = NULL                                                                       \
	}

/* clang-format off */
static const struct quantity quantities[] = {
	{ "Objects", "objects", INFO_COUNT, STAT("objects"), ONCE, true },
	{ "Slabs", "slabs", INFO_COUNT, STAT("slabs"), ONCE, true },
	{ "Partial slabs", "partial", INFO_COUNT, STAT("partial"), ONCE, true },
	{ "% of slabs partial", "partial_percent", INFO_PERCENT, FROM(info_partial_percent), STAT("slabs"), false },
	{ "Objects in them", "objects_partial", INFO_COUNT, STAT("objects_partial"), ONCE, true },
	{ "Memory", "space_bytes", INFO_BYTES, FROM(info_space), ONCE, true },
	{ "Used of it", "used_bytes", INFO_BYTES, FROM(info_used), ONCE, true },
	{ "Loss", "loss_bytes", INFO_BYTES, FROM(info_loss), ONCE, true },
	{ "% used", "used_percent", INFO_PERCENT, FROM(info_used_percent), FROM(info_space), false },
	{ "Object, asked for", "object_size", INFO_BYTES, STAT("object_size"), STAT("objects"), false },
	{ "Object, in a slab", "slab_size", INFO_BYTES, STAT("slab_size"), STAT("objects"), false },
	{ "Loss by object", "object_loss", INFO_BYTES, FROM(object_loss), STAT("objects"), false },
};
/* clang-format on */

static double weight_of(const struct info_row *row, const struct quantity *q)
{
	return q->weight.stat || q->weight.number ? info_measure(row, &q->weight) : 1;
}

static void add_quantity(const struct info *info, struct info_sheet *sheet,
			 const struct quantity *q)
{
	double sum = 0, weights = 0, least = NAN, most = NAN;
	unsigned n = 0;

	for (unsigned i = 0; i < info->count; i++) {
		struct info_row row = { .info = info, .cache = info->caches[i] };
		double number = info_measure(&row, &q->measure), weight = weight_of(&row, q);

		if (isnan(number) || isnan(weight))
			continue;
		sum += number * weight;
		weights += weight;
		least = fmin(least, number);
		most = fmax(most, number);
		n++;
	}
	info_text(sheet, tool_copy(q->label));
	info_text(sheet, tool_copy(q->key));
	info_number(sheet, INFO_COUNT, n);
	/* An average of counts is no count, but no more digits make sense. */
	info_number(sheet, q->kind, weights > 0 ? floor(sum / weights) : NAN);
	info_number(sheet, q->kind, least);
	info_number(sheet, q->kind, most);
	info_number(sheet, q->kind, q->sum && n ? sum : NAN);
}

static void add_summary(const struct info *info, struct info_document *document)
{
	struct info_sheet *sheet = info_sheet(document, "summary", NULL, NULL);
	unsigned aliases = 0, active = 0;

	for (unsigned i = 0; i < info->count; i++) {
		aliases += info->caches[i]->aliases_count;
		active += snapshot_get(info->caches[i], USLUB_STAT_objects) > 0;
	}
	info_column(sheet, "Caches", "caches", 12, 0);
	info_column(sheet, "Aliases", "aliases", 12, 0);
	info_column(sheet, "With objects", "with_objects", 15, 0);
	info_number(sheet, INFO_COUNT, info->count);
	info_number(sheet, INFO_COUNT, aliases);
	info_number(sheet, INFO_COUNT, active);
}

/* ---- the process ---- */

static void add_bytes(struct info_sheet *sheet, const char *key, const char *label, double bytes)
{
	info_text(sheet, tool_copy(label));
	info_text(sheet, tool_copy(key));
	info_number(sheet, INFO_EXACT, bytes);
}

static double or_nothing(double bytes)
{
	return isnan(bytes) ? 0 : bytes;
}

/* Of all caches of the process, since what the process says of itself is about all of them. */
static double all_slabs(const struct info *info)
{
	double sum = 0;

	for (unsigned i = 0; i < info->snapshot->count; i++) {
		struct info_row row = { .info = info, .cache = &info->snapshot->caches[i] };

		sum += or_nothing(info_space(&row));
	}
	return sum;
}

void info_memory(const struct info *info, struct info_document *document)
{
	double used = info_fact(info, "memory_used"), rss = info_fact(info, "rss");
	double retained = info_fact(info, "memory_retained");
	double metadata = info_fact(info, "memory_metadata");
	double large = or_nothing(info_fact(info, "memory_large"));
	double mapped = info_fact(info, "memory_mapped");
	double ours = or_nothing(used) + or_nothing(retained) + or_nothing(metadata) +
		      or_nothing(mapped);
	double listed = all_slabs(info);
	struct info_sheet *sheet;

	if (isnan(used) && isnan(retained) && isnan(metadata))
		return;
	sheet = info_sheet(document, "memory", "Memory of the whole process", NULL);
	info_column(sheet, "Layer", "", 38, INFO_LEFT | INFO_ONLY_SHOWN);
	info_column(sheet, "", "layer", 0, INFO_ONLY_DATA);
	info_column(sheet, "Bytes", "bytes", 16, 0);
	add_bytes(sheet, "slabs", "slabs of the caches", isnan(used) ? NAN : listed);
	add_bytes(sheet, "large", "large sizes of malloc", large);
	add_bytes(sheet, "large_sheaves", "large sheaves and the like", used - listed - large);
	add_bytes(sheet, "mapped", "sizes that have mappings of their own", mapped);
	add_bytes(sheet, "retained", "free pages that are kept", retained);
	add_bytes(sheet, "metadata", "bookkeeping", metadata);
	add_bytes(sheet, "allocator", "all that is the allocator's", ours);
	if (isnan(rss))
		return;
	add_bytes(sheet, "others", rss < ours ? "of it not in RAM" : "other memory of the process",
		  rss - ours);
	add_bytes(sheet, "rss", "in RAM, all of the process", rss);
}

void info_totals(const struct info *info, struct info_document *document)
{
	struct info_sheet *sheet;

	add_summary(info, document);
	sheet = info_sheet(document, "totals", "All caches", NULL);
	info_column(sheet, "", "", 19, INFO_LEFT | INFO_ONLY_SHOWN);
	info_column(sheet, "", "quantity", 0, INFO_ONLY_DATA);
	info_column(sheet, "Caches", "caches", 8, INFO_OPTIONAL);
	info_column(sheet, "Average", "average", 12, 0);
	info_column(sheet, "Min", "min", 12, 0);
	info_column(sheet, "Max", "max", 12, 0);
	info_column(sheet, "Total", "total", 14, 0);
	for (unsigned i = 0; i < TOOL_COUNT(quantities); i++)
		add_quantity(info, sheet, &quantities[i]);
	info_memory(info, document);
}
