/* SPDX-License-Identifier: MIT */
/* Figures of the whole process, of its memory above all: recipes as those of a cache's statistics. */
#ifndef USLUB_INSPECT_FIGURES_H
#define USLUB_INSPECT_FIGURES_H

#include "base/base.h"
#include "stats/recipe.h"

enum figure {
	FIGURE_memory_used,	/* bytes in slabs, large sheaves, blocks of deferred objects */
	FIGURE_memory_retained, /* free pages that may have content and were not given back */
	FIGURE_memory_metadata, /* bookkeeping: caches, slots, counters, descriptors of pages */
	FIGURE_memory_large,	/* of those used: in runs of pages for large sizes */
	FIGURE_memory_mapped,	/* in mappings for yet larger ones; not among those used */
	FIGURE_segments,	/* of 64 MiB of address space, or less */
	FIGURE_COUNT
};

struct figure_entry {
	const char *name;
	struct recipe recipe;
};

/* Those of this process; the page size is a factor in them. */
hidden void figures_get(struct figure_entry figures[FIGURE_COUNT]);
hidden void figures_view(struct recipe_view *view);

#endif /* USLUB_INSPECT_FIGURES_H */
