/* SPDX-License-Identifier: MIT */
/*
 * What the files of platform/linux share among themselves, and the switches by which tests reach into
 * the machine. Nothing above the seam includes this.
 */
#ifndef USLUB_LINUX_MACHINE_H
#define USLUB_LINUX_MACHINE_H

#include <errno.h>
#include "base/base.h"

/* Function-wide: whatever system calls do to errno, the caller's value comes back. */
static inline void errno_put_back(const int *saved)
{
	errno = *saved;
}
#define PRESERVE_ERRNO int saved_errno __attribute__((cleanup(errno_put_back), unused)) = errno

hidden void topology_start(const char *sysfs);
hidden void rseq_start(void);
hidden int visit_cpus(void); /* does what membarrier(2) would, or -EPERM */

#ifdef USLUB_INJECT
/*
 * Only in the library that tests link.
 *  plat_inject_failures: mapping calls left until they fail; negative: never. They fail from 0 on.
 *  plat_inject_point, _loops, _aborts: see SEQ_POINT; plat_inject_hook: see inject.h.
 *  plat_test_fake_rseq: run the sequences on this struct instead of the thread's own; NULL: undo.
 *  plat_test_topology: read the topology again from another root than /sys.
 */
struct rseq;
extern int plat_inject_failures;
extern unsigned plat_inject_calls;
extern uint32_t plat_inject_point;
extern uint32_t plat_inject_loops;
extern uint32_t plat_inject_aborts;
extern uint32_t plat_inject_hits;
void plat_test_fake_rseq(void *fake, unsigned ncpu);
void plat_test_topology(const char *sysfs);
bool plat_inject_failure(void);
#else
static inline bool plat_inject_failure(void)
{
	return false;
}
#endif

#endif /* USLUB_LINUX_MACHINE_H */
