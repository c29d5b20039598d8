/* SPDX-License-Identifier: MIT */
/*
 * Published figures (published.def) beside the model's.
 *
 * A run is a side by the policy that was in force. Counts are taken per nanosecond of virtual time, since what was
 * published counted for equally long.
 */
#include <math.h>
#include <string.h>
#include "bench.h"
#include "tool.h"

enum side_bit {
	BASE = 1,
	PATCH = 2,
	PARK = 4,
	BOTH = 8,
	SCAN = 16,
	ATOMIC = 32,
	PERCPU = 64,
};

#define SIDES 7u

struct side {
	double throughput;
	double cpu_time; /* ns per operation, of all CPUs that were not idle */
	double rest_slabs;
	double values[USLUB_STAT_COUNT]; /* per nanosecond */
};

/* All sides that there are, by the number of their bit. */
struct sides {
	unsigned there;
	struct side at[SIDES];
};

static unsigned side_of(const struct bench *b, const struct uslub_policy *policy)
{
	bool barn = policy->prefill_barn == USLUB_POLICY_ON;
	bool parking = policy->parking == USLUB_POLICY_ON;

	if (b->options->workload->id == WL_mmap1)
		return (barn ? 1 : 0) + (parking ? 2 : 0);
	return policy->partial_count == USLUB_POLICY_SCAN     ? 4
	       : policy->partial_count == USLUB_POLICY_ATOMIC ? 5
							      : 6;
}

static void collect(const struct bench *b, struct sides *sides)
{
	struct bench_result total;

	memset(sides, 0, sizeof(*sides));
	for (unsigned i = 0; i < b->runs_count; i++) {
		unsigned which;
		struct side *side;

		if (!bench_total(b, &b->runs[i], &total))
			continue;
		which = side_of(b, &total.policy);
		/* Of two runs that differ in something else nothing was published. */
		if (sides->there & 1u << which)
			continue;
		side = &sides->at[which];
		sides->there |= 1u << which;
		side->throughput = bench_throughput(b, &b->runs[i]).median;
		side->rest_slabs = total.sim.rest_slabs;
		for (unsigned k = 0; k < SIM_TIMES; k++)
			side->cpu_time += total.sim.time_ns[k] / (double)total.ops;
		for (unsigned k = 0; k < USLUB_STAT_COUNT; k++)
			side->values[k] = total.values[k] / (double)total.ns;
	}
}

static double change(double before, double after)
{
	return 100 * (after / before - 1);
}

static double transitions(const struct side *side)
{
	return side->values[USLUB_STAT_partial_to_partial] +
	       side->values[USLUB_STAT_full_to_partial] +
	       side->values[USLUB_STAT_partial_to_empty] + side->values[USLUB_STAT_full_to_empty];
}

#define STAT(side, name)      ((side)->values[USLUB_STAT_##name])
#define RATE(side)	      ((side)->throughput)
#define CPU_TIME(side)	      ((side)->cpu_time)
#define CHANGE(before, after) change(before, after)
#define TRANSITIONS(side)     transitions(side)

#define FIGURE(workload, key, name, unit, decimals, published, said, fitted, needs, expression)    \
	static double compute_##workload##_##key(const struct side sides[])                        \
	{                                                                                          \
		const struct side *base = &sides[0], *patch = &sides[1], *park = &sides[2];        \
		const struct side *both = &sides[3], *scan = &sides[4], *atomic = &sides[5];       \
		const struct side *percpu = &sides[6];                                             \
                                                                                                   \
		(void)base, (void)patch, (void)park, (void)both;                                   \
		(void)scan, (void)atomic, (void)percpu;                                            \
		return expression;                                                                 \
	}
#include "published.def"
#undef FIGURE

enum { PREDICTED, FITTED };

static const struct {
	enum wl_id workload;
	struct sim_figure figure;
	unsigned needs;
	double (*compute)(const struct side sides[]);
} figures[] = {
#define FIGURE(workload, key, name, unit, decimals, published, said, fitted, needs, expression)    \
	{ WL_##workload,                                                                           \
	  { 0, #key, name, unit, said, published, 0, decimals, fitted == FITTED },                 \
	  needs,                                                                                   \
	  compute_##workload##_##key },
#include "published.def"
#undef FIGURE
};

/* The first figure from @at on whose sides are all there. */
static bool find(const struct bench *b, unsigned at, struct sim_figure *figure)
{
	struct sides sides;

	collect(b, &sides);
	for (; at < TOOL_COUNT(figures); at++) {
		if (figures[at].workload != b->options->workload->id ||
		    (figures[at].needs & ~sides.there))
			continue;
		*figure = figures[at].figure;
		figure->at = at;
		figure->model = figures[at].compute(sides.at);
		/* A short run may have counted nothing of it. */
		if (isfinite(figure->model))
			return true;
	}
	return false;
}

const char *sim_published_machine(const struct bench_options *o)
{
	return o->workload->id == WL_mmap1 ? "epyc192" : "xeon32";
}

bool sim_published_begin(const struct bench *b, struct sim_figure *figure)
{
	return find(b, 0, figure);
}

bool sim_published_next(const struct bench *b, struct sim_figure *figure)
{
	return find(b, figure->at + 1, figure);
}
