/* SPDX-License-Identifier: MIT */
/*
 * The report for people.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "numbers.h"
#include "table.h"
#include "tool.h"

/* Labels longer than this stand in a legend, and a letter in the heading. */
#define LABEL_WIDTH 16u

struct text {
	const struct bench *b;
	FILE *out;
	unsigned width;
	const char *bold;
	const char *red;
	const char *plain;
	bool letters; /* columns are headed by letters */
};

static bool shown(const struct text *t, unsigned i)
{
	return bench_measured(t->b, &t->b->runs[i]);
}

static unsigned shown_count(const struct text *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->b->runs_count; i++)
		n += shown(t, i);
	return n;
}

/* The n-th letter, for the heading of a column; "A1" after "Z". */
static char *letter(unsigned i)
{
	char *text = tool_format("%c", 'A' + i % 26);
	char *numbered;

	if (i < 26)
		return text;
	numbered = tool_format("%s%u", text, i / 26);
	free(text);
	return numbered;
}

static char *heading(const struct text *t, unsigned i)
{
	return t->letters ? letter(i) : tool_copy(t->b->runs[i].label);
}

/* ---- What the reader must know ---- */

static void print_notes(const struct bench *b, FILE *out)
{
	for (unsigned i = 0; i < b->runs_count; i++) {
		const struct bench_run *run = &b->runs[i];
		unsigned noted = 0;
		const char *note = NULL;

		for (unsigned k = 0; k < b->options->repeat; k++) {
			if (!run->results[k].note)
				continue;
			note = run->results[k].note;
			noted++;
		}
		if (noted)
			fprintf(out, "%s: %s (%u of %u rounds)\n", run->label, note, noted,
				b->options->repeat);
	}
}

static void print_failed_checks(FILE *out, const struct report *rows, const char *red,
				const char *plain)
{
	for (unsigned i = 0; i < rows->count; i++) {
		for (unsigned k = 0; k < rows->columns; k++) {
			const char *verdict = rows->rows[i].cells[k].verdict;

			if (verdict && !strcmp(verdict, "FAIL"))
				fprintf(out, "%sFAIL%s %s\n", red, plain, rows->rows[i].name);
		}
	}
}

static void print_failures(const struct bench *b, FILE *out, const char *red, const char *plain)
{
	struct bench_result total;
	bool failed;
	struct report rows = bench_rows(b, &failed);

	for (unsigned i = 0; i < b->runs_count; i++) {
		bench_total(b, &b->runs[i], &total);
		if (total.bad_reads)
			fprintf(out, "%sFAIL%s %s: readers saw %.0f objects reused too early\n",
				red, plain, b->runs[i].label, (double)total.bad_reads);
		if (bench_corrupt(b, &b->runs[i]) > 0)
			fprintf(out,
				"%sFAIL%s %s: %.0f messages or objects were lost, doubled or "
				"changed\n",
				red, plain, b->runs[i].label, bench_corrupt(b, &b->runs[i]));
	}
	print_failed_checks(out, &rows, red, plain);
	report_free(&rows);
}

void bench_warnings(const struct bench *b, FILE *out)
{
	print_notes(b, out);
	print_failures(b, out, "", "");
}

/* ---- What was run ---- */

static char *duration(const struct bench_options *o)
{
	char *ops, *text;

	if (!o->ops)
		return tool_format("%g s", o->seconds);
	ops = numbers_thousands(o->loops ? (double)o->loops : (double)o->ops);
	text = tool_format(o->loops ? "%s loops" : "%s operations per thread", ops);
	free(ops);
	return text;
}

/* "256-byte objects", or "256 + 512-byte objects", or "8 to 1024-byte objects", or the file of a trace */
static char *sizes(const struct bench_options *o)
{
	const struct wl_params params = { .workload = o->workload, .size = o->size };
	char *text, *longer;

	if (o->workload->flags & WL_TRACE)
		return tool_copy(o->trace_file);
	text = o->workload->flags & WL_GENERAL && o->min_size < o->size
		       ? tool_format("%zu to %zu", o->min_size, o->size)
		       : tool_format("%zu", o->size);

	for (unsigned i = 1; i < wl_caches(o->workload); i++) {
		longer = tool_format("%s + %zu", text, wl_cache_size(&params, i));
		free(text);
		text = longer;
	}
	longer = tool_format("%s-byte objects", text);
	free(text);
	return longer;
}

