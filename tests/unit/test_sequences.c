/* SPDX-License-Identifier: MIT */
/*
 * The per-CPU sequences of platform/percpu.h, one at a time.
 *
 * They run on a struct rseq of our own that the kernel does not know, so that every CPU number and
 * every abort can be had without luck, and the same test bodies run on the variants by
 * compare-exchange (limit 0). A model in plain C says before each step what must come of it; after
 * the step all of memory is compared: words, pointers, live objects, and that nothing but dead
 * memory was written to.
 *
 * Aborts are forced at each injection point. On x86-64 they are also forced at each instruction:
 * the trap flag stops the sequence there, and the handler does what the kernel would do.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* registers in ucontext_t */
#endif
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/rseq.h>
#include <ucontext.h>
#include <cmocka.h>

#include "platform/platform.h"
#include "machine.h"

#define NCPU	    4
#define NSHEAVES    24
#define NOBODY	    (-1)
#define ALLOCS_MASK ((1ull << WORD_ALLOC_BITS) - 1)

enum family { MAIN, RCU, FAMILIES };

enum op { POP, PUSH, POP_N, PUSH_N, FLIP_POP, FLIP_PUSH, TAKE, GIVE, ADD, OPS };

static const char *const op_names[OPS] = { "pop",	 "push",       "pop_n",
					   "push_n",	 "flip_pop",   "flip_push",
					   "take_other", "give_other", "add" };

/* Which sequence passes which points: from the first one to the last. */
static const struct {
	unsigned first, last;
} points[OPS] = {
	[POP] = { SEQ_POP_ARMED, SEQ_POP_READY },
	[PUSH] = { SEQ_PUSH_ARMED, SEQ_PUSH_READY },
	[POP_N] = { SEQ_POP_N_LOADED, SEQ_POP_N_READY },
	[PUSH_N] = { SEQ_PUSH_N_LOADED, SEQ_PUSH_N_READY },
	[FLIP_POP] = { SEQ_FLIP_POP_LOADED, SEQ_FLIP_POP_READY },
	[FLIP_PUSH] = { SEQ_FLIP_PUSH_LOADED, SEQ_FLIP_PUSH_READY },
	[TAKE] = { SEQ_TAKE_LOADED, SEQ_TAKE_READY },
	[GIVE] = { SEQ_GIVE_LOADED, SEQ_GIVE_READY },
	[ADD] = { SEQ_ADD_READY, SEQ_ADD_READY },
};

/* What a push brings that lies there already: what is on top of main, or the same object twice. */
enum again { NOTHING, TOP, NEIGHBOUR };

/* What is asked of a sequence. */
struct call {
	enum op op;
	enum again again;
	unsigned cpu;
	enum family family;
	unsigned n;	 /* pop_n, push_n */
	int sheaf;	 /* give_other */
	uint64_t addend; /* add */
};

/* What comes of it. */
struct outcome {
	enum seq_result result;
	unsigned n;
	int jump;
	struct uslub_sheaf *sheaf;
	void *objects[SHEAF_CAPACITY_MAX + 1];
};

/* ---- memory, and the model of it
 * ------------------------------------------------------------------ */

struct model_sheaf {
	unsigned capacity;
	unsigned fill; /* the true one, also while it is a main */
	void *objects[SHEAF_CAPACITY_MAX];
};

struct model_slot {
	uint64_t allocs;
	unsigned who, which;
	int sheaf[2];
};

static struct rseq fake;
static bool restartable; /* what is tested: rseq, or compare-exchange */

static struct pcs slots[NCPU] __attribute__((aligned(CACHE_LINE)));
static struct percpu_slot *main_base = &slots[0].main, *rcu_base = &slots[0].rcu;
static uint64_t counters[NCPU][FAMILIES];
static uint64_t storage[NSHEAVES][(sizeof(struct uslub_sheaf) / 8) + SHEAF_CAPACITY_MAX + 1];
static struct {
	struct pcs slots[NCPU];
	uint64_t counters[NCPU][FAMILIES];
} words_before;
static uint64_t before[NSHEAVES][(sizeof(struct uslub_sheaf) / 8) + SHEAF_CAPACITY_MAX + 1];

static struct model_slot model_slots[NCPU][FAMILIES];
static struct model_sheaf model_sheaves[NSHEAVES];
static uint64_t model_counters[NCPU][FAMILIES];

static void *pushed[SHEAF_CAPACITY_MAX + 1]; /* what push and push_n take their objects from */
static uintptr_t serial;
static struct call current; /* for messages */
static const char *trouble; /* what the last step did wrong */

static struct uslub_sheaf *sheaf_at(int i)
{
	return i == NOBODY ? NULL : (struct uslub_sheaf *)storage[i];
}

static struct percpu_slot *slot_at(unsigned cpu, enum family family)
{
	return family == MAIN ? &slots[cpu].main : &slots[cpu].rcu;
}

static void *new_object(void)
{
	return (void *)(0x100000 + 16 * ++serial);
}

/*
 * A slot closed from another CPU has avail = room = 0. One closed by its own side, which there is
 * by compare-exchange only, keeps them.
 */
static uint64_t model_word(const struct model_slot *m)
{
	uint64_t w = (m->allocs & ALLOCS_MASK) << WORD_ALLOC_SHIFT |
		     (uint64_t)m->who << WORD_WHO_SHIFT | (uint64_t)m->which << WORD_WHICH_SHIFT;
	int main = m->sheaf[m->which];

	if (main == NOBODY || m->who == 2 || (m->who && restartable))
		return w;
	return w | model_sheaves[main].fill |
	       (uint64_t)(model_sheaves[main].capacity - model_sheaves[main].fill)
		       << WORD_ROOM_SHIFT;
}

static bool expect(bool good, const char *what)
{
	if (!good && !trouble)
		trouble = what;
	return good;
}

/* A sheaf of `fill` new objects; every other word of it gets a pattern. */
static void fill_sheaf(int i, unsigned capacity, unsigned fill)
{
	struct model_sheaf *m = &model_sheaves[i];
	struct uslub_sheaf *s = sheaf_at(i);

	memset(storage[i], 0xa5, sizeof(struct uslub_sheaf) + (capacity + 1) * sizeof(void *));
	s->capacity = m->capacity = capacity;
	s->fill = m->fill = fill;
	for (unsigned k = 0; k < fill; k++)
		s->objects[k] = m->objects[k] = new_object();
}

