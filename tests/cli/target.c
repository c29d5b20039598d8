/* SPDX-License-Identifier: MIT */
/*
 * A program that is looked at by tests of `uslub snapshot --pid` and the like. It does what it is told, a line at
 * a time, and answers each with a line, which begins with "error" where it could not be done. Statistics are
 * exported when USLUB_EXPORT says so. The commands are in the table at the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu/flavor.h>
#include <uslub/uslub.h>

extern const struct rcu_flavor_struct urcu_memb_flavor;

#define CACHES	  512
#define ARGUMENTS 16
#define THREADS	  8

/* The objects of a cache that are in use; of one thread. */
struct objects {
	void **list;
	size_t n, room;
};

static struct cache {
	char name[64];
	struct uslub_cache *cache;
	struct objects live;
} caches[CACHES];

static char *arguments[ARGUMENTS]; /* of the command, the rest NULL */

static void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void answer(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static void answer_error(int error)
{
	if (error)
		answer("error %s", strerror(-error));
	else
		answer("ok");
}

static unsigned long number(unsigned which)
{
	return arguments[which] ? strtoul(arguments[which], NULL, 0) : 0;
}

/* ---- caches --------------------------------------------------------------------------------------- */

static struct cache *find(const char *name)
{
	for (unsigned i = 0; name && i < CACHES; i++)
		if (caches[i].cache && !strcmp(caches[i].name, name))
			return &caches[i];
	fprintf(stderr, "target: no cache '%s'\n", name ? name : "");
	exit(3);
}

static const struct {
	const char *name;
	size_t offset;
} policies[] = {
#define FIELD(field, name)					  { name, offsetof(struct uslub_policy, field) },
#define USLUB_POLICY_CHOICE(field, name, words, def, help)	  FIELD(field, name)
#define USLUB_POLICY_NUMBER(field, name, min, max, def, help)	  FIELD(field, name)
#define USLUB_POLICY_NUMBER_OR(field, name, word, min, max, help) FIELD(field, name)
#include <uslub/policy.def>
};

/* "merge", or the name of a policy, =, and what goes into its field. */
static bool set_option(struct uslub_cache_args *args, const char *option)
{
	size_t length = strcspn(option, "=");

	if (!strcmp(option, "merge")) {
		args->flags |= USLUB_MERGE;
		return true;
	}
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (strlen(policies[i].name) != length || strncmp(policies[i].name, option, length))
			continue;
		*(uint64_t *)((char *)&args->policy + policies[i].offset) =
			strtoull(option + length + 1, NULL, 0);
		return true;
	}
	return false;
}

static void create(void)
{
	struct uslub_cache_args args = { .args_size = sizeof(args), .rcu = &urcu_memb_flavor };
	struct cache *c = caches;

	for (unsigned i = 3; arguments[i]; i++) {
		if (!set_option(&args, arguments[i])) {
			answer("error %s", arguments[i]);
			return;
		}
	}
	while (c < caches + CACHES && c->cache)
		c++;
	if (c < caches + CACHES)
		c->cache = uslub_cache_create(arguments[1], number(2), &args);
	if (c == caches + CACHES || !c->cache) {
		answer("error %s", strerror(errno));
		return;
	}
	snprintf(c->name, sizeof(c->name), "%s", arguments[1]);
	answer("ok");
}

static void destroy(void)
{
	struct cache *c = find(arguments[1]);
	int error = uslub_cache_destroy(c->cache);

	if (!error)
		c->cache = NULL;
	answer_error(error);
}

static void shrink(void)
{
	answer_error(uslub_cache_shrink(find(arguments[1])->cache));
}

static void barrier(void)
{
	uslub_cache_barrier_rcu(find(arguments[1])->cache);
	answer("ok");
}

/* ---- objects -------------------------------------------------------------------------------------- */

static void put(struct objects *o, void *object)
{
	if (!object)
		abort();
	if (o->n == o->room) {
		o->room = 2 * o->room + 64;
		o->list = reallocarray(o->list, o->room, sizeof(*o->list));
	}
	o->list[o->n++] = object;
}

