/* SPDX-License-Identifier: MIT */
/*
 * From snapshots to rows.
 *
 * A rate is the growth of a counter between two readings by the seconds between them. When no time has
 * passed the figures are the old ones, and so are the rates. A counter that fell tells one of two things. If
 * it fell far, the cache was destroyed and made again under its name, or somebody cleared the counter, and
 * no difference means anything. If it fell a little, it was added up while others were counting, and
 * has not grown.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tool.h"
#include "top.h"

/* Readings that are closer, in seconds, are the same. */
#define SAME_MOMENT 1e-3

/* ---- rates ---- */

bool top_is_counter(const struct snapshot_value *v)
{
	int kind;

	/* Of those that only a newer kernel knows, counters are the ones that CPUs have shares in. */
	if (v->which < 0)
		return v->cpus.count;
	kind = uslub_stat_kind((enum uslub_stat)v->which);
	return kind == USLUB_STAT_KIND_COUNTER || kind == USLUB_STAT_KIND_DERIVED;
}

/* The place of a value in another reading of the cache, where it most likely has the same index; or -1. */
static int index_of(const struct snapshot_cache *c, const char *name, unsigned likely)
{
	const struct snapshot_value *v;

	if (likely < c->count && !strcmp(c->values[likely].name, name))
		return (int)likely;
	v = snapshot_value(c, name);
	return v ? (int)(v - c->values) : -1;
}

static bool made_again(const struct snapshot_cache *now, const struct snapshot_cache *before)
{
	for (unsigned i = 0; i < now->count; i++) {
		int k = index_of(before, now->values[i].name, i);

		if (k >= 0 && top_is_counter(&now->values[i]) &&
		    now->values[i].value < before->values[k].value / 2)
			return true;
	}
	return false;
}

static void compare(struct top_cache *now, const struct top_cache *before)
{
	const struct snapshot_cache *c = now->cache;
	double seconds = now->at - before->at;
	bool same = fabs(seconds) < SAME_MOMENT;

	if (!same && (seconds < 0 || made_again(c, before->cache)))
		return;
	for (unsigned i = 0; i < c->count; i++) {
		int k = index_of(before->cache, c->values[i].name, i);

		if (k < 0 || !top_is_counter(&c->values[i]))
			continue;
		now->rates[i] = same ? before->rates[k]
				     : fmax(c->values[i].value - before->cache->values[k].value,
					    0) / seconds;
	}
}

static void add_cache(struct top_sample *s, unsigned i)
{
	const struct snapshot_cache *c = &s->snapshot->caches[i];

	s->caches[i].cache = c;
	s->caches[i].at = c->copied ? s->at - c->age_ns / 1e9 : s->at;
	s->caches[i].rates = tool_alloc(c->count, sizeof(double));
	for (unsigned k = 0; k < c->count; k++)
		s->caches[i].rates[k] = NAN;
}

struct top_sample *top_sample_new(struct snapshot *snapshot, double at,
				  const struct top_sample *before)
{
	struct top_sample *s = tool_alloc(1, sizeof(*s));
	unsigned k = 0, before_count = before ? before->snapshot->count : 0;

	s->snapshot = snapshot;
	s->at = at;
	s->caches = tool_alloc(snapshot->count, sizeof(*s->caches));
	/* Both are sorted by name. Of caches that share a name the first meets the first. */
	for (unsigned i = 0; i < snapshot->count; i++) {
		int order = -1;

		add_cache(s, i);
		while (k < before_count && (order = strcmp(before->caches[k].cache->name,
							   snapshot->caches[i].name)) < 0)
			k++;
		if (k < before_count && !order)
			compare(&s->caches[i], &before->caches[k++]);
	}
	return s;
}

void top_sample_free(struct top_sample *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->snapshot->count; i++)
		free(s->caches[i].rates);
	free(s->caches);
	snapshot_free(s->snapshot);
	free(s);
}

/* ---- columns ---- */

