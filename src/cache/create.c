/* SPDX-License-Identifier: MIT */
/*
 * Creating and destroying caches.
 *
 * Both happen under the registry lock. A cache comes with the internal cache of its sheaves, which in
 * turn comes with "sheaf-boot"; internal caches live as long as the program.
 *
 * Destroying first waits for what is deferred, then empties the CPUs, the barns and the lists, in this
 * order, since each step fills the next. If a slab or a sheaf is left then, an object or a prefilled sheaf
 * is still out: the cache stays, only colder.
 */
#include <errno.h>
#include <string.h>
#include "base/print.h"
#include "cache/internal.h"

#define KNOWN_FLAGS	  (USLUB_HWCACHE_ALIGN | USLUB_TYPESAFE_BY_RCU | USLUB_MERGE)
#define SHEAF_CACHE_STEP  64 /* sizes of internal caches */
#define BARN_FULL_DEFAULT 10 /* as policy.def has it */
#define INTERNAL_CAPACITY 28 /* sheaves of internal caches: 256 bytes */

/* The length has been checked. */
static void copy_name(char to[CACHE_NAME_MAX], const char *from)
{
	memcpy(to, from, strlen(from) + 1);
}

/* ---- formulas ------------------------------------------------------------------------------------- */

static unsigned default_capacity(size_t size)
{
	return size >= 4096 ? 4 : size >= 1024 ? 12 : size >= 256 ? 28 : 60;
}

static unsigned default_min_partial(size_t size)
{
	return min(max(ilog2(size) / 2, 5u), 10u);
}

static unsigned choose_capacity(const struct uslub_cache_args *args, const struct uslub_policy *p,
				size_t size)
{
	if (p->sheaf_capacity == USLUB_POLICY_NONE)
		return 0;
	if (p->sheaf_capacity)
		return (unsigned)p->sheaf_capacity;
	return max(args->sheaf_capacity, default_capacity(size));
}

/* ---- internal caches ------------------------------------------------------------------------------ */

static struct uslub_cache *internal_cache(const char *name, size_t size, unsigned capacity,
					  struct uslub_cache *sheaves)
{
	struct cache_kind kind = { .sheaves = sheaves, .internal = true };
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.policy.sheaf_capacity = capacity ? capacity : USLUB_POLICY_NONE,
	};
	struct uslub_cache *c;

	list_for_each_entry(c, &registry, link)
		if (c->internal && !strcmp(c->name, name))
			return c;
	return cache_create_locked(name, size, &args, &kind);
}

/* Where sheaves of a capacity come from. */
static struct uslub_cache *sheaf_source(unsigned capacity)
{
	size_t bytes = align_up(sheaf_bytes(capacity), SHEAF_CACHE_STEP);
	struct uslub_cache *boot;
	char name[CACHE_NAME_MAX];

	boot = internal_cache("sheaf-boot", sheaf_bytes(INTERNAL_CAPACITY), 0, NULL);
	if (!boot)
		return NULL;
	print_string(name, sizeof(name), "sheaf-%zu", bytes);
	return internal_cache(name, bytes, INTERNAL_CAPACITY, boot);
}

/* ---- creation ------------------------------------------------------------------------------------- */

/* Is what an object holds of use after it was freed? */
static bool content_survives(const struct uslub_cache_args *args)
{
	return args->ctor || args->flags & USLUB_TYPESAFE_BY_RCU;
}

static bool args_valid(const char *name, size_t size, const struct uslub_cache_args *args)
{
	return name && *name && strlen(name) < CACHE_NAME_MAX && size && size <= BLOCK_SIZE &&
	       args->args_size == sizeof(*args) &&
	       (!args->align || (is_power_of_2(args->align) && args->align <= plat_page_size())) &&
	       !(args->flags & ~KNOWN_FLAGS) && args->sheaf_capacity <= SHEAF_CAPACITY_MAX &&
	       (!(args->flags & USLUB_TYPESAFE_BY_RCU) || args->rcu) &&
	       !(args->policy.zero_on_free == USLUB_POLICY_ON && content_survives(args));
}

static void release_at_once(struct node *n, struct slab *slab)
{
	(void)n;
	slab_release(slab);
}

