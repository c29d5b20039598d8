/* SPDX-License-Identifier: MIT */
/*
 * uslub sim explore: hunts bugs of interleaving in the core. Started by uslub-sim as a program of its own, since
 * the core in it is compiled otherwise (explore_trace.c); with --plant it starts uslub-sim-planted, which has
 * bugs in its core.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../uslub/numbers.h"
#include "../uslub/tool.h"
#include "explore.h"

#define POINTS_LIMIT	400000u
#define HANG_SECONDS	20
#define ENOUGH		10000u /* schedules of all scenarios, after which a probe must have been reached */
#define EXHAUSTIVE_MOST 20000u

struct options {
	const char **scenarios;
	unsigned nscenarios;
	uint64_t schedules, seed, first;
	enum ex_way way;
	unsigned bound, trace;
	const char *plant, *replay, *save;
	bool list, probes, have_schedules;
};

static struct options o = { .schedules = 1000, .seed = 1, .bound = 2, .trace = 60 };
struct ex_shared *ex_shared;
bool ex_planted[64];	  /* see gen-plants */
static uint64_t ops_seed; /* of the last schedule: what threads do */

/* ---- one schedule --------------------------------------------------------------------------------- */

void ex_fail(const char *format, ...)
{
	struct ex_shared *sh = ex_shared;
	va_list ap;

	if (sh->verdict == EX_RUNNING) {
		va_start(ap, format);
		vsnprintf(sh->message, sizeof(sh->message), format, ap);
		va_end(ap);
		sh->in_child = sim_in_child();
		sh->verdict = EX_BAD;
	}
	_exit(TOOL_EXIT_NO);
}

static void core_gave_up(const char *message)
{
	ex_fail("%s", message);
}

/* Different numbers for each scenario, seed and schedule. */
static uint64_t seed_of(const struct ex_scenario *s, uint64_t schedule)
{
	uint64_t h = o.seed * 0x9e3779b97f4a7c15u + schedule;

	for (const char *c = s->name; *c; c++)
		h = (h ^ (unsigned char)*c) * 0x100000001b3ull;
	return sim_random(&h);
}

struct result {
	bool bad;
	int status;
};

/* Runs it in a process of its own. */
static struct result run_schedule(const struct ex_plan *plan, const struct ex_scenario *s,
				  uint64_t operations)
{
	struct itimerval limit = { .it_value.tv_sec = HANG_SECONDS };
	struct ex_shared *sh = ex_shared;
	struct result r = { false, 0 };
	pid_t pid;

	ops_seed = operations;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setitimer(ITIMER_PROF, &limit, NULL);
		ex_schedule_begin(plan, s);
		ex_run(operations);
		sh->verdict = EX_GOOD;
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &r.status, 0) < 0) {
		tool_error("cannot start a process: %s", strerror(errno));
		exit(TOOL_EXIT_USAGE);
	}
	r.bad = r.status || sh->verdict != EX_GOOD;
	if (r.bad && sh->verdict == EX_RUNNING)
		snprintf(sh->message, sizeof(sh->message),
			 WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGPROF
				 ? "it hangs without coming to a point"
				 : "it died with status %#x: %s",
			 (unsigned)r.status,
			 WIFSIGNALED(r.status) ? strsignal(WTERMSIG(r.status)) : "exit");
	ex_probes_end();
	sh->all_schedules++;
	sh->all_points += sh->points;
	sh->all_switches += sh->switches;
	return r;
}

/* ---- a scenario, in a process that has made its machine ------------------------------------------- */

static void write_trace(FILE *f, const struct ex_scenario *s, uint64_t schedule)
{
	fprintf(f,
		"uslub sim explore trace 1\nbuild %s\nscenario %s\nplant %s\nseed %" PRIu64
		"\nschedule %" PRIu64 "\noperations %" PRIu64 "\n",
		ex_build_id(), s->name, o.plant ? o.plant : "-", o.seed, schedule, ops_seed);
	for (unsigned i = 0; i < ex_shared->nlog; i++)
		fprintf(f, "%u %u\n", ex_shared->log[i].number, ex_shared->log[i].value);
	fprintf(f, "end\n");
}

