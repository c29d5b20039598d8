/* SPDX-License-Identifier: MIT */
/*
 * A deferred free of an object of another cache. The library's own thread finds it.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ belongs to cache owner$
 */
#include <urcu/urcu-memb.h>
#include "misuse.h"

static void scenario(bool fault)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &urcu_memb_flavor,
	};
	struct uslub_cache *owner = uslub_cache_create("owner", 64, &args);
	struct uslub_cache *c = uslub_cache_create("victim", 64, &args);
	void *o;

	need(owner && c);
	o = object(owner);
	blame(o);
	uslub_cache_free_rcu(fault ? c : owner, o);
	uslub_cache_barrier_rcu(c);
	uslub_cache_barrier_rcu(owner);
	flush(c);
	destroy(c);
	destroy(owner);
}

int main(void)
{
	return misuse(scenario);
}
