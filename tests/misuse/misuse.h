/* SPDX-License-Identifier: MIT */
/*
 * What the misuse programs share.
 *
 * A scenario is told whether to commit its fault. misuse() runs it without first, in a child that must be
 * silent and exit with 0, and then with it. What the library then says must be one line that names the
 * pointer blamed. Whatever is not so ends the program with 3, which no source expects.
 */
#ifndef TESTS_MISUSE_MISUSE_H
#define TESTS_MISUSE_MISUSE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sched_setaffinity() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uslub/uslub.h>

#define need(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			misuse_failed(__FILE__, __LINE__, #condition);                             \
	} while (0)

static inline void misuse_failed(const char *file, int line, const char *condition)
	__attribute__((noreturn));
static inline void misuse_failed(const char *file, int line, const char *condition)
{
	dprintf(STDERR_FILENO, "%s:%d: not so: %s\n", file, line, condition);
	_exit(3);
}

/* ---- what goes to standard error ---- */

static int misuse_stderr, misuse_pipe[2];

/* Holds it back; it must fit a pipe. */
static inline void hold_stderr(void)
{
	need(!pipe(misuse_pipe));
	misuse_stderr = dup(STDERR_FILENO);
	need(misuse_stderr >= 0 && dup2(misuse_pipe[1], STDERR_FILENO) >= 0);
	need(!fcntl(misuse_pipe[0], F_SETFL, O_NONBLOCK));
}

/* Lets it go, and gives a copy. */
static inline void release_stderr(char *text, size_t size)
{
	ssize_t n = read(misuse_pipe[0], text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	dup2(misuse_stderr, STDERR_FILENO);
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) != n)
		_exit(3);
}

/* ---- with the fault ---- */

static const void *misuse_blamed;

/* The pointer that the message shall name. */
static inline void blame(const void *pointer)
{
	__atomic_store_n(&misuse_blamed, pointer, __ATOMIC_RELEASE);
}

/* Of SIGABRT; on return the program is ended by it. */
static inline void misuse_found(int signal)
{
	const void *blamed = __atomic_load_n(&misuse_blamed, __ATOMIC_ACQUIRE);
	char text[4096], address[32], *at;

	(void)signal;
	release_stderr(text, sizeof(text));
	at = strchr(text, '\n');
	if (!at || at[1])
		misuse_failed(__FILE__, __LINE__, "the library says one line");
	snprintf(address, sizeof(address), "%#lx", (unsigned long)(uintptr_t)blamed);
	at = strstr(text, address);
	if (blamed && !(at && strchr(" ,", at[strlen(address)])))
		misuse_failed(__FILE__, __LINE__, address);
}

/* ---- without ---- */

static inline void misuse_control(void (*scenario)(bool fault))
{
	char text[4096];
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	need(!pipe(ends));
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		scenario(false);
		exit(0);
	}
	close(ends[1]);
	n = read(ends[0], text, sizeof(text));
	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) != n)
		_exit(3);
	need(n == 0);
	need(waitpid(pid, &status, 0) == pid);
	need(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ends[0]);
}

static inline int misuse(void (*scenario)(bool fault))
{
	struct sigaction action = { .sa_handler = misuse_found };
	char text[4096];

	misuse_control(scenario);
	hold_stderr();
	need(!sigaction(SIGABRT, &action, NULL));
	scenario(true);
	release_stderr(text, sizeof(text));
	misuse_failed(__FILE__, __LINE__, "the fault is found");
}

/* On the CPU where it is now: what is looked for is in one CPU's sheaf. */
static inline void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	need(!sched_setaffinity(0, sizeof(here), &here));
}

/* ---- caches ---- */

#define SHEAVES 0		  /* as many objects in a sheaf as the size says */
#define NOSHEAF USLUB_POLICY_NONE /* every object meets its slab at once */

static inline struct uslub_cache *cache_with(const char *name, const struct uslub_policy *policy)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.policy = *policy,
	};
	struct uslub_cache *c = uslub_cache_create(name, 64, &args);

	need(c);
	return c;
}

static inline struct uslub_cache *cache(const char *name, uint64_t capacity)
{
	return cache_with(name, &(struct uslub_policy){ .sheaf_capacity = capacity });
}

/* One that fills with zeros what is freed. */
static inline struct uslub_cache *zeroing(const char *name, uint64_t capacity)
{
	return cache_with(name, &(struct uslub_policy){ .sheaf_capacity = capacity,
							.zero_on_free = USLUB_POLICY_ON });
}

static inline void *object(struct uslub_cache *c)
{
	void *o = uslub_cache_alloc(c, 0);

	need(o);
	memset(o, 0x11, uslub_cache_object_size(c));
	return o;
}

static inline uint64_t stat_of(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value;

	need(!uslub_cache_stat(c, which, &value));
	return value;
}

/* Objects meet their slabs. */
static inline void flush(struct uslub_cache *c)
{
	need(!uslub_cache_shrink(c));
}

/* Nothing is out any more. */
static inline void destroy(struct uslub_cache *c)
{
	need(!uslub_cache_destroy(c));
}

#endif /* TESTS_MISUSE_MISUSE_H */
