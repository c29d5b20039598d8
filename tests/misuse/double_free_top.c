/* SPDX-License-Identifier: MIT */
/*
 * An object is freed twice in a row: it is found on top of the sheaf, at once.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *o[2];

	o[0] = object(c);
	o[1] = object(c);
	uslub_cache_free(c, o[0]);
	uslub_cache_free(c, o[1]);
	if (fault) {
		blame(o[1]);
		uslub_cache_free(c, o[1]);
		return;
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	stay_here();
	return misuse(scenario);
}
