/* SPDX-License-Identifier: MIT */
/*
 * A malloc with a fault, over the C library's, to be preloaded: what it does to a program must be noticed. BROKEN in
 * the environment is the fault:
 *
 *   overlap  now and then a block is handed out that somebody has already (what there is without BROKEN)
 *   lose     now and then realloc() forgets the last eight bytes that it should keep
 *   keep     memory never goes back to the kernel
 *   none     there is none, so nothing may be noticed
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The C library's own are still there by these names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void free(void *p);

#define SMALLEST 64
#define LARGEST	 8192
#define EVERY	 500 /* of these sizes */
#define SHARED	 256

static enum { OVERLAP, LOSE, KEEP, NONE } fault;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned counted;

/* Blocks that were handed out twice, which nobody can free. The last one is still for its second owner. */
static void *shared[SHARED];
static unsigned nshared;
static size_t free_size;

static __attribute__((constructor)) void choose(void)
{
	static const char *const names[] = { "overlap", "lose", "keep", "none" };
	const char *wanted = getenv("BROKEN");

	for (unsigned i = 0; wanted && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i], wanted))
			fault = i;
	}
	if (fault == KEEP) {
		mallopt(M_ARENA_MAX, 1);
		mallopt(M_MMAP_MAX, 0);
		mallopt(M_TRIM_THRESHOLD, -1);
	}
}

static bool is_shared(const void *p)
{
	unsigned n = __atomic_load_n(&nshared, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < n; i++) {
		if (shared[i] == p)
			return true;
	}
	return false;
}

/* A block that has an owner; NULL: an ordinary one will do. */
static void *second_time(size_t size)
{
	void *p = NULL;

	if (size < SMALLEST || size > LARGEST)
		return NULL;
	pthread_mutex_lock(&lock);
	if (free_size >= size && free_size / 2 < size) {
		free_size = 0;
		p = shared[nshared - 1];
	} else if (++counted % EVERY == 0 && nshared < SHARED && (p = __libc_malloc(size))) {
		shared[nshared] = p;
		__atomic_store_n(&nshared, nshared + 1, __ATOMIC_RELEASE);
		free_size = size;
	}
	pthread_mutex_unlock(&lock);
	return p;
}

void *malloc(size_t size)
{
	void *p = fault == OVERLAP ? second_time(size) : NULL;

	return p ? p : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return __libc_calloc(n, size);
}

void *memalign(size_t align, size_t size)
{
	return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return __libc_memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	*p = __libc_memalign(align, size);
	return *p ? 0 : ENOMEM;
}

/* The one function that has no other name; a library that the program is linked with may have one, too. */
size_t malloc_usable_size(void *p)
{
	static size_t (*usable)(void *p);

	if (!usable)
		usable = (size_t(*)(void *))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD),
						  "malloc_usable_size");
	return usable(p);
}

static void *lose(void *p, size_t size)
{
	size_t before = p ? malloc_usable_size(p) : 0;
	char *moved = __libc_realloc(p, size);

	if (moved && before >= SMALLEST && size > before &&
	    __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) % 16 == 0)
		memset(moved + before - 8, 0, 8);
	return moved;
}

static void *move(void *p, size_t size)
{
	size_t before = malloc_usable_size(p);
	void *moved = malloc(size);

	return moved ? memcpy(moved, p, before < size ? before : size) : NULL;
}

void *realloc(void *p, size_t size)
{
	if (fault == LOSE)
		return lose(p, size);
	return is_shared(p) ? move(p, size) : __libc_realloc(p, size);
}

void free(void *p)
{
	if (!is_shared(p))
		__libc_free(p);
}
