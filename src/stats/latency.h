/* SPDX-License-Identifier: MIT */
/*
 * How long slow paths take: a histogram for each path of <uslub/latency.def>, with policy latency=on.
 *
 * The histograms are columns behind a cache's other counters (counters.h), so they are per CPU, bumped by a
 * sequence, and not there at all where the policy is off. A slow path then pays for one branch. With it on
 * it pays for two readings of the clock and two counts.
 *
 * A column for each power of two: bucket b has what took less than 2^(b+1) ns and not less than 2^b, the
 * first one also 0 ns, the last one all that took longer. Behind them is the sum.
 */
#ifndef USLUB_STATS_LATENCY_H
#define USLUB_STATS_LATENCY_H

#include <uslub/stats.h>
#include "base/base.h"
#include "stats/counters.h"

/* Adds the columns, after counters_layout() and before the words are had. */
hidden void latency_layout(struct counters *c);
hidden void latency_note(const struct counters *c, enum uslub_latency which, uint64_t began);
/* Sums over all slots. False: there are no columns. */
hidden bool latency_read(const struct counters *c, enum uslub_latency which,
			 struct uslub_latency_histogram *h);

/* [any] What a slow path does when it begins and when it ends. */
static inline uint64_t latency_begin(const struct counters *c)
{
	return unlikely(c->latency) ? plat_clock() : 0;
}

static inline void latency_end(const struct counters *c, enum uslub_latency which, uint64_t began)
{
	if (unlikely(c->latency))
		latency_note(c, which, began);
}

#endif /* USLUB_STATS_LATENCY_H */
