/* SPDX-License-Identifier: MIT */
/*
 * An object is freed again after its memory went back to the system.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ is not from any cache$
 */
#include <sys/mman.h>
#include "misuse.h"

#define OBJECTS 131072 /* 8 MiB, of which 2 are given back whole whatever is kept */

static void *o[OBJECTS];

/* Is the page of p there, but without memory? */
static bool given_back(void *p)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char there = 1;

	p = (void *)((uintptr_t)p & ~(page - 1));
	return !mincore(p, page, &there) && !(there & 1);
}

static void scenario(bool fault)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	void *gone = NULL;

	for (unsigned i = 0; i < OBJECTS; i++)
		o[i] = object(c);
	for (unsigned i = 0; i < OBJECTS; i++)
		uslub_cache_free(c, o[i]);
	flush(c);
	for (unsigned i = 0; i < OBJECTS && !gone; i++)
		if (given_back(o[i]))
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
