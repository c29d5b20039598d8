/* SPDX-License-Identifier: MIT */
/*
 * `uslub bench mmap1 --kernel`: what the workload of this name imitates, done by the kernel itself.
 *
 * 1. The work
 *
 * Every task maps private anonymous memory and unmaps it, over and over, and touches nothing of it. It is the
 * loop of the benchmark of this name in will-it-scale. What costs is the tree of the task's mappings, whose
 * nodes come from the kernel's cache maple_node, and the mapping itself, from vm_area_struct. Threads share one
 * tree, and wait for each other's changes; processes have one each.
 *
 * 2. The measurement
 *
 * Tasks begin when all are there, and count what they did, each on a cache line of its own. The sum is read
 * when the time is over, while they still run.
 *
 * 3. The caches
 *
 * The kernel's statistics are read before the first round and after the last. They are the whole machine's:
 * whatever else runs is in them. The tables of both readings are those that are printed of uslub's caches.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"
#include "numbers.h"
#include "sheet.h"
#include "snapshot.h"
#include "snapshot_rows.h"
#include "table.h"
#include "text.h"
#include "tool.h"

/* The caches that the work is about. */
static const char *const wanted[] = { "maple_node", "vm_area_struct" };

static const char *const labels[] = { "before", "after" };

/* Work that is over sooner than this shows no progress. */
#define PROGRESS_AFTER_S 2.0

/* How long one sleeps before one looks again. */
#define TASK_LOOK_NS 100000u
#define LOOK_NS	     10000000u

/*
 * struct task - one that works
 * @ops: done so far; only the task writes it
 * @cpu: to be pinned to, or -1
 */
struct task {
	_Alignas(64) _Atomic uint64_t ops;
	struct stage *stage;
	int cpu;
	pthread_t thread;
	pid_t process;
};

/*
 * struct stage - what the tasks of a round share, processes too
 * @ready: tasks that wait for @go
 * @go: they shall begin
 * @stop: and end
 * @error: errno of one that could not, or 0
 * @failed: what it could not do
 */
struct stage {
	_Atomic unsigned ready;
	_Atomic bool go;
	_Atomic bool stop;
	_Atomic int error;
	const char *_Atomic failed;
	size_t size;
	unsigned count;
	struct task tasks[];
};

/*
 * struct kernel - the whole measurement
 * @b, @run: throughput, as of any other
 * @before, @after: the kernel's caches
 */
struct kernel {
	const struct bench_options *o;
	struct bench b;
	struct bench_run run;
	struct snapshot *before;
	struct snapshot *after;
};

/* ---- A task ---- */

static void sleep_ns(long ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

static void fail(struct stage *stage, const char *failed, int error)
{
	atomic_store(&stage->failed, failed);
	atomic_store(&stage->error, error);
}

/* CPU numbers may be sparse and large, so the set is made to measure. */
static int pin_to(int cpu)
{
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	int error;

	if (!set)
		return ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)cpu, size, set);
	error = sched_setaffinity(0, size, set) ? errno : 0;
	CPU_FREE(set);
	return error;
}

static void *work(void *arg)
{
	struct task *task = arg;
	struct stage *stage = task->stage;
	int error = task->cpu >= 0 ? pin_to(task->cpu) : 0;
	uint64_t ops = 0;

	if (error)
		fail(stage, "pin a task to a CPU", error);
	atomic_fetch_add(&stage->ready, 1);
	while (!atomic_load(&stage->go) && !atomic_load(&stage->stop))
		sleep_ns(TASK_LOOK_NS);
	while (!atomic_load_explicit(&stage->stop, memory_order_relaxed)) {
		void *memory = mmap(NULL, stage->size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED || munmap(memory, stage->size)) {
			fail(stage, "map memory (a smaller --size may do)", errno);
			break;
		}
		atomic_store_explicit(&task->ops, ++ops, memory_order_relaxed);
	}
	return NULL;
}

/* ---- All tasks of a round ---- */

