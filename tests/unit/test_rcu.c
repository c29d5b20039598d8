/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees: with a flavor whose grace periods end when the test says so, and with those of
 * liburcu.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor, urcu_qsbr_flavor, urcu_bp_flavor;

#define CAPACITY 4
#define PER_SLAB 16

/* ---- a flavor of our own -------------------------------------------------------------------------- */

/* Atomics and no condition variable, so that a child of fork() can go on. */
static bool gate_open = true;
static unsigned waiting; /* grace periods under way */
static bool in_section;

static void pause_ms(unsigned ms)
{
	struct timespec pause = { .tv_nsec = ms * 1000000 };

	nanosleep(&pause, NULL);
}

static void gate_synchronize(void)
{
	plat_fetch_add(&waiting, 1);
	while (!plat_load_acquire(&gate_open))
		pause_ms(1);
	plat_fetch_sub(&waiting, 1);
}

static void gate(bool open)
{
	plat_store_release(&gate_open, open);
}

static int gate_ongoing(void)
{
	return in_section;
}

static void nothing(void)
{
}

static const struct rcu_flavor_struct gated = {
	.update_synchronize_rcu = gate_synchronize,
	.read_ongoing = gate_ongoing,
	.thread_offline = nothing,
	.thread_online = nothing,
};

static bool is_waiting(void *arg)
{
	(void)arg;
	return plat_load(&waiting);
}

/* ---- caches --------------------------------------------------------------------------------------- */

static struct uslub_cache *c;

static void begin_with(const struct rcu_flavor_struct *flavor, struct uslub_cache_args args)
{
	args.args_size = sizeof(args);
	args.rcu = flavor;
	args.policy.slab_min_objects = PER_SLAB;
	if (!args.policy.sheaf_capacity)
		args.policy.sheaf_capacity = CAPACITY;
	args.policy.barn_full = 2;
	args.policy.barn_empty = 2;
	c = uslub_cache_create("deferred", plat_page_size() / PER_SLAB, &args);
	assert_non_null(c);
}

static void begin(const struct rcu_flavor_struct *flavor)
{
	begin_with(flavor, (struct uslub_cache_args){ .align = 0 });
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

static void free_rcu_n(void **objects, unsigned n)
{
	while (n--)
		uslub_cache_free_rcu(c, *objects++);
}

static bool quiet(void *arg)
{
	(void)arg;
	return !plat_load_acquire(&c->rcu_queued);
}

static void wait_quiet(void)
{
	assert_true(unit_wait(quiet, NULL));
}

static bool among(const void *object, void *const *objects, unsigned n)
{
	while (n--)
		if (objects[n] == object)
			return true;
	return false;
}

/* ---- counters ------------------------------------------------------------------------------------- */

#define S(name) stat_of(c, name)

/* Sheaf by sheaf, with the grace period held back. */
static void test_counts(void **state)
{
	void *objects[20];

	(void)state;
	begin(&gated);
	alloc_n(objects, 20);
	unit_equal(S(sheaf_alloc), 2);
	gate(false);
	/* main has 0, the spare is empty: it becomes the RCU sheaf */
	free_rcu_n(objects, 1);
	unit_equal(S(free_rcu_sheaf), 1);
	unit_equal(S(sheaf_alloc), 2);
	unit_equal(S(rcu_pending), 1);
	unit_equal(plat_load(&c->rcu_queued), 0);
	free_rcu_n(objects + 1, 3);
	unit_equal(S(free_rcu_sheaf), 4);
	unit_equal(S(rcu_pending), 4);
	unit_equal(plat_load(&c->rcu_queued), 0); /* full, and still there */
	/* the next one queues it and needs a new one */
	free_rcu_n(objects + 4, 1);
	unit_equal(S(free_rcu_sheaf), 5);
	unit_equal(S(sheaf_alloc), 3);
	unit_equal(S(rcu_pending), 5);
	unit_equal(S(rcu_pending_bytes), 5 * S(slab_size));
	unit_equal(plat_load(&c->rcu_queued), 4);
	assert_true(unit_wait(is_waiting, NULL));
	free_rcu_n(objects + 5, 12);
	unit_equal(S(free_rcu_sheaf), 17);
	unit_equal(S(rcu_pending), 17);
	unit_equal(plat_load(&c->rcu_queued), 16);
	unit_equal(S(barn_put) + S(barn_put_fail) + S(sheaf_flush), 0);
	unit_equal(S(free_fastpath) + S(free_slowpath) + S(free_rcu_sheaf_fail), 0);
	/* four sheaves, of which the barn takes two */
	gate(true);
	wait_quiet();
	unit_equal(S(rcu_pending), 1);
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 2);
	unit_equal(S(sheaf_flush), 8);
	unit_equal(S(barn_full), 2);
	unit_equal(S(barn_empty), 2);
	unit_equal(S(sheaf_free), 0);
	unit_check_cache(c, 3, 0, 0);
	/* A barrier brings the part-full one, past the barn. */
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_equal(S(free_rcu_sheaf), 17);
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 2);
	unit_equal(S(sheaf_flush), 9);
	unit_equal(S(sheaf_free), 1);
	unit_check_cache(c, 3, 0, 0);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(sheaf_free), 1);
	free_rcu_n(objects + 17, 3);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* ---- policy zero-on-free -------------------------------------------------------------------------- */

