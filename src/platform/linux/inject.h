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
 * And places between sequences, by plat_point() (platform/point.h): there, too, a test can make a thread dawdle,
 * or have plat_inject_hook called, which may do as it likes.
 */
#define INJECT_POINTS 32 /* those of platform/point.h that only dawdle come last */

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
