/* SPDX-License-Identifier: MIT */
/*
 * What the files of the cache layer share. Prototypes are grouped under the file that defines them.
 */
#ifndef USLUB_CACHE_INTERNAL_H
#define USLUB_CACHE_INTERNAL_H

#include <uslub/uslub.h>
#include "base/base.h"
#include "base/list.h"
#include "base/sheaf.h"
#include "platform/platform.h"
#include "stats/counters.h"
#include "stats/latency.h"
#include "stats/recipe.h"
#include "tiers/arena.h"
#include "tiers/barn.h"
#include "tiers/node.h"
#include "tiers/park.h"
#include "tiers/percpu.h"
#include "tiers/slab.h"

#define CACHE_NAME_MAX 64

struct rcu_domain;

/* What the idle look saw last of another CPU. */
struct idle_seen {
	uint64_t main, rcu; /* words */
	uint64_t since;
};

struct uslub_cache {
	/* The fast paths read this line and no other. */
	struct percpu_slot *main_slots; /* of CPU 0, where the others follow a struct pcs apart */
	struct percpu_slot *rcu_slots;
	uint32_t pop_cpus;  /* CPUs whose slots the inline sequences may use: all, or 0 */
	uint32_t push_cpus; /* 0 as well where frees have to look at the object */
	uint32_t rcu_cpus;
	uint32_t capacity; /* of a sheaf; 0: no sheaves */
	uint32_t nslots;
	bool prefill_barn;
	bool zero_on_free;
	uint16_t stash_limit; /* sheaves a CPU keeps for itself; 0: none */

	struct slab_class class cacheline;
	struct pcs_set slots;
	bool own_slots;
	struct node *nodes;	   /* one per NUMA node */
	struct barn *barns;	   /* one per NUMA node */
	struct park_shard *shards; /* nshards per NUMA node; NULL: no parking */
	unsigned nshards;
	struct uslub_cache *sheaves;  /* where this cache's sheaves come from */
	struct rcu_domain *domain;    /* atomic: may come later; NULL: has no flavor */
	uint64_t rcu_limit;	      /* bytes */
	uint64_t shuffle;	      /* atomic: of new slabs, see struct slab_class */
	struct uslub_policy policy;   /* in force */
	struct uslub_cache_args args; /* as given */
	struct list link;	      /* registry */
	uint64_t number;	      /* of its creation; no two have the same */
	struct list aliases;	      /* of struct alias; registry lock */
	unsigned refcount;	      /* registry lock */
	bool internal;		      /* its objects are sheaves */
	bool dying;		      /* registry lock: being destroyed, not to be found */
	char name[CACHE_NAME_MAX];
	uint32_t watched; /* the watcher's */

	struct plat_lock close_lock cacheline; /* one remote close at a time */
	struct idle_seen *idle;		       /* per slot; under close_lock */
	struct stash *stashes;		       /* per slot; NULL: none are kept */
	uint32_t slow_steps;		       /* racy: paces the idle look */
	uint32_t idle_cursor;		       /* under close_lock */
	bool barrier_warned;	       /* atomic: that a barrier waits for less than it should */
	struct uslub_sheaf *oversize;  /* atomic: returned from any context, to be freed */
	uint64_t rcu_queued cacheline; /* atomic: objects waiting in the domain */
};

static inline const struct counters *counters(const struct uslub_cache *c)
{
	return &c->class.counters;
}

static inline struct rcu_domain *cache_domain(const struct uslub_cache *c)
{
	return plat_load_acquire(&c->domain);
}

static inline struct barn *local_barn(struct uslub_cache *c)
{
	return &c->barns[plat_this_node()];
}

/* A full sheaf came out of the barn, or there was none; one went into it, or was refused. */
static inline void note_barn_get(const struct uslub_cache *c, const struct barn *b, bool got)
{
	unsigned node = (unsigned)(b - c->barns);

	count(counters(c), got ? CTR_barn_get : CTR_barn_get_fail);
	if (got)
		probe(barn_get, c->name, node, c->capacity);
	else
		probe(barn_get_fail, c->name, node);
}

static inline void note_barn_put(const struct uslub_cache *c, const struct barn *b, bool put)
{
	unsigned node = (unsigned)(b - c->barns);

	count(counters(c), put ? CTR_barn_put : CTR_barn_put_fail);
	if (put)
		probe(barn_put, c->name, node, c->capacity);
	else
		probe(barn_put_fail, c->name, node, c->capacity);
}

static inline struct percpu_slot *main_slot(struct uslub_cache *c, unsigned cpu)
{
	return pcs_slot(&c->slots, cpu, PCS_MAIN);
}

static inline struct percpu_slot *rcu_slot(struct uslub_cache *c, unsigned cpu)
{
	return pcs_slot(&c->slots, cpu, PCS_RCU);
}

/* Gives a sheaf to a CPU, which has something from now on. */
static inline enum seq_result slot_give(struct uslub_cache *c, unsigned cpu,
					struct percpu_slot *slot, struct uslub_sheaf *sheaf)
{
	counters_use(counters(c), cpu);
	return seq_give_other(cpu, slot, sheaf);
}

