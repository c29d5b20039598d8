/* SPDX-License-Identifier: MIT */
/* The per-CPU slots of a cache. The protocol is platform/percpu.h; this file opens and closes them. */
#ifndef USLUB_TIERS_PERCPU_H
#define USLUB_TIERS_PERCPU_H

#include "base/base.h"
#include "base/sheaf.h"
#include "platform/platform.h"

/* Which of a CPU's two slots, as an offset into struct pcs. */
enum pcs_part {
	PCS_MAIN = offsetof(struct pcs, main),
	PCS_RCU = offsetof(struct pcs, rcu),
};

/*
 * The slots of a cache, one struct pcs for each CPU. They follow each other, or other caches' lie in between,
 * where a group of caches has its slots of one CPU in one page.
 */
struct pcs_set {
	struct pcs *first;
	size_t stride; /* bytes */
};

static inline struct pcs *pcs_of(const struct pcs_set *set, unsigned cpu)
{
	return (struct pcs *)((char *)set->first + cpu * set->stride);
}

static inline struct percpu_slot *pcs_slot(const struct pcs_set *set, unsigned cpu,
					   enum pcs_part part)
{
	return (struct percpu_slot *)((char *)pcs_of(set, cpu) + part);
}

/* What a close found in a slot: two sheaves with their fill written, and the pops so far. */
struct pcs_contents {
	struct uslub_sheaf *sheaf[2];
	uint64_t allocs;
	unsigned avail; /* of main, before */
};

/*
 * pcs_drain - empty slots of other CPUs
 * @set: the slots of a cache
 * @part: which slot of each CPU
 * @first, @last: slots first..last-1
 * @taken: called for every slot that held anything, with what was in it
 *
 * Closes the slots, makes sure that no sequence is still under way in them (section 1 of percpu.c),
 * takes their sheaves and pops out and opens them again, empty. Serialised by the caller, per cache.
 * Returns 0 or what membarrier(2) said, in which case the slots are as before.
 */
hidden int pcs_drain(const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned last,
		     void (*taken)(void *arg, unsigned cpu, const struct pcs_contents *contents),
		     void *arg);

/*
 * The same where nobody can be using the cache any more: no membarrier, so it cannot fail. Serialised as
 * well.
 */
hidden void pcs_drain_dead(
	const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned last,
	void (*taken)(void *arg, unsigned cpu, const struct pcs_contents *contents), void *arg);

/*
 * In the child of a fork: slots that threads of the parent had closed are opened, and their detached RCU
 * sheaves are no longer waited for, since those threads are gone. Those that the forking thread itself has
 * closed, interrupted by a signal handler, it will find as it left them.
 */
hidden void pcs_child(const struct pcs_set *set, unsigned nslots);

#endif /* USLUB_TIERS_PERCPU_H */
