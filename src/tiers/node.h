/* SPDX-License-Identifier: MIT */
/* The slabs of a cache on one NUMA node. The theory of operation opens node.c. */
#ifndef USLUB_TIERS_NODE_H
#define USLUB_TIERS_NODE_H

#include "base/base.h"
#include "base/list.h"
#include "platform/platform.h"
#include "tiers/slab.h"

struct node {
	struct plat_lock list_lock;
	const struct slab_class *class;
	uint32_t min_partial;
	uint32_t nr_partial;	/* under list_lock; read without it as a hint */
	uint64_t nr_slabs;	/* atomic */
	uint64_t total_objects; /* atomic */
	struct list partial;	/* under list_lock */
	void *deferred; /* atomic: objects of any-context frees, linked through themselves */
	/* What becomes of a slab that a free emptied: pages at once, or after a grace period. */
	void (*release)(struct node *node, struct slab *slab);
} cacheline;

#define NODE_NOWAIT   SUPPLY_NOWAIT
#define NODE_NOLOCK   SUPPLY_NOLOCK
#define NODE_THISNODE SUPPLY_THISNODE

hidden void node_init(struct node *n, const struct slab_class *class, unsigned min_partial,
		      void (*release)(struct node *, struct slab *));

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

/* Walks the partial list: its length, the objects its slabs could hold and those in use. */
struct node_partial {
	uint64_t slabs;
	uint64_t objects;
	uint64_t inuse;
};
hidden void node_count_partial(struct node *n, struct node_partial *p);

#endif /* USLUB_TIERS_NODE_H */
