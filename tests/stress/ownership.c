/* SPDX-License-Identifier: MIT */
/*
 * Every object has one owner: nothing is issued twice, nothing is lost, nothing comes back early.
 *
 * More threads than CPUs do everything the interface offers at random, while
 *  - a thread moves them from CPU to CPU all the time,
 *  - one shrinks, so that per-CPU sheaves are closed and emptied under their owners,
 *  - one waits for deferred frees in a loop,
 *  - a timer's signal lands in each of them, and its handler allocates and frees,
 *  - one of them has no registration for restartable sequences and uses the foreign slots,
 *  - one reads all statistics, which must stay within what there can be.
 *
 * A bitmap over all addresses says who is owned: issuing tests and sets the object's bit, freeing tests
 * and clears it. Objects carry a pattern that is checked while they are owned, and by readers that found
 * them in a shared slot for as long as they stay in their read-side section. A deferred object notes which
 * readers were in a section; when it is issued again, they must have left that one.
 *
 * In the end all bits are clear, the counters add up to the unit, and the caches can be destroyed.
 *
 *   --seed=N        the random choices
 *   --parked        with parking in all caches
 *   --stashed       with stashes of RCU sheaves
 *   --broken=KIND   must fail: twice (an object is handed out while it has an owner), lost (one is never
 *                   freed), early (retired objects are freed at once)
 *   --control       run all of the broken ones, and pass if each failed as it should
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include "flavor.h"

#define CACHES	    3
#define READERS	    3
#define WORKERS_MAX 64
#define HELD	    192 /* objects a worker holds of each cache */
#define BULK	    80
#define PUBLISHED   16
#define MAIL	    64
#define RETIRED	    0x5245544952454421u

struct object {
	uint64_t stamp; /* of its present owner; the body follows from it */
	uint64_t retired;
	uint64_t seen[READERS]; /* of readers: their section's number at the time of retirement */
	uint64_t body[];
};

struct cache {
	struct uslub_cache *c;
	size_t words;	   /* of the body */
	uint64_t capacity; /* of sheaves */
	struct object *published[PUBLISHED];
	struct object *mail[MAIL];
};

/* What a worker did with one cache, for the sums in the end. The handler has one of its own. */
struct tally {
	uint64_t issued;   /* by calls that allocate */
	uint64_t drawn;	   /* from prefilled sheaves */
	uint64_t freed;	   /* at once or later */
	uint64_t failed;   /* calls for one object that got none */
	uint64_t prefills; /* that a sheaf of normal size serves */
	uint64_t returns;  /* of such */
	uint64_t oversize; /* objects put into larger ones */
};

struct worker {
	pthread_t thread;
	pid_t tid;
	unsigned number;
	uint64_t chance;
	uint64_t stamp;
	unsigned nheld[CACHES];
	struct object *held[CACHES][HELD];
	struct tally tally[CACHES];
	/* of its signal handler */
	bool armed;
	uint64_t handler_chance;
	uint64_t handler_stamp;
	struct object *stash[CACHES][4];
	struct tally handler_tally[CACHES];
	uint64_t signals;
	timer_t timer;
};

static const struct kind {
	const char *name;
	size_t size;
	struct uslub_policy policy;
} kinds[CACHES] = {
	{ "usual", 96, { .parking = USLUB_POLICY_OFF } },
	{ "tiny-sheaves",
	  256,
	  { .sheaf_capacity = 3,
	    .parking = USLUB_POLICY_ON,
	    .park_limit = 1,
	    .partial_count = USLUB_POLICY_ATOMIC } },
	{ "no-sheaves",
	  120,
	  { .sheaf_capacity = USLUB_POLICY_NONE,
	    .parking = USLUB_POLICY_OFF,
	    .partial_count = USLUB_POLICY_SCAN } },
}, parked_kinds[CACHES] = {
	{ "usual",
	  96,
	  { .parking = USLUB_POLICY_ON, .partial_count = USLUB_POLICY_SCAN } },
	{ "tiny-sheaves",
	  256,
	  { .sheaf_capacity = 3,
	    .parking = USLUB_POLICY_ON,
	    .park_limit = 1,
	    .partial_count = USLUB_POLICY_ATOMIC } },
	{ "no-sheaves",
	  120,
	  { .sheaf_capacity = USLUB_POLICY_NONE,
	    .parking = USLUB_POLICY_ON,
	    .park_limit = 4 } },
};

