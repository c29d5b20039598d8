/* SPDX-License-Identifier: MIT */
/*
 * The second free of an object finds it at the head of its slab's chain, whose link the zeros have wiped out.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = zeroing("victim", NOSHEAF);
	void *o[4], *first;

	need(!uslub_cache_alloc_bulk(c, 0, 4, o));
	first = o[0];
	uslub_cache_free_bulk(c, 3, o);
	blame(first);
	uslub_cache_free_nolock(c, fault ? first : o[3]);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
