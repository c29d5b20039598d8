/* SPDX-License-Identifier: MIT */
/*
 * Random integers for workloads: the same seed gives the same sequence on every machine.
 */
#ifndef WORKLOADS_PRNG_H
#define WORKLOADS_PRNG_H

#include <stdint.h>

/*
 * wl_random - the next number of a sequence
 * @state: the sequence; any value starts one
 *
 * A Weyl sequence with a finalizing mix (Steele, Lea and Flood: Fast Splittable Pseudorandom Number
 * Generators, 2014). Two multiplications, no branch and no table, so that it costs the allocator's
 * neighbourhood nothing.
 */
static inline uint64_t wl_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/*
 * wl_random_below - a number of the sequence in 0..n-1
 *
 * Multiplies instead of dividing; the bias of at most n / 2^32 does not matter to a workload.
 */
static inline uint32_t wl_random_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(((wl_random(state) >> 32) * n) >> 32);
}

#endif /* WORKLOADS_PRNG_H */