static char *cache_names(const struct workload *workload)
{
	char *text = tool_copy(wl_cache_name(workload, 0));

	for (unsigned i = 1; i < wl_caches(workload); i++) {
		char *longer = tool_format("%s + %s", text, wl_cache_name(workload, i));

		free(text);
		text = longer;
	}
	return text;
}

/* Time is virtual, and what is measured is a model. */
static void print_model_title(const struct text *t, const struct bench_options *o)
{
	const struct sim_options *sim = o->sim;
	char *bytes = sizes(o);

	fprintf(t->out, "%s: %s, %u round%s of %g ms after %g ms\n", o->workload->name, bytes,
		o->repeat, o->repeat == 1 ? "" : "s", sim->ms, sim->warmup_ms);
	free(bytes);
	if (sim->sweep_count)
		fprintf(t->out, "on a model of the machine %s", sim->machine.name);
	else
		fprintf(t->out, "on a model of the machine %s: %u CPU%s, %u node%s, %u thread%s",
			sim->machine.name, sim->machine.cpus, sim->machine.cpus == 1 ? "" : "s",
			sim->machine.nodes, sim->machine.nodes == 1 ? "" : "s",
			t->b->runs[0].threads, t->b->runs[0].threads == 1 ? "" : "s");
	if (o->repeat > 1)
		fprintf(t->out, "; seeds %" PRIu64 " to %" PRIu64 "\n", sim->seed,
			sim->seed + o->repeat - 1);
	else
		fprintf(t->out, "; seed %" PRIu64 "\n", sim->seed);
	for (unsigned i = 0; i < sim->sets_count; i++)
		fprintf(t->out, "(changed: %s)\n", sim->sets[i]);
	if (o->workload->flags & WL_GROUPS)
		fprintf(t->out, "(%u group%s of %u threads that send and %u that receive)\n",
			o->groups, o->groups == 1 ? "" : "s", o->fds, o->fds);
	if (t->b->interrupted)
		fprintf(t->out, "interrupted: this is what was simulated until then\n");
}

static void print_title(const struct text *t)
{
	const struct bench_options *o = t->b->options;
	const struct bench_run *last = &t->b->runs[t->b->runs_count - 1];
	char *length, *bytes;

	if (o->sim) {
		print_model_title(t, o);
		return;
	}
	length = duration(o);
	bytes = sizes(o);
	fprintf(t->out, "%s: %s, %u thread%s, %u round%s of %s\n", o->workload->name, bytes,
		last->threads, last->threads == 1 ? "" : "s", o->repeat, o->repeat == 1 ? "" : "s",
		length);
	free(length);
	free(bytes);
	if (o->workload->flags & WL_STATS)
		fprintf(t->out,
			"(%u part-used slabs; %u of the threads read%s statistics %g times a "
			"second; a burst is stalled above %g us)\n",
			o->slabs, o->readers, o->readers == 1 ? "s" : "", o->read_rate,
			o->stall_us);
	if (o->workload->flags & WL_GROUPS)
		fprintf(t->out, "(%u group%s of %u threads that send and %u that receive, %s)\n",
			o->groups, o->groups == 1 ? "" : "s", o->fds, o->fds,
			o->transport == WL_SOCKET ? "through sockets" : "through rings");
	if (o->live)
		fprintf(t->out, "(%u objects of each thread at a time)\n", o->live);
	if (o->workload->flags & WL_PAIRS && o->threads % 2)
		fprintf(t->out, "(%u rounded up to pairs of a producer and a consumer)\n",
			o->threads);
	if (t->b->interrupted)
		fprintf(t->out, "interrupted: this is what was measured until then\n");
}

/* ---- Throughput ---- */

static char *percent_change(double before, double after)
{
	return tool_format("%+.1f%%", 100 * (after / before - 1));
}

