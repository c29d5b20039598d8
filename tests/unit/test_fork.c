/* SPDX-License-Identifier: MIT */
/*
 * Fork in a signal handler that has interrupted its thread under a lock, while other threads hold locks:
 * in the midst of a change, waiting, or about to fork themselves.
 *
 * The interrupted thread is this one: it takes a lock of the library by hand and raises a signal. The
 * others do the same by hand, and say whether what they protect is in order.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache/internal.h"
#include "tiers/supply.h"
#include "unit.h"

static struct uslub_cache *cache;
static uint32_t in_order = 1; /* what supply_lock(0) protects, let us say */
static uint32_t began, may_end, ended;

static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

static bool is_set(void *flag)
{
	return plat_load_acquire((uint32_t *)flag);
}

/* ---- forks ---- */

enum { IN_ORDER = 1, SUPPLY_FREE = 2, ARENA_FREE = 4, CLOSE_FREE = 8, REGISTRY_FREE = 16 };

static bool can_be_had(struct plat_lock *l)
{
	bool ok = plat_trylock(l);

	if (ok)
		plat_unlock(l);
	return ok;
}

/* What a child finds, as its exit code. */
static int look_around(void)
{
	return (in_order ? IN_ORDER : 0) | (can_be_had(supply_lock(0)) ? SUPPLY_FREE : 0) |
	       (can_be_had(arena_lock()) ? ARENA_FREE : 0) |
	       (can_be_had(&cache->close_lock) ? CLOSE_FREE : 0) |
	       (can_be_had(&registry_lock) ? REGISTRY_FREE : 0);
}

static __thread volatile pid_t forked;

static void forks(void)
{
	pid_t pid = fork();

	if (!pid)
		unit_exit(look_around());
	forked = pid;
}

static void handler(int signal)
{
	(void)signal;
	forks();
}

