/* SPDX-License-Identifier: MIT */
/*
 * What is read from /sys, on made-up machines; then a cache on a machine with two nodes.
 */
#include <sched.h>
#include <unistd.h>

#include "unit.h"
#include "cache/internal.h"

/* ---- reading -------------------------------------------------------------------------------------- */

struct file {
	const char *path, *text;
};

#define POSSIBLE     "devices/system/cpu/possible"
#define PRESENT	     "devices/system/cpu/present"
#define NODES	     "devices/system/node/possible"
#define NODE(number) "devices/system/node/node" #number "/cpulist"

static void read_root(const struct file *files)
{
	char root[256];

	unit_directory(root, sizeof(root));
	for (; files && files->path; files++)
		unit_file(root, files->path, files->text);
	plat_test_topology(root);
	unit_remove(root);
}

#define read_files(...) read_root((const struct file[]){ __VA_ARGS__, { NULL, NULL } })

static void check(unsigned ncpu, unsigned present, unsigned nnodes)
{
	unit_equal(plat_ncpu(), ncpu);
	unit_equal(plat_nslots(), ncpu + PLAT_FOREIGN_SLOTS);
	unit_equal(plat_present_cpus(), present);
	unit_equal(plat_nnodes(), nnodes);
}

static unsigned by_affinity(void)
{
	cpu_set_t set;
	unsigned n = 1;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			n = cpu + 1;
	return n;
}

static void test_plain(void **state)
{
	(void)state;
	read_files({ POSSIBLE, "0-3\n" }, { PRESENT, "0-3\n" }, { NODES, "0\n" },
		   { NODE(0), "0-3\n" });
	check(4, 4, 1);
	for (unsigned cpu = 0; cpu < plat_nslots(); cpu++)
		unit_equal(plat_cpu_node(cpu), 0);
	read_files({ POSSIBLE, "0\n" }, { PRESENT, "0\n" });
	check(1, 1, 1);
	read_files({ POSSIBLE, "0-1023" }, { PRESENT, "0-1" });
	check(1024, 2, 1);
}

static void test_sparse(void **state)
{
	(void)state;
	read_files({ POSSIBLE, "0,2-3,8\n" }, { PRESENT, "0,2,8\n" }, { NODES, "0-1\n" },
		   { NODE(0), "0,8\n" }, { NODE(1), "2-3\n" });
	check(9, 3, 2);
	unit_equal(plat_cpu_node(0), 0);
	unit_equal(plat_cpu_node(2), 1);
	unit_equal(plat_cpu_node(3), 1);
	unit_equal(plat_cpu_node(8), 0);
	unit_equal(plat_cpu_node(1), 0); /* is nowhere */
	unit_equal(plat_cpu_node(9), 0); /* a foreign slot */
	unit_equal(plat_cpu_node(100), 0);
	/* the highest id counts, wherever it stands */
	read_files({ POSSIBLE, "8,0-3" }, { PRESENT, "8" });
	check(9, 1, 1);
}

static void test_unreadable(void **state)
{
	unsigned n = by_affinity();

	(void)state;
	plat_test_topology("/nonexistent");
	check(n, n, 1);
	read_files({ POSSIBLE, "" });
	check(n, n, 1);
	read_files({ POSSIBLE, "\n" }, { PRESENT, "\n" }, { NODES, "\n" });
	check(n, n, 1);
	read_files({ POSSIBLE, "none" }, { NODES, "-1" });
	check(n, n, 1);
	/* one missing file is no reason to forget the others */
	read_files({ POSSIBLE, "0-7" }, { NODES, "0-1" }, { NODE(1), "4-7" });
	check(8, 8, 2);
	unit_equal(plat_cpu_node(3), 0);
	unit_equal(plat_cpu_node(4), 1);
	/* an earlier reading leaves nothing behind */
	read_files({ POSSIBLE, "0-7" }, { NODES, "0-1" });
	check(8, 8, 2);
	unit_equal(plat_cpu_node(4), 0);
}