static const struct kind stashed_kinds[CACHES] = {
	{ "usual", 96, { .rcu_stash = 6 } },
	{ "tiny-sheaves",
	  256,
	  { .sheaf_capacity = 3,
	    .rcu_stash = 3,
	    .prefill_barn = USLUB_POLICY_ON,
	    .barn_full = 2 } },
	{ "tiny-stashes",
	  120,
	  { .sheaf_capacity = 2, .rcu_stash = 1, .parking = USLUB_POLICY_ON, .park_limit = 2 } },
};

static struct cache caches[CACHES];
static struct worker workers[WORKERS_MAX];
static unsigned nworkers;
static bool stop_workers, stop_others;
static uint64_t hops, shrinks, barriers, sections, unregistered, readings;
static const char *broken = "";
static int cpus[CPU_SETSIZE];
static unsigned ncpus;
static __thread struct worker *self;

static struct {
	uint64_t section; /* odd while in one */
} __attribute__((aligned(64))) readers[READERS];

/* ---- the bitmap: a bit for 8 bytes, in pieces of 64 MiB of address space ---- */

#define PIECE_SHIFT 26
#define PIECES	    1024 /* a hash table; far more than can be in use */

static struct piece {
	uint64_t key;
	uint64_t *bits;
} pieces[PIECES];

