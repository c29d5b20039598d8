/* SPDX-License-Identifier: MIT */
/*
 * A free as kernels without sheaves do it: straight to the object's slab, whoever's that is. They allocate from a
 * slab that belongs to the CPU, without list_lock; what comes nearest to it here is a sheaf, which is filled with
 * whole chains of slabs.
 */
#include "cache/internal.h"
#include "family_sim.h"

bool sim_slab_frees;

void sim_free(struct uslub_cache *cache, void *object)
{
	if (!sim_slab_frees) {
		uslub_cache_free(cache, object);
		return;
	}
	counters_add(counters(cache), CTR_free_slowpath, 1);
	nodes_flush(cache->nodes, &object, 1, 0);
}
