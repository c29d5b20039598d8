/* SPDX-License-Identifier: MIT */
/* What <uslub/uslub.h> promises, function by function. */
#include <limits.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"

/* A flavor that is never waited for. */
static const struct rcu_flavor_struct no_flavor;

static struct uslub_cache *cache_with(size_t size, const struct uslub_cache_args *given)
{
	struct uslub_cache_args args = *given;
	struct uslub_cache *c;

	args.args_size = sizeof(args);
	c = uslub_cache_create("tested", size, &args);
	assert_non_null(c);
	return c;
}

static struct uslub_cache *cache(size_t size, unsigned capacity)
{
	return cache_with(size, &(struct uslub_cache_args){ .policy.sheaf_capacity = capacity });
}

static void *alloc(struct uslub_cache *c)
{
	void *object = uslub_cache_alloc(c, 0);

	assert_non_null(object);
	return object;
}

static void destroy(struct uslub_cache *c)
{
	unit_equal(uslub_cache_destroy(c), 0);
}

/* ---- creation ------------------------------------------------------------------------------------- */

static void refused(const char *name, size_t size, struct uslub_cache_args args)
{
	if (!args.args_size)
		args.args_size = sizeof(args);
	errno = 0;
	assert_null(uslub_cache_create(name, size, &args));
	unit_equal(errno, EINVAL);
}

static int count_one(struct uslub_cache *c, void *arg)
{
	(void)c;
	++*(unsigned *)arg;
	return 0;
}

static void test_create_refusals(void **state)
{
	const struct uslub_cache_args fine = { .align = 0 };
	char name[65];
	unsigned n = 0;

	(void)state;
	memset(name, 'x', 64);
	name[64] = '\0';
	refused(NULL, 64, fine);
	refused("", 64, fine);
	refused(name, 64, fine);
	refused("a", 0, fine);
	refused("a", ((size_t)2 << 20) + 1, fine);
	refused("a", SIZE_MAX, fine);
	refused("a", 64, (struct uslub_cache_args){ .args_size = sizeof(fine) - 1 });
	refused("a", 64, (struct uslub_cache_args){ .args_size = sizeof(fine) + 1 });
	refused("a", 64, (struct uslub_cache_args){ .align = 3 });
	refused("a", 64, (struct uslub_cache_args){ .align = 12 });
	refused("a", 64, (struct uslub_cache_args){ .align = 2 * plat_page_size() });
	refused("a", 64, (struct uslub_cache_args){ .align = (size_t)1 << 63 });
	refused("a", 64, (struct uslub_cache_args){ .flags = 0x8 });
	refused("a", 64, (struct uslub_cache_args){ .flags = 0x80000000 });
	refused("a", 64, (struct uslub_cache_args){ .sheaf_capacity = 256 });
	refused("a", 64, (struct uslub_cache_args){ .sheaf_capacity = UINT_MAX });
	refused("a", 64, (struct uslub_cache_args){ .flags = USLUB_TYPESAFE_BY_RCU });
	refused("a", 64, (struct uslub_cache_args){ .policy.barn_full = 1025 });
	/* what alignment adds, or a link outside of the object, is too much */
	refused("a", (size_t)2 << 20,
		(struct uslub_cache_args){ .flags = USLUB_TYPESAFE_BY_RCU, .rcu = &no_flavor });
	uslub_for_each_cache(count_one, &n);
	unit_equal(n, 0);
	assert_null(uslub_cache_find("a"));
}

static void test_create(void **state)
{
	struct uslub_cache *c, *d;
	char name[64];

	(void)state;
	memset(name, 'x', 63);
	name[63] = '\0';
	errno = E2BIG;
	c = uslub_cache_create(name, 100, NULL);
	assert_non_null(c);
	unit_equal(errno, E2BIG);
	name[0] = 'y'; /* it was copied */
	assert_int_equal(uslub_cache_name(c)[0], 'x');
	unit_equal(strlen(uslub_cache_name(c)), 63);
	unit_equal(uslub_cache_object_size(c), 100);
	d = uslub_cache_create(uslub_cache_name(c), 100, NULL); /* names need not be unique */
	assert_non_null(d);
	assert_ptr_not_equal(c, d);
	destroy(c);
	destroy(d);
	unit_equal(uslub_cache_destroy(NULL), 0);
	/* the largest */
	c = uslub_cache_create("large", (size_t)2 << 20, NULL);
	assert_non_null(c);
	memset(alloc(c), 1, (size_t)2 << 20);
	c = cache_with(((size_t)2 << 20) - 1, &(struct uslub_cache_args){ .align = 4096 });
	unit_equal((uintptr_t)alloc(c) % 4096, 0);
	assert_string_equal(uslub_version(), USLUB_VERSION_STRING);
}

/* Caches that come and go, and those that are refused at a late point, leave nothing behind. */
static void test_create_leaks_nothing(void **state)
{
	struct uslub_cache_args bad = { .args_size = sizeof(bad), .policy.rcu_limit = 1 };
	struct uslub_cache *c = NULL;
	size_t before = 0;

	(void)state;
	if (unit_sanitized() || unit_under_valgrind())
		unit_skip("address space is the tool's");
	for (unsigned i = 0; i < 3000; i++) {
		if (i == 10)
			before = unit_mapped();
		c = uslub_cache_create("passing", 64, NULL);
		assert_non_null(c);
		uslub_cache_free(c, alloc(c));
		destroy(c);
		refused("refused", 64, bad);
	}
	assert_true(unit_mapped() <= before + ((size_t)1 << 20));
}

static void test_attributes(void **state)
{
	static const struct {
		size_t size;
		unsigned capacity, min_partial;
	} rows[] = {
		{ 1, 60, 5 },	   { 8, 60, 5 },       { 64, 60, 5 },	   { 255, 60, 5 },
		{ 256, 28, 5 },	   { 1023, 28, 5 },    { 1024, 12, 5 },	   { 4095, 12, 5 },
		{ 4096, 4, 6 },	   { 8192, 4, 6 },     { 16384, 4, 7 },	   { 65536, 4, 8 },
		{ 1 << 19, 4, 9 }, { 1 << 20, 4, 10 }, { 1 << 21, 4, 10 },
	};
	static const int zeros[] = {
		USLUB_STAT_cache_dma,	  USLUB_STAT_cpu_partial,	USLUB_STAT_cpu_slabs,
		USLUB_STAT_poison,	  USLUB_STAT_red_zone,		USLUB_STAT_reclaim_account,
		USLUB_STAT_sanity_checks, USLUB_STAT_slabs_cpu_partial, USLUB_STAT_store_user,
		USLUB_STAT_trace,	  USLUB_STAT_usersize,		USLUB_STAT_aliases,
		USLUB_STAT_hwcache_align, USLUB_STAT_destroy_by_rcu,	USLUB_STAT_slabs,
		USLUB_STAT_total_objects, USLUB_STAT_objects,		USLUB_STAT_partial
	};

	(void)state;
	for (unsigned i = 0; i < array_size(rows); i++) {
		struct uslub_cache *c = uslub_cache_create("a", rows[i].size, NULL);

		assert_non_null(c);
		unit_equal(stat_of(c, sheaf_capacity), rows[i].capacity);
		unit_equal(stat_of(c, min_partial), rows[i].min_partial);
		unit_equal(stat_of(c, object_size), rows[i].size);
		unit_equal(stat_of(c, slab_size), align_up(rows[i].size, 8));
		unit_equal(stat_of(c, remote_node_defrag_ratio), 100);
		unit_equal(stat_of(c, rseq), unit_mode() == UNIT_FAKED);
		assert_true(stat_of(c, objs_per_slab) * stat_of(c, slab_size) <=
			    plat_page_size() << stat_of(c, order));
		for (unsigned k = 0; k < array_size(zeros); k++)
			unit_equal(unit_stat(c, zeros[k]), 0);
		destroy(c);
	}
}

