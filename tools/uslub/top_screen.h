/* SPDX-License-Identifier: MIT */
/*
 * What the files of the screen of `uslub top` share: top_screen.c changes it by keys, top_draw.c shows it,
 * top_terminal.c knows the terminal.
 */
#ifndef TOOLS_TOP_SCREEN_H
#define TOOLS_TOP_SCREEN_H

#include <stdbool.h>
#include "top.h"

enum screen_mode { SCREEN_LIST, SCREEN_DETAIL, SCREEN_HELP };

enum screen_prompt { PROMPT_NONE, PROMPT_SORT, PROMPT_FILTER, PROMPT_DELAY };

#define PROMPT_SIZE 128u

/*
 * struct screen - the state of the screen
 * @table: what the list shows
 * @colours: whether they are welcome
 * @chosen: the name of the selected cache, or NULL: whichever is the first
 * @chosen_nth: how many caches before it have the same name
 * @selected: its row
 * @first: the row at the top of the list
 * @visible: how many rows there is room for
 * @columns: which columns there is room for
 * @offset: the line at the top of a page of details or help
 * @page_lines: how many the page has
 * @typed, @typed_size: the answer to the prompt so far
 * @filter_before: the filter that Esc comes back to
 * @message: for the last line, until the next key; or NULL
 */
struct screen {
	struct top *top;
	struct top_table table;
	bool colours;
	bool done;
	enum screen_mode mode;
	char *chosen;
	unsigned chosen_nth;
	unsigned selected;
	unsigned first;
	unsigned visible;
	bool columns[TOP_COLUMNS];
	unsigned offset;
	unsigned page_lines;
	enum screen_prompt prompt;
	char typed[PROMPT_SIZE];
	unsigned typed_size;
	char *filter_before;
	char *message;
};

/* struct screen_key - what a key does, for the help */
struct screen_key {
	const char *keys;
	const char *help;
};

/* The keys, ending with one that has no name. */
extern const struct screen_key screen_keys[];

/*
 * top_draw.c
 *
 * screen_colours - begin to use colours
 * screen_draw    - draw everything
 */
void screen_colours(void);
void screen_draw(struct screen *s);

/*
 * top_terminal.c
 *
 * screen_open	      - take the terminal over; returns whether colours are welcome
 * screen_close	      - give it back as it was, also at exit()
 * screen_follow_size - see whether its size has changed
 */
bool screen_open(void);
void screen_close(void);
void screen_follow_size(void);

#endif /* TOOLS_TOP_SCREEN_H */
