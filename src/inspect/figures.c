/* SPDX-License-Identifier: MIT */
#include "inspect/figures.h"
#include "platform/platform.h"
#include "tiers/arena.h"
#include "tiers/supply.h"

static struct recipe_term supply_term(size_t offset, size_t factor)
{
	return (struct recipe_term){ .array = RECIPE_SUPPLY,
				     .width = sizeof(size_t),
				     .offset = (uint32_t)offset,
				     .factor = (int32_t)factor };
}

#define SUPPLY(field, factor) supply_term(offsetof(struct supply_figures, field), factor)

static struct figure_entry entry(const char *name, unsigned nterms, const struct recipe_term *terms)
{
	struct figure_entry e = { .name = name, .recipe = { .kind = RECIPE_SUM } };

	for (unsigned i = 0; i < nterms; i++)
		e.recipe.terms[e.recipe.nterms++] = terms[i];
	return e;
}

#define ENTRY(name, ...)                                                                           \
	figures[FIGURE_##name] = entry(                                                            \
		#name, sizeof((struct recipe_term[]){ __VA_ARGS__ }) / sizeof(struct recipe_term), \
		(struct recipe_term[]){ __VA_ARGS__ })

void figures_get(struct figure_entry figures[FIGURE_COUNT])
{
	size_t page = plat_page_size();
	struct recipe_term arena = { .array = RECIPE_ARENA, .width = sizeof(size_t) };

	ENTRY(memory_used, SUPPLY(used, page));
	ENTRY(memory_retained, SUPPLY(dirty, page));
	ENTRY(memory_metadata, arena, SUPPLY(segments, supply_segment_overhead()),
	      SUPPLY(blocks, supply_block_overhead()));
	ENTRY(memory_large, SUPPLY(large, 1));
	ENTRY(memory_mapped, SUPPLY(mapped, 1));
	ENTRY(segments, SUPPLY(segments, 1));
}

void figures_view(struct recipe_view *v)
{
	const struct supply_figures *supply;
	size_t stride;

	*v = (struct recipe_view){ .nodes = plat_nnodes() };
	supply = supply_figures(&stride);
	v->arrays[RECIPE_SUPPLY] = (struct recipe_elements){ (const char *)supply, (uint32_t)stride,
							     v->nodes, NULL };
	v->arrays[RECIPE_ARENA] = (struct recipe_elements){ (const char *)arena_mapped(),
							    sizeof(size_t), 1, NULL };
}
