/* SPDX-License-Identifier: MIT */
/*
 * Address space and pages, by mmap(2) and friends.
 *
 * Reservations are PROT_NONE and MAP_NORESERVE: they cost neither memory nor, under strict overcommit,
 * commit charge; a commit is charged by mprotect(2) and given back by mapping PROT_NONE over it, which
 * is the one way that returns the charge.
 *
 * An aligned reservation is not made by reserving twice as much and cutting, which fails where address
 * space is limited (RLIMIT_AS): the kernel is asked where it would put the range, and aligned addresses
 * below and above are tried, nearest first (it may fill the address space from either end).
 * MAP_FIXED_NOREPLACE is a mere hint before Linux 4.17 and in emulators, so the answer is looked at.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/platform.h"
#include "machine.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PLACES 64 /* aligned addresses tried for each size */

void *plat_map(size_t size)
{
	PRESERVE_ERRNO;
	void *p;

	if (plat_inject_failure())
		return NULL;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Of protection PROT_NONE it is a reservation, which is not charged for. */
static void *map_at(uintptr_t where, size_t size, int protection)
{
	PRESERVE_ERRNO;
	void *p = mmap((void *)where, size, protection,
		       MAP_PRIVATE | MAP_ANONYMOUS | (protection ? 0 : MAP_NORESERVE) |
			       (where ? MAP_FIXED_NOREPLACE : 0),
		       -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (where && (uintptr_t)p != where) {
		munmap(p, size);
		return NULL;
	}
	return p;
}

static void *map_aligned(size_t slot, size_t size, int protection)
{
	uintptr_t where;
	void *p = map_at(0, size, protection);

	if (!p)
		return NULL;
	if (!((uintptr_t)p & (slot - 1)))
		return p;
	where = (uintptr_t)p & ~(slot - 1);
	munmap(p, size);
	for (unsigned i = 0; i < PLACES; i++) {
		p = where > i * slot ? map_at(where - i * slot, size, protection) : NULL;
		if (!p)
			p = map_at(where + (i + 1) * slot, size, protection);
		if (p)
			return p;
	}
	return NULL;
}

void *plat_reserve(size_t slot, size_t least, size_t *got)
{
	void *p;

	if (plat_inject_failure())
		return NULL;
	for (size_t size = slot; size >= least; size /= 2) {
		p = map_aligned(slot, size, PROT_NONE);
		if (p) {
			*got = size;
			return p;
		}
	}
	return NULL;
}

void *plat_map_aligned(size_t size, size_t align)
{
	return plat_inject_failure() ? NULL : map_aligned(align, size, PROT_READ | PROT_WRITE);
}

void *plat_remap(void *p, size_t old, size_t size, size_t align)
{
	PRESERVE_ERRNO;
	void *to;

	if (plat_inject_failure())
		return NULL;
	if (mremap(p, old, size, 0) != MAP_FAILED)
		return p;
	to = map_aligned(align, size, PROT_NONE);
	if (!to)
		return NULL;
	if (mremap(p, old, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
		return to;
	munmap(to, size);
	return NULL;
}

void plat_unmap(void *p, size_t size)
{
	PRESERVE_ERRNO;

	/* ENOMEM: too many mappings to split one. The pages at least can go. */
	if (munmap(p, size))
		madvise(p, size, MADV_DONTNEED);
}

int plat_commit(void *p, size_t size)
{
	PRESERVE_ERRNO;

	if (plat_inject_failure())
		return -ENOMEM;
	return mprotect(p, size, PROT_READ | PROT_WRITE) ? -errno : 0;
}

int plat_decommit(void *p, size_t size)
{
	PRESERVE_ERRNO;
	void *q = mmap(p, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		       -1, 0);

	return q == MAP_FAILED ? -errno : 0;
}

/* Refused where the memory is locked. */
int plat_purge(void *p, size_t size)
{
	PRESERVE_ERRNO;

	return madvise(p, size, MADV_DONTNEED) ? -errno : 0;
}

void plat_huge(void *p, size_t size, bool allow)
{
	PRESERVE_ERRNO;

	madvise(p, size, allow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void plat_bind(void *p, size_t size, unsigned node)
{
	PRESERVE_ERRNO;
	unsigned long mask = 1ul << node;

	/* Containers often forbid it (EPERM): then first touch decides, as without us. */
	syscall(SYS_mbind, p, size, MPOL_PREFERRED, &mask, sizeof(mask) * 8 + 1, 0);
}
