/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people write and read them.
 */
#ifndef TOOLS_NUMBERS_H
#define TOOLS_NUMBERS_H

#include <stdint.h>

/*
 * numbers_parse - read a whole number with an optional suffix k, M, G or T
 * @text: the whole text must be the number
 * @unit: what k stands for: 1000 for things that are counted, 1024 for bytes
 * @value: where to put it
 *
 * Returns 0 or -EINVAL.
 */
int numbers_parse(const char *text, unsigned unit, uint64_t *value);

/*
 * numbers_parse_real - read a finite number that is not negative
 */
int numbers_parse_real(const char *text, double *value);

/*
 * Strings for tables, for the caller to free.
 *
 * numbers_thousands - 1234567 as "1,234,567"; rounded to a whole number
 * numbers_change    - what became of @before, in per cent: "+23.88%", or "new" when it was nothing
 * numbers_bytes     - "12.3 MiB"
 */
char *numbers_thousands(double value);
char *numbers_change(double before, double after);
char *numbers_bytes(double bytes);

#endif /* TOOLS_NUMBERS_H */
