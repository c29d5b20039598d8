/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>
#include "numbers.h"
#include "tool.h"
#include "top.h"

/* ---- figures ---- */

/* Three significant digits and a unit. */
static char *scaled(double value, double unit, const char *suffixes)
{
	/* Not 999.5 and more, which three digits cannot show. */
	while (value >= 999.5 && suffixes[1]) {
		value /= unit;
		suffixes++;
	}
	return tool_format("%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, *suffixes);
}

static char *short_count(double value)
{
	return value < 99999.5 ? tool_format("%.0f", value) : scaled(value, 1000, " kMGTPE");
}

static char *short_rate(double value)
{
	return value > 0 && value < 9.95 ? tool_format("%.1f", value) : short_count(value);
}

static char *short_memory(double value)
{
	return value < 999.5 ? tool_format("%.0f", value) : scaled(value, 1024, " KMGTPE");
}

char *top_figure(enum top_form form, double value)
{
	if (isnan(value))
		return tool_copy("-");
	switch (form) {
	case TOP_PERCENT:
		return tool_format("%.0f", value);
	case TOP_MEMORY:
		return short_memory(value);
	case TOP_RATE:
		return short_rate(value);
	default:
		return short_count(value);
	}
}

char *top_figure_full(enum top_form form, double value)
{
	if (isnan(value))
		return tool_copy("-");
	switch (form) {
	case TOP_PERCENT:
		return tool_format("%.1f", value);
	case TOP_MEMORY:
		return numbers_bytes(value);
	case TOP_RATE:
		return value > 0 && value < 9.95 ? tool_format("%.1f", value)
						 : numbers_thousands(value);
	default:
		return numbers_thousands(value);
	}
}

char *top_figure_plain(enum top_form form, double value)
{
	if (isnan(value))
		return tool_copy("-");
	return tool_format("%.*f", form == TOP_PERCENT || form == TOP_RATE, value);
}

/* ---- text ---- */

/*
 * The next character, and its width. What is no character, or would move the cursor, is a question mark.
 */
static size_t next_character(const char *text, mbstate_t *state, int *width, bool *shown)
{
	wchar_t wide;
	size_t n = mbrtowc(&wide, text, MB_LEN_MAX, state);

	*shown = n != (size_t)-1 && n != (size_t)-2;
	if (!*shown) {
		memset(state, 0, sizeof(*state));
		n = 1;
	}
	*width = *shown ? wcwidth(wide) : 1;
	if (*width < 0) {
		*shown = false;
		*width = 1;
	}
	return n;
}

unsigned top_text_width(const char *text)
{
	mbstate_t state = { 0 };
	unsigned total = 0;
	bool shown;
	int width;

	while (*text) {
		text += next_character(text, &state, &width, &shown);
		total += (unsigned)width;
	}
	return total;
}

char *top_text_cut(const char *text, unsigned width)
{
	const char *ellipsis = MB_CUR_MAX > 1 ? "…" : "~";
	bool cut = width && top_text_width(text) > width, shown;
	unsigned room = cut ? width - 1 : UINT_MAX, used = 0;
	char *result = tool_alloc(strlen(text) + strlen(ellipsis) + 1, 1), *out = result;
	mbstate_t state = { 0 };
	int one;

	while (*text) {
		size_t n = next_character(text, &state, &one, &shown);

		if (used + (unsigned)one > room)
			break;
		used += (unsigned)one;
		out = shown ? mempcpy(out, text, n) : mempcpy(out, "?", 1);
		text += n;
	}
	if (cut)
		strcpy(out, ellipsis);
	return result;
}

char *top_text_join(char *const items[], unsigned count, unsigned gap, unsigned width)
{
	char *line = tool_copy("");
	unsigned used = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned more = items[i] ? top_text_width(items[i]) + (used ? gap : 0) : 0;
		char *longer;

		if (!more || (used && width && used + more > width))
			continue;
		longer = tool_format("%s%*s%s", line, used ? (int)gap : 0, "", items[i]);
		free(line);
		line = longer;
		used += more;
	}
	return line;
}
