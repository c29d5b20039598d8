/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: a reserve of objects for a section that must not fail.
 *
 * The CPU's spare is lent to the caller, and comes back part-full to be lent again: two pointer moves in
 * the common case. When the spare holds less than is asked for, it used to be filled up from slabs, past
 * the barn, while the barn, which nobody emptied, refused what RCU brought back. With policy prefill-barn
 * the short spare is swapped for a full sheaf of the barn instead (barn_replace_partial()), which makes
 * room there for the next matured RCU sheaf. With policy rcu-stash it is filled up before that from what came
 * back to the CPU (stash.c).
 *
 * A sheaf in the hands of a caller belongs to nobody else: no CPU, no lock. More objects than a sheaf
 * holds are served by a private one of the right size.
 */
#include <errno.h>
#include <string.h>
#include "cache/internal.h"

static bool absurd(unsigned n)
{
	return !n || sheaf_bytes(n) > plat_page_size() << supply_max_order();
}

static void sheaf_discard(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags)
{
	sheaf_flush(c, s, flags);
	sheaf_free(c, s, flags);
}

/* Fills an oversize sheaf; what comes straight from slabs counts as slow allocations. */
static bool fill_oversize(struct uslub_cache *c, struct uslub_sheaf *s, unsigned n, unsigned flags)
{
	unsigned got = nodes_refill(c->nodes, plat_this_node(), s->objects + s->fill, n - s->fill,
				    node_flags(flags));

	counters_add(counters(c), CTR_alloc_slowpath, got);
	s->fill += got;
	return s->fill >= n;
}

static struct uslub_sheaf *prefill_oversize(struct uslub_cache *c, unsigned flags, unsigned n)
{
	struct uslub_sheaf *s = NULL;

	/* The pages could not be given back from any context. */
	if (!(flags & USLUB_NOLOCK))
		s = sheaf_new_oversize(c, n, flags);
	count(counters(c), CTR_sheaf_prefill_oversize);
	if (!s)
		return NULL;
	if (fill_oversize(c, s, n, flags))
		return s;
	sheaf_discard(c, s, flags);
	return NULL;
}

/* No spare: one of the CPU's own, any sheaf of the barn, or a new one. */
static struct uslub_sheaf *borrow(struct uslub_cache *c, unsigned flags)
{
	struct barn *barn = local_barn(c);
	struct uslub_sheaf *s;

	count(counters(c), CTR_sheaf_prefill_slow);
	s = stash_get(c, plat_slot(), flags);
	if (s)
		return s;
	s = barn_get_any(barn, flags & USLUB_NOLOCK);
	note_barn_get(c, barn, s && s->fill);
	return s ? s : sheaf_new(c, flags);
}

/* Makes a short sheaf hold n: the barn's full sheaf for it, if there is one, else objects of slabs. */
static bool top_up(struct uslub_cache *c, struct uslub_sheaf **sheaf, unsigned n, unsigned flags)
{
	struct uslub_sheaf *full = NULL;
	struct barn *barn;
	bool merged;

	if ((*sheaf)->fill >= n)
		return true;
	stash_top_up(c, plat_slot(), *sheaf, flags);
	if ((*sheaf)->fill >= n)
		return true;
	if (c->prefill_barn) {
		barn = local_barn(c);
		full = barn_replace_partial(barn, *sheaf, flags & USLUB_NOLOCK, &merged);
		if (full)
			note_barn_get(c, barn, true);
		else
			count(counters(c), CTR_barn_prefill_miss);
	}
	if (full) {
		if (merged)
			count(counters(c), CTR_barn_merge);
		*sheaf = full;
	}
	if (likely((*sheaf)->fill >= n))
		return true;
	if (!(flags & (USLUB_NOWAIT | USLUB_NOLOCK)))
		cache_slow_step(c);
	sheaf_refill(c, *sheaf, c->capacity, flags);
	return (*sheaf)->fill >= n;
}

/* All but a spare with enough objects: no spare, a short one, more than a sheaf holds, nonsense. */
static noinline struct uslub_sheaf *prefill_slow(struct uslub_cache *c, unsigned flags, unsigned n,
						 struct uslub_sheaf *s)
{
	uint64_t began;

