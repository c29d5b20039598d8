/* SPDX-License-Identifier: MIT */
/*
 * Parking: the stacks by themselves, then what frees, refills and others make of parked slabs: who takes
 * list_lock and who must not, where a slab lies afterwards, and what is counted. Then those who meet at a
 * slab: whatever they do, it is published once.
 */
#include <time.h>
#include <unistd.h>

#include "nodes.h"
#include "cache/internal.h"

#define NSHARDS 4

static void check_shard_at(unsigned cpu, const int *old, const int *young, int line)
{
	const struct park_shard *s = park_shard(&nodes[0].park, cpu);

	check_stack_at(s->old, old, __FILE__, line);
	check_stack_at(s->young, young, __FILE__, line);
}

#define LIST(...) ((const int[]){ __VA_ARGS__, -1 })
#define NONE	  ((const int[]){ -1 })
/* Of a CPU's shard: what is to be taken next, oldest first, and what has been pushed, newest first. */
#define check_shard(cpu, old, young) check_shard_at(cpu, old, young, __LINE__)

/* ---- stacks --------------------------------------------------------------------------------------- */

static struct slab fake[SLABS_MAX];
static struct park_shard shards[PARK_SHARDS_MAX];
static struct park *const stacks = &nodes[0].park;

static void begin_stacks(unsigned nshards, unsigned limit)
{
	for (unsigned i = 0; i < SLABS_MAX; i++)
		slabs[i] = &fake[i];
	park_init(stacks, shards, nshards, limit);
}

static void push(unsigned cpu, unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++)
		assert_true(park_push(stacks, park_shard(stacks, cpu), slabs[i], false));
}

static void check_taken_at(const struct slab *taken, const int *order, int line)
{
	check_stack_at(taken, order, __FILE__, line);
}

#define check_taken(taken, ...) check_taken_at(taken, LIST(__VA_ARGS__), __LINE__)

static void test_number_of_shards(void **state)
{
	unsigned n, seen;

	(void)state;
	unit_equal(park_shards(0), 1);
	for (unsigned cpus = 1; cpus <= 200; cpus++) {
		n = park_shards(cpus);
		unit_equal(n & (n - 1), 0);
		assert_true(n >= 1 && n <= PARK_SHARDS_MAX);
		assert_true(n >= min(cpus, PARK_SHARDS_MAX));
		assert_true(n == 1 || n / 2 < cpus); /* and no more than that takes */
		begin_stacks(n, 1);
		seen = 0;
		for (unsigned cpu = 0; cpu < cpus; cpu++)
			seen |= 1u << (park_shard(stacks, cpu) - shards);
		unit_equal((unsigned)__builtin_popcount(seen), min(cpus, n));
	}
}

/* Oldest first; what was pushed after a turn waits for the next one. */
static void test_old_before_young(void **state)
{
	struct park_shard *s = &shards[0];
	struct slab *taken;

	(void)state;
	begin_stacks(1, 100);
	assert_true(park_empty(s));
	assert_null(park_take(s));
	push(0, 0, 2);
	assert_false(park_empty(s));
	check_shard(0, NONE, LIST(2, 1, 0));
	taken = park_take(s);
	check_taken(taken, 0, 1, 2);
	assert_true(park_empty(s));
	assert_null(park_take(s));
	push(0, 3, 4);
	park_put_back(s, taken->next);
	check_shard(0, LIST(1, 2), LIST(4, 3));
	assert_false(park_empty(s));
	push(0, 5, 5);
	check_taken(park_take(s), 1, 2);
	assert_false(park_empty(s));
	check_taken(park_take(s), 3, 4, 5);
	assert_null(park_take(s));
	assert_true(park_empty(s));
}

/* Others turned the shard over before: the rest goes in front of theirs, all of it. */
static void test_put_back_late(void **state)
{
	struct park_shard *s = &shards[0];
	struct slab *first, *second;

	(void)state;
	begin_stacks(1, 100);
	push(0, 0, 3);
	first = park_take(s);
	push(0, 4, 6);
	second = park_take(s);
	check_taken(second, 4, 5, 6);
	park_put_back(s, second->next);
	push(0, 7, 7);
	park_put_back(s, first->next);
	check_shard(0, LIST(1, 2, 3, 5, 6), LIST(7));
	/* one of one */
	first = park_take(s);
	park_put_back(s, slabs[6]);
	slabs[3]->next = NULL;
	park_put_back(s, slabs[3]);
	check_shard(0, LIST(3, 6), LIST(7));
}

static void test_again(void **state)
{
	struct park_shard *s = &shards[0];
	struct slab *taken;

	(void)state;
	begin_stacks(1, 100);
	push(0, 0, 2);
	taken = park_take(s);
	park_put_back(s, taken->next);
	push(0, 3, 3);
	park_again(s, slabs[0]);
	check_shard(0, LIST(1, 2), LIST(0, 3));
	park_take(s);
	check_taken(park_take(s), 3, 0);
	unit_equal(s->count, 4); /* nobody said that they are gone */
}

static void test_limit(void **state)
{
	(void)state;
	begin_stacks(2, 2);
	unit_equal(park_count(stacks), 0);
	push(0, 0, 1);
	assert_false(park_push(stacks, &shards[0], slabs[2], false));
	check_shard(0, NONE, LIST(1, 0));
	unit_equal(shards[0].count, 2);
	/* each shard for itself */
	push(1, 2, 3);
	assert_false(park_push(stacks, &shards[1], slabs[4], false));
	assert_true(park_push(stacks, &shards[0], slabs[4], true));
	check_shard(0, NONE, LIST(4, 1, 0));
	unit_equal(shards[0].count, 3);
	unit_equal(park_count(stacks), 5);
	/* those that were taken count until they are gone */
	assert_non_null(park_take(&shards[0]));
	assert_false(park_push(stacks, &shards[0], slabs[5], false));
	park_gone(&shards[0], 2);
	unit_equal(park_count(stacks), 3);
	assert_true(park_push(stacks, &shards[0], slabs[5], false));
	unit_equal(park_count(stacks), 4);
}

/* Several threads take and put: each slab is in one place. */
static uint32_t owner[SLABS_MAX];