static size_t sheaf_size(int i)
{
	return sheaf_bytes(model_sheaves[i].capacity + 1); /* one more, which nobody may touch */
}

/* Makes memory what the model says. The fill in the header of a main is stale on purpose. */
static void set_slot(unsigned cpu, enum family family)
{
	struct model_slot *m = &model_slots[cpu][family];
	struct percpu_slot *slot = slot_at(cpu, family);

	slot->word = model_word(m);
	slot->sheaf[0] = sheaf_at(m->sheaf[0]);
	slot->sheaf[1] = sheaf_at(m->sheaf[1]);
	if (slot->sheaf[m->which])
		slot->sheaf[m->which]->fill = 77777;
}

static bool slot_holds(const struct model_slot *m, int i)
{
	return m->sheaf[0] == i || m->sheaf[1] == i;
}

static bool is_main(int i)
{
	for (unsigned cpu = 0; cpu < NCPU; cpu++)
		for (unsigned f = 0; f < FAMILIES; f++)
			if (model_slots[cpu][f].sheaf[model_slots[cpu][f].which] == i)
				return true;
	return false;
}

static void check_sheaf(int i)
{
	const struct model_sheaf *m = &model_sheaves[i];
	const struct uslub_sheaf *s = sheaf_at(i);

	expect(s->capacity == m->capacity, "a capacity changed");
	expect(is_main(i) || s->fill == m->fill, "the fill of a sheaf that is not main is wrong");
	expect(!memcmp(s->objects, m->objects, m->fill * sizeof(void *)), "live objects differ");
}

/* Memory is what the model says. */
static void check_memory(void)
{
	for (unsigned cpu = 0; cpu < NCPU; cpu++)
		for (unsigned f = 0; f < FAMILIES; f++) {
			const struct model_slot *m = &model_slots[cpu][f];
			const struct percpu_slot *slot = slot_at(cpu, f);

			expect(slot->word == model_word(m), "a word differs");
			expect(slot->sheaf[0] == sheaf_at(m->sheaf[0]) &&
				       slot->sheaf[1] == sheaf_at(m->sheaf[1]),
			       "a sheaf pointer differs");
			expect(counters[cpu][f] == model_counters[cpu][f], "a counter differs");
		}
	for (int i = 0; i < NSHEAVES; i++)
		if (model_sheaves[i].capacity)
			check_sheaf(i);
}

static void remember(void)
{
	memcpy(words_before.slots, slots, sizeof(slots));
	memcpy(words_before.counters, counters, sizeof(counters));
	for (int i = 0; i < NSHEAVES; i++)
		if (model_sheaves[i].capacity)
			memcpy(before[i], storage[i], sheaf_size(i));
}

/*
 * Only dead memory of the slot's own sheaves was written to. `fill` and `main` tell how things
 * stood before the call.
 */
static void check_writes(const struct call *c, const struct model_slot *m, const unsigned *fill)
{
	int main = m->sheaf[m->which];

	for (int i = 0; i < NSHEAVES; i++) {
		const struct uslub_sheaf *s = sheaf_at(i);
		const struct uslub_sheaf *was = (const struct uslub_sheaf *)before[i];
		unsigned n = model_sheaves[i].capacity;
		bool mine = slot_holds(m, i);
		bool flip = c->op == FLIP_POP || c->op == FLIP_PUSH;

		if (!n || !memcmp(s, was, sheaf_size(i)))
			continue;
		expect(mine, "a sheaf of another slot was written to");
		expect(s->fill == was->fill || (flip && i == main && s->fill == fill[i]),
		       "a header was written to");
		expect(!memcmp(s, was, offsetof(struct uslub_sheaf, fill)) &&
			       !memcmp(&s->fill + 1, &was->fill + 1,
				       offsetof(struct uslub_sheaf, objects) -
					       offsetof(struct uslub_sheaf, fill) -
					       sizeof(s->fill)),
		       "a header was written to");
		for (unsigned k = 0; k <= n; k++)
			expect(s->objects[k] == was->objects[k] || (k >= fill[i] && k < n),
			       "live or foreign memory was written to");
	}
}

/* ---- what must come of a call
 * --------------------------------------------------------------------- */

static int main_of(const struct model_slot *m)
{
	return m->sheaf[m->which];
}

static int other_of(const struct model_slot *m)
{
	return m->sheaf[!m->which];
}

static unsigned model_avail(const struct model_slot *m)
{
	return main_of(m) == NOBODY ? 0 : model_sheaves[main_of(m)].fill;
}

static unsigned model_room(int i)
{
	return i == NOBODY ? 0 : model_sheaves[i].capacity - model_sheaves[i].fill;
}

static unsigned model_count(const struct call *c, const struct model_slot *m)
{
	unsigned n = c->op == POP || c->op == PUSH ? 1 : c->n;

	return min(n, c->op == POP || c->op == POP_N ? model_avail(m) : model_room(main_of(m)));
}

/* Is the thread where the sequence wants it? */
static bool on_cpu(const struct call *c)
{
	if (!restartable)
		return true;
	return c->op == POP || c->op == PUSH ? fake.cpu_id < plat_seq_limit : fake.cpu_id == c->cpu;
}

static bool possible(const struct call *c, const struct model_slot *m)
{
	int other = other_of(m);

	switch (c->op) {
	case POP:
	case PUSH:
	case POP_N:
	case PUSH_N:
		return model_count(c, m) != 0;
	case FLIP_POP:
		return !model_avail(m) && other != NOBODY && model_sheaves[other].fill;
	case FLIP_PUSH:
		return !model_room(main_of(m)) && model_room(other);
	case TAKE:
		return other != NOBODY;
	case GIVE:
		return other == NOBODY;
	default:
		return true;
	}
}

static bool pushes(const struct call *c)
{
	return c->op == PUSH || c->op == PUSH_N || c->op == FLIP_PUSH;
}

/* Does it push what lies there already? It is possible otherwise. */
static bool twice(const struct call *c, const struct model_slot *m)
{
	if (c->again == TOP)
		return pushes(c) && model_avail(m);
	return c->again == NEIGHBOUR && c->op == PUSH_N && model_count(c, m) > 1;
}

