/* SPDX-License-Identifier: MIT */
/*
 * All values in the text format of OpenMetrics 1.0.
 *
 * Every statistic is a family, and all samples of a family stand together, so that the caches are
 * walked once for each. Parts of nodes are samples of their own where they add up to the whole;
 * those of CPUs only when asked for, since they are many. A family of values that this program
 * does not know has no TYPE, which makes it unknown; the word itself would be an error for
 * readers of Prometheus' older format, which is this one but for such details. There are no
 * timestamps, which node_exporter refuses.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "info.h"
#include "text.h"
#include "tool.h"

/*
 * struct family - what its samples have in common
 * @name: without a suffix
 * @suffix: of the samples' name
 * @scale: from the statistic's unit to the family's
 * @by_node: it has samples for every node
 */
struct family {
	const char *name;
	const char *suffix;
	double scale;
	bool by_node;
};

/*
 * struct metrics - what is written
 * @prefix: of the names of families
 * @used: names of families that were written
 * @nodes: all that are known
 */
struct metrics {
	const struct info *info;
	FILE *out;
	const char *prefix;
	char **used;
	unsigned used_count;
	unsigned *nodes;
	unsigned nodes_count;
};

/* ---- text ---- */

static void print_escaped(FILE *out, const char *text)
{
	char *valid = text_utf8(text);

	for (const char *c = valid; *c; c++) {
		if (*c == '\n')
			fputs("\\n", out);
		else if (*c == '\\' || *c == '"')
			fprintf(out, "\\%c", *c);
		else
			fputc(*c, out);
	}
	free(valid);
}

static void print_label(const struct metrics *m, const char *name, const char *value, bool first)
{
	fprintf(m->out, "%s%s=\"", first ? "" : ",", name);
	print_escaped(m->out, value);
	fputc('"', m->out);
}

/* Caches of a process may have the same name: from the second on they have a number, too. */
static void print_cache(const struct metrics *m, const struct snapshot_cache *c, bool first)
{
	const struct snapshot_cache *same = c;

	while (same > m->info->snapshot->caches && !strcmp(same[-1].name, c->name))
		same--;
	print_label(m, "cache", c->name, first);
	if (c > same)
		fprintf(m->out, ",number=\"%u\"", (unsigned)(c - same) + 1);
}

/* The labels that the user wants everywhere; returns whether there is none before the next one. */
static bool print_own_labels(const struct metrics *m)
{
	const struct info_options *o = m->info->options;

	for (unsigned i = 0; i < o->labels_count; i++) {
		size_t length = strcspn(o->labels[i], "=");
		char *name = tool_format("%.*s", (int)length, o->labels[i]);

		print_label(m, name, o->labels[i] + length + 1, !i);
		free(name);
	}
	return !o->labels_count;
}

static void print_number(FILE *out, double number)
{
	char *text = info_digits(number);

	fprintf(out, " %s\n", text);
	free(text);
}

/*
 * Prints a sample. @label and @value are one more label, or NULL. A counter below 0 is none, and would
 * make the whole document unreadable.
 */
static void print_sample(const struct metrics *m, const struct family *f, const char *suffix,
			 const struct snapshot_cache *c, const char *label, const char *value,
			 double number)
{
	if (*f->suffix && number < 0)
		return;
	fprintf(m->out, "%s%s", f->name, suffix);
	if (c || m->info->options->labels_count) {
		bool first;

		fputc('{', m->out);
		first = print_own_labels(m);
		if (c)
			print_cache(m, c, first);
		if (label)
			print_label(m, label, value, false);
		fputc('}', m->out);
	}
	print_number(m->out, number);
}

/* Whether the name is that of a family, or of samples that a family may have. */
static bool is_used(const struct metrics *m, const char *name)
{
	static const char *const suffixes[] = { "", "_total", "_bucket", "_count", "_sum" };

	for (unsigned i = 0; i < m->used_count; i++) {
		size_t length = strlen(m->used[i]);

		if (strncmp(m->used[i], name, length))
			continue;
		for (unsigned k = 0; k < TOOL_COUNT(suffixes); k++) {
			if (!strcmp(name + length, suffixes[k]))
				return true;
		}
	}
	return false;
}

/* The name of a family: of characters that are allowed, and of no other family. */
static char *family_name(struct metrics *m, const char *stat, const char *unit)
{
	char *name, *plain = tool_format("%s%s", m->prefix, stat), *base;
	size_t length;

	for (char *c = plain; *c; c++) {
		if (!isalnum((unsigned char)*c) && *c != '_')
			*c = '_';
	}
	length = strlen(plain);
	/* What the name says of the unit gives way to the base unit. */
	if (!strcmp(unit, "seconds") && length > 3 && !strcmp(plain + length - 3, "_ns"))
		plain[length - 3] = '\0';
	length = strlen(plain);
	if (!*unit || (length > 6 && !strcmp(plain + length - 6, "_bytes")))
		base = tool_copy(plain);
	else
		base = tool_format("%s_%s", plain, unit);
	name = tool_copy(base);
	for (unsigned i = 2; is_used(m, name); i++) {
		free(name);
		name = tool_format("%s_%u", base, i);
	}
	free(base);
	free(plain);
	m->used = tool_grow(m->used, m->used_count + 1, sizeof(*m->used));
	m->used[m->used_count++] = name;
	return name;
}

