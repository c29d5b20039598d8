/* SPDX-License-Identifier: MIT */
/*
 * Policies: the syntax of USLUB_POLICY, what it applies to, what is said about nonsense, and who wins.
 * Each environment is tried in a child, which prints what the caches got.
 */
#include <unistd.h>
#include <uslub/uslub.h>

#include "unit.h"
#include "cache/internal.h"

struct trial {
	const char *env;   /* NULL: unset */
	const char *names; /* of caches, with a blank between */
	struct uslub_cache_args args;
};

static void print_policy(const struct uslub_cache *c)
{
	struct uslub_policy p;

	memset(&p, 0xa5, sizeof(p));
	uslub_cache_policy(c, &p);
	fprintf(stderr, "%s: %s full %jd empty %jd capacity %jd objects %jd limit %jd\n",
		uslub_cache_name(c),
		p.prefill_barn == USLUB_POLICY_ON    ? "on"
		: p.prefill_barn == USLUB_POLICY_OFF ? "off"
						     : "?",
		(intmax_t)p.barn_full, (intmax_t)p.barn_empty, (intmax_t)p.sheaf_capacity,
		(intmax_t)p.slab_min_objects, (intmax_t)p.rcu_limit);
	/* and it is in force */
	if (c->barns[0].max_full != p.barn_full || c->barns[0].max_empty != p.barn_empty ||
	    c->prefill_barn != (p.prefill_barn == USLUB_POLICY_ON) || c->rcu_limit != p.rcu_limit ||
	    c->capacity != (p.sheaf_capacity == USLUB_POLICY_NONE ? 0 : p.sheaf_capacity))
		fprintf(stderr, "not in force\n");
}

static void child(void *arg)
{
	struct trial *t = arg;
	char names[200], *name;
	struct uslub_cache *c;

	unsetenv("USLUB_POLICY");
	if (t->env)
		setenv("USLUB_POLICY", t->env, 1);
	t->args.args_size = sizeof(t->args);
	snprintf(names, sizeof(names), "%s", t->names);
	for (name = strtok(names, " "); name; name = strtok(NULL, " ")) {
		errno = 0;
		c = uslub_cache_create(name, 64, &t->args);
		if (c)
			print_policy(c);
		else
			fprintf(stderr, "%s: %s\n", name, errno == EINVAL ? "EINVAL" : "failed");
	}
}

static void try_args(const char *env, const char *names, const struct uslub_cache_args *args,
		     const char *wanted)
{
	struct trial t = { .env = env, .names = names };
	char text[8000];

	if (args)
		t.args = *args;
	unit_equal(unit_child(child, &t, text, sizeof(text), unit_scaled(200)), 0);
	if (strcmp(text, wanted)) {
		print_error("USLUB_POLICY=\"%s\"\n", env);
		assert_string_equal(text, wanted);
	}
}

static void try(const char *env, const char *names, const char *wanted)
{
	try_args(env, names, NULL, wanted);
}

#define DEFAULT " on full 10 empty 10 capacity 60 objects -1 limit 67108864\n"

static void test_defaults(void **state)
{
	(void)state;
	try(NULL, "a b", "a:" DEFAULT "b:" DEFAULT);
	try("", "a", "a:" DEFAULT);
	try(";", "a", "a:" DEFAULT);
	try(";;;", "a", "a:" DEFAULT);
	try("b:;c:", "a", "a:" DEFAULT);
}

static void test_each_policy(void **state)
{
	(void)state;
	try("prefill-barn=off", "a",
	    "a: off full 10 empty 10 capacity 60 objects -1 limit 67108864\n");
	try("prefill-barn=on", "a", "a:" DEFAULT);
	try("barn-full=1", "a", "a: on full 1 empty 10 capacity 60 objects -1 limit 67108864\n");
	try("barn-full=1024", "a",
	    "a: on full 1024 empty 10 capacity 60 objects -1 limit 67108864\n");
	try("barn-empty=7", "a", "a: on full 10 empty 7 capacity 60 objects -1 limit 67108864\n");
	try("sheaf-capacity=1", "a",
	    "a: on full 10 empty 10 capacity 1 objects -1 limit 67108864\n");
	try("sheaf-capacity=255", "a",
	    "a: on full 10 empty 10 capacity 255 objects -1 limit 67108864\n");
	try("sheaf-capacity=none", "a",
	    "a: on full 10 empty 10 capacity -1 objects -1 limit 67108864\n");
	try("slab-min-objects=64", "a",
	    "a: on full 10 empty 10 capacity 60 objects 64 limit 67108864\n");
	try("slab-min-objects=auto", "a", "a:" DEFAULT);
	try("rcu-limit=4096", "a", "a: on full 10 empty 10 capacity 60 objects -1 limit 4096\n");
}

