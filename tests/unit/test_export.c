/* SPDX-License-Identifier: MIT */
/*
 * What a process shows of its caches: that statistics of objects account for each of them, that slots are
 * looked at when they are in use and only then, and the directory in shared memory, its descriptor and its
 * fork. What a program outside makes of it is in tests/cli/export.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <urcu/flavor.h>

#include "unit.h"
#include "cache/internal.h"
#include "inspect/export_format.h"

extern const struct rcu_flavor_struct urcu_memb_flavor;

static struct uslub_cache *c;

static void move(void)
{
	if (unit_mode() == UNIT_FAKED)
		unit_on_cpu((int)unit_below(4));
}

/* ---- every object is somewhere -------------------------------------------------------------------- */

#define HELD 500

static void *held[HELD];
static unsigned nheld;

static void keep(void *object)
{
	assert_non_null(object);
	assert_true(nheld < HELD);
	held[nheld++] = object;
}

static void *let_go(void)
{
	unsigned i = unit_below(nheld);
	void *object = held[i];

	held[i] = held[--nheld];
	return object;
}

static void check_objects(unsigned prefilled)
{
	uint64_t free_objects = stat_of(c, cpu_objects) + stat_of(c, barn_objects) +
				stat_of(c, stash_objects) + stat_of(c, rcu_pending);

	unit_equal(stat_of(c, objects) - free_objects, nheld + prefilled);
}

static void prefill(void)
{
	unsigned n = 1 + unit_below(15), drawn = unit_below(n + 1);
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, n);

	assert_non_null(s);
	check_objects(s->fill);
	while (drawn--)
		keep(uslub_cache_alloc_from_sheaf(c, 0, s));
	check_objects(s->fill);
	move();
	uslub_cache_return_sheaf(c, 0, s);
}

static void free_bulk(void)
{
	void *objects[40];
	unsigned n = unit_below(min(nheld, 40u) + 1);

	for (unsigned i = 0; i < n; i++)
		objects[i] = let_go();
	uslub_cache_free_bulk(c, n, objects);
}

static void alloc_bulk(void)
{
	void *objects[40];
	unsigned n = unit_below(41);

	assert_int_equal(uslub_cache_alloc_bulk(c, 0, n, objects), 0);
	while (n--)
		keep(objects[n]);
}

static void step(bool grow)
{
	unsigned n = unit_below(25);

	move();
	switch (unit_below(12)) {
	case 0:
		prefill();
		break;
	case 1:
		grow ? alloc_bulk() : free_bulk();
		break;
	case 2:
		if (!unit_below(4))
			assert_int_equal(uslub_cache_shrink(c), 0);
		break;
	case 3 ... 4:
		while (n-- && nheld)
			uslub_cache_free_rcu(c, let_go());
		break;
	default:
		while (n--)
			if (grow)
				keep(uslub_cache_alloc(c, 0));
			else if (nheld)
				uslub_cache_free(c, let_go());
	}
	/* What is under way to the slabs is counted twice, or not at all, for a moment. */
	uslub_cache_barrier_rcu(c);
}

static void history(unsigned capacity, unsigned stash, unsigned parking)
{
	struct uslub_cache_args args = {
		.args_size = sizeof(args),
		.rcu = &urcu_memb_flavor,
		.policy = { .sheaf_capacity = capacity,
			    .rcu_stash = stash,
			    .parking = parking,
			    .barn_full = 2 },
	};
	struct {
		uint64_t cpus, barns, stashes, parked;
	} most = { 0 };

	c = uslub_cache_create("accounted", plat_page_size() / 16, &args);
	assert_non_null(c);
	for (unsigned i = 0; i < unit_scaled(600); i++) {
		step(nheld < 60 || (i / 30 % 2 && nheld < HELD - 60));
		check_objects(0);
		most.cpus = max(most.cpus, stat_of(c, cpu_objects));
		most.barns = max(most.barns, stat_of(c, barn_objects));
		most.stashes = max(most.stashes, stat_of(c, stash_objects));
		most.parked = max(most.parked, stat_of(c, parked));
	}
	unit_check_cache(c, nheld, 0, 0);
	/* All places were filled at some time, or the sum would say little. */
	assert_true(most.cpus > 0 && (most.barns > 0 || unit_slow()));
	assert_true((most.stashes > 0) == (stash > 0));
	assert_true(unit_slow() || (most.parked > 0) == (parking == USLUB_POLICY_ON));
	while (nheld)
		uslub_cache_free(c, let_go());
	assert_int_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, objects), 0);
	assert_int_equal(uslub_cache_destroy(c), 0);
}

