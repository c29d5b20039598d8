/* SPDX-License-Identifier: MIT */
/*
 * Histograms of how long slow paths take. The clock is the test's own: it goes on by TICK at every reading,
 * so that sums are known to the nanosecond, or it is the machine's.
 */
#include <pthread.h>
#include <uslub/uslub.h>

#include "unit.h"
#include "stats/latency.h"
#include "cache/internal.h"
#include "tiers/arena.h"

#define TICK	 1000
#define CAPACITY 8
#define OBJECTS	 (CAPACITY * 100)

static uint64_t now; /* 0: the machine's clock */
static uint64_t tick = TICK;

uint64_t __real_plat_clock(void);
uint64_t __wrap_plat_clock(void);
uint64_t __wrap_plat_clock(void)
{
	return now ? plat_fetch_add(&now, tick) : __real_plat_clock();
}

static struct uslub_latency_histogram read_histogram(const struct uslub_cache *c,
						     enum uslub_latency which)
{
	struct uslub_latency_histogram h;
	uint64_t count = 0;

	assert_int_equal(uslub_cache_latency(c, which, &h), 0);
	for (unsigned b = 0; b < USLUB_LATENCY_BUCKETS; b++)
		count += h.buckets[b];
	unit_equal(h.count, count);
	return h;
}

#define histogram_of(c, name) read_histogram(c, USLUB_LATENCY_##name)
#define timed(c, name)	      (histogram_of(c, name).count)

static struct uslub_cache *create(unsigned capacity)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.policy = { .latency = USLUB_POLICY_ON,
			    .sheaf_capacity = capacity ? capacity : USLUB_POLICY_NONE },
	};
	struct uslub_cache *c = uslub_cache_create("timed", 256, &args);

	assert_non_null(c);
	return c;
}

static void take(struct uslub_cache *c, unsigned n, void **objects)
{
	for (unsigned i = 0; i < n; i++) {
		objects[i] = uslub_cache_alloc(c, 0);
		assert_non_null(objects[i]);
	}
}

static void give(struct uslub_cache *c, unsigned n, void **objects)
{
	for (unsigned i = 0; i < n; i++)
		uslub_cache_free(c, objects[i]);
}

/* ---- histograms ----------------------------------------------------------------------------------- */

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++) {
		assert_true(strlen(uslub_latency_name(i)) > 3);
		assert_true(strlen(uslub_latency_help(i)) > 5);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(uslub_latency_name(i), uslub_latency_name(k));
	}
	assert_string_equal(uslub_latency_name(USLUB_LATENCY_new_slab), "new_slab");
	assert_null(uslub_latency_name(USLUB_LATENCY_COUNT));
	assert_null(uslub_latency_name((enum uslub_latency) - 1));
	assert_null(uslub_latency_help(USLUB_LATENCY_COUNT));
}

/* One of `ns`: where it must be counted. */
static void note(const struct counters *c, uint64_t ns, unsigned bucket)
{
	struct uslub_latency_histogram before, after;

	assert_true(latency_read(c, USLUB_LATENCY_flush, &before));
	now = 5000;
	tick = ns;
	latency_end(c, USLUB_LATENCY_flush, latency_begin(c));
	assert_true(latency_read(c, USLUB_LATENCY_flush, &after));
	unit_equal(after.count, before.count + 1);
	unit_equal(after.sum_ns, before.sum_ns + ns);
	unit_equal(after.buckets[bucket], before.buckets[bucket] + 1);
}

static void test_buckets(void **state)
{
	struct uslub_latency_histogram h;
	struct counters c = { 0 };

	(void)state;
	counters_layout(&c, plat_nslots(), 2);
	latency_layout(&c);
	c.words = arena_alloc(counters_bytes(&c));
	assert_non_null(c.words);
	note(&c, 0, 0);
	note(&c, 1, 0);
	for (unsigned b = 1; b < USLUB_LATENCY_BUCKETS; b++) {
		note(&c, 1ull << b, b);
		note(&c, (2ull << b) - 1, b);
	}
	note(&c, 1ull << USLUB_LATENCY_BUCKETS, USLUB_LATENCY_BUCKETS - 1);
	note(&c, 1ull << 60, USLUB_LATENCY_BUCKETS - 1);
	/* Nothing else was written to. */
	for (unsigned i = 0; i < CTR_COUNT + 2 * NODE_COUNTERS; i++)
		unit_equal(counters_sum(&c, i), 0);
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++) {
		assert_true(latency_read(&c, i, &h));
		unit_equal(h.count, i == USLUB_LATENCY_flush ? 2 * USLUB_LATENCY_BUCKETS + 2 : 0);
	}
}

