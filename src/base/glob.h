/* SPDX-License-Identifier: MIT */
/* Names with '*' and '?', as slub_debug and USLUB_POLICY use them. */
#ifndef USLUB_BASE_GLOB_H
#define USLUB_BASE_GLOB_H

#include "base/base.h"

/* Does the pattern of pattern_len bytes match the whole of name? Linear in time: one backtrack point. */
static inline bool glob_match(const char *pattern, size_t pattern_len, const char *name)
{
	const char *end = pattern + pattern_len, *star = NULL, *resume = NULL;

	while (*name) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			resume = name;
		} else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++resume;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

#endif /* USLUB_BASE_GLOB_H */
