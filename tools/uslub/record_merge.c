/* SPDX-License-Identifier: MIT */
/*
 * From a spool to a trace.
 *
 * 1. Each thread's events are in order. So the next event of all is the first of one of the threads, which a
 *    heap finds.
 * 2. Addresses become objects. One that is given to realloc() is in nobody's hands until it comes back; its
 *    old address may be another's by then, which is why it leaves the table.
 * 3. Numbers of objects are used again, so that they are small. Each belongs to the thread that was the
 *    first to use it, and the one that has been free for longest is taken: who replays the trace has to wait until
 *    an object is freed before its number is allocated, and like this hardly ever has to.
 */
#include <stdlib.h>
#include "../record/spool.h"
#include "record.h"

#define NONE UINT32_MAX

/*
 * struct thread - a thread of the recorded program
 * @block, @event: where its next event is; block is NONE at the end
 * @last_block: of its blocks
 * @number: of its next event
 * @name: its number in the trace, or NONE before its first event there
 * @moving, @moves: what is with realloc() now
 * @first_free, @last_free: numbers of objects
 */
struct thread {
	uint32_t block;
	uint32_t last_block;
	unsigned event;
	uint64_t number;
	uint32_t name;
	struct record_object moving;
	bool moves;
	uint32_t first_free;
	uint32_t last_free;
};

/*
 * struct number - of an object
 * @owner: the thread to which it goes back
 * @next_free: in a list
 */
struct number {
	struct thread *owner;
	uint32_t next_free;
};

struct merge {
	const struct spool_header *spool;
	uint32_t blocks;
	uint32_t *next_block; /* of the same thread, by block */
	struct thread *threads;
	uint32_t threads_count;
	struct thread **heap; /* by number of the next event; the least is the first */
	uint32_t heap_count;
	struct record_known known;
	struct number *numbers;
	size_t numbers_room;
	uint64_t live;
	struct trace_writer *trace;
	struct trace_header *header;
	struct record_counts *counts;
};

/* ---- the spool ------------------------------------------------------------------------------------ */

static const struct spool_block *block_at(const struct merge *m, uint32_t block)
{
	const char *blocks = (const char *)m->spool + SPOOL_HEADER;

	return (const struct spool_block *)(const void *)(blocks + (size_t)block * SPOOL_BLOCK);
}

static const struct spool_event *event_of(const struct merge *m, const struct thread *t)
{
	return &block_at(m, t->block)->events[t->event];
}

/* Goes on to the event that there is, or to the end. */
static void settle(struct merge *m, struct thread *t)
{
	while (t->block != NONE && (t->event == SPOOL_EVENTS || !event_of(m, t)->mark)) {
		t->block = m->next_block[t->block];
		t->event = 0;
	}
	if (t->block == NONE)
		return;
	t->number = spool_number(event_of(m, t)->mark);
	/* What comes after an event that was lost would not fit together. */
	if (t->number >= m->spool->stop)
		t->block = NONE;
}

/* Blocks of the last image, each behind the one before of its thread. */
static void chain_blocks(struct merge *m)
{
	uint64_t used = m->spool->used < m->spool->bytes ? m->spool->used : m->spool->bytes;

	m->blocks = (uint32_t)((used - SPOOL_HEADER) / SPOOL_BLOCK);
	m->threads_count = (uint32_t)m->spool->threads;
	m->threads = tool_alloc(m->threads_count + 1, sizeof(*m->threads));
	m->next_block = tool_alloc(m->blocks + 1, sizeof(*m->next_block));
	for (uint32_t i = 0; i < m->threads_count; i++)
		m->threads[i] = (struct thread){ .block = NONE,
						 .last_block = NONE,
						 .name = NONE,
						 .first_free = NONE,
						 .last_free = NONE };
	for (uint32_t i = 0; i < m->blocks; i++) {
		const struct spool_block *block = block_at(m, i);
		struct thread *t;

		m->next_block[i] = NONE;
		if (block->image != m->spool->image || block->thread - 1 >= m->threads_count)
			continue;
		t = &m->threads[block->thread - 1];
		if (t->last_block == NONE)
			t->block = i;
		else
			m->next_block[t->last_block] = i;
		t->last_block = i;
	}
}

/* ---- the heap ------------------------------------------------------------------------------------- */

/* Puts a thread where it belongs when it may have to go down from @at. */
static void sink(struct merge *m, uint32_t at, struct thread *t)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < m->heap_count &&
		    m->heap[child + 1]->number < m->heap[child]->number)
			child++;
		if (child >= m->heap_count || t->number <= m->heap[child]->number)
			break;
		m->heap[at] = m->heap[child];
		at = child;
	}
	m->heap[at] = t;
}

static void fill_heap(struct merge *m)
{
	m->heap = tool_alloc(m->threads_count + 1, sizeof(struct thread *));
	for (uint32_t i = 0; i < m->threads_count; i++) {
		settle(m, &m->threads[i]);
		if (m->threads[i].block != NONE)
			m->heap[m->heap_count++] = &m->threads[i];
	}
	for (uint32_t i = m->heap_count / 2; i-- > 0;)
		sink(m, i, m->heap[i]);
}

/* The thread at the top has been dealt with: its next event may come later than others'. */
static void advance(struct merge *m)
{
	struct thread *t = m->heap[0];

	t->event++;
	settle(m, t);
	if (t->block == NONE)
		t = m->heap[--m->heap_count];
	if (m->heap_count)
		sink(m, 0, t);
}

