/* SPDX-License-Identifier: MIT */
/*
 * uslub: typed object caches with per-CPU sheaves, after the Linux SLUB allocator.
 *
 * A cache hands out objects of one size. Each CPU keeps a few dozen free ones in a sheaf, so that most
 * allocations and frees are a handful of instructions without a lock or an atomic. Behind the CPUs stands
 * a barn of full and empty sheaves per NUMA node, behind it the node's list of partly used slabs, behind
 * that the page supply. uslub(7) tells the whole story.
 *
 * Conventions: functions that return a pointer give NULL and set errno on failure; functions that return
 * int give 0 or a negative errno value. In args structs zero means default. Unless a comment says
 * otherwise a function may be called from any thread at any time, but not from a signal handler and not
 * from a child made by vfork(2).
 */
#ifndef USLUB_USLUB_H
#define USLUB_USLUB_H

#include <stddef.h>
#include <stdint.h>
#include <uslub/stats.h>
#include <uslub/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uslub_cache;
struct uslub_sheaf;
struct rcu_flavor_struct; /* of liburcu, <urcu/flavor.h> */

/* Flags of a cache, for uslub_cache_args.flags. */
#define USLUB_HWCACHE_ALIGN   0x1u /* align objects to cache lines where that wastes little */
#define USLUB_TYPESAFE_BY_RCU 0x2u /* a slab's memory leaves the cache only after a grace period */
#define USLUB_MERGE	      0x4u /* may share slabs with a compatible cache */

/* Flags of an allocation. */
#define USLUB_ZERO   0x1u /* fill the object with zero bytes */
#define USLUB_NOWAIT 0x2u /* map no memory; short locks may still be waited for */
#define USLUB_NOLOCK 0x4u /* async-signal-safe: only trylocks, never waits; implies NOWAIT */

/*
 * struct uslub_policy - how a cache behaves; zero everywhere means default
 *
 * The fields, their ranges and effects are listed in <uslub/policy.def> and uslub(7). The variable
 * USLUB_POLICY of the environment overrides defaults but not values given here.
 */
struct uslub_policy {
#define USLUB_POLICY_CHOICE(field, name, words, def, help)	  uint64_t field;
#define USLUB_POLICY_NUMBER(field, name, min, max, def, help)	  uint64_t field;
#define USLUB_POLICY_NUMBER_OR(field, name, word, min, max, help) uint64_t field;
#include <uslub/policy.def>
#undef USLUB_POLICY_CHOICE
#undef USLUB_POLICY_NUMBER
#undef USLUB_POLICY_NUMBER_OR
};

#define USLUB_POLICY_OFF    1u	       /* of an "off|on" policy */
#define USLUB_POLICY_ON	    2u	       /* of an "off|on" policy */
#define USLUB_POLICY_PERCPU 1u	       /* of partial_count */
#define USLUB_POLICY_ATOMIC 2u	       /* of partial_count */
#define USLUB_POLICY_SCAN   3u	       /* of partial_count */
#define USLUB_POLICY_NONE   UINT64_MAX /* sheaf_capacity: no sheaves; slab_min_objects: auto */

/*
 * struct uslub_cache_args - the optional arguments of uslub_cache_create()
 * @args_size: sizeof(struct uslub_cache_args), so that the struct can grow
 * @align: alignment of every object in bytes, a power of two up to the page size; 0: the largest power
 *         of two that divides the size, at most 8
 * @flags: USLUB_HWCACHE_ALIGN, USLUB_TYPESAFE_BY_RCU, USLUB_MERGE
 * @sheaf_capacity: objects a sheaf holds at least, 1..255; 0: by object size. The kernel's rule
 *         applies: the larger of this and the size's own default. policy.sheaf_capacity is exact.
 * @min_partial: a node keeps empty slabs while its partial list is shorter than this; 0: by object size
 * @ctor: called once for each object of a new slab. A free must leave the object in that state. It must
 *         not use the cache. Called from whatever thread needs a slab
 * @rcu: the liburcu flavor whose grace periods free_rcu and TYPESAFE_BY_RCU wait for, such as
 *         &urcu_memb_flavor. It must outlive the cache; the library links no flavor itself
 * @policy: see struct uslub_policy
 */
