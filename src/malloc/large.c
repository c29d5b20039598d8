/* SPDX-License-Identifier: MIT */
/*
 * Memory beyond the size classes.
 *
 * 1. Runs
 *    Up to 32 MiB (or an alignment of that much) it is a run of pages of the supply, tagged TAG_RUN. Sizes are
 *    rounded up to eight steps in a doubling, so that few reallocs do anything and the supply cuts few buddies
 *    off. A run of some MiB grows in place where the pages behind it are free.
 *
 * 2. Mappings
 *    Beyond that it is a mapping of its own, which realloc moves by mremap(2) without copying. It begins at a
 *    multiple of a segment's size; the memory handed out begins `offset` bytes behind: a page, or the alignment
 *    that was asked for. The page before it is the head. A bitmap has a bit for each slot of the address
 *    space in which such memory begins.
 *        So an address is that of a mapping's memory only if its slot has the bit, its offset in the slot is a
 *    power of two, and the head's word for this very address is right, which takes a key that nobody knows. The
 *    head may be read: the mapping, of which it is a part, is longer than the offset. Alignments beyond the
 *    slot's size leave offset 0, with the head at the end of the slot before.
 *
 * 3. Any context
 *    Runs and mappings are neither made nor given up without locks and system calls. What is freed in a
 *    handler is chained through itself, and given up by the next call that may.
 */
#include <string.h>
#include "malloc/internal.h"

#define SLOT_SIZE      SEGMENT_SIZE
#define SLOT_BITS      SUPPLY_SLOTS
#define RUN_STEPS      8u
#define GROWS_IN_PLACE BLOCK_SIZE
#define MAPPING_MOST   ((size_t)1 << 62)

struct mapping {
	uint64_t word; /* of the address of its memory */
	size_t size;   /* of all of it */
	size_t offset; /* of its memory */
};

static uint64_t begins[SLOT_BITS / 64]; /* atomic: slots in which a mapping's memory begins */
static uint64_t key;			/* of the words of heads; drawn with the first mapping */

static size_t mappings; /* atomic: how many there are */
static bool
	zero_on_free; /* policy of runs, whose pages may be another's next; set before the first */

/* ---- runs ----------------------------------------------------------------------------------------- */

static size_t pages_of(size_t size)
{
	return (size + plat_page_size() - 1) >> plat_page_shift();
}

/* Eight steps in each doubling. */
static size_t rounded(size_t pages)
{
	size_t step = pages > RUN_STEPS ? ((size_t)1 << ilog2(pages - 1)) / RUN_STEPS : 1;

	return align_up(pages, max(step, (size_t)1));
}

/* A run of ours of which p is the beginning, or NULL. */
static struct page *run_at(const void *p)
{
	struct page *page;

	if (supply_tag_of(p) != TAG_RUN)
		return NULL;
	page = supply_page_of(p);
	return page && page->pages && page_address(page) == p ? page : NULL;
}

static size_t run_bytes(const struct page *run)
{
	return (size_t)run->pages << plat_page_shift();
}

static void *run_alloc(size_t pages, size_t align, unsigned flags)
{
	unsigned order = order_for(align, plat_page_shift());
	struct page *run = supply_alloc_pages(pages, order, plat_this_node(), node_flags(flags));

	if (!run)
		return NULL;
	supply_tag(run, TAG_RUN);
	supply_count_large(run_bytes(run));
	if (flags & USLUB_ZERO && run->dirty)
		memset(page_address(run), 0, run_bytes(run));
	return page_address(run);
}

static void run_free(struct page *run)
{
	if (plat_load(&zero_on_free))
		memset(page_address(run), 0, run_bytes(run));
	supply_count_large(-run_bytes(run));
	supply_free_pages(run, run->pages);
}

static bool run_resize(struct page *run, size_t pages)
{
	size_t old = run->pages;

	if (old == pages)
		return true;
	if (!supply_resize_pages(run, old, pages))
		return false;
	supply_count_large((pages - old) << plat_page_shift());
	return true;
}

/* ---- mappings ------------------------------------------------------------------------------------- */

static size_t slot_of(const void *p)
{
	return (uintptr_t)p / SLOT_SIZE;
}

static struct mapping *head_of(const void *p)
{
	return (struct mapping *)((char *)p - plat_page_size());
}

static uint64_t word_of(const void *p)
{
	return (plat_load(&key) ^ (uintptr_t)p) * 0x9e3779b97f4a7c15u;
}

static void mark(const void *p, bool there)
{
	uint64_t *word = &begins[slot_of(p) / 64], bit = 1ull << slot_of(p) % 64;

	if (there)
		plat_fetch_or(word, bit);
	else
		plat_fetch_and(word, ~bit);
}

static struct mapping *mapping_at(const void *p)
{
	size_t offset = (uintptr_t)p & (SLOT_SIZE - 1), slot = slot_of(p);

	if (slot >= SLOT_BITS || !(plat_load(&begins[slot / 64]) >> slot % 64 & 1))
		return NULL;
	if (offset && (!is_power_of_2(offset) || offset < plat_page_size()))
		return NULL;
	return head_of(p)->word == word_of(p) ? head_of(p) : NULL;
}

static size_t mapping_usable(const struct mapping *m)
{
	return m->size - m->offset;
}

static void draw_key(void)
{
	uint64_t none = 0;

	if (!plat_load(&key))
		plat_cas(&key, &none, plat_random() | 1);
}

