/* SPDX-License-Identifier: MIT */
/*
 * A recorded program, as the workload "trace" runs it again; tools/uslub/bench_trace.c makes it of a trace.
 *
 * 1. Each thread has a list of events, in the order in which they were recorded. The lists together are a
 *    pass. After the last event of a pass all objects are free, and a thread begins again, also when others
 *    have not come to their end yet.
 * 2. The events of an object take turns: each has a number, and is only done when the object has come to it.
 *    A thread that finds that it has not returns, and is run again later.
 * 3. There is no deadlock. All events of all passes are in one order: passes one after the other, and in each the
 *    recorded order. Both the events of a thread and those of an object are in that order. So the first of all
 *    events that are not done is the next one of its thread, and nothing that its object waits for is
 *    missing: it can be done.
 * 4. What a thread may write of an object belongs to whose turn it is. The turn is passed on with a release, and
 *    seen with an acquire.
 */
#ifndef WORKLOADS_REPLAY_H
#define WORKLOADS_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wl_replay_op {
	WL_REPLAY_MALLOC,
	WL_REPLAY_CALLOC,
	WL_REPLAY_ALIGNED,
	WL_REPLAY_REALLOC,
	WL_REPLAY_FREE,
};

/*
 * struct wl_replay_event - something that is done with an object
 * @size: bytes
 * @op: enum wl_replay_op
 * @align_shift: logarithm of the alignment, of WL_REPLAY_ALIGNED
 * @object: which
 * @turn: of the object, counted from 0 in each pass
 */
struct wl_replay_event {
	uint64_t size : 48;
	uint64_t op : 8;
	uint64_t align_shift : 8;
	uint32_t object;
	uint32_t turn;
};

/*
 * struct wl_replay_object - a number that objects have
 * @memory: what there is now, or NULL
 * @size: its bytes
 * @turn: events that have been done, of all passes; it may wrap
 * @turns: events of a pass
 */
struct wl_replay_object {
	void *memory;
	uint64_t size;
	uint32_t turn;
	uint32_t turns;
};

/*
 * struct wl_replay_part - of a thread
 * @first, @end: the objects that it frees when all is over
 */
struct wl_replay_part {
	struct wl_replay_event *events;
	uint64_t count;
	uint64_t first;
	uint64_t end;
};

/*
 * struct wl_replay - all that is replayed
 * @parts: one for each of @threads
 * @events: of a pass
 * @touch: objects are written to, and looked at again before they are freed
 */
struct wl_replay {
	struct wl_replay_part *parts;
	unsigned threads;
	struct wl_replay_object *objects;
	uint64_t events;
	bool touch;
};

#endif /* WORKLOADS_REPLAY_H */
