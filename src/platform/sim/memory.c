/* SPDX-License-Identifier: MIT */
/*
 * Memory: one reservation of address space, handed out from its beginning. It is at the same address in every
 * run, since the core's tables are indexed by addresses, and which entries share a line makes a difference.
 * What is given back is used again for the same size, newest first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "platform/platform.h"
#include "machine.h"

#define ARENA_SIZE  ((size_t)32 << 30)
#define ARENA_ALIGN ((size_t)1 << 30)
#define ARENA_AT    ((void *)(1ull << 45)) /* where nothing else is, nor a sanitizer's shadow */
#define PAGE	    4096u
#define FREED_MAX   4096u

static char *arena;
static size_t used;
static struct {
	void *p;
	size_t size;
} freed[FREED_MAX];
static unsigned nfreed;

void memory_start(void)
{
	char *p = mmap(ARENA_AT, ARENA_SIZE + ARENA_ALIGN, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		sim_give_up("no address space for the simulated memory: %s", strerror(errno));
	arena = (char *)align_up((uintptr_t)p, ARENA_ALIGN);
	line_start(arena, ARENA_SIZE);
}

static bool refused(void)
{
	if (!sim_wants(fail))
		return false;
	sim_tell(SIM_REFUSED, NULL, 0, 0);
	return true;
}

static void charge_call(size_t pages)
{
	if (!sim_current)
		return;
	sim_sync(SIM_STORE, NULL);
	if (!sim_exploring)
		sim_charge(machine.syscall + pages * machine.fault, SIM_TIME_OTHER);
}

uint64_t sim_offset(const volatile void *p)
{
	uint64_t offset = (uint64_t)((const volatile char *)p - arena);

	return arena && offset < ARENA_SIZE ? offset : UINT64_MAX;
}

static void *carve(size_t size, size_t align)
{
	size_t at;

	for (unsigned i = nfreed; i--;)
		if (freed[i].size == size && !((uintptr_t)freed[i].p & (align - 1))) {
			void *p = freed[i].p;

			freed[i] = freed[--nfreed];
			return p;
		}
	at = align_up(used, align);
	if (at + size > ARENA_SIZE)
		return NULL;
	used = at + size;
	return arena + at;
}

static void clear(void *p, size_t size)
{
	madvise(p, size, MADV_DONTNEED);
	line_forget(p, size);
}

/* Nobody else is on the machine. */
int plat_share_open(struct plat_share *s, const char *name, size_t size)
{
	(void)s;
	(void)name;
	(void)size;
	return -ENOSYS;
}

int plat_share_adopt(struct plat_share *s, const char *name, size_t size, int fd)
{
	(void)fd;
	return plat_share_open(s, name, size);
}

void plat_share_drop(struct plat_share *s)
{
	(void)s;
}

bool plat_share_ours(const struct plat_share *s)
{
	(void)s;
	return false;
}

int plat_share_renew(struct plat_share *s)
{
	(void)s;
	return -ENOSYS;
}

void *plat_map(size_t size)
{
	size = align_up(size, (size_t)PAGE);
	if (refused())
		return NULL;
	charge_call(0);
	return carve(size, PAGE);
}

void *plat_reserve(size_t slot, size_t least, size_t *got)
{
	(void)least;
	if (refused())
		return NULL;
	charge_call(0);
	*got = slot;
	return carve(slot, slot);
}

void *plat_map_aligned(size_t size, size_t align)
{
	if (refused())
		return NULL;
	charge_call(0);
	return carve(align_up(size, (size_t)PAGE), align);
}

/* Pages are copied: nothing can be moved within the reservation. */
void *plat_remap(void *p, size_t old, size_t size, size_t align)
{
	void *to = plat_map_aligned(size, align);

	if (!to)
		return NULL;
	memcpy(to, p, min(old, size));
	plat_unmap(p, old);
	return to;
}

void plat_unmap(void *p, size_t size)
{
	size = align_up(size, (size_t)PAGE);
	charge_call(0);
	clear(p, size);
	if (nfreed == FREED_MAX)
		return;
	freed[nfreed].p = p;
	freed[nfreed++].size = size;
}

/* Pages are charged for here, not one by one when they are touched. */
int plat_commit(void *p, size_t size)
{
	(void)p;
	if (refused())
		return -ENOMEM;
	charge_call(size / PAGE);
	return 0;
}

int plat_decommit(void *p, size_t size)
{
	charge_call(0);
	clear(p, size);
	return 0;
}

int plat_purge(void *p, size_t size)
{
	charge_call(size / PAGE);
	clear(p, size);
	return 0;
}

void plat_huge(void *p, size_t size, bool allow)
{
	(void)p;
	(void)size;
	(void)allow;
}

void plat_bind(void *p, size_t size, unsigned node)
{
	(void)p;
	(void)size;
	(void)node;
}

size_t plat_page_size(void)
{
	return PAGE;
}

unsigned plat_page_shift(void)
{
	return 12;
}
