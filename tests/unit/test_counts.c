/* SPDX-License-Identifier: MIT */
/*
 * What each call adds to which counter, exactly: after each step every counter of the cache is
 * compared. Then histories like those of the mmap1 benchmark, after which counters must agree with each
 * other.
 */
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define CAPACITY 4
#define PER_SLAB 16

static struct uslub_cache *c;
static uint64_t expected[USLUB_STAT_COUNT];

/* Sheaves of 4, slabs of 16, barns of 2 full and 2 empty ones. */
static void begin(struct uslub_policy policy)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .policy = policy };

	args.policy.slab_min_objects = PER_SLAB;
	if (!args.policy.sheaf_capacity)
		args.policy.sheaf_capacity = CAPACITY;
	args.policy.barn_full = 2;
	args.policy.barn_empty = 2;
	c = uslub_cache_create("counted", plat_page_size() / PER_SLAB, &args);
	assert_non_null(c);
	unit_equal(stat_of(c, objs_per_slab), PER_SLAB);
}

static void begin_plain(void)
{
	begin((struct uslub_policy){ .barn_full = 0 });
}

#define expect(name, n) (expected[USLUB_STAT_##name] += (uint64_t)(n))

/* How often a lock is taken is no matter of these paths' definition. */
static bool about_locks(int which)
{
	return strstr(uslub_stat_name(which), "_lock");
}

static void check_at(int line)
{
	bool good = true;

	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		int kind = uslub_stat_kind(i);
		uint64_t got = unit_stat(c, i);

		if ((kind != USLUB_STAT_KIND_COUNTER && kind != USLUB_STAT_KIND_DERIVED) ||
		    about_locks(i) || got == expected[i])
			continue;
		print_error("%s is %jd, not %jd\n", uslub_stat_name(i), (intmax_t)got,
			    (intmax_t)expected[i]);
		good = false;
	}
	if (!good)
		_fail(__FILE__, line);
}

#define check() check_at(__LINE__)

/* From here on. */
static void expect_as_now(void)
{
	for (int i = 0; i < USLUB_STAT_COUNT; i++)
		expected[i] = unit_stat(c, i);
}

static void *alloc(void)
{
	void *object = uslub_cache_alloc(c, 0);

	assert_non_null(object);
	return object;
}

static void alloc_n(void **objects, unsigned n)
{
	while (n--)
		*objects++ = alloc();
}

static void free_n(void **objects, unsigned n)
{
	while (n--)
		uslub_cache_free(c, *objects++);
}

/* ---- one by one ----------------------------------------------------------------------------------- */

static void test_allocs(void **state)
{
	void *objects[12];

	(void)state;
	begin_plain();
	check();
	/* nothing anywhere: a sheaf, filled from a slab */
	alloc_n(objects, 1);
	expect(alloc_fastpath, 1);
	expect(barn_get_fail, 1);
	expect(sheaf_alloc, 1);
	expect(sheaf_refill, 4);
	expect(alloc_slab, 1);
	check();
	alloc_n(objects + 1, 3);
	expect(alloc_fastpath, 3);
	check();
	/* main is used up and there is no spare: another sheaf */
	alloc_n(objects + 4, 1);
	expect(alloc_fastpath, 1);
	expect(barn_get_fail, 1);
	expect(sheaf_alloc, 1);
	expect(sheaf_refill, 4);
	check();
	alloc_n(objects + 5, 3);
	expect(alloc_fastpath, 3);
	/* now the empty spare is filled */
	alloc_n(objects + 8, 1);
	expect(alloc_fastpath, 1);
	expect(barn_get_fail, 1);
	expect(sheaf_refill, 4);
	check();
	unit_check_cache(c, 9, 0, 0);
}

