/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU sheaves: the word, and what the sequences do to it.
 *
 * 1. The word
 *
 *    A slot is one word and two sheaf pointers. The word is lock, fill, choice and statistics at once:
 *
 *        allocs:45 | who:2 | which:1 | room:8 | avail:8
 *
 *    main = sheaf[which], the other one is the spare. `avail` objects can be popped from main, `room`
 *    more pushed; `allocs` counts pops and never goes back except by a close that folds it away.
 *    A pop adds one constant to the word, a push another. who: 0 open; 1 closed by somebody on his own
 *    account (only where sequences are done by compare-exchange); 2 closed from another CPU. While it
 *    is closed from another CPU avail = room = 0, so that pops and pushes fail without looking at `who`.
 *    A word of 0 with two NULL pointers is an open slot without sheaves: fresh memory needs no set-up.
 *
 * 2. The sequences
 *
 *    Each is one transaction of the thread with the CPU it runs on: it commits by its last store, or
 *    did nothing. With rseq the kernel restarts it when the thread was preempted, migrated or
 *    signalled in between; without, it closes the slot by compare-exchange, works, and opens it again.
 *    Arguments: `slot` (for pop and push the slot of CPU 0, from which they find their CPU's, a struct pcs
 *    apart; that of CPU `cpu` for the others, which fail when they run elsewhere).
 *
 *    pop:       w = slot->word; if avail(w) = 0: EMPTY (which pop says by NULL)
 *               object = sheaf[which]->objects[avail - 1];  COMMIT word = w + POP
 *    push:      w = slot->word; if room(w) = 0: EMPTY
 *               sheaf[which]->objects[avail] = object
 *               if sheaf[which]->objects[avail - 1] = object: EMPTY;  COMMIT word = w + PUSH
 *    pop_n:     k = min(n, avail(w)); k = 0: EMPTY; copy the top k out;  COMMIT word = w + k * POP
 *    push_n:    k = min(n, room(w));  k = 0: EMPTY; copy k in; if one is equal to the word below its
 *               place: TWICE;                               COMMIT word = w + k * PUSH
 *    flip_pop:  w open and avail(w) = 0; other = sheaf[!which] not NULL and not empty, else EMPTY
 *               main->fill = 0 if there is a main; f = other->fill
 *               COMMIT word = allocs, which turned, avail = f, room = capacity - f, then + POP
 *    flip_push: w open and room(w) = 0; other not NULL and not full, else EMPTY
 *               if there is a main, and main->objects[avail - 1] = object: TWICE
 *               main->fill = avail if there is a main; f = other->fill; other->objects[f] = object
 *               COMMIT word = allocs, which turned, avail = f, room = capacity - f, then + PUSH
 *    take_other: w open, else EMPTY; s = sheaf[!which], NULL: EMPTY;      COMMIT sheaf[!which] = NULL
 *    give_other: w open, else EMPTY; sheaf[!which] NULL, else EMPTY;      COMMIT sheaf[!which] = s
 *    add:        COMMIT *counter += n
 *
 *    EMPTY stands for "not possible in this state", whatever the state is. AGAIN means aborted or moved
 *    to another CPU: nothing was done. flip_* report the jump of avail (new - old, without the object),
 *    which keeps the statistics exact (section 3). An object popped or pushed is stored before the
 *    commit, into memory that is dead until the commit.
 *
 *    TWICE: the object is the one that was pushed last, and lies there still: whoever pushes it does not own
 *    it. That is certain, for nothing that a sequence has read has changed until it aborts. push, which has
 *    no time for words, says EMPTY; who then tries push_n gets to know. With avail = 0 the word below is
 *    the `node` and `slot` of struct uslub_sheaf, no address of an object: as a number slot * 2^32 + node,
 *    where node is odd or below PLAT_MAX_NODES, and at every multiple of 2^32 that is ours begins a segment
 *    of the supply, with its head. It is equal to a wild pointer at most, which is none of the cache's
 *    objects; the caller looks before he speaks.
 *
 *    Lifetime: a sequence may read a sheaf that is no longer its CPU's, but never one that was freed,
 *    since a sheaf leaves a slot by a sequence of the same CPU or by a close, and the closer issues
 *    plat_membarrier() before it looks at the sheaves.
 *
 * 3. Statistics for nothing
 *
 *    Let `base` sum the jumps of avail that are neither pops nor pushes. Then over all CPUs
 *        pops   = sum(allocs)             pushes = sum(allocs + avail) - sum(base)
 *    exactly, when quiet. Only sums over CPUs mean something: the bump of base is a sequence of its own.
 *
 * 4. Memory order
 *
 *    The word is loaded with acquire: it may have been opened by another CPU that had just changed the
 *    pointers. Commits need no order: what the next thread on the same CPU sees is program order, and a
 *    closer has its membarrier.
 */
