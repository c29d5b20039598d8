/* SPDX-License-Identifier: MIT */
/*
 * Statistics as data: which words of a cache a statistic is made of.
 *
 * 1. Why
 *    A statistic is read in two places: in its own process, and from outside by a program that may be of
 *    another version and must not call into the process. Both do it by the same recipes: the table stands in
 *    cache/stat.c, the evaluation here, and a process that exports its statistics publishes the table along
 *    with where its words lie (inspect/export_format.h). So the reader outside needs no knowledge of a cache's
 *    structures, and there is one place for each formula.
 *
 * 2. Structure
 *    The words of a cache lie in arrays of equal elements (enum recipe_array): the cache itself, its CPUs'
 *    slots and counters, its nodes, barns and so on. A term is a bit field at an offset of every element of
 *    an array; its sum over the elements, times a factor, is a summand of the statistic. Of the arrays with
 *    an element for each CPU only those that were ever used are looked at.
 *    Some objects lie in sheaves that no array holds. Such a term is the address of a sheaf, whose head is
 *    copied by the view's peek(), since it may be anything by then.
 *
 * 3. Cost
 *    A reading takes no lock. It is exact when the cache is quiet, and else as the sum of words that were read
 *    one after the other is. Single elements mean something only where a comment says so.
 */
#ifndef USLUB_STATS_RECIPE_H
#define USLUB_STATS_RECIPE_H

#include "base/base.h"

enum recipe_array {
	RECIPE_ONE, /* no memory: a single element, whose every word is 1 */
	RECIPE_CACHE,
	RECIPE_SLOTS,	 /* struct pcs of each slot */
	RECIPE_COUNTERS, /* counters of each slot */
	RECIPE_STASHES,	 /* of each slot */
	RECIPE_NODES,
	RECIPE_FIRST_NODE,
	RECIPE_BARNS, /* of each node */
	RECIPE_SHARDS,
	RECIPE_DOMAIN, /* ages of what waits for RCU; none without a flavor */
	RECIPE_PROCESS,
	RECIPE_SUPPLY, /* of each node, of all caches together, as the next */
	RECIPE_ARENA,
	RECIPE_ARRAYS
};

enum recipe_use {
	RECIPE_WORD,
	RECIPE_SPARE, /* the words of a struct percpu_slot: objects in the sheaf that is not main */
	RECIPE_FILL, /* an address, shifted to its place by `shift` and `bits`: objects in the sheaf there */
	RECIPE_ROOM, /* the same: objects that there is room for */
};

/*
 * struct recipe_term - a summand
 * @array, @use: enums above
 * @width: bytes of the word: 1, 2, 4 or 8
 * @shift, @bits: the part of it that counts; 0 bits: all of it. An address is what is left of it after
 *	shifting right by @shift, then left by @bits
 * @offset: in an element
 * @node_step: bytes between the words of two nodes, where an element has one for each; else 0
 * @times: offset in the cache of a 4-byte word to multiply with, or 0
 * @factor: to multiply with as well; 0 stands for 1
 */
struct recipe_term {
	uint8_t array;
	uint8_t use;
	uint8_t width;
	uint8_t shift;
	uint8_t bits;
	uint8_t pad;
	uint16_t node_step;
	uint32_t offset;
	uint32_t times;
	int32_t factor;
};

enum recipe_kind {
	RECIPE_NONE, /* always 0 */
	RECIPE_SUM,
	RECIPE_CLAMPED, /* node by node: within 0 and what the first term says */
	/* Unless the first term is 0: nanoseconds since the first of the others that is not 0, at least 1. */
	RECIPE_AGE,
};

#define RECIPE_TERMS 6u

/* May the share of one CPU, or of one node, be asked for? */
#define RECIPE_BY_CPU  0x1u
#define RECIPE_BY_NODE 0x2u

struct recipe {
	uint8_t kind;
	uint8_t by;
	uint8_t nterms;
	uint8_t pad[5];
	struct recipe_term terms[RECIPE_TERMS];
};

/*
 * struct recipe_elements - an array, as the evaluation sees it
 * @base: NULL: there is none
 * @used: one bit for every element, or NULL: all are
 */
struct recipe_elements {
	const char *base;
	uint32_t stride;
	uint32_t count;
	const uint64_t *used;
};

/* What a peek shows of a sheaf. */
struct recipe_sheaf {
	uint64_t cache; /* its address */
	uint32_t capacity;
	uint32_t fill;
};

/* What is the same for all caches of a process. */
struct recipe_process {
	uint32_t rseq;
	uint32_t pad;
};

/*
 * struct recipe_view - a cache, here or copied from elsewhere
 * @process: what arrays[RECIPE_PROCESS] has
 * @now: of the clock that ages go by
 * @self: the address of the cache where it lives
 * @nodes: how many
 * @peek: false: there is no such memory any more
 */
struct recipe_view {
	struct recipe_elements arrays[RECIPE_ARRAYS];
	struct recipe_process process;
	uint64_t now;
	uint64_t self;
	uint32_t nodes;
	bool (*peek)(const struct recipe_view *view, uint64_t address, struct recipe_sheaf *sheaf);
};

/*
 * recipe_value - the statistic
 * recipe_node  - what a node contributes
 * recipe_cpu   - what a slot contributes
 *
 * Any contents of recipe and view give some number and nothing else: offsets beyond an element count as 0.
 */
hidden uint64_t recipe_value(const struct recipe *r, const struct recipe_view *v);
hidden uint64_t recipe_node(const struct recipe *r, const struct recipe_view *v, unsigned node);
hidden uint64_t recipe_cpu(const struct recipe *r, const struct recipe_view *v, unsigned slot);

#endif /* USLUB_STATS_RECIPE_H */
