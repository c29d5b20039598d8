/* SPDX-License-Identifier: MIT */
/* What <uslub/malloc.h> promises, function by function. */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <urcu/flavor.h>
#include <uslub/malloc.h>

#include "unit.h"
#include "malloc/internal.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* One size of each kind: class, run of pages, mapping. */
static const size_t kinds[] = { 100, 100 * KIB, 40 * MIB };

/* ---- content -------------------------------------------------------------------------------------- */

/* Places whose content is looked at: all of small memory, of larger some in each page, or here and there. */
static size_t step_of(size_t size)
{
	return size <= 8 * KIB ? 1 : size <= MIB ? 509 : size <= 8 * MIB ? 4093 : 100003;
}

static unsigned char value_at(uint64_t seed, size_t at)
{
	return (unsigned char)((seed * 167 + at * 31 + (at >> 12)) | 1);
}

static void fill(void *memory, size_t size, uint64_t seed)
{
	unsigned char *p = memory;

	for (size_t at = 0; at < size; at += step_of(size))
		p[at] = value_at(seed, at);
	if (size)
		p[size - 1] = value_at(seed, size - 1);
}

/* The first `kept` bytes of what fill() made of `size`. */
static void check(const void *memory, size_t size, size_t kept, uint64_t seed)
{
	const unsigned char *p = memory;

	for (size_t at = 0; at < kept; at += step_of(size))
		if (p[at] != value_at(seed, at))
			fail_msg("byte %zu of %zu (%zu kept) is lost", at, size, kept);
	if (size && kept == size && p[size - 1] != value_at(seed, size - 1))
		fail_msg("the last byte of %zu is lost", size);
}

static void is_zero(const void *memory, size_t size)
{
	const unsigned char *p = memory;

	for (size_t at = 0; at<size; at += size> MIB ? step_of(size) : 1)
		if (p[at])
			fail_msg("byte %zu of %zu is not zero", at, size);
}

/* ---- what must hold of all memory ----------------------------------------------------------------- */

static void *good(void *p, size_t size, size_t align)
{
	if (!p)
		fail_msg("no memory for %zu bytes at a multiple of %zu", size, align);
	if ((uintptr_t)p % max(align, (size_t)MALLOC_ALIGN))
		fail_msg("%p of %zu bytes is not at a multiple of %zu", p, size, align);
	if (uslub_usable_size(p) < size)
		fail_msg("%zu bytes, of which %zu may be used", size, uslub_usable_size(p));
	return p;
}

static void *alloc(size_t size)
{
	return good(uslub_malloc(size), size, 1);
}

static struct uslub_malloc_info info(void)
{
	struct uslub_malloc_info i;

	uslub_malloc_info(&i);
	return i;
}

static bool used_is(void *arg)
{
	return info().used == *(const size_t *)arg;
}

/* Also of what is freed later, by other threads. */
static void wait_used(size_t used)
{
	for (unsigned tag = TAG_CLASS; tag < TAG_RUN; tag++)
		if (malloc_caches[tag])
			uslub_cache_barrier_rcu(malloc_caches[tag]);
	if (!unit_wait(used_is, &used))
		fail_msg("%zu bytes are used, not %zu", info().used, used);
}

static bool fails(void *p, int error)
{
	return !p && errno == error;
}

/* ---- sizes ---------------------------------------------------------------------------------------- */

/* Calls fn for sizes around those at which memory comes from elsewhere. */
static void for_each_edge(void (*fn)(size_t size))
{
	static const size_t edges[] = { 36 * KIB, 40 * KIB, 64 * KIB,  100 * KIB,
					MIB,	  2 * MIB,  4 * MIB,   32 * MIB,
					33 * MIB, 64 * MIB, 100 * MIB, 1024 * MIB };

	fn(0);
	for (unsigned class = 0; class < CLASSES; class ++)
		for (unsigned i = 0; i < 3; i++)
			fn(class_size(class) - 1 + i);
	for (unsigned e = 0; e < array_size(edges); e++)
		for (unsigned i = 0; i < 3; i++)
			fn(edges[e] - 1 + i);
}

