/* SPDX-License-Identifier: MIT */
/*
 * The node tier: what each free and each refill does to slabs, lists and counters. After each step all
 * counters are compared with what the test expects, so that nothing is counted that should not be.
 */
#include "nodes.h"

/* ---- the transitions ------------------------------------------------------------------------------ */

static void test_partial_to_partial(void **state)
{
	uint64_t before;

	(void)state;
	begin_small(5);
	take_slabs(2);
	publish(0, 0, 1);
	publish(1, 0, 1);
	before = slabs[0]->state;
	put(0, 1, 1);
	expect(CTR_partial_to_partial, 1);
	check_counters();
	check_slab(slabs[0], 2, SLAB_LISTED);
	unit_equal(slabs[0]->state >> STATE_TAG_SHIFT, (before >> STATE_TAG_SHIFT) + 1);
	put(0, 2, 5); /* a chain is one free */
	expect(CTR_partial_to_partial, 1);
	check_counters();
	check_slab(slabs[0], 7, SLAB_LISTED);
	check_list(0, 1);
	check_totals(2);
}

static void test_full_to_partial(void **state)
{
	(void)state;
	begin_small(5);
	take_slabs(3);
	for (unsigned i = 0; i < 3; i++) {
		put(2 - i, 3, 1 + i);
		expect(CTR_full_to_partial, 1);
		expect(CTR_free_add_partial, 1);
		check_counters();
		check_slab(slabs[2 - i], 1 + i, SLAB_LISTED);
	}
	check_list(2, 1, 0); /* at the tail */
	check_totals(3);
	unit_equal(released, 0);
}

/* Below min_partial an empty slab stays where it is. nr_partial counts itself. */
static void test_partial_to_empty_kept(void **state)
{
	(void)state;
	begin_small(2);
	take_slabs(2);
	publish(0, 0, 1);
	put(0, 1, 15);
	expect(CTR_partial_to_empty, 1);
	check_counters();
	check_slab(slabs[0], 16, SLAB_LISTED);
	check_list(0);
	check_totals(2);
	unit_equal(released, 0);
}

static void test_partial_to_empty_discarded(void **state)
{
	struct slab *second;

	(void)state;
	begin_small(2);
	take_slabs(3);
	second = slabs[1];
	publish(0, 0, 1);
	publish(1, 0, 1);
	publish(2, 0, 1);
	put(1, 1, 14);
	expect(CTR_partial_to_partial, 1);
	check_counters();
	put(1, 15, 1);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_free_remove_partial, 1);
	expect(CTR_free_slab, 1);
	check_counters();
	check_list(0, 2);
	check_totals(2);
	unit_equal(released, 1);
	assert_ptr_equal(last_released, second);
	/* one more: 2 are listed, 2 is min_partial */
	put(0, 1, 15);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_free_remove_partial, 1);
	expect(CTR_free_slab, 1);
	check_counters();
	check_list(2);
	/* and now it stays */
	put(2, 1, 15);
	expect(CTR_partial_to_empty, 1);
	check_counters();
	check_list(2);
	check_totals(1);
	unit_equal(released, 2);
}

static void test_full_to_empty_kept(void **state)
{
	(void)state;
	begin_small(2);
	take_slabs(2);
	publish(0, 0, 1);
	put(1, 0, 16);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	check_slab(slabs[1], 16, SLAB_LISTED);
	check_list(0, 1);
	check_totals(2);
	unit_equal(released, 0);
}

static void test_full_to_empty_discarded(void **state)
{
	struct slab *third;

	(void)state;
	begin_small(2);
	take_slabs(3);
	third = slabs[2];
	publish(0, 0, 1);
	publish(1, 0, 1);
	put(2, 0, 16);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_slab, 1);
	check_counters();
	check_list(0, 1);
	check_totals(2);
	unit_equal(released, 1);
	assert_ptr_equal(last_released, third);
}

/* Objects of several slabs in one array: a chain for each, found from its end, three misses ahead. */
static void test_flush_gathers(void **state)
{
	void *mixed[12];

	(void)state;
	begin_small(5);
	take_slabs(4);
	for (unsigned k = 0; k < 12; k++)
		mixed[k] = object(k % 3, k / 3);
	nodes_flush(nodes, mixed, 12, 0);
	expect(CTR_full_to_partial, 3);
	expect(CTR_free_add_partial, 3);
	check_counters();
	check_list(2, 1, 0);
	for (unsigned i = 0; i < 3; i++)
		check_slab(slabs[i], 4, SLAB_LISTED);
	/* Three in a row of others end the search: two chains of slab 3. */
	mixed[0] = object(3, 0);
	mixed[1] = object(0, 10);
	mixed[2] = object(1, 10);
	mixed[3] = object(2, 10);
	mixed[4] = object(3, 1);
	nodes_flush(nodes, mixed, 5, 0);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	expect(CTR_partial_to_partial, 4);
	check_counters();
	check_slab(slabs[3], 2, SLAB_LISTED);
	check_list(2, 1, 0, 3);
	nodes_flush(nodes, mixed, 0, 0);
	check_counters();
}

/* ---- refills -------------------------------------------------------------------------------------- */