static void histories(void)
{
	history(6, 0, USLUB_POLICY_OFF);
	history(6, 0, USLUB_POLICY_ON);
	history(5, 3, USLUB_POLICY_OFF);
	history(4, 8, USLUB_POLICY_ON);
}

static void test_objects(void **state)
{
	(void)state;
	histories();
}

static void test_objects_two_nodes(void **state)
{
	static const char *const cpus[] = { "0-1", "2-3" };

	(void)state;
	unit_machine("0-3", NULL, cpus, 2);
	histories();
}

/* The top sheaf of a stash may be used in part. */
static void test_stash_part(void **state)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .rcu = &urcu_memb_flavor,
					 .policy = { .sheaf_capacity = 8, .rcu_stash = 4 } };
	unsigned parts = 0;

	(void)state;
	c = uslub_cache_create("part", 64, &args);
	for (unsigned i = 0; i < 200 && parts < 3; i++) {
		while (nheld < 40)
			keep(uslub_cache_alloc(c, 0));
		while (nheld > 10)
			uslub_cache_free_rcu(c, let_go());
		uslub_cache_barrier_rcu(c);
		for (unsigned k = 0; k < 3; k++) {
			struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, 8);

			assert_non_null(s);
			for (unsigned n = 1 + unit_below(7); n--;)
				keep(uslub_cache_alloc_from_sheaf(c, 0, s));
			uslub_cache_return_sheaf(c, 0, s);
			parts += stat_of(c, stash_objects) % 8 > 0;
			check_objects(0);
		}
	}
	assert_true(parts >= 3);
}

/* What waits for a grace period, exactly. */
static void test_pending(void **state)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .rcu = &urcu_memb_flavor,
					 .policy.sheaf_capacity = 8 };

	(void)state;
	c = uslub_cache_create("pending", 64, &args);
	for (unsigned i = 0; i < 20; i++)
		keep(uslub_cache_alloc(c, 0));
	urcu_memb_flavor.register_thread();
	urcu_memb_flavor.read_lock();
	for (unsigned i = 0; i < 13; i++)
		uslub_cache_free_rcu(c, let_go());
	unit_equal(stat_of(c, rcu_pending), 13);
	check_objects(0);
	urcu_memb_flavor.read_unlock();
	urcu_memb_flavor.unregister_thread();
	uslub_cache_barrier_rcu(c);
	unit_equal(stat_of(c, rcu_pending), 0);
	check_objects(0);
}

/* ---- used bits ------------------------------------------------------------------------------------ */

static bool touched(unsigned slot)
{
	const char *parts[] = { (const char *)pcs_of(&c->slots, slot),
				(const char *)counter_word(counters(c), slot, 0) };
	const size_t sizes[] = { sizeof(struct pcs), counters(c)->stride * sizeof(uint64_t) };

	for (unsigned i = 0; i < 2; i++)
		for (size_t k = 0; k < sizes[i]; k++)
			if (parts[i][k])
				return true;
	return false;
}

static void test_used(void **state)
{
	static const uint64_t many = 1000000;
	uint64_t *word;

	(void)state;
	c = uslub_cache_create("used", 64, NULL);
	for (unsigned cpu = 1; cpu < 3; cpu++) {
		unit_on_cpu((int)cpu);
		for (unsigned i = 0; i < 100; i++)
			keep(uslub_cache_alloc(c, 0));
		while (nheld)
			uslub_cache_free(c, let_go());
	}
	for (unsigned slot = 1; slot < c->nslots; slot++)
		unit_equal(counters_in_use(counters(c), slot), touched(slot));
	assert_true(counters_in_use(counters(c), 1) && counters_in_use(counters(c), 2));
	assert_false(counters_in_use(counters(c), 3));
	/* One that was never used is not looked at. */
	word = counter_word(counters(c), 3, CTR_alloc_slab);
	*word = many;
	assert_true(stat_of(c, alloc_slab) < many);
	counters_use(counters(c), 3);
	assert_true(stat_of(c, alloc_slab) >= many);
	*word = 0;
}

