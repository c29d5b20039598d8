/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uslub/uslub.h>
#include "numbers.h"
#include "report.h"
#include "table.h"
#include "text.h"
#include "tool.h"

/*
 * The tables look as those that before and after a patch are usually shown in: a name of 24
 * columns, 18 for each number and 12 for the change, under a rule of REPORT_RULE_WIDTH.
 */
#define STAT_WIDTH   24u
#define NUMBER_WIDTH 18u
#define SHARE_WIDTH  24u
#define CHANGE_WIDTH 12u

void report_arg_format(struct argp_state *state, const char *arg, enum report_format *format)
{
	static const char *const names[] = {
		[REPORT_TABLE] = "table",
		[REPORT_JSON] = "json",
		[REPORT_CSV] = "csv",
		[REPORT_MARKDOWN] = "markdown",
	};

	for (unsigned i = 0; i < TOOL_COUNT(names); i++) {
		if (!strcmp(names[i], arg)) {
			*format = (enum report_format)i;
			return;
		}
	}
	argp_error(state, "--format takes table, json, csv or markdown, not '%s'", arg);
}

/* ---- Rows ---- */

struct report_cell *report_add(struct report *r, enum report_section section, unsigned decimals,
			       const char *name)
{
	struct report_row *row;

	r->rows = tool_grow(r->rows, r->count + 1, sizeof(*r->rows));
	row = &r->rows[r->count++];
	row->section = section;
	row->name = tool_copy(name);
	row->decimals = decimals;
	row->cells = tool_alloc(r->columns, sizeof(*row->cells));
	return row->cells;
}

static void free_row(struct report_row *row)
{
	free(row->cells);
	free(row->name);
}

void report_free(struct report *r)
{
	for (unsigned i = 0; i < r->count; i++)
		free_row(&r->rows[i]);
	free(r->rows);
	r->rows = NULL;
	r->count = 0;
}

void report_drop_zeros(struct report *r)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < r->count; i++) {
		bool something = false;

		for (unsigned k = 0; k < r->columns; k++)
			something |= r->rows[i].cells[k].value != 0;
		if (something)
			r->rows[kept++] = r->rows[i];
		else
			free_row(&r->rows[i]);
	}
	r->count = kept;
}

bool report_compares(const struct report *r, const struct report_row *row)
{
	return r->columns == 2 && !row->cells[0].missing && !row->cells[1].missing;
}

/* ---- What follows from statistics ---- */

struct named_stat {
	const char *name;
	enum uslub_stat which;
};

static const struct named_stat transitions[] = {
	{ "partial->partial", USLUB_STAT_partial_to_partial },
	{ "full->partial", USLUB_STAT_full_to_partial },
	{ "partial->empty", USLUB_STAT_partial_to_empty },
	{ "full->empty", USLUB_STAT_full_to_empty },
};

static double churn(const double values[])
{
	return values[USLUB_STAT_alloc_slab] + values[USLUB_STAT_free_slab];
}

/* NAN when one of them is not known. */
static double all_transitions(const double values[])
{
	double sum = 0;

	for (unsigned i = 0; i < TOOL_COUNT(transitions); i++)
		sum += values[transitions[i].which];
	return sum;
}

/* Whether any column has the statistics that a sum is made of. */
static bool known(const struct report *r, const double *const values[],
		  double (*sum)(const double values[]))
{
	for (unsigned i = 0; i < r->columns; i++) {
		if (!isnan(sum(values[i])))
			return true;
	}
	return false;
}

void report_add_churn(struct report *r, const double *const values[])
{
	struct report_cell *cells;

	if (!known(r, values, churn))
		return;
	cells = report_add(r, REPORT_DERIVED, 0, "page allocator churn (alloc_slab + free_slab)");
	for (unsigned i = 0; i < r->columns; i++) {
		double sum = churn(values[i]);

		if (isnan(sum))
			cells[i].absent = cells[i].missing = true;
		else
			cells[i].value = sum;
	}
}

void report_add_transitions(struct report *r, const double *const values[])
{
	if (!known(r, values, all_transitions))
		return;
	for (unsigned k = 0; k < TOOL_COUNT(transitions); k++) {
		struct report_cell *cells = report_add(r, REPORT_TRANSITIONS, 0,
						       transitions[k].name);

		for (unsigned i = 0; i < r->columns; i++) {
			double sum = all_transitions(values[i]);

			if (isnan(sum)) {
				cells[i].absent = cells[i].missing = true;
				continue;
			}
			cells[i].value = values[i][transitions[k].which];
			cells[i].share = sum > 0 ? cells[i].value / sum : 0;
		}
	}
}

