/* SPDX-License-Identifier: MIT */
/*
 * The snapshot: all statistics of all caches as JSON, written to a descriptor through a small buffer on
 * the stack. Allocates nothing.
 */
#include <uslub/uslub.h>
#include "base/print.h"
#include "platform/platform.h"

struct snapshot {
	struct printer *out;
	bool first;
};

static int sink(void *arg, const char *text, size_t len)
{
	return plat_write(*(int *)arg, text, len);
}

/* The length of the UTF-8 character that s begins with; 0 if it does not begin with one. */
static unsigned utf8_length(const unsigned char *s)
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

/* A name as a JSON string: names are the user's and may hold anything, UTF-8 or not. */
static void print_name(struct printer *p, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned length;

	print_format(p, "\"");
	for (; *s; s += max(length, 1u)) {
		length = utf8_length(s);
		if (!length)
			print_format(p, "\\ufffd");
		else if (*s == '"' || *s == '\\')
			print_format(p, "\\%c", *s);
		else if (*s < 0x20)
			print_format(p, "\\u00%c%c", '0' + (*s >> 4), "0123456789abcdef"[*s & 15]);
		else
			for (unsigned i = 0; i < length; i++)
				print_format(p, "%c", s[i]);
	}
	print_format(p, "\"");
}

static int print_cache(struct uslub_cache *c, void *arg)
{
	struct snapshot *s = arg;
	uint64_t value;

	print_format(s->out, "%s\n{\"name\":", s->first ? "" : ",");
	print_name(s->out, uslub_cache_name(c));
	print_format(s->out, ",\"values\":{");
	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		uslub_cache_stat(c, (enum uslub_stat)i, &value);
		print_format(s->out, "%s\"%s\":%lu", i ? "," : "", uslub_stat_name(i),
			     (unsigned long)value);
	}
	print_format(s->out, "}}");
	s->first = false;
	return s->out->error;
}

int uslub_snapshot_write(int fd)
{
	char buf[1024];
	struct printer p = { .buf = buf, .size = sizeof(buf), .sink = sink, .arg = &fd };
	struct snapshot s = { .out = &p, .first = true };

	print_format(&p,
		     "{\"format\":\"uslub-snapshot\",\"version\":1,\"source\":\"process\","
		     "\"host\":{\"pid\":%u,\"cpus\":%u,\"nodes\":%u,\"page_size\":%zu,\"rseq\":%s},"
		     "\"caches\":[",
		     plat_pid(), plat_ncpu(), plat_nnodes(), plat_page_size(),
		     plat_rseq_mode() ? "true" : "false");
	uslub_for_each_cache(print_cache, &s);
	print_format(&p, "\n]}\n");
	print_flush(&p);
	return p.error;
}
