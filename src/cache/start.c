/* SPDX-License-Identifier: MIT */
/*
 * Start and fork.
 *
 * Fork takes every lock of the library in the order of platform/rank.h and gives them back on both sides,
 * so that the child finds no lock held by a thread it does not have. It takes nothing else: CPU slots are
 * consistent at any moment, since a sequence either committed or did nothing (and one by compare-exchange
 * leaves the word as it was until it is done; the child opens what was closed). What other threads held
 * in their hands at that moment counts as live in the child for ever: at most two sheaves per thread, the
 * objects of a bulk call, and the chains of the slabs that a refill has just taken.
 *
 * A signal handler that forks may have interrupted its own thread under a lock, or with a slot closed
 * (plat_enter()). Those are left alone: the thread exists in the child, too, and will give them back there.
 * Another thread may hold a lock of lower rank and wait for them, so in that case no lock is waited for
 * longer than HANDLER_WAIT_NS in all; where threads wait for something else, what their lock protects is
 * in order, so the child simply takes it for free. Signals are blocked from prepare to the end, so that
 * two forks of one thread do not nest.
 */
#include "cache/internal.h"

#define HANDLER_WAIT_NS 100000000ull

/* The thread's fork under way. Not under a lock, since a handler's fork may have to do without any. */
static __thread struct {
	uint64_t signals;  /* its mask */
	uint64_t deadline; /* 0: none */
} forking __attribute__((tls_model("initial-exec")));

static void take(struct plat_lock *l)
{
	if (plat_lock_mine(l))
		return;
	while (!plat_trylock(l)) {
		if (forking.deadline && plat_now() > forking.deadline)
			return;
		plat_yield();
	}
	l->fork = 1;
}

static void give(struct plat_lock *l)
{
	if (!plat_lock_mine(l) || !l->fork)
		return;
	l->fork = 0;
	plat_unlock(l);
}

/* In the child what could not be taken is nobody's. */
static void give_in_child(struct plat_lock *l)
{
	if (plat_lock_mine(l))
		give(l);
	else
		plat_lock_init(l, l->rank);
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
				fn(&c->barns[n].lock.lock);
			if (rank == RANK_LIST)
				fn(&c->nodes[n].list_lock.lock);
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

static void fork_prepare(void)
{
	uint64_t deadline = plat_thread_busy() ? plat_now() + HANDLER_WAIT_NS : 0;

	forking.signals = plat_signals_block();
	forking.deadline = deadline;
	take(&registry_lock);
	rcu_fork_prepare();
	each_lock(take);
}

static void fork_done(bool child)
{
	each_lock(child ? give_in_child : give);
	rcu_fork_done(child);
	(child ? give_in_child : give)(&registry_lock);
	plat_signals_restore(forking.signals);
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
