/* SPDX-License-Identifier: MIT */
/* Slabs: how objects are laid out, how free ones are linked, and what is no object. */
#include <sys/mman.h>

#include "unit.h"
#include "tiers/arena.h"
#include "tiers/slab.h"

static struct slab_class class;
static struct slab_class other_class;

static void init_class(struct slab_class *c, const char *name, const struct slab_layout *layout)
{
	memset(c, 0, sizeof(*c));
	assert_true(slab_class_init(c, layout));
	c->name = name;
	c->key = 0x1234567890abcdefu;
	counters_layout(&c->counters, plat_nslots(), 1);
	c->counters.words = arena_alloc(counters_bytes(&c->counters));
	assert_non_null(c->counters.words);
}

static struct slab *new_slab(const struct slab_class *c)
{
	struct slab *slab = slab_new(c, 0, 0);

	assert_non_null(slab);
	return slab;
}

/* ---- layout --------------------------------------------------------------------------------------- */

static void machine_of(unsigned present)
{
	static const char *const all = "0-255";
	char list[32];

	snprintf(list, sizeof(list), present > 1 ? "0-%u" : "0", present - 1);
	unit_machine("0-255", list, &all, 1);
}

/* The rule in other words: the order of a slab by the kernel's text. */
static unsigned wanted_order(size_t size, unsigned present, unsigned min_objects)
{
	unsigned want = min_objects, least = 0, bits = 0;
	double page = (double)plat_page_size();

	while (present >> bits)
		bits++;
	if (!want)
		want = 4 * (bits + 1);
	while (want > 1 && (double)want * (double)size > 8 * page)
		want--;
	while (page * (1 << least) < (double)want * (double)size)
		least++;
	for (double part = 16; part >= 2; part /= 2)
		for (unsigned order = least; order <= 3; order++) {
			size_t bytes = plat_page_size() << order;

			if ((double)(bytes % size) * part <= (double)bytes && bytes / size <= 32767)
				return order;
		}
	return least;
}

static void check_layout(size_t object_size, size_t align, unsigned present, unsigned min_objects,
			 bool outside)
{
	struct slab_layout layout = { .object_size = object_size,
				      .align = align,
				      .min_objects = min_objects,
				      .typesafe = outside };
	size_t size = (object_size + 7) / 8 * 8 + (outside ? 8 : 0), bytes;
	struct slab_class c;

	while (align && size % align)
		size += 8;
	memset(&c, 0, sizeof(c));
	assert_int_equal(slab_class_init(&c, &layout), size <= BLOCK_SIZE);
	if (size > BLOCK_SIZE)
		return;
	unit_equal(c.object_size, object_size);
	unit_equal(c.size, size);
	unit_equal(c.order, wanted_order(size, present, min_objects));
	bytes = plat_page_size() << c.order;
	unit_equal(c.objects, min(bytes / size, (size_t)32767));
	assert_true(c.objects >= 1);
	unit_equal(c.min_order, order_for(size, plat_page_shift()));
	bytes = plat_page_size() << c.min_order;
	unit_equal(c.min_objects, min(bytes / size, (size_t)32767));
	if (align)
		unit_equal(c.align, align);
	/* The link lies inside of the distance between objects, behind what must survive. */
	unit_equal(c.link % 8, 0);
	assert_true(c.link + 8 <= c.size);
	if (outside)
		assert_true(c.link >= object_size);
	else
		unit_equal(c.link, object_size / 2 / 8 * 8);
}

static void test_layout(void **state)
{
	static const unsigned machines[] = { 1, 2, 3, 4, 8, 64, 127, 128, 256 };

	(void)state;
	for (unsigned m = 0; m < array_size(machines); m++) {
		machine_of(machines[m]);
		for (size_t size = 1; size <= BLOCK_SIZE; size += 1 + size / 37)
			for (unsigned outside = 0; outside < 2; outside++) {
				check_layout(size, 0, machines[m], 0, outside);
				check_layout(size, 64, machines[m], 0, outside);
				check_layout(size, 4096, machines[m], 0, outside);
				check_layout(size, 8, machines[m], 1 + (unsigned)size % 100,
					     outside);
			}
	}
	check_layout(BLOCK_SIZE, 0, 256, 0, false);
	check_layout(BLOCK_SIZE, 0, 256, 0, true);
	check_layout(BLOCK_SIZE - 8, 0, 256, 0, true);
	check_layout(BLOCK_SIZE - 7, 0, 256, 0, true);
}

