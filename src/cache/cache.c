/* SPDX-License-Identifier: MIT */
/*
 * Caches: allocation and free.
 *
 * 1. Tiers
 *    An allocation goes down this ladder until it finds an object, a free goes down it until it finds
 *    room:
 *
 *      a. the CPU's main sheaf     a sequence of two dozen instructions, no lock, no atomic
 *      b. the CPU's spare sheaf    becomes main; then what is stashed for it, if anything (stash.c)
 *      c. the node's barn          a full sheaf for an empty one, or the other way round; barn lock
 *      d. the node's partial list  a sheaf is filled from slabs or flushed into them; list_lock
 *      e. the page supply          a new slab, or one less
 *      f. no sheaf at all          one object straight from or to its slab; when the CPU's slot is
 *                                  closed, the thread was interrupted too often, or memory is short
 *
 * 2. Slow paths prepare outside, flip, tidy outside
 *    A slow path never holds the CPU's slot. It first gets the sheaf it needs (in hand), then puts it
 *    in the spare's place, then flips; each step is a sequence that fails if the thread has moved to
 *    another CPU or somebody changed the slot. Then it looks again from the top, since everything may
 *    have changed: other threads ran here while it waited. What is left in the hand goes to the barn.
 *    A few rounds at most, then (f) serves.
 *
 * 3. Lock order
 *    is that of platform/rank.h: registry > close > grace > reclaim > reserve > barn > list_lock >
 *    supply > arena. The slow paths here hold one at a time, but for an any-context refill from a
 *    fresh slab, which holds list_lock and the supply's.
 *
 * 4. NUMA
 *    A sheaf holds mostly local objects: remote ones are freed straight to their slab, refills prefer
 *    local slabs. On one node neither is ever asked: push_cpus is 0 only where there are several, which
 *    takes frees to cache_free_slow(), which asks. (And it is 0 with policy zero-on-free, see section 6.)
 *
 * 5. Any context (USLUB_NOLOCK)
 *    A sequence interrupted by a signal is aborted, so the handler finds the slot consistent and may use
 *    it; (c) is skipped, (d)-(f) use trylocks.
 *
 * 6. Policy zero-on-free
 *    Whoever makes an object free fills it with zeros, before anybody else can get it: the slow path of a
 *    free, to which all frees go then; a bulk free; and of a deferred one whoever disposes of it after the
 *    grace period, since readers may look until then. A link is cleared when the object leaves its slab. So
 *    allocations find zeros; USLUB_ZERO writes them all the same, since a program that writes to what it
 *    has freed must not be worse off than without the policy.
 */
#include <errno.h>
#include <string.h>
#include "cache/internal.h"

#define ROUNDS (2 * SEQ_TRIES)

/* ---- allocation ----------------------------------------------------------------------------------- */

static void *zeroed(const struct uslub_cache *c, void *object, unsigned flags)
{
	if (object && flags & USLUB_ZERO)
		memset(object, 0, c->class.object_size);
	return object;
}

/* The fast path found nothing, or there are flags, which it does not look at. */
static noinline void *alloc_rest(struct uslub_cache *c, unsigned flags)
{
	void *object = NULL;

	if (flags)
		object = seq_pop(&c->main_slots, &c->pop_cpus, 0);
	if (!object)
		object = cache_alloc_slow(c, flags);
	if (!object)
		plat_set_errno(ENOMEM);
	return zeroed(c, object, flags);
}

void *uslub_cache_alloc(struct uslub_cache *c, unsigned flags)
{
	void *object = seq_pop(&c->main_slots, &c->pop_cpus, flags << SEQ_GATE_SHIFT);

	return likely(object) ? object : alloc_rest(c, flags);
}

static void *alloc_from_slabs(struct uslub_cache *c, unsigned node, unsigned flags)
{
	void *object;

	count(counters(c), CTR_alloc_slowpath);
	object = nodes_alloc(c->nodes, node, node_flags(flags));
	if (!(flags & (USLUB_NOWAIT | USLUB_NOLOCK)))
		cache_tell(stepped, c);
	return object;
}