const struct top_column top_columns[TOP_COLUMNS] = {
	[TOP_NAME] = { "name", "NAME", 'n', TOP_TEXT, 0, 0, "name of the cache" },
	[TOP_OBJS] = { "objs", "OBJS", 'o', TOP_COUNT, 5, 5, "objects that its slabs hold" },
	[TOP_ACTIVE] = { "active", "ACTIVE", 'a', TOP_COUNT, 6, 12,
			 "those not free in their slab" },
	[TOP_USE] = { "use", "USE%", 'u', TOP_PERCENT, 4, 4, "the same in per cent" },
	[TOP_SIZE] = { "size", "SIZE", 'z', TOP_COUNT, 5, 9, "bytes that an object takes" },
	[TOP_SLABS] = { "slabs", "SLABS", 's', TOP_COUNT, 5, 8, "slabs" },
	[TOP_BYTES] = { "bytes", "BYTES", 'b', TOP_MEMORY, 5, 2, "memory of these slabs" },
	[TOP_ALLOC] = { "alloc", "ALLOC/S", 'l', TOP_RATE, 7, 1, "objects allocated per second" },
	[TOP_FREE] = { "free", "FREE/S", 'f', TOP_RATE, 6, 3,
		       "objects freed per second, deferred frees included" },
	[TOP_FAST] = { "fast", "FAST%", 'p', TOP_PERCENT, 5, 13,
		       "per cent of both that per-CPU sheaves served" },
	[TOP_REFILL] = { "refill", "REFILL/S", 'e', TOP_RATE, 8, 7,
			 "objects put into sheaves from slabs per second" },
	[TOP_FLUSH] = { "flush", "FLUSH/S", 'h', TOP_RATE, 7, 10,
			"objects returned from sheaves to slabs per second" },
	[TOP_CHURN] = { "churn", "CHURN/S", 'c', TOP_RATE, 7, 11,
			"slabs made and given back per second" },
	[TOP_LOCKWAIT] = { "lockwait", "LOCKWAIT/S", 'w', TOP_RATE, 10, 6,
			   "times a lock was waited for per second" },
};

#define MOST_COUNTERS 6u

/*
 * The counters whose rates a column adds up, as many of them as are known.
 */
struct sum {
	unsigned count;
	enum uslub_stat counters[MOST_COUNTERS];
};

