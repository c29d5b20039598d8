/* SPDX-License-Identifier: MIT */
/* The snapshot is JSON, whatever caches are called, and says what their statistics say. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "unit.h"
#include "cache/internal.h"

static char text[400000];
static size_t len;

static void take_snapshot(void)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(uslub_snapshot_write(fileno(f)), 0);
	rewind(f);
	len = fread(text, 1, sizeof(text) - 1, f);
	text[len] = '\0';
	fclose(f);
	assert_true(len && len < sizeof(text) - 1);
}

/* ---- a reader of JSON ----------------------------------------------------------------------------- */

static const char *at;

static void blank(void)
{
	while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
		at++;
}

static void must(const char *word)
{
	blank();
	if (strncmp(at, word, strlen(word)))
		fail_msg("not \"%s\" at byte %zu: %.40s", word, (size_t)(at - text), at);
	at += strlen(word);
}

static bool may(const char *word)
{
	blank();
	if (strncmp(at, word, strlen(word)))
		return false;
	at += strlen(word);
	return true;
}

/* One character of UTF-8, which is what JSON is written in. */
static void copy_utf8(char **out)
{
	static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)*at;
	unsigned n = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : 4, code;

	if (first >= 0x80 && (first < 0xc2 || first > 0xf4))
		fail_msg("byte %#x is not UTF-8", first);
	code = n == 1 ? first : first & (0x7f >> n);
	for (unsigned i = 1; i < n; i++) {
		if (((unsigned char)at[i] & 0xc0) != 0x80)
			fail_msg("byte %#x is not UTF-8", (unsigned char)at[i]);
		code = code << 6 | ((unsigned char)at[i] & 0x3f);
	}
	assert_true(code >= least[n] && code < 0x110000 && code >> 11 != 0xd800 >> 11);
	while (n--)
		*(*out)++ = *at++;
}

static void copy_escape(char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *simple;
	unsigned code = 0;

	at++;
	simple = *at ? strchr(from, *at) : NULL;
	if (simple) {
		*(*out)++ = to[simple - from];
		at++;
		return;
	}
	assert_int_equal(*at++, 'u');
	for (unsigned i = 0; i < 4; i++, at++) {
		const char *digit = strchr("0123456789abcdef", *at | 0x20);

		assert_true(*at && digit);
		code = code * 16 + (unsigned)(digit - "0123456789abcdef");
	}
	if (code < 0x80) {
		*(*out)++ = (char)code;
	} else if (code < 0x800) {
		*(*out)++ = (char)(0xc0 | code >> 6);
		*(*out)++ = (char)(0x80 | (code & 0x3f));
	} else {
		*(*out)++ = (char)(0xe0 | code >> 12);
		*(*out)++ = (char)(0x80 | (code >> 6 & 0x3f));
		*(*out)++ = (char)(0x80 | (code & 0x3f));
	}
}

static const char *string(void)
{
	static char buf[1000];
	char *out = buf;

	must("\"");
	while (*at != '"') {
		assert_true(out < buf + sizeof(buf) - 8);
		if ((unsigned char)*at < 0x20)
			fail_msg("a bare control character %#x", (unsigned char)*at);
		if (*at == '\\')
			copy_escape(&out);
		else
			copy_utf8(&out);
	}
	at++;
	*out = '\0';
	return buf;
}

static uint64_t number(void)
{
	char *end;
	uint64_t n;

	blank();
	assert_true(*at >= '0' && *at <= '9');
	assert_false(*at == '0' && at[1] >= '0' && at[1] <= '9');
	n = strtoull(at, &end, 10);
	at = end;
	return n;
}

static void key(const char *name)
{
	const char *got = string();

	assert_string_equal(got, name);
	must(":");
}

static void begin_reading(void)
{
	static const char *const figures[] = { "memory_used",  "memory_retained", "memory_metadata",
					       "memory_large", "memory_mapped",	  "segments" };

	at = text;
	must("{");
	key("format");
	assert_string_equal(string(), "uslub-snapshot");
	must(",");
	key("version");
	unit_equal(number(), 1);
	must(",");
	key("source");
	assert_string_equal(string(), "process");
	must(",");
	key("host");
	must("{");
	key("pid");
	unit_equal(number(), getpid());
	must(",");
	key("cpus");
	unit_equal(number(), plat_ncpu());
	must(",");
	key("nodes");
	unit_equal(number(), plat_nnodes());
	must(",");
	key("page_size");
	unit_equal(number(), plat_page_size());
	must(",");
	key("rseq");
	must(plat_rseq_mode() ? "true" : "false");
	for (unsigned i = 0; i < array_size(figures); i++) {
		must(",");
		key(figures[i]);
		number();
	}
	must("}");
	must(",");
	key("caches");
	must("[");
}