/* Main or spare: rungs (a) and (b) on the CPU's own slot, or a foreign one. */
static always_inline enum seq_result pop_or_flip(struct uslub_cache *c, unsigned cpu, void **object)
{
	struct percpu_slot *slot = main_slot(c, cpu);
	enum seq_result result;
	unsigned got;
	int jump;

	if (word_avail(plat_load(&slot->word)))
		return seq_pop_n(cpu, slot, 1, object, &got);
	result = seq_flip_pop(cpu, slot, object, &jump);
	if (result == SEQ_DONE)
		counters_add_at(counters(c), cpu, CTR_jump, (uint64_t)(int64_t)jump);
	return result;
}

/* Rungs (c) and (d): a sheaf with objects, for the CPU's empty spare if it has one. */
static struct uslub_sheaf *obtain_full(struct uslub_cache *c, unsigned cpu, unsigned flags)
{
	struct uslub_sheaf *spare = NULL, *full;
	struct barn *barn = local_barn(c);

	seq_take_other(cpu, main_slot(c, cpu), &spare);
	if (spare && spare->fill)
		return spare; /* somebody was faster */
	full = stash_get(c, cpu, flags);
	if (full) {
		if (spare)
			stash_put_emptied(c, cpu, spare, flags);
		return full;
	}
	full = barn_replace_empty(barn, spare, false);
	if (!full && !(flags & USLUB_NOWAIT) && rcu_feed_barn(c))
		full = barn_replace_empty(barn, spare, false);
	note_barn_get(c, barn, full);
	if (full)
		return full;
	if (!spare)
		spare = sheaf_get_empty(c, flags);
	if (!spare)
		return NULL;
	sheaf_refill(c, spare, c->capacity, flags);
	if (!(flags & USLUB_NOWAIT))
		cache_slow_step(c);
	if (spare->fill)
		return spare;
	sheaf_put_empty(c, barn, spare, 0);
	return NULL;
}

/* Rungs (c) to (f). */
static noinline void *alloc_below(struct uslub_cache *c, unsigned flags)
{
	uint64_t began = latency_begin(counters(c));
	struct uslub_sheaf *hand = NULL;
	enum seq_result result;
	void *object = NULL;
	unsigned cpu;

	for (unsigned round = 0; round < ROUNDS && c->capacity; round++) {
		cpu = plat_slot();
		result = pop_or_flip(c, cpu, &object);
		if (result == SEQ_DONE)
			break;
		object = NULL;
		if (result == SEQ_AGAIN || slot_closed(main_slot(c, cpu)))
			continue;
		if (flags & USLUB_NOLOCK)
			break;
		if (!hand)
			hand = obtain_full(c, cpu, flags);
		if (!hand)
			break;
		if (cache_swap_spare(c, cpu, hand))
			hand = NULL; /* and the next round flips to it */
	}
	if (hand)
		sheaf_put_any(c, hand);
	if (!object)
		object = alloc_from_slabs(c, plat_this_node(), flags);
	latency_end(counters(c), USLUB_LATENCY_alloc, began);
	return object;
}

void *cache_alloc_slow(struct uslub_cache *c, unsigned flags)
{
	unsigned cpu = plat_slot();
	void *object;

	if (likely(pop_or_flip(c, cpu, &object) == SEQ_DONE))
		return object;
	return alloc_below(c, flags);
}

bool cache_swap_spare(struct uslub_cache *c, unsigned cpu, struct uslub_sheaf *sheaf)
{
	struct percpu_slot *slot = main_slot(c, cpu);
	struct uslub_sheaf *spare;
	enum seq_result result;

	result = slot_give(c, cpu, slot, sheaf);
	if (result != SEQ_EMPTY)
		return result == SEQ_DONE;
	if (seq_take_other(cpu, slot, &spare) != SEQ_DONE)
		return false;
	result = slot_give(c, cpu, slot, sheaf);
	sheaf_put_any(c, spare);
	return result == SEQ_DONE;
}