static void test_suffixes(void **state)
{
	(void)state;
	try("rcu-limit=64k", "a", "a: on full 10 empty 10 capacity 60 objects -1 limit 65536\n");
	try("rcu-limit=64K", "a", "a: on full 10 empty 10 capacity 60 objects -1 limit 65536\n");
	try("rcu-limit=3M", "a", "a: on full 10 empty 10 capacity 60 objects -1 limit 3145728\n");
	try("rcu-limit=2G", "a",
	    "a: on full 10 empty 10 capacity 60 objects -1 limit 2147483648\n");
	try("rcu-limit=1024G", "a",
	    "a: on full 10 empty 10 capacity 60 objects -1 limit 1099511627776\n");
	try("rcu-limit=1T", "a",
	    "a: on full 10 empty 10 capacity 60 objects -1 limit 1099511627776\n");
	try("barn-full=1k", "a",
	    "a: on full 1024 empty 10 capacity 60 objects -1 limit 67108864\n");
}

static void test_blocks(void **state)
{
	(void)state;
	try("barn-full=3,barn-empty=4,prefill-barn=off", "a b",
	    "a: off full 3 empty 4 capacity 60 objects -1 limit 67108864\n"
	    "b: off full 3 empty 4 capacity 60 objects -1 limit 67108864\n");
	/* only the named ones */
	try("maple_*:barn-full=20", "maple_node other maple",
	    "maple_node: on full 20 empty 10 capacity 60 objects -1 limit 67108864\n"
	    "other:" DEFAULT "maple:" DEFAULT);
	try("a?:barn-full=20,barn-empty=5", "a ab abc",
	    "a:" DEFAULT "ab: on full 20 empty 5 capacity 60 objects -1 limit 67108864\n"
	    "abc:" DEFAULT);
	try("*:barn-full=2", "a", "a: on full 2 empty 10 capacity 60 objects -1 limit 67108864\n");
	try(":barn-full=2", "a", "a:" DEFAULT);
	/* later ones win */
	try("barn-full=5;a*:barn-full=6;ab:barn-full=7", "a ab b",
	    "a: on full 6 empty 10 capacity 60 objects -1 limit 67108864\n"
	    "ab: on full 7 empty 10 capacity 60 objects -1 limit 67108864\n"
	    "b: on full 5 empty 10 capacity 60 objects -1 limit 67108864\n");
	try("ab:barn-full=7;a*:barn-full=6;barn-full=5", "ab",
	    "ab: on full 5 empty 10 capacity 60 objects -1 limit 67108864\n");
	try("barn-full=5,barn-full=6", "a",
	    "a: on full 6 empty 10 capacity 60 objects -1 limit 67108864\n");
	/* and what they do not name stays */
	try("prefill-barn=off,barn-full=20;a:prefill-barn=on", "a",
	    "a: on full 20 empty 10 capacity 60 objects -1 limit 67108864\n");
	/* the example of the manual */
	try("prefill-barn=off;maple_*:barn-full=20", "maple_node",
	    "maple_node: off full 20 empty 10 capacity 60 objects -1 limit 67108864\n");
}

#define BAD(item) "uslub: USLUB_POLICY: bad value \"" item "\" ignored; see uslub(7)\n"

static void test_bad_values(void **state)
{
	static const char *const bad[] = {
		"barn-full=0",
		"barn-full=1025",
		"barn-full=-1",
		"barn-full=+1",
		"barn-full= 5",
		"barn-full=5 ",
		"barn-full=5x",
		"barn-full=0x5",
		"barn-full=",
		"barn-full==5",
		"barn-full=none",
		"barn-full=k",
		"barn-full=2k",
		"barn-full=kk",
		"barn-full=99999999999999999999999",
		"barn-full=18446744073709551626",
		"barn-full=999999999999999G",
		"sheaf-capacity=0",
		"sheaf-capacity=256",
		"sheaf-capacity=auto",
		"sheaf-capacity=None",
		"slab-min-objects=0",
		"slab-min-objects=32768",
		"rcu-limit=4095",
		"rcu-limit=2T",
		"rcu-limit=17179869185G", /* 2^64 and 1G */
		"prefill-barn=yes",
		"prefill-barn=1",
		"prefill-barn=ON",
		"prefill-barn=",
	};
	char wanted[300];

	(void)state;
	for (unsigned i = 0; i < array_size(bad); i++) {
		snprintf(wanted, sizeof(wanted), BAD("%s") "a:" DEFAULT, bad[i]);
		try(bad[i], "a", wanted);
	}
}