static void test_arguments(void **state)
{
	struct uslub_cache *c;
	struct uslub_policy p;

	(void)state;
	c = cache_with(100, &(struct uslub_cache_args){ .sheaf_capacity = 61, .min_partial = 17 });
	unit_equal(stat_of(c, sheaf_capacity), 61);
	unit_equal(stat_of(c, min_partial), 17);
	destroy(c);
	c = cache_with(100, &(struct uslub_cache_args){ .sheaf_capacity = 3 });
	unit_equal(stat_of(c, sheaf_capacity), 60); /* at least */
	destroy(c);
	c = cache_with(256, &(struct uslub_cache_args){ .sheaf_capacity = 32, .align = 256 });
	unit_equal(stat_of(c, sheaf_capacity), 32); /* the kernel's maple_node */
	unit_equal(stat_of(c, align), 256);
	unit_equal(stat_of(c, slab_size), 256);
	destroy(c);
	c = cache_with(100, &(struct uslub_cache_args){ .flags = USLUB_HWCACHE_ALIGN });
	unit_equal(stat_of(c, hwcache_align), 1);
	unit_equal(stat_of(c, align), 64);
	unit_equal(stat_of(c, slab_size), 128);
	destroy(c);
	c = cache_with(60,
		       &(struct uslub_cache_args){ .policy.sheaf_capacity = USLUB_POLICY_NONE });
	unit_equal(stat_of(c, sheaf_capacity), 0);
	uslub_cache_policy(c, &p);
	unit_equal(p.sheaf_capacity, USLUB_POLICY_NONE);
	assert_true(p.prefill_barn && p.barn_full && p.barn_empty && p.slab_min_objects &&
		    p.rcu_limit);
	destroy(c);
}

/* ---- objects -------------------------------------------------------------------------------------- */

/* They are aligned, apart from each other, and nobody else writes to them. */
static void try_objects(size_t size, size_t align, unsigned flags, unsigned n)
{
	struct uslub_cache *c = cache_with(
		size, &(struct uslub_cache_args){
			      .align = align, .flags = flags, .sheaf_capacity = 1 + n % 200 });
	unsigned char **objects = calloc(n, sizeof(*objects));
	size_t least = align ? align : min(size & -size, (size_t)8);

	for (unsigned i = 0; i < n; i++) {
		objects[i] = alloc(c);
		unit_equal((uintptr_t)objects[i] % least, 0);
		memset(objects[i], (int)(i % 251 + 1), size);
	}
	for (unsigned i = 0; i < n; i++)
		for (size_t k = 0; k < size; k++)
			assert_int_equal(objects[i][k], i % 251 + 1);
	for (unsigned i = 0; i < n; i++)
		uslub_cache_free(c, objects[i]);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
	free(objects);
}

static void test_alignment(void **state)
{
	static const size_t sizes[] = { 1,    2,    3,	  4,	7,    8,     12,    16,
					24,   31,   48,	  64,	65,   96,    100,   128,
					192,  200,  256,  257,	500,  512,   700,   1000,
					1024, 2000, 4096, 5000, 8192, 30000, 100000 };

	(void)state;
	for (unsigned i = 0; i < array_size(sizes); i++) {
		unsigned n = (unsigned)max(unit_scaled(200000) / sizes[i], (size_t)3);

		n = min(n, 700u);
		try_objects(sizes[i], 0, 0, n);
		try_objects(sizes[i], 0, USLUB_HWCACHE_ALIGN, n / 2);
		for (size_t align = 1; align <= plat_page_size(); align *= 4)
			try_objects(sizes[i], align, 0, n / 4 + 1);
	}
}

static void test_zero(void **state)
{
	struct uslub_cache *c = cache(300, 4);
	unsigned char *objects[20];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 20; i++) {
			objects[i] = uslub_cache_alloc(c, USLUB_ZERO);
			assert_non_null(objects[i]);
			for (unsigned k = 0; k < 300; k++)
				assert_int_equal(objects[i][k], 0);
			memset(objects[i], 0xee, 300);
		}
		for (unsigned i = 0; i < 20; i++)
			uslub_cache_free(c, objects[i]);
		if (round == 1)
			uslub_cache_shrink(c);
	}
	unit_equal(stat_of(c, alloc_fastpath), 60);
	destroy(c);
}

/* How many of the objects lie behind the one before. */
static unsigned ascending(void *const *objects, unsigned n)
{
	unsigned up = 0;

	for (unsigned i = 1; i < n; i++)
		up += objects[i] > objects[i - 1];
	return up;
}

/* Policy slab-random, for what is taken at once and for what is taken one by one. */
static void test_slab_random(void **state)
{
	struct uslub_cache_args args = { .policy = { .sheaf_capacity = USLUB_POLICY_NONE,
						     .slab_min_objects = 64 } };
	void *objects[64];

	(void)state;
	for (unsigned random = 0; random < 2; random++)
		for (unsigned bulk = 0; bulk < 2; bulk++) {
			struct uslub_cache *c;

			args.policy.slab_random = random ? USLUB_POLICY_ON : USLUB_POLICY_OFF;
			c = cache_with(64, &args);
			unit_equal(stat_of(c, objs_per_slab), 64);
			if (bulk)
				unit_equal(uslub_cache_alloc_bulk(c, 0, 64, objects), 0);
			for (unsigned i = 0; !bulk && i < 64; i++)
				objects[i] = alloc(c);
			unit_equal(stat_of(c, slabs), 1);
			if (random)
				assert_in_range(ascending(objects, 64), 10, 53);
			else
				unit_equal(ascending(objects, 64), 63);
			uslub_cache_free_bulk(c, 64, objects);
			destroy(c);
		}
}

/* What its last user left is there again, as long as no slab was in between. */
static void test_content(void **state)
{
	struct uslub_cache *c = cache(300, 4);
	unsigned char *p = alloc(c);

	(void)state;
	memset(p, 0x77, 300);
	uslub_cache_free(c, p);
	assert_ptr_equal(alloc(c), p); /* last in, first out */
	for (unsigned k = 0; k < 300; k++)
		assert_int_equal(p[k], 0x77);
}

static unsigned built;

static void build(void *object)
{
	built++;
	memset(object, 0x42, 120);
}

static void check_built(const unsigned char *p)
{
	for (unsigned k = 0; k < 120; k++)
		assert_int_equal(p[k], 0x42);
}

#define ZEROED 296

static struct uslub_cache *zero_cache(uint64_t capacity)
{
	return cache_with(ZEROED,
			  &(struct uslub_cache_args){ .policy = { .zero_on_free = USLUB_POLICY_ON,
								  .sheaf_capacity = capacity } });
}

static bool is_zero(const unsigned char *p)
{
	for (unsigned k = 0; k < ZEROED; k++)
		if (p[k])
			return false;
	return true;
}

/* Zeros come out, however it is allocated and whatever came of it before; then it is filled. */
static void check_zeros(void *const *objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(is_zero(objects[i]));
		memset(objects[i], 0xee, ZEROED);
	}
}

static void zero_free_nolock(struct uslub_cache *c, size_t n, void **objects)
{
	while (n--)
		uslub_cache_free_nolock(c, *objects++);
}

