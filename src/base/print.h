/* SPDX-License-Identifier: MIT */
/*
 * Text without stdio: formats into a caller's buffer and hands full buffers to a sink. Never allocates,
 * takes no lock, knows no locale; usable in signal handlers when the sink is.
 *
 * The format language is a small part of printf's: %s %c %% %d %u %x %p, with l and z as length
 * modifiers (both 64 bits), nothing else.
 */
#ifndef USLUB_BASE_PRINT_H
#define USLUB_BASE_PRINT_H

#include <stdarg.h>
#include "base/base.h"

struct printer {
	char *buf;
	size_t size;
	size_t len;
	int error; /* first error of the sink, then nothing more is written */
	int (*sink)(void *arg, const char *text, size_t len); /* 0 or -errno; NULL: cut at size */
	void *arg;
};

hidden void print_vformat(struct printer *p, const char *format, va_list ap);
hidden void print_format(struct printer *p, const char *format, ...) printf_like(2, 3);
hidden void print_flush(struct printer *p);

/* The same into a string, always terminated; returns its length, which is below size. */
hidden size_t print_string(char *buf, size_t size, const char *format, ...) printf_like(3, 4);

#endif /* USLUB_BASE_PRINT_H */
