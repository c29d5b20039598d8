/* SPDX-License-Identifier: MIT */
/*
 * Many threads retire an object with each operation, and a slow reader makes grace periods last.
 *
 * free_rcu does not wait, so memory is bounded by what is retired while an object waits. Rounds say how long
 * that may be, not a clock, since who does not get a CPU is not to blame: in a round everything queued is
 * taken, waits for a grace period, and is disposed of before the next round begins. So nothing is pending
 * that was retired before the last grace period but two had ended, except what lies in sheaves that are not
 * full yet or in the hands of a thread. Resident is that much, and what the library keeps for itself and for CPUs (policy
 * rcu-stash). In the end all of it comes back.
 *
 *   --broken=KIND  must fail: more (only a part of what is retired is counted, as if far more were kept
 *                  pending), kept (some is never freed)
 *   --control      run the broken ones, and pass if each failed as it should
 */
#include <pthread.h>
#include "flavor.h"

#define RETIRERS  16
#define SIZE	  256
#define SHARED	  64
#define SAMPLE_US 10000
#define GRACES	  16 /* of so many the end is remembered */

struct object {
	uint64_t value;
	uint64_t rest[SIZE / 8 - 1];
};

static struct uslub_cache *cache;
static struct object *shared[SHARED];
static const char *broken = "";
static bool stop;
static uint64_t seed, sections;
static uint64_t graces, retired_at[GRACES]; /* at the end of each grace period */
static struct {
	uint64_t retired;
} __attribute__((aligned(64))) counts[RETIRERS];

