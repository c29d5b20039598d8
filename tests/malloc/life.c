/* SPDX-License-Identifier: MIT */
/*
 * What a process may do to its malloc between its first and its last instruction. Each is a mode:
 *
 *   family     every function of the C library's malloc family gives the results that it should
 *   fork       threads allocate while others fork; children allocate and free all sizes
 *   threads    1,000 threads are made and joined, each hands what it allocated to the next
 *   late       thread-specific data's destructors and exit handlers allocate
 *   limit      all memory there is is allocated; NULL and ENOMEM; after the frees it is there again
 *   spawn      vfork and posix_spawn
 *   wrong WHAT a pointer that must not be freed is freed
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "line %d: not true: %s\n", __LINE__, #what);               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const size_t sizes[] = { 1,     16,     17,	100,	       128,	129,
				1000,  1024,   1025,	4096,	       10000,	32768,
				32769, 100000, 2 << 20, (2 << 20) + 1, 40 << 20 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static volatile size_t huge = SIZE_MAX; /* so that the compiler does not know better */

static void fill_and_free(size_t size)
{
	unsigned char *p = malloc(size);

	MUST(p && (uintptr_t)p % 16 == 0 && malloc_usable_size(p) >= size);
	p[0] = 1;
	p[size - 1] = 2;
	free(p);
}

static void all_sizes(void)
{
	for (unsigned i = 0; i < SIZES; i++)
		fill_and_free(sizes[i]);
}

static void family(void)
{
	void *p = &p, *q;

	MUST(posix_memalign(&p, 3, 10) == EINVAL && p == &p);
	MUST(posix_memalign(&p, 4, 10) == EINVAL && p == &p);
	errno = 0;
	MUST(posix_memalign(&p, 64, huge - 100) == ENOMEM && p == &p && errno == 0);
	for (size_t align = 8; align <= 4 << 20; align *= 2) {
		MUST(posix_memalign(&p, align, 100) == 0 && (uintptr_t)p % align == 0);
		free(p);
		MUST((p = memalign(align - 1, align * 3)) && (uintptr_t)p % align == 0);
		free(p);
	}
	errno = 0;
	MUST(!aligned_alloc(48, 96) && errno == EINVAL);
	MUST((p = valloc(1)) && (uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE) == 0);
	free(p);
	MUST((p = pvalloc(1)) && malloc_usable_size(p) >= (size_t)sysconf(_SC_PAGESIZE));
	free(p);
	errno = 0;
	MUST(!malloc(huge) && errno == ENOMEM);
	MUST(!malloc(huge / 2 + 1) && !calloc(huge / 2, 3) && !realloc(NULL, huge));
	p = malloc(100);
	MUST(!reallocarray(p, huge / 2, 3) && !realloc(p, huge));
	MUST((q = reallocarray(p, 10, 100)) && malloc_usable_size(q) >= 1000);
	MUST(!realloc(q, 0));
	MUST((p = malloc(0)) && (q = malloc(0)) && p != q);
	free(p);
	free(q);
	free(NULL);
	MUST(malloc_usable_size(NULL) == 0);
	MUST((p = realloc(NULL, 10)));
	free(p);
	p = malloc(50 << 20);
	MUST(p && mallinfo2().hblks == 1 && mallinfo2().hblkhd >= 50 << 20);
	errno = E2BIG;
	free(p);
	MUST(errno == E2BIG && mallinfo2().hblks == 0);
	MUST(mallopt(M_MXFAST, 0) == 1 && malloc_info(1, stderr) == -1 &&
	     malloc_info(0, stdout) == 0);
	malloc_trim(0);
	all_sizes();
}

static volatile int stop;

static void *allocate(void *arg)
{
	while (!stop)
		for (unsigned i = 0; i < SIZES - 3; i++)
			fill_and_free(sizes[i]);
	return arg;
}

