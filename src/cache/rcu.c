/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees.
 *
 * 1. The way of an object
 *    uslub_cache_free_rcu() pushes it into the CPU's RCU sheaf: the same sequence as a free, on the
 *    CPU's second slot, so that deferred frees never wait for the allocation side. The push that finds
 *    the sheaf full brings an empty one, flips to it and queues the full one to the domain. After a
 *    grace period the reclaimer puts whole sheaves into the barn of their node, to be allocated from
 *    again, or flushes them when the barn is full.
 *    Objects of other nodes, and those for which no empty sheaf could be had, go into blocks of pointers
 *    instead and end in their slabs. The memory for blocks is kept in reserve.
 *
 * 2. Domains and reclaimers
 *    One domain per liburcu flavor in use, for ever. Its reclaimer is a thread, started with the first
 *    thing queued, that goes round: take everything queued, wait for one grace period, let those who
 *    queue sheaves meanwhile dispose of the matured ones, one for one, and after PACE_NS dispose of what
 *    is left. With policy rcu-stash it first gives CPUs what they freed themselves (stash.c), and looks
 *    now and then for what they do not need, asleep for AGE_NS at most as long as there may be any.
 *    An allocation that finds the barn without a full sheaf disposes of one as well, and so gets
 *    it before it would go to the slabs. The reclaimer does not wait when somebody waits for it or when
 *    some MiB are queued, and is not woken while there is no work. So disposal is spread over CPUs and
 *    time as the kernel's callbacks are, and a barn gets its sheaves one by one, when there is room, not
 *    in bursts that it must refuse; and there is no context switch and no membarrier for each sheaf.
 *    A machine that has callbacks of its own, as a kernel does, disposes of sheaves by them instead.
 *    The reclaimer is no reader, so it need not be registered with any flavor. call_rcu is not used: its
 *    worker sleeps 10 ms for each batch, and its fork handlers could deadlock with ours.
 *
 * 3. The queue
 *    is lock-free: pushes by compare-exchange, one stack per node; the reclaimer exchanges each for NULL.
 *    What it took lies in domain->batch, not on its own stack: a fork in the middle loses nothing, since
 *    the child moves the batch back to the queue and waits another grace period.
 *
 * 4. Nothing slips through (barrier, destroy)
 *    A full sheaf is in nobody's structure between the flip that detached it and the push that queued
 *    it. So whoever is about to flip raises the CPU's rcu_inflight first and lowers it after queueing.
 *    A barrier empties the rcu slots of all CPUs by remote close, then waits until every rcu_inflight
 *    has been seen at 0, then waits for the domain's next full round. If a flip came before the close,
 *    its raise is visible to who sees the flip's effect; if it comes after, its object was not freed
 *    before the barrier was called, or its sheaf was taken by the close.
 *    Rounds: a waiter takes a number (`asked`); the reclaimer notes `asked` before it takes the queue
 *    and publishes it as `done` after disposal. done >= number means: taken after the number was drawn.
 *
 * 5. Memory
 *    free_rcu never waits for a grace period, for its caller may be a reader, or hold a lock that a
 *    reader waits for. But it can work: beyond 1/HASTE_PART of the cache's rcu-limit a caller disposes of
 *    two sheaves for one and calls for the reclaimer, so that any number of CPUs is kept up with; beyond
 *    1/YIELD_PART, with nothing to dispose of, it lets the reclaimer run; the whole limit is counted.
 *    If even blocks run out with all memory, a caller that is no reader waits for a grace period itself;
 *    a reader's object is leaked, with a message: the alternatives are a deadlock and a use after free.
 */
#include "cache/internal.h"

#define DOMAINS	       8
#define NODE_NO_BARN   UINT32_MAX /* in sheaf->node: flush, do not put into a barn */
#define RESERVE_BLOCKS 16
#define FORK_WAIT_NS   100000000ull
#define PACE_NS	       1000000
#define AGE_NS	       500000000
#define AGE_LOOKS      2  /* that find nothing, since a stash may be in somebody's hands, end it */
#define HASTE_PART     32 /* of rcu-limit: 2 MiB by default */
#define YIELD_PART     8

enum awake {
	ASLEEP, /* nothing to do */
	AWAKE,
	PACING, /* asleep for PACE_NS at most; only for haste is it woken */
};

/* A page of pointers to deferred objects. */
struct block {
	struct block *next;
	size_t used;
	void *objects[];
};

