/* SPDX-License-Identifier: MIT */
/*
 * What `uslub record` is tried on: every function of the malloc family, at times and in places where it is easily
 * missed. Each kind of call has a size of its own, so that it is told from what libraries allocate besides; at the
 * end a line for each says how often it was done.
 *
 *   record_target [END] [AGAIN]
 *
 * END is how the program ends: exit, _exit, kill or abort. With AGAIN it executes itself first, without.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS	7
#define THREADS 4

enum {
	EARLY = 7001, /* in a constructor */
	PLAIN,
	CLEARED = 7004,
	GROWN, /* by realloc, from PLAIN */
	ARRAY = 7008,
	POSIX,
	ALIGNED = 7168,
	MEMALIGN,
	VALLOC,
	PVALLOC = 3 * 4096, /* asked for as less */
	DESTRUCTOR = 7300,  /* in a destructor of thread-specific data */
	HANDED,		    /* freed by another thread */
	FORKED,		    /* by a child, which is not recorded */
	KEPT,		    /* never freed, by a thread that does not end */
	REFUSED,	    /* given to a realloc that fails, and freed */
	EMPTIED,	    /* given to realloc with a size of 0 */
	BEFORE,		    /* before this program is executed a second time */
};

static void *volatile sink; /* so that the compiler leaves calls alone */

static void *use(void *p)
{
	if (!p)
		abort();
	memset(p, 1, 1);
	sink = p;
	return p;
}

static __attribute__((constructor)) void early(void)
{
	free(use(malloc(EARLY)));
}

static void family(void)
{
	void *p;

	for (int i = 0; i < ROUNDS; i++) {
		p = use(malloc(PLAIN));
		p = use(realloc(p, GROWN));
		free(p);
		free(use(calloc(2, CLEARED / 2)));
		free(use(reallocarray(NULL, 4, ARRAY / 4)));
		if (posix_memalign(&p, 64, POSIX))
			abort();
		free(use(p));
		free(use(aligned_alloc(128, ALIGNED)));
		free(use(memalign(256, MEMALIGN)));
		free(use(valloc(VALLOC)));
		free(use(pvalloc(PVALLOC - 1)));
	}
	p = use(malloc(REFUSED));
	if (realloc(p, PTRDIFF_MAX))
		abort();
	free(p);
	p = use(malloc(EMPTIED));
	sink = realloc(p, 0);
	free(NULL);
}

static pthread_key_t key;

static void on_thread_end(void *p)
{
	free(p);
	free(use(malloc(DESTRUCTOR)));
}

static void *handed[THREADS];

static void *in_thread(void *place)
{
	pthread_setspecific(key, use(malloc(DESTRUCTOR)));
	*(void **)place = use(malloc(HANDED));
	family();
	return NULL;
}

static void threads(void)
{
	pthread_t list[THREADS];

	pthread_key_create(&key, on_thread_end);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&list[i], NULL, in_thread, &handed[i]))
			abort();
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(list[i], NULL);
		free(handed[i]);
	}
}

static void a_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		free(use(malloc(FORKED)));
		family();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static pthread_barrier_t kept;

static void *stay(void *arg)
{
	(void)arg;
	use(malloc(KEPT));
	pthread_barrier_wait(&kept);
	for (;;)
		pause();
	return NULL;
}

static void a_thread_that_stays(void)
{
	pthread_t thread;

	pthread_barrier_init(&kept, NULL, 2);
	if (pthread_create(&thread, NULL, stay, NULL))
		abort();
	pthread_barrier_wait(&kept);
}

/* Kind, size, alignment, how often; then how many of that size are never freed. */
static void say(const char *kind, int size, int align, int times, int left)
{
	printf("%s %d %d %d %d\n", kind, size, align, times, left);
}

static void say_all(void)
{
	int all = ROUNDS * (THREADS + 1);

	say("malloc", EARLY, 1, 1, 0);
	say("malloc", PLAIN, 1, all, 0);
	say("calloc", CLEARED, 1, all, 0);
	say("realloc", GROWN, 1, all, 0);
	say("malloc", ARRAY, 1, all, 0);
	say("aligned", POSIX, 64, all, 0);
	say("aligned", ALIGNED, 128, all, 0);
	say("aligned", MEMALIGN, 256, all, 0);
	say("aligned", VALLOC, getpagesize(), all, 0);
	say("aligned", PVALLOC, getpagesize(), all, 0);
	say("malloc", DESTRUCTOR, 1, 2 * THREADS, 0);
	say("malloc", HANDED, 1, THREADS, 0);
	say("malloc", FORKED, 1, 0, 0);
	say("malloc", KEPT, 1, 1, 1);
	say("malloc", REFUSED, 1, THREADS + 1, 0);
	say("malloc", EMPTIED, 1, THREADS + 1, 0);
	say("malloc", BEFORE, 1, 0, 0);
	fflush(stdout);
}

static void end(const char *how)
{
	if (!strcmp(how, "_exit"))
		_exit(9);
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "abort"))
		abort();
	exit(3);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "exit";

	if (argc > 2) {
		use(malloc(BEFORE));
		execl("/proc/self/exe", argv[0], how, NULL);
		abort();
	}
	family();
	threads();
	a_child();
	a_thread_that_stays();
	say_all();
	end(how);
}
