/* SPDX-License-Identifier: MIT */
/*
 * A sandbox takes system calls away.
 *
 *   --part=late    after start, while threads run, membarrier(2) gets EPERM: shrink finds another way or
 *                  says -EPERM; nothing is lost, all slots go on, a barrier returns, destroy succeeds
 *   --part=locked  the same, and sched_setaffinity(2) as well; the barrier warns, once
 *   --part=early   before the program starts, rseq(2) and membarrier(2) get ENOSYS or EPERM, together or
 *                  one of them: the statistic `rseq` is 0 and everything works
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include "flavor.h"

#define THREADS 6
#define OBJECTS 200
#define ANY	0

static struct uslub_cache *cache;
static bool stop;
static uint64_t rounds, refused, shrunk, barriers;

/* What a filter does to one system call; to one command of it, or to ANY. */
struct rule {
	int number;
	unsigned command;
	int error;
};

/* For all threads of the process; false: there are no filters here. */
static bool install(const struct rule *rules, unsigned n)
{
	struct sock_filter code[32];
	struct sock_fprog program = { .filter = code };
	unsigned short at = 0;

	for (unsigned i = 0; i < n; i++) {
		code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							  offsetof(struct seccomp_data, nr));
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (unsigned)rules[i].number, 0,
							  rules[i].command ? 3 : 1);
		if (rules[i].command) {
			code[at++] = (struct sock_filter)BPF_STMT(
				BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]));
			code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								  rules[i].command, 0, 1);
		}
		code[at++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)rules[i].error);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = at;
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* ---- use of the library ---- */

static void use(uint64_t number)
{
	uint64_t *objects[OBJECTS];

	for (unsigned i = 0; i < OBJECTS; i++) {
		objects[i] = uslub_cache_alloc(cache, 0);
		if (!objects[i])
			die("uslub_cache_alloc: %s", strerror(errno));
		poke(&objects[i][0], number + i);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (peek(&objects[i][0]) != number + i)
			die("object %u has another owner, too", i);
		if (i % 2)
			uslub_cache_free(cache, objects[i]);
		else
			uslub_cache_free_rcu(cache, objects[i]);
	}
}

static void *user(void *arg)
{
	uint64_t number = (uintptr_t)arg << 32;

	for (; !load(&stop); number += OBJECTS) {
		use(number);
		bump(&rounds, 1);
	}
	return NULL;
}

static void shrink_once(void)
{
	cpu_set_t before, after;
	int error;

	sched_getaffinity(0, sizeof(before), &before);
	error = uslub_cache_shrink(cache);
	sched_getaffinity(0, sizeof(after), &after);
	if (error && error != -EPERM)
		die("uslub_cache_shrink: %d", error);
	if (!CPU_EQUAL(&before, &after))
		die("shrink has left the thread on other CPUs");
	if (error)
		refused++;
	else
		shrunk++;
}

static void shrink_and_wait(double seconds)
{
	double end = now() + seconds;

	while (now() < end) {
		stress_phase = "shrink";
		shrink_once();
		stress_phase = "barrier";
		uslub_cache_barrier_rcu(cache);
		barriers++;
	}
}

static void start(pthread_t *thread)
{
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, user, (void *)(i + 1)))
			die("pthread_create");
}

