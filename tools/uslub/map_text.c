/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "map.h"
#include "numbers.h"
#include "table.h"
#include "text.h"
#include "tool.h"

#define ROWS	      32u /* of a picture, unless there are more nodes */
#define WIDTH_DEFAULT 80u
#define MARGIN	      2u

/* ---- cells ---------------------------------------------------------------------------------------- */

unsigned map_cells(const struct map *map, unsigned most, struct map_cell **cells,
		   unsigned *per_cell)
{
	unsigned n = 0;

	*per_cell = most ? (map->count + most - 1) / most : 1;
	if (!*per_cell)
		*per_cell = 1;
	*cells = tool_alloc(map->count + 1, sizeof(**cells));
	for (unsigned i = 0; i < map->count; i++) {
		struct map_cell *last = n ? &(*cells)[n - 1] : NULL;

		if (last && last->count < *per_cell && last->slabs->node == map->slabs[i].node)
			last->count++;
		else
			(*cells)[n++] = (struct map_cell){ &map->slabs[i], 1 };
	}
	return n;
}

double map_used(const struct map_cell *cell)
{
	double inuse = 0, objects = 0;

	for (unsigned i = 0; i < cell->count; i++) {
		inuse += cell->slabs[i].inuse;
		objects += cell->slabs[i].objects;
	}
	return objects > 0 ? inuse / objects : 0;
}

bool map_some(const struct map_cell *cell, enum map_where where)
{
	for (unsigned i = 0; i < cell->count; i++) {
		if (cell->slabs[i].where == where)
			return true;
	}
	return false;
}

/* ---- in figures ----------------------------------------------------------------------------------- */

static unsigned tenth_of(const struct map_slab *slab)
{
	if (!slab->inuse)
		return 0;
	if (slab->inuse == slab->objects)
		return MAP_TENTHS - 1;
	return 1 + 10 * slab->inuse / slab->objects;
}

const char *map_tenth_name(unsigned tenth)
{
	static const char *const names[MAP_TENTHS] = {
		"empty",  "below 10%", "10-19%", "20-29%", "30-39%", "40-49%",
		"50-59%", "60-69%",    "70-79%", "80-89%", "90-99%", "full",
	};

	return names[tenth];
}

void map_summarize(const struct map *map, struct map_summary *s)
{
	uint64_t inuse = 0;

	*s = (struct map_summary){ 0 };
	for (unsigned i = 0; i < map->count; i++) {
		const struct map_slab *slab = &map->slabs[i];
		bool last = i + 1 == map->count || slab[1].node != slab->node;

		s->by_tenth[tenth_of(slab)]++;
		s->where[slab->where]++;
		s->objects += slab->objects;
		s->inuse += slab->inuse;
		inuse += slab->inuse;
		if (!last)
			continue;
		s->least += (unsigned)((inuse + slab->objects - 1) / slab->objects);
		inuse = 0;
	}
}

/* ---- the picture ---------------------------------------------------------------------------------- */

struct style {
	FILE *out;
	bool utf8;
	bool colour;
	unsigned columns;
};

static const char *cell_text(const struct style *s, double used)
{
	static const char *const blocks[] = { "·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const digits[] = {
		".", "1", "2", "3", "4", "5", "6", "7", "8", "9", "#"
	};
	unsigned steps = s->utf8 ? 8 : 10, level = (unsigned)ceil(used * steps);

	/* What is not quite full must not look so. */
	if (level == steps && used < 1)
		level--;
	return s->utf8 ? blocks[level] : digits[level];
}

static const char *cell_colour(const struct map_cell *cell)
{
	if (map_some(cell, MAP_PARKED))
		return "\033[33m";
	if (map_some(cell, MAP_LISTED))
		return "\033[32m";
	return "";
}

static void print_cell(const struct style *s, const struct map_cell *cell)
{
	const char *colour = s->colour ? cell_colour(cell) : "";

	fprintf(s->out, "%s%s%s", colour, cell_text(s, map_used(cell)), *colour ? "\033[0m" : "");
}

/* Words, in as many lines as the width asks for; they are freed. */
static void print_words(const struct style *s, char *text)
{
	text_wrap(s->out, text, 0, s->columns + MARGIN);
	free(text);
}

