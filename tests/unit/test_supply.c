/* SPDX-License-Identifier: MIT */
/*
 * The page supply: runs of every order and of every length, joining, what addresses it knows, giving memory
 * back, and calls to the system that fail.
 */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"
#include "tiers/supply.h"

#define MiB ((size_t)1 << 20)

static size_t run_bytes(unsigned order)
{
	return plat_page_size() << order;
}

static unsigned pages_of_block(void)
{
	return 1u << supply_max_order();
}

static size_t bytes_of(const struct page *page)
{
	return page->pages * plat_page_size();
}

/* The clock stands still unless a test moves it: how fast the machine is must make no difference. */
static uint64_t later;

uint64_t __real_plat_now(void);
uint64_t __wrap_plat_now(void);

uint64_t __wrap_plat_now(void)
{
	static uint64_t began;

	if (!plat_load(&began))
		plat_store(&began, __real_plat_now());
	return plat_load(&began) + later;
}

static struct supply_usage usage(void)
{
	struct supply_usage u;

	supply_usage(&u);
	return u;
}

/* A word at the start and at the end of each page of a run tells whose it is. */
static void mark(struct page *page, uint64_t value)
{
	char *p = page_address(page);

	for (size_t i = 0; i < bytes_of(page); i += plat_page_size()) {
		*(uint64_t *)(p + i) = value + i;
		*(uint64_t *)(p + i + plat_page_size() - 8) = ~value + i;
	}
}

static void check_mark(struct page *page, uint64_t value)
{
	char *p = page_address(page);

	for (size_t i = 0; i < bytes_of(page); i += plat_page_size()) {
		unit_equal(*(uint64_t *)(p + i), value + i);
		unit_equal(*(uint64_t *)(p + i + plat_page_size() - 8), ~value + i);
	}
}

/* A new run is as the header says. */
static void check_run(struct page *page, unsigned order, unsigned node)
{
	char *p;

	assert_non_null(page);
	p = page_address(page);
	unit_equal(page->kind, PAGE_USED);
	unit_equal(page->order, order);
	unit_equal(page->pages, 1u << order);
	unit_equal(page->node, node);
	for (unsigned i = 0; i < array_size(page->client); i++)
		unit_equal(page->client[i], 0);
	unit_equal((uintptr_t)p % run_bytes(order), 0);
	for (size_t i = 0; i < run_bytes(order); i += plat_page_size()) {
		assert_ptr_equal(supply_page_of(p + i), page);
		assert_ptr_equal(supply_page_of(p + i + plat_page_size() - 1), page);
	}
}

static struct page *alloc(unsigned order)
{
	struct page *page = supply_alloc(order, 0, 0);

	check_run(page, order, 0);
	return page;
}

static void check_unknown(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i += plat_page_size())
		assert_null(supply_page_of(p + i));
}

/* ---- runs ----------------------------------------------------------------------------------------- */

static void test_orders(void **state)
{
	struct page *page;
	char *p;

	(void)state;
	unit_equal(run_bytes(supply_max_order()), BLOCK_SIZE);
	for (unsigned order = 0; order <= supply_max_order(); order++) {
		page = alloc(order);
		p = page_address(page);
		mark(page, order);
		check_mark(page, order);
		memset(page->client, 0xff, sizeof(page->client)); /* the client's to fill */
		unit_equal(usage().used, run_bytes(order));
		supply_free(page);
		unit_equal(usage().used, 0);
		check_unknown(p, run_bytes(order));
	}
}

static void test_neighbours(void **state)
{
	struct page *pages[40];

	(void)state;
	for (unsigned i = 0; i < array_size(pages); i++) {
		pages[i] = alloc(i % 5);
		mark(pages[i], i * 1000003);
	}
	for (unsigned i = 0; i < array_size(pages); i++) {
		assert_ptr_equal(supply_page_of(page_address(pages[i])), pages[i]);
		check_mark(pages[i], i * 1000003);
	}
	/* The middle ones go; the others stay what they are. */
	for (unsigned i = 1; i < array_size(pages); i += 2)
		supply_free(pages[i]);
	for (unsigned i = 0; i < array_size(pages); i += 2) {
		check_mark(pages[i], i * 1000003);
		supply_free(pages[i]);
	}
	unit_equal(usage().used, 0);
}

static void test_unknown_addresses(void **state)
{
	static int global;
	struct page *page;
	char *p, *segment, *heap = malloc(100);
	int local = 0;

	(void)state;
	assert_null(supply_page_of(&local)); /* before there is a segment */
	page = alloc(0);
	p = page_address(page);
	segment = (char *)((uintptr_t)p & ~(SEGMENT_SIZE - 1));
	assert_null(supply_page_of(NULL));
	assert_null(supply_page_of(&local));
	assert_null(supply_page_of(&global));
	assert_null(supply_page_of(heap));
	assert_null(supply_page_of((void *)(uintptr_t)test_unknown_addresses));
	assert_null(supply_page_of((void *)1));
	assert_null(supply_page_of((void *)UINTPTR_MAX));
	assert_null(supply_page_of((void *)((uintptr_t)1 << 48)));
	assert_null(supply_page_of((void *)((uintptr_t)p | (uintptr_t)1 << 48)));
	assert_null(supply_page_of((void *)((uintptr_t)p | (uintptr_t)1 << 63)));
	/* the segment's head, its descriptors, uncommitted blocks, and the segments on both sides */
	assert_null(supply_page_of(segment));
	assert_null(supply_page_of(page));
	assert_null(supply_page_of(segment + SEGMENT_SIZE - 1));
	assert_null(supply_page_of(segment - 1));
	assert_null(supply_page_of(segment + SEGMENT_SIZE));
	/* pages of the same block that nobody has */
	assert_null(supply_page_of(p + plat_page_size()));
	assert_ptr_equal(supply_page_of(p + plat_page_size() - 1), page);
	supply_free(page);
	free(heap);
}

/* ---- tags ----------------------------------------------------------------------------------------- */

static void check_tag(const struct page *page, unsigned tag)
{
	const char *p = page_address(page);

	for (size_t i = 0; i < bytes_of(page); i += plat_page_size()) {
		unit_equal(supply_tag_of(p + i), tag);
		unit_equal(supply_tag_of(p + i + plat_page_size() - 1), tag);
	}
}

static void check_untagged(const void *p)
{
	unit_equal(supply_tag_of(p), 0);
}

/* Each page of a run has its tag, and nothing beside it. */
static void test_tags(void **state)
{
	unsigned max = supply_max_order();
	struct page *runs[3];
	char *p, *segment;

	(void)state;
	check_untagged(&max); /* before there is a segment */
	for (unsigned order = 0; order <= max; order++) {
		for (unsigned i = 0; i < array_size(runs); i++) {
			runs[i] = alloc(order);
			check_tag(runs[i], 0);
			supply_tag(runs[i], 255 - i);
		}
		for (unsigned i = 0; i < array_size(runs); i++)
			check_tag(runs[i], 255 - i);
		p = page_address(runs[1]);
		supply_free(runs[1]);
		for (size_t i = 0; i < run_bytes(order); i += plat_page_size())
			check_untagged(p + i);
		check_tag(runs[0], 255);
		check_tag(runs[2], 253);
		supply_free(runs[0]);
		supply_free(runs[2]);
	}
	segment = (char *)((uintptr_t)p & ~(SEGMENT_SIZE - 1));
	check_untagged(NULL);
	check_untagged((void *)1);
	check_untagged((void *)UINTPTR_MAX);
	check_untagged((void *)((uintptr_t)p | (uintptr_t)1 << 48));
	check_untagged((void *)((uintptr_t)p | (uintptr_t)1 << 63));
	check_untagged(segment);
	check_untagged(runs[0]);
	check_untagged(segment - 1);
	check_untagged(segment + SEGMENT_SIZE - 1);
	check_untagged(segment + SEGMENT_SIZE);
}

