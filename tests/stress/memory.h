/* SPDX-License-Identifier: MIT */
/*
 * Looking at the memory of the process.
 */
#ifndef TESTS_STRESS_MEMORY_H
#define TESTS_STRESS_MEMORY_H

#include <sys/resource.h>
#include "stress.h"

/* Resident bytes, by the page where the kernel tells: statm lags behind by some pages for each CPU. */
static inline size_t resident_now(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[256];

	if (!f)
		return resident();
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Rss: %lu kB", &kib) == 1)
			break;
	fclose(f);
	if (!kib)
		die("/proc/self/smaps_rollup cannot be read");
	return kib * 1024;
}

/* A user-mode emulator pretends to limit memory, or it would limit its own. */
static inline bool emulated(void)
{
	struct rlimit before, some, then;

	if (getrlimit(RLIMIT_DATA, &before))
		return true;
	some = before;
	some.rlim_cur = (rlim_t)1 << 40;
	if (before.rlim_max < some.rlim_cur || setrlimit(RLIMIT_DATA, &some))
		return false;
	if (getrlimit(RLIMIT_DATA, &then))
		return true;
	setrlimit(RLIMIT_DATA, &before);
	return then.rlim_cur != some.rlim_cur;
}

/* Is what is resident the program's, so that it can be compared? If not, why. */
static inline const char *resident_of_others(void)
{
	if (STRESS_ASAN || STRESS_TSAN)
		return "the sanitizer's memory would count as well";
	return emulated() ? "the emulator's memory would count as well" : NULL;
}

static inline size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline size_t above(size_t now, size_t before)
{
	return now > before ? now - before : 0;
}

/* What may stay of a peak when all of it was freed and given back. */
static inline size_t may_stay(size_t peak)
{
	return most(8 * MIB, peak / 50);
}

#endif /* TESTS_STRESS_MEMORY_H */
