/* SPDX-License-Identifier: MIT */
/*
 * What the unit tests share.
 *
 * Each test runs in a process of its own, once for each of the modes it names, so that it finds an
 * allocator that nobody has used. The process has a machine made up for it: four CPUs on one node,
 * unless the test asks for another one. What a test prints is shown when it fails.
 *
 *  FAKED   the sequences of rseq, on a struct rseq that the kernel does not know: the test says which
 *          CPU the thread is on (unit_on_cpu()). Other threads, such as reclaimers, are unregistered
 *          and use foreign slots. Nothing depends on luck.
 *  SHARED  compare-exchange, as without rseq; the thread stays on one real CPU
 *  REAL    what the library makes of the machine, with its own CPUs and nodes
 *
 * A program takes words as arguments; then only tests with one of them in their name run.
 */
#ifndef USLUB_TESTS_UNIT_H
#define USLUB_TESTS_UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <uslub/uslub.h>
#include "platform/platform.h"
#include "machine.h"

enum { UNIT_FAKED = 1, UNIT_SHARED = 2, UNIT_REAL = 4 };

#define UNIT_BOTH (UNIT_FAKED | UNIT_SHARED)
#define UNIT_ALL  (UNIT_BOTH | UNIT_REAL)

struct unit_test {
	const char *name;
	void (*fn)(void **state);
	unsigned modes;
};

#define UNIT_TEST(fn, modes)                                                                       \
	{                                                                                          \
#fn, fn, modes                                                                     \
	}

int unit_main(int argc, char **argv, const struct unit_test *tests, size_t n);

/* The mode of this process. */
unsigned unit_mode(void);

/* FAKED: the CPU that the thread is on from here on; -1: it is not registered. */
void unit_on_cpu(int cpu);

/*
 * Another machine, before the first cache: lists as in /sys, such as "0-3,8". `present` may be NULL,
 * as possible; `nodes` has the CPUs of node 0, 1, ..., nnodes of them.
 */
void unit_machine(const char *possible, const char *present, const char *const *nodes,
		  unsigned nnodes);

/* A file below a directory, made with its parents; the whole directory goes by unit_remove(). */
void unit_directory(char *root, size_t size);
void unit_file(const char *root, const char *path, const char *text);
void unit_remove(const char *root);

/*
 * Runs fn in a child and gives what waitpid() says. What it writes to stderr is put into `text`. A child
 * that does not end within `seconds` is ended by SIGALRM.
 */
int unit_child(void (*fn)(void *), void *arg, char *text, size_t size, unsigned seconds);

void unit_exit(int code) __attribute__((noreturn)); /* for children: at once */

/* fn must abort, and the message must hold all of `words`. */
void unit_dies(void (*fn)(void *), void *arg, const char *words);

/* Occurrences of a word in a text. */
unsigned unit_occurrences(const char *text, const char *word);

/* Ends the test here; it counts as skipped. */
void unit_skip(const char *why) __attribute__((noreturn));

/* Waits until the condition holds, some seconds at most. */
bool unit_wait(bool (*condition)(void *), void *arg);

/* Is everything slow: under valgrind, with ThreadSanitizer, or with USLUB_TEST_QUICK set? */
bool unit_slow(void);
unsigned unit_scaled(unsigned n); /* n, or a tenth of it then */
bool unit_sanitized(void);	  /* with a sanitizer, which has an address space of its own */
bool unit_tsan(void);
bool unit_emulated(
	void); /* by a user-mode emulator, which keeps its own counsel on memory and forks */
bool unit_under_valgrind(void);

size_t unit_mapped(void); /* bytes of address space in use */

/* A sequence of numbers that is the same in each run. */
void unit_seed(uint64_t seed);
uint64_t unit_random(void);
unsigned unit_below(unsigned n); /* 0..n-1 */

/* A statistic of a cache, by its name. */
#define stat_of(c, name) unit_stat(c, USLUB_STAT_##name)
uint64_t unit_stat(const struct uslub_cache *c, enum uslub_stat which);

/*
 * What must hold of a quiet cache, whatever was done to it. `live` objects are in the hands of the test,
 * those in prefilled sheaves included, of which there are `prefilled`; `failed` calls for single objects
 * got none. Then nothing is lost: objects outside of slabs are those, and those in sheaves; they are as
 * many as were taken from slabs and not given back; and sheaves are as many as were made.
 */
/* The gauges of a node are what a walk over its slabs finds; nothing goes on meanwhile. */
struct node;
void unit_check_node_at(struct node *n, const char *name, int line);
#define unit_check_node(n) unit_check_node_at(n, __FILE__, __LINE__)

void unit_check_cache_at(struct uslub_cache *c, uint64_t live, uint64_t prefilled, uint64_t failed,
			 int line);
#define unit_check_cache(c, live, prefilled, failed)                                               \
	unit_check_cache_at(c, live, prefilled, failed, __LINE__)

/* Assertions that say where they are used, also from helpers: unit_equal(got, wanted). */
#define unit_equal(a, b) unit_equal_at((uint64_t)(a), (uint64_t)(b), #a, #b, __FILE__, __LINE__)
void unit_equal_at(uint64_t a, uint64_t b, const char *what, const char *wanted, const char *file,
		   int line);

#endif /* USLUB_TESTS_UNIT_H */
