/* SPDX-License-Identifier: MIT */
/*
 * What the files of the malloc layer share. Prototypes are grouped under the file that defines them.
 */
#ifndef USLUB_MALLOC_INTERNAL_H
#define USLUB_MALLOC_INTERNAL_H

#include <uslub/malloc.h>
#include "base/base.h"
#include "cache/internal.h"
#include "malloc/classes.h"
#include "tiers/supply.h"

/* What the pages of a used run are tagged with (supply_tag()). */
enum malloc_tag {
	TAG_NONE,  /* not ours: a typed cache's, or of no segment at all */
	TAG_CLASS, /* and those that follow: a slab of this class */
	TAG_RUN = TAG_CLASS + CLASSES,
	TAGS,
};

/* caches.c */

/*
 * What the fast paths read besides the tag of a size or a page. All caches have their slots of one CPU in one
 * page, in the order of the tags, so that a slot's address is made of CPU and tag and nothing need be loaded. Where
 * there is no cache yet, or pages are no slab's, the slot is for ever empty, which leads to the slow paths, as
 * does a limit of 0.
 */
struct malloc_fast {
	struct percpu_slot *slots; /* of CPU 0, tag 0 */
	uint32_t pop_cpus;
	uint32_t push_cpus; /* 0 where a free has more to do */
};
hidden extern struct malloc_fast malloc_fast;

#define SLOT_OF_TAG(tag) ((size_t)(tag) << PCS_SHIFT)
_Static_assert(SLOT_OF_TAG(TAGS) <= 1 << PCS_PAGE_SHIFT, "all have their slots in one page");

/* By tag; NULL: there is none (yet). */
hidden extern struct uslub_cache *malloc_caches[TAGS];

/* Tags by size, the first in steps of 16 bytes up to 1024, the second in steps of 256 up to CLASS_MOST. */
#define SMALL_STEP 16u
#define SMALL_MOST 1024u
#define LARGE_STEP 256u
hidden extern uint8_t malloc_small_tags[SMALL_MOST / SMALL_STEP + 1];
hidden extern uint8_t malloc_large_tags[CLASS_MOST / LARGE_STEP + 1];

/* The cache of a class, made if it is not there; NULL: no memory, or not without waiting. */
hidden struct uslub_cache *malloc_cache(unsigned class, unsigned flags);

/* large.c: memory beyond the classes. */
hidden void *large_alloc(size_t size, size_t align, unsigned flags);
/* In place or elsewhere; NULL: no memory, and all is as it was. */
hidden void *large_realloc(void *p, size_t size);
hidden void large_free(void *p, unsigned flags);
/* Bytes at p; 0: it is not from here. */
hidden size_t large_usable(const void *p);
hidden void large_info(struct uslub_malloc_info *info);

/* malloc.c */
hidden void coldpath malloc_bad_pointer(const char *what, const void *p) __attribute__((noreturn));

#endif /* USLUB_MALLOC_INTERNAL_H */