static bool all_bytes(const unsigned char *p, unsigned char byte)
{
	for (size_t k = 0; k < uslub_cache_object_size(c); k++)
		if (p[k] != byte)
			return false;
	return true;
}

/* Content lasts as long as readers may look, and is gone when an object can be had again. */
static void zero_round(void **objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		objects[i] = alloc();
		assert_true(all_bytes(objects[i], 0));
		memset(objects[i], 0xee, uslub_cache_object_size(c));
	}
	gate(false);
	free_rcu_n(objects, n);
	assert_true(unit_wait(is_waiting, NULL));
	for (unsigned i = 0; i < n; i++)
		assert_true(all_bytes(objects[i], 0xee));
	gate(true);
	uslub_cache_barrier_rcu(c);
}

/* By way of the barn, the slabs, CPUs' stashes and, without sheaves, blocks of pointers. */
static void test_zero_on_free(void **state)
{
	static const struct uslub_policy policies[] = {
		{ .sheaf_capacity = CAPACITY },
		{ .sheaf_capacity = CAPACITY, .rcu_stash = 8 },
		{ .sheaf_capacity = USLUB_POLICY_NONE },
	};
	struct uslub_cache_args args = { .align = 0 };
	void *objects[60];

	(void)state;
	for (unsigned i = 0; i < array_size(policies); i++) {
		args.policy = policies[i];
		args.policy.zero_on_free = USLUB_POLICY_ON;
		begin_with(&gated, args);
		for (unsigned round = 0; round < 3; round++)
			zero_round(objects, 60);
		if (policies[i].rcu_stash)
			assert_true(S(stash_put) > 0);
		unit_equal(uslub_cache_destroy(c), 0);
	}
}

/* Empty sheaves come from the barn; matured ones beyond its limits are freed. */
static void test_counts_of_sheaves(void **state)
{
	void *objects[40];

	(void)state;
	begin(&gated);
	alloc_n(objects, 40);
	gate(false);
	free_rcu_n(objects, 33); /* 8 sheaves, and one object */
	unit_equal(S(sheaf_alloc), 2 + 8);
	unit_equal(plat_load(&c->rcu_queued), 32);
	gate(true);
	wait_quiet();
	/* 2 full and 2 empty ones are kept, 4 freed */
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 6);
	unit_equal(S(sheaf_flush), 24);
	unit_equal(S(sheaf_free), 4);
	unit_equal(S(barn_empty), 2);
	/* the barn's empty ones are used again */
	free_rcu_n(objects + 33, 7);
	unit_equal(S(sheaf_alloc), 10);
	wait_quiet();
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* What the barn got back is allocated from, sheaf-wise. */
static void test_reuse(void **state)
{
	void *objects[13], *again;

	(void)state;
	begin(&gated);
	alloc_n(objects, 12);
	free_rcu_n(objects, 9);
	wait_quiet();
	unit_equal(S(barn_full), 2);
	again = alloc();
	unit_equal(S(barn_get), 1);
	assert_true(among(again, objects, 8));
	unit_check_cache(c, 4, 0, 0);
}

static void test_age(void **state)
{
	void *objects[6];

	(void)state;
	begin(&gated);
	unit_equal(S(rcu_oldest_ns), 0);
	alloc_n(objects, 6);
	gate(false);
	free_rcu_n(objects, 5);
	pause_ms(50);
	assert_true(S(rcu_oldest_ns) >= 30000000);
	assert_true(S(rcu_oldest_ns) < 20000000000);
	gate(true);
	wait_quiet();
	unit_equal(S(rcu_oldest_ns), 0);
}

/* Aborted sequences lose nothing. */
static void test_aborts(void **state)
{
	static const unsigned points[] = { SEQ_PUSH_READY, SEQ_PUSH_N_READY, SEQ_FLIP_PUSH_READY,
					   SEQ_TAKE_READY, SEQ_GIVE_READY,   SEQ_ADD_READY };
	uint64_t deferred = 0;

	(void)state;
	begin(&gated);
	for (unsigned i = 0; i < 2000; i++) {
		void *object = alloc();

		plat_store(&plat_inject_point, points[unit_below(array_size(points))]);
		plat_store(&plat_inject_aborts, unit_below(10) ? unit_below(3) : 1000);
		uslub_cache_free_rcu(c, object);
		plat_store(&plat_inject_aborts, 0);
		deferred++;
		unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), deferred);
	}
	assert_true(S(free_rcu_sheaf_fail) > 0);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_equal(S(free_slowpath), S(free_rcu_sheaf_fail));
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* ---- the batch path ------------------------------------------------------------------------------- */