static void test_classes(void **state)
{
	double wasted = 0;
	unsigned class;

	(void)state;
	unit_equal(class_size(0), MALLOC_ALIGN);
	unit_equal(class_size(CLASSES - 1), CLASS_MOST);
	for (class = 1; class < CLASSES; class ++)
		assert_true(class_size(class) > class_size(class - 1));
	for (size_t size = 1; size <= CLASS_MOST; size++) {
		class = class_of_size(size);
		assert_true(class < CLASSES && class_size(class) >= size);
		assert_true(!class || class_size(class - 1) < size);
		wasted += (double)(class_size(class) - size) / (double)class_size(class);
	}
	assert_true(wasted / CLASS_MOST < 0.125);
}

/* Twice, since what asks first makes the cache. */
static void test_classes_are_used(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++)
		for (size_t size = 0; size <= CLASS_MOST; size++) {
			size_t most = class_size(class_of_size(max(size, (size_t)1)));
			void *p = alloc(size), *zeros = good(uslub_calloc(1, size), size, 1);
			void *flags = good(uslub_malloc_flags(size, 0), size, 1);

			unit_equal(uslub_usable_size(p), most);
			unit_equal(uslub_usable_size(zeros), most);
			unit_equal(uslub_usable_size(flags), most);
			uslub_free(p);
			uslub_free(zeros);
			uslub_free(flags);
		}
	unit_equal(info().used, 0);
}

static void each_entry(size_t size)
{
	bool zero = size <= 128 * MIB; /* all of it is looked at */
	void *p[] = {
		alloc(size),
		good(uslub_malloc_flags(size, 0), size, 1),
		good(uslub_realloc(NULL, size), size, 1),
		good(uslub_aligned_alloc(MALLOC_ALIGN, size), size, MALLOC_ALIGN),
		good(uslub_aligned_alloc(64, size), size, 64),
		good(uslub_calloc(1, size), size, 1),
		good(uslub_calloc(size, 1), size, 1),
		good(uslub_malloc_flags(size, USLUB_ZERO), size, 1),
	};

	for (unsigned i = 5; zero && i < array_size(p); i++)
		is_zero(p[i], size);
	for (unsigned i = 0; i < array_size(p); i++)
		fill(p[i], uslub_usable_size(p[i]), size + i);
	for (unsigned i = 0; i < array_size(p); i++)
		check(p[i], uslub_usable_size(p[i]), uslub_usable_size(p[i]), size + i);
	for (unsigned i = 0; i < array_size(p); i++)
		uslub_free(p[i]);
}

static void each_small_entry(size_t size)
{
	if (size < 8 * MIB || (size > 31 * MIB && size < 34 * MIB))
		each_entry(size);
}

static void test_edges(void **state)
{
	(void)state;
	for_each_edge(unit_slow() ? each_small_entry : each_entry);
	unit_equal(info().used, 0);
	unit_equal(info().mappings, 0);
}

static void all_of_it(size_t size)
{
	unsigned char *p = alloc(size);

	p[0] = 1;
	p[size - 1] = 2;
	unit_equal(info().mapped, uslub_usable_size(p));
	uslub_free(p);
	unit_equal(info().mapped, 0);
}

static void test_very_large(void **state)
{
	(void)state;
	if (unit_sanitized() || unit_under_valgrind() || unit_emulated())
		unit_skip("the tool has another address space");
	all_of_it(1024 * MIB);
	all_of_it(4096 * MIB + 1);
}

static void too_large(size_t size)
{
	errno = 0;
	assert_true(fails(uslub_malloc(size), ENOMEM));
	errno = 0;
	assert_true(fails(uslub_malloc_flags(size, USLUB_ZERO), ENOMEM));
	errno = 0;
	assert_true(fails(uslub_calloc(1, size), ENOMEM));
	errno = 0;
	assert_true(fails(uslub_realloc(NULL, size), ENOMEM));
	for (size_t align = 1; align <= 256 * MIB; align *= 2) {
		errno = 0;
		assert_true(fails(uslub_aligned_alloc(align, size), ENOMEM));
	}
	for (unsigned i = 0; i < array_size(kinds); i++) {
		void *p = alloc(kinds[i]);

		fill(p, kinds[i], i);
		errno = 0;
		assert_true(fails(uslub_realloc(p, size), ENOMEM));
		check(p, kinds[i], kinds[i], i);
		uslub_free(p);
	}
}

