/* SPDX-License-Identifier: MIT */
/*
 * A lock that knows how often it was taken, by whom, and how long it was waited for.
 *
 * The figures lie next to the lock, in the cache line that its holder has anyway, and are changed only by
 * him: so they cost neither an atomic nor a miss, and stay on. The clock is read only by who has to wait.
 */
#ifndef USLUB_STATS_COUNTED_LOCK_H
#define USLUB_STATS_COUNTED_LOCK_H

#include "base/base.h"
#include "platform/platform.h"

enum lock_side {
	LOCK_ALLOC, /* for an allocation */
	LOCK_FREE,  /* for a free */
	LOCK_OTHER, /* shrinking, counting */
	LOCK_SIDES
};

struct counted_lock {
	struct plat_lock lock;
	uint64_t taken[LOCK_SIDES]; /* under the lock, as all below */
	uint64_t contended;
	uint64_t waited; /* nanoseconds */
};

static inline void counted_lock_init(struct counted_lock *l, enum plat_rank rank)
{
	*l = (struct counted_lock){ 0 };
	plat_lock_init(&l->lock, rank);
}

static inline void counted_lock_bump(uint64_t *figure, uint64_t n)
{
	plat_store(figure, *figure + n);
}

static inline bool counted_trylock(struct counted_lock *l, enum lock_side side)
{
	if (!plat_trylock(&l->lock))
		return false;
	counted_lock_bump(&l->taken[side], 1);
	return true;
}

hidden void counted_lock_wait(struct counted_lock *l);

static inline void counted_lock(struct counted_lock *l, enum lock_side side)
{
	if (plat_lock_debug)
		plat_lock_check(&l->lock);
	if (unlikely(!plat_trylock(&l->lock)))
		counted_lock_wait(l);
	counted_lock_bump(&l->taken[side], 1);
}

static inline void counted_unlock(struct counted_lock *l)
{
	plat_unlock(&l->lock);
}

#endif /* USLUB_STATS_COUNTED_LOCK_H */
