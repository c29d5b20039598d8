/* SPDX-License-Identifier: MIT */
/*
 * A ring of pointers between one producer and one consumer.
 *
 * Each side owns one cache line with its own position and the last position of the other side it
 * has seen, and looks at the other's line only when that one says full or empty. So what a workload
 * over the ring shows is the allocator's traffic between CPUs rather than the ring's.
 */
#ifndef WORKLOADS_RING_H
#define WORKLOADS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WL_RING_SLOTS 1024u /* a power of two */
#define WL_RING_LIMIT 512u  /* pointers in the ring at which its producer shall wait */

struct wl_ring_end {
	uint64_t at;   /* slots written or read so far; written by this side, read by the other */
	uint64_t seen; /* the other side's @at when last looked at */
} __attribute__((aligned(128)));

/*
 * @back: for a family's use: the ring in which objects go back, which may hold WL_RING_SLOTS of
 *        them and therefore never runs full or empty while WL_RING_LIMIT are on their way
 */
struct wl_ring {
	struct wl_ring *back;
	struct wl_ring_end producer;
	struct wl_ring_end consumer;
	void *slots[WL_RING_SLOTS] __attribute__((aligned(128)));
};

/*
 * wl_ring_full - whether the producer has to wait; for the producer only
 */
static inline bool wl_ring_full(struct wl_ring *ring)
{
	struct wl_ring_end *end = &ring->producer;

	if (end->at - end->seen < WL_RING_LIMIT)
		return false;
	/* Pairs with the release in wl_ring_pop(): a slot counts as free once it has been read. */
	end->seen = __atomic_load_n(&ring->consumer.at, __ATOMIC_ACQUIRE);
	return end->at - end->seen >= WL_RING_LIMIT;
}

/*
 * wl_ring_push - append a pointer; for the producer only, and only when there is a slot
 */
static inline void wl_ring_push(struct wl_ring *ring, void *object)
{
	uint64_t at = ring->producer.at;

	ring->slots[at % WL_RING_SLOTS] = object;
	__atomic_store_n(&ring->producer.at, at + 1, __ATOMIC_RELEASE);
}

/*
 * wl_ring_pop - take the oldest pointer, or NULL when there is none; for the consumer only
 */
static inline void *wl_ring_pop(struct wl_ring *ring)
{
	struct wl_ring_end *end = &ring->consumer;
	uint64_t at = end->at;
	void *object;

	if (at == end->seen) {
		/* Pairs with the release in wl_ring_push(): the slot was written before. */
		end->seen = __atomic_load_n(&ring->producer.at, __ATOMIC_ACQUIRE);
		if (at == end->seen)
			return NULL;
	}
	object = ring->slots[at % WL_RING_SLOTS];
	__atomic_store_n(&end->at, at + 1, __ATOMIC_RELEASE);
	return object;
}

#endif /* WORKLOADS_RING_H */
