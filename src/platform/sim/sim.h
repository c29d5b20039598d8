/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine, as its program sees it. The core sees it through platform/platform.h only.
 *
 * 1. What it is
 *    N virtual CPUs on M nodes in one host thread. Threads are fibers. Every operation of the seam is a
 *    point where another CPU may come first, and costs virtual time. Nothing depends on host time, host
 *    addresses or the number of host CPUs, so a run is a function of code, arguments and seed.
 *
 * 2. Two ways to choose who runs next
 *    To measure, the CPU with the lowest clock (sched.c), so that accesses happen in the order of virtual
 *    time. To hunt bugs, whoever a strategy names (struct sim_strategy), so that they happen in any order.
 *
 * 3. Costs
 *    A cache line (line.c) has one owner, or sharers; an access by somebody else moves it, which takes
 *    time by distance, one move after the other for each line. Locks (lock.c) are handed over in the order
 *    of arrival, with their line. Sequences cost a constant. Times are picoseconds in 64 bits.
 */
#ifndef USLUB_SIM_H
#define USLUB_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_CPUS_MAX  384u
#define SIM_NODES_MAX 16u
#define SIM_RANKS     16u     /* ranks of locks are below */
#define SIM_NS	      1000ull /* picoseconds */

/* Every number of a machine, once: name in a machine file, what it is. Nanoseconds unless said. */
#define SIM_COSTS(COST)                                                                            \
	COST(own, "an atomic operation or store on a line the CPU owns")                           \
	COST(hit, "a load from a line the CPU has")                                                \
	COST(move_near, "a line from a CPU of the same node")                                      \
	COST(move_far, "a line from another node")                                                 \
	COST(fetch, "a line nobody has, from memory")                                              \
	COST(lock_near, "handing a contended lock to a CPU of the same node")                      \
	COST(lock_far, "handing a contended lock to another node")                                 \
	COST(lock_entry, "joining the queue of a contended lock")                                  \
	COST(sequence, "a per-CPU sequence")                                                       \
	COST(object_own, "reaching into a free object that this CPU touched last")                 \
	COST(object_near, "the same, touched last on the same node")                               \
	COST(object_far, "the same, touched last on another node")                                 \
	COST(use_own, "a user's store to a line of an object that the CPU owns")                   \
	COST(use_near, "the same, owned by a CPU of the same node")                                \
	COST(use_far, "the same, owned on another node")                                           \
	COST(syscall, "a system call that changes mappings")                                       \
	COST(fault, "the first touch of a page")                                                   \
	COST(membarrier, "making every CPU abort its sequences")                                   \
	COST(wake, "until a woken thread runs on an idle CPU")                                     \
	COST(rcu_callback, "entering an RCU callback")                                             \
	COST(rcu_gp, "a grace period")                                                             \
	COST(rcu_gp_jitter, "and how much longer or shorter it may be")                            \
	COST(rcu_tick, "between two looks of a CPU for grace periods that are over")               \
	COST(rcu_tick_spread, "over which the CPUs' ticks are spread")                             \
	COST(rcu_task, "a CPU works between two batches of callbacks")                             \
	COST(work_mmap1, "private work of one mmap and munmap")                                    \
	COST(work_hackbench, "private work of one message")                                        \
	COST(work_other, "private work of one operation of other workloads")

struct sim_machine {
	char name[32];
	unsigned cpus;
	unsigned nodes;
	unsigned rcu_batch;   /* callbacks in one go */
	unsigned rcu_long;    /* one grace period in so many takes three times as long; 0: none */
	unsigned work_jitter; /* per cent */
	unsigned
		slab_frees; /* 1: plain frees go to slabs, not to sheaves; for the workloads, not seen here */
#define SIM_COST_FIELD(name, help) uint64_t name; /* picoseconds */
	SIM_COSTS(SIM_COST_FIELD)
#undef SIM_COST_FIELD
};

/* Where a CPU's time went. */
enum sim_time {
	SIM_TIME_WORK,	   /* private work, and a user's own stores */
	SIM_TIME_SEQUENCE, /* fast paths */
	SIM_TIME_LOCK,	   /* waiting for locks */
	SIM_TIME_LINE,	   /* waiting for lines and moving them */
	SIM_TIME_OTHER,	   /* what the allocator does besides */
	SIM_TIMES
};

struct sim_totals {
	uint64_t time[SIM_TIMES];      /* of all CPUs, picoseconds */
	uint64_t lock_wait[SIM_RANKS]; /* of it, waiting for locks, by enum plat_rank */
	uint64_t moves_near, moves_far, fetches;
	uint64_t points; /* seam operations */
	uint64_t switches;
	uint64_t grace_periods;
};

