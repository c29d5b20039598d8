/* SPDX-License-Identifier: MIT */
/*
 * Points of the core, between two of its steps, where it matters who comes next: plat_point() says that a
 * thread is there. Elsewhere than in tests and on the simulated machine that is nothing.
 */
#ifndef USLUB_PLATFORM_POINT_H
#define USLUB_PLATFORM_POINT_H

/* The sequences of platform/linux have points 1 to 21. */
#define POINT_FREED	   22 /* the slab's state says PARKED; it is not pushed yet */
#define POINT_EMPTIED	   23 /* a parked slab's last object is free; nobody was told */
#define POINT_TAKEN	   24 /* a shard's slabs are in hand */
#define POINT_PUT_BACK	   25 /* a rest of them is about to go back */
#define POINT_LISTING	   26 /* a held slab's state is read, and about to say LISTED */
#define POINT_WALKED	   27 /* a held slab's chain was read, and is about to be cut off */
#define POINT_SURPLUS	   28 /* what is too much of a chain is about to go back */
#define POINT_RCU_DETACHED 29 /* replace_rcu(): a full sheaf is off its CPU and not queued yet */
#define POINT_STASH_PUT	   30 /* a sheaf is about to be pushed onto what a stash was just now */
#define POINT_STASH_TAKEN  31 /* a stash is in hand */
#define POINT_STASH_BACK   32 /* what is put back is about to be joined to what others put there */

#endif /* USLUB_PLATFORM_POINT_H */