void *uslub_cache_alloc_node(struct uslub_cache *c, unsigned flags, int node)
{
	uint64_t began;
	void *object;

	if (node < -1 || node >= (int)plat_nnodes()) {
		plat_set_errno(EINVAL);
		return NULL;
	}
	if (node == -1 || plat_nnodes() == 1)
		return uslub_cache_alloc(c, flags);
	if ((unsigned)node == plat_this_node()) {
		object = uslub_cache_alloc(c, flags & ~USLUB_ZERO);
		if (!object || object_node(c, object) == (unsigned)node)
			return zeroed(c, object, flags);
		if (flags & USLUB_NOLOCK)
			uslub_cache_free_nolock(c, object);
		else
			uslub_cache_free(c, object);
	}
	count(counters(c), CTR_alloc_node_mismatch);
	began = latency_begin(counters(c));
	object = alloc_from_slabs(c, (unsigned)node, flags);
	latency_end(counters(c), USLUB_LATENCY_alloc, began);
	if (!object)
		plat_set_errno(ENOMEM);
	return zeroed(c, object, flags);
}

/* ---- free ----------------------------------------------------------------------------------------- */

void cache_zero_freed(const struct uslub_cache *c, void *const *objects, size_t n)
{
	if (likely(!c->zero_on_free))
		return;
	for (size_t i = 0; i < n; i++) {
		slab_of(&c->class, objects[i]); /* it may be anything yet */
		memset(objects[i], 0, c->class.object_size);
	}
}

void uslub_cache_free(struct uslub_cache *c, void *object)
{
	if (unlikely(!object))
		return;
	if (likely(seq_push(&c->main_slots, &c->push_cpus, object) == SEQ_DONE))
		return;
	cache_free_slow(c, object, 0);
}

void uslub_cache_free_nolock(struct uslub_cache *c, void *object)
{
	if (unlikely(!object))
		return;
	if (likely(seq_push(&c->main_slots, &c->push_cpus, object) == SEQ_DONE))
		return;
	cache_free_slow(c, object, USLUB_NOLOCK);
}

/* Rung (f) for several objects; their order is changed. */
void cache_free_slabs(struct uslub_cache *c, void **objects, unsigned n, unsigned flags)
{
	nodes_flush(c->nodes, objects, n, node_flags(flags));
	counters_add(counters(c), CTR_free_slowpath, n);
	if (!(flags & USLUB_NOLOCK))
		cache_tell(stepped, c);
}

static always_inline enum seq_result push_or_flip(struct uslub_cache *c, unsigned cpu, void *object)
{
	struct percpu_slot *slot = main_slot(c, cpu);
	enum seq_result result;
	unsigned put;
	int jump = 0;

	if (word_room(plat_load(&slot->word)))
		result = seq_push_n(cpu, slot, 1, &object, &put);
	else
		result = seq_flip_push(cpu, slot, object, &jump);
	if (result == SEQ_DONE && jump)
		counters_add_at(counters(c), cpu, CTR_jump, (uint64_t)(int64_t)jump);
	if (unlikely(result == SEQ_TWICE))
		slab_freed_twice(&c->class, object);
	return result;
}

/* The full sheaf goes to the barn, or its objects to their slabs; an empty one comes out. */
static struct uslub_sheaf *replace_full(struct uslub_cache *c, struct uslub_sheaf *full)
{
	struct barn *barn = local_barn(c);
	struct uslub_sheaf *empty;
	enum barn_refusal why;

