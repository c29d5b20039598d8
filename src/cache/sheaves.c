/* SPDX-License-Identifier: MIT */
/*
 * Sheaves as things: where they come from and where they go.
 *
 * A sheaf is an object of an internal cache, "sheaf-BYTES", one for each size in use. Allocating sheaves
 * is as frequent as overflowing barns (the published mmap1 run has one sheaf_alloc for every two RCU
 * sheaves), so internal caches have sheaves themselves, or their list_lock would be the hot one. Their
 * sheaves in turn come from "sheaf-boot", a cache without sheaves, where the recursion ends.
 *
 * Oversize sheaves, for prefills beyond the capacity, are rare and come from the page supply.
 */
#include "cache/internal.h"

static struct uslub_sheaf *sheaf_init(struct uslub_cache *c, struct uslub_sheaf *s,
				      unsigned capacity)
{
	if (!s)
		return NULL;
	*s = (struct uslub_sheaf){ .cache = c, .capacity = capacity };
	count(counters(c), CTR_sheaf_alloc);
	return s;
}

struct uslub_sheaf *sheaf_new(struct uslub_cache *c, unsigned flags)
{
	struct uslub_cache *from = c->sheaves;
	void *s = seq_pop(&from->main_slots, &from->pop_cpus, 0);

	/* Not by uslub_cache_alloc(): a free does not touch errno. */
	return sheaf_init(c, s ? s : cache_alloc_slow(from, flags & ~USLUB_ZERO), c->capacity);
}

struct uslub_sheaf *sheaf_new_oversize(struct uslub_cache *c, unsigned n, unsigned flags)
{
	unsigned order = order_for(sheaf_bytes(n), plat_page_shift());
	struct page *page;

	if (!(flags & USLUB_NOLOCK))
		sheaf_free_left(c);
	page = supply_alloc(order, plat_this_node(), node_flags(flags));
	return page ? sheaf_init(c, page_address(page), n) : NULL;
}

void sheaf_free(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags)
{
	count(counters(c), CTR_sheaf_free);
	if (s->capacity != c->capacity && flags & USLUB_NOLOCK) {
		s->next = plat_load(&c->oversize);
		while (!plat_cas(&c->oversize, &s->next, s))
			;
	} else if (s->capacity != c->capacity)
		supply_free(supply_page_of(s));
	else if (flags & USLUB_NOLOCK)
		uslub_cache_free_nolock(c->sheaves, s);
	else
		uslub_cache_free(c->sheaves, s);
}

void sheaf_free_left(struct uslub_cache *c)
{
	struct uslub_sheaf *s, *next;

	if (!plat_load(&c->oversize))
		return;
	for (s = plat_exchange(&c->oversize, NULL); s; s = next) {
		next = s->next;
		supply_free(supply_page_of(s));
	}
}

void sheaf_flush(struct uslub_cache *c, struct uslub_sheaf *s, unsigned flags)
{
	uint64_t began;

	if (!s->fill)
		return;
	began = latency_begin(counters(c));
	nodes_flush(c->nodes, s->objects, s->fill, node_flags(flags));
	latency_end(counters(c), USLUB_LATENCY_flush, began);
	counters_add(counters(c), CTR_sheaf_flush, s->fill);
	probe(flush, c->name, s->fill);
	s->fill = 0;
}

bool sheaf_refill(struct uslub_cache *c, struct uslub_sheaf *s, unsigned n, unsigned flags)
{
	unsigned node = plat_this_node(), want, got;
	uint64_t began;

	if (s->fill >= n)
		return true;
	want = n - s->fill;
	began = latency_begin(counters(c));
	got = nodes_refill(c->nodes, node, s->objects + s->fill, want, node_flags(flags));
	latency_end(counters(c), USLUB_LATENCY_refill, began);
	counters_add(counters(c), CTR_sheaf_refill, got);
	probe(refill, c->name, node, want, got);
	s->fill += got;
	return s->fill >= n;
}

void sheaf_put_empty(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s, unsigned flags)
{
	if (!barn_put_empty(b, s, flags & USLUB_NOLOCK))
		sheaf_free(c, s, flags);
}

void sheaf_dissolve(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s, unsigned flags)
{
	sheaf_flush(c, s, flags);
	sheaf_put_empty(c, b, s, flags);
}

void sheaf_put_full(struct uslub_cache *c, struct barn *b, struct uslub_sheaf *s, unsigned flags)
{
	if (barn_put_full(b, s, false, flags & USLUB_NOLOCK)) {
		note_barn_put(c, b, true);
		return;
	}
	note_barn_put(c, b, false);
	sheaf_dissolve(c, b, s, flags);
}

void sheaf_put_any(struct uslub_cache *c, struct uslub_sheaf *s)
{
	struct barn *barn = local_barn(c);

	if (!s->fill) {
		sheaf_put_empty(c, barn, s, 0);
	} else if (sheaf_room(s)) {
		if (barn_put_partial(barn, s))
			count(counters(c), CTR_barn_merge);
	} else {
		barn_put_full(barn, s, true, false);
		note_barn_put(c, barn, true);
	}
}

struct uslub_sheaf *sheaf_get_empty(struct uslub_cache *c, unsigned flags)
{
	struct uslub_sheaf *s = barn_get_empty(local_barn(c), flags & USLUB_NOLOCK);

	return s ? s : sheaf_new(c, flags);
}
