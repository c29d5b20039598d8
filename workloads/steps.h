/* SPDX-License-Identifier: MIT */
/*
 * The step functions of all workloads, over any allocator.
 *
 * Every function here is always inlined into an instance (instantiate.h), where @ops is a constant:
 * what is left is the loop with direct calls of the allocator. A volatile store or an empty asm
 * keeps the compiler from noticing that nobody needs the objects.
 */
#ifndef WORKLOADS_STEPS_H
#define WORKLOADS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include "alloc_ops.h"
#include "latency.h"
#include "mailbox.h"
#include "prng.h"
#include "ring.h"
#include "workload.h"

#define WL_STEP	       static inline __attribute__((always_inline, unused))
#define WL_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define WL_LINE_SIZE 64u

#ifndef WL_OWN_TOUCH /* else the includer has his own */

/* A user writes to what he allocates; without that the first miss would be somebody else's. */
WL_STEP void wl_touch(void *object)
{
	*(volatile unsigned char *)object = 1;
	__asm__ volatile("" : : "r"(object) : "memory");
}

/* A tree node is filled: one store to each of its cache lines moves them all to this CPU. */
WL_STEP void wl_touch_lines(void *object, size_t size)
{
	for (size_t offset = 0; offset < size; offset += WL_LINE_SIZE)
		*(volatile unsigned char *)((char *)object + offset) = 1;
	__asm__ volatile("" : : "r"(object) : "memory");
}

#endif

/* Remembers that memory ran out and passes on how far the loop had come. */
WL_STEP uint64_t wl_fail(struct wl_thread *t, uint64_t done)
{
	t->failed = true;
	return done;
}

WL_STEP unsigned wl_no_slots(const struct wl_params *params)
{
	(void)params;
	return 0;
}

WL_STEP void wl_nothing(const struct alloc_ops *ops, struct wl_thread *t)
{
	(void)ops;
	(void)t;
}

/*
 * mmap1: one operation is one mmap and one munmap of an area in the middle of a mapped range. The
 * first splits a leaf (3 new nodes, 2 replaced), the second rebalances it away (2 new nodes, 3
 * replaced); readers may walk the tree, so replaced nodes are freed after a grace period. Nodes are
 * replaced in the order they were made; a dozen are alive between operations, as in a small tree.
 */
#define WL_MMAP1_SLOTS 32u /* a power of two */
#define WL_MMAP1_LIVE  15u /* a multiple of 3, since they are made by cycles that take 3 */

WL_STEP unsigned mmap1_slots(const struct wl_params *params)
{
	(void)params;
	return WL_MMAP1_SLOTS;
}

WL_STEP bool mmap1_cycle(const struct alloc_ops *ops, struct wl_thread *t, struct heap heap,
			 unsigned takes, unsigned frees)
{
	void *reservation = ops->reserve(heap, 3);
	unsigned taken;

	if (WL_UNLIKELY(!reservation))
		return false;
	for (taken = 0; taken < takes; taken++) {
		void *object = ops->take(heap, reservation);

		if (WL_UNLIKELY(!object))
			break;
		wl_touch_lines(object, heap.size);
		t->slots[t->put++ % WL_MMAP1_SLOTS] = object;
	}
	ops->unreserve(heap, reservation);
	if (WL_UNLIKELY(taken < takes))
		return false;
	for (unsigned i = 0; i < frees; i++)
		ops->free_rcu(heap, t->slots[t->got++ % WL_MMAP1_SLOTS]);
	return true;
}

WL_STEP void mmap1_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	while (t->put < WL_MMAP1_LIVE) {
		if (!mmap1_cycle(ops, t, t->heaps[0], 3, 0)) {
			t->failed = true;
			return;
		}
	}
}

WL_STEP uint64_t mmap1_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];

	for (uint64_t i = 0; i < n; i++) {
		if (WL_UNLIKELY(!mmap1_cycle(ops, t, heap, 3, 2)))
			return wl_fail(t, i);
		if (WL_UNLIKELY(!mmap1_cycle(ops, t, heap, 2, 3)))
			return wl_fail(t, i);
	}
	return n;
}

WL_STEP void mmap1_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	while (t->got < t->put)
		ops->free(t->heaps[0], t->slots[t->got++ % WL_MMAP1_SLOTS]);
}

/* pair: the shortest life an object can have. */
WL_STEP unsigned pair_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void pair_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP uint64_t pair_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];

	for (uint64_t i = 0; i < n; i++) {
		void *object = ops->alloc(heap);

		if (WL_UNLIKELY(!object))
			return wl_fail(t, i);
		wl_touch(object);
		ops->free(heap, object);
	}
	return n;
}

