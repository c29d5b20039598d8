/* SPDX-License-Identifier: MIT */
/*
 * Remote close: what a drain finds and leaves, also when sequences were under way that had seen the
 * slot open, and when the system refuses to stop them.
 *
 * The membarrier is the test's own: what commits while it is under way is done there.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"
#include "tiers/percpu.h"

#define NSLOTS	 150 /* more than are closed at once */
#define CAPACITY 8
#define SHEAVES	 320

static struct pcs slots[NSLOTS] __attribute__((aligned(CACHE_LINE)));
static const struct pcs_set all = { slots, sizeof(slots[0]) };
static uint64_t storage[SHEAVES][sizeof(struct uslub_sheaf) / 8 + CAPACITY];

static struct uslub_sheaf *at(unsigned i)
{
	assert_true(i < SHEAVES);
	return (struct uslub_sheaf *)storage[i];
}

/* The same, made anew. */
static struct uslub_sheaf *sheaf(unsigned i, unsigned fill)
{
	struct uslub_sheaf *s = at(i);

	assert_true(fill <= CAPACITY);
	*s = (struct uslub_sheaf){ .capacity = CAPACITY, .fill = fill };
	for (unsigned k = 0; k < fill; k++)
		s->objects[k] = (void *)(uintptr_t)(1000 * i + k + 1);
	return s;
}

static uint64_t word(uint64_t allocs, unsigned which, unsigned avail)
{
	return allocs << WORD_ALLOC_SHIFT | (uint64_t)which << WORD_WHICH_SHIFT |
	       (uint64_t)(CAPACITY - avail) << WORD_ROOM_SHIFT | avail;
}

/* ---- the membarrier ------------------------------------------------------------------------------- */

int __real_plat_membarrier(void);
int __wrap_plat_membarrier(void);

static unsigned barriers;
static void (*stragglers)(unsigned round); /* what commits before the barrier is over */
static unsigned refuse_from;		   /* this barrier and all later ones fail; 0: none */

int __wrap_plat_membarrier(void)
{
	barriers++;
	if (stragglers)
		stragglers(barriers);
	if (refuse_from && barriers >= refuse_from)
		return -EPERM;
	return unit_mode() == UNIT_REAL ? __real_plat_membarrier() : 0;
}

/* ---- what a drain finds --------------------------------------------------------------------------- */

static struct pcs_contents found[NSLOTS];
static unsigned times[NSLOTS], last_cpu, calls;

static void taken(void *arg, unsigned cpu, const struct pcs_contents *c)
{
	assert_ptr_equal(arg, found);
	assert_true(cpu < NSLOTS);
	/* every slot of its batch is open again */
	unit_equal(slots[cpu].main.word & WORD_WHO, 0);
	unit_equal(slots[cpu].rcu.word & WORD_WHO, 0);
	assert_true(!calls || cpu > last_cpu);
	last_cpu = cpu;
	calls++;
	times[cpu]++;
	found[cpu] = *c;
}

static int drain(enum pcs_part part, unsigned first, unsigned last)
{
	memset(found, 0, sizeof(found));
	memset(times, 0, sizeof(times));
	calls = barriers = 0;
	return pcs_drain(&all, part, first, last, taken, found);
}

static void check_found(unsigned cpu, uint64_t allocs, unsigned avail, struct uslub_sheaf *a,
			struct uslub_sheaf *b)
{
	unit_equal(times[cpu], 1);
	unit_equal(found[cpu].allocs, allocs);
	unit_equal(found[cpu].avail, avail);
	assert_ptr_equal(found[cpu].sheaf[0], a);
	assert_ptr_equal(found[cpu].sheaf[1], b);
}

static void check_vacant(const struct percpu_slot *slot)
{
	unit_equal(slot->word, 0);
	assert_null(slot->sheaf[0]);
	assert_null(slot->sheaf[1]);
}

static void set(struct percpu_slot *slot, uint64_t w, struct uslub_sheaf *a, struct uslub_sheaf *b)
{
	slot->word = w;
	slot->sheaf[0] = a;
	slot->sheaf[1] = b;
}

