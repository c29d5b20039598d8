/* SPDX-License-Identifier: MIT */
/*
 * The evaluation of recipes: every kind and use over arrays made by hand, then nonsense of every sort. Each
 * array ends where a page ends that has none behind it, so that whoever looks beyond it dies.
 */
#include <sys/mman.h>

#include "unit.h"
#include "platform/percpu.h"
#include "stats/recipe.h"

/* ---- arrays --------------------------------------------------------------------------------------- */

static struct recipe_view view;

/* So many zeroed bytes at the end of a page; behind them is nothing. */
static void *guarded(size_t size)
{
	size_t page = plat_page_size(), whole = align_up(size, page) + page;
	char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + whole - page, page, PROT_NONE), 0);
	return p + whole - page - size;
}

static void *array(enum recipe_array which, unsigned stride, unsigned count)
{
	char *base = guarded((size_t)stride * count);

	view.arrays[which] = (struct recipe_elements){ base, stride, count, NULL };
	return base;
}

static uint64_t value(struct recipe r)
{
	return recipe_value(&r, &view);
}

static uint64_t of_node(struct recipe r, unsigned node)
{
	return recipe_node(&r, &view, node);
}

static uint64_t of_cpu(struct recipe r, unsigned slot)
{
	return recipe_cpu(&r, &view, slot);
}

#define TERM(in, ...)                                                                              \
	{                                                                                          \
		.array = RECIPE_##in, __VA_ARGS__                                                  \
	}
#define WORD(in, at) TERM(in, .width = 8, .offset = (at))
#define RECIPE(how, ...)                                                                           \
	(struct recipe)                                                                            \
	{                                                                                          \
		.kind = RECIPE_##how,                                                              \
		.nterms = sizeof((struct recipe_term[]){ __VA_ARGS__ }) /                          \
			  sizeof(struct recipe_term),                                              \
		.terms = {                                                                         \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

/* ---- what there is ------------------------------------------------------------------------------- */

static void test_words(void **state)
{
	uint64_t *cache = array(RECIPE_CACHE, 64, 1);

	(void)state;
	cache[0] = 0x8877665544332211;
	cache[1] = 3;
	unit_equal(value(RECIPE(NONE, WORD(CACHE, 0))), 0);
	unit_equal(value(RECIPE(SUM, WORD(CACHE, 8))), 3);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 1, .offset = 1))), 0x22);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 2, .offset = 2))), 0x4433);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 4, .offset = 4))), 0x88776655);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 8, .shift = 4, .bits = 12))), 0x221);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 8, .shift = 60))), 8);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 4, .bits = 64))), 0x44332211);
	unit_equal(value(RECIPE(SUM, TERM(ONE, .factor = 100), WORD(CACHE, 8))), 103);
	unit_equal(value(RECIPE(SUM, TERM(ONE), TERM(ONE), TERM(ONE, .factor = -1))), 1);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 8, .offset = 8, .factor = -1))), 0);
	unit_equal(value(RECIPE(SUM, TERM(CACHE, .width = 8, .offset = 8, .times = 8))), 9);
	unit_equal(
		value(RECIPE(SUM, TERM(CACHE, .width = 8, .offset = 8, .times = 8, .factor = 5))),
		45);
}

/* Sums over elements; those whose bit is not set are not looked at. */
static void test_slots(void **state)
{
	uint64_t *slots = array(RECIPE_SLOTS, 16, 70), *used = guarded(16);
	struct recipe sum = RECIPE(SUM, WORD(SLOTS, 8), TERM(ONE, .factor = 1000));

	(void)state;
	for (unsigned i = 0; i < 70; i++)
		slots[2 * i + 1] = i;
	unit_equal(value(sum), 69 * 70 / 2 + 1000);
	unit_equal(of_cpu(sum, 69), 69);
	unit_equal(of_cpu(sum, 70), 0);
	view.arrays[RECIPE_SLOTS].used = used;
	unit_equal(value(sum), 1000);
	unit_equal(of_cpu(sum, 69), 0);
	used[1] = 1ull << (69 - 64);
	used[0] = 1ull << 7 | 1ull << 63;
	unit_equal(value(sum), 1000 + 7 + 63 + 69);
	unit_equal(of_cpu(sum, 69), 69);
	unit_equal(of_cpu(sum, 8), 0);
}

