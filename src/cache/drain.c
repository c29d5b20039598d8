/* SPDX-License-Identifier: MIT */
/*
 * Taking memory back: from CPUs, barns and lists.
 *
 * Shrink does it to everybody at once. The idle look does it to one CPU at a time without being asked:
 * every 64th slow step looks at one other CPU, and one whose words have not changed for a second is
 * drained. What a drain finds is flushed only after all slots are open again. Of a CPU that is not idle, the
 * look trims what is stashed for it (stash.c), in case that it only frees. As long as anything is stashed
 * the reclaimer looks at all such CPUs twice a second, so that it gets old where nobody takes slow steps.
 *
 * A drain also folds the popped counts out of the words, so that 45 bits last for ever: a slot whose top
 * bit shows is drained however busy it is.
 */
#include "cache/internal.h"

#define IDLE_STEPS 64
#define IDLE_NS	   1000000000ull

static unsigned fill_of(const struct uslub_sheaf *s)
{
	return s ? s->fill : 0;
}

static void main_taken(void *arg, unsigned cpu, const struct pcs_contents *contents)
{
	struct uslub_cache *c = arg;

	count(counters(c), CTR_cpu_drain);
	probe(drain, c->name, cpu, fill_of(contents->sheaf[0]) + fill_of(contents->sheaf[1]));
	counters_add(counters(c), CTR_allocs_folded, contents->allocs);
	counters_add(counters(c), CTR_jump, -(uint64_t)contents->avail);
	for (unsigned i = 0; i < 2; i++)
		if (contents->sheaf[i]) {
			sheaf_flush(c, contents->sheaf[i], 0);
			sheaf_free(c, contents->sheaf[i], 0);
		}
}

static void drain_stashes(struct uslub_cache *c, unsigned first, unsigned last)
{
	for (; first < last; first++)
		stash_drain(c, first);
}

/* Under close_lock. */
static int drain_slots(struct uslub_cache *c, unsigned first, unsigned last)
{
	int error = pcs_drain(&c->slots, PCS_MAIN, first, last, main_taken, c);

	if (!error && cache_domain(c))
		error = pcs_drain(&c->slots, PCS_RCU, first, last, rcu_taken, c);
	drain_stashes(c, first, last);
	return error;
}

/* All CPUs; dead: nobody uses the cache any more. */
int cache_drain(struct uslub_cache *c, bool dead)
{
	int error = 0;

	plat_lock(&c->close_lock);
	if (dead) {
		pcs_drain_dead(&c->slots, PCS_MAIN, 0, c->nslots, main_taken, c);
		drain_stashes(c, 0, c->nslots);
	} else {
		error = drain_slots(c, 0, c->nslots);
	}
	plat_unlock(&c->close_lock);
	return error;
}

/* Barns and empty slabs. Returns how many slabs remain. */
uint64_t cache_release_slabs(struct uslub_cache *c)
{
	struct uslub_sheaf *s, *next;
	uint64_t remain = 0;

	nodes_deferred(c->nodes);
	sheaf_free_left(c);
	for (unsigned n = 0; n < plat_nnodes(); n++)
		for (s = barn_drain(&c->barns[n]); s; s = next) {
			next = s->next;
			sheaf_flush(c, s, 0);
			sheaf_free(c, s, 0);
		}
	for (unsigned n = 0; n < plat_nnodes(); n++)
		remain += node_shrink(&c->nodes[n]);
	return remain;
}

int uslub_cache_shrink(struct uslub_cache *c)
{
	int error = cache_drain(c, false);

	cache_release_slabs(c);
	/* Free sheaves lie scattered, one to a page; the cache they come from is not the user's to shrink. */
	if (c->sheaves) {
		cache_drain(c->sheaves, false);
		cache_release_slabs(c->sheaves);
	}
	supply_trim();
	return error;
}

/* ---- the idle look -------------------------------------------------------------------------------- */

static bool slot_idle(struct idle_seen *seen, const struct pcs *pcs, uint64_t now)
{
	uint64_t main = plat_load(&pcs->main.word), rcu = plat_load(&pcs->rcu.word);

	if (main & WORD_ALLOC_TOP)
		return true;
	if (main == seen->main && rcu == seen->rcu)
		return now - seen->since > IDLE_NS;
	*seen = (struct idle_seen){ .main = main, .rcu = rcu, .since = now };
	return false;
}

/* Two looks an idle time apart take all of a CPU that did nothing in between. Under close_lock. */
static void look_at(struct uslub_cache *c, unsigned cpu)
{
	if (slot_idle(&c->idle[cpu], pcs_of(&c->slots, cpu), plat_now()))
		drain_slots(c, cpu, cpu + 1);
	else if (c->stashes)
		stash_trim(c, cpu);
}

static noinline void look_at_one(struct uslub_cache *c)
{
	unsigned cpu;

	if (!plat_trylock(&c->close_lock))
		return;
	cpu = c->idle_cursor++ % c->nslots;
	look_at(c, cpu);
	plat_unlock(&c->close_lock);
}

bool cache_age(struct uslub_cache *c)
{
	bool more = false;

	if (!c->stashes)
		return false;
	if (!plat_trylock(&c->close_lock))
		return true;
	for (unsigned cpu = 0; cpu < c->nslots; cpu++) {
		if (!stash_count(&c->stashes[cpu]))
			continue;
		look_at(c, cpu);
		more |= stash_count(&c->stashes[cpu]) > 0;
	}
	plat_unlock(&c->close_lock);
	return more;
}

/* A refill or a flush has been done, where waiting is allowed. */
void cache_slow_step(struct uslub_cache *c)
{
	uint32_t step = plat_load(&c->slow_steps) + 1;

	plat_store(&c->slow_steps, step);
	if (unlikely(step % IDLE_STEPS == 0))
		look_at_one(c);
	cache_tell(stepped, c);
}
