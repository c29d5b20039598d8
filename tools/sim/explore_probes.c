/* SPDX-License-Identifier: MIT */
/*
 * Probes: what is rare and must have been reached. They watch the core from outside: by its statistics, by what
 * the simulated machine tells, by functions that were entered, and by exchanges on slabs' state words.
 *
 * A row is a probe; `where` says how it is known that a schedule came there:
 *   STAT      the statistic is not 0 at the end
 *   EVENT     the machine told of it
 *   ENTERED   the function was called, perhaps within another
 *   otherwise probe_hit() is called with it, from below
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cache/internal.h"
#include "explore.h"

/* Those which a function of this file finds out about. */
#define FOUND(PROBE)                                                                               \
	PROBE(partial_to_partial, "free: partial to partial")                                      \
	PROBE(full_to_listed, "free: full to partial, put on the list")                            \
	PROBE(full_to_parked, "free: full to partial, parked")                                     \
	PROBE(listed_empty_kept, "free: a listed slab became empty and stays")                     \
	PROBE(listed_empty_gone, "free: a listed slab became empty and is given up")               \
	PROBE(parked_empty, "free: a parked slab became empty")                                    \
	PROBE(full_empty_kept, "free: full to empty, put on the list")                             \
	PROBE(full_empty_gone, "free: full to empty, given up")                                    \
	PROBE(taken_whole, "refill: the whole chain of a listed slab")                             \
	PROBE(surplus_tail, "surplus: onto a slab that is full, which is listed")                  \
	PROBE(surplus_listed, "surplus: somebody had listed the slab meanwhile")                   \
	PROBE(surplus_parked, "surplus: somebody had parked the slab meanwhile")                   \
	PROBE(parked_rest, "refill: a parked slab has more than is wanted")                        \
	PROBE(parked_all, "refill: all of a parked slab")                                          \
	PROBE(parked_all_empty, "refill: all of one that was empty")                               \
	PROBE(one_last, "single: the last object of a listed slab")                                \
	PROBE(unpark_listed, "a parked slab to the list")                                          \
	PROBE(unpark_discarded, "a parked slab is empty and given up when listed")                 \
	PROBE(held_discarded, "a parked slab is empty and one too many")                           \
	PROBE(freed_while_held, "a free into a parked slab that somebody has in hand")             \
	PROBE(shard_turned_over, "a rest is put back where there is another")                      \
	PROBE(exact_fit, "barn: two part-full sheaves make one full")                              \
	PROBE(merge_overflow, "barn: a merge leaves a part-full sheaf")                            \
	PROBE(merge_into, "barn: a merge fits and is not full")                                    \
	PROBE(inflight_seen, "barrier: an RCU sheaf was detached and not queued")                  \
	PROBE(straggler_found, "close: a straggler was found and its slot closed again")           \
	PROBE(assisted_late, "reclaimer: waits for who still disposes of a sheaf")

enum found {
#define PROBE(name, help) FOUND_##name,
	FOUND(PROBE)
#undef PROBE
		FOUND_COUNT
};

enum where { HERE, STAT, EVENT, ENTERED };

struct probe {
	const char *name;
	const char *help;
	enum where where;
	unsigned number; /* statistic or event */
	const char *function, *within;
};

