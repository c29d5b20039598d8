/* SPDX-License-Identifier: MIT */
/*
 * uslub: one program with subcommands, as git is.
 */
#include <argp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uslub/uslub.h>
#include "command.h"
#include "tool.h"

/*
 * @help: one line, or NULL for a command that the program gives to itself only
 */
struct command {
	const char *name;
	const char *help;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{ "bench", "measure workloads under policies, or on several allocators", command_bench },
	{ "bench-worker", NULL, command_bench_worker },
	{ "diff", "show what changed in caches from one reading to another", command_diff },
	{ "info", "tell what the caches of a process or of the kernel hold", command_info },
	{ "map", "show how full each slab of a cache is", command_map },
	{ "record", "run a program and write a trace of its allocations", command_record },
	{ "run", "run a program so that its caches can be seen", command_run },
	{ "sim", "run workloads on a simulated machine of up to 384 CPUs", command_sim },
	{ "snapshot", "write the statistics of a process or of the kernel to a file",
	  command_snapshot },
	{ "top", "show what caches do, again and again", command_top },
};

static const struct command *find_command(const char *name)
{
	for (unsigned i = 0; i < TOOL_COUNT(commands); i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static char *list_commands(void)
{
	char *list = tool_copy("");

	for (unsigned i = 0; i < TOOL_COUNT(commands); i++) {
		char *longer;

		if (!commands[i].help)
			continue;
		longer = tool_format("%s%s%s", list, *list ? ", " : "", commands[i].name);
		free(list);
		list = longer;
	}
	return list;
}

/* The list of commands is put where the option parser prints the text after the options. */
static char *help_filter(int key, const char *text, void *input)
{
	struct tool_text help;
	FILE *out;

	(void)input;
	if (!tool_text_help(&help, key))
		return (char *)text;
	out = help.out;
	fprintf(out, "Commands:\n");
	for (unsigned i = 0; i < TOOL_COUNT(commands); i++) {
		if (commands[i].help)
			fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	}
	fprintf(out, "\n`uslub COMMAND --help' tells about a command, uslub(7) about the library.");
	return tool_text_end(&help);
}

static void print_version(FILE *out, struct argp_state *state)
{
	(void)state;
	fprintf(out, "uslub %s", USLUB_VERSION_STRING);
	if (strcmp(uslub_version(), USLUB_VERSION_STRING))
		fprintf(out, " (with the library of version %s)", uslub_version());
	fputc('\n', out);
}

/* What main() needs to know about the arguments: where the subcommand is. */
struct arguments {
	int command_at;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		/* The rest belongs to the command. */
		(void)arg;
		arguments->command_at = state->next - 1;
		state->next = state->argc;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp_option options[] = {
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "COMMAND [ARGUMENT...]",
	.doc = "Typed object caches with per-CPU sheaves: measure and inspect them.\v",
	.help_filter = help_filter,
};

static int no_command(const char *given)
{
	char *list = list_commands();

	if (given)
		tool_error("there is no command '%s'; the commands are: %s", given, list);
	else
		tool_error("which command? The commands are: %s (uslub --help tells more)", list);
	free(list);
	return TOOL_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	const struct command *command;
	char *name;

	/* A reader of our output that goes away is no reason to die half way, see tool_print_out(). */
	signal(SIGPIPE, SIG_IGN);
	argp_err_exit_status = TOOL_EXIT_USAGE;
	argp_program_version_hook = print_version;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
	if (!arguments.command_at)
		return no_command(NULL);
	command = find_command(argv[arguments.command_at]);
	if (!command)
		return no_command(argv[arguments.command_at]);

	/* argp names the program by the last component of argv[0]. */
	name = tool_format("uslub %s", command->name);
	tool_name = name;
	argv[arguments.command_at] = name;
	return command->run(argc - arguments.command_at, argv + arguments.command_at);
}
