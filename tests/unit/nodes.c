/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <sys/mman.h>

#include "nodes.h"
#include "tiers/arena.h"

struct slab_class class;
struct node nodes[2];
static uint64_t expected[CTR_COUNT];
struct slab *slabs[SLABS_MAX];
unsigned released;
struct slab *last_released;
struct nodes_like nodes_like;

static void release(struct node *node, struct slab *slab)
{
	assert_true(node == &nodes[0] || node == &nodes[1]);
	assert_ptr_equal(node, &nodes[slab->node]);
	assert_false(plat_lock_mine(&node->list_lock.lock));
	plat_fetch_add(&released, 1);
	plat_store(&last_released, slab);
	slab_release(slab);
}

static struct park_shard *shards_of(unsigned n)
{
	static struct park_shard *all;

	if (!nodes_like.nshards)
		return NULL;
	if (!n)
		all = arena_alloc(2 * nodes_like.nshards * sizeof(*all));
	assert_non_null(all);
	return all + n * nodes_like.nshards;
}

void begin(size_t object_size, unsigned min_objects, unsigned min_partial)
{
	struct slab_layout l = { .object_size = object_size, .min_objects = min_objects };

	assert_true(slab_class_init(&class, &l));
	assert_true(class.objects <= OBJECTS_MAX);
	class.name = "tested";
	class.key = 0xfeedfacecafebeefu;
	counters_layout(&class.counters, plat_nslots(), 2);
	class.counters.words = arena_alloc(counters_bytes(&class.counters));
	for (unsigned n = 0; n < 2; n++)
		node_init(&nodes[n], &(struct node_setup){ .class = &class,
							   .release = release,
							   .id = n,
							   .min_partial = min_partial,
							   .counting = nodes_like.counting,
							   .shards = shards_of(n),
							   .nshards = nodes_like.nshards,
							   .park_limit = nodes_like.park_limit });
}

void begin_small(unsigned min_partial)
{
	begin(plat_page_size() / 16, 16, min_partial);
	unit_equal(class.objects, 16);
}

/* ---- expectations --------------------------------------------------------------------------------- */

void expect(enum counter which, uint64_t n)
{
	expected[which] += n;
}

void expect_as_is(enum counter which)
{
	expected[which] = counters_sum(&class.counters, which);
}

static const char *counter_name(unsigned which)
{
	static const char *const names[] = {
#define NAME_OF_COUNTER(name) #name,
#define NAME_OF_DERIVED(name)
#define NAME_OF_ATTRIBUTE(name)
#define NAME_OF_GAUGE(name)
#define NAME_OF_FLAG(name)
#define USLUB_STAT(name, kind, help) NAME_OF_##kind(name)
#include <uslub/stats.def>
#undef USLUB_STAT
	};

	return which < array_size(names) ? names[which] : "an internal one";
}

void check_counters_at(const char *file, int line)
{
	for (unsigned i = 0; i < CTR_COUNT; i++) {
		uint64_t got = counters_sum(&class.counters, i);

		if (got == expected[i])
			continue;
		print_error("%s is %ju, not %ju\n", counter_name(i), (uintmax_t)got,
			    (uintmax_t)expected[i]);
		_fail(file, line);
	}
}

unsigned free_in(const struct slab *slab)
{
	return slab->objects - state_inuse(slab->state);
}

void check_slab_at(const struct slab *slab, unsigned free, enum slab_where where, const char *file,
		   int line)
{
	unit_equal_at(free_in(slab), free, "free objects of the slab", "what is wanted", file,
		      line);
	unit_equal_at(state_where(slab->state), where, "where the slab is", "what is wanted", file,
		      line);
	unit_equal_at(!state_head(slab->state), !free, "whether there is a chain", "what is wanted",
		      file, line);
}

void check_list_at(struct node *n, const int *order, const char *file, int line)
{
	struct slab *slab;
	unsigned len = 0;

	list_for_each_entry(slab, &n->partial, link) {
		if (order[len] < 0 || slabs[order[len]] != slab) {
			print_error("another slab in place %u\n", len);
			_fail(file, line);
		}
		unit_equal_at(state_where(slab->state), SLAB_LISTED, "a listed slab", "LISTED",
			      file, line);
		len++;
	}
	unit_equal_at((uint64_t)order[len], (uint64_t)-1, "the rest of the list", "nothing", file,
		      line);
	unit_equal_at(n->nr_partial, len, "nr_partial", "the length", file, line);
}

