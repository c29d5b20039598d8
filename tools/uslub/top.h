/* SPDX-License-Identifier: MIT */
/*
 * `uslub top`: what caches do, now and again.
 *
 *   top.c         options, tables on standard output, what a reading changes
 *   top_model.c   two readings make rates, caches make rows; knows no terminal
 *   top_text.c    figures and names as text of a given width
 *   top_reader.c  readings in a thread of their own, and waiting for them, for keys and for signals
 *   top_screen.c  the screen: what keys do
 *   top_draw.c    the screen: what is on it
 *   top_terminal.c  the terminal below it
 *
 * A reading can take long: a kernel has tens of thousands of files. Keys must not wait for it, which is why
 * it has a thread.
 */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include "snapshot.h"
#include "source.h"

/* ---- top_model.c ---- */

/*
 * struct top_cache - a cache in a sample
 * @at: when its figures were true, in seconds; a copy is older than its sample
 * @rates: how much each of its values grew per second; NAN: not a counter, or nothing to compare with
 */
struct top_cache {
	const struct snapshot_cache *cache;
	double at;
	double *rates;
};

/*
 * struct top_sample - a snapshot with rates
 * @at: when it was taken, in seconds of any clock
 * @caches: as many as the snapshot has, in its order
 */
struct top_sample {
	struct snapshot *snapshot;
	double at;
	struct top_cache *caches;
};

/*
 * top_sample_new - compare a snapshot with an earlier sample
 * @snapshot: becomes the sample's
 * @before: NULL: the first one, which has no rates
 *
 * A cache whose figures are those of the earlier sample, since its copy was not renewed or the file not
 * written again, keeps its rates. One that was destroyed and made again has none.
 */
struct top_sample *top_sample_new(struct snapshot *snapshot, double at,
				  const struct top_sample *before);
void top_sample_free(struct top_sample *sample);

/* top_is_counter - whether a value only grows, so that it has a rate */
bool top_is_counter(const struct snapshot_value *v);

/* In the order of the screen. */
enum top_column_id {
	TOP_NAME,
	TOP_OBJS,
	TOP_ACTIVE,
	TOP_USE,
	TOP_SIZE,
	TOP_SLABS,
	TOP_BYTES,
	TOP_ALLOC,
	TOP_FREE,
	TOP_FAST,
	TOP_REFILL,
	TOP_FLUSH,
	TOP_CHURN,
	TOP_LOCKWAIT,
	TOP_COLUMNS
};

enum top_form { TOP_TEXT, TOP_COUNT, TOP_PERCENT, TOP_MEMORY, TOP_RATE };

/*
 * struct top_column - a column
 * @name: for --sort
 * @key: the key that sorts by it
 * @width: of its figures at least
 * @order: those with a greater one are left out sooner on a narrow screen
 */
struct top_column {
	const char *name;
	const char *heading;
	char key;
	enum top_form form;
	unsigned width;
	unsigned order;
	const char *help;
};

extern const struct top_column top_columns[TOP_COLUMNS];

/*
 * struct top_view - which caches are shown, and how
 * @sort: TOP_COLUMNS: by allocations where they are counted, else by memory
 * @filter: the text of @regex, or NULL: all
 */
struct top_view {
	enum top_column_id sort;
	bool reverse;
	bool hide_idle;
	char *filter;
	regex_t regex;
};

/*
 * top_filter - let only caches through whose name, or one of whose aliases, matches
 * @text: an extended regular expression that ignores case; "": all
 *
 * Returns NULL, or what is wrong with it, for the caller to free; then nothing has changed.
 */
char *top_filter(struct top_view *view, const char *text);

/* struct top_row - a cache as a row; values that are unknown are NAN, and TOP_NAME has none */
struct top_row {
	const struct top_cache *cache;
	double values[TOP_COLUMNS];
};

/*
 * struct top_table - rows and what they add up to
 * @present: which columns any cache of the sample has something for
 * @sort: the column it is sorted by
 * @matching: how many caches pass the filter, idle ones that are not shown among them
 * @totals: of these
 * @copied, @copied_age: how many of these are copies, and the age of the oldest in seconds
 */
