/* SPDX-License-Identifier: MIT */
/*
 * What the command lines of `uslub bench` and `uslub sim` share: keys of options, readers of arguments, checks.
 * All but the lists of --help end the program with a message when something is wrong.
 */
#ifndef TOOLS_BENCH_ARGS_H
#define TOOLS_BENCH_ARGS_H

#include <argp.h>
#include "bench.h"

enum bench_key {
	KEY_RATE = 256,
	KEY_BEFORE,
	KEY_AFTER,
	KEY_MATRIX,
	KEY_SIZE,
	KEY_SIZES,
	KEY_LIVE,
	KEY_FILE,
	KEY_NO_TOUCH,
	KEY_BURST,
	KEY_WINDOW,
	KEY_BATCH,
	KEY_READERS,
	KEY_GROUPS,
	KEY_LOOPS,
	KEY_FDS,
	KEY_TRANSPORT,
	KEY_SLABS,
	KEY_READ_RATE,
	KEY_STALL,
	KEY_MEMORY_LIMIT,
	KEY_PIN,
	KEY_SCALING,
	KEY_KERNEL,
	KEY_PROCESSES,
	KEY_PLOT,
	KEY_NO_PROGRESS,
	KEY_POLICY,
	KEY_VARIANT,
	KEY_CPUS,
	KEY_PROBE,
	KEY_SIM, /* from here on those of `uslub sim` */
};

#define MOST_GROUPS 1000u
#define MOST_FDS    1000u
#define DEFAULT_FDS 20u

/* Numbers, with the option's name for the message. */
void bench_arg_unsigned(struct argp_state *state, const char *name, const char *arg, unsigned min,
			unsigned max, unsigned *value);
void bench_arg_real(struct argp_state *state, const char *name, const char *arg, double max,
		    double *value);
void bench_arg_count(struct argp_state *state, const char *name, const char *arg, unsigned unit,
		     uint64_t max, uint64_t *value);

/*
 * bench_arg_workload - the workload, or what hackbench takes after its name
 * bench_arg_shape - an option that says how large the workload is; ARGP_ERR_UNKNOWN for others
 * bench_arg_report - an option that says what is compared or printed; ARGP_ERR_UNKNOWN for others
 * bench_check_policies - policies that are given can be read
 * bench_check_workload - there is one
 * bench_check_size - objects of the workload can have the size that is given
 * bench_print_workloads, bench_print_policies - parts of --help
 */
void bench_arg_workload(struct argp_state *state, const char *arg, struct bench_options *options);
error_t bench_arg_shape(int key, char *arg, struct argp_state *state, struct bench_options *o);
error_t bench_arg_report(int key, char *arg, struct argp_state *state, struct bench_options *o);
void bench_check_policies(struct argp_state *state, const struct bench_options *o);
void bench_check_workload(struct argp_state *state, const struct bench_options *o);
void bench_check_size(struct argp_state *state, const struct bench_options *o);
void bench_print_workloads(FILE *out);
void bench_print_policies(FILE *out);
void bench_print_entry(FILE *out, const char *name, const char *help);

#endif /* TOOLS_BENCH_ARGS_H */
