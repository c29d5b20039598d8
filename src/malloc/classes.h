/* SPDX-License-Identifier: MIT */
/*
 * Size classes: 16 to 128 bytes in steps of 16, from there to 32 KiB four to each doubling. So no size above
 * 48 bytes wastes more than a fourth, and the average is below an eighth.
 */
#ifndef USLUB_MALLOC_CLASSES_H
#define USLUB_MALLOC_CLASSES_H

#include "base/base.h"

#define MALLOC_ALIGN 16u

#define CLASS_FINE_MOST 128u /* the last of those with equal steps */
#define CLASS_FINE	(CLASS_FINE_MOST / MALLOC_ALIGN)
#define CLASS_MOST	32768u
#define CLASSES		40u

static inline size_t class_size(unsigned class)
{
	unsigned coarse = class - CLASS_FINE;

	if (class < CLASS_FINE)
		return (class + 1) * MALLOC_ALIGN;
	return (size_t)(CLASS_FINE_MOST / 4 * (coarse % 4 + 5)) << coarse / 4;
}

/* The smallest class that holds a size of 1 to CLASS_MOST. */
static inline unsigned class_of_size(size_t size)
{
	size_t last = size - 1;
	unsigned doubling;

	if (last < CLASS_FINE_MOST)
		return (unsigned)(last / MALLOC_ALIGN);
	doubling = ilog2(last / CLASS_FINE_MOST);
	return CLASS_FINE + doubling * 4 + (unsigned)(last / (CLASS_FINE_MOST / 4) >> doubling) % 4;
}

#endif /* USLUB_MALLOC_CLASSES_H */
