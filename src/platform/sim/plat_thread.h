/* SPDX-License-Identifier: MIT */
/*
 * What a simulated thread is in the middle of; see platform/linux/plat_thread.h for what places and raised
 * counts are good for. There are no signal handlers here, so nothing is ever interrupted by its own thread.
 */
#ifndef USLUB_SIM_PLAT_THREAD_H
#define USLUB_SIM_PLAT_THREAD_H

#include "base/base.h"
#include "plat_atomic.h"

struct plat_place {
	const void *what;
	struct plat_place *outer;
};

static inline void plat_enter(struct plat_place *here, const void *what)
{
	*here = (struct plat_place){ what, NULL };
}

static inline void plat_leave(const struct plat_place *here)
{
	(void)here;
}

static inline bool plat_thread_in(const void *what)
{
	(void)what;
	return false;
}

static inline bool plat_thread_busy(void)
{
	return false;
}

/* Somebody else may come here, when exploring. */
hidden void plat_point(unsigned point);

#endif /* USLUB_SIM_PLAT_THREAD_H */
