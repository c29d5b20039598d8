/* SPDX-License-Identifier: MIT */
/*
 * `uslub info`: what the caches of a process or of the kernel hold, as slabinfo tells it of the
 * kernel's.
 *
 *   info.c              the command: read, choose, report
 *   info_options.c      its command line
 *   info_model.c        which caches, in which order, and what can be computed of them
 *   info_columns.c      the columns of lists, and the lists
 *   info_report.c       everything about one cache
 *   info_totals.c       everything about all of them together
 *   info_sheet.c        sheets: what is reported, before it has a form
 *   info_print.c        sheets as tables, CSV, Markdown and JSON
 *   info_openmetrics.c  all values for a monitoring system
 *   info_control.c      the two things that can be asked of a kernel's cache
 *
 * A report is a list of sheets. Each is made once, of numbers and texts; the form decides how they
 * look. What is not known is NAN, and shown as "-" or left out, never as 0.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <math.h>
#include <regex.h>
#include "snapshot.h"
#include "source.h"

/* What is reported. */
enum info_view {
	INFO_AUTO, /* the list, or the report where an expression matches one cache */
	INFO_LIST,
	INFO_ACTIVE,
	INFO_ALIASES,
	INFO_NODES,
	INFO_CPUS,
	INFO_REPORT,
	INFO_TOTALS,
	INFO_EXTENDED,
	INFO_SHRINK,
	INFO_VALIDATE,
	INFO_VIEWS
};

enum info_form { INFO_TABLE, INFO_JSON, INFO_CSV, INFO_MARKDOWN, INFO_OPENMETRICS, INFO_FORMS };

enum info_sort {
	INFO_BY_NAME,
	INFO_BY_ACTIVITY,
	INFO_BY_LOSS,
	INFO_BY_PARTIAL,
	INFO_BY_SIZE,
};

/*
 * struct info_options - the command line
 * @pattern: the regular expression, or NULL
 * @lines: of a list, 0: all
 * @inverted: the other way round: the order, and aliases
 * @only_empty, @with_empty: caches without slabs only, or too
 * @unreclaimable: only caches whose memory the kernel does not count as reclaimable
 * @first_alias: a cache without a name of its own is called by its first alias, not only where that
 *	is its only one
 * @single_alias: aliases that are the only one of their cache are listed too
 * @bytes: sizes are printed in bytes
 * @labels: "name=value", further labels of every sample
 */
struct info_options {
	struct source source;
	const char *pattern;
	enum info_view view;
	enum info_form form;
	enum info_sort sort;
	const char *output;
	unsigned lines;
	bool inverted;
	bool only_empty, with_empty;
	bool unreclaimable;
	bool first_alias, single_alias;
	bool bytes;
	char **labels;
	unsigned labels_count;
};

/*
 * struct info - what is reported on
 * @caches: those that were chosen, in their order
 * @page_size: bytes, NAN: not known
 * @matched: caches that the expression matched
 * @view: what is shown, no longer INFO_AUTO
 */
struct info {
	const struct info_options *options;
	struct snapshot *snapshot;
	const struct snapshot_cache **caches;
	unsigned count;
	unsigned matched;
	double page_size;
	enum info_view view;
};

/* info_options.c: reads the command line. Ends the program with a message when it is wrong. */
void info_parse(int argc, char **argv, struct info_options *options);

/*
 * struct info_row - what a line is about: a cache, or what a node or CPU has of it
 */
enum info_place {
	INFO_WHOLE,
	INFO_NODE,
	INFO_CPU,
};

struct info_row {
	const struct info *info;
	const struct snapshot_cache *cache;
	enum info_place place;
	unsigned index;
};

/*
 * info_model.c
 *
 * info_choose - fill in @info but for its options and snapshot; returns an exit status, after a
 *		message
 * info_sort   - put the chosen caches into an order; those without the number come last
 * info_name   - what a cache is called
 * info_flags  - a letter for each flag of a cache that is on, for the caller to free
 * info_value  - a value of a row by its name; attributes are the same for all rows of a cache
 * info_fact   - a number that is known about the place
 * info_places - the nodes or CPUs that the values of @count caches have parts of, in order; returns
 *		how many
 */
int info_choose(struct info *info);
void info_sort(struct info *info, enum info_sort sort);
const char *info_name(const struct info *info, const struct snapshot_cache *c);
char *info_flags(const struct snapshot_cache *c);
double info_value(const struct info_row *row, const char *name);
double info_fact(const struct info *info, const char *name);
unsigned info_places(const struct snapshot_cache *caches, unsigned count, enum info_place place,
		     unsigned **indices);

/*
 * Numbers that are computed, NAN where something needed for them is not known. Slabs count as of the
 * preferred order, since nothing tells which are not.
 *
 * info_space  - bytes of all slabs
 * info_used   - bytes that users asked for in them
 * info_loss   - what is between the two
 * info_alloc, info_free - how often objects were allocated and freed
 */
