/* SPDX-License-Identifier: MIT */
/*
 * A statistic that is one too many each time it is read, "objects" or that named by LIE_ABOUT: the
 * identities it takes part in must not hold.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <uslub/uslub.h>

int uslub_cache_stat(const struct uslub_cache *c, enum uslub_stat which, uint64_t *value)
{
	static uint64_t lies;
	const char *about = getenv("LIE_ABOUT");
	int (*real)(const struct uslub_cache *, enum uslub_stat,
		    uint64_t *) = dlsym(RTLD_NEXT, "uslub_cache_stat");
	int error = real(c, which, value);

	if (!strcmp(uslub_stat_name(which), about ? about : "objects"))
		*value += lies++;
	return error;
}