static uint64_t *piece_of(uintptr_t p)
{
	uint64_t key = (p >> PIECE_SHIFT) + 1, none = 0, *bits;
	size_t bytes = ((size_t)1 << PIECE_SHIFT) / 64;

	for (unsigned i = key * 0x9e3779b97f4a7c15u >> 54;; i = (i + 1) % PIECES) {
		/* One look: between two of them another thread might claim it for the same piece. */
		none = load(&pieces[i].key);
		if (!none)
			__atomic_compare_exchange_n(&pieces[i].key, &none, key, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		if (none && none != key)
			continue;
		bits = load(&pieces[i].bits);
		if (bits)
			return bits;
		/* The loser's mapping stays unused; a handler must not wait for a lock. */
		bits = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		none = 0;
		if (bits == MAP_FAILED)
			die("no memory for the bitmap");
		if (__atomic_compare_exchange_n((uintptr_t *)&pieces[i].bits, &none,
						(uintptr_t)bits, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return bits;
		return load(&pieces[i].bits);
	}
}

static bool bit_turn(const void *object, bool set)
{
	uintptr_t p = (uintptr_t)object;
	size_t n = (p & (((uintptr_t)1 << PIECE_SHIFT) - 1)) / 8;
	uint64_t *word = piece_of(p) + n / 64, bit = 1ull << n % 64;

	return (set ? __atomic_fetch_or(word, bit, __ATOMIC_ACQ_REL)
		    : __atomic_fetch_and(word, ~bit, __ATOMIC_ACQ_REL)) &
	       bit;
}

static uint64_t bits_set(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < PIECES; i++)
		for (size_t k = 0; pieces[i].bits && k < ((size_t)1 << PIECE_SHIFT) / 512; k++)
			n += (unsigned)__builtin_popcountll(pieces[i].bits[k]);
	return n;
}

/* ---- objects ---- */

static void stamp(const struct cache *k, struct object *o, uint64_t with)
{
	poke(&o->stamp, with);
	poke(&o->retired, 0);
	for (size_t i = 0; i < k->words; i++)
		poke(&o->body[i], with * 0x9e3779b97f4a7c15u + i);
}

static void check(const struct cache *k, const struct object *o, uint64_t with, const char *who)
{
	if (peek(&o->stamp) != with)
		die("%s: object %p of %s was stamped %#lx, now %#lx", who, (const void *)o,
		    uslub_cache_name(k->c), with, peek(&o->stamp));
	for (size_t i = 0; i < k->words; i++)
		if (peek(&o->body[i]) != with * 0x9e3779b97f4a7c15u + i)
			die("%s: word %zu of object %p of %s has changed: %#lx", who, i,
			    (const void *)o, uslub_cache_name(k->c), peek(&o->body[i]));
}

/* An object comes from the library. */
static void issue(const struct cache *k, struct object *o, uint64_t *next)
{
	uint64_t seen;

	if (bit_turn(o, true))
		die("object %p of %s was issued twice", (void *)o, uslub_cache_name(k->c));
	if (peek(&o->retired) == RETIRED)
		for (unsigned i = 0; i < READERS; i++) {
			seen = peek(&o->seen[i]);
			if (seen & 1 &&
			    __atomic_load_n(&readers[i].section, __ATOMIC_SEQ_CST) == seen)
				die("object %p of %s was issued within the grace period", (void *)o,
				    uslub_cache_name(k->c));
		}
	*next += 1 << 8;
	stamp(k, o, *next);
}

/* And is about to go back. */
static void give_up(const struct cache *k, struct object *o)
{
	check(k, o, peek(&o->stamp), "owner");
	if (!bit_turn(o, false))
		die("object %p of %s has no owner", (void *)o, uslub_cache_name(k->c));
}

static void retire(const struct cache *k, struct object *o)
{
	give_up(k, o);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < READERS; i++)
		poke(&o->seen[i], __atomic_load_n(&readers[i].section, __ATOMIC_SEQ_CST));
	poke(&o->retired, RETIRED);
	if (!strcmp(broken, "early"))
		uslub_cache_free(k->c, o);
	else
		uslub_cache_free_rcu(k->c, o);
}

/* ---- what workers do ---- */

static void hold(struct worker *w, unsigned i, struct object *o)
{
	struct object **slot = &w->held[i][below(&w->chance, HELD)];

	if (w->nheld[i] < HELD) {
		w->held[i][w->nheld[i]++] = o;
		return;
	}
	give_up(&caches[i], *slot);
	uslub_cache_free(caches[i].c, *slot);
	w->tally[i].freed++;
	*slot = o;
}

static struct object *let_go(struct worker *w, unsigned i)
{
	struct object **slot, *o;

	if (!w->nheld[i])
		return NULL;
	slot = &w->held[i][below(&w->chance, w->nheld[i])];
	o = *slot;
	*slot = w->held[i][--w->nheld[i]];
	return o;
}

static struct object *get(struct worker *w, unsigned i, unsigned flags)
{
	struct cache *k = &caches[i];
	struct object *o;

	if (flags & USLUB_NOLOCK)
		o = uslub_cache_alloc(k->c, flags);
	else
		o = uslub_cache_alloc_node(k->c, flags, (int)below(&w->chance, 2) - 1);
	if (!o) {
		w->tally[i].failed++;
		if (flags & (USLUB_NOWAIT | USLUB_NOLOCK) && errno == ENOMEM)
			return NULL;
		die("uslub_cache_alloc: %s", strerror(errno));
	}
	for (size_t b = 0; flags & USLUB_ZERO && b < k->words; b++)
		if (peek(&o->body[b]))
			die("object %p of %s is not zeroed", (void *)o, uslub_cache_name(k->c));
	w->tally[i].issued++;
	if (!strcmp(broken, "twice") && w->nheld[i] && !below(&w->chance, 5000))
		issue(k, w->held[i][0], &w->stamp);
	issue(k, o, &w->stamp);
	return o;
}

static void do_alloc(struct worker *w, unsigned i)
{
	static const unsigned flags[] = { 0, 0, 0, USLUB_ZERO, USLUB_NOWAIT, USLUB_NOLOCK };
	struct object *o = get(w, i, flags[below(&w->chance, 6)]);

	if (o)
		hold(w, i, o);
}

static void do_free(struct worker *w, unsigned i)
{
	struct object *o = let_go(w, i);

	if (!o)
		return;
	if (!strcmp(broken, "lost") && !below(&w->chance, 5000))
		return;
	w->tally[i].freed++;
	give_up(&caches[i], o);
	if (below(&w->chance, 8))
		uslub_cache_free(caches[i].c, o);
	else
		uslub_cache_free_nolock(caches[i].c, o);
}

static void do_bulk(struct worker *w, unsigned i)
{
	void *objects[BULK];
	unsigned n = 1 + below(&w->chance, BULK), kept;
	int error = uslub_cache_alloc_bulk(caches[i].c, 0, n, objects);

	if (error)
		die("uslub_cache_alloc_bulk: %d", error);
	w->tally[i].issued += n;
	for (unsigned b = 0; b < n; b++)
		issue(&caches[i], objects[b], &w->stamp);
	for (kept = 0; kept < n && w->nheld[i] < HELD; kept++)
		hold(w, i, objects[kept]);
	for (unsigned b = kept; b < n; b++)
		give_up(&caches[i], objects[b]);
	uslub_cache_free_bulk(caches[i].c, n - kept, objects + kept);
	w->tally[i].freed += n - kept;
}

static void do_free_bulk(struct worker *w, unsigned i)
{
	void *objects[BULK];
	unsigned want = below(&w->chance, BULK), n = 0;

	while (n < want && w->nheld[i]) {
		objects[n] = let_go(w, i);
		give_up(&caches[i], objects[n++]);
	}
	uslub_cache_free_bulk(caches[i].c, n, objects);
	w->tally[i].freed += n;
}

static void draw(struct worker *w, unsigned i, struct uslub_sheaf *s, unsigned n)
{
	struct object *o;

	while (n--) {
		o = uslub_cache_alloc_from_sheaf(caches[i].c, 0, s);
		if (!o)
			die("%s: a prefilled sheaf failed", uslub_cache_name(caches[i].c));
		w->tally[i].drawn++;
		issue(&caches[i], o, &w->stamp);
		hold(w, i, o);
	}
}

/* Whether a prefill or refill went beyond the capacity; counts what was put in. */
static bool count_oversize(struct worker *w, unsigned i, struct uslub_sheaf *s, unsigned n,
			   unsigned before)
{
	bool oversize = n > caches[i].capacity;

	if (oversize)
		w->tally[i].oversize += uslub_sheaf_size(s) - before;
	else
		w->tally[i].prefills++;
	return oversize;
}

static void do_prefill(struct worker *w, unsigned i)
{
	unsigned n = 1 + below(&w->chance, below(&w->chance, 8) ? 20 : 150), more, size;
	struct uslub_cache *c = caches[i].c;
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, n), *old;
	bool oversize;

	if (!s || uslub_sheaf_size(s) < n)
		die("%s: prefill of %u: %s", uslub_cache_name(c), n, s ? "short" : strerror(errno));
	oversize = count_oversize(w, i, s, n, 0);
	draw(w, i, s, below(&w->chance, n + 1));
	if (!below(&w->chance, 3)) {
		more = 1 + below(&w->chance, 60);
		size = uslub_sheaf_size(s);
		old = s;
		if (uslub_cache_refill_sheaf(c, 0, &s, more) || uslub_sheaf_size(s) < more)
			die("%s: refill to %u failed", uslub_cache_name(c), more);
		if (size < more && oversize && s == old) {
			w->tally[i].oversize += uslub_sheaf_size(s) - size;
		} else if (size < more && more > caches[i].capacity) {
			/* a larger one instead, and the old one was returned */
			w->tally[i].returns += !oversize;
			oversize = count_oversize(w, i, s, more, 0);
		}
		draw(w, i, s, more);
	}
	w->tally[i].returns += !oversize;
	uslub_cache_return_sheaf(c, 0, s);
}

