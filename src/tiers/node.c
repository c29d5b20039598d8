/* SPDX-License-Identifier: MIT */
/*
 * The node tier: which slabs have free objects, and how objects get in and out of them.
 *
 * 1. Structure
 *    A slab with free objects is on its node's partial list (LISTED) or parked (PARKED, see park.c); a full
 *    one is nowhere. There is no list of full slabs: the first free into one makes it known again, which is
 *    the traffic on list_lock that the upper tiers exist to avoid, and parking as well.
 *
 * 2. Allocation
 *    takes slabs from the head of the list, under list_lock. A refill takes the whole chain of each slab
 *    by one exchange, which leaves the slab full and unlisted, and copies the pointers after unlocking.
 *    What the last slab gives too much goes back in a second hold, to the *tail* of the list: at the
 *    head the next refill would find the same thin slab again. If a freer made the slab partial in
 *    between, it has been listed by that freer, and the surplus is pushed like a free. Either way no
 *    free_add_partial is counted, since nobody freed.
 *    Why the surplus exchange must happen under list_lock: outside, another freer could list the slab
 *    and a second refill take it whole, which restores the same word, "full and unlisted"; the first
 *    would then put a slab on the list that the second one is about to put there as well.
 *
 *    A refill first takes parked slabs of its CPU's shard, which needs no lock, then the list's, then other
 *    shards', then a new slab. From parked slabs it takes what it wants and no more, since it holds them: a
 *    rest stays where it is and the slab goes back to the young ones, for the same reason as to the tail.
 *
 * 3. Free
 *    pushes a chain of objects of one slab. The exchange decides by the word before it:
 *
 *        partial -> partial   no lock, nothing else to do
 *        full    -> partial   this freer makes the slab known: parks it, without list_lock, or with it puts
 *                             it on the list's tail
 *        partial -> empty     LISTED: under list_lock; given up if the list has min_partial slabs, else kept
 *                             PARKED: no lock; looked at when it is taken off its stack
 *        full    -> empty     under list_lock; given up likewise, else put on the list
 *
 *    list_lock is taken *before* the exchange where that changes `where` from or to LISTED.
 *
 * 4. Parked slabs
 *    become listed when a shard is full, when an allocation that takes single objects finds the list empty,
 *    and to be shrunk or walked. Empty ones beyond min_partial, listed slabs counting along, are given up by
 *    the free that emptied the last of them: it takes shards in hand for that and needs no lock. A slab
 *    always parks on its own node; other nodes take from there what is beyond min_partial.
 *    Fork needs no care: a stack is one word, consistent at any moment. What another thread has in its hands
 *    stays PARKED in the child for ever, as what it has in its sheaves stays in use.
 *
 * 5. Any context
 *    With NOLOCK a free that needs list_lock tries it; if it is taken, the objects are pushed onto the
 *    node's deferred stack, linked by pointers through themselves. The stack is only ever taken whole,
 *    so that it has no ABA. The next caller who may wait frees them.
 *
 * 6. Counting
 *    Free objects are counted by where their slab lies, as per-CPU deltas taken from the exchanges that were
 *    won. A free cannot know if its slab will be listed a moment later, so an exchange that changes `where`
 *    moves the slab's free objects along. What is free in UNLISTED slabs is not counted: full ones have
 *    nothing, and one that leaves is forgotten whole. Then
 *        objects         = what all slabs could hold - free in LISTED and PARKED ones
 *        objects_partial = what LISTED slabs could hold - free in LISTED ones
 *    without a lock and without looking at a slab. The policies to count in one shared word, and to walk the
 *    list when asked, are there to be compared with.
 *
 * 7. Discipline
 *    Pages are returned after list_lock is dropped. list_lock is not held over system calls.
 */
#include "tiers/node.h"

void node_init(struct node *n, const struct node_setup *s)
{
	*n = (struct node){
		.class = s->class,
		.release = s->release,
		.min_partial = s->min_partial,
		.id = (uint16_t)s->id,
		.counting = s->counting,
	};
	if (s->shards)
		park_init(&n->park, s->shards, s->nshards, s->park_limit);
	counted_lock_init(&n->list_lock, RANK_LIST);
	list_init(&n->partial);
}

