/* SPDX-License-Identifier: MIT */
/*
 * uslub-sim: runs one configuration of a workload on the simulated machine and writes the result as JSON.
 * `uslub sim` starts it, as `uslub bench` starts its workers.
 *
 * One thread on each CPU does the workload's operations, with private work in between. All of them stop
 * three times between two operations: before and after the measurement, and at the end. What is read at
 * those moments, and at instants in between, is read while the machine stands still.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uslub/uslub.h>
#include "../../workloads/mailbox.h"
#include "../../workloads/ring.h"
#include "../../workloads/workload.h"
#include "../uslub/numbers.h"
#include "../uslub/policy.h"
#include "../uslub/tool.h"
#include "cache/internal.h"
#include "family_sim.h"
#include "machine_file.h"

#define INSTANTS 10u

struct options {
	const struct workload *workload;
	const char *machine;
	const char *policy;
	const char **set;
	unsigned nset;
	unsigned cpus, nodes, threads;
	double warmup_ms, ms;
	uint64_t seed;
	size_t size;
	unsigned burst, window, variant, fds;
};

struct reading {
	double values[USLUB_STAT_COUNT];
};

static struct options o;
static struct sim_machine machine_used;
static struct wl_params params;
static struct heap heaps[WL_CACHES];
static unsigned ncaches;
static struct wl_thread *threads;
static const struct wl_code *code;
static struct sim_barrier barrier;
static uint64_t work_ps, begin_at, end_at;
static uint64_t *ops;
static struct reading before, after, instants;
static unsigned instants_read;
static struct sim_totals totals_before, totals_after;
static uint64_t measured_from, measured_to;
static uint64_t rest_slabs, aged_slabs;
static int close_error;
static volatile sig_atomic_t interrupted;

/* Ctrl-C ends the run early; what was counted until then is written. */
static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

static void read_all(struct reading *r)
{
	uint64_t value;

	/* Quantities are those of all caches, attributes those of the first. */
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++) {
		int kind = uslub_stat_kind((enum uslub_stat)i);
		bool one = kind == USLUB_STAT_KIND_ATTRIBUTE || kind == USLUB_STAT_KIND_FLAG;

		r->values[i] = 0;
		for (unsigned k = 0; k < (one ? 1 : ncaches); k++) {
			uslub_cache_stat(heaps[k].cache, (enum uslub_stat)i, &value);
			r->values[i] += (double)value;
		}
	}
}

static void read_before(void *arg)
{
	(void)arg;
	read_all(&before);
	sim_totals(&totals_before);
}

/* Of a run during which nobody looked the gauges are those of its beginning and its end. */
static void read_after(void *arg)
{
	(void)arg;
	read_all(&after);
	sim_totals(&totals_after);
	for (unsigned i = 0; i < USLUB_STAT_COUNT && !instants_read; i++)
		instants.values[i] = (before.values[i] + after.values[i]) / 2;
}

static void read_instant(void *arg)
{
	struct reading r;

	(void)arg;
	read_all(&r);
	instants_read++;
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		instants.values[i] += r.values[i] / INSTANTS;
}

static uint64_t jittered(struct wl_thread *t)
{
	uint64_t span = work_ps * machine_used.work_jitter / 100;

	return span ? work_ps - span + sim_random(&t->random) % (2 * span) : work_ps;
}

static struct wl_mailbox *boxes;

/* The time is over: who waits for a message shall see it. */
static void open_gates(void)
{
	for (unsigned i = 0; boxes && i < o.threads / 2; i++) {
		wl_gate_wake(&boxes[i].filled);
		wl_gate_wake(&boxes[i].drained);
	}
}

/* One operation, or a wait for something to do. */
static uint64_t run_one(struct wl_thread *t)
{
	uint64_t n = code->run(t, 1);
	struct wl_gate *gate;
	uint32_t sequence;

	if (n || t->failed)
		return n;
	if (!(o.workload->flags & WL_GROUPS)) {
		sim_work(SIM_NS * 100);
		return 0;
	}
	gate = t->wait.gate;
	sequence = wl_gate_enter(gate);
	n = code->run(t, 1);
	if (!n)
		wl_gate_sleep(gate, sequence);
	wl_gate_leave(gate);
	return n;
}

