/* SPDX-License-Identifier: MIT */
/*
 * Injection points inside the sequences: places by number where a test can make a sequence dawdle (so
 * that preemption, migration, a signal or a remote close hits it there) or abort. Only the library that
 * tests link has them; elsewhere SEQ_POINT is nothing.
 *
 * The numbers name what has been done when the point is reached.
 */
#ifndef USLUB_LINUX_INJECT_H
#define USLUB_LINUX_INJECT_H

#include "base/base.h"

#define SEQ_POP_ARMED	     1 /* descriptor stored, CPU not read */
#define SEQ_POP_LOADED	     2 /* word read */
#define SEQ_POP_READY	     3 /* object read, before the commit */
#define SEQ_PUSH_ARMED	     4
#define SEQ_PUSH_LOADED	     5
#define SEQ_PUSH_READY	     6
#define SEQ_POP_N_LOADED     7
#define SEQ_POP_N_READY	     8 /* objects copied */
#define SEQ_PUSH_N_LOADED    9
#define SEQ_PUSH_N_READY     10
#define SEQ_FLIP_POP_LOADED  11
#define SEQ_FLIP_POP_FILLED  12 /* old main's fill written */
#define SEQ_FLIP_POP_READY   13
#define SEQ_FLIP_PUSH_LOADED 14
#define SEQ_FLIP_PUSH_FILLED 15
#define SEQ_FLIP_PUSH_READY  16
#define SEQ_TAKE_LOADED	     17
#define SEQ_TAKE_READY	     18
#define SEQ_GIVE_LOADED	     19
#define SEQ_GIVE_READY	     20
#define SEQ_ADD_READY	     21
#define SEQ_POINTS	     21

/*
 * And places between sequences, by plat_point(): there, too, a test can make a thread dawdle, or have
 * plat_inject_hook called, which may do as it likes.
 */
#define POINT_FREED	   22 /* the slab's state says PARKED; it is not pushed yet */
#define POINT_EMPTIED	   23 /* a parked slab's last object is free; nobody was told */
#define POINT_TAKEN	   24 /* a shard's slabs are in hand */
#define POINT_PUT_BACK	   25 /* a rest of them is about to go back */
#define POINT_LISTING	   26 /* a held slab's state is read, and about to say LISTED */
#define POINT_WALKED	   27 /* a held slab's chain was read, and is about to be cut off */
#define POINT_SURPLUS	   28 /* what is too much of a chain is about to go back */
#define POINT_RCU_DETACHED 29 /* replace_rcu(): a full sheaf is off its CPU and not queued yet */
#define INJECT_POINTS	   28 /* those that only dawdle */

#ifdef USLUB_INJECT
extern void (*plat_inject_hook)(unsigned point);
hidden void plat_point(unsigned point);
#else
static inline void plat_point(unsigned point)
{
	(void)point;
}
#endif

#define SEQ_STRING_(x) #x
#define SEQ_STRING(x)  SEQ_STRING_(x)

#endif /* USLUB_LINUX_INJECT_H */
