/* SPDX-License-Identifier: MIT */
/*
 * What is on the screen: a header of one line or more, then a list of caches or a page of lines, and a last
 * line for messages, prompts and hints. Everything is drawn anew each time; ncurses finds what has changed.
 *
 * The screen can be of any size. What has no room is left out or cut, and never written outside.
 */
#include <curses.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tool.h"
#include "top_screen.h"

/* On less rows than this the header is one line. */
#define ROWS_FOR_HEADER 12

/* As many columns as a name may take before others are left out for it; and the least that is worth it. */
#define NAME_WISH  16u
#define NAME_LEAST 7u

/* What figures that are not abbreviated take. */
static const unsigned full_widths[] = {
	[TOP_TEXT] = 0, [TOP_COUNT] = 11, [TOP_PERCENT] = 5, [TOP_MEMORY] = 10, [TOP_RATE] = 12,
};

/* ---- colours ---- */

enum pair { PAIR_PLAIN, PAIR_HEADING, PAIR_CHOSEN, PAIR_WARNING, PAIR_ERROR, PAIRS };

static const struct {
	short front, back;
	attr_t instead; /* without colours */
} pairs[PAIRS] = {
	[PAIR_HEADING] = { COLOR_BLACK, COLOR_GREEN, A_UNDERLINE },
	[PAIR_CHOSEN] = { COLOR_BLACK, COLOR_CYAN, A_REVERSE },
	[PAIR_WARNING] = { COLOR_YELLOW, -1, A_BOLD },
	[PAIR_ERROR] = { COLOR_WHITE, COLOR_RED, A_REVERSE },
};

void screen_colours(void)
{
	start_color();
	use_default_colors();
	for (short i = 1; i < PAIRS; i++)
		init_pair(i, pairs[i].front, pairs[i].back);
}

static attr_t look(const struct screen *s, enum pair pair)
{
	if (!pair)
		return A_NORMAL;
	return s->colours ? (attr_t)COLOR_PAIR(pair) : pairs[pair].instead;
}

/* ---- text in its place ---- */

/* Writes what fits of a text; returns the column after it. */
static int put(int row, int column, attr_t how, const char *text)
{
	char *fits;

	if (row < 0 || row >= LINES || column < 0 || column >= COLS)
		return column;
	fits = top_text_cut(text, (unsigned)(COLS - column));
	attrset(how);
	mvaddstr(row, column, fits);
	attrset(A_NORMAL);
	column += (int)top_text_width(fits);
	free(fits);
	return column;
}

/* The same flush right in a field that ends before @end. */
static void put_right(int row, int end, attr_t how, const char *text)
{
	put(row, end - (int)top_text_width(text), how, text);
}

static void fill_row(int row, attr_t how)
{
	if (row < 0 || row >= LINES)
		return;
	attrset(how);
	mvhline(row, 0, ' ', COLS);
	attrset(A_NORMAL);
}

/* Returns how many lines it took. */
static int draw_header(const struct screen *s)
{
	char *lines[TOP_HEADER_LINES];
	int row = 0;

	top_header(s->top, &s->table, (unsigned)COLS, lines);
	for (unsigned i = 0; i < TOP_HEADER_LINES; i++) {
		if (lines[i] && (!i || LINES >= ROWS_FOR_HEADER))
			put(row++, 0, i ? A_NORMAL : A_BOLD, lines[i]);
		free(lines[i]);
	}
	return row;
}

/* ---- the list ---- */

struct layout {
	unsigned widths[TOP_COLUMNS];
	bool full;
};

static unsigned longest_name(const struct top_table *table)
{
	unsigned most = (unsigned)strlen(top_columns[TOP_NAME].heading);

	for (unsigned i = 0; i < table->count; i++) {
		unsigned width = top_text_width(table->rows[i].cache->cache->name);

		most = width > most ? width : most;
	}
	return most;
}

/* What the columns but for the name take, with a blank before each. */
static unsigned taken(const struct layout *l)
{
	unsigned total = 0;

	for (unsigned i = TOP_NAME + 1; i < TOP_COLUMNS; i++)
		total += l->widths[i] ? l->widths[i] + 1 : 0;
	return total;
}

/* The one that can be missed most; the one that rows are sorted by least. TOP_NAME: no other is left. */
static enum top_column_id least_important(const struct screen *s, const struct layout *l)
{
	enum top_column_id least = TOP_NAME;
	unsigned most = 0;

	for (unsigned i = TOP_NAME + 1; i < TOP_COLUMNS; i++) {
		unsigned order = i == s->table.sort ? 1 : top_columns[i].order + 1;

		if (l->widths[i] && order > most) {
			most = order;
			least = i;
		}
	}
	return least;
}