static enum seq_result predict(const struct call *c)
{
	const struct model_slot *m = &model_slots[c->cpu][c->family];

	if (!on_cpu(c))
		return c->op == POP || c->op == PUSH ? SEQ_EMPTY : SEQ_AGAIN;
	if (c->op == ADD)
		return SEQ_DONE;
	if (m->who)
		return restartable ? SEQ_EMPTY : SEQ_AGAIN;
	if (!possible(c, m))
		return SEQ_EMPTY;
	if (twice(c, m))
		return c->op == PUSH && restartable ? SEQ_EMPTY : SEQ_TWICE;
	return SEQ_DONE;
}

static void model_pop(struct model_slot *m, unsigned n, struct outcome *o)
{
	struct model_sheaf *s = &model_sheaves[main_of(m)];

	for (o->n = 0; o->n < n; o->n++)
		o->objects[o->n] = s->objects[--s->fill];
	m->allocs += n;
}

static void model_push(struct model_slot *m, unsigned n, struct outcome *o)
{
	struct model_sheaf *s = &model_sheaves[main_of(m)];

	for (o->n = 0; o->n < n; o->n++)
		s->objects[s->fill++] = pushed[o->n];
}

/* Does in the model what the call does, and says what else it must give. */
static void apply(const struct call *c, struct outcome *o)
{
	struct model_slot *m = &model_slots[c->cpu][c->family];
	unsigned n = model_count(c, m);
	unsigned avail = model_avail(m);

	switch (c->op) {
	case POP:
	case POP_N:
		model_pop(m, n, o);
		break;
	case PUSH:
	case PUSH_N:
		model_push(m, n, o);
		break;
	case FLIP_POP:
	case FLIP_PUSH:
		m->which ^= 1;
		o->jump = (int)model_avail(m) - (int)avail;
		if (c->op == FLIP_POP)
			model_pop(m, 1, o);
		else
			model_push(m, 1, o);
		break;
	case TAKE:
		o->sheaf = sheaf_at(other_of(m));
		m->sheaf[!m->which] = NOBODY;
		break;
	case GIVE:
		m->sheaf[!m->which] = c->sheaf;
		break;
	default:
		model_counters[c->cpu][c->family] += c->addend;
	}
}

/* ---- the call itself
 * ------------------------------------------------------------------------------ */

static enum seq_result call_pop(const struct call *c, struct percpu_slot *slot, struct outcome *o)
{
	void *object = seq_pop(&main_base, &plat_seq_limit, 0);

	if (!restartable) {
		expect(!object, "pop did not see limit 0");
		return seq_pop_n(c->cpu, slot, 1, o->objects, &o->n);
	}
	o->n = 1;
	o->objects[0] = object;
	return object ? SEQ_DONE : SEQ_EMPTY;
}

static enum seq_result call_push(const struct call *c, struct percpu_slot *slot, struct outcome *o)
{
	enum seq_result result;

	o->n = 1;
	result = seq_push(c->family == MAIN ? &main_base : &rcu_base, &plat_seq_limit, pushed[0]);
	if (restartable)
		return result;
	if (!expect(result == SEQ_EMPTY, "push did not see limit 0"))
		return SEQ_DONE;
	return seq_push_n(c->cpu, slot, 1, pushed, &o->n);
}

static enum seq_result call_sequence(const struct call *c, struct outcome *o)
{
	struct percpu_slot *slot = slot_at(c->cpu, c->family);

	switch (c->op) {
	case POP:
		return call_pop(c, slot, o);
	case PUSH:
		return call_push(c, slot, o);
	case POP_N:
		return seq_pop_n(c->cpu, slot, c->n, o->objects, &o->n);
	case PUSH_N:
		return seq_push_n(c->cpu, slot, c->n, pushed, &o->n);
	case FLIP_POP:
		o->n = 1;
		return seq_flip_pop(c->cpu, slot, o->objects, &o->jump);
	case FLIP_PUSH:
		o->n = 1;
		return seq_flip_push(c->cpu, slot, pushed[0], &o->jump);
	case TAKE:
		return seq_take_other(c->cpu, slot, &o->sheaf);
	case GIVE:
		return seq_give_other(c->cpu, slot, sheaf_at(c->sheaf));
	default:
		return seq_add(c->cpu, &counters[c->cpu][c->family], c->addend);
	}
}

static void check_outcome(const struct call *c, const struct outcome *o, const struct outcome *want)
{
	bool pops = c->op == POP || c->op == POP_N || c->op == FLIP_POP;

	expect(o->n == want->n, "another number of objects");
	expect(!pops || !memcmp(o->objects, want->objects, want->n * sizeof(void *)),
	       "other objects");
	expect(o->jump == want->jump, "another jump");
	expect(o->sheaf == want->sheaf, "another sheaf");
}

/*
 * Where instructions are of one size: the last one of a sequence is a store, and the one before the
 * first stores the descriptor. Elsewhere stepping through finds out.
 */
static bool tight(const struct rseq_cs *cs)
{
#if defined(__aarch64__)
	const uint32_t *start = (const uint32_t *)(uintptr_t)cs->start_ip;
	const uint32_t *end = start + cs->post_commit_offset / 4;

	return (start[-1] & 0xfffffc1f) == 0xf9000409 && (end[-1] & 0xffc00000) == 0xf9000000;
#else
	return cs->post_commit_offset > 4;
#endif
}

/* The descriptor that the sequence left is one that the kernel takes. */
static void check_descriptor(void)
{
	const struct rseq_cs *cs = (const struct rseq_cs *)(uintptr_t)fake.rseq_cs;
	uint32_t signature;

	if (!restartable || !expect(cs, "no descriptor was stored"))
		return;
	expect((uintptr_t)cs % 32 == 0, "the descriptor is not aligned");
	expect(cs->version == 0 && cs->flags == 0, "the descriptor has flags");
	expect(cs->post_commit_offset && cs->post_commit_offset < 1024, "an odd length");
	expect(cs->abort_ip - cs->start_ip >= cs->post_commit_offset, "aborts into itself");
	memcpy(&signature, (const char *)(uintptr_t)cs->abort_ip - 4, sizeof(signature));
	expect(signature == RSEQ_SIG, "no signature");
	expect(tight(cs), "the sequence begins too late or ends too early");
}

