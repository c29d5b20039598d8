/* SPDX-License-Identifier: MIT */
/*
 * From the results of rounds to what a report shows.
 *
 * Throughput is summarized over rounds. Counters are added up over them, so that identities among
 * counters stay exact and both sides of a comparison have run equally long. Gauges are averaged.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "tool.h"

/* ---- Spreads ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct bench_spread spread_of(double *values, unsigned n)
{
	struct bench_spread s = { .n = n };
	double squares = 0;

	if (!n)
		return s;
	qsort(values, n, sizeof(*values), compare);
	s.min = values[0];
	s.max = values[n - 1];
	s.median = (values[(n - 1) / 2] + values[n / 2]) / 2;
	for (unsigned i = 0; i < n; i++)
		s.mean += values[i] / n;
	for (unsigned i = 0; i < n; i++)
		squares += (values[i] - s.mean) * (values[i] - s.mean);
	if (n > 1 && s.mean > 0)
		s.error = sqrt(squares / (n - 1) / n) / s.mean;
	return s;
}

static double throughput(const struct bench_result *r)
{
	return (double)r->ops * 1e9 / (double)r->ns;
}

/* Threads that share a CPU do not each spend the time that passes. */
static double cpus_used(const struct bench *b, const struct bench_run *run)
{
	unsigned cpus = b->options->sim ? run->machine_cpus : bench_online_cpus(NULL);
	unsigned threads = run->threads;

	if (b->options->workload->flags & WL_STATS)
		threads -= b->options->readers;
	return threads < cpus ? threads : cpus;
}

enum quantity {
	THROUGHPUT,
	NS_PER_OP,
	CPU_PER_OP,
	ELAPSED,
};

static double quantity_of(const struct bench *b, const struct bench_run *run,
			  const struct bench_result *r, enum quantity quantity)
{
	switch (quantity) {
	case NS_PER_OP:
		return 1e9 * cpus_used(b, run) / throughput(r);
	case CPU_PER_OP:
		return (double)r->cpu_ns / (double)r->ops;
	case ELAPSED:
		return (double)r->ns / 1e9;
	default:
		return throughput(r);
	}
}

static struct bench_spread spread(const struct bench *b, const struct bench_run *run,
				  enum quantity quantity)
{
	double *values = tool_alloc(b->options->repeat, sizeof(*values));
	struct bench_spread s;
	unsigned n = 0;

	for (unsigned i = 0; i < b->options->repeat; i++) {
		if (run->results[i].valid)
			values[n++] = quantity_of(b, run, &run->results[i], quantity);
	}
	s = spread_of(values, n);
	free(values);
	return s;
}

char *bench_unit(const struct bench *b)
{
	const char *unit = b->options->workload->unit;

	if (b->options->sim)
		return tool_format("%s/s of the model %s", unit, b->options->sim->machine.name);
	return tool_format("%s/s", unit);
}

struct bench_spread bench_throughput(const struct bench *b, const struct bench_run *run)
{
	return spread(b, run, THROUGHPUT);
}

struct bench_spread bench_ns_per_op(const struct bench *b, const struct bench_run *run)
{
	return spread(b, run, NS_PER_OP);
}

struct bench_spread bench_cpu_per_op(const struct bench *b, const struct bench_run *run)
{
	return spread(b, run, CPU_PER_OP);
}

struct bench_spread bench_elapsed(const struct bench *b, const struct bench_run *run)
{
	return spread(b, run, ELAPSED);
}

/* The largest of all rounds, of the bytes at an offset in their results. */
static double most_bytes(const struct bench *b, const struct bench_run *run, size_t offset)
{
	double most = 0;

	for (unsigned i = 0; i < b->options->repeat; i++)
		most = fmax(most,
			    (double)*(const uint64_t *)((const char *)&run->results[i] + offset));
	return most;
}

double bench_peak_rss(const struct bench *b, const struct bench_run *run)
{
	return most_bytes(b, run, offsetof(struct bench_result, peak_rss));
}

double bench_baseline_rss(const struct bench *b, const struct bench_run *run)
{
	return most_bytes(b, run, offsetof(struct bench_result, baseline_rss));
}

double bench_after_rss(const struct bench *b, const struct bench_run *run)
{
	return most_bytes(b, run, offsetof(struct bench_result, after_rss));
}

double bench_corrupt(const struct bench *b, const struct bench_run *run)
{
	double n = 0;

	for (unsigned i = 0; i < b->options->repeat; i++)
		n += (double)run->results[i].corrupt;
	return n;
}

