/* SPDX-License-Identifier: MIT */
/*
 * Own-first recycling: matured RCU sheaves that come back to the CPU that filled them, with grace periods
 * that end when the test says so.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"
#include "platform/point.h"

#define CAPACITY 4
#define PER_SLAB 16

/* ---- a flavor of our own -------------------------------------------------------------------------- */

static bool gate_open = true;

static void pause_ms(unsigned ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&pause, NULL);
}

static void gate_synchronize(void)
{
	while (!plat_load_acquire(&gate_open))
		pause_ms(1);
}

static void gate(bool open)
{
	plat_store_release(&gate_open, open);
}

static int gate_ongoing(void)
{
	return 0;
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

/* ---- time ----------------------------------------------------------------------------------------- */

uint64_t __real_plat_now(void);
uint64_t __wrap_plat_now(void);
void __real_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);
void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);

#define MS	1000000ull
#define TRIM_NS (20 * MS)   /* between two trims of a stash */
#define AGE_NS	(500 * MS)  /* between two looks of the reclaimer */
#define IDLE_NS (1000 * MS) /* after which a CPU is idle */

#define BEGIN (1000000 * MS)

static bool time_stands;
static uint64_t time_is = BEGIN;
static __thread bool is_test; /* the test's own thread */
static bool unseen;	      /* the reclaimer sees no time pass and does not look */
static unsigned looks;	      /* naps of the reclaimer that ended by time */

uint64_t __wrap_plat_now(void)
{
	if (!plat_load(&time_stands))
		return __real_plat_now();
	return plat_load(&unseen) && !is_test ? BEGIN : plat_load_acquire(&time_is);
}

/* A nap until the next look ends when the test has let that much time pass, or soon where it has a will. */
void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout)
{
	uint64_t end = plat_load(&time_is) + timeout;

	if (timeout != AGE_NS || !plat_load(&time_stands)) {
		__real_plat_wait(word, value, timeout);
		return;
	}
	while (plat_load_acquire(word) == value &&
	       (plat_load(&unseen) || plat_load_acquire(&time_is) < end))
		pause_ms(1);
	if (plat_load(&time_is) >= end)
		plat_fetch_add(&looks, 1);
}

static void pass(uint64_t ns)
{
	plat_fetch_add(&time_is, ns);
}

static bool looked(void *arg)
{
	return plat_load(&looks) >= *(unsigned *)arg;
}

/* ---- caches --------------------------------------------------------------------------------------- */

static struct uslub_cache *c;

#define S(name) stat_of(c, name)

static void begin_with(uint64_t stash, struct uslub_cache_args args)
{
	args.args_size = sizeof(args);
	args.rcu = &gated;
	args.policy.slab_min_objects = PER_SLAB;
	args.policy.sheaf_capacity = CAPACITY;
	args.policy.barn_full = 2;
	args.policy.barn_empty = 2;
	args.policy.rcu_stash = stash;
	is_test = true;
	plat_store(&time_stands, true);
	c = uslub_cache_create("stashed", plat_page_size() / PER_SLAB, &args);
	assert_non_null(c);
}

static void begin(uint64_t stash)
{
	begin_with(stash, (struct uslub_cache_args){ .align = 0 });
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

static unsigned slot(void)
{
	return plat_slot();
}

static const struct stash *own(void)
{
	return &c->stashes[slot()];
}

static unsigned kept(unsigned at)
{
	unsigned n = 0;

	for (const struct uslub_sheaf *s = stash_top(&c->stashes[at]); s; s = s->next, n++) {
		assert_ptr_equal(s->cache, c);
		assert_true(s->fill > 0);
	}
	unit_equal(n, stash_count(&c->stashes[at]));
	return n;
}

/* Frees `sheaves` sheaves of objects and one more object, which queues the last one; then they mature. */
static void stash(void **objects, unsigned sheaves)
{
	gate(false);
	free_rcu_n(objects, sheaves * CAPACITY + 1);
	gate(true);
	wait_quiet();
}

#define check(live, prefilled) unit_check_cache(c, live, prefilled, 0)

static void destroy(void)
{
	unit_equal(uslub_cache_destroy(c), 0);
}

/* Locks that were taken: of the barn, of the list. */
struct taken {
	uint64_t barn, list;
};

static struct taken taken(void)
{
	return (struct taken){ S(barn_lock), S(list_lock_alloc) + S(list_lock_free) };
}

static void none_since(struct taken t, int line)
{
	unit_equal_at(S(barn_lock), t.barn, "barn_lock", "as before", __FILE__, line);
	unit_equal_at(S(list_lock_alloc) + S(list_lock_free), t.list, "list_lock", "as before",
		      __FILE__, line);
}

/* ---- the policy ----------------------------------------------------------------------------------- */

static uint64_t policy_of(const struct uslub_cache *cache)
{
	struct uslub_policy policy;

	uslub_cache_policy(cache, &policy);
	return policy.rcu_stash;
}

static void test_policy(void **state)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .rcu = &gated };

	(void)state;
	/* not asked for */
	c = uslub_cache_create("default", 100, &args);
	assert_null(c->stashes);
	unit_equal(policy_of(c), USLUB_POLICY_NONE);
	destroy();
	args.policy.rcu_stash = USLUB_POLICY_NONE;
	c = uslub_cache_create("none", 100, &args);
	assert_null(c->stashes);
	unit_equal(policy_of(c), USLUB_POLICY_NONE);
	destroy();
	for (unsigned n = 1; n <= 1024; n += 1023) {
		args.policy.rcu_stash = n;
		c = uslub_cache_create("some", 100, &args);
		assert_non_null(c->stashes);
		unit_equal(policy_of(c), n);
		unit_equal(c->stash_limit, n);
		destroy();
	}
	/* nothing to keep */
	args.policy.sheaf_capacity = USLUB_POLICY_NONE;
	c = uslub_cache_create("no sheaves", 100, &args);
	assert_null(c->stashes);
	unit_equal(policy_of(c), USLUB_POLICY_NONE);
	destroy();
	args.policy.sheaf_capacity = 0;
	args.rcu = NULL;
	c = uslub_cache_create("no flavor", 100, &args);
	assert_null(c->stashes);
	unit_equal(policy_of(c), USLUB_POLICY_NONE);
	destroy();
	args.rcu = &gated;
	args.policy.rcu_stash = 1025;
	errno = 0;
	assert_null(uslub_cache_create("too many", 100, &args));
	unit_equal(errno, EINVAL);
}