static bool reaches_point(const struct call *c, unsigned point, enum seq_result result)
{
	if (!restartable || point < points[c->op].first || point > points[c->op].last)
		return false;
	if (point == SEQ_POP_ARMED || point == SEQ_PUSH_ARMED)
		return true;
	if (!on_cpu(c))
		return false;
	switch (point) {
	case SEQ_POP_LOADED:
	case SEQ_PUSH_LOADED:
	case SEQ_POP_N_LOADED:
	case SEQ_PUSH_N_LOADED:
	case SEQ_FLIP_POP_LOADED:
	case SEQ_FLIP_PUSH_LOADED:
	case SEQ_TAKE_LOADED:
	case SEQ_GIVE_LOADED:
		return true;
	default:
		return result == SEQ_DONE;
	}
}

/* ---- a step
 * --------------------------------------------------------------------------------------- */

/* Shared with the handler of SIGTRAP. */
static struct {
	bool on;
	unsigned at;   /* abort before the at'th instruction of the sequence */
	unsigned seen; /* so many instructions were inside of it */
	bool aborted;
	bool gap;	      /* armed or not yet committed, and outside of it */
	void (*change)(void); /* instead of aborting: do this when it begins, and let it run */
} steps;

static void steps_begin(void);
static void steps_end(void);

static void complain(const struct outcome *o)
{
	const struct model_slot *m = &model_slots[current.cpu][current.family];

	print_error("%s of CPU %u (%s, n %u, again %u), on CPU %d, point %u, instruction %u: %s\n",
		    op_names[current.op], current.cpu, current.family == MAIN ? "main" : "rcu",
		    current.n, current.again, (int)fake.cpu_id, plat_inject_point, steps.at,
		    trouble);
	print_error("result %u, %u objects; the word is %016jx, the model's %016jx\n", o->result,
		    o->n, (uintmax_t)slot_at(current.cpu, current.family)->word,
		    (uintmax_t)model_word(m));
}

static void choose_pushed(const struct call *c)
{
	const struct model_slot *m = &model_slots[c->cpu][c->family];

	for (unsigned k = 0; k < array_size(pushed); k++)
		pushed[k] = new_object();
	if (c->again == TOP && model_avail(m))
		pushed[0] = model_sheaves[main_of(m)].objects[model_avail(m) - 1];
	if (c->again == NEIGHBOUR)
		pushed[1] = pushed[0];
}

/* Makes the call, checks everything, and returns what it returned. */
static struct outcome step(const struct call *c)
{
	struct model_slot was = model_slots[c->cpu][c->family];
	struct outcome o = { .n = 0 }, want = { .n = 0 };
	unsigned fill[NSHEAVES];
	enum seq_result result;
	bool hit;

	current = *c;
	trouble = NULL;
	choose_pushed(c);
	for (int i = 0; i < NSHEAVES; i++)
		fill[i] = model_sheaves[i].fill;
	remember();
	result = predict(c);
	hit = reaches_point(c, plat_inject_point, result);
	if (hit && plat_inject_aborts)
		result = SEQ_AGAIN;
	plat_inject_hits = 0;
	fake.rseq_cs = 0;

	steps_begin();
	o.result = call_sequence(c, &o);
	steps_end();

	if (steps.aborted)
		result = SEQ_AGAIN;
	if (c->op == POP && restartable && result == SEQ_AGAIN)
		result = SEQ_EMPTY; /* seq_pop() has but one way to say no */
	check_descriptor();
	if (expect(o.result == result, "another result") && result == SEQ_DONE) {
		apply(c, &want);
		check_outcome(c, &o, &want);
	}
	expect(!steps.gap || result != SEQ_DONE, "the sequence begins too late or ends too early");
	expect(steps.on || plat_inject_hits == hit, "an injection point was passed or left out");
	check_writes(c, &was, fill);
	check_memory();
	if (trouble) {
		complain(&o);
		fail();
	}
	return o;
}

/* ---- states
 * --------------------------------------------------------------------------------------- */

struct state {
	unsigned capacity;
	int main, other; /* their fills, or NOBODY */
	unsigned who, which;
	enum family family;
};

#define STATE_CPU 2u

static const uint64_t some_allocs[] = { 0, 1000, ALLOCS_MASK, ALLOCS_MASK - 1, 1ull << 44 };

static void forget_everything(void)
{
	memset(slots, 0, sizeof(slots));
	memset(counters, 0, sizeof(counters));
	memset(model_counters, 0, sizeof(model_counters));
	memset(model_sheaves, 0, sizeof(model_sheaves));
	for (unsigned cpu = 0; cpu < NCPU; cpu++)
		for (unsigned f = 0; f < FAMILIES; f++)
			model_slots[cpu][f] = (struct model_slot){ .sheaf = { NOBODY, NOBODY } };
	plat_inject_point = plat_inject_aborts = plat_inject_loops = 0;
	fake.cpu_id = STATE_CPU;
}

/* The sheaves of a slot in the state tests are 0 and 1, that of give_other is 2. */
static void make_state(const struct state *s)
{
	static unsigned turn;
	struct model_slot *m = &model_slots[STATE_CPU][s->family];

	forget_everything();
	if (s->main != NOBODY)
		fill_sheaf(0, s->capacity, (unsigned)s->main);
	if (s->other != NOBODY)
		fill_sheaf(1, s->capacity, (unsigned)s->other);
	fill_sheaf(2, s->capacity, 1);
	m->which = s->which;
	m->who = s->who;
	m->allocs = some_allocs[turn++ % array_size(some_allocs)];
	m->sheaf[s->which] = s->main == NOBODY ? NOBODY : 0;
	m->sheaf[!s->which] = s->other == NOBODY ? NOBODY : 1;
	set_slot(STATE_CPU, s->family);

	/* neighbours, to be left alone */
	for (unsigned cpu = 0; cpu < NCPU; cpu++) {
		if (cpu == STATE_CPU)
			continue;
		fill_sheaf(3 + (int)cpu, 3, 2);
		model_slots[cpu][s->family].sheaf[cpu & 1] = 3 + (int)cpu;
		model_slots[cpu][s->family].which = cpu & 1;
		set_slot(cpu, s->family);
	}
	model_counters[STATE_CPU][s->family] = counters[STATE_CPU][s->family] = turn;
}

