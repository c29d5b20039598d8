/* SPDX-License-Identifier: MIT */
/*
 * Visiting CPUs instead of membarrier(2): not all may be visited, other threads may be elsewhere, and
 * somebody else may say meanwhile where the thread shall run. CPUs of another cpuset are had by refusing
 * to go there.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static int refused = -1, error = EINVAL; /* a CPU that may not be visited, and what is said then */
static int interfere_at = -1;		 /* a CPU; somebody changes the affinity after that */
static cpu_set_t all, others_choice;
static int first, second;
static uint32_t pinned, may_end;

int __real_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);

int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	bool one = CPU_COUNT_S(size, set) == 1;
	int result;

	if (refused >= 0 && one && CPU_ISSET_S(refused, size, set)) {
		errno = error;
		return -1;
	}
	result = __real_sched_setaffinity(tid, size, set);
	if (interfere_at >= 0 && one && CPU_ISSET_S(interfere_at, size, set))
		__real_sched_setaffinity(0, sizeof(others_choice), &others_choice);
	return result;
}

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

static cpu_set_t allowed(void)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return set;
}

static void run_on(cpu_set_t set)
{
	assert_int_equal(__real_sched_setaffinity(0, sizeof(set), &set), 0);
}

static bool is_set(void *flag)
{
	return plat_load_acquire((uint32_t *)flag);
}

static void *stays(void *arg)
{
	run_on(only(*(int *)arg));
	plat_store_release(&pinned, 1);
	while (!plat_load_acquire(&may_end))
		usleep(1000);
	return arg;
}

static pthread_t start(int *cpu)
{
	pthread_t thread;

	pinned = may_end = 0;
	assert_int_equal(pthread_create(&thread, NULL, stays, cpu), 0);
	assert_true(unit_wait(is_set, &pinned));
	return thread;
}

/* A thread that was waited for is among the process's for a moment yet. */
static void wait_until_alone(void)
{
	struct stat st = { 0 };

	for (unsigned i = 0; i < 10000 && st.st_nlink != 3; i++) {
		if (i)
			usleep(1000);
		assert_int_equal(stat("/proc/self/task", &st), 0);
	}
}

static void end(pthread_t thread)
{
	plat_store_release(&may_end, 1);
	pthread_join(thread, NULL);
	wait_until_alone();
}

static int visit_from(cpu_set_t home)
{
	cpu_set_t after;
	int result;

	run_on(home);
	errno = 77;
	result = visit_cpus();
	assert_int_equal(errno, 77);
	after = allowed();
	if (interfere_at < 0)
		assert_true(CPU_EQUAL(&home, &after));
	run_on(all);
	return result;
}

static void begin(void)
{
	if (unit_emulated() || unit_under_valgrind())
		unit_skip("threads are where an emulator puts them");
	if (unit_tsan())
		unit_skip("the sanitizer has a thread of its own, which may run anywhere");
	all = allowed();
	refused = interfere_at = -1;
	error = EINVAL;
	first = second = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && second < 0; cpu++)
		if (CPU_ISSET(cpu, &all)) {
			second = first < 0 ? -1 : cpu;
			first = first < 0 ? cpu : first;
		}
	if (second < 0)
		unit_skip("one CPU");
}

static void test_everywhere(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	unit_equal(visit_from(all), 0);
	unit_equal(visit_from(only(second)), 0);
	thread = start(&second);
	unit_equal(visit_from(only(first)), 0);
	end(thread);
}

/* A CPU that cannot be visited matters if a thread may be there. */
static void test_elsewhere(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	refused = second;
	unit_equal(visit_from(only(first)), 0);
	unit_equal(visit_from(all), -EPERM);
	thread = start(&first);
	unit_equal(visit_from(only(first)), 0);
	end(thread);
	thread = start(&second);
	unit_equal(visit_from(only(first)), -EPERM);
	end(thread);
	unit_equal(visit_from(only(first)), 0);
	error = EPERM;
	unit_equal(visit_from(only(first)), -EPERM);
}

/* More than one read of the directory: nobody is forgotten. */
static void test_many(void **state)
{
	pthread_t threads[300];

	(void)state;
	begin();
	refused = second;
	for (unsigned i = 0; i < array_size(threads); i++)
		threads[i] = start(i + 1 < array_size(threads) ? &first : &second);
	unit_equal(visit_from(only(first)), -EPERM);
	plat_store_release(&may_end, 1);
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	wait_until_alone();
	unit_equal(visit_from(only(first)), 0);
}

/* What somebody else has chosen for the thread meanwhile stays. */
static void test_interference(void **state)
{
	pthread_t thread;
	cpu_set_t after;

	(void)state;
	begin();
	others_choice = only(first);
	interfere_at = second;
	/* It was on its way to the second one, but may not have come there. */
	thread = start(&second);
	unit_equal(visit_from(all), -EPERM);
	end(thread);
	unit_equal(visit_from(all), 0); /* nobody can be there any more */
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all))
			interfere_at = cpu; /* the last: nothing is set after it */
	others_choice = only(first);
	visit_cpus();
	after = allowed();
	run_on(all);
	assert_true(CPU_EQUAL(&after, &others_choice));
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_everywhere, UNIT_REAL),
		UNIT_TEST(test_elsewhere, UNIT_REAL),
		UNIT_TEST(test_many, UNIT_REAL),
		UNIT_TEST(test_interference, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
