/* SPDX-License-Identifier: MIT */
/*
 * Export: what other programs can see of this process's caches, in shared memory that they read without
 * asking. inspect/export_format.h tells what lies there and who may read it.
 *
 * 1. When
 *    A program asks for it by uslub_export(), its user by USLUB_EXPORT=1 in the environment, which programs in
 *    secure-execution mode do not look at. USLUB_EXPORT=fd:N names a descriptor of such memory that `uslub run`
 *    made, and keeps, to see the last values when the process has ended. The first process that finds it
 *    claims it, and claims it again when it has executed another program; all others make their own.
 *
 * 2. Cost
 *    None for the fast paths. The directory changes when caches come, go or are renamed, under the registry
 *    lock. The copies of values, for readers that may not read the process's memory, are renewed by slow
 *    paths, which look at a coarse clock for it, at most every COPY_NS for each cache.
 *
 * 3. Trust
 *    The shared memory is only ever written to, since others may have it mapped who are not to be trusted with
 *    this process: what it says of itself is kept in `directory`, which is private.
 *
 * 4. Locking
 *    Who changes an entry takes its private lock, a word, and makes the entry's seq odd meanwhile. Signals are
 *    blocked for that time, so that no handler finds its own thread in the midst of it; a slow path that finds
 *    it taken leaves it. Nothing is waited for but by those who come with the registry lock.
 *
 * 5. Fork
 *    The child makes memory of its own at the same address and fills it anew. A child that was made without
 *    fork handlers shares its parent's, so it does not write there: plat_share_ours() tells.
 */
#include <errno.h>
#include <string.h>
#include <uslub/uslub.h>
#include "base/print.h"
#include "cache/internal.h"
#include "inspect/export_format.h"
#include "inspect/figures.h"

#define COPY_NS	 100000000
#define PATIENCE 1000 /* times that the end of the process yields to whom it waits for */

#define ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))
#define TABLE_BYTES	((USLUB_STAT_COUNT + FIGURE_COUNT) * sizeof(struct export_stat))
#define NAMES_BYTES	(USLUB_LATENCY_COUNT * sizeof(struct export_latency))
#define STATS_AT	ROUND_UP(sizeof(struct export_header), (size_t)CACHE_LINE)
#define CACHES_AT	ROUND_UP(STATS_AT + TABLE_BYTES + NAMES_BYTES, (size_t)65536)
#define ENTRIES		((unsigned)((EXPORT_SIZE - CACHES_AT) / sizeof(struct export_cache)))

const struct cache_watcher *cache_watcher;

static struct plat_share share;
static bool opened; /* under the registry lock; read without, as a hint */

/* What lies in the shared memory; under the registry lock, but for the locks and times of copies. */
static struct {
	struct {
		uint32_t lock; /* atomic: 1 while it is being changed */
		uint32_t seq;  /* under the lock */
		uint32_t state, of;
		uint64_t copied; /* atomic */
	} entries[ENTRIES];
	unsigned used;	     /* up to the last that was ever used */
	unsigned first_free; /* none before it is free */
	unsigned shown, names;
} directory;

static struct export_header *header(void)
{
	return share.memory;
}

static struct export_cache *entry_at(unsigned n)
{
	return (struct export_cache *)((char *)share.memory + CACHES_AT) + n;
}

/* ---- changing an entry ---------------------------------------------------------------------------- */

struct change {
	unsigned n;
	uint64_t signals;
};

static bool change_try(struct change *change, unsigned n)
{
	uint32_t no = 0;

	change->n = n;
	change->signals = plat_signals_block();
	if (!plat_cas(&directory.entries[n].lock, &no, 1)) {
		plat_signals_restore(change->signals);
		return false;
	}
	plat_store(&entry_at(n)->seq, ++directory.entries[n].seq);
	plat_fence();
	return true;
}

static void change_end(struct change *change)
{
	plat_store_release(&entry_at(change->n)->seq, ++directory.entries[change->n].seq);
	plat_store_release(&directory.entries[change->n].lock, 0);
	plat_signals_restore(change->signals);
}

/* With the registry lock held, whose list is in order. */
static void change_begin(struct change *change, unsigned n)
{
	plat_still_begin();
	while (!change_try(change, n))
		plat_yield();
	plat_still_end();
}

/* The copies; within a change. */
static void copy_values(const struct uslub_cache *c, unsigned n)
{
	struct export_cache *e = entry_at(n);
	struct recipe_view view;

	stat_view(c, &view);
	view.now = plat_now();
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		if (stat_has_recipe(c, (enum uslub_stat)i))
			plat_store(&e->values[i], recipe_value(&stat_recipes[i], &view));
	plat_store(&e->copied, view.now);
	plat_store(&directory.entries[n].copied, view.now);
}

