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
 *    Each CPU has a stack of at most `rcu-stash` sheaves, the newest on top. It is one word, the top sheaf and
 *    how many there are: so the limit holds exactly, and in the child of a fork the count is that of the
 *    stack. Anybody pushes, by compare-exchange; the CPU's own threads take the whole stack by exchange
 *    and put back what they leave: no pop, no ABA. That costs no walk unless somebody has pushed in
 *    between. Nobody waits for a lock with a stack in his hands, but to release a part of it.
 *    A sheaf in it has objects, but need not be full: a prefill copies pointers over until its sheaf is
 *    full, and what is left of the last one stays on top. An emptied sheaf becomes the CPU's next RCU
 *    sheaf, so that sheaves, too, go round without the barn.
 *    A thread that was on another node by the time it queued a sheaf, or has no CPU and is not on the first
 *    node, leaves it to the barn: a stash has sheaves of its own node only.
 *
 * 3. Age
 *    What has lain there unused for a while, the fewest there were at any time since, is released by the CPU
 *    itself: to the barn if that wants it, else to the slabs. For a CPU that only frees, it is done by those
 *    who look for idle CPUs; one that does nothing any more they drain with all it has. The reclaimer is
 *    one of them as long as anything is stashed (drain.c, rcu.c).
 *
 * 4. Counted are sheaves: stash_put = stash_get + stash_trim + stashed. One that was used in part has not
 *    left.
 */
#include "cache/internal.h"

#define TRIM_NS 20000000 /* some grace periods */

/* The word. Sheaves lie at multiples of 64, and no address of a program has more than 57 bits. */
#define COUNT_BITS    STASH_COUNT_BITS
#define POINTER_SHIFT STASH_POINTER_SHIFT

static unsigned count_of(uint64_t word)
{
	return word & ((1u << COUNT_BITS) - 1);
}

static struct uslub_sheaf *top_of(uint64_t word)
{
	return (struct uslub_sheaf *)(uintptr_t)(word >> COUNT_BITS
								 << (COUNT_BITS - POINTER_SHIFT));
}

static uint64_t word_of(const struct uslub_sheaf *top, unsigned count)
{
	return (uint64_t)(uintptr_t)top << POINTER_SHIFT | count;
}

struct uslub_sheaf *stash_top(const struct stash *st)
{
	return top_of(plat_load(&st->word));
}

unsigned stash_count(const struct stash *st)
{
	return count_of(plat_load(&st->word));
}

/* ---- giving back ---------------------------------------------------------------------------------- */

static void release(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags)
{
	struct barn *barn = &c->barns[s->node];

	count(counters(c), CTR_stash_trim);
	if (sheaf_room(s))
		sheaf_dissolve(c, barn, s, flags);
	else
		sheaf_put_full(c, barn, s, flags);
}

static void release_all(struct uslub_cache *c, struct uslub_sheaf *list, unsigned flags)
{
	struct uslub_sheaf *next;

	for (; list; list = next) {
		next = list->next;
		release(c, list, flags);
	}
}

/* Cuts a list behind its first n > 0. Returns the rest. */
static struct uslub_sheaf *cut(struct uslub_sheaf *list, unsigned n)
{
	struct uslub_sheaf *rest;

	while (--n)
		list = list->next;
	rest = list->next;
	list->next = NULL;
	return rest;
}

/* ---- the stack ------------------------------------------------------------------------------------ */

static struct uslub_sheaf *take(struct stash *st, unsigned *n)
{
	uint64_t word = plat_load(&st->word) ? plat_exchange(&st->word, 0) : 0;

	if (word)
		plat_point(POINT_STASH_TAKEN);
	*n = count_of(word);
	return top_of(word);
}

/* What was taken, or a part of it. What there is no room for any more is released. */
static void put_back(struct uslub_cache *c, struct stash *st, struct uslub_sheaf *list, unsigned n,
		     unsigned flags)
{
	struct uslub_sheaf *last, *rest = NULL;
	uint64_t word = 0;
	unsigned room;

	if (!n || plat_cas(&st->word, &word, word_of(list, n)))
		return;
	do {
		room = c->stash_limit - count_of(word);
		if (!room) {
			release_all(c, list, flags);
			break;
		}
		if (n > room) {
			release_all(c, rest, flags);
			rest = cut(list, room);
			n = room;
		}
		for (last = list; last->next; last = last->next)
			;
		last->next = top_of(word);
		plat_point(POINT_STASH_BACK);
		if (plat_cas(&st->word, &word, word_of(list, count_of(word) + n)))
			break;
		last->next = NULL;
	} while (true);
	release_all(c, rest, flags);
}

