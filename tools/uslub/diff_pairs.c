/* SPDX-License-Identifier: MIT */
/*
 * Which caches of two snapshots belong together, and what there is to say about them.
 *
 * Caches are the same by name. The kernel merges caches and gives the result any of their names, so a name
 * that is not found may be an alias on the other side. Names of a process's caches need not differ; several
 * of the same name belong together in their order.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "diff.h"
#include "snapshot_rows.h"
#include "tool.h"

const char *const diff_labels[DIFF_SIDES] = { "before", "after" };

/* ---- Caches ---- */

/* The cache of that name that has @nth others of it before; NULL: none. */
static const struct snapshot_cache *named(const struct snapshot *s, const char *name, unsigned nth)
{
	for (unsigned i = 0; i < s->count; i++) {
		if (!strcmp(s->caches[i].name, name) && !nth--)
			return &s->caches[i];
	}
	return NULL;
}

/* How many caches before the @at-th have its name. */
static unsigned namesakes(const struct snapshot *s, unsigned at)
{
	unsigned n = 0;

	for (unsigned i = 0; i < at; i++)
		n += !strcmp(s->caches[i].name, s->caches[at].name);
	return n;
}

/*
 * The cache of @other that belongs to the @at-th of @s; NULL: none. One that is known under another name
 * belongs to that name when both sides have it.
 */
static const struct snapshot_cache *partner(const struct snapshot *s, unsigned at,
					    const struct snapshot *other)
{
	const struct snapshot_cache *c = &s->caches[at];
	const struct snapshot_cache *found = named(other, c->name, namesakes(s, at));

	if (found || named(other, c->name, 0))
		return found;
	found = snapshot_find(other, c->name);
	for (unsigned i = 0; i < c->aliases_count && !found; i++)
		found = named(other, c->aliases[i], 0);
	return found && !named(s, found->name, 0) ? found : NULL;
}

static bool matches(const char *pattern, const struct snapshot_cache *c)
{
	bool found = !strcmp(pattern, c->name) || !fnmatch(pattern, c->name, 0);

	for (unsigned i = 0; i < c->aliases_count && !found; i++)
		found = !strcmp(pattern, c->aliases[i]) || !fnmatch(pattern, c->aliases[i], 0);
	return found;
}

static bool wanted(const struct diff_options *o, const struct snapshot_cache *c)
{
	for (unsigned i = 0; i < o->caches_count; i++) {
		if (matches(o->caches[i], c))
			return true;
	}
	return !o->caches_count;
}

static bool matches_any(const char *pattern, const struct snapshot *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		if (matches(pattern, &s->caches[i]))
			return true;
	}
	return false;
}

/* ---- Rows ---- */

/* Whether some value that both have is another. */
static bool changed(const struct snapshot_cache *before, const struct snapshot_cache *after)
{
	for (unsigned i = 0; i < before->count; i++) {
		const struct snapshot_value *v = snapshot_value(after, before->values[i].name);

		if (v && v->value != before->values[i].value)
			return true;
	}
	return false;
}

/* ---- All of it ---- */

static void add_note(struct diff *d, char *text)
{
	d->notes = tool_grow(d->notes, d->notes_count + 1, sizeof(*d->notes));
	d->notes[d->notes_count++] = text;
}

static void add_only(struct diff_side *side, const char *name)
{
	side->only = tool_grow(side->only, side->only_count + 1, sizeof(*side->only));
	side->only[side->only_count++] = name;
}

static void add_pair(struct diff *d, const struct snapshot_cache *before,
		     const struct snapshot_cache *after)
{
	struct diff_pair pair = { .caches = { before, after } };

	if (!wanted(d->options, before) && !wanted(d->options, after))
		return;
	d->common++;
	if (!d->options->caches_count && !changed(before, after))
		return;
	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		const struct snapshot_cache *c = pair.caches[i];

		if (c->copied)
			add_note(d, tool_format("%s, %s: a copy that the process had made %.1f s "
						"earlier",
						c->name, diff_labels[i], c->age_ns / 1e9));
	}
	pair.rows = snapshot_rows(before, after);
	if (!d->options->all)
		report_drop_zeros(&pair.rows);
	d->pairs = tool_grow(d->pairs, d->pairs_count + 1, sizeof(*d->pairs));
	d->pairs[d->pairs_count++] = pair;
}

