/* SPDX-License-Identifier: MIT */
/*
 * What membarrier does, by hand, for where a sandbox forbids it: a thread that runs on a CPU has pushed any
 * other off it, out of its sequence.
 *
 * It may not visit all CPUs: some are offline, or outside of its cpuset. That does no harm if no thread of
 * the process can be there. But threads may be in other cpusets than this one. So after the visits every
 * thread is asked where it may run; one that may be on a CPU not visited could be in the middle of a
 * sequence there. Asked before, it might go there afterwards; it cannot have begun a sequence that matters
 * on a CPU that it may not run on any more, since it was moved away, out of that sequence. Threads that
 * began meanwhile find closed what was closed before the visits.
 *
 * Another thread may change the affinity of this one meanwhile. Then it may not be where it went to, and
 * has not visited that CPU; and what it had before is put back only if nobody else has set anything.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/platform.h"
#include "machine.h"

#define TASKS_TRIES 5

struct cpus {
	unsigned long bits[PLAT_MAX_CPUS / 64];
};

static bool may_run_on(int tid, struct cpus *cpus)
{
	memset(cpus, 0, sizeof(*cpus));
	return !sched_getaffinity(tid, sizeof(*cpus), (cpu_set_t *)cpus);
}

static bool go(const struct cpus *cpus)
{
	return !sched_setaffinity(0, sizeof(*cpus), (const cpu_set_t *)cpus);
}

/* Fills in which CPUs the thread has been on. False: on none, or one was refused for a reason of its own. */
static bool visit(struct cpus *visited)
{
	struct cpus home, there = { { 0 } }, now;
	bool ok = true, moved = false;

	memset(visited, 0, sizeof(*visited));
	if (!may_run_on(0, &home))
		return false;
	for (unsigned cpu = 0; cpu < plat_ncpu(); cpu++) {
		now = (struct cpus){ { 0 } };
		now.bits[cpu / 64] = 1ul << cpu % 64;
		if (go(&now)) {
			moved = true;
			there = now;
			if ((unsigned)sched_getcpu() == cpu)
				visited->bits[cpu / 64] |= now.bits[cpu / 64];
		} else if (errno != EINVAL) {
			ok = false;
		}
	}
	if (moved && may_run_on(0, &now) && !memcmp(&now, &there, sizeof(now)))
		go(&home);
	return ok && moved;
}

/* Of a thread; gone by now is fine. */
static bool only_on(int tid, const struct cpus *visited)
{
	struct cpus may;

	if (!may_run_on(tid, &may))
		return errno == ESRCH;
	for (size_t i = 0; i < array_size(may.bits); i++)
		if (may.bits[i] & ~visited->bits[i])
			return false;
	return true;
}

static int number_of(const char *name)
{
	int n = 0;

	for (; *name >= '0' && *name <= '9'; name++)
		n = n * 10 + (*name - '0');
	return n;
}

/* Returns how many threads there were, or -1: one may run elsewhere, or could not be asked. */
static long ask_threads(int dir, const struct cpus *visited)
{
	_Alignas(struct dirent64) char buf[4096];
	const struct dirent64 *entry;
	long n = 0, got;
	int tid;

	while ((got = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; at < got; at += entry->d_reclen) {
			entry = (const struct dirent64 *)(buf + at);
			tid = number_of(entry->d_name);
			if (!tid) /* . and .. */
				continue;
			if (!only_on(tid, visited))
				return -1;
			n++;
		}
	return got ? -1 : n;
}

/* Reading the directory may miss threads when others end. Its links tell how many there are. */
static bool all_threads_only_on(const struct cpus *visited)
{
	long dir, n = -1, links = 0;
	struct stat st;

	dir = syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	for (unsigned i = 0; i < TASKS_TRIES; i++) {
		n = syscall(SYS_lseek, dir, 0, SEEK_SET) ? -1 : ask_threads((int)dir, visited);
		if (n < 0 || syscall(SYS_fstat, dir, &st))
			break;
		links = (long)st.st_nlink - 2;
		if (n >= links)
			break;
	}
	syscall(SYS_close, dir);
	return n > 0 && links > 0 && n >= links;
}

int visit_cpus(void)
{
	PRESERVE_ERRNO;
	struct cpus visited;

	return visit(&visited) && all_threads_only_on(&visited) ? 0 : -EPERM;
}
