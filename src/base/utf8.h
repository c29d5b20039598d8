/* SPDX-License-Identifier: MIT */
/* UTF-8, as far as is needed to tell it from what is none. */
#ifndef USLUB_BASE_UTF8_H
#define USLUB_BASE_UTF8_H

/* The length of the UTF-8 character that s begins with; 0 if it does not begin with one. */
static inline unsigned utf8_length(const unsigned char *s)
{
	unsigned n = 0;

	if (s[0] < 0x80)
		n = 1;
	else if (s[0] >= 0xc2 && s[0] < 0xf5)
		n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Not overlong, no surrogate, not beyond U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return n;
}

#endif /* USLUB_BASE_UTF8_H */
