/* SPDX-License-Identifier: MIT */
/*
 * The workloads on uslub's own interface: caches shared by all threads.
 */
#include <errno.h>
#include <uslub/uslub.h>
#ifndef WL_FLAVOR
#include <urcu/urcu-memb.h>
#define WL_FLAVOR urcu_memb_flavor
#endif
#ifndef WL_FREE /* else the includer has a way of his own */
#define WL_FREE uslub_cache_free
#endif
#include "instantiate.h"

static inline void *ops_alloc(struct heap heap)
{
	return uslub_cache_alloc(heap.cache, 0);
}

static inline void ops_free(struct heap heap, void *object)
{
	WL_FREE(heap.cache, object);
}

static inline void ops_free_rcu(struct heap heap, void *object)
{
	uslub_cache_free_rcu(heap.cache, object);
}

static inline void *ops_reserve(struct heap heap, unsigned n)
{
	return uslub_cache_prefill_sheaf(heap.cache, 0, n);
}

static inline void *ops_take(struct heap heap, void *reservation)
{
	return uslub_cache_alloc_from_sheaf(heap.cache, 0, reservation);
}

static inline void ops_unreserve(struct heap heap, void *reservation)
{
	uslub_cache_return_sheaf(heap.cache, 0, reservation);
}

static const struct alloc_ops ops = {
	.alloc = ops_alloc,
	.free = ops_free,
	.free_rcu = ops_free_rcu,
	.reserve = ops_reserve,
	.take = ops_take,
	.unreserve = ops_unreserve,
};

#define WORKLOAD(name, ...) WL_INSTANCE(name, uslub, &ops)
#include "workloads.def"
#undef WORKLOAD

static const struct wl_code code[WL_COUNT] = {
#define WORKLOAD(name, ...) WL_CODE(name, uslub)
#include "workloads.def"
#undef WORKLOAD
};

static int uslub_open(const struct wl_params *params, unsigned which, struct heap *heap)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.align = params->align,
		.sheaf_capacity = params->capacity == WL_NO_SHEAVES ? 0 : params->capacity,
		.policy = params->policy,
	};

	if (params->workload->flags & WL_RCU)
		args.rcu = &WL_FLAVOR;
	heap->size = wl_cache_size(params, which);
	heap->cache = uslub_cache_create(wl_cache_name(params->workload, which), heap->size, &args);
	return heap->cache ? 0 : -errno;
}

static void uslub_settle(struct wl_thread *threads[], unsigned n)
{
	if (n)
		uslub_cache_barrier_rcu(threads[0]->heaps[0].cache);
}

static int uslub_close(struct heap *heap)
{
	return uslub_cache_destroy(heap->cache);
}

const struct wl_family wl_family_uslub = {
	.name = "uslub",
	.open = uslub_open,
	.settle = uslub_settle,
	.close = uslub_close,
	.code = code,
};
