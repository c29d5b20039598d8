/* SPDX-License-Identifier: MIT */
/*
 * The process that measures one run of one configuration and writes the result to standard output.
 *
 * 1. Phases. Threads work in phases: set up, warm up, ten parts of the measurement, and finish.
 *    Between two phases they stand at a barrier. The main thread starts and ends phases and reads
 *    gauges while all stand still: a gauge such as `slabs` is then the mean of ten instants, all in
 *    the same situation.
 * 2. Time. The duration of a part is from the first thread's start to the last one's end. The
 *    pauses between parts do not count.
 * 3. Deferred frees. A WL_STEADY workload on uslub is measured from one steady state to another,
 *    since its counters are the point. All others start with no deferred free outstanding, and the
 *    time they take includes the wait until the last one is done: an allocator that puts work off
 *    pays for it.
 * 4. Counters are the difference between two readings while all threads stand still and the
 *    reclaimer has nothing to do; `growth` is what became of the objects outside slabs meanwhile.
 * 5. Memory is read before the threads free what they hold.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <urcu/arch.h>
#include <urcu/urcu-memb.h>
#include "../../workloads/ring.h"
#include "bench.h"
#include "command.h"
#include "numbers.h"
#include "policy.h"
#include "tool.h"

#define NS_PER_SECOND 1000000000u

enum phase {
	PHASE_SETUP,
	PHASE_RUN,
	PHASE_FINISH,
};

struct worker;

/*
 * struct worker_thread - a thread, with what only it writes on lines of its own
 * @wl: the workload's part
 * @begin, @end: of the last phase, in nanoseconds
 * @ops: done in the last phase
 * @bad: a reader's count of objects that were reused too early
 * @passed: measured time before this phase, for a reader of statistics, and the part of it at which
 *	he reads again
 */
struct worker_thread {
	struct wl_thread wl;
	struct worker *worker;
	pthread_t pthread;
	int cpu; /* to be pinned to, or -1 */
	bool reads;
	uint64_t begin;
	uint64_t end;
	uint64_t ops;
	uint64_t bad;
	uint64_t passed;
	uint64_t next_read;
} __attribute__((aligned(128)));

/*
 * @stop: ends the phase; @stop_event is the same for those who wait for sockets
 * @finished: threads that have ended the phase; @sent those among them that only send
 * @quota: operations of each thread in the phase
 * @ns_per_op: of one thread at the given rate, or 0
 * @memory_limit: resident bytes at which the phase ends
 */
