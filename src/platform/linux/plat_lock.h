/* SPDX-License-Identifier: MIT */
/*
 * An adaptive lock: spins briefly, then sleeps on a futex.
 *
 * The word is the owner, named by its thread pointer, so that fork can tell a lock that the forking
 * thread itself holds (a signal handler forked while its thread was in the allocator) from one that
 * another thread will give back. Taking it and saying whose it is are one store: a signal finds no gap.
 */
#ifndef USLUB_LINUX_PLAT_LOCK_H
#define USLUB_LINUX_PLAT_LOCK_H

#include "base/base.h"
#include "plat_atomic.h"
#include "plat_thread.h"

#define PLAT_LOCK_SLEEPERS 1ull /* thread pointers are even */

struct plat_lock {
	uint64_t word; /* 0 free; else the owner, and whether somebody sleeps */
	uint32_t rank; /* enum plat_rank */
	uint32_t fork; /* the core's: fork took it; under the lock */
};

#ifdef USLUB_DEBUG_LOCKS
enum { plat_lock_debug = 1 };
#else
enum { plat_lock_debug = 0 };
#endif

hidden void plat_lock_slow(struct plat_lock *l);
hidden void plat_lock_wake(struct plat_lock *l);
hidden void plat_lock_check(const struct plat_lock *l);
hidden void plat_lock_note(const struct plat_lock *l);
hidden void plat_lock_forget(const struct plat_lock *l);

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
	*l = (struct plat_lock){ .rank = rank };
}

static inline bool plat_trylock(struct plat_lock *l)
{
	uint64_t free = 0;

	if (plat_load(&l->word))
		return false;
	plat_thread_locks++;
	if (!plat_cas(&l->word, &free, plat_self())) {
		plat_thread_locks--;
		return false;
	}
	if (plat_lock_debug)
		plat_lock_note(l);
	return true;
}

static inline void plat_lock(struct plat_lock *l)
{
	uint64_t free = 0;

	if (plat_lock_debug)
		plat_lock_check(l);
	plat_thread_locks++;
	if (unlikely(!plat_cas(&l->word, &free, plat_self())))
		plat_lock_slow(l);
	if (plat_lock_debug)
		plat_lock_note(l);
}

static inline void plat_unlock(struct plat_lock *l)
{
	if (plat_lock_debug)
		plat_lock_forget(l);
	if (unlikely(plat_exchange(&l->word, 0) & PLAT_LOCK_SLEEPERS))
		plat_lock_wake(l);
	plat_thread_locks--;
}

/* Does the calling thread hold it? */
static inline bool plat_lock_mine(const struct plat_lock *l)
{
	return (plat_load(&l->word) & ~PLAT_LOCK_SLEEPERS) == plat_self();
}

#endif /* USLUB_LINUX_PLAT_LOCK_H */