/* Everything that a slot can begin with makes it a used one. */
static void test_used_random(void **state)
{
	(void)state;
	for (unsigned round = 0; round < unit_scaled(60); round++) {
		struct uslub_cache_args args = {
			.args_size = sizeof(args),
			.rcu = &urcu_memb_flavor,
			.policy.sheaf_capacity = round % 3 ? 5 : USLUB_POLICY_NONE,
			.policy.rcu_stash = round % 2 ? 2 : 0,
		};

		c = uslub_cache_create("used", 64, &args);
		for (unsigned i = 0; i < 6; i++)
			step(nheld < 100);
		for (unsigned slot = 0; slot < c->nslots; slot++)
			assert_true(counters_in_use(counters(c), slot) || !touched(slot));
		move();
		while (nheld)
			uslub_cache_free(c, let_go());
		assert_int_equal(uslub_cache_destroy(c), 0);
	}
}

/* ---- the directory -------------------------------------------------------------------------------- */

static const struct export_header *header;

/* The lines of /proc/self/maps that are exports; `header` is the last one. */
static unsigned find_header(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned n = 0;
	char line[512];

	header = NULL;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, "/memfd:" EXPORT_NAME))
			continue;
		header = (const struct export_header *)strtoull(line, NULL, 16);
		n++;
	}
	fclose(f);
	return n;
}

static void export(void)
{
	errno = 5;
	assert_int_equal(uslub_export(), 0);
	unit_equal(errno, 5);
	unit_equal(find_header(), 1);
	unit_equal(header->magic, EXPORT_MAGIC);
	unit_equal(header->pid, getpid());
	unit_equal(header->state, EXPORT_LIVE);
}

static const struct export_cache *entry(unsigned n)
{
	return (const struct export_cache *)((const char *)header + header->caches_offset +
					     (size_t)n * header->cache_bytes);
}

/* The entry of that name and state, which is there so many times. */
static const struct export_cache *named(const char *name, enum export_entry what, unsigned times)
{
	const struct export_cache *found = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < header->caches_used; i++) {
		if (entry(i)->state != what || strcmp(entry(i)->name, name))
			continue;
		found = entry(i);
		unit_equal(found->seq % 2, 0);
		n++;
	}
	unit_equal(n, times);
	return found;
}

static unsigned count_entries(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < header->caches; i++)
		n += entry(i)->state != EXPORT_FREE;
	return n;
}

static struct uslub_cache *merged(const char *name)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .flags = USLUB_MERGE };
	struct uslub_cache *made = uslub_cache_create(name, 200, &args);

	assert_non_null(made);
	return made;
}

static void test_directory(void **state)
{
	struct uslub_cache *before = uslub_cache_create("before", 64, NULL), *after;
	const struct export_cache *e;
	unsigned n;

	(void)state;
	unit_equal(find_header(), 0);
	export();
	e = named("before", EXPORT_CACHE, 1);
	unit_equal(e->address, (uintptr_t)before);
	unit_equal(e->elements[RECIPE_SLOTS].base, (uintptr_t)before->slots.first);
	unit_equal(e->elements[RECIPE_SLOTS].count, before->nslots);
	unit_equal(e->values[USLUB_STAT_object_size], 64);
	assert_true(e->copied > 0);
	n = count_entries();
	export(); /* once more is nothing */
	after = uslub_cache_create("after", 64, NULL);
	unit_equal(named("after", EXPORT_CACHE, 1)->address, (uintptr_t)after);
	unit_equal(count_entries(), n + 1);
	/* Names need not be unique. */
	c = uslub_cache_create("after", 72, NULL);
	named("after", EXPORT_CACHE, 2);
	assert_int_equal(uslub_cache_destroy(c), 0);
	named("after", EXPORT_CACHE, 1);
	/* The place that became free is used again. */
	n = header->caches_used;
	for (unsigned i = 0; i < 10; i++) {
		c = uslub_cache_create("again", 80, NULL);
		unit_equal(header->caches_used, n);
		assert_int_equal(uslub_cache_destroy(c), 0);
	}
	named("again", EXPORT_CACHE, 0);
	/* One that cannot be destroyed stays. */
	keep(uslub_cache_alloc(after, 0));
	assert_int_equal(uslub_cache_destroy(after), -EBUSY);
	named("after", EXPORT_CACHE, 1);
}

