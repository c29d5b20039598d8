/* SPDX-License-Identifier: MIT */
/*
 * Fork while other threads are in the middle of everything.
 *
 *   --part=threads  16 threads allocate, free and free by RCU; one forks. Every child allocates 10,000
 *                   objects of each cache, frees half of them by RCU, waits for them, shrinks, and its
 *                   counters add up
 *   --part=readers  the same, with readers that are not registered at the time of a fork, which is what
 *                   the memb flavor asks for
 *   --part=queued   the same, with grace periods of some milliseconds, so that deferred frees are always
 *                   on their way at the time of the fork
 *   --part=bp       the bp flavor, readers anywhere, and its own calls around the fork
 *   --part=handler  a signal handler forks while its own thread allocates; the child allocates in the
 *                   handler, or goes on after it; another thread forks as well
 *   --part=masks    two threads fork at once; both keep their signal masks
 *   --part=vfork    vfork and exec from a program with threads
 */
#include <pthread.h>
#include <sys/wait.h>
#include "flavor.h"
#include "memory.h"

#define CACHES	16
#define KINDS	3
#define THREADS 16
#define HELD	48
#define BULK	24
#define EACH	10000 /* objects of a cache that a child allocates */
#define MINE	64    /* objects that the forking thread holds of each cache */
#define CHILD_S 30    /* seconds after which a child counts as hanging */

/* Threads start in a child: the sanitizer would end the process. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

#ifdef HAVE_URCU_BP
extern const struct rcu_flavor_struct urcu_bp_flavor;
extern void urcu_bp_before_fork(void), urcu_bp_after_fork_parent(void),
	urcu_bp_after_fork_child(void);
static void bp_before(void)
{
	urcu_bp_before_fork();
}
static void bp_parent(void)
{
	urcu_bp_after_fork_parent();
}
static void bp_child(void)
{
	urcu_bp_after_fork_child();
}
#endif

static const struct {
	const char *name;
	size_t size;
	uint64_t capacity;
} kinds[KINDS] = {
	{ "usual", 128, 0 },
	{ "small-sheaves", 64, 7 },
	{ "no-sheaves", 200, USLUB_POLICY_NONE },
};

static struct uslub_cache *caches[KINDS];
static bool stop;
static unsigned at_work;
static bool resting; /* a child is at work: the others leave it some of the machine */
static uint64_t operations, seed;
static double fork_seconds, fork_longest; /* spent in fork() itself */
static pthread_rwlock_t reading = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static void *published;

static void pair_off(uint64_t **objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		objects[i][0] = (uintptr_t)&objects[i];
		objects[i][1] = ~objects[i][0];
	}
}

static void check_pairs(uint64_t *const *objects, unsigned n, const char *whose)
{
	for (unsigned i = 0; i < n; i++)
		if (objects[i][0] != (uintptr_t)&objects[i] || objects[i][1] != ~objects[i][0])
			die("object %u of %u of %s has another owner, too", i, n, whose);
}

static void alloc_some(struct uslub_cache *c, uint64_t **objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		objects[i] = uslub_cache_alloc(c, 0);
		if (!objects[i])
			die("uslub_cache_alloc: %s", strerror(errno));
	}
	pair_off(objects, n);
}

/* ---- threads ---- */

/* A round: alone, in bulk, prefilled; freed at once, in bulk, later. */
static void churn(struct uslub_cache *c, uint64_t *random)
{
	unsigned n = 1 + below(random, HELD), bulk = 1 + below(random, BULK), kept;
	uint64_t *objects[HELD + BULK];
	struct uslub_sheaf *s;

	alloc_some(c, objects, n);
	if (uslub_cache_alloc_bulk(c, 0, bulk, (void **)objects + n))
		die("uslub_cache_alloc_bulk failed");
	s = uslub_cache_prefill_sheaf(c, 0, bulk);
	if (!s)
		die("uslub_cache_prefill_sheaf: %s", strerror(errno));
	pair_off(objects, n + bulk);
	check_pairs(objects, n + bulk, "a thread");
	uslub_cache_return_sheaf(c, 0, s);
	kept = below(random, n + 1);
	for (unsigned i = 0; i < kept; i++)
		uslub_cache_free(c, objects[i]);
	for (unsigned i = kept; i < n; i++)
		uslub_cache_free_rcu(c, objects[i]);
	uslub_cache_free_bulk(c, bulk, (void **)objects + n);
}

