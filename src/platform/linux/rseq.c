/* SPDX-License-Identifier: MIT */
/*
 * The mode of the per-CPU sequences: decided once, before the first cache.
 *
 * rseq if glibc registered the main thread, which it says by __rseq_size (the documented interface; a
 * second registration of our own would fail or break glibc's), and the kernel will abort the sequences
 * of other CPUs for us (membarrier). Else everything works by compare-exchange: old kernels,
 * GLIBC_TUNABLES=glibc.pthread.rseq=0, seccomp filters, valgrind, emulators. ThreadSanitizer cannot see
 * into the sequences, so its builds choose the same.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/platform.h"
#include "machine.h"

#if defined(__SANITIZE_THREAD__)
enum { sequences_visible = 0 };
#elif defined(__has_feature)
enum { sequences_visible = !__has_feature(thread_sanitizer) };
#else
enum { sequences_visible = 1 };
#endif

__thread struct plat_place *plat_thread_places;
__thread unsigned plat_thread_locks;
ptrdiff_t plat_rseq_offset;
uint32_t plat_seq_limit;

static uint32_t started; /* 0 no, 1 under way, 2 done */

static int membarrier(int command)
{
	PRESERVE_ERRNO;

	return syscall(SYS_membarrier, command, 0, 0) ? -errno : 0;
}

void rseq_start(void)
{
	plat_rseq_offset = __rseq_offset;
	if (sequences_visible && __rseq_size && rseq_cpu() < plat_ncpu() &&
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0)
		plat_store_release(&plat_seq_limit, plat_ncpu());
}

/* In the child: the kernel may have forgotten the registration with membarrier. */
static void rseq_child(void)
{
	if (plat_rseq_mode())
		membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

void plat_start(void)
{
	uint32_t none = 0;

	if (plat_load_acquire(&started) == 2)
		return;
	if (!plat_cas(&started, &none, 1)) {
		while (plat_load_acquire(&started) != 2)
			plat_yield();
		return;
	}
	topology_start("/sys");
	rseq_start();
	plat_atfork(NULL, NULL, rseq_child);
	plat_store_release(&started, 2);
}

bool plat_rseq_mode(void)
{
	return plat_load(&plat_seq_limit) != 0;
}

int plat_membarrier(void)
{
	int error;

	if (!plat_rseq_mode()) {
		plat_fence();
		return 0;
	}
	error = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
	/* Refused since start, by a seccomp filter. */
	return error && visit_cpus() ? error : 0;
}

/*
 * Without rseq any thread may use any slot, and the CPU is a good guess. With it, only a foreign slot
 * will do; threads are spread by their thread pointers, which lie pages apart.
 */
unsigned plat_slot_shared(void)
{
	unsigned ncpu = plat_ncpu(), cpu;

	if (!plat_rseq_mode()) {
		cpu = (unsigned)sched_getcpu();
		if (cpu < ncpu)
			return cpu;
	}
	return ncpu + (unsigned)(plat_self() >> 12) % PLAT_FOREIGN_SLOTS;
}

#ifdef USLUB_INJECT

int plat_inject_failures = -1;
unsigned plat_inject_calls;
uint32_t plat_inject_point;
uint32_t plat_inject_loops;
uint32_t plat_inject_aborts;
uint32_t plat_inject_hits;

bool plat_inject_failure(void)
{
	plat_fetch_add(&plat_inject_calls, 1);
	if (plat_load(&plat_inject_failures) < 0)
		return false;
	if (plat_load(&plat_inject_failures) == 0)
		return true;
	plat_fetch_sub(&plat_inject_failures, 1);
	return false;
}

void plat_test_fake_rseq(void *fake, unsigned ncpu)
{
	plat_rseq_offset = fake ? (ptrdiff_t)((uintptr_t)fake - plat_self()) : __rseq_offset;
	plat_seq_limit = ncpu;
}

#endif
