/* SPDX-License-Identifier: MIT */
/*
 * How long things last.
 *
 *   --part=typesafe  in a cache with USLUB_TYPESAFE_BY_RCU readers look at objects that are freed, reused
 *                    and shrunk away meanwhile: what the constructor wrote stays, and a free object's
 *                    content is left alone
 *   --part=destroy   caches are destroyed with deferred frees on their way: all of them are done before,
 *                    nothing comes later; with a live object destroy says -EBUSY, and the cache is as it
 *                    was
 *   --part=idle      what a CPU keeps that does nothing any more is taken from it by the others
 */
#include <pthread.h>
#include "flavor.h"

static bool stop;
static uint64_t seed;
static int cpus[CPU_SETSIZE];

static void *get(struct uslub_cache *c)
{
	void *o = uslub_cache_alloc(c, 0);

	if (!o)
		die("uslub_cache_alloc: %s", strerror(errno));
	return o;
}

/* ---- type safety ---- */

#define MAGIC	0x7479706573616665u
#define FREE	0u /* in @owner */
#define SHARED	64
#define WRITERS 4
#define BURST	400
#define READERS 3
#define AT_ONCE 16 /* objects a reader looks at in a section */

struct typed {
	uint64_t magic; /* of the constructor, for ever */
	uint64_t owner; /* counts uses: odd while the object is allocated */
	uint64_t copy;	/* of @owner, as its user left it */
	uint64_t rest[13];
};

static struct uslub_cache *typed;
static struct typed *shared[SHARED];
static uint64_t reads, reads_of_free, writes, shrinks;

static void construct(void *object)
{
	struct typed *o = object;

	poke(&o->magic, MAGIC);
	poke(&o->owner, FREE);
	poke(&o->copy, FREE);
	for (unsigned i = 0; i < 13; i++)
		poke(&o->rest[i], MAGIC + i);
}

static void check_type(const struct typed *o)
{
	if (peek(&o->magic) != MAGIC)
		die("the constructor's word of %p is %#lx", (const void *)o, peek(&o->magic));
	for (unsigned i = 0; i < 13; i++)
		if (peek(&o->rest[i]) != MAGIC + i)
			die("word %u of %p is %#lx", i, (const void *)o, peek(&o->rest[i]));
}

static struct typed *take(void)
{
	struct typed *o = get(typed);
	uint64_t owner = peek(&o->owner);

	check_type(o);
	if (owner & 1)
		die("object %p is issued, but its last user has not freed it", (void *)o);
	if (peek(&o->copy) != owner)
		die("object %p was written to while it was free", (void *)o);
	poke(&o->owner, owner + 1);
	return o;
}

static void release(struct typed *o)
{
	uint64_t owner = peek(&o->owner) + 1;

	poke(&o->copy, owner);
	store(&o->owner, owner);
	uslub_cache_free(typed, o);
}

/* Keeps some objects where readers find them, and now and then many, whose slabs are empty afterwards. */
static void *writer(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg, n = 0;
	struct typed *many[BURST], *o;

	for (; !load(&stop); n++) {
		o = swap(&shared[below(&random, SHARED)], take());
		if (o)
			release(o);
		if (n % 256)
			continue;
		for (unsigned i = 0; i < BURST; i++)
			many[i] = take();
		/* in the shared places for a moment */
		for (unsigned i = 0; i < BURST; i++)
			many[i] = swap(&shared[i % SHARED], many[i]);
		for (unsigned i = 0; i < BURST; i++)
			if (many[i])
				release(many[i]);
	}
	bump(&writes, n);
	return NULL;
}

/* Any object it finds may be freed and used again at once, but only as an object of this cache. */
static void *reader(void *arg)
{
	uint64_t random = ~seed + (uintptr_t)arg, n = 0, gone = 0;
	const struct typed *o[AT_ONCE];

	flavor.register_thread();
	for (; !load(&stop); n++) {
		reader_enter();
		for (unsigned i = 0; i < AT_ONCE; i++) {
			o[i] = load(&shared[below(&random, SHARED)]);
			if (o[i])
				check_type(o[i]);
		}
		if (n % 2)
			pause_us(300);
		else
			sched_yield();
		for (unsigned i = 0; i < AT_ONCE; i++) {
			if (!o[i])
				continue;
			check_type(o[i]);
			gone += !(load(&o[i]->owner) & 1);
		}
		reader_leave();
	}
	flavor.unregister_thread();
	bump(&reads, n * AT_ONCE);
	bump(&reads_of_free, gone);
	return NULL;
}

static void *shrinker(void *arg)
{
	for (; !load(&stop); shrinks++) {
		uslub_cache_shrink(typed);
		pause_us(500);
	}
	return arg;
}

static void part_typesafe(double seconds)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.flags = USLUB_TYPESAFE_BY_RCU,
		.ctor = construct,
		.rcu = &flavor,
		.policy.sheaf_capacity = 5,
		.policy.barn_full = 1,
	};
	pthread_t thread[WRITERS + READERS + 1];
	uint64_t slabs;

	typed = uslub_cache_create("typed", sizeof(struct typed), &args);
	if (!typed)
		die("uslub_cache_create: %s", strerror(errno));
	stress_phase = "threads read and write";
	for (uintptr_t i = 0; i <= WRITERS + READERS; i++)
		if (pthread_create(&thread[i], NULL,
				   i < WRITERS		   ? writer
				   : i < WRITERS + READERS ? reader
							   : shrinker,
				   (void *)i))
			die("pthread_create");
	pause_us((unsigned)(seconds * 1e6));
	store(&stop, true);
	for (unsigned i = 0; i <= WRITERS + READERS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < SHARED; i++)
		uslub_cache_free(typed, shared[i]);
	settle(typed);
	slabs = STAT(typed, alloc_slab);
	if (STAT(typed, objects) || STAT(typed, slabs))
		die("%lu objects, %lu slabs left", STAT(typed, objects), STAT(typed, slabs));
	if (uslub_cache_destroy(typed))
		die("destroy failed");
	if (!STRESS_TSAN && slabs < 10)
		die("only %lu slabs were ever made: nothing was given back", slabs);
	printf("lifetime typesafe: %lu writes, %lu reads (%lu of objects freed meanwhile), %lu "
	       "shrinks, "
	       "%lu slabs; seed %lu\n",
	       writes, reads, reads_of_free, shrinks, slabs, seed);
}

