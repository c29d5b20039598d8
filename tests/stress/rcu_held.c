/* SPDX-License-Identifier: MIT */
/*
 * What deferred frees may not touch while a reader is there, and what they hold and give back.
 *
 *   --part=held    A reader stays in its section while threads retire a known number of objects. Every
 *                  one of them is pending until the reader leaves, whatever is allocated, freed and
 *                  shrunk meanwhile, and its content is left alone. Then a barrier ends it, and the
 *                  memory comes back. rcu_hurried counts with a small rcu-limit and not with a large one.
 *   --part=slow    Threads retire an object with each operation for some seconds, while a reader looks
 *                  at objects for 20 ms at a time: none of them is reused meanwhile. Memory stays within
 *                  what is pending.
 *   --broken=KIND  must fail: early (retired objects are freed at once), kept (some are never freed),
 *                  unlimited (no rcu-limit)
 *   --control      run the broken ones, and pass if each failed as it should
 */
#include <pthread.h>
#include "flavor.h"
#include "memory.h"

#define THREADS	   4
#define RETIRED	   50000 /* by each thread, in one section */
#define SIZE	   256
#define SHARED	   64
#define SECTION_US 20000
#define UNLIMITED  ((uint64_t)1 << 40)
#define LIMITED	   ((uint64_t)64 << 10)

struct object {
	uint64_t stamp; /* a new one for each allocation */
	uint64_t body[SIZE / 8 - 1];
};

static const char *broken = "";
static struct uslub_cache *cache;

static struct uslub_cache *create(const char *name, uint64_t limit)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &flavor,
		.policy.rcu_limit = limit,
	};
	struct uslub_cache *c = uslub_cache_create(name, SIZE, &args);

	if (!c)
		die("uslub_cache_create %s: %s", name, strerror(errno));
	return c;
}

static struct object *issue(uint64_t stamp)
{
	struct object *o = uslub_cache_alloc(cache, 0);

	if (!o)
		die("uslub_cache_alloc: %s", strerror(errno));
	poke(&o->stamp, stamp);
	for (size_t i = 0; i < SIZE / 8 - 1; i++)
		poke(&o->body[i], stamp + i + 1);
	return o;
}

static bool intact(const struct object *o, uint64_t stamp)
{
	bool same = peek(&o->stamp) == stamp;

	for (size_t i = 0; i < SIZE / 8 - 1; i++)
		same &= peek(&o->body[i]) == stamp + i + 1;
	return same;
}

static void retire(struct object *o)
{
	if (!strcmp(broken, "kept") && peek(&o->stamp) % 64 == 0)
		return;
	if (!strcmp(broken, "early"))
		uslub_cache_free(cache, o);
	else
		uslub_cache_free_rcu(cache, o);
}

static void in_threads(unsigned n, void *(*fn)(void *))
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, fn, (void *)(uintptr_t)i))
			die("pthread_create");
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static int shrink(struct uslub_cache *c, void *arg)
{
	int error = uslub_cache_shrink(c);

	(void)arg;
	if (error)
		die("%s: shrink: %d", uslub_cache_name(c), error);
	return 0;
}

/*
 * All is freed. Sheaves are objects themselves: some hundred of them lie idle in the caches that they came
 * from, scattered, each in the middle of free pages. Hence these caches are shrunk as well.
 */
static void finish(size_t base, size_t peak)
{
	size_t alone, after;
	int error;

	uslub_cache_barrier_rcu(cache);
	if (STAT(cache, rcu_pending))
		die("%lu objects are pending after a barrier", STAT(cache, rcu_pending));
	settle(cache);
	if (STAT(cache, objects))
		die("%lu objects did not come back", STAT(cache, objects));
	alone = above(resident_now(), base);
	uslub_for_each_cache(shrink, NULL);
	after = above(resident_now(), base);
	if (!resident_of_others() && after > may_stay(peak))
		die("%zu KiB of %zu are still resident", after >> 10, peak >> 10);
	printf("; shrunk %zu KiB, with all caches shrunk %zu\n", alone >> 10, after >> 10);
	error = uslub_cache_destroy(cache);
	if (error)
		die("uslub_cache_destroy: %d", error);
}