static size_t stage_bytes(unsigned count)
{
	return sizeof(struct stage) + count * sizeof(struct task);
}

static struct stage *new_stage(const struct bench_options *o)
{
	struct stage *stage = mmap(NULL, stage_bytes(o->threads), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned n;
	int *cpus;

	if (stage == MAP_FAILED)
		return NULL;
	n = bench_online_cpus(&cpus);
	stage->size = o->size;
	for (unsigned i = 0; i < o->threads; i++) {
		stage->tasks[i].stage = stage;
		stage->tasks[i].cpu = o->pin ? cpus[i % n] : -1;
	}
	free(cpus);
	return stage;
}

/* A child that must not outlive the program, and that Ctrl-C is not for: the program tells it when to end. */
static int start_process(struct task *task)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		return errno;
	if (child) {
		/* The task is shared, so only one side may write this. */
		task->process = child;
		return 0;
	}
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		work(task);
	_exit(0);
}

static void start_tasks(struct stage *stage, const struct bench_options *o)
{
	for (unsigned i = 0; i < o->threads && !stage->error; i++) {
		struct task *task = &stage->tasks[i];
		int error = o->processes ? start_process(task)
					 : pthread_create(&task->thread, NULL, work, task);

		if (error)
			fail(stage, o->processes ? "start a process" : "start a thread", error);
		else
			stage->count++;
	}
}

static void end_tasks(struct stage *stage, const struct bench_options *o)
{
	atomic_store(&stage->stop, true);
	for (unsigned i = 0; i < stage->count; i++) {
		struct task *task = &stage->tasks[i];
		int status = 0;

		if (!o->processes)
			pthread_join(task->thread, NULL);
		else
			while (waitpid(task->process, &status, 0) < 0 && errno == EINTR)
				;
		if (status)
			fail(stage, "keep a process, which was ended by a signal,", ECHILD);
	}
}

static bool to_go_on(const struct stage *stage)
{
	return !stage->error && !bench_interrupted();
}

static void show_progress(const struct kernel *k, uint64_t begin, bool wipe)
{
	const struct bench_options *o = k->o;
	double left = o->seconds * o->repeat;

	if (o->no_progress || !tool_terminal(stderr) || left < PROGRESS_AFTER_S)
		return;
	fprintf(stderr, "\r\033[K");
	if (!wipe)
		fprintf(stderr, "round %u of %u, %.0f of %g s", k->b.rounds, o->repeat,
			(double)(tool_now_ns() - begin) / 1e9, o->seconds);
	fflush(stderr);
}

/* Lets the tasks run for the time, and reads what they did. */
static void measure(const struct kernel *k, struct stage *stage, struct bench_result *result)
{
	uint64_t begin, length = (uint64_t)(k->o->seconds * 1e9), passed = 0;

	while (stage->ready < stage->count && to_go_on(stage))
		sleep_ns(TASK_LOOK_NS);
	begin = tool_now_ns();
	atomic_store(&stage->go, true);
	while (passed < length && to_go_on(stage)) {
		sleep_ns((long)(length - passed < LOOK_NS ? length - passed : LOOK_NS));
		passed = tool_now_ns() - begin;
		show_progress(k, begin, false);
	}
	for (unsigned i = 0; i < stage->count; i++)
		result->ops += atomic_load_explicit(&stage->tasks[i].ops, memory_order_relaxed);
	result->ns = tool_now_ns() - begin;
	show_progress(k, begin, true);
}

static int run_round(const struct kernel *k, struct bench_result *result)
{
	struct stage *stage = new_stage(k->o);
	int error;

	if (!stage) {
		tool_error("cannot share memory with tasks: %s", strerror(errno));
		return TOOL_EXIT_USAGE;
	}
	start_tasks(stage, k->o);
	measure(k, stage, result);
	end_tasks(stage, k->o);
	error = stage->error;
	if (error)
		tool_error("cannot %s: %s", stage->failed, strerror(error));
	result->valid = !error && result->ops;
	result->partial = bench_interrupted();
	munmap(stage, stage_bytes(k->o->threads));
	return error ? TOOL_EXIT_USAGE : 0;
}

