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
 *    Within a block free runs are buddies of 2^order pages, order 0 up to the whole block. Used runs may
 *    have any number of pages: such a run is a sequence of aligned buddies, its parts, as large as they can
 *    be from its start on, each with a descriptor. The first one's is the run's.
 *
 * 2. Life of a run
 *    Free runs are linked by order in their node's lists, dirty ones in front, since using them again
 *    costs no page fault. supply_alloc() takes the smallest that fits and splits it; supply_free() joins
 *    it with its free buddies. When a node has nothing, another block is committed, if need be in a new
 *    segment. A run of another length is a buddy of the next order, whose tail goes back at once.
 *    A run of more than a block, or aligned to more, takes blocks of one segment that follow each other:
 *    free ones and uncommitted ones alike, where most are at hand. While the latter are being committed all are
 *    claimed: in no list, and in no set of blocks. If that fails, all become what they were.
 *    A run grows in the same way by what follows it, be it free runs or uncommitted blocks.
 *
 * 3. Back to the system
 *    Whoever frees and finds that for 200 ms there have been more dirty pages than the reserve, or that there
 *    are more than the largest reserve and a quarter of what is in use, gives runs back, largest first, until half the reserve is left; without
 *    the patience, what a program grows and shrinks by in a few milliseconds would be faulted in again and again.
 *    Runs below 64 KiB cost a call for little: they go when the others were not enough, and not more often than
 *    twice a second but for what is beyond that.
 *    A whole block
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
 *    blocks that are claimed and runs that are being given back are in a state of their own.
 *    supply_page_of() and supply_tag_of() take no lock: a used run's bytes and descriptor do not change while
 *    it is used, unless its owner makes it longer or shorter, nor does its segment go away.
 *    Of an address that is in no used run, which only a misuse asks for, they may read a segment's head while
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
#define PURGE_BYTES	  ((size_t)64 << 10)
#define SMALL_NS	  500000000ull
#define RESERVE_LEAST	  ((size_t)4 << 20)
#define RESERVE_MOST	  ((size_t)32 << 20)
#define RESERVE_PART	  64
#define PEEK_TRIES	  1000
#define LOOKS		  16
#define PEAK_NS		  1000000000ull
#define PATIENCE_NS	  200000000ull

struct block {
	bool huge;
	uint16_t used; /* pages */
};

/* Sets of blocks have a bit for each; block 0, the head, is in none. */
struct segment {
	uint8_t tag_of[SEGMENT_SIZE >> SUPPLY_TAG_SHIFT]; /* of used memory: its owner's; else 0 */
	struct list link;				  /* in its node */
	size_t size;
	unsigned node;
	uint32_t reserved; /* blocks without memory */
	uint32_t whole;	   /* blocks that are one free run in the lists */
	struct block blocks[SEGMENT_BLOCKS];
	uint8_t order_of[SEGMENT_PAGES_MAX]; /* of a used page: its run's order + 1; else 0 */
	struct page pages[] cacheline;
};

_Static_assert(SEGMENT_BLOCKS <= 32, "a set of blocks is a word");
_Static_assert(offsetof(struct segment, tag_of) == 0, "where supply_tag_of() looks");

struct supply_node {
	struct plat_lock lock;
	struct supply_figures figures;
	struct list free[MAX_ORDERS];
	struct list segments;
	size_t peak, last_peak; /* pages used, in this second and in the one before */
	uint64_t peak_since;
	uint64_t over_since;  /* since when there is more than the reserve; 0: there was not */
	uint64_t looked;      /* when that was looked at last */
	uint64_t small_since; /* when small runs were given back last */
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

static unsigned block_order(void)
{
	return BLOCK_SHIFT - supply_page_shift;
}

static unsigned block_pages(void)
{
	return 1u << block_order();
}

/* Of the page with an index. */
static unsigned block_of(unsigned page)
{
	return page >> block_order();
}

static char *block_address(struct segment *seg, unsigned block)
{
	return (char *)seg + block * BLOCK_SIZE;
}

void *page_address(const struct page *page)
{
	return (char *)segment_of(page) + ((size_t)page->index << supply_page_shift);
}

struct page *supply_page_of(const void *p)
{
	struct segment *seg = segment_of(p);
	unsigned index, order;

