/* SPDX-License-Identifier: MIT */
/*
 * Scenarios: small machines and small caches, so that what is rare elsewhere is frequent here, and what
 * threads do with them: a mixture of operations, or a script. A row in the table at the end is all it takes.
 *
 * A run has four parts, all of them under the schedule: threads do what the scenario says; when all have
 * ended, what is deferred is waited for and everything is counted; threads free what is left, and it is counted
 * again; the caches are destroyed, and what lies below them is counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cache/internal.h"
#include "tiers/supply.h"
#include "../uslub/tool.h"
#include "explore_model.h"

#define BULK_MAX      8u
#define PUBLISHED     3u
#define CHILD_OPS     12u
#define TAKEN_SLABS   32u /* of which a refill takes chains at once, at most */
#define FORK_EXIT_BAD 3

static const struct ex_scenario *scenario;
static struct ex_object *published[PUBLISHED];
static bool failing;
static unsigned forks_left;
static unsigned lives; /* caches made and destroyed by threads, for their names */

bool ex_failing(void)
{
	return failing;
}

const char *ex_op(unsigned thread, uint32_t *number)
{
	struct ex_thread *t = ex_self();

	(void)thread;
	*number = t ? t->op_number : 0;
	return t ? t->op : NULL;
}

unsigned ex_caches(struct uslub_cache **caches)
{
	for (unsigned i = 0; i < ex_ncaches; i++)
		caches[i] = ex_cache[i].c;
	return ex_ncaches;
}

/* Threads of the simulated machine to those of the scenario. */
static struct ex_thread *by_number[64];

struct ex_thread *ex_self(void)
{
	unsigned self = sim_self();

	return self < 64 ? by_number[self] : NULL;
}

static unsigned below(struct ex_thread *t, unsigned n)
{
	return (unsigned)((sim_random(&t->chance) >> 32) * n >> 32);
}

static void begin(struct ex_thread *t, const char *op)
{
	t->op = op;
	t->op_number++;
}

static void keep(struct ex_thread *t, struct ex_object *o)
{
	t->kept[t->nkept++] = o;
}

static struct ex_object *give_up(struct ex_thread *t)
{
	unsigned i = below(t, t->nkept);
	struct ex_object *o = t->kept[i];

	t->kept[i] = t->kept[--t->nkept];
	return o;
}

static void refused(struct ex_cache *e, const char *what)
{
	e->refused = true;
	if (!failing)
		ex_fail("%s of cache %s failed though nothing was refused to it", what, e->name);
}

/* ---- operations ----------------------------------------------------------------------------------- */

static void alloc_as(struct ex_thread *t, struct ex_cache *e, unsigned flags, int node)
{
	void *p;

	if (t->nkept == EX_KEPT_MAX)
		return;
	p = node < -1 ? uslub_cache_alloc(e->c, flags) : uslub_cache_alloc_node(e->c, flags, node);
	if (p)
		keep(t, ex_issue(t, e, p, flags & USLUB_ZERO));
	else if (flags & (USLUB_NOLOCK | USLUB_NOWAIT))
		e->refused = true;
	else
		refused(e, "an allocation");
}

static void free_one(struct ex_object *o, bool nolock)
{
	struct ex_cache *e = o->cache;

	ex_unissue(o, false);
	(nolock ? uslub_cache_free_nolock : uslub_cache_free)(e->c, o->p);
}

static uint64_t returns; /* of deferred frees */

static void free_rcu(struct ex_object *o)
{
	struct ex_cache *e = o->cache;
	uint64_t stamp;

	if (!e->rcu) {
		free_one(o, false);
		return;
	}
	ex_unissue(o, true);
	stamp = o->stamp;
	uslub_cache_free_rcu(e->c, o->p);
	if (o->state == EX_DEFERRED && o->stamp == stamp)
		o->returned_at = ++returns;
}

static void do_alloc(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "alloc");
	alloc_as(t, e, below(t, 4) || e->constructed ? 0 : USLUB_ZERO, -2);
}

static void do_free(struct ex_thread *t, struct ex_cache *e)
{
	(void)e;
	begin(t, "free");
	if (t->nkept)
		free_one(give_up(t), false);
}

static void do_free_rcu(struct ex_thread *t, struct ex_cache *e)
{
	(void)e;
	begin(t, "free_rcu");
	if (t->nkept)
		free_rcu(give_up(t));
}

static void do_bulk(struct ex_thread *t, struct ex_cache *e)
{
	unsigned n = 1 + below(t, BULK_MAX);
	void *objects[BULK_MAX];

	if (t->nkept + n > EX_KEPT_MAX || below(t, 2)) {
		begin(t, "free_bulk");
		n = 0;
		for (unsigned i = t->nkept; i-- && n < BULK_MAX;) {
			if (t->kept[i]->cache != e)
				continue;
			ex_unissue(t->kept[i], false);
			objects[n++] = t->kept[i]->p;
			t->kept[i] = t->kept[--t->nkept];
		}
		uslub_cache_free_bulk(e->c, n, objects);
		return;
	}
	begin(t, "alloc_bulk");
	if (uslub_cache_alloc_bulk(e->c, 0, n, objects)) {
		refused(e, "a bulk allocation");
		return;
	}
	for (unsigned i = 0; i < n; i++)
		keep(t, ex_issue(t, e, objects[i], false));
}

