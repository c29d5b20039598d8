/* SPDX-License-Identifier: MIT */
/*
 * What libuslub-malloc.so has besides names.h: the older functions of the malloc family, and those that tell
 * and tune.
 *
 * Results are those of the GNU C library: memalign() rounds a strange alignment up, where aligned_alloc() and
 * posix_memalign() refuse it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/print.h"
#include "malloc/internal.h"
#include "preload/preload.h"

/* ---- alignment ------------------------------------------------------------------------------------ */

static size_t next_power_of_2(size_t n)
{
	return n <= 1 ? 1 : (size_t)1 << fls(n - 1);
}

exported void *memalign(size_t align, size_t size)
{
	if (align > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	return uslub_aligned_alloc(next_power_of_2(align), size);
}

exported void *__libc_memalign(size_t align, size_t size) same_as(memalign);

exported int posix_memalign(void **to, size_t align, size_t size)
{
	int before = errno;
	void *p;

	if (!is_power_of_2(align) || align % sizeof(void *))
		return EINVAL;
	p = uslub_aligned_alloc(align, size);
	if (!p) {
		errno = before;
		return ENOMEM;
	}
	*to = p;
	return 0;
}

exported void *valloc(size_t size)
{
	return uslub_aligned_alloc(plat_page_size(), size);
}

exported void *__libc_valloc(size_t size) same_as(valloc);

exported void *pvalloc(size_t size)
{
	size_t bytes = align_up(size, plat_page_size());

	if (bytes < size) {
		errno = ENOMEM;
		return NULL;
	}
	return uslub_aligned_alloc(plat_page_size(), max(bytes, plat_page_size()));
}

exported void *__libc_pvalloc(size_t size) same_as(pvalloc);

exported void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return uslub_realloc(p, bytes);
}

/* ---- telling and tuning --------------------------------------------------------------------------- */

exported int malloc_trim(size_t pad)
{
	(void)pad;
	return uslub_malloc_trim();
}

exported struct mallinfo2 mallinfo2(void)
{
	struct uslub_malloc_info info;

	uslub_malloc_info(&info);
	return (struct mallinfo2){
		.arena = info.used - info.mapped + info.cached + info.spare,
		.hblks = info.mappings,
		.hblkhd = info.mapped,
		.uordblks = info.used - info.mapped,
		.fordblks = info.cached + info.spare,
		.keepcost = info.spare,
	};
}

/* As the C library does it: fields too small for the figures wrap. */
exported struct mallinfo mallinfo(void)
{
	struct mallinfo2 m = mallinfo2();

	return (struct mallinfo){
		.arena = (int)m.arena,
		.hblks = (int)m.hblks,
		.hblkhd = (int)m.hblkhd,
		.uordblks = (int)m.uordblks,
		.fordblks = (int)m.fordblks,
		.keepcost = (int)m.keepcost,
	};
}

/* What it tunes is not there; programs that check expect success. */
exported int mallopt(int what, int value)
{
	(void)what;
	(void)value;
	return 1;
}

/* With the elements of the C library's format that mean something here. */
exported int malloc_info(int options, FILE *to)
{
	struct uslub_malloc_info info;
	char text[1024];

	if (options) {
		errno = EINVAL;
		return -1;
	}
	uslub_malloc_info(&info);
	print_string(text, sizeof(text),
		     "<malloc version=\"1\">\n"
		     "<total type=\"fast\" count=\"0\" size=\"%zu\"/>\n"
		     "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
		     "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
		     "<system type=\"current\" size=\"%zu\"/>\n"
		     "</malloc>\n",
		     info.cached, info.spare, info.mappings, info.mapped,
		     info.used + info.cached + info.spare);
	return fputs(text, to) < 0 ? -1 : 0;
}

exported void malloc_stats(void)
{
	struct uslub_malloc_info info;
	char text[256];
	size_t len;

	uslub_malloc_info(&info);
	len = print_string(text, sizeof(text),
			   "uslub: bytes in use %zu (in mappings %zu), cached %zu, spare %zu\n",
			   info.used, info.mapped, info.cached, info.spare);
	plat_write(STDERR_FILENO, text, len);
}

/* ---- start ---------------------------------------------------------------------------------------- */

/* Of sanitizers' runtimes, which have to be the program's malloc themselves. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));

__attribute__((constructor)) static void construct(void)
{
	if (__asan_init || __tsan_init || __msan_init)
		plat_warn("libuslub-malloc.so is preloaded under a program built with a sanitizer, "
			  "which has a malloc of its own: run it without");
}
