/* SPDX-License-Identifier: MIT */
/*
 * A free is deferred twice in a row.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"
#include <urcu/urcu-memb.h>

static void scenario(bool fault)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &urcu_memb_flavor,
	};
	struct uslub_cache *c = uslub_cache_create("victim", 64, &args);
	void *o;

	need(c);
	o = object(c);
	uslub_cache_free_rcu(c, o);
	if (fault) {
		blame(o);
		uslub_cache_free_rcu(c, o);
		return;
	}
	uslub_cache_barrier_rcu(c);
	flush(c);
	destroy(c);
}

int main(void)
{
	stay_here();
	return misuse(scenario);
}
