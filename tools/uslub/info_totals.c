/* SPDX-License-Identifier: MIT */
/*
 * All caches together, and the memory of the process that they belong to. What is not known of a cache is left
 * out of a line; the column Caches tells of how many it was.
 */
#include "info.h"
#include "tool.h"

/* ---- one number of all caches ---- */

static double objects(const struct info_row *row)
{
	return info_value(row, "objects");
}

static double slabs(const struct info_row *row)
{
	return info_value(row, "slabs");
}

static double partial(const struct info_row *row)
{
	return info_value(row, "partial");
}

static double objects_partial(const struct info_row *row)
{
	return info_value(row, "objects_partial");
}

static double object_size(const struct info_row *row)
{
	return info_value(row, "object_size");
}

static double slab_size(const struct info_row *row)
{
	return info_value(row, "slab_size");
}

static double object_loss(const struct info_row *row)
{
	return slab_size(row) - object_size(row);
}

/*
 * struct quantity - a line
 * @number: of a cache
 * @weight: how often it counts in the average, NULL: once
 * @sum: whether the sum means something
 */
struct quantity {
	const char *label;
	const char *key;
	enum info_kind kind;
	double (*number)(const struct info_row *row);
	double (*weight)(const struct info_row *row);
	bool sum;
};

static const struct quantity quantities[] = {
	{ "Objects", "objects", INFO_COUNT, objects, NULL, true },
	{ "Slabs", "slabs", INFO_COUNT, slabs, NULL, true },
	{ "Partial slabs", "partial", INFO_COUNT, partial, NULL, true },
	{ "% of slabs partial", "partial_percent", INFO_PERCENT, info_partial_percent, slabs,
	  false },
	{ "Objects in them", "objects_partial", INFO_COUNT, objects_partial, NULL, true },
	{ "Memory", "space_bytes", INFO_BYTES, info_space, NULL, true },
	{ "Used of it", "used_bytes", INFO_BYTES, info_used, NULL, true },
	{ "Loss", "loss_bytes", INFO_BYTES, info_loss, NULL, true },
	{ "% used", "used_percent", INFO_PERCENT, info_used_percent, info_space, false },
	{ "Object, asked for", "object_size", INFO_BYTES, object_size, objects, false },
	{ "Object, in a slab", "slab_size", INFO_BYTES, slab_size, objects, false },
	{ "Loss by object", "object_loss", INFO_BYTES, object_loss, objects, false },
};

static void add_quantity(const struct info *info, struct info_sheet *sheet,
			 const struct quantity *q)
{
	double sum = 0, weights = 0, least = NAN, most = NAN;
	unsigned n = 0;

	for (unsigned i = 0; i < info->count; i++) {
		struct info_row row = { .info = info, .cache = info->caches[i] };
		double number = q->number(&row), weight = q->weight ? q->weight(&row) : 1;

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

static void add_process(const struct info *info, struct info_document *document)
{
	double used = info_fact(info, "memory_used"), rss = info_fact(info, "rss");
	double retained = info_fact(info, "memory_retained");
	double metadata = info_fact(info, "memory_metadata");
	double ours = or_nothing(used) + or_nothing(retained) + or_nothing(metadata);
	double listed = all_slabs(info);
	struct info_sheet *sheet;

	if (isnan(used) && isnan(retained) && isnan(metadata))
		return;
	sheet = info_sheet(document, "memory", "Memory of the whole process", NULL);
	info_column(sheet, "Layer", "", 38, INFO_LEFT | INFO_ONLY_SHOWN);
	info_column(sheet, "", "layer", 0, INFO_ONLY_DATA);
	info_column(sheet, "Bytes", "bytes", 16, 0);
	add_bytes(sheet, "slabs", "slabs of the caches", isnan(used) ? NAN : listed);
	add_bytes(sheet, "large_sheaves", "large sheaves, caches not seen", used - listed);
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
	add_process(info, document);
}