bool bench_measured(const struct bench *b, const struct bench_run *run)
{
	return bench_throughput(b, run).n > 0;
}

bool bench_has_values(const struct bench *b, const struct bench_run *run)
{
	for (unsigned i = 0; i < b->options->repeat; i++) {
		if (run->results[i].valid)
			return run->results[i].has_values;
	}
	return false;
}

/* ---- Totals ---- */

/* Whole rounds that every run with statistics has; when there are none, the best that is there. */
static unsigned comparable_rounds(const struct bench *b)
{
	unsigned least = b->options->repeat;

	for (unsigned i = 0; i < b->runs_count; i++) {
		const struct bench_run *run = &b->runs[i];
		unsigned n = 0;

		if (!bench_has_values(b, run))
			continue;
		while (n < b->options->repeat && run->results[n].valid && !run->results[n].partial)
			n++;
		if (n < least)
			least = n;
	}
	return least ? least : b->options->repeat;
}

static void add_simulation(struct sim_result *total, const struct sim_result *r)
{
	for (unsigned i = 0; i < SIM_TIMES; i++)
		total->time_ns[i] += r->time_ns[i];
	for (unsigned i = 0; i < SIM_RANKS; i++)
		total->lock_wait_ns[i] += r->lock_wait_ns[i];
	total->lines_near += r->lines_near;
	total->lines_far += r->lines_far;
	total->lines_fetched += r->lines_fetched;
	total->points += r->points;
	total->grace_periods += r->grace_periods;
	total->rest_slabs += r->rest_slabs;
	total->aged_slabs += r->aged_slabs;
	total->host_ns += r->host_ns;
}

unsigned bench_total(const struct bench *b, const struct bench_run *run, struct bench_result *total)
{
	unsigned rounds = comparable_rounds(b), n = 0;

	memset(total, 0, sizeof(*total));
	for (unsigned i = 0; i < rounds; i++) {
		const struct bench_result *r = &run->results[i];

		if (!r->valid || !r->has_values)
			continue;
		n++;
		total->ops += r->ops;
		total->ns += r->ns;
		total->instants += r->instants;
		total->growth += r->growth;
		total->parked_growth += r->parked_growth;
		total->bad_reads += r->bad_reads;
		total->policy = r->policy;
		add_simulation(&total->sim, &r->sim);
		for (unsigned k = 0; k < USLUB_STAT_COUNT; k++)
			total->values[k] += r->values[k];
	}
	total->valid = total->has_values = n > 0;
	total->sim.cpus = run->machine_cpus;
	if (n) {
		total->sim.rest_slabs /= n;
		total->sim.aged_slabs /= n;
	}
	for (unsigned k = 0; k < USLUB_STAT_COUNT && n; k++) {
		int kind = uslub_stat_kind((enum uslub_stat)k);

		if (kind != USLUB_STAT_KIND_COUNTER && kind != USLUB_STAT_KIND_DERIVED)
			total->values[k] /= n;
	}
	return n;
}

/* ---- Rows ---- */

/*
 * A report that is being made: the runs that have statistics, their totals, and the rows so far.
 */
struct model {
	const struct bench *b;
	struct bench_result *totals;
	unsigned n;
	struct report rows;
	bool failed;
};

#define V(total, name) ((total)->values[USLUB_STAT_##name])

static struct report_cell *add_row(struct model *m, enum report_section section, const char *name)
{
	return report_add(&m->rows, section, 0, name);
}

static void add_statistics(struct model *m)
{
	for (unsigned k = 0; k < USLUB_STAT_COUNT; k++) {
		const char *name = uslub_stat_name((enum uslub_stat)k);
		struct report_cell *cells = add_row(m, REPORT_STATISTICS, name);

		/* Means of gauges are shown whole, as one reading would be. */
		for (unsigned i = 0; i < m->n; i++)
			cells[i].value = round(m->totals[i].values[k]);
	}
}

static struct report_cell *add_decimal_row(struct model *m, enum report_section section,
					   const char *name)
{
	return report_add(&m->rows, section, section == REPORT_DERIVED ? 4 : 3, name);
}

static void quotient(struct report_cell *cell, double numerator, double denominator)
{
	cell->absent = denominator <= 0;
	if (!cell->absent)
		cell->value = numerator / denominator;
}

static double list_locks(const struct bench_result *t)
{
	return V(t, list_lock_alloc) + V(t, list_lock_free) + V(t, list_lock_other);
}