static void test_drain(void **state)
{
	struct uslub_sheaf *a = sheaf(0, 5), *b = sheaf(1, 2), *c = sheaf(2, 8), *d = sheaf(3, 3);

	(void)state;
	set(&slots[0].main, word(17, 0, 5), a, b);
	a->fill = 77; /* a main's fill is stale */
	set(&slots[2].main, word(3, 1, 8), NULL, c);
	c->fill = 0;
	set(&slots[3].main, word(0, 0, 0) & ~0xffffull, NULL, d);     /* a spare alone */
	set(&slots[5].main, word(99, 1, 0) & ~0xffffull, NULL, NULL); /* pops alone */
	set(&slots[6].rcu, word(0, 0, 2), sheaf(4, 2), NULL);
	unit_equal(drain(PCS_MAIN, 0, 8), 0);
	unit_equal(calls, 4);
	unit_equal(barriers, 1);
	check_found(0, 17, 5, a, b);
	check_found(2, 3, 8, NULL, c);
	check_found(3, 0, 0, NULL, d);
	check_found(5, 99, 0, NULL, NULL);
	unit_equal(a->fill, 5);
	unit_equal(b->fill, 2);
	unit_equal(c->fill, 8);
	unit_equal(d->fill, 3);
	for (unsigned cpu = 0; cpu < 8; cpu++)
		check_vacant(&slots[cpu].main);
	unit_equal(slots[6].rcu.word, word(0, 0, 2));
	assert_ptr_equal(slots[6].rcu.sheaf[0], at(4));
	/* nothing is left */
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), 0);
	unit_equal(calls, 0);
	unit_equal(barriers, 0);
	/* the other part */
	unit_equal(drain(PCS_RCU, 0, 8), 0);
	unit_equal(calls, 1);
	check_found(6, 0, 2, at(4), NULL);
	check_vacant(&slots[6].rcu);
}

static void test_range(void **state)
{
	(void)state;
	for (unsigned cpu = 0; cpu < NSLOTS; cpu++)
		set(&slots[cpu].main, word(cpu + 1, cpu % 2, cpu % 9), sheaf(2 * cpu, cpu % 9),
		    sheaf(2 * cpu + 1, cpu % 9));
	unit_equal(drain(PCS_MAIN, 3, 4), 0);
	unit_equal(calls, 1);
	check_found(3, 4, 3, at(6), at(7));
	check_vacant(&slots[3].main);
	unit_equal(slots[2].main.word, word(3, 0, 2));
	unit_equal(slots[4].main.word, word(5, 0, 4));
	unit_equal(drain(PCS_MAIN, 5, 5), 0);
	unit_equal(calls, 0);
	unit_equal(drain(PCS_MAIN, 5, 145), 0);
	unit_equal(calls, 140);
	unit_equal(barriers, 3); /* 64, 64 and 12 slots */
	for (unsigned cpu = 5; cpu < 145; cpu++) {
		check_found(cpu, cpu + 1, cpu % 9, at(2 * cpu), at(2 * cpu + 1));
		unit_equal(at(2 * cpu)->fill, cpu % 9);
		unit_equal(at(2 * cpu + 1)->fill, cpu % 9);
		check_vacant(&slots[cpu].main);
	}
	unit_equal(slots[4].main.word, word(5, 0, 4));
	unit_equal(slots[145].main.word, word(146, 1, 1));
}

static void test_drain_dead(void **state)
{
	struct uslub_sheaf *a = sheaf(0, 5);

	(void)state;
	refuse_from = 1;
	set(&slots[1].main, word(7, 1, 5), NULL, a);
	a->fill = 0;
	set(&slots[140].main, word(0, 0, 0), sheaf(1, 0), NULL);
	memset(times, 0, sizeof(times));
	calls = barriers = 0;
	pcs_drain_dead(&all, PCS_MAIN, 0, NSLOTS, taken, found);
	unit_equal(barriers, 0);
	unit_equal(calls, 2);
	check_found(1, 7, 5, NULL, a);
	unit_equal(a->fill, 5);
	check_found(140, 0, 0, at(1), NULL);
	check_vacant(&slots[1].main);
}

/* ---- stragglers ----------------------------------------------------------------------------------- */

static struct percpu_slot *const late = &slots[1].main;

/* While it waits for stragglers all slots are closed. */
static void all_closed(unsigned round)
{
	unit_equal(round, 1);
	for (unsigned cpu = 0; cpu < 3; cpu++) {
		unit_equal(slots[cpu].main.word & WORD_WHO, WORD_WHO_REMOTE);
		unit_equal(word_avail(slots[cpu].main.word), 0);
		unit_equal(word_room(slots[cpu].main.word), 0);
		unit_equal(word_allocs(slots[cpu].main.word), 10 + cpu);
	}
}

