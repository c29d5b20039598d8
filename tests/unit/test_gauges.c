/* SPDX-License-Identifier: MIT */
/*
 * The gauges, which are sums of what was counted when objects moved, against a walk over all slabs that
 * there are: after random histories, with each way to count, with and without parking, with and without
 * sheaves, on one node and on two. Then what a reading costs others, and how locks are accounted for.
 */
#include <time.h>
#include <unistd.h>
#include <urcu/flavor.h>

#include "nodes.h"
#include "cache/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

/* ---- time ----------------------------------------------------------------------------------------- */

/*
 * For the test's own thread it passes as the test says, so that stashes get old; for the reclaimer it stands,
 * which never comes to look at them: what is compared would change meanwhile.
 */
uint64_t __real_plat_now(void);
uint64_t __wrap_plat_now(void);
void __real_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);
void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);

#define AGE_NS 500000000 /* between two looks of the reclaimer */

static __thread uint64_t time_passed;

uint64_t __wrap_plat_now(void)
{
	return 1000000000000 + time_passed;
}

void __wrap_plat_wait(uint32_t *word, uint32_t value, uint64_t timeout)
{
	__real_plat_wait(word, value, timeout == AGE_NS ? 0 : timeout);
}

/* ---- a walk over all slabs ------------------------------------------------------------------------ */

#define SEEN 8192 /* a hash table */

static const struct slab *seen[SEEN];

static struct truth {
	uint64_t slabs, total_objects;
	uint64_t partial, listed_objects, listed_free;
	uint64_t parked, parked_free;
} truth;

static void see(const struct slab *slab)
{
	size_t at = ((uintptr_t)slab / sizeof(*slab)) * 0x9e3779b97f4a7c15u >> 51;

	for (; seen[at % SEEN]; at++)
		if (seen[at % SEEN] == slab)
			return;
	seen[at % SEEN] = slab;
	truth.slabs++;
	truth.total_objects += slab->objects;
	switch (state_where(slab->state)) {
	case SLAB_LISTED:
		truth.partial++;
		truth.listed_objects += slab->objects;
		truth.listed_free += free_in(slab);
		break;
	case SLAB_PARKED:
		truth.parked++;
		truth.parked_free += free_in(slab);
		break;
	default:
		unit_equal(free_in(slab), 0);
	}
}

static void see_objects(const struct uslub_cache *c, void *const *objects, unsigned n)
{
	while (n--)
		see(slab_of(&c->class, objects[n]));
}

static void see_sheaves(const struct uslub_cache *c, const struct uslub_sheaf *s, bool all)
{
	for (; s; s = all ? s->next : NULL)
		see_objects(c, s->objects, s->fill);
}

static void see_slot(const struct uslub_cache *c, const struct percpu_slot *slot)
{
	const struct uslub_sheaf *main = slot->sheaf[word_which(slot->word)];

	if (main)
		see_objects(c, main->objects, word_avail(slot->word));
	see_sheaves(c, slot->sheaf[!word_which(slot->word)], false);
}

/* Every slab is on a list or a stack, or has an object in a sheaf or in our hands. */
static void find_truth(const struct uslub_cache *c, void *const *held, unsigned n)
{
	const struct slab *slab;

	memset(seen, 0, sizeof(seen));
	truth = (struct truth){ 0 };
	see_objects(c, held, n);
	for (unsigned slot = 0; slot < c->nslots; slot++) {
		see_slot(c, &pcs_of(&c->slots, slot)->main);
		see_slot(c, &pcs_of(&c->slots, slot)->rcu);
		if (c->stashes)
			see_sheaves(c, stash_top(&c->stashes[slot]), true);
	}
	for (unsigned k = 0; k < plat_nnodes(); k++) {
		see_sheaves(c, c->barns[k].full, true);
		see_sheaves(c, c->barns[k].partial, false);
		list_for_each_entry(slab, &c->nodes[k].partial, link)
			see(slab);
		for (unsigned i = 0; i < c->nodes[k].park.nshards; i++) {
			for (slab = c->nodes[k].park.shards[i].young; slab; slab = slab->next)
				see(slab);
			for (slab = c->nodes[k].park.shards[i].old; slab; slab = slab->next)
				see(slab);
		}
	}
}