static void *juggle(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg, none, x = me * 2654435761u;
	struct slab *mine[SLABS_MAX], *slab, *next, *rest;
	unsigned n = 0, keep;

	for (unsigned i = 0; i < unit_scaled(40000) || n; i++) {
		x = x * 1664525 + 1013904223;
		if (n && (x >> 30 || i >= unit_scaled(40000))) {
			slab = mine[--n];
			__atomic_store_n(&owner[slab - fake], 0, __ATOMIC_RELEASE);
			if (x >> 29 & 1)
				park_again(&shards[0], slab);
			else
				park_push(stacks, &shards[0], slab, true);
			continue;
		}
		slab = park_take(&shards[0]);
		for (rest = slab, keep = x >> 24 & 3; rest && keep; keep--) {
			next = rest->next;
			if (keep == 1)
				rest->next = NULL;
			rest = next;
		}
		if (rest && (x >> 24 & 3))
			park_put_back(&shards[0], rest);
		for (; slab; slab = next) {
			next = slab->next;
			none = 0;
			if (!__atomic_compare_exchange_n(&owner[slab - fake], &none, me, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				return slab;
			mine[n++] = slab;
		}
	}
	return NULL;
}

static void test_stack_threads(void **state)
{
	pthread_t threads[4];
	unsigned n = 0;
	void *twice;

	(void)state;
	begin_stacks(1, 1000);
	push(0, 0, 39);
	for (uintptr_t i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, juggle, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < array_size(threads); i++) {
		pthread_join(threads[i], &twice);
		assert_null(twice);
	}
	for (struct slab *slab; (slab = park_take(&shards[0]));)
		for (; slab; slab = slab->next) {
			unit_equal(owner[slab - fake], 0);
			owner[slab - fake] = 9;
			n++;
		}
	unit_equal(n, 40);
}

/* ---- nodes ---------------------------------------------------------------------------------------- */

static uint64_t locks[LOCK_SIDES];

static void parking_on(unsigned limit)
{
	nodes_like.nshards = NSHARDS;
	nodes_like.park_limit = limit;
	alarm(40); /* those who wait for a lock that is held wait for ever */
}

static void begin_parking(unsigned min_partial)
{
	parking_on(64);
	begin_small(min_partial);
}

/* How often list_lock was taken since this was called last. */
static void locks_taken_at(unsigned alloc, unsigned for_free, unsigned other, int line)
{
	const unsigned wanted[LOCK_SIDES] = { alloc, for_free, other };

	for (unsigned side = 0; side < LOCK_SIDES; side++) {
		unit_equal_at(nodes[0].list_lock.taken[side] - locks[side], wanted[side],
			      "how often list_lock was taken", "what is wanted", __FILE__, line);
		locks[side] = nodes[0].list_lock.taken[side];
	}
}

#define locks_taken(alloc, for_free, other) locks_taken_at(alloc, for_free, other, __LINE__)

static void locks_from_here(void)
{
	memcpy(locks, nodes[0].list_lock.taken, sizeof(locks));
}

static void identity(int line)
{
	const struct counters *c = &class.counters;

	unit_equal_at(counters_sum(c, CTR_park),
		      counters_sum(c, CTR_unpark_refill) + counters_sum(c, CTR_unpark_list) +
			      counters_sum(c, CTR_unpark_discard) + park_count(&nodes[0].park) +
			      park_count(&nodes[1].park),
		      "slabs parked", "those unparked and those that still are", __FILE__, line);
}

static void check_all_at(int line)
{
	check_counters_at(__FILE__, line);
	identity(line);
	for (unsigned n = 0; n < 2; n++)
		if (!plat_load(&nodes[n].list_lock.lock.word)) /* not in a holder's time */
			unit_check_node_at(&nodes[n], __FILE__, line);
}

#define check_all() check_all_at(__LINE__)

static void park_chain(unsigned cpu, unsigned i, unsigned first, unsigned n)
{
	unit_on_cpu((int)cpu);
	put(i, first, n);
	unit_on_cpu(0);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	check_slab(slabs[i], n, SLAB_PARKED);
	check_all();
}

static void put_more(unsigned i, unsigned first, unsigned n)
{
	put(i, first, n);
	expect(CTR_partial_to_partial, 1);
}

/* The slabs first..last with one free object, 0, on the list, in this order. */
static void list_slabs(unsigned first, unsigned last)
{
	for (unsigned i = first; i <= last; i++) {
		put(i, 0, 1);
		expect(CTR_full_to_partial, 1);
		expect(CTR_park, 1);
	}
	node_shrink(&nodes[0]);
	expect(CTR_unpark_list, last + 1 - first);
	check_all();
	locks_from_here();
}

static void refill_at(unsigned want, int line, const unsigned (*wanted)[2])
{
	void *objects[OBJECTS_MAX];

	unit_equal_at(nodes_refill(nodes, 0, objects, want, 0), want, "objects", "wanted", __FILE__,
		      line);
	for (unsigned k = 0; k < want; k++)
		if (objects[k] != object(wanted[k][0], wanted[k][1])) {
			print_error("object %u is another one\n", k);
			_fail(__FILE__, line);
		}
}

/* A refill gives these: { slab, object }. */
#define refill_gives(...)                                                                          \
	do {                                                                                       \
		static const unsigned wanted_[][2] = { __VA_ARGS__ };                              \
		refill_at(array_size(wanted_), __LINE__, wanted_);                                 \
	} while (0)

static void test_free_parks(void **state)
{
	struct holder h;

	(void)state;
	begin_parking(5);
	take_slabs(4);
	locks_from_here();
	holder_begin(&h, &nodes[0]);
	/* whatever becomes of a slab while it is not listed */
	park_chain(0, 0, 0, 2);
	park_chain(0, 1, 0, 1);
	park_chain(1, 2, 0, 1);
	put_more(0, 2, 5);
	check_slab(slabs[0], 7, SLAB_PARKED);
	put(1, 1, 15);
	expect(CTR_partial_to_empty, 1);
	check_slab(slabs[1], 16, SLAB_PARKED);
	unit_equal(nodes[0].parked_empty, 1);
	check_shard(0, NONE, LIST(1, 0));
	check_shard(1, NONE, LIST(2));
	refill_gives({ 0, 2 }, { 0, 3 });
	check_counters();
	holder_end(&h);
	locks_taken(0, 0, 0);
	check_all();
	check_list_empty();
	/* full to empty at once goes to the list */
	put(3, 0, 16);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	locks_taken(0, 1, 0);
	check_slab(slabs[3], 16, SLAB_LISTED);
	check_list(3);
	check_all();
}

static void test_full_to_empty_given_up(void **state)
{
	(void)state;
	begin_parking(0);
	take_slabs(1);
	put(0, 0, 16);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_slab, 1);
	unit_equal(released, 1);
	check_totals(0);
	check_all();
}

/* Own shard, list, other shards in turn, a new slab. */
static void test_refill_order(void **state)
{
	void *objects[OBJECTS_MAX];
	unsigned k = 0;

	(void)state;
	begin_parking(5);
	take_slabs(7);
	list_slabs(2, 3);
	park_chain(0, 0, 0, 2);
	park_chain(0, 1, 5, 1);
	park_chain(2, 4, 0, 2);
	park_chain(1, 5, 3, 1);
	park_chain(3, 6, 3, 1);
	locks_taken(0, 0, 0);
	unit_equal(nodes_refill(nodes, 0, objects, 12, 0), 12);
	assert_ptr_equal(objects[k++], object(0, 0));
	assert_ptr_equal(objects[k++], object(0, 1));
	assert_ptr_equal(objects[k++], object(1, 5));
	assert_ptr_equal(objects[k++], object(2, 0));
	assert_ptr_equal(objects[k++], object(3, 0));
	assert_ptr_equal(objects[k++], object(5, 3));
	assert_ptr_equal(objects[k++], object(4, 0));
	assert_ptr_equal(objects[k++], object(4, 1));
	assert_ptr_equal(objects[k++], object(6, 3));
	slabs[7] = slab_of(&class, objects[k]);
	assert_ptr_equal(objects[k], object(7, 0));
	unit_equal(slabs[7]->objects, 16);
	locks_taken(2, 0, 0); /* the list, and the new slab's rest to it */
	expect(CTR_unpark_refill, 5);
	expect(CTR_alloc_slab, 1);
	check_list(7);
	check_all();
}

/* Each stops the search: nothing behind it is touched. */
static void test_refill_stops(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(3);
	list_slabs(1, 1);
	park_chain(0, 0, 0, 1);
	park_chain(1, 2, 0, 1);
	refill_gives({ 0, 0 });
	expect(CTR_unpark_refill, 1);
	locks_taken(0, 0, 0);
	check_all();
	refill_gives({ 1, 0 });
	locks_taken(1, 0, 0);
	check_shard(1, NONE, LIST(2));
	check_all();
	refill_gives({ 2, 0 });
	expect(CTR_unpark_refill, 1);
	locks_taken(0, 0, 0); /* there is no listed slab */
	check_all();
	check_shard(1, NONE, NONE);
	unit_equal(nodes_refill(nodes, 0, (void *[1]){ NULL }, 0, 0), 0);
	check_all();
}

/* It takes what it wants: the slab stays parked, now among the young. */
static void test_partial_take(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(3);
	park_chain(0, 0, 0, 10);
	park_chain(0, 1, 0, 2);
	locks_from_here();
	refill_gives({ 0, 0 }, { 0, 1 }, { 0, 2 });
	check_slab(slabs[0], 7, SLAB_PARKED);
	check_shard(0, LIST(1), LIST(0));
	park_chain(0, 2, 0, 1);
	check_shard(0, LIST(1), LIST(2, 0));
	refill_gives({ 1, 0 });
	check_shard(0, NONE, LIST(1, 2, 0));
	/* across slabs */
	refill_gives({ 0, 3 }, { 0, 4 }, { 0, 5 }, { 0, 6 }, { 0, 7 }, { 0, 8 }, { 0, 9 },
		     { 2, 0 });
	expect(CTR_unpark_refill, 2);
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_shard(0, LIST(1), NONE);
	check_all();
	refill_gives({ 1, 1 });
	expect(CTR_unpark_refill, 1);
	check_all();
	locks_taken(0, 0, 0);
	unit_equal(park_count(&nodes[0].park), 0);
}

/* From another shard: what is left stays there. */
static void test_partial_take_elsewhere(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(2);
	park_chain(2, 0, 0, 4);
	park_chain(2, 1, 0, 4);
	refill_gives({ 0, 0 });
	check_shard(2, LIST(1), LIST(0));
	check_shard(0, NONE, NONE);
	check_all();
}

/* Once emptied, a slab that is taken from is not empty any more. */
static void test_take_from_empty(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(1);
	park_chain(0, 0, 0, 1);
	put(0, 1, 15);
	expect(CTR_partial_to_empty, 1);
	unit_equal(nodes[0].parked_empty, 1);
	refill_gives({ 0, 1 });
	unit_equal(nodes[0].parked_empty, 0);
	check_slab(slabs[0], 15, SLAB_PARKED);
	check_all();
}

static void empty_slab(unsigned i)
{
	put(i, 1, 15);
	expect(CTR_partial_to_empty, 1);
}

/* Up to min_partial stay; then old ones go, without list_lock. */
static void test_emptied_given_up(void **state)
{
	struct slab *first;
	struct holder h;

	(void)state;
	begin_parking(2);
	take_slabs(5);
	first = slabs[1];
	for (unsigned i = 0; i < 5; i++)
		park_chain(0, i, 0, 1);
	locks_from_here();
	holder_begin(&h, &nodes[0]);
	empty_slab(1);
	empty_slab(2);
	check_counters();
	unit_equal(nodes[0].parked_empty, 2);
	unit_equal(released, 0);
	empty_slab(4);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	check_counters();
	unit_equal(released, 1);
	assert_ptr_equal(last_released, first);
	unit_equal(nodes[0].parked_empty, 2);
	holder_end(&h);
	locks_taken(0, 0, 0);
	check_shard(0, LIST(0, 2, 3, 4), NONE);
	check_totals(4);
	check_all();
	/* and among the old ones as well as among the young */
	refill_gives({ 0, 0 });
	expect(CTR_unpark_refill, 1);
	park_chain(0, 0, 0, 1);
	check_shard(0, LIST(2, 3, 4), LIST(0));
	empty_slab(3);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	check_all();
	unit_equal(nodes[0].parked_empty, 2);
}

static void test_emptied_young_given_up(void **state)
{
	(void)state;
	begin_parking(0);
	take_slabs(3);
	for (unsigned i = 0; i < 2; i++)
		park_chain(0, i, 0, 2);
	refill_gives({ 0, 0 });
	park_chain(0, 2, 0, 1);
	check_shard(0, LIST(1), LIST(2, 0));
	empty_slab(2);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	check_all();
	unit_equal(released, 1);
	unit_equal(nodes[0].parked_empty, 0);
	/* those that stay are taken in the same order as before */
	refill_gives({ 1, 0 }, { 1, 1 }, { 0, 1 });
	expect(CTR_unpark_refill, 2);
	check_all();
}

/* Listed ones count; other shards are looked through. */
static void test_emptied_elsewhere(void **state)
{
	(void)state;
	begin_parking(1);
	take_slabs(3);
	park_chain(1, 0, 0, 1);
	park_chain(2, 1, 0, 1);
	empty_slab(0);
	check_all();
	unit_equal(released, 0);
	empty_slab(1);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	check_all();
	unit_equal(released, 1);
	check_shard(1, NONE, NONE); /* the next after the own */
	check_shard(2, NONE, LIST(1));
	put(2, 0, 16); /* listed, since the list is empty */
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	refill_gives({ 2, 0 });
	check_list(2);
	put(2, 0, 1);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_free_remove_partial, 1);
	expect(CTR_free_slab, 1);
	check_all();
	unit_equal(nodes[0].parked_empty, 1);
}

