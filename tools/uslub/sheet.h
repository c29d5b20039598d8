/* SPDX-License-Identifier: MIT */
/*
 * Reports for programs: lines of CSV, or of a table of Markdown. A line is a section, a name and values;
 * two values are followed by their difference and change. Markdown leaves the section out.
 */
#ifndef TOOLS_SHEET_H
#define TOOLS_SHEET_H

#include <stdbool.h>
#include <stdio.h>
#include "report.h"

/*
 * struct sheet - where lines go
 * @columns: values of a line
 * @cache: begins every line of CSV, the heading's included; NULL for lines that begin with the section
 */
struct sheet {
	FILE *out;
	bool markdown;
	unsigned columns;
	const char *cache;
};

/*
 * sheet_heading - begin a table of numbers
 * @labels: head the columns
 *
 * sheet_numbers - a line of numbers
 * sheet_report  - a line for each row, and another with the verdicts of one that has some
 */
void sheet_heading(const struct sheet *sheet, const char *const labels[]);
void sheet_numbers(const struct sheet *sheet, const char *section, const char *name,
		   const double numbers[]);
void sheet_report(const struct sheet *sheet, const struct report *report);

/*
 * For tables of another form.
 *
 * sheet_head - begin one
 * @name: heads the names
 *
 * sheet_line - a line of texts
 * @n: how many
 */
void sheet_head(const struct sheet *sheet, const char *name, const char *const values[],
		unsigned n);
void sheet_line(const struct sheet *sheet, const char *section, const char *name,
		const char *const values[], unsigned n);

#endif /* TOOLS_SHEET_H */
