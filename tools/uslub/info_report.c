/* SPDX-License-Identifier: MIT */
/*
 * Everything about one cache. What its slabs take is told by layer:
 *
 *   bytes of all slabs = objects the program has
 *                      + objects in sheaves of CPUs + in barns + in stashes
 *                      + objects that wait for their grace period
 *                      + free objects in slabs
 *                      + slack, where no object fits
 *
 * Objects that lie in sheaves are in use for their slab. What a layer that is not known holds is
 * counted with the first, which is called so then.
 */
#include "info.h"
#include "tool.h"

/* ---- memory by layer ---- */

struct layer {
	const char *stat;
	const char *key;
	const char *label;
};

static const struct layer layers[] = {
	{ "cpu_objects", "cpu", "in per-CPU sheaves" },
	{ "barn_objects", "barn", "in barns" },
	{ "stash_objects", "stash", "in stashes" },
	{ "rcu_pending", "rcu", "waiting for RCU" },
};

static void add_layer(struct info_sheet *sheet, const char *key, const char *label, double objects,
		      double bytes, double space)
{
	info_text(sheet, tool_copy(label));
	info_text(sheet, tool_copy(key));
	info_number(sheet, INFO_EXACT, objects);
	info_number(sheet, INFO_EXACT, bytes);
	info_number(sheet, INFO_SHARE, info_ratio(bytes, space));
}

/* What of the objects in use the program has; whether all other layers are known. */
static double in_use(const struct info_row *row, bool *exact)
{
	double objects = info_value(row, "objects");

	*exact = true;
	for (unsigned i = 0; i < TOOL_COUNT(layers); i++) {
		double n = info_value(row, layers[i].stat);

		if (isnan(n))
			*exact = false;
		else
			objects -= n;
	}
	return objects;
}

static void add_memory(const struct info_row *row, struct info_document *document, const char *name)
{
	struct info_sheet *sheet = info_sheet(document, "memory", "Memory", name);
	double size = info_value(row, "slab_size"), space = info_space(row);
	double total = info_value(row, "total_objects");
	double spare = total - info_value(row, "objects"), used;
	bool exact;

	used = in_use(row, &exact);
	if (used < 0)
		info_note(document,
			  "%s: objects moved while the figures were read, so that they do not fit "
			  "together; look again",
			  name);
	info_column(sheet, "Layer", "", 34, INFO_LEFT | INFO_ONLY_SHOWN);
	info_column(sheet, "", "layer", 0, INFO_ONLY_DATA);
	info_column(sheet, "Objects", "objects", 16, 0);
	info_column(sheet, "Bytes", "bytes", 18, 0);
	info_column(sheet, "Share", "percent", 9, 0);
	add_layer(sheet, "used",
		  exact ? "in use by the program" : "in use, or in a layer shown as -", used,
		  used * size, space);
	for (unsigned i = 0; i < TOOL_COUNT(layers); i++) {
		double n = info_value(row, layers[i].stat);

		add_layer(sheet, layers[i].key, layers[i].label, n, n * size, space);
	}
	add_layer(sheet, "free", "free in slabs", spare, spare * size, space);
	add_layer(sheet, "slack", "slack in slabs", NAN, space - total * size, space);
	add_layer(sheet, "slabs", "all slabs", total, space, space);
}

/* ---- times ---- */

/* The upper bound of the bucket that the share @rank of all times ends in; 0 without any. */
static double quantile(const struct snapshot_latency *l, double count, double rank)
{
	double seen = 0;

	for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++) {
		seen += l->counts[b];
		if (seen > 0 && seen >= rank * count)
			return b == SNAPSHOT_BUCKETS - 1 ? INFINITY : ldexp(1, (int)b + 1);
	}
	return NAN;
}