static inline bool slot_closed(const struct percpu_slot *slot)
{
	return plat_load(&slot->word) & WORD_WHO;
}

/* Flags of an allocation as the lower tiers name them. */
static inline unsigned node_flags(unsigned flags)
{
	return (flags & (USLUB_NOWAIT | USLUB_NOLOCK) ? NODE_NOWAIT : 0) |
	       (flags & USLUB_NOLOCK ? NODE_NOLOCK : 0);
}

/* The node of an object, which must be ours. */
static inline unsigned object_node(const struct uslub_cache *c, const void *object)
{
	return slab_of(&c->class, object)->node;
}

/* Is the object somewhere else than the thread? Never on a machine with one node. */
static inline bool object_remote(const struct uslub_cache *c, const void *object)
{
	return unlikely(plat_nnodes() > 1) && object_node(c, object) != plat_this_node();
}

/* cache.c */
hidden void *cache_alloc_slow(struct uslub_cache *c, unsigned flags);
hidden void cache_free_slow(struct uslub_cache *c, void *object, unsigned flags);
hidden void cache_free_slabs(struct uslub_cache *c, void **objects, unsigned n, unsigned flags);
/* Objects that have become free, before anybody can get them. Nothing without policy zero-on-free. */
hidden void cache_zero_freed(const struct uslub_cache *c, void *const *objects, size_t n);

/*
 * Puts `sheaf` into the place of the CPU's spare, and what was there where it belongs. False: the thread
 * has moved on, or the slot is closed; the sheaf is still the caller's.
 */
hidden bool cache_swap_spare(struct uslub_cache *c, unsigned cpu, struct uslub_sheaf *sheaf);

/* sheaves.c */
hidden struct uslub_sheaf *sheaf_new(struct uslub_cache *c, unsigned flags);
hidden struct uslub_sheaf *sheaf_new_oversize(struct uslub_cache *c, unsigned n, unsigned flags);
hidden void sheaf_free(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags);
hidden void sheaf_free_left(struct uslub_cache *c); /* what any-context returns left behind */
/* Returns all objects to their slabs. */
hidden void sheaf_flush(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags);
/* Fills up from slabs, until it holds n; returns whether it does. */
hidden bool sheaf_refill(struct uslub_cache *c, struct uslub_sheaf *s, unsigned n, unsigned flags);
/* Where a sheaf goes that nobody wants: barn if it is empty and there is room, else away. */
hidden void sheaf_put_empty(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s,
			    unsigned flags);
/* The same for one with objects, which go back to their slabs; for a full one if the barn has enough. */
hidden void sheaf_dissolve(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s,
			   unsigned flags);
hidden void sheaf_put_full(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s,
			   unsigned flags);
/* The same for one of any fill, after a lost race; the barn's limits do not count. */
hidden void sheaf_put_any(struct uslub_cache *c, struct uslub_sheaf *s);
hidden struct uslub_sheaf *sheaf_get_empty(struct uslub_cache *c, unsigned flags);

/* stash.c */
struct stash {
	uint64_t word;	  /* atomic: the newest sheaf, and how many there are */
	uint64_t trimmed; /* racy: when it was last */
	uint32_t low;	  /* racy: the fewest since then */
} cacheline;
hidden struct uslub_sheaf *stash_top(const struct stash *st);
hidden unsigned stash_count(const struct stash *st);
/* False: no room, or no stash; the sheaf is still the caller's, its `next` may have changed. */
hidden bool stash_put(struct uslub_cache *c, struct uslub_sheaf *s);
/* A sheaf with objects of the slot's own stash, or NULL. */
hidden struct uslub_sheaf *stash_get(struct uslub_cache *c, unsigned slot, unsigned flags);
/* Fills up a sheaf from the slot's own stash as far as that goes. */
hidden void stash_top_up(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *to,
			 unsigned flags);
/* An emptied sheaf: the slot's next RCU sheaf, else the barn's. */
hidden void stash_put_emptied(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *s,
			      unsigned flags);
/* Releases what was not needed for a while. There are stashes. */
hidden void stash_trim(struct uslub_cache *c, unsigned slot);
/* Empties a slot's stash. */
hidden void stash_drain(struct uslub_cache *c, unsigned slot);

#define STASH_COUNT_BITS    13
#define STASH_POINTER_SHIFT 7

/* drain.c */
hidden void cache_slow_step(struct uslub_cache *c);
/* Looks at all CPUs. True: there may be something left to take from one that does nothing. */
hidden bool cache_age(struct uslub_cache *c);
hidden int cache_drain(struct uslub_cache *c, bool dead);
hidden uint64_t cache_release_slabs(struct uslub_cache *c);

/* rcu.c */
hidden struct rcu_domain *rcu_domain_get(const struct rcu_flavor_struct *flavor);
/* `cpu` is where it was filled. */
hidden uint64_t rcu_queue_sheaf(struct uslub_cache *c, unsigned cpu, struct uslub_sheaf *s,
				bool to_barn);