static void release_after_grace(struct node *n, struct slab *slab)
{
	struct uslub_cache *c = container_of(n->class, struct uslub_cache, class);

	rcu_queue_slab(c->domain, slab);
}

static void cache_free_memory(struct uslub_cache *c)
{
	if (c->own_slots)
		arena_free(c->slots.first, c->nslots * sizeof(struct pcs));
	arena_free(c->idle, c->nslots * sizeof(*c->idle));
	arena_free(c->stashes, c->nslots * sizeof(*c->stashes));
	arena_free(c->class.counters.words, counters_bytes(&c->class.counters));
	arena_free(c->shards, c->nshards * plat_nnodes() * sizeof(*c->shards));
	arena_free(c->nodes, plat_nnodes() * sizeof(*c->nodes));
	arena_free(c->barns, plat_nnodes() * sizeof(*c->barns));
	arena_free(c, sizeof(*c));
}

static struct uslub_cache *cache_alloc_memory(const struct cache_kind *kind)
{
	struct uslub_cache *c = arena_alloc(sizeof(*c));

	if (!c)
		return NULL;
	c->nslots = plat_nslots();
	c->slots = kind->slots;
	c->own_slots = !kind->slots.first;
	if (c->own_slots)
		c->slots = (struct pcs_set){ arena_alloc(c->nslots * sizeof(struct pcs)),
					     sizeof(struct pcs) };
	c->idle = arena_alloc(c->nslots * sizeof(*c->idle));
	c->nodes = arena_alloc(plat_nnodes() * sizeof(*c->nodes));
	c->barns = arena_alloc(plat_nnodes() * sizeof(*c->barns));
	if (c->slots.first && c->idle && c->nodes && c->barns)
		return c;
	cache_free_memory(c);
	return NULL;
}

static bool init_counters(struct uslub_cache *c)
{
	struct counters *counters = &c->class.counters;

	counters_layout(counters, c->nslots, plat_nnodes());
	if (c->policy.latency == USLUB_POLICY_ON)
		latency_layout(counters);
	counters->words = arena_alloc(counters_bytes(counters));
	return counters->words;
}

static uint32_t cpus_that_pop(const struct uslub_cache *c)
{
	return c->capacity && c->slots.stride == sizeof(struct pcs) ? plat_seq_limit : 0;
}

/* Frees have to look at nodes where there are several. */
static uint32_t cpus_that_push(const struct uslub_cache *c)
{
	return plat_nnodes() == 1 ? cpus_that_pop(c) : 0;
}

static void open_fast_paths(struct uslub_cache *c)
{
	c->main_slots = pcs_slot(&c->slots, 0, PCS_MAIN);
	c->rcu_slots = pcs_slot(&c->slots, 0, PCS_RCU);
	c->pop_cpus = cpus_that_pop(c);
	c->push_cpus = c->zero_on_free ? 0 : cpus_that_push(c);
	c->rcu_cpus = c->domain ? cpus_that_push(c) : 0;
}

void cache_adopt(struct uslub_cache *c, struct rcu_domain *d)
{
	plat_store_release(&c->domain, d);
	plat_store_release(&c->rcu_cpus, cpus_that_push(c));
}

/* The policy's words in the order of the enum. */
_Static_assert(USLUB_POLICY_PERCPU - 1 == NODE_COUNT_PERCPU &&
		       USLUB_POLICY_ATOMIC - 1 == NODE_COUNT_ATOMIC &&
		       USLUB_POLICY_SCAN - 1 == NODE_COUNT_SCAN,
	       "policy partial-count names enum node_counting");

static bool init_nodes(struct uslub_cache *c, unsigned min_partial)
{
	struct node_setup setup = {
		.class = &c->class,
		.release = c->class.typesafe ? release_after_grace : release_at_once,
		.min_partial = min_partial,
		.counting = (enum node_counting)(c->policy.partial_count - 1),
	};

	if (c->policy.parking == USLUB_POLICY_ON) {
		c->nshards = park_shards(plat_ncpu() / plat_nnodes());
		c->shards = arena_alloc(c->nshards * plat_nnodes() * sizeof(*c->shards));
		if (!c->shards)
			return false;
		setup.nshards = c->nshards;
		setup.park_limit = (unsigned)c->policy.park_limit;
	}
	for (setup.id = 0; setup.id < plat_nnodes(); setup.id++) {
		if (c->shards)
			setup.shards = &c->shards[setup.id * c->nshards];
		node_init(&c->nodes[setup.id], &setup);
		barn_init(&c->barns[setup.id], (unsigned)c->policy.barn_full,
			  (unsigned)c->policy.barn_empty);
	}
	return true;
}

