/* SPDX-License-Identifier: MIT */
/*
 * What every file may use: attributes, small arithmetic, container_of. Freestanding; includes nothing
 * of the project but the sizes it is about.
 */
#ifndef USLUB_BASE_BASE_H
#define USLUB_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define noinline	  __attribute__((__noinline__))
#define always_inline	  inline __attribute__((always_inline))
#define coldpath	  __attribute__((__noinline__, __cold__))
#define racy		  __attribute__((no_sanitize("thread")))
#define hidden		  __attribute__((visibility("hidden")))
#define cacheline	  __attribute__((aligned(CACHE_LINE)))
#define printf_like(f, a) __attribute__((format(printf, f, a)))

#define CACHE_LINE 64

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define array_size(a)			(sizeof(a) / sizeof((a)[0]))

#define min(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) min_a = (a);                                                         \
		__typeof__(b) min_b = (b);                                                         \
		min_a < min_b ? min_a : min_b;                                                     \
	})
#define max(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) max_a = (a);                                                         \
		__typeof__(b) max_b = (b);                                                         \
		max_a > max_b ? max_a : max_b;                                                     \
	})

static inline bool is_power_of_2(size_t n)
{
	return n && !(n & (n - 1));
}

static inline size_t align_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static inline size_t align_down(size_t n, size_t align)
{
	return n & ~(align - 1);
}

/* The position of the highest set bit, counted from 0; n must not be 0. */
static inline unsigned ilog2(size_t n)
{
	return 63 - (unsigned)__builtin_clzl(n);
}

/* The position of the highest set bit, counted from 1; 0 for 0. */
static inline unsigned fls(size_t n)
{
	return n ? ilog2(n) + 1 : 0;
}

/* The number of set bits; the compiler's builtin may be a call of its library. */
static inline unsigned bits_set(uint32_t n)
{
	n -= n >> 1 & 0x55555555;
	n = (n & 0x33333333) + (n >> 2 & 0x33333333);
	return ((n + (n >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* The smallest order whose 2^order units of 2^shift bytes hold size bytes. */
static inline unsigned order_for(size_t size, unsigned shift)
{
	return size <= ((size_t)1 << shift) ? 0 : fls((size - 1) >> shift);
}

#endif /* USLUB_BASE_BASE_H */