static void test_unknown(void **state)
{
	(void)state;
	try("nonsense=1", "a",
	    "uslub: USLUB_POLICY: unknown policy \"nonsense=1\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
	try("nonsense", "a",
	    "uslub: USLUB_POLICY: unknown policy \"nonsense\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
	try("Barn-full=5", "a",
	    "uslub: USLUB_POLICY: unknown policy \"Barn-full=5\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
	try("=5", "a",
	    "uslub: USLUB_POLICY: unknown policy \"=5\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
	try("barn-full", "a",
	    "uslub: USLUB_POLICY: policy without a value \"barn-full\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
	try("barn-fullx=5,barn-ful=5", "a",
	    "uslub: USLUB_POLICY: unknown policy \"barn-fullx=5\" ignored; see uslub(7)\n"
	    "uslub: USLUB_POLICY: unknown policy \"barn-ful=5\" ignored; see uslub(7)\n"
	    "a:" DEFAULT);
}

/* The rest holds; each complaint comes once, also about blocks for others. */
static void test_complains_once(void **state)
{
	(void)state;
	try("barn-full=x,barn-empty=4;zzz:barn-full=0,barn-full=7", "a b zzz c",
	    BAD("barn-full=x") BAD(
		    "barn-full=0") "a: on full 10 empty 4 capacity 60 objects -1 limit 67108864\n"
				   "b: on full 10 empty 4 capacity 60 objects -1 limit 67108864\n"
				   "zzz: on full 7 empty 4 capacity 60 objects -1 limit 67108864\n"
				   "c: on full 10 empty 4 capacity 60 objects -1 limit 67108864\n");
	/* a bad value leaves the earlier good one */
	try("barn-full=5,barn-full=0", "a",
	    BAD("barn-full=0") "a: on full 5 empty 10 capacity 60 objects -1 limit 67108864\n");
	/* a long one is cut */
	try("barn-full=12345678901234567890123456789012345678901234567890123456789012345", "a",
	    BAD("barn-full=12345678901234567890123456789012345678901234567890123") "a:" DEFAULT);
}

static void test_args_win(void **state)
{
	struct uslub_cache_args args = { .policy.barn_full = 33 };

	(void)state;
	try_args("barn-full=20,barn-empty=4", "a", &args,
		 "a: on full 33 empty 4 capacity 60 objects -1 limit 67108864\n");
	args.policy.prefill_barn = USLUB_POLICY_OFF;
	args.policy.sheaf_capacity = 9;
	args.policy.rcu_limit = 12345;
	args.policy.slab_min_objects = 30;
	try_args("prefill-barn=on;*:sheaf-capacity=none,rcu-limit=1M,slab-min-objects=5", "a",
		 &args, "a: off full 33 empty 10 capacity 9 objects 30 limit 12345\n");
	args.policy.sheaf_capacity = USLUB_POLICY_NONE;
	args.policy.slab_min_objects = USLUB_POLICY_NONE;
	try_args("sheaf-capacity=5,slab-min-objects=5", "a", &args,
		 "a: off full 33 empty 10 capacity -1 objects -1 limit 12345\n");
	/* exact, where the other argument is a lower bound */
	args = (struct uslub_cache_args){ .sheaf_capacity = 100, .policy.sheaf_capacity = 5 };
	try_args(NULL, "a", &args, "a: on full 10 empty 10 capacity 5 objects -1 limit 67108864\n");
	args.policy.sheaf_capacity = 0;
	try_args(NULL, "a", &args,
		 "a: on full 10 empty 10 capacity 100 objects -1 limit 67108864\n");
}

static void bad_args(struct uslub_policy policy)
{
	struct uslub_cache_args args = { .policy = policy };

	try_args(NULL, "a", &args, "a: EINVAL\n");
}

static void test_bad_args(void **state)
{
	(void)state;
	bad_args((struct uslub_policy){ .prefill_barn = 3 });
	bad_args((struct uslub_policy){ .prefill_barn = USLUB_POLICY_NONE });
	bad_args((struct uslub_policy){ .barn_full = 1025 });
	bad_args((struct uslub_policy){ .barn_full = USLUB_POLICY_NONE });
	bad_args((struct uslub_policy){ .barn_empty = 5000000000 });
	bad_args((struct uslub_policy){ .sheaf_capacity = 256 });
	bad_args((struct uslub_policy){ .slab_min_objects = 32768 });
	bad_args((struct uslub_policy){ .rcu_limit = 4095 });
	bad_args((struct uslub_policy){ .rcu_limit = 1099511627777 });
}

/* What a child says of its caches. */
static void try_caches(void (*print)(void *), char *env, const char *wanted)
{
	char text[1000];

	unit_equal(unit_child(print, env, text, sizeof(text), unit_scaled(200)), 0);
	assert_string_equal(text, wanted);
}

static int print_hardened(struct uslub_cache *c, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s %s%s\n", c->name,
		c->policy.slab_random == USLUB_POLICY_ON ? "random" : "",
		c->policy.zero_on_free == USLUB_POLICY_ON ? " zero" : "");
	/* and it is in force */
	if (!c->class.shuffle != (c->policy.slab_random == USLUB_POLICY_OFF) ||
	    c->class.zeroed != (c->policy.zero_on_free == USLUB_POLICY_ON) ||
	    c->zero_on_free != c->class.zeroed || (c->zero_on_free && c->push_cpus))
		fprintf(stderr, "not in force\n");
	return 0;
}

static void hardened_child(void *arg)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .policy.slab_random = USLUB_POLICY_OFF };

	if (arg)
		setenv("USLUB_POLICY", arg, 1);
	else
		unsetenv("USLUB_POLICY");
	if (!uslub_cache_create("a", 64, NULL) || !uslub_cache_create("b", 64, &args))
		fprintf(stderr, "failed\n");
	uslub_for_each_cache(print_hardened, NULL);
}

/* Sheaves are not worth zeros. */
static void test_hardening(void **state)
{
	char env[3][40] = { "slab-random=on,zero-on-free=on", "b:zero-on-free=on",
			    "slab-random=1" };

	(void)state;
	try_caches(hardened_child, NULL, "sheaf-boot \nsheaf-512 \na \nb \n");
	try_caches(hardened_child, env[0],
		   "sheaf-boot random\nsheaf-512 random\na random zero\nb  zero\n");
	try_caches(hardened_child, env[1], "sheaf-boot \nsheaf-512 \na \nb  zero\n");
	try_caches(hardened_child, env[2],
		   BAD("slab-random=1") "sheaf-boot \nsheaf-512 \na \nb \n");
}

/* Caches of sheaves keep their own capacity, whatever the environment says about all caches. */
static int print_internal(struct uslub_cache *c, void *arg)
{
	(void)arg;
	if (c->internal)
		fprintf(stderr, "%s %u\n", c->name, c->capacity);
	return 0;
}

static void internal_child(void *arg)
{
	setenv("USLUB_POLICY", arg, 1);
	if (!uslub_cache_create("a", 64, NULL))
		fprintf(stderr, "failed\n");
	uslub_for_each_cache(print_internal, NULL);
}

static void test_internal_caches(void **state)
{
	char env[3][40] = { "sheaf-capacity=5", "*:sheaf-capacity=60", "sheaf-capacity=none" };

	(void)state;
	try_caches(internal_child, env[0], "sheaf-boot 0\nsheaf-128 28\n");
	try_caches(internal_child, env[1], "sheaf-boot 0\nsheaf-512 28\n");
	try_caches(internal_child, env[2], "");
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_defaults, UNIT_REAL),	    UNIT_TEST(test_each_policy, UNIT_REAL),
		UNIT_TEST(test_suffixes, UNIT_REAL),	    UNIT_TEST(test_blocks, UNIT_REAL),
		UNIT_TEST(test_bad_values, UNIT_REAL),	    UNIT_TEST(test_unknown, UNIT_REAL),
		UNIT_TEST(test_complains_once, UNIT_REAL),  UNIT_TEST(test_args_win, UNIT_REAL),
		UNIT_TEST(test_bad_args, UNIT_REAL),	    UNIT_TEST(test_hardening, UNIT_REAL),
		UNIT_TEST(test_internal_caches, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