static void alloc(void)
{
	struct cache *c = find(arguments[1]);

	for (unsigned long i = 0; i < number(2); i++)
		put(&c->live, uslub_cache_alloc(c->cache, 0));
	answer("%zu", c->live.n);
}

static void free_some(void (*one)(struct uslub_cache *, void *))
{
	struct cache *c = find(arguments[1]);

	for (unsigned long i = 0; i < number(2) && c->live.n; i++)
		one(c->cache, c->live.list[--c->live.n]);
	answer("%zu", c->live.n);
}

static void free_now(void)
{
	free_some(uslub_cache_free);
}

static void free_later(void)
{
	free_some(uslub_cache_free_rcu);
}

/* Keeps one of every so many, so that nearly as many slabs are in use as before. */
static void thin(void)
{
	struct cache *c = find(arguments[1]);
	size_t left = 0;

	for (size_t i = 0; i < c->live.n; i++) {
		if (i % number(2))
			uslub_cache_free(c->cache, c->live.list[i]);
		else
			c->live.list[left++] = c->live.list[i];
	}
	c->live.n = left;
	answer("%zu", left);
}

/* ---- threads -------------------------------------------------------------------------------------- */

static struct worker {
	pthread_t thread;
	struct cache *cache;
	struct objects objects;
	unsigned long steps; /* 0: until told to stop */
	uint64_t random;
	unsigned number;
} workers[THREADS];
static unsigned nworkers;
static bool stop;

static unsigned below(struct worker *w, unsigned n)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((w->random >> 33) % n);
}

static void *take_one(struct worker *w)
{
	struct objects *o = &w->objects;
	size_t i = below(w, (unsigned)o->n);
	void *object = o->list[i];

	o->list[i] = o->list[--o->n];
	return object;
}

static void some_bulk(struct worker *w, bool grow)
{
	struct uslub_cache *c = w->cache->cache;
	size_t n = 1 + below(w, 32);
	void *objects[32];

	if (!grow && w->objects.n < n)
		return;
	if (grow && uslub_cache_alloc_bulk(c, 0, n, objects))
		abort();
	for (size_t i = 0; i < n; i++) {
		if (grow)
			put(&w->objects, objects[i]);
		else
			objects[i] = take_one(w);
	}
	if (!grow)
		uslub_cache_free_bulk(c, n, objects);
}

static void some_prefilled(struct worker *w)
{
	struct uslub_cache *c = w->cache->cache;
	struct uslub_sheaf *s = uslub_cache_prefill_sheaf(c, 0, 1 + below(w, 20));

	if (!s)
		abort();
	put(&w->objects, uslub_cache_alloc_from_sheaf(c, 0, s));
	uslub_cache_return_sheaf(c, 0, s);
}

static void random_step(struct worker *w)
{
	struct uslub_cache *c = w->cache->cache;
	bool grow = w->objects.n < 40 || (w->random >> 60 < 8 && w->objects.n < 3000);
	unsigned what = below(w, 64);

	if (what < 4)
		some_bulk(w, grow);
	else if (what < 6)
		some_prefilled(w);
	else if (what == 6 && !below(w, 20))
		uslub_cache_shrink(c);
	else if (grow)
		put(&w->objects, uslub_cache_alloc(c, 0));
	else if (what < 24)
		uslub_cache_free_rcu(c, take_one(w));
	else
		uslub_cache_free(c, take_one(w));
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	cpu_set_t set;

	/* CPUs are taken in turn, as far as there are any. */
	CPU_ZERO(&set);
	CPU_SET(w->number % (unsigned)sysconf(_SC_NPROCESSORS_CONF), &set);
	sched_setaffinity(0, sizeof(set), &set);
	for (unsigned long i = 0;
	     w->steps ? i < w->steps : !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++)
		random_step(w);
	return NULL;
}

