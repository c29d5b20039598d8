/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the node tier share: the nodes of one class, its slabs by number, and what all counters
 * should be. Threads that come in between at a certain place are played by a handler of SIGSEGV: the page
 * whose object is touched there is protected.
 */
#ifndef USLUB_TESTS_NODES_H
#define USLUB_TESTS_NODES_H

#include <pthread.h>
#include "unit.h"
#include "tiers/node.h"

#define SLABS_MAX   64
#define OBJECTS_MAX 512 /* of a slab; pages may be of 64 KiB */

extern struct slab_class class;
extern struct node nodes[2];
extern struct slab *slabs[SLABS_MAX];
extern unsigned released;
extern struct slab *last_released;

/* How the nodes are made by begin(): its own arguments aside. */
extern struct nodes_like {
	enum node_counting counting;
	unsigned nshards; /* of each node; 0: no parking */
	unsigned park_limit;
} nodes_like;

void begin(size_t object_size, unsigned min_objects, unsigned min_partial);
void begin_small(unsigned min_partial);	    /* 16 objects in a page of 4 KiB */
void begin_two_pages(unsigned min_partial); /* slabs of two pages with eight objects in each */

/* ---- expectations --------------------------------------------------------------------------------- */

void expect(enum counter which, uint64_t n);
/* The counter should be what it is. */
void expect_as_is(enum counter which);

unsigned free_in(const struct slab *slab);

void check_counters_at(const char *file, int line);
void check_slab_at(const struct slab *slab, unsigned free, enum slab_where where, const char *file,
		   int line);
/* Slabs by their number, in this order; -1 ends them. */
void check_list_at(struct node *n, const int *order, const char *file, int line);
void check_stack_at(const struct slab *slab, const int *order, const char *file, int line);
void check_totals(unsigned nr_slabs); /* of node 0 */

#define check_counters()	      check_counters_at(__FILE__, __LINE__)
#define check_slab(slab, free, where) check_slab_at(slab, free, where, __FILE__, __LINE__)
#define check_list_of(n, ...)	      check_list_at(n, (const int[]){ __VA_ARGS__, -1 }, __FILE__, __LINE__)
#define check_list(...)		      check_list_of(&nodes[0], __VA_ARGS__)
#define check_list_empty()	      check_list_at(&nodes[0], (const int[]){ -1 }, __FILE__, __LINE__)

/* ---- what is done --------------------------------------------------------------------------------- */

/* n slabs, all objects of which are in the test's hands. */
void take_slabs(unsigned n);

/* Frees objects first..first+n-1 of a slab as one chain. */
void put_flags(unsigned i, unsigned first, unsigned n, unsigned flags);
void put(unsigned i, unsigned first, unsigned n);
/* The same, and counted as the first free into a full slab, which lists it. */
void publish(unsigned i, unsigned first, unsigned n);

void *object(unsigned i, unsigned k);

/* ---- others that come in between ------------------------------------------------------------------ */

extern unsigned faults;

/* From now on fn is called at each fault: which one it is, from 1 on. */
void come_in_between(void (*fn)(unsigned which));
void guard(void *p); /* the page of this object, once */

#define ANY (NODE_NOLOCK | NODE_NOWAIT)

struct holder {
	struct node *node;
	pthread_t thread;
	pthread_barrier_t barrier;
};

/* Another thread has list_lock until holder_end(). */
void holder_begin(struct holder *h, struct node *node);
void holder_end(struct holder *h);

#endif /* USLUB_TESTS_NODES_H */
