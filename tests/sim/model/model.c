/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine against times worked out by hand. A machine is made once in a process, so each test is a
 * process of its own.
 *
 * The machine: CPUs 0 and 1 on node 0, CPUs 2 and 3 on node 1. Times below are nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "platform/platform.h"
#include "platform/sim/sim.h"

static const struct sim_machine four = {
	.name = "four",
	.cpus = 4,
	.nodes = 2,
	.own = 4 * SIM_NS,
	.hit = 1 * SIM_NS,
	.move_near = 30 * SIM_NS,
	.move_far = 70 * SIM_NS,
	.fetch = 100 * SIM_NS,
	.use_own = 2 * SIM_NS,
	.use_near = 33 * SIM_NS,
	.use_far = 77 * SIM_NS,
	.lock_near = 40 * SIM_NS,
	.lock_far = 90 * SIM_NS,
	.lock_entry = 20 * SIM_NS,
	.wake = 2000 * SIM_NS,
	.rcu_batch = 2,
	.rcu_callback = 50 * SIM_NS,
	.rcu_gp = 1000 * SIM_NS,
	.rcu_tick = 500 * SIM_NS,
	.rcu_task = 300 * SIM_NS,
};

static void equal(const char *what, uint64_t is, uint64_t expected)
{
	if (is == expected)
		return;
	printf("%s: %llu, not %llu\n", what, (unsigned long long)is, (unsigned long long)expected);
	exit(1);
}

#define EQUAL(is, expected) equal(#is, is, expected)

static uint64_t now(void)
{
	return sim_now() / SIM_NS;
}

/* Works until a time. */
static void until(uint64_t ns)
{
	sim_work((ns - now()) * SIM_NS);
}

static uint64_t word;

/* How long an access takes, begun at a time. */
static uint64_t time_add(uint64_t at)
{
	until(at);
	plat_fetch_add(&word, 1);
	return now() - at;
}

static uint64_t time_load(uint64_t at)
{
	until(at);
	(void)plat_load(&word);
	return now() - at;
}

static uint64_t time_store(uint64_t at)
{
	until(at);
	plat_store(&word, 1);
	return now() - at;
}

/* ---- lines move by distance ----------------------------------------------------------------------- */

static void moves(void *arg)
{
	(void)arg;
	switch (sim_cpu()) {
	case 0:
		EQUAL(time_add(1000), 100); /* nobody has it: from memory */
		EQUAL(time_add(1200), 4);
		EQUAL(time_load(1300), 1);
		EQUAL(time_load(4000), 70); /* from CPU 2, which stays a reader */
		EQUAL(time_load(4100), 1);
		break;
	case 1:
		EQUAL(time_add(2000), 30);  /* from CPU 0 */
		EQUAL(time_load(5000), 30); /* the nearest of its readers has it */
		break;
	case 2:
		EQUAL(time_add(3000), 70); /* from CPU 1 */
		break;
	default:
		EQUAL(time_store(6000), 70); /* all must leave it, the farthest too */
		EQUAL(time_store(6100), 4);
	}
}

/* ---- moves of one line follow each other ---------------------------------------------------------- */

static void together(void *arg)
{
	static const uint64_t expected[] = { 100, 130, 200, 230 };

	(void)arg;
	EQUAL(time_add(1000), expected[sim_cpu()]);
}

/* ---- what a user writes --------------------------------------------------------------------------- */

static char object[256] __attribute__((aligned(64)));

static void uses(void *arg)
{
	(void)arg;
	until(1000 * (1 + sim_cpu()));
	sim_use(object, 128);
	/* two lines: from memory, then near, then far, then near */
	EQUAL(now() % 1000, sim_cpu() == 0 ? 200 : sim_cpu() == 2 ? 154 : 66);
	sim_use(object, 128);
	EQUAL(now() % 1000, (sim_cpu() == 0 ? 200 : sim_cpu() == 2 ? 154 : 66) + 4);
}

/* ---- locks are handed over in the order of arrival ------------------------------------------------ */

static struct plat_lock lock = { .rank = RANK_LIST };
static unsigned order[3], taken;

static void locks(void *arg)
{
	static const uint64_t arrives[] = { 1000, 1300, 1200 };
	unsigned cpu = sim_cpu();

	(void)arg;
	if (cpu == 3)
		return;
	until(arrives[cpu]);
	plat_lock(&lock);
	order[taken++] = cpu;
	switch (cpu) {
	case 0:
		EQUAL(now(), 1100); /* the line, from memory */
		until(2100);
		break;
	case 2:
		/*
		 * Looked at 1200 (the line: 70), queued until 1290. CPU 0 got the line back from CPU 1 at 2130,
		 * and hands over to another node.
		 */
		EQUAL(now(), 2220);
		until(2320);
		break;
	default:
		/* Looked at 1300 (the line, from CPU 2: 70), queued until 1390. The line came with the lock. */
		EQUAL(now(), 2414);
	}
	plat_unlock(&lock);
}