struct rcu_domain {
	const struct rcu_flavor_struct *flavor; /* atomic: set once */
	struct {
		struct uslub_sheaf *sheaves; /* atomic: the queue of a node */
	} cacheline queue[PLAT_MAX_NODES];
	struct slab *slabs; /* atomic: of type-safe caches, waiting for a grace period */

	uint32_t awake cacheline; /* atomic, futex: enum awake */
	uint32_t haste;		  /* atomic: do not pace the next round */
	uint32_t waiters;	  /* atomic: threads in rcu_wait() */
	uint32_t started;	  /* atomic: 1 while there is a reclaimer */
	uint64_t asked;		  /* atomic */
	uint64_t done;		  /* atomic */
	uint32_t done_futex;	  /* bumped with done */
	uint32_t stashed; /* atomic: looks at stashes until the last, AGE_LOOKS while used */
	uint64_t aged;	  /* the reclaimer's: when it looked last */
	struct rcu_ages ages;

	struct plat_lock grace_lock; /* held during synchronize_rcu() */
	struct plat_lock batch_lock cacheline;
	bool matured;	    /* under batch_lock: the batch's grace period is over */
	uint32_t assisting; /* atomic; raised under batch_lock: threads that dispose of a sheaf */
	struct uslub_sheaf *batch;  /* under batch_lock: taken off the queue */
	struct block *batch_blocks; /* under batch_lock */
	struct slab *batch_slabs;   /* under batch_lock */
	struct plat_lock reserve_lock;
	struct block *current; /* under reserve_lock: being filled */
	struct block *full;    /* under reserve_lock: the others, some not full */
	struct block *reserve; /* under reserve_lock: empty ones */
	unsigned nreserve;
};

static struct rcu_domain domains[DOMAINS];

/* ---- blocks of pointers --------------------------------------------------------------------------- */

static size_t block_room(void)
{
	return (plat_page_size() - sizeof(struct block)) / sizeof(void *);
}

static struct block *block_new(unsigned flags)
{
	struct page *page = supply_alloc(0, plat_this_node(), flags);
	struct block *b = page ? page_address(page) : NULL;

	if (b) {
		b->next = NULL;
		b->used = 0;
	}
	return b;
}

/* Under reserve_lock: one from the reserve. */
static struct block *reserve_take(struct rcu_domain *d)
{
	struct block *b = d->reserve;

	if (b) {
		d->reserve = b->next;
		d->nreserve--;
		b->next = NULL;
		b->used = 0;
	}
	return b;
}

static void block_free(struct rcu_domain *d, struct block *b)
{
	plat_lock(&d->reserve_lock);
	if (d->nreserve < RESERVE_BLOCKS) {
		b->next = d->reserve;
		d->reserve = b;
		d->nreserve++;
		b = NULL;
	}
	plat_unlock(&d->reserve_lock);
	if (b)
		supply_free(supply_page_of(b));
}

static bool reserve_fill(struct rcu_domain *d)
{
	struct block *b;

	while (d->nreserve < RESERVE_BLOCKS) {
		b = block_new(0);
		if (!b)
			return false;
		block_free(d, b);
	}
	return true;
}

/* ---- domains -------------------------------------------------------------------------------------- */

/* Under the registry lock. */
struct rcu_domain *rcu_domain_get(const struct rcu_flavor_struct *flavor)
{
	struct rcu_domain *d;

	for (unsigned i = 0; i < DOMAINS; i++) {
		d = &domains[i];
		if (d->flavor == flavor)
			return reserve_fill(d) ? d : NULL;
		if (!d->flavor) {
			plat_lock_init(&d->grace_lock, RANK_GRACE);
			plat_lock_init(&d->batch_lock, RANK_RECLAIM);
			plat_lock_init(&d->reserve_lock, RANK_RESERVE);
			if (!reserve_fill(d))
				return NULL;
			plat_store_release(&d->flavor, flavor);
			return d;
		}
	}
	return NULL;
}

unsigned rcu_domains(void)
{
	unsigned n = 0;

	while (n < DOMAINS && plat_load_acquire(&domains[n].flavor))
		n++;
	return n;
}

struct plat_lock *rcu_lock_batch(unsigned domain)
{
	return &domains[domain].batch_lock;
}

struct plat_lock *rcu_lock_reserve(unsigned domain)
{
	return &domains[domain].reserve_lock;
}

const struct rcu_ages *rcu_ages(const struct rcu_domain *d)
{
	return &d->ages;
}