static const struct probe probes[] = {
#define PROBE(name, help) { #name, help, HERE, FOUND_##name, NULL, NULL },
	FOUND(PROBE)
#undef PROBE
#define S(name, help)                                                                              \
	{                                                                                          \
#name, help, STAT, USLUB_STAT_##name, NULL, NULL                                   \
	}
#define E(name, number, help)                                                                      \
	{                                                                                          \
		name, help, EVENT, number, NULL, NULL                                              \
	}
#define F(name, function, within, help)                                                            \
	{                                                                                          \
		name, help, ENTERED, 0, function, within                                           \
	}
		S(alloc_node_mismatch, "an object of another node was asked for"),
	S(barn_get, "a full sheaf from the barn"),
	S(barn_get_fail, "none was there"),
	S(barn_merge, "a merge made a full sheaf"),
	S(barn_prefill_miss, "a short prefill found no full sheaf in the barn"),
	S(barn_put_fail, "the barn refused a full sheaf"),
	S(cmpxchg_double_fail, "an exchange on a slab's state failed"),
	S(cpu_drain, "a CPU was drained"),
	S(deferred_free, "an any-context free was left to others"),
	S(free_rcu_sheaf_fail, "a deferred free found no sheaf"),
	S(list_lock_contended, "list_lock was waited for"),
	S(barn_lock_contended, "the barn's lock was waited for"),
	S(order_fallback, "a slab of the smallest order"),
	S(park_fail, "a shard was full"),
	S(rcu_hurried, "more than rcu-limit was waiting"),
	S(sheaf_prefill_oversize, "a prefill beyond the capacity"),
	S(sheaf_return_slow, "a returned sheaf found no place"),
	S(stash_get, "a CPU took a sheaf that was kept for it"),
	S(stash_put, "a matured sheaf was kept for its CPU"),
	S(unpark_discard, "a parked slab was given up"),
	S(unpark_list, "a parked slab was listed"),
	S(unpark_refill, "a parked slab was used up"),
	E("seq_aborted", SIM_ABORTED, "a sequence was aborted"),
	E("seq_migrated", SIM_MIGRATED, "a thread had left its CPU when its sequence began"),
	E("straggler", SIM_STRAGGLED, "a sequence committed to a closed slot"),
	E("expired", SIM_EXPIRED, "a wait ended by its timeout"),
	E("refused", SIM_REFUSED, "a request for memory failed"),
	F("seq_gave_up", "counters_add_slow", NULL, "a counter's sequence did not commit"),
	F("count_foreign", "shared_add", NULL, "a count on a foreign slot"),
	F("no_empty", "barn_put_full", "replace_full",
	  "the barn had no empty sheaf for a full one"),
	F("lost_race", "sheaf_put_any", "free_below", "a free had a sheaf left in its hand"),
	F("lost_race_alloc", "sheaf_put_any", "alloc_below", "an allocation had one left"),
	F("part_full_lost", "barn_put_partial", NULL, "a part-full sheaf had no place"),
	F("matured_fed", "dispose_one_sheaf", "rcu_feed_barn",
	  "an allocation took a matured sheaf"),
	F("matured_assist", "dispose_sheaf", "assist", "a deferred free disposed of one"),
	F("rcu_batched", "queue_pointer", NULL, "a deferred free went into a block"),
	F("rcu_helped", "mature", "help", "a waiter was the reclaimer for a round"),
	F("slab_deferred", "rcu_queue_slab", NULL, "a slab waits for a grace period"),
	F("idle_drained", "drain_slots", "look_at_one", "an idle CPU was drained"),
	F("others_refill", "take_one", "refill_from_others", "a refill from another node's list"),
	F("other_shard", "refill_from_shard", "refill_from_other_shards",
	  "a refill from another CPU's shard"),
	F("some_parked", "list_shard", "list_some_parked", "a single allocation listed a shard"),
	F("reopen_oversize", "sheaf_free_left", "sheaf_new_oversize",
	  "an oversize sheaf after one was left"),
	F("merged", "arena_free", "unmerge", "a cache was destroyed by one of its names"),
	F("fork_child", "pcs_child", NULL, "a child of a fork went on"),
	F("fork_opened", "plat_raise_anew", "pcs_child", "a child found an RCU sheaf detached"),
	F("bulk_refused", "uslub_cache_free_bulk", "uslub_cache_alloc_bulk",
	  "a bulk allocation gave back what it had"),
	F("foreign_flip", "shared_flip_pop", NULL, "a foreign slot was turned"),
	F("purged", "purge_one", NULL, "memory was given back to the system"),
#undef S
#undef E
#undef F
};

#define NPROBES array_size(probes)
_Static_assert(NPROBES <= EX_PROBES_MAX, "as many as the shared memory has room for");

/* Functions that are probes, by address. */
#define BUCKETS 1024u

static struct {
	const void *function;
	const void *within;
	unsigned probe;
} entered[BUCKETS];

static struct {
	const void *free_chain, *take_chain, *put_surplus, *take_some, *list_held;
	const void *discard_held, *wait_inflight, *dispose_batch, *park_put_back, *close_slot;
} in;

