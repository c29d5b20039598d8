/* SPDX-License-Identifier: MIT */
/*
 * The step functions of the workloads whose objects have sizes of all kinds; for the rest see steps.h.
 */
#ifndef WORKLOADS_STEPS_GENERAL_H
#define WORKLOADS_STEPS_GENERAL_H

#include "steps.h"

/* ---- Sizes ---- */

/* Any size with the same probability. */
WL_STEP size_t wl_size_even(const struct wl_params *params, uint64_t *random)
{
	return params->min_size +
	       wl_random_below(random, (uint32_t)(params->size - params->min_size + 1));
}

/*
 * Small above all: the least size doubled k times with a probability of (k + 1) / 2^(k + 2), and every second time
 * some bytes more than that. Of 16 bytes and more half are below 64, and one in a thousand has 128 KiB or more.
 */
WL_STEP size_t wl_size_skewed(const struct wl_params *params, uint64_t *random)
{
	const uint32_t limit = 1u << 31;
	uint64_t luck = wl_random(random);
	unsigned doublings = (unsigned)__builtin_ctz((uint32_t)luck | limit) +
			     (unsigned)__builtin_ctz((uint32_t)(luck >> 32) | limit);
	size_t size = params->min_size;

	while (doublings-- && size < params->size)
		size *= 2;
	if (luck >> 63)
		size += wl_random_below(random, (uint32_t)size);
	return size < params->size ? size : params->size;
}

/* ---- Contents ---- */

/* Whether all bytes are @value. */
WL_STEP bool wl_all(const unsigned char *bytes, size_t n, unsigned char value)
{
	return n == 0 || (bytes[0] == value && !memcmp(bytes, bytes + 1, n - 1));
}

/*
 * ---- larson: a server whose threads come and go ----
 *
 * After Larson and Krishnan: Memory Allocation for Long-Running Server Applications, 1998. Each thread
 * has an array of objects and replaces random ones. After some rounds it ends, and a new one goes on
 * with the array: it frees what a thread allocated that is no more.
 */
#define WL_LARSON_ROUNDS 10u /* times the array, for one thread */

WL_STEP unsigned larson_slots(const struct wl_params *params)
{
	return params->live;
}

WL_STEP bool larson_replace(const struct alloc_ops *ops, struct wl_thread *t, unsigned slot)
{
	void *object;

	ops->free(t->heaps[0], t->slots[slot]);
	object = ops->malloc(t->heaps[0], wl_size_even(t->params, &t->random));
	t->slots[slot] = object;
	if (WL_UNLIKELY(!object))
		return false;
	wl_touch(object);
	return true;
}

WL_STEP void larson_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live && !t->failed; i++)
		t->failed = !larson_replace(ops, t, i);
}

WL_STEP uint64_t larson_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const unsigned live = t->params->live;

	for (uint64_t i = 0; i < n; i++) {
		if (WL_UNLIKELY(!larson_replace(ops, t, wl_random_below(&t->random, live))))
			return wl_fail(t, i);
		if (WL_UNLIKELY(++t->put % ((uint64_t)WL_LARSON_ROUNDS * live) == 0)) {
			t->retire = true;
			return i + 1;
		}
	}
	return n;
}

WL_STEP void larson_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live; i++)
		ops->free(t->heaps[0], t->slots[i]);
}

/* ---- Objects that know what is in them ---- */

/*
 * Stands at the front of an object whose other bytes all follow from it, so that one that two have, or that lost
 * something, is found by whoever frees it.
 */
struct wl_label {
	uint32_t size;
	uint32_t cookie;
};

WL_STEP uint32_t wl_label_cookie(const void *object, size_t size)
{
	return (uint32_t)(((uintptr_t)object ^ size) * 0x9e3779b97f4a7c15u >> 32);
}

WL_STEP void wl_label_write(void *object, size_t size)
{
	struct wl_label *label = object;

	label->size = (uint32_t)size;
	label->cookie = wl_label_cookie(object, size);
	memset(label + 1, (unsigned char)label->cookie, size - sizeof(*label));
	__asm__ volatile("" : : "r"(object) : "memory");
}

WL_STEP void wl_label_check(struct wl_thread *t, const void *object)
{
	const struct wl_label *label = object;
	size_t size = label->size;
	uint32_t cookie = wl_label_cookie(object, size);

	if (WL_UNLIKELY(label->cookie != cookie || size < sizeof(*label) ||
			size > t->params->size ||
			!wl_all((const unsigned char *)(label + 1), size - sizeof(*label),
				(unsigned char)cookie)))
		t->corrupt++;
}

WL_STEP void wl_labelled_free(const struct alloc_ops *ops, struct wl_thread *t, void *object)
{
	if (!object)
		return;
	wl_label_check(t, object);
	ops->free(t->heaps[0], object);
}

WL_STEP void wl_labelled_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live; i++)
		wl_labelled_free(ops, t, t->slots[i]);
}

/* ---- Places ---- */