/* Without it nothing is different. */
static void test_none(void **state)
{
	void *objects[20];

	(void)state;
	begin(USLUB_POLICY_NONE);
	alloc_n(objects, 20);
	stash(objects, 4);
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 2);
	unit_equal(S(stash_put) + S(stash_get) + S(stash_trim) + S(stashed), 0);
	check(3, 0);
	free_n(objects + 17, 3);
	destroy();
}

/* ---- what is kept --------------------------------------------------------------------------------- */

/* The newest on top, to the limit; what is more goes where it always went. */
static void test_limit(void **state)
{
	void *objects[25];
	const struct uslub_sheaf *s;

	(void)state;
	begin(3);
	alloc_n(objects, 25);
	stash(objects, 6);
	unit_equal(kept(slot()), 3);
	unit_equal(S(stashed), 3);
	unit_equal(S(stash_put), 3);
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 1);
	unit_equal(S(sheaf_flush), 4);
	/* of those that matured together the first three, oldest first */
	s = stash_top(own());
	for (unsigned i = 3; i--; s = s->next)
		for (unsigned k = 0; k < CAPACITY; k++)
			assert_ptr_equal(s->objects[k], objects[i * CAPACITY + k]);
	check(0, 0);
	destroy();
}

/* An allocation takes the newest whole, its empty spare serves the next deferred frees. */
static void test_alloc(void **state)
{
	void *objects[13], *again[4];
	const struct uslub_sheaf *top, *next, *spare;
	struct taken before;

	(void)state;
	begin(8);
	alloc_n(objects, 12);
	stash(objects, 2);
	unit_equal(kept(slot()), 2);
	top = stash_top(own());
	next = top->next;
	/* main has none left and there was no spare but the one that became the RCU sheaf */
	before = taken();
	alloc_n(again, 4);
	assert_ptr_equal(pcs_of(&c->slots, slot())
				 ->main.sheaf[word_which(pcs_of(&c->slots, slot())->main.word)],
			 top);
	for (unsigned i = 0; i < 4; i++)
		assert_ptr_equal(again[i], objects[7 - i]);
	unit_equal(S(stash_get), 1);
	unit_equal(S(barn_get) + S(stash_trim), 0);
	assert_ptr_equal(stash_top(own()), next);
	/* now there is an empty spare */
	spare = pcs_of(&c->slots, slot())
			->main.sheaf[!word_which(pcs_of(&c->slots, slot())->main.word)];
	assert_non_null(spare);
	alloc_n(again, 1);
	assert_ptr_equal(again[0], objects[3]);
	unit_equal(kept(slot()), 0);
	assert_ptr_equal(pcs_of(&c->slots, slot())
				 ->rcu.sheaf[!word_which(pcs_of(&c->slots, slot())->rcu.word)],
			 spare);
	none_since(before, __LINE__);
	/* which is the next RCU sheaf: no other is made */
	unit_equal(S(sheaf_alloc), 4);
	free_rcu_n(objects + 9, 3);
	free_rcu_n(again, 1);
	unit_equal(S(sheaf_alloc), 4);
	assert_ptr_equal(pcs_of(&c->slots, slot())
				 ->rcu.sheaf[word_which(pcs_of(&c->slots, slot())->rcu.word)],
			 spare);
	none_since(before, __LINE__);
	wait_quiet();
	check(4, 0);
}

