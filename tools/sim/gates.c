/* SPDX-License-Identifier: MIT */
/* Where threads of the simulated machine wait for messages; see workloads/mailbox.h. */
#include "../../workloads/mailbox.h"
#include "platform/platform.h"

#define SLEEP_NS 1000000 /* at the end of a run nobody wakes anybody */

void wl_gate_sleep(struct wl_gate *gate, uint32_t sequence)
{
	plat_wait(&gate->sequence, sequence, SLEEP_NS);
}

void wl_gate_wake(struct wl_gate *gate)
{
	gate->sequence++;
	plat_wake(&gate->sequence);
}

/* There are no sockets here. */
bool wl_socket_send(int fd, const void *bytes, size_t size)
{
	(void)fd;
	(void)bytes;
	(void)size;
	return false;
}

bool wl_socket_receive(int fd, void *bytes, size_t size)
{
	(void)fd;
	(void)bytes;
	(void)size;
	return false;
}
