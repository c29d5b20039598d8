/* SPDX-License-Identifier: MIT */
/*
 * A pointer from malloc is freed to a cache.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ is not from any cache$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *theirs = malloc(64), *ours = object(c);

	need(theirs);
	memset(theirs, 0x22, 64);
	blame(theirs);
	uslub_cache_free(c, fault ? theirs : ours);
	flush(c);
	free(theirs);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
