/* SPDX-License-Identifier: MIT */
/*
 * What the stress tests share: how long, chance, failing, a watchdog, looking at the process.
 *
 * A test prints one line that says what it did and exits with 0. A failure is told on standard error
 * and ends the process at once, whatever the other threads are doing.
 */
#ifndef TESTS_STRESS_STRESS_H
#define TESTS_STRESS_STRESS_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uslub/uslub.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define STRESS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define STRESS_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define STRESS_ASAN 1
#endif
#ifndef STRESS_TSAN
#define STRESS_TSAN 0
#endif
#ifndef STRESS_ASAN
#define STRESS_ASAN 0
#endif

#define MIB ((size_t)1 << 20)

#define load(p)	    __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define peek(p)	    __atomic_load_n(p, __ATOMIC_RELAXED)
#define poke(p, v)  __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define swap(p, v)  __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL)
#define bump(p, n)  __atomic_add_fetch(p, n, __ATOMIC_ACQ_REL)

/* ---- failing ---- */

static inline void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static inline void die(const char *format, ...)
{
	char text[512] = "FAILED: ";
	size_t len = strlen(text);
	va_list ap;

	va_start(ap, format);
	vsnprintf(text + len, sizeof(text) - len - 1, format, ap);
	va_end(ap);
	strcat(text, "\n");
	/* in one piece: other threads may fail as well */
	_exit(write(STDERR_FILENO, text, strlen(text)) < 0 ? 2 : 1);
}

static inline void cannot(const char *why) __attribute__((noreturn));
static inline void cannot(const char *why)
{
	printf("skipped: %s\n", why);
	fflush(NULL);
	_exit(77);
}

/* What the test is doing, for the watchdog. */
static const char *volatile stress_phase = "start";

static inline void stress_late(int signal)
{
	const char *phase = stress_phase;

	(void)signal;
	if (write(STDERR_FILENO, "FAILED: hangs: ", 15) < 0 ||
	    write(STDERR_FILENO, phase, strlen(phase)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
		_exit(2);
	_exit(1);
}

/* Ends the process unless it ends by itself within so many seconds; a fork takes it away. */
static inline void watchdog(unsigned seconds)
{
	struct sigaction action = { .sa_handler = stress_late };
	sigset_t set;

	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(seconds * (STRESS_TSAN ? 8 : STRESS_ASAN ? 3 : 1));
}

/* ---- a broken run in a child, for controls ---- */

struct heard {
	pid_t pid;
	int end;
	char text[4096]; /* the beginning of what it said on standard error */
};

/* Whether this is the child, whose standard error stress_hear() reads in the parent. */
static inline bool stress_fork(struct heard *h)
{
	int ends[2];

	if (pipe(ends))
		die("pipe: %s", strerror(errno));
	fflush(stdout);
	h->pid = fork();
	if (h->pid < 0)
		die("fork: %s", strerror(errno));
	if (h->pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
	}
	close(ends[1]);
	h->end = ends[0];
	return h->pid == 0;
}

/* Reads what the child says until it ends; the status as of waitpid(). */
static inline int stress_hear(struct heard *h)
{
	const size_t most = sizeof(h->text) - 1;
	size_t len = 0;
	int status;
	ssize_t n;

	memset(h->text, 0, sizeof(h->text));
	/* to the end, though only the beginning matters */
	while ((n = read(h->end, h->text + len, most - len)) > 0)
		len = len + (size_t)n < most ? len + (size_t)n : sizeof(h->text) / 2;
	close(h->end);
	if (waitpid(h->pid, &status, 0) != h->pid)
		die("a broken run was lost");
	return status;
}

/* ---- time ---- */

static inline double stress_seconds(double otherwise)
{
	const char *s = getenv("USLUB_TEST_SECONDS");
	double seconds = s ? strtod(s, NULL) : 0;

	return seconds > 0 ? seconds : otherwise;
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void pause_us(unsigned us)
{
	struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };

	nanosleep(&t, NULL);
}

/* ---- arguments and chance ---- */

/* The value of --name=VALUE, "" of --name alone, or NULL. */
static inline const char *option(int argc, char **argv, const char *name)
{
	size_t len = strlen(name);

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--", 2) && !strncmp(argv[i] + 2, name, len)) {
			if (!argv[i][2 + len])
				return "";
			if (argv[i][2 + len] == '=')
				return argv[i] + 3 + len;
		}
	return NULL;
}

static inline uint64_t stress_seed(int argc, char **argv)
{
	const char *s = option(argc, argv, "seed");
	struct timespec t;

	if (s)
		return strtoull(s, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &t);
	return ((uint64_t)t.tv_sec << 20 ^ (uint64_t)t.tv_nsec) & 0xffffffff;
}

/* Weyl sequence with a finalizing mix. */
static inline uint64_t chance(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(((chance(state) >> 32) * n) >> 32);
}

/* ---- the library ---- */

static inline uint64_t stat_of(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value;
	int error = uslub_cache_stat(c, which, &value);

	if (error)
		die("statistic %d: %d", (int)which, error);
	return value;
}

#define STAT(c, name) stat_of(c, USLUB_STAT_##name)

/* Objects that the counters say have left their slabs and not come back. */
static inline int64_t outside_slabs(const struct uslub_cache *c, uint64_t failed_calls)
{
	return (int64_t)(STAT(c, alloc_slowpath) - failed_calls + STAT(c, sheaf_refill) -
			 STAT(c, sheaf_flush) - STAT(c, free_slowpath));
}

/* All to the slabs: what RCU sheaves of CPUs hold is queued by the shrink, so that a barrier follows. */
static inline void settle(struct uslub_cache *c)
{
	int error;

	for (int i = 0; i < 2; i++) {
		error = uslub_cache_shrink(c);
		if (error)
			die("%s: shrink: %d", uslub_cache_name(c), error);
		uslub_cache_barrier_rcu(c);
	}
	error = uslub_cache_shrink(c);
	if (error)
		die("%s: shrink: %d", uslub_cache_name(c), error);
}

/* ---- the process ---- */

static inline unsigned cpus_allowed(int *cpus, unsigned most)
{
	cpu_set_t set;
	unsigned n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("sched_getaffinity: %s", strerror(errno));
	for (int cpu = 0; cpu < CPU_SETSIZE && n < most; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[n++] = cpu;
	return n;
}

/* Resident bytes. Counted by CPU and summed rarely, /proc/self/statm may be off by some pages each. */
static inline size_t resident(void)
{
	unsigned long size, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f)
		cannot("no /proc/self/statm");
	if (fscanf(f, "%lu %lu", &size, &pages) != 2)
		die("/proc/self/statm cannot be read");
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif /* TESTS_STRESS_STRESS_H */
