/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out at every possible place of the general allocator: for k = 0, 1, 2, ... the k-th call that maps
 * memory fails, and all later ones, or that one alone. Whoever asks gets NULL and ENOMEM then, keeps what he had
 * with its content, and when there is memory again nothing is lost. Each k is tried in a process of its own.
 */
#include <urcu/flavor.h>
#include <uslub/malloc.h>

#include "unit.h"
#include "malloc/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define PIECES 400

struct setting {
	void (*scenario)(size_t size);
	size_t size;
	unsigned pieces;
	bool once; /* only one call fails */
	unsigned k;
};

struct piece {
	unsigned char *p;
	size_t size;
	unsigned char seed;
};

static const struct setting *set;
static struct piece pieces[PIECES];
static unsigned npieces, refusals, base_calls;

/* ---- what may fail -------------------------------------------------------------------------------- */

/* After each call: has the one failed that was to fail? */
static bool passed(void)
{
	bool hit = plat_inject_calls - base_calls > set->k;

	if (hit && set->once)
		plat_inject_failures = -1;
	return hit;
}

/* The ends, and something between. */
static void fill(struct piece *piece)
{
	for (size_t at = 0; at < piece->size; at += 1 + piece->size / 50)
		piece->p[at] = (unsigned char)(piece->seed + at);
	piece->p[piece->size - 1] = piece->seed;
}

static void check(const struct piece *piece, size_t kept)
{
	for (size_t at = 0; at < kept && at < piece->size - 1; at += 1 + piece->size / 50)
		assert_int_equal(piece->p[at], (unsigned char)(piece->seed + at));
	if (kept == piece->size)
		assert_int_equal(piece->p[kept - 1], piece->seed);
}

static bool got(void *p)
{
	bool hit = passed();

	if (p)
		return true;
	unit_equal(errno, ENOMEM);
	assert_true(hit);
	refusals++;
	return false;
}

static void keep(void *p, size_t size)
{
	if (!got(p))
		return;
	assert_true(npieces < PIECES);
	pieces[npieces] = (struct piece){ p, size, (unsigned char)npieces };
	fill(&pieces[npieces++]);
}

static void put(void (*fn)(void *p))
{
	struct piece *piece = &pieces[--npieces];

	check(piece, piece->size);
	errno = E2BIG;
	fn(piece->p);
	unit_equal(errno, E2BIG);
	passed();
}

static void zeros(unsigned char *p, size_t size)
{
	for (size_t at = 0; p && at < size; at += 1 + size / 1000)
		assert_int_equal(p[at], 0);
	keep(p, size);
}

static void resize(unsigned i, size_t size)
{
	struct piece *piece = &pieces[i];
	void *p;

	errno = 0;
	p = uslub_realloc(piece->p, size);
	if (!got(p)) {
		check(piece, piece->size);
		return;
	}
	piece->p = p;
	check(piece, min(size, piece->size - 1));
	piece->size = size;
	fill(piece);
}

/* ---- scenarios ------------------------------------------------------------------------------------ */

static void use_malloc(size_t size)
{
	for (unsigned i = 0; i < set->pieces; i++) {
		errno = 0;
		keep(uslub_malloc(size), size);
	}
	while (npieces > set->pieces / 2)
		put(uslub_free);
	uslub_malloc_trim();
	passed();
	for (unsigned i = 0; i < set->pieces / 2; i++) {
		errno = 0;
		keep(uslub_malloc_flags(size, 0), size);
	}
}

static void use_calloc(size_t size)
{
	for (unsigned i = 0; i < set->pieces; i++) {
		errno = 0;
		zeros(uslub_calloc(size, 1), size);
		errno = 0;
		zeros(uslub_malloc_flags(size, USLUB_ZERO), size);
		if (npieces && i % 3)
			put(uslub_free);
	}
}

static void use_aligned(size_t size)
{
	for (unsigned i = 0; i < set->pieces; i++) {
		size_t align = (size_t)32 << i % 18;
		void *p;

		errno = 0;
		p = uslub_aligned_alloc(align, size);
		assert_int_equal((uintptr_t)p % align, 0);
		keep(p, size);
	}
}

static void use_realloc(size_t size)
{
	unsigned n;

	for (unsigned i = 0; i < set->pieces; i++) {
		errno = 0;
		keep(uslub_realloc(NULL, size), size);
	}
	n = npieces;
	for (unsigned i = 0; i < n; i++) {
		resize(i, 2 * size);
		resize(i, size / 3);
		resize(i, 20 * KIB);
		resize(i, i % 8 ? 200 * KIB : 40 * MIB);
		resize(i, i % 8 ? 90 * KIB : 70 * MIB);
		resize(i, size);
	}
}

static void free_later(void *p)
{
	uslub_free_rcu_any(&urcu_memb_flavor, p);
}

static void use_rcu(size_t size)
{
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < set->pieces; i++) {
			errno = 0;
			keep(uslub_malloc(size), size);
		}
		while (npieces > set->pieces / 3)
			put(free_later);
	}
}