static struct uslub_sheaf *prefill(unsigned flags, unsigned n)
{
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, flags, n);

	assert_non_null(s);
	return s;
}

static void draw(struct uslub_sheaf *s, void **objects, unsigned n)
{
	while (n--)
		assert_non_null(*objects++ = uslub_cache_alloc_from_sheaf(c, 0, s));
}

/* A short spare is filled up by copying: no lock is taken, and a sheaf used in part stays on top. */
static void try_prefill(unsigned flags)
{
	void *objects[17], *drawn[8];
	const struct uslub_sheaf *top, *next;
	struct uslub_sheaf *s, *lent;
	struct taken before;

	begin(8);
	alloc_n(objects, 16);
	alloc_n(drawn, 1);
	s = prefill(0, 4);
	draw(s, objects + 16, 1);
	uslub_cache_return_sheaf(c, 0, s);
	stash(objects, 3);
	unit_equal(kept(slot()), 3);
	top = stash_top(own());
	next = top->next;
	before = taken();
	/* 3 and one of the top one's */
	lent = prefill(flags, 4);
	assert_ptr_equal(lent, s);
	unit_equal(lent->fill, 4);
	assert_ptr_equal(lent->objects[3], objects[11]);
	assert_ptr_equal(stash_top(own()), top);
	assert_ptr_equal(top->next, next);
	unit_equal(top->fill, 3);
	unit_equal(kept(slot()), 3);
	unit_equal(S(stash_get), 0);
	draw(lent, drawn + 1, 4);
	/* the rest of it, and one of the next; the emptied one is the next RCU sheaf */
	unit_equal(uslub_cache_refill_sheaf(c, flags, &lent, 2), 0);
	assert_ptr_equal(lent, s);
	unit_equal(lent->fill, 4);
	assert_ptr_equal(stash_top(own()), next);
	unit_equal(next->fill, 3);
	unit_equal(kept(slot()), 2);
	unit_equal(S(stash_get), 1);
	assert_ptr_equal(pcs_of(&c->slots, slot())
				 ->rcu.sheaf[!word_which(pcs_of(&c->slots, slot())->rcu.word)],
			 top);
	none_since(before, __LINE__);
	/* enough is enough */
	unit_equal(uslub_cache_refill_sheaf(c, flags, &lent, 4), 0);
	unit_equal(next->fill, 3);
	check(17 + 1 - 13 + 4 + 4, 1);
	uslub_cache_return_sheaf(c, flags, lent);
	none_since(before, __LINE__);
	check(9, 0);
	/* drained, all of them go to their slabs */
	unit_equal(cache_drain(c, false), 0);
	unit_equal(c->barns[0].nr_full, 0);
	unit_equal(kept(slot()), 0);
	uslub_cache_barrier_rcu(c);
	check(9, 0);
}

static void test_prefill(void **state)
{
	(void)state;
	try_prefill(0);
}

static void test_prefill_nowait(void **state)
{
	(void)state;
	try_prefill(USLUB_NOWAIT);
}

static void test_prefill_nolock(void **state)
{
	(void)state;
	try_prefill(USLUB_NOLOCK);
}

/* What the stash has, then the barn, then the slabs. */
static void test_prefill_short(void **state)
{
	void *objects[9], *drawn[4];
	struct uslub_sheaf *s;
	uint64_t refilled;

	(void)state;
	begin_with(8, (struct uslub_cache_args){ .policy.prefill_barn = USLUB_POLICY_ON });
	alloc_n(objects, 8);
	alloc_n(objects + 8, 1);
	s = prefill(0, 4);
	draw(s, drawn, 4);
	stash(objects, 1);
	refilled = S(sheaf_refill);
	free_rcu_n(objects + 5, 1);
	unit_equal(kept(slot()), 1);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &s, 3), 0);
	unit_equal(s->fill, 4);
	unit_equal(S(sheaf_refill), refilled);
	unit_equal(kept(slot()), 0);
	unit_equal(S(stash_get), 1);
	draw(s, drawn, 3);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &s, 4), 0);
	unit_equal(S(sheaf_refill), refilled + 3);
	unit_equal(S(barn_prefill_miss), 2);
	uslub_cache_return_sheaf(c, 0, s);
	uslub_cache_barrier_rcu(c);
	check(9 - 6 + 7, 0);
}

