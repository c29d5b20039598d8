/* SPDX-License-Identifier: MIT */
/*
 * The allocators that can be measured, and how to make sure that it is them who are.
 */
#ifndef TOOLS_ALLOCATORS_H
#define TOOLS_ALLOCATORS_H

#include <stdbool.h>
#include "../../workloads/workload.h"

enum allocator_origin {
	ALLOCATOR_LINKED,
	ALLOCATOR_SYSTEM,
	ALLOCATOR_PROJECT,
};

/*
 * struct allocator - see allocators.def
 * @missing: its library belongs to this project but is not there
 */
struct allocator {
	const char *name;
	const struct wl_family *family;
	const char *library;
	enum allocator_origin origin;
	const char *package;
	const char *help;
	bool missing;
};

extern const struct allocator allocators[];
extern const unsigned allocators_count;

/*
 * allocator_find - the allocator of a name, to be freed by allocator_free()
 * @name: a name of the list; or the path of a library that defines malloc, recognized by a '/'; or
 *        "batch+" before either, for that malloc with deferred frees batched by hand
 *
 * Returns NULL when there is none of that name. When it is one of this project whose library cannot be
 * found, that has been said, and it is marked as missing.
 */
struct allocator *allocator_find(const char *name);
void allocator_free(struct allocator *allocator);

/*
 * allocator_list - all names, for messages; for the caller to free
 */
char *allocator_list(void);

/*
 * allocator_in_force - whether malloc and free of this process are those of @allocator
 * @found: set to the file in which they were found when they are not
 *
 * The dynamic linker ignores a library that it cannot preload, after a message that is easily
 * missed; figures of the wrong allocator would be the result.
 */
bool allocator_in_force(const struct allocator *allocator, const char **found);

#endif /* TOOLS_ALLOCATORS_H */