WL_STEP void **wl_place(const struct wl_thread *t, unsigned thread, uint64_t at)
{
	return &t->shared->places[(size_t)thread * WL_PLACES + at % WL_PLACES];
}

WL_STEP void *wl_exchange(void **place, void *object)
{
	return __atomic_exchange_n(place, object, __ATOMIC_ACQ_REL);
}

/*
 * ---- mstress: what large programs do ----
 *
 * After mstress of mimalloc's tests. Objects die at random ages; one in eight goes to another thread, which has it
 * until it hands it on or it dies there.
 */
WL_STEP unsigned mstress_slots(const struct wl_params *params)
{
	return params->live;
}

WL_STEP bool mstress_replace(const struct alloc_ops *ops, struct wl_thread *t, unsigned slot)
{
	size_t size = wl_size_skewed(t->params, &t->random);

	wl_labelled_free(ops, t, t->slots[slot]);
	t->slots[slot] = ops->malloc(t->heaps[0], size);
	if (WL_UNLIKELY(!t->slots[slot]))
		return false;
	wl_label_write(t->slots[slot], size);
	return true;
}

WL_STEP void mstress_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live && !t->failed; i++)
		t->failed = !mstress_replace(ops, t, i);
}

WL_STEP uint64_t mstress_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	const unsigned live = t->params->live, places = t->shared->threads * WL_PLACES;

	for (uint64_t i = 0; i < n; i++) {
		unsigned slot = wl_random_below(&t->random, live);

		if (wl_random_below(&t->random, 8) == 0)
			t->slots[slot] =
				wl_exchange(wl_place(t, 0, 0) + wl_random_below(&t->random, places),
					    t->slots[slot]);
		if (WL_UNLIKELY(!mstress_replace(ops, t, slot)))
			return wl_fail(t, i);
	}
	return n;
}

WL_STEP void wl_shared_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < WL_PLACES; i++)
		wl_labelled_free(ops, t, wl_exchange(wl_place(t, t->index, i), NULL));
}

WL_STEP void mstress_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_labelled_finish(ops, t);
	wl_shared_finish(ops, t);
}

/*
 * ---- xmalloc: objects are freed by other threads than those that allocated them ----
 *
 * After xmalloc-test of Lever and Boreham: batches of objects of random sizes go to the next thread, which frees
 * them. When that has not taken what it was given before, the batch that was there is freed by the giver.
 */
#define WL_BATCH 128u

struct wl_batch {
	void *objects[WL_BATCH];
};

WL_STEP unsigned xmalloc_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void xmalloc_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP void xmalloc_free(const struct alloc_ops *ops, struct wl_thread *t, struct wl_batch *batch)
{
	if (!batch)
		return;
	for (unsigned i = 0; i < WL_BATCH; i++)
		wl_labelled_free(ops, t, batch->objects[i]);
	ops->free(t->heaps[0], batch);
}

WL_STEP struct wl_batch *xmalloc_fill(const struct alloc_ops *ops, struct wl_thread *t)
{
	struct wl_batch *batch = ops->malloc(t->heaps[0], sizeof(*batch));

	for (unsigned i = 0; batch && i < WL_BATCH; i++) {
		size_t size = wl_size_even(t->params, &t->random);

		batch->objects[i] = ops->malloc(t->heaps[0], size);
		if (batch->objects[i])
			wl_label_write(batch->objects[i], size);
		else
			t->failed = true;
	}
	return batch;
}

WL_STEP uint64_t xmalloc_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	unsigned next = (t->index + 1) % t->shared->threads;
	uint64_t done;

	for (done = 0; done < n; done += WL_BATCH) {
		struct wl_batch *batch = xmalloc_fill(ops, t);

		if (WL_UNLIKELY(!batch))
			return wl_fail(t, done);
		xmalloc_free(ops, t, wl_exchange(wl_place(t, next, t->put++), batch));
		if (WL_UNLIKELY(t->failed))
			return done;
		xmalloc_free(ops, t, wl_exchange(wl_place(t, t->index, t->got++), NULL));
	}
	return done;
}

WL_STEP void xmalloc_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < WL_PLACES; i++)
		xmalloc_free(ops, t, wl_exchange(wl_place(t, t->index, i), NULL));
}

/*
 * ---- scratch: does a free bring a line to a CPU that another one writes to? ----
 *
 * After cache-scratch of Hoard's benchmarks: the first thread allocates a small object for each thread, side by
 * side. Each thread frees the one it was given, and from then on allocates one, writes to it again and again, and
 * frees it. Where it gets the one that it was given, two CPUs write to one line.
 */
#define WL_SCRATCH_WRITES 100u

WL_STEP unsigned scratch_slots(const struct wl_params *params)
{
	return wl_no_slots(params);
}

WL_STEP void scratch_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; t->index == 0 && i < t->shared->threads; i++) {
		void *object = ops->malloc(t->heaps[0], t->params->size);

		if (object)
			wl_touch(object);
		else
			t->failed = true;
		wl_exchange(wl_place(t, i, 0), object);
	}
}

