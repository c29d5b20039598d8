/* SPDX-License-Identifier: MIT */
/*
 * What keys do on the screen of `uslub top`.
 *
 * The selection stays with a cache, wherever it moves, once the user has chosen one; until then it is
 * whatever comes first.
 */
#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tool.h"
#include "top_screen.h"

#define KEY_ESC	   27
#define KEY_CTRL_L 12

/* ---- the selection ---- */

static unsigned nth_of_its_name(const struct screen *s, const struct top_cache *t)
{
	unsigned nth = 0;

	while (t > s->top->sample->caches && !strcmp(t[-1].cache->name, t->cache->name)) {
		t--;
		nth++;
	}
	return nth;
}

static void choose(struct screen *s, unsigned row)
{
	const struct top_cache *t;

	if (!s->table.count)
		return;
	s->selected = row < s->table.count ? row : s->table.count - 1;
	t = s->table.rows[s->selected].cache;
	free(s->chosen);
	s->chosen = tool_copy(t->cache->name);
	s->chosen_nth = nth_of_its_name(s, t);
}

static void choose_none(struct screen *s)
{
	free(s->chosen);
	s->chosen = NULL;
	s->selected = 0;
}

/* Finds the chosen cache again in a new table; if it is not there the row stays. */
static void find_chosen(struct screen *s)
{
	for (unsigned i = 0; s->chosen && i < s->table.count; i++) {
		const struct top_cache *t = s->table.rows[i].cache;

		if (!strcmp(t->cache->name, s->chosen) && nth_of_its_name(s, t) == s->chosen_nth)
			s->selected = i;
	}
	if (s->selected >= s->table.count)
		s->selected = s->table.count ? s->table.count - 1 : 0;
}

static void remake(struct screen *s)
{
	top_table_clear(&s->table);
	top_table_make(&s->table, s->top->sample, &s->top->view);
	find_chosen(s);
}

/* ---- moving ---- */

/* Moves the selection, or the page, by some lines. */
static void move_by(struct screen *s, long lines)
{
	long to = s->mode == SCREEN_LIST ? s->selected : s->offset;

	to = to + lines < 0 ? 0 : to + lines;
	if (s->mode == SCREEN_LIST)
		choose(s, (unsigned)to);
	else
		s->offset = (unsigned)to; /* the drawing keeps it within the page */
}

static void on_up(struct screen *s)
{
	move_by(s, -1);
}

static void on_down(struct screen *s)
{
	move_by(s, 1);
}

static void on_page_up(struct screen *s)
{
	move_by(s, -(long)s->visible);
}

static void on_page_down(struct screen *s)
{
	move_by(s, s->visible);
}

static void on_home(struct screen *s)
{
	if (s->mode == SCREEN_LIST)
		choose_none(s);
	s->offset = 0;
}

static void on_end(struct screen *s)
{
	move_by(s, s->mode == SCREEN_LIST ? s->table.count : s->page_lines);
}

/* ---- other keys ---- */

static void on_quit(struct screen *s)
{
	if (s->mode == SCREEN_LIST)
		s->done = true;
	s->mode = SCREEN_LIST;
}

static void on_details(struct screen *s)
{
	if (!s->table.count)
		return;
	choose(s, s->selected);
	s->mode = SCREEN_DETAIL;
	s->offset = 0;
}

static void on_help(struct screen *s)
{
	s->mode = SCREEN_HELP;
	s->offset = 0;
}

static void on_back(struct screen *s)
{
	s->mode = SCREEN_LIST;
}

static void on_pause(struct screen *s)
{
	s->top->paused = !s->top->paused;
}

static void on_idle(struct screen *s)
{
	s->top->view.hide_idle = !s->top->view.hide_idle;
}

static void on_reverse(struct screen *s)
{
	s->top->view.reverse = !s->top->view.reverse;
}

/* Sorts by the next column on the screen, in a direction. */
static void sort_beside(struct screen *s, int step)
{
	int i = (int)s->table.sort;

	do {
		i += step;
	} while (i > 0 && i < TOP_COLUMNS && !s->columns[i]);
	if (i >= 0 && i < TOP_COLUMNS)
		s->top->view.sort = (enum top_column_id)i;
}

static void on_sort_left(struct screen *s)
{
	sort_beside(s, -1);
}

static void on_sort_right(struct screen *s)
{
	sort_beside(s, 1);
}

static void on_redraw(struct screen *s)
{
	(void)s;
	clearok(curscr, true);
}

/* ---- prompts ---- */

static void begin_prompt(struct screen *s, enum screen_prompt prompt, const char *typed)
{
	s->prompt = prompt;
	s->typed_size = (unsigned)snprintf(s->typed, sizeof(s->typed), "%s", typed);
	if (s->typed_size >= sizeof(s->typed))
		s->typed_size = sizeof(s->typed) - 1;
}

static void on_sort(struct screen *s)
{
	begin_prompt(s, PROMPT_SORT, "");
}

static void on_filter(struct screen *s)
{
	const char *filter = s->top->view.filter ? s->top->view.filter : "";

	free(s->filter_before);
	s->filter_before = tool_copy(filter);
	begin_prompt(s, PROMPT_FILTER, filter);
}

static void on_delay(struct screen *s)
{
	begin_prompt(s, PROMPT_DELAY, "");
}

static void say(struct screen *s, char *message)
{
	free(s->message);
	s->message = message;
}

static void answer_sort(struct screen *s, int key)
{
	s->prompt = PROMPT_NONE;
	if (key == KEY_ESC)
		return;
	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		if (top_columns[i].key == key && s->table.present[i]) {
			s->top->view.sort = i;
			return;
		}
	}
	say(s, tool_copy("no column has this key"));
}

