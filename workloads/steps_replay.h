/* SPDX-License-Identifier: MIT */
/*
 * The step functions of the workload "trace", see replay.h.
 *
 * A program writes to what it allocates. Here that is the first and the last byte of an object, and one of each
 * page between. What is written there says whose the memory is, so that an allocator is found out which gives a
 * piece to two, or loses what realloc() has to keep.
 */
#ifndef WORKLOADS_STEPS_REPLAY_H
#define WORKLOADS_STEPS_REPLAY_H

#include "replay.h"
#include "steps.h"

#define WL_REPLAY_PAGE 4096u

/* Programs that reserve far more than they use do not use it. */
#define WL_REPLAY_TOUCHED ((uint64_t)64 << 20)

WL_STEP unsigned trace_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void trace_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/* Never 0, which is what calloc() gives. */
WL_STEP unsigned char trace_tag(const struct wl_replay_event *event)
{
	return (unsigned char)(event->object % 255 + 1);
}

/* From @from on; what is before has been written. */
WL_STEP void trace_touch(void *memory, uint64_t from, uint64_t size, unsigned char tag)
{
	volatile unsigned char *bytes = memory;
	uint64_t most = size < WL_REPLAY_TOUCHED ? size : WL_REPLAY_TOUCHED;

	for (uint64_t at = from; at < most; at += WL_REPLAY_PAGE)
		bytes[at] = tag;
	if (size)
		bytes[size - 1] = tag;
}

WL_STEP bool trace_holds(const void *memory, uint64_t size, unsigned char value)
{
	const volatile unsigned char *bytes = memory;

	return !size || (bytes[0] == value && bytes[size - 1] == value);
}

WL_STEP void trace_expect(struct wl_thread *t, bool good)
{
	t->corrupt += !good;
}

WL_STEP void *trace_alloc(const struct alloc_ops *ops, struct heap heap,
			  const struct wl_replay_event *event)
{
	switch ((enum wl_replay_op)event->op) {
	case WL_REPLAY_CALLOC:
		return ops->calloc(heap, 1, event->size);
	case WL_REPLAY_ALIGNED:
		return ops->aligned(heap, (size_t)1 << event->align_shift, event->size);
	default:
		return ops->malloc(heap, event->size);
	}
}

WL_STEP bool trace_make(const struct alloc_ops *ops, struct wl_thread *t,
			const struct wl_replay_event *event, struct wl_replay_object *object)
{
	void *memory = trace_alloc(ops, t->heaps[0], event);

	object->memory = memory;
	object->size = event->size;
	if (WL_UNLIKELY(!memory))
		return !event->size;
	if (!t->params->replay->touch)
		return true;
	if (event->op == WL_REPLAY_CALLOC)
		trace_expect(t, trace_holds(memory, event->size, 0));
	trace_expect(t, !((uintptr_t)memory & (((uintptr_t)1 << event->align_shift) - 1)));
	trace_touch(memory, 0, event->size, trace_tag(event));
	return true;
}

/* The first byte, and what is written of the new ones; the last byte may be another one now. */
WL_STEP void trace_moved(struct wl_thread *t, const struct wl_replay_event *event,
			 const struct wl_replay_object *object, void *memory)
{
	const unsigned char tag = trace_tag(event);
	uint64_t kept = object->size < event->size ? object->size : event->size;
	uint64_t pages = (object->size + WL_REPLAY_PAGE - 1) / WL_REPLAY_PAGE * WL_REPLAY_PAGE;

	trace_expect(t, trace_holds(memory, kept ? 1 : 0, tag));
	trace_touch(memory, pages, event->size, tag);
}

WL_STEP bool trace_resize(const struct alloc_ops *ops, struct wl_thread *t,
			  const struct wl_replay_event *event, struct wl_replay_object *object)
{
	const bool touch = t->params->replay->touch;
	void *memory;

	if (touch && object->memory)
		trace_expect(t, trace_holds(object->memory, object->size, trace_tag(event)));
	memory = ops->realloc(t->heaps[0], object->memory, event->size);
	if (WL_UNLIKELY(!memory && event->size))
		return false;
	if (touch && memory)
		trace_moved(t, event, object, memory);
	object->memory = memory;
	object->size = event->size;
	return true;
}

WL_STEP bool trace_drop(const struct alloc_ops *ops, struct wl_thread *t,
			const struct wl_replay_event *event, struct wl_replay_object *object)
{
	if (t->params->replay->touch && object->memory)
		trace_expect(t, trace_holds(object->memory, object->size, trace_tag(event)));
	ops->free(t->heaps[0], object->memory);
	object->memory = NULL;
	return true;
}

WL_STEP bool trace_do(const struct alloc_ops *ops, struct wl_thread *t,
		      const struct wl_replay_event *event, struct wl_replay_object *object)
{
	if (event->op == WL_REPLAY_FREE)
		return trace_drop(ops, t, event, object);
	if (event->op == WL_REPLAY_REALLOC)
		return trace_resize(ops, t, event, object);
	return trace_make(ops, t, event, object);
}

/* Of a thread @got counts the events of its pass, @put the passes before. */
WL_STEP uint64_t trace_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const struct wl_replay *replay = t->params->replay;
	const struct wl_replay_part *part = &replay->parts[t->index];

	for (uint64_t i = 0; i < n; i++) {
		const struct wl_replay_event *event = &part->events[t->got];
		struct wl_replay_object *object = &replay->objects[event->object];
		uint32_t turn = (uint32_t)t->put * object->turns + event->turn;

		if (__atomic_load_n(&object->turn, __ATOMIC_ACQUIRE) != turn)
			return i;
		if (WL_UNLIKELY(!trace_do(ops, t, event, object)))
			return wl_fail(t, i);
		__atomic_store_n(&object->turn, turn + 1, __ATOMIC_RELEASE);
		if (++t->got == part->count) {
			t->got = 0;
			t->put++;
		}
	}
	return n;
}

/* The measurement ends anywhere in a pass. */
WL_STEP void trace_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	const struct wl_replay *replay = t->params->replay;
	const struct wl_replay_part *part = &replay->parts[t->index];

	for (uint64_t i = part->first; i < part->end; i++)
		ops->free(t->heaps[0], replay->objects[i].memory);
}

#endif /* WORKLOADS_STEPS_REPLAY_H */