static void child_and_wait(void)
{
	pid_t pid = fork();
	int status;

	MUST(pid >= 0);
	if (!pid) {
		alarm(20);
		for (unsigned i = 0; i < 20; i++)
			all_sizes();
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *forks(void *arg)
{
	for (unsigned i = 0; i < 100; i++)
		child_and_wait();
	return arg;
}

static void fork_storm(void)
{
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		MUST(!pthread_create(&threads[i], NULL, i < 2 ? allocate : forks, NULL));
	pthread_join(threads[2], NULL);
	pthread_join(threads[3], NULL);
	stop = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void *hand_on(void *from)
{
	unsigned char *given = from, *p = malloc(5000);

	MUST(p);
	memset(p, 7, 5000);
	for (unsigned i = 0; given && i < 5000; i++)
		MUST(given[i] == 7);
	free(given);
	all_sizes();
	return p;
}

static size_t resident(void)
{
	unsigned long size, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	MUST(f && fscanf(f, "%lu %lu", &size, &pages) == 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void many_threads(void)
{
	size_t before = 0;
	void *given = NULL;
	pthread_t thread;

	for (unsigned i = 0; i < 1000; i++) {
		MUST(!pthread_create(&thread, NULL, hand_on, given));
		pthread_join(thread, &given);
		if (i == 20)
			before = resident();
	}
	free(given);
	MUST(resident() < before + (8 << 20));
}

static pthread_key_t key;
static unsigned destroyed;

static void destroy(void *value)
{
	free(value);
	all_sizes();
	destroyed++;
	if (destroyed < 3)
		pthread_setspecific(key, malloc(500));
}

static void *with_data(void *arg)
{
	MUST(!pthread_setspecific(key, malloc(100)));
	return arg;
}

static void at_exit(void)
{
	all_sizes();
	puts("exit handler ran");
}

static void late(void)
{
	pthread_t thread;

	MUST(!atexit(at_exit) && !pthread_key_create(&key, destroy));
	MUST(!pthread_create(&thread, NULL, with_data, NULL));
	pthread_join(thread, NULL);
	MUST(destroyed == 3);
}

static void limit(void)
{
	static void *blocks[100000];
	size_t got[3] = { 0 };

	for (unsigned round = 0; round < 3; round++) {
		size_t size = round == 1 ? 5000 : 500000;

		errno = 0;
		while (got[round] < 100000 && (blocks[got[round]] = malloc(size)))
			memset(blocks[got[round]++], 1, size);
		MUST(got[round] > 10 && got[round] < 100000 && errno == ENOMEM);
		for (size_t i = 0; i < got[round]; i++)
			free(blocks[i]);
	}
	MUST(got[2] > got[0] * 3 / 4);
	puts("went on after the memory had run out");
}

static void spawn(void)
{
	char name[] = "true", *args[] = { name, NULL };
	pid_t pid;
	int status;

	for (unsigned i = 0; i < 50; i++) {
		free(malloc(i * 1000));
		pid = vfork();
		if (!pid) {
			execvp("true", args);
			_exit(127);
		}
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
		MUST(!posix_spawnp(&pid, "true", NULL, NULL, args, environ));
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

static void wrong(const char *what)
{
	static char somewhere[64];
	char here[64], *volatile p = NULL;

	if (!strcmp(what, "stack"))
		p = here;
	else if (!strcmp(what, "static"))
		p = somewhere;
	else if (!strcmp(what, "run"))
		p = (char *)malloc(100000) + 4096;
	else if (!strcmp(what, "mapping"))
		p = (char *)malloc(50 << 20) + 4096;
	else if (!strcmp(what, "twice"))
		free(p = malloc(100));
	else if (!strcmp(what, "run-twice"))
		free(p = malloc(100000));
	else if (!strcmp(what, "mapping-twice"))
		free(p = malloc(50 << 20));
	printf("%p\n", (void *)p);
	fflush(stdout);
	free(p);
	puts("nobody noticed");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "family", family }, { "fork", fork_storm }, { "threads", many_threads },
		      { "late", late },	    { "limit", limit },	    { "spawn", spawn } };

	if (argc == 3 && !strcmp(argv[1], "wrong")) {
		wrong(argv[2]);
		return 0;
	}
	for (unsigned i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			return 0;
		}
	fputs("which mode?\n", stderr);
	return 2;
}