static void prefill(struct ex_thread *t, struct ex_cache *e, unsigned flags, unsigned n)
{
	begin(t, "prefill");
	t->sheaf = uslub_cache_prefill_sheaf(e->c, flags, n);
	t->sheaf_of = e;
	if (!t->sheaf && !flags)
		refused(e, "a prefill");
	if (!t->sheaf)
		e->refused = true;
	else if (uslub_sheaf_size(t->sheaf) < n)
		ex_fail("a prefilled sheaf of cache %s has %u objects, not %u", e->name,
			uslub_sheaf_size(t->sheaf), n);
}

static void from_sheaf(struct ex_thread *t)
{
	void *p;

	begin(t, "alloc_from_sheaf");
	if (t->nkept == EX_KEPT_MAX || !uslub_sheaf_size(t->sheaf))
		return;
	p = uslub_cache_alloc_from_sheaf(t->sheaf_of->c, 0, t->sheaf);
	if (!p)
		ex_fail("a prefilled sheaf of cache %s that has objects gave none",
			t->sheaf_of->name);
	t->sheaf_of->from_sheaf++;
	keep(t, ex_issue(t, t->sheaf_of, p, false));
}

static void return_sheaf(struct ex_thread *t, unsigned flags)
{
	struct uslub_sheaf *s = t->sheaf;

	begin(t, "return_sheaf");
	t->sheaf = NULL;
	uslub_cache_return_sheaf(t->sheaf_of->c, flags, s);
}

/* Meanwhile the sheaf is not the thread's: it may become another one. */
static void refill_sheaf(struct ex_thread *t, unsigned flags, unsigned n)
{
	struct ex_cache *e = t->sheaf_of;
	struct uslub_sheaf *s = t->sheaf;
	int error;

	begin(t, "refill_sheaf");
	e->exact = false;
	t->sheaf = NULL;
	error = uslub_cache_refill_sheaf(e->c, flags, &s, n);
	t->sheaf = s;
	if (error && !flags)
		refused(e, "a refill of a sheaf");
	e->refused |= error;
	if (!error && uslub_sheaf_size(s) < n)
		ex_fail("a refilled sheaf of cache %s has %u objects, not %u", e->name,
			uslub_sheaf_size(s), n);
}

static void do_prefill(struct ex_thread *t, struct ex_cache *e)
{
	unsigned flags = scenario->mix.nolock && !below(t, 3) ? USLUB_NOLOCK : 0;
	unsigned most = e->c->capacity + (below(t, 4) ? 0 : 3), n = 1 + below(t, max(most, 1u));

	if (!t->sheaf) {
		if (n > e->c->capacity)
			e->exact = false;
		prefill(t, e, flags, n);
		return;
	}
	switch (below(t, 5)) {
	case 0:
		refill_sheaf(t, flags, n);
		break;
	case 1:
		return_sheaf(t, flags);
		break;
	default:
		from_sheaf(t);
	}
}

static void do_nolock(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "nolock");
	if (below(t, 5) < 2)
		alloc_as(t, e, USLUB_NOLOCK, -2);
	else if (t->nkept)
		free_one(give_up(t), true);
}

static void pause_a_bit(struct ex_thread *t, unsigned n)
{
	(void)t;
	while (n--)
		sim_use(NULL, 0);
}

static void read_one(struct ex_thread *t, struct ex_object *o, unsigned pauses)
{
	uint64_t stamp = o ? o->stamp : 0;

	for (unsigned i = 0; i <= pauses; i++) {
		pause_a_bit(t, 1);
		if (o)
			ex_check_object(o, stamp);
	}
}

static void do_reader(struct ex_thread *t, struct ex_cache *e)
{
	bool slow = !below(t, 4);

	begin(t, "reader");
	ex_enter_section(t);
	read_one(t, published[below(t, PUBLISHED)], slow ? 40 : below(t, 6));
	if (!below(t, 3) && t->nkept && e->rcu)
		free_rcu(give_up(t));
	read_one(t, published[below(t, PUBLISHED)], below(t, 6));
	ex_leave_section(t);
}

static void publish(struct ex_thread *t, unsigned slot)
{
	struct ex_object *old = published[slot];

	if (!t->nkept)
		return;
	published[slot] = t->kept[--t->nkept];
	published[slot]->owner = -1;
	if (old)
		free_rcu(old);
}

static void do_publish(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "publish");
	if (!t->nkept)
		alloc_as(t, e, 0, -2);
	if (e->rcu && t->nkept && t->kept[t->nkept - 1]->cache->rcu)
		publish(t, below(t, PUBLISHED));
}