static void *churner(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg, n = 0;

	for (; !load(&stop); n++) {
		if (n == 10)
			bump(&at_work, 1);
		while (load(&resting) && !load(&stop))
			pause_us(200);
		churn(caches[below(&random, KINDS)], &random);
		if (below(&random, 64) == 0)
			uslub_cache_shrink(caches[below(&random, KINDS)]);
	}
	bump(&operations, n);
	return NULL;
}

static void read_section(void)
{
	const uint64_t *o;

	reader_enter();
	o = load(&published);
	if (o && peek(o) != 77)
		die("a published object has changed");
	sched_yield();
	if (o && peek(o) != 77)
		die("a published object has changed");
	reader_leave();
}

static void *__attribute__((unused)) reader(void *arg)
{
	flavor.register_thread();
	bump(&at_work, 1);
	while (!load(&stop))
		read_section();
	flavor.unregister_thread();
	return arg;
}

/*
 * With other flavors than bp no thread may be registered at the time of a fork but the forking one: the
 * child would find those of vanished threads in a list.
 */
static void *polite_reader(void *arg)
{
	bump(&at_work, 1);
	while (!load(&stop)) {
		pthread_rwlock_rdlock(&reading);
		flavor.register_thread();
		for (unsigned i = 0; i < 20; i++)
			read_section();
		flavor.unregister_thread();
		pthread_rwlock_unlock(&reading);
	}
	return arg;
}

static void publish(void)
{
	uint64_t *o = uslub_cache_alloc(caches[0], 0);

	if (!o)
		die("uslub_cache_alloc: %s", strerror(errno));
	poke(o, 77);
	uslub_cache_free_rcu(caches[0], swap(&published, o));
}

/* ---- the child ---- */

/* Objects that vanished threads may have taken along, and those they held. */
static uint64_t in_flight(const struct uslub_cache *c)
{
	return THREADS *
	       (HELD + BULK + 2 * STAT(c, sheaf_capacity) + 2 * BULK + STAT(c, objs_per_slab));
}

static void child_counts(struct uslub_cache *c, uint64_t fail_before)
{
	int64_t outside, objects;
	uint64_t most = in_flight(c) + MINE + 1;

	stress_phase = "child: shrink and barrier";
	settle(c);
	objects = (int64_t)STAT(c, objects);
	outside = outside_slabs(c, 0);
	if (objects > (int64_t)most)
		die("child: %s: %ld objects in use, %lu could be", uslub_cache_name(c), objects,
		    most);
	if (objects - outside > (int64_t)most || outside - objects > (int64_t)most)
		die("child: %s: %ld objects in use, counters say %ld", uslub_cache_name(c), objects,
		    outside);
	if (STAT(c, rcu_pending) > most)
		die("child: %s: %lu deferred frees after a barrier", uslub_cache_name(c),
		    STAT(c, rcu_pending));
	if (STAT(c, free_rcu_sheaf_fail) != fail_before)
		die("child: %s: deferred frees found no sheaf", uslub_cache_name(c));
}

/* Allocates and frees in one cache; what it adds to the counters is exact, since nobody else is here. */
static void child_uses(struct uslub_cache *c)
{
	static uint64_t *objects[EACH];
	uint64_t taken, put, fail;

	fail = STAT(c, free_rcu_sheaf_fail);
	taken = STAT(c, alloc_fastpath) + STAT(c, alloc_slowpath);
	stress_phase = "child: allocation";
	alloc_some(c, objects, EACH);
	taken = STAT(c, alloc_fastpath) + STAT(c, alloc_slowpath) - taken;
	if (taken != EACH)
		die("child: %s: %lu allocations counted of %d", uslub_cache_name(c), taken, EACH);
	check_pairs(objects, EACH, "a child");
	stress_phase = "child: barrier before frees";
	uslub_cache_barrier_rcu(c);
	put = STAT(c, free_fastpath) + STAT(c, free_slowpath) + STAT(c, free_rcu_sheaf);
	stress_phase = "child: frees";
	for (unsigned i = 0; i < EACH; i++)
		if (i % 2)
			uslub_cache_free(c, objects[i]);
		else
			uslub_cache_free_rcu(c, objects[i]);
	stress_phase = "child: barrier";
	uslub_cache_barrier_rcu(c);
	put = STAT(c, free_fastpath) + STAT(c, free_slowpath) + STAT(c, free_rcu_sheaf) - put;
	if (put != EACH)
		die("child: %s: %lu frees counted of %d", uslub_cache_name(c), put, EACH);
	if (STAT(c, sheaf_capacity))
		child_counts(c, fail);
}

