/* SPDX-License-Identifier: MIT */
/*
 * An object is next to itself in a chain that meets its slab, where another one is still in use.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", NOSHEAF);
	void *o[4];

	need(!uslub_cache_alloc_bulk(c, 0, 4, o));
	if (fault) {
		o[3] = o[2];
		blame(o[2]);
	}
	uslub_cache_free_bulk(c, 4, o);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
