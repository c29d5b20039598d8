/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include "command.h"
#include "map.h"
#include "report.h"
#include "source.h"
#include "tool.h"

/*
 * struct arguments - the command line
 * @output: the file that is drawn to, or NULL
 */
struct arguments {
	int pid;
	const char *cache;
	const char *output;
	enum report_format format;
};

static const struct argp_option options[] = {
	{ "pid", 'p', "P", 0, "The process (default: the only one that exports statistics)", 0 },
	{ "output", 'o', "FILE", 0, "Draw an SVG picture to FILE", 0 },
	{ "format", 'f', "FORMAT", 0, "table (default: the picture and figures), json or csv", 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'p':
		source_arg_pid(state, arg, &a->pid);
		break;
	case 'o':
		a->output = arg;
		break;
	case 'f':
		report_arg_format(state, arg, &a->format);
		if (a->format == REPORT_MARKDOWN)
			argp_error(state, "--format takes table, json or csv here");
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		if (a->cache)
			argp_error(state, "one cache at a time: '%s' is too many", arg);
		a->cache = arg;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which cache? `uslub info' lists them");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "CACHE",
	.doc = "Show how full each slab of a cache is, and so where fragmentation sits.\v"
	       "The process is read from outside while it runs on; it must export its statistics "
	       "(USLUB_EXPORT=1, or `uslub run'). A kernel does not tell where its objects "
	       "are.\n\n"
	       "Examples:\n"
	       "  uslub map maple_node\n"
	       "  uslub map --pid 1234 session -o session.svg\n\n"
	       "Exit status: 0 done; 2 wrong usage, or no data.",
};

static int print(const struct map *map, const struct arguments *a)
{
	struct tool_text text;
	FILE *out;

	tool_text_begin(&text);
	out = text.out;
	if (a->output)
		map_svg(map, out);
	else if (a->format == REPORT_JSON)
		map_json(map, out);
	else if (a->format == REPORT_CSV)
		map_csv(map, out);
	else
		map_text(map, out, tool_width(stdout), tool_colour(stdout));
	return tool_text_show(&text, a->output);
}

int command_map(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct export_reader reader;
	int status = TOOL_EXIT_USAGE;
	struct map map;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	if (!export_open(&reader, arguments.pid))
		return TOOL_EXIT_USAGE;
	if (map_read(&reader, arguments.cache, &map))
		status = print(&map, &arguments);
	map_free(&map);
	export_close(&reader);
	return status;
}