static int measure_all(struct kernel *k)
{
	int error = 0;

	k->before = snapshot_kernel(NULL);
	if (!k->before)
		return TOOL_EXIT_USAGE;
	for (unsigned i = 0; i < k->o->repeat && !error && !bench_interrupted(); i++) {
		k->b.rounds = i + 1;
		error = run_round(k, &k->run.results[i]);
	}
	k->b.interrupted = bench_interrupted();
	if (error)
		return error;
	k->after = snapshot_kernel(NULL);
	return k->after ? 0 : TOOL_EXIT_USAGE;
}

/* ---- What is said about the caches ---- */

/* A cache of both readings; false: it is not there. */
static bool find_pair(const struct kernel *k, unsigned which, const struct snapshot_cache *pair[])
{
	pair[0] = snapshot_find(k->before, wanted[which]);
	pair[1] = snapshot_find(k->after, wanted[which]);
	return pair[0] && pair[1];
}

/* Whether there is anything but gauges. */
static bool counted(const struct snapshot_cache *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		int which = c->values[i].which;
		int kind = which < 0 ? -1 : uslub_stat_kind((enum uslub_stat)which);

		if (kind == USLUB_STAT_KIND_COUNTER || kind == USLUB_STAT_KIND_DERIVED)
			return true;
	}
	return false;
}

/* "maple_node", or "vm_area_struct, merged with filp, cred", for the caller to free. */
static char *title_of(const char *name, const struct snapshot_cache *c)
{
	char *title = tool_copy(name);
	unsigned others = 0;

	for (unsigned i = 0; i <= c->aliases_count; i++) {
		const char *other = i ? c->aliases[i - 1] : c->name;
		char *longer;

		if (!strcmp(other, name) || *other == ':')
			continue;
		longer = tool_format("%s%s%s", title, others++ ? ", " : ", merged with ", other);
		free(title);
		title = longer;
	}
	return title;
}

/* Calls @say with each thing that the reader must know. */
static void say_notes(const struct kernel *k, void (*say)(const char *note, void *arg), void *arg)
{
	const struct snapshot_cache *pair[2];
	bool without_counters = false;
	char *note;

	if (k->after->note)
		say(k->after->note, arg);
	for (unsigned i = 0; i < TOOL_COUNT(wanted); i++) {
		if (find_pair(k, i, pair)) {
			without_counters |= !counted(pair[1]);
			continue;
		}
		note = tool_format("this kernel has no cache %s", wanted[i]);
		say(note, arg);
		free(note);
	}
	if (without_counters)
		say("there are no counters: the kernel is built without CONFIG_SLUB_STATS, or only "
		    "/proc/slabinfo can be read",
		    arg);
}

static const char *release(const struct kernel *k)
{
	const struct snapshot_fact *fact = snapshot_fact(k->before, "release");

	return fact && fact->text ? fact->text : "";
}

static const char *tasks_word(const struct bench_options *o)
{
	static const char *const words[2][2] = { { "threads", "thread" },
						 { "processes", "process" } };

	return words[o->processes][o->threads == 1];
}

static double round_throughput(const struct bench_result *r)
{
	return (double)r->ops * 1e9 / (double)r->ns;
}

/* ---- The report for people ---- */

static void print_note(const char *note, void *arg)
{
	char *shown = text_shown(note);

	fprintf(arg, "(%s)\n", shown);
	free(shown);
}

static void print_title(const struct kernel *k, FILE *out)
{
	const struct bench_options *o = k->o;
	char *bytes = numbers_bytes((double)o->size);

	fprintf(out,
		"mmap1 in the kernel %s: %s mapped and unmapped, %u %s%s, %u round%s of %g s\n",
		release(k), bytes, o->threads, tasks_word(o), o->pin ? " pinned to CPUs" : "",
		o->repeat, o->repeat == 1 ? "" : "s", o->seconds);
	free(bytes);
	if (k->b.interrupted)
		fprintf(out, "interrupted: this is what was measured until then\n");
	say_notes(k, print_note, out);
}