static void try_call(const struct state *s, enum op op, unsigned n,
		     void (*fn)(const struct state *, const struct call *))
{
	struct call c = { .op = op, .cpu = STATE_CPU, .family = s->family, .n = n, .sheaf = 2 };

	if (op == POP && s->family == RCU)
		return; /* nothing is ever popped there by pop */
	c.addend = n & 1 ? 5 : -(uint64_t)n - 1;
	for (; c.again <= (pushes(&c) ? NEIGHBOUR : NOTHING); c.again++) {
		make_state(s);
		fn(s, &c);
	}
}

static void each_call(const struct state *s, void (*fn)(const struct state *, const struct call *))
{
	const unsigned counts[] = { 0, 1, 2, s->capacity, s->capacity + 1, 256, UINT32_MAX };

	for (unsigned op = 0; op < OPS; op++) {
		if (op != POP_N && op != PUSH_N && op != ADD) {
			try_call(s, op, 0, fn);
			continue;
		}
		for (unsigned i = 0; i < array_size(counts); i++)
			if (!i || counts[i] > counts[i - 1])
				try_call(s, op, counts[i], fn);
	}
}

/* Every fill of a small sheaf, the interesting ones of a large one; NOBODY is -1. */
static int next_fill(int fill, unsigned capacity)
{
	static const int large[] = { NOBODY, 0, 1, 2, 127, 254, 255 };

	if (capacity < 8)
		return fill + 1;
	for (unsigned i = 0; i + 1 < array_size(large); i++)
		if (large[i] == fill)
			return large[i + 1];
	return 256;
}

static void each_state_of(unsigned capacity, unsigned whos,
			  void (*fn)(const struct state *, const struct call *))
{
	struct state s = { .capacity = capacity };

	for (s.main = NOBODY; s.main <= (int)capacity; s.main = next_fill(s.main, capacity))
		for (s.other = NOBODY; s.other <= (int)capacity;
		     s.other = next_fill(s.other, capacity))
			for (s.who = 0; s.who < whos; s.who++)
				for (s.which = 0; s.which < 2; s.which++)
					for (s.family = MAIN; s.family < FAMILIES; s.family++)
						each_call(&s, fn);
}

static void each_state(void (*fn)(const struct state *, const struct call *))
{
	static const unsigned capacities[] = { 1, 2, 3, 255 };

	for (unsigned i = 0; i < array_size(capacities); i++)
		each_state_of(capacities[i], 3, fn);
}

/* ---- tests of one call
 * ---------------------------------------------------------------------------- */

static unsigned results[OPS]
		       [SEQ_TWICE + 1]; /* what came, so that a test can say that everything did */

static void plain(const struct state *s, const struct call *c)
{
	(void)s;
	results[c->op][step(c).result]++;
}

static void test_every_state(void **state)
{
	(void)state;
	memset(results, 0, sizeof(results));
	each_state(plain);
	for (unsigned op = 0; op < OPS; op++) {
		assert_int_not_equal(results[op][SEQ_DONE], 0);
		if (op != ADD)
			assert_int_not_equal(results[op][SEQ_EMPTY], 0);
		if (op == PUSH_N || op == FLIP_PUSH || (op == PUSH && !restartable))
			assert_int_not_equal(results[op][SEQ_TWICE], 0);
	}
}

/* Some results by number, lest model and sequences agree on something wrong. */
static void test_words(void **state)
{
	struct call c = { .op = POP, .cpu = STATE_CPU };
	struct state s = { .capacity = 7, .main = 2, .other = 4, .which = 1 };
	uint64_t *word = &slots[STATE_CPU].main.word;
	struct outcome o;

	(void)state;
	make_state(&s);
	model_slots[STATE_CPU][MAIN].allocs = 9;
	set_slot(STATE_CPU, MAIN);
	assert_int_equal(*word, 9ull << 19 | 1 << 16 | 5 << 8 | 2);

	o = step(&c);
	assert_ptr_equal(o.objects[0], sheaf_at(0)->objects[1]);
	assert_int_equal(*word, 10ull << 19 | 1 << 16 | 6 << 8 | 1);

	c.op = POP_N;
	c.n = 9;
	o = step(&c);
	assert_int_equal(o.n, 1);
	assert_int_equal(*word, 11ull << 19 | 1 << 16 | 7 << 8);

	c.op = FLIP_POP;
	o = step(&c);
	assert_ptr_equal(o.objects[0], sheaf_at(1)->objects[3]);
	assert_int_equal(o.jump, 4);
	assert_int_equal(sheaf_at(0)->fill, 0);
	assert_int_equal(*word, 12ull << 19 | 4 << 8 | 3);

	c.op = PUSH_N;
	c.n = 4;
	step(&c);
	assert_ptr_equal(sheaf_at(1)->objects[6], pushed[3]);
	assert_int_equal(*word, 12ull << 19 | 7);

	c.op = FLIP_PUSH;
	o = step(&c);
	assert_int_equal(o.jump, -7);
	assert_int_equal(sheaf_at(1)->fill, 7);
	assert_ptr_equal(sheaf_at(0)->objects[0], pushed[0]);
	assert_int_equal(*word, 12ull << 19 | 1 << 16 | 6 << 8 | 1);

	c.op = TAKE;
	o = step(&c);
	assert_ptr_equal(o.sheaf, sheaf_at(1));
	assert_null(slots[STATE_CPU].main.sheaf[0]);
	assert_int_equal(*word, 12ull << 19 | 1 << 16 | 6 << 8 | 1);
}

/* What lies below the first object of a sheaf is no object, but looks like one that is none of ours. */
static void test_below_first(void **state)
{
	struct state s = { .capacity = 2, .main = 0, .other = NOBODY };
	uint64_t below;
	void *wild;
	unsigned n;

	(void)state;
	make_state(&s);
	sheaf_at(0)->node = PLAT_MAX_NODES - 1;
	sheaf_at(0)->slot = 0x7fff;
	memcpy(&below, &sheaf_at(0)->node, sizeof(below));
	wild = (void *)(uintptr_t)below;
	assert_int_equal(seq_push(&main_base, &plat_seq_limit, wild), SEQ_EMPTY);
	assert_int_equal(seq_push_n(STATE_CPU, slot_at(STATE_CPU, MAIN), 1, &wild, &n), SEQ_TWICE);
	check_memory();
	assert_null(trouble);
}

