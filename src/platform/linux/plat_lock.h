/* SPDX-License-Identifier: MIT */
/*
 * An adaptive lock: spins briefly, then sleeps on a futex.
 *
 * The word is the owner, named by its thread pointer, so that fork can tell a lock that the forking
 * thread itself holds (a signal handler forked while its thread was in the allocator) from one that
 * another thread will give back. Taking it and saying whose it is are one store: a signal finds no gap.
 *
 * The locks that a thread holds are chained, the last taken first. Before the thread waits for anything it
 * says so in each (plat_still_begin()): what they protect is in order, and stays so until it goes on
 * (plat_still_end()). A fork that cannot wait for it freezes such a lock, which holds the owner up
 * until the fork is over: see cache/start.c.
 */
#ifndef USLUB_LINUX_PLAT_LOCK_H
#define USLUB_LINUX_PLAT_LOCK_H

#include "base/base.h"
#include "plat_atomic.h"
#include "plat_thread.h"

#define PLAT_LOCK_SLEEPERS 1ull /* thread pointers are even */
#define PLAT_LOCK_LOST	   2ull /* the owner did not come along into a child, in the midst of it all */

enum plat_hold {
	PLAT_HOLD_MOVES,
	PLAT_HOLD_STILL,  /* the owner waits, or calls the user */
	PLAT_HOLD_FROZEN, /* it was still, and must stay so until a fork is over */
	PLAT_HOLD_LOST,	  /* a fork goes on although the owner is in the midst of it all */
};

struct plat_lock {
	uint64_t word;		 /* 0 free; else the owner, and whether somebody sleeps */
	struct plat_lock *outer; /* under the lock: the one its owner took before */
	uint32_t hold;		 /* atomic, futex: enum plat_hold */
	uint16_t rank;		 /* enum plat_rank */
	uint16_t fork;		 /* under the lock: fork took it, and it is in no chain */
};

#ifdef USLUB_DEBUG_LOCKS
enum { plat_lock_debug = 1 };
#else
enum { plat_lock_debug = 0 };
#endif

extern __thread struct plat_lock *plat_thread_held __attribute__((tls_model("initial-exec")))
hidden;

hidden void plat_lock_slow(struct plat_lock *l);
hidden void plat_lock_wake(struct plat_lock *l);
hidden void plat_lock_check(const struct plat_lock *l);
hidden void plat_lock_unchain(struct plat_lock *l); /* any but the last taken */

/* From here to the end what the thread's locks protect is in order. May be nested. */
hidden void plat_still_begin(void);
hidden void plat_still_end(void);

static inline uint64_t plat_self(void)
{
#ifdef __x86_64__
	uint64_t self; /* clang 14 has no __builtin_thread_pointer() here */

	__asm__("movq %%fs:0, %0" : "=r"(self));
	return self;
#else
	return (uintptr_t)__builtin_thread_pointer();
#endif
}

static inline void plat_lock_init(struct plat_lock *l, unsigned rank)
{
	*l = (struct plat_lock){ .rank = (uint16_t)rank };
}

/*
 * A signal handler may take and give back locks between any two instructions; it leaves the chain as it
 * found it.
 */
static inline void plat_lock_chain(struct plat_lock *l)
{
	l->outer = plat_thread_held;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	plat_thread_held = l;
}

/* Takes it if it is free; the caller chains it. */
static inline bool plat_lock_grab(struct plat_lock *l)
{
	uint64_t free = 0;

	if (plat_load(&l->word))
		return false;
	plat_thread_locks++;
	if (plat_cas(&l->word, &free, plat_self()))
		return true;
	plat_thread_locks--;
	return false;
}

static inline bool plat_trylock(struct plat_lock *l)
{
	if (!plat_lock_grab(l))
		return false;
	plat_lock_chain(l);
	return true;
}

static inline void plat_lock(struct plat_lock *l)
{
	uint64_t free = 0;

	if (plat_lock_debug)
		plat_lock_check(l);
	plat_thread_locks++;
	if (likely(plat_cas(&l->word, &free, plat_self())))
		plat_lock_chain(l);
	else
		plat_lock_slow(l);
}

static inline void plat_lock_release(struct plat_lock *l)
{
	if (unlikely(plat_exchange(&l->word, 0) & PLAT_LOCK_SLEEPERS))
		plat_lock_wake(l);
	plat_thread_locks--;
}

static inline void plat_unlock(struct plat_lock *l)
{
	if (likely(plat_thread_held == l))
		plat_thread_held = l->outer;
	else
		plat_lock_unchain(l);
	plat_lock_release(l);
}

/* The plat_self() of who holds it, or 0. */
static inline uint64_t plat_lock_owner(const struct plat_lock *l)
{
	return plat_load(&l->word) & ~PLAT_LOCK_SLEEPERS;
}

/* Does the calling thread hold it? */
static inline bool plat_lock_mine(const struct plat_lock *l)
{
	return plat_lock_owner(l) == plat_self();
}

/* ---- for fork ---- */

/* May its owner, whom plat_unlock() is still to be called by or who is gone, be in the midst of it? */
static inline bool plat_lock_amid(const struct plat_lock *l)
{
	return (plat_lock_mine(l) && !l->fork) || plat_load(&l->hold) == PLAT_HOLD_LOST;
}

hidden bool plat_lock_seize(
	struct plat_lock *l); /* takes it, or the thread has it; does not wait */
hidden bool plat_lock_freeze(struct plat_lock *l); /* its owner is still, and remains so */
hidden bool plat_lock_lose(struct plat_lock *l);   /* its owner waits for this fork */

/* Undoes each of the three; in the child, where there is no other owner, the lock is free, or lost. */
hidden void plat_lock_thaw(struct plat_lock *l, bool child);

#endif /* USLUB_LINUX_PLAT_LOCK_H */
