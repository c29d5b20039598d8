/* SPDX-License-Identifier: MIT */
/*
 * The list of caches, oldest first, under the registry lock. It is held while a cache is created, and by
 * uslub_for_each_cache() while it calls back: so a callback may look caches up, but not change the list.
 * Nothing changes the list during a callback, which may take as long as it likes.
 */
#include <errno.h>
#include <string.h>
#include "cache/internal.h"

const char uslub_library;
extern const char uslub_this_library __attribute__((alias("uslub_library")));

struct plat_lock registry_lock = { .rank = RANK_REGISTRY };
struct list registry = { &registry, &registry };

static bool enter(void)
{
	if (plat_lock_mine(&registry_lock))
		return false;
	plat_lock(&registry_lock);
	return true;
}

static void leave(bool entered)
{
	if (entered)
		plat_unlock(&registry_lock);
}

static bool has_name(const struct uslub_cache *c, const char *name)
{
	const struct alias *alias;

	if (!strcmp(c->name, name))
		return true;
	list_for_each_entry(alias, &c->aliases, link)
		if (!strcmp(alias->name, name))
			return true;
	return false;
}

struct uslub_cache *uslub_cache_find(const char *name)
{
	struct uslub_cache *c, *found = NULL;
	bool entered = enter();

	if (name)
		list_for_each_entry(c, &registry, link)
			if (!c->dying && has_name(c, name)) {
				found = c;
				break;
			}
	leave(entered);
	if (!found)
		plat_set_errno(ENOENT);
	return found;
}

int uslub_for_each_cache(int (*fn)(struct uslub_cache *, void *), void *arg)
{
	bool entered = enter();
	struct uslub_cache *c;
	int result = 0;

	list_for_each_entry(c, &registry, link) {
		if (c->dying)
			continue;
		plat_still_begin();
		result = fn(c, arg);
		plat_still_end();
		if (result)
			break;
	}
	leave(entered);
	return result;
}

uint64_t registry_next(uint64_t number, void (*fn)(struct uslub_cache *, void *), void *arg)
{
	bool entered = enter();
	struct uslub_cache *c;

	list_for_each_entry(c, &registry, link)
		if (!c->dying && c->number > number) {
			fn(c, arg);
			number = c->number;
			leave(entered);
			return number;
		}
	leave(entered);
	return 0;
}

const char *uslub_cache_name(const struct uslub_cache *c)
{
	return c->name;
}

size_t uslub_cache_object_size(const struct uslub_cache *c)
{
	return c->class.object_size;
}

void uslub_cache_policy(const struct uslub_cache *c, struct uslub_policy *policy)
{
	*policy = c->policy;
}

const char *uslub_version(void)
{
	return USLUB_VERSION_STRING;
}