static void do_shrink(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "shrink");
	uslub_cache_shrink(e->c);
}

/*
 * Has any other thread objects in its hands that it may have? All have ended, but for those which are just
 * about to queue an RCU sheaf: a barrier must have waited for them.
 */
static bool hands_are_empty(struct ex_thread *self)
{
	static const void *replace, *after, *disposes;

	if (!replace) {
		replace = ex_function("replace_rcu", NULL);
		after = ex_function("assist", NULL);
		disposes = ex_function("dispose_batch", NULL);
	}
	for (unsigned i = 0; i < 64; i++) {
		struct ex_thread *t = by_number[i];

		if (t == self || (!t && !ex_thread_under(i, disposes)))
			continue;
		if (!t ||
		    (!t->ended && (!ex_thread_under(i, replace) || ex_thread_under(i, after))))
			return false;
	}
	return true;
}

struct barrier {
	struct ex_cache *e;
	uint64_t returned_by;
};

static void check_barrier(void *arg)
{
	const struct barrier *b = arg;

	ex_check_barrier(b->e, b->returned_by);
}

static void do_barrier(struct ex_thread *t, struct ex_cache *e)
{
	uint64_t before = returns;

	begin(t, "barrier_rcu");
	uslub_cache_barrier_rcu(e->c);
	/* In the child of a fork a sheaf that somebody was about to queue is lost with him. */
	if (e->rcu && !sim_in_child() && hands_are_empty(t))
		sim_outside(check_barrier, &(struct barrier){ e, before });
}

static void do_node(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "alloc_node");
	e->exact = false;
	alloc_as(t, e, 0, (int)below(t, plat_nnodes() + 1) - 1);
}

static void do_stat(struct ex_thread *t, struct ex_cache *e)
{
	static const enum uslub_stat which[] = { USLUB_STAT_objects, USLUB_STAT_objects_partial,
						 USLUB_STAT_alloc_fastpath, USLUB_STAT_parked };
	uint64_t value, most;

	begin(t, "stat");
	uslub_cache_stat(e->c, which[below(t, array_size(which))], &value);
	uslub_cache_stat(e->c, USLUB_STAT_slabs, &most);
	if ((int64_t)value < 0 || (int64_t)most < 0)
		ex_fail("a statistic of cache %s is below 0", e->name);
}

/* Two seconds during which this CPU or another did nothing, and a look at one of them is due. */
static void do_idle(struct ex_thread *t, struct ex_cache *e)
{
	begin(t, "idle");
	sim_pass(2000000000ull * SIM_NS);
	plat_store(&e->c->slow_steps, (plat_load(&e->c->slow_steps) | 63) - below(t, 2));
	alloc_as(t, e, 0, -2);
}

/* ---- caches of a short life ----------------------------------------------------------------------- */

static void constructor(void *object)
{
	*(uint64_t *)object = EX_CONSTRUCTED;
}

static struct uslub_cache *create(const char *name, const struct ex_scenario *s, unsigned flags)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.flags = flags,
		.min_partial = s->min_partial,
		.ctor = flags & USLUB_TYPESAFE_BY_RCU ? constructor : NULL,
		.rcu = s->reserve_off ? NULL : &sim_flavor,
		.policy = s->policy,
	};

	args.policy.sheaf_capacity = s->capacity ? s->capacity : USLUB_POLICY_NONE;
	if (!args.policy.slab_min_objects)
		args.policy.slab_min_objects = 1;
	return uslub_cache_create(name, s->size, &args);
}

/*
 * A cache that may be merged has the same address as the others, so destroying it takes away one of their
 * names, not a certain one; and others may have live objects in it.
 */
static void do_life(struct ex_thread *t, struct ex_cache *unused)
{
	struct ex_cache e = { .size = scenario->size, .rcu = !scenario->reserve_off };
	unsigned n = 1 + below(t, 6), first = t->nkept;
	bool merges = below(t, 2);
	int error;

	(void)unused;
	if (t->nkept + n > EX_KEPT_MAX)
		return;
	begin(t, "create");
	snprintf(e.name, sizeof(e.name), "life-%u", lives++);
	e.c = create(e.name, scenario, merges ? USLUB_MERGE : 0);
	if (!e.c) {
		if (!failing)
			ex_fail("a cache could not be created");
		return;
	}
	begin(t, "find");
	if (uslub_cache_find(e.name) != e.c && !merges)
		ex_fail("cache %s was created and is not found", e.name);
	begin(t, "alloc");
	for (unsigned i = 0; i < n; i++)
		alloc_as(t, &e, 0, -2);
	if (t->nkept > first && !merges) {
		begin(t, "destroy");
		if (!uslub_cache_destroy(e.c))
			ex_fail("cache %s was destroyed with live objects", e.name);
	}
	begin(t, "free");
	while (t->nkept > first) {
		struct ex_object *o = t->kept[--t->nkept];

		if (below(t, 2))
			free_rcu(o);
		else
			free_one(o, false);
	}
	begin(t, "destroy");
	error = uslub_cache_destroy(e.c);
	if (error)
		ex_fail("all objects of cache %s were freed, but it was not destroyed: %d", e.name,
			error);
}

