/* SPDX-License-Identifier: MIT */
/*
 * A deferred free in a cache that was created without a flavor.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: uslub_cache_free_rcu\(\) of 0x[0-9a-f]+, but the cache was created without an RCU flavor \(uslub_cache_args.rcu\)$
 */
#include <urcu/urcu-memb.h>
#include "misuse.h"

static void scenario(bool fault)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = fault ? NULL : &urcu_memb_flavor,
	};
	struct uslub_cache *c = uslub_cache_create("victim", 64, &args);
	void *o;

	need(c);
	o = object(c);
	blame(o);
	uslub_cache_free_rcu(c, o);
	uslub_cache_barrier_rcu(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
