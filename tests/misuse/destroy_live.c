/* SPDX-License-Identifier: MIT */
/*
 * A cache is destroyed while an object is out: refused, and it stays usable.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include "misuse.h"

int main(void)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	unsigned char *o = object(c), *more;

	for (unsigned i = 0; i < 3; i++) {
		need(uslub_cache_destroy(c) == -EBUSY);
		need(uslub_cache_find("victim") == c);
		more = object(c);
		need(more != o);
		uslub_cache_free(c, more);
	}
	for (unsigned i = 0; i < 64; i++)
		need(o[i] == 0x11);
	uslub_cache_free(c, o);
	destroy(c);
	need(!uslub_cache_find("victim") && errno == ENOENT);
	return 0;
}