static void child(uint64_t *(*mine)[MINE])
{
	watchdog(CHILD_S);
	for (unsigned k = 0; k < KINDS; k++)
		child_uses(caches[k]);
	for (unsigned k = 0; k < KINDS; k++)
		check_pairs(mine[k], MINE, "the forking thread");
	_exit(0);
}

/* ---- the parent ---- */

static void reap(pid_t pid)
{
	int status;

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("child %d: status %#x", (int)pid, (unsigned)status);
}

static void create_caches(void)
{
	for (unsigned k = 0; k < KINDS; k++)
		caches[k] = rcu_cache(kinds[k].name, kinds[k].size, kinds[k].capacity);
}

static void destroy_caches(void)
{
	int error;

	stress_phase = "caches are destroyed";
	uslub_cache_free_rcu(caches[0], published);
	for (unsigned k = 0; k < KINDS; k++) {
		settle(caches[k]);
		if (outside_slabs(caches[k], 0) || STAT(caches[k], objects))
			die("%s: %lu objects left, %ld by counters", kinds[k].name,
			    STAT(caches[k], objects), outside_slabs(caches[k], 0));
		error = uslub_cache_destroy(caches[k]);
		if (error)
			die("%s: destroy: %d", kinds[k].name, error);
	}
}

struct plan {
	const char *part;
	const struct rcu_flavor_struct *flavor;
	unsigned threads;
	unsigned least; /* forks */
	unsigned readers;
	void *(*reader)(void *);
	void (*before)(void), (*parent)(void), (*child)(void); /* the flavor's own */
	void (*grace_period)(void);
};

static unsigned forks(const struct plan *plan, double seconds, uint64_t *(*mine)[MINE])
{
	double end = now() + seconds, start, took;
	unsigned n = 0;
	pid_t pid;

	while (now() < end || n < plan->least) {
		publish();
		stress_phase = "forks";
		if (plan->reader == polite_reader)
			pthread_rwlock_wrlock(&reading);
		if (plan->before)
			plan->before();
		start = now();
		pid = fork();
		if (!pid) {
			if (plan->child)
				plan->child();
			child(mine);
		}
		took = now() - start;
		fork_seconds += took;
		if (took > fork_longest)
			fork_longest = took;
		if (plan->parent)
			plan->parent();
		if (plan->reader == polite_reader)
			pthread_rwlock_unlock(&reading);
		store(&resting, n % 8 != 0);
		stress_phase = "waits for a child";
		reap(pid);
		store(&resting, false);
		pause_us(500 + 100 * (n % 8));
		n++;
	}
	return n;
}

static void with_threads(const struct plan *plan, double seconds)
{
	static uint64_t *mine[KINDS][MINE];
	pthread_t thread[THREADS + 4];
	unsigned n;

	flavor_start(plan->flavor);
	store(&watched.before, plan->grace_period);
	create_caches();
	publish();
	for (unsigned k = 0; k < KINDS; k++)
		alloc_some(caches[k], mine[k], MINE);
	for (unsigned i = 0; i < plan->threads + plan->readers; i++)
		if (pthread_create(&thread[i], NULL, i < plan->threads ? churner : plan->reader,
				   (void *)(uintptr_t)(i * 100)))
			die("pthread_create");
	/* A thread that is just being made may hold a lock of the C library's or a sanitizer's malloc. */
	stress_phase = "threads begin";
	while (load(&at_work) < plan->threads + plan->readers)
		pause_us(1000);
	n = forks(plan, seconds, mine);
	stress_phase = "threads end";
	store(&stop, true);
	for (unsigned i = 0; i < plan->threads + plan->readers; i++)
		pthread_join(thread[i], NULL);
	for (unsigned k = 0; k < KINDS; k++) {
		check_pairs(mine[k], MINE, "the forking thread");
		uslub_cache_free_bulk(caches[k], MINE, (void **)mine[k]);
	}
	store(&watched.before, NULL);
	destroy_caches();
	printf("fork %s: %u forks of %.1f ms, at most %.1f, %u threads, %lu rounds, %lu grace "
	       "periods, "
	       "seed %lu\n",
	       plan->part, n, fork_seconds / n * 1e3, fork_longest * 1e3, plan->threads, operations,
	       watched.grace_periods, seed);
}

