/* SPDX-License-Identifier: MIT */
/*
 * `uslub record`: run a program, and write down what it asks of malloc.
 *
 * A library is preloaded into the program (tools/record/record.c), which fills a spool. That is read when the
 * program has ended, by exit() or otherwise.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "../record/spool.h"
#include "child.h"
#include "command.h"
#include "numbers.h"
#include "record.h"
#include "tool.h"

#define RECORDER "libuslub-record.so"

/* Of a spool: the program maps all of it. */
#define MOST_BYTES  ((uint64_t)64 << 30)
#define LEAST_BYTES ((uint64_t)SPOOL_HEADER + SPOOL_BLOCK)

/*
 * struct arguments - the command line
 * @output: the trace, or NULL for one that is called after the program
 * @limit: bytes of the spool, or 0
 * @command: ends with NULL
 */
struct arguments {
	const char *output;
	uint64_t limit;
	char **command;
};

enum {
	KEY_LIMIT = 0x100,
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write the trace to FILE (default: PROGRAM.trace)", 0 },
	{ "limit", KEY_LIMIT, "BYTES", 0,
	  "End the recording, not the program, after so much, 24 bytes a call (default: half of "
	  "what the disk has room for, at most 64G)",
	  0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'o':
		a->output = arg;
		break;
	case KEY_LIMIT:
		if (numbers_parse(arg, 1024, &a->limit) || a->limit < LEAST_BYTES ||
		    a->limit > MOST_BYTES)
			argp_error(state, "--limit takes a number from 20k to 64G, not '%s'", arg);
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		/* The rest is the program's. */
		a->command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which program?");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[--] PROGRAM [ARG...]",
	.doc = "Run a program and write a trace of what it asks of malloc.\v"
	       "Processes that the program forks are not recorded; what it executes in its own "
	       "place is, from there on.\n\n"
	       "Example:\n"
	       "  uslub record -o server.trace -- ./server --port 8080\n\n"
	       "Exit status: that of the program; 125 if `uslub record' itself fails, 126 if the "
	       "program cannot be executed, 127 if it is not found, 128+N if signal N ends it.",
};

/* ---- the library ---------------------------------------------------------------------------------- */

static int preload(void)
{
	char *recorder = tool_installed(".", USLUB_LIB_DIR, RECORDER, R_OK), *value;
	int error = -1;

	if (!recorder)
		return -1;
	value = child_preload(recorder);
	/* the loader would take it for several names */
	if (strpbrk(recorder, ": "))
		tool_error("the loader preloads nothing with a blank or a colon in its path: %s",
			   recorder);
	else
		error = setenv("LD_PRELOAD", value, 1);
	free(value);
	free(recorder);
	return error;
}

/* ---- the spool ------------------------------------------------------------------------------------ */

/* A file without a name. Not every file system can make one at once. */
static int open_unnamed(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR, 0600);
	char *name;

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	name = tool_format("%s/.uslub-record.XXXXXX", directory);
	fd = mkstemp(name);
	if (fd >= 0)
		unlink(name);
	free(name);
	return fd;
}

static uint64_t room_for(int fd, uint64_t limit)
{
	struct statvfs disk;
	uint64_t bytes = limit ? limit : MOST_BYTES, half;

	if (fstatvfs(fd, &disk))
		return bytes;
	half = (uint64_t)disk.f_bavail * disk.f_frsize / 2;
	return half < bytes ? half : bytes;
}

static int fill_spool(int fd, uint64_t limit)
{
	struct spool_header header = {
		.magic = SPOOL_MAGIC,
		.stop = SPOOL_ENDLESS,
		.used = SPOOL_HEADER,
	};

	header.bytes = room_for(fd, limit);
	if (header.bytes < LEAST_BYTES) {
		errno = ENOSPC;
		return -1;
	}
	return ftruncate(fd, (off_t)header.bytes) ||
	       pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header);
}

/* Where the trace is to be: there must be room, and whether one may write there is better known before. */
static int make_spool(const struct arguments *a)
{
	char *copied = tool_copy(a->output), *value;
	const char *directory = dirname(copied);
	int fd = open_unnamed(directory);

	if (fd < 0 || fill_spool(fd, a->limit)) {
		tool_error("cannot write to the directory %s: %s", directory, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	free(copied);
	if (fd < 0)
		return fd;
	value = tool_format("%s%d", SPOOL_PREFIX, fd);
	setenv(SPOOL_VARIABLE, value, 1);
	free(value);
	return fd;
}

/* What there is of it, in memory; or NULL after a message. */
static const struct spool_header *read_spool(int fd, size_t *bytes)
{
	struct spool_header header;
	void *memory = MAP_FAILED;

	if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header)) {
		*bytes = header.used < header.bytes ? header.used : header.bytes;
		memory = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
	}
	if (memory != MAP_FAILED)
		return memory;
	tool_error("cannot read what was recorded: %s", strerror(errno));
	return NULL;
}

/* ---- the end -------------------------------------------------------------------------------------- */

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void tell(const char *output, const struct trace_header *h, const struct record_counts *c)
{
	char *events = numbers_thousands((double)h->events);
	char *peak = numbers_bytes((double)h->peak);

	tool_error("%s: %s event%s of %" PRIu32 " thread%s, %s live at peak", output, events,
		   plural(h->events), h->threads, plural(h->threads), peak);
	tool_error("%" PRIu64 " allocation%s, %" PRIu64 " reallocation%s, %" PRIu64
		   " free%s; %" PRIu64 " object%s never freed",
		   c->allocations, plural(c->allocations), c->reallocations,
		   plural(c->reallocations), c->frees, plural(c->frees), h->left, plural(h->left));
	if (c->unknown)
		tool_error("left out: %" PRIu64 " call%s with memory from before the recording",
			   c->unknown, plural(c->unknown));
	if (c->replaced)
		tool_error("%" PRIu64 " object%s must have been freed unseen", c->replaced,
			   plural(c->replaced));
	free(events);
	free(peak);
}

static int write_trace(const struct arguments *a, const struct spool_header *spool)
{
	struct record_counts counts;
	struct trace_header header;
	struct trace_writer trace;

	if (!spool->pid) {
		tool_error("%s did not load the recorder, so there is no trace: is it linked "
			   "statically, or does it belong to another user?",
			   a->command[0]);
		return -1;
	}
	trace_begin(&trace);
	record_merge(spool, &trace, &header, &counts);
	if (trace_end(&trace, &header, a->output))
		return -1;
	tell(a->output, &header, &counts);
	if (spool->stop != SPOOL_ENDLESS)
		tool_error("there was no room for more: the recording ended before the program; "
			   "see --limit");
	return 0;
}

int command_record(int argc, char **argv)
{
	const struct spool_header *spool;
	struct arguments a = { 0 };
	struct child child;
	char *name = NULL;
	size_t bytes;
	int fd;

	argp_err_exit_status = CHILD_TOOL_FAILED;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &a);
	if (!a.output) {
		name = tool_copy(a.command[0]);
		a.output = tool_format("%s.trace", basename(name));
		free(name);
		name = (char *)a.output;
	}
	fd = make_spool(&a);
	if (fd < 0 || preload()) {
		free(name);
		return CHILD_TOOL_FAILED;
	}
	child = child_run(a.command);
	if (child.started) {
		spool = read_spool(fd, &bytes);
		if ((!spool || write_trace(&a, spool)) && !child.status)
			child.status = CHILD_TOOL_FAILED;
		if (spool)
			munmap((void *)spool, bytes);
	}
	close(fd);
	free(name);
	return child.status;
}
