/* SPDX-License-Identifier: MIT */
/*
 * A pointer to the middle of an object is freed.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ does not point to the start of an object$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	char *o = object(c);

	if (fault)
		o += 8;
	blame(o);
	uslub_cache_free(c, o);
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