static void test_too_large(void **state)
{
	(void)state;
	for (size_t less = 0; less < 3; less++) {
		too_large(SIZE_MAX - less);
		too_large(SIZE_MAX - plat_page_size() - less);
		too_large((size_t)PTRDIFF_MAX + 2 - less);
		too_large((size_t)PTRDIFF_MAX - plat_page_size() - less);
		too_large(((size_t)1 << 62) + 1 - less);
	}
	too_large((size_t)1 << 48);
	unit_equal(info().used, 0);
}

static void test_calloc_overflow(void **state)
{
	volatile size_t most = SIZE_MAX; /* compilers warn of constants */

	(void)state;
	for (unsigned bits = 1; bits < 64; bits++) {
		size_t n = (size_t)1 << bits, size = (size_t)1 << (64 - bits);

		errno = 0;
		assert_true(fails(uslub_calloc(n, size), ENOMEM));
		errno = 0;
		assert_true(fails(uslub_calloc(n + 1, size), ENOMEM));
		errno = 0;
		assert_true(fails(uslub_calloc(most, n), ENOMEM));
	}
	uslub_free(good(uslub_calloc(0, most), 0, 1));
	uslub_free(good(uslub_calloc(most, 0), 0, 1));
	unit_equal(info().used, 0);
}

/* ---- alignment ------------------------------------------------------------------------------------ */

static void aligned(size_t align, size_t size)
{
	void *p[3];

	for (unsigned i = 0; i < array_size(p); i++) {
		p[i] = good(uslub_aligned_alloc(align, size), size, align);
		fill(p[i], min(uslub_usable_size(p[i]), 64 * KIB), i);
	}
	for (unsigned i = 0; i < array_size(p); i++) {
		size_t filled = min(uslub_usable_size(p[i]), 64 * KIB);

		check(p[i], filled, filled, i);
		uslub_free(p[i]);
	}
}

static void test_aligned(void **state)
{
	const size_t others[] = { 0, 1, 40, 1000, 5000, 40000, 3 * MIB, 40 * MIB };

	(void)state;
	for (size_t align = 1; align <= 128 * MIB; align *= 2) {
		if (align > 4 * MIB && align < 64 * MIB)
			continue;
		for (unsigned i = 0; i < array_size(others); i++)
			aligned(align, others[i]);
		for (size_t size = align - 1; size <= align + 1; size++)
			aligned(align, size);
	}
	unit_equal(info().used, 0);
	unit_equal(info().mappings, 0);
}

static void test_aligned_refusals(void **state)
{
	const size_t wrong[] = { 0, 3, 12, 24, 4097, 3 * MIB, SIZE_MAX, SIZE_MAX / 2 };

	(void)state;
	for (unsigned i = 0; i < array_size(wrong); i++)
		for (unsigned k = 0; k < array_size(kinds); k++) {
			errno = 0;
			assert_true(fails(uslub_aligned_alloc(wrong[i], kinds[k]), EINVAL));
		}
	/* none has as much address space */
	for (unsigned bits = 48; bits < 64; bits++) {
		errno = 0;
		assert_true(fails(uslub_aligned_alloc((size_t)1 << bits, 1), ENOMEM));
	}
	unit_equal(info().used, 0);
}

/* The alignment of what realloc() leaves or moves is at least the usual one. */
static void test_realloc_aligned(void **state)
{
	(void)state;
	for (size_t align = 32; align <= 64 * MIB; align *= 4)
		for (size_t size = 1; size <= 64 * MIB; size *= 16) {
			void *p = good(uslub_aligned_alloc(align, size), size, align);

			fill(p, size, align);
			p = good(uslub_realloc(p, size + 3 * size / 2), size, 1);
			check(p, size, size, align);
			uslub_free(p);
		}
	unit_equal(info().used, 0);
}

/* ---- neighbours ----------------------------------------------------------------------------------- */

#define NEIGHBOURS 40

/* All bytes that may be used, of memory that lies side by side. */
static void neighbours(size_t size)
{
	unsigned n = size > 8 * MIB ? 3 : size > 64 * KIB ? 6 : NEIGHBOURS;
	void *p[NEIGHBOURS];

	for (unsigned i = 0; i < n; i++) {
		p[i] = alloc(size);
		fill(p[i], uslub_usable_size(p[i]), i);
	}
	for (unsigned i = 0; i < n; i++)
		check(p[i], uslub_usable_size(p[i]), uslub_usable_size(p[i]), i);
	for (unsigned i = 0; i < n; i += 2)
		uslub_free(p[i]);
	for (unsigned i = 0; i < n; i += 2) {
		p[i] = alloc(size);
		fill(p[i], uslub_usable_size(p[i]), i + 100);
	}
	for (unsigned i = 0; i < n; i++)
		check(p[i], uslub_usable_size(p[i]), uslub_usable_size(p[i]), i % 2 ? i : i + 100);
	for (unsigned i = 0; i < n; i++)
		uslub_free(p[i]);
}

