/* SPDX-License-Identifier: MIT */
/*
 * A cache that fills what is freed with zeros is given an object of another one: found before a byte of it is
 * written.
 *
 * Expect: abort
 * Expect: stderr ^uslub: cache victim: freed pointer 0x[0-9a-f]+ belongs to cache owner$
 */
#include "misuse.h"

static const unsigned char *theirs;

/* Of SIGABRT, in front of what misuse() has for it. */
static void untouched(int signal)
{
	for (unsigned i = 0; i < 64; i++)
		need(theirs[i] == 0x11);
	misuse_found(signal);
}

static void scenario(bool fault)
{
	struct uslub_cache *owner = cache("owner", SHEAVES), *c = zeroing("victim", SHEAVES);
	void *o = object(owner);

	theirs = o;
	if (fault) {
		need(signal(SIGABRT, untouched) != SIG_ERR);
		blame(o);
		uslub_cache_free(c, o);
		return;
	}
	uslub_cache_free(owner, o);
	destroy(c);
	destroy(owner);
}

int main(void)
{
	return misuse(scenario);
}