/* The head of a mapping at `base`; returns the memory. */
static void *mapping_begin(char *base, size_t size, size_t offset)
{
	void *p = base + offset;

	*head_of(p) = (struct mapping){ .word = word_of(p), .size = size, .offset = offset };
	mark(p, true);
	supply_count_mapped(size - offset);
	plat_fetch_add(&mappings, 1);
	return p;
}

/* Back to where it can be unmapped, or moved. */
static char *mapping_end(struct mapping *m, void *p)
{
	char *base = (char *)p - m->offset;

	mark(p, false);
	supply_count_mapped(-mapping_usable(m));
	plat_fetch_sub(&mappings, 1);
	m->word = 0;
	return base;
}

static size_t mapping_bytes(size_t size, size_t offset)
{
	return align_up(size, plat_page_size()) + offset;
}

static void *mapping_alloc(size_t size, size_t align)
{
	size_t offset = max(align, plat_page_size()), bytes;
	char *base;

	if (size > MAPPING_MOST || offset > MAPPING_MOST)
		return NULL;
	draw_key();
	bytes = mapping_bytes(size, offset);
	base = plat_map_aligned(bytes, max(align, SLOT_SIZE));
	if (!base)
		return NULL;
	if (slot_of(base + offset) >= SLOT_BITS) {
		plat_unmap(base, bytes);
		return NULL;
	}
	return mapping_begin(base, bytes, offset);
}

static void mapping_free(struct mapping *m, void *p)
{
	size_t size = m->size;

	plat_unmap(mapping_end(m, p), size);
}

static void *mapping_resize(struct mapping *m, void *p, size_t size)
{
	size_t old = m->size, offset = m->offset, bytes = mapping_bytes(size, offset);
	char *base, *moved;

	if (bytes == old)
		return p;
	base = mapping_end(m, p);
	moved = plat_remap(base, old, bytes, SLOT_SIZE);
	if (moved && slot_of(moved + offset) >= SLOT_BITS)
		plat_fatal("a mapping was moved beyond the address space");
	p = mapping_begin(moved ? moved : base, moved ? bytes : old, offset);
	return moved ? p : NULL;
}

/* ---- any context ---------------------------------------------------------------------------------- */

struct left {
	struct left *next;
};

static struct left *left; /* atomic: freed in handlers */

static void leave(void *p)
{
	struct left *l = p;

	l->next = plat_load(&left);
	while (!plat_cas(&left, &l->next, l))
		;
}

static void give_up(void *p)
{
	struct page *run = run_at(p);
	struct mapping *m = run ? NULL : mapping_at(p);

	if (run)
		run_free(run);
	else if (m)
		mapping_free(m, p);
	else
		malloc_bad_pointer("free", p);
}

static void give_up_left(void)
{
	struct left *l, *next;

	if (likely(!plat_load(&left)))
		return;
	for (l = plat_exchange(&left, NULL); l; l = next) {
		next = l->next;
		give_up(l);
	}
}

/* ---- both ----------------------------------------------------------------------------------------- */

static void free_later(void *p)
{
	large_free(p, 0);
}

/* By whoever comes first; all do the same. The name is for the patterns of USLUB_POLICY. */
static void start(void)
{
	struct uslub_policy policy;

	if (likely(plat_load_acquire(&rcu_free_other)))
		return;
	uslub_start();
	policy_resolve("malloc-large", NULL, &policy);
	plat_store(&zero_on_free, policy.zero_on_free == USLUB_POLICY_ON);
	plat_store_release(&rcu_free_other, free_later);
}

void *large_alloc(size_t size, size_t align, unsigned flags)
{
	size_t pages;

	if (flags & USLUB_NOLOCK)
		return NULL;
	start();
	give_up_left();
	pages = rounded(pages_of(size));
	if (pages <= SUPPLY_PAGES_MAX && pages_of(align) <= SUPPLY_PAGES_MAX)
		return run_alloc(pages, align, flags);
	return flags & USLUB_NOWAIT ? NULL : mapping_alloc(size, align);
}

/* A small run moves when it grows: it would spread over pages that nobody has used yet. */
static bool may_resize(const struct page *run, size_t pages)
{
	return pages <= SUPPLY_PAGES_MAX &&
	       (pages <= run->pages || run_bytes(run) >= GROWS_IN_PLACE);
}

void *large_realloc(void *p, size_t size)
{
	struct page *run = run_at(p);
	struct mapping *m = run ? NULL : mapping_at(p);
	size_t pages = rounded(pages_of(size));

	if (run && may_resize(run, pages) && run_resize(run, pages))
		return p;
	if (m && pages > SUPPLY_PAGES_MAX)
		return mapping_resize(m, p, size);
	return NULL;
}

void large_free(void *p, unsigned flags)
{
	if (flags & USLUB_NOLOCK) {
		if (!large_usable(p))
			malloc_bad_pointer("free", p);
		leave(p);
		return;
	}
	give_up(p);
	give_up_left();
}

size_t large_usable(const void *p)
{
	const struct page *run = run_at(p);
	const struct mapping *m = run ? NULL : mapping_at(p);

	return run ? run_bytes(run) : m ? mapping_usable(m) : 0;
}

void large_info(struct uslub_malloc_info *info)
{
	size_t stride;
	const struct supply_figures *figures = supply_figures(&stride);

	info->mapped = plat_load(&figures->mapped);
	info->used += plat_load(&figures->large) + info->mapped;
	info->mappings = plat_load(&mappings);
}