	empty = barn_replace_full(barn, full, false, &why);
	if (!empty && why == BARN_NO_EMPTY) {
		empty = sheaf_new(c, USLUB_NOWAIT);
		if (empty)
			barn_put_full(barn, full, true, false);
	}
	note_barn_put(c, barn, empty);
	if (empty)
		return empty;
	sheaf_flush(c, full, 0);
	cache_slow_step(c);
	return full;
}

/* A sheaf with room, for the CPU's full spare if it has one. */
static struct uslub_sheaf *obtain_room(struct uslub_cache *c, unsigned cpu)
{
	struct uslub_sheaf *spare = NULL;

	seq_take_other(cpu, main_slot(c, cpu), &spare);
	if (!spare)
		return sheaf_get_empty(c, USLUB_NOWAIT);
	return sheaf_room(spare) ? spare : replace_full(c, spare);
}

/* Rungs (c) to (f). */
static noinline void free_below(struct uslub_cache *c, void *object, unsigned flags)
{
	uint64_t began = latency_begin(counters(c));
	struct uslub_sheaf *hand = NULL;
	enum seq_result result;
	bool done = false;
	unsigned cpu;

	for (unsigned round = 0; round < ROUNDS && c->capacity; round++) {
		if (object_remote(c, object))
			break;
		cpu = plat_slot();
		result = push_or_flip(c, cpu, object);
		done = result == SEQ_DONE;
		if (done)
			break;
		if (result == SEQ_AGAIN || slot_closed(main_slot(c, cpu)))
			continue;
		if (flags & USLUB_NOLOCK)
			break;
		if (!hand)
			hand = obtain_room(c, cpu);
		if (!hand)
			break;
		if (cache_swap_spare(c, cpu, hand))
			hand = NULL;
	}
	if (hand)
		sheaf_put_any(c, hand);
	if (!done)
		cache_free_slabs(c, &object, 1, flags);
	latency_end(counters(c), USLUB_LATENCY_free, began);
}

void cache_free_slow(struct uslub_cache *c, void *object, unsigned flags)
{
	cache_zero_freed(c, &object, 1);
	if (unlikely(object_remote(c, object)) ||
	    unlikely(push_or_flip(c, plat_slot(), object) != SEQ_DONE))
		free_below(c, object, flags);
}

/* ---- bulk ----------------------------------------------------------------------------------------- */

static bool bulk_overflow(size_t n)
{
	return n > UINT32_MAX;
}

/* Up to n objects from the CPU's sheaves, its stash and full sheaves of the barn; never refills. */
static unsigned bulk_from_sheaves(struct uslub_cache *c, unsigned flags, unsigned n, void **objects)
{
	struct uslub_sheaf *full;
	enum seq_result result;
	unsigned got = 0, k, cpu;
	struct barn *barn;

	for (unsigned failures = 0; got < n && failures < ROUNDS;) {
		cpu = plat_slot();
		result = seq_pop_n(cpu, main_slot(c, cpu), n - got, objects + got, &k);
		if (result == SEQ_DONE) {
			got += k;
			continue;
		}
		if (result == SEQ_EMPTY)
			result = pop_or_flip(c, cpu, objects + got);
		if (result == SEQ_DONE) {
			got++;
			continue;
		}
		failures++;
		if (result == SEQ_AGAIN || slot_closed(main_slot(c, cpu)))
			continue;
		full = flags & USLUB_NOLOCK ? NULL : stash_get(c, cpu, flags);
		if (!full) {
			barn = local_barn(c);
			full = flags & USLUB_NOLOCK ? NULL : barn_replace_empty(barn, NULL, false);
			note_barn_get(c, barn, full);
		}
		if (!full)
			break;
		if (cache_swap_spare(c, cpu, full))
			failures = 0;
		else
			sheaf_put_any(c, full);
	}
	return got;
}

