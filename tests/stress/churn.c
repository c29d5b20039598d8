/* SPDX-License-Identifier: MIT */
/*
 * Threads that live for a moment: each allocates, hands objects to others, takes theirs, and ends. State
 * belongs to CPUs, so nothing may go with a thread, and sheaves must not multiply with the number of
 * threads there ever were.
 */
#include <pthread.h>
#include "flavor.h"

#define AT_ONCE 16
#define LEAST	2000 /* threads in all */
#define MOST	200  /* objects one thread allocates */
#define MAIL	512

struct object {
	struct object *self;
	uint64_t thread;
	uint64_t check;
	uint64_t rest[5];
};

static struct uslub_cache *cache;
static struct object *mail[MAIL];
static uint64_t seed, allocated, handed;
static int cpus[CPU_SETSIZE];
static unsigned ncpus;

static void take(struct object *o, uint64_t thread)
{
	o->self = o;
	o->thread = thread;
	o->check = ~thread ^ (uintptr_t)o;
}

static void check(const struct object *o)
{
	if (o->self != o || o->check != (~o->thread ^ (uintptr_t)o))
		die("object %p is no longer what thread %lu made of it", (const void *)o,
		    o->thread);
}

static void put(struct object *o, uint64_t *random)
{
	check(o);
	if (below(random, 3))
		uslub_cache_free(cache, o);
	else
		uslub_cache_free_rcu(cache, o);
}

/* From a prefilled sheaf, or one by one. */
static unsigned get(struct object **objects, unsigned n, uint64_t *random)
{
	struct uslub_sheaf *s = NULL;

	if (!below(random, 3)) {
		s = uslub_cache_prefill_sheaf(cache, 0, n);
		if (!s)
			die("uslub_cache_prefill_sheaf: %s", strerror(errno));
	}
	for (unsigned i = 0; i < n; i++) {
		objects[i] = s ? uslub_cache_alloc_from_sheaf(cache, 0, s)
			       : uslub_cache_alloc(cache, 0);
		if (!objects[i])
			die("allocation: %s", strerror(errno));
	}
	uslub_cache_return_sheaf(cache, 0, s);
	return n;
}

static void *short_life(void *arg)
{
	uint64_t number = (uintptr_t)arg, random = seed + number * 1000;
	struct object *objects[MOST], **slot;
	unsigned n;

	n = get(objects, 1 + below(&random, MOST), &random);
	for (unsigned i = 0; i < n; i++)
		take(objects[i], number);
	bump(&allocated, n);
	for (unsigned i = 0; i < n; i++) {
		if (below(&random, 2)) {
			slot = &mail[below(&random, MAIL)];
			objects[i] = swap(slot, objects[i]);
			bump(&handed, 1);
		}
		if (objects[i])
			put(objects[i], &random);
	}
	return NULL;
}

/* On some CPU, so that on every one threads have come and gone. */
static pthread_t start(uint64_t number, uint64_t *random)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t set;

	pthread_attr_init(&attr);
	CPU_ZERO(&set);
	CPU_SET(cpus[below(random, ncpus)], &set);
	if (below(random, 2))
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	if (pthread_create(&thread, &attr, short_life, (void *)(uintptr_t)number))
		die("pthread_create");
	pthread_attr_destroy(&attr);
	return thread;
}

/* What CPUs and barns may keep: two sheaves and two of deferred frees each, and a barn's limit. */
static uint64_t may_stay(void)
{
	uint64_t slots = (uint64_t)sysconf(_SC_NPROCESSORS_CONF) + 8;

	return (4 * slots + 2 * 32) * STAT(cache, sheaf_capacity);
}

int main(int argc, char **argv)
{
	double end = now() + stress_seconds(2);
	pthread_t threads[AT_ONCE];
	uint64_t random, stayed;
	unsigned n;
	int error;

	seed = random = stress_seed(argc, argv);
	watchdog(100 + 2 * (unsigned)stress_seconds(2));
	flavor_start(&urcu_memb_flavor);
	ncpus = cpus_allowed(cpus, CPU_SETSIZE);
	cache = rcu_cache("churn", sizeof(struct object), 0);
	stress_phase = "threads come and go";
	for (n = 0; n < LEAST || now() < end; n++) {
		if (n >= AT_ONCE)
			pthread_join(threads[n % AT_ONCE], NULL);
		threads[n % AT_ONCE] = start(n, &random);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		pthread_join(threads[(n + i) % AT_ONCE], NULL);
	for (unsigned i = 0; i < MAIL; i++)
		if (mail[i])
			put(mail[i], &random);

	stress_phase = "the end";
	uslub_cache_barrier_rcu(cache);
	stayed = (uint64_t)outside_slabs(cache, 0);
	if (stayed > may_stay())
		die("%lu free objects in sheaves after %u threads, %lu may be", stayed, n,
		    may_stay());
	settle(cache);
	if (outside_slabs(cache, 0) || STAT(cache, objects) || STAT(cache, slabs) ||
	    STAT(cache, sheaf_alloc) != STAT(cache, sheaf_free))
		die("left: %ld objects by counters, %lu in use, %lu slabs, %ld sheaves",
		    outside_slabs(cache, 0), STAT(cache, objects), STAT(cache, slabs),
		    (long)(STAT(cache, sheaf_alloc) - STAT(cache, sheaf_free)));
	error = uslub_cache_destroy(cache);
	if (error)
		die("destroy: %d", error);
	printf("churn: %u threads, %lu objects, %lu handed over, %lu in sheaves at the end; seed "
	       "%lu\n",
	       n, allocated, handed, stayed, seed);
	return 0;
}
