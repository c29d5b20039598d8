/* SPDX-License-Identifier: MIT */
/*
 * Clock, waiting, threads, RCU, fork, environment and messages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <urcu/flavor.h>
#include "base/print.h"
#include "platform/platform.h"
#include "machine.h"

size_t plat_page_size(void)
{
	return (size_t)1 << plat_page_shift();
}

unsigned plat_page_shift(void)
{
	static unsigned shift; /* every thread finds the same */

	if (unlikely(!plat_load(&shift)))
		plat_store(&shift, ilog2((size_t)sysconf(_SC_PAGESIZE)));
	return plat_load(&shift);
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t plat_now(void)
{
	return nanoseconds(CLOCK_MONOTONIC_COARSE);
}

uint64_t plat_clock(void)
{
	return nanoseconds(CLOCK_MONOTONIC);
}

void plat_relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

void plat_yield(void)
{
	sched_yield();
}

void plat_wait(uint32_t *word, uint32_t value, uint64_t timeout)
{
	PRESERVE_ERRNO;
	struct timespec t = { .tv_sec = timeout / 1000000000, .tv_nsec = timeout % 1000000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout ? &t : NULL, NULL, 0);
}

void plat_wake(uint32_t *word)
{
	PRESERVE_ERRNO;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int plat_thread_start(void *(*fn)(void *), void *arg)
{
	PRESERVE_ERRNO;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -error;
}

void plat_rcu_synchronize(const struct rcu_flavor_struct *flavor)
{
	PRESERVE_ERRNO;

	flavor->update_synchronize_rcu();
}

/* liburcu's call_rcu is not used: see rcu.c of the cache layer. */
bool plat_rcu_call(const struct rcu_flavor_struct *flavor, void (*fn)(void *), void *item)
{
	(void)flavor;
	(void)fn;
	(void)item;
	return false;
}

bool plat_rcu_poll(const struct rcu_flavor_struct *flavor)
{
	(void)flavor;
	return false;
}

void plat_rcu_barrier(const struct rcu_flavor_struct *flavor)
{
	(void)flavor;
}

bool plat_rcu_reader(const struct rcu_flavor_struct *flavor)
{
	return flavor->read_ongoing();
}

bool plat_rcu_wait_begin(const struct rcu_flavor_struct *flavor)
{
	/* Of QSBR "ongoing" means online; of the other flavors, a reader that waits for itself. */
	bool online = flavor->read_ongoing();

	if (online)
		flavor->thread_offline();
	return online;
}

void plat_rcu_wait_end(const struct rcu_flavor_struct *flavor, bool was_online)
{
	if (was_online)
		flavor->thread_online();
}

int plat_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return -pthread_atfork(prepare, parent, child);
}

/* The kernel's mask, which has 64 signals; sigset_t has room for 1024. */
static uint64_t signal_mask(uint64_t mask)
{
	uint64_t before = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, sizeof(mask));
	return before;
}

uint64_t plat_signals_block(void)
{
	return signal_mask(UINT64_MAX);
}

void plat_signals_restore(uint64_t before)
{
	signal_mask(before);
}

const char *plat_env(const char *name)
{
	return secure_getenv(name);
}

void plat_set_errno(int error)
{
	errno = error;
}

int plat_write(int fd, const char *text, size_t len)
{
	PRESERVE_ERRNO;
	ssize_t n;

	while (len) {
		/* Not write(), which is a cancellation point: callers hold locks. */
		n = syscall(SYS_write, fd, text, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

uint64_t plat_random(void)
{
	PRESERVE_ERRNO;
	uint64_t key;

	if (getrandom(&key, sizeof(key), GRND_NONBLOCK) != sizeof(key))
		key = plat_now() ^ (uintptr_t)&key * 0x9e3779b97f4a7c15u;
	return key;
}

unsigned plat_pid(void)
{
	return (unsigned)getpid();
}

static void message(const char *format, va_list ap)
{
	char buf[512];
	struct printer p = { .buf = buf, .size = sizeof(buf) - 1 };

	print_format(&p, "uslub: ");
	print_vformat(&p, format, ap);
	buf[p.len++] = '\n';
	plat_write(STDERR_FILENO, buf, p.len);
}

void plat_warn(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	message(format, ap);
	va_end(ap);
}

void plat_fatal(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	message(format, ap);
	va_end(ap);
	abort();
}
