/* SPDX-License-Identifier: MIT */
/*
 * The workloads on the floor: a stack of free objects for each thread or, where threads work in
 * pairs, a ring in which the objects go back. Deferred frees are done at once, so that a workload
 * with readers shows a bound and not an allocator.
 */
#include <errno.h>
#include "floor.h"
#include "instantiate.h"

static inline void *stack_alloc(struct heap heap)
{
	return floor_alloc(heap.size);
}

static inline void stack_free(struct heap heap, void *object)
{
	(void)heap;
	floor_free(object);
}

static inline void *stack_reserve(struct heap heap, unsigned n)
{
	static char nothing;

	(void)heap;
	(void)n;
	return &nothing;
}

static inline void *stack_take(struct heap heap, void *reservation)
{
	(void)reservation;
	return floor_alloc(heap.size);
}

static inline void stack_unreserve(struct heap heap, void *reservation)
{
	(void)heap;
	(void)reservation;
}

static const struct alloc_ops stack_ops = {
	.alloc = stack_alloc,
	.free = stack_free,
	.free_rcu = stack_free,
	.reserve = stack_reserve,
	.take = stack_take,
	.unreserve = stack_unreserve,
};

static inline void *ring_alloc(struct heap heap)
{
	return floor_ring_alloc(heap.local);
}

static inline void ring_free(struct heap heap, void *object)
{
	floor_ring_free(heap.local, object);
}

static const struct alloc_ops ring_ops = {
	.alloc = ring_alloc,
	.free = ring_free,
};

#define FLOOR_INSTANCE(name, flags)                                                                \
	WL_INSTANCE(name, floor, ((flags)&WL_PAIRS) ? &ring_ops : &stack_ops)
#define WORKLOAD(name, unit, cache, size, min_size, align, capacity, slab_objects, chunk, flags,   \
		 ...)                                                                              \
	FLOOR_INSTANCE(name, flags)
#include "workloads.def"
#undef WORKLOAD

static const struct wl_code code[WL_COUNT] = {
#define WORKLOAD(name, ...) WL_CODE(name, floor)
#include "workloads.def"
#undef WORKLOAD
};

static int floor_open(const struct wl_params *params, unsigned which, struct heap *heap)
{
	heap->size = wl_cache_size(params, which);
	return 0;
}

/* The thread that produces makes the ring of the pair; its partner, opened next, finds it there. */
static int floor_thread_open(struct wl_thread *t)
{
	if (!t->ring)
		return 0;
	if (!t->ring->back)
		t->ring->back = floor_ring_open(t->heaps[0].size);
	t->heaps[0].local = t->ring->back;
	return t->heaps[0].local ? 0 : -ENOMEM;
}

static void floor_thread_close(struct wl_thread *t)
{
	if (!t->ring || t->index % 2 == 0)
		return;
	floor_ring_close(t->ring->back, t->heaps[0].size);
	t->ring->back = NULL;
}

const struct wl_family wl_family_floor = {
	.name = "floor",
	.open = floor_open,
	.thread_open = floor_thread_open,
	.thread_close = floor_thread_close,
	.code = code,
};