/* The histograms of a cache whose slow paths are timed; others have none. */
static void read_latencies(const struct uslub_cache *c)
{
	struct uslub_latency_histogram h;

	if (uslub_cache_latency(c, USLUB_LATENCY_alloc, &h))
		return;
	must(",");
	key("latency");
	must("{");
	for (int i = 0; i < USLUB_LATENCY_COUNT; i++) {
		if (i)
			must(",");
		unit_equal(uslub_cache_latency(c, (enum uslub_latency)i, &h), 0);
		key(uslub_latency_name((enum uslub_latency)i));
		must("{");
		key("sum_ns");
		unit_equal(number(), h.sum_ns);
		must(",");
		key("counts");
		must("[");
		for (unsigned b = 0; b < USLUB_LATENCY_BUCKETS; b++) {
			if (b)
				must(",");
			unit_equal(number(), h.buckets[b]);
		}
		must("]");
		must("}");
	}
	must("}");
}

static void read_cache(const struct uslub_cache *c)
{
	must("{");
	key("name");
	assert_string_equal(string(), uslub_cache_name(c));
	must(",");
	key("values");
	must("{");
	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		if (i)
			must(",");
		key(uslub_stat_name(i));
		unit_equal(number(), unit_stat(c, i));
	}
	must("}");
	read_latencies(c);
	must("}");
}

static int read_one(struct uslub_cache *c, void *arg)
{
	unsigned *n = arg;

	if ((*n)++)
		must(",");
	read_cache(c);
	return 0;
}

/* The snapshot is that of all caches there are, in their order. */
static unsigned read_snapshot(void)
{
	unsigned n = 0;

	take_snapshot();
	begin_reading();
	uslub_for_each_cache(read_one, &n);
	must("]");
	must("}");
	blank();
	unit_equal(at - text, len);
	unit_equal(text[len - 1], '\n');
	return n;
}

/* ---- tests ---------------------------------------------------------------------------------------- */

static void test_empty(void **state)
{
	(void)state;
	unit_equal(read_snapshot(), 0);
}

