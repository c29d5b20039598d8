/* SPDX-License-Identifier: MIT */
/*
 * C++'s operator new, for libuslub-malloc.so, by the names of the Itanium C++ ABI.
 *
 * Memory is had as by malloc. Where there is none the C++ library's own operator takes over: it knows the
 * program's new_handler, tries again (by our malloc), and throws what it must. So nothing of C++ is needed here,
 * and exceptions pass through no frame of ours but that of the call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "malloc/internal.h"

typedef void *new_plain(size_t size);
typedef void *new_aligned(size_t size, size_t align);
typedef void *new_nothrow(size_t size, const void *nothrow);
typedef void *new_aligned_nothrow(size_t size, size_t align, const void *nothrow);

static coldpath void *next_definition(const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	if (!next)
		plat_fatal("operator new: no memory, and no C++ library that could say so");
	return next;
}

#define NEW(name, type, args, get, pass)                                                           \
	type name __attribute__((visibility("default")));                                          \
	void *name args                                                                            \
	{                                                                                          \
		void *p = get;                                                                     \
                                                                                                   \
		return likely(p) ? p : ((type *)next_definition(#name))pass;                       \
	}

NEW(_Znwm, new_plain, (size_t size), uslub_malloc(size), (size))
NEW(_Znam, new_plain, (size_t size), uslub_malloc(size), (size))
NEW(_ZnwmRKSt9nothrow_t, new_nothrow, (size_t size, const void *nothrow), uslub_malloc(size),
    (size, nothrow))
NEW(_ZnamRKSt9nothrow_t, new_nothrow, (size_t size, const void *nothrow), uslub_malloc(size),
    (size, nothrow))
NEW(_ZnwmSt11align_val_t, new_aligned, (size_t size, size_t align),
    uslub_aligned_alloc(align, size), (size, align))
NEW(_ZnamSt11align_val_t, new_aligned, (size_t size, size_t align),
    uslub_aligned_alloc(align, size), (size, align))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow,
    (size_t size, size_t align, const void *nothrow), uslub_aligned_alloc(align, size),
    (size, align, nothrow))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow,
    (size_t size, size_t align, const void *nothrow), uslub_aligned_alloc(align, size),
    (size, align, nothrow))
