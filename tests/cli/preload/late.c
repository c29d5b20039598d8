/* SPDX-License-Identifier: MIT */
/* An allocator that now and then takes its time, asleep: "statread" must see bursts stalled. */
#include <dlfcn.h>
#include <time.h>
#include <uslub/uslub.h>

void *uslub_cache_alloc(struct uslub_cache *c, unsigned flags)
{
	static __thread unsigned calls;
	static const struct timespec pause = { .tv_nsec = 3000000 };
	void *(*real)(struct uslub_cache *, unsigned) = dlsym(RTLD_NEXT, "uslub_cache_alloc");

	if (++calls % 100 == 0 && calls > 10000)
		nanosleep(&pause, NULL);
	return real(c, flags);
}
