/* SPDX-License-Identifier: MIT */
/*
 * Atomics, by the compiler's builtins. Names say the order; everything that both reads and writes is
 * acquire and release at once.
 */
#ifndef USLUB_LINUX_PLAT_ATOMIC_H
#define USLUB_LINUX_PLAT_ATOMIC_H

#define plat_load(p)		 __atomic_load_n(p, __ATOMIC_RELAXED)
#define plat_load_acquire(p)	 __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define plat_store(p, v)	 __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define plat_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define plat_exchange(p, v)	 __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define plat_fetch_add(p, v)	 __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL)
#define plat_fetch_sub(p, v)	 __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL)
#define plat_fetch_or(p, v)	 __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL)
#define plat_fetch_and(p, v)	 __atomic_fetch_and(p, v, __ATOMIC_ACQ_REL)

/* Of what hardly ever changes, or is for onlookers only: machines that count what memory costs leave it out. */
#define plat_load_quiet(p)     plat_load(p)
#define plat_store_quiet(p, v) plat_store(p, v)

#define plat_touch(p) ((void)(p))

/* Orders everything before against everything after. */
#define plat_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* *p from *old to v; on failure *old is what was there. */
#define plat_cas(p, old, v)                                                                        \
	__atomic_compare_exchange_n(p, old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

#endif /* USLUB_LINUX_PLAT_ATOMIC_H */
