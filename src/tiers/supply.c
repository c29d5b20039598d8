/* SPDX-License-Identifier: MIT */
/*
 * The page supply.
 *
 * 1. Structure
 *    Address space comes in segments: 64 MiB, aligned to 64 MiB, each bound to one NUMA node. Where
 *    address space is short (RLIMIT_AS) a segment is a part of such an aligned slot, down to 4 MiB. It is
 *    reserved without memory and committed in blocks of 2 MiB. Block 0 holds the segment's head: the tag
 *    that the owner of a page gave it and the order of the run it belongs to (one byte each), and one
 *    descriptor for every page (64 bytes each). From an address to its run is therefore a mask, an index
 *    and a byte; a bitmap with one bit for every slot of the address space says first whether the segment
 *    is ours. Tags come first, so that from an address to its tag is a mask, a shift and a byte.
 *    Within a block runs are buddies of 2^order pages, order 0 up to the whole block.
 *
 * 2. Life of a run
 *    Free runs are linked by order in their node's lists, dirty ones in front, since using them again
 *    costs no page fault. supply_alloc() takes the smallest that fits and splits it; supply_free() joins
 *    it with its free buddies. When a node has nothing, another block is committed, if need be in a new
 *    segment.
 *
 * 3. Back to the system
 *    Whoever frees and finds more than the reserve of dirty pages gives runs back, largest first, until
 *    half the reserve is left; runs below 64 KiB stay, for they would only split mappings. A whole block
 *    is given up together with its descriptors and becomes uncommitted; a segment without committed
 *    blocks is unmapped, but for one. What the system does not take back, since it is locked, is kept
 *    like a run that was given back, but known to have content: who allocates learns whether his run is
 *    all zero.
 *    The reserve follows the swing of the load: what was in use at the height of the last second or two,
 *    between 4 and 32 MiB, and 1/64 of what is in use now. Deferred frees come back in bursts as large
 *    as a grace period is long; a fixed small reserve would give each burst to the system and fault it
 *    in again (half of all time, measured).
 *
 * 4. Huge pages
 *    A block is not eligible for huge pages until all of it is in use: otherwise the first object of a
 *    program costs 2 MiB.
 *
 * 5. Locking
 *    One lock per node (RANK_SUPPLY) over lists, blocks and segments. It is not held over system calls:
 *    a block that is being committed or a run that is being given back is in a state of its own.
 *    supply_page_of() takes no lock: a used run's byte and descriptor do not change while it is used, nor
 *    does its segment go away.
 *    Of an address that is in no used run, which only a misuse asks for, it may read a segment's head while
 *    somebody gives that segment up: the bit is cleared before the unmapping, but may have been read
 *    before that. The read then faults, where otherwise a message would have ended the process; or finds
 *    what was mapped there since, which is a descriptor only by the strangest chance. Heads that stay
 *    mapped for ever would leave 2 MiB of address space for each segment there ever was; and readers that
 *    are waited for would have to say so in every free that goes to a slab.
 */
#include <string.h>
#include "tiers/supply.h"

#define SEGMENT_LEAST	  ((size_t)4 << 20)
#define SEGMENT_BLOCKS	  (SEGMENT_SIZE / BLOCK_SIZE)
#define SEGMENT_PAGES_MAX (SEGMENT_SIZE >> 12)
#define MAX_ORDERS	  (BLOCK_SHIFT - 12 + 1)
#define PURGE_BYTES_SHIFT 16
#define RESERVE_LEAST	  ((size_t)4 << 20)
#define RESERVE_MOST	  ((size_t)32 << 20)
#define RESERVE_PART	  64
#define PEEK_TRIES	  1000
#define PEAK_NS		  1000000000ull

enum block_state {
	BLOCK_RESERVED,
	BLOCK_COMMITTING,
	BLOCK_COMMITTED,
};

struct block {
	uint8_t state;
	bool huge;
	uint16_t used; /* pages */
};

struct segment {
	uint8_t tag_of[SEGMENT_PAGES_MAX]; /* of a used page: its owner's; else 0 */
	struct list link;		   /* in its node */
	size_t size;
	unsigned node;
	unsigned committed; /* blocks, without block 0 */
	struct block blocks[SEGMENT_BLOCKS];
	uint8_t order_of[SEGMENT_PAGES_MAX]; /* of a used page: its run's order + 1; else 0 */
	struct page pages[] cacheline;
};

