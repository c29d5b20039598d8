/* SPDX-License-Identifier: MIT */
/* Names of what a simulated machine's time is spent on, for reports. */
#ifndef TOOLS_SIM_NAMES_H
#define TOOLS_SIM_NAMES_H

/*
 * sim_lock_name - of the locks of a rank; NULL when no lock has it
 * sim_time_name - of one of enum sim_time
 */
const char *sim_lock_name(unsigned rank);
const char *sim_time_name(unsigned part);

#endif /* TOOLS_SIM_NAMES_H */
