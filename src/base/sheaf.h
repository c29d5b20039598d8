/* SPDX-License-Identifier: MIT */
/*
 * A sheaf: a small array of free objects, used as a stack. Passive: it takes no lock and knows nobody.
 * It lies at the bottom of the tree because the per-CPU sequences of the platform are written over its
 * layout.
 *
 * Who may touch one: its owner. That is a CPU (its pcs slots), a barn (under the barn's lock), the RCU
 * queue, a stash, or a thread that holds it in its hands. `fill` is right whenever the sheaf is not some CPU's
 * main; a main's fill lies in the CPU's word, and is written here when the sheaf stops being main.
 */
#ifndef USLUB_BASE_SHEAF_H
#define USLUB_BASE_SHEAF_H

#include "base/base.h"

struct uslub_cache;

struct uslub_sheaf {
	struct uslub_sheaf *next;  /* in a barn's stack, a stash or the RCU queue */
	struct uslub_cache *cache; /* whose objects these are */
	uint32_t capacity;	   /* immutable; of oversize sheaves more than the cache's */
	uint32_t fill;
	uint32_t node; /* whose barn shall have it, and */
	uint32_t slot; /* whose stash: set when it is queued to RCU */
	void *objects[];
};

#define SHEAF_CAPACITY_MAX 255u /* what a per-CPU word can count */

static inline size_t sheaf_bytes(unsigned capacity)
{
	return sizeof(struct uslub_sheaf) + capacity * sizeof(void *);
}

static inline unsigned sheaf_room(const struct uslub_sheaf *s)
{
	return s->capacity - s->fill;
}

/* Moves up to n of the newest objects of `from` to `to`, which must have room for them. */
static inline void sheaf_move(struct uslub_sheaf *to, struct uslub_sheaf *from, unsigned n)
{
	while (n--)
		to->objects[to->fill++] = from->objects[--from->fill];
}

/* Is this the object on top of the sheaf, which has so many? There may be no sheaf. */
static inline bool sheaf_topped_by(const struct uslub_sheaf *s, unsigned fill, const void *object)
{
	return s && fill && s->objects[fill - 1] == object;
}

/* Copies n objects onto the `fill` that are there. False: one of them is the one that it would lie on. */
static inline bool sheaf_copy_in(struct uslub_sheaf *s, unsigned fill, unsigned n,
				 void *const *objects)
{
	for (unsigned i = 0; i < n; i++) {
		if (sheaf_topped_by(s, fill + i, objects[i]))
			return false;
		s->objects[fill + i] = objects[i];
	}
	return true;
}

#endif /* USLUB_BASE_SHEAF_H */
