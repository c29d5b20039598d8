/* SPDX-License-Identifier: MIT */
/*
 * Memory: what happens when there is no more, what is used, and whether it comes back.
 *
 *   --part=address-space  start with 200 MB of it (RLIMIT_AS), run out, recover
 *   --part=data           the same with RLIMIT_DATA
 *   --part=burst          300 MB allocated, freed and shrunk are resident no more
 *   --part=one            a cache and an object cost less than 1 MiB
 *   --part=million        a million objects of 256 bytes cost at most 1.05 times their size
 *   --part=mappings       a checkerboard of frees over 300 MB does not make many mappings
 *   --broken=KIND         the part must fail: unlimited (the limit is not set), kept (objects are not
 *                         freed), wasted (more memory is used), split (mappings are made)
 *   --control             run all of the parts broken, and pass if each failed as it should
 *
 * Under the sanitizers and in a user-mode emulator most parts are skipped: their own memory counts as well,
 * and limits hold for it or do not hold at all.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include "flavor.h"
#include "memory.h"

#define LIMIT	((size_t)200 * 1000 * 1000)
#define BURST	((size_t)300 * 1000 * 1000)
#define BLOCK	((size_t)2 << 20)  /* what the library gives back at once */
#define RESERVE ((size_t)40 << 20) /* 32 MiB of pages that it keeps unasked, and some sheaves */
#define THREADS 4

static bool broken;

/* ---- the process ---- */

static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned lines = 0;
	int c;

	if (!f)
		cannot("no /proc/self/maps");
	while ((c = fgetc(f)) != EOF)
		lines += c == '\n';
	fclose(f);
	return lines;
}

static unsigned threads_now(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/task");

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += *e->d_name != '.';
	closedir(d);
	return n;
}

static size_t thread_stack(void)
{
	pthread_attr_t attr;
	size_t size = 0;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &size);
	pthread_attr_destroy(&attr);
	return size;
}

static void needs_plain_memory(void)
{
	const char *why = resident_of_others();

	if (why)
		cannot(why);
}

/* ---- objects, linked through themselves ---- */

struct object {
	struct object *next;
};

struct pile {
	struct uslub_cache *c;
	size_t size; /* of an object */
	struct object *top;
	size_t objects;
};

static struct uslub_cache *create(const char *name, size_t size, size_t align)
{
	const struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.align = align,
		.rcu = &flavor,
	};
	struct uslub_cache *c = uslub_cache_create(name, size, &args);

	if (!c)
		die("uslub_cache_create %s: %s", name, strerror(errno));
	return c;
}

static struct pile pile_of(const char *name, size_t size)
{
	return (struct pile){ .c = create(name, size, 0), .size = size };
}

static bool grow(struct pile *p)
{
	struct object *o;

	errno = 0;
	o = uslub_cache_alloc(p->c, 0);
	if (!o && errno != ENOMEM)
		die("%s: no object, but errno is %d", uslub_cache_name(p->c), errno);
	if (!o)
		return false;
	memset(o, 0x77, p->size);
	o->next = p->top;
	p->top = o;
	p->objects++;
	return true;
}

static struct object *take(struct pile *p)
{
	struct object *o = p->top;

	p->top = o->next;
	p->objects--;
	return o;
}

static size_t bytes(const struct pile *p)
{
	return p->objects * p->size;
}

static void grow_to(struct pile *p, size_t size)
{
	while (bytes(p) < size)
		if (!grow(p))
			die("%s: no memory after %zu bytes", uslub_cache_name(p->c), bytes(p));
}

static void free_all(struct pile *p)
{
	while (p->top)
		uslub_cache_free(p->c, take(p));
}

/* Every other object of the pile. */
static void free_half(struct pile *p)
{
	struct object *o = p->top, *next;

	for (; o && o->next; o = o->next) {
		next = o->next;
		o->next = next->next;
		uslub_cache_free(p->c, next);
		p->objects--;
	}
}

static void destroy(struct uslub_cache *c)
{
	const char *name = uslub_cache_name(c);
	int error = uslub_cache_destroy(c);

	if (error)
		die("%s: destroy: %d", name, error);
}

/* ---- out of memory ---- */

#define PILES 4

static struct pile piles[PILES];

/* Some of each, then from large to small, so that nothing is left in the end. Returns the bytes of all. */
static size_t exhaust(void)
{
	size_t sum = 0;

	for (unsigned i = 0; i < PILES; i++)
		grow_to(&piles[i], LIMIT / 16);
	for (unsigned i = 0; i < PILES; i++) {
		while (grow(&piles[i]) && sum + bytes(&piles[i]) <= LIMIT)
			;
		sum += bytes(&piles[i]);
		if (sum > LIMIT)
			die("%zu MiB were given, beyond the limit", sum >> 20);
	}
	return sum;
}