static void zero_free(struct uslub_cache *c, size_t n, void **objects)
{
	while (n--)
		uslub_cache_free(c, *objects++);
}

/* Into the hands of somebody who holds the list's lock: they wait, linked by pointers. */
static void zero_free_deferred(struct uslub_cache *c, size_t n, void **objects)
{
	for (unsigned node = 0; node < plat_nnodes(); node++)
		counted_lock(&c->nodes[node].list_lock, LOCK_OTHER);
	zero_free_nolock(c, n, objects);
	for (unsigned node = plat_nnodes(); node--;)
		counted_unlock(&c->nodes[node].list_lock);
}

/* Policy zero-on-free: by each way to free, through sheaves, barns and slabs. */
static void test_zero_on_free(void **state)
{
	static void (*const ways[])(struct uslub_cache *, size_t,
				    void **) = { zero_free, zero_free_nolock, uslub_cache_free_bulk,
						 zero_free_deferred };
	static const uint64_t capacities[] = { 4, 60, USLUB_POLICY_NONE };
	void *objects[200];

	(void)state;
	for (unsigned k = 0; k < array_size(capacities); k++)
		for (unsigned way = 0; way < array_size(ways); way++) {
			struct uslub_cache *c = zero_cache(capacities[k]);

			for (unsigned round = 0; round < 4; round++) {
				for (unsigned i = 0; i < 100; i++)
					objects[i] = alloc(c);
				unit_equal(uslub_cache_alloc_bulk(c, 0, 100, objects + 100), 0);
				check_zeros(objects, 200);
				/* at once, while nobody has it again */
				ways[way](c, 1, objects);
				if (capacities[k] == 60)
					assert_true(is_zero(objects[0]));
				ways[way](c, 199, objects + 1);
				if (round == 1)
					unit_equal(uslub_cache_shrink(c), 0);
			}
			destroy(c);
		}
}

/* Memory that another cache has used; a bulk that fails half-way; prefilled sheaves. */
static void test_zero_on_free_else(void **state)
{
	struct uslub_cache *other = cache(ZEROED, 4), *c;
	struct uslub_sheaf *sheaf;
	void *objects[400];

	(void)state;
	for (unsigned i = 0; i < 400; i++)
		memset(objects[i] = alloc(other), 0xdd, ZEROED);
	uslub_cache_free_bulk(other, 400, objects);
	destroy(other);
	c = zero_cache(8);
	for (unsigned round = 0; round < 3; round++) {
		sheaf = uslub_cache_prefill_sheaf(c, 0, round ? 300 : 8);
		assert_non_null(sheaf);
		for (unsigned i = 0; i < 5; i++)
			objects[i] = uslub_cache_alloc_from_sheaf(c, 0, sheaf);
		check_zeros(objects, 5);
		uslub_cache_return_sheaf(c, 0, sheaf);
		for (unsigned i = 5; i < 50; i++)
			objects[i] = alloc(c);
		check_zeros(objects + 5, 45);
		uslub_cache_free_bulk(c, 50, objects);
	}
	destroy(c);
}

/* Where its content must outlive an object, the policy is refused; from the environment it does not apply. */
static void test_zero_on_free_refused(void **state)
{
	struct uslub_cache_args args = { .policy.zero_on_free = USLUB_POLICY_ON };
	struct uslub_policy policy;

	(void)state;
	args.ctor = build;
	refused("a", 120, args);
	args.ctor = NULL;
	args.flags = USLUB_TYPESAFE_BY_RCU;
	args.rcu = &no_flavor;
	refused("a", 120, args);
	args.policy.zero_on_free = 0;
	setenv("USLUB_POLICY", "zero-on-free=on", 1);
	uslub_cache_policy(cache_with(120, &args), &policy);
	unit_equal(policy.zero_on_free, USLUB_POLICY_OFF);
	args.flags = 0;
	uslub_cache_policy(cache_with(120, &args), &policy);
	unit_equal(policy.zero_on_free, USLUB_POLICY_ON);
	unsetenv("USLUB_POLICY");
}

/* The constructor runs once for each object of a slab, and its work survives everything but ZERO. */
static void test_constructor(void **state)
{
	struct uslub_cache *c = cache_with(
		120, &(struct uslub_cache_args){ .ctor = build, .policy.sheaf_capacity = 4 });
	void *objects[200];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 200; i++) {
			objects[i] = alloc(c);
			check_built(objects[i]);
		}
		unit_equal(built, stat_of(c, alloc_slab) * stat_of(c, objs_per_slab));
		for (unsigned i = 0; i < 200; i++)
			uslub_cache_free(c, objects[i]);
		assert_true(stat_of(c, sheaf_flush) > 0);
		if (round == 1)
			unit_equal(uslub_cache_shrink(c), 0);
	}
	objects[0] = uslub_cache_alloc(c, USLUB_ZERO);
	unit_equal(*(unsigned char *)objects[0], 0);
	build(objects[0]);
	uslub_cache_free(c, objects[0]);
	destroy(c);
}

static void test_free_null(void **state)
{
	struct uslub_cache *c = cache(64, 4);

	(void)state;
	uslub_cache_free(c, NULL);
	uslub_cache_free_nolock(c, NULL);
	uslub_cache_free_rcu(c, NULL);
	uslub_cache_free_bulk(c, 0, NULL);
	uslub_cache_return_sheaf(c, 0, NULL);
	unit_equal(stat_of(c, free_fastpath), 0);
	unit_equal(stat_of(c, free_slowpath), 0);
	errno = 17;
	uslub_cache_free(c, alloc(c));
	unit_equal(errno, 17);
	destroy(c);
}

/* ---- where waiting is not allowed ----------------------------------------------------------------- */

static void test_nowait(void **state)
{
	struct uslub_cache *c = cache(1000, 4);
	unsigned calls = plat_inject_calls, n = 0;
	struct uslub_sheaf *sheaf;
	void *objects[10], *object;

	(void)state;
	errno = 0;
	assert_null(uslub_cache_alloc(c, USLUB_NOWAIT));
	unit_equal(errno, ENOMEM);
	unit_equal(uslub_cache_alloc_bulk(c, USLUB_NOWAIT, 10, objects), -ENOMEM);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, USLUB_NOWAIT, 3));
	unit_equal(errno, ENOMEM);
	assert_null(uslub_cache_prefill_sheaf(c, USLUB_NOWAIT, 300));
	unit_equal(plat_inject_calls, calls);
	unit_check_cache(c, 0, 0, 1);
	/* With pages at hand they are used, and no more are mapped. */
	supply_free(supply_alloc(supply_max_order(), 0, 0));
	calls = plat_inject_calls;
	while ((object = uslub_cache_alloc(c, USLUB_NOWAIT)) != NULL)
		memset(object, (int)++n, 1000);
	assert_true(n > 1500 && n < 2200);
	assert_null(uslub_cache_prefill_sheaf(c, USLUB_NOWAIT, 3));
	unit_equal(plat_inject_calls, calls);
	unit_check_cache(c, n, 0, 2);
	/* and afterwards all is as ever */
	assert_non_null(uslub_cache_alloc(c, 0));
	sheaf = uslub_cache_prefill_sheaf(c, 0, 3);
	assert_non_null(sheaf);
	unit_check_cache(c, n + 1 + uslub_sheaf_size(sheaf), 1, 2);
}

/*
 * With this lock held, which comes last, a build that checks lock order ends when anything waits for
 * any lock. Those that are tried can be held, too, so that they are not to be had.
 */