static void test_nodes(void **state)
{
	uint64_t *nodes = array(RECIPE_NODES, 16, 3), *shards = array(RECIPE_SHARDS, 8, 6);
	uint64_t *counters = array(RECIPE_COUNTERS, 32, 2);
	struct recipe all = RECIPE(SUM, WORD(NODES, 8), WORD(SHARDS, 0),
				   TERM(COUNTERS, .width = 8, .node_step = 8));
	struct recipe clamped = RECIPE(CLAMPED, WORD(NODES, 8),
				       TERM(COUNTERS, .width = 8, .node_step = 8, .factor = -1));

	(void)state;
	view.nodes = 3;
	for (unsigned n = 0; n < 3; n++) {
		nodes[2 * n + 1] = 10 * (n + 1);
		shards[2 * n] = 1;
		shards[2 * n + 1] = 2 + n;
		counters[n] = 100;
		counters[4 + n] = (uint64_t)n - 100; /* together n; a column alone means nothing */
	}
	for (unsigned n = 0; n < 3; n++) {
		unit_equal(of_node(all, n), 10 * (n + 1) + 3 + n + n);
		unit_equal(of_node(clamped, n), 10 * (n + 1) - n);
	}
	unit_equal(of_node(all, 3), 0);
	unit_equal(value(clamped), 60 - 3);
	/* one node below 0, another one above what it has */
	counters[0] = 5000;
	counters[1] = (uint64_t)-5000;
	unit_equal(of_node(clamped, 0), 0);
	unit_equal(of_node(clamped, 1), 20);
	unit_equal(value(clamped), 0 + 20 + 28);
}

static void test_ages(void **state)
{
	uint64_t *domain = array(RECIPE_DOMAIN, 16, 1), *cache = array(RECIPE_CACHE, 8, 1);
	struct recipe age = RECIPE(AGE, WORD(CACHE, 0), WORD(DOMAIN, 0), WORD(DOMAIN, 8));

	(void)state;
	view.now = 1000;
	domain[1] = 400;
	unit_equal(value(age), 0);
	*cache = 1;
	unit_equal(value(age), 600);
	domain[0] = 300;
	unit_equal(value(age), 700);
	domain[0] = 1000; /* at this tick */
	unit_equal(value(age), 1);
	domain[0] = 1001; /* it has not begun yet */
	unit_equal(value(age), 1);
	unit_equal(value((struct recipe){ .kind = RECIPE_AGE }), 0);
}

/* ---- sheaves -------------------------------------------------------------------------------------- */

#define AT 0x1234500000u

static uint64_t asked;
static struct recipe_sheaf found;

static bool peek(const struct recipe_view *v, uint64_t address, struct recipe_sheaf *sheaf)
{
	(void)v;
	asked = address;
	*sheaf = found;
	return address == AT;
}

