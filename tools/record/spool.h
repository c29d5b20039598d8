/* SPDX-License-Identifier: MIT */
/*
 * The spool: a file that has no name, through which a recorded program says what it allocates and frees, and
 * which `uslub record` reads when the program has ended, however it did.
 *
 *   header    a page: struct spool_header
 *   blocks    SPOOL_BLOCK bytes each, one after the other, up to header.used
 *
 * 1. The program maps the whole file, which is large and empty, and then needs no descriptor any more. A
 *    block belongs to one thread, which alone writes to it and takes the next one when it is full. What is
 *    written is in the file at once, so that nothing is lost of threads that do not end.
 * 2. An event is there when its mark is not 0; that is written last. The first that is not there ends the
 *    block. A block whose image is 0 was taken by somebody who got no further.
 * 3. Events are numbered, over all threads. The number of a release is taken before the memory is given
 *    back, that of an allocation after it was got. So an address is always released before it is allocated
 *    anew, by number, whatever the threads did at the time.
 * 4. A program that executes another one in its own place is a new image. The last one counts.
 */
#ifndef TOOLS_RECORD_SPOOL_H
#define TOOLS_RECORD_SPOOL_H

#include <stddef.h>
#include <stdint.h>

/* How the program is told which descriptor the spool is. */
#define SPOOL_VARIABLE "USLUB_RECORD"
#define SPOOL_PREFIX   "fd:"

#define SPOOL_MAGIC   UINT64_C(0x6c6f6f7073627573)
#define SPOOL_HEADER  4096u
#define SPOOL_BLOCK   16384u
#define SPOOL_ENDLESS UINT64_MAX

enum spool_op {
	SPOOL_NOTHING,
	SPOOL_MALLOC,
	SPOOL_CALLOC,
	SPOOL_ALIGNED,
	SPOOL_FREE,
	SPOOL_LEAVE,  /* an object is given to realloc */
	SPOOL_RETURN, /* what came back from it, 0 for nothing; the next event of the thread */
	SPOOL_OPS,
};

/*
 * struct spool_header - at the beginning of the file
 * @bytes: of the file, or as many of them as the program could map
 * @pid: who records, by his own number; 0: nobody yet
 * @image: counts the programs that this process has been
 * @stop: the number of the first event that found no room, else SPOOL_ENDLESS
 * @used: bytes of the file that are taken
 * @threads, @sequence: numbers that are taken
 */
struct spool_header {
	uint64_t magic;
	uint64_t bytes;
	uint64_t pid;
	uint64_t image;
	uint64_t stop;
	uint64_t used __attribute__((aligned(64)));
	uint64_t threads;
	uint64_t sequence __attribute__((aligned(64)));
};

/*
 * struct spool_event - see above
 * @mark: the event's number, the logarithm of the alignment, and what it is
 */
struct spool_event {
	uint64_t mark;
	uint64_t address;
	uint64_t size;
};

#define SPOOL_EVENTS ((SPOOL_BLOCK - 2 * sizeof(uint64_t)) / sizeof(struct spool_event))

struct spool_block {
	uint64_t image;
	uint64_t thread;
	struct spool_event events[SPOOL_EVENTS];
};

static inline uint64_t spool_mark(uint64_t number, unsigned align_shift, enum spool_op op)
{
	return number << 16 | (uint64_t)align_shift << 8 | (uint64_t)op;
}

static inline uint64_t spool_number(uint64_t mark)
{
	return mark >> 16;
}

static inline unsigned spool_align_shift(uint64_t mark)
{
	return mark >> 8 & 0xff;
}

static inline enum spool_op spool_op(uint64_t mark)
{
	return (enum spool_op)(mark & 0xff);
}

_Static_assert(sizeof(struct spool_header) <= SPOOL_HEADER, "a page");
_Static_assert(sizeof(struct spool_block) <= SPOOL_BLOCK, "a block");

#endif /* TOOLS_RECORD_SPOOL_H */
