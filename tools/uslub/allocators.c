/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "allocators.h"
#include "tool.h"

const struct allocator allocators[] = {
#define ALLOCATOR(name, family, library, origin, package, help)                                    \
	{ name, &wl_family_##family, library, ALLOCATOR_##origin, package, help, false },
#include "allocators.def"
#undef ALLOCATOR
};

const unsigned allocators_count = TOOL_COUNT(allocators);

#define BATCH_PREFIX "batch+"

static struct allocator *make(const char *name, const struct wl_family *family, const char *library,
			      enum allocator_origin origin, const char *package)
{
	struct allocator *allocator = tool_alloc(1, sizeof(*allocator));

	allocator->name = tool_copy(name);
	allocator->family = family;
	allocator->library = library ? tool_copy(library) : NULL;
	allocator->origin = origin;
	allocator->package = package;
	return allocator;
}

void allocator_free(struct allocator *allocator)
{
	if (!allocator)
		return;
	free((char *)allocator->name);
	free((char *)allocator->library);
	free(allocator);
}

/* The malloc behind the prefix, called by another family. */
static struct allocator *find_batch(const char *name)
{
	struct allocator *inner = allocator_find(name + strlen(BATCH_PREFIX));
	struct allocator *allocator = NULL;

	if (inner && inner->family == &wl_family_malloc)
		allocator = make(name, &wl_family_batch, inner->library, inner->origin,
				 inner->package);
	if (allocator)
		allocator->missing = inner->missing;
	allocator_free(inner);
	return allocator;
}

/* A library of this project goes by its path from here on. */
static struct allocator *locate(struct allocator *allocator)
{
	char *path;

	if (allocator->origin != ALLOCATOR_PROJECT)
		return allocator;
	path = tool_installed("../src", USLUB_LIB_DIR, allocator->library, R_OK);
	allocator->missing = !path;
	if (path) {
		free((char *)allocator->library);
		allocator->library = path;
	}
	return allocator;
}

struct allocator *allocator_find(const char *name)
{
	if (!strncmp(name, BATCH_PREFIX, strlen(BATCH_PREFIX)))
		return find_batch(name);
	for (unsigned i = 0; i < allocators_count; i++) {
		const struct allocator *a = &allocators[i];

		if (!strcmp(a->name, name))
			return locate(make(name, a->family, a->library, a->origin, a->package));
	}
	return strchr(name, '/') ? make(name, &wl_family_malloc, name, ALLOCATOR_SYSTEM, NULL)
				 : NULL;
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
