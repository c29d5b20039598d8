/* SPDX-License-Identifier: MIT */
/* Counters per CPU, and the list of statistics. */
#include <pthread.h>
#include <uslub/uslub.h>

#include "unit.h"
#include "stats/counters.h"
#include "cache/internal.h"
#include "tiers/arena.h"

static struct counters c;

static void begin(void)
{
	counters_layout(&c, plat_nslots(), 2);
	c.words = arena_alloc(counters_bytes(&c));
	assert_non_null(c.words);
}

static void test_layout(void **state)
{
	(void)state;
	begin();
	unit_equal(c.stride * sizeof(uint64_t) % CACHE_LINE, 0);
	assert_true(c.stride >= CTR_COUNT + 2 * NODE_COUNTERS);
	unit_equal(counters_bytes(&c),
		   c.nslots * c.stride * sizeof(uint64_t) + counters_used_bytes(&c));
	unit_equal(counter_of_node(0, 0), CTR_COUNT);
	unit_equal(counter_of_node(1, 0), CTR_COUNT + NODE_COUNTERS);
	for (unsigned slot = 0; slot < c.nslots; slot++) {
		unit_equal((uintptr_t)counter_word(&c, slot, 0) % CACHE_LINE, 0);
		unit_equal((char *)counter_word(&c, slot, 0) - (char *)c.words,
			   slot * c.stride * sizeof(uint64_t));
		unit_equal(counter_word(&c, slot, CTR_COUNT - 1) - counter_word(&c, slot, 0),
			   CTR_COUNT - 1);
	}
}

static void test_add(void **state)
{
	unsigned foreign = plat_ncpu();

	(void)state;
	begin();
	for (unsigned cpu = 0; cpu < 4; cpu++) {
		unit_on_cpu((int)cpu);
		for (unsigned i = 0; i <= cpu; i++)
			count(&c, CTR_alloc_slab);
		counters_add(&c, CTR_sheaf_refill, 100 * cpu);
		unit_equal(*counter_word(&c, cpu, CTR_alloc_slab), cpu + 1);
		unit_equal(*counter_word(&c, cpu, CTR_sheaf_refill), 100 * cpu);
	}
	unit_equal(counters_sum(&c, CTR_alloc_slab), 10);
	unit_equal(counters_sum(&c, CTR_sheaf_refill), 600);
	unit_equal(counters_sum(&c, CTR_free_slab), 0);
	/* Negative amounts are their complement; only sums mean something. */
	counters_add(&c, CTR_jump, -(uint64_t)7);
	unit_on_cpu(0);
	counters_add(&c, CTR_jump, 5);
	unit_equal(counters_sum(&c, CTR_jump), -(uint64_t)2);
	counters_add_at(&c, 0, CTR_jump, 5);
	unit_equal(counters_sum(&c, CTR_jump), 3);
	/* A thread that is not registered counts on a foreign slot. */
	unit_on_cpu(-1);
	count(&c, CTR_free_slab);
	unit_on_cpu(77);
	count(&c, CTR_free_slab);
	unit_equal(counters_sum(&c, CTR_free_slab), 2);
	for (unsigned cpu = 0; cpu < foreign; cpu++)
		unit_equal(*counter_word(&c, cpu, CTR_free_slab), 0);
}

/* On another CPU by now: the count goes where the thread is. */
static void test_moved(void **state)
{
	(void)state;
	begin();
	unit_on_cpu(2);
	counters_add_at(&c, 1, CTR_alloc_slab, 3);
	unit_equal(counters_sum(&c, CTR_alloc_slab), 3);
	unit_equal(*counter_word(&c, 1, CTR_alloc_slab), 0);
	unit_equal(*counter_word(&c, 2, CTR_alloc_slab), 3);
	counters_add_at(&c, 100000, CTR_alloc_slab, 4);
	unit_equal(counters_sum(&c, CTR_alloc_slab), 7);
}

/* Aborted: tried again; always aborted: on a foreign slot. */
static void test_aborts(void **state)
{
	(void)state;
	begin();
	unit_on_cpu(1);
	plat_inject_point = SEQ_ADD_READY;
	plat_inject_aborts = 1;
	count(&c, CTR_alloc_slab);
	unit_equal(*counter_word(&c, 1, CTR_alloc_slab), 1);
	plat_inject_aborts = 1000;
	count(&c, CTR_alloc_slab);
	assert_true(plat_inject_aborts > 900);
	plat_inject_aborts = 0;
	unit_equal(*counter_word(&c, 1, CTR_alloc_slab), 1);
	unit_equal(*counter_word(&c, c.nslots - 1, CTR_alloc_slab), 1);
	unit_equal(counters_sum(&c, CTR_alloc_slab), 2);
}

#define EACH 50000

static void *count_often(void *arg)
{
	for (unsigned i = 0; i < unit_scaled(EACH); i++) {
		count(&c, CTR_alloc_slab);
		counters_add(&c, CTR_sheaf_refill, 3);
		counters_add(&c, CTR_jump, i % 2 ? 1 : -(uint64_t)1);
	}
	return arg;
}

/* Threads that push each other off their CPUs lose no count. */
static void test_threads(void **state)
{
	pthread_t threads[6];

	(void)state;
	begin();
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_often, NULL), 0);
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	unit_equal(counters_sum(&c, CTR_alloc_slab), array_size(threads) * unit_scaled(EACH));
	unit_equal(counters_sum(&c, CTR_sheaf_refill), array_size(threads) * unit_scaled(EACH) * 3);
	unit_equal(counters_sum(&c, CTR_jump), 0);
}

