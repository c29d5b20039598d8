/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "info.h"
#include "table.h"
#include "text.h"
#include "tool.h"

#define VERSION 1

/* Whether a column is in a form that people read, or in one for programs. */
static bool in_form(const struct info_heading *h, bool data)
{
	return !(h->flags & (data ? INFO_ONLY_SHOWN : INFO_ONLY_DATA));
}

/* ---- for people ---- */

static void print_table(const struct info *info, const struct info_sheet *sheet, FILE *out,
			unsigned width, bool colour)
{
	unsigned *widths = tool_alloc(sheet->columns, sizeof(*widths)), n = 0;
	struct table *table;

	for (unsigned i = 0; i < sheet->columns; i++) {
		if (in_form(&sheet->headings[i], false))
			widths[n++] = sheet->headings[i].width;
	}
	table = table_new(n, widths);
	table_tight(table);
	free(widths);
	n = 0;
	for (unsigned i = 0; i < sheet->columns; i++) {
		const struct info_heading *h = &sheet->headings[i];

		if (!in_form(h, false))
			continue;
		table_add(table, tool_copy(h->text));
		if (h->flags & INFO_OPTIONAL)
			table_optional(table, n);
		if (h->flags & INFO_LEFT)
			table_left(table, n);
		n++;
	}
	for (unsigned i = 0; i < sheet->count; i++) {
		if (in_form(&sheet->headings[i % sheet->columns], false))
			table_add(table, info_shown(&sheet->cells[i], info->options->bytes));
	}
	table_print(table, out, width, 0, colour ? "\033[1m" : "", colour ? "\033[0m" : "");
	table_free(table);
}

static void print_line(FILE *out, const char *text)
{
	char *shown = text_shown(text);

	fprintf(out, "%s\n", shown);
	free(shown);
}

static void print_tables(const struct info *info, const struct info_document *document, FILE *out,
			 unsigned width, bool colour)
{
	bool lines = document->title || document->notes_count;

	if (document->title)
		print_line(out, document->title);
	for (unsigned i = 0; i < document->notes_count; i++) {
		char *note = text_shown(document->notes[i]);

		text_wrap(out, note, 0, width);
		free(note);
	}
	for (unsigned i = 0; i < document->count; i++) {
		const struct info_sheet *sheet = document->sheets[i];

		if (lines)
			fputc('\n', out);
		lines = true;
		if (sheet->begins) {
			fputs("Cache ", out);
			print_line(out, sheet->cache);
			fputc('\n', out);
		}
		if (sheet->title)
			print_line(out, sheet->title);
		print_table(info, sheet, out, width, colour);
	}
}

static void markdown_heading(FILE *out, const char *level, const char *text)
{
	fputs(level, out);
	text_markdown(out, text);
	fputs("\n\n", out);
}

static void markdown_rows(const struct info *info, const struct info_sheet *sheet, FILE *out)
{
	for (unsigned i = 0; i < sheet->columns; i++) {
		if (in_form(&sheet->headings[i], false))
			fprintf(out, "| %s ", sheet->headings[i].text);
	}
	fputs("|\n", out);
	for (unsigned i = 0; i < sheet->columns; i++) {
		if (in_form(&sheet->headings[i], false))
			fputs(sheet->headings[i].flags & INFO_LEFT ? "|:---" : "|---:", out);
	}
	fputs("|\n", out);
	for (unsigned i = 0; i < sheet->count; i++) {
		const struct info_cell *cell = &sheet->cells[i];

		if (in_form(&sheet->headings[i % sheet->columns], false)) {
			char *text = cell->kind == INFO_TEXT
					     ? tool_copy(cell->text ? cell->text : "-")
					     : info_shown(cell, info->options->bytes);

			fputs("| ", out);
			text_markdown(out, text);
			fputc(' ', out);
			free(text);
		}
		if (i % sheet->columns == sheet->columns - 1)
			fputs("|\n", out);
	}
}

static void print_markdown(const struct info *info, const struct info_document *document, FILE *out)
{
	bool lines = document->title || document->notes_count;

	if (document->title)
		markdown_heading(out, "# ", document->title);
	for (unsigned i = 0; i < document->notes_count; i++)
		markdown_heading(out, "", document->notes[i]);
	for (unsigned i = 0; i < document->count; i++) {
		const struct info_sheet *sheet = document->sheets[i];

		if (i && lines)
			fputc('\n', out);
		lines = true;
		if (sheet->begins)
			markdown_heading(out, "## ", sheet->cache);
		if (sheet->title)
			markdown_heading(out, "### ", sheet->title);
		markdown_rows(info, sheet, out);
	}
}

/* ---- for programs ---- */

static void csv_cell(const struct info_cell *cell, FILE *out)
{
	if (cell->kind == INFO_TEXT) {
		text_csv(out, cell->text ? cell->text : "");
	} else if (!isnan(cell->number)) {
		char *digits = info_digits(cell->number);

		fputs(digits, out);
		free(digits);
	}
}