/* Operations until a time; returns how many. */
static uint64_t run_until(struct wl_thread *t, uint64_t end, bool watch)
{
	uint64_t done = 0, next = sim_now(), step = (end - next) / INSTANTS + 1;
	unsigned seen = 0;

	/* To scan is to take locks and to sort lists, which nobody does between two points of others. */
	watch = watch && params.policy.partial_count != USLUB_POLICY_SCAN;
	while (sim_now() < end && !t->failed && !interrupted) {
		uint64_t n = run_one(t);

		done += n;
		if (watch && sim_now() >= next + step * (seen + 1) && seen < INSTANTS) {
			sim_outside(read_instant, NULL);
			seen++;
		}
		if (n)
			sim_work(jittered(t));
	}
	open_gates();
	for (; watch && seen < INSTANTS; seen++)
		sim_outside(read_instant, NULL);
	return done;
}

/* Rings and mailboxes between threads. */
static void connect(void)
{
	struct wl_group *groups;
	struct wl_thread **members;

	for (unsigned i = 0; o.workload->flags & WL_PAIRS && i < o.threads; i += 2)
		threads[i].ring = threads[i + 1].ring = wl_map(sizeof(struct wl_ring));
	if (!(o.workload->flags & WL_GROUPS))
		return;
	boxes = wl_map(o.threads / 2 * sizeof(*boxes));
	groups = tool_alloc(o.threads / (2 * o.fds), sizeof(*groups));
	members = tool_alloc(o.threads, sizeof(*members));
	for (unsigned i = 0; i < o.threads; i++) {
		struct wl_group *group = &groups[i / (2 * o.fds)];

		members[i] = &threads[i];
		group->members = &members[i / (2 * o.fds) * 2 * o.fds];
		group->boxes = &boxes[i / (2 * o.fds) * o.fds];
		threads[i].group = group;
		if (i % 2)
			wl_mailbox_init(&boxes[i / 2]);
	}
}

/* Each CPU gets as many senders as receivers. */
static unsigned home_of(unsigned thread)
{
	return (o.workload->flags & WL_GROUPS ? thread / 2 : thread) % machine_used.cpus;
}

static void thread_main(void *arg)
{
	struct wl_thread *t = arg;

	code->setup(t);
	sim_barrier_wait(&barrier, o.threads);
	run_until(t, begin_at, false);
	sim_barrier_wait(&barrier, o.threads);
	if (!t->index) {
		sim_outside(read_before, NULL);
		measured_from = sim_now();
	}
	sim_barrier_wait(&barrier, o.threads);
	ops[t->index] = run_until(t, sim_now() + end_at - begin_at, !t->index);
	sim_barrier_wait(&barrier, o.threads);
	if (!t->index) {
		sim_outside(read_after, NULL);
		measured_to = sim_now();
	}
	sim_barrier_wait(&barrier, o.threads);
	code->finish(t);
	sim_barrier_wait(&barrier, o.threads);
	for (unsigned k = 0; k < ncaches && !t->index; k++) {
		uint64_t slabs;

		uslub_cache_barrier_rcu(heaps[k].cache);
		uslub_cache_stat(heaps[k].cache, USLUB_STAT_slabs, &slabs);
		rest_slabs += slabs;
		/* What CPUs that do nothing any more keep for themselves gets old. */
		cache_drain(heaps[k].cache, false);
		uslub_cache_stat(heaps[k].cache, USLUB_STAT_slabs, &slabs);
		aged_slabs += slabs;
		close_error |= wl_family_uslub.close(&heaps[k]);
	}
}

static json_t *encode_values(void)
{
	json_t *values = json_object();

	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++) {
		int kind = uslub_stat_kind(i);
		double value = after.values[i];

		if (kind == USLUB_STAT_KIND_COUNTER || kind == USLUB_STAT_KIND_DERIVED)
			value -= before.values[i];
		else if (kind == USLUB_STAT_KIND_GAUGE)
			value = instants.values[i];
		json_object_set_new(values, uslub_stat_name(i), json_real(value));
	}
	return values;
}

static json_t *encode_time(uint64_t from, uint64_t to)
{
	return json_real((double)(to - from) / (double)SIM_NS);
}

static json_t *encode_sim(void)
{
	json_t *json = json_object(), *time = json_array(), *wait = json_array();

	/* By enum sim_time, and by enum plat_rank. */
	for (unsigned i = 0; i < SIM_TIMES; i++)
		json_array_append_new(time,
				      encode_time(totals_before.time[i], totals_after.time[i]));
	for (unsigned i = 0; i < SIM_RANKS; i++)
		json_array_append_new(
			wait, encode_time(totals_before.lock_wait[i], totals_after.lock_wait[i]));
	json_object_set_new(json, "time_ns", time);
	json_object_set_new(json, "lock_wait_ns", wait);
	json_object_set_new(
		json, "lines_near",
		json_integer((json_int_t)(totals_after.moves_near - totals_before.moves_near)));
	json_object_set_new(
		json, "lines_far",
		json_integer((json_int_t)(totals_after.moves_far - totals_before.moves_far)));
	json_object_set_new(
		json, "lines_fetched",
		json_integer((json_int_t)(totals_after.fetches - totals_before.fetches)));
	json_object_set_new(json, "points", json_integer((json_int_t)totals_after.points));
	json_object_set_new(json, "grace_periods",
			    json_integer((json_int_t)(totals_after.grace_periods -
						      totals_before.grace_periods)));
	json_object_set_new(json, "rest_slabs", json_integer((json_int_t)rest_slabs));
	json_object_set_new(json, "aged_slabs", json_integer((json_int_t)aged_slabs));
	return json;
}

