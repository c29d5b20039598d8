/* SPDX-License-Identifier: MIT */
/* Parked slabs of a node: lock-free stacks. The theory of operation opens park.c. */
#ifndef USLUB_TIERS_PARK_H
#define USLUB_TIERS_PARK_H

#include "base/base.h"
#include "platform/platform.h"
#include "tiers/slab.h"

#define PARK_SHARDS_MAX 16u

struct park_shard {
	struct slab *young; /* atomic: pushed since `old` was made, newest first */
	struct slab *old;   /* atomic: to be taken next, oldest first */
	uint32_t count;	    /* atomic: slabs in both; a hint while they change */
} cacheline;

struct park {
	struct park_shard *shards; /* NULL: nothing is ever parked */
	uint32_t nshards;	   /* a power of two */
	uint32_t limit;		   /* slabs in a shard */
};

/* How many shards, for so many CPUs of a node. The memory is the caller's, zeroed. */
hidden unsigned park_shards(unsigned cpus);
hidden void park_init(struct park *p, struct park_shard *shards, unsigned nshards, unsigned limit);

static inline struct park_shard *park_shard(const struct park *p, unsigned cpu)
{
	return &p->shards[cpu & (p->nshards - 1)];
}

static inline bool park_empty(const struct park_shard *s)
{
	return !plat_load(&s->young) && !plat_load(&s->old);
}

/* False: the shard is full and the slab still the caller's, unless it is forced in. */
hidden bool park_push(const struct park *p, struct park_shard *s, struct slab *slab, bool force);

/* A slab that was taken goes back as if it had just been pushed: it has given what it had. */
hidden void park_again(struct park_shard *s, struct slab *slab);

/* Takes the older half of a shard, linked by `next`, oldest first; NULL: nothing is parked there. */
hidden struct slab *park_take(struct park_shard *s);

/* Puts a linked rest of that back, which others then find first. */
hidden void park_put_back(struct park_shard *s, struct slab *rest);

/* So many of the slabs taken will not come back. */
hidden void park_gone(struct park_shard *s, unsigned n);

hidden uint64_t park_count(const struct park *p);

#endif /* USLUB_TIERS_PARK_H */
