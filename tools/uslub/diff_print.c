/* SPDX-License-Identifier: MIT */
/*
 * What `uslub diff` prints.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "diff.h"
#include "sheet.h"
#include "text.h"
#include "tool.h"

/* ---- For people ---- */

/* Prints a text of others after a word of ours, in as many lines as it takes. */
static void print_words(FILE *out, unsigned width, const char *word, const char *text)
{
	char *shown = text_shown(text);

	fprintf(out, "%s ", word);
	text_wrap(out, shown, (unsigned)strlen(word) + 1, width);
	free(shown);
}

static char *names(const char *const list[], unsigned n)
{
	char *text = tool_copy("");

	for (unsigned i = 0; i < n; i++) {
		char *longer = tool_format("%s%s%s", text, i ? ", " : "", list[i]);

		free(text);
		text = longer;
	}
	return text;
}

static void print_notes(const struct diff *d, FILE *out, unsigned width)
{
	for (unsigned i = 0; i < d->notes_count; i++)
		print_words(out, width, "note:", d->notes[i]);
}

/* The caches that only one side has. */
static void print_only(const struct diff *d, FILE *out, unsigned width)
{
	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		const struct diff_side *side = &d->sides[i];
		char *word = tool_format("only %s:", diff_labels[i]);
		char *text = names(side->only, side->only_count);

		if (side->only_count)
			print_words(out, width, word, text);
		free(text);
		free(word);
	}
}

/* What was read, and the time between the readings where it is known. */
static void print_title(const struct diff *d, FILE *out, unsigned width)
{
	const char *before = d->sides[DIFF_BEFORE].name, *after = d->sides[DIFF_AFTER].name;
	double seconds = d->seconds;
	char *text;

	if (d->options->command) {
		text = tool_format("%s, before and after '%s' (%.1f s)", before,
				   d->options->command[0], seconds);
		print_words(out, width, "what changed in", text);
	} else {
		text = tool_format(seconds == 0 ? "%s" : "%s (%.1f s %s)", after, fabs(seconds),
				   seconds > 0 ? "later" : "earlier");
		print_words(out, width, "before:", before);
		print_words(out, width, "after: ", text);
	}
	if (!d->options->caches_count)
		fprintf(out, "%u of %u cache%s changed\n", d->pairs_count, d->common,
			d->common == 1 ? "" : "s");
	free(text);
}

static void print_name(const struct snapshot_cache *c, FILE *out, unsigned width)
{
	char *aliases = names((const char *const *)c->aliases, c->aliases_count);
	char *text = tool_format(c->aliases_count ? "%s (also %s)" : "%s", c->name, aliases);
	char *shown = text_shown(text);

	text_wrap(out, shown, 0, width);
	free(aliases);
	free(text);
	free(shown);
}

void diff_text(const struct diff *d, FILE *out, unsigned width, bool colour)
{
	print_title(d, out, width);
	print_notes(d, out, width);
	for (unsigned i = 0; i < d->pairs_count; i++) {
		fputc('\n', out);
		print_name(d->pairs[i].caches[DIFF_AFTER], out, width);
		report_text(&d->pairs[i].rows, diff_labels, out, width, colour ? "\033[1m" : "",
			    colour ? "\033[0m" : "");
	}
	if (d->sides[DIFF_BEFORE].only_count || d->sides[DIFF_AFTER].only_count)
		fputc('\n', out);
	print_only(d, out, width);
}

void diff_warnings(const struct diff *d, FILE *out)
{
	print_notes(d, out, 0);
	print_only(d, out, 0);
}

/* ---- JSON ---- */

static json_t *json_text(const char *text)
{
	char *valid = text_utf8(text);
	json_t *string = json_string(valid);

	free(valid);
	return string;
}

/* Whole numbers as such, as long as a double tells them from their neighbours. */
static json_t *json_value(double value)
{
	if (value == floor(value) && fabs(value) < 9e15)
		return json_integer((json_int_t)value);
	return json_real(value);
}

/* Rounded as in the table; null for "new". */
static json_t *json_change(double before, double after)
{
	if (before == after)
		return json_integer(0);
	if (before == 0)
		return json_null();
	return json_real(round(1e4 * (after - before) / before) / 100);
}