struct uslub_cache_args {
	size_t args_size;
	size_t align;
	unsigned flags;
	unsigned sheaf_capacity;
	unsigned min_partial;
	void (*ctor)(void *object);
	const struct rcu_flavor_struct *rcu;
	struct uslub_policy policy;
};

/*
 * uslub_version - the version of the library, such as "0.1.0"
 */
const char *uslub_version(void);

/*
 * uslub_cache_create - make a cache of objects of one size
 * @name: shown in statistics and messages; copied; at most 63 bytes. Need not be unique
 * @object_size: size of an object in bytes, 1 up to 2 MiB less what alignment adds
 * @args: optional arguments, or NULL for all defaults
 *
 * Returns the cache, to be destroyed by uslub_cache_destroy(), or NULL with errno
 *   EINVAL  @name is NULL or empty or too long; @object_size is 0 or more than a slab can hold;
 *           @args->args_size is wrong; @args->align is not a power of two or too large; a flag, the
 *           sheaf capacity or a policy is out of range; TYPESAFE_BY_RCU without @args->rcu; policy
 *           zero_on_free with TYPESAFE_BY_RCU or @args->ctor, where an object's content outlives its free
 *   ENOMEM  no memory
 * Thread-safe. May map memory. Follows SLUB's kmem_cache_create() with struct kmem_cache_args.
 */
struct uslub_cache *uslub_cache_create(const char *name, size_t object_size,
				       const struct uslub_cache_args *args);

/*
 * uslub_cache_destroy - free a cache and all its memory
 * @c: the cache, or NULL, which is a no-op
 *
 * Waits until all objects given to uslub_cache_free_rcu() are free. Nobody else may use the cache
 * meanwhile. Must not be called from within an RCU read-side critical section of the cache's flavor.
 *
 * Returns 0, or -EBUSY when objects are still allocated or prefilled sheaves not returned; the cache
 * then stays as it was and usable. Of a merged cache it takes one name away, the youngest, and 0 is returned;
 * the last call destroys it.
 * Follows SLUB's kmem_cache_destroy().
 */
int uslub_cache_destroy(struct uslub_cache *c);

/*
 * uslub_cache_shrink - give back as much memory as possible
 * @c: the cache
 *
 * Empties all sheaves and barns and returns empty slabs to the page supply, and the supply's own free
 * pages to the system. Others may use the cache meanwhile; what they hold stays.
 *
 * Returns 0, or -errno of membarrier(2) when the kernel refuses it and thread affinity as well (a seccomp
 * filter installed after start): then per-CPU sheaves were left alone and the rest was done.
 * May wait for locks and for other CPUs. Follows SLUB's kmem_cache_shrink().
 */
int uslub_cache_shrink(struct uslub_cache *c);

/*
 * uslub_cache_alloc - allocate an object
 * @c: the cache
 * @flags: USLUB_ZERO, USLUB_NOWAIT, USLUB_NOLOCK, or 0
 *
 * The object's content is what its last user left (or what the constructor made of it; or zero, with policy
 * zero_on_free), unless USLUB_ZERO is given, which overwrites the constructor's work as well. With USLUB_NOLOCK the call is
 * async-signal-safe and may fail although memory is there; a constructor may then run in the handler.
 *
 * Returns the object, or NULL with errno ENOMEM.
 * Thread-safe. Follows SLUB's kmem_cache_alloc().
 */
void *uslub_cache_alloc(struct uslub_cache *c, unsigned flags) __attribute__((warn_unused_result));

/*
 * uslub_cache_alloc_node - allocate an object in the memory of a NUMA node
 * @c: the cache
 * @flags: as for uslub_cache_alloc()
 * @node: the node's number; -1: any
 *
 * The node is a preference: when it has no memory, another one serves.
 *
 * Returns the object, or NULL with errno ENOMEM, or EINVAL when there is no such node.
 * Thread-safe. Follows SLUB's kmem_cache_alloc_node().
 */
void *uslub_cache_alloc_node(struct uslub_cache *c, unsigned flags, int node)
	__attribute__((warn_unused_result));

/*
 * uslub_cache_free - free an object
 * @c: the cache it was allocated from
 * @object: the object; NULL is a no-op
 *
 * Sets no errno and does not fail. A pointer that is not an object of @c is found when the sheaf it went
 * into is emptied: the library then names the cache and the address and aborts.
 * Thread-safe. Follows SLUB's kmem_cache_free().
 */