/* A fresh slot is all zeroes: it fails until a sheaf is given, then serves by a flip. */
static void test_fresh(void **state)
{
	struct call c = { .cpu = 1, .n = 3, .sheaf = 0 };
	struct outcome o;

	(void)state;
	for (unsigned f = 0; f < FAMILIES; f++) {
		c.family = f;
		forget_everything();
		fake.cpu_id = c.cpu;
		for (unsigned op = f == MAIN ? POP : PUSH; op < GIVE; op++) {
			c.op = op;
			assert_int_equal(step(&c).result, SEQ_EMPTY);
		}
		fill_sheaf(0, 5, 2);
		c.op = GIVE;
		assert_int_equal(step(&c).result, SEQ_DONE);
		assert_int_equal(slot_at(1, f)->word, 0);
		c.op = FLIP_POP;
		o = step(&c);
		assert_int_equal(o.result, SEQ_DONE);
		assert_int_equal(o.jump, 2);
		assert_int_equal(slot_at(1, f)->word, 1ull << 19 | 1 << 16 | 4 << 8 | 1);
	}
}

static void elsewhere(const struct state *s, const struct call *c)
{
	static const uint32_t others[] = { 0, 1, 3, NCPU, NCPU + 1, -1u, -2u };
	struct outcome o;

	(void)s;
	if (c->op == POP || c->op == PUSH)
		return;
	for (unsigned i = 0; i < array_size(others); i++) {
		fake.cpu_id = others[i];
		o = step(c);
		assert_int_equal(o.result, SEQ_AGAIN);
	}
}

/* The sequences that take a CPU do nothing on another one. */
static void test_wrong_cpu(void **state)
{
	(void)state;
	each_state_of(2, 3, elsewhere);
}

/* Nothing comes of a pop or push with this limit and this gate. */
static void check_closed(const uint32_t *limit, uint32_t gate)
{
	assert_null(seq_pop(&main_base, limit, gate));
	if (!gate)
		assert_int_equal(seq_push(&main_base, limit, &fake), SEQ_EMPTY);
	check_memory();
	assert_null(trouble);
}

/* pop and push serve the CPU on which they are, if it is below the limit; pop, if the gate is open.
 */
static void test_limit(void **state)
{
	static const uint32_t cpus[] = { 0, 1, 2, 3, 4, 5, 4095, 0x7fffffff, -1u, -2u };
	const struct state s = { .capacity = 3, .main = 1, .other = 1 };
	uint32_t closed = 0;

	(void)state;
	for (unsigned limit = 0; limit <= NCPU; limit++)
		for (unsigned i = 0; i < array_size(cpus); i++) {
			struct call c = { .cpu = cpus[i] < NCPU ? cpus[i] : 0 };

			plat_test_fake_rseq(&fake, limit);
			for (c.op = POP; c.op <= PUSH; c.op++) {
				make_state(&s);
				fake.cpu_id = cpus[i];
				assert_int_equal(step(&c).result,
						 cpus[i] < limit ? SEQ_DONE : SEQ_EMPTY);
				check_closed(&closed, 0);
				for (unsigned bit = SEQ_GATE_SHIFT; bit < 32; bit++)
					check_closed(&plat_seq_limit, 1u << bit);
			}
		}
}

/* All bits of a pointer count. */
static void test_pointers(void **state)
{
	struct uslub_sheaf *high = (struct uslub_sheaf *)(1ull << 40), *sheaf;
	struct percpu_slot slot = { .sheaf = { NULL, high } };

	(void)state;
	forget_everything();
	assert_int_equal(seq_give_other(STATE_CPU, &slot, sheaf_at(0)), SEQ_EMPTY);
	assert_ptr_equal(slot.sheaf[1], high);
	assert_int_equal(seq_take_other(STATE_CPU, &slot, &sheaf), SEQ_DONE);
	assert_ptr_equal(sheaf, high);
	assert_null(slot.sheaf[1]);
	assert_int_equal(seq_take_other(STATE_CPU, &slot, &sheaf), SEQ_EMPTY);
	assert_int_equal(seq_give_other(STATE_CPU, &slot, high), SEQ_DONE);
	assert_ptr_equal(slot.sheaf[1], high);
	assert_null(slot.sheaf[0]);
	assert_int_equal(slot.word, 0);
}

/* Where a thread goes that is registered, and one that is not. */
static void test_slot(void **state)
{
	static const uint32_t odd[] = { PLAT_MAX_CPUS, -1u, -2u };
	struct percpu_slot foreign = { .word = 0 };
	struct uslub_sheaf *sheaf;
	unsigned slot, n;
	void *object;

	(void)state;
	forget_everything();
	plat_test_fake_rseq(&fake, plat_ncpu());
	fake.cpu_id = 0;
	assert_int_equal(plat_slot(), 0);
	fake.cpu_id = plat_ncpu() - 1;
	assert_int_equal(plat_slot(), plat_ncpu() - 1);
	for (unsigned i = 0; i < array_size(odd); i++) {
		fake.cpu_id = odd[i];
		slot = plat_slot();
		assert_in_range(slot, plat_ncpu(), plat_nslots() - 1);

		/* a foreign slot is served whatever the CPU */
		fill_sheaf(0, 2, 2);
		assert_int_equal(seq_give_other(slot, &foreign, sheaf_at(0)), SEQ_DONE);
		assert_int_equal(seq_flip_pop(slot, &foreign, &object, &(int){ 0 }), SEQ_DONE);
		assert_int_equal(seq_pop_n(slot, &foreign, 1, &object, &n), SEQ_DONE);
		assert_int_equal(seq_flip_pop(slot, &foreign, &object, &(int){ 0 }), SEQ_EMPTY);
		assert_int_equal(seq_take_other(slot, &foreign, &sheaf), SEQ_EMPTY);
		foreign = (struct percpu_slot){ .word = 0 };
	}
}

/* ---- aborts
 * --------------------------------------------------------------------------------------- */

static unsigned hits[SEQ_POINTS + 1];

