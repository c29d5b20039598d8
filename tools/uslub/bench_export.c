/* SPDX-License-Identifier: MIT */
/*
 * Reports for programs: JSON in the format "uslub-bench", version 1; CSV; Markdown.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "numbers.h"
#include "policy.h"
#include "tool.h"

/* ---- JSON ---- */

/* No more digits than a measurement can have. */
static double sensible(double value)
{
	return value < 1000 ? round(value * 1000) / 1000 : round(value);
}

static json_t *json_measure(double value)
{
	double rounded = sensible(value);

	if (rounded == floor(rounded))
		return json_integer((json_int_t)rounded);
	return json_real(rounded);
}

static void add_spread(json_t *object, const struct bench_spread *s)
{
	json_object_set_new(object, "median", json_measure(s->median));
	json_object_set_new(object, "min", json_measure(s->min));
	json_object_set_new(object, "max", json_measure(s->max));
}

/* Words as words, numbers as numbers. */
static json_t *json_policy(const struct bench_result *total)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < policy_count && total->has_values; i++) {
		char *text = policy_value(&policy_entries[i], &total->policy);
		uint64_t number;

		json_object_set_new(object, policy_entries[i].name,
				    numbers_parse(text, 1024, &number)
					    ? json_string(text)
					    : json_integer((json_int_t)number));
		free(text);
	}
	return object;
}

static json_t *json_values(const struct bench_result *total)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < USLUB_STAT_COUNT && total->has_values; i++)
		json_object_set_new(object, uslub_stat_name((enum uslub_stat)i),
				    json_integer((json_int_t)llround(total->values[i])));
	return object;
}

/* With the digits that a comparison of long runs needs. */
static json_t *json_elapsed(const struct bench *b, const struct bench_run *run)
{
	struct bench_spread s = bench_elapsed(b, run);
	json_t *object = json_object();

	json_object_set_new(object, "unit", json_string("s"));
	json_object_set_new(object, "mean", json_real(s.mean));
	json_object_set_new(object, "error_percent", json_measure(100 * s.error));
	json_object_set_new(object, "median", json_real(s.median));
	json_object_set_new(object, "min", json_real(s.min));
	json_object_set_new(object, "max", json_real(s.max));
	return object;
}

static json_t *json_latencies(const struct bench *b, const struct bench_run *run)
{
	const struct workload *workload = b->options->workload;
	json_t *object = json_object();

	for (unsigned i = 0; i < wl_latencies(workload); i++) {
		struct wl_histogram *h = bench_latency(b, run, i);
		json_t *one = json_object();
		const char *name;
		unsigned shows;

		for (unsigned k = 0; (name = bench_measure_name(k, &shows)); k++) {
			char *key = tool_format("%s%s", name, shows == WL_SHOW_COUNT ? "" : "_ns");

			json_object_set_new(one, key,
					    json_integer((json_int_t)bench_measure(h, k)));
			free(key);
		}
		json_object_set_new(object, workload->latencies[i].key, one);
		free(h);
	}
	return object;
}

