/* SPDX-License-Identifier: MIT */
/*
 * What a process shows of its caches: the layout of the shared memory that src/inspect/export.c writes and
 * other programs read. It describes itself, so that reader and writer may be of different versions: where
 * tables lie, how large an element is, and of which words each statistic is made (stats/recipe.h).
 *
 *   struct export_header   at the beginning
 *   struct export_stat     for every statistic of a cache, then for every figure of the process
 *   struct export_cache    for every name of a cache
 *
 * The words that statistics are made of stay in private memory, where a fork copies them at one moment as all
 * else, and where no other process can reach them through a descriptor that leaks. A reader copies them by
 * process_vm_readv(2), by their addresses, and so gets exact figures while the process runs on undisturbed.
 * Where the kernel forbids that (some let only a parent trace a process), there is a copy of the
 * values in each cache's entry, which slow paths renew several times a second, and the end of the process
 * at last.
 *
 * An entry changes rarely. Its `seq` is odd while it does; who reads it looks at seq before and after, as of a
 * seqlock. Nothing here can be trusted by a reader: it is the memory of another program.
 */
#ifndef USLUB_INSPECT_EXPORT_FORMAT_H
#define USLUB_INSPECT_EXPORT_FORMAT_H

#include "base/base.h"
#include "stats/recipe.h"

#define EXPORT_NAME  "uslub-export" /* of the memory, in /proc/PID/maps and /proc/PID/fd */
#define EXPORT_MAGIC 0x3165626f6c73752eull
#define EXPORT_SIZE  ((size_t)4 << 20)

/* Grows when a reader of the earlier one could not understand the later one. */
#define EXPORT_VERSION 1u

#define EXPORT_STATS_MAX   192u
#define EXPORT_NAME_MAX	   64u
#define EXPORT_FIGURES_MAX 16u

enum export_state {
	EXPORT_MAKING,
	EXPORT_LIVE,
	EXPORT_ENDED, /* the process has ended normally; the copied values are its last */
};

enum export_entry {
	EXPORT_FREE,
	EXPORT_CACHE,
	EXPORT_ALIAS, /* another name of a cache */
};

/* An array of a recipe. @by_slot: only the slots whose bit is set are to be looked at. */
struct export_elements {
	uint64_t base;
	uint32_t stride;
	uint32_t count;
	uint32_t by_slot;
	uint32_t pad;
};

struct export_stat {
	char name[40];
	uint32_t kind; /* enum uslub_stat_kind */
	uint32_t pad;
	struct recipe recipe;
};

/*
 * Histograms of how long slow paths took: behind the counters of each slot, from an entry's @latency on, so many
 * words for each path, the last of which is the sum of nanoseconds.
 */
struct export_latency {
	char name[24];
};

/*
 * Where the slabs are: how to find each from a bitmap of segments, and what a page's descriptor says.
 * @segments: address of the bitmap; bit n stands for the segment at n << @segment_shift
 * @order_of: in a segment: one byte for each page: 0, or 1 + the order of the run it belongs to
 * @pages, @page_bytes: in a segment: descriptors; that of a run's first page is the run's
 * @kind.. @state: in a descriptor, where its @kind is @kind_used
 */
struct export_map {
	uint64_t segments;
	uint32_t segment_bits;
	uint32_t segment_shift;
	uint32_t page_shift;
	uint32_t order_of;
	uint32_t pages;
	uint32_t page_bytes;
	uint16_t kind, kind_used;
	uint16_t node;
	uint16_t objects;
	uint16_t class;
	uint16_t state;
	uint8_t head_bits;   /* of the state: the first free object */
	uint8_t inuse_shift; /* objects in use */
	uint8_t inuse_bits;
	uint8_t where_shift; /* 0 full or leaving, 1 listed, 2 parked */
	uint8_t where_bits;
	uint8_t pad[7];
};

struct export_header {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* of this header */
	uint32_t pid;	/* 0: nobody's yet */
	uint32_t state; /* enum export_state */
	char library[16];
	uint32_t cpus, slots, nodes, page_size;
	uint32_t rseq;
	uint32_t stats, stats_offset, stat_bytes;
	uint32_t figures, figures_offset; /* of the process */
	uint32_t caches, caches_offset, cache_bytes;
	uint32_t caches_used;	 /* entries up to the last that was ever used */
	uint32_t caches_missing; /* names that have no entry, for want of room */
	uint32_t terms;		 /* of a recipe */
	uint32_t arrays;	 /* of an entry */
	uint32_t latencies, latencies_offset;
	uint32_t latency_words; /* of a path */
	uint64_t ended;		/* time of the end, by CLOCK_MONOTONIC */
	struct export_map map;
	struct export_elements elements[RECIPE_ARRAYS]; /* of the figures */
	uint64_t figure_values[EXPORT_FIGURES_MAX];	/* copied with those of some cache */
};

/* @flags of an entry */
#define EXPORT_INTERNAL 0x1u /* its objects are sheaves */

struct export_cache {
	uint32_t seq;
	uint32_t state; /* enum export_entry */
	uint32_t of;	/* of an alias: the entry of the cache */
	uint32_t flags;
	char name[EXPORT_NAME_MAX];
	uint32_t
		latency; /* bytes into a slot's counters where histograms begin; 0: there are none */
	uint32_t pad;
	uint64_t number; /* no two caches of a process have the same */
	uint64_t address;
	uint64_t class; /* what the descriptors of its slabs name */
	uint64_t used;	/* address of the bits of slots in use */
	struct export_elements elements[RECIPE_ARRAYS];
	uint64_t absent[EXPORT_STATS_MAX / 64]; /* statistics that only a walk could tell */
	uint64_t copied; /* when the values were, by CLOCK_MONOTONIC; 0: never */
	uint64_t values[EXPORT_STATS_MAX];
};

#endif /* USLUB_INSPECT_EXPORT_FORMAT_H */
