/* SPDX-License-Identifier: MIT */
/* Atomic operations on the simulated machine: a point, a cost, then the operation itself. */
#ifndef USLUB_SIM_PLAT_ATOMIC_H
#define USLUB_SIM_PLAT_ATOMIC_H

#include "base/base.h"

enum sim_access { SIM_READ, SIM_WRITE, SIM_ATOMIC };

/* Lets others come first whose time it is, and charges for the line. */
hidden void sim_access(const volatile void *p, enum sim_access how);

/* Exploring, a compare-exchange that succeeded is told. */
hidden extern bool sim_watched;
hidden void sim_exchanged(const volatile void *p, uint64_t before, uint64_t after);

hidden void plat_touch(const void *object);

#define plat_load(p)                                                                               \
	({                                                                                         \
		sim_access(p, SIM_READ);                                                           \
		__atomic_load_n(p, __ATOMIC_RELAXED);                                              \
	})
#define plat_load_acquire(p)   plat_load(p)
#define plat_load_quiet(p)     __atomic_load_n(p, __ATOMIC_RELAXED)
#define plat_store_quiet(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define plat_store(p, v)                                                                           \
	({                                                                                         \
		__typeof__(*(p)) sim_value = (v);                                                  \
		sim_access(p, SIM_WRITE);                                                          \
		__atomic_store_n(p, sim_value, __ATOMIC_RELAXED);                                  \
	})
#define plat_store_release(p, v) plat_store(p, v)
#define sim_rmw(op, p, v)                                                                          \
	({                                                                                         \
		__typeof__(*(p)) sim_value = (v);                                                  \
		sim_access(p, SIM_ATOMIC);                                                         \
		op(p, sim_value, __ATOMIC_RELAXED);                                                \
	})
#define plat_exchange(p, v)  sim_rmw(__atomic_exchange_n, p, v)
#define plat_fetch_add(p, v) sim_rmw(__atomic_fetch_add, p, (__typeof__(*(p)))(v))
#define plat_fetch_sub(p, v) sim_rmw(__atomic_fetch_sub, p, (__typeof__(*(p)))(v))
#define plat_fetch_or(p, v)  sim_rmw(__atomic_fetch_or, p, v)
#define plat_fetch_and(p, v) sim_rmw(__atomic_fetch_and, p, v)

#define plat_fence() ((void)0)

#define plat_cas(p, old, v)                                                                        \
	({                                                                                         \
		__typeof__(*(p)) sim_value = (v);                                                  \
		bool sim_done;                                                                     \
		sim_access(p, SIM_ATOMIC);                                                         \
		sim_done = __atomic_compare_exchange_n(p, old, sim_value, false, __ATOMIC_RELAXED, \
						       __ATOMIC_RELAXED);                          \
		if (unlikely(sim_watched) && sim_done)                                             \
			sim_exchanged(p, (uint64_t) * (old), (uint64_t)sim_value);                 \
		sim_done;                                                                          \
	})

#endif /* USLUB_SIM_PLAT_ATOMIC_H */
