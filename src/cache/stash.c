/* SPDX-License-Identifier: MIT */
/*
 * Own-first recycling: matured RCU sheaves come back to the CPU that freed their objects.
 *
 * 1. Why
 *    A CPU that replaces objects frees as many as it allocates, only a grace period later. Its matured sheaves
 *    are just what it needs next, and their objects' lines were its own. By way of the barn they meet those
 *    of all CPUs of the node, in bursts as large as a grace period is long: the barn takes ten, the rest
 *    goes through the slabs, under list_lock. Kept for their CPU, nobody has to be asked.
 *
 * 2. Structure
 *    Each CPU has a stack of at most `rcu-stash` sheaves. Anybody pushes, by compare-exchange; the CPU's own
 *    threads take the whole stack by exchange and push back what they leave: no pop, no ABA. A sheaf in it
 *    has objects, but need not be full: a prefill copies pointers over until its sheaf is full, and what is
 *    left stays.
 *    An emptied sheaf becomes the CPU's next RCU sheaf, so that sheaves, too, go round without the barn.
 *
 * 3. Age
 *    What has lain there unused for a while, the fewest there were at any time since, is released by the CPU
 *    itself: to the barn if that wants it, else to the slabs. A CPU that does nothing any more is drained with
 *    all it has, by others that look at it or by the reclaimer before it goes to sleep for good (drain.c).
 */
#include "cache/internal.h"

#define TRIM_NS 20000000 /* some grace periods */

static void push(struct stash *st, struct uslub_sheaf *first, struct uslub_sheaf *last)
{
	struct uslub_sheaf *top = plat_load(&st->top);

	do
		last->next = top;
	while (!plat_cas(&st->top, &top, first));
}

static void release(struct uslub_cache *c, struct uslub_sheaf *s)
{
	struct barn *barn = &c->barns[s->node];

	if (!sheaf_room(s) && barn_put_full(barn, s, false, false)) {
		count(counters(c), CTR_barn_put);
		return;
	}
	sheaf_flush(c, s, 0);
	sheaf_put_empty(c, barn, s);
}

/* Releases the oldest `n` of a list. Returns what stays. */
static struct uslub_sheaf *release_oldest(struct uslub_cache *c, struct stash *st,
					  struct uslub_sheaf *list, unsigned n)
{
	struct uslub_sheaf **end = &list, *s, *next;
	unsigned stay = 0;

	for (s = list; s; s = s->next)
		stay++;
	for (stay -= min(stay, n); stay; stay--)
		end = &(*end)->next;
	s = *end;
	*end = NULL;
	for (; s; s = next) {
		next = s->next;
		plat_fetch_sub(&st->count, 1);
		count(counters(c), CTR_stash_trim);
		release(c, s);
	}
	return list;
}

static void push_list(struct stash *st, struct uslub_sheaf *list)
{
	struct uslub_sheaf *last = list;

	if (!list)
		return;
	while (last->next)
		last = last->next;
	push(st, list, last);
}

/* What was not needed since the last time; one stays. */
static void trim(struct uslub_cache *c, struct stash *st)
{
	unsigned low = plat_load(&st->low);
	uint64_t now = plat_now();

	if (likely(now - plat_load(&st->trimmed) < TRIM_NS))
		return;
	plat_store(&st->trimmed, now);
	plat_store(&st->low, plat_load(&st->count));
	if (low > 1)
		push_list(st, release_oldest(c, st, plat_exchange(&st->top, NULL), low - 1));
}

bool stash_put(struct uslub_cache *c, struct uslub_sheaf *s)
{
	struct stash *st;

	if (!c->stashes)
		return false;
	st = &c->stashes[s->slot];
	if (plat_load(&st->count) >= c->stash_limit)
		return false;
	plat_fetch_add(&st->count, 1);
	push(st, s, s);
	count(counters(c), CTR_stash_put);
	return true;
}

static void note_low(struct stash *st)
{
	uint32_t count = plat_load(&st->count);

	if (count < plat_load(&st->low))
		plat_store(&st->low, count);
}

struct uslub_sheaf *stash_get(struct uslub_cache *c, unsigned slot, unsigned flags)
{
	struct uslub_sheaf *s;
	struct stash *st;

	if (!c->stashes)
		return NULL;
	st = &c->stashes[slot];
	if (flags & USLUB_NOLOCK) {
		if (!plat_load(&st->top))
			return NULL;
	} else if (plat_load(&st->top)) {
		trim(c, st);
	} else if (!rcu_feed_barn(c)) {
		return NULL;
	}
	s = plat_load(&st->top) ? plat_exchange(&st->top, NULL) : NULL;
	if (!s)
		return NULL;
	push_list(st, s->next);
	plat_fetch_sub(&st->count, 1);
	note_low(st);
	count(counters(c), CTR_stash_get);
	return s;
}

/* An emptied sheaf: the CPU's next RCU sheaf, else the barn's. */
void stash_put_emptied(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *s, unsigned flags)
{
	if (seq_give_other(slot, rcu_slot(c, slot), s) != SEQ_DONE &&
	    !barn_put_empty(local_barn(c), s, flags & USLUB_NOLOCK))
		sheaf_free(c, s, flags);
}

void stash_top_up(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *to, unsigned flags)
{
	struct uslub_sheaf *s;
	struct stash *st;

	if (!c->stashes || to->capacity != c->capacity)
		return;
	st = &c->stashes[slot];
	while (sheaf_room(to)) {
		s = stash_get(c, slot, flags);
		if (!s)
			return;
		sheaf_move(to, s, min(s->fill, sheaf_room(to)));
		if (s->fill) {
			plat_fetch_add(&st->count, 1);
			push(st, s, s);
		} else {
			stash_put_emptied(c, slot, s, flags);
		}
	}
}

void stash_drain(struct uslub_cache *c, unsigned slot)
{
	struct stash *st;

	if (!c->stashes)
		return;
	st = &c->stashes[slot];
	release_oldest(c, st, plat_exchange(&st->top, NULL), UINT32_MAX);
	plat_store(&st->low, 0);
}

/* In the child of a fork: what other threads had in their hands is not there any more. */
void stash_child(struct uslub_cache *c)
{
	struct stash *st;

	for (unsigned slot = 0; c->stashes && slot < c->nslots; slot++) {
		st = &c->stashes[slot];
		if (!st->count)
			continue;
		st->count = 0;
		for (const struct uslub_sheaf *s = st->top; s; s = s->next)
			st->count++;
	}
}

uint64_t stash_count(const struct uslub_cache *c)
{
	uint64_t count = 0;

	for (unsigned slot = 0; c->stashes && slot < c->nslots; slot++)
		count += plat_load(&c->stashes[slot].count);
	return count;
}
