/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "text.h"
#include "tool.h"

char *text_name(const char *name)
{
	const unsigned char *s = (const unsigned char *)name;
	char *copy = tool_alloc(3 * strlen(name) + 1, 1), *to = copy;

	while (*s) {
		unsigned n = utf8_length(s);

		if (!n || *s < ' ' || *s == 0x7f) {
			memcpy(to, "\xef\xbf\xbd", 3);
			to += 3;
			s++;
			continue;
		}
		memcpy(to, s, n);
		to += n;
		s += n;
	}
	return copy;
}

char *text_utf8(const char *text)
{
	char *copy = tool_copy(text);
	/* The library for JSON knows what UTF-8 is. */
	json_t *string = json_string(text);

	for (char *c = copy; !string && *c; c++) {
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	}
	json_decref(string);
	return copy;
}

/* The letter that stands for a control character behind a backslash, or 0. */
static char escape_letter(unsigned char c)
{
	switch (c) {
	case '\n':
		return 'n';
	case '\t':
		return 't';
	case '\r':
		return 'r';
	case '\\':
		return '\\';
	default:
		return 0;
	}
}

char *text_shown(const char *text)
{
	char *valid = text_utf8(text), *shown = tool_alloc(4 * strlen(text) + 1, 1), *out = shown;

	for (const unsigned char *c = (const unsigned char *)valid; *c; c++) {
		/* Those of Unicode's second set are 0xc2 and another byte. */
		bool second = c[0] == 0xc2 && c[1] < 0xa0;

		if (escape_letter(*c)) {
			*out++ = '\\';
			*out++ = escape_letter(*c);
		} else if (*c < ' ' || *c == 0x7f || second) {
			c += second;
			out += sprintf(out, "\\x%02x", *c);
		} else {
			*out++ = (char)*c;
		}
	}
	free(valid);
	return shown;
}

void text_csv(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void text_markdown(FILE *out, const char *text)
{
	char *shown = text_shown(text);

	for (const char *c = shown; *c; c++) {
		if (strchr("\\`*[<|", *c))
			fputc('\\', out);
		fputc(*c, out);
	}
	free(shown);
}

void text_wrapped(FILE *out, const char *text, unsigned indent)
{
	text_wrap(out, text, indent, 78);
}

void text_wrap(FILE *out, const char *text, unsigned indent, unsigned width)
{
	unsigned column = indent;

	while (*text) {
		unsigned length = (unsigned)strcspn(text, " ");

		if (width && column > indent && column + 1 + length > width) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", length, text);
		column += length;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}