static void test_tags_of_any_length(void **state)
{
	size_t pages[] = { 3, 21, pages_of_block() + 3, 4 * pages_of_block() };
	struct page *run, *near;
	char *p;

	(void)state;
	near = alloc(0);
	supply_tag(near, 9);
	for (unsigned i = 0; i < array_size(pages); i++) {
		run = supply_alloc_pages(pages[i], 0, 0, 0);
		p = page_address(run);
		check_tag(run, 0);
		supply_tag(run, 7);
		check_tag(run, 7);
		check_untagged(p + bytes_of(run));
		supply_free(run);
		for (size_t k = 0; k < pages[i]; k++)
			check_untagged(p + k * plat_page_size());
		check_tag(near, 9);
	}
}

/* Of a block that went to the system and came back, too. */
static void test_tags_of_returned_block(void **state)
{
	struct page *keep = alloc(0), *whole = alloc(supply_max_order());

	(void)state;
	supply_tag(keep, 1);
	supply_tag(whole, 2);
	supply_free(whole);
	supply_trim();
	check_tag(whole, 0);
	whole = alloc(supply_max_order());
	check_tag(whole, 0);
	check_tag(keep, 1);
	supply_free(whole);
	supply_free(keep);
}

/* ---- joining -------------------------------------------------------------------------------------- */

#define PAGES_MAX 512

/* All pages of one block, one by one; nothing else is free. */
static char *take_block(struct page **pages)
{
	struct page *whole = alloc(supply_max_order());
	char *p = page_address(whole);

	supply_free(whole);
	for (unsigned i = 0; i < pages_of_block(); i++) {
		pages[i] = alloc(0);
		assert_true((char *)page_address(pages[i]) - p < (ptrdiff_t)BLOCK_SIZE);
	}
	return p;
}

static void shuffle(struct page **pages, unsigned n)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned k = unit_below(i);
		struct page *page = pages[k];

		pages[k] = pages[i - 1];
		pages[i - 1] = page;
	}
}

static void test_join(void **state)
{
	struct page *pages[PAGES_MAX], *whole;
	unsigned calls;
	char *p;

	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		p = take_block(pages);
		shuffle(pages, pages_of_block());
		calls = plat_inject_calls;
		for (unsigned i = 0; i < pages_of_block(); i++)
			supply_free(pages[i]);
		whole = alloc(supply_max_order());
		assert_ptr_equal(page_address(whole), p);
		unit_equal(plat_inject_calls, calls);
		supply_free(whole);
	}
}

/* Freed runs become the largest there can be beside what is used, and only aligned ones. */
static void test_join_around(void **state)
{
	unsigned max = supply_max_order(), kept, calls;
	struct page *pages[PAGES_MAX], *run, *runs[16];
	char *p, *q;

	(void)state;
	p = take_block(pages);
	kept = 5;
	for (unsigned i = 0; i < pages_of_block(); i++)
		if ((size_t)((char *)page_address(pages[i]) - p) >> plat_page_shift() != kept)
			supply_free(pages[i]);
	calls = plat_inject_calls;
	/* page 5 cuts its block into runs of one page, two pages, four pages, ... */
	for (unsigned order = max; order--;) {
		runs[order] = run = alloc(order);
		q = page_address(run);
		assert_true(q >= p && q < p + BLOCK_SIZE);
		assert_true(q + run_bytes(order) <= p + kept * plat_page_size() ||
			    q > p + kept * plat_page_size());
	}
	unit_equal(plat_inject_calls, calls);
	unit_equal(usage().used, BLOCK_SIZE);
	run = alloc(0); /* nothing was left */
	unit_equal(plat_inject_calls, calls + 1);
	q = page_address(run);
	assert_true(q < p || q >= p + BLOCK_SIZE);
	supply_free(run);
	for (unsigned order = 0; order < max; order++)
		supply_free(runs[order]);
	unit_equal(usage().used, plat_page_size());
}

/* The smallest run that fits is split; of that size a dirty one is preferred. */
static void test_choice(void **state)
{
	struct page *pages[PAGES_MAX], *run;
	char *p;

	(void)state;
	p = take_block(pages);
	for (unsigned i = 0; i < pages_of_block(); i++) {
		size_t index = (size_t)((char *)page_address(pages[i]) - p) >> plat_page_shift();

		/* free: page 3, pages 8 to 15 */
		if (index == 3 || index / 8 == 1)
			supply_free(pages[i]);
	}
	run = alloc(0);
	assert_ptr_equal(page_address(run), p + 3 * plat_page_size());
	run = alloc(1);
	assert_ptr_equal(page_address(run), p + 8 * plat_page_size());
	run = alloc(0);
	assert_ptr_equal(page_address(run), p + 10 * plat_page_size());
	run = alloc(2);
	assert_ptr_equal(page_address(run), p + 12 * plat_page_size());
	run = alloc(0);
	assert_ptr_equal(page_address(run), p + 11 * plat_page_size());
}

/* A clean run costs page faults. */
static void test_choice_dirty_first(void **state)
{
	unsigned order = order_for(65536, plat_page_shift());
	struct page *runs[4], *walls[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		runs[i] = alloc(order);
		walls[i] = alloc(order); /* so that they are not joined */
	}
	supply_free(runs[0]);
	supply_free(runs[1]);
	supply_trim();
	supply_free(runs[2]);
	unit_equal(usage().dirty, run_bytes(order));
	assert_ptr_equal(supply_alloc(order, 0, 0), runs[2]);
	unit_equal(usage().dirty, 0);
	assert_ptr_not_equal(supply_alloc(order, 0, 0), runs[3]);
	for (unsigned i = 0; i < 4; i++)
		supply_free(walls[i]);
}

/* ---- back to the system --------------------------------------------------------------------------- */

static unsigned resident(char *p, size_t size)
{
	unsigned char map[PAGES_MAX];
	unsigned n = 0;

	assert_true(size >> plat_page_shift() <= PAGES_MAX);
	assert_int_equal(mincore(p, size, map), 0);
	for (size_t i = 0; i < size >> plat_page_shift(); i++)
		n += map[i] & 1;
	return n;
}

static void test_trim_block(void **state)
{
	struct page *keep = alloc(0), *a, *b;
	char *p, *q;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	a = alloc(supply_max_order());
	b = alloc(supply_max_order());
	p = page_address(a);
	q = page_address(b);
	mark(a, 1);
	mark(b, 2);
	unit_equal(resident(p, BLOCK_SIZE), pages_of_block());
	supply_free(a);
	supply_free(b);
	unit_equal(usage().dirty, 2 * BLOCK_SIZE);
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(resident(p, BLOCK_SIZE), 0);
	unit_equal(resident(q, BLOCK_SIZE), 0);
	/* and they can be had again */
	a = alloc(supply_max_order());
	mark(a, 3);
	check_mark(a, 3);
	supply_free(a);
	supply_free(keep);
}

/* Runs of all lengths are given back; what is used is left alone. */
static void test_trim_runs(void **state)
{
	unsigned order = order_for(65536, plat_page_shift());
	struct page *large, *small, *near_large, *near_small;
	char *p, *q;

	(void)state;
	if (!order)
		unit_skip("pages of 64 KiB");
	near_small = alloc(order - 1);
	small = alloc(order - 1);
	large = alloc(order);
	near_large = alloc(order);
	p = page_address(large);
	q = page_address(small);
	mark(large, 1);
	mark(small, 2);
	mark(near_large, 3);
	mark(near_small, 4);
	supply_free(large);
	supply_free(small);
	unit_equal(usage().dirty, run_bytes(order) + run_bytes(order - 1));
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(resident(p, run_bytes(order)), 0);
	unit_equal(resident(q, run_bytes(order - 1)), 0);
	check_mark(near_large, 3);
	check_mark(near_small, 4);
	supply_free(near_large);
	supply_free(near_small);
	supply_trim();
	unit_equal(usage().dirty, 0);
}

static bool is_zero(struct page *page)
{
	const char *p = page_address(page);

	for (size_t i = 0; i < bytes_of(page); i++)
		if (p[i])
			return false;
	return true;
}

