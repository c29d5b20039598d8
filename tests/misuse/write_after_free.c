/* SPDX-License-Identifier: MIT */
/*
 * An object is written to after it was freed, and allocated again.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: free object 0x[0-9a-f]+ was written to: its link is corrupt$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *o = object(c), *other = object(c), *again[64];

	uslub_cache_free(c, o);
	flush(c);
	if (fault) {
		blame(o);
		memset(o, 0x5a, 64);
	}
	for (unsigned i = 0; i < 64; i++)
		again[i] = object(c);
	for (unsigned i = 0; i < 64; i++)
		uslub_cache_free(c, again[i]);
	uslub_cache_free(c, other);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
