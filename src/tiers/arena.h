/* SPDX-License-Identifier: MIT */
/*
 * Memory for the allocator's own bookkeeping: caches, their per-CPU slots and counters. One arena of
 * private mappings for all, since a child made by raw clone(2) must not pop its parent's objects through
 * a shared page, and so that a reader of another process finds all of it in few places.
 */
#ifndef USLUB_TIERS_ARENA_H
#define USLUB_TIERS_ARENA_H

#include "base/base.h"
#include "platform/platform.h"

/* Zeroed, aligned to cache lines; NULL when there is no memory. Untouched pages cost nothing. */
hidden void *arena_alloc(size_t size);
hidden void arena_free(void *p, size_t size); /* the size it was asked for */
hidden const size_t *arena_mapped(void);      /* bytes, used or not */
hidden struct plat_lock *arena_lock(void);    /* for fork */

#endif /* USLUB_TIERS_ARENA_H */