/* A run that was never used, or was given back meanwhile, is zero and known to be. */
static void test_zero(void **state)
{
	unsigned order = order_for(65536, plat_page_shift());
	struct page *run, *wall;

	(void)state;
	run = alloc(order);
	wall = alloc(order);
	unit_equal(run->dirty, PAGE_ZERO);
	unit_equal(wall->dirty, PAGE_ZERO);
	assert_true(is_zero(run));
	mark(run, 1);
	supply_free(run);
	assert_ptr_equal(alloc(order), run);
	unit_equal(run->dirty, PAGE_DIRTY);
	supply_free(run);
	supply_trim();
	assert_ptr_equal(alloc(order), run);
	unit_equal(run->dirty, PAGE_ZERO);
	assert_true(is_zero(run));
	supply_free(run);
	supply_trim();
	supply_free(wall);
	run = alloc(order + 1); /* the second half of it was used */
	unit_equal(run->dirty, PAGE_DIRTY);
	supply_free(run);
	for (unsigned i = 0; i < 2u << order; i++)
		unit_equal(alloc(0)->dirty, PAGE_DIRTY);
}

/* Locked memory keeps its content; nobody takes it for zero, nor tries again and again to give it back. */
static void test_locked(void **state)
{
	unsigned order = order_for(65536, plat_page_shift());
	struct page *run = alloc(order), *wall = alloc(order);

	(void)state;
	if (unit_emulated() || unit_sanitized() || unit_under_valgrind())
		unit_skip("memory is locked by real calls alone");
	if (mlock(page_address(run), plat_page_size()))
		unit_skip("no memory may be locked");
	mark(run, 1);
	supply_free(run);
	supply_trim();
	unit_equal(usage().dirty, 0);
	assert_ptr_equal(alloc(order), run);
	unit_equal(run->dirty, PAGE_STUCK);
	check_mark(run, 1);
	supply_free(run);
	munlock(page_address(run), plat_page_size());
	supply_trim();
	assert_ptr_equal(alloc(order), run);
	unit_equal(run->dirty, PAGE_ZERO);
	assert_true(is_zero(run));
	supply_free(run);
	supply_free(wall);
}

/* Segments that are empty go, but for one. */
static void test_segments_go(void **state)
{
	enum { RUNS = 80 };
	struct page *runs[RUNS];
	char *places[RUNS];
	size_t before;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	supply_free(alloc(0));
	supply_trim();
	unit_equal(usage().segments, 1);
	before = unit_mapped();
	for (unsigned i = 0; i < RUNS; i++) {
		runs[i] = alloc(supply_max_order());
		places[i] = page_address(runs[i]);
		*places[i] = 1;
	}
	unit_equal(usage().segments, 3); /* 31 blocks in each */
	shuffle(runs, RUNS);
	for (unsigned i = 0; i < RUNS; i++)
		supply_free(runs[i]);
	supply_trim();
	unit_equal(usage().segments, 1);
	unit_equal(usage().dirty, 0);
	for (unsigned i = 0; i < RUNS; i++)
		assert_null(supply_page_of(places[i]));
	if (!unit_sanitized() && !unit_under_valgrind())
		unit_equal(unit_mapped(), before);
	supply_free(alloc(supply_max_order()));
}

/* Without being asked the supply keeps what was in use lately, 32 MiB at most and a quarter of what is in use. */
static void test_reserve_most(void **state)
{
	unsigned order = order_for(65536, plat_page_shift());
	unsigned n = (unsigned)(64 * MiB / run_bytes(order));
	struct page **runs = calloc(n, sizeof(*runs));

	(void)state;
	for (unsigned i = 0; i < n; i++)
		runs[i] = alloc(order);
	unit_equal(usage().used, 64 * MiB);
	for (unsigned i = 0; i < n; i++) {
		supply_free(runs[i]);
		assert_true(usage().dirty <= 32 * MiB + usage().used / 4 + run_bytes(order));
	}
	assert_true(usage().dirty <= 32 * MiB);
	assert_true(usage().dirty >= 12 * MiB);
	free(runs);
}

/* In the quiet it keeps 4 MiB, of which half is left when that is too much. */
static void test_reserve_least(void **state)
{
	struct page *runs[6];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < array_size(runs); i++)
			runs[i] = alloc(supply_max_order());
		for (unsigned i = 0; i < array_size(runs); i++)
			supply_free(runs[i]);
	}
	unit_equal(usage().dirty, 12 * MiB); /* the second time they were in use a moment ago */
	later += 2200000000;
	supply_free(alloc(0));
	unit_equal(usage().dirty, 2 * MiB);
}

static void free_something_after(uint64_t ns)
{
	later += ns;
	supply_free(alloc(0));
}

/* What is beyond the reserve for a short while is not given back. */
static void test_reserve_patience(void **state)
{
	struct page *runs[6];

	(void)state;
	/* The second time they were in use a moment ago. */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < array_size(runs); i++)
			runs[i] = alloc(supply_max_order());
		for (unsigned i = round; i < array_size(runs); i++)
			supply_free(runs[i]);
	}
	for (unsigned i = 0; i < 22; i++) { /* until the height is forgotten */
		unit_equal(usage().dirty, 10 * MiB);
		free_something_after(100000000);
	}
	unit_equal(usage().dirty, 10 * MiB);
	free_something_after(60000000);
	unit_equal(usage().dirty, 10 * MiB);
	free_something_after(60000000);
	unit_equal(usage().dirty, 2 * MiB);
}

/* ---- runs of any length --------------------------------------------------------------------------- */

static void check_client_zero(const struct page *page)
{
	for (unsigned i = 0; i < array_size(page->client); i++)
		unit_equal(page->client[i], 0);
}

/* Every address of a run is known, and only those of its first part are the head's. */
static void check_parts(const struct page *page, size_t pages)
{
	const char *p = page_address(page);
	const struct page *part;

	unit_equal(page->kind, PAGE_USED);
	unit_equal(page->pages, pages);
	for (size_t i = 0; i < pages; i++) {
		part = supply_page_of(p + i * plat_page_size());
		assert_non_null(part);
		assert_ptr_equal(supply_page_of(p + (i + 1) * plat_page_size() - 1), part);
		unit_equal(part == page, i < 1u << page->order);
		unit_equal(part->kind, PAGE_USED);
		unit_equal(page[i].kind == PAGE_USED, part == page + i);
		unit_equal(part->node, page->node);
		if (part != page)
			check_client_zero(part);
	}
}

static struct page *alloc_pages(size_t pages, unsigned align_order)
{
	struct page *page = supply_alloc_pages(pages, align_order, 0, 0);

	assert_non_null(page);
	unit_equal(page->node, 0);
	unit_equal((uintptr_t)page_address(page) % run_bytes(align_order), 0);
	check_client_zero(page);
	check_parts(page, pages);
	return page;
}

/* Lengths where something changes: all small ones, those about the orders, and those about whole blocks. */
static unsigned lengths(size_t *to)
{
	unsigned max = (unsigned)SUPPLY_PAGES_MAX, n = 0;

	for (unsigned i = 1; i < 20; i++)
		to[n++] = i;
	for (unsigned order = 5; order < supply_max_order(); order++)
		for (unsigned i = 0; i < 3; i++)
			to[n++] = (1u << order) - 1 + i;
	for (unsigned i = pages_of_block(); i < max; i += pages_of_block() * (i / pages_of_block()))
		for (unsigned k = 0; k < 3; k++)
			to[n++] = i - 1 + k;
	to[n++] = max - 1;
	to[n++] = max;
	return n;
}

static void test_lengths(void **state)
{
	struct page *page, *before, *after;
	size_t pages[100];
	unsigned n = lengths(pages);
	char *p;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		before = alloc(0);
		page = alloc_pages(pages[i], 0);
		after = alloc(0);
		mark(before, 1);
		mark(after, 2);
		mark(page, i);
		memset(page->client, 0xff, sizeof(page->client)); /* the client's to fill */
		check_mark(page, i);
		check_parts(page, pages[i]);
		unit_equal(usage().used, (pages[i] + 2) * plat_page_size());
		p = page_address(page);
		supply_free_pages(page, pages[i]);
		unit_equal(usage().used, 2 * plat_page_size());
		check_mark(before, 1);
		check_mark(after, 2);
		for (size_t k = 0; k < pages[i]; k++)
			assert_null(supply_page_of(p + k * plat_page_size()));
		supply_free(before);
		supply_free(after);
	}
	unit_equal(usage().used, 0);
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(usage().segments, 1);
}

