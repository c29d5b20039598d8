/* SPDX-License-Identifier: MIT */
/*
 * Export: what other programs can see of this process's caches, in shared memory that they read without
 * asking. inspect/export_format.h tells what lies there and who may read it.
 *
 * 1. When
 *    A program asks for it by uslub_export(), its user by USLUB_EXPORT=1 in the environment, which programs in
 *    secure-execution mode do not look at. USLUB_EXPORT=fd:N names a descriptor of such memory that `uslub run`
 *    made, and keeps, to see the last values when the process has ended. The first process that finds it
 *    claims it; all others make their own.
 *
 * 2. Cost
 *    None for the fast paths. The directory changes when caches come, go or are renamed, under the registry
 *    lock. The copies of values, for readers that may not read the process's memory, are renewed by slow
 *    paths, which look at a coarse clock for it, at most every COPY_NS for each cache.
 *
 * 3. Locking
 *    Who changes an entry makes its seq odd by compare-exchange; slow paths that find it odd leave it, since
 *    somebody else is at it.
 *
 * 4. Fork
 *    The child makes memory of its own at the same address and fills it anew. A child that was made without
 *    fork handlers (raw clone, vfork) shares its parent's, so it does not write there: the pid tells.
 */
#include <errno.h>
#include <string.h>
#include <uslub/uslub.h>
#include "base/print.h"
#include "cache/internal.h"
#include "inspect/export_format.h"
#include "inspect/figures.h"

#define COPY_NS 100000000

static struct plat_share share;
static uint32_t opened; /* 0 no, 1 under way, 2 done */

static struct export_header *header(void)
{
	return share.memory;
}

static struct export_cache *entry_at(unsigned n)
{
	return (struct export_cache *)((char *)share.memory + header()->caches_offset) + n;
}

static struct export_cache *entry_of(const struct uslub_cache *c)
{
	return c->watched ? entry_at(c->watched - 1) : NULL;
}

/* ---- changing an entry ---------------------------------------------------------------------------- */

static bool entry_try(struct export_cache *e)
{
	uint32_t seq = plat_load(&e->seq);

	return !(seq & 1) && plat_cas(&e->seq, &seq, seq + 1);
}

static void entry_begin(struct export_cache *e)
{
	while (!entry_try(e))
		plat_yield();
}

static void entry_end(struct export_cache *e)
{
	plat_store_release(&e->seq, plat_load(&e->seq) + 1);
}

