/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "policy.h"
#include "tool.h"

#define OFFSET(field) offsetof(struct uslub_policy, field)

const struct policy_entry policy_entries[] = {
#define USLUB_POLICY_BOOL(field, name, def, help)                                                  \
	{ name, NULL, help, OFFSET(field), POLICY_BOOL, USLUB_POLICY_OFF, USLUB_POLICY_ON },
#define USLUB_POLICY_NUMBER(field, name, min, max, def, help)                                      \
	{ name, NULL, help, OFFSET(field), POLICY_NUMBER, min, max },
#define USLUB_POLICY_NUMBER_OR(field, name, word, min, max, help)                                  \
	{ name, word, help, OFFSET(field), POLICY_NUMBER_OR, min, max },
#include <uslub/policy.def>
#undef USLUB_POLICY_BOOL
#undef USLUB_POLICY_NUMBER
#undef USLUB_POLICY_NUMBER_OR
};

const unsigned policy_count = TOOL_COUNT(policy_entries);

uint64_t policy_get(const struct policy_entry *entry, const struct uslub_policy *policy)
{
	return *(const uint64_t *)((const char *)policy + entry->offset);
}

void policy_set(const struct policy_entry *entry, struct uslub_policy *policy, uint64_t value)
{
	*(uint64_t *)((char *)policy + entry->offset) = value;
}

static const struct policy_entry *find(const char *name, size_t length)
{
	for (unsigned i = 0; i < policy_count; i++) {
		const char *other = policy_entries[i].name;

		if (strlen(other) == length && !memcmp(other, name, length))
			return &policy_entries[i];
	}
	return NULL;
}

static char *list_names(void)
{
	char *list = tool_copy("");

	for (unsigned i = 0; i < policy_count; i++) {
		char *longer = tool_format("%s%s%s", list, i ? ", " : "", policy_entries[i].name);

		free(list);
		list = longer;
	}
	return list;
}

static int parse_value(const struct policy_entry *entry, const char *text, uint64_t *value)
{
	if (entry->kind == POLICY_BOOL) {
		bool on = !strcmp(text, "on");

		*value = on ? USLUB_POLICY_ON : USLUB_POLICY_OFF;
		return on || !strcmp(text, "off") ? 0 : -1;
	}
	if (entry->kind == POLICY_NUMBER_OR && !strcmp(text, entry->word)) {
		*value = USLUB_POLICY_NONE;
		return 0;
	}
	if (numbers_parse(text, 1024, value))
		return -1;
	return *value >= entry->min && *value <= entry->max ? 0 : -1;
}

/* Reads one NAME=VALUE of @length bytes. */
static char *parse_one(const char *text, size_t length, struct uslub_policy *policy)
{
	const char *equals = memchr(text, '=', length);
	size_t name_length = equals ? (size_t)(equals - text) : length;
	const struct policy_entry *entry = find(text, name_length);
	char *list, *value_text, *message = NULL;
	uint64_t value;

	if (!entry) {
		list = list_names();
		message = tool_format("there is no policy '%.*s'; the policies are: %s",
				      (int)name_length, text, list);
		free(list);
		return message;
	}
	list = policy_range(entry);
	if (!equals) {
		message = tool_format("policy '%s' needs a value: %s=VALUE, where VALUE is %s",
				      entry->name, entry->name, list);
		free(list);
		return message;
	}
	value_text = tool_format("%.*s", (int)(length - name_length - 1), equals + 1);
	if (parse_value(entry, value_text, &value))
		message = tool_format("'%s' is no value of policy '%s', which takes %s", value_text,
				      entry->name, list);
	else
		policy_set(entry, policy, value);
	free(value_text);
	free(list);
	return message;
}

char *policy_parse(const char *text, struct uslub_policy *policy)
{
	while (*text) {
		size_t length = strcspn(text, ",");
		char *message = parse_one(text, length, policy);

		if (message)
			return message;
		text += length;
		if (*text == ',' && !*++text)
			return tool_copy("there is nothing after the last comma");
	}
	return NULL;
}

char *policy_value(const struct policy_entry *entry, const struct uslub_policy *policy)
{
	uint64_t value = policy_get(entry, policy);

	if (!value)
		return tool_copy("default");
	if (entry->kind == POLICY_BOOL)
		return tool_copy(value == USLUB_POLICY_ON ? "on" : "off");
	if (entry->kind == POLICY_NUMBER_OR && value == USLUB_POLICY_NONE)
		return tool_copy(entry->word);
	return tool_format("%" PRIu64, value);
}

char *policy_range(const struct policy_entry *entry)
{
	if (entry->kind == POLICY_BOOL)
		return tool_copy("off or on");
	if (entry->kind == POLICY_NUMBER_OR)
		return tool_format("%s or %" PRIu64 "..%" PRIu64, entry->word, entry->min,
				   entry->max);
	return tool_format("%" PRIu64 "..%" PRIu64, entry->min, entry->max);
}
