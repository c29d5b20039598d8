/* SPDX-License-Identifier: MIT */
/*
 * The lock's slow side, and the check of lock order in debugging builds.
 *
 * Whoever has slept takes the lock with PLAT_LOCK_SLEEPERS set, since others may sleep still; the price
 * is one wake-up for nobody at the end. The futex is the low half of the word.
 */
#include "platform/platform.h"

#define SPINS 200

static uint32_t *futex_of(struct plat_lock *l)
{
	return (uint32_t *)&l->word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

void plat_lock_slow(struct plat_lock *l)
{
	uint64_t me = plat_self(), seen;

	for (unsigned i = 0; i < SPINS; i++) {
		seen = plat_load(&l->word);
		if (!seen && plat_cas(&l->word, &seen, me))
			return;
		plat_relax();
	}
	me |= PLAT_LOCK_SLEEPERS;
	for (;;) {
		seen = plat_load(&l->word);
		if (!seen) {
			if (plat_cas(&l->word, &seen, me))
				return;
			continue;
		}
		if (!(seen & PLAT_LOCK_SLEEPERS) &&
		    !plat_cas(&l->word, &seen, seen | PLAT_LOCK_SLEEPERS))
			continue;
		plat_wait(futex_of(l), (uint32_t)(seen | PLAT_LOCK_SLEEPERS), 0);
	}
}

void plat_lock_wake(struct plat_lock *l)
{
	plat_wake(futex_of(l));
}

#ifdef USLUB_DEBUG_LOCKS

#define HELD_MAX 1024

/*
 * What the thread holds, GONE where a lock was given back out of order, NULL above. A signal handler may
 * take and give back locks between any two instructions here: it leaves nheld as it found it, but for
 * GONE entries on top, and an entry that is reserved and not yet written is NULL, not GONE.
 */
#define GONE ((const struct plat_lock *)1)

static __thread const struct plat_lock *volatile held[HELD_MAX];
static __thread volatile unsigned nheld;

/* Fork, which takes the locks of all caches at once, uses trylocks. */
void plat_lock_check(const struct plat_lock *l)
{
	for (unsigned i = 0; i < nheld; i++)
		if (held[i] && held[i] != GONE && held[i]->rank >= l->rank)
			plat_fatal("lock order: waiting for rank %u while holding rank %u", l->rank,
				   held[i]->rank);
}

void plat_lock_note(const struct plat_lock *l)
{
	unsigned i = nheld;

	if (i == HELD_MAX)
		plat_fatal("lock order: %u locks held", i);
	nheld = i + 1;
	held[i] = l;
}

void plat_lock_forget(const struct plat_lock *l)
{
	unsigned i = nheld;

	while (i && held[i - 1] != l)
		i--;
	if (!i)
		plat_fatal("unlock of rank %u, which this thread does not hold", l->rank);
	held[i - 1] = GONE;
	while ((i = nheld) && held[i - 1] == GONE) {
		held[i - 1] = NULL;
		nheld = i - 1;
	}
}

#else

void plat_lock_check(const struct plat_lock *l)
{
	(void)l;
}

void plat_lock_note(const struct plat_lock *l)
{
	(void)l;
}

void plat_lock_forget(const struct plat_lock *l)
{
	(void)l;
}

#endif
