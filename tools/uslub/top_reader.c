/* SPDX-License-Identifier: MIT */
/*
 * Readings in a thread, and the one place where `uslub top` waits.
 *
 * What the reader has done is told by an event counter and signals come by a descriptor, so that one poll()
 * waits for everything, and none can come between a look and the wait. The thread is not waited for at
 * the end: it may be in the middle of a reading that takes long.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "tool.h"
#include "top.h"

/*
 * @asked: a reading is wanted or under way
 * @reading: what came of the last one, when @asked is over
 *
 * @lock protects both, and what @source points to.
 */
struct top_reader {
	const struct source *source;
	pthread_mutex_t lock;
	pthread_cond_t ask;
	bool asked;
	struct top_reading reading;
	int done;
	int signals;
};

static struct top_reading read_once(const struct source *source)
{
	struct top_reading reading = { .at = (double)tool_now_ns() / 1e9 };

	tool_divert(&reading.message);
	reading.snapshot = source_read(source);
	tool_divert(NULL);
	if (reading.snapshot) {
		free(reading.message);
		reading.message = NULL;
	} else if (!reading.message) {
		reading.message = tool_copy("nothing could be read");
	}
	return reading;
}

static void *reader_main(void *arg)
{
	struct top_reader *r = arg;
	struct top_reading reading;

	for (;;) {
		pthread_mutex_lock(&r->lock);
		while (!r->asked)
			pthread_cond_wait(&r->ask, &r->lock);
		pthread_mutex_unlock(&r->lock);

		reading = read_once(r->source);

		pthread_mutex_lock(&r->lock);
		r->reading = reading;
		r->asked = false;
		pthread_mutex_unlock(&r->lock);
		eventfd_write(r->done, 1);
	}
	return NULL;
}

/* nohup(1) asks for that. */
static bool is_ignored_hangup(int number)
{
	struct sigaction action;

	return number == SIGHUP && !sigaction(number, NULL, &action) &&
	       action.sa_handler == SIG_IGN;
}

struct top_reader *top_reader_start(const struct source *source)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
	struct top_reader *r = tool_alloc(1, sizeof(*r));
	sigset_t reported, all, before;
	pthread_t thread;

	sigemptyset(&reported);
	for (unsigned i = 0; i < TOOL_COUNT(signals); i++) {
		if (!is_ignored_hangup(signals[i]))
			sigaddset(&reported, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &reported, NULL);
	r->source = source;
	r->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->signals = signalfd(-1, &reported, SFD_CLOEXEC | SFD_NONBLOCK);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->ask, NULL);

	/* All others are this thread's, among them the one that ncurses suspends the program by. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r->done < 0 || r->signals < 0 || pthread_create(&thread, NULL, reader_main, r)) {
		tool_error("cannot start a thread: %s", strerror(errno));
		exit(TOOL_EXIT_USAGE);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_detach(thread);
	return r;
}

void top_reader_ask(struct top_reader *r)
{
	pthread_mutex_lock(&r->lock);
	r->asked = true;
	pthread_cond_signal(&r->ask);
	pthread_mutex_unlock(&r->lock);
}

struct top_reading top_reader_take(struct top_reader *r)
{
	struct top_reading reading;
	eventfd_t ignored;

	eventfd_read(r->done, &ignored);
	pthread_mutex_lock(&r->lock);
	reading = r->reading;
	memset(&r->reading, 0, sizeof(r->reading));
	pthread_mutex_unlock(&r->lock);
	return reading;
}

struct top_events top_wait(struct top_reader *r, int keys, uint64_t until_ns)
{
	struct pollfd polled[] = {
		{ .fd = r->done, .events = POLLIN },
		{ .fd = r->signals, .events = POLLIN },
		{ .fd = keys, .events = POLLIN },
	};
	struct top_events events = { 0 };
	struct signalfd_siginfo info;
	uint64_t now = tool_now_ns(), left = until_ns > now ? until_ns - now : 0;
	struct timespec limit = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };

	if (ppoll(polled, TOOL_COUNT(polled), until_ns == UINT64_MAX ? NULL : &limit, NULL) <= 0)
		return events;
	events.reading = polled[0].revents;
	events.key = polled[2].revents & POLLIN;
	events.gone = polled[2].revents & ~POLLIN;
	if (polled[1].revents && read(r->signals, &info, sizeof(info)) == sizeof(info))
		events.signal = (int)info.ssi_signo;
	return events;
}
