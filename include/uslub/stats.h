/* SPDX-License-Identifier: MIT */
/*
 * Statistics of a cache, by name or by number, and how long its slow paths take.
 *
 * Names and meanings are those of the files under /sys/kernel/slab wherever the kernel has the quantity;
 * the whole list with a sentence for each is in <uslub/stats.def> and in uslub(7); the slow paths are in
 * <uslub/latency.def>.
 */
#ifndef USLUB_STATS_H
#define USLUB_STATS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uslub_cache;

enum uslub_stat {
#define USLUB_STAT(name, kind, help) USLUB_STAT_##name,
#include <uslub/stats.def>
#undef USLUB_STAT
	USLUB_STAT_COUNT
};

/*
 * What kind of number a statistic is: decides how two readings compare. A COUNTER or DERIVED one only
 * grows, so that the difference of two readings counts events; the others are values of the moment.
 */
enum uslub_stat_kind {
	USLUB_STAT_KIND_COUNTER,
	USLUB_STAT_KIND_DERIVED,
	USLUB_STAT_KIND_ATTRIBUTE,
	USLUB_STAT_KIND_GAUGE,
	USLUB_STAT_KIND_FLAG,
};

/*
 * uslub_cache_stat - read one statistic of a cache
 * @c: the cache
 * @which: which one
 * @value: where to put it
 *
 * A counter is exact once the threads that use the cache are quiet; while they run it may lag by the
 * operations in flight, and never comes out below 0. Costs O(CPUs that have used the cache) for counters, and
 * that times the number of nodes for `objects` and `objects_partial`, and takes no lock. Only `cpu_objects`,
 * `barn_objects` and `stash_objects` try the lock of the page supply for an instant, to look at sheaves that may
 * be gone; and with policy partial-count=scan `objects` and `objects_partial` walk the partial lists under their
 * lock, which holds up slow paths meanwhile.
 *
 * Returns 0, or -EINVAL when @c or @value is NULL or @which is out of range.
 * Thread-safe; async-signal-safe unless the policy is partial-count=scan (it may wait for list_lock).
 */
int uslub_cache_stat(const struct uslub_cache *c, enum uslub_stat which, uint64_t *value);

/*
 * uslub_stat_name - the name of a statistic, as under /sys/kernel/slab
 * uslub_stat_help - one sentence about it
 * uslub_stat_kind - its kind
 * uslub_stat_find - the number of the statistic called @name
 *
 * The strings are constant. name and help return NULL, kind and find return -EINVAL, for what is not a
 * statistic. Async-signal-safe.
 */
const char *uslub_stat_name(enum uslub_stat which);
const char *uslub_stat_help(enum uslub_stat which);
int uslub_stat_kind(enum uslub_stat which);
int uslub_stat_find(const char *name);

enum uslub_latency {
#define USLUB_LATENCY(name, help) USLUB_LATENCY_##name,
#include <uslub/latency.def>
#undef USLUB_LATENCY
	USLUB_LATENCY_COUNT
};

#define USLUB_LATENCY_BUCKETS 32

/*
 * struct uslub_latency_histogram - how long one slow path of a cache took, so far
 * @count: how often it was timed
 * @sum_ns: nanoseconds in all
 * @buckets: bucket b counts what took less than 2^(b+1) ns and not less than 2^b; the first one also what
 *         took 0 ns, the last one all that took longer
 */
struct uslub_latency_histogram {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t buckets[USLUB_LATENCY_BUCKETS];
};

/*
 * uslub_cache_latency - read how long a slow path took
 * @c: the cache, created with policy latency=on
 * @which: which path
 * @h: where to put it
 *
 * Everything in it only grows, so the difference of two readings is a histogram too. Exact once the threads
 * that use the cache are quiet; while they run it may lag by the operations in flight, and the sum may be ahead
 * of the buckets or behind. Costs O(CPUs that have used the cache) for each bucket and takes no lock.
 *
 * Returns 0, or
 *   -EINVAL   @c or @h is NULL or @which is out of range
 *   -ENODATA  the cache has policy latency=off, so that nothing was timed; @h was not changed
 * Thread-safe; async-signal-safe.
 */
int uslub_cache_latency(const struct uslub_cache *c, enum uslub_latency which,
			struct uslub_latency_histogram *h);

/*
 * uslub_latency_name - the name of a slow path
 * uslub_latency_help - a phrase that says what it is
 *
 * The strings are constant; NULL for what is not a path. Async-signal-safe.
 */
const char *uslub_latency_name(enum uslub_latency which);
const char *uslub_latency_help(enum uslub_latency which);

#ifdef __cplusplus
}
#endif

#endif /* USLUB_STATS_H */
