/* SPDX-License-Identifier: MIT */
/*
 * `uslub record`: what its files share.
 *
 *   record.c        the command: a spool, the program, what is said at the end
 *   record_merge.c  from the spool of all threads to one trace
 *   record_known.c  which objects are at which addresses
 */
#ifndef TOOLS_RECORD_H
#define TOOLS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace.h"

struct spool_header;

/*
 * struct record_counts - what a recording was
 * @allocations, @reallocations, @frees: of the trace
 * @unknown: frees and reallocations of what was allocated before
 * @replaced: objects that must have been freed unseen, since their address was allocated again
 */
struct record_counts {
	uint64_t allocations;
	uint64_t reallocations;
	uint64_t frees;
	uint64_t unknown;
	uint64_t replaced;
};

/*
 * record_merge - put the events of all threads into one order, and write them as a trace
 * @spool: all of it
 * @header, @counts: filled in; @trace is for trace_end()
 */
void record_merge(const struct spool_header *spool, struct trace_writer *trace,
		  struct trace_header *header, struct record_counts *counts);

/*
 * struct record_object - an object that is alive
 * @address: where; 0 for no object
 * @object: its number
 */
struct record_object {
	uint64_t address;
	uint64_t size;
	uint32_t object;
};

/*
 * struct record_known - all that are, by address: a table with open addressing that is never more than half full
 */
struct record_known {
	struct record_object *slots;
	size_t size; /* a power of two, or 0 */
	size_t count;
};

/*
 * record_known_add  - remember an object; none is known at its address
 * record_known_take - forget the object at an address, and return it; its address is 0 when there is none
 */
void record_known_add(struct record_known *known, struct record_object object);
struct record_object record_known_take(struct record_known *known, uint64_t address);

#endif /* TOOLS_RECORD_H */
