/* SPDX-License-Identifier: MIT */
/*
 * Statistics of a cache. Counters are summed over the CPUs; the fast paths' figures come out of the
 * per-CPU words (platform/percpu.h section 3); gauges are looked at as they are.
 */
#include <errno.h>
#include "cache/internal.h"

static uint64_t pops(const struct uslub_cache *c)
{
	struct pcs_totals t;

	pcs_totals(c->pcs, PCS_MAIN, c->nslots, &t);
	return t.allocs + counters_sum(counters(c), CTR_allocs_folded);
}

static uint64_t pushes(const struct uslub_cache *c)
{
	struct pcs_totals t;

	pcs_totals(c->pcs, PCS_MAIN, c->nslots, &t);
	return t.allocs + t.avail + counters_sum(counters(c), CTR_allocs_folded) -
	       counters_sum(counters(c), CTR_jump);
}

static uint64_t rcu_pushes(const struct uslub_cache *c)
{
	struct pcs_totals t;

	pcs_totals(c->pcs, PCS_RCU, c->nslots, &t);
	return t.avail - counters_sum(counters(c), CTR_rcu_jump);
}

static uint64_t rcu_pending(const struct uslub_cache *c)
{
	struct pcs_totals t;

	pcs_totals(c->pcs, PCS_RCU, c->nslots, &t);
	return t.avail + plat_load(&c->rcu_queued);
}

static void partial_totals(const struct uslub_cache *c, struct node_partial *sum)
{
	struct node_partial p;

	*sum = (struct node_partial){ 0 };
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		node_count_partial(&c->nodes[n], &p);
		sum->slabs += p.slabs;
		sum->objects += p.objects;
		sum->inuse += p.inuse;
	}
}

#define sum_over(array, field)                                                                     \
	({                                                                                         \
		uint64_t sum_ = 0;                                                                 \
		for (unsigned n_ = 0; n_ < plat_nnodes(); n_++)                                    \
			sum_ += plat_load(&(array)[n_].field);                                     \
		sum_;                                                                              \
	})

/* Objects that are not free in their slab: all but the free ones of listed slabs. */
static uint64_t objects(const struct uslub_cache *c)
{
	struct node_partial p;
	uint64_t total, free;

	partial_totals(c, &p);
	free = p.objects - p.inuse;
	total = sum_over(c->nodes, total_objects);
	return total > free ? total - free : 0;
}

static uint64_t computed(const struct uslub_cache *c, enum uslub_stat which)
{
	struct node_partial p;

	switch (which) {
	case USLUB_STAT_aliases:
		return c->refcount - 1;
	case USLUB_STAT_align:
		return c->class.align;
	case USLUB_STAT_alloc_fastpath:
		return pops(c);
	case USLUB_STAT_destroy_by_rcu:
		return c->class.typesafe;
	case USLUB_STAT_free_fastpath:
		return pushes(c);
	case USLUB_STAT_free_rcu_sheaf:
		return rcu_pushes(c);
	case USLUB_STAT_hwcache_align:
		return !!(c->args.flags & USLUB_HWCACHE_ALIGN);
	case USLUB_STAT_min_partial:
		return c->nodes[0].min_partial;
	case USLUB_STAT_object_size:
		return c->class.object_size;
	case USLUB_STAT_objects:
		return objects(c);
	case USLUB_STAT_objects_partial:
		partial_totals(c, &p);
		return p.inuse;
	case USLUB_STAT_objs_per_slab:
		return c->class.objects;
	case USLUB_STAT_order:
		return c->class.order;
	case USLUB_STAT_partial:
		return sum_over(c->nodes, nr_partial);
	case USLUB_STAT_remote_node_defrag_ratio:
		return 100;
	case USLUB_STAT_sheaf_capacity:
		return c->capacity;
	case USLUB_STAT_slab_size:
		return c->class.size;
	case USLUB_STAT_slabs:
		return sum_over(c->nodes, nr_slabs);
	case USLUB_STAT_total_objects:
		return sum_over(c->nodes, total_objects);
	case USLUB_STAT_barn_full:
		return sum_over(c->barns, nr_full);
	case USLUB_STAT_barn_empty:
		return sum_over(c->barns, nr_empty);
	case USLUB_STAT_rcu_pending:
		return rcu_pending(c);
	case USLUB_STAT_rcu_pending_bytes:
		return rcu_pending(c) * c->class.size;
	case USLUB_STAT_rcu_oldest_ns:
		return c->domain && plat_load(&c->rcu_queued) ? rcu_oldest(c->domain) : 0;
	case USLUB_STAT_rseq:
		return plat_rseq_mode();
	default:
		return 0; /* what the kernel has and we do not */
	}
}

/* The counter that a statistic is, or CTR_COUNT. */
static enum counter counter_of(enum uslub_stat which)
{
#define IS_COUNTER(name)   CTR_##name
#define IS_DERIVED(name)   CTR_COUNT
#define IS_ATTRIBUTE(name) CTR_COUNT
#define IS_GAUGE(name)	   CTR_COUNT
#define IS_FLAG(name)	   CTR_COUNT
	static const uint8_t map[] = {
#define USLUB_STAT(name, kind, help) IS_##kind(name),
#include <uslub/stats.def>
#undef USLUB_STAT
	};

	return map[which];
}

int uslub_cache_stat(const struct uslub_cache *c, enum uslub_stat which, uint64_t *value)
{
	enum counter counter;

	if (!c || !value || (unsigned)which >= USLUB_STAT_COUNT)
		return -EINVAL;
	counter = counter_of(which);
	*value = counter < CTR_COUNT ? counters_sum(counters(c), counter) : computed(c, which);
	return 0;
}
