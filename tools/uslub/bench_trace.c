/* SPDX-License-Identifier: MIT */
/*
 * From a trace to what the workload "trace" replays (workloads/replay.h).
 *
 * 1. The recorded threads are dealt out to those that replay; the events of each stay in order.
 * 2. What the program never freed is freed at the end of the pass, by who had it last.
 * 3. Objects are numbered anew, so that those of a thread lie together: threads that have nothing to do with
 *    each other do not share cache lines here that they did not share in the program.
 *
 * All of it is in memory that does not come from malloc, which is measured.
 */
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "tool.h"
#include "trace.h"
#include "../../workloads/replay.h"

#define NOBODY UINT32_MAX

/*
 * struct made - what is known of an object while a replay is made
 * @owner: the thread that has it first
 * @last: the one that has had it last
 * @turns: its events
 * @place: its new number
 * @alive: it has to be freed
 */
struct made {
	uint32_t owner;
	uint32_t last;
	uint32_t turns;
	uint32_t place;
	bool alive;
};

struct maker {
	struct trace trace;
	struct wl_replay *replay;
	struct made *objects;
	unsigned threads;
};

static const enum wl_replay_op replay_ops[TRACE_OPS] = {
	[TRACE_MALLOC] = WL_REPLAY_MALLOC,   [TRACE_CALLOC] = WL_REPLAY_CALLOC,
	[TRACE_ALIGNED] = WL_REPLAY_ALIGNED, [TRACE_REALLOC] = WL_REPLAY_REALLOC,
	[TRACE_FREE] = WL_REPLAY_FREE,
};

/* No memory is no memory: 0 bytes are not asked for. */
static void *get(size_t n, size_t size)
{
	return wl_map(n ? n * size : size);
}

static struct wl_replay_part *part_of(const struct maker *m, const struct trace_event *event)
{
	return &m->replay->parts[event->thread % m->threads];
}

/* What is done with an object, in the first round only counted. */
typedef void on_event(struct maker *m, const struct trace_event *event);

static void count_event(struct maker *m, const struct trace_event *event)
{
	struct made *object = &m->objects[event->object];

	part_of(m, event)->count++;
	if (object->owner == NOBODY)
		object->owner = event->thread % m->threads;
	object->turns++;
}

static void add_event(struct maker *m, const struct trace_event *event)
{
	struct wl_replay_part *part = part_of(m, event);
	struct made *object = &m->objects[event->object];

	part->events[part->count++] = (struct wl_replay_event){
		.size = event->size,
		.op = replay_ops[event->op],
		.align_shift = event->align_shift,
		.object = object->place,
		.turn = object->turns++,
	};
}

/* All events of a pass; those of the trace have been found good before. */
static int each_event(struct maker *m, on_event *on)
{
	struct trace_event event;
	int more;

	trace_rewind(&m->trace);
	while ((more = trace_next(&m->trace, &event)) > 0) {
		struct made *object = &m->objects[event.object];

		on(m, &event);
		object->last = event.thread;
		object->alive = event.op != TRACE_FREE;
	}
	for (uint32_t i = 0; i < m->trace.header.objects && !more; i++) {
		struct made *object = &m->objects[i];

		if (!object->alive)
			continue;
		event = (struct trace_event){
			.op = TRACE_FREE,
			.thread = object->last,
			.object = i,
		};
		on(m, &event);
	}
	return more;
}

/* Each part's objects in a row, and room for its events. */
static int make_room(struct maker *m)
{
	struct wl_replay *r = m->replay;
	uint64_t objects = m->trace.header.objects;
	uint64_t *next = get(m->threads, sizeof(*next));
	uint64_t first = 0;

	r->objects = get(objects, sizeof(*r->objects));
	if (!next || !r->objects)
		return -1;
	for (uint64_t i = 0; i < objects; i++) {
		if (m->objects[i].owner != NOBODY)
			r->parts[m->objects[i].owner].end++;
	}
	for (unsigned i = 0; i < m->threads; i++) {
		struct wl_replay_part *part = &r->parts[i];

		part->first = next[i] = first;
		part->end += first;
		first = part->end;
		r->events += part->count;
		part->events = get(part->count, sizeof(*part->events));
		if (!part->events)
			return -1;
		part->count = 0;
	}
	for (uint64_t i = 0; i < objects; i++) {
		struct made *object = &m->objects[i];

		if (object->owner == NOBODY)
			continue;
		object->place = (uint32_t)next[object->owner]++;
		r->objects[object->place].turns = object->turns;
		object->turns = 0;
	}
	wl_unmap(next, m->threads * sizeof(*next));
	return 0;
}

static int make(struct maker *m)
{
	struct wl_replay *r = m->replay;

	r->parts = get(m->threads, sizeof(*r->parts));
	m->objects = get(m->trace.header.objects, sizeof(*m->objects));
	if (!r->parts || !m->objects)
		return -1;
	r->threads = m->threads;
	for (uint64_t i = 0; i < m->trace.header.objects; i++)
		m->objects[i].owner = NOBODY;
	return each_event(m, count_event) || make_room(m) || each_event(m, add_event);
}

struct wl_replay *bench_trace_replay(const char *path, unsigned threads, bool touch)
{
	struct maker m = { .threads = threads };
	int error;

	if (trace_open(&m.trace, path))
		return NULL;
	m.replay = get(1, sizeof(*m.replay));
	error = !m.replay || make(&m);
	if (error)
		tool_error("there is no memory for the %s", path);
	else
		m.replay->touch = touch;
	if (m.objects)
		wl_unmap(m.objects, m.trace.header.objects * sizeof(*m.objects));
	trace_close(&m.trace);
	/* What there is of it goes with the process. */
	return error ? NULL : m.replay;
}

int bench_trace_look(const char *path, struct trace_header *header)
{
	struct trace_event event;
	struct trace trace;
	int more;

	if (trace_open(&trace, path))
		return -1;
	*header = trace.header;
	do
		more = trace_next(&trace, &event);
	while (more > 0);
	trace_close(&trace);
	if (!more && !header->events) {
		tool_error("%s: there are no events to replay", path);
		more = -1;
	}
	return more;
}