static void do_publish(struct worker *w, unsigned i)
{
	struct object *o = let_go(w, i);

	if (!o)
		return;
	o = swap(&caches[i].published[below(&w->chance, PUBLISHED)], o);
	if (!o)
		return;
	w->tally[i].freed++;
	retire(&caches[i], o);
}

static void do_retire(struct worker *w, unsigned i)
{
	struct object *o = let_go(w, i);

	if (!o)
		return;
	w->tally[i].freed++;
	retire(&caches[i], o);
}

static void do_mail(struct worker *w, unsigned i)
{
	struct object *o = let_go(w, i);

	o = swap(&caches[i].mail[below(&w->chance, MAIL)], o);
	if (o)
		hold(w, i, o);
}

static void work(struct worker *w)
{
	static void (*const doing[])(struct worker *, unsigned) = {
		do_alloc, do_alloc,	do_alloc,   do_alloc,	do_free,    do_free,   do_free,
		do_bulk,  do_free_bulk, do_prefill, do_publish, do_publish, do_retire, do_mail,
	};

	for (unsigned n = 0; n < 16; n++)
		doing[below(&w->chance, sizeof(doing) / sizeof(*doing))](w,
									 below(&w->chance, CACHES));
}

static void empty_hands(struct worker *w)
{
	struct object *o;

	for (unsigned i = 0; i < CACHES; i++) {
		while ((o = let_go(w, i))) {
			give_up(&caches[i], o);
			uslub_cache_free(caches[i].c, o);
			w->tally[i].freed++;
		}
		for (unsigned s = 0; s < 4; s++) {
			o = w->stash[i][s];
			if (!o)
				continue;
			give_up(&caches[i], o);
			uslub_cache_free(caches[i].c, o);
			w->handler_tally[i].freed++;
		}
	}
}

