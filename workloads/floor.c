/* SPDX-License-Identifier: MIT */
/*
 * The floor's functions, in a file of their own so that calls stay calls, as they would to a
 * library. The one thing that a shared library pays and this does not is the jump through its
 * linkage table.
 */
#include <stdint.h>
#include <sys/mman.h>
#include "floor.h"
#include "ring.h"

#define CHUNK_BYTES ((size_t)256 << 10)

/*
 * The stack holds every object the thread ever made and does not have out, so it has room for
 * FLOOR_OBJECTS pointers; address space costs nothing until it is used.
 */
struct floor_stack {
	void **top; /* the next free place; NULL before the first use */
	void **base;
	unsigned made;
};

static __thread struct floor_stack stack;

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Makes a chunk of objects, returns the first one and stacks the others. */
static __attribute__((noinline)) void *floor_grow(size_t size)
{
	size_t n = size > CHUNK_BYTES ? 1 : CHUNK_BYTES / size;
	char *chunk;

	if (!stack.base) {
		stack.base = map(FLOOR_OBJECTS * sizeof(void *));
		if (!stack.base)
			return NULL;
		stack.top = stack.base;
	}
	if (n > FLOOR_OBJECTS - stack.made)
		return NULL;
	chunk = map(n * size);
	if (!chunk)
		return NULL;
	stack.made += (unsigned)n;
	while (--n > 0)
		*stack.top++ = chunk + n * size;
	return chunk;
}

void *floor_alloc(size_t size)
{
	if (__builtin_expect(stack.top == stack.base, 0))
		return floor_grow(size);
	return *--stack.top;
}

void floor_free(void *object)
{
	*stack.top++ = object;
}

/* The ring and its objects are one mapping: the objects follow the ring. */
static size_t ring_bytes(size_t size)
{
	return sizeof(struct wl_ring) + WL_RING_SLOTS * size;
}

struct wl_ring *floor_ring_open(size_t size)
{
	struct wl_ring *ring = map(ring_bytes(size));

	if (!ring)
		return NULL;
	for (unsigned i = 0; i < WL_RING_SLOTS; i++)
		wl_ring_push(ring, (char *)(ring + 1) + i * size);
	return ring;
}

void floor_ring_close(struct wl_ring *ring, size_t size)
{
	if (ring)
		munmap(ring, ring_bytes(size));
}

void *floor_ring_alloc(struct wl_ring *ring)
{
	return wl_ring_pop(ring);
}

void floor_ring_free(struct wl_ring *ring, void *object)
{
	wl_ring_push(ring, object);
}