static void test_refill_order(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	begin_small(5);
	take_slabs(3);
	publish(0, 0, 2);
	publish(1, 0, 4);
	publish(2, 0, 3);
	/* From the head; whole chains; the order in a chain is last in, first out. */
	unit_equal(nodes_refill(nodes, 0, objects, 2, 0), 2);
	assert_ptr_equal(objects[0], object(0, 0));
	assert_ptr_equal(objects[1], object(0, 1));
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_list(1, 2);
	/* What the last slab gives too much goes to the tail, uncounted. */
	unit_equal(nodes_refill(nodes, 0, objects, 1, 0), 1);
	assert_ptr_equal(objects[0], object(1, 0));
	check_slab(slabs[1], 3, SLAB_LISTED);
	check_list(2, 1);
	check_counters();
	/* Several slabs at once, the last one in part. */
	unit_equal(nodes_refill(nodes, 0, objects, 5, 0), 5);
	assert_ptr_equal(objects[0], object(2, 0));
	assert_ptr_equal(objects[2], object(2, 2));
	assert_ptr_equal(objects[3], object(1, 1));
	assert_ptr_equal(objects[4], object(1, 2));
	check_slab(slabs[1], 1, SLAB_LISTED);
	check_list(1);
	/* Then a new slab, whose rest stands at the head. */
	publish(0, 0, 1);
	check_list(1, 0);
	unit_equal(nodes_refill(nodes, 0, objects, 5, 0), 5);
	assert_ptr_equal(objects[0], object(1, 3));
	assert_ptr_equal(objects[1], object(0, 0));
	slabs[3] = slab_of(&class, objects[2]);
	assert_ptr_equal(objects[2], object(3, 0));
	assert_ptr_equal(objects[4], object(3, 2));
	expect(CTR_alloc_slab, 1);
	check_counters();
	check_slab(slabs[3], 13, SLAB_LISTED);
	check_list(3);
	check_totals(4);
	publish(0, 5, 1);
	check_list(3, 0);
	unit_equal(nodes_refill(nodes, 0, objects, 13, 0), 13);
	for (unsigned k = 0; k < 13; k++)
		assert_ptr_equal(objects[k], object(3, 3 + k));
	check_list(0);
	check_counters();
}

/* A new slab goes in front of what other threads listed meanwhile. */
static bool building;

static void publish_meanwhile(void *p)
{
	(void)p;
	if (building)
		put(0, 0, 1);
	building = false;
}

static void test_refill_new_in_front(void **state)
{
	void *objects[3];

	(void)state;
	begin_small(5);
	take_slabs(1);
	class.ctor = publish_meanwhile;
	building = true;
	unit_equal(nodes_refill(nodes, 0, objects, 3, 0), 3);
	slabs[1] = slab_of(&class, objects[0]);
	assert_ptr_not_equal(slabs[0], slabs[1]);
	expect(CTR_alloc_slab, 1);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	check_list(1, 0);
}

/* More than one if need be. */
static void test_refill_new(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	begin_small(5);
	unit_equal(nodes_refill(nodes, 0, objects, 40, 0), 40);
	expect(CTR_alloc_slab, 3);
	check_counters();
	for (unsigned i = 0; i < 3; i++)
		slabs[i] = slab_of(&class, objects[16 * i]);
	for (unsigned k = 0; k < 40; k++)
		assert_ptr_equal(objects[k], object(k / 16, k % 16));
	check_slab(slabs[2], 8, SLAB_LISTED);
	check_list(2);
	check_totals(3);
	unit_equal(nodes_refill(nodes, 0, objects, 0, 0), 0);
	check_counters();
	check_list(2);
}

/* More slabs than are taken in one hold of the lock. */
static void test_refill_many(void **state)
{
	void *objects[3 * SLABS_MAX];

	(void)state;
	begin_small(100);
	take_slabs(50);
	for (unsigned i = 0; i < 50; i++)
		publish(i, 0, 2);
	unit_equal(nodes_refill(nodes, 0, objects, 95, 0), 95);
	for (unsigned k = 0; k < 95; k++)
		assert_ptr_equal(objects[k], object(k / 2, k % 2));
	check_list(48, 49, 47);
	check_slab(slabs[47], 1, SLAB_LISTED);
	check_counters();
	check_totals(50);
}

static void test_alloc_one(void **state)
{
	void *got;

	(void)state;
	begin_small(5);
	take_slabs(2);
	publish(0, 3, 2);
	publish(1, 0, 1);
	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(0, 3));
	check_slab(slabs[0], 1, SLAB_LISTED);
	check_list(0, 1);
	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(0, 4));
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_list(1);
	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(1, 0));
	check_list_empty();
	check_counters();
	got = nodes_alloc(nodes, 0, 0);
	expect(CTR_alloc_slab, 1);
	check_counters();
	slabs[2] = slab_of(&class, got);
	assert_ptr_equal(got, object(2, 0));
	check_slab(slabs[2], 15, SLAB_LISTED);
	check_list(2);
	check_totals(3);
}

static void test_no_memory(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	begin_small(5);
	plat_inject_failures = 0;
	unit_equal(nodes_refill(nodes, 0, objects, 3, 0), 0);
	assert_null(nodes_alloc(nodes, 0, 0));
	plat_inject_failures = -1;
	check_counters();
	check_totals(0);
	take_slabs(1);
	publish(0, 0, 2);
	assert_null(supply_alloc(supply_max_order(), 0, SUPPLY_NOWAIT));
	while (supply_alloc(0, 0, SUPPLY_NOWAIT))
		;
	unit_equal(nodes_refill(nodes, 0, objects, 3, NODE_NOWAIT), 2);
	unit_equal(nodes_refill(nodes, 0, objects, 3, NODE_NOWAIT), 0);
	check_counters();
}

/* ---- in between ----------------------------------------------------------------------------------- */

/*
 * Slab 0 has objects 0 to 9 free, slab 1 one. A refill takes 3 of slab 0; others come in when it has
 * taken the chain and is about to walk it.
 */
static void *refilled[3];

static void refill_with(void (*fn)(unsigned which), unsigned wanted_faults)
{
	begin_two_pages(5);
	take_slabs(2);
	publish(0, 0, 10);
	publish(1, 0, 1);
	come_in_between(fn);
	guard(object(0, 0));
	unit_equal(nodes_refill(nodes, 0, refilled, 3, 0), 3);
	unit_equal(faults, wanted_faults);
	for (unsigned k = 0; k < 3; k++)
		assert_ptr_equal(refilled[k], object(0, k));
	check_totals(2);
	unit_equal(released, 0);
}