static void test_sheaves(void **state)
{
	uint64_t *slots = array(RECIPE_SLOTS, 24, 1);
	struct recipe fill = RECIPE(SUM, TERM(SLOTS, .use = RECIPE_FILL, .width = 8));
	struct recipe room =
		RECIPE(SUM, TERM(SLOTS, .use = RECIPE_ROOM, .width = 8, .shift = 8, .bits = 4));
	struct recipe spare = RECIPE(SUM, TERM(SLOTS, .use = RECIPE_SPARE));

	(void)state;
	view.peek = peek;
	view.self = 77;
	found = (struct recipe_sheaf){ 77, 30, 12 };
	unit_equal(value(fill), 0);
	unit_equal(asked, 0); /* an address of 0 is none */
	slots[0] = AT;
	unit_equal(value(fill), 12);
	slots[0] = AT << 4 | 0xff;
	unit_equal(value(room), 30 - 12);
	unit_equal(asked, AT);
	slots[0] = 0; /* the first sheaf is main: that beside it is meant */
	slots[1] = 1;
	slots[2] = AT;
	unit_equal(value(spare), 12);
	slots[0] = WORD_WHICH;
	unit_equal(value(spare), 0);
	unit_equal(asked, 1);
	slots[1] = AT;
	unit_equal(value(spare), 12);
	/* not a sheaf, or not this cache's, any more */
	found.fill = 31;
	unit_equal(value(spare), 0);
	found = (struct recipe_sheaf){ 78, 30, 12 };
	unit_equal(value(spare), 0);
	found.cache = 77;
	view.peek = NULL;
	unit_equal(value(spare), 0);
}

/* ---- nonsense ------------------------------------------------------------------------------------- */

static void nothing(struct recipe_term t)
{
	for (unsigned use = RECIPE_WORD; use <= RECIPE_ROOM; use++) {
		t.use = (uint8_t)use;
		unit_equal(value(RECIPE(SUM, t)), 0);
		unit_equal(of_cpu(RECIPE(SUM, t), 0), 0);
		unit_equal(of_node(RECIPE(SUM, t), 0), 0);
	}
}

/* What does not lie in an element as words do counts as 0. */
static void test_outside(void **state)
{
	uint64_t *slots = array(RECIPE_SLOTS, 24, 2);

	(void)state;
	view.nodes = 1;
	view.peek = peek;
	memset(slots, 1, 48);
	nothing((struct recipe_term)WORD(SLOTS, 24));
	nothing((struct recipe_term)WORD(SLOTS, 20));
	nothing((struct recipe_term)WORD(SLOTS, UINT32_MAX - 7));
	nothing((struct recipe_term)WORD(SLOTS, 1));
	nothing((struct recipe_term)TERM(SLOTS, .width = 8, .shift = 64));
	nothing((struct recipe_term)TERM(SLOTS, .width = 8, .shift = 255, .bits = 255));
	nothing((struct recipe_term){ .array = RECIPE_ARRAYS, .width = 8 });
	nothing((struct recipe_term){ .array = 255, .width = 8, .node_step = 8 });
	nothing((struct recipe_term)WORD(BARNS, 0)); /* no such array */
	for (unsigned width = 0; width < 256; width++)
		if (width != 1 && width != 2 && width != 4 && width != 8)
			unit_equal(value(RECIPE(SUM, TERM(SLOTS, .width = (uint8_t)width))), 0);
	/* what to multiply with is not there, or outside of the cache */
	unit_equal(value(RECIPE(SUM, TERM(ONE, .times = 4))), 0);
	array(RECIPE_CACHE, 8, 1);
	unit_equal(value(RECIPE(SUM, TERM(ONE, .times = 8))), 0);
	unit_equal(value(RECIPE(SUM, TERM(ONE, .times = UINT32_MAX - 3))), 0);
}

/* Elements that do not begin where words do. */
static void test_askew(void **state)
{
	char *slots = array(RECIPE_SLOTS, 12, 5);

	(void)state;
	memset(slots, 1, 60);
	unit_equal(value(RECIPE(SUM, TERM(SLOTS, .width = 1))), 5);
	unit_equal(value(RECIPE(SUM, TERM(SLOTS, .width = 4))), 5 * 0x01010101);
	assert_true(value(RECIPE(SUM, WORD(SLOTS, 0))) <= 5 * 0x0101010101010101);
	view.arrays[RECIPE_SLOTS].base++;
	view.arrays[RECIPE_SLOTS].count--;
	assert_true(value(RECIPE(SUM, WORD(SLOTS, 0))) <= 5 * 0x0101010101010101);
	view.arrays[RECIPE_SLOTS].count = 0;
	unit_equal(value(RECIPE(SUM, WORD(SLOTS, 0))), 0);
	view.arrays[RECIPE_SLOTS].count = UINT32_MAX;
	view.arrays[RECIPE_SLOTS].base = NULL;
	unit_equal(value(RECIPE(SUM, WORD(SLOTS, 0))), 0);
}