static void copy_figures(void)
{
	struct figure_entry figures[FIGURE_COUNT];
	struct recipe_view view;

	figures_get(figures);
	figures_view(&view);
	for (unsigned i = 0; i < FIGURE_COUNT; i++)
		plat_store(&header()->figure_values[i], recipe_value(&figures[i].recipe, &view));
}

/* ---- the directory; under the registry lock ------------------------------------------------------- */

/* The number of an entry, or ENTRIES: there is none left. */
static unsigned find_free(void)
{
	unsigned n = directory.first_free;

	while (n < ENTRIES && directory.entries[n].state != EXPORT_FREE)
		n++;
	directory.first_free = n;
	if (n < ENTRIES && n >= directory.used) {
		directory.used = n + 1;
		plat_store(&header()->caches_used, directory.used);
	}
	return n;
}

static void set_state(unsigned n, enum export_entry state)
{
	directory.entries[n].state = state;
	entry_at(n)->state = state;
	if (state == EXPORT_FREE) {
		directory.first_free = min(directory.first_free, n);
		directory.shown--;
	} else {
		directory.shown++;
	}
}

static void count_names(int more)
{
	directory.names += (unsigned)more;
	plat_store(&header()->caches_missing, directory.names - directory.shown);
}

static void entry_name(struct export_cache *e, const char *name)
{
	size_t n = strlen(name);

	n = min(n, (size_t)EXPORT_NAME_MAX - 1);
	memset(e->name, 0, sizeof(e->name));
	memcpy(e->name, name, n);
}

static struct export_elements place(const struct recipe_elements *a)
{
	return (struct export_elements){
		.base = (uintptr_t)a->base,
		.stride = a->stride,
		.count = a->base ? a->count : 0,
		.by_slot = a->used != NULL,
	};
}

static void fill_entry(const struct uslub_cache *c, unsigned n)
{
	struct export_cache *e = entry_at(n);
	struct recipe_view view;

	stat_view(c, &view);
	entry_name(e, c->name);
	e->flags = c->internal ? EXPORT_INTERNAL : 0;
	e->latency = counters(c)->latency * (uint32_t)sizeof(uint64_t);
	e->number = c->number;
	e->address = (uintptr_t)c;
	e->class = (uintptr_t)&c->class;
	e->used = (uintptr_t)counters_used(counters(c));
	for (unsigned i = 0; i < RECIPE_ARRAYS; i++)
		e->elements[i] = place(&view.arrays[i]);
	/* Not of a cache's memory: readers have it from the header. */
	e->elements[RECIPE_PROCESS] = (struct export_elements){ 0 };
	memset(e->absent, 0, sizeof(e->absent));
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		if (!stat_has_recipe(c, (enum uslub_stat)i))
			e->absent[i / 64] |= 1ull << i % 64;
	e->copied = 0;
	plat_store(&directory.entries[n].copied, 0);
	set_state(n, EXPORT_CACHE);
}

static void show_alias(const struct uslub_cache *c, const char *name)
{
	unsigned n = c->watched ? find_free() : ENTRIES;
	struct change change;

	if (n < ENTRIES) {
		change_begin(&change, n);
		entry_name(entry_at(n), name);
		entry_at(n)->of = directory.entries[n].of = c->watched - 1;
		set_state(n, EXPORT_ALIAS);
		change_end(&change);
	}
	count_names(1);
}

static void hide(unsigned n)
{
	struct change change;

	change_begin(&change, n);
	set_state(n, EXPORT_FREE);
	change_end(&change);
}

static void hide_alias(const struct uslub_cache *c, const char *name)
{
	for (unsigned n = 0; c->watched && n < directory.used; n++)
		if (directory.entries[n].state == EXPORT_ALIAS &&
		    directory.entries[n].of == c->watched - 1 && !strcmp(entry_at(n)->name, name)) {
			hide(n);
			break;
		}
	count_names(-1);
}

/* Twice, if a handler's fork came between a cache's listing and its telling. */
static void show(struct uslub_cache *c, bool with_values)
{
	const struct alias *alias;
	struct change change;
	unsigned n;

	if (c->watched)
		return;
	n = find_free();
	if (n < ENTRIES) {
		change_begin(&change, n);
		fill_entry(c, n);
		if (with_values)
			copy_values(c, n);
		change_end(&change);
		plat_store_release(&c->watched, n + 1);
	}
	count_names(1);
	list_for_each_entry(alias, &c->aliases, link)
		show_alias(c, alias->name);
}

static void created(struct uslub_cache *c)
{
	if (plat_share_ours(&share))
		show(c, true);
}

static void aliased(struct uslub_cache *c, const char *name)
{
	if (plat_share_ours(&share))
		show_alias(c, name);
}

