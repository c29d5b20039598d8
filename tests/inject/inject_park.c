/* SPDX-License-Identifier: MIT */
/*
 * The sweep over the injection points while slabs are parked.
 *
 *    inject_park [--stashed] [--seconds=S] [--point=N] [--seed=N] [--broken=K]
 *
 * 1. What goes on
 *    For each point, those of the sequences and those of the node tier, several threads share the CPUs and
 *    allocate and free in two caches with parking, one with tiny sheaves and one without, in waves, so that
 *    slabs become full, partial and empty all the time. Objects change hands, so that frees are others'.
 *    The point dawdles, so that whatever is half done there meets all the rest. Meanwhile
 *      - a timer of each thread sends it a signal, whose handler frees and allocates in any context;
 *      - a mover gives threads other CPUs, which aborts sequences;
 *      - a shrinker lists what is parked;
 *      - now and then no pages can be had.
 *
 *    --stashed: both caches have sheaves, and frees are deferred, whose matured sheaves CPUs keep for
 *    themselves; the points of these stashes, which the threads also prefill from, come in addition.
 *
 * 2. What must come of it
 *    A word in each object says whose it is: none is issued twice. When all is quiet the gauges are what a
 *    walk over lists and stacks finds, parked slabs are those that were parked and not unparked, stashed
 *    sheaves are those that were put there and not taken, and when everything is freed no slab is left.
 *
 * 3. Controls. --broken=K puts a mistake in that must be found (see `controls`).
 *
 * Exit status: 0 all is well, 1 something is wrong, 2 bad usage.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <urcu/flavor.h>
#include <uslub/uslub.h>
#include "cache/internal.h"
#include "machine.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define MAX_WORKERS 8
#define CACHES	    2
#define HELD	    250
#define MAIL	    32
#define SIGNAL	    SIGRTMIN

static const char *const points[INJECT_POINTS + 1] = {
	[POINT_FREED] = "freed",     [POINT_EMPTIED] = "emptied",
	[POINT_TAKEN] = "taken",     [POINT_PUT_BACK] = "put back",
	[POINT_LISTING] = "listing", [POINT_WALKED] = "walked",
	[POINT_SURPLUS] = "surplus", [POINT_RCU_DETACHED] = "detached",
	[POINT_STASH_PUT] = "put",   [POINT_STASH_TAKEN] = "in hand",
	[POINT_STASH_BACK] = "back",
};

enum {
	LOST = 1,
	TWICE,
	FREE_MISCOUNTED,
	EMPTY_MISCOUNTED,
	PLAIN_TAKE,
	PLAIN_PUT, /* from here on with --stashed */
	SHEAF_LOST,
	CONTROLS = SHEAF_LOST
};

static const char *const controls[CONTROLS + 1] = {
	[LOST] = "a parked slab is lost",
	[TWICE] = "a slab is parked twice",
	[FREE_MISCOUNTED] = "a free object of a parked slab is counted twice",
	[EMPTY_MISCOUNTED] = "an empty parked slab is counted twice",
	[PLAIN_TAKE] = "a stack is taken by a load and a store",
	[PLAIN_PUT] = "a stash is put back by a store",
	[SHEAF_LOST] = "a stashed sheaf is lost",
};

struct object {
	uint64_t owner; /* 0: it is free */
	uint64_t rest[31];
};

struct worker {
	pthread_t thread;
	pid_t tid;
	timer_t timer;
	uint64_t number, random, failed[CACHES];
	struct object *held[CACHES][HELD];
	unsigned nheld[CACHES], wanted[CACHES];
	/* what the signal handler has */
	struct object *stash[CACHES];
	uint64_t handler_failed[CACHES], signals;
};