static void test_aliases(void **state)
{
	unsigned others;

	(void)state;
	merged("first");
	merged("second");
	export();
	others = count_entries() - 2;
	c = merged("third");
	unit_equal(count_entries(), others + 3);
	named("first", EXPORT_CACHE, 1);
	unit_equal(entry(named("second", EXPORT_ALIAS, 1)->of)->address, (uintptr_t)c);
	unit_equal(entry(named("third", EXPORT_ALIAS, 1)->of)->address, (uintptr_t)c);
	assert_int_equal(uslub_cache_destroy(c), 0);
	named("third", EXPORT_ALIAS, 0);
	named("second", EXPORT_ALIAS, 1);
	assert_int_equal(uslub_cache_destroy(c), 0);
	assert_int_equal(uslub_cache_destroy(c), 0);
	unit_equal(count_entries(), others);
}

/* More names than there is room for: as many are missing as do not fit, however often others change. */
static void test_no_room(void **state)
{
	unsigned room, extra = 5;
	char name[32];

	(void)state;
	c = merged("the cache");
	export();
	room = header->caches - count_entries();
	for (unsigned i = 0; i < room + extra; i++) {
		if (i == room)
			unit_equal(header->caches_missing, 0);
		snprintf(name, sizeof(name), "cache %u", i);
		assert_non_null(uslub_cache_create(name, 64, NULL));
	}
	unit_equal(count_entries(), header->caches);
	unit_equal(header->caches_missing, extra);
	merged("one more name");
	unit_equal(header->caches_missing, extra + 1);
	merged("and one");
	unit_equal(header->caches_missing, extra + 2);
	/* What is not shown works all the same, and goes. */
	snprintf(name, sizeof(name), "cache %u", room + 1);
	c = uslub_cache_find(name);
	named(name, EXPORT_CACHE, 0);
	uslub_cache_free(c, uslub_cache_alloc(c, 0));
	assert_int_equal(uslub_cache_destroy(c), 0);
	unit_equal(header->caches_missing, extra + 1);
	unit_equal(count_entries(), header->caches);
	/* The next one has a place again when another goes. */
	assert_int_equal(uslub_cache_destroy(uslub_cache_find("cache 3")), 0);
	assert_non_null(uslub_cache_create("has a place", 64, NULL));
	named("has a place", EXPORT_CACHE, 1);
}

static void work(void)
{
	while (nheld < 200)
		keep(uslub_cache_alloc(c, 0));
	while (nheld)
		uslub_cache_free(c, let_go());
}

/* Copies are renewed by slow paths, some time after they were made. */
static void test_copies(void **state)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .policy.sheaf_capacity = 4 };
	const struct export_cache *e;
	uint64_t copied;

	(void)state;
	c = uslub_cache_create("copied", 64, &args);
	export();
	e = named("copied", EXPORT_CACHE, 1);
	work();
	copied = e->copied;
	usleep(150000);
	for (unsigned i = 0; i < 2000 && e->copied == copied; i++)
		work();
	assert_true(e->copied >= copied + 100000000);
	assert_true(e->values[USLUB_STAT_alloc_fastpath] > 0);
	assert_true(e->values[USLUB_STAT_alloc_fastpath] <= stat_of(c, alloc_fastpath));
	unit_equal(e->seq % 2, 0);
}

/* ---- the descriptor, and fork --------------------------------------------------------------------- */

static bool exported(const char *directory, const char *name, char *target, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	n = readlink(path, target, size - 1);
	target[n > 0 ? n : 0] = '\0';
	return strstr(target, "memfd:" EXPORT_NAME) != NULL;
}

/* The number of the export's descriptor, of which there is none (-1) or one. */
static int find_fd(void)
{
	char name[16], target[128];
	int found = -1;

	for (int fd = 0; fd < 1200; fd++) {
		snprintf(name, sizeof(name), "%d", fd);
		if (!exported("/proc/self/fd", name, target, sizeof(target)))
			continue;
		assert_int_equal(found, -1);
		found = fd;
	}
	return found;
}

