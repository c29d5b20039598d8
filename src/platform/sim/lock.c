/* SPDX-License-Identifier: MIT */
/*
 * Locks.
 *
 * To measure: a lock that is taken is queued for, and handed over in the order of arrival, as the kernel's
 * queued spin locks are. The CPU of a waiting thread does nothing else. Whoever gets it has its line as well,
 * so that the hand-over costs what moves a line from CPU to CPU, and a bit.
 *
 * Outside of all threads nobody else runs, and locks are nothing.
 *
 * To explore: whoever is chosen first among those who want a free lock gets it, as with a futex.
 */
#include "platform/platform.h"
#include "machine.h"

uint64_t plat_self(void)
{
	return sim_current ? sim_current->number + 1 : SIM_FIBERS_MAX + 1;
}

static void own_line(const struct plat_lock *l)
{
	if (!sim_exploring)
		line_access((uintptr_t)l, SIM_ATOMIC, machine.own, machine.move_near,
			    machine.move_far, SIM_TIME_OTHER);
}

bool plat_trylock(struct plat_lock *l)
{
	if (!sim_current)
		return true;
	sim_sync(SIM_LOCK, l);
	sim_sums.points++;
	own_line(l);
	if (l->owner)
		return false;
	l->owner = (uint16_t)plat_self();
	sim_current->locks++;
	sim_tell(SIM_LOCKED, l, 0, 0);
	return true;
}

static void queue_for(struct plat_lock *l)
{
	struct sim_fiber *f = sim_current;

	f->lock_next = 0;
	if (l->last)
		fiber_of(l->last)->lock_next = (uint16_t)(f->number + 1);
	else
		l->first = (uint16_t)(f->number + 1);
	l->last = (uint16_t)(f->number + 1);
}

static struct sim_fiber *first_of(struct plat_lock *l)
{
	struct sim_fiber *f = fiber_of(l->first);

	l->first = f->lock_next;
	if (!l->first)
		l->last = 0;
	return f;
}

void plat_lock(struct plat_lock *l)
{
	struct sim_cpu *cpu;
	uint64_t since;

	if (plat_trylock(l))
		return;
	if (plat_lock_mine(l))
		sim_give_up("deadlock: a lock of rank %u is taken twice", l->rank);
	if (sim_exploring) {
		do {
			queue_for(l);
			sched_block(SIM_NEVER);
		} while (l->owner);
		l->owner = (uint16_t)plat_self();
		sim_current->locks++;
		sim_tell(SIM_LOCKED, l, 0, 0);
		return;
	}
	cpu = cpu_now();
	since = cpu->clock;
	cpu->clock += machine.lock_entry;
	queue_for(l);
	sched_spin();
	cpu->time[SIM_TIME_LOCK] += cpu->clock - since;
	sim_sums.lock_wait[l->rank % SIM_RANKS] += cpu->clock - since;
}

void plat_unlock(struct plat_lock *l)
{
	struct sim_fiber *next;
	unsigned from;

	if (!sim_current)
		return;
	sim_sync(SIM_UNLOCK, l);
	sim_sums.points++;
	if (!plat_lock_mine(l))
		sim_give_up("unlock of rank %u by a thread that does not hold it", l->rank);
	own_line(l);
	sim_tell(SIM_UNLOCKING, l, 0, 0);
	l->owner = 0;
	sim_current->locks--;
	if (!l->first)
		return;
	if (sim_exploring) {
		while (l->first)
			sched_wake(first_of(l), 0);
		return;
	}
	next = first_of(l);
	from = sim_current->cpu;
	l->owner = (uint16_t)(next->number + 1);
	next->locks++;
	sched_hand_over(next, cpu_now()->clock + (same_node(from, next->cpu) ? machine.lock_near
									     : machine.lock_far));
	line_hand_over(l, next->cpu);
}

bool plat_lock_mine(const struct plat_lock *l)
{
	return l->owner == plat_self();
}

bool plat_lock_seize(struct plat_lock *l)
{
	if (plat_lock_mine(l))
		return true;
	if (!plat_trylock(l))
		return false;
	l->fork = 1;
	return true;
}

void plat_lock_thaw(struct plat_lock *l, bool child)
{
	if (plat_lock_mine(l) && l->fork) {
		l->fork = 0;
		plat_unlock(l);
	} else if (child && !plat_lock_mine(l)) {
		plat_lock_init(l, l->rank);
	}
}