static void three_slots(void)
{
	for (unsigned cpu = 0; cpu < 3; cpu++)
		set(&slots[cpu].main, word(10 + cpu, 0, 4), sheaf(2 * cpu, 4),
		    sheaf(2 * cpu + 1, 2));
}

static void test_closed_meanwhile(void **state)
{
	(void)state;
	three_slots();
	stragglers = all_closed;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	unit_equal(calls, 3);
}

/* A pop that had read the open word: its store opens the slot again. */
static void late_pop(unsigned round)
{
	if (round == 1)
		late->word = word(11, 0, 4) + WORD_POP;
}

static void test_late_pop(void **state)
{
	(void)state;
	three_slots();
	stragglers = late_pop;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	unit_equal(barriers, 2);
	unit_equal(calls, 3);
	check_found(0, 10, 4, at(0), at(1));
	check_found(2, 12, 4, at(4), at(5));
	unit_equal(found[1].allocs, 12);
	unit_equal(found[1].avail, 3);
	unit_equal(found[1].sheaf[0]->fill, 3);
	check_vacant(late);
}

/* More than one after the other, each having begun while the slot was open. */
static void late_again_and_again(unsigned round)
{
	if (round <= 3)
		late->word = word(11, 0, 4) + round * WORD_POP;
}

static void test_several_late_pops(void **state)
{
	(void)state;
	three_slots();
	stragglers = late_again_and_again;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	unit_equal(barriers, 4);
	unit_equal(found[1].allocs, 14);
	unit_equal(found[1].avail, 1);
	unit_equal(found[1].sheaf[0]->fill, 1);
	unit_equal(found[0].avail, 4);
}

static void late_flip(unsigned round)
{
	if (round != 1)
		return;
	late->sheaf[0]->fill = 4;
	late->word = word(11, 1, 3); /* flip and push */
	late->sheaf[1]->objects[2] = (void *)1;
}

static void test_late_flip(void **state)
{
	(void)state;
	three_slots();
	stragglers = late_flip;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	unit_equal(found[1].avail, 3);
	unit_equal(found[1].sheaf[1]->fill, 3);
	unit_equal(found[1].sheaf[0]->fill, 4);
}

/* These two commit to the pointer and leave the word closed. */
static void late_take(unsigned round)
{
	(void)round;
	late->sheaf[1] = NULL;
}

static void test_late_take(void **state)
{
	(void)state;
	three_slots();
	stragglers = late_take;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	unit_equal(barriers, 1);
	assert_null(found[1].sheaf[1]);
	assert_non_null(found[1].sheaf[0]);
	assert_non_null(found[0].sheaf[1]);
}

static void late_give(unsigned round)
{
	(void)round;
	late->sheaf[1] = sheaf(20, 6);
}

static void test_late_give(void **state)
{
	(void)state;
	three_slots();
	late->sheaf[1] = NULL;
	stragglers = late_give;
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	assert_ptr_equal(found[1].sheaf[1], at(20));
	check_vacant(late);
}

/* ---- refused -------------------------------------------------------------------------------------- */

static void check_as_before(void)
{
	unit_equal(calls, 0);
	for (unsigned cpu = 0; cpu < 3; cpu++) {
		unit_equal(slots[cpu].main.word, word(10 + cpu, 0, 4));
		assert_ptr_equal(slots[cpu].main.sheaf[0], at(2 * cpu));
		assert_ptr_equal(slots[cpu].main.sheaf[1], at(2 * cpu + 1));
	}
}

static void test_refused(void **state)
{
	(void)state;
	three_slots();
	refuse_from = 1;
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), -EPERM);
	unit_equal(barriers, 1);
	check_as_before();
	refuse_from = 0;
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), 0);
	unit_equal(calls, 3);
}

/* A straggler's store must not be undone. */
static void test_refused_late(void **state)
{
	(void)state;
	three_slots();
	refuse_from = 1;
	stragglers = late_pop;
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), -EPERM);
	unit_equal(calls, 0);
	unit_equal(late->word, word(12, 0, 3));
	late->word = word(11, 0, 4);
	check_as_before();
}

/* Refused in the second round: slots that were settled in the first one are opened as well. */
static void test_refused_later(void **state)
{
	(void)state;
	three_slots();
	refuse_from = 2;
	stragglers = late_pop;
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), -EPERM);
	unit_equal(barriers, 2);
	unit_equal(calls, 0);
	unit_equal(late->word, word(12, 0, 3));
	late->word = word(11, 0, 4);
	check_as_before();
}