void uslub_cache_free(struct uslub_cache *c, void *object);

/*
 * uslub_cache_free_nolock - free an object from any context
 * @c: the cache it was allocated from
 * @object: the object; NULL is a no-op
 *
 * Async-signal-safe: takes no lock it would have to wait for. Where the partial list's lock is taken the
 * object is left to the next caller who may wait.
 * Follows SLUB's kfree_nolock().
 */
void uslub_cache_free_nolock(struct uslub_cache *c, void *object);

/*
 * uslub_cache_alloc_bulk - allocate several objects
 * @c: the cache
 * @flags: as for uslub_cache_alloc()
 * @n: how many
 * @objects: where to put them; filled on success, undefined on failure
 *
 * All or nothing. Returns 0, -ENOMEM, or -EINVAL when @objects is NULL or @n is 2^32 or
 * more. n = 0 is 0.
 * Thread-safe. Follows SLUB's kmem_cache_alloc_bulk().
 */
int uslub_cache_alloc_bulk(struct uslub_cache *c, unsigned flags, size_t n, void **objects)
	__attribute__((warn_unused_result));

/*
 * uslub_cache_free_bulk - free several objects
 * @c: the cache all of them were allocated from
 * @n: how many
 * @objects: the objects, none NULL; the array's content is undefined afterwards
 *
 * Thread-safe. Follows SLUB's kmem_cache_free_bulk().
 */
void uslub_cache_free_bulk(struct uslub_cache *c, size_t n, void **objects);

/*
 * uslub_cache_free_rcu - free an object once all present readers are gone
 * @c: the cache, created with a flavor in args.rcu
 * @object: the object; NULL is a no-op
 *
 * The object may be read until a grace period of the cache's flavor has passed, and is reusable only
 * then. Never fails and never waits for a grace period, so that readers may call it; it may wait for
 * short locks, and let other threads run when much is pending. Only when all memory is exhausted, the
 * library's reserve for this included, a caller that is no reader waits for a grace period, and a
 * reader's object is leaked with a message. When the cache has no flavor the library says so and aborts.
 * Thread-safe. Follows SLUB's kvfree_rcu() with sheaves.
 */
void uslub_cache_free_rcu(struct uslub_cache *c, void *object);

/*
 * uslub_cache_barrier_rcu - wait for deferred frees
 * @c: the cache
 *
 * On return every object given to uslub_cache_free_rcu() before the call is free. Must not be called
 * from within a read-side critical section. A registered thread of the QSBR flavor is put offline
 * while it waits. No-op for a cache without a flavor. Where the kernel refuses membarrier(2) and thread
 * affinity since start, objects in other CPUs' RCU sheaves are not waited for, and a warning says so.
 * Follows SLUB's kvfree_rcu_barrier_on_cache().
 */
void uslub_cache_barrier_rcu(struct uslub_cache *c);

/*
 * uslub_cache_prefill_sheaf - reserve objects before a section that must not fail
 * @c: the cache
 * @flags: USLUB_NOWAIT, USLUB_NOLOCK, or 0 (USLUB_ZERO goes to alloc_from_sheaf)
 * @n: how many objects are needed, at least 1; may exceed the sheaf capacity, but not with NOLOCK
 *
 * Returns a sheaf of at least @n objects that belongs to the caller, to be given to
 * uslub_cache_return_sheaf(); or NULL with errno EINVAL (@n is 0 or absurd) or ENOMEM.
 * Thread-safe. Follows SLUB's kmem_cache_prefill_sheaf().
 */
struct uslub_sheaf *uslub_cache_prefill_sheaf(struct uslub_cache *c, unsigned flags, unsigned n)
	__attribute__((warn_unused_result));

/*
 * uslub_cache_refill_sheaf - top up a prefilled sheaf
 * @c: the cache
 * @flags: as for prefill
 * @sheaf: the sheaf; may be replaced by another one
 * @n: how many objects it shall hold at least
 *
 * Returns 0, -EINVAL (@n is 0 or absurd) or -ENOMEM; on failure *@sheaf is still valid, with no less
 * than it had.
 * Thread-safe for sheaves owned by the caller. Follows SLUB's kmem_cache_refill_sheaf().
 */
