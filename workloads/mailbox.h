/* SPDX-License-Identifier: MIT */
/*
 * A bounded ring of pointers with many producers and one consumer, and gates at which those wait that
 * find it full or empty.
 *
 * A slot's turn says whose it is: @at for the producer that fills position @at, @at + 1 for the
 * consumer, and after that the producer one round later (Vyukov's bounded queue). So a producer
 * that loses the CPU between claiming a slot and filling it holds up the consumer, but nobody's
 * correctness.
 *
 * The functions here never wait. Whoever wants to waits as follows, and then no wake-up is missed:
 * enter the gate, try again, and when that fails too sleep until the sequence has changed. Waking is
 * for those who made room or filled a slot, after the fact, and costs them a system call only
 * where somebody has entered.
 */
#ifndef WORKLOADS_MAILBOX_H
#define WORKLOADS_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WL_MAILBOX_SLOTS 256u /* a power of two; about what a stream socket holds by default */

/*
 * struct wl_gate - where threads wait
 * @sequence: changes when they shall look again; a futex
 * @waiting: how many have entered
 */
struct wl_gate {
	uint32_t sequence;
	uint32_t waiting;
} __attribute__((aligned(128)));

/*
 * struct wl_wait - what a step that can get no further waits for
 * @gate: to open, or NULL
 * @fd: to become ready for @events of poll(2) where there is no gate
 */
struct wl_wait {
	struct wl_gate *gate;
	int fd;
	short events;
};

/*
 * wl_gate_sleep - wait until the sequence is not @sequence; may return early
 * wl_gate_wake - change the sequence and wake all who wait
 */
void wl_gate_sleep(struct wl_gate *gate, uint32_t sequence);
void wl_gate_wake(struct wl_gate *gate);

static inline uint32_t wl_gate_enter(struct wl_gate *gate)
{
	__atomic_fetch_add(&gate->waiting, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&gate->sequence, __ATOMIC_SEQ_CST);
}

static inline void wl_gate_leave(struct wl_gate *gate)
{
	__atomic_fetch_sub(&gate->waiting, 1, __ATOMIC_RELAXED);
}

/* Pairs with wl_gate_enter(): either he who enters sees what was done, or this sees him. */
static inline void wl_gate_open(struct wl_gate *gate)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&gate->waiting, __ATOMIC_RELAXED) > 0, 0))
		wl_gate_wake(gate);
}

struct wl_mailbox_slot {
	uint64_t turn;
	void *object;
};

/*
 * struct wl_mailbox - where the messages to one thread arrive
 * @tail: the next position to be filled; producers'
 * @head: the next position to be emptied; the consumer's
 * @filled: where the consumer waits
 * @drained: where producers wait; opened when the ring is half empty, so that they do not take turns
 *           with the consumer for every message
 * @sockets: the two ends of a stream where messages go through the kernel; the first is the
 *           consumer's
 */
struct wl_mailbox {
	uint64_t tail __attribute__((aligned(128)));
	uint64_t head __attribute__((aligned(128)));
	struct wl_gate filled;
	struct wl_gate drained;
	int sockets[2];
	struct wl_mailbox_slot slots[WL_MAILBOX_SLOTS] __attribute__((aligned(128)));
};

static inline void wl_mailbox_init(struct wl_mailbox *box)
{
	for (unsigned i = 0; i < WL_MAILBOX_SLOTS; i++)
		box->slots[i].turn = i;
}

/*
 * wl_mailbox_push - append a pointer; false when there is no room
 */
static inline bool wl_mailbox_push(struct wl_mailbox *box, void *object)
{
	uint64_t at = __atomic_load_n(&box->tail, __ATOMIC_RELAXED);
	struct wl_mailbox_slot *slot;

	for (;;) {
		uint64_t turn;

		slot = &box->slots[at % WL_MAILBOX_SLOTS];
		turn = __atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE);
		if ((int64_t)(turn - at) < 0)
			return false;
		if (turn != at)
			at = __atomic_load_n(&box->tail, __ATOMIC_RELAXED);
		else if (__atomic_compare_exchange_n(&box->tail, &at, at + 1, false,
						     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
	}
	slot->object = object;
	__atomic_store_n(&slot->turn, at + 1, __ATOMIC_RELEASE);
	wl_gate_open(&box->filled);
	return true;
}

/*
 * wl_mailbox_pop - take the oldest pointer, or NULL when there is none; for the consumer only
 */
static inline void *wl_mailbox_pop(struct wl_mailbox *box)
{
	uint64_t at = box->head;
	struct wl_mailbox_slot *slot = &box->slots[at % WL_MAILBOX_SLOTS];
	void *object;

	if (__atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE) != at + 1)
		return NULL;
	object = slot->object;
	__atomic_store_n(&slot->turn, at + WL_MAILBOX_SLOTS, __ATOMIC_RELEASE);
	box->head = at + 1;
	if (__atomic_load_n(&box->tail, __ATOMIC_RELAXED) - at <= WL_MAILBOX_SLOTS / 2)
		wl_gate_open(&box->drained);
	return object;
}

/*
 * wl_socket_send, wl_socket_receive - move @size bytes through one end of a stream, or nothing
 *
 * False when the stream is full or empty. Messages of one size that are far smaller than the
 * socket's buffer are never torn.
 */
bool wl_socket_send(int fd, const void *bytes, size_t size);
bool wl_socket_receive(int fd, void *bytes, size_t size);

#endif /* WORKLOADS_MAILBOX_H */
