/* SPDX-License-Identifier: MIT */
/* Counts large mappings into the file MAPS_COUNT, and before each of them sleeps for MAPS_SLEEP microseconds. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE ((size_t)100 << 20)

static atomic_ulong count;

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	static void *(*real)(void *, size_t, int, int, int, off_t);
	const char *sleep_us;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "mmap");
	sleep_us = getenv("MAPS_SLEEP");
	if (size >= LARGE) {
		count++;
		if (sleep_us)
			usleep((useconds_t)atoi(sleep_us));
	}
	return real(address, size, protection, flags, fd, offset);
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

__attribute__((destructor)) static void write_count(void)
{
	const char *path = getenv("MAPS_COUNT");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "%lu\n", (unsigned long)count);
	fclose(file);
}
