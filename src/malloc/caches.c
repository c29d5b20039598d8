/* SPDX-License-Identifier: MIT */
/*
 * The caches of the size classes: made when a size is first asked for.
 *
 * 1. Start
 *    The first of all comes before the library's constructor, perhaps. It maps the page of slots of each CPU, fills
 *    the tables, and then opens the fast paths. They load a tag and the limit before the pages' address, and a
 *    membarrier orders all of them: so between setting the address and the others there is one, and who has seen
 *    them sees the address.
 *
 * 2. Limits
 *    What a class keeps is bounded in bytes as well as in objects: large objects have small lists, or an idle class
 *    would hold a megabyte.
 */
#include <errno.h>
#include "base/print.h"
#include "malloc/internal.h"

#define PARTIAL_BYTES ((size_t)64 << 10) /* empty slabs on a node's list */
#define PARTIAL_MOST  5u
#define BARN_BYTES    ((size_t)64 << 10) /* full sheaves of a node's barn */
#define SPREAD_BYTES  ((size_t)128)
#define SLOTS_LEAST   ((size_t)64 << 10) /* the arena maps this much and more, from a page on */

struct malloc_fast malloc_fast cacheline;
struct uslub_cache *malloc_caches[TAGS];
uint8_t malloc_small_tags[SMALL_MOST / SMALL_STEP + 1];
uint8_t malloc_large_tags[CLASS_MOST / LARGE_STEP + 1];

static void fill_tags(void)
{
	for (unsigned i = 0; i < array_size(malloc_small_tags); i++)
		plat_store_quiet(&malloc_small_tags[i],
				 (uint8_t)(TAG_CLASS + class_of_size(max(i * SMALL_STEP, 1u))));
	for (unsigned i = 0; i < array_size(malloc_large_tags); i++)
		plat_store_quiet(&malloc_large_tags[i],
				 (uint8_t)(TAG_CLASS + class_of_size(max(i * LARGE_STEP, 1u))));
}

/* Under the registry lock. */
static bool start(void)
{
	size_t bytes = (size_t)plat_nslots() << PCS_PAGE_SHIFT;

	if (malloc_fast.slots)
		return true;
	plat_store(&malloc_fast.slots, arena_alloc(max(bytes, SLOTS_LEAST)));
	if (!malloc_fast.slots)
		return false;
	/* Refused by a sandbox: all goes by the slow paths. */
	if (plat_membarrier())
		return true;
	fill_tags();
	plat_store_release(&malloc_fast.push_cpus, plat_nnodes() == 1 ? plat_seq_limit : 0);
	plat_store_release(&malloc_fast.pop_cpus, plat_seq_limit);
	return true;
}

static unsigned bounded(size_t bytes, size_t each, unsigned most)
{
	return (unsigned)min(max(bytes / each, (size_t)1), (size_t)most);
}

/*
 * Small objects that are given out one after the other lie SPREAD_BYTES apart: a program that hands them to different
 * threads has these not write to the same lines.
 */
static uint8_t spread_of(size_t size)
{
	return size < SPREAD_BYTES ? (uint8_t)max(SPREAD_BYTES / size | 1, (size_t)3) : 0;
}

/* Under the registry lock. */
static struct uslub_cache *make(unsigned class)
{
	unsigned tag = TAG_CLASS + class;
	size_t size = class_size(class);
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.align = MALLOC_ALIGN,
		.min_partial = bounded(PARTIAL_BYTES, max(size, plat_page_size()), PARTIAL_MOST),
	};
	struct cache_kind kind = {
		.tag = (uint8_t)tag,
		.spread = spread_of(size),
		.barn_bytes = BARN_BYTES,
		.slots = { (struct pcs *)((char *)malloc_fast.slots + SLOT_OF_TAG(tag)),
			   1 << PCS_PAGE_SHIFT },
	};
	char name[CACHE_NAME_MAX];
	struct uslub_cache *c;

	print_string(name, sizeof(name), "malloc-%zu", size);
	c = cache_create_locked(name, size, &args, &kind);
	if (c && c->zero_on_free)
		plat_store(&malloc_fast.push_cpus, 0);
	return c;
}

struct uslub_cache *malloc_cache(unsigned class, unsigned flags)
{
	struct uslub_cache **place = &malloc_caches[TAG_CLASS + class], *c;

	c = plat_load_acquire(place);
	if (likely(c))
		return c;
	if (flags & (USLUB_NOLOCK | USLUB_NOWAIT))
		return NULL;
	uslub_start();
	plat_lock(&registry_lock);
	c = plat_load(place);
	if (!c && start()) {
		c = make(class);
		plat_store_release(place, c);
	}
	plat_unlock(&registry_lock);
	return c;
}
