/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "sheet.h"
#include "text.h"
#include "tool.h"

/* What follows two values. */
static const char *const comparison[] = { "delta", "change" };

/* CSV has bare numbers; people look at Markdown. */
static char *number(const struct sheet *sheet, double value)
{
	if (value != floor(value))
		return tool_format("%.12g", value);
	return sheet->markdown ? numbers_thousands(value) : tool_format("%.0f", value);
}

static void csv_line(const struct sheet *sheet, const char *section, const char *name,
		     const char *const values[], unsigned n)
{
	FILE *out = sheet->out;

	if (sheet->cache) {
		text_csv(out, sheet->cache);
		fputc(',', out);
	}
	text_csv(out, section);
	fputc(',', out);
	text_csv(out, name);
	for (unsigned i = 0; i < n; i++) {
		fputc(',', out);
		text_csv(out, values[i]);
	}
	fputc('\n', out);
}

static void markdown_line(FILE *out, const char *name, const char *const values[], unsigned n)
{
	fputs("| ", out);
	text_markdown(out, name);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, " | %s", values[i]);
	fputs(" |\n", out);
}

void sheet_line(const struct sheet *sheet, const char *section, const char *name,
		const char *const values[], unsigned n)
{
	if (sheet->markdown)
		markdown_line(sheet->out, name, values, n);
	else
		csv_line(sheet, section, name, values, n);
}

void sheet_head(const struct sheet *sheet, const char *name, const char *const values[], unsigned n)
{
	sheet_line(sheet, "section", name, values, n);
	if (!sheet->markdown)
		return;
	fputs("| --- |", sheet->out);
	while (n--)
		fputs(" ---: |", sheet->out);
	fputc('\n', sheet->out);
}

void sheet_heading(const struct sheet *sheet, const char *const labels[])
{
	unsigned n = sheet->columns;
	const char **values = tool_alloc(n + TOOL_COUNT(comparison), sizeof(*values));

	memcpy(values, labels, n * sizeof(*labels));
	if (n == 2) {
		memcpy(values + n, comparison, sizeof(comparison));
		n += TOOL_COUNT(comparison);
	}
	sheet_head(sheet, "metric", values, n);
	free(values);
}

/*
 * Writes a line and frees its values, after which there is room for the comparison.
 * @numbers: what is compared, or NULL when nothing can be
 */
static void put(const struct sheet *sheet, const char *section, const char *name, char *values[],
		const double numbers[])
{
	unsigned n = sheet->columns;

	if (n == 2) {
		values[n++] = numbers ? number(sheet, numbers[1] - numbers[0]) : tool_copy("");
		values[n++] = numbers ? numbers_change(numbers[0], numbers[1]) : tool_copy("");
	}
	sheet_line(sheet, section, name, (const char *const *)values, n);
	for (unsigned i = 0; i < n; i++)
		free(values[i]);
}

static char **new_values(const struct sheet *sheet)
{
	return tool_alloc(sheet->columns + TOOL_COUNT(comparison), sizeof(char *));
}

void sheet_numbers(const struct sheet *sheet, const char *section, const char *name,
		   const double numbers[])
{
	char **values = new_values(sheet);

	for (unsigned i = 0; i < sheet->columns; i++)
		values[i] = number(sheet, numbers[i]);
	put(sheet, section, name, values, numbers);
	free(values);
}

static void put_verdicts(const struct sheet *sheet, const struct report_row *row)
{
	char **values = new_values(sheet);

	for (unsigned i = 0; i < sheet->columns; i++)
		values[i] = tool_copy(row->cells[i].verdict ? row->cells[i].verdict : "");
	put(sheet, "verdict", row->name, values, NULL);
	free(values);
}

void sheet_report(const struct sheet *sheet, const struct report *report)
{
	static const char *const sections[REPORT_SECTIONS] = {
		[REPORT_STATISTICS] = "statistic",   [REPORT_DERIVED] = "derived",
		[REPORT_TRANSITIONS] = "transition", [REPORT_CHECKS] = "check",
		[REPORT_SIMULATION] = "simulation",  [REPORT_LATENCY] = "latency",
	};
	double *numbers = tool_alloc(sheet->columns, sizeof(*numbers));
	char **values = new_values(sheet);

	for (unsigned k = 0; k < report->count; k++) {
		const struct report_row *row = &report->rows[k];
		bool compares = row->section != REPORT_CHECKS && report_compares(report, row);

		for (unsigned i = 0; i < sheet->columns; i++) {
			const struct report_cell *c = &row->cells[i];

			numbers[i] = c->value;
			values[i] = c->absent || c->missing ? tool_copy("")
							    : number(sheet, c->value);
		}
		put(sheet, sections[row->section], row->name, values, compares ? numbers : NULL);
		if (row->section == REPORT_CHECKS)
			put_verdicts(sheet, row);
	}
	free(values);
	free(numbers);
}