static void test_odd_lists(void **state)
{
	(void)state;
	read_files({ POSSIBLE, "0-3,x,9" }, { PRESENT, "0-1,,5" });
	check(4, 2, 1);
	read_files({ POSSIBLE, "0-3," }, { PRESENT, "0-" });
	check(4, 4, 1);
	read_files({ POSSIBLE, "0-3" }, { PRESENT, "0-9" });
	check(4, 4, 1); /* no more present than possible */
	read_files({ POSSIBLE, "0-3" }, { PRESENT, "3-1" });
	check(4, 4, 1);
	read_files({ POSSIBLE, "0-3 \n" }, { NODES, "0-1" }, { NODE(0), "0-1\n" },
		   { NODE(1), "2-3,700\n" });
	check(4, 4, 2);
	unit_equal(plat_cpu_node(3), 1);
	unit_equal(plat_cpu_node(700), 0);
}

static void test_limits(void **state)
{
	char many[3500] = "0", *p = many + 1;

	(void)state;
	read_files({ POSSIBLE, "0-99999" }, { NODES, "0-255" }, { NODE(63), "4095" });
	check(PLAT_MAX_CPUS, PLAT_MAX_CPUS, PLAT_MAX_NODES);
	unit_equal(plat_cpu_node(4095), 63);
	unit_equal(plat_cpu_node(4096), 0);
	read_files({ POSSIBLE, "0-99999999999999999999" });
	check(PLAT_MAX_CPUS, PLAT_MAX_CPUS, 1);
	for (unsigned cpu = 2; cpu < 1200; cpu += 2)
		p += sprintf(p, ",%u", cpu);
	read_files({ POSSIBLE, many }, { PRESENT, many });
	check(1199, 600, 1);
}

static void test_machine_itself(void **state)
{
	(void)state;
	plat_test_topology("/sys");
	assert_true(plat_ncpu() >= 1 && plat_ncpu() <= PLAT_MAX_CPUS);
	assert_true(plat_present_cpus() <= plat_ncpu());
	assert_true(plat_nnodes() >= 1);
	assert_true(plat_this_node() < plat_nnodes());
	assert_true(plat_slot() < plat_nslots());
	for (unsigned slot = 0; slot < plat_nslots(); slot++)
		assert_true(plat_cpu_node(slot) < plat_nnodes());
}

static void two_nodes(void)
{
	static const char *const cpus[] = { "0-1", "2-3" };

	unit_machine("0-3", NULL, cpus, 2);
}

static void test_this_node(void **state)
{
	(void)state;
	two_nodes();
	for (int cpu = 0; cpu < 4; cpu++) {
		unit_on_cpu(cpu);
		unit_equal(plat_slot(), cpu);
		unit_equal(plat_this_node(), cpu / 2);
	}
	unit_on_cpu(-1);
	assert_true(plat_slot() >= 4 && plat_slot() < plat_nslots());
	assert_true(plat_this_node() < 2);
}

/* In a child: the first cache, and with it the internal ones, is made for n CPUs, and works. */
static void use_cache(void *arg)
{
	unsigned n = *(unsigned *)arg;
	struct uslub_cache *c[2];
	void *objects[100];
	char list[20];
	const char *all = list;

	snprintf(list, sizeof(list), n > 1 ? "0-%u" : "0", n - 1);
	unit_machine(list, NULL, &all, 1);
	unit_on_cpu((int)n - 1);
	for (unsigned i = 0; i < 2; i++)
		c[i] = uslub_cache_create("many", 100, NULL);
	for (unsigned k = 0; k < 100; k++) {
		objects[k] = uslub_cache_alloc(c[k % 2], USLUB_ZERO);
		if (!objects[k])
			unit_exit(1);
	}
	for (unsigned k = 0; k < 100; k++)
		uslub_cache_free(c[k % 2], objects[k]);
	for (unsigned i = 0; i < 2; i++)
		if (stat_of(c[i], alloc_fastpath) != 50 || stat_of(c[i], free_fastpath) != 50 ||
		    uslub_cache_destroy(c[i]))
			unit_exit(2);
}

static void test_many_cpus(void **state)
{
	static const unsigned numbers[] = { 1,	 2,    5,    60,   97,	 98,  99,  128,
					    150, 199,  200,  201,  256,	 509, 511, 512,
					    600, 1000, 1019, 1020, 1021, 4096 };
	char text[2000];

	(void)state;
	for (unsigned i = 0; i < array_size(numbers); i++) {
		unsigned n = numbers[i];
		int status = unit_child(use_cache, &n, text, sizeof(text), unit_scaled(200));

		if (status)
			fail_msg("%u CPUs: status %#x: %s", n, status, text);
	}
}

/* ---- two nodes ------------------------------------------------------------------------------------ */