/* ---- fork ----------------------------------------------------------------------------------------- */

static void free_in_child(struct ex_object *o)
{
	free_one(o, false);
}

static void mixture(struct ex_thread *t, unsigned ops);

/*
 * What others had in their hands is in use for ever: for each of them two sheaves, the objects of a bulk call,
 * and the chains that a refill has just taken; and slabs that somebody held parked, of which the free objects
 * are not found.
 */
static uint64_t lost_most(const struct ex_cache *e)
{
	uint64_t one = 2 * e->c->capacity + BULK_MAX + e->c->class.objects * TAKEN_SLABS;

	return one * (ex_nthreads + 1);
}

static void return_all_sheaves(struct ex_thread *self)
{
	for (unsigned i = 0; i < ex_nthreads; i++) {
		struct uslub_sheaf *s = ex_threads[i].sheaf;

		if (!s)
			continue;
		begin(self, "return_sheaf");
		ex_threads[i].sheaf = NULL;
		uslub_cache_return_sheaf(ex_threads[i].sheaf_of->c, 0, s);
	}
}

/*
 * A cache with a live object stays. With none it goes, unless what is lost keeps it: a slab, or a sheaf. A slab
 * that somebody was about to give up is not counted any more, though its places may be.
 */
static void destroy_in_child(struct ex_cache *e)
{
	struct uslub_cache *c = e->c;
	uint64_t slabs = 0, made = 0, freed = 0;

	if (!uslub_cache_destroy(c))
		return;
	for (unsigned n = 0; n < plat_nnodes(); n++)
		slabs += c->nodes[n].nr_slabs;
	uslub_cache_stat(c, USLUB_STAT_sheaf_alloc, &made);
	uslub_cache_stat(c, USLUB_STAT_sheaf_free, &freed);
	if (!slabs && made == freed)
		ex_fail("in the child a cache of which nothing is left was not destroyed");
	if (slabs > lost_most(e) || (int64_t)(made - freed) < 0)
		ex_fail("in the child %" PRId64 " slabs and %" PRId64
			" sheaves are left, more than "
			"others can have had in their hands",
			(int64_t)slabs, (int64_t)(made - freed));
}

static void in_child(struct ex_thread *t)
{
	ex_forget_sections();
	forks_left = 0;
	mixture(t, CHILD_OPS);
	return_all_sheaves(t);
	for (unsigned i = 0; i < ex_ncaches; i++) {
		struct ex_cache *e = &ex_cache[i];
		uint64_t lost;

		begin(t, "destroy");
		if (e->live && !uslub_cache_destroy(e->c))
			ex_fail("in the child a cache was destroyed with live objects");
		begin(t, "free");
		ex_for_each_owned(e, free_in_child);
		begin(t, "barrier_rcu");
		uslub_cache_barrier_rcu(e->c);
		nodes_deferred(e->c->nodes);
		lost = ex_count_lost(e);
		if (lost > lost_most(e))
			ex_fail("in the child %" PRIu64 " objects are lost, more than others can "
				"have had in their hands",
				lost);
		begin(t, "destroy");
		destroy_in_child(e);
	}
	_exit(0);
}

static void do_fork(struct ex_thread *t, struct ex_cache *e)
{
	struct itimerval limit;
	char before[offsetof(struct ex_shared, reached)];
	int status = 0, pid;

	(void)e;
	if (!forks_left)
		return;
	forks_left--;
	begin(t, "fork");
	getitimer(ITIMER_PROF, &limit);
	memcpy(before, ex_shared, sizeof(before));
	pid = sim_fork(&status);
	if (!pid) {
		setitimer(ITIMER_PROF, &limit, NULL);
		in_child(t);
	}
	if (pid < 0)
		ex_fail("fork(2) failed: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		if (ex_shared->verdict == EX_RUNNING)
			ex_fail("the child of a fork ended with status %#x", (unsigned)status);
		_exit(FORK_EXIT_BAD);
	}
	memcpy(ex_shared, before, sizeof(before));
}

/* ---- mixtures ------------------------------------------------------------------------------------- */

static const struct {
	size_t weight; /* in struct ex_mix */
	void (*fn)(struct ex_thread *t, struct ex_cache *e);
} operations[] = {
	{ offsetof(struct ex_mix, alloc), do_alloc },
	{ offsetof(struct ex_mix, free), do_free },
	{ offsetof(struct ex_mix, free_rcu), do_free_rcu },
	{ offsetof(struct ex_mix, bulk), do_bulk },
	{ offsetof(struct ex_mix, prefill), do_prefill },
	{ offsetof(struct ex_mix, nolock), do_nolock },
	{ offsetof(struct ex_mix, reader), do_reader },
	{ offsetof(struct ex_mix, publish), do_publish },
	{ offsetof(struct ex_mix, shrink), do_shrink },
	{ offsetof(struct ex_mix, barrier), do_barrier },
	{ offsetof(struct ex_mix, node), do_node },
	{ offsetof(struct ex_mix, stat), do_stat },
	{ offsetof(struct ex_mix, idle), do_idle },
	{ offsetof(struct ex_mix, fork), do_fork },
	{ offsetof(struct ex_mix, life), do_life },
};

