/* SPDX-License-Identifier: MIT */
/*
 * Reports for programs: JSON in the format "uslub-bench", version 1; CSV; Markdown.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include "bench.h"
#include "numbers.h"
#include "policy.h"
#include "sheet.h"
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

static json_t *json_cpu(const struct bench *b, const struct bench_run *run)
{
	struct bench_spread s = bench_cpu_per_op(b, run);
	json_t *object = json_object();

	add_spread(object, &s);
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
	if (!b->options->sim)
		json_object_set_new(object, "cpu_ns_per_op", json_cpu(b, run));
	if (bench_fixed_work(b->options))
		json_object_set_new(object, "elapsed", json_elapsed(b, run));
	if (!b->options->sim) {
		json_object_set_new(object, "peak_rss_bytes",
				    json_integer((json_int_t)bench_peak_rss(b, run)));
		json_object_set_new(object, "baseline_rss_bytes",
				    json_integer((json_int_t)bench_baseline_rss(b, run)));
	}
	if (b->options->workload->flags & WL_GENERAL)
		json_object_set_new(object, "after_rss_bytes",
				    json_integer((json_int_t)bench_after_rss(b, run)));
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

/* ---- CSV and Markdown ---- */

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

static void put_spreads(const struct sheet *sheet, const struct bench *b, const char *section,
			const char *unit,
			struct bench_spread (*get)(const struct bench *, const struct bench_run *))
{
	static const char *const names[] = { "median", "min", "max", "mean", "mean +- %" };
	double *numbers = tool_alloc(sheet->columns, sizeof(*numbers));

	for (unsigned m = 0; m < TOOL_COUNT(names); m++) {
		char *name = tool_format("%s %s", unit, names[m]);
		unsigned n = 0;

		for (unsigned i = 0; i < b->runs_count; i++) {
			struct bench_spread s = get(b, &b->runs[i]);

			if (s.n)
				numbers[n++] = get == bench_elapsed && m != ERROR
						       ? measure_of(&s, (enum measure)m)
						       : sensible(measure_of(&s, (enum measure)m));
		}
		sheet_numbers(sheet, section, name, numbers);
		free(name);
	}
	free(numbers);
}

static void put_bytes(const struct sheet *sheet, const struct bench *b, const char *name,
		      double (*get)(const struct bench *, const struct bench_run *))
{
	double *numbers = tool_alloc(sheet->columns, sizeof(*numbers));
	unsigned n = 0;

	for (unsigned i = 0; i < b->runs_count; i++) {
		if (bench_measured(b, &b->runs[i]))
			numbers[n++] = get(b, &b->runs[i]);
	}
	sheet_numbers(sheet, "memory", name, numbers);
	free(numbers);
}

static void put_heading(const struct sheet *sheet, const struct bench *b)
{
	const char **labels = tool_alloc(sheet->columns, sizeof(*labels));
	unsigned n = 0;

	for (unsigned i = 0; i < b->runs_count; i++) {
		if (bench_measured(b, &b->runs[i]))
			labels[n++] = b->runs[i].label;
	}
	sheet_heading(sheet, labels);
	free(labels);
}

/* Writes and frees rows. */
static void put_report(const struct sheet *sheet, struct report rows)
{
	sheet_report(sheet, &rows);
	report_free(&rows);
}

/* Published figures are a table of their own, after an empty line. */
static void put_published(const struct sheet *sheet, const struct bench *b)
{
	static const char *const heading[] = { "published", "model", "difference", "used to fit" };
	struct sim_figure f;

	if (!b->options->sim || !b->options->sim->published || !sim_published_begin(b, &f))
		return;
	fputc('\n', sheet->out);
	sheet_head(sheet, "figure", heading, TOOL_COUNT(heading));
	do {
		char *name = tool_format("%s%s%s", f.name, *f.unit ? ", " : "", f.unit);
		char *values[] = { tool_format("%.*f", (int)f.decimals, f.published),
				   tool_format("%.*f", (int)f.decimals, f.model),
				   tool_format("%+.*f", (int)f.decimals, f.model - f.published),
				   tool_copy(f.fitted ? "yes" : "no") };

		sheet_line(sheet, "published", name, (const char *const *)values,
			   TOOL_COUNT(values));
		for (unsigned i = 0; i < TOOL_COUNT(values); i++)
			free(values[i]);
		free(name);
	} while (sim_published_next(b, &f));
}

static void put_all(const struct bench *b, FILE *out, bool markdown)
{
	struct sheet sheet = { .out = out, .markdown = markdown };
	char *unit = bench_unit(b);
	bool failed;

	for (unsigned i = 0; i < b->runs_count; i++)
		sheet.columns += bench_measured(b, &b->runs[i]);
	put_heading(&sheet, b);
	put_spreads(&sheet, b, "throughput", unit, bench_throughput);
	put_spreads(&sheet, b, "time", "ns/op", bench_ns_per_op);
	if (!b->options->sim)
		put_spreads(&sheet, b, "cpu_time", "ns/op", bench_cpu_per_op);
	if (bench_fixed_work(b->options))
		put_spreads(&sheet, b, "elapsed", "seconds", bench_elapsed);
	if (!b->options->sim) {
		put_bytes(&sheet, b, "peak_rss_bytes", bench_peak_rss);
		put_bytes(&sheet, b, "baseline_rss_bytes", bench_baseline_rss);
	}
	if (b->options->workload->flags & WL_GENERAL)
		put_bytes(&sheet, b, "after_rss_bytes", bench_after_rss);
	put_report(&sheet, bench_latency_rows(b));
	put_report(&sheet, bench_rows(b, &failed));
	put_published(&sheet, b);
	free(unit);
}

void bench_csv(const struct bench *b, FILE *out)
{
	put_all(b, out, false);
}

void bench_markdown(const struct bench *b, FILE *out)
{
	put_all(b, out, true);
}