/* All free objects of slab 0, in this order, and then it is full. */
static void check_chain(const unsigned *wanted, unsigned n)
{
	void *got;

	check_slab(slabs[0], n, SLAB_LISTED);
	for (unsigned k = 0; k < n; k++) {
		assert_ptr_equal(slab_object(slabs[0], state_head(slabs[0]->state) - 1),
				 object(0, wanted[k]));
		/* slab 1 may stand in front */
		while ((got = nodes_alloc(nodes, 0, 0)) != object(0, wanted[k]))
			assert_ptr_equal(slab_of(&class, got), slabs[1]);
	}
	check_slab(slabs[0], 0, SLAB_UNLISTED);
}

static void only_look(unsigned which)
{
	unit_equal(which, 1);
	assert_false(plat_lock_mine(&nodes[0].list_lock.lock));
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_list(1);
}

static void test_taken_nobody_comes(void **state)
{
	(void)state;
	refill_with(only_look, 1);
	check_counters();
	check_list(1, 0); /* the tail */
	check_chain((const unsigned[]){ 3, 4, 5, 6, 7, 8, 9 }, 7);
}

/* Another thread frees into the taken slab: it is full, so that thread lists it. */
static void free_one(unsigned which)
{
	unit_equal(which, 1);
	publish(0, 15, 1);
	check_list(1, 0);
	check_slab(slabs[0], 1, SLAB_LISTED);
}

static void test_taken_freed_to(void **state)
{
	(void)state;
	refill_with(free_one, 1);
	check_counters();
	check_list(1, 0); /* once */
	check_chain((const unsigned[]){ 3, 4, 5, 6, 7, 8, 9, 15 }, 8);
}

/* And a second refill takes the slab again, whole: the word is that of before. */
static void free_and_take(unsigned which)
{
	void *objects[2];
	uint64_t was = slabs[0]->state;

	unit_equal(which, 1);
	publish(0, 15, 1);
	unit_equal(nodes_refill(nodes, 0, objects, 2, 0), 2);
	assert_ptr_equal(objects[0], object(1, 0));
	assert_ptr_equal(objects[1], object(0, 15));
	check_slab(slabs[0], 0, SLAB_UNLISTED);
	check_list_empty();
	unit_equal(slabs[0]->state << 24, was << 24); /* but for the tag */
}

static void test_taken_freed_to_and_taken(void **state)
{
	(void)state;
	refill_with(free_and_take, 1);
	check_counters();
	check_list(0);
	check_chain((const unsigned[]){ 3, 4, 5, 6, 7, 8, 9 }, 7);
}

/* The second refill leaves a rest and lists the slab for it; the first one must not list it again. */
static void free_and_take_some(unsigned which)
{
	void *objects[2];

	unit_equal(which, 1);
	publish(0, 13, 3);
	unit_equal(nodes_refill(nodes, 0, objects, 2, 0), 2);
	assert_ptr_equal(objects[1], object(0, 13));
	check_slab(slabs[0], 2, SLAB_LISTED);
	check_list(0);
}

static void test_taken_freed_to_and_taken_in_part(void **state)
{
	(void)state;
	refill_with(free_and_take_some, 1);
	check_counters();
	check_list(0);
	check_chain((const unsigned[]){ 3, 4, 5, 6, 7, 8, 9, 14, 15 }, 9);
}

/* All that the refill does not hold comes back while it walks: the slab is not empty and stays. */
static void free_all_others(unsigned which)
{
	unit_equal(which, 1);
	nodes[0].min_partial = 0; /* an empty one would be given up */
	publish(0, 10, 6);
}

static void test_taken_all_freed(void **state)
{
	(void)state;
	refill_with(free_all_others, 1);
	check_counters();
	check_list(1, 0);
	check_slab(slabs[0], 13, SLAB_LISTED);
}

/*
 * The rest of the chain is put back under list_lock: nobody takes the slab in between. A free into the
 * slab needs no lock and gets in between; the second exchange must link to what it freed.
 */
static void free_during_return(unsigned which)
{
	if (which == 1) {
		publish(0, 15, 1);
		guard(object(0, 8)); /* the rest lies on both pages */
		return;
	}
	unit_equal(which, 2);
	assert_true(plat_lock_mine(&nodes[0].list_lock.lock));
	put(0, 14, 1);
	expect(CTR_partial_to_partial, 1);
	check_counters();
}

static void test_surplus_meets_free(void **state)
{
	(void)state;
	refill_with(free_during_return, 2);
	expect_as_is(CTR_cmpxchg_double_fail);
	check_counters();
	check_list(1, 0);
	check_chain((const unsigned[]){ 3, 4, 5, 6, 7, 8, 9, 14, 15 }, 9);
}

/* The failed exchange of the same case is counted, as any other. */
static void test_surplus_retry_counted(void **state)
{
	(void)state;
	refill_with(free_during_return, 2);
	unit_equal(counters_sum(&class.counters, CTR_cmpxchg_double_fail), 1);
}

/*
 * A free of objects on both pages writes the links of the second page, of the first page, reads the
 * state, and writes the last object's link, on the second page, again: there others come in.
 */
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

static void another_free(void)
{
	put(0, 1, 1);
	expect(CTR_partial_to_partial, 1);
}

static void test_free_meets_free(void **state)
{
	(void)state;
	begin_two_pages(5);
	take_slabs(1);
	publish(0, 15, 1);
	free_with(another_free);
	expect(CTR_partial_to_partial, 1);
	check_counters();
	check_list(0);
	check_chain((const unsigned[]){ 0, 8, 1, 15 }, 4);
}

