/* SPDX-License-Identifier: MIT */
/*
 * What the kernel and the dynamic loader will make of a program, as far as LD_PRELOAD is concerned.
 *
 * A program without a loader has nobody who preloads. With one of another kind, or for another machine, the library
 * does not fit. And where a program gets rights that its caller has not got, the loader obeys nobody: the kernel tells
 * it so (AT_SECURE), and it leaves out libraries that are named by a path. In all these cases the program would run
 * and nobody would know that its malloc is still the old one; so it is found out before.
 */
#include <endian.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "elf_file.h"
#include "program.h"
#include "tool.h"

/* As of the kernel: how much of a script it reads, and how many may interpret each other. */
#define SCRIPT_HEAD 256
#define SCRIPTS	    5

/* ---- finding it ----------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !eaccess(path, X_OK);
}

/* The directories of PATH, for the caller to free. */
static char *search_path(void)
{
	const char *value = getenv("PATH");
	char *path;
	size_t size;

	if (value)
		return tool_copy(value);
	size = confstr(_CS_PATH, NULL, 0);
	path = tool_alloc(size, 1);
	confstr(_CS_PATH, path, size);
	return path;
}

char *program_find(const char *name)
{
	char *path, *rest, *directory, *found = NULL;

	if (strchr(name, '/') || !*name)
		return is_program(name) ? tool_copy(name) : NULL;
	path = rest = search_path();
	while (!found && (directory = strsep(&rest, ":"))) {
		/* an empty one is the current directory */
		found = tool_format("%s%s%s", directory, *directory ? "/" : "", name);
		if (!is_program(found)) {
			free(found);
			found = NULL;
		}
	}
	free(path);
	return found;
}

/* ---- why nothing can be preloaded ----------------------------------------------------------------- */

/*
 * struct look - what the reasons are looked for in
 * @self: this program, which can be preloaded
 */
struct look {
	struct stat st;
	bool nosuid;
	int fd;
	struct elf_file elf, self;
	char *loader, *self_loader;
};

static const struct {
	uint16_t machine;
	const char *name;
} machines[] = {
	{ EM_386, "i386" },	   { EM_X86_64, "x86-64" }, { EM_ARM, "arm" },
	{ EM_AARCH64, "aarch64" }, { EM_RISCV, "riscv" },   { EM_PPC64, "ppc64" },
	{ EM_S390, "s390" },	   { EM_MIPS, "mips" },
};

static char *machine_name(const struct elf_file *e)
{
	for (unsigned i = 0; i < TOOL_COUNT(machines); i++) {
		if (machines[i].machine == e->machine)
			return tool_copy(machines[i].name);
	}
	return tool_format("number %u", e->machine);
}

static char *other_machine(const struct look *l)
{
	unsigned char class = l->elf.ident[EI_CLASS];
	char *name, *why;

	if (l->elf.machine == l->self.machine && class == l->self.ident[EI_CLASS] &&
	    l->elf.ident[EI_DATA] == l->self.ident[EI_DATA])
		return NULL;
	name = machine_name(&l->elf);
	why = tool_format("is for another machine (%s, %s bits)", name,
			  class == ELFCLASS32	? "32"
			  : class == ELFCLASS64 ? "64"
						: "unknown");
	free(name);
	return why;
}

/* The loader itself, as a command, has no loader and preloads into what it is told to run. */
static bool is_loader(const struct look *l)
{
	struct stat st;

	return l->self_loader && !stat(l->self_loader, &st) && st.st_dev == l->st.st_dev &&
	       st.st_ino == l->st.st_ino;
}

static char *no_loader(const struct look *l)
{
	/* without segments, or as an object file, it cannot be executed either */
	if (l->loader || !l->elf.nsegments || l->elf.header.e_type == ET_REL || is_loader(l))
		return NULL;
	return tool_copy("is linked statically");
}

static char *other_loader(const struct look *l)
{
	if (!l->loader || !*l->loader || !l->self_loader ||
	    !strcmp(basename(l->loader), basename(l->self_loader)))
		return NULL;
	return tool_format("uses another C library (its loader is %s)", l->loader);
}

static char *user_name(uid_t uid)
{
	const struct passwd *p = getpwuid(uid);

	return p ? tool_copy(p->pw_name) : tool_format("%u", uid);
}

static char *group_name(gid_t gid)
{
	const struct group *g = getgrgid(gid);

	return g ? tool_copy(g->gr_name) : tool_format("%u", gid);
}

static char *with_rights(const char *of, char *name, const char *by)
{
	char *why = tool_format("gets the rights of %s %s (%s), so the loader preloads nothing", of,
				name, by);

	free(name);
	return why;
}

