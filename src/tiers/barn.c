/* SPDX-License-Identifier: MIT */
/*
 * The barn: where CPUs of a node exchange whole sheaves.
 *
 * 1. Structure
 *    Two stacks under one lock: full sheaves and empty ones, each with a limit (policies barn-full and
 *    barn-empty). A CPU that runs dry brings its empty sheaf and leaves with a full one; one that
 *    overflows the other way round. So most calls keep the number of sheaves in the barn.
 *    Full sheaves here are full; what is part-full after a lost race goes through the merge of section 3.
 *
 * 2. Limits
 *    hold for what only adds. They do not where a swap keeps the number, nor where a thread that lost a
 *    race has to put a sheaf somewhere (`force`): a sheaf is never freed only because of a race.
 *
 * 3. The part-full sheaf
 *    Prefilled sheaves are used up in part, so a CPU's spare may be short of a request while full sheaves
 *    lie here. barn_replace_partial() takes the short sheaf S in and gives a full one out. S (k objects)
 *    meets the barn's part-full sheaf P (p objects):
 *
 *        k = 0                  S is an empty sheaf
 *        no P                   S becomes P
 *        p + k < capacity       all of S into P; S is an empty sheaf
 *        p + k = capacity       all of S into P, which is full now; S is an empty sheaf; no P
 *        p + k > capacity       P is filled up and full; S keeps the rest and becomes P
 *
 *    One full sheaf leaves and at most one is made, so the full stack never grows here.
 *
 * 4. Locking
 *    RANK_BARN. At most capacity pointers are moved under it. Never held while flushing or refilling.
 */
#include "tiers/barn.h"

void barn_init(struct barn *b, unsigned max_full, unsigned max_empty)
{
	*b = (struct barn){ .max_full = max_full, .max_empty = max_empty };
	counted_lock_init(&b->lock, RANK_BARN);
}

static bool lock_barn(struct barn *b, bool try)
{
	if (try)
		return counted_trylock(&b->lock, LOCK_OTHER);
	counted_lock(&b->lock, LOCK_OTHER);
	return true;
}

static void push(struct uslub_sheaf **stack, uint32_t *nr, struct uslub_sheaf *s)
{
	s->next = *stack;
	*stack = s;
	plat_store(nr, *nr + 1);
}

static struct uslub_sheaf *pop(struct uslub_sheaf **stack, uint32_t *nr)
{
	struct uslub_sheaf *s = *stack;

	if (s) {
		*stack = s->next;
		plat_store(nr, *nr - 1);
	}
	return s;
}

static void push_full(struct barn *b, struct uslub_sheaf *s)
{
	push(&b->full, &b->nr_full, s);
}

static void push_empty(struct barn *b, struct uslub_sheaf *s)
{
	push(&b->empty, &b->nr_empty, s);
}

struct uslub_sheaf *barn_replace_empty(struct barn *b, struct uslub_sheaf *empty, bool try)
{
	struct uslub_sheaf *full;

	if (!plat_load(&b->nr_full) || !lock_barn(b, try))
		return NULL;
	full = pop(&b->full, &b->nr_full);
	if (full && empty)
		push_empty(b, empty);
	counted_unlock(&b->lock);
	return full;
}

struct uslub_sheaf *barn_replace_full(struct barn *b, struct uslub_sheaf *full, bool try,
				      enum barn_refusal *why)
{
	struct uslub_sheaf *empty;

	*why = BARN_FULL;
	if (plat_load(&b->nr_full) >= b->max_full)
		return NULL;
	*why = BARN_NO_EMPTY;
	if (!plat_load(&b->nr_empty))
		return NULL;
	*why = BARN_BUSY;
	if (!lock_barn(b, try))
		return NULL;
	*why = BARN_NO_EMPTY;
	empty = pop(&b->empty, &b->nr_empty);
	if (empty)
		push_full(b, full);
	counted_unlock(&b->lock);
	return empty;
}

struct uslub_sheaf *barn_get_any(struct barn *b, bool try)
{
	struct uslub_sheaf *s;

	if (!(plat_load(&b->nr_full) + plat_load(&b->nr_empty)) || !lock_barn(b, try))
		return NULL;
	s = pop(&b->full, &b->nr_full);
	if (!s)
		s = pop(&b->empty, &b->nr_empty);
	counted_unlock(&b->lock);
	return s;
}

struct uslub_sheaf *barn_get_empty(struct barn *b, bool try)
{
	struct uslub_sheaf *s;

	if (!plat_load(&b->nr_empty) || !lock_barn(b, try))
		return NULL;
	s = pop(&b->empty, &b->nr_empty);
	counted_unlock(&b->lock);
	return s;
}

bool barn_put_full(struct barn *b, struct uslub_sheaf *s, bool force, bool try)
{
	if ((!force && plat_load(&b->nr_full) >= b->max_full) || !lock_barn(b, try))
		return false;
	push_full(b, s);
	counted_unlock(&b->lock);
	return true;
}

bool barn_put_empty(struct barn *b, struct uslub_sheaf *s, bool try)
{
	if (plat_load(&b->nr_empty) >= b->max_empty || !lock_barn(b, try))
		return false;
	push_empty(b, s);
	counted_unlock(&b->lock);
	return true;
}

/* The table of section 3. True: a full sheaf was made. */
static bool merge(struct barn *b, struct uslub_sheaf *s)
{
	struct uslub_sheaf *p = b->partial;

	if (!s->fill) {
		push_empty(b, s);
		return false;
	}
	if (!p) {
		plat_store_quiet(&b->partial, s);
		return false;
	}
	sheaf_move(p, s, min(s->fill, sheaf_room(p)));
	plat_store_quiet(&b->partial, s->fill ? s : NULL);
	if (!s->fill)
		push_empty(b, s);
	if (sheaf_room(p)) {
		plat_store_quiet(&b->partial, p);
		return false;
	}
	push_full(b, p);
	return true;
}

struct uslub_sheaf *barn_replace_partial(struct barn *b, struct uslub_sheaf *s, bool try,
					 bool *merged)
{
	struct uslub_sheaf *full;

	if (!plat_load(&b->nr_full) || !lock_barn(b, try))
		return NULL;
	full = pop(&b->full, &b->nr_full);
	*merged = full && merge(b, s);
	counted_unlock(&b->lock);
	return full;
}

bool barn_put_partial(struct barn *b, struct uslub_sheaf *s)
{
	bool merged;

	counted_lock(&b->lock, LOCK_OTHER);
	merged = merge(b, s);
	counted_unlock(&b->lock);
	return merged;
}

struct uslub_sheaf *barn_drain(struct barn *b)
{
	struct uslub_sheaf *all, *s;

	counted_lock(&b->lock, LOCK_OTHER);
	all = b->partial;
	if (all)
		all->next = NULL;
	plat_store_quiet(&b->partial, NULL);
	while ((s = pop(&b->full, &b->nr_full)) || (s = pop(&b->empty, &b->nr_empty))) {
		s->next = all;
		all = s;
	}
	counted_unlock(&b->lock);
	return all;
}