static void test_no_lengths(void **state)
{
	unsigned calls = plat_inject_calls;

	(void)state;
	assert_null(supply_alloc_pages(0, 0, 0, 0));
	assert_null(supply_alloc_pages(SUPPLY_PAGES_MAX + 1, 0, 0, 0));
	assert_null(supply_alloc_pages((size_t)-1, 0, 0, 0));
	assert_null(supply_alloc_pages(1, ilog2(SUPPLY_PAGES_MAX) + 1, 0, 0));
	unit_equal(plat_inject_calls, calls);
}

static void test_alignments(void **state)
{
	unsigned block = pages_of_block();
	size_t pages[] = { 1, 3, block - 1, block, block + 1, 5 * block - 1, SUPPLY_PAGES_MAX };
	struct page *first, *second;

	(void)state;
	for (unsigned order = 0; order <= ilog2(SUPPLY_PAGES_MAX); order++)
		for (unsigned i = 0; i < array_size(pages); i++) {
			first = alloc_pages(pages[i], order);
			second = alloc_pages(pages[i], order);
			mark(first, 1);
			mark(second, 2);
			check_mark(first, 1);
			check_mark(second, 2);
			supply_free(first);
			supply_free(second);
			unit_equal(usage().used, 0);
		}
}

/* What a run does not need of the next order is there for others. */
static void test_tails(void **state)
{
	struct page *run, *rest;
	unsigned calls;
	char *p;

	(void)state;
	for (unsigned pages = 1; pages < pages_of_block(); pages += pages < 20 ? 1 : 9) {
		run = alloc_pages(pages, supply_max_order());
		p = page_address(run);
		calls = plat_inject_calls;
		for (unsigned i = pages; i < pages_of_block(); i++) {
			rest = alloc(0);
			assert_true((char *)page_address(rest) >= p + bytes_of(run));
			assert_true((char *)page_address(rest) < p + BLOCK_SIZE);
		}
		unit_equal(plat_inject_calls, calls);
		unit_equal(usage().used, BLOCK_SIZE);
		assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT));
		for (unsigned i = pages; i < pages_of_block(); i++)
			supply_free(supply_page_of(p + i * plat_page_size()));
		supply_free(run);
		unit_equal(usage().used, 0);
	}
}

/* So do the last of several blocks. */
static void test_tail_of_blocks(void **state)
{
	struct page *run = alloc_pages(2 * pages_of_block() + 5, 0), *page;
	char *end = (char *)page_address(run) + bytes_of(run);
	unsigned calls = plat_inject_calls;

	(void)state;
	page = alloc(0);
	assert_ptr_equal(page_address(page), end);
	page = alloc(supply_max_order() - 1);
	assert_ptr_equal(page_address(page), end - 5 * plat_page_size() + BLOCK_SIZE / 2);
	unit_equal(plat_inject_calls, calls);
}

static const struct supply_figures *figures(unsigned node)
{
	size_t stride;
	const struct supply_figures *first = supply_figures(&stride);

	return (const void *)((const char *)first + node * stride);
}

/* The supply knows that much was in use a moment ago, and so keeps it. */
static void use_much(void)
{
	for (unsigned round = 0; round < 2; round++)
		supply_free(alloc_pages(SUPPLY_PAGES_MAX / 2, 0));
	supply_trim();
}

/* Five blocks in a row and one behind: free and dirty, uncommitted, free, uncommitted, free, and used. */
static char *make_row(struct page **behind)
{
	struct page *runs[5];
	char *p;

	use_much();
	for (unsigned i = 0; i < array_size(runs); i++)
		runs[i] = alloc(supply_max_order());
	*behind = alloc(supply_max_order());
	mark(*behind, 77);
	p = page_address(runs[0]);
	supply_free(runs[1]);
	supply_free(runs[3]);
	supply_trim();
	supply_free(runs[0]);
	supply_free(runs[2]);
	supply_free(runs[4]);
	unit_equal(usage().dirty, 3 * BLOCK_SIZE);
	unit_equal(figures(0)->blocks, 4);
	return p;
}

/* Free blocks and uncommitted ones make a run. */
static void test_row(void **state)
{
	struct page *behind, *run;
	char *p = make_row(&behind);
	unsigned calls = plat_inject_calls;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	run = alloc_pages(5 * pages_of_block() - 3, 0);
	assert_ptr_equal(page_address(run), p);
	unit_equal(plat_inject_calls, calls + 2);
	unit_equal(run->dirty, PAGE_DIRTY);
	unit_equal(figures(0)->blocks, 6);
	unit_equal(usage().used, 6 * BLOCK_SIZE - 3 * plat_page_size());
	unit_equal(usage().dirty, 3 * plat_page_size());
	mark(run, 1);
	check_mark(behind, 77);
	supply_free(run);
	unit_equal(usage().dirty, 5 * BLOCK_SIZE);
	/* and once more, with all of it at hand */
	run = alloc_pages(5 * pages_of_block(), 0);
	assert_ptr_equal(page_address(run), p);
	unit_equal(plat_inject_calls, calls + 2);
	supply_free(run);
	supply_free(behind);
	supply_trim();
	unit_equal(figures(0)->blocks, 0);
}

/* Not the first blocks that will do, but those at hand. */
static void test_row_at_hand(void **state)
{
	struct page *runs[6];
	unsigned calls;

	(void)state;
	use_much();
	for (unsigned i = 0; i < array_size(runs); i++)
		runs[i] = alloc(supply_max_order());
	for (unsigned i = 0; i < 3; i++)
		supply_free(runs[i]);
	supply_trim();
	supply_free(runs[3]);
	supply_free(runs[4]);
	calls = plat_inject_calls;
	assert_ptr_equal(alloc_pages(2 * pages_of_block(), 0), runs[3]);
	unit_equal(plat_inject_calls, calls);
}

/* Has the mapping at an address a flag, as in smaps(5)? */
static bool has_flag(const void *p, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	uintptr_t from, to;
	bool here = false, has = false;
	char line[1000];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)p && (uintptr_t)p < to;
		else if (here && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, flag) != NULL;
	}
	fclose(f);
	return has;
}

/* Whichever of the blocks cannot be had: all is as before. */
static void test_row_failures(void **state)
{
	struct page *behind, *run;
	char *p = make_row(&behind);

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	for (int k = 0; k < 2; k++) {
		plat_inject_failures = k;
		assert_null(supply_alloc_pages(5 * pages_of_block() - 3, 0, 0, 0));
		plat_inject_failures = -1;
		unit_equal(usage().used, BLOCK_SIZE);
		unit_equal(usage().dirty, 3 * BLOCK_SIZE);
		unit_equal(figures(0)->blocks, 4);
		assert_false(has_flag(p + BLOCK_SIZE, " rd"));
		assert_false(has_flag(p + 3 * BLOCK_SIZE, " rd"));
		for (unsigned i = 0; i < 3; i++)
			assert_non_null(supply_alloc(supply_max_order(), 0, SUPPLY_NOWAIT));
		assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT));
		for (unsigned i = 0; i < 5; i += 2)
			supply_free(supply_page_of(p + i * BLOCK_SIZE));
		check_mark(behind, 77);
	}
	plat_inject_failures = 2;
	run = supply_alloc_pages(5 * pages_of_block() - 3, 0, 0, 0);
	plat_inject_failures = -1;
	assert_non_null(run);
	assert_ptr_equal(page_address(run), p);
	assert_true(has_flag(p + BLOCK_SIZE, " rd"));
	mark(run, 1);
	check_mark(run, 1);
	check_mark(behind, 77);
}

/* No memory for more: what is free serves. */
static void test_row_without_memory(void **state)
{
	struct page *runs[7];

	(void)state;
	use_much();
	for (unsigned i = 0; i < array_size(runs); i++)
		runs[i] = alloc(supply_max_order());
	for (unsigned i = 0; i < array_size(runs); i++)
		if (i != 2)
			supply_free(runs[i]);
	supply_free(alloc_pages(4 * pages_of_block(), 0));
	plat_inject_failures = 0;
	assert_null(supply_alloc_pages(5 * pages_of_block(), 0, 0, 0));
	assert_non_null(supply_alloc_pages(3 * pages_of_block() + 1, 0, 0, SUPPLY_NOWAIT));
	assert_non_null(supply_alloc_pages(2 * pages_of_block(), 0, 0, 0));
	plat_inject_failures = -1;
}