struct worker {
	const struct bench_options *options;
	struct allocator *allocator;
	const struct wl_code *code;
	struct wl_params params;
	struct heap heaps[WL_CACHES];
	unsigned caches;
	struct worker_thread *threads; /* those that work, then those that read */
	struct wl_thread **working;
	struct wl_ring *rings;
	struct wl_shared *shared;
	struct bench_groups *groups;
	int stop_event;
	unsigned working_count;
	unsigned threads_count;
	pthread_barrier_t go;
	pthread_barrier_t done;
	enum phase phase;
	uint64_t quota;
	double ns_per_op;
	uint64_t chunk;
	uint64_t memory_limit;
	bool steady;
	int statm;
	const char *note;
	unsigned finished_seen; /* when it last changed, for waits_in_vain() */
	uint64_t finished_at;
	bool failed;
	/* Written by several threads. */
	bool stop __attribute__((aligned(128)));
	unsigned finished __attribute__((aligned(128)));
	unsigned sent;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* ---- What threads do ---- */

/* Sleeps until @due or the end of the phase. */
static void sleep_until(struct worker *w, uint64_t due)
{
	const uint64_t longest = NS_PER_SECOND / 100;
	uint64_t now;

	while ((now = tool_now_ns()) < due && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		uint64_t ns = due - now < longest ? due - now : longest;
		struct timespec time = { .tv_nsec = (long)ns };

		nanosleep(&time, NULL);
	}
}

/* A thread that waits for its partner lets it run where there are fewer CPUs than threads. */
static void relax(unsigned *idle)
{
	if (++*idle % 64 == 0)
		sched_yield();
	else
		caa_cpu_relax();
}

static void wait_at_gate(struct worker *w, struct wl_gate *gate, uint32_t sequence)
{
	if (!__atomic_load_n(&w->stop, __ATOMIC_SEQ_CST))
		wl_gate_sleep(gate, sequence);
}

static void wait_for_socket(struct worker *w, const struct wl_wait *wait)
{
	struct pollfd fds[] = {
		{ .fd = wait->fd, .events = wait->events },
		{ .fd = w->stop_event, .events = POLLIN },
	};

	poll(fds, TOOL_COUNT(fds), -1);
}

/* How often a thread asks again before it sleeps, less one. */
#define YIELDS 3u

/*
 * Runs a step that can get no further once more and, when that was in vain, waits until it can. At a
 * gate it is done in this order, see mailbox.h. Returns the operations done.
 */
static uint64_t await(struct worker *w, struct worker_thread *t, uint64_t n, unsigned *idle)
{
	struct wl_wait *wait = &t->wl.wait;
	struct wl_gate *gate = wait->gate;
	uint64_t done = 0;
	uint32_t sequence;

	if (gate && ++*idle % YIELDS) {
		/* Others may be about to do what is waited for: that is cheaper than to be woken. */
		sched_yield();
	} else if (gate) {
		sequence = wl_gate_enter(gate);
		done = w->code->run(&t->wl, n);
		if (!done && !t->wl.failed)
			wait_at_gate(w, gate, sequence);
		wl_gate_leave(gate);
	} else if (wait->events) {
		wait_for_socket(w, wait);
	} else {
		relax(idle);
	}
	return done;
}

/* Works until the phase is over or the thread is to retire, from @ops operations on; returns those done. */
static uint64_t work(struct worker *w, struct worker_thread *t, uint64_t ops)
{
	uint64_t (*run)(struct wl_thread *, uint64_t) = w->code->run;
	uint64_t quota = w->quota, chunk = w->chunk;
	unsigned idle = 0;

	while (ops < quota && !__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		uint64_t left = quota - ops;
		uint64_t n = left < chunk ? left : chunk;
		uint64_t done = run(&t->wl, n);

		if (!done && !t->wl.failed)
			done = await(w, t, n, &idle);
		ops += done;
		if (done)
			idle = 0;
		if (t->wl.retire)
			break;
		if (t->wl.failed) {
			__atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
			break;
		}
		if (w->ns_per_op > 0)
			sleep_until(w, t->begin + (uint64_t)((double)ops * w->ns_per_op));
	}
	return ops;
}

static void *successor_main(void *arg)
{
	struct worker_thread *t = arg;

	t->ops = work(t->worker, t, t->ops);
	return NULL;
}

/*
 * The same by one thread of the system after the other, each of which ends when its work is for the next one
 * to go on with. The one that stays only waits, and its CPU is theirs.
 */
static void work_in_succession(struct worker *w, struct worker_thread *t)
{
	pthread_t successor;

	t->ops = 0;
	do {
		t->wl.retire = false;
		if (pthread_create(&successor, NULL, successor_main, t)) {
			t->wl.failed = true;
			__atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
			return;
		}
		pthread_join(successor, NULL);
	} while (t->wl.retire);
}

static void read_published(struct worker *w, struct worker_thread *t)
{
	unsigned at = 0;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 64; i++) {
			urcu_memb_read_lock();
			t->bad += !wl_published_ok(w->working[at]);
			urcu_memb_read_unlock();
			at = at + 1 < w->working_count ? at + 1 : 0;
		}
	}
}

static void read_stats(const struct worker *w, uint64_t values[]);

/*
 * Reads all statistics at a rate. The time between parts of the measurement does not count, and a
 * read that comes too late does not make the next one come early.
 */
static void read_statistics(struct worker *w, struct worker_thread *t)
{
	const uint64_t period = (uint64_t)(NS_PER_SECOND / w->options->read_rate);
	uint64_t values[USLUB_STAT_COUNT], start = tool_now_ns(), begin, end;

	for (;;) {
		if (t->next_read > t->passed)
			sleep_until(w, start + (t->next_read - t->passed));
		if (__atomic_load_n(&w->stop, __ATOMIC_RELAXED))
			break;
		begin = tool_now_ns();
		read_stats(w, values);
		end = tool_now_ns();
		wl_histogram_add(&t->wl.clockwork->latencies[WL_LATENCY_READ], end - begin);
		wl_spans_add(&t->wl.clockwork->spans, begin, end);
		do
			t->next_read += period;
		while (t->next_read < t->passed + (end - start));
	}
	t->passed += tool_now_ns() - start;
}

static void one_phase(struct worker *w, struct worker_thread *t)
{
	if (w->phase == PHASE_RUN && t->reads && t->wl.clockwork) {
		read_statistics(w, t);
	} else if (w->phase == PHASE_RUN && t->reads) {
		read_published(w, t);
	} else if (w->phase == PHASE_RUN) {
		t->begin = tool_now_ns();
		if (w->params.workload->flags & WL_SUCCESSION)
			work_in_succession(w, t);
		else
			t->ops = work(w, t, 0);
		t->end = tool_now_ns();
	} else if (w->phase == PHASE_SETUP && !t->reads) {
		w->code->setup(&t->wl);
		if (t->wl.failed)
			__atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
	} else if (!t->reads) {
		w->code->finish(&t->wl);
	}
}

static void *thread_main(void *arg)
{
	struct worker_thread *t = arg;
	struct worker *w = t->worker;
	enum phase phase;

	urcu_memb_register_thread();
	do {
		pthread_barrier_wait(&w->go);
		phase = w->phase;
		one_phase(w, t);
		if (w->groups && t->wl.index % 2 == 0)
			__atomic_fetch_add(&w->sent, 1, __ATOMIC_RELAXED);
		if (!t->reads)
			__atomic_fetch_add(&w->finished, 1, __ATOMIC_RELEASE);
		pthread_barrier_wait(&w->done);
	} while (phase != PHASE_FINISH);
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- Memory ---- */

static uint64_t resident_bytes(struct worker *w)
{
	unsigned long long size, resident;
	char text[128];
	ssize_t n = pread(w->statm, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The largest resident size of this program; getrusage would include its parent's before exec. */
static uint64_t peak_bytes(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "VmHWM: %llu", &kib) == 1)
			break;
	}
	if (status)
		fclose(status);
	return kib << 10;
}

