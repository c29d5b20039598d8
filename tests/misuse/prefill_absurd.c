/* SPDX-License-Identifier: MIT */
/*
 * Sheaves are asked to hold nothing, or more than can be: refused, and what is there stays.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include <limits.h>
#include "misuse.h"

static const unsigned absurd[] = { 0, 1u << 20, 1u << 28, INT_MAX, UINT_MAX - 4, UINT_MAX };

static void try(struct uslub_cache *c)
{
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, 3), *before = s;
	unsigned had;

	need(s);
	had = uslub_sheaf_size(s);
	for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
		errno = 0;
		need(!uslub_cache_prefill_sheaf(c, 0, absurd[i]) && errno == EINVAL);
		errno = 0;
		need(!uslub_cache_prefill_sheaf(c, USLUB_NOLOCK, absurd[i]) && errno == EINVAL);
		need(uslub_cache_refill_sheaf(c, 0, &s, absurd[i]) == -EINVAL);
		need(s == before && uslub_sheaf_size(s) == had);
	}
	/* the control: many are not too many */
	need(!uslub_cache_refill_sheaf(c, 0, &s, 20000) && uslub_sheaf_size(s) >= 20000);
	for (unsigned i = 0; i < 20000; i++) {
		void *o = uslub_cache_alloc_from_sheaf(c, USLUB_ZERO, s);

		need(o);
		uslub_cache_free(c, o);
	}
	uslub_cache_return_sheaf(c, 0, s);
	uslub_cache_free(c, object(c));
	destroy(c);
}

int main(void)
{
	try(cache("sheaves", SHEAVES));
	try(cache("no-sheaves", NOSHEAF));
	return 0;
}