/* The slab was partial when the free looked, and is full when it exchanges: it must be listed. */
static void take_it(void)
{
	void *got;

	unit_equal(nodes_refill(nodes, 0, &got, 1, 0), 1);
	assert_ptr_equal(got, object(0, 15));
	check_list_empty();
}

static void test_free_meets_refill(void **state)
{
	(void)state;
	begin_two_pages(5);
	take_slabs(1);
	publish(0, 15, 1);
	free_with(take_it);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	check_list(0);
	check_chain((const unsigned[]){ 0, 8 }, 2);
}

/* It would have left objects in use, and now it empties the slab: that goes. */
static void free_rest(void)
{
	put(0, 1, 7);
	put(0, 9, 6);
	expect(CTR_partial_to_partial, 2);
}

static void test_free_becomes_last(void **state)
{
	(void)state;
	begin_two_pages(1);
	take_slabs(1);
	publish(0, 15, 1);
	free_with(free_rest);
	expect(CTR_partial_to_empty, 1);
	expect(CTR_free_remove_partial, 1);
	expect(CTR_free_slab, 1);
	check_counters();
	check_list_empty();
	check_totals(0);
}

/* The slab was taken and all of it given back: the word differs by its tag alone. */
static void there_and_back(void)
{
	uint64_t was = slabs[0]->state;
	void *got;

	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(0, 14));
	put(0, 14, 1);
	expect(CTR_partial_to_partial, 1);
	unit_equal(slabs[0]->state << 24, was << 24);
	assert_true(slabs[0]->state != was);
}

static void test_free_sees_the_tag(void **state)
{
	(void)state;
	begin_two_pages(5);
	take_slabs(1);
	publish(0, 14, 2);
	free_with(there_and_back);
	expect(CTR_partial_to_partial, 1);
	check_counters();
	check_chain((const unsigned[]){ 0, 8, 14, 15 }, 4);
}

/* The same for an allocation of one object, which reads a link before its exchange. */
static void free_before_take(unsigned which)
{
	unit_equal(which, 1);
	assert_true(plat_lock_mine(&nodes[0].list_lock.lock));
	put(0, 14, 1); /* on the second page */
	expect(CTR_partial_to_partial, 1);
}

static void test_alloc_meets_free(void **state)
{
	(void)state;
	begin_two_pages(5);
	take_slabs(1);
	publish(0, 0, 2);
	come_in_between(free_before_take);
	guard(object(0, 0));
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(0, 14));
	unit_equal(faults, 1);
	expect(CTR_cmpxchg_double_fail, 1);
	check_counters();
	check_chain((const unsigned[]){ 0, 1 }, 2);
}

/* ---- any context ---------------------------------------------------------------------------------- */

static void test_nolock_free(void **state)
{
	struct holder h;

	(void)state;
	begin_small(5);
	take_slabs(3);
	publish(0, 0, 1);
	holder_begin(&h, &nodes[0]);
	/* needs no lock */
	put_flags(0, 1, 2, ANY);
	expect(CTR_partial_to_partial, 1);
	check_counters();
	check_slab(slabs[0], 3, SLAB_LISTED);
	/* first free into a full slab; the last object of another */
	put_flags(1, 0, 3, ANY);
	expect(CTR_deferred_free, 3);
	check_counters();
	check_slab(slabs[1], 0, SLAB_UNLISTED);
	put_flags(0, 3, 13, ANY);
	expect(CTR_deferred_free, 13);
	check_counters();
	check_slab(slabs[0], 3, SLAB_LISTED);
	assert_non_null(nodes[0].deferred);
	holder_end(&h);

	nodes_deferred(nodes);
	assert_null(nodes[0].deferred);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	expect(CTR_partial_to_partial, 2 + 12);
	expect(CTR_partial_to_empty, 1);
	check_counters();
	check_slab(slabs[0], 16, SLAB_LISTED);
	check_slab(slabs[1], 3, SLAB_LISTED);
	check_list(0, 1);
	check_totals(3);
	nodes_deferred(nodes);
	check_counters();
}

/* Whoever allocates and may wait, frees what was left behind. */
static void test_deferred_found(void **state)
{
	struct holder h;
	void *got;

	(void)state;
	begin_small(5);
	take_slabs(2);
	holder_begin(&h, &nodes[0]);
	put_flags(0, 5, 1, ANY);
	assert_null(nodes_alloc(nodes, 0, ANY));
	unit_equal(nodes_refill(nodes, 0, &got, 1, ANY), 0);
	holder_end(&h);
	expect(CTR_deferred_free, 1);
	check_counters();
	unit_equal(nodes_refill(nodes, 0, &got, 1, 0), 1);
	assert_ptr_equal(got, object(0, 5));
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();

	holder_begin(&h, &nodes[0]);
	put_flags(0, 6, 1, ANY);
	holder_end(&h);
	expect(CTR_deferred_free, 1);
	assert_ptr_equal(nodes_alloc(nodes, 0, 0), object(0, 6));
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
}

/* With the lock free it is like any free, but gives up no slab. */
static void test_nolock_free_keeps(void **state)
{
	(void)state;
	begin_small(0);
	take_slabs(2);
	put_flags(0, 0, 1, ANY);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	put_flags(0, 1, 15, ANY);
	expect(CTR_partial_to_empty, 1);
	check_counters();
	check_slab(slabs[0], 16, SLAB_LISTED);
	put_flags(1, 0, 16, ANY);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	check_slab(slabs[1], 16, SLAB_LISTED);
	check_list(0, 1);
	check_totals(2);
	unit_equal(released, 0);
	assert_null(nodes[0].deferred);
}