static void some_ms(void)
{
	pause_us(3000);
}

/* ---- signal masks ---- */

static double masks_end;
static uint64_t masks_forks;

static bool mask_is(const sigset_t *want)
{
	sigset_t is;

	pthread_sigmask(SIG_SETMASK, NULL, &is);
	for (int s = 1; s < 32; s++)
		if (sigismember(&is, s) != sigismember(want, s))
			return false;
	return true;
}

static void *mask_forker(void *arg)
{
	sigset_t mask;
	pid_t pid;

	sigemptyset(&mask);
	sigaddset(&mask, arg ? SIGUSR1 : SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	while (now() < masks_end) {
		pid = fork();
		if (!pid) {
			if (!mask_is(&mask))
				die("a child has another signal mask");
			_exit(0);
		}
		if (!mask_is(&mask))
			die("fork has changed the signal mask of its thread");
		reap(pid);
		bump(&masks_forks, 1);
	}
	return NULL;
}

/* ---- fork in a signal handler ---- */

#define CHILDREN 8 /* at a time */

static struct {
	pid_t pids[CHILDREN];
	volatile sig_atomic_t under_way; /* children not yet waited for */
	volatile sig_atomic_t active, in_child;
	uint64_t forks, went_on;
	timer_t timer;
} handling;

/* What a handler may do: allocations that may fail, and their frees. */
static void handler_child(void)
{
	uint64_t *objects[64];
	unsigned n = 0;

	for (unsigned k = 0; k < KINDS; k++) {
		for (n = 0; n < 64; n++) {
			objects[n] = uslub_cache_alloc(caches[k], USLUB_NOLOCK);
			if (!objects[n])
				break;
		}
		pair_off(objects, n);
		check_pairs(objects, n, "a child in a handler");
		while (n--)
			uslub_cache_free_nolock(caches[k], objects[n]);
	}
	_exit(0);
}

static void forking_handler(int signal)
{
	int saved = errno;
	pid_t pid;

	(void)signal;
	if (!handling.active || handling.in_child || handling.under_way == CHILDREN)
		return;
	stress_phase = "forks in a handler";
	pid = fork();
	if (pid < 0)
		die("fork in a handler: %s", strerror(errno));
	if (!pid) {
		stress_phase = "child in a handler";
		watchdog(CHILD_S);
		if (handling.forks % 2)
			handler_child();
		handling.in_child = true;
		return;
	}
	stress_phase = "allocates under signals";
	handling.pids[handling.under_way++] = pid;
	handling.forks++;
	errno = saved;
}

/* The child of a handler that returned: the interrupted operation ends, then all goes on as usual. */
static void went_on(void)
{
	uint64_t *objects[500];

	stress_phase = "child after a handler";
	for (unsigned k = 0; k < KINDS; k++) {
		alloc_some(caches[k], objects, 500);
		check_pairs(objects, 500, "a child after a handler");
		for (unsigned i = 0; i < 500; i++)
			uslub_cache_free(caches[k], objects[i]);
		if (uslub_cache_shrink(caches[k]))
			die("child after a handler: shrink failed");
	}
	_exit(0);
}

/* With the handler off; the last one may have made us a child. */
static void reap_children(void)
{
	handling.active = false;
	if (handling.in_child)
		went_on();
	while (handling.under_way)
		reap(handling.pids[--handling.under_way]);
}

static void forking_timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	struct itimerspec every = { .it_interval.tv_nsec = 700000, .it_value.tv_nsec = 700000 };
	struct sigaction action = { .sa_handler = forking_handler, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &action, NULL);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &handling.timer) ||
	    timer_settime(handling.timer, 0, &every, NULL))
		die("timer: %s", strerror(errno));
}