static void set_widths(const struct screen *s, struct layout *l, bool full)
{
	l->full = full;
	for (unsigned i = TOP_NAME + 1; i < TOP_COLUMNS; i++) {
		const struct top_column *c = &top_columns[i];
		unsigned width = c->width;

		if (full && full_widths[c->form] > width)
			width = full_widths[c->form];
		l->widths[i] = s->table.present[i] ? width : 0;
	}
}

/*
 * Finds what fits: everything with figures in full, or abbreviated, or fewer columns, down to one beside
 * a name that is cut. Columns that are left out get no width.
 */
static void lay_out(struct screen *s, struct layout *l)
{
	unsigned width = (unsigned)COLS, longest = longest_name(&s->table), room;
	unsigned wish = longest < NAME_WISH ? longest : NAME_WISH;

	set_widths(s, l, true);
	if (longest + taken(l) > width)
		set_widths(s, l, false);
	while (taken(l) && wish + taken(l) > width) {
		enum top_column_id least = least_important(s, l);
		unsigned without = taken(l) - l->widths[least] - 1;

		if (!without && NAME_LEAST + taken(l) <= width)
			break;
		l->widths[least] = 0;
	}
	room = width - taken(l);
	l->widths[TOP_NAME] = longest < room ? longest : room;
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		s->columns[i] = l->widths[i];
}

static void draw_heading(const struct screen *s, const struct layout *l, int row)
{
	attr_t how = look(s, PAIR_HEADING);
	int end = (int)l->widths[TOP_NAME];

	fill_row(row, how);
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		attr_t this = i == s->table.sort ? look(s, PAIR_CHOSEN) | A_BOLD : how;

		if (!l->widths[i])
			continue;
		end += i ? (int)l->widths[i] + 1 : 0;
		if (i)
			put_right(row, end, this, top_columns[i].heading);
		else
			put(row, 0, this, top_columns[i].heading);
	}
}

static attr_t look_of_figure(const struct screen *s, enum top_column_id column, double value)
{
	if (column == TOP_LOCKWAIT && value > 0)
		return look(s, PAIR_WARNING);
	/* What does nothing is not to distract. */
	return s->colours && !(value > 0) ? A_DIM : A_NORMAL;
}

static void draw_cell(const struct screen *s, const struct layout *l, int row, int end,
		      enum top_column_id column, double value, bool chosen)
{
	enum top_form form = top_columns[column].form;
	char *text = l->full ? top_figure_full(form, value) : top_figure(form, value);

	if (strlen(text) > l->widths[column]) {
		free(text);
		text = top_figure(form, value);
	}
	put_right(row, end, chosen ? look(s, PAIR_CHOSEN) : look_of_figure(s, column, value), text);
	free(text);
}

static void draw_row(const struct screen *s, const struct layout *l, int row, unsigned index)
{
	const struct top_row *r = &s->table.rows[index];
	bool chosen = index == s->selected;
	int end = (int)l->widths[TOP_NAME];
	char *name = top_text_cut(r->cache->cache->name, l->widths[TOP_NAME]);

	if (chosen)
		fill_row(row, look(s, PAIR_CHOSEN));
	put(row, 0, chosen ? look(s, PAIR_CHOSEN) : A_NORMAL, name);
	free(name);
	for (unsigned i = TOP_NAME + 1; i < TOP_COLUMNS; i++) {
		if (!l->widths[i])
			continue;
		end += (int)l->widths[i] + 1;
		draw_cell(s, l, row, end, i, r->values[i], chosen);
	}
}

/* Keeps the selected row in view. */
static void scroll_list(struct screen *s)
{
	if (s->first > s->selected)
		s->first = s->selected;
	if (s->visible && s->selected >= s->first + s->visible)
		s->first = s->selected - s->visible + 1;
	if (s->first + s->visible > s->table.count)
		s->first = s->table.count > s->visible ? s->table.count - s->visible : 0;
}

static void draw_list(struct screen *s, int row)
{
	struct layout l = { 0 };

	s->visible = LINES - 1 > row + 1 ? (unsigned)(LINES - 1 - row - 1) : 0;
	lay_out(s, &l);
	scroll_list(s);
	if (row < LINES - 1)
		draw_heading(s, &l, row);
	if (!s->table.count && s->visible)
		put(row + 1, 0, A_NORMAL,
		    !s->top->sample->snapshot->count ? "There are no caches."
		    : s->table.matching		     ? "All caches are idle; a shows them."
						     : "No cache matches the filter.");
	for (unsigned i = 0; i < s->visible && s->first + i < s->table.count; i++)
		draw_row(s, &l, row + 1 + (int)i, s->first + i);
}

