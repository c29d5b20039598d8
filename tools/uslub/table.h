/* SPDX-License-Identifier: MIT */
/*
 * Tables of text: a name at the left, then columns set flush right.
 */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct table;

/*
 * table_new - an empty table
 * @columns: how many
 * @widths: how wide each should be where there is room
 *
 * table_free frees it with all its cells.
 */
struct table *table_new(unsigned columns, const unsigned widths[]);
void table_free(struct table *table);

/*
 * table_optional - the column may be left out when the table does not fit otherwise
 */
void table_optional(struct table *table, unsigned column);

/*
 * table_left - the column is text, and set flush left as the first one is
 */
void table_left(struct table *table, unsigned column);

/*
 * table_tight - one blank between columns is enough, where they are as wide as what they hold
 */
void table_tight(struct table *table);

/*
 * table_add - the next cell, row by row; the first row is the heading
 * @text: becomes the table's
 */
void table_add(struct table *table, char *text);

/*
 * table_print - print the table in at most @width columns, or in as many as it likes when that is 0
 * @rule: whether a line separates the heading, as long as the table or @rule_width where it has its
 *        preferred width
 * @heading_on, @heading_off: printed around the heading
 *
 * A table that does not fit is narrowed: first its columns to what they hold, then the optional
 * ones go. What still does not fit is printed as it is, since a figure that is cut off is worse
 * than a long line.
 */
void table_print(const struct table *table, FILE *out, unsigned width, unsigned rule_width,
		 const char *heading_on, const char *heading_off);

#endif /* TOOLS_TABLE_H */
