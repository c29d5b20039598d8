/* SPDX-License-Identifier: MIT */
/*
 * Objects that are always freed elsewhere.
 *
 *   --part=pair    one thread allocates on one CPU, another frees on another CPU. The number of slabs must
 *                  not grow, and the rate must not collapse, neither in time nor against a single thread
 *                  that does both (by how much it is lower is a matter for `uslub bench`)
 *   --part=memory  16 threads allocate, one only frees; 370 MiB are live. Resident memory stays within
 *                  1.3 times that, and comes back in the end
 */
#include <pthread.h>
#include "stress.h"

/* ---- a pair ---- */

#define RING  512u
#define BATCH 64
#define SIZE  256

static struct {
	void *slots[RING];
	uint64_t put __attribute__((aligned(128)));
	uint64_t taken __attribute__((aligned(128)));
} ring;

static struct uslub_cache *cache;
static int stop;
static int cpus[CPU_SETSIZE];
static unsigned ncpus;

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *producer(void *arg)
{
	uint64_t at = 0, *o;

	stay_on(*(int *)arg);
	for (; !load(&stop); at++) {
		while (at - load(&ring.taken) == RING && !load(&stop))
			pause_us(10);
		if (at - load(&ring.taken) == RING)
			break;
		o = uslub_cache_alloc(cache, 0);
		if (!o)
			die("uslub_cache_alloc: %s", strerror(errno));
		*o = at;
		ring.slots[at % RING] = o;
		store(&ring.put, at + 1);
	}
	return NULL;
}

static void *consumer(void *arg)
{
	uint64_t at = 0, *o;

	stay_on(*(int *)arg);
	for (; load(&stop) < 2 || at < load(&ring.put); at++) {
		while (at == load(&ring.put) && load(&stop) < 2)
			pause_us(10);
		if (at == load(&ring.put))
			break;
		o = ring.slots[at % RING];
		if (*o != at)
			die("object %lu says it is %lu", at, *o);
		uslub_cache_free(cache, o);
		store(&ring.taken, at + 1);
	}
	return NULL;
}

/* Allocations per second of one thread that frees them itself, in turns of BATCH. */
static double alone(double seconds)
{
	double start = now(), end = start + seconds;
	void *objects[BATCH];
	uint64_t n = 0;

	for (; now() < end; n += BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			objects[i] = uslub_cache_alloc(cache, 0);
			if (!objects[i])
				die("uslub_cache_alloc: %s", strerror(errno));
		}
		for (unsigned i = 0; i < BATCH; i++)
			uslub_cache_free(cache, objects[i]);
	}
	return (double)n / (now() - start);
}

#define WINDOWS 8

static void part_pair(double seconds)
{
	double rate, best[2] = { 0 }, start,
		     single; /* best windows of the first and the second half */
	uint64_t before, most;
	pthread_t thread[2];

	ncpus = cpus_allowed(cpus, CPU_SETSIZE);
	cache = uslub_cache_create("pair", SIZE, NULL);
	single = alone(seconds / 10);
	if (pthread_create(&thread[0], NULL, producer, &cpus[0]) ||
	    pthread_create(&thread[1], NULL, consumer, &cpus[ncpus - 1]))
		die("pthread_create");
	for (unsigned i = 0; i < WINDOWS; i++) {
		start = now();
		before = load(&ring.taken);
		pause_us((unsigned)(seconds / WINDOWS * 1e6));
		rate = (double)(load(&ring.taken) - before) / (now() - start);
		if (rate > best[i / (WINDOWS / 2)])
			best[i / (WINDOWS / 2)] = rate;
	}
	store(&stop, 1);
	pthread_join(thread[0], NULL);
	store(&stop, 2);
	pthread_join(thread[1], NULL);
	most = RING + (4 * ((uint64_t)sysconf(_SC_NPROCESSORS_CONF) + 8) + 2 * 32) *
			      STAT(cache, sheaf_capacity);
	if (STAT(cache, total_objects) > 2 * most)
		die("%lu objects in slabs, but at most %lu were in use", STAT(cache, total_objects),
		    most);
	if (best[1] < best[0] / 20 || best[0] < single / 500)
		die("collapse: %.0f, then %.0f objects a second; one thread alone %.0f", best[0],
		    best[1], single);
	settle(cache);
	if (uslub_cache_destroy(cache))
		die("destroy failed");
	printf("crosscpu pair: %lu objects, %.1f, then %.1f M/s (one thread alone %.1f)\n",
	       ring.taken, best[0] / 1e6, best[1] / 1e6, single / 1e6);
}

