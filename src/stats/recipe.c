/* SPDX-License-Identifier: MIT */
/* The evaluation of recipes. The theory of operation opens recipe.h. */
#include <string.h>
#include "platform/platform.h"
#include "stats/recipe.h"

#define ALL UINT32_MAX

static uint64_t load(const char *p, unsigned width)
{
	switch (width) {
	case 1:
		return plat_load((const uint8_t *)p);
	case 2:
		return plat_load((const uint16_t *)(const void *)p);
	case 4:
		return plat_load((const uint32_t *)(const void *)p);
	case 8:
		return plat_load((const uint64_t *)(const void *)p);
	default:
		return 0;
	}
}

/* The word at an offset of an element; 0 if it does not lie in it as words do. */
static uint64_t word_at(const struct recipe_elements *a, unsigned element, uint64_t offset,
			unsigned width)
{
	if (!width || width > 8 || offset + width > a->stride || offset % width)
		return 0;
	return load(a->base + (size_t)element * a->stride + offset, width);
}

static uint64_t field(uint64_t word, unsigned shift, unsigned bits)
{
	if (shift > 63)
		return 0;
	word >>= shift;
	return bits && bits < 64 ? word & ((1ull << bits) - 1) : word;
}

static bool sheaf_at(const struct recipe_view *v, uint64_t address, struct recipe_sheaf *s)
{
	/* It may have become another cache's meanwhile, or no sheaf at all. */
	return address && v->peek && v->peek(v, address, s) && s->cache == v->self &&
	       s->fill <= s->capacity;
}

static uint64_t spare_address(const struct recipe_elements *a, unsigned element, uint32_t offset)
{
	uint64_t word = word_at(a, element, offset, 8);
	unsigned other = !word_which(word);

	return word_at(a, element, (uint64_t)offset + 8 + 8 * other, 8);
}

static uint64_t element_value(const struct recipe_term *t, const struct recipe_view *v,
			      unsigned element, uint64_t offset)
{
	const struct recipe_elements *a = &v->arrays[t->array];
	struct recipe_sheaf sheaf;
	uint64_t word;

	if (t->use == RECIPE_SPARE)
		return sheaf_at(v, spare_address(a, element, t->offset), &sheaf) ? sheaf.fill : 0;
	word = word_at(a, element, offset, t->width);
	if (t->use == RECIPE_WORD)
		return field(word, t->shift, t->bits);
	if (t->shift > 63 || t->bits > 63 || !sheaf_at(v, word >> t->shift << t->bits, &sheaf))
		return 0;
	return t->use == RECIPE_FILL ? sheaf.fill : sheaf.capacity - sheaf.fill;
}

static bool in_use(const struct recipe_elements *a, unsigned element)
{
	return !a->used || plat_load_quiet(&a->used[element / 64]) >> element % 64 & 1;
}

/* The sum over elements first..last-1, whose words for `node` are meant where there are several. */
static uint64_t term_sum(const struct recipe_term *t, const struct recipe_view *v, unsigned first,
			 unsigned last, unsigned node)
{
	const struct recipe_elements *a;
	uint64_t sum = 0;

	if (t->array == RECIPE_ONE)
		return 1;
	if (t->array >= RECIPE_ARRAYS)
		return 0;
	a = &v->arrays[t->array];
	last = min(last, a->base ? a->count : 0);
	for (unsigned i = first; i < last; i++)
		if (in_use(a, i))
			sum += element_value(t, v, i, t->offset + (uint64_t)node * t->node_step);
	return sum;
}

static uint64_t scaled(const struct recipe_term *t, const struct recipe_view *v, uint64_t sum)
{
	const struct recipe_elements *cache = &v->arrays[RECIPE_CACHE];

	if (t->times)
		sum *= cache->base ? word_at(cache, 0, t->times, 4) : 0;
	return t->factor ? sum * (uint64_t)(int64_t)t->factor : sum;
}

/* Sums whose words were not read at one moment may come out below 0. */
static uint64_t not_negative(uint64_t sum)
{
	return (int64_t)sum < 0 ? 0 : sum;
}

static unsigned terms_of(const struct recipe *r)
{
	return min(r->nterms, RECIPE_TERMS);
}

static bool per_node(const struct recipe_term *t)
{
	return t->array == RECIPE_NODES || t->array == RECIPE_BARNS || t->array == RECIPE_SUPPLY;
}

static bool per_slot(const struct recipe_term *t)
{
	return t->array == RECIPE_SLOTS || t->array == RECIPE_COUNTERS ||
	       t->array == RECIPE_STASHES;
}

/* Of the array of a node, or of what each CPU has counted for it. */
static uint64_t term_of_node(const struct recipe_term *t, const struct recipe_view *v,
			     unsigned node)
{
	const struct recipe_elements *a;
	unsigned share;

	if (per_node(t))
		return scaled(t, v, term_sum(t, v, node, node + 1, 0));
	if (t->node_step)
		return scaled(t, v, term_sum(t, v, 0, ALL, node));
	if (t->array != RECIPE_SHARDS || !v->nodes)
		return 0;
	a = &v->arrays[RECIPE_SHARDS];
	share = a->count / v->nodes;
	return scaled(t, v, term_sum(t, v, node * share, (node + 1) * share, 0));
}

uint64_t recipe_node(const struct recipe *r, const struct recipe_view *v, unsigned node)
{
	uint64_t most = 0, sum = 0;

	for (unsigned i = 0; i < terms_of(r); i++) {
		sum += term_of_node(&r->terms[i], v, node);
		if (!i)
			most = sum;
	}
	sum = not_negative(sum);
	return r->kind == RECIPE_CLAMPED ? min(sum, most) : sum;
}

uint64_t recipe_cpu(const struct recipe *r, const struct recipe_view *v, unsigned slot)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < terms_of(r); i++)
		if (per_slot(&r->terms[i]))
			sum += scaled(&r->terms[i], v,
				      term_sum(&r->terms[i], v, slot, slot + 1, 0));
	return not_negative(sum);
}

static uint64_t age(const struct recipe *r, const struct recipe_view *v)
{
	uint64_t since = 0;

	if (!terms_of(r) || !term_sum(&r->terms[0], v, 0, ALL, 0))
		return 0;
	for (unsigned i = 1; i < terms_of(r) && !since; i++)
		since = term_sum(&r->terms[i], v, 0, ALL, 0);
	if (!since)
		return 0;
	/* The clock is coarse: what began at this tick has an age all the same. */
	return since < v->now ? v->now - since : 1;
}

uint64_t recipe_value(const struct recipe *r, const struct recipe_view *v)
{
	uint64_t sum = 0;

	if (r->kind == RECIPE_AGE)
		return age(r, v);
	if (r->kind == RECIPE_CLAMPED) {
		for (unsigned node = 0; node < v->nodes; node++)
			sum += recipe_node(r, v, node);
		return sum;
	}
	for (unsigned i = 0; i < terms_of(r) && r->kind == RECIPE_SUM; i++)
		sum += scaled(&r->terms[i], v, term_sum(&r->terms[i], v, 0, ALL, 0));
	return not_negative(sum);
}
