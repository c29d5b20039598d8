/* SPDX-License-Identifier: MIT */
/*
 * The workloads on malloc and free, with liburcu's call_rcu for deferred frees: what a program does
 * that has no object caches. It cannot reserve, so a reservation is nothing and taking from it may
 * fail.
 *
 * It is the one family that has sizes of all kinds, and so the one that runs workloads_general.def.
 */
#include <stdlib.h>
#include <urcu/urcu-memb.h>
#include "instantiate.h"
#include "steps_general.h"
#include "steps_replay.h"

/*
 * Where the callback's head lies in an object: behind the two words that a reader may still look
 * at. All WL_RCU workloads have a min_size that leaves room for it.
 */
#define HEAD_OFFSET 16u

static inline void *ops_alloc(struct heap heap)
{
	return malloc(heap.size);
}

static inline void ops_free(struct heap heap, void *object)
{
	(void)heap;
	free(object);
}

static void free_callback(struct rcu_head *head)
{
	free((char *)head - HEAD_OFFSET);
}

static inline void ops_free_rcu(struct heap heap, void *object)
{
	(void)heap;
	urcu_memb_call_rcu((struct rcu_head *)((char *)object + HEAD_OFFSET), free_callback);
}

static inline void *ops_reserve(struct heap heap, unsigned n)
{
	static char nothing;

	(void)heap;
	(void)n;
	return &nothing;
}

static inline void *ops_take(struct heap heap, void *reservation)
{
	(void)reservation;
	return malloc(heap.size);
}

static inline void ops_unreserve(struct heap heap, void *reservation)
{
	(void)heap;
	(void)reservation;
}

static inline void *ops_malloc(struct heap heap, size_t size)
{
	(void)heap;
	return malloc(size);
}

static inline void *ops_calloc(struct heap heap, size_t n, size_t size)
{
	(void)heap;
	return calloc(n, size);
}

static inline void *ops_realloc(struct heap heap, void *object, size_t size)
{
	(void)heap;
	return realloc(object, size);
}

static inline void *ops_aligned(struct heap heap, size_t align, size_t size)
{
	(void)heap;
	return aligned_alloc(align, size);
}

static const struct alloc_ops ops = {
	.alloc = ops_alloc,
	.free = ops_free,
	.free_rcu = ops_free_rcu,
	.reserve = ops_reserve,
	.take = ops_take,
	.unreserve = ops_unreserve,
	.malloc = ops_malloc,
	.calloc = ops_calloc,
	.realloc = ops_realloc,
	.aligned = ops_aligned,
};

#define WORKLOAD(name, ...) WL_INSTANCE(name, malloc, &ops)
#define GENERAL(name, ...)  WL_INSTANCE(name, malloc, &ops)
#include "workloads.def"
#include "workloads_general.def"
#undef GENERAL
#undef WORKLOAD

static const struct wl_code code[WL_COUNT] = {
#define WORKLOAD(name, ...) WL_CODE(name, malloc)
#define GENERAL(name, ...)  WL_CODE(name, malloc)
#include "workloads.def"
#include "workloads_general.def"
#undef GENERAL
#undef WORKLOAD
};

static int malloc_open(const struct wl_params *params, unsigned which, struct heap *heap)
{
	heap->size = wl_cache_size(params, which);
	return 0;
}

static void malloc_settle(struct wl_thread *threads[], unsigned n)
{
	(void)threads;
	(void)n;
	urcu_memb_barrier();
}

const struct wl_family wl_family_malloc = {
	.name = "malloc",
	.open = malloc_open,
	.settle = malloc_settle,
	.code = code,
};