/* ---- the reclaimer -------------------------------------------------------------------------------- */

/* Into the stash of the CPU that freed its objects. They are zero already where they must be. */
static bool keep(struct uslub_cache *c, struct uslub_sheaf *s)
{
	if (!stash_put(c, s))
		return false;
	if (plat_load(&c->domain->stashed) != AGE_LOOKS)
		plat_store(&c->domain->stashed, AGE_LOOKS);
	return true;
}

/* After its grace period: a sheaf to its CPU or barn, else its objects to their slabs. */
static void put_matured(struct uslub_cache *c, struct uslub_sheaf *s)
{
	struct barn *barn = s->node == NODE_NO_BARN ? NULL : &c->barns[s->node];

	cache_zero_freed(c, s->objects, s->fill);
	if (!barn) {
		sheaf_flush(c, s, 0);
		sheaf_free(c, s, 0);
	} else if (!s->fill) {
		sheaf_put_empty(c, barn, s, 0);
	} else if (!keep(c, s)) {
		sheaf_put_full(c, barn, s, 0);
	}
}

/* Pending until it is done, so that a count of 0 means quiet. */
static void dispose_sheaf(struct uslub_sheaf *s)
{
	struct uslub_cache *c = s->cache;
	unsigned n = s->fill;

	put_matured(c, s);
	plat_fetch_sub(&c->rcu_queued, n);
}

static void sheaf_callback(void *sheaf)
{
	dispose_sheaf(sheaf);
}

void (*rcu_free_other)(void *p);

/* The cache of an object; NULL: of memory that is no object. */
static struct uslub_cache *cache_of(void *object)
{
	struct slab *slab = (struct slab *)supply_page_of(object);

	return slab && slab->class ? container_of(slab->class, struct uslub_cache, class) : NULL;
}

static void dispose_pointer(void *object)
{
	struct uslub_cache *c = cache_of(object);

	if (!c) {
		plat_load_acquire (&rcu_free_other)(object);
		return;
	}
	cache_zero_freed(c, &object, 1);
	cache_free_slabs(c, &object, 1, 0);
	plat_fetch_sub(&c->rcu_queued, 1);
}

static void dispose_block(struct rcu_domain *d, struct block *b)
{
	for (size_t i = 0; i < b->used; i++)
		dispose_pointer(b->objects[i]);
	block_free(d, b);
}

/* Takes one block or slab off the batch and disposes of it; fork sees it before or after. */
static bool dispose_other(struct rcu_domain *d)
{
	struct block *block;
	struct slab *slab;

	plat_lock(&d->batch_lock);
	block = d->batch_blocks;
	slab = d->batch_slabs;
	if (block) {
		d->batch_blocks = block->next;
		dispose_block(d, block);
	} else if (slab) {
		d->batch_slabs = slab->next;
		slab_release(slab);
	}
	plat_unlock(&d->batch_lock);
	return block || slab;
}

/*
 * One sheaf of a batch whose grace period is over. In hand while it is disposed of, outside the lock, so
 * that several threads can do it at once; `assisting` tells the reclaimer.
 */
static bool dispose_one_sheaf(struct rcu_domain *d)
{
	uint32_t generation = 0;
	struct uslub_sheaf *s;

	if (!plat_load(&d->batch))
		return false;
	plat_lock(&d->batch_lock);
	s = d->matured ? d->batch : NULL;
	if (s) {
		plat_store(&d->batch, s->next);
		generation = plat_raise(&d->assisting);
	}
	plat_unlock(&d->batch_lock);
	if (!s)
		return false;
	dispose_sheaf(s);
	plat_lower(&d->assisting, generation);
	return true;
}

/* What is left of the batch, by the reclaimer; ends when nobody is at it any more. */
static void dispose_batch(struct rcu_domain *d)
{
	while (dispose_one_sheaf(d) || dispose_other(d))
		;
	plat_lock(&d->batch_lock);
	plat_store(&d->matured, false);
	plat_unlock(&d->batch_lock);
	while (plat_raised(&d->assisting))
		plat_yield();
}

bool rcu_feed_barn(struct uslub_cache *c)
{
	if (!cache_domain(c))
		return false;
	return (c->stashes && plat_rcu_poll(c->domain->flavor)) ||
	       (plat_load(&c->domain->matured) && dispose_one_sheaf(c->domain));
}

