// SPDX-License-Identifier: MIT
// The public interface from C++: compiles without a warning, links, and works.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <uslub/uslub.h>

namespace
{

int failed;

void check(bool ok, const char *what)
{
	if (!ok) {
		std::printf("failed: %s\n", what);
		failed = 1;
	}
}

int count_caches(uslub_cache *, void *arg)
{
	++*static_cast<unsigned *>(arg);
	return 0;
}

} // namespace

int main()
{
	uslub_cache_args args = {};
	args.args_size = sizeof(args);
	args.policy.prefill_barn = USLUB_POLICY_OFF;

	uslub_cache *c = uslub_cache_create("cxx", 96, &args);
	check(c != nullptr, "uslub_cache_create");
	if (!c)
		return 1;

	void *p = uslub_cache_alloc(c, USLUB_ZERO);
	check(p != nullptr, "uslub_cache_alloc");
	uslub_cache_free(c, p);

	void *many[10];
	check(uslub_cache_alloc_bulk(c, 0, 10, many) == 0, "uslub_cache_alloc_bulk");
	uslub_cache_free_bulk(c, 10, many);

	uslub_sheaf *sheaf = uslub_cache_prefill_sheaf(c, 0, 3);
	check(sheaf && uslub_sheaf_size(sheaf) >= 3, "uslub_cache_prefill_sheaf");
	uslub_cache_return_sheaf(c, 0, sheaf);

	unsigned caches = 0;
	check(uslub_for_each_cache(count_caches, &caches) == 0 && caches > 0, "uslub_for_each_cache");
	uint64_t value = 0;
	check(uslub_cache_stat(c, USLUB_STAT_object_size, &value) == 0 && value == 96, "object_size");
	check(std::strcmp(uslub_version(), USLUB_VERSION_STRING) == 0, "uslub_version");
	check(uslub_cache_destroy(c) == 0, "uslub_cache_destroy");
	return failed;
}