static void test_frees(void **state)
{
	void *objects[25];

	(void)state;
	begin_plain();
	alloc_n(objects, 25);
	expect(alloc_fastpath, 25);
	expect(barn_get_fail, 7);
	expect(sheaf_alloc, 2);
	expect(sheaf_refill, 28);
	expect(alloc_slab, 2);
	check();
	/* main has 3 and room for 1; the spare is empty */
	free_n(objects, 5);
	expect(free_fastpath, 5);
	check();
	/* both full: the spare goes to the barn, for a new one, */
	free_n(objects + 5, 1);
	expect(free_fastpath, 1);
	expect(barn_put, 1);
	expect(sheaf_alloc, 1);
	check();
	free_n(objects + 6, 4);
	expect(free_fastpath, 4);
	expect(barn_put, 1);
	expect(sheaf_alloc, 1);
	check();
	unit_equal(stat_of(c, barn_full), 2);
	/* until the barn is full: then it is flushed and used */
	free_n(objects + 10, 3);
	expect(free_fastpath, 3);
	check();
	free_n(objects + 13, 1);
	expect(free_fastpath, 1);
	expect(barn_put_fail, 1);
	expect(sheaf_flush, 4);
	expect(full_to_partial, 1);
	expect(free_add_partial, 1);
	check();
	unit_check_cache(c, 11, 0, 0);
	/* The way back: main, spare, barn. */
	alloc_n(objects, 5);
	expect(alloc_fastpath, 5);
	check();
	alloc_n(objects + 5, 1);
	expect(alloc_fastpath, 1);
	expect(barn_get, 1);
	check();
	alloc_n(objects + 6, 4);
	expect(alloc_fastpath, 4);
	expect(barn_get, 1);
	check();
	unit_equal(stat_of(c, barn_full), 0);
	unit_equal(stat_of(c, barn_empty), 2);
	unit_check_cache(c, 21, 0, 0);
}

/* Empty sheaves of the barn are used before new ones are made. */
static void test_barn_empty(void **state)
{
	void *objects[40];

	(void)state;
	begin_plain();
	alloc_n(objects, 40);
	free_n(objects, 40);
	alloc_n(objects, 40);
	expect_as_now();
	unit_equal(stat_of(c, barn_full), 0);
	unit_equal(stat_of(c, barn_empty), 2);
	/* main and spare are empty */
	free_n(objects, 8);
	expect(free_fastpath, 8);
	check();
	free_n(objects + 8, 8);
	expect(free_fastpath, 8);
	expect(barn_put, 2);
	check();
	unit_equal(stat_of(c, barn_empty), 0);
	unit_equal(stat_of(c, barn_full), 2);
}

static void test_without_sheaves(void **state)
{
	void *objects[PER_SLAB + 1];

	(void)state;
	begin((struct uslub_policy){ .sheaf_capacity = USLUB_POLICY_NONE });
	alloc_n(objects, PER_SLAB + 1);
	expect(alloc_slowpath, PER_SLAB + 1);
	expect(alloc_slab, 2);
	check();
	free_n(objects, PER_SLAB);
	expect(free_slowpath, PER_SLAB);
	expect(full_to_partial, 1);
	expect(free_add_partial, 1);
	expect(partial_to_partial, PER_SLAB - 2);
	expect(partial_to_empty, 1);
	check();
	free_n(objects + PER_SLAB, 1);
	expect(free_slowpath, 1);
	expect(partial_to_empty, 1);
	check();
	unit_equal(stat_of(c, partial), 2);
	unit_equal(stat_of(c, slabs), 2);
	unit_check_cache(c, 0, 0, 0);
}

/* A slow call that fails counts all the same. */
static void test_alloc_fails(void **state)
{
	(void)state;
	begin_plain();
	plat_inject_failures = 0;
	assert_null(uslub_cache_alloc(c, 0));
	expect(alloc_slowpath, 1);
	expect(barn_get_fail, 1);
	check();
	plat_inject_failures = -1;
	unit_check_cache(c, 0, 0, 1);
}