static void test_without_sheaves(void **state)
{
	enum { MANY = 2500 }; /* several blocks of pointers */
	static void *objects[MANY];

	(void)state;
	begin_with(&gated, (struct uslub_cache_args){ .policy.sheaf_capacity = USLUB_POLICY_NONE });
	alloc_n(objects, MANY);
	gate(false);
	free_rcu_n(objects, MANY);
	unit_equal(S(rcu_pending), MANY);
	unit_equal(S(free_slowpath), 0);
	unit_equal(S(objects), MANY);
	gate(true);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_equal(S(free_slowpath), MANY);
	unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), 0);
	unit_equal(S(objects), 0);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* No memory for a sheaf: counted, and batched. */
static void test_no_sheaf(void **state)
{
	void *objects[600];

	(void)state;
	begin(&gated);
	alloc_n(objects, 600);
	plat_inject_failures = 0;
	while (supply_alloc(0, 0, 0))
		;
	while (uslub_cache_alloc(c->sheaves, USLUB_NOWAIT))
		;
	gate(false);
	/* the spare serves, then the objects of 16 blocks in reserve */
	free_rcu_n(objects, 600);
	unit_equal(S(rcu_pending), 600);
	unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), 600);
	assert_true(S(free_rcu_sheaf_fail) >= 590);
	gate(true);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_equal(S(free_slowpath), S(free_rcu_sheaf_fail));
	plat_inject_failures = -1;
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* Not even a block: who may wait waits; a reader's object is lost, and that is said. */
static void exhaust(void)
{
	plat_inject_failures = 0;
	while (supply_alloc(0, 0, 0))
		;
	while (uslub_cache_alloc(c->sheaves, USLUB_NOWAIT))
		;
}

static void free_in_reader(void *arg)
{
	void **objects = arg;

	exhaust();
	gate(false);
	in_section = true;
	/* 16 blocks of pointers are kept */
	for (unsigned i = 0; i < 16 * plat_page_size() / sizeof(void *) + 10; i++)
		uslub_cache_free_rcu(c, objects[i]);
	unit_exit(42);
}

static unsigned progress;

/* When nothing goes on any more. */
static void *open_gate_late(void *arg)
{
	unsigned seen = 0, now;

	for (;; seen = now) {
		pause_ms(200);
		now = plat_load(&progress);
		if (now && now == seen)
			break;
	}
	gate(true);
	return arg;
}

static void free_outside(void *arg)
{
	void **objects = arg;
	pthread_t thread;

	pthread_create(&thread, NULL, open_gate_late, NULL);
	exhaust();
	for (unsigned i = 0; i < 16 * plat_page_size() / sizeof(void *) + 10; i++) {
		uslub_cache_free_rcu(c, objects[i]);
		plat_store(&progress, i + 1);
	}
	if (!plat_load(&gate_open))
		unit_exit(1); /* it waited for nothing */
	uslub_cache_barrier_rcu(c);
	unit_exit(S(rcu_pending) || !S(free_rcu_sheaf_fail) ? 2 : 42);
}

static void test_no_block(void **state)
{
	unsigned n = (unsigned)(16 * plat_page_size() / sizeof(void *) + 10);
	void **objects = calloc(n, sizeof(*objects));
	char text[4000];

	(void)state;
	if (unit_sanitized())
		unit_skip("children with threads");
	begin(&gated);
	alloc_n(objects, n);
	unit_equal(unit_child(free_in_reader, objects, text, sizeof(text), 60), 42 << 8);
	assert_non_null(strstr(text, "uslub: cache deferred: no memory to defer the free of 0x"));
	assert_true(unit_occurrences(text, "it is leaked") >= 1);
	gate(false);
	unit_equal(unit_child(free_outside, objects, text, sizeof(text), 60), 42 << 8);
	unit_equal(unit_occurrences(text, "leaked"), 0);
	gate(true);
	free(objects);
}

/* ---- barriers ------------------------------------------------------------------------------------- */

static bool barrier_returned;

static void *run_barrier(void *arg)
{
	uslub_cache_barrier_rcu(c);
	plat_store_release(&barrier_returned, true);
	return arg;
}

static void test_barrier_waits(void **state)
{
	void *objects[30];
	pthread_t thread;

	(void)state;
	begin(&gated);
	alloc_n(objects, 30);
	gate(false);
	free_rcu_n(objects, 30);
	assert_int_equal(pthread_create(&thread, NULL, run_barrier, NULL), 0);
	pause_ms(50);
	assert_false(plat_load_acquire(&barrier_returned));
	unit_equal(S(rcu_pending), 30);
	gate(true);
	pthread_join(thread, NULL);
	unit_equal(S(rcu_pending), 0);
	unit_check_cache(c, 0, 0, 0);
}

/* With nothing deferred it does not wait, and without a flavor it is a no-op. */
static void test_barrier_of_nothing(void **state)
{
	struct uslub_cache *plain = uslub_cache_create("plain", 100, NULL);

	(void)state;
	begin(&gated);
	gate(false);
	uslub_cache_barrier_rcu(c);
	uslub_cache_barrier_rcu(plain);
	unit_equal(uslub_cache_destroy(c), 0);
	unit_equal(uslub_cache_destroy(plain), 0);
}