static void check_gauges(struct uslub_cache *c, void *const *held, unsigned n)
{
	find_truth(c, held, n);
	unit_equal(stat_of(c, parked), truth.parked);
	unit_equal(stat_of(c, slabs), truth.slabs);
	unit_equal(stat_of(c, total_objects), truth.total_objects);
	unit_equal(stat_of(c, partial), truth.partial);
	unit_equal(stat_of(c, objects),
		   truth.total_objects - truth.listed_free - truth.parked_free);
	if (c->policy.partial_count == USLUB_POLICY_SCAN)
		find_truth(c, held, n); /* the reading listed what was parked */
	unit_equal(stat_of(c, objects_partial), truth.listed_objects - truth.listed_free);
	unit_equal(stat_of(c, partial), truth.partial);
	unit_equal(stat_of(c, parked), truth.parked);
}

/* ---- histories ------------------------------------------------------------------------------------ */

#define HELD 600

static struct uslub_cache *c;
static void *held[HELD];
static unsigned nheld;
static uint64_t failed; /* calls for one object */
static uint64_t deferred;

static void move(void)
{
	if (unit_mode() == UNIT_FAKED)
		unit_on_cpu((int)unit_below(4));
}

static void keep(void *object)
{
	assert_true(nheld < HELD);
	memset(object, 0x55, uslub_cache_object_size(c));
	held[nheld++] = object;
}

static void *let_go(void)
{
	unsigned i = unit_below(nheld);
	void *object = held[i];

	held[i] = held[--nheld];
	return object;
}

static unsigned some_flags(void)
{
	static const unsigned flags[] = { 0, 0, USLUB_NOWAIT, USLUB_NOLOCK };

	return flags[unit_below(array_size(flags))];
}

static void one(unsigned flags)
{
	int node = (int)unit_below(plat_nnodes() + 1) - 1;
	void *object = flags & USLUB_NOLOCK ? uslub_cache_alloc(c, flags)
					    : uslub_cache_alloc_node(c, flags, node);

	if (object)
		keep(object);
	else
		failed++;
}

static void bulk(void)
{
	unsigned n = 1 + unit_below(40);
	void *objects[40];

	if (!uslub_cache_alloc_bulk(c, some_flags(), n, objects))
		while (n--)
			keep(objects[n]);
}

static void bulk_free(void)
{
	unsigned n = 1 + unit_below(min(nheld, 40u));
	void *objects[40];

	for (unsigned i = 0; i < n; i++)
		objects[i] = let_go();
	uslub_cache_free_bulk(c, n, objects);
}

static void prefill(void)
{
	unsigned n = 1 + unit_below(12), k = unit_below(n + 1);
	struct uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, n);

	assert_non_null(sheaf);
	while (k--)
		keep(uslub_cache_alloc_from_sheaf(c, 0, sheaf));
	move();
	uslub_cache_return_sheaf(c, 0, sheaf);
}

/* Any-context calls while list_lock is another's: what needs it waits on the deferred stack. */
static void nolock_meanwhile(void)
{
	struct holder h;

	holder_begin(&h, &c->nodes[unit_below(plat_nnodes())]);
	for (unsigned i = 0; i < 20 && nheld; i++) {
		move();
		uslub_cache_free_nolock(c, let_go());
		if (!unit_below(4))
			one(USLUB_NOLOCK);
	}
	holder_end(&h);
}

static void step(unsigned most)
{
	bool grow = nheld < unit_below(most);

	time_passed += unit_below(5) * 1000000;
	move();
	switch (unit_below(16)) {
	case 0 ... 4:
		for (unsigned k = unit_below(12); k--;)
			if (grow)
				one(some_flags());
			else if (nheld)
				uslub_cache_free(c, let_go());
		break;
	case 5 ... 6:
		if (grow)
			bulk();
		else if (nheld)
			bulk_free();
		break;
	case 7 ... 9:
		for (unsigned k = unit_below(30); k-- && nheld;)
			uslub_cache_free_nolock(c, let_go());
		break;
	case 10 ... 11:
		for (unsigned k = unit_below(8); k-- && nheld;)
			uslub_cache_free_rcu(c, let_go());
		break;
	case 12 ... 13:
		if (grow)
			prefill();
		break;
	case 14:
		if (!unit_below(6))
			nolock_meanwhile();
		break;
	default:
		if (!unit_below(8))
			unit_equal(uslub_cache_shrink(c), 0);
	}
}