#define SUM(...)                                                                                   \
	{                                                                                          \
		TOOL_COUNT(((enum uslub_stat[]){ __VA_ARGS__ })),                                  \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

#define FAST_PATHS USLUB_STAT_alloc_fastpath, USLUB_STAT_free_fastpath, USLUB_STAT_free_rcu_sheaf

static const struct sum sums[TOP_COLUMNS] = {
	[TOP_ALLOC] = SUM(USLUB_STAT_alloc_fastpath, USLUB_STAT_alloc_slowpath),
	[TOP_FREE] = SUM(USLUB_STAT_free_fastpath, USLUB_STAT_free_slowpath,
			 USLUB_STAT_free_rcu_sheaf),
	[TOP_FAST] = SUM(FAST_PATHS),
	[TOP_REFILL] = SUM(USLUB_STAT_sheaf_refill),
	[TOP_FLUSH] = SUM(USLUB_STAT_sheaf_flush),
	[TOP_CHURN] = SUM(USLUB_STAT_alloc_slab, USLUB_STAT_free_slab),
	[TOP_LOCKWAIT] = SUM(USLUB_STAT_list_lock_contended, USLUB_STAT_barn_lock_contended),
};

static const struct sum fast_and_slow = SUM(FAST_PATHS, USLUB_STAT_alloc_slowpath,
					    USLUB_STAT_free_slowpath);

static bool has_any(const struct snapshot_cache *c, const struct sum *sum)
{
	for (unsigned i = 0; i < sum->count; i++) {
		if (snapshot_stat(c, sum->counters[i]))
			return true;
	}
	return false;
}

/* NAN when none of them is known. */
static double sum_of_rates(const struct top_cache *t, const struct sum *sum)
{
	double total = NAN;

	for (unsigned i = 0; i < sum->count; i++) {
		const struct snapshot_value *v = snapshot_stat(t->cache, sum->counters[i]);
		double rate = v ? t->rates[v - t->cache->values] : NAN;

		if (!isnan(rate))
			total = isnan(total) ? rate : total + rate;
	}
	return total;
}

/* A gauge or attribute; NAN when it is absent. */
static double known(const struct snapshot_cache *c, enum uslub_stat which)
{
	const struct snapshot_value *v = snapshot_stat(c, which);

	return v ? v->value : NAN;
}

static double bytes_of(const struct snapshot *s, const struct snapshot_cache *c)
{
	const struct snapshot_fact *page = snapshot_fact(s, "page_size");
	double page_size = page ? page->number : (double)sysconf(_SC_PAGESIZE);
	const struct snapshot_value *order = snapshot_stat(c, USLUB_STAT_order);

	if (order)
		return known(c, USLUB_STAT_slabs) * page_size * exp2(order->value);
	return known(c, USLUB_STAT_total_objects) * known(c, USLUB_STAT_slab_size);
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : NAN;
}

static void fill_row(struct top_row *row, const struct snapshot *s, const struct top_cache *t)
{
	double *v = row->values;

	row->cache = t;
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		v[i] = sum_of_rates(t, &sums[i]);
	v[TOP_FAST] = percent(v[TOP_FAST], sum_of_rates(t, &fast_and_slow));
	v[TOP_OBJS] = known(t->cache, USLUB_STAT_total_objects);
	v[TOP_ACTIVE] = known(t->cache, USLUB_STAT_objects);
	v[TOP_USE] = percent(v[TOP_ACTIVE], v[TOP_OBJS]);
	v[TOP_SIZE] = known(t->cache, USLUB_STAT_slab_size);
	v[TOP_SLABS] = known(t->cache, USLUB_STAT_slabs);
	v[TOP_BYTES] = bytes_of(s, t->cache);
}

/* ---- which rows ---- */

char *top_filter(struct top_view *view, const char *text)
{
	regex_t regex;
	int error = regcomp(&regex, text, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	char why[128];

	if (error) {
		regerror(error, &regex, why, sizeof(why));
		return tool_copy(why);
	}
	if (view->filter)
		regfree(&view->regex);
	free(view->filter);
	view->filter = NULL;
	if (*text) {
		view->filter = tool_copy(text);
		view->regex = regex;
	} else {
		regfree(&regex);
	}
	return NULL;
}

static bool matches(const struct top_view *view, const struct snapshot_cache *c)
{
	bool found = !view->filter || !regexec(&view->regex, c->name, 0, NULL, 0);

	for (unsigned i = 0; i < c->aliases_count && !found; i++)
		found = !regexec(&view->regex, c->aliases[i], 0, NULL, 0);
	return found;
}

/* Whether nothing happens to it: no counter grows, or, without counters, it has no objects. */
static bool is_idle(const struct top_row *row)
{
	const struct snapshot_cache *c = row->cache->cache;
	bool counters = false;

	for (unsigned i = 0; i < c->count; i++) {
		double rate = row->cache->rates[i];

		if (rate > 0)
			return false;
		/* Not known yet is not idle. */
		if (isnan(rate) && top_is_counter(&c->values[i]))
			return false;
		counters |= !isnan(rate);
	}
	return counters || row->values[TOP_OBJS] == 0;
}

/* ---- the table ---- */

static int by_column(const void *a, const void *b, void *with)
{
	const struct top_row *x = a, *y = b;
	const struct top_table *table = ((void **)with)[0];
	const struct top_view *view = ((void **)with)[1];
	double i = x->values[table->sort], k = y->values[table->sort];
	int order = strcmp(x->cache->cache->name, y->cache->cache->name);

	if (table->sort == TOP_NAME)
		return view->reverse ? -order : order;
	/* What is unknown comes last in either direction. */
	if (isnan(i) || isnan(k)) {
		if (isnan(i) != isnan(k))
			return isnan(i) ? 1 : -1;
	} else if (i != k) {
		return (i > k) == view->reverse ? 1 : -1;
	}
	/* Among equals, which most are while little happens, the large ones. */
	i = x->values[TOP_BYTES];
	k = y->values[TOP_BYTES];
	return i > k ? -1 : i < k ? 1 : order;
}

static void find_columns(struct top_table *table, const struct top_row *row)
{
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (!isnan(row->values[i]) || has_any(row->cache->cache, &sums[i]))
			table->present[i] = true;
	}
}

static void add_up(struct top_table *table, const struct top_row *row)
{
	const struct snapshot_cache *c = row->cache->cache;

	table->matching++;
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		double value = row->values[i];

		if (!isnan(value))
			table->totals[i] = isnan(table->totals[i]) ? value
								   : table->totals[i] + value;
	}
	if (c->copied) {
		table->copied++;
		table->copied_age = fmax(table->copied_age, c->age_ns / 1e9);
	}
}

void top_table_make(struct top_table *table, const struct top_sample *sample,
		    const struct top_view *view)
{
	void *with[] = { table, (void *)view };
	struct top_row row;

	memset(table, 0, sizeof(*table));
	table->present[TOP_NAME] = true;
	table->rows = tool_alloc(sample->snapshot->count, sizeof(*table->rows));
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		table->totals[i] = NAN;
	for (unsigned i = 0; i < sample->snapshot->count; i++) {
		fill_row(&row, sample->snapshot, &sample->caches[i]);
		find_columns(table, &row);
		if (!matches(view, row.cache->cache))
			continue;
		add_up(table, &row);
		if (!view->hide_idle || !is_idle(&row))
			table->rows[table->count++] = row;
	}
	table->totals[TOP_USE] = percent(table->totals[TOP_ACTIVE], table->totals[TOP_OBJS]);
	table->sort = view->sort;
	if (view->sort == TOP_COLUMNS)
		table->sort = table->present[TOP_ALLOC] ? TOP_ALLOC : TOP_BYTES;
	qsort_r(table->rows, table->count, sizeof(*table->rows), by_column, with);
}

void top_table_clear(struct top_table *table)
{
	free(table->rows);
	table->rows = NULL;
	table->count = 0;
}