static uint64_t created; /* caches so far; under the registry lock */

/* A bound in bytes gives way to a number of sheaves that somebody has chosen. */
static void bound_barn(struct uslub_cache *c, size_t bytes)
{
	size_t sheaf = (size_t)c->capacity * c->class.size;

	if (bytes && sheaf && c->policy.barn_full == BARN_FULL_DEFAULT)
		c->policy.barn_full = min(max(bytes / sheaf, (size_t)1), (size_t)BARN_FULL_DEFAULT);
}

/* Fills in the cache; 0 or -errno. */
static int cache_init(struct uslub_cache *c, const char *name, size_t size,
		      const struct uslub_cache_args *args, const struct cache_kind *kind)
{
	struct slab_layout layout = {
		.object_size = size,
		.align = args->align,
		.hwcache_align = args->flags & USLUB_HWCACHE_ALIGN,
		.typesafe = args->flags & USLUB_TYPESAFE_BY_RCU,
		.ctor = args->ctor,
	};

	if (!policy_resolve(c->internal ? "" : name, &args->policy, &c->policy))
		return -EINVAL;
	if (c->policy.slab_min_objects != USLUB_POLICY_NONE)
		layout.min_objects = (unsigned)c->policy.slab_min_objects;
	if (!slab_class_init(&c->class, &layout))
		return -EINVAL;
	copy_name(c->name, name);
	c->args = *args;
	c->refcount = 1;
	list_init(&c->aliases);
	plat_lock_init(&c->close_lock, RANK_CLOSE);
	c->class.name = c->name;
	c->class.key = plat_random();
	/* From the environment it means all caches where it makes sense; sheaves hold nothing of anybody's. */
	if (c->internal || content_survives(args))
		c->policy.zero_on_free = USLUB_POLICY_OFF;
	c->zero_on_free = c->class.zeroed = c->policy.zero_on_free == USLUB_POLICY_ON;
	if (c->policy.slab_random == USLUB_POLICY_ON) {
		c->shuffle = plat_random();
		c->class.shuffle = &c->shuffle;
	}
	c->capacity = choose_capacity(args, &c->policy, size);
	c->policy.sheaf_capacity = c->capacity ? c->capacity : USLUB_POLICY_NONE;
	bound_barn(c, kind->barn_bytes);
	if (!c->policy.slab_min_objects)
		c->policy.slab_min_objects = USLUB_POLICY_NONE;
	c->prefill_barn = c->policy.prefill_barn == USLUB_POLICY_ON;
	c->rcu_limit = c->policy.rcu_limit;
	if (!c->policy.rcu_stash || !c->capacity || !args->rcu)
		c->policy.rcu_stash = USLUB_POLICY_NONE;
	if (c->policy.rcu_stash != USLUB_POLICY_NONE)
		c->stash_limit = (uint16_t)c->policy.rcu_stash;
	if (!init_counters(c) ||
	    !init_nodes(c, args->min_partial ? args->min_partial : default_min_partial(size)))
		return -ENOMEM;
	if (args->rcu) {
		c->domain = rcu_domain_get(args->rcu);
		if (!c->domain)
			return -ENOMEM;
		if (c->stash_limit)
			c->stashes = arena_alloc(c->nslots * sizeof(*c->stashes));
		if (c->stash_limit && !c->stashes)
			return -ENOMEM;
	}
	return 0;
}

struct uslub_cache *cache_create_locked(const char *name, size_t object_size,
					const struct uslub_cache_args *args,
					const struct cache_kind *kind)
{
	struct uslub_cache *c = cache_alloc_memory(kind);
	int error = -ENOMEM;

	if (c) {
		c->internal = kind->internal;
		c->class.tag = kind->tag;
		c->class.spread = kind->spread;
		error = cache_init(c, name, object_size, args, kind);
	}
	if (!error) {
		c->sheaves = kind->sheaves;
		if (!c->sheaves && c->capacity)
			c->sheaves = sheaf_source(c->capacity);
		if (!c->sheaves && c->capacity)
			error = -ENOMEM;
	}
	if (error) {
		if (c)
			cache_free_memory(c);
		plat_set_errno(-error);
		return NULL;
	}
	open_fast_paths(c);
	c->number = ++created;
	list_add_tail(&registry, &c->link);
	cache_tell(created, c);
	return c;
}