static void fork_in_handler(void)
{
	struct sigaction action = { .sa_handler = handler };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static int found(void)
{
	int status;

	assert_int_equal(waitpid(forked, &status, 0), forked);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void begin(void)
{
	if (unit_emulated())
		unit_skip("an emulator forks its own way");
	alarm(unit_slow() ? 100 : 20); /* a fork that waits for ever */
	if (!cache)
		cache = uslub_cache_create("fork", 64, NULL);
	assert_non_null(cache);
	began = may_end = ended = 0;
}

static pthread_t start(void *(*fn)(void *))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	assert_true(unit_wait(is_set, &began));
	return thread;
}

/* ---- the tests ---- */

static void *changes_for_long(void *arg)
{
	plat_lock(supply_lock(0));
	plat_store(&in_order, 0);
	plat_store_release(&began, 1);
	pause_ms(400);
	plat_store(&in_order, 1);
	plat_unlock(supply_lock(0));
	return arg;
}

/* The owner of a lock does not get to run for long: the fork waits for it. */
static void test_in_the_midst(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	thread = start(changes_for_long);
	plat_lock(arena_lock());
	fork_in_handler();
	unit_equal(found(), IN_ORDER | SUPPLY_FREE | CLOSE_FREE | REGISTRY_FREE);
	plat_unlock(arena_lock());
	pthread_join(thread, NULL);
}

static void *waits_for_arena(void *arg)
{
	plat_lock(supply_lock(0));
	plat_store_release(&began, 1);
	plat_lock(arena_lock());
	plat_store(&in_order, 0);
	pause_ms(100);
	plat_store(&in_order, 1);
	plat_unlock(arena_lock());
	plat_unlock(supply_lock(0));
	return arg;
}

/* It waits for what the handler interrupted: it is not waited for, and its lock is free in the child. */
static void test_still(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	plat_lock(arena_lock());
	thread = start(waits_for_arena);
	for (unsigned i = 0; i < 3; i++) {
		fork_in_handler();
		unit_equal(found(), IN_ORDER | SUPPLY_FREE | CLOSE_FREE | REGISTRY_FREE);
	}
	plat_unlock(arena_lock());
	pthread_join(thread, NULL);
	unit_equal(look_around(), 31);
}

static void *shrinks(void *arg)
{
	plat_store_release(&began, 1);
	uslub_cache_shrink(cache);
	plat_store_release(&ended, 1);
	return arg;
}

static bool still(void *lock)
{
	return plat_load(&((struct plat_lock *)lock)->hold) == PLAT_HOLD_STILL;
}

/* The same with a closer, which waits for a slot that the handler's thread has closed. */
static void test_closer(void **state)
{
	struct percpu_slot *slot;
	struct plat_place here;
	pthread_t thread;
	uint64_t word;

	(void)state;
	begin();
	slot = main_slot(cache, cache->nslots - 1); /* a foreign one */
	word = plat_load(&slot->word);
	plat_enter(&here, slot);
	plat_store_release(&slot->word, word | WORD_WHO_LOCAL);
	thread = start(shrinks);
	assert_true(unit_wait(still, &cache->close_lock));
	fork_in_handler();
	unit_equal(found(), 31);
	assert_false(is_set(&ended));
	plat_store_release(&slot->word, word);
	plat_leave(&here);
	pthread_join(thread, NULL);
	unit_equal(look_around(), 31);
}

static int calls_back(struct uslub_cache *c, void *arg)
{
	(void)c;
	(void)arg;
	plat_store_release(&began, 1);
	while (!plat_load_acquire(&may_end))
		pause_ms(1);
	return 1;
}

static void *looks_at_caches(void *arg)
{
	uslub_for_each_cache(calls_back, NULL);
	return arg;
}

/* The same with a callback, which may wait for anything of the user's. */
static void test_callback(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	thread = start(looks_at_caches);
	plat_lock(arena_lock());
	fork_in_handler();
	unit_equal(found(), 31 & ~ARENA_FREE);
	plat_unlock(arena_lock());
	plat_store_release(&may_end, 1);
	pthread_join(thread, NULL);
	unit_equal(look_around(), 31);
}

static int others_found;

static void *forks_as_well(void *arg)
{
	plat_lock(supply_lock(0));
	plat_store(&in_order, 0);
	plat_store_release(&began, 1);
	while (!plat_load_acquire(&may_end))
		plat_yield();
	raise(SIGUSR1);
	plat_store(&in_order, 1);
	plat_unlock(supply_lock(0));
	others_found = found();
	return arg;
}

/* Two handlers fork at once, each over a lock. The first must do without the other's, and says so. */
static void test_two(void **state)
{
	unsigned first = 0;
	pthread_t thread;
	int mine;

	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++) {
		began = may_end = 0;
		thread = start(forks_as_well);
		plat_lock(arena_lock());
		plat_store_release(&may_end, 1);
		fork_in_handler();
		plat_unlock(arena_lock());
		mine = found();
		pthread_join(thread, NULL);
		/* The lock that a thread itself is under is not free in its child, either. */
		unit_equal(mine & ~IN_ORDER, CLOSE_FREE | REGISTRY_FREE | (mine & SUPPLY_FREE));
		unit_equal(others_found, CLOSE_FREE | REGISTRY_FREE | (others_found & ARENA_FREE));
		unit_equal(!(mine & SUPPLY_FREE), !!(others_found & ARENA_FREE));
		/* What is free is in order. */
		unit_equal(!(mine & SUPPLY_FREE), !(mine & IN_ORDER));
		first += !(mine & SUPPLY_FREE);
		unit_equal(look_around(), 31);
	}
	print_message("%u of 4 times this thread was the first\n", first);
}

static void waits_for_lost(void *arg)
{
	(void)arg;
	assert_true(plat_lock_lose(supply_lock(0)));
	plat_lock_thaw(supply_lock(0), true);
	plat_lock(supply_lock(0));
}

static void test_lost(void **state)
{
	(void)state;
	begin();
	unit_dies(waits_for_lost, NULL, "another thread was changing what the lock of rank 8");
}

static void *forks_plainly(void *arg)
{
	plat_store_release(&began, 1);
	forks();
	others_found = found();
	return arg;
}

/* An ordinary fork that waits for a lock lets the one of its owner's handler go first. */
static void test_gives_way(void **state)
{
	pthread_t thread;

	(void)state;
	begin();
	plat_lock(supply_lock(0));
	thread = start(forks_plainly);
	pause_ms(20);
	fork_in_handler();
	unit_equal(found(), 31 & ~SUPPLY_FREE);
	plat_unlock(supply_lock(0));
	pthread_join(thread, NULL);
	unit_equal(others_found, 31);
	unit_equal(look_around(), 31);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_in_the_midst, UNIT_REAL), UNIT_TEST(test_still, UNIT_REAL),
		UNIT_TEST(test_closer, UNIT_REAL),	 UNIT_TEST(test_callback, UNIT_REAL),
		UNIT_TEST(test_two, UNIT_REAL),		 UNIT_TEST(test_lost, UNIT_REAL),
		UNIT_TEST(test_gives_way, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}

/* Children of threads: the sanitizer would end the process. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
