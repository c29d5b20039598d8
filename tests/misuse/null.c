/* SPDX-License-Identifier: MIT */
/*
 * NULL wherever it may be given: nothing happens or an error comes back, and the cache serves on.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include <urcu/urcu-memb.h>
#include "misuse.h"

static int never(struct uslub_cache *c, void *arg)
{
	(void)c;
	return arg ? 1 : 0;
}

static void frees(struct uslub_cache *c)
{
	void *o = object(c), *more;

	uslub_cache_free(c, NULL);
	uslub_cache_free_nolock(c, NULL);
	uslub_cache_free_rcu(c, NULL);
	uslub_cache_free_bulk(c, 0, NULL);
	uslub_cache_return_sheaf(c, 0, NULL);
	need(!uslub_cache_alloc_bulk(c, 0, 0, NULL));
	need(uslub_cache_alloc_bulk(c, 0, 1, NULL) == -EINVAL);
	need(uslub_cache_alloc_bulk(c, USLUB_ZERO, 100, NULL) == -EINVAL);
	flush(c);
	uslub_cache_barrier_rcu(c);
	more = object(c);
	need(more != o);
	uslub_cache_free(c, more);
	uslub_cache_free(c, o);
	destroy(c);
}

static void others(void)
{
	struct uslub_cache *c;
	uint64_t value;

	need(!uslub_cache_destroy(NULL));
	errno = 0;
	need(!uslub_cache_create(NULL, 64, NULL) && errno == EINVAL);
	errno = 0;
	need(!uslub_cache_find(NULL) && errno == ENOENT);
	need(!uslub_for_each_cache(never, NULL));
	need(uslub_cache_stat(NULL, USLUB_STAT_objects, &value) == -EINVAL);
	need(uslub_stat_find(NULL) == -EINVAL);
	c = uslub_cache_create("plain", 64, NULL);
	need(c);
	need(uslub_cache_stat(c, USLUB_STAT_objects, NULL) == -EINVAL);
	uslub_cache_free(c, object(c));
	destroy(c);
}

int main(void)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &urcu_memb_flavor,
	};
	struct uslub_cache *c = uslub_cache_create("deferring", 64, &args);

	need(c);
	others();
	frees(c);
	frees(cache("sheaves", SHEAVES));
	frees(cache("no-sheaves", NOSHEAF));
	return 0;
}