static void pair_caches(struct diff *d)
{
	const struct snapshot *before = d->sides[DIFF_BEFORE].snapshot;
	const struct snapshot *after = d->sides[DIFF_AFTER].snapshot;
	bool *taken = tool_alloc(after->count, sizeof(*taken));

	for (unsigned i = 0; i < before->count; i++) {
		const struct snapshot_cache *c = partner(before, i, after);

		if (c && !taken[c - after->caches]) {
			taken[c - after->caches] = true;
			add_pair(d, &before->caches[i], c);
		} else if (wanted(d->options, &before->caches[i])) {
			add_only(&d->sides[DIFF_BEFORE], before->caches[i].name);
		}
	}
	for (unsigned i = 0; i < after->count; i++) {
		if (!taken[i] && wanted(d->options, &after->caches[i]))
			add_only(&d->sides[DIFF_AFTER], after->caches[i].name);
	}
	free(taken);
}

static void note_sources(struct diff *d)
{
	enum snapshot_source sources[DIFF_SIDES];
	const char *notes[DIFF_SIDES];

	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		const struct snapshot *s = d->sides[i].snapshot;

		sources[i] = s->source;
		notes[i] = s->note ? s->note : "";
	}
	/* One source, read twice, mostly has the same to say. */
	if (!strcmp(notes[DIFF_BEFORE], notes[DIFF_AFTER]) && *notes[DIFF_BEFORE])
		add_note(d, tool_format("before and after: %s", notes[DIFF_BEFORE]));
	else
		for (unsigned i = 0; i < DIFF_SIDES; i++) {
			if (*notes[i])
				add_note(d, tool_format("%s: %s", diff_labels[i], notes[i]));
		}
	if (sources[DIFF_BEFORE] != sources[DIFF_AFTER])
		add_note(d, tool_format("different kinds of sources are compared: %s before, %s "
					"after",
					snapshot_source_names[sources[DIFF_BEFORE]],
					snapshot_source_names[sources[DIFF_AFTER]]));
}

/* A message that says why nothing can be compared. */
static int nothing_common(const struct diff *d)
{
	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		if (!d->sides[i].snapshot->count)
			tool_error("%s has no caches", d->sides[i].name);
		else if (d->options->caches_count && !d->sides[1 - i].only_count)
			tool_error("there is a cache '%s' only %s, in %s", d->sides[i].only[0],
				   diff_labels[i], d->sides[i].name);
		else
			continue;
		return TOOL_EXIT_USAGE;
	}
	tool_error("no cache is both in %s and in %s", d->sides[DIFF_BEFORE].name,
		   d->sides[DIFF_AFTER].name);
	return TOOL_EXIT_USAGE;
}

int diff_pairs(struct diff *d)
{
	for (unsigned i = 0; i < d->options->caches_count; i++) {
		const char *pattern = d->options->caches[i];

		if (matches_any(pattern, d->sides[DIFF_BEFORE].snapshot) ||
		    matches_any(pattern, d->sides[DIFF_AFTER].snapshot))
			continue;
		tool_error("--cache: there is no cache '%s' before or after; --cache '*' shows all",
			   pattern);
		return TOOL_EXIT_USAGE;
	}
	note_sources(d);
	pair_caches(d);
	return d->common ? 0 : nothing_common(d);
}

void diff_free(struct diff *d)
{
	for (unsigned i = 0; i < DIFF_SIDES; i++) {
		snapshot_free(d->sides[i].snapshot);
		free(d->sides[i].name);
		free(d->sides[i].only);
	}
	for (unsigned i = 0; i < d->pairs_count; i++)
		report_free(&d->pairs[i].rows);
	for (unsigned i = 0; i < d->notes_count; i++)
		free(d->notes[i]);
	free(d->pairs);
	free(d->notes);
}
