/* SPDX-License-Identifier: MIT */
/*
 * Statistics of a cache: of which words each is made (stats/recipe.h tells how that is written down). Counters
 * are summed over the CPUs; the fast paths' figures come out of the per-CPU words (platform/percpu.h
 * section 3); gauges are looked at as they are.
 */
#include <errno.h>
#include "cache/internal.h"
#include "tiers/supply.h"

/* ---- the table ------------------------------------------------------------------------------------ */

#define width_of(type, field) (uint8_t)sizeof(((type *)0)->field)

/* A word of every element of an array; then with what it is multiplied. */
#define WORD(in, type, field, ...)                                                                 \
	{                                                                                          \
		.array = RECIPE_##in, .width = width_of(type, field),                              \
		.offset = (uint32_t)offsetof(type, field), __VA_ARGS__                             \
	}
#define CACHE(field, ...) WORD(CACHE, struct uslub_cache, field, __VA_ARGS__)
#define NODES(field, ...) WORD(NODES, struct node, field, __VA_ARGS__)
#define BARNS(field, ...) WORD(BARNS, struct barn, field, __VA_ARGS__)
#define SLOTS(field, ...) WORD(SLOTS, struct pcs, field, __VA_ARGS__)

#define CONSTANT(n)                                                                                \
	{                                                                                          \
		.array = RECIPE_ONE, .factor = (n)                                                 \
	}

#define COUNTER_AT(which, ...)                                                                     \
	{                                                                                          \
		.array = RECIPE_COUNTERS, .width = 8, .offset = 8 * (which), __VA_ARGS__           \
	}
#define COUNTER(name, ...) COUNTER_AT(CTR_##name, __VA_ARGS__)

/* Of a CPU's word: pops, objects in the main sheaf. */
#define ALLOCS(part)	 SLOTS(part.word, .shift = WORD_ALLOC_SHIFT, .bits = WORD_ALLOC_BITS)
#define AVAIL(part, ...) SLOTS(part.word, .bits = 8, __VA_ARGS__)