static struct uslub_cache *caches[CACHES];
static struct object *mail[CACHES][MAIL];
static struct worker workers[MAX_WORKERS];
static unsigned nworkers;
static __thread struct worker *self;
static unsigned broken;
static bool stashed; /* --stashed */
static bool stop;
static uint64_t moves, shrinks;
static unsigned cpus[64], ncpus;
static const char *wrong; /* the first thing that was */

static void found(const char *what)
{
	const char *none = NULL;

	plat_cas(&wrong, &none, what);
	plat_store(&stop, true);
}

static bool stopped(void)
{
	return plat_load(&stop);
}

static unsigned below(uint64_t *state, unsigned n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned)((*state >> 11) % n);
}

static void sleep_us(unsigned us)
{
	struct timespec t = { .tv_nsec = us * 1000L };

	nanosleep(&t, NULL);
}

static void construct(void *object)
{
	plat_store(&((struct object *)object)->owner, 0);
}

/* ---- what threads do ------------------------------------------------------------------------------ */

static struct object *get(unsigned i, unsigned flags, uint64_t owner, uint64_t *failed)
{
	struct object *o = uslub_cache_alloc(caches[i], flags);

	if (!o)
		++*failed;
	else if (plat_exchange(&o->owner, owner))
		found("an object was issued twice");
	return o;
}

static void give_up(struct object *o)
{
	if (!plat_exchange(&o->owner, 0))
		found("an object had no owner");
}

static void put(unsigned i, struct object *o, bool nolock, bool deferred)
{
	give_up(o);
	if (deferred)
		uslub_cache_free_rcu(caches[i], o);
	else if (nolock)
		uslub_cache_free_nolock(caches[i], o);
	else
		uslub_cache_free(caches[i], o);
}

static void put_many(struct worker *w, unsigned i)
{
	unsigned n = min(w->nheld[i], 1 + below(&w->random, 40));
	void *objects[40];

	for (unsigned k = 0; k < n; k++) {
		objects[k] = w->held[i][--w->nheld[i]];
		give_up(objects[k]);
	}
	uslub_cache_free_bulk(caches[i], n, objects);
}

static void prefill(struct worker *w, unsigned i)
{
	unsigned n = 1 + below(&w->random, 4), flags = below(&w->random, 3) ? 0 : USLUB_NOLOCK;
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(caches[i], flags, n);
	struct object *o;

	while (s && n-- && w->nheld[i] < HELD) {
		o = uslub_cache_alloc_from_sheaf(caches[i], 0, s);
		if (plat_exchange(&o->owner, w->number))
			found("an object of a prefilled sheaf was issued twice");
		w->held[i][w->nheld[i]++] = o;
	}
	uslub_cache_return_sheaf(caches[i], flags, s);
}

static void step(struct worker *w)
{
	static const unsigned flags[] = { 0, 0, 0, USLUB_NOWAIT, USLUB_NOLOCK };
	unsigned i = below(&w->random, CACHES), at;
	struct object *o;

	if (w->nheld[i] == w->wanted[i])
		w->wanted[i] = below(&w->random, HELD);
	if (stashed && w->nheld[i] < w->wanted[i] && !below(&w->random, 3)) {
		prefill(w, i);
		w->wanted[i] = max(w->wanted[i], w->nheld[i]);
		return;
	}
	if (w->nheld[i] < w->wanted[i]) {
		o = get(i, flags[below(&w->random, array_size(flags))], w->number, &w->failed[i]);
		if (o)
			w->held[i][w->nheld[i]++] = o;
		return;
	}
	if (!w->nheld[i])
		return;
	if (!below(&w->random, 20)) {
		put_many(w, i);
		w->wanted[i] = min(w->wanted[i], w->nheld[i]);
		return;
	}
	at = below(&w->random, w->nheld[i]);
	o = w->held[i][at];
	w->held[i][at] = w->held[i][--w->nheld[i]];
	if (below(&w->random, 2))
		o = plat_exchange(&mail[i][below(&w->random, MAIL)], o);
	if (o)
		put(i, o, !below(&w->random, 5), stashed && below(&w->random, 4));
}