static unsigned bucket(const void *function)
{
	return (unsigned)((uintptr_t)function * 0x9e3779b97f4a7c15u >> 40) % BUCKETS;
}

/* A function of a header is there once for each file that uses it. */
static void note_entries(unsigned probe)
{
	const void *function;
	size_t at = 0;
	unsigned b;

	while ((function = ex_function(probes[probe].function, &at))) {
		for (b = bucket(function); entered[b].function; b = (b + 1) % BUCKETS)
			;
		entered[b].function = function;
		entered[b].within = probes[probe].within ? ex_function(probes[probe].within, NULL)
							 : NULL;
		entered[b].probe = probe;
	}
}

void ex_probes_start(void)
{
	for (unsigned i = 0; i < NPROBES; i++)
		if (probes[i].where == ENTERED)
			note_entries(i);
#define FIND(name) in.name = ex_function(#name, NULL)
	FIND(free_chain);
	FIND(take_chain);
	FIND(put_surplus);
	FIND(take_some);
	FIND(list_held);
	FIND(discard_held);
	FIND(wait_inflight);
	FIND(dispose_batch);
	FIND(park_put_back);
	FIND(close_slot);
#undef FIND
}

static void hit(enum found which)
{
	ex_shared->reached[which] = true;
}

void ex_probe_entered(const void *function)
{
	for (unsigned b = bucket(function); entered[b].function; b = (b + 1) % BUCKETS)
		if (entered[b].function == function && !ex_shared->reached[entered[b].probe] &&
		    (!entered[b].within || ex_under(entered[b].within)))
			ex_shared->reached[entered[b].probe] = true;
}

/* ---- exchanges on slabs' state words -------------------------------------------------------------- */

static void freed(uint64_t before, uint64_t after)
{
	enum slab_where to = state_where(after);
	bool empties = !state_inuse(after);

	if (!state_head(before)) {
		if (to == SLAB_PARKED)
			hit(FOUND_full_to_parked);
		else if (to == SLAB_UNLISTED)
			hit(FOUND_full_empty_gone);
		else
			hit(empties ? FOUND_full_empty_kept : FOUND_full_to_listed);
	} else if (!empties) {
		hit(FOUND_partial_to_partial);
	} else if (state_where(before) == SLAB_PARKED) {
		hit(FOUND_parked_empty);
	} else {
		hit(to == SLAB_LISTED ? FOUND_listed_empty_kept : FOUND_listed_empty_gone);
	}
}

static void surplus(uint64_t before)
{
	if (!state_head(before))
		hit(FOUND_surplus_tail);
	else
		hit(state_where(before) == SLAB_LISTED ? FOUND_surplus_listed
						       : FOUND_surplus_parked);
}

static void took_some(uint64_t before, uint64_t after)
{
	if (state_where(before) != SLAB_PARKED) {
		if (!state_head(after))
			hit(FOUND_one_last);
		return;
	}
	hit(state_head(after) ? FOUND_parked_rest : FOUND_parked_all);
	if (!state_head(after) && !state_inuse(before))
		hit(FOUND_parked_all_empty);
}

/* Is the slab on no stack? Then somebody has it in hand. */
static bool in_hand(const volatile void *state)
{
	struct uslub_cache *caches[EX_CACHES_MAX];
	const struct slab *slab = container_of((const uint64_t *)(uintptr_t)state, struct slab,
					       state);
	unsigned n = ex_caches(caches);

	for (unsigned c = 0; c < n; c++)
		for (unsigned i = 0; caches[c]->shards && i < caches[c]->nshards * plat_nnodes();
		     i++) {
			for (struct slab *s = caches[c]->shards[i].young; s; s = s->next)
				if (s == slab)
					return false;
			for (struct slab *s = caches[c]->shards[i].old; s; s = s->next)
				if (s == slab)
					return false;
		}
	return true;
}

static const volatile void *straggled_on;