/* ---- pages of lines ---- */

/* The part of a page that is in view, while its lines are made. */
struct page {
	struct screen *screen;
	int row;
	unsigned line;
};

static void add_line(struct page *p, attr_t how, const char *text)
{
	const struct screen *s = p->screen;

	if (p->line >= s->offset && p->line < s->offset + s->visible)
		put(p->row + (int)(p->line - s->offset), 0, how, text);
	p->line++;
}

static void add_formatted(struct page *p, attr_t how, const char *format, ...) TOOL_PRINTF(3, 4);
static void add_formatted(struct page *p, attr_t how, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	add_line(p, how, text ? text : "");
	free(text);
}

/* Widths on a page of details, and whether figures have room enough to be in full. */
struct detail {
	bool full;
	int name, total, rate;
};

static struct detail detail_widths(void)
{
	if (COLS >= 56)
		return (struct detail){ true, 26, 16, 13 };
	return (struct detail){ false, COLS > 20 ? COLS - 14 : 6, 7, 7 };
}

/* @rate: NULL: none. @help: likewise. */
static void add_value(struct page *p, const struct detail *d, const char *name, double value,
		      const double *rate, const char *help)
{
	char *(*figure)(enum top_form form, double value) = d->full ? top_figure_full : top_figure;
	char *cut = top_text_cut(name, (unsigned)d->name);
	char *total = figure(TOP_COUNT, value);
	char *per_second = rate ? figure(TOP_RATE, *rate) : tool_copy("");

	add_formatted(p, A_NORMAL, "%s%*s%*s%*s%s%s", cut, d->name - (int)top_text_width(cut), "",
		      d->total, total, d->rate, per_second, help ? "  " : "", help ? help : "");
	free(per_second);
	free(total);
	free(cut);
}

/* The shares of nodes, where there is more than one. */
static void add_nodes(struct page *p, const struct detail *d, const struct snapshot_value *v)
{
	for (unsigned i = 0; v->nodes.count > 1 && i < v->nodes.count; i++) {
		char *name = tool_format("  node %u", v->nodes.parts[i].index);

		add_value(p, d, name, v->nodes.parts[i].value, NULL, NULL);
		free(name);
	}
}

/* The time below which a share of all was. */
static double quantile(const struct snapshot_latency *l, double count, double share)
{
	double seen = 0;

	for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++) {
		seen += l->counts[b];
		if (seen >= share * count)
			return ldexp(1, (int)b + 1);
	}
	return NAN;
}

static void add_latency(struct page *p, const struct snapshot_latency *l)
{
	double count = 0;

	for (unsigned b = 0; b < SNAPSHOT_BUCKETS; b++)
		count += l->counts[b];
	if (count)
		add_formatted(p, A_NORMAL,
			      "%s: %.0f times, mean %.0f ns, half < %.0f ns, 99%% < %.0f ns",
			      l->name, count, l->sum / count, quantile(l, count, 0.5),
			      quantile(l, count, 0.99));
	else
		add_formatted(p, A_NORMAL, "%s: never", l->name);
}

static void add_values(struct page *p, const struct top_cache *t)
{
	struct detail d = detail_widths();
	/* What is said of them here need not hold for a kernel. */
	bool explain = COLS >= 90 && p->screen->top->sample->snapshot->source != SNAPSHOT_KERNEL;

	add_formatted(p, look(p->screen, PAIR_HEADING), "%-*.*s%*s%*s", d.name, d.name, "STATISTIC",
		      d.total, "TOTAL", d.rate, d.full ? "PER SECOND" : "RATE");
	for (unsigned i = 0; i < t->cache->count; i++) {
		const struct snapshot_value *v = &t->cache->values[i];
		bool known = v->which >= 0 && explain;

		add_value(p, &d, v->name, v->value, top_is_counter(v) ? &t->rates[i] : NULL,
			  known ? uslub_stat_help((enum uslub_stat)v->which) : NULL);
		add_nodes(p, &d, v);
	}
	if (t->cache->latencies_count)
		add_line(p, A_BOLD, "How long slow paths took:");
	for (unsigned i = 0; i < t->cache->latencies_count; i++)
		add_latency(p, &t->cache->latencies[i]);
}

static const struct top_cache *chosen_cache(const struct screen *s)
{
	const struct top_sample *sample = s->top->sample;
	unsigned nth = s->chosen_nth;

	for (unsigned i = 0; s->chosen && i < sample->snapshot->count; i++) {
		if (!strcmp(sample->caches[i].cache->name, s->chosen) && !nth--)
			return &sample->caches[i];
	}
	return NULL;
}