static void history(unsigned counting, unsigned parking, uint64_t capacity, uint64_t stash)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.min_partial = 2,
		.rcu = &urcu_memb_flavor,
		.policy = {
			.partial_count = counting,
			.parking = parking,
			.park_limit = 3,
			.sheaf_capacity = capacity,
			.rcu_stash = stash,
			.barn_full = 2,
			.barn_empty = 2,
			.slab_min_objects = 16,
		},
	};

	c = uslub_cache_create("counted", plat_page_size() / 16, &args);
	assert_non_null(c);
	nheld = 0;
	failed = 0;
	for (unsigned batch = 0; batch < unit_scaled(60); batch++) {
		for (unsigned i = 0; i < 60; i++)
			step(batch / 10 % 2 ? 60 : HELD - 60);
		uslub_cache_barrier_rcu(c);
		nodes_deferred(c->nodes);
		check_gauges(c, held, nheld);
		unit_check_cache(c, nheld, 0, failed);
	}
	while (nheld)
		uslub_cache_free(c, let_go());
	uslub_cache_barrier_rcu(c);
	check_gauges(c, held, 0);
	unit_check_cache(c, 0, 0, failed);
	assert_true(unit_slow() || (stat_of(c, park) > 0) == (parking == USLUB_POLICY_ON));
	assert_true(unit_slow() || (stat_of(c, stash_get) > 0) == (stash > 0));
	assert_true(unit_slow() || (stat_of(c, stash_trim) > 0) == (stash > 0));
	deferred += stat_of(c, deferred_free);
	unit_equal(uslub_cache_shrink(c), 0);
	uslub_cache_barrier_rcu(c);
	unit_equal(uslub_cache_shrink(c), 0);
	check_gauges(c, held, 0);
	unit_equal(stat_of(c, slabs), 0);
	unit_equal(stat_of(c, objects), 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void histories(unsigned counting)
{
	for (unsigned i = 0; i < 6; i++)
		history(counting, i & 1 ? USLUB_POLICY_ON : USLUB_POLICY_OFF,
			i < 2 ? USLUB_POLICY_NONE : 5, i < 4 ? 0 : i * i - 13);
	assert_true(unit_slow() || deferred > 0);
}

static void two_nodes(void)
{
	static const char *const cpus[] = { "0-1", "2-3" };

	unit_machine("0-3", NULL, cpus, 2);
}

static void test_percpu(void **state)
{
	(void)state;
	histories(USLUB_POLICY_PERCPU);
}

static void test_percpu_two_nodes(void **state)
{
	(void)state;
	two_nodes();
	histories(USLUB_POLICY_PERCPU);
}

static void test_atomic(void **state)
{
	(void)state;
	histories(USLUB_POLICY_ATOMIC);
}

static void test_atomic_two_nodes(void **state)
{
	(void)state;
	two_nodes();
	histories(USLUB_POLICY_ATOMIC);
}

static void test_scan(void **state)
{
	(void)state;
	histories(USLUB_POLICY_SCAN);
}

static void test_scan_two_nodes(void **state)
{
	(void)state;
	two_nodes();
	histories(USLUB_POLICY_SCAN);
}

/* ---- slabs of different sizes --------------------------------------------------------------------- */

static struct page *pages[2048];

/* Single pages are all that is left of node 0's memory: `single` of them. */
static void only_pages(unsigned single)
{
	unsigned n = 0;

	while (n < array_size(pages) && (pages[n] = supply_alloc(0, 0, n ? SUPPLY_NOWAIT : 0)))
		n++;
	assert_true(n > 2 * single && n < array_size(pages));
	for (unsigned i = 0; i < single; i++)
		supply_free(pages[2 * i + 1]);
	assert_null(supply_alloc(1, 0, SUPPLY_NOWAIT));
}

static void mixed(enum node_counting counting, bool parking)
{
	void *objects[OBJECTS_MAX], *got[OBJECTS_MAX];
	unsigned n = 0;

	nodes_like.counting = counting;
	nodes_like.nshards = parking ? 2 : 0;
	nodes_like.park_limit = 2;
	begin(plat_page_size() / 6, 20, 2);
	assert_true(class.order > class.min_order && class.objects > class.min_objects);
	n = nodes_refill(nodes, 0, objects, 3 * class.objects, 0);
	unit_equal(n, 3 * class.objects);
	only_pages(12);
	n += nodes_refill(nodes, 0, objects + n, 9 * class.min_objects + 1, NODE_NOWAIT);
	unit_equal(nodes[0].nr_slabs, 13);
	unit_equal(n, nodes[0].total_objects - class.min_objects + 1);
	unit_equal(counters_sum(&class.counters, CTR_order_fallback), 10);
	for (unsigned round = 0; round < 400; round++) {
		unsigned k = 1 + unit_below(20), more = 0;

		unit_on_cpu((int)unit_below(4));
		if (round % 40 < 20 && n >= k) {
			for (unsigned i = 0; i < k; i++) {
				unsigned at = unit_below(n);

				got[i] = objects[at];
				objects[at] = objects[--n];
			}
			nodes_flush(nodes, got, k, unit_below(3) ? 0 : ANY);
		} else if (n + k < OBJECTS_MAX) {
			if (unit_below(4))
				more = nodes_refill(nodes, 0, objects + n, k, NODE_NOWAIT);
			else
				more = (objects[n] = nodes_alloc(nodes, 0, ANY)) != NULL;
		}
		n += more;
		unit_check_node(&nodes[0]);
		if (round % 97 == 96)
			node_shrink(&nodes[0]);
		unit_check_node(&nodes[0]);
	}
	nodes_flush(nodes, objects, n, 0);
	unit_check_node(&nodes[0]);
	unit_equal(node_shrink(&nodes[0]), 0);
	unit_check_node(&nodes[0]);
	unit_equal(nodes[0].total_objects, 0);
}

static void test_mixed_percpu(void **state)
{
	(void)state;
	mixed(NODE_COUNT_PERCPU, false);
}

static void test_mixed_percpu_parked(void **state)
{
	(void)state;
	mixed(NODE_COUNT_PERCPU, true);
}

static void test_mixed_atomic(void **state)
{
	(void)state;
	mixed(NODE_COUNT_ATOMIC, false);
}

static void test_mixed_atomic_parked(void **state)
{
	(void)state;
	mixed(NODE_COUNT_ATOMIC, true);
}

static void test_mixed_scan(void **state)
{
	(void)state;
	mixed(NODE_COUNT_SCAN, false);
}

static void test_mixed_scan_parked(void **state)
{
	(void)state;
	mixed(NODE_COUNT_SCAN, true);
}

/* ---- reading -------------------------------------------------------------------------------------- */

static void read_all(void)
{
	uint64_t value;

	for (int i = 0; i < USLUB_STAT_COUNT; i++)
		unit_equal(uslub_cache_stat(c, i, &value), 0);
}

static void cache_of(unsigned counting)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.policy = { .partial_count = counting,
			    .parking = USLUB_POLICY_ON,
			    .sheaf_capacity = USLUB_POLICY_NONE },
	};
	void *objects[200];

	c = uslub_cache_create("read", 100, &args);
	assert_non_null(c);
	for (unsigned i = 0; i < 200; i++)
		assert_non_null(objects[i] = uslub_cache_alloc(c, 0));
	for (unsigned i = 0; i < 200; i += 3)
		uslub_cache_free(c, objects[i]);
	assert_true(stat_of(c, park) > 0);
}