static void exchanged(const volatile void *what, uint64_t before, uint64_t after)
{
	const void *now = ex_now_in();

	if (!now)
		return;
	if (now == in.free_chain) {
		freed(before, after);
		if (state_head(before) && state_where(before) == SLAB_PARKED &&
		    !ex_shared->reached[FOUND_freed_while_held] && in_hand(what))
			hit(FOUND_freed_while_held);
	} else if (now == in.put_surplus) {
		surplus(before);
	} else if (now == in.take_chain) {
		hit(FOUND_taken_whole);
	} else if (now == in.take_some) {
		took_some(before, after);
	} else if (now == in.list_held) {
		hit(state_where(after) == SLAB_LISTED ? FOUND_unpark_listed
						      : FOUND_unpark_discarded);
	} else if (now == in.park_put_back && before) {
		hit(FOUND_shard_turned_over);
	} else if (now == in.close_slot && what == straggled_on) {
		hit(FOUND_straggler_found);
	}
}

/* ---- barns, as they are when their lock is taken and when it is given back ------------------------ */

static struct {
	const struct uslub_sheaf *partial;
	uint32_t full, empty, fill;
} barn_before[EX_CACHES_MAX][4];

static void barn_locked(const struct barn *b, unsigned cache, unsigned node, bool begins)
{
	const struct uslub_sheaf *p = b->partial;
	uint32_t made;

	if (begins) {
		barn_before[cache][node].partial = p;
		barn_before[cache][node].full = b->nr_full;
		barn_before[cache][node].empty = b->nr_empty;
		barn_before[cache][node].fill = p ? p->fill : 0;
		return;
	}
	if (!barn_before[cache][node].partial)
		return;
	made = b->nr_empty - barn_before[cache][node].empty;
	if (!p && made == 1)
		hit(FOUND_exact_fit);
	else if (p && p != barn_before[cache][node].partial)
		hit(FOUND_merge_overflow);
	else if (p && p->fill > barn_before[cache][node].fill)
		hit(FOUND_merge_into);
}

static void locked(const volatile void *lock, bool begins)
{
	struct uslub_cache *caches[EX_CACHES_MAX];
	unsigned n = ex_caches(caches);

	for (unsigned c = 0; c < n; c++)
		for (unsigned node = 0; node < plat_nnodes() && node < 4; node++)
			if (lock == &caches[c]->barns[node].lock.lock)
				barn_locked(&caches[c]->barns[node], c, node, begins);
}

/* ---- the machine's tidings ------------------------------------------------------------------------ */

void ex_probe_event(enum sim_event event, const volatile void *what, uint64_t before,
		    uint64_t after)
{
	if (event == SIM_EXCHANGED)
		exchanged(what, before, after);
	else if (event == SIM_LOCKED || event == SIM_UNLOCKING)
		locked(what, event == SIM_LOCKED);
	else {
		if (event == SIM_STRAGGLED)
			straggled_on = what;
		for (unsigned i = FOUND_COUNT; i < NPROBES; i++)
			if (probes[i].where == EVENT && probes[i].number == event)
				ex_shared->reached[i] = true;
	}
}

void ex_probe_point(enum sim_point point, const volatile void *what)
{
	(void)what;
	if (point == SIM_YIELD && in.wait_inflight && ex_under(in.wait_inflight))
		hit(FOUND_inflight_seen);
	else if (point == SIM_YIELD && in.dispose_batch && ex_under(in.dispose_batch))
		hit(FOUND_assisted_late);
	else if (point == SIM_STORE && ex_now_in() == in.discard_held)
		hit(FOUND_held_discarded);
}

void ex_probe_cache(struct uslub_cache *c)
{
	uint64_t value;

	for (unsigned i = 0; i < NPROBES; i++)
		if (probes[i].where == STAT &&
		    !uslub_cache_stat(c, (enum uslub_stat)probes[i].number, &value) && value)
			ex_shared->reached[i] = true;
}

void ex_probes_end(void)
{
	for (unsigned i = 0; i < NPROBES; i++) {
		ex_shared->probes[i] += ex_shared->reached[i];
		ex_shared->reached[i] = false;
	}
}

unsigned ex_probes_print(bool all)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < NPROBES; i++) {
		bool never = !ex_shared->probes[i];

		missing += never;
		if (all || never)
			printf("%-24s %10" PRIu64 "  %s\n", probes[i].name, ex_shared->probes[i],
			       probes[i].help);
	}
	printf("%u of %zu probes were reached\n", (unsigned)NPROBES - missing, NPROBES);
	return missing;
}
