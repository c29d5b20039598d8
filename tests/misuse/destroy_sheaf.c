/* SPDX-License-Identifier: MIT */
/*
 * A cache is destroyed while a prefilled sheaf is out: refused, and it stays usable, and so does the
 * sheaf.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include "misuse.h"

static void try(struct uslub_cache *c, unsigned n)
{
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, n);

	need(s);
	need(uslub_cache_destroy(c) == -EBUSY);
	need(uslub_cache_find("victim") == c);
	need(uslub_sheaf_size(s) >= n);
	for (unsigned i = 0; i < n; i++) {
		void *o = uslub_cache_alloc_from_sheaf(c, 0, s);

		need(o);
		uslub_cache_free(c, o);
	}
	/* with nothing in it either */
	while (uslub_sheaf_size(s))
		uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, s));
	need(uslub_cache_destroy(c) == -EBUSY);
	uslub_cache_return_sheaf(c, 0, s);
}

int main(void)
{
	struct uslub_cache *c = cache("victim", SHEAVES);

	try(c, 5);
	try(c, 500); /* more than a sheaf of the cache holds */
	destroy(c);
	return 0;
}
