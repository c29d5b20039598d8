/* SPDX-License-Identifier: MIT */
/*
 * The library comes at run time, by dlopen() from a thread, while other threads exist already; it is used,
 * closed, and used on: it was linked so that it stays, for threads may be inside it, and its fork handlers
 * and its own thread live on.
 *
 *   dlopen LIBRARY
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <urcu/urcu-memb.h>
#include "memory.h"
#include "stress.h"

#define THREADS 4
#define OBJECTS 300

static struct {
	__typeof__(uslub_cache_create) *create;
	__typeof__(uslub_cache_destroy) *destroy;
	__typeof__(uslub_cache_shrink) *shrink;
	__typeof__(uslub_cache_alloc) *alloc;
	__typeof__(uslub_cache_free) *free;
	__typeof__(uslub_cache_free_rcu) *free_rcu;
	__typeof__(uslub_cache_barrier_rcu) *barrier_rcu;
	__typeof__(uslub_cache_stat) *stat;
} lib;

static struct uslub_cache *cache;
static bool ready, stop;
static uint64_t rounds;

static void *symbol(void *handle, const char *name)
{
	void *p = dlsym(handle, name);

	if (!p)
		die("%s", dlerror());
	return p;
}

static void use(uint64_t number)
{
	uint64_t *objects[OBJECTS];

	for (unsigned i = 0; i < OBJECTS; i++) {
		objects[i] = lib.alloc(cache, 0);
		if (!objects[i])
			die("uslub_cache_alloc: %s", strerror(errno));
		objects[i][0] = number + i;
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (objects[i][0] != number + i)
			die("object %u has another owner, too", i);
		if (i % 2)
			lib.free(cache, objects[i]);
		else
			lib.free_rcu(cache, objects[i]);
	}
}

/* Older than the library. */
static void *elder(void *arg)
{
	uint64_t number = (uintptr_t)arg << 32;

	while (!load(&ready))
		pause_us(100);
	for (; !load(&stop); number += OBJECTS) {
		use(number);
		bump(&rounds, 1);
	}
	return NULL;
}

static void *opener(void *arg)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .rcu = &urcu_memb_flavor };
	void *handle = dlopen(arg, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		die("%s", dlerror());
	lib.create = symbol(handle, "uslub_cache_create");
	lib.destroy = symbol(handle, "uslub_cache_destroy");
	lib.shrink = symbol(handle, "uslub_cache_shrink");
	lib.alloc = symbol(handle, "uslub_cache_alloc");
	lib.free = symbol(handle, "uslub_cache_free");
	lib.free_rcu = symbol(handle, "uslub_cache_free_rcu");
	lib.barrier_rcu = symbol(handle, "uslub_cache_barrier_rcu");
	lib.stat = symbol(handle, "uslub_cache_stat");
	cache = lib.create("late", 64, &args);
	if (!cache)
		die("uslub_cache_create: %s", strerror(errno));
	use(1);
	lib.barrier_rcu(cache);
	store(&ready, true);
	pause_us(100000);
	if (dlclose(handle))
		die("%s", dlerror());
	return NULL;
}

static void fork_once(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		watchdog(30);
		use(7);
		lib.barrier_rcu(cache);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("child: status %#x", (unsigned)status);
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS + 1];
	uint64_t before, rseq;
	void *handle;

	if (argc < 2 || access(argv[1], R_OK))
		cannot("the library is not where the argument says");
	watchdog(100);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, elder, (void *)(i + 1)))
			die("pthread_create");
	if (pthread_create(&thread[THREADS], NULL, opener, argv[1]))
		die("pthread_create");
	pthread_join(thread[THREADS], NULL);

	before = load(&rounds);
	pause_us((unsigned)(stress_seconds(0.5) * 1e6));
	if (load(&rounds) == before)
		die("nothing goes on after dlclose()");
	handle = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
	if (!handle)
		die("the library was unloaded");
	dlclose(handle);
	/* whose child starts a thread */
	if (!STRESS_TSAN && !emulated())
		fork_once();
	store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	lib.barrier_rcu(cache);
	if (lib.shrink(cache) || lib.stat(cache, USLUB_STAT_rseq, &rseq) || lib.destroy(cache))
		die("the cache cannot be destroyed");
	printf("dlopen: %lu rounds, %lu after dlclose(); rseq %lu\n", rounds, rounds - before,
	       rseq);
	return 0;
}
