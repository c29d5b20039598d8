/* SPDX-License-Identifier: MIT */
/*
 * A program to be traced: it makes every probe of the library fire, and prints what the statistics of each
 * cache say about that, "stat CACHE NAME VALUE".
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <urcu/urcu-memb.h>
#include <uslub/uslub.h>

#define OBJECTS 600

static int print_cache(struct uslub_cache *c, void *arg)
{
	uint64_t value;

	(void)arg;
	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		if (uslub_cache_stat(c, (enum uslub_stat)i, &value))
			return 1;
		printf("stat %s %s %ju\n", uslub_cache_name(c), uslub_stat_name((enum uslub_stat)i),
		       (uintmax_t)value);
	}
	return 0;
}

static void exercise(struct uslub_cache *c)
{
	static void *objects[OBJECTS];
	struct uslub_sheaf *sheaf;

	for (int i = 0; i < OBJECTS; i++)
		objects[i] = uslub_cache_alloc(c, 0);
	for (int i = 0; i < OBJECTS; i += 2)
		uslub_cache_free(c, objects[i]);
	for (int i = 1; i < OBJECTS; i += 2)
		uslub_cache_free_rcu(c, objects[i]);
	uslub_cache_barrier_rcu(c);
	for (int i = 0; i < OBJECTS; i++)
		objects[i] = uslub_cache_alloc(c, 0);
	sheaf = uslub_cache_prefill_sheaf(c, 0, 8);
	uslub_cache_return_sheaf(c, 0, sheaf);
	uslub_cache_free_bulk(c, OBJECTS, objects);
}

int main(void)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &urcu_memb_flavor,
		.policy = { .sheaf_capacity = 8, .barn_full = 4, .parking = USLUB_POLICY_ON },
	};
	struct uslub_cache *c = uslub_cache_create("traced", 256, &args);
	struct timespec now;

	if (!c)
		return 1;
	exercise(c);
	if (uslub_cache_shrink(c))
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("now %ju\n", (uintmax_t)now.tv_sec * 1000000000 + (uintmax_t)now.tv_nsec);
	return uslub_for_each_cache(print_cache, NULL);
}