static void test_neighbours(void **state)
{
	(void)state;
	for (unsigned class = 0; class < CLASSES; class ++)
		neighbours(class_size(class));
	for (size_t size = CLASS_MOST + 1; size < 8 * MIB; size = size * 5 / 4 + 4093)
		neighbours(size);
	neighbours(40 * MIB);
	unit_equal(info().used, 0);
}

/* ---- calloc --------------------------------------------------------------------------------------- */

/* Memory that had content comes back; how often it was the same is the control. */
static unsigned dirty(size_t size)
{
	unsigned n = size > MIB ? 2 : 40, same = 0;
	unsigned char *p[40], *was[40];

	for (unsigned i = 0; i < n; i++) {
		was[i] = p[i] = alloc(size);
		memset(p[i], 0xee, uslub_usable_size(p[i]));
	}
	for (unsigned i = 0; i < n; i++)
		uslub_free(p[i]);
	for (unsigned i = 0; i < n; i++) {
		p[i] = i % 2 ? uslub_calloc(1, size) : uslub_malloc_flags(size, USLUB_ZERO);
		is_zero(good(p[i], size, 1), size);
		for (unsigned j = 0; j < n; j++)
			same += p[i] == was[j];
	}
	for (unsigned i = 0; i < n; i++)
		uslub_free(p[i]);
	return same;
}

static void test_calloc_dirty(void **state)
{
	(void)state;
	for (unsigned class = 0; class < CLASSES; class ++)
		assert_true(dirty(class_size(class) - 3));
	for (size_t size = 33 * KIB; size < 2 * MIB; size *= 2)
		assert_true(dirty(size));
	dirty(40 * MIB);
	unit_equal(info().used, 0);
}

/* ---- realloc -------------------------------------------------------------------------------------- */

static void *resized(void *p, size_t old, size_t size, uint64_t *seed)
{
	p = good(uslub_realloc(p, size), size, 1);
	check(p, old, min(old, size), *seed);
	fill(p, size, ++*seed);
	return p;
}

static void test_realloc_chain(void **state)
{
	const size_t chain[] = { 1,	    16,	      17,	100,	  1000,	    30000,
				 32768,	    32769,    50000,	70000,	  65536,    300000,
				 MIB,	    2 * MIB,  3 * MIB,	32 * MIB, 33 * MIB, 80 * MIB,
				 40 * MIB,  33 * MIB, 30 * MIB, 5 * MIB,  MIB,	    100 * KIB,
				 40 * KIB,  20 * KIB, 5000,	4000,	  40 * MIB, 5,
				 200 * KIB, 10,	      70 * MIB, 90 * KIB, 3 };
	uint64_t seed = 0;
	size_t old = 0;
	void *p = NULL;

	(void)state;
	for (unsigned i = 0; i < array_size(chain); i++) {
		p = resized(p, old, chain[i], &seed);
		old = chain[i];
	}
	uslub_free(p);
	unit_equal(info().used, 0);
	unit_equal(info().mappings, 0);
}

/* Many at once, so that what grows meets others. */
static void test_realloc_random(void **state)
{
	struct {
		void *p;
		size_t size;
		uint64_t seed;
	} some[50] = { { NULL, 0, 0 } };

	(void)state;
	for (unsigned i = 0; i < unit_scaled(4000); i++) {
		unsigned k = unit_below(array_size(some));
		size_t size = 1 + unit_below(1u << (4 + unit_below(19)));

		some[k].p = resized(some[k].p, some[k].size, size, &some[k].seed);
		some[k].size = size;
	}
	for (unsigned k = 0; k < array_size(some); k++) {
		check(some[k].p, some[k].size, some[k].size, some[k].seed);
		uslub_free(some[k].p);
	}
	unit_equal(info().used, 0);
}

