/* SPDX-License-Identifier: MIT */
/*
 * `uslub bench`: what its files share.
 *
 *   bench_options.c  the command line
 *   bench_plan.c     from options to configurations: what is compared with what
 *   bench_spawn.c    one round of one configuration, in a process of its own
 *   bench_worker.c   that process
 *   bench_groups.c   what its threads send each other messages through
 *   bench_model.c    from rounds to the rows of a report (report.h), identities among counters included
 *   bench_text.c     reports for people
 *   bench_export.c   reports for programs: JSON, CSV, Markdown
 *   bench_plot.c     a picture
 *   bench_kernel.c   what `mmap1 --kernel` does instead of most of this
 *   bench.c          the order of all this
 *
 * A *configuration* is an allocator with a policy, a variant of the workload and a set of CPUs. A
 * *round* runs each configuration once. Every run of a configuration is a process, since allocators
 * keep state for the life of a process, and rounds are interleaved, so that what else happens on
 * the machine hits all configurations alike.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <uslub/uslub.h>
#include "../../workloads/workload.h"
#include "allocators.h"
#include "report.h"
#include "sim.h"

/* Gauges are means of this many instants of a run. */
#define BENCH_INSTANTS 10u

/*
 * struct bench_options - the command line, checked
 * @seconds: of measuring per round, or 0 when @ops is given
 * @ops: operations per thread and round, or 0; with @loops it follows from them
 * @rate: operations per second that all threads together shall do, or 0 for as many as they can
 * @size, @min_size, @live, @burst, @window, @batch: see struct wl_params
 * @readers: threads that only read; besides @threads, but with WL_STATS among them
 * @groups, @fds: of hackbench: groups, and in each how many threads send and how many receive
 * @loops: of hackbench: messages from every sender to every receiver, or 0
 * @transport: of hackbench
 * @slabs, @read_rate, @stall_us: of statread: part-used slabs, reads of each reader per second, and how
 *	many microseconds a burst must take to count as stalled
 * @arguments: of the workload that were given without an option's name
 * @memory_limit: bytes of resident memory at which a run is ended early
 * @before, @after, @matrix, @allocators: texts from the command line, or NULL
 * @kernel: the kernel's own caches are measured, and @size is that of a mapping
 * @processes: with @kernel: @threads says how many processes there are
 * @policy, @variant, @cpus: of a worker, which runs one configuration
 * @sim: of `uslub sim`, else NULL
 */
struct bench_options {
	const struct workload *workload;
	const struct sim_options *sim;
	unsigned threads;
	bool threads_given;
	double seconds;
	uint64_t ops;
	double rate;
	unsigned repeat;
	size_t size;
	size_t min_size;
	unsigned live;
	const char *trace_file; /* of a WL_TRACE workload */
	bool no_touch;		/* objects that are replayed are not written to */
	unsigned burst;
	unsigned window;
	unsigned batch;
	unsigned readers;
	unsigned groups;
	unsigned fds;
	unsigned loops;
	enum wl_transport transport;
	bool transport_given;
	bool readers_given;
	unsigned slabs;
	double read_rate;
	double stall_us;
	unsigned arguments;
	uint64_t memory_limit;
	bool pin;
	bool scaling;
	bool no_progress;
	bool kernel;
	bool processes;
	enum report_format format;
	const char *plot;
	const char *before;
	const char *after;
	const char **matrix;
	unsigned matrix_count;
	const char *allocators;
	const char *policy;
	const char *cpus;
	unsigned variant;
	bool probe;
};