double info_space(const struct info_row *row);
double info_used(const struct info_row *row);
double info_loss(const struct info_row *row);
double info_alloc(const struct info_row *row);
double info_free(const struct info_row *row);
double info_partial_percent(const struct info_row *row);
double info_used_percent(const struct info_row *row);

/*
 * struct info_measure - a number of a row: a value by its name, or what a function computes
 * info_measure - the number
 */
struct info_measure {
	const char *stat;
	double (*number)(const struct info_row *row);
};

double info_measure(const struct info_row *row, const struct info_measure *measure);

/* info_ratio - @part in per cent of @whole, NAN when that is nothing */
double info_ratio(double part, double whole);

/*
 * struct info_heading - a column of a sheet
 * @text: over the column of a table
 * @key: in JSON and CSV
 * @width: in a table with enough room
 */
enum info_column_flags {
	INFO_ONLY_SHOWN = 1, /* not in JSON and CSV, which have its parts */
	INFO_ONLY_DATA = 2,  /* the other way round */
	INFO_OPTIONAL = 4,   /* goes when a table is too wide */
	INFO_LEFT = 8,	     /* text */
};

struct info_heading {
	const char *text;
	const char *key;
	unsigned width;
	unsigned flags;
};

enum info_kind {
	INFO_TEXT,
	INFO_COUNT,
	INFO_BYTES,
	INFO_EXACT,   /* a number that people may add up */
	INFO_PERCENT, /* whole, and 100 only where it is */
	INFO_SHARE,   /* of something that adds up to 100 */
	INFO_NS,
	INFO_NS_BELOW, /* the upper bound of what was measured */
};

struct info_cell {
	enum info_kind kind;
	char *text; /* of INFO_TEXT; NULL: not known */
	double number;
};

/*
 * struct info_sheet - a table
 * @key: in JSON
 * @title: over it, may be NULL
 * @cache: the name of the cache that it is about, or NULL; several caches may have the same
 * @begins: it is the first one about its cache
 * @named: each row is a name and a value: JSON has them as members of one object
 */
struct info_sheet {
	char *key;
	char *title;
	char *cache;
	bool begins;
	bool named;
	struct info_heading *headings;
	unsigned columns;
	struct info_cell *cells;
	unsigned count;
};

/*
 * struct info_document - a whole report
 * @title: of what, or NULL
 * @notes: what the reader must know first
 */
struct info_document {
	char *title;
	char **notes;
	unsigned notes_count;
	struct info_sheet **sheets;
	unsigned count;
};

/*
 * info_sheet.c
 *
 * info_sheet  - begin another sheet; @title and @cache may be NULL
 * info_column - add a column, before any cell
 * info_text   - the next cell, row by row; the text, which may be NULL, becomes the sheet's
 * info_number - the next cell
 * info_shown  - how a cell looks in a table, for the caller to free; @bytes: sizes are exact
 * info_digits - a number for a program, exact where it is whole
 * info_note   - add a note
 * info_say    - say on standard error what a form has no place for
 * info_document_free - and away with it
 */
struct info_sheet *info_sheet(struct info_document *document, const char *key, const char *title,
			      const char *cache);
void info_column(struct info_sheet *sheet, const char *text, const char *key, unsigned width,
		 unsigned flags);
void info_text(struct info_sheet *sheet, char *text);
void info_number(struct info_sheet *sheet, enum info_kind kind, double number);
char *info_shown(const struct info_cell *cell, bool bytes);
char *info_digits(double number);
void info_note(struct info_document *document, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void info_say(const char *note);
void info_document_free(struct info_document *document);

/*
 * Each adds its sheets.
 *
 * info_list   - a line for each cache, by info_view
 * info_parts  - a line for each node or CPU of each cache, or of one; returns how many lines. There
 *		is no sheet without any
 * info_report - all about one cache
 * info_memory - the memory of their process, by what it is for
 * info_totals - all about the chosen ones together, and that
 */
void info_list(const struct info *info, struct info_document *document, enum info_view view,
	       const char *key, const char *title);
unsigned info_parts(const struct info *info, struct info_document *document, enum info_place place,
		    const struct snapshot_cache *only);
void info_report(const struct info *info, struct info_document *document,
		 const struct snapshot_cache *c);
void info_memory(const struct info *info, struct info_document *document);
void info_totals(const struct info *info, struct info_document *document);

/*
 * info_page - print a page about a process: what it needs, and its largest and busiest caches
 * @title: over it; becomes the function's
 *
 * Returns 0 or an exit status, after a message.
 */
int info_page(struct snapshot *snapshot, char *title, FILE *out);

/* info_print.c: a document in any form but that of OpenMetrics */
void info_print(const struct info *info, const struct info_document *document, FILE *out,
		unsigned width, bool colour);

/* info_openmetrics.c */
void info_openmetrics(const struct info *info, FILE *out);

/* info_control.c: asks the running kernel to shrink or validate the chosen caches; an exit status */
int info_control(const struct info *info);

#endif /* TOOLS_INFO_H */
