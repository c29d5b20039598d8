/* SPDX-License-Identifier: MIT */
/*
 * `uslub bench`: plan, measure round by round, report.
 */
#include <stdlib.h>
#include "bench.h"
#include "command.h"
#include "tool.h"

/* Work that is over sooner than this shows no progress. */
#define PROGRESS_AFTER_NS 2000000000u

/*
 * struct progress - the line on the terminal that says what is running
 * @shown: it is there and has to be wiped
 */
struct progress {
	const struct bench *b;
	const struct bench_run *run;
	uint64_t begin;
	unsigned done;
	bool enabled;
	bool shown;
};

static void show_progress(void *arg)
{
	struct progress *p = arg;
	uint64_t passed = tool_now_ns() - p->begin;
	unsigned all = p->b->options->repeat * p->b->runs_count;

	if (!p->enabled || passed < PROGRESS_AFTER_NS)
		return;
	fprintf(stderr, "\r\033[K%s: %u of %u, round %u of %u, %.0f s", p->run->label, p->done + 1,
		all, p->b->rounds, p->b->options->repeat, (double)passed / 1e9);
	if (p->done)
		fprintf(stderr, " of about %.0f s", (double)passed / 1e9 * all / (p->done + 0.5));
	fflush(stderr);
	p->shown = true;
}

static void wipe_progress(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}

static int measure_all(struct bench *b)
{
	struct progress progress = {
		.b = b,
		.begin = tool_now_ns(),
		.enabled = !b->options->no_progress && tool_terminal(stderr),
	};

	for (unsigned round = 0; round < b->options->repeat; round++) {
		b->rounds = round + 1;
		for (unsigned i = 0; i < b->runs_count; i++) {
			int error;

			progress.run = &b->runs[i];
			error = bench_spawn(b, progress.run, round, show_progress, &progress);
			wipe_progress(&progress);
			if (error)
				return error;
			if (b->interrupted)
				return 0;
			progress.done++;
		}
	}
	return 0;
}

static int report(const struct bench *b)
{
	struct tool_text text;
	FILE *out;

	tool_text_begin(&text);
	out = text.out;
	switch (b->options->format) {
	case REPORT_TABLE:
		bench_text(b, out, tool_width(stdout), tool_colour(stdout));
		break;
	case REPORT_JSON:
		bench_json(b, out);
		break;
	case REPORT_CSV:
		bench_csv(b, out);
		break;
	case REPORT_MARKDOWN:
		bench_markdown(b, out);
		break;
	}
	return tool_text_show(&text, NULL);
}

static bool anything_measured(const struct bench *b)
{
	for (unsigned i = 0; i < b->runs_count; i++) {
		if (bench_measured(b, &b->runs[i]))
			return true;
	}
	return false;
}

static bool checks_failed(const struct bench *b)
{
	bool failed;
	struct report rows = bench_rows(b, &failed);

	report_free(&rows);
	return failed;
}

static int finish(const struct bench *b)
{
	const char *plot = b->options->plot;
	int error;

	if (!anything_measured(b)) {
		tool_error("%s", b->interrupted ? "interrupted before anything was measured"
						: "nothing was measured: the run is too short");
		return b->interrupted ? TOOL_EXIT_INTERRUPTED : TOOL_EXIT_USAGE;
	}
	error = report(b);
	/* A table says it itself; a document for programs has no place for it. */
	if (b->options->format != REPORT_TABLE)
		bench_warnings(b, stderr);
	if (!error && plot)
		error = bench_plot(b, plot);
	if (b->interrupted)
		return TOOL_EXIT_INTERRUPTED;
	if (error)
		return error;
	return checks_failed(b) ? TOOL_EXIT_NO : 0;
}

static void free_bench(struct bench *b)
{
	for (unsigned i = 0; i < b->runs_count; i++) {
		for (unsigned k = 0; k < b->options->repeat; k++) {
			free(b->runs[i].results[k].note);
			free(b->runs[i].results[k].latencies);
		}
		free(b->runs[i].results);
		free(b->runs[i].label);
		free(b->runs[i].policy_text);
		free(b->runs[i].cpus);
	}
	free(b->runs);
	for (unsigned i = 0; i < b->allocators_count; i++)
		allocator_free(b->allocators[i]);
	free(b->allocators);
}

int bench_run_all(const struct bench_options *options)
{
	struct bench b = { .options = options };
	int error = 0;

	if (options->plot)
		error = bench_plot_check(options->plot);
	bench_catch_interrupts();
	if (!error)
		error = bench_plan(&b);
	if (!error)
		error = measure_all(&b);
	if (!error)
		error = finish(&b);
	free_bench(&b);
	return error;
}

int command_bench(int argc, char **argv)
{
	struct bench_options options;
	int error;

	bench_parse(argc, argv, &options);
	error = options.kernel ? bench_kernel(&options) : bench_run_all(&options);
	free(options.matrix);
	return error;
}
