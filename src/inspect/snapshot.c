/* SPDX-License-Identifier: MIT */
/*
 * The snapshot: all statistics of all caches as JSON, written to a descriptor through a small buffer on
 * the stack. Allocates nothing.
 *
 * Whoever reads the other end may be slow, or want something of this process first. So nothing is held
 * while it is written: one cache at a time is copied under the registry lock, and the next one is found
 * by its number, whatever came and went meanwhile.
 */
#include <string.h>
#include <uslub/uslub.h>
#include "base/print.h"
#include "base/utf8.h"
#include "cache/internal.h"
#include "inspect/figures.h"

struct copy {
	char name[CACHE_NAME_MAX];
	uint64_t values[USLUB_STAT_COUNT];
	bool timed;
	struct uslub_latency_histogram latencies[USLUB_LATENCY_COUNT];
};

static int sink(void *arg, const char *text, size_t len)
{
	return plat_write(*(int *)arg, text, len);
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

static void copy_cache(struct uslub_cache *c, void *arg)
{
	struct copy *copy = arg;

	memcpy(copy->name, c->name, sizeof(copy->name));
	for (int i = 0; i < USLUB_STAT_COUNT; i++)
		uslub_cache_stat(c, (enum uslub_stat)i, &copy->values[i]);
	copy->timed = true;
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++)
		copy->timed &= !uslub_cache_latency(c, (enum uslub_latency)i, &copy->latencies[i]);
}

static void print_latencies(struct printer *p, const struct copy *copy)
{
	print_format(p, ",\"latency\":{");
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++) {
		const struct uslub_latency_histogram *h = &copy->latencies[i];

		print_format(p, "%s\"%s\":{\"sum_ns\":%lu,\"counts\":[", i ? "," : "",
			     uslub_latency_name((enum uslub_latency)i), (unsigned long)h->sum_ns);
		for (unsigned b = 0; b < USLUB_LATENCY_BUCKETS; b++)
			print_format(p, "%s%lu", b ? "," : "", (unsigned long)h->buckets[b]);
		print_format(p, "]}");
	}
	print_format(p, "}");
}

static void print_cache(struct printer *p, const struct copy *copy, bool first)
{
	print_format(p, "%s\n{\"name\":", first ? "" : ",");
	print_name(p, copy->name);
	print_format(p, ",\"values\":{");
	for (int i = 0; i < USLUB_STAT_COUNT; i++)
		print_format(p, "%s\"%s\":%lu", i ? "," : "", uslub_stat_name(i),
			     (unsigned long)copy->values[i]);
	print_format(p, "}");
	if (copy->timed)
		print_latencies(p, copy);
	print_format(p, "}");
}

static void print_figures(struct printer *p)
{
	struct figure_entry figures[FIGURE_COUNT];
	struct recipe_view view;

	figures_get(figures);
	figures_view(&view);
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		print_format(p, ",\"%s\":%lu", figures[i].name,
			     (unsigned long)recipe_value(&figures[i].recipe, &view));
}

int uslub_snapshot_write(int fd)
{
	char buf[1024];
	struct printer p = { .buf = buf, .size = sizeof(buf), .sink = sink, .arg = &fd };
	uint64_t number = 0;
	struct copy copy;
	bool first = true;

	print_format(&p,
		     "{\"format\":\"uslub-snapshot\",\"version\":1,\"source\":\"process\","
		     "\"host\":{\"pid\":%u,\"cpus\":%u,\"nodes\":%u,\"page_size\":%zu,\"rseq\":%s",
		     plat_pid(), plat_ncpu(), plat_nnodes(), plat_page_size(),
		     plat_rseq_mode() ? "true" : "false");
	print_figures(&p);
	print_format(&p, "},\"caches\":[");
	while (!p.error && (number = registry_next(number, copy_cache, &copy))) {
		print_cache(&p, &copy, first);
		first = false;
	}
	print_format(&p, "\n]}\n");
	print_flush(&p);
	return p.error;
}