/* What the locks cost: how often an operation takes one, finds it taken, and waits for it. */
static void add_locks(struct model *m)
{
	struct report_cell *list = add_decimal_row(m, REPORT_DERIVED, "list_lock per operation");
	struct report_cell *frees = add_decimal_row(m, REPORT_DERIVED,
						    "list_lock per operation, by frees");
	struct report_cell *list_contended = add_decimal_row(m, REPORT_DERIVED,
							     "list_lock contended, %");
	struct report_cell *list_wait = add_decimal_row(m, REPORT_DERIVED,
							"list_lock wait per operation, ns");
	struct report_cell *barn = add_decimal_row(m, REPORT_DERIVED, "barn lock per operation");
	struct report_cell *barn_contended = add_decimal_row(m, REPORT_DERIVED,
							     "barn lock contended, %");
	struct report_cell *barn_wait = add_decimal_row(m, REPORT_DERIVED,
							"barn lock wait per operation, ns");

	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];
		double ops = (double)t->ops;

		quotient(&list[i], list_locks(t), ops);
		quotient(&frees[i], V(t, list_lock_free), ops);
		quotient(&list_contended[i], 100 * V(t, list_lock_contended), list_locks(t));
		quotient(&list_wait[i], V(t, list_lock_wait_ns), ops);
		quotient(&barn[i], V(t, barn_lock), ops);
		quotient(&barn_contended[i], 100 * V(t, barn_lock_contended), V(t, barn_lock));
		quotient(&barn_wait[i], V(t, barn_lock_wait_ns), ops);
	}
}

static void add_derived(struct model *m)
{
	const double **values = tool_alloc(m->n, sizeof(*values));

	for (unsigned i = 0; i < m->n; i++)
		values[i] = m->totals[i].values;
	report_add_churn(&m->rows, values);
	add_locks(m);
	report_add_transitions(&m->rows, values);
	free(values);
}

/* ---- Checks ---- */

/*
 * What the arithmetic of mmap1 says about one sheaf capacity.
 * @left: objects left in a sheaf, on average, when a prefill finds it too short
 * @prefills: from one shortage to the next, on average
 */
struct shortage {
	double left;
	double prefills;
};

/* Plays the cycles of many operations on one sheaf. */
static struct shortage shortage_of(unsigned capacity)
{
	const unsigned operations = 10000;
	struct shortage s = { 0, 0 };
	unsigned fill = capacity, shortages = 0;

	for (unsigned i = 0; i < 2 * operations; i++) {
		if (fill < 3) {
			s.left += fill;
			shortages++;
			fill = capacity;
		}
		fill -= i % 2 ? 2 : 3;
	}
	if (shortages) {
		s.left /= shortages;
		s.prefills = 2.0 * operations / shortages;
	}
	return s;
}

static double prefills(const struct bench_result *t)
{
	return V(t, sheaf_prefill_fast) + V(t, sheaf_prefill_slow) + V(t, sheaf_prefill_oversize);
}

/*
 * Full sheaves that a short prefill got for its own. A prefill without a spare counts in barn_get
 * as well; without the policy there are only those.
 */
static double swaps(const struct bench_result *t)
{
	if (t->policy.prefill_barn != USLUB_POLICY_ON)
		return 0;
	return fmax(0, V(t, barn_get) - V(t, sheaf_prefill_slow));
}

/* A check that must hold: @holds says whether it does. */
static void verdict(struct model *m, struct report_cell *cell, double value, bool holds)
{
	cell->value = value;
	cell->verdict = holds ? "ok" : "FAIL";
	if (!holds)
		m->failed = true;
}

/* A ratio that follows from the workload's arithmetic, as long as threads have CPUs of their own. */
static void ratio(struct report_cell *cell, double numerator, double denominator, double expected)
{
	cell->absent = denominator <= 0;
	if (cell->absent)
		return;
	cell->value = numerator / denominator;
	cell->verdict = fabs(cell->value - expected) <= 0.02 * expected ? "ok" : "off";
}

/*
 * Returned sheaves and objects outside slabs must come out to the unit: every prefilled sheaf was
 * returned, and what left the slabs and has not come back is in use or in a sheaf. A slab may be
 * freed without having been listed, but not the other way round. What was flushed beyond refused
 * sheaves are leftovers of returned sheaves, and what a CPU had that was drained: only a bound is
 * known.
 */