static void test_nolock_alloc(void **state)
{
	void *objects[OBJECTS_MAX];
	unsigned calls;

	(void)state;
	begin_small(5);
	calls = plat_inject_calls;
	assert_null(nodes_alloc(nodes, 0, ANY)); /* there is no page */
	unit_equal(plat_inject_calls, calls);
	take_slabs(1);
	publish(0, 0, 2);
	calls = plat_inject_calls;
	unit_equal(nodes_refill(nodes, 0, objects, 4, ANY), 4);
	assert_ptr_equal(objects[0], object(0, 0));
	assert_ptr_equal(objects[1], object(0, 1));
	slabs[1] = slab_of(&class, objects[2]);
	assert_ptr_equal(objects[3], object(1, 1));
	expect(CTR_alloc_slab, 1);
	check_counters();
	check_list(1);
	check_slab(slabs[1], 14, SLAB_LISTED);
	unit_equal(plat_inject_calls, calls);
	/* the supply busy: what is listed can still be had */
	plat_lock(supply_lock(0));
	unit_equal(nodes_refill(nodes, 0, objects, 20, ANY), 14);
	plat_unlock(supply_lock(0));
	check_list_empty();
	assert_false(plat_lock_mine(&nodes[0].list_lock.lock));
	check_counters();
}

/* ---- shrinking ------------------------------------------------------------------------------------ */