static void expect_none(const char *what, const void *p)
{
	if (p || errno != ENOMEM)
		die("%s: %p with errno %d where there is no memory", what, p, errno);
	errno = 0;
}

/* Every way to ask for memory says so. */
static void ask_in_vain(struct uslub_cache *c)
{
	static const unsigned flags[] = { 0, USLUB_ZERO, USLUB_NOWAIT, USLUB_NOLOCK };
	void *objects[200];
	int error;

	errno = 0;
	for (unsigned i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		expect_none("alloc", uslub_cache_alloc(c, flags[i]));
		expect_none("alloc_node", uslub_cache_alloc_node(c, flags[i], 0));
		error = uslub_cache_alloc_bulk(c, flags[i], 200, objects);
		if (error != -ENOMEM)
			die("alloc_bulk: %d where there is no memory", error);
		expect_none("prefill", uslub_cache_prefill_sheaf(c, flags[i] & ~USLUB_ZERO, 3));
		expect_none("prefill", uslub_cache_prefill_sheaf(c, flags[i] & ~USLUB_ZERO, 999));
	}
}

/* Either no memory, or caches that work as far as they can. */
static void create_at_the_brim(void)
{
	struct uslub_cache *c[100];
	unsigned n = 0;

	for (; n < 100; n++) {
		errno = 0;
		c[n] = uslub_cache_create("brim", 100 + n, NULL);
		if (!c[n])
			break;
		uslub_cache_free(c[n], uslub_cache_alloc(c[n], 0));
	}
	if (n < 100 && errno != ENOMEM)
		die("no cache, but errno is %d", errno);
	while (n--)
		destroy(c[n]);
}

/* What is freed serves again, in the same cache and in another. */
static void live_at_the_brim(struct pile *other)
{
	size_t freed = bytes(&piles[0]), reused, again;

	for (unsigned i = 0; i < 1000; i++) {
		uslub_cache_free(piles[2].c, take(&piles[2]));
		if (!grow(&piles[2]))
			die("a freed object cannot be allocated again");
	}
	free_all(&piles[0]);
	while (grow(other))
		;
	reused = bytes(other);
	if (reused < freed / 10 * 9)
		die("of %zu KiB freed only %zu KiB serve another cache", freed >> 10, reused >> 10);

	/* Deferred frees need memory themselves, and a thread that cannot be had. */
	while (other->top)
		uslub_cache_free_rcu(other->c, take(other));
	uslub_cache_barrier_rcu(other->c);
	if (STAT(other->c, rcu_pending))
		die("%lu deferred frees are pending after a barrier", STAT(other->c, rcu_pending));
	while (grow(other))
		;
	again = bytes(other);
	if (again < reused / 100 * 95)
		die("of %zu KiB freed by RCU only %zu KiB come back", reused >> 10, again >> 10);
}

static void part_limited(const char *name)
{
	static const size_t sizes[PILES] = { 65536, 4096, 256, 16 };
	struct pile other = pile_of("other", 512);
	size_t first, second;
	unsigned threads;

	for (unsigned i = 0; i < PILES; i++)
		piles[i] = pile_of("pile", sizes[i]);
	stress_phase = "memory is exhausted";
	first = exhaust();
	if (first < LIMIT / 4 * 3)
		die("%zu MiB are all that the limit allows", first >> 20);
	for (unsigned i = 0; i < PILES; i++)
		ask_in_vain(piles[i].c);
	ask_in_vain(other.c);
	create_at_the_brim();
	stress_phase = "memory is reused at the brim";
	live_at_the_brim(&other);
	threads = threads_now();
	stress_phase = "memory is exhausted again";
	for (unsigned i = 0; i < PILES; i++)
		free_all(&piles[i]);
	for (size_t left = broken ? other.objects / 2 : 0; other.objects > left;)
		uslub_cache_free(other.c, take(&other));
	for (unsigned i = 0; i < PILES; i++)
		settle(piles[i].c);
	settle(other.c);
	second = exhaust();
	/* by now the library can have its thread, whose stack counts */
	if (second + thread_stack() < first / 100 * 98)
		die("%zu MiB were to be had, and %zu MiB after they were freed", first >> 20,
		    second >> 20);
	for (unsigned i = 0; i < PILES; i++) {
		free_all(&piles[i]);
		destroy(piles[i].c);
	}
	free_all(&other);
	destroy(other.c);
	printf("limits %s: %zu of %zu MiB were objects, %zu the second time; threads at the brim: "
	       "%u, in the end: %u\n",
	       name, first >> 20, LIMIT >> 20, second >> 20, threads, threads_now());
}

