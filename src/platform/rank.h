/* SPDX-License-Identifier: MIT */
/*
 * Lock order. A thread may wait for a lock only if its rank is higher than that of every lock it holds;
 * trylocks are free of this, since they do not wait. Checked on every lock in builds with
 * USLUB_DEBUG_LOCKS. Fork takes all locks of the library in this order, those of one rank in the order
 * of the caches' creation.
 *
 * What each protects is said where it is declared.
 */
#ifndef USLUB_PLATFORM_RANK_H
#define USLUB_PLATFORM_RANK_H

enum plat_rank {
	RANK_REGISTRY = 1, /* the list of caches; creation and destruction */
	RANK_CLOSE,	   /* per cache: one remote close at a time */
	RANK_GRACE,	   /* per RCU flavor: the wait for a grace period */
	RANK_RECLAIM,	   /* per RCU flavor: the batch being disposed of */
	RANK_RESERVE,	   /* per RCU flavor: blocks of pointers */
	RANK_BARN,	   /* per cache and node */
	RANK_LIST,	   /* per cache and node: list_lock */
	RANK_SUPPLY,	   /* per node: free pages */
	RANK_ARENA,	   /* metadata */
};

#endif /* USLUB_PLATFORM_RANK_H */
