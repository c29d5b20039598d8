/* SPDX-License-Identifier: MIT */
/* Machine files: what a simulated machine costs. */
#ifndef TOOLS_SIM_MACHINE_FILE_H
#define TOOLS_SIM_MACHINE_FILE_H

#include "platform/sim/sim.h"

/*
 * machine_read - read a machine
 * @name: of a preset, or the path of a file if it contains a '/'
 *
 * Returns NULL, or a message that says which line or field is wrong, for the caller to free.
 */
char *machine_read(const char *name, struct sim_machine *machine);

/* One "name = value", as a line of a file has it. Numbers of CPUs and nodes are left to machine_check(). */
char *machine_set(struct sim_machine *machine, const char *assignment);

/* NULL, or which number of CPUs or nodes is out of range, and what the range is. */
char *machine_check(const struct sim_machine *machine);

/* The name of the i-th field of a machine file, and its value; NULL behind the last one. Times are ns. */
const char *machine_field(const struct sim_machine *machine, unsigned i, double *value);

/* The path of a machine's file, for the caller to free. */
char *machine_path(const char *name);

/* The names of the presets, separated by ", ", for the caller to free. */
char *machine_list(void);

#endif /* TOOLS_SIM_MACHINE_FILE_H */
