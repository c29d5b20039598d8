/* SPDX-License-Identifier: MIT */
/*
 * All reading goes through part(), which copies a piece of the file that is inside of it: the file may be corrupt, and
 * may be changed meanwhile, so it is not mapped.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "elf_file.h"
#include "tool.h"

#define PART_MOST (64u << 20)

/* A copy of some bytes with a zero behind them, for the caller to free; NULL when the file has not got them. */
static char *part(const struct elf_file *e, uint64_t offset, uint64_t size)
{
	char *copy;

	if (size > PART_MOST || offset > e->size || size > e->size - offset)
		return NULL;
	copy = tool_alloc(size + 1, 1);
	if (pread(e->fd, copy, size, (off_t)offset) == (ssize_t)size)
		return copy;
	free(copy);
	return NULL;
}

/* Of a table with entries of a size that is known beforehand. */
static void *table(const struct elf_file *e, uint64_t offset, unsigned n, size_t found,
		   size_t expected)
{
	return found == expected ? part(e, offset, (uint64_t)n * expected) : NULL;
}

#define NATIVE_CLASS (sizeof(ElfW(Addr)) == 8 ? ELFCLASS64 : ELFCLASS32)
#define NATIVE_DATA  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

static void read_segments(struct elf_file *e)
{
	ElfW(Ehdr) *header = (void *)part(e, 0, sizeof(*header));

	if (!header)
		return;
	e->header = *header;
	free(header);
	e->segments = table(e, e->header.e_phoff, e->header.e_phnum, e->header.e_phentsize,
			    sizeof(*e->segments));
	e->nsegments = e->segments ? e->header.e_phnum : 0;
}

bool elf_open(struct elf_file *e, int fd)
{
	struct stat st;
	char *start;

	*e = (struct elf_file){ .fd = fd };
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	e->size = (uint64_t)st.st_size;
	/* Up to the machine, headers of all classes are alike. */
	start = part(e, 0, offsetof(ElfW(Ehdr), e_version));
	if (!start || memcmp(start, ELFMAG, SELFMAG)) {
		free(start);
		return false;
	}
	memcpy(e->ident, start, sizeof(e->ident));
	memcpy(&e->machine, start + offsetof(ElfW(Ehdr), e_machine), sizeof(e->machine));
	free(start);
	if (e->ident[EI_DATA] != NATIVE_DATA)
		e->machine = __builtin_bswap16(e->machine);
	else if (e->ident[EI_CLASS] == NATIVE_CLASS)
		read_segments(e);
	return true;
}

void elf_close(struct elf_file *e)
{
	free(e->segments);
	e->segments = NULL;
	e->nsegments = 0;
}

static const ElfW(Phdr) * segment(const struct elf_file *e, uint32_t type)
{
	for (unsigned i = 0; i < e->nsegments; i++) {
		if (e->segments[i].p_type == type)
			return &e->segments[i];
	}
	return NULL;
}

char *elf_interpreter(const struct elf_file *e)
{
	const ElfW(Phdr) *s = segment(e, PT_INTERP);

	char *name = s && s->p_filesz < PATH_MAX ? part(e, s->p_offset, s->p_filesz) : NULL;

	return s && !name ? tool_copy("") : name;
}

/* ---- libraries ------------------------------------------------------------------------------------ */

/* Where in the file is what gets this address; beyond its end: nowhere. */
static uint64_t offset_of(const struct elf_file *e, uint64_t address)
{
	for (unsigned i = 0; i < e->nsegments; i++) {
		const ElfW(Phdr) *s = &e->segments[i];

		if (s->p_type == PT_LOAD && address >= s->p_vaddr &&
		    address - s->p_vaddr < s->p_filesz)
			return s->p_offset + (address - s->p_vaddr);
	}
	return UINT64_MAX;
}

static uint64_t dynamic_value(const ElfW(Dyn) * dynamic, size_t n, int64_t tag)
{
	for (size_t i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag == tag)
			return dynamic[i].d_un.d_val;
	}
	return 0;
}

char *elf_needed(const struct elf_file *e, bool (*wanted)(const char *name))
{
	const ElfW(Phdr) *s = segment(e, PT_DYNAMIC);
	ElfW(Dyn) *dynamic = s ? (void *)part(e, s->p_offset, s->p_filesz) : NULL;
	size_t n = dynamic ? s->p_filesz / sizeof(*dynamic) : 0;
	uint64_t size = dynamic_value(dynamic, n, DT_STRSZ);
	char *names = part(e, offset_of(e, dynamic_value(dynamic, n, DT_STRTAB)), size);
	char *found = NULL;

	for (size_t i = 0; names && i < n && dynamic[i].d_tag != DT_NULL && !found; i++) {
		if (dynamic[i].d_tag == DT_NEEDED && dynamic[i].d_un.d_val < size &&
		    wanted(names + dynamic[i].d_un.d_val))
			found = tool_copy(names + dynamic[i].d_un.d_val);
	}
	free(names);
	free(dynamic);
	return found;
}

/* ---- symbols -------------------------------------------------------------------------------------- */

static bool defines(const struct elf_file *e, const ElfW(Shdr) * symbols,
		    const ElfW(Shdr) * strings, const char *name)
{
	ElfW(Sym) *list = (void *)part(e, symbols->sh_offset, symbols->sh_size);
	size_t n = list ? symbols->sh_size / sizeof(*list) : 0;
	char *names = part(e, strings->sh_offset, strings->sh_size);
	bool found = false;

	for (size_t i = 0; names && i < n && !found; i++)
		found = list[i].st_shndx != SHN_UNDEF && list[i].st_name < strings->sh_size &&
			!strcmp(names + list[i].st_name, name);
	free(names);
	free(list);
	return found;
}

bool elf_defines(const struct elf_file *e, const char *name)
{
	const ElfW(Ehdr) *h = &e->header;
	ElfW(Shdr) *sections = table(e, h->e_shoff, h->e_shnum, h->e_shentsize, sizeof(*sections));
	bool found = false;

	for (unsigned i = 0; sections && i < h->e_shnum && !found; i++)
		found = sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < h->e_shnum &&
			defines(e, &sections[i], &sections[sections[i].sh_link], name);
	free(sections);
	return found;
}
