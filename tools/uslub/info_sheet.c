/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "info.h"
#include "numbers.h"
#include "text.h"
#include "tool.h"

struct info_sheet *info_sheet(struct info_document *document, const char *key, const char *title,
			      const char *cache)
{
	struct info_sheet *sheet = tool_alloc(1, sizeof(*sheet));

	sheet->key = tool_copy(key);
	sheet->title = title ? tool_copy(title) : NULL;
	sheet->cache = cache ? tool_copy(cache) : NULL;
	document->sheets = tool_grow(document->sheets, document->count + 1,
				     sizeof(struct info_sheet *));
	document->sheets[document->count++] = sheet;
	return sheet;
}

void info_column(struct info_sheet *sheet, const char *text, const char *key, unsigned width,
		 unsigned flags)
{
	struct info_heading heading = { .text = text, .key = key, .width = width, .flags = flags };

	sheet->headings = tool_grow(sheet->headings, sheet->columns + 1, sizeof(*sheet->headings));
	sheet->headings[sheet->columns++] = heading;
}

static void add_cell(struct info_sheet *sheet, struct info_cell cell)
{
	sheet->cells = tool_grow(sheet->cells, sheet->count + 1, sizeof(*sheet->cells));
	sheet->cells[sheet->count++] = cell;
}

void info_text(struct info_sheet *sheet, char *text)
{
	add_cell(sheet, (struct info_cell){ .kind = INFO_TEXT, .text = text });
}

void info_number(struct info_sheet *sheet, enum info_kind kind, double number)
{
	add_cell(sheet, (struct info_cell){ .kind = kind, .number = number });
}

/* 12345678 as 12.3M, cut off and not rounded, so that 1000.0K is never seen. */
static char *size_text(double bytes, bool exact)
{
	static const char units[] = "KMGTP";
	double left = fabs(bytes);
	unsigned unit = 0;

	if (exact || left < 1000)
		return tool_format("%.0f", bytes);
	for (left /= 1000; left >= 1000 && units[unit + 1]; unit++)
		left /= 1000;
	return tool_format("%s%.1f%c", bytes < 0 ? "-" : "", floor(left * 10) / 10, units[unit]);
}

static char *ns_text(double ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned unit = 0;

	while (ns >= 1000 && unit + 1 < TOOL_COUNT(units)) {
		ns /= 1000;
		unit++;
	}
	return tool_format("%.*f%s", unit && ns < 100 ? ns < 10 ? 2 : 1 : 0, ns, units[unit]);
}

static char *below_text(double ns)
{
	bool open = isinf(ns);
	char *bound = ns_text(open ? ldexp(1, SNAPSHOT_BUCKETS - 1) : ns);
	char *text = tool_format(open ? ">=%s" : "<%s", bound);

	free(bound);
	return text;
}

char *info_digits(double number)
{
	bool whole = number == floor(number) && fabs(number) < 9e15;

	return tool_format(whole ? "%.0f" : "%.15g", number);
}

char *info_shown(const struct info_cell *cell, bool bytes)
{
	double number = cell->number;

	if (cell->kind == INFO_TEXT ? !cell->text : isnan(number))
		return tool_copy("-");
	switch (cell->kind) {
	case INFO_TEXT:
		return text_shown(cell->text);
	case INFO_BYTES:
		return size_text(number, bytes);
	case INFO_EXACT:
		return numbers_thousands(number);
	case INFO_PERCENT:
		return tool_format("%.0f", trunc(number));
	case INFO_SHARE:
		return tool_format("%.1f%%", number);
	case INFO_NS:
		return ns_text(number);
	case INFO_NS_BELOW:
		return below_text(number);
	default:
		return info_digits(number);
	}
}

void info_note(struct info_document *document, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = tool_copy(format);
	va_end(args);
	document->notes = tool_grow(document->notes, document->notes_count + 1,
				    sizeof(*document->notes));
	document->notes[document->notes_count++] = text;
}

void info_say(const char *note)
{
	char *shown = text_shown(note);

	tool_error("%s", shown);
	free(shown);
}

static void free_sheet(struct info_sheet *sheet)
{
	for (unsigned i = 0; i < sheet->count; i++)
		free(sheet->cells[i].text);
	free(sheet->cells);
	free(sheet->headings);
	free(sheet->cache);
	free(sheet->title);
	free(sheet->key);
	free(sheet);
}

void info_document_free(struct info_document *document)
{
	for (unsigned i = 0; i < document->count; i++)
		free_sheet(document->sheets[i]);
	for (unsigned i = 0; i < document->notes_count; i++)
		free(document->notes[i]);
	free(document->sheets);
	free(document->notes);
	free(document->title);
}