/* Without a spare one of the stash is lent; more than a sheaf holds has nothing to do with it. */
static void test_borrow_and_oversize(void **state)
{
	void *objects[12];
	struct uslub_sheaf *s, *large;
	const struct uslub_sheaf *top;
	struct taken before;

	(void)state;
	begin(8);
	alloc_n(objects, 12);
	stash(objects, 2);
	top = stash_top(own());
	large = prefill(0, CAPACITY + 1);
	unit_equal(kept(slot()), 2);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &large, CAPACITY + 1), 0);
	draw(large, objects, 2);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &large, CAPACITY + 1), 0);
	unit_equal(kept(slot()), 2);
	before = taken();
	s = uslub_cache_prefill_sheaf(c, 0, 4);
	assert_ptr_equal(s, top);
	unit_equal(S(stash_get), 1);
	unit_equal(S(barn_get) + S(barn_get_fail), 3);
	none_since(before, __LINE__);
	check(12 - 9 + 2 + 5 + 4, 2);
	uslub_cache_return_sheaf(c, 0, s);
	uslub_cache_return_sheaf(c, 0, large);
	check(12 - 9 + 2, 0);
}

static void test_bulk(void **state)
{
	void *objects[17], *got[12];
	struct taken before;

	(void)state;
	begin(8);
	alloc_n(objects, 16);
	alloc_n(objects + 16, 1);
	stash(objects, 3);
	before = taken();
	/* main has 3; any context takes no stash */
	unit_equal(uslub_cache_alloc_bulk(c, USLUB_NOLOCK, 3, got), 0);
	unit_equal(kept(slot()), 3);
	unit_equal(uslub_cache_alloc_bulk(c, 0, 8, got), 0);
	unit_equal(kept(slot()), 1);
	unit_equal(S(stash_get), 2);
	unit_equal(S(list_lock_alloc) + S(list_lock_free), before.list);
	check(17 - 13 + 11, 0);
}

/* ---- CPUs ----------------------------------------------------------------------------------------- */

/* What each frees comes back to it, wherever the reclaimer runs. */
static void test_cpus(void **state)
{
	void *objects[4][9];

	(void)state;
	begin(2);
	for (int cpu = 0; cpu < 4; cpu++) {
		unit_on_cpu(cpu);
		alloc_n(objects[cpu], 9);
	}
	gate(false);
	for (int cpu = 0; cpu < 4; cpu++) {
		unit_on_cpu(cpu);
		free_rcu_n(objects[(cpu + 1) % 4], 9);
	}
	gate(true);
	wait_quiet();
	for (unsigned cpu = 0; cpu < 4; cpu++) {
		const struct uslub_sheaf *s = stash_top(&c->stashes[cpu]);

		unit_equal(kept(cpu), 2);
		for (unsigned k = 0; k < CAPACITY; k++)
			assert_ptr_equal(s->objects[k], objects[(cpu + 1) % 4][4 + k]);
		unit_equal(s->slot, cpu);
	}
	/* nobody else takes them */
	unit_on_cpu(0);
	alloc_n(objects[0], 3);
	free_n(objects[0], 3);
	for (unsigned i = 0; i < 30; i++)
		objects[i / 9][i % 9] = alloc();
	unit_equal(kept(0), 0);
	for (unsigned cpu = 1; cpu < 4; cpu++)
		unit_equal(kept(cpu), 2);
	unit_equal(S(stash_get), 2);
	check(30, 0);
}

/* Threads without a CPU have stashes, too. */
static void test_foreign(void **state)
{
	void *objects[17];

	(void)state;
	begin(4);
	unit_on_cpu(-1);
	assert_true(slot() >= plat_ncpu());
	alloc_n(objects, 16);
	stash(objects, 3);
	unit_equal(kept(slot()), 3);
	alloc_n(objects, 4);
	unit_equal(S(stash_get), 1);
	check(16 - 13 + 4, 0);
}

/* Each node's sheaves go to its own CPUs, and to its slabs from there. */
static void test_nodes(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	struct uslub_sheaf *full;
	void *objects[2][20];

	(void)state;
	unit_machine("0-3", NULL, cpus, 2);
	begin(3);
	alloc_n(objects[0], 20);
	unit_on_cpu(3);
	alloc_n(objects[1], 20);
	unit_equal(object_node(c, objects[1][0]), 1);
	gate(false);
	free_rcu_n(objects[1], 17);
	free_rcu_n(objects[0], 10); /* remote: they never lie in a sheaf */
	gate(true);
	wait_quiet();
	unit_equal(kept(3), 3);
	unit_equal(kept(0) + kept(1) + kept(2), 0);
	unit_equal(c->barns[1].nr_full, 1);
	unit_equal(c->barns[0].nr_full, 0);
	for (const struct uslub_sheaf *s = stash_top(&c->stashes[3]); s; s = s->next)
		for (unsigned k = 0; k < CAPACITY; k++)
			unit_equal(object_node(c, s->objects[k]), 1);
	check(40 - 27, 0);
	/* released by a thread of the other node */
	unit_on_cpu(0);
	unit_equal(cache_drain(c, false), 0);
	unit_equal(S(stash_trim), 3);
	unit_equal(c->barns[1].nr_full, 1);
	unit_equal(c->barns[0].nr_full, 0);
	uslub_cache_barrier_rcu(c);
	check(40 - 27, 0);
	/* one whose thread went to another node before it queued it */
	alloc_n(objects[0], 4);
	full = sheaf_new(c, 0);
	memcpy(full->objects, objects[0], sizeof(*objects[0]) * CAPACITY);
	full->fill = CAPACITY;
	rcu_queue_sheaf(c, 2, full, true);
	wait_quiet();
	unit_equal(kept(2), 0);
	unit_equal(c->barns[0].nr_full, 1);
	check(40 - 27, 0);
}