_Static_assert(offsetof(struct segment, tag_of) == 0, "where supply_tag_of() looks");

struct supply_node {
	struct plat_lock lock;
	struct supply_figures figures;
	struct list free[MAX_ORDERS];
	struct list segments;
	size_t peak, last_peak; /* pages used, in this second and in the one before */
	uint64_t peak_since;
} cacheline;

static struct supply_node nodes[PLAT_MAX_NODES];
static uint32_t started;

uint64_t supply_segments[SUPPLY_SLOTS / 64];
unsigned supply_page_shift;

void supply_start(void)
{
	if (plat_load_acquire(&started))
		return;
	for (unsigned n = 0; n < PLAT_MAX_NODES; n++) {
		plat_lock_init(&nodes[n].lock, RANK_SUPPLY);
		list_init(&nodes[n].segments);
		for (unsigned order = 0; order < MAX_ORDERS; order++)
			list_init(&nodes[n].free[order]);
	}
	supply_page_shift = plat_page_shift();
	plat_store_release(&started, 1);
}

unsigned supply_max_order(void)
{
	return BLOCK_SHIFT - plat_page_shift();
}

static struct segment *segment_of(const void *p)
{
	return (struct segment *)((uintptr_t)p & ~(SEGMENT_SIZE - 1));
}

static struct block *block_of(struct segment *seg, const struct page *page)
{
	return &seg->blocks[page->index >> supply_max_order()];
}

static char *block_address(struct segment *seg, const struct block *block)
{
	return (char *)seg + (size_t)(block - seg->blocks) * BLOCK_SIZE;
}

void *page_address(const struct page *page)
{
	return (char *)segment_of(page) + ((size_t)page->index << plat_page_shift());
}

struct page *supply_page_of(const void *p)
{
	struct segment *seg = segment_of(p);
	unsigned index, order;

	if (!supply_has_segment(p))
		return NULL;
	index = ((uintptr_t)p & (SEGMENT_SIZE - 1)) >> plat_page_shift();
	order = plat_load(&seg->order_of[index]);
	if (!order)
		return NULL;
	return &seg->pages[index & ~((1u << (order - 1)) - 1)];
}

void supply_tag(struct page *page, unsigned tag)
{
	memset(&segment_of(page)->tag_of[page->index], (int)tag, (size_t)1 << page->order);
}

const struct supply_figures *supply_figures(size_t *stride)
{
	*stride = sizeof(nodes[0]);
	return &nodes[0].figures;
}

/* ---- onlookers ------------------------------------------------------------------------------------ */

/* Under the node's lock: is the segment one of its own, and so there as long as the lock is held? */
static bool is_of(const struct supply_node *n, const struct segment *seg)
{
	const struct segment *s;

	if (!supply_has_segment(seg))
		return false;
	if (plat_nnodes() == 1)
		return true;
	list_for_each_entry(s, &n->segments, link)
		if (s == seg)
			return true;
	return false;
}

/* Words that their owner may be changing at this moment. */
racy static void copy_words(const uint64_t *from, uint64_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = ((const volatile uint64_t *)from)[i];
}

/* Under the node's lock no used run comes to an end. */
static bool peek_on(const struct supply_node *n, const void *p, void *to, size_t size)
{
	const struct page *page = is_of(n, segment_of(p)) ? supply_page_of(p) : NULL;
	const char *end;

	if (!page)
		return false;
	end = (const char *)page_address(page) + (plat_page_size() << page->order);
	if ((size_t)(end - (const char *)p) < size)
		return false;
	copy_words(p, to, size / sizeof(uint64_t));
	return true;
}

bool supply_peek(const void *p, void *to, size_t size)
{
	bool done = false;

	for (unsigned node = 0; node < plat_nnodes() && !done; node++) {
		struct supply_node *n = &nodes[node];
		unsigned tries = PEEK_TRIES;

		while (tries && !plat_trylock(&n->lock)) {
			plat_relax();
			tries--;
		}
		if (!tries)
			continue;
		done = peek_on(n, p, to, size);
		plat_unlock(&n->lock);
	}
	return done;
}

