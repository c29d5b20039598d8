/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out at every possible place: for k = 0, 1, 2, ... the k-th call that maps memory fails,
 * and all later ones, or that one alone. Whatever was asked for is NULL or -ENOMEM then, nothing is
 * lost, and when there is memory again all is as it should be. Each k is tried in a process of its own.
 */
#include <unistd.h>
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define OBJECTS 20000
#define SHEAVES 64

struct setting {
	size_t size;
	unsigned capacity; /* 0: none */
	unsigned flags;
	bool two_nodes;
	bool once; /* only one call fails */
	unsigned k;
	void (*scenario)(void);
};

static const struct setting *set;
static struct uslub_cache *c;
static void *objects[OBJECTS];
static struct uslub_sheaf *sheaves[SHEAVES];
static unsigned nobjects, nsheaves, failed, refusals, base_calls;

/* ---- what may fail -------------------------------------------------------------------------------- */

/* After each call: has the one failed that was to fail? */
static bool passed(void)
{
	bool hit = plat_inject_calls - base_calls > set->k;

	if (hit && set->once)
		plat_inject_failures = -1;
	return hit;
}

/* A refusal is one for want of memory, and only after a call has failed. */
static void refused(int error)
{
	unit_equal(error, ENOMEM);
	assert_true(passed());
	refusals++;
}

static void create(void)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .flags = set->flags,
					 .rcu = &urcu_memb_flavor };

	args.policy.sheaf_capacity = set->capacity ? set->capacity : USLUB_POLICY_NONE;
	errno = 0;
	c = uslub_cache_create("short", set->size, &args);
	if (!c)
		refused(errno);
	passed();
}

static void keep(void *object)
{
	/* each byte is ours */
	assert_true(nobjects < OBJECTS);
	memset(object, 0x5a, set->size);
	objects[nobjects++] = object;
}

static void alloc_some(unsigned n)
{
	void *object;

	while (n--) {
		errno = 0;
		object = uslub_cache_alloc(c, n % 3 ? 0 : USLUB_ZERO);
		if (object) {
			keep(object);
		} else {
			refused(errno);
			failed++;
		}
		passed();
	}
}

static void alloc_on_nodes(unsigned n)
{
	void *object;

	while (n--) {
		unit_on_cpu((int)n % 4);
		errno = 0;
		object = uslub_cache_alloc_node(c, 0, (int)n / 4 % 2);
		if (object) {
			keep(object);
		} else {
			refused(errno);
			failed++;
		}
		passed();
	}
}

static void alloc_bulk(unsigned n)
{
	void *got[600];
	int error = uslub_cache_alloc_bulk(c, 0, n, got);

	if (error)
		refused(-error);
	for (unsigned i = 0; !error && i < n; i++)
		keep(got[i]);
	passed();
}

static void prefill(unsigned n)
{
	struct uslub_sheaf *sheaf;

	errno = 0;
	sheaf = uslub_cache_prefill_sheaf(c, 0, n);
	if (sheaf) {
		assert_true(uslub_sheaf_size(sheaf) >= n);
		assert_true(nsheaves < SHEAVES);
		sheaves[nsheaves++] = sheaf;
	} else {
		refused(errno);
	}
	passed();
}

static void refill(unsigned n)
{
	struct uslub_sheaf **sheaf;
	unsigned before;
	int error;

	if (!nsheaves)
		return;
	sheaf = &sheaves[unit_below(nsheaves)];
	for (unsigned i = 0; i < 2 && uslub_sheaf_size(*sheaf); i++)
		keep(uslub_cache_alloc_from_sheaf(c, 0, *sheaf));
	before = uslub_sheaf_size(*sheaf);
	error = uslub_cache_refill_sheaf(c, 0, sheaf, n);
	if (error)
		refused(-error);
	assert_true(uslub_sheaf_size(*sheaf) >= (error ? before : n));
	passed();
}

/* What never fails. */
static void give_back_one(void)
{
	if (nsheaves)
		uslub_cache_return_sheaf(c, 0, sheaves[--nsheaves]);
	passed();
}

static void check_object(const unsigned char *p)
{
	for (size_t i = 0; i < set->size; i += 1 + set->size / 64)
		assert_int_equal(p[i], 0x5a);
}

static void free_some(unsigned n)
{
	while (n-- && nobjects) {
		check_object(objects[--nobjects]);
		uslub_cache_free(c, objects[nobjects]);
		passed();
	}
}

static void free_rcu_some(unsigned n)
{
	while (n-- && nobjects) {
		check_object(objects[--nobjects]);
		uslub_cache_free_rcu(c, objects[nobjects]);
		passed();
	}
}

static void free_bulk(unsigned n)
{
	n = min(n, nobjects);
	nobjects -= n;
	uslub_cache_free_bulk(c, n, objects + nobjects);
	passed();
}

/* ---- scenarios ------------------------------------------------------------------------------------ */

static void use_objects(void)
{
	alloc_some(800);
	free_some(600);
	uslub_cache_shrink(c);
	alloc_some(700);
	free_some(200);
}

static void use_bulk(void)
{
	for (unsigned i = 0; i < 4; i++)
		alloc_bulk(250);
	free_bulk(500);
	alloc_bulk(3);
	uslub_cache_shrink(c);
	alloc_bulk(600);
	free_bulk(100);
}

