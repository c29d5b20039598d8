/* SPDX-License-Identifier: MIT */
/*
 * Sizes are rounded up to powers of two. Small ones are cut from chunks and kept in free lists when
 * given back; from LARGE on each is a mapping of its own, so that the arrays of many CPUs stay untouched
 * where CPUs stay idle, and go back to the system with their cache.
 */
#include <string.h>
#include "tiers/arena.h"

#define CHUNK	 ((size_t)256 << 10)
#define LARGE	 ((size_t)64 << 10)
#define SMALLEST 6		     /* log2 of a cache line */
#define CLASSES	 (16 - SMALLEST + 1) /* up to LARGE */

struct piece {
	struct piece *next;
};

static struct {
	struct plat_lock lock;
	struct piece *pieces[CLASSES];
	char *next;
	size_t left;
	size_t mapped; /* bytes; atomic */
} arena = { .lock = { .rank = RANK_ARENA } };

static unsigned class_of(size_t size)
{
	return order_for(size, SMALLEST);
}

static size_t mapping_of(size_t size)
{
	return align_up(size, plat_page_size());
}

/* Memory of the system's, and back to it. */
static void *map(size_t size)
{
	void *p = plat_map(size);

	if (p)
		plat_fetch_add(&arena.mapped, size);
	return p;
}

static void unmap(void *p, size_t size)
{
	plat_fetch_sub(&arena.mapped, size);
	plat_unmap(p, size);
}

const size_t *arena_mapped(void)
{
	return &arena.mapped;
}

static void *cut(size_t size)
{
	void *p;

	if (arena.left < size) {
		p = map(CHUNK);
		if (!p)
			return NULL;
		/* What is left of the old chunk is too small for this size; forget it. */
		arena.next = p;
		arena.left = CHUNK;
	}
	p = arena.next;
	arena.next += size;
	arena.left -= size;
	return p;
}

void *arena_alloc(size_t size)
{
	unsigned class = class_of(size);
	struct piece *p;

	if (size >= LARGE)
		return map(mapping_of(size));
	plat_lock(&arena.lock);
	p = arena.pieces[class];
	if (p)
		arena.pieces[class] = p->next;
	plat_unlock(&arena.lock);
	if (p)
		return memset(p, 0, (size_t)1 << (class + SMALLEST));
	plat_lock(&arena.lock);
	p = cut((size_t)1 << (class + SMALLEST));
	plat_unlock(&arena.lock);
	return p;
}

void arena_free(void *p, size_t size)
{
	unsigned class = class_of(size);
	struct piece *piece = p;

	if (!p)
		return;
	if (size >= LARGE) {
		unmap(p, mapping_of(size));
		return;
	}
	plat_lock(&arena.lock);
	piece->next = arena.pieces[class];
	arena.pieces[class] = piece;
	plat_unlock(&arena.lock);
}

struct plat_lock *arena_lock(void)
{
	return &arena.lock;
}
