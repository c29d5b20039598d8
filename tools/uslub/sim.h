/* SPDX-License-Identifier: MIT */
/*
 * `uslub sim`: workloads on the simulated machine. It is `uslub bench` with other options and another worker,
 * the program uslub-sim; what is planned, counted and reported is the same, and said to be a model's.
 *
 *   sim.c            the order of it all
 *   sim_options.c    the command line
 *   sim_spawn.c      where uslub-sim is, and what it is told
 *   sim_published.c  figures that were published, beside the model's
 *   sim_sweep.c      a table over the number of CPUs, and its picture
 */
#ifndef TOOLS_SIM_H
#define TOOLS_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "../sim/machine_file.h"
#include "../sim/names.h"

struct bench;
struct bench_run;
struct bench_options;

/*
 * struct sim_options - what `uslub sim` has besides struct bench_options
 * @machine: after --set, --cpus and --nodes
 * @path: of its file
 * @sets: arguments of --set
 * @threads_given: a sweep has as many threads as CPUs otherwise
 * @warmup_ms, @ms: of virtual time
 * @published: put published figures beside the model's
 * @speed: print how fast the simulator was, which no two runs agree on
 * @sweep: numbers of CPUs, or NULL
 */
struct sim_options {
	struct sim_machine machine;
	char *path;
	const char **sets;
	unsigned sets_count;
	bool threads_given;
	uint64_t seed;
	double warmup_ms;
	double ms;
	bool published;
	bool speed;
	unsigned *sweep;
	unsigned sweep_count;
};

/*
 * struct sim_result - what a run gave besides struct bench_result
 * @cpus: of the machine
 * @time_ns: of all CPUs together
 * @rest_slabs, @aged_slabs: slabs when all objects were freed, and when idle CPUs had been drained as well
 * @host_ns: of the host's time
 */
struct sim_result {
	unsigned cpus;
	double time_ns[SIM_TIMES];
	double lock_wait_ns[SIM_RANKS];
	double lines_near, lines_far, lines_fetched;
	double points;
	double grace_periods;
	double rest_slabs, aged_slabs;
	double host_ns;
};

/* sim_options.c */
void sim_parse(int argc, char **argv, struct bench_options *options, struct sim_options *sim);

/*
 * sim_spawn.c
 *
 * sim_program - path of uslub-sim, for the caller to free; NULL after a message
 * sim_arguments - what to tell it, a list that ends with NULL, for the caller to free with its strings
 */
char *sim_program(void);
char **sim_arguments(const struct bench *b, const struct bench_run *run, unsigned round);

/*
 * sim_published.c
 *
 * sim_published_begin - the first figure that the runs allow to compute; false: there is none
 * sim_published_next - the next one
 * sim_published_machine - the machine that the figures of a workload are about, and that was fitted to them
 */
struct sim_figure {
	unsigned at;
	const char *key;
	const char *name;
	const char *unit;
	const char *said; /* published in words, or NULL */
	double published;
	double model;
	unsigned decimals;
	bool fitted; /* it was used to calibrate the machine, so that it is no prediction */
};
const char *sim_published_machine(const struct bench_options *o);
bool sim_published_begin(const struct bench *b, struct sim_figure *figure);
bool sim_published_next(const struct bench *b, struct sim_figure *figure);

#endif /* TOOLS_SIM_H */
