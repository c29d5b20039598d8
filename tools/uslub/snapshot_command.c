/* SPDX-License-Identifier: MIT */
/*
 * `uslub snapshot`: read all caches of a process or of the kernel once, and keep what they say in a file.
 */
#include <argp.h>
#include <string.h>
#include "command.h"
#include "snapshot.h"
#include "source.h"
#include "tool.h"

/*
 * struct arguments - the command line
 * @output: the file, or NULL for standard output
 */
struct arguments {
	struct source source;
	const char *output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Where they go:", 2 },
	{ "output", 'o', "FILE", 0, "Write to FILE, not to standard output", 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->source;
		break;
	case 'o':
		a->output = strcmp(arg, "-") ? arg : NULL;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too many; a saved directory is named by --sysfs", arg);
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
	.doc = "Write the statistics of all caches of a process, or of the kernel, as JSON.\v"
	       "Without --pid and --kernel it is the only process of this user that exports its "
	       "statistics.\n\n"
	       "Examples:\n"
	       "  uslub snapshot --pid 1234 -o before.json\n"
	       "  sudo uslub snapshot --kernel -o kernel.json\n"
	       "  uslub snapshot --sysfs saved/slab\n\n"
	       "Exit status: 0 done; 2 wrong usage, or no data.",
};

int command_snapshot(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct snapshot *s;
	int error;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	s = source_read(&arguments.source);
	if (!s)
		return TOOL_EXIT_USAGE;
	error = snapshot_write(s, arguments.output);
	if (!error && s->note)
		fprintf(stderr, "%s: note: %s\n", tool_name, s->note);
	snapshot_free(s);
	return error;
}