static void abort_at_points(const struct state *s, const struct call *c)
{
	enum seq_result result = predict(c);

	for (unsigned p = points[c->op].first; p <= points[c->op].last; p++) {
		plat_inject_point = p;
		for (unsigned loops = 0; loops < 20; loops += 19) {
			plat_inject_loops = loops;
			plat_inject_aborts = 1;
			step(c);
			hits[p] += plat_inject_hits;
		}
	}
	/* the same point without aborts changes nothing */
	plat_inject_point = points[c->op].last;
	plat_inject_aborts = 0;
	assert_int_equal(step(c).result, result);

	make_state(s);
	plat_inject_point = points[c->op].first;
	plat_inject_loops = 5;
	assert_int_equal(step(c).result, result);
}

static void test_abort_at_points(void **state)
{
	(void)state;
	memset(hits, 0, sizeof(hits));
	each_state(abort_at_points);
	for (unsigned p = 1; p <= SEQ_POINTS; p++)
		if (!hits[p])
			fail_msg("no sequence has passed point %u", p);
}

/* ThreadSanitizer delivers signals when it likes, which is no use for stepping. */
#if defined(__SANITIZE_THREAD__)
#define STEPPING 0
#elif defined(__has_feature)
#define STEPPING (!__has_feature(thread_sanitizer))
#else
#define STEPPING 1
#endif

#if defined(__x86_64__) && STEPPING

#define TRAP_FLAG 0x100

static bool committed(void)
{
	return memcmp(words_before.slots, slots, sizeof(slots)) ||
	       memcmp(words_before.counters, counters, sizeof(counters));
}

/* After each instruction: what the kernel does when it has interrupted the thread there. */
static void trapped(int signal, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct rseq_cs *cs = (const struct rseq_cs *)(uintptr_t)fake.rseq_cs;

	(void)signal;
	(void)info;
	regs[REG_EFL] &= ~TRAP_FLAG;
	if (!steps.on || steps.aborted)
		return;
	if (cs && (uint64_t)regs[REG_RIP] - cs->start_ip >= cs->post_commit_offset) {
		steps.gap = !steps.seen || !committed();
		return;
	}
	if (cs && !steps.seen && steps.change) {
		steps.seen++;
		steps.change();
		return;
	}
	if (cs && steps.seen++ == steps.at) {
		steps.aborted = true;
		regs[REG_RIP] = (greg_t)cs->abort_ip;
		return;
	}
	regs[REG_EFL] |= TRAP_FLAG;
}

static void steps_begin(void)
{
	steps.seen = 0;
	steps.aborted = steps.gap = false;
	if (steps.on)
		__asm__ volatile("int3" : : : "memory");
}

static void steps_end(void)
{
	bool on = steps.on;

	/* the next instruction's trap turns it off */
	__atomic_store_n(&steps.on, false, __ATOMIC_RELAXED);
	__asm__ volatile("nop\n\tnop" : : : "memory");
	__atomic_store_n(&steps.on, on, __ATOMIC_RELAXED);
}

/* Does anybody trap here? valgrind, for one, does not. */
static bool steps_work(void)
{
	struct call c = { .op = ADD, .cpu = STATE_CPU, .addend = 1 };

	forget_everything();
	steps.at = -1u;
	step(&c);
	return steps.seen > 1;
}

static unsigned longest[OPS];

static void abort_at_instructions(const struct state *s, const struct call *c)
{
	(void)s;
	if (c->n > 2 || (c->family == RCU && c->op != PUSH) ||
	    (predict(c) != SEQ_DONE && !twice(c, &model_slots[c->cpu][c->family])))
		return;
	for (steps.at = 0;; steps.at++) {
		step(c);
		if (!steps.aborted)
			break;
	}
	longest[c->op] = max(longest[c->op], steps.at);
}

static void begin_stepping(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
	steps.on = true;
	steps.change = NULL;
	if (!steps_work())
		skip();
}

static void test_abort_at_instructions(void **state)
{
	(void)state;
	begin_stepping();
	each_state_of(2, 1, abort_at_instructions);
	for (unsigned op = 0; op < OPS; op++)
		assert_in_range(longest[op], 4, 200);
}

/* What may change until a sequence begins, since nothing aborts it before. */
static void change_cpu(void)
{
	fake.cpu_id = NCPU;
}

static void change_limit(void)
{
	plat_seq_limit = 0;
}

static void change_word(void)
{
	slots[STATE_CPU].main.word = slots[STATE_CPU].rcu.word = WORD_WHO_REMOTE;
}

static void change_base(void)
{
	static struct pcs nothing[NCPU];

	main_base = &nothing[0].main;
	rcu_base = &nothing[0].rcu;
}

/* A sequence goes by what it finds after it has begun. */
static void change_at_start(const struct state *s, const struct call *c)
{
	static void (*const changes[])(void) = { change_cpu, change_word, change_limit,
						 change_base };
	bool fast = c->op == POP || c->op == PUSH;
	struct outcome o;

	if (c->n > 2 || predict(c) != SEQ_DONE)
		return;
	for (unsigned i = 0; i < (fast ? 4 : c->op == ADD ? 1 : 2); i++) {
		make_state(s);
		o = (struct outcome){ .n = 0 };
		trouble = NULL;
		fake.rseq_cs = 0;
		steps.change = changes[i];
		steps_begin();
		o.result = call_sequence(c, &o);
		steps_end();
		steps.change = NULL;
		plat_test_fake_rseq(&fake, NCPU);
		main_base = &slots[0].main;
		rcu_base = &slots[0].rcu;
		assert_int_equal(steps.seen, 1);
		assert_int_equal(o.result,
				 changes[i] == change_cpu && !fast ? SEQ_AGAIN : SEQ_EMPTY);
		if (changes[i] == change_word) {
			set_slot(STATE_CPU, MAIN);
			set_slot(STATE_CPU, RCU);
		}
		check_memory();
		assert_null(trouble);
	}
}

static void test_loads_inside(void **state)
{
	(void)state;
	begin_stepping();
	each_state_of(2, 1, change_at_start);
}

#else

static void steps_begin(void)
{
}

static void steps_end(void)
{
}

static void test_abort_at_instructions(void **state)
{
	(void)state;
	skip();
}

static void test_loads_inside(void **state)
{
	(void)state;
	skip();
}

#endif

/* ---- histories
 * ------------------------------------------------------------------------------------ */

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % n;
}

static struct {
	uint64_t pops, pushes, folded;
} totals[FAMILIES];