static void save_trace(const struct ex_scenario *s, uint64_t schedule, const char *name)
{
	FILE *f = fopen(name, "w");

	if (f)
		write_trace(f, s, schedule);
	if (!f || ferror(f) || fclose(f))
		tool_error("cannot write %s: %s", name, strerror(errno));
}

static void report(const struct ex_scenario *s, uint64_t schedule, bool exhaustive)
{
	struct ex_shared *sh = ex_shared;
	const char *name = o.save;

	printf("FOUND in scenario %s, seed %" PRIu64 ", schedule %" PRIu64 "%s:\n  %s%s\n", s->name,
	       o.seed, schedule, exhaustive ? " of all" : "",
	       sh->in_child ? "in the child of a fork: " : "", sh->message);
	if (exhaustive && !name)
		name = "explore.trace";
	if (name && !o.replay)
		save_trace(s, schedule, name);
	printf("Replay: uslub sim explore%s%s --scenario %s --replay ", o.plant ? " --plant " : "",
	       o.plant ? o.plant : "", s->name);
	if (o.replay || exhaustive)
		printf("%s\n", o.replay ? o.replay : name);
	else
		printf("%" PRIu64 ":%" PRIu64 "@%.12s\n", o.seed, schedule, ex_build_id());
	if (o.trace)
		ex_trace_print(o.trace);
}

/* How many points the scenario has, without its end, when nobody is preempted. */
static uint64_t expected_points(const struct ex_scenario *s)
{
	struct ex_plan plan = { .way = EX_RANDOM, .replaying = true, .limit = POINTS_LIMIT };

	run_schedule(&plan, s, seed_of(s, 0));
	return ex_shared->points_settled;
}

static int explore_all(const struct ex_scenario *s, uint64_t most)
{
	struct ex_plan plan = { .way = EX_EXHAUSTIVE, .limit = POINTS_LIMIT };
	uint64_t schedule = 0;
	bool more = true;

	ex_exhaustive_begin();
	for (; more && schedule < most; schedule++) {
		if (run_schedule(&plan, s, o.seed).bad) {
			report(s, schedule, true);
			return TOOL_EXIT_NO;
		}
		more = ex_exhaustive_next(o.bound);
	}
	printf("%-14s %s %" PRIu64 " schedules with at most %u preemptions\n", s->name,
	       more ? "the first" : "all", schedule, o.bound);
	return 0;
}

static int explore_some(const struct ex_scenario *s, uint64_t first, uint64_t n)
{
	struct ex_plan plan = { .way = o.way, .limit = POINTS_LIMIT };
	uint64_t seed;

	plan.expected = expected_points(s);
	for (uint64_t i = first; i < first + n; i++) {
		seed = seed_of(s, i);
		plan.seed = seed;
		if (run_schedule(&plan, s, seed).bad) {
			report(s, i, false);
			return TOOL_EXIT_NO;
		}
	}
	return 0;
}

/* ---- replay --------------------------------------------------------------------------------------- */

struct recorded {
	char build[64], scenario[64], plant[64];
	uint64_t seed, schedule, operations;
	struct ex_decision *decisions;
	size_t n;
	bool file, have_build;
};

static bool read_decisions(FILE *f, struct recorded *r)
{
	char line[128];
	unsigned number, value;

	while (fgets(line, sizeof(line), f)) {
		if (!strcmp(line, "end\n"))
			return true;
		if (sscanf(line, "%u %u", &number, &value) != 2)
			return false;
		r->decisions = tool_grow(r->decisions, r->n + 1, sizeof(*r->decisions));
		r->decisions[r->n++] = (struct ex_decision){ number, value };
	}
	return false;
}

