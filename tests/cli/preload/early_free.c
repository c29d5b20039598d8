/* SPDX-License-Identifier: MIT */
/* Deferred frees that do not wait for readers: the readers of the workload "rcu" must see it. */
#include <uslub/uslub.h>

void uslub_cache_free_rcu(struct uslub_cache *c, void *object)
{
	uslub_cache_free(c, object);
}
