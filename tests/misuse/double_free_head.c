/* SPDX-License-Identifier: MIT */
/*
 * An object is freed twice in a row, each time straight to its slab, where others are in use.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", NOSHEAF);
	void *o[3];

	need(!uslub_cache_alloc_bulk(c, 0, 3, o));
	uslub_cache_free(c, o[1]);
	if (fault) {
		blame(o[1]);
		uslub_cache_free(c, o[1]);
		return;
	}
	uslub_cache_free(c, o[0]);
	uslub_cache_free(c, o[2]);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
