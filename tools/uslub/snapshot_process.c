/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "export_reader.h"
#include "snapshot.h"
#include "snapshot_process.h"
#include "tool.h"

/* ---- a cache -------------------------------------------------------------------------------------- */

#define PARTS_MOST (8u << 20) /* of a snapshot: 200 caches on 384 CPUs have half of it */

/*
 * struct reading - a snapshot in the making
 * @parts: so far
 * @places: of each entry, the number of its cache in the snapshot + 1, or 0
 */
struct reading {
	struct export_reader *r;
	struct snapshot *s;
	unsigned parts;
	unsigned *places;
};

static bool absent(const struct export_cache *entry, unsigned stat)
{
	return stat < EXPORT_STATS_MAX && entry->absent[stat / 64] >> stat % 64 & 1;
}

static void add_part(struct reading *reading, struct snapshot_parts *parts, unsigned index,
		     uint64_t value)
{
	if (!value || reading->parts == PARTS_MOST)
		return;
	reading->parts++;
	snapshot_parts_add(parts, index, (double)value);
}

static void add_parts(struct reading *reading, const struct recipe *recipe,
		      const struct export_view *v, struct snapshot_value *value)
{
	const struct recipe_elements *slots = &v->view.arrays[RECIPE_COUNTERS];

	for (unsigned n = 0; recipe->by & RECIPE_BY_NODE && n < v->view.nodes; n++)
		add_part(reading, &value->nodes, n, recipe_node(recipe, &v->view, n));
	for (unsigned cpu = 0; recipe->by & RECIPE_BY_CPU && cpu < slots->count; cpu++)
		add_part(reading, &value->cpus, cpu, recipe_cpu(recipe, &v->view, cpu));
}

static void add_values(struct reading *reading, struct snapshot_cache *c,
		       const struct export_cache *entry, const struct export_view *v)
{
	const struct export_reader *r = reading->r;

	for (unsigned i = 0; i < r->header.stats; i++) {
		const struct export_stat *stat = &r->stats[i];
		struct snapshot_value *value;

		if (!*stat->name || absent(entry, i))
			continue;
		value = snapshot_cache_add(c, stat->name,
					   (double)recipe_value(&stat->recipe, &v->view));
		add_parts(reading, &stat->recipe, v, value);
	}
}

/* The sum over slots of a word of a histogram; 0 where there is none. */
static double histogram_word(const struct export_view *v, uint64_t offset)
{
	const struct recipe_term term = { .array = RECIPE_COUNTERS,
					  .width = 8,
					  .offset = (uint32_t)offset };
	const struct recipe sum = { .kind = RECIPE_SUM, .nterms = 1, .terms = { term } };

	return offset > UINT32_MAX ? 0 : (double)recipe_value(&sum, &v->view);
}

static void add_latencies(struct snapshot_cache *c, const struct export_reader *r,
			  const struct export_cache *entry, const struct export_view *v)
{
	uint64_t at = entry->latency;
	unsigned buckets = r->header.latency_words ? r->header.latency_words - 1 : 0;

	for (unsigned i = 0; at && i < r->header.latencies; i++) {
		struct snapshot_latency *l = snapshot_latency_add(c, r->latencies[i].name);

		for (unsigned b = 0; b < buckets; b++, at += 8)
			l->counts[b < SNAPSHOT_BUCKETS ? b : SNAPSHOT_BUCKETS - 1] +=
				histogram_word(v, at);
		l->sum = histogram_word(v, at);
		at += 8;
	}
}

static double age(const struct export_reader *r, const struct export_cache *entry)
{
	uint64_t now = r->header.state == EXPORT_ENDED ? r->header.ended : tool_now_ns();

	return now > entry->copied ? (double)(now - entry->copied) : 0;
}

/* What the process has copied itself. */
static void add_copies(struct snapshot_cache *c, struct export_reader *r, unsigned n)
{
	struct export_cache copies, *entry = &copies;

	if (!export_copies(r, n, entry))
		return;
	c->copied = r->header.state != EXPORT_ENDED;
	c->age_ns = age(r, entry);
	for (unsigned i = 0; i < r->header.stats && i < EXPORT_STATS_MAX && entry->copied; i++) {
		if (*r->stats[i].name && !absent(entry, i))
			snapshot_cache_add(c, r->stats[i].name, (double)entry->values[i]);
	}
}

/* Is it still the same cache? Its memory may have become another's while it was read. */
static bool still(struct export_reader *r, unsigned n, const struct export_cache *entry)
{
	struct export_cache again;

	return export_entry(r, n, &again) && again.state == EXPORT_CACHE &&
	       again.number == entry->number && again.address == entry->address;
}