static void test_descriptor(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	export();
	fd = find_fd();
	assert_true(fd >= 500);
	unit_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	unit_equal(st.st_mode & 07777, 0600);
	unit_equal(st.st_size, EXPORT_SIZE);
	assert_int_not_equal(ftruncate(fd, 0), 0);
	assert_int_not_equal(ftruncate(fd, 2 * (off_t)EXPORT_SIZE), 0);
}

static void skip_where_forks_differ(void)
{
	if (unit_emulated())
		unit_skip("an emulator does this its own way");
}

static uint64_t shown(const char *name)
{
	return named(name, EXPORT_CACHE, 1)->values[USLUB_STAT_total_objects];
}

static int wanted_fd =
	-1; /* in the child: what it has to find at the number of the parent's descriptor */

static void in_child(void *arg)
{
	int fd = *(int *)arg;
	char text[16];

	unit_equal(find_header(), 1);
	unit_equal(header->pid, getpid());
	unit_equal(header->state, EXPORT_LIVE);
	/* The child does not spend its time on copies before it works. */
	unit_equal(named("forks", EXPORT_CACHE, 1)->copied, 0);
	for (unsigned i = 0; i < 2000 && !named("forks", EXPORT_CACHE, 1)->copied; i++)
		work();
	assert_true(shown("forks") > 0);
	/* What it does is its own. */
	assert_non_null(uslub_cache_create("child's", 64, NULL));
	named("child's", EXPORT_CACHE, 1);
	assert_int_equal(uslub_export(), 0);
	assert_true(find_fd() >= 0);
	if (wanted_fd >= 0) {
		unit_equal(pread(fd, text, 5, 0), 5);
		assert_memory_equal(text, "mine!", 5);
		assert_int_not_equal(find_fd(), fd);
	}
	unit_exit(42);
}

static void forks(int fd)
{
	char text[4000];
	int status;

	c = uslub_cache_create("forks", 64, NULL);
	keep(uslub_cache_alloc(c, 0));
	export();
	status = unit_child(in_child, &fd, text, sizeof(text), unit_scaled(600));
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
	unit_equal(header->pid, getpid());
	named("child's", EXPORT_CACHE, 0);
}

static void test_fork(void **state)
{
	(void)state;
	skip_where_forks_differ();
	forks(-1);
	assert_true(find_fd() >= 500);
}

/* The program closes all it does not know. */
static void test_fork_closed(void **state)
{
	(void)state;
	skip_where_forks_differ();
	export();
	assert_int_equal(close(find_fd()), 0);
	forks(-1);
	assert_int_equal(find_fd(), -1);
}

/* And the number goes to another file, which is not closed. */
static void test_fork_other_file(void **state)
{
	FILE *f = tmpfile();
	int fd;

	(void)state;
	skip_where_forks_differ();
	export();
	fd = find_fd();
	fputs("mine!", f);
	fflush(f);
	assert_int_equal(dup2(fileno(f), fd), fd);
	wanted_fd = fd;
	forks(fd);
}

/* ---- a fork while it begins ----------------------------------------------------------------------- */

int __real_plat_share_open(struct plat_share *s, const char *name, size_t size);
int __wrap_plat_share_open(struct plat_share *s, const char *name, size_t size);

static uint32_t slow, begun;

/* It takes long to come, if that is wanted. */
int __wrap_plat_share_open(struct plat_share *s, const char *name, size_t size)
{
	if (plat_load(&slow)) {
		plat_store(&begun, 1);
		usleep(100000);
	}
	return __real_plat_share_open(s, name, size);
}

static bool is_set(void *flag)
{
	return plat_load((uint32_t *)flag);
}

static void *exports(void *arg)
{
	assert_int_equal(uslub_export(), 0);
	return arg;
}

static void test_fork_meanwhile(void **state)
{
	pthread_t thread;
	char text[4000];
	int status, none = -1;

	(void)state;
	skip_where_forks_differ();
	if (unit_sanitized())
		unit_skip("children with threads");
	c = uslub_cache_create("forks", 64, NULL);
	keep(uslub_cache_alloc(c, 0));
	plat_store(&slow, 1);
	assert_int_equal(pthread_create(&thread, NULL, exports, NULL), 0);
	assert_true(unit_wait(is_set, &begun));
	status = unit_child(in_child, &none, text, sizeof(text), unit_scaled(200));
	pthread_join(thread, NULL);
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
}