/* Lets the largest resident size begin at the present one; older kernels keep what start-up took. */
static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "5", 1) < 0) {
		/* Start-up is small; the figure is a little too large then. */
	}
	close(fd);
}

/* ---- Phases, seen from the main thread ---- */

static void pause_ns(uint64_t ns)
{
	struct timespec time = { (time_t)(ns / NS_PER_SECOND), (long)(ns % NS_PER_SECOND) };

	nanosleep(&time, NULL);
}

/* What is still there some time after the last free, with nothing done in between. */
static uint64_t bytes_left(struct worker *w)
{
	pause_ns(NS_PER_SECOND);
	return resident_bytes(w);
}

/*
 * Whether receivers wait for messages that nobody is going to send: all have been sent, and for a
 * second no receiver has got all of its own. That is no verdict, which finish() gives.
 */
static bool waits_in_vain(struct worker *w)
{
	unsigned finished = __atomic_load_n(&w->finished, __ATOMIC_ACQUIRE);
	uint64_t now;

	if (__atomic_load_n(&w->sent, __ATOMIC_RELAXED) < w->working_count / 2)
		return false;
	now = tool_now_ns();
	if (finished != w->finished_seen) {
		w->finished_seen = finished;
		w->finished_at = now;
	}
	return now - w->finished_at > NS_PER_SECOND;
}

/* Whether the phase has to end although its time is not over. */
static bool must_stop(struct worker *w)
{
	if (interrupted || __atomic_load_n(&w->failed, __ATOMIC_RELAXED))
		return true;
	if (w->groups && waits_in_vain(w)) {
		w->note = "ended early: messages did not arrive";
		return true;
	}
	if (resident_bytes(w) <= w->memory_limit)
		return false;
	w->note = "ended early: it reached the memory limit";
	return true;
}

/* Tells all threads that the phase is over, also those that wait for others. */
static void stop_phase(struct worker *w)
{
	__atomic_store_n(&w->stop, true, __ATOMIC_SEQ_CST);
	if (w->stop_event >= 0)
		eventfd_write(w->stop_event, 1);
	if (w->groups)
		bench_groups_wake(w->groups);
}

/* Waits until all working threads have ended the phase, and ends it when its time is over. */
static void watch(struct worker *w, uint64_t deadline)
{
	const uint64_t tick = NS_PER_SECOND / (deadline == UINT64_MAX ? 1000 : 100);
	bool stopped = false;

	while (__atomic_load_n(&w->finished, __ATOMIC_ACQUIRE) < w->working_count) {
		uint64_t now = tool_now_ns();

		if (!stopped && (now >= deadline || must_stop(w))) {
			stop_phase(w);
			stopped = true;
		}
		if (stopped)
			pause_ns(20000);
		else
			pause_ns(deadline - now < tick ? deadline - now : tick);
	}
	/* Those that only read go on until they are told. */
	__atomic_store_n(&w->stop, true, __ATOMIC_RELAXED);
}

static void run_phase(struct worker *w, enum phase phase, double seconds, uint64_t quota)
{
	uint64_t deadline = UINT64_MAX;

	eventfd_t events;

	if (w->stop_event >= 0)
		eventfd_read(w->stop_event, &events);
	w->phase = phase;
	w->quota = quota;
	w->finished = w->sent = w->finished_seen = 0;
	w->finished_at = tool_now_ns();
	w->stop = false;
	pthread_barrier_wait(&w->go);
	if (seconds > 0)
		deadline = tool_now_ns() + (uint64_t)(seconds * NS_PER_SECOND);
	watch(w, deadline);
	pthread_barrier_wait(&w->done);
}

/* What all threads together had of a CPU. */
static uint64_t cpu_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

/* What the last phase did. Of two only the consumer counts, which sees an object last. */
static void account(const struct worker *w, uint64_t *ops, uint64_t *ns)
{
	bool pairs = w->params.workload->flags & (WL_PAIRS | WL_GROUPS);
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < w->working_count; i++) {
		const struct worker_thread *t = &w->threads[i];

		if (t->begin < begin)
			begin = t->begin;
		if (t->end > end)
			end = t->end;
		if (!pairs || i % 2)
			*ops += t->ops;
	}
	*ns += end - begin;
}

/*
 * ---- Statistics ----
 *
 * Of a workload with several caches counters and gauges are added up; what describes a cache is that
 * of the first.
 */

struct readings {
	uint64_t start[USLUB_STAT_COUNT];
	uint64_t end[USLUB_STAT_COUNT];
	double sums[USLUB_STAT_COUNT];
	unsigned instants;
};