/* ---- age ------------------------------------------------------------------------------------------ */

/* What was not needed between two trims goes, but one; the barn has it, then the slabs. */
static void test_trim(void **state)
{
	void *objects[40], *again[4];
	const struct uslub_sheaf *top;

	(void)state;
	begin(16);
	alloc_n(objects, 36);
	stash(objects, 8);
	unit_equal(kept(slot()), 8);
	pass(TRIM_NS);
	alloc_n(again, 4); /* main had none; begins to watch, and takes one */
	unit_equal(kept(slot()), 7);
	unit_equal(S(stash_trim), 0);
	pass(TRIM_NS - 1);
	free_n(again, 4);
	alloc_n(again, 4);
	stash_trim(c, slot());
	unit_equal(kept(slot()), 7);
	top = stash_top(own());
	/* nor if another thread's time is a little behind */
	pass(-TRIM_NS);
	stash_trim(c, slot());
	unit_equal(kept(slot()), 7);
	pass(TRIM_NS + 1);
	stash_trim(c, slot());
	/* seven were too many, of which one stays: the newest */
	unit_equal(kept(slot()), 1);
	assert_ptr_equal(stash_top(own()), top);
	unit_equal(S(stash_trim), 6);
	unit_equal(S(barn_put), 2);
	unit_equal(S(barn_put_fail), 4);
	unit_equal(S(sheaf_flush), 4 * CAPACITY);
	check(36 - 33 + 4, 0);
	/* one stays for ever */
	for (unsigned i = 0; i < 4; i++) {
		pass(TRIM_NS);
		stash_trim(c, slot());
	}
	unit_equal(kept(slot()), 1);
	unit_equal(S(stash_trim), 6);
	check(36 - 33 + 4, 0);
}

/* The fewest in between are too many, not those at the end. */
static void test_trim_low(void **state)
{
	void *objects[40], *more[40];

	(void)state;
	begin(16);
	alloc_n(objects, 36);
	stash(objects, 5);
	pass(TRIM_NS);
	stash_trim(c, slot());
	for (unsigned i = 0; i < 2; i++)
		alloc_n(more + 4 * i, 4);
	unit_equal(kept(slot()), 3);
	/* one comes from the RCU sheaf's object and three others, and more */
	free_rcu_n(objects + 21, 12);
	wait_quiet();
	unit_equal(kept(slot()), 6);
	pass(TRIM_NS);
	stash_trim(c, slot());
	unit_equal(S(stash_trim), 2);
	unit_equal(kept(slot()), 4);
	check(36 - 33 + 8, 0);
}

/* Who neither waits nor locks leaves that to others. */
static void test_trim_flags(void **state)
{
	void *objects[33];
	struct uslub_sheaf *s;

	(void)state;
	begin(16);
	alloc_n(objects, 32);
	alloc_n(objects + 32, 1);
	s = prefill(0, 4);
	draw(s, objects, 0);
	stash(objects, 6);
	pass(TRIM_NS);
	stash_trim(c, slot());
	for (unsigned flags = USLUB_NOWAIT;; flags = USLUB_NOLOCK) {
		pass(TRIM_NS);
		draw(s, objects, 1);
		unit_equal(uslub_cache_refill_sheaf(c, flags, &s, 4), 0);
		unit_equal(S(stash_trim), 0);
		unit_equal(kept(slot()), 6);
		if (flags == USLUB_NOLOCK)
			break;
	}
	draw(s, objects, 1);
	unit_equal(uslub_cache_refill_sheaf(c, 0, &s, 4), 0);
	unit_equal(S(stash_trim), 5);
	unit_equal(kept(slot()), 1);
	uslub_cache_return_sheaf(c, 0, s);
	check(33 - 25 + 3, 0);
}

static void slow_steps(unsigned n)
{
	while (n--)
		cache_slow_step(c);
}

/* Others look: a CPU that does nothing is drained, one that only frees is trimmed. */
static void test_look(void **state)
{
	void *objects[60];
	unsigned all = 64 * plat_nslots();

	(void)state;
	begin(4);
	alloc_n(objects, 58);
	unit_on_cpu(2);
	stash(objects, 4);
	unit_on_cpu(0);
	unit_equal(kept(2), 4);
	slow_steps(all);
	pass(TRIM_NS);
	unit_on_cpu(2);
	free_rcu_n(objects + 17, 1);
	unit_on_cpu(0);
	slow_steps(all);
	unit_equal(S(stash_trim), 3);
	unit_equal(kept(2), 1);
	check(40, 0);
	pass(IDLE_NS);
	slow_steps(all);
	unit_equal(S(stash_trim), 3);
	pass(1 + IDLE_NS);
	slow_steps(all);
	unit_equal(kept(2), 0);
	unit_equal(S(stash_trim), 4);
	unit_equal(pcs_of(&c->slots, 2)->rcu.word, 0);
	wait_quiet();
	check(40, 0);
	free_n(objects + 18, 40);
	destroy();
}