static void unaliased(struct uslub_cache *c, const char *name)
{
	if (plat_share_ours(&share))
		hide_alias(c, name);
}

/* It has no aliases any more. */
static void gone(struct uslub_cache *c)
{
	if (!plat_share_ours(&share))
		return;
	if (c->watched)
		hide(c->watched - 1);
	count_names(-1);
}

/* ---- copies --------------------------------------------------------------------------------------- */

static bool copy(const struct uslub_cache *c)
{
	struct change change;

	if (!change_try(&change, c->watched - 1))
		return false;
	copy_values(c, change.n);
	change_end(&change);
	return true;
}

static void stepped(struct uslub_cache *c)
{
	if (!plat_load_acquire(&c->watched) || !plat_share_ours(&share) ||
	    plat_now() - plat_load(&directory.entries[c->watched - 1].copied) < COPY_NS)
		return;
	if (copy(c))
		copy_figures();
}

static bool wait_for_registry(void)
{
	for (unsigned i = 0; i < PATIENCE; i++) {
		if (plat_trylock(&registry_lock))
			return true;
		plat_yield();
	}
	return false;
}

/*
 * The end of the process, if it is a normal one: what others see of it afterwards is as it was here. Threads may
 * still run, or hold what is wanted here and never give it back: then what was copied before remains.
 */
__attribute__((destructor)) static void finish(void)
{
	struct uslub_cache *c;

	if (!plat_load(&opened) || !plat_share_ours(&share) || plat_lock_mine(&registry_lock) ||
	    !wait_for_registry())
		return;
	list_for_each_entry(c, &registry, link)
		for (unsigned i = 0; c->watched && i < PATIENCE && !copy(c); i++)
			plat_yield();
	copy_figures();
	header()->ended = plat_now();
	plat_store_release(&header()->state, EXPORT_ENDED);
	plat_unlock(&registry_lock);
}

/* ---- the beginning -------------------------------------------------------------------------------- */

static void fill_stats(struct export_header *h, struct export_stat *stats)
{
	struct figure_entry figures[FIGURE_COUNT];
	struct recipe_view view;

	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++) {
		print_string(stats[i].name, sizeof(stats[i].name), "%s",
			     uslub_stat_name((enum uslub_stat)i));
		stats[i].kind = (uint32_t)uslub_stat_kind((enum uslub_stat)i);
		stats[i].recipe = stat_recipes[i];
	}
	figures_get(figures);
	figures_view(&view);
	stats += USLUB_STAT_COUNT;
	for (unsigned i = 0; i < FIGURE_COUNT; i++) {
		print_string(stats[i].name, sizeof(stats[i].name), "%s", figures[i].name);
		stats[i].kind = USLUB_STAT_KIND_GAUGE;
		stats[i].recipe = figures[i].recipe;
	}
	for (unsigned i = 0; i < RECIPE_ARRAYS; i++)
		h->elements[i] = place(&view.arrays[i]);
}

static void fill_latencies(struct export_latency *latencies)
{
	for (unsigned i = 0; i < USLUB_LATENCY_COUNT; i++)
		print_string(latencies[i].name, sizeof(latencies[i].name), "%s",
			     uslub_latency_name((enum uslub_latency)i));
}

static void fill_map(struct export_map *m)
{
	struct supply_places places;

	supply_places(&places);
	*m = (struct export_map){
		.segments = (uintptr_t)places.segments,
		.segment_bits = (uint32_t)places.segment_bits,
		.segment_shift = SEGMENT_SHIFT,
		.page_shift = plat_page_shift(),
		.order_of = (uint32_t)places.order_of,
		.pages = (uint32_t)places.pages,
		.page_bytes = sizeof(struct page),
		.kind = offsetof(struct page, kind),
		.kind_used = PAGE_USED,
		.node = offsetof(struct page, node),
		.objects = offsetof(struct slab, objects),
		.class = offsetof(struct slab, class),
		.state = offsetof(struct slab, state),
		.head_bits = STATE_INUSE_SHIFT,
		.inuse_shift = STATE_INUSE_SHIFT,
		.inuse_bits = STATE_WHERE_SHIFT - STATE_INUSE_SHIFT,
		.where_shift = STATE_WHERE_SHIFT,
		.where_bits = STATE_TAG_SHIFT - STATE_WHERE_SHIFT,
	};
}

_Static_assert(USLUB_STAT_COUNT <= EXPORT_STATS_MAX, "an entry has room for all statistics");
_Static_assert(FIGURE_COUNT <= EXPORT_FIGURES_MAX, "as has the header for all figures");
_Static_assert(CACHE_NAME_MAX <= EXPORT_NAME_MAX, "and for a name");

/*
 * All but the pid, which was the claim. Under the registry lock. Values take their time, which the child of a
 * fork, which may be about to execute another program, does not spend.
 */
