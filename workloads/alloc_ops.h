/* SPDX-License-Identifier: MIT */
/*
 * What a workload may ask of an allocator.
 *
 * The step functions in steps.h are written over this table and instantiated once for each family
 * of allocators with a constant one, so that the compiler turns every call into a direct one: a
 * benchmark that calls through pointers measures its own seam. A simulated allocator may pass a
 * table of its own.
 */
#ifndef WORKLOADS_ALLOC_OPS_H
#define WORKLOADS_ALLOC_OPS_H

#include <stddef.h>

/*
 * struct heap - where the objects of one thread come from
 * @cache: the family's own, shared by all threads; NULL for those that need none
 * @local: the family's own, of this thread
 * @size: size of every object in bytes
 *
 * It is passed by value: a step function copies it once, and its members then stay in registers.
 */
struct heap {
	void *cache;
	void *local;
	size_t size;
};

/*
 * struct alloc_ops - the operations of a family of allocators
 * @alloc: an object, or NULL
 * @free: frees an object at once
 * @free_rcu: frees an object when all present readers are gone
 * @reserve: makes sure that @take succeeds n times; returns a handle, or NULL
 * @take: an object out of a reservation, or NULL where the family cannot reserve and has no memory
 * @unreserve: gives a reservation back, with what is left in it
 * @malloc, @calloc, @realloc: as those of the C library, of any size; what they return is freed by @free;
 * @aligned: as aligned_alloc(), the alignment first.
 *	For the workloads of workloads_general.def, which only a family that has them can run
 */
struct alloc_ops {
	void *(*alloc)(struct heap heap);
	void (*free)(struct heap heap, void *object);
	void (*free_rcu)(struct heap heap, void *object);
	void *(*reserve)(struct heap heap, unsigned n);
	void *(*take)(struct heap heap, void *reservation);
	void (*unreserve)(struct heap heap, void *reservation);
	void *(*malloc)(struct heap heap, size_t size);
	void *(*calloc)(struct heap heap, size_t n, size_t size);
	void *(*realloc)(struct heap heap, void *object, size_t size);
	void *(*aligned)(struct heap heap, size_t align, size_t size);
};

#endif /* WORKLOADS_ALLOC_OPS_H */