/* Figures that are known. */
static void test_layout_known(void **state)
{
	struct slab_layout l = { .object_size = 256 };
	struct slab_class c;

	(void)state;
	if (plat_page_size() != 4096)
		unit_skip("pages are not of 4 KiB");
	machine_of(2);
	slab_class_init(&c, &l);
	unit_equal(c.order, 0);
	unit_equal(c.objects, 16);
	unit_equal(c.size, 256);
	unit_equal(c.link, 128);
	machine_of(128);
	slab_class_init(&c, &l);
	unit_equal(c.order, 2);
	unit_equal(c.objects, 64);
	machine_of(2);
	l.min_objects = 64;
	slab_class_init(&c, &l);
	unit_equal(c.order, 2);
	unit_equal(c.objects, 64);
	l = (struct slab_layout){ .object_size = 8 };
	slab_class_init(&c, &l);
	unit_equal(c.order, 0);
	unit_equal(c.objects, 512);
	unit_equal(c.link, 0);
	l = (struct slab_layout){ .object_size = 700 };
	slab_class_init(&c, &l);
	unit_equal(c.size, 704);
	unit_equal(c.order, 2); /* 12 need order 2; 16384 - 23 * 704 = 192 */
	unit_equal(c.objects, 23);
	unit_equal(c.min_order, 0);
	unit_equal(c.min_objects, 5);
}

static void test_align(void **state)
{
	static const struct {
		size_t size, align;
		bool line;
		size_t wanted, distance;
	} rows[] = {
		{ 1, 0, false, 1, 8 },		 { 6, 0, false, 2, 8 },
		{ 12, 0, false, 4, 16 },	 { 24, 0, false, 8, 24 },
		{ 4096, 0, false, 8, 4096 },	 { 24, 16, false, 16, 32 },
		{ 100, 1, false, 1, 104 },	 { 8, 0, true, 8, 8 },
		{ 9, 0, true, 16, 16 },		 { 16, 0, true, 16, 16 },
		{ 17, 0, true, 32, 32 },	 { 33, 0, true, 64, 64 },
		{ 65, 0, true, 64, 128 },	 { 200, 128, true, 128, 256 },
		{ 24, 4096, false, 4096, 4096 },
	};
	struct slab_class c;

	(void)state;
	for (unsigned i = 0; i < array_size(rows); i++) {
		struct slab_layout l = { .object_size = rows[i].size,
					 .align = rows[i].align,
					 .hwcache_align = rows[i].line };

		assert_true(slab_class_init(&c, &l));
		unit_equal(c.align, rows[i].wanted);
		unit_equal(c.size, rows[i].distance);
	}
}

/* ---- the state word ------------------------------------------------------------------------------- */

static void test_state_word(void **state)
{
	uint64_t w = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		unsigned head = unit_below(32768), inuse = unit_below(32768);
		uint64_t next = state_make(w, head, inuse, i % 2 ? SLAB_LISTED : SLAB_UNLISTED);

		unit_equal(state_head(next), head);
		unit_equal(state_inuse(next), inuse);
		unit_equal(state_where(next), i % 2 ? SLAB_LISTED : SLAB_UNLISTED);
		unit_equal(next >> STATE_TAG_SHIFT, (w >> STATE_TAG_SHIFT) + 1);
		w = next;
	}
	/* the tag wraps into nothing else */
	w = state_make(~0ull, 3, 4, SLAB_LISTED);
	unit_equal(w >> STATE_TAG_SHIFT, 0);
	unit_equal(state_head(w), 3);
}

/* ---- links ---------------------------------------------------------------------------------------- */

static struct slab *small_slab(const struct slab_layout *layout)
{
	init_class(&class, "links", layout);
	return new_slab(&class);
}