static void read_stats(const struct worker *w, uint64_t values[])
{
	if (w->allocator->family != &wl_family_uslub)
		return;
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++) {
		enum uslub_stat which = (enum uslub_stat)i;
		int kind = uslub_stat_kind(which);

		uslub_cache_stat(w->heaps[0].cache, which, &values[i]);
		if (kind == USLUB_STAT_KIND_ATTRIBUTE || kind == USLUB_STAT_KIND_FLAG)
			continue;
		for (unsigned k = 1; k < w->caches; k++) {
			uint64_t value = 0;

			uslub_cache_stat(w->heaps[k].cache, which, &value);
			values[i] += value;
		}
	}
}

/* Whether the thread that @stat tells about, a file of proc(5), is asleep. */
static bool is_asleep(const char *stat)
{
	FILE *file = fopen(stat, "re");
	char state = '?';
	bool known;

	/* A thread that has ended does nothing either. */
	if (!file)
		return true;
	known = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
	fclose(file);
	return known && state == 'S';
}

/* Whether nothing in the process runs but this thread: no workload, no reclaimer of the library. */
static bool all_others_asleep(void)
{
	DIR *tasks = opendir("/proc/self/task");
	bool asleep = true;
	struct dirent *task;

	while (tasks && asleep && (task = readdir(tasks))) {
		char *stat;

		if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
			continue;
		stat = tool_format("/proc/self/task/%s/stat", task->d_name);
		asleep = is_asleep(stat);
		free(stat);
	}
	if (tasks)
		closedir(tasks);
	return asleep;
}

/*
 * Waits until objects whose grace period is over have arrived: until no batch waits and all threads
 * sleep, twice in a row. A counter that stands still would not do, since a thread that is kept
 * waiting for a CPU stands still in the middle of its work. Objects in RCU sheaves that are not
 * full stay where they are: to fetch them is to change what is measured.
 */
static void quiesce(const struct worker *w)
{
	unsigned quiet = 0;

	if (!w->steady)
		return;
	urcu_memb_synchronize_rcu();
	for (unsigned i = 0; i < 1000 && quiet < 2; i++) {
		uint64_t oldest = 0;

		pause_ns(NS_PER_SECOND / 4000);
		uslub_cache_stat(w->heaps[0].cache, USLUB_STAT_rcu_oldest_ns, &oldest);
		quiet = !oldest && all_others_asleep() ? quiet + 1 : 0;
	}
}

static void settle(struct worker *w)
{
	const struct wl_family *family = w->allocator->family;

	if (!w->steady && family->settle && (w->params.workload->flags & WL_RCU))
		family->settle(w->working, w->working_count);
}

static void add_instant(const struct worker *w, struct readings *r)
{
	uint64_t values[USLUB_STAT_COUNT] = { 0 };

	read_stats(w, values);
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		r->sums[i] += (double)values[i];
	r->instants++;
}

static double reading(const struct readings *r, enum uslub_stat which)
{
	switch (uslub_stat_kind(which)) {
	case USLUB_STAT_KIND_COUNTER:
	case USLUB_STAT_KIND_DERIVED:
		return (double)(r->end[which] - r->start[which]);
	case USLUB_STAT_KIND_GAUGE:
		return r->instants ? r->sums[which] / r->instants : 0;
	default:
		return (double)r->end[which];
	}
}

/* ---- Latencies ---- */

/* The longest span of @spans that overlaps one, from @at on, which is moved past those before it. */
static uint64_t longest_overlap(const struct wl_spans *spans, unsigned *at, uint64_t begin,
				uint64_t end)
{
	uint64_t longest = 0;

	while (*at < spans->count && spans->list[*at].end < begin)
		++*at;
	for (unsigned i = *at; i < spans->count && spans->list[i].begin <= end; i++) {
		uint64_t ns = spans->list[i].end - spans->list[i].begin;

		if (ns > longest)
			longest = ns;
	}
	return longest;
}

/*
 * For each read of one reader in the last part, the longest stall of any thread, preemptions apart,
 * that was under way at some time during the read, or 0. @longest is as many zeroes as there may be reads.
 */
static void add_gaps(const struct worker *w, struct wl_clockwork *reader, uint64_t longest[])
{
	const struct wl_spans *reads = &reader->spans;

	for (unsigned i = 0; i < w->working_count; i++) {
		const struct wl_spans *stalls = &w->working[i]->clockwork->spans;
		unsigned at = 0;

		for (unsigned k = 0; k < reads->count; k++) {
			uint64_t ns = longest_overlap(stalls, &at, reads->list[k].begin,
						      reads->list[k].end);

			if (ns > longest[k])
				longest[k] = ns;
		}
	}
	for (unsigned k = 0; k < reads->count; k++)
		wl_histogram_add(&reader->latencies[WL_LATENCY_GAP], longest[k]);
}

