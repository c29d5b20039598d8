/* SPDX-License-Identifier: MIT */
/*
 * Who runs.
 *
 * 1. To measure
 *    Each CPU has a clock. The one with the lowest clock runs, CPUs with equal clocks by their number, until
 *    its clock passes that of the next: so accesses happen in the order of virtual time, and no CPU ever
 *    sees something from its future. CPUs that have something to do are in a heap; those that have not are
 *    idle until somebody wakes a thread of theirs. Several threads of a CPU take turns of SLICE; who holds a
 *    lock or waits for one is not preempted, as in a kernel.
 *
 * 2. To explore
 *    Clocks mean nothing: at each point the strategy names the thread that goes on. A thread that runs on a
 *    CPU has preempted all others on that CPU, whose sequences are thereby aborted.
 *
 * 3. Timers
 *    Waits with a timeout are in a heap of their own, by time and number. They end when the lowest clock has
 *    reached them, or at once when nobody can run.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "platform/platform.h"
#include "machine.h"

#define SLICE	     (1000000 * SIM_NS)
#define YIELD_COST   (200 * SIM_NS)
#define EXPLORE_STEP (100 * SIM_NS)

struct sim_machine machine;
struct sim_fiber *sim_current;
struct sim_cpu sim_cpus[SIM_CPUS_MAX];
const struct sim_strategy *sim_exploring;
uint64_t sim_horizon = SIM_NEVER;
struct sim_totals sim_sums;
uint64_t sim_seed;

static struct sim_fiber fibers[SIM_FIBERS_MAX];
static unsigned nfibers, counted;

static void default_failed(const char *message)
{
	fprintf(stderr, "%s\n", message);
	abort();
}

void (*sim_failed)(const char *message) = default_failed;

void sim_give_up(const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	sim_failed(text);
	abort();
}

struct sim_fiber *fiber_of(unsigned number_plus_1)
{
	return &fibers[number_plus_1 - 1];
}

unsigned sched_fibers(void)
{
	return nfibers;
}

/* ---- a heap, of CPUs by clock and of waits by time ------------------------------------------------ */

struct heap {
	unsigned n;
	unsigned items[SIM_FIBERS_MAX];
};

static struct heap busy, waits;

static inline bool cpu_before(unsigned a, unsigned b)
{
	uint64_t ta = sim_cpus[a].clock, tb = sim_cpus[b].clock;

	return ta < tb || (ta == tb && a < b);
}

static unsigned *cpu_place(unsigned cpu)
{
	return &sim_cpus[cpu].place;
}

static inline bool wait_before(unsigned a, unsigned b)
{
	uint64_t ta = fibers[a].wakes_at, tb = fibers[b].wakes_at;

	return ta < tb || (ta == tb && a < b);
}

static unsigned *wait_place(unsigned fiber)
{
	return &fibers[fiber].timer;
}

/* Which heap it is, is known where these are inlined. */
static always_inline bool heap_before(const struct heap *h, unsigned a, unsigned b)
{
	return h == &busy ? cpu_before(a, b) : wait_before(a, b);
}

static always_inline unsigned *heap_place(const struct heap *h, unsigned item)
{
	return h == &busy ? cpu_place(item) : wait_place(item);
}

static always_inline void heap_set(struct heap *h, unsigned i, unsigned item)
{
	h->items[i] = item;
	*heap_place(h, item) = i + 1;
}

static always_inline void heap_up(struct heap *h, unsigned i)
{
	unsigned item = h->items[i], parent;

	for (; i; i = parent) {
		parent = (i - 1) / 2;
		if (!heap_before(h, item, h->items[parent]))
			break;
		heap_set(h, i, h->items[parent]);
	}
	heap_set(h, i, item);
}