int uslub_cache_refill_sheaf(struct uslub_cache *c, unsigned flags, struct uslub_sheaf **sheaf,
			     unsigned n) __attribute__((warn_unused_result));

/*
 * uslub_cache_alloc_from_sheaf - take an object from a prefilled sheaf
 * @c: the cache
 * @flags: USLUB_ZERO or 0
 * @sheaf: the sheaf, owned by the caller
 *
 * Cannot fail while the sheaf holds objects; returns NULL with errno ENOMEM when it is empty. The object
 * is freed like any other. Not thread-safe for one sheaf; async-signal-safe.
 * Follows SLUB's kmem_cache_alloc_from_sheaf().
 */
void *uslub_cache_alloc_from_sheaf(struct uslub_cache *c, unsigned flags,
				   struct uslub_sheaf *sheaf);

/*
 * uslub_cache_return_sheaf - give a prefilled sheaf back
 * @c: the cache
 * @flags: as for prefill
 * @sheaf: the sheaf, with whatever is left in it; NULL is a no-op
 *
 * Thread-safe. Follows SLUB's kmem_cache_return_sheaf().
 */
void uslub_cache_return_sheaf(struct uslub_cache *c, unsigned flags, struct uslub_sheaf *sheaf);

/*
 * uslub_sheaf_size - objects left in a prefilled sheaf
 * @sheaf: the sheaf, owned by the caller
 */
unsigned uslub_sheaf_size(const struct uslub_sheaf *sheaf);

/*
 * uslub_cache_name - the name given at creation (of merged caches the first one's); valid as long as the
 *                    cache
 * uslub_cache_object_size - the size given at creation, in bytes
 */
const char *uslub_cache_name(const struct uslub_cache *c);
size_t uslub_cache_object_size(const struct uslub_cache *c);

/*
 * uslub_cache_policy - the policy in force for a cache
 * @c: the cache
 * @policy: filled with effective values: no field is 0
 */
void uslub_cache_policy(const struct uslub_cache *c, struct uslub_policy *policy);

/*
 * uslub_cache_find - look a cache up by its name
 * @name: the name
 *
 * Returns the oldest cache of that name, valid until it is destroyed, or NULL with errno ENOENT.
 * Thread-safe.
 */
struct uslub_cache *uslub_cache_find(const char *name);

/*
 * uslub_for_each_cache - call a function for every cache
 * @fn: called with each cache, oldest first, and @arg; a result other than 0 ends the walk
 * @arg: passed on
 *
 * The library's internal caches, whose objects are sheaves, are among them; their names start with
 * "sheaf-". @fn may use the caches but must neither create nor destroy any.
 *
 * Returns what the last call of @fn returned, or 0.
 * Thread-safe.
 */
int uslub_for_each_cache(int (*fn)(struct uslub_cache *, void *), void *arg);

/*
 * uslub_snapshot_write - write all statistics of all caches as JSON
 * @fd: an open file descriptor
 *
 * The format is "uslub-snapshot" version 1, described in uslub(7). Allocates nothing. No lock is held while
 * writing, so that the reader may be slow, and caches may come and go; each is as it was at one moment, or
 * is not there.
 *
 * Returns 0, or the -errno of write(2). Thread-safe.
 */
int uslub_snapshot_write(int fd);

/*
 * uslub_export - let other programs of this user, and root, see the statistics of this process
 *
 * From then on `uslub info`, `uslub top` and the other commands with --pid read them from outside, without
 * stopping or slowing the process; it does not notice. It costs some memory, 2 KiB for each cache and 4 MiB
 * of address space, and a descriptor, which is closed on exec; a program that closes it loses little. The
 * child of a fork shows its own. USLUB_EXPORT=1 in the environment does the same at the start of the program.
 *
 * Returns 0, also when it is done already; -ENOSYS, -EPERM: the system has no memfd_create(2) or forbids it;
 * -EMFILE, -ENFILE: no free descriptor; -ENOMEM: no memory or address space; -EFBIG: RLIMIT_FSIZE is too
 * small. Thread-safe.
 */
int uslub_export(void);

#ifdef __cplusplus
}
#endif

#endif /* USLUB_USLUB_H */
