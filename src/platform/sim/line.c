/* SPDX-License-Identifier: MIT */
/*
 * Cache lines.
 *
 * A line is with one CPU, or with several that only read it, or with nobody. An access by a CPU that does not
 * have it as it needs it moves it, which costs by the distance from the farthest CPU it must leave. Moves of
 * one line happen one after the other: who comes while it moves waits. That is what makes a contended word
 * slow however fast each of its users is.
 *
 * Caches have no size: a line stays until somebody else wants it.
 *
 * There are millions of lines, of which few are ever shared: so a line has the number of a set of readers, from a
 * pool, only as long as it has readers.
 *
 * Lines of the simulated memory have their state in a shadow of it. Variables of the program are told apart
 * by the word instead, so that which of them the linker puts next to each other makes no difference.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "machine.h"

#define LINE_SHIFT 6
#define WORDS	   (SIM_CPUS_MAX / 64)
#define NOBODY	   UINT16_MAX

struct line {
	uint64_t busy;	/* until then it moves */
	uint32_t set;	/* of NOBODY's line: its readers, in `sets` */
	uint16_t owner; /* CPU + 1 that may write; 0: nobody; NOBODY: only readers */
};

union readers {
	uint64_t cpus[WORDS];
	uint32_t next; /* free one */
};

static union readers *sets;
static uint32_t nsets, sets_size, free_set; /* number 0 is none */

static uintptr_t arena_from, arena_to;
static struct line *shadow;

/* Variables of the program: a table by address, which only equality matters to. */
static struct variable {
	uintptr_t address;
	struct line line;
} * variables;
static size_t variables_size, variables_used;

void line_start(void *arena, size_t size)
{
	arena_from = (uintptr_t)arena;
	arena_to = arena_from + size;
	shadow = mmap(NULL, (size >> LINE_SHIFT) * sizeof(struct line), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shadow == MAP_FAILED)
		sim_give_up("no address space for the state of cache lines");
}

static struct variable *find(struct variable *table, size_t size, uintptr_t address)
{
	size_t i = (address * 0x9e3779b97f4a7c15u >> 32) & (size - 1);

	while (table[i].address && table[i].address != address)
		i = (i + 1) & (size - 1);
	return &table[i];
}

static void grow(void)
{
	size_t size = variables_size ? 2 * variables_size : 1024;
	struct variable *larger = calloc(size, sizeof(*larger));

	if (!larger)
		sim_give_up("no memory for the state of variables");
	for (size_t i = 0; i < variables_size; i++)
		if (variables[i].address)
			*find(larger, size, variables[i].address) = variables[i];
	free(variables);
	variables = larger;
	variables_size = size;
}

static struct line *line_of(uintptr_t address)
{
	struct variable *v;

	if (address >= arena_from && address < arena_to)
		return &shadow[(address - arena_from) >> LINE_SHIFT];
	if (2 * variables_used >= variables_size)
		grow();
	v = find(variables, variables_size, address & ~(uintptr_t)7);
	if (!v->address) {
		v->address = address & ~(uintptr_t)7;
		variables_used++;
	}
	return &v->line;
}

static uint32_t new_set(void)
{
	uint32_t set = free_set;

	if (set) {
		free_set = sets[set].next;
	} else {
		if (nsets + 1 >= sets_size) {
			sets_size = sets_size ? 2 * sets_size : 1024;
			sets = realloc(sets, sets_size * sizeof(*sets));
			if (!sets)
				sim_give_up("no memory for readers of cache lines");
		}
		set = ++nsets;
	}
	memset(&sets[set], 0, sizeof(sets[set]));
	return set;
}

static void drop_set(struct line *l)
{
	sets[l->set].next = free_set;
	free_set = l->set;
}

static bool reads(const struct line *l, unsigned cpu)
{
	return sets[l->set].cpus[cpu / 64] >> cpu % 64 & 1;
}

/* Is any of its CPUs on another node than this one? or, if not `any`: are all? */
static bool far_from(const struct line *l, unsigned cpu, bool any)
{
	uint64_t left;
	unsigned other;

	if (l->owner && l->owner != NOBODY)
		return !same_node(l->owner - 1u, cpu);
	for (unsigned i = 0; i < WORDS; i++)
		for (left = sets[l->set].cpus[i]; left; left &= left - 1) {
			other = i * 64 + (unsigned)__builtin_ctzll(left);
			if (other != cpu && same_node(other, cpu) != any)
				return any;
		}
	return !any;
}