/* ---- objects -------------------------------------------------------------------------------------- */

static uint32_t new_number(struct merge *m, struct thread *t)
{
	uint32_t number = t->first_free;

	if (number != NONE) {
		t->first_free = m->numbers[number].next_free;
		return number;
	}
	number = (uint32_t)m->header->objects++;
	if (number == m->numbers_room) {
		m->numbers_room = m->numbers_room ? 2 * m->numbers_room : 1024;
		m->numbers = tool_grow(m->numbers, m->numbers_room, sizeof(*m->numbers));
	}
	m->numbers[number].owner = t;
	return number;
}

static void release_number(struct merge *m, uint32_t number)
{
	struct thread *owner = m->numbers[number].owner;

	m->numbers[number].next_free = NONE;
	if (owner->first_free == NONE)
		owner->first_free = number;
	else
		m->numbers[owner->last_free].next_free = number;
	owner->last_free = number;
}

static void resize(struct merge *m, uint64_t before, uint64_t now)
{
	m->live += now - before;
	if (m->live > m->header->peak)
		m->header->peak = m->live;
}

static void emit(struct merge *m, struct thread *t, enum trace_op op, unsigned align_shift,
		 const struct record_object *object)
{
	struct trace_event event = {
		.op = op,
		.align_shift = align_shift,
		.object = object->object,
		.size = object->size,
	};

	if (t->name == NONE)
		t->name = m->header->threads++;
	event.thread = t->name;
	trace_add(m->trace, &event);
}

static void emit_free(struct merge *m, struct thread *t, const struct record_object *object)
{
	emit(m, t, TRACE_FREE, 0, object);
	release_number(m, object->object);
	resize(m, object->size, 0);
	m->header->left--;
	m->counts->frees++;
}

/* Nothing can be at the address; if there is, whoever freed it was not seen. */
static void make_way(struct merge *m, struct thread *t, uint64_t address)
{
	struct record_object other = record_known_take(&m->known, address);

	if (other.address) {
		emit_free(m, t, &other);
		m->counts->replaced++;
	}
}

static void settle_down(struct merge *m, struct thread *t, struct record_object object)
{
	make_way(m, t, object.address);
	record_known_add(&m->known, object);
}

static void on_alloc(struct merge *m, struct thread *t, enum trace_op op,
		     const struct spool_event *event)
{
	struct record_object object = {
		.address = event->address,
		.size = event->size,
	};

	make_way(m, t, object.address);
	object.object = new_number(m, t);
	record_known_add(&m->known, object);
	emit(m, t, op, spool_align_shift(event->mark), &object);
	resize(m, 0, object.size);
	m->header->left++;
	m->counts->allocations++;
}

static void on_malloc(struct merge *m, struct thread *t, const struct spool_event *event)
{
	on_alloc(m, t, TRACE_MALLOC, event);
}

static void on_calloc(struct merge *m, struct thread *t, const struct spool_event *event)
{
	on_alloc(m, t, TRACE_CALLOC, event);
}

static void on_aligned(struct merge *m, struct thread *t, const struct spool_event *event)
{
	on_alloc(m, t, TRACE_ALIGNED, event);
}

static void on_free(struct merge *m, struct thread *t, const struct spool_event *event)
{
	struct record_object object = record_known_take(&m->known, event->address);

	if (!object.address) {
		m->counts->unknown++;
		return;
	}
	emit_free(m, t, &object);
}

static void on_leave(struct merge *m, struct thread *t, const struct spool_event *event)
{
	t->moving = record_known_take(&m->known, event->address);
	t->moves = t->moving.address != 0;
	if (!t->moves)
		m->counts->unknown++;
}

/* Nothing comes back of a size of 0, which is a free with most, and when there was no memory. */
static void on_return(struct merge *m, struct thread *t, const struct spool_event *event)
{
	struct record_object object = t->moving;

	if (!t->moves) {
		if (event->address)
			on_malloc(m, t, event);
		return;
	}
	t->moves = false;
	if (!event->address && event->size) {
		settle_down(m, t, object);
		return;
	}
	if (!event->address) {
		emit_free(m, t, &object);
		return;
	}
	resize(m, object.size, event->size);
	object.address = event->address;
	object.size = event->size;
	settle_down(m, t, object);
	emit(m, t, TRACE_REALLOC, 0, &object);
	m->counts->reallocations++;
}

static void (*const on[SPOOL_OPS])(struct merge *, struct thread *, const struct spool_event *) = {
	[SPOOL_MALLOC] = on_malloc, [SPOOL_CALLOC] = on_calloc, [SPOOL_ALIGNED] = on_aligned,
	[SPOOL_FREE] = on_free,	    [SPOOL_LEAVE] = on_leave,	[SPOOL_RETURN] = on_return,
};

void record_merge(const struct spool_header *spool, struct trace_writer *trace,
		  struct trace_header *header, struct record_counts *counts)
{
	struct merge m = { .spool = spool, .trace = trace, .header = header, .counts = counts };

	*header = (struct trace_header){ 0 };
	*counts = (struct record_counts){ 0 };
	chain_blocks(&m);
	fill_heap(&m);
	while (m.heap_count) {
		struct thread *t = m.heap[0];
		const struct spool_event *event = event_of(&m, t);
		enum spool_op op = spool_op(event->mark);

		if (op < SPOOL_OPS && on[op])
			on[op](&m, t, event);
		advance(&m);
	}
	free(m.threads);
	free(m.next_block);
	free(m.heap);
	free(m.numbers);
	free(m.known.slots);
}
