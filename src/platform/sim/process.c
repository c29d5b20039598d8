/* SPDX-License-Identifier: MIT */
/* The rest of the seam: CPUs, sequences, clock, waiting, messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/print.h"
#include "platform/platform.h"
#include "machine.h"

uint32_t plat_seq_limit;

void plat_start(void)
{
}

bool plat_rseq_mode(void)
{
	return true;
}

unsigned plat_ncpu(void)
{
	return machine.cpus;
}

unsigned plat_nslots(void)
{
	return machine.cpus + PLAT_FOREIGN_SLOTS;
}

unsigned plat_nnodes(void)
{
	return machine.nodes;
}

unsigned plat_present_cpus(void)
{
	return machine.cpus;
}

unsigned plat_cpu_node(unsigned slot)
{
	unsigned per_node = (machine.cpus + machine.nodes - 1) / machine.nodes;

	return slot < machine.cpus ? slot / per_node : 0;
}

unsigned plat_this_node(void)
{
	return sim_current ? plat_cpu_node(sim_current->cpu) : 0;
}

/* ---- sequences ------------------------------------------------------------------------------------ */

unsigned plat_slot(void)
{
	if (!sim_current)
		return 0;
	return sim_current->foreign ? machine.cpus + sim_current->number % PLAT_FOREIGN_SLOTS
				    : sim_current->cpu;
}

void sim_unregister(void)
{
	sim_current->foreign = true;
}

bool sim_sequence(unsigned cpu, const void *what)
{
	struct sim_fiber *f = sim_current;

	if (!f)
		return cpu == 0;
	sim_sync(SIM_SEQ, what);
	sim_sums.points++;
	f->aborted = false;
	f->sequence = what;
	if (f->cpu != cpu) {
		sim_tell(SIM_MIGRATED, what, 0, 0);
		return false;
	}
	if (!sim_exploring)
		line_access((uintptr_t)what, SIM_ATOMIC, machine.sequence, machine.move_near,
			    machine.move_far, SIM_TIME_SEQUENCE);
	return true;
}

bool sim_commit(void)
{
	if (!sim_current || !sim_exploring)
		return true;
	sched_point(SIM_SEQ_COMMIT, sim_current->sequence);
	if (!sim_current->aborted && !sim_wants(abort))
		return true;
	sim_tell(SIM_ABORTED, sim_current->sequence, 0, 0);
	return false;
}

void sim_straggled(void)
{
	sim_tell(SIM_STRAGGLED, sim_current->sequence, 0, 0);
}

int plat_membarrier(void)
{
	if (!sim_current)
		return 0;
	sim_sync(SIM_RMW, NULL);
	for (unsigned i = 1; i <= sched_fibers(); i++)
		if (fiber_of(i) != sim_current)
			fiber_of(i)->aborted = true;
	if (!sim_exploring)
		sim_charge(machine.membarrier, SIM_TIME_OTHER);
	return 0;
}

void plat_point(unsigned point)
{
	(void)point;
	if (sim_current && sim_exploring)
		sched_point(SIM_STORE, NULL);
}

/* ---- time ----------------------------------------------------------------------------------------- */

uint64_t plat_now(void)
{
	return sim_current ? cpu_now()->clock / SIM_NS : 0;
}

uint64_t plat_clock(void)
{
	return plat_now();
}

void plat_relax(void)
{
	plat_yield();
}

void plat_yield(void)
{
	if (sim_current)
		sched_yield_cpu();
}

void plat_wait(uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct sim_fiber *f = sim_current;

	sim_sync(SIM_LOAD, word);
	if (*word != value)
		return;
	f->futex = word;
	sched_block(timeout ? cpu_now()->clock + timeout * SIM_NS : SIM_NEVER);
	f->futex = NULL;
}

void plat_wake(uint32_t *word)
{
	uint64_t when;

	if (!sim_current)
		return;
	sim_sync(SIM_STORE, word);
	when = cpu_now()->clock + machine.wake;
	for (unsigned i = 1; i <= sched_fibers(); i++)
		if (fiber_of(i)->state == FIBER_BLOCKED && fiber_of(i)->futex == word)
			sched_wake(fiber_of(i), when);
}

void sim_work(uint64_t ps)
{
	sim_sync(SIM_STORE, NULL);
	if (sim_exploring)
		return;
	sim_charge(ps, SIM_TIME_WORK);
	sim_sync(SIM_STORE, NULL);
	rcu_callbacks();
}

void sim_barrier_wait(struct sim_barrier *b, unsigned all)
{
	uint32_t round = b->round;

	if (++b->arrived == all) {
		b->arrived = 0;
		b->round++;
		plat_wake(&b->round);
		return;
	}
	while (b->round == round)
		plat_wait(&b->round, round, 0);
}

/* ---- process -------------------------------------------------------------------------------------- */

#define HANDLERS 4u

static struct {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
} handlers[HANDLERS];
static unsigned nhandlers;
static bool in_child;

int plat_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (nhandlers == HANDLERS)
		return -ENOMEM;
	handlers[nhandlers].prepare = prepare;
	handlers[nhandlers].parent = parent;
	handlers[nhandlers++].child = child;
	return 0;
}

bool sim_in_child(void)
{
	return in_child;
}

/* While the parent waits for the child none of its threads runs: they take turns in one host thread. */
int sim_fork(int *status)
{
	pid_t pid;

	for (unsigned i = nhandlers; i--;)
		handlers[i].prepare();
	pid = fork();
	if (!pid) {
		in_child = true;
		sched_alone();
	}
	while (pid > 0 && waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	for (unsigned i = 0; i < nhandlers; i++)
		(pid ? handlers[i].parent : handlers[i].child)();
	return pid;
}

uint64_t plat_signals_block(void)
{
	return 0;
}

void plat_signals_restore(uint64_t before)
{
	(void)before;
}

/* A run depends on its arguments alone. */
const char *plat_env(const char *name)
{
	(void)name;
	return NULL;
}

void plat_set_errno(int error)
{
	errno = error;
}

int plat_write(int fd, const char *text, size_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, text, len);
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

uint64_t plat_random(void)
{
	static uint64_t state;

	return sim_random(&state) ^ sim_seed;
}

unsigned plat_pid(void)
{
	return 1;
}

static void message(char *buf, size_t size, const char *format, va_list ap)
{
	struct printer p = { .buf = buf, .size = size - 1 };

	print_format(&p, "uslub: ");
	print_vformat(&p, format, ap);
	buf[p.len] = '\0';
}

void plat_warn(const char *format, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, format);
	message(buf, sizeof(buf), format, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", buf);
}

void plat_fatal(const char *format, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, format);
	message(buf, sizeof(buf), format, ap);
	va_end(ap);
	sim_give_up("%s", buf);
}