static int write_result(void)
{
	struct uslub_policy policy = params.policy;
	json_t *json = json_object(), *p = json_object();
	uint64_t sum = 0, corrupt = 0;

	/* A message is received once. */
	for (unsigned i = 0; i < o.threads; i++) {
		if (!(o.workload->flags & (WL_PAIRS | WL_GROUPS)) || i % 2)
			sum += ops[i];
		corrupt += threads[i].corrupt;
	}
	for (unsigned i = 0; i < policy_count; i++)
		json_object_set_new(
			p, policy_entries[i].name,
			json_integer((json_int_t)policy_get(&policy_entries[i], &policy)));
	json_object_set_new(json, "ops", json_integer((json_int_t)sum));
	json_object_set_new(json, "ns",
			    json_integer((json_int_t)((measured_to - measured_from) / SIM_NS)));
	json_object_set_new(json, "instants", json_integer(instants_read ? INSTANTS : 2));
	json_object_set_new(json, "growth",
			    json_integer((json_int_t)(after.values[USLUB_STAT_objects] -
						      before.values[USLUB_STAT_objects])));
	json_object_set_new(json, "parked_growth",
			    json_integer((json_int_t)(after.values[USLUB_STAT_parked] -
						      before.values[USLUB_STAT_parked])));
	json_object_set_new(json, "corrupt", json_integer((json_int_t)corrupt));
	if (interrupted)
		json_object_set_new(json, "partial", json_true());
	json_object_set_new(json, "policy", p);
	json_object_set_new(json, "values", encode_values());
	json_object_set_new(json, "sim", encode_sim());
	return json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) || fflush(stdout);
}

/* ---- options -------------------------------------------------------------------------------------- */

