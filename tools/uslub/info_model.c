/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include "info.h"
#include "tool.h"

/* ---- values ---- */

/* What does not depend on a place. */
static bool same_everywhere(const struct snapshot_value *v)
{
	int kind = v->which < 0 ? -1 : uslub_stat_kind((enum uslub_stat)v->which);

	return kind == USLUB_STAT_KIND_ATTRIBUTE || kind == USLUB_STAT_KIND_FLAG;
}

static const struct snapshot_parts *parts_of(const struct snapshot_value *v, enum info_place place)
{
	return place == INFO_NODE ? &v->nodes : &v->cpus;
}

/*
 * Parts that are 0 are left out, so that an index that is not there is 0 when others are. Where there
 * are none, either all is 0, or nobody knows.
 */
static double part_of(const struct snapshot_value *v, enum info_place place, unsigned index)
{
	const struct snapshot_parts *parts = parts_of(v, place);

	for (unsigned i = 0; i < parts->count; i++) {
		if (parts->parts[i].index == index)
			return parts->parts[i].value;
	}
	return parts->count || v->value == 0 ? 0 : NAN;
}

double info_value(const struct info_row *row, const char *name)
{
	const struct snapshot_value *v = snapshot_value(row->cache, name);

	if (!v)
		return NAN;
	if (row->place == INFO_WHOLE || same_everywhere(v))
		return v->value;
	return part_of(v, row->place, row->index);
}

double info_fact(const struct info *info, const char *name)
{
	const struct snapshot_fact *f = snapshot_fact(info->snapshot, name);

	return f && !f->text ? f->number : NAN;
}

static int by_index(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

/* Adds the indices of a cache to a list; returns how long it is then. */
static unsigned add_places(const struct snapshot_cache *c, enum info_place place, unsigned n,
			   unsigned **list)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct snapshot_parts *parts = parts_of(&c->values[i], place);

		*list = tool_grow(*list, n + parts->count + 1, sizeof(**list));
		for (unsigned k = 0; k < parts->count; k++)
			(*list)[n++] = parts->parts[k].index;
	}
	return n;
}

/* What is there several times stays once. */
static unsigned distinct(unsigned list[], unsigned n)
{
	unsigned kept = 0;

	if (n)
		qsort(list, n, sizeof(*list), by_index);
	for (unsigned i = 0; i < n; i++) {
		if (!kept || list[kept - 1] != list[i])
			list[kept++] = list[i];
	}
	return kept;
}

unsigned info_places(const struct snapshot_cache *caches, unsigned count, enum info_place place,
		     unsigned **indices)
{
	unsigned n = 0;

	*indices = NULL;
	for (unsigned i = 0; i < count; i++)
		n = distinct(*indices, add_places(&caches[i], place, n, indices));
	return n;
}

double info_ratio(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : NAN;
}

double info_space(const struct info_row *row)
{
	return info_value(row, "slabs") * row->info->page_size * exp2(info_value(row, "order"));
}

double info_used(const struct info_row *row)
{
	return info_value(row, "objects") * info_value(row, "object_size");
}

double info_loss(const struct info_row *row)
{
	return info_space(row) - info_used(row);
}

double info_alloc(const struct info_row *row)
{
	return info_value(row, "alloc_fastpath") + info_value(row, "alloc_slowpath");
}

double info_free(const struct info_row *row)
{
	return info_value(row, "free_fastpath") + info_value(row, "free_slowpath");
}

double info_partial_percent(const struct info_row *row)
{
	return info_ratio(info_value(row, "partial"), info_value(row, "slabs"));
}

double info_used_percent(const struct info_row *row)
{
	return info_ratio(info_used(row), info_space(row));
}

double info_measure(const struct info_row *row, const struct info_measure *measure)
{
	return measure->number ? measure->number(row) : info_value(row, measure->stat);
}

/* ---- names ---- */

const char *info_name(const struct info *info, const struct snapshot_cache *c)
{
	if (c->name[0] == ':' &&
	    (c->aliases_count == 1 || (c->aliases_count && info->options->first_alias)))
		return c->aliases[0];
	return c->name;
}

char *info_flags(const struct snapshot_cache *c)
{
	static const struct {
		char letter;
		enum uslub_stat stat;
	} letters[] = {
		{ '*', USLUB_STAT_aliases },	     { 'd', USLUB_STAT_cache_dma },
		{ 'A', USLUB_STAT_hwcache_align },   { 'P', USLUB_STAT_poison },
		{ 'a', USLUB_STAT_reclaim_account }, { 'Z', USLUB_STAT_red_zone },
		{ 'F', USLUB_STAT_sanity_checks },   { 'U', USLUB_STAT_store_user },
		{ 'T', USLUB_STAT_trace },
	};
	char *text = tool_alloc(TOOL_COUNT(letters) + 1, 1), *end = text;
	bool known = false;

	for (unsigned i = 0; i < TOOL_COUNT(letters); i++) {
		const struct snapshot_value *v = snapshot_stat(c, letters[i].stat);

		known = known || v;
		if (v && v->value)
			*end++ = letters[i].letter;
	}
	if (known)
		return text;
	free(text);
	return NULL;
}

/* ---- which caches ---- */