static void add_identities(struct model *m)
{
	struct report_cell *returned = add_row(m, REPORT_CHECKS, "prefills less returns (0)");
	struct report_cell *discarded = add_row(m, REPORT_CHECKS,
						"free_slab less free_remove_partial (0..)");
	struct report_cell *flushed = add_row(m, REPORT_CHECKS, "flushed beyond refused sheaves");
	struct report_cell *outside = add_row(m, REPORT_CHECKS,
					      "objects outside slabs unaccounted (0)");

	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];
		double capacity = V(t, sheaf_capacity);
		double unreturned = V(t, sheaf_prefill_fast) + V(t, sheaf_prefill_slow) -
				    V(t, sheaf_return_fast) - V(t, sheaf_return_slow);
		double unlisted = V(t, free_slab) - V(t, free_remove_partial);
		double beyond = V(t, sheaf_flush) - capacity * V(t, barn_put_fail);
		double drained = 3 * capacity * V(t, cpu_drain);
		double lost = V(t, sheaf_refill) + V(t, alloc_slowpath) - V(t, sheaf_flush) -
			      V(t, free_slowpath) - (double)t->growth;

		verdict(m, &returned[i], unreturned, unreturned == 0);
		verdict(m, &discarded[i], unlisted,
			unlisted >= 0 && unlisted <= V(t, full_to_empty) + V(t, unpark_discard) +
							     V(t, park_fail));
		verdict(m, &outside[i], lost, lost == 0);
		flushed[i].value = beyond;
		flushed[i].verdict =
			beyond >= -drained && beyond <= capacity * V(t, sheaf_return_slow) + drained
				? "ok"
				: "off";
	}
}

static void add_ratios(struct model *m)
{
	struct report_cell *freed = add_decimal_row(m, REPORT_CHECKS,
						    "objects freed per prefill (2.500)");
	struct report_cell *between = add_decimal_row(m, REPORT_CHECKS,
						      "prefills per shortage (12.000)");
	struct report_cell *left = add_decimal_row(m, REPORT_CHECKS,
						   "objects left per swap (2.000)");

	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];
		double capacity = V(t, sheaf_capacity);
		struct shortage s = shortage_of((unsigned)capacity);
		double refills = V(t, sheaf_refill) / (capacity - s.left);

		ratio(&freed[i], V(t, free_rcu_sheaf) + V(t, free_slowpath), prefills(t), 2.5);
		/* Without a spare to run short the rest has no meaning. */
		between[i].absent = left[i].absent = capacity < 3;
		if (between[i].absent)
			continue;
		ratio(&between[i], prefills(t), refills + swaps(t), s.prefills);
		ratio(&left[i], capacity * V(t, barn_merge), swaps(t), s.left);
	}
}

/*
 * A parked slab leaves by one of three ways, or is still there. Where frees are deferred and it is not
 * waited for them, the reclaimer may be at work when the counters are read.
 */
static void add_parking(struct model *m)
{
	unsigned flags = m->b->options->workload->flags;
	struct report_cell *parked;

	if ((flags & WL_RCU) && !(flags & WL_STEADY))
		return;
	parked = add_row(m, REPORT_CHECKS, "parked slabs unaccounted (0)");
	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];
		double lost = V(t, park) - V(t, unpark_refill) - V(t, unpark_list) -
			      V(t, unpark_discard) - (double)t->parked_growth;

		verdict(m, &parked[i], lost, lost == 0);
	}
}

/* The slabs that the list is made of; what threads do meanwhile changes a few. */
static void add_slabs(struct model *m)
{
	double wanted = m->b->options->slabs;
	double most = 0.02 * wanted + 16 * m->b->options->threads;
	struct report_cell *cells = add_row(m, REPORT_CHECKS,
					    "slabs listed or parked, less --slabs");

	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];

		cells[i].value = round(V(t, partial) + V(t, parked) - wanted);
		cells[i].verdict = fabs(cells[i].value) <= most ? "ok" : "off";
	}
}

static void add_checks(struct model *m)
{
	add_parking(m);
	if (m->b->options->workload->flags & WL_STATS)
		add_slabs(m);
	if (m->b->options->workload->id != WL_mmap1)
		return;
	add_identities(m);
	add_ratios(m);
}

/* ---- What only a simulated machine knows ---- */

static struct report_cell *add_simulated_row(struct model *m, unsigned decimals, const char *name)
{
	return report_add(&m->rows, REPORT_SIMULATION, decimals, name);
}