/* A thread that frees much does its part of the disposal. */
static void assist(struct uslub_cache *c, uint64_t queued)
{
	uint64_t bytes = queued * c->class.size;
	unsigned want = bytes > c->rcu_limit / HASTE_PART ? 2 : 1, disposed = 0;

	while (disposed < want && plat_load(&c->domain->matured) && dispose_one_sheaf(c->domain))
		disposed++;
	if (!disposed && bytes > c->rcu_limit / YIELD_PART)
		plat_yield();
	if (bytes > c->rcu_limit)
		count(counters(c), CTR_rcu_hurried);
}

static struct block *take_blocks(struct rcu_domain *d)
{
	struct block *b;

	plat_lock(&d->reserve_lock);
	b = d->full;
	if (d->current) {
		d->current->next = b;
		b = d->current;
	}
	plat_store(&d->full, NULL);
	plat_store(&d->current, NULL);
	plat_unlock(&d->reserve_lock);
	return b;
}

/* Moves all that is queued to the batch, oldest first. False: nothing. */
static bool take_queue(struct rcu_domain *d)
{
	struct uslub_sheaf *s, *next;
	struct block **blocks;
	struct slab **slabs;

	plat_lock(&d->batch_lock);
	plat_store(&d->ages.batch_since, plat_load(&d->ages.queued_since));
	plat_store(&d->ages.queued_since, 0);
	for (slabs = &d->batch_slabs; *slabs; slabs = &(*slabs)->next)
		;
	*slabs = plat_exchange(&d->slabs, NULL);
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		if (!plat_load(&d->queue[n].sheaves))
			continue;
		for (s = plat_exchange(&d->queue[n].sheaves, NULL); s; s = next) {
			next = s->next;
			s->next = d->batch;
			plat_store(&d->batch, s);
		}
	}
	for (blocks = &d->batch_blocks; *blocks; blocks = &(*blocks)->next)
		;
	*blocks = take_blocks(d);
	plat_unlock(&d->batch_lock);
	return d->batch || d->batch_blocks || d->batch_slabs;
}

static void grace_period(struct rcu_domain *d)
{
	plat_lock(&d->grace_lock);
	plat_rcu_synchronize(d->flavor);
	plat_unlock(&d->grace_lock);
}

/*
 * Under batch_lock: matured sheaves to the stashes of their CPUs, as far as those take them; but not those whose
 * objects are to be filled with zeros, which takes long. Returns how many there were.
 */
static unsigned hand_out(struct rcu_domain *d)
{
	struct uslub_sheaf **link = &d->batch, *s, *next;
	struct uslub_cache *c;
	unsigned fill, n = 0;

	for (; (s = *link); n++) {
		/* Once it is kept it is another's, who may use it up and queue it again. */
		c = s->cache;
		next = s->next;
		fill = s->fill;
		if (s->node != NODE_NO_BARN && fill && !c->zero_on_free && keep(c, s)) {
			plat_store(link, next);
			plat_fetch_sub(&c->rcu_queued, fill);
		} else {
			s->next = next;
			link = &s->next;
		}
	}
	return n;
}

/* First half of a round: what is queued matures. Returns the number to publish at its end. */
static uint64_t mature(struct rcu_domain *d)
{
	uint64_t asked = plat_load_acquire(&d->asked);
	unsigned sheaves;

	if (take_queue(d)) {
		grace_period(d);
		plat_lock(&d->batch_lock);
		sheaves = hand_out(d);
		plat_store(&d->matured, true);
		plat_unlock(&d->batch_lock);
		probe(grace, sheaves, plat_load(&d->ages.batch_since));
	}
	return asked;
}

/* Second half: everything queued before the first half began is disposed of. */
static void finish_round(struct rcu_domain *d, uint64_t asked)
{
	dispose_batch(d);
	plat_store(&d->ages.batch_since, 0);
	plat_store_release(&d->done, asked);
	plat_fetch_add(&d->done_futex, 1);
	plat_fence();
	if (plat_load(&d->waiters))
		plat_wake(&d->done_futex);
}

static bool work_waits(struct rcu_domain *d)
{
	if (plat_load(&d->slabs) || plat_load(&d->current) || plat_load(&d->full) ||
	    plat_load(&d->asked) != plat_load(&d->done))
		return true;
	for (unsigned n = 0; n < plat_nnodes(); n++)
		if (plat_load(&d->queue[n].sheaves))
			return true;
	return false;
}

