/* SPDX-License-Identifier: MIT */
/*
 * Slabs.
 *
 * 1. Layout
 *    A slab is 2^order pages holding `objects` objects, `size` bytes apart, from its first byte on. Its
 *    descriptor lies outside, in the segment's head, so that 256-byte objects fill their slab exactly.
 *    Order, object count and alignment follow SLUB's rules: as many objects per slab as there are CPUs
 *    to want them, within order 3, wasting at most a sixteenth.
 *
 * 2. Free objects
 *    form a chain: each holds the index of the next, obfuscated by a key and its address, in 4 bytes in
 *    its middle (where a stray write past a neighbour's end does least harm), or behind the object where
 *    its content must survive (constructors, type-safe caches). A link that does not decode is a write
 *    to a free object: message, abort.
 *
 * 3. The state word
 *        head:16 (index + 1 of the first free object) | inuse:16 | where:8 | tag:24
 *    changes only by compare-exchange:
 *     - a free pushes a chain: head and inuse; the first one into a full slab says where it will lie;
 *     - an allocation takes one object or the whole chain, under list_lock where the slab is LISTED, and as
 *       the only one who holds it where it is PARKED;
 *     - `where` becomes LISTED or stops being so only under list_lock.
 *    So chains have a single taker at a time, and a pusher never looks behind the head: the only ABA
 *    there could be is a word that looks the same, which the tag, bumped by every change, excludes for
 *    all but one in 2^24 coincidences within one load-to-exchange window.
 *
 *    full <=> head = 0. inuse = objects - length of the chain. An object in a sheaf is in use.
 *
 * 4. The order of a new slab
 *    is that of addresses; or every `spread`-th object after the other, so that objects which are given out one
 *    after the other share no cache line, should they go to different CPUs; or with a `shuffle` a random one: place
 *    i has the object to which a permutation of
 *    the numbers below a power of two maps i, mapped again until it is one of the slab. The permutation is
 *    three times "multiply by an odd number, add a number, xor with the upper half", and the numbers are drawn
 *    from the slab's seed: some 2^30 orders for 64 objects, and who has seen those of other slabs does not
 *    know this one. It needs no memory, as a shuffled array would, which a signal handler's stack has not.
 *
 * 5. Pointers given to us
 *    slab_of() believes nothing: the segment bitmap, the page's byte, the class and the remainder are
 *    checked for each object that meets its slab, in every build.
 */
#include <string.h>
#include "stats/latency.h"
#include "tiers/slab.h"

#define MAX_ORDER_PREFERRED 3u
#define SMALL_LINK_BITS	    16

/* ---- layout --------------------------------------------------------------------------------------- */

static size_t natural_align(size_t size)
{
	return min(size & -size, (size_t)8);
}

static size_t choose_align(const struct slab_layout *l)
{
	size_t align = l->align ? l->align : natural_align(l->object_size), line = CACHE_LINE;

	/* Small objects share a line in powers of two instead of wasting most of it. */
	if (l->hwcache_align) {
		while (line > 8 && l->object_size <= line / 2)
			line /= 2;
		align = max(align, line);
	}
	return align;
}

static unsigned objects_in(unsigned order, size_t size)
{
	return (unsigned)min((plat_page_size() << order) / size, (size_t)SLAB_OBJECTS_MAX);
}

/* The smallest order that wastes at most 1/16 of the slab, else 1/8, 1/4, 1/2. */
static unsigned choose_order(size_t size, unsigned min_objects)
{
	unsigned want = min_objects ? min_objects : 4 * (fls(plat_present_cpus()) + 1);
	unsigned least, order;
	size_t bytes;

	want = min(want, max(objects_in(MAX_ORDER_PREFERRED, size), 1u));
	least = order_for(want * size, plat_page_shift());
	for (unsigned fraction = 16; fraction > 1; fraction /= 2)
		for (order = least; order <= MAX_ORDER_PREFERRED; order++) {
			bytes = plat_page_size() << order;
			if (bytes % size <= bytes / fraction && bytes / size <= SLAB_OBJECTS_MAX)
				return order;
		}
	return order_for(size, plat_page_shift());
}

