/* SPDX-License-Identifier: MIT */
/*
 * CPUs and NUMA nodes, from /sys without stdio.
 *
 * CPUs are counted by the highest *possible* id, since slots are indexed by what the kernel calls a CPU
 * and ids may be sparse, hot-added later, or above what affinity shows. Where /sys cannot be read (some
 * containers, chroots), the affinity mask's highest id serves; an id past the end is no error, it uses a
 * foreign slot.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#include "base/print.h"
#include "platform/platform.h"
#include "machine.h"

static unsigned ncpu = 1;
static unsigned present = 1;
static unsigned nnodes = 1;
static uint8_t node_of[PLAT_MAX_CPUS];

static bool read_file(const char *root, const char *path, char *buf, size_t size)
{
	char name[256];
	ssize_t n;
	int fd;

	print_string(name, sizeof(name), "%s/%s", root, path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

static bool parse_number(const char **s, unsigned *n)
{
	if (**s < '0' || **s > '9')
		return false;
	*n = 0;
	for (; **s >= '0' && **s <= '9'; ++*s)
		*n = min(*n * 10 + (unsigned)(**s - '0'), 1000000u);
	return true;
}

/* Calls fn for each range of a list such as "0-3,8,10-11". Stops quietly at what it cannot read. */
static void parse_list(const char *s, void (*fn)(unsigned first, unsigned last, void *arg),
		       void *arg)
{
	unsigned first, last;

	while (parse_number(&s, &first)) {
		last = first;
		if (*s == '-') {
			s++;
			if (!parse_number(&s, &last))
				return;
		}
		fn(first, last, arg);
		if (*s != ',')
			return;
		s++;
	}
}

static void highest(unsigned first, unsigned last, void *arg)
{
	unsigned *n = arg;

	(void)first;
	*n = max(*n, last + 1);
}

static void count(unsigned first, unsigned last, void *arg)
{
	unsigned *n = arg;

	*n += last >= first ? last - first + 1 : 0;
}

static void place(unsigned first, unsigned last, void *arg)
{
	for (unsigned cpu = first; cpu <= last && cpu < PLAT_MAX_CPUS; cpu++)
		node_of[cpu] = *(unsigned *)arg;
}

static unsigned cpus_by_affinity(void)
{
	unsigned long mask[PLAT_MAX_CPUS / 64] = { 0 };
	unsigned n = 1;

	if (sched_getaffinity(0, sizeof(mask), (cpu_set_t *)mask) == 0)
		for (unsigned cpu = 0; cpu < PLAT_MAX_CPUS; cpu++)
			if (mask[cpu / 64] >> cpu % 64 & 1)
				n = cpu + 1;
	return n;
}

void topology_start(const char *sysfs)
{
	PRESERVE_ERRNO;
	char buf[4096], path[64];
	unsigned n = 0;

	if (read_file(sysfs, "devices/system/cpu/possible", buf, sizeof(buf)))
		parse_list(buf, highest, &n);
	ncpu = min(n ? n : cpus_by_affinity(), PLAT_MAX_CPUS);
	n = 0;
	if (read_file(sysfs, "devices/system/cpu/present", buf, sizeof(buf)))
		parse_list(buf, count, &n);
	present = min(n ? n : ncpu, ncpu);
	n = 0;
	if (read_file(sysfs, "devices/system/node/possible", buf, sizeof(buf)))
		parse_list(buf, highest, &n);
	nnodes = min(n ? n : 1, PLAT_MAX_NODES);
	for (unsigned cpu = 0; cpu < PLAT_MAX_CPUS; cpu++)
		node_of[cpu] = 0;
	for (n = 0; n < nnodes; n++) {
		print_string(path, sizeof(path), "devices/system/node/node%u/cpulist", n);
		if (read_file(sysfs, path, buf, sizeof(buf)))
			parse_list(buf, place, &n);
	}
}

#ifdef USLUB_INJECT
void plat_test_topology(const char *sysfs)
{
	topology_start(sysfs);
}
#endif

unsigned plat_ncpu(void)
{
	return ncpu;
}

unsigned plat_nslots(void)
{
	return ncpu + PLAT_FOREIGN_SLOTS;
}

unsigned plat_nnodes(void)
{
	return nnodes;
}

unsigned plat_present_cpus(void)
{
	return present;
}

unsigned plat_cpu_node(unsigned slot)
{
	return slot < ncpu ? node_of[slot] : 0;
}

unsigned plat_this_node(void)
{
	unsigned slot;

	if (nnodes == 1)
		return 0;
	slot = plat_slot();
	if (slot < ncpu)
		return node_of[slot];
	slot = (unsigned)sched_getcpu();
	return slot < ncpu ? node_of[slot] : 0;
}
