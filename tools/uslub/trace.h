/* SPDX-License-Identifier: MIT */
/*
 * Traces: files with what a program asked of malloc, as `uslub record` writes them. docs/TRACE-FORMAT.md describes the format.
 *
 * A trace is about objects, not addresses: an object has a small number from its allocation to its free, also
 * when realloc() moves it, and another one gets the number afterwards.
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tool.h"

#define TRACE_MAGIC   "uslubtrc" /* without the zero */
#define TRACE_VERSION 1u

/* No address space is larger, so that no sum of sizes overflows. */
#define TRACE_MOST_SIZE	 ((uint64_t)1 << 48)
#define TRACE_MOST_SHIFT 47u

enum trace_op {
	TRACE_MALLOC,
	TRACE_CALLOC,
	TRACE_ALIGNED,
	TRACE_REALLOC,
	TRACE_FREE,
	TRACE_OPS,
};

/*
 * struct trace_event - a call
 * @align_shift: logarithm of the alignment, of TRACE_ALIGNED
 * @thread: who called, from 0
 * @object: its number
 * @size: bytes asked for; of TRACE_FREE 0
 */
struct trace_event {
	enum trace_op op;
	unsigned align_shift;
	uint32_t thread;
	uint32_t object;
	uint64_t size;
};

/*
 * struct trace_header - what is told of a trace before its events
 * @threads: that call
 * @objects: their numbers are less than that
 * @events: calls
 * @peak: bytes that were asked for and not freed yet, at most
 * @left: objects that are never freed
 * @bytes: of the events
 */
struct trace_header {
	uint32_t threads;
	uint64_t objects;
	uint64_t events;
	uint64_t peak;
	uint64_t left;
	uint64_t bytes;
};

/*
 * struct trace - a trace that is being read
 * @file, @size: all of it
 * @at: where the next event begins
 * @read: events so far
 * @alive: a bit for each object
 * @living: how many are set
 * @thread: of the event before
 *
 * Nothing of it comes from malloc, which may be what is measured.
 */
struct trace {
	const char *path;
	const unsigned char *file;
	size_t size;
	struct trace_header header;
	size_t at;
	uint64_t read;
	unsigned char *alive;
	uint64_t living;
	uint32_t thread;
};

/*
 * trace_open - open a trace and check it as a whole
 * @path: of the file; it must stay
 *
 * Returns 0; or -1 after a message, and there is nothing to close then.
 *
 * trace_next   - the next event: 1; 0 at the end; or -1 after a message. What is returned makes sense: numbers are
 *		  less than the header says, what is freed was allocated
 * trace_rewind - begin again
 * trace_close  - the end
 */
int trace_open(struct trace *t, const char *path);
int trace_next(struct trace *t, struct trace_event *event);
void trace_rewind(struct trace *t);
void trace_close(struct trace *t);

/*
 * struct trace_writer - a trace that is being written, in memory
 */
struct trace_writer {
	struct tool_text text;
	uint64_t events;
	uint32_t thread;
};

/*
 * trace_begin - begin one; it does not return when there is no memory
 * trace_add   - append an event
 * trace_end   - write all to the file @path, which appears whole or not at all
 * @header: events and bytes are filled in
 *
 * Returns 0, or -1 after a message.
 */
void trace_begin(struct trace_writer *w);
void trace_add(struct trace_writer *w, const struct trace_event *event);
int trace_end(struct trace_writer *w, struct trace_header *header, const char *path);

#endif /* TOOLS_TRACE_H */