/* Sheaves that CPUs have not queued are fetched. */
static void test_barrier_fetches(void **state)
{
	void *objects[8];

	(void)state;
	begin(&gated);
	for (int cpu = 0; cpu < 4; cpu++) {
		unit_on_cpu(cpu);
		alloc_n(objects + 2 * cpu, 2);
		uslub_cache_free_rcu(c, objects[2 * cpu]);
	}
	unit_equal(S(rcu_pending), 4);
	unit_equal(plat_load(&c->rcu_queued), 0);
	unit_on_cpu(0);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	for (unsigned cpu = 0; cpu < 4; cpu++) {
		unit_equal(pcs_of(&c->slots, cpu)->rcu.word, 0);
		assert_null(pcs_of(&c->slots, cpu)->rcu.sheaf[0]);
	}
	unit_equal(S(free_rcu_sheaf), 4);
	unit_check_cache(c, 4, 0, 0);
}

/* Shrinking fetches them as well, but waits for no grace period. */
static void test_shrink(void **state)
{
	void *objects[6];

	(void)state;
	begin(&gated);
	alloc_n(objects, 6);
	gate(false);
	free_rcu_n(objects, 6);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(S(rcu_pending), 6);
	unit_equal(plat_load(&c->rcu_queued), 6);
	unit_equal(S(objects), 6);
	unit_equal(S(slabs), 1);
	gate(true);
	wait_quiet();
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(S(slabs), 0);
	unit_check_cache(c, 0, 0, 0);
}

/* Destroying waits for what is deferred. */
static void *open_gate_soon(void *arg)
{
	pause_ms(50);
	gate(true);
	return arg;
}

static void test_destroy_waits(void **state)
{
	void *objects[30];
	pthread_t thread;

	(void)state;
	begin(&gated);
	alloc_n(objects, 30);
	gate(false);
	free_rcu_n(objects, 29);
	assert_int_equal(pthread_create(&thread, NULL, open_gate_soon, NULL), 0);
	unit_equal(uslub_cache_destroy(c), -EBUSY); /* one is left */
	pthread_join(thread, NULL);
	unit_equal(S(rcu_pending), 0);
	uslub_cache_free_rcu(c, objects[29]);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* Two caches of one flavor, one reclaimer. */
static void test_two_caches(void **state)
{
	struct uslub_cache *first;
	void *a[9], *b[9];

	(void)state;
	begin(&gated);
	alloc_n(a, 9);
	first = c;
	begin(&gated);
	alloc_n(b, 9);
	assert_ptr_equal(first->domain, c->domain);
	gate(false);
	free_rcu_n(b, 9);
	for (unsigned i = 0; i < 9; i++)
		uslub_cache_free_rcu(first, a[i]);
	unit_equal(S(rcu_pending), 9);
	unit_equal(stat_of(first, rcu_pending), 9);
	gate(true);
	unit_equal(uslub_cache_destroy(first), 0);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_many_flavors(void **state)
{
	static struct rcu_flavor_struct flavors[9];

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		struct uslub_cache_args args = { .args_size = sizeof(args), .rcu = &flavors[i] };

		flavors[i] = gated;
		errno = 0;
		c = uslub_cache_create("flavored", 100, &args);
		assert_int_equal(c != NULL, i < 8);
		if (!c) {
			unit_equal(errno, ENOMEM);
			continue;
		}
		uslub_cache_free_rcu(c, alloc());
		unit_equal(uslub_cache_destroy(c), 0);
	}
}

/* ---- limits --------------------------------------------------------------------------------------- */

/* Past rcu-limit the event is counted; nobody waits, least of all a reader. */
static void test_limit(void **state)
{
	enum { MANY = 200 };
	static void *objects[MANY];

	(void)state;
	begin_with(&gated, (struct uslub_cache_args){ .policy.rcu_limit = 4096 });
	alloc_n(objects, MANY);
	gate(false);
	in_section = true;
	free_rcu_n(objects, 1 + 4 * (unsigned)(4096 / S(slab_size) / 4));
	unit_equal(S(rcu_hurried), 0);
	free_rcu_n(objects + 1 + 4096 / S(slab_size), MANY - 1 - 4096 / S(slab_size));
	assert_true(S(rcu_hurried) > 0);
	unit_equal(S(rcu_pending), MANY);
	in_section = false;
	gate(true);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 0, 0, 0);
}

/* ---- type-safe caches ----------------------------------------------------------------------------- */