void check_stack_at(const struct slab *slab, const int *order, const char *file, int line)
{
	unsigned len = 0;

	for (; slab; slab = slab->next, len++)
		if (order[len] < 0 || slabs[order[len]] != slab) {
			print_error("another slab in place %u\n", len);
			_fail(file, line);
		}
	unit_equal_at((uint64_t)order[len], (uint64_t)-1, "the rest of the stack", "nothing", file,
		      line);
}

void check_totals(unsigned nr_slabs)
{
	unit_equal(nodes[0].nr_slabs, nr_slabs);
	unit_equal(nodes[0].total_objects, nr_slabs * class.objects);
}

/* ---- what is done --------------------------------------------------------------------------------- */

void take_slabs(unsigned n)
{
	void *objects[OBJECTS_MAX];

	assert_true(list_empty(&nodes[0].partial));
	for (unsigned i = 0; i < n; i++) {
		unit_equal(nodes_refill(nodes, 0, objects, class.objects, 0), class.objects);
		slabs[i] = slab_of(&class, objects[0]);
		for (unsigned k = 0; k < class.objects; k++)
			assert_ptr_equal(objects[k], slab_object(slabs[i], k));
		check_slab(slabs[i], 0, SLAB_UNLISTED);
	}
	expect(CTR_alloc_slab, n);
	check_totals(n);
	check_list_empty();
	check_counters();
}

void put_flags(unsigned i, unsigned first, unsigned n, unsigned flags)
{
	void *objects[OBJECTS_MAX];

	for (unsigned k = 0; k < n; k++)
		objects[k] = slab_object(slabs[i], first + k);
	nodes_flush(nodes, objects, n, flags);
}

void put(unsigned i, unsigned first, unsigned n)
{
	put_flags(i, first, n, 0);
}

void publish(unsigned i, unsigned first, unsigned n)
{
	put(i, first, n);
	expect(CTR_full_to_partial, 1);
	expect(CTR_free_add_partial, 1);
	check_counters();
}

void *object(unsigned i, unsigned k)
{
	return slab_object(slabs[i], k);
}

/* ---- others that come in between ------------------------------------------------------------------ */

static char *guarded;
unsigned faults;
static void (*in_between)(unsigned which); /* which fault this is, from 1 on */

void guard(void *p)
{
	guarded = (char *)((uintptr_t)p & ~(plat_page_size() - 1));
	assert_int_equal(mprotect(guarded, plat_page_size(), PROT_NONE), 0);
}

static void handle_fault(int signal, siginfo_t *info, void *context)
{
	char *p = guarded;

	(void)signal;
	(void)context;
	if (!p || (char *)info->si_addr < p || (char *)info->si_addr >= p + plat_page_size())
		abort();
	guarded = NULL;
	mprotect(p, plat_page_size(), PROT_READ | PROT_WRITE);
	in_between(++faults);
}

void come_in_between(void (*fn)(unsigned which))
{
	struct sigaction sa = { .sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (unit_under_valgrind())
		unit_skip("valgrind takes the faults for errors");
	in_between = fn;
	sigaction(SIGSEGV, &sa, NULL);
}

void begin_two_pages(unsigned min_partial)
{
	begin(plat_page_size() / 8, 16, min_partial);
	unit_equal(class.order, 1);
	unit_equal(class.objects, 16);
}

static void *hold(void *arg)
{
	struct holder *h = arg;

	plat_lock(&h->node->list_lock.lock);
	pthread_barrier_wait(&h->barrier);
	pthread_barrier_wait(&h->barrier);
	plat_unlock(&h->node->list_lock.lock);
	return NULL;
}

void holder_begin(struct holder *h, struct node *node)
{
	h->node = node;
	pthread_barrier_init(&h->barrier, NULL, 2);
	assert_int_equal(pthread_create(&h->thread, NULL, hold, h), 0);
	pthread_barrier_wait(&h->barrier);
}

void holder_end(struct holder *h)
{
	pthread_barrier_wait(&h->barrier);
	pthread_join(h->thread, NULL);
}