static const struct counters *counters_of(const struct node *n)
{
	return &n->class->counters;
}

static bool parking(const struct node *n)
{
	return n->park.shards;
}

static struct park_shard *own_shard(const struct node *n)
{
	return park_shard(&n->park, plat_slot());
}

/* ---- counting free objects ------------------------------------------------------------------------ */

static void count_free(struct node *n, enum slab_where where, int64_t change)
{
	enum node_counter which = where == SLAB_PARKED ? NODE_FREE_PARKED : NODE_FREE_LISTED;

	if (where == SLAB_UNLISTED || !change || n->counting == NODE_COUNT_SCAN)
		return;
	if (n->counting == NODE_COUNT_PERCPU)
		counters_add(counters_of(n), counter_of_node(n->id, which), (uint64_t)change);
	else
		plat_fetch_add(&n->free[which], (uint64_t)change);
}

/* The exchange from `before` to `after` was won, on a slab of so many objects, which may be gone by now. */
static void count_moved(struct node *n, unsigned objects, uint64_t before, uint64_t after)
{
	int64_t old = objects - state_inuse(before), new = objects - state_inuse(after);

	if (state_where(before) == state_where(after)) {
		count_free(n, state_where(before), new - old);
		return;
	}
	count_free(n, state_where(before), -old);
	count_free(n, state_where(after), new);
}

/* ---- the partial list; under list_lock ------------------------------------------------------------ */

static void list_slab(struct node *n, struct slab *slab, bool tail)
{
	if (tail)
		list_add_tail(&n->partial, &slab->link);
	else
		list_add(&n->partial, &slab->link);
	plat_store(&n->nr_partial, n->nr_partial + 1);
	plat_store(&n->partial_objects, n->partial_objects + slab->objects);
}

static void unlist_slab(struct node *n, struct slab *slab)
{
	list_del(&slab->link);
	plat_store(&n->nr_partial, n->nr_partial - 1);
	plat_store(&n->partial_objects, n->partial_objects - slab->objects);
}

static bool lock_list(struct node *n, enum lock_side side, unsigned flags)
{
	if (flags & NODE_NOLOCK)
		return counted_trylock(&n->list_lock, side);
	counted_lock(&n->list_lock, side);
	return true;
}

/* The slab leaves the node. */
static void forget_slab(struct node *n, struct slab *slab)
{
	plat_fetch_sub(&n->nr_slabs, 1);
	plat_fetch_sub(&n->total_objects, slab->objects);
	n->release(n, slab);
}

/* ---- parked slabs to the list; under list_lock ---------------------------------------------------- */

static void forget_all(struct node *n, struct slab *slabs)
{
	struct slab *next;

	for (; slabs; slabs = next) {
		next = slabs->next;
		forget_slab(n, slabs);
	}
}

/*
 * A slab that the caller holds, from PARKED to the list; or, where the caller has a place for them and there
 * are enough empty ones, to that place. True: it was listed.
 */
static bool list_held(struct node *n, struct slab *slab, struct slab **discarded)
{
	uint64_t before = plat_load_acquire(&slab->state), after;
	bool discard, empty;

	do {
		empty = !state_inuse(before);
		discard = discarded && empty && n->nr_partial >= n->min_partial;
		after = state_make(before, state_head(before), state_inuse(before),
				   discard ? SLAB_UNLISTED : SLAB_LISTED);
		plat_point(POINT_LISTING);
	} while (!plat_cas(&slab->state, &before, after));
	count_moved(n, slab->objects, before, after);
	if (empty)
		plat_fetch_sub(&n->parked_empty, 1);
	if (discard) {
		slab->next = *discarded;
		*discarded = slab;
		count(counters_of(n), CTR_free_slab);
	} else {
		list_slab(n, slab, true);
	}
	return !discard;
}

/* All that is parked in a shard. Returns how many were listed. */
static unsigned list_shard(struct node *n, struct park_shard *shard, struct slab **discarded)
{
	unsigned listed = 0, gone = 0;
	struct slab *slab, *next;

	while ((slab = park_take(shard)))
		for (; slab; slab = next) {
			next = slab->next;
			probe(unpark, n->class->name, n->id, slab->base);
			listed += list_held(n, slab, discarded);
			gone++;
		}
	if (!gone)
		return 0;
	park_gone(shard, gone);
	counters_add(counters_of(n), CTR_unpark_list, listed);
	counters_add(counters_of(n), CTR_unpark_discard, gone - listed);
	return listed;
}