static json_t *json_row(const struct report *r, const struct report_row *row)
{
	const struct report_cell *before = &row->cells[DIFF_BEFORE];
	const struct report_cell *after = &row->cells[DIFF_AFTER];
	bool compares = report_compares(r, row);
	json_t *object = json_object();

	json_object_set_new(object, "before",
			    before->missing ? json_null() : json_value(before->value));
	json_object_set_new(object, "after",
			    after->missing ? json_null() : json_value(after->value));
	json_object_set_new(object, "delta",
			    compares ? json_value(after->value - before->value) : json_null());
	json_object_set_new(object, "change",
			    compares ? json_change(before->value, after->value) : json_null());
	return object;
}

/* A row's name as a word: "page_allocator_churn", without what it says in brackets. */
static char *member(const char *name)
{
	char *word = tool_alloc(2 * strlen(name) + 1, 1), *out = word;

	for (const char *c = name; *c && strncmp(c, " (", 2); c++) {
		if (!strncmp(c, "->", 2)) {
			out = stpcpy(out, "_to_");
			c++;
		} else {
			*out++ = *c;
			if (*c == ' ')
				out[-1] = '_';
		}
	}
	return word;
}

/* The rows of a section; NULL when there are none. */
static json_t *json_section(const struct report *r, enum report_section section)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < r->count; i++) {
		const struct report_row *row = &r->rows[i];
		char *name;

		if (row->section != section)
			continue;
		/* The names of statistics are words already, whatever a newer kernel calls them. */
		name = section == REPORT_STATISTICS ? text_utf8(row->name) : member(row->name);
		json_object_set_new(object, name, json_row(r, row));
		free(name);
	}
	return object;
}

static json_t *json_pair(const struct diff_pair *pair)
{
	json_t *object = json_object();
	const struct report *r = &pair->rows;

	json_object_set_new(object, "name", json_text(pair->caches[DIFF_AFTER]->name));
	json_object_set_new(object, "metrics", json_section(r, REPORT_STATISTICS));
	json_object_set_new(object, "derived", json_section(r, REPORT_DERIVED));
	json_object_set_new(object, "transitions", json_section(r, REPORT_TRANSITIONS));
	return object;
}

static json_t *json_names(const char *const list[], unsigned n)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(array, json_text(list[i]));
	return array;
}

void diff_json(const struct diff *d, FILE *out)
{
	json_t *document = json_object(), *caches = json_array();

	json_object_set_new(document, "format", json_string("uslub-diff"));
	json_object_set_new(document, "version", json_integer(1));
	if (d->seconds != 0)
		json_object_set_new(document, "seconds", json_real(round(1e3 * d->seconds) / 1e3));
	for (unsigned i = 0; i < d->pairs_count; i++)
		json_array_append_new(caches, json_pair(&d->pairs[i]));
	json_object_set_new(document, "caches", caches);
	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		const struct diff_side *side = &d->sides[i];
		char *key = tool_format("only_%s", diff_labels[i]);

		json_object_set_new(document, key, json_names(side->only, side->only_count));
		free(key);
	}
	json_object_set_new(document, "notes",
			    json_names((const char *const *)d->notes, d->notes_count));
	json_dumpf(document, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	json_decref(document);
}

/* ---- CSV and Markdown ---- */

void diff_sheet(const struct diff *d, FILE *out, bool markdown)
{
	struct sheet sheet = {
		.out = out,
		.markdown = markdown,
		.columns = DIFF_SIDES,
		.cache = "cache",
	};

	if (!markdown)
		sheet_heading(&sheet, diff_labels);
	for (unsigned i = 0; i < d->pairs_count; i++) {
		sheet.cache = d->pairs[i].caches[DIFF_AFTER]->name;
		if (markdown) {
			fputs(i ? "\n### " : "### ", out);
			text_markdown(out, sheet.cache);
			fputs("\n\n", out);
			sheet_heading(&sheet, diff_labels);
		}
		sheet_report(&sheet, &d->pairs[i].rows);
	}
}