static always_inline void heap_down(struct heap *h, unsigned i)
{
	unsigned item = h->items[i], child;

	for (; (child = 2 * i + 1) < h->n; i = child) {
		if (child + 1 < h->n && heap_before(h, h->items[child + 1], h->items[child]))
			child++;
		if (!heap_before(h, h->items[child], item))
			break;
		heap_set(h, i, h->items[child]);
	}
	heap_set(h, i, item);
}

static always_inline void heap_add(struct heap *h, unsigned item)
{
	h->items[h->n] = item;
	heap_up(h, h->n++);
}

static always_inline void heap_remove(struct heap *h, unsigned item)
{
	unsigned i = *heap_place(h, item) - 1, last = h->items[--h->n];

	*heap_place(h, item) = 0;
	if (last == item)
		return;
	heap_set(h, i, last);
	heap_up(h, i);
	heap_down(h, *heap_place(h, last) - 1);
}

/* ---- threads of a CPU ----------------------------------------------------------------------------- */

static void append(struct sim_fiber *f)
{
	struct sim_cpu *cpu = &sim_cpus[f->cpu];

	f->run_next = 0;
	if (cpu->last)
		fiber_of(cpu->last)->run_next = f->number + 1;
	else
		cpu->first = f->number + 1;
	cpu->last = f->number + 1;
}

static struct sim_fiber *take_first(struct sim_cpu *cpu)
{
	struct sim_fiber *f = fiber_of(cpu->first);

	cpu->first = f->run_next;
	if (!cpu->first)
		cpu->last = 0;
	return f;
}

static void update_horizon(void)
{
	unsigned other = SIM_CPUS_MAX, mine = sim_current ? sim_current->cpu : 0;

	sim_horizon = SIM_NEVER;
	if (sim_exploring) {
		sim_horizon = 0;
		return;
	}
	if (!sim_current)
		return;
	for (unsigned i = 0; i < 3 && i < busy.n; i++)
		if (busy.items[i] != mine &&
		    (other == SIM_CPUS_MAX || cpu_before(busy.items[i], other)))
			other = busy.items[i];
	if (other != SIM_CPUS_MAX)
		sim_horizon = sim_cpus[other].clock + (mine < other);
	if (waits.n)
		sim_horizon = min(sim_horizon, fibers[waits.items[0]].wakes_at);
}

static void end_wait(struct sim_fiber *f)
{
	if (f->timer)
		heap_remove(&waits, f->number);
	f->wakes_at = SIM_NEVER;
	f->futex = NULL;
}

void sched_wake(struct sim_fiber *f, uint64_t when)
{
	struct sim_cpu *cpu = &sim_cpus[f->cpu];

	end_wait(f);
	if (f->state == FIBER_ENDED)
		return; /* it was lost in a fork, in the queue of a lock */
	f->state = FIBER_RUNNABLE;
	if (sim_exploring)
		return;
	append(f);
	if (!cpu->place && !cpu->spins) {
		cpu->clock = max(cpu->clock, when);
		heap_add(&busy, f->cpu);
	}
	update_horizon();
}

static void fire_first_wait(void)
{
	struct sim_fiber *f = &fibers[waits.items[0]];

	f->timed_out = true;
	sim_tell(SIM_EXPIRED, f->futex, 0, 0);
	sched_wake(f, f->wakes_at);
}

static void go_to(struct sim_fiber *f)
{
	struct sim_fiber *from = sim_current;

	sim_current = f;
	update_horizon();
	if (from == f)
		return;
	sim_sums.switches++;
	fiber_switch(from ? from->context : fiber_main(), f ? f->context : fiber_main());
}

/* The next thread in the order of time; NULL: all that count have ended. */
static struct sim_fiber *by_time(void)
{
	while (counted) {
		if (waits.n &&
		    (!busy.n || fibers[waits.items[0]].wakes_at <= sim_cpus[busy.items[0]].clock)) {
			fire_first_wait();
			continue;
		}
		if (!busy.n)
			sim_give_up("deadlock: every thread waits for another");
		return fiber_of(sim_cpus[busy.items[0]].first);
	}
	return NULL;
}