static void fill(const struct slab *slab, unsigned char with)
{
	for (unsigned i = 0; i < slab->objects; i++)
		memset(slab_object(slab, i), with, class.object_size);
}

/* A chain over all objects in a random order, then off it in pieces. */
static void try_chain(const struct slab_layout *layout)
{
	struct slab *slab = small_slab(layout);
	void *objects[600], *got[600];
	unsigned n = slab->objects, head = 0, k;

	assert_true(n <= array_size(objects));
	fill(slab, 0x5a);
	for (unsigned i = 0; i < n; i++)
		objects[i] = slab_object(slab, i);
	for (unsigned i = n; i > 1; i--) {
		void *swap = objects[i - 1];

		k = unit_below(i);
		objects[i - 1] = objects[k];
		objects[k] = swap;
	}
	for (unsigned i = 0; i < n; i++) {
		head = slab_chain(slab, objects[i], head);
		assert_ptr_equal(slab_object(slab, head - 1), objects[i]);
	}
	for (unsigned at = 0; at < n; at += k) {
		k = min(n - at, 1 + unit_below(7));
		head = slab_walk(slab, head, got + at, k);
		assert_true(!head == (at + k == n));
	}
	unit_equal(slab_walk(slab, 0, got, 5), 0);
	for (unsigned i = 0; i < n; i++)
		assert_ptr_equal(got[i], objects[n - 1 - i]);
	slab_release(slab);
}

static void nothing(void *object)
{
	(void)object;
}

static void test_chain(void **state)
{
	static const size_t sizes[] = { 8, 9, 16, 24, 40, 64, 100, 256, 1000, 5000 };

	(void)state;
	for (unsigned i = 0; i < array_size(sizes); i++) {
		try_chain(&(struct slab_layout){ .object_size = sizes[i] });
		try_chain(&(struct slab_layout){ .object_size = sizes[i], .align = 64 });
		try_chain(&(struct slab_layout){ .object_size = sizes[i], .typesafe = true });
		try_chain(&(struct slab_layout){ .object_size = sizes[i], .ctor = nothing });
	}
}

static void test_deal(void **state)
{
	struct slab *slab = small_slab(&(struct slab_layout){ .object_size = 100 });
	void *got[600];
	unsigned head, n = slab->objects;

	(void)state;
	unit_equal(slab_deal(slab, got, n), 0);
	for (unsigned i = 0; i < n; i++)
		assert_ptr_equal(got[i], slab_object(slab, i));
	head = slab_deal(slab, got, 3);
	unit_equal(head, 4);
	for (unsigned i = 0; i < 3; i++)
		assert_ptr_equal(got[i], slab_object(slab, i));
	unit_equal(slab_walk(slab, head, got, n), 0);
	for (unsigned i = 3; i < n; i++)
		assert_ptr_equal(got[i - 3], slab_object(slab, i));
	/* another chain in front of it */
	head = slab_chain(slab, slab_object(slab, 1), 0);
	head = slab_chain(slab, slab_object(slab, 0), head);
	slab_set_end(slab, slab_object(slab, 1), 4);
	unit_equal(slab_walk(slab, head, got, 3), 5);
	assert_ptr_equal(got[2], slab_object(slab, 3));
}

/* Deals a slab, a part as objects and the rest as a chain, and gives the order as indices. */
static void dealt(struct slab *slab, unsigned *order)
{
	unsigned n = slab->objects, part = n / 3, head;
	void *objects[600];
	bool seen[600] = { false };

	head = slab_deal(slab, objects, part);
	unit_equal(slab_walk(slab, head, objects + part, n - part), 0);
	for (unsigned i = 0; i < n; i++) {
		order[i] = slab_index(slab, objects[i]);
		assert_ptr_equal(slab_object(slab, order[i]), objects[i]);
		assert_false(seen[order[i]]);
		seen[order[i]] = true;
	}
}

