/* SPDX-License-Identifier: MIT */
/*
 * The reader of what processes export, on hostile content. The program exports caches of its own, changes some
 * words of a copy of that, and reads the copy as a program outside would, with itself as the process whose
 * memory is looked at: as a snapshot, and as the map of a cache. Whatever comes of it, it must come soon and
 * touch nothing it should not, which sanitizers see, and elsewhere a signal tells now and then.
 *
 *   --seed=N        what to begin with, instead of the time
 *   --iterations=N  so many, instead of for USLUB_TEST_SECONDS (5)
 *   --plant=N       of fuzz-export-planted: without one of the checks in fuzz_plants.txt
 *
 * Each iteration goes by a number: the first has the seed, the next one more. A failure tells it, and
 * --seed=NUMBER --iterations=1 does the same again.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <urcu/flavor.h>

#include "../stress/stress.h"
#include "tools/uslub/export_reader.h"
#include "tools/uslub/map.h"
#include "tools/uslub/snapshot.h"
#include "tools/uslub/snapshot_process.h"
#include "tools/uslub/tool.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define CHANGES_MOST 32
#define PLANTS	     4
#define LIMIT_S	     8 /* of an iteration; those that take longest read gigabytes */

static char *image; /* what is exported, as far as it is in use */
static size_t image_size;
static struct export_reader own;    /* of what is exported */
static struct export_header header; /* of it */
static int copy;		    /* the descriptor of the changed one */
static uint64_t number, random_state;
extern bool ex_planted[]; /* gen-plants calls them so */
bool ex_planted[PLANTS];

static unsigned chosen(unsigned n) /* 0..n-1 */
{
	return below(&random_state, n);
}

/* ---- failing -------------------------------------------------------------------------------------- */

static void tell_number(void)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "in iteration --seed=%lu\n", (unsigned long)number);

	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(2);
}

static void on_signal(int which)
{
	tell_number();
	die("%s", which == SIGALRM ? "it takes too long" : strsignal(which));
}

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void catch_failures(void)
{
	signal(SIGALRM, on_signal);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(tell_number);
		return;
	}
	signal(SIGSEGV, on_signal);
	signal(SIGBUS, on_signal);
	signal(SIGABRT, on_signal);
	signal(SIGFPE, on_signal);
}

/* ---- what is exported ----------------------------------------------------------------------------- */

static struct uslub_cache *make(const char *name, size_t size, uint64_t capacity, uint64_t stash,
				uint64_t latency)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .flags = USLUB_MERGE,
					 .rcu = &urcu_memb_flavor,
					 .policy = { .sheaf_capacity = capacity,
						     .rcu_stash = stash,
						     .parking = USLUB_POLICY_ON,
						     .latency = latency } };
	struct uslub_cache *c = uslub_cache_create(name, size, &args);
	void *objects[600];

	if (!c || uslub_cache_alloc_bulk(c, 0, 600, objects))
		die("no cache");
	for (unsigned i = 0; i < 600; i++) {
		if (i % 3 == 0)
			uslub_cache_free(c, objects[i]);
		else if (i % 3 == 1)
			uslub_cache_free_rcu(c, objects[i]);
	}
	return c;
}

static void make_image(void)
{
	make("mapped", 300, 4, 2, USLUB_POLICY_ON);
	make("alias", 300, 4, 2, USLUB_POLICY_ON);
	make("none", 1000, USLUB_POLICY_NONE, 0, 0);
	make("plain", 64, 0, 0, 0);
	if (uslub_export())
		cannot("nothing can be exported");
	if (!export_open(&own, (int)getpid()))
		cannot("this process cannot be read");
	header = own.header;
	image_size = header.caches_offset + (size_t)header.caches_used * header.cache_bytes;
	image = tool_alloc(image_size, 1);
	if (!export_shared(&own, 0, image, image_size))
		die("the export cannot be read");
	export_close(&own);
	copy = export_create();
	if (copy < 0 || pwrite(copy, image, image_size, 0) != (ssize_t)image_size)
		die("no copy");
}

/* ---- changing it ---------------------------------------------------------------------------------- */

struct change {
	size_t offset, size;
};

static struct change changes[CHANGES_MOST];

/* Somewhere in the header, the tables, or the directory. */
static size_t some_place(void)
{
	static const unsigned width = 8;
	size_t from = 0, size = sizeof(header);

	switch (chosen(6)) {
	case 0:
		break;
	case 1:
		from = offsetof(struct export_header, map);
		size = sizeof(header.map);
		break;
	case 2:
		from = header.stats_offset;
		size = header.caches_offset - from;
		break;
	default: /* not the values of an entry, which are most of it and just numbers */
		from = header.caches_offset + chosen(header.caches_used) * header.cache_bytes;
		size = offsetof(struct export_cache, copied);
	}
	return from + chosen(size / width) * width;
}

