/* SPDX-License-Identifier: MIT */
/*
 * What a user of caches may expect, and nothing of how they do it: the model. And the walk over all that a
 * cache has, when it is quiet, against its statistics.
 *
 * The model knows for each address whose object it is, with what content, and, of one that was freed after a
 * grace period, which readers were in a section then. Its own memory is written between two points, so it
 * sees every operation at once: a free from when it begins, an allocation from when it ends.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cache/internal.h"
#include "explore_model.h"

#define TABLE 8192u

static struct ex_object table[TABLE];
static uint64_t stamps, sections;
struct ex_thread ex_threads[EX_THREADS_MAX + 1];
unsigned ex_nthreads;
struct ex_cache ex_cache[EX_CACHES_MAX];
unsigned ex_ncaches;

/* ---- objects -------------------------------------------------------------------------------------- */

static struct ex_object *object_at(void *p)
{
	size_t i = (sim_offset(p) * 0x9e3779b97f4a7c15u >> 40) % TABLE;

	while (table[i].p && table[i].p != p)
		i = (i + 1) % TABLE;
	table[i].p = p;
	return &table[i];
}

/* Is it an object of the cache that a user owns? */
static bool owned(const struct uslub_cache *c, const void *p)
{
	size_t i = (sim_offset(p) * 0x9e3779b97f4a7c15u >> 40) % TABLE;

	while (table[i].p && table[i].p != p)
		i = (i + 1) % TABLE;
	return table[i].p && table[i].state == EX_OWNED && table[i].cache->c == c;
}

static uint64_t word_of(const struct ex_object *o, size_t i)
{
	return (o->stamp * 0x9e3779b97f4a7c15u) ^ (i << 48) ^ i;
}

/* What a user may write to: all, or all but what a constructor made. */
static size_t first_word(const struct ex_object *o)
{
	return o->cache->constructed ? 1 : 0;
}

static void write_content(struct ex_object *o)
{
	uint64_t *words = o->p;

	for (size_t i = first_word(o); i < o->cache->size / 8; i++)
		words[i] = word_of(o, i);
}

static void check_content(const struct ex_object *o, const char *when)
{
	const uint64_t *words = o->p;

	for (size_t i = first_word(o); i < o->cache->size / 8; i++)
		if (words[i] != word_of(o, i))
			ex_fail("object memory+%#" PRIx64 " of cache %s: word %zu was changed "
				"while the object was %s (seen %s)",
				sim_offset(o->p), o->cache->name, i,
				o->state == EX_DEFERRED ? "not yet past its grace period" : "owned",
				when);
	if (o->cache->constructed && words[0] != EX_CONSTRUCTED)
		ex_fail("object memory+%#" PRIx64 " of cache %s lost what its constructor wrote",
			sim_offset(o->p), o->cache->name);
}

/* Readers that were in a section when the object was freed must have left it. */
static void check_grace(const struct ex_object *o)
{
	if (o->state != EX_DEFERRED)
		return;
	for (unsigned t = 0; t < ex_nthreads; t++)
		if (o->readers[t] && o->readers[t] == ex_threads[t].section)
			ex_fail("object memory+%#" PRIx64 " of cache %s was issued again before "
				"its grace period was over: t%u is still in the section it was "
				"in when the object was freed",
				sim_offset(o->p), o->cache->name, t);
}

struct ex_object *ex_issue(struct ex_thread *t, struct ex_cache *cache, void *p, bool zeroed)
{
	struct ex_object *o = object_at(p);

	if (o->state == EX_OWNED)
		ex_fail("object memory+%#" PRIx64 " of cache %s was issued to t%u while %s%d owns "
			"it",
			sim_offset(p), cache->name, t->index, o->owner < 0 ? "nobody " : "t",
			o->owner);
	check_grace(o);
	for (size_t i = 0; zeroed && i < cache->size; i++)
		if (((const char *)p)[i])
			ex_fail("object memory+%#" PRIx64 " of cache %s was to be zeroed, but "
				"byte %zu is not",
				sim_offset(p), cache->name, i);
	o->cache = cache;
	o->state = EX_OWNED;
	o->owner = (int)t->index;
	o->stamp = ++stamps;
	cache->live++;
	cache->issued++;
	if (cache->constructed && *(uint64_t *)p != EX_CONSTRUCTED)
		ex_fail("object memory+%#" PRIx64 " of cache %s was issued without what its "
			"constructor wrote",
			sim_offset(p), cache->name);
	write_content(o);
	return o;
}

