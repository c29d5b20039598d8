/* SPDX-License-Identifier: MIT */
/* A malloc that takes a microsecond: a benchmark must show it. */
#include <stddef.h>

void *__libc_malloc(size_t size);
void __libc_free(void *memory);

void *malloc(size_t size)
{
	for (volatile int i = 0; i < 1000; i++)
		;
	return __libc_malloc(size);
}

void free(void *memory)
{
	__libc_free(memory);
}
