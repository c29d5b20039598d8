/* SPDX-License-Identifier: MIT */
/*
 * Start and fork.
 *
 * Fork takes every lock of the library in the order of platform/rank.h and gives them back on both sides,
 * so that the child finds no lock held by a thread it does not have. It takes nothing else: CPU slots are
 * consistent at any moment, since a sequence either committed or did nothing (and one by compare-exchange
 * leaves the word as it was until it is done; the child opens what was closed). What other threads held
 * in their hands at that moment counts as live in the child for ever: at most two sheaves per thread, the
 * objects of a bulk call, and the free objects of one slab.
 *
 * A signal handler that forks may have interrupted its own thread under a lock. That lock is left alone:
 * the thread exists in the child, too, and will give it back there; the same goes for a slot that it had
 * closed (plat_enter()). Signals are blocked from prepare to the end, so that two forks of one
 * thread do not nest.
 */
#include "cache/internal.h"

static void take(struct plat_lock *l)
{
	if (plat_lock_mine(l))
		return;
	while (!plat_trylock(l))
		plat_yield();
	l->fork = 1;
}

static void give(struct plat_lock *l)
{
	if (!plat_lock_mine(l) || !l->fork)
		return;
	l->fork = 0;
	plat_unlock(l);
}

/* By rank; the grace locks, which come between, have their own rules in rcu.c. */
static void each_cache_lock(void (*fn)(struct plat_lock *), enum plat_rank rank)
{
	struct uslub_cache *c;

	list_for_each_entry(c, &registry, link) {
		if (rank == RANK_CLOSE)
			fn(&c->close_lock);
		for (unsigned n = 0; n < plat_nnodes(); n++) {
			if (rank == RANK_BARN)
				fn(&c->barns[n].lock);
			if (rank == RANK_LIST)
				fn(&c->nodes[n].list_lock);
		}
	}
}

/* All locks but the registry's, in order. */
static void each_lock(void (*fn)(struct plat_lock *))
{
	each_cache_lock(fn, RANK_CLOSE);
	for (unsigned d = 0; d < rcu_domains(); d++)
		fn(rcu_lock_batch(d));
	for (unsigned d = 0; d < rcu_domains(); d++)
		fn(rcu_lock_reserve(d));
	each_cache_lock(fn, RANK_BARN);
	each_cache_lock(fn, RANK_LIST);
	for (unsigned n = 0; n < plat_nnodes(); n++)
		fn(supply_lock(n));
	fn(arena_lock());
}

static struct plat_signals signals_before; /* the forking thread's; under the registry lock */

static void fork_prepare(void)
{
	struct plat_signals before;

	plat_signals_block(&before);
	take(&registry_lock);
	signals_before = before;
	rcu_fork_prepare();
	each_lock(take);
}

static void fork_done(bool child)
{
	struct plat_signals before;

	each_lock(give);
	rcu_fork_done(child);
	before = signals_before;
	give(&registry_lock);
	plat_signals_restore(&before);
}

static void fork_parent(void)
{
	fork_done(false);
}

static void fork_child(void)
{
	struct uslub_cache *c;

	list_for_each_entry(c, &registry, link)
		pcs_child(c->pcs, c->nslots);
	rcu_child();
	fork_done(true);
}

/* Before the first cache, wherever that is made: perhaps in a constructor that runs before ours. */
void uslub_start(void)
{
	static uint32_t started;
	uint32_t no = 0;

	if (plat_load_acquire(&started) == 2)
		return;
	if (!plat_cas(&started, &no, 1)) {
		while (plat_load_acquire(&started) != 2)
			plat_yield();
		return;
	}
	plat_start();
	supply_start();
	plat_atfork(fork_prepare, fork_parent, fork_child);
	plat_store_release(&started, 2);
}

__attribute__((constructor)) static void construct(void)
{
	uslub_start();
}