/* A thread on another CPU counts there, one without a CPU elsewhere; a reading has them all. */
static void test_cpus(void **state)
{
	struct uslub_cache *c = create(CAPACITY);

	(void)state;
	now = 1;
	for (int cpu = -1; cpu < 4; cpu++) {
		unit_on_cpu(cpu);
		latency_end(counters(c), USLUB_LATENCY_free, latency_begin(counters(c)));
	}
	unit_equal(timed(c, free), 5);
	unit_equal(histogram_of(c, free).sum_ns, 5 * TICK);
	unit_equal(timed(c, alloc), 0);
}

/* ---- caches --------------------------------------------------------------------------------------- */

static void test_off(void **state)
{
	struct uslub_cache *off = uslub_cache_create("off", 256, NULL), *on = create(0);
	struct uslub_latency_histogram h = { .count = 77 };
	struct counters plain = { 0 };
	struct uslub_policy policy;
	void *objects[100];

	(void)state;
	now = 5000;
	take(off, 100, objects);
	give(off, 100, objects);
	unit_equal(now, 5000); /* nobody asked for the time */
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++)
		assert_int_equal(uslub_cache_latency(off, i, &h), -ENODATA);
	unit_equal(h.count, 77);
	uslub_cache_policy(off, &policy);
	unit_equal(policy.latency, USLUB_POLICY_OFF);
	uslub_cache_policy(on, &policy);
	unit_equal(policy.latency, USLUB_POLICY_ON);
	counters_layout(&plain, off->nslots, plat_nnodes());
	unit_equal(counters_bytes(counters(off)), counters_bytes(&plain));
	assert_true(counters_bytes(counters(on)) > counters_bytes(&plain));
	/* bad calls, in either case */
	assert_int_equal(uslub_cache_latency(NULL, USLUB_LATENCY_alloc, &h), -EINVAL);
	assert_int_equal(uslub_cache_latency(on, USLUB_LATENCY_alloc, NULL), -EINVAL);
	assert_int_equal(uslub_cache_latency(on, USLUB_LATENCY_COUNT, &h), -EINVAL);
	assert_int_equal(uslub_cache_latency(off, USLUB_LATENCY_COUNT, &h), -EINVAL);
	assert_int_equal(uslub_cache_latency(on, (enum uslub_latency) - 1, &h), -EINVAL);
}

/*
 * As many as the statistics count; and as long as the clock was read within: once for each itself, twice for
 * what is inside of it.
 */
static void test_counts(void **state)
{
	struct uslub_cache *c = create(CAPACITY);
	static void *objects[OBJECTS];
	uint64_t puts, refused;

	(void)state;
	now = 1;
	take(c, OBJECTS, objects);
	unit_equal(timed(c, alloc), stat_of(c, barn_get) + stat_of(c, barn_get_fail));
	unit_equal(timed(c, alloc), OBJECTS / CAPACITY);
	unit_equal(timed(c, refill) * CAPACITY, stat_of(c, sheaf_refill));
	unit_equal(timed(c, new_slab), stat_of(c, alloc_slab));
	assert_true(timed(c, new_slab) > 0);
	unit_equal(histogram_of(c, new_slab).sum_ns, timed(c, new_slab) * TICK);
	unit_equal(histogram_of(c, refill).sum_ns,
		   (timed(c, refill) + 2 * timed(c, new_slab)) * TICK);
	unit_equal(histogram_of(c, alloc).sum_ns,
		   (timed(c, alloc) + 2 * timed(c, refill) + 2 * timed(c, new_slab)) * TICK);
	unit_equal(timed(c, free) + timed(c, flush) + timed(c, prefill), 0);

	give(c, OBJECTS, objects);
	puts = stat_of(c, barn_put);
	refused = stat_of(c, barn_put_fail);
	assert_true(refused > 10);
	unit_equal(timed(c, free), puts + refused);
	unit_equal(timed(c, flush), refused);
	unit_equal(timed(c, flush) * CAPACITY, stat_of(c, sheaf_flush));
	unit_equal(histogram_of(c, flush).sum_ns, timed(c, flush) * TICK);
	unit_equal(histogram_of(c, free).sum_ns, (timed(c, free) + 2 * timed(c, flush)) * TICK);
	unit_equal(timed(c, alloc), OBJECTS / CAPACITY);
}

static void test_prefill(void **state)
{
	struct uslub_cache *c = create(CAPACITY);
	struct uslub_sheaf *s[3];

	(void)state;
	/* no spare; no spare; more than a sheaf holds; nonsense */
	for (unsigned i = 0; i < 3; i++) {
		s[i] = uslub_cache_prefill_sheaf(c, 0, i < 2 ? CAPACITY : 3 * CAPACITY);
		assert_non_null(s[i]);
		unit_equal(timed(c, prefill), i + 1);
	}
	assert_null(uslub_cache_prefill_sheaf(c, 0, 0));
	unit_equal(timed(c, prefill),
		   stat_of(c, sheaf_prefill_slow) + stat_of(c, sheaf_prefill_oversize));
	uslub_cache_return_sheaf(c, 0, s[0]);
	/* the spare serves */
	s[0] = uslub_cache_prefill_sheaf(c, 0, CAPACITY);
	unit_equal(stat_of(c, sheaf_prefill_fast), 1);
	unit_equal(timed(c, prefill), 3);
	/* the spare is short */
	uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, s[0]));
	uslub_cache_return_sheaf(c, 0, s[0]);
	s[0] = uslub_cache_prefill_sheaf(c, 0, CAPACITY);
	unit_equal(stat_of(c, sheaf_prefill_fast), 2);
	unit_equal(timed(c, prefill), 4);
	for (unsigned i = 0; i < 3; i++)
		uslub_cache_return_sheaf(c, 0, s[i]);
}