static void hold_locks(struct uslub_cache *c, bool busy)
{
	if (busy) {
		plat_lock(&c->barns[0].lock.lock);
		if (c->sheaves)
			assert_true(plat_trylock(&c->sheaves->barns[0].lock.lock));
		plat_lock(&c->nodes[0].list_lock.lock);
		if (c->sheaves)
			assert_true(plat_trylock(&c->sheaves->nodes[0].list_lock.lock));
		plat_lock(supply_lock(0));
	}
	plat_lock(arena_lock());
}

static void drop_locks(struct uslub_cache *c, bool busy)
{
	plat_unlock(arena_lock());
	if (!busy)
		return;
	plat_unlock(supply_lock(0));
	if (c->sheaves)
		plat_unlock(&c->sheaves->nodes[0].list_lock.lock);
	plat_unlock(&c->nodes[0].list_lock.lock);
	if (c->sheaves)
		plat_unlock(&c->sheaves->barns[0].lock.lock);
	plat_unlock(&c->barns[0].lock.lock);
}

/* Everything that may be called in a signal handler. */
static void any_context(struct uslub_cache *c, void **mine, unsigned n)
{
	struct uslub_sheaf *sheaf;
	void *objects[40];

	for (unsigned i = 0; i < 40; i++) {
		objects[i] = uslub_cache_alloc(c, USLUB_NOLOCK);
		if (objects[i])
			uslub_cache_free_nolock(c, objects[i]);
	}
	for (unsigned i = 0; i < 40; i++)
		objects[i] = uslub_cache_alloc(c, USLUB_NOLOCK | USLUB_ZERO);
	for (unsigned i = 0; i < 40; i++)
		uslub_cache_free_nolock(c, objects[i]);
	for (unsigned i = 0; i < n; i++)
		uslub_cache_free_nolock(c, mine[i]);
	for (unsigned k = 1; k <= 40; k += 3) {
		if (uslub_cache_alloc_bulk(c, USLUB_NOLOCK, k, objects))
			continue;
		for (unsigned i = 0; i < k; i++)
			uslub_cache_free_nolock(c, objects[i]);
	}
	for (unsigned k = 1; k <= 5; k++) {
		sheaf = uslub_cache_prefill_sheaf(c, USLUB_NOLOCK, k);
		if (!sheaf)
			continue;
		uslub_cache_free_nolock(c, uslub_cache_alloc_from_sheaf(c, 0, sheaf));
		if (uslub_cache_refill_sheaf(c, USLUB_NOLOCK, &sheaf, 4) == 0)
			assert_true(uslub_sheaf_size(sheaf) >= 4);
		uslub_cache_return_sheaf(c, USLUB_NOLOCK, sheaf);
	}
}

static void try_any_context(bool busy, unsigned capacity)
{
	struct uslub_cache *c = cache_with(
		500, &(struct uslub_cache_args){
			     .policy.sheaf_capacity = capacity ? capacity : USLUB_POLICY_NONE });
	void *objects[60], *more[30];
	uint64_t failed;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 60; i++)
			objects[i] = alloc(c);
		for (unsigned i = 0; i < 60; i += 2) {
			more[i / 2] = objects[i + 1];
			uslub_cache_free(c, objects[i]);
		}
		hold_locks(c, busy);
		any_context(c, more, 30);
		drop_locks(c, busy);
		nodes_deferred(c->nodes);
		if (c->sheaves)
			nodes_deferred(c->sheaves->nodes);
		if (round == 1)
			uslub_cache_shrink(c);
	}
	/* what failed is known from what it took: the rest must fit */
	failed = stat_of(c, alloc_slowpath) + stat_of(c, sheaf_refill) - stat_of(c, sheaf_flush) -
		 stat_of(c, free_slowpath) - stat_of(c, objects);
	unit_check_cache(c, 0, 0, failed);
	assert_true(busy || !failed);
	destroy(c);
}

static void test_nolock(void **state)
{
	(void)state;
	try_any_context(false, 4);
	try_any_context(false, 0);
	try_any_context(false, 60);
}

static void test_nolock_busy(void **state)
{
	(void)state;
	try_any_context(true, 4);
	try_any_context(true, 0);
	try_any_context(true, 60);
}

/*
 * A bulk call that gets some objects and then no more gives those back, and must not wait for the barn,
 * which has an empty sheaf for them.
 */
static void test_nolock_bulk_gives_back(void **state)
{
	struct uslub_cache *c = cache(plat_page_size() / 16, 4);
	void *objects[40], *got[64];

	(void)state;
	unit_on_cpu(0);
	for (unsigned i = 0; i < 40; i++)
		objects[i] = alloc(c);
	for (unsigned i = 0; i < 40; i++)
		uslub_cache_free(c, objects[i]);
	for (unsigned i = 0; i < 40; i++)
		objects[i] = alloc(c);
	assert_true(stat_of(c, barn_empty) > 0);
	unit_on_cpu(3); /* where there is no sheaf yet */
	uslub_cache_free_bulk(c, 30, objects + 10);
	assert_true(stat_of(c, partial) > 0);
	plat_lock(&c->barns[0].lock.lock);
	plat_lock(supply_lock(0));
	unit_equal(uslub_cache_alloc_bulk(c, USLUB_NOLOCK, 64, got), -ENOMEM);
	plat_unlock(supply_lock(0));
	plat_unlock(&c->barns[0].lock.lock);
	nodes_deferred(c->nodes);
	unit_check_cache(c, 10, 0, 0);
}

/* An oversize sheaf's pages cannot be given back from any context: somebody who may wait does it. */
static void test_nolock_returns_oversize(void **state)
{
	struct uslub_cache *c = cache(8, 4);
	struct supply_usage before, after;
	struct uslub_sheaf *sheaf;

	(void)state;
	uslub_cache_free(c, alloc(c));
	uslub_cache_shrink(c);
	supply_usage(&before);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3; i++) {
			sheaf = uslub_cache_prefill_sheaf(c, 0, 2000);
			assert_non_null(sheaf);
			hold_locks(c, i);
			uslub_cache_return_sheaf(c, USLUB_NOLOCK, sheaf);
			drop_locks(c, i);
			nodes_deferred(c->nodes);
			unit_check_cache(c, 0, 0, 0);
		}
		uslub_cache_shrink(c);
		supply_usage(&after);
		unit_equal(after.used, before.used);
	}
	sheaf = uslub_cache_prefill_sheaf(c, 0, 2000);
	uslub_cache_return_sheaf(c, USLUB_NOLOCK, sheaf);
	destroy(c);
	supply_usage(&after);
	assert_true(after.used <= before.used);
}

/* No system call: the kernel kills a process that makes one now, but for read, write and exit. */
static void no_system_call(void *arg)
{
	struct uslub_cache *c = arg;
	void *objects[60];

	for (unsigned i = 0; i < 60; i++)
		objects[i] = alloc(c);
	any_context(c, objects, 0); /* so that everything was called before */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		unit_exit(77);
	any_context(c, objects, 60);
	syscall(SYS_exit, 42);
}

static void test_nolock_makes_no_system_call(void **state)
{
	char text[1000];
	int status;

	(void)state;
	if (unit_sanitized() || unit_under_valgrind())
		unit_skip("the tool makes system calls");
	status = unit_child(no_system_call, cache(500, 4), text, sizeof(text), 20);
	if (status == 77 << 8)
		unit_skip("no seccomp");
	unit_equal(status, 42 << 8);
}

static struct uslub_cache *interrupted;
static unsigned interruptions;
static uint64_t handler_failed;