static void test_listed_count_as_surplus(void **state)
{
	(void)state;
	begin_parking(1);
	take_slabs(2);
	list_slabs(1, 1);
	park_chain(0, 0, 0, 1);
	empty_slab(0);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	check_list(1);
	check_all();
}

/* ---- the bound ------------------------------------------------------------------------------------ */

static void begin_bounded(unsigned limit, unsigned min_partial, unsigned n)
{
	parking_on(limit);
	begin_small(min_partial);
	take_slabs(n);
	locks_from_here();
}

static void bound_reached(unsigned listed)
{
	expect(CTR_full_to_partial, 1);
	expect(CTR_park_fail, 1);
	expect(CTR_free_add_partial, 1);
	expect(CTR_unpark_list, listed);
}

static void test_bound(void **state)
{
	(void)state;
	begin_bounded(2, 5, 5);
	park_chain(0, 0, 0, 3);
	park_chain(0, 1, 0, 1);
	park_chain(1, 4, 0, 1);
	locks_taken(0, 0, 0);
	put(2, 0, 1);
	bound_reached(2);
	locks_taken(0, 1, 0);
	check_list(2, 0, 1);
	check_shard(0, NONE, NONE);
	check_shard(1, NONE, LIST(4));
	check_all();
	/* and from the start */
	park_chain(0, 3, 0, 1);
	check_shard(0, NONE, LIST(3));
}

static void test_bound_of_one(void **state)
{
	(void)state;
	begin_bounded(1, 5, 4);
	for (unsigned i = 0; i < 4; i += 2) {
		park_chain(0, i, 0, 1);
		put(i + 1, 0, 1);
		bound_reached(1);
		check_all();
	}
	check_list(1, 0, 3, 2);
	locks_taken(0, 2, 0);
}

/* Old ones are drained before the young ones, and empty ones given up where the list is long enough. */
static void test_bound_gives_up(void **state)
{
	struct slab *empty;

	(void)state;
	begin_bounded(3, 1, 4);
	park_chain(0, 0, 0, 2);
	park_chain(0, 1, 0, 1);
	empty = slabs[1];
	refill_gives({ 0, 0 });
	park_chain(0, 2, 0, 1);
	check_shard(0, LIST(1), LIST(2, 0));
	empty_slab(1);
	check_all();
	unit_equal(nodes[0].parked_empty, 1);
	put(3, 0, 1);
	bound_reached(2);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	locks_taken(0, 1, 0);
	check_list(3, 0, 2);
	unit_equal(released, 1);
	assert_ptr_equal(last_released, empty);
	unit_equal(nodes[0].parked_empty, 0);
	check_totals(3);
	check_all();
}

/* With NOLOCK nothing is given up; where the lock is another's, the bound gives way. */
static void test_bound_nolock(void **state)
{
	struct holder h;

	(void)state;
	begin_bounded(1, 1, 3);
	park_chain(0, 0, 0, 1);
	empty_slab(0);
	holder_begin(&h, &nodes[0]);
	put_flags(1, 0, 1, ANY);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	check_counters();
	check_shard(0, NONE, LIST(1, 0));
	unit_equal(park_count(&nodes[0].park), 2);
	holder_end(&h);
	locks_taken(0, 0, 0);
	check_all();
	put_flags(2, 0, 1, ANY);
	bound_reached(2);
	locks_taken(0, 1, 0);
	check_list(2, 0, 1);
	check_slab(slabs[0], 16, SLAB_LISTED);
	unit_equal(released, 0);
	unit_equal(nodes[0].parked_empty, 0);
	check_all();
}

/* ---- others who want parked slabs ----------------------------------------------------------------- */