/* And so does the reclaimer, by itself, until nothing is left. */
static void test_reclaimer_looks(void **state)
{
	void *objects[20];
	unsigned wanted = 0;

	(void)state;
	begin(4);
	alloc_n(objects, 20);
	unit_on_cpu(1);
	stash(objects, 3);
	unit_on_cpu(0);
	unit_equal(kept(1), 3);
	for (unsigned i = 0; i < 8 && stash_count(&c->stashes[1]); i++) {
		pause_ms(20);
		pass(AGE_NS);
		wanted++;
		assert_true(unit_wait(looked, &wanted));
		pause_ms(20);
	}
	unit_equal(kept(1), 0);
	assert_true(wanted <= 5);
	wait_quiet();
	pause_ms(20);
	unit_equal(pcs_of(&c->slots, 1)->rcu.word, 0);
	check(20 - 13, 0);
	/* It sleeps until it is woken. */
	for (unsigned i = 0; i < 3; i++) {
		pause_ms(20);
		pass(AGE_NS);
	}
	pause_ms(50);
	wanted = plat_load(&looks);
	for (unsigned i = 0; i < 3; i++) {
		pass(AGE_NS);
		pause_ms(20);
	}
	unit_equal(plat_load(&looks), wanted);
	free_n(objects + 13, 7);
	destroy();
}

/* Even if another cache of the flavor gives it no rest. */
static void test_never_quiet(void **state)
{
	struct uslub_cache *idle, *busy;
	void *objects[20];

	(void)state;
	begin(4);
	alloc_n(objects, 20);
	unit_on_cpu(1);
	stash(objects, 3);
	unit_on_cpu(0);
	idle = c;
	begin(4);
	busy = c;
	for (unsigned i = 0; i < 2000 && stash_count(&idle->stashes[1]); i++) {
		uslub_cache_free_rcu(busy, uslub_cache_alloc(busy, 0));
		if (i % 10 == 9) {
			pass(AGE_NS / 3);
			wait_quiet();
		}
	}
	unit_equal(stash_count(&idle->stashes[1]), 0);
	uslub_cache_barrier_rcu(busy);
	check(0, 0);
	c = idle;
	uslub_cache_barrier_rcu(idle);
	check(20 - 13, 0);
}

/* ---- all of it ------------------------------------------------------------------------------------ */

static void test_shrink(void **state)
{
	void *objects[37];

	(void)state;
	begin(16);
	alloc_n(objects, 20);
	for (int cpu = 0; cpu < 2; cpu++) {
		if (unit_mode() == UNIT_FAKED)
			unit_on_cpu(cpu);
		stash(objects + 9 * cpu, 2);
	}
	unit_equal(S(stashed), 4);
	free_n(objects + 18, 2);
	unit_equal(uslub_cache_shrink(c), 0);
	wait_quiet();
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(S(stashed), 0);
	unit_equal(S(stash_trim), 4);
	unit_equal(S(objects), 0);
	unit_equal(S(slabs), 0);
	unit_equal(S(sheaf_alloc), S(sheaf_free));
	check(0, 0);
	destroy();
}

/* What was deferred before is free after it, be it stashed. */
static void test_barrier(void **state)
{
	void *objects[20];

	(void)state;
	begin(16);
	alloc_n(objects, 20);
	free_rcu_n(objects, 18);
	uslub_cache_barrier_rcu(c);
	unit_equal(S(rcu_pending), 0);
	unit_equal(S(stashed), 4);
	/* the part-full one went to the slabs */
	unit_equal(S(sheaf_flush), 2);
	check(2, 0);
	unit_equal(uslub_cache_destroy(c), -EBUSY);
	unit_equal(S(stashed), 0);
	check(2, 0);
	free_n(objects + 18, 2);
	destroy();
}

static void test_destroy(void **state)
{
	void *objects[20];

	(void)state;
	begin(16);
	alloc_n(objects, 20);
	stash(objects, 4);
	free_n(objects + 17, 3);
	destroy(); /* which fails if a sheaf or a slab is left */
}

/* ---- races ---------------------------------------------------------------------------------------- */

static struct uslub_sheaf *coming[3];

static void put_meanwhile(unsigned point)
{
	if (point != POINT_STASH_TAKEN)
		return;
	plat_inject_hook = NULL;
	for (unsigned i = 0; i < array_size(coming) && coming[i]; i++)
		assert_true(stash_put(c, coming[i]));
}

