/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include "record.h"

#define FIRST_SIZE 1024u

/* Addresses are multiples of 16, and alike in their upper bits: a multiplication spreads them. */
static size_t place_of(const struct record_known *known, uint64_t address)
{
	return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (known->size - 1);
}

static size_t after(const struct record_known *known, size_t at)
{
	return (at + 1) & (known->size - 1);
}

static void put(struct record_known *known, struct record_object object)
{
	size_t at = place_of(known, object.address);

	while (known->slots[at].address)
		at = after(known, at);
	known->slots[at] = object;
}

static void grow(struct record_known *known)
{
	struct record_known larger = {
		.size = known->size ? 2 * known->size : FIRST_SIZE,
		.count = known->count,
	};

	larger.slots = tool_alloc(larger.size, sizeof(*larger.slots));
	for (size_t i = 0; i < known->size; i++) {
		if (known->slots[i].address)
			put(&larger, known->slots[i]);
	}
	free(known->slots);
	*known = larger;
}

void record_known_add(struct record_known *known, struct record_object object)
{
	if (2 * (known->count + 1) > known->size)
		grow(known);
	put(known, object);
	known->count++;
}

/* Moves those behind a gap that would not be found across it. */
static void close_gap(struct record_known *known, size_t gap)
{
	size_t mask = known->size - 1;

	for (size_t at = after(known, gap); known->slots[at].address; at = after(known, at)) {
		size_t home = place_of(known, known->slots[at].address);

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		known->slots[gap] = known->slots[at];
		gap = at;
	}
	known->slots[gap] = (struct record_object){ 0 };
}

struct record_object record_known_take(struct record_known *known, uint64_t address)
{
	struct record_object none = { 0 }, taken;
	size_t at;

	if (!known->size || !address)
		return none;
	for (at = place_of(known, address); known->slots[at].address != address;
	     at = after(known, at)) {
		if (!known->slots[at].address)
			return none;
	}
	taken = known->slots[at];
	close_gap(known, at);
	known->count--;
	return taken;
}