hidden void rcu_queue_slab(struct rcu_domain *d, struct slab *slab);
/*
 * Defers the free of any memory: of an object of c, or, where c is NULL, of what rcu_free_other knows how to
 * free. A cache with a tag and without a flavor takes this one.
 */
hidden void rcu_free_any(const struct rcu_flavor_struct *flavor, struct uslub_cache *c, void *p);
hidden extern void (*rcu_free_other)(void *p); /* set by the layer above that has such memory */
/* Disposes of a matured sheaf, if there is one: the barn may have it afterwards. */
hidden bool rcu_feed_barn(struct uslub_cache *c);
hidden void rcu_wait(struct rcu_domain *d);
hidden void rcu_taken(void *arg, unsigned cpu, const struct pcs_contents *contents);
hidden void rcu_barrier_dead(struct uslub_cache *c);
/* Times, or 0. */
struct rcu_ages {
	uint64_t batch_since;  /* atomic: when the oldest of the batch under way was queued */
	uint64_t queued_since; /* atomic: the same of what is queued now */
};
hidden const struct rcu_ages *rcu_ages(const struct rcu_domain *d);
hidden unsigned rcu_domains(void);
hidden struct plat_lock *rcu_lock_batch(unsigned domain);
hidden struct plat_lock *rcu_lock_reserve(unsigned domain);
hidden void rcu_fork_prepare(void);
hidden void rcu_fork_done(bool child);
hidden void rcu_child(void); /* after fork: the reclaimers are gone */

/* stat.c */
hidden extern const struct recipe stat_recipes[USLUB_STAT_COUNT];
/* Where the words of the recipes lie; `now` is left to the caller. */
hidden void stat_view(const struct uslub_cache *c, struct recipe_view *view);
/* What recipes say is true of the statistic: it need not be asked for by a walk. */
hidden bool stat_has_recipe(const struct uslub_cache *c, enum uslub_stat which);

/* policy.c */
hidden bool policy_resolve(const char *name, const struct uslub_policy *given,
			   struct uslub_policy *out);

/*
 * Who wants to know what becomes of the caches, from a higher layer; set once, never unset. The pointer is
 * defined there, so that the watcher is part of every program that has a cache, also of one that is linked
 * with the archive. All but two are called under the registry lock. stepped() is called from slow paths, where
 * waiting is allowed and no lock is held; child() in the child of a fork, when all locks are free again.
 */
struct cache_watcher {
	void (*created)(struct uslub_cache *c);
	void (*aliased)(struct uslub_cache *c, const char *name);
	void (*unaliased)(struct uslub_cache *c, const char *name);
	void (*gone)(struct uslub_cache *c);
	void (*stepped)(struct uslub_cache *c);
	void (*child)(void);
};
hidden extern const struct cache_watcher *cache_watcher;

#define cache_tell(event, ...)                                                                     \
	do {                                                                                       \
		const struct cache_watcher *watcher_ = plat_load_quiet(&cache_watcher);            \
		if (unlikely(watcher_ != NULL))                                                    \
			watcher_->event(__VA_ARGS__);                                              \
	} while (0)

/* registry.c */
struct alias {
	struct list link;
	char name[CACHE_NAME_MAX];
};
hidden extern struct plat_lock registry_lock;
hidden extern struct list registry;

/*
 * Calls fn, under the registry lock, for the oldest cache created after that of the number, and returns
 * the number of this one; 0 when there is none. Begin with 0.
 */
hidden uint64_t registry_next(uint64_t number, void (*fn)(struct uslub_cache *, void *), void *arg);

/* create.c */
/* Gives a cache without a flavor its domain. Under the registry lock. */
hidden void cache_adopt(struct uslub_cache *c, struct rcu_domain *d);
/*
 * What a part of the library says of a cache of its own, besides its arguments; zero means nothing special.
 * @sheaves: where its sheaves come from
 * @internal: its objects are sheaves
 * @tag: of its slabs' pages
 * @spread: in which order a new slab gives out its objects
 * @barn_bytes: of objects that a barn keeps, where nobody has said how many sheaves; 0: as others
 * @slots: where the caller has its slots, which then are the caller's. With other strides than a struct pcs its
 *         inline fast paths are closed; the caller has his own
 */
struct cache_kind {
	struct uslub_cache *sheaves;
	bool internal;
	uint8_t tag;
	uint8_t spread;
	size_t barn_bytes;
	struct pcs_set slots;
};
hidden struct uslub_cache *cache_create_locked(const char *name, size_t object_size,
					       const struct uslub_cache_args *args,
					       const struct cache_kind *kind);

/* start.c */
hidden void uslub_start(void);

/*
 * A program that is linked with the library may run with another copy of it preloaded, as its malloc. Its calls
 * then all go there, and this one must not act. The dynamic linker decides which copy's uslub_library is meant;
 * uslub_this_library is the same byte of this copy. Defined in registry.c, where the compiler does not see it.
 */
extern const char uslub_library;
hidden extern const char uslub_this_library;

static inline bool uslub_in_charge(void)
{
	return &uslub_library == &uslub_this_library;
}

#endif /* USLUB_CACHE_INTERNAL_H */
