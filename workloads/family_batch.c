/* SPDX-License-Identifier: MIT */
/*
 * The workloads on malloc and free, with deferred frees batched by hand: each thread collects
 * pointers, waits once for all readers, and frees the lot. What a careful user writes who found
 * call_rcu slow.
 */
#include <errno.h>
#include <stdlib.h>
#include <urcu/urcu-memb.h>
#include "instantiate.h"

/* A thread's objects that wait for a grace period. */
struct batch {
	size_t mapped;
	unsigned n;
	unsigned limit;
	void *objects[];
};

static __attribute__((noinline)) void batch_free(struct batch *batch)
{
	urcu_memb_synchronize_rcu();
	for (unsigned i = 0; i < batch->n; i++)
		free(batch->objects[i]);
	batch->n = 0;
}

static inline void *ops_alloc(struct heap heap)
{
	return malloc(heap.size);
}

static inline void ops_free(struct heap heap, void *object)
{
	(void)heap;
	free(object);
}

static inline void ops_free_rcu(struct heap heap, void *object)
{
	struct batch *batch = heap.local;

	batch->objects[batch->n++] = object;
	if (batch->n == batch->limit)
		batch_free(batch);
}

static inline void *ops_reserve(struct heap heap, unsigned n)
{
	(void)n;
	return heap.local;
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

static const struct alloc_ops ops = {
	.alloc = ops_alloc,
	.free = ops_free,
	.free_rcu = ops_free_rcu,
	.reserve = ops_reserve,
	.take = ops_take,
	.unreserve = ops_unreserve,
};

#define WORKLOAD(name, ...) WL_INSTANCE(name, batch, &ops)
#include "workloads.def"
#undef WORKLOAD

static const struct wl_code code[WL_COUNT] = {
#define WORKLOAD(name, ...) WL_CODE(name, batch)
#include "workloads.def"
#undef WORKLOAD
};

static int batch_open(const struct wl_params *params, unsigned which, struct heap *heap)
{
	heap->size = wl_cache_size(params, which);
	return 0;
}

static int batch_thread_open(struct wl_thread *t)
{
	size_t mapped = sizeof(struct batch) + t->params->batch * sizeof(void *);
	struct batch *batch = wl_map(mapped);

	if (!batch)
		return -ENOMEM;
	batch->mapped = mapped;
	batch->limit = t->params->batch;
	t->heaps[0].local = batch;
	return 0;
}

static void batch_thread_close(struct wl_thread *t)
{
	struct batch *batch = t->heaps[0].local;

	batch_free(batch);
	wl_unmap(batch, batch->mapped);
}

static void batch_settle(struct wl_thread *threads[], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		batch_free(threads[i]->heaps[0].local);
}

const struct wl_family wl_family_batch = {
	.name = "batch",
	.open = batch_open,
	.thread_open = batch_thread_open,
	.thread_close = batch_thread_close,
	.settle = batch_settle,
	.code = code,
};