#ifndef USLUB_PLATFORM_PERCPU_H
#define USLUB_PLATFORM_PERCPU_H

#include "base/base.h"
#include "base/sheaf.h"

struct percpu_slot {
	uint64_t word;
	struct uslub_sheaf *sheaf[2];
};

#define PLAT_MAX_CPUS 4096u /* ids from here on use foreign slots */

/* One CPU of one cache: a cache line of its own. The sequences know its size. */
#define PCS_SHIFT 6

/* A page of them: one CPU's of a group of caches, each at an offset of its own. */
#define PCS_PAGE_SHIFT 12

struct pcs {
	struct percpu_slot main; /* allocation and free */
	struct percpu_slot rcu;	 /* deferred frees; nothing is ever popped here */
	uint32_t rcu_inflight; /* plat_raise(): threads with a detached RCU sheaf not queued yet */
	uint32_t pad[3];       /* its address names the array, see place_of() of percpu.c */
};

_Static_assert(sizeof(struct pcs) == 1 << PCS_SHIFT, "the sequences index by shifting");
_Static_assert(offsetof(struct percpu_slot, sheaf) == 8, "the sequences know this offset");
_Static_assert(offsetof(struct uslub_sheaf, capacity) == 16, "the sequences know this offset");
_Static_assert(offsetof(struct uslub_sheaf, fill) == 20, "the sequences know this offset");
_Static_assert(offsetof(struct uslub_sheaf, objects) == 32, "the sequences know this offset");
_Static_assert(offsetof(struct uslub_sheaf, node) == 24 && offsetof(struct uslub_sheaf, slot) == 28,
	       "a push compares them with the address of an object");

#define WORD_ROOM_SHIFT	 8
#define WORD_WHICH_SHIFT 16
#define WORD_WHO_SHIFT	 17
#define WORD_ALLOC_SHIFT 19
#define WORD_ALLOC_BITS	 45

#define WORD_WHICH	(1ull << WORD_WHICH_SHIFT)
#define WORD_WHO	(3ull << WORD_WHO_SHIFT)
#define WORD_WHO_LOCAL	(1ull << WORD_WHO_SHIFT)
#define WORD_WHO_REMOTE (2ull << WORD_WHO_SHIFT)
#define WORD_ALLOC_ONE	(1ull << WORD_ALLOC_SHIFT)
#define WORD_ALLOC_TOP	(1ull << 63)
#define WORD_POP	(WORD_ALLOC_ONE + (1ull << WORD_ROOM_SHIFT) - 1)
#define WORD_PUSH	(1ull - (1ull << WORD_ROOM_SHIFT))

static inline unsigned word_avail(uint64_t w)
{
	return w & 0xff;
}

static inline unsigned word_room(uint64_t w)
{
	return (w >> WORD_ROOM_SHIFT) & 0xff;
}

static inline unsigned word_which(uint64_t w)
{
	return (w >> WORD_WHICH_SHIFT) & 1;
}

static inline uint64_t word_allocs(uint64_t w)
{
	return w >> WORD_ALLOC_SHIFT;
}

/* The same word with another main: allocs and which stay, the slot is open. */
static inline uint64_t word_with(uint64_t w, unsigned avail, unsigned room)
{
	return (w & ~(WORD_WHO | 0xffff)) | (uint64_t)room << WORD_ROOM_SHIFT | avail;
}

enum seq_result {
	SEQ_DONE,
	SEQ_EMPTY, /* not possible in this state: empty, full, closed, no spare */
	SEQ_AGAIN, /* aborted, or on another CPU by now; nothing was done */
	SEQ_TWICE, /* it was pushed last, and is to be pushed again; nothing was done */
};

#define SEQ_TRIES 3 /* then the slab level serves */

#endif /* USLUB_PLATFORM_PERCPU_H */
