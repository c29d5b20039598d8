/* SPDX-License-Identifier: MIT */
/*
 * `uslub sim`: `uslub bench` on another machine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include "command.h"
#include "tool.h"

/* The explorer reads its own options; it is one more program of the simulator's. */
static int explore(char **argv)
{
	char *program = sim_program();

	if (!program)
		return TOOL_EXIT_USAGE;
	argv[0] = program;
	execv(program, argv);
	tool_error("cannot start %s: %s", program, strerror(errno));
	free(program);
	return TOOL_EXIT_USAGE;
}

int command_sim(int argc, char **argv)
{
	struct bench_options options;
	struct sim_options sim;
	int error;

	if (argc > 1 && !strcmp(argv[1], "explore"))
		return explore(argv);
	sim_parse(argc, argv, &options, &sim);
	error = bench_run_all(&options);
	free(options.matrix);
	free(sim.sets);
	free(sim.sweep);
	free(sim.path);
	return error;
}