/* One object, without a sheaf: the shard goes to the list when that is empty, not before. */
static void test_alloc_one(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(5);
	list_slabs(0, 0);
	park_chain(0, 1, 0, 2);
	park_chain(0, 2, 0, 1);
	park_chain(2, 3, 0, 1);
	locks_taken(0, 0, 0);
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(0, 0));
	check_all();
	check_shard(0, NONE, LIST(2, 1));
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(1, 0));
	expect(CTR_unpark_list, 2);
	check_list(1, 2);
	check_shard(2, NONE, LIST(3));
	check_all();
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(1, 1));
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(2, 0));
	check_all();
	locks_taken(4, 0, 0);
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(3, 0));
	expect(CTR_unpark_list, 1);
	locks_taken(1, 0, 0);
	check_list_empty();
	check_all();
	/* nothing anywhere: no lock for looking */
	slabs[5] = slab_of(&class, nodes_alloc(nodes, 0, 0));
	expect(CTR_alloc_slab, 1);
	locks_taken(1, 0, 0);
	check_list(5);
	check_all();
}

static void test_nolock(void **state)
{
	struct holder h;

	(void)state;
	begin_parking(0);
	take_slabs(3);
	locks_from_here();
	holder_begin(&h, &nodes[0]);
	put_flags(0, 0, 1, ANY);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	put_flags(0, 1, 2, ANY);
	expect(CTR_partial_to_partial, 1);
	put_flags(0, 3, 13, ANY);
	expect(CTR_partial_to_empty, 1);
	check_counters();
	check_slab(slabs[0], 16, SLAB_PARKED);
	unit_equal(nodes[0].parked_empty, 1);
	unit_equal(released, 0);
	/* what needs the lock is left to others */
	put_flags(1, 0, 16, ANY);
	expect(CTR_deferred_free, 16);
	check_counters();
	check_slab(slabs[1], 0, SLAB_UNLISTED);
	assert_null(nodes_alloc(nodes, 0, ANY));
	check_counters();
	holder_end(&h);
	locks_taken(0, 0, 0);
	check_all();
	/* with the lock it finds them */
	assert_ptr_equal(nodes_alloc(nodes, 0, ANY), object(0, 3));
	expect(CTR_unpark_list, 1);
	locks_taken(1, 0, 0);
	check_slab(slabs[0], 15, SLAB_LISTED);
	unit_equal(nodes[0].parked_empty, 0);
	check_all();
	/* full to empty, with the lock: kept, and listed */
	put_flags(2, 0, 16, ANY);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	locks_taken(0, 1, 0);
	unit_equal(released, 0);
	check_list(0, 2);
	check_all();
	/* Of the deferred ones the first parks the slab; the last makes it one empty slab too many. */
	nodes_deferred(nodes);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	expect(CTR_partial_to_partial, 14);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	unit_equal(released, 1);
	check_all();
}

static void test_shrink(void **state)
{
	(void)state;
	begin_parking(5);
	take_slabs(5);
	list_slabs(4, 4);
	park_chain(0, 0, 0, 3);
	park_chain(1, 1, 0, 1);
	park_chain(3, 2, 0, 1);
	park_chain(0, 3, 0, 2);
	refill_gives({ 0, 0 });
	check_shard(0, LIST(3), LIST(0));
	put_more(0, 3, 4);
	empty_slab(1);
	locks_from_here();
	unit_equal(node_shrink(&nodes[0]), 4);
	locks_taken(0, 0, 1);
	expect(CTR_unpark_list, 4);
	check_counters();
	unit_equal(park_count(&nodes[0].park), 0);
	unit_equal(nodes[0].parked_empty, 0);
	unit_equal(released, 1);
	check_slab(slabs[0], 6, SLAB_LISTED);
	unit_equal(nodes[0].nr_partial, 4);
	assert_ptr_equal(nodes[0].partial.prev, &slabs[0]->link);
	check_all();
}

/* Reading finds parked slabs only where it is told to walk. */
static void test_scan_lists(void **state)
{
	struct node_gauges g;

	(void)state;
	nodes_like.counting = NODE_COUNT_SCAN;
	begin_bounded(64, 5, 2);
	put(0, 0, 3);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	node_gauges(&nodes[0], &g);
	expect(CTR_unpark_list, 1);
	locks_taken(0, 0, 1);
	unit_equal(g.objects, 29);
	unit_equal(g.objects_partial, 13);
	unit_equal(g.partial, 1);
	check_list(0);
	check_all();
}

static struct uslub_cache *parking_cache(const struct uslub_policy *policy, unsigned min_partial)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .min_partial = min_partial,
					 .policy = *policy };
	struct uslub_cache *c;

	args.policy.parking = USLUB_POLICY_ON;
	c = uslub_cache_create("parked", 200, &args);
	assert_non_null(c);
	return c;
}

/* Nothing that was parked is left when the cache goes. */
static void test_destroy(void **state)
{
	static const uint64_t capacities[] = { 3, USLUB_POLICY_NONE };
	struct supply_usage before, after;
	struct uslub_cache *c;
	void *objects[1000];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		c = parking_cache(&(struct uslub_policy){ .sheaf_capacity = capacities[round] },
				  50);
		supply_usage(&before);
		for (unsigned i = 0; i < 1000; i++)
			assert_non_null(objects[i] = uslub_cache_alloc(c, 0));
		for (unsigned i = 0; i < 1000; i++) {
			if (unit_mode() == UNIT_FAKED)
				unit_on_cpu((int)(i * 7 % 4));
			uslub_cache_free(c, objects[(i * 37) % 1000]);
		}
		assert_true(stat_of(c, parked) > 0);
		unit_check_cache(c, 0, 0, 0);
		unit_equal(uslub_cache_destroy(c), 0);
	}
	supply_usage(&after);
	unit_equal(after.used, before.used); /* no sheaves in the second round */
}

/* ---- several nodes -------------------------------------------------------------------------------- */

static void two_nodes(unsigned min_partial)
{
	static const char *const cpus[] = { "0-1", "2-3" };

	unit_machine("0-3", NULL, cpus, 2);
	begin_parking(min_partial);
}

/* What another node has parked is better than a new slab, all but min_partial slabs of it. */
static void test_parked_on_another_node(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	two_nodes(1);
	for (unsigned i = 0; i < 3; i++) {
		unit_equal(nodes_refill(nodes, 1, objects, 16, NODE_THISNODE), 16);
		slabs[i] = slab_of(&class, objects[0]);
		expect(CTR_alloc_slab, 1);
	}
	for (unsigned i = 0; i < 3; i++)
		park_chain(i, i, 0, 5);
	unit_equal(park_count(&nodes[1].park), 3);
	/* no lock of that node is taken, nor even tried */
	plat_lock(&nodes[1].list_lock.lock);
	unit_equal(nodes_refill(nodes, 0, objects, 10, 0), 10);
	plat_unlock(&nodes[1].list_lock.lock);
	for (unsigned i = 0; i < 10; i++)
		unit_equal(slab_of(&class, objects[i])->node, 1);
	expect(CTR_unpark_refill, 2);
	unit_equal(park_count(&nodes[1].park), 1);
	check_all();
	/* the last one stays there */
	unit_equal(nodes_refill(nodes, 0, objects, 3, 0), 3);
	unit_equal(slab_of(&class, objects[0])->node, 0);
	expect(CTR_alloc_slab, 1);
	unit_equal(park_count(&nodes[1].park), 1);
	check_all();
	/* who wants memory of his node only does not get it */
	park_chain(0, 0, 5, 1);
	park_chain(1, 1, 5, 1);
	unit_equal(nodes_refill(nodes, 0, objects, 13, NODE_THISNODE), 13);
	unit_equal(slab_of(&class, objects[12])->node, 0);
	unit_equal(park_count(&nodes[1].park), 3);
	check_all();
}