static bool hasty(struct rcu_domain *d)
{
	return plat_load(&d->haste) || plat_load(&d->asked) != plat_load(&d->done);
}

/* Announces a sleep, then looks again: a push either sees the announcement or is seen. */
static void sleep_unless(struct rcu_domain *d, enum awake how, bool (*reason)(struct rcu_domain *))
{
	plat_store(&d->awake, how);
	plat_fence();
	if (!reason(d))
		plat_wait(&d->awake, how,
			  how == PACING		   ? PACE_NS
			  : plat_load(&d->stashed) ? AGE_NS
						   : 0);
	plat_store(&d->awake, AWAKE);
}

/* What CPUs keep for themselves gets old. */
static void age(struct rcu_domain *d)
{
	struct uslub_cache *c;
	bool more = false;

	/* Whoever holds it may be waiting for us. */
	if (!plat_trylock(&registry_lock))
		return;
	d->aged = plat_now();
	plat_fetch_sub(&d->stashed, 1);
	list_for_each_entry(c, &registry, link)
		if (c->domain == d && !c->dying)
			more |= cache_age(c);
	plat_unlock(&registry_lock);
	if (more)
		plat_store(&d->stashed, AGE_LOOKS);
}

static void *reclaimer(void *arg)
{
	struct rcu_domain *d = arg;
	uint64_t asked;

	for (;;) {
		while (!work_waits(d)) {
			sleep_unless(d, ASLEEP, work_waits);
			if (plat_load(&d->stashed) && !work_waits(d))
				age(d);
		}
		if (!plat_load(&d->stashed))
			d->aged = plat_now(); /* nothing is older */
		asked = mature(d);
		if (!hasty(d))
			sleep_unless(d, PACING, hasty);
		plat_store(&d->haste, 0);
		finish_round(d, asked);
		/* Not to be put off by another cache that is never quiet. */
		if (plat_load(&d->stashed) && plat_now() - d->aged > AGE_NS)
			age(d);
	}
	return NULL;
}

/*
 * Something has been queued: see that somebody comes for it. `started` is the right to run rounds: the
 * reclaimer has it for ever, a waiter for one round where no thread can be had.
 */
static void wake_reclaimer(struct rcu_domain *d, bool haste)
{
	uint32_t no = 0, awake;

	if (haste && !plat_load(&d->haste))
		plat_store(&d->haste, 1);
	plat_fence();
	awake = plat_load(&d->awake);
	if (likely(awake == AWAKE || (awake == PACING && !haste)))
		return;
	plat_store(&d->awake, AWAKE);
	if (plat_load(&d->started) || !plat_cas(&d->started, &no, 1)) {
		plat_wake(&d->awake);
		return;
	}
	if (plat_thread_start(reclaimer, d)) {
		/* Things stay queued; the next push tries again, a waiter helps himself. */
		plat_store_release(&d->started, 0);
		plat_fence();
		plat_store(&d->awake, ASLEEP);
	}
}

static void help(struct rcu_domain *d)
{
	uint32_t no = 0;

	if (plat_load(&d->started) || !plat_cas(&d->started, &no, 1))
		return;
	finish_round(d, mature(d));
	plat_store_release(&d->started, 0);
	plat_fence();
	plat_store(&d->awake, ASLEEP);
}

/* Waits until all that is queued now has been disposed of. */
void rcu_wait(struct rcu_domain *d)
{
	uint64_t number = plat_fetch_add(&d->asked, 1) + 1;
	bool online = plat_rcu_wait_begin(d->flavor);
	uint32_t seen;

	plat_rcu_barrier(d->flavor);
	plat_fetch_add(&d->waiters, 1);
	for (;;) {
		seen = plat_load_acquire(&d->done_futex);
		if (plat_load_acquire(&d->done) >= number)
			break;
		wake_reclaimer(d, true);
		help(d);
		if (plat_load_acquire(&d->done) < number)
			plat_wait(&d->done_futex, seen, 10000000);
	}
	plat_fetch_sub(&d->waiters, 1);
	plat_rcu_wait_end(d->flavor, online);
}

/*
 * Most flavors wait for a grace period under a mutex of their own, which the child would inherit locked,
 * for ever. So fork lets a wait that is under way end, and holds up the next; but no longer than
 * FORK_WAIT_NS, since the forking thread may be a reader or hold what a reader waits for, or may have
 * called the flavor's own function before fork, which stops grace periods. Then the child must not defer
 * frees, unless the flavor's functions around fork set it right. The flavor is asked nothing here: its
 * answer might take one of those mutexes.
 */
