/* SPDX-License-Identifier: MIT */
/*
 * The sweep over the injection points of the per-CPU sequences, on the real thing.
 *
 *    inject_sweep [--seconds=S] [--long] [--point=N] [--threads=N] [--seed=N] [--broken=K]
 *
 * 1. What goes on
 *    For each point several threads share a few CPUs and do the sequence that has the point, and
 *all others between, while the point dawdles for 0 to some 20000 turns of a loop. Meanwhile
 *      - a timer of each thread sends it a signal, whose handler itself pops, pushes and flips;
 *      - the mover gives some thread another CPU every 100 us;
 *      - the closer closes slots from outside, takes their sheaves out, scribbles over them, puts
 *others in and opens the slots again;
 *      - a guest, a thread that has left rseq, works on a foreign slot.
 *
 * 2. What must come of it
 *    A bit per object says whether somebody holds it: no object is issued twice. Sheaves that the
 *closer has taken are not written to any more. When all is quiet every object and every sheaf is in
 *one place, and the statistics of percpu.h section 3 are exact to the unit.
 *
 * 3. Without rseq (GLIBC_TUNABLES=glibc.pthread.rseq=0) there are no points. The same goes on once
 *for each sequence, by compare-exchange.
 *
 * 4. Controls. --broken=K puts a mistake in that the sweep must find (see `controls`).
 *
 * Exit status: 0 all is well, 1 something is wrong, 2 bad usage, 77 a control that means nothing
 *here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "platform/platform.h"
#include "machine.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MAX_WORKERS 16
#define MAX_CPUS    4 /* so many are fought over */
#define HELD	    32
#define FEW	    4  /* a thread tries to hold more objects than that */
#define MANY	    16 /* and less than that */
#define STASH	    8  /* objects that a signal handler holds */
#define SIGNAL_NS   150000
#define MOVE_NS	    100000
#define CLOSE_NS    70000
#define SIGNAL	    SIGRTMIN

enum op { POP, PUSH, POP_N, PUSH_N, FLIP_POP, FLIP_PUSH, TAKE, GIVE, ADD, OPS };

static const struct {
	const char *name;
	enum op op;
} points[SEQ_POINTS + 1] = {
	[SEQ_POP_ARMED] = { "pop armed", POP },
	[SEQ_POP_LOADED] = { "pop loaded", POP },
	[SEQ_POP_READY] = { "pop ready", POP },
	[SEQ_PUSH_ARMED] = { "push armed", PUSH },
	[SEQ_PUSH_LOADED] = { "push loaded", PUSH },
	[SEQ_PUSH_READY] = { "push ready", PUSH },
	[SEQ_POP_N_LOADED] = { "pop_n loaded", POP_N },
	[SEQ_POP_N_READY] = { "pop_n ready", POP_N },
	[SEQ_PUSH_N_LOADED] = { "push_n loaded", PUSH_N },
	[SEQ_PUSH_N_READY] = { "push_n ready", PUSH_N },
	[SEQ_FLIP_POP_LOADED] = { "flip_pop loaded", FLIP_POP },
	[SEQ_FLIP_POP_FILLED] = { "flip_pop filled", FLIP_POP },
	[SEQ_FLIP_POP_READY] = { "flip_pop ready", FLIP_POP },
	[SEQ_FLIP_PUSH_LOADED] = { "flip_push loaded", FLIP_PUSH },
	[SEQ_FLIP_PUSH_FILLED] = { "flip_push filled", FLIP_PUSH },
	[SEQ_FLIP_PUSH_READY] = { "flip_push ready", FLIP_PUSH },
	[SEQ_TAKE_LOADED] = { "take_other loaded", TAKE },
	[SEQ_TAKE_READY] = { "take_other ready", TAKE },
	[SEQ_GIVE_LOADED] = { "give_other loaded", GIVE },
	[SEQ_GIVE_READY] = { "give_other ready", GIVE },
	[SEQ_ADD_READY] = { "add ready", ADD },
};

static const char *const op_names[OPS] = { "pop",	 "push",       "pop_n",
					   "push_n",	 "flip_pop",   "flip_push",
					   "take_other", "give_other", "add" };

enum {
	NO_MEMBARRIER = 1,
	NO_SECOND_LOOK,
	FIRST_WORD,
	EARLY_POINTERS,
	FOREIGN_EXCHANGE,
	PLAIN_STORES,
	PLAIN_COUNTER,
	CONTROLS = PLAIN_COUNTER,
};

static const struct {
	const char *what;
	bool needs_rseq;
} controls[CONTROLS + 1] = {
	[NO_MEMBARRIER] = { "the closer issues no membarrier", true },
	[NO_SECOND_LOOK] = { "the closer does not look for stragglers", true },
	[FIRST_WORD] = { "the closer believes the first word it exchanged out", true },
	[EARLY_POINTERS] = { "the closer reads the sheaf pointers before the membarrier", true },
	[FOREIGN_EXCHANGE] = { "pop_n by compare-exchange after sched_getcpu()", true },
	[PLAIN_STORES] = { "pop by plain stores after sched_getcpu()", false },
	[PLAIN_COUNTER] = { "the base is bumped by plain addition", false },
};

