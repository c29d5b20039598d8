/* SPDX-License-Identifier: MIT */
/* The freestanding helpers: arithmetic, lists, globs, printing, and moving objects between sheaves. */
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>

#include "unit.h"
#include "base/glob.h"
#include "base/list.h"
#include "base/print.h"
#include "base/sheaf.h"

/* ---- arithmetic ----------------------------------------------------------------------------------- */

static void test_bits(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		size_t n = (size_t)1 << bit;

		unit_equal(ilog2(n), bit);
		unit_equal(ilog2(n | (n - 1)), bit);
		unit_equal(fls(n), bit + 1);
		unit_equal(fls(n - 1), bit);
		assert_true(is_power_of_2(n));
		assert_int_equal(is_power_of_2(n + 1), bit == 0);
		assert_int_equal(is_power_of_2(n - 1), bit == 1);
	}
	unit_equal(fls(0), 0);
	assert_false(is_power_of_2(0));
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t n = i < 32 ? UINT32_MAX >> i : (uint32_t)unit_random();
		unsigned bits = 0;

		for (unsigned bit = 0; bit < 32; bit++)
			bits += n >> bit & 1;
		unit_equal(bits_set(n), bits);
	}
	unit_equal(bits_set(0), 0);
}

static void test_align(void **state)
{
	(void)state;
	for (size_t align = 1; align <= 64; align *= 2)
		for (size_t n = 0; n < 300; n++) {
			size_t up = align_up(n, align), down = align_down(n, align);

			assert_true(up % align == 0 && up >= n && up - n < align);
			assert_true(down % align == 0 && down <= n && n - down < align);
		}
	unit_equal(align_up((1ull << 40) + 1, 4096), (1ull << 40) + 4096);
}

static void test_order_for(void **state)
{
	(void)state;
	for (size_t size = 1; size < 70000; size++) {
		unsigned order = 0;

		while (((size_t)4096 << order) < size)
			order++;
		unit_equal(order_for(size, 12), order);
	}
	unit_equal(order_for(0, 12), 0);
	unit_equal(order_for((size_t)2 << 20, 12), 9);
	unit_equal(order_for(((size_t)2 << 20) + 1, 12), 10);
	unit_equal(order_for(65, 6), 1);
}

static void test_min_max(void **state)
{
	unsigned evaluated = 0;

	(void)state;
	unit_equal(min(3, 4), 3);
	unit_equal(min(4u, 3u), 3);
	unit_equal(max(-3, 4), 4);
	unit_equal(max(++evaluated, 0u), 1);
	unit_equal(evaluated, 1);
}

struct outer {
	char before[13];
	struct list member;
};

static void test_container_of(void **state)
{
	struct outer o;

	(void)state;
	assert_ptr_equal(container_of(&o.member, struct outer, member), &o);
	assert_ptr_equal(list_entry(&o.member, struct outer, member), &o);
}

/* ---- lists ---------------------------------------------------------------------------------------- */

#define MEMBERS 6

struct item {
	unsigned number;
	struct list link;
};

static void check_list(struct list *head, const unsigned *order, unsigned n)
{
	const struct list *back = head->prev;
	struct item *item;
	unsigned i = 0;

	list_for_each_entry(item, head, link) {
		assert_true(i < n);
		unit_equal(item->number, order[i++]);
	}
	unit_equal(i, n);
	while (i--) {
		unit_equal(list_entry(back, struct item, link)->number, order[i]);
		back = back->prev;
	}
	assert_ptr_equal(back, head);
	assert_int_equal(list_empty(head), n == 0);
}

/* Random insertions at both ends and removals from anywhere, against an array. */
static void test_list_history(void **state)
{
	struct item items[MEMBERS];
	unsigned order[MEMBERS], n = 0, at;
	bool in[MEMBERS] = { false };
	struct list head;

	(void)state;
	memset(items, 0xa5, sizeof(items));
	list_init(&head);
	for (unsigned i = 0; i < MEMBERS; i++)
		items[i].number = i;
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = unit_below(MEMBERS);

		if (in[i]) {
			for (at = 0; order[at] != i; at++)
				;
			memmove(order + at, order + at + 1, (--n - at) * sizeof(*order));
			list_del(&items[i].link);
			assert_true(list_empty(&items[i].link));
		} else if (unit_below(2)) {
			memmove(order + 1, order, n++ * sizeof(*order));
			order[0] = i;
			list_add(&head, &items[i].link);
		} else {
			order[n++] = i;
			list_add_tail(&head, &items[i].link);
		}
		in[i] = !in[i];
		check_list(&head, order, n);
	}
}