static void try_typesafe(bool by_free)
{
	struct supply_usage before, after;
	void *objects[64];

	begin_with(&gated, (struct uslub_cache_args){
				   .flags = USLUB_TYPESAFE_BY_RCU,
				   .min_partial = 1,
				   .policy.sheaf_capacity = by_free ? USLUB_POLICY_NONE : 4 });
	unit_equal(S(destroy_by_rcu), 1);
	gate(false);
	alloc_n(objects, 64);
	for (unsigned i = 0; i < 64; i++)
		memset(objects[i], (int)i + 1, uslub_cache_object_size(c));
	supply_usage(&before);
	for (unsigned i = 0; i < 64; i++)
		uslub_cache_free(c, objects[i]);
	if (by_free)
		unit_equal(S(free_slab), 3); /* one empty slab is kept */
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(S(slabs), 0);
	/* The memory is still the cache's and what was in the objects is still there. */
	assert_true(unit_wait(is_waiting, NULL));
	supply_usage(&after);
	assert_true(after.used + 2 * plat_page_size() > before.used);
	for (unsigned i = 0; i < 64; i++) {
		unsigned char *p = objects[i];

		assert_non_null(supply_page_of(p));
		for (size_t k = 0; k < uslub_cache_object_size(c); k++)
			assert_int_equal(p[k], i + 1);
	}
	gate(true);
	uslub_cache_barrier_rcu(c);
	for (unsigned i = 0; i < 64; i++)
		assert_null(supply_page_of(objects[i]));
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_typesafe_shrink(void **state)
{
	(void)state;
	try_typesafe(false);
}

static void test_typesafe_free(void **state)
{
	(void)state;
	try_typesafe(true);
}

/* The control: without it pages go at once. */
static void test_not_typesafe(void **state)
{
	void *object;

	(void)state;
	begin(&gated);
	gate(false);
	object = alloc();
	uslub_cache_free(c, object);
	unit_equal(uslub_cache_shrink(c), 0);
	assert_null(supply_page_of(object));
	gate(true);
}

static void test_typesafe_destroy(void **state)
{
	pthread_t thread;
	void *object;

	(void)state;
	begin_with(&gated, (struct uslub_cache_args){ .flags = USLUB_TYPESAFE_BY_RCU });
	object = alloc();
	uslub_cache_free(c, object);
	gate(false);
	assert_int_equal(pthread_create(&thread, NULL, open_gate_soon, NULL), 0);
	unit_equal(uslub_cache_destroy(c), 0);
	assert_true(plat_load(&gate_open)); /* it waited for that */
	pthread_join(thread, NULL);
	assert_null(supply_page_of(object));
}

/* ---- misuse --------------------------------------------------------------------------------------- */

static void defer_without_flavor(void *arg)
{
	uslub_cache_free_rcu(arg, uslub_cache_alloc(arg, 0));
}

static void defer_nonsense(void *arg)
{
	int local = 0;

	(void)arg;
	uslub_cache_free_rcu(c, &local);
	uslub_cache_barrier_rcu(c);
}

static void test_misuse(void **state)
{
	struct uslub_cache *plain = uslub_cache_create("plain", 100, NULL);

	(void)state;
	unit_dies(defer_without_flavor, plain, "uslub: cache plain: uslub_cache_free_rcu() of 0x");
	unit_dies(defer_without_flavor, plain, "without an RCU flavor");
	if (unit_sanitized())
		return;
	begin(&gated);
	unit_dies(defer_nonsense, NULL, "is not from any cache");
	begin_with(&gated, (struct uslub_cache_args){ .policy.sheaf_capacity = USLUB_POLICY_NONE });
	unit_dies(defer_nonsense, NULL, "is not from any cache");
}

/* ---- two nodes ------------------------------------------------------------------------------------ */

static void test_remote(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	void *objects[20];

	(void)state;
	unit_machine("0-3", NULL, cpus, 2);
	begin(&gated);
	alloc_n(objects, 20); /* on node 0 */
	gate(false);
	unit_on_cpu(2);
	free_rcu_n(objects, 10);
	/* neither counter: they are batched */
	unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), 0);
	unit_equal(S(rcu_pending), 10);
	unit_on_cpu(1);
	free_rcu_n(objects + 10, 9);
	unit_equal(S(free_rcu_sheaf), 9);
	unit_equal(S(rcu_pending), 19);
	gate(true);
	wait_quiet();
	unit_equal(S(rcu_pending), 1);
	unit_equal(S(free_slowpath), 10);
	unit_equal(c->barns[0].nr_full, 2);
	unit_equal(c->barns[1].nr_full, 0);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 1, 0, 0);
	/* A sheaf filled on node 1 goes to node 1's barn. */
	unit_on_cpu(3);
	alloc_n(objects, 9);
	free_rcu_n(objects, 9);
	wait_quiet();
	unit_equal(c->barns[1].nr_full, 2);
	unit_equal(S(free_slowpath), 10);
}

/* ---- a reclaimer that is late --------------------------------------------------------------------- */

#define PACE_NS 1000000 /* how long it leaves matured sheaves to others */

void __real_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);
void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);

static bool pace_for_long;
static unsigned pacing;

void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout)
{
	if (timeout != PACE_NS || !plat_load(&pace_for_long)) {
		__real_plat_wait(word, value, timeout);
		return;
	}
	plat_fetch_add(&pacing, 1);
	while (plat_load(&pace_for_long))
		pause_ms(1);
	plat_fetch_sub(&pacing, 1);
}

static bool is_pacing(void *arg)
{
	(void)arg;
	return plat_load_acquire(&pacing);
}

