/* SPDX-License-Identifier: MIT */
#include <sys/resource.h>
#include "latency.h"

void wl_histogram_merge(struct wl_histogram *h, const struct wl_histogram *from)
{
	if (!from->count)
		return;
	for (unsigned i = 0; i < WL_BUCKETS; i++)
		h->buckets[i] += from->buckets[i];
	if (!h->count || from->min < h->min)
		h->min = from->min;
	if (from->max > h->max)
		h->max = from->max;
	h->count += from->count;
	h->sum += from->sum;
}

uint64_t wl_histogram_quantile(const struct wl_histogram *h, double part)
{
	double wanted = part * (double)h->count;
	uint64_t seen = 0, value;
	unsigned i;

	for (i = 0; i + 1 < WL_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen && (double)seen >= wanted)
			break;
	}
	value = wl_bucket_value(i);
	if (value > h->max)
		return h->max;
	return value < h->min ? h->min : value;
}

bool wl_preempted(struct wl_clockwork *clockwork)
{
	struct rusage usage;
	long before = clockwork->preemptions;

	if (getrusage(RUSAGE_THREAD, &usage))
		return false;
	clockwork->preemptions = usage.ru_nivcsw;
	return usage.ru_nivcsw != before;
}
