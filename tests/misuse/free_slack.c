/* SPDX-License-Identifier: MIT */
/*
 * A pointer behind the last object of a slab is freed, where one more would begin.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ does not point to the start of an object$
 */
#include "misuse.h"

static void scenario(bool fault)
{
	struct uslub_cache *c = uslub_cache_create("victim", 1000, NULL);
	size_t n, distance;
	char *o[512], *last;

	need(c);
	n = stat_of(c, USLUB_STAT_objs_per_slab);
	distance = stat_of(c, USLUB_STAT_slab_size);
	need(n <= 512 && (n * distance) % 4096);
	need(!uslub_cache_alloc_bulk(c, 0, n, (void **)o));
	last = o[0];
	for (size_t i = 1; i < n; i++)
		if (o[i] > last)
			last = o[i];
	need(last == o[0] + (n - 1) * distance);
	uslub_cache_free_bulk(c, n, (void **)o);
	if (fault) {
		blame(last + distance);
		uslub_cache_free(c, last + distance);
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