void ex_unissue(struct ex_object *o, bool deferred)
{
	check_content(o, "when it was freed");
	o->state = deferred ? EX_DEFERRED : EX_FREE;
	o->returned_at = 0;
	o->cache->live--;
	if (deferred) {
		o->cache->deferred++;
		for (unsigned t = 0; t < ex_nthreads; t++)
			o->readers[t] = ex_threads[t].section;
	} else {
		o->cache->freed++;
	}
}

void ex_check_object(const struct ex_object *o, uint64_t stamp)
{
	if (o->stamp != stamp)
		ex_fail("object memory+%#" PRIx64 " of cache %s was issued again while t%u could "
			"still read it",
			sim_offset(o->p), o->cache->name, ex_self()->index);
	check_content(o, "by a reader");
}

void ex_enter_section(struct ex_thread *t)
{
	sim_read_lock();
	t->section = ++sections;
}

void ex_leave_section(struct ex_thread *t)
{
	sim_read_unlock();
	t->section = 0;
}

/* In the child of a fork the other readers are gone. */
void ex_forget_sections(void)
{
	for (unsigned t = 0; t < ex_nthreads; t++)
		ex_threads[t].section = 0;
}

void ex_for_each_owned(struct ex_cache *cache, void (*fn)(struct ex_object *o))
{
	for (unsigned i = 0; i < TABLE; i++)
		if (table[i].p && table[i].state == EX_OWNED && table[i].cache == cache)
			fn(&table[i]);
}

/* ---- what a cache has, by walking ----------------------------------------------------------------- */

static uint64_t stat_of(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value = 0;

	uslub_cache_stat(c, which, &value);
	return value;
}

#define STAT(c, name) stat_of(c, USLUB_STAT_##name)

static void same(const struct uslub_cache *c, uint64_t a, uint64_t b, const char *what,
		 const char *wanted)
{
	if (a != b)
		ex_fail("cache %s: %s is %" PRId64 ", but %s is %" PRId64, c->name, what, a, wanted,
			b);
}

struct held {
	uint64_t objects, sheaves;
};

static void add_slot(struct held *h, const struct uslub_cache *c, const struct percpu_slot *slot)
{
	const struct uslub_sheaf *main = slot->sheaf[word_which(slot->word)];
	const struct uslub_sheaf *other = slot->sheaf[!word_which(slot->word)];

	if (slot->word & WORD_WHO)
		ex_fail("cache %s: a slot is closed though nobody is at work", c->name);
	if (!main && word_avail(slot->word) + word_room(slot->word))
		ex_fail("cache %s: a slot's word speaks of a main sheaf that is not there",
			c->name);
	if (main && word_avail(slot->word) + word_room(slot->word) != main->capacity)
		ex_fail("cache %s: avail and room of a slot do not make up a sheaf", c->name);
	h->objects += word_avail(slot->word) + (other ? other->fill : 0);
	h->sheaves += (main != NULL) + (other != NULL);
}

static unsigned add_stack(struct held *h, const struct uslub_sheaf *s)
{
	unsigned n = 0;

	for (; s; s = s->next, n++) {
		h->objects += s->fill;
		h->sheaves++;
		if (n > 10000)
			ex_fail("a barn's stack of sheaves has no end");
	}
	return n;
}

