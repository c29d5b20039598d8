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

#define sum_over(array, field)                                                                     \
	({                                                                                         \
		uint64_t sum_ = 0;                                                                 \
		for (unsigned n_ = 0; n_ < plat_nnodes(); n_++)                                    \
			sum_ += plat_load(&(array)[n_].field);                                     \
		sum_;                                                                              \
	})

#define sum_of_gauges(c, gauge)                                                                    \
	({                                                                                         \
		struct node_gauges gauges_;                                                        \
		uint64_t sum_ = 0;                                                                 \
		for (unsigned n_ = 0; n_ < plat_nnodes(); n_++) {                                  \
			node_gauges(&(c)->nodes[n_], &gauges_);                                    \
			sum_ += gauges_.gauge;                                                     \
		}                                                                                  \
		sum_;                                                                              \
	})

static uint64_t barn_locks(const struct uslub_cache *c)
{
	uint64_t taken = 0;

	for (unsigned side = 0; side < LOCK_SIDES; side++)
		taken += sum_over(c->barns, lock.taken[side]);
	return taken;
}

static uint64_t parked(const struct uslub_cache *c)
{
	uint64_t slabs = 0;

	for (unsigned n = 0; n < plat_nnodes(); n++)
		slabs += park_count(&c->nodes[n].park);
	return slabs;
}

static uint64_t computed(const struct uslub_cache *c, enum uslub_stat which)
{
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
		return sum_of_gauges(c, objects);
	case USLUB_STAT_objects_partial:
		return sum_of_gauges(c, objects_partial);
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
	case USLUB_STAT_parked:
		return parked(c);
	case USLUB_STAT_stashed:
		return stash_total(c);
	case USLUB_STAT_list_lock_alloc:
		return sum_over(c->nodes, list_lock.taken[LOCK_ALLOC]);
	case USLUB_STAT_list_lock_free:
		return sum_over(c->nodes, list_lock.taken[LOCK_FREE]);
	case USLUB_STAT_list_lock_other:
		return sum_over(c->nodes, list_lock.taken[LOCK_OTHER]);
	case USLUB_STAT_list_lock_contended:
		return sum_over(c->nodes, list_lock.contended);
	case USLUB_STAT_list_lock_wait_ns:
		return sum_over(c->nodes, list_lock.waited);
	case USLUB_STAT_barn_lock:
		return barn_locks(c);
	case USLUB_STAT_barn_lock_contended:
		return sum_over(c->barns, lock.contended);
	case USLUB_STAT_barn_lock_wait_ns:
		return sum_over(c->barns, lock.waited);
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
