/* SPDX-License-Identifier: MIT */
/* What is different about the workloads on the simulated machine. */
#ifndef TOOLS_SIM_FAMILY_SIM_H
#define TOOLS_SIM_FAMILY_SIM_H

#include <stdbool.h>
#include <uslub/uslub.h>

extern bool sim_slab_frees; /* struct sim_machine's slab_frees */

void sim_free(struct uslub_cache *cache, void *object);

#endif /* TOOLS_SIM_FAMILY_SIM_H */
