/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include "cache/internal.h"

int uslub_cache_latency(const struct uslub_cache *c, enum uslub_latency which,
			struct uslub_latency_histogram *h)
{
	if (!c || !h || (unsigned)which >= USLUB_LATENCY_COUNT)
		return -EINVAL;
	return latency_read(counters(c), which, h) ? 0 : -ENODATA;
}