/* The copies. The caller has begun with the entry. */
static void copy_values(const struct uslub_cache *c, struct export_cache *e)
{
	struct recipe_view view;

	stat_view(c, &view);
	view.now = plat_now();
	for (unsigned i = 0; i < USLUB_STAT_COUNT; i++)
		if (stat_has_recipe(c, (enum uslub_stat)i))
			plat_store(&e->values[i], recipe_value(&stat_recipes[i], &view));
	plat_store(&e->copied, view.now);
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

static bool ours(void)
{
	return header()->pid == plat_pid();
}

/* ---- the directory; under the registry lock ------------------------------------------------------- */

static struct export_cache *entry_find_free(void)
{
	struct export_header *h = header();

	for (unsigned i = 0; i < h->caches; i++)
		if (entry_at(i)->state == EXPORT_FREE) {
			if (i >= h->caches_used)
				plat_store(&h->caches_used, i + 1);
			return entry_at(i);
		}
	plat_store(&h->caches_missing, h->caches_missing + 1);
	return NULL;
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

static void fill_entry(const struct uslub_cache *c, struct export_cache *e)
{
	struct recipe_view view;

	stat_view(c, &view);
	entry_name(e, c->name);
	e->flags = c->internal ? EXPORT_INTERNAL : 0;
	e->latency = counters(c)->latency * (uint32_t)sizeof(uint64_t);
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
	copy_values(c, e);
	e->state = EXPORT_CACHE;
}

static void show_alias(const struct uslub_cache *c, const char *name)
{
	struct export_cache *e = entry_find_free();

	if (!e)
		return;
	entry_begin(e);
	entry_name(e, name);
	e->of = c->watched - 1;
	e->state = EXPORT_ALIAS;
	entry_end(e);
}

static void hide(struct export_cache *e)
{
	entry_begin(e);
	e->state = EXPORT_FREE;
	entry_end(e);
}

static void hide_aliases(const struct uslub_cache *c)
{
	for (unsigned i = 0; i < header()->caches_used; i++)
		if (entry_at(i)->state == EXPORT_ALIAS && entry_at(i)->of == c->watched - 1)
			hide(entry_at(i));
}

static void show_aliases(const struct uslub_cache *c)
{
	const struct alias *alias;

	list_for_each_entry(alias, &c->aliases, link)
		show_alias(c, alias->name);
}

static void created(struct uslub_cache *c)
{
	struct export_cache *e = entry_find_free();

	c->watched = 0;
	if (!e)
		return;
	entry_begin(e);
	fill_entry(c, e);
	entry_end(e);
	plat_store_release(&c->watched, (uint32_t)(e - entry_at(0)) + 1);
	show_aliases(c);
}

static void renamed(struct uslub_cache *c)
{
	if (!c->watched)
		return;
	hide_aliases(c);
	show_aliases(c);
}

static void gone(struct uslub_cache *c)
{
	if (!c->watched)
		return;
	hide_aliases(c);
	hide(entry_of(c));
}

/* ---- copies --------------------------------------------------------------------------------------- */

static void stepped(struct uslub_cache *c)
{
	struct export_cache *e;

	if (!plat_load_acquire(&c->watched))
		return;
	e = entry_of(c);
	if (plat_now() - plat_load(&e->copied) < COPY_NS || !ours() || !entry_try(e))
		return;
	copy_values(c, e);
	entry_end(e);
	copy_figures();
}

static void copy_last(struct uslub_cache *c, void *arg)
{
	struct export_cache *e = entry_of(c);

	(void)arg;
	if (!e)
		return;
	entry_begin(e);
	copy_values(c, e);
	entry_end(e);
}

/* The end of the process, if it is a normal one: what others see of it afterwards is exact. */
__attribute__((destructor)) static void finish(void)
{
	uint64_t number = 0;

	if (plat_load_acquire(&opened) != 2 || !ours())
		return;
	while ((number = registry_next(number, copy_last, NULL)))
		;
	copy_figures();
	header()->ended = plat_now();
	plat_store_release(&header()->state, EXPORT_ENDED);
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

/* All but the pid, which was the claim. */
static void fill(void)
{
	struct export_header *h = header();
	struct uslub_cache *c;

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
	h->stats_offset = (uint32_t)align_up(sizeof(*h), (size_t)CACHE_LINE);
	h->figures_offset = h->stats_offset + h->stats * h->stat_bytes;
	h->latencies = USLUB_LATENCY_COUNT;
	h->latency_words = USLUB_LATENCY_BUCKETS + 1;
	h->latencies_offset = h->figures_offset + h->figures * h->stat_bytes;
	h->caches_offset = (uint32_t)align_up(h->latencies_offset +
						      h->latencies * sizeof(struct export_latency),
					      plat_page_size());
	h->cache_bytes = sizeof(struct export_cache);
	h->caches = (uint32_t)((EXPORT_SIZE - h->caches_offset) / h->cache_bytes);
	fill_stats(h, (struct export_stat *)((char *)h + h->stats_offset));
	fill_latencies((struct export_latency *)((char *)h + h->latencies_offset));
	fill_map(&h->map);
	list_for_each_entry(c, &registry, link)
		created(c);
	plat_store_release(&h->state, EXPORT_LIVE);
}

/* The child of a fork. */
static void child(void)
{
	plat_share_renew(&share);
	header()->pid = plat_pid();
	fill();
}

static const struct cache_watcher watcher = {
	.created = created,
	.renamed = renamed,
	.gone = gone,
	.stepped = stepped,
	.child = child,
};

/* Is the memory nobody's yet? Then it is ours. */
static bool claim(void)
{
	uint32_t nobody = 0;

	return plat_cas(&header()->pid, &nobody, plat_pid());
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

static int start(int fd)
{
	uint32_t no = 0;
	int error = 0;

	uslub_start();
	if (!plat_cas(&opened, &no, 1)) {
		while (plat_load_acquire(&opened) == 1)
			plat_yield();
		return plat_load_acquire(&opened) == 2 ? 0 : -EAGAIN;
	}
	if (!adopt(fd)) {
		error = plat_share_open(&share, EXPORT_NAME, EXPORT_SIZE);
		if (error) {
			plat_store_release(&opened, 0);
			return error;
		}
		header()->pid = plat_pid();
	}
	plat_lock(&registry_lock);
	fill();
	plat_store_release(&cache_watcher, &watcher);
	plat_unlock(&registry_lock);
	plat_store_release(&opened, 2);
	return 0;
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
	export_by_environment();
}
