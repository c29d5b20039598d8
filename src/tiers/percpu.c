/* SPDX-License-Identifier: MIT */
/*
 * Remote close: how another CPU's sheaves are taken away while that CPU runs.
 *
 * 1. The protocol
 *    The sequences commit by plain stores, so a compare-exchange alone does not exclude them: a sequence
 *    that has read the open word may still store over the closed one. Hence:
 *
 *     a. compare-exchange the word to who = 2, avail = room = 0 (allocs and which stay);
 *     b. one membarrier for all slots being closed: every sequence that began before (a) has then
 *        committed or been aborted, and those that begin after see the slot closed;
 *     c. look again. Closed as we left it: the slot is ours. Otherwise a straggler committed in between
 *        and the slot is open: from (a) again. The word exchanged out last is the truth;
 *     d. only now read the sheaf pointers: take_other and give_other commit to them, not to the word;
 *     e. write NULLs, then the open word 0-with-allocs-folded, with release.
 *
 *    There is no way for a straggler to commit twice without beginning anew, and beginning anew it sees
 *    the closed word; so (a)-(c) repeats at most as often as there are stragglers.
 *
 *    Where sequences work by compare-exchange (no rseq, foreign slots), (a) waits until the slot is open
 *    and is final by itself; (b) costs nothing there.
 *
 * 2. Who waits for whom
 *    Nobody waits for a closer: a thread that finds a slot closed goes to the slab level. A closer waits
 *    for the few instructions of a local holder of a shared slot, which may have been preempted: it
 *    yields. It therefore must not be called from a signal handler.
 *
 * 3. Popped counts
 *    A drain takes `allocs` out of the word as well, into a counter: so the 45 bits never overflow in a
 *    cache that somebody drains when the top bit shows.
 */
#include "tiers/percpu.h"

#define BATCH 64 /* slots closed by one membarrier */

static bool vacant(const struct percpu_slot *slot, uint64_t w)
{
	return !(w & WORD_WHO) && !word_allocs(w) && !plat_load(&slot->sheaf[0]) &&
	       !plat_load(&slot->sheaf[1]);
}

static uint64_t wait_until_open(const struct percpu_slot *slot)
{
	uint64_t w;

	plat_still_begin();
	while ((w = plat_load_acquire(&slot->word)) & WORD_WHO)
		plat_yield();
	plat_still_end();
	return w;
}

/* Step (a). False: nothing there to take. */
static bool close_slot(struct percpu_slot *slot, uint64_t *was)
{
	uint64_t w = plat_load_acquire(&slot->word);

	for (;;) {
		if (vacant(slot, w))
			return false;
		if (w & WORD_WHO) {
			w = wait_until_open(slot);
		} else if (plat_cas(&slot->word, &w, word_with(w, 0, 0) | WORD_WHO_REMOTE)) {
			*was = w;
			return true;
		}
	}
}

static bool still_closed(struct percpu_slot *slot)
{
	return (plat_load_acquire(&slot->word) & WORD_WHO) == WORD_WHO_REMOTE;
}

/* The slot stays as it was, but for what stragglers did. */
static void reopen(struct percpu_slot *slot, uint64_t was)
{
	uint64_t closed = word_with(was, 0, 0) | WORD_WHO_REMOTE;

	plat_cas(&slot->word, &closed, was);
}

static void take_contents(struct percpu_slot *slot, uint64_t was, struct pcs_contents *c)
{
	*c = (struct pcs_contents){
		.sheaf = { slot->sheaf[0], slot->sheaf[1] },
		.allocs = word_allocs(was),
		.avail = word_avail(was),
	};
	if (c->sheaf[word_which(was)])
		c->sheaf[word_which(was)]->fill = c->avail;
	plat_store(&slot->sheaf[0], NULL);
	plat_store(&slot->sheaf[1], NULL);
	plat_store_release(&slot->word, 0);
}

