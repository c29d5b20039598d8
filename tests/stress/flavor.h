/* SPDX-License-Identifier: MIT */
/*
 * A flavor of liburcu, watched: grace periods are counted and timed, and a test can get in between.
 *
 * ThreadSanitizer does not see how liburcu, which it did not compile, orders readers before the end of a
 * grace period. For it, readers leave their sections by a release and a grace period ends by an acquire.
 */
#ifndef TESTS_STRESS_FLAVOR_H
#define TESTS_STRESS_FLAVOR_H

#include <urcu/urcu-memb.h>
#include "stress.h"

static struct rcu_flavor_struct flavor; /* what caches are given */

static struct {
	void (*synchronize)(void);
	uint64_t left; /* sections that readers have left; counted for ThreadSanitizer only */
	uint64_t grace_periods;
	uint64_t longest_ns;
	void (*before)(void); /* called before each grace period */
	void (*after)(void);
} watched;

static inline void reader_enter(void)
{
	flavor.read_lock();
}

static inline void reader_leave(void)
{
	if (STRESS_TSAN)
		__atomic_add_fetch(&watched.left, 1, __ATOMIC_RELEASE);
	flavor.read_unlock();
}

static inline void watched_synchronize(void)
{
	void (*before)(void) = load(&watched.before), (*after)(void) = load(&watched.after);
	double start = now();
	uint64_t took;

	if (before)
		before();
	watched.synchronize();
	(void)load(&watched.left);
	if (after)
		after();
	bump(&watched.grace_periods, 1);
	took = (uint64_t)((now() - start) * 1e9);
	if (took > peek(&watched.longest_ns))
		poke(&watched.longest_ns, took);
}

static inline void flavor_start(const struct rcu_flavor_struct *of)
{
	flavor = *of;
	watched.synchronize = flavor.update_synchronize_rcu;
	flavor.update_synchronize_rcu = watched_synchronize;
}

static inline struct uslub_cache *rcu_cache_like(const char *name, size_t size,
						 const struct uslub_policy *policy)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &flavor,
		.policy = *policy,
	};
	struct uslub_cache *c = uslub_cache_create(name, size, &args);

	if (!c)
		die("uslub_cache_create %s: %s", name, strerror(errno));
	return c;
}

static inline struct uslub_cache *rcu_cache(const char *name, size_t size, uint64_t capacity)
{
	return rcu_cache_like(name, size, &(struct uslub_policy){ .sheaf_capacity = capacity });
}

#endif /* TESTS_STRESS_FLAVOR_H */
