/* SPDX-License-Identifier: MIT */
/*
 * RCU.
 *
 * To measure: grace periods follow each other without a gap, each of a random length. What is queued at some
 * time is ready at the end of the first one that began after it. A CPU looks for what is ready at its tick
 * and then runs callbacks, a batch at a time with work in between, where it does private work: so matured
 * sheaves come in bursts, on the CPU that queued them, as in a kernel. With rcu_batch 0 the machine has no
 * callbacks, and the library's reclaimer does what it does on a real machine.
 *
 * To explore: a grace period ends when all who were reading at its beginning have stopped.
 */
#include <stdlib.h>
#include <urcu/flavor.h>
#include "platform/platform.h"
#include "machine.h"

struct rcu_item {
	struct rcu_item *next;
	uint64_t ready;
	void (*fn)(void *item);
	void *item;
};

const struct rcu_flavor_struct sim_flavor;

static uint64_t *ends; /* of grace periods so far thought of */
static size_t nends, ends_size;
static uint64_t chance;
static uint64_t sections; /* read-side sections begun */
static struct rcu_item *spare;

void rcu_start(void)
{
	chance = sim_seed ^ 0x5eedu;
	for (unsigned cpu = 0; cpu < machine.cpus; cpu++)
		sim_cpus[cpu].next_tick = machine.rcu_tick_spread
						  ? sim_random(&chance) % machine.rcu_tick_spread
						  : 0;
}

static void think_of_another(void)
{
	uint64_t length = machine.rcu_gp, jitter = machine.rcu_gp_jitter;

	if (jitter)
		length += sim_random(&chance) % (2 * jitter) - jitter;
	if (machine.rcu_long && sim_random(&chance) % machine.rcu_long == 0)
		length *= 3;
	if (nends == ends_size) {
		ends_size = ends_size ? 2 * ends_size : 1024;
		ends = realloc(ends, ends_size * sizeof(*ends));
		if (!ends)
			sim_give_up("no memory for grace periods");
	}
	ends[nends] = (nends ? ends[nends - 1] : 0) + length;
	nends++;
	sim_sums.grace_periods++;
}

/* The end of the first grace period that begins at `time` or later. */
static uint64_t end_after(uint64_t time)
{
	size_t i;

	while (nends < 2 || ends[nends - 2] < time)
		think_of_another();
	for (i = nends - 1; i > 1 && ends[i - 2] >= time; i--)
		;
	return ends[i];
}

bool plat_rcu_call(const struct rcu_flavor_struct *flavor, void (*fn)(void *), void *item)
{
	struct sim_cpu *cpu;
	struct rcu_item *i;

	(void)flavor;
	if (!machine.rcu_batch || sim_exploring || !sim_current)
		return false;
	i = spare;
	if (i)
		spare = i->next;
	else
		i = malloc(sizeof(*i));
	if (!i)
		sim_give_up("no memory for a callback");
	cpu = cpu_now();
	*i = (struct rcu_item){ .ready = end_after(cpu->clock), .fn = fn, .item = item };
	if (cpu->ready_last)
		cpu->ready_last->next = i;
	else
		cpu->ready_first = i;
	cpu->ready_last = i;
	return true;
}

static void call_first(struct sim_cpu *cpu)
{
	struct rcu_item *i = cpu->ready_first, called = *i;

	cpu->ready_first = i->next;
	if (!cpu->ready_first)
		cpu->ready_last = NULL;
	i->next = spare;
	spare = i;
	sim_charge(machine.rcu_callback, SIM_TIME_OTHER);
	called.fn(called.item);
}

void rcu_callbacks(void)
{
	struct sim_cpu *cpu = cpu_now();
	unsigned called = 0;

	if (!cpu->ready_first || cpu->clock < cpu->task_until)
		return;
	while (cpu->next_tick + machine.rcu_tick <= cpu->clock)
		cpu->next_tick += machine.rcu_tick;
	while (called < machine.rcu_batch && cpu->ready_first &&
	       cpu->ready_first->ready <= cpu->next_tick) {
		call_first(cpu);
		called++;
	}
	if (called)
		cpu->task_until = cpu->clock + machine.rcu_task;
}

bool plat_rcu_poll(const struct rcu_flavor_struct *flavor)
{
	struct sim_cpu *cpu;

	(void)flavor;
	if (!sim_current)
		return false;
	cpu = cpu_now();
	if (!cpu->ready_first || cpu->ready_first->ready > cpu->clock)
		return false;
	call_first(cpu);
	return true;
}

static void sleep_until(uint64_t time)
{
	while (cpu_now()->clock < time)
		sched_block(time);
}

void plat_rcu_barrier(const struct rcu_flavor_struct *flavor)
{
	(void)flavor;
	if (!sim_current)
		return;
	for (unsigned cpu = 0; cpu < machine.cpus; cpu++)
		while (sim_cpus[cpu].ready_first) {
			sleep_until(sim_cpus[cpu].ready_first->ready);
			if (sim_cpus[cpu].ready_first)
				call_first(&sim_cpus[cpu]);
		}
}

/* Readers of the time when it was called have stopped when it returns. */
void plat_rcu_synchronize(const struct rcu_flavor_struct *flavor)
{
	uint64_t last = sections;
	struct sim_fiber *f;

	(void)flavor;
	if (!sim_exploring)
		sleep_until(end_after(cpu_now()->clock));
	for (unsigned i = 1; i <= sched_fibers(); i++) {
		f = fiber_of(i);
		while (f->read_nest && f->read_number <= last)
			sched_yield_cpu();
	}
}

void sim_read_lock(void)
{
	sim_sync(SIM_STORE, NULL);
	if (!sim_current->read_nest++)
		sim_current->read_number = ++sections;
}

void sim_read_unlock(void)
{
	sim_sync(SIM_STORE, NULL);
	sim_current->read_nest--;
}

bool plat_rcu_reader(const struct rcu_flavor_struct *flavor)
{
	(void)flavor;
	return sim_current && sim_current->read_nest;
}

bool plat_rcu_wait_begin(const struct rcu_flavor_struct *flavor)
{
	(void)flavor;
	return false;
}

void plat_rcu_wait_end(const struct rcu_flavor_struct *flavor, bool was_online)
{
	(void)flavor;
	(void)was_online;
}
