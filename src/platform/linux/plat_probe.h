/* SPDX-License-Identifier: MIT */
/*
 * Trace points as SystemTap and DTrace have them (USDT), of the provider "uslub". gdb, perf, bpftrace and
 * SystemTap know them. USLUB_PROBES comes from the build, which looks for <sys/sdt.h>; that is a header
 * only, nothing is linked. Without it a probe is nothing.
 */
#ifndef USLUB_LINUX_PLAT_PROBE_H
#define USLUB_LINUX_PLAT_PROBE_H

#ifdef USLUB_PROBES
#include <sys/sdt.h>

#define plat_probe2(name, a, b)	      STAP_PROBE2(uslub, name, a, b)
#define plat_probe3(name, a, b, c)    STAP_PROBE3(uslub, name, a, b, c)
#define plat_probe4(name, a, b, c, d) STAP_PROBE4(uslub, name, a, b, c, d)
#else
#define plat_probe2(name, a, b)	      ((void)(a), (void)(b))
#define plat_probe3(name, a, b, c)    ((void)(a), (void)(b), (void)(c))
#define plat_probe4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif /* USLUB_LINUX_PLAT_PROBE_H */