static void signalled(int signal)
{
	PRESERVE_ERRNO;
	struct worker *w = self;

	(void)signal;
	if (!w || stopped())
		return;
	w->signals++;
	for (unsigned i = 0; i < CACHES; i++) {
		if (w->stash[i])
			put(i, w->stash[i], true, false);
		w->stash[i] = w->signals % 2
				      ? get(i, USLUB_NOLOCK, w->number + 100, &w->handler_failed[i])
				      : NULL;
	}
}

static void start_timer(struct worker *w)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL };
	struct itimerspec every = { .it_interval.tv_nsec = 300000, .it_value.tv_nsec = 300000 };

#ifdef sigev_notify_thread_id
	event.sigev_notify_thread_id = w->tid;
#else
	event._sigev_un._tid = w->tid;
#endif
	timer_create(CLOCK_MONOTONIC, &event, &w->timer);
	timer_settime(w->timer, 0, &every, NULL);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	sigset_t set;

	self = w;
	plat_store(&w->tid, (pid_t)syscall(SYS_gettid));
	start_timer(w);
	while (!stopped())
		step(w);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	timer_delete(w->timer);
	return NULL;
}

static void *mover_main(void *arg)
{
	uint64_t random = (uintptr_t)arg + 1;
	cpu_set_t set;
	pid_t tid;

	for (; !stopped(); sleep_us(100)) {
		tid = plat_load(&workers[below(&random, nworkers)].tid);
		CPU_ZERO(&set);
		CPU_SET(cpus[below(&random, ncpus)], &set);
		if (tid && !sched_setaffinity(tid, sizeof(set), &set))
			moves++;
	}
	return NULL;
}

static void *shrinker_main(void *arg)
{
	for (; !stopped(); sleep_us(2000))
		uslub_cache_shrink(caches[shrinks++ % CACHES]);
	return arg;
}

/* ---- mistakes ------------------------------------------------------------------------------------- */

static void steal(struct node *n, struct park_shard *shard, uint64_t *random)
{
	struct slab *slab;

	switch (broken) {
	case FREE_MISCOUNTED:
		counters_add(&n->class->counters, counter_of_node(n->id, NODE_FREE_PARKED), 1);
		break;
	case EMPTY_MISCOUNTED:
		plat_fetch_add(&n->parked_empty, 1);
		break;
	case PLAIN_TAKE:
		slab = plat_load(&shard->young);
		sleep_us(1 + below(random, 50));
		if (!slab)
			return;
		plat_store(&shard->young, NULL);
		park_put_back(shard, slab);
		break;
	default:
		slab = park_take(shard);
		if (!slab)
			return;
		if (broken == TWICE) {
			park_put_back(shard, slab);
			park_again(shard, slab);
		} else if (slab->next) {
			park_put_back(shard, slab->next);
		}
	}
}

static void steal_stash(struct stash *st, uint64_t *random)
{
	uint64_t word = plat_load(&st->word);

	if (!word)
		return;
	if (broken == PLAIN_PUT) {
		sleep_us(1 + below(random, 50));
		plat_store(&st->word, word);
	} else {
		plat_exchange(&st->word, 0);
	}
}

static void *thief_main(void *arg)
{
	uint64_t random = (uintptr_t)arg + 7;
	struct node *n = &caches[1]->nodes[0];

	for (; !stopped(); sleep_us(200))
		if (broken >= PLAIN_PUT)
			steal_stash(&caches[1]->stashes[cpus[below(&random, ncpus)]], &random);
		else if (broken)
			steal(n, &n->park.shards[below(&random, n->park.nshards)], &random);
	return NULL;
}

/* ---- before and after ----------------------------------------------------------------------------- */

