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

/* A name as a JSON string: names are the user's and may hold anything. */
static void print_name(struct printer *p, const char *name)
{
	print_format(p, "\"");
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c == '"' || c == '\\')
			print_format(p, "\\%c", c);
		else if (c < 0x20)
			print_format(p, "\\u00%c%c", '0' + (c >> 4), "0123456789abcdef"[c & 15]);
		else
			print_format(p, "%c", c);
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
