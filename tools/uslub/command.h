/* SPDX-License-Identifier: MIT */
/*
 * The subcommands of `uslub`. Each is a function of its own file; main.c has the table.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

/*
 * Called with argv[0] = "uslub NAME", which argp shows in messages. Returns the exit status.
 */
int command_bench(int argc, char **argv);
int command_bench_worker(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_info(int argc, char **argv);
int command_map(int argc, char **argv);
int command_record(int argc, char **argv);
int command_run(int argc, char **argv);
int command_sim(int argc, char **argv);
int command_snapshot(int argc, char **argv);
int command_top(int argc, char **argv);

#endif /* TOOLS_COMMAND_H */