static void *retirer(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	bool more = !strcmp(broken, "more"), kept = !strcmp(broken, "kept");
	uint64_t random = seed + me, n = 0;
	struct object *o;

	while (!load(&stop)) {
		o = uslub_cache_alloc(cache, 0);
		if (!o)
			die("uslub_cache_alloc: %s", strerror(errno));
		poke(&o->value, 42);
		poke(&o->rest[SIZE / 8 - 2], 43);
		o = swap(&shared[below(&random, SHARED)], o);
		n++;
		if (!kept || n % 64)
			uslub_cache_free_rcu(cache, o);
		store(&counts[me].retired, more ? n / 16 : n);
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

static void grace_ends(void)
{
	uint64_t n = peek(&graces);

	poke(&retired_at[n % GRACES], retired());
	store(&graces, n + 1);
}

/* How much had been retired when the last grace period but two ended. */
static uint64_t retired_before(void)
{
	uint64_t n, r;

	do {
		n = load(&graces);
		r = n < 3 ? 0 : load(&retired_at[(n - 3) % GRACES]);
	} while (load(&graces) - n > GRACES - 4);
	return r;
}

/* Objects that may have been retired at any time: in sheaves not full, and in the hands of threads. */
static uint64_t in_sheaves(void)
{
	return STAT(cache, sheaf_capacity) *
	       (2 * ((uint64_t)sysconf(_SC_NPROCESSORS_CONF) + 8) + 2 * RETIRERS);
}

/* Sheaves that all CPUs together may keep. */
static uint64_t stash_limit(void)
{
	struct uslub_policy policy;

	uslub_cache_policy(cache, &policy);
	if (policy.rcu_stash == USLUB_POLICY_NONE)
		return 0;
	return policy.rcu_stash * ((uint64_t)sysconf(_SC_NPROCESSORS_CONF) + 8);
}

struct peaks {
	size_t resident;
	uint64_t stashed;	 /* sheaves */
	uint64_t pending, bound; /* bytes */
};

static void watch(double seconds, struct peaks *peak)
{
	uint64_t before, pending, bound, stashed, slack = in_sheaves();
	double end = now() + seconds;
	size_t r;

	while (now() < end) {
		pause_us(SAMPLE_US);
		before = retired_before();
		pending = STAT(cache, rcu_pending);
		bound = retired() - before + slack;
		if (pending > bound)
			die("%lu deferred frees are pending, of %lu since the last three grace "
			    "periods",
			    pending, bound);
		stashed = STAT(cache, stashed);
		if (stashed > stash_limit())
			die("%lu sheaves are kept, of %lu", stashed, stash_limit());
		peak->stashed = stashed > peak->stashed ? stashed : peak->stashed;
		r = resident();
		peak->resident = r > peak->resident ? r : peak->resident;
		peak->pending = pending * SIZE > peak->pending ? pending * SIZE : peak->pending;
		peak->bound = bound * SIZE > peak->bound ? bound * SIZE : peak->bound;
	}
}

static void run(double seconds)
{
	pthread_t thread[RETIRERS + 1];
	struct peaks peak = { 0 };
	size_t baseline, bound, after;

	store(&watched.after, grace_ends);
	cache = rcu_cache("retired", SIZE, 0);
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

	/* Also what is on its way between slabs, and the pages that the library keeps. */
	bound = peak.bound / 4 * 5 + 48 * MIB + stash_limit() * STAT(cache, sheaf_capacity) * SIZE;
	stress_phase = "the end";
	for (unsigned i = 0; i < SHARED; i++)
		uslub_cache_free_rcu(cache, shared[i]);
	settle(cache);
	after = resident();
	printf("rcu_memory: %lu retired, %lu grace periods up to %.0f ms; peak %zu MiB resident, "
	       "%lu MiB pending of %lu, bound %zu MiB; %lu sheaves kept; %zd KiB stayed; %lu "
	       "reads, "
	       "hurried %lu; seed %lu\n",
	       retired(), graces, (double)watched.longest_ns / 1e6,
	       (peak.resident - baseline) / MIB, peak.pending / MIB, peak.bound / MIB, bound / MIB,
	       peak.stashed, ((ssize_t)after - (ssize_t)baseline) / 1024, sections,
	       STAT(cache, rcu_hurried), seed);
	if (stash_limit() && (!peak.stashed || !STAT(cache, stash_get) || STAT(cache, stashed)))
		die("%lu sheaves were kept, %lu taken, %lu are", peak.stashed,
		    STAT(cache, stash_get), STAT(cache, stashed));
	if (STAT(cache, rcu_pending) || outside_slabs(cache, 0))
		die("%lu deferred frees and %ld objects did not come back",
		    STAT(cache, rcu_pending), outside_slabs(cache, 0));
	if (!STRESS_TSAN && !STRESS_ASAN) {
		if (peak.resident - baseline > bound)
			die("%zu MiB resident", (peak.resident - baseline) / MIB);
		if (after > baseline + 8 * MIB + (peak.resident - baseline) / 50)
			die("%zu MiB did not come back", (after - baseline) / MIB);
	}
	if (uslub_cache_destroy(cache))
		die("destroy failed");
}

/* Does the test fail when it is broken, and say why? */
static bool fails(const char *how, const char *message)
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
	printf("rcu_memory --broken=%s: %s", how, *h.text ? h.text : "nothing was found\n");
	return WIFEXITED(status) && WEXITSTATUS(status) && strstr(h.text, message);
}

/* On a machine with much else to do another check may come first: the reclaimer gets behind. */
static bool noticed(const char *how, const char *message)
{
	bool found = false;

	for (unsigned i = 0; i < 3 && !found; i++)
		found = fails(how, message);
	return found;
}

int main(int argc, char **argv)
{
	const char *how = option(argc, argv, "broken");
	double seconds = stress_seconds(3);

	seed = stress_seed(argc, argv);
	flavor_start(&urcu_memb_flavor);
	if (option(argc, argv, "control"))
		return !(noticed("more", "are pending") && noticed("kept", "did not come back"));
	broken = how ? how : "";
	watchdog(100 + 2 * (unsigned)seconds);
	run(seconds);
	return 0;
}