WL_STEP void pair_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/* burst: more objects at a time than a per-CPU sheaf may hold. */
WL_STEP unsigned burst_slots(const struct wl_params *params)
{
	return params->burst;
}

WL_STEP void burst_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP uint64_t burst_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];
	const unsigned burst = t->params->burst;
	void **slots = t->slots;
	uint64_t done = 0;

	while (done < n) {
		unsigned got;

		for (got = 0; got < burst; got++) {
			void *object = ops->alloc(heap);

			if (WL_UNLIKELY(!object))
				break;
			wl_touch(object);
			slots[got] = object;
		}
		for (unsigned i = 0; i < got; i++)
			ops->free(heap, slots[i]);
		if (WL_UNLIKELY(got < burst))
			return wl_fail(t, done);
		done += burst;
	}
	return done;
}

WL_STEP void burst_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/* window: objects die at random ages, as in a cache or a table of connections. */
WL_STEP unsigned window_slots(const struct wl_params *params)
{
	return params->window;
}

WL_STEP void window_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->window; i++) {
		if (t->slots[i])
			ops->free(t->heaps[0], t->slots[i]);
		t->slots[i] = NULL;
	}
}

WL_STEP void window_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->window; i++) {
		t->slots[i] = ops->alloc(t->heaps[0]);
		if (!t->slots[i]) {
			t->failed = true;
			return;
		}
		wl_touch(t->slots[i]);
	}
}

WL_STEP uint64_t window_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];
	const unsigned window = t->params->window;
	void **slots = t->slots;
	uint64_t random = t->random;
	uint64_t i;

	for (i = 0; i < n; i++) {
		unsigned slot = wl_random_below(&random, window);
		void *object = slots[slot];

		ops->free(heap, object);
		object = ops->alloc(heap);
		if (WL_UNLIKELY(!object)) {
			slots[slot] = NULL;
			t->failed = true;
			break;
		}
		wl_touch(object);
		slots[slot] = object;
	}
	t->random = random;
	return i;
}

/* prodcons: every object is freed by another thread than the one that allocated it. */
WL_STEP unsigned prodcons_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void prodcons_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP uint64_t prodcons_produce(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];
	struct wl_ring *ring = t->ring;
	uint64_t i;

	for (i = 0; i < n && !wl_ring_full(ring); i++) {
		void *object = ops->alloc(heap);

		if (WL_UNLIKELY(!object))
			return wl_fail(t, i);
		wl_touch(object);
		wl_ring_push(ring, object);
	}
	return i;
}

WL_STEP uint64_t prodcons_consume(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];
	struct wl_ring *ring = t->ring;
	uint64_t i;

	for (i = 0; i < n; i++) {
		void *object = wl_ring_pop(ring);

		if (!object)
			break;
		wl_touch(object);
		ops->free(heap, object);
	}
	return i;
}

WL_STEP uint64_t prodcons_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	return t->index % 2 ? prodcons_consume(ops, t, n) : prodcons_produce(ops, t, n);
}

WL_STEP void prodcons_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	if (t->index % 2)
		prodcons_consume(ops, t, UINT64_MAX);
}

/*
 * rcu: what an update of an RCU-protected pointer costs its writer. The two words let a reader see
 * that an object was reused too early, see wl_published_ok().
 */
WL_STEP unsigned rcu_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void rcu_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP uint64_t rcu_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];
	void *old = t->published;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t *object = ops->alloc(heap);
		void *replaced = old;

		if (WL_UNLIKELY(!object))
			return wl_fail(t, i);
		__atomic_store_n(&object[0], t->put, __ATOMIC_RELAXED);
		__atomic_store_n(&object[1], ~t->put, __ATOMIC_RELAXED);
		t->put++;
		__atomic_store_n(&t->published, (void *)object, __ATOMIC_RELEASE);
		old = object;
		if (replaced)
			ops->free_rcu(heap, replaced);
	}
	return n;
}

WL_STEP void rcu_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	void *old = t->published;

	__atomic_store_n(&t->published, (void *)NULL, __ATOMIC_RELEASE);
	if (old)
		ops->free_rcu(t->heaps[0], old);
}

/*
 * reserve: what a reservation costs over plain allocations. The pairs variant does the same number
 * of allocations and frees without one.
 */
#define WL_RESERVE_OBJECTS 3u

WL_STEP unsigned reserve_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void reserve_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP bool reserve_cycle(const struct alloc_ops *ops, struct heap heap)
{
	void *reservation = ops->reserve(heap, WL_RESERVE_OBJECTS);
	void *objects[WL_RESERVE_OBJECTS];
	unsigned taken;

	if (WL_UNLIKELY(!reservation))
		return false;
	for (taken = 0; taken < WL_RESERVE_OBJECTS; taken++) {
		objects[taken] = ops->take(heap, reservation);
		if (WL_UNLIKELY(!objects[taken]))
			break;
		wl_touch(objects[taken]);
	}
	ops->unreserve(heap, reservation);
	for (unsigned i = 0; i < taken; i++)
		ops->free(heap, objects[i]);
	return taken == WL_RESERVE_OBJECTS;
}

