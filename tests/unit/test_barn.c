/* SPDX-License-Identifier: MIT */
/* The barn: both stacks, their limits, and the merging of part-full sheaves. */
#include "unit.h"
#include "tiers/barn.h"

#define CAPACITY 7
#define SHEAVES	 40

static struct barn barn;
static uint64_t storage[SHEAVES][sizeof(struct uslub_sheaf) / 8 + CAPACITY];
static uintptr_t serial;

static struct uslub_sheaf *sheaf(unsigned i, unsigned fill)
{
	struct uslub_sheaf *s = (struct uslub_sheaf *)storage[i];

	assert_true(i < SHEAVES && fill <= CAPACITY);
	*s = (struct uslub_sheaf){ .capacity = CAPACITY, .fill = fill };
	for (unsigned k = 0; k < fill; k++)
		s->objects[k] = (void *)(0x1000 + 16 * ++serial);
	return s;
}

static void begin(unsigned max_full, unsigned max_empty)
{
	barn_init(&barn, max_full, max_empty);
	unit_equal(barn.max_full, max_full);
	unit_equal(barn.max_empty, max_empty);
}

static unsigned length(const struct uslub_sheaf *s)
{
	unsigned n = 0;

	for (; s; s = s->next)
		n++;
	return n;
}

static void check(unsigned full, unsigned empty, const struct uslub_sheaf *partial)
{
	unit_equal(barn.nr_full, full);
	unit_equal(barn.nr_empty, empty);
	unit_equal(length(barn.full), full);
	unit_equal(length(barn.empty), empty);
	assert_ptr_equal(barn.partial, partial);
	assert_false(plat_lock_mine(&barn.lock.lock));
}

static void put_full(struct uslub_sheaf *s)
{
	assert_true(barn_put_full(&barn, s, false, false));
}

static void put_empty(struct uslub_sheaf *s)
{
	assert_true(barn_put_empty(&barn, s, false));
}

/* ---- the stacks ----------------------------------------------------------------------------------- */

static void test_stacks(void **state)
{
	struct uslub_sheaf *s[8];

	(void)state;
	begin(10, 10);
	check(0, 0, NULL);
	assert_null(barn_get_empty(&barn, false));
	assert_null(barn_get_any(&barn, false));
	assert_null(barn_replace_empty(&barn, sheaf(0, 0), false));
	check(0, 0, NULL);
	for (unsigned i = 0; i < 4; i++) {
		put_full(s[i] = sheaf(i, CAPACITY));
		put_empty(s[4 + i] = sheaf(4 + i, 0));
	}
	check(4, 4, NULL);
	/* last in, first out */
	assert_ptr_equal(barn_get_empty(&barn, false), s[7]);
	assert_ptr_equal(barn_replace_empty(&barn, NULL, false), s[3]);
	check(3, 3, NULL);
	/* any: full ones first */
	assert_ptr_equal(barn_get_any(&barn, false), s[2]);
	assert_ptr_equal(barn_get_any(&barn, false), s[1]);
	assert_ptr_equal(barn_get_any(&barn, false), s[0]);
	assert_ptr_equal(barn_get_any(&barn, false), s[6]);
	check(0, 2, NULL);
	assert_ptr_equal(barn_get_empty(&barn, false), s[5]);
	assert_ptr_equal(barn_get_any(&barn, false), s[4]);
	check(0, 0, NULL);
}

static void test_replace_empty(void **state)
{
	struct uslub_sheaf *full = sheaf(0, CAPACITY), *empty = sheaf(1, 0);

	(void)state;
	begin(10, 10);
	put_full(full);
	assert_ptr_equal(barn_replace_empty(&barn, empty, false), full);
	check(0, 1, NULL);
	assert_ptr_equal(barn.empty, empty);
	/* nothing to give: the empty one stays the caller's */
	assert_null(barn_replace_empty(&barn, sheaf(2, 0), false));
	check(0, 1, NULL);
}

static void test_replace_full(void **state)
{
	struct uslub_sheaf *full = sheaf(0, CAPACITY), *empty = sheaf(1, 0);
	enum barn_refusal why;

	(void)state;
	begin(2, 10);
	assert_null(barn_replace_full(&barn, full, false, &why));
	unit_equal(why, BARN_NO_EMPTY);
	check(0, 0, NULL);
	put_empty(empty);
	assert_ptr_equal(barn_replace_full(&barn, full, false, &why), empty);
	check(1, 0, NULL);
	assert_ptr_equal(barn.full, full);
	put_full(sheaf(2, CAPACITY));
	/* full comes before no empty */
	assert_null(barn_replace_full(&barn, sheaf(3, CAPACITY), false, &why));
	unit_equal(why, BARN_FULL);
	put_empty(empty);
	assert_null(barn_replace_full(&barn, sheaf(3, CAPACITY), false, &why));
	unit_equal(why, BARN_FULL);
	check(2, 1, NULL);
}