/* ---- the world
 * ------------------------------------------------------------------------------------ */

struct counts {
	uint64_t pops, pushes, adds;
};

struct worker {
	pthread_t thread;
	pid_t tid;
	timer_t timer;
	bool guest;
	uint64_t random;
	void *held[HELD];
	unsigned nheld;
	struct uslub_sheaf *hand; /* a sheaf between take and give */
	struct counts counts;
	uint64_t results[SEQ_TWICE + 1]; /* of the sequence under test */

	/* what the signal handler has, and nobody else while it may come */
	uint64_t handler_random;
	void *stash[STASH];
	unsigned nstash;
	struct counts handler_counts;
	uint64_t signals, aborted;
};

struct cell {
	uint64_t n;
} cacheline;

static struct pcs *slots;
static struct percpu_slot *main_slots;
static unsigned nslots;
static struct cell *base_cells, *add_cells;
static unsigned cpus[MAX_CPUS], ncpus;
static bool with_rseq;

static unsigned char *arena; /* object i is arena + 16 * i */
static uint64_t *held_bits;
static unsigned nobjects;

static unsigned char *sheaf_memory;
static unsigned nsheaves, capacity;
static struct uslub_sheaf **depot;
static unsigned ndepot;
static pthread_mutex_t depot_lock = PTHREAD_MUTEX_INITIALIZER;

static struct worker workers[MAX_WORKERS];
static unsigned nworkers;
static __thread struct worker *self;

static enum op target;
static unsigned broken;
static bool stop;
static uint64_t folded, closes, stragglers, moves;

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

static uint64_t random_below(uint64_t *state, uint64_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 11) % n;
}

static struct uslub_sheaf *sheaf_at(unsigned i)
{
	return (struct uslub_sheaf *)(sheaf_memory + i * sheaf_bytes(capacity));
}

/* ---- objects
 * -------------------------------------------------------------------------------------- */

static long object_index(const void *object)
{
	uintptr_t offset = (uintptr_t)object - (uintptr_t)arena;

	return offset % 16 || offset / 16 >= nobjects ? -1 : (long)(offset / 16);
}

static bool is_held(unsigned i)
{
	return plat_load(&held_bits[i / 64]) >> i % 64 & 1;
}

static void note_popped(struct counts *c, void *object)
{
	long i = object_index(object);

	c->pops++;
	if (i < 0)
		found("something was popped that is no object");
	else if (__atomic_fetch_or(&held_bits[i / 64], 1ull << i % 64, __ATOMIC_ACQ_REL) >> i % 64 &
		 1)
		found("an object was issued twice");
}

/* Before the push: from then on anybody may pop it. */
static void let_go(void *object)
{
	long i = object_index(object);

	__atomic_fetch_and(&held_bits[i / 64], ~(1ull << i % 64), __ATOMIC_ACQ_REL);
}

/* The push was not done after all. */
static void keep(void *object)
{
	long i = object_index(object);

	__atomic_fetch_or(&held_bits[i / 64], 1ull << i % 64, __ATOMIC_ACQ_REL);
}

/* ---- sheaves in nobody's slot
 * --------------------------------------------------------------------- */

static struct uslub_sheaf *depot_get(uint64_t *random)
{
	struct uslub_sheaf *s = NULL;
	unsigned i;

	pthread_mutex_lock(&depot_lock);
	if (ndepot) {
		i = (unsigned)random_below(random, ndepot);
		s = depot[i];
		depot[i] = depot[--ndepot];
	}
	pthread_mutex_unlock(&depot_lock);
	return s;
}

static void depot_put(struct uslub_sheaf *s)
{
	pthread_mutex_lock(&depot_lock);
	if (ndepot < nsheaves)
		depot[ndepot++] = s;
	else
		found("there are more sheaves than there were");
	pthread_mutex_unlock(&depot_lock);
}

/* ---- what threads do
 * ------------------------------------------------------------------------------ */

static void add_here(struct cell *cells, uint64_t n)
{
	unsigned cpu;

	do
		cpu = plat_slot();
	while (seq_add(cpu, &cells[cpu].n, n) != SEQ_DONE);
}

static void dawdle(unsigned turns)
{
	while (turns--)
		__asm__ volatile("" : : : "memory");
}

static void bump_base(int jump)
{
	volatile uint64_t *cell;
	uint64_t n;

	if (broken != PLAIN_COUNTER) {
		add_here(base_cells, (uint64_t)(int64_t)jump);
		return;
	}
	cell = &base_cells[plat_slot()].n;
	n = *cell;
	dawdle(plat_load(&plat_inject_loops));
	*cell = n + (uint64_t)(int64_t)jump;
}