/* After each part: puts stalls and reads together, and makes room for those of the next. */
static void match_spans(struct worker *w)
{
	if (!w->params.workload->latencies)
		return;
	for (unsigned i = w->working_count; i < w->threads_count; i++) {
		uint64_t longest[WL_SPANS] = { 0 };

		add_gaps(w, w->threads[i].wl.clockwork, longest);
	}
	for (unsigned i = 0; i < w->threads_count; i++)
		w->threads[i].wl.clockwork->spans.count = 0;
}

/* The warm-up does not count. Readers begin in the middle of a period, or of a short run. */
static void restart_clockworks(struct worker *w)
{
	double period = 1 / w->options->read_rate, offset = period;

	if (w->options->seconds > 0)
		offset = fmin(offset, w->options->seconds);
	else if (w->options->ops)
		offset = 0;
	for (unsigned i = 0; i < w->threads_count && w->params.workload->latencies; i++) {
		struct wl_clockwork *clockwork = w->threads[i].wl.clockwork;

		memset(clockwork->latencies, 0, sizeof(clockwork->latencies));
		clockwork->spans.count = 0;
		clockwork->spans.dropped = 0;
		w->threads[i].passed = 0;
		w->threads[i].next_read = (uint64_t)(offset / 2 * NS_PER_SECOND);
	}
}

static void check_dropped(struct worker *w)
{
	uint64_t dropped = 0;

	for (unsigned i = 0; i < w->threads_count && w->params.workload->latencies; i++)
		dropped += w->threads[i].wl.clockwork->spans.dropped;
	if (dropped && !w->note)
		w->note = "so many stalls or reads that not all could be matched";
}

static json_t *encode_histogram(const struct wl_histogram *h)
{
	json_t *json = json_object(), *buckets = json_array();

	json_object_set_new(json, "count", json_integer((json_int_t)h->count));
	json_object_set_new(json, "sum", json_integer((json_int_t)h->sum));
	json_object_set_new(json, "min", json_integer((json_int_t)h->min));
	json_object_set_new(json, "max", json_integer((json_int_t)h->max));
	for (unsigned i = 0; i < WL_BUCKETS; i++) {
		if (!h->buckets[i])
			continue;
		json_array_append_new(buckets, json_integer(i));
		json_array_append_new(buckets, json_integer((json_int_t)h->buckets[i]));
	}
	json_object_set_new(json, "buckets", buckets);
	return json;
}

/* Those of all threads in one. */
static json_t *encode_latencies(const struct worker *w)
{
	json_t *list = json_array();

	for (unsigned k = 0; k < wl_latencies(w->params.workload); k++) {
		struct wl_histogram *all = tool_alloc(1, sizeof(*all));

		for (unsigned i = 0; i < w->threads_count; i++)
			wl_histogram_merge(all, &w->threads[i].wl.clockwork->latencies[k]);
		json_array_append_new(list, encode_histogram(all));
		free(all);
	}
	return list;
}

/* ---- The run ---- */

/*
 * Operations of each thread until @part of @parts is over. The parts add up to the whole, also when
 * it does not divide; where messages go to several receivers in turn, all of them get as many.
 */
static uint64_t ops_until(const struct worker *w, uint64_t part, uint64_t parts)
{
	uint64_t unit = w->params.workload->flags & WL_GROUPS ? w->params.fds : 1;

	return w->options->ops / unit * part / parts * unit;
}

/*
 * Warms up for a fifth of the time or a tenth of the operations: caches, sheaves, grace periods. What
 * grows without bounds may take a quarter of the memory here, so that enough is left to measure.
 */
static void warm_up(struct worker *w)
{
	double seconds = w->options->seconds / 5;

	w->memory_limit = w->options->memory_limit / 4;
	if (w->options->ops)
		run_phase(w, PHASE_RUN, 0, ops_until(w, 1, 10));
	else
		run_phase(w, PHASE_RUN, fmin(fmax(seconds, 0.02), 1), UINT64_MAX);
	w->memory_limit = w->options->memory_limit;
	w->note = NULL;
	restart_clockworks(w);
}

static void measure(struct worker *w, struct readings *r, struct bench_result *result)
{
	const struct bench_options *o = w->options;
	uint64_t before;

	warm_up(w);
	settle(w);
	quiesce(w);
	read_stats(w, r->start);
	for (unsigned i = 0; i < BENCH_INSTANTS && !interrupted && !w->failed && !w->note; i++) {
		uint64_t quota = UINT64_MAX;

		if (o->ops)
			quota = ops_until(w, i + 1, BENCH_INSTANTS) -
				ops_until(w, i, BENCH_INSTANTS);
		before = cpu_now_ns();
		run_phase(w, PHASE_RUN, o->seconds / BENCH_INSTANTS, quota);
		result->cpu_ns += cpu_now_ns() - before;
		account(w, &result->ops, &result->ns);
		match_spans(w);
		quiesce(w);
		add_instant(w, r);
	}
	check_dropped(w);
	read_stats(w, r->end);
	result->growth = (int64_t)(r->end[USLUB_STAT_objects] - r->start[USLUB_STAT_objects]);
	result->parked_growth = (int64_t)(r->end[USLUB_STAT_parked] - r->start[USLUB_STAT_parked]);
	result->peak_rss = peak_bytes();
	result->partial = interrupted;
	before = tool_now_ns();
	settle(w);
	result->ns += tool_now_ns() - before;
}