/* Aborted sequences are tried again and counted once. */
static void test_aborts(void **state)
{
	static const unsigned points[] = {
		SEQ_POP_ARMED,	     SEQ_POP_LOADED,	   SEQ_POP_READY,      SEQ_PUSH_ARMED,
		SEQ_PUSH_LOADED,     SEQ_PUSH_READY,	   SEQ_FLIP_POP_READY, SEQ_FLIP_POP_FILLED,
		SEQ_FLIP_PUSH_READY, SEQ_FLIP_PUSH_LOADED, SEQ_TAKE_READY,     SEQ_GIVE_READY,
		SEQ_ADD_READY,	     SEQ_POP_N_READY,	   SEQ_PUSH_N_READY
	};
	void *objects[30];

	(void)state;
	begin_plain();
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 30; i++) {
			plat_inject_point = points[unit_below(array_size(points))];
			plat_inject_aborts = unit_below(2);
			objects[i] = alloc();
		}
		for (unsigned i = 0; i < 30; i++) {
			plat_inject_point = points[unit_below(array_size(points))];
			plat_inject_aborts = unit_below(2);
			uslub_cache_free(c, objects[i]);
		}
		plat_inject_aborts = 0;
		unit_equal(stat_of(c, alloc_fastpath), 30 * (round + 1));
		unit_equal(stat_of(c, free_fastpath), 30 * (round + 1));
		unit_equal(stat_of(c, alloc_slowpath), 0);
		unit_equal(stat_of(c, free_slowpath), 0);
		unit_check_cache(c, 0, 0, 0);
	}
	/* Aborted for ever: slabs serve. */
	for (unsigned i = 0; i < array_size(points); i++) {
		uint64_t allocs = stat_of(c, alloc_fastpath) + stat_of(c, alloc_slowpath);
		uint64_t frees = stat_of(c, free_fastpath) + stat_of(c, free_slowpath);

		for (unsigned k = 0; k < 20; k++) {
			plat_inject_point = points[i];
			plat_inject_aborts = 1000000;
			objects[k] = alloc();
		}
		for (unsigned k = 0; k < 20; k++)
			uslub_cache_free(c, objects[k]);
		plat_inject_aborts = 0;
		unit_equal(stat_of(c, alloc_fastpath) + stat_of(c, alloc_slowpath), allocs + 20);
		unit_equal(stat_of(c, free_fastpath) + stat_of(c, free_slowpath), frees + 20);
		unit_check_cache(c, 0, 0, 0);
	}
	assert_true(stat_of(c, alloc_slowpath) > 0);
	assert_true(stat_of(c, free_slowpath) > 0);
}

/* ---- bulk ----------------------------------------------------------------------------------------- */

static void test_bulk_alloc(void **state)
{
	void *objects[40];

	(void)state;
	begin_plain();
	/* never fills a sheaf */
	unit_equal(uslub_cache_alloc_bulk(c, 0, 20, objects), 0);
	expect(barn_get_fail, 1);
	expect(alloc_slowpath, 20);
	expect(alloc_slab, 2);
	check();
	/* 4 in main, 4 in the spare, 8 in the barn, 4 flushed */
	free_n(objects, 20);
	expect(free_fastpath, 20);
	expect(sheaf_alloc, 4);
	expect(barn_put, 2);
	expect(barn_put_fail, 1);
	expect(sheaf_flush, 4);
	expect(full_to_partial, 1);
	expect(free_add_partial, 1);
	check();
	unit_equal(uslub_cache_alloc_bulk(c, 0, 18, objects), 0);
	expect(alloc_fastpath, 16);
	expect(barn_get, 2);
	expect(barn_get_fail, 1);
	expect(alloc_slowpath, 2);
	check();
	unit_check_cache(c, 18, 0, 0);
}

static void test_bulk_free(void **state)
{
	void *objects[40];

	(void)state;
	begin_plain();
	unit_equal(uslub_cache_alloc_bulk(c, 0, 32, objects), 0);
	expect(barn_get_fail, 1);
	expect(alloc_slowpath, 32);
	expect(alloc_slab, 2);
	/* never makes a sheaf */
	uslub_cache_free_bulk(c, 2, objects);
	expect(free_slowpath, 2);
	expect(full_to_partial, 1);
	expect(free_add_partial, 1);
	check();
	/* main, the spare, and what the barn gives empty ones for */
	free_n(objects + 2, 8);
	expect(free_fastpath, 8);
	expect(sheaf_alloc, 2);
	check();
	alloc_n(objects + 2, 8);
	expect(alloc_fastpath, 8);
	uslub_cache_free_bulk(c, 10, objects + 2);
	expect(free_fastpath, 8);
	expect(barn_put_fail, 1);
	expect(free_slowpath, 2);
	expect(partial_to_partial, 1);
	check();
	unit_check_cache(c, 20, 0, 0);
}

/* ---- prefilled sheaves ---------------------------------------------------------------------------- */

static void drop(struct uslub_sheaf *sheaf, unsigned n)
{
	while (n--)
		assert_non_null(uslub_cache_alloc_from_sheaf(c, 0, sheaf));
}

static struct uslub_sheaf *prefill(unsigned n)
{
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, n);

	assert_non_null(sheaf);
	assert_true(uslub_sheaf_size(sheaf) >= n);
	return sheaf;
}