static json_t *json_simulation(const struct bench *b, const struct bench_run *run,
			       const struct bench_result *total)
{
	static const char *const parts[SIM_TIMES] = {
		[SIM_TIME_WORK] = "work",  [SIM_TIME_SEQUENCE] = "fast_paths",
		[SIM_TIME_LOCK] = "locks", [SIM_TIME_LINE] = "lines",
		[SIM_TIME_OTHER] = "rest",
	};
	const struct sim_result *sim = &total->sim;
	json_t *object = json_object(), *times = json_object(), *waits = json_object();

	json_object_set_new(object, "cpus", json_integer(run->machine_cpus));
	json_object_set_new(object, "nodes", json_integer(run->machine_nodes));
	json_object_set_new(object, "threads", json_integer(run->threads));
	for (unsigned i = 0; i < SIM_TIMES; i++)
		json_object_set_new(times, parts[i], json_measure(sim->time_ns[i]));
	json_object_set_new(object, "time_ns", times);
	for (unsigned i = 0; i < SIM_RANKS; i++)
		if (sim_lock_name(i))
			json_object_set_new(waits, sim_lock_name(i),
					    json_measure(sim->lock_wait_ns[i]));
	json_object_set_new(object, "lock_wait_ns", waits);
	json_object_set_new(object, "ops", json_integer((json_int_t)total->ops));
	json_object_set_new(object, "lines_near", json_measure(sim->lines_near));
	json_object_set_new(object, "lines_far", json_measure(sim->lines_far));
	json_object_set_new(object, "lines_fetched", json_measure(sim->lines_fetched));
	json_object_set_new(object, "slabs_at_rest", json_measure(sim->rest_slabs));
	json_object_set_new(object, "slabs_aged", json_measure(sim->aged_slabs));
	json_object_set_new(object, "grace_periods", json_measure(sim->grace_periods));
	json_object_set_new(object, "seam_operations", json_measure(sim->points));
	if (b->options->sim->speed)
		json_object_set_new(object, "seam_operations_per_host_second",
				    json_measure(1e9 * sim->points / sim->host_ns));
	return object;
}

/* The machine as it was simulated, field by field. */
static json_t *json_machine(const struct bench *b)
{
	const struct sim_options *sim = b->options->sim;
	json_t *object = json_object(), *fields = json_object();
	const char *name;
	double value;

	json_object_set_new(object, "name", json_string(sim->machine.name));
	for (unsigned i = 0; (name = machine_field(&sim->machine, i, &value)); i++)
		json_object_set_new(fields, name, json_measure(value));
	json_object_set_new(object, "fields", fields);
	json_object_set_new(object, "seed", json_integer((json_int_t)sim->seed));
	json_object_set_new(object, "warmup_ms", json_measure(sim->warmup_ms));
	json_object_set_new(object, "time_ms", json_measure(sim->ms));
	return object;
}

static json_t *json_published(const struct bench *b)
{
	json_t *list = json_array();
	struct sim_figure f;

	for (bool more = sim_published_begin(b, &f); more; more = sim_published_next(b, &f)) {
		json_t *one = json_object();

		json_object_set_new(one, "figure", json_string(f.key));
		json_object_set_new(one, "unit", json_string(f.unit));
		json_object_set_new(one, "published", json_real(f.published));
		if (f.said)
			json_object_set_new(one, "published_as", json_string(f.said));
		json_object_set_new(one, "model", json_real(f.model));
		json_object_set_new(one, "used_to_fit", json_boolean(f.fitted));
		json_array_append_new(list, one);
	}
	return list;
}

static json_t *json_run(const struct bench *b, const struct bench_run *run)
{
	struct bench_spread ops = bench_throughput(b, run), ns = bench_ns_per_op(b, run);
	json_t *object = json_object(), *throughput = json_object(), *per_op = json_object();
	char *unit = bench_unit(b);
	struct bench_result total;

	bench_total(b, run, &total);
	json_object_set_new(object, "label", json_string(run->label));
	json_object_set_new(object, "allocator", json_string(run->allocator->name));
	json_object_set_new(object, "policy", json_policy(&total));
	json_object_set_new(throughput, "unit", json_string(unit));
	if (b->options->sim)
		json_object_set_new(throughput, "model",
				    json_string(b->options->sim->machine.name));
	add_spread(throughput, &ops);
	json_object_set_new(object, "throughput", throughput);
	add_spread(per_op, &ns);
	json_object_set_new(object, "ns_per_op", per_op);
	if (bench_fixed_work(b->options))
		json_object_set_new(object, "elapsed", json_elapsed(b, run));
	if (!b->options->sim) {
		json_object_set_new(object, "peak_rss_bytes",
				    json_integer((json_int_t)bench_peak_rss(b, run)));
		json_object_set_new(object, "baseline_rss_bytes",
				    json_integer((json_int_t)bench_baseline_rss(b, run)));
	}
	json_object_set_new(object, "values", json_values(&total));
	if (b->options->sim)
		json_object_set_new(object, "simulation", json_simulation(b, run, &total));
	if (b->options->workload->latencies)
		json_object_set_new(object, "latency", json_latencies(b, run));
	free(unit);
	return object;
}

