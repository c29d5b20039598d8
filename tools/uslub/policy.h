/* SPDX-License-Identifier: MIT */
/*
 * Policies as text: "prefill-barn=off,barn-full=20". Names, ranges and help come from
 * <uslub/policy.def>.
 */
#ifndef TOOLS_POLICY_H
#define TOOLS_POLICY_H

#include <stdint.h>
#include <stdio.h>
#include <uslub/uslub.h>

enum policy_kind {
	POLICY_CHOICE,
	POLICY_NUMBER,
	POLICY_NUMBER_OR,
};

/*
 * struct policy_entry - a policy of the list
 * @words: of a CHOICE, separated by '|'; of a NUMBER_OR the only one
 * @min, @max: of numbers
 */
struct policy_entry {
	const char *name;
	const char *words;
	const char *help;
	size_t offset;
	enum policy_kind kind;
	uint64_t min;
	uint64_t max;
};

extern const struct policy_entry policy_entries[];
extern const unsigned policy_count;

/*
 * policy_parse - read "NAME=VALUE[,NAME=VALUE]"
 * @text: the text; an empty one sets nothing
 * @policy: where to set what it names; the rest stays
 *
 * Returns NULL, or a message that says what is wrong and what would be right, for the caller to
 * free.
 */
char *policy_parse(const char *text, struct uslub_policy *policy);

/*
 * policy_value - the value of a policy as text, for the caller to free; "default" for 0
 */
char *policy_value(const struct policy_entry *entry, const struct uslub_policy *policy);

/*
 * policy_get, policy_set - the bare number
 */
uint64_t policy_get(const struct policy_entry *entry, const struct uslub_policy *policy);
void policy_set(const struct policy_entry *entry, struct uslub_policy *policy, uint64_t value);

/*
 * policy_range - what values a policy takes: "off or on", "1..1024"; for the caller to free
 */
char *policy_range(const struct policy_entry *entry);

#endif /* TOOLS_POLICY_H */