/* ---- a section that lasts ---- */

static struct object *retired[THREADS][RETIRED];
static unsigned nretired; /* by each thread */

static uint64_t stamp_of(unsigned thread, unsigned i)
{
	return ((uint64_t)thread << 32 | i) * 1000 + 64;
}

static void *retire_thread(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	struct object *other;

	for (unsigned i = 0; i < nretired; i++) {
		retired[me][i] = issue(stamp_of(me, i));
		other = issue(1);
		retire(retired[me][i]);
		uslub_cache_free(cache, other);
	}
	return NULL;
}

/* Allocates about as much as is pending. */
static void *stir_thread(void *arg)
{
	static struct object *held[THREADS][1000];
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned round = 0; round < nretired / 1000; round++) {
		for (unsigned i = 0; i < 1000; i++)
			held[me][i] = issue(2);
		for (unsigned i = 0; i < 1000; i++)
			uslub_cache_free(cache, held[me][i]);
	}
	return NULL;
}

static void check_held(const char *after)
{
	uint64_t pending = STAT(cache, rcu_pending);

	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < nretired; i++)
			if (!intact(retired[t][i], stamp_of(t, i)))
				die("object %p was reused within the grace period, after %s",
				    (void *)retired[t][i], after);
	if (strcmp(broken, "kept") && pending != (uint64_t)THREADS * nretired)
		die("%lu objects are pending after %s, should be %u", pending, after,
		    THREADS * nretired);
}

static void hold(uint64_t limit, bool hurries)
{
	size_t base, peak, bytes;

	cache = create("held", limit);
	/* once without the reader, to have all threads and tables */
	nretired = 1000;
	in_threads(THREADS, retire_thread);
	settle(cache);
	if (strcmp(broken, "kept") && STAT(cache, objects))
		die("%lu objects did not come back", STAT(cache, objects));
	base = resident_now();

	nretired = RETIRED;
	bytes = (size_t)THREADS * RETIRED * SIZE;
	reader_enter();
	stress_phase = "threads retire while a reader holds";
	in_threads(THREADS, retire_thread);
	check_held("they were retired");
	in_threads(THREADS, stir_thread);
	check_held("as many were allocated and freed");
	shrink(cache, NULL);
	check_held("a shrink");
	peak = above(resident_now(), base);
	reader_leave();
	stress_phase = "the reader has left";
	if (!resident_of_others() && (peak < bytes / 100 * 95 || peak > bytes / 10 * 11 + 8 * MIB))
		die("%zu KiB are resident while %zu are pending", peak >> 10, bytes >> 10);
	if (hurries != (STAT(cache, rcu_hurried) > 0))
		die("rcu_hurried is %lu with rcu-limit %lu", STAT(cache, rcu_hurried), limit);
	printf("rcu_held: rcu-limit %lu: hurried %lu, %zu KiB resident for %zu KiB pending", limit,
	       STAT(cache, rcu_hurried), peak >> 10, bytes >> 10);
	finish(base, peak);
}

static void part_held(double seconds)
{
	double end = now() + seconds;

	urcu_memb_register_thread();
	memset(retired, 1, sizeof(retired));
	do {
		hold(strcmp(broken, "unlimited") ? LIMITED : UNLIMITED, true);
		hold(UNLIMITED, false);
	} while (now() < end);
	urcu_memb_unregister_thread();
}

/* ---- sections of 20 ms ---- */

static struct object *shared[SHARED];
static bool stop;
static uint64_t operations[THREADS], sections, looks;
static size_t most_pending, most_resident;

