/* SPDX-License-Identifier: MIT */
/*
 * `uslub diff`: what changed in caches between two readings. These are two files, or a process or the kernel
 * before and after a command.
 */
#include <stdlib.h>
#include <string.h>
#include "child.h"
#include "command.h"
#include "diff.h"
#include "tool.h"

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What is printed:", 2 },
	{ "cache", 'c', "NAME", 0,
	  "These caches, changed or not: a name, or a pattern with * and ?; may be repeated "
	  "(default: all in which something changed)",
	  0 },
	{ "all", 'a', NULL, 0, "Also the rows that are 0 before and after", 0 },
	{ "format", 'f', "FORMAT", 0, "table (default), json, csv or markdown", 0 },
	{ "output", 'o', "FILE", 0, "Write to FILE, not to standard output", 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static void add_path(struct diff_options *o, const char *path)
{
	o->paths = tool_grow(o->paths, o->paths_count + 1, sizeof(*o->paths));
	o->paths[o->paths_count++] = path;
}

/* Behind "--" is the command, with options of its own. */
static void parse_argument(char *arg, struct argp_state *state, struct diff_options *o)
{
	if (!state->quoted || state->next <= state->quoted) {
		add_path(o, arg);
		return;
	}
	o->command = &state->argv[state->next - 1];
	state->next = state->argc;
}

static void check_command(struct argp_state *state, const struct diff_options *o)
{
	if (o->paths_count)
		argp_error(state,
			   "'%s' is neither an option nor behind '--': with --kernel and --pid a "
			   "command follows '--', and nothing else",
			   o->paths[0]);
	else if (!o->command)
		argp_error(state, "which command? It follows '--', and the figures before and "
				  "after it are compared");
}

static void check_paths(struct argp_state *state, struct diff_options *o)
{
	/* Without a source of figures there can be no command, but files with odd names. */
	for (char **path = o->command; path && *path; path++)
		add_path(o, *path);
	o->command = NULL;
	if (o->paths_count != DIFF_SIDES)
		argp_error(state,
			   "what is compared with what? Two snapshot files or saved directories; "
			   "or --kernel or --pid, and a command behind '--'");
	else if (!strcmp(o->paths[0], "-") && !strcmp(o->paths[1], "-"))
		argp_error(state, "standard input can be read only once");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct diff_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->source;
		break;
	case 'c':
		o->caches = tool_grow(o->caches, o->caches_count + 1, sizeof(*o->caches));
		o->caches[o->caches_count++] = arg;
		break;
	case 'a':
		o->all = true;
		break;
	case 'f':
		report_arg_format(state, arg, &o->format);
		break;
	case 'o':
		o->output = strcmp(arg, "-") ? arg : NULL;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		parse_argument(arg, state, o);
		break;
	case ARGP_KEY_END:
		if (source_given(&o->source))
			check_command(state, o);
		else
			check_paths(state, o);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp_child children[] = { { &source_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "BEFORE AFTER\n--kernel -- COMMAND [ARG...]\n--pid=P -- COMMAND [ARG...]",
	.doc = "What changed in caches between two readings: of two snapshot files or saved copies "
	       "of /sys/kernel/slab, or of the kernel or a process before and after a command.\v"
	       "Examples:\n"
	       "  uslub diff before.json after.json --cache maple_node\n"
	       "  uslub diff --kernel --cache 'kmalloc-*' -- make -j8\n"
	       "  uslub diff --pid 1234 --format json -o change.json -- sleep 10\n\n"
	       "Exit status: 0 done; 2 wrong usage, or no data; 130 interrupted, what changed "
	       "until then has been printed. With a command its own: 126 it cannot be executed, "
	       "127 it was not found, 128+n it was ended by the signal n.",
};

/* ---- reading ---- */

/* Reads one side; false after a message. */
static bool read_side(struct diff *d, unsigned side)
{
	const struct diff_options *o = d->options;
	struct source source = o->source;

	if (o->paths_count)
		source.path = o->paths[side];
	d->sides[side].snapshot = source_read(&source);
	if (!d->sides[side].snapshot)
		return false;
	d->sides[side].name = source_name(&source, d->sides[side].snapshot);
	return true;
}

static int print(const struct diff *d)
{
	const struct diff_options *o = d->options;
	struct tool_text text;
	FILE *out;
	int error;

	tool_text_begin(&text);
	out = text.out;
	switch (o->format) {
	case REPORT_TABLE:
		diff_text(d, out, o->output ? 0 : tool_width(stdout),
			  !o->output && tool_colour(stdout));
		break;
	case REPORT_JSON:
		diff_json(d, out);
		break;
	case REPORT_CSV:
	case REPORT_MARKDOWN:
		diff_sheet(d, out, o->format == REPORT_MARKDOWN);
		break;
	}
	error = tool_text_show(&text, o->output);
	if (!error && o->format != REPORT_TABLE)
		diff_warnings(d, stderr);
	return error;
}

/* The time between what two files say of theirs. */
static double seconds_between(const struct diff *d)
{
	double before = d->sides[DIFF_BEFORE].snapshot->time;
	double after = d->sides[DIFF_AFTER].snapshot->time;

	return before && after ? after - before : 0;
}

/* What the program ends with when all went well is in @child, as of a command that ended well. */
static int compare(struct diff *d, struct child *child)
{
	uint64_t begin;
	int error;

	if (!read_side(d, DIFF_BEFORE))
		return TOOL_EXIT_USAGE;
	begin = tool_now_ns();
	if (d->options->command) {
		*child = child_run(d->options->command);
		if (!child->started)
			return child->status;
	}
	if (!read_side(d, DIFF_AFTER))
		return TOOL_EXIT_USAGE;
	d->seconds = d->options->command ? (double)(tool_now_ns() - begin) / 1e9
					 : seconds_between(d);
	error = diff_pairs(d);
	return error ? error : print(d);
}

int command_diff(int argc, char **argv)
{
	struct diff_options o = { 0 };
	struct diff d = { .options = &o };
	struct child child = { 0 };
	int error;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	error = compare(&d, &child);
	diff_free(&d);
	free(o.paths);
	free(o.caches);
	if (error)
		return error;
	return child.interrupted ? TOOL_EXIT_INTERRUPTED : child.status;
}