bool stash_put(struct uslub_cache *c, struct uslub_sheaf *s)
{
	struct stash *st;
	uint64_t word;

	if (!c->stashes || s->node != plat_cpu_node(s->slot))
		return false;
	st = &c->stashes[s->slot];
	counters_use(counters(c), s->slot);
	word = plat_load(&st->word);
	do {
		if (count_of(word) >= c->stash_limit)
			return false;
		s->next = top_of(word);
		plat_point(POINT_STASH_PUT);
	} while (!plat_cas(&st->word, &word, word_of(s, count_of(word) + 1)));
	count(counters(c), CTR_stash_put);
	return true;
}

static void note_low(struct stash *st, unsigned left)
{
	if (left < plat_load(&st->low))
		plat_store(&st->low, left);
}

void stash_trim(struct uslub_cache *c, unsigned slot)
{
	struct uslub_sheaf *list, *rest;
	struct stash *st = &c->stashes[slot];
	unsigned low = plat_load(&st->low), n, stay;
	uint64_t now = plat_now();

	/* Another thread may have been here later than now. */
	if (likely((int64_t)(now - plat_load(&st->trimmed)) < TRIM_NS))
		return;
	plat_store(&st->trimmed, now);
	plat_store(&st->low, stash_count(st));
	if (low < 2)
		return;
	list = take(st, &n);
	if (!list)
		return;
	/* What was not needed; one stays. */
	stay = n - min(low - 1, n - 1);
	rest = cut(list, stay);
	put_back(c, st, list, stay, 0);
	note_low(st, stay);
	release_all(c, rest, 0);
}

/* All that the slot has. If that is nothing, something may come of a matured sheaf. */
static struct uslub_sheaf *take_own(struct uslub_cache *c, unsigned slot, unsigned flags,
				    unsigned *n)
{
	struct stash *st = &c->stashes[slot];

	if (!(flags & (USLUB_NOWAIT | USLUB_NOLOCK))) {
		if (plat_load(&st->word))
			stash_trim(c, slot);
		else if (!rcu_feed_barn(c))
			return NULL;
	}
	return take(st, n);
}

/* ---- for allocations ------------------------------------------------------------------------------ */

struct uslub_sheaf *stash_get(struct uslub_cache *c, unsigned slot, unsigned flags)
{
	struct uslub_sheaf *s;
	unsigned n;

	if (!c->stashes)
		return NULL;
	s = take_own(c, slot, flags, &n);
	if (!s)
		return NULL;
	put_back(c, &c->stashes[slot], s->next, n - 1, flags);
	note_low(&c->stashes[slot], n - 1);
	count(counters(c), CTR_stash_get);
	return s;
}

void stash_put_emptied(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *s, unsigned flags)
{
	if (slot_give(c, slot, rcu_slot(c, slot), s) != SEQ_DONE)
		sheaf_put_empty(c, local_barn(c), s, flags);
}

void stash_top_up(struct uslub_cache *c, unsigned slot, struct uslub_sheaf *to, unsigned flags)
{
	struct uslub_sheaf *list, *s, *emptied = NULL;
	unsigned n;

	if (!c->stashes || to->capacity != c->capacity)
		return;
	list = take_own(c, slot, flags, &n);
	if (!list)
		return;
	while (list && sheaf_room(to)) {
		s = list;
		sheaf_move(to, s, min(s->fill, sheaf_room(to)));
		if (s->fill)
			break;
		list = s->next;
		n--;
		s->next = emptied;
		emptied = s;
	}
	put_back(c, &c->stashes[slot], list, n, flags);
	note_low(&c->stashes[slot], n);
	for (; emptied; emptied = s) {
		s = emptied->next;
		count(counters(c), CTR_stash_get);
		stash_put_emptied(c, slot, emptied, flags);
	}
}

/* ---- all of it ------------------------------------------------------------------------------------ */

/* Not to the barn: with objects of as many slabs as they have, its few sheaves would hold all of those. */
void stash_drain(struct uslub_cache *c, unsigned slot)
{
	struct uslub_sheaf *s, *next;
	unsigned n;

	if (!c->stashes)
		return;
	for (s = take(&c->stashes[slot], &n); s; s = next) {
		next = s->next;
		count(counters(c), CTR_stash_trim);
		sheaf_dissolve(c, &c->barns[s->node], s, 0);
	}
	plat_store(&c->stashes[slot].low, 0);
}
