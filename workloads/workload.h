/* SPDX-License-Identifier: MIT */
/*
 * Workloads: what threads do to an allocator, apart from how they are run and measured.
 *
 * 1. A workload is a description (struct workload) and four functions: slots, setup, run and
 *    finish. All are listed in workloads.def; the functions are in steps.h. Those whose objects have
 *    sizes of all kinds are in workloads_general.def and steps_general.h.
 * 2. A family of allocators (struct wl_family) is a way to call an allocator: uslub's interface,
 *    malloc and call_rcu, the same with batches made by hand, or the floor. Each instantiates all
 *    functions over its own operations, so that they are direct calls. Which malloc serves is the
 *    dynamic linker's business, not the family's.
 * 3. The driver owns threads, clocks, CPUs and memory. It fills struct wl_thread, calls setup once
 *    in the thread, run again and again, and finish at the end. Step functions never wait: where
 *    they can get no further they return early, and the driver decides what to do, be it on a real
 *    machine or on a simulated one.
 */
#ifndef WORKLOADS_WORKLOAD_H
#define WORKLOADS_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uslub/uslub.h>
#include "alloc_ops.h"
#include "latency.h"
#include "mailbox.h"

struct wl_replay;
struct wl_ring;
struct wl_thread;

/* How many caches a workload may have. */
#define WL_CACHES 2u

/* What a workload needs; see workloads.def and workloads_general.def. */
#define WL_RCU	      0x1u
#define WL_PAIRS      0x2u
#define WL_STEADY     0x4u
#define WL_READERS    0x8u
#define WL_GROUPS     0x10u
#define WL_STATS      0x20u
#define WL_GENERAL    0x40u
#define WL_SHARED     0x80u
#define WL_SUCCESSION 0x100u
#define WL_TRACE      0x200u

#define WL_NO_SHEAVES UINT32_MAX /* as a sheaf capacity */

enum wl_id {
#define WORKLOAD(name, ...) WL_##name,
#define GENERAL(name, ...)  WL_##name,
#include "workloads.def"
#include "workloads_general.def"
#undef GENERAL
#undef WORKLOAD
	WL_COUNT
};

/* Variants of the workload "reserve", in the order of their names in workload.c. */
enum wl_reserve_variant {
	WL_RESERVE_PREFILL,
	WL_RESERVE_PAIRS,
};

/* How messages get from one thread to another. */
enum wl_transport {
	WL_RING,
	WL_SOCKET,
};

/*
 * struct wl_params - how a workload is run; the same for all its threads
 * @workload: which one
 * @size: bytes of an object; with WL_GENERAL the most
 * @min_size: with WL_GENERAL the least bytes of an object
 * @live: with WL_GENERAL how many objects a thread has at a time
 * @align: alignment asked of the cache, or 0
 * @capacity: sheaf capacity asked of the cache, or 0, or WL_NO_SHEAVES
 * @burst: objects of a burst
 * @window: objects of a window
 * @batch: objects that the family "batch" collects before it waits for readers
 * @fds: threads of a group that send, and as many that receive
 * @transport: how messages get from the former to the latter
 * @slabs: part-used slabs that statread makes
 * @variant: index into the workload's variants
 * @replay: of a WL_TRACE workload what it replays
 * @policy: policy of the cache, for the family "uslub"
 */
struct wl_params {
	const struct workload *workload;
	size_t size;
	size_t min_size;
	unsigned live;
	size_t align;
	unsigned capacity;
	unsigned burst;
	unsigned window;
	unsigned batch;
	unsigned fds;
	enum wl_transport transport;
	unsigned slabs;
	unsigned variant;
	const struct wl_replay *replay;
	struct uslub_policy policy;
};

/*
 * struct wl_cache - a further cache of a workload that has more than the one it is listed with
 */
struct wl_cache {
	const char *name;
	size_t size;
};

/*
 * struct workload - the description of a workload; the members are those of the lists
 * @cache: NULL with WL_GENERAL
 * @more: further caches, up to one without a name; or NULL
 * @latencies: the histograms it fills, up to one without a name; or NULL
 * @slots: how many pointers a thread needs in wl_thread.slots
 */
struct workload {
	enum wl_id id;
	const char *name;
	const char *unit;
	const char *cache;
	size_t size;
	size_t min_size;
	size_t align;
	unsigned capacity;
	unsigned slab_objects;
	unsigned chunk;
	unsigned flags;
	const char *const *variants; /* ends with NULL; or is NULL */
	const struct wl_cache *more;
	const struct wl_latency *latencies;
	const char *help;
	unsigned (*slots)(const struct wl_params *params);
	unsigned live;
};

extern const struct workload wl_workloads[WL_COUNT];

/*
 * wl_find - the workload of that name, or NULL
 */
const struct workload *wl_find(const char *name);

/*
 * wl_caches - how many caches a workload has
 * wl_cache_name, wl_cache_size - of one of them, counted from 0
 * wl_latencies - how many histograms it fills
 */
unsigned wl_caches(const struct workload *workload);
const char *wl_cache_name(const struct workload *workload, unsigned which);
unsigned wl_latencies(const struct workload *workload);
size_t wl_cache_size(const struct wl_params *params, unsigned which);

/*
 * struct wl_group - threads that send each other messages
 * @boxes: one for each that receives
 * @members: senders and receivers in turn
 */
