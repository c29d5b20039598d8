/* SPDX-License-Identifier: MIT */
/*
 * An object is in the array of a bulk free twice, as its own neighbour.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: object 0x[0-9a-f]+ was freed twice$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *o[4];

	for (unsigned i = 0; i < 4; i++)
		o[i] = object(c);
	if (fault) {
		o[3] = o[2];
		blame(o[2]);
		uslub_cache_free_bulk(c, 4, o);
		return;
	}
	uslub_cache_free_bulk(c, 4, o);
	flush(c);
	destroy(c);
}

int main(void)
{
	stay_here();
	return misuse(scenario);
}