static void start_workers(unsigned n, unsigned long steps)
{
	struct cache *c = find(arguments[1]);

	stop = false;
	for (nworkers = 0; nworkers < n && nworkers < THREADS; nworkers++) {
		struct worker *w = &workers[nworkers];

		*w = (struct worker){
			.cache = c, .steps = steps, .random = nworkers + 1, .number = nworkers
		};
		if (pthread_create(&w->thread, NULL, run_worker, w))
			abort();
	}
}

/* What they have is the main thread's afterwards. */
static void end_workers(void)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < nworkers; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		while (w->objects.n)
			put(&w->cache->live, w->objects.list[--w->objects.n]);
		free(w->objects.list);
	}
	nworkers = 0;
}

static void work(void)
{
	start_workers((unsigned)number(2), number(3));
	end_workers();
	answer("%zu", find(arguments[1])->live.n);
}

static void busy(void)
{
	start_workers((unsigned)number(2), 0);
	answer("ok");
}

static void quiet(void)
{
	end_workers();
	answer("ok");
}

/* ---- the process ---------------------------------------------------------------------------------- */

static void export(void)
{
	answer_error(uslub_export());
}

static void snapshot(void)
{
	int fd = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int error = fd < 0 ? -errno : uslub_snapshot_write(fd);

	close(fd);
	answer_error(error);
}

static void pid(void)
{
	answer("%d", (int)getpid());
}

/* The child hears the commands from here on, until it ends. */
static void forks(void)
{
	pid_t child = fork();

	if (!child)
		pid();
	else
		waitpid(child, NULL, 0);
}

/* A child that the library hears nothing of; it does nothing, and ends with its parent. */
static void raw_clone(void)
{
	long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	answer("%ld", child);
}

static void exec(void)
{
	if (!arguments[1])
		unsetenv("USLUB_EXPORT");
	execl("/proc/self/exe", "target", NULL);
	answer("error %s", strerror(errno));
}

/* Closes the descriptor of what is exported. */
static void close_export(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int found = -1;

	while (dir && (e = readdir(dir))) {
		char target[256];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		if (strstr(target, "memfd:uslub-export"))
			found = atoi(e->d_name);
	}
	closedir(dir);
	answer_error(close(found) ? -errno : 0);
}

static void end(void)
{
	exit(0);
}

static void dies(void)
{
	abort();
}

static void hang(void)
{
	answer("ok");
	for (;;)
		pause();
}

static const struct command {
	const char *name;
	void (*fn)(void);
} commands[] = {
	{ "export", export },
	{ "create", create },	/* NAME SIZE [OPTION]... */
	{ "destroy", destroy }, /* NAME; so with all where a name is wanted */
	{ "shrink", shrink },
	{ "barrier", barrier },
	{ "alloc", alloc },	    /* NAME N */
	{ "free", free_now },	    /* NAME N */
	{ "free-rcu", free_later }, /* NAME N */
	{ "thin", thin },	    /* NAME N */
	{ "work", work },	    /* NAME THREADS STEPS */
	{ "busy", busy },	    /* NAME THREADS */
	{ "quiet", quiet },
	{ "snapshot", snapshot }, /* FILE */
	{ "pid", pid },
	{ "fork", forks },
	{ "raw-clone", raw_clone },
	{ "exec", exec }, /* [keep]: the environment */
	{ "close-export", close_export },
	{ "exit", end },
	{ "abort", dies },
	{ "hang", hang },
};

static void obey(char *line)
{
	memset(arguments, 0, sizeof(arguments));
	for (unsigned i = 0; i < ARGUMENTS - 1; i++)
		arguments[i] = strtok(i ? NULL : line, " \n");
	for (size_t i = 0; arguments[0] && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, arguments[0]))
			continue;
		commands[i].fn();
		return;
	}
	answer("error: what is '%s'?", arguments[0] ? arguments[0] : "");
}

int main(void)
{
	char line[1024];

	/* Unbuffered, so that a child reads on where its parent stopped. */
	setvbuf(stdin, NULL, _IONBF, 0);
	answer("ready");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