/* Every slab has all its objects, and an order of its own; each object comes everywhere. */
static void test_deal_random(void **state)
{
	static const size_t sizes[] = { 8, 64, 100, 192, 256, 1000, 4096, 8192 };
	static unsigned order[2][600], places[600];
	uint64_t seed = 1;

	(void)state;
	for (unsigned k = 0; k < array_size(sizes); k++) {
		struct slab *slab = small_slab(&(struct slab_layout){ .object_size = sizes[k] });
		unsigned n = slab->objects, same = 0, rounds = 100 * n;

		class.shuffle = &seed;
		memset(places, 0, sizeof(places));
		for (unsigned round = 0; round < rounds; round++) {
			dealt(slab, order[round % 2]);
			same += round && !memcmp(order[0], order[1], n * sizeof(**order));
			places[order[round % 2][0]]++;
		}
		for (unsigned i = 0; i < n; i++)
			assert_in_range(places[i], 50, 200); /* 100 are expected */
		/* there are only 24 orders of 4 objects */
		assert_in_range(same, 0, n > 12 ? 0 : rounds / 8);
	}
}

/* What of an object a link may touch. */
static unsigned changed(const struct slab *slab, unsigned char with)
{
	unsigned n = 0;

	for (unsigned i = 0; i < slab->objects; i++)
		for (unsigned k = 0; k < class.object_size; k++)
			n += ((unsigned char *)slab_object(slab, i))[k] != with;
	return n;
}

static void link_all(struct slab *slab)
{
	fill(slab, 0x77);
	slab_deal(slab, NULL, 0);
}

static void test_link_outside(void **state)
{
	struct slab *slab;

	(void)state;
	slab = small_slab(&(struct slab_layout){ .object_size = 60, .typesafe = true });
	link_all(slab);
	unit_equal(changed(slab, 0x77), 0);
	slab = small_slab(&(struct slab_layout){ .object_size = 61, .ctor = nothing });
	link_all(slab);
	unit_equal(changed(slab, 0x77), 0);
	/* else four bytes in the middle */
	slab = small_slab(&(struct slab_layout){ .object_size = 64 });
	link_all(slab);
	assert_true(changed(slab, 0x77) > slab->objects);
	assert_true(changed(slab, 0x77) <= 4u * slab->objects);
	for (unsigned i = 0; i < slab->objects; i++) {
		unsigned char *p = slab_object(slab, i);

		for (unsigned k = 0; k < 64; k++)
			assert_true(p[k] == 0x77 || (k >= 32 && k < 36));
	}
}

/* Equal links look different in each place and for each key. */
static void test_obfuscation(void **state)
{
	struct slab *slab = small_slab(&(struct slab_layout){ .object_size = 64 });
	uint32_t first, second;

	(void)state;
	slab_set_end(slab, slab_object(slab, 0), 5);
	slab_set_end(slab, slab_object(slab, 1), 5);
	first = *(uint32_t *)((char *)slab_object(slab, 0) + class.link);
	second = *(uint32_t *)((char *)slab_object(slab, 1) + class.link);
	assert_true(first != 5 && second != 5 && first != second);
	class.key ^= 1;
	slab_set_end(slab, slab_object(slab, 0), 5);
	assert_true(*(uint32_t *)((char *)slab_object(slab, 0) + class.link) != first);
}

static void corrupt(void *arg)
{
	struct slab *slab = arg;
	void *got[8];
	unsigned head = slab_deal(slab, NULL, 0);

	memset((char *)slab_object(slab, 2) + class.link, 'A', 4);
	slab_walk(slab, head, got, 2); /* fine so far */
	fprintf(stderr, "now ");
	slab_walk(slab, head, got, 4);
}

static void test_corruption(void **state)
{
	struct slab *slab = small_slab(&(struct slab_layout){ .object_size = 64 });
	char wanted[200];

	(void)state;
	snprintf(wanted, sizeof(wanted),
		 "now uslub: cache links: free object %p was written to: its link is corrupt",
		 slab_object(slab, 2));
	unit_dies(corrupt, slab, wanted);
	slab = small_slab(&(struct slab_layout){ .object_size = 64, .typesafe = true });
	unit_dies(corrupt, slab, "its link is corrupt");
}

