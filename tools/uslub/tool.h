/* SPDX-License-Identifier: MIT */
/*
 * What all subcommands share: exit statuses, messages, memory, time, the terminal.
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. 0 is done. */
#define TOOL_EXIT_NO	      1	  /* the question's answer is no: a check failed */
#define TOOL_EXIT_USAGE	      2	  /* wrong usage, or no data */
#define TOOL_EXIT_INTERRUPTED 130 /* stopped by Ctrl-C; what was done so far has been printed */

#define TOOL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TOOL_PRINTF(at, first) __attribute__((format(printf, at, first)))

/* Starts every message; main.c sets it to "uslub" or "uslub NAME". */
extern const char *tool_name;

/* What gives the terminal back, where a screen is drawn: for who ends the program from another thread. */
extern void (*tool_leave_screen)(void);

/*
 * tool_error - print a message on stderr, after the name of the program
 */
void tool_error(const char *format, ...) TOOL_PRINTF(1, 2);

/*
 * tool_divert - keep the messages of this thread from stderr
 * @message: gets the first of them, for the caller to free; NULL: print them again
 *
 * For who shows messages in a place of its own.
 */
void tool_divert(char **message);

/*
 * tool_alloc - zeroed memory for an array
 * tool_grow - the same array with room for more
 * tool_format - a string made by printf
 * tool_copy - a copy of a string
 *
 * The caller frees them. They do not return when there is no memory: a program that prints tables
 * has nothing better to do then than to say so.
 */
void *tool_alloc(size_t n, size_t size);
void *tool_grow(void *array, size_t n, size_t size);
char *tool_format(const char *format, ...) TOOL_PRINTF(1, 2);
char *tool_copy(const char *text);

/*
 * tool_now_ns - monotonic time in nanoseconds
 */
uint64_t tool_now_ns(void);

/*
 * tool_time - seconds since 1970
 */
double tool_time(void);

/*
 * tool_width - columns of the terminal that @file is, or the value of COLUMNS, or 0 for no limit
 */
unsigned tool_width(FILE *file);

/*
 * tool_terminal - whether @file is a terminal that understands control sequences
 * tool_colour - whether it is one and colours are welcome, which NO_COLOR says they are not
 */
bool tool_terminal(FILE *file);
bool tool_colour(FILE *file);

/*
 * tool_print_out - print a finished text on standard output
 * @text: the text
 * @size: its length in bytes
 *
 * A reader that went away, as `head` does, is no failure. Anything else, such as a full disk, is
 * reported. Returns 0 or -1.
 */
int tool_print_out(const char *text, size_t size);

/*
 * tool_write_file - write a finished text to a file
 * @path: its name
 * @text: the text
 * @size: its length in bytes
 *
 * A file appears, or is replaced, when all of it has been written, and is left as it was when that fails. What
 * is not a file, such as a terminal or a pipe, is written to as it is. Returns 0, or -1 after a message.
 */
int tool_write_file(const char *path, const char *text, size_t size);

/*
 * tool_installed - the path of another file of this project, for the caller to free
 * @near: where it is in the build tree, as seen from this program's directory
 * @directory: where it is installed
 * @name: its name
 * @mode: what can be done with it, as for access()
 *
 * Returns NULL after a message when it is in neither place.
 */
char *tool_installed(const char *near, const char *directory, const char *name, int mode);

/*
 * A text that is made by printing, before anything of it is shown.
 *
 * tool_text_begin - begin one; print to its `out`. It does not return when there is no memory
 * tool_text_end   - end it; the text is `text`, for the caller to free
 * tool_text_show  - end it, write it to the file @path, or to standard output when that is NULL, and free
 *		     it. Returns 0, or an exit status after a message
 * tool_text_help  - for a help filter of argp: begin one where the parser prints the text after the options,
 *		     and return true; it ends with tool_text_end(), and the parser frees it
 */
struct tool_text {
	char *text;
	size_t size;
	FILE *out;
};
void tool_text_begin(struct tool_text *text);
char *tool_text_end(struct tool_text *text);
int tool_text_show(struct tool_text *text, const char *path);
bool tool_text_help(struct tool_text *text, int key);

#endif /* TOOLS_TOOL_H */
