/* SPDX-License-Identifier: MIT */
/*
 * General sizes.
 *
 * 1. Allocation
 *    A size up to 32 KiB has a tag, by a table in steps of 16 bytes (256 from 1 KiB on); CPU and tag make the
 *    address of a slot, from which the sequence of uslub_cache_alloc() pops. Whatever is not as usual (the cache
 *    is not there yet, its sheaf is empty, the size is larger) comes out as NULL and goes on in alloc_rest(),
 *    which asks. Larger sizes are runs of pages or mappings (large.c). Before the start of all no size has a tag:
 *    no sequence may be tried, since where a thread's struct rseq lies is not known.
 *
 * 2. Free
 *    The supply keeps a tag for each page. From an address it takes a test of the segments' bitmap and one byte
 *    to the slot, without touching the slab's descriptor; an address that is in no segment has tag 0. Here too
 *    all that is not as usual meets a slot without room and is sorted out in free_rest().
 *
 * 3. What is found out about wrong pointers
 *    Of each object that meets its slab: whether it is the start of an object of that cache (slab.c). Of each
 *    address that is in no slab: whether it is the start of a run or mapping. An object freed twice in a row is
 *    found at the top of the sheaf, others when a slab gets more objects than it has given.
 */
#include <errno.h>
#include <string.h>
#include "malloc/internal.h"

#define SIZE_MOST ((size_t)PTRDIFF_MAX)

void malloc_bad_pointer(const char *what, const void *p)
{
	plat_fatal("%s: pointer %p was not allocated here, or is free", what, p);
}

/* ---- allocation ----------------------------------------------------------------------------------- */

static void *no_memory(void)
{
	plat_set_errno(ENOMEM);
	return NULL;
}

static noinline void *alloc_rest(size_t size, unsigned flags)
{
	struct uslub_cache *c;
	void *p;

	if (size > CLASS_MOST) {
		p = size <= SIZE_MOST ? large_alloc(size, MALLOC_ALIGN, flags) : NULL;
		return likely(p) ? p : no_memory();
	}
	c = malloc_cache(class_of_size(max(size, (size_t)1)), flags);
	return likely(c) ? uslub_cache_alloc(c, flags) : no_memory();
}

static always_inline unsigned tag_of_size(size_t size)
{
	if (likely(size <= SMALL_MOST))
		return malloc_small_tags[(size + SMALL_STEP - 1) / SMALL_STEP];
	if (likely(size <= CLASS_MOST))
		return malloc_large_tags[(size + LARGE_STEP - 1) / LARGE_STEP];
	return TAG_NONE;
}

static always_inline void *alloc_fast(size_t size)
{
	unsigned tag = tag_of_size(size);

	if (unlikely(!tag))
		return NULL;
	return seq_pop_at(&malloc_fast.slots, &malloc_fast.pop_cpus, SLOT_OF_TAG(tag));
}

void *uslub_malloc(size_t size)
{
	void *p = alloc_fast(size);

	return likely(p) ? p : alloc_rest(size, 0);
}

void *uslub_malloc_flags(size_t size, unsigned flags)
{
	return alloc_rest(size, flags);
}

void *uslub_calloc(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (unlikely(__builtin_mul_overflow(n, size, &bytes)))
		return no_memory();
	p = alloc_fast(bytes);
	return likely(p) ? memset(p, 0, bytes) : alloc_rest(bytes, USLUB_ZERO);
}

/* Objects lie at multiples of their size in slabs that begin with a page. */
static struct uslub_cache *aligned_cache(size_t align, size_t size)
{
	unsigned class;

	if (align > plat_page_size())
		return NULL;
	for (class = class_of_size(size); class < CLASSES; class ++)
		if (!(class_size(class) & (align - 1)))
			return malloc_cache(class, 0);
	return NULL;
}

void *uslub_aligned_alloc(size_t align, size_t size)
{
	struct uslub_cache *c;
	void *p = NULL;

	if (unlikely(!is_power_of_2(align))) {
		plat_set_errno(EINVAL);
		return NULL;
	}
	size = max(size, (size_t)1);
	if (align <= MALLOC_ALIGN)
		return uslub_malloc(size);
	if (size > SIZE_MOST || align > SIZE_MOST)
		return no_memory();
	c = size <= CLASS_MOST ? aligned_cache(align, size) : NULL;
	p = c ? uslub_cache_alloc(c, 0) : large_alloc(size, align, 0);
	return likely(p) ? p : no_memory();
}

/* ---- free ----------------------------------------------------------------------------------------- */

static bool tag_is_class(unsigned tag)
{
	return tag >= TAG_CLASS && tag < TAG_RUN;
}