WL_STEP uint64_t reserve_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct heap heap = t->heaps[0];

	if (t->params->variant == WL_RESERVE_PAIRS)
		return pair_run(ops, t, n * WL_RESERVE_OBJECTS) / WL_RESERVE_OBJECTS;
	for (uint64_t i = 0; i < n; i++) {
		if (WL_UNLIKELY(!reserve_cycle(ops, heap)))
			return wl_fail(t, i);
	}
	return n;
}

WL_STEP void reserve_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/*
 * hackbench: every sender of a group sends its k-th message to the receiver k modulo their number, as
 * the program of that name does over sockets. What the kernel allocates for a message is allocated
 * here: a header and a buffer with 100 bytes of text, by the sender; the receiver checks and frees
 * both. All text follows from the sender and the number of the message, so that a lost, doubled or
 * changed message is noticed.
 */
#define WL_TEXT_SIZE 100u

struct wl_message {
	unsigned char *text;
	uint64_t sender; /* in its group */
	uint64_t number; /* of this sender to this receiver */
	uint64_t cookie;
};

WL_STEP unsigned hackbench_slots(const struct wl_params *params)
{
	return params->fds;
}

WL_STEP void hackbench_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/* The place of a sender among senders, of a receiver among receivers. */
WL_STEP unsigned hackbench_place(const struct wl_thread *t)
{
	return t->index % (2 * t->params->fds) / 2;
}

WL_STEP uint64_t hackbench_cookie(uint64_t sender, uint64_t receiver, uint64_t number)
{
	uint64_t state = sender << 52 ^ receiver << 40 ^ number;

	return wl_random(&state);
}

WL_STEP void hackbench_write(unsigned char text[WL_TEXT_SIZE], uint64_t cookie)
{
	for (size_t i = 0; i < WL_TEXT_SIZE; i += sizeof(cookie), cookie++)
		memcpy(text + i, &cookie,
		       WL_TEXT_SIZE - i < sizeof(cookie) ? WL_TEXT_SIZE - i : sizeof(cookie));
}

WL_STEP void hackbench_discard(const struct alloc_ops *ops, struct wl_thread *t,
			       struct wl_message *message)
{
	ops->free(t->heaps[1], message->text);
	ops->free(t->heaps[0], message);
}

WL_STEP struct wl_message *hackbench_compose(const struct alloc_ops *ops, struct wl_thread *t)
{
	struct wl_message *message = ops->alloc(t->heaps[0]);
	unsigned char *text = ops->alloc(t->heaps[1]);

	if (WL_UNLIKELY(!message || !text)) {
		if (message)
			ops->free(t->heaps[0], message);
		if (text)
			ops->free(t->heaps[1], text);
		return NULL;
	}
	wl_touch_lines(message, t->heaps[0].size);
	message->text = text;
	message->sender = hackbench_place(t);
	message->number = t->put / t->params->fds;
	message->cookie = hackbench_cookie(message->sender, t->put % t->params->fds,
					   message->number);
	hackbench_write(text, message->cookie);
	return message;
}

/* Through a socket goes the text, with the pointer to the message in place of its first bytes. */
WL_STEP bool hackbench_post(struct wl_thread *t, struct wl_mailbox *box, struct wl_message *message)
{
	unsigned char wire[WL_TEXT_SIZE];

	if (t->params->transport == WL_RING) {
		t->wait.gate = &box->drained;
		return wl_mailbox_push(box, message);
	}
	memcpy(wire, message->text, sizeof(wire));
	memcpy(wire, &message, sizeof(message));
	t->wait.fd = box->sockets[1];
	t->wait.events = POLLOUT;
	return wl_socket_send(box->sockets[1], wire, sizeof(wire));
}

WL_STEP struct wl_message *hackbench_take(struct wl_thread *t, struct wl_mailbox *box)
{
	struct wl_message *message;
	unsigned char wire[WL_TEXT_SIZE];

	if (t->params->transport == WL_RING) {
		t->wait.gate = &box->filled;
		return wl_mailbox_pop(box);
	}
	t->wait.fd = box->sockets[0];
	t->wait.events = POLLIN;
	if (!wl_socket_receive(box->sockets[0], wire, sizeof(wire)))
		return NULL;
	memcpy(&message, wire, sizeof(message));
	if (memcmp(wire + sizeof(message), message->text + sizeof(message),
		   sizeof(wire) - sizeof(message)))
		t->corrupt++;
	return message;
}

