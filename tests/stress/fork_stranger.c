/* SPDX-License-Identifier: MIT */
/*
 * A thread that RCU has never heard of forks while a grace period is under way, between the flavor's own
 * calls around fork. The bp flavor registers such a thread when it is asked anything, under the mutex that
 * urcu_bp_before_fork() has just taken: whoever asks in a fork handler waits for himself.
 */
#include <pthread.h>
#include <sys/wait.h>
#include "memory.h"

#ifdef HAVE_URCU_BP

#include <urcu/urcu-bp.h>

#define FORKS 30

extern const struct rcu_flavor_struct urcu_bp_flavor;

static struct uslub_cache *cache;
static bool stop;

static void retire_one(void)
{
	uslub_cache_free_rcu(cache, uslub_cache_alloc(cache, 0));
}

/* Keeps grace periods long enough for the forks to meet one. */
static void *reader(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		urcu_bp_read_lock();
		pause_us(20000);
		urcu_bp_read_unlock();
	}
	return arg;
}

static void *writer(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		retire_one();
		pause_us(50);
	}
	return arg;
}

static void child(void)
{
	urcu_bp_after_fork_child();
	watchdog(20);
	retire_one();
	uslub_cache_barrier_rcu(cache);
	_exit(0);
}

int main(void)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .rcu = &urcu_bp_flavor };
	pthread_t threads[2];
	int status;
	pid_t pid;

	if (STRESS_TSAN)
		cannot("ThreadSanitizer lets a child start no thread");
	if (emulated())
		cannot("an emulator loses track of threads in a fork");
	cache = uslub_cache_create("stranger", 64, &args);
	if (!cache || pthread_create(&threads[0], NULL, reader, NULL) ||
	    pthread_create(&threads[1], NULL, writer, NULL))
		die("cannot start");
	pause_us(100000);
	for (unsigned i = 0; i < FORKS; i++) {
		watchdog(30);
		urcu_bp_before_fork();
		pid = fork();
		if (!pid)
			child();
		urcu_bp_after_fork_parent();
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die("child %u of %u: status %x", i, FORKS, (unsigned)status);
		pause_us(3000);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	if (uslub_cache_destroy(cache))
		die("objects are missing");
	printf("fork stranger: %u forks\n", FORKS);
	return 0;
}

#else

int main(void)
{
	cannot("no bp flavor of liburcu (Debian: liburcu-dev)");
}

#endif
