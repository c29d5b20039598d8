/* SPDX-License-Identifier: MIT */
/*
 * Where snapshots come from, as all commands that inspect something are told: --pid P, --kernel, --sysfs DIR,
 * or a file.
 */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include <argp.h>
#include "snapshot.h"

/*
 * struct source - what was asked for
 * @pid: a process; 0: not said
 * @kernel: the running kernel, or with @sysfs a copy of its directory
 * @path: a snapshot file or a saved directory, else NULL
 */
struct source {
	int pid;
	bool kernel;
	const char *sysfs;
	const char *path;
};

/*
 * The options --pid, --kernel and --sysfs, to be a child of a command's own argp; its input is a struct
 * source, which the command's parser hands over at ARGP_KEY_INIT: state->child_inputs[0] = &source.
 */
extern const struct argp source_argp;

/* source_arg_pid - read the argument of --pid; ends the program with a message when it is none */
void source_arg_pid(struct argp_state *state, const char *arg, int *pid);

/* source_given - whether any option said where */
bool source_given(const struct source *source);

/*
 * source_read - one reading; NULL after a message
 *
 * Can be called again and again for a process or the kernel.
 */
struct snapshot *source_read(const struct source *source);

/*
 * source_read_path - a snapshot file, or a copy of /sys/kernel/slab or of /proc/slabinfo
 */
struct snapshot *source_read_path(const char *path);

/* source_name - "process 1234 (redis-server)", "the kernel 6.18.0", or the path; for the caller to free */
char *source_name(const struct source *source, const struct snapshot *snapshot);

#endif /* TOOLS_SOURCE_H */
