/* SPDX-License-Identifier: MIT */
/*
 * Schedules: who goes on at each point, where, and what fails.
 *
 * All of it is a row of decisions, each a number below that of its options, 0 being the usual one: the thread
 * goes on, or the next one if it cannot; it stays on its CPU; nothing fails. So a schedule is known by the
 * decisions that were something else, whatever made them:
 *
 *   random      a switch with some probability at each point, which differs from schedule to schedule
 *   priority    the thread with the highest priority goes on; at d random points that of the one that runs
 *               becomes the lowest (PCT: it finds a bug that needs d orderings with a known probability)
 *   exhaustive  all schedules with at most so many preemptions, depth first, each from the start
 *   replay      what was noted
 */
#include <string.h>
#include "../uslub/tool.h"
#include "explore.h"

#define THREADS	    64u /* numbers of threads that have a priority of their own */
#define CHANGES_MAX 8u

enum decision { CHOOSE, MIGRATE, EXPIRE, ABORT, FAIL };

static struct ex_plan plan;
static const struct ex_scenario *scenario;
static uint64_t chance;
static unsigned switch_in, migrate_in, abort_in, expire_in, fail_in; /* one in so many; 0: never */
static uint64_t priority[THREADS], lowest;
static uint64_t changes[CHANGES_MAX];
static unsigned nchanges;
static size_t replayed;
static unsigned running = SIM_NOBODY;

/* The choices that are to be taken first, in a schedule of all. */
static struct ex_choice prefix[EX_CHOICES_MAX];
static uint32_t nprefix;

static unsigned below(unsigned n)
{
	return (unsigned)((sim_random(&chance) >> 32) * n >> 32);
}

static bool one_in(unsigned n)
{
	return n && !below(n);
}

static void note(unsigned value)
{
	struct ex_shared *sh = ex_shared;

	if (value) {
		if (sh->nlog == EX_LOG_MAX)
			sh->log_cut = true;
		else
			sh->log[sh->nlog++] = (struct ex_decision){ (uint32_t)sh->decisions,
								    value };
	}
	sh->decisions++;
}

static unsigned replayed_value(unsigned options)
{
	uint32_t number = (uint32_t)ex_shared->decisions, value = 0;

	if (replayed < plan.nreplay && plan.replay[replayed].number == number)
		value = plan.replay[replayed++].value;
	return value < options ? value : 0;
}

/* One of all: what the prefix says, then the first. */
static unsigned exhaustive_value(unsigned options, bool costs)
{
	struct ex_shared *sh = ex_shared;
	unsigned value = 0;

	if (sh->settled)
		return 0;
	if (sh->nchoices == EX_CHOICES_MAX) {
		sh->choices_cut = true;
		return 0;
	}
	if (sh->nchoices < nprefix)
		value = prefix[sh->nchoices].taken;
	sh->choices[sh->nchoices++] = (struct ex_choice){ (uint8_t)value,
							  (uint8_t)min(options, 255u), costs };
	return value;
}

/* ---- who goes on ---------------------------------------------------------------------------------- */

static void change_priority(void)
{
	for (unsigned i = 0; i < nchanges; i++)
		if (changes[i] <= ex_shared->points && running < THREADS) {
			priority[running] = --lowest;
			changes[i] = UINT64_MAX;
		}
}

static unsigned by_priority(enum sim_point point, const unsigned *threads, unsigned n)
{
	unsigned best = 0;

	/* Who waits for others by asking again and again comes last from now on. */
	if (point == SIM_YIELD && running < THREADS)
		priority[running] = --lowest;
	for (unsigned i = 1; i < n; i++)
		if (priority[threads[i] % THREADS] > priority[threads[best] % THREADS])
			best = i;
	return best;
}

/* Of n, where 0 is the usual one; `forced`: the thread that ran cannot go on, or says it need not. */
static unsigned wanted(enum sim_point point, const unsigned *threads, unsigned n, bool forced)
{
	if (plan.replaying)
		return replayed_value(n);
	if (plan.way == EX_EXHAUSTIVE)
		return point == SIM_YIELD ? 0 : exhaustive_value(n, !forced);
	if (plan.way == EX_PRIORITY)
		return by_priority(point, threads, n);
	if (forced)
		return below(n);
	return one_in(switch_in) ? 1 + below(n - 1) : 0;
}

/* The one that goes on first, else the others in turn, who yields last of all. Returns whether it goes on. */
static bool put_in_order(unsigned *order, enum sim_point point, const unsigned *threads, unsigned n)
{
	bool can = threads[0] == running && sim_self() == running, yields = point == SIM_YIELD;
	unsigned k = 0;

	if (can && !yields) {
		memcpy(order, threads, n * sizeof(*order));
		return true;
	}
	for (unsigned i = can; i < n; i++)
		if (threads[i] > running)
			order[k++] = threads[i];
	for (unsigned i = can; i < n; i++)
		if (threads[i] < running)
			order[k++] = threads[i];
	if (can)
		order[k] = running;
	return false;
}