int uslub_cache_alloc_bulk(struct uslub_cache *c, unsigned flags, size_t n, void **objects)
{
	unsigned got = 0, more;

	if (bulk_overflow(n) || (n && !objects))
		return -EINVAL;
	if (c->capacity)
		got = bulk_from_sheaves(c, flags, (unsigned)n, objects);
	if (got < n) {
		more = nodes_refill(c->nodes, plat_this_node(), objects + got, (unsigned)n - got,
				    node_flags(flags));
		counters_add(counters(c), CTR_alloc_slowpath, more);
		got += more;
	}
	if (got < n) {
		if (flags & USLUB_NOLOCK)
			cache_free_slabs(c, objects, got, flags);
		else
			uslub_cache_free_bulk(c, got, objects);
		return -ENOMEM;
	}
	for (size_t i = 0; flags & USLUB_ZERO && i < n; i++)
		zeroed(c, objects[i], flags);
	return 0;
}

/* A sequence has found one of these where it would go, or next to itself. */
static void coldpath bulk_freed_twice(struct uslub_cache *c, unsigned n, void *const *objects)
{
	unsigned i = 1;

	while (i < n && objects[i] != objects[i - 1])
		i++;
	slab_freed_twice(&c->class, objects[i < n ? i : 0]);
}

/* As many as fit the CPU's sheaves and the barn; never allocates nor flushes. */
static unsigned bulk_to_sheaves(struct uslub_cache *c, unsigned n, void **objects)
{
	struct uslub_sheaf *spare, *empty;
	enum seq_result result;
	enum barn_refusal why;
	unsigned put = 0, k, cpu;
	struct barn *barn;

	for (unsigned failures = 0; put < n && failures < ROUNDS;) {
		cpu = plat_slot();
		result = seq_push_n(cpu, main_slot(c, cpu), n - put, objects + put, &k);
		if (result == SEQ_DONE) {
			put += k;
			continue;
		}
		if (unlikely(result == SEQ_TWICE))
			bulk_freed_twice(c, n - put, objects + put);
		if (result == SEQ_EMPTY)
			result = push_or_flip(c, cpu, objects[put]);
		if (result == SEQ_DONE) {
			put++;
			continue;
		}
		failures++;
		if (result == SEQ_AGAIN || slot_closed(main_slot(c, cpu)))
			continue;
		seq_take_other(cpu, main_slot(c, cpu), &spare);
		barn = local_barn(c);
		if (!spare)
			empty = barn_get_empty(barn, false);
		else if (sheaf_room(spare))
			empty = spare;
		else
			empty = barn_replace_full(barn, spare, false, &why);
		if (spare && spare != empty)
			note_barn_put(c, barn, empty);
		if (!empty) {
			if (spare && slot_give(c, cpu, main_slot(c, cpu), spare) != SEQ_DONE)
				sheaf_put_any(c, spare);
			break;
		}
		if (cache_swap_spare(c, cpu, empty))
			failures = 0;
		else
			sheaf_put_any(c, empty);
	}
	return put;
}

/* Moves remote objects behind the local ones; returns how many are local. */
static unsigned local_first(struct uslub_cache *c, unsigned n, void **objects)
{
	unsigned local = 0;
	void *object;

	if (plat_nnodes() == 1)
		return n;
	for (unsigned i = 0; i < n; i++) {
		object = objects[i];
		if (object_remote(c, object))
			continue;
		objects[i] = objects[local];
		objects[local++] = object;
	}
	return local;
}

void uslub_cache_free_bulk(struct uslub_cache *c, size_t n, void **objects)
{
	unsigned local, put = 0, chunk;

	cache_zero_freed(c, objects, n);
	/* A count of the kernel's is an int as well; more is done in pieces. */
	for (; n; n -= chunk, objects += chunk) {
		chunk = (unsigned)min(n, (size_t)1 << 30);
		local = local_first(c, chunk, objects);
		put = c->capacity ? bulk_to_sheaves(c, local, objects) : 0;
		if (put < chunk)
			cache_free_slabs(c, objects + put, chunk - put, 0);
	}
}
