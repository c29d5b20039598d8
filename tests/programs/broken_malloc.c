/* SPDX-License-Identifier: MIT */
/*
 * A malloc with a fault, over the C library's, to be preloaded: what it does to a program must be noticed. BROKEN in
 * the environment is the fault:
 *
 *   overlap  now and then a block is handed out that somebody has already (what there is without BROKEN)
 *   lose     now and then realloc() forgets the last eight bytes that it should keep
 *   align    blocks are aligned to 8 bytes only
 *   keep     nothing is freed
 */
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
void __libc_free(void *p);

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void free(void *p);

#define SMALLEST 64
#define LARGEST	 8192
#define EVERY	 500 /* of these sizes */
#define SHARED	 256

static enum { OVERLAP, LOSE, ALIGN, KEEP } fault;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned counted;

/* Blocks that were handed out twice, which nobody can free. The last one is still for its second owner. */
static void *shared[SHARED];
static unsigned nshared;
static size_t free_size;

static __attribute__((constructor)) void choose(void)
{
	static const char *const names[] = { "overlap", "lose", "align", "keep" };
	const char *wanted = getenv("BROKEN");

	for (unsigned i = 0; wanted && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i], wanted))
			fault = i;
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
	void *p;

	if (fault == ALIGN) {
		p = __libc_malloc(size + 8);
		return p ? (char *)p + 8 : NULL;
	}
	p = fault == OVERLAP ? second_time(size) : NULL;
	return p ? p : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	size_t all = n * size;
	void *p;

	if (fault != ALIGN)
		return __libc_calloc(n, size);
	p = malloc(all);
	return p ? memset(p, 0, all) : NULL;
}

/* Where a block of the C library begins that this one is in. */
static void *base(void *p)
{
	return fault == ALIGN && p && (uintptr_t)p % 16 ? (char *)p - 8 : p;
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
	size_t before = malloc_usable_size(base(p)) - (size_t)((char *)p - (char *)base(p));
	void *moved = malloc(size);

	if (!moved)
		return NULL;
	memcpy(moved, p, before < size ? before : size);
	free(p);
	return moved;
}

void *realloc(void *p, size_t size)
{
	if (fault == LOSE)
		return lose(p, size);
	if (p && (fault == ALIGN || is_shared(p)))
		return move(p, size);
	return p ? __libc_realloc(p, size) : malloc(size);
}

void free(void *p)
{
	if (fault != KEEP && !is_shared(p))
		__libc_free(base(p));
}
