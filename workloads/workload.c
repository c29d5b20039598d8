/* SPDX-License-Identifier: MIT */
/*
 * The table of workloads, and the memory that they need for themselves.
 */
#include <string.h>
#include <sys/mman.h>
#include "steps.h"
#include "steps_general.h"
#include "steps_replay.h"
#include "workload.h"

#define WL_NO_LATENCIES	      NULL
#define WL_STATREAD_LATENCIES statread_latencies
#define WL_ONE_CACHE	      NULL
#define WL_SKB_CACHES	      skb_caches
#define WL_NO_VARIANTS	      NULL
#define WL_RESERVE_VARIANTS   reserve_variants

static const char *const reserve_variants[] = {
	[WL_RESERVE_PREFILL] = "prefill",
	[WL_RESERVE_PAIRS] = "pairs",
	NULL,
};

static const struct wl_cache skb_caches[] = {
	{ "skbuff_small", 512 },
	{ NULL, 0 },
};

static const struct wl_latency statread_latencies[] = {
	[WL_LATENCY_BURST] = { "burst", "burst", WL_SHOW_QUANTILES | WL_SHOW_MAX },
	[WL_LATENCY_STALL] = { "stall", "stalled bursts", WL_SHOW_COUNT | WL_SHOW_TOTAL },
	[WL_LATENCY_PREEMPTED] = { "preempted", "those preempted by the kernel",
				   WL_SHOW_COUNT | WL_SHOW_TOTAL },
	[WL_LATENCY_GAP] = { "gap", "longest other stall per read", WL_SHOW_MEAN | WL_SHOW_MAX },
	[WL_LATENCY_READ] = { "read", "read of all statistics",
			      WL_SHOW_COUNT | WL_SHOW_MEAN | WL_SHOW_MIN },
	{ NULL, NULL, 0 },
};

#define WORKLOAD(name, ...)                                                                        \
	static unsigned name##_slots_entry(const struct wl_params *params)                         \
	{                                                                                          \
		return name##_slots(params);                                                       \
	}
#define GENERAL(name, ...) WORKLOAD(name, )
#include "workloads.def"
#include "workloads_general.def"
#undef GENERAL
#undef WORKLOAD

/* In the order of enum wl_id, since both come from the lists. */
const struct workload wl_workloads[WL_COUNT] = {
#define WORKLOAD(name, unit, cache, size, min_size, align, capacity, slab_objects, chunk, flags,   \
		 variants, more, latencies, help)                                                  \
	{ WL_##name,                                                                               \
	  #name,                                                                                   \
	  unit,                                                                                    \
	  cache,                                                                                   \
	  size,                                                                                    \
	  min_size,                                                                                \
	  align,                                                                                   \
	  capacity,                                                                                \
	  slab_objects,                                                                            \
	  chunk,                                                                                   \
	  flags,                                                                                   \
	  variants,                                                                                \
	  more,                                                                                    \
	  latencies,                                                                               \
	  help,                                                                                    \
	  name##_slots_entry,                                                                      \
	  0 },
#define GENERAL(name, unit, min_size, size, live, chunk, flags, help)                              \
	{ WL_##name,                                                                               \
	  #name,                                                                                   \
	  unit,                                                                                    \
	  NULL,                                                                                    \
	  size,                                                                                    \
	  min_size,                                                                                \
	  0,                                                                                       \
	  0,                                                                                       \
	  0,                                                                                       \
	  chunk,                                                                                   \
	  WL_GENERAL | (flags),                                                                    \
	  WL_NO_VARIANTS,                                                                          \
	  WL_ONE_CACHE,                                                                            \
	  WL_NO_LATENCIES,                                                                         \
	  help,                                                                                    \
	  name##_slots_entry,                                                                      \
	  live },
#include "workloads.def"
#include "workloads_general.def"
#undef GENERAL
#undef WORKLOAD
};

const struct workload *wl_find(const char *name)
{
	for (unsigned i = 0; i < WL_COUNT; i++) {
		if (!strcmp(wl_workloads[i].name, name))
			return &wl_workloads[i];
	}
	return NULL;
}

unsigned wl_caches(const struct workload *workload)
{
	unsigned n = 1;

	while (workload->more && workload->more[n - 1].name)
		n++;
	return n;
}

unsigned wl_latencies(const struct workload *workload)
{
	unsigned n = 0;

	while (workload->latencies && workload->latencies[n].name)
		n++;
	return n;
}

const char *wl_cache_name(const struct workload *workload, unsigned which)
{
	return which ? workload->more[which - 1].name : workload->cache;
}

size_t wl_cache_size(const struct wl_params *params, unsigned which)
{
	return which ? params->workload->more[which - 1].size : params->size;
}

void *wl_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void wl_unmap(void *memory, size_t size)
{
	if (memory)
		munmap(memory, size);
}