WL_STEP uint64_t hackbench_send(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct wl_message *message = t->pending;

		if (!message)
			message = hackbench_compose(ops, t);
		if (WL_UNLIKELY(!message))
			return wl_fail(t, i);
		t->pending = message;
		if (!hackbench_post(t, &t->group->boxes[t->put % t->params->fds], message))
			return i;
		t->pending = NULL;
		t->put++;
	}
	return n;
}

/* The slots hold the number of the next message from each sender. */
WL_STEP void hackbench_check(struct wl_thread *t, unsigned place, const struct wl_message *message)
{
	unsigned char text[WL_TEXT_SIZE];
	uint64_t cookie = hackbench_cookie(message->sender, place, message->number);

	hackbench_write(text, cookie);
	if (WL_UNLIKELY(message->sender >= t->params->fds || message->cookie != cookie ||
			memcmp(text, message->text, sizeof(text)))) {
		t->corrupt++;
		return;
	}
	t->corrupt += message->number != (uintptr_t)t->slots[message->sender];
	t->slots[message->sender] = (void *)(uintptr_t)(message->number + 1);
}

WL_STEP uint64_t hackbench_receive(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	unsigned place = hackbench_place(t);

	for (uint64_t i = 0; i < n; i++) {
		struct wl_message *message = hackbench_take(t, &t->group->boxes[place]);

		if (!message)
			return i;
		hackbench_check(t, place, message);
		hackbench_discard(ops, t, message);
	}
	return n;
}

WL_STEP uint64_t hackbench_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	return t->index % 2 ? hackbench_receive(ops, t, n) : hackbench_send(ops, t, n);
}

/* All have stopped to send: what a receiver still has not got is lost. */
WL_STEP void hackbench_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	const unsigned fds = t->params->fds;
	unsigned place = hackbench_place(t);

	if (t->index % 2 == 0) {
		if (t->pending)
			hackbench_discard(ops, t, t->pending);
		return;
	}
	hackbench_receive(ops, t, UINT64_MAX);
	for (unsigned i = 0; i < fds; i++) {
		uint64_t sent = (t->group->members[(size_t)2 * i]->put + fds - 1 - place) / fds;

		t->corrupt += (uintptr_t)t->slots[i] != sent;
	}
}

/*
 * statread: allocations and frees that need the slabs' list, each burst timed, while other threads
 * read statistics, which somebody has to count. The first thread makes the part-used slabs: it
 * allocates until it has the first object of so many pages, keeps these and frees all others. The
 * driver has seen to it that a slab is a page.
 */
WL_STEP unsigned statread_slots(const struct wl_params *params)
{
	return params->burst;
}

WL_STEP void *statread_chain(void *first, void *object)
{
	*(void **)object = first;
	return object;
}

WL_STEP void statread_free_chain(const struct alloc_ops *ops, struct wl_thread *t, void *first)
{
	while (first) {
		void *next = *(void **)first;

		ops->free(t->heaps[0], first);
		first = next;
	}
}

WL_STEP void statread_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned kept = 0;
	void *others = NULL;

	while (t->index == 0 && kept < t->params->slabs) {
		void *object = ops->alloc(t->heaps[0]);

		if (!object) {
			t->failed = true;
			break;
		}
		if ((uintptr_t)object % page >= t->heaps[0].size) {
			others = statread_chain(others, object);
		} else {
			t->pending = statread_chain(t->pending, object);
			kept++;
		}
	}
	statread_free_chain(ops, t, others);
}

WL_STEP void statread_time(struct wl_clockwork *clockwork, uint64_t begin, uint64_t end)
{
	uint64_t ns = end - begin;

	wl_histogram_add(&clockwork->latencies[WL_LATENCY_BURST], ns);
	if (WL_UNLIKELY(ns > clockwork->stall_ns)) {
		wl_histogram_add(&clockwork->latencies[WL_LATENCY_STALL], ns);
		if (wl_preempted(clockwork))
			wl_histogram_add(&clockwork->latencies[WL_LATENCY_PREEMPTED], ns);
		else
			wl_spans_add(&clockwork->spans, begin, end);
	}
}

WL_STEP uint64_t statread_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const unsigned burst = t->params->burst;
	uint64_t begin, done = 0;

	/* What happened between two calls is no stall of a burst. */
	wl_preempted(t->clockwork);
	begin = wl_now_ns();
	while (done < n) {
		uint64_t end;

		if (WL_UNLIKELY(burst_run(ops, t, burst) < burst))
			return wl_fail(t, done);
		end = wl_now_ns();
		statread_time(t->clockwork, begin, end);
		begin = end;
		done += burst;
	}
	return done;
}

WL_STEP void statread_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	statread_free_chain(ops, t, t->pending);
}

#endif /* WORKLOADS_STEPS_H */
