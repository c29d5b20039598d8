/* SPDX-License-Identifier: MIT */
/*
 * Event counters of a cache: one block of 64-bit words per slot (CPU or foreign), summed when read.
 *
 * Every bump is a sequence of the CPU (seq_add), or atomic on a foreign slot: a plain ++ would lose
 * counts when the thread is preempted or migrated in between. Only slow paths count here; the fast
 * paths' figures come out of the per-CPU words (platform/percpu.h section 3) by way of the three
 * internal counters at the end.
 */
#ifndef USLUB_STATS_COUNTERS_H
#define USLUB_STATS_COUNTERS_H

#include "base/base.h"
#include "platform/platform.h"

#define COUNTER_OF_COUNTER(name) CTR_##name,
#define COUNTER_OF_DERIVED(name)
#define COUNTER_OF_ATTRIBUTE(name)
#define COUNTER_OF_GAUGE(name)
#define COUNTER_OF_FLAG(name)

enum counter {
#define USLUB_STAT(name, kind, help) COUNTER_OF_##kind(name)
#include <uslub/stats.def>
#undef USLUB_STAT
	CTR_jump,	   /* avail of main slots changed by anything but pops and pushes */
	CTR_rcu_jump,	   /* the same of rcu slots */
	CTR_allocs_folded, /* pops that a close took out of the words */
	CTR_COUNT
};

/*
 * Quantities of a node that go up and down, kept as per-CPU deltas in columns behind the counters. A
 * reading sums them; single columns mean nothing.
 */
enum node_counter {
	NODE_FREE_LISTED, /* free objects in slabs on the partial list */
	NODE_FREE_PARKED, /* free objects in parked slabs */
	NODE_COUNTERS
};

/*
 * Behind the last slot's words lies one bit for every slot: whether it has ever been used. A reading looks
 * at no others, so that its cost goes by the CPUs that are at work, not by those that there could be.
 */
struct counters {
	uint64_t *words;
	unsigned nslots;
	unsigned stride;  /* words of a slot: whole cache lines */
	unsigned used_at; /* words of all slots: where the bits begin */
	unsigned latency; /* first column of the histograms (latency.h); 0: there are none */
};

/* Says how large the words must be; they are the caller's to get, zeroed. */
hidden void counters_layout(struct counters *c, unsigned nslots, unsigned nnodes);
hidden void counters_widen(struct counters *c, size_t bytes); /* room behind each slot's words */
hidden size_t counters_bytes(const struct counters *c);
hidden size_t counters_used_bytes(const struct counters *c); /* of the bits alone */
hidden void counters_use_slow(const struct counters *c, unsigned slot);
/* `which` is an enum counter or a counter_of_node(). */
hidden void counters_add_slow(const struct counters *c, unsigned which, uint64_t n);
hidden uint64_t counters_sum(const struct counters *c, unsigned which);

static inline unsigned counter_of_node(unsigned node, enum node_counter which)
{
	return CTR_COUNT + node * NODE_COUNTERS + which;
}

static inline uint64_t *counter_word(const struct counters *c, unsigned slot, unsigned which)
{
	return &c->words[(size_t)slot * c->stride + which];
}

static inline uint64_t *counters_used(const struct counters *c)
{
	return &c->words[c->used_at];
}

static inline bool counters_in_use(const struct counters *c, unsigned slot)
{
	return plat_load_quiet(&counters_used(c)[slot / 64]) >> slot % 64 & 1;
}

/* [any] There is, or will be, something in the slot: here, or of the cache's CPU. */
static inline void counters_use(const struct counters *c, unsigned slot)
{
	if (unlikely(!counters_in_use(c, slot)))
		counters_use_slow(c, slot);
}

/*
 * [any] The thread was on this slot a moment ago, and the slot is in use. A negative n is given as its two's
 * complement.
 */
static inline void counters_add_at(const struct counters *c, unsigned slot, unsigned which,
				   uint64_t n)
{
	if (unlikely(slot >= c->nslots ||
		     seq_add(slot, counter_word(c, slot, which), n) != SEQ_DONE))
		counters_add_slow(c, which, n);
}

static inline void counters_add(const struct counters *c, unsigned which, uint64_t n)
{
	unsigned slot = plat_slot();

	if (unlikely(slot >= c->nslots || !counters_in_use(c, slot)))
		counters_add_slow(c, which, n);
	else
		counters_add_at(c, slot, which, n);
}

static inline void count(const struct counters *c, enum counter which)
{
	counters_add(c, which, 1);
}

#endif /* USLUB_STATS_COUNTERS_H */