/* ---- where it cannot be had ----------------------------------------------------------------------- */

static void limit(int which, rlim_t most)
{
	struct rlimit l;

	getrlimit(which, &l);
	l.rlim_cur = most;
	assert_int_equal(setrlimit(which, &l), 0);
}

static void test_file_size(void **state)
{
	struct rlimit before;

	(void)state;
	skip_where_forks_differ();
	getrlimit(RLIMIT_FSIZE, &before);
	limit(RLIMIT_FSIZE, EXPORT_SIZE - 1);
	assert_int_equal(uslub_export(), -EFBIG); /* and no SIGXFSZ */
	unit_equal(find_header(), 0);
	limit(RLIMIT_FSIZE, before.rlim_cur);
	export();
}

static void test_no_descriptor(void **state)
{
	struct rlimit before;
	int first;

	(void)state;
	skip_where_forks_differ();
	getrlimit(RLIMIT_NOFILE, &before);
	first = dup(0);
	close(first);
	limit(RLIMIT_NOFILE, (rlim_t)first);
	assert_int_equal(uslub_export(), -EMFILE);
	/* Few numbers: one below those that are usual. */
	limit(RLIMIT_NOFILE, 40);
	assert_int_equal(uslub_export(), 0);
	limit(RLIMIT_NOFILE, before.rlim_cur);
	export();
	assert_in_range(find_fd(), 20, 39);
}

/* A child of which it cannot be had shows nothing, least of all its parent's. */
static void without_descriptor(void *arg)
{
	uint32_t *parents = arg;

	unit_equal(find_header(), 0);
	unit_equal(*parents, 0); /* private memory at the same address */
	c = uslub_cache_create("not seen", 64, NULL);
	uslub_cache_free(c, uslub_cache_alloc(c, 0));
	assert_int_equal(uslub_cache_destroy(c), 0);
	assert_int_equal(uslub_export(), -EFBIG);
	limit(RLIMIT_FSIZE, RLIM_INFINITY);
	export();
	unit_exit(42);
}

static void test_fork_without_descriptor(void **state)
{
	uint32_t *pid;
	char text[4000];
	struct rlimit before;
	int status;

	(void)state;
	skip_where_forks_differ();
	export();
	pid = (uint32_t *)&header->pid;
	getrlimit(RLIMIT_FSIZE, &before);
	limit(RLIMIT_FSIZE, EXPORT_SIZE - 1);
	status = unit_child(without_descriptor, pid, text, sizeof(text), unit_scaled(600));
	limit(RLIMIT_FSIZE, before.rlim_cur);
	if (status != 42 << 8)
		fail_msg("status %#x: %s", status, text);
	unit_equal(*pid, getpid());
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_objects, UNIT_BOTH),
		UNIT_TEST(test_objects_two_nodes, UNIT_FAKED),
		UNIT_TEST(test_stash_part, UNIT_BOTH),
		UNIT_TEST(test_pending, UNIT_BOTH),
		UNIT_TEST(test_used, UNIT_FAKED),
		UNIT_TEST(test_used_random, UNIT_BOTH),
		UNIT_TEST(test_directory, UNIT_BOTH),
		UNIT_TEST(test_aliases, UNIT_BOTH),
		UNIT_TEST(test_no_room, UNIT_SHARED),
		UNIT_TEST(test_copies, UNIT_ALL),
		UNIT_TEST(test_descriptor, UNIT_REAL),
		UNIT_TEST(test_fork, UNIT_BOTH),
		UNIT_TEST(test_fork_closed, UNIT_SHARED),
		UNIT_TEST(test_fork_other_file, UNIT_SHARED),
		UNIT_TEST(test_fork_meanwhile, UNIT_SHARED),
		UNIT_TEST(test_file_size, UNIT_SHARED),
		UNIT_TEST(test_no_descriptor, UNIT_SHARED),
		UNIT_TEST(test_fork_without_descriptor, UNIT_SHARED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