static struct uslub_cache *cache(unsigned capacity)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .policy.sheaf_capacity = capacity,
					 .policy.slab_min_objects = 16 };
	struct uslub_cache *c;

	two_nodes();
	c = uslub_cache_create("nodes", plat_page_size() / 16, &args);
	assert_non_null(c);
	return c;
}

static void *alloc_on(struct uslub_cache *c, int cpu)
{
	void *object;

	unit_on_cpu(cpu);
	object = uslub_cache_alloc(c, 0);
	assert_non_null(object);
	return object;
}

static void test_local_and_remote_frees(void **state)
{
	struct uslub_cache *c = cache(8);
	void *a, *b;

	(void)state;
	a = alloc_on(c, 0);
	b = alloc_on(c, 2);
	unit_equal(object_node(c, a), 0);
	unit_equal(object_node(c, b), 1);
	unit_equal(stat_of(c, alloc_fastpath), 2);
	unit_equal(stat_of(c, alloc_slab), 2);
	unit_equal(stat_of(c, slabs), 2);
	unit_on_cpu(1); /* another CPU of node 0 */
	uslub_cache_free(c, b);
	unit_equal(stat_of(c, free_slowpath), 1);
	unit_equal(stat_of(c, free_fastpath), 0);
	/* 16 objects in a slab, 8 taken by the sheaf, one of them freed */
	unit_equal(16 - state_inuse(slab_of(&c->class, b)->state), 9);
	uslub_cache_free(c, a);
	unit_equal(stat_of(c, free_slowpath), 1);
	unit_equal(stat_of(c, free_fastpath), 1);
	b = alloc_on(c, 3);
	unit_on_cpu(0);
	uslub_cache_free_nolock(c, b);
	unit_equal(stat_of(c, free_slowpath), 2);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_bulk_frees(void **state)
{
	struct uslub_cache *c = cache(8);
	void *objects[10];

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		objects[i] = alloc_on(c, i % 3 == 1 ? 3 : 0);
	unit_on_cpu(1);
	uslub_cache_free_bulk(c, 10, objects);
	/* no sheaf there yet, and bulk allocates none: the local ones go to slabs as well */
	unit_equal(stat_of(c, free_slowpath), 10);
	unit_equal(stat_of(c, free_fastpath), 0);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_bulk_frees_to_sheaf(void **state)
{
	struct uslub_cache *c = cache(8);
	void *objects[6];
	struct slab *remote;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		objects[i] = alloc_on(c, i % 2 ? 3 : 0);
	unit_on_cpu(0);
	remote = slab_of(&c->class, objects[1]);
	uslub_cache_free_bulk(c, 6, objects);
	unit_equal(stat_of(c, free_slowpath), 3);
	unit_equal(stat_of(c, free_fastpath), 3);
	/* 8 were taken by the other node's sheaf; the remote ones are in their slab again */
	unit_equal(16 - state_inuse(remote->state), 8 + 3);
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_alloc_node(void **state)
{
	struct uslub_cache *c = cache(8);
	void *object;

	(void)state;
	unit_on_cpu(2);
	/* its own node: as any allocation */
	object = uslub_cache_alloc_node(c, 0, 1);
	unit_equal(object_node(c, object), 1);
	unit_equal(stat_of(c, alloc_fastpath), 1);
	unit_equal(stat_of(c, alloc_node_mismatch), 0);
	/* another one: from slabs */
	memset(object, 0xff, uslub_cache_object_size(c));
	object = uslub_cache_alloc_node(c, USLUB_ZERO, 0);
	unit_equal(object_node(c, object), 0);
	for (size_t i = 0; i < uslub_cache_object_size(c); i++)
		unit_equal(((char *)object)[i], 0);
	unit_equal(stat_of(c, alloc_fastpath), 1);
	unit_equal(stat_of(c, alloc_slowpath), 1);
	unit_equal(stat_of(c, alloc_node_mismatch), 1);
	object = uslub_cache_alloc_node(c, 0, -1);
	unit_equal(object_node(c, object), 1);
	unit_equal(stat_of(c, alloc_node_mismatch), 1);
	errno = 0;
	assert_null(uslub_cache_alloc_node(c, 0, 2));
	unit_equal(errno, EINVAL);
	errno = 0;
	assert_null(uslub_cache_alloc_node(c, 0, -2));
	unit_equal(errno, EINVAL);
	unit_equal(stat_of(c, alloc_node_mismatch), 1);
}

/* Node 1 has no memory: another one serves, and its objects get into node 1's sheaves. */
static void test_sheaf_with_remote_objects(void **state)
{
	struct uslub_cache *c = cache(8);
	void *a, *b;

	(void)state;
	alloc_on(c, 0);
	plat_inject_failures = 0;
	a = alloc_on(c, 2);
	plat_inject_failures = -1;
	unit_equal(object_node(c, a), 0);
	unit_equal(stat_of(c, alloc_fastpath), 2);
	/* The next object of the sheaf is remote: it is not what was asked for. */
	b = uslub_cache_alloc_node(c, 0, 1);
	unit_equal(object_node(c, b), 1);
	unit_equal(stat_of(c, alloc_node_mismatch), 1);
	unit_equal(stat_of(c, alloc_slowpath), 1);
	/* A preference, no more. */
	while (supply_alloc(0, 1, SUPPLY_NOWAIT | SUPPLY_THISNODE))
		;
	plat_inject_failures = 0;
	for (unsigned i = 0; i < 40; i++) {
		a = uslub_cache_alloc_node(c, 0, 1);
		assert_non_null(a);
	}
	unit_equal(object_node(c, a), 0);
	plat_inject_failures = -1;
}

/* Full sheaves go to the barn of the node where they are filled. */
static void test_barns(void **state)
{
	struct uslub_cache *c = cache(4);
	void *objects[40];

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		objects[i] = alloc_on(c, 2);
	unit_on_cpu(3);
	for (unsigned i = 0; i < 40; i++)
		uslub_cache_free(c, objects[i]);
	unit_equal(stat_of(c, free_fastpath), 40);
	unit_equal(stat_of(c, free_slowpath), 0);
	unit_equal(c->barns[0].nr_full, 0);
	unit_equal(c->barns[1].nr_full, 8); /* and two sheaves on the CPU */
	unit_equal(stat_of(c, barn_full), 8);
	/* node 0 does not get them */
	unit_equal(object_node(c, alloc_on(c, 1)), 0);
	unit_equal(c->barns[1].nr_full, 8);
	alloc_on(c, 2);
	unit_equal(c->barns[1].nr_full, 7);
	unit_equal(uslub_cache_shrink(c), 0);
	unit_equal(stat_of(c, barn_full), 0);
	unit_equal(stat_of(c, slabs), 2);
}

static struct uslub_sheaf *prefilled;

static void test_prefill(void **state)
{
	struct uslub_cache *c = cache(8);
	void *object;

	(void)state;
	unit_on_cpu(2);
	prefilled = uslub_cache_prefill_sheaf(c, 0, 3);
	object = uslub_cache_alloc_from_sheaf(c, 0, prefilled);
	unit_equal(object_node(c, object), 1);
	/* returned on another node it is that CPU's spare; objects stay what they are */
	unit_on_cpu(0);
	uslub_cache_return_sheaf(c, 0, prefilled);
	unit_equal(stat_of(c, sheaf_return_fast), 1);
	unit_equal(object_node(c, alloc_on(c, 0)), 1);
	unit_equal(stat_of(c, alloc_fastpath), 1);
	uslub_cache_free(c, object);
	unit_equal(stat_of(c, free_slowpath), 1);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_plain, UNIT_REAL),
		UNIT_TEST(test_sparse, UNIT_REAL),
		UNIT_TEST(test_unreadable, UNIT_REAL),
		UNIT_TEST(test_odd_lists, UNIT_REAL),
		UNIT_TEST(test_limits, UNIT_REAL),
		UNIT_TEST(test_machine_itself, UNIT_REAL),
		UNIT_TEST(test_this_node, UNIT_FAKED),
		UNIT_TEST(test_many_cpus, UNIT_FAKED),
		UNIT_TEST(test_local_and_remote_frees, UNIT_FAKED),
		UNIT_TEST(test_bulk_frees, UNIT_FAKED),
		UNIT_TEST(test_bulk_frees_to_sheaf, UNIT_FAKED),
		UNIT_TEST(test_alloc_node, UNIT_FAKED),
		UNIT_TEST(test_sheaf_with_remote_objects, UNIT_FAKED),
		UNIT_TEST(test_barns, UNIT_FAKED),
		UNIT_TEST(test_prefill, UNIT_FAKED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
