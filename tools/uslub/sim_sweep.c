/* SPDX-License-Identifier: MIT */
/*
 * The same configurations on machines of different numbers of CPUs: a line for each, and curves.
 *
 * The plan has all configurations of the first machine, then those of the next.
 */
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "numbers.h"
#include "table.h"
#include "tool.h"

static unsigned configurations(const struct bench *b)
{
	return b->runs_count / b->options->sim->sweep_count;
}

/* The label without the number of CPUs; empty where there is one configuration. */
static char *configuration(const struct bench *b, unsigned i)
{
	const char *label = b->runs[i].label;
	const char *end = strstr(label, ",cpus=");

	return end ? tool_format("%.*s", (int)(end - label), label) : tool_copy("");
}

static double share(const struct sim_result *sim, enum sim_time part)
{
	double sum = 0;

	for (unsigned i = 0; i < SIM_TIMES; i++)
		sum += sim->time_ns[i];
	return sum > 0 ? 100 * sim->time_ns[part] / sum : 0;
}

static void add_line(struct table *table, const struct bench *b, unsigned i)
{
	const struct bench_run *run = &b->runs[i];
	unsigned n = configurations(b);
	struct bench_spread s = bench_throughput(b, run);
	struct bench_spread first = bench_throughput(b, &b->runs[i / n * n]);
	struct bench_result total;

	bench_total(b, run, &total);
	table_add(table, tool_format("%u", run->machine_cpus));
	if (n > 1)
		table_add(table, configuration(b, i));
	table_add(table, numbers_thousands(s.median));
	table_add(table, s.n > 1 ? tool_format("%.1f%%", 100 * s.error) : tool_copy("-"));
	if (n > 1)
		table_add(table, i % n && first.n ? tool_format("%+.1f%%",
								100 * (s.median / first.median - 1))
						  : tool_copy("-"));
	table_add(table, numbers_thousands(s.median / run->machine_cpus));
	table_add(table, tool_format("%.1f", share(&total.sim, SIM_TIME_LOCK)));
	table_add(table, tool_format("%.1f", share(&total.sim, SIM_TIME_LINE)));
}

void sim_sweep_text(const struct bench *b, FILE *out, unsigned width, const char *bold,
		    const char *plain)
{
	static const unsigned alone[] = { 6, 18, 8, 14, 10, 10 };
	static const unsigned several[] = { 6, 18, 18, 8, 10, 14, 10, 10 };
	bool more = configurations(b) > 1;
	struct table *table = more ? table_new(TOOL_COUNT(several), several)
				   : table_new(TOOL_COUNT(alone), alone);

	table_add(table, tool_copy("CPUs"));
	if (more)
		table_add(table, tool_copy("configuration"));
	table_add(table, tool_format("model %s/s", b->options->workload->unit));
	table_add(table, tool_copy("+-"));
	if (more)
		table_add(table, tool_copy("gain"));
	table_add(table, tool_copy("per CPU"));
	table_add(table, tool_copy("locks %"));
	table_add(table, tool_copy("lines %"));
	for (unsigned i = 0; i < b->runs_count; i++)
		if (bench_measured(b, &b->runs[i]))
			add_line(table, b, i);
	fputc('\n', out);
	table_print(table, out, width, 1, bold, plain);
	table_free(table);
	fprintf(out, "(locks, lines: share of the CPUs' time that they spend waiting for them)\n");
}

static void plot_data(const struct bench *b, FILE *out, unsigned which)
{
	unsigned n = configurations(b);

	fprintf(out, "$curve%u << END\n", which);
	for (unsigned i = which; i < b->runs_count; i += n) {
		struct bench_spread s = bench_throughput(b, &b->runs[i]);

		if (s.n)
			fprintf(out, "%u %.0f\n", b->runs[i].machine_cpus, s.median);
	}
	fprintf(out, "END\n");
}

void sim_sweep_plot(const struct bench *b, FILE *out)
{
	const struct workload *workload = b->options->workload;
	unsigned n = configurations(b);

	for (unsigned i = 0; i < n; i++)
		plot_data(b, out, i);
	fprintf(out,
		"set terminal svg size 720,480 dynamic font 'sans,13' background rgb 'white'\n"
		"set title 'uslub sim %s: a model of %s' noenhanced\n"
		"set xlabel 'CPUs'\n"
		"set ylabel '%s/s of the model'\n"
		"set format y '%%.1s%%c'\n"
		"set yrange [0:*]\n"
		"set xrange [0:*]\n"
		"set grid\n"
		"set key left top noenhanced\n"
		"plot ",
		workload->name, b->options->sim->machine.name, workload->unit);
	for (unsigned i = 0; i < n; i++) {
		char *name = configuration(b, i);

		fprintf(out, "%s$curve%u using 1:2 with linespoints pt 7 ps 0.6 %s%s%s",
			i ? ", " : "", i, n > 1 ? "title '" : "notitle", n > 1 ? name : "",
			n > 1 ? "'" : "");
		free(name);
	}
	fputc('\n', out);
}