static void add_details(struct page *p)
{
	const struct top_cache *t = chosen_cache(p->screen);

	if (!t) {
		add_formatted(p, A_BOLD, "%s", p->screen->chosen);
		add_line(p, A_NORMAL, "This cache is no longer there.");
		return;
	}
	add_formatted(p, A_BOLD, "%s", t->cache->name);
	for (unsigned i = 0; i < t->cache->aliases_count; i++)
		add_formatted(p, A_NORMAL, "also called %s", t->cache->aliases[i]);
	if (t->cache->copied)
		add_formatted(p, look(p->screen, PAIR_WARNING),
			      "a copy that the process made %.1f s before", t->cache->age_ns / 1e9);
	add_values(p, t);
}

static void add_help(struct page *p)
{
	add_line(p, A_BOLD, "Keys");
	for (const struct screen_key *k = screen_keys; k->keys; k++)
		add_formatted(p, A_NORMAL, "  %-12s %s", k->keys, k->help);
	add_line(p, A_NORMAL, "");
	add_line(p, A_BOLD, "Columns, with the key that follows s to sort by them");
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		add_formatted(p, A_NORMAL, "  %c %-10s %s", top_columns[i].key,
			      top_columns[i].heading, top_columns[i].help);
	add_line(p, A_NORMAL, "");
	add_line(p, A_NORMAL,
		 "A - stands for what is not known: of a new cache, or in the first second.");
	add_line(p, A_NORMAL, "Columns that the source has nothing for, or no room, are left out.");
}

static void draw_page(struct screen *s, int row)
{
	struct page p = { s, row, 0 };

	s->visible = LINES - 1 > row ? (unsigned)(LINES - 1 - row) : 0;
	if (s->offset + s->visible > s->page_lines)
		s->offset = s->page_lines > s->visible ? s->page_lines - s->visible : 0;
	if (s->mode == SCREEN_HELP)
		add_help(&p);
	else
		add_details(&p);
	s->page_lines = p.line;
}

/* ---- the last line ---- */

/*
 * Lists the columns with their keys from a row on, in as many rows as they take; returns the last one.
 * @drawn: or only finds out
 */
static int list_columns(const struct screen *s, int row, bool drawn)
{
	int column = 0;

	for (int i = -1; i < TOP_COLUMNS; i++) {
		char *item;

		if (i >= 0 && !s->table.present[i])
			continue;
		item = i < 0 ? tool_copy("sort by:")
			     : tool_format("%c=%s", top_columns[i].key, top_columns[i].name);
		if (column && column + (int)strlen(item) > COLS) {
			column = 0;
			row++;
		}
		if (drawn && !column)
			fill_row(row, A_NORMAL);
		if (drawn)
			put(row, column, A_BOLD, item);
		column += (int)strlen(item) + 1;
		free(item);
	}
	return row;
}

static char *prompt_text(const struct screen *s)
{
	const char *message = s->message ? s->message : "";

	switch (s->prompt) {
	case PROMPT_FILTER:
		return tool_format("/%s_ %s", s->typed, message);
	case PROMPT_DELAY:
		return tool_format("seconds between readings: %s_ %s", s->typed, message);
	default:
		return NULL;
	}
}

static const char *hints(const struct screen *s)
{
	if (s->mode == SCREEN_LIST)
		return COLS < 70 ? "h help  q quit  Enter details"
				 : "h help  q quit  Enter details  s sort  / filter  a idle  space "
				   "pause";
	return s->offset + s->visible < s->page_lines ? "Esc back  more below: arrows, PgDn"
						      : "Esc back";
}

static void draw_last_line(const struct screen *s)
{
	int row = LINES - 1;
	char *prompt = prompt_text(s);
	char *lost = NULL;

	if (row < 1)
		return;
	if (s->prompt == PROMPT_SORT) {
		list_columns(s, row - list_columns(s, 0, false), true);
	} else if (prompt) {
		put(row, 0, A_BOLD, prompt);
	} else if (s->message) {
		put(row, 0, look(s, PAIR_WARNING), s->message);
	} else if (s->top->lost) {
		lost = tool_format("%s; these are the last figures", s->top->lost);
		fill_row(row, look(s, PAIR_ERROR));
		put(row, 0, look(s, PAIR_ERROR), lost);
	} else {
		put(row, 0, A_DIM, hints(s));
	}
	free(prompt);
	free(lost);
}

void screen_draw(struct screen *s)
{
	int row;

	erase();
	row = draw_header(s);
	if (s->mode == SCREEN_LIST)
		draw_list(s, row);
	else
		draw_page(s, row);
	draw_last_line(s);
	refresh();
}
