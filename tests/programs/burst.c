/* SPDX-License-Identifier: MIT */
/*
 * A program whose memory goes back. It allocates blocks of mixed sizes, 4 GiB in all or less where there is not so
 * much, writes to all of them, frees them all, and then only sleeps: what it has resident must soon be about what it
 * was before. Half of the blocks are freed by another thread than has allocated them.
 *
 *   burst [MEBIBYTES]
 *
 * Prints what it had; exits with 1 when it keeps too much.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS	   2
#define MIB	   (1ul << 20)
#define MOST	   (4096 * MIB)
#define PATIENCE_S 5
/* Near the baseline: a share of what it had, and what a library keeps at hand. */
#define KEPT_SHARE 32
#define KEPT	   (16 * MIB)

struct part {
	uint64_t random;
	size_t bytes, n, room;
	void **blocks;
};

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* From 16 bytes to 128 KiB, each power of two as often as the others; one in a thousand up to 4 MiB. */
static size_t some_size(uint64_t *random)
{
	unsigned shift = next(random) % 1000 ? 4 + next(random) % 13 : 17 + next(random) % 5;

	return (1ul << shift) + next(random) % (1ul << shift);
}

static void *allocate(void *arg)
{
	struct part *p = arg;
	size_t done = 0;

	while (done < p->bytes && p->n < p->room) {
		size_t size = some_size(&p->random);
		char *block = malloc(size);

		if (!block) {
			fprintf(stderr, "no memory after %zu MiB\n", done / MIB);
			exit(1);
		}
		memset(block, (int)size, size);
		p->blocks[p->n++] = block;
		done += size;
	}
	return NULL;
}

/* In another order than they came in. */
static void *release(void *arg)
{
	struct part *p = arg;

	for (size_t i = p->n; i > 1; i--) {
		size_t j = next(&p->random) % i;
		void *other = p->blocks[i - 1];

		p->blocks[i - 1] = p->blocks[j];
		p->blocks[j] = other;
	}
	for (size_t i = 0; i < p->n; i++)
		free(p->blocks[i]);
	return NULL;
}

/* Without a call that might allocate. */
static size_t resident(void)
{
	char text[128] = "", *second;
	int fd = open("/proc/self/statm", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	second = strchr(text, ' ');
	return second ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static size_t available(void)
{
	return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Each thread does one part; @shift has them do another one's. */
static void in_threads(void *(*work)(void *), struct part *parts, unsigned shift)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, work, &parts[(i + shift) % THREADS]))
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* The lists themselves are not malloc's. */
static void prepare(struct part *parts, size_t bytes)
{
	static void *blocks[THREADS][1u << 20];

	for (unsigned i = 0; i < THREADS; i++)
		parts[i] = (struct part){ .random = 88172645463325252u + i,
					  .bytes = bytes / THREADS,
					  .room = 1u << 20,
					  .blocks = blocks[i] };
	memset(blocks, 0xff, sizeof(blocks));
}

/* A program that has begun: threads have run, and blocks of all sizes have been there. */
static void warm_up(struct part *parts)
{
	prepare(parts, 64 * MIB);
	in_threads(allocate, parts, 0);
	in_threads(release, parts, 0);
}

static size_t wait_for_less(size_t limit)
{
	size_t now = resident();

	for (unsigned i = 0; i < PATIENCE_S * 10 && now > limit; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		now = resident();
	}
	return now;
}

int main(int argc, char **argv)
{
	size_t most = available() / 3, bytes = most < MOST ? most : MOST;
	size_t before, full, after, limit;
	struct part parts[THREADS];

	if (argc > 1)
		bytes = strtoul(argv[1], NULL, 10) * MIB;
	warm_up(parts);
	prepare(parts, bytes);
	before = resident();
	in_threads(allocate, parts, 0);
	full = resident();
	in_threads(release, parts, 1);
	limit = before + full / KEPT_SHARE + KEPT;
	after = wait_for_less(limit);
	printf("resident: %zu MiB before, %zu with %zu MiB of blocks, %zu after\n", before / MIB,
	       full / MIB, bytes / MIB, after / MIB);
	return full < bytes || after > limit;
}
