/* SPDX-License-Identifier: MIT */
/*
 * The seam: everything the allocator asks of the machine it runs on, and nothing else. Above this folder
 * nobody makes a system call, reads a clock, knows a CPU number's source or names a lock instruction.
 *
 * There is one implementation per machine, chosen at compile time by the include path: platform/linux is
 * the real one. Hot operations are inline functions and macros of plat_atomic.h, plat_lock.h and
 * plat_percpu.h; cold ones are the functions declared here. plat_touch(p), among the atomics, says to
 * machines that count what memory costs that the core is about to reach into a free object, which another
 * CPU may have used last; elsewhere it is nothing. Trace points are told in probe.h.
 *
 * Rules for every operation, unless its comment says otherwise:
 *  - int results are 0 or -errno; pointer results are NULL on failure; errno itself is never touched;
 *  - sizes are bytes, times are nanoseconds of a monotonic clock;
 *  - nothing allocates from malloc, takes a lock of the core or calls back into it;
 *  - operations marked [any] are async-signal-safe and never wait.
 */
#ifndef USLUB_PLATFORM_H
#define USLUB_PLATFORM_H

#include "base/base.h"
#include "platform/percpu.h" /* what the sequences do; the layout they work on */
#include "platform/point.h"
#include "platform/probe.h"
#include "platform/rank.h"
#include "plat_atomic.h"
#include "plat_lock.h"
#include "plat_percpu.h"
#include "platform/raise.h"

struct rcu_flavor_struct;

/* ---- start ---------------------------------------------------------------------------------------- */

/*
 * plat_start - find out about the machine and decide the mode of the per-CPU sequences, once
 * Idempotent and thread-safe; every later call returns at once. Called by the library's constructor and
 * by whoever may come before it.
 */
void plat_start(void);

/* Are the per-CPU sequences restartable ones (rseq), or done by compare-exchange? [any] */
bool plat_rseq_mode(void);

/* ---- topology ------------------------------------------------------------------------------------- */

#define PLAT_MAX_NODES	   64u
#define PLAT_FOREIGN_SLOTS 4u /* past the last CPU, for threads that have no CPU to speak of */

unsigned plat_ncpu(void);   /* possible CPUs: one more than the highest id [any] */
unsigned plat_nslots(void); /* CPUs and foreign slots [any] */
unsigned plat_nnodes(void); /* one more than the highest node id [any] */
unsigned plat_present_cpus(void);
unsigned plat_cpu_node(
	unsigned slot);	       /* the node of a CPU; of a foreign slot the first node [any] */
unsigned plat_this_node(void); /* a hint: the thread may move at once [any] */

/* ---- memory --------------------------------------------------------------------------------------- */

size_t plat_page_size(void); /* read at run time [any] */
unsigned plat_page_shift(void);

/* Maps zeroed private memory, page-aligned; NULL when there is none. */
void *plat_map(size_t size);

/*
 * plat_map_aligned - the same at a multiple of `align` bytes, a power of two
 * plat_remap	    - make such a mapping longer or shorter, where it is or, its pages moved, at another multiple of
 *		      `align`; NULL: no memory or no address space, and it is as it was
 */
void *plat_map_aligned(size_t size, size_t align);
void *plat_remap(void *p, size_t old, size_t size, size_t align);

/*
 * plat_reserve - reserve address space at a multiple of `slot` bytes, without memory behind it
 * @slot: a power of two
 * @least: be content with this much, when address space is short; a power of two
 * @got: how much was reserved: slot, slot/2, ... least
 */
void *plat_reserve(size_t slot, size_t least, size_t *got);
void plat_unmap(void *p, size_t size);	 /* an error is survived: the range stays reserved */
int plat_commit(void *p, size_t size);	 /* reserved -> readable, writable, zero */
int plat_decommit(void *p, size_t size); /* and back; on failure the range stays as it was */
int plat_purge(void *p, size_t size);	 /* give the pages back, keep the range; they read zero */
void plat_huge(void *p, size_t size, bool allow);    /* may the kernel use huge pages here? */
void plat_bind(void *p, size_t size, unsigned node); /* prefer memory of a node; may be denied */