void supply_places(struct supply_places *places)
{
	*places = (struct supply_places){
		.segments = supply_segments,
		.segment_bits = SUPPLY_SLOTS,
		.order_of = offsetof(struct segment, order_of),
		.pages = offsetof(struct segment, pages),
	};
}

size_t supply_segment_overhead(void)
{
	return offsetof(struct segment, pages);
}

size_t supply_block_overhead(void)
{
	return sizeof(struct page) << supply_max_order();
}

/* Changes a figure that is read without the lock. */
static void count(size_t *figure, size_t n)
{
	plat_store_quiet(figure, *figure + n);
}

/* ---- free runs; all under the node's lock --------------------------------------------------------- */

static void run_link(struct supply_node *n, struct page *page)
{
	page->kind = PAGE_FREE;
	if (page->dirty & PAGE_DIRTY) {
		count(&n->figures.dirty, (size_t)1 << page->order);
		list_add(&n->free[page->order], &page->link);
	} else {
		list_add_tail(&n->free[page->order], &page->link);
	}
}

static void run_unlink(struct supply_node *n, struct page *page)
{
	if (page->dirty & PAGE_DIRTY)
		count(&n->figures.dirty, -((size_t)1 << page->order));
	list_del(&page->link);
	page->kind = PAGE_BUSY;
}

/* Joins a free run with its buddies, as far as they are free, and links the result. */
static void run_join(struct supply_node *n, struct page *page)
{
	struct segment *seg = segment_of(page);
	struct page *buddy, *upper;

	for (; page->order < supply_max_order(); page->order++) {
		buddy = &seg->pages[page->index ^ 1u << page->order];
		if (buddy->kind != PAGE_FREE || buddy->order != page->order)
			break;
		run_unlink(n, buddy);
		upper = buddy > page ? buddy : page;
		page = buddy > page ? page : buddy;
		page->dirty |= upper->dirty;
		upper->kind = PAGE_NONE;
	}
	run_link(n, page);
}

/* Takes a run of the order out of the lists, splitting a larger one. */
static struct page *run_take(struct supply_node *n, unsigned order)
{
	struct page *page, *half;
	unsigned from = order;

	while (from <= supply_max_order() && list_empty(&n->free[from]))
		from++;
	if (from > supply_max_order())
		return NULL;
	page = list_entry(n->free[from].next, struct page, link);
	run_unlink(n, page);
	while (page->order > order) {
		page->order--;
		half = page + (1u << page->order);
		half->order = page->order;
		half->dirty = page->dirty;
		half->node = page->node;
		half->index = page->index + (1u << page->order);
		run_link(n, half);
	}
	return page;
}

/* ---- growth --------------------------------------------------------------------------------------- */

/* Finds an uncommitted block and marks it as being committed. */
static struct block *block_claim(struct supply_node *n, struct segment **owner)
{
	struct segment *seg;

	list_for_each_entry(seg, &n->segments, link)
		for (size_t i = 1; i < seg->size / BLOCK_SIZE; i++)
			if (seg->blocks[i].state == BLOCK_RESERVED) {
				seg->blocks[i].state = BLOCK_COMMITTING;
				seg->committed++;
				*owner = seg;
				return &seg->blocks[i];
			}
	return NULL;
}

static bool segment_add(unsigned node)
{
	struct supply_node *n = &nodes[node];
	struct segment *seg;
	size_t size, slot;

	seg = plat_reserve(SEGMENT_SIZE, SEGMENT_LEAST, &size);
	if (!seg)
		return false;
	slot = (uintptr_t)seg >> SEGMENT_SHIFT;
	if (slot >= SUPPLY_SLOTS || plat_commit(seg, BLOCK_SIZE)) {
		plat_unmap(seg, size);
		return false;
	}
	if (plat_nnodes() > 1)
		plat_bind(seg, size, node);
	plat_huge(seg, BLOCK_SIZE, false);
	seg->size = size;
	seg->node = node;
	plat_fetch_or(&supply_segments[slot / 64], 1ull << slot % 64);
	plat_lock(&n->lock);
	list_add(&n->segments, &seg->link);
	count(&n->figures.segments, 1);
	plat_unlock(&n->lock);
	return true;
}