static void print_rounds(const struct kernel *k, FILE *out, unsigned width, const char *bold,
			 const char *plain)
{
	static const unsigned widths[] = { 12, 15 };
	const struct bench_spread s = bench_throughput(&k->b, &k->run);
	const double values[] = { s.median, s.min, s.max, s.mean };
	static const char *const names[] = { "median", "min", "max", "mean" };
	struct table *table = table_new(TOOL_COUNT(widths), widths);

	table_add(table, tool_copy("round"));
	table_add(table, tool_copy("ops/s"));
	for (unsigned i = 0; i < k->o->repeat; i++) {
		if (!k->run.results[i].valid)
			continue;
		table_add(table, tool_format("%u", i + 1));
		table_add(table, numbers_thousands(round_throughput(&k->run.results[i])));
	}
	for (unsigned i = 0; i < TOOL_COUNT(names); i++) {
		table_add(table, tool_copy(names[i]));
		table_add(table, numbers_thousands(values[i]));
	}
	fputc('\n', out);
	table_print(table, out, width, 0, bold, plain);
	table_free(table);
}

static void print_text(const struct kernel *k, FILE *out)
{
	unsigned width = tool_width(stdout);
	const char *bold = tool_colour(stdout) ? "\033[1m" : "";
	const char *plain = tool_colour(stdout) ? "\033[0m" : "";
	const struct snapshot_cache *pair[2];

	print_title(k, out);
	print_rounds(k, out, width, bold, plain);
	for (unsigned i = 0; i < TOOL_COUNT(wanted); i++) {
		struct report rows;
		char *title, *shown;

		if (!find_pair(k, i, pair))
			continue;
		rows = snapshot_rows(pair[0], pair[1]);
		title = title_of(wanted[i], pair[1]);
		shown = text_shown(title);
		fprintf(out, "\n%s, before the first round and after the last\n", shown);
		report_text(&rows, labels, out, width, bold, plain);
		free(shown);
		free(title);
		report_free(&rows);
	}
}

/* ---- Reports for programs ---- */

/* No more digits than a measurement can have. */
static json_t *json_number(double value)
{
	return json_integer((json_int_t)round(value));
}

static json_t *json_throughput(const struct kernel *k)
{
	const struct bench_spread s = bench_throughput(&k->b, &k->run);
	json_t *rounds = json_array();

	for (unsigned i = 0; i < k->o->repeat; i++) {
		if (k->run.results[i].valid)
			json_array_append_new(rounds,
					      json_number(round_throughput(&k->run.results[i])));
	}
	return json_pack("{s:s, s:o, s:o, s:o, s:o}", "unit", "ops/s", "median",
			 json_number(s.median), "min", json_number(s.min), "max",
			 json_number(s.max), "rounds", rounds);
}

static json_t *json_values(const struct snapshot_cache *c)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < c->count; i++)
		json_object_set_new(object, c->values[i].name,
				    json_integer((json_int_t)c->values[i].value));
	return object;
}

static json_t *json_caches(const struct kernel *k)
{
	const struct snapshot_cache *pair[2];
	json_t *caches = json_array();

	for (unsigned i = 0; i < TOOL_COUNT(wanted); i++) {
		if (find_pair(k, i, pair))
			json_array_append_new(caches, json_pack("{s:s, s:s, s:o, s:o}", "name",
								wanted[i], "cache", pair[1]->name,
								"before", json_values(pair[0]),
								"after", json_values(pair[1])));
	}
	return caches;
}

static void add_json_note(const char *note, void *arg)
{
	json_array_append_new(arg, json_string(note));
}