static void test_shrink(void **state)
{
	struct node_gauges g;

	(void)state;
	begin(plat_page_size() / 64, 64, 100);
	unit_equal(class.objects, 64);
	take_slabs(9);
	publish(2, 0, 40);
	publish(0, 0, 32);
	publish(1, 0, 5);
	publish(3, 0, 1);
	publish(4, 0, 5);
	publish(5, 0, 33);
	publish(6, 0, 63);
	put(6, 63, 1);
	expect(CTR_partial_to_empty, 1);
	put(7, 0, 64);
	expect(CTR_full_to_empty, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
	check_list(2, 0, 1, 3, 4, 5, 6, 7);
	node_gauges(&nodes[0], &g);
	unit_check_node(&nodes[0]);
	unit_equal(g.partial, 8);
	unit_equal(g.objects_partial, 8 * 64 - 32 - 5 - 40 - 1 - 5 - 33 - 64 - 64);
	/* Fewest free first; more than 32 stay behind; empty ones go, uncounted. */
	unit_equal(node_shrink(&nodes[0]), 7);
	check_counters();
	check_list(3, 1, 4, 0, 2, 5);
	check_totals(7);
	unit_equal(released, 2);
	for (unsigned i = 0; i < 6; i++)
		assert_true(free_in(slabs[i]) > 0);
	unit_equal(node_shrink(&nodes[0]), 7);
	check_list(3, 1, 4, 0, 2, 5);
	node_gauges(&nodes[0], &g);
	unit_check_node(&nodes[0]);
	unit_equal(g.partial, 6);
	unit_equal(g.objects_partial, 6 * 64 - 32 - 5 - 40 - 1 - 5 - 33);
	/* everything freed: nothing is left */
	put(8, 0, 64);
	put(0, 32, 32);
	put(1, 5, 59);
	put(2, 40, 24);
	put(3, 1, 63);
	put(4, 5, 59);
	put(5, 33, 31);
	unit_equal(node_shrink(&nodes[0]), 0);
	check_list_empty();
	check_totals(0);
	unit_equal(released, 9);
}

/* ---- misuse --------------------------------------------------------------------------------------- */

static void free_again(void *arg)
{
	(void)arg;
	put(0, 3, 1);
}

static void free_too_many(void *arg)
{
	(void)arg;
	put(1, 0, 4);
}

static void free_two(void *arg)
{
	void *objects[2] = { object(1, 9), arg };

	nodes_flush(nodes, objects, 2, 0);
}

/* Others of the slab are in use: nothing is counted too often yet. */
static void test_double_free_early(void **state)
{
	char wanted[100];

	(void)state;
	begin_small(5);
	take_slabs(2);
	put(1, 3, 1);
	snprintf(wanted, sizeof(wanted), "uslub: cache tested: object %p was freed twice",
		 object(1, 3));
	/* the slab's head, as the end of a chain, or as its begin */
	unit_dies(free_two, object(1, 3), wanted);
	put(1, 4, 2);
	snprintf(wanted, sizeof(wanted), "uslub: cache tested: object %p was freed twice",
		 object(1, 9));
	unit_dies(free_two, object(1, 9), wanted);
	put(1, 9, 1);
	unit_dies(free_two, object(1, 10), wanted);
}

static void test_double_free(void **state)
{
	char wanted[100];

	(void)state;
	begin_small(5);
	take_slabs(2);
	publish(0, 0, 1);
	put(0, 1, 15);
	snprintf(wanted, sizeof(wanted), "uslub: cache tested: object %p was freed twice",
		 object(0, 3));
	unit_dies(free_again, NULL, wanted);
	put(1, 0, 13);
	unit_dies(free_too_many, NULL, "was freed twice");
}

static void free_foreign(void *arg)
{
	void *objects[2] = { object(0, 0), arg };

	nodes_flush(nodes, objects, 2, 0);
}

static void free_interior(void *arg)
{
	void *objects[2] = { (char *)object(0, 1) + 8, object(0, 0) };

	(void)arg;
	nodes_flush(nodes, objects, 2, 0);
}

static void test_bad_pointer(void **state)
{
	int local = 0;

	(void)state;
	begin_small(5);
	take_slabs(1);
	unit_dies(free_foreign, &local, "is not from any cache");
	unit_dies(free_foreign, (char *)object(0, 1) + 8, "does not point to the start of an");
	unit_dies(free_interior, NULL, "does not point to the start of an");
}

/* ---- two nodes ------------------------------------------------------------------------------------ */

static void two_nodes(unsigned min_partial)
{
	static const char *const cpus[] = { "0-1", "2-3" };

	unit_machine("0-3", NULL, cpus, 2);
	begin_small(min_partial);
}

/* Slabs of node 1, with some objects free. */
static void partial_slabs(unsigned n, unsigned free)
{
	void *objects[OBJECTS_MAX];

	for (unsigned i = 0; i < n; i++) {
		unit_equal(nodes_refill(nodes, 1, objects, 16, NODE_THISNODE), 16);
		slabs[i] = slab_of(&class, objects[0]);
		unit_equal(slabs[i]->node, 1);
	}
	for (unsigned i = 0; i < n; i++)
		put(i, 0, free);
}

static void test_nodes_apart(void **state)
{
	void *objects[4];

	(void)state;
	two_nodes(5);
	unit_equal(nodes_refill(nodes, 0, objects, 2, 0), 2);
	unit_equal(nodes_refill(nodes, 1, objects + 2, 2, 0), 2);
	slabs[0] = slab_of(&class, objects[0]);
	slabs[1] = slab_of(&class, objects[2]);
	unit_equal(slabs[0]->node, 0);
	unit_equal(slabs[1]->node, 1);
	check_list_of(&nodes[0], 0);
	check_list_of(&nodes[1], 1);
	unit_equal(nodes[0].nr_slabs, 1);
	unit_equal(nodes[1].nr_slabs, 1);
	/* A free goes to the slab's node, whoever frees. */
	nodes_flush(nodes, objects, 4, 0);
	check_slab(slabs[0], 16, SLAB_LISTED);
	check_slab(slabs[1], 16, SLAB_LISTED);
	check_list_of(&nodes[0], 0);
	check_list_of(&nodes[1], 1);
	unit_equal(node_shrink(&nodes[1]), 0);
	unit_equal(nodes[1].total_objects, 0);
	unit_equal(nodes[0].total_objects, 16);
}

/* Another node's slabs are used while it has more than min_partial, if it is not busy. */
static void test_refill_from_other_node(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	two_nodes(2);
	partial_slabs(4, 3);
	unit_equal(nodes[1].nr_partial, 4);
	unit_equal(nodes_refill(nodes, 0, objects, 4, 0), 4);
	assert_ptr_equal(objects[0], object(0, 0));
	assert_ptr_equal(objects[3], object(1, 0));
	unit_equal(nodes[1].nr_partial, 3);
	unit_equal(nodes[0].nr_slabs, 0);
	/* down to min_partial, then a new slab here */
	unit_equal(nodes_refill(nodes, 0, objects, 4, 0), 4);
	assert_ptr_equal(objects[0], object(1, 1));
	assert_ptr_equal(objects[1], object(1, 2));
	unit_equal(slab_of(&class, objects[2])->node, 0);
	unit_equal(nodes[1].nr_partial, 2);
	unit_equal(nodes[0].nr_slabs, 1);
}

static void test_refill_leaves_busy_node(void **state)
{
	void *objects[OBJECTS_MAX];
	struct holder h;

	(void)state;
	two_nodes(2);
	partial_slabs(4, 3);
	holder_begin(&h, &nodes[1]);
	unit_equal(nodes_refill(nodes, 0, objects, 4, 0), 4);
	holder_end(&h);
	unit_equal(slab_of(&class, objects[0])->node, 0);
	unit_equal(nodes[1].nr_partial, 4);
	unit_equal(nodes_refill(nodes, 0, objects, 20, NODE_THISNODE), 20);
	for (unsigned k = 0; k < 20; k++)
		unit_equal(slab_of(&class, objects[k])->node, 0);
	unit_equal(nodes[1].nr_partial, 4);
}

/* One object: the node itself, fresh pages included, before another one's list. */
static void test_alloc_on_node(void **state)
{
	void *got;

	(void)state;
	two_nodes(0);
	partial_slabs(1, 3);
	got = nodes_alloc(nodes, 0, 0);
	unit_equal(slab_of(&class, got)->node, 0);
	got = nodes_alloc(nodes, 1, 0);
	assert_ptr_equal(got, object(0, 0));
	/* no pages on node 0 */
	while (nodes[0].nr_partial)
		assert_non_null(nodes_alloc(nodes, 0, 0));
	while (supply_alloc(0, 0, SUPPLY_NOWAIT | SUPPLY_THISNODE))
		;
	plat_inject_failures = 0;
	assert_null(nodes_alloc(nodes, 0, NODE_THISNODE));
	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(0, 1));
	got = nodes_alloc(nodes, 0, 0);
	assert_ptr_equal(got, object(0, 2));
	unit_equal(nodes[1].nr_partial, 0);
	/* then another node's pages; the slab is that node's */
	got = nodes_alloc(nodes, 0, 0);
	unit_equal(slab_of(&class, got)->node, 1);
	unit_equal(nodes[1].nr_slabs, 2);
	unit_equal(nodes[1].nr_partial, 1);
	unit_equal(nodes[0].nr_partial, 0);
	plat_inject_failures = -1;
}

/* The supply helps out with another node's pages: the slab is listed there. */
static void test_refill_with_foreign_pages(void **state)
{
	void *objects[OBJECTS_MAX];

	(void)state;
	two_nodes(5);
	supply_free(supply_alloc(supply_max_order(), 1, SUPPLY_THISNODE));
	plat_inject_failures = 0;
	unit_equal(nodes_refill(nodes, 0, objects, 3, 0), 3);
	plat_inject_failures = -1;
	slabs[0] = slab_of(&class, objects[0]);
	unit_equal(slabs[0]->node, 1);
	check_list_at(&nodes[0], (const int[]){ -1 }, __FILE__, __LINE__);
	check_list_of(&nodes[1], 0);
	unit_equal(nodes[0].nr_slabs, 0);
	unit_equal(nodes[1].nr_slabs, 1);
	unit_equal(nodes[1].total_objects, 16);
	nodes_flush(nodes, objects, 3, 0);
	check_slab(slabs[0], 16, SLAB_LISTED);
	unit_equal(node_shrink(&nodes[1]), 0);
}

