/* SPDX-License-Identifier: MIT */
#ifndef USLUB_LINUX_PLAT_THREAD_H
#define USLUB_LINUX_PLAT_THREAD_H

#include "base/base.h"

/*
 * What the thread is in the middle of, in case that a signal handler forks: a place (any address) that it
 * will set right itself when the handler returns, in the child as well. One at a time; a handler's own
 * places, entered on top, are left before it returns.
 */
extern __thread void *plat_thread_place __attribute__((tls_model("initial-exec"))) hidden;

static inline void plat_thread_enter(void *place)
{
	if (!plat_thread_place)
		plat_thread_place = place;
}

static inline void plat_thread_leave(void *place)
{
	if (plat_thread_place == place)
		plat_thread_place = NULL;
}

static inline bool plat_thread_in(const void *place)
{
	return plat_thread_place == place;
}

#endif /* USLUB_LINUX_PLAT_THREAD_H */