/*
 * struct bench_result - what one run of a configuration gave
 * @valid: there is a result
 * @partial: it was ended early by Ctrl-C
 * @note: why it was ended early otherwise, or NULL
 * @ops, @ns: operations done, and the nanoseconds they took
 * @cpu_ns: nanoseconds that all threads together had a CPU
 * @baseline_rss, @peak_rss: resident bytes before the workload began, and at most
 * @after_rss: with WL_GENERAL resident bytes a second after everything was freed
 * @instants: at which gauges were read
 * @growth: by how many objects the gauge `objects` grew while the counters were running
 * @parked_growth: the same of the gauge `parked`
 * @bad_reads: objects that readers saw reused too early
 * @corrupt: messages that did not arrive as they had been sent
 * @latencies: of a workload that has some, else NULL
 * @has_values: @policy and @values are filled: the allocator has statistics
 * @policy: the policy in force
 * @values: of counters what was counted while measuring; of gauges the mean; of others the value
 * @sim: of a simulated machine
 */
struct bench_result {
	bool valid;
	bool partial;
	char *note;
	uint64_t ops;
	uint64_t ns;
	uint64_t cpu_ns;
	uint64_t baseline_rss;
	uint64_t peak_rss;
	uint64_t after_rss;
	uint64_t instants;
	int64_t growth;
	int64_t parked_growth;
	uint64_t bad_reads;
	uint64_t corrupt;
	struct wl_histogram *latencies;
	bool has_values;
	struct uslub_policy policy;
	double values[USLUB_STAT_COUNT];
	struct sim_result sim;
};

/*
 * struct bench_run - a configuration and the results of its rounds
 * @label: names it in reports
 * @allocator: which
 * @policy_text: the policy as "P=V,...", possibly empty
 * @variant: of the workload
 * @threads: how many
 * @cpus: "N,N,..." to pin the threads to, or NULL
 * @machine_cpus, @machine_nodes: of a simulated machine
 * @results: of each round
 */
struct bench_run {
	char *label;
	const struct allocator *allocator;
	char *policy_text;
	unsigned variant;
	unsigned threads;
	char *cpus;
	unsigned machine_cpus;
	unsigned machine_nodes;
	struct bench_result *results;
};

/*
 * struct bench - a whole measurement
 * @allocators: those asked for
 * @rounds: rounds begun
 * @before_after: the first two runs are labelled as such by the user
 * @interrupted: Ctrl-C was pressed
 */
struct bench {
	const struct bench_options *options;
	struct bench_run *runs;
	unsigned runs_count;
	struct allocator **allocators;
	unsigned allocators_count;
	unsigned rounds;
	bool before_after;
	bool interrupted;
};

/*
 * struct bench_spread - a quantity over rounds
 * @error: the standard error of the mean, as a fraction of it
 */
struct bench_spread {
	unsigned n;
	double median;
	double min;
	double max;
	double mean;
	double error;
};

/*
 * bench.c
 *
 * bench_run_all - plan, measure and report what the options ask for; returns the exit status
 */
int bench_run_all(const struct bench_options *options);

/*
 * bench_options.c
 *
 * bench_fixed_work - whether a round is so much work, rather than so much time
 */
void bench_parse(int argc, char **argv, struct bench_options *options);
bool bench_fixed_work(const struct bench_options *options);

/* bench_plan.c: fills @b from its options. Returns 0 or an exit status, after a message. */
int bench_plan(struct bench *b);
unsigned bench_online_cpus(int **cpus);

/* bench_spawn.c */
bool bench_spawn_probe(const struct allocator *allocator);

struct trace_header;
struct wl_replay;

/*
 * bench_trace_look   - read a whole trace, and what its header says: 0, or -1 after a message
 * bench_trace_replay - make what @threads replay of it; NULL after a message. It stays for ever
 */
int bench_trace_look(const char *path, struct trace_header *header);
struct wl_replay *bench_trace_replay(const char *path, unsigned threads, bool touch);
int bench_spawn(struct bench *b, const struct bench_run *run, unsigned round, void (*tick)(void *),
		void *arg);
void bench_catch_interrupts(void);
bool bench_interrupted(void);

/*
 * bench_groups.c
 *
 * bench_groups_open - groups for so many threads; NULL after a message
 * @working: the threads; each is told its group
 *
 * bench_groups_wake - wake all who wait at a gate
 */
