/* SPDX-License-Identifier: MIT */
/*
 * Start and fork.
 *
 * Fork takes every lock of the library in the order of platform/rank.h and gives them back on both sides,
 * so that the child finds no lock held by a thread it does not have. It takes nothing else: CPU slots are
 * consistent at any moment, since a sequence either committed or did nothing (and one by compare-exchange
 * leaves the word as it was until it is done; the child opens what was closed). What other threads held
 * in their hands at that moment counts as live in the child for ever: at most two sheaves per thread, the
 * objects of a bulk call, the chains of the slabs that a refill has just taken, and a CPU's stash, which is
 * taken out whole for an instant, or the part of it that is being released.
 *
 * A signal handler that forks may have interrupted its own thread under a lock, or with a slot closed
 * (plat_enter()); such a fork is called urgent here. What it interrupted is left alone: the thread exists in
 * the child, too, and will give it back there. But others may wait for it while they hold locks that the
 * fork wants:
 *
 *   - A thread that waits with locks says so in them (plat_still_begin()): what they protect is in order.
 *     An urgent fork freezes such a lock instead of waiting for it. Its owner does not go on before the
 *     fork is over, whatever it waited for, so that it is as good as held; in the child it is free.
 *     A lock whose owner does not wait is waited for, however long its owner is kept from running.
 *   - Forks run one after the other, urgent ones first. An ordinary fork that meets a lock which it would
 *     have to wait for, while an urgent one is waiting, gives everything back and lets that go first.
 *   - Two urgent forks may each have interrupted what the other wants. Neither can be had: the first goes
 *     on without, and in its child that lock is lost: who waits for it ends the process with a message,
 *     others find it busy. Except for close_lock, which a drain in progress can lose.
 *
 * An urgent fork need not know whether a wait would end by itself, and so can leave behind in the child, in
 * the hands of threads that vanished, what a longer wait would have shown in its place; it tries for a while.
 * With a libc that holds a lock of its own while it calls fork handlers (glibc before 2.36), forks of other
 * threads must not meet those of a handler.
 *
 * Signals are blocked from prepare to the end, so that two forks of one thread do not nest.
 */
#include "cache/internal.h"

#define PATIENCE 100 /* times that an urgent fork yields to a still owner */

/* The thread's fork. */
static __thread struct fork {
	struct fork *next; /* under forks.busy: among the urgent ones that wait */
	uint64_t signals;  /* the thread's mask */
	uint64_t word;	   /* of a lock that the thread holds */
	bool urgent;
} this_fork __attribute__((tls_model("initial-exec")));

static struct {
	uint32_t busy;		/* a spin lock, taken with all signals blocked */
	struct fork *under_way; /* under busy: the one whose turn it is */
	struct fork *urgent; /* under busy, read without it as a hint: those that wait for theirs */
} forks;

static void forks_enter(void)
{
	uint32_t free = 0;

	while (!plat_cas(&forks.busy, &free, 1)) {
		free = 0;
		plat_yield();
	}
}

static void forks_leave(void)
{
	plat_store_release(&forks.busy, 0);
}

static void unqueue(struct fork *f)
{
	struct fork **link = &forks.urgent;

	while (*link != f)
		link = &(*link)->next;
	plat_store(link, f->next);
}

static void begin_turn(struct fork *f)
{
	forks_enter();
	if (f->urgent) {
		f->next = forks.urgent;
		plat_store(&forks.urgent, f);
	}
	while (forks.under_way || (forks.urgent && !f->urgent)) {
		forks_leave();
		plat_yield();
		forks_enter();
	}
	if (f->urgent)
		unqueue(f);
	forks.under_way = f;
	forks_leave();
}

static void end_turn(void)
{
	forks_enter();
	forks.under_way = NULL;
	forks_leave();
}