/* The first batch was done when the second one is refused. */
static void test_refused_second_batch(void **state)
{
	(void)state;
	for (unsigned cpu = 0; cpu < 100; cpu++)
		set(&slots[cpu].main, word(1, 0, 1), sheaf(cpu, 1), NULL);
	refuse_from = 2;
	unit_equal(drain(PCS_MAIN, 0, 100), -EPERM);
	unit_equal(calls, 64);
	check_vacant(&slots[63].main);
	unit_equal(slots[64].main.word, word(1, 0, 1));
	assert_ptr_equal(slots[64].main.sheaf[0], at(64));
}

/* ---- closed by its own ---------------------------------------------------------------------------- */

static void *open_soon(void *arg)
{
	for (unsigned i = 0; i < 1000; i++)
		plat_yield();
	plat_store_release(&late->word, word(12, 0, 3));
	return arg;
}

/* A slot that somebody has closed for the moment is waited for. */
static void test_local_holder(void **state)
{
	pthread_t thread;

	(void)state;
	three_slots();
	late->word |= WORD_WHO_LOCAL;
	assert_int_equal(pthread_create(&thread, NULL, open_soon, NULL), 0);
	unit_equal(drain(PCS_MAIN, 0, 3), 0);
	pthread_join(thread, NULL);
	unit_equal(calls, 3);
	unit_equal(found[1].allocs, 12);
	unit_equal(found[1].avail, 3);
}

/* In the child of a fork that somebody is not there. */
static void test_child(void **state)
{
	uint32_t generation;
	struct plat_place here;
	(void)state;
	three_slots();
	slots[1].rcu_inflight = 2;
	late->word |= WORD_WHO_LOCAL;
	slots[2].rcu.word = word(0, 0, 3) | WORD_WHO_LOCAL;
	slots[2].rcu.sheaf[0] = sheaf(10, 3);
	pcs_child(&all, NSLOTS);
	check_as_before();
	unit_equal(plat_raised(&slots[1].rcu_inflight), 0);
	unit_equal(slots[2].rcu.word, word(0, 0, 3));
	/* But what the forking thread itself was in, it will open itself. */
	late->word |= WORD_WHO_LOCAL;
	plat_enter(&here, late);
	pcs_child(&all, NSLOTS);
	unit_equal(late->word, word(11, 0, 4) | WORD_WHO_LOCAL);
	plat_leave(&here);
	/* What it had raised, it lowers only in the generation it raised it in. */
	generation = plat_raise(&slots[1].rcu_inflight);
	unit_equal(plat_raised(&slots[1].rcu_inflight), 1);
	pcs_child(&all, NSLOTS);
	unit_equal(plat_raised(&slots[1].rcu_inflight), 0);
	plat_lower(&slots[1].rcu_inflight, generation);
	unit_equal(plat_raised(&slots[1].rcu_inflight), 0);
	generation = plat_raise(&slots[1].rcu_inflight);
	plat_lower(&slots[1].rcu_inflight, generation);
	unit_equal(plat_raised(&slots[1].rcu_inflight), 0);
}

static void child_in_between(unsigned round)
{
	(void)round;
	unit_equal(late->word & WORD_WHO, WORD_WHO_REMOTE);
	pcs_child(&all, NSLOTS);
	/* Somebody else's are opened, also when this thread is draining. */
	unit_equal(slots[0].rcu.word, word(0, 0, 3));
}

/* A handler forks in the middle of its own thread's drain, which goes on in the child. */
static void test_child_in_drain(void **state)
{
	struct uslub_sheaf *a = sheaf(12, 5);

	(void)state;
	three_slots();
	set(&slots[0].main, word(7, 0, 5), a, NULL);
	slots[0].rcu.word = word(0, 0, 3) | WORD_WHO_LOCAL;
	stragglers = child_in_between;
	unit_equal(drain(PCS_MAIN, 0, NSLOTS), 0);
	stragglers = NULL;
	check_found(0, 7, 5, a, NULL);
	unit_equal(found[1].allocs, 11);
	unit_equal(found[1].avail, 4);
	assert_non_null(found[1].sheaf[0]);
	check_vacant(&slots[0].main);
	check_vacant(late);
}

/* ---- totals --------------------------------------------------------------------------------------- */

static uint64_t jumps, folded, pops, pushes;

