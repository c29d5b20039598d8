/* SPDX-License-Identifier: MIT */
/*
 * Many threads retire an object with each operation, and a slow reader makes grace periods last.
 *
 * free_rcu does not wait, so memory is bounded by what is retired while an object waits: up to two grace
 * periods, and the disposal of a batch, in which those who retire take part when much is queued. The test
 * measures the rate and the longest grace period and allows three of these at that rate, and twice the
 * policy rcu-limit. In the end all of it comes back.
 */
#include <pthread.h>
#include "flavor.h"

#define RETIRERS  16
#define SIZE	  256
#define SHARED	  64
#define SAMPLE_US 10000
#define RATE_S	  0.05 /* over at least so long */

struct object {
	uint64_t value;
	uint64_t rest[SIZE / 8 - 1];
};

static struct uslub_cache *cache;
static struct object *shared[SHARED];
static bool stop;
static uint64_t seed, sections;
static struct {
	uint64_t retired;
} __attribute__((aligned(64))) counts[RETIRERS];

static void *retirer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	uint64_t random = seed + me, n = 0;
	struct object *o;

	while (!load(&stop)) {
		o = uslub_cache_alloc(cache, 0);
		if (!o)
			die("uslub_cache_alloc: %s", strerror(errno));
		poke(&o->value, 42);
		poke(&o->rest[SIZE / 8 - 2], 43);
		uslub_cache_free_rcu(cache, swap(&shared[below(&random, SHARED)], o));
		store(&counts[me].retired, ++n);
	}
	return NULL;
}

static void *slow_reader(void *arg)
{
	const struct object *o;
	uint64_t random = 3;

	flavor.register_thread();
	while (!load(&stop)) {
		reader_enter();
		o = load(&shared[below(&random, SHARED)]);
		pause_us(20000);
		if (o && (peek(&o->value) != 42 || peek(&o->rest[SIZE / 8 - 2]) != 43))
			die("an object has changed under its reader");
		reader_leave();
		sections++;
	}
	flavor.unregister_thread();
	return arg;
}

static uint64_t retired(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RETIRERS; i++)
		n += load(&counts[i].retired);
	return n;
}

struct peaks {
	size_t resident;
	uint64_t pending;   /* bytes */
	double rate;	    /* objects a second */
	uint64_t oldest_ns; /* of a batch: its grace period and its disposal */
};

static void watch(double seconds, struct peaks *peak)
{
	double end = now() + seconds, since = now(), t;
	uint64_t before = 0, n, value;
	size_t r;

	while (now() < end) {
		pause_us(SAMPLE_US);
		t = now();
		n = retired();
		if (t - since >= RATE_S) {
			if ((double)(n - before) / (t - since) > peak->rate)
				peak->rate = (double)(n - before) / (t - since);
			before = n;
			since = t;
		}
		r = resident();
		peak->resident = r > peak->resident ? r : peak->resident;
		value = STAT(cache, rcu_pending_bytes);
		peak->pending = value > peak->pending ? value : peak->pending;
		value = STAT(cache, rcu_oldest_ns);
		peak->oldest_ns = value > peak->oldest_ns ? value : peak->oldest_ns;
	}
}

int main(int argc, char **argv)
{
	double seconds = stress_seconds(3), grace;
	pthread_t thread[RETIRERS + 1];
	struct uslub_policy policy;
	struct peaks peak = { 0 };
	size_t baseline, bound, after;

	seed = stress_seed(argc, argv);
	watchdog(100 + 2 * (unsigned)seconds);
	flavor_start(&urcu_memb_flavor);
	cache = rcu_cache("retired", SIZE, 0);
	uslub_cache_policy(cache, &policy);
	baseline = resident();
	for (unsigned i = 0; i <= RETIRERS; i++)
		if (pthread_create(&thread[i], NULL, i < RETIRERS ? retirer : slow_reader,
				   (void *)(uintptr_t)i))
			die("pthread_create");
	stress_phase = "threads retire";
	watch(seconds, &peak);
	store(&stop, true);
	for (unsigned i = 0; i <= RETIRERS; i++)
		pthread_join(thread[i], NULL);

	grace = (double)watched.longest_ns / 1e9;
	bound = 2 * (size_t)policy.rcu_limit + (size_t)(3 * grace * peak.rate * SIZE) + 32 * MIB;
	stress_phase = "the end";
	for (unsigned i = 0; i < SHARED; i++)
		uslub_cache_free_rcu(cache, shared[i]);
	settle(cache);
	after = resident();
	printf("rcu_memory: %lu retired, %.1f M/s at most, grace periods up to %.0f ms, round up "
	       "to %.0f "
	       "ms; peak %zu MiB resident, %lu MiB pending, bound %zu MiB; %zd KiB stayed; %lu "
	       "reads, "
	       "hurried %lu; seed %lu\n",
	       retired(), peak.rate / 1e6, grace * 1e3, (double)peak.oldest_ns / 1e6,
	       (peak.resident - baseline) / MIB, peak.pending / MIB, bound / MIB,
	       ((ssize_t)after - (ssize_t)baseline) / 1024, sections, STAT(cache, rcu_hurried),
	       seed);
	if (STAT(cache, rcu_pending) || outside_slabs(cache, 0))
		die("%lu deferred frees left", STAT(cache, rcu_pending));
	if (peak.pending > bound)
		die("%lu MiB of deferred frees", peak.pending / MIB);
	if (!STRESS_TSAN && !STRESS_ASAN) {
		if (peak.resident - baseline > bound)
			die("%zu MiB resident", (peak.resident - baseline) / MIB);
		if (after > baseline + 8 * MIB + (peak.resident - baseline) / 50)
			die("%zu MiB did not come back", (after - baseline) / MIB);
	}
	if (uslub_cache_destroy(cache))
		die("destroy failed");
	return 0;
}