static void use_nolock(size_t size)
{
	for (unsigned i = 0; i < set->pieces; i++) {
		errno = 0;
		keep(uslub_malloc(size), size);
	}
	while (npieces)
		put(uslub_free_nolock);
	for (unsigned i = 0; i < set->pieces; i++) {
		errno = 0;
		keep(uslub_malloc(size), size);
	}
}

/* ---- one k ---------------------------------------------------------------------------------------- */

static size_t used_by_pieces(void)
{
	size_t sum = 0;

	for (unsigned i = 0; i < npieces; i++)
		sum += uslub_usable_size(pieces[i].p);
	return sum;
}

static bool used_is(void *arg)
{
	struct uslub_malloc_info i;

	uslub_malloc_info(&i);
	return i.used == *(const size_t *)arg;
}

static void wait_used(size_t used)
{
	for (unsigned tag = TAG_CLASS; tag < TAG_RUN; tag++)
		if (malloc_caches[tag])
			uslub_cache_barrier_rcu(malloc_caches[tag]);
	if (!unit_wait(used_is, &used))
		fail_msg("%zu bytes are not what is used", used);
}

static void check_nothing_lost(void)
{
	uslub_free(uslub_malloc(40 * KIB)); /* with what was freed without locks */
	wait_used(used_by_pieces());
	for (unsigned i = 0; i < npieces; i++)
		check(&pieces[i], pieces[i].size);
}

/* The system has memory again. */
static void recover(void)
{
	struct supply_usage usage;
	struct uslub_malloc_info i;

	plat_inject_failures = -1;
	check_nothing_lost();
	while (npieces)
		put(uslub_free);
	refusals = 0;
	base_calls = plat_inject_calls + 1000000; /* none may fail now */
	set->scenario(set->size);
	unit_equal(refusals, 0);
	check_nothing_lost();
	while (npieces)
		put(uslub_free);
	wait_used(0);
	uslub_malloc_trim();
	uslub_malloc_info(&i);
	unit_equal(i.mapped, 0);
	unit_equal(i.mappings, 0);
	unit_equal(i.cached, 0);
	/* What is left is the internal caches', the classes', and blocks of pointers for deferred frees. */
	supply_usage(&usage);
	assert_true(usage.used <= (16 + 100) * plat_page_size());
}

static void try_k(void *arg)
{
	bool hit;

	set = arg;
	/* that a flavor is known needs memory, and is not asked for again */
	uslub_free_rcu_any(&urcu_memb_flavor, uslub_malloc(100 * KIB));
	wait_used(0);
	base_calls = plat_inject_calls;
	plat_inject_failures = (int)set->k;
	set->scenario(set->size);
	hit = passed();
	recover();
	unit_exit(hit ? 0 : 42);
}

static void each_k_of(struct setting s)
{
	char text[4000];
	int status = 0;

	for (s.k = 0; s.k < 400; s.k += unit_slow() ? 9 : 1) {
		status = unit_child(try_k, &s, text, sizeof(text), unit_scaled(200));
		if (status == 42 << 8)
			break; /* there are no k calls */
		if (status)
			fail_msg("%zu bytes: call %u failed%s: status %#x: %s", s.size, s.k,
				 s.once ? " alone" : "", status, text);
	}
	unit_equal(status, 42 << 8);
	assert_true(s.k > 0);
}

/* For sizes of each kind. */
static void each_k(void (*scenario)(size_t size))
{
	static const struct {
		size_t size;
		unsigned pieces;
	} kinds[] = {
		{ 3000, 100 },
		{ 32 * KIB, 40 },
		{ 100 * KIB, 30 },
		{ 40 * MIB, 4 },
	};

	if (unit_under_valgrind())
		unit_skip("valgrind takes what was given up and is had again for lost");
	for (unsigned i = 0; i < array_size(kinds); i++)
		for (unsigned once = 0; once < 2; once++)
			each_k_of((struct setting){ .scenario = scenario,
						    .size = kinds[i].size,
						    .pieces = kinds[i].pieces,
						    .once = once });
}

static void test_malloc_fails(void **state)
{
	(void)state;
	each_k(use_malloc);
}

static void test_calloc_fails(void **state)
{
	(void)state;
	each_k(use_calloc);
}

static void test_aligned_fails(void **state)
{
	(void)state;
	each_k(use_aligned);
}

static void test_realloc_fails(void **state)
{
	(void)state;
	each_k(use_realloc);
}

static void test_rcu_fails(void **state)
{
	(void)state;
	each_k(use_rcu);
}

static void test_nolock_fails(void **state)
{
	(void)state;
	each_k(use_nolock);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_malloc_fails, UNIT_BOTH),
		UNIT_TEST(test_calloc_fails, UNIT_FAKED),
		UNIT_TEST(test_aligned_fails, UNIT_FAKED),
		UNIT_TEST(test_realloc_fails, UNIT_SHARED),
		UNIT_TEST(test_rcu_fails, UNIT_BOTH),
		UNIT_TEST(test_nolock_fails, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