/* Neither counts where the kernel was told that nobody gets more rights; and a group's only where it may execute. */
static char *other_rights(const struct look *l)
{
	bool obeyed = !l->nosuid && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
	uid_t uid = obeyed && l->st.st_mode & S_ISUID ? l->st.st_uid : geteuid();
	gid_t gid = obeyed && (l->st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP)
			    ? l->st.st_gid
			    : getegid();

	if (uid != getuid())
		return with_rights("user", user_name(uid), "set-user-ID");
	if (gid != getgid())
		return with_rights("group", group_name(gid), "set-group-ID");
	return NULL;
}

/* Whoever is root has them anyway. */
static char *capabilities(const struct look *l)
{
	struct vfs_ns_cap_data data = { 0 };
	uint32_t gained;

	if (!getuid() || l->nosuid ||
	    fgetxattr(l->fd, "security.capability", &data, sizeof(data)) < 0)
		return NULL;
	gained = data.data[0].permitted | data.data[1].permitted |
		 (le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE);
	return gained ? tool_copy("gets capabilities, so the loader preloads nothing") : NULL;
}

static bool is_sanitizer(const char *library)
{
	static const char *const kinds[] = { "asan", "hwasan", "lsan", "msan", "tsan" };
	static const char *const prefixes[] = { "lib", "libclang_rt." };

	for (unsigned p = 0; p < TOOL_COUNT(prefixes); p++) {
		size_t n = strlen(prefixes[p]);

		for (unsigned k = 0; k < TOOL_COUNT(kinds) && !strncmp(library, prefixes[p], n);
		     k++) {
			size_t m = strlen(kinds[k]);

			/* libasan.so.8, libclang_rt.asan-x86_64.so */
			if (!strncmp(library + n, kinds[k], m) && strchr(".-", library[n + m]))
				return true;
		}
	}
	return false;
}

static char *sanitizer(const struct look *l)
{
	char *library = elf_needed(&l->elf, is_sanitizer), *why;

	if (!library)
		return NULL;
	why = tool_format("is linked with a sanitizer, whose malloc must come first (%s)", library);
	free(library);
	return why;
}

/* Those that the others rely on come first. */
static char *(*const reasons[])(const struct look *l) = {
	other_machine, no_loader, other_loader, other_rights, capabilities, sanitizer,
};

static char *reason(const struct look *l)
{
	char *why = NULL;

	for (unsigned i = 0; i < TOOL_COUNT(reasons) && !why; i++)
		why = reasons[i](l);
	return why;
}

/* ---- looking at it -------------------------------------------------------------------------------- */

/* What interprets a script, for the caller to free; NULL when it is none. */
static char *script_interpreter(int fd)
{
	char head[SCRIPT_HEAD + 1] = "", *start;
	ssize_t n = pread(fd, head, SCRIPT_HEAD, 0);

	if (n < 2 || strncmp(head, "#!", 2))
		return NULL;
	start = head + 2 + strspn(head + 2, " \t");
	start[strcspn(start, " \t\n")] = '\0';
	return *start ? tool_copy(start) : NULL;
}

static int open_to_look(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/*
 * Opens what is executed in the end: of a script that is what interprets it. @path is its name, and is replaced.
 * Returns -1 when it cannot be opened, or there is no end.
 */
static int open_program(char **path)
{
	for (unsigned depth = 0; depth <= SCRIPTS; depth++) {
		int fd = open_to_look(*path);
		char *next = fd >= 0 ? script_interpreter(fd) : NULL;

		if (!next)
			return fd;
		close(fd);
		free(*path);
		*path = next;
	}
	return -1;
}

static void look_begin(struct look *l, int fd)
{
	struct statvfs fs;

	*l = (struct look){ .fd = fd };
	l->nosuid = !fstatvfs(fd, &fs) && fs.f_flag & ST_NOSUID;
	elf_open(&l->self, open_to_look("/proc/self/exe"));
	l->self_loader = elf_interpreter(&l->self);
}

static void look_end(struct look *l)
{
	free(l->loader);
	free(l->self_loader);
	elf_close(&l->elf);
	elf_close(&l->self);
	close(l->self.fd);
	close(l->fd);
}

/* Returns why not, for the caller to free, or NULL. */
static char *look_at(struct look *l, bool *own_malloc)
{
	if (fstat(l->fd, &l->st) || !elf_open(&l->elf, l->fd))
		return NULL;
	l->loader = elf_interpreter(&l->elf);
	*own_malloc = elf_defines(&l->elf, "malloc");
	return reason(l);
}

bool program_takes_malloc(const char *file)
{
	char *path = tool_copy(file), *why = NULL;
	bool own_malloc = false;
	struct look look;
	int fd = open_program(&path);

	if (fd >= 0) {
		look_begin(&look, fd);
		why = look_at(&look, &own_malloc);
		look_end(&look);
	}
	if (why)
		tool_error("no malloc can be preloaded: %s %s; --no-malloc runs it without", path,
			   why);
	else if (own_malloc)
		tool_error("%s has a malloc of its own, which goes before a preloaded one", path);
	free(path);
	free(why);
	return !why;
}