static void fold(void *arg, unsigned cpu, const struct pcs_contents *c)
{
	unsigned *free = arg;

	(void)cpu;
	folded += c->allocs;
	jumps -= c->avail;
	for (unsigned i = 0; i < 2; i++)
		if (c->sheaf[i])
			free[c->sheaf[i]->node]++;
}

static void check_totals(enum pcs_part part)
{
	uint64_t allocs = 0, avail = 0;

	for (unsigned cpu = 0; cpu < NSLOTS; cpu++) {
		uint64_t w = pcs_slot(&all, cpu, part)->word;

		allocs += word_allocs(w);
		avail += word_avail(w);
	}
	unit_equal(allocs + folded, pops);
	unit_equal(allocs + avail + folded - jumps, pushes);
}

/* One operation on some CPU, with sheaves from a heap of free ones. */
static void totals_step(enum pcs_part part, unsigned *free)
{
	static void *objects[CAPACITY];
	struct uslub_sheaf *s;
	unsigned cpu = unit_below(NSLOTS), n;
	struct percpu_slot *slot = pcs_slot(&all, cpu, part);
	enum seq_result result;
	int jump = 0;

	unit_on_cpu((int)cpu);
	switch (unit_below(7)) {
	case 0:
		if (seq_pop_n(cpu, slot, 1 + unit_below(9), objects, &n) == SEQ_DONE)
			pops += n;
		return;
	case 1:
		if (seq_push_n(cpu, slot, 1 + unit_below(8), objects, &n) == SEQ_DONE)
			pushes += n;
		return;
	case 2:
		result = seq_flip_pop(cpu, slot, objects, &jump);
		pops += result == SEQ_DONE;
		break;
	case 3:
		result = seq_flip_push(cpu, slot, objects, &jump);
		pushes += result == SEQ_DONE;
		break;
	case 4:
		if (seq_take_other(cpu, slot, &s) == SEQ_DONE)
			free[s->node]++;
		return;
	case 5:
		n = unit_below(SHEAVES);
		if (!free[n])
			return;
		s = sheaf(n, unit_below(CAPACITY + 1));
		s->node = n;
		free[n] -= seq_give_other(cpu, slot, s) == SEQ_DONE;
		return;
	default:
		n = unit_below(30) ? cpu : 0;
		if (!unit_below(10))
			pcs_drain(&all, part, n, cpu + 1, fold, free);
		return;
	}
	if (result == SEQ_DONE)
		jumps += (uint64_t)(int64_t)jump;
}

static void try_totals(enum pcs_part part)
{
	static unsigned free[SHEAVES];

	jumps = folded = pops = pushes = 0;
	memset(slots, 0, sizeof(slots));
	for (unsigned i = 0; i < SHEAVES; i++)
		free[i] = 1;
	for (unsigned step = 0; step < unit_scaled(100000); step++) {
		totals_step(part, free);
		if (step % 100 == 0)
			check_totals(part);
	}
	pcs_drain(&all, part, 0, NSLOTS, fold, free);
	check_totals(part);
	unit_equal(folded, pops);
	assert_true(pops > 100 && pushes > 100);
	for (unsigned i = 0; i < SHEAVES; i++)
		unit_equal(free[i], 1); /* no sheaf was lost, none came twice */
	for (unsigned cpu = 0; cpu < NSLOTS; cpu++)
		check_vacant(pcs_slot(&all, cpu, part));
}

static void test_totals(void **state)
{
	static const char *const cpus = "0-199";

	(void)state;
	unit_machine(cpus, NULL, &cpus, 1);
	try_totals(PCS_MAIN);
	try_totals(PCS_RCU);
}

/* ---- for real ------------------------------------------------------------------------------------- */

/*
 * Threads push and pop while another one drains: with real sequences, if the machine has them. The
 * objects that come out, in whichever way, are those that went in.
 */
#define THREADS 3

static struct pcs real_slots[PLAT_MAX_CPUS + PLAT_FOREIGN_SLOTS];
static const struct pcs_set real_all = { real_slots, sizeof(real_slots[0]) };
static bool stop;
static uint64_t put_in, got_out; /* sums of object numbers */
static struct uslub_sheaf *spares;
static pthread_mutex_t spares_lock = PTHREAD_MUTEX_INITIALIZER;

static struct uslub_sheaf *spare_get(void)
{
	struct uslub_sheaf *s;

	pthread_mutex_lock(&spares_lock);
	s = spares;
	if (s)
		spares = s->next;
	pthread_mutex_unlock(&spares_lock);
	return s;
}