static void look(void)
{
	const struct object *o[SHARED];
	uint64_t stamp[SHARED];

	reader_enter();
	for (unsigned i = 0; i < SHARED; i++) {
		o[i] = load(&shared[i]);
		stamp[i] = o[i] ? peek(&o[i]->stamp) : 0;
	}
	pause_us(SECTION_US);
	for (unsigned i = 0; i < SHARED; i++) {
		if (!o[i])
			continue;
		if (!intact(o[i], stamp[i]))
			die("object %p was reused within the grace period, under its reader",
			    (const void *)o[i]);
		looks++;
	}
	reader_leave();
	sections++;
}

static void *reader(void *arg)
{
	urcu_memb_register_thread();
	while (!load(&stop))
		look();
	urcu_memb_unregister_thread();
	return arg;
}

static void *retirer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	uint64_t random = me, n = 0;
	struct object *o;

	for (; !load(&stop); n++) {
		o = swap(&shared[below(&random, SHARED)], issue(stamp_of(me + 1, 0) + n));
		if (o)
			retire(o);
	}
	operations[me] = n;
	return NULL;
}

static void watch(double seconds)
{
	double end = now() + seconds;

	while (now() < end) {
		most_pending = most(most_pending, STAT(cache, rcu_pending_bytes));
		most_resident = most(most_resident, resident_now());
		pause_us(5000);
	}
}

static void part_slow(double seconds)
{
	pthread_t threads[THREADS];
	size_t base, bound, peak;
	uint64_t n = 0;

	cache = create("slow", !strcmp(broken, "unlimited") ? UNLIMITED : 0);
	base = resident_now();
	stress_phase = "threads retire beside a slow reader";
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, i ? retirer : reader, (void *)(uintptr_t)i))
			die("pthread_create");
	watch(seconds);
	store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		n += operations[i];
	}
	stress_phase = "the end";
	for (unsigned i = 0; i < SHARED; i++)
		if (shared[i])
			retire(shared[i]);
	/* what waits, what is on its way between slabs, and the pages that the library keeps */
	peak = above(most_resident, base);
	bound = most_pending / 4 * 5 + 48 * MIB;
	printf("rcu_held: %lu retired, %lu sections, %lu looks, %zu MiB pending at most, %zu MiB "
	       "resident, bound %zu MiB, hurried %lu",
	       n, sections, looks, most_pending / MIB, peak / MIB, bound / MIB,
	       STAT(cache, rcu_hurried));
	if (!looks || !n)
		die("nothing was read or retired");
	if (!resident_of_others() && peak > bound)
		die("%zu MiB are resident, where %zu are pending at most", peak / MIB,
		    most_pending / MIB);
	finish(base, peak);
}

/* ---- controls ---- */

static bool fails(const char *part, const char *how, const char *message, void (*run)(double))
{
	struct heard h;
	int status;

	if (stress_fork(&h)) {
		broken = how;
		watchdog(60);
		run(1);
		_exit(0);
	}
	status = stress_hear(&h);
	printf("rcu_held --part=%s --broken=%s: %s", part, how,
	       *h.text ? h.text : "nothing was found\n");
	return WIFEXITED(status) && WEXITSTATUS(status) &&
	       (strstr(h.text, message) || (STRESS_TSAN && strstr(h.text, "data race")));
}

static int control(void)
{
	return !(fails("held", "early", "was reused", part_held) &&
		 fails("held", "kept", "did not come back", part_held) &&
		 fails("held", "unlimited", "rcu_hurried is 0", part_held) &&
		 fails("slow", "early", "was reused", part_slow) &&
		 fails("slow", "kept", "did not come back", part_slow));
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "part"), *how = option(argc, argv, "broken");
	double seconds = stress_seconds(3);

	flavor_start(&urcu_memb_flavor);
	if (option(argc, argv, "control"))
		return control();
	if (!part || (strcmp(part, "held") && strcmp(part, "slow")))
		die("which part?");
	broken = how ? how : "";
	watchdog(100 + 2 * (unsigned)seconds);
	if (!strcmp(part, "held"))
		part_held(seconds);
	else
		part_slow(seconds);
	return 0;
}