static void read_cache(struct reading *reading, unsigned n, const struct export_cache *entry)
{
	struct export_reader *r = reading->r;
	struct snapshot_cache *c = NULL;
	struct export_view v;
	bool whole = export_view_cache(r, entry, &v);

	if (whole && still(r, n, entry)) {
		c = snapshot_add(reading->s, entry->name);
		add_values(reading, c, entry, &v);
		add_latencies(c, r, entry, &v);
	} else if (!whole && (!r->pid || r->memory_errno == EPERM || r->memory_errno == ENOSYS)) {
		c = snapshot_add(reading->s, entry->name);
		add_copies(c, r, n);
	}
	if (c)
		reading->places[n] = reading->s->count;
	export_view_free(&v);
}

static void add_alias(struct reading *reading, const struct export_cache *alias)
{
	unsigned of = alias->of < export_entries(reading->r) ? reading->places[alias->of] : 0;

	if (of)
		snapshot_cache_alias(&reading->s->caches[of - 1], alias->name);
}

/* An alias may come before its cache. */
static void read_caches(struct reading *reading)
{
	struct export_reader *r = reading->r;
	struct export_cache *aliases = NULL, entry;
	unsigned n = 0;

	for (unsigned i = 0; i < export_entries(r); i++) {
		if (!export_entry(r, i, &entry))
			continue;
		if (entry.state == EXPORT_CACHE) {
			read_cache(reading, i, &entry);
		} else if (entry.state == EXPORT_ALIAS) {
			aliases = tool_grow(aliases, n + 1, sizeof(*aliases));
			aliases[n++] = entry;
		}
	}
	for (unsigned i = 0; i < n; i++)
		add_alias(reading, &aliases[i]);
	free(aliases);
}

/* ---- the process ---------------------------------------------------------------------------------- */

static double resident_bytes(int pid)
{
	char name[32];
	unsigned long pages = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/statm", pid);
	file = fopen(name, "re");
	if (file && fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void add_facts(struct export_reader *r, struct snapshot *s)
{
	const struct export_header *h = &r->header;
	struct export_view v;
	char command[64];
	bool readable;

	snapshot_set_number(s, "pid", r->pid ? r->pid : (int)h->pid);
	if (r->pid && export_command(r->pid, command, sizeof(command)))
		snapshot_set_text(s, "command", command);
	snapshot_set_number(s, "cpus", h->cpus);
	snapshot_set_number(s, "nodes", h->nodes);
	snapshot_set_number(s, "page_size", h->page_size);
	snapshot_set_flag(s, "rseq", h->rseq);
	if (r->pid)
		snapshot_set_number(s, "rss", resident_bytes(r->pid));
	readable = export_view_figures(r, &v);
	for (unsigned i = 0; i < h->figures && i < EXPORT_FIGURES_MAX; i++) {
		const struct export_stat *figure = &r->stats[h->stats + i];

		snapshot_set_number(s, figure->name,
				    (double)(readable ? recipe_value(&figure->recipe, &v.view)
						      : h->figure_values[i]));
	}
	export_view_free(&v);
}

static void add_notes(const struct export_reader *r, struct snapshot *s)
{
	if (r->header.caches_missing)
		snapshot_note(s, "%u names of caches found no place in what the process shows",
			      r->header.caches_missing);
	if (r->pid && r->memory_errno == ESRCH)
		snapshot_note(s, "process %d has ended while it was read", r->pid);
	else if (r->pid && r->memory_errno)
		snapshot_note(s,
			      "the memory of process %d must not be read (%s): the figures are "
			      "copies that it made itself a while ago",
			      r->pid, strerror(r->memory_errno));
}

struct snapshot *snapshot_export(struct export_reader *r)
{
	struct reading reading = { .r = r, .s = snapshot_new(SNAPSHOT_PROCESS) };
	struct snapshot *s = reading.s;

	s->time = tool_time();
	reading.places = tool_alloc(export_entries(r), sizeof(*reading.places));
	read_caches(&reading);
	free(reading.places);
	add_facts(r, s);
	add_notes(r, s);
	if (reading.parts == PARTS_MOST)
		snapshot_note(s, "what CPUs and nodes have is left out of some values");
	snapshot_set_number(s, "read_calls", (double)r->calls);
	snapshot_set_number(s, "read_bytes", (double)r->bytes);
	snapshot_set_number(s, "read_lines", (double)r->lines);
	snapshot_sort(s);
	return s;
}

struct snapshot *snapshot_process(int pid)
{
	struct export_reader r;
	struct snapshot *s;

	if (!export_open(&r, pid))
		return NULL;
	s = snapshot_export(&r);
	/* What was read of a process that is another by now, or none, may be anything. */
	if (!export_same(&r)) {
		tool_error("process %d has ended, or executed another program, while it was read",
			   r.pid);
		snapshot_free(s);
		s = NULL;
	}
	export_close(&r);
	return s;
}