static void spare_put(struct uslub_sheaf *s)
{
	while (s->fill)
		plat_fetch_add(&got_out, (uintptr_t)s->objects[--s->fill]);
	pthread_mutex_lock(&spares_lock);
	s->next = spares;
	spares = s;
	pthread_mutex_unlock(&spares_lock);
}

static void real_step(uint64_t x)
{
	unsigned cpu = plat_slot(), n = 0;
	struct percpu_slot *slot = &real_slots[cpu].main;
	void *object = (void *)(x >> 20 | 1);
	struct uslub_sheaf *s;
	int jump;

	if (x % 4 == 0 && (s = spare_get()) && seq_give_other(cpu, slot, s) != SEQ_DONE)
		spare_put(s);
	if (x % 4 == 1 && seq_take_other(cpu, slot, &s) == SEQ_DONE)
		spare_put(s);
	if (x & 8) {
		if (seq_push_n(cpu, slot, 1, &object, &n) == SEQ_DONE ||
		    seq_flip_push(cpu, slot, object, &jump) == SEQ_DONE)
			plat_fetch_add(&put_in, (uintptr_t)object);
	} else if (seq_pop_n(cpu, slot, 1, &object, &n) == SEQ_DONE ||
		   seq_flip_pop(cpu, slot, &object, &jump) == SEQ_DONE) {
		plat_fetch_add(&got_out, (uintptr_t)object);
	}
}

static void *run_real(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	while (!plat_load(&stop)) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		real_step(x >> 24);
	}
	return NULL;
}

static void real_taken(void *arg, unsigned cpu, const struct pcs_contents *c)
{
	(void)arg;
	(void)cpu;
	for (unsigned i = 0; i < 2; i++)
		if (c->sheaf[i])
			spare_put(c->sheaf[i]);
}

static void try_real(unsigned rounds)
{
	pthread_t threads[THREADS];
	unsigned sheaves = 0;

	for (unsigned i = 0; i < 64; i++)
		spare_put(sheaf(i, 0));
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_real, (void *)(i + 1)), 0);
	/* The threads may take their time to begin. */
	for (unsigned i = 0; i < rounds || !plat_load(&put_in); i++) {
		unit_equal(pcs_drain(&real_all, PCS_MAIN, 0, plat_nslots(), real_taken, NULL), 0);
		if (i % 16 == 0)
			plat_yield();
	}
	plat_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	unit_equal(pcs_drain(&real_all, PCS_MAIN, 0, plat_nslots(), real_taken, NULL), 0);
	unit_equal(put_in, got_out);
	assert_true(put_in != 0);
	while (spare_get())
		sheaves++;
	unit_equal(sheaves, 64);
}

static void test_real(void **state)
{
	(void)state;
	try_real(unit_scaled(3000));
}

/*
 * Forbidden by a filter since start: the close finds another way, or says so. Threads use their slots
 * meanwhile.
 */
static void forbid_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = array_size(code), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		unit_skip("no seccomp filters");
	if (syscall(SYS_membarrier, 0, 0, 0) != -1 || errno != EPERM)
		unit_skip("the filter does nothing");
}

static void test_real_forbidden(void **state)
{
	(void)state;
	forbid_membarrier();
	try_real(unit_scaled(200));
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_drain, UNIT_BOTH),
		UNIT_TEST(test_range, UNIT_BOTH),
		UNIT_TEST(test_drain_dead, UNIT_BOTH),
		UNIT_TEST(test_closed_meanwhile, UNIT_FAKED),
		UNIT_TEST(test_late_pop, UNIT_FAKED),
		UNIT_TEST(test_several_late_pops, UNIT_FAKED),
		UNIT_TEST(test_late_flip, UNIT_FAKED),
		UNIT_TEST(test_late_take, UNIT_FAKED),
		UNIT_TEST(test_late_give, UNIT_FAKED),
		UNIT_TEST(test_refused, UNIT_FAKED),
		UNIT_TEST(test_refused_late, UNIT_FAKED),
		UNIT_TEST(test_refused_later, UNIT_FAKED),
		UNIT_TEST(test_refused_second_batch, UNIT_FAKED),
		UNIT_TEST(test_local_holder, UNIT_BOTH),
		UNIT_TEST(test_child, UNIT_SHARED),
		UNIT_TEST(test_child_in_drain, UNIT_SHARED),
		UNIT_TEST(test_totals, UNIT_BOTH),
		UNIT_TEST(test_real, UNIT_REAL),
		UNIT_TEST(test_real_forbidden, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