static unsigned choose(void *arg, enum sim_point point, const unsigned *threads, unsigned n)
{
	unsigned order[THREADS], chosen;
	bool goes_on;

	(void)arg;
	n = min(n, THREADS);
	change_priority();
	goes_on = put_in_order(order, point, threads, n);
	chosen = wanted(point, order, n, !goes_on);
	note(chosen);
	if (order[chosen] != running)
		ex_shared->switches++;
	running = order[chosen];
	for (unsigned i = 0; i < n; i++)
		if (threads[i] == running)
			return i;
	return 0;
}

/* ---- the rest ------------------------------------------------------------------------------------- */

static unsigned decide(unsigned options, unsigned one_in_so_many)
{
	unsigned value = 0;

	if (plan.replaying)
		value = replayed_value(options);
	else if (plan.way != EX_EXHAUSTIVE && one_in(one_in_so_many))
		value = 1 + below(options - 1);
	note(value);
	return value;
}

static unsigned migrate(void *arg, unsigned thread, unsigned cpu)
{
	unsigned away;

	(void)arg;
	(void)thread;
	if (scenario->cpus < 2)
		return cpu;
	away = decide(scenario->cpus, migrate_in);
	return (cpu + away) % scenario->cpus;
}

static bool expire(void *arg)
{
	(void)arg;
	return decide(2, expire_in);
}

static bool abort_sequence(void *arg)
{
	unsigned value;

	(void)arg;
	if (plan.replaying || plan.way != EX_EXHAUSTIVE)
		return decide(2, abort_in);
	value = exhaustive_value(2, true);
	note(value);
	return value;
}

static bool fail(void *arg)
{
	(void)arg;
	return ex_failing() && decide(2, fail_in);
}

static void passed(void *arg, enum sim_point point, const volatile void *what)
{
	(void)arg;
	running = sim_self();
	if (ex_shared->points++ > plan.limit)
		ex_fail("no progress: %llu points and still not done",
			(unsigned long long)plan.limit);
	ex_trace_point(point, what);
	ex_probe_point(point, what);
}

static void happened(void *arg, enum sim_event event, const volatile void *what, uint64_t before,
		     uint64_t after)
{
	(void)arg;
	ex_probe_event(event, what, before, after);
	ex_trace_event(event, before, after);
}

static const struct sim_strategy strategy = {
	.choose = choose,
	.migrate = migrate,
	.expire = expire,
	.abort = abort_sequence,
	.fail = fail,
	.passed = passed,
	.happened = happened,
};

static unsigned one_of(const unsigned *values, unsigned n)
{
	return values[below(n)];
}

#define ONE_OF(...)                                                                                \
	one_of((const unsigned[]){ __VA_ARGS__ },                                                  \
	       sizeof((const unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

void ex_schedule_begin(const struct ex_plan *p, const struct ex_scenario *s)
{
	struct ex_shared *sh = ex_shared;

	plan = *p;
	scenario = s;
	chance = p->seed ^ 0x736368656475ull;
	sh->verdict = EX_RUNNING;
	sh->in_child = false;
	sh->points = sh->switches = sh->decisions = 0;
	sh->nlog = sh->nchoices = sh->ntrace = 0;
	sh->log_cut = sh->choices_cut = sh->settled = false;
	switch_in = ONE_OF(2, 3, 4, 6, 10, 20, 50);
	migrate_in = ONE_OF(0, 200, 50, 15);
	abort_in = ONE_OF(0, 100, 20, 4);
	expire_in = ONE_OF(1000, 100, 20, 4);
	fail_in = s->failing ? ONE_OF(s->failing, 4 * s->failing) : 0;
	if (plan.way == EX_MIXED)
		plan.way = below(2) ? EX_RANDOM : EX_PRIORITY;
	running = SIM_NOBODY;
	lowest = 1u << 30;
	for (unsigned i = 0; i < THREADS; i++)
		priority[i] = lowest + 1 + (sim_random(&chance) >> 34);
	nchanges = 1 + below(below(2) ? CHANGES_MAX : 3);
	for (unsigned i = 0; i < nchanges; i++)
		changes[i] = sim_random(&chance) % max(plan.expected, (uint64_t)1);
	replayed = 0;
	sim_explore(&strategy);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

void ex_exhaustive_begin(void)
{
	nprefix = 0;
}

/* The deepest choice that has another way to go on with the preemptions that are left before it. */
bool ex_exhaustive_next(unsigned bound)
{
	struct ex_shared *sh = ex_shared;
	unsigned spent = 0;
	uint32_t last = 0;
	bool found = false;

	for (uint32_t i = 0; i < sh->nchoices; i++) {
		const struct ex_choice *c = &sh->choices[i];

		if (c->taken + 1u < c->options && (!c->costs || c->taken || spent < bound)) {
			last = i;
			found = true;
		}
		spent += c->costs && c->taken;
	}
	if (!found)
		return false;
	memcpy(prefix, sh->choices, (last + 1) * sizeof(*prefix));
	prefix[last].taken++;
	nprefix = last + 1;
	return true;
}
