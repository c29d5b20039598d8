/* SPDX-License-Identifier: MIT */
/*
 * The terminal below the screen of `uslub top`.
 *
 * Its size is asked for before every drawing: a signal, which may be lost while the program is suspended, only
 * says when to look.
 */
#include <curses.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "tool.h"
#include "top_screen.h"
#include <term.h> /* last, since it makes macros of common words */

/* Milliseconds after Esc in which the rest of a function key comes. */
#define ESCAPE_MS 25

static SCREEN *terminal;

bool top_screen_possible(void)
{
	bool possible;
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
	    setupterm(NULL, STDOUT_FILENO, &error) != OK)
		return false;
	/* Where the cursor cannot be moved, as on TERM=dumb, nothing can be drawn. */
	possible = cursor_address;
	del_curterm(cur_term);
	return possible;
}

void screen_close(void)
{
	if (!terminal)
		return;
	tool_leave_screen = NULL;
	endwin();
	delscreen(terminal);
	terminal = NULL;
}

bool screen_open(void)
{
	bool colours;

	terminal = newterm(NULL, stdout, stdin);
	if (!terminal) {
		tool_error("this terminal cannot be used");
		exit(TOOL_EXIT_USAGE);
	}
	atexit(screen_close);
	tool_leave_screen = screen_close;
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	nodelay(stdscr, true);
	curs_set(0);
	colours = tool_colour(stdout) && has_colors();
	if (colours)
		screen_colours();
	return colours;
}

void screen_follow_size(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col &&
	    is_term_resized(size.ws_row, size.ws_col))
		resizeterm(size.ws_row, size.ws_col);
}
