/* SPDX-License-Identifier: MIT */
/*
 * The node tier: which slabs have free objects, and how objects get in and out of them.
 *
 * 1. Structure
 *    A slab with free objects is on its node's partial list (LISTED); a full one is on no list. There is
 *    no list of full slabs: the first free into one puts it back, which is the traffic on list_lock that
 *    the upper tiers exist to avoid.
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
 * 3. Free
 *    pushes a chain of objects of one slab. The exchange decides by the word before it:
 *
 *        partial -> partial   no lock, nothing else to do
 *        full    -> partial   under list_lock; this freer publishes the slab: list tail
 *        partial -> empty     under list_lock; given up if the list has min_partial slabs, else it stays
 *        full    -> empty     under list_lock; given up likewise, else published
 *
 *    list_lock is taken *before* the exchange in the last three, because the exchange changes `where`.
 *
 * 4. Any context
 *    With NOLOCK a free that needs list_lock tries it; if it is taken, the objects are pushed onto the
 *    node's deferred stack, linked by pointers through themselves. The stack is only ever taken whole,
 *    so that it has no ABA. The next caller who may wait frees them.
 *
 * 5. Discipline
 *    Pages are returned after list_lock is dropped. list_lock is not held over system calls.
 */
#include "tiers/node.h"

void node_init(struct node *n, const struct slab_class *class, unsigned min_partial,
	       void (*release)(struct node *, struct slab *))
{
	*n = (struct node){ .class = class, .min_partial = min_partial, .release = release };
	plat_lock_init(&n->list_lock, RANK_LIST);
	list_init(&n->partial);
}

static const struct counters *counters_of(const struct node *n)
{
	return &n->class->counters;
}

/* ---- the partial list; under list_lock ------------------------------------------------------------ */

static void list_slab(struct node *n, struct slab *slab, bool tail)
{
	if (tail)
		list_add_tail(&n->partial, &slab->link);
	else
		list_add(&n->partial, &slab->link);
	plat_store(&n->nr_partial, n->nr_partial + 1);
}

static void unlist_slab(struct node *n, struct slab *slab)
{
	list_del(&slab->link);
	plat_store(&n->nr_partial, n->nr_partial - 1);
}

static bool lock_list(struct node *n, unsigned flags)
{
	if (flags & NODE_NOLOCK)
		return plat_trylock(&n->list_lock);
	plat_lock(&n->list_lock);
	return true;
}

/* The slab leaves the node. */
static void forget_slab(struct node *n, struct slab *slab)
{
	plat_fetch_sub(&n->nr_slabs, 1);
	plat_fetch_sub(&n->total_objects, slab->objects);
	n->release(n, slab);
}

/* ---- free ----------------------------------------------------------------------------------------- */

/* What a free does to a slab, by the state before it. */
enum free_outcome { FREE_QUIET, FREE_PUBLISH, FREE_DISCARD_LISTED, FREE_DISCARD_FULL, FREE_KEEP };

static enum free_outcome free_outcome(const struct node *n, uint64_t before, bool empties)
{
	bool surplus = plat_load(&n->nr_partial) >= n->min_partial;

	if (!state_head(before))
		return empties && surplus ? FREE_DISCARD_FULL : FREE_PUBLISH;
	if (!empties)
		return FREE_QUIET;
	return surplus && state_where(before) == SLAB_LISTED ? FREE_DISCARD_LISTED : FREE_KEEP;
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
	enum free_outcome outcome;
	bool locked = false, empties;
	enum slab_where where;