static void give_back(struct uslub_sheaf *sheaf)
{
	uslub_cache_return_sheaf(c, 0, sheaf);
}

static void test_prefill_and_return(void **state)
{
	struct uslub_sheaf *a, *b, *d;

	(void)state;
	begin_plain();
	a = prefill(3);
	expect(sheaf_prefill_slow, 1);
	expect(barn_get_fail, 1);
	expect(sheaf_alloc, 1);
	expect(barn_prefill_miss, 1);
	expect(sheaf_refill, 4);
	expect(alloc_slab, 1);
	check();
	drop(a, 1);
	give_back(a);
	expect(sheaf_return_fast, 1);
	check();
	a = prefill(3); /* it has 3 */
	expect(sheaf_prefill_fast, 1);
	check();
	drop(a, 2);
	give_back(a);
	expect(sheaf_return_fast, 1);
	a = prefill(3); /* it has 1: filled up from slabs */
	expect(sheaf_prefill_fast, 1);
	expect(barn_prefill_miss, 1);
	expect(sheaf_refill, 3);
	check();
	b = prefill(1);
	d = prefill(1);
	expect(sheaf_prefill_slow, 2);
	expect(barn_get_fail, 2);
	expect(sheaf_alloc, 2);
	expect(barn_prefill_miss, 2);
	expect(sheaf_refill, 8);
	check();
	drop(a, 4);
	drop(b, 1);
	give_back(a);
	expect(sheaf_return_fast, 1);
	check();
	/* the spare's place is taken: made full, into the barn */
	give_back(b);
	expect(sheaf_return_slow, 1);
	expect(sheaf_refill, 1);
	expect(barn_put, 1);
	check();
	give_back(d);
	expect(sheaf_return_slow, 1);
	expect(barn_put, 1);
	check();
	unit_equal(stat_of(c, barn_full), 2);
	unit_check_cache(c, 8, 0, 0);
	/* The spare is empty, the barn has full ones: exchanged. */
	a = prefill(2);
	expect(sheaf_prefill_fast, 1);
	expect(barn_get, 1);
	check();
	unit_equal(stat_of(c, barn_full), 1);
	unit_equal(stat_of(c, barn_empty), 1);
	/* no spare: one of the barn, full ones first */
	b = prefill(2);
	expect(sheaf_prefill_slow, 1);
	expect(barn_get, 1);
	check();
	d = prefill(2);
	expect(sheaf_prefill_slow, 1);
	expect(barn_get_fail, 1);
	expect(barn_prefill_miss, 1);
	expect(sheaf_refill, 4);
	expect(alloc_slab, 1);
	check();
	unit_equal(stat_of(c, barn_empty), 0);
	unit_check_cache(c, 8 + 12, 3, 0);
}

/* Returned when the barn is full as well: dissolved. */
static void test_return_to_full_barn(void **state)
{
	struct uslub_sheaf *sheaves[4];

	(void)state;
	begin_plain();
	for (unsigned i = 0; i < 4; i++)
		sheaves[i] = prefill(1);
	expect(sheaf_prefill_slow, 4);
	expect(barn_get_fail, 4);
	expect(sheaf_alloc, 4);
	expect(barn_prefill_miss, 4);
	expect(sheaf_refill, 16);
	expect(alloc_slab, 1);
	for (unsigned i = 0; i < 3; i++)
		give_back(sheaves[i]);
	expect(sheaf_return_fast, 1);
	expect(sheaf_return_slow, 2);
	expect(barn_put, 2);
	check();
	drop(sheaves[3], 1);
	give_back(sheaves[3]);
	expect(sheaf_return_slow, 1);
	expect(sheaf_flush, 3);
	expect(full_to_partial, 1);
	expect(free_add_partial, 1);
	expect(sheaf_free, 1);
	check();
	unit_check_cache(c, 1, 0, 0);
}

