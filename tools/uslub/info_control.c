/* SPDX-License-Identifier: MIT */
/*
 * The kernel's files that do something when 1 is written to them: `shrink` gives empty slabs back,
 * `validate` checks the slabs of a cache with debugging, and reports in the kernel's log.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "info.h"
#include "text.h"
#include "tool.h"

#define DIRECTORY "/sys/kernel/slab"

/* Returns 0 or a positive errno. */
static int write_one(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, "1", 1) != 1)
		error = errno;
	close(fd);
	return error;
}

/* Whether there is anything that the kernel could validate by; true where that is not known. */
static bool debugged(const struct snapshot_cache *c)
{
	static const enum uslub_stat flags[] = { USLUB_STAT_sanity_checks, USLUB_STAT_poison,
						 USLUB_STAT_red_zone, USLUB_STAT_store_user };
	bool known = false;

	for (unsigned i = 0; i < TOOL_COUNT(flags); i++) {
		known = known || snapshot_stat(c, flags[i]);
		if (snapshot_get(c, flags[i]))
			return true;
	}
	return !known;
}

static int report(const char *file, unsigned done, unsigned skipped)
{
	char *text = tool_format("%s: %u caches\n", file, done);
	int error = tool_print_out(text, strlen(text));

	free(text);
	if (!skipped)
		return error ? TOOL_EXIT_USAGE : 0;
	tool_error("%u caches have no debugging to validate by; boot with slub_debug=", skipped);
	return done ? 0 : TOOL_EXIT_USAGE;
}

int info_control(const struct info *info)
{
	bool validate = info->view == INFO_VALIDATE;
	const char *file = validate ? "validate" : "shrink";
	unsigned done = 0, skipped = 0;

	for (unsigned i = 0; i < info->count; i++) {
		const char *name = info->caches[i]->name;
		char *path;
		int error;

		if (validate && !debugged(info->caches[i])) {
			skipped++;
			continue;
		}
		path = tool_format(DIRECTORY "/%s/%s", name, file);
		error = write_one(path);
		if (error) {
			tool_error("cannot write %s: %s%s; %u caches were done before it", path,
				   strerror(error),
				   error == EACCES || error == EPERM ? " (root may)" : "", done);
			free(path);
			return TOOL_EXIT_USAGE;
		}
		free(path);
		done++;
	}
	return report(file, done, skipped);
}