struct sim_fiber;

/*
 * sim_start - make the machine; once in a process, before the first cache
 * @machine: copied
 * @seed: of all that is random
 */
void sim_start(const struct sim_machine *machine, uint64_t seed);

/* Makes a thread that will run fn(arg) on a CPU. */
struct sim_fiber *sim_thread(void (*fn)(void *), void *arg, unsigned cpu);

/* Runs until all threads made by sim_thread() have ended. */
void sim_run(void);

/* Runs fn(arg) outside of all threads: at no cost, while all stand still. */
void sim_outside(void (*fn)(void *), void *arg);

/* From within a thread. */
uint64_t sim_now(void); /* of its CPU, picoseconds */
unsigned sim_cpu(void);
void sim_work(uint64_t ps); /* private work; RCU callbacks that are due run here */
void sim_use(const void *object, size_t size); /* a user writes to all its lines */
uint64_t sim_random(uint64_t *state);

struct sim_barrier {
	unsigned arrived;
	uint32_t round;
};
void sim_barrier_wait(struct sim_barrier *b, unsigned all); /* until `all` threads have come */

/* From now on the thread has no CPU to speak of, as one that is not registered for sequences. */
void sim_unregister(void);

void sim_totals(struct sim_totals *totals);

/* The flavor to make caches with, and its readers. */
struct rcu_flavor_struct;
extern const struct rcu_flavor_struct sim_flavor;
void sim_read_lock(void);
void sim_read_unlock(void);

/* Called when the core gives up (plat_fatal) or no thread can go on; must not return. */
extern void (*sim_failed)(const char *message);

/* ---- strategies of exploration -------------------------------------------------------------------- */

enum sim_point {
	SIM_LOAD,
	SIM_STORE,
	SIM_RMW,
	SIM_LOCK,
	SIM_UNLOCK,
	SIM_SEQ,	/* before a sequence looks at its word */
	SIM_SEQ_COMMIT, /* before its last store */
	SIM_YIELD,
	SIM_BLOCK,
	SIM_POINTS
};

enum sim_event {
	SIM_EXCHANGED, /* a compare-exchange succeeded: the word before and after */
	SIM_LOCKED,
	SIM_UNLOCKING,
	SIM_ABORTED,   /* a sequence that was under way did not commit */
	SIM_MIGRATED,  /* a sequence began on a CPU that the thread has left */
	SIM_STRAGGLED, /* a sequence committed to a slot that was closed meanwhile */
	SIM_EXPIRED,   /* a wait ended by its timeout */
	SIM_REFUSED,   /* the machine had no memory, or no thread */
	SIM_EVENTS
};

/*
 * Decides, at every point, which of the runnable threads goes on, and whether it is on another CPU by then.
 * All but choose may be NULL.
 * @choose: returns an index below n; threads[0] is the one that has come to the point, if it can go on
 * @migrate: returns the CPU on which the thread goes on
 * @expire: shall the first of the waits with a timeout end now?
 * @abort: shall the sequence that is about to commit not do so, as after a signal?
 * @fail: shall this request for memory or for a thread fail?
 * @passed: the thread goes on past the point, to do what it announced
 */
struct sim_strategy {
	unsigned (*choose)(void *arg, enum sim_point point, const unsigned *threads, unsigned n);
	unsigned (*migrate)(void *arg, unsigned thread, unsigned cpu);
	bool (*expire)(void *arg);
	bool (*abort)(void *arg);
	bool (*fail)(void *arg);
	void (*passed)(void *arg, enum sim_point point, const volatile void *what);
	void (*happened)(void *arg, enum sim_event event, const volatile void *what,
			 uint64_t before, uint64_t after);
	void *arg;
};
void sim_explore(const struct sim_strategy *strategy);

#define SIM_NOBODY UINT32_MAX
unsigned sim_self(void);    /* the number of the thread that runs, from 0; or SIM_NOBODY */
void sim_pass(uint64_t ps); /* lets time pass for everybody */
bool sim_in_child(void);    /* is this process the child of sim_fork()? */
uint64_t sim_offset(const volatile void *p); /* in the simulated memory, or UINT64_MAX */

/*
 * sim_fork - fork the process, with the handlers that were given to plat_atfork()
 * @status: of the child, in the parent, which waits for it to end
 *
 * In the child, which gets 0, the calling thread is the only one. Returns below 0 where fork(2) fails.
 */
int sim_fork(int *status);

#endif /* USLUB_SIM_H */
