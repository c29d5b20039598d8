/* SPDX-License-Identifier: MIT */
/*
 * One run of one configuration, in a process of its own: this program again, as `uslub
 * bench-worker`, with the allocator preloaded and its result on a pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "child.h"
#include "policy.h"
#include "tool.h"

#define SELF	"/proc/self/exe"
#define PRELOAD "LD_PRELOAD="

extern char **environ;

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupts++;
}

/*
 * Ctrl-C ends the measurement but not the program, which still has to print what it knows. Where
 * the signal is ignored, as in a shell's background, it stays so.
 */
void bench_catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	struct sigaction old;

	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler == SIG_IGN)
		return;
	sigaction(SIGINT, &action, NULL);
}

bool bench_interrupted(void)
{
	return interrupts > 0;
}

/* A growing list of arguments or environment entries that ends with NULL. */
struct strings {
	char **list;
	unsigned n;
};

static void add(struct strings *strings, char *text)
{
	strings->list = tool_grow(strings->list, strings->n + 2, sizeof(*strings->list));
	strings->list[strings->n++] = text;
	strings->list[strings->n] = NULL;
}

static void free_strings(struct strings *strings)
{
	for (unsigned i = 0; strings->list && strings->list[i]; i++)
		free(strings->list[i]);
	free(strings->list);
}

/* The environment, with the allocator's library before what the user preloads himself. */
static struct strings environment(const struct allocator *allocator)
{
	struct strings result = { 0 };
	char *value;

	for (char **entry = environ; *entry; entry++) {
		if (allocator->origin == ALLOCATOR_LINKED ||
		    strncmp(*entry, PRELOAD, strlen(PRELOAD)))
			add(&result, tool_copy(*entry));
	}
	if (allocator->origin != ALLOCATOR_LINKED) {
		value = child_preload(allocator->library);
		add(&result, tool_format(PRELOAD "%s", value));
		free(value);
	}
	return result;
}

/* How long: the same words as the user has, since the worker checks them again. */
static void add_length(struct strings *result, const struct bench_options *o)
{
	if (o->loops)
		add(result, tool_format("--loops=%u", o->loops));
	else if (o->ops)
		add(result, tool_format("--ops=%" PRIu64, o->ops));
	else
		add(result, tool_format("--seconds=%.9g", o->seconds));
}

/* How many: of groups the number of threads follows. */
static void add_threads(struct strings *result, const struct bench_options *o, unsigned threads)
{
	if (!(o->workload->flags & WL_GROUPS)) {
		add(result, tool_format("--threads=%u", threads));
		return;
	}
	add(result, tool_format("--groups=%u", o->groups));
	add(result, tool_format("--fds=%u", o->fds));
	add(result, tool_format("--transport=%s", o->transport == WL_SOCKET ? "socket" : "ring"));
}

static struct strings arguments(const struct bench *b, const struct bench_run *run, unsigned round)
{
	const struct bench_options *o = b->options;
	struct strings result = { 0 };

	if (o->sim)
		return (struct strings){ .list = sim_arguments(b, run, round) };
	add(&result, tool_copy("uslub"));
	add(&result, tool_copy("bench-worker"));
	add(&result, tool_copy(o->workload->name));
	add(&result, tool_format("--allocator=%s", run->allocator->name));
	add_threads(&result, o, run->threads);
	add_length(&result, o);
	if (o->rate > 0)
		add(&result, tool_format("--rate=%.17g", o->rate));
	if (o->workload->flags & WL_TRACE) {
		add(&result, tool_format("--file=%s", o->trace_file));
		if (o->no_touch)
			add(&result, tool_copy("--no-touch"));
	} else if (o->workload->flags & WL_GENERAL) {
		add(&result, tool_format("--sizes=%zu-%zu", o->min_size, o->size));
		if (o->live)
			add(&result, tool_format("--live=%u", o->live));
	} else {
		add(&result, tool_format("--size=%zu", o->size));
	}
	add(&result, tool_format("--burst=%u", o->burst));
	add(&result, tool_format("--window=%u", o->window));
	add(&result, tool_format("--batch=%u", o->batch));
	add(&result, tool_format("--readers=%u", o->readers));
	if (o->workload->flags & WL_STATS) {
		add(&result, tool_format("--slabs=%u", o->slabs));
		add(&result, tool_format("--read-rate=%.17g", o->read_rate));
		add(&result, tool_format("--stall=%.17g", o->stall_us));
	}
	add(&result, tool_format("--memory-limit=%" PRIu64, o->memory_limit));
	add(&result, tool_format("--policy=%s", run->policy_text));
	add(&result, tool_format("--variant=%u", run->variant));
	if (run->cpus)
		add(&result, tool_format("--cpus=%s", run->cpus));
	return result;
}