/* Matured sheaves are disposed of by those who queue others, one for one, */
static void test_assistance(void **state)
{
	void *objects[30];

	(void)state;
	begin(&gated);
	alloc_n(objects, 30);
	gate(false); /* or the one who queues a sheaf might find it matured */
	plat_store(&pace_for_long, true);
	free_rcu_n(objects, 5); /* the first one wakes the reclaimer */
	gate(true);
	assert_true(unit_wait(is_pacing, NULL));
	unit_equal(plat_load(&c->rcu_queued), 4);
	unit_equal(S(barn_put), 0);
	free_rcu_n(objects + 5, 3);
	unit_equal(S(barn_put), 0);
	free_rcu_n(objects + 8, 1); /* queues the second one */
	unit_equal(S(barn_put), 1);
	unit_equal(S(barn_full), 1);
	unit_equal(plat_load(&c->rcu_queued), 4);
	/* whose grace period is not over */
	free_rcu_n(objects + 9, 8);
	unit_equal(S(barn_put), 1);
	unit_equal(plat_load(&c->rcu_queued), 12);
	plat_store(&pace_for_long, false);
	wait_quiet();
	unit_equal(S(barn_put) + S(barn_put_fail), 4);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 30 - 17, 0, 0);
}

/* and by an allocation that finds nothing in the barn. */
static void test_allocation_of_matured(void **state)
{
	void *objects[12], *got;

	(void)state;
	begin(&gated);
	alloc_n(objects, 12);
	gate(false);
	plat_store(&pace_for_long, true);
	free_rcu_n(objects, 5);
	gate(true);
	assert_true(unit_wait(is_pacing, NULL));
	unit_equal(S(barn_get), 0);
	got = alloc();
	assert_true(among(got, objects, 4));
	unit_equal(S(barn_put), 1);
	unit_equal(S(barn_get), 1);
	unit_equal(S(rcu_pending), 1);
	unit_equal(S(sheaf_refill), 12);
	plat_store(&pace_for_long, false);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 12 - 5 + 1, 0, 0);
}

/* ---- no thread to be had -------------------------------------------------------------------------- */

int __real_plat_thread_start(void *(*fn)(void *), void *arg);
int __wrap_plat_thread_start(void *(*fn)(void *), void *arg);

static bool no_threads;
static unsigned starts;

int __wrap_plat_thread_start(void *(*fn)(void *), void *arg)
{
	starts++;
	return no_threads ? -EAGAIN : __real_plat_thread_start(fn, arg);
}

/* Things stay queued; who waits does the work himself; the next push tries again. */
static void test_no_thread(void **state)
{
	void *objects[40];

	(void)state;
	begin(&gated);
	alloc_n(objects, 40);
	no_threads = true;
	free_rcu_n(objects, 20);
	assert_true(starts > 1);
	unit_equal(S(rcu_pending), 20);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_check_cache(c, 20, 0, 0);
	free_rcu_n(objects + 20, 10);
	unit_equal(S(rcu_pending), 10);
	no_threads = false;
	starts = 0;
	free_rcu_n(objects + 30, 4);
	unit_equal(starts, 1);
	wait_quiet();
	no_threads = true; /* it is there for good */
	free_rcu_n(objects + 34, 6);
	unit_equal(uslub_cache_destroy(c), 0);
	unit_equal(starts, 1);
}

/* ---- a kernel that refuses ------------------------------------------------------------------------ */

int __real_plat_membarrier(void);
int __wrap_plat_membarrier(void);

static bool refused;

int __wrap_plat_membarrier(void)
{
	return refused ? -EPERM : __real_plat_membarrier();
}

static void without_membarrier(void *arg)
{
	void **objects = arg;

	refused = true;
	if (uslub_cache_shrink(c) != -EPERM)
		unit_exit(1);
	free_rcu_n(objects, 10);
	uslub_cache_barrier_rcu(c); /* comes back */
	free_rcu_n(objects + 10, 10);
	uslub_cache_free(c, alloc());
	unit_exit(uslub_cache_destroy(c) ? 2 : 42);
}

static void test_refused_membarrier(void **state)
{
	void *objects[20];
	char text[2000];
	int status;

	(void)state;
	if (unit_sanitized())
		unit_skip("children with threads");
	begin(&gated);
	alloc_n(objects, 20);
	status = unit_child(without_membarrier, objects, text, sizeof(text), unit_scaled(100));
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
	assert_non_null(strstr(text, "membarrier(2) was forbidden"));
}

/* ---- fork ----------------------------------------------------------------------------------------- */

static void in_child(void *arg)
{
	void **objects = arg;

	/* The reclaimer had taken them and is not here: a new one waits for a grace period of ours. */
	unit_equal(S(rcu_pending), 20);
	free_rcu_n(objects + 20, 10);
	unit_equal(S(rcu_pending), 30);
	gate(true);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
	unit_exit(42);
}

