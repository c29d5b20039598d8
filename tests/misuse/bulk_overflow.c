/* SPDX-License-Identifier: MIT */
/*
 * More objects are asked for than an array of pointers could hold: refused, and nothing is taken.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include "misuse.h"

static const size_t absurd[] = {
	SIZE_MAX,
	SIZE_MAX / 2,
	SIZE_MAX / sizeof(void *) + 1, /* 0 bytes, when it wraps */
	SIZE_MAX / sizeof(void *) + 5,
};

static void try(struct uslub_cache *c)
{
	void *o[4] = { NULL }, *more;

	for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
		need(uslub_cache_alloc_bulk(c, 0, absurd[i], o) == -EINVAL);
		need(uslub_cache_alloc_bulk(c, USLUB_NOLOCK | USLUB_ZERO, absurd[i], o) == -EINVAL);
		need(!o[0] && !o[3]);
	}
	need(stat_of(c, USLUB_STAT_slabs) == 0);
	/* the control: what fits is served */
	need(!uslub_cache_alloc_bulk(c, 0, 4, o));
	more = object(c);
	for (unsigned i = 0; i < 4; i++)
		need(o[i] && o[i] != more);
	uslub_cache_free_bulk(c, 4, o);
	uslub_cache_free(c, more);
	destroy(c);
}

int main(void)
{
	try(cache("sheaves", SHEAVES));
	try(cache("no-sheaves", NOSHEAF));
	return 0;
}