WL_STEP uint64_t scratch_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	ops->free(t->heaps[0], wl_exchange(wl_place(t, t->index, 0), NULL));
	for (uint64_t i = 0; i < n; i++) {
		unsigned char *object = ops->malloc(t->heaps[0], t->params->size);

		if (WL_UNLIKELY(!object))
			return wl_fail(t, i);
		for (unsigned k = 0; k < WL_SCRATCH_WRITES; k++)
			++*(volatile unsigned char *)(object + k % t->params->size);
		ops->free(t->heaps[0], object);
	}
	return n;
}

WL_STEP void scratch_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	ops->free(t->heaps[0], wl_exchange(wl_place(t, t->index, 0), NULL));
}

/*
 * ---- realloc: vectors and strings that grow ----
 *
 * A random one of the live ones grows: by some bytes, as a string does, or to the double, as a vector does.
 * What is new is written; one that is too long ends, when all of it is looked at. It begins with its own size; of the
 * rest the bytes of each KiB are its number.
 */
#define WL_GROWN_STEP 1024u

WL_STEP unsigned realloc_slots(const struct wl_params *params)
{
	return params->live;
}

WL_STEP void realloc_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

/* Writes what is to be at @from..@to - 1. */
WL_STEP void realloc_fill(unsigned char *object, size_t from, size_t to)
{
	for (size_t end; from < to; from = end) {
		size_t step = from / WL_GROWN_STEP;

		end = (step + 1) * WL_GROWN_STEP < to ? (step + 1) * WL_GROWN_STEP : to;
		memset(object + from, (unsigned char)step, end - from);
	}
}

WL_STEP bool realloc_intact(const unsigned char *object, size_t from, size_t to)
{
	for (size_t end; from < to; from = end) {
		size_t step = from / WL_GROWN_STEP;

		end = (step + 1) * WL_GROWN_STEP < to ? (step + 1) * WL_GROWN_STEP : to;
		if (!wl_all(object + from, end - from, (unsigned char)step))
			return false;
	}
	return true;
}

WL_STEP void realloc_end(const struct alloc_ops *ops, struct wl_thread *t, void **slot)
{
	uint32_t size;

	if (!*slot)
		return;
	memcpy(&size, *slot, sizeof(size));
	t->corrupt += size > 2 * t->params->size + t->params->min_size ||
		      !realloc_intact(*slot, sizeof(size), size);
	ops->free(t->heaps[0], *slot);
	*slot = NULL;
}

WL_STEP bool realloc_grow(const struct alloc_ops *ops, struct wl_thread *t, void **slot)
{
	size_t old = *slot ? *(uint32_t *)*slot : 0, size;
	unsigned char *object;

	if (old >= t->params->size) {
		realloc_end(ops, t, slot);
		old = 0;
	}
	size = wl_random_below(&t->random, 8)
		       ? old + t->params->min_size + wl_random_below(&t->random, 64)
		       : old * 2 + t->params->min_size;
	object = ops->realloc(t->heaps[0], *slot, size);
	if (WL_UNLIKELY(!object))
		return false;
	*slot = object;
	*(uint32_t *)object = (uint32_t)size;
	realloc_fill(object, old ? old : sizeof(uint32_t), size);
	return true;
}

WL_STEP uint64_t realloc_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		unsigned slot = wl_random_below(&t->random, t->params->live);

		if (WL_UNLIKELY(!realloc_grow(ops, t, &t->slots[slot])))
			return wl_fail(t, i);
	}
	return n;
}

WL_STEP void realloc_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live; i++)
		realloc_end(ops, t, &t->slots[i]);
}

/*
 * ---- calloc: memory that must be zero, and has been used before ----
 *
 * All of it is looked at, and a byte of each line written to.
 */
WL_STEP unsigned calloc_slots(const struct wl_params *params)
{
	return params->live;
}

WL_STEP void calloc_setup(const struct alloc_ops *ops, struct wl_thread *t)
{
	wl_nothing(ops, t);
}

WL_STEP uint64_t calloc_run(const struct alloc_ops *ops, struct wl_thread *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		size_t size = wl_size_skewed(t->params, &t->random);
		void **slot = &t->slots[wl_random_below(&t->random, t->params->live)];
		unsigned char *object;

		ops->free(t->heaps[0], *slot);
		object = *slot = ops->calloc(t->heaps[0], 1, size);
		if (WL_UNLIKELY(!object))
			return wl_fail(t, i);
		t->corrupt += !wl_all(object, size, 0);
		wl_touch_lines(object, size);
	}
	return n;
}

WL_STEP void calloc_finish(const struct alloc_ops *ops, struct wl_thread *t)
{
	for (unsigned i = 0; i < t->params->live; i++)
		ops->free(t->heaps[0], t->slots[i]);
}

#endif /* WORKLOADS_STEPS_GENERAL_H */
