/* SPDX-License-Identifier: MIT */
/*
 * A prefilled sheaf is returned to another cache, whose sheaves are as large.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: returned sheaf 0x[0-9a-f]+ belongs to another cache$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *owner = cache("owner", SHEAVES), *c = cache("victim", SHEAVES);
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(owner, 0, 3);

	need(s && uslub_sheaf_size(s) >= 3);
	uslub_cache_free(owner, uslub_cache_alloc_from_sheaf(owner, 0, s));
	blame(s);
	uslub_cache_return_sheaf(fault ? c : owner, 0, s);
	destroy(c);
	destroy(owner);
}

int main(void)
{
	return misuse(scenario);
}
