/* SPDX-License-Identifier: MIT */
/*
 * The lock's slow side, what fork does with it, and the check of lock order in debugging builds.
 *
 * Whoever has slept takes the lock with PLAT_LOCK_SLEEPERS set, since others may sleep still; the price
 * is one wake-up for nobody at the end. The futex is the low half of the word.
 */
#include "platform/platform.h"

#define SPINS 200

__thread struct plat_lock *plat_thread_held;

static uint32_t *futex_of(struct plat_lock *l)
{
	return (uint32_t *)&l->word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static bool spin(struct plat_lock *l)
{
	uint64_t seen;

	for (unsigned i = 0; i < SPINS; i++) {
		seen = plat_load(&l->word);
		if (!seen && plat_cas(&l->word, &seen, plat_self()))
			return true;
		plat_relax();
	}
	return false;
}

static void sleep_for(struct plat_lock *l)
{
	uint64_t me = plat_self() | PLAT_LOCK_SLEEPERS, seen;

	for (;;) {
		seen = plat_load(&l->word);
		if (!seen) {
			if (plat_cas(&l->word, &seen, me))
				return;
			continue;
		}
		if ((seen & ~PLAT_LOCK_SLEEPERS) == PLAT_LOCK_LOST)
			plat_fatal(
				"this process was forked in a signal handler while another thread "
				"was changing what the lock of rank %u protects, and forked too",
				l->rank);
		if (!(seen & PLAT_LOCK_SLEEPERS) &&
		    !plat_cas(&l->word, &seen, seen | PLAT_LOCK_SLEEPERS))
			continue;
		plat_wait(futex_of(l), (uint32_t)(seen | PLAT_LOCK_SLEEPERS), 0);
	}
}

void plat_lock_slow(struct plat_lock *l)
{
	bool outermost = !plat_thread_held;

	if (spin(l)) {
		plat_lock_chain(l);
		return;
	}
	plat_still_begin();
	sleep_for(l);
	/* The new one, too, is in order still, while others keep us from going on. */
	if (!outermost)
		plat_store_release(&l->hold, PLAT_HOLD_STILL);
	plat_lock_chain(l);
	if (!outermost)
		plat_still_end();
}

void plat_lock_wake(struct plat_lock *l)
{
	plat_wake(futex_of(l));
}

void plat_lock_unchain(struct plat_lock *l)
{
	struct plat_lock **link = &plat_thread_held;

	while (*link && *link != l)
		link = &(*link)->outer;
	if (!*link)
		plat_fatal("unlock of rank %u, which this thread does not hold", l->rank);
	*link = l->outer;
}

/* ---- still ---------------------------------------------------------------------------------------- */

void plat_still_begin(void)
{
	uint32_t moves;

	for (struct plat_lock *l = plat_thread_held; l; l = l->outer) {
		moves = PLAT_HOLD_MOVES;
		plat_cas(&l->hold, &moves, PLAT_HOLD_STILL);
	}
}

/* False: one was frozen. */
static bool move_on(void)
{
	uint32_t still;

	for (struct plat_lock *l = plat_thread_held; l; l = l->outer) {
		still = PLAT_HOLD_STILL;
		if (!plat_cas(&l->hold, &still, PLAT_HOLD_MOVES) && still == PLAT_HOLD_FROZEN)
			return false;
	}
	return true;
}

void plat_still_end(void)
{
	while (!move_on()) {
		/* Whoever froze one may want the others as well before it thaws any. */
		plat_still_begin();
		for (struct plat_lock *l = plat_thread_held; l; l = l->outer)
			while (plat_load_acquire(&l->hold) == PLAT_HOLD_FROZEN)
				plat_wait(&l->hold, PLAT_HOLD_FROZEN, 0);
	}
}

/* ---- fork ----------------------------------------------------------------------------------------- */

static bool lost(const struct plat_lock *l)
{
	return (plat_load(&l->word) & ~PLAT_LOCK_SLEEPERS) == PLAT_LOCK_LOST;
}

bool plat_lock_seize(struct plat_lock *l)
{
	if (plat_lock_mine(l) || lost(l))
		return true;
	if (!plat_lock_grab(l))
		return false;
	l->fork = 1;
	return true;
}

bool plat_lock_freeze(struct plat_lock *l)
{
	uint32_t still = PLAT_HOLD_STILL;

	return plat_cas(&l->hold, &still, PLAT_HOLD_FROZEN);
}

bool plat_lock_lose(struct plat_lock *l)
{
	uint32_t moves = PLAT_HOLD_MOVES;

	return plat_cas(&l->hold, &moves, PLAT_HOLD_LOST);
}

void plat_lock_thaw(struct plat_lock *l, bool child)
{
	uint32_t hold = plat_load(&l->hold);

	if (plat_lock_mine(l)) {
		if (l->fork) {
			l->fork = 0;
			plat_lock_release(l);
		}
	} else if (hold == PLAT_HOLD_FROZEN) {
		if (child) {
			plat_lock_init(l, l->rank);
		} else {
			plat_store_release(&l->hold, PLAT_HOLD_STILL);
			plat_wake(&l->hold);
		}
	} else if (hold == PLAT_HOLD_LOST && !lost(l)) {
		if (child)
			plat_store(&l->word, PLAT_LOCK_LOST);
		else
			plat_store(&l->hold, PLAT_HOLD_MOVES);
	}
}

/* ---- order ---------------------------------------------------------------------------------------- */

/* Fork, which takes the locks of all caches at once, does not wait for them by plat_lock(). */
void plat_lock_check(const struct plat_lock *l)
{
	for (const struct plat_lock *held = plat_thread_held; held; held = held->outer)
		if (held->rank >= l->rank)
			plat_fatal("lock order: waiting for rank %u while holding rank %u", l->rank,
				   held->rank);
}