/* A new segment, whichever call fails. */
static void test_lengths_failures(void **state)
{
	size_t before = unit_mapped();
	struct page *run = NULL;
	int k;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	for (k = 0; !run; k++) {
		plat_inject_failures = k;
		run = supply_alloc_pages(SUPPLY_PAGES_MAX, 0, 0, 0);
		plat_inject_failures = -1;
		unit_equal(usage().used, run ? SEGMENT_SIZE / 2 : 0);
		unit_equal(usage().dirty, 0);
		unit_equal(usage().segments, k < 2 ? 0 : 1);
		if (!usage().segments && !unit_sanitized() && !unit_under_valgrind())
			unit_equal(unit_mapped(), before);
	}
	unit_equal(k, 4); /* the third time the segment is there already */
	/* the next one needs another segment, which goes when its memory is refused */
	for (k = 0; k < 3; k++) {
		plat_inject_failures = k;
		assert_null(supply_alloc_pages(SUPPLY_PAGES_MAX, 0, 0, 0));
		plat_inject_failures = -1;
		unit_equal(usage().used, SEGMENT_SIZE / 2);
		unit_equal(usage().segments, 1);
		unit_equal(figures(0)->blocks, SEGMENT_SIZE / 2 / BLOCK_SIZE);
	}
	check_parts(run, SUPPLY_PAGES_MAX);
	supply_free(run);
}

/* A run of which a part was used is not zero; one that was given back meanwhile is. */
static void test_lengths_zero(void **state)
{
	size_t pages[] = { 19, 3 * pages_of_block() - 7 };
	struct page *run;

	(void)state;
	for (unsigned i = 0; i < array_size(pages); i++) {
		run = alloc_pages(pages[i], 0);
		unit_equal(run->dirty, PAGE_ZERO);
		assert_true(is_zero(run));
		mark(run, 1);
		supply_free(run);
		run = alloc_pages(pages[i], 0);
		unit_equal(run->dirty, PAGE_DIRTY);
		supply_free(run);
		supply_trim();
	}
	/* the last of three blocks was used */
	run = alloc_pages(3 * pages_of_block(), 0);
	supply_free(run);
	supply_trim();
	run = alloc_pages(2 * pages_of_block(), 0);
	supply_free(alloc(supply_max_order()));
	unit_equal(run->dirty, PAGE_ZERO);
	assert_ptr_equal(supply_page_of(page_address(run)), run);
	supply_free(run);
	unit_equal(alloc_pages(3 * pages_of_block(), 0)->dirty, PAGE_DIRTY);
}

/* Blocks that are in use as a whole may have huge pages, and lose that with what is given back. */
static void test_lengths_huge(void **state)
{
	struct page *run = alloc_pages(3 * pages_of_block() + 1, 0), *rest;
	char *p = page_address(run);

	(void)state;
	if (unit_emulated() || (!has_flag(p, " hg") && !has_flag(p + 3 * BLOCK_SIZE, " nh")))
		unit_skip("the kernel has no huge pages");
	assert_true(has_flag(p, " hg"));
	assert_true(has_flag(p + 3 * BLOCK_SIZE - 1, " hg"));
	assert_true(has_flag(p + 3 * BLOCK_SIZE, " nh"));
	rest = alloc_pages(pages_of_block() - 1, 0);
	if ((char *)page_address(rest) == p + 3 * BLOCK_SIZE + plat_page_size())
		assert_true(has_flag(p + 3 * BLOCK_SIZE, " hg"));
	supply_free(rest);
	supply_free(run);
	supply_trim();
	run = alloc_pages(5, 0);
	assert_true(has_flag(page_address(run), " nh"));
}

/* In the reserve a large run is at hand again, without a call. */
static void test_lengths_reserve(void **state)
{
	size_t sizes[] = { MiB, 3 * MiB, 16 * MiB };
	struct page *run;
	unsigned calls;
	char *p;

	(void)state;
	use_much();
	for (unsigned i = 0; i < array_size(sizes); i++) {
		size_t pages = sizes[i] >> plat_page_shift();

		run = alloc_pages(pages, 0);
		p = page_address(run);
		mark(run, i);
		calls = plat_inject_calls;
		for (unsigned k = 0; k < 5; k++) {
			supply_free(run);
			assert_true(usage().dirty >= sizes[i]);
			run = alloc_pages(pages, 0);
			assert_ptr_equal(page_address(run), p);
			check_mark(run, i);
		}
		unit_equal(plat_inject_calls, calls);
		supply_free(run);
		supply_trim();
	}
}

static void test_lengths_nodes(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	size_t pages[] = { 5, pages_of_block() + 1 };
	struct page *run;

	(void)state;
	unit_machine("0-3", NULL, cpus, 2);
	for (unsigned i = 0; i < array_size(pages); i++) {
		run = supply_alloc_pages(pages[i], 0, 1, 0);
		unit_equal(run->node, 1);
		check_parts(run, pages[i]);
		unit_equal(figures(1)->used, pages[i]);
		unit_equal(figures(0)->used, 0);
		supply_free(run);
		plat_inject_failures = 0; /* there is some on node 1 */
		assert_null(supply_alloc_pages(pages[i], 0, 0, SUPPLY_THISNODE));
		run = supply_alloc_pages(pages[i], 0, 0, 0);
		plat_inject_failures = -1;
		assert_non_null(run);
		unit_equal(run->node, 1);
		supply_free(run);
		unit_equal(figures(1)->used, 0);
	}
}

/* The policy of memory at an address, as in get_mempolicy(2). */
static int policy_of(void *p)
{
	int mode;

	if (syscall(SYS_get_mempolicy, &mode, NULL, 0, p, MPOL_F_ADDR))
		unit_skip("no memory policies here");
	return mode;
}

/* Blocks prefer their node also when they come back. */
static void test_nodes_again(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	struct page *run, *keep;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	unit_machine("0-3", NULL, cpus, 2);
	for (unsigned i = 0; i < 2; i++) {
		keep = alloc(0);
		run = alloc_pages(2 * pages_of_block(), 0);
		unit_equal(policy_of(page_address(keep)), MPOL_PREFERRED);
		unit_equal(policy_of(page_address(run)), MPOL_PREFERRED);
		unit_equal(policy_of((char *)page_address(run) + BLOCK_SIZE), MPOL_PREFERRED);
		supply_free(run);
		supply_free(keep);
		supply_trim();
	}
}

/* ---- longer and shorter --------------------------------------------------------------------------- */

static bool resize(struct page *page, size_t to)
{
	size_t from = page->pages;
	bool ok = supply_resize_pages(page, from, to);

	unit_equal(page->pages, ok ? to : from);
	check_parts(page, page->pages);
	return ok;
}

/* From each length to each, where nothing is in the way: at the start of a block, and after some pages. */
static void test_resize(void **state)
{
	size_t pages[100];
	unsigned n = lengths(pages), grown = 0, failed = 0;
	struct page *before, *run;
	char *p;

	(void)state;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = i % 3; k < n; k += 3) {
			before = k % 2 ? alloc_pages(k % 7 + 1, 0) : NULL;
			run = alloc_pages(pages[i], 0);
			p = page_address(run);
			run->client[3] = 12345; /* the client's, whatever becomes of the run */
			supply_tag(run, 5);
			mark(run, 1);
			if (resize(run, pages[k])) {
				grown += pages[k] > pages[i];
			} else {
				/* pages before it are in the way of a run of blocks */
				assert_true(pages[k] > pages[i]);
				check_mark(run, 1);
				failed++;
			}
			unit_equal(run->client[3], 12345);
			check_tag(run, 5);
			check_untagged(p + bytes_of(run));
			if (pages[k] <= pages[i])
				check_mark(run, 1);
			mark(run, 2);
			unit_equal(usage().used, bytes_of(run) + (before ? bytes_of(before) : 0));
			supply_free(run);
			if (before)
				supply_free(before);
			unit_equal(usage().used, 0);
			check_unknown(p, pages[k] * plat_page_size());
			check_untagged(p + (pages[k] - 1) * plat_page_size());
			for (size_t m = 0; m < max(pages[i], pages[k]); m++)
				assert_true(run[m].kind != PAGE_USED);
		}
	assert_true(grown > failed && failed);
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(usage().segments, 1);
}

