/* SPDX-License-Identifier: MIT */
/*
 * `uslub map`: how full each slab of a cache is, and where it lies.
 *
 *   map.c        the command
 *   map_read.c   the slabs of a running process
 *   map_text.c   the picture for a terminal, and the figures below it
 *   map_export.c JSON, CSV, SVG
 */
#ifndef TOOLS_MAP_H
#define TOOLS_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "export_reader.h"

enum map_where {
	MAP_UNLISTED, /* full, or about to go */
	MAP_LISTED,   /* on the partial list */
	MAP_PARKED,
	MAP_WHERES
};

extern const char *const map_where_names[MAP_WHERES];

struct map_slab {
	uint64_t address;
	uint32_t node;
	uint32_t inuse; /* objects, those in sheaves among them */
	uint32_t objects;
	enum map_where where;
};

/*
 * struct map - the slabs of a cache
 * @slabs: by node, then by address
 * @slab_size: distance between objects, bytes
 */
struct map {
	char *cache;
	int pid;
	uint32_t slab_size;
	struct map_slab *slabs;
	unsigned count;
};

/* map_read - find all slabs of a cache; false after a message. map_free frees what it holds */
bool map_read(struct export_reader *r, const char *cache, struct map *map);
void map_free(struct map *map);

/* A picture has so many cells; each stands for so many neighbouring slabs of one node. */
struct map_cell {
	const struct map_slab *slabs;
	unsigned count;
};

/*
 * map_cells - divide the slabs into at most @most cells, or one more for each node
 * @per_cell: set to how many slabs a cell has
 *
 * Returns how many cells there are; the array is for the caller to free.
 */
unsigned map_cells(const struct map *map, unsigned most, struct map_cell **cells,
		   unsigned *per_cell);

/* map_used - objects in use in a cell, as a share of all; 0..1 */
double map_used(const struct map_cell *cell);

/* map_some - whether a slab of the cell is in the state */
bool map_some(const struct map_cell *cell, enum map_where where);

/*
 * struct map_summary - what the picture says in figures
 * @by_tenth: slabs that are empty, up to a tenth full, ... , full
 * @least: slabs that would be enough for all objects in use, on each node by itself
 */
#define MAP_TENTHS 12u
struct map_summary {
	unsigned by_tenth[MAP_TENTHS];
	uint64_t objects, inuse;
	unsigned least;
	unsigned where[MAP_WHERES];
};
void map_summarize(const struct map *map, struct map_summary *summary);
const char *map_tenth_name(unsigned tenth);

void map_text(const struct map *map, FILE *out, unsigned width, bool colour);
void map_json(const struct map *map, FILE *out);
void map_csv(const struct map *map, FILE *out);
void map_svg(const struct map *map, FILE *out);

#endif /* TOOLS_MAP_H */
