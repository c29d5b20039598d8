/* SPDX-License-Identifier: MIT */
/*
 * Memory of any size, over caches of uslub: what kmalloc is to SLUB.
 *
 * A size up to 32 KiB is rounded up to one of 40 classes, each a cache named after its size: "malloc-16" to
 * "malloc-32768". They are made when they are first needed, behave like any cache under USLUB_POLICY, and are
 * seen by all tools. Larger sizes get whole pages, and beyond 32 MiB mappings of their own.
 *
 * These functions do not replace those of the C library: a program may use both, but a pointer must go back
 * to where it came from. libuslub-malloc.so replaces them, for programs that cannot be changed.
 *
 * Memory is aligned to 16 bytes. The conventions are those of <uslub/uslub.h>; the results of the standard
 * functions are those of C and POSIX, and where these leave a choice, of the GNU C library.
 */
#ifndef USLUB_MALLOC_H
#define USLUB_MALLOC_H

#include <stddef.h>
#include <uslub/uslub.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * uslub_free - free memory
 * @p: what a function of this header returned, or an object of any cache; NULL is a no-op
 *
 * Does not change errno. A pointer that is neither is named in a message, and the process aborts; one into
 * the middle of an object is found when the sheaf it went into is emptied.
 * Thread-safe. Follows SLUB's kfree().
 */
void uslub_free(void *p);

/*
 * uslub_malloc - allocate memory
 * @size: how many bytes; 0 is as good as 1
 *
 * Returns memory with undefined content, to be freed by uslub_free(); or NULL with errno ENOMEM, also when
 * @size is more than PTRDIFF_MAX.
 * Thread-safe. Follows malloc(3) and SLUB's kmalloc().
 */
void *uslub_malloc(size_t size) __attribute__((malloc, alloc_size(1), warn_unused_result));

/*
 * uslub_malloc_flags - the same with flags
 * @size: how many bytes
 * @flags: USLUB_ZERO, USLUB_NOWAIT, USLUB_NOLOCK, or 0, as for uslub_cache_alloc()
 *
 * With USLUB_NOLOCK it is async-signal-safe, and fails for sizes that no allocation without that flag was made
 * for before, and for those above 32 KiB. Free such memory in a handler by uslub_free_nolock().
 */
void *uslub_malloc_flags(size_t size, unsigned flags)
	__attribute__((malloc, alloc_size(1), warn_unused_result));

/*
 * uslub_free_nolock - free memory from any context
 * @p: as for uslub_free()
 *
 * Async-signal-safe. Follows SLUB's kfree_nolock().
 */
void uslub_free_nolock(void *p);

/*
 * uslub_calloc - allocate an array filled with zero bytes
 * @n, @size: how many elements of how many bytes
 *
 * As uslub_malloc(); also ENOMEM when the product is too large for a size_t.
 */
void *uslub_calloc(size_t n, size_t size)
	__attribute__((malloc, alloc_size(1, 2), warn_unused_result));

/*
 * uslub_realloc - change the size of memory
 * @p: what a function of this header returned, or NULL for uslub_malloc(@size)
 * @size: the new size in bytes; 0 frees @p and gives NULL, without a change of errno
 *
 * The content is kept up to the smaller size. An alignment of more than 16 bytes is lost when the memory moves.
 *
 * Returns the memory, at another address or the same, and @p is gone; or NULL with errno ENOMEM, and @p is as
 * it was.
 * Thread-safe, but for @p, which must not be used meanwhile.
 */
void *uslub_realloc(void *p, size_t size) __attribute__((alloc_size(2), warn_unused_result));

/*
 * uslub_aligned_alloc - allocate memory at a multiple of some bytes
 * @align: a power of two
 * @size: how many bytes; need not be a multiple of @align
 *
 * As uslub_malloc(); also EINVAL when @align is not a power of two.
 */
void *uslub_aligned_alloc(size_t align, size_t size)
	__attribute__((malloc, alloc_size(2), warn_unused_result));

/*
 * uslub_usable_size - how many bytes there are at an address
 * @p: what a function of this header returned, or NULL
 *
 * At least as many as were asked for; all may be used. 0 for NULL.
 * Thread-safe; async-signal-safe.
 */
size_t uslub_usable_size(const void *p);

/*
 * uslub_free_rcu_any - free memory once all present readers are gone
 * @rcu: a flavor of liburcu, such as &urcu_memb_flavor; it must outlive the process's memory
 * @p: as for uslub_free(); NULL is a no-op
 *
 * As uslub_cache_free_rcu(), for any memory. The flavor that a size's class is first given here is the one
 * whose frees go by whole sheaves; those of other flavors, of mappings and of runs of pages are deferred one
 * by one, which takes a lock.
 * Thread-safe. Follows SLUB's kvfree_rcu().
 */
void uslub_free_rcu_any(const struct rcu_flavor_struct *rcu, void *p);

/*
 * uslub_malloc_trim - give back as much memory as possible
 *
 * Shrinks the caches of all classes. Not needed in the long run: see uslub(7).
 *
 * Returns 1 if pages went back to the system, otherwise 0. Thread-safe; may wait for locks and other CPUs.
 */
int uslub_malloc_trim(void);

/*
 * struct uslub_malloc_info - where memory is, in bytes
 * @used: in objects of the classes, runs and mappings that the program holds. Counts what sizes were rounded
 *        up to
 * @cached: in free objects: of slabs, sheaves and barns
 * @spare: in free pages that were not given back to the system
 * @mapped: of @used, in mappings
 * @mappings: how many there are
 */
struct uslub_malloc_info {
	size_t used;
	size_t cached;
	size_t spare;
	size_t mapped;
	size_t mappings;
};

/*
 * uslub_malloc_info - tell where memory is
 * @info: filled; exact when nobody else allocates or frees meanwhile
 *
 * Objects and pages of other caches are not counted, but for @spare, which they share. Thread-safe.
 */
void uslub_malloc_info(struct uslub_malloc_info *info);

#ifdef __cplusplus
}
#endif

#endif /* USLUB_MALLOC_H */
