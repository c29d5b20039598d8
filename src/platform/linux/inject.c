/* SPDX-License-Identifier: MIT */
/* Injection points outside of the sequences: only in the library that tests link. */
#include "platform/platform.h"
#include "machine.h"

#ifdef USLUB_INJECT

void (*plat_inject_hook)(unsigned point);

void plat_point(unsigned point)
{
	uint32_t loops;

	if (plat_inject_hook)
		plat_inject_hook(point);
	if (likely(plat_load(&plat_inject_point) != point))
		return;
	plat_fetch_add(&plat_inject_hits, 1);
	loops = plat_load(&plat_inject_loops);
	if (loops > 1000)
		plat_yield();
	while (loops--)
		__asm__ volatile("" : : : "memory");
}

#endif