/* A slab parks on its own node, whoever frees. */
static void test_node_of_the_slab(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	two_nodes(0);
	unit_equal(nodes_refill(nodes, 1, objects, 16, NODE_THISNODE), 16);
	slabs[0] = slab_of(&class, objects[0]);
	unit_equal(slabs[0]->node, 1);
	unit_equal(nodes_refill(nodes, 0, objects, 16, NODE_THISNODE), 16);
	slabs[1] = slab_of(&class, objects[0]);
	expect(CTR_alloc_slab, 2);
	park_chain(1, 0, 0, 3);
	check_stack_at(nodes[1].park.shards[1].young, LIST(0), __FILE__, __LINE__);
	unit_equal(park_count(&nodes[1].park), 1);
	unit_equal(park_count(&nodes[0].park), 0);
	park_chain(3, 1, 0, 1);
	check_shard(3, NONE, LIST(1));
	unit_equal(park_count(&nodes[0].park), 1);
	/* a node's refill takes its own */
	refill_gives({ 1, 0 });
	expect(CTR_unpark_refill, 1);
	check_all();
	unit_equal(nodes_refill(nodes, 1, objects, 1, NODE_THISNODE), 1);
	assert_ptr_equal(objects[0], object(0, 0));
	check_all();
	/* and another node's are had rather than another node's pages */
	while (supply_alloc(0, 0, SUPPLY_NOWAIT | SUPPLY_THISNODE))
		;
	plat_inject_failures = 0;
	assert_null(nodes_alloc(nodes, 0, NODE_THISNODE));
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(0, 1));
	plat_inject_failures = -1;
	expect(CTR_unpark_list, 1);
	check_list_of(&nodes[1], 0);
	check_all();
	/* emptied, parked: given up by its node */
	assert_ptr_equal(nodes_alloc(nodes, 1, 0), object(0, 2));
	park_chain(0, 0, 0, 1);
	empty_slab(0);
	expect(CTR_unpark_discard, 1);
	expect(CTR_free_slab, 1);
	unit_equal(released, 1);
	unit_equal(nodes[1].nr_slabs, 0);
	unit_equal(nodes[0].nr_slabs, 1);
	check_all();
}

/* ---- in between: refills -------------------------------------------------------------------------- */

/* Slabs of two pages, so that a fault can be had at each of them; parked with objects 0 to n-1 free. */
static void begin_met(unsigned limit, unsigned min_partial, unsigned n)
{
	parking_on(limit);
	begin_two_pages(min_partial);
	take_slabs(n);
}

/* The slabs that are not needed can be had while chains are walked. */
static void others_find_the_rest(unsigned which)
{
	unit_equal(which, 1);
	check_shard(0, LIST(1, 2), NONE);
	refill_gives({ 1, 0 });
	expect(CTR_unpark_refill, 1);
	check_shard(0, LIST(2), NONE);
	put(3, 0, 1);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	check_counters();
}

static void test_rest_is_put_back_first(void **state)
{
	(void)state;
	begin_met(64, 5, 4);
	park_chain(0, 0, 0, 3);
	park_chain(0, 1, 0, 1);
	park_chain(0, 2, 0, 1);
	come_in_between(others_find_the_rest);
	guard(object(0, 0));
	refill_gives({ 0, 0 }, { 0, 1 });
	unit_equal(faults, 1);
	check_shard(0, LIST(2), LIST(0, 3));
	check_slab(slabs[0], 1, SLAB_PARKED);
	check_all();
}

/* One slab turned out to have enough for two: the other one goes back untouched. */
static void free_into_first(unsigned which)
{
	unit_equal(which, 1);
	put_more(0, 15, 1);
}

static void test_more_than_hoped_for(void **state)
{
	(void)state;
	begin_met(64, 5, 3);
	for (unsigned i = 0; i < 3; i++)
		park_chain(0, i, 0, 1);
	come_in_between(free_into_first);
	guard(object(0, 0));
	refill_gives({ 0, 15 }, { 0, 0 });
	unit_equal(faults, 1);
	expect(CTR_cmpxchg_double_fail, 1);
	expect(CTR_unpark_refill, 1);
	check_shard(0, LIST(1, 2), NONE);
	check_slab(slabs[1], 1, SLAB_PARKED);
	check_all();
}

/* While a refill has a parked slab in its hands it is emptied by its last owner, which is not an end. */
static void empty_what_is_held(unsigned which)
{
	unit_equal(which, 1);
	put(0, 1, 15);
	expect(CTR_partial_to_empty, 1);
	unit_equal(released, 0);
	unit_equal(nodes[0].parked_empty, 1);
	check_shard(0, NONE, NONE);
}

static void test_held_is_emptied(void **state)
{
	(void)state;
	begin_met(64, 0, 1);
	park_chain(0, 0, 0, 1);
	come_in_between(empty_what_is_held);
	guard(object(0, 0));
	refill_gives({ 0, 1 });
	unit_equal(faults, 1);
	expect(CTR_cmpxchg_double_fail, 1);
	unit_equal(nodes[0].parked_empty, 0);
	check_slab(slabs[0], 15, SLAB_PARKED);
	check_all();
}

/*
 * A refill took the chain of listed slab 0 and has objects 3 to 9 too much. Meanwhile somebody frees into
 * the slab, which looks full, and makes it known; others may take it whole, so that it looks full again.
 */
static void surplus_meets(void (*fn)(unsigned which), unsigned limit, unsigned n)
{
	begin_met(limit, 5, n);
	/* the list: 0 with objects 0 to 9 free */
	put(0, 0, 1);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	node_shrink(&nodes[0]);
	expect(CTR_unpark_list, 1);
	put_more(0, 1, 9);
	check_list(0);
	check_all();
	come_in_between(fn);
	guard(object(0, 1));
}

static uint64_t taken_word;

static void park_and_take(unsigned which)
{
	unit_equal(which, 1);
	assert_false(plat_lock_mine(&nodes[0].list_lock.lock));
	taken_word = slabs[0]->state;
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	park_chain(0, 0, 15, 1);
	refill_gives({ 0, 15 });
	expect(CTR_unpark_refill, 1);
	unit_equal(slabs[0]->state << 24, taken_word << 24); /* but for the tag */
	check_all();
}

/* Everything that is free of slab 0 comes out once, and then nothing of it. */
static void check_holds(const unsigned *wanted, unsigned n)
{
	bool found[16] = { false };
	void *got;

	check_slab(slabs[0], n, state_where(slabs[0]->state));
	while (free_in(slabs[0])) {
		got = nodes_alloc(nodes, 0, 0);
		if (slab_of(&class, got) != slabs[0])
			continue;
		assert_false(found[slab_index(slabs[0], got)]);
		found[slab_index(slabs[0], got)] = true;
	}
	for (unsigned k = 0; k < n; k++) {
		assert_true(found[wanted[k]]);
		found[wanted[k]] = false;
	}
	for (unsigned k = 0; k < 16; k++)
		assert_false(found[k]);
}

static const unsigned surplus[] = { 0, 2, 3, 4, 5, 6, 7, 8, 9, 15 };

static void test_surplus_after_parked_and_taken(void **state)
{
	(void)state;
	surplus_meets(park_and_take, 64, 1);
	refill_gives({ 0, 1 });
	unit_equal(faults, 1);
	check_slab(slabs[0], 9, SLAB_LISTED);
	check_list(0);
	check_shard(0, NONE, NONE);
	check_all();
}

/* The bound was reached: the freer lists it, the second refill takes it from the list. */
static void list_and_take(unsigned which)
{
	unit_equal(which, 1);
	park_chain(0, 1, 0, 1);
	put(0, 15, 1);
	bound_reached(1);
	check_list(0, 1);
	refill_gives({ 0, 15 });
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_list(1);
	check_all();
}

static void test_surplus_after_listed_and_taken(void **state)
{
	(void)state;
	surplus_meets(list_and_take, 1, 2);
	refill_gives({ 0, 1 });
	unit_equal(faults, 1);
	check_slab(slabs[0], 9, SLAB_LISTED);
	check_list(1, 0);
	check_all();
}

static void park_only(unsigned which)
{
	unit_equal(which, 1);
	park_chain(0, 0, 15, 1);
}

/* It stays where the freer put it. */
static void test_surplus_of_parked(void **state)
{
	(void)state;
	surplus_meets(park_only, 64, 1);
	refill_gives({ 0, 1 });
	unit_equal(faults, 1);
	check_list_empty();
	check_shard(0, NONE, LIST(0));
	check_slab(slabs[0], 10, SLAB_PARKED);
	check_all();
	check_holds(surplus, 10);
}

