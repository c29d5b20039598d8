/* SPDX-License-Identifier: MIT */
/*
 * Snapshot files:
 *
 *   {"format":"uslub-snapshot","version":1,"source":"process","time":1780000000.5,"host":{"pid":12,...},
 *    "caches":[{"name":"maple_node","aliases":["vm_area"],"values":{"alloc_fastpath":7,...},
 *               "nodes":{"slabs":{"0":3,"1":4},...},"cpus":{"alloc_slab":{"5":7},...},
 *               "latency":{"refill":{"sum_ns":900,"counts":[0,0,1]}}, "copied":true,"age_ns":1000}]}
 *
 * All but format, version, source and the caches' names and values may be missing; members that this
 * program does not know are ignored, so that a later one may add some without a new version.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "snapshot.h"
#include "tool.h"

#define VERSION 1

/* ---- writing ---- */

/* A whole number as one. What a double cannot tell from its neighbours is no number of anything. */
static json_t *number(double value)
{
	if (value == floor(value) && fabs(value) < 9e15)
		return json_integer((json_int_t)value);
	return json_real(value);
}

static json_t *parts_object(const struct snapshot_parts *parts)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < parts->count; i++) {
		char index[16];

		snprintf(index, sizeof(index), "%u", parts->parts[i].index);
		json_object_set_new(object, index, number(parts->parts[i].value));
	}
	return object;
}

/* The parts that one kind of place contributed to all values; NULL where none is known. */
static json_t *all_parts(const struct snapshot_cache *c, bool cpus)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < c->count; i++) {
		const struct snapshot_value *v = &c->values[i];
		const struct snapshot_parts *parts = cpus ? &v->cpus : &v->nodes;

		if (parts->count)
			json_object_set_new(object, v->name, parts_object(parts));
	}
	if (json_object_size(object))
		return object;
	json_decref(object);
	return NULL;
}

static json_t *latencies_object(const struct snapshot_cache *c)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < c->latencies_count; i++) {
		const struct snapshot_latency *l = &c->latencies[i];
		json_t *counts = json_array();

		for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++)
			json_array_append_new(counts, number(l->counts[b]));
		json_object_set_new(
			object, l->name,
			json_pack("{s:o, s:o}", "sum_ns", number(l->sum), "counts", counts));
	}
	return object;
}

static json_t *cache_object(const struct snapshot_cache *c)
{
	json_t *object = json_object(), *values = json_object();
	json_t *nodes = all_parts(c, false), *cpus = all_parts(c, true);

	json_object_set_new(object, "name", json_string(c->name));
	if (c->aliases_count) {
		json_t *aliases = json_array();

		for (unsigned i = 0; i < c->aliases_count; i++)
			json_array_append_new(aliases, json_string(c->aliases[i]));
		json_object_set_new(object, "aliases", aliases);
	}
	for (unsigned i = 0; i < c->count; i++)
		json_object_set_new(values, c->values[i].name, number(c->values[i].value));
	json_object_set_new(object, "values", values);
	if (nodes)
		json_object_set_new(object, "nodes", nodes);
	if (cpus)
		json_object_set_new(object, "cpus", cpus);
	if (c->latencies_count)
		json_object_set_new(object, "latency", latencies_object(c));
	if (c->copied) {
		json_object_set_new(object, "copied", json_true());
		json_object_set_new(object, "age_ns", number(c->age_ns));
	}
	return object;
}

static json_t *document_of(const struct snapshot *s)
{
	json_t *document = json_object(), *host = json_object(), *caches = json_array();

	json_object_set_new(document, "format", json_string("uslub-snapshot"));
	json_object_set_new(document, "version", json_integer(VERSION));
	json_object_set_new(document, "source", json_string(snapshot_source_names[s->source]));
	if (s->time)
		json_object_set_new(document, "time", number(s->time));
	for (unsigned i = 0; i < s->host_count; i++) {
		const struct snapshot_fact *f = &s->host[i];

		json_object_set_new(host, f->name,
				    f->text	 ? json_string(f->text)
				    : f->boolean ? json_boolean(f->number != 0)
						 : number(f->number));
	}
	json_object_set_new(document, "host", host);
	if (s->note)
		json_object_set_new(document, "note", json_string(s->note));
	for (unsigned i = 0; i < s->count; i++)
		json_array_append_new(caches, cache_object(&s->caches[i]));
	json_object_set_new(document, "caches", caches);
	return document;
}

int snapshot_write(const struct snapshot *s, const char *path)
{
	json_t *document = document_of(s);
	char *text = json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
	char *line;
	int error;

	json_decref(document);
	if (!text) {
		tool_error("a name in the snapshot is not UTF-8");
		return TOOL_EXIT_USAGE;
	}
	line = tool_format("%s\n", text);
	free(text);
	error = path ? tool_write_file(path, line, strlen(line))
		     : tool_print_out(line, strlen(line));
	free(line);
	return error ? TOOL_EXIT_USAGE : 0;
}

/* ---- reading ---- */

/* Fills in the parts of all values of a cache; false: not as they should be. */
static bool read_parts(struct snapshot_cache *c, const json_t *object, bool cpus)
{
	for (unsigned i = 0; i < c->count; i++) {
		struct snapshot_value *v = &c->values[i];
		json_t *parts = json_object_get(object, v->name), *part;
		const char *index;

		json_object_foreach(parts, index, part)
		{
			char *end;
			unsigned long n = strtoul(index, &end, 10);

			if (!*index || *end || n > UINT16_MAX || !json_is_number(part))
				return false;
			snapshot_parts_add(cpus ? &v->cpus : &v->nodes, (unsigned)n,
					   json_number_value(part));
		}
	}
	return true;
}

