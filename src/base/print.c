/* SPDX-License-Identifier: MIT */
#include "base/print.h"

static void put(struct printer *p, char c)
{
	if (p->error)
		return;
	if (p->len == p->size) {
		if (!p->sink)
			return;
		print_flush(p);
	}
	p->buf[p->len++] = c;
}

void print_flush(struct printer *p)
{
	if (p->sink && p->len && !p->error)
		p->error = p->sink(p->arg, p->buf, p->len);
	if (p->sink)
		p->len = 0;
}

static void put_text(struct printer *p, const char *s)
{
	if (!s)
		s = "(null)";
	while (*s)
		put(p, *s++);
}

static void put_number(struct printer *p, uint64_t n, unsigned base)
{
	char digits[20];
	unsigned len = 0;

	do {
		digits[len++] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	while (len)
		put(p, digits[--len]);
}

static void put_signed(struct printer *p, int64_t n)
{
	if (n < 0)
		put(p, '-');
	put_number(p, n < 0 ? -(uint64_t)n : (uint64_t)n, 10);
}

void print_vformat(struct printer *p, const char *format, va_list ap)
{
	bool wide;

	for (; *format; format++) {
		if (*format != '%') {
			put(p, *format);
			continue;
		}
		wide = false;
		while (*++format == 'l' || *format == 'z')
			wide = true;
		switch (*format) {
		case 's':
			put_text(p, va_arg(ap, const char *));
			break;
		case 'c':
			put(p, (char)va_arg(ap, int));
			break;
		case 'd':
			put_signed(p, wide ? va_arg(ap, long) : va_arg(ap, int));
			break;
		case 'u':
			put_number(p, wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), 10);
			break;
		case 'x':
			put_number(p, wide ? va_arg(ap, unsigned long) : va_arg(ap, unsigned), 16);
			break;
		case 'p':
			put_text(p, "0x");
			put_number(p, (uintptr_t)va_arg(ap, void *), 16);
			break;
		case '\0':
			return;
		default:
			put(p, *format);
		}
	}
}

void print_format(struct printer *p, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	print_vformat(p, format, ap);
	va_end(ap);
}

size_t print_string(char *buf, size_t size, const char *format, ...)
{
	struct printer p = { .buf = buf, .size = size - 1 };
	va_list ap;

	va_start(ap, format);
	print_vformat(&p, format, ap);
	va_end(ap);
	buf[p.len] = '\0';
	return p.len;
}
