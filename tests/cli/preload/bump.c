/* SPDX-License-Identifier: MIT */
/*
 * A malloc that cuts pieces off one mapping and takes nothing back, so that memory must be seen to grow. With
 * OVERLAP=N every N-th piece that a thread other than the first asks for lies over the one before: over its end,
 * or, of a large one, over most of it. With STALE=1 calloc gives them what somebody had before, with STALE=2 in a
 * single byte in the middle. With SHORT=1 realloc brings them all but the last byte.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM ((size_t)16 << 30)

static char *base;
static size_t used, pieces, overlap;
static int stale, shortens;
static __thread char *last;
static __thread size_t last_size;

__attribute__((constructor)) static void start(void)
{
	overlap = getenv("OVERLAP") ? strtoul(getenv("OVERLAP"), NULL, 10) : 0;
	stale = getenv("STALE") ? atoi(getenv("STALE")) : 0;
	shortens = getenv("SHORT") != NULL;
}

static int disturbs(void)
{
	return gettid() != getpid();
}

static void *cut(size_t align, size_t size)
{
	size_t whole = (size + 16 + align + 15) / 16 * 16, at;
	char *p;

	if (!base) {
		p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p != MAP_FAILED)
			base = p;
	}
	at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
	if (!base || size > ROOM || at > ROOM - whole)
		return NULL;
	p = (char *)(((uintptr_t)base + at + 16 + align - 1) & ~(uintptr_t)(align - 1));
	((size_t *)p)[-1] = size;
	if (overlap && last && size <= 1000 && (last_size <= 1000 || last_size > 2048) &&
	    disturbs() && __atomic_add_fetch(&pieces, 1, __ATOMIC_RELAXED) % overlap == 0)
		p = last_size > 2048 ? last + 1024
				     : (char *)((uintptr_t)(last + last_size - 1) & ~15ul);
	last = p;
	last_size = size;
	return p;
}

void *malloc(size_t size)
{
	return cut(16, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return cut(align, size);
}

int posix_memalign(void **to, size_t align, size_t size)
{
	*to = cut(align, size);
	return *to ? 0 : 12;
}

void *calloc(size_t n, size_t size)
{
	char *p = cut(16, n * size);

	if (p && size && stale && disturbs())
		memset(stale > 1 ? p + n * size / 2 : p, 1, stale > 1 ? 1 : n * size);
	return p;
}

void *realloc(void *old, size_t size)
{
	size_t before = old ? ((size_t *)old)[-1] : 0;
	void *p = cut(16, size);

	if (p && old)
		memcpy(p, old, before < size ? before - (shortens && disturbs()) : size);
	return p;
}

void free(void *p)
{
	(void)p;
}
