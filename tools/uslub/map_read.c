/* SPDX-License-Identifier: MIT */
/*
 * From the process's bitmap of segments to the descriptors of their pages, of which those whose class is the
 * cache's are its slabs. Everything changes meanwhile: a slab is as it was when its descriptor was copied.
 */
#include <stdlib.h>
#include <string.h>
#include "map.h"
#include "text.h"
#include "tool.h"

const char *const map_where_names[MAP_WHERES] = {
	[MAP_UNLISTED] = "unlisted",
	[MAP_LISTED] = "listed",
	[MAP_PARKED] = "parked",
};

#define SEGMENT_BITS_MOST (1u << 26)
#define PAGES_MOST	  (1u << 20) /* of a segment */
#define SLABS_MOST	  (1u << 24)

/* Does what the process says about its segments make sense? */
static bool sensible(const struct export_map *m)
{
	unsigned last = m->state + 8u;

	return m->segment_bits <= SEGMENT_BITS_MOST && m->segment_shift < 48 &&
	       m->page_shift >= 10 && m->page_shift < m->segment_shift &&
	       1ull << (m->segment_shift - m->page_shift) <= PAGES_MOST && m->page_bytes >= last &&
	       m->page_bytes <= 4096 && m->class + 8u <= m->page_bytes &&
	       m->objects + 4u <= m->page_bytes && m->node < m->page_bytes &&
	       m->kind < m->page_bytes && m->inuse_shift < 64 && m->where_shift < 64 &&
	       m->inuse_bits < 32 && m->where_bits < 32;
}

static uint32_t part(uint64_t state, unsigned shift, unsigned bits)
{
	return (uint32_t)(state >> shift) & ((1u << bits) - 1);
}

/* A slab of the cache, by its descriptor; false: something else. */
static bool decode(const struct export_map *m, const char *page, uint64_t class,
		   struct map_slab *slab)
{
	uint64_t its_class, state;

	memcpy(&its_class, page + m->class, sizeof(its_class));
	if ((uint8_t)page[m->kind] != m->kind_used || its_class != class)
		return false;
	memcpy(&state, page + m->state, sizeof(state));
	memcpy(&slab->objects, page + m->objects, sizeof(slab->objects));
	slab->node = (uint8_t)page[m->node];
	slab->inuse = part(state, m->inuse_shift, m->inuse_bits);
	slab->where = (enum map_where)part(state, m->where_shift, m->where_bits);
	return slab->objects && slab->inuse <= slab->objects && slab->where < MAP_WHERES;
}

static void add(struct map *map, const struct map_slab *slab)
{
	/* Room for twice as many each time there is none. */
	if (!(map->count & (map->count - 1)))
		map->slabs = tool_grow(map->slabs, map->count ? 2 * (size_t)map->count : 1,
				       sizeof(*map->slabs));
	map->slabs[map->count++] = *slab;
}

struct buffers {
	uint8_t *order_of;
	char *pages;
};

/* The runs of a segment: each page says to which it belongs, and descriptors of whole stretches are copied. */
static void read_segment(struct export_reader *r, const struct buffers *b, uint64_t segment,
			 uint64_t class, struct map *map)
{
	const struct export_map *m = &r->header.map;
	unsigned pages = 1u << (m->segment_shift - m->page_shift), from = 0, to = pages;
	struct map_slab slab;

	if (!export_memory(r, segment + m->order_of, b->order_of, pages))
		return;
	while (from < pages && !b->order_of[from])
		from++;
	while (to > from && !b->order_of[to - 1])
		to--;
	if (!export_memory(r, segment + m->pages + (uint64_t)from * m->page_bytes, b->pages,
			   (size_t)(to - from) * m->page_bytes))
		return;
	for (unsigned i = from; i < to && map->count < SLABS_MOST; i++) {
		unsigned order = b->order_of[i] - 1u;

		if (!b->order_of[i] || order >= 31 || i & ((1u << order) - 1))
			continue;
		if (!decode(m, b->pages + (size_t)(i - from) * m->page_bytes, class, &slab))
			continue;
		slab.address = segment + ((uint64_t)i << m->page_shift);
		add(map, &slab);
	}
}

static bool read_segments(struct export_reader *r, uint64_t class, struct map *map)
{
	const struct export_map *m = &r->header.map;
	size_t words = (m->segment_bits + 63) / 64, pages;
	struct buffers b;
	uint64_t *bits;
	bool ok;

	if (!sensible(m)) {
		tool_error("what process %d says about its slabs cannot be understood", r->pid);
		return false;
	}
	pages = (size_t)1 << (m->segment_shift - m->page_shift);
	bits = tool_alloc(words, sizeof(*bits));
	b.order_of = tool_alloc(pages, 1);
	b.pages = tool_alloc(pages, m->page_bytes);
	ok = export_memory(r, m->segments, bits, words * sizeof(*bits));
	for (unsigned i = 0; ok && i < m->segment_bits; i++) {
		if (bits[i / 64] >> i % 64 & 1)
			read_segment(r, &b, (uint64_t)i << m->segment_shift, class, map);
	}
	if (!ok)
		tool_error("the memory of process %d must not be read: %s", r->pid,
			   r->memory_errno ? strerror(r->memory_errno) : "it is not there");
	free(b.pages);
	free(b.order_of);
	free(bits);
	return ok;
}

/* Names are compared as snapshots have them. */
static bool has_name(const char *name, const char *wanted)
{
	char *text = text_name(name);
	bool same = !strcmp(text, wanted) || !strcmp(name, wanted);

	free(text);
	return same;
}

static bool find_cache(struct export_reader *r, const char *name, struct export_cache *entry)
{
	char *list = tool_copy("");
	unsigned n = 0;

	for (unsigned i = 0; i < export_entries(r); i++) {
		if (!export_entry(r, i, entry) || entry->state == EXPORT_FREE)
			continue;
		if (has_name(entry->name, name)) {
			free(list);
			return entry->state == EXPORT_CACHE || export_entry(r, entry->of, entry);
		}
		if (entry->state == EXPORT_CACHE && !(entry->flags & EXPORT_INTERNAL) && n++ < 10) {
			char *text = text_shown(entry->name);
			char *longer = tool_format("%s%s%s", list, *list ? ", " : "", text);

			free(text);
			free(list);
			list = longer;
		}
	}
	tool_error("process %d has no cache '%s'%s%s%s", r->pid, name,
		   n ? "; its caches are " : ": it has none at all", list, n > 10 ? ", ..." : "");
	free(list);
	return false;
}

static int by_place(const void *a, const void *b)
{
	const struct map_slab *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

/* The statistic slab_size of the cache. */
static uint32_t object_distance(struct export_reader *r, const struct export_cache *entry)
{
	struct export_view v;
	uint64_t size = 0;

	if (export_view_cache(r, entry, &v)) {
		for (unsigned i = 0; i < r->header.stats; i++) {
			if (!strcmp(r->stats[i].name, "slab_size"))
				size = recipe_value(&r->stats[i].recipe, &v.view);
		}
	}
	export_view_free(&v);
	return (uint32_t)size;
}

bool map_read(struct export_reader *r, const char *cache, struct map *map)
{
	struct export_cache entry;

	*map = (struct map){ .pid = r->pid };
	if (!find_cache(r, cache, &entry))
		return false;
	map->cache = text_name(entry.name);
	map->slab_size = object_distance(r, &entry);
	if (!read_segments(r, entry.class, map))
		return false;
	if (map->count)
		qsort(map->slabs, map->count, sizeof(*map->slabs), by_place);
	return true;
}

void map_free(struct map *map)
{
	free(map->slabs);
	free(map->cache);
}
