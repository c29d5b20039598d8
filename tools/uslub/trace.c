/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing traces, see trace.h and docs/TRACE-FORMAT.md.
 *
 * The reader believes nothing. The header and the checksum are looked at first, each event when it is read; and
 * what is allocated for a trace is in proportion to the size of its file.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "trace.h"

/* Where things are in the header. */
enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_THREADS = 12,
	AT_OBJECTS = 16,
	AT_EVENTS = 24,
	AT_PEAK = 32,
	AT_LEFT = 40,
	AT_BYTES = 48,
	HEADER_SIZE = 56,
};

#define CHECKSUM_SIZE sizeof(uint64_t)

/* The first number of an event: what it is, whether the thread is told, which object. */
#define OP_MASK	     0x7u
#define OTHER_THREAD 0x8u
#define OBJECT_SHIFT 4

#define VARINT_MOST 10u /* bytes of a number */

/* What follows the object's number. */
static const struct {
	bool align;
	bool size;
} fields[TRACE_OPS] = {
	[TRACE_MALLOC] = { .size = true },
	[TRACE_CALLOC] = { .size = true },
	[TRACE_ALIGNED] = { .align = true, .size = true },
	[TRACE_REALLOC] = { .size = true },
};

/* FNV-1a: of everything before it. */
static uint64_t checksum(const unsigned char *bytes, size_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint32_t get32(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t get64(const unsigned char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static void put32(unsigned char *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(unsigned char *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
}

/* ---- reading: the whole --------------------------------------------------------------------------- */

static int wrong(const struct trace *t, size_t at, const char *what)
{
	tool_error("%s: byte %zu: %s", t->path, at, what);
	return -1;
}

static int wrong_number(const struct trace *t, size_t at, const char *what, uint64_t is,
			uint64_t should)
{
	tool_error("%s: byte %zu: %s: %" PRIu64 ", not %" PRIu64, t->path, at, what, is, should);
	return -1;
}

static int map_file(struct trace *t)
{
	int fd = open(t->path, O_RDONLY | O_CLOEXEC), error = 0;
	struct stat file;
	void *memory = NULL;

	if (fd < 0 || fstat(fd, &file))
		error = errno;
	else if (!S_ISREG(file.st_mode))
		error = S_ISDIR(file.st_mode) ? EISDIR : EINVAL;
	if (!error && file.st_size) {
		memory = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (memory == MAP_FAILED)
			error = errno;
	}
	if (fd >= 0)
		close(fd);
	if (error) {
		tool_error("cannot read %s: %s", t->path,
			   error == EINVAL ? "it is no file" : strerror(error));
		return -1;
	}
	t->file = memory;
	t->size = memory ? (size_t)file.st_size : 0;
	return 0;
}

static void read_header(struct trace *t)
{
	t->header = (struct trace_header){
		.threads = get32(t->file + AT_THREADS),
		.objects = get64(t->file + AT_OBJECTS),
		.events = get64(t->file + AT_EVENTS),
		.peak = get64(t->file + AT_PEAK),
		.left = get64(t->file + AT_LEFT),
		.bytes = get64(t->file + AT_BYTES),
	};
}

/* That the file is a trace, and as long as it says. */
static int check_frame(struct trace *t)
{
	size_t magic = strlen(TRACE_MAGIC);
	uint64_t whole;

	if (memcmp(t->file, TRACE_MAGIC, t->size < magic ? t->size : magic))
		return wrong(t, AT_MAGIC, "this is no trace of `uslub record'");
	if (t->size < HEADER_SIZE + CHECKSUM_SIZE)
		return wrong(t, t->size, "the file is truncated: it ends in the header");
	if (get32(t->file + AT_VERSION) != TRACE_VERSION)
		return wrong_number(t, AT_VERSION, "a version that cannot be read",
				    get32(t->file + AT_VERSION), TRACE_VERSION);
	read_header(t);
	whole = HEADER_SIZE + t->header.bytes + CHECKSUM_SIZE;
	if (t->header.bytes > SIZE_MAX / 2 || whole > t->size)
		return wrong(t, t->size, "the file is truncated: the header tells of more events");
	if (whole < t->size)
		return wrong(t, (size_t)whole, "the file goes on after its end");
	return 0;
}

/* An event has a byte or more, and an object and a thread an event: nothing is larger than the file. */
static int check_counts(const struct trace *t)
{
	const struct trace_header *h = &t->header;
	size_t end = t->size - CHECKSUM_SIZE;

	if (checksum(t->file, end) != get64(t->file + end))
		return wrong(t, end, "the checksum is wrong: the file was damaged");
	if (h->events > h->bytes)
		return wrong(t, AT_EVENTS, "more events than bytes");
	if (h->objects > h->events || h->objects > UINT32_MAX)
		return wrong(t, AT_OBJECTS, "more objects than events");
	if (h->threads > h->events)
		return wrong(t, AT_THREADS, "more threads than events");
	return 0;
}

static size_t alive_bytes(const struct trace *t)
{
	return t->header.objects / 8 + 1;
}

int trace_open(struct trace *t, const char *path)
{
	*t = (struct trace){ .path = path, .at = HEADER_SIZE };
	if (map_file(t))
		return -1;
	if (!t->size)
		return wrong(t, 0, "the file is truncated: it is empty");
	if (check_frame(t) || check_counts(t)) {
		trace_close(t);
		return -1;
	}
	t->alive = mmap(NULL, alive_bytes(t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	if (t->alive == MAP_FAILED) {
		t->alive = NULL;
		tool_error("cannot read %s: %s", path, strerror(errno));
		trace_close(t);
		return -1;
	}
	return 0;
}

void trace_rewind(struct trace *t)
{
	t->at = HEADER_SIZE;
	t->read = t->living = 0;
	t->thread = 0;
	memset(t->alive, 0, alive_bytes(t));
}

void trace_close(struct trace *t)
{
	if (t->alive)
		munmap(t->alive, alive_bytes(t));
	if (t->file)
		munmap((void *)t->file, t->size);
	*t = (struct trace){ 0 };
}

/* ---- reading: an event ---------------------------------------------------------------------------- */

/* Seven bits a byte, the lowest first; all but the last byte have the eighth bit. */
static int get_number(struct trace *t, uint64_t *value)
{
	size_t begin = t->at, end = t->size - CHECKSUM_SIZE;
	unsigned char byte;

	*value = 0;
	do {
		if (t->at == end)
			return wrong(t, begin, "a number goes on behind the last event");
		byte = t->file[t->at];
		if (t->at - begin == VARINT_MOST - 1 && byte > 1)
			return wrong(t, begin, "a number does not fit in 64 bits");
		*value |= (uint64_t)(byte & 0x7f) << 7 * (t->at - begin);
		t->at++;
	} while (byte & 0x80);
	return 0;
}

/* A number that is less than @limit. */
static int get_limited(struct trace *t, uint64_t limit, const char *what, uint64_t *value)
{
	size_t begin = t->at;

	if (get_number(t, value))
		return -1;
	return *value < limit ? 0 : wrong(t, begin, what);
}

/* Whether the object can be what the event says, and is it from now on. */
static int check_life(struct trace *t, size_t begin, const struct trace_event *event)
{
	unsigned char *byte = &t->alive[event->object / 8];
	unsigned char bit = (unsigned char)(1u << event->object % 8);
	bool alive = *byte & bit;

	if (event->op == TRACE_REALLOC || event->op == TRACE_FREE) {
		if (!alive)
			return wrong(t, begin,
				     event->op == TRACE_FREE
					     ? "the object that is freed is not allocated"
					     : "the object that is reallocated is not allocated");
	} else if (alive) {
		return wrong(t, begin, "the object that is allocated is allocated already");
	}
	if (event->op == TRACE_FREE) {
		*byte &= (unsigned char)~bit;
		t->living--;
	} else if (!alive) {
		*byte |= bit;
		t->living++;
	}
	return 0;
}

static int get_fields(struct trace *t, struct trace_event *event)
{
	uint64_t value;

	if (fields[event->op].align) {
		if (get_limited(t, TRACE_MOST_SHIFT + 1, "an alignment that cannot be", &value))
			return -1;
		event->align_shift = (unsigned)value;
	}
	return fields[event->op].size
		       ? get_limited(t, TRACE_MOST_SIZE, "a size that cannot be", &event->size)
		       : 0;
}

static int check_end(const struct trace *t)
{
	if (t->at != t->size - CHECKSUM_SIZE)
		return wrong(t, t->at, "there are more events than the header says");
	if (t->living != t->header.left)
		return wrong_number(t, AT_LEFT, "objects that are never freed, by the header",
				    t->header.left, t->living);
	return 0;
}

int trace_next(struct trace *t, struct trace_event *event)
{
	size_t begin = t->at;
	uint64_t head, thread;

	if (t->read == t->header.events)
		return check_end(t);
	if (get_number(t, &head))
		return -1;
	*event = (struct trace_event){ .op = (enum trace_op)(head & OP_MASK) };
	if ((head & OP_MASK) >= TRACE_OPS)
		return wrong(t, begin, "an event of an unknown kind");
	if (head >> OBJECT_SHIFT >= t->header.objects)
		return wrong(t, begin, "the number of an object is out of range");
	event->object = (uint32_t)(head >> OBJECT_SHIFT);
	if (head & OTHER_THREAD) {
		if (get_limited(t, t->header.threads, "the number of a thread is out of range",
				&thread))
			return -1;
		t->thread = (uint32_t)thread;
	}
	event->thread = t->thread;
	if (get_fields(t, event) || check_life(t, begin, event))
		return -1;
	t->read++;
	return 1;
}

/* ---- writing -------------------------------------------------------------------------------------- */

static void put_number(FILE *out, uint64_t value)
{
	for (; value > 0x7f; value >>= 7)
		fputc((int)(value & 0x7f) | 0x80, out);
	fputc((int)value, out);
}

void trace_begin(struct trace_writer *w)
{
	static const unsigned char header[HEADER_SIZE];

	*w = (struct trace_writer){ 0 };
	tool_text_begin(&w->text);
	fwrite(header, 1, sizeof(header), w->text.out);
}

void trace_add(struct trace_writer *w, const struct trace_event *event)
{
	FILE *out = w->text.out;
	bool other = event->thread != w->thread;

	put_number(out, (uint64_t)event->object << OBJECT_SHIFT | (other ? OTHER_THREAD : 0) |
				(uint64_t)event->op);
	if (other)
		put_number(out, event->thread);
	if (fields[event->op].align)
		put_number(out, event->align_shift);
	if (fields[event->op].size)
		put_number(out, event->size);
	w->thread = event->thread;
	w->events++;
}

int trace_end(struct trace_writer *w, struct trace_header *header, const char *path)
{
	static const unsigned char room[CHECKSUM_SIZE];
	unsigned char *all;
	size_t end;
	int error;

	fwrite(room, 1, sizeof(room), w->text.out);
	all = (unsigned char *)tool_text_end(&w->text);
	end = w->text.size - CHECKSUM_SIZE;
	header->events = w->events;
	header->bytes = end - HEADER_SIZE;
	memcpy(all + AT_MAGIC, TRACE_MAGIC, strlen(TRACE_MAGIC));
	put32(all + AT_VERSION, TRACE_VERSION);
	put32(all + AT_THREADS, header->threads);
	put64(all + AT_OBJECTS, header->objects);
	put64(all + AT_EVENTS, header->events);
	put64(all + AT_PEAK, header->peak);
	put64(all + AT_LEFT, header->left);
	put64(all + AT_BYTES, header->bytes);
	put64(all + end, checksum(all, end));
	error = tool_write_file(path, (char *)all, w->text.size);
	free(all);
	return error;
}
