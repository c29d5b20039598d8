/* SPDX-License-Identifier: MIT */
/*
 * From options to configurations: which runs are compared, what they are called, and where they
 * run.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "policy.h"
#include "tool.h"

/*
 * bench_online_cpus - the CPUs this process may use
 * @cpus: set to their numbers, for the caller to free; or NULL
 *
 * Those of the affinity mask, not all that are online: the user may have chosen some by taskset.
 */
unsigned bench_online_cpus(int **cpus)
{
	const unsigned most = 65536;
	size_t size = CPU_ALLOC_SIZE(most);
	cpu_set_t *set = CPU_ALLOC(most);
	unsigned n = 0;

	if (set && !sched_getaffinity(0, size, set)) {
		n = (unsigned)CPU_COUNT_S(size, set);
		if (cpus)
			*cpus = tool_alloc(n, sizeof(**cpus));
		for (unsigned cpu = 0, i = 0; cpus && cpu < most; cpu++) {
			if (CPU_ISSET_S(cpu, size, set))
				(*cpus)[i++] = (int)cpu;
		}
	}
	CPU_FREE(set);
	if (n)
		return n;
	if (cpus)
		*cpus = tool_alloc(1, sizeof(**cpus));
	return 1;
}

/* The CPUs to pin @threads threads to, as an option of the worker. */
static char *cpu_list(unsigned threads)
{
	int *cpus;
	unsigned n = bench_online_cpus(&cpus);
	char *list = tool_copy("");

	for (unsigned i = 0; i < threads; i++) {
		char *longer = tool_format("%s%s%d", list, i ? "," : "", cpus[i % n]);

		free(list);
		list = longer;
	}
	free(cpus);
	return list;
}

static struct bench_run *add_run(struct bench *b, char *label, const struct allocator *allocator,
				 const char *policy)
{
	struct bench_run *run;

	b->runs = tool_grow(b->runs, b->runs_count + 1, sizeof(*b->runs));
	run = &b->runs[b->runs_count++];
	memset(run, 0, sizeof(*run));
	run->label = label;
	run->allocator = allocator;
	run->policy_text = tool_copy(policy ? policy : "");
	run->threads = b->options->threads;
	if (b->options->workload->flags & WL_PAIRS)
		run->threads += run->threads % 2;
	run->results = tool_alloc(b->options->repeat, sizeof(*run->results));
	if (b->options->sim) {
		run->machine_cpus = b->options->sim->machine.cpus;
		run->machine_nodes = b->options->sim->machine.nodes;
	}
	if (b->options->pin)
		run->cpus = cpu_list(run->threads);
	return run;
}

/*
 * A workload's variants differ in how they use uslub's interface. An allocator with malloc's
 * interface can run the last of them only, which asks for the least.
 */
static void add_variants(struct bench *b, char *label, const struct allocator *allocator,
			 const char *policy, bool alone)
{
	const char *const *variants = b->options->workload->variants;
	bool all = allocator->family == &wl_family_uslub;

	if (!variants) {
		add_run(b, label, allocator, policy);
		return;
	}
	for (unsigned i = 0; variants[i]; i++) {
		char *name;

		if (!all && variants[i + 1])
			continue;
		name = !all    ? tool_copy(label)
		       : alone ? tool_copy(variants[i])
			       : tool_format("%s/%s", label, variants[i]);
		add_run(b, name, allocator, policy)->variant = i;
	}
	free(label);
}

static void plan_before_after(struct bench *b, const struct allocator *allocator)
{
	b->before_after = !b->options->workload->variants;
	add_variants(b, tool_copy("before"), allocator, b->options->before, false);
	add_variants(b, tool_copy("after"), allocator, b->options->after, false);
}

/* Adds a run for every combination of the values of the matrix options from @level on. */
static void plan_matrix(struct bench *b, const struct allocator *allocator, unsigned level,
			const char *chosen)
{
	const char *text, *value;
	int name;

	if (level == b->options->matrix_count) {
		add_variants(b, tool_copy(chosen), allocator, chosen, false);
		return;
	}
	text = b->options->matrix[level];
	name = (int)strcspn(text, "=");
	for (value = text + name + 1;; value++) {
		int length = (int)strcspn(value, ",");
		char *more = tool_format("%s%s%.*s=%.*s", chosen, *chosen ? "," : "", name, text,
					 length, value);

		plan_matrix(b, allocator, level + 1, more);
		free(more);
		value += length;
		if (!*value)
			return;
	}
}

static void plan_scaling(struct bench *b, const struct allocator *allocator)
{
	int *cpus;
	unsigned n = bench_online_cpus(&cpus);
	struct bench_run *run;

	if (b->options->threads_given && b->options->threads < n)
		n = b->options->threads;
	for (unsigned i = 0; i < n; i++) {
		run = add_run(b, tool_format("%s cpu %d", allocator->name, cpus[i]), allocator,
			      NULL);
		run->threads = 1;
		free(run->cpus);
		run->cpus = tool_format("%d", cpus[i]);
	}
	run = add_run(b, tool_format("%s together", allocator->name), allocator, NULL);
	run->threads = n;
	free(run->cpus);
	run->cpus = cpu_list(n);
	free(cpus);
}

static void plan_allocator(struct bench *b, const struct allocator *allocator, bool alone)
{
	const struct bench_options *o = b->options;

	if (o->scaling)
		plan_scaling(b, allocator);
	else if (o->matrix_count)
		plan_matrix(b, allocator, 0, "");
	else if (o->before || o->after)
		plan_before_after(b, allocator);
	else
		add_variants(b, tool_copy(allocator->name), allocator, NULL, alone);
}