static double time_sum(const struct sim_result *sim)
{
	double sum = 0;

	for (unsigned i = 0; i < SIM_TIMES; i++)
		sum += sim->time_ns[i];
	return sum;
}

/* Where the time of all CPUs went; idle CPUs spend none. */
static void add_times(struct model *m)
{
	struct report_cell *per_op = add_simulated_row(m, 1, "CPU time per operation, ns");
	struct report_cell *busy = add_simulated_row(m, 2, "CPUs busy, %");

	for (unsigned i = 0; i < m->n; i++) {
		const struct bench_result *t = &m->totals[i];

		quotient(&per_op[i], time_sum(&t->sim), (double)t->ops);
		quotient(&busy[i], 100 * time_sum(&t->sim), (double)t->ns * t->sim.cpus);
	}
	for (unsigned k = 0; k < SIM_TIMES; k++) {
		char *name = tool_format("time: %s, %%", sim_time_name(k));
		struct report_cell *cells = add_simulated_row(m, 2, name);

		free(name);
		for (unsigned i = 0; i < m->n; i++)
			quotient(&cells[i], 100 * m->totals[i].sim.time_ns[k],
				 time_sum(&m->totals[i].sim));
	}
}

/* Locks that nobody waited for are left out. */
static void add_lock_waits(struct model *m)
{
	for (unsigned k = 0; k < SIM_RANKS; k++) {
		struct report_cell *cells;
		double sum = 0;
		char *name;

		for (unsigned i = 0; i < m->n; i++)
			sum += m->totals[i].sim.lock_wait_ns[k];
		if (sum == 0 || !sim_lock_name(k))
			continue;
		name = tool_format("wait per operation, ns: %s", sim_lock_name(k));
		cells = add_simulated_row(m, 2, name);
		free(name);
		for (unsigned i = 0; i < m->n; i++)
			quotient(&cells[i], m->totals[i].sim.lock_wait_ns[k],
				 (double)m->totals[i].ops);
	}
}

static void add_speed(struct model *m)
{
	struct report_cell *cells = add_simulated_row(m, 0,
						      "seam operations per second of this host");

	for (unsigned i = 0; i < m->n; i++)
		quotient(&cells[i], 1e9 * m->totals[i].sim.points, m->totals[i].sim.host_ns);
}

static void add_simulated(struct model *m)
{
	struct report_cell *near, *far, *fetched, *rest, *aged, *periods, *points;

	add_times(m);
	add_lock_waits(m);
	near = add_simulated_row(m, 3, "lines per operation: from the same node");
	far = add_simulated_row(m, 3, "lines per operation: from other nodes");
	fetched = add_simulated_row(m, 3, "lines per operation: from memory");
	rest = add_simulated_row(m, 0, "slabs at rest");
	aged = add_simulated_row(m, 0, "slabs at rest, idle CPUs drained");
	periods = add_simulated_row(m, 0, "grace periods");
	points = add_simulated_row(m, 0, "seam operations");
	for (unsigned i = 0; i < m->n; i++) {
		const struct sim_result *sim = &m->totals[i].sim;
		double ops = (double)m->totals[i].ops;

		quotient(&near[i], sim->lines_near, ops);
		quotient(&far[i], sim->lines_far, ops);
		quotient(&fetched[i], sim->lines_fetched, ops);
		rest[i].value = round(sim->rest_slabs);
		aged[i].value = round(sim->aged_slabs);
		periods[i].value = sim->grace_periods;
		points[i].value = sim->points;
	}
	if (m->b->options->sim->speed)
		add_speed(m);
}

/* Gives the rows a column for each run that was measured; those without statistics stay empty. */
static void add_columns(struct model *m)
{
	const struct bench *b = m->b;

	m->rows.columns = 0;
	for (unsigned i = 0; i < b->runs_count; i++)
		m->rows.columns += bench_measured(b, &b->runs[i]);
	for (unsigned k = 0; k < m->rows.count; k++) {
		struct report_row *row = &m->rows.rows[k];
		struct report_cell *cells = tool_alloc(m->rows.columns, sizeof(*cells));
		unsigned n = 0, next = 0;

		for (unsigned i = 0; i < b->runs_count; i++) {
			if (!bench_measured(b, &b->runs[i]))
				continue;
			if (bench_has_values(b, &b->runs[i]))
				cells[n++] = row->cells[next++];
			else
				cells[n++].missing = true;
		}
		free(row->cells);
		row->cells = cells;
	}
}