/* Commits one more block for the node. Called without the lock. */
static bool supply_grow(unsigned node)
{
	struct supply_node *n = &nodes[node];
	struct segment *seg;
	struct block *block;
	struct page *page;
	bool ok;

	for (;;) {
		plat_lock(&n->lock);
		block = block_claim(n, &seg);
		plat_unlock(&n->lock);
		if (block)
			break;
		if (!segment_add(node))
			return false;
	}
	ok = !plat_commit(block_address(seg, block), BLOCK_SIZE);
	if (ok)
		plat_huge(block_address(seg, block), BLOCK_SIZE, false);
	plat_lock(&n->lock);
	block->state = ok ? BLOCK_COMMITTED : BLOCK_RESERVED;
	block->huge = false;
	if (ok) {
		page = &seg->pages[(size_t)(block - seg->blocks) << supply_max_order()];
		page->order = supply_max_order();
		page->index = (uint32_t)(page - seg->pages);
		page->node = node;
		page->dirty = PAGE_ZERO;
		count(&n->figures.blocks, 1);
		run_link(n, page);
	} else {
		seg->committed--;
	}
	plat_unlock(&n->lock);
	return ok;
}

/* ---- back to the system --------------------------------------------------------------------------- */

/* The largest dirty run worth giving back. */
static struct page *purge_victim(struct supply_node *n)
{
	unsigned least = PURGE_BYTES_SHIFT - min(plat_page_shift(), (unsigned)PURGE_BYTES_SHIFT);
	struct page *page;

	for (unsigned order = supply_max_order() + 1; order-- > least;)
		if (!list_empty(&n->free[order])) {
			page = list_entry(n->free[order].next, struct page, link);
			if (page->dirty & PAGE_DIRTY)
				return page;
		}
	return NULL;
}

/* A block without a used page: its memory and that of its descriptors, but not its address space. */
static bool block_give_up(struct segment *seg, struct block *block)
{
	size_t pages = (size_t)1 << supply_max_order();
	struct page *first = &seg->pages[(size_t)(block - seg->blocks) * pages];
	uintptr_t from, to;

	if (plat_decommit(block_address(seg, block), BLOCK_SIZE))
		return false;
	/* Not the pages that hold descriptors of the neighbours, too. */
	from = align_up((uintptr_t)first, plat_page_size());
	to = align_down((uintptr_t)(first + pages), plat_page_size());
	if (from < to)
		plat_purge((void *)from, to - from);
	return true;
}

/* Gives back one run; called and left with the lock held, which is dropped meanwhile. */
static void purge_one(struct supply_node *n, struct page *page)
{
	struct segment *seg = segment_of(page);
	struct block *block = block_of(seg, page);
	bool whole = page->order == supply_max_order(), gone = false, huge = block->huge;
	int error = 0;
	size_t slot;

	run_unlink(n, page);
	plat_unlock(&n->lock);
	if (huge)
		plat_huge(block_address(seg, block), BLOCK_SIZE, false);
	if (whole)
		gone = block_give_up(seg, block);
	if (!gone)
		error = plat_purge(page_address(page), plat_page_size() << page->order);
	plat_lock(&n->lock);
	block->huge = false;
	if (!gone) {
		page->dirty = error ? PAGE_STUCK : PAGE_ZERO;
		run_join(n, page);
		return;
	}
	page->kind = PAGE_NONE;
	block->state = BLOCK_RESERVED;
	count(&n->figures.blocks, (size_t)-1);
	if (--seg->committed || n->figures.segments == 1)
		return;
	list_del(&seg->link);
	count(&n->figures.segments, (size_t)-1);
	slot = (uintptr_t)seg >> SEGMENT_SHIFT;
	plat_fetch_and(&supply_segments[slot / 64], ~(1ull << slot % 64));
	plat_unlock(&n->lock);
	plat_unmap(seg, seg->size);
	plat_lock(&n->lock);
}

static void purge_down_to(struct supply_node *n, size_t pages)
{
	struct page *victim;

	while (n->figures.dirty > pages) {
		victim = purge_victim(n);
		if (!victim)
			return;
		purge_one(n, victim);
	}
}