static void make_caches(void)
{
	static const struct uslub_policy policies[CACHES] = {
		{ .parking = USLUB_POLICY_ON,
		  .park_limit = 2,
		  .sheaf_capacity = 3,
		  .barn_full = 1,
		  .partial_count = USLUB_POLICY_ATOMIC },
		{ .parking = USLUB_POLICY_ON,
		  .park_limit = 6,
		  .sheaf_capacity = USLUB_POLICY_NONE,
		  .partial_count = USLUB_POLICY_PERCPU },
	}, stashing[CACHES] = {
		{ .parking = USLUB_POLICY_ON,
		  .park_limit = 2,
		  .sheaf_capacity = 3,
		  .barn_full = 1,
		  .rcu_stash = 2,
		  .partial_count = USLUB_POLICY_ATOMIC },
		{ .parking = USLUB_POLICY_ON,
		  .park_limit = 6,
		  .sheaf_capacity = 4,
		  .rcu_stash = 20,
		  .prefill_barn = USLUB_POLICY_ON,
		  .partial_count = USLUB_POLICY_PERCPU },
	};

	for (unsigned i = 0; i < CACHES; i++) {
		caches[i] = uslub_cache_create(
			i ? "other" : "tiny sheaves", sizeof(struct object),
			&(struct uslub_cache_args){ .args_size = sizeof(struct uslub_cache_args),
						    .min_partial = 2,
						    .ctor = construct,
						    .rcu = stashed ? &urcu_memb_flavor : NULL,
						    .policy = stashed ? stashing[i]
								      : policies[i] });
		if (!caches[i]) {
			fprintf(stderr, "inject_park: no cache\n");
			exit(2);
		}
	}
}

static uint64_t stat_of(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value = 0;

	uslub_cache_stat(c, which, &value);
	return value;
}

#define STAT(c, name) stat_of(c, USLUB_STAT_##name)

struct walk {
	uint64_t listed, parked, empty, free;
};

#define MANY 1000000 /* a stack that goes round */

static void walk_stack(struct walk *w, const struct slab *slab)
{
	for (; slab && w->parked < MANY; slab = slab->next) {
		if (state_where(slab->state) != SLAB_PARKED)
			found("a slab on a stack does not say that it is parked");
		w->parked++;
		w->empty += !state_inuse(slab->state);
		w->free += slab->objects - state_inuse(slab->state);
	}
}

static void walk_node(struct walk *w, const struct node *n)
{
	const struct slab *slab;

	*w = (struct walk){ 0 };
	list_for_each_entry(slab, &n->partial, link) {
		if (state_where(slab->state) != SLAB_LISTED)
			found("a slab on the list does not say that it is listed");
		w->listed++;
		w->free += slab->objects - state_inuse(slab->state);
	}
	for (unsigned i = 0; i < n->park.nshards; i++) {
		walk_stack(w, n->park.shards[i].young);
		walk_stack(w, n->park.shards[i].old);
	}
}

/* All is quiet, and objects are still in hands. */
static void check_gauges(struct uslub_cache *c, uint64_t failed)
{
	struct node_gauges g;
	struct walk w;

	uslub_cache_barrier_rcu(c);
	plat_lock(&c->close_lock); /* the reclaimer looks at stashes now and then */
	nodes_deferred(c->nodes);
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		walk_node(&w, &c->nodes[n]);
		node_gauges(&c->nodes[n], &g);
		if (w.listed != g.partial)
			found("the list is not as long as it is said to be");
		if (w.parked != park_count(&c->nodes[n].park))
			found("other slabs are parked than are counted");
		if ((int64_t)w.empty != c->nodes[n].parked_empty)
			found("other slabs are empty and parked than are counted");
		if (w.free != g.total_objects - g.objects)
			found("other objects are free than are counted");
	}
	if (STAT(c, park) != STAT(c, unpark_refill) + STAT(c, unpark_list) +
				     STAT(c, unpark_discard) + STAT(c, parked))
		found("slabs were parked that were not unparked and are not parked");
	if (STAT(c, objects) != STAT(c, sheaf_refill) + STAT(c, alloc_slowpath) - failed -
					STAT(c, sheaf_flush) - STAT(c, free_slowpath))
		found("objects are outside of slabs that were not taken out");
	if (STAT(c, stash_put) != STAT(c, stash_get) + STAT(c, stash_trim) + STAT(c, stashed))
		found("other sheaves are stashed than were put there and not taken");
	plat_unlock(&c->close_lock);
}