/* From each kind to each, up and down. */
static void test_realloc_kinds(void **state)
{
	(void)state;
	for (unsigned from = 0; from < array_size(kinds); from++)
		for (unsigned to = 0; to < array_size(kinds); to++)
			for (unsigned more = 0; more < 3; more++) {
				size_t size = kinds[to] << more;
				uint64_t seed = size;
				void *p = alloc(kinds[from]);

				fill(p, kinds[from], seed);
				uslub_free(resized(p, kinds[from], size, &seed));
				unit_equal(info().used, 0);
			}
}

static void test_realloc_ends(void **state)
{
	(void)state;
	for (unsigned i = 0; i < array_size(kinds); i++) {
		void *p = good(uslub_realloc(NULL, kinds[i]), kinds[i], 1);

		assert_true(info().used >= kinds[i]);
		errno = E2BIG;
		assert_null(uslub_realloc(p, 0));
		unit_equal(errno, E2BIG);
		unit_equal(info().used, 0);
	}
	errno = E2BIG;
	uslub_free(good(uslub_realloc(NULL, 0), 1, 1));
	unit_equal(errno, E2BIG);
}

/* Memory that is made much smaller is not kept. */
static void test_realloc_gives_back(void **state)
{
	void *p[20];

	(void)state;
	for (unsigned i = 0; i < array_size(p); i++) {
		p[i] = alloc(40 * MIB >> i);
		p[i] = good(uslub_realloc(p[i], 10 * MIB >> i), 10 * MIB >> i, 1);
		assert_true(uslub_usable_size(p[i]) <= 20 * MIB >> i);
	}
	for (unsigned i = 0; i < array_size(p); i++)
		uslub_free(p[i]);
}

/* ---- free ----------------------------------------------------------------------------------------- */

static void free_later(void *p)
{
	uslub_free_rcu_any(&urcu_memb_flavor, p);
}

static void test_free_keeps_errno(void **state)
{
	void (*const frees[])(void *) = { uslub_free, uslub_free_nolock, free_later };

	(void)state;
	for (unsigned f = 0; f < array_size(frees); f++) {
		errno = E2BIG;
		frees[f](NULL);
		unit_equal(errno, E2BIG);
		for (unsigned i = 0; i < array_size(kinds); i++) {
			void *p[100];
			unsigned n = i == 2 ? 2 : array_size(p);

			for (unsigned k = 0; k < n; k++)
				p[k] = alloc(kinds[i]);
			errno = E2BIG;
			for (unsigned k = 0; k < n; k++)
				frees[f](p[k]);
			unit_equal(errno, E2BIG);
		}
	}
	/* what was freed without locks goes with the next call that may have them */
	uslub_free(alloc(40 * KIB));
	wait_used(0);
}

/* Those that succeed leave errno alone, too. */
static void test_alloc_keeps_errno(void **state)
{
	(void)state;
	errno = E2BIG;
	for_each_edge(each_small_entry);
	unit_equal(errno, E2BIG);
	unit_equal(uslub_usable_size(NULL), 0);
	unit_equal(errno, E2BIG);
}

static void free_by_gated(void *p);

static void test_typed_objects(void **state)
{
	const struct uslub_cache_args args = { .args_size = sizeof(args),
					       .rcu = &urcu_memb_flavor };
	struct uslub_cache *caches[] = { uslub_cache_create("plain", 100, NULL),
					 uslub_cache_create("deferred", 3000, &args) };
	void (*const frees[])(void *) = { uslub_free, uslub_free_nolock, free_later,
					  free_by_gated };
	void *p[300];

	(void)state;
	for (unsigned i = 0; i < array_size(caches); i++)
		for (unsigned f = 0; f < array_size(frees); f++) {
			assert_non_null(caches[i]);
			for (unsigned k = 0; k < array_size(p); k++) {
				p[k] = uslub_cache_alloc(caches[i], 0);
				assert_non_null(p[k]);
				unit_equal(uslub_usable_size(p[k]),
					   uslub_cache_object_size(caches[i]));
			}
			unit_equal(info().used, 0);
			for (unsigned k = 0; k < array_size(p); k++)
				frees[f](p[k]);
		}
	for (unsigned i = 0; i < array_size(caches); i++) {
		/* A flavor that is not the cache's has no barrier of its own to wait with. */
		while (plat_load_acquire(&caches[i]->rcu_queued))
			uslub_cache_barrier_rcu(caches[i]);
		unit_check_cache(caches[i], 0, 0, 0);
		unit_equal(uslub_cache_destroy(caches[i]), 0);
	}
}

