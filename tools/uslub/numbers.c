/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "tool.h"

int numbers_parse(const char *text, unsigned unit, uint64_t *value)
{
	static const char suffixes[] = "kmgt";
	unsigned long long number;
	char *end;

	/* strtoull would take "-1" for a large number and skip blanks. */
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end) {
		const char *suffix = strchr(suffixes, tolower((unsigned char)*end));

		if (!suffix || end[1])
			return -EINVAL;
		for (; suffix >= suffixes; suffix--) {
			if (__builtin_mul_overflow(number, unit, &number))
				return -EINVAL;
		}
	}
	*value = number;
	return 0;
}

int numbers_parse_real(const char *text, double *value)
{
	char *end;
	double number;

	if (!isdigit((unsigned char)*text) && *text != '.')
		return -EINVAL;
	number = strtod(text, &end);
	if (end == text || *end || !isfinite(number))
		return -EINVAL;
	*value = number;
	return 0;
}

char *numbers_thousands(double value)
{
	char *digits = tool_format("%.0f", fabs(value));
	size_t n = strlen(digits);
	char *text = tool_alloc(n + n / 3 + 2, 1);
	char *out = text;

	if (value < 0 && strcmp(digits, "0"))
		*out++ = '-';
	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	free(digits);
	return text;
}

char *numbers_change(double before, double after)
{
	if (before == after)
		return tool_copy("+0.00%");
	if (before == 0)
		return tool_copy("new");
	return tool_format("%+.2f%%", 100 * (after - before) / before);
}

char *numbers_bytes(double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned unit = 0;

	while (bytes >= 1024 && unit + 1 < TOOL_COUNT(units)) {
		bytes /= 1024;
		unit++;
	}
	return tool_format("%.*f %s", unit ? 1 : 0, bytes, units[unit]);
}