static void free_all(void)
{
	struct object *o;

	for (unsigned i = 0; i < CACHES; i++) {
		for (unsigned k = 0; k < nworkers; k++) {
			struct worker *w = &workers[k];

			while (w->nheld[i])
				put(i, w->held[i][--w->nheld[i]], false, stashed);
			if (w->stash[i])
				put(i, w->stash[i], false, stashed);
			w->stash[i] = NULL;
		}
		for (unsigned k = 0; k < MAIL; k++) {
			o = plat_exchange(&mail[i][k], NULL);
			if (o)
				put(i, o, false, stashed);
		}
	}
}

static void finish(void)
{
	uint64_t failed[CACHES] = { 0 };

	for (unsigned k = 0; k < nworkers; k++)
		for (unsigned i = 0; i < CACHES; i++)
			failed[i] += workers[k].failed[i] + workers[k].handler_failed[i];
	for (unsigned i = 0; i < CACHES && !wrong; i++)
		check_gauges(caches[i], failed[i]);
	if (wrong)
		return;
	free_all();
	for (unsigned i = 0; i < CACHES && !wrong; i++) {
		uslub_cache_shrink(caches[i]);
		uslub_cache_barrier_rcu(caches[i]);
		uslub_cache_shrink(caches[i]);
		check_gauges(caches[i], failed[i]);
		if (STAT(caches[i], slabs) || STAT(caches[i], objects) || STAT(caches[i], parked))
			found("slabs are left");
		else if (uslub_cache_destroy(caches[i]))
			found("a cache cannot be destroyed");
	}
}

/* ---- a pass --------------------------------------------------------------------------------------- */