static void bad_usage(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void bad_usage(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", tool_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(TOOL_EXIT_USAGE);
}

static void read_recorded(const char *name, struct recorded *r)
{
	FILE *f = fopen(name, "r");

	if (!f)
		bad_usage("cannot read the trace '%s': %s (nor is it SEED:SCHEDULE)", name,
			  strerror(errno));
	if (fscanf(f,
		   "uslub sim explore trace 1 build %63s scenario %63s plant %63s seed %" SCNu64
		   " schedule %" SCNu64 " operations %" SCNu64 " ",
		   r->build, r->scenario, r->plant, &r->seed, &r->schedule, &r->operations) != 6 ||
	    !read_decisions(f, r))
		bad_usage("'%s' is not a whole trace of explore", name);
	fclose(f);
	r->file = r->have_build = true;
}

/* SEED:SCHEDULE[@BUILD] */
static bool parse_numbers(const char *text, struct recorded *r)
{
	char *colon, *at, *copy = tool_copy(text);
	bool ok;

	at = strchr(copy, '@');
	if (at)
		*at++ = '\0';
	colon = strchr(copy, ':');
	if (colon)
		*colon++ = '\0';
	ok = colon && !numbers_parse(copy, 1000, &r->seed) &&
	     !numbers_parse(colon, 1000, &r->schedule) && (!at || *at);
	if (ok && at) {
		snprintf(r->build, sizeof(r->build), "%s", at);
		r->have_build = true;
	}
	free(copy);
	return ok;
}

static const struct ex_scenario *find_scenario(const char *name)
{
	for (unsigned i = 0; i < ex_nscenarios; i++)
		if (!strcmp(ex_scenarios[i].name, name))
			return &ex_scenarios[i];
	return NULL;
}

/* What is to be replayed, before it is known whether this is the program for it. */
static void prepare_replay(struct recorded *r)
{
	*r = (struct recorded){ .seed = 0 };
	if (!parse_numbers(o.replay, r))
		read_recorded(o.replay, r);
	o.seed = r->seed;
	if (!r->file)
		return;
	if (!o.plant && strcmp(r->plant, "-"))
		o.plant = r->plant;
	o.scenarios = tool_grow(o.scenarios, 1, sizeof(*o.scenarios));
	o.scenarios[0] = r->scenario;
	o.nscenarios = 1;
}

static int replay(const struct ex_scenario *s, const struct recorded *r)
{
	struct ex_plan plan = { .way = o.way, .limit = POINTS_LIMIT };
	uint64_t seed = r->file ? r->operations : seed_of(s, r->schedule);

	if (r->file) {
		plan.replaying = true;
		plan.replay = r->decisions;
		plan.nreplay = r->n;
	} else {
		plan.expected = expected_points(s);
		plan.seed = seed;
	}
	if (run_schedule(&plan, s, seed).bad) {
		report(s, r->schedule, false);
		return TOOL_EXIT_NO;
	}
	printf("scenario %s, seed %" PRIu64 ", schedule %" PRIu64 ": nothing was found in %" PRIu64
	       " points\n",
	       s->name, o.seed, r->schedule, ex_shared->points);
	if (o.trace && r->file)
		ex_trace_print(o.trace);
	return 0;
}

/* ---- all scenarios -------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

/* On Ctrl-C what was run until then is told. */
static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	struct sigaction old;

	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
}

static bool wanted(const struct ex_scenario *s)
{
	for (unsigned i = 0; i < o.nscenarios; i++)
		if (!strcmp(o.scenarios[i], s->name))
			return true;
	return !o.nscenarios;
}