/* Changes round by round: both sides of a round met the same machine. */
static void print_round_changes(const struct text *t, const struct bench_run *one,
				const struct bench_run *other)
{
	double least = INFINITY, most = -INFINITY;
	unsigned n = 0;

	for (unsigned i = 0; i < t->b->options->repeat; i++) {
		const struct bench_result *a = &one->results[i], *b = &other->results[i];
		double change;

		if (!a->valid || !b->valid)
			continue;
		change = ((double)b->ops / (double)b->ns) / ((double)a->ops / (double)a->ns);
		least = fmin(least, change);
		most = fmax(most, change);
		n++;
	}
	if (n > 1)
		fprintf(t->out, "round by round: %+.1f%% to %+.1f%%; best against best: %+.1f%%\n",
			100 * (least - 1), 100 * (most - 1),
			100 * (bench_throughput(t->b, other).max / bench_throughput(t->b, one).max -
			       1));
}

static void print_before_after(const struct text *t)
{
	const struct bench_run *runs = t->b->runs;
	struct bench_spread before = bench_throughput(t->b, &runs[0]);
	struct bench_spread after = bench_throughput(t->b, &runs[1]);
	char *change, *unit;

	if (!before.n)
		return;
	unit = bench_unit(t->b);
	fprintf(t->out, "\nbaseline: %.0f %s\n", before.median, unit);
	if (after.n) {
		change = percent_change(before.median, after.median);
		fprintf(t->out, "after: %.0f %s (%s)\n", after.median, unit, change);
		free(change);
	}
	free(unit);
	if (!after.n)
		return;
	print_round_changes(t, &runs[0], &runs[1]);
}

static char *row_label(const struct text *t, unsigned i)
{
	char *name, *text;

	if (!t->letters)
		return tool_copy(t->b->runs[i].label);
	name = letter(i);
	text = tool_format("%s %s", name, t->b->runs[i].label);
	free(name);
	return text;
}

static void print_throughput(const struct text *t)
{
	static const unsigned widths[] = { 12, 15, 15, 15, 15, 8 };
	struct table *table = table_new(TOOL_COUNT(widths), widths);

	table_optional(table, 4);
	table_add(table, tool_format(t->b->options->sim ? "model %s/s" : "%s/s",
				     t->b->options->workload->unit));
	table_add(table, tool_copy("median"));
	table_add(table, tool_copy("min"));
	table_add(table, tool_copy("max"));
	table_add(table, tool_copy("mean"));
	table_add(table, tool_copy("+-"));
	for (unsigned i = 0; i < t->b->runs_count; i++) {
		struct bench_spread s = bench_throughput(t->b, &t->b->runs[i]);

		if (!s.n)
			continue;
		table_add(table, row_label(t, i));
		table_add(table, numbers_thousands(s.median));
		table_add(table, numbers_thousands(s.min));
		table_add(table, numbers_thousands(s.max));
		table_add(table, numbers_thousands(s.mean));
		table_add(table, s.n > 1 ? tool_format("%.1f%%", 100 * s.error) : tool_copy("-"));
	}
	fputc('\n', t->out);
	table_print(table, t->out, t->width, 0, t->bold, t->plain);
	table_free(table);
}

/* How long a round's work took, as `perf stat --repeat` says it. */
static void print_elapsed(const struct text *t)
{
	static const unsigned widths[] = { 12, 13, 9, 13, 13, 13 };
	struct table *table = table_new(TOOL_COUNT(widths), widths);

	table_add(table, tool_copy("seconds"));
	table_add(table, tool_copy("mean"));
	table_add(table, tool_copy("+-"));
	table_add(table, tool_copy("median"));
	table_add(table, tool_copy("min"));
	table_add(table, tool_copy("max"));
	for (unsigned i = 0; i < t->b->runs_count; i++) {
		struct bench_spread s = bench_elapsed(t->b, &t->b->runs[i]);

		if (!s.n)
			continue;
		table_add(table, row_label(t, i));
		table_add(table, tool_format("%.6f", s.mean));
		table_add(table, s.n > 1 ? tool_format("%.2f%%", 100 * s.error) : tool_copy("-"));
		table_add(table, tool_format("%.6f", s.median));
		table_add(table, tool_format("%.6f", s.min));
		table_add(table, tool_format("%.6f", s.max));
	}
	fputc('\n', t->out);
	table_print(table, t->out, t->width, 0, t->bold, t->plain);
	table_free(table);
}

/*
 * Time per operation, against the first run, and the least of CPU time; and memory: of general sizes how much is left
 * when all is freed, which is what tells there.
 */