static bool read_latencies(struct snapshot_cache *c, json_t *object)
{
	const char *name;
	json_t *one;

	json_object_foreach(object, name, one)
	{
		json_t *counts = json_object_get(one, "counts");
		struct snapshot_latency *l;

		if (!json_is_array(counts) || json_array_size(counts) > SNAPSHOT_BUCKETS)
			return false;
		l = snapshot_latency_add(c, name);
		l->sum = json_number_value(json_object_get(one, "sum_ns"));
		for (size_t b = 0; b < json_array_size(counts); b++)
			l->counts[b] = json_number_value(json_array_get(counts, b));
	}
	return true;
}

/* NULL, or what is wrong with the cache. */
static const char *read_cache(struct snapshot *s, const json_t *object)
{
	const char *name = json_string_value(json_object_get(object, "name")), *metric;
	json_t *values = json_object_get(object, "values"), *value, *alias;
	struct snapshot_cache *c;
	size_t i;

	if (!name)
		return "a cache has no name";
	if (!json_is_object(values))
		return "a cache has no values";
	c = snapshot_add(s, name);
	json_object_foreach(values, metric, value)
	{
		if (json_is_null(value))
			continue;
		if (!json_is_number(value))
			return "a value is not a number";
		snapshot_cache_add(c, metric, json_number_value(value));
	}
	json_array_foreach(json_object_get(object, "aliases"), i, alias)
	{
		if (!json_is_string(alias))
			return "an alias is not a string";
		snapshot_cache_alias(c, json_string_value(alias));
	}
	if (!read_parts(c, json_object_get(object, "nodes"), false) ||
	    !read_parts(c, json_object_get(object, "cpus"), true))
		return "what nodes or CPUs contributed cannot be understood";
	if (!read_latencies(c, json_object_get(object, "latency")))
		return "latencies cannot be understood";
	c->copied = json_is_true(json_object_get(object, "copied"));
	c->age_ns = json_number_value(json_object_get(object, "age_ns"));
	return NULL;
}

static void read_host(struct snapshot *s, json_t *host)
{
	const char *name;
	json_t *fact;

	json_object_foreach(host, name, fact)
	{
		if (json_is_string(fact))
			snapshot_set_text(s, name, json_string_value(fact));
		else if (json_is_boolean(fact))
			snapshot_set_flag(s, name, json_is_true(fact));
		else if (json_is_number(fact))
			snapshot_set_number(s, name, json_number_value(fact));
	}
}

/* NULL, or what is wrong with the document. */
static const char *read_document(struct snapshot *s, const json_t *document)
{
	const char *source = json_string_value(json_object_get(document, "source")), *wrong;
	const char *note = json_string_value(json_object_get(document, "note"));
	json_t *caches = json_object_get(document, "caches"), *cache;
	size_t i;

	while (source && s->source < SNAPSHOT_SOURCES &&
	       strcmp(source, snapshot_source_names[s->source]))
		s->source++;
	if (!source || s->source == SNAPSHOT_SOURCES)
		return "its source is unknown";
	if (!json_is_array(caches))
		return "it has no list of caches";
	s->time = json_number_value(json_object_get(document, "time"));
	read_host(s, json_object_get(document, "host"));
	if (note)
		snapshot_note(s, "%s", note);
	json_array_foreach(caches, i, cache)
	{
		wrong = read_cache(s, cache);
		if (wrong)
			return wrong;
	}
	return NULL;
}

static json_t *load(const char *path)
{
	json_t *document = NULL;
	json_error_t error;
	FILE *file;

	errno = 0;
	file = strcmp(path, "-") ? fopen(path, "re") : stdin;
	if (file)
		document = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	if (!file || ferror(file))
		tool_error("%s: %s", path, strerror(errno));
	else if (!document)
		tool_error("%s is not a snapshot: line %d: %s", path, error.line, error.text);
	if (file && file != stdin)
		fclose(file);
	return document;
}

struct snapshot *snapshot_read(const char *path)
{
	json_t *document = load(path), *version;
	const char *format, *wrong = NULL;
	struct snapshot *s;

	if (!document)
		return NULL;
	s = snapshot_new(SNAPSHOT_PROCESS);
	format = json_string_value(json_object_get(document, "format"));
	version = json_object_get(document, "version");
	if (!format || strcmp(format, "uslub-snapshot"))
		tool_error("%s is not a snapshot: %s", path,
			   format ? format : "it does not say what format it has");
	else if (!json_is_integer(version) || json_integer_value(version) < 1)
		tool_error("%s is not a snapshot: it has no version", path);
	else if (json_integer_value(version) > VERSION)
		tool_error("%s: snapshot of version %" JSON_INTEGER_FORMAT
			   "; this program reads up to %d: use a newer one",
			   path, json_integer_value(version), VERSION);
	else if (!(wrong = read_document(s, document)))
		goto done;
	if (wrong)
		tool_error("%s is not a snapshot: %s", path, wrong);
	snapshot_free(s);
	s = NULL;
done:
	json_decref(document);
	if (s)
		snapshot_sort(s);
	return s;
}
