/* SPDX-License-Identifier: MIT */
/* The arena: pieces of every size, zeroed, apart from each other, and used again. */
#include "unit.h"
#include "tiers/arena.h"

static bool all_zero(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p[i])
			return false;
	return true;
}

/* Pieces of a size: two at once, filled, freed, and had again. */
static void try_size(size_t size)
{
	char *a = arena_alloc(size), *b = arena_alloc(size), *c;

	assert_non_null(a);
	assert_non_null(b);
	unit_equal((uintptr_t)a % CACHE_LINE, 0);
	unit_equal((uintptr_t)b % CACHE_LINE, 0);
	assert_true(a + size <= b || b + size <= a);
	assert_true(all_zero(a, size));
	memset(a, 0xff, size);
	assert_true(all_zero(b, size));
	memset(b, 0xee, size);
	arena_free(a, size);
	c = arena_alloc(size);
	assert_non_null(c);
	assert_true(all_zero(c, size));
	for (size_t i = 0; i < size; i++)
		assert_int_equal((unsigned char)b[i], 0xee);
	arena_free(c, size);
	arena_free(b, size);
}

static void test_small_sizes(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 32768; size += size < 300 ? 1 : 4093)
		try_size(size);
	for (size_t size = 64; size <= 32768; size *= 2) {
		try_size(size - 1);
		try_size(size);
		if (size < 32768)
			try_size(size + 1);
	}
}

static void test_reuse(void **state)
{
	void *a, *b;

	(void)state;
	a = arena_alloc(300);
	b = arena_alloc(300);
	arena_free(a, 300);
	arena_free(b, 300);
	assert_ptr_equal(arena_alloc(512), b); /* the same class, last in first out */
	assert_ptr_equal(arena_alloc(257), a);
	arena_free(NULL, 300);
	arena_free(NULL, 1000000);
}

static void test_failures(void **state)
{
	unsigned calls;
	void *p, *q;

	(void)state;
	plat_inject_failures = 0;
	assert_null(arena_alloc(100));
	assert_null(arena_alloc(100000));
	plat_inject_failures = -1;
	p = arena_alloc(100);
	assert_non_null(p);
	/* The chunk is there now: small pieces need no call, large ones do. */
	plat_inject_failures = 0;
	calls = plat_inject_calls;
	q = arena_alloc(100);
	assert_non_null(q);
	unit_equal(plat_inject_calls, calls);
	assert_null(arena_alloc(100000));
	/* until the chunk is used up */
	for (unsigned i = 0; i < 100; i++)
		if (!arena_alloc(30000))
			break;
	assert_null(arena_alloc(30000));
	arena_free(q, 100);
	assert_ptr_equal(arena_alloc(100), q);
	plat_inject_failures = -1;
	assert_non_null(arena_alloc(30000));
}

#define LIVE 100

struct live {
	unsigned char *p;
	size_t size;
	unsigned char fill;
};

static void check(const struct live *l)
{
	for (size_t i = 0; i < l->size; i++)
		assert_int_equal(l->p[i], l->fill);
}

/* Pieces of up to `most` bytes come and go. */
static void history(unsigned most)
{
	static struct live live[LIVE];
	struct live *l;

	for (unsigned step = 0; step < unit_scaled(20000); step++) {
		l = &live[unit_below(LIVE)];
		if (l->p) {
			check(l);
			arena_free(l->p, l->size);
			l->p = NULL;
			continue;
		}
		l->size = 1 + unit_below(unit_below(10) ? 2000 : most);
		l->p = arena_alloc(l->size);
		assert_non_null(l->p);
		assert_true(all_zero((char *)l->p, l->size));
		l->fill = (unsigned char)(step | 1);
		memset(l->p, l->fill, l->size);
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].p)
			check(&live[i]);
}

static void test_history_small(void **state)
{
	(void)state;
	history(32768);
}

/*
 * More than half of what gets a mapping of its own: the largest class of pieces. The arrays of 100 to
 * 200 CPUs are of such sizes.
 */
static void test_history_to_64_kib(void **state)
{
	(void)state;
	for (size_t size = 32769; size < 65536; size += 4095)
		try_size(size);
	history(65535);
}

static void test_history_large(void **state)
{
	(void)state;
	history(32768);
	for (size_t size = 65536; size < 1000000; size = size * 5 / 4)
		try_size(size);
	history(32768);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_small_sizes, UNIT_SHARED),
		UNIT_TEST(test_reuse, UNIT_SHARED),
		UNIT_TEST(test_failures, UNIT_SHARED),
		UNIT_TEST(test_history_small, UNIT_SHARED),
		UNIT_TEST(test_history_to_64_kib, UNIT_SHARED),
		UNIT_TEST(test_history_large, UNIT_SHARED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