static void walk_barn(struct held *h, const struct uslub_cache *c, const struct barn *b)
{
	const struct uslub_sheaf *p = b->partial;

	for (const struct uslub_sheaf *s = b->full; s; s = s->next)
		if (sheaf_room(s))
			ex_fail("cache %s: a sheaf on the barn's full stack is not full", c->name);
	for (const struct uslub_sheaf *s = b->empty; s; s = s->next)
		if (s->fill)
			ex_fail("cache %s: a sheaf on the barn's empty stack is not empty",
				c->name);
	same(c, b->nr_full, add_stack(h, b->full), "nr_full", "the length of the stack");
	same(c, b->nr_empty, add_stack(h, b->empty), "nr_empty", "the length of the stack");
	if (!p)
		return;
	if (!p->fill || !sheaf_room(p))
		ex_fail("cache %s: the barn's part-full sheaf is not part-full", c->name);
	h->objects += p->fill;
	h->sheaves++;
}

struct walk {
	uint64_t slabs, objects, free, empty;
};

static void walk_slab(struct walk *w, const struct uslub_cache *c, struct slab *slab,
		      enum slab_where where)
{
	unsigned inuse = state_inuse(slab->state), length = 0, head = state_head(slab->state);
	void *object;

	if (slab->class != &c->class)
		ex_fail("cache %s: one of its slabs is not its own any more", c->name);
	if (state_where(slab->state) != where)
		ex_fail("cache %s: a slab that is %s does not say so", c->name,
			where == SLAB_LISTED ? "listed" : "parked");
	while (head && length <= slab->objects) {
		head = slab_walk(slab, head, &object, 1);
		length++;
		if (owned(c, object))
			ex_fail("cache %s: object memory+%#" PRIx64 " is owned, and free in its "
				"slab",
				c->name, sim_offset(object));
	}
	same(c, length, slab->objects - inuse, "the length of a slab's chain",
	     "what its state word says");
	w->slabs++;
	w->objects += slab->objects;
	w->free += length;
	w->empty += !inuse;
	if (w->slabs > 10000)
		ex_fail("cache %s: a list of slabs has no end", c->name);
}

static void walk_node(const struct uslub_cache *c, struct node *n, struct walk *listed,
		      struct walk *parked)
{
	struct slab *slab;

	*listed = *parked = (struct walk){ 0 };
	list_for_each_entry(slab, &n->partial, link)
		walk_slab(listed, c, slab, SLAB_LISTED);
	for (unsigned i = 0; i < n->park.nshards; i++) {
		for (slab = n->park.shards[i].young; slab; slab = slab->next)
			walk_slab(parked, c, slab, SLAB_PARKED);
		for (slab = n->park.shards[i].old; slab; slab = slab->next)
			walk_slab(parked, c, slab, SLAB_PARKED);
	}
}

static uint64_t walk_deferred(const struct uslub_cache *c, const struct node *n)
{
	uint64_t length = 0;

	for (void *p = n->deferred; p; p = *(void **)((char *)p + c->class.link))
		if (++length > 10000)
			ex_fail("cache %s: the stack of deferred frees has no end", c->name);
	return length;
}

static void check_node(const struct uslub_cache *c, struct node *n, bool exact)
{
	struct walk listed, parked;
	struct node_gauges g;

	walk_node(c, n, &listed, &parked);
	if (exact) {
		same(c, park_count(&n->park), parked.slabs, "parked by count", "by walk");
		same(c, (uint64_t)(int64_t)n->parked_empty, parked.empty,
		     "empty parked slabs by count", "by walk");
	}
	same(c, n->nr_partial, listed.slabs, "nr_partial", "the length of the list");
	same(c, n->partial_objects, listed.objects, "what listed slabs hold", "by walk");
	node_gauges(n, &g);
	if (n->counting == NODE_COUNT_SCAN)
		walk_node(c, n, &listed, &parked); /* it has listed what was parked */
	if (!exact)
		return;
	same(c, g.partial, listed.slabs, "partial", "the length of the list");
	same(c, g.objects, g.total_objects - listed.free - parked.free, "objects", "by walk");
	same(c, g.objects_partial, listed.objects - listed.free, "objects_partial", "by walk");
}

static void hold_all(struct held *h, const struct uslub_cache *c)
{
	*h = (struct held){ 0 };
	for (unsigned slot = 0; slot < c->nslots; slot++) {
		add_slot(h, c, &pcs_of(&c->slots, slot)->main);
		add_slot(h, c, &pcs_of(&c->slots, slot)->rcu);
		if (c->stashes)
			same(c, stash_count(&c->stashes[slot]),
			     add_stack(h, stash_top(&c->stashes[slot])), "a stash's count",
			     "the length of the stack");
	}
	for (unsigned n = 0; n < plat_nnodes(); n++)
		walk_barn(h, c, &c->barns[n]);
}