static struct uslub_sheaf *sheaf_of(void **objects)
{
	struct uslub_sheaf *s = sheaf_new(c, 0);

	memcpy(s->objects, objects, CAPACITY * sizeof(*objects));
	s->fill = CAPACITY;
	s->node = 0;
	s->slot = slot();
	return s;
}

/* While a stack is in hand others come: it goes on top of them as far as there is room, the newest first. */
static void try_put_back(unsigned flags, unsigned come, unsigned stay)
{
	void *objects[29];
	const struct uslub_sheaf *second, *s;
	struct uslub_sheaf *got;
	uint64_t barn;

	plat_store(&unseen, true);
	begin(4);
	alloc_n(objects, 29);
	stash(objects, 4);
	for (unsigned i = 0; i < come; i++)
		coming[i] = sheaf_of(objects + 17 + CAPACITY * i);
	second = stash_top(own())->next;
	barn = S(barn_lock);
	plat_inject_hook = put_meanwhile;
	got = stash_get(c, slot(), flags);
	assert_non_null(got);
	assert_null(plat_inject_hook);
	unit_equal(kept(slot()), come + stay);
	unit_equal(S(stash_trim), 3 - stay);
	/* some went to the barn, the next to the slabs */
	assert_true(S(barn_lock) > barn || stay == 3);
	s = stash_top(own());
	if (stay)
		assert_ptr_equal(s, second);
	for (unsigned i = 0; i < stay; i++)
		s = s->next;
	for (unsigned i = come; i--; s = s->next)
		assert_ptr_equal(s, coming[i]);
	sheaf_put_any(c, got);
	check(29 - 17 - CAPACITY * come, 0);
}

static void test_put_back_1(void **state)
{
	(void)state;
	try_put_back(0, 1, 3);
}

static void test_put_back_3(void **state)
{
	(void)state;
	try_put_back(USLUB_NOWAIT, 3, 1);
}

static void test_put_back_nolock(void **state)
{
	(void)state;
	try_put_back(USLUB_NOLOCK, 2, 2);
}

/* Threads of one CPU, and one that puts: nothing is lost, nothing is there twice. */
#define TURNS 20000

static struct uslub_sheaf *pool[64];
static bool stop;

static void pool_return(struct uslub_sheaf *s, unsigned at)
{
	struct uslub_sheaf *none = NULL;

	for (; !plat_cas(&pool[at % 64], &none, s); at++)
		none = NULL;
}

static void *put_sheaves(void *arg)
{
	struct uslub_sheaf *s;

	for (unsigned i = 0; !plat_load(&stop); i++) {
		s = plat_exchange(&pool[i % 64], NULL);
		if (s && !stash_put(c, s))
			pool_return(s, i);
	}
	return arg;
}

static void *get_sheaves(void *arg)
{
	struct uslub_sheaf *s;

	for (unsigned i = 0; i < unit_scaled(TURNS); i++) {
		s = stash_get(c, 0, i % 2 ? USLUB_NOWAIT : USLUB_NOLOCK);
		if (!s)
			continue;
		if (s->fill != CAPACITY || plat_exchange(&s->capacity, 0) != CAPACITY) {
			fprintf(stderr, "a sheaf was taken twice\n");
			abort();
		}
		plat_store(&s->capacity, CAPACITY);
		pool_return(s, i);
	}
	return arg;
}

static void test_threads(void **state)
{
	pthread_t threads[4];
	void *objects[129];
	unsigned n = 0;

	(void)state;
	begin(24);
	alloc_n(objects, 129);
	for (unsigned i = 0; i < 32; i++) {
		pool[i] = sheaf_new(c, 0);
		pool[i]->fill = CAPACITY;
		memcpy(pool[i]->objects, objects + i * CAPACITY, CAPACITY * sizeof(*objects));
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, i ? get_sheaves : put_sheaves, NULL), 0);
	for (unsigned i = 0; i < unit_scaled(10000); i++)
		assert_true(stash_count(&c->stashes[0]) <= 24);
	for (unsigned i = 1; i < 4; i++)
		pthread_join(threads[i], NULL);
	plat_store(&stop, true);
	pthread_join(threads[0], NULL);
	for (unsigned i = 0; i < 64; i++) {
		if (!pool[i])
			continue;
		n++;
		sheaf_put_any(c, pool[i]);
	}
	/* The rest was released where it found no room: into slabs and the barn. */
	unit_equal(n + kept(0) + S(stash_trim), 32);
	check(1, 0);
	uslub_cache_free(c, objects[128]);
	unit_equal(uslub_cache_shrink(c), 0);
	check(0, 0);
	destroy();
}

/* ---- fork ----------------------------------------------------------------------------------------- */

