/* SPDX-License-Identifier: MIT */
#include "stats/counters.h"

void counters_layout(struct counters *c, unsigned nslots, unsigned nnodes)
{
	size_t bytes = (CTR_COUNT + (size_t)nnodes * NODE_COUNTERS) * sizeof(uint64_t);

	c->nslots = nslots;
	c->stride = (unsigned)(align_up(bytes, (size_t)CACHE_LINE) / sizeof(uint64_t));
}

size_t counters_bytes(const struct counters *c)
{
	return (size_t)c->nslots * c->stride * sizeof(uint64_t);
}

/* A thread that is aborted again and again counts on a foreign slot, which takes atomic additions. */
void counters_add_slow(const struct counters *c, unsigned which, uint64_t n)
{
	unsigned slot;

	for (unsigned i = 0; i < SEQ_TRIES; i++) {
		slot = plat_slot();
		if (slot < c->nslots && seq_add(slot, counter_word(c, slot, which), n) == SEQ_DONE)
			return;
	}
	plat_fetch_add(counter_word(c, c->nslots - 1, which), n);
}

uint64_t counters_sum(const struct counters *c, unsigned which)
{
	uint64_t sum = 0;

	for (unsigned slot = 0; slot < c->nslots; slot++)
		sum += plat_load(counter_word(c, slot, which));
	return sum;
}