/* Counters against each other, and against what was asked for. */
static void check_counters(const struct uslub_cache *c, uint64_t outside)
{
	uint64_t taken = STAT(c, sheaf_refill) + STAT(c, alloc_slowpath);
	uint64_t given = STAT(c, sheaf_flush) + STAT(c, free_slowpath);
	bool parking = c->policy.parking == USLUB_POLICY_ON;

	same(c, STAT(c, park),
	     STAT(c, unpark_refill) + STAT(c, unpark_list) + STAT(c, unpark_discard) +
		     STAT(c, parked),
	     "slabs parked", "those unparked and those that still are");
	same(c, taken - given, outside, "what counters say was taken from slabs",
	     "what is outside of them");
	if (parking)
		return;
	same(c, STAT(c, free_add_partial) + STAT(c, free_slab) - STAT(c, free_remove_partial),
	     STAT(c, full_to_partial) + STAT(c, full_to_empty),
	     "slabs that frees listed or gave up when full", "frees into full slabs");
}

void ex_check_cache(struct ex_cache *e)
{
	struct uslub_cache *c = e->c;
	uint64_t outside, deferred = 0, prefilled = 0, prefilled_objects = 0;
	struct held h;

	for (unsigned t = 0; t < ex_nthreads; t++)
		if (ex_threads[t].sheaf && ex_threads[t].sheaf_of == e) {
			prefilled++;
			prefilled_objects += uslub_sheaf_size(ex_threads[t].sheaf);
		}
	hold_all(&h, c);
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		check_node(c, &c->nodes[n], true);
		deferred += walk_deferred(c, &c->nodes[n]);
	}
	outside = STAT(c, objects);
	same(c, STAT(c, rcu_pending), STAT(c, rcu_pending_bytes) / c->class.size, "rcu_pending",
	     "rcu_pending_bytes");
	same(c, outside, e->live + h.objects + prefilled_objects + deferred + c->rcu_queued,
	     "objects outside of slabs", "what users, sheaves and queues have");
	same(c, STAT(c, sheaf_alloc) - STAT(c, sheaf_free), h.sheaves + prefilled,
	     "sheaves made and not freed", "sheaves that there are");
	if (!e->refused) {
		check_counters(c, outside - deferred);
		if (!STAT(c, order_fallback))
			same(c, STAT(c, slabs) * c->class.objects, STAT(c, total_objects),
			     "places in slabs", "total_objects");
	}
	if (e->exact && !e->refused) {
		same(c, STAT(c, alloc_fastpath) + STAT(c, alloc_slowpath),
		     e->issued - e->from_sheaf, "allocations by counters", "allocations");
		same(c, STAT(c, free_rcu_sheaf) + STAT(c, free_rcu_sheaf_fail), e->deferred,
		     "deferred frees by counters", "deferred frees");
		same(c, STAT(c, free_fastpath) + STAT(c, free_slowpath),
		     e->freed + STAT(c, free_rcu_sheaf_fail), "frees by counters", "frees");
	}
}

/* Internal caches: their objects are the sheaves of those above. */
void ex_check_internal(void)
{
	struct uslub_cache *c, *user;
	struct held h;
	uint64_t live;

	list_for_each_entry(c, &registry, link) {
		if (!c->internal)
			continue;
		live = 0;
		for (struct list *l = registry.next; l != &registry; l = l->next) {
			user = list_entry(l, struct uslub_cache, link);
			if (user->sheaves == c)
				live += STAT(user, sheaf_alloc) - STAT(user, sheaf_free);
		}
		hold_all(&h, c);
		for (unsigned n = 0; n < plat_nnodes(); n++) {
			check_node(c, &c->nodes[n], true);
			live += walk_deferred(c, &c->nodes[n]);
		}
		/* Sheaves beyond the capacity come from the page supply, and are counted likewise. */
		for (unsigned t = 0; t < ex_nthreads; t++)
			if (ex_threads[t].sheaf && ex_threads[t].sheaf_of->c->sheaves == c &&
			    ex_threads[t].sheaf->capacity != ex_threads[t].sheaf_of->c->capacity)
				live--;
		same(c, STAT(c, objects), live + h.objects, "sheaves in use and in sheaves",
		     "sheaves that the caches above have");
	}
}