/* Page by page to the largest run there is, and back; then nothing is left in the way of a whole one. */
static void test_resize_by_steps(void **state)
{
	struct page *run = alloc_pages(1, ilog2(SUPPLY_PAGES_MAX));
	size_t step = unit_slow() ? 97 : 7, pages;

	(void)state;
	supply_tag(run, 3);
	for (pages = 1; pages + step <= SUPPLY_PAGES_MAX; pages += step)
		assert_true(supply_resize_pages(run, pages, pages + step));
	check_parts(run, pages);
	check_tag(run, 3);
	mark(run, 1);
	assert_false(supply_resize_pages(run, pages, SUPPLY_PAGES_MAX + 1));
	assert_false(supply_resize_pages(run, pages, 0));
	assert_true(supply_resize_pages(run, pages, pages));
	check_parts(run, pages);
	check_mark(run, 1);
	for (; pages > step; pages -= step)
		assert_true(supply_resize_pages(run, pages, pages - step));
	check_parts(run, pages);
	check_mark(run, 1);
	unit_equal(usage().used, bytes_of(run));
	supply_free(run);
	supply_free(alloc_pages(SUPPLY_PAGES_MAX, 0));
	unit_equal(usage().used, 0);
}

/* Of what a run becomes by pages that were used before, not all is zero. */
static void test_resize_zero(void **state)
{
	struct page *run, *next;

	(void)state;
	run = alloc_pages(2, 2);
	next = alloc_pages(2, 1);
	assert_ptr_equal(next, run + 2);
	mark(next, 1);
	supply_free(next);
	unit_equal(run->dirty, PAGE_ZERO);
	assert_true(resize(run, 3));
	unit_equal(run->dirty, PAGE_DIRTY);
	supply_free(run);
	supply_trim();
	run = alloc_pages(2, 2);
	assert_true(resize(run, 2 * pages_of_block()));
	unit_equal(run->dirty, PAGE_ZERO);
	assert_true(is_zero(run));
}

/* What follows is another's: a page, or a block further on. */
static void test_resize_in_the_way(void **state)
{
	unsigned block = pages_of_block();
	size_t away[] = { 3, 9, block + 1, 3 * block };
	struct page *run, *wall;
	struct supply_usage before;
	char *p;

	(void)state;
	use_much();
	for (unsigned i = 0; i < array_size(away); i++) {
		/* a wall at that distance: the last pages of a run that is given back but for them */
		run = alloc_pages(away[i] + 1, 0);
		p = page_address(run);
		supply_free(run);
		run = alloc_pages(away[i], 0);
		wall = alloc(0);
		assert_ptr_equal(page_address(run), p);
		assert_ptr_equal(page_address(wall), p + bytes_of(run));
		mark(wall, 2);
		assert_true(resize(run, 1));
		mark(run, 1);
		before = usage();
		assert_false(resize(run, away[i] + 1));
		assert_false(resize(run, away[i] + 5));
		unit_equal(usage().used, before.used);
		unit_equal(usage().dirty, before.dirty);
		assert_true(resize(run, away[i]));
		assert_true(resize(run, 1));
		check_mark(run, 1);
		check_mark(wall, 2);
		supply_free(wall);
		assert_true(resize(run, away[i] + 1));
		supply_free(run);
	}
	/* the end of the segment */
	run = alloc_pages(SUPPLY_PAGES_MAX, ilog2(SUPPLY_PAGES_MAX));
	assert_true(resize(run, 1));
	assert_true(resize(run, SUPPLY_PAGES_MAX));
	supply_free(run);
	while (((uintptr_t)page_address(run = alloc(supply_max_order())) + BLOCK_SIZE) %
	       SEGMENT_SIZE)
		;
	assert_false(resize(run, block + 1));
}

/* Over free blocks and uncommitted ones, whichever of the latter cannot be had. */
static void test_resize_failures(void **state)
{
	struct page *behind, *run, *others[2];
	char *p = make_row(&behind);

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	for (unsigned i = 0; i < 2; i++)
		others[i] = supply_alloc(supply_max_order(), 0, SUPPLY_NOWAIT);
	run = supply_alloc_pages(3, supply_max_order(), 0, SUPPLY_NOWAIT);
	assert_ptr_equal(page_address(run), p);
	for (unsigned i = 0; i < 2; i++)
		supply_free(others[i]);
	mark(run, 1);
	supply_tag(run, 4);
	for (int k = 0; k < 3; k++) {
		struct supply_usage before = usage();
		bool ok;

		plat_inject_failures = k;
		ok = resize(run, 4 * pages_of_block() - 3);
		plat_inject_failures = -1;
		unit_equal(ok, k == 2);
		unit_equal(figures(0)->blocks, ok ? 6 : 4);
		if (ok)
			break;
		unit_equal(usage().used, before.used);
		unit_equal(usage().dirty, before.dirty);
		check_mark(run, 1);
		check_untagged(p + bytes_of(run));
		assert_false(has_flag(p + BLOCK_SIZE, " rd"));
		assert_false(has_flag(p + 3 * BLOCK_SIZE, " rd"));
	}
	check_tag(run, 4);
	unit_equal(run->dirty, PAGE_DIRTY);
	check_mark(behind, 77);
}

/* ---- where waiting is not allowed ----------------------------------------------------------------- */

static void test_nowait(void **state)
{
	struct page *whole, *page;
	unsigned calls;

	(void)state;
	calls = plat_inject_calls;
	assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT));
	assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT | SUPPLY_NOLOCK));
	unit_equal(plat_inject_calls, calls);
	supply_free(alloc(supply_max_order()));
	calls = plat_inject_calls;
	whole = supply_alloc(supply_max_order(), 0, SUPPLY_NOWAIT);
	check_run(whole, supply_max_order(), 0);
	assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT));
	supply_free(whole);
	page = supply_alloc(0, 0, SUPPLY_NOWAIT | SUPPLY_NOLOCK);
	check_run(page, 0, 0);
	unit_equal(plat_inject_calls, calls);
	plat_lock(supply_lock(0));
	assert_null(supply_alloc(0, 0, SUPPLY_NOWAIT | SUPPLY_NOLOCK));
	plat_unlock(supply_lock(0));
	supply_free(page);
}

/* Another node's memory serves, unless the caller insists. */
static void test_nodes(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };
	struct page *there, *page;

	(void)state;
	unit_machine("0-3", NULL, cpus, 2);
	there = supply_alloc(0, 1, 0);
	check_run(there, 0, 1);
	plat_inject_failures = 0;
	assert_null(supply_alloc(0, 0, SUPPLY_THISNODE));
	page = supply_alloc(0, 0, 0);
	check_run(page, 0, 1);
	plat_inject_failures = -1;
	supply_free(page);
	page = supply_alloc(0, 0, SUPPLY_THISNODE);
	check_run(page, 0, 0);
	/* each node has segments of its own */
	assert_true(((uintptr_t)page ^ (uintptr_t)there) >> SEGMENT_SHIFT);
	supply_free(page);
	supply_free(there);
	unit_equal(usage().used, 0);
}

/* ---- failing calls -------------------------------------------------------------------------------- */

/* Whichever call fails: NULL, nothing is lost, and the next try works. */
static void test_failures(void **state)
{
	size_t before = unit_mapped();
	struct page *page = NULL;
	unsigned k, calls;

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	for (k = 0; k < 10 && !page; k++) {
		calls = plat_inject_calls;
		plat_inject_failures = (int)k;
		page = supply_alloc(0, 0, 0);
		plat_inject_failures = -1;
		assert_true(plat_inject_calls > calls || page);
		unit_equal(usage().used, page ? plat_page_size() : 0);
		unit_equal(usage().dirty, 0);
		if (!usage().segments && !unit_sanitized() && !unit_under_valgrind())
			unit_equal(unit_mapped(), before);
		unit_equal(usage().segments, k < 2 ? 0 : 1);
	}
	/*
	 * The segment's address space, its head, and a block; the third time the segment is there
	 * already.
	 */
	unit_equal(k, 4);
	check_run(page, 0, 0);
	supply_free(page);
	/* and a block that could not be had then can be had now */
	for (unsigned i = 0; i < SEGMENT_SIZE / BLOCK_SIZE - 1; i++)
		alloc(supply_max_order());
	unit_equal(usage().segments, 1);
}