static void test_list_safe(void **state)
{
	struct item items[MEMBERS], *item;
	struct list head, odd;
	unsigned seen = 0;

	(void)state;
	list_init(&head);
	list_init(&odd);
	for (unsigned i = 0; i < MEMBERS; i++) {
		items[i].number = i;
		list_add_tail(&head, &items[i].link);
	}
	list_for_each_entry_safe(item, &head, link) {
		unit_equal(item->number, seen++);
		if (item->number % 2) {
			list_del(&item->link);
			list_add(&odd, &item->link);
		}
	}
	unit_equal(seen, MEMBERS);
	check_list(&head, (const unsigned[]){ 0, 2, 4 }, 3);
	check_list(&odd, (const unsigned[]){ 5, 3, 1 }, 3);
}

/* ---- globs ---------------------------------------------------------------------------------------- */

static void test_glob_table(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool match;
	} rows[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "anything", true },
		{ "**", "", true },
		{ "?", "", false },
		{ "?", "a", true },
		{ "?", "ab", false },
		{ "maple_*", "maple_node", true },
		{ "maple_*", "maple_", true },
		{ "maple_*", "maple", false },
		{ "*_node", "maple_node", true },
		{ "*_node", "maple_nodes", false },
		{ "*a*b*c", "xxaxxbxxbc", true },
		{ "*a*b*c", "xxaxxcxxb", false },
		{ "a*a", "a", false },
		{ "a*?a", "aba", true },
		{ "[a]", "a", false },
		{ "[a]", "[a]", true },
	};

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++)
		assert_int_equal(glob_match(rows[i].pattern, strlen(rows[i].pattern), rows[i].name),
				 rows[i].match);
	/* The pattern ends where it is said to, whatever follows. */
	assert_true(glob_match("maple:barn", 5, "maple"));
	assert_false(glob_match("maple*", 5, "maple_node"));
}

/* The n'th word of up to `most` letters, in order of length. False: no such word. */
static bool word(unsigned n, unsigned most, const char *letters, char *out)
{
	unsigned base = (unsigned)strlen(letters), words = 1, len = 0;

	while (n >= words) {
		n -= words;
		words *= base;
		if (++len > most)
			return false;
	}
	out[len] = '\0';
	while (len--) {
		out[len] = letters[n % base];
		n /= base;
	}
	return true;
}

/* All patterns of up to 5 of "ab*?" against all names of up to 5 of "ab". */
static void test_glob_exhaustive(void **state)
{
	char pattern[8], name[8];

	(void)state;
	for (unsigned p = 0; word(p, 5, "ab*?", pattern); p++)
		for (unsigned n = 0; word(n, 5, "ab", name); n++)
			if (glob_match(pattern, strlen(pattern), name) ==
			    (fnmatch(pattern, name, FNM_NOESCAPE) != 0))
				fail_msg("\"%s\" and \"%s\"", pattern, name);
}

/* Many stars cost no exponential time. */
static void test_glob_stars(void **state)
{
	char pattern[2 * 40 + 2], name[4001];

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		memcpy(pattern + 2 * i, "*a", 2);
	strcpy(pattern + 80, "b");
	memset(name, 'a', 4000);
	name[4000] = '\0';
	assert_false(glob_match(pattern, 81, name));
	name[3999] = 'b';
	assert_true(glob_match(pattern, 81, name));
}

/* ---- printing ------------------------------------------------------------------------------------- */

#define SAME(...)                                                                                  \
	do {                                                                                       \
		char got_[256], wanted_[256];                                                      \
		size_t len_ = print_string(got_, sizeof(got_), __VA_ARGS__);                       \
		assert_int_equal(len_, snprintf(wanted_, sizeof(wanted_), __VA_ARGS__));           \
		assert_string_equal(got_, wanted_);                                                \
	} while (0)

static void same_numbers(uint64_t n)
{
	SAME("%u %x %d", (unsigned)n, (unsigned)n, (int)n);
	SAME("%lu %lx %ld", (unsigned long)n, (unsigned long)n, (long)n);
	SAME("%llu %llx %lld", (unsigned long long)n, (unsigned long long)n, (long long)n);
	SAME("%zu %zx %zd", (size_t)n, (size_t)n, (ssize_t)n);
}

static void test_print_numbers(void **state)
{
	static const uint64_t special[] = { 0,		 1,	    9,		10,
					    15,		 16,	    INT_MAX,	INT_MAX + 1ull,
					    UINT_MAX,	 INT64_MAX, 1ull << 63, UINT64_MAX,
					    -(uint64_t)1 };

	(void)state;
	for (size_t i = 0; i < array_size(special); i++)
		same_numbers(special[i]);
	for (unsigned i = 0; i < 2000; i++)
		same_numbers(unit_random() >> unit_below(64));
	SAME("%d %ld", INT_MIN, LONG_MIN);
}

static void test_print_text(void **state)
{
	const char *odd = "%y%"; /* what the compiler would complain about */
	const char *volatile nothing = NULL;
	char buf[32];
	int local;

	(void)state;
	SAME("plain");
	SAME("%s|%s|%c|%%|%s", "a", "", 'x', "tail");
	SAME("%p", (void *)&local);
	print_string(buf, sizeof(buf), "%s", nothing);
	assert_string_equal(buf, "(null)");
	print_string(buf, sizeof(buf), "%p", NULL);
	assert_string_equal(buf, "0x0");
	print_string(buf, sizeof(buf), odd, 1);
	assert_string_equal(buf, "y");
}

