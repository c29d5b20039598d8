/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include "command.h"
#include "info.h"
#include "tool.h"

/* Lines of a list that is one of several. */
#define EXTENDED_LINES 5u
#define PAGE_LINES     10u

/* Some figures of a process are not of this moment. */
static void note_copies(const struct info *info, struct info_document *document)
{
	double oldest = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < info->count; i++) {
		const struct snapshot_cache *c = info->caches[i];

		if (!c->copied)
			continue;
		oldest = fmax(oldest, c->age_ns);
		n++;
	}
	if (n && n == info->count)
		info_note(document,
			  "The figures are copies up to %.1f s old, which the process made itself, "
			  "since its memory cannot be read from outside.",
			  oldest / 1e9);
	else if (n)
		info_note(document,
			  "The figures of %u of %u caches are copies up to %.1f s old, which the "
			  "process made itself, since its memory cannot be read from outside.",
			  n, info->count, oldest / 1e9);
}

static void add_notes(const struct info *info, struct info_document *document)
{
	if (info->snapshot->note)
		info_note(document, "%s", info->snapshot->note);
	note_copies(info, document);
	if (info->count)
		return;
	if (info->options->only_empty)
		info_note(document, "No cache is empty.");
	else if (info->options->unreclaimable)
		info_note(document, "No cache that has slabs is unreclaimable; -z lists others.");
	else
		info_note(document, "All caches are empty: %u; -z lists them.", info->matched);
}

/* Lists in several orders, the first lines of each. */
struct order {
	enum info_sort sort;
	enum info_view view;
	const char *key, *title;
};

static void add_lists(const struct info *info, struct info_document *document,
		      const struct order *orders, unsigned n, unsigned lines)
{
	for (unsigned i = 0; i < n; i++) {
		struct info_options options = *info->options;
		struct info sorted = *info;

		options.lines = options.lines ? options.lines : lines;
		options.sort = orders[i].sort;
		sorted.options = &options;
		info_sort(&sorted, options.sort);
		info_list(&sorted, document, orders[i].view, orders[i].key, orders[i].title);
	}
}

static void add_extended(const struct info *info, struct info_document *document)
{
	static const struct order orders[] = {
		{ INFO_BY_SIZE, INFO_LIST, "by_size", "Caches by size" },
		{ INFO_BY_LOSS, INFO_LIST, "by_loss", "Caches by loss" },
		{ INFO_BY_PARTIAL, INFO_LIST, "by_partial", "Caches by partial slabs" },
	};

	info_totals(info, document);
	add_lists(info, document, orders, TOOL_COUNT(orders), EXTENDED_LINES);
}

/* Builds the report; returns an exit status, after a message. */
static int build(const struct info *info, struct info_document *document)
{
	bool nodes = info->view == INFO_NODES;

	add_notes(info, document);
	switch (info->view) {
	case INFO_REPORT:
		for (unsigned i = 0; i < info->count; i++)
			info_report(info, document, info->caches[i]);
		return 0;
	case INFO_TOTALS:
		info_totals(info, document);
		return 0;
	case INFO_EXTENDED:
		add_extended(info, document);
		return 0;
	case INFO_NODES:
	case INFO_CPUS:
		if (info_parts(info, document, nodes ? INFO_NODE : INFO_CPU, NULL) || !info->count)
			return 0;
		tool_error("what each %s has is not known here", nodes ? "node" : "CPU");
		return TOOL_EXIT_USAGE;
	default:
		info_list(info, document, info->view,
			  info->view == INFO_ALIASES ? "aliases" : "caches", NULL);
		return 0;
	}
}

/*
 * A list is as slabinfo prints it, and begins with its heading; only a process that was chosen for the
 * user is named. Other reports, and JSON, say what they are about.
 */
static void set_title(const struct info *info, struct info_document *document)
{
	const struct source *source = &info->options->source;
	bool report = info->view == INFO_REPORT || info->view == INFO_TOTALS ||
		      info->view == INFO_EXTENDED;

	if (report || !source_given(source) || info->options->form == INFO_JSON)
		document->title = source_name(source, info->snapshot);
}

static int report(const struct info *info)
{
	struct info_document document = { 0 };
	bool screen = !info->options->output;
	struct tool_text text;
	int error = 0;

	tool_text_begin(&text);
	if (info->options->form == INFO_OPENMETRICS) {
		info_openmetrics(info, text.out);
	} else {
		set_title(info, &document);
		error = build(info, &document);
		if (!error)
			info_print(info, &document, text.out, screen ? tool_width(stdout) : 0,
				   screen && tool_colour(stdout));
	}
	if (error)
		free(tool_text_end(&text));
	else
		error = tool_text_show(&text, info->options->output);
	info_document_free(&document);
	return error;
}

int info_page(struct snapshot *snapshot, char *title, FILE *out)
{
	static const struct order orders[] = {
		{ INFO_BY_SIZE, INFO_LIST, "by_size", "Caches by size" },
		{ INFO_BY_ACTIVITY, INFO_ACTIVE, "by_activity", "Caches by activity" },
	};
	const struct info_options options = { 0 };
	struct info info = { .options = &options, .snapshot = snapshot };
	struct info_document document = { .title = title };
	int error = info_choose(&info);

	if (!error) {
		add_notes(&info, &document);
		info_memory(&info, &document);
		add_lists(&info, &document, orders, TOOL_COUNT(orders), PAGE_LINES);
		info_print(&info, &document, out, tool_width(out), tool_colour(out));
	}
	free(info.caches);
	info_document_free(&document);
	return error;
}

int command_info(int argc, char **argv)
{
	struct info_options options;
	struct info info = { .options = &options };
	int error = TOOL_EXIT_USAGE;

	info_parse(argc, argv, &options);
	info.snapshot = source_read(&options.source);
	if (info.snapshot)
		error = info_choose(&info);
	if (info.snapshot && !error)
		error = info.view == INFO_SHRINK || info.view == INFO_VALIDATE ? info_control(&info)
									       : report(&info);
	free(info.caches);
	free(options.labels);
	snapshot_free(info.snapshot);
	return error;
}
