/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include "map.h"
#include "text.h"
#include "tool.h"

void map_json(const struct map *map, FILE *out)
{
	json_t *document = json_object(), *slabs = json_array(), *tenths = json_object();
	struct map_summary s;

	map_summarize(map, &s);
	for (unsigned i = 0; i < map->count; i++) {
		const struct map_slab *slab = &map->slabs[i];
		char address[32];

		snprintf(address, sizeof(address), "0x%" PRIx64, slab->address);
		json_array_append_new(slabs,
				      json_pack("{s:s, s:i, s:i, s:i, s:s}", "address", address,
						"node", (int)slab->node, "inuse", (int)slab->inuse,
						"objects", (int)slab->objects, "where",
						map_where_names[slab->where]));
	}
	for (unsigned t = 0; t < MAP_TENTHS; t++)
		json_object_set_new(tenths, map_tenth_name(t), json_integer(s.by_tenth[t]));
	json_object_set_new(document, "format", json_string("uslub-map"));
	json_object_set_new(document, "version", json_integer(1));
	json_object_set_new(document, "cache", json_string(map->cache));
	json_object_set_new(document, "pid", json_integer(map->pid));
	json_object_set_new(document, "slab_size", json_integer(map->slab_size));
	json_object_set_new(document, "least_slabs", json_integer(s.least));
	json_object_set_new(document, "occupancy", tenths);
	json_object_set_new(document, "slabs", slabs);
	json_dumpf(document, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(document);
}

void map_csv(const struct map *map, FILE *out)
{
	fputs("node,address,inuse,objects,where\n", out);
	for (unsigned i = 0; i < map->count; i++) {
		const struct map_slab *s = &map->slabs[i];

		fprintf(out, "%u,0x%" PRIx64 ",%u,%u,%s\n", s->node, s->address, s->inuse,
			s->objects, map_where_names[s->where]);
	}
}

/* ---- SVG ------------------------------------------------------------------------------------------ */

#define CELLS_MOST 16384u
#define IN_ROW	   128u
#define SIDE	   7u /* of a cell, and 1 between two */
#define TOP	   44u
#define LEFT	   16u

/* Text between tags. */
static void print_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
			fprintf(out, "&#%d;", *text);
		else
			fputc(*text, out);
	}
}

/* From light for empty to dark for full; slabs that are parked have a colour of their own. */
static void print_fill(FILE *out, const struct map_cell *cell)
{
	double used = map_used(cell);
	unsigned light = (unsigned)(235 - 200 * used);

	if (map_some(cell, MAP_PARKED))
		fprintf(out, "rgb(235,%u,60)", light);
	else
		fprintf(out, "rgb(%u,%u,235)", light, light);
}

static void print_cell(FILE *out, const struct map_cell *cell, unsigned x, unsigned y)
{
	const struct map_slab *first = cell->slabs;

	fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"", x, y, SIDE,
		SIDE);
	print_fill(out, cell);
	if (cell->count == 1)
		fprintf(out, "\"><title>0x%" PRIx64 ": %u of %u, %s</title></rect>\n",
			first->address, first->inuse, first->objects,
			map_where_names[first->where]);
	else
		fprintf(out, "\"><title>%u slabs from 0x%" PRIx64 ": %.0f%%</title></rect>\n",
			cell->count, first->address, 100 * map_used(cell));
}

void map_svg(const struct map *map, FILE *out)
{
	struct map_cell *cells;
	unsigned per_cell, n = map_cells(map, CELLS_MOST, &cells, &per_cell);
	unsigned row = 0, column = 0, rows = 1, height;
	struct map_summary s;
	char *name = text_shown(map->cache);

	map_summarize(map, &s);
	for (unsigned i = 1; i < n; i++) {
		column++;
		if (column < IN_ROW && cells[i].slabs->node == cells[i - 1].slabs->node)
			continue;
		rows += cells[i].slabs->node == cells[i - 1].slabs->node ? 1 : 2;
		column = 0;
	}
	height = TOP + rows * (SIDE + 1) + LEFT;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		2 * LEFT + IN_ROW * (SIDE + 1), height);
	fprintf(out, "<text x=\"%u\" y=\"18\">", LEFT);
	print_escaped(out, name);
	fprintf(out, ": %u slabs, %.1f%% of %" PRIu64 " objects in use; %u slabs would do</text>\n",
		map->count, s.objects ? 100.0 * (double)s.inuse / (double)s.objects : 0, s.objects,
		s.least);
	fprintf(out,
		"<text x=\"%u\" y=\"34\" fill=\"#555\">a square: %u slab%s, by address; darker is "
		"fuller, red is parked</text>\n",
		LEFT, per_cell, per_cell == 1 ? "" : "s");
	column = 0;
	for (unsigned i = 0; i < n; i++) {
		bool other_node = i && cells[i].slabs->node != cells[i - 1].slabs->node;

		if (i && (other_node || column == IN_ROW)) {
			row += other_node ? 2 : 1;
			column = 0;
		}
		print_cell(out, &cells[i], LEFT + column * (SIDE + 1), TOP + row * (SIDE + 1));
		column++;
	}
	fputs("</svg>\n", out);
	free(cells);
	free(name);
}
