/* SPDX-License-Identifier: MIT */
/*
 * A command that is run and waited for, as env(1) and timeout(1) do.
 */
#ifndef TOOLS_CHILD_H
#define TOOLS_CHILD_H

#include <spawn.h>
#include <stdbool.h>

#define CHILD_TOOL_FAILED    125 /* who should run it failed himself */
#define CHILD_NOT_EXECUTABLE 126
#define CHILD_NOT_FOUND	     127
#define CHILD_BY_SIGNAL	     128 /* and the number of the signal */

/*
 * struct child - what became of it
 * @started: it ran
 * @status: its exit status; CHILD_BY_SIGNAL and more when a signal ended it; one of the other two when it did
 *	not start
 * @interrupted: Ctrl-C was pressed meanwhile
 */
struct child {
	bool started;
	int status;
	bool interrupted;
};

/*
 * child_run - run a command and wait for it
 * @argv: the command, found in PATH, and its arguments; ends with NULL
 *
 * A signal that would end this program goes to the command instead, and this program goes on when the
 * command has ended. What is ignored here, as in a shell's background, stays ignored. When it does not start
 * there has been a message.
 */
struct child child_run(char *const argv[]);

/*
 * child_preload - what LD_PRELOAD is with a library in front of what is preloaded anyway, for the caller to free
 */
char *child_preload(const char *library);

/*
 * child_attributes - how processes are started: they may die of a reader that is gone, which this program does
 *	not. The caller destroys them.
 */
void child_attributes(posix_spawnattr_t *attributes);

#endif /* TOOLS_CHILD_H */
