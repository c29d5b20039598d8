/* SPDX-License-Identifier: MIT */
/*
 * A program that is going to be executed: whether the dynamic loader will preload a library into it.
 */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

#include <stdbool.h>

/*
 * program_find - the file that execvp(3) executes by a name, for the caller to free; NULL when there is none
 */
char *program_find(const char *name);

/*
 * program_takes_malloc - whether a malloc can be preloaded into a program
 * @file: what program_find() found; of a script it is about what interprets that
 *
 * Returns false after a message that says why not. Where the program would still use a malloc of its own there is a
 * message, too. What cannot be looked at, or not be executed, is left to who executes it: true.
 */
bool program_takes_malloc(const char *file);

#endif /* TOOLS_PROGRAM_H */