/* ---- exploring ------------------------------------------------------------------------------------ */

static uint64_t passed_time;

static struct sim_fiber *by_strategy(enum sim_point point)
{
	unsigned threads[SIM_FIBERS_MAX], n = 0, cpu;
	const struct sim_strategy *s = sim_exploring;
	struct sim_fiber *f;

	if (!counted)
		return NULL;
	passed_time += EXPLORE_STEP;
	for (cpu = 0; cpu < machine.cpus; cpu++)
		sim_cpus[cpu].clock = passed_time;
	while (waits.n && (fibers[waits.items[0]].wakes_at <= passed_time || sim_wants(expire)))
		fire_first_wait();
	if (sim_current && sim_current->state == FIBER_RUNNABLE)
		threads[n++] = sim_current->number;
	for (unsigned i = 0; i < nfibers; i++)
		if (fibers[i].state == FIBER_RUNNABLE && &fibers[i] != sim_current)
			threads[n++] = i;
	if (!n && waits.n) {
		threads[n++] = waits.items[0];
		fire_first_wait();
	}
	if (!n)
		sim_give_up("deadlock: every thread waits for another");
	f = &fibers[threads[n > 1 ? s->choose(s->arg, point, threads, n) : 0]];
	cpu = s->migrate ? s->migrate(s->arg, f->number, f->cpu) : f->cpu;
	if (cpu != f->cpu) {
		f->cpu = cpu;
		f->aborted = true;
	}
	for (unsigned i = 0; i < nfibers; i++)
		if (fibers[i].cpu == f->cpu && &fibers[i] != f)
			fibers[i].aborted = true;
	return f;
}

static void run_next(enum sim_point point)
{
	go_to(sim_exploring ? by_strategy(point) : by_time());
}

/* ---- for the other files -------------------------------------------------------------------------- */

void sched_point(enum sim_point point, const volatile void *what)
{
	struct sim_cpu *cpu = cpu_now();

	if (sim_exploring) {
		run_next(point);
		if (sim_exploring->passed)
			sim_exploring->passed(sim_exploring->arg, point, what);
		return;
	}
	if (cpu->clock >= cpu->slice_ends) {
		cpu->slice_ends = cpu->clock + SLICE;
		if (cpu->first != cpu->last && !sim_current->locks)
			append(take_first(cpu));
	}
	heap_down(&busy, cpu->place - 1);
	run_next(point);
}

void sched_block(uint64_t until)
{
	struct sim_fiber *f = sim_current;
	struct sim_cpu *cpu = &sim_cpus[f->cpu];

	f->state = FIBER_BLOCKED;
	f->timed_out = false;
	f->wakes_at = until;
	if (until != SIM_NEVER)
		heap_add(&waits, f->number);
	if (sim_exploring && sim_exploring->passed)
		sim_exploring->passed(sim_exploring->arg, SIM_BLOCK, f->futex);
	if (!sim_exploring) {
		take_first(cpu);
		if (!cpu->first)
			heap_remove(&busy, f->cpu);
		else
			heap_down(&busy, cpu->place - 1);
	}
	run_next(SIM_BLOCK);
}

void sched_spin(void)
{
	struct sim_fiber *f = sim_current;

	f->state = FIBER_BLOCKED;
	sim_cpus[f->cpu].spins = true;
	heap_remove(&busy, f->cpu);
	run_next(SIM_BLOCK);
}

void sched_hand_over(struct sim_fiber *f, uint64_t when)
{
	struct sim_cpu *cpu = &sim_cpus[f->cpu];

	f->state = FIBER_RUNNABLE;
	cpu->spins = false;
	cpu->clock = max(cpu->clock, when);
	heap_add(&busy, f->cpu);
	update_horizon();
}

