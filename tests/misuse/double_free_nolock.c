/* SPDX-License-Identifier: MIT */
/*
 * The same from any context, with the sheaf full: its place would be another sheaf.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", 1);
	void *o[2];

	/* one CPU has two sheaves of one object each */
	o[0] = object(c);
	o[1] = object(c);
	uslub_cache_free(c, o[0]);
	if (fault) {
		blame(o[0]);
		uslub_cache_free_nolock(c, o[0]);
		return;
	}
	uslub_cache_free_nolock(c, o[1]);
	flush(c);
	destroy(c);
}

int main(void)
{
	stay_here();
	return misuse(scenario);
}