/* Parked, taken in part, and so parked again. */
static void park_and_take_some(unsigned which)
{
	unit_equal(which, 1);
	park_chain(0, 0, 14, 2);
	refill_gives({ 0, 14 });
	check_slab(slabs[0], 1, SLAB_PARKED);
}

static void test_surplus_of_parked_and_taken_in_part(void **state)
{
	(void)state;
	surplus_meets(park_and_take_some, 64, 1);
	refill_gives({ 0, 1 });
	check_list_empty();
	check_shard(0, NONE, LIST(0));
	check_all();
	check_holds(surplus, 10);
}

/* Another thread, which has list_lock, parks the slab while put_surplus() waits for it. */
static struct holder waited_for;

static void *hold_and_park(void *arg)
{
	struct timespec some = { .tv_nsec = 20000000 };

	plat_lock(&nodes[0].list_lock.lock);
	pthread_barrier_wait(&waited_for.barrier);
	nanosleep(&some, NULL); /* by then the other one waits */
	put(0, 15, 1);
	nanosleep(&some, NULL);
	plat_unlock(&nodes[0].list_lock.lock);
	return arg;
}

static void wait_for_lock(unsigned which)
{
	unit_equal(which, 1);
	pthread_barrier_init(&waited_for.barrier, NULL, 2);
	assert_int_equal(pthread_create(&waited_for.thread, NULL, hold_and_park, NULL), 0);
	pthread_barrier_wait(&waited_for.barrier);
}

static void test_surplus_waits_meanwhile_parked(void **state)
{
	(void)state;
	if (unit_tsan())
		unit_skip("a signal handler must not make threads there");
	surplus_meets(wait_for_lock, 64, 1);
	refill_gives({ 0, 1 });
	pthread_join(waited_for.thread, NULL);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	unit_equal(nodes[0].list_lock.contended, 1);
	check_list_empty();
	check_slab(slabs[0], 10, SLAB_PARKED);
	check_all();
	check_holds(surplus, 10);
}

/* ---- in between: frees ---------------------------------------------------------------------------- */

/* A free of objects 0 and 8, on both pages; others come in when it has read the state. See test_node.c. */
static void (*during_free)(void);

static void around_free(unsigned which)
{
	if (which == 1) {
		guard(object(0, 8));
		return;
	}
	unit_equal(which, 2);
	during_free();
}

static void free_with(void (*fn)(void))
{
	void *two[2] = { object(0, 0), object(0, 8) };

	during_free = fn;
	come_in_between(around_free);
	guard(object(0, 0));
	nodes_flush(nodes, two, 2, 0);
	unit_equal(faults, 2);
	expect(CTR_cmpxchg_double_fail, 1);
}

/* Both found the slab full; one parks it. */
static void park_it(void)
{
	park_chain(0, 0, 1, 1);
}

static void test_two_first_frees(void **state)
{
	(void)state;
	begin_met(64, 5, 1);
	free_with(park_it);
	expect(CTR_partial_to_partial, 1);
	check_shard(0, NONE, LIST(0));
	check_slab(slabs[0], 3, SLAB_PARKED);
	check_all();
	check_holds((const unsigned[]){ 0, 1, 8 }, 3);
}

/* It was full, is parked by another and taken whole: full again, and published by this one. */
static void park_and_take_it(void)
{
	park_it();
	refill_gives({ 0, 1 });
	expect(CTR_unpark_refill, 1);
}

static void test_first_free_twice(void **state)
{
	(void)state;
	begin_met(64, 5, 1);
	free_with(park_and_take_it);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	check_shard(0, NONE, LIST(0));
	check_all();
	check_holds((const unsigned[]){ 0, 8 }, 2);
}

/* It was about to empty a parked slab, which is listed meanwhile: so it needs the lock after all. */
static void begin_almost_empty(unsigned min_partial)
{
	begin_met(64, min_partial, 1);
	park_chain(0, 0, 1, 7);
	put_more(0, 9, 7);
}

static void list_it(void)
{
	unit_equal(node_shrink(&nodes[0]), 1);
	expect(CTR_unpark_list, 1);
	check_list(0);
}

static void test_listed_before_emptied(void **state)
{
	(void)state;
	begin_almost_empty(0);
	free_with(list_it);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_free_remove_partial, 1);
	expect(CTR_free_slab, 1);
	unit_equal(released, 1);
	unit_equal(nodes[0].parked_empty, 0);
	check_list_empty();
	check_totals(0);
	check_all();
}

static void test_listed_before_emptied_kept(void **state)
{
	(void)state;
	begin_almost_empty(2);
	free_with(list_it);
	expect(CTR_partial_to_empty, 1);
	unit_equal(nodes[0].parked_empty, 0);
	check_slab(slabs[0], 16, SLAB_LISTED);
	check_list(0);
	check_all();
}

/* Or taken whole. */
static void take_all_of_it(void)
{
	void *objects[14];

	unit_equal(nodes_refill(nodes, 0, objects, 14, 0), 14);
	expect(CTR_unpark_refill, 1);
	check_slab(slabs[0], 0, SLAB_UNLISTED);
}

static void test_taken_before_emptied(void **state)
{
	(void)state;
	begin_almost_empty(0);
	free_with(take_all_of_it);
	expect(CTR_full_to_partial, 1);
	expect(CTR_park, 1);
	check_slab(slabs[0], 2, SLAB_PARKED);
	check_shard(0, NONE, LIST(0));
	unit_equal(nodes[0].parked_empty, 0);
	check_all();
}

/*
 * A freer made slab 0 PARKED, found the shard full and waits for list_lock; it holds the slab, which is
 * on no stack. Meanwhile others empty it.
 */
static void *free_and_wait(void *arg)
{
	put(0, 0, 1);
	return arg;
}

static bool is_parked(void *arg)
{
	(void)arg;
	return state_where(plat_load_acquire(&slabs[0]->state)) == SLAB_PARKED;
}

static void emptied_in_hands(unsigned min_partial)
{
	struct holder h;
	pthread_t freer;

	begin_met(1, min_partial, NSHARDS + 1);
	/* something in each shard, wherever that thread is */
	for (unsigned i = 1; i <= NSHARDS; i++)
		park_chain(i % NSHARDS, i, 0, 1);
	holder_begin(&h, &nodes[0]);
	assert_int_equal(pthread_create(&freer, NULL, free_and_wait, NULL), 0);
	assert_true(unit_wait(is_parked, NULL));
	put(0, 1, 15);
	expect(CTR_full_to_partial, 1);
	expect(CTR_partial_to_empty, 1);
	unit_equal(nodes[0].parked_empty, 1);
	unit_equal(released, 0);
	holder_end(&h);
	pthread_join(freer, NULL);
	expect(CTR_park_fail, 1);
	unit_equal(nodes[0].parked_empty, 0);
}

static void test_emptied_in_hands_kept(void **state)
{
	(void)state;
	emptied_in_hands(1);
	expect(CTR_free_add_partial, 1);
	expect(CTR_unpark_list, 1);
	check_slab(slabs[0], 16, SLAB_LISTED);
	unit_equal(nodes[0].nr_partial, 2);
	unit_equal(released, 0);
	check_all();
}

static void test_emptied_in_hands_given_up(void **state)
{
	(void)state;
	emptied_in_hands(0);
	expect(CTR_unpark_list, 1);
	expect(CTR_free_slab, 1);
	unit_equal(nodes[0].nr_partial, 1);
	unit_equal(released, 1);
	check_totals(NSHARDS);
	check_all();
}

static void *free_all(void *arg)
{
	put(0, 0, 16);
	return arg;
}

static void test_full_to_empty_waits(void **state)
{
	struct holder h;
	pthread_t freer;

	(void)state;
	begin_met(64, 0, 1);
	holder_begin(&h, &nodes[0]);
	assert_int_equal(pthread_create(&freer, NULL, free_all, NULL), 0);
	holder_end(&h);
	pthread_join(freer, NULL);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_slab, 1);
	unit_equal(released, 1);
	check_all();
}

