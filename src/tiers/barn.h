/* SPDX-License-Identifier: MIT */
/* The barn: full and empty sheaves of a node. The theory of operation opens barn.c. */
#ifndef USLUB_TIERS_BARN_H
#define USLUB_TIERS_BARN_H

#include "base/base.h"
#include "base/sheaf.h"
#include "platform/platform.h"
#include "stats/counted_lock.h"

struct barn {
	struct counted_lock lock;
	uint32_t max_full;
	uint32_t max_empty;
	/* Under the lock; the numbers are read without it as hints. */
	uint32_t nr_full;
	uint32_t nr_empty;
	struct uslub_sheaf *full;
	struct uslub_sheaf *empty;
	struct uslub_sheaf *partial; /* 0 < fill < capacity; NULL or one; read without, too */
} cacheline;

hidden void barn_init(struct barn *b, unsigned max_full, unsigned max_empty);

/* try: do not wait for the lock; the answer is then as if the barn had nothing and were full. */

/* A full sheaf for an empty one (or for NULL); NULL: none, and `empty` stays the caller's. */
hidden struct uslub_sheaf *barn_replace_empty(struct barn *b, struct uslub_sheaf *empty, bool try);

/* An empty sheaf for a full one. NULL: refused, and why. */
enum barn_refusal { BARN_FULL, BARN_NO_EMPTY, BARN_BUSY };
hidden struct uslub_sheaf *barn_replace_full(struct barn *b, struct uslub_sheaf *full, bool try,
					     enum barn_refusal *why);

/* A full sheaf, else an empty one, else NULL. */
hidden struct uslub_sheaf *barn_get_any(struct barn *b, bool try);
hidden struct uslub_sheaf *barn_get_empty(struct barn *b, bool try);

/* Put one away. With `force` the limit is ignored. False: not taken. */
hidden bool barn_put_full(struct barn *b, struct uslub_sheaf *s, bool force, bool try);
hidden bool barn_put_empty(struct barn *b, struct uslub_sheaf *s, bool try);

/*
 * A full sheaf for a part-full or empty one, which is merged with the barn's part-full sheaf. NULL: no
 * full sheaf, and `s` stays the caller's. *merged: a merge made a full sheaf.
 */
hidden struct uslub_sheaf *barn_replace_partial(struct barn *b, struct uslub_sheaf *s, bool try,
						bool *merged);

/* Only the merge: for a part-full sheaf that has no other place. True: it made a full sheaf. */
hidden bool barn_put_partial(struct barn *b, struct uslub_sheaf *s);

/* Takes all sheaves out, linked; part-full ones among them. */
hidden struct uslub_sheaf *barn_drain(struct barn *b);

#endif /* USLUB_TIERS_BARN_H */
