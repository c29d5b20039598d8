/* SPDX-License-Identifier: MIT */
/*
 * An object of one cache is freed to another of the same size.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ belongs to cache owner$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *owner = cache("owner", SHEAVES), *c = cache("victim", SHEAVES);
	void *o = object(owner);

	uslub_cache_free(c, object(c));
	blame(o);
	uslub_cache_free(fault ? c : owner, o);
	flush(c);
	destroy(c);
	destroy(owner);
}

int main(void)
{
	return misuse(scenario);
}
