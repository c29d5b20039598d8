/* SPDX-License-Identifier: MIT */
/*
 * The system calls of mailbox.h.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "mailbox.h"

/* Should a wake-up be missed after all, a run gets slower but does not hang. */
#define SLEEP_NS 100000000L

void wl_gate_sleep(struct wl_gate *gate, uint32_t sequence)
{
	struct timespec most = { .tv_nsec = SLEEP_NS };

	syscall(SYS_futex, &gate->sequence, FUTEX_WAIT_PRIVATE, sequence, &most, NULL, 0);
}

void wl_gate_wake(struct wl_gate *gate)
{
	__atomic_fetch_add(&gate->sequence, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &gate->sequence, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool wl_socket_send(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

bool wl_socket_receive(int fd, void *bytes, size_t size)
{
	return recv(fd, bytes, size, MSG_DONTWAIT) == (ssize_t)size;
}