/* ---- limits --------------------------------------------------------------------------------------- */

static void test_limits(void **state)
{
	static const unsigned limits[] = { 1, 2, 10 };

	(void)state;
	for (unsigned i = 0; i < array_size(limits); i++) {
		unsigned n = limits[i];

		begin(n, n + 1);
		for (unsigned k = 0; k < n; k++)
			put_full(sheaf(k, CAPACITY));
		assert_false(barn_put_full(&barn, sheaf(n, CAPACITY), false, false));
		for (unsigned k = 0; k < n + 1; k++)
			put_empty(sheaf(20 + k, 0));
		assert_false(barn_put_empty(&barn, sheaf(20 + n + 1, 0), false));
		check(n, n + 1, NULL);
		/* They do not count for who has nowhere else to go, */
		assert_true(barn_put_full(&barn, sheaf(n, CAPACITY), true, false));
		assert_true(barn_put_full(&barn, sheaf(n + 1, CAPACITY), true, false));
		check(n + 2, n + 1, NULL);
		/* nor where as many sheaves stay. */
		assert_non_null(barn_replace_empty(&barn, sheaf(20 + n + 1, 0), false));
		check(n + 1, n + 2, NULL);
		assert_false(barn_put_full(&barn, sheaf(n + 2, CAPACITY), false, false));
		assert_non_null(barn_get_any(&barn, false));
		assert_non_null(barn_get_any(&barn, false));
		assert_true(barn_put_full(&barn, sheaf(n + 2, CAPACITY), false, false));
	}
}

/* ---- merging -------------------------------------------------------------------------------------- */

/* All objects of some sheaves, in a set. */
static uintptr_t sum_of(const struct uslub_sheaf *s)
{
	uintptr_t sum = 0;

	for (unsigned k = 0; s && k < s->fill; k++)
		sum += (uintptr_t)s->objects[k] * (uintptr_t)s->objects[k];
	return sum;
}

/* A short sheaf of k objects meets one of p, if p is not 0. */
static void try_merge(unsigned k, unsigned p)
{
	struct uslub_sheaf *full = sheaf(0, CAPACITY), *s = sheaf(1, k), *part = NULL;
	uintptr_t sum;
	bool merged = p % 2;

	begin(1, 1);
	put_full(full);
	put_empty(sheaf(3, 0)); /* so that the limit is reached: it does not count here */
	if (p) {
		part = sheaf(2, p);
		barn.partial = part;
	}
	sum = sum_of(s) + sum_of(part);
	assert_ptr_equal(barn_replace_partial(&barn, s, false, &merged), full);
	unit_equal(full->fill, CAPACITY);
	if (!k) {
		check(0, 2, part);
		assert_ptr_equal(barn.empty, s);
		assert_false(merged);
		unit_equal(sum_of(part), sum);
	} else if (!p) {
		check(0, 1, s);
		assert_false(merged);
		unit_equal(s->fill, k);
		unit_equal(sum_of(s), sum);
	} else if (p + k < CAPACITY) {
		check(0, 2, part);
		assert_ptr_equal(barn.empty, s);
		assert_false(merged);
		unit_equal(part->fill, p + k);
		unit_equal(s->fill, 0);
		unit_equal(sum_of(part), sum);
	} else if (p + k == CAPACITY) {
		check(1, 2, NULL);
		assert_ptr_equal(barn.full, part);
		assert_ptr_equal(barn.empty, s);
		assert_true(merged);
		unit_equal(part->fill, CAPACITY);
		unit_equal(s->fill, 0);
		unit_equal(sum_of(part), sum);
	} else {
		check(1, 1, s);
		assert_ptr_equal(barn.full, part);
		assert_true(merged);
		unit_equal(part->fill, CAPACITY);
		unit_equal(s->fill, p + k - CAPACITY);
		unit_equal(sum_of(s) + sum_of(part), sum);
	}
}

static void test_merge_every_case(void **state)
{
	(void)state;
	for (unsigned k = 0; k < CAPACITY; k++)
		for (unsigned p = 0; p < CAPACITY; p++)
			try_merge(k, p);
}

static void test_merge_without_full(void **state)
{
	struct uslub_sheaf *s = sheaf(0, 3), *part = sheaf(1, 2);
	bool merged;

	(void)state;
	begin(10, 10);
	barn.partial = part;
	put_empty(sheaf(2, 0));
	assert_null(barn_replace_partial(&barn, s, false, &merged));
	check(0, 1, part);
	unit_equal(s->fill, 3);
	unit_equal(part->fill, 2);
	/* Nor does anything else take the part-full one. */
	assert_null(barn_replace_empty(&barn, NULL, false));
	assert_non_null(barn_get_any(&barn, false));
	assert_null(barn_get_any(&barn, false));
	assert_ptr_equal(barn.partial, part);
}