static void start_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg)) {
		fprintf(stderr, "inject_park: no more threads\n");
		exit(2);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool pass(unsigned point, uint64_t seed, double seconds)
{
	static const uint32_t loops[] = { 2000, 0, 20000, 200, 6000 };
	static void *(*const others[])(void *) = { mover_main, shrinker_main, thief_main };
	pthread_t other[array_size(others)];
	double end = now() + seconds;
	uint64_t parks = 0, kept = 0, refused = 0;

	make_caches();
	stop = false;
	memset(workers, 0, sizeof(workers));
	plat_inject_hits = 0;
	plat_inject_point = point;
	for (unsigned i = 0; i < nworkers; i++) {
		workers[i].number = i + 1;
		workers[i].random = (seed + i + 1) * 0x9e3779b97f4a7c15u + 1;
		start_thread(&workers[i].thread, worker_main, &workers[i]);
	}
	for (unsigned i = 0; i < array_size(others); i++)
		start_thread(&other[i], others[i], (void *)(uintptr_t)seed);
	for (unsigned turn = 0; now() < end && !stopped(); turn++) {
		plat_store(&plat_inject_loops, loops[turn % array_size(loops)]);
		sleep_us(8000);
		plat_store(&plat_inject_failures, (int)(turn % 3));
		sleep_us(2000);
		plat_store(&plat_inject_failures, -1);
	}
	plat_store(&stop, true);
	for (unsigned i = 0; i < nworkers; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < array_size(others); i++)
		pthread_join(other[i], NULL);
	plat_inject_point = plat_inject_loops = 0;
	for (unsigned i = 0; i < CACHES; i++) {
		parks += STAT(caches[i], park);
		kept += STAT(caches[i], stash_get);
		for (unsigned k = 0; k < nworkers; k++)
			refused += workers[k].failed[i] + workers[k].handler_failed[i];
	}
	if (!wrong)
		finish();
	if (!wrong && !broken && point > SEQ_POINTS && !plat_inject_hits)
		found("the point was never passed");
	printf("%2u %-9s hits %8u  parked %7ju  stashed %6ju  refused %6ju%s%s  %s\n", point,
	       point && points[point] ? points[point]
	       : point		      ? "sequence"
				      : "none",
	       plat_inject_hits, (uintmax_t)parks, (uintmax_t)kept, (uintmax_t)refused,
	       broken ? "  control: " : "", broken ? controls[broken] : "", wrong ? wrong : "ok");
	fflush(stdout);
	return !wrong;
}

/* ---- program -------------------------------------------------------------------------------------- */

static void crashed(int signal)
{
	static const char text[] = "a crash\n", late[] = "it hangs\n";

	if (signal == SIGALRM)
		plat_write(STDOUT_FILENO, late, sizeof(late) - 1);
	else
		plat_write(STDOUT_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

static void catch_signals(double seconds)
{
	struct sigaction action = { .sa_handler = signalled, .sa_flags = SA_RESTART };
	struct sigaction crash = { .sa_handler = crashed };

	sigaction(SIGNAL, &action, NULL);
	sigaction(SIGALRM, &crash, NULL);
	if (broken) {
		sigaction(SIGSEGV, &crash, NULL);
		sigaction(SIGBUS, &crash, NULL);
		sigaction(SIGABRT, &crash, NULL);
	}
	/* who goes round in a stack that is broken does so for ever */
	alarm(broken ? (unsigned)seconds + 20 : (unsigned)(4 * seconds) + 60);
}

static void choose_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_ZERO(&set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && ncpus < min(array_size(cpus), 4u); cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[ncpus++] = cpu;
	if (!ncpus) {
		fprintf(stderr, "inject_park: no CPU to run on\n");
		exit(2);
	}
}

static bool has(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return false;
}

static const char *option(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], name, strlen(name)))
			return argv[i] + strlen(name);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *env = getenv("USLUB_TEST_SECONDS"), *text = option(argc, argv, "--seconds=");
	double seconds = text ? atof(text) : env ? atof(env) : 10;
	unsigned point, first, last, most;
	uint64_t seed;

	text = option(argc, argv, "--broken=");
	broken = text ? (unsigned)atoi(text) : 0;
	text = option(argc, argv, "--seed=");
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	text = option(argc, argv, "--point=");
	point = text ? (unsigned)atoi(text) : 0;
	stashed = has(argc, argv, "--stashed");
	most = stashed ? INJECT_POINTS : POINT_SURPLUS;
	if (seconds <= 0 || broken > CONTROLS || point > most ||
	    (broken >= PLAIN_PUT && !stashed)) {
		fprintf(stderr,
			"usage: inject_park [--stashed] [--seconds=S] [--point=N] [--seed=N] "
			"[--broken=K]\n");
		return 2;
	}
	unsetenv("USLUB_POLICY");
	uslub_start();
	choose_cpus();
	nworkers = min(2 * ncpus + 1, (unsigned)MAX_WORKERS);
	catch_signals(seconds);
	printf("%s, %u CPUs, %u threads, %.0f seconds, seed %ju\n",
	       plat_rseq_mode() ? "rseq" : "compare-exchange", ncpus, nworkers, seconds,
	       (uintmax_t)seed);
	first = point ? point : broken ? 0 : plat_rseq_mode() ? 1 : SEQ_POINTS + 1;
	last = point ? point : broken ? 0 : most;
	for (unsigned i = first; i <= last; i++)
		if (!pass(i, seed + i, seconds / (last - first + 1)))
			return 1;
	printf("%ju moves, %ju shrinks: all is well\n", (uintmax_t)moves, (uintmax_t)shrinks);
	return 0;
}