struct bench_groups;
struct bench_groups *bench_groups_open(const struct bench_options *options,
				       struct wl_thread **working);
void bench_groups_wake(struct bench_groups *groups);

/*
 * bench_model.c
 *
 * bench_unit       - what throughput is given in, for the caller to free: "ops/s", and of a simulated
 *                    machine that it is a model's, and which
 * bench_throughput - operations per second over the rounds of a run
 * bench_ns_per_op  - nanoseconds of one CPU per operation
 * bench_cpu_per_op - the same as the system counts it, without the time that others had the CPU
 * bench_elapsed    - seconds that the work of a round took
 * bench_peak_rss   - the largest of all rounds
 * bench_after_rss  - the same of what was left when all had been freed
 * bench_corrupt    - messages or objects that were not as they had been written, in all rounds
 */
char *bench_unit(const struct bench *b);
struct bench_spread bench_throughput(const struct bench *b, const struct bench_run *run);
struct bench_spread bench_elapsed(const struct bench *b, const struct bench_run *run);
struct bench_spread bench_ns_per_op(const struct bench *b, const struct bench_run *run);
struct bench_spread bench_cpu_per_op(const struct bench *b, const struct bench_run *run);
double bench_peak_rss(const struct bench *b, const struct bench_run *run);
double bench_baseline_rss(const struct bench *b, const struct bench_run *run);
double bench_after_rss(const struct bench *b, const struct bench_run *run);
double bench_corrupt(const struct bench *b, const struct bench_run *run);
bool bench_measured(const struct bench *b, const struct bench_run *run);
bool bench_has_values(const struct bench *b, const struct bench_run *run);

/*
 * bench_total - all rounds of a run in one: counters added up, gauges averaged
 *
 * When the measurement was cut short, only as many rounds are taken as every configuration has, so
 * that totals can be compared. Returns how many that were.
 */
unsigned bench_total(const struct bench *b, const struct bench_run *run,
		     struct bench_result *total);

/*
 * bench_rows - what the runs with statistics are compared by; no rows when there are none
 * @failed: set when an identity that must hold does not
 *
 * bench_latency_rows - the rows of REPORT_LATENCY
 *
 * Both have a column for each run that was measured, and are freed by report_free().
 */
struct report bench_rows(const struct bench *b, bool *failed);
struct report bench_latency_rows(const struct bench *b);

/*
 * bench_latency - one histogram of a run, over its rounds, for the caller to free
 * bench_measure_name, bench_measure - what is shown of a histogram, counted from 0; NULL ends them
 * @shows: the WL_SHOW_... that it belongs to
 */
struct wl_histogram *bench_latency(const struct bench *b, const struct bench_run *run,
				   unsigned which);
const char *bench_measure_name(unsigned measure, unsigned *shows);
double bench_measure(const struct wl_histogram *h, unsigned measure);

/*
 * bench_text.c, bench_export.c
 *
 * bench_warnings writes what the reader of the figures must know: runs that ended early, checks that
 * failed. bench_text includes it.
 */
void bench_warnings(const struct bench *b, FILE *out);
void bench_text(const struct bench *b, FILE *out, unsigned width, bool colour);
void bench_json(const struct bench *b, FILE *out);
void bench_csv(const struct bench *b, FILE *out);
void bench_markdown(const struct bench *b, FILE *out);

/* bench_plot.c: both return 0 or an exit status, after a message. */
int bench_plot_check(const char *file);
int bench_plot(const struct bench *b, const char *file);

/* bench_kernel.c: measures and reports; returns the exit status. */
int bench_kernel(const struct bench_options *options);

/*
 * sim_sweep.c
 *
 * sim_sweep_text - the table over the number of CPUs
 * sim_sweep_plot - the script for gnuplot that draws it, to follow where bench_plot() says to which file
 */
void sim_sweep_text(const struct bench *b, FILE *out, unsigned width, const char *bold,
		    const char *plain);
void sim_sweep_plot(const struct bench *b, FILE *out);

#endif /* TOOLS_BENCH_H */