static const struct argp_option argp_options[] = {
	{ "machine", 'm', "NAME", 0, "Machine", 0 },
	{ "set", 'S', "FIELD=VALUE", 0, "Another value for a field of the machine", 0 },
	{ "cpus", 'c', "N", 0, "CPUs", 0 },
	{ "nodes", 'n', "N", 0, "NUMA nodes", 0 },
	{ "threads", 't', "N", 0, "Threads, one for each CPU", 0 },
	{ "seed", 's', "N", 0, "Seed", 0 },
	{ "warmup", 'w', "MS", 0, "Virtual milliseconds before the measurement", 0 },
	{ "time", 'T', "MS", 0, "Virtual milliseconds to measure", 0 },
	{ "policy", 'p', "P=V,...", 0, "Policy", 0 },
	{ "size", 'z', "BYTES", 0, "Object size", 0 },
	{ "burst", 'b', "N", 0, "Objects of a burst", 0 },
	{ "window", 'W', "N", 0, "Objects of a window", 0 },
	{ "variant", 'v', "N", 0, "Variant", 0 },
	{ "fds", 'f', "N", 0, "Senders of a group, and as many receivers", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *message;

	switch (key) {
	case 'm':
		o.machine = arg;
		break;
	case 'S':
		o.set = tool_grow(o.set, o.nset + 1, sizeof(*o.set));
		o.set[o.nset++] = arg;
		break;
	case 'c':
		o.cpus = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 'n':
		o.nodes = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 't':
		o.threads = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 's':
		o.seed = strtoull(arg, NULL, 10);
		break;
	case 'w':
		o.warmup_ms = strtod(arg, NULL);
		break;
	case 'T':
		o.ms = strtod(arg, NULL);
		break;
	case 'p':
		o.policy = arg;
		break;
	case 'z':
		o.size = strtoul(arg, NULL, 10);
		break;
	case 'b':
		o.burst = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 'W':
		o.window = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 'v':
		o.variant = (unsigned)strtoul(arg, NULL, 10);
		break;
	case 'f':
		o.fds = (unsigned)strtoul(arg, NULL, 10);
		break;
	case ARGP_KEY_ARG:
		o.workload = wl_find(arg);
		if (!o.workload)
			argp_error(state, "there is no workload '%s'", arg);
		break;
	case ARGP_KEY_END:
		if (!o.workload)
			argp_error(state, "which workload?");
		message = policy_parse(o.policy, &params.policy);
		if (message)
			argp_error(state, "%s", message);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = { .options = argp_options,
				  .parser = parse,
				  .args_doc = "WORKLOAD" };

static void fail(const char *message)
{
	tool_error("%s", message);
	exit(TOOL_EXIT_NO);
}

static int prepare_machine(void)
{
	char *message = machine_read(o.machine, &machine_used);

	for (unsigned i = 0; i < o.nset && !message; i++)
		message = machine_set(&machine_used, o.set[i]);
	if (message) {
		tool_error("%s", message);
		return -1;
	}
	if (o.cpus)
		machine_used.cpus = o.cpus;
	if (o.nodes)
		machine_used.nodes = o.nodes;
	message = machine_check(&machine_used);
	if (message) {
		tool_error("%s", message);
		return -1;
	}
	if (!o.threads)
		o.threads = machine_used.cpus;
	sim_slab_frees = machine_used.slab_frees;
	sim_failed = fail;
	sim_start(&machine_used, o.seed);
	return 0;
}

/* The explorer is a program beside this one: the core in it is compiled otherwise. */
static int explore(char **argv)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *slash;

	tool_name = "uslub-sim";
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		strcpy(slash + 1, "uslub-sim-explore");
		execv(path, argv + 1);
	}
	tool_error("cannot start %s: %s", path, strerror(errno));
	return TOOL_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int error;

	if (argc > 1 && !strcmp(argv[1], "explore"))
		return explore(argv);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, on_interrupt);
	tool_name = "uslub sim";
	o = (struct options){ .machine = "epyc192",
			      .policy = "",
			      .warmup_ms = 60,
			      .ms = 60,
			      .seed = 1,
			      .burst = 32,
			      .window = 1024,
			      .fds = 20 };
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (prepare_machine())
		return TOOL_EXIT_USAGE;
	params.workload = o.workload;
	params.size = o.size ? o.size : o.workload->size;
	params.align = o.workload->align;
	params.capacity = o.workload->capacity;
	if (!params.policy.slab_min_objects)
		params.policy.slab_min_objects = o.workload->slab_objects;
	params.burst = o.burst;
	params.window = o.window;
	params.variant = o.variant;
	params.fds = o.fds;
	if (params.capacity == WL_NO_SHEAVES && !params.policy.sheaf_capacity)
		params.policy.sheaf_capacity = USLUB_POLICY_NONE;
	code = &wl_family_uslub.code[o.workload->id];
	ncaches = wl_caches(o.workload);
	for (unsigned k = 0; k < ncaches; k++) {
		error = wl_family_uslub.open(&params, k, &heaps[k]);
		if (error)
			fail("cannot make the cache");
	}
	uslub_cache_policy(heaps[0].cache, &params.policy);
	/* A message is work for its sender and its receiver. */
	work_ps = o.workload->id == WL_mmap1	   ? machine_used.work_mmap1
		  : o.workload->id == WL_hackbench ? machine_used.work_hackbench / 2
						   : machine_used.work_other;
	if (o.workload->flags & WL_GROUPS)
		o.threads = (o.threads + 2 * o.fds - 1) / (2 * o.fds) * 2 * o.fds;
	if (o.workload->flags & WL_PAIRS)
		o.threads += o.threads % 2;
	begin_at = (uint64_t)(o.warmup_ms * 1e6) * SIM_NS;
	end_at = begin_at + (uint64_t)(o.ms * 1e6) * SIM_NS;
	threads = tool_alloc(o.threads + 1, sizeof(*threads));
	threads = (void *)(((uintptr_t)threads + 127) & ~(uintptr_t)127);
	ops = tool_alloc(o.threads, sizeof(*ops));
	for (unsigned i = 0; i < o.threads; i++) {
		unsigned slots = o.workload->slots(&params);

		memcpy(threads[i].heaps, heaps, sizeof(heaps));
		threads[i].params = &params;
		threads[i].slots = tool_alloc(slots + 1, sizeof(void *));
		threads[i].index = i;
		threads[i].random = o.seed * 1000003 + i;
	}
	connect();
	for (unsigned i = 0; i < o.threads; i++)
		sim_thread(thread_main, &threads[i], home_of(i));
	sim_run();
	if (close_error) {
		tool_error("objects are missing: destroy says %d", close_error);
		return TOOL_EXIT_NO;
	}
	return write_result() ? TOOL_EXIT_USAGE : 0;
}