/* ---- any context ---------------------------------------------------------------------------------- */

static void test_nolock(void **state)
{
	void *p[64];

	(void)state;
	/* nobody asked for such sizes before, and they may not be made now */
	for (unsigned class = 0; class < CLASSES; class ++) {
		errno = 0;
		assert_true(fails(uslub_malloc_flags(class_size(class), USLUB_NOLOCK), ENOMEM));
		uslub_free(alloc(class_size(class)));
		p[class] = good(uslub_malloc_flags(class_size(class), USLUB_NOLOCK),
				class_size(class), 1);
	}
	for (unsigned i = 1; i < array_size(kinds); i++) {
		uslub_free(alloc(kinds[i]));
		errno = 0;
		assert_true(fails(uslub_malloc_flags(kinds[i], USLUB_NOLOCK), ENOMEM));
	}
	for (unsigned class = 0; class < CLASSES; class ++)
		uslub_free_nolock(p[class]);
	unit_equal(info().used, 0);
}

/* Memory of the kinds that are given up by the next call that may do so. */
static void test_free_nolock_large(void **state)
{
	void *p[30];

	(void)state;
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 1; i < array_size(kinds); i++) {
			unsigned n = i == 2 ? 3 : array_size(p);

			for (unsigned k = 0; k < n; k++)
				p[k] = alloc(kinds[i]);
			for (unsigned k = 0; k < n; k++)
				uslub_free_nolock(p[k]);
			uslub_free(alloc(kinds[1]));
			unit_equal(info().used, 0);
			unit_equal(info().mappings, 0);
		}
}

static unsigned interruptions;
static uint64_t handler_failed, handler_got;
static void *for_handler; /* atomic: memory that the handler shall free */

static void handler(int signal)
{
	int error = errno;
	void *p[12];

	(void)signal;
	interruptions++;
	for (unsigned i = 0; i < array_size(p); i++) {
		p[i] = uslub_malloc_flags(16u << i % 8, USLUB_NOLOCK);
		handler_failed += !p[i];
		handler_got += !!p[i];
		if (p[i])
			memset(p[i], 0x99, uslub_usable_size(p[i]));
	}
	for (unsigned i = 0; i < array_size(p); i++)
		uslub_free_nolock(p[i]);
	uslub_free_nolock(plat_exchange(&for_handler, NULL));
	errno = error;
}

static void interrupted_once(unsigned i)
{
	size_t size = i % 50 ? 1 + unit_below(4000) : 33 * KIB + unit_below(200000), more;
	unsigned char *p = alloc(size);
	void *none;

	fill(p, size, i);
	if (i % 3 == 0) {
		more = size + unit_below((unsigned)size);
		p = good(uslub_realloc(p, more), more, 1);
	}
	check(p, size, size, i);
	none = i % 2 ? p : plat_exchange(&for_handler, p);
	uslub_free(none);
}

/* A thread that is interrupted wherever it is, by a handler that uses the same sizes. */
static void test_signal_handler(void **state)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	struct itimerval often = { .it_interval = { 0, 100 }, .it_value = { 0, 100 } },
			 never = { 0 };
	time_t end = time(NULL) + 2;
	unsigned i = 0;

	(void)state;
	for (unsigned k = 0; k < 8; k++)
		uslub_free(alloc(16u << k));
	assert_int_equal(sigaction(SIGPROF, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
	while (time(NULL) < end)
		interrupted_once(i++);
	setitimer(ITIMER_PROF, &never, NULL);
	uslub_free(plat_exchange(&for_handler, NULL));
	uslub_free(alloc(33 * KIB)); /* with what handlers left */
	assert_true(interruptions > 10);
	assert_true(handler_got > handler_failed);
	unit_equal(info().used, 0);
}

/* ---- deferred frees ------------------------------------------------------------------------------- */

/* Two flavors whose grace periods end when the test says so. */
static bool open_gates[2];
static unsigned waiting[2];

static void wait_at(unsigned which)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	plat_fetch_add(&waiting[which], 1);
	while (!plat_load_acquire(&open_gates[which]))
		nanosleep(&pause, NULL);
	plat_fetch_sub(&waiting[which], 1);
}

static void wait_first(void)
{
	wait_at(0);
}