/* ---- histories ------------------------------------------------------------------------------------ */

/*
 * The model: where each slab lies and in which place, how many of its objects are free, and which are ours.
 * All of it is determined, but for which objects of a slab come out.
 */
#define MODEL_LIMIT 6
#define MODEL_MIN   3

struct row {
	unsigned n;
	int slab[SLABS_MAX + 1];
};

static struct {
	struct slab *slab;
	unsigned free;
	bool ours[16];
} model[SLABS_MAX];

static struct row listed, old[NSHARDS],
	young[NSHARDS]; /* young ones newest first, as on the stack */
static unsigned model_slabs, held, empty_parked;

static void row_add(struct row *r, int i, bool tail)
{
	assert_true(r->n < SLABS_MAX);
	if (!tail)
		memmove(r->slab + 1, r->slab, r->n * sizeof(*r->slab));
	r->slab[tail ? r->n : 0] = i;
	r->n++;
}

static void row_remove(struct row *r, unsigned at)
{
	r->n--;
	memmove(r->slab + at, r->slab + at + 1, (r->n - at) * sizeof(*r->slab));
}

static int row_find(const struct row *r, int i)
{
	for (unsigned at = 0; at < r->n; at++)
		if (r->slab[at] == i)
			return (int)at;
	return -1;
}

static int model_of(const struct slab *slab)
{
	for (int i = 0; i < SLABS_MAX; i++)
		if (model[i].slab == slab)
			return i;
	fail_msg("a slab too many");
	return -1;
}

static bool model_empty(int i)
{
	return model[i].free == 16;
}

static void model_forget(int i)
{
	model[i].slab = NULL;
	model[i].free = 0;
	model_slabs--;
}

/* What a taker of this shard would get, oldest first. */
static struct row model_shard_take(unsigned shard)
{
	struct row taken = old[shard];

	if (taken.n) {
		old[shard].n = 0;
		return taken;
	}
	while (young[shard].n)
		row_add(&taken, young[shard].slab[--young[shard].n], true);
	return taken;
}

static void model_put_back(unsigned shard, struct row rest)
{
	while (rest.n)
		row_add(&old[shard], rest.slab[--rest.n], false);
}

static bool model_list_shard(unsigned shard, bool may_give_up)
{
	struct row taken;
	bool some = false;

	while ((taken = model_shard_take(shard)).n) {
		for (unsigned k = 0; k < taken.n; k++) {
			int i = taken.slab[k];

			empty_parked -= model_empty(i);
			if (may_give_up && model_empty(i) && listed.n >= MODEL_MIN) {
				expect(CTR_unpark_discard, 1);
				expect(CTR_free_slab, 1);
				model_forget(i);
				continue;
			}
			expect(CTR_unpark_list, 1);
			row_add(&listed, i, true);
			some = true;
		}
	}
	return some;
}

static bool model_surplus(void)
{
	return empty_parked + listed.n > MODEL_MIN;
}

static struct row model_give_up(struct row taken)
{
	struct row others = { 0 };

	for (unsigned k = 0; k < taken.n; k++) {
		if (!model_empty(taken.slab[k]) || !model_surplus()) {
			row_add(&others, taken.slab[k], true);
			continue;
		}
		empty_parked--;
		expect(CTR_unpark_discard, 1);
		expect(CTR_free_slab, 1);
		model_forget(taken.slab[k]);
	}
	return others;
}

static void model_give_up_parked(unsigned cpu)
{
	for (unsigned i = 0; i < NSHARDS && model_surplus(); i++) {
		unsigned shard = (cpu + i) % NSHARDS;
		struct row first = model_give_up(model_shard_take(shard));

		if (model_surplus())
			model_put_back(shard, model_give_up(model_shard_take(shard)));
		model_put_back(shard, first);
	}
}

static void model_put(unsigned cpu, int i, unsigned n, bool nolock)
{
	bool was_full = !model[i].free, empties = model[i].free + n == 16;
	bool give_up = listed.n >= MODEL_MIN && !nolock;
	int at = row_find(&listed, i);

	model[i].free += n;
	expect(was_full ? (empties ? CTR_full_to_empty : CTR_full_to_partial)
			: (empties ? CTR_partial_to_empty : CTR_partial_to_partial),
	       1);
	if (was_full && !empties) {
		if (old[cpu].n + young[cpu].n < MODEL_LIMIT) {
			row_add(&young[cpu], i, false);
			expect(CTR_park, 1);
			return;
		}
		row_add(&listed, i, true);
		expect(CTR_free_add_partial, 1);
		expect(CTR_park_fail, 1);
		model_list_shard(cpu, !nolock);
	} else if (empties && (was_full || at >= 0) && give_up) {
		if (!was_full) {
			row_remove(&listed, (unsigned)at);
			expect(CTR_free_remove_partial, 1);
		}
		expect(CTR_free_slab, 1);
		model_forget(i);
	} else if (was_full) {
		row_add(&listed, i, true);
		expect(CTR_free_add_partial, 1);
	} else if (empties && at < 0) {
		empty_parked++;
		if (!nolock)
			model_give_up_parked(cpu);
	}
}

/* An object came out, of slab `wanted`, or of one that was not known before: -1. */
static int model_got(void *p, int wanted)
{
	struct slab *slab = slab_of(&class, p);
	unsigned k = slab_index(slab, p);
	int i = wanted;

	if (wanted < 0) {
		i = model_of(NULL);
		model[i].slab = slab;
		memset(model[i].ours, 0, sizeof(model[i].ours));
	}
	assert_ptr_equal(model[i].slab, slab);
	assert_false(model[i].ours[k]);
	model[i].ours[k] = true;
	held++;
	return i;
}

static unsigned model_take(int i, void **objects, unsigned want)
{
	unsigned n = min(want, model[i].free);

	for (unsigned k = 0; k < n; k++)
		model_got(objects[k], i);
	model[i].free -= n;
	return n;
}

static unsigned model_refill_from_shard(unsigned shard, void **objects, unsigned want)
{
	struct row taken, rest = { 0 };
	unsigned have = 0, got = 0;

	if (!want)
		return 0;
	taken = model_shard_take(shard);
	for (unsigned k = 0; k < taken.n; k++) {
		if (have >= want)
			row_add(&rest, taken.slab[k], true);
		have += model[taken.slab[k]].free;
	}
	model_put_back(shard, rest);
	for (unsigned k = 0; k < taken.n - rest.n; k++) {
		int i = taken.slab[k];

		empty_parked -= model_empty(i);
		got += model_take(i, objects + got, want - got);
		if (model[i].free)
			row_add(&young[shard], i, false);
		else
			expect(CTR_unpark_refill, 1);
	}
	return got;
}

static unsigned model_from_list(void **objects, unsigned want, bool refill)
{
	unsigned got = 0;

	while (got < want && listed.n) {
		int i = listed.slab[0];

		got += model_take(i, objects + got, want - got);
		if (model[i].free && !refill)
			continue;
		row_remove(&listed, 0);
		if (model[i].free)
			row_add(&listed, i, true);
	}
	return got;
}

static unsigned model_from_new(void **objects, unsigned want)
{
	int i = model_got(objects[0], -1);

	expect(CTR_alloc_slab, 1);
	model_slabs++;
	model[i].free = 15;
	model_take(i, objects + 1, want - 1);
	if (model[i].free)
		row_add(&listed, i, false);
	return min(want, 16u);
}

static void model_refill(unsigned cpu, void **objects, unsigned want)
{
	unsigned got = 0;

	got += model_refill_from_shard(cpu, objects, want);
	got += model_from_list(objects + got, want - got, true);
	for (unsigned i = 1; i < NSHARDS; i++)
		got += model_refill_from_shard((cpu + i) % NSHARDS, objects + got, want - got);
	while (got < want)
		got += model_from_new(objects + got, want - got);
}

static void model_alloc(unsigned cpu, void **object)
{
	if (!listed.n)
		for (unsigned i = 0; i < NSHARDS; i++)
			if (model_list_shard((cpu + i) % NSHARDS, false))
				break;
	if (!model_from_list(object, 1, false))
		model_from_new(object, 1);
}