static struct percpu_slot *slot_of(unsigned cpu)
{
	return &slots[cpu].main;
}

/* pop and push themselves where there is rseq, else what stands for them. */
static enum seq_result pop_one(void **object)
{
	unsigned cpu, n;

	*object = seq_pop(&main_slots, &plat_seq_limit, 0);
	if (*object)
		return SEQ_DONE;
	cpu = plat_slot();
	return cpu < plat_load(&plat_seq_limit) ? SEQ_EMPTY
						: seq_pop_n(cpu, slot_of(cpu), 1, object, &n);
}

static enum seq_result push_one(void *object)
{
	enum seq_result result;
	unsigned cpu, n;

	result = seq_push(&main_slots, &plat_seq_limit, object);
	if (result != SEQ_EMPTY)
		return result;
	cpu = plat_slot();
	return cpu < plat_load(&plat_seq_limit) ? SEQ_EMPTY
						: seq_push_n(cpu, slot_of(cpu), 1, &object, &n);
}

static enum seq_result flip_pop(void **object)
{
	unsigned cpu = plat_slot();
	enum seq_result result;
	int jump;

	result = seq_flip_pop(cpu, slot_of(cpu), object, &jump);
	if (result == SEQ_DONE)
		bump_base(jump);
	return result;
}

static enum seq_result flip_push(void *object)
{
	unsigned cpu = plat_slot();
	enum seq_result result;
	int jump;

	result = seq_flip_push(cpu, slot_of(cpu), object, &jump);
	if (result == SEQ_DONE)
		bump_base(jump);
	return result;
}

static enum seq_result do_pop(struct worker *w, enum seq_result (*pop)(void **))
{
	enum seq_result result;
	void *object;

	if (w->nheld == HELD)
		return SEQ_EMPTY;
	result = pop(&object);
	if (result == SEQ_DONE) {
		note_popped(&w->counts, object);
		w->held[w->nheld++] = object;
	}
	return result;
}

static enum seq_result do_push(struct worker *w, enum seq_result (*push)(void *))
{
	enum seq_result result;
	void *object;

	if (!w->nheld)
		return SEQ_EMPTY;
	object = w->held[w->nheld - 1];
	let_go(object);
	result = push(object);
	if (result == SEQ_DONE) {
		w->counts.pushes++;
		w->nheld--;
	} else {
		keep(object);
	}
	return result;
}

static enum seq_result do_pop_n(struct worker *w, unsigned n)
{
	unsigned cpu = plat_slot(), done;
	enum seq_result result;

	result = seq_pop_n(cpu, slot_of(cpu), min(n, HELD - w->nheld), w->held + w->nheld, &done);
	for (; result == SEQ_DONE && done; done--)
		note_popped(&w->counts, w->held[w->nheld++]);
	return result;
}

static enum seq_result do_push_n(struct worker *w, unsigned n)
{
	unsigned cpu = plat_slot(), done = 0;
	enum seq_result result;

	n = min(n, w->nheld);
	for (unsigned i = 0; i < n; i++)
		let_go(w->held[w->nheld - n + i]);
	result = seq_push_n(cpu, slot_of(cpu), n, w->held + w->nheld - n, &done);
	if (result != SEQ_DONE)
		done = 0;
	/* those that went in were the first of the n */
	for (unsigned i = done; i < n; i++)
		keep(w->held[w->nheld - n + i]);
	memmove(w->held + w->nheld - n, w->held + w->nheld - n + done, (n - done) * sizeof(void *));
	w->nheld -= done;
	w->counts.pushes += done;
	return result;
}

static enum seq_result do_take(struct worker *w)
{
	unsigned cpu = plat_slot();
	enum seq_result result;
	struct uslub_sheaf *s;

	if (w->hand)
		return SEQ_EMPTY;
	result = seq_take_other(cpu, slot_of(cpu), &s);
	if (result == SEQ_DONE)
		w->hand = s;
	return result;
}

static enum seq_result do_give(struct worker *w)
{
	unsigned cpu = plat_slot();
	enum seq_result result;

	if (!w->hand)
		w->hand = depot_get(&w->random);
	if (!w->hand)
		return SEQ_EMPTY;
	result = seq_give_other(cpu, slot_of(cpu), w->hand);
	if (result == SEQ_DONE)
		w->hand = NULL;
	return result;
}

static enum seq_result do_add(struct worker *w)
{
	unsigned cpu = plat_slot();
	enum seq_result result = seq_add(cpu, &add_cells[cpu].n, 3);

	if (result == SEQ_DONE)
		w->counts.adds += 3;
	return result;
}

static enum seq_result do_op(struct worker *w, enum op op)
{
	unsigned n = 1 + (unsigned)random_below(&w->random, capacity);