/*
 * Memory that other programs of the same user may look at, and nobody else.
 *
 * plat_share_open  - make some, zeroed; @name is what it is called in /proc
 * plat_share_adopt - use a descriptor of such memory that somebody else made for it; -EINVAL: it is not
 *		      that. plat_share_drop() undoes it
 * plat_share_renew - in the child of a fork: memory of its own in place of the parent's, at the same address,
 *		      zeroed. Where that fails it is private, and nobody can look at it
 * plat_share_ours  - is it this process's, and not that of a parent that it was made by without fork
 *		      handlers? [any]
 *
 * 0 or -errno; -ENOSYS where there are no other programs.
 */
struct plat_share {
	void *memory;
	size_t size;
	const char *name;
	int fd;
	unsigned pid;
	uint32_t *mine;
	uint64_t dev, ino;
};
int plat_share_open(struct plat_share *s, const char *name, size_t size);
int plat_share_adopt(struct plat_share *s, const char *name, size_t size, int fd);
void plat_share_drop(struct plat_share *s);
bool plat_share_ours(const struct plat_share *s);
int plat_share_renew(struct plat_share *s);

/* ---- time, waiting, threads ----------------------------------------------------------------------- */

uint64_t plat_now(void);   /* nanoseconds, coarse is good enough [any] */
uint64_t plat_clock(void); /* nanoseconds, fine enough for a wait of a few hundred [any] */
void plat_relax(void);	   /* a spin's pause [any] */
void plat_yield(void);	   /* let others run */

/* Sleeps while *word == value, at most `timeout` ns (0: for ever); may return for no reason. */
void plat_wait(uint32_t *word, uint32_t value, uint64_t timeout);
void plat_wake(uint32_t *word); /* wakes all who wait on word [any] */

/*
 * plat_membarrier - abort the per-CPU sequences of all CPUs that are under way
 * On return every store that a sequence committed before is visible here, and no sequence that began
 * before will commit any more. -errno where the system refuses. No-op without rseq.
 */
int plat_membarrier(void);

/* Starts a detached thread with all signals blocked; does not wait for it. */
int plat_thread_start(void *(*fn)(void *), void *arg);

/* ---- RCU ------------------------------------------------------------------------------------------ */

void plat_rcu_synchronize(const struct rcu_flavor_struct *flavor);

/*
 * plat_rcu_call - call fn(item) on this CPU when a grace period is over
 * False where the machine has no such callbacks; then the core's own reclaimer has to do it.
 * plat_rcu_poll() calls the oldest one of this CPU now, if its grace period is over; plat_rcu_barrier()
 * waits until all have been called.
 */
bool plat_rcu_call(const struct rcu_flavor_struct *flavor, void (*fn)(void *), void *item);
bool plat_rcu_poll(const struct rcu_flavor_struct *flavor);
void plat_rcu_barrier(const struct rcu_flavor_struct *flavor);

/* May the thread be a reader, so that it must not wait for a grace period? */
bool plat_rcu_reader(const struct rcu_flavor_struct *flavor);

/*
 * A thread that waits for a grace period must not hold one up. plat_rcu_wait_begin() takes it offline
 * where the flavor knows that and returns what plat_rcu_wait_end() needs to undo it.
 */
bool plat_rcu_wait_begin(const struct rcu_flavor_struct *flavor);
void plat_rcu_wait_end(const struct rcu_flavor_struct *flavor, bool was_online);

/* ---- process -------------------------------------------------------------------------------------- */

/* The handlers run around every fork(2) from then on; prepare before those registered earlier. */
int plat_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Blocks all signals of the thread and returns the mask it had; and puts that back. */
uint64_t plat_signals_block(void);
void plat_signals_restore(uint64_t before);

/* An environment variable, or NULL; always NULL in secure-execution mode. */
const char *plat_env(const char *name);

void plat_set_errno(int error);			      /* [any] */
int plat_write(int fd, const char *text, size_t len); /* all of it; 0 or -errno [any] */
uint64_t plat_random(void);			      /* a key that others cannot guess */
unsigned plat_pid(void);			      /* [any] */

/* Writes "uslub: " and the message and a newline to standard error; plat_fatal then aborts. [any] */
void plat_warn(const char *format, ...) printf_like(1, 2);
void plat_fatal(const char *format, ...) printf_like(1, 2) __attribute__((noreturn, cold));

#endif /* USLUB_PLATFORM_H */
