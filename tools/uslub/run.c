/* SPDX-License-Identifier: MIT */
/*
 * `uslub run`: start a program with the library's malloc, whose statistics can be seen, with policies, and say at its
 * end what its caches were.
 *
 * The malloc is preloaded. The dynamic loader says nothing of a library that it leaves out, or goes on without it, so
 * the program is looked at before (program.c).
 *
 * The program's shared memory is made here and handed to it, so that it is still there when the program has
 * ended, however it did. One that does not end by exit() leaves copies there that are not its last values. So it
 * is read once a second, too, when there is to be a report.
 */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "child.h"
#include "command.h"
#include "info.h"
#include "policy.h"
#include "program.h"
#include "snapshot_process.h"
#include "tool.h"

#define MALLOC_LIBRARY "libuslub-malloc.so"

#define LOOK_S 1

/*
 * struct arguments - the command line
 * @policy: for USLUB_POLICY, or NULL
 * @output: a file for the last snapshot, or NULL
 * @command: ends with NULL
 */
struct arguments {
	bool stats, no_malloc;
	char *policy;
	const char *output;
	char **command;
};

enum {
	KEY_NO_MALLOC = 0x100,
	KEY_STATS,
	KEY_POLICY,
};

static const struct argp_option options[] = {
	{ "stats", KEY_STATS, NULL, 0, "Print a page of statistics at the end, to standard error",
	  0 },
	{ "output", 'o', "FILE", 0, "Write a snapshot of the end to FILE", 0 },
	{ "policy", KEY_POLICY, "P=V,...", 0,
	  "Policies of all caches; as `GLOB:P=V,...' of those whose names match. May be repeated",
	  0 },
	{ "no-malloc", KEY_NO_MALLOC, NULL, 0,
	  "Leave the program its malloc; for one that uses the library itself", 0 },
	{ NULL, 'h', NULL, 0, "Same as --help", -1 },
	{ 0 },
};

/* The library would only warn about a wrong one, in the midst of what the program prints. */
static void check_policy(struct argp_state *state, const char *text)
{
	const char *values = strchr(text, ':');
	struct uslub_policy policy = { 0 };
	char *wrong;

	if (strchr(text, ';'))
		argp_error(state,
			   "--policy takes one group of policies; give it again for another");
	wrong = policy_parse(values ? values + 1 : text, &policy);
	if (wrong)
		argp_error(state, "--policy: %s", wrong);
	free(wrong);
}

static void add_policy(struct argp_state *state, struct arguments *a, const char *text)
{
	char *before = a->policy;

	check_policy(state, text);
	a->policy = before ? tool_format("%s;%s", before, text) : tool_copy(text);
	free(before);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case KEY_NO_MALLOC:
		a->no_malloc = true;
		break;
	case KEY_STATS:
		a->stats = true;
		break;
	case KEY_POLICY:
		add_policy(state, a, arg);
		break;
	case 'o':
		a->output = arg;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		/* The rest is the program's. */
		a->command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which program?");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[--] PROGRAM [ARG...]",
	.doc = "Run a program with the malloc of uslub in place of its own, so that `uslub info', "
	       "`uslub "
	       "top' and the other commands can see its caches while it runs.\v"
	       "Examples:\n"
	       "  uslub run --stats -- ./server --port 8080\n"
	       "  uslub run --no-malloc --policy parking=on --policy 'session:barn-full=40' -- "
	       "./server\n\n"
	       "Exit status: that of the program; 125 if `uslub run' itself fails, 126 if the "
	       "program cannot be executed, 127 if it is not found, 128+N if signal N ends it.",
};

/* ---- looking at it while it runs ------------------------------------------------------------------ */

/*
 * struct looker - who reads the program while it runs
 * @fd: of its shared memory
 * @latest: the last reading, or NULL
 */
struct looker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool running, stop;
	int fd;
	struct snapshot *latest;
};

/* The process that has claimed the memory, by its own number; 0: none yet. */
static int claimed_by(int fd)
{
	struct export_header header = { 0 };

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return 0;
	return header.state == EXPORT_LIVE ? (int)header.pid : 0;
}

/* A reading of values that are not copies, or NULL; why not is nobody's concern. */
static struct snapshot *look(int fd)
{
	int pid = claimed_by(fd);
	struct snapshot *s = NULL;
	char *message;

	if (!pid)
		return NULL;
	tool_divert(&message);
	s = snapshot_process(pid);
	tool_divert(NULL);
	free(message);
	if (s && s->count && !s->caches[0].copied)
		return s;
	snapshot_free(s);
	return NULL;
}

