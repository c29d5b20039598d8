/* SPDX-License-Identifier: MIT */
/*
 * A pointer to the stack is freed.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ is not from any cache$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	char local[64] __attribute__((aligned(64)));

	uslub_cache_free(c, object(c));
	if (fault) {
		blame(local);
		uslub_cache_free(c, local);
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
