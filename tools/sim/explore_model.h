/* SPDX-License-Identifier: MIT */
/* The model, for the scenarios. */
#ifndef TOOLS_SIM_EXPLORE_MODEL_H
#define TOOLS_SIM_EXPLORE_MODEL_H

#include "explore.h"

#define EX_KEPT_MAX    32u
#define EX_CONSTRUCTED 0xc0de5eedc0de5eedull

enum ex_state { EX_FREE, EX_OWNED, EX_DEFERRED };

struct ex_object {
	void *p;
	struct ex_cache *cache;
	enum ex_state state;
	int owner; /* thread */
	uint64_t stamp;
	uint64_t returned_at; /* its deferred free did; 0: not yet */
	bool found;
	uint64_t readers[EX_THREADS_MAX + 1]; /* sections when it was freed */
};

struct ex_cache {
	struct uslub_cache *c;
	char name[32];
	size_t size;
	bool constructed;
	bool exact;   /* every operation is counted in one way only */
	bool refused; /* a request for memory was refused: some counters cannot be foretold */
	bool rcu;
	uint64_t live, issued, from_sheaf, freed, deferred;
};

struct ex_thread {
	unsigned index;
	bool foreign, ended;
	uint64_t chance;
	uint64_t section; /* read-side; 0: none */
	const char *op;
	uint32_t op_number;
	struct ex_object *kept[EX_KEPT_MAX];
	unsigned nkept;
	struct uslub_sheaf *sheaf; /* prefilled */
	struct ex_cache *sheaf_of;
};

/* The last one is the checker's. */
extern struct ex_thread ex_threads[EX_THREADS_MAX + 1];
extern unsigned ex_nthreads;
extern struct ex_cache ex_cache[EX_CACHES_MAX];
extern unsigned ex_ncaches;

struct ex_thread *ex_self(void);

struct ex_object *ex_issue(struct ex_thread *t, struct ex_cache *cache, void *p, bool zeroed);
void ex_unissue(struct ex_object *o, bool deferred); /* before it is freed */
void ex_check_object(const struct ex_object *o, uint64_t stamp);
void ex_enter_section(struct ex_thread *t);
void ex_leave_section(struct ex_thread *t);
void ex_forget_sections(void);
void ex_for_each_owned(struct ex_cache *cache, void (*fn)(struct ex_object *o));

/* While nobody is at work. */
void ex_check_cache(struct ex_cache *e);
void ex_check_internal(void);
uint64_t ex_count_lost(const struct ex_cache *e);

/* After a barrier, while nobody has free objects in hand: what was deferred by then must be free. */
void ex_check_barrier(struct ex_cache *e, uint64_t returned_by);

#endif /* TOOLS_SIM_EXPLORE_MODEL_H */