/* ---- destruction ---- */

#define OBJECTS 500

static void some_ms(void)
{
	pause_us(2000);
}

/* A cache of its own each time; whatever came late would write to what is another cache by then. */
static void destroy_one(uint64_t *random)
{
	static const uint64_t capacities[] = { 0, 1, 5, 255, USLUB_POLICY_NONE };
	struct uslub_cache *c = rcu_cache("short", 8 + 8 * below(random, 64),
					  capacities[below(random, 5)]);
	unsigned n = 1 + below(random, OBJECTS);
	void *objects[OBJECTS + 1];
	int error;

	for (unsigned i = 0; i <= n; i++)
		objects[i] = get(c);
	for (unsigned i = 0; i < n; i++)
		if (below(random, 4))
			uslub_cache_free_rcu(c, objects[i]);
		else
			uslub_cache_free(c, objects[i]);
	if (below(random, 2)) {
		error = uslub_cache_destroy(c);
		if (error != -EBUSY)
			die("destroy with a live object: %d", error);
		if (STAT(c, objects) != 1 || STAT(c, rcu_pending))
			die("after -EBUSY %lu objects in use, %lu deferred", STAT(c, objects),
			    STAT(c, rcu_pending));
		for (unsigned i = 0; i < n; i++)
			objects[i] = get(c);
		for (unsigned i = 0; i < n; i++)
			uslub_cache_free_rcu(c, objects[i]);
	}
	uslub_cache_free_rcu(c, objects[n]);
	error = uslub_cache_destroy(c);
	if (error)
		die("destroy with deferred frees on their way: %d", error);
}

static int destroyed;

static void *destroyer(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg;

	for (; !load(&stop); bump(&destroyed, 1))
		destroy_one(&random);
	return NULL;
}

static void part_destroy(double seconds)
{
	pthread_t thread[4];

	store(&watched.before, some_ms);
	stress_phase = "caches come and go";
	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, destroyer, (void *)i))
			die("pthread_create");
	pause_us((unsigned)(seconds * 1e6));
	store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("lifetime destroy: %d caches, %lu grace periods; seed %lu\n", destroyed,
	       watched.grace_periods, seed);
}

/* ---- idle CPUs ---- */

#define LEFT 20 /* objects in sheaves of the CPU that falls asleep */

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity: %s", strerror(errno));
}

/* Leaves a part-full sheaf of deferred frees behind, and a full one of others, and ends. */
static void *goes_idle(void *arg)
{
	struct uslub_cache *c = arg;
	void *objects[2 * LEFT];

	stay_on(cpus[1]);
	for (unsigned i = 0; i < 2 * LEFT; i++)
		objects[i] = get(c);
	for (unsigned i = 0; i < LEFT; i++) {
		uslub_cache_free_rcu(c, objects[i]);
		uslub_cache_free(c, objects[LEFT + i]);
	}
	return NULL;
}

/* Refills and flushes, in the course of which other CPUs are looked at. */
static void busy(struct uslub_cache *c)
{
	void *objects[2000];

	for (unsigned i = 0; i < 2000; i++)
		objects[i] = get(c);
	for (unsigned i = 0; i < 2000; i++)
		uslub_cache_free(c, objects[i]);
}

static void part_idle(void)
{
	struct uslub_cache *c;
	pthread_t thread;
	uint64_t pending;
	double start;

	if (cpus_allowed(cpus, CPU_SETSIZE) < 2)
		cannot("it takes two CPUs");
	c = rcu_cache("idle", 64, 60);
	if (pthread_create(&thread, NULL, goes_idle, c))
		die("pthread_create");
	pthread_join(thread, NULL);
	pending = STAT(c, rcu_pending);
	if (pending != LEFT)
		die("%lu objects are pending, should be %d", pending, LEFT);
	stay_on(cpus[0]);
	stress_phase = "waits for deferred frees of an idle CPU";
	for (start = now(); STAT(c, rcu_pending);)
		busy(c);
	if (now() - start < 0.5)
		die("a CPU was drained after %.3f s, which is not idle yet", now() - start);
	printf("lifetime idle: a CPU's deferred frees were done after %.2f s, %lu drains\n",
	       now() - start, STAT(c, cpu_drain));
	settle(c);
	if (uslub_cache_destroy(c))
		die("destroy failed");
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "part");
	double seconds = stress_seconds(2);

	seed = stress_seed(argc, argv);
	watchdog(100 + 2 * (unsigned)seconds);
	flavor_start(&urcu_memb_flavor);
	if (part && !strcmp(part, "typesafe"))
		part_typesafe(seconds);
	else if (part && !strcmp(part, "destroy"))
		part_destroy(seconds);
	else if (part && !strcmp(part, "idle"))
		part_idle();
	else
		die("which part?");
	return 0;
}