static void test_put_partial(void **state)
{
	struct uslub_sheaf *a = sheaf(0, 3), *b = sheaf(1, 3), *c = sheaf(2, 2);

	(void)state;
	begin(1, 1);
	put_full(sheaf(3, CAPACITY));
	put_empty(sheaf(4, 0));
	assert_false(barn_put_partial(&barn, a));
	check(1, 1, a);
	assert_false(barn_put_partial(&barn, b));
	check(1, 2, a);
	unit_equal(a->fill, 6);
	assert_true(barn_put_partial(&barn, c));
	check(2, 2, c);
	unit_equal(a->fill, CAPACITY);
	unit_equal(c->fill, 1);
	assert_ptr_equal(barn.full, a);
}

/* ---- a busy barn ---------------------------------------------------------------------------------- */

/* The answers are those of a barn that has nothing and wants nothing. */
static void test_busy(void **state)
{
	struct uslub_sheaf *s = sheaf(5, 3), *part = sheaf(6, 2);
	enum barn_refusal why;
	bool merged = false;

	(void)state;
	begin(10, 10);
	put_full(sheaf(0, CAPACITY));
	put_empty(sheaf(1, 0));
	barn.partial = part;
	plat_lock(&barn.lock.lock);
	assert_null(barn_replace_empty(&barn, sheaf(2, 0), true));
	assert_null(barn_replace_full(&barn, sheaf(3, CAPACITY), true, &why));
	unit_equal(why, BARN_BUSY);
	assert_null(barn_get_any(&barn, true));
	assert_null(barn_get_empty(&barn, true));
	assert_false(barn_put_full(&barn, sheaf(3, CAPACITY), false, true));
	assert_false(barn_put_full(&barn, sheaf(3, CAPACITY), true, true));
	assert_false(barn_put_empty(&barn, sheaf(2, 0), true));
	assert_null(barn_replace_partial(&barn, s, true, &merged));
	assert_false(merged);
	unit_equal(s->fill, 3);
	plat_unlock(&barn.lock.lock);
	check(1, 1, part);
	/* and free, a trylock is as good */
	assert_non_null(barn_replace_partial(&barn, s, true, &merged));
	check(0, 2, part);
	unit_equal(part->fill, 5);
	assert_true(barn_put_full(&barn, sheaf(3, CAPACITY), false, true));
	assert_true(barn_put_empty(&barn, sheaf(4, 0), true));
	assert_non_null(barn_replace_full(&barn, sheaf(7, CAPACITY), true, &why));
	assert_non_null(barn_replace_empty(&barn, NULL, true));
	assert_non_null(barn_get_empty(&barn, true));
	assert_non_null(barn_get_any(&barn, true));
	check(0, 1, part);
}

/* ---- emptying ------------------------------------------------------------------------------------- */

static void test_drain(void **state)
{
	struct uslub_sheaf *all;
	unsigned full = 0, empty = 0, part = 0;

	(void)state;
	begin(10, 10);
	assert_null(barn_drain(&barn));
	for (unsigned i = 0; i < 4; i++)
		put_full(sheaf(i, CAPACITY));
	for (unsigned i = 0; i < 3; i++)
		put_empty(sheaf(10 + i, 0));
	barn.partial = sheaf(20, 3);
	barn.partial->next = sheaf(21, 1); /* stale */
	all = barn_drain(&barn);
	check(0, 0, NULL);
	unit_equal(length(all), 8);
	for (; all; all = all->next) {
		full += all->fill == CAPACITY;
		empty += all->fill == 0;
		part += all->fill == 3;
	}
	unit_equal(full, 4);
	unit_equal(empty, 3);
	unit_equal(part, 1);
	barn.partial = all = sheaf(20, 3);
	assert_ptr_equal(barn_drain(&barn), all);
	check(0, 0, NULL);
}

/* ---- histories ------------------------------------------------------------------------------------ */

/* Every sheaf and every object is in the barn or in our hands, each once. */
static struct uslub_sheaf *hands[SHEAVES];
static unsigned nhands;

static struct uslub_sheaf *pick(unsigned least, unsigned most)
{
	unsigned first = unit_below(nhands + 1);
	struct uslub_sheaf *s;

	for (unsigned i = 0; i < nhands; i++) {
		unsigned at = (first + i) % nhands;

		s = hands[at];
		if (s->fill >= least && s->fill <= most) {
			hands[at] = hands[--nhands];
			return s;
		}
	}
	return NULL;
}

static void keep(struct uslub_sheaf *s)
{
	if (s)
		hands[nhands++] = s;
}

