/* SPDX-License-Identifier: MIT */
/* What the files of platform/sim share. */
#ifndef USLUB_SIM_MACHINE_H
#define USLUB_SIM_MACHINE_H

#include "base/base.h"
#include "sim.h"
#include "plat_atomic.h"

#define SIM_FIBERS_MAX 4096u
#define SIM_NEVER      UINT64_MAX

enum fiber_state { FIBER_FREE, FIBER_RUNNABLE, FIBER_BLOCKED, FIBER_ENDED };

struct sim_fiber {
	unsigned number;
	unsigned cpu;
	enum fiber_state state;
	bool counts; /* sim_run() waits for its end */
	bool timed_out;
	bool aborted;	      /* its sequence must not commit */
	bool foreign;	      /* not registered for sequences */
	unsigned locks;	      /* that it holds: nobody else gets its CPU */
	const void *sequence; /* what the last one works on */
	unsigned read_nest;
	uint64_t read_number;  /* of its read-side section */
	const uint32_t *futex; /* what it waits on */
	uint64_t wakes_at;     /* SIM_NEVER: no timeout */
	unsigned timer;	       /* its place among the timers + 1, or 0 */
	uint16_t lock_next;    /* behind it in a lock's queue, number + 1 */
	unsigned run_next;     /* behind it on its CPU, number + 1 */
	void (*fn)(void *);
	void *arg;
	struct fiber_context *context;
};

struct sim_cpu {
	uint64_t clock;
	unsigned place;	      /* in the heap + 1; 0: idle */
	unsigned first, last; /* runnable threads, number + 1; the first one runs */
	bool spins;	      /* its first thread waits for a lock, and keeps it from all others */
	uint64_t slice_ends;
	uint64_t time[SIM_TIMES];
	/* RCU, see rcu.c */
	uint64_t next_tick, task_until;
	struct rcu_item *ready_first, *ready_last;
};

hidden extern struct sim_machine machine;
hidden extern struct sim_fiber *sim_current; /* NULL: outside of all threads */
hidden extern struct sim_cpu sim_cpus[SIM_CPUS_MAX];
hidden extern const struct sim_strategy *sim_exploring;
hidden extern uint64_t sim_horizon; /* others come first from this time on */
hidden extern struct sim_totals sim_sums;
hidden extern uint64_t sim_seed;

static inline struct sim_cpu *cpu_now(void)
{
	return &sim_cpus[sim_current->cpu];
}

/* sched.c */
hidden struct sim_fiber *fiber_of(unsigned number_plus_1);
hidden void sched_start(void);
hidden void sched_point(enum sim_point point, const volatile void *what);
hidden void sched_block(uint64_t until); /* until woken or that time */
hidden void sched_wake(struct sim_fiber *f, uint64_t when);
hidden void sched_spin(void); /* until sched_hand_over() */
hidden void sched_hand_over(struct sim_fiber *f, uint64_t when);
hidden void sched_yield_cpu(void);
hidden unsigned sched_fibers(void);
hidden void sched_alone(void); /* in the child of a fork: the other threads are gone */

/* Others whose time it is come first. */
static inline void sim_sync(enum sim_point point, const volatile void *what)
{
	if (unlikely(cpu_now()->clock >= sim_horizon))
		sched_point(point, what);
}

/* Tells the explorer what has happened. */
static inline void sim_tell(enum sim_event event, const volatile void *what, uint64_t before,
			    uint64_t after)
{
	if (sim_exploring && sim_exploring->happened && sim_current)
		sim_exploring->happened(sim_exploring->arg, event, what, before, after);
}

/* Does the strategy want it? False outside of all threads, and where it says nothing. */
#define sim_wants(question)                                                                        \
	(sim_current && sim_exploring && sim_exploring->question &&                                \
	 sim_exploring->question(sim_exploring->arg))

static inline void sim_charge(uint64_t ps, enum sim_time where)
{
	struct sim_cpu *cpu = cpu_now();

	cpu->clock += ps;
	cpu->time[where] += ps;
}

/* fiber.c */
struct fiber_context;
hidden struct fiber_context *fiber_new(void (*fn)(void));
hidden void fiber_free(struct fiber_context *c);
hidden void fiber_switch(struct fiber_context *from, struct fiber_context *to);
hidden struct fiber_context *fiber_main(void);

/* line.c */
hidden void line_start(void *arena, size_t size);
hidden void line_access(uintptr_t address, enum sim_access how, uint64_t own, uint64_t near,
			uint64_t far, enum sim_time where);
hidden void line_forget(const void *p, size_t size);
hidden void line_hand_over(const void *p, unsigned cpu);

/* memory.c */
hidden void memory_start(void);

/* rcu.c */
hidden void rcu_start(void);
hidden void rcu_callbacks(void);

static inline bool same_node(unsigned a, unsigned b)
{
	unsigned per_node = (machine.cpus + machine.nodes - 1) / machine.nodes;

	return a / per_node == b / per_node;
}

hidden void sim_give_up(const char *format, ...) printf_like(1, 2) __attribute__((noreturn));

#endif /* USLUB_SIM_MACHINE_H */
