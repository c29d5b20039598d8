/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "policy.h"
#include "tool.h"

#define OFFSET(field) offsetof(struct uslub_policy, field)

const struct policy_entry policy_entries[] = {
#define USLUB_POLICY_CHOICE(field, name, words, def, help)                                         \
	{ name, words, help, OFFSET(field), POLICY_CHOICE, 1, 0 },
#define USLUB_POLICY_NUMBER(field, name, min, max, def, help)                                      \
	{ name, NULL, help, OFFSET(field), POLICY_NUMBER, min, max },
#define USLUB_POLICY_NUMBER_OR(field, name, word, min, max, help)                                  \
	{ name, word, help, OFFSET(field), POLICY_NUMBER_OR, min, max },
#include <uslub/policy.def>
#undef USLUB_POLICY_CHOICE
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

/* The word at a place of "word|word|...", counted from 1, with its length; NULL: there is none. */
static const char *word_at(const char *words, uint64_t place, size_t *length)
{
	for (; *words; words += *length + (words[*length] == '|')) {
		*length = strcspn(words, "|");
		if (!--place)
			return words;
	}
	return NULL;
}

static int parse_choice(const char *words, const char *text, uint64_t *value)
{
	const char *word;
	size_t length;

	for (*value = 1; (word = word_at(words, *value, &length)); ++*value) {
		if (strlen(text) == length && !memcmp(word, text, length))
			return 0;
	}
	return -1;
}

static int parse_value(const struct policy_entry *entry, const char *text, uint64_t *value)
{
	if (entry->kind == POLICY_CHOICE)
		return parse_choice(entry->words, text, value);
	if (entry->kind == POLICY_NUMBER_OR && !strcmp(text, entry->words)) {
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
	const char *word;
	size_t length;

	if (!value)
		return tool_copy("default");
	if (entry->kind == POLICY_CHOICE) {
		word = word_at(entry->words, value, &length);
		return word ? tool_format("%.*s", (int)length, word) : tool_copy("?");
	}
	if (entry->kind == POLICY_NUMBER_OR && value == USLUB_POLICY_NONE)
		return tool_copy(entry->words);
	return tool_format("%" PRIu64, value);
}

/* "off or on", "percpu, atomic or scan" */
static char *choice_range(const char *words)
{
	char *text = tool_copy("");
	const char *word, *next;
	size_t length, unused;

	for (uint64_t place = 1; (word = word_at(words, place, &length)); place++) {
		char *longer;

		next = word_at(words, place + 1, &unused);
		longer = tool_format("%s%s%.*s", text,
				     place == 1 ? ""
				     : next	? ", "
						: " or ",
				     (int)length, word);
		free(text);
		text = longer;
	}
	return text;
}

char *policy_range(const struct policy_entry *entry)
{
	if (entry->kind == POLICY_CHOICE)
		return choice_range(entry->words);
	if (entry->kind == POLICY_NUMBER_OR)
		return tool_format("%s or %" PRIu64 "..%" PRIu64, entry->words, entry->min,
				   entry->max);
	return tool_format("%" PRIu64 "..%" PRIu64, entry->min, entry->max);
}