struct report bench_rows(const struct bench *b, bool *failed)
{
	struct model m = { .b = b };

	m.totals = tool_alloc(b->runs_count, sizeof(*m.totals));
	for (unsigned i = 0; i < b->runs_count; i++) {
		if (bench_total(b, &b->runs[i], &m.totals[m.n]))
			m.n++;
		if (m.n)
			m.failed |= m.totals[m.n - 1].bad_reads > 0;
		m.failed |= bench_corrupt(b, &b->runs[i]) > 0;
	}
	m.rows.columns = m.n;
	if (m.n) {
		add_statistics(&m);
		add_derived(&m);
		add_checks(&m);
		if (b->options->sim)
			add_simulated(&m);
	}
	add_columns(&m);
	free(m.totals);
	*failed = m.failed;
	return m.rows;
}

/* ---- Latencies ---- */

static const struct {
	const char *name;
	unsigned shows;
	double quantile;
} measures[] = {
	{ "count", WL_SHOW_COUNT, 0 },
	{ "total", WL_SHOW_TOTAL, 0 },
	{ "mean", WL_SHOW_MEAN, 0 },
	{ "best", WL_SHOW_MIN, 0 },
	{ "p50", WL_SHOW_QUANTILES, 0.5 },
	{ "p99", WL_SHOW_QUANTILES, 0.99 },
	{ "p99.9", WL_SHOW_QUANTILES, 0.999 },
	{ "p99.99", WL_SHOW_QUANTILES, 0.9999 },
	{ "max", WL_SHOW_MAX, 0 },
};

const char *bench_measure_name(unsigned measure, unsigned *shows)
{
	if (measure >= TOOL_COUNT(measures))
		return NULL;
	*shows = measures[measure].shows;
	return measures[measure].name;
}

double bench_measure(const struct wl_histogram *h, unsigned measure)
{
	switch (measures[measure].shows) {
	case WL_SHOW_COUNT:
		return (double)h->count;
	case WL_SHOW_TOTAL:
		return (double)h->sum;
	case WL_SHOW_MEAN:
		return h->count ? round((double)h->sum / (double)h->count) : 0;
	case WL_SHOW_MIN:
		return (double)h->min;
	case WL_SHOW_MAX:
		return (double)h->max;
	default:
		return (double)wl_histogram_quantile(h, measures[measure].quantile);
	}
}

struct wl_histogram *bench_latency(const struct bench *b, const struct bench_run *run,
				   unsigned which)
{
	struct wl_histogram *h = tool_alloc(1, sizeof(*h));
	unsigned rounds = comparable_rounds(b);

	for (unsigned i = 0; i < rounds; i++) {
		if (run->results[i].valid && run->results[i].latencies)
			wl_histogram_merge(h, &run->results[i].latencies[which]);
	}
	return h;
}

/* Adds the rows of one histogram. */
static void add_latency(struct model *m, unsigned which)
{
	const struct wl_latency *latency = &m->b->options->workload->latencies[which];
	struct wl_histogram **histograms = tool_alloc(m->n, sizeof(struct wl_histogram *));
	unsigned n = 0, shows;
	const char *name;

	for (unsigned i = 0; i < m->b->runs_count; i++) {
		if (bench_measured(m->b, &m->b->runs[i]))
			histograms[n++] = bench_latency(m->b, &m->b->runs[i], which);
	}
	for (unsigned k = 0; (name = bench_measure_name(k, &shows)); k++) {
		struct report_cell *cells;
		char *made;

		if (!(latency->shows & shows))
			continue;
		made = tool_format("%s, %s", latency->name, name);
		cells = add_row(m, REPORT_LATENCY, made);
		free(made);
		for (unsigned i = 0; i < n; i++) {
			cells[i].value = bench_measure(histograms[i], k);
			cells[i].absent = !histograms[i]->count && shows != WL_SHOW_COUNT &&
					  shows != WL_SHOW_TOTAL;
		}
	}
	for (unsigned i = 0; i < n; i++)
		free(histograms[i]);
	free(histograms);
}

struct report bench_latency_rows(const struct bench *b)
{
	struct model m = { .b = b };

	for (unsigned i = 0; i < b->runs_count; i++)
		m.n += bench_measured(b, &b->runs[i]);
	m.rows.columns = m.n;
	for (unsigned i = 0; i < wl_latencies(b->options->workload); i++)
		add_latency(&m, i);
	return m.rows;
}
