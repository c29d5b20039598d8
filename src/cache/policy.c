/* SPDX-License-Identifier: MIT */
/*
 * Policies: defaults, then USLUB_POLICY, then what the program gave.
 *
 * USLUB_POLICY is a list of blocks separated by ';'. A block is a list of NAME=VALUE separated by ',',
 * with an optional name pattern and ':' in front, which may hold '*' and '?'. Blocks without a pattern
 * apply to all caches; later blocks win. The text is read again for each cache, without copying it; the
 * first reading complains about what is wrong, once.
 */
#include <errno.h>
#include <string.h>
#include "base/glob.h"
#include "cache/internal.h"

enum policy_type { CHOICE, NUMBER, NUMBER_OR };

static const struct policy_row {
	const char *name;
	const char *words; /* of CHOICE, separated by '|'; of NUMBER_OR the only one */
	enum policy_type type;
	size_t field;
	uint64_t least, most, otherwise;
} rows[] = {
#define FIELD(field) offsetof(struct uslub_policy, field)
#define USLUB_POLICY_CHOICE(field, name, words, def, help)                                         \
	{ name, words, CHOICE, FIELD(field), 1, 0, def },
#define USLUB_POLICY_NUMBER(field, name, min, max, def, help)                                      \
	{ name, NULL, NUMBER, FIELD(field), min, max, def },
#define USLUB_POLICY_NUMBER_OR(field, name, word, min, max, help)                                  \
	{ name, word, NUMBER_OR, FIELD(field), min, max, 0 },
#include <uslub/policy.def>
};

static uint64_t *field_of(struct uslub_policy *p, const struct policy_row *row)
{
	return (uint64_t *)((char *)p + row->field);
}

/* ---- text ----------------------------------------------------------------------------------------- */

struct text {
	const char *at;
	size_t len;
};

static bool text_is(struct text t, const char *word)
{
	return strlen(word) == t.len && !memcmp(word, t.at, t.len);
}

/* Cuts what stands before the first `separator` off the front; all, if there is none. */
static struct text cut(struct text *t, char separator)
{
	const char *end = t->len ? memchr(t->at, separator, t->len) : NULL;
	struct text head = { t->at, end ? (size_t)(end - t->at) : t->len };
	size_t gone = head.len + (end ? 1 : 0);

	t->at += gone;
	t->len -= gone;
	return head;
}

/* The place of a word in "word|word|...", counted from 1; 0: not there. */
static unsigned word_place(const char *words, struct text word)
{
	struct text all = { words, strlen(words) }, one;

	for (unsigned place = 1; all.len; place++) {
		one = cut(&all, '|');
		if (one.len == word.len && !memcmp(one.at, word.at, one.len))
			return place;
	}
	return 0;
}

static unsigned count_words(const char *words)
{
	unsigned n = 1;

	for (; *words; words++)
		n += *words == '|';
	return n;
}

static bool in_range(const struct policy_row *row, uint64_t value)
{
	if (row->type == CHOICE)
		return value >= 1 && value <= count_words(row->words);
	return (value >= row->least && value <= row->most) ||
	       (row->type == NUMBER_OR && value == USLUB_POLICY_NONE);
}

static bool parse_number(struct text t, uint64_t *value)
{
	unsigned shift = 0;

	if (!t.len)
		return false;
	switch (t.at[t.len - 1]) {
	case 'k':
	case 'K':
		shift = 10;
		break;
	case 'M':
		shift = 20;
		break;
	case 'G':
		shift = 30;
		break;
	case 'T':
		shift = 40;
		break;
	}
	t.len -= shift != 0;
	*value = 0;
	if (!t.len || t.len > 15)
		return false;
	for (; t.len; t.at++, t.len--) {
		if (*t.at < '0' || *t.at > '9')
			return false;
		*value = *value * 10 + (uint64_t)(*t.at - '0');
	}
	if (*value > UINT64_MAX >> shift)
		return false;
	*value <<= shift;
	return true;
}

static bool parse_value(const struct policy_row *row, struct text t, uint64_t *value)
{
	if (row->type == CHOICE) {
		*value = word_place(row->words, t);
		return *value;
	}
	if (row->words && text_is(t, row->words)) {
		*value = USLUB_POLICY_NONE;
		return true;
	}
	return parse_number(t, value) && in_range(row, *value);
}

static const struct policy_row *find_row(struct text name)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (text_is(name, rows[i].name))
			return &rows[i];
	return NULL;
}

static void complain(const char *what, struct text t)
{
	char copy[64];
	size_t len = min(t.len, sizeof(copy) - 1);

	memcpy(copy, t.at, len);
	copy[len] = '\0';
	plat_warn("USLUB_POLICY: %s \"%s\" ignored; see uslub(7)", what, copy);
}

/* One NAME=VALUE; p is NULL where only complaints are wanted. */
static void apply_item(struct text item, struct uslub_policy *p, bool verbose)
{
	struct text value = item, name = cut(&value, '=');
	const struct policy_row *row = find_row(name);
	uint64_t number;

	if (!row || !value.at || name.len == item.len) {
		if (verbose)
			complain(row ? "policy without a value" : "unknown policy", item);
	} else if (!parse_value(row, value, &number)) {
		if (verbose)
			complain("bad value", item);
	} else if (p) {
		*field_of(p, row) = number;
	}
}

/* Applies what concerns the cache `name` to p. */
static void apply_text(const char *s, const char *name, struct uslub_policy *p, bool verbose)
{
	struct text all = { s, strlen(s) }, block, pattern;
	bool ours;

	while (all.len) {
		block = cut(&all, ';');
		ours = true;
		if (block.len && memchr(block.at, ':', block.len)) {
			pattern = cut(&block, ':');
			ours = glob_match(pattern.at, pattern.len, name);
		}
		while (block.len)
			apply_item(cut(&block, ','), ours ? p : NULL, verbose);
	}
}

bool policy_resolve(const char *name, const struct uslub_policy *given, struct uslub_policy *out)
{
	static uint32_t complained;
	const char *env = plat_env("USLUB_POLICY");
	uint64_t value;

	for (size_t i = 0; i < array_size(rows); i++)
		*field_of(out, &rows[i]) = rows[i].otherwise;
	if (env)
		apply_text(env, name, out, !plat_exchange(&complained, 1));
	for (size_t i = 0; given && i < array_size(rows); i++) {
		value = *field_of((struct uslub_policy *)given, &rows[i]);
		if (!value)
			continue;
		if (!in_range(&rows[i], value))
			return false;
		*field_of(out, &rows[i]) = value;
	}
	return true;
}
