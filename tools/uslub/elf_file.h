/* SPDX-License-Identifier: MIT */
/*
 * What an ELF file says of itself. Nothing in it is believed: what lies outside of the file, or is absurdly large,
 * counts as missing.
 */
#ifndef TOOLS_ELF_FILE_H
#define TOOLS_ELF_FILE_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * struct elf_file - a file that begins as ELF does
 * @fd: the file
 * @size: its bytes
 * @ident: class, byte order
 * @machine: one of EM_*
 * @header: all of the header; zeros when the class is not that of this program
 * @segments: @nsegments of them; NULL when they cannot be read
 */
struct elf_file {
	int fd;
	uint64_t size;
	unsigned char ident[EI_NIDENT];
	uint16_t machine;
	ElfW(Ehdr) header;
	ElfW(Phdr) * segments;
	unsigned nsegments;
};

/*
 * elf_open - read the header and the segments of an open file
 * @fd: stays the caller's
 *
 * Returns false when it is no ELF file. elf_close() frees what was read, of such a file too.
 */
bool elf_open(struct elf_file *e, int fd);
void elf_close(struct elf_file *e);

/*
 * elf_interpreter - the dynamic loader that it asks for, for the caller to free
 *
 * Returns NULL when it asks for none, as a program does that is linked statically, and nothing but a zero when what
 * it asks for cannot be read.
 */
char *elf_interpreter(const struct elf_file *e);

/*
 * elf_needed - the first library that it is linked with whose name is wanted, for the caller to free; or NULL
 */
char *elf_needed(const struct elf_file *e, bool (*wanted)(const char *name));

/*
 * elf_defines - whether it has a function of this name that other files find
 */
bool elf_defines(const struct elf_file *e, const char *name);

#endif /* TOOLS_ELF_FILE_H */
