/* SPDX-License-Identifier: MIT */
/*
 * What uslub_cache_barrier_rcu() promises: objects deferred before the call are free when it returns.
 *
 * Pushers defer the free of objects from a fixed set and are made to pause in between, above all between
 * the moment when a full sheaf has left its CPU and the moment when it stands in the queue, where nobody
 * can see it. Meanwhile one thread notes which calls have returned, waits for a barrier, and stops all
 * later grace periods at once, so that nothing that the barrier missed can be freed behind its back. Then
 * the pushers come to rest, the free objects of the cache are allocated one by one, and those noted must be
 * among them before memory ends.
 *
 *   --broken   the barrier is left out, which must be noticed
 */
#include <pthread.h>
#include "flavor.h"
#include "cache/internal.h"
#include "machine.h"

#define PUSHERS 4
#define EACH	150 /* objects of a pusher */
#define OBJECTS (PUSHERS * EACH)

struct object {
	uint64_t number;
	uint64_t rest[7];
};

static struct uslub_cache *cache;
static struct object *objects[OBJECTS];
static unsigned deferred[PUSHERS]; /* calls that have returned in this round */
static unsigned limit[PUSHERS];	   /* calls of this round */
static unsigned round_number, at_rest;
static bool stop, gate_closed;
static uint64_t pauses, random_state, drains;
static __thread uint64_t pusher_random;

/* From an object's address to its place in the table. */
#define PLACES 2048
static unsigned numbers[PLACES];

static unsigned place_of(const struct object *o)
{
	return (unsigned)((uintptr_t)o * 0x9e3779b97f4a7c15u >> 53);
}

/* ---- pauses ---- */

static void pause_at(unsigned point)
{
	if (point == POINT_RCU_DETACHED && pusher_random && below(&pusher_random, 2)) {
		bump(&pauses, 1);
		pause_us(below(&pusher_random, 1500));
	}
}

/* ---- grace periods ---- */

static void wait_at_gate(void)
{
	while (load(&gate_closed))
		pause_us(50);
}

/* ---- threads ---- */

static void *pusher(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, round = 0;

	while (!load(&stop)) {
		if (load(&round_number) == round) {
			pause_us(20);
			continue;
		}
		round = load(&round_number);
		pusher_random = random_state + me * 1000 + round;
		for (unsigned i = 0; i < limit[me]; i++) {
			uslub_cache_free_rcu(cache, objects[me * EACH + i]);
			store(&deferred[me], i + 1);
			if (!below(&pusher_random, 40))
				sched_yield();
		}
		pusher_random = 0;
		bump(&at_rest, 1);
	}
	return NULL;
}

static void *drainer(void *arg)
{
	while (!load(&stop)) {
		cache_drain(cache, false);
		bump(&drains, 1);
		pause_us(300);
	}
	return arg;
}

/* ---- rounds ---- */

static void allocate(unsigned n)
{
	struct object *o = uslub_cache_alloc(cache, 0);

	if (!o)
		die("uslub_cache_alloc: %s", strerror(errno));
	objects[n] = o;
	o->number = n;
}

static void number_objects(void)
{
	unsigned at;

	memset(numbers, 0, sizeof(numbers));
	for (unsigned n = 0; n < OBJECTS; n++) {
		for (at = place_of(objects[n]); numbers[at]; at = (at + 1) % PLACES)
			;
		numbers[at] = n + 1;
	}
}

/* The object's number, or -1: not one of the table. */
static int number_of(const struct object *o)
{
	for (unsigned at = place_of(o); numbers[at]; at = (at + 1) % PLACES)
		if (objects[numbers[at] - 1] == o)
			return (int)numbers[at] - 1;
	return -1;
}

/*
 * Allocates until the `missing` ones that are marked have come, or nothing is left. No slab is given up
 * meanwhile (min_partial) and none is made. Returns what was allocated, linked.
 */