/* Is the lock held by a thread that waits for its turn, and so stands still in the midst of something? */
static bool lose(struct plat_lock *l)
{
	bool stands = false;
	uint64_t word;

	forks_enter();
	word = plat_lock_owner(l);
	for (const struct fork *f = forks.urgent; f; f = f->next)
		stands |= f->word == word;
	/* It may have come to stand after it gave the lock away. */
	stands = stands && plat_lock_owner(l) == word && plat_lock_lose(l);
	forks_leave();
	return stands;
}

/* False: an urgent fork has to go first. */
static bool take(struct plat_lock *l)
{
	for (unsigned tries = 0; !plat_lock_seize(l); tries++) {
		if (!this_fork.urgent) {
			if (plat_load(&forks.urgent))
				return false;
		} else if (tries >= PATIENCE && (plat_lock_freeze(l) || lose(l))) {
			break;
		}
		plat_yield();
	}
	return true;
}

static bool give(struct plat_lock *l)
{
	plat_lock_thaw(l, false);
	return true;
}

static bool give_in_child(struct plat_lock *l)
{
	if (l->rank == RANK_CLOSE && !plat_lock_mine(l))
		plat_lock_init(l, l->rank);
	else
		plat_lock_thaw(l, true);
	return true;
}

/* By rank; the grace locks, which come between, have their own rules in rcu.c. Ends with the first false. */
static bool each_cache_lock(bool (*fn)(struct plat_lock *), enum plat_rank rank)
{
	struct uslub_cache *c;
	bool ok = true;

	list_for_each_entry(c, &registry, link) {
		if (rank == RANK_CLOSE)
			ok = fn(&c->close_lock);
		for (unsigned n = 0; ok && n < plat_nnodes(); n++) {
			if (rank == RANK_BARN)
				ok = fn(&c->barns[n].lock.lock);
			if (rank == RANK_LIST)
				ok = fn(&c->nodes[n].list_lock.lock);
		}
		if (!ok)
			break;
	}
	return ok;
}

/* All locks but the registry's, in order. */
static bool each_lock(bool (*fn)(struct plat_lock *))
{
	bool ok = each_cache_lock(fn, RANK_CLOSE);

	for (unsigned d = 0; ok && d < rcu_domains(); d++)
		ok = fn(rcu_lock_batch(d));
	for (unsigned d = 0; ok && d < rcu_domains(); d++)
		ok = fn(rcu_lock_reserve(d));
	ok = ok && each_cache_lock(fn, RANK_BARN) && each_cache_lock(fn, RANK_LIST);
	for (unsigned n = 0; ok && n < plat_nnodes(); n++)
		ok = fn(supply_lock(n));
	return ok && fn(arena_lock());
}

static void give_all(bool child)
{
	each_lock(child ? give_in_child : give);
	rcu_fork_done(child);
	(child ? give_in_child : give)(&registry_lock);
}

static bool take_all(void)
{
	if (!take(&registry_lock))
		return false;
	rcu_fork_prepare();
	if (each_lock(take))
		return true;
	give_all(false);
	return false;
}

static void fork_prepare(void)
{
	struct fork *f = &this_fork;
	bool urgent = plat_thread_busy();

	f->signals = plat_signals_block();
	f->word = plat_self();
	f->urgent = urgent;
	for (;;) {
		begin_turn(f);
		if (take_all())
			return;
		end_turn();
	}
}

static void fork_parent(void)
{
	uint64_t signals = this_fork.signals;

	give_all(false);
	end_turn();
	plat_signals_restore(signals);
}

static void fork_child(void)
{
	struct uslub_cache *c;

	list_for_each_entry(c, &registry, link)
		pcs_child(&c->slots, c->nslots);
	rcu_child();
	give_all(true);
	forks.busy = 0;
	forks.under_way = NULL;
	forks.urgent = NULL;
	cache_tell(child);
	plat_signals_restore(this_fork.signals);
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
	if (uslub_in_charge())
		uslub_start();
}
