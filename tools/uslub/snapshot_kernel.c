/* SPDX-License-Identifier: MIT */
/*
 * The kernel's caches, from /sys/kernel/slab or a copy of it.
 *
 * 1. What there is
 *
 * A directory for each cache, in it a file for each statistic. Which files there are depends on the kernel's
 * version and on how it was built: the counters are there with CONFIG_SLUB_STATS only. So no list of files is
 * kept here: each that holds a number is a value under its own name. Files that never hold one are not opened;
 * they are in the table no_values.
 *
 * 2. Names
 *
 * Caches of the same kind and size are merged. Their directory is then called by what they have in common,
 * such as ":A-0000256", and a symbolic link leads to it from the name of each. People know those names, so
 * the cache gets the first of them, and the others become aliases, the directory's own name among them.
 *
 * A copy that was made by following links (`cp -rL`) has directories in their place. Such a directory repeats
 * one whose name begins with ':' when all constants are the same, and
 *
 *	- it says that it has aliases, which a cache that stands alone has not; or
 *	- it is the only one like that, since a merged cache has one name at least;
 *
 * where several could be meant, all values have to be the same for one of them and no other. What is left is
 * shown as a cache of its own, and said to be doubtful unless all that it could repeat have got their name.
 *
 * 3. What a file says
 *
 *	645 N0=600 N1=45	a sum, and what nodes (N) or CPUs (C) contributed, those without any left out
 *	48(6) C0=48(6)		of slabs_cpu_partial: an estimate of objects, in brackets the slabs, which is
 *				what the value of that name is here
 *
 * Every such file ends with a newline. A number that nothing follows may be half of a number, so it is no value.
 * The kernel itself cuts files off at the size of a page, which happens to counters of hundreds of CPUs: then
 * the sum at the front is good, and the shares are left away because some are missing.
 *
 * 4. Trust
 *
 * A copy may come from anybody. Nothing but plain files is read, none through a link, at most FILE_MOST bytes
 * of each; opening does not wait for a writer, should something be a pipe after all. Names may hold anything.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "snapshot.h"
#include "text.h"
#include "tool.h"

#define SYSFS	  "/sys/kernel/slab"
#define SLABINFO  "/proc/slabinfo"
#define FILE_MOST 65536u

/* The highest node or CPU that a snapshot file can tell of. */
#define INDEX_MOST 65535u

/* Files that are commands, or tell places in the kernel's code. */
static const char *const no_values[] = {
	"alloc_calls", "alloc_traces", "ctor", "free_calls", "free_traces", "shrink", "validate",
};

static const char denied[] = "this user may not read what is in it: run this as root (sudo)";

/* Things that went wrong in one way: how many, and the first of them. */
struct trouble {
	unsigned count;
	char *first;
};

/*
 * struct reader - a reading under way
 * @s: what has been read
 * @cache: the name of the directory of the cache that is being read
 * @unread: files without a value that should have one
 * @cut: files of which only the sum is good
 * @empty: directories without a value
 * @stray: links that lead to no cache
 * @doubtful: directories that may repeat others
 * @denied: some files may not be read by this user
 * @known: values whose names this program knows
 * @text: of a file
 */
struct reader {
	struct snapshot *s;
	const char *cache;
	struct trouble unread;
	struct trouble cut;
	struct trouble empty;
	struct trouble stray;
	struct trouble doubtful;
	bool denied;
	unsigned known;
	char text[FILE_MOST + 1];
};

/* ---- Troubles ---- */

/* @text becomes the trouble's. */
static void note_trouble(struct trouble *t, char *text)
{
	if (t->count++)
		free(text);
	else
		t->first = text;
}

/* @why may be NULL: that it is one of these troubles says it all. */
static void note_file(const struct reader *r, struct trouble *t, const char *file, const char *why)
{
	char *cache = text_shown(r->cache), *name = text_shown(file);

	note_trouble(t, tool_format("%s/%s%s%s", cache, name, why ? ": " : "", why ? why : ""));
	free(cache);
	free(name);
}

static void tell_trouble(struct snapshot *s, struct trouble *t, const char *one, const char *many)
{
	if (t->count)
		snapshot_note(s, "%u %s (%s%s)", t->count, t->count == 1 ? one : many,
			      t->count == 1 ? "" : "first: ", t->first);
}