/* ---- histories ------------------------------------------------------------------------------------ */

/* The model: how many objects of each slab are free, which are ours, and the list. */
static struct {
	struct slab *slab;
	unsigned free;
	bool ours[16];
} model[SLABS_MAX];

static int order[SLABS_MAX + 1];
static unsigned listed, model_slabs;
static unsigned held;

static unsigned model_of(const struct slab *slab)
{
	for (unsigned i = 0; i < SLABS_MAX; i++)
		if (model[i].slab == slab)
			return i;
	return SLABS_MAX;
}

static void model_list(unsigned i, bool tail)
{
	memmove(order + !tail, order, listed++ * sizeof(*order));
	order[tail ? listed - 1 : 0] = (int)i;
}

static void model_unlist(unsigned i)
{
	unsigned at = 0;

	while (order[at] != (int)i)
		at++;
	memmove(order + at, order + at + 1, (--listed - at) * sizeof(*order));
}

/* An object came out: of which slab the model says so, or of a new one. */
static void model_got(void *p)
{
	struct slab *slab = slab_of(&class, p);
	unsigned i = model_of(slab), k = slab_index(slab, p);

	if (i == SLABS_MAX) {
		i = model_of(NULL);
		assert_true(i < SLABS_MAX);
		model[i].slab = slab;
		model[i].free = 16;
		model_slabs++;
		model_list(i, false);
		expect(CTR_alloc_slab, 1);
	}
	assert_false(model[i].ours[k]);
	model[i].ours[k] = true;
	held++;
}

/* Of what is listed; objects of new slabs are learnt from what came out. */
static void model_take(unsigned n, bool refill)
{
	while (n) {
		unsigned i = (unsigned)order[0], k = min(n, model[i].free);

		model[i].free -= k;
		n -= k;
		if (model[i].free && !refill)
			continue;
		model_unlist(i);
		if (model[i].free)
			model_list(i, true);
	}
}

static void model_put(unsigned i, unsigned n)
{
	bool was_full = !model[i].free, empties, many;

	model[i].free += n;
	empties = model[i].free == 16;
	many = listed >= nodes[0].min_partial;
	expect(was_full ? (empties ? CTR_full_to_empty : CTR_full_to_partial)
			: (empties ? CTR_partial_to_empty : CTR_partial_to_partial),
	       1);
	if (empties && many) {
		if (!was_full) {
			model_unlist(i);
			expect(CTR_free_remove_partial, 1);
		}
		expect(CTR_free_slab, 1);
		model[i].slab = NULL;
		model_slabs--;
	} else if (was_full) {
		model_list(i, true);
		expect(CTR_free_add_partial, 1);
	}
}

static void model_check(void)
{
	struct node_gauges g;
	uint64_t inuse = 0;

	for (unsigned i = 0; i < SLABS_MAX; i++) {
		slabs[i] = model[i].slab;
		if (slabs[i])
			check_slab(slabs[i], model[i].free,
				   model[i].free ? SLAB_LISTED : SLAB_UNLISTED);
		if (slabs[i] && model[i].free)
			inuse += 16 - model[i].free;
	}
	order[listed] = -1;
	check_list_at(&nodes[0], order, __FILE__, __LINE__);
	check_totals(model_slabs);
	check_counters();
	node_gauges(&nodes[0], &g);
	unit_check_node(&nodes[0]);
	unit_equal(g.partial, listed);
	unit_equal(g.objects_partial, inuse);
}

/* Takes n objects, by a refill or one by one, and follows in the model. */
static void history_take(unsigned n)
{
	void *objects[100];
	bool refill = unit_below(2);
	unsigned from_list = 0, i, fresh;

	for (i = 0; i < SLABS_MAX; i++)
		if (model[i].slab)
			from_list += model[i].free;
	fresh = n > from_list ? n - from_list : 0;
	model_take(n - fresh, refill);
	if (refill)
		unit_equal(nodes_refill(nodes, 0, objects, n, 0), n);
	else
		for (i = 0; i < n; i++)
			assert_non_null(objects[i] = nodes_alloc(nodes, 0, 0));
	for (i = 0; i < n; i++)
		model_got(objects[i]);
	/* What came from new slabs was not known before. */
	for (i = n - fresh; i < n; i++) {
		unsigned s = model_of(slab_of(&class, objects[i]));

		if (!--model[s].free)
			model_unlist(s);
	}
}

static void history_put(void)
{
	void *objects[16];
	unsigned n = 0, most = 1 + unit_below(unit_below(3) ? 4 : 16), i, first;

	do
		i = unit_below(SLABS_MAX);
	while (!model[i].slab);
	first = unit_below(16);
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
	model_put(i, n);
	nodes_flush(nodes, objects, n, 0);
}

static void history_shrink(void)
{
	int was[SLABS_MAX];
	unsigned n = listed;

	memcpy(was, order, sizeof(was));
	for (unsigned k = 0; k < n; k++)
		if (model[was[k]].free == 16) {
			model_unlist((unsigned)was[k]);
			model[was[k]].slab = NULL;
			model_slabs--;
		}
	n = listed;
	memcpy(was, order, sizeof(was));
	listed = 0;
	for (unsigned free = 1; free < 16; free++)
		for (unsigned k = 0; k < n; k++)
			if (model[was[k]].free == free)
				model_list((unsigned)was[k], true);
	unit_equal(node_shrink(&nodes[0]), model_slabs);
}

static void test_history(void **state)
{
	(void)state;
	begin_small(3);
	for (unsigned step = 0; step < unit_scaled(30000); step++) {
		unsigned most = step / 3000 % 2 ? 200 : 600;

		if (!unit_below(300))
			history_shrink();
		else if (held < unit_below(most))
			history_take(1 + unit_below(unit_below(4) ? 8 : 60));
		else
			history_put();
		model_check();
	}
	while (held)
		history_put();
	unit_equal(node_shrink(&nodes[0]), 0);
	check_list_empty();
	check_totals(0);
}

