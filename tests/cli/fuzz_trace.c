/* SPDX-License-Identifier: MIT */
/*
 * The reader of traces, on hostile files: bytes of a good trace are changed, or its end is cut off, with the old
 * checksum or with one that fits. Whatever comes of it, the reader refuses or reads it; sanitizers see whether it
 * touches what it should not. And whatever it reads makes sense, which is checked here once more.
 *
 *   fuzz_trace [ITERATIONS [SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../workloads/prng.h"
#include "tools/uslub/tool.h"
#include "tools/uslub/trace.h"

#define OBJECTS 40u
#define EVENTS	300u
#define MOST	65536u

static uint64_t seed;

static void die(const char *what)
{
	fprintf(stderr, "iteration %llu: %s\n", (unsigned long long)seed, what);
	exit(1);
}

static void write_good(const char *path, uint64_t *state)
{
	struct trace_header header = { .threads = 3, .objects = OBJECTS };
	bool alive[OBJECTS] = { false };
	struct trace_writer w;

	trace_begin(&w);
	for (unsigned i = 0; i < EVENTS; i++) {
		uint64_t r = wl_random(state);
		struct trace_event e = { .thread = r % 3, .object = r / 3 % OBJECTS };

		e.op = alive[e.object] ? (r >> 20 & 1 ? TRACE_FREE : TRACE_REALLOC)
				       : (enum trace_op)((r >> 20) % 3);
		e.size = e.op == TRACE_FREE ? 0 : r >> 40;
		e.align_shift = e.op == TRACE_ALIGNED ? 6 : 0;
		header.left += (uint64_t)(e.op != TRACE_FREE) - alive[e.object];
		alive[e.object] = e.op != TRACE_FREE;
		trace_add(&w, &e);
	}
	if (trace_end(&w, &header, path))
		die("cannot write");
}

static void seal(unsigned char *bytes, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size - 8; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	for (unsigned i = 0; i < 8; i++)
		bytes[size - 8 + i] = (unsigned char)(hash >> 8 * i);
}

/* Returns whether all of it was read. */
static bool read_all(const char *path, char **message)
{
	struct trace_event e;
	struct trace t;
	int more = -1;

	tool_divert(message);
	if (!trace_open(&t, path)) {
		while ((more = trace_next(&t, &e)) > 0) {
			if (e.op >= TRACE_OPS || e.thread >= t.header.threads ||
			    e.object >= t.header.objects || e.size >= TRACE_MOST_SIZE ||
			    e.align_shift > TRACE_MOST_SHIFT)
				die("an event that cannot be");
		}
		trace_close(&t);
	}
	tool_divert(NULL);
	return !more;
}

static void spoil(const char *path, uint64_t *state, const unsigned char *good, size_t size)
{
	unsigned char bytes[MOST];
	uint64_t r = wl_random(state);
	size_t length = r % 4 ? size : wl_random(state) % size;
	char *message = NULL;
	bool read;

	memcpy(bytes, good, size);
	for (unsigned i = r >> 8 & 7; i > 0; i--)
		bytes[wl_random(state) % size] = (unsigned char)wl_random(state);
	if (r & 16 && length >= 8)
		seal(bytes, length);
	if (tool_write_file(path, (char *)bytes, length))
		die("cannot write");
	read = read_all(path, &message);
	if (!read && (!message || !strstr(message, ": byte ")))
		die(message ? message : "refused without a word");
	if (read && (length != size || (!(r & 16) && memcmp(bytes, good, size))))
		die("a damaged trace was read");
	free(message);
}

int main(int argc, char **argv)
{
	unsigned iterations = argc > 1 ? (unsigned)atoi(argv[1]) : 5000;
	char path[] = "/tmp/fuzz-trace.XXXXXX", *message = NULL;
	unsigned char good[MOST];
	uint64_t state = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
	int fd = mkstemp(path);
	size_t size;
	FILE *file;

	if (fd < 0)
		die("no file");
	close(fd);
	write_good(path, &state);
	file = fopen(path, "re");
	size = file ? fread(good, 1, sizeof(good), file) : 0;
	if (file)
		fclose(file);
	if (!read_all(path, &message))
		die(message ? message : "a good trace is refused");
	for (seed = 0; seed < iterations; seed++)
		spoil(path, &state, good, size);
	unlink(path);
	return 0;
}
