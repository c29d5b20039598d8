/* SPDX-License-Identifier: MIT */
/*
 * Parking: where once-full slabs wait to be found, without list_lock.
 *
 * 1. Why
 *    A free into a full slab makes it useful again, so it must be found by the next refill. Putting it on
 *    the partial list costs a list_lock for every such free, and that is most of what frees want the lock
 *    for. Parking pushes it onto a stack instead, one compare-exchange on a line that few CPUs share.
 *
 * 2. Structure
 *    A node's parked slabs lie in shards, by the CPU of the freer. A shard has two generations: frees push
 *    onto `young`; refills take from `old`, and turn `young` over when `old` is used up. So slabs wait for
 *    about a generation and gather free objects meanwhile: taken newest first, a slab would yield the one
 *    object that was just freed, and a refill would visit thirty of them.
 *
 * 3. Why this is safe
 *    Stacks are pushed to by compare-exchange and only ever taken whole, by exchange: so there is no pop,
 *    and no ABA. A push that sees the same head again links to the same slab, whatever happened meanwhile.
 *    What was taken belongs to the taker alone: a slab whose state says PARKED is on one stack, or in one
 *    pair of hands: those of its freer before the push, or those of a taker. Others go on freeing into it.
 *    A taker first puts back what it does not need, by one compare-exchange, and only then reaches into
 *    slabs, or others would find nothing and map new ones. Until the slab's state says something else than
 *    PARKED its `next` belongs to the taker, and not an instant longer.
 *
 * 4. Bound
 *    A shard takes so many slabs (policy park-limit) and no more, so that what other CPUs' refills find only
 *    last is bounded; then the whole shard goes to the list in one hold of list_lock.
 */
#include "tiers/park.h"

unsigned park_shards(unsigned cpus)
{
	unsigned n = 1;

	while (n < cpus && n < PARK_SHARDS_MAX)
		n *= 2;
	return n;
}

void park_init(struct park *p, struct park_shard *shards, unsigned nshards, unsigned limit)
{
	*p = (struct park){ .shards = shards, .nshards = nshards, .limit = limit };
}

void park_again(struct park_shard *s, struct slab *slab)
{
	struct slab *head = plat_load(&s->young);

	do
		slab->next = head;
	while (!plat_cas(&s->young, &head, slab));
}

bool park_push(const struct park *p, struct park_shard *s, struct slab *slab, bool force)
{
	if (plat_load(&s->count) >= p->limit && !force)
		return false;
	plat_fetch_add(&s->count, 1);
	park_again(s, slab);
	return true;
}

static struct slab *reverse(struct slab *list)
{
	struct slab *reversed = NULL, *next;

	for (; list; list = next) {
		next = list->next;
		list->next = reversed;
		reversed = list;
	}
	return reversed;
}

struct slab *park_take(struct park_shard *s)
{
	struct slab *taken = plat_load(&s->old) ? plat_exchange(&s->old, NULL) : NULL;

	if (!taken && plat_load(&s->young))
		taken = reverse(plat_exchange(&s->young, NULL));
	plat_point(POINT_TAKEN);
	return taken;
}

void park_put_back(struct park_shard *s, struct slab *rest)
{
	struct slab *last = rest, *there = NULL;

	plat_point(POINT_PUT_BACK);
	if (plat_cas(&s->old, &there, rest))
		return;
	/* Somebody turned the shard over meanwhile. */
	while (last->next)
		last = last->next;
	do
		last->next = there;
	while (!plat_cas(&s->old, &there, rest));
}

void park_gone(struct park_shard *s, unsigned n)
{
	plat_fetch_sub(&s->count, n);
}

uint64_t park_count(const struct park *p)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < p->nshards; i++)
		count += plat_load(&p->shards[i].count);
	return count;
}