static uint64_t some_value(uint64_t old)
{
	static const uint64_t odd[] = { 0,
					1,
					2,
					3,
					7,
					8,
					63,
					64,
					255,
					1024,
					4096,
					16384,
					16385,
					65535,
					1 << 20,
					EXPORT_SIZE,
					INT32_MAX,
					UINT32_MAX,
					UINT32_MAX - 7,
					1ull << 47,
					UINT64_MAX,
					UINT64_MAX - 7 };
	uint64_t other;

	switch (chosen(6)) {
	case 0:
		return chance(&random_state);
	case 1:
		return old + chosen(17) - 8;
	case 2:
		return old ^ 1ull << chosen(64);
	case 3: /* another field */
		memcpy(&other, image + some_place(), sizeof(other));
		return other;
	case 4: /* memory of this program */
		return (uintptr_t)(chosen(2) ? (void *)image : (void *)&other) + chosen(64);
	default:
		return odd[chosen(TOOL_COUNT(odd))];
	}
}

static void change_one(struct change *c)
{
	uint64_t value = 0;

	c->size = (size_t)1 << chosen(4);
	c->offset = some_place() + chosen(8 / c->size) * c->size;
	memcpy(&value, image + c->offset, c->size);
	value = some_value(value);
	if (pwrite(copy, &value, c->size, (off_t)c->offset) != (ssize_t)c->size)
		die("pwrite");
}

static void restore_one(const struct change *c)
{
	if (pwrite(copy, image + c->offset, c->size, (off_t)c->offset) != (ssize_t)c->size)
		die("pwrite");
}

/* ---- reading it ----------------------------------------------------------------------------------- */

static struct {
	uint64_t understood, caches, values, slabs;
} totals;

static void print_map(const struct map *map)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	map_text(map, out, 80, false);
	map_svg(map, out);
	fclose(out);
	free(text);
}

/* As a snapshot, and as the map of the cache unless that is NULL; also of a process that has ended. */
static void read_copy(const char *cache, bool alive)
{
	struct export_reader r;
	struct snapshot *s;
	struct map map;

	if (!export_open_fd(&r, dup(copy))) {
		export_close(&r);
		return;
	}
	if (alive) {
		r.pid = own.pid;
		r.tid = own.tid;
		r.address = own.address;
		r.inode = own.inode;
	}
	totals.understood++;
	s = snapshot_export(&r);
	totals.caches += s->count;
	for (unsigned i = 0; i < s->count; i++)
		totals.values += s->caches[i].count;
	snapshot_free(s);
	if (cache) {
		if (map_read(&r, cache, &map)) {
			totals.slabs += map.count;
			print_map(&map);
		}
		map_free(&map);
	}
	export_close(&r);
}

static void iterate(void)
{
	static const char *const names[] = { "mapped", "alias", "none", "nothing",
					     NULL,     NULL,	NULL,	NULL };
	unsigned n = 1 + (unsigned)chosen(chosen(3) ? 3 : CHANGES_MOST);
	char *message = NULL;

	for (unsigned i = 0; i < n; i++)
		change_one(&changes[i]);
	alarm(LIMIT_S * (STRESS_ASAN || STRESS_TSAN ? 5 : 1));
	tool_divert(&message);
	read_copy(names[chosen(TOOL_COUNT(names))], chosen(8));
	tool_divert(NULL);
	free(message);
	for (unsigned i = 0; i < n; i++)
		restore_one(&changes[i]);
}

/* What was not changed is understood, and all of it is found. */
static void read_unchanged(void)
{
	read_copy("mapped", true);
	if (totals.understood != 1 || totals.caches < 4 || !totals.values || !totals.slabs)
		die("what is exported is not understood");
}

int main(int argc, char **argv)
{
	const char *wanted = option(argc, argv, "iterations"), *plant = option(argc, argv, "plant");
	uint64_t seed = stress_seed(argc, argv),
		 most = wanted ? strtoull(wanted, NULL, 0) : UINT64_MAX;
	double end = now() + stress_seconds(5), slowest = 0;
	uint64_t n = 0;

	if (plant && strtoul(plant, NULL, 0) < PLANTS)
		ex_planted[strtoul(plant, NULL, 0)] = true;
	setvbuf(stdout, NULL, _IONBF, 0);
	catch_failures();
	make_image();
	read_unchanged();
	printf("seed %lu: ", (unsigned long)seed);
	for (; n < most && (wanted || now() < end); n++) {
		double begun = now();

		number = random_state = seed + n;
		iterate();
		if (now() - begun > slowest)
			slowest = now() - begun;
	}
	printf("%lu iterations, %lu understood, %lu caches, %lu slabs, at most %.1f ms\n",
	       (unsigned long)n, (unsigned long)totals.understood, (unsigned long)totals.caches,
	       (unsigned long)totals.slabs, 1e3 * slowest);
	return 0;
}
