/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "allocators.h"
#include "tool.h"

const struct allocator allocators[] = {
#define ALLOCATOR(name, family, library, preload, package, help)                                   \
	{ name, &wl_family_##family, library, preload, package, help },
#include "allocators.def"
#undef ALLOCATOR
};

const unsigned allocators_count = TOOL_COUNT(allocators);

#define BATCH_PREFIX "batch+"

static struct allocator *copy(const struct allocator *allocator)
{
	struct allocator *result = tool_alloc(1, sizeof(*result));

	*result = *allocator;
	return result;
}

/* The name of a library by path is the path as given, in messages too. */
static struct allocator *by_path(const char *path)
{
	struct allocator *allocator = tool_alloc(1, sizeof(*allocator));

	allocator->name = tool_copy(path);
	allocator->family = &wl_family_malloc;
	allocator->library = allocator->name;
	allocator->preload = true;
	return allocator;
}

static struct allocator *find_batch(const char *name)
{
	struct allocator *allocator = allocator_find(name + strlen(BATCH_PREFIX));

	if (allocator && allocator->family != &wl_family_malloc) {
		free(allocator);
		return NULL;
	}
	if (allocator) {
		allocator->name = tool_copy(name);
		allocator->family = &wl_family_batch;
	}
	return allocator;
}

struct allocator *allocator_find(const char *name)
{
	if (!strncmp(name, BATCH_PREFIX, strlen(BATCH_PREFIX)))
		return find_batch(name);
	for (unsigned i = 0; i < allocators_count; i++) {
		if (!strcmp(allocators[i].name, name))
			return copy(&allocators[i]);
	}
	return strchr(name, '/') ? by_path(name) : NULL;
}

char *allocator_list(void)
{
	char *list = tool_copy("");

	for (unsigned i = 0; i < allocators_count; i++) {
		char *longer = tool_format("%s%s%s", list, i ? ", " : "", allocators[i].name);

		free(list);
		list = longer;
	}
	return list;
}

/* A name is compared with the file's last component, a path with the file itself. */
static bool is_library(const char *file, const char *library)
{
	struct stat one, other;
	char *copied, *base;
	bool same;

	if (strchr(library, '/'))
		return !stat(file, &one) && !stat(library, &other) && one.st_dev == other.st_dev &&
		       one.st_ino == other.st_ino;
	copied = tool_copy(file);
	base = basename(copied);
	same = !strcmp(base, library);
	free(copied);
	return same;
}

static bool symbol_in_library(const char *symbol, const char *library, const char **found)
{
	void *address = dlsym(RTLD_DEFAULT, symbol);
	Dl_info info;

	if (!address || !dladdr(address, &info) || !info.dli_fname) {
		*found = "an unknown place";
		return false;
	}
	*found = info.dli_fname;
	return is_library(info.dli_fname, library);
}

bool allocator_in_force(const struct allocator *allocator, const char **found)
{
	if (!allocator->library)
		return true;
	return symbol_in_library("malloc", allocator->library, found) &&
	       symbol_in_library("free", allocator->library, found);
}
