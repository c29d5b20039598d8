/* SPDX-License-Identifier: MIT */
/*
 * What a process exports, read from outside: its shared memory, whose layout is src/inspect/export_format.h, and
 * private memory that it names there.
 *
 * Nothing that is read is believed. The process may be about to die, to fork or to exec, it may be another
 * program altogether, or hostile: every offset and size is checked before it is used, memory is bounded, and a
 * reading that takes too long from export_open() to export_close(), because the process serves its memory
 * itself, or claims to have more than can be worked through, ends this program with a message.
 */
#ifndef TOOLS_EXPORT_READER_H
#define TOOLS_EXPORT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "inspect/export_format.h"

/*
 * struct export_reader - a process that is being read
 * @pid: 0: the process has ended, and only its shared memory is left
 * @tid: one of its threads that has not ended
 * @fd: of the shared memory, or -1: then @address is where the process has it
 * @inode: of the shared memory
 * @watched: the reading is being timed
 * @memory_errno: why private memory cannot be read, or 0
 * @header: as it was read first, and checked
 * @stats: @header.stats of caches, then @header.figures of the process
 * @latencies: @header.latencies names of slow paths
 * @calls, @bytes, @lines: what reading has cost so far; lines are 64 bytes of the process's memory
 */
struct export_reader {
	int pid;
	int tid;
	int fd;
	uint64_t address;
	uint64_t inode;
	bool watched;
	int memory_errno;
	struct export_header header;
	struct export_stat *stats;
	struct export_latency *latencies;
	uint64_t calls;
	uint64_t bytes;
	uint64_t lines;
};

/*
 * export_open - begin to read a process
 * @pid: of it; 0: the only one that this user can read
 *
 * Returns false after a message.
 *
 * export_open_fd - the same by a descriptor of its shared memory; the reader keeps it. Without a message: false
 *	says that nobody has used it yet
 * export_close - end
 * export_same - is it still the same program that was opened? What was read is worth nothing otherwise
 */
bool export_open(struct export_reader *r, int pid);
bool export_open_fd(struct export_reader *r, int fd);
void export_close(struct export_reader *r);
bool export_same(struct export_reader *r);

/* export_command - the name of a process's program, as the process says; false: it cannot be had */
bool export_command(int pid, char *text, size_t size);

/*
 * export_create - shared memory for a process that is about to be started
 *
 * Returns a descriptor that is passed on by exec, or -1 with errno.
 */
int export_create(void);

/*
 * export_shared - copy from the shared memory; false: it has not got that much
 * export_memory - copy from private memory; false: there is none, or no more, or it is forbidden
 * export_memory_v - the same for many pieces; where one is not there, it is zeroed, and the next is tried
 */
bool export_shared(struct export_reader *r, uint64_t offset, void *to, size_t size);
bool export_memory(struct export_reader *r, uint64_t address, void *to, size_t size);
void export_memory_v(struct export_reader *r, const struct iovec *local, const struct iovec *remote,
		     unsigned n);

/*
 * export_entry  - read an entry of the directory, as it was at one moment, but for the copied values
 * export_copies - the same with them
 * @n: from 0 to export_entries() - 1
 *
 * Return false when it changes all the time.
 */
unsigned export_entries(const struct export_reader *r);
bool export_entry(struct export_reader *r, unsigned n, struct export_cache *entry);
bool export_copies(struct export_reader *r, unsigned n, struct export_cache *entry);

/*
 * struct export_view - a cache's words, copied
 * @view: for recipes
 */
struct export_view {
	struct recipe_view view;
	char *copies[RECIPE_ARRAYS];
	uint64_t *used;
	size_t bytes; /* of all copies */
	struct recipe_sheaf *sheaves;
	uint64_t *addresses; /* of the sheaves, in order */
	unsigned sheaves_count;
};

/*
 * export_view_cache - copy what the recipes of a cache need
 * export_view_figures - the same of the process
 *
 * Return false when it cannot be read; to be freed by export_view_free() all the same.
 */
bool export_view_cache(struct export_reader *r, const struct export_cache *entry,
		       struct export_view *v);
bool export_view_figures(struct export_reader *r, struct export_view *v);
void export_view_free(struct export_view *v);

#endif /* TOOLS_EXPORT_READER_H */
