/* SPDX-License-Identifier: MIT */
/*
 * An object is freed again after the whole segment that it lay in was unmapped.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ is not from any cache$
 */
#include <sys/mman.h>
#include "misuse.h"

#define OBJECTS 160 /* of 1 MiB each: three segments of 64 MiB */

static bool unmapped(void *p)
{
	unsigned char there;

	p = (void *)((uintptr_t)p & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1));
	return mincore(p, 1, &there) && errno == ENOMEM;
}

static void scenario(bool fault)
{
	struct uslub_cache *c = uslub_cache_create("victim", 1 << 20, NULL);
	void *o[OBJECTS], *gone = NULL;

	need(c);
	for (unsigned i = 0; i < OBJECTS; i++) {
		o[i] = uslub_cache_alloc(c, 0);
		need(o[i]);
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		uslub_cache_free(c, o[i]);
	flush(c);
	for (unsigned i = 0; i < OBJECTS && !gone; i++)
		if (unmapped(o[i]))
			gone = o[i];
	need(gone);
	if (fault) {
		blame(gone);
		uslub_cache_free(c, gone);
	}
	flush(c);
	destroy(c);
}

int main(void)
{
	return misuse(scenario);
}