/* In a process of its own, since a machine is made only once. */
static int apart(const struct ex_scenario *s, int (*fn)(const struct ex_scenario *s, void *arg),
		 void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (interrupted)
			_exit(TOOL_EXIT_INTERRUPTED);
		signal(SIGINT, SIG_DFL);
		ex_setup(s, o.seed);
		ex_trace_learn();
		status = fn(s, arg);
		fflush(NULL);
		_exit(status);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (interrupted)
			kill(pid, SIGINT);
	if (pid > 0 && interrupted && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		return TOOL_EXIT_INTERRUPTED;
	if (pid < 0 || !WIFEXITED(status)) {
		tool_error("scenario %s: its process ended with status %#x", s->name,
			   (unsigned)status);
		return TOOL_EXIT_USAGE;
	}
	return WEXITSTATUS(status);
}

static int all_of(const struct ex_scenario *s, void *most)
{
	return explore_all(s, *(uint64_t *)most);
}

struct share {
	uint64_t first, n;
};

static int some_of(const struct ex_scenario *s, void *arg)
{
	const struct share *share = arg;

	return explore_some(s, share->first, share->n);
}

static int replay_of(const struct ex_scenario *s, void *arg)
{
	return replay(s, arg);
}

/* Every scenario has its share; returns 0 or the first status that is not. */
static int explore(uint64_t *done)
{
	unsigned n = 0, k = 0;
	struct share share = { .first = o.first };
	uint64_t most;
	int status = 0;

	*done = 0;
	for (unsigned i = 0; i < ex_nscenarios; i++)
		n += wanted(&ex_scenarios[i]) && (o.way != EX_EXHAUSTIVE || ex_scenarios[i].tiny);
	for (unsigned i = 0; i < ex_nscenarios && !status && !interrupted; i++) {
		const struct ex_scenario *s = &ex_scenarios[i];

		if (!wanted(s) || (o.way == EX_EXHAUSTIVE && !s->tiny))
			continue;
		share.n = o.schedules / n + (k++ < o.schedules % n);
		most = o.have_schedules ? share.n : EXHAUSTIVE_MOST;
		if (o.way == EX_EXHAUSTIVE)
			status = apart(s, all_of, &most);
		else if (share.n)
			status = apart(s, some_of, &share);
		*done += share.n;
	}
	return status;
}

static void list_all(void)
{
	printf("Scenarios:\n");
	for (unsigned i = 0; i < ex_nscenarios; i++)
		printf("  %-16s %s%s\n", ex_scenarios[i].name, ex_scenarios[i].help,
		       ex_scenarios[i].tiny ? " (small enough for all schedules)" : "");
	printf("Planted bugs, and in how many schedules each is found:\n");
	for (unsigned i = 0; i < ex_nplants; i++)
		printf("  %-20s %8" PRIu64 "  %s%s%s\n", ex_plants[i].name, ex_plants[i].within,
		       ex_plants[i].help, ex_plants[i].scenario ? ", in " : "",
		       ex_plants[i].scenario ? ex_plants[i].scenario : "");
}

/* ---- options -------------------------------------------------------------------------------------- */

enum { OPT_REPLAY = 256, OPT_SAVE, OPT_LIST, OPT_PROBES, OPT_PLANT, OPT_FIRST, OPT_BOUND };

static const struct argp_option argp_options[] = {
	{ "scenario", 'x', "NAME", 0, "Only this one; may be given again", 0 },
	{ "schedules", 'n', "N", 0, "How many, of all scenarios together (1000)", 0 },
	{ "seed", 's', "N", 0, "Seed (1)", 0 },
	{ "first", OPT_FIRST, "N", 0, "Number of the first schedule of each scenario (0)", 0 },
	{ "strategy", 'w', "WAY", 0, "mixed (default), random, priority or exhaustive", 0 },
	{ "bound", OPT_BOUND, "N", 0, "Preemptions of an exhaustive search (2)", 0 },
	{ "replay", OPT_REPLAY, "FILE|SEED:SCHEDULE", 0, "One schedule again", 0 },
	{ "save", OPT_SAVE, "FILE", 0, "Write a trace of what is found, for --replay", 0 },
	{ "trace", 't', "N", 0, "Print so many of the last points (60)", 0 },
	{ "plant", OPT_PLANT, "NAME", 0, "Switch a planted bug on", 0 },
	{ "probes", OPT_PROBES, NULL, 0, "Print what was reached how often", 0 },
	{ "list", OPT_LIST, NULL, 0, "List scenarios and planted bugs", 0 },
	{ 0 },
};

static uint64_t number(struct argp_state *state, const char *what, const char *text)
{
	uint64_t value;

	if (numbers_parse(text, 1000, &value))
		argp_error(state, "%s: '%s' is not a whole number", what, text);
	return value;
}

static void parse_way(struct argp_state *state, const char *text)
{
	static const char *const ways[] = { "mixed", "random", "priority", "exhaustive" };

	for (unsigned i = 0; i < array_size(ways); i++)
		if (!strcmp(text, ways[i])) {
			o.way = (enum ex_way)i;
			return;
		}
	argp_error(state, "there is no strategy '%s'", text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'x':
		if (!find_scenario(arg))
			argp_error(state, "there is no scenario '%s'; --list lists them", arg);
		o.scenarios = tool_grow(o.scenarios, o.nscenarios + 1, sizeof(*o.scenarios));
		o.scenarios[o.nscenarios++] = arg;
		break;
	case 'n':
		o.schedules = number(state, "--schedules", arg);
		o.have_schedules = true;
		break;
	case 's':
		o.seed = number(state, "--seed", arg);
		break;
	case OPT_FIRST:
		o.first = number(state, "--first", arg);
		break;
	case 'w':
		parse_way(state, arg);
		break;
	case OPT_BOUND:
		o.bound = (unsigned)number(state, "--bound", arg);
		break;
	case OPT_REPLAY:
		o.replay = arg;
		break;
	case OPT_SAVE:
		o.save = arg;
		break;
	case 't':
		o.trace = (unsigned)number(state, "--trace", arg);
		break;
	case OPT_PLANT:
		o.plant = arg;
		break;
	case OPT_PROBES:
		o.probes = true;
		break;
	case OPT_LIST:
		o.list = true;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "what is '%s'?", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = argp_options,
	.parser = parse,
	.doc = "Run the core in many interleavings and check all that a user can expect of it.\v"
	       "Exit status: 0 nothing was found, 1 something was, or a probe was never reached, "
	       "2 wrong usage, 130 interrupted.",
};

static void start_planted(char **argv)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *slash;

	path[max(n, (ssize_t)0)] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		strcpy(slash + 1, "uslub-sim-planted");
		execv(path, argv);
	}
	bad_usage("cannot start %s: %s", path, strerror(errno));
}