static void handler(int signal)
{
	int error = errno;
	void *objects[12];

	(void)signal;
	interruptions++;
	for (unsigned i = 0; i < 12; i++) {
		objects[i] = uslub_cache_alloc(interrupted, USLUB_NOLOCK);
		handler_failed += !objects[i];
		if (objects[i])
			memset(objects[i], 0x99, 200);
	}
	for (unsigned i = 0; i < 12; i++)
		uslub_cache_free_nolock(interrupted, objects[i]);
	errno = error;
}

/* A thread that is interrupted wherever it is, by a handler that uses the same cache. */
static void test_signal_handler(void **state)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	struct uslub_cache *c = interrupted = cache(200, 4);
	unsigned char *objects[50];
	struct timespec start, now;

	(void)state;
	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (unsigned i = 0; i < 50; i++) {
			objects[i] = alloc(c);
			memset(objects[i], (int)i, 200);
		}
		for (unsigned i = 0; i < 50; i++) {
			for (unsigned k = 0; k < 200; k++)
				assert_int_equal(objects[i][k], i);
			uslub_cache_free(c, objects[i]);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec < 5 && interruptions < unit_scaled(2000));
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_IGN); /* one may be on its way */
	assert_true(interruptions > 0);
	nodes_deferred(c->nodes);
	nodes_deferred(c->sheaves->nodes);
	unit_check_cache(c, 0, 0, handler_failed);
	destroy(c);
}

/* ---- bulk ----------------------------------------------------------------------------------------- */

static void test_bulk_refusals(void **state)
{
	struct uslub_cache *c = cache(64, 4);
	void *objects[4];

	(void)state;
	unit_equal(uslub_cache_alloc_bulk(c, 0, 1, NULL), -EINVAL);
	unit_equal(uslub_cache_alloc_bulk(c, 0, SIZE_MAX, objects), -EINVAL);
	unit_equal(uslub_cache_alloc_bulk(c, 0, SIZE_MAX / sizeof(void *) + 1, objects), -EINVAL);
	unit_equal(uslub_cache_alloc_bulk(c, 0, 0, objects), 0);
	unit_equal(uslub_cache_alloc_bulk(c, 0, 0, NULL), 0);
	unit_equal(stat_of(c, slabs), 0);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
}

static void test_bulk(void **state)
{
	static const unsigned numbers[] = { 1, 2, 3, 4, 5, 8, 9, 30, 100, 1000 };
	struct uslub_cache *c = cache(100, 4);
	unsigned char *objects[1000];

	(void)state;
	for (unsigned i = 0; i < array_size(numbers); i++) {
		unsigned n = numbers[i];

		unit_equal(uslub_cache_alloc_bulk(c, USLUB_ZERO, n, (void **)objects), 0);
		for (unsigned k = 0; k < n; k++) {
			for (unsigned b = 0; b < 100; b++)
				assert_int_equal(objects[k][b], 0);
			memset(objects[k], 1, 100);
		}
		unit_check_cache(c, n, 0, 0);
		uslub_cache_free_bulk(c, n, (void **)objects);
		unit_check_cache(c, 0, 0, 0);
	}
	unit_equal(stat_of(c, alloc_fastpath) + stat_of(c, alloc_slowpath), 1162);
	unit_equal(stat_of(c, free_fastpath) + stat_of(c, free_slowpath), 1162);
	destroy(c);
}

/* All or nothing. */
static void test_bulk_fails(void **state)
{
	struct uslub_cache *c = cache(1000, 4);
	enum { MANY = 5000 };
	void **objects = calloc(MANY, sizeof(*objects));
	void *kept[10];

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		kept[i] = alloc(c);
	plat_inject_failures = 0;
	unit_equal(uslub_cache_alloc_bulk(c, 0, MANY, objects), -ENOMEM);
	unit_check_cache(c, 10, 0, 0);
	unit_equal(uslub_cache_alloc_bulk(c, USLUB_NOWAIT, MANY, objects), -ENOMEM);
	unit_equal(uslub_cache_alloc_bulk(c, USLUB_NOLOCK, MANY, objects), -ENOMEM);
	unit_check_cache(c, 10, 0, 0);
	plat_inject_failures = -1;
	unit_equal(uslub_cache_alloc_bulk(c, 0, MANY, objects), 0);
	unit_check_cache(c, MANY + 10, 0, 0);
	uslub_cache_free_bulk(c, MANY, objects);
	uslub_cache_free_bulk(c, 10, kept);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
	free(objects);
}

/* ---- prefilled sheaves ---------------------------------------------------------------------------- */

#define ABSURD 300000u

static void test_prefill_refusals(void **state)
{
	struct uslub_cache *c = cache(64, 4);
	struct uslub_sheaf *sheaf, *same;

	(void)state;
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, 0, 0));
	unit_equal(errno, EINVAL);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, 0, ABSURD));
	unit_equal(errno, EINVAL);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, 0, UINT_MAX));
	unit_equal(errno, EINVAL);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, USLUB_NOLOCK, 5)); /* beyond the capacity */
	unit_equal(errno, ENOMEM);
	unit_check_cache(c, 0, 0, 0);
	sheaf = same = uslub_cache_prefill_sheaf(c, 0, 2);
	assert_non_null(sheaf);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 0), -EINVAL);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, ABSURD), -EINVAL);
	assert_ptr_equal(sheaf, same);
	unit_equal(uslub_sheaf_size(sheaf), 4); /* it was filled up */
	uslub_cache_return_sheaf(c, 0, sheaf);
	destroy(c);
}

static void test_prefill(void **state)
{
	struct uslub_cache *c = cache(64, 8);
	struct uslub_sheaf *sheaf;
	void *objects[8];

	(void)state;
	for (unsigned n = 1; n <= 8; n++) {
		errno = 7;
		sheaf = uslub_cache_prefill_sheaf(c, 0, n);
		assert_non_null(sheaf);
		unit_equal(errno, 7);
		assert_true(uslub_sheaf_size(sheaf) >= n);
		unit_check_cache(c, uslub_sheaf_size(sheaf), 1, 0);
		for (unsigned i = 0; i < n; i++) {
			unsigned before = uslub_sheaf_size(sheaf);

			objects[i] = uslub_cache_alloc_from_sheaf(c, i % 2 ? USLUB_ZERO : 0, sheaf);
			assert_non_null(objects[i]);
			unit_equal(uslub_sheaf_size(sheaf), before - 1);
			for (unsigned k = 0; i % 2 && k < 64; k++)
				unit_equal(((char *)objects[i])[k], 0);
			for (unsigned k = 0; k < i; k++)
				assert_ptr_not_equal(objects[i], objects[k]);
			memset(objects[i], 0xff, 64);
		}
		uslub_cache_return_sheaf(c, 0, sheaf);
		unit_check_cache(c, n, 0, 0);
		for (unsigned i = 0; i < n; i++)
			uslub_cache_free(c, objects[i]);
	}
	unit_equal(stat_of(c, alloc_fastpath), 0); /* those from prefilled sheaves do not count */
	unit_equal(stat_of(c, alloc_slowpath), 0);
	/* until it is empty */
	sheaf = uslub_cache_prefill_sheaf(c, 0, 8);
	for (unsigned i = 0; i < 8; i++)
		uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	errno = 0;
	assert_null(uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	unit_equal(errno, ENOMEM);
	assert_null(uslub_cache_alloc_from_sheaf(c, USLUB_ZERO, sheaf));
	unit_equal(uslub_sheaf_size(sheaf), 0);
	uslub_cache_return_sheaf(c, 0, sheaf);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
}

static void test_refill(void **state)
{
	struct uslub_cache *c = cache(64, 8);
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 3), *same = sheaf;
	void *objects[30];
	unsigned n = 0;

	(void)state;
	unit_equal(uslub_sheaf_size(sheaf), 8);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 8), 0); /* enough already */
	assert_ptr_equal(sheaf, same);
	for (; n < 6; n++)
		objects[n] = uslub_cache_alloc_from_sheaf(c, 0, sheaf);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 2), 0);
	unit_equal(uslub_sheaf_size(sheaf), 2);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 3), 0);
	unit_equal(uslub_sheaf_size(sheaf), 8);
	unit_check_cache(c, n + 8, 1, 0);
	/* more than it can hold: a larger one */
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 20), 0);
	assert_true(uslub_sheaf_size(sheaf) >= 20);
	unit_equal(stat_of(c, sheaf_prefill_oversize), 1);
	unit_check_cache(c, n + uslub_sheaf_size(sheaf), 1, 0);
	for (; n < 20; n++)
		objects[n] = uslub_cache_alloc_from_sheaf(c, 0, sheaf);
	same = sheaf;
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 10), 0);
	assert_ptr_equal(sheaf, same);
	assert_true(uslub_sheaf_size(sheaf) >= 10);
	unit_check_cache(c, n + uslub_sheaf_size(sheaf), 1, 0);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 100), 0);
	assert_true(uslub_sheaf_size(sheaf) >= 100);
	uslub_cache_return_sheaf(c, 0, sheaf);
	unit_check_cache(c, n, 0, 0);
	uslub_cache_free_bulk(c, n, objects);
	destroy(c);
}