void bench_json(const struct bench *b, FILE *out)
{
	json_t *document = json_object(), *runs = json_array();

	json_object_set_new(document, "format", json_string("uslub-bench"));
	json_object_set_new(document, "version", json_integer(1));
	json_object_set_new(document, "workload", json_string(b->options->workload->name));
	if (b->options->sim) {
		json_object_set_new(document, "source", json_string("sim"));
		json_object_set_new(document, "machine", json_machine(b));
	}
	json_object_set_new(document, "runs", runs);
	if (b->options->sim && b->options->sim->published)
		json_object_set_new(document, "published", json_published(b));
	if (b->interrupted)
		json_object_set_new(document, "interrupted", json_true());
	for (unsigned i = 0; i < b->runs_count; i++) {
		if (bench_measured(b, &b->runs[i]))
			json_array_append_new(runs, json_run(b, &b->runs[i]));
	}
	json_dumpf(document, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
	fputc('\n', out);
	json_decref(document);
}

/* ---- CSV and Markdown: the same lines, a name and a value for each run ---- */

/*
 * struct sheet - a way to write lines
 * @n: values of a line
 * @compare: whether a line ends with the difference and the change of its two values
 * @line: writes a line
 * @number: a number as text, for the caller to free
 */
struct sheet {
	const struct bench *b;
	FILE *out;
	unsigned n;
	bool compare;
	void (*line)(const struct sheet *sheet, const char *section, const char *name,
		     const char *const values[], unsigned n);
	char *(*number)(double value);
};

static char *bare_number(double value)
{
	return tool_format("%.12g", value);
}

static char *readable_number(double value)
{
	return value == floor(value) ? numbers_thousands(value) : bare_number(value);
}

/* Quotes a field that needs it. */
static void print_field(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void csv_line(const struct sheet *sheet, const char *section, const char *name,
		     const char *const values[], unsigned n)
{
	print_field(sheet->out, section);
	fputc(',', sheet->out);
	print_field(sheet->out, name);
	for (unsigned i = 0; i < n; i++) {
		fputc(',', sheet->out);
		print_field(sheet->out, values[i]);
	}
	fputc('\n', sheet->out);
}

/* A section's first line is headed in bold in place of a column of its own. */
static void markdown_line(const struct sheet *sheet, const char *section, const char *name,
			  const char *const values[], unsigned n)
{
	(void)section;
	fputs("| ", sheet->out);
	for (const char *c = name; *c; c++)
		fprintf(sheet->out, *c == '|' ? "\\|" : "%c", *c);
	for (unsigned i = 0; i < n; i++)
		fprintf(sheet->out, " | %s", values[i]);
	fputs(" |\n", sheet->out);
}

/* Writes a line and frees its values; adds the comparison when the values are numbers. */
static void emit(const struct sheet *sheet, const char *section, const char *name, char *values[],
		 const double numbers[])
{
	unsigned n = sheet->n;

	if (sheet->compare) {
		values[n++] = numbers ? sheet->number(numbers[1] - numbers[0]) : tool_copy("");
		values[n++] = numbers ? numbers_change(numbers[0], numbers[1]) : tool_copy("");
	}
	sheet->line(sheet, section, name, (const char *const *)values, n);
	for (unsigned i = 0; i < n; i++)
		free(values[i]);
}

enum measure {
	MEDIAN,
	MIN,
	MAX,
	MEAN,
	ERROR,
};

static double measure_of(const struct bench_spread *s, enum measure measure)
{
	switch (measure) {
	case MEDIAN:
		return s->median;
	case MIN:
		return s->min;
	case MAX:
		return s->max;
	case MEAN:
		return s->mean;
	default:
		return 100 * s->error;
	}
}

static void emit_numbers(const struct sheet *sheet, const char *section, const char *name,
			 const double numbers[])
{
	char **values = tool_alloc(sheet->n + 2, sizeof(*values));

	for (unsigned i = 0; i < sheet->n; i++)
		values[i] = sheet->number(numbers[i]);
	emit(sheet, section, name, values, numbers);
	free(values);
}

static void emit_spreads(const struct sheet *sheet, const char *section, const char *unit,
			 struct bench_spread (*get)(const struct bench *, const struct bench_run *))
{
	static const char *const names[] = { "median", "min", "max", "mean", "mean +- %" };
	double *numbers = tool_alloc(sheet->n, sizeof(*numbers));

	for (unsigned m = 0; m < TOOL_COUNT(names); m++) {
		char *name = tool_format("%s %s", unit, names[m]);
		unsigned n = 0;

		for (unsigned i = 0; i < sheet->b->runs_count; i++) {
			struct bench_spread s = get(sheet->b, &sheet->b->runs[i]);

			if (s.n)
				numbers[n++] = get == bench_elapsed && m != ERROR
						       ? measure_of(&s, (enum measure)m)
						       : sensible(measure_of(&s, (enum measure)m));
		}
		emit_numbers(sheet, section, name, numbers);
		free(name);
	}
	free(numbers);
}

static void emit_bytes(const struct sheet *sheet, const char *name,
		       double (*get)(const struct bench *, const struct bench_run *))
{
	double *numbers = tool_alloc(sheet->n, sizeof(*numbers));
	unsigned n = 0;

	for (unsigned i = 0; i < sheet->b->runs_count; i++) {
		if (bench_measured(sheet->b, &sheet->b->runs[i]))
			numbers[n++] = get(sheet->b, &sheet->b->runs[i]);
	}
	emit_numbers(sheet, "memory", name, numbers);
	free(numbers);
}

/*
 * Writes a row, or with @verdicts the words that a check's row has besides its numbers. The cells
 * belong to the runs with statistics or, of latencies, to all; those of the others stay empty.
 */
static void emit_cells(const struct sheet *sheet, const struct bench_row *row, const char *section,
		       bool verdicts)
{
	char **values = tool_alloc(sheet->n + 2, sizeof(*values));
	double *numbers = tool_alloc(sheet->n, sizeof(*numbers));
	unsigned n = 0, cell = 0;
	bool complete = !verdicts && row->section != BENCH_CHECKS;

	for (unsigned i = 0; i < sheet->b->runs_count; i++) {
		const struct bench_run *run = &sheet->b->runs[i];
		const struct bench_cell *c = NULL;

		if (!bench_measured(sheet->b, run))
			continue;
		if (bench_has_cell(sheet->b, run, row->section))
			c = &row->cells[cell++];
		complete = complete && c;
		numbers[n] = c ? c->value : 0;
		if (!c || c->absent)
			values[n++] = tool_copy("");
		else
			values[n++] = verdicts ? tool_copy(c->verdict) : sheet->number(c->value);
	}
	emit(sheet, section, row->name, values, complete ? numbers : NULL);
	free(numbers);
	free(values);
}

static void emit_row(const struct sheet *sheet, const struct bench_row *row)
{
	static const char *const sections[] = {
		[BENCH_STATISTICS] = "statistic",   [BENCH_DERIVED] = "derived",
		[BENCH_TRANSITIONS] = "transition", [BENCH_CHECKS] = "check",
		[BENCH_SIMULATION] = "simulation",  [BENCH_LATENCY] = "latency",
	};

	emit_cells(sheet, row, sections[row->section], false);
	if (row->section == BENCH_CHECKS)
		emit_cells(sheet, row, "verdict", true);
}

/* Writes and frees rows. */
static void emit_rows(const struct sheet *sheet, struct bench_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		emit_row(sheet, &rows[i]);
	bench_rows_free(rows, n);
}

static void emit_all(const struct sheet *sheet)
{
	struct bench_row *rows, *latency_rows;
	bool failed;
	unsigned rows_count = bench_rows(sheet->b, &rows, &failed);
	unsigned latency_count = bench_latency_rows(sheet->b, &latency_rows);
	char *unit = bench_unit(sheet->b);

	emit_spreads(sheet, "throughput", unit, bench_throughput);
	emit_spreads(sheet, "time", "ns/op", bench_ns_per_op);
	if (bench_fixed_work(sheet->b->options))
		emit_spreads(sheet, "elapsed", "seconds", bench_elapsed);
	if (!sheet->b->options->sim) {
		emit_bytes(sheet, "peak_rss_bytes", bench_peak_rss);
		emit_bytes(sheet, "baseline_rss_bytes", bench_baseline_rss);
	}
	emit_rows(sheet, latency_rows, latency_count);
	emit_rows(sheet, rows, rows_count);
	free(unit);
}

/* The heading: labels, and what a comparison adds. */
static void emit_heading(const struct sheet *sheet)
{
	const char **values = tool_alloc(sheet->n + 2, sizeof(*values));
	unsigned n = 0;

	for (unsigned i = 0; i < sheet->b->runs_count; i++) {
		if (bench_measured(sheet->b, &sheet->b->runs[i]))
			values[n++] = sheet->b->runs[i].label;
	}
	if (sheet->compare) {
		values[n++] = "delta";
		values[n++] = "change";
	}
	sheet->line(sheet, "section", "metric", values, n);
	free(values);
}

/* Published figures are a table of their own, after an empty line. */
static void emit_published(const struct sheet *sheet)
{
	static const char *const heading[] = { "published", "model", "difference", "used to fit" };
	const struct bench *b = sheet->b;
	struct sim_figure f;

	if (!b->options->sim || !b->options->sim->published || !sim_published_begin(b, &f))
		return;
	fputc('\n', sheet->out);
	sheet->line(sheet, "section", "figure", heading, TOOL_COUNT(heading));
	if (sheet->line == markdown_line)
		fputs("| --- | ---: | ---: | ---: | ---: |\n", sheet->out);
	do {
		char *name = tool_format("%s%s%s", f.name, *f.unit ? ", " : "", f.unit);
		char *values[] = { tool_format("%.*f", (int)f.decimals, f.published),
				   tool_format("%.*f", (int)f.decimals, f.model),
				   tool_format("%+.*f", (int)f.decimals, f.model - f.published),
				   tool_copy(f.fitted ? "yes" : "no") };

		sheet->line(sheet, "published", name, (const char *const *)values,
			    TOOL_COUNT(values));
		for (unsigned i = 0; i < TOOL_COUNT(values); i++)
			free(values[i]);
		free(name);
	} while (sim_published_next(b, &f));
}

static struct sheet sheet_of(const struct bench *b, FILE *out)
{
	struct sheet sheet = { .b = b, .out = out };

	for (unsigned i = 0; i < b->runs_count; i++)
		sheet.n += bench_measured(b, &b->runs[i]);
	sheet.compare = sheet.n == 2;
	return sheet;
}

void bench_csv(const struct bench *b, FILE *out)
{
	struct sheet sheet = sheet_of(b, out);

	sheet.line = csv_line;
	sheet.number = bare_number;
	emit_heading(&sheet);
	emit_all(&sheet);
	emit_published(&sheet);
}

void bench_markdown(const struct bench *b, FILE *out)
{
	struct sheet sheet = sheet_of(b, out);

	sheet.line = markdown_line;
	sheet.number = readable_number;
	emit_heading(&sheet);
	fputs("| --- |", out);
	for (unsigned i = 0; i < sheet.n + (sheet.compare ? 2 : 0); i++)
		fputs(" ---: |", out);
	fputc('\n', out);
	emit_all(&sheet);
	emit_published(&sheet);
}