/* percpu.h section 3 */
static void check_identity(void)
{
	for (unsigned f = 0; f < FAMILIES; f++) {
		uint64_t allocs = totals[f].folded, avails = 0, base = 0;

		for (unsigned cpu = 0; cpu < NCPU; cpu++) {
			allocs += word_allocs(slot_at(cpu, f)->word);
			avails += word_avail(slot_at(cpu, f)->word);
			base += counters[cpu][f];
		}
		assert_int_equal(totals[f].pops, allocs);
		assert_int_equal(totals[f].pushes, allocs + avails - base);
	}
}

static void bump_base(unsigned cpu, enum family family, int jump)
{
	struct call c = {
		.op = ADD, .cpu = cpu, .family = family, .addend = (uint64_t)(int64_t)jump
	};

	fake.cpu_id = cpu;
	while (step(&c).result != SEQ_DONE)
		;
}

static int idle_sheaf(void)
{
	int i = (int)random_below(NSHEAVES);

	for (unsigned cpu = 0; cpu < NCPU; cpu++)
		for (unsigned f = 0; f < FAMILIES; f++)
			if (slot_holds(&model_slots[cpu][f], i))
				return idle_sheaf();
	return i;
}

/* Closed from another CPU, or opened again with other sheaves, as a drain does. */
static void close_or_open(unsigned cpu, enum family family, unsigned capacity)
{
	struct model_slot *m = &model_slots[cpu][family];
	int was = (int)word_avail(model_word(m));

	if (!m->who) {
		m->who = 1 + (unsigned)random_below(2);
	} else {
		m->who = 0;
		if (random_below(2))
			m->which ^= 1;
		for (unsigned i = 0; i < 2; i++) {
			m->sheaf[i] = random_below(4) ? idle_sheaf() : NOBODY;
			if (m->sheaf[i] != NOBODY)
				fill_sheaf(m->sheaf[i], capacity,
					   (unsigned)random_below(capacity + 1));
		}
		if (random_below(2)) {
			totals[family].folded += m->allocs & ALLOCS_MASK;
			m->allocs = 0;
		}
	}
	for (int i = 0; i < NSHEAVES; i++)
		if (!is_main(i))
			sheaf_at(i)->fill = model_sheaves[i].fill;
	set_slot(cpu, family);
	bump_base(cpu, family, (int)word_avail(model_word(m)) - was);
}

static void count(const struct call *c, const struct outcome *o)
{
	if (o->result != SEQ_DONE)
		return;
	if (c->op == FLIP_POP || c->op == FLIP_PUSH)
		bump_base(c->cpu, c->family, o->jump);
	if (c->op == POP || c->op == POP_N || c->op == FLIP_POP)
		totals[c->family].pops += o->n;
	if (c->op == PUSH || c->op == PUSH_N || c->op == FLIP_PUSH)
		totals[c->family].pushes += o->n;
}

static void random_step(unsigned capacity)
{
	struct call c = {
		.op = (enum op)random_below(ADD),
		.cpu = (unsigned)random_below(NCPU),
		.family = random_below(3) ? MAIN : RCU,
		.n = (unsigned)random_below(capacity + 2),
		.again = random_below(4) ? NOTHING : (enum again)random_below(NEIGHBOUR + 1),
	};
	struct outcome o;

	if (c.op == POP)
		c.family = MAIN;
	if (c.op == GIVE) {
		c.sheaf = idle_sheaf();
		fill_sheaf(c.sheaf, capacity, (unsigned)random_below(capacity + 1));
	}
	fake.cpu_id = c.cpu;
	if (c.op != POP && c.op != PUSH && !random_below(16))
		fake.cpu_id = (uint32_t)random_below(NCPU + 1);
	if (restartable) {
		plat_inject_point = (uint32_t)random_below(SEQ_POINTS + 1);
		plat_inject_aborts = !random_below(2);
	}
	o = step(&c);
	count(&c, &o);
	if (!random_below(20))
		close_or_open(c.cpu, c.family, capacity);
	check_identity();
}

static void test_histories(void **state)
{
	static const unsigned capacities[] = { 1, 2, 3, 8, 32, 255 };

	(void)state;
	for (unsigned i = 0; i < array_size(capacities); i++)
		for (unsigned seed = 1; seed <= 4; seed++) {
			random_state = seed * 0x9e3779b97f4a7c15u + capacities[i];
			forget_everything();
			memset(totals, 0, sizeof(totals));
			for (int k = 0; k < NSHEAVES; k++)
				fill_sheaf(k, capacities[i], 0);
			for (unsigned n = 0; n < 3000; n++)
				random_step(capacities[i]);
		}
}

/* ---- all
 * ------------------------------------------------------------------------------------------ */

static int begin_rseq(void **state)
{
	(void)state;
	restartable = true;
	plat_test_fake_rseq(&fake, NCPU);
	return 0;
}

static int begin_shared(void **state)
{
	(void)state;
	restartable = false;
	plat_test_fake_rseq(&fake, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	steps.on = false;
	plat_inject_point = plat_inject_aborts = plat_inject_loops = 0;
	plat_test_fake_rseq(NULL, 0);
	return 0;
}

#define UNIT(test, how, begin)                                                                     \
	{                                                                                          \
		.name = #test " " how, .test_func = test, .setup_func = begin,                     \
		.teardown_func = end                                                               \
	}
#define WITH_RSEQ(test)	  UNIT(test, "with rseq", begin_rseq)
#define BY_EXCHANGE(test) UNIT(test, "by exchange", begin_shared)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		WITH_RSEQ(test_words),
		WITH_RSEQ(test_fresh),
		WITH_RSEQ(test_every_state),
		WITH_RSEQ(test_wrong_cpu),
		WITH_RSEQ(test_limit),
		WITH_RSEQ(test_slot),
		WITH_RSEQ(test_below_first),
		WITH_RSEQ(test_pointers),
		BY_EXCHANGE(test_pointers),
		WITH_RSEQ(test_abort_at_points),
		WITH_RSEQ(test_abort_at_instructions),
		WITH_RSEQ(test_loads_inside),
		WITH_RSEQ(test_histories),
		BY_EXCHANGE(test_words),
		BY_EXCHANGE(test_fresh),
		BY_EXCHANGE(test_every_state),
		BY_EXCHANGE(test_histories),
	};

	plat_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