void sched_yield_cpu(void)
{
	struct sim_cpu *cpu = cpu_now();

	if (sim_exploring) {
		sched_point(SIM_YIELD, NULL);
		return;
	}
	sim_charge(YIELD_COST, SIM_TIME_OTHER);
	if (cpu->first != cpu->last && !sim_current->locks)
		append(take_first(cpu));
	heap_down(&busy, cpu->place - 1);
	run_next(SIM_YIELD);
}

static void run_fiber(void)
{
	struct sim_fiber *f = sim_current;

	f->fn(f->arg);
	f->state = FIBER_ENDED;
	counted -= f->counts;
	if (!sim_exploring) {
		take_first(&sim_cpus[f->cpu]);
		if (!sim_cpus[f->cpu].first)
			heap_remove(&busy, f->cpu);
	}
	run_next(SIM_BLOCK);
	__builtin_unreachable();
}

static struct sim_fiber *new_fiber(void (*fn)(void *), void *arg, unsigned cpu, bool counts)
{
	struct sim_fiber *f;

	if (nfibers == SIM_FIBERS_MAX)
		return NULL;
	f = &fibers[nfibers];
	*f = (struct sim_fiber){
		.number = nfibers++,
		.cpu = cpu,
		.counts = counts,
		.wakes_at = SIM_NEVER,
		.fn = fn,
		.arg = arg,
		.context = fiber_new(run_fiber),
	};
	counted += counts;
	sched_wake(f, sim_current ? cpu_now()->clock : 0);
	return f;
}

struct sim_fiber *sim_thread(void (*fn)(void *), void *arg, unsigned cpu)
{
	return new_fiber(fn, arg, cpu, true);
}

struct started {
	void *(*fn)(void *);
	void *arg;
};

static void run_started(void *arg)
{
	struct started *s = arg;

	s->fn(s->arg);
	free(s);
}

/* The library's own threads: on the CPU that has the fewest, the last of them. */
int plat_thread_start(void *(*fn)(void *), void *arg)
{
	struct started *s = malloc(sizeof(*s));

	if (sim_wants(fail)) {
		sim_tell(SIM_REFUSED, NULL, 0, 0);
		free(s);
		return -11;
	}
	if (!s)
		return -12;
	*s = (struct started){ fn, arg };
	if (!new_fiber(run_started, s, machine.cpus - 1, false)) {
		free(s);
		return -11;
	}
	return 0;
}

void sim_explore(const struct sim_strategy *strategy)
{
	sim_exploring = strategy;
	sim_watched = strategy && strategy->happened;
}

void sim_pass(uint64_t ps)
{
	passed_time += ps;
}

unsigned sim_self(void)
{
	return sim_current ? sim_current->number : SIM_NOBODY;
}

void sched_alone(void)
{
	for (unsigned i = 0; i < nfibers; i++)
		if (&fibers[i] != sim_current) {
			end_wait(&fibers[i]);
			fibers[i].state = FIBER_ENDED;
			fibers[i].read_nest = 0;
		}
	counted = sim_current->counts;
}

void sim_run(void)
{
	run_next(SIM_BLOCK);
}

void sim_start(const struct sim_machine *m, uint64_t seed)
{
	machine = *m;
	sim_seed = seed;
	for (unsigned cpu = 0; cpu < machine.cpus; cpu++)
		sim_cpus[cpu].slice_ends = SLICE;
	plat_seq_limit = machine.cpus;
	memory_start();
	rcu_start();
}

void sim_outside(void (*fn)(void *), void *arg)
{
	struct sim_fiber *f = sim_current;

	sim_current = NULL;
	fn(arg);
	sim_current = f;
}

uint64_t sim_now(void)
{
	return cpu_now()->clock;
}

unsigned sim_cpu(void)
{
	return sim_current->cpu;
}

uint64_t sim_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void sim_totals(struct sim_totals *t)
{
	*t = sim_sums;
	for (unsigned cpu = 0; cpu < machine.cpus; cpu++)
		for (unsigned i = 0; i < SIM_TIMES; i++)
			t->time[i] += sim_cpus[cpu].time[i];
}