/* CPU numbers may be sparse and large, so the set is made to measure. */
static void pin(pthread_attr_t *attributes, int cpu)
{
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);

	if (!set)
		return;
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)cpu, size, set);
	pthread_attr_setaffinity_np(attributes, size, set);
	CPU_FREE(set);
}

static int start_threads(struct worker *w)
{
	for (unsigned i = 0; i < w->threads_count; i++) {
		struct worker_thread *t = &w->threads[i];
		pthread_attr_t attributes;
		int error;

		pthread_attr_init(&attributes);
		/* There may be thousands, and their steps need little. */
		if (w->groups)
			pthread_attr_setstacksize(&attributes, 256 << 10);
		if (t->cpu >= 0)
			pin(&attributes, t->cpu);
		error = pthread_create(&t->pthread, &attributes, thread_main, t);
		pthread_attr_destroy(&attributes);
		if (error) {
			tool_error("cannot start thread %u of %u: %s; use fewer, or raise the "
				   "limit ('ulimit -u', or pids.max of the control group)",
				   i + 1, w->threads_count, strerror(error));
			return -1;
		}
	}
	return 0;
}

static void set_cpus(struct worker *w)
{
	const char *list = w->options->cpus;

	for (unsigned i = 0; i < w->threads_count; i++) {
		w->threads[i].cpu = -1;
		if (!list || w->threads[i].reads)
			continue;
		w->threads[i].cpu = atoi(list);
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
}

static int make_thread(struct worker *w, unsigned i)
{
	struct worker_thread *t = &w->threads[i];
	unsigned slots = w->params.workload->slots(&w->params);
	int error = 0;

	t->worker = w;
	t->reads = i >= w->working_count;
	if (w->params.workload->latencies) {
		t->wl.clockwork = wl_map(sizeof(*t->wl.clockwork));
		if (!t->wl.clockwork)
			return -ENOMEM;
		t->wl.clockwork->stall_ns = (uint64_t)(1000 * w->options->stall_us);
	}
	if (t->reads)
		return 0;
	memcpy(t->wl.heaps, w->heaps, sizeof(t->wl.heaps));
	t->wl.params = &w->params;
	t->wl.index = i;
	t->wl.random = i;
	t->wl.wait.fd = -1;
	t->wl.shared = w->shared;
	if (slots)
		t->wl.slots = wl_map(slots * sizeof(void *));
	if (slots && !t->wl.slots)
		return -ENOMEM;
	if (w->rings)
		t->wl.ring = &w->rings[i / 2];
	w->working[i] = &t->wl;
	if (w->allocator->family->thread_open)
		error = w->allocator->family->thread_open(&t->wl);
	return error;
}

static int make_threads(struct worker *w)
{
	w->working_count = w->options->threads;
	if (w->params.workload->flags & WL_STATS)
		w->working_count -= w->options->readers;
	w->threads_count = w->working_count + w->options->readers;
	w->threads = wl_map(w->threads_count * sizeof(*w->threads));
	w->working = wl_map(w->working_count * sizeof(struct wl_thread *));
	if (!w->threads || !w->working)
		return -ENOMEM;
	if (w->params.workload->flags & WL_PAIRS) {
		w->rings = wl_map((w->working_count / 2) * sizeof(*w->rings));
		if (!w->rings)
			return -ENOMEM;
	}
	if (w->params.workload->flags & WL_SHARED) {
		w->shared =
			wl_map(sizeof(*w->shared) + w->working_count * WL_PLACES * sizeof(void *));
		if (!w->shared)
			return -ENOMEM;
		w->shared->threads = w->working_count;
	}
	for (unsigned i = 0; i < w->threads_count; i++) {
		int error = make_thread(w, i);

		if (error)
			return error;
	}
	if (w->params.workload->flags & WL_GROUPS)
		w->groups = bench_groups_open(w->options, w->working);
	if ((w->params.workload->flags & WL_GROUPS) && !w->groups)
		return -EINVAL;
	set_cpus(w);
	pthread_barrier_init(&w->go, NULL, w->threads_count + 1);
	pthread_barrier_init(&w->done, NULL, w->threads_count + 1);
	return 0;
}

/* A policy given as an argument must be in force, or the figures are of something else. */
static int check_policy(const struct worker *w)
{
	struct uslub_policy effective;

	if (w->allocator->family != &wl_family_uslub)
		return 0;
	uslub_cache_policy(w->heaps[0].cache, &effective);
	for (unsigned i = 0; i < policy_count; i++) {
		const struct policy_entry *entry = &policy_entries[i];
		uint64_t asked = policy_get(entry, &w->params.policy);

		if (asked && asked != policy_get(entry, &effective)) {
			tool_error("the library did not take policy '%s'", entry->name);
			return -1;
		}
	}
	return 0;
}

static int set_params(struct worker *w)
{
	const struct bench_options *o = w->options;
	struct wl_params *p = &w->params;
	char *message;

	p->workload = o->workload;
	p->size = o->size;
	p->min_size = o->min_size;
	p->live = o->live;
	if (o->workload->flags & WL_TRACE) {
		p->replay = bench_trace_replay(o->trace_file, o->threads, !o->no_touch);
		if (!p->replay)
			return -1;
	}
	/* An alignment is for the workload's own size; another size is not stretched to it. */
	p->align = o->size % (o->workload->align ? o->workload->align : 1) ? 0 : o->workload->align;
	p->capacity = o->workload->capacity;
	p->slabs = o->slabs;
	p->burst = o->burst;
	p->window = o->window;
	p->batch = o->batch;
	p->fds = o->fds;
	p->transport = o->transport;
	p->variant = o->variant;
	message = policy_parse(o->policy ? o->policy : "", &p->policy);
	if (message) {
		tool_error("%s", message);
		free(message);
		return -1;
	}
	if (!p->policy.sheaf_capacity && p->capacity == WL_NO_SHEAVES)
		p->policy.sheaf_capacity = USLUB_POLICY_NONE;
	if (!p->policy.slab_min_objects)
		p->policy.slab_min_objects = o->workload->slab_objects;
	return 0;
}

static void set_pace(struct worker *w)
{
	const struct bench_options *o = w->options;
	unsigned streams = w->working_count;
	double chunk;

	w->code = &w->allocator->family->code[o->workload->id];
	w->chunk = o->workload->chunk;
	if (o->rate <= 0)
		return;
	if (o->workload->flags & (WL_PAIRS | WL_GROUPS))
		streams /= 2;
	/* A thread sleeps about a thousand times a second, or after each operation. */
	w->ns_per_op = NS_PER_SECOND * (double)streams / o->rate;
	chunk = 1e6 / w->ns_per_op;
	if (chunk < (double)w->chunk)
		w->chunk = chunk > 1 ? (uint64_t)chunk : 1;
}

static int open_heaps(struct worker *w)
{
	w->caches = wl_caches(w->params.workload);
	for (unsigned i = 0; i < w->caches; i++) {
		int error = w->allocator->family->open(&w->params, i, &w->heaps[i]);

		if (!error)
			continue;
		tool_error("cannot make a cache of %zu-byte objects: %s",
			   wl_cache_size(&w->params, i), strerror(-error));
		return -1;
	}
	return 0;
}

/* What statread asks: slabs of one page, and so much memory. */
static int check_slabs(const struct worker *w)
{
	uint64_t bytes = (uint64_t)w->options->slabs * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t order = 0, objects = 0;
	char *needed, *allowed;

	if (!(w->params.workload->flags & WL_STATS))
		return 0;
	uslub_cache_stat(w->heaps[0].cache, USLUB_STAT_order, &order);
	uslub_cache_stat(w->heaps[0].cache, USLUB_STAT_objs_per_slab, &objects);
	if (order || objects < 2) {
		tool_error(
			"'%s' needs slabs of one page with several objects, but %zu-byte objects "
			"get slabs of %" PRIu64 " page(s) with %" PRIu64 " in each; choose another "
			"--size or slab-min-objects",
			w->params.workload->name, w->params.size, UINT64_C(1) << order, objects);
		return -1;
	}
	/* Something is needed besides. */
	if (bytes <= w->options->memory_limit / 8 * 7)
		return 0;
	needed = numbers_bytes((double)bytes);
	allowed = numbers_bytes((double)w->options->memory_limit);
	tool_error("%u slabs are %s, too much for a --memory-limit of %s", w->options->slabs,
		   needed, allowed);
	free(needed);
	free(allowed);
	return -1;
}

static int prepare(struct worker *w)
{
	int error;

	if (set_params(w))
		return -1;
	w->memory_limit = w->options->memory_limit;
	w->steady = (w->params.workload->flags & WL_STEADY) &&
		    w->allocator->family == &wl_family_uslub;
	w->stop_event = w->params.workload->flags & WL_GROUPS
				? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
				: -1;
	w->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (open_heaps(w) || check_policy(w) || check_slabs(w))
		return -1;
	error = make_threads(w);
	/* What was missing for groups has been said. */
	if (error && error != -EINVAL)
		tool_error("cannot prepare %u threads: %s", w->options->threads, strerror(-error));
	if (error)
		return -1;
	set_pace(w);
	return 0;
}

/* The caches must be empty now: an object lost on the way is a fault of the library. */
static int close_heaps(struct worker *w)
{
	const struct wl_family *family = w->allocator->family;
	int error = 0;

	for (unsigned i = 0; i < w->working_count && family->thread_close; i++)
		family->thread_close(w->working[i]);
	for (unsigned i = 0; i < w->caches && family->close && !error; i++)
		error = family->close(&w->heaps[i]);
	if (error)
		tool_error("the cache cannot be destroyed after all objects were freed: %s",
			   strerror(-error));
	return error;
}

static json_t *encode_values(const struct readings *r)
{
	json_t *values = json_object();

	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		json_object_set_new(values, uslub_stat_name((enum uslub_stat)i),
				    json_real(reading(r, (enum uslub_stat)i)));
	return values;
}

static json_t *encode_policy(const struct uslub_policy *policy)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < policy_count; i++)
		json_object_set_new(
			object, policy_entries[i].name,
			json_integer((json_int_t)policy_get(&policy_entries[i], policy)));
	return object;
}

