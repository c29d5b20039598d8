/* SPDX-License-Identifier: MIT */
/* The slabs of a cache on one NUMA node. The theory of operation opens node.c. */
#ifndef USLUB_TIERS_NODE_H
#define USLUB_TIERS_NODE_H

#include "base/base.h"
#include "base/list.h"
#include "platform/platform.h"
#include "stats/counted_lock.h"
#include "tiers/park.h"
#include "tiers/slab.h"

/* How free objects are counted: policy partial-count. */
enum node_counting {
	NODE_COUNT_PERCPU,
	NODE_COUNT_ATOMIC,
	NODE_COUNT_SCAN,
};

struct node {
	/* Constant. */
	const struct slab_class *class;
	/* What becomes of a slab that a free emptied: pages at once, or after a grace period. */
	void (*release)(struct node *node, struct slab *slab);
	struct park park;
	uint32_t min_partial;
	uint16_t id;
	uint16_t counting; /* enum node_counting */

	struct counted_lock list_lock cacheline;

	struct list partial
		cacheline; /* under list_lock, as the next two, which are read without as hints */
	uint32_t nr_partial;
	uint64_t partial_objects; /* that listed slabs could hold */

	uint64_t nr_slabs cacheline; /* atomic, as all below */
	uint64_t total_objects;
	void *deferred;	      /* objects of any-context frees, linked through themselves */
	int32_t parked_empty; /* parked slabs without used objects; for an instant below 0 */

	uint64_t free[NODE_COUNTERS] cacheline; /* with NODE_COUNT_ATOMIC */
} cacheline;

#define NODE_NOWAIT   SUPPLY_NOWAIT
#define NODE_NOLOCK   SUPPLY_NOLOCK
#define NODE_THISNODE SUPPLY_THISNODE

struct node_setup {
	const struct slab_class *class;
	void (*release)(struct node *node, struct slab *slab);
	unsigned id;
	unsigned min_partial;
	enum node_counting counting;
	struct park_shard *shards; /* NULL: no parking */
	unsigned nshards;
	unsigned park_limit; /* slabs in a shard */
};
hidden void node_init(struct node *n, const struct node_setup *setup);

/* The functions below take the array of all nodes of a cache. */

/*
 * nodes_refill - fill an array with `want` objects from slabs, those of node `local` first
 * Returns how many it got; fewer means no memory.
 */
hidden unsigned nodes_refill(struct node *nodes, unsigned local, void **objects, unsigned want,
			     unsigned flags);

/* One object, without a sheaf; NULL: no memory. */
hidden void *nodes_alloc(struct node *nodes, unsigned node, unsigned flags);

/* Frees n objects of any slabs; the array's order is changed. Only NODE_NOLOCK matters in flags. */
hidden void nodes_flush(struct node *nodes, void **objects, unsigned n, unsigned flags);

/* Frees what any-context frees left behind; called where waiting is allowed. */
hidden void nodes_deferred(struct node *nodes);

/* Gives up empty slabs and sorts the rest, fullest first. Returns how many slabs remain. */
hidden uint64_t node_shrink(struct node *n);

/*
 * The gauges of a node, exact when quiet. Takes no lock and walks nothing, unless the policy is to scan:
 * then it lists what is parked and walks the partial list under list_lock.
 */
struct node_gauges {
	uint64_t slabs;
	uint64_t total_objects; /* that they could hold */
	uint64_t objects;	/* that are not free in their slab */
	uint64_t partial;	/* listed slabs */
	uint64_t objects_partial;
};
hidden void node_gauges(struct node *n, struct node_gauges *g);

#endif /* USLUB_TIERS_NODE_H */
