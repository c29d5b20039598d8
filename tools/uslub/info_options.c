/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "info.h"
#include "numbers.h"
#include "tool.h"

#define MOST_LINES 1000000u

enum {
	KEY_CPUS = 0x3000,
	KEY_FORMAT,
	KEY_LABEL,
};

static const struct argp_option options[] = {
	{ "file", 'F', "FILE", 0, "A snapshot, or a saved copy of /sys/kernel/slab", 1 },

	{ NULL, 0, NULL, 0, "What is shown, one of:", 2 },
	{ "list", 'l', NULL, 0, "A line for each cache (default)", 0 },
	{ "display-active", 'D', NULL, 0, "A line for each cache with what it did", 0 },
	{ "nodes", 'n', NULL, 0, "A line for each node of each cache", 0 },
	{ "cpus", KEY_CPUS, NULL, 0, "A line for each CPU of each cache", 0 },
	{ "aliases", 'a', NULL, 0, "Names that share a cache", 0 },
	{ "report", 'r', NULL, 0,
	  "All about each cache (default where CACHE-REGEX matches one only)", 0 },
	{ "totals", 'T', NULL, 0, "All caches together, and the process's memory", 0 },
	{ "extended", 'X', NULL, 0, "Totals, and the first by size, loss and partial slabs", 0 },

	{ NULL, 0, NULL, 0, "Which caches, and in which order:", 3 },
	{ "empty", 'e', NULL, 0, "Only caches without slabs", 0 },
	{ "zero", 'z', NULL, 0, "Also caches without slabs", 0 },
	{ "unreclaim", 'U', NULL, 0, "Only unreclaimable caches", 0 },
	{ "activity", 'A', NULL, 0, "Most active first", 0 },
	{ "loss", 'L', NULL, 0, "Most bytes lost first; shows them", 0 },
	{ "partial", 'P', NULL, 0, "Most partial slabs first", 0 },
	{ "size", 'S', NULL, 0, "Most bytes first", 0 },
	{ "inverted", 'i', NULL, 0, "The other way round; with -a aliases first", 0 },
	{ "lines", 'N', "K", 0, "Only the first K", 0 },

	{ NULL, 0, NULL, 0, "How it looks:", 4 },
	{ "bytes", 'B', NULL, 0, "Sizes in bytes, not in K, M and G (of 1000)", 0 },
	{ "first-alias", 'f', NULL, 0, "Call a cache without a name by its first alias", 0 },
	{ "1ref", '1', NULL, 0, "With -a: aliases that are the only one, too", 0 },
	{ "format", KEY_FORMAT, "FORMAT", 0, "table (default), json, csv, markdown or openmetrics",
	  0 },
	{ "label", KEY_LABEL, "NAME=VALUE", 0, "With openmetrics: one more label for all samples",
	  0 },
	{ "output", 'o', "FILE", 0, "Write to FILE, which appears or is replaced at once", 0 },

	{ NULL, 0, NULL, 0, "What is done, to the running kernel with --kernel only:", 5 },
	{ "shrink", 's', NULL, 0, "Give back what slabs are empty", 0 },
	{ "validate", 'v', NULL, 0, "Check all objects of caches with debugging", 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

/* Options that stand for themselves: what is shown, and the order. */
static const struct {
	int key;
	enum info_view view;
	const char *name;
} views[] = {
	{ 'l', INFO_LIST, "--list" },	    { 'D', INFO_ACTIVE, "--display-active" },
	{ 'n', INFO_NODES, "--nodes" },	    { KEY_CPUS, INFO_CPUS, "--cpus" },
	{ 'a', INFO_ALIASES, "--aliases" }, { 'r', INFO_REPORT, "--report" },
	{ 'T', INFO_TOTALS, "--totals" },   { 'X', INFO_EXTENDED, "--extended" },
	{ 's', INFO_SHRINK, "--shrink" },   { 'v', INFO_VALIDATE, "--validate" },
};

static const struct {
	int key;
	enum info_sort sort;
} sorts[] = {
	{ 'A', INFO_BY_ACTIVITY },
	{ 'L', INFO_BY_LOSS },
	{ 'P', INFO_BY_PARTIAL },
	{ 'S', INFO_BY_SIZE },
};

static const char *view_name(enum info_view view)
{
	for (unsigned i = 0; i < TOOL_COUNT(views); i++) {
		if (views[i].view == view)
			return views[i].name;
	}
	return "";
}

static bool parse_view(struct argp_state *state, int key, struct info_options *o)
{
	for (unsigned i = 0; i < TOOL_COUNT(views); i++) {
		if (views[i].key != key)
			continue;
		if (o->view != INFO_AUTO && o->view != views[i].view)
			argp_error(state, "%s and %s exclude each other", view_name(o->view),
				   views[i].name);
		o->view = views[i].view;
		return true;
	}
	return false;
}

static bool parse_sort(int key, struct info_options *o)
{
	for (unsigned i = 0; i < TOOL_COUNT(sorts); i++) {
		if (sorts[i].key == key) {
			o->sort = sorts[i].sort;
			return true;
		}
	}
	return false;
}

static bool parse_flag(int key, struct info_options *o)
{
	struct {
		int key;
		bool *flag;
	} flags[] = {
		{ 'e', &o->only_empty },   { 'z', &o->with_empty }, { 'U', &o->unreclaimable },
		{ 'i', &o->inverted },	   { 'B', &o->bytes },	    { 'f', &o->first_alias },
		{ '1', &o->single_alias },
	};

	for (unsigned i = 0; i < TOOL_COUNT(flags); i++) {
		if (flags[i].key == key) {
			*flags[i].flag = true;
			return true;
		}
	}
	return false;
}

static void parse_format(struct argp_state *state, const char *arg, struct info_options *o)
{
	static const char *const names[INFO_FORMS] = {
		[INFO_TABLE] = "table",
		[INFO_JSON] = "json",
		[INFO_CSV] = "csv",
		[INFO_MARKDOWN] = "markdown",
		[INFO_OPENMETRICS] = "openmetrics",
	};

	for (unsigned i = 0; i < INFO_FORMS; i++) {
		if (!strcmp(names[i], arg)) {
			o->form = (enum info_form)i;
			return;
		}
	}
	argp_error(state, "--format takes table, json, csv, markdown or openmetrics, not '%s'",
		   arg);
}

/* Whether two labels have the same name, which ends with '='. */
static bool same_name(const char *a, const char *b)
{
	size_t length = (size_t)(strchr(a, '=') - a) + 1;

	return !strncmp(a, b, length);
}

static void parse_label(struct argp_state *state, char *arg, struct info_options *o)
{
	static const char *const taken[] = { "cache=", "number=", "node=", "cpu=", "path=", "le=" };
	const char *c = arg;

	while (isalpha((unsigned char)*c) || *c == '_' || (c > arg && isdigit((unsigned char)*c)))
		c++;
	if (c == arg || *c != '=')
		argp_error(state,
			   "--label takes NAME=VALUE with letters, digits and _ in NAME, not '%s'",
			   arg);
	for (unsigned i = 0; i < TOOL_COUNT(taken); i++) {
		if (same_name(taken[i], arg))
			argp_error(state, "--label: '%s': all samples have a label of that name",
				   arg);
	}
	for (unsigned i = 0; i < o->labels_count; i++) {
		if (same_name(o->labels[i], arg))
			argp_error(state, "--label: '%s' and '%s' have the same name", o->labels[i],
				   arg);
	}
	o->labels = tool_grow(o->labels, o->labels_count + 1, sizeof(*o->labels));
	o->labels[o->labels_count++] = arg;
}

static void parse_lines(struct argp_state *state, const char *arg, struct info_options *o)
{
	uint64_t lines;

	if (numbers_parse(arg, 1000, &lines) || !lines || lines > MOST_LINES)
		argp_error(state, "--lines takes a number from 1 to %u, not '%s'", MOST_LINES, arg);
	else
		o->lines = (unsigned)lines;
}

static void check_all(struct argp_state *state, const struct info_options *o)
{
	const struct source *s = &o->source;

	if (s->path && (s->pid || s->kernel))
		argp_error(state, "--file and %s exclude each other",
			   s->pid ? "--pid" : "--kernel");
	if ((o->view == INFO_SHRINK || o->view == INFO_VALIDATE) && (!s->kernel || s->sysfs))
		argp_error(state, "%s writes to the running kernel: say --kernel, and no --sysfs",
			   view_name(o->view));
	if (o->only_empty && o->with_empty)
		argp_error(state, "--empty and --zero exclude each other");
	if (o->labels_count && o->form != INFO_OPENMETRICS)
		argp_error(state, "--label needs --format=openmetrics");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct info_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->source;
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case 'F':
		o->source.path = arg;
		return 0;
	case 'N':
		parse_lines(state, arg, o);
		return 0;
	case 'o':
		o->output = arg;
		return 0;
	case KEY_FORMAT:
		parse_format(state, arg, o);
		return 0;
	case KEY_LABEL:
		parse_label(state, arg, o);
		return 0;
	case ARGP_KEY_ARG:
		if (o->pattern)
			argp_error(state, "one expression at a time: '%s' is too many", arg);
		o->pattern = arg;
		return 0;
	case ARGP_KEY_END:
		check_all(state, o);
		return 0;
	}
	return parse_view(state, key, o) || parse_sort(key, o) || parse_flag(key, o)
		       ? 0
		       : ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {
	{ &source_argp, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[CACHE-REGEX]",
	.doc = "Tell what the caches of a process or of the kernel hold.\v"
	       "CACHE-REGEX is an extended regular expression, in which case does not matter; it "
	       "is "
	       "matched against names and aliases.\n\n"
	       "Exit status: 0 done; 1 no cache matches; 2 wrong usage, or no data.",
};

void info_parse(int argc, char **argv, struct info_options *o)
{
	memset(o, 0, sizeof(*o));
	argp_parse(&argp, argc, argv, 0, NULL, o);
}