/* A segment that is full and no second one to be had. */
static void test_failing_growth(void **state)
{
	enum { BLOCKS = SEGMENT_SIZE / BLOCK_SIZE - 1 };
	struct page *runs[BLOCKS];
	unsigned n;

	(void)state;
	supply_free(alloc(0));
	plat_inject_failures = BLOCKS - 1; /* a block is there already */
	for (n = 0; n < BLOCKS; n++) {
		runs[n] = supply_alloc(supply_max_order(), 0, 0);
		check_run(runs[n], supply_max_order(), 0);
	}
	assert_null(supply_alloc(0, 0, 0));
	assert_null(supply_alloc(supply_max_order(), 0, 0));
	supply_free(runs[--n]);
	runs[n++] = supply_alloc(supply_max_order(), 0, 0);
	assert_non_null(runs[n - 1]);
	plat_inject_failures = -1;
	supply_free(alloc(0));
	unit_equal(usage().segments, 2);
	while (n--)
		supply_free(runs[n]);
	supply_trim();
	unit_equal(usage().segments, 1);
}

/* Address space for less than a segment: parts of one serve, down to 4 MiB. */
static void short_of_addresses(void *arg)
{
	struct rlimit limit;
	unsigned n = 0;

	(void)arg;
	limit.rlim_cur = limit.rlim_max = unit_mapped() + 24 * MiB;
	setrlimit(RLIMIT_AS, &limit);
	while (supply_alloc(supply_max_order(), 0, 0))
		n++;
	/* 16 MiB and 4 MiB or 8 MiB, each less its head */
	if (n < 7 + 1 || n > 11 || usage().segments < 2)
		unit_exit(1);
	unit_exit(usage().used == n * BLOCK_SIZE ? 42 : 2);
}

/* A run that does not fit a part of a segment is refused, and takes nothing with it. */
static void short_of_addresses_in_a_row(void *arg)
{
	struct rlimit limit;
	unsigned n = 0;
	size_t before;

	(void)arg;
	limit.rlim_cur = limit.rlim_max = unit_mapped() + 24 * MiB;
	setrlimit(RLIMIT_AS, &limit);
	before = unit_mapped();
	if (supply_alloc_pages(SUPPLY_PAGES_MAX, 0, 0, 0) || unit_mapped() != before)
		unit_exit(1);
	while (supply_alloc_pages(3 * pages_of_block(), 0, 0, 0))
		n++;
	/* two in 16 MiB, one in 8 MiB */
	if (n < 2 || n > 3)
		unit_exit(2);
	unit_exit(usage().used == n * 3 * BLOCK_SIZE ? 42 : 3);
}

/* Address space enough, but memory for a segment's head and little more. */
static void short_of_memory(void *arg)
{
	struct rlimit limit;

	(void)arg;
	supply_free(alloc(supply_max_order()));
	limit.rlim_cur = limit.rlim_max = 0;
	for (size_t data = 4 * MiB; !limit.rlim_cur; data += 4 * MiB) {
		struct rlimit trial = { .rlim_cur = data, .rlim_max = RLIM_INFINITY };
		void *p;

		setrlimit(RLIMIT_DATA, &trial);
		p = mmap(NULL, 8 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p != MAP_FAILED) {
			munmap(p, 8 * MiB);
			limit.rlim_cur = limit.rlim_max = data;
		}
	}
	if (supply_alloc_pages(SUPPLY_PAGES_MAX, 0, 0, 0))
		unit_exit(1);
	if (usage().segments != 1 || usage().used)
		unit_exit(2);
	unit_exit(supply_alloc_pages(pages_of_block() + 1, 0, 0, 0) ? 42 : 3);
}

static void test_short_of_memory(void **state)
{
	char text[1000];

	(void)state;
	if (unit_emulated() || unit_sanitized() || unit_under_valgrind())
		unit_skip("memory is limited by real calls alone");
	unit_equal(unit_child(short_of_memory, NULL, text, sizeof(text), 20), 42 << 8);
}

static void test_short_of_addresses(void **state)
{
	char text[1000];

	(void)state;
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
	if (unit_sanitized() || unit_under_valgrind())
		unit_skip("address space is the tool's");
	unit_equal(unit_child(short_of_addresses, NULL, text, sizeof(text), 20), 42 << 8);
	unit_equal(unit_child(short_of_addresses_in_a_row, NULL, text, sizeof(text), 20), 42 << 8);
}

/* ---- histories ------------------------------------------------------------------------------------ */

#define LIVE 300

struct live {
	struct page *page;
	uint64_t mark;
};

static size_t live_bytes(const struct live *live)
{
	size_t sum = 0;

	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].page)
			sum += bytes_of(live[i].page);
	return sum;
}

static void put(struct live *l)
{
	char *p = page_address(l->page);

	check_mark(l->page, l->mark);
	supply_free(l->page);
	assert_null(supply_page_of(p));
	l->page = NULL;
}

static void take(struct live *l)
{
	unsigned order = unit_below(6) ? unit_below(4) : unit_below(supply_max_order() + 1);
	bool fails = !unit_below(20);

	plat_inject_failures = fails ? (int)unit_below(2) : -1;
	l->page = supply_alloc(order, 0, unit_below(8) ? 0 : SUPPLY_NOWAIT);
	plat_inject_failures = -1;
	if (!l->page)
		return;
	check_run(l->page, order, 0);
	l->mark = unit_random();
	mark(l->page, l->mark);
}

/* Few pages mostly, and now and then some blocks. */
static size_t any_length(void)
{
	size_t most = unit_below(6) ? 40 : unit_below(6) ? pages_of_block() : SUPPLY_PAGES_MAX / 4;

	return 1 + unit_below((unsigned)most);
}

static void take_any(struct live *l)
{
	size_t pages = any_length();
	unsigned align = unit_below(4) ? 0 : unit_below(ilog2(SUPPLY_PAGES_MAX) + 1);
	bool fails = !unit_below(10);

	plat_inject_failures = fails ? (int)unit_below(3) : -1;
	l->page = supply_alloc_pages(pages, align, 0, unit_below(8) ? 0 : SUPPLY_NOWAIT);
	plat_inject_failures = -1;
	if (!l->page)
		return;
	unit_equal((uintptr_t)page_address(l->page) % run_bytes(align), 0);
	check_parts(l->page, pages);
	check_client_zero(l->page);
	if (!l->page->dirty)
		assert_true(is_zero(l->page));
	check_tag(l->page, 0);
	l->mark = unit_random();
	mark(l->page, l->mark);
	supply_tag(l->page, l->mark % 255 + 1);
}

/* Its old pages keep what they had. */
static void resize_any(struct live *l)
{
	size_t to = unit_below(3) ? l->page->pages + unit_below(20) : any_length();
	size_t kept = min(to, l->page->pages);
	const char *p = page_address(l->page);

	check_mark(l->page, l->mark);
	plat_inject_failures = unit_below(10) ? -1 : (int)unit_below(3);
	supply_resize_pages(l->page, l->page->pages, to);
	plat_inject_failures = -1;
	for (size_t i = 0; i < kept * plat_page_size(); i += plat_page_size())
		unit_equal(*(const uint64_t *)(p + i), l->mark + i);
	mark(l->page, l->mark);
}

static void put_any(struct live *l)
{
	check_parts(l->page, l->page->pages);
	check_tag(l->page, l->mark % 255 + 1);
	put(l);
}