/* In the middle of a grace period. */
static void test_fork(void **state)
{
	void *objects[30];
	char text[2000];
	int status;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	if (unit_sanitized())
		unit_skip("children with threads");
	begin(&gated);
	alloc_n(objects, 30);
	gate(false);
	free_rcu_n(objects, 20);
	unit_equal(uslub_cache_shrink(c), 0); /* queues what is left */
	assert_true(unit_wait(is_waiting, NULL));
	status = unit_child(in_child, objects, text, sizeof(text), unit_scaled(100));
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
	/* and here all goes on as well */
	unit_equal(S(rcu_pending), 20);
	free_rcu_n(objects + 20, 10);
	gate(true);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* ---- liburcu's flavors ---------------------------------------------------------------------------- */

static struct rcu_flavor_struct flavor;
static void (*synchronize)(void);
static unsigned sections_left;
static pthread_barrier_t reader_barrier;

/*
 * ThreadSanitizer does not see how liburcu orders the end of a section before that of a grace period: it
 * is told by a release and an acquire.
 */
static void leave_section(void)
{
	if (unit_tsan())
		plat_fetch_add(&sections_left, 1);
	flavor.read_unlock();
}

static void synchronize_seen(void)
{
	synchronize();
	(void)plat_load_acquire(&sections_left);
}

static void use_flavor(const struct rcu_flavor_struct *f)
{
	flavor = *f;
	synchronize = f->update_synchronize_rcu;
	flavor.update_synchronize_rcu = synchronize_seen;
}

/* A reader that is in its section between the first two meetings. */
static void *reader(void *arg)
{
	flavor.register_thread();
	flavor.read_lock();
	pthread_barrier_wait(&reader_barrier);
	pthread_barrier_wait(&reader_barrier);
	leave_section();
	flavor.unregister_thread();
	return arg;
}

/* Objects are not issued again while a reader is at it, and are after a barrier. */
static void try_flavor(const struct rcu_flavor_struct *f)
{
	enum { FREED = 50, MORE = 400 };
	void *freed[FREED], *more[MORE];
	unsigned seen = 0;
	pthread_t thread;

	use_flavor(f);
	begin(&flavor);
	pthread_barrier_init(&reader_barrier, NULL, 2);
	alloc_n(freed, FREED);
	assert_int_equal(pthread_create(&thread, NULL, reader, NULL), 0);
	pthread_barrier_wait(&reader_barrier);
	free_rcu_n(freed, FREED);
	for (unsigned i = 0; i < MORE; i++) {
		if (i % 100 == 0)
			pause_ms(20);
		more[i] = alloc();
		assert_false(among(more[i], freed, FREED));
	}
	unit_equal(S(rcu_pending), FREED);
	pthread_barrier_wait(&reader_barrier);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_check_cache(c, MORE, 0, 0);
	for (unsigned i = 0; i < FREED; i++)
		seen += among(alloc(), freed, FREED);
	assert_true(seen > FREED / 2);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < MORE; i++)
		uslub_cache_free_rcu(c, more[i]);
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, FREED, 0, 0);
}

static void test_memb(void **state)
{
	(void)state;
	try_flavor(&urcu_memb_flavor);
}

static void test_qsbr(void **state)
{
	(void)state;
	try_flavor(&urcu_qsbr_flavor);
}

static void test_bp(void **state)
{
	(void)state;
	try_flavor(&urcu_bp_flavor);
}

/* A registered thread that is online, and waits: it must not wait for itself. */
static void test_qsbr_online(void **state)
{
	void *objects[50];

	(void)state;
	begin(&urcu_qsbr_flavor);
	urcu_qsbr_flavor.register_thread();
	assert_true(urcu_qsbr_flavor.read_ongoing());
	for (unsigned round = 0; round < 3; round++) {
		alloc_n(objects, 50);
		free_rcu_n(objects, 50);
		uslub_cache_barrier_rcu(c);
		assert_true(urcu_qsbr_flavor.read_ongoing());
		unit_equal(S(rcu_pending), 0);
	}
	/* offline it stays offline */
	urcu_qsbr_flavor.thread_offline();
	uslub_cache_barrier_rcu(c);
	assert_false(urcu_qsbr_flavor.read_ongoing());
	urcu_qsbr_flavor.thread_online();
	alloc_n(objects, 50);
	free_rcu_n(objects, 50);
	unit_equal(uslub_cache_destroy(c), 0);
	assert_true(urcu_qsbr_flavor.read_ongoing());
	urcu_qsbr_flavor.unregister_thread();
}