static void wait_second(void)
{
	wait_at(1);
}

static int no_reader(void)
{
	return 0;
}

static void nothing(void)
{
}

#define GATED(synchronize)                                                                         \
	{                                                                                          \
		.update_synchronize_rcu = (synchronize), .read_ongoing = no_reader,                \
		.thread_offline = nothing, .thread_online = nothing,                               \
	}
static const struct rcu_flavor_struct gated[2] = { GATED(wait_first), GATED(wait_second) };

static void free_by_gated(void *p)
{
	plat_store_release(&open_gates[0], true);
	uslub_free_rcu_any(&gated[0], p);
}

static bool is_waiting(void *which)
{
	return plat_load(&waiting[*(unsigned *)which]);
}

#define DEFERRED 30

/* Until the grace period is over the content stays, and nobody else gets the memory. */
static void held(size_t size, unsigned which)
{
	unsigned n = size > MIB ? 2 : DEFERRED;
	void *p[DEFERRED], *others[DEFERRED];
	size_t before = info().used, used;

	plat_store_release(&open_gates[which], false);
	for (unsigned i = 0; i < n; i++) {
		p[i] = alloc(size);
		fill(p[i], size, i);
	}
	used = info().used;
	for (unsigned i = 0; i < n; i++)
		uslub_free_rcu_any(&gated[which], p[i]);
	for (unsigned i = 0; i < n; i++)
		memset(others[i] = alloc(size), 0x55, size);
	assert_true(info().used >= used);
	for (unsigned i = 0; i < n; i++)
		check(p[i], size, size, i);
	for (unsigned i = 0; i < n; i++)
		uslub_free(others[i]);
	plat_store_release(&open_gates[which], true);
	wait_used(before);
}

static void test_free_rcu(void **state)
{
	(void)state;
	for (unsigned which = 0; which < 2; which++)
		for (unsigned i = 0; i < array_size(kinds); i++)
			for (unsigned round = 0; round < 2; round++)
				held(kinds[i], which);
	/* one class, both flavors */
	held(kinds[0], 0);
	held(5000, 1);
	held(5000, 0);
	unit_equal(info().used, 0);
}

/* The second flavor's frees do not wait for the readers of the first, of memory of one class. */
static void test_free_rcu_flavors(void **state)
{
	unsigned first = 0;
	size_t both;
	void *p[2];

	(void)state;
	uslub_free_rcu_any(&gated[0],
			   alloc(kinds[1])); /* the first flavor is the first that comes */
	for (unsigned i = 0; i < 2; i++)
		p[i] = alloc(kinds[1]);
	both = info().used;
	assert_true(unit_wait(is_waiting, &first));
	uslub_free_rcu_any(&gated[0], p[0]);
	plat_store_release(&open_gates[1], true);
	uslub_free_rcu_any(&gated[1], p[1]);
	wait_used(both - uslub_usable_size(p[0]));
	plat_store_release(&open_gates[0], true);
	wait_used(0);
}

struct reader {
	unsigned char *p;
	bool in, leave;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	uint64_t rounds = 0;

	urcu_memb_flavor.register_thread();
	urcu_memb_flavor.read_lock();
	plat_store_release(&r->in, true);
	do {
		for (unsigned i = 0; i < 100; i++)
			if (r->p[i] != 0x42)
				fail_msg("what a reader held was changed");
	} while (rounds++ < 10 || !plat_load_acquire(&r->leave));
	urcu_memb_flavor.read_unlock();
	urcu_memb_flavor.unregister_thread();
	return NULL;
}

static bool reader_is_in(void *arg)
{
	return plat_load_acquire(&((struct reader *)arg)->in);
}

/* A real reader, of memory of each kind. */
static void test_free_rcu_reader(void **state)
{
	const struct timespec pause = { .tv_nsec = 30000000 };

	(void)state;
	for (unsigned i = 0; i < array_size(kinds); i++) {
		struct reader r = { .p = alloc(kinds[i]) };
		size_t used = info().used;
		pthread_t thread;
		void *others[40];

		memset(r.p, 0x42, 100);
		assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
		assert_true(unit_wait(reader_is_in, &r));
		uslub_free_rcu_any(&urcu_memb_flavor, r.p);
		for (unsigned k = 0; k < 40 - 38 * (i == 2); k++)
			memset(others[k] = alloc(kinds[i]), 0x66, 100);
		nanosleep(&pause, NULL);
		for (unsigned k = 0; k < 40 - 38 * (i == 2); k++)
			uslub_free(others[k]);
		assert_true(info().used >= used);
		plat_store_release(&r.leave, true);
		pthread_join(thread, NULL);
		wait_used(0);
	}
}