static void print_picture(const struct style *s, const struct map *map)
{
	struct map_cell *cells;
	unsigned per_cell, n = map_cells(map, ROWS * s->columns, &cells, &per_cell);
	unsigned column = 0, node = UINT32_MAX;
	bool several = map->count && map->slabs[0].node != map->slabs[map->count - 1].node;

	for (unsigned i = 0; i < n; i++) {
		if (cells[i].slabs->node != node || column == s->columns) {
			if (i)
				fputc('\n', s->out);
			column = 0;
		}
		if (several && cells[i].slabs->node != node)
			fprintf(s->out, "node %u\n", cells[i].slabs->node);
		node = cells[i].slabs->node;
		if (!column)
			fprintf(s->out, "%*s", (int)MARGIN, "");
		print_cell(s, &cells[i]);
		column++;
	}
	if (n)
		fputc('\n', s->out);
	free(cells);
	fputc('\n', s->out);
	print_words(s, tool_format("each character: %u slab%s, in the order of addresses; %s",
				   per_cell, per_cell == 1 ? "" : "s",
				   s->utf8 ? "· empty, ▁ to ▇ part full, █ full"
					   : ". empty, 1 to 9 tenths full, # full"));
	if (s->colour)
		fprintf(s->out, "\033[32mgreen\033[0m: on the partial list; \033[33myellow\033[0m: "
				"parked\n");
}

static void print_summary(const struct style *s, const struct map *map,
			  const struct map_summary *sum)
{
	static const unsigned widths[] = { 12, 12, 10, 14 };
	struct table *table = table_new(TOOL_COUNT(widths), widths);
	const char *const headings[] = { "in use", "slabs", "share", "free objects" };

	for (unsigned i = 0; i < TOOL_COUNT(headings); i++)
		table_add(table, tool_copy(headings[i]));
	for (unsigned t = 0; t < MAP_TENTHS; t++) {
		uint64_t free_objects = 0;

		for (unsigned i = 0; i < map->count; i++) {
			if (tenth_of(&map->slabs[i]) == t)
				free_objects += map->slabs[i].objects - map->slabs[i].inuse;
		}
		if (!sum->by_tenth[t])
			continue;
		table_add(table, tool_copy(map_tenth_name(t)));
		table_add(table, numbers_thousands(sum->by_tenth[t]));
		table_add(table, tool_format("%.1f%%", 100.0 * sum->by_tenth[t] / map->count));
		table_add(table, numbers_thousands((double)free_objects));
	}
	fputc('\n', s->out);
	table_print(table, s->out, s->columns + MARGIN, 0, s->colour ? "\033[1m" : "",
		    s->colour ? "\033[0m" : "");
	table_free(table);
}

static bool utf8_terminal(void)
{
	setlocale(LC_CTYPE, "");
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

void map_text(const struct map *map, FILE *out, unsigned width, bool colour)
{
	struct style style = { out, utf8_terminal(), colour, WIDTH_DEFAULT - MARGIN };
	char *name = text_shown(map->cache), *objects, *inuse, *bytes;
	struct map_summary s;

	if (width > MARGIN)
		style.columns = width - MARGIN;
	map_summarize(map, &s);
	objects = numbers_thousands((double)s.objects);
	inuse = numbers_thousands((double)s.inuse);
	bytes = numbers_bytes((double)(s.objects - s.inuse) * map->slab_size);
	print_words(
		&style,
		tool_format(
			"%s of process %d: %u slab%s, %s of %s objects in use (%.1f%%), %s free",
			name, map->pid, map->count, map->count == 1 ? "" : "s", inuse, objects,
			s.objects ? 100.0 * (double)s.inuse / (double)s.objects : 0, bytes));
	print_words(
		&style,
		tool_format(
			"(objects in sheaves are in use by their slab; %u on the partial list, %u "
			"parked)",
			s.where[MAP_LISTED], s.where[MAP_PARKED]));
	fputc('\n', out);
	if (map->count) {
		print_picture(&style, map);
		print_summary(&style, map, &s);
		fprintf(out, "\nwithout fragmentation %u slab%s would do: %u fewer\n", s.least,
			s.least == 1 ? "" : "s", map->count - s.least);
	}
	free(bytes);
	free(inuse);
	free(objects);
	free(name);
}