static void use_sheaves(void)
{
	for (unsigned i = 0; i < 6; i++)
		prefill(1 + i % 4);
	alloc_some(300);
	for (unsigned i = 0; i < 3; i++)
		prefill(150 * (i + 1));
	for (unsigned i = 0; i < 8; i++)
		refill(1 + 40 * i);
	for (unsigned i = 0; i < 4; i++)
		give_back_one();
	alloc_some(200);
	prefill(4);
	refill(4);
}

static void use_rcu(void)
{
	alloc_some(600);
	free_rcu_some(300);
	alloc_some(300);
	free_rcu_some(500);
	uslub_cache_barrier_rcu(c);
	uslub_cache_shrink(c);
	alloc_some(500);
	free_rcu_some(100);
}

static void use_all(void)
{
	use_sheaves();
	use_rcu();
	use_bulk();
}

static void use_nodes(void)
{
	alloc_on_nodes(600);
	unit_on_cpu(3);
	free_some(150);
	unit_on_cpu(0);
	free_rcu_some(150);
	alloc_on_nodes(600);
	unit_on_cpu(1);
	free_bulk(300);
}

/* ---- one k ---------------------------------------------------------------------------------------- */

static void check_nothing_lost(void)
{
	uint64_t in_sheaves = 0;

	uslub_cache_barrier_rcu(c);
	for (unsigned i = 0; i < nsheaves; i++)
		in_sheaves += uslub_sheaf_size(sheaves[i]);
	unit_equal(stat_of(c, rcu_pending), 0);
	unit_check_cache(c, nobjects + in_sheaves, nsheaves, failed);
}

/* The system has memory again. */
static void recover(void)
{
	struct supply_usage usage;

	plat_inject_failures = -1;
	if (!c) {
		assert_null(uslub_cache_find("short"));
		create();
		assert_non_null(c);
	}
	check_nothing_lost();
	refusals = 0;
	base_calls = plat_inject_calls + 1000000; /* none may fail now */
	set->scenario();
	unit_equal(refusals, 0);
	check_nothing_lost();
	while (nsheaves)
		give_back_one();
	free_rcu_some(nobjects / 2);
	free_some(nobjects);
	check_nothing_lost();
	unit_equal(uslub_cache_destroy(c), 0);
	/* What is left is the internal caches', and blocks of pointers for deferred frees. */
	supply_usage(&usage);
	assert_true(usage.used <= (16 + 100) * plat_page_size());
}

static void try_k(void *arg)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	bool hit;

	set = arg;
	if (set->two_nodes)
		unit_machine("0-3", NULL, cpus, 2);
	base_calls = plat_inject_calls;
	plat_inject_failures = (int)set->k;
	create();
	if (c)
		set->scenario();
	hit = passed();
	recover();
	unit_exit(hit ? 0 : 42);
}

static void each_k_of(struct setting s)
{
	char text[4000];
	int status = 0;

	for (s.k = 0; s.k < 200; s.k += unit_slow() ? 5 : 1) {
		status = unit_child(try_k, &s, text, sizeof(text), unit_scaled(200));
		if (status == 42 << 8)
			break; /* there are no k calls */
		if (status)
			fail_msg("call %u failed%s: status %#x: %s", s.k, s.once ? " alone" : "",
				 status, text);
	}
	unit_equal(status, 42 << 8);
	assert_true(s.k > 5);
}

static void each_k(struct setting s)
{
	each_k_of(s);
	s.once = true;
	each_k_of(s);
}

static void test_objects(void **state)
{
	(void)state;
	each_k((struct setting){ .size = 4096, .capacity = 4, .scenario = use_objects });
	each_k((struct setting){ .size = 3000, .capacity = 0, .scenario = use_objects });
}

static void test_bulk(void **state)
{
	(void)state;
	each_k((struct setting){ .size = 4096, .capacity = 60, .scenario = use_bulk });
	each_k((struct setting){ .size = 5000, .capacity = 0, .scenario = use_bulk });
}

static void test_sheaves(void **state)
{
	(void)state;
	each_k((struct setting){ .size = 4096, .capacity = 4, .scenario = use_sheaves });
	each_k((struct setting){ .size = 2000, .capacity = 255, .scenario = use_sheaves });
}

static void test_rcu(void **state)
{
	(void)state;
	each_k((struct setting){ .size = 4096, .capacity = 4, .scenario = use_rcu });
	each_k((struct setting){ .size = 4000, .capacity = 0, .scenario = use_rcu });
}

static void test_all(void **state)
{
	(void)state;
	each_k((struct setting){ .size = 2048,
				 .capacity = 12,
				 .flags = USLUB_TYPESAFE_BY_RCU,
				 .scenario = use_all });
}

static void test_nodes(void **state)
{
	(void)state;
	each_k((struct setting){
		.size = 4096, .capacity = 4, .two_nodes = true, .scenario = use_nodes });
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_objects, UNIT_BOTH), UNIT_TEST(test_bulk, UNIT_FAKED),
		UNIT_TEST(test_sheaves, UNIT_BOTH), UNIT_TEST(test_rcu, UNIT_BOTH),
		UNIT_TEST(test_all, UNIT_FAKED),    UNIT_TEST(test_nodes, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