static void tell_troubles(struct reader *r)
{
	tell_trouble(r->s, &r->unread, "file gave no value", "files gave no value");
	tell_trouble(r->s, &r->cut, "file ends early, so shares of nodes and CPUs are left away",
		     "files end early, so shares of nodes and CPUs are left away");
	tell_trouble(r->s, &r->empty, "directory has no values and is left away",
		     "directories have no values and are left away");
	tell_trouble(r->s, &r->stray, "link leads to no cache", "links lead to no cache");
	tell_trouble(r->s, &r->doubtful, "cache may be another name of one that is shown, too",
		     "caches may be other names of some that are shown, too");
}

static void free_troubles(struct reader *r)
{
	free(r->unread.first);
	free(r->cut.first);
	free(r->empty.first);
	free(r->stray.first);
	free(r->doubtful.first);
}

/* ---- Lists of names ---- */

/*
 * struct entry - what stands in a directory
 * @target: of a link: the last part of where it leads; else NULL
 * @cache: of a directory: the number of its cache in the snapshot, or -1
 */
struct entry {
	char *name;
	char *target;
	int cache;
};

struct entries {
	struct entry *list;
	unsigned count;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void free_entries(struct entries *e)
{
	for (unsigned i = 0; i < e->count; i++) {
		free(e->list[i].name);
		free(e->list[i].target);
	}
	free(e->list);
}

/* The last part of where a link leads; NULL: it cannot be told. */
static char *link_target(int dir, const char *name)
{
	char target[4096];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0)
		return NULL;
	target[n] = '\0';
	return tool_copy(strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
}

/* DT_... of an entry, also where the file system does not say it by itself. */
static int kind_of(int dir, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type;
	if (fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return DT_UNKNOWN;
	return IFTODT(st.st_mode);
}

/* Lists what is of two kinds, by name, so that a reading does not depend on the order on the disk. */
static struct entries list_entries(int dir, int kind, int other)
{
	struct entries e = { 0 };
	DIR *stream = fdopendir(dup(dir));
	struct dirent *d;

	while (stream && (d = readdir(stream))) {
		int is = kind_of(dir, d);
		struct entry *entry;

		if ((is != kind && is != other) || !strcmp(d->d_name, ".") ||
		    !strcmp(d->d_name, ".."))
			continue;
		e.list = tool_grow(e.list, e.count + 1, sizeof(*e.list));
		entry = &e.list[e.count++];
		entry->name = tool_copy(d->d_name);
		entry->cache = -1;
		entry->target = is == DT_LNK ? link_target(dir, d->d_name) : NULL;
	}
	if (stream)
		closedir(stream);
	if (e.count)
		qsort(e.list, e.count, sizeof(*e.list), by_name);
	return e;
}

/* ---- A file ---- */

/* Puts a whole file into r->text; NULL, or why not. */
static const char *read_text(struct reader *r, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	size_t length = 0;
	struct stat st;
	ssize_t n = -1;
	int error;

	if (fd >= 0 && !fstat(fd, &st) && !S_ISREG(st.st_mode)) {
		close(fd);
		return "not a file";
	}
	while (fd >= 0 && length <= FILE_MOST) {
		n = read(fd, r->text + length, FILE_MOST + 1 - length);
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		r->denied |= error == EACCES || error == EPERM;
		/* A cache that goes away meanwhile is nothing to complain of. */
		return error == ENOENT || error == ENODEV ? "" : strerror(error);
	}
	if (length > FILE_MOST)
		return "too long";
	r->text[length] = '\0';
	if (strlen(r->text) != length)
		return "not a text";
	return length ? NULL : "empty";
}

/* A number, or with @brackets the one behind it in brackets. False: there is none. */
static bool parse_number(const char **at, bool brackets, double *value)
{
	bool negative = **at == '-';
	const char *begin = *at + negative;
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)*begin))
		return false;
	errno = 0;
	number = strtoull(begin, &end, 10);
	if (brackets && *end == '(' && isdigit((unsigned char)end[1])) {
		number = strtoull(end + 1, &end, 10);
		if (*end++ != ')')
			return false;
	}
	if (errno)
		return false;
	*value = negative ? -(double)number : (double)number;
	*at = end;
	return true;
}