void supply_trim(void)
{
	for (unsigned node = 0; node < plat_nnodes(); node++) {
		plat_lock(&nodes[node].lock);
		purge_down_to(&nodes[node], 0);
		plat_unlock(&nodes[node].lock);
	}
}

/* ---- the two entry points ------------------------------------------------------------------------- */

static struct page *alloc_on(unsigned order, unsigned node, unsigned flags)
{
	struct supply_node *n = &nodes[node];
	struct segment *seg;
	struct block *block;
	struct page *page;
	bool full;

	do {
		if (!(flags & SUPPLY_NOLOCK))
			plat_lock(&n->lock);
		else if (!plat_trylock(&n->lock))
			return NULL;
		page = run_take(n, order);
		if (page)
			break;
		plat_unlock(&n->lock);
		if (flags & (SUPPLY_NOWAIT | SUPPLY_NOLOCK) || !supply_grow(node))
			return NULL;
	} while (true);

	seg = segment_of(page);
	block = block_of(seg, page);
	block->used += 1u << order;
	count(&n->figures.used, (size_t)1 << order);
	n->peak = max(n->peak, n->figures.used);
	page->kind = PAGE_USED;
	memset(&seg->order_of[page->index], (int)order + 1, (size_t)1 << order);
	memset(page->client, 0, sizeof(page->client));
	full = block->used == 1u << supply_max_order() && !block->huge && !(flags & SUPPLY_NOWAIT);
	if (full)
		block->huge = true;
	plat_unlock(&n->lock);
	if (full) {
		plat_huge(block_address(seg, block), BLOCK_SIZE, true);
		/* Somebody may have given back a part of the block meanwhile, and had it small again. */
		plat_lock(&n->lock);
		full = block->huge;
		plat_unlock(&n->lock);
		if (!full)
			plat_huge(block_address(seg, block), BLOCK_SIZE, false);
	}
	return page;
}

struct page *supply_alloc(unsigned order, unsigned node, unsigned flags)
{
	struct page *page = alloc_on(order, node, flags);

	for (unsigned other = 0; !page && !(flags & SUPPLY_THISNODE) && other < plat_nnodes();
	     other++)
		if (other != node)
			page = alloc_on(order, other, flags);
	return page;
}

/* How many dirty pages the node may keep; called after the fact of a free. */
static size_t reserve_pages(struct supply_node *n)
{
	uint64_t now = plat_now();
	size_t swing;

	if (now - n->peak_since > PEAK_NS) {
		n->last_peak = now - n->peak_since > 2 * PEAK_NS ? 0 : n->peak;
		n->peak = n->figures.used;
		n->peak_since = now;
	}
	swing = max(n->peak, n->last_peak);
	swing = max(swing, RESERVE_LEAST >> plat_page_shift());
	return min(swing, RESERVE_MOST >> plat_page_shift()) + n->figures.used / RESERVE_PART;
}

void supply_free(struct page *page)
{
	struct supply_node *n = &nodes[page->node];
	struct segment *seg = segment_of(page);
	size_t reserve;

	plat_lock(&n->lock);
	memset(&seg->order_of[page->index], 0, (size_t)1 << page->order);
	memset(&seg->tag_of[page->index], 0, (size_t)1 << page->order);
	block_of(seg, page)->used -= 1u << page->order;
	count(&n->figures.used, -((size_t)1 << page->order));
	page->dirty = PAGE_DIRTY;
	run_join(n, page);
	if (n->figures.dirty > RESERVE_LEAST >> plat_page_shift()) {
		reserve = reserve_pages(n);
		if (n->figures.dirty > reserve)
			purge_down_to(n, reserve / 2);
	}
	plat_unlock(&n->lock);
}

void supply_usage(struct supply_usage *u)
{
	*u = (struct supply_usage){ 0 };
	for (unsigned node = 0; node < plat_nnodes(); node++) {
		const struct supply_figures *figures = &nodes[node].figures;

		u->used += plat_load_quiet(&figures->used) << plat_page_shift();
		u->dirty += plat_load_quiet(&figures->dirty) << plat_page_shift();
		u->segments += plat_load_quiet(&figures->segments);
	}
}

struct plat_lock *supply_lock(unsigned node)
{
	return &nodes[node].lock;
}