/* Short spares and the barn: the part-full ones are put together. */
static void test_prefill_merges(void **state)
{
	struct uslub_sheaf *a, *full[2];

	(void)state;
	begin_plain();
	a = prefill(4);
	full[0] = prefill(4);
	full[1] = prefill(4);
	give_back(a);
	give_back(full[0]);
	give_back(full[1]);
	expect_as_now();
	unit_equal(stat_of(c, barn_full), 2);
	/* the spare has 4; it comes back with 2 and is too short */
	a = prefill(3);
	drop(a, 2);
	give_back(a);
	a = prefill(3);
	expect(sheaf_prefill_fast, 2);
	expect(sheaf_return_fast, 1);
	expect(barn_get, 1);
	check();
	unit_equal(stat_of(c, barn_full), 1);
	unit_equal(c->barns[0].partial->fill, 2);
	/* again with 2: with the other 2 that makes a full one */
	drop(a, 2);
	give_back(a);
	a = prefill(3);
	expect(sheaf_prefill_fast, 1);
	expect(sheaf_return_fast, 1);
	expect(barn_get, 1);
	expect(barn_merge, 1);
	check();
	unit_equal(stat_of(c, barn_full), 1);
	unit_equal(stat_of(c, barn_empty), 1);
	assert_null(c->barns[0].partial);
	unit_check_cache(c, 4 + 4, 1, 0);
	give_back(a);
}

static void test_prefill_without_barn(void **state)
{
	struct uslub_sheaf *a, *full;

	(void)state;
	begin((struct uslub_policy){ .prefill_barn = USLUB_POLICY_OFF });
	a = prefill(4);
	full = prefill(4);
	expect(sheaf_prefill_slow, 2);
	expect(barn_get_fail, 2);
	expect(sheaf_alloc, 2);
	expect(sheaf_refill, 8);
	expect(alloc_slab, 1);
	give_back(a);
	give_back(full);
	expect(sheaf_return_fast, 1);
	expect(sheaf_return_slow, 1);
	expect(barn_put, 1);
	check();
	a = prefill(3);
	drop(a, 2);
	give_back(a);
	a = prefill(3); /* past the barn */
	expect(sheaf_prefill_fast, 2);
	expect(sheaf_return_fast, 1);
	expect(sheaf_refill, 2);
	check();
	unit_equal(stat_of(c, barn_full), 1);
	assert_null(c->barns[0].partial);
	give_back(a);
}

static void test_refill_and_oversize(void **state)
{
	struct uslub_sheaf *a;

	(void)state;
	begin_plain();
	a = prefill(5);
	expect(sheaf_prefill_oversize, 1);
	expect(sheaf_alloc, 1);
	expect(alloc_slowpath, 5);
	expect(alloc_slab, 1);
	check();
	drop(a, 3);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &a, 2), 0);
	check();
	unit_equal(uslub_cache_refill_sheaf(c, 0, &a, 4), 0);
	expect(alloc_slowpath, 2);
	check();
	give_back(a);
	expect(sheaf_flush, 4);
	expect(sheaf_free, 1);
	expect(partial_to_partial, 1);
	check();
	a = prefill(4);
	expect(sheaf_prefill_slow, 1);
	expect(barn_get_fail, 1);
	expect(barn_prefill_miss, 1);
	expect(sheaf_alloc, 1);
	expect(sheaf_refill, 4);
	check();
	drop(a, 3);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &a, 2), 0);
	expect(barn_prefill_miss, 1);
	expect(sheaf_refill, 3);
	check();
	/* to a larger one; the old one is returned */
	unit_equal(uslub_cache_refill_sheaf(c, 0, &a, 6), 0);
	expect(sheaf_prefill_oversize, 1);
	expect(sheaf_alloc, 1);
	expect(alloc_slowpath, 6);
	expect(sheaf_return_fast, 1);
	check();
	unit_check_cache(c, 6 + 6, 1, 0);
}

/* ---- emptying ------------------------------------------------------------------------------------- */

static void test_shrink(void **state)
{
	void *objects[20];

	(void)state;
	begin_plain();
	alloc_n(objects, 20);
	free_n(objects, 20);
	expect_as_now();
	unit_equal(stat_of(c, objects), 16); /* main, spare, two in the barn */
	unit_equal(uslub_cache_shrink(c), 0);
	expect(cpu_drain, 1);
	expect(sheaf_flush, 16);
	expect(sheaf_free, 4);
	/* slabs go uncounted; how the sheaves' objects lie in slabs is seen from the transitions */
	for (int i = USLUB_STAT_partial_to_partial; i <= USLUB_STAT_full_to_empty; i++)
		expected[i] = unit_stat(c, i);
	expected[USLUB_STAT_free_add_partial] = unit_stat(c, USLUB_STAT_free_add_partial);
	check();
	unit_equal(stat_of(c, slabs), 0);
	unit_equal(stat_of(c, free_slab), 0);
	unit_equal(stat_of(c, full_to_partial) + stat_of(c, full_to_empty),
		   stat_of(c, free_add_partial));
	/* and again from nothing */
	alloc();
	expect(alloc_fastpath, 1);
	expect(barn_get_fail, 1);
	expect(sheaf_alloc, 1);
	expect(sheaf_refill, 4);
	expect(alloc_slab, 1);
	check();
}

