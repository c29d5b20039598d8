/* SPDX-License-Identifier: MIT */
/*
 * USLUB_POLICY holds nonsense: each piece is named once, the rest is obeyed, the program works.
 *
 * Expect: exit 0
 * Expect: stderr ^uslub: USLUB_POLICY: unknown policy "no-such=1" ignored; see uslub\(7\)$
 * Expect: stderr ^uslub: USLUB_POLICY: bad value "barn-full=0" ignored; see uslub\(7\)$
 * Expect: stderr ^uslub: USLUB_POLICY: policy without a value "barn-empty" ignored; see uslub\(7\)$
 * Expect: stderr ^uslub: USLUB_POLICY: unknown policy "=3" ignored; see uslub\(7\)$
 * Expect: stderr ^uslub: USLUB_POLICY: bad value "rcu-limit=12Q" ignored; see uslub\(7\)$
 */
#include "misuse.h"

#define LINES 5

static void use(const char *name)
{
	struct uslub_cache *c = uslub_cache_create(name, 64, NULL);
	struct uslub_policy p;

	need(c);
	uslub_cache_policy(c, &p);
	need(p.sheaf_capacity == 5);
	need(p.barn_full == 10 && p.barn_empty == 10 && p.rcu_limit == 64 << 20);
	uslub_cache_free(c, object(c));
	destroy(c);
}

int main(void)
{
	char text[4096];
	unsigned lines = 0;

	need(!setenv("USLUB_POLICY",
		     "no-such=1,barn-full=0;barn-empty;sheaf-capacity=5,=3;victim:rcu-limit=12Q",
		     1));
	hold_stderr();
	use("victim");
	use("victim");
	use("another");
	release_stderr(text, sizeof(text));
	for (char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	need(lines == LINES);

	/* the control: what is right is not spoken of */
	need(!setenv("USLUB_POLICY", "sheaf-capacity=5;v*:barn-full=10", 1));
	hold_stderr();
	use("victim");
	release_stderr(text, sizeof(text));
	need(!*text);
	return 0;
}
