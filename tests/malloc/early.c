/* SPDX-License-Identifier: MIT */
/*
 * A library to be preloaded in front of ours, whose constructor and destructor allocate: before ours has started, and
 * after main.
 */
#include <stdlib.h>
#include <string.h>

static char *kept;

__attribute__((constructor)) static void begin(void)
{
	kept = calloc(1, 1000);
	free(memset(malloc(100000), 1, 100000));
	kept = realloc(kept, 5000);
	if (!kept || kept[999])
		abort();
}

__attribute__((destructor)) static void end(void)
{
	char *more = malloc(300);

	if (!more)
		abort();
	free(more);
	free(kept);
}