static void history_step(void)
{
	struct uslub_sheaf *s, *got;
	enum barn_refusal why;
	unsigned full = barn.nr_full, empty = barn.nr_empty, fill, partial;
	bool merged, done;

	partial = barn.partial ? barn.partial->fill : 0;
	switch (unit_below(8)) {
	case 0:
		s = pick(0, 0);
		got = barn_replace_empty(&barn, s, false);
		assert_int_equal(!got, !full);
		keep(got ? got : s);
		unit_equal(barn.nr_empty, empty + (got && s));
		break;
	case 1:
		s = pick(CAPACITY, CAPACITY);
		if (!s)
			break;
		got = barn_replace_full(&barn, s, false, &why);
		assert_int_equal(!!got, full < barn.max_full && empty);
		if (!got)
			unit_equal(why, full < barn.max_full ? BARN_NO_EMPTY : BARN_FULL);
		keep(got ? got : s);
		break;
	case 2:
		keep(barn_get_any(&barn, false));
		unit_equal(barn.nr_full + barn.nr_empty, full + empty - (full + empty != 0));
		break;
	case 3:
		keep(barn_get_empty(&barn, false));
		unit_equal(barn.nr_empty, empty - (empty != 0));
		break;
	case 4:
		s = pick(CAPACITY, CAPACITY);
		if (!s)
			break;
		merged = unit_below(2);
		done = barn_put_full(&barn, s, merged, false);
		assert_int_equal(done, merged || full < barn.max_full);
		keep(done ? NULL : s);
		break;
	case 5:
		s = pick(0, 0);
		if (!s)
			break;
		done = barn_put_empty(&barn, s, false);
		assert_int_equal(done, empty < barn.max_empty);
		keep(done ? NULL : s);
		break;
	case 6:
		s = pick(0, CAPACITY - 1);
		if (!s)
			break;
		fill = s->fill;
		got = barn_replace_partial(&barn, s, false, &merged);
		assert_int_equal(!got, !full);
		keep(got ? got : s);
		if (!got)
			break;
		assert_int_equal(merged, fill && partial && fill + partial >= CAPACITY);
		unit_equal(barn.nr_full, full - 1 + merged);
		unit_equal(barn.partial ? barn.partial->fill : 0,
			   fill + partial - (merged ? CAPACITY : 0));
		break;
	default:
		s = pick(0, CAPACITY);
		if (!s)
			break;
		/* somebody uses it */
		serial = 0;
		fill = unit_below(3) ? unit_below(CAPACITY + 1) : CAPACITY * unit_below(2);
		s->fill = fill;
		for (unsigned k = 0; k < fill; k++)
			s->objects[k] = s;
		keep(s);
	}
}

static unsigned number_of(const struct uslub_sheaf *s)
{
	return (unsigned)((const uint64_t *)s - storage[0]) / array_size(storage[0]);
}

static void check_conserved(void)
{
	const struct uslub_sheaf *lists[] = { barn.full, barn.empty };
	bool seen[SHEAVES] = { false };
	unsigned n = 0;

	for (unsigned i = 0; i < nhands; i++, n++)
		seen[number_of(hands[i])] = true;
	for (unsigned l = 0; l < 2; l++)
		for (const struct uslub_sheaf *s = lists[l]; s; s = s->next, n++) {
			unit_equal(s->fill, l ? 0 : CAPACITY);
			seen[number_of(s)] = true;
		}
	if (barn.partial) {
		assert_true(barn.partial->fill > 0 && barn.partial->fill < CAPACITY);
		seen[number_of(barn.partial)] = true;
		n++;
	}
	unit_equal(n, SHEAVES);
	for (unsigned i = 0; i < SHEAVES; i++)
		assert_true(seen[i]);
}

static void test_history(void **state)
{
	(void)state;
	begin(4, 3);
	nhands = 0;
	for (unsigned i = 0; i < SHEAVES; i++)
		keep(sheaf(i, unit_below(CAPACITY + 1)));
	for (unsigned step = 0; step < unit_scaled(50000); step++) {
		history_step();
		check_conserved();
	}
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_stacks, UNIT_REAL),
		UNIT_TEST(test_replace_empty, UNIT_REAL),
		UNIT_TEST(test_replace_full, UNIT_REAL),
		UNIT_TEST(test_limits, UNIT_REAL),
		UNIT_TEST(test_merge_every_case, UNIT_REAL),
		UNIT_TEST(test_merge_without_full, UNIT_REAL),
		UNIT_TEST(test_put_partial, UNIT_REAL),
		UNIT_TEST(test_busy, UNIT_REAL),
		UNIT_TEST(test_drain, UNIT_REAL),
		UNIT_TEST(test_history, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
