/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "snapshot_rows.h"
#include "tool.h"

enum { BEFORE, AFTER, COLUMNS };

/* In the order of a snapshot: what is known, then the rest by name. */
static int order(const struct snapshot_value *a, const struct snapshot_value *b)
{
	if (a->which != b->which)
		return (unsigned)a->which < (unsigned)b->which ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void set_cell(struct report_cell *cell, const struct snapshot_value *v)
{
	if (v)
		cell->value = v->value;
	else
		cell->missing = true;
}

/* A row for each value that one of the two has. */
static void add_values(struct report *r, const struct snapshot_cache *before,
		       const struct snapshot_cache *after)
{
	for (unsigned i = 0, k = 0; i < before->count || k < after->count;) {
		const struct snapshot_value *a = i < before->count ? &before->values[i] : NULL;
		const struct snapshot_value *b = k < after->count ? &after->values[k] : NULL;
		int which = !a ? 1 : !b ? -1 : order(a, b);
		struct report_cell *cells = report_add(r, REPORT_STATISTICS, 0,
						       which <= 0 ? a->name : b->name);

		set_cell(&cells[BEFORE], which <= 0 ? a : NULL);
		set_cell(&cells[AFTER], which >= 0 ? b : NULL);
		i += which <= 0;
		k += which >= 0;
	}
}

/* The statistics by number, NAN where there is none. */
static double *statistics(const struct snapshot_cache *c)
{
	double *values = tool_alloc(USLUB_STAT_COUNT, sizeof(*values));

	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		values[i] = NAN;
	for (unsigned i = 0; i < c->count; i++) {
		if (c->values[i].which >= 0)
			values[c->values[i].which] = c->values[i].value;
	}
	return values;
}

struct report snapshot_rows(const struct snapshot_cache *before, const struct snapshot_cache *after)
{
	double *values[COLUMNS] = { statistics(before), statistics(after) };
	struct report r = { .columns = COLUMNS };

	add_values(&r, before, after);
	report_add_churn(&r, (const double *const *)values);
	report_add_transitions(&r, (const double *const *)values);
	for (unsigned i = 0; i < COLUMNS; i++)
		free(values[i]);
	return r;
}
