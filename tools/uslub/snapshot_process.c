/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "export_reader.h"
#include "snapshot.h"
#include "snapshot_process.h"
#include "tool.h"

/* ---- a cache -------------------------------------------------------------------------------------- */

static bool absent(const struct export_cache *entry, unsigned stat)
{
	return stat < EXPORT_STATS_MAX && entry->absent[stat / 64] >> stat % 64 & 1;
}

static void add_parts(const struct recipe *recipe, const struct export_view *v,
		      struct snapshot_value *value)
{
	const struct recipe_elements *slots = &v->view.arrays[RECIPE_COUNTERS];

	for (unsigned n = 0; recipe->by & RECIPE_BY_NODE && n < v->view.nodes; n++) {
		double part = (double)recipe_node(recipe, &v->view, n);

		if (part)
			snapshot_parts_add(&value->nodes, n, part);
	}
	for (unsigned cpu = 0; recipe->by & RECIPE_BY_CPU && cpu < slots->count; cpu++) {
		double part = (double)recipe_cpu(recipe, &v->view, cpu);

		if (part)
			snapshot_parts_add(&value->cpus, cpu, part);
	}
}

static void add_values(struct snapshot_cache *c, const struct export_reader *r,
		       const struct export_cache *entry, const struct export_view *v)
{
	for (unsigned i = 0; i < r->header.stats; i++) {
		const struct export_stat *stat = &r->stats[i];
		struct snapshot_value *value;

		if (absent(entry, i))
			continue;
		value = snapshot_cache_add(c, stat->name,
					   (double)recipe_value(&stat->recipe, &v->view));
		add_parts(&stat->recipe, v, value);
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
	struct timespec t;
	uint64_t now = r->header.ended;

	if (r->header.state != EXPORT_ENDED) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	}
	return now > entry->copied ? (double)(now - entry->copied) : 0;
}

/* What the process has copied itself. */
static void add_copies(struct snapshot_cache *c, const struct export_reader *r,
		       const struct export_cache *entry)
{
	c->copied = r->header.state != EXPORT_ENDED;
	c->age_ns = age(r, entry);
	for (unsigned i = 0; i < r->header.stats && i < EXPORT_STATS_MAX; i++) {
		if (!absent(entry, i))
			snapshot_cache_add(c, r->stats[i].name, (double)entry->values[i]);
	}
}

/* Is it still the same cache? Its memory may have become another's while it was read. */
static bool still(struct export_reader *r, unsigned n, const struct export_cache *entry)
{
	struct export_cache again;

	return export_entry(r, n, &again) && again.state == EXPORT_CACHE &&
	       again.address == entry->address && !strcmp(again.name, entry->name);
}

static void read_cache(struct export_reader *r, struct snapshot *s, unsigned n,
		       const struct export_cache *entry)
{
	struct export_view v;
	bool whole = export_view_cache(r, entry, &v);

	if (whole && still(r, n, entry)) {
		struct snapshot_cache *c = snapshot_add(s, entry->name);

		add_values(c, r, entry, &v);
		add_latencies(c, r, entry, &v);
	} else if (!whole && (!r->pid || r->memory_errno == EPERM || r->memory_errno == ENOSYS)) {
		add_copies(snapshot_add(s, entry->name), r, entry);
	}
	export_view_free(&v);
}

static void add_alias(struct export_reader *r, struct snapshot *s, const struct export_cache *alias)
{
	struct export_cache entry;

	if (alias->of >= export_entries(r) || !export_entry(r, alias->of, &entry))
		return;
	for (unsigned i = 0; i < s->count; i++) {
		if (!strcmp(s->caches[i].name, entry.name)) {
			snapshot_cache_alias(&s->caches[i], alias->name);
			return;
		}
	}
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

static void add_command(struct snapshot *s, int pid)
{
	char name[32], command[64] = "";
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/comm", pid);
	file = fopen(name, "re");
	if (file && fgets(command, sizeof(command), file)) {
		command[strcspn(command, "\n")] = 0;
		snapshot_set_text(s, "command", command);
	}
	if (file)
		fclose(file);
}

static void add_facts(struct export_reader *r, struct snapshot *s)
{
	const struct export_header *h = &r->header;
	struct export_view v;
	bool readable;

	snapshot_set_number(s, "pid", r->pid ? r->pid : (int)h->pid);
	if (r->pid)
		add_command(s, r->pid);
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
	struct snapshot *s = snapshot_new(SNAPSHOT_PROCESS);
	struct export_cache entry;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	s->time = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
	for (unsigned i = 0; i < export_entries(r); i++) {
		if (export_entry(r, i, &entry) && entry.state == EXPORT_CACHE)
			read_cache(r, s, i, &entry);
	}
	for (unsigned i = 0; i < export_entries(r); i++) {
		if (export_entry(r, i, &entry) && entry.state == EXPORT_ALIAS)
			add_alias(r, s, &entry);
	}
	add_facts(r, s);
	add_notes(r, s);
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
	if (r.memory_errno == ESRCH && !s->count) {
		tool_error("process %d has ended", r.pid);
		snapshot_free(s);
		s = NULL;
	}
	export_close(&r);
	return s;
}
