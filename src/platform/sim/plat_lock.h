/* SPDX-License-Identifier: MIT */
/* Locks of the simulated machine; how they are handed over is told in lock.c. */
#ifndef USLUB_SIM_PLAT_LOCK_H
#define USLUB_SIM_PLAT_LOCK_H

#include "base/base.h"
#include "plat_atomic.h"
#include "plat_thread.h"

struct plat_lock {
	uint16_t owner; /* number of the thread + 1; 0: free */
	uint16_t first; /* waiting threads, by number + 1, linked in the threads */
	uint16_t last;
	uint16_t pad;
	uint32_t rank; /* enum plat_rank */
	uint32_t fork; /* the core's */
};

/* Lock order is checked in the builds for tests of platform/linux. */
enum { plat_lock_debug = 0 };

hidden void plat_lock(struct plat_lock *l);
hidden bool plat_trylock(struct plat_lock *l);
hidden void plat_unlock(struct plat_lock *l);
hidden bool plat_lock_mine(const struct plat_lock *l);
hidden uint64_t plat_self(void);

static inline uint64_t plat_lock_owner(const struct plat_lock *l)
{
	return l->owner;
}

static inline void plat_lock_init(struct plat_lock *l, unsigned rank)
{
	*l = (struct plat_lock){ .rank = rank };
}

/* What fork asks; nothing of it waits, and there are no signal handlers here. */
static inline bool plat_lock_amid(const struct plat_lock *l)
{
	return plat_lock_mine(l) && !l->fork;
}

hidden bool plat_lock_seize(struct plat_lock *l);
hidden void plat_lock_thaw(struct plat_lock *l, bool child);

static inline bool plat_lock_freeze(struct plat_lock *l)
{
	(void)l;
	return false;
}

static inline bool plat_lock_lose(struct plat_lock *l)
{
	(void)l;
	return false;
}

static inline void plat_still_begin(void)
{
}

static inline void plat_still_end(void)
{
}

static inline void plat_lock_check(const struct plat_lock *l)
{
	(void)l;
}

#endif /* USLUB_SIM_PLAT_LOCK_H */