/* ---- constructors --------------------------------------------------------------------------------- */

static unsigned constructed;
static void *seen[600];

static void construct(void *object)
{
	seen[constructed++] = object;
	memset(object, 0x33, 48);
}

static void test_constructor(void **state)
{
	struct slab_layout l = { .object_size = 48, .ctor = construct };
	struct slab *slab;

	(void)state;
	init_class(&class, "built", &l);
	slab = new_slab(&class);
	unit_equal(constructed, slab->objects);
	for (unsigned i = 0; i < slab->objects; i++)
		assert_ptr_equal(seen[i], slab_object(slab, i));
	unit_equal(changed(slab, 0x33), 0);
	slab_release(slab);
	unit_equal(constructed, class.objects);
}

/* ---- what is an object ---------------------------------------------------------------------------- */

static void *bad;

static void look(void *arg)
{
	slab_of(arg, bad);
}

static void rejected(void *p, const char *words)
{
	bad = p;
	unit_dies(look, &class, words);
}

static void test_slab_of(void **state)
{
	static const size_t sizes[] = { 8, 24, 56, 100, 264, 1000, 4096, 5000, 40000, 1 << 20 };

	(void)state;
	for (unsigned s = 0; s < array_size(sizes); s++) {
		struct slab *slab;

		init_class(&class, "objects", &(struct slab_layout){ .object_size = sizes[s] });
		slab = new_slab(&class);
		unit_equal(slab->objects, class.objects);
		unit_equal(state_inuse(slab->state), slab->objects);
		unit_equal(state_head(slab->state), 0);
		for (unsigned i = 0; i < slab->objects; i++) {
			char *p = slab_object(slab, i);

			unit_equal((uintptr_t)p % class.align, 0);
			assert_ptr_equal(p, slab->base + i * (size_t) class.size);
			assert_ptr_equal(slab_of(&class, p), slab);
			unit_equal(slab_index(slab, p), i);
			assert_true(slab_holds(slab, p));
		}
		assert_false(slab_holds(slab, slab->base - 1));
		assert_false(slab_holds(slab, slab_object(slab, slab->objects)));
		slab_release(slab);
	}
}

static void test_rejections(void **state)
{
	struct slab *slab, *foreign, *gone;
	struct page *page;
	char *p, *middle;
	int local = 0;

	(void)state;
	init_class(&class, "mine", &(struct slab_layout){ .object_size = 100 });
	init_class(&other_class, "theirs", &(struct slab_layout){ .object_size = 104 });
	slab = new_slab(&class);
	foreign = new_slab(&other_class);
	gone = new_slab(&class);
	p = slab_object(slab, 3);
	middle = slab_object(gone, 1);
	rejected(p + 1, "cache mine: freed pointer 0x");
	rejected(p + 1, "does not point to the start of an object");
	rejected(p + 8, "does not point to the start of an object");
	rejected(p + 103, "does not point to the start of an object");
	/* what is left of the slab behind the last object: 4096 = 39 * 104 + 40 */
	assert_true(plat_page_size() << class.order != slab->objects * (size_t) class.size);
	rejected(slab_object(slab, slab->objects), "does not point to the start of an object");
	rejected(slab_object(foreign, 0), "belongs to cache theirs");
	rejected(&local, "is not from any cache");
	rejected(NULL, "is not from any cache");
	rejected((void *)0x123456789000, "is not from any cache");
	rejected((void *)UINTPTR_MAX, "is not from any cache");
	rejected(slab, "is not from any cache"); /* its descriptor */
	slab_release(gone);
	rejected(middle, "is not from any cache");
	page = supply_alloc(1, 0, 0);
	rejected(page_address(page), "belongs to cache (none)");
	/* An object of another size at the same place. */
	page = supply_alloc(class.order, 0, 0);
	assert_non_null(page);
	rejected((char *)page_address(page) + 104, "belongs to cache (none)");
}

