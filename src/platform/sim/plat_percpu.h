/* SPDX-License-Identifier: MIT */
/*
 * The per-CPU sequences of platform/percpu.h on the simulated machine. They are what the kernel makes of
 * restartable ones: a sequence runs on its CPU's slot without looking at anybody, up to the store that
 * commits it; before that store others may come. If its thread was preempted or moved meanwhile, or somebody
 * issued a membarrier, nothing is stored: AGAIN. If another CPU closed the slot meanwhile, the store
 * happens all the same: that is the straggler which a remote close has to look for.
 *
 * A thread without registration works on a foreign slot, by compare-exchange.
 */
#ifndef USLUB_SIM_PLAT_PERCPU_H
#define USLUB_SIM_PLAT_PERCPU_H

#include "platform/percpu.h"
#include "plat_atomic.h"
#include "plat_thread.h"
#include "platform/percpu_shared.h"

hidden extern uint32_t plat_seq_limit; /* CPUs served by sequences */
hidden unsigned plat_slot(void);

/* Begins a sequence on a slot of CPU `cpu`. False: the thread is elsewhere. */
hidden bool sim_sequence(unsigned cpu, const void *what);
/* Before the store that commits. False: aborted. */
hidden bool sim_commit(void);
/* It commits, and its slot was closed meanwhile. */
hidden void sim_straggled(void);

#define SEQ_GATE_SHIFT 12
_Static_assert(1u << SEQ_GATE_SHIFT >= PLAT_MAX_CPUS, "a gate must not look like a CPU");

#define SIM_COMMIT(to, value)                                                                      \
	do {                                                                                       \
		if (!sim_commit())                                                                 \
			return SEQ_AGAIN;                                                          \
		(to) = (value);                                                                    \
	} while (0)

#define SIM_COMMIT_SLOT(slot, to, value)                                                           \
	do {                                                                                       \
		if (!sim_commit())                                                                 \
			return SEQ_AGAIN;                                                          \
		if (unlikely((slot)->word & WORD_WHO))                                             \
			sim_straggled();                                                           \
		(to) = (value);                                                                    \
	} while (0)

static inline enum seq_result sim_pop_n(unsigned cpu, struct percpu_slot *slot, unsigned n,
					void **objects, unsigned *done)
{
	uint64_t w;
	unsigned k;

	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	k = min(n, word_avail(w));
	if (!k)
		return SEQ_EMPTY;
	for (unsigned i = 0; i < k; i++)
		objects[i] = slot->sheaf[word_which(w)]->objects[word_avail(w) - 1 - i];
	SIM_COMMIT_SLOT(slot, slot->word, w + k * WORD_POP);
	*done = k;
	return SEQ_DONE;
}

static inline enum seq_result sim_push_n(unsigned cpu, struct percpu_slot *slot, unsigned n,
					 void *const *objects, unsigned *done)
{
	uint64_t w;
	unsigned k;

	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	k = min(n, word_room(w));
	if (!k)
		return SEQ_EMPTY;
	if (!sheaf_copy_in(slot->sheaf[word_which(w)], word_avail(w), k, objects))
		return SEQ_TWICE;
	SIM_COMMIT_SLOT(slot, slot->word, w + k * WORD_PUSH);
	*done = k;
	return SEQ_DONE;
}

static inline enum seq_result sim_flip_pop(unsigned cpu, struct percpu_slot *slot, void **object,
					   int *jump)
{
	struct uslub_sheaf *other;
	uint64_t w;

	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	other = slot->sheaf[!word_which(w)];
	if (w & WORD_WHO || word_avail(w) || !other || !other->fill)
		return SEQ_EMPTY;
	w = shared_flip(slot, w, jump);
	*object = other->objects[other->fill - 1];
	SIM_COMMIT_SLOT(slot, slot->word, w + WORD_POP);
	return SEQ_DONE;
}