bool slab_class_init(struct slab_class *class, const struct slab_layout *l)
{
	size_t align = choose_align(l), size = align_up(l->object_size, 8);
	bool outside = l->ctor || l->typesafe;

	class->object_size = (uint32_t)l->object_size;
	class->align = (uint32_t)align;
	class->ctor = l->ctor;
	class->typesafe = l->typesafe;
	if (outside) {
		class->link = (uint32_t)size;
		size += 8;
	} else {
		class->link = (uint32_t)align_down(l->object_size / 2, 8);
	}
	size = align_up(size, max(align, (size_t)8));
	if (size > BLOCK_SIZE)
		return false;
	class->size = (uint32_t)size;
	class->inverse = (uint32_t)(((1ull << 32) + size - 1) / size);
	class->order = (uint8_t)choose_order(size, l->min_objects);
	class->min_order = (uint8_t)order_for(size, plat_page_shift());
	class->objects = (uint16_t)objects_in(class->order, size);
	class->min_objects = (uint16_t)objects_in(class->min_order, size);
	return true;
}

/* ---- links ---------------------------------------------------------------------------------------- */

static uint32_t *link_of(const struct slab *slab, const void *object)
{
	return (uint32_t *)((char *)object + slab->class->link);
}

static uint32_t link_key(const struct slab *slab, const uint32_t *link)
{
	return (uint32_t)((slab->class->key ^ (uintptr_t)link) * 0x9e3779b97f4a7c15u >> 32);
}

static void link_set(const struct slab *slab, const void *object, unsigned next)
{
	uint32_t *link = link_of(slab, object);

	plat_touch(link);
	*link = next ^ link_key(slab, link);
}

static unsigned link_get(const struct slab *slab, unsigned here)
{
	void *object = slab_object(slab, here - 1);
	uint32_t *link = link_of(slab, object), next;

	plat_touch(link);
	next = *link ^ link_key(slab, link);
	if (unlikely(next > slab->objects))
		plat_fatal("cache %s: free object %p was written to: its link is corrupt",
			   slab->class->name, object);
	return next;
}

unsigned slab_index(const struct slab *slab, const void *object)
{
	size_t offset = (size_t)((const char *)object - slab->base);

	return (unsigned)(offset * slab->class->inverse >> 32);
}

void slab_set_end(struct slab *slab, const void *object, unsigned end)
{
	link_set(slab, object, end);
}

unsigned slab_walk(struct slab *slab, unsigned head, void **objects, unsigned n)
{
	for (; n && head; n--) {
		*objects++ = slab_object(slab, head - 1);
		head = link_get(slab, head);
	}
	return head;
}

void slab_taken(const struct slab *slab, void *const *objects, unsigned n)
{
	uint32_t *link;

	if (likely(!slab->class->zeroed))
		return;
	for (unsigned i = 0; i < n; i++) {
		link = link_of(slab, objects[i]);
		plat_touch(link);
		*link = 0;
	}
}

/* ---- the order of a new slab ----------------------------------------------------------------------- */

#define ORDER_ROUNDS 3

struct order {
	uint32_t mask, half; /* 0: by address */
	uint32_t factor[ORDER_ROUNDS], addend[ORDER_ROUNDS];
};

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static struct order order_draw(const struct slab *slab)
{
	uint64_t *shuffle = slab->class->shuffle, seed;
	struct order o = { .mask = 0 };
	unsigned bits = order_for(slab->objects, 0);

	if (!bits || (likely(!shuffle) && !slab->class->spread))
		return o;
	if (!shuffle) {
		o = (struct order){ .mask = (1u << bits) - 1, .half = bits };
		o.factor[0] = slab->class->spread;
		for (unsigned r = 1; r < ORDER_ROUNDS; r++)
			o.factor[r] = 1;
		return o;
	}
	seed = plat_fetch_add(shuffle, 0x9e3779b97f4a7c15u);
	o.mask = (1u << bits) - 1;
	o.half = (bits + 1) / 2;
	for (unsigned r = 0; r < ORDER_ROUNDS; r++) {
		seed = mixed(seed + r + 1);
		o.factor[r] = (uint32_t)seed | 1;
		o.addend[r] = (uint32_t)(seed >> 32);
	}
	return o;
}

