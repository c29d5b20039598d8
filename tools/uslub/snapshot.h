/* SPDX-License-Identifier: MIT */
/*
 * A snapshot: the statistics of all caches of one place at one moment, wherever they come from.
 *
 *   snapshot.c          the thing itself
 *   snapshot_json.c     files, as `uslub snapshot` and uslub_snapshot_write() write them
 *   snapshot_kernel.c   /sys/kernel/slab, or a saved copy of it
 *   snapshot_slabinfo.c /proc/slabinfo, or a saved copy of it
 *   snapshot_process.c  a running process
 *   source.h            which of these, by the command line
 *
 * A value is known by its name, which is that of a file below /sys/kernel/slab; what this program does not
 * know, because the kernel is newer, is kept and shown all the same. What could not be read is absent, which
 * is not the same as 0.
 */
#ifndef TOOLS_SNAPSHOT_H
#define TOOLS_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uslub/uslub.h>

enum snapshot_source {
	SNAPSHOT_PROCESS,
	SNAPSHOT_KERNEL,
	SNAPSHOT_BENCH,
	SNAPSHOT_SIM,
	SNAPSHOT_SOURCES
};

/* The share of a node or CPU in a value. */
struct snapshot_part {
	unsigned index;
	double value;
};

struct snapshot_parts {
	struct snapshot_part *parts; /* by index, those that are 0 left out */
	unsigned count;
};

/*
 * struct snapshot_value - a statistic of a cache
 * @which: its enum uslub_stat, or -1 for a name that this program does not know
 * @nodes, @cpus: what each contributed, where that is known
 */
struct snapshot_value {
	char *name;
	int which;
	double value;
	struct snapshot_parts nodes;
	struct snapshot_parts cpus;
};

/*
 * struct snapshot_latency - times of one kind of slow path
 * @name: which
 * @counts: bucket b counts times below 2^(b+1) nanoseconds, the last all others
 * @sum: nanoseconds
 */
#define SNAPSHOT_BUCKETS 32u
struct snapshot_latency {
	char *name;
	double counts[SNAPSHOT_BUCKETS];
	double sum;
};

/*
 * struct snapshot_cache - a cache
 * @aliases: further names
 * @values: in the order of <uslub/stats.def>, then unknown ones by name
 * @copied: the values are a copy that the process itself made a while ago, since its memory must not be read
 * @age_ns: how long ago
 */
struct snapshot_cache {
	char *name;
	char **aliases;
	unsigned aliases_count;
	struct snapshot_value *values;
	unsigned count;
	struct snapshot_latency *latencies;
	unsigned latencies_count;
	bool copied;
	double age_ns;
};

/*
 * struct snapshot_fact - something about the place: its name, and a number, or a text when that is not NULL
 */
struct snapshot_fact {
	char *name;
	char *text;
	double number;
	bool boolean;
};

/*
 * struct snapshot - all caches
 * @host: facts, such as pid, command, cpus, nodes, page_size, rseq, release; of a process with the bytes of
 *	memory by layer, whose names begin with "memory_"
 * @time: of the reading, in seconds since 1970, or 0
 * @note: what the reader must know ("3 files could not be read ..."), or NULL
 * @caches: by name
 */
struct snapshot {
	enum snapshot_source source;
	struct snapshot_fact *host;
	unsigned host_count;
	double time;
	char *note;
	struct snapshot_cache *caches;
	unsigned count;
};

extern const char *const snapshot_source_names[SNAPSHOT_SOURCES];

/*
 * snapshot_new  - an empty one
 * snapshot_free - and away with all of it; NULL is none
 * snapshot_add  - another cache, whose name, as all others, becomes one that can be printed; pointers to earlier ones are no longer good
 * snapshot_drop - away with a cache, counted from 0
 * snapshot_sort - caches by name, and the values of each in their order; once all is added
 * snapshot_note - say something about the whole; text is added to what was said before
 */
struct snapshot *snapshot_new(enum snapshot_source source);
void snapshot_free(struct snapshot *s);
struct snapshot_cache *snapshot_add(struct snapshot *s, const char *name);
void snapshot_drop(struct snapshot *s, unsigned which);
void snapshot_sort(struct snapshot *s);
void snapshot_note(struct snapshot *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * snapshot_cache_add   - another value of a cache; pointers to earlier ones are no longer good
 * snapshot_cache_alias - another name
 * snapshot_parts_add   - another part; they are added by index
 * snapshot_latency_add - another histogram, to be filled in; pointers to earlier ones are no longer good
 */
struct snapshot_value *snapshot_cache_add(struct snapshot_cache *c, const char *name, double value);
void snapshot_cache_alias(struct snapshot_cache *c, const char *name);
void snapshot_parts_add(struct snapshot_parts *parts, unsigned index, double value);
struct snapshot_latency *snapshot_latency_add(struct snapshot_cache *c, const char *name);

/*
 * snapshot_find  - the cache of that name, or that has it as an alias; NULL: none
 * snapshot_value - a value of a cache by name; NULL: absent
 * snapshot_stat  - the same by number
 * snapshot_get   - the same, and 0 when it is absent
 */
const struct snapshot_cache *snapshot_find(const struct snapshot *s, const char *name);
const struct snapshot_value *snapshot_value(const struct snapshot_cache *c, const char *name);
const struct snapshot_value *snapshot_stat(const struct snapshot_cache *c, enum uslub_stat which);
double snapshot_get(const struct snapshot_cache *c, enum uslub_stat which);

/* snapshot_fact - a fact by name; NULL: none. snapshot_set_... - add one */
const struct snapshot_fact *snapshot_fact(const struct snapshot *s, const char *name);
void snapshot_set_number(struct snapshot *s, const char *name, double number);
void snapshot_set_text(struct snapshot *s, const char *name, const char *text);
void snapshot_set_flag(struct snapshot *s, const char *name, bool value);

/*
 * snapshot_json.c
 *
 * snapshot_write - write a file
 * @path: of the file, or NULL for standard output. A file appears whole or not at all.
 *
 * Returns 0, or an exit status after a message.
 *
 * snapshot_read - read one
 * @path: of the file, "-" for standard input
 *
 * Returns NULL after a message that says what is wrong and where.
 */
int snapshot_write(const struct snapshot *s, const char *path);
struct snapshot *snapshot_read(const char *path);

/*
 * snapshot_kernel.c
 *
 * snapshot_kernel - read the kernel's caches
 * @sysfs: the directory that is in place of /sys/kernel/slab, or a file that is a copy of /proc/slabinfo; or
 *	NULL: then /proc/slabinfo itself will do where only that can be read
 *
 * Returns NULL after a message.
 */
struct snapshot *snapshot_kernel(const char *sysfs);

/*
 * snapshot_slabinfo.c
 *
 * snapshot_is_slabinfo - whether a file begins as /proc/slabinfo does
 * snapshot_slabinfo    - read such a file; NULL after a message
 */
bool snapshot_is_slabinfo(const char *path);
struct snapshot *snapshot_slabinfo(const char *path);

/*
 * snapshot_process.c
 *
 * snapshot_process - read the caches of a running process, which neither stops nor notices
 * @pid: as this program sees it; 0: the only process of this user that can be read
 *
 * Returns NULL after a message.
 */
struct snapshot *snapshot_process(int pid);

#endif /* TOOLS_SNAPSHOT_H */