	switch (op) {
	case POP:
		return do_pop(w, pop_one);
	case PUSH:
		return do_push(w, push_one);
	case POP_N:
		return do_pop_n(w, n);
	case PUSH_N:
		return do_push_n(w, n);
	case FLIP_POP:
		do_pop_n(w, HELD);
		return do_pop(w, flip_pop);
	case FLIP_PUSH:
		do_push_n(w, HELD);
		return do_push(w, flip_push);
	case TAKE:
		return do_take(w);
	case GIVE:
		return do_give(w);
	default:
		return do_add(w);
	}
}

/* Another spare, so that flips become possible. */
static void change_spare(struct worker *w)
{
	if (w->hand) {
		depot_put(w->hand);
		w->hand = NULL;
	}
	if (do_take(w) == SEQ_DONE) {
		depot_put(w->hand);
		w->hand = NULL;
	}
	do_give(w);
}

/* As the slow paths of the library do it. */
static void allocate(struct worker *w)
{
	if (do_pop(w, pop_one) == SEQ_EMPTY && do_pop(w, flip_pop) == SEQ_EMPTY)
		change_spare(w);
}

static void release(struct worker *w)
{
	if (do_push(w, push_one) == SEQ_EMPTY && do_push(w, flip_push) == SEQ_EMPTY)
		change_spare(w);
}

/* ---- mistakes
 * ------------------------------------------------------------------------------------- */

static void *plain_pop(struct percpu_slot *slot)
{
	volatile uint64_t *word = &slot->word;
	uint64_t w = *word;
	void *object;

	if (!word_avail(w))
		return NULL;
	object = slot->sheaf[word_which(w)]->objects[word_avail(w) - 1];
	dawdle(plat_load(&plat_inject_loops));
	*word = w + WORD_POP;
	return object;
}

static void make_mistake(struct worker *w)
{
	struct percpu_slot *slot = slot_of((unsigned)sched_getcpu());
	void *object = NULL;
	unsigned n;

	if (w->nheld == HELD)
		return;
	if (broken == FOREIGN_EXCHANGE) {
		if (shared_pop_n(slot, 1, &object, &n) != SEQ_DONE)
			object = NULL;
	} else if (broken == PLAIN_STORES) {
		object = plain_pop(slot);
	}
	if (object) {
		note_popped(&w->counts, object);
		w->held[w->nheld++] = object;
	}
}

/* ---- threads
 * -------------------------------------------------------------------------------------- */

/* The sequence under test, in a state in which it can succeed. */
static void do_target(struct worker *w)
{
	if (target == GIVE && w->hand) {
		depot_put(w->hand);
		w->hand = NULL;
	}
	if (target == GIVE)
		do_take(w);
	w->results[do_op(w, target)]++;
	if (target == TAKE)
		do_give(w);
	else if ((target == FLIP_POP || target == FLIP_PUSH) && !random_below(&w->random, 4))
		change_spare(w);
}

static void step(struct worker *w)
{
	uint64_t what = random_below(&w->random, 8);

	if (what < 4)
		do_target(w);
	else if (what == 4)
		do_op(w, (enum op)random_below(&w->random, OPS));
	else if (random_below(&w->random, 2))
		release(w);
	else
		allocate(w);
	for (unsigned i = 0; i < MANY && w->nheld > MANY; i++)
		release(w);
	for (unsigned i = 0; i < MANY && w->nheld < FEW; i++)
		allocate(w);
	if (broken)
		make_mistake(w);
}

static void sleep_ns(long ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	nanosleep(&t, NULL);
}

/* The thread gives up its registration; the C library does not need it. */
static void leave_rseq(void)
{
	char *area = (char *)(uintptr_t)plat_self() + __rseq_offset;

	syscall(SYS_rseq, area, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
}

static void start_timer(struct worker *w)
{
	struct itimerspec t = { .it_value.tv_nsec = SIGNAL_NS, .it_interval.tv_nsec = SIGNAL_NS };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL };

	event.sigev_notify_thread_id = w->tid;
	if (timer_create(CLOCK_MONOTONIC, &event, &w->timer)) {
		found("timer_create() failed");
		return;
	}
	timer_settime(w->timer, 0, &t, NULL);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	sigset_t set;

	self = w;
	if (w->guest)
		leave_rseq();
	plat_store(&w->tid, gettid());
	start_timer(w);
	while (!stopped())
		step(w);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	timer_delete(w->timer);
	return NULL;
}

extern const char __start___rseq_failure[] __attribute__((weak, visibility("hidden")));
extern const char __stop___rseq_failure[] __attribute__((weak, visibility("hidden")));

/* Did the signal abort a sequence? Then the kernel has sent the thread to an abort handler. */
static bool was_aborted(void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
	uintptr_t ip = (uintptr_t)m->gregs[REG_RIP];
#else
	uintptr_t ip = m->pc;
#endif
	return ip >= (uintptr_t)__start___rseq_failure && ip < (uintptr_t)__stop___rseq_failure;
}

