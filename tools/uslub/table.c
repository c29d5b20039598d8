/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include "table.h"
#include "tool.h"

/* Blanks that stay between columns when a table is narrowed, and when that is not enough. */
#define GAP	   2u
#define NARROW_GAP 1u

struct table {
	unsigned columns;
	unsigned gap;
	unsigned *preferred;
	bool *optional;
	bool *left;
	char **cells;
	unsigned count;
};

struct table *table_new(unsigned columns, const unsigned widths[])
{
	struct table *t = tool_alloc(1, sizeof(*t));

	t->columns = columns;
	t->gap = GAP;
	t->preferred = tool_alloc(columns, sizeof(*t->preferred));
	t->optional = tool_alloc(columns, sizeof(*t->optional));
	t->left = tool_alloc(columns, sizeof(*t->left));
	t->left[0] = true;
	memcpy(t->preferred, widths, columns * sizeof(*widths));
	return t;
}

void table_free(struct table *t)
{
	for (unsigned i = 0; i < t->count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->left);
	free(t->optional);
	free(t->preferred);
	free(t);
}

void table_optional(struct table *t, unsigned column)
{
	t->optional[column] = true;
}

void table_left(struct table *t, unsigned column)
{
	t->left[column] = true;
}

void table_tight(struct table *t)
{
	t->gap = NARROW_GAP;
}

void table_add(struct table *t, char *text)
{
	t->cells = tool_grow(t->cells, t->count + 1, sizeof(*t->cells));
	t->cells[t->count++] = text;
}

/* The columns that a text takes on a terminal: its characters, not the bytes that UTF-8 has for them. */
static size_t text_width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static unsigned content_width(const struct table *t, unsigned column)
{
	size_t most = 0;

	for (unsigned i = column; i < t->count; i += t->columns) {
		size_t length = text_width(t->cells[i]);

		if (length > most)
			most = length;
	}
	return (unsigned)most + (column ? t->gap : 0);
}

static unsigned sum(const unsigned widths[], unsigned n)
{
	unsigned total = 0;

	for (unsigned i = 0; i < n; i++)
		total += widths[i];
	return total;
}

/*
 * Finds the width of each column; one that is left out gets 0. Returns whether it had to narrow.
 * Where there is room an exceptionally long cell of the last column does not push all others to the
 * right, but stands out.
 */
static bool lay_out(const struct table *t, unsigned width, unsigned widths[])
{
	unsigned last = t->columns - 1;
	bool fits;

	for (unsigned i = 0; i < t->columns; i++) {
		unsigned content = content_width(t, i);

		widths[i] = content > t->preferred[i] ? content : t->preferred[i];
	}
	fits = !width || sum(widths, t->columns) <= width;
	if (fits && last)
		widths[last] = t->preferred[last];
	if (fits)
		return false;
	for (unsigned i = 0; i < t->columns; i++)
		widths[i] = content_width(t, i);
	for (unsigned i = 0; i < t->columns && sum(widths, t->columns) > width; i++) {
		if (t->optional[i])
			widths[i] = 0;
	}
	for (unsigned i = 1; i < t->columns && sum(widths, t->columns) > width; i++) {
		if (widths[i])
			widths[i] -= t->gap - NARROW_GAP;
	}
	return true;
}

/* @gap: blanks that stay before a cell that is wider than its column */
static void print_row(const struct table *t, FILE *out, unsigned row, const unsigned widths[],
		      unsigned gap)
{
	unsigned blanks = 0;

	for (unsigned i = 0; i < t->columns; i++) {
		const char *cell = t->cells[row * t->columns + i];
		unsigned width = widths[i], length = (unsigned)text_width(cell), room;

		if (!width)
			continue;
		/* Blanks behind a text are printed when something follows. */
		blanks += i ? gap : 0;
		width -= i ? gap : 0;
		room = width > length ? width - length : 0;
		fprintf(out, "%*s%s", (int)(blanks + (t->left[i] ? 0 : room)), "", cell);
		blanks = t->left[i] ? room : 0;
	}
}

void table_print(const struct table *t, FILE *out, unsigned width, unsigned rule_width,
		 const char *heading_on, const char *heading_off)
{
	unsigned *widths = tool_alloc(t->columns, sizeof(*widths));
	bool narrowed = lay_out(t, width, widths);
	unsigned total = sum(widths, t->columns), gap = narrowed ? NARROW_GAP : t->gap;

	fputs(heading_on, out);
	print_row(t, out, 0, widths, gap);
	fprintf(out, "%s\n", heading_off);
	if (rule_width) {
		unsigned n = !narrowed && rule_width > total ? rule_width : total;

		while (n--)
			fputc('=', out);
		fputc('\n', out);
	}
	for (unsigned row = 1; (row + 1) * t->columns <= t->count; row++) {
		print_row(t, out, row, widths, gap);
		fputc('\n', out);
	}
	free(widths);
}
