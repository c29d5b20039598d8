/* SPDX-License-Identifier: MIT */
/*
 * An object lies in a sheaf twice, with others of its slab, and all meet the slab as one chain.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *o[8];

	/* straight from the slab: no sheaf holds others of it */
	need(!uslub_cache_alloc_bulk(c, 0, 8, o));
	for (unsigned i = 0; i < 8; i++)
		uslub_cache_free(c, o[i]);
	if (fault) {
		blame(o[3]);
		uslub_cache_free(c, o[3]);
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
