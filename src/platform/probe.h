/* SPDX-License-Identifier: MIT */
/*
 * Trace points: probe(refill, cache, node, wanted, objects) says to whoever traces the program that an event
 * of probes.def has happened. A probe that the table does not have, or with other arguments, does not compile.
 *
 * What it comes down to is the machine's affair (plat_probe.h). On Linux it is one nop, and a note in the
 * library's file that says where it is and in which registers or memory its arguments are; a tracer
 * replaces the nop. So arguments should be what is at hand there anyway. No probe is on a fast path.
 */
#ifndef USLUB_PLATFORM_PROBE_H
#define USLUB_PLATFORM_PROBE_H

#include "base/base.h"
#include "plat_probe.h"

#define PROBE_TEXT    const char *
#define PROBE_ADDRESS const void *
#define PROBE_NUMBER  uint64_t

/* The machine's macros may write a directive of the assembler that is called like an attribute of base.h. */
#pragma push_macro("hidden")
#undef hidden
#define USLUB_PROBE_ARGUMENT(name, kind, help) typedef PROBE_##kind probe_arg_##name;
#define USLUB_PROBE2(name, a, b, help)                                                             \
	static always_inline void probe_##name(probe_arg_##a a, probe_arg_##b b)                   \
	{                                                                                          \
		plat_probe2(name, a, b);                                                           \
	}
#define USLUB_PROBE3(name, a, b, c, help)                                                          \
	static always_inline void probe_##name(probe_arg_##a a, probe_arg_##b b, probe_arg_##c c)  \
	{                                                                                          \
		plat_probe3(name, a, b, c);                                                        \
	}
#define USLUB_PROBE4(name, a, b, c, d, help)                                                       \
	static always_inline void probe_##name(probe_arg_##a a, probe_arg_##b b, probe_arg_##c c,  \
					       probe_arg_##d d)                                    \
	{                                                                                          \
		plat_probe4(name, a, b, c, d);                                                     \
	}
#include "platform/probes.def"
#undef USLUB_PROBE_ARGUMENT
#undef USLUB_PROBE2
#undef USLUB_PROBE3
#undef USLUB_PROBE4
#pragma pop_macro("hidden")

#define probe(name, ...) probe_##name(__VA_ARGS__)

#endif /* USLUB_PLATFORM_PROBE_H */
