/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "command.h"
#include "numbers.h"
#include "table.h"
#include "text.h"
#include "tool.h"
#include "top.h"

#define LEAST_DELAY 0.01
#define MOST_DELAY  86400.0
#define MOST_TABLES 1000000000u

/* The end of the year 9999: what a file may say is not always a time. */
#define LATEST 253402300800.0

/* ---- options ---- */

enum { KEY_ONCE = 0x1000 };

static const struct argp_option options[] = {
	{ "file", 'F', "FILE", 0,
	  "A snapshot file that something writes again and again, or a copy of /sys/kernel/slab",
	  1 },
	{ NULL, 0, NULL, 0, "What is shown:", 2 },
	{ "delay", 'd', "S", 0, "Seconds between readings (default: 1)", 0 },
	{ "sort", 's', "COLUMN", 0, "Sort by a column (default: alloc, or bytes without it)", 0 },
	{ "reverse", 'r', NULL, 0, "The other way round", 0 },
	{ "once", KEY_ONCE, NULL, 0, "Print one table on standard output, and no more", 0 },
	{ "iterations", 'n', "N", 0, "Print N tables", 0 },
	{ "help", 'h', NULL, 0, "Print this list, and the columns", -1 },
	{ 0 },
};

bool top_set_delay(struct top *top, const char *text)
{
	double delay;

	if (numbers_parse_real(text, &delay) || delay < LEAST_DELAY || delay > MOST_DELAY)
		return false;
	top->delay = delay;
	return true;
}

static char *column_names(void)
{
	char *list = tool_copy("");

	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		char *longer = tool_format("%s%s%s", list,
					   !i			 ? ""
					   : i + 1 < TOP_COLUMNS ? ", "
								 : " or ",
					   top_columns[i].name);

		free(list);
		list = longer;
	}
	return list;
}

static void parse_sort(struct argp_state *state, const char *arg, struct top_view *view)
{
	char *names;

	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (!strcmp(arg, top_columns[i].name)) {
			view->sort = i;
			return;
		}
	}
	names = column_names();
	argp_error(state, "--sort takes %s, not '%s'", names, arg);
	free(names);
}