static unsigned weight_of(size_t i)
{
	return *(const unsigned *)((const char *)&scenario->mix + operations[i].weight);
}

static void mixture(struct ex_thread *t, unsigned ops)
{
	unsigned all = 0, at;
	size_t i;

	for (i = 0; i < array_size(operations); i++)
		all += weight_of(i);
	while (ops--) {
		/* Who keeps much or little rather does something about it. */
		if (t->nkept > scenario->keep && below(t, 2)) {
			do_free(t, NULL);
			continue;
		}
		if (!t->nkept && below(t, 2)) {
			do_alloc(t, &ex_cache[below(t, ex_ncaches)]);
			continue;
		}
		at = below(t, all);
		for (i = 0; at >= weight_of(i); i++)
			at -= weight_of(i);
		operations[i].fn(t, &ex_cache[below(t, ex_ncaches)]);
	}
}

/* ---- for scripts ---------------------------------------------------------------------------------- */

static void script_alloc(unsigned t)
{
	struct ex_thread *thread = &ex_threads[t];

	begin(thread, "alloc");
	alloc_as(thread, &ex_cache[0], 0, -2);
}

static void script_free(unsigned t)
{
	struct ex_thread *thread = &ex_threads[t];

	begin(thread, "free");
	if (thread->nkept)
		free_one(thread->kept[--thread->nkept], false);
}

static void script_free_rcu(unsigned t)
{
	begin(&ex_threads[t], "free_rcu");
	if (ex_threads[t].nkept)
		free_rcu(ex_threads[t].kept[--ex_threads[t].nkept]);
}

static void script_shrink(unsigned t)
{
	do_shrink(&ex_threads[t], &ex_cache[0]);
}

static void script_barrier(unsigned t)
{
	do_barrier(&ex_threads[t], &ex_cache[0]);
}

static void script_prefill(unsigned t, unsigned n)
{
	prefill(&ex_threads[t], &ex_cache[0], 0, n);
}

static void script_from_sheaf(unsigned t)
{
	if (ex_threads[t].sheaf)
		from_sheaf(&ex_threads[t]);
}

static void script_return(unsigned t)
{
	if (ex_threads[t].sheaf)
		return_sheaf(&ex_threads[t], 0);
}

static void script_read(unsigned t, unsigned pauses)
{
	begin(&ex_threads[t], "reader");
	ex_enter_section(&ex_threads[t]);
	read_one(&ex_threads[t], published[0], pauses);
	ex_leave_section(&ex_threads[t]);
}

static void script_publish(unsigned t)
{
	begin(&ex_threads[t], "publish");
	publish(&ex_threads[t], 0);
}

/* ---- a run ---------------------------------------------------------------------------------------- */

static void thread_main(void *arg)
{
	struct ex_thread *t = arg;

	by_number[sim_self()] = t;
	if (t->foreign)
		sim_unregister();
	if (scenario->script)
		scenario->script(t->index);
	else
		mixture(t, scenario->ops);
	t->op = "end";
	t->ended = true;
}

static void free_all(void *arg)
{
	struct ex_thread *t = arg;

	by_number[sim_self()] = t;
	t->ended = false;
	if (t->foreign)
		sim_unregister();
	while (t->nkept) {
		begin(t, "free");
		if (below(t, 3))
			free_one(give_up(t), false);
		else
			free_rcu(give_up(t));
	}
	if (t->sheaf)
		return_sheaf(t, 0);
	for (unsigned i = t->index; i < PUBLISHED; i += ex_nthreads)
		if (published[i]) {
			struct ex_object *o = published[i];

			published[i] = NULL;
			free_rcu(o);
		}
	t->op = "end";
}

static void settle(void *arg)
{
	struct ex_thread *t = arg;

	by_number[sim_self()] = t;
	for (unsigned i = 0; i < ex_ncaches; i++) {
		begin(t, "settle");
		uslub_cache_barrier_rcu(ex_cache[i].c);
	}
}

static void destroy_all(void *arg)
{
	struct ex_thread *t = arg;
	int error;

	by_number[sim_self()] = t;
	for (unsigned i = 0; i < ex_ncaches; i++) {
		struct ex_cache *e = &ex_cache[i];

		begin(t, "destroy");
		error = uslub_cache_destroy(e->c);
		if (error)
			ex_fail("cache %s: all objects were freed, but it was not destroyed (%d): "
				"something is lost",
				e->name, error);
	}
	ex_ncaches = 0;
}

static void run_all(void (*fn)(void *))
{
	for (unsigned t = 0; t < ex_nthreads; t++)
		sim_thread(fn, &ex_threads[t], t % scenario->cpus);
	sim_run();
}