static void end(const pthread_t *thread)
{
	stress_phase = "threads end";
	store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- late ---- */

/* Standard error, as long as messages of the library are counted. */
static int messages[2], real_stderr;

static void catch_messages(void)
{
	if (pipe(messages) || (real_stderr = dup(STDERR_FILENO)) < 0 ||
	    fcntl(messages[0], F_SETFL, O_NONBLOCK) || fcntl(messages[1], F_SETFL, O_NONBLOCK))
		die("pipe: %s", strerror(errno));
	dup2(messages[1], STDERR_FILENO);
}

static unsigned caught_messages(void)
{
	unsigned lines = 0;
	char c;

	dup2(real_stderr, STDERR_FILENO);
	while (read(messages[0], &c, 1) == 1)
		lines += c == '\n';
	return lines;
}

static void part_late(const char *part, double seconds)
{
	static const struct rule rules[] = {
		{ SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, EPERM },
		{ SYS_sched_setaffinity, ANY, EPERM },
	};
	bool locked = !strcmp(part, "locked");
	uint64_t before, bound, stayed, rseq;
	unsigned warnings;
	pthread_t thread[THREADS];

	flavor_start(&urcu_memb_flavor);
	cache = rcu_cache("sandboxed", 128, 0);
	rseq = STAT(cache, rseq);
	start(thread);
	shrink_and_wait(seconds / 4);
	if (refused)
		die("shrink was refused before there was a filter");
	if (!install(rules, locked ? 2 : 1))
		cannot("no seccomp filters here");
	before = load(&rounds);
	catch_messages();
	shrink_and_wait(seconds);
	warnings = caught_messages();
	if (warnings != (locked && rseq))
		die("%u messages of %lu barriers", warnings, barriers);
	if (load(&rounds) == before)
		die("nothing goes on");
	if (locked && rseq && !refused)
		die("shrink says it closed the sheaves of other CPUs, which it cannot have");
	end(thread);
	shrink_once();
	uslub_cache_barrier_rcu(cache);
	shrink_once();
	/* What is left is in the sheaves of CPUs, and known to be. */
	stayed = (uint64_t)outside_slabs(cache, 0);
	bound = refused ? 4 * ((uint64_t)sysconf(_SC_NPROCESSORS_CONF) + 8) *
				  STAT(cache, sheaf_capacity)
			: 0;
	if (stayed > bound || STAT(cache, objects) != stayed)
		die("%lu objects outside slabs, %lu in use, at most %lu were expected", stayed,
		    STAT(cache, objects), bound);
	if (uslub_cache_destroy(cache))
		die("destroy failed");
	printf("seccomp %s: shrink worked %lu times, was refused %lu times; %lu barriers, %lu "
	       "rounds "
	       "under the filter, %lu objects stayed in sheaves; rseq %lu\n",
	       part, shrunk, refused, barriers, rounds - before, stayed, rseq);
}

/* ---- early ---- */

static int part_check(double seconds)
{
	pthread_t thread[THREADS];

	flavor_start(&urcu_memb_flavor);
	cache = rcu_cache("fallback", 128, 0);
	if (STAT(cache, rseq))
		die("rseq is 1 though the system calls are missing");
	start(thread);
	shrink_and_wait(seconds);
	end(thread);
	settle(cache);
	if (outside_slabs(cache, 0) || STAT(cache, objects) || uslub_cache_destroy(cache))
		die("objects are lost");
	if (refused)
		die("shrink was refused");
	return 0;
}

/* Runs the check under a filter. */
static void under(const struct rule *rules, unsigned n)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!install(rules, n))
			_exit(77);
		execl("/proc/self/exe", "seccomp", "--part=check", (char *)NULL);
		_exit(77);
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		cannot("no seccomp filters here");
	if (status)
		die("under a filter (%d, error %d): status %#x", rules->number, rules->error,
		    (unsigned)status);
}

static void part_early(void)
{
	static const int errors[] = { ENOSYS, EPERM };
	struct rule rules[2];

	for (unsigned i = 0; i < 2; i++) {
		rules[0] = (struct rule){ SYS_membarrier, ANY, errors[i] };
		rules[1] = (struct rule){ SYS_rseq, ANY, errors[i] };
		under(rules, 1);
		under(rules + 1, 1);
		under(rules, 2);
	}
	printf("seccomp early: 6 filters\n");
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "part");
	double seconds = stress_seconds(2);

	watchdog(100 + 2 * (unsigned)seconds);
	if (!part)
		die("--part=PART is needed");
	if (!strcmp(part, "check"))
		return part_check(seconds / 8);
	if (!strcmp(part, "early"))
		part_early();
	else if (!strcmp(part, "late") || !strcmp(part, "locked"))
		part_late(part, seconds);
	else
		die("no part %s", part);
	return 0;
}