/* A reader may defer frees as many as it likes. */
static void test_free_in_reader(void **state)
{
	enum { MANY = 3000 };
	static void *objects[MANY];

	(void)state;
	begin_with(&urcu_memb_flavor, (struct uslub_cache_args){ .policy.rcu_limit = 4096 });
	urcu_memb_flavor.register_thread();
	alloc_n(objects, MANY);
	urcu_memb_flavor.read_lock();
	free_rcu_n(objects, MANY);
	unit_equal(S(rcu_pending), MANY);
	assert_true(S(rcu_hurried) > 0);
	urcu_memb_flavor.read_unlock();
	urcu_memb_flavor.unregister_thread();
	uslub_cache_barrier_rcu(c);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

/* Readers look at published objects while writers replace them. */
struct thing {
	uint64_t alive, number;
};

static struct thing *published[8];
static char freed_too_early[] = "freed while looked at";
static bool stop;

static void *look(void *arg)
{
	struct thing *t;

	flavor.register_thread();
	for (unsigned i = 0; !plat_load(&stop); i++) {
		flavor.read_lock();
		t = plat_load_acquire(&published[i % 8]);
		for (unsigned k = 0; k < 20; k++)
			if (plat_load(&t->alive) != 0xa11fe || plat_load(&t->number) != i % 8)
				arg = freed_too_early;
		leave_section();
		flavor.read_quiescent_state();
	}
	flavor.unregister_thread();
	return arg;
}

static struct thing *new_thing(unsigned number)
{
	struct thing *t = alloc();

	plat_store(&t->number, number);
	plat_store(&t->alive, 0xa11fe);
	return t;
}

static void try_readers(const struct rcu_flavor_struct *f)
{
	pthread_t threads[2];
	void *trouble;

	use_flavor(f);
	begin_with(&flavor, (struct uslub_cache_args){ .policy.rcu_limit = 65536 });
	for (unsigned i = 0; i < 8; i++)
		published[i] = new_thing(i);
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, NULL), 0);
	for (unsigned i = 0; i < unit_scaled(12000); i++) {
		struct thing *old = plat_exchange(&published[i % 8], new_thing(i % 8)), *other;

		uslub_cache_free_rcu(c, old);
		/* what is allocated next is written to at once */
		other = alloc();
		plat_store(&other->alive, 0xdead);
		uslub_cache_free(c, other);
	}
	plat_store(&stop, true);
	for (unsigned i = 0; i < array_size(threads); i++) {
		pthread_join(threads[i], &trouble);
		if (trouble)
			fail_msg("%s", (const char *)trouble);
	}
	uslub_cache_barrier_rcu(c);
	unit_equal(S(free_rcu_sheaf) + S(free_rcu_sheaf_fail), unit_scaled(12000));
	for (unsigned i = 0; i < 8; i++)
		uslub_cache_free(c, published[i]);
	unit_check_cache(c, 0, 0, 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_readers_memb(void **state)
{
	(void)state;
	try_readers(&urcu_memb_flavor);
}

static void test_readers_qsbr(void **state)
{
	(void)state;
	try_readers(&urcu_qsbr_flavor);
}

static void test_readers_bp(void **state)
{
	(void)state;
	try_readers(&urcu_bp_flavor);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_counts, UNIT_BOTH),
		UNIT_TEST(test_zero_on_free, UNIT_BOTH),
		UNIT_TEST(test_counts_of_sheaves, UNIT_BOTH),
		UNIT_TEST(test_reuse, UNIT_BOTH),
		UNIT_TEST(test_age, UNIT_BOTH),
		UNIT_TEST(test_aborts, UNIT_FAKED),
		UNIT_TEST(test_without_sheaves, UNIT_BOTH),
		UNIT_TEST(test_no_sheaf, UNIT_BOTH),
		UNIT_TEST(test_no_block, UNIT_BOTH),
		UNIT_TEST(test_barrier_waits, UNIT_ALL),
		UNIT_TEST(test_barrier_of_nothing, UNIT_BOTH),
		UNIT_TEST(test_barrier_fetches, UNIT_FAKED),
		UNIT_TEST(test_shrink, UNIT_BOTH),
		UNIT_TEST(test_destroy_waits, UNIT_ALL),
		UNIT_TEST(test_two_caches, UNIT_ALL),
		UNIT_TEST(test_many_flavors, UNIT_BOTH),
		UNIT_TEST(test_limit, UNIT_BOTH),
		UNIT_TEST(test_typesafe_shrink, UNIT_BOTH),
		UNIT_TEST(test_typesafe_free, UNIT_BOTH),
		UNIT_TEST(test_not_typesafe, UNIT_BOTH),
		UNIT_TEST(test_typesafe_destroy, UNIT_BOTH),
		UNIT_TEST(test_misuse, UNIT_BOTH),
		UNIT_TEST(test_remote, UNIT_FAKED),
		UNIT_TEST(test_assistance, UNIT_BOTH),
		UNIT_TEST(test_allocation_of_matured, UNIT_BOTH),
		UNIT_TEST(test_no_thread, UNIT_BOTH),
		UNIT_TEST(test_refused_membarrier, UNIT_BOTH),
		UNIT_TEST(test_fork, UNIT_BOTH),
		UNIT_TEST(test_memb, UNIT_ALL),
		UNIT_TEST(test_qsbr, UNIT_ALL),
		UNIT_TEST(test_bp, UNIT_ALL),
		UNIT_TEST(test_qsbr_online, UNIT_ALL),
		UNIT_TEST(test_free_in_reader, UNIT_ALL),
		UNIT_TEST(test_readers_memb, UNIT_REAL),
		UNIT_TEST(test_readers_qsbr, UNIT_REAL),
		UNIT_TEST(test_readers_bp, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