/* Two ways to count take no lock to read, and find the same while somebody has it. */
static void read_without_lock(unsigned counting)
{
	uint64_t objects, in_partial, taken;
	struct holder h;

	alarm(40);
	cache_of(counting);
	objects = stat_of(c, objects);
	in_partial = stat_of(c, objects_partial);
	taken = stat_of(c, list_lock_other);
	holder_begin(&h, &c->nodes[0]);
	read_all();
	unit_equal(stat_of(c, objects), objects);
	unit_equal(stat_of(c, objects_partial), in_partial);
	holder_end(&h);
	unit_equal(objects, 200 - 67);
	unit_equal(stat_of(c, list_lock_other), taken);
	unit_equal(stat_of(c, list_lock_contended), 0);
	unit_equal(stat_of(c, unpark_list), 0);
	assert_true(stat_of(c, parked) > 0);
}

static void test_read_percpu(void **state)
{
	(void)state;
	read_without_lock(USLUB_POLICY_PERCPU);
}

static void test_read_atomic(void **state)
{
	(void)state;
	read_without_lock(USLUB_POLICY_ATOMIC);
}

/* And one takes it each time. */
static void test_read_scan(void **state)
{
	uint64_t taken;

	(void)state;
	cache_of(USLUB_POLICY_SCAN);
	unit_equal(stat_of(c, list_lock_other), 0);
	unit_equal(stat_of(c, objects), 200 - 67);
	unit_equal(stat_of(c, parked), 0);
	taken = stat_of(c, list_lock_other);
	unit_equal(taken, 1);
	unit_equal(stat_of(c, objects_partial),
		   stat_of(c, objects) - (200 - 67) + stat_of(c, objects_partial));
	unit_equal(stat_of(c, list_lock_other), taken + 3);
}