static void test_oversize(void **state)
{
	static const unsigned numbers[] = { 9, 10, 255, 256, 1000, 20000 };
	struct uslub_cache *c = cache(8, 8);
	struct supply_usage before, after;
	uint64_t oversize = 0;

	(void)state;
	uslub_cache_free(c, alloc(c));
	uslub_cache_shrink(c);
	supply_usage(&before);
	for (unsigned i = 0; i < array_size(numbers); i++) {
		unsigned n = numbers[i];
		struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, n);

		assert_non_null(sheaf);
		unit_equal(uslub_sheaf_size(sheaf), n);
		unit_equal(stat_of(c, sheaf_prefill_oversize), ++oversize);
		unit_check_cache(c, n, 1, 0);
		for (unsigned k = 0; k < n / 2; k++)
			uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, USLUB_ZERO, sheaf));
		uslub_cache_return_sheaf(c, 0, sheaf);
		unit_check_cache(c, 0, 0, 0);
		uslub_cache_shrink(c);
		supply_usage(&after);
		unit_equal(after.used, before.used);
	}
	unit_equal(stat_of(c, sheaf_prefill_fast) + stat_of(c, sheaf_prefill_slow), 0);
	unit_equal(stat_of(c, sheaf_return_fast) + stat_of(c, sheaf_return_slow), 0);
	destroy(c);
}

/* Without sheaves prefilling works all the same. */
static void test_prefill_without_sheaves(void **state)
{
	struct uslub_cache *c = cache_with(
		64, &(struct uslub_cache_args){ .policy.sheaf_capacity = USLUB_POLICY_NONE });
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 3);
	void *object;

	(void)state;
	assert_non_null(sheaf);
	unit_equal(uslub_sheaf_size(sheaf), 3);
	object = uslub_cache_alloc_from_sheaf(c, 0, sheaf);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 3), 0);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 5), 0);
	unit_equal(uslub_sheaf_size(sheaf), 5);
	uslub_cache_return_sheaf(c, 0, sheaf);
	uslub_cache_free(c, object);
	unit_equal(stat_of(c, alloc_fastpath), 0);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
}

static void test_prefill_fails(void **state)
{
	struct uslub_cache *c = cache(50000, 4);
	struct uslub_sheaf *sheaf, *same;
	unsigned size, n = 0;
	void *objects[100];

	(void)state;
	sheaf = same = uslub_cache_prefill_sheaf(c, 0, 4);
	for (; n < 2; n++)
		objects[n] = uslub_cache_alloc_from_sheaf(c, 0, sheaf);
	plat_inject_failures = 0;
	while ((objects[n] = uslub_cache_alloc(c, 0)) != NULL)
		n++;
	assert_true(n < 100);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, 0, 2));
	unit_equal(errno, ENOMEM);
	errno = 0;
	assert_null(uslub_cache_prefill_sheaf(c, 0, 20));
	unit_equal(errno, ENOMEM);
	size = uslub_sheaf_size(sheaf);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 4), -ENOMEM);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 20), -ENOMEM);
	assert_ptr_equal(sheaf, same);
	assert_true(uslub_sheaf_size(sheaf) >= size);
	unit_check_cache(c, n + uslub_sheaf_size(sheaf), 1, 1);
	/* some, but not enough: they go back */
	cache_free_slabs(c, &objects[--n], 1, 0);
	assert_null(uslub_cache_prefill_sheaf(c, 0, 2));
	assert_null(uslub_cache_prefill_sheaf(c, 0, 20));
	unit_check_cache(c, n + uslub_sheaf_size(sheaf), 1, 1);
	plat_inject_failures = -1;
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 4), 0);
	uslub_cache_return_sheaf(c, 0, sheaf);
	uslub_cache_free_bulk(c, n, objects);
	unit_check_cache(c, 0, 0, 1);
	destroy(c);
}

/*
 * A failed refill leaves no less than there was, also when the barn gives sheaves that are not as full
 * as they should be.
 */
static void test_refill_keeps_objects(void **state)
{
	struct uslub_cache *c = cache(50000, 4);
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 4);
	struct uslub_sheaf *thin = uslub_cache_prefill_sheaf(c, 0, 4);

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, thin));
	uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	plat_inject_failures = 0;
	while (supply_alloc(0, 0, 0))
		;
	sheaf_put_any(c, thin); /* as after a lost race */
	unit_equal(uslub_sheaf_size(sheaf), 3);
	while (c->nodes[0].nr_partial)
		assert_non_null(nodes_alloc(c->nodes, 0, 0));
	unit_equal(uslub_cache_refill_sheaf(c, 0, &sheaf, 4), -ENOMEM);
	assert_true(uslub_sheaf_size(sheaf) >= 3);
}

static void return_elsewhere(void *arg)
{
	struct uslub_cache **c = arg;
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c[0], 0, 1);

	uslub_cache_return_sheaf(c[1], 0, sheaf);
}

static void test_return_to_another_cache(void **state)
{
	struct uslub_cache *c[2] = { cache(64, 4), uslub_cache_create("second", 64, NULL) };

	(void)state;
	unit_dies(return_elsewhere, c, "cache second: returned sheaf 0x");
}

/* ---- shrinking and destroying --------------------------------------------------------------------- */

static void test_shrink(void **state)
{
	struct uslub_cache *c = cache(500, 8);
	struct uslub_sheaf *sheaf;
	void *objects[300], *kept;

	(void)state;
	unit_equal(uslub_cache_shrink(c), 0);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 300; i++)
			objects[i] = alloc(c);
		for (unsigned i = 0; i < 300; i++)
			uslub_cache_free(c, objects[i]);
		sheaf = uslub_cache_prefill_sheaf(c, 0, 3);
		uslub_cache_return_sheaf(c, 0, sheaf);
		assert_true(stat_of(c, slabs) > 0);
		unit_equal(uslub_cache_shrink(c), 0);
		unit_equal(stat_of(c, slabs), 0);
		unit_equal(stat_of(c, total_objects), 0);
		unit_equal(stat_of(c, partial), 0);
		unit_equal(stat_of(c, barn_full) + stat_of(c, barn_empty), 0);
		unit_equal(stat_of(c, sheaf_alloc), stat_of(c, sheaf_free));
		unit_check_cache(c, 0, 0, 0);
	}
	/* fast counts survive */
	unit_equal(stat_of(c, alloc_fastpath), 600);
	unit_equal(stat_of(c, free_fastpath), 600);
	/* what others hold stays, and a slab with it */
	kept = alloc(c);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, slabs), 1);
	unit_equal(stat_of(c, objects), 1);
	sheaf = uslub_cache_prefill_sheaf(c, 0, 3);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, objects), 1 + uslub_sheaf_size(sheaf));
	uslub_cache_return_sheaf(c, 0, sheaf);
	uslub_cache_free(c, kept);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, slabs), 0);
	destroy(c);
}

