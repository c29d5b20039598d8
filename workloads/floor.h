/* SPDX-License-Identifier: MIT */
/*
 * The floor: the least an allocator can do, as a yardstick for those that do something.
 */
#ifndef WORKLOADS_FLOOR_H
#define WORKLOADS_FLOOR_H

#include <stddef.h>

struct wl_ring;

/*
 * floor_alloc - pop an object from the calling thread's stack
 * @size: bytes of every object of this thread; it must not vary
 *
 * Objects are made when the stack is empty. Returns NULL when there is no memory, or when the
 * thread has made FLOOR_OBJECTS of them.
 */
void *floor_alloc(size_t size);

#define FLOOR_OBJECTS (1u << 20)

/*
 * floor_free - push an object to the calling thread's stack
 *
 * The object must be one that floor_alloc() gave to the same thread: the stack has room for those
 * and is not checked.
 */
void floor_free(void *object);

/*
 * floor_ring_open - make a ring filled with as many objects as it has slots, or NULL
 * floor_ring_close - free it with its objects
 * @size: bytes of an object
 */
struct wl_ring *floor_ring_open(size_t size);
void floor_ring_close(struct wl_ring *ring, size_t size);

/*
 * floor_ring_alloc - take an object out of a ring of free ones, in the thread that allocates
 * floor_ring_free - put it back, in the thread that frees
 */
void *floor_ring_alloc(struct wl_ring *ring);
void floor_ring_free(struct wl_ring *ring, void *object);

#endif /* WORKLOADS_FLOOR_H */