/* Pops and pushes in the middle of whatever the thread is at. */
static void signalled(int signal, siginfo_t *info, void *context)
{
	PRESERVE_ERRNO;
	struct worker *w = self;
	void *object;

	(void)signal;
	(void)info;
	if (!w || stopped())
		return;
	w->signals++;
	w->aborted += with_rseq && was_aborted(context);
	if (w->nstash < STASH && random_below(&w->handler_random, 2)) {
		if (pop_one(&object) != SEQ_DONE && flip_pop(&object) != SEQ_DONE)
			return;
		note_popped(&w->handler_counts, object);
		w->stash[w->nstash++] = object;
	} else if (w->nstash) {
		object = w->stash[w->nstash - 1];
		let_go(object);
		if (push_one(object) == SEQ_DONE || flip_push(object) == SEQ_DONE) {
			w->handler_counts.pushes++;
			w->nstash--;
		} else {
			keep(object);
		}
	}
}

static void *mover_main(void *arg)
{
	uint64_t random = *(uint64_t *)arg;
	cpu_set_t set;
	pid_t tid;

	while (!stopped() && ncpus > 1) {
		tid = plat_load(&workers[random_below(&random, nworkers)].tid);
		CPU_ZERO(&set);
		CPU_SET(cpus[random_below(&random, ncpus)], &set);
		if (tid && !sched_setaffinity(tid, sizeof(set), &set))
			moves++;
		sleep_ns(MOVE_NS);
	}
	return NULL;
}

/* ---- the closer
 * ----------------------------------------------------------------------------------- */

struct closing {
	struct percpu_slot *slot;
	uint64_t first, word; /* exchanged out first, and last */
	struct uslub_sheaf *early[2];
	bool mine;
};

static bool set_closed(struct closing *c)
{
	uint64_t w = plat_load_acquire(&c->slot->word);

	while (!stopped()) {
		if (w & WORD_WHO) {
			plat_yield();
			w = plat_load_acquire(&c->slot->word);
		} else if (plat_cas(&c->slot->word, &w, word_with(w, 0, 0) | WORD_WHO_REMOTE)) {
			c->word = w;
			return true;
		}
	}
	return false;
}

static bool still_closed(const struct closing *c)
{
	return broken == NO_SECOND_LOOK ||
	       (plat_load_acquire(&c->slot->word) & WORD_WHO) == WORD_WHO_REMOTE;
}

/*
 * Closes all n slots, or as many as it can before the end. It dawdles before the membarrier: that
 * is where stragglers commit.
 */
static void close_slots(struct closing *c, unsigned n, uint64_t *random)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		c[i].mine = set_closed(&c[i]);
		c[i].first = c[i].word;
		c[i].early[0] = plat_load(&c[i].slot->sheaf[0]);
		c[i].early[1] = plat_load(&c[i].slot->sheaf[1]);
	}
	do {
		dawdle((unsigned)random_below(random, 4000));
		if (broken != NO_MEMBARRIER && plat_membarrier())
			found("membarrier failed");
		left = 0;
		for (unsigned i = 0; i < n; i++) {
			if (!c[i].mine || still_closed(&c[i]))
				continue;
			stragglers++;
			c[i].mine = set_closed(&c[i]);
			left += c[i].mine;
		}
	} while (left);
}

#define SCRIBBLE 0xdead0000u

/* A sheaf that was taken out is nobody's: what is written there stays. */
static void scribble(struct uslub_sheaf *s, unsigned turns)
{
	void *objects[SHEAF_CAPACITY_MAX];
	uint32_t fill;

	if (!s)
		return;
	fill = s->fill;
	memcpy(objects, s->objects, capacity * sizeof(void *));
	s->fill = SCRIBBLE;
	for (unsigned i = 0; i < capacity; i++)
		s->objects[i] = (void *)(uintptr_t)(SCRIBBLE + i);
	dawdle(turns);
	if (plat_load(&s->fill) != SCRIBBLE)
		found("the fill of a sheaf was written to after its close");
	for (unsigned i = 0; i < capacity; i++)
		if (plat_load(&s->objects[i]) != (void *)(uintptr_t)(SCRIBBLE + i))
			found("an object was written to a sheaf after its close");
	s->fill = fill;
	memcpy(s->objects, objects, capacity * sizeof(void *));
}

/* Takes everything out of a closed slot, puts something else in and opens it. */
static void exchange_sheaves(struct closing *c, uint64_t *random)
{
	uint64_t w = broken == FIRST_WORD ? c->first : c->word;
	unsigned turns = (unsigned)random_below(random, 20000);
	struct uslub_sheaf *s[2], *main;
	int avail;

	for (unsigned i = 0; i < 2; i++)
		s[i] = broken == EARLY_POINTERS ? c->early[i] : plat_load(&c->slot->sheaf[i]);
	main = s[word_which(w)];
	avail = (int)word_avail(w);
	if (main)
		main->fill = (uint32_t)avail;
	for (unsigned i = 0; i < 2; i++) {
		scribble(s[i], turns);
		if (s[i])
			depot_put(s[i]);
		plat_store(&c->slot->sheaf[i], random_below(random, 4) ? depot_get(random) : NULL);
	}
	if (random_below(random, 2)) {
		folded += word_allocs(w);
		w &= ~0ull >> WORD_ALLOC_BITS;
	}
	main = c->slot->sheaf[word_which(w)];
	w = main ? word_with(w, main->fill, sheaf_room(main)) : word_with(w, 0, 0);
	plat_store_release(&c->slot->word, w);
	bump_base((int)word_avail(w) - avail);
	closes++;
}