static json_t *encode(const struct worker *w, const struct readings *r,
		      const struct bench_result *result)
{
	json_t *json = json_object();

	json_object_set_new(json, "ops", json_integer((json_int_t)result->ops));
	json_object_set_new(json, "ns", json_integer((json_int_t)result->ns));
	json_object_set_new(json, "baseline_rss", json_integer((json_int_t)result->baseline_rss));
	json_object_set_new(json, "peak_rss", json_integer((json_int_t)result->peak_rss));
	json_object_set_new(json, "after_rss", json_integer((json_int_t)result->after_rss));
	json_object_set_new(json, "cpu_ns", json_integer((json_int_t)result->cpu_ns));
	json_object_set_new(json, "instants", json_integer(r->instants));
	json_object_set_new(json, "growth", json_integer(result->growth));
	json_object_set_new(json, "parked_growth", json_integer(result->parked_growth));
	json_object_set_new(json, "bad_reads", json_integer((json_int_t)result->bad_reads));
	json_object_set_new(json, "corrupt", json_integer((json_int_t)result->corrupt));
	json_object_set_new(json, "partial", json_boolean(result->partial));
	if (w->params.workload->latencies)
		json_object_set_new(json, "latencies", encode_latencies(w));
	if (w->note)
		json_object_set_new(json, "note", json_string(w->note));
	if (w->allocator->family == &wl_family_uslub) {
		json_object_set_new(json, "policy", encode_policy(&result->policy));
		json_object_set_new(json, "values", encode_values(r));
	}
	return json;
}