/* Lines begin with the name of the cache where the sheet is about one. */
static void csv_rows(const struct info_sheet *sheet, FILE *out)
{
	const char *comma = sheet->cache ? "," : "";

	if (sheet->cache)
		fputs("cache", out);
	for (unsigned i = 0; i < sheet->columns; i++) {
		if (!in_form(&sheet->headings[i], true))
			continue;
		fprintf(out, "%s%s", comma, sheet->headings[i].key);
		comma = ",";
	}
	for (unsigned i = 0; i < sheet->count; i++) {
		if (i % sheet->columns == 0) {
			comma = sheet->cache ? "," : "";
			fputc('\n', out);
			text_csv(out, sheet->cache ? sheet->cache : "");
		}
		if (!in_form(&sheet->headings[i % sheet->columns], true))
			continue;
		fputs(comma, out);
		comma = ",";
		csv_cell(&sheet->cells[i], out);
	}
	fputc('\n', out);
}

/* CSV has no place for what the reader must know: it is said elsewhere. */
static void print_csv(const struct info_document *document, FILE *out)
{
	for (unsigned i = 0; i < document->notes_count; i++)
		info_say(document->notes[i]);
	for (unsigned i = 0; i < document->count; i++) {
		if (i)
			fputc('\n', out);
		csv_rows(document->sheets[i], out);
	}
}

static json_t *json_text(const char *text)
{
	char *valid = text_utf8(text);
	json_t *string = json_string(valid);

	free(valid);
	return string;
}

static json_t *json_figure(double number)
{
	if (!isfinite(number))
		return json_null();
	if (number == floor(number) && fabs(number) < 9e15)
		return json_integer((json_int_t)number);
	return json_real(number);
}

static json_t *json_cell(const struct info_cell *cell)
{
	if (cell->kind != INFO_TEXT)
		return json_figure(cell->number);
	return cell->text ? json_text(cell->text) : json_null();
}

static json_t *json_rows(const struct info_sheet *sheet)
{
	json_t *rows = json_array(), *row = NULL;

	for (unsigned i = 0; i < sheet->count; i++) {
		const struct info_heading *h = &sheet->headings[i % sheet->columns];

		if (i % sheet->columns == 0) {
			row = json_object();
			json_array_append_new(rows, row);
		}
		if (in_form(h, true))
			json_object_set_new(row, h->key, json_cell(&sheet->cells[i]));
	}
	return rows;
}

/* A sheet of names and values. */
static json_t *json_members(const struct info_sheet *sheet)
{
	json_t *object = json_object();

	for (unsigned i = 0; i + 1 < sheet->count; i += 2) {
		char *name = text_utf8(sheet->cells[i].text);

		json_object_set_new(object, name, json_cell(&sheet->cells[i + 1]));
		free(name);
	}
	return object;
}

static void print_json(const struct info *info, const struct info_document *document, FILE *out)
{
	json_t *top = json_object(), *notes = json_array(), *reports = json_array(), *into = top;

	json_object_set_new(top, "format", json_string("uslub-info"));
	json_object_set_new(top, "version", json_integer(VERSION));
	json_object_set_new(top, "source",
			    json_string(snapshot_source_names[info->snapshot->source]));
	if (document->title)
		json_object_set_new(top, "of", json_text(document->title));
	if (info->snapshot->time)
		json_object_set_new(top, "time", json_figure(info->snapshot->time));
	if (!isnan(info->page_size))
		json_object_set_new(top, "page_size", json_figure(info->page_size));
	for (unsigned i = 0; i < document->notes_count; i++)
		json_array_append_new(notes, json_text(document->notes[i]));
	json_object_set_new(top, "notes", notes);
	for (unsigned i = 0; i < document->count; i++) {
		const struct info_sheet *sheet = document->sheets[i];

		if (sheet->begins) {
			into = json_object();
			json_object_set_new(into, "name", json_text(sheet->cache));
			json_array_append_new(reports, into);
		}
		json_object_set_new(sheet->cache ? into : top, sheet->key,
				    sheet->named ? json_members(sheet) : json_rows(sheet));
	}
	if (json_array_size(reports))
		json_object_set_new(top, "reports", reports);
	else
		json_decref(reports);
	json_dumpf(top, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	json_decref(top);
}

void info_print(const struct info *info, const struct info_document *document, FILE *out,
		unsigned width, bool colour)
{
	switch (info->options->form) {
	case INFO_JSON:
		print_json(info, document, out);
		break;
	case INFO_CSV:
		print_csv(document, out);
		break;
	case INFO_MARKDOWN:
		print_markdown(info, document, out);
		break;
	default:
		print_tables(info, document, out, width, colour);
	}
}