/* What is typed has its effect at once, as far as it makes sense already. */
static void try_filter(struct screen *s)
{
	char *wrong = top_filter(&s->top->view, s->typed);

	say(s, wrong ? tool_format("(%s)", wrong) : NULL);
	free(wrong);
}

static void end_prompt(struct screen *s, bool accepted)
{
	enum screen_prompt prompt = s->prompt;

	if (prompt == PROMPT_FILTER && !accepted)
		free(top_filter(&s->top->view, s->filter_before));
	if (prompt == PROMPT_FILTER && accepted && s->message)
		return; /* not with something that is no expression */
	s->prompt = PROMPT_NONE;
	say(s, NULL);
	if (prompt == PROMPT_DELAY && accepted && *s->typed && !top_set_delay(s->top, s->typed))
		say(s, tool_format("'%s' is no delay; it stays at %g s", s->typed, s->top->delay));
}

/* Takes the last character away, all bytes of it. */
static void rub_out(struct screen *s)
{
	while (s->typed_size && ((unsigned char)s->typed[--s->typed_size] & 0xc0) == 0x80)
		;
	s->typed[s->typed_size] = '\0';
}

static void type(struct screen *s, int key)
{
	if (s->typed_size + 1 >= sizeof(s->typed))
		return;
	s->typed[s->typed_size++] = (char)key;
	s->typed[s->typed_size] = '\0';
}

static void answer(struct screen *s, int key)
{
	if (s->prompt == PROMPT_SORT) {
		answer_sort(s, key);
		return;
	}
	if (key == KEY_ESC || key == '\r' || key == '\n' || key == KEY_ENTER) {
		end_prompt(s, key != KEY_ESC);
		return;
	}
	if (key == KEY_BACKSPACE || key == '\b' || key == 127)
		rub_out(s);
	else if (key >= ' ' && key < KEY_MIN)
		type(s, key);
	if (s->prompt == PROMPT_FILTER)
		try_filter(s);
}

/* ---- keys ---- */

/* @list_only: it says something about the list, and does nothing on other pages */
static const struct {
	int key;
	bool list_only;
	void (*act)(struct screen *s);
} actions[] = {
	{ 'q', false, on_quit },
	{ KEY_UP, false, on_up },
	{ 'k', false, on_up },
	{ KEY_DOWN, false, on_down },
	{ 'j', false, on_down },
	{ KEY_PPAGE, false, on_page_up },
	{ KEY_NPAGE, false, on_page_down },
	{ KEY_HOME, false, on_home },
	{ KEY_END, false, on_end },
	{ '\r', true, on_details },
	{ '\n', true, on_details },
	{ KEY_ENTER, true, on_details },
	{ KEY_ESC, false, on_back },
	{ 's', true, on_sort },
	{ '<', true, on_sort_left },
	{ '>', true, on_sort_right },
	{ 'r', true, on_reverse },
	{ '/', true, on_filter },
	{ 'a', true, on_idle },
	{ ' ', false, on_pause },
	{ 'd', false, on_delay },
	{ 'h', false, on_help },
	{ '?', false, on_help },
	{ KEY_CTRL_L, false, on_redraw },
};

const struct screen_key screen_keys[] = {
	{ "arrows, j k", "select a cache, scroll; also PgUp, PgDn, Home, End" },
	{ "Enter", "all statistics of the selected cache" },
	{ "Esc", "back to the list" },
	{ "s", "sort by a column" },
	{ "< >", "sort by the column to the left or right" },
	{ "r", "reverse the order" },
	{ "/", "only caches that match a regular expression; Esc: as before" },
	{ "a", "hide idle caches, or show all" },
	{ "space", "pause, go on" },
	{ "d", "seconds between readings" },
	{ "Ctrl-L", "draw the screen again" },
	{ "h ?", "this help" },
	{ "q", "quit; from another page, back to the list" },
	{ NULL, NULL },
};

static void press(struct screen *s, int key)
{
	if (s->prompt) {
		answer(s, key);
		return;
	}
	say(s, NULL);
	for (unsigned i = 0; i < TOOL_COUNT(actions); i++) {
		if (actions[i].key == key && (s->mode == SCREEN_LIST || !actions[i].list_only))
			actions[i].act(s);
	}
}

static void press_all(struct screen *s)
{
	int key;

	while (!s->done && (key = getch()) != ERR) {
		if (key == KEY_RESIZE)
			continue;
		press(s, key);
		/* The next key, which may be here already, is about what this one has made. */
		remake(s);
	}
}

/* ---- all of it ---- */

static int loop(struct screen *s)
{
	struct top_events events = { 0 };

	while (!s->done && !events.gone) {
		uint64_t again = top_ask(s->top);

		screen_follow_size();
		screen_draw(s);
		events = top_wait(s->top->reader, STDIN_FILENO, again);
		if (events.signal && events.signal != SIGWINCH)
			return events.signal;
		if (events.reading) {
			/* The table points into the sample. */
			top_table_clear(&s->table);
			top_take(s->top);
			remake(s);
		}
		if (events.key)
			press_all(s);
	}
	return 0;
}

int top_screen_run(struct top *top)
{
	struct screen s = { .top = top };
	int signal;

	s.colours = screen_open();
	remake(&s);
	signal = loop(&s);
	screen_close();
	top_table_clear(&s.table);
	free(s.filter_before);
	free(s.message);
	free(s.chosen);
	return signal;
}