/* In the child of a fork: how much is not free and nobody's that is still there. */
uint64_t ex_count_lost(const struct ex_cache *e)
{
	struct uslub_cache *c = e->c;
	uint64_t outside = 0, known = 0;
	struct walk listed, parked;
	struct held h;

	hold_all(&h, c);
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		walk_node(c, &c->nodes[n], &listed, &parked);
		outside += c->nodes[n].total_objects - listed.free - parked.free;
		known += walk_deferred(c, &c->nodes[n]);
	}
	known += h.objects + e->live;
	if (outside < known)
		ex_fail("cache %s: in the child %" PRIu64 " objects are outside of slabs, but "
			"users and sheaves have %" PRIu64,
			c->name, outside, known);
	return outside - known;
}

/* ---- barriers ------------------------------------------------------------------------------------- */

static void mark_sheaf(const struct uslub_sheaf *s, unsigned fill)
{
	for (unsigned i = 0; s && i < fill; i++)
		object_at(s->objects[i])->found = true;
}

static void mark_sheaves(const struct uslub_sheaf *s)
{
	for (; s; s = s->next)
		mark_sheaf(s, s->fill);
}

static void mark_slab(struct slab *slab)
{
	unsigned head = state_head(slab->state);
	void *object;

	while (head) {
		head = slab_walk(slab, head, &object, 1);
		object_at(object)->found = true;
	}
}

static void mark_node(struct node *n)
{
	struct slab *slab;

	list_for_each_entry(slab, &n->partial, link)
		mark_slab(slab);
	for (unsigned i = 0; i < n->park.nshards; i++) {
		for (slab = n->park.shards[i].young; slab; slab = slab->next)
			mark_slab(slab);
		for (slab = n->park.shards[i].old; slab; slab = slab->next)
			mark_slab(slab);
	}
}

static bool given_back(const struct ex_cache *e, const struct ex_object *o)
{
	const struct slab *slab = (const struct slab *)supply_page_of(o->p);

	return !slab || slab->class != &e->c->class;
}

void ex_check_barrier(struct ex_cache *e, uint64_t returned_by)
{
	struct uslub_cache *c = e->c;

	for (unsigned i = 0; i < TABLE; i++)
		table[i].found = false;
	for (unsigned cpu = 0; cpu < c->nslots; cpu++) {
		const struct percpu_slot *slot = &pcs_of(&c->slots, cpu)->main;
		const struct uslub_sheaf *other = slot->sheaf[!word_which(slot->word)];

		mark_sheaf(slot->sheaf[word_which(slot->word)], word_avail(slot->word));
		mark_sheaf(other, other ? other->fill : 0);
		if (c->stashes)
			mark_sheaves(stash_top(&c->stashes[cpu]));
	}
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		mark_sheaves(c->barns[n].full);
		if (c->barns[n].partial)
			mark_sheaf(c->barns[n].partial, c->barns[n].partial->fill);
		mark_node(&c->nodes[n]);
	}
	for (unsigned t = 0; t < ex_nthreads; t++)
		if (ex_threads[t].sheaf && ex_threads[t].sheaf_of == e)
			mark_sheaf(ex_threads[t].sheaf, ex_threads[t].sheaf->fill);
	for (unsigned i = 0; i < TABLE; i++) {
		const struct ex_object *o = &table[i];

		if (o->p && o->state == EX_DEFERRED && o->cache == e && o->returned_at &&
		    o->returned_at <= returned_by && !o->found && !given_back(e, o))
			ex_fail("a barrier is over, but object memory+%#" PRIx64 " of cache %s, "
				"whose deferred free had returned before, is not free yet",
				sim_offset(o->p), e->name);
	}
}
