/* SPDX-License-Identifier: MIT */
/* A gauge that is one too many each time it is read: the identities of "mmap1" must not hold. */
#include <dlfcn.h>
#include <uslub/uslub.h>

int uslub_cache_stat(const struct uslub_cache *c, enum uslub_stat which, uint64_t *value)
{
	static uint64_t lies;
	int (*real)(const struct uslub_cache *, enum uslub_stat,
		    uint64_t *) = dlsym(RTLD_NEXT, "uslub_cache_stat");
	int error = real(c, which, value);

	if (which == USLUB_STAT_objects)
		*value += lies++;
	return error;
}