/* ---- the signal handler ---- */

static void handler_one(struct worker *w, unsigned i)
{
	struct object **slot = &w->stash[i][below(&w->handler_chance, 4)], *o = *slot;
	struct tally *t = &w->handler_tally[i];

	if (o) {
		give_up(&caches[i], o);
		uslub_cache_free_nolock(caches[i].c, o);
		t->freed++;
		*slot = NULL;
		return;
	}
	o = uslub_cache_alloc(caches[i].c, USLUB_NOLOCK);
	if (!o) {
		t->failed++;
		return;
	}
	t->issued++;
	issue(&caches[i], o, &w->handler_stamp);
	*slot = o;
}

static void handler_sheaf(struct worker *w, unsigned i)
{
	struct tally *t = &w->handler_tally[i];
	struct uslub_sheaf *s;
	struct object *o;

	if (!caches[i].capacity)
		return;
	s = uslub_cache_prefill_sheaf(caches[i].c, USLUB_NOLOCK, 2);
	t->prefills++;
	if (!s)
		return;
	o = uslub_cache_alloc_from_sheaf(caches[i].c, 0, s);
	if (!o)
		die("a prefilled sheaf failed in a handler");
	t->drawn++;
	issue(&caches[i], o, &w->handler_stamp);
	t->returns++;
	uslub_cache_return_sheaf(caches[i].c, USLUB_NOLOCK, s);
	give_up(&caches[i], o);
	uslub_cache_free_nolock(caches[i].c, o);
	t->freed++;
}

static void handler_bulk(struct worker *w, unsigned i)
{
	struct tally *t = &w->handler_tally[i];
	void *objects[5];

	if (uslub_cache_alloc_bulk(caches[i].c, USLUB_NOLOCK, 5, objects))
		return;
	for (unsigned b = 0; b < 5; b++) {
		issue(&caches[i], objects[b], &w->handler_stamp);
		give_up(&caches[i], objects[b]);
		uslub_cache_free_nolock(caches[i].c, objects[b]);
	}
	t->issued += 5;
	t->freed += 5;
}

static void handler(int signal)
{
	struct worker *w = self;
	int saved = errno;

	(void)signal;
	if (!w || !w->armed)
		return;
	w->signals++;
	for (unsigned i = 0; i < CACHES; i++) {
		handler_one(w, i);
		if (!below(&w->handler_chance, 4))
			handler_sheaf(w, i);
		if (!below(&w->handler_chance, 4))
			handler_bulk(w, i);
	}
	errno = saved;
}

static void arm(struct worker *w)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	struct itimerspec every = { .it_interval.tv_nsec = 300000, .it_value.tv_nsec = 300000 };

#ifdef sigev_notify_thread_id
	event.sigev_notify_thread_id = w->tid;
#else
	event._sigev_un._tid = w->tid;
#endif
	w->armed = !timer_create(CLOCK_MONOTONIC, &event, &w->timer);
	if (w->armed)
		timer_settime(w->timer, 0, &every, NULL);
}