/* " N0=645 C5=1": what nodes and CPUs contributed, up to the end of the line. False: not all of it is that. */
static bool parse_parts(const char *at, bool brackets, struct snapshot_value *v)
{
	long last[2] = { -1, -1 };

	while (*at == ' ') {
		bool cpu = at[1] == 'C';
		double value;
		long index;
		char *end;

		if ((!cpu && at[1] != 'N') || !isdigit((unsigned char)at[2]))
			return false;
		index = strtol(at + 2, &end, 10);
		if (index > (long)INDEX_MOST || index <= last[cpu] || *end != '=')
			return false;
		last[cpu] = index;
		at = end + 1;
		if (!parse_number(&at, brackets, &value))
			return false;
		if (value != 0)
			snapshot_parts_add(cpu ? &v->cpus : &v->nodes, (unsigned)index, value);
	}
	return !strcmp(at, "\n");
}

static void drop_parts(struct snapshot_parts *parts)
{
	free(parts->parts);
	memset(parts, 0, sizeof(*parts));
}

static bool holds_value(const char *name)
{
	for (unsigned i = 0; i < TOOL_COUNT(no_values); i++) {
		if (!strcmp(name, no_values[i]))
			return false;
	}
	return true;
}

/*
 * Of a file whose name is not known and that holds no number nothing was expected: it is of a kernel that is
 * newer than this program, and no trouble.
 */
static void read_file(struct reader *r, int dir, const char *name, struct snapshot_cache *c)
{
	int which = uslub_stat_find(name);
	bool known = which >= 0, brackets = which == USLUB_STAT_slabs_cpu_partial, line;
	const char *at = r->text, *why;
	struct snapshot_value *v;
	double value;

	why = read_text(r, dir, name);
	if (!why && !parse_number(&at, brackets, &value))
		why = "no number";
	else if (!why && !*at)
		why = "ends early";
	else if (!why && *at != ' ' && *at != '\n')
		why = "no number";
	if (why) {
		if (*why && (known || strcmp(why, "no number") != 0))
			note_file(r, &r->unread, name, why);
		return;
	}
	line = strchr(at, '\n') && !strchr(at, '\n')[1];
	if (!known && !line && strchr(at, '\n'))
		return; /* a text of several lines */
	v = snapshot_cache_add(c, name, value);
	r->known += known;
	if (parse_parts(at, brackets, v))
		return;
	drop_parts(&v->nodes);
	drop_parts(&v->cpus);
	if (known || !line)
		note_file(r, &r->cut, name, NULL);
}

/* ---- A cache ---- */

/* Adds what the files in a directory say, unless they say nothing. */
static void read_files(struct reader *r, int dir, struct entry *entry)
{
	struct entries files = list_entries(dir, DT_REG, DT_REG);
	struct snapshot_cache *c = snapshot_add(r->s, entry->name);

	for (unsigned i = 0; i < files.count; i++) {
		if (holds_value(files.list[i].name))
			read_file(r, dir, files.list[i].name, c);
	}
	free_entries(&files);
	if (c->count) {
		entry->cache = (int)r->s->count - 1;
		return;
	}
	snapshot_drop(r->s, r->s->count - 1);
	note_trouble(&r->empty, text_shown(entry->name));
}