static void list_all_parked(struct node *n)
{
	for (unsigned i = 0; i < n->park.nshards; i++)
		list_shard(n, &n->park.shards[i], NULL);
}

/* The first shard that has something, the CPU's own before the others. */
static void list_some_parked(struct node *n)
{
	unsigned own = plat_slot();

	for (unsigned i = 0; i < n->park.nshards; i++)
		if (list_shard(n, park_shard(&n->park, own + i), NULL))
			return;
}

static bool any_parked(const struct node *n)
{
	for (unsigned i = 0; i < n->park.nshards; i++)
		if (!park_empty(&n->park.shards[i]))
			return true;
	return false;
}

/* ---- free ----------------------------------------------------------------------------------------- */

/* What a free does to a slab, by the state before it. */
enum free_outcome {
	FREE_QUIET,
	FREE_PUBLISH,
	FREE_PARK,
	FREE_DISCARD_LISTED,
	FREE_DISCARD_FULL,
	FREE_KEEP
};

static bool needs_list(const struct node *n, uint64_t before, bool empties)
{
	if (!state_head(before))
		return empties || !parking(n);
	return empties && state_where(before) == SLAB_LISTED;
}

static enum free_outcome free_outcome(const struct node *n, uint64_t before, bool empties,
				      bool locked)
{
	bool surplus = plat_load(&n->nr_partial) >= n->min_partial;

	if (!state_head(before)) {
		if (!locked)
			return FREE_PARK;
		return empties && surplus ? FREE_DISCARD_FULL : FREE_PUBLISH;
	}
	if (!empties)
		return FREE_QUIET;
	return surplus && state_where(before) == SLAB_LISTED ? FREE_DISCARD_LISTED : FREE_KEEP;
}

static enum slab_where where_after(enum free_outcome outcome, uint64_t before)
{
	switch (outcome) {
	case FREE_PUBLISH:
		return SLAB_LISTED;
	case FREE_PARK:
		return SLAB_PARKED;
	case FREE_DISCARD_LISTED:
	case FREE_DISCARD_FULL:
		return SLAB_UNLISTED;
	default:
		return state_where(before);
	}
}

/* The shard is full: it goes to the list in one hold, and this slab with it. */
static bool list_with_shard(struct node *n, struct slab *slab, struct park_shard *shard,
			    unsigned flags)
{
	struct slab *discarded = NULL, **place = flags & NODE_NOLOCK ? NULL : &discarded;

	if (!lock_list(n, LOCK_FREE, flags))
		return false;
	if (list_held(n, slab, place))
		count(counters_of(n), CTR_free_add_partial);
	list_shard(n, shard, place);
	counted_unlock(&n->list_lock);
	count(counters_of(n), CTR_park_fail);
	forget_all(n, discarded);
	return true;
}

static void park(struct node *n, struct slab *slab, unsigned flags)
{
	struct park_shard *shard = own_shard(n);
	const void *base = slab->base; /* another's, once it is parked */

	plat_point(POINT_FREED);
	if (!park_push(&n->park, shard, slab, false)) {
		if (list_with_shard(n, slab, shard, flags))
			return;
		park_push(&n->park, shard, slab, true);
	}
	count(counters_of(n), CTR_park);
	probe(park, n->class->name, n->id, base);
}

/* Is an empty parked slab one too many? Listed slabs count for as much as parked empty ones. */
static bool parked_surplus(const struct node *n)
{
	return plat_load(&n->parked_empty) + (int64_t)plat_load(&n->nr_partial) >
	       (int64_t)n->min_partial;
}

/*
 * Gives up empty ones of the slabs that the caller took off a shard, until few enough are left. Nobody has an
 * object of them, so nobody else will touch them. Returns the others.
 */
static struct slab *discard_held(struct node *n, struct slab *held, struct slab **discarded)
{
	struct slab *others = NULL, **end = &others, *next;
	uint64_t state;