static bool matches(const regex_t *regex, const struct snapshot_cache *c)
{
	if (!regexec(regex, c->name, 0, NULL, 0))
		return true;
	for (unsigned i = 0; i < c->aliases_count; i++) {
		if (!regexec(regex, c->aliases[i], 0, NULL, 0))
			return true;
	}
	return false;
}

static int match_all(struct info *info)
{
	const char *pattern = info->options->pattern;
	regex_t regex;
	int error;

	if (pattern) {
		error = regcomp(&regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
		if (error) {
			char why[128];

			regerror(error, &regex, why, sizeof(why));
			tool_error("'%s' is no regular expression: %s", pattern, why);
			return TOOL_EXIT_USAGE;
		}
	}
	info->caches = tool_alloc(info->snapshot->count, sizeof(*info->caches));
	for (unsigned i = 0; i < info->snapshot->count; i++) {
		const struct snapshot_cache *c = &info->snapshot->caches[i];

		if (!pattern || matches(&regex, c))
			info->caches[info->count++] = c;
	}
	if (pattern)
		regfree(&regex);
	info->matched = info->count;
	if (info->count)
		return 0;
	if (pattern)
		tool_error("no cache matches '%s'; uslub info -l -z lists all %u", pattern,
			   info->snapshot->count);
	else
		tool_error("there are no caches");
	return TOOL_EXIT_NO;
}

/* Whether the options let a cache through that the expression matched. */
static bool wanted(const struct info *info, const struct snapshot_cache *c, bool with_empty)
{
	const struct snapshot_value *slabs = snapshot_stat(c, USLUB_STAT_slabs);
	bool empty = slabs && slabs->value == 0;

	if (info->options->unreclaimable && snapshot_get(c, USLUB_STAT_reclaim_account))
		return false;
	if (info->options->only_empty)
		return empty;
	return !empty || with_empty;
}

/* Views in which a cache without slabs has a place. A series that comes and goes is none. */
static bool shows_empty(const struct info *info)
{
	return info->options->with_empty || info->options->form == INFO_OPENMETRICS ||
	       info->view == INFO_ALIASES || info->view == INFO_SHRINK ||
	       info->view == INFO_VALIDATE ||
	       (info->options->pattern && info->matched == 1 && info->view == INFO_REPORT);
}

/*
 * The size of a page of a machine whose copied files do not tell it: as many objects as fit into a
 * slab are in it, so that only one power of two can be the size of the slab.
 */
static double guess_page_size(const struct snapshot *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct snapshot_cache *c = &s->caches[i];
		const struct snapshot_value *order = snapshot_stat(c, USLUB_STAT_order);
		double size = snapshot_get(c, USLUB_STAT_slab_size);
		double n = snapshot_get(c, USLUB_STAT_objs_per_slab), slab;

		if (!order || size <= 0 || n <= 0)
			continue;
		slab = exp2(ceil(log2(n * size)));
		if (slab < (n + 1) * size)
			return slab / exp2(order->value);
	}
	return NAN;
}

int info_choose(struct info *info)
{
	const struct info_options *o = info->options;
	unsigned kept = 0;
	bool with_empty;
	int error;

	info->page_size = info_fact(info, "page_size");
	if (isnan(info->page_size))
		info->page_size = guess_page_size(info->snapshot);
	error = match_all(info);
	if (error)
		return error;
	info->view = o->view;
	if (info->view == INFO_AUTO)
		info->view = o->pattern && info->matched == 1 ? INFO_REPORT : INFO_LIST;
	with_empty = shows_empty(info);
	for (unsigned i = 0; i < info->count; i++) {
		if (wanted(info, info->caches[i], with_empty))
			info->caches[kept++] = info->caches[i];
	}
	info->count = kept;
	info_sort(info, o->sort);
	return 0;
}

/* ---- order ---- */

static double sort_key(const struct info *info, const struct snapshot_cache *c, enum info_sort sort)
{
	struct info_row row = { .info = info, .cache = c };

	switch (sort) {
	case INFO_BY_ACTIVITY:
		return info_alloc(&row) + info_free(&row);
	case INFO_BY_LOSS:
		return info_loss(&row);
	case INFO_BY_PARTIAL:
		return info_value(&row, "partial");
	case INFO_BY_SIZE:
		return info_space(&row);
	default:
		return 0;
	}
}

struct sorted {
	const struct snapshot_cache *cache;
	const char *name;
	double key;
};

/* The largest number first, one that is not known last; then by name. */
static int by_key(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (isnan(x->key) != isnan(y->key))
		return isnan(x->key) - isnan(y->key);
	if (x->key != y->key && !isnan(x->key))
		return x->key < y->key ? 1 : -1;
	return strcmp(x->name, y->name);
}

void info_sort(struct info *info, enum info_sort sort)
{
	struct sorted *list = tool_alloc(info->count, sizeof(*list));
	bool inverted = info->options->inverted && info->view != INFO_ALIASES;
	unsigned known = 0;

	for (unsigned i = 0; i < info->count; i++) {
		list[i].cache = info->caches[i];
		list[i].name = info_name(info, info->caches[i]);
		list[i].key = sort_key(info, info->caches[i], sort);
	}
	if (info->count)
		qsort(list, info->count, sizeof(*list), by_key);
	while (known < info->count && !isnan(list[known].key))
		known++;
	for (unsigned i = 0; i < info->count; i++) {
		unsigned from = inverted && i < known ? known - 1 - i : i;

		info->caches[i] = list[from].cache;
	}
	free(list);
}
