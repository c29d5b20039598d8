/* SPDX-License-Identifier: MIT */
/*
 * Text of others, such as names of caches, in what is printed: it may hold anything.
 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdio.h>

/*
 * text_name  - the name of something that is kept: what is no text, control characters included, becomes U+FFFD
 * text_utf8  - the same text where it is UTF-8, else with ? for each byte that is not ASCII
 * text_shown - for a terminal: control characters and backslashes as \n, \x1b, \\
 *
 * The caller frees them.
 */
char *text_name(const char *name);
char *text_utf8(const char *text);
char *text_shown(const char *text);

/*
 * text_csv      - print a field, in quotes where it needs them
 * text_markdown - print a cell of a table, or other text that Markdown must take as it is
 */
void text_csv(FILE *out, const char *text);
void text_markdown(FILE *out, const char *text);

/*
 * text_wrapped - print words in lines that begin at column @indent and end before column 79; the first one goes
 *	on where the line is, at @indent
 * text_wrap    - the same in at most @width columns, or in one line when that is 0
 */
void text_wrapped(FILE *out, const char *text, unsigned indent);
void text_wrap(FILE *out, const char *text, unsigned indent, unsigned width);

#endif /* TOOLS_TEXT_H */
