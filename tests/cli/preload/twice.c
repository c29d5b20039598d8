/* SPDX-License-Identifier: MIT */
/*
 * An allocator that now and then gives out a buffer that somebody has: "hackbench" must see messages
 * change. The next free of such a buffer is swallowed, so that the cache itself stays sound.
 */
#include <dlfcn.h>
#include <uslub/uslub.h>

#define SIZE 512 /* of a buffer */

static void *doubled;

void *uslub_cache_alloc(struct uslub_cache *c, unsigned flags)
{
	static __thread void *last;
	static __thread unsigned calls;
	void *(*real)(struct uslub_cache *, unsigned) = dlsym(RTLD_NEXT, "uslub_cache_alloc");
	void *none = NULL;
	uint64_t size = 0;

	uslub_cache_stat(c, USLUB_STAT_object_size, &size);
	if (size != SIZE)
		return real(c, flags);
	/* Whoever got it a moment ago has hardly freed it yet. */
	if (last && ++calls % 50 == 0 &&
	    __atomic_compare_exchange_n(&doubled, &none, last, 0, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		return last;
	last = real(c, flags);
	return last;
}

void uslub_cache_free(struct uslub_cache *c, void *object)
{
	void (*real)(struct uslub_cache *, void *) = dlsym(RTLD_NEXT, "uslub_cache_free");
	void *expected = object;

	if (object && __atomic_compare_exchange_n(&doubled, &expected, NULL, 0, __ATOMIC_SEQ_CST,
						  __ATOMIC_SEQ_CST))
		return;
	real(c, object);
}
