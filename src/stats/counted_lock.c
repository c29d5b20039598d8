/* SPDX-License-Identifier: MIT */
#include "stats/counted_lock.h"

void counted_lock_wait(struct counted_lock *l)
{
	uint64_t began = plat_clock(), waited;

	plat_lock(&l->lock);
	waited = plat_clock() - began;
	counted_lock_bump(&l->contended, 1);
	counted_lock_bump(&l->waited, waited);
}
