/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <ftw.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "unit.h"
#include "cache/internal.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#define TEST_SECONDS 300 /* a test that hangs is ended, also where everything is slow */
#define WAIT_SECONDS 20

/* One for each thread, at the same distance from its thread pointer; unregistered at first. */
static __thread struct rseq fake = { .cpu_id_start = 0, .cpu_id = (uint32_t)-1 };

static unsigned mode;
static uint64_t random_state = 1;

/* ---- machine -------------------------------------------------------------------------------------- */

unsigned unit_mode(void)
{
	return mode;
}

void unit_on_cpu(int cpu)
{
	fake.cpu_id = (uint32_t)cpu;
}

/* The test's own thread stays where it is, so that it always meets the same slot. */
static void pin(void)
{
	cpu_set_t set, one;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set)) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			return;
		}
}

/* The library registers with membarrier only where it found rseq. */
static bool can_fake(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

static void enter_mode(void)
{
	if (mode == UNIT_REAL)
		return;
	plat_test_fake_rseq(&fake, mode == UNIT_FAKED ? plat_ncpu() : 0);
	unit_on_cpu(mode == UNIT_FAKED ? 0 : -1);
}

void unit_directory(char *root, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(root, size, "%s/uslub-unit-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(root)) {
		perror(root);
		exit(1);
	}
}

void unit_file(const char *root, const char *path, const char *text)
{
	char name[512];
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *slash = strchr(name + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(name, 0777);
		*slash = '/';
	}
	f = fopen(name, "w");
	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(name);
		exit(1);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void unit_remove(const char *root)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void unit_machine(const char *possible, const char *present, const char *const *nodes,
		  unsigned nnodes)
{
	char root[256], path[64], list[32];

	unit_directory(root, sizeof(root));
	unit_file(root, "devices/system/cpu/possible", possible);
	unit_file(root, "devices/system/cpu/present", present ? present : possible);
	snprintf(list, sizeof(list), nnodes > 1 ? "0-%u" : "0", nnodes - 1);
	unit_file(root, "devices/system/node/possible", list);
	for (unsigned n = 0; n < nnodes; n++) {
		snprintf(path, sizeof(path), "devices/system/node/node%u/cpulist", n);
		unit_file(root, path, nodes[n]);
	}
	plat_test_topology(root);
	unit_remove(root);
	enter_mode();
}

/* ---- children ------------------------------------------------------------------------------------- */

static void no_core(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
}

static size_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	char rest[512];
	ssize_t n;

	for (;;) {
		if (len < size - 1)
			n = read(fd, text + len, size - 1 - len);
		else
			n = read(fd, rest, sizeof(rest));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (len < size - 1)
			len += (size_t)n;
	}
	text[len] = '\0';
	return len;
}

int unit_child(void (*fn)(void *), void *arg, char *text, size_t size, unsigned seconds)
{
	int fds[2], status;
	pid_t pid;

	if (pipe(fds))
		return -1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		no_core();
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		signal(SIGALRM, SIG_DFL);
		signal(SIGABRT, SIG_DFL);
		alarm(seconds);
		fn(arg);
		unit_exit(0);
	}
	close(fds[1]);
	read_all(fds[0], text, size);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

/* ThreadSanitizer would sleep for a second in _exit(). */
void unit_exit(int code)
{
	syscall(SYS_exit_group, code);
	abort();
}

void unit_dies(void (*fn)(void *), void *arg, const char *words)
{
	char text[4096];
	int status = unit_child(fn, arg, text, sizeof(text), unit_scaled(600));

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, words))
		fail_msg("wanted an abort with \"%s\"; status %#x, it said: %s", words, status,
			 text);
}

