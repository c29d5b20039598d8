/* SPDX-License-Identifier: MIT */
/*
 * The kernel's caches, from /proc/slabinfo or a copy of it:
 *
 *   slabinfo - version: 2.1
 *   # name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ... : slabdata <active_slabs> <num_slabs> ...
 *
 * It tells much less than /sys/kernel/slab: no counters, no names of merged caches but one, and sizes that
 * were rounded up.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "snapshot.h"
#include "tool.h"

static const char header[] = "slabinfo - version: 2.";

/* A line of it is shorter, and no name is as long. */
#define LINE_MOST 1024u

/* A plain file only, and without waiting for a pipe's writer; NULL: no. */
static FILE *open_plain(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *file = NULL;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		file = fdopen(fd, "r");
	if (fd >= 0 && !file)
		close(fd);
	return file;
}

bool snapshot_is_slabinfo(const char *path)
{
	FILE *file = open_plain(path);
	char line[LINE_MOST];
	bool is;

	if (!file)
		return false;
	is = fgets(line, sizeof(line), file) && !strncmp(line, header, strlen(header));
	fclose(file);
	return is;
}

/* What a line says that can be used. */
struct line {
	uint64_t active_objs;
	uint64_t num_objs;
	uint64_t objsize;
	uint64_t objperslab;
	uint64_t pagesperslab;
	uint64_t num_slabs;
};

/* Shortens a text by its last word, which is a number. False: it is none. */
static bool take_number(char *text, uint64_t *value)
{
	char *word = strrchr(text, ' '), *end;

	if (!word || word[1] < '0' || word[1] > '9')
		return false;
	errno = 0;
	*value = strtoull(word + 1, &end, 10);
	if (*end || errno)
		return false;
	while (word > text && word[-1] == ' ')
		word--;
	*word = '\0';
	return true;
}

/* Leaves the name in @text. From the right, since there are names with blanks in them. */
static bool parse_line(char *text, struct line *l)
{
	char *tunables = strstr(text, " : tunables "), *data = strstr(text, " : slabdata ");
	uint64_t active_slabs, shared;

	if (!tunables || !data || !strchr(data, '\n'))
		return false;
	*strchr(data, '\n') = '\0';
	*tunables = '\0';
	return take_number(data, &shared) && take_number(data, &l->num_slabs) &&
	       take_number(data, &active_slabs) && take_number(text, &l->pagesperslab) &&
	       take_number(text, &l->objperslab) && take_number(text, &l->objsize) &&
	       take_number(text, &l->num_objs) && take_number(text, &l->active_objs) && *text;
}

static void add_cache(struct snapshot *s, const char *name, const struct line *l)
{
	struct snapshot_cache *c = snapshot_add(s, name);
	unsigned order = 0;

	snapshot_cache_add(c, "object_size", (double)l->objsize);
	snapshot_cache_add(c, "objects", (double)l->active_objs);
	snapshot_cache_add(c, "objs_per_slab", (double)l->objperslab);
	while (order < 63 && (uint64_t)1 << order < l->pagesperslab)
		order++;
	if ((uint64_t)1 << order == l->pagesperslab)
		snapshot_cache_add(c, "order", order);
	snapshot_cache_add(c, "slabs", (double)l->num_slabs);
	snapshot_cache_add(c, "total_objects", (double)l->num_objs);
}

/* Returns how many lines could not be understood. */
static unsigned read_lines(struct snapshot *s, FILE *file)
{
	char text[LINE_MOST];
	unsigned bad = 0;
	struct line l;

	while (fgets(text, sizeof(text), file)) {
		if (*text == '#' || !strncmp(text, header, strlen(header)))
			continue;
		if (parse_line(text, &l))
			add_cache(s, text, &l);
		else
			bad++;
	}
	return bad;
}

struct snapshot *snapshot_slabinfo(const char *path)
{
	FILE *file = open_plain(path);
	struct snapshot *s;
	unsigned bad;

	if (!file) {
		tool_error("cannot read %s: %s", path, strerror(errno));
		return NULL;
	}
	s = snapshot_new(SNAPSHOT_KERNEL);
	errno = 0;
	bad = read_lines(s, file);
	if (ferror(file) || !s->count) {
		tool_error("cannot read caches in %s: %s", path,
			   ferror(file) ? strerror(errno) : "there are none in it");
		fclose(file);
		snapshot_free(s);
		return NULL;
	}
	fclose(file);
	snapshot_note(s, "slabinfo has no counters, and one name of merged caches");
	if (bad)
		snapshot_note(s, "%u lines of it cannot be understood", bad);
	snapshot_sort(s);
	return s;
}
