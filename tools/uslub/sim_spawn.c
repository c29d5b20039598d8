/* SPDX-License-Identifier: MIT */
/*
 * One run of one configuration on the simulated machine: what the program uslub-sim is told, which is beside
 * this one where both were built, else in the directory for programs that only programs start.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include "tool.h"

#define SIMULATOR "uslub-sim"

char *sim_program(void)
{
	return tool_installed(".", USLUB_LIBEXEC_DIR, SIMULATOR, X_OK);
}

struct list {
	char **texts;
	unsigned n;
};

static void add(struct list *list, char *text)
{
	list->texts = tool_grow(list->texts, list->n + 2, sizeof(*list->texts));
	list->texts[list->n++] = text;
	list->texts[list->n] = NULL;
}

char **sim_arguments(const struct bench *b, const struct bench_run *run, unsigned round)
{
	const struct bench_options *o = b->options;
	const struct sim_options *sim = o->sim;
	struct list list = { 0 };

	add(&list, tool_copy(SIMULATOR));
	add(&list, tool_copy(o->workload->name));
	add(&list, tool_format("--machine=%s", sim->path));
	for (unsigned i = 0; i < sim->sets_count; i++)
		add(&list, tool_format("--set=%s", sim->sets[i]));
	add(&list, tool_format("--cpus=%u", run->machine_cpus));
	add(&list, tool_format("--nodes=%u", run->machine_nodes));
	add(&list, tool_format("--threads=%u", run->threads));
	add(&list, tool_format("--seed=%" PRIu64, sim->seed + round));
	add(&list, tool_format("--warmup=%.9g", sim->warmup_ms));
	add(&list, tool_format("--time=%.9g", sim->ms));
	add(&list, tool_format("--policy=%s", run->policy_text));
	add(&list, tool_format("--size=%zu", o->size));
	add(&list, tool_format("--burst=%u", o->burst));
	add(&list, tool_format("--window=%u", o->window));
	add(&list, tool_format("--variant=%u", run->variant));
	if (o->workload->flags & WL_GROUPS)
		add(&list, tool_format("--fds=%u", o->fds));
	return list.texts;
}