static inline enum seq_result sim_flip_push(unsigned cpu, struct percpu_slot *slot, void *object,
					    int *jump)
{
	struct uslub_sheaf *other;
	uint64_t w;

	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	other = slot->sheaf[!word_which(w)];
	if (w & WORD_WHO || word_room(w) || !other || !sheaf_room(other))
		return SEQ_EMPTY;
	if (sheaf_topped_by(slot->sheaf[word_which(w)], word_avail(w), object))
		return SEQ_TWICE;
	w = shared_flip(slot, w, jump);
	other->objects[other->fill] = object;
	SIM_COMMIT_SLOT(slot, slot->word, w + WORD_PUSH);
	return SEQ_DONE;
}

static inline enum seq_result sim_take_other(unsigned cpu, struct percpu_slot *slot,
					     struct uslub_sheaf **sheaf)
{
	struct uslub_sheaf *other;
	uint64_t w;

	*sheaf = NULL;
	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	other = slot->sheaf[!word_which(w)];
	if (w & WORD_WHO || !other)
		return SEQ_EMPTY;
	SIM_COMMIT_SLOT(slot, slot->sheaf[!word_which(w)], NULL);
	*sheaf = other;
	return SEQ_DONE;
}

static inline enum seq_result sim_give_other(unsigned cpu, struct percpu_slot *slot,
					     struct uslub_sheaf *sheaf)
{
	uint64_t w;

	if (!sim_sequence(cpu, slot))
		return SEQ_AGAIN;
	w = slot->word;
	if (w & WORD_WHO || slot->sheaf[!word_which(w)])
		return SEQ_EMPTY;
	SIM_COMMIT_SLOT(slot, slot->sheaf[!word_which(w)], sheaf);
	return SEQ_DONE;
}

static inline enum seq_result sim_add(unsigned cpu, uint64_t *counter, uint64_t n)
{
	uint64_t sum;

	if (!sim_sequence(cpu, counter))
		return SEQ_AGAIN;
	sum = *counter + n;
	SIM_COMMIT(*counter, sum);
	return SEQ_DONE;
}

#define seq_dispatch(name, cpu, ...)                                                               \
	(likely((cpu) < plat_seq_limit) ? sim_##name(cpu, __VA_ARGS__) : shared_##name(__VA_ARGS__))

#include "platform/percpu_dispatch.inc"

/* The two fast ones, which find the CPU themselves; see platform/linux/plat_percpu.h. */
static inline struct percpu_slot *sim_slot(struct percpu_slot *const *base, unsigned cpu,
					   unsigned shift, size_t at)
{
	return (struct percpu_slot *)((char *)*base + ((size_t)cpu << shift) + at);
}

static inline void *sim_pop_fast(struct percpu_slot *const *base, const uint32_t *limit,
				 unsigned shift, size_t at)
{
	unsigned cpu = plat_slot(), done;
	void *object;

	if (cpu >= *limit ||
	    sim_pop_n(cpu, sim_slot(base, cpu, shift, at), 1, &object, &done) != SEQ_DONE)
		return NULL;
	return object;
}

static inline void *seq_pop(struct percpu_slot *const *base, const uint32_t *limit, uint32_t gate)
{
	return gate ? NULL : sim_pop_fast(base, limit, PCS_SHIFT, 0);
}

static inline void *seq_pop_at(struct percpu_slot *const *base, const uint32_t *limit, size_t at)
{
	return sim_pop_fast(base, limit, PCS_PAGE_SHIFT, at);
}

static inline enum seq_result sim_push_fast(struct percpu_slot *const *base, const uint32_t *limit,
					    unsigned shift, size_t at, void *object)
{
	unsigned cpu = plat_slot(), done;
	enum seq_result result;

	if (cpu >= *limit)
		return SEQ_EMPTY;
	result = sim_push_n(cpu, sim_slot(base, cpu, shift, at), 1, &object, &done);
	return result == SEQ_TWICE ? SEQ_EMPTY : result;
}

static inline enum seq_result seq_push(struct percpu_slot *const *base, const uint32_t *limit,
				       void *object)
{
	return sim_push_fast(base, limit, PCS_SHIFT, 0, object);
}

static inline enum seq_result seq_push_at(struct percpu_slot *const *base, const uint32_t *limit,
					  size_t at, void *object)
{
	return sim_push_fast(base, limit, PCS_PAGE_SHIFT, at, object);
}

#endif /* USLUB_SIM_PLAT_PERCPU_H */