	if (absurd(n)) {
		plat_set_errno(EINVAL);
		return NULL;
	}
	began = latency_begin(counters(c));
	if (n > c->capacity) {
		s = prefill_oversize(c, flags, n);
	} else {
		if (!s)
			s = borrow(c, flags);
		if (s && !top_up(c, &s, n, flags)) {
			sheaf_discard(c, s, flags);
			s = NULL;
		}
	}
	latency_end(counters(c), USLUB_LATENCY_prefill, began);
	if (!s)
		plat_set_errno(ENOMEM);
	return s;
}

struct uslub_sheaf *uslub_cache_prefill_sheaf(struct uslub_cache *c, unsigned flags, unsigned n)
{
	struct uslub_sheaf *s = NULL;
	enum seq_result result = SEQ_AGAIN;
	unsigned cpu;

	for (unsigned round = 0; round < SEQ_TRIES && n - 1 < c->capacity; round++) {
		cpu = plat_slot();
		result = seq_take_other(cpu, main_slot(c, cpu), &s);
		if (likely(result == SEQ_DONE)) {
			counters_add_at(counters(c), cpu, CTR_sheaf_prefill_fast, 1);
			if (likely(s->fill >= n))
				return s;
		}
		if (result != SEQ_AGAIN)
			break;
	}
	return prefill_slow(c, flags, n, s);
}

int uslub_cache_refill_sheaf(struct uslub_cache *c, unsigned flags, struct uslub_sheaf **sheaf,
			     unsigned n)
{
	struct uslub_sheaf *s = *sheaf, *larger;
	bool ok;

	if (absurd(n))
		return -EINVAL;
	if (s->fill >= n)
		return 0;
	if (n > s->capacity) {
		larger = uslub_cache_prefill_sheaf(c, flags, n);
		if (!larger)
			return -ENOMEM;
		uslub_cache_return_sheaf(c, flags, s);
		*sheaf = larger;
		return 0;
	}
	ok = s->capacity == c->capacity ? top_up(c, sheaf, n, flags)
					: fill_oversize(c, s, n, flags);
	return ok ? 0 : -ENOMEM;
}

void *uslub_cache_alloc_from_sheaf(struct uslub_cache *c, unsigned flags, struct uslub_sheaf *sheaf)
{
	void *object;

	if (unlikely(!sheaf->fill)) {
		plat_set_errno(ENOMEM);
		return NULL;
	}
	object = sheaf->objects[--sheaf->fill];
	if (flags & USLUB_ZERO)
		memset(object, 0, c->class.object_size);
	return object;
}

/*
 * No place for it as a spare: made full for the barn, if that wants one, else dissolved. One of another
 * capacity is dissolved uncounted.
 */
static noinline void return_slow(struct uslub_cache *c, unsigned flags, struct uslub_sheaf *s)
{
	struct barn *barn = local_barn(c);

	if (unlikely(s->cache != c))
		plat_fatal("cache %s: returned sheaf %p belongs to another cache", c->name,
			   (void *)s);
	if (s->capacity != c->capacity) {
		sheaf_discard(c, s, flags);
		return;
	}
	count(counters(c), CTR_sheaf_return_slow);
	if (plat_load(&barn->nr_full) < barn->max_full && sheaf_refill(c, s, c->capacity, flags) &&
	    barn_put_full(barn, s, true, flags & USLUB_NOLOCK)) {
		note_barn_put(c, barn, true);
		return;
	}
	sheaf_discard(c, s, flags);
}

void uslub_cache_return_sheaf(struct uslub_cache *c, unsigned flags, struct uslub_sheaf *s)
{
	enum seq_result result = SEQ_AGAIN;
	bool ours;
	unsigned cpu;

	if (!s)
		return;
	ours = s->cache == c && s->capacity == c->capacity;
	for (unsigned round = 0; round < SEQ_TRIES && ours && result == SEQ_AGAIN; round++) {
		cpu = plat_slot();
		result = slot_give(c, cpu, main_slot(c, cpu), s);
		if (likely(result == SEQ_DONE)) {
			counters_add_at(counters(c), cpu, CTR_sheaf_return_fast, 1);
			return;
		}
	}
	return_slow(c, flags, s);
}

unsigned uslub_sheaf_size(const struct uslub_sheaf *sheaf)
{
	return sheaf->fill;
}