static void model_shrink(void)
{
	struct row was;

	for (unsigned shard = 0; shard < NSHARDS; shard++)
		model_list_shard(shard, false);
	was = listed;
	listed.n = 0;
	for (unsigned k = 0; k < was.n; k++)
		if (model_empty(was.slab[k]))
			model_forget(was.slab[k]);
	for (unsigned free = 1; free < 16; free++)
		for (unsigned k = 0; k < was.n; k++)
			if (model[was.slab[k]].slab && model[was.slab[k]].free == free)
				row_add(&listed, was.slab[k], true);
}

static void model_check(void)
{
	struct node_gauges g;
	uint64_t in_partial = 0;

	for (int i = 0; i < SLABS_MAX; i++) {
		slabs[i] = model[i].slab;
		if (slabs[i])
			check_slab(slabs[i], model[i].free,
				   !model[i].free	       ? SLAB_UNLISTED
				   : row_find(&listed, i) >= 0 ? SLAB_LISTED
							       : SLAB_PARKED);
	}
	listed.slab[listed.n] = -1;
	check_list_at(&nodes[0], listed.slab, __FILE__, __LINE__);
	for (unsigned shard = 0; shard < NSHARDS; shard++) {
		old[shard].slab[old[shard].n] = young[shard].slab[young[shard].n] = -1;
		check_shard(shard, old[shard].slab, young[shard].slab);
	}
	for (unsigned k = 0; k < listed.n; k++)
		in_partial += 16 - model[listed.slab[k]].free;
	check_totals(model_slabs);
	check_all();
	node_gauges(&nodes[0], &g);
	unit_equal(g.objects, held);
	unit_equal(g.partial, listed.n);
	unit_equal(g.objects_partial, in_partial);
	unit_equal(nodes[0].parked_empty, empty_parked);
}

static void history_take(unsigned cpu, unsigned n)
{
	void *objects[100];

	if (unit_below(2)) {
		unit_equal(nodes_refill(nodes, 0, objects, n, 0), n);
		model_refill(cpu, objects, n);
		return;
	}
	for (unsigned i = 0; i < min(n, 5u); i++) {
		assert_non_null(objects[i] = nodes_alloc(nodes, 0, unit_below(2) ? ANY : 0));
		model_alloc(cpu, &objects[i]);
	}
}

static void history_put(unsigned cpu)
{
	unsigned n = 0, most = 1 + unit_below(unit_below(3) ? 4 : 16), first = unit_below(16);
	bool nolock = !unit_below(5);
	void *objects[16];
	int i;

	do
		i = (int)unit_below(SLABS_MAX);
	while (!model[i].slab);
	for (unsigned k = 0; k < 16 && n < most; k++) {
		unsigned at = (first + k) % 16;

		if (!model[i].ours[at])
			continue;
		model[i].ours[at] = false;
		objects[n++] = slab_object(model[i].slab, at);
		memset(objects[n - 1], (int)at, class.object_size);
	}
	if (!n)
		return;
	held -= n;
	model_put(cpu, i, n, nolock);
	nodes_flush(nodes, objects, n, nolock ? ANY : 0);
}

static void history(enum node_counting counting)
{
	unsigned cpu;

	nodes_like.counting = counting;
	parking_on(MODEL_LIMIT);
	alarm(300);
	begin_small(MODEL_MIN);
	for (unsigned step = 0; step < unit_scaled(20000); step++) {
		unsigned most = step / 2000 % 2 ? 100 : 400;

		cpu = unit_below(NSHARDS);
		unit_on_cpu((int)cpu);
		if (!unit_below(300)) {
			model_shrink();
			unit_equal(node_shrink(&nodes[0]), model_slabs);
		} else if (held < unit_below(most)) {
			history_take(cpu, 1 + unit_below(unit_below(4) ? 8 : 60));
		} else if (held) {
			history_put(cpu);
		}
		model_check();
	}
	cpu = 0;
	unit_on_cpu(0);
	while (held)
		history_put(cpu);
	model_check();
	model_shrink();
	unit_equal(node_shrink(&nodes[0]), 0);
	model_check();
	check_totals(0);
}

static void test_history(void **state)
{
	(void)state;
	history(NODE_COUNT_PERCPU);
	/* each of these happened */
	for (enum counter i = CTR_park; i <= CTR_unpark_discard; i++)
		assert_true(counters_sum(&class.counters, i) > 0);
}

static void test_history_atomic(void **state)
{
	(void)state;
	history(NODE_COUNT_ATOMIC);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_number_of_shards, UNIT_FAKED),
		UNIT_TEST(test_old_before_young, UNIT_FAKED),
		UNIT_TEST(test_put_back_late, UNIT_FAKED),
		UNIT_TEST(test_again, UNIT_FAKED),
		UNIT_TEST(test_limit, UNIT_FAKED),
		UNIT_TEST(test_stack_threads, UNIT_REAL),
		UNIT_TEST(test_free_parks, UNIT_FAKED),
		UNIT_TEST(test_full_to_empty_given_up, UNIT_FAKED),
		UNIT_TEST(test_refill_order, UNIT_FAKED),
		UNIT_TEST(test_refill_stops, UNIT_FAKED),
		UNIT_TEST(test_partial_take, UNIT_FAKED),
		UNIT_TEST(test_partial_take_elsewhere, UNIT_FAKED),
		UNIT_TEST(test_take_from_empty, UNIT_FAKED),
		UNIT_TEST(test_emptied_given_up, UNIT_FAKED),
		UNIT_TEST(test_emptied_young_given_up, UNIT_FAKED),
		UNIT_TEST(test_emptied_elsewhere, UNIT_FAKED),
		UNIT_TEST(test_listed_count_as_surplus, UNIT_FAKED),
		UNIT_TEST(test_bound, UNIT_FAKED),
		UNIT_TEST(test_bound_of_one, UNIT_FAKED),
		UNIT_TEST(test_bound_gives_up, UNIT_FAKED),
		UNIT_TEST(test_bound_nolock, UNIT_FAKED),
		UNIT_TEST(test_alloc_one, UNIT_FAKED),
		UNIT_TEST(test_nolock, UNIT_FAKED),
		UNIT_TEST(test_shrink, UNIT_FAKED),
		UNIT_TEST(test_scan_lists, UNIT_FAKED),
		UNIT_TEST(test_destroy, UNIT_BOTH),
		UNIT_TEST(test_parked_on_another_node, UNIT_FAKED),
		UNIT_TEST(test_node_of_the_slab, UNIT_FAKED),
		UNIT_TEST(test_rest_is_put_back_first, UNIT_FAKED),
		UNIT_TEST(test_more_than_hoped_for, UNIT_FAKED),
		UNIT_TEST(test_held_is_emptied, UNIT_FAKED),
		UNIT_TEST(test_surplus_after_parked_and_taken, UNIT_FAKED),
		UNIT_TEST(test_surplus_after_listed_and_taken, UNIT_FAKED),
		UNIT_TEST(test_surplus_of_parked, UNIT_FAKED),
		UNIT_TEST(test_surplus_of_parked_and_taken_in_part, UNIT_FAKED),
		UNIT_TEST(test_surplus_waits_meanwhile_parked, UNIT_FAKED),
		UNIT_TEST(test_two_first_frees, UNIT_FAKED),
		UNIT_TEST(test_first_free_twice, UNIT_FAKED),
		UNIT_TEST(test_listed_before_emptied, UNIT_FAKED),
		UNIT_TEST(test_listed_before_emptied_kept, UNIT_FAKED),
		UNIT_TEST(test_taken_before_emptied, UNIT_FAKED),
		UNIT_TEST(test_emptied_in_hands_kept, UNIT_FAKED),
		UNIT_TEST(test_emptied_in_hands_given_up, UNIT_FAKED),
		UNIT_TEST(test_full_to_empty_waits, UNIT_FAKED),
		UNIT_TEST(test_history, UNIT_FAKED),
		UNIT_TEST(test_history_atomic, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
