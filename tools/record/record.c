/* SPDX-License-Identifier: MIT */
/*
 * libuslub-record.so: preloaded into a program by `uslub record`, it hands every call of the malloc family on
 * to whoever would have got it otherwise, and writes down what was asked and answered, see spool.h.
 *
 * 1. It allocates nothing, takes no lock and needs no start: the first call finds the functions behind it
 *    and the spool. What dlsym() allocates meanwhile comes from a small array.
 * 2. Only calls of the program count. What the functions behind call of each other, or this file does of
 *    them, is not written down: `inside` says so, for each thread.
 * 3. A forked process writes nothing: the word that says that there is to be recording lies in memory that
 *    the kernel wipes then, also for those that call clone() themselves. One made by vfork() shares all of
 *    its parent's memory and counts as its parent.
 * 4. A thread's state is in memory that the thread library made beforehand. So destructors of thread-specific
 *    data can allocate and free, and nothing has to be done when a thread ends.
 * 5. Where the spool is full, or the disk is, recording ends for all threads; header.stop says where.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "spool.h"

#define PUBLIC	    __attribute__((visibility("default")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

extern char **environ;

/* ---- the functions behind ------------------------------------------------------------------------- */

/* Those that every malloc has; of others see find_next(). */
static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
} next;

static bool found;

/* Function pointers from dlsym() are not C, but POSIX. */
#define FIND(name) (*(void **)&next.name = dlsym(RTLD_NEXT, #name))

static void find_next(void)
{
	FIND(malloc);
	FIND(calloc);
	FIND(realloc);
	FIND(posix_memalign);
	FIND(aligned_alloc);
	FIND(memalign);
	FIND(valloc);
	FIND(pvalloc);
	FIND(free);
	__atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

/* ---- memory for dlsym() --------------------------------------------------------------------------- */

#define EARLY_BYTES 16384u
#define EARLY_ALIGN 16u

/* What is given out is never given out again; its size stands before it. */
static char early[EARLY_BYTES] __attribute__((aligned(EARLY_ALIGN)));
static size_t early_used;

static bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + EARLY_BYTES;
}