/* While somebody changes things, a reading may be off, but never out of bounds. */
static void test_clamped(void **state)
{
	struct node_gauges g;
	uint64_t *word;

	(void)state;
	nodes_like.nshards = 4;
	nodes_like.park_limit = 64;
	begin_small(5);
	take_slabs(2);
	put(0, 0, 3);
	/* more free than there is, and less than nothing */
	word = counter_word(&class.counters, 0, counter_of_node(0, NODE_FREE_PARKED));
	*word += 1000;
	node_gauges(&nodes[0], &g);
	unit_equal(g.objects, 0);
	*word -= 2000;
	node_gauges(&nodes[0], &g);
	unit_equal(g.objects, 32);
	word = counter_word(&class.counters, 0, counter_of_node(0, NODE_FREE_LISTED));
	*word -= 1;
	node_gauges(&nodes[0], &g);
	unit_equal(g.objects_partial, 0);
}

/* ---- accounting for locks ------------------------------------------------------------------------- */

#define MS 1000000u

static struct counted_lock lock;

static void *hold_for(void *arg)
{
	pthread_barrier_t *barrier = arg;
	struct timespec some = { .tv_nsec = 60 * MS };

	counted_lock(&lock, LOCK_FREE);
	pthread_barrier_wait(barrier);
	nanosleep(&some, NULL);
	counted_unlock(&lock);
	return NULL;
}

static void check_lock(uint64_t alloc, uint64_t for_free, uint64_t other, uint64_t contended)
{
	unit_equal(lock.taken[LOCK_ALLOC], alloc);
	unit_equal(lock.taken[LOCK_FREE], for_free);
	unit_equal(lock.taken[LOCK_OTHER], other);
	unit_equal(lock.contended, contended);
}

static void test_lock_counts(void **state)
{
	(void)state;
	counted_lock_init(&lock, RANK_LIST);
	check_lock(0, 0, 0, 0);
	for (unsigned i = 0; i < 6; i++) {
		if (i % 2)
			assert_true(counted_trylock(&lock, i / 2));
		else
			counted_lock(&lock, i / 2);
		if (i == 5) { /* a failed attempt is none */
			assert_false(counted_trylock(&lock, LOCK_ALLOC));
			assert_false(counted_trylock(&lock, LOCK_OTHER));
		}
		counted_unlock(&lock);
	}
	counted_lock(&lock, LOCK_FREE);
	counted_unlock(&lock);
	check_lock(2, 3, 2, 0);
	unit_equal(lock.waited, 0);
}

/* Who waits, waits for as long as the other one sleeps, from when he was seen to have it. */
static void test_lock_waits(void **state)
{
	pthread_barrier_t barrier;
	pthread_t thread;
	uint64_t began, ended;

	(void)state;
	counted_lock_init(&lock, RANK_LIST);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, hold_for, &barrier), 0);
	pthread_barrier_wait(&barrier);
	assert_false(counted_trylock(&lock, LOCK_ALLOC));
	began = plat_clock();
	counted_lock(&lock, LOCK_ALLOC);
	ended = plat_clock();
	counted_unlock(&lock);
	pthread_join(thread, NULL);
	if (ended - began < 5 * MS)
		unit_skip("the machine was busy all the time");
	check_lock(1, 1, 0, 1);
	assert_true(lock.waited <= ended - began);
	assert_true(lock.waited + 5 * MS >= ended - began);
}

static void *hold_locks(void *arg)
{
	struct timespec some = { .tv_nsec = 60 * MS };

	plat_lock(&c->barns[0].lock.lock);
	plat_lock(&c->nodes[0].list_lock.lock);
	pthread_barrier_wait(arg);
	nanosleep(&some, NULL);
	plat_unlock(&c->nodes[0].list_lock.lock);
	plat_unlock(&c->barns[0].lock.lock);
	return NULL;
}

