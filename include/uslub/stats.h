/* SPDX-License-Identifier: MIT */
/*
 * Statistics of a cache, by name or by number.
 *
 * Names and meanings are those of the files under /sys/kernel/slab wherever the kernel has the quantity;
 * the whole list with a sentence for each is in <uslub/stats.def> and in uslub(7).
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
 * A counter is exact once the threads that use the cache are quiet; while they run
 * it may lag by the operations in flight. Costs O(possible CPUs) for counters, `objects` and
 * `objects_partial`, and takes no lock; only with policy partial-count=scan the latter two walk the partial
 * lists under their lock, which holds up slow paths meanwhile.
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

#ifdef __cplusplus
}
#endif

#endif /* USLUB_STATS_H */