/* The limit holds from the first instruction on. */
static void start_limited(const char *part, const char *how)
{
	int resource = !strcmp(part, "address-space") ? RLIMIT_AS : RLIMIT_DATA;
	char *argv[] = { (char *)"limits", (char *)"--limited", NULL, NULL, NULL };
	struct rlimit limit;
	char option[32];

	if (STRESS_ASAN || STRESS_TSAN)
		cannot("the sanitizer needs more memory than the limit");
	if (emulated())
		cannot("an emulator does not limit memory");
	if (getrlimit(resource, &limit))
		die("getrlimit: %s", strerror(errno));
	limit.rlim_cur = LIMIT;
	if (strcmp(how, "unlimited") && setrlimit(resource, &limit))
		die("setrlimit: %s", strerror(errno));
	snprintf(option, sizeof(option), "--part=%s", part);
	argv[2] = option;
	if (broken)
		argv[3] = (char *)"--broken=kept";
	execv("/proc/self/exe", argv);
	die("the program does not start with the limit: %s", strerror(errno));
}

/* ---- a burst ---- */

/* Freed already; how much of the peak is still there, without and with being asked. */
static void check_comes_back(const char *what, struct uslub_cache *c, size_t base, size_t peak)
{
	size_t freed = above(resident_now(), base), shrunk;

	settle(c);
	shrunk = above(resident_now(), base);
	if (peak < base + BURST / 100 * 95)
		die("%s: the peak of %zu KiB does not show", what, peak >> 10);
	if (shrunk > may_stay(peak))
		die("%s: %zu KiB of %zu are still resident", what, shrunk >> 10, peak >> 10);
	if (freed > RESERVE)
		die("%s: %zu KiB of %zu are resident until one asks", what, freed >> 10,
		    peak >> 10);
	printf("limits burst: %s: %zu KiB at the peak, %zu when freed, %zu when shrunk, above "
	       "%zu\n",
	       what, (peak - base) >> 10, freed >> 10, shrunk >> 10, base >> 10);
}

static void burst_of(size_t size, size_t base)
{
	struct pile p = pile_of("burst", size);
	char what[64];
	size_t peak;

	grow_to(&p, BURST);
	peak = resident_now();
	free_half(&p);
	if (!broken)
		free_all(&p);
	snprintf(what, sizeof(what), "objects of %zu", size);
	check_comes_back(what, p.c, base, peak);
	destroy(p.c);
}

static struct pile thread_piles[THREADS];

static void *grow_thread(void *arg)
{
	grow_to(arg, BURST / THREADS);
	return NULL;
}

static void *free_thread(void *arg)
{
	free_all(arg);
	return NULL;
}

static void in_threads(void *(*fn)(void *))
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, fn, &thread_piles[i]))
			die("pthread_create");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void burst_of_threads(size_t base)
{
	struct uslub_cache *c = create("burst", 192, 0);
	size_t peak;

	for (unsigned i = 0; i < THREADS; i++)
		thread_piles[i] = (struct pile){ .c = c, .size = 192 };
	in_threads(grow_thread);
	peak = resident_now();
	in_threads(free_thread);
	check_comes_back("threads, objects of 192", c, base, peak);
	destroy(c);
}

static void part_burst(void)
{
	static const size_t sizes[] = { 64, 256, 4096, 50000 };
	size_t base;

	needs_plain_memory();
	resident_now();
	base = resident_now();
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		burst_of(sizes[i], base);
	burst_of_threads(base);
}

/* ---- what things cost ---- */

static void part_one(void)
{
	static char wasted[MIB];
	size_t base, with;
	struct pile p;

	needs_plain_memory();
	resident_now();
	base = resident_now();
	p = pile_of("one", 64);
	if (!grow(&p))
		die("no memory");
	if (broken)
		memset(wasted, 1, sizeof(wasted));
	with = resident_now();
	if (with - base >= MIB)
		die("a cache and an object cost %zu KiB", (with - base) >> 10);
	free_all(&p);
	destroy(p.c);
	printf("limits one: a cache and an object cost %zu KiB\n", (with - base) >> 10);
}