	for (; held; held = next) {
		next = held->next;
		state = plat_load_acquire(&held->state);
		if (state_inuse(state) || !parked_surplus(n)) {
			*end = held;
			end = &held->next;
			continue;
		}
		plat_fetch_sub(&n->parked_empty, 1);
		plat_store(&held->state, state_make(state, state_head(state), 0, SLAB_UNLISTED));
		count_free(n, SLAB_PARKED, -(int64_t)held->objects);
		held->next = *discarded;
		*discarded = held;
	}
	*end = NULL;
	return others;
}

/* First the old ones, and while these are in our hands the young: they would hide behind the old. */
static void discard_parked(struct node *n, struct park_shard *shard)
{
	struct slab *discarded = NULL, *old, *young = NULL;
	unsigned gone = 0;

	old = discard_held(n, park_take(shard), &discarded);
	if (parked_surplus(n))
		young = discard_held(n, park_take(shard), &discarded);
	if (young)
		park_put_back(shard, young);
	if (old)
		park_put_back(shard, old);
	for (struct slab *slab = discarded; slab; slab = slab->next) {
		probe(unpark, n->class->name, n->id, slab->base);
		gone++;
	}
	if (!gone)
		return;
	park_gone(shard, gone);
	counters_add(counters_of(n), CTR_unpark_discard, gone);
	counters_add(counters_of(n), CTR_free_slab, gone);
	forget_all(n, discarded);
}

/* A parked slab has become empty. Too many of them: some are given up. */
static void note_parked_empty(struct node *n, unsigned flags)
{
	unsigned own = plat_slot();

	plat_point(POINT_EMPTIED);
	plat_fetch_add(&n->parked_empty, 1);
	if (flags & NODE_NOLOCK)
		return;
	for (unsigned i = 0; i < n->park.nshards && parked_surplus(n); i++)
		discard_parked(n, park_shard(&n->park, own + i));
}

static void count_transition(const struct node *n, bool was_full, bool empties)
{
	static const enum counter which[2][2] = {
		{ CTR_partial_to_partial, CTR_partial_to_empty },
		{ CTR_full_to_partial, CTR_full_to_empty },
	};

	count(counters_of(n), which[was_full][empties]);
}

static void free_act(struct node *n, struct slab *slab, enum free_outcome outcome)
{
	if (outcome == FREE_PUBLISH) {
		list_slab(n, slab, true);
		count(counters_of(n), CTR_free_add_partial);
	} else if (outcome == FREE_DISCARD_LISTED) {
		unlist_slab(n, slab);
		count(counters_of(n), CTR_free_remove_partial);
	}
}

/*
 * Pushes a chain of cnt objects; `last` is the one to be linked to what was free before. False: needs
 * list_lock and may not wait for it; nothing was done.
 */