static int write_result(json_t *json)
{
	int error = json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) ||
		    fflush(stdout);

	json_decref(json);
	return error;
}

/* The floor frees deferred objects at once, so its readers see what they must. */
static uint64_t count_bad_reads(const struct worker *w)
{
	uint64_t bad = 0;

	for (unsigned i = 0; i < w->threads_count; i++)
		bad += w->threads[i].bad;
	return w->allocator->family == &wl_family_floor ? 0 : bad;
}

static int run(struct worker *w)
{
	struct bench_result result = { 0 };
	struct readings readings = { 0 };

	if (prepare(w) || start_threads(w))
		return TOOL_EXIT_USAGE;
	result.baseline_rss = resident_bytes(w);
	reset_peak();
	run_phase(w, PHASE_SETUP, 0, 0);
	measure(w, &readings, &result);
	if (w->allocator->family == &wl_family_uslub)
		uslub_cache_policy(w->heaps[0].cache, &result.policy);
	run_phase(w, PHASE_FINISH, 0, 0);
	if (w->params.workload->flags & WL_GENERAL)
		result.after_rss = bytes_left(w);
	for (unsigned i = 0; i < w->threads_count; i++)
		pthread_join(w->threads[i].pthread, NULL);
	if (w->failed) {
		tool_error("%s has no memory for an object of %s%zu bytes", w->allocator->name,
			   w->params.workload->flags & WL_GENERAL ? "up to " : "", w->params.size);
		return TOOL_EXIT_USAGE;
	}
	for (unsigned i = 0; i < w->working_count; i++)
		result.corrupt += w->working[i]->corrupt;
	if (close_heaps(w)) {
		if (result.corrupt)
			tool_error("%" PRIu64 " messages or objects were lost, doubled or changed",
				   result.corrupt);
		return TOOL_EXIT_NO;
	}
	result.bad_reads = count_bad_reads(w);
	return write_result(encode(w, &readings, &result)) ? TOOL_EXIT_USAGE : 0;
}

/* Runs when malloc is the one to be measured; with --probe that is all that was asked. */
static int run_in_force(struct worker *w)
{
	const char *found = NULL;

	if (allocator_in_force(w->allocator, &found))
		return w->options->probe ? 0 : run(w);
	if (!w->options->probe)
		tool_error("malloc is not that of %s but comes from %s", w->allocator->name, found);
	return TOOL_EXIT_NO;
}

int command_bench_worker(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	struct bench_options options;
	struct worker *w;
	int status = TOOL_EXIT_USAGE;

	/* Without its parent nobody waits for the result. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGINT, &action, NULL);
	tool_name = "uslub bench";
	bench_parse(argc, argv, &options);
	w = wl_map(sizeof(*w));
	if (!w)
		return status;
	w->options = &options;
	w->allocator = allocator_find(options.allocators ? options.allocators : "uslub");
	if (w->allocator && !w->allocator->missing)
		status = run_in_force(w);
	allocator_free(w->allocator);
	free(options.matrix);
	/* After a failure threads may still stand at a barrier in there. */
	if (!status)
		wl_unmap(w, sizeof(*w));
	return status;
}
