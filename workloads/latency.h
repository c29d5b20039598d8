/* SPDX-License-Identifier: MIT */
/*
 * How long things took: histograms, and lists of the longest.
 *
 * A histogram counts values in buckets, 32 for each power of two. A quantile is the middle of a
 * bucket and therefore within 1/64, or 1.6 %, of the value that was added; count, sum, least and most
 * are exact. Its size is fixed, and histograms of threads or rounds add up.
 */
#ifndef WORKLOADS_LATENCY_H
#define WORKLOADS_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define WL_BUCKET_BITS 5u
#define WL_VALUE_BITS                                                                              \
	42u /* an hour in nanoseconds; what is longer counts as that long in quantiles */
#define WL_BUCKETS ((WL_VALUE_BITS - WL_BUCKET_BITS + 1u) << WL_BUCKET_BITS)

struct wl_histogram {
	uint64_t count;
	uint64_t sum;
	uint64_t min;
	uint64_t max;
	uint64_t buckets[WL_BUCKETS];
};

static inline unsigned wl_bucket_of(uint64_t value)
{
	unsigned power;

	if (value >> WL_BUCKET_BITS == 0)
		return (unsigned)value;
	if (value >> WL_VALUE_BITS)
		return WL_BUCKETS - 1;
	power = 63u - (unsigned)__builtin_clzll(value) - WL_BUCKET_BITS;
	return (power << WL_BUCKET_BITS) + (unsigned)(value >> power);
}

/* The value in the middle of a bucket. */
static inline uint64_t wl_bucket_value(unsigned bucket)
{
	unsigned power = bucket >> WL_BUCKET_BITS;
	uint64_t first;

	if (power < 2)
		return bucket;
	power--;
	first = (uint64_t)(bucket - (power << WL_BUCKET_BITS)) << power;
	return first + (((uint64_t)1 << power) - 1) / 2;
}

static inline void wl_histogram_add(struct wl_histogram *h, uint64_t value)
{
	h->buckets[wl_bucket_of(value)]++;
	if (!h->count++ || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->sum += value;
}

/*
 * wl_histogram_merge - add all values of @from to @h
 * wl_histogram_quantile - the value that a part of @part, 0..1, of all does not exceed; 0 for none
 */
void wl_histogram_merge(struct wl_histogram *h, const struct wl_histogram *from);
uint64_t wl_histogram_quantile(const struct wl_histogram *h, double part);

/* What a report shows of a histogram. */
#define WL_SHOW_QUANTILES 0x1u
#define WL_SHOW_MAX	  0x2u
#define WL_SHOW_MEAN	  0x4u
#define WL_SHOW_MIN	  0x8u
#define WL_SHOW_COUNT	  0x10u
#define WL_SHOW_TOTAL	  0x20u

/*
 * struct wl_latency - a histogram that a workload fills
 * @key: names it for programs, @name for people; NULL ends a list
 * @shows: WL_SHOW_...
 */
struct wl_latency {
	const char *key;
	const char *name;
	unsigned shows;
};

#define WL_LATENCIES 5u

/* The histograms of statread, in the order of their names in workload.c. */
enum wl_statread_latency {
	WL_LATENCY_BURST,
	WL_LATENCY_STALL,
	WL_LATENCY_PREEMPTED,
	WL_LATENCY_GAP,
	WL_LATENCY_READ,
};

#define WL_SPANS 4096u

/*
 * struct wl_spans - when something lasted long, oldest first
 * @dropped: spans for which there was no room
 */
struct wl_spans {
	uint64_t dropped;
	unsigned count;
	struct {
		uint64_t begin;
		uint64_t end;
	} list[WL_SPANS];
};

static inline void wl_spans_add(struct wl_spans *spans, uint64_t begin, uint64_t end)
{
	if (spans->count == WL_SPANS) {
		spans->dropped++;
		return;
	}
	spans->list[spans->count].begin = begin;
	spans->list[spans->count++].end = end;
}

/*
 * struct wl_clockwork - what a thread records
 * @stall_ns: what is longer is a stall
 * @preemptions: how often the kernel had taken the CPU from the thread when it last asked
 * @spans: the stalls that are not preemptions, of one part of the measurement; of a thread that reads, its reads
 */
struct wl_clockwork {
	struct wl_histogram latencies[WL_LATENCIES];
	uint64_t stall_ns;
	long preemptions;
	struct wl_spans spans;
};

/*
 * wl_preempted - whether the kernel has taken the CPU from the calling thread since it last asked
 *
 * That is a stall, but nobody's who can be compared here. A thread that waits for a lock gives the CPU
 * up itself.
 */
bool wl_preempted(struct wl_clockwork *clockwork);

static inline uint64_t wl_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif /* WORKLOADS_LATENCY_H */
