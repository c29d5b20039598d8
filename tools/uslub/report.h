/* SPDX-License-Identifier: MIT */
/*
 * Reports: rows of numbers, with a column for each thing that is compared.
 *
 * `uslub bench` has a column for each run, `uslub diff` one before and one after. Which rows there are is
 * theirs to say; here is how rows are kept, what is derived from statistics, and how it looks to people.
 * sheet.h writes the same for programs.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

enum report_format {
	REPORT_TABLE,
	REPORT_JSON,
	REPORT_CSV,
	REPORT_MARKDOWN,
};

/* report_arg_format - read the argument of --format; ends the program with a message when it is none */
void report_arg_format(struct argp_state *state, const char *arg, enum report_format *format);

/* Widths of a column of long names and of the rule under a heading, for tables that stand beside these. */
#define REPORT_NAME_WIDTH 45u
#define REPORT_RULE_WIDTH 93u

/* The parts of a report, in the order in which they are printed. */
enum report_section {
	REPORT_STATISTICS,
	REPORT_DERIVED,
	REPORT_TRANSITIONS,
	REPORT_CHECKS,
	REPORT_SIMULATION,
	REPORT_LATENCY,
	REPORT_SECTIONS,
};

/*
 * struct report_cell - a number in a report, with a word or alone
 * @share: of the sum of a section, or 0
 * @verdict: of a check: "ok", "FAIL"; NULL for none
 * @absent: there is no such number, as of a share of nothing
 * @missing: what the column is about has nothing of the kind, so that the row compares nothing
 */
struct report_cell {
	double value;
	double share;
	const char *verdict;
	bool absent;
	bool missing;
};

/*
 * struct report_row - a line of a report: a name and a cell for each column
 * @decimals: of its numbers
 */
struct report_row {
	enum report_section section;
	char *name;
	unsigned decimals;
	struct report_cell *cells;
};

/*
 * struct report - the rows
 * @columns: cells of every row; to be set before the first is added. Two are compared.
 */
struct report {
	unsigned columns;
	struct report_row *rows;
	unsigned count;
};

/*
 * report_add - add a row; returns its cells, all 0, for the caller to fill
 * @name: is copied
 *
 * report_drop_zeros takes out the rows that are 0, or nothing, in every column; report_free frees all.
 */
struct report_cell *report_add(struct report *r, enum report_section section, unsigned decimals,
			       const char *name);
void report_drop_zeros(struct report *r);
void report_free(struct report *r);

/*
 * report_add_churn       - add the row of REPORT_DERIVED that tells how many slabs went between the cache
 *                          and the page allocator
 * report_add_transitions - add the rows of REPORT_TRANSITIONS: what frees made of slabs, and the share
 *                          of each
 * @values: of each column, the USLUB_STAT_COUNT statistics; NAN for one that is not known
 *
 * Nothing is added when no column has the statistics.
 */
void report_add_churn(struct report *r, const double *const values[]);
void report_add_transitions(struct report *r, const double *const values[]);

/*
 * report_compares - whether a row has two numbers of which one can be taken from the other
 */
bool report_compares(const struct report *r, const struct report_row *row);

/*
 * report_text - print a table for each section that has rows, with an empty line before it
 * @labels: head the columns
 * @width: columns that there are at most, or 0
 * @bold, @plain: printed around the heading
 */
void report_text(const struct report *r, const char *const labels[], FILE *out, unsigned width,
		 const char *bold, const char *plain);

#endif /* TOOLS_REPORT_H */
