/* SPDX-License-Identifier: MIT */
/*
 * Histograms of `uslub bench`: how exact quantiles are, that histograms add up, that none is too large.
 */
#include <stdlib.h>
#include <string.h>
#include "../../workloads/latency.h"
#include "unit.h"

static struct wl_histogram one, other;

static int clear(void **state)
{
	(void)state;
	memset(&one, 0, sizeof(one));
	memset(&other, 0, sizeof(other));
	return 0;
}

/* Every value lies in a bucket whose middle is within 1/64 of it. */
static void buckets(void **state)
{
	unsigned last = 0;

	(void)state;
	for (uint64_t value = 0; value >> WL_VALUE_BITS == 0; value += value / 1000 + 1) {
		unsigned bucket = wl_bucket_of(value);
		uint64_t middle = wl_bucket_value(bucket);
		uint64_t off = middle > value ? middle - value : value - middle;

		assert_true(bucket < WL_BUCKETS);
		assert_true(bucket >= last);
		assert_true(64 * off <= value);
		assert_int_equal(wl_bucket_of(middle), bucket);
		last = bucket;
	}
	assert_int_equal(wl_bucket_of(((uint64_t)1 << WL_VALUE_BITS) - 1), WL_BUCKETS - 1);
	assert_int_equal(wl_bucket_of(UINT64_MAX), WL_BUCKETS - 1);
}

static void check_quantile(double part, double expected)
{
	double value = (double)wl_histogram_quantile(&one, part);

	assert_true(value >= expected * (1 - 1.0 / 64) && value <= expected * (1 + 1.0 / 64));
}

static void quantiles(void **state)
{
	(void)state;
	assert_int_equal(wl_histogram_quantile(&one, 0.5), 0);
	for (uint64_t value = 1; value <= 100000; value++)
		wl_histogram_add(value % 2 ? &one : &other, value);
	wl_histogram_merge(&one, &other);
	assert_int_equal(one.count, 100000);
	assert_int_equal(one.sum, UINT64_C(100000) * 100001 / 2);
	assert_int_equal(one.min, 1);
	assert_int_equal(one.max, 100000);
	check_quantile(0.5, 50000);
	check_quantile(0.99, 99000);
	check_quantile(0.999, 99900);
	check_quantile(0.9999, 99990);
	assert_true(wl_histogram_quantile(&one, 1) <= 100000);
}

/* One value is all quantiles, exactly; a very long one is not lost. */
static void single(void **state)
{
	(void)state;
	wl_histogram_add(&one, 12345);
	assert_int_equal(wl_histogram_quantile(&one, 0.5), 12345);
	assert_int_equal(wl_histogram_quantile(&one, 0.9999), 12345);
	wl_histogram_add(&other, UINT64_MAX / 2);
	wl_histogram_merge(&other, &one);
	assert_int_equal(other.max, UINT64_MAX / 2);
	assert_int_equal(other.min, 12345);
	assert_int_equal(other.count, 2);
}

static void spans(void **state)
{
	static struct wl_spans list;

	(void)state;
	for (unsigned i = 0; i < WL_SPANS + 3; i++)
		wl_spans_add(&list, i, i + 1);
	assert_int_equal(list.count, WL_SPANS);
	assert_int_equal(list.dropped, 3);
	assert_int_equal(list.list[WL_SPANS - 1].begin, WL_SPANS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(buckets, clear),
		cmocka_unit_test_setup(quantiles, clear),
		cmocka_unit_test_setup(single, clear),
		cmocka_unit_test(spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