static void *early_alloc(size_t size)
{
	size_t bytes, at;

	if (size > EARLY_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	bytes = EARLY_ALIGN + ((size + EARLY_ALIGN - 1) & ~(size_t)(EARLY_ALIGN - 1));
	at = __atomic_fetch_add(&early_used, bytes, __ATOMIC_RELAXED);
	if (at + bytes > EARLY_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	*(size_t *)(void *)(early + at) = size;
	return early + at + EARLY_ALIGN;
}

static void *early_realloc(void *old, size_t size)
{
	size_t had = *(size_t *)(void *)((char *)old - EARLY_ALIGN);
	void *new = malloc(size);

	if (new)
		memcpy(new, old, had < size ? had : size);
	return new;
}

/* ---- the spool ------------------------------------------------------------------------------------ */

/*
 * @on: whether events are written down; in a page of its own, which is wiped in a forked process
 */
struct recording {
	bool on;
};

static struct recording *recording;
static struct spool_header *spool;
static uint64_t image;

/*
 * struct self - of a thread
 * @next, @end: where its next event goes
 * @thread: its number, from 1; 0 before its first event
 * @inside: it is in a function of the family already
 */
static __thread struct self {
	struct spool_event *next;
	struct spool_event *end;
	uint64_t thread;
	bool inside;
} self __attribute__((tls_model("initial-exec")));

static int spool_descriptor(void)
{
	const char *value = getenv(SPOOL_VARIABLE);

	if (!value || strncmp(value, SPOOL_PREFIX, strlen(SPOOL_PREFIX)))
		return -1;
	return atoi(value + strlen(SPOOL_PREFIX));
}

/* All of the file, or where address space is limited as much of it as there is room for. */
static struct spool_header *map_spool(int fd)
{
	struct spool_header *h = MAP_FAILED;
	struct stat file;
	size_t bytes;

	if (fstat(fd, &file) || !S_ISREG(file.st_mode) || file.st_size < (off_t)SPOOL_HEADER)
		return NULL;
	for (bytes = (size_t)file.st_size; bytes > SPOOL_HEADER && h == MAP_FAILED; bytes /= 2)
		h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (h == MAP_FAILED)
		return NULL;
	bytes *= 2;
	if (h->magic != SPOOL_MAGIC) {
		munmap(h, bytes);
		return NULL;
	}
	madvise(h, bytes, MADV_DONTDUMP);
	if (bytes < h->bytes)
		h->bytes = bytes;
	return h;
}

/* The first process to come has it; so has what is executed in its place. */
static bool claim(struct spool_header *h)
{
	uint64_t nobody = 0, me = (uint64_t)getpid();

	return __atomic_compare_exchange_n(&h->pid, &nobody, me, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST) ||
	       nobody == me;
}

static struct recording *make_switch(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct recording *r = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0);

	if (r == MAP_FAILED)
		return NULL;
	if (madvise(r, page, MADV_WIPEONFORK)) {
		munmap(r, page);
		return NULL;
	}
	return r;
}

static void open_spool(void)
{
	int fd = spool_descriptor();
	struct spool_header *h = fd >= 0 ? map_spool(fd) : NULL;
	struct recording *r;

	if (!h)
		return;
	r = claim(h) ? make_switch() : NULL;
	if (!r) {
		munmap(h, h->bytes);
		return;
	}
	image = ++h->image;
	spool = h;
	r->on = true;
	__atomic_store_n(&recording, r, __ATOMIC_RELEASE);
}

/* Ends it for all threads: an event could not be written. */
static void stop_recording(uint64_t number)
{
	uint64_t stop = __atomic_load_n(&spool->stop, __ATOMIC_RELAXED);

	recording->on = false;
	while (number < stop && !__atomic_compare_exchange_n(&spool->stop, &stop, number, true,
							     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/*
 * A block for this thread. Its pages are asked for here, since a write to a page for which the disk has no room
 * would kill the program; kernels before 5.14 cannot say.
 */
static bool take_block(void)
{
	uint64_t at = __atomic_fetch_add(&spool->used, SPOOL_BLOCK, __ATOMIC_RELAXED);
	struct spool_block *block = (struct spool_block *)(void *)((char *)spool + at);

	if (at + SPOOL_BLOCK > spool->bytes)
		return false;
	if (madvise(block, SPOOL_BLOCK, MADV_POPULATE_WRITE) && errno != EINVAL)
		return false;
	if (!self.thread)
		self.thread = 1 + __atomic_fetch_add(&spool->threads, 1, __ATOMIC_RELAXED);
	block->thread = self.thread;
	__atomic_store_n(&block->image, image, __ATOMIC_RELEASE);
	self.next = block->events;
	self.end = block->events + SPOOL_EVENTS;
	return true;
}

static __attribute__((noinline)) bool make_room(uint64_t number)
{
	int error = errno;
	bool good = take_block();

	if (!good)
		stop_recording(number);
	errno = error;
	return good;
}

static void note(enum spool_op op, const void *address, size_t size, unsigned align_shift)
{
	uint64_t number = __atomic_fetch_add(&spool->sequence, 1, __ATOMIC_SEQ_CST);
	struct spool_event *event;

	if (UNLIKELY(self.next == self.end) && !make_room(number))
		return;
	event = self.next++;
	event->address = (uint64_t)address;
	event->size = size;
	__atomic_store_n(&event->mark, spool_mark(number, align_shift, op), __ATOMIC_RELEASE);
}

static void note_aligned(const void *address, size_t size, size_t align)
{
	/* What is no power of two was rounded up to one, by those who take it at all. */
	unsigned shift = align < 2 ? 0 : 64u - (unsigned)__builtin_clzl(align - 1);

	if (address)
		note(SPOOL_ALIGNED, address, size, shift);
}

/* ---- before and after each call ------------------------------------------------------------------- */

/* Called again and again until the environment is there, which the dynamic loader allocates before. */
static __attribute__((noinline)) void start(void)
{
	static bool started;
	int error = errno;

	if (environ && !__atomic_exchange_n(&started, true, __ATOMIC_ACQ_REL))
		open_spool();
	errno = error;
}

/* False while the functions behind are being looked for, by this thread. */
static __attribute__((noinline)) bool find(void)
{
	int error = errno;

	if (self.inside)
		return false;
	self.inside = true;
	find_next();
	self.inside = false;
	errno = error;
	return true;
}

static inline bool ready(void)
{
	return __builtin_expect(__atomic_load_n(&found, __ATOMIC_ACQUIRE), 1) || find();
}

/* Whether a call is to be written down; if so leave() ends it. */
static inline bool enter(void)
{
	struct recording *r = __atomic_load_n(&recording, __ATOMIC_ACQUIRE);

	if (UNLIKELY(self.inside))
		return false;
	if (UNLIKELY(!r)) {
		start();
		r = recording;
	}
	if (UNLIKELY(!r || !r->on))
		return false;
	self.inside = true;
	return true;
}

static inline void leave(void)
{
	self.inside = false;
}

static __attribute__((constructor)) void start_at_last(void)
{
	if (ready())
		start();
}

/* ---- the family ----------------------------------------------------------------------------------- */

PUBLIC void *malloc(size_t size)
{
	void *p;

	if (UNLIKELY(!ready()))
		return early_alloc(size);
	if (!enter())
		return next.malloc(size);
	p = next.malloc(size);
	if (p)
		note(SPOOL_MALLOC, p, size, 0);
	leave();
	return p;
}

PUBLIC void *calloc(size_t n, size_t size)
{
	void *p;

	/* The array is zero, and never used again. */
	if (UNLIKELY(!ready()))
		return size && n > EARLY_BYTES / size ? NULL : early_alloc(n * size);
	if (!enter())
		return next.calloc(n, size);
	p = next.calloc(n, size);
	if (p)
		note(SPOOL_CALLOC, p, n * size, 0);
	leave();
	return p;
}

PUBLIC void *realloc(void *old, size_t size)
{
	void *p;

	if (UNLIKELY(is_early(old)))
		return early_realloc(old, size);
	if (UNLIKELY(!ready()))
		return early_alloc(size);
	if (!enter())
		return next.realloc(old, size);
	if (old)
		note(SPOOL_LEAVE, old, 0, 0);
	p = next.realloc(old, size);
	if (old)
		note(SPOOL_RETURN, p, size, 0);
	else if (p)
		note(SPOOL_MALLOC, p, size, 0);
	leave();
	return p;
}

PUBLIC void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

PUBLIC void free(void *p)
{
	if (!p || UNLIKELY(is_early(p) || !ready()))
		return;
	if (!enter()) {
		next.free(p);
		return;
	}
	note(SPOOL_FREE, p, 0, 0);
	next.free(p);
	leave();
}

PUBLIC int posix_memalign(void **p, size_t align, size_t size)
{
	int error;

	if (UNLIKELY(!ready() || !next.posix_memalign))
		return ENOMEM;
	if (!enter())
		return next.posix_memalign(p, align, size);
	error = next.posix_memalign(p, align, size);
	if (!error)
		note_aligned(*p, size, align);
	leave();
	return error;
}

/* Those that return their result and differ in where size and alignment come from only. */
#define ALIGNED(name, parameters, arguments, size, align)                                          \
	PUBLIC void *name parameters                                                               \
	{                                                                                          \
		void *p;                                                                           \
                                                                                                   \
		if (UNLIKELY(!ready() || !next.name)) {                                            \
			errno = ENOMEM;                                                            \
			return NULL;                                                               \
		}                                                                                  \
		if (!enter())                                                                      \
			return next.name arguments;                                                \
		p = next.name arguments;                                                           \
		note_aligned(p, size, align);                                                      \
		leave();                                                                           \
		return p;                                                                          \
	}

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t size)
{
	return (size + page() - 1) & ~(page() - 1);
}

ALIGNED(aligned_alloc, (size_t align, size_t size), (align, size), size, align)
ALIGNED(memalign, (size_t align, size_t size), (align, size), size, align)
ALIGNED(valloc, (size_t size), (size), size, page())
ALIGNED(pvalloc, (size_t size), (size), whole_pages(size), page())
