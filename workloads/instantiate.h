/* SPDX-License-Identifier: MIT */
/*
 * Instantiates every workload over one family's operations.
 *
 * A family defines its `static const struct alloc_ops` and then uses WL_INSTANCE() on each entry of
 * workloads.def and WL_CODE() to make its table.
 */
#ifndef WORKLOADS_INSTANTIATE_H
#define WORKLOADS_INSTANTIATE_H

#include "steps.h"

/* The functions keep a recognizable name, so that a disassembly shows what a loop has become. */
#define WL_INSTANCE(name, family, ops)                                                             \
	static void name##_setup_##family(struct wl_thread *t)                                     \
	{                                                                                          \
		name##_setup(ops, t);                                                              \
	}                                                                                          \
	static uint64_t name##_run_##family(struct wl_thread *t, uint64_t n)                       \
	{                                                                                          \
		return name##_run(ops, t, n);                                                      \
	}                                                                                          \
	static void name##_finish_##family(struct wl_thread *t)                                    \
	{                                                                                          \
		name##_finish(ops, t);                                                             \
	}

#define WL_CODE(name, family)                                                                      \
	[WL_##name] = { name##_setup_##family, name##_run_##family, name##_finish_##family },

#endif /* WORKLOADS_INSTANTIATE_H */