static void print_costs(const struct text *t)
{
	static const unsigned widths[] = { 12, 9, 9, 9, 8, 8, 11, 11 };
	/* The memory of a simulated machine is in its slabs. */
	struct table *table = table_new(TOOL_COUNT(widths) - (t->b->options->sim ? 3 : 0), widths);
	bool general = t->b->options->workload->flags & WL_GENERAL;
	struct bench_spread first = { 0 };

	table_add(table, tool_copy("ns per op"));
	table_add(table, tool_copy("median"));
	table_add(table, tool_copy("best"));
	table_add(table, tool_copy("ratio"));
	table_add(table, tool_copy("best"));
	if (!t->b->options->sim) {
		table_add(table, tool_copy("CPU"));
		table_add(table, tool_copy("peak RSS"));
		table_add(table, tool_copy(general ? "freed" : "at start"));
	}
	for (unsigned i = 0; i < t->b->runs_count; i++) {
		const struct bench_run *run = &t->b->runs[i];
		struct bench_spread s = bench_ns_per_op(t->b, run);

		if (!s.n)
			continue;
		if (!first.n)
			first = s;
		table_add(table, row_label(t, i));
		table_add(table, tool_format("%.2f", s.median));
		table_add(table, tool_format("%.2f", s.min));
		table_add(table, tool_format("%.2fx", s.median / first.median));
		table_add(table, tool_format("%.2fx", s.min / first.min));
		if (t->b->options->sim)
			continue;
		table_add(table, tool_format("%.2f", bench_cpu_per_op(t->b, run).min));
		table_add(table, numbers_bytes(bench_peak_rss(t->b, run)));
		table_add(table, numbers_bytes(general ? bench_after_rss(t->b, run)
						       : bench_baseline_rss(t->b, run)));
	}
	fputc('\n', t->out);
	table_print(table, t->out, t->width, 0, t->bold, t->plain);
	table_free(table);
	if (shown_count(t) > 1)
		fprintf(t->out, "(ratio: time per operation against the first line)\n");
}

/* ---- Scaling ---- */

static double round_throughput(const struct bench_run *run, unsigned round)
{
	const struct bench_result *r = &run->results[round];

	return r->valid ? (double)r->ops * 1e9 / (double)r->ns : 0;
}

/*
 * Prints how much of the sum of the runs @first..@last-1, each alone on its CPU, the run @last
 * reaches on all of these CPUs together.
 */
static void print_efficiency(const struct text *t, unsigned first, unsigned last)
{
	unsigned repeat = t->b->options->repeat, n = 0;
	double sum = 0, best = 0;

	for (unsigned round = 0; round < repeat; round++) {
		double alone = 0, together = round_throughput(&t->b->runs[last], round);
		bool complete = together > 0;

		for (unsigned i = first; i < last; i++) {
			double one = round_throughput(&t->b->runs[i], round);

			alone += one;
			complete = complete && one > 0;
		}
		if (!complete)
			continue;
		sum += together / alone;
		best = fmax(best, together / alone);
		n++;
	}
	if (n)
		fprintf(t->out, "%s: together %.3f of the sum of each CPU alone; best round %.3f\n",
			t->b->runs[last].allocator->name, sum / n, best);
}

static void print_scaling(const struct text *t)
{
	unsigned first = 0;

	fputc('\n', t->out);
	for (unsigned i = 1; i < t->b->runs_count; i++) {
		bool ends = i + 1 == t->b->runs_count ||
			    t->b->runs[i + 1].allocator != t->b->runs[first].allocator;

		if (!ends)
			continue;
		print_efficiency(t, first, i);
		first = i + 1;
	}
}

/* ---- Statistics ---- */

static void print_report(const struct text *t, const struct report *report)
{
	char **labels = tool_alloc(report->columns, sizeof(*labels));
	unsigned n = 0;

	for (unsigned i = 0; i < t->b->runs_count; i++) {
		if (shown(t, i))
			labels[n++] = heading(t, i);
	}
	report_text(report, (const char *const *)labels, t->out, t->width, t->bold, t->plain);
	while (n--)
		free(labels[n]);
	free(labels);
}