struct wl_group {
	struct wl_mailbox *boxes;
	struct wl_thread **members;
};

/*
 * Pointers that any thread may put and take, in as many places for each thread. What is in a place is
 * exchanged for something else in one step, so that nobody ever waits.
 */
#define WL_PLACES 64u

/*
 * struct wl_shared - what the threads of a WL_SHARED workload have in common
 * @threads: how many there are
 * @places: WL_PLACES for each of them, each thread's in a row
 */
struct wl_shared {
	unsigned threads;
	void *places[];
};

/*
 * struct wl_thread - one thread of a running workload
 * @heaps: one for each cache; set by the driver and the family's thread_open
 * @params: set by the driver
 * @slots: zeroed array of workload->slots() pointers, set by the driver
 * @ring: of a WL_PAIRS workload, shared with the other thread of the pair, set by the driver
 * @group: of a WL_GROUPS workload, set by the driver
 * @shared: of a WL_SHARED workload, set by the driver
 * @retire: set by a step of a WL_SUCCESSION workload that returns: the next one is to be run by a new
 *          thread of the system, which has all that is here, when this one has ended
 * @index: number of the thread from 0, set by the driver; with WL_PAIRS and WL_GROUPS odd ones consume
 * @random: state of the thread's random sequence, seeded by the driver from the index only
 * @put, @got: positions in @slots of the workloads that use it as a queue
 * @clockwork: of a workload with latencies, set by the driver
 * @pending: a message that found no room; of statread the objects it keeps, each with a pointer to
 *           the next
 * @wait: set by a step of a WL_GROUPS workload that does less than it was asked to: for what to wait
 * @corrupt: messages that were lost or not as they had been sent, so far
 * @failed: set by a step that got no memory
 * @published: the object that readers may look at; on a line of its own, since they read it
 */
struct wl_thread {
	struct heap heaps[WL_CACHES];
	const struct wl_params *params;
	void **slots;
	struct wl_ring *ring;
	struct wl_group *group;
	struct wl_shared *shared;
	bool retire;
	unsigned index;
	uint64_t random;
	uint64_t put;
	uint64_t got;
	struct wl_clockwork *clockwork;
	void *pending;
	struct wl_wait wait;
	uint64_t corrupt;
	bool failed;
	void *published __attribute__((aligned(128)));
} __attribute__((aligned(128)));

/*
 * struct wl_code - a workload's functions, instantiated for a family
 * @setup: prepares the thread's objects; sets failed when there is no memory
 * @run: does about @n operations and returns how many were done; fewer when a ring was full or
 *       empty or memory ran out
 * @finish: frees what the thread still holds
 */
struct wl_code {
	void (*setup)(struct wl_thread *t);
	uint64_t (*run)(struct wl_thread *t, uint64_t n);
	void (*finish)(struct wl_thread *t);
};

/*
 * struct wl_family - a way to call an allocator
 * @name: for people
 * @open: makes the shared part of a heap, for one of the workload's caches; 0 or -errno
 * @thread_open: makes a thread's part; called before setup, not in the thread itself; 0 or -errno
 * @thread_close: ends it, after finish, in any thread
 * @settle: waits until all deferred frees are done; all threads stand still meanwhile
 * @close: ends the shared part; 0 or -errno (-EBUSY when objects are missing)
 * @code: the workloads; one that the family cannot run has no functions, see wl_can_run()
 *
 * Members that a family does not need are NULL.
 */
struct wl_family {
	const char *name;
	int (*open)(const struct wl_params *params, unsigned which, struct heap *heap);
	int (*thread_open)(struct wl_thread *t);
	void (*thread_close)(struct wl_thread *t);
	void (*settle)(struct wl_thread *threads[], unsigned n);
	int (*close)(struct heap *heap);
	const struct wl_code *code; /* by enum wl_id */
};

/*
 * wl_can_run - whether a family has the operations that a workload needs
 */
static inline bool wl_can_run(const struct wl_family *family, const struct workload *workload)
{
	return family->code[workload->id].run;
}

extern const struct wl_family wl_family_uslub;
extern const struct wl_family wl_family_malloc;
extern const struct wl_family wl_family_batch;
extern const struct wl_family wl_family_floor;

/*
 * wl_map - zeroed memory straight from the system, already present; NULL and errno when there is
 * none
 * wl_unmap - gives it back
 *
 * What the benchmark itself needs must not come from the allocator under test.
 */
void *wl_map(size_t size);
void wl_unmap(void *memory, size_t size);

/*
 * wl_published_ok - what a reader checks of the object a thread has published
 *
 * Called within a read-side critical section. The writer fills two words so that each is the
 * complement of the other before it publishes an object; somebody who reuses the object while it
 * can still be read breaks that.
 */
static inline bool wl_published_ok(struct wl_thread *t)
{
	const uint64_t *object = __atomic_load_n((uint64_t **)&t->published, __ATOMIC_ACQUIRE);
	uint64_t first, second;

	if (!object)
		return true;
	first = __atomic_load_n(&object[0], __ATOMIC_RELAXED);
	second = __atomic_load_n(&object[1], __ATOMIC_RELAXED);
	return first == ~second;
}

#endif /* WORKLOADS_WORKLOAD_H */
