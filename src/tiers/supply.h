/* SPDX-License-Identifier: MIT */
/* The page supply: runs of pages. The theory of operation opens supply.c. */
#ifndef USLUB_TIERS_SUPPLY_H
#define USLUB_TIERS_SUPPLY_H

#include "base/base.h"
#include "base/list.h"
#include "platform/platform.h"

#define SEGMENT_SHIFT 26 /* 64 MiB, aligned to its size */
#define BLOCK_SHIFT   21 /* 2 MiB */
#define SEGMENT_SIZE  ((size_t)1 << SEGMENT_SHIFT)
#define BLOCK_SIZE    ((size_t)1 << BLOCK_SHIFT)

#define SUPPLY_PAGES_MAX ((SEGMENT_SIZE / 2) >> supply_page_shift) /* of a run */

#define SUPPLY_TAG_SHIFT 12 /* bytes that share a tag: the smallest page that there is */

#define SUPPLY_ADDRESS_BITS 48
#define SUPPLY_SLOTS	    ((size_t)1 << (SUPPLY_ADDRESS_BITS - SEGMENT_SHIFT))

enum page_kind {
	PAGE_NONE, /* not the head of a run */
	PAGE_FREE, /* heads a free run; linked in its node's list */
	PAGE_BUSY, /* heads a free run that is being given back to the system */
	PAGE_USED, /* heads a run that belongs to a client */
};

/* May a run have content? Of halves joined to one, all that is true of either. */
enum page_content {
	PAGE_ZERO = 0,
	PAGE_DIRTY = 1, /* giving it back saves memory */
	PAGE_STUCK = 2, /* the system did not take it back */
};

/*
 * The descriptor of a page; that of a run is its first page's. The first 8 bytes are the supply's, the
 * rest is the client's while the run is used.
 */
struct page {
	uint8_t kind;
	uint8_t order;
	uint8_t dirty; /* enum page_content; of a used run: as it was handed out */
	uint8_t node;
	uint16_t index; /* in its segment */
	uint16_t pages; /* of a used run; 0 in the descriptors of its later parts */
	union {
		struct list link; /* of free runs */
		uint64_t client[7];
	};
};

_Static_assert(sizeof(struct page) == 64, "one descriptor is one cache line");

#define SUPPLY_NOWAIT	0x1u /* map nothing */
#define SUPPLY_NOLOCK	0x2u /* trylock only; with NOWAIT */
#define SUPPLY_THISNODE 0x4u /* no other node will do */

/*
 * supply_alloc - a run of 2^order pages, aligned to its size
 * Its descriptor has kind USED, order, node and index set; the client part is zero. The content is zero if
 * `dirty` is, and undefined otherwise.
 * NULL: no memory, or not without waiting.
 */
hidden struct page *supply_alloc(unsigned order, unsigned node, unsigned flags);

/*
 * supply_alloc_pages - a run of any number of pages up to SUPPLY_PAGES_MAX
 * @align_order: its address is a multiple of 2^align_order pages; also at most SUPPLY_PAGES_MAX
 * Its descriptor is as supply_alloc() says, but that `order` is of the part which the first page belongs to:
 * a run consists of aligned parts of 2^order pages. supply_page_of() an address in a later part gives a
 * descriptor with nothing in it that is of use to a client.
 */
hidden struct page *supply_alloc_pages(size_t pages, unsigned align_order, unsigned node,
				       unsigned flags);

hidden void supply_free(struct page *page);
hidden void supply_free_pages(struct page *page, size_t pages); /* which the caller has at hand */

/*
 * supply_resize_pages - make a run longer or shorter, where it is
 * New pages have the run's tag, and `dirty` says what is true of old and new ones together. False: what
 * follows is in use, in another segment, or there is no memory for it; then nothing is changed.
 */
hidden bool supply_resize_pages(struct page *page, size_t from, size_t to);

/* Gives all free runs back to the system. */
hidden void supply_trim(void);

hidden unsigned supply_max_order(void); /* of one run: a block */
hidden void *page_address(const struct page *page);

/*
 * The used run that holds address p, or NULL if p is not in one. The latter may fault while memory at p is
 * being given back to the system: section 5 of supply.c. [any]
 */
hidden struct page *supply_page_of(const void *p);

/*
 * A word of its owner's choice, 1 to 255, for all pages of a used run, so that the owner knows its own by the
 * address alone. supply_free() takes it off.
 */
hidden void supply_tag(struct page *page, unsigned tag);

/* For the inline functions below only. */
hidden extern uint64_t
	supply_segments[SUPPLY_SLOTS / 64]; /* a bit for every slot of the address space */
hidden extern unsigned supply_page_shift;

static always_inline bool supply_has_segment(const void *p)
{
	size_t slot = (uintptr_t)p >> SEGMENT_SHIFT;

	return likely(slot < SUPPLY_SLOTS) &&
	       likely(plat_load(&supply_segments[slot / 64]) >> slot % 64 & 1);
}

/*
 * supply_tag_of - the tag of the used run that holds address p
 * 0: it has none, or p is in no run of ours. Of such an address it may fault as supply_page_of() does. [any]
 */
static always_inline unsigned supply_tag_of(const void *p)
{
	const uint8_t *tags = (const uint8_t *)((uintptr_t)p & ~(SEGMENT_SIZE - 1));

	if (unlikely(!supply_has_segment(p)))
		return 0;
	return plat_load(&tags[((uintptr_t)p & (SEGMENT_SIZE - 1)) >> SUPPLY_TAG_SHIFT]);
}

/*
 * What a node's supply holds, in pages: a moment's view, changed under the lock and read without. Outside
 * readers find it by supply_figures(), an array with an element for each node, `stride` bytes apart.
 */
struct supply_figures {
	size_t used;
	size_t dirty;  /* in free runs that may have content */
	size_t blocks; /* committed ones */
	size_t segments;
	size_t large; /* bytes, of used, and of node 0 only, as the next: in no slab but a client's as such */
	size_t mapped; /* bytes; in mappings of clients, which the supply has nothing to do with */
};
hidden const struct supply_figures *supply_figures(size_t *stride);
hidden void supply_count_large(size_t bytes); /* more, or, as two's complement, less */
hidden void supply_count_mapped(size_t bytes);

/*
 * supply_peek - copy memory of a used run
 * False when there is none at that address any more, or a lock is busy for long. Never waits for one. [any]
 */
hidden bool supply_peek(const void *p, void *to, size_t size);

/*
 * Where onlookers find all runs: a bitmap with a bit for every aligned segment of the address space, and what
 * lies where in a segment, in bytes.
 */
struct supply_places {
	const uint64_t *segments;
	size_t segment_bits;
	size_t order_of; /* one byte for every page: 1 + the order of its part of a used run, or 0 */
	size_t pages;	 /* descriptors */
};
hidden void supply_places(struct supply_places *places);

/* Bytes of bookkeeping that a segment has, and a committed block of it. */
hidden size_t supply_segment_overhead(void);
hidden size_t supply_block_overhead(void);

/* Bytes of memory held: in use, and free but not given back; a moment's view. */
struct supply_usage {
	uint64_t used;
	uint64_t dirty;
	uint64_t segments;
};
hidden void supply_usage(struct supply_usage *u);

hidden void supply_start(void);			     /* after plat_start(); idempotent */
hidden struct plat_lock *supply_lock(unsigned node); /* for fork */

#endif /* USLUB_TIERS_SUPPLY_H */
