/* SPDX-License-Identifier: MIT */
/*
 * Groups of threads that send each other messages: their mailboxes or sockets.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "bench.h"
#include "tool.h"

/* What else the process has open, and a little more. */
#define OTHER_FILES 32u

struct bench_groups {
	unsigned boxes_count;
	struct wl_group *groups;
	struct wl_mailbox *boxes;
};

/* Two ends for every receiver. The soft limit is what programs are used to, not what there is. */
static int allow_sockets(unsigned boxes)
{
	unsigned long long needed = 2ull * boxes + OTHER_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	if (limit.rlim_cur < needed && limit.rlim_max > limit.rlim_cur) {
		limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur >= needed)
		return 0;
	tool_error(
		"%u socket pairs need %llu file descriptors, but RLIMIT_NOFILE is %llu and its "
		"hard limit %llu; raise it with 'ulimit -n %llu', or use fewer --groups or --fds",
		boxes, needed, (unsigned long long)limit.rlim_cur,
		(unsigned long long)limit.rlim_max, needed);
	return -1;
}

static int open_sockets(struct bench_groups *g)
{
	if (allow_sockets(g->boxes_count))
		return -1;
	for (unsigned i = 0; i < g->boxes_count; i++) {
		if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, g->boxes[i].sockets))
			continue;
		tool_error("cannot make socket pair %u of %u: %s", i + 1, g->boxes_count,
			   strerror(errno));
		return -1;
	}
	return 0;
}

struct bench_groups *bench_groups_open(const struct bench_options *o, struct wl_thread **working)
{
	unsigned boxes = o->groups * o->fds;
	struct bench_groups *g = wl_map(sizeof(*g));

	if (g)
		g->groups = wl_map(o->groups * sizeof(*g->groups));
	if (g)
		g->boxes = wl_map(boxes * sizeof(*g->boxes));
	if (!g || !g->groups || !g->boxes) {
		tool_error("no memory for %u mailboxes", boxes);
		return NULL;
	}
	g->boxes_count = boxes;
	for (unsigned i = 0; i < boxes; i++)
		wl_mailbox_init(&g->boxes[i]);
	if (o->transport == WL_SOCKET && open_sockets(g))
		return NULL;
	for (unsigned i = 0; i < o->groups; i++) {
		g->groups[i].boxes = &g->boxes[i * o->fds];
		g->groups[i].members = &working[(size_t)2 * i * o->fds];
		for (unsigned k = 0; k < 2 * o->fds; k++)
			g->groups[i].members[k]->group = &g->groups[i];
	}
	return g;
}

void bench_groups_wake(struct bench_groups *g)
{
	for (unsigned i = 0; i < g->boxes_count; i++) {
		wl_gate_wake(&g->boxes[i].filled);
		wl_gate_wake(&g->boxes[i].drained);
	}
}