/* Objects too large for more than one in a slab. */
static void test_rejections_large(void **state)
{
	struct slab *slab;
	char *p;

	(void)state;
	init_class(&class, "large", &(struct slab_layout){ .object_size = 1500000 });
	slab = new_slab(&class);
	unit_equal(slab->objects, 1);
	p = slab_object(slab, 0);
	assert_ptr_equal(slab_of(&class, p), slab);
	rejected(p + 8, "does not point to the start of an object");
	rejected(p + 1500000, "does not point to the start of an object");
	rejected(p + BLOCK_SIZE - 8, "does not point to the start of an object");
}

static void chain_interior(void *arg)
{
	struct slab *slab = arg;

	slab_chain(slab, (char *)slab_object(slab, 1) + 8, 0);
}

static void test_chain_rejects(void **state)
{
	struct slab *slab = small_slab(&(struct slab_layout){ .object_size = 64 });

	(void)state;
	unit_dies(chain_interior, slab, "does not point to the start of an object");
}

/* ---- short of memory ------------------------------------------------------------------------------ */

static uint64_t counted(enum counter which)
{
	return counters_sum(&class.counters, which);
}

/* Only single pages are left: a slab of the smallest order. */
static void test_fallback(void **state)
{
	unsigned n = 1u << supply_max_order();
	struct page **pages = calloc(n, sizeof(*pages));
	struct slab *slab;
	char *base;

	(void)state;
	init_class(&class, "fallback", &(struct slab_layout){ .object_size = 700 });
	assert_true(class.order > class.min_order);
	supply_free(supply_alloc(supply_max_order(), 0, 0));
	for (unsigned i = 0; i < n; i++)
		pages[i] = supply_alloc(0, 0, 0);
	base = page_address(pages[n - 1]);
	supply_free(pages[n - 1]);
	assert_null(supply_alloc(class.order, 0, SUPPLY_NOWAIT));

	slab = slab_new(&class, 0, SUPPLY_NOWAIT);
	assert_non_null(slab);
	unit_equal(slab->order, class.min_order);
	unit_equal(slab->objects, class.min_objects);
	assert_ptr_equal(slab->base, base);
	unit_equal(counted(CTR_order_fallback), 1);
	unit_equal(counted(CTR_alloc_slab), 1);
	assert_ptr_equal(slab_of(&class, slab_object(slab, slab->objects - 1)), slab);

	assert_null(slab_new(&class, 0, SUPPLY_NOWAIT));
	unit_equal(counted(CTR_order_fallback), 1);
	unit_equal(counted(CTR_alloc_slab), 1);
	slab_release(slab);
	free(pages);
}

static void test_no_memory(void **state)
{
	struct slab *slab;

	(void)state;
	init_class(&class, "none", &(struct slab_layout){ .object_size = 700 });
	plat_inject_failures = 0;
	assert_null(slab_new(&class, 0, 0));
	plat_inject_failures = -1;
	unit_equal(counted(CTR_alloc_slab), 0);
	slab = new_slab(&class);
	unit_equal(slab->order, class.order);
	unit_equal(counted(CTR_order_fallback), 0);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_layout, UNIT_SHARED),
		UNIT_TEST(test_layout_known, UNIT_SHARED),
		UNIT_TEST(test_align, UNIT_SHARED),
		UNIT_TEST(test_state_word, UNIT_SHARED),
		UNIT_TEST(test_chain, UNIT_SHARED),
		UNIT_TEST(test_deal, UNIT_SHARED),
		UNIT_TEST(test_deal_random, UNIT_SHARED),
		UNIT_TEST(test_link_outside, UNIT_SHARED),
		UNIT_TEST(test_obfuscation, UNIT_SHARED),
		UNIT_TEST(test_corruption, UNIT_SHARED),
		UNIT_TEST(test_constructor, UNIT_SHARED),
		UNIT_TEST(test_slab_of, UNIT_SHARED),
		UNIT_TEST(test_rejections, UNIT_SHARED),
		UNIT_TEST(test_rejections_large, UNIT_SHARED),
		UNIT_TEST(test_chain_rejects, UNIT_SHARED),
		UNIT_TEST(test_fallback, UNIT_SHARED),
		UNIT_TEST(test_no_memory, UNIT_SHARED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
