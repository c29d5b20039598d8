/* SPDX-License-Identifier: MIT */
/*
 * Lists of operations on general sizes, with a model that knows what every piece must hold, and that none lies over
 * another. With -DFUZZER it is a target for libFuzzer:
 *
 *   clang -DFUZZER -fsanitize=fuzzer,address -Iinclude tests/malloc/fuzz.c build/src/libuslub.a -o fuzz && ./fuzz
 *
 * Without, it makes lists at random itself. With "broken" as its argument it spoils a byte, which must be found.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uslub/malloc.h>

#define PIECES 64

static struct piece {
	unsigned char *p;
	size_t size;
	unsigned char tag;
} pieces[PIECES];

static int spoil;

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "not true: %s\n", #what);                                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void apart(const struct piece *one)
{
	for (const struct piece *other = pieces; other < pieces + PIECES; other++)
		MUST(other == one || !other->p || one->p + one->size <= other->p ||
		     other->p + other->size <= one->p);
}

static void fill(struct piece *piece, unsigned char *p, size_t size, unsigned char tag)
{
	MUST(p && (uintptr_t)p % 16 == 0 && uslub_usable_size(p) >= size);
	*piece = (struct piece){ p, size, tag };
	apart(piece);
	memset(p, tag, size);
}

static void check(const struct piece *piece, size_t size)
{
	for (size_t i = 0; i < size; i++)
		MUST(piece->p[i] == piece->tag);
}

static void drop(struct piece *piece)
{
	if (spoil && piece->p && piece->size)
		piece->p[piece->size / 2] ^= 1;
	check(piece, piece->size);
	uslub_free(piece->p);
	piece->p = NULL;
}

static void grow(struct piece *piece, size_t size, unsigned char tag)
{
	size_t kept = piece->size < size ? piece->size : size;
	unsigned char *p = uslub_realloc(piece->p, size);

	if (!size) {
		MUST(!p || !piece->p);
		piece->p = p;
		piece->size = 0;
		return;
	}
	if (!piece->p)
		kept = 0;
	MUST(p);
	piece->p = p;
	check(piece, kept);
	fill(piece, p, size, tag);
}

static void zeroed(struct piece *piece, size_t size, unsigned char tag)
{
	unsigned char *p = uslub_calloc(1, size);

	MUST(p);
	for (size_t i = 0; i < size; i++)
		MUST(!p[i]);
	fill(piece, p, size, tag);
}

/* Four bytes an operation: which and on what, and a size of so many bits. */
static void operate(const uint8_t *op)
{
	struct piece *piece = &pieces[op[0] % PIECES];
	size_t size = ((size_t)op[2] << 8 | op[3]) << op[1] % 9;
	unsigned what = op[1] / 9 % 6;

	if (what != 3 && piece->p)
		drop(piece);
	switch (what) {
	case 0:
		fill(piece, uslub_malloc(size), size, op[3]);
		break;
	case 1:
		zeroed(piece, size, op[3]);
		break;
	case 2:
		fill(piece, uslub_aligned_alloc((size_t)1 << op[3] % 22, size), size, op[2]);
		MUST((uintptr_t)piece->p % ((size_t)1 << op[3] % 22) == 0);
		break;
	case 3:
		grow(piece, size, op[2]);
		break;
	case 4:
		uslub_malloc_trim();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (; size >= 4; size -= 4, data += 4)
		operate(data);
	for (unsigned i = 0; i < PIECES; i++)
		if (pieces[i].p)
			drop(&pieces[i]);
	return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
	uint64_t random = 88172645463325252u;
	uint8_t list[400];

	spoil = argc > 1 && !strcmp(argv[1], "broken");
	for (unsigned round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(list); i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* Large sizes are rare, or nothing else would get its turn. */
			list[i] = (uint8_t)(i % 4 == 2 && random >> 60 ? random % 4 : random >> 8);
		}
		LLVMFuzzerTestOneInput(list, sizeof(list));
	}
	return 0;
}
#endif