/* Several threads; each object is somebody's or nobody's. */
static char issued_twice[] = "issued twice", not_ours[] = "not ours any more";

static void *hustle(void *arg)
{
	void *mine[64], *objects[20];
	uint64_t x = (uintptr_t)arg, *word;
	unsigned n = 0, k;

	for (unsigned i = 0; i < unit_scaled(10000); i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		k = 1 + (x >> 40) % 20;
		if (n + k <= array_size(mine) && x >> 63) {
			k = nodes_refill(nodes, 0, mine + n, k, 0);
			for (; k--; n++) {
				word = mine[n];
				if (__atomic_exchange_n(word, (uintptr_t)arg, __ATOMIC_RELAXED))
					return issued_twice;
			}
		} else if (n) {
			k = min(k, n);
			for (unsigned j = 0; j < k; j++) {
				objects[j] = mine[--n];
				word = objects[j];
				if (__atomic_exchange_n(word, 0, __ATOMIC_RELAXED) !=
				    (uintptr_t)arg)
					return not_ours;
			}
			nodes_flush(nodes, objects, k, x >> 62 & 1 ? ANY : 0);
		}
	}
	for (k = 0; k < n; k++)
		__atomic_store_n((uint64_t *)mine[k], 0, __ATOMIC_RELAXED);
	nodes_flush(nodes, mine, n, 0);
	return NULL;
}

static void clear_pages(void)
{
	unsigned n = 40;
	struct page *pages[40];

	/* so that nobody's objects say so */
	for (unsigned i = 0; i < n; i++) {
		pages[i] = supply_alloc(0, 0, 0);
		memset(page_address(pages[i]), 0, plat_page_size());
	}
	for (unsigned i = 0; i < n; i++)
		supply_free(pages[i]);
}

static void test_threads(void **state)
{
	pthread_t threads[4];
	void *trouble;

	(void)state;
	begin_small(1000); /* no slab goes, so that each word stays what it is */
	clear_pages();
	for (uintptr_t i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hustle, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < array_size(threads); i++) {
		pthread_join(threads[i], &trouble);
		if (trouble)
			fail_msg("%s", (const char *)trouble);
	}
	nodes_deferred(nodes);
	unit_equal(nodes[0].nr_partial, nodes[0].nr_slabs);
	unit_equal(counters_sum(&class.counters, CTR_free_slab), 0);
	unit_equal(node_shrink(&nodes[0]), 0);
	unit_equal(nodes[0].total_objects, 0);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_partial_to_partial, UNIT_FAKED),
		UNIT_TEST(test_full_to_partial, UNIT_FAKED),
		UNIT_TEST(test_partial_to_empty_kept, UNIT_FAKED),
		UNIT_TEST(test_partial_to_empty_discarded, UNIT_FAKED),
		UNIT_TEST(test_full_to_empty_kept, UNIT_FAKED),
		UNIT_TEST(test_full_to_empty_discarded, UNIT_FAKED),
		UNIT_TEST(test_flush_gathers, UNIT_BOTH),
		UNIT_TEST(test_refill_order, UNIT_BOTH),
		UNIT_TEST(test_refill_new, UNIT_FAKED),
		UNIT_TEST(test_refill_new_in_front, UNIT_FAKED),
		UNIT_TEST(test_refill_many, UNIT_FAKED),
		UNIT_TEST(test_alloc_one, UNIT_FAKED),
		UNIT_TEST(test_no_memory, UNIT_FAKED),
		UNIT_TEST(test_taken_nobody_comes, UNIT_FAKED),
		UNIT_TEST(test_taken_freed_to, UNIT_FAKED),
		UNIT_TEST(test_taken_freed_to_and_taken, UNIT_FAKED),
		UNIT_TEST(test_taken_freed_to_and_taken_in_part, UNIT_FAKED),
		UNIT_TEST(test_taken_all_freed, UNIT_FAKED),
		UNIT_TEST(test_surplus_meets_free, UNIT_FAKED),
		UNIT_TEST(test_surplus_retry_counted, UNIT_FAKED),
		UNIT_TEST(test_free_meets_free, UNIT_FAKED),
		UNIT_TEST(test_free_meets_refill, UNIT_FAKED),
		UNIT_TEST(test_free_becomes_last, UNIT_FAKED),
		UNIT_TEST(test_free_sees_the_tag, UNIT_FAKED),
		UNIT_TEST(test_alloc_meets_free, UNIT_FAKED),
		UNIT_TEST(test_nolock_free, UNIT_FAKED),
		UNIT_TEST(test_deferred_found, UNIT_FAKED),
		UNIT_TEST(test_nolock_free_keeps, UNIT_FAKED),
		UNIT_TEST(test_nolock_alloc, UNIT_FAKED),
		UNIT_TEST(test_shrink, UNIT_FAKED),
		UNIT_TEST(test_double_free, UNIT_FAKED),
		UNIT_TEST(test_double_free_early, UNIT_FAKED),
		UNIT_TEST(test_bad_pointer, UNIT_FAKED),
		UNIT_TEST(test_nodes_apart, UNIT_FAKED),
		UNIT_TEST(test_refill_from_other_node, UNIT_FAKED),
		UNIT_TEST(test_refill_leaves_busy_node, UNIT_FAKED),
		UNIT_TEST(test_alloc_on_node, UNIT_FAKED),
		UNIT_TEST(test_refill_with_foreign_pages, UNIT_FAKED),
		UNIT_TEST(test_history, UNIT_FAKED),
		UNIT_TEST(test_threads, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