/* @type may be NULL: unknown */
static void print_head(const struct metrics *m, const char *name, const char *type,
		       const char *unit, const char *help)
{
	if (type)
		fprintf(m->out, "# TYPE %s %s\n", name, type);
	if (*unit)
		fprintf(m->out, "# UNIT %s %s\n", name, unit);
	fprintf(m->out, "# HELP %s ", name);
	print_escaped(m->out, help);
	fputc('\n', m->out);
}

/* ---- statistics ---- */

static const char *unit_of(const char *stat)
{
	static const char *const in_bytes[] = { "align", "object_size", "slab_size", "usersize" };
	size_t length = strlen(stat);

	for (unsigned i = 0; i < TOOL_COUNT(in_bytes); i++) {
		if (!strcmp(stat, in_bytes[i]))
			return "bytes";
	}
	if (length > 6 && !strcmp(stat + length - 6, "_bytes"))
		return "bytes";
	if (length > 3 && !strcmp(stat + length - 3, "_ns"))
		return "seconds";
	return "";
}

/* What is always 0 in a process need not be in a kernel. */
static const char *help_of(const struct info *info, enum uslub_stat stat)
{
	static const char always[] = "always 0; ";
	const char *help = uslub_stat_help(stat);

	if (info->snapshot->source == SNAPSHOT_KERNEL && !strncmp(help, always, strlen(always)))
		return help + strlen(always);
	return help;
}

static double sum_of(const struct snapshot_parts *parts)
{
	double sum = 0;

	for (unsigned i = 0; i < parts->count; i++)
		sum += parts->parts[i].value;
	return sum;
}

static void print_part(const struct metrics *m, const struct family *f,
		       const struct snapshot_cache *c, const char *label, unsigned index,
		       double number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", index);
	print_sample(m, f, f->suffix, c, label, text, number * f->scale);
}

/* Every node has a sample, also where it has nothing, so that no series comes and goes. */
static void print_value(const struct metrics *m, const struct family *f,
			const struct snapshot_cache *c, const struct snapshot_value *v)
{
	bool cpus = v->cpus.count && m->info->options->view == INFO_CPUS;
	struct info_row row = { .info = m->info, .cache = c, .place = INFO_NODE };

	if (cpus && sum_of(&v->cpus) == v->value) {
		for (unsigned i = 0; i < v->cpus.count; i++)
			print_part(m, f, c, "cpu", v->cpus.parts[i].index, v->cpus.parts[i].value);
	} else if (f->by_node && sum_of(&v->nodes) == v->value) {
		for (unsigned i = 0; i < m->nodes_count; i++) {
			row.index = m->nodes[i];
			print_part(m, f, c, "node", row.index, info_value(&row, v->name));
		}
	} else {
		print_sample(m, f, f->suffix, c, NULL, NULL, v->value * f->scale);
	}
}

/* Whether any cache has parts by node of a statistic. */
static bool is_by_node(const struct info *info, const char *stat)
{
	for (unsigned i = 0; i < info->snapshot->count; i++) {
		const struct snapshot_value *v = snapshot_value(&info->snapshot->caches[i], stat);

		if (v && v->nodes.count)
			return true;
	}
	return false;
}