static void *closer_main(void *arg)
{
	struct closing c[MAX_CPUS + 1];
	uint64_t random = *(uint64_t *)arg;
	unsigned n;

	while (!stopped()) {
		n = 0;
		for (unsigned i = 0; i < ncpus; i++)
			if (random_below(&random, 2))
				c[n++].slot = slot_of(cpus[i]);
		if (!random_below(&random, 4)) /* a foreign one */
			c[n++].slot = slot_of(plat_ncpu() +
					      (unsigned)random_below(&random, PLAT_FOREIGN_SLOTS));
		close_slots(c, n, &random);
		for (unsigned i = 0; i < n; i++)
			if (c[i].mine)
				exchange_sheaves(&c[i], &random);
		sleep_ns(CLOSE_NS);
	}
	return NULL;
}

/* ---- before and after
 * ----------------------------------------------------------------------------- */

static void *zeroed(size_t n, size_t size)
{
	void *p = aligned_alloc(CACHE_LINE, align_up(max(n * size, 1ul), CACHE_LINE));

	if (!p) {
		fprintf(stderr, "inject_sweep: out of memory\n");
		exit(2);
	}
	return memset(p, 0, align_up(max(n * size, 1ul), CACHE_LINE));
}

/* Two sheaves for every slot, some more in the depot, all of them half full. */
static void make_world(unsigned sheaf_capacity, uint64_t seed)
{
	capacity = sheaf_capacity;
	nsheaves = 2 * nslots + 8 * MAX_WORKERS;
	nobjects = nsheaves * capacity / 2;
	slots = zeroed(nslots, sizeof(*slots));
	main_slots = &slots[0].main;
	base_cells = zeroed(nslots, sizeof(*base_cells));
	add_cells = zeroed(nslots, sizeof(*add_cells));
	arena = zeroed(nobjects, 16);
	held_bits = zeroed((nobjects + 63) / 64, 8);
	sheaf_memory = zeroed(nsheaves, sheaf_bytes(capacity));
	depot = zeroed(nsheaves, sizeof(*depot));
	ndepot = 0;
	for (unsigned i = 0; i < nsheaves; i++) {
		struct uslub_sheaf *s = sheaf_at(i);

		s->capacity = capacity;
		s->fill = capacity / 2;
		for (unsigned k = 0; k < capacity / 2; k++)
			s->objects[k] = arena + 16 * (i * (capacity / 2) + k);
		if (i < 2 * nslots)
			slots[i / 2].main.sheaf[i % 2] = s;
		else
			depot[ndepot++] = s;
	}
	for (unsigned i = 0; i < nslots; i++) {
		slots[i].main.word = word_with(0, capacity / 2, capacity - capacity / 2);
		base_cells[i].n = capacity / 2;
	}
	for (unsigned i = 0; i < nworkers; i++)
		workers[i] = (struct worker){
			.random = (seed + i) * 0x9e3779b97f4a7c15u + 1,
			.handler_random = (seed + i) * 0xbf58476d1ce4e5b9u + 1,
			.guest = with_rseq && i == nworkers - 1,
		};
	folded = closes = stragglers = moves = 0;
	stop = false;
}

static void free_world(void)
{
	free(slots);
	free(base_cells);
	free(add_cells);
	free(arena);
	free(held_bits);
	free(sheaf_memory);
	free(depot);
}

static unsigned seen_objects, seen_sheaves;

static void count_objects(void *const *objects, unsigned n, bool held)
{
	static unsigned char *seen;

	if (!seen_objects) {
		free(seen);
		seen = zeroed(nobjects, 1);
	}
	for (unsigned i = 0; i < n && !wrong; i++) {
		long index = object_index(objects[i]);

		if (index < 0)
			found("at the end something is held that is no object");
		else if (seen[index]++)
			found("at the end an object is in two places");
		else if (is_held((unsigned)index) != held)
			found(held ? "at the end somebody holds a free object"
				   : "at the end a held object is free");
	}
	seen_objects += n;
}

static void count_sheaf(const struct uslub_sheaf *s, unsigned fill)
{
	if (!s)
		return;
	seen_sheaves++;
	if (fill > capacity || s->capacity != capacity)
		found("at the end a sheaf's header is wrong");
	else
		count_objects(s->objects, fill, false);
}

