/* SPDX-License-Identifier: MIT */
/*
 * An object is freed twice, each time straight to its slab, where nothing else is in use.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", NOSHEAF);
	void *o = object(c);

	uslub_cache_free(c, o);
	if (fault) {
		blame(o);
		uslub_cache_free(c, o);
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