static void test_no_sheaves(void **state)
{
	struct uslub_cache *c = create(0);
	static void *objects[OBJECTS];

	(void)state;
	take(c, OBJECTS, objects);
	give(c, OBJECTS, objects);
	unit_equal(timed(c, alloc), stat_of(c, alloc_slowpath));
	unit_equal(timed(c, alloc), OBJECTS);
	unit_equal(timed(c, free), stat_of(c, free_slowpath));
	unit_equal(timed(c, free), OBJECTS);
	unit_equal(timed(c, new_slab), stat_of(c, alloc_slab));
	unit_equal(timed(c, refill) + timed(c, flush), 0);
}

/* What is for another node, or comes from there, passes by the sheaves. */
static void test_nodes(void **state)
{
	static const char *const nodes[] = { "0-1", "2-3" };
	struct uslub_cache *c;
	void *objects[20];

	(void)state;
	unit_machine("0-3", NULL, nodes, 2);
	c = create(CAPACITY);
	for (unsigned i = 0; i < array_size(objects); i++)
		objects[i] = uslub_cache_alloc_node(c, 0, 1);
	unit_equal(timed(c, alloc), stat_of(c, alloc_node_mismatch));
	unit_equal(timed(c, alloc), array_size(objects));
	give(c, array_size(objects), objects);
	unit_equal(timed(c, free), stat_of(c, free_slowpath));
	unit_equal(timed(c, free), array_size(objects));
}

/* ---- by the machine's clock ----------------------------------------------------------------------- */

/* All that was timed lies within the time that it took together. */
static void test_real_time(void **state)
{
	struct uslub_cache *c = create(CAPACITY);
	uint64_t began = plat_clock(), took, inside;
	static void *objects[OBJECTS];

	(void)state;
	take(c, OBJECTS, objects);
	give(c, OBJECTS, objects);
	took = plat_clock() - began;
	inside = histogram_of(c, alloc).sum_ns + histogram_of(c, free).sum_ns;
	assert_in_range(inside, 1, took);
	assert_in_range(histogram_of(c, refill).sum_ns, 1, histogram_of(c, alloc).sum_ns);
	assert_in_range(histogram_of(c, new_slab).sum_ns, 1, histogram_of(c, refill).sum_ns);
	assert_in_range(histogram_of(c, flush).sum_ns, 1, histogram_of(c, free).sum_ns);
	/* The sum is what the buckets can hold. */
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++) {
		struct uslub_latency_histogram h = read_histogram(c, i);
		uint64_t least = 0, most = 0;

		for (unsigned b = 0; b < USLUB_LATENCY_BUCKETS; b++) {
			least += b ? h.buckets[b] << b : 0;
			most += h.buckets[b] * ((2ull << b) - 1);
		}
		assert_in_range(h.sum_ns, least, most);
	}
}

static void *churn(void *arg)
{
	void *objects[5 * CAPACITY];

	for (unsigned round = 0; round < unit_scaled(300); round++) {
		take(arg, array_size(objects), objects);
		give(arg, array_size(objects), objects);
	}
	return NULL;
}

/* Threads that push each other off their CPUs lose nothing. */
static void test_threads(void **state)
{
	struct uslub_cache *c = create(CAPACITY);
	pthread_t threads[6];

	(void)state;
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, c), 0);
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	unit_equal(timed(c, new_slab), stat_of(c, alloc_slab));
	assert_true(timed(c, refill) * CAPACITY >= stat_of(c, sheaf_refill));
	assert_true(timed(c, flush) * CAPACITY >= stat_of(c, sheaf_flush));
	assert_true(timed(c, alloc) > 0);
	unit_check_cache(c, 0, 0, 0);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_names, UNIT_REAL),
		UNIT_TEST(test_buckets, UNIT_ALL),
		UNIT_TEST(test_cpus, UNIT_FAKED),
		UNIT_TEST(test_off, UNIT_ALL),
		UNIT_TEST(test_counts, UNIT_BOTH),
		UNIT_TEST(test_prefill, UNIT_BOTH),
		UNIT_TEST(test_no_sheaves, UNIT_BOTH),
		UNIT_TEST(test_nodes, UNIT_FAKED),
		UNIT_TEST(test_real_time, UNIT_BOTH),
		UNIT_TEST(test_threads, UNIT_SHARED | UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