static void test_print_cut(void **state)
{
	char buf[8];

	(void)state;
	for (size_t size = 1; size <= sizeof(buf); size++) {
		size_t len;

		memset(buf, '#', sizeof(buf));
		len = print_string(buf, size, "%s%u", "abc", 12345u);
		unit_equal(len, size - 1);
		assert_memory_equal(buf, "abc12345", len);
		unit_equal(buf[len], '\0');
		for (size_t i = size; i < sizeof(buf); i++)
			unit_equal(buf[i], '#');
	}
}

struct heard {
	char text[256];
	size_t len, calls, largest;
	size_t fails_at; /* this call fails; 0: none */
};

static int hear(void *arg, const char *text, size_t len)
{
	struct heard *h = arg;

	h->calls++;
	h->largest = max(h->largest, len);
	if (h->calls == h->fails_at)
		return -ENOSPC;
	memcpy(h->text + h->len, text, len);
	h->len += len;
	return 0;
}

static void test_print_sink(void **state)
{
	static const char *const wanted = "name=abcdefghij number=18446744073709551615 end";

	(void)state;
	for (size_t size = 1; size < 64; size++) {
		char buf[64];
		struct heard h = { .len = 0 };
		struct printer p = { .buf = buf, .size = size, .sink = hear, .arg = &h };

		print_format(&p, "name=%s number=%lu", "abcdefghij", ULONG_MAX);
		print_format(&p, " end");
		print_flush(&p);
		print_flush(&p);
		unit_equal(p.error, 0);
		unit_equal(h.len, strlen(wanted));
		assert_memory_equal(h.text, wanted, h.len);
		assert_true(h.largest <= size);
		unit_equal(h.calls, (h.len + size - 1) / size);
	}
}

/* The first error stays, and nothing is written after it. */
static void test_print_error(void **state)
{
	char buf[4];
	struct heard h = { .fails_at = 3 };
	struct printer p = { .buf = buf, .size = sizeof(buf), .sink = hear, .arg = &h };

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		print_format(&p, "%u", i % 10);
	print_flush(&p);
	unit_equal(p.error, -ENOSPC);
	unit_equal(h.calls, 3);
	unit_equal(h.len, 8);
	assert_memory_equal(h.text, "01234567", 8);
}

/* ---- sheaves -------------------------------------------------------------------------------------- */

static void test_sheaf_move(void **state)
{
	uint64_t storage[2][sizeof(struct uslub_sheaf) / 8 + 8];
	struct uslub_sheaf *a = (struct uslub_sheaf *)storage[0];
	struct uslub_sheaf *b = (struct uslub_sheaf *)storage[1];

	(void)state;
	unit_equal(sheaf_bytes(0), sizeof(struct uslub_sheaf));
	unit_equal(sheaf_bytes(28), 256);
	*a = (struct uslub_sheaf){ .capacity = 8 };
	*b = (struct uslub_sheaf){ .capacity = 5 };
	for (uintptr_t i = 1; i <= 6; i++)
		a->objects[a->fill++] = (void *)i;
	b->objects[b->fill++] = (void *)100;
	unit_equal(sheaf_room(a), 2);
	unit_equal(sheaf_room(b), 4);
	sheaf_move(b, a, 3); /* the newest come first */
	unit_equal(a->fill, 3);
	unit_equal(b->fill, 4);
	assert_ptr_equal(b->objects[0], (void *)100);
	for (uintptr_t i = 0; i < 3; i++) {
		assert_ptr_equal(a->objects[i], (void *)(i + 1));
		assert_ptr_equal(b->objects[i + 1], (void *)(6 - i));
	}
	sheaf_move(b, a, 0);
	unit_equal(b->fill, 4);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_bits, UNIT_REAL),
		UNIT_TEST(test_align, UNIT_REAL),
		UNIT_TEST(test_order_for, UNIT_REAL),
		UNIT_TEST(test_min_max, UNIT_REAL),
		UNIT_TEST(test_container_of, UNIT_REAL),
		UNIT_TEST(test_list_history, UNIT_REAL),
		UNIT_TEST(test_list_safe, UNIT_REAL),
		UNIT_TEST(test_glob_table, UNIT_REAL),
		UNIT_TEST(test_glob_exhaustive, UNIT_REAL),
		UNIT_TEST(test_glob_stars, UNIT_REAL),
		UNIT_TEST(test_print_numbers, UNIT_REAL),
		UNIT_TEST(test_print_text, UNIT_REAL),
		UNIT_TEST(test_print_cut, UNIT_REAL),
		UNIT_TEST(test_print_sink, UNIT_REAL),
		UNIT_TEST(test_print_error, UNIT_REAL),
		UNIT_TEST(test_sheaf_move, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