/* ---- figures -------------------------------------------------------------------------------------- */

static void test_info(void **state)
{
	size_t sizes[] = { 1, 16, 500, 5000, 32768, 40000, MIB, 3 * MIB, 40 * MIB, 100 * MIB };
	struct uslub_malloc_info i;
	size_t used = 0, mapped = 0, mappings = 0, usable;
	void *p[60];

	(void)state;
	i = info();
	unit_equal(i.used, 0);
	unit_equal(i.cached, 0);
	unit_equal(i.mapped, 0);
	for (unsigned k = 0; k < array_size(p); k++) {
		p[k] = alloc(sizes[k % array_size(sizes)]);
		usable = uslub_usable_size(p[k]);
		used += usable;
		if (usable > 32 * MIB) {
			mapped += usable;
			mappings++;
		}
		i = info();
		unit_equal(i.used, used);
		unit_equal(i.mapped, mapped);
		unit_equal(i.mappings, mappings);
	}
	assert_true(mappings >= 12);
	for (unsigned k = 0; k < array_size(p); k++) {
		used -= uslub_usable_size(p[k]);
		uslub_free(p[k]);
		unit_equal(info().used, used);
	}
	i = info();
	unit_equal(i.used, 0);
	unit_equal(i.mapped, 0);
	unit_equal(i.mappings, 0);
	assert_true(i.cached > 0 && i.spare > 0);
}

static void test_trim(void **state)
{
	void *p[2000];

	(void)state;
	for (unsigned k = 0; k < array_size(p); k++)
		memset(p[k] = alloc(20 * (k % 400)), 1, 20 * (k % 400));
	for (unsigned k = 0; k < array_size(p); k++)
		uslub_free(p[k]);
	assert_true(info().cached + info().spare > 100 * KIB);
	unit_equal(uslub_malloc_trim(), 1);
	unit_equal(info().cached, 0);
	assert_true(info().spare < 4 * MIB);
	unit_equal(uslub_malloc_trim(), 0);
	unit_equal(info().used, 0);
	uslub_free(alloc(100));
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_classes, UNIT_SHARED),
		UNIT_TEST(test_classes_are_used, UNIT_BOTH),
		UNIT_TEST(test_edges, UNIT_REAL),
		UNIT_TEST(test_very_large, UNIT_REAL),
		UNIT_TEST(test_too_large, UNIT_REAL),
		UNIT_TEST(test_calloc_overflow, UNIT_REAL),
		UNIT_TEST(test_aligned, UNIT_REAL),
		UNIT_TEST(test_aligned_refusals, UNIT_REAL),
		UNIT_TEST(test_realloc_aligned, UNIT_REAL),
		UNIT_TEST(test_neighbours, UNIT_BOTH),
		UNIT_TEST(test_calloc_dirty, UNIT_BOTH),
		UNIT_TEST(test_realloc_chain, UNIT_BOTH),
		UNIT_TEST(test_realloc_random, UNIT_REAL),
		UNIT_TEST(test_realloc_kinds, UNIT_REAL),
		UNIT_TEST(test_realloc_ends, UNIT_BOTH),
		UNIT_TEST(test_realloc_gives_back, UNIT_REAL),
		UNIT_TEST(test_free_keeps_errno, UNIT_BOTH),
		UNIT_TEST(test_alloc_keeps_errno, UNIT_REAL),
		UNIT_TEST(test_typed_objects, UNIT_BOTH),
		UNIT_TEST(test_nolock, UNIT_BOTH),
		UNIT_TEST(test_free_nolock_large, UNIT_BOTH),
		UNIT_TEST(test_signal_handler, UNIT_SHARED | UNIT_REAL),
		UNIT_TEST(test_free_rcu, UNIT_BOTH),
		UNIT_TEST(test_free_rcu_flavors, UNIT_BOTH),
		UNIT_TEST(test_free_rcu_reader, UNIT_BOTH),
		UNIT_TEST(test_info, UNIT_ALL),
		UNIT_TEST(test_trim, UNIT_BOTH),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