static bool wait_to_look(struct looker *l)
{
	struct timespec until;
	bool stop;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LOOK_S;
	pthread_mutex_lock(&l->lock);
	while (!l->stop && !pthread_cond_timedwait(&l->ended, &l->lock, &until))
		;
	stop = l->stop;
	pthread_mutex_unlock(&l->lock);
	return !stop;
}

static void *keep_looking(void *arg)
{
	struct looker *l = arg;

	while (wait_to_look(l)) {
		struct snapshot *s = look(l->fd);

		if (!s)
			continue;
		snapshot_free(l->latest);
		l->latest = s;
	}
	return NULL;
}

static void look_begin(struct looker *l, int fd)
{
	sigset_t all, before;

	*l = (struct looker){ .lock = PTHREAD_MUTEX_INITIALIZER,
			      .ended = PTHREAD_COND_INITIALIZER,
			      .fd = fd };
	/* Signals are for the thread that hands them on. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	l->running = !pthread_create(&l->thread, NULL, keep_looking, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void look_end(struct looker *l)
{
	if (!l->running)
		return;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->ended);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	l->running = false;
}

/* ---- the end -------------------------------------------------------------------------------------- */

/* The last that is known of a program that did not end by exit(). */
static struct snapshot *last_known(struct looker *l, struct export_reader *r)
{
	struct snapshot *s = l->latest;

	if (!s) {
		s = snapshot_export(r);
		snapshot_note(s, "the program did not end by exit(): the figures are copies that "
				 "it made a while before");
		return s;
	}
	l->latest = NULL;
	snapshot_note(s, "the program did not end by exit(): the figures are of %.1f s before",
		      tool_time() - s->time);
	return s;
}

static int report(const struct arguments *a, struct export_reader *r, struct looker *l)
{
	struct snapshot *s = r->header.state == EXPORT_ENDED ? snapshot_export(r)
							     : last_known(l, r);
	int error = 0;

	if (a->output)
		error = snapshot_write(s, a->output);
	if (a->stats && !error)
		error = info_page(s, tool_format("%s, at its end", a->command[0]), stderr);
	snapshot_free(s);
	return error;
}

/* The path of the library, for the caller to free; or NULL after a message. */
static char *malloc_library(void)
{
	char *message, *library;

	tool_divert(&message);
	library = tool_installed("../src", USLUB_LIB_DIR, MALLOC_LIBRARY, R_OK);
	tool_divert(NULL);
	if (!library)
		tool_error("%s; --no-malloc runs the program without", message);
	free(message);
	/* the loader would take it for several names */
	if (library && strpbrk(library, ": ")) {
		tool_error("the loader preloads nothing with a blank or a colon in its path: %s",
			   library);
		free(library);
		library = NULL;
	}
	return library;
}

/* Returns -1 after a message. */
static int preload(const char *file)
{
	char *library = program_takes_malloc(file) ? malloc_library() : NULL, *value;

	if (!library)
		return -1;
	value = child_preload(library);
	setenv("LD_PRELOAD", value, 1);
	free(value);
	free(library);
	return 0;
}

/* Of a program that is not found nothing is said here: who executes it does. */
static int preload_into(const char *program)
{
	char *file = program_find(program);
	int error = file ? preload(file) : 0;

	free(file);
	return error;
}

/* 0, or an exit status after a message. */
static int prepare(const struct arguments *a, int *fd)
{
	char *value;

	*fd = export_create();
	if (*fd < 0) {
		tool_error("cannot make memory for statistics: %s", strerror(errno));
		return CHILD_TOOL_FAILED;
	}
	value = tool_format("fd:%d", *fd);
	setenv("USLUB_EXPORT", value, 1);
	if (a->policy)
		setenv("USLUB_POLICY", a->policy, 1);
	free(value);
	if (!a->no_malloc && preload_into(a->command[0]))
		return CHILD_TOOL_FAILED;
	return 0;
}

int command_run(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct looker looker = { 0 };
	struct export_reader reader;
	struct child child;
	bool wanted;
	int fd, status;

	argp_err_exit_status = CHILD_TOOL_FAILED;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &arguments);
	wanted = arguments.stats || arguments.output;
	status = prepare(&arguments, &fd);
	if (status)
		return status;
	if (wanted)
		look_begin(&looker, fd);
	child = child_run(arguments.command);
	status = child.status;
	look_end(&looker);
	if (!export_open_fd(&reader, fd)) {
		if (child.started && wanted)
			tool_error("%s did not use uslub, or ignored the environment: there are no "
				   "statistics",
				   arguments.command[0]);
	} else if (wanted && report(&arguments, &reader, &looker) && !status) {
		status = CHILD_TOOL_FAILED;
	}
	export_close(&reader);
	snapshot_free(looker.latest);
	free(arguments.policy);
	return status;
}
