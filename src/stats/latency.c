/* SPDX-License-Identifier: MIT */
#include "stats/latency.h"

#define COLUMNS (USLUB_LATENCY_BUCKETS + 1u) /* of a path: buckets, and the sum behind them */

static const struct latency_row {
	const char *name;
	const char *help;
} rows[USLUB_LATENCY_COUNT] = {
#define USLUB_LATENCY(name, help) { #name, help },
#include <uslub/latency.def>
#undef USLUB_LATENCY
};

static bool known(enum uslub_latency which)
{
	return (unsigned)which < USLUB_LATENCY_COUNT;
}

const char *uslub_latency_name(enum uslub_latency which)
{
	return known(which) ? rows[which].name : NULL;
}

const char *uslub_latency_help(enum uslub_latency which)
{
	return known(which) ? rows[which].help : NULL;
}

void latency_layout(struct counters *c)
{
	c->latency = c->stride;
	counters_widen(c, USLUB_LATENCY_COUNT * COLUMNS * sizeof(uint64_t));
}

static unsigned first_column(const struct counters *c, enum uslub_latency which)
{
	return c->latency + (unsigned)which * COLUMNS;
}

void latency_note(const struct counters *c, enum uslub_latency which, uint64_t began)
{
	uint64_t ns = plat_clock() - began;
	unsigned bucket = min(ilog2(ns | 1), USLUB_LATENCY_BUCKETS - 1u);

	counters_add(c, first_column(c, which) + bucket, 1);
	counters_add(c, first_column(c, which) + USLUB_LATENCY_BUCKETS, ns);
}

bool latency_read(const struct counters *c, enum uslub_latency which,
		  struct uslub_latency_histogram *h)
{
	if (!c->latency)
		return false;
	h->count = 0;
	for (unsigned b = 0; b < USLUB_LATENCY_BUCKETS; b++) {
		h->buckets[b] = counters_sum(c, first_column(c, which) + b);
		h->count += h->buckets[b];
	}
	h->sum_ns = counters_sum(c, first_column(c, which) + USLUB_LATENCY_BUCKETS);
	return true;
}