typedef void taken_fn(void *arg, unsigned cpu, const struct pcs_contents *contents);

/*
 * What the thread is in (plat_enter()) while it has slots closed. Drains are serialised: those of the same
 * set that are closed from another CPU then are its own.
 */
static const void *place_of(const struct pcs_set *set)
{
	return set->first->pad;
}

/* Steps (a) and (b) until no straggler is left. Which are closed, and what their words were. */
static int close_batch(const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned n,
		       uint64_t *closed, uint64_t was[])
{
	struct percpu_slot *slot;
	uint64_t pending;
	int error;

	*closed = 0;
	for (unsigned i = 0; i < n; i++)
		if (close_slot(pcs_slot(set, first + i, part), &was[i]))
			*closed |= 1ull << i;
	for (pending = *closed; pending;) {
		error = plat_membarrier();
		for (unsigned i = 0; i < n; i++) {
			slot = pcs_slot(set, first + i, part);
			if (error && *closed >> i & 1)
				reopen(slot, was[i]);
			if (!(pending >> i & 1))
				continue;
			if (still_closed(slot))
				pending &= ~(1ull << i);
			else if (!error && !close_slot(slot, &was[i])) {
				pending &= ~(1ull << i);
				*closed &= ~(1ull << i);
			}
		}
		if (error)
			return error;
	}
	return 0;
}

/* Up to BATCH slots. */
static int drain_batch(const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned n,
		       taken_fn *taken, void *arg)
{
	struct pcs_contents contents[BATCH];
	uint64_t was[BATCH], closed;
	struct plat_place here;
	int error;

	plat_enter(&here, place_of(set));
	error = close_batch(set, part, first, n, &closed, was);
	/* All are open again before the first is looked into, which may take long. */
	for (unsigned i = 0; !error && i < n; i++)
		if (closed >> i & 1)
			take_contents(pcs_slot(set, first + i, part), was[i], &contents[i]);
	plat_leave(&here);
	for (unsigned i = 0; !error && i < n; i++)
		if (closed >> i & 1)
			taken(arg, first + i, &contents[i]);
	return error;
}

int pcs_drain(const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned last,
	      taken_fn *taken, void *arg)
{
	int error = 0;

	for (; first < last && !error; first += BATCH)
		error = drain_batch(set, part, first, min(last - first, (unsigned)BATCH), taken,
				    arg);
	return error;
}

void pcs_drain_dead(const struct pcs_set *set, enum pcs_part part, unsigned first, unsigned last,
		    taken_fn *taken, void *arg)
{
	struct pcs_contents contents;
	struct percpu_slot *slot;
	struct plat_place here;
	uint64_t was;
	bool closed;

	for (; first < last; first++) {
		slot = pcs_slot(set, first, part);
		plat_enter(&here, place_of(set));
		closed = close_slot(slot, &was);
		if (closed)
			take_contents(slot, was, &contents);
		plat_leave(&here);
		if (closed)
			taken(arg, first, &contents);
	}
}

static void child_slot(const struct pcs_set *set, struct percpu_slot *slot)
{
	uint64_t who = slot->word & WORD_WHO;

	if (!who || plat_thread_in(who == WORD_WHO_REMOTE ? place_of(set) : slot))
		return;
	/* A drain that vanished half-way; what it found, only it knew. */
	if (who == WORD_WHO_REMOTE)
		slot->sheaf[0] = slot->sheaf[1] = NULL;
	plat_store_release(&slot->word, slot->word & ~WORD_WHO);
}

void pcs_child(const struct pcs_set *set, unsigned nslots)
{
	for (unsigned cpu = 0; cpu < nslots; cpu++) {
		struct pcs *pcs = pcs_of(set, cpu);

		child_slot(set, &pcs->main);
		child_slot(set, &pcs->rcu);
		if (plat_raised(&pcs->rcu_inflight)) /* or every page of the set is copied */
			plat_raise_anew(&pcs->rcu_inflight);
	}
}