/* ---- gauges --------------------------------------------------------------------------------------- */

static void test_gauges(void **state)
{
	void *objects[24];

	(void)state;
	begin((struct uslub_policy){ .sheaf_capacity = USLUB_POLICY_NONE });
	alloc_n(objects, 24);
	unit_equal(stat_of(c, slabs), 2);
	unit_equal(stat_of(c, total_objects), 32);
	unit_equal(stat_of(c, objects), 24);
	unit_equal(stat_of(c, partial), 1);
	unit_equal(stat_of(c, objects_partial), 8);
	free_n(objects, 4);
	unit_equal(stat_of(c, objects), 20);
	unit_equal(stat_of(c, partial), 2);
	unit_equal(stat_of(c, objects_partial), 20);
	free_n(objects + 4, 20);
	unit_equal(stat_of(c, objects), 0);
	unit_equal(stat_of(c, objects_partial), 0);
	unit_equal(stat_of(c, slabs), 2);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, slabs), 0);
	unit_equal(stat_of(c, total_objects), 0);
}

/* ---- histories ------------------------------------------------------------------------------------ */

#define POOL 4000

static void *pool[POOL];
static unsigned pool_head, pool_len;

static void pool_put(void *object)
{
	assert_non_null(object);
	assert_true(pool_len < POOL);
	pool[(pool_head + pool_len++) % POOL] = object;
}

static void *pool_get(void)
{
	void *object = pool[pool_head];

	pool_head = (pool_head + 1) % POOL;
	pool_len--;
	return object;
}

/* A write to a tree of nodes: the nodes it needs come out of a prefilled sheaf, the old ones go later. */
static void tree_write(unsigned take, unsigned drop_later)
{
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 3);

	assert_non_null(sheaf);
	while (take--)
		pool_put(uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	uslub_cache_return_sheaf(c, 0, sheaf);
	while (drop_later--)
		uslub_cache_free_rcu(c, pool_get());
}

static bool rcu_quiet(void *arg)
{
	(void)arg;
	return !plat_load_acquire(&c->rcu_queued);
}

static void mmap1(unsigned writes, uint64_t prefill_barn, uint64_t stash)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .align = 256,
					 .sheaf_capacity = 32,
					 .rcu = &urcu_memb_flavor,
					 .policy.slab_min_objects = 64,
					 .policy.prefill_barn = prefill_barn,
					 .policy.rcu_stash = stash };

	c = uslub_cache_create("maple_node", 256, &args);
	assert_non_null(c);
	for (unsigned i = 0; i < 1000; i++)
		pool_put(alloc());
	for (unsigned i = 0; i < writes; i++) {
		tree_write(3, 2);
		tree_write(2, 3);
	}
	assert_true(unit_wait(rcu_quiet, NULL));
}

#define S(name) stat_of(c, name)