static void print_json(const struct kernel *k, FILE *out)
{
	const struct bench_options *o = k->o;
	json_t *notes = json_array(), *document;

	say_notes(k, add_json_note, notes);
	document = json_pack(
		"{s:s, s:i, s:s, s:s, s:s, s:s, s:i, s:b, s:I, s:[{s:s, s:o}], s:o, s:o}", "format",
		"uslub-bench", "version", 1, "workload", o->workload->name, "source", "kernel",
		"release", release(k), "tasks", o->processes ? "processes" : "threads", "count",
		(int)o->threads, "pinned", (int)o->pin, "size", (json_int_t)o->size, "runs",
		"label", "kernel", "throughput", json_throughput(k), "caches", json_caches(k),
		"notes", notes);
	if (k->b.interrupted)
		json_object_set_new(document, "interrupted", json_true());
	json_dumpf(document, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(document);
}

/* Throughput, then a table for each cache after an empty line, headed by the cache's name. */
static void print_sheet(const struct kernel *k, FILE *out, bool markdown)
{
	static const char *const one[] = { "kernel" };
	static const char *const heading[] = { "before", "after", "delta", "change" };
	const double median = round(bench_throughput(&k->b, &k->run).median);
	struct sheet sheet = { .out = out, .markdown = markdown, .columns = 1 };
	const struct snapshot_cache *pair[2];

	sheet_heading(&sheet, one);
	for (unsigned i = 0; i < k->o->repeat; i++) {
		const struct bench_result *r = &k->run.results[i];
		double value = r->valid ? round(round_throughput(r)) : 0;
		char *name = tool_format("ops/s round %u", i + 1);

		if (r->valid)
			sheet_numbers(&sheet, "throughput", name, &value);
		free(name);
	}
	sheet_numbers(&sheet, "throughput", "ops/s median", &median);
	sheet.columns = 2;
	for (unsigned i = 0; i < TOOL_COUNT(wanted); i++) {
		struct report rows;

		if (!find_pair(k, i, pair))
			continue;
		rows = snapshot_rows(pair[0], pair[1]);
		fputc('\n', out);
		sheet_head(&sheet, wanted[i], heading, TOOL_COUNT(heading));
		sheet_report(&sheet, &rows);
		report_free(&rows);
	}
}

/* ---- All of it ---- */

static int print_all(const struct kernel *k)
{
	struct tool_text text;
	FILE *out;
	int error;

	tool_text_begin(&text);
	out = text.out;
	switch (k->o->format) {
	case REPORT_TABLE:
		print_text(k, out);
		break;
	case REPORT_JSON:
		print_json(k, out);
		break;
	case REPORT_CSV:
	case REPORT_MARKDOWN:
		print_sheet(k, out, k->o->format == REPORT_MARKDOWN);
		break;
	}
	error = tool_text_show(&text, NULL);
	/* A table and JSON say it themselves. */
	if (k->o->format == REPORT_CSV || k->o->format == REPORT_MARKDOWN)
		say_notes(k, print_note, stderr);
	return error;
}

static int finish(const struct kernel *k)
{
	int error;

	if (!bench_throughput(&k->b, &k->run).n) {
		tool_error("%s", k->b.interrupted ? "interrupted before anything was measured"
						  : "nothing was measured: the run is too short");
		return k->b.interrupted ? TOOL_EXIT_INTERRUPTED : TOOL_EXIT_USAGE;
	}
	error = print_all(k);
	return k->b.interrupted ? TOOL_EXIT_INTERRUPTED : error;
}

int bench_kernel(const struct bench_options *options)
{
	struct kernel k = { .o = options, .b = { .options = options, .runs_count = 1 } };
	int error;

	k.b.runs = &k.run;
	k.run.threads = options->threads;
	k.run.results = tool_alloc(options->repeat, sizeof(*k.run.results));
	bench_catch_interrupts();
	error = measure_all(&k);
	if (!error)
		error = finish(&k);
	snapshot_free(k.before);
	snapshot_free(k.after);
	free(k.run.results);
	return error;
}