struct top_table {
	struct top_row *rows;
	unsigned count;
	bool present[TOP_COLUMNS];
	enum top_column_id sort;
	unsigned matching;
	double totals[TOP_COLUMNS];
	unsigned copied;
	double copied_age;
};

/* top_table_make - all rows that are to be seen, sorted; top_table_clear frees what is in it */
void top_table_make(struct top_table *table, const struct top_sample *sample,
		    const struct top_view *view);
void top_table_clear(struct top_table *table);

/* ---- top_text.c ---- */

/*
 * Strings for the caller to free.
 *
 * top_figure - a figure of at most 5 characters: "12345", "123k", "1.23M", or "-" for NAN
 * top_figure_full - the same unabbreviated: "12,345,678"
 * top_figure_plain - the same for programs: "12345678", with one decimal where it is a rate or percentage
 */
char *top_figure(enum top_form form, double value);
char *top_figure_full(enum top_form form, double value);
char *top_figure_plain(enum top_form form, double value);

/*
 * top_text_width - columns that a text takes on the terminal
 * top_text_cut   - a text that takes at most @width of them, by an ellipsis at its end; what cannot be
 *		    shown becomes a question mark; 0: without limit
 * top_text_join  - those of @items, with @gap blanks between, that fit @width; NULL items are left out
 */
unsigned top_text_width(const char *text);
char *top_text_cut(const char *text, unsigned width);
char *top_text_join(char *const items[], unsigned count, unsigned gap, unsigned width);

/* ---- top_reader.c ---- */

struct top_reader;

/*
 * struct top_reading - what came of a reading
 * @snapshot: NULL: nothing, and then @message says why
 * @at: when it began, in seconds of the monotonic clock
 */
struct top_reading {
	struct snapshot *snapshot;
	char *message;
	double at;
};

/*
 * top_reader_start - a thread that reads when it is asked to
 * @source: what; may be changed while no reading is under way
 *
 * Blocks the signals that top_wait() reports, in all threads. The reader lasts as long as the program.
 */
struct top_reader *top_reader_start(const struct source *source);

/* top_reader_ask - begin a reading, unless one is under way; top_reader_take - have what came of it */
void top_reader_ask(struct top_reader *reader);
struct top_reading top_reader_take(struct top_reader *reader);

/*
 * struct top_events - what happened while waiting
 * @gone: the terminal has hung up
 * @signal: SIGINT, SIGTERM, SIGHUP, SIGWINCH or 0
 */
struct top_events {
	bool reading;
	bool key;
	bool gone;
	int signal;
};

/*
 * top_wait - wait until something happens
 * @keys: a terminal to wait for, or -1
 * @until_ns: when to return in any case, by tool_now_ns(); UINT64_MAX: never
 */
struct top_events top_wait(struct top_reader *reader, int keys, uint64_t until_ns);

/* ---- top.c ---- */

/*
 * struct top - one run of the command
 * @iterations: tables to print; 0: the screen
 * @name: of the source, once something was read
 * @sample: the last one
 * @lost: why there are no new figures, or NULL
 * @ended: there never will be
 * @asked_ns: when the last reading began
 * @reading: it is still under way
 */
struct top {
	struct source source;
	double delay;
	unsigned iterations;
	struct top_view view;
	struct top_reader *reader;
	char *name;
	struct top_sample *sample;
	char *lost;
	bool ended;
	bool paused;
	uint64_t asked_ns;
	bool reading;
};

/*
 * top_ask  - begin a reading if it is time for one; returns when to ask again, for top_wait()
 * top_take - have what came of it
 */
uint64_t top_ask(struct top *top);
void top_take(struct top *top);

/* top_set_delay - false: not a delay */
bool top_set_delay(struct top *top, const char *text);

/*
 * top_header - the lines above a table
 * @lines: get them, for the caller to free; those that are not needed are NULL
 * @width: what fits on a line, or 0
 */
#define TOP_HEADER_LINES 4u
void top_header(const struct top *top, const struct top_table *table, unsigned width,
		char *lines[TOP_HEADER_LINES]);

/* ---- top_screen.c ---- */

/* top_screen_possible - whether there is a terminal that can be drawn on */
bool top_screen_possible(void);

/* top_screen_run - until the user has seen enough; returns the signal that ended it, or 0 */
int top_screen_run(struct top *top);

#endif /* TOOLS_TOP_H */