static void add_latencies(const struct snapshot_cache *c, struct info_document *document,
			  const char *name)
{
	struct info_sheet *sheet = info_sheet(document, "latency", "Times of slow paths", name);

	info_column(sheet, "Path", "path", 24, INFO_LEFT);
	info_column(sheet, "Count", "count", 12, 0);
	info_column(sheet, "", "sum_ns", 0, INFO_ONLY_DATA);
	info_column(sheet, "Mean", "mean_ns", 9, 0);
	info_column(sheet, "p50", "p50_below_ns", 9, 0);
	info_column(sheet, "p99", "p99_below_ns", 9, 0);
	info_column(sheet, "Max", "max_below_ns", 9, 0);
	for (unsigned i = 0; i < c->latencies_count; i++) {
		const struct snapshot_latency *l = &c->latencies[i];
		double count = 0;

		for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++)
			count += l->counts[b];
		info_text(sheet, tool_copy(l->name));
		info_number(sheet, INFO_COUNT, count);
		info_number(sheet, INFO_NS, l->sum);
		info_number(sheet, INFO_NS, count > 0 ? l->sum / count : NAN);
		info_number(sheet, INFO_NS_BELOW, quantile(l, count, 0.5));
		info_number(sheet, INFO_NS_BELOW, quantile(l, count, 0.99));
		info_number(sheet, INFO_NS_BELOW, quantile(l, count, 1));
	}
}

/* ---- all values ---- */

enum group { ATTRIBUTES, GAUGES, COUNTERS, OTHERS, GROUPS };

static enum group group_of(const struct snapshot_value *v)
{
	static const enum group groups[] = {
		[USLUB_STAT_KIND_COUNTER] = COUNTERS,	  [USLUB_STAT_KIND_DERIVED] = COUNTERS,
		[USLUB_STAT_KIND_ATTRIBUTE] = ATTRIBUTES, [USLUB_STAT_KIND_GAUGE] = GAUGES,
		[USLUB_STAT_KIND_FLAG] = ATTRIBUTES,
	};

	return v->which < 0 ? OTHERS : groups[uslub_stat_kind((enum uslub_stat)v->which)];
}

static void add_values(const struct snapshot_cache *c, struct info_document *document,
		       const char *name)
{
	static const struct {
		const char *key, *title;
	} titles[GROUPS] = {
		[ATTRIBUTES] = { "attributes", "How it is made" },
		[GAUGES] = { "gauges", "What it holds" },
		[COUNTERS] = { "counters", "What happened" },
		[OTHERS] = { "others", "Values that this program does not know" },
	};

	for (enum group g = 0; g < GROUPS; g++) {
		struct info_sheet *sheet = NULL;

		for (unsigned i = 0; i < c->count; i++) {
			if (group_of(&c->values[i]) != g)
				continue;
			if (!sheet) {
				sheet = info_sheet(document, titles[g].key, titles[g].title, name);
				sheet->named = true;
				info_column(sheet, "Name", "name", 30, INFO_LEFT);
				info_column(sheet, "Value", "value", 18, 0);
			}
			info_text(sheet, tool_copy(c->values[i].name));
			info_number(sheet, INFO_COUNT, c->values[i].value);
		}
	}
}

static void add_aliases(const struct snapshot_cache *c, struct info_document *document,
			const char *name)
{
	struct info_sheet *sheet = info_sheet(document, "aliases", "Also called", name);

	info_column(sheet, "Name", "alias", 0, INFO_LEFT);
	for (unsigned i = 0; i < c->aliases_count; i++)
		info_text(sheet, tool_copy(c->aliases[i]));
}

void info_report(const struct info *info, struct info_document *document,
		 const struct snapshot_cache *c)
{
	struct info_row row = { .info = info, .cache = c };
	const char *name = info_name(info, c);
	unsigned first = document->count;

	add_memory(&row, document, name);
	document->sheets[first]->begins = true;
	if (c->aliases_count)
		add_aliases(c, document, name);
	info_parts(info, document, INFO_NODE, c);
	info_parts(info, document, INFO_CPU, c);
	if (c->latencies_count)
		add_latencies(c, document, name);
	add_values(c, document, name);
}