static bool others_read(const struct line *l, unsigned cpu)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (sets[l->set].cpus[i] & ~(i == cpu / 64 ? 1ull << cpu % 64 : 0))
			return true;
	return false;
}

static void become_owner(struct line *l, unsigned cpu)
{
	if (l->owner == NOBODY)
		drop_set(l);
	l->owner = (uint16_t)(cpu + 1);
}

static void become_reader(struct line *l, unsigned cpu)
{
	if (l->owner != NOBODY) {
		l->set = new_set();
		if (l->owner)
			sets[l->set].cpus[(l->owner - 1) / 64] |= 1ull << (l->owner - 1) % 64;
		l->owner = NOBODY;
	}
	sets[l->set].cpus[cpu / 64] |= 1ull << cpu % 64;
}

static void move(struct line *l, uint64_t cost, uint64_t *moves)
{
	uint64_t now = cpu_now()->clock, begins = max(now, l->busy);

	l->busy = begins + cost;
	++*moves;
	sim_charge(l->busy - now, SIM_TIME_LINE);
}

void line_access(uintptr_t address, enum sim_access how, uint64_t own, uint64_t near, uint64_t far,
		 enum sim_time where)
{
	struct line *l = line_of(address);
	unsigned cpu = sim_current->cpu;
	bool distant;

	if (l->owner == cpu + 1 || (how == SIM_READ && l->owner == NOBODY && reads(l, cpu))) {
		sim_charge(own, where);
		return;
	}
	if (!l->owner) {
		/* A load leaves it with its reader alone, who may write. */
		move(l, machine.fetch, &sim_sums.fetches);
		l->owner = (uint16_t)(cpu + 1);
		return;
	}
	if (how == SIM_READ) {
		distant = far_from(l, cpu, false);
		move(l, distant ? far : near, distant ? &sim_sums.moves_far : &sim_sums.moves_near);
		become_reader(l, cpu);
		return;
	}
	if (l->owner == NOBODY && !others_read(l, cpu)) {
		sim_charge(own, where);
	} else {
		distant = far_from(l, cpu, true);
		move(l, distant ? far : near, distant ? &sim_sums.moves_far : &sim_sums.moves_near);
	}
	become_owner(l, cpu);
}

void line_forget(const void *p, size_t size)
{
	uintptr_t from = (uintptr_t)p;
	struct line *l;

	if (from < arena_from || from >= arena_to)
		return;
	l = &shadow[(from - arena_from) >> LINE_SHIFT];
	for (size >>= LINE_SHIFT; size--; l++) {
		if (l->owner == NOBODY)
			drop_set(l);
		if (l->owner || l->busy)
			*l = (struct line){ 0 };
	}
}

void sim_access(const volatile void *p, enum sim_access how)
{
	if (unlikely(!sim_current))
		return;
	sim_sync(how == SIM_READ ? SIM_LOAD : how == SIM_WRITE ? SIM_STORE : SIM_RMW, p);
	sim_sums.points++;
	if (sim_exploring)
		return;
	line_access((uintptr_t)p, how, how == SIM_READ ? machine.hit : machine.own,
		    machine.move_near, machine.move_far, SIM_TIME_OTHER);
}

bool sim_watched;

void sim_exchanged(const volatile void *p, uint64_t before, uint64_t after)
{
	sim_tell(SIM_EXCHANGED, p, before, after);
}

void sim_use(const void *object, size_t size)
{
	sim_sync(SIM_STORE, object);
	if (sim_exploring)
		return;
	for (size_t offset = 0; offset < size; offset += CACHE_LINE)
		line_access((uintptr_t)object + offset, SIM_WRITE, machine.use_own,
			    machine.use_near, machine.use_far, SIM_TIME_WORK);
}

void plat_touch(const void *object)
{
	if (unlikely(!sim_current) || sim_exploring)
		return;
	line_access((uintptr_t)object, SIM_WRITE, machine.object_own, machine.object_near,
		    machine.object_far, SIM_TIME_OTHER);
}

/* The line goes to the next holder of a lock together with the lock. */
void line_hand_over(const void *p, unsigned cpu)
{
	become_owner(line_of((uintptr_t)p), cpu);
	sim_sums.moves_near++;
}