/* Says what is not installed. Such an allocator is left out, since the others can still be measured. */
static bool usable(const struct allocator *allocator)
{
	/* What is missing of this project has been said. */
	if (allocator->missing)
		return false;
	if (bench_spawn_probe(allocator))
		return true;
	if (allocator->package)
		tool_error("%s is not installed (%s, Debian package %s): left out", allocator->name,
			   allocator->library, allocator->package);
	else
		tool_error("%s cannot be preloaded, or does not define malloc and free: left out",
			   allocator->name);
	return false;
}

/* Why the allocator cannot do what the workload asks for, as the end of a message; NULL: it can. */
static const char *refusal(const struct workload *workload, const struct allocator *allocator)
{
	if (!wl_can_run(allocator->family, workload))
		return "cannot run the workload '%s', whose objects have sizes of all kinds: it "
		       "takes "
		       "one that is a malloc, such as uslub-malloc or glibc";
	if (allocator->family == &wl_family_batch && !(workload->flags & WL_RCU))
		return "has no meaning for the workload '%s', which defers no frees";
	if (allocator->family == &wl_family_floor && (workload->flags & WL_GROUPS))
		return "has no meaning for the workload '%s', whose objects are freed by other "
		       "threads "
		       "than those that allocate";
	if (allocator->family != &wl_family_uslub && (workload->flags & WL_STATS))
		return "has no statistics for the workload '%s' to read";
	return NULL;
}

static struct allocator *find_allocator(const struct workload *workload, const char *name)
{
	struct allocator *allocator = allocator_find(name);
	const char *why;
	char *text;

	if (!allocator) {
		text = allocator_list();
		tool_error("there is no allocator '%s'; the allocators are: %s, batch+NAME, or the "
			   "path of a library with a '/' in it",
			   name, text);
		free(text);
		return NULL;
	}
	why = refusal(workload, allocator);
	if (why) {
		text = tool_format(why, workload->name);
		tool_error("allocator '%s' %s", name, text);
		free(text);
		allocator_free(allocator);
		return NULL;
	}
	return allocator;
}

static void add_allocator(struct bench *b, struct allocator *allocator)
{
	b->allocators = tool_grow(b->allocators, b->allocators_count + 1, sizeof(*b->allocators));
	b->allocators[b->allocators_count++] = allocator;
}

/* All of the list that the workload can do with. */
static void find_all(struct bench *b)
{
	for (unsigned i = 0; i < allocators_count; i++)
		if (!refusal(b->options->workload, &allocators[i]))
			add_allocator(b, allocator_find(allocators[i].name));
}

/* Finds all that are named before anything is started. */
static int find_allocators(struct bench *b, const char *names)
{
	if (!strcmp(names, "all")) {
		find_all(b);
		return 0;
	}
	for (;;) {
		size_t length = strcspn(names, ",");
		char *name = tool_format("%.*s", (int)length, names);
		struct allocator *allocator = find_allocator(b->options->workload, name);

		free(name);
		if (!allocator)
			return -1;
		add_allocator(b, allocator);
		if (!names[length])
			return 0;
		names += length + 1;
	}
}

static void sweep_run(struct bench *b, struct bench_run *run, unsigned cpus, bool alone)
{
	const struct sim_options *sim = b->options->sim;
	char *label = alone ? tool_format("cpus=%u", cpus)
			    : tool_format("%s,cpus=%u", run->label, cpus);

	free(run->label);
	run->label = label;
	run->machine_cpus = cpus;
	run->machine_nodes = sim->machine.nodes < cpus ? sim->machine.nodes : cpus;
	if (!sim->threads_given && !(b->options->workload->flags & WL_GROUPS))
		run->threads = b->options->workload->flags & WL_PAIRS ? cpus + cpus % 2 : cpus;
}

/* Every configuration again on every machine of the sweep, the first ones for all of them. */
static void plan_sweep(struct bench *b)
{
	const struct sim_options *sim = b->options->sim;
	unsigned n = b->runs_count;

	b->before_after = false;
	for (unsigned k = 1; k < sim->sweep_count; k++)
		for (unsigned i = 0; i < n; i++) {
			char *label = tool_copy(b->runs[i].label);
			char *policy = tool_copy(b->runs[i].policy_text);
			struct bench_run *run = add_run(b, label, b->runs[i].allocator, policy);

			run->variant = b->runs[i].variant;
			free(policy);
		}
	for (unsigned k = 0; k < sim->sweep_count; k++)
		for (unsigned i = 0; i < n; i++)
			sweep_run(b, &b->runs[k * n + i], sim->sweep[k], n == 1);
}

int bench_plan(struct bench *b)
{
	bool general = b->options->workload->flags & WL_GENERAL;
	const char *asked = b->options->allocators ? b->options->allocators
			    : general		   ? "uslub-malloc"
						   : "uslub";

	if (find_allocators(b, asked))
		return TOOL_EXIT_USAGE;
	for (unsigned i = 0; i < b->allocators_count; i++) {
		if (usable(b->allocators[i]))
			plan_allocator(b, b->allocators[i], b->allocators_count == 1);
	}
	if (b->options->sim && b->options->sim->sweep_count)
		plan_sweep(b);
	if (b->runs_count)
		return 0;
	tool_error("nothing is left to measure");
	return TOOL_EXIT_USAGE;
}