static void print_latencies(const struct text *t)
{
	struct report rows = bench_latency_rows(t->b);

	print_report(t, &rows);
	report_free(&rows);
}

static void print_statistics(const struct text *t)
{
	bool failed;
	struct report rows = bench_rows(t->b, &failed);
	struct bench_result total;
	unsigned rounds = 0;
	char *names = cache_names(t->b->options->workload);

	for (unsigned i = 0; i < t->b->runs_count && !rounds; i++)
		rounds = bench_total(t->b, &t->b->runs[i], &total);
	fprintf(t->out, "\n%s: counters of %u round%s in all, gauges are means of %u instants\n",
		names, rounds, rounds == 1 ? "" : "s", (unsigned)total.instants);
	free(names);
	print_report(t, &rows);
	report_free(&rows);
}

/* Published figures that the machine was calibrated with are no predictions: these are marked. */
static void print_published(const struct text *t)
{
	static const unsigned widths[] = { REPORT_NAME_WIDTH, 18, 18, 12, 12 };
	struct sim_figure figure;
	struct table *table;
	bool more = t->b->options->sim && t->b->options->sim->published &&
		    sim_published_begin(t->b, &figure);

	if (!t->b->options->sim || !t->b->options->sim->published)
		return;
	if (!more) {
		fprintf(t->out, "\nnothing was published about these configurations\n");
		return;
	}
	table = table_new(TOOL_COUNT(widths), widths);
	table_add(table, tool_copy("figure"));
	table_add(table, tool_copy("published"));
	table_add(table, tool_copy("model"));
	table_add(table, tool_copy("difference"));
	table_add(table, tool_copy("used to fit"));
	for (; more; more = sim_published_next(t->b, &figure)) {
		int n = (int)figure.decimals;

		table_add(table, tool_format("%s%s%s", figure.name, *figure.unit ? ", " : "",
					     figure.unit));
		table_add(table, figure.said ? tool_copy(figure.said)
					     : tool_format("%.*f", n, figure.published));
		table_add(table, tool_format("%.*f", n, figure.model));
		table_add(table, tool_format("%+.*f", n, figure.model - figure.published));
		table_add(table, tool_copy(figure.fitted ? "yes" : "no"));
	}
	fputc('\n', t->out);
	table_print(table, t->out, t->width, REPORT_RULE_WIDTH, t->bold, t->plain);
	table_free(table);
	fprintf(t->out, "(what was used to fit the machine is no prediction)\n");
	if (strcmp(sim_published_machine(t->b->options), t->b->options->sim->machine.name))
		fprintf(t->out, "(the machine of these figures is %s; this one is %s)\n",
			sim_published_machine(t->b->options), t->b->options->sim->machine.name);
}

/*
 * Statistics are printed when all runs have them. In a comparison of allocators they would be one
 * column that is compared with nothing; JSON has them all the same.
 */
static bool all_have_values(const struct text *t)
{
	for (unsigned i = 0; i < t->b->runs_count; i++) {
		if (shown(t, i) && !bench_has_values(t->b, &t->b->runs[i]))
			return false;
	}
	return true;
}

void bench_text(const struct bench *b, FILE *out, unsigned width, bool colour)
{
	struct text t = {
		.b = b,
		.out = out,
		.width = width,
		.bold = colour ? "\033[1m" : "",
		.red = colour ? "\033[1;31m" : "",
		.plain = colour ? "\033[0m" : "",
	};

	for (unsigned i = 0; i < b->runs_count; i++)
		t.letters |= strlen(b->runs[i].label) > LABEL_WIDTH;
	print_title(&t);
	print_notes(b, out);
	if (!shown_count(&t))
		return;
	if (b->options->sim && b->options->sim->sweep_count) {
		sim_sweep_text(b, out, width, t.bold, t.plain);
		print_failures(b, out, t.red, t.plain);
		return;
	}
	if (b->before_after)
		print_before_after(&t);
	print_throughput(&t);
	if (bench_fixed_work(b->options))
		print_elapsed(&t);
	print_costs(&t);
	print_latencies(&t);
	if (b->options->scaling)
		print_scaling(&t);
	else if (all_have_values(&t))
		print_statistics(&t);
	print_published(&t);
	print_failures(b, out, t.red, t.plain);
}