static void parse_regex(struct argp_state *state, const char *arg, struct top_view *view)
{
	char *wrong;

	if (view->filter)
		argp_error(state, "one regular expression is enough: 'a|b' stands for both");
	wrong = top_filter(view, arg);
	if (wrong)
		argp_error(state, "'%s' is not a regular expression: %s", arg, wrong);
	free(wrong);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct top *top = state->input;
	uint64_t n;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &top->source;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case 'F':
		top->source.path = arg;
		break;
	case 'd':
		if (!top_set_delay(top, arg))
			argp_error(state, "--delay takes seconds from %g to %g, not '%s'",
				   LEAST_DELAY, MOST_DELAY, arg);
		break;
	case 's':
		parse_sort(state, arg, &top->view);
		break;
	case 'r':
		top->view.reverse = true;
		break;
	case KEY_ONCE:
		top->iterations = 1;
		break;
	case 'n':
		if (numbers_parse(arg, 1000, &n) || !n || n > MOST_TABLES)
			argp_error(state, "--iterations takes a number from 1 to %u, not '%s'",
				   MOST_TABLES, arg);
		else
			top->iterations = (unsigned)n;
		break;
	case ARGP_KEY_ARG:
		parse_regex(state, arg, &top->view);
		break;
	case ARGP_KEY_END:
		if (top->source.path && (top->source.pid || top->source.kernel))
			argp_error(state, "--file, --pid and --kernel exclude each other");
		if (top->source.path && !strcmp(top->source.path, "-"))
			argp_error(state, "--file takes a file that can be read again and again");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* The columns, where the option parser prints the text after the options. */
static char *help_filter(int key, const char *text, void *input)
{
	struct tool_text help;
	FILE *out;

	(void)input;
	if (!tool_text_help(&help, key))
		return (char *)text;
	out = help.out;
	fprintf(out, "Columns:\n");
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		fprintf(out, "  %-10s %s\n", top_columns[i].name, top_columns[i].help);
	fprintf(out,
		"\nThe key h tells about keys.\n\n"
		"Exit status: 0 done, 2 wrong usage or the figures ceased to come, 130 Ctrl-C.");
	return tool_text_end(&help);
}

static const struct argp_child children[] = {
	{ &source_argp, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[CACHE-REGEX]",
	.doc = "Show what caches do, again and again.\v",
	.children = children,
	.help_filter = help_filter,
};

/* ---- readings ---- */

uint64_t top_ask(struct top *top)
{
	uint64_t due = top->asked_ns + (uint64_t)(top->delay * 1e9);

	if (top->reading || top->paused || top->ended)
		return UINT64_MAX;
	if (top->asked_ns && tool_now_ns() < due)
		return due;
	top->asked_ns = tool_now_ns();
	top->reading = true;
	top_reader_ask(top->reader);
	return UINT64_MAX;
}

/* No figures: keeps the last ones and says why. */
static void lose(struct top *top, char *message)
{
	free(top->lost);
	top->lost = message;
	if (!top->name || !top->source.pid || !kill(top->source.pid, 0) || errno != ESRCH)
		return;
	free(message);
	top->lost = tool_format("%s has ended", top->name);
	top->ended = true;
}

/* A process that was found by being the only one is the one to stay with. */
static void stay(struct top *top, const struct snapshot *snapshot)
{
	const struct snapshot_fact *pid = snapshot_fact(snapshot, "pid");

	top->name = source_name(&top->source, snapshot);
	if (!top->source.path && !top->source.kernel && pid)
		top->source.pid = (int)pid->number;
}

/* A file tells when its figures were true. */
static double moment(const struct top *top, const struct top_reading *reading)
{
	return top->source.path && reading->snapshot->time ? reading->snapshot->time : reading->at;
}

void top_take(struct top *top)
{
	struct top_reading reading = top_reader_take(top->reader);
	struct top_sample *before = top->sample;

	top->reading = false;
	if (!reading.snapshot) {
		lose(top, reading.message);
		return;
	}
	free(top->lost);
	top->lost = NULL;
	if (!top->name)
		stay(top, reading.snapshot);
	top->sample = top_sample_new(reading.snapshot, moment(top, &reading), before);
	top_sample_free(before);
}

/* ---- what stands above a table ---- */

static char *clock_time(const struct snapshot *snapshot)
{
	bool known = snapshot->time > 0 && snapshot->time < LATEST;
	time_t when = known ? (time_t)snapshot->time : time(NULL);
	char text[16];
	struct tm tm;

	localtime_r(&when, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	return tool_copy(text);
}

/* A total with words before and after it; NULL when nothing has it. */
static char *total(const struct top_table *table, enum top_column_id column, const char *before,
		   const char *after)
{
	char *text, *figure;

	if (!table->present[column])
		return NULL;
	figure = top_figure_full(top_columns[column].form, table->totals[column]);
	text = tool_format("%s%s%s", before, figure, after);
	free(figure);
	return text;
}

/* Joins items to a line and frees them. */
static char *line_of(char *items[], unsigned count, unsigned width)
{
	char *line = top_text_join(items, count, 3, width);

	for (unsigned i = 0; i < count; i++)
		free(items[i]);
	if (*line)
		return line;
	free(line);
	return NULL;
}

static char *line_source(const struct top *top, const struct top_table *table, unsigned width)
{
	const struct top_view *view = &top->view;
	char *items[] = {
		tool_copy(top->name),
		top->paused ? tool_copy("PAUSED") : NULL,
		view->filter ? tool_format("only /%s/", view->filter) : NULL,
		clock_time(top->sample->snapshot),
		tool_format("every %g s", top->delay),
		tool_format("by %s%s", top_columns[table->sort].name,
			    view->reverse ? ", reversed" : ""),
		view->hide_idle ? tool_copy("idle ones hidden") : NULL,
	};

	return line_of(items, TOOL_COUNT(items), width);
}

static char *line_totals(const struct top *top, const struct top_table *table, unsigned width)
{
	unsigned all = top->sample->snapshot->count;
	const char *plural = all == 1 ? "" : "s";
	char *items[] = {
		table->count == all ? tool_format("%u cache%s", all, plural)
				    : tool_format("%u of %u cache%s", table->count, all, plural),
		total(table, TOP_OBJS, "", " objects"),
		total(table, TOP_USE, "", "% active"),
		total(table, TOP_SLABS, "", " slabs"),
		total(table, TOP_BYTES, "", ""),
	};

	return line_of(items, TOOL_COUNT(items), width);
}

static char *line_rates(const struct top_table *table, unsigned width)
{
	char *items[] = {
		total(table, TOP_ALLOC, "alloc/s ", ""),
		total(table, TOP_FREE, "free/s ", ""),
		total(table, TOP_LOCKWAIT, "lock waits/s ", ""),
	};

	return line_of(items, TOOL_COUNT(items), width);
}

static char *line_notes(const struct top *top, const struct top_table *table, unsigned width)
{
	const char *note = top->sample->snapshot->note;
	char *items[] = {
		table->copied
			? tool_format("copied figures: %u cache%s, up to %.1f s old", table->copied,
				      table->copied == 1 ? "" : "s", table->copied_age)
			: NULL,
		note ? tool_copy(note) : NULL,
	};

	return line_of(items, TOOL_COUNT(items), width);
}

void top_header(const struct top *top, const struct top_table *table, unsigned width,
		char *lines[TOP_HEADER_LINES])
{
	lines[0] = line_source(top, table, width);
	lines[1] = line_totals(top, table, width);
	lines[2] = line_rates(table, width);
	lines[3] = line_notes(top, table, width);
}

/* ---- tables on standard output ---- */

static void print_header(const struct top *top, const struct top_table *table, FILE *out)
{
	char *lines[TOP_HEADER_LINES];

	top_header(top, table, tool_width(stdout), lines);
	for (unsigned i = 0; i < TOP_HEADER_LINES; i++) {
		char *line = lines[i] ? text_shown(lines[i]) : NULL;

		if (line)
			fprintf(out, "%s\n", line);
		free(line);
		free(lines[i]);
	}
	fputc('\n', out);
}

/* Those that the source has; the least important ones may be left out. */
static struct table *new_table(const struct top_table *shown)
{
	unsigned widths[TOP_COLUMNS], n = 0;
	struct table *t;

	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (shown->present[i])
			widths[n++] = i ? top_columns[i].width + 2 : 20;
	}
	t = table_new(n, widths);
	n = 0;
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (!shown->present[i])
			continue;
		if (top_columns[i].order > top_columns[TOP_BYTES].order && i != shown->sort)
			table_optional(t, n);
		table_add(t, tool_copy(top_columns[i].heading));
		n++;
	}
	return t;
}

static void print_rows(const struct top_table *shown, FILE *out)
{
	bool colour = tool_colour(stdout);
	struct table *t = new_table(shown);

	for (unsigned row = 0; row < shown->count; row++) {
		const struct top_row *r = &shown->rows[row];

		table_add(t, text_shown(r->cache->cache->name));
		for (unsigned i = 1; i < TOP_COLUMNS; i++) {
			if (shown->present[i])
				table_add(t, top_figure_plain(top_columns[i].form, r->values[i]));
		}
	}
	table_print(t, out, tool_width(stdout), 0, colour ? "\033[1m" : "",
		    colour ? "\033[0m" : "");
	table_free(t);
}

/* Returns whether somebody still reads it, or -1 when it cannot be written. */
static int print_table(const struct top *top, bool first)
{
	struct top_table table;
	struct tool_text text;
	FILE *out;

	tool_text_begin(&text);
	out = text.out;
	if (!first)
		fputc('\n', out);
	top_table_make(&table, top->sample, &top->view);
	print_header(top, &table, out);
	print_rows(&table, out);
	top_table_clear(&table);
	return tool_text_show(&text, NULL) ? -1 : !ferror(stdout);
}

/* Waits for the next reading; returns a signal that came instead, or 0. */
static int next_reading(struct top *top)
{
	for (;;) {
		uint64_t again = top_ask(top);
		struct top_events events = top_wait(top->reader, -1, again);

		if (events.signal && events.signal != SIGWINCH)
			return events.signal;
		if (events.reading) {
			top_take(top);
			return 0;
		}
	}
}

static int run_tables(struct top *top, int *signal)
{
	for (unsigned i = 0; i < top->iterations; i++) {
		int more;

		*signal = next_reading(top);
		if (*signal || top->lost)
			break;
		more = print_table(top, !i);
		if (more <= 0)
			return more < 0 ? TOOL_EXIT_USAGE : 0;
	}
	return 0;
}

/* ---- the command ---- */

/* As the signal would have ended the program, now that the terminal is as it was. */
static int end_by(int number)
{
	sigset_t set;

	if (number == SIGINT)
		return TOOL_EXIT_INTERRUPTED;
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + number; /* it is ignored */
}

static void forget(struct top *top)
{
	top_filter(&top->view, "");
	top_sample_free(top->sample);
	free(top->name);
	free(top->lost);
}

int command_top(int argc, char **argv)
{
	struct top top = { .delay = 1, .view.sort = TOP_COLUMNS };
	int status = 0, signal;

	setlocale(LC_CTYPE, "");
	argp_parse(&argp, argc, argv, 0, NULL, &top);
	if (!top.iterations && !top_screen_possible()) {
		tool_error("not a terminal: use `uslub top --once` for one table or `uslub info`");
		return TOOL_EXIT_USAGE;
	}
	top.reader = top_reader_start(&top.source);
	signal = next_reading(&top);
	if (!signal && !top.lost) {
		if (top.iterations)
			status = run_tables(&top, &signal);
		else
			signal = top_screen_run(&top);
	}
	if (signal)
		status = end_by(signal);
	else if (top.lost) {
		tool_error("%s", top.lost);
		status = TOOL_EXIT_USAGE;
	}
	forget(&top);
	return status;
}
