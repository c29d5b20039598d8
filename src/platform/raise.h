/* SPDX-License-Identifier: MIT */
#ifndef USLUB_PLATFORM_RAISE_H
#define USLUB_PLATFORM_RAISE_H

#include "base/base.h"
#include "plat_atomic.h"

/*
 * How many threads are somewhere: a count that the child of a fork starts anew, since those threads are
 * gone; 16 bits of generation above 16 of count. The forking thread itself, interrupted there by a signal
 * handler, lowers a count of the generation it raised, or nothing.
 */
static inline uint32_t plat_raise(uint32_t *count)
{
	return plat_fetch_add(count, 1) >> 16;
}

static inline void plat_lower(uint32_t *count, uint32_t generation)
{
	uint32_t old = plat_load(count);

	while (old >> 16 == generation && !plat_cas(count, &old, old - 1))
		;
}

static inline uint32_t plat_raised(const uint32_t *count)
{
	return plat_load_acquire(count) & 0xffff;
}

static inline void plat_raise_anew(uint32_t *count)
{
	*count = ((*count >> 16) + 1) << 16;
}

#endif /* USLUB_PLATFORM_RAISE_H */