static void count_all(void)
{
	sim_thread(settle, &ex_threads[ex_nthreads], 0);
	sim_run();
	for (unsigned i = 0; i < ex_ncaches; i++)
		ex_check_cache(&ex_cache[i]);
	ex_check_internal();
}

/* Of what is mapped, little is left: two runs of 8 pages on each node, and small ones. */
static void make_scarce(void)
{
	struct page *page, *last[3] = { NULL, NULL, NULL };
	unsigned flags = SUPPLY_THISNODE;

	for (unsigned node = 0; node < plat_nnodes(); node++) {
		while ((page = supply_alloc(3, node, flags))) {
			last[2] = last[1];
			last[1] = last[0];
			last[0] = page;
			flags |= SUPPLY_NOWAIT;
		}
		for (unsigned i = 0; i < array_size(last); i++)
			supply_free(last[i]);
		supply_alloc(0, node, flags);
		flags = SUPPLY_THISNODE;
	}
}

void ex_setup(const struct ex_scenario *s, uint64_t seed)
{
	static const struct sim_machine machine = { .name = "explore", .wake = 1000 };
	struct sim_machine m = machine;

	scenario = s;
	m.cpus = s->cpus;
	m.nodes = s->nodes;
	sim_start(&m, seed);
	ex_nthreads = s->threads;
	if (s->scarce)
		make_scarce();
	for (unsigned i = 0; i < 1u + !!(s->flags & USLUB_TYPESAFE_BY_RCU); i++) {
		struct ex_cache *e = &ex_cache[ex_ncaches++];

		snprintf(e->name, sizeof(e->name), "explored-%u", i);
		e->size = s->size;
		e->rcu = !s->reserve_off;
		e->exact = s->nodes == 1 && s->capacity;
		e->constructed = !i && s->flags & USLUB_TYPESAFE_BY_RCU;
		e->c = create(e->name, s, i ? 0 : s->flags);
		if (!e->c) {
			tool_error("a cache for scenario %s cannot be made", s->name);
			_exit(TOOL_EXIT_USAGE);
		}
	}
}

void ex_run(uint64_t seed)
{
	uint64_t chance = seed;

	failing = scenario->failing && sim_random(&chance) % 2;
	forks_left = 1;
	for (unsigned t = 0; t <= ex_nthreads; t++)
		ex_threads[t] = (struct ex_thread){
			.index = t,
			.chance = sim_random(&chance),
			.foreign = t < ex_nthreads && t >= ex_nthreads - scenario->foreign,
		};
	run_all(thread_main);
	ex_shared->settled = true;
	ex_shared->points_settled = ex_shared->points;
	count_all();
	run_all(free_all);
	count_all();
	for (unsigned i = 0; i < ex_ncaches; i++)
		ex_probe_cache(ex_cache[i].c);
	sim_thread(destroy_all, &ex_threads[ex_nthreads], 0);
	sim_run();
	ex_check_internal();
}

/* ---- scripts -------------------------------------------------------------------------------------- */

/* A pop and a push on one CPU, while another closes it. */
static void close_script(unsigned t)
{
	if (t == 0) {
		script_alloc(0);
		script_alloc(0);
		script_free(0);
	} else {
		script_shrink(1);
	}
}

static void push_script(unsigned t)
{
	script_alloc(t);
	script_free(t);
}

static void rcu_script(unsigned t)
{
	if (t == 0) {
		script_alloc(0);
		script_publish(0);
		script_alloc(0);
		script_publish(0);
		script_alloc(0);
	} else {
		script_read(1, 2);
	}
}

/* The second deferred free detaches the sheaf with the first. */
static void barrier_script(unsigned t)
{
	if (t) {
		script_barrier(t);
		return;
	}
	script_alloc(t);
	script_alloc(t);
	script_free_rcu(t);
	script_free_rcu(t);
}

static void prefill_script(unsigned t)
{
	script_prefill(t, 2);
	script_from_sheaf(t);
	script_return(t);
	script_free(t);
}

/* ---- the table ------------------------------------------------------------------------------------ */

#define PARKING .parking = USLUB_POLICY_ON, .park_limit