static void test_shrink_returns_memory(void **state)
{
	struct uslub_cache *c = cache(4096, 4);
	struct supply_usage before, after;
	void *objects[3000];

	(void)state;
	uslub_cache_free(c, alloc(c));
	uslub_cache_shrink(c);
	supply_usage(&before);
	for (unsigned i = 0; i < 3000; i++)
		objects[i] = alloc(c);
	supply_usage(&after);
	assert_true(after.used >= before.used + 3000 * 4096);
	for (unsigned i = 0; i < 3000; i++)
		uslub_cache_free(c, objects[i]);
	uslub_cache_shrink(c);
	supply_usage(&after);
	assert_true(after.used <= before.used + 32 * plat_page_size()); /* sheaves */
	assert_true(after.dirty <= before.dirty + 32 * plat_page_size());
	destroy(c);
}

static void test_destroy_busy(void **state)
{
	struct uslub_cache *c = cache(100, 8);
	struct uslub_sheaf *sheaf;
	void *a = alloc(c), *b;

	(void)state;
	memset(a, 0x11, 100);
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	unit_equal(((char *)a)[99], 0x11);
	assert_ptr_equal(uslub_cache_find("tested"), c);
	b = alloc(c); /* usable as before */
	assert_ptr_not_equal(a, b);
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	uslub_cache_free(c, a);
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	uslub_cache_free(c, b);
	sheaf = uslub_cache_prefill_sheaf(c, 0, 5);
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	unit_check_cache(c, uslub_sheaf_size(sheaf), 1, 0);
	uslub_cache_return_sheaf(c, 0, sheaf);
	destroy(c);
	assert_null(uslub_cache_find("tested"));
}

/* A prefilled sheaf that was used up has to be returned as well. */
static void test_destroy_with_empty_sheaf_out(void **state)
{
	struct uslub_cache *c = cache(100, 8);
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 5);

	(void)state;
	while (uslub_sheaf_size(sheaf))
		uslub_cache_free(c, uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	uslub_cache_return_sheaf(c, 0, sheaf);
	destroy(c);
}

/* ---- names ---------------------------------------------------------------------------------------- */

static void test_find(void **state)
{
	struct uslub_cache *a, *b, *c;

	(void)state;
	errno = 0;
	assert_null(uslub_cache_find("twin"));
	unit_equal(errno, ENOENT);
	errno = 0;
	assert_null(uslub_cache_find(NULL));
	unit_equal(errno, ENOENT);
	a = uslub_cache_create("twin", 10, NULL);
	b = uslub_cache_create("twin", 20, NULL);
	c = uslub_cache_create("twins", 30, NULL);
	errno = 5;
	assert_ptr_equal(uslub_cache_find("twin"), a); /* the oldest */
	assert_ptr_equal(uslub_cache_find("twins"), c);
	unit_equal(errno, 5);
	assert_null(uslub_cache_find("twi"));
	destroy(a);
	assert_ptr_equal(uslub_cache_find("twin"), b);
	destroy(b);
	assert_null(uslub_cache_find("twin"));
	destroy(c);
}

struct walk {
	const char *names[8];
	unsigned n, stop_at;
};

static int visit(struct uslub_cache *c, void *arg)
{
	struct walk *w = arg;

	/* callbacks may use caches and look others up */
	assert_ptr_equal(uslub_cache_find(uslub_cache_name(c)), c);
	if (!c->internal)
		uslub_cache_free(c, alloc(c));
	if (!strncmp(uslub_cache_name(c), "sheaf-", 6)) {
		assert_true(c->internal);
		return 0;
	}
	w->names[w->n++] = uslub_cache_name(c);
	return w->n == w->stop_at ? 42 : 0;
}

static void test_for_each(void **state)
{
	struct walk w = { .n = 0 };

	(void)state;
	unit_equal(uslub_for_each_cache(visit, &w), 0);
	unit_equal(w.n, 0);
	uslub_cache_create("one", 10, NULL);
	uslub_cache_create("two", 20, NULL);
	uslub_cache_create("three", 300, NULL);
	unit_equal(uslub_for_each_cache(visit, &w), 0);
	unit_equal(w.n, 3);
	assert_string_equal(w.names[0], "one");
	assert_string_equal(w.names[1], "two");
	assert_string_equal(w.names[2], "three");
	w = (struct walk){ .stop_at = 2 };
	unit_equal(uslub_for_each_cache(visit, &w), 42);
	unit_equal(w.n, 2);
	assert_non_null(uslub_cache_find("sheaf-boot"));
	assert_non_null(uslub_cache_find("sheaf-512"));
}

/* ---- merging -------------------------------------------------------------------------------------- */

static struct uslub_cache *merging(const char *name, size_t size, struct uslub_cache_args args)
{
	struct uslub_cache *c;

	args.args_size = sizeof(args);
	c = uslub_cache_create(name, size, &args);
	assert_non_null(c);
	return c;
}

static void test_merge(void **state)
{
	const struct uslub_cache_args args = { .flags = USLUB_MERGE };
	struct uslub_cache *c = merging("first", 100, args);
	void *object;

	(void)state;
	unit_equal(stat_of(c, aliases), 0);
	assert_ptr_equal(merging("second", 100, args), c);
	assert_ptr_equal(merging("third", 100, args), c);
	unit_equal(stat_of(c, aliases), 2);
	assert_string_equal(uslub_cache_name(c), "first");
	assert_ptr_equal(uslub_cache_find("second"), c);
	assert_ptr_equal(uslub_cache_find("third"), c);
	assert_ptr_equal(uslub_cache_find("first"), c);
	/* It goes with the last of its names; until then destroying takes one name. */
	object = alloc(c);
	destroy(c);
	unit_equal(stat_of(c, aliases), 1);
	destroy(c);
	unit_equal(stat_of(c, aliases), 0);
	assert_ptr_equal(uslub_cache_find("first"), c);
	assert_null(uslub_cache_find("second"));
	assert_null(uslub_cache_find("third"));
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	uslub_cache_free(c, object);
	destroy(c);
	assert_null(uslub_cache_find("first"));
	assert_ptr_not_equal(merging("fourth", 100, args), NULL);
	unit_equal(stat_of(uslub_cache_find("fourth"), aliases), 0);
}