void rcu_fork_prepare(void)
{
	uint64_t start = plat_now();
	struct plat_lock *l;

	for (unsigned i = 0; i < rcu_domains(); i++) {
		l = &domains[i].grace_lock;
		while (!plat_lock_seize(l) && plat_now() - start < FORK_WAIT_NS)
			plat_yield();
	}
}

void rcu_fork_done(bool child)
{
	struct plat_lock *l;

	for (unsigned i = 0; i < rcu_domains(); i++) {
		l = &domains[i].grace_lock;
		if (child && !plat_lock_mine(l))
			plat_lock_init(l, RANK_GRACE);
		else
			plat_lock_thaw(l, child);
	}
}

/*
 * In the child the reclaimer does not exist. What it had taken waits again; a new one comes on need.
 * fork() holds both locks, unless somebody is in the midst of what they protect.
 */
void rcu_child(void)
{
	struct uslub_sheaf *s;
	struct block *b;
	struct slab *slab;
	struct rcu_domain *d;
	bool amid, reserve;

	for (unsigned i = 0; i < rcu_domains(); i++) {
		d = &domains[i];
		amid = plat_lock_amid(&d->batch_lock);
		reserve = plat_lock_amid(&d->reserve_lock);
		while (!amid && (s = d->batch)) {
			d->batch = s->next;
			s->next = d->queue[0].sheaves;
			d->queue[0].sheaves = s;
		}
		while (!amid && !reserve && (b = d->batch_blocks)) {
			d->batch_blocks = b->next;
			b->next = d->full;
			d->full = b;
		}
		while (!amid && (slab = d->batch_slabs)) {
			d->batch_slabs = slab->next;
			slab->next = d->slabs;
			d->slabs = slab;
		}
		d->started = 0;
		d->awake = ASLEEP;
		d->waiters = 0;
		d->matured = false;
		plat_raise_anew(&d->assisting);
	}
}

/* ---- queueing ------------------------------------------------------------------------------------- */

static void note_time(struct rcu_domain *d)
{
	if (unlikely(!plat_load(&d->ages.queued_since)))
		plat_store(&d->ages.queued_since, plat_now());
}

/* Returns how many objects of the cache are queued now. */
uint64_t rcu_queue_sheaf(struct uslub_cache *c, unsigned cpu, struct uslub_sheaf *s, bool to_barn)
{
	struct rcu_domain *d = c->domain;
	unsigned node = plat_this_node();
	uint64_t queued;

	s->node = to_barn ? node : NODE_NO_BARN;
	s->slot = cpu;
	queued = plat_fetch_add(&c->rcu_queued, s->fill) + s->fill;
	if (plat_rcu_call(d->flavor, sheaf_callback, s))
		return queued;
	note_time(d);
	s->next = plat_load(&d->queue[node].sheaves);
	while (!plat_cas(&d->queue[node].sheaves, &s->next, s))
		;
	wake_reclaimer(d, queued * c->class.size > c->rcu_limit / HASTE_PART);
	return queued;
}

void rcu_queue_slab(struct rcu_domain *d, struct slab *slab)
{
	note_time(d);
	slab->next = plat_load(&d->slabs);
	while (!plat_cas(&d->slabs, &slab->next, slab))
		;
	wake_reclaimer(d, false);
}

/* The batch path: one pointer into the current block. False: no memory at all. */
static bool queue_pointer(struct rcu_domain *d, void *object)
{
	struct block *b, *spare = NULL;
	bool ok;

	plat_lock(&d->reserve_lock);
	b = d->current;
	if (!b || b->used == block_room()) {
		plat_unlock(&d->reserve_lock);
		spare = block_new(SUPPLY_NOWAIT);
		plat_lock(&d->reserve_lock);
		b = d->current; /* another thread may have been here */
	}
	if (!b || b->used == block_room()) {
		if (b) {
			b->next = d->full;
			plat_store(&d->full, b);
		}
		b = spare ? spare : reserve_take(d);
		spare = NULL;
		plat_store(&d->current, b);
	}
	ok = b;
	if (ok)
		b->objects[b->used++] = object;
	plat_unlock(&d->reserve_lock);
	if (spare)
		block_free(d, spare);
	return ok;
}

