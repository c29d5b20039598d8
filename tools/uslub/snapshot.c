/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "snapshot.h"
#include "text.h"
#include "tool.h"

const char *const snapshot_source_names[SNAPSHOT_SOURCES] = {
	[SNAPSHOT_PROCESS] = "process",
	[SNAPSHOT_KERNEL] = "kernel",
	[SNAPSHOT_BENCH] = "bench",
	[SNAPSHOT_SIM] = "sim",
};

struct snapshot *snapshot_new(enum snapshot_source source)
{
	struct snapshot *s = tool_alloc(1, sizeof(*s));

	s->source = source;
	return s;
}

static void free_cache(struct snapshot_cache *c)
{
	for (unsigned i = 0; i < c->aliases_count; i++)
		free(c->aliases[i]);
	for (unsigned i = 0; i < c->count; i++) {
		free(c->values[i].name);
		free(c->values[i].nodes.parts);
		free(c->values[i].cpus.parts);
	}
	for (unsigned i = 0; i < c->latencies_count; i++)
		free(c->latencies[i].name);
	free(c->latencies);
	free(c->aliases);
	free(c->values);
	free(c->name);
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++)
		free_cache(&s->caches[i]);
	for (unsigned i = 0; i < s->host_count; i++) {
		free(s->host[i].name);
		free(s->host[i].text);
	}
	free(s->caches);
	free(s->host);
	free(s->note);
	free(s);
}

/* One more, zeroed, at the end of an array. */
#define append(array, count)                                                                       \
	({                                                                                         \
		(array) = tool_grow((array), (count) + 1, sizeof(*(array)));                       \
		memset(&(array)[count], 0, sizeof(*(array)));                                      \
		&(array)[(count)++];                                                               \
	})

struct snapshot_cache *snapshot_add(struct snapshot *s, const char *name)
{
	struct snapshot_cache *c = append(s->caches, s->count);

	c->name = text_name(name);
	return c;
}

void snapshot_drop(struct snapshot *s, unsigned which)
{
	free_cache(&s->caches[which]);
	s->count--;
	memmove(&s->caches[which], &s->caches[which + 1], (s->count - which) * sizeof(*s->caches));
}

struct snapshot_value *snapshot_cache_add(struct snapshot_cache *c, const char *name, double value)
{
	struct snapshot_value *v = append(c->values, c->count);

	v->name = text_name(name);
	v->which = uslub_stat_find(v->name);
	if (v->which < 0)
		v->which = -1;
	v->value = value;
	return v;
}

void snapshot_cache_alias(struct snapshot_cache *c, const char *name)
{
	*append(c->aliases, c->aliases_count) = text_name(name);
}

void snapshot_parts_add(struct snapshot_parts *parts, unsigned index, double value)
{
	struct snapshot_part *part = append(parts->parts, parts->count);

	part->index = index;
	part->value = value;
}

struct snapshot_latency *snapshot_latency_add(struct snapshot_cache *c, const char *name)
{
	struct snapshot_latency *l = append(c->latencies, c->latencies_count);

	l->name = text_name(name);
	return l;
}

void snapshot_note(struct snapshot *s, const char *format, ...)
{
	char *text, *before = s->note;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	s->note = before ? tool_format("%s; %s", before, text ? text : "") : text;
	if (before) {
		free(before);
		free(text);
	}
}

/* ---- order ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct snapshot_cache *)a)->name,
		      ((const struct snapshot_cache *)b)->name);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_stat(const void *a, const void *b)
{
	const struct snapshot_value *x = a, *y = b;
	/* As an unsigned number -1 is the largest, so that unknown ones come last. */
	unsigned i = (unsigned)x->which, k = (unsigned)y->which;

	return i != k ? (i > k) - (i < k) : strcmp(x->name, y->name);
}

void snapshot_sort(struct snapshot *s)
{
	if (s->count)
		qsort(s->caches, s->count, sizeof(*s->caches), by_name);
	for (unsigned i = 0; i < s->count; i++) {
		struct snapshot_cache *c = &s->caches[i];

		if (c->count)
			qsort(c->values, c->count, sizeof(*c->values), by_stat);
		if (c->aliases_count)
			qsort(c->aliases, c->aliases_count, sizeof(*c->aliases), by_text);
	}
}

/* ---- looking things up ---- */

const struct snapshot_cache *snapshot_find(const struct snapshot *s, const char *name)
{
	for (unsigned i = 0; i < s->count; i++) {
		if (!strcmp(s->caches[i].name, name))
			return &s->caches[i];
	}
	for (unsigned i = 0; i < s->count; i++) {
		for (unsigned k = 0; k < s->caches[i].aliases_count; k++) {
			if (!strcmp(s->caches[i].aliases[k], name))
				return &s->caches[i];
		}
	}
	return NULL;
}

const struct snapshot_value *snapshot_value(const struct snapshot_cache *c, const char *name)
{
	for (unsigned i = 0; i < c->count; i++) {
		if (!strcmp(c->values[i].name, name))
			return &c->values[i];
	}
	return NULL;
}

const struct snapshot_value *snapshot_stat(const struct snapshot_cache *c, enum uslub_stat which)
{
	for (unsigned i = 0; i < c->count; i++) {
		if (c->values[i].which == (int)which)
			return &c->values[i];
	}
	return NULL;
}

double snapshot_get(const struct snapshot_cache *c, enum uslub_stat which)
{
	const struct snapshot_value *v = snapshot_stat(c, which);

	return v ? v->value : 0;
}

/* ---- facts ---- */

const struct snapshot_fact *snapshot_fact(const struct snapshot *s, const char *name)
{
	for (unsigned i = 0; i < s->host_count; i++) {
		if (!strcmp(s->host[i].name, name))
			return &s->host[i];
	}
	return NULL;
}

static struct snapshot_fact *add_fact(struct snapshot *s, const char *name)
{
	struct snapshot_fact *f = append(s->host, s->host_count);

	f->name = text_name(name);
	return f;
}

void snapshot_set_number(struct snapshot *s, const char *name, double number)
{
	add_fact(s, name)->number = number;
}

void snapshot_set_text(struct snapshot *s, const char *name, const char *text)
{
	add_fact(s, name)->text = text_name(text);
}

void snapshot_set_flag(struct snapshot *s, const char *name, bool value)
{
	struct snapshot_fact *f = add_fact(s, name);

	f->number = value;
	f->boolean = true;
}