static int spawn(pid_t *pid, const char *program, char *const argv[],
		 const struct allocator *allocator, int out, bool quiet)
{
	struct strings env = environment(allocator);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error;

	child_attributes(&attributes);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (quiet)
		posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	error = posix_spawn(pid, program, &actions, &attributes, argv, env.list);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	free_strings(&env);
	if (error)
		tool_error("cannot start %s: %s", program, strerror(error));
	return error;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return status;
}

/*
 * bench_spawn_probe - whether an allocator can be had: starts a process with it that looks for
 * itself
 */
bool bench_spawn_probe(const struct allocator *allocator)
{
	struct strings argv = { 0 };
	bool found;
	int null;
	pid_t pid;

	/* What is not loaded cannot fail to be. */
	if (!allocator->library)
		return true;
	add(&argv, tool_copy("uslub"));
	add(&argv, tool_copy("bench-worker"));
	add(&argv, tool_copy("--probe"));
	add(&argv, tool_format("--allocator=%s", allocator->name));
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	found = null >= 0 && !spawn(&pid, SELF, argv.list, allocator, null, true) && !wait_for(pid);
	if (null >= 0)
		close(null);
	free_strings(&argv);
	return found;
}

/*
 * Reads all that the worker writes. Ctrl-C reaches the worker from the terminal or, when the signal
 * was sent to this process alone, from here; it then ends early and still answers. A second one
 * kills it.
 */
static char *read_all(int fd, pid_t pid, void (*tick)(void *), void *arg)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	sig_atomic_t passed_on = 0;
	size_t used = 0, room = 4096;
	char *text = tool_alloc(room, 1);

	for (;;) {
		int ready = poll(&poll_fd, 1, 100);
		ssize_t n;

		if (interrupts > passed_on) {
			kill(pid, passed_on ? SIGKILL : SIGINT);
			passed_on = interrupts;
		}
		if (ready <= 0) {
			tick(arg);
			continue;
		}
		n = read(fd, text + used, room - used - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
		if (used + 1 == room) {
			room *= 2;
			text = tool_grow(text, room, 1);
		}
	}
	text[used] = '\0';
	return text;
}

static uint64_t get_integer(const json_t *object, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(object, name));
}

static void decode_values(const json_t *json, struct bench_result *result)
{
	static const char *const names[] = {
#define USLUB_STAT(name, kind, help) #name,
#include <uslub/stats.def>
#undef USLUB_STAT
	};
	const json_t *values = json_object_get(json, "values");
	const json_t *policy = json_object_get(json, "policy");

	if (!values)
		return;
	result->has_values = true;
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		result->values[i] = json_number_value(json_object_get(values, names[i]));
	for (unsigned i = 0; i < policy_count; i++)
		policy_set(&policy_entries[i], &result->policy,
			   get_integer(policy, policy_entries[i].name));
}

static double get_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static void decode_simulation(const json_t *json, struct sim_result *sim)
{
	const json_t *times = json_object_get(json, "time_ns");
	const json_t *waits = json_object_get(json, "lock_wait_ns");

	for (unsigned i = 0; i < SIM_TIMES; i++)
		sim->time_ns[i] = json_number_value(json_array_get(times, i));
	for (unsigned i = 0; i < SIM_RANKS; i++)
		sim->lock_wait_ns[i] = json_number_value(json_array_get(waits, i));
	sim->lines_near = get_number(json, "lines_near");
	sim->lines_far = get_number(json, "lines_far");
	sim->lines_fetched = get_number(json, "lines_fetched");
	sim->points = get_number(json, "points");
	sim->grace_periods = get_number(json, "grace_periods");
	sim->rest_slabs = get_number(json, "rest_slabs");
	sim->aged_slabs = get_number(json, "aged_slabs");
}