static void test_history_of_lengths(void **state)
{
	static struct live live[LIVE];
	unsigned steps = unit_scaled(10000);
	struct live *l;

	(void)state;
	for (unsigned step = 0; step < steps; step++) {
		l = &live[unit_below(step / 1000 % 2 ? LIVE / 10 : LIVE / 3)];
		if (!l->page)
			take_any(l);
		else if (unit_below(2))
			resize_any(l);
		else
			put_any(l);
		if (!unit_below(200))
			supply_trim();
		unit_equal(usage().used, live_bytes(live));
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].page)
			put_any(&live[i]);
	unit_equal(usage().used, 0);
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(usage().segments, 1);
}

static void test_history(void **state)
{
	static struct live live[LIVE];
	unsigned steps = unit_scaled(20000);
	struct live *l;

	(void)state;
	for (unsigned step = 0; step < steps; step++) {
		/* It grows and shrinks in turns. */
		l = &live[unit_below(step / 1000 % 2 ? LIVE / 10 : LIVE)];
		if (l->page)
			put(l);
		else
			take(l);
		if (!unit_below(500))
			supply_trim();
		unit_equal(usage().used, live_bytes(live));
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].page)
			put(&live[i]);
	unit_equal(usage().used, 0);
	supply_trim();
	unit_equal(usage().dirty, 0);
	unit_equal(usage().segments, 1);
}

static void *hustle(void *arg)
{
	struct page *mine[16] = { NULL };
	uint64_t x = (uintptr_t)arg;

	for (unsigned i = 0; i < unit_scaled(3000); i++) {
		struct page **slot;

		x = x * 6364136223846793005u + 1442695040888963407u;
		slot = &mine[x >> 60];
		if (*slot) {
			if (*(uint64_t *)page_address(*slot) != (uintptr_t)slot)
				return arg;
			if (x >> 45 & 1) {
				supply_resize_pages(*slot, (*slot)->pages, (x >> 50) % 700 + 1);
				continue;
			}
			supply_free(*slot);
			*slot = NULL;
		} else {
			*slot = x >> 40 & 15 ? supply_alloc((x >> 50) % 6, 0, 0)
					     : supply_alloc_pages((x >> 50) % 2000 + 1, 0, 0, 0);
			if (*slot)
				*(uint64_t *)page_address(*slot) = (uintptr_t)slot;
		}
		if (!(x >> 32 & 255))
			supply_trim();
	}
	for (unsigned i = 0; i < 16; i++)
		if (mine[i])
			supply_free(mine[i]);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[4];
	void *bad;

	(void)state;
	for (uintptr_t i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hustle, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < array_size(threads); i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	unit_equal(usage().used, 0);
	supply_trim();
	unit_equal(usage().dirty, 0);
}

/* ---- the system's side ---------------------------------------------------------------------------- */

static void test_reservations(void **state)
{
	size_t got;

	(void)state;
	for (size_t slot = SEGMENT_SIZE; slot >= 4 * MiB; slot /= 2) {
		char *p = plat_reserve(slot, 4 * MiB, &got), *q = plat_reserve(slot, slot, &got);

		assert_non_null(p);
		assert_non_null(q);
		unit_equal(got, slot);
		unit_equal((uintptr_t)p % slot, 0);
		unit_equal((uintptr_t)q % slot, 0);
		unit_equal(plat_commit(p, MiB), 0);
		for (size_t i = 0; i < MiB; i++)
			assert_int_equal(p[i], 0);
		memset(p, 1, MiB);
		plat_purge(p, MiB / 2);
		unit_equal(p[0], 0);
		unit_equal(p[MiB - 1], 1);
		unit_equal(plat_decommit(p, MiB), 0);
		unit_equal(plat_commit(p, MiB), 0);
		unit_equal(p[MiB - 1], 0);
		plat_unmap(p, slot);
		plat_unmap(q, slot);
	}
}

/* As many as one likes, wherever the system puts mappings. */
static void test_reservations_often(void **state)
{
	size_t got;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		char *p = plat_reserve(SEGMENT_SIZE, 4 * MiB, &got);

		if (!p)
			fail_msg("no reservation after %u", i);
		unit_equal((uintptr_t)p % SEGMENT_SIZE, 0);
		unit_equal(got, SEGMENT_SIZE);
	}
}

static void run_with_old_layout(void *arg)
{
	(void)arg;
	personality((unsigned)personality(0xffffffff) | ADDR_COMPAT_LAYOUT);
	execl("/proc/self/exe", "test_supply", "test_reservations_often", NULL);
	unit_exit(77);
}

/* From low addresses upwards: the old layout, also that of processes with an unlimited stack. */
static void test_reservations_upwards(void **state)
{
	char text[1000];
	int status;

	(void)state;
	if (unit_sanitized() || unit_under_valgrind())
		unit_skip("address space is the tool's");
	status = unit_child(run_with_old_layout, NULL, text, sizeof(text), 60);
	if (status == 77 << 8)
		unit_skip("no such personality");
	unit_equal(status, 0);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_orders, UNIT_SHARED),
		UNIT_TEST(test_neighbours, UNIT_SHARED),
		UNIT_TEST(test_unknown_addresses, UNIT_SHARED),
		UNIT_TEST(test_tags, UNIT_SHARED),
		UNIT_TEST(test_tags_of_any_length, UNIT_SHARED),
		UNIT_TEST(test_tags_of_returned_block, UNIT_SHARED),
		UNIT_TEST(test_join, UNIT_SHARED),
		UNIT_TEST(test_join_around, UNIT_SHARED),
		UNIT_TEST(test_choice, UNIT_SHARED),
		UNIT_TEST(test_choice_dirty_first, UNIT_SHARED),
		UNIT_TEST(test_trim_block, UNIT_SHARED),
		UNIT_TEST(test_trim_runs, UNIT_SHARED),
		UNIT_TEST(test_zero, UNIT_SHARED),
		UNIT_TEST(test_locked, UNIT_SHARED),
		UNIT_TEST(test_segments_go, UNIT_SHARED),
		UNIT_TEST(test_reserve_most, UNIT_SHARED),
		UNIT_TEST(test_reserve_patience, UNIT_SHARED),
		UNIT_TEST(test_reserve_least, UNIT_SHARED),
		UNIT_TEST(test_lengths, UNIT_SHARED),
		UNIT_TEST(test_no_lengths, UNIT_SHARED),
		UNIT_TEST(test_alignments, UNIT_SHARED),
		UNIT_TEST(test_tails, UNIT_SHARED),
		UNIT_TEST(test_tail_of_blocks, UNIT_SHARED),
		UNIT_TEST(test_row, UNIT_SHARED),
		UNIT_TEST(test_row_at_hand, UNIT_SHARED),
		UNIT_TEST(test_row_failures, UNIT_SHARED),
		UNIT_TEST(test_row_without_memory, UNIT_SHARED),
		UNIT_TEST(test_lengths_failures, UNIT_SHARED),
		UNIT_TEST(test_lengths_zero, UNIT_SHARED),
		UNIT_TEST(test_lengths_huge, UNIT_SHARED),
		UNIT_TEST(test_lengths_reserve, UNIT_SHARED),
		UNIT_TEST(test_lengths_nodes, UNIT_SHARED),
		UNIT_TEST(test_nodes_again, UNIT_SHARED),
		UNIT_TEST(test_resize, UNIT_SHARED),
		UNIT_TEST(test_resize_by_steps, UNIT_SHARED),
		UNIT_TEST(test_resize_zero, UNIT_SHARED),
		UNIT_TEST(test_resize_in_the_way, UNIT_SHARED),
		UNIT_TEST(test_resize_failures, UNIT_SHARED),
		UNIT_TEST(test_nowait, UNIT_SHARED),
		UNIT_TEST(test_nodes, UNIT_SHARED),
		UNIT_TEST(test_failures, UNIT_SHARED),
		UNIT_TEST(test_failing_growth, UNIT_SHARED),
		UNIT_TEST(test_short_of_addresses, UNIT_SHARED),
		UNIT_TEST(test_short_of_memory, UNIT_SHARED),
		UNIT_TEST(test_history, UNIT_SHARED),
		UNIT_TEST(test_history_of_lengths, UNIT_SHARED),
		UNIT_TEST(test_threads, UNIT_REAL),
		UNIT_TEST(test_reservations, UNIT_REAL),
		UNIT_TEST(test_reservations_often, UNIT_REAL),
		UNIT_TEST(test_reservations_upwards, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