static void check_identities(unsigned writes)
{
	uint64_t queued, offered = S(barn_put) + S(barn_put_fail);

	unit_equal(S(sheaf_capacity), 32);
	unit_equal(S(sheaf_prefill_fast) + S(sheaf_prefill_slow), 2 * writes);
	unit_equal(S(sheaf_return_fast) + S(sheaf_return_slow), 2 * writes);
	assert_true(S(free_slab) >= S(free_remove_partial));
	unit_equal(S(alloc_slab) - S(free_slab), S(slabs));
	unit_equal(S(total_objects), S(slabs) * S(objs_per_slab));
	/* what was flushed: refused sheaves, all full, the rests of returned ones and of trimmed ones */
	assert_true(S(sheaf_flush) >= 32 * S(barn_put_fail));
	assert_true(S(sheaf_flush) - 32 * S(barn_put_fail) <=
		    32 * (S(sheaf_return_slow) + S(stash_trim)));
	unit_check_cache(c, pool_len, 0, 0);
	/* each deferred free, and each full sheaf of them */
	unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), 5 * writes);
	unit_equal(S(free_rcu_sheaf_fail), 0);
	queued = (S(free_rcu_sheaf) - S(rcu_pending)) / 32;
	unit_equal((S(free_rcu_sheaf) - S(rcu_pending)) % 32, 0);
	/* the barn was offered what no stash had, and of what stashes did not need all that was full */
	assert_in_range(offered, queued - S(stash_put) + S(sheaf_return_slow),
			queued - S(stash_put) + S(stash_trim) + S(sheaf_return_slow));
	unit_equal(S(barn_put) + S(barn_merge) - S(barn_get), S(barn_full));
	unit_equal(S(partial_to_partial) + S(full_to_partial) + S(partial_to_empty) +
				   S(full_to_empty) >=
			   S(free_add_partial),
		   true);
	unit_equal(S(alloc_fastpath), 1000);
	unit_equal(S(free_fastpath), 0);
	unit_equal(S(alloc_slowpath) + S(free_slowpath), 0);
	unit_equal(S(rcu_pending_bytes), S(rcu_pending) * 256);
	unit_equal(S(sheaf_prefill_oversize) + S(order_fallback) + S(alloc_node_mismatch), 0);
}

static void finish(void)
{
	while (pool_len)
		uslub_cache_free_rcu(c, pool_get());
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_mmap1_off(void **state)
{
	unsigned writes = unit_scaled(30000);

	(void)state;
	mmap1(writes, USLUB_POLICY_OFF, 0);
	check_identities(writes);
	unit_equal(S(barn_merge) + S(barn_prefill_miss), 0);
	/* 12 prefills use 30 objects of a sheaf; then it is filled from slabs, by 30 */
	assert_in_range(S(sheaf_refill), 5 * writes, 5 * writes + 1200);
	finish();
}

static void test_mmap1_on(void **state)
{
	unsigned writes = unit_scaled(30000);

	(void)state;
	mmap1(writes, USLUB_POLICY_ON, 0);
	check_identities(writes);
	/* A short run may be over before the first grace period. */
	if (writes >= 30000) {
		assert_true(S(barn_get) > 0);
		assert_true(S(barn_merge) > 0);
		assert_true(S(sheaf_refill) < 5 * writes);
	}
	/* each short spare met the barn: with luck or without */
	assert_in_range(S(barn_get) + S(barn_prefill_miss), 2 * writes / 12 - 2,
			2 * writes / 12 + 50);
	finish();
}

/* What came back to the CPU was used by it, and nothing else was; the reclaimer is kept from looking. */
static void test_mmap1_stashed(void **state)
{
	unsigned writes = unit_scaled(30000);

	(void)state;
	mmap1(writes, USLUB_POLICY_ON, 16);
	plat_lock(&c->close_lock);
	check_identities(writes);
	plat_unlock(&c->close_lock);
	assert_true(S(stash_put) > 0);
	if (writes >= 30000)
		assert_true(S(stash_get) > 0);
	finish();
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_allocs, UNIT_BOTH),
		UNIT_TEST(test_frees, UNIT_BOTH),
		UNIT_TEST(test_barn_empty, UNIT_BOTH),
		UNIT_TEST(test_without_sheaves, UNIT_BOTH),
		UNIT_TEST(test_alloc_fails, UNIT_BOTH),
		UNIT_TEST(test_aborts, UNIT_FAKED),
		UNIT_TEST(test_bulk_alloc, UNIT_BOTH),
		UNIT_TEST(test_bulk_free, UNIT_BOTH),
		UNIT_TEST(test_prefill_and_return, UNIT_BOTH),
		UNIT_TEST(test_return_to_full_barn, UNIT_BOTH),
		UNIT_TEST(test_prefill_merges, UNIT_BOTH),
		UNIT_TEST(test_prefill_without_barn, UNIT_BOTH),
		UNIT_TEST(test_refill_and_oversize, UNIT_BOTH),
		UNIT_TEST(test_shrink, UNIT_BOTH),
		UNIT_TEST(test_gauges, UNIT_BOTH),
		UNIT_TEST(test_mmap1_off, UNIT_BOTH),
		UNIT_TEST(test_mmap1_on, UNIT_BOTH),
		UNIT_TEST(test_mmap1_stashed, UNIT_BOTH),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
