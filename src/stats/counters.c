/* SPDX-License-Identifier: MIT */
#include "stats/counters.h"

void counters_layout(struct counters *c, unsigned nslots, unsigned nnodes)
{
	size_t bytes = (CTR_COUNT + (size_t)nnodes * NODE_COUNTERS) * sizeof(uint64_t);

	c->nslots = nslots;
	c->stride = 0;
	counters_widen(c, bytes);
}

void counters_widen(struct counters *c, size_t bytes)
{
	c->stride += (unsigned)(align_up(bytes, (size_t)CACHE_LINE) / sizeof(uint64_t));
	c->used_at = c->nslots * c->stride;
}

size_t counters_used_bytes(const struct counters *c)
{
	return align_up(c->nslots, (size_t)64) / 8;
}

size_t counters_bytes(const struct counters *c)
{
	return c->used_at * sizeof(uint64_t) + counters_used_bytes(c);
}

void counters_use_slow(const struct counters *c, unsigned slot)
{
	plat_fetch_or(&counters_used(c)[slot / 64], 1ull << slot % 64);
}

/* A thread that is aborted again and again counts on a foreign slot, which takes atomic additions. */
void counters_add_slow(const struct counters *c, unsigned which, uint64_t n)
{
	unsigned slot;

	for (unsigned i = 0; i < SEQ_TRIES; i++) {
		slot = plat_slot();
		if (slot >= c->nslots)
			continue;
		counters_use(c, slot);
		if (seq_add(slot, counter_word(c, slot, which), n) == SEQ_DONE)
			return;
	}
	counters_use(c, c->nslots - 1);
	plat_fetch_add(counter_word(c, c->nslots - 1, which), n);
}

uint64_t counters_sum(const struct counters *c, unsigned which)
{
	uint64_t sum = 0;

	for (unsigned slot = 0; slot < c->nslots; slot++)
		if (counters_in_use(c, slot))
			sum += plat_load(counter_word(c, slot, which));
	return sum;
}
