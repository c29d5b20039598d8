/* SPDX-License-Identifier: MIT */
/*
 * What the thread is in the middle of, in case that a signal handler forks: places (any addresses) that
 * it will set right itself when the handler returns, in the child as well. Handlers may enter places on
 * top, and leave them before they return. A place lives on the stack of who entered it.
 */
#ifndef USLUB_LINUX_PLAT_THREAD_H
#define USLUB_LINUX_PLAT_THREAD_H

#include "base/base.h"
#include "plat_atomic.h"

struct plat_place {
	const void *what;
	struct plat_place *outer;
};

extern __thread struct plat_place *plat_thread_places __attribute__((tls_model("initial-exec")))
hidden;

static inline void plat_enter(struct plat_place *here, const void *what)
{
	*here = (struct plat_place){ what, plat_thread_places };
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	plat_thread_places = here;
}

static inline void plat_leave(const struct plat_place *here)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	plat_thread_places = here->outer;
}

static inline bool plat_thread_in(const void *what)
{
	for (const struct plat_place *p = plat_thread_places; p; p = p->outer)
		if (p->what == what)
			return true;
	return false;
}

/* Locks the thread holds or waits for. A handler leaves it as it found it. */
extern __thread unsigned plat_thread_locks __attribute__((tls_model("initial-exec"))) hidden;

/* May other threads be waiting for this one, which a handler has interrupted? */
static inline bool plat_thread_busy(void)
{
	return plat_thread_locks || plat_thread_places;
}

#endif /* USLUB_LINUX_PLAT_THREAD_H */
