/* SPDX-License-Identifier: MIT */
/*
 * What the files of `uslub sim explore` share. docs/SIMULATOR.md tells what it is for.
 *
 * Every schedule runs in a process of its own, forked from one that has made the machine and the caches of a
 * scenario: so each begins in the same state, whatever the one before did to it, and a schedule is known by
 * build, scenario, seed and number. What must outlive it lies in memory that is shared (struct ex_shared).
 */
#ifndef TOOLS_SIM_EXPLORE_H
#define TOOLS_SIM_EXPLORE_H

#include <uslub/uslub.h>
#include "base/base.h"
#include "platform/sim/sim.h"

#define EX_THREADS_MAX 8u
#define EX_CACHES_MAX  6u
#define EX_DEPTH       7u /* functions of the core noted at a point, the innermost last */
#define EX_TRACE_MAX   4096u
#define EX_LOG_MAX     65536u
#define EX_CHOICES_MAX 16384u
#define EX_PROBES_MAX  128u

/* ---- what a schedule leaves behind ---------------------------------------------------------------- */

enum ex_verdict { EX_RUNNING, EX_GOOD, EX_BAD };

struct ex_seen {
	uint64_t what; /* offset in the simulated memory, or an address of the program */
	uint64_t before, after;
	const char *op; /* of the scenario */
	uint32_t op_number;
	uint8_t thread, cpu, point, depth;
	bool in_memory, exchanged, aborted, straggled, child;
	const void *functions[EX_DEPTH];
};

/* A decision that was not the usual one. */
struct ex_decision {
	uint32_t number;
	uint32_t value;
};

/* One of several ways to go on, where all are tried. */
struct ex_choice {
	uint8_t taken, options;
	bool costs; /* any but the first is a preemption */
};

struct ex_shared {
	enum ex_verdict verdict;
	char message[512];
	bool in_child; /* of a fork */
	uint64_t points, switches, decisions;
	uint64_t points_settled; /* when the scenario's threads had ended */
	uint32_t nlog, nchoices, ntrace;
	bool log_cut, choices_cut;
	bool settled; /* the scenario's threads have ended; from here on not all ways are tried */
	/* What stands before is that of the process, and put back when the child of a fork was good. */
	bool reached[EX_PROBES_MAX];	/* by this schedule */
	uint64_t probes[EX_PROBES_MAX]; /* schedules that did */
	uint64_t all_schedules, all_points, all_switches;
	struct ex_decision log[EX_LOG_MAX];
	struct ex_choice choices[EX_CHOICES_MAX];
	struct ex_seen trace[EX_TRACE_MAX];
};

extern struct ex_shared *ex_shared;

/* The schedule has found something: never returns. */
void ex_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- scenarios and the model (explore_model.c, explore_scenarios.c) ------------------------------- */

/* How often a thread does what, among all that it does. */
struct ex_mix {
	unsigned alloc, free, free_rcu, bulk, prefill, nolock, reader, publish, shrink, barrier;
	unsigned node, stat, idle, fork, life;
};

struct ex_scenario {
	const char *name;
	const char *help;
	unsigned threads, cpus, nodes;
	unsigned ops;	   /* of a thread */
	unsigned keep;	   /* objects a thread keeps, more or less */
	unsigned foreign;  /* so many threads are not registered for sequences */
	unsigned capacity; /* of a sheaf; 0: none */
	size_t size;
	unsigned min_partial;
	unsigned flags;
	unsigned failing; /* one request in so many fails, in half of the schedules; 0: none */
	bool reserve_off; /* without a flavor */
	bool scarce;	  /* little is left of the memory that is mapped */
	bool tiny;	  /* few points: all schedules can be tried */
	struct uslub_policy policy;
	struct ex_mix mix;
	void (*script)(unsigned thread); /* instead of a mixture */
};

extern const struct ex_scenario ex_scenarios[];
extern const unsigned ex_nscenarios;

void ex_setup(const struct ex_scenario *s, uint64_t seed); /* machine and caches */
void ex_run(uint64_t seed);				   /* threads, checks, destruction */
const char *ex_op(unsigned thread, uint32_t *number);	   /* what it is doing */
unsigned ex_caches(struct uslub_cache **caches);	   /* of the scenario */
bool ex_failing(void); /* are requests to fail in this schedule? */

/* ---- schedules (explore_schedule.c) --------------------------------------------------------------- */

enum ex_way { EX_MIXED, EX_RANDOM, EX_PRIORITY, EX_EXHAUSTIVE };

struct ex_plan {
	enum ex_way way;
	uint64_t seed;
	uint64_t limit;	   /* points, beyond which nobody believes in progress */
	uint64_t expected; /* points, for the change points of priorities */
	const struct ex_decision *replay;
	size_t nreplay; /* with replay: the decisions that were not the usual ones */
	bool replaying;
};

void ex_schedule_begin(const struct ex_plan *plan, const struct ex_scenario *s);
/* After a schedule of all: the next one. False: all have been tried. */
bool ex_exhaustive_next(unsigned bound);
void ex_exhaustive_begin(void);

/* ---- traces (explore_trace.c) --------------------------------------------------------------------- */

void ex_trace_start(void); /* symbols and build id of the program */
const char *ex_build_id(void);
/* The function of that name, behind *at if that is given; NULL: there is none. */
const void *ex_function(const char *name, size_t *at);
const char *ex_function_name(const void *address);
const void *ex_now_in(void); /* the innermost function of the core in which the thread is */
bool ex_under(const void *function);
bool ex_thread_under(unsigned number, const void *function); /* is another thread? */
void ex_trace_point(enum sim_point point, const volatile void *what);
void ex_trace_event(enum sim_event event, uint64_t before, uint64_t after);
void ex_trace_learn(void); /* where descriptors lie; the machine is made, and nobody runs */
void ex_trace_print(unsigned last);

/* ---- probes (explore_probes.c) -------------------------------------------------------------------- */

void ex_probes_start(void);
void ex_probe_entered(const void *function);
void ex_probe_point(enum sim_point point, const volatile void *what);
void ex_probe_event(enum sim_event event, const volatile void *what, uint64_t before,
		    uint64_t after);
void ex_probe_cache(struct uslub_cache *c); /* its counters, before it is destroyed */
void ex_probes_end(void);		    /* of a schedule, by who started it */
/* Prints the table; returns how many were never reached. */
unsigned ex_probes_print(bool all);

/* ---- planted bugs (made by gen-plants) ------------------------------------------------------------ */

struct ex_plant {
	const char *name;
	const char *help;
	const char *scenario; /* where it is looked for; NULL: anywhere */
	uint64_t within;      /* schedules */
};
extern const struct ex_plant ex_plants[];
extern const unsigned ex_nplants;
extern const bool ex_can_plant; /* is this the program with the planted core? */

#endif /* TOOLS_SIM_EXPLORE_H */
