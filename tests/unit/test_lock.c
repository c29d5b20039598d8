/* SPDX-License-Identifier: MIT */
/* The lock: one at a time, also for those who have to sleep; and the check of lock order. */
#include <pthread.h>
#include <time.h>

#include "unit.h"

static struct plat_lock lock;
static uint64_t shared; /* under lock, plain */

static void test_states(void **state)
{
	(void)state;
	plat_lock_init(&lock, RANK_LIST);
	unit_equal(lock.rank, RANK_LIST);
	assert_false(plat_lock_mine(&lock));
	plat_lock(&lock);
	assert_true(plat_lock_mine(&lock));
	assert_false(plat_trylock(&lock));
	plat_unlock(&lock);
	assert_false(plat_lock_mine(&lock));
	assert_true(plat_trylock(&lock));
	assert_true(plat_lock_mine(&lock));
	plat_unlock(&lock);
	unit_equal(lock.word, 0);
}

static void *try_once(void *arg)
{
	bool *result = arg;

	result[0] = plat_trylock(&lock);
	result[1] = plat_lock_mine(&lock);
	return NULL;
}

static void test_other_thread(void **state)
{
	bool result[2] = { true, true };
	pthread_t thread;

	(void)state;
	plat_lock_init(&lock, RANK_LIST);
	plat_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, try_once, result), 0);
	pthread_join(thread, NULL);
	assert_false(result[0]);
	assert_false(result[1]);
	assert_true(plat_lock_mine(&lock));
	plat_unlock(&lock);
}

static void *add_often(void *arg)
{
	struct timespec pause = { .tv_nsec = 100000 };
	unsigned n = *(unsigned *)arg;

	for (unsigned i = 0; i < n; i++) {
		if (i % 3 || !plat_trylock(&lock))
			plat_lock(&lock);
		shared++;
		if (i % 500 == 0)
			nanosleep(&pause, NULL); /* long enough for others to fall asleep */
		plat_unlock(&lock);
	}
	return NULL;
}

static void test_exclusion(void **state)
{
	unsigned n = unit_scaled(20000);
	pthread_t threads[6];

	(void)state;
	plat_lock_init(&lock, RANK_LIST);
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_often, &n), 0);
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	unit_equal(shared, n * array_size(threads));
	unit_equal(lock.word, 0);
}

static bool somebody_sleeps(void *arg)
{
	(void)arg;
	return plat_load(&lock.word) & PLAT_LOCK_SLEEPERS;
}

/* Somebody who sleeps is woken, and the lock remembers that others may sleep still. */
static void test_sleepers(void **state)
{
	pthread_t threads[3];
	unsigned once = 1;

	(void)state;
	plat_lock_init(&lock, RANK_LIST);
	plat_lock(&lock);
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_often, &once), 0);
	assert_true(unit_wait(somebody_sleeps, NULL));
	assert_true(plat_lock_mine(&lock)); /* the mark is no owner */
	plat_unlock(&lock);
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	unit_equal(shared, 3);
}

/* ---- order ---------------------------------------------------------------------------------------- */

static struct plat_lock low, high, other;

static void wait_for_lower(void *arg)
{
	(void)arg;
	plat_lock(&high);
	plat_lock(&low);
}

static void wait_for_equal(void *arg)
{
	(void)arg;
	plat_lock(&low);
	plat_lock(&other);
}

static void wait_for_oneself(void *arg)
{
	(void)arg;
	plat_lock(&low);
	plat_lock(&low);
}

static void unlock_what_is_free(void *arg)
{
	(void)arg;
	plat_unlock(&low);
}

static void lower_after_unlock_out_of_order(void *arg)
{
	(void)arg;
	plat_lock(&low);
	plat_lock(&high);
	plat_unlock(&low);
	plat_lock(&other);
}

