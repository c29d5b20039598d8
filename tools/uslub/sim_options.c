/* SPDX-License-Identifier: MIT */
/*
 * The command line of `uslub sim`.
 */
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "bench_args.h"
#include "numbers.h"
#include "tool.h"

enum sim_key {
	KEY_SEED = KEY_SIM,
	KEY_SET,
	KEY_PUBLISHED,
	KEY_SPEED,
	KEY_SWEEP,
};

#define DEFAULT_MACHINE "epyc192"
#define DEFAULT_GROUPS	20u
#define MOST_THREADS	4000u
#define MOST_MS		100000.0

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What is simulated:", 1 },
	{ "machine", 'm', "NAME", 0,
	  "Machine, or the path of its file with a '/' in it (default: " DEFAULT_MACHINE
	  "; with --published the one of the figures)",
	  0 },
	{ "cpus", 'c', "N", 0, "CPUs, 1 to 384 (default: the machine's)", 0 },
	{ "nodes", 'n', "N", 0, "NUMA nodes, 1 to 16 (default: the machine's)", 0 },
	{ "set", KEY_SET, "FIELD=VALUE", 0, "Change a field of the machine file; may be repeated",
	  0 },
	{ "threads", 't', "N", 0, "Threads that work (default: one for each CPU)", 0 },
	{ "seed", KEY_SEED, "S", 0, "Seed of the first round; the next has S+1 (default: 1)", 0 },
	{ "warmup", 'w', "MS", 0, "Virtual milliseconds before the measurement (default: 60)", 0 },
	{ "time", 'T', "MS", 0, "Virtual milliseconds to measure in each round (default: 30)", 0 },
	{ "repeat", 'r', "N", 0, "Rounds (default: 2)", 0 },
	{ "size", KEY_SIZE, "BYTES", 0, "Size of an object (default: the workload's)", 0 },
	{ "burst", KEY_BURST, "N", 0, "burst: objects of a burst (default: 32)", 0 },
	{ "window", KEY_WINDOW, "N", 0, "window: objects of the window (default: 1024)", 0 },
	{ "groups", KEY_GROUPS, "N", 0, "hackbench: groups of threads (default: 20)", 0 },
	{ "fds", KEY_FDS, "N", 0,
	  "hackbench: threads of a group that send, and that receive (default: 20)", 0 },

	{ NULL, 0, NULL, 0, "What is compared:", 2 },
	{ "before", KEY_BEFORE, "P=V,...", 0, "Policy of the first side (default: the defaults)",
	  0 },
	{ "after", KEY_AFTER, "P=V,...", 0, "Policy of the second side (default: the defaults)",
	  0 },
	{ "matrix", KEY_MATRIX, "P=V,V...", 0,
	  "Every value of a policy; given again, every combination", 0 },
	{ "sweep", KEY_SWEEP, "cpus=N,N...", 0, "All of it with each of these numbers of CPUs", 0 },
	{ "published", KEY_PUBLISHED, NULL, 0,
	  "mmap1, hackbench: also published figures, beside the model's", 0 },

	{ NULL, 0, NULL, 0, "What is printed:", 3 },
	{ "format", 'f', "FORMAT", 0, "table (default), json, csv or markdown", 0 },
	{ "plot", KEY_PLOT, "FILE", 0, "Also draw the throughput, as SVG (needs gnuplot)", 0 },
	{ "speed", KEY_SPEED, NULL, 0,
	  "Also how fast the simulator was, the one figure that no two runs agree on", 0 },
	{ "no-progress", KEY_NO_PROGRESS, NULL, 0, "Do not show what is running", 0 },

	/* Those of `uslub bench` that mean nothing here, to say why. */
	{ "pin", KEY_PIN, NULL, OPTION_HIDDEN, NULL, 0 },
	{ "allocator", 'a', "NAME,...", OPTION_HIDDEN, NULL, 0 },
	{ "scaling", KEY_SCALING, NULL, OPTION_HIDDEN, NULL, 0 },
	{ "memory-limit", KEY_MEMORY_LIMIT, "BYTES", OPTION_HIDDEN, NULL, 0 },
	{ "seconds", 's', "S", OPTION_HIDDEN, NULL, 0 },
	{ "ops", 'o', "N", OPTION_HIDDEN, NULL, 0 },
	{ "rate", KEY_RATE, "R", OPTION_HIDDEN, NULL, 0 },
	{ "batch", KEY_BATCH, "N", OPTION_HIDDEN, NULL, 0 },
	{ "readers", KEY_READERS, "N", OPTION_HIDDEN, NULL, 0 },
	{ "loops", KEY_LOOPS, "N", OPTION_HIDDEN, NULL, 0 },
	{ "transport", KEY_TRANSPORT, "KIND", OPTION_HIDDEN, NULL, 0 },
	{ "slabs", KEY_SLABS, "N", OPTION_HIDDEN, NULL, 0 },
	{ "read-rate", KEY_READ_RATE, "R", OPTION_HIDDEN, NULL, 0 },
	{ "stall", KEY_STALL, "US", OPTION_HIDDEN, NULL, 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

static const struct {
	int key;
	const char *option;
	const char *why;
} meaningless[] = {
	{ KEY_PIN, "--pin", "simulated threads stay on their CPUs anyway" },
	{ 'a', "--allocator", "the simulator is built with uslub's core alone" },
	{ KEY_SCALING, "--scaling", "use --sweep cpus=1,2,4,..." },
	{ KEY_MEMORY_LIMIT, "--memory-limit", "simulated memory is not that of this machine" },
	{ 's', "--seconds", "use --time, in milliseconds of virtual time" },
	{ 'o', "--ops", "a round is so much virtual time: --time" },
	{ KEY_RATE, "--rate", "simulated threads always work as fast as they can" },
	{ KEY_BATCH, "--batch", "it belongs to the allocator 'batch'" },
	{ KEY_READERS, "--readers", "nobody reads in the simulation" },
	{ KEY_LOOPS, "--loops", "a round is so much virtual time: --time" },
	{ KEY_TRANSPORT, "--transport", "simulated messages go through rings" },
	{ KEY_SLABS, "--slabs", "the workload 'statread' is not simulated" },
	{ KEY_READ_RATE, "--read-rate", "the workload 'statread' is not simulated" },
	{ KEY_STALL, "--stall", "the workload 'statread' is not simulated" },
};

/* What is parsed, before the machine is read. */
struct parsed {
	struct bench_options *o;
	struct sim_options *sim;
	const char *machine;
	unsigned cpus, nodes;
};

static char *help_filter(int key, const char *text, void *input)
{
	struct tool_text help;
	char *machines;
	FILE *out;

	(void)input;
	if (!tool_text_help(&help, key))
		return (char *)text;
	out = help.out;
	bench_print_workloads(out);
	bench_print_policies(out);
	machines = machine_list();
	fprintf(out, "\nMachines: %s\n", machines);
	free(machines);
	fprintf(out,
		"\nExamples:\n"
		"  uslub sim mmap1 --before prefill-barn=off --after prefill-barn=on\n"
		"  uslub sim mmap1 --published --repeat 3\n"
		"  uslub sim mmap1 --matrix parking=off,on --sweep cpus=1,8,64,192,384\n"
		"  uslub sim mmap1 --machine laptop --set rcu_gp=10ms --format json\n"
		"  uslub sim explore --schedules 100k     (hunts bugs; has its own --help)\n\n"
		"Every throughput is that of a model, which docs/SIMULATOR.md tells about.\n\n"
		"Exit status: 0 done; 1 counters that must agree do not; 2 wrong usage, or no\n"
		"data; 130 interrupted, what was simulated until then has been printed.");
	return tool_text_end(&help);
}

static void refuse_meaningless(struct argp_state *state, int key)
{
	for (unsigned i = 0; i < TOOL_COUNT(meaningless); i++)
		if (meaningless[i].key == key)
			argp_error(state, "%s has no meaning on a simulated machine: %s",
				   meaningless[i].option, meaningless[i].why);
}

static void parse_sweep(struct argp_state *state, const char *arg, struct sim_options *sim)
{
	const char *name = "cpus=";
	char *list, *item, *rest;

	if (strncmp(arg, name, strlen(name))) {
		argp_error(state, "--sweep takes cpus=N,N..., not '%s'", arg);
		return;
	}
	list = tool_copy(arg + strlen(name));
	for (rest = list; (item = strsep(&rest, ","));) {
		sim->sweep = tool_grow(sim->sweep, sim->sweep_count + 1, sizeof(*sim->sweep));
		bench_arg_unsigned(state, "sweep cpus", item, 1, SIM_CPUS_MAX,
				   &sim->sweep[sim->sweep_count]);
		sim->sweep_count++;
	}
	free(list);
}

static error_t parse_simulation(int key, char *arg, struct argp_state *state, struct parsed *p)
{
	struct sim_options *sim = p->sim;

	switch (key) {
	case 't':
		bench_arg_unsigned(state, "threads", arg, 1, MOST_THREADS, &p->o->threads);
		p->o->threads_given = true;
		break;
	case 'm':
		p->machine = arg;
		break;
	case 'c':
		bench_arg_unsigned(state, "cpus", arg, 1, SIM_CPUS_MAX, &p->cpus);
		break;
	case 'n':
		bench_arg_unsigned(state, "nodes", arg, 1, SIM_NODES_MAX, &p->nodes);
		break;
	case KEY_SET:
		sim->sets = tool_grow(sim->sets, sim->sets_count + 1, sizeof(*sim->sets));
		sim->sets[sim->sets_count++] = arg;
		break;
	case KEY_SEED:
		if (numbers_parse(arg, 1000, &sim->seed))
			argp_error(state, "--seed takes a whole number, not '%s'", arg);
		break;
	case 'w':
		if (numbers_parse_real(arg, &sim->warmup_ms) || sim->warmup_ms > MOST_MS)
			argp_error(state, "--warmup takes a number from 0 to %g, not '%s'", MOST_MS,
				   arg);
		break;
	case 'T':
		bench_arg_real(state, "time", arg, MOST_MS, &sim->ms);
		break;
	case KEY_PUBLISHED:
		sim->published = true;
		break;
	case KEY_SPEED:
		sim->speed = true;
		break;
	case KEY_SWEEP:
		parse_sweep(state, arg, sim);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void refuse(struct argp_state *state, const struct bench_options *o, const char *option)
{
	argp_error(state, "%s has no meaning for the workload '%s'", option, o->workload->name);
}

static void check_workload(struct argp_state *state, const struct bench_options *o)
{
	bool groups = o->workload->flags & WL_GROUPS;
	unsigned n = 2 * (o->groups ? o->groups : DEFAULT_GROUPS) * (o->fds ? o->fds : DEFAULT_FDS);

	if (o->workload->flags & WL_STATS)
		argp_error(state,
			   "the workload '%s' is not simulated: it measures by the host's clock",
			   o->workload->name);
	if (o->workload->flags & WL_GENERAL)
		argp_error(
			state,
			"the workload '%s' is not simulated: its objects have sizes of all kinds, "
			"and the simulator has caches alone",
			o->workload->name);
	if (o->groups && !groups)
		refuse(state, o, "--groups");
	if (o->fds && !groups)
		refuse(state, o, "--fds");
	if (o->threads_given && groups)
		argp_error(state, "the threads of '%s' follow from --groups and --fds",
			   o->workload->name);
	if (o->loops)
		refuse_meaningless(state, KEY_LOOPS);
	if (groups && n > MOST_THREADS)
		argp_error(state, "these groups have %u threads; at most %u can be simulated", n,
			   MOST_THREADS);
	bench_check_size(state, o);
}

static void check_all(struct argp_state *state, struct parsed *p)
{
	struct bench_options *o = p->o;
	bool policies = o->before || o->after;

	bench_check_workload(state, o);
	check_workload(state, o);
	bench_check_policies(state, o);
	if (policies && o->matrix_count)
		argp_error(state, "--before and --after, or --matrix: one of the two");
	if (!p->sim->published)
		return;
	if (o->workload->id != WL_mmap1 && o->workload->id != WL_hackbench)
		argp_error(state,
			   "nothing was published about the workload '%s': --published is "
			   "for mmap1 and hackbench",
			   o->workload->name);
	if (p->sim->sweep_count)
		argp_error(state, "--published and --sweep: one of the two");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parsed *p = state->input;

	switch (key) {
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case ARGP_KEY_ARG:
		bench_arg_workload(state, arg, p->o);
		return 0;
	case ARGP_KEY_END:
		check_all(state, p);
		return 0;
	}
	refuse_meaningless(state, key);
	if (!parse_simulation(key, arg, state, p) || !bench_arg_shape(key, arg, state, p->o))
		return 0;
	return bench_arg_report(key, arg, state, p->o);
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "WORKLOAD",
	.doc = "Run a workload on a simulated machine, under one or several policies.\v",
	.help_filter = help_filter,
};

static void die(char *message)
{
	tool_error("%s", message);
	exit(TOOL_EXIT_USAGE);
}

/* The one that published figures are about, where they are asked for. */
static const char *default_machine(const struct parsed *p)
{
	return p->sim->published ? sim_published_machine(p->o) : DEFAULT_MACHINE;
}

/* The machine with what the command line changes of it. */
static void prepare_machine(const struct parsed *p)
{
	struct sim_machine *machine = &p->sim->machine;
	const char *name = p->machine ? p->machine : default_machine(p);
	char *message = machine_read(name, machine);

	for (unsigned i = 0; i < p->sim->sets_count && !message; i++) {
		message = machine_set(machine, p->sim->sets[i]);
		if (message)
			message = tool_format("--set: %s", message);
	}
	if (message)
		die(message);
	if (p->cpus)
		machine->cpus = p->cpus;
	if (p->nodes)
		machine->nodes = p->nodes;
	/* A machine with fewer CPUs than its file says has no empty nodes. */
	if (p->cpus && !p->nodes && machine->nodes > machine->cpus)
		machine->nodes = machine->cpus;
	message = machine_check(machine);
	if (message)
		die(message);
	p->sim->path = machine_path(name);
}

/* Without something to compare, --published asks for what the figures are about. */
static void compare_published(struct bench_options *o)
{
	static const char *const mmap1[] = { "prefill-barn=off,on", "parking=off,on" };
	/* Once-full slabs were kept by the CPU in 2020, without list_lock: parking comes nearest. */
	static const char *const hackbench[] = { "parking=on", "partial-count=scan,atomic,percpu" };
	bool trees = o->workload->id == WL_mmap1;
	const char *const *matrix = trees ? mmap1 : hackbench;

	if (o->before || o->after || o->matrix_count)
		return;
	o->matrix_count = trees ? TOOL_COUNT(mmap1) : TOOL_COUNT(hackbench);
	o->matrix = tool_alloc(o->matrix_count, sizeof(*o->matrix));
	memcpy(o->matrix, matrix, o->matrix_count * sizeof(*o->matrix));
}

static void set_defaults(struct bench_options *o, struct sim_options *sim)
{
	if (o->workload->flags & WL_GROUPS) {
		if (!o->groups)
			o->groups = DEFAULT_GROUPS;
		if (!o->fds)
			o->fds = DEFAULT_FDS;
		o->threads = 2 * o->groups * o->fds;
	}
	if (!o->size)
		o->size = o->workload->size;
	if (!o->threads)
		o->threads = sim->machine.cpus;
	sim->threads_given = o->threads_given;
	if (sim->published)
		compare_published(o);
}

void sim_parse(int argc, char **argv, struct bench_options *o, struct sim_options *sim)
{
	struct parsed p = { .o = o, .sim = sim };

	memset(o, 0, sizeof(*o));
	memset(sim, 0, sizeof(*sim));
	o->sim = sim;
	o->repeat = 2;
	o->burst = 32;
	o->window = 1024;
	sim->seed = 1;
	sim->warmup_ms = 60;
	sim->ms = 30;
	argp_parse(&argp, argc, argv, 0, NULL, &p);
	prepare_machine(&p);
	set_defaults(o, sim);
}