const struct ex_scenario ex_scenarios[] = {
	{ .name = "pop-push",
	  .help = "allocations and frees only",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 40,
	  .keep = 6,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .mix = { .alloc = 5, .free = 5 } },
	{ .name = "no-sheaves",
	  .help = "every operation on slabs",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 6,
	  .size = 1000,
	  .min_partial = 1,
	  .mix = { .alloc = 5, .free = 5, .bulk = 3, .free_rcu = 1 } },
	{ .name = "bulk",
	  .help = "several objects at once",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 10,
	  .capacity = 4,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 2, .barn_empty = 2 },
	  .mix = { .alloc = 2, .free = 2, .bulk = 8 } },
	{ .name = "refill",
	  .help = "sheaves are filled from and flushed to thin slabs",
	  .threads = 4,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .capacity = 5,
	  .size = 500,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 1 } },
	{ .name = "surplus",
	  .help = "refills that take more than they can use",
	  .threads = 3,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 12,
	  .capacity = 2,
	  .size = 500,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 3 } },
	{ .name = "prefill",
	  .help = "sheaves lent to threads, merged in the barn",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 40,
	  .keep = 6,
	  .capacity = 4,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 3, .barn_empty = 2 },
	  .mix = { .alloc = 4, .free = 5, .prefill = 14, .free_rcu = 2 } },
	{ .name = "prefill-old",
	  .help = "the same without policy prefill-barn",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 40,
	  .keep = 6,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .prefill_barn = USLUB_POLICY_OFF, .barn_full = 2, .barn_empty = 2 },
	  .mix = { .alloc = 4, .free = 5, .prefill = 12 } },
	{ .name = "close",
	  .help = "shrink closes the slots of CPUs that are at work",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 20,
	  .keep = 5,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .mix = { .alloc = 6, .free = 6, .shrink = 2, .prefill = 2 } },
	{ .name = "idle",
	  .help = "CPUs that look idle are drained",
	  .threads = 3,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 5,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .idle = 4, .free_rcu = 2 } },
	{ .name = "rcu",
	  .help = "deferred frees, with readers",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 5,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 2, .barn_empty = 2 },
	  .mix = { .alloc = 6, .free = 1, .free_rcu = 6, .reader = 4, .publish = 6 } },
	{ .name = "rcu-barrier",
	  .help = "barriers while sheaves are detached",
	  .threads = 3,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 16,
	  .keep = 4,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 5, .free_rcu = 6, .barrier = 2, .publish = 2, .reader = 2 } },
	{ .name = "rcu-hurry",
	  .help = "more is deferred than rcu-limit",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 2, .barn_empty = 1, .rcu_limit = 4096 },
	  .mix = { .alloc = 6, .free_rcu = 9, .reader = 3, .publish = 2 } },
	{ .name = "stash",
	  .help = "matured sheaves are kept for their CPUs",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 5,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .rcu_stash = 2, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6,
		   .free = 1,
		   .prefill = 4,
		   .free_rcu = 7,
		   .reader = 2,
		   .publish = 3 } },
	{ .name = "stash-drain",
	  .help = "the same with shrinking, barriers, NOLOCK, nodes and a thread without "
		  "registration",
	  .threads = 4,
	  .cpus = 3,
	  .nodes = 2,
	  .ops = 16,
	  .keep = 4,
	  .foreign = 1,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .rcu_stash = 1, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6,
		   .prefill = 3,
		   .free_rcu = 7,
		   .nolock = 2,
		   .shrink = 1,
		   .barrier = 1,
		   .idle = 1,
		   .node = 1,
		   .publish = 1 } },
	{ .name = "typesafe",
	  .help = "pages that wait for a grace period",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 6,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .flags = USLUB_TYPESAFE_BY_RCU,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 8, .bulk = 4, .shrink = 1, .free_rcu = 2 } },
	{ .name = "parking",
	  .help = "once-full slabs are parked",
	  .threads = 3,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 40,
	  .keep = 8,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 2,
	  .policy = { PARKING = 4, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 3 } },
	{ .name = "parking-slabs",
	  .help = "the same without sheaves",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 3 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 5 } },
	{ .name = "parking-tight",
	  .help = "the same with shards of one slab",
	  .threads = 4,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 1, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 7, .bulk = 3, .shrink = 1, .nolock = 2 } },
	{ .name = "parking-deep",
	  .help = "one shard with many slabs, for several threads",
	  .threads = 3,
	  .cpus = 1,
	  .nodes = 1,
	  .ops = 50,
	  .keep = 20,
	  .size = 1000,
	  .min_partial = 2,
	  .policy = { PARKING = 16 },
	  .mix = { .alloc = 5, .free = 8, .bulk = 5 } },
	{ .name = "scan",
	  .help = "statistics walk the list and unpark",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 6,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 2, .barn_full = 1, .barn_empty = 1,
		      .partial_count = USLUB_POLICY_SCAN },
	  .mix = { .alloc = 6, .free = 6, .bulk = 2, .stat = 4 } },
	{ .name = "atomic",
	  .help = "free objects counted in one word",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 6,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 2, .barn_full = 1, .barn_empty = 1,
		      .partial_count = USLUB_POLICY_ATOMIC },
	  .mix = { .alloc = 6, .free = 6, .bulk = 2, .stat = 1 } },
	{ .name = "numa",
	  .help = "two nodes: remote frees, bound allocations",
	  .threads = 4,
	  .cpus = 4,
	  .nodes = 2,
	  .ops = 30,
	  .keep = 6,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 2, .node = 3, .free_rcu = 3, .prefill = 2 } },
	{ .name = "numa-parking",
	  .help = "the same with parking",
	  .threads = 4,
	  .cpus = 4,
	  .nodes = 2,
	  .ops = 30,
	  .keep = 8,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 2, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 4, .node = 3, .shrink = 1 } },
	{ .name = "failing",
	  .help = "requests for memory fail",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 12,
	  .capacity = 3,
	  .size = 60000,
	  .min_partial = 1,
	  .failing = 2,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 8, .free = 4, .bulk = 3, .free_rcu = 3, .prefill = 3, .shrink = 2 } },
	{ .name = "failing-order",
	  .help = "the same with slabs of several pages",
	  .threads = 2,
	  .cpus = 2,
	  .nodes = 2,
	  .ops = 40,
	  .keep = 16,
	  .capacity = 2,
	  .size = 12000,
	  .min_partial = 1,
	  .failing = 2,
	  .scarce = true,
	  .policy = { .barn_full = 1, .barn_empty = 1, .slab_min_objects = 8 },
	  .mix = { .alloc = 10, .free = 4, .bulk = 6, .shrink = 2 } },
	{ .name = "nolock",
	  .help = "operations that may wait for nothing",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 5, .free = 4, .bulk = 2, .nolock = 8, .prefill = 2 } },
	{ .name = "nolock-slabs",
	  .help = "the same without sheaves, with parking",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 30,
	  .keep = 8,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 1 },
	  .mix = { .alloc = 5, .free = 3, .bulk = 2, .nolock = 9 } },
	{ .name = "foreign",
	  .help = "threads that are not registered for sequences",
	  .threads = 4,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 5,
	  .foreign = 2,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 6, .bulk = 2, .free_rcu = 3, .shrink = 1, .prefill = 2 } },
	{ .name = "life",
	  .help = "caches are made, merged and destroyed",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 5,
	  .keep = 6,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .mix = { .life = 4, .alloc = 1, .free = 1, .stat = 1 } },
	{ .name = "fork",
	  .help = "a thread forks; the child goes on alone",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 16,
	  .keep = 5,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6,
		   .free = 5,
		   .bulk = 2,
		   .free_rcu = 3,
		   .shrink = 1,
		   .prefill = 2,
		   .fork = 2 } },
	{ .name = "fork-stash",
	  .help = "the same with sheaves kept for CPUs",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 16,
	  .keep = 6,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { .rcu_stash = 2, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6, .free = 2, .prefill = 3, .free_rcu = 7, .barrier = 1, .fork = 1 } },
	{ .name = "fork-parking",
	  .help = "the same with parking and barriers",
	  .threads = 3,
	  .cpus = 2,
	  .nodes = 1,
	  .ops = 16,
	  .keep = 8,
	  .foreign = 1,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 2, .barn_full = 1, .barn_empty = 1 },
	  .mix = { .alloc = 6,
		   .free = 5,
		   .bulk = 4,
		   .free_rcu = 3,
		   .barrier = 1,
		   .shrink = 1,
		   .fork = 2 } },
	{ .name = "all",
	  .help = "a bit of everything",
	  .threads = 4,
	  .cpus = 3,
	  .nodes = 1,
	  .ops = 24,
	  .keep = 6,
	  .foreign = 1,
	  .capacity = 3,
	  .size = 1000,
	  .min_partial = 1,
	  .policy = { PARKING = 2, .barn_full = 2, .barn_empty = 1 },
	  .mix = { .alloc = 8,
		   .free = 6,
		   .bulk = 2,
		   .free_rcu = 4,
		   .prefill = 4,
		   .nolock = 2,
		   .reader = 2,
		   .publish = 3,
		   .shrink = 1,
		   .barrier = 1,
		   .stat = 1,
		   .idle = 1 } },
	{ .name = "tiny-close",
	  .help = "one thread at work, another shrinks",
	  .threads = 2,
	  .cpus = 2,
	  .nodes = 1,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .tiny = true,
	  .reserve_off = true,
	  .script = close_script },
	{ .name = "tiny-push",
	  .help = "two threads on one CPU",
	  .threads = 2,
	  .cpus = 1,
	  .nodes = 1,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .tiny = true,
	  .reserve_off = true,
	  .script = push_script },
	{ .name = "tiny-rcu",
	  .help = "a reader and a writer",
	  .threads = 2,
	  .cpus = 2,
	  .nodes = 1,
	  .capacity = 1,
	  .size = 1000,
	  .min_partial = 1,
	  .tiny = true,
	  .script = rcu_script },
	{ .name = "tiny-barrier",
	  .help = "a deferred free and a barrier",
	  .threads = 2,
	  .cpus = 2,
	  .nodes = 1,
	  .capacity = 1,
	  .size = 1000,
	  .min_partial = 1,
	  .tiny = true,
	  .script = barrier_script },
	{ .name = "tiny-prefill",
	  .help = "two threads borrow a sheaf",
	  .threads = 2,
	  .cpus = 1,
	  .nodes = 1,
	  .capacity = 2,
	  .size = 1000,
	  .min_partial = 1,
	  .tiny = true,
	  .reserve_off = true,
	  .script = prefill_script },
};

const unsigned ex_nscenarios = array_size(ex_scenarios);