static void disarm(struct worker *w)
{
	sigset_t set;

	if (!w->armed)
		return;
	timer_delete(w->timer);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* ---- threads ---- */

/* Takes the thread's registration away. The size is not known for sure: glibc says at least how much. */
static bool unregister(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	for (unsigned size = 32; __rseq_size && size <= 1024; size += 4)
		if (!syscall(SYS_rseq, area, size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
			return true;
	return false;
}

static void *worker(void *arg)
{
	struct worker *w = arg;

	self = w;
	if (w->number == 0 && unregister())
		bump(&unregistered, 1);
	store(&w->tid, (pid_t)syscall(SYS_gettid));
	arm(w);
	while (!load(&stop_workers))
		work(w);
	disarm(w);
	empty_hands(w);
	store(&w->tid, 0);
	return NULL;
}

static void *reader(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	uint64_t chance = number * 77u + 1, n = 0, with;
	const struct cache *k;
	const struct object *o;

	urcu_memb_register_thread();
	for (; !load(&stop_others); n++) {
		k = &caches[below(&chance, CACHES)];
		reader_enter();
		__atomic_fetch_add(&readers[number].section, 1, __ATOMIC_SEQ_CST);
		o = load(&k->published[below(&chance, PUBLISHED)]);
		if (o) {
			with = peek(&o->stamp);
			check(k, o, with, "reader");
			if (n % 64 == 0)
				pause_us(500);
			else if (n % 8 == 0)
				sched_yield();
			check(k, o, with, "reader");
		}
		__atomic_fetch_add(&readers[number].section, 1, __ATOMIC_SEQ_CST);
		reader_leave();
	}
	urcu_memb_unregister_thread();
	bump(&sections, n);
	return NULL;
}

static void *hopper(void *arg)
{
	uint64_t chance = 5;
	cpu_set_t set;
	pid_t tid;

	while (!load(&stop_others)) {
		for (unsigned i = 0; i < nworkers; i++) {
			tid = load(&workers[i].tid);
			if (!tid)
				continue;
			CPU_ZERO(&set);
			CPU_SET(cpus[below(&chance, ncpus)], &set);
			if (!sched_setaffinity(tid, sizeof(set), &set))
				hops++;
		}
		pause_us(100);
	}
	return arg;
}

static void *shrinker(void *arg)
{
	int error;

	for (; !load(&stop_others); shrinks++) {
		error = uslub_cache_shrink(caches[shrinks % CACHES].c);
		if (error)
			die("uslub_cache_shrink: %d", error);
		pause_us(50);
	}
	return arg;
}

static void *waiter(void *arg)
{
	for (; !load(&stop_others); barriers++)
		uslub_cache_barrier_rcu(caches[barriers % CACHES].c);
	return arg;
}

/* Nothing that is counted ever shrinks, and nothing is more than what was ever made. */
static void *spectator(void *arg)
{
	static uint64_t before[CACHES][USLUB_STAT_COUNT], is[USLUB_STAT_COUNT];
	uint64_t slabs, objects;
	const char *name;

	for (; !load(&stop_others); readings++) {
		const struct uslub_cache *c = caches[readings % CACHES].c;

		for (int i = 0; i < USLUB_STAT_COUNT; i++) {
			is[i] = stat_of(c, i);
			if (uslub_stat_kind(i) != USLUB_STAT_KIND_COUNTER)
				continue;
			if (is[i] < before[readings % CACHES][i])
				die("%s: %s went back from %lu to %lu", uslub_cache_name(c),
				    uslub_stat_name(i), before[readings % CACHES][i], is[i]);
			before[readings % CACHES][i] = is[i];
		}
		name = uslub_cache_name(c);
		slabs = STAT(c, alloc_slab);
		objects = slabs * is[USLUB_STAT_objs_per_slab];
		if (is[USLUB_STAT_objects] > objects || is[USLUB_STAT_objects_partial] > objects ||
		    is[USLUB_STAT_total_objects] > objects)
			die("%s: %lu objects, %lu in partial slabs, %lu in all, but there were %lu",
			    name, is[USLUB_STAT_objects], is[USLUB_STAT_objects_partial],
			    is[USLUB_STAT_total_objects], objects);
		if (is[USLUB_STAT_slabs] > slabs || is[USLUB_STAT_partial] > slabs ||
		    is[USLUB_STAT_parked] > slabs)
			die("%s: %lu slabs, %lu partial, %lu parked, but there were %lu", name,
			    is[USLUB_STAT_slabs], is[USLUB_STAT_partial], is[USLUB_STAT_parked],
			    slabs);
		pause_us(100);
	}
	return arg;
}

/* ---- in the end ---- */

static void equal(const struct cache *k, const char *what, uint64_t is, uint64_t should)
{
	if (is != should)
		die("%s: %s is %ld, should be %ld", uslub_cache_name(k->c), what, (long)is,
		    (long)should);
}

static struct tally sum_up(unsigned i)
{
	struct tally sum = { 0 }, t;

	for (unsigned n = 0; n < 2 * nworkers; n++) {
		t = n & 1 ? workers[n / 2].handler_tally[i] : workers[n / 2].tally[i];
		sum.issued += t.issued;
		sum.drawn += t.drawn;
		sum.freed += t.freed;
		sum.failed += t.failed;
		sum.prefills += t.prefills;
		sum.returns += t.returns;
		sum.oversize += t.oversize;
	}
	return sum;
}

/*
 * A bulk allocation that fails puts back what it took, and so does a call for another node's memory: which
 * counts on both sides.
 */
static void check_counters(const struct cache *k, const struct tally *t)
{
	uint64_t taken = STAT(k->c, alloc_fastpath) + STAT(k->c, alloc_slowpath);
	uint64_t put = STAT(k->c, free_fastpath) + STAT(k->c, free_slowpath) +
		       STAT(k->c, free_rcu_sheaf);

	equal(k, "issued + drawn - freed", t->issued + t->drawn - t->freed, 0);
	equal(k, "objects taken and put back", taken - t->issued - t->failed - t->oversize,
	      put - t->freed);
	if (k->capacity) {
		equal(k, "prefills",
		      STAT(k->c, sheaf_prefill_fast) + STAT(k->c, sheaf_prefill_slow), t->prefills);
		equal(k, "returns", STAT(k->c, sheaf_return_fast) + STAT(k->c, sheaf_return_slow),
		      t->returns);
	}
	equal(k, "objects outside slabs by counters", (uint64_t)outside_slabs(k->c, t->failed), 0);
	equal(k, "sheaves", STAT(k->c, sheaf_alloc) - STAT(k->c, sheaf_free), 0);
	equal(k, "objects", STAT(k->c, objects), 0);
	equal(k, "objects_partial", STAT(k->c, objects_partial), 0);
	equal(k, "slabs", STAT(k->c, slabs), 0);
	equal(k, "total_objects", STAT(k->c, total_objects), 0);
	equal(k, "partial", STAT(k->c, partial), 0);
	equal(k, "parked", STAT(k->c, parked), 0);
	equal(k, "rcu_pending", STAT(k->c, rcu_pending), 0);
	equal(k, "stashed", STAT(k->c, stashed), 0);
	equal(k, "sheaves that were stashed", STAT(k->c, stash_put),
	      STAT(k->c, stash_get) + STAT(k->c, stash_trim));
}

/* What any-context frees left behind is freed by whoever goes to the slabs and may wait. */
static void free_deferred(const struct cache *k, struct tally *t)
{
	struct uslub_sheaf *s;
	struct object *o;

	if (k->capacity) {
		s = uslub_cache_prefill_sheaf(k->c, 0, (unsigned)k->capacity + 1);
		t->oversize += uslub_sheaf_size(s);
		uslub_cache_return_sheaf(k->c, 0, s);
		return;
	}
	o = uslub_cache_alloc(k->c, 0);
	uslub_cache_free(k->c, o);
	t->issued++;
	t->freed++;
}

/* Nobody does anything any more, and sheaves and stacks are as they were left. */
static void check_gauges(const struct cache *k, const struct tally *t)
{
	equal(k, "slabs parked and unparked, and those that still are",
	      STAT(k->c, unpark_refill) + STAT(k->c, unpark_list) + STAT(k->c, unpark_discard) +
		      STAT(k->c, parked),
	      STAT(k->c, park));
	/* The reclaimer may just be looking at what is stashed. */
	for (unsigned tries = 0; STAT(k->c, stashed) && tries < 5; tries++) {
		if (STAT(k->c, objects) == (uint64_t)outside_slabs(k->c, t->failed))
			break;
		pause_us(50000);
	}
	equal(k, "objects", STAT(k->c, objects), (uint64_t)outside_slabs(k->c, t->failed));
	/* after a reading which may have listed all that was parked */
	if (STAT(k->c, partial) + STAT(k->c, parked) > STAT(k->c, slabs))
		die("%s: more slabs are partial or parked than there are", uslub_cache_name(k->c));
}

/* What lies in shared places. */
static uint64_t clear_shared(struct cache *k)
{
	uint64_t n = 0;
	struct object *o;

	for (unsigned i = 0; i < PUBLISHED + MAIL; i++) {
		o = i < PUBLISHED ? k->published[i] : k->mail[i - PUBLISHED];
		if (!o)
			continue;
		give_up(k, o);
		uslub_cache_free(k->c, o);
		n++;
	}
	return n;
}

static void finish(uint64_t *drains, uint64_t *parks, uint64_t *stashes, struct tally *all)
{
	struct tally t[CACHES];
	int error;

	for (unsigned i = 0; i < CACHES; i++) {
		t[i] = sum_up(i);
		t[i].freed += clear_shared(&caches[i]);
	}
	if (bits_set())
		die("%lu objects are lost", bits_set());
	for (unsigned i = 0; i < CACHES; i++) {
		uslub_cache_barrier_rcu(caches[i].c);
		free_deferred(&caches[i], &t[i]);
		check_gauges(&caches[i], &t[i]);
		settle(caches[i].c);
		*parks += STAT(caches[i].c, park);
		*stashes += STAT(caches[i].c, stash_get);
		*drains += STAT(caches[i].c, cpu_drain);
		all->issued += t[i].issued + t[i].drawn;
		all->failed += t[i].failed;
		check_counters(&caches[i], &t[i]);
		error = uslub_cache_destroy(caches[i].c);
		if (error)
			die("cache %u: destroy: %d", i, error);
	}
}

/* ---- all ---- */

#define OTHERS 4

static void run(const struct kind *kind, uint64_t seed, double seconds)
{
	static void *(*const others[OTHERS])(void *) = { hopper, shrinker, waiter, spectator };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	pthread_t other[OTHERS + READERS];
	uint64_t signals = 0, drains = 0, parks = 0, stashes = 0, rseq;
	struct tally all = { 0 };

	flavor_start(&urcu_memb_flavor);
	sigaction(SIGUSR1, &action, NULL);
	ncpus = cpus_allowed(cpus, CPU_SETSIZE);
	nworkers = ncpus * 2 < 8 ? 8 : ncpus * 2 > WORKERS_MAX ? WORKERS_MAX : ncpus * 2;
	for (unsigned i = 0; i < CACHES; i++) {
		caches[i].c = rcu_cache_like(kind[i].name, kind[i].size, &kind[i].policy);
		caches[i].words = (kind[i].size - sizeof(struct object)) / sizeof(caches[i].words);
		caches[i].capacity = STAT(caches[i].c, sheaf_capacity);
	}
	rseq = STAT(caches[0].c, rseq);
	stress_phase = "threads run";
	for (unsigned i = 0; i < nworkers; i++) {
		workers[i].number = i;
		workers[i].chance = seed + i * 1000;
		workers[i].handler_chance = ~workers[i].chance;
		workers[i].stamp = i | 0x40;
		workers[i].handler_stamp = i | 0x80;
		if (pthread_create(&workers[i].thread, NULL, worker, &workers[i]))
			die("pthread_create");
	}
	for (unsigned i = 0; i < OTHERS + READERS; i++)
		if (pthread_create(&other[i], NULL, i < OTHERS ? others[i] : reader,
				   (void *)(uintptr_t)(i - OTHERS)))
			die("pthread_create");
	pause_us((unsigned)(seconds * 1e6));

	stress_phase = "workers end";
	store(&stop_workers, true);
	for (unsigned i = 0; i < nworkers; i++) {
		pthread_join(workers[i].thread, NULL);
		signals += workers[i].signals;
	}
	stress_phase = "other threads end";
	store(&stop_others, true);
	for (unsigned i = 0; i < OTHERS + READERS; i++)
		pthread_join(other[i], NULL);
	stress_phase = "caches are destroyed";
	finish(&drains, &parks, &stashes, &all);
	printf("ownership: %u threads on %u CPUs, %lu issued (%lu calls refused), %lu drains, %lu "
	       "hops, "
	       "%lu signals, %lu shrinks, %lu barriers, %lu reads, %lu readings, %lu unregistered, "
	       "%lu parked, %lu stashed; rseq %lu, "
	       "seed "
	       "%lu\n",
	       nworkers, ncpus, all.issued, all.failed, drains, hops, signals, shrinks, barriers,
	       sections, readings, unregistered, parks, stashes, rseq, seed);
}

/* Whether a run with a planted fault says `message` and fails. */
static bool fails(const char *kind, const char *message, uint64_t seed)
{
	struct heard h;
	int status;

	if (stress_fork(&h)) {
		broken = kind;
		watchdog(60);
		run(kinds, seed, 2);
		_exit(0);
	}
	status = stress_hear(&h);
	printf("ownership --broken=%s: %s", kind, *h.text ? h.text : "nothing was found\n");
	/* a sanitizer may be faster */
	return status && (strstr(h.text, message) || strstr(h.text, "Sanitizer"));
}

int main(int argc, char **argv)
{
	uint64_t seed = stress_seed(argc, argv);
	double seconds = stress_seconds(3);

	if (option(argc, argv, "broken"))
		broken = option(argc, argv, "broken");
	if (option(argc, argv, "control"))
		return !(fails("twice", "issued twice", seed) && fails("lost", "are lost", seed) &&
			 fails("early", "FAILED", seed));
	watchdog(100 + 2 * (unsigned)seconds);
	run(option(argc, argv, "parked")    ? parked_kinds
	    : option(argc, argv, "stashed") ? stashed_kinds
					    : kinds,
	    seed, seconds);
	return 0;
}