	if (!supply_has_segment(p))
		return NULL;
	index = ((uintptr_t)p & (SEGMENT_SIZE - 1)) >> supply_page_shift;
	order = plat_load(&seg->order_of[index]);
	if (!order)
		return NULL;
	return &seg->pages[index & ~((1u << (order - 1)) - 1)];
}

/* Of pages from..to-1. */
static void set_tags(struct segment *seg, unsigned from, unsigned to, unsigned tag)
{
	unsigned shift = supply_page_shift - SUPPLY_TAG_SHIFT;

	memset(&seg->tag_of[from << shift], (int)tag, (size_t)(to - from) << shift);
}

void supply_tag(struct page *page, unsigned tag)
{
	set_tags(segment_of(page), page->index, page->index + page->pages, tag);
}

const struct supply_figures *supply_figures(size_t *stride)
{
	*stride = sizeof(nodes[0]);
	return &nodes[0].figures;
}

void supply_count_large(size_t bytes)
{
	plat_fetch_add(&nodes[0].figures.large, bytes);
}

void supply_count_mapped(size_t bytes)
{
	plat_fetch_add(&nodes[0].figures.mapped, bytes);
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
	return sizeof(struct page) << block_order();
}

/* Changes a figure that is read without the lock. */
static void count(size_t *figure, size_t n)
{
	plat_store_quiet(figure, *figure + n);
}

/* ---- free runs; all under the node's lock --------------------------------------------------------- */

static void run_link(struct supply_node *n, struct page *page)
{
	struct segment *seg = segment_of(page);
	uint32_t block = page->order == block_order() ? 1u << block_of(page->index) : 0;

	page->kind = PAGE_FREE;
	seg->whole |= block;
	if (page->dirty & PAGE_DIRTY) {
		count(&n->figures.dirty, (size_t)1 << page->order);
		list_add(&n->free[page->order], &page->link);
	} else {
		list_add_tail(&n->free[page->order], &page->link);
	}
}

static void run_unlink(struct supply_node *n, struct page *page)
{
	struct segment *seg = segment_of(page);
	uint32_t block = page->order == block_order() ? 1u << block_of(page->index) : 0;

	seg->whole &= ~block;
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

	for (; page->order < block_order(); page->order++) {
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

/* Pages that are used in the block of a run. */
static unsigned used_beside(const struct page *page)
{
	return segment_of(page)->blocks[block_of(page->index)].used;
}

/*
 * Of the first few free runs of an order the one in the fullest block, so that others come to be empty as a whole;
 * but not one that would have to be faulted in before one that need not.
 */
static struct page *fullest(const struct list *runs)
{
	struct page *best = NULL, *page;
	unsigned looks = 0;

	list_for_each_entry(page, runs, link) {
		if (best && best->dirty && !page->dirty)
			break;
		if (!best || used_beside(page) > used_beside(best))
			best = page;
		if (++looks == LOOKS)
			break;
	}
	return best;
}

/* Takes a run of the order out of the lists, splitting a larger one. */
static struct page *run_take(struct supply_node *n, unsigned order)
{
	struct page *page, *half;
	unsigned from = order;

	while (from <= block_order() && list_empty(&n->free[from]))
		from++;
	if (from > block_order())
		return NULL;
	page = fullest(&n->free[from]);
	run_unlink(n, page);
	while (page->order > order) {
		page->order--;
		half = page + (1u << page->order);
		half->order = page->order;
		half->dirty = page->dirty;
		half->node = page->node;
		half->index = (uint16_t)(page->index + (1u << page->order));
		run_link(n, half);
	}
	return page;
}

/* ---- ranges of pages, [from, to) of a segment; all under the node's lock -------------------------- */

/* A range consists of aligned buddies, from its start on the largest there can be. Of which order is the one here? */
static unsigned part_order(unsigned from, unsigned to)
{
	unsigned order = min((unsigned)__builtin_ctz(from), ilog2(to - from));

	return min(order, block_order());
}

#define for_each_part(page, from, to)                                                              \
	for (unsigned page = from; page < (to); page += 1u << part_order(page, to))

static struct page *part_head(struct segment *seg, unsigned from, unsigned to)
{
	struct page *page = &seg->pages[from];

	page->order = (uint8_t)part_order(from, to);
	page->node = (uint8_t)seg->node;
	page->index = (uint16_t)from;
	page->pages = 0;
	return page;
}

static void range_release(struct supply_node *n, struct segment *seg, unsigned from, unsigned to,
			  unsigned content)
{
	for_each_part(p, from, to)
	{
		struct page *page = part_head(seg, p, to);

		page->dirty = (uint8_t)content;
		run_join(n, page);
	}
}

/* Makes it a part of the run that `head` is the head of; what the client wrote there stays. */
static void range_mark(struct segment *seg, const struct page *head, unsigned from, unsigned to)
{
	for_each_part(p, from, to)
	{
		struct page *page = part_head(seg, p, to);

		page->kind = PAGE_USED;
		if (page != head)
			memset(page->client, 0, sizeof(page->client));
		memset(&seg->order_of[p], page->order + 1, (size_t)1 << page->order);
	}
}

/* Counts pages that come to be used; those of their blocks that are full now. */
static uint32_t range_count(struct supply_node *n, struct segment *seg, unsigned from, unsigned to)
{
	uint32_t full = 0;
	unsigned end;

	for (unsigned p = from; p < to; p = end) {
		struct block *block = &seg->blocks[block_of(p)];

		end = min(to, (p | (block_pages() - 1)) + 1);
		block->used = (uint16_t)(block->used + end - p);
		if (block->used == block_pages())
			full |= 1u << block_of(p);
	}
	count(&n->figures.used, to - from);
	n->peak = max(n->peak, n->figures.used);
	return full;
}

static void range_uncount(struct supply_node *n, struct segment *seg, unsigned from, unsigned to)
{
	unsigned end;

	for (unsigned p = from; p < to; p = end) {
		struct block *block = &seg->blocks[block_of(p)];

		end = min(to, (p | (block_pages() - 1)) + 1);
		block->used = (uint16_t)(block->used - (end - p));
	}
	count(&n->figures.used, -(size_t)(to - from));
}

/* ---- growth --------------------------------------------------------------------------------------- */

/* Takes the first stretch of neighbours out of a set of blocks that is not empty; how many they are. */
static unsigned stretch_take(uint32_t *set, unsigned *first)
{
	unsigned blocks;

	*first = (unsigned)__builtin_ctz(*set);
	blocks = (unsigned)__builtin_ctz(~(*set >> *first));
	*set &= ~(((1u << blocks) - 1) << *first);
	return blocks;
}

static uint32_t all_blocks(const struct segment *seg)
{
	return (uint32_t)((1ull << seg->size / BLOCK_SIZE) - 1) & ~1u;
}

/* A decommit takes the binding away, too. */
static bool blocks_commit(struct segment *seg, unsigned first, unsigned blocks, unsigned node)
{
	char *p = block_address(seg, first);

	if (plat_commit(p, blocks * BLOCK_SIZE))
		return false;
	if (plat_nnodes() > 1)
		plat_bind(p, blocks * BLOCK_SIZE, node);
	plat_huge(p, blocks * BLOCK_SIZE, false);
	return true;
}

/* A segment with at least so much address space. Called without the lock. */
static bool segment_add(unsigned node, size_t least)
{
	struct supply_node *n = &nodes[node];
	struct segment *seg;
	size_t size, slot;

	seg = plat_reserve(SEGMENT_SIZE, least, &size);
	if (!seg)
		return false;
	slot = (uintptr_t)seg >> SEGMENT_SHIFT;
	if (slot >= SUPPLY_SLOTS || !blocks_commit(seg, 0, 1, node)) {
		plat_unmap(seg, size);
		return false;
	}
	seg->size = size;
	seg->node = node;
	seg->reserved = all_blocks(seg);
	plat_fetch_or(&supply_segments[slot / 64], 1ull << slot % 64);
	plat_lock(&n->lock);
	list_add(&n->segments, &seg->link);
	count(&n->figures.segments, 1);
	plat_unlock(&n->lock);
	return true;
}

/* Unmaps a segment without memory, but for the last one. The lock is dropped meanwhile. */
static void segment_retire(struct supply_node *n, struct segment *seg)
{
	size_t slot = (uintptr_t)seg >> SEGMENT_SHIFT;

	if (seg->reserved != all_blocks(seg) || n->figures.segments == 1)
		return;
	list_del(&seg->link);
	count(&n->figures.segments, (size_t)-1);
	plat_fetch_and(&supply_segments[slot / 64], ~(1ull << slot % 64));
	plat_unlock(&n->lock);
	plat_unmap(seg, seg->size);
	plat_lock(&n->lock);
}

/*
 * A range that is being taken, of pieces: free runs, whose heads are BUSY as long as it lasts, and blocks to be
 * committed. The last may reach beyond the range.
 */
struct claim {
	struct segment *seg;
	unsigned from, to;
	uint32_t fresh; /* blocks to be committed */
};

/* How long is the piece that begins at a page: a block of the set, or a run of the kind? 0: there is none. */
static unsigned piece_pages(const struct segment *seg, unsigned page, uint32_t blocks,
			    enum page_kind kind)
{
	if (blocks >> block_of(page) & 1)
		return block_pages();
	return seg->pages[page].kind == kind ? 1u << seg->pages[page].order : 0;
}

/* Is the range free? Its first page begins a piece if it is. */
static bool claim_possible(const struct claim *c)
{
	unsigned pages;

	if (c->to > c->seg->size >> supply_page_shift)
		return false;
	for (unsigned p = c->from; p < c->to; p += pages) {
		pages = piece_pages(c->seg, p, c->seg->reserved, PAGE_FREE);
		if (!pages)
			return false;
	}
	return true;
}

static void claim_take(struct supply_node *n, struct claim *c)
{
	struct segment *seg = c->seg;
	unsigned pages;

	c->fresh = 0;
	for (unsigned p = c->from; p < c->to; p += pages) {
		uint32_t block = 1u << block_of(p);

		pages = piece_pages(seg, p, seg->reserved, PAGE_FREE);
		if (!(seg->reserved & block)) {
			run_unlink(n, &seg->pages[p]);
			continue;
		}
		seg->reserved &= ~block;
		c->fresh |= block;
	}
}

/* Without the lock. All or nothing. */
static bool claim_commit(const struct claim *c)
{
	uint32_t todo = c->fresh, done;
	unsigned first, blocks;

	while (todo) {
		blocks = stretch_take(&todo, &first);
		if (!blocks_commit(c->seg, first, blocks, c->seg->node))
			break;
		if (!todo)
			return true;
	}
	/* Of the stretch that failed a part may have been committed. */
	for (done = c->fresh & ~todo; done;) {
		blocks = stretch_take(&done, &first);
		plat_decommit(block_address(c->seg, first), blocks * BLOCK_SIZE);
	}
	return false;
}

static void claim_undo(struct supply_node *n, const struct claim *c)
{
	struct segment *seg = c->seg;
	unsigned pages;

	for (unsigned p = c->from; p < c->to; p += pages) {
		pages = piece_pages(seg, p, c->fresh, PAGE_BUSY);
		if (!(c->fresh >> block_of(p) & 1))
			run_join(n, &seg->pages[p]);
	}
	seg->reserved |= c->fresh;
	segment_retire(n, seg);
}

/* Takes what was found to be possible. The lock is dropped meanwhile, if something must be committed. */
static bool claim(struct supply_node *n, struct claim *c)
{
	bool ok;

	claim_take(n, c);
	if (!c->fresh)
		return true;
	plat_unlock(&n->lock);
	ok = claim_commit(c);
	plat_lock(&n->lock);
	if (!ok)
		claim_undo(n, c);
	return ok;
}

/* Makes the range the caller's, and gives back what is beyond; the content of the range. */
static unsigned claim_finish(struct supply_node *n, const struct claim *c)
{
	struct segment *seg = c->seg;
	unsigned content = PAGE_ZERO, last = PAGE_ZERO, p = c->from;

	while (p < c->to) {
		unsigned pages = piece_pages(seg, p, c->fresh, PAGE_BUSY);
		bool fresh = c->fresh >> block_of(p) & 1;

		last = fresh ? PAGE_ZERO : seg->pages[p].dirty;
		content |= last;
		if (!fresh)
			seg->pages[p].kind = PAGE_NONE;
		p += pages;
	}
	count(&n->figures.blocks, bits_set(c->fresh));
	range_release(n, seg, c->to, p, last);
	return content;
}

/* Blocks that follow each other, the first at a multiple of `align`. */
struct want {
	unsigned blocks;
	unsigned align; /* blocks; at most 16 */
	bool whole;	/* free ones will do */
	bool fresh;	/* uncommitted ones will do */
};

/* Where in a segment they can begin. */
static uint32_t want_starts(const struct segment *seg, const struct want *want)
{
	uint32_t usable = (want->whole ? seg->whole : 0) | (want->fresh ? seg->reserved : 0);
	uint32_t starts = UINT32_MAX / ((1u << want->align) - 1); /* 1 in every `align` */

	for (unsigned i = 0; i < want->blocks; i++)
		starts &= usable >> i;
	return starts;
}

/* The blocks most of which are at hand, and cost neither a call nor, as a rule, page faults. */
static bool want_find(struct supply_node *n, const struct want *want, struct claim *c)
{
	unsigned best = 0, most = 1 + (want->whole ? want->blocks : 0), score;
	struct segment *seg;

	list_for_each_entry(seg, &n->segments, link) {
		for (uint32_t starts = want_starts(seg, want); starts; starts &= starts - 1) {
			unsigned first = (unsigned)__builtin_ctz(starts);
			uint32_t range = ((1u << want->blocks) - 1) << first;

			score = 1 + bits_set(seg->whole & range);
			if (score <= best)
				continue;
			best = score;
			c->seg = seg;
			c->from = first << block_order();
		}
		if (best == most)
			break;
	}
	c->to = c->from + (want->blocks << block_order());
	return best;
}

/* Commits one more block for the node. Called without the lock. */
static bool supply_grow(unsigned node)
{
	static const struct want want = { .blocks = 1, .align = 1, .fresh = true };
	struct supply_node *n = &nodes[node];
	struct claim c = { 0 };
	bool ok;

	plat_lock(&n->lock);
	while (!want_find(n, &want, &c)) {
		plat_unlock(&n->lock);
		if (!segment_add(node, SEGMENT_LEAST))
			return false;
		plat_lock(&n->lock);
	}
	ok = claim(n, &c);
	if (ok)
		range_release(n, c.seg, c.from, c.to, claim_finish(n, &c));
	plat_unlock(&n->lock);
	return ok;
}

/* ---- back to the system --------------------------------------------------------------------------- */

/* The largest dirty run of at least an order. */
static struct page *purge_victim(struct supply_node *n, unsigned least)
{
	struct page *page;

	for (unsigned order = block_order() + 1; order-- > least;)
		if (!list_empty(&n->free[order])) {
			page = list_entry(n->free[order].next, struct page, link);
			if (page->dirty & PAGE_DIRTY)
				return page;
		}
	return NULL;
}

/* A block without a used page: its memory and that of its descriptors, but not its address space. */
static bool block_give_up(struct segment *seg, unsigned block)
{
	struct page *first = &seg->pages[block << block_order()];
	uintptr_t from, to;

	if (plat_decommit(block_address(seg, block), BLOCK_SIZE))
		return false;
	/* Not the pages that hold descriptors of the neighbours, too. */
	from = align_up((uintptr_t)first, plat_page_size());
	to = align_down((uintptr_t)(first + block_pages()), plat_page_size());
	if (from < to)
		plat_purge((void *)from, to - from);
	return true;
}

/* Gives back one run; called and left with the lock held, which is dropped meanwhile. */
static void purge_one(struct supply_node *n, struct page *page)
{
	struct segment *seg = segment_of(page);
	unsigned block = block_of(page->index);
	bool whole = page->order == block_order(), huge = seg->blocks[block].huge, gone = false;
	int error = 0;

	run_unlink(n, page);
	plat_unlock(&n->lock);
	if (huge)
		plat_huge(block_address(seg, block), BLOCK_SIZE, false);
	if (whole)
		gone = block_give_up(seg, block);
	if (!gone)
		error = plat_purge(page_address(page), plat_page_size() << page->order);
	plat_lock(&n->lock);
	seg->blocks[block].huge = false;
	if (!gone) {
		page->dirty = error ? PAGE_STUCK : PAGE_ZERO;
		run_join(n, page);
		return;
	}
	page->kind = PAGE_NONE;
	seg->reserved |= 1u << block;
	count(&n->figures.blocks, (size_t)-1);
	segment_retire(n, seg);
}

static void purge_down_to(struct supply_node *n, size_t pages, unsigned least)
{
	struct page *victim;

	while (n->figures.dirty > pages) {
		victim = purge_victim(n, least);
		if (!victim)
			return;
		purge_one(n, victim);
	}
}

void supply_trim(void)
{
	for (unsigned node = 0; node < plat_nnodes(); node++) {
		plat_lock(&nodes[node].lock);
		purge_down_to(&nodes[node], 0, 0);
		plat_unlock(&nodes[node].lock);
	}
}

/* ---- the entry points ----------------------------------------------------------------------------- */

static void stretches_huge(struct segment *seg, uint32_t blocks, bool allow)
{
	unsigned first, n;

	while (blocks) {
		n = stretch_take(&blocks, &first);
		plat_huge(block_address(seg, first), n * BLOCK_SIZE, allow);
	}
}

/* Under the lock: those of a set of full blocks that were not eligible for huge pages, and are to be now. */
static uint32_t huge_begin(struct segment *seg, uint32_t full)
{
	uint32_t begun = 0;

	for (unsigned b = 1; full && b < SEGMENT_BLOCKS; b++)
		if (full >> b & 1 && !seg->blocks[b].huge) {
			seg->blocks[b].huge = true;
			begun |= 1u << b;
		}
	return begun;
}

/* Without the lock. */
static void huge_end(struct supply_node *n, struct segment *seg, uint32_t blocks)
{
	uint32_t small = 0;

	if (!blocks)
		return;
	stretches_huge(seg, blocks, true);
	/* Somebody may have given back a part of a block meanwhile, and had it small again. */
	plat_lock(&n->lock);
	for (unsigned b = 1; b < SEGMENT_BLOCKS; b++)
		if (blocks >> b & 1 && !seg->blocks[b].huge)
			small |= 1u << b;
	plat_unlock(&n->lock);
	stretches_huge(seg, small, false);
}

/* A run within one block. Under the lock. */
static struct page *take_pages(struct supply_node *n, unsigned pages, unsigned order)
{
	struct page *page = run_take(n, order);

	if (page)
		range_release(n, segment_of(page), page->index + pages,
			      page->index + (1u << page->order), page->dirty);
	return page;
}

/* One of whole blocks. Under the lock, which may be dropped meanwhile. */
static struct page *take_blocks(struct supply_node *n, unsigned pages, struct want *want)
{
	struct page *page;
	struct claim c;

	if (!want_find(n, want, &c))
		return NULL;
	c.to = c.from + pages;
	if (!claim(n, &c)) {
		want->fresh = false; /* there is no more memory */
		return NULL;
	}
	page = &c.seg->pages[c.from];
	page->dirty = (uint8_t)claim_finish(n, &c);
	return page;
}

/* So large must a segment be that they are in it for certain. */
static size_t want_segment(const struct want *want)
{
	size_t size = SEGMENT_LEAST;

	while (size < (want->align + want->blocks) * BLOCK_SIZE)
		size *= 2;
	return size;
}

static struct page *alloc_on(unsigned pages, unsigned align_order, unsigned node, unsigned flags)
{
	struct supply_node *n = &nodes[node];
	unsigned order = max(order_for(pages, 0), align_order);
	struct want want = {
		.blocks = (pages + block_pages() - 1) / block_pages(),
		.align = 1u << (max(align_order, block_order()) - block_order()),
		.whole = true,
		.fresh = !(flags & (SUPPLY_NOWAIT | SUPPLY_NOLOCK)),
	};
	bool within = order <= block_order();
	struct segment *seg;
	struct page *page;
	uint32_t full;

	do {
		if (!(flags & SUPPLY_NOLOCK))
			plat_lock(&n->lock);
		else if (!plat_trylock(&n->lock))
			return NULL;
		page = within ? take_pages(n, pages, order) : take_blocks(n, pages, &want);
		if (page)
			break;
		plat_unlock(&n->lock);
		if (!want.fresh ||
		    !(within ? supply_grow(node) : segment_add(node, want_segment(&want))))
			return NULL;
	} while (true);

	seg = segment_of(page);
	memset(page->client, 0, sizeof(page->client));
	range_mark(seg, page, (unsigned)(page - seg->pages), (unsigned)(page - seg->pages) + pages);
	page->pages = (uint16_t)pages;
	full = range_count(n, seg, page->index, page->index + pages);
	full = flags & SUPPLY_NOWAIT ? 0 : huge_begin(seg, full);
	plat_unlock(&n->lock);
	huge_end(n, seg, full);
	return page;
}

struct page *supply_alloc_pages(size_t pages, unsigned align_order, unsigned node, unsigned flags)
{
	struct page *page;

	if (!pages || pages > SUPPLY_PAGES_MAX || align_order > ilog2(SUPPLY_PAGES_MAX))
		return NULL;
	page = alloc_on((unsigned)pages, align_order, node, flags);
	for (unsigned other = 0; !page && !(flags & SUPPLY_THISNODE) && other < plat_nnodes();
	     other++)
		if (other != node)
			page = alloc_on((unsigned)pages, align_order, other, flags);
	return page;
}

struct page *supply_alloc(unsigned order, unsigned node, unsigned flags)
{
	return supply_alloc_pages((size_t)1 << order, order, node, flags);
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
	swing = max(swing, RESERVE_LEAST >> supply_page_shift);
	return min(swing, RESERVE_MOST >> supply_page_shift) + n->figures.used / RESERVE_PART;
}

/* What is beyond the reserve is given up when it has been so for a while, or is very much. In the quiet it has. */
static void purge(struct supply_node *n)
{
	size_t most = (RESERVE_MOST >> supply_page_shift) + n->figures.used / 4;
	size_t reserve = reserve_pages(n);
	uint64_t now = plat_now();

	if (n->figures.dirty <= reserve)
		n->over_since = 0;
	else if (!n->over_since)
		n->over_since = n->looked;
	n->looked = now;
	if (n->figures.dirty <= reserve ||
	    (n->figures.dirty <= most && now - n->over_since < PATIENCE_NS))
		return;
	n->over_since = 0;
	purge_down_to(n, reserve / 2, order_for(PURGE_BYTES, supply_page_shift));
	if (n->figures.dirty <= reserve ||
	    (n->figures.dirty <= most && now - n->small_since < SMALL_NS))
		return;
	n->small_since = now;
	purge_down_to(n, reserve / 2, 0);
}

/* A range that was used becomes free. The lock is dropped meanwhile. */
static void give_back(struct supply_node *n, struct segment *seg, unsigned from, unsigned to)
{
	memset(&seg->order_of[from], 0, to - from);
	set_tags(seg, from, to, 0);
	range_uncount(n, seg, from, to);
	range_release(n, seg, from, to, PAGE_DIRTY);
	if (n->figures.dirty > RESERVE_LEAST >> supply_page_shift)
		purge(n);
}

void supply_free_pages(struct page *page, size_t pages)
{
	struct supply_node *n = &nodes[page->node];

	plat_lock(&n->lock);
	give_back(n, segment_of(page), page->index, page->index + (unsigned)pages);
	plat_unlock(&n->lock);
}

void supply_free(struct page *page)
{
	supply_free_pages(page, page->pages);
}

/* The parts of a run, its bytes and its length, when it ends at another page. */
static void run_end(struct segment *seg, struct page *page, unsigned to)
{
	unsigned from = page->index, before = from + page->pages, same = from;

	/* Up to here its parts are what they were. */
	while (same < min(before, to) && part_order(same, before) == part_order(same, to))
		same += 1u << part_order(same, to);
	for_each_part(p, same, before) seg->pages[p].kind = PAGE_NONE;
	range_mark(seg, page, same, to);
	if (to > before)
		set_tags(seg, before, to, supply_tag_of(page_address(page)));
	page->pages = (uint16_t)(to - from);
}

/* Under the lock, which may be dropped meanwhile. `full`: the blocks that are to have huge pages now. */
static bool run_grow(struct supply_node *n, struct page *page, unsigned to, uint32_t *full)
{
	struct claim c = {
		.seg = segment_of(page),
		.from = page->index + page->pages,
		.to = to,
	};

	if (!claim_possible(&c) || !claim(n, &c))
		return false;
	page->dirty |= (uint8_t)claim_finish(n, &c);
	run_end(c.seg, page, to);
	*full = huge_begin(c.seg, range_count(n, c.seg, c.from, to));
	return true;
}

bool supply_resize_pages(struct page *page, size_t from, size_t to)
{
	struct supply_node *n = &nodes[page->node];
	struct segment *seg = segment_of(page);
	uint32_t full = 0;
	bool ok = true;

	if (!to || to > SUPPLY_PAGES_MAX)
		return false;
	plat_lock(&n->lock);
	if (to > from) {
		ok = run_grow(n, page, page->index + (unsigned)to, &full);
	} else if (to < from) {
		run_end(seg, page, page->index + (unsigned)to);
		give_back(n, seg, page->index + (unsigned)to, page->index + (unsigned)from);
	}
	plat_unlock(&n->lock);
	huge_end(n, seg, full);
	return ok;
}

void supply_usage(struct supply_usage *u)
{
	*u = (struct supply_usage){ 0 };
	for (unsigned node = 0; node < plat_nnodes(); node++) {
		const struct supply_figures *figures = &nodes[node].figures;

		u->used += plat_load_quiet(&figures->used) << supply_page_shift;
		u->dirty += plat_load_quiet(&figures->dirty) << supply_page_shift;
		u->segments += plat_load_quiet(&figures->segments);
	}
}

struct plat_lock *supply_lock(unsigned node)
{
	return &nodes[node].lock;
}