/* The family of one statistic; nothing where no cache has it. */
static void print_family(struct metrics *m, const char *stat, int which)
{
	const struct info *info = m->info;
	int kind = which < 0 ? -1 : uslub_stat_kind((enum uslub_stat)which);
	bool counter = kind == USLUB_STAT_KIND_COUNTER || kind == USLUB_STAT_KIND_DERIVED;
	const char *unit = unit_of(stat);
	struct family f = {
		.suffix = counter ? "_total" : "",
		.scale = strcmp(unit, "seconds") ? 1 : 1e-9,
		.by_node = is_by_node(info, stat),
	};

	for (unsigned i = 0; i < info->count; i++) {
		const struct snapshot_value *v = snapshot_value(info->caches[i], stat);

		if (!v)
			continue;
		if (!f.name) {
			f.name = family_name(m, stat, unit);
			print_head(m, f.name,
				   which < 0 ? NULL
				   : counter ? "counter"
					     : "gauge",
				   unit,
				   which < 0 ? "a statistic that this program does not know"
					     : help_of(info, (enum uslub_stat)which));
		}
		print_value(m, &f, info->caches[i], v);
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_unknown(struct metrics *m)
{
	const struct info *info = m->info;
	const char **names = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < info->count; i++) {
		const struct snapshot_cache *c = info->caches[i];

		for (unsigned k = 0; k < c->count; k++) {
			if (c->values[k].which >= 0)
				continue;
			names = tool_grow(names, n + 1, sizeof(*names));
			names[n++] = c->values[k].name;
		}
	}
	if (n)
		qsort(names, n, sizeof(*names), by_text);
	for (unsigned i = 0; i < n; i++) {
		if (!i || strcmp(names[i - 1], names[i]))
			print_family(m, names[i], -1);
	}
	free(names);
}

/* ---- what is no statistic ---- */

static void print_latency(const struct metrics *m, const struct family *f,
			  const struct snapshot_cache *c, const struct snapshot_latency *l)
{
	double count = 0;
	char le[32];

	for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++) {
		count += l->counts[b];
		if (b == SNAPSHOT_BUCKETS - 1)
			snprintf(le, sizeof(le), "+Inf");
		else
			snprintf(le, sizeof(le), "%.10g", ldexp(1, (int)b + 1) / 1e9);
		fprintf(m->out, "%s_bucket{", f->name);
		print_cache(m, c, print_own_labels(m));
		print_label(m, "path", l->name, false);
		print_label(m, "le", le, false);
		fputc('}', m->out);
		print_number(m->out, count);
	}
	print_sample(m, f, "_count", c, "path", l->name, count);
	print_sample(m, f, "_sum", c, "path", l->name, l->sum / 1e9);
}

static bool is_sound(const struct snapshot_latency *l)
{
	for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++) {
		if (l->counts[b] < 0)
			return false;
	}
	return l->sum >= 0;
}

static void print_latencies(struct metrics *m)
{
	struct family f = { .suffix = "" };

	for (unsigned i = 0; i < m->info->count; i++) {
		const struct snapshot_cache *c = m->info->caches[i];

		for (unsigned k = 0; k < c->latencies_count; k++) {
			if (!is_sound(&c->latencies[k]))
				continue;
			if (!f.name) {
				f.name = family_name(m, "latency", "seconds");
				print_head(m, f.name, "histogram", "seconds",
					   "times of slow paths, by path");
			}
			print_latency(m, &f, c, &c->latencies[k]);
		}
	}
}

static void print_ages(struct metrics *m)
{
	struct family f = { .suffix = "" };

	for (unsigned i = 0; i < m->info->count; i++) {
		const struct snapshot_cache *c = m->info->caches[i];

		if (!c->copied)
			continue;
		if (!f.name) {
			f.name = family_name(m, "copy_age", "seconds");
			print_head(m, f.name, "gauge", "seconds",
				   "age of the copy that a process made of its own figures");
		}
		print_sample(m, &f, "", c, NULL, NULL, c->age_ns / 1e9);
	}
}

static void print_facts(struct metrics *m)
{
	static const struct {
		const char *fact, *name, *help;
	} facts[] = {
		{ "memory_used", "uslub_memory_used_bytes", "memory in slabs and large sheaves" },
		{ "memory_large", "uslub_memory_large_bytes",
		  "of the former: in large sizes of malloc" },
		{ "memory_mapped", "uslub_memory_mapped_bytes",
		  "memory in mappings that malloc made for a single size" },
		{ "memory_retained", "uslub_memory_retained_bytes", "free pages that are kept" },
		{ "memory_metadata", "uslub_memory_metadata_bytes",
		  "memory for the allocator's bookkeeping" },
		{ "rss", "uslub_process_resident_bytes", "memory of the process in RAM" },
	};

	for (unsigned i = 0; i < TOOL_COUNT(facts); i++) {
		struct family f = { .name = facts[i].name, .suffix = "" };
		double number = info_fact(m->info, facts[i].fact);

		if (isnan(number))
			continue;
		print_head(m, f.name, "gauge", "bytes", facts[i].help);
		print_sample(m, &f, "", NULL, NULL, NULL, number);
	}
}

void info_openmetrics(const struct info *info, FILE *out)
{
	struct metrics m = {
		.info = info,
		.out = out,
		.prefix = info->snapshot->source == SNAPSHOT_KERNEL ? "kernel_slab_"
								    : "uslub_cache_",
	};

	m.nodes_count = info_places(info->snapshot->caches, info->snapshot->count, INFO_NODE,
				    &m.nodes);
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		print_family(&m, uslub_stat_name((enum uslub_stat)i), (int)i);
	print_latencies(&m);
	print_ages(&m);
	print_unknown(&m);
	print_facts(&m);
	fputs("# EOF\n", out);
	if (info->snapshot->note)
		info_say(info->snapshot->note);
	for (unsigned i = 0; i < m.used_count; i++)
		free(m.used[i]);
	free(m.used);
	free(m.nodes);
}