/* What the statistics of a cache make of that; any-context calls that find it taken add nothing. */
static void test_lock_statistics(void **state)
{
	pthread_barrier_t barrier;
	uint64_t alloc, for_free, other;
	pthread_t thread;
	void *objects[64];

	(void)state;
	c = uslub_cache_create(
		"locked", plat_page_size() / 16,
		&(struct uslub_cache_args){ .args_size = sizeof(struct uslub_cache_args),
					    .policy = { .sheaf_capacity = USLUB_POLICY_NONE,
							.parking = USLUB_POLICY_OFF,
							.partial_count = USLUB_POLICY_PERCPU,
							.slab_min_objects = 16 } });
	assert_non_null(c);
	for (unsigned i = 0; i < 48; i++)
		assert_non_null(objects[i] = uslub_cache_alloc(c, 0));
	/* one for each object of the list, one for each new slab, whose first object comes with it */
	unit_equal(stat_of(c, list_lock_alloc), 48);
	unit_equal(stat_of(c, list_lock_free), 0);
	uslub_cache_free(c, objects[0]);
	uslub_cache_free(c, objects[1]);
	unit_equal(stat_of(c, list_lock_free), 1);
	unit_equal(stat_of(c, list_lock_other), 0);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, list_lock_other), 1);
	unit_equal(stat_of(c, list_lock_contended), 0);
	unit_equal(stat_of(c, list_lock_wait_ns), 0);
	unit_equal(stat_of(c, barn_lock_contended), 0);

	alloc = stat_of(c, list_lock_alloc);
	for_free = stat_of(c, list_lock_free);
	other = stat_of(c, list_lock_other);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, hold_locks, &barrier), 0);
	pthread_barrier_wait(&barrier);
	if (!plat_load(&c->nodes[0].list_lock.lock.word))
		unit_skip("the machine was busy all the time");
	uslub_cache_free_nolock(c, objects[16]);
	assert_null(uslub_cache_alloc(c, USLUB_NOLOCK));
	unit_equal(stat_of(c, deferred_free), 1);
	unit_equal(stat_of(c, list_lock_alloc), alloc);
	unit_equal(stat_of(c, list_lock_free), for_free);
	uslub_cache_free(c, objects[32]);
	pthread_join(thread, NULL);
	unit_equal(stat_of(c, list_lock_free), for_free + 1);
	unit_equal(stat_of(c, list_lock_other), other);
	unit_equal(stat_of(c, list_lock_contended), 1);
	assert_true(stat_of(c, list_lock_wait_ns) > 0);
}

/* The same for barns: one for each visit. */
static void test_barn_lock_statistics(void **state)
{
	pthread_barrier_t barrier;
	uint64_t taken;
	pthread_t thread;
	void *objects[64];

	(void)state;
	c = uslub_cache_create(
		"barn", 100,
		&(struct uslub_cache_args){ .args_size = sizeof(struct uslub_cache_args),
					    .policy = { .sheaf_capacity = 4, .barn_full = 4 } });
	assert_non_null(c);
	for (unsigned i = 0; i < 64; i++)
		assert_non_null(objects[i] = uslub_cache_alloc(c, 0));
	for (unsigned i = 0; i < 64; i++)
		uslub_cache_free(c, objects[i]);
	taken = stat_of(c, barn_lock);
	assert_true(taken >= stat_of(c, barn_put));
	for (unsigned i = 0; i < 8; i++) /* main and the spare; the barn is not asked */
		assert_non_null(objects[i] = uslub_cache_alloc(c, 0));
	unit_equal(stat_of(c, barn_lock), taken);
	unit_equal(stat_of(c, barn_lock_contended), 0);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, hold_locks, &barrier), 0);
	pthread_barrier_wait(&barrier);
	if (!plat_load(&c->barns[0].lock.lock.word))
		unit_skip("the machine was busy all the time");
	assert_non_null(uslub_cache_alloc(c, 0));
	pthread_join(thread, NULL);
	unit_equal(stat_of(c, barn_lock), taken + 1);
	unit_equal(stat_of(c, barn_lock_contended), 1);
	assert_true(stat_of(c, barn_lock_wait_ns) > 0);
}