static void check_places(void)
{
	seen_objects = seen_sheaves = 0;
	for (unsigned i = 0; i < nslots; i++) {
		const struct percpu_slot *slot = slot_of(i);
		const struct uslub_sheaf *main = slot->sheaf[word_which(slot->word)];
		const struct uslub_sheaf *other = slot->sheaf[!word_which(slot->word)];

		if (slot->word & WORD_WHO)
			found("at the end a slot is closed");
		if (word_avail(slot->word) + word_room(slot->word) != (main ? capacity : 0))
			found("at the end avail and room do not make a sheaf");
		count_sheaf(main, word_avail(slot->word));
		count_sheaf(other, other ? other->fill : 0);
	}
	for (unsigned i = 0; i < ndepot; i++)
		count_sheaf(depot[i], depot[i]->fill);
	for (unsigned i = 0; i < nworkers; i++) {
		count_objects(workers[i].held, workers[i].nheld, true);
		count_objects(workers[i].stash, workers[i].nstash, true);
		count_sheaf(workers[i].hand, workers[i].hand ? workers[i].hand->fill : 0);
	}
	if (seen_sheaves != nsheaves)
		found("at the end a sheaf is lost or in two places");
	if (seen_objects != nobjects)
		found("at the end an object is lost");
}

/* percpu.h section 3, to the unit */
static void check_statistics(void)
{
	uint64_t pops = 0, pushes = 0, adds = 0, allocs = folded, avails = 0, base = 0, added = 0;

	for (unsigned i = 0; i < nworkers; i++) {
		pops += workers[i].counts.pops + workers[i].handler_counts.pops;
		pushes += workers[i].counts.pushes + workers[i].handler_counts.pushes;
		adds += workers[i].counts.adds;
	}
	for (unsigned i = 0; i < nslots; i++) {
		allocs += word_allocs(slots[i].main.word);
		avails += word_avail(slots[i].main.word);
		base += base_cells[i].n;
		added += add_cells[i].n;
	}
	if (pops != allocs)
		found("the number of pops is wrong");
	if (pushes != allocs + avails - base)
		found("the number of pushes is wrong");
	if (adds != added)
		found("a sum of additions is wrong");
}

/* ---- a pass
 * --------------------------------------------------------------------------------------- */

static void start_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg)) {
		fprintf(stderr, "inject_sweep: no more threads\n");
		exit(2);
	}
}