/* Nothing at all can be remembered; d's callers may be readers. */
static void coldpath defer_without_memory(struct rcu_domain *d, struct uslub_cache *c, void *p)
{
	const char *name = c ? c->name : "(none)";

	if (plat_rcu_reader(d->flavor)) {
		if (c)
			plat_fetch_sub(&c->rcu_queued, 1);
		plat_warn("cache %s: no memory to defer the free of %p in a reader; it is leaked",
			  name, p);
		return;
	}
	grace_period(d);
	dispose_pointer(p);
}

/* c is NULL for what is no object. */
static void batch_pointer(struct rcu_domain *d, struct uslub_cache *c, void *p)
{
	bool haste = false;

	if (c) {
		slab_of(&c->class, p);
		haste = (plat_fetch_add(&c->rcu_queued, 1) + 1) * c->class.size >
			c->rcu_limit / HASTE_PART;
	}
	note_time(d);
	if (likely(queue_pointer(d, p)))
		wake_reclaimer(d, haste);
	else
		defer_without_memory(d, c, p);
}

/* ---- free_rcu ------------------------------------------------------------------------------------- */

/* An empty sheaf: the CPU's spare if that is empty, the barn's, or a new one. */
static struct uslub_sheaf *obtain_empty(struct uslub_cache *c, unsigned cpu)
{
	struct uslub_sheaf *spare;

	if (seq_take_other(cpu, main_slot(c, cpu), &spare) == SEQ_DONE) {
		if (!spare->fill)
			return spare;
		if (slot_give(c, cpu, main_slot(c, cpu), spare) != SEQ_DONE)
			sheaf_put_any(c, spare);
	}
	return sheaf_get_empty(c, USLUB_NOWAIT);
}

/* Does another one lie there already? An empty one most likely; the flip tells. */
static bool other_there(struct percpu_slot *slot)
{
	return plat_load(&slot->sheaf[!word_which(plat_load(&slot->word))]);
}

/*
 * The CPU's RCU sheaf is full, or there is none: install *hand, if there is one, push into the one that
 * lies there, queue what was there. All between the raise and the lowering of rcu_inflight, see section 4.
 */
static enum seq_result replace_rcu(struct uslub_cache *c, unsigned cpu, struct uslub_sheaf **hand,
				   void *object)
{
	struct percpu_slot *slot = rcu_slot(c, cpu);
	uint32_t *inflight = &pcs_of(&c->slots, cpu)->rcu_inflight;
	enum seq_result result;
	struct uslub_sheaf *old;
	uint32_t generation;
	uint64_t queued = 0;
	int jump;

	generation = plat_raise(inflight);
	result = *hand ? slot_give(c, cpu, slot, *hand) : SEQ_EMPTY;
	if (result == SEQ_DONE)
		*hand = NULL;
	/* EMPTY: one lies there already, empty or full. The flip tells. */
	if (result != SEQ_AGAIN) {
		result = seq_flip_push(cpu, slot, object, &jump);
		if (result == SEQ_DONE)
			counters_add(counters(c), CTR_rcu_jump, (uint64_t)(int64_t)jump);
		else if (unlikely(result == SEQ_TWICE))
			slab_freed_twice(&c->class, object);
		if (seq_take_other(cpu, slot, &old) == SEQ_DONE) {
			plat_point(POINT_RCU_DETACHED);
			if (old->fill)
				queued = rcu_queue_sheaf(c, cpu, old, true);
			else
				sheaf_put_empty(c, local_barn(c), old, 0);
		}
	}
	plat_lower(inflight, generation);
	assist(c, queued);
	return result;
}

static noinline void free_rcu_slow(struct uslub_cache *c, void *object)
{
	struct uslub_sheaf *hand = NULL;
	enum seq_result result = SEQ_EMPTY;
	bool remote = false;
	unsigned cpu, put;

	if (unlikely(!cache_domain(c)))
		plat_fatal("cache %s: uslub_cache_free_rcu() of %p, but the cache was created "
			   "without an RCU flavor (uslub_cache_args.rcu)",
			   c->name, object);
	for (unsigned round = 0; round < 2 * SEQ_TRIES && c->capacity; round++) {
		remote = object_remote(c, object);
		if (remote)
			break;
		cpu = plat_slot();
		result = seq_push_n(cpu, rcu_slot(c, cpu), 1, &object, &put);
		if (result == SEQ_DONE)
			break;
		if (unlikely(result == SEQ_TWICE))
			slab_freed_twice(&c->class, object);
		if (result == SEQ_AGAIN || slot_closed(rcu_slot(c, cpu)))
			continue;
		if (!hand && !other_there(rcu_slot(c, cpu))) {
			hand = obtain_empty(c, cpu);
			if (!hand)
				break;
		}
		result = replace_rcu(c, cpu, &hand, object);
		if (result == SEQ_DONE)
			break;
	}
	if (hand)
		sheaf_put_empty(c, local_barn(c), hand, 0);
	if (result == SEQ_DONE)
		return;
	if (!remote && c->capacity)
		count(counters(c), CTR_free_rcu_sheaf_fail);
	batch_pointer(c->domain, c, object);
}