static void check_locks(void)
{
	struct sim_totals t;

	EQUAL(order[0], 0);
	EQUAL(order[1], 2);
	EQUAL(order[2], 1);
	sim_totals(&t);
	/* both: 20 to queue, then from 1290 to 2220 and from 1390 to 2414 */
	EQUAL(t.lock_wait[RANK_LIST] / SIM_NS, 20 + 930 + 20 + 1024);
	EQUAL(t.time[SIM_TIME_LOCK], t.lock_wait[RANK_LIST]);
}

/* ---- RCU callbacks come in bursts ----------------------------------------------------------------- */

static uint64_t called[3];
static unsigned ncalled;

static void callback(void *item)
{
	(void)item;
	called[ncalled++] = now();
}

static void bursts(void *arg)
{
	(void)arg;
	if (sim_cpu())
		return;
	sim_work(100 * SIM_NS);
	for (unsigned i = 0; i < 3; i++)
		plat_rcu_call(&sim_flavor, callback, NULL);
	while (now() < 3000)
		sim_work(100 * SIM_NS);
}

static void check_bursts(void)
{
	/*
	 * A grace period begins at 1000 and is over at 2000, which a tick sees at once: two callbacks, then
	 * 300 of work, then the third.
	 */
	EQUAL(ncalled, 3);
	EQUAL(called[0], 2050);
	EQUAL(called[1], 2100);
	EQUAL(called[2], 2450);
}

/* What a tick has not seen yet is not over. */
static void late_tick(void *arg)
{
	(void)arg;
	if (sim_cpu())
		return;
	sim_work(1100 * SIM_NS);
	plat_rcu_call(&sim_flavor, callback, NULL); /* over at 3000 */
	until(2999);
	sim_work(0);
	EQUAL(ncalled, 0);
	until(3200);
	EQUAL(ncalled, 1);
	EQUAL(called[0], 3250);
}

/* ---- sleep and wake ------------------------------------------------------------------------------- */

static uint32_t futex;

static void sleepers(void *arg)
{
	(void)arg;
	if (sim_cpu() == 0) {
		plat_wait(&futex, 0, 0);
		EQUAL(futex, 1);
		EQUAL(now(), 3000); /* woken at 1000 */
		plat_wait(&futex, 1, 500);
		EQUAL(now(), 3500); /* by the clock */
		plat_wait(&futex, 0, 500);
		EQUAL(now(), 3500); /* the value is another one */
	} else if (sim_cpu() == 1) {
		until(1000);
		futex = 1;
		plat_wake(&futex);
		EQUAL(now(), 1000);
	}
}

static void check_sleepers(void)
{
	struct sim_totals t;

	/* Who sleeps spends no time. */
	sim_totals(&t);
	EQUAL(t.time[SIM_TIME_WORK], 1000 * SIM_NS);
}

/* ---- threads of one CPU take turns ---------------------------------------------------------------- */

static unsigned turns;

static void share(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 40; i++) {
		sim_work(100000 * SIM_NS);
		turns = turns * 31 + sim_cpu();
	}
}

static void check_share(void)
{
	struct sim_totals t;

	sim_totals(&t);
	EQUAL(t.time[SIM_TIME_WORK] / SIM_NS, 4 * 40 * 100000);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*thread)(void *arg);
	void (*check)(void);
} tests[] = {
	{ "moves", moves, NULL },
	{ "together", together, NULL },
	{ "uses", uses, NULL },
	{ "locks", locks, check_locks },
	{ "bursts", bursts, check_bursts },
	{ "late_tick", late_tick, NULL },
	{ "sleepers", sleepers, check_sleepers },
	{ "share", share, check_share },
};

static void run(unsigned which)
{
	sim_start(&four, 1);
	for (unsigned cpu = 0; cpu < four.cpus; cpu++)
		sim_thread(tests[which].thread, NULL, tests[which].thread == share ? 0 : cpu);
	sim_run();
	if (tests[which].check)
		tests[which].check();
	exit(0);
}

int main(void)
{
	int failed = 0, status;

	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		fflush(stdout);
		if (!fork())
			run(i);
		wait(&status);
		printf("%s %s\n", status ? "not ok" : "ok", tests[i].name);
		failed |= status;
	}
	return failed ? 1 : 0;
}
