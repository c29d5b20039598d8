/* SPDX-License-Identifier: MIT */
/*
 * `uslub diff`: what its files share.
 *
 *   diff.c        the command line, and the order of all this
 *   diff_pairs.c  which caches are compared, and by which rows
 *   diff_print.c  the table, JSON, CSV, Markdown
 */
#ifndef TOOLS_DIFF_H
#define TOOLS_DIFF_H

#include <stdbool.h>
#include <stdio.h>
#include "report.h"
#include "source.h"

/*
 * struct diff_options - the command line, checked
 * @paths: what is compared; or
 * @source, @command: what is read before and after a command
 * @caches: names or patterns of those that are asked for; none: all in which something changed
 * @all: also rows that are 0 on both sides
 * @output: a file, or NULL for standard output
 */
struct diff_options {
	const char **paths;
	unsigned paths_count;
	struct source source;
	char **command;
	const char **caches;
	unsigned caches_count;
	bool all;
	enum report_format format;
	const char *output;
};

/*
 * struct diff_side - before, or after
 * @name: of its source
 * @only: names of the caches that the other side does not have
 */
struct diff_side {
	struct snapshot *snapshot;
	char *name;
	const char **only;
	unsigned only_count;
};

enum {
	DIFF_BEFORE,
	DIFF_AFTER,
	DIFF_SIDES,
};

extern const char *const diff_labels[DIFF_SIDES];

/*
 * struct diff_pair - a cache of both sides, and what there is to say about it
 */
struct diff_pair {
	const struct snapshot_cache *caches[DIFF_SIDES];
	struct report rows;
};

/*
 * struct diff - all of a comparison
 * @pairs: those to be shown
 * @common: caches that both sides have, among those that were asked for
 * @notes: what the reader must know
 * @seconds: from one reading to the other, or 0 when that is not known
 */
struct diff {
	const struct diff_options *options;
	struct diff_side sides[DIFF_SIDES];
	struct diff_pair *pairs;
	unsigned pairs_count;
	unsigned common;
	char **notes;
	unsigned notes_count;
	double seconds;
};

/* diff_pairs - fill in all but options and snapshots. Returns 0, or an exit status after a message. */
int diff_pairs(struct diff *d);
void diff_free(struct diff *d);

/*
 * diff_text and the others - what the format says
 * diff_warnings - what the table ends with and has no place in a document for programs
 */
void diff_text(const struct diff *d, FILE *out, unsigned width, bool colour);
void diff_json(const struct diff *d, FILE *out);
void diff_sheet(const struct diff *d, FILE *out, bool markdown);
void diff_warnings(const struct diff *d, FILE *out);

#endif /* TOOLS_DIFF_H */
