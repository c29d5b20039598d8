/* SPDX-License-Identifier: MIT */
/*
 * The workloads on the simulated machine: the family "uslub" over the core that was built for it. What a user
 * writes to his objects costs what moving their lines costs.
 */
#include "platform/sim/sim.h"
#include "family_sim.h"

#define WL_OWN_TOUCH
#define WL_FLAVOR		     sim_flavor
#define WL_FREE			     sim_free
#define wl_touch(object)	     sim_use(object, 1)
#define wl_touch_lines(object, size) sim_use(object, size)

#include "../../workloads/family_uslub.c"
