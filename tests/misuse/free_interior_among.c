/* SPDX-License-Identifier: MIT */
/*
 * A pointer to the middle of an object is freed in between objects of the same slab, with which it is
 * chained.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ does not point to the start of an object$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", NOSHEAF);
	void *o[5];

	need(!uslub_cache_alloc_bulk(c, 0, 5, o));
	if (fault)
		o[2] = (char *)o[2] + 32;
	blame(o[2]);
	uslub_cache_free_bulk(c, 5, o);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