	for (;;) {
		if (unlikely(state_inuse(before) < cnt))
			plat_fatal("cache %s: object %p was freed twice", n->class->name, last);
		empties = state_inuse(before) == cnt;
		if (!locked && (!state_head(before) || empties)) {
			if (!lock_list(n, flags))
				return false;
			locked = true;
			before = plat_load_acquire(&slab->state);
			continue;
		}
		outcome = free_outcome(n, before, empties);
		/* An any-context free gives up no slab: the supply would have to wait. */
		if (flags & NODE_NOLOCK && outcome >= FREE_DISCARD_LISTED)
			outcome = state_head(before) ? FREE_KEEP : FREE_PUBLISH;
		where = outcome == FREE_PUBLISH ? SLAB_LISTED
			: outcome == FREE_DISCARD_LISTED || outcome == FREE_DISCARD_FULL
				? SLAB_UNLISTED
				: state_where(before);
		slab_set_end(slab, last, state_head(before));
		after = state_make(before, head, state_inuse(before) - cnt, where);
		if (plat_cas(&slab->state, &before, after))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	if (locked) {
		free_act(n, slab, outcome);
		plat_unlock(&n->list_lock);
	}
	count_transition(n, !state_head(before), empties);
	if (outcome == FREE_DISCARD_LISTED || outcome == FREE_DISCARD_FULL) {
		count(counters_of(n), CTR_free_slab);
		forget_slab(n, slab);
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
	void *object, *next;
	struct node *n;

	for (unsigned i = 0; i < plat_nnodes(); i++) {
		n = &nodes[i];
		if (likely(!plat_load(&n->deferred)))
			continue;
		for (object = plat_exchange(&n->deferred, NULL); object; object = next) {
			next = *(void **)((char *)object + n->class->link);
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

/* Puts back the rest of a taken chain; see section 2. */
static void put_surplus(struct node *n, struct slab *slab, unsigned head, unsigned cnt)
{
	uint64_t before, after;
	void *last = NULL;

	plat_lock(&n->list_lock);
	before = plat_load_acquire(&slab->state);
	for (;;) {
		if (state_head(before) && !last)
			for (unsigned rest = head; rest;)
				rest = slab_walk(slab, rest, &last, 1);
		if (last)
			slab_set_end(slab, last, state_head(before));
		after = state_make(before, head, state_inuse(before) - cnt, SLAB_LISTED);
		if (plat_cas(&slab->state, &before, after))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	if (state_where(before) != SLAB_LISTED)
		list_slab(n, slab, true);
	plat_unlock(&n->list_lock);
}

#define TAKE_SLABS 32 /* in one hold of list_lock */

static unsigned refill_from_list(struct node *n, void **objects, unsigned want)
{
	struct taken taken[TAKE_SLABS], *t;
	unsigned nr = 0, got = 0, take, head;
	struct slab *slab;

	plat_lock(&n->list_lock);
	while (got < want && nr < TAKE_SLABS && !list_empty(&n->partial)) {
		slab = list_entry(n->partial.next, struct slab, link);
		taken[nr] = take_chain(n, slab);
		got += taken[nr++].count;
	}
	plat_unlock(&n->list_lock);

	/* Only the last can have too many. */
	got = 0;
	for (t = taken; t < taken + nr; t++) {
		take = min(t->count, want - got);
		head = slab_walk(t->slab, t->head, objects + got, take);
		got += take;
		if (head)
			put_surplus(n, t->slab, head, t->count - take);
	}
	return got;
}

/* Under list_lock: one object of the first slab. */
static void *take_one(struct node *n)
{
	struct slab *slab;
	uint64_t before;
	unsigned head;
	void *object;

	if (list_empty(&n->partial))
		return NULL;
	slab = list_entry(n->partial.next, struct slab, link);
	before = plat_load_acquire(&slab->state);
	/* Freers push in front; only we take, so the head we see cannot be issued to anyone else. */
	for (;;) {
		head = slab_walk(slab, state_head(before), &object, 1);
		if (plat_cas(&slab->state, &before,
			     state_make(before, head, state_inuse(before) + 1,
					head ? SLAB_LISTED : SLAB_UNLISTED)))
			break;
		count(counters_of(n), CTR_cmpxchg_double_fail);
	}
	if (!head)
		unlist_slab(n, slab);
	return object;
}

/*
 * Objects of a fresh slab: the first `want` are the caller's, the rest is listed. With NOLOCK the list is
 * locked first, since the slab could not be got rid of if it were busy afterwards.
 */
static unsigned refill_from_new(struct node *nodes, unsigned node, void **objects, unsigned want,
				unsigned flags)
{
	struct node *n = &nodes[node];
	struct slab *slab;
	unsigned take;

	if (flags & NODE_NOLOCK && !plat_trylock(&n->list_lock))
		return 0;
	slab = slab_new(n->class, node, flags);
	if (!slab) {
		if (flags & NODE_NOLOCK)
			plat_unlock(&n->list_lock);
		return 0;
	}
	take = min(want, (unsigned)slab->objects);
	for (unsigned i = 0; i < take; i++)
		objects[i] = slab_object(slab, i);
	if (slab->node != node && !(flags & NODE_NOLOCK))
		n = &nodes[slab->node]; /* the supply helped out with another node's memory */
	if (!(flags & NODE_NOLOCK))
		plat_lock(&n->list_lock);
	if (take < slab->objects) {
		plat_store_release(&slab->state,
				   state_make(slab->state,
					      slab_chain_range(slab, take, slab->objects), take,
					      SLAB_LISTED));
		list_slab(n, slab, false);
	}
	plat_unlock(&n->list_lock);
	plat_fetch_add(&n->nr_slabs, 1);
	plat_fetch_add(&n->total_objects, slab->objects);
	return take;
}

/* From another node's list, if it is rich and not busy. */
static unsigned refill_from_others(struct node *nodes, unsigned local, void **objects,
				   unsigned want)
{
	unsigned got = 0;
	struct node *n;

	for (unsigned i = 1; i < plat_nnodes() && got < want; i++) {
		n = &nodes[(local + i) % plat_nnodes()];
		if (plat_load(&n->nr_partial) <= n->min_partial || !plat_trylock(&n->list_lock))
			continue;
		while (got < want && n->nr_partial > n->min_partial)
			objects[got++] = take_one(n);
		plat_unlock(&n->list_lock);
	}
	return got;
}

static void *alloc_from_list(struct node *n, unsigned flags)
{
	void *object;

	if (!plat_load(&n->nr_partial) || !lock_list(n, flags))
		return NULL;
	object = take_one(n);
	plat_unlock(&n->list_lock);
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
	while (got < want && plat_load(&n->nr_partial)) {
		more = refill_from_list(n, objects + got, want - got);
		if (!more)
			break;
		got += more;
	}
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

	plat_lock(&n->list_lock);
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
	plat_unlock(&n->list_lock);

	list_for_each_entry_safe(slab, &empty, link)
		forget_slab(n, slab);
	return plat_load(&n->nr_slabs);
}

void node_count_partial(struct node *n, struct node_partial *p)
{
	struct slab *slab;

	*p = (struct node_partial){ 0 };
	plat_lock(&n->list_lock);
	list_for_each_entry(slab, &n->partial, link) {
		p->slabs++;
		p->objects += slab->objects;
		p->inuse += state_inuse(plat_load(&slab->state));
	}
	plat_unlock(&n->list_lock);
}