static unsigned order_at(const struct order *o, unsigned place, unsigned objects)
{
	if (likely(!o->mask))
		return place;
	do
		for (unsigned r = 0; r < ORDER_ROUNDS; r++) {
			place = (place * o->factor[r] + o->addend[r]) & o->mask;
			place ^= place >> o->half;
		}
	while (place >= objects);
	return place;
}

unsigned slab_deal(struct slab *slab, void **objects, unsigned n)
{
	struct order order = order_draw(slab);
	unsigned head = 0, at;

	for (unsigned i = 0; i < n; i++)
		objects[i] = slab_object(slab, order_at(&order, i, slab->objects));
	for (unsigned i = slab->objects; i > n; i--) {
		at = order_at(&order, i - 1, slab->objects);
		link_set(slab, slab_object(slab, at), head);
		head = at + 1;
	}
	return head;
}

/* ---- slabs ---------------------------------------------------------------------------------------- */

struct slab *slab_new(const struct slab_class *class, unsigned node, unsigned flags)
{
	uint64_t began = latency_begin(&class->counters);
	struct slab *slab = (struct slab *)supply_alloc(class->order, node, flags);

	if (!slab && class->min_order < class->order) {
		slab = (struct slab *)supply_alloc(class->min_order, node, flags);
		if (slab)
			count(&class->counters, CTR_order_fallback);
	}
	if (!slab)
		return NULL;
	if (class->tag)
		supply_tag((struct page *)slab, class->tag);
	slab->class = class;
	slab->base = page_address((struct page *)slab);
	slab->objects = slab->order == class->order ? class->objects : class->min_objects;
	plat_store_release(&slab->state, state_make(0, 0, slab->objects, SLAB_UNLISTED));
	if (class->zeroed)
		memset(slab->base, 0, plat_page_size() << slab->order);
	if (class->ctor)
		for (unsigned i = 0; i < slab->objects; i++)
			class->ctor(slab_object(slab, i));
	count(&class->counters, CTR_alloc_slab);
	latency_end(&class->counters, USLUB_LATENCY_new_slab, began);
	probe(slab_new, class->name, slab->node, slab->base, slab->objects);
	return slab;
}

void slab_release(struct slab *slab)
{
	probe(slab_release, slab->class->name, slab->node, slab->base, slab->objects);
	supply_free((struct page *)slab);
}

static void coldpath bad_pointer(const struct slab_class *class, const void *object,
				 const struct slab *slab)
{
	if (!slab)
		plat_fatal("cache %s: freed pointer %p is not from any cache", class->name, object);
	if (slab->class != class)
		plat_fatal("cache %s: freed pointer %p belongs to cache %s", class->name, object,
			   slab->class ? slab->class->name : "(none)");
	plat_fatal("cache %s: freed pointer %p does not point to the start of an object",
		   class->name, object);
}

struct slab *slab_of(const struct slab_class *class, const void *object)
{
	struct slab *slab = (struct slab *)supply_page_of(object);
	unsigned index;

	if (unlikely(!slab || slab->class != class))
		bad_pointer(class, object, slab);
	index = slab_index(slab, object);
	if (unlikely(index >= slab->objects || slab_object(slab, index) != object))
		bad_pointer(class, object, slab);
	return slab;
}

void coldpath slab_freed_twice(const struct slab_class *class, const void *object)
{
	slab_of(class, object);
	plat_fatal("cache %s: object %p was freed twice", class->name, object);
}

unsigned slab_chain(struct slab *slab, void *object, unsigned head)
{
	unsigned index = slab_index(slab, object);

	if (unlikely(slab_object(slab, index) != object))
		bad_pointer(slab->class, object, slab);
	if (unlikely(index + 1 == head))
		slab_freed_twice(slab->class, object);
	link_set(slab, object, head);
	return index + 1;
}