static struct object *take_all(bool *marked, unsigned *missing)
{
	struct object *all = NULL, *o;
	int n;

	number_objects();
	cache_drain(cache, false);
	plat_inject_failures = 0;
	while (*missing && (o = uslub_cache_alloc(cache, 0))) {
		n = number_of(o);
		if (n >= 0 && marked[n]) {
			marked[n] = false;
			--*missing;
		}
		o->rest[0] = (uintptr_t)all;
		all = o;
	}
	plat_inject_failures = -1;
	return all;
}

static void give_back(struct object *all)
{
	struct object *next;

	for (; all; all = next) {
		next = (struct object *)(uintptr_t)all->rest[0];
		uslub_cache_free(cache, all);
	}
}

static unsigned one_round(bool broken)
{
	unsigned later = below(&random_state, 3000), noted = 0, missing;
	bool marked[OBJECTS] = { false };
	struct object *all;

	for (unsigned i = 0; i < PUSHERS; i++) {
		limit[i] = 1 + below(&random_state, EACH);
		poke(&deferred[i], 0);
	}
	store(&at_rest, 0);
	bump(&round_number, 1);
	pause_us(later);
	for (unsigned i = 0; i < PUSHERS; i++)
		for (unsigned n = load(&deferred[i]); n--; noted++)
			marked[i * EACH + n] = true;
	stress_phase = "barrier";
	if (!broken)
		uslub_cache_barrier_rcu(cache);
	store(&gate_closed, true);
	stress_phase = "pushers come to rest";
	while (load(&at_rest) < PUSHERS)
		pause_us(20);
	missing = noted;
	all = take_all(marked, &missing);
	if (missing)
		die("%u of %u objects are not free after the barrier, though the calls that "
		    "deferred them had returned before it",
		    missing, noted);
	give_back(all);
	store(&gate_closed, false);
	stress_phase = "barrier at the end of a round";
	uslub_cache_barrier_rcu(cache);
	for (unsigned i = 0; i < PUSHERS; i++)
		for (unsigned n = 0; n < limit[i]; n++)
			allocate(i * EACH + n);
	return noted;
}

int main(int argc, char **argv)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.min_partial = 1000,
		.rcu = &flavor,
		.policy.sheaf_capacity = 9,
	};
	bool broken = option(argc, argv, "broken");
	double seconds = stress_seconds(2), end = now() + seconds;
	uint64_t noted = 0, rounds = 0, seed;
	pthread_t thread[PUSHERS + 1];

	seed = random_state = stress_seed(argc, argv);
	watchdog(100 + 2 * (unsigned)seconds);
	flavor_start(&urcu_memb_flavor);
	store(&watched.before, wait_at_gate);
	plat_inject_hook = pause_at;
	cache = uslub_cache_create("barrier", sizeof(struct object), &args);
	if (!cache)
		die("uslub_cache_create: %s", strerror(errno));
	for (unsigned n = 0; n < OBJECTS; n++)
		allocate(n);
	for (unsigned i = 0; i <= PUSHERS; i++)
		if (pthread_create(&thread[i], NULL, i < PUSHERS ? pusher : drainer,
				   (void *)(uintptr_t)i))
			die("pthread_create");
	for (; now() < end || rounds < 20; rounds++)
		noted += one_round(broken);
	store(&stop, true);
	for (unsigned i = 0; i <= PUSHERS; i++)
		pthread_join(thread[i], NULL);
	if (!pauses)
		die("no thread was ever paused where a sheaf is invisible");
	for (unsigned n = 0; n < OBJECTS; n++)
		uslub_cache_free(cache, objects[n]);
	settle(cache);
	if (uslub_cache_destroy(cache))
		die("destroy failed");
	printf("barrier: %lu rounds, %lu objects deferred before a barrier, %lu pauses, %lu "
	       "shrinks; "
	       "seed %lu\n",
	       rounds, noted, pauses, drains, seed);
	return 0;
}