static void test_order(void **state)
{
	(void)state;
	plat_lock_init(&low, RANK_BARN);
	plat_lock_init(&other, RANK_BARN);
	plat_lock_init(&high, RANK_LIST);
	unit_dies(wait_for_lower, NULL, "lock order: waiting for rank");
	unit_dies(wait_for_equal, NULL, "lock order: waiting for rank");
	unit_dies(wait_for_oneself, NULL, "lock order: waiting for rank");
	unit_dies(lower_after_unlock_out_of_order, NULL, "lock order: waiting for rank");
	unit_dies(unlock_what_is_free, NULL, "which this thread does not hold");
	/* Upwards is fine, and so is trying, in any order. */
	for (unsigned i = 0; i < 3; i++) {
		plat_lock(&low);
		plat_lock(&high);
		assert_true(plat_trylock(&other));
		plat_unlock(&low);
		plat_unlock(&other);
		plat_unlock(&high);
	}
	plat_lock(&high);
	assert_true(plat_trylock(&low));
	plat_unlock(&high);
	plat_lock(&high);
	plat_unlock(&high);
	plat_unlock(&low);
}

/* ---- still and frozen ----------------------------------------------------------------------------- */

static uint32_t has_both;

static void *takes_two(void *arg)
{
	plat_lock(&low);
	plat_lock(&high);
	plat_store_release(&has_both, 1);
	plat_unlock(&high);
	plat_unlock(&low);
	return arg;
}

static bool is_still(void *l)
{
	return plat_load_acquire(&((struct plat_lock *)l)->hold) == PLAT_HOLD_STILL;
}

/* Who waits with a lock lets it be frozen, and does not go on before it is thawed. */
static void test_frozen(void **state)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	pthread_t thread;

	(void)state;
	plat_lock_init(&low, RANK_BARN);
	plat_lock_init(&high, RANK_LIST);
	plat_lock(&high);
	assert_false(plat_lock_freeze(&high)); /* we are not waiting */
	assert_int_equal(pthread_create(&thread, NULL, takes_two, NULL), 0);
	assert_true(unit_wait(is_still, &low));
	assert_false(plat_lock_seize(&low));
	assert_true(plat_lock_freeze(&low));
	assert_false(plat_lock_freeze(&low));
	plat_unlock(&high);
	/* It has the other one now, which can be frozen too. */
	assert_true(unit_wait(is_still, &high));
	assert_true(plat_lock_freeze(&high));
	plat_lock_thaw(&low, false);
	nanosleep(&pause, NULL);
	assert_false(plat_load_acquire(&has_both));
	plat_lock_thaw(&high, false);
	pthread_join(thread, NULL);
	assert_true(has_both);
	unit_equal(low.hold, PLAT_HOLD_MOVES);
	unit_equal(high.hold, PLAT_HOLD_MOVES);
	unit_equal(low.word | high.word, 0);
}

static void *takes_two_often(void *arg)
{
	unsigned n = unit_scaled(20000);

	for (unsigned i = 0; i < n; i++) {
		plat_lock(&low);
		plat_store(&shared, shared + 1);
		plat_lock(&high);
		plat_unlock(&high);
		plat_unlock(&low);
	}
	plat_fetch_add(&has_both, 1);
	return arg;
}

/* What is frozen does not change, however often. */
static void test_frozen_often(void **state)
{
	pthread_t threads[3];
	unsigned frozen = 0;
	uint64_t before;

	(void)state;
	plat_lock_init(&low, RANK_BARN);
	plat_lock_init(&high, RANK_LIST);
	plat_store(&has_both, 0);
	for (unsigned i = 0; i < array_size(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, takes_two_often, NULL), 0);
	while (plat_load_acquire(&has_both) < array_size(threads)) {
		plat_lock(&high);
		for (unsigned i = 0; i < 100 && !is_still(&low); i++)
			plat_yield();
		if (plat_lock_freeze(&low)) {
			before = plat_load(&shared);
			plat_unlock(&high);
			plat_yield();
			unit_equal(plat_load(&shared), before);
			plat_lock_thaw(&low, false);
			frozen++;
		} else {
			plat_unlock(&high);
		}
	}
	for (unsigned i = 0; i < array_size(threads); i++)
		pthread_join(threads[i], NULL);
	unit_equal(low.word | high.word, 0);
	unit_equal(low.hold | high.hold, 0);
	print_message("frozen %u times\n", frozen);
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_states, UNIT_REAL),	 UNIT_TEST(test_other_thread, UNIT_REAL),
		UNIT_TEST(test_exclusion, UNIT_REAL),	 UNIT_TEST(test_sleepers, UNIT_REAL),
		UNIT_TEST(test_order, UNIT_REAL),	 UNIT_TEST(test_frozen, UNIT_REAL),
		UNIT_TEST(test_frozen_often, UNIT_REAL),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