static void fill(bool with_values)
{
	struct export_header *h = header();
	struct uslub_cache *c;

	memset(&directory, 0, sizeof(directory));
	plat_store(&h->state, EXPORT_MAKING);
	plat_fence();
	h->magic = EXPORT_MAGIC;
	h->version = EXPORT_VERSION;
	h->bytes = sizeof(*h);
	print_string(h->library, sizeof(h->library), "%s", USLUB_VERSION_STRING);
	h->cpus = plat_ncpu();
	h->slots = plat_nslots();
	h->nodes = plat_nnodes();
	h->page_size = (uint32_t)plat_page_size();
	h->rseq = plat_rseq_mode();
	h->terms = RECIPE_TERMS;
	h->arrays = RECIPE_ARRAYS;
	h->stats = USLUB_STAT_COUNT;
	h->figures = FIGURE_COUNT;
	h->stat_bytes = sizeof(struct export_stat);
	h->stats_offset = (uint32_t)STATS_AT;
	h->figures_offset = h->stats_offset + h->stats * h->stat_bytes;
	h->latencies = USLUB_LATENCY_COUNT;
	h->latency_words = USLUB_LATENCY_BUCKETS + 1;
	h->latencies_offset = (uint32_t)(STATS_AT + TABLE_BYTES);
	h->caches_offset = (uint32_t)CACHES_AT;
	h->cache_bytes = sizeof(struct export_cache);
	h->caches = (uint32_t)ENTRIES;
	h->caches_used = 0;
	h->caches_missing = 0;
	h->ended = 0;
	fill_stats(h, (struct export_stat *)((char *)h + STATS_AT));
	fill_latencies((struct export_latency *)((char *)h + STATS_AT + TABLE_BYTES));
	fill_map(&h->map);
	copy_figures();
	list_for_each_entry(c, &registry, link)
		c->watched = 0;
	list_for_each_entry(c, &registry, link)
		show(c, with_values);
	plat_store_release(&h->state, EXPORT_LIVE);
}

/* The child of a fork. The registry is as good as locked: there is no other thread. */
static void child(void)
{
	if (!opened)
		return;
	if (plat_share_renew(&share)) {
		/* Nobody sees it; uslub_export() may be tried again. */
		opened = false;
		return;
	}
	header()->pid = plat_pid();
	fill(false);
}

static const struct cache_watcher watcher = {
	.created = created,
	.aliased = aliased,
	.unaliased = unaliased,
	.gone = gone,
	.stepped = stepped,
	.child = child,
};

/* Is the memory nobody's yet, or what this process had before it executed another program? Then it is ours. */
static bool claim(void)
{
	uint32_t owner = 0;

	return plat_cas(&header()->pid, &owner, plat_pid()) || owner == plat_pid();
}

static bool adopt(int fd)
{
	if (fd < 0 || plat_share_adopt(&share, EXPORT_NAME, EXPORT_SIZE, fd))
		return false;
	if (claim())
		return true;
	plat_share_drop(&share);
	return false;
}

/* Under the registry lock, which a fork waits for, and so does not come in between. */
static int open_share(int fd)
{
	int error;

	if (opened)
		return 0;
	if (!adopt(fd)) {
		error = plat_share_open(&share, EXPORT_NAME, EXPORT_SIZE);
		if (error)
			return error;
		header()->pid = plat_pid();
	}
	fill(true);
	plat_store_release(&cache_watcher, &watcher);
	plat_store_release(&opened, true);
	return 0;
}

static int start(int fd)
{
	uint64_t signals;
	int error;

	uslub_start();
	/* A handler that forks must not find this half done. */
	signals = plat_signals_block();
	plat_lock(&registry_lock);
	error = open_share(fd);
	plat_unlock(&registry_lock);
	plat_signals_restore(signals);
	return error;
}

int uslub_export(void)
{
	return start(-1);
}

/* "N": a descriptor; -1: not one. */
static int number_of(const char *text)
{
	int n = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || n > 100000)
			return -1;
		n = 10 * n + *text - '0';
	}
	return n;
}

static void export_by_environment(void)
{
	const char *value = plat_env("USLUB_EXPORT");
	int fd = -1, error;

	if (!value || !*value || !strcmp(value, "0"))
		return;
	if (!strncmp(value, "fd:", 3))
		fd = number_of(value + 3);
	if (fd < 0 && strcmp(value, "1")) {
		plat_warn("USLUB_EXPORT=%s: not understood; 1 exports statistics, 0 does not",
			  value);
		return;
	}
	error = start(fd);
	if (error)
		plat_warn("USLUB_EXPORT: statistics are not exported: error %d", -error);
}

__attribute__((constructor)) static void construct(void)
{
	if (uslub_in_charge())
		export_by_environment();
}
