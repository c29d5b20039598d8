/* SPDX-License-Identifier: MIT */
/*
 * A picture of the throughput: a bar for each run, from its slowest to its fastest round a whisker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "tool.h"

#define GNUPLOT "gnuplot"

/* Whether there is an executable of that name in PATH. */
static bool installed(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");
		char *file = tool_format("%.*s/%s", (int)length, path, name);
		bool found = !access(file, X_OK);

		free(file);
		if (found)
			return true;
		path += length;
		path += *path == ':';
	}
	return false;
}

/* Asked before anything is measured: a minute later it would be a pity. */
int bench_plot_check(const char *file)
{
	FILE *out;

	if (!installed(GNUPLOT)) {
		tool_error("--plot needs " GNUPLOT ", which is not installed (Debian package "
			   "gnuplot-nox)");
		return TOOL_EXIT_USAGE;
	}
	out = fopen(file, "ae");
	if (!out) {
		tool_error("cannot write %s: %s", file, strerror(errno));
		return TOOL_EXIT_USAGE;
	}
	fclose(out);
	return 0;
}

/* A string for gnuplot: between apostrophes, where only the apostrophe itself is special. */
static void print_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

/* Labels of a bar stand in a data block, where a quotation mark ends them. */
static void print_bar(FILE *out, unsigned at, const char *label, const struct bench_spread *s)
{
	fprintf(out, "%u \"", at);
	for (; *label; label++)
		fputc(*label == '"' ? '\'' : *label, out);
	fprintf(out, "\" %.0f %.0f %.0f\n", s->median, s->min, s->max);
}

static void print_script(const struct bench *b, FILE *out, const char *file)
{
	const struct workload *workload = b->options->workload;
	const struct sim_options *sim = b->options->sim;
	unsigned n = 0;

	if (sim && sim->sweep_count) {
		fprintf(out, "set output ");
		print_quoted(out, file);
		fputc('\n', out);
		sim_sweep_plot(b, out);
		return;
	}
	fprintf(out, "$runs << END\n");
	for (unsigned i = 0; i < b->runs_count; i++) {
		struct bench_spread s = bench_throughput(b, &b->runs[i]);

		if (s.n)
			print_bar(out, n++, b->runs[i].label, &s);
	}
	fprintf(out,
		"END\n"
		"set terminal svg size %u,420 dynamic font 'sans,13' background rgb 'white'\n",
		320 + 90 * n);
	fprintf(out, "set output ");
	print_quoted(out, file);
	fprintf(out,
		"\nset title 'uslub %s %s%s%s' noenhanced\n"
		"set ylabel '%s/s%s'\n"
		"set format y '%%.1s%%c'\n"
		"set yrange [0:*]\n"
		"set xrange [-0.6:%.1f]\n"
		"set xtics noenhanced%s\n"
		"set grid ytics\n"
		"set key off\n"
		"set boxwidth 0.6\n"
		"set style fill solid 0.6\n"
		"plot $runs using 1:3:xtic(2) with boxes lc rgb '#4477aa', "
		"'' using 1:3:4:5 with yerrorbars lc rgb 'black' pt -1\n",
		sim ? "sim" : "bench", workload->name, sim ? ": a model of " : "",
		sim ? sim->machine.name : "", workload->unit, sim ? " of the model" : "", n - 0.4,
		n > 4 ? " rotate by -30" : "");
}

int bench_plot(const struct bench *b, const char *file)
{
	FILE *pipe = popen(GNUPLOT, "we");
	int status;

	if (!pipe) {
		tool_error("cannot start " GNUPLOT ": %s", strerror(errno));
		return TOOL_EXIT_USAGE;
	}
	print_script(b, pipe, file);
	status = pclose(pipe);
	if (status) {
		tool_error(GNUPLOT " could not draw %s", file);
		return TOOL_EXIT_USAGE;
	}
	return 0;
}