static void run_threads(uint64_t seed, double seconds)
{
	static const uint32_t loops[] = { 2000, 0, 20000, 200, 6000 };
	uint64_t mover_seed = seed * 3 + 1, closer_seed = seed * 5 + 1;
	pthread_t mover, closer;
	struct timespec t;
	double end, now;

	start_thread(&mover, mover_main, &mover_seed);
	start_thread(&closer, closer_main, &closer_seed);
	for (unsigned i = 0; i < nworkers; i++)
		start_thread(&workers[i].thread, worker_main, &workers[i]);
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	end = now + seconds;
	for (unsigned turn = 0; now < end && !stopped(); turn++) {
		plat_store(&plat_inject_loops, loops[turn % array_size(loops)]);
		sleep_ns(20000000);
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	}
	plat_store(&stop, true);
	for (unsigned i = 0; i < nworkers; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_join(mover, NULL);
	pthread_join(closer, NULL);
}

static struct {
	uint64_t hits, aborted, signals, moves, closes, stragglers;
	unsigned passes;
} sum;

/* One point (or without points: one sequence), one line. */
static bool pass(unsigned point, enum op op, uint64_t seed, double seconds)
{
	uint64_t results[SEQ_TWICE + 1] = { 0 }, signals = 0, aborted = 0;

	target = op;
	make_world(op == POP || op == PUSH || op == ADD ? 8 : 4, seed);
	plat_inject_hits = 0;
	plat_inject_point = point;
	run_threads(seed, seconds);
	plat_inject_point = plat_inject_loops = 0;
	for (unsigned i = 0; i < nworkers; i++) {
		signals += workers[i].signals;
		aborted += workers[i].aborted;
		for (unsigned k = 0; k < 3; k++)
			results[k] += workers[i].results[k];
	}
	if (!wrong) {
		check_places();
		check_statistics();
	}
	if (!wrong && !broken && point && !plat_inject_hits)
		found("the point was never passed");
	printf("%2u %-18s hits %8u  done %8ju no %7ju again %6ju  signals %6ju aborting %6ju"
	       "  moves %5ju  closes %5ju stragglers %4ju  %s\n",
	       point, point ? points[point].name : op_names[op], plat_inject_hits,
	       (uintmax_t)results[SEQ_DONE], (uintmax_t)results[SEQ_EMPTY],
	       (uintmax_t)results[SEQ_AGAIN], (uintmax_t)signals, (uintmax_t)aborted,
	       (uintmax_t)moves, (uintmax_t)closes, (uintmax_t)stragglers, wrong ? wrong : "ok");
	fflush(stdout);
	sum.hits += plat_inject_hits;
	sum.aborted += aborted;
	sum.signals += signals;
	sum.moves += moves;
	sum.closes += closes;
	sum.stragglers += stragglers;
	sum.passes++;
	free_world();
	return !wrong;
}

/* ---- program
 * -------------------------------------------------------------------------------------- */

static void crashed(int signal)
{
	static const char text[] = "a sequence touched memory that is not there\n";
	static const char late[] = "the sweep hangs\n";

	if (signal == SIGALRM)
		plat_write(STDOUT_FILENO, late, sizeof(late) - 1);
	else
		plat_write(STDOUT_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

static void catch_signals(double seconds)
{
	struct sigaction action = { .sa_sigaction = signalled,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction crash = { .sa_handler = crashed };

	sigaction(SIGNAL, &action, NULL);
	sigaction(SIGALRM, &crash, NULL);
	if (broken) {
		sigaction(SIGSEGV, &crash, NULL);
		sigaction(SIGBUS, &crash, NULL);
	}
	alarm((unsigned)(4 * seconds) + 60);
}

static void choose_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		CPU_ZERO(&set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && cpu < plat_ncpu() && ncpus < MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[ncpus++] = cpu;
	CPU_ZERO(&set);
	for (unsigned i = 0; i < ncpus; i++)
		CPU_SET(cpus[i], &set);
	if (!ncpus || sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "inject_sweep: no CPU to run on\n");
		exit(2);
	}
}

static void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: inject_sweep [--seconds=S] [--long] [--point=N] [--threads=N] [--seed=N]\n"
		"                    [--broken=K]\n"
		"seconds are for all points together: 16, with --long 120, or "
		"USLUB_TEST_SECONDS\n");
	for (unsigned i = 1; i <= CONTROLS; i++)
		fprintf(status ? stderr : stdout, "  --broken=%u  %s\n", i, controls[i].what);
	exit(status);
}

struct options {
	double seconds;
	unsigned point, threads;
	uint64_t seed;
};

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "long", no_argument, NULL, 'l' },
		{ "point", required_argument, NULL, 'p' },
		{ "threads", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 'r' },
		{ "broken", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *env = getenv("USLUB_TEST_SECONDS");
	int c;

	*o = (struct options){ .seconds = env ? atof(env) : 16, .seed = (uint64_t)time(NULL) };
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			o->seconds = atof(optarg);
			break;
		case 'l':
			o->seconds = 120;
			break;
		case 'p':
			o->point = (unsigned)atoi(optarg);
			break;
		case 't':
			o->threads = (unsigned)atoi(optarg);
			break;
		case 'r':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			broken = (unsigned)atoi(optarg);
			break;
		default:
			usage(c == 'h' ? 0 : 2);
		}
	}
	if (optind < argc || o->seconds <= 0 || o->point > SEQ_POINTS || broken > CONTROLS ||
	    o->threads > MAX_WORKERS)
		usage(2);
}

static void sweep(const struct options *o)
{
	unsigned n = o->point ? 1 : with_rseq ? SEQ_POINTS : OPS;
	unsigned first = o->point ? o->point : 1;

	for (unsigned i = first; i < first + n; i++) {
		enum op op = with_rseq || o->point ? points[i].op : (enum op)(i - 1);

		if (!pass(with_rseq ? i : 0, op, o->seed + i, o->seconds / n))
			return;
	}
	if (with_rseq && !broken && sum.signals > 1000 && !sum.aborted)
		found("no signal ever aborted a sequence");
}

int main(int argc, char **argv)
{
	struct options o;

	parse(argc, argv, &o);
	plat_start();
	with_rseq = plat_rseq_mode();
	if (broken && controls[broken].needs_rseq && !with_rseq) {
		printf("skipped: no mistake without rseq: %s\n", controls[broken].what);
		return 77;
	}
	choose_cpus();
	nslots = plat_nslots();
	nworkers = o.threads ? o.threads : min(2 * ncpus + 1, (unsigned)MAX_WORKERS);
	catch_signals(o.seconds);
	printf("%s, %u CPUs, %u threads, %.0f seconds, seed %ju%s%s\n",
	       with_rseq ? "rseq" : "compare-exchange", ncpus, nworkers, o.seconds,
	       (uintmax_t)o.seed, broken ? ", control: " : "", broken ? controls[broken].what : "");
	sweep(&o);
	printf("%u passes: %ju hits, %ju signals of which %ju aborted a sequence, %ju moves, "
	       "%ju closes, %ju stragglers: %s\n",
	       sum.passes, (uintmax_t)sum.hits, (uintmax_t)sum.signals, (uintmax_t)sum.aborted,
	       (uintmax_t)sum.moves, (uintmax_t)sum.closes, (uintmax_t)sum.stragglers,
	       wrong ? wrong : "all is well");
	return wrong ? 1 : 0;
}
