/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "child.h"
#include "tool.h"

extern char **environ;

/* Those that end a program which does not know them, and that people send to end it. */
static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP };

static volatile sig_atomic_t running, interrupts;

/* What comes from a terminal the command has got as well, what was sent to this process it has not. */
static void forward(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (signal == SIGINT)
		interrupts++;
	if (info->si_code <= 0 && running)
		kill(running, signal);
}

struct signals {
	struct sigaction old[TOOL_COUNT(forwarded)];
	sigset_t mask;
};

/* Takes over the signals and holds them back until the command runs. */
static void take_signals(struct signals *s)
{
	struct sigaction action = { .sa_sigaction = forward, .sa_flags = SA_SIGINFO };
	sigset_t block;

	sigemptyset(&block);
	for (unsigned i = 0; i < TOOL_COUNT(forwarded); i++)
		sigaddset(&block, forwarded[i]);
	sigprocmask(SIG_BLOCK, &block, &s->mask);
	for (unsigned i = 0; i < TOOL_COUNT(forwarded); i++) {
		sigaction(forwarded[i], NULL, &s->old[i]);
		if (s->old[i].sa_handler != SIG_IGN)
			sigaction(forwarded[i], &action, NULL);
	}
	/* Where this is ignored nothing is left of a command that has ended. */
	signal(SIGCHLD, SIG_DFL);
}

static void release_signals(const struct signals *s)
{
	for (unsigned i = 0; i < TOOL_COUNT(forwarded); i++)
		sigaction(forwarded[i], &s->old[i], NULL);
}

char *child_preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");

	return tool_format("%s%s%s", library, others && *others ? ":" : "", others ? others : "");
}

void child_attributes(posix_spawnattr_t *attributes)
{
	sigset_t defaults;

	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(attributes);
	posix_spawnattr_setsigdefault(attributes, &defaults);
	posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF);
}

static int spawn(pid_t *pid, char *const argv[], const sigset_t *mask)
{
	posix_spawnattr_t attributes;
	int error;

	child_attributes(&attributes);
	posix_spawnattr_setsigmask(&attributes, mask);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	error = posix_spawnp(pid, argv[0], NULL, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	return error;
}

/* Waits until the process has ended; its number is another's only after it was reaped, so stop first. */
static int wait_for(pid_t pid)
{
	siginfo_t info;
	int status = 0;

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	running = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? CHILD_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

struct child child_run(char *const argv[])
{
	struct child child = { .status = CHILD_NOT_EXECUTABLE };
	struct signals signals;
	pid_t pid;
	int error;

	take_signals(&signals);
	interrupts = 0;
	error = spawn(&pid, argv, &signals.mask);
	running = error ? 0 : pid;
	sigprocmask(SIG_SETMASK, &signals.mask, NULL);
	if (error) {
		tool_error("cannot run '%s': %s", argv[0], strerror(error));
		if (error == ENOENT)
			child.status = CHILD_NOT_FOUND;
	} else {
		child.started = true;
		child.status = wait_for(pid);
	}
	child.interrupted = interrupts > 0;
	release_signals(&signals);
	return child;
}