static bool free_chain(struct node *n, struct slab *slab, unsigned head, void *last, unsigned cnt,
		       unsigned flags)
{
	uint64_t before = plat_load_acquire(&slab->state), after;
	unsigned objects = slab->objects, end = slab_index(slab, last) + 1;
	enum free_outcome outcome;
	bool locked = false, empties;

	for (;;) {
		if (unlikely(state_inuse(before) < cnt))
			slab_freed_twice(n->class, last);
		if (unlikely(state_head(before) == head || state_head(before) == end))
			slab_freed_twice(n->class, slab_object(slab, state_head(before) - 1));
		empties = state_inuse(before) == cnt;
		if (!locked && needs_list(n, before, empties)) {
			if (!lock_list(n, LOCK_FREE, flags))
				return false;
			locked = true;
			before = plat_load_acquire(&slab->state);
			continue;
		}
		outcome = free_outcome(n, before, empties, locked);
		/* An any-context free gives up no slab: the supply would have to wait. */
		if (flags & NODE_NOLOCK && outcome >= FREE_DISCARD_LISTED)
			outcome = state_head(before) ? FREE_KEEP : FREE_PUBLISH;
		slab_set_end(slab, last, state_head(before));
		after = state_make(before, head, state_inuse(before) - cnt,
				   where_after(outcome, before));
		if (plat_cas(&slab->state, &before, after))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	if (locked) {
		free_act(n, slab, outcome);
		counted_unlock(&n->list_lock);
	}
	count_moved(n, objects, before, after);
	count_transition(n, !state_head(before), empties);
	if (outcome == FREE_PARK) {
		park(n, slab, flags);
	} else if (outcome == FREE_DISCARD_LISTED || outcome == FREE_DISCARD_FULL) {
		count(counters_of(n), CTR_free_slab);
		forget_slab(n, slab);
	} else if (empties && state_where(before) == SLAB_PARKED) {
		note_parked_empty(n, flags);
	}
	return true;
}

/* Leaves objects to whoever may wait next. */
static void defer(struct node *n, void *const *objects, unsigned cnt)
{
	void **link, *first;

	counters_add(counters_of(n), CTR_deferred_free, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		link = (void **)((char *)objects[i] + n->class->link);
		first = plat_load(&n->deferred);
		do
			*link = first;
		while (!plat_cas(&n->deferred, &first, objects[i]));
	}
}

#define GATHER_MISSES 3

/*
 * From the array's end: the last object decides the slab; further objects of it are gathered next to it,
 * and chained, until three others in a row were seen.
 */
void nodes_flush(struct node *nodes, void **objects, unsigned n, unsigned flags)
{
	const struct slab_class *class = nodes[0].class;
	unsigned first, misses, head;
	struct slab *slab;
	void *object;

	while (n) {
		first = n - 1;
		slab = slab_of(class, objects[first]);
		head = slab_chain(slab, objects[first], 0);
		misses = 0;
		for (unsigned i = first; i-- && misses < GATHER_MISSES;) {
			object = objects[i];
			if (!slab_holds(slab, object)) {
				misses++;
				continue;
			}
			head = slab_chain(slab, object, head);
			objects[i] = objects[--first];
			objects[first] = object;
			misses = 0;
		}
		if (!free_chain(&nodes[slab->node], slab, head, objects[n - 1], n - first, flags))
			defer(&nodes[slab->node], objects + first, n - first);
		n = first;
	}
}

void nodes_deferred(struct node *nodes)
{
	void *object, *next, **link;
	struct node *n;

	for (unsigned i = 0; i < plat_nnodes(); i++) {
		n = &nodes[i];
		if (likely(!plat_load(&n->deferred)))
			continue;
		for (object = plat_exchange(&n->deferred, NULL); object; object = next) {
			link = (void **)((char *)object + n->class->link);
			next = *link;
			*link = NULL; /* a slab's link is shorter */
			nodes_flush(nodes, &object, 1, 0);
		}
	}
}

/* ---- allocation ----------------------------------------------------------------------------------- */

/* A chain in the hands of a refill. Not in the descriptor: the slab may be listed and taken again. */
struct taken {
	struct slab *slab;
	unsigned head;
	unsigned count;
};

/* Under list_lock: the whole chain of a listed slab, which becomes full and unlisted. */
static struct taken take_chain(struct node *n, struct slab *slab)
{
	uint64_t before = plat_load_acquire(&slab->state);

	while (!plat_cas(&slab->state, &before,
			 state_make(before, 0, slab->objects, SLAB_UNLISTED)))
		count(counters_of(n), CTR_cmpxchg_double_fail);
	unlist_slab(n, slab);
	return (struct taken){ slab, state_head(before), slab->objects - state_inuse(before) };
}

/*
 * Puts back the rest of a taken chain; see section 2. Where a freer has made the slab known meanwhile, it
 * stays where that put it.
 */
static void put_surplus(struct node *n, struct slab *slab, unsigned head, unsigned cnt)
{
	unsigned objects = slab->objects;
	uint64_t before, after;
	enum slab_where where;
	void *last = NULL;

	plat_point(POINT_SURPLUS);
	counted_lock(&n->list_lock, LOCK_ALLOC);
	before = plat_load_acquire(&slab->state);
	for (;;) {
		if (state_head(before) && !last)
			for (unsigned rest = head; rest;)
				rest = slab_walk(slab, rest, &last, 1);
		if (last)
			slab_set_end(slab, last, state_head(before));
		where = state_head(before) ? state_where(before) : SLAB_LISTED;
		after = state_make(before, head, state_inuse(before) - cnt, where);
		if (plat_cas(&slab->state, &before, after))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	if (!state_head(before))
		list_slab(n, slab, true);
	counted_unlock(&n->list_lock);
	count_moved(n, objects, before, after);
}

#define TAKE_SLABS 32 /* in one hold of list_lock */

static unsigned refill_from_list(struct node *n, void **objects, unsigned want)
{
	struct taken taken[TAKE_SLABS], *t;
	unsigned nr = 0, got = 0, take, head;
	struct slab *slab;

	counted_lock(&n->list_lock, LOCK_ALLOC);
	while (got < want && nr < TAKE_SLABS && !list_empty(&n->partial)) {
		slab = list_entry(n->partial.next, struct slab, link);
		taken[nr] = take_chain(n, slab);
		got += taken[nr++].count;
	}
	counted_unlock(&n->list_lock);
	count_free(n, SLAB_LISTED, -(int64_t)got);

	/* Only the last can have too many. */
	got = 0;
	for (t = taken; t < taken + nr; t++) {
		take = min(t->count, want - got);
		head = slab_walk(t->slab, t->head, objects + got, take);
		slab_taken(t->slab, objects + got, take);
		got += take;
		if (head)
			put_surplus(n, t->slab, head, t->count - take);
	}
	return got;
}

/*
 * Up to `want` objects of a slab that the caller holds, by being parked or under list_lock. Freers push in
 * front; only the holder takes, so what he saw of the chain cannot be issued to anyone else. True: the slab
 * has more.
 */
static bool take_some(struct node *n, struct slab *slab, void **objects, unsigned *want)
{
	uint64_t before = plat_load_acquire(&slab->state), after;
	unsigned take, head;

	for (;;) {
		take = min(slab->objects - state_inuse(before), *want);
		head = slab_walk(slab, state_head(before), objects, take);
		after = state_make(before, head, state_inuse(before) + take,
				   head ? state_where(before) : SLAB_UNLISTED);
		plat_point(POINT_WALKED);
		if (plat_cas(&slab->state, &before, after))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	slab_taken(slab, objects, take);
	count_moved(n, slab->objects, before, after);
	if (state_where(before) == SLAB_PARKED && !state_inuse(before))
		plat_fetch_sub(&n->parked_empty, 1);
	*want = take;
	return head;
}

/* Cuts off the front of a list of parked slabs what has at least `want` free objects; returns the rest. */
static struct slab *enough_of(struct slab *parked, unsigned want)
{
	unsigned have = 0;
	struct slab *rest;

	for (; parked; parked = rest) {
		have += parked->objects - state_inuse(plat_load(&parked->state));
		rest = parked->next;
		if (have >= want) {
			parked->next = NULL;
			return rest;
		}
	}
	return NULL;
}

static unsigned refill_from_shard(struct node *n, struct park_shard *shard, void **objects,
				  unsigned want)
{
	struct slab *slab = park_take(shard), *rest, *next;
	unsigned got = 0, gone = 0, take;

	if (!slab)
		return 0;
	rest = enough_of(slab, want);
	if (rest)
		park_put_back(shard, rest);
	for (; slab && got < want; slab = next) {
		next = slab->next;
		take = want - got;
		if (take_some(n, slab, objects + got, &take)) {
			park_again(shard, slab);
		} else {
			probe(unpark, n->class->name, n->id, slab->base);
			gone++;
		}
		got += take;
	}
	/* Freed into meanwhile, the first ones were enough. */
	if (slab)
		park_put_back(shard, slab);
	if (gone) {
		park_gone(shard, gone);
		counters_add(counters_of(n), CTR_unpark_refill, gone);
	}
	return got;
}

static unsigned refill_from_other_shards(struct node *n, void **objects, unsigned want)
{
	unsigned own = plat_slot(), got = 0;
	struct park_shard *shard;

	for (unsigned i = 1; i < n->park.nshards && got < want; i++) {
		shard = park_shard(&n->park, own + i);
		if (!park_empty(shard))
			got += refill_from_shard(n, shard, objects + got, want - got);
	}
	return got;
}

/* Under list_lock: one object of the first slab. */
static void *take_one(struct node *n)
{
	unsigned one = 1;
	struct slab *slab;
	void *object;

	if (list_empty(&n->partial))
		return NULL;
	slab = list_entry(n->partial.next, struct slab, link);
	if (!take_some(n, slab, &object, &one))
		unlist_slab(n, slab);
	return object;
}

/*
 * Objects of a fresh slab: the first `want` of its order are the caller's, the rest is listed. With NOLOCK the list is
 * locked first, since the slab could not be got rid of if it were busy afterwards.
 */
static unsigned refill_from_new(struct node *nodes, unsigned node, void **objects, unsigned want,
				unsigned flags)
{
	struct node *n = &nodes[node];
	unsigned take, total, head;
	struct slab *slab;

	if (flags & NODE_NOLOCK && !counted_trylock(&n->list_lock, LOCK_ALLOC))
		return 0;
	slab = slab_new(n->class, node, flags);
	if (!slab) {
		if (flags & NODE_NOLOCK)
			counted_unlock(&n->list_lock);
		return 0;
	}
	take = min(want, (unsigned)slab->objects);
	if (slab->node != node && !(flags & NODE_NOLOCK))
		n = &nodes[slab->node]; /* the supply helped out with another node's memory */
	total = slab->objects;
	/* Before anybody can find it: the child of a fork in between had one slab more than it counts. */
	plat_fetch_add(&n->nr_slabs, 1);
	plat_fetch_add(&n->total_objects, total);
	head = slab_deal(slab, objects, take);
	if (head) {
		plat_store_release(&slab->state, state_make(slab->state, head, take, SLAB_LISTED));
		if (!(flags & NODE_NOLOCK))
			counted_lock(&n->list_lock, LOCK_ALLOC);
		list_slab(n, slab, false);
	}
	if (head || flags & NODE_NOLOCK)
		counted_unlock(&n->list_lock);
	count_free(n, SLAB_LISTED, total - take);
	return take;
}

/* Of what another node has parked, all but the min_partial slabs that it shall keep. */
static unsigned refill_from_parked_there(struct node *n, void **objects, unsigned want)
{
	unsigned own = plat_slot(), got = 0;

	for (unsigned i = 0; i < n->park.nshards && got < want; i++)
		if (park_count(&n->park) > n->min_partial)
			got += refill_from_shard(n, park_shard(&n->park, own + i), objects + got,
						 want - got);
	return got;
}

/* From another node's list, if it is rich and not busy. */
static unsigned refill_from_others(struct node *nodes, unsigned local, void **objects,
				   unsigned want)
{
	unsigned got = 0;
	struct node *n;

	for (unsigned i = 1; i < plat_nnodes() && got < want; i++) {
		n = &nodes[(local + i) % plat_nnodes()];
		got += refill_from_parked_there(n, objects + got, want - got);
		if (got == want || plat_load(&n->nr_partial) <= n->min_partial ||
		    !counted_trylock(&n->list_lock, LOCK_ALLOC))
			continue;
		while (got < want && n->nr_partial > n->min_partial)
			objects[got++] = take_one(n);
		counted_unlock(&n->list_lock);
	}
	return got;
}

static void *alloc_from_list(struct node *n, unsigned flags)
{
	void *object;

	if ((!plat_load(&n->nr_partial) && !any_parked(n)) || !lock_list(n, LOCK_ALLOC, flags))
		return NULL;
	if (list_empty(&n->partial))
		list_some_parked(n);
	object = take_one(n);
	counted_unlock(&n->list_lock);
	return object;
}

unsigned nodes_refill(struct node *nodes, unsigned local, void **objects, unsigned want,
		      unsigned flags)
{
	struct node *n = &nodes[local];
	unsigned got = 0, more;

	if (flags & NODE_NOLOCK) {
		while (got < want && (objects[got] = nodes_alloc(nodes, local, flags)))
			got++;
		return got;
	}
	nodes_deferred(nodes);
	if (parking(n) && !park_empty(own_shard(n)))
		got = refill_from_shard(n, own_shard(n), objects, want);
	while (got < want && plat_load(&n->nr_partial)) {
		more = refill_from_list(n, objects + got, want - got);
		if (!more)
			break;
		got += more;
	}
	if (got < want)
		got += refill_from_other_shards(n, objects + got, want - got);
	if (got < want && !(flags & NODE_THISNODE))
		got += refill_from_others(nodes, local, objects + got, want - got);
	while (got < want) {
		more = refill_from_new(nodes, local, objects + got, want - got, flags);
		if (!more)
			break;
		got += more;
	}
	return got;
}

/* The node itself, then others' lists, then anybody's pages. */
void *nodes_alloc(struct node *nodes, unsigned node, unsigned flags)
{
	void *object;

	if (!(flags & NODE_NOLOCK))
		nodes_deferred(nodes);
	object = alloc_from_list(&nodes[node], flags);
	if (object)
		return object;
	if (refill_from_new(nodes, node, &object, 1, flags | NODE_THISNODE))
		return object;
	if (flags & NODE_THISNODE)
		return NULL;
	for (unsigned i = 1; i < plat_nnodes(); i++) {
		object = alloc_from_list(&nodes[(node + i) % plat_nnodes()], flags);
		if (object)
			return object;
	}
	for (unsigned i = 1; i < plat_nnodes(); i++)
		if (refill_from_new(nodes, (node + i) % plat_nnodes(), &object, 1,
				    flags | NODE_THISNODE))
			return object;
	return NULL;
}

/* ---- shrinking and counting ----------------------------------------------------------------------- */

#define SHRINK_SORTED 32 /* slabs with so many free objects are sorted */

uint64_t node_shrink(struct node *n)
{
	struct list sorted[SHRINK_SORTED], empty;
	struct slab *slab;
	unsigned free;

	list_init(&empty);
	for (unsigned i = 0; i < SHRINK_SORTED; i++)
		list_init(&sorted[i]);

	counted_lock(&n->list_lock, LOCK_OTHER);
	list_all_parked(n);
	list_for_each_entry_safe(slab, &n->partial, link) {
		/* A listed slab without used objects has nobody left to free into it. */
		free = slab->objects - state_inuse(plat_load_acquire(&slab->state));
		if (free == slab->objects) {
			unlist_slab(n, slab);
			list_add(&empty, &slab->link);
		} else if (free <= SHRINK_SORTED) {
			list_del(&slab->link);
			list_add(&sorted[free - 1], &slab->link);
		}
	}
	for (unsigned i = SHRINK_SORTED; i--;)
		list_for_each_entry_safe(slab, &sorted[i], link) {
			list_del(&slab->link);
			list_add(&n->partial, &slab->link);
		}
	counted_unlock(&n->list_lock);

	list_for_each_entry_safe(slab, &empty, link) {
		count_free(n, SLAB_LISTED, -(int64_t)slab->objects);
		forget_slab(n, slab);
	}
	return plat_load(&n->nr_slabs);
}

/* Free objects by where their slabs lie. */
static uint64_t free_objects(const struct node *n, enum node_counter which)
{
	if (n->counting == NODE_COUNT_ATOMIC)
		return plat_load(&n->free[which]);
	return counters_sum(counters_of(n), counter_of_node(n->id, which));
}

static uint64_t scan_list(struct node *n)
{
	struct slab *slab;
	uint64_t free = 0;

	counted_lock(&n->list_lock, LOCK_OTHER);
	list_all_parked(n);
	list_for_each_entry(slab, &n->partial, link)
		free += slab->objects - state_inuse(plat_load(&slab->state));
	counted_unlock(&n->list_lock);
	return free;
}

/* How many of `total` are left without the free ones, which were not counted at the same instant. */
static uint64_t less_free(uint64_t total, uint64_t free)
{
	return (int64_t)free < 0 ? total : free < total ? total - free : 0;
}

void node_gauges(struct node *n, struct node_gauges *g)
{
	uint64_t listed, parked = 0;

	if (n->counting == NODE_COUNT_SCAN) {
		listed = scan_list(n);
	} else {
		listed = free_objects(n, NODE_FREE_LISTED);
		parked = free_objects(n, NODE_FREE_PARKED);
	}
	g->slabs = plat_load(&n->nr_slabs);
	g->total_objects = plat_load(&n->total_objects);
	g->objects = less_free(g->total_objects, listed + parked);
	g->partial = plat_load(&n->nr_partial);
	g->objects_partial = less_free(plat_load(&n->partial_objects), listed);
}