/* Adds the cache in a directory, under the directory's name. */
static void read_cache(struct reader *r, int top, struct entry *entry)
{
	int dir = openat(top, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int error = errno;
	char *shown;

	r->cache = entry->name;
	if (dir >= 0) {
		read_files(r, dir, entry);
		close(dir);
	} else if (error != ENOENT) {
		r->denied |= error == EACCES;
		shown = text_shown(entry->name);
		note_trouble(&r->empty, tool_format("%s: %s", shown, strerror(error)));
		free(shown);
	}
}

/* ---- Further names ---- */

static bool is_shared(const struct snapshot_cache *c)
{
	return c->name[0] == ':';
}

static struct snapshot_cache *cache_of(struct snapshot *s, const struct entries *e, char *directory)
{
	const struct entry key = { .name = directory };
	const struct entry *found = bsearch(&key, e->list, e->count, sizeof(key), by_name);

	return found && found->cache >= 0 ? &s->caches[found->cache] : NULL;
}

/* While names are collected all are aliases, and the cache keeps the name of its directory. */
static void read_links(struct reader *r, const struct entries *e)
{
	for (unsigned i = 0; i < e->count; i++) {
		const struct entry *entry = &e->list[i];
		struct snapshot_cache *c;

		if (!entry->target)
			continue;
		c = cache_of(r->s, e, entry->target);
		if (c)
			snapshot_cache_alias(c, entry->name);
		else
			note_trouble(&r->stray, text_shown(entry->name));
	}
}

static bool constant(const struct snapshot_value *v)
{
	int kind = v->which < 0 ? -1 : uslub_stat_kind((enum uslub_stat)v->which);

	return kind == USLUB_STAT_KIND_ATTRIBUTE || kind == USLUB_STAT_KIND_FLAG;
}

/* Whether two caches agree, at least in what never changes. */
static bool alike(const struct snapshot_cache *a, const struct snapshot_cache *b, bool exactly)
{
	if (a->count != b->count)
		return false;
	for (unsigned i = 0; i < a->count; i++) {
		const struct snapshot_value *v = &a->values[i], *other = &b->values[i];

		/* Values are still in the order of the files' names. */
		if (strcmp(v->name, other->name) != 0)
			return false;
		if ((exactly || constant(v)) && v->value != other->value)
			return false;
	}
	return true;
}

/* The only cache of the other sort, with ':' or without, that is like this one; NULL: none, or several. */
static struct snapshot_cache *only_like(struct snapshot *s, const struct snapshot_cache *c,
					bool exactly, unsigned *count)
{
	struct snapshot_cache *found = NULL;

	*count = 0;
	for (unsigned i = 0; i < s->count; i++) {
		if (is_shared(&s->caches[i]) == is_shared(c) || !alike(c, &s->caches[i], exactly))
			continue;
		found = &s->caches[i];
		++*count;
	}
	return *count == 1 ? found : NULL;
}

/* Whether all caches that @c might repeat have another for their only name. */
static bool others_named(struct snapshot *s, const struct snapshot_cache *c)
{
	unsigned count;

	for (unsigned i = 0; i < s->count; i++) {
		const struct snapshot_cache *shared = &s->caches[i];

		if (is_shared(shared) && alike(c, shared, false) &&
		    !only_like(s, shared, true, &count))
			return false;
	}
	return true;
}

/* The cache that @c repeats; NULL: none, or it is not certain which. */
static struct snapshot_cache *repeated(struct reader *r, const struct snapshot_cache *c)
{
	const struct snapshot_value *aliases = snapshot_stat(c, USLUB_STAT_aliases);
	struct snapshot_cache *shared;
	unsigned count, back;

	for (int exactly = 0; exactly < 2; exactly++) {
		shared = only_like(r->s, c, exactly, &count);
		if (!aliases || (!exactly && !count))
			return NULL;
		if (shared && aliases->value > 0)
			return shared;
		if (shared && only_like(r->s, shared, exactly, &back) == c)
			return shared;
	}
	if (aliases->value > 0 || !others_named(r->s, c))
		note_trouble(&r->doubtful, text_shown(c->name));
	return NULL;
}

/* In a copy made by following links: takes repetitions away, and their names along. */
static void merge_repeated(struct reader *r)
{
	struct snapshot *s = r->s;
	bool *repeats = tool_alloc(s->count, sizeof(*repeats));

	for (unsigned i = 0; i < s->count; i++) {
		struct snapshot_cache *shared = NULL;

		if (!is_shared(&s->caches[i]))
			shared = repeated(r, &s->caches[i]);
		if (shared)
			snapshot_cache_alias(shared, s->caches[i].name);
		repeats[i] = shared;
	}
	for (unsigned i = s->count; i--;) {
		if (repeats[i])
			snapshot_drop(s, i);
	}
	free(repeats);
}

/* Gives a merged cache the first of its names. */
static void name_cache(struct snapshot_cache *c)
{
	unsigned first = 0;
	char *name;

	if (!is_shared(c) || !c->aliases_count)
		return;
	for (unsigned i = 1; i < c->aliases_count; i++) {
		if (strcmp(c->aliases[i], c->aliases[first]) < 0)
			first = i;
	}
	name = c->aliases[first];
	c->aliases[first] = c->name;
	c->name = name;
}

/* ---- All of it ---- */

static void read_caches(struct reader *r, int top)
{
	struct entries e = list_entries(top, DT_DIR, DT_LNK);
	bool links = false;

	for (unsigned i = 0; i < e.count; i++) {
		links |= e.list[i].target != NULL;
		if (!e.list[i].target)
			read_cache(r, top, &e.list[i]);
	}
	if (links)
		read_links(r, &e);
	else
		merge_repeated(r);
	for (unsigned i = 0; i < r->s->count; i++)
		name_cache(&r->s->caches[i]);
	free_entries(&e);
}

/* How many numbers there are in a list such as "0-3,8"; 0: that cannot be told. */
static unsigned count_list(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned from, to, count = 0;

	while (file && fscanf(file, "%u", &from) == 1) {
		if (fscanf(file, "-%u", &to) != 1)
			to = from;
		count += to >= from ? to - from + 1 : 0;
		if (fgetc(file) != ',')
			break;
	}
	if (file)
		fclose(file);
	return count;
}

/* Facts about this machine, which a copy may not be of. */
static void read_host(struct snapshot *s)
{
	unsigned nodes = count_list("/sys/devices/system/node/online");
	struct utsname name;

	s->time = tool_time();
	if (!uname(&name))
		snapshot_set_text(s, "release", name.release);
	snapshot_set_number(s, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
	if (nodes)
		snapshot_set_number(s, "nodes", nodes);
	snapshot_set_number(s, "page_size", (double)sysconf(_SC_PAGESIZE));
}

/*
 * NULL when the directory is read, else what is wrong with it, for the caller to free.
 * @here: it is of this machine, as is everything in a sysfs
 */
static char *read_directory(struct snapshot *s, const char *path, bool here)
{
	int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct reader *r;
	struct statfs fs;
	char *wrong = NULL;

	if (top < 0)
		return tool_copy(errno == EACCES ? denied : strerror(errno));
	r = tool_alloc(1, sizeof(*r));
	r->s = s;
	read_caches(r, top);
	if (here || (!fstatfs(top, &fs) && fs.f_type == SYSFS_MAGIC))
		read_host(s);
	close(top);
	if (r->known)
		tell_troubles(r);
	else
		wrong = tool_copy(r->denied ? denied : "there are no caches in it");
	free_troubles(r);
	free(r);
	return wrong;
}

static struct snapshot *read_copy(const char *path)
{
	struct snapshot *s = snapshot_new(SNAPSHOT_KERNEL);
	char *wrong = read_directory(s, path, false);

	if (!wrong)
		return s;
	tool_error("cannot read caches in %s: %s%s", path, wrong,
		   strcmp(wrong, denied) ? "; it should be a copy of " SYSFS " or " SLABINFO : "");
	free(wrong);
	snapshot_free(s);
	return NULL;
}

/* Less is better than nothing: without /sys/kernel/slab, for the reason @wrong, the other file will do. */
static struct snapshot *fall_back(const char *wrong)
{
	struct snapshot *s;

	if (access(SLABINFO, R_OK)) {
		const char *neither = strerror(errno);

		tool_error("cannot read " SYSFS ": %s%s; nor " SLABINFO ": %s", wrong,
			   access(SYSFS, F_OK)
				   ? " (is /sys mounted, and SLUB the kernel's allocator?)"
				   : "",
			   neither);
		return NULL;
	}
	s = snapshot_slabinfo(SLABINFO);
	if (!s)
		return NULL;
	read_host(s);
	snapshot_note(s, "this is " SLABINFO ", since " SYSFS " cannot be read: %s", wrong);
	return s;
}

struct snapshot *snapshot_kernel(const char *sysfs)
{
	struct snapshot *s;
	char *wrong;

	if (sysfs && snapshot_is_slabinfo(sysfs))
		return snapshot_slabinfo(sysfs);
	if (sysfs) {
		s = read_copy(sysfs);
	} else {
		s = snapshot_new(SNAPSHOT_KERNEL);
		wrong = read_directory(s, SYSFS, true);
		if (wrong) {
			snapshot_free(s);
			s = fall_back(wrong);
		}
		free(wrong);
	}
	if (s)
		snapshot_sort(s);
	return s;
}