/* Histograms come as pairs of a bucket and its count. */
static void decode_histogram(const json_t *json, struct wl_histogram *h)
{
	const json_t *buckets = json_object_get(json, "buckets");

	h->count = get_integer(json, "count");
	h->sum = get_integer(json, "sum");
	h->min = get_integer(json, "min");
	h->max = get_integer(json, "max");
	for (size_t i = 0; i + 1 < json_array_size(buckets); i += 2) {
		json_int_t at = json_integer_value(json_array_get(buckets, i));

		if (at >= 0 && at < WL_BUCKETS)
			h->buckets[at] =
				(uint64_t)json_integer_value(json_array_get(buckets, i + 1));
	}
}

static void decode_latencies(const json_t *json, struct bench_result *result)
{
	const json_t *list = json_object_get(json, "latencies");

	if (!list)
		return;
	result->latencies = tool_alloc(WL_LATENCIES, sizeof(*result->latencies));
	for (size_t i = 0; i < json_array_size(list) && i < WL_LATENCIES; i++)
		decode_histogram(json_array_get(list, i), &result->latencies[i]);
}

static int decode(const char *text, struct bench_result *result)
{
	json_t *json = json_loads(text, 0, NULL);
	const char *note;

	if (!json)
		return -1;
	result->ops = get_integer(json, "ops");
	result->ns = get_integer(json, "ns");
	result->baseline_rss = get_integer(json, "baseline_rss");
	result->peak_rss = get_integer(json, "peak_rss");
	result->after_rss = get_integer(json, "after_rss");
	result->cpu_ns = get_integer(json, "cpu_ns");
	result->instants = get_integer(json, "instants");
	result->growth = (int64_t)get_integer(json, "growth");
	result->parked_growth = (int64_t)get_integer(json, "parked_growth");
	result->bad_reads = get_integer(json, "bad_reads");
	result->corrupt = get_integer(json, "corrupt");
	result->partial = json_is_true(json_object_get(json, "partial"));
	note = json_string_value(json_object_get(json, "note"));
	result->note = note ? tool_copy(note) : NULL;
	decode_values(json, result);
	decode_latencies(json, result);
	decode_simulation(json_object_get(json, "sim"), &result->sim);
	result->valid = result->ops > 0 && result->ns > 0;
	json_decref(json);
	return 0;
}

/* The worker has said itself what it could not do; what it could not say is said here. */
static int report_end(const struct bench_run *run, int status, bool answered)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status) && answered)
		return 0;
	if (WIFSIGNALED(status))
		tool_error("the process that measured '%s' was ended by signal %d (%s)", run->label,
			   WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		tool_error("measuring '%s' failed", run->label);
	/* A program that aborts or loses objects is an answer; that it could not start is none. */
	if (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == TOOL_EXIT_NO))
		return TOOL_EXIT_NO;
	return TOOL_EXIT_USAGE;
}

/*
 * bench_spawn - measure one round of a run
 * @tick: called with @arg about every tenth of a second meanwhile
 *
 * Returns 0, or an exit status after a message; sets b->interrupted when Ctrl-C was pressed.
 */
int bench_spawn(struct bench *b, const struct bench_run *run, unsigned round, void (*tick)(void *),
		void *arg)
{
	struct bench_result *result = &run->results[round];
	uint64_t begin = tool_now_ns();
	struct strings argv;
	int fds[2], status, error;
	char *text, *program;
	bool answered;
	pid_t pid;

	b->interrupted = bench_interrupted();
	if (b->interrupted)
		return 0;
	program = b->options->sim ? sim_program() : tool_copy(SELF);
	if (!program)
		return TOOL_EXIT_USAGE;
	if (pipe2(fds, O_CLOEXEC)) {
		tool_error("cannot make a pipe: %s", strerror(errno));
		free(program);
		return TOOL_EXIT_USAGE;
	}
	argv = arguments(b, run, round);
	error = spawn(&pid, program, argv.list, run->allocator, fds[1], false);
	free_strings(&argv);
	free(program);
	close(fds[1]);
	if (error) {
		close(fds[0]);
		return TOOL_EXIT_USAGE;
	}
	text = read_all(fds[0], pid, tick, arg);
	close(fds[0]);
	status = wait_for(pid);
	answered = !decode(text, result);
	result->sim.host_ns = (double)(tool_now_ns() - begin);
	free(text);
	b->interrupted = bench_interrupted();
	return b->interrupted ? 0 : report_end(run, status, answered);
}
