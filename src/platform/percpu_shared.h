/* SPDX-License-Identifier: MIT */
/*
 * The sequences by compare-exchange: close the slot (who = 1), work, open it again. A slot found closed
 * is AGAIN: its holder may be another thread, or this thread itself under a signal handler.
 *
 * Closing leaves avail and room in the word, unlike a remote close: nobody reads them without having
 * closed the slot, and in the child of a fork, where the holder is gone, they are what it takes to open
 * the slot again. Everything a holder does before it opens is such that the old word is still right.
 */
#ifndef USLUB_PERCPU_SHARED_H
#define USLUB_PERCPU_SHARED_H

#include "platform/percpu.h"
#include "plat_atomic.h"
#include "plat_thread.h"

static inline bool shared_close(struct percpu_slot *slot, uint64_t *w, struct plat_place *here)
{
	*w = plat_load_acquire(&slot->word);
	if (*w & WORD_WHO)
		return false;
	plat_enter(here, slot);
	if (plat_cas(&slot->word, w, *w | WORD_WHO_LOCAL))
		return true;
	plat_leave(here);
	return false;
}

static inline void shared_open(struct percpu_slot *slot, uint64_t w, const struct plat_place *here)
{
	plat_store_release(&slot->word, w);
	plat_leave(here);
}

static inline enum seq_result shared_pop_n(struct percpu_slot *slot, unsigned n, void **objects,
					   unsigned *done)
{
	struct uslub_sheaf *main;
	struct plat_place here;
	uint64_t w;
	unsigned k;

	w = plat_load(&slot->word);
	if (!word_avail(w) && !(w & WORD_WHO))
		return SEQ_EMPTY;
	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	main = slot->sheaf[word_which(w)];
	k = min(n, word_avail(w));
	for (unsigned i = 0; i < k; i++)
		objects[i] = main->objects[word_avail(w) - 1 - i];
	shared_open(slot, w + k * WORD_POP, &here);
	*done = k;
	return k ? SEQ_DONE : SEQ_EMPTY;
}

static inline enum seq_result shared_push_n(struct percpu_slot *slot, unsigned n,
					    void *const *objects, unsigned *done)
{
	struct uslub_sheaf *main;
	struct plat_place here;
	uint64_t w;
	unsigned k;

	w = plat_load(&slot->word);
	if (!word_room(w) && !(w & WORD_WHO))
		return SEQ_EMPTY;
	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	main = slot->sheaf[word_which(w)];
	k = min(n, word_room(w));
	if (!sheaf_copy_in(main, word_avail(w), k, objects)) {
		shared_open(slot, w, &here);
		return SEQ_TWICE;
	}
	shared_open(slot, w + k * WORD_PUSH, &here);
	*done = k;
	return k ? SEQ_DONE : SEQ_EMPTY;
}

/* Turns the closed slot to its other sheaf; the caller has seen that it fits. */
static inline uint64_t shared_flip(struct percpu_slot *slot, uint64_t w, int *jump)
{
	struct uslub_sheaf *main = slot->sheaf[word_which(w)];
	struct uslub_sheaf *other = slot->sheaf[!word_which(w)];

	if (main)
		main->fill = word_avail(w);
	*jump = (int)other->fill - (int)word_avail(w);
	return word_with(w, other->fill, sheaf_room(other)) ^ WORD_WHICH;
}

static inline enum seq_result shared_flip_pop(struct percpu_slot *slot, void **object, int *jump)
{
	struct uslub_sheaf *other;
	struct plat_place here;
	uint64_t w;

	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	other = slot->sheaf[!word_which(w)];
	if (word_avail(w) || !other || !other->fill) {
		shared_open(slot, w, &here);
		return SEQ_EMPTY;
	}
	w = shared_flip(slot, w, jump);
	*object = other->objects[other->fill - 1];
	shared_open(slot, w + WORD_POP, &here);
	return SEQ_DONE;
}

static inline enum seq_result shared_flip_push(struct percpu_slot *slot, void *object, int *jump)
{
	struct uslub_sheaf *other;
	struct plat_place here;
	uint64_t w;

	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	other = slot->sheaf[!word_which(w)];
	if (word_room(w) || !other || !sheaf_room(other)) {
		shared_open(slot, w, &here);
		return SEQ_EMPTY;
	}
	if (sheaf_topped_by(slot->sheaf[word_which(w)], word_avail(w), object)) {
		shared_open(slot, w, &here);
		return SEQ_TWICE;
	}
	w = shared_flip(slot, w, jump);
	other->objects[other->fill] = object;
	shared_open(slot, w + WORD_PUSH, &here);
	return SEQ_DONE;
}

static inline enum seq_result shared_take_other(struct percpu_slot *slot,
						struct uslub_sheaf **sheaf)
{
	struct plat_place here;
	uint64_t w;

	*sheaf = NULL;
	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	*sheaf = slot->sheaf[!word_which(w)];
	plat_store(&slot->sheaf[!word_which(w)], NULL);
	shared_open(slot, w, &here);
	return *sheaf ? SEQ_DONE : SEQ_EMPTY;
}

static inline enum seq_result shared_give_other(struct percpu_slot *slot, struct uslub_sheaf *sheaf)
{
	bool vacant;
	struct plat_place here;
	uint64_t w;

	if (!shared_close(slot, &w, &here))
		return SEQ_AGAIN;
	vacant = !slot->sheaf[!word_which(w)];
	if (vacant)
		plat_store(&slot->sheaf[!word_which(w)], sheaf);
	shared_open(slot, w, &here);
	return vacant ? SEQ_DONE : SEQ_EMPTY;
}

static inline enum seq_result shared_add(uint64_t *counter, uint64_t n)
{
	plat_fetch_add(counter, n);
	return SEQ_DONE;
}

#endif /* USLUB_PERCPU_SHARED_H */