/* ---- threads -------------------------------------------------------------------------------------- */

static bool stop;
static uint32_t out_of_bounds;

static void *hustle(void *arg)
{
	uint64_t x = (uintptr_t)arg * 77777;
	void *mine[64], *objects[20];
	unsigned n = 0, k;

	for (unsigned i = 0; i < unit_scaled(20000); i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		k = 1 + (x >> 40) % 20;
		if (n + k <= array_size(mine) && x >> 63) {
			n += nodes_refill(nodes, 0, mine + n, k, x >> 61 & 1 ? 0 : ANY);
		} else if (n) {
			k = min(k, n);
			for (unsigned j = 0; j < k; j++)
				objects[j] = mine[--n];
			nodes_flush(nodes, objects, k, x >> 62 & 1 ? ANY : 0);
		}
	}
	nodes_flush(nodes, mine, n, 0);
	return NULL;
}

static void *look(void *arg)
{
	struct node_gauges g;

	while (!plat_load(&stop)) {
		node_gauges(&nodes[0], &g);
		if (g.objects > g.total_objects || g.total_objects > 16 * 1000)
			plat_fetch_add(&out_of_bounds, 1);
		if ((uintptr_t)arg)
			node_shrink(&nodes[0]);
	}
	return NULL;
}

static void threads(enum node_counting counting)
{
	pthread_t workers[4], others[2];
	const struct counters *all = &class.counters;

	nodes_like.counting = counting;
	nodes_like.nshards = 2;
	nodes_like.park_limit = 3;
	begin_small(2);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&others[i], NULL, look, (void *)i), 0);
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&workers[i], NULL, hustle, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(workers[i], NULL);
	plat_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(others[i], NULL);
	unit_equal(out_of_bounds, 0);
	nodes_deferred(nodes);
	unit_check_node(&nodes[0]);
	unit_equal(counters_sum(all, CTR_park),
		   counters_sum(all, CTR_unpark_refill) + counters_sum(all, CTR_unpark_list) +
			   counters_sum(all, CTR_unpark_discard) + park_count(&nodes[0].park));
	unit_equal(node_shrink(&nodes[0]), 0);
	unit_check_node(&nodes[0]);
	unit_equal(nodes[0].total_objects, 0);
}

static void test_threads_percpu(void **state)
{
	(void)state;
	threads(NODE_COUNT_PERCPU);
}

static void test_threads_atomic(void **state)
{
	(void)state;
	threads(NODE_COUNT_ATOMIC);
}

static void test_threads_scan(void **state)
{
	(void)state;
	threads(NODE_COUNT_SCAN);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_percpu, UNIT_BOTH),
		UNIT_TEST(test_percpu_two_nodes, UNIT_BOTH),
		UNIT_TEST(test_atomic, UNIT_BOTH),
		UNIT_TEST(test_atomic_two_nodes, UNIT_BOTH),
		UNIT_TEST(test_scan, UNIT_BOTH),
		UNIT_TEST(test_scan_two_nodes, UNIT_BOTH),
		UNIT_TEST(test_mixed_percpu, UNIT_FAKED),
		UNIT_TEST(test_mixed_percpu_parked, UNIT_FAKED),
		UNIT_TEST(test_mixed_atomic, UNIT_FAKED),
		UNIT_TEST(test_mixed_atomic_parked, UNIT_FAKED),
		UNIT_TEST(test_mixed_scan, UNIT_FAKED),
		UNIT_TEST(test_mixed_scan_parked, UNIT_FAKED),
		UNIT_TEST(test_read_percpu, UNIT_BOTH),
		UNIT_TEST(test_read_atomic, UNIT_BOTH),
		UNIT_TEST(test_read_scan, UNIT_BOTH),
		UNIT_TEST(test_clamped, UNIT_FAKED),
		UNIT_TEST(test_lock_counts, UNIT_FAKED),
		UNIT_TEST(test_lock_waits, UNIT_BOTH),
		UNIT_TEST(test_lock_statistics, UNIT_BOTH),
		UNIT_TEST(test_barn_lock_statistics, UNIT_FAKED),
		UNIT_TEST(test_threads_percpu, UNIT_REAL),
		UNIT_TEST(test_threads_atomic, UNIT_REAL),
		UNIT_TEST(test_threads_scan, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