static void part_million(void)
{
	const size_t objects = 1000000, size = 256;
	struct pile p = { .size = size };
	size_t base, with;
	double ratio;

	needs_plain_memory();
	resident_now();
	base = resident_now();
	p.c = create("million", size, broken ? 512 : 0);
	grow_to(&p, objects * size);
	with = resident_now();
	ratio = (double)(with - base) / (double)(objects * size);
	if (ratio > 1.05)
		die("a million objects cost %.3f times their size", ratio);
	free_all(&p);
	destroy(p.c);
	printf("limits million: a million objects of %zu cost %.4f times their size\n", size,
	       ratio);
}

/* ---- mappings ---- */

/* Frees what lies in every other piece of `unit` bytes. */
static void checkerboard(struct pile *p, size_t unit)
{
	struct object *o = p->top, *next;

	*p = (struct pile){ .c = p->c, .size = p->size };
	for (; o; o = next) {
		next = o->next;
		if ((uintptr_t)o / unit & 1) {
			uslub_cache_free(p->c, o);
			continue;
		}
		o->next = p->top;
		p->top = o;
		p->objects++;
	}
}

static void split_mappings(unsigned n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; p != MAP_FAILED && i < n; i += 2)
		mprotect(p + i * page, page, PROT_READ);
}

static void part_mappings(void)
{
	static const size_t units[] = { 256, 4096, 65536, BLOCK, 2 * BLOCK };
	unsigned before = mappings(), bound = before + 2 * BURST / BLOCK + 32, now, highest = 0;
	struct pile p = pile_of("checkerboard", 256);
	size_t left;

	if (broken)
		split_mappings(1000);
	printf("limits mappings: %u before;", before);
	for (unsigned i = 0; i < sizeof(units) / sizeof(*units); i++) {
		grow_to(&p, BURST);
		checkerboard(&p, units[i]);
		left = bytes(&p);
		if (left < BURST / 4 || left > BURST / 4 * 3)
			die("%zu of %zu bytes are left of a checkerboard of %zu", left, BURST,
			    units[i]);
		settle(p.c);
		now = mappings();
		highest = now > highest ? now : highest;
		if (now > bound)
			die("%u mappings after a checkerboard of %zu bytes over %zu", now, units[i],
			    BURST);
		printf(" %u (%zu)", now, units[i]);
	}
	free_all(&p);
	destroy(p.c);
	printf("; bound %u, %u after all\n", bound, mappings());
}

/* ---- controls ---- */

static const struct control {
	const char *part, *how, *message;
} controls[] = {
	{ "address-space", "unlimited", "beyond the limit" },
	{ "address-space", "kept", "after they were freed" },
	{ "data", "unlimited", "beyond the limit" },
	{ "data", "kept", "after they were freed" },
	{ "burst", "kept", "are still resident" },
	{ "one", "wasted", "a cache and an object cost" },
	{ "million", "wasted", "a million objects cost" },
	{ "mappings", "split", "mappings after a checkerboard" },
};

/* Whether the broken part fails with the message. */
static bool fails(const struct control *k)
{
	char part[32], how[32];
	char *argv[] = { (char *)"limits", part, how, NULL };
	struct heard h;
	int status;

	snprintf(part, sizeof(part), "--part=%s", k->part);
	snprintf(how, sizeof(how), "--broken=%s", k->how);
	if (stress_fork(&h)) {
		execv("/proc/self/exe", argv);
		_exit(2);
	}
	status = stress_hear(&h);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return true; /* it has said why */
	printf("limits %s %s: %s", part, how, *h.text ? h.text : "nothing was found\n");
	return WIFEXITED(status) && WEXITSTATUS(status) && strstr(h.text, k->message);
}

static int control(void)
{
	bool good = true;

	if (emulated())
		cannot("an emulator does not start a program of its own kind");
	for (unsigned i = 0; i < sizeof(controls) / sizeof(*controls); i++)
		good &= fails(&controls[i]);
	return !good;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{ "burst", part_burst },
		{ "one", part_one },
		{ "million", part_million },
		{ "mappings", part_mappings },
	};
	const char *part = option(argc, argv, "part"), *how = option(argc, argv, "broken");

	if (option(argc, argv, "control"))
		return control();
	if (!part)
		die("which part?");
	watchdog(100);
	broken = how && strcmp(how, "unlimited");
	flavor_start(&urcu_memb_flavor);
	if (!strcmp(part, "address-space") || !strcmp(part, "data")) {
		if (!option(argc, argv, "limited"))
			start_limited(part, how ? how : "");
		part_limited(part);
		return 0;
	}
	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!strcmp(part, parts[i].name)) {
			parts[i].run();
			return 0;
		}
	die("no part %s", part);
}