static void test_no_merge(void **state)
{
	const struct uslub_cache_args args = { .flags = USLUB_MERGE };
	struct uslub_cache *c = merging("first", 100, args);
	const struct uslub_cache_args others[] = {
		{ .flags = 0 },
		{ .flags = USLUB_MERGE | USLUB_HWCACHE_ALIGN },
		{ .flags = USLUB_MERGE, .align = 64 },
		{ .flags = USLUB_MERGE, .ctor = build },
		{ .flags = USLUB_MERGE, .sheaf_capacity = 100 },
		{ .flags = USLUB_MERGE, .min_partial = 50 },
		{ .flags = USLUB_MERGE, .policy.barn_full = 3 },
		{ .flags = USLUB_MERGE, .rcu = &no_flavor },
		{ .flags = USLUB_MERGE | USLUB_TYPESAFE_BY_RCU, .rcu = &no_flavor },
	};

	(void)state;
	for (unsigned i = 0; i < array_size(others); i++)
		assert_ptr_not_equal(merging("other", 100, others[i]), c);
	assert_ptr_not_equal(merging("other", 101, args), c);
	unit_equal(stat_of(c, aliases), 0);
	/* nor with one that did not offer it, or has a constructor */
	c = merging("closed", 300, (struct uslub_cache_args){ .flags = 0 });
	assert_ptr_not_equal(merging("open", 300, args), c);
	c = merging("built", 308, (struct uslub_cache_args){ .flags = USLUB_MERGE, .ctor = build });
	assert_ptr_not_equal(merging("open", 308, args), c);
}

/* ---- misuse --------------------------------------------------------------------------------------- */

static void free_to_another(void *arg)
{
	struct uslub_cache **c = arg;

	uslub_cache_free(c[1], alloc(c[0]));
	uslub_cache_shrink(c[1]);
}

static void free_nonsense(void *arg)
{
	struct uslub_cache **c = arg;
	int local = 0;

	uslub_cache_free(c[1], &local);
	uslub_cache_shrink(c[1]);
}

static void test_bad_frees(void **state)
{
	struct uslub_cache *c[2] = { cache(64, 4), uslub_cache_create("second", 64, NULL) };

	(void)state;
	unit_dies(free_to_another, c, "uslub: cache second: freed pointer 0x");
	unit_dies(free_to_another, c, "belongs to cache tested");
	unit_dies(free_nonsense, c, "is not from any cache");
}

/* ---- idle CPUs ------------------------------------------------------------------------------------ */

static void slow_steps(struct uslub_cache *c, unsigned n)
{
	while (n--)
		cache_slow_step(c);
}

/* A CPU whose words do not change for a second is emptied by the others' slow steps. */
static void test_idle_cpu(void **state)
{
	struct uslub_cache *c = cache(100, 8);
	struct timespec second = { .tv_sec = 1, .tv_nsec = 100000000 };
	unsigned all = 64 * plat_nslots();
	void *object;

	(void)state;
	unit_on_cpu(2);
	uslub_cache_free(c, alloc(c));
	unit_equal(word_avail(pcs_of(&c->slots, 2)->main.word), 8);
	unit_on_cpu(0);
	uslub_cache_free(c, alloc(c));
	slow_steps(c, 3 * all);
	unit_equal(stat_of(c, cpu_drain), 0);
	nanosleep(&second, NULL);
	object = alloc(c); /* CPU 0 is not idle */
	slow_steps(c, all);
	unit_equal(stat_of(c, cpu_drain), 1);
	unit_equal(pcs_of(&c->slots, 2)->main.word, 0);
	assert_null(pcs_of(&c->slots, 2)->main.sheaf[0]);
	assert_null(pcs_of(&c->slots, 2)->main.sheaf[1]);
	unit_equal(word_avail(pcs_of(&c->slots, 0)->main.word), 7);
	unit_equal(stat_of(c, alloc_fastpath), 3);
	unit_equal(stat_of(c, free_fastpath), 2);
	uslub_cache_free(c, object);
	unit_check_cache(c, 0, 0, 0);
	destroy(c);
}

/* One whose popped counts are about to overflow is emptied, however busy. */
static void test_count_overflow(void **state)
{
	struct uslub_cache *c = cache(100, 8);
	uint64_t many = 1ull << (WORD_ALLOC_BITS - 1);

	(void)state;
	unit_on_cpu(2);
	uslub_cache_free(c, alloc(c));
	pcs_of(&c->slots, 2)->main.word += (many - 1)
					   << WORD_ALLOC_SHIFT; /* it has done that often */
	unit_equal(stat_of(c, alloc_fastpath), many);
	unit_on_cpu(0);
	slow_steps(c, 64 * plat_nslots());
	unit_equal(stat_of(c, cpu_drain), 1);
	unit_equal(pcs_of(&c->slots, 2)->main.word, 0);
	unit_equal(stat_of(c, alloc_fastpath), many);
	unit_on_cpu(2);
	uslub_cache_free(c, alloc(c));
	unit_equal(stat_of(c, alloc_fastpath), many + 1);
	destroy(c);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_create_refusals, UNIT_SHARED),
		UNIT_TEST(test_create, UNIT_BOTH),
		UNIT_TEST(test_create_leaks_nothing, UNIT_BOTH),
		UNIT_TEST(test_attributes, UNIT_BOTH),
		UNIT_TEST(test_arguments, UNIT_BOTH),
		UNIT_TEST(test_alignment, UNIT_ALL),
		UNIT_TEST(test_zero, UNIT_BOTH),
		UNIT_TEST(test_slab_random, UNIT_BOTH),
		UNIT_TEST(test_zero_on_free, UNIT_BOTH),
		UNIT_TEST(test_zero_on_free_else, UNIT_BOTH),
		UNIT_TEST(test_zero_on_free_refused, UNIT_BOTH),
		UNIT_TEST(test_content, UNIT_BOTH),
		UNIT_TEST(test_constructor, UNIT_BOTH),
		UNIT_TEST(test_free_null, UNIT_BOTH),
		UNIT_TEST(test_nowait, UNIT_BOTH),
		UNIT_TEST(test_nolock, UNIT_BOTH),
		UNIT_TEST(test_nolock_busy, UNIT_BOTH),
		UNIT_TEST(test_nolock_bulk_gives_back, UNIT_FAKED),
		UNIT_TEST(test_nolock_returns_oversize, UNIT_BOTH),
		UNIT_TEST(test_nolock_makes_no_system_call, UNIT_BOTH),
		UNIT_TEST(test_signal_handler, UNIT_SHARED | UNIT_REAL),
		UNIT_TEST(test_bulk_refusals, UNIT_BOTH),
		UNIT_TEST(test_bulk, UNIT_ALL),
		UNIT_TEST(test_bulk_fails, UNIT_BOTH),
		UNIT_TEST(test_prefill_refusals, UNIT_BOTH),
		UNIT_TEST(test_prefill, UNIT_BOTH),
		UNIT_TEST(test_refill, UNIT_BOTH),
		UNIT_TEST(test_oversize, UNIT_BOTH),
		UNIT_TEST(test_prefill_without_sheaves, UNIT_BOTH),
		UNIT_TEST(test_prefill_fails, UNIT_BOTH),
		UNIT_TEST(test_refill_keeps_objects, UNIT_FAKED),
		UNIT_TEST(test_return_to_another_cache, UNIT_BOTH),
		UNIT_TEST(test_shrink, UNIT_BOTH),
		UNIT_TEST(test_shrink_returns_memory, UNIT_ALL),
		UNIT_TEST(test_destroy_busy, UNIT_ALL),
		UNIT_TEST(test_destroy_with_empty_sheaf_out, UNIT_BOTH),
		UNIT_TEST(test_find, UNIT_ALL),
		UNIT_TEST(test_for_each, UNIT_BOTH),
		UNIT_TEST(test_merge, UNIT_BOTH),
		UNIT_TEST(test_no_merge, UNIT_BOTH),
		UNIT_TEST(test_bad_frees, UNIT_ALL),
		UNIT_TEST(test_idle_cpu, UNIT_FAKED),
		UNIT_TEST(test_count_overflow, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
