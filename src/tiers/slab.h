/* SPDX-License-Identifier: MIT */
/*
 * A slab: a run of pages cut into objects of one size. The theory of operation opens slab.c.
 */
#ifndef USLUB_TIERS_SLAB_H
#define USLUB_TIERS_SLAB_H

#include "base/base.h"
#include "base/list.h"
#include "platform/platform.h"
#include "stats/counters.h"
#include "tiers/supply.h"

#define SLAB_OBJECTS_MAX 32767u

/* All that the slabs of a cache have in common. Constant but for the counters. */
struct slab_class {
	const char *name; /* of the cache, for messages */
	uint32_t object_size;
	uint32_t size;	  /* distance between objects */
	uint32_t inverse; /* 2^32 / size, rounded up */
	uint32_t link;	  /* where in a free object its link lies */
	uint32_t align;
	uint16_t objects; /* in a slab of order `order` */
	uint16_t min_objects;
	uint8_t order;
	uint8_t min_order; /* good for one object, when memory is short */
	bool typesafe;	   /* pages may be reused only after a grace period */
	uint8_t tag;	   /* of the pages of its slabs (supply_tag()); 0: none */
	bool zeroed;  /* a free object is zero but for its link, one that is given out all of it */
	uint64_t key; /* obfuscates links */
	uint8_t spread;	   /* odd: each so many-th object of a new slab comes next; 0: by address */
	uint64_t *shuffle; /* atomic: next seed of a new slab's order; NULL: by address */
	void (*ctor)(void *object);
	struct counters counters;
};

/*
 * slab_class_init - lay out objects
 * Fills in all but name, tag, spread, key, shuffle, zeroed and counters. False: the object does not fit a slab.
 */
struct slab_layout {
	size_t object_size;
	size_t align;	      /* 0: natural */
	unsigned min_objects; /* 0: by the number of CPUs */
	bool hwcache_align;
	bool typesafe;
	void (*ctor)(void *object);
};
hidden bool slab_class_init(struct slab_class *class, const struct slab_layout *layout);

/* The state word: everything about a slab that changes, in one compare-exchange. */
enum slab_where {
	SLAB_UNLISTED, /* full, or leaving its cache */
	SLAB_LISTED,   /* on the node's partial list; changes only under list_lock */
	SLAB_PARKED,   /* on one of the node's stacks, or in the hands of one thread */
};

#define STATE_INUSE_SHIFT 16
#define STATE_WHERE_SHIFT 32
#define STATE_TAG_SHIFT	  40

static inline unsigned state_head(uint64_t s) /* index + 1 of the first free object; 0: full */
{
	return s & 0xffff;
}

static inline unsigned state_inuse(uint64_t s)
{
	return (s >> STATE_INUSE_SHIFT) & 0xffff;
}

static inline enum slab_where state_where(uint64_t s)
{
	return (enum slab_where)((s >> STATE_WHERE_SHIFT) & 0xff);
}

static inline uint64_t state_make(uint64_t before, unsigned head, unsigned inuse,
				  enum slab_where where)
{
	uint64_t tag = (before >> STATE_TAG_SHIFT) + 1;

	return tag << STATE_TAG_SHIFT | (uint64_t)where << STATE_WHERE_SHIFT |
	       (uint64_t)inuse << STATE_INUSE_SHIFT | head;
}

/* The descriptor, laid over the supply's. */
struct slab {
	uint8_t kind, order, dirty, node; /* the supply's */
	uint16_t index, pages;
	uint64_t state; /* atomic */
	const struct slab_class *class;
	char *base;
	struct list link;  /* partial list; under list_lock */
	struct slab *next; /* of a parked slab, or one that waits for a grace period */
	uint32_t objects;
};

_Static_assert(sizeof(struct slab) <= sizeof(struct page), "a slab's descriptor is a page's");

/* A new slab, all its objects in use by the caller; NULL: no memory. flags are supply_alloc()'s. */
hidden struct slab *slab_new(const struct slab_class *class, unsigned node, unsigned flags);
/* Gives the pages of a slab without used objects to the supply. */
hidden void slab_release(struct slab *slab);

/* The slab that holds the object; aborts with a message if it is not an object of the class. */
hidden struct slab *slab_of(const struct slab_class *class, const void *object);
/* Whoever frees the object does not own it: it is free. Aborts, saying so, or that it is no object. */
hidden void coldpath slab_freed_twice(const struct slab_class *class, const void *object);

static inline void *slab_object(const struct slab *slab, unsigned index)
{
	return slab->base + (size_t)index * slab->class->size;
}

/* Does the address lie in the slab? Cheaper than slab_of(), and only good for addresses of objects. */
static inline bool slab_holds(const struct slab *slab, const void *p)
{
	return (uintptr_t)p - (uintptr_t)slab->base < (size_t)slab->objects * slab->class->size;
}

/*
 * Chains: objects linked through themselves, named by index + 1. slab_chain() links one object of the
 * slab in front of a chain and returns the new head; it aborts if that is no object, or the head already.
 * slab_walk() copies up to n objects off a chain and returns what remains of it. slab_deal() gives the first
 * n objects of a new slab and returns the chain of all others. slab_taken() is told of objects that came off a
 * chain and are given out now.
 */
hidden unsigned slab_chain(struct slab *slab, void *object, unsigned head);
hidden unsigned slab_walk(struct slab *slab, unsigned head, void **objects, unsigned n);
hidden unsigned slab_deal(struct slab *slab, void **objects, unsigned n);
hidden void slab_taken(const struct slab *slab, void *const *objects, unsigned n);
hidden void slab_set_end(struct slab *slab, const void *object, unsigned end);
hidden unsigned slab_index(const struct slab *slab, const void *object);

#endif /* USLUB_TIERS_SLAB_H */