/* The cache of an object of a typed cache, or NULL. */
static struct uslub_cache *typed_cache(const void *p)
{
	const struct slab *slab = (const struct slab *)supply_page_of(p);
	struct uslub_cache *c;

	if (!slab || !slab->class)
		return NULL;
	c = container_of(slab->class, struct uslub_cache, class);
	return c->internal ? NULL : c;
}

/* The cache of an object of any cache. */
static struct uslub_cache *cache_of(const void *p, unsigned tag)
{
	if (likely(tag_is_class(tag)))
		return plat_load_acquire(&malloc_caches[tag]);
	return tag == TAG_NONE ? typed_cache(p) : NULL;
}

static noinline void free_rest(void *p, unsigned flags)
{
	struct uslub_cache *c;

	if (!p)
		return;
	c = cache_of(p, supply_tag_of(p));
	if (likely(c))
		cache_free_slow(c, p, flags);
	else
		large_free(p, flags);
}

static always_inline bool free_fast(void *p)
{
	unsigned tag = supply_tag_of(p);

	return likely(tag) && seq_push_at(&malloc_fast.slots, &malloc_fast.push_cpus,
					  SLOT_OF_TAG(tag), p) == SEQ_DONE;
}

void uslub_free(void *p)
{
	if (unlikely(!free_fast(p)))
		free_rest(p, 0);
}

void uslub_free_nolock(void *p)
{
	if (unlikely(!free_fast(p)))
		free_rest(p, USLUB_NOLOCK);
}

void uslub_free_rcu_any(const struct rcu_flavor_struct *rcu, void *p)
{
	struct uslub_cache *c;

	if (!p)
		return;
	c = cache_of(p, supply_tag_of(p));
	if (!c && !large_usable(p))
		malloc_bad_pointer("uslub_free_rcu_any", p);
	rcu_free_any(rcu, c, p);
}

/* ---- the rest ------------------------------------------------------------------------------------- */

size_t uslub_usable_size(const void *p)
{
	struct uslub_cache *c;
	size_t size;

	if (!p)
		return 0;
	c = cache_of(p, supply_tag_of(p));
	size = c ? c->class.object_size : large_usable(p);
	if (unlikely(!size))
		malloc_bad_pointer("uslub_usable_size", p);
	return size;
}

static void *move(void *p, size_t old, size_t size)
{
	void *to = uslub_malloc(size);

	if (!to)
		return NULL;
	memcpy(to, p, min(old, size));
	uslub_free(p);
	return to;
}

void *uslub_realloc(void *p, size_t size)
{
	size_t old;

	if (!p)
		return uslub_malloc(size);
	if (!size) {
		uslub_free(p);
		return NULL;
	}
	old = uslub_usable_size(p);
	/* An object that would save less than half stays where it is; large memory can be cut. */
	if (size <= old && size >= old / 2 && old <= CLASS_MOST)
		return p;
	if (size > SIZE_MOST)
		return no_memory();
	if (old > CLASS_MOST && size > CLASS_MOST) {
		void *to = large_realloc(p, size);

		if (to)
			return to;
	}
	return move(p, old, size);
}

/* Bytes in pages that have content. */
static uint64_t held(void)
{
	struct supply_usage usage;

	supply_usage(&usage);
	return usage.used + usage.dirty;
}

int uslub_malloc_trim(void)
{
	uint64_t before = held();

	for (unsigned tag = TAG_CLASS; tag < TAG_RUN; tag++)
		if (plat_load_acquire(&malloc_caches[tag]))
			uslub_cache_shrink(malloc_caches[tag]);
	supply_trim();
	return held() < before;
}

static uint64_t statistic(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value = 0;

	uslub_cache_stat(c, which, &value);
	return value;
}

/* Objects in sheaves are in use for their slabs. */
static void add_cache(struct uslub_malloc_info *info, const struct uslub_cache *c)
{
	uint64_t idle = statistic(c, USLUB_STAT_cpu_objects) +
			statistic(c, USLUB_STAT_barn_objects) +
			statistic(c, USLUB_STAT_stash_objects);
	uint64_t objects = statistic(c, USLUB_STAT_objects);
	uint64_t used = objects - min(objects, idle);

	info->used += used * c->class.size;
	info->cached += (statistic(c, USLUB_STAT_total_objects) - used) * c->class.size;
}

void uslub_malloc_info(struct uslub_malloc_info *info)
{
	struct supply_usage usage;

	*info = (struct uslub_malloc_info){ 0 };
	for (unsigned tag = TAG_CLASS; tag < TAG_RUN; tag++)
		if (plat_load_acquire(&malloc_caches[tag]))
			add_cache(info, malloc_caches[tag]);
	large_info(info);
	supply_usage(&usage);
	info->spare = usage.dirty;
}