/* ---- memory ---- */

#define PRODUCERS 16
#define OBJECT	  1024
#define LIVE	  ((STRESS_TSAN ? 37 : 370) * MIB)
#define SLOTS	  (LIVE / OBJECT)

static uint64_t **fifo; /* SLOTS of them: what is live, oldest first */
static uint64_t fifo_put, fifo_taken;

static void *many_producer(void *arg)
{
	uint64_t at, *o;

	(void)arg;
	while (!load(&stop)) {
		at = bump(&fifo_put, 1) - 1;
		o = uslub_cache_alloc(cache, 0);
		if (!o)
			die("uslub_cache_alloc: %s", strerror(errno));
		memset(o, (int)at | 1, OBJECT);
		o[0] = at;
		/* the place of an object SLOTS older, which the freer takes */
		while (load(&fifo[at % SLOTS]))
			pause_us(10);
		store(&fifo[at % SLOTS], o);
	}
	return NULL;
}

/* Frees the oldest while the store is full, and all in the end. */
static void *freer(void *arg)
{
	uint64_t at = 0, *o;

	(void)arg;
	for (;;) {
		/* before looking at `stop`, since producers go on a little */
		if (load(&fifo_put) < at + SLOTS - PRODUCERS && !load(&stop)) {
			pause_us(10);
			continue;
		}
		if (load(&stop) == 2 && at == load(&fifo_put))
			return NULL;
		o = swap(&fifo[at % SLOTS], NULL);
		if (!o) {
			pause_us(10);
			continue;
		}
		if (o[0] != at)
			die("object %lu says it is %lu", at, o[0]);
		uslub_cache_free(cache, o);
		store(&fifo_taken, ++at);
	}
}

static void part_memory(double seconds)
{
	size_t before, peak = 0, r, after;
	pthread_t thread[PRODUCERS + 1];
	double end;

	fifo = calloc(SLOTS, sizeof(*fifo));
	if (!fifo)
		cannot("no memory");
	memset(fifo, 0, SLOTS * sizeof(*fifo));
	cache = uslub_cache_create("memory", OBJECT, NULL);
	before = resident();
	for (unsigned i = 0; i <= PRODUCERS; i++)
		if (pthread_create(&thread[i], NULL, i < PRODUCERS ? many_producer : freer, NULL))
			die("pthread_create");
	end = now() + seconds;
	while (now() < end || load(&fifo_taken) < SLOTS) {
		pause_us(5000);
		r = resident();
		peak = r > peak ? r : peak;
	}
	store(&stop, 1);
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
	store(&stop, 2);
	pthread_join(thread[PRODUCERS], NULL);
	settle(cache);
	after = resident();
	if (uslub_cache_destroy(cache))
		die("destroy failed");
	free(fifo);
	if (!STRESS_TSAN && !STRESS_ASAN) {
		if (peak - before > LIVE / 10 * 13)
			die("%zu MiB resident for %zu MiB live", (peak - before) / MIB, LIVE / MIB);
		if (after > before && after - before > 16 * MIB)
			die("%zu MiB did not come back", (after - before) / MIB);
	}
	printf("crosscpu memory: %lu objects, %zu MiB live, peak %zu MiB, %zd MiB stayed\n",
	       fifo_taken, LIVE / MIB, (peak - before) / MIB,
	       (ssize_t)(after - before) / (ssize_t)MIB);
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "part");
	double seconds = stress_seconds(2);

	watchdog(100 + 2 * (unsigned)seconds);
	if (part && !strcmp(part, "pair"))
		part_pair(seconds);
	else if (part && !strcmp(part, "memory"))
		part_memory(seconds);
	else
		die("--part=pair or --part=memory is needed");
	return 0;
}
