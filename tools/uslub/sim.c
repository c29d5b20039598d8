/* SPDX-License-Identifier: MIT */
/*
 * `uslub sim`: `uslub bench` on another machine.
 */
#include <stdlib.h>
#include "bench.h"
#include "command.h"

int command_sim(int argc, char **argv)
{
	struct bench_options options;
	struct sim_options sim;
	int error;

	sim_parse(argc, argv, &options, &sim);
	error = bench_run_all(&options);
	free(options.matrix);
	free(sim.sets);
	free(sim.sweep);
	free(sim.path);
	return error;
}