/* ---- the list ------------------------------------------------------------------------------------- */

static const char *const kernel_rows[] = {
	"aliases",
	"align",
	"alloc_fastpath",
	"alloc_node_mismatch",
	"alloc_slab",
	"alloc_slowpath",
	"barn_get",
	"barn_get_fail",
	"barn_put",
	"barn_put_fail",
	"cache_dma",
	"cmpxchg_double_fail",
	"cpu_partial",
	"cpu_slabs",
	"destroy_by_rcu",
	"free_add_partial",
	"free_fastpath",
	"free_rcu_sheaf",
	"free_rcu_sheaf_fail",
	"free_remove_partial",
	"free_slab",
	"free_slowpath",
	"hwcache_align",
	"min_partial",
	"object_size",
	"objects",
	"objects_partial",
	"objs_per_slab",
	"order",
	"order_fallback",
	"partial",
	"poison",
	"reclaim_account",
	"red_zone",
	"remote_node_defrag_ratio",
	"sanity_checks",
	"sheaf_alloc",
	"sheaf_capacity",
	"sheaf_flush",
	"sheaf_free",
	"sheaf_prefill_fast",
	"sheaf_prefill_oversize",
	"sheaf_prefill_slow",
	"sheaf_refill",
	"sheaf_return_fast",
	"sheaf_return_slow",
	"slab_size",
	"slabs",
	"slabs_cpu_partial",
	"store_user",
	"total_objects",
	"trace",
	"usersize",
};

static void test_names(void **state)
{
	(void)state;
	for (unsigned i = 0; i < array_size(kernel_rows); i++)
		assert_string_equal(uslub_stat_name(i), kernel_rows[i]);
	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		assert_int_equal(uslub_stat_find(uslub_stat_name(i)), i);
		assert_true(strlen(uslub_stat_help(i)) > 5);
		assert_in_range(uslub_stat_kind(i), 0, USLUB_STAT_KIND_FLAG);
	}
	assert_null(uslub_stat_name(USLUB_STAT_COUNT));
	assert_null(uslub_stat_name((enum uslub_stat) - 1));
	assert_null(uslub_stat_help(USLUB_STAT_COUNT));
	assert_int_equal(uslub_stat_kind(USLUB_STAT_COUNT), -EINVAL);
	assert_int_equal(uslub_stat_kind((enum uslub_stat) - 1), -EINVAL);
	assert_int_equal(uslub_stat_find("no such thing"), -EINVAL);
	assert_int_equal(uslub_stat_find(""), -EINVAL);
	assert_int_equal(uslub_stat_find(NULL), -EINVAL);
	assert_int_equal(uslub_stat_kind(USLUB_STAT_alloc_fastpath), USLUB_STAT_KIND_DERIVED);
	assert_int_equal(uslub_stat_kind(USLUB_STAT_alloc_slab), USLUB_STAT_KIND_COUNTER);
	assert_int_equal(uslub_stat_kind(USLUB_STAT_slabs), USLUB_STAT_KIND_GAUGE);
	assert_int_equal(uslub_stat_kind(USLUB_STAT_order), USLUB_STAT_KIND_ATTRIBUTE);
	assert_int_equal(uslub_stat_kind(USLUB_STAT_poison), USLUB_STAT_KIND_FLAG);
}

/* A counter that is bumped is the one that is read under its name. */
static void test_read(void **state)
{
	struct uslub_cache *cache = uslub_cache_create("read", 64, NULL);
	static const struct {
		enum counter bumped;
		const char *name;
	} rows[] = {
#define ROW_OF_COUNTER(name) { CTR_##name, #name },
#define ROW_OF_DERIVED(name)
#define ROW_OF_ATTRIBUTE(name)
#define ROW_OF_GAUGE(name)
#define ROW_OF_FLAG(name)
#define USLUB_STAT(name, kind, help) ROW_OF_##kind(name)
#include <uslub/stats.def>
#undef USLUB_STAT
	};
	uint64_t value;

	(void)state;
	assert_non_null(cache);
	for (unsigned i = 0; i < array_size(rows); i++)
		counters_add(counters(cache), rows[i].bumped, 1000 + i);
	for (unsigned i = 0; i < array_size(rows); i++) {
		int which = uslub_stat_find(rows[i].name);

		assert_int_equal(uslub_stat_kind(which), USLUB_STAT_KIND_COUNTER);
		assert_int_equal(uslub_cache_stat(cache, which, &value), 0);
		unit_equal(value, 1000 + i);
	}
	assert_int_equal(uslub_cache_stat(NULL, USLUB_STAT_order, &value), -EINVAL);
	assert_int_equal(uslub_cache_stat(cache, USLUB_STAT_order, NULL), -EINVAL);
	assert_int_equal(uslub_cache_stat(cache, USLUB_STAT_COUNT, &value), -EINVAL);
	assert_int_equal(uslub_cache_stat(cache, (enum uslub_stat) - 1, &value), -EINVAL);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_layout, UNIT_REAL),
		UNIT_TEST(test_add, UNIT_FAKED),
		UNIT_TEST(test_moved, UNIT_FAKED),
		UNIT_TEST(test_aborts, UNIT_FAKED),
		UNIT_TEST(test_threads, UNIT_SHARED | UNIT_REAL),
		UNIT_TEST(test_names, UNIT_REAL),
		UNIT_TEST(test_read, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