/* ---- merging -------------------------------------------------------------------------------------- */

static bool mergeable(const struct uslub_cache *c, size_t size, const struct uslub_cache_args *args)
{
	return c->args.flags & USLUB_MERGE && !c->args.ctor && c->class.object_size == size &&
	       c->args.align == args->align && c->args.flags == args->flags &&
	       c->args.sheaf_capacity == args->sheaf_capacity &&
	       c->args.min_partial == args->min_partial && c->args.rcu == args->rcu &&
	       !memcmp(&c->args.policy, &args->policy, sizeof(args->policy));
}

/* A cache that the new one can be another name of. */
static struct uslub_cache *merge(const char *name, size_t size, const struct uslub_cache_args *args)
{
	struct alias *alias;
	struct uslub_cache *c;

	if (!(args->flags & USLUB_MERGE) || args->ctor)
		return NULL;
	list_for_each_entry(c, &registry, link) {
		if (c->dying || !mergeable(c, size, args))
			continue;
		alias = arena_alloc(sizeof(*alias));
		if (!alias)
			return NULL;
		copy_name(alias->name, name);
		list_add(&c->aliases, &alias->link);
		plat_store_quiet(&c->refcount, c->refcount + 1);
		cache_tell(aliased, c, alias->name);
		return c;
	}
	return NULL;
}

struct uslub_cache *uslub_cache_create(const char *name, size_t object_size,
				       const struct uslub_cache_args *given)
{
	struct uslub_cache_args none = { .args_size = sizeof(none) };
	struct cache_kind kind = { .sheaves = NULL };
	const struct uslub_cache_args *args = given ? given : &none;
	struct uslub_cache *c;

	if (!args_valid(name, object_size, args)) {
		plat_set_errno(EINVAL);
		return NULL;
	}
	uslub_start();
	plat_lock(&registry_lock);
	c = merge(name, object_size, args);
	if (!c)
		c = cache_create_locked(name, object_size, args, &kind);
	plat_unlock(&registry_lock);
	return c;
}

/* ---- destruction ---------------------------------------------------------------------------------- */

/*
 * One name less. True: the cache still has others. All who created it have the same pointer and nothing
 * tells whose call this is; the youngest name goes, since the first is the cache's own.
 */
static bool unmerge(struct uslub_cache *c)
{
	struct alias *alias;
	bool shared;

	plat_lock(&registry_lock);
	shared = c->refcount > 1;
	c->dying = !shared;
	if (shared) {
		plat_store_quiet(&c->refcount, c->refcount - 1);
		alias = list_entry(c->aliases.next, struct alias, link);
		list_del(&alias->link);
		cache_tell(unaliased, c, alias->name);
		arena_free(alias, sizeof(*alias));
	}
	plat_unlock(&registry_lock);
	return shared;
}

/* Prefilled sheaves that were not returned: all others are gone by now. */
static bool sheaves_out(const struct uslub_cache *c)
{
	return counters_sum(counters(c), CTR_sheaf_alloc) !=
	       counters_sum(counters(c), CTR_sheaf_free);
}

int uslub_cache_destroy(struct uslub_cache *c)
{
	if (!c || unmerge(c))
		return 0;
	rcu_barrier_dead(c);
	cache_drain(c, true);
	if (cache_release_slabs(c) || sheaves_out(c)) {
		plat_lock(&registry_lock);
		c->dying = false;
		plat_unlock(&registry_lock);
		return -EBUSY;
	}
	plat_lock(&registry_lock);
	list_del(&c->link);
	cache_tell(gone, c);
	plat_unlock(&registry_lock);
	/* Slabs of a type-safe cache name their class until their grace period is over. */
	if (c->class.typesafe)
		rcu_wait(c->domain);
	cache_free_memory(c);
	supply_trim();
	return 0;
}