static void part_handler(double seconds)
{
	double end = now() + seconds;
	pthread_t thread[5];
	uint64_t random = seed;

	masks_end = end;
	flavor_start(&urcu_memb_flavor);
	create_caches();
	for (unsigned i = 0; i < 5; i++)
		if (pthread_create(&thread[i], NULL, i < 4 ? churner : mask_forker,
				   (void *)(uintptr_t)(i * 100)))
			die("pthread_create");
	forking_timer();
	handling.active = true;
	stress_phase = "allocates under signals";
	while (now() < end) {
		for (unsigned i = 0; i < 20 && !handling.in_child; i++)
			churn(caches[below(&random, KINDS)], &random);
		reap_children();
		handling.active = true;
	}
	reap_children();
	timer_delete(handling.timer);
	stress_phase = "threads end";
	store(&stop, true);
	for (unsigned i = 0; i < 5; i++)
		pthread_join(thread[i], NULL);
	destroy_caches();
	printf("fork handler: %lu forks in a handler, %lu of another thread, %lu rounds, seed "
	       "%lu\n",
	       handling.forks, masks_forks, operations, seed);
}

/* ---- two threads that fork ---- */

static void part_masks(double seconds)
{
	pthread_t thread[2];

	masks_end = now() + seconds;
	flavor_start(&urcu_memb_flavor);
	create_caches();
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, mask_forker, (void *)i))
			die("pthread_create");
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	destroy_caches();
	printf("fork masks: %lu forks of two threads\n", masks_forks);
}

/* ---- vfork ---- */

static void part_vfork(double seconds)
{
	double end = now() + seconds;
	unsigned n = 0, not_there = 0;
	pthread_t thread[4];
	int status;
	pid_t pid;

	flavor_start(&urcu_memb_flavor);
	create_caches();
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, churner, (void *)(uintptr_t)(i * 100)))
			die("pthread_create");
	while (now() < end || n < 3) {
		stress_phase = "vfork";
		pid = vfork();
		if (!pid) {
			execl("/proc/self/exe", "fork", "--part=nothing", (char *)NULL);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			die("vfork: %s", strerror(errno));
		if (!WIFEXITED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != 127))
			die("child of vfork: status %#x", (unsigned)status);
		not_there += WEXITSTATUS(status) == 127;
		n++;
	}
	stress_phase = "threads end";
	store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	destroy_caches();
	printf("fork vfork: %u times vfork and exec (%u without exec), %lu rounds\n", n, not_there,
	       operations);
}

int main(int argc, char **argv)
{
	const char *part = option(argc, argv, "part");
	double seconds = stress_seconds(3);
	struct plan plan = {
		.part = part, .flavor = &urcu_memb_flavor, .threads = THREADS, .least = 3
	};

	seed = stress_seed(argc, argv);
	watchdog(100 + 2 * (unsigned)seconds);
	if (!part)
		die("--part=PART is needed");
	if (!strcmp(part, "nothing"))
		return 0;
	if (emulated() && strcmp(part, "masks") && strcmp(part, "vfork"))
		cannot("an emulator's child of a fork cannot start threads");
	if (!strcmp(part, "handler")) {
		part_handler(seconds);
	} else if (!strcmp(part, "masks")) {
		part_masks(seconds / 2);
	} else if (!strcmp(part, "vfork")) {
		part_vfork(seconds / 2);
	} else if (!strcmp(part, "threads")) {
		plan.least = STRESS_TSAN || STRESS_ASAN ? 20 : 200;
		with_threads(&plan, seconds);
	} else if (!strcmp(part, "readers")) {
		plan.readers = 2;
		plan.reader = polite_reader;
		with_threads(&plan, seconds);
	} else if (!strcmp(part, "queued")) {
		plan.grace_period = some_ms;
		plan.threads = 4;
		with_threads(&plan, seconds);
	} else if (!strcmp(part, "bp")) {
#ifdef HAVE_URCU_BP
		plan.flavor = &urcu_bp_flavor;
		plan.readers = 2;
		plan.reader = reader;
		plan.before = bp_before;
		plan.parent = bp_parent;
		plan.child = bp_child;
		with_threads(&plan, seconds);
#else
		cannot("no bp flavor of liburcu (Debian: liburcu-dev)");
#endif
	} else {
		die("no part %s", part);
	}
	return 0;
}