static void test_values(void **state)
{
	struct uslub_cache *c[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		c[i] = uslub_cache_create("plain", 100 * (i + 1), NULL);
	for (unsigned i = 0; i < 500; i++)
		if (i % 3)
			uslub_cache_free(c[0], uslub_cache_alloc(c[0], 0));
		else
			assert_non_null(uslub_cache_alloc(c[i % 2], 0));
	/* numbers up to the largest; and sums of words that were read too late for each other */
	counters_add(counters(c[2]), CTR_alloc_slab, INT64_MAX);
	counters_add(counters(c[2]), CTR_barn_get, -(uint64_t)9);
	unit_equal(read_snapshot(), 3 + 3); /* sheaves of two sizes, and the boot cache */
	assert_non_null(strstr(text, "\"alloc_slab\":9223372036854775807,"));
	unit_equal(unit_stat(c[2], USLUB_STAT_barn_get), 0);
}

static void test_latencies(void **state)
{
	struct uslub_cache_args args = { .args_size = sizeof(args),
					 .policy.latency = USLUB_POLICY_ON };
	struct uslub_cache *timed = uslub_cache_create("timed", 64, &args);

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(uslub_cache_alloc(timed, 0));
	assert_non_null(uslub_cache_create("not timed", 64, NULL));
	read_snapshot();
	assert_non_null(strstr(text, "\"latency\":{\"alloc\":{\"sum_ns\":"));
	assert_null(strstr(strstr(text, "\"not timed\""), "\"latency\""));
}

static void named(const char *name)
{
	struct uslub_cache *c = uslub_cache_create(name, 64, NULL);

	assert_non_null(c);
	read_snapshot();
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_odd_names(void **state)
{
	char control[2] = { 0, 0 };

	(void)state;
	named("kmalloc-64 \"quoted\" 'too'");
	named("back\\slash\\");
	named("\\u0041");
	named("tab\tnewline\nreturn\r");
	named("{\"a\":[1,2]}");
	named("%s%n%d");
	named("</script>");
	named("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
	for (int i = 1; i < 0x80; i++) {
		control[0] = (char)i;
		named(control);
	}
	named("\x7f");
}

/* A name is bytes; what comes out has to be JSON all the same. */
static void no_utf8(const char *name)
{
	struct uslub_cache *c = uslub_cache_create(name, 64, NULL);

	assert_non_null(c);
	take_snapshot();
	begin_reading();
	/* read as JSON; what the bytes became is not asked */
	while (!may("]")) {
		if (may("{") || may("}") || may(",") || may(":"))
			continue;
		if (*at == '"')
			string();
		else
			number();
	}
	must("}");
	unit_equal(uslub_cache_destroy(c), 0);
}

static void test_names_without_utf8(void **state)
{
	(void)state;
	no_utf8("latin \xfc");
	no_utf8("\xff\xfe");
	no_utf8("cut \xe2\x82");
	no_utf8("\xed\xa0\x80");
	no_utf8("\xc0\x80");
}

static void test_errors(void **state)
{
	int fd;

	(void)state;
	uslub_cache_create("plain", 100, NULL);
	errno = 3;
	assert_int_equal(uslub_snapshot_write(-1), -EBADF);
	unit_equal(errno, 3);
	fd = open("/dev/full", O_WRONLY);
	if (fd >= 0)
		assert_int_equal(uslub_snapshot_write(fd), -ENOSPC);
	fd = open("/dev/null", O_RDONLY);
	assert_int_equal(uslub_snapshot_write(fd), -EBADF);
	/* nobody is left locked out */
	assert_non_null(uslub_cache_create("another", 100, NULL));
	read_snapshot();
}

/* ---- a slow reader -------------------------------------------------------------------------------- */

static int ends[2], result = 1;

static void *write_to_pipe(void *arg)
{
	plat_store(&result, uslub_snapshot_write(ends[1]));
	close(ends[1]);
	return arg;
}

static bool pipe_full(void *arg)
{
	struct pollfd p = { .fd = ends[1], .events = POLLOUT };

	(void)arg;
	return poll(&p, 1, 0) == 0;
}

static void read_pipe(void)
{
	ssize_t n;

	for (len = 0; (n = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0; len += (size_t)n)
		;
	text[len] = '\0';
	close(ends[0]);
}

static void skip_cache(void)
{
	must("{");
	key("name");
	string();
	must(",");
	key("values");
	must("{");
	for (int i = 0; i < USLUB_STAT_COUNT; i++) {
		if (i)
			must(",");
		key(uslub_stat_name(i));
		number();
	}
	must("}");
	must("}");
}

static void forks(void *arg)
{
	(void)arg;
}

/* While it does not read, caches come and go, among them the one being written, and a fork is possible. */
static void test_slow_reader(void **state)
{
	struct uslub_cache *caches[12];
	pthread_t thread;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < array_size(caches); i++) {
		snprintf(name, sizeof(name), "slow %u", i);
		caches[i] = uslub_cache_create(name, 100, NULL);
	}
	assert_int_equal(pipe(ends), 0);
	fcntl(ends[1], F_SETPIPE_SZ, 4096);
	alarm(unit_slow() ? 100 : 20);
	assert_int_equal(pthread_create(&thread, NULL, write_to_pipe, NULL), 0);
	assert_true(unit_wait(pipe_full, NULL));
	for (unsigned i = 0; i < array_size(caches); i++)
		if (i % 4 != 3)
			assert_int_equal(uslub_cache_destroy(caches[i]), 0);
	assert_non_null(uslub_cache_create("late", 100, NULL));
	if (!unit_emulated())
		unit_equal(unit_child(forks, NULL, text, sizeof(text), 20), 0);
	read_pipe();
	pthread_join(thread, NULL);
	unit_equal(result, 0);
	begin_reading();
	do
		skip_cache();
	while (may(","));
	must("]");
	must("}");
	blank();
	unit_equal(at - text, len);
	/* Those that were there all the time are all in it, and those still to come when it began. */
	assert_non_null(strstr(text, "\"slow 3\""));
	assert_non_null(strstr(text, "\"slow 7\""));
	assert_non_null(strstr(text, "\"slow 11\""));
	assert_non_null(strstr(text, "\"late\""));
	assert_null(strstr(text, "\"slow 10\""));
}

int main(int argc, char **argv)
{
	static const struct unit_test tests[] = {
		UNIT_TEST(test_empty, UNIT_ALL),
		UNIT_TEST(test_values, UNIT_ALL),
		UNIT_TEST(test_latencies, UNIT_ALL),
		UNIT_TEST(test_odd_names, UNIT_SHARED),
		UNIT_TEST(test_names_without_utf8, UNIT_SHARED),
		UNIT_TEST(test_errors, UNIT_SHARED),
		UNIT_TEST(test_slow_reader, UNIT_SHARED),
	};

	return unit_main(argc, argv, tests, array_size(tests));
}