/* Free objects that a node has counted, per CPU or in one word. */
#define FREE(kind)                                                                                 \
	COUNTER_AT(CTR_COUNT + NODE_FREE_##kind, .node_step = 8 * NODE_COUNTERS, .factor = -1),    \
		NODES(free[NODE_FREE_##kind], .factor = -1)

#define TIMES(field) .times = (uint32_t)offsetof(struct uslub_cache, field)

#define TERMS(...)                                                                                 \
	.nterms = sizeof((struct recipe_term[]){ __VA_ARGS__ }) / sizeof(struct recipe_term),      \
	.terms = { __VA_ARGS__ }

#define SUM(...)                                                                                   \
	{                                                                                          \
		.kind = RECIPE_SUM, TERMS(__VA_ARGS__)                                             \
	}
#define BY_CPU(...)                                                                                \
	{                                                                                          \
		.kind = RECIPE_SUM, .by = RECIPE_BY_CPU, TERMS(__VA_ARGS__)                        \
	}
#define BY_NODE(...)                                                                               \
	{                                                                                          \
		.kind = RECIPE_SUM, .by = RECIPE_BY_NODE, TERMS(__VA_ARGS__)                       \
	}
#define CLAMPED(...)                                                                               \
	{                                                                                          \
		.kind = RECIPE_CLAMPED, .by = RECIPE_BY_NODE, TERMS(__VA_ARGS__)                   \
	}
#define AGE(...)                                                                                   \
	{                                                                                          \
		.kind = RECIPE_AGE, TERMS(__VA_ARGS__)                                             \
	}

/* Counters have theirs by being on the list. What is missing is always 0: what the kernel has and we do not. */
#define RECIPE_OF_COUNTER(name) [USLUB_STAT_##name] = BY_CPU(COUNTER(name)),
#define RECIPE_OF_DERIVED(name)
#define RECIPE_OF_ATTRIBUTE(name)
#define RECIPE_OF_GAUGE(name)
#define RECIPE_OF_FLAG(name)

const struct recipe stat_recipes[USLUB_STAT_COUNT] = {
#define USLUB_STAT(name, kind, help) RECIPE_OF_##kind(name)
#include <uslub/stats.def>
#undef USLUB_STAT
	[USLUB_STAT_aliases] = SUM(CACHE(refcount), CONSTANT(-1)),
	[USLUB_STAT_align] = SUM(CACHE(class.align)),
	/* Of one CPU: unless it was closed, when the closer's CPU has them. */
	[USLUB_STAT_alloc_fastpath] = BY_CPU(ALLOCS(main), COUNTER(allocs_folded)),
	[USLUB_STAT_destroy_by_rcu] = SUM(CACHE(class.typesafe)),
	[USLUB_STAT_free_fastpath] = SUM(ALLOCS(main), AVAIL(main), COUNTER(allocs_folded),
					 COUNTER(jump, .factor = -1)),
	[USLUB_STAT_free_rcu_sheaf] = SUM(AVAIL(rcu), COUNTER(rcu_jump, .factor = -1)),
	[USLUB_STAT_hwcache_align] = SUM(CACHE(args.flags, .bits = 1)),
	[USLUB_STAT_min_partial] = SUM(WORD(FIRST_NODE, struct node, min_partial)),
	[USLUB_STAT_object_size] = SUM(CACHE(class.object_size)),
	[USLUB_STAT_objects] = CLAMPED(NODES(total_objects), FREE(LISTED), FREE(PARKED)),
	[USLUB_STAT_objects_partial] = CLAMPED(NODES(partial_objects), FREE(LISTED)),
	[USLUB_STAT_objs_per_slab] = SUM(CACHE(class.objects)),
	[USLUB_STAT_order] = SUM(CACHE(class.order)),
	[USLUB_STAT_partial] = BY_NODE(NODES(nr_partial)),
	[USLUB_STAT_remote_node_defrag_ratio] = SUM(CONSTANT(100)),
	[USLUB_STAT_sheaf_capacity] = SUM(CACHE(capacity)),
	[USLUB_STAT_slab_size] = SUM(CACHE(class.size)),
	[USLUB_STAT_slabs] = BY_NODE(NODES(nr_slabs)),
	[USLUB_STAT_total_objects] = BY_NODE(NODES(total_objects)),
	[USLUB_STAT_barn_full] = BY_NODE(BARNS(nr_full)),
	[USLUB_STAT_barn_empty] = BY_NODE(BARNS(nr_empty)),
	[USLUB_STAT_cpu_objects] = BY_CPU(AVAIL(main), SLOTS(main, .use = RECIPE_SPARE)),
	[USLUB_STAT_barn_objects] = BY_NODE(BARNS(nr_full, TIMES(capacity)),
					    BARNS(partial, .use = RECIPE_FILL)),
	[USLUB_STAT_parked] = BY_NODE(WORD(SHARDS, struct park_shard, count)),
	[USLUB_STAT_stashed] = BY_CPU(WORD(STASHES, struct stash, word, .bits = STASH_COUNT_BITS)),
	/* Those below the top one are full. */
	[USLUB_STAT_stash_objects] = BY_CPU(
		WORD(STASHES, struct stash, word, .bits = STASH_COUNT_BITS, TIMES(capacity)),
		WORD(STASHES, struct stash, word, .use = RECIPE_ROOM, .shift = STASH_COUNT_BITS,
		     .bits = STASH_COUNT_BITS - STASH_POINTER_SHIFT, .factor = -1)),
	[USLUB_STAT_list_lock_alloc] = BY_NODE(NODES(list_lock.taken[LOCK_ALLOC])),
	[USLUB_STAT_list_lock_free] = BY_NODE(NODES(list_lock.taken[LOCK_FREE])),
	[USLUB_STAT_list_lock_other] = BY_NODE(NODES(list_lock.taken[LOCK_OTHER])),
	[USLUB_STAT_list_lock_contended] = BY_NODE(NODES(list_lock.contended)),
	[USLUB_STAT_list_lock_wait_ns] = BY_NODE(NODES(list_lock.waited)),
	[USLUB_STAT_barn_lock] = BY_NODE(BARNS(lock.taken[LOCK_ALLOC]),
					 BARNS(lock.taken[LOCK_FREE]),
					 BARNS(lock.taken[LOCK_OTHER])),
	[USLUB_STAT_barn_lock_contended] = BY_NODE(BARNS(lock.contended)),
	[USLUB_STAT_barn_lock_wait_ns] = BY_NODE(BARNS(lock.waited)),
	[USLUB_STAT_rcu_pending] = SUM(AVAIL(rcu), CACHE(rcu_queued)),
	[USLUB_STAT_rcu_pending_bytes] = SUM(AVAIL(rcu, TIMES(class.size)),
					     CACHE(rcu_queued, TIMES(class.size))),
	[USLUB_STAT_rcu_oldest_ns] = AGE(CACHE(rcu_queued),
					 WORD(DOMAIN, struct rcu_ages, batch_since),
					 WORD(DOMAIN, struct rcu_ages, queued_since)),
	[USLUB_STAT_rseq] = SUM(WORD(PROCESS, struct recipe_process, rseq)),
};

_Static_assert(USLUB_HWCACHE_ALIGN == 1, "the recipe of hwcache_align takes the lowest bit");
_Static_assert(LOCK_SIDES == 3, "the recipe of barn_lock adds them up");

/* ---- a cache of this process ---------------------------------------------------------------------- */

static bool peek(const struct recipe_view *view, uint64_t address, struct recipe_sheaf *sheaf)
{
	struct uslub_sheaf head;

	(void)view;
	if (address % sizeof(uint64_t) ||
	    !supply_peek((const void *)(uintptr_t)address, &head, sizeof(head)))
		return false;
	*sheaf = (struct recipe_sheaf){ (uintptr_t)head.cache, head.capacity, head.fill };
	return true;
}

static struct recipe_elements elements(const void *base, size_t stride, unsigned count,
				       const uint64_t *used)
{
	return (struct recipe_elements){ base, (uint32_t)stride, count, used };
}

/* One of the arrays. */
static struct recipe_elements array_of(const struct uslub_cache *c, const struct recipe_view *v,
				       unsigned which)
{
	unsigned nodes = v->nodes;
	const uint64_t *used = counters_used(counters(c));

	switch (which) {
	case RECIPE_CACHE:
		return elements(c, sizeof(*c), 1, NULL);
	case RECIPE_SLOTS:
		return elements(c->slots.first, c->slots.stride, c->nslots, used);
	case RECIPE_COUNTERS:
		return elements(counters(c)->words, counters(c)->stride * sizeof(uint64_t),
				c->nslots, used);
	case RECIPE_STASHES:
		return elements(c->stashes, sizeof(*c->stashes), c->nslots, used);
	case RECIPE_NODES:
		return elements(c->nodes, sizeof(*c->nodes), nodes, NULL);
	case RECIPE_FIRST_NODE:
		return elements(c->nodes, sizeof(*c->nodes), 1, NULL);
	case RECIPE_BARNS:
		return elements(c->barns, sizeof(*c->barns), nodes, NULL);
	case RECIPE_SHARDS:
		return elements(c->shards, sizeof(*c->shards), c->nshards * nodes, NULL);
	case RECIPE_DOMAIN:
		return elements(cache_domain(c) ? rcu_ages(c->domain) : NULL,
				sizeof(struct rcu_ages), 1, NULL);
	case RECIPE_PROCESS:
		return elements(&v->process, sizeof(v->process), 1, NULL);
	default:
		return elements(NULL, 0, 0, NULL);
	}
}

/* All but the arrays. */
static void begin_view(const struct uslub_cache *c, struct recipe_view *v)
{
	v->process.rseq = plat_rseq_mode();
	v->now = 0;
	v->self = (uintptr_t)c;
	v->nodes = plat_nnodes();
	v->peek = peek;
}

void stat_view(const struct uslub_cache *c, struct recipe_view *v)
{
	begin_view(c, v);
	for (unsigned i = 0; i < RECIPE_ARRAYS; i++)
		v->arrays[i] = array_of(c, v, i);
}

/* Only those that one recipe looks at; the others are left as they are. */
static void view_for(const struct uslub_cache *c, const struct recipe *r, struct recipe_view *v)
{
	begin_view(c, v);
	v->arrays[RECIPE_CACHE] = array_of(c, v, RECIPE_CACHE);
	for (unsigned i = 0; i < r->nterms; i++)
		v->arrays[r->terms[i].array] = array_of(c, v, r->terms[i].array);
}

bool stat_has_recipe(const struct uslub_cache *c, enum uslub_stat which)
{
	return c->policy.partial_count != USLUB_POLICY_SCAN ||
	       (which != USLUB_STAT_objects && which != USLUB_STAT_objects_partial);
}

/* Policy partial-count=scan: free objects are counted by a walk, when somebody asks. */
static uint64_t walk(const struct uslub_cache *c, enum uslub_stat which)
{
	struct node_gauges gauges;
	uint64_t sum = 0;

	for (unsigned n = 0; n < plat_nnodes(); n++) {
		node_gauges(&c->nodes[n], &gauges);
		sum += which == USLUB_STAT_objects ? gauges.objects : gauges.objects_partial;
	}
	return sum;
}

int uslub_cache_stat(const struct uslub_cache *c, enum uslub_stat which, uint64_t *value)
{
	const struct recipe *recipe;
	struct recipe_view view;

	if (!c || !value || (unsigned)which >= USLUB_STAT_COUNT)
		return -EINVAL;
	if (!stat_has_recipe(c, which)) {
		*value = walk(c, which);
		return 0;
	}
	recipe = &stat_recipes[which];
	view_for(c, recipe, &view);
	if (recipe->kind == RECIPE_AGE)
		view.now = plat_now();
	*value = recipe_value(recipe, &view);
	return 0;
}