static void in_child(void *arg)
{
	void **objects = arg;

	unit_equal(S(stashed), 3);
	alloc_n(objects, 4);
	unit_equal(S(stash_get), 1);
	unit_equal(kept(slot()), 2);
	free_rcu_n(objects, 4);
	uslub_cache_barrier_rcu(c);
	check(20 - 13, 0);
	free_n(objects + 13, 7);
	destroy();
	unit_exit(42);
}

static void test_fork(void **state)
{
	void *objects[20];
	char text[2000];
	int status;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	if (unit_sanitized())
		unit_skip("children with threads");
	begin(16);
	alloc_n(objects, 20);
	stash(objects, 3);
	status = unit_child(in_child, objects, text, sizeof(text), 60);
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
	check(20 - 13, 0);
}

/* ---- all at once ---------------------------------------------------------------------------------- */

static void *live[400];
static unsigned nlive;

static void random_step(void)
{
	unsigned at;
	struct uslub_sheaf *s;

	if (unit_mode() == UNIT_FAKED)
		unit_on_cpu((int)unit_below(4));
	switch (unit_below(8)) {
	case 0:
		pass(unit_below(3) * TRIM_NS);
		uslub_cache_barrier_rcu(c);
		break;
	case 1:
		if (nlive > array_size(live) - 8)
			break;
		s = prefill(unit_below(2) ? USLUB_NOWAIT : 0, 1 + unit_below(4));
		draw(s, live + nlive, 1);
		nlive++;
		uslub_cache_return_sheaf(c, 0, s);
		break;
	case 2:
	case 3:
	case 4:
		for (unsigned i = unit_below(30); i && nlive; i--) {
			at = unit_below(nlive);
			uslub_cache_free_rcu(c, live[at]);
			live[at] = live[--nlive];
		}
		break;
	case 5:
		at = unit_below(30);
		if (nlive + at > array_size(live) - 8)
			break;
		unit_equal(uslub_cache_alloc_bulk(c, 0, at, live + nlive), 0);
		nlive += at;
		break;
	default:
		if (nlive < array_size(live) - 8)
			live[nlive++] = alloc();
	}
}

static void random_history(unsigned limit)
{
	plat_store(&unseen, true);
	begin(limit);
	for (unsigned i = 0; i < unit_scaled(2000); i++) {
		random_step();
		for (unsigned cpu = 0; cpu < c->nslots; cpu++)
			assert_true(stash_count(&c->stashes[cpu]) <= limit);
		if (i % 50 == 49) {
			uslub_cache_barrier_rcu(c);
			check(nlive, 0);
		}
		for (unsigned k = 0; k < nlive; k++)
			memset(live[k], 0x5a, uslub_cache_object_size(c));
	}
	free_rcu_n(live, nlive);
	uslub_cache_barrier_rcu(c);
	check(0, 0);
	assert_true(S(stash_put) > 0 && S(stash_get) > 0);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(S(slabs), 0);
	destroy();
}

static void test_random_1(void **state)
{
	(void)state;
	random_history(1);
}

static void test_random_5(void **state)
{
	(void)state;
	random_history(5);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_policy, UNIT_SHARED),
		UNIT_TEST(test_none, UNIT_BOTH),
		UNIT_TEST(test_limit, UNIT_BOTH),
		UNIT_TEST(test_alloc, UNIT_BOTH),
		UNIT_TEST(test_prefill, UNIT_BOTH),
		UNIT_TEST(test_prefill_nowait, UNIT_BOTH),
		UNIT_TEST(test_prefill_nolock, UNIT_BOTH),
		UNIT_TEST(test_prefill_short, UNIT_BOTH),
		UNIT_TEST(test_borrow_and_oversize, UNIT_BOTH),
		UNIT_TEST(test_bulk, UNIT_BOTH),
		UNIT_TEST(test_cpus, UNIT_FAKED),
		UNIT_TEST(test_foreign, UNIT_FAKED),
		UNIT_TEST(test_nodes, UNIT_FAKED),
		UNIT_TEST(test_trim, UNIT_BOTH),
		UNIT_TEST(test_trim_low, UNIT_BOTH),
		UNIT_TEST(test_trim_flags, UNIT_BOTH),
		UNIT_TEST(test_look, UNIT_FAKED),
		UNIT_TEST(test_reclaimer_looks, UNIT_FAKED),
		UNIT_TEST(test_never_quiet, UNIT_FAKED),
		UNIT_TEST(test_shrink, UNIT_BOTH),
		UNIT_TEST(test_barrier, UNIT_BOTH),
		UNIT_TEST(test_destroy, UNIT_BOTH),
		UNIT_TEST(test_put_back_1, UNIT_BOTH),
		UNIT_TEST(test_put_back_3, UNIT_BOTH),
		UNIT_TEST(test_put_back_nolock, UNIT_BOTH),
		UNIT_TEST(test_threads, UNIT_REAL),
		UNIT_TEST(test_fork, UNIT_BOTH),
		UNIT_TEST(test_random_1, UNIT_BOTH),
		UNIT_TEST(test_random_5, UNIT_BOTH),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