void uslub_cache_free_rcu(struct uslub_cache *c, void *object)
{
	if (unlikely(!object))
		return;
	if (likely(seq_push(&c->rcu_slots, &c->rcu_cpus, object) == SEQ_DONE))
		return;
	free_rcu_slow(c, object);
}

/* The domain of a flavor, made if need be; NULL: no memory, or too many flavors. */
static struct rcu_domain *domain_of(const struct rcu_flavor_struct *flavor)
{
	struct rcu_domain *d;

	for (unsigned i = 0; i < rcu_domains(); i++)
		if (domains[i].flavor == flavor)
			return &domains[i];
	plat_lock(&registry_lock);
	d = rcu_domain_get(flavor);
	plat_unlock(&registry_lock);
	return d;
}

/* Caches with a tag are made before anybody knows of a flavor. */
static void adopt(struct uslub_cache *c, struct rcu_domain *d)
{
	plat_lock(&registry_lock);
	if (!c->domain)
		cache_adopt(c, d);
	plat_unlock(&registry_lock);
}

void rcu_free_any(const struct rcu_flavor_struct *flavor, struct uslub_cache *c, void *p)
{
	struct rcu_domain *d = c ? cache_domain(c) : NULL;

	if (!d || d->flavor != flavor) {
		d = domain_of(flavor);
		if (!d)
			plat_fatal("uslub_free_rcu_any() of %p: no memory for another flavor of "
				   "RCU, or %u are in use",
				   p, DOMAINS);
		if (c && c->class.tag && !cache_domain(c))
			adopt(c, d);
	}
	if (c && cache_domain(c) == d)
		uslub_cache_free_rcu(c, p);
	else
		batch_pointer(d, c, p);
}

/* ---- barrier -------------------------------------------------------------------------------------- */

/* What a drain found in a CPU's rcu slot: part-full sheaves, which the barn shall not have. */
void rcu_taken(void *arg, unsigned cpu, const struct pcs_contents *contents)
{
	struct uslub_cache *c = arg;

	counters_add(counters(c), CTR_rcu_jump, -(uint64_t)contents->avail);
	for (unsigned i = 0; i < 2; i++)
		if (contents->sheaf[i])
			rcu_queue_sheaf(c, cpu, contents->sheaf[i], false);
}

static void wait_inflight(struct uslub_cache *c)
{
	for (unsigned cpu = 0; cpu < c->nslots; cpu++)
		while (plat_raised(&pcs_of(&c->slots, cpu)->rcu_inflight))
			plat_yield();
}

/* Once per cache: a program in a sandbox may wait often. */
static void warn_of_membarrier(struct uslub_cache *c)
{
	if (!plat_exchange(&c->barrier_warned, true))
		plat_warn(
			"cache %s: membarrier(2) was forbidden since start; a barrier cannot wait "
			"for deferred frees that CPUs have not queued yet",
			c->name);
}

void uslub_cache_barrier_rcu(struct uslub_cache *c)
{
	bool online;

	if (!cache_domain(c))
		return;
	online = plat_rcu_wait_begin(c->domain->flavor);
	plat_lock(&c->close_lock);
	if (pcs_drain(&c->slots, PCS_RCU, 0, c->nslots, rcu_taken, c))
		warn_of_membarrier(c);
	plat_unlock(&c->close_lock);
	wait_inflight(c);
	rcu_wait(c->domain);
	plat_rcu_wait_end(c->domain->flavor, online);
}

/* The same for destroy: nobody uses the cache any more. The lock is for a fork. */
void rcu_barrier_dead(struct uslub_cache *c)
{
	if (!c->domain)
		return;
	plat_lock(&c->close_lock);
	pcs_drain_dead(&c->slots, PCS_RCU, 0, c->nslots, rcu_taken, c);
	plat_unlock(&c->close_lock);
	rcu_wait(c->domain);
}