static void plant(char **argv)
{
	if (!o.plant)
		return;
	for (unsigned i = 0; i < ex_nplants; i++)
		if (!strcmp(ex_plants[i].name, o.plant)) {
			if (!ex_can_plant)
				start_planted(argv);
			ex_planted[i] = true;
			if (!o.nscenarios && ex_plants[i].scenario) {
				o.scenarios = tool_alloc(1, sizeof(*o.scenarios));
				o.scenarios[o.nscenarios++] = ex_plants[i].scenario;
			}
			return;
		}
	bad_usage("there is no planted bug '%s'; --list lists them", o.plant);
}

static void check_build(const struct recorded *r)
{
	if (r->have_build && strncmp(r->build, ex_build_id(), strlen(r->build)))
		bad_usage("that trace is of build %s, and this is build %.*s: it would not be the "
			  "same schedule here",
			  r->build, (int)max(strlen(r->build), (size_t)12), ex_build_id());
}

int main(int argc, char **argv)
{
	static char name[] = "uslub sim explore";
	struct recorded recorded;
	uint64_t done, began;
	int status;

	tool_name = "uslub sim explore";
	argv[0] = name;
	argp_err_exit_status = TOOL_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (o.list) {
		list_all();
		return 0;
	}
	if (o.replay)
		prepare_replay(&recorded);
	plant(argv);
	ex_trace_start();
	ex_probes_start();
	sim_failed = core_gave_up;
	ex_shared = mmap(NULL, sizeof(*ex_shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ex_shared == MAP_FAILED)
		bad_usage("no memory");
	if (o.replay) {
		if (o.nscenarios != 1)
			bad_usage("--replay SEED:SCHEDULE needs one --scenario");
		check_build(&recorded);
		if (!find_scenario(o.scenarios[0]))
			bad_usage("there is no scenario '%s'", o.scenarios[0]);
		return apart(find_scenario(o.scenarios[0]), replay_of, &recorded);
	}
	began = tool_now_ns();
	catch_interrupts();
	status = explore(&done);
	if (interrupted && (!status || status == TOOL_EXIT_INTERRUPTED)) {
		printf("interrupted after %" PRIu64 " schedules, %" PRIu64
		       " points: nothing found\n",
		       ex_shared->all_schedules, ex_shared->all_points);
		return TOOL_EXIT_INTERRUPTED;
	}
	if (status)
		return status;
	if (o.way == EX_EXHAUSTIVE)
		return 0;
	printf("%" PRIu64 " schedules, %" PRIu64 " points, %" PRIu64 " switches: nothing found\n",
	       done, ex_shared->all_points, ex_shared->all_switches);
	fprintf(stderr, "%.0f schedules per second\n",
		(double)done * 1e9 / (double)(tool_now_ns() - began + 1));
	if (o.probes || (done >= ENOUGH && !o.nscenarios))
		if (ex_probes_print(o.probes) && done >= ENOUGH && !o.nscenarios)
			return TOOL_EXIT_NO;
	return 0;
}
