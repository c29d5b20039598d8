/* SPDX-License-Identifier: MIT */
/*
 * The command line of `uslub bench`, and of the worker, which is given the same options by the
 * program itself and a few more.
 */
#include <argp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include "bench_args.h"
#include "numbers.h"
#include "policy.h"
#include "text.h"
#include "tool.h"
#include "trace.h"

#define MOST_LOOPS   1000000000u
#define MOST_THREADS 32768u

/* Bytes of an object, of one of a malloc's workload, and of a mapping of --kernel. */
#define MOST_SIZE    ((size_t)1 << 20)
#define MOST_GENERAL ((size_t)1 << 30)
#define MOST_MAPPING ((size_t)1 << 46)
#define MAPPING	     ((size_t)128 << 20)

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "How it is run:", 1 },
	{ "threads", 't', "N", 0, "Threads that work (default: one for each CPU)", 0 },
	{ "seconds", 's', "S", 0, "Seconds to measure in each round (default: 1)", 0 },
	{ "ops", 'o', "N", 0, "Do N operations per thread and round instead", 0 },
	{ "rate", KEY_RATE, "R", 0, "Do R operations per second in all, not as many as possible",
	  0 },
	{ "repeat", 'r', "N", 0, "Rounds (default: 3)", 0 },
	{ "pin", KEY_PIN, NULL, 0, "Pin each thread to a CPU", 0 },
	{ "size", KEY_SIZE, "BYTES", 0, "Size of an object (default: the workload's)", 0 },
	{ "sizes", KEY_SIZES, "MIN-MAX", 0,
	  "Workloads of malloc: sizes of objects (default: the workload's)", 0 },
	{ "live", KEY_LIVE, "N", 0,
	  "Workloads of malloc: objects each thread has at a time (default: the workload's)", 0 },
	{ "file", KEY_FILE, "TRACE", 0, "trace: what to replay, a file of `uslub record'", 0 },
	{ "no-touch", KEY_NO_TOUCH, NULL, 0, "trace: do not write to the objects", 0 },
	{ "burst", KEY_BURST, "N", 0, "burst, statread: objects of a burst (default: 32)", 0 },
	{ "window", KEY_WINDOW, "N", 0, "window: objects of the window (default: 1024)", 0 },
	{ "batch", KEY_BATCH, "N", 0,
	  "allocator batch: deferred frees a thread collects (default: 4096)", 0 },
	{ "readers", KEY_READERS, "N", 0,
	  "rcu: threads that only read, besides (default: 0); statread: threads among all that "
	  "read "
	  "statistics (default: 1)",
	  0 },
	{ "slabs", KEY_SLABS, "N", 0, "statread: part-used slabs (default: 100000)", 0 },
	{ "read-rate", KEY_READ_RATE, "R", 0,
	  "statread: reads of each reader per second (default: 10)", 0 },
	{ "stall", KEY_STALL, "US", 0,
	  "statread: a burst is stalled when it takes more microseconds (default: 50)", 0 },
	{ "groups", KEY_GROUPS, "N", 0,
	  "hackbench: groups of threads (default: half as many as CPUs, at most 10)", 0 },
	{ "fds", KEY_FDS, "N", 0,
	  "hackbench: threads of a group that send, and that receive (default: 20)", 0 },
	{ "loops", KEY_LOOPS, "N", 0,
	  "hackbench: messages from each sender to each receiver (default: 10000)", 0 },
	{ "transport", KEY_TRANSPORT, "KIND", 0,
	  "hackbench: ring (default), or socket: Unix stream sockets", 0 },
	{ "kernel", KEY_KERNEL, NULL, 0,
	  "mmap1: run the real loop of mmap and munmap, and compare the kernel's own caches before "
	  "and after; --size is that of a mapping (default: 128M)",
	  0 },
	{ "processes", KEY_PROCESSES, NULL, 0, "With --kernel: --threads says how many processes",
	  0 },
	{ "memory-limit", KEY_MEMORY_LIMIT, "BYTES", 0,
	  "End a run early when it uses more (default: half of what is free, at most 8G)", 0 },

	{ NULL, 0, NULL, 0, "What is compared:", 2 },
	{ "before", KEY_BEFORE, "P=V,...", 0, "Policy of the first side (default: the defaults)",
	  0 },
	{ "after", KEY_AFTER, "P=V,...", 0, "Policy of the second side (default: the defaults)",
	  0 },
	{ "matrix", KEY_MATRIX, "P=V,V...", 0,
	  "Every value of a policy; given again, every combination", 0 },
	{ "allocator", 'a', "NAME,...", 0,
	  "Allocators, or all (default: uslub; for workloads of malloc uslub-malloc)", 0 },
	{ "scaling", KEY_SCALING, NULL, 0,
	  "One thread on each CPU alone against all of them together", 0 },

	{ NULL, 0, NULL, 0, "What is printed:", 3 },
	{ "format", 'f', "FORMAT", 0, "table (default), json, csv or markdown", 0 },
	{ "plot", KEY_PLOT, "FILE", 0, "Also draw the throughput, as SVG (needs gnuplot)", 0 },
	{ "no-progress", KEY_NO_PROGRESS, NULL, 0, "Do not show what is running", 0 },

	{ "policy", KEY_POLICY, "P=V,...", OPTION_HIDDEN, NULL, 0 },
	{ "variant", KEY_VARIANT, "N", OPTION_HIDDEN, NULL, 0 },
	{ "cpus", KEY_CPUS, "N,...", OPTION_HIDDEN, NULL, 0 },
	{ "probe", KEY_PROBE, NULL, OPTION_HIDDEN, NULL, 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static char *list_workloads(void)
{
	char *list = tool_copy("");

	for (unsigned i = 0; i < WL_COUNT; i++) {
		char *longer = tool_format("%s%s%s", list, i ? ", " : "", wl_workloads[i].name);

		free(list);
		list = longer;
	}
	return list;
}

void bench_print_entry(FILE *out, const char *name, const char *help)
{
	fprintf(out, "  %-16s ", name);
	text_wrapped(out, help, 19);
}

void bench_print_workloads(FILE *out)
{
	fprintf(out, "Workloads:\n");
	for (unsigned i = 0; i < WL_COUNT; i++)
		bench_print_entry(out, wl_workloads[i].name, wl_workloads[i].help);
}

void bench_print_policies(FILE *out)
{
	fprintf(out, "\nPolicies:\n");
	for (unsigned i = 0; i < policy_count; i++) {
		char *range = policy_range(&policy_entries[i]);
		char *entry = tool_format("%s: %s", range, policy_entries[i].help);

		bench_print_entry(out, policy_entries[i].name, entry);
		free(entry);
		free(range);
	}
}

/* The lists at the end of --help come from the tables, so that nothing there can be forgotten. */
static char *help_filter(int key, const char *text, void *input)
{
	struct tool_text help;
	FILE *out;

	(void)input;
	if (!tool_text_help(&help, key))
		return (char *)text;
	out = help.out;
	bench_print_workloads(out);
	bench_print_policies(out);
	fprintf(out, "\nAllocators:\n");
	for (unsigned i = 0; i < allocators_count; i++)
		bench_print_entry(out, allocators[i].name, allocators[i].help);
	bench_print_entry(out, "batch+NAME", "batch with another malloc than the C library's");
	bench_print_entry(out, "PATH", "a library that defines malloc; PATH must contain a '/'");
	fprintf(out,
		"\nExamples:\n"
		"  uslub bench mmap1 --before prefill-barn=off --after prefill-barn=on\n"
		"  uslub bench pair --threads 1 --allocator uslub,glibc,jemalloc\n"
		"  uslub bench rcu --readers 1 --allocator uslub,batch,glibc --format json\n\n"
		"Exit status: 0 done; 1 counters that must agree do not; 2 wrong usage, or no\n"
		"data; 130 interrupted, what was measured until then has been printed.");
	return tool_text_end(&help);
}

void bench_arg_unsigned(struct argp_state *state, const char *name, const char *arg, unsigned min,
			unsigned max, unsigned *value)
{
	uint64_t number;

	if (numbers_parse(arg, 1000, &number) || number < min || number > max)
		argp_error(state, "--%s takes a number from %u to %u, not '%s'", name, min, max,
			   arg);
	else
		*value = (unsigned)number;
}

void bench_arg_real(struct argp_state *state, const char *name, const char *arg, double max,
		    double *value)
{
	if (numbers_parse_real(arg, value) || *value <= 0 || *value > max)
		argp_error(state, "--%s takes a number above 0 and up to %g, not '%s'", name, max,
			   arg);
}

void bench_arg_count(struct argp_state *state, const char *name, const char *arg, unsigned unit,
		     uint64_t max, uint64_t *value)
{
	if (numbers_parse(arg, unit, value) || !*value || *value > max)
		argp_error(state, "--%s takes a number from 1 to %llu, not '%s'", name,
			   (unsigned long long)max, arg);
}

/* "MIN-MAX", or one size for both. */
static void parse_sizes(struct argp_state *state, const char *arg, struct bench_options *o)
{
	size_t length = strcspn(arg, "-");
	char *least = tool_format("%.*s", (int)length, arg);
	uint64_t min = 0, max = 0;

	bench_arg_count(state, "sizes", least, 1024, MOST_GENERAL, &min);
	free(least);
	bench_arg_count(state, "sizes", arg[length] ? arg + length + 1 : arg, 1024, MOST_GENERAL,
			&max);
	if (max < min)
		argp_error(state, "--sizes takes MIN-MAX, the smaller one first, not '%s'", arg);
	o->min_size = min;
	o->size = max;
}

static void parse_transport(struct argp_state *state, const char *arg, struct bench_options *o)
{
	o->transport_given = true;
	if (!strcmp(arg, "socket"))
		o->transport = WL_SOCKET;
	else if (!strcmp(arg, "ring"))
		o->transport = WL_RING;
	else
		argp_error(state, "--transport takes ring or socket, not '%s'", arg);
}

/* As hackbench takes them: GROUPS, then "thread" or "process", then LOOPS. */
static void parse_argument(struct argp_state *state, const char *arg, struct bench_options *o)
{
	switch (o->arguments++) {
	case 0:
		bench_arg_unsigned(state, "groups", arg, 1, MOST_GROUPS, &o->groups);
		break;
	case 1:
		if (!strcmp(arg, "process"))
			argp_error(state, "mode 'process' is not there: objects of a cache belong "
					  "to one process and cannot be handed to another; the "
					  "mode is 'thread'");
		else if (strcmp(arg, "thread"))
			argp_error(state, "the mode is 'thread', not '%s'", arg);
		break;
	case 2:
		bench_arg_unsigned(state, "loops", arg, 1, MOST_LOOPS, &o->loops);
		break;
	default:
		argp_error(state, "hackbench takes GROUPS, 'thread' and LOOPS: '%s' is too many",
			   arg);
	}
}

void bench_arg_workload(struct argp_state *state, const char *arg, struct bench_options *options)
{
	char *list;

	if (options->workload && (options->workload->flags & WL_GROUPS)) {
		parse_argument(state, arg, options);
		return;
	}
	if (options->workload) {
		argp_error(state, "one workload at a time: '%s' is too many", arg);
		return;
	}
	options->workload = wl_find(arg);
	if (options->workload)
		return;
	list = list_workloads();
	argp_error(state, "there is no workload '%s'; the workloads are: %s", arg, list);
	free(list);
}

/* Policies are read again when the plan is made; here their faults are found. */
static void check_policy(struct argp_state *state, const char *name, const char *text)
{
	struct uslub_policy policy = { 0 };
	char *message;

	if (!text)
		return;
	message = policy_parse(text, &policy);
	if (message)
		argp_error(state, "--%s: %s", name, message);
	free(message);
}

static void check_matrix(struct argp_state *state, const char *text)
{
	const char *equals = strchr(text, '=');
	const char *value = equals ? equals + 1 : "";

	if (!equals)
		argp_error(state, "--matrix takes P=V,V..., not '%s'", text);
	for (;;) {
		size_t length = strcspn(value, ",");
		char *one = tool_format("%.*s=%.*s", (int)(equals - text), text, (int)length,
					value);

		check_policy(state, "matrix", one);
		free(one);
		if (!value[length])
			return;
		value += length + 1;
	}
}

static void refuse(struct argp_state *state, const struct bench_options *o, const char *option)
{
	argp_error(state, "%s has no meaning for the workload '%s'", option, o->workload->name);
}

static void check_groups(struct argp_state *state, const struct bench_options *o)
{
	unsigned groups = o->groups ? o->groups : 1, fds = o->fds ? o->fds : DEFAULT_FDS;

	if (!(o->workload->flags & WL_GROUPS)) {
		if (o->groups)
			refuse(state, o, "--groups");
		if (o->fds)
			refuse(state, o, "--fds");
		if (o->loops)
			refuse(state, o, "--loops");
		if (o->transport_given)
			refuse(state, o, "--transport");
		return;
	}
	if (o->threads_given)
		argp_error(state, "the threads of '%s' follow from --groups and --fds",
			   o->workload->name);
	if (o->ops)
		argp_error(state, "'%s' takes --loops, not --ops", o->workload->name);
	if (o->loops && o->seconds > 0)
		argp_error(state, "either --seconds or loops");
	if (2 * groups * fds > MOST_THREADS)
		argp_error(state,
			   "%u groups of %u senders and as many receivers are %u threads; at most "
			   "%u can be, or %u groups of this size",
			   groups, fds, 2 * groups * fds, MOST_THREADS, MOST_THREADS / 2 / fds);
}

/* Of threads that are asked for some may read, but not all. */
static void check_statread(struct argp_state *state, const struct bench_options *o)
{
	if (!(o->workload->flags & WL_STATS)) {
		if (o->slabs)
			refuse(state, o, "--slabs");
		if (o->read_rate > 0)
			refuse(state, o, "--read-rate");
		if (o->stall_us > 0)
			refuse(state, o, "--stall");
		return;
	}
	if (o->threads_given && o->readers_given && o->readers >= o->threads)
		argp_error(state,
			   "--readers takes 0 to %u with --threads %u: one thread at least must "
			   "allocate",
			   o->threads - 1, o->threads);
	if (o->threads_given && !o->readers_given && o->threads < 2)
		argp_error(state, "one thread cannot both allocate and read: --threads takes 2 and "
				  "more, or --readers 0");
}

/* What only workloads have whose objects have sizes of all kinds, and what they have not. */
static void check_general(struct argp_state *state, const struct bench_options *o)
{
	bool general = o->workload->flags & WL_GENERAL;

	if (!general && o->min_size)
		refuse(state, o, "--sizes");
	if (!general && o->live)
		refuse(state, o, "--live");
	if (!general)
		return;
	if (o->live && !o->workload->live)
		refuse(state, o, "--live");
	if (o->size && !o->min_size)
		argp_error(state, "the workload '%s' takes --sizes MIN-MAX, not --size",
			   o->workload->name);
	if (o->before || o->after || o->matrix_count)
		argp_error(state,
			   "policies are of caches: --before, --after and --matrix have no "
			   "meaning for the workload '%s'; USLUB_POLICY tells uslub-malloc",
			   o->workload->name);
	if (o->min_size && o->min_size < o->workload->min_size)
		argp_error(state, "objects of the workload '%s' have at least %zu bytes",
			   o->workload->name, o->workload->min_size);
}

/* A thread that had done its share would leave others waiting for its objects, so that only time ends it. */
static void check_trace(struct argp_state *state, struct bench_options *o)
{
	bool trace = o->workload->flags & WL_TRACE;
	struct trace_header header;
	unsigned cpus;

	if (!trace && o->trace_file)
		refuse(state, o, "--file");
	if (!trace && o->no_touch)
		refuse(state, o, "--no-touch");
	if (!trace)
		return;
	if (!o->trace_file)
		argp_error(state,
			   "the workload 'trace' takes --file TRACE, which `uslub record' writes");
	if (o->ops)
		refuse(state, o, "--ops");
	if (o->min_size)
		refuse(state, o, "--sizes");
	if (o->scaling)
		refuse(state, o, "--scaling");
	if (bench_trace_look(o->trace_file, &header))
		exit(TOOL_EXIT_USAGE);
	if (o->threads > header.threads)
		argp_error(state, "%s was recorded of %u thread%s: --threads takes no more",
			   o->trace_file, header.threads, header.threads == 1 ? "" : "s");
	cpus = bench_online_cpus(NULL);
	if (!o->threads)
		o->threads = header.threads < cpus ? header.threads : cpus;
}

/* The kernel has policies and sizes of its own, and one loop. */
static void check_kernel(struct argp_state *state, const struct bench_options *o)
{
	const struct {
		bool given;
		const char *name;
	} others[] = {
		{ o->before, "--before" },
		{ o->after, "--after" },
		{ o->matrix_count, "--matrix" },
		{ o->allocators, "--allocator" },
		{ o->scaling, "--scaling" },
		{ o->plot, "--plot" },
		{ o->ops, "--ops" },
		{ o->rate > 0, "--rate" },
		{ o->memory_limit, "--memory-limit" },
	};

	if (!o->kernel) {
		if (o->processes)
			argp_error(state, "--processes is for --kernel: objects of a cache belong "
					  "to one process");
		return;
	}
	if (o->workload->id != WL_mmap1)
		argp_error(state, "--kernel is for the workload mmap1: the kernel does not do '%s'",
			   o->workload->name);
	for (unsigned i = 0; i < TOOL_COUNT(others); i++) {
		if (others[i].given)
			argp_error(state, "%s has no meaning with --kernel", others[i].name);
	}
}

void bench_check_size(struct argp_state *state, const struct bench_options *o)
{
	if (o->size > MOST_SIZE)
		argp_error(state, "--size takes a number from 1 to %zu, not %zu", MOST_SIZE,
			   o->size);
	if (o->size && o->size < o->workload->min_size)
		argp_error(state, "objects of the workload '%s' have at least %zu bytes",
			   o->workload->name, o->workload->min_size);
}

static void check_combination(struct argp_state *state, const struct bench_options *o)
{
	bool policies = o->before || o->after;
	unsigned ways = !!policies + !!o->matrix_count + !!o->scaling;

	if (ways > 1)
		argp_error(state, "--before and --after, --matrix, --scaling: one of the three");
	if (o->allocators && strcmp(o->allocators, "uslub") && (policies || o->matrix_count))
		argp_error(state, "policies are uslub's: leave out --allocator, or --before, "
				  "--after and --matrix");
	if (o->ops && o->seconds > 0)
		argp_error(state, "either --seconds or --ops");
	if (o->readers && !(o->workload->flags & (WL_READERS | WL_STATS)))
		argp_error(state, "--readers has no meaning for the workload '%s'",
			   o->workload->name);
	if (o->scaling && (o->workload->flags & (WL_PAIRS | WL_GROUPS | WL_STATS)))
		argp_error(state,
			   "--scaling has no meaning for the workload '%s', whose threads "
			   "work together",
			   o->workload->name);
	if (!o->kernel && !(o->workload->flags & WL_GENERAL))
		bench_check_size(state, o);
}

void bench_check_workload(struct argp_state *state, const struct bench_options *o)
{
	char *list;

	if (o->workload)
		return;
	list = list_workloads();
	argp_error(state, "which workload? The workloads are: %s", list);
	free(list);
}

void bench_check_policies(struct argp_state *state, const struct bench_options *o)
{
	check_policy(state, "before", o->before);
	check_policy(state, "after", o->after);
	check_policy(state, "policy", o->policy);
	for (unsigned i = 0; i < o->matrix_count; i++)
		check_matrix(state, o->matrix[i]);
}

static void check_all(struct argp_state *state, struct bench_options *o)
{
	if (o->probe)
		return;
	bench_check_workload(state, o);
	bench_check_policies(state, o);
	check_groups(state, o);
	check_statread(state, o);
	check_general(state, o);
	check_trace(state, o);
	check_kernel(state, o);
	check_combination(state, o);
}

/* Half of the memory that is free now: the machine stays usable and other programs alive. */
static uint64_t default_memory_limit(void)
{
	const uint64_t most = (uint64_t)8 << 30;
	uint64_t pages = (uint64_t)sysconf(_SC_AVPHYS_PAGES);
	uint64_t half = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 2;

	return half < most ? half : most;
}

static void set_group_defaults(struct bench_options *o)
{
	unsigned groups = bench_online_cpus(NULL) / 2;

	if (!o->groups)
		o->groups = groups < 1 ? 1 : groups > 10 ? 10 : groups;
	if (!o->fds)
		o->fds = DEFAULT_FDS;
	if (!o->loops && o->seconds == 0)
		o->loops = 10000;
	o->ops = (uint64_t)o->loops * o->fds;
	o->threads = 2 * o->groups * o->fds;
}

static void set_statread_defaults(struct bench_options *o)
{
	unsigned cpus = bench_online_cpus(NULL);

	if (!o->readers_given)
		o->readers = 1;
	if (!o->threads)
		o->threads = cpus > o->readers ? cpus : o->readers + 1;
	if (!o->slabs)
		o->slabs = 100000;
	if (o->read_rate == 0)
		o->read_rate = 10;
	if (o->stall_us == 0)
		o->stall_us = 50;
}

static void set_defaults(struct bench_options *o)
{
	if (o->workload && (o->workload->flags & WL_STATS))
		set_statread_defaults(o);
	if (o->workload && (o->workload->flags & WL_GROUPS))
		set_group_defaults(o);
	if (!o->ops && o->seconds == 0)
		o->seconds = 1;
	if (!o->min_size && o->workload)
		o->min_size = o->workload->min_size;
	if (!o->live && o->workload)
		o->live = o->workload->live;
	if (!o->size && o->workload)
		o->size = o->kernel ? MAPPING : o->workload->size;
	if (!o->threads)
		o->threads = bench_online_cpus(NULL);
	if (!o->memory_limit)
		o->memory_limit = default_memory_limit();
}

error_t bench_arg_shape(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
	uint64_t bytes = 0;

	switch (key) {
	case 'r':
		bench_arg_unsigned(state, "repeat", arg, 1, 10000, &o->repeat);
		break;
	case KEY_SIZE:
		bench_arg_count(state, "size", arg, 1024, MOST_MAPPING, &bytes);
		o->size = bytes;
		break;
	case KEY_BURST:
		bench_arg_unsigned(state, "burst", arg, 1, 1000000, &o->burst);
		break;
	case KEY_WINDOW:
		bench_arg_unsigned(state, "window", arg, 1, 1000000, &o->window);
		break;
	case KEY_GROUPS:
		bench_arg_unsigned(state, "groups", arg, 1, MOST_GROUPS, &o->groups);
		break;
	case KEY_FDS:
		bench_arg_unsigned(state, "fds", arg, 1, MOST_FDS, &o->fds);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_run_option(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case 't':
		bench_arg_unsigned(state, "threads", arg, 1, 4096, &o->threads);
		o->threads_given = true;
		break;
	case 's':
		bench_arg_real(state, "seconds", arg, 86400, &o->seconds);
		break;
	case 'o':
		bench_arg_count(state, "ops", arg, 1000, (uint64_t)1 << 50, &o->ops);
		break;
	case KEY_RATE:
		bench_arg_real(state, "rate", arg, 1e12, &o->rate);
		break;
	case KEY_PIN:
		o->pin = true;
		break;
	case KEY_BATCH:
		bench_arg_unsigned(state, "batch", arg, 1, 1000000, &o->batch);
		break;
	case KEY_READERS:
		bench_arg_unsigned(state, "readers", arg, 0, 4096, &o->readers);
		o->readers_given = true;
		break;
	case KEY_MEMORY_LIMIT:
		bench_arg_count(state, "memory-limit", arg, 1024, (uint64_t)1 << 50,
				&o->memory_limit);
		break;
	case KEY_LOOPS:
		bench_arg_unsigned(state, "loops", arg, 1, MOST_LOOPS, &o->loops);
		break;
	case KEY_SLABS:
		bench_arg_unsigned(state, "slabs", arg, 1, 100000000, &o->slabs);
		break;
	case KEY_READ_RATE:
		bench_arg_real(state, "read-rate", arg, 1e6, &o->read_rate);
		break;
	case KEY_STALL:
		bench_arg_real(state, "stall", arg, 1e6, &o->stall_us);
		break;
	case KEY_TRANSPORT:
		parse_transport(state, arg, o);
		break;
	case KEY_SIZES:
		parse_sizes(state, arg, o);
		break;
	case KEY_FILE:
		o->trace_file = arg;
		break;
	case KEY_NO_TOUCH:
		o->no_touch = true;
		break;
	case KEY_LIVE:
		bench_arg_unsigned(state, "live", arg, 1, 100000000, &o->live);
		break;
	case 'a':
		o->allocators = arg;
		break;
	case KEY_SCALING:
		o->scaling = true;
		break;
	case KEY_KERNEL:
		o->kernel = true;
		break;
	case KEY_PROCESSES:
		o->processes = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

error_t bench_arg_report(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
	switch (key) {
	case KEY_BEFORE:
		o->before = arg;
		break;
	case KEY_AFTER:
		o->after = arg;
		break;
	case KEY_MATRIX:
		o->matrix = tool_grow(o->matrix, o->matrix_count + 1, sizeof(*o->matrix));
		o->matrix[o->matrix_count++] = arg;
		break;
	case 'f':
		report_arg_format(state, arg, &o->format);
		break;
	case KEY_PLOT:
		o->plot = arg;
		break;
	case KEY_NO_PROGRESS:
		o->no_progress = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_worker_option(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case KEY_POLICY:
		o->policy = arg;
		break;
	case KEY_VARIANT:
		bench_arg_unsigned(state, "variant", arg, 0, 100, &o->variant);
		break;
	case KEY_CPUS:
		o->cpus = arg;
		break;
	case KEY_PROBE:
		o->probe = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct bench_options *o = state->input;

	switch (key) {
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case ARGP_KEY_ARG:
		bench_arg_workload(state, arg, o);
		return 0;
	case ARGP_KEY_END:
		check_all(state, o);
		return 0;
	}
	if (!parse_run_option(key, arg, state) || !bench_arg_shape(key, arg, state, o) ||
	    !bench_arg_report(key, arg, state, o))
		return 0;
	return parse_worker_option(key, arg, state);
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "WORKLOAD [ARGUMENT...]",
	.doc = "Measure a workload: under one or several policies, or on several allocators.\v",
	.help_filter = help_filter,
};

void bench_parse(int argc, char **argv, struct bench_options *o)
{
	memset(o, 0, sizeof(*o));
	o->repeat = 3;
	o->burst = 32;
	o->window = 1024;
	o->batch = 4096;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	set_defaults(o);
}

bool bench_fixed_work(const struct bench_options *o)
{
	return o->ops > 0;
}