/* ---- Text ---- */

/*
 * struct block - how a section is printed
 * @title: heads the names
 * @delta, @change: columns that follow two values
 */
struct block {
	const char *title;
	unsigned name_width;
	unsigned value_width;
	bool delta;
	bool change;
};

static const struct block blocks[REPORT_SECTIONS] = {
	[REPORT_STATISTICS] = { "metric", STAT_WIDTH, NUMBER_WIDTH, true, true },
	[REPORT_DERIVED] = { "derived", REPORT_NAME_WIDTH, NUMBER_WIDTH, false, true },
	[REPORT_TRANSITIONS] = { "transitions", STAT_WIDTH, SHARE_WIDTH, false, true },
	[REPORT_CHECKS] = { "check", REPORT_NAME_WIDTH, NUMBER_WIDTH, false, false },
	[REPORT_SIMULATION] = { "simulation", REPORT_NAME_WIDTH, NUMBER_WIDTH, false, true },
	[REPORT_LATENCY] = { "latency (ns)", REPORT_NAME_WIDTH, NUMBER_WIDTH, false, true },
};

static char *cell_text(const struct report_row *row, const struct report_cell *cell)
{
	char *number, *text;

	if (cell->absent || cell->missing)
		return tool_copy("-");
	number = row->decimals ? tool_format("%.*f", (int)row->decimals, cell->value)
			       : numbers_thousands(cell->value);
	if (cell->verdict)
		text = tool_format("%s %s", number, cell->verdict);
	else if (row->section == REPORT_TRANSITIONS)
		text = tool_format("%s %5.1f%%", number, 100 * cell->share);
	else
		return number;
	free(number);
	return text;
}

static struct table *new_table(const struct report *r, const struct block *block)
{
	unsigned *widths = tool_alloc(r->columns + 3, sizeof(*widths));
	unsigned columns = 1 + r->columns;
	bool two = r->columns == 2;
	struct table *table;

	widths[0] = block->name_width;
	for (unsigned i = 0; i < r->columns; i++)
		widths[1 + i] = block->value_width;
	if (two && block->delta)
		widths[columns++] = NUMBER_WIDTH;
	if (two && block->change)
		widths[columns++] = CHANGE_WIDTH;
	table = table_new(columns, widths);
	free(widths);
	if (two && block->delta)
		table_optional(table, 1 + r->columns);
	return table;
}

static void add_heading(struct table *table, const struct report *r, const struct block *block,
			const char *const labels[])
{
	bool two = r->columns == 2;

	table_add(table, tool_copy(block->title));
	for (unsigned i = 0; i < r->columns; i++)
		table_add(table, tool_copy(labels[i]));
	if (two && block->delta)
		table_add(table, tool_copy("delta"));
	if (two && block->change)
		table_add(table, tool_copy("change"));
}

static void add_row(struct table *table, const struct report *r, const struct block *block,
		    const struct report_row *row)
{
	const struct report_cell *cells = row->cells;
	bool two = r->columns == 2, compares = report_compares(r, row);

	table_add(table, text_shown(row->name));
	for (unsigned i = 0; i < r->columns; i++)
		table_add(table, cell_text(row, &cells[i]));
	if (two && block->delta)
		table_add(table, compares ? numbers_thousands(cells[1].value - cells[0].value)
					  : tool_copy("-"));
	if (two && block->change)
		table_add(table, compares ? numbers_change(cells[0].value, cells[1].value)
					  : tool_copy("-"));
}

static bool has_section(const struct report *r, enum report_section section)
{
	for (unsigned i = 0; i < r->count; i++) {
		if (r->rows[i].section == section)
			return true;
	}
	return false;
}

void report_text(const struct report *r, const char *const labels[], FILE *out, unsigned width,
		 const char *bold, const char *plain)
{
	for (unsigned section = 0; section < REPORT_SECTIONS; section++) {
		const struct block *block = &blocks[section];
		struct table *table;

		if (!has_section(r, section))
			continue;
		table = new_table(r, block);
		add_heading(table, r, block, labels);
		for (unsigned i = 0; i < r->count; i++) {
			if (r->rows[i].section == section)
				add_row(table, r, block, &r->rows[i]);
		}
		fputc('\n', out);
		table_print(table, out, width, r->columns == 2 ? REPORT_RULE_WIDTH : 1, bold,
			    plain);
		table_free(table);
	}
}