static void test_counts(void **state)
{
	struct recipe r = RECIPE(SUM, TERM(ONE), TERM(ONE), TERM(ONE), TERM(ONE), TERM(ONE),
				 TERM(ONE));

	(void)state;
	r.nterms = 255;
	unit_equal(value(r), RECIPE_TERMS);
	r.kind = 255;
	unit_equal(value(r), 0);
	r.kind = RECIPE_CLAMPED;
	unit_equal(value(r), 0);
}

static uint32_t odd_number(void)
{
	static const uint32_t some[] = { 0,  1,	 3,   4,    7,	   8,	     16,	24,
					 63, 64, 255, 4096, 65535, 1u << 31, UINT32_MAX };

	return unit_below(2) ? some[unit_below(array_size(some))] : unit_below(80);
}

static struct recipe_term odd_term(void)
{
	return (struct recipe_term){
		.array = (uint8_t)(unit_below(16) ? unit_below(RECIPE_ARRAYS + 1) : odd_number()),
		.use = (uint8_t)(unit_below(16) ? unit_below(4) : odd_number()),
		.width = (uint8_t)(unit_below(4) ? 8 : odd_number()),
		.shift = (uint8_t)(unit_below(2) ? 0 : odd_number()),
		.bits = (uint8_t)(unit_below(2) ? 0 : odd_number()),
		.node_step = (uint16_t)(unit_below(2) ? 0 : odd_number()),
		.offset = unit_below(2) ? 8 * unit_below(4) : odd_number(),
		.times = unit_below(2) ? 0 : odd_number(),
		.factor = (int32_t)odd_number(),
	};
}

/* Numbers may be anything, but nothing else is touched, and each comes out the same again. */
static void test_random(void **state)
{
	uint64_t *used = guarded(8), sum = 0;

	(void)state;
	for (unsigned i = 1; i < RECIPE_ARRAYS; i++) {
		unsigned stride = 8 * (1 + unit_below(4)), count = 1 + unit_below(4);
		uint64_t *words = array((enum recipe_array)i, stride, count);

		for (unsigned k = 0; k < stride / 8 * count; k++)
			words[k] = unit_below(2) ? unit_random() : unit_below(64);
		view.arrays[i].used = i % 2 ? used : NULL;
	}
	view.peek = peek;
	view.now = 1;
	for (unsigned i = 0; i < unit_scaled(200000); i++) {
		struct recipe r = { .kind = (uint8_t)unit_below(5),
				    .nterms = (uint8_t)odd_number() };
		unsigned which = odd_number();

		for (unsigned t = 0; t < RECIPE_TERMS; t++)
			r.terms[t] = odd_term();
		*used = unit_random();
		view.nodes = unit_below(6);
		sum += value(r);
		assert_true((int64_t)value(r) >= 0 || r.kind == RECIPE_AGE ||
			    r.kind == RECIPE_CLAMPED);
		assert_true((int64_t)of_node(r, which) >= 0);
		assert_true((int64_t)of_cpu(r, which) >= 0);
		unit_equal(value(r), value(r));
	}
	assert_true(sum > 0);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_words, UNIT_SHARED),   UNIT_TEST(test_slots, UNIT_SHARED),
		UNIT_TEST(test_nodes, UNIT_SHARED),   UNIT_TEST(test_ages, UNIT_SHARED),
		UNIT_TEST(test_sheaves, UNIT_SHARED), UNIT_TEST(test_outside, UNIT_SHARED),
		UNIT_TEST(test_askew, UNIT_SHARED),   UNIT_TEST(test_counts, UNIT_SHARED),
		UNIT_TEST(test_random, UNIT_SHARED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
