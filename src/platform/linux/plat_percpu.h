/* SPDX-License-Identifier: MIT */
/*
 * The per-CPU sequences of platform/percpu.h on Linux: restartable sequences (rseq) where the thread is
 * registered and its CPU has a slot, else the same word by compare-exchange (percpu_shared.h).
 *
 * glibc registers every thread (2.35 and later) at a fixed offset from the thread pointer; the library
 * never registers one itself. A thread without registration has a cpu_id that is huge when unsigned, so
 * that the one comparison with plat_seq_limit sends it, an id past the array and the whole mode without
 * rseq (limit 0) to the shared variant. Such a thread must not touch a CPU's slot in the rseq mode,
 * where plain stores commit; it uses a foreign slot.
 */
#ifndef USLUB_LINUX_PLAT_PERCPU_H
#define USLUB_LINUX_PLAT_PERCPU_H

#include "platform/percpu.h"
#include "plat_atomic.h"
#include "plat_thread.h"

hidden extern ptrdiff_t plat_rseq_offset; /* from the thread pointer to its struct rseq */
hidden extern uint32_t plat_seq_limit;	  /* CPUs served by sequences; 0 without rseq */

hidden unsigned plat_slot_shared(void);

#if defined(__x86_64__)
#include "percpu_x86_64.h"
#elif defined(__aarch64__)
#include "percpu_aarch64.h"
#else
#error "uslub knows x86-64 and aarch64"
#endif
#include "platform/percpu_shared.h"

/* The slot of the calling thread: its CPU, or a foreign one. A hint: it may move at once. */
static inline unsigned plat_slot(void)
{
	uint32_t cpu = rseq_cpu();

	return likely(cpu < plat_load(&plat_seq_limit)) ? cpu : plat_slot_shared();
}

/*
 * The two that must be fast. They find the CPU themselves, from `base`, the slot of CPU 0; `limit` is
 * plat_seq_limit, or 0 where a cache wants its fast path closed. seq_pop() gives the object, or NULL for EMPTY, AGAIN and "no CPU below the
 * limit" alike; a gate other than 0, shifted above all CPU numbers, closes it as well: so that a caller's
 * flags cost no branch of their own. EMPTY of seq_push() includes "no CPU below the limit" and TWICE.
 */
#define SEQ_GATE_SHIFT 12
_Static_assert(1u << SEQ_GATE_SHIFT >= PLAT_MAX_CPUS, "a gate must not look like a CPU");

#define seq_pop(base, limit, gate)    rseq_pop(base, limit, gate)
#define seq_push(base, limit, object) rseq_push(base, limit, object)

/* The same for a group of caches: `base` is the page of CPU 0, and the slot lies `at` bytes into a CPU's page. */
#define seq_pop_at(base, limit, at)	     rseq_pop_at(base, limit, at)
#define seq_push_at(base, limit, at, object) rseq_push_at(base, limit, at, object)

/* All others take the slot of CPU `cpu`, as plat_slot() gave it. */
#define seq_dispatch(name, cpu, ...)                                                               \
	(likely((cpu) < plat_load(&plat_seq_limit)) ? rseq_##name(cpu, __VA_ARGS__)                \
						    : shared_##name(__VA_ARGS__))

#include "platform/percpu_dispatch.inc"

#endif /* USLUB_LINUX_PLAT_PERCPU_H */
