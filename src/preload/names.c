/* SPDX-License-Identifier: MIT */
/*
 * The names by which programs know what malloc.c defines, for libuslub-malloc.so. They are aliases, so that they
 * cost no jump; and aliases have to stand where the functions do, which is why this file includes that one and
 * takes its place in the library.
 *
 * C++: the operators that may throw are in operators.c. Deletes of any kind are free(): the sizes and alignments
 * that they are told are those of the type the program believes to delete, and are not needed.
 */
#include "malloc/malloc.c"
#include "preload/preload.h"

#define NAMED(type, name, args, function)                                                          \
	exported same_as(function)                                                                 \
	type name args;

NAMED(void *, malloc, (size_t size), uslub_malloc)
NAMED(void *, calloc, (size_t n, size_t size), uslub_calloc)
NAMED(void *, realloc, (void *p, size_t size), uslub_realloc)
NAMED(void *, aligned_alloc, (size_t align, size_t size), uslub_aligned_alloc)
NAMED(size_t, malloc_usable_size, (void *p), uslub_usable_size)

/* Those by which the C library's own are called by programs that mean to get around others. */
NAMED(void *, __libc_malloc, (size_t size), uslub_malloc)
NAMED(void *, __libc_calloc, (size_t n, size_t size), uslub_calloc)
NAMED(void *, __libc_realloc, (void *p, size_t size), uslub_realloc)

/* Declared by what is looked at: the first argument. */
#define FREES(name) NAMED(void, name, (void *p), uslub_free)

FREES(free)
FREES(cfree)
FREES(__libc_free)
FREES(free_sized)
FREES(free_aligned_sized)

/* delete and delete[]: plain, sized, aligned, both; nothrow */
FREES(_ZdlPv)
FREES(_ZdaPv)
FREES(_ZdlPvm)
FREES(_ZdaPvm)
FREES(_ZdlPvSt11align_val_t)
FREES(_ZdaPvSt11align_val_t)
FREES(_ZdlPvmSt11align_val_t)
FREES(_ZdaPvmSt11align_val_t)
FREES(_ZdlPvRKSt9nothrow_t)
FREES(_ZdaPvRKSt9nothrow_t)
FREES(_ZdlPvSt11align_val_tRKSt9nothrow_t)
FREES(_ZdaPvSt11align_val_tRKSt9nothrow_t)

#undef FREES
#undef NAMED