unsigned unit_occurrences(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

void unit_skip(const char *why)
{
	printf("%s\n", why);
	exit(77);
}

/* ---- small things --------------------------------------------------------------------------------- */

bool unit_wait(bool (*condition)(void *), void *arg)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	time_t end = time(NULL) + WAIT_SECONDS;

	while (!condition(arg)) {
		if (time(NULL) > end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

unsigned unit_scaled(unsigned n)
{
	return unit_slow() ? (n + 9) / 10 : n;
}

bool unit_slow(void)
{
	return unit_under_valgrind() || unit_tsan() || getenv("USLUB_TEST_QUICK");
}

/* Such an emulator pretends to limit memory, or it would limit its own. */
bool unit_emulated(void)
{
	struct rlimit before, some = { 0 }, then;

	if (getrlimit(RLIMIT_DATA, &before))
		return true;
	some = before;
	some.rlim_cur = (rlim_t)1 << 40;
	if (setrlimit(RLIMIT_DATA, &some) || getrlimit(RLIMIT_DATA, &then))
		return true;
	setrlimit(RLIMIT_DATA, &before);
	return then.rlim_cur != some.rlim_cur;
}

bool unit_tsan(void)
{
#if defined(__SANITIZE_THREAD__)
	return true;
#elif defined(__has_feature)
	return __has_feature(thread_sanitizer);
#else
	return false;
#endif
}

bool unit_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__)
	return true;
#elif defined(__has_feature)
	return unit_tsan() || __has_feature(address_sanitizer);
#else
	return unit_tsan();
#endif
}

bool unit_under_valgrind(void)
{
	return RUNNING_ON_VALGRIND;
}

size_t unit_mapped(void)
{
	size_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%zu", &pages) != 1)
		fail_msg("/proc/self/statm");
	fclose(f);
	return pages << plat_page_shift();
}

void unit_seed(uint64_t seed)
{
	random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

uint64_t unit_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned unit_below(unsigned n)
{
	return (unsigned)((unit_random() >> 32) * n >> 32);
}

void unit_equal_at(uint64_t a, uint64_t b, const char *what, const char *wanted, const char *file,
		   int line)
{
	if (a == b)
		return;
	print_error("%s is %jd (%#jx), not %s = %jd\n", what, (intmax_t)a, (uintmax_t)a, wanted,
		    (intmax_t)b);
	_fail(file, line);
}

/* ---- caches --------------------------------------------------------------------------------------- */

uint64_t unit_stat(const struct uslub_cache *c, enum uslub_stat which)
{
	uint64_t value;

	assert_int_equal(uslub_cache_stat(c, which, &value), 0);
	return value;
}

struct held {
	uint64_t objects, sheaves;
};

static void add_slot(struct held *h, const struct percpu_slot *slot)
{
	const struct uslub_sheaf *other = slot->sheaf[!word_which(slot->word)];

	h->objects += word_avail(slot->word) + (other ? other->fill : 0);
	h->sheaves += (slot->sheaf[0] != NULL) + (slot->sheaf[1] != NULL);
}

static void add_stack(struct held *h, const struct uslub_sheaf *s, bool one)
{
	for (; s; s = one ? NULL : s->next) {
		h->objects += s->fill;
		h->sheaves++;
	}
}

/* What a walk finds on the lists and stacks of a node: every slab with free objects, when all is quiet. */
struct walk {
	uint64_t listed, listed_objects, listed_free;
	uint64_t parked, parked_free, parked_empty;
};

static void walk_stack(struct walk *w, const struct slab *slab, const char *name, int line)
{
	for (; slab; slab = slab->next) {
		unit_equal_at(state_where(slab->state), SLAB_PARKED, "a parked slab", "PARKED",
			      name, line);
		w->parked++;
		w->parked_free += slab->objects - state_inuse(slab->state);
		w->parked_empty += !state_inuse(slab->state);
	}
}

static void walk_node(struct node *n, struct walk *w, const char *name, int line)
{
	struct slab *slab;

	*w = (struct walk){ 0 };
	plat_lock(&n->list_lock.lock);
	list_for_each_entry(slab, &n->partial, link) {
		unit_equal_at(state_where(slab->state), SLAB_LISTED, "a listed slab", "LISTED",
			      name, line);
		w->listed++;
		w->listed_objects += slab->objects;
		w->listed_free += slab->objects - state_inuse(slab->state);
	}
	plat_unlock(&n->list_lock.lock);
	for (unsigned i = 0; i < n->park.nshards; i++) {
		walk_stack(w, n->park.shards[i].young, name, line);
		walk_stack(w, n->park.shards[i].old, name, line);
	}
}

void unit_check_node_at(struct node *n, const char *name, int line)
{
	struct node_gauges g;
	struct walk w;

	walk_node(n, &w, name, line);
	unit_equal_at(park_count(&n->park), w.parked, "parked slabs by count", "by walk", name,
		      line);
	unit_equal_at((uint64_t)n->parked_empty, w.parked_empty, "empty parked slabs by count",
		      "by walk", name, line);
	unit_equal_at(n->nr_partial, w.listed, "nr_partial", "the length of the list", name, line);
	node_gauges(n, &g);
	if (n->counting == NODE_COUNT_SCAN)
		walk_node(n, &w, name, line); /* it lists what was parked */
	unit_equal_at(g.partial, w.listed, "partial", "the length of the list", name, line);
	unit_equal_at(g.objects, g.total_objects - w.listed_free - w.parked_free, "objects",
		      "by walk", name, line);
	unit_equal_at(g.objects_partial, w.listed_objects - w.listed_free, "objects_partial",
		      "by walk", name, line);
	unit_equal_at(g.slabs, n->nr_slabs, "slabs", "nr_slabs", name, line);
}

static void check_parking(struct uslub_cache *c, int line)
{
	unit_equal_at(stat_of(c, park),
		      stat_of(c, unpark_refill) + stat_of(c, unpark_list) +
			      stat_of(c, unpark_discard) + stat_of(c, parked),
		      "slabs parked", "those unparked and those that still are", c->name, line);
}

static void check_stashes(struct uslub_cache *c, int line)
{
	unit_equal_at(stat_of(c, stash_put),
		      stat_of(c, stash_get) + stat_of(c, stash_trim) + stat_of(c, stashed),
		      "sheaves stashed", "those taken, those trimmed and those that still are",
		      c->name, line);
}

void unit_check_cache_at(struct uslub_cache *c, uint64_t live, uint64_t prefilled, uint64_t failed,
			 int line)
{
	struct held h = { 0, prefilled };
	uint64_t outside = stat_of(c, objects);

	for (unsigned cpu = 0; cpu < c->nslots; cpu++) {
		add_slot(&h, &pcs_of(&c->slots, cpu)->main);
		add_slot(&h, &pcs_of(&c->slots, cpu)->rcu);
		if (c->stashes)
			add_stack(&h, stash_top(&c->stashes[cpu]), false);
	}
	for (unsigned n = 0; n < plat_nnodes(); n++) {
		plat_lock(&c->barns[n].lock.lock);
		add_stack(&h, c->barns[n].full, false);
		for (const struct uslub_sheaf *s = c->barns[n].full; s; s = s->next)
			unit_equal_at(sheaf_room(s), 0, "room in a full sheaf", "none", c->name,
				      line);
		add_stack(&h, c->barns[n].empty, false);
		add_stack(&h, c->barns[n].partial, true);
		plat_unlock(&c->barns[n].lock.lock);
	}
	for (unsigned n = 0; n < plat_nnodes(); n++)
		unit_check_node_at(&c->nodes[n], c->name, line);
	check_parking(c, line);
	check_stashes(c, line);
	unit_equal_at(outside, live + h.objects, "objects outside of slabs",
		      "those in hands and sheaves", c->name, line);
	unit_equal_at(stat_of(c, sheaf_refill) + stat_of(c, alloc_slowpath) - failed -
			      stat_of(c, sheaf_flush) - stat_of(c, free_slowpath),
		      outside, "what counters say was taken from slabs", "what is outside of them",
		      c->name, line);
	unit_equal_at(stat_of(c, sheaf_alloc) - stat_of(c, sheaf_free), h.sheaves,
		      "sheaves made and not freed", "sheaves that there are", c->name, line);
}

/* ---- the runner ----------------------------------------------------------------------------------- */

static const char *mode_name(unsigned m)
{
	return m == UNIT_FAKED ? "faked" : m == UNIT_SHARED ? "shared" : "real";
}

static bool wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc < 2;
}

/* In the child; cmocka prints to what is stdout and stderr there. */
static int run(const struct unit_test *t)
{
	const struct CMUnitTest one[] = { { .name = t->name, .test_func = t->fn } };
	static const char *const cpus = "0-3";

	alarm(TEST_SECONDS);
	unit_seed(1);
	if (mode == UNIT_REAL) {
		uslub_start();
		return cmocka_run_group_tests(one, NULL, NULL);
	}
	if (mode == UNIT_FAKED && !can_fake()) {
		printf("no membarrier(2) here\n");
		return 77;
	}
	if (mode == UNIT_SHARED)
		pin();
	uslub_start();
	unit_machine(cpus, NULL, &cpus, 1);
	return cmocka_run_group_tests(one, NULL, NULL);
}

static void show(FILE *f)
{
	char line[512];

	rewind(f);
	while (fgets(line, sizeof(line), f))
		fputs(line, stdout);
}

/* 0 passed, 77 skipped, else failed. */
static int run_apart(const struct unit_test *t)
{
	FILE *output = tmpfile();
	int status, result;
	pid_t pid;

	fflush(NULL);
	pid = output ? fork() : -1;
	if (!pid) {
		no_core();
		dup2(fileno(output), STDOUT_FILENO);
		dup2(fileno(output), STDERR_FILENO);
		result = run(t);
		fflush(NULL);
		if (unit_tsan())
			unit_exit(result);
		exit(result);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		perror("fork");
		return 1;
	}
	result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("%-7s %s, %s\n",
	       !result	      ? "ok"
	       : result == 77 ? "skipped"
			      : "FAILED",
	       t->name, mode_name(mode));
	if (result) {
		if (WIFSIGNALED(status))
			printf("signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
		show(output);
	}
	fclose(output);
	return result;
}

int unit_main(int argc, char **argv, const struct unit_test *tests, size_t n)
{
	unsigned passed = 0, failed = 0, skipped = 0;
	int result;

	setvbuf(stdout, NULL, _IOLBF, 0);
	unsetenv("USLUB_POLICY"); /* tests say what they want */
	for (size_t i = 0; i < n; i++) {
		if (!wanted(argc, argv, tests[i].name))
			continue;
		for (mode = UNIT_FAKED; mode <= UNIT_REAL; mode <<= 1) {
			if (!(tests[i].modes & mode))
				continue;
			result = run_apart(&tests[i]);
			passed += !result;
			skipped += result == 77;
			failed += result && result != 77;
		}
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	return failed ? 1 : passed ? 0 : 77;
}
