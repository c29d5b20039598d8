/* SPDX-License-Identifier: MIT */
/*
 * Memory that other programs may look at.
 *
 * It is a memfd: a file without a name, to be reached through /proc/PID/fd and /proc/PID/maps only. The kernel
 * then decides who may read it as it decides who may look at the process: the same user, or root. There is no
 * directory in which somebody could plant a file or a link first, nothing to clean up after a process that
 * was killed, and no mount that a container would have to share with its host. Its size is sealed, so that a
 * reader cannot be made to fault, and nobody else can map it to write to it.
 *
 * The descriptor is moved above those that programs count on, and closed on exec. One that was handed to the
 * process for this is left as it is: whoever made it wants to see what becomes of it.
 *
 * A child that was made without fork handlers has its parent's memory mapped as well. A page that the kernel
 * wipes in children tells them apart; before Linux 4.14 the process's number has to do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/platform.h"
#include "machine.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define HIGH_FD	   500
#define LEAST_FD   20

/* Not close(), which is a cancellation point. */
static void close_fd(int fd)
{
	syscall(SYS_close, fd);
}

static int memfd(const char *name)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = (int)syscall(SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL);

	/* Before Linux 6.3 there is no such flag; after it some systems insist on it. */
	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_memfd_create, name, flags);
	return fd < 0 ? -errno : fd;
}

/* The same descriptor with a number where programs do not expect one. */
static int move_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (high < 0)
		high = fcntl(fd, F_DUPFD_CLOEXEC, LEAST_FD);
	if (high < 0)
		return fd;
	close_fd(fd);
	return high;
}

/* Growing a file past the limit would kill the process by a signal. */
static bool within_limit(size_t size)
{
	struct rlimit limit;

	return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) || limit.rlim_cur >= size;
}

static int create(const char *name, size_t size)
{
	int fd = -EFBIG, error = 0;

	if (within_limit(size))
		fd = memfd(name);
	if (fd < 0)
		return fd;
	if (syscall(SYS_ftruncate, fd, size) || syscall(SYS_fchmod, fd, 0600) ||
	    fcntl(fd, F_ADD_SEALS, SIZE_SEALS))
		error = -errno;
	if (error) {
		close_fd(fd);
		return error;
	}
	return move_up(fd);
}

static int identify(struct plat_share *s, struct stat *st)
{
	if (fstat(s->fd, st))
		return -errno;
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	return 0;
}

static int map_share(struct plat_share *s, void *where)
{
	void *p = mmap(where, s->size, PROT_READ | PROT_WRITE, MAP_SHARED | (where ? MAP_FIXED : 0),
		       s->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	s->memory = p;
	return 0;
}

/* ---- whose it is ---------------------------------------------------------------------------------- */

static void mark(struct plat_share *s)
{
	size_t page = plat_page_size();

	s->pid = plat_pid();
	if (!s->mine) {
		s->mine = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		if (s->mine != MAP_FAILED && madvise(s->mine, page, MADV_WIPEONFORK)) {
			munmap(s->mine, page);
			s->mine = MAP_FAILED;
		}
	}
	if (s->mine != MAP_FAILED)
		plat_store(s->mine, 1);
}

bool plat_share_ours(const struct plat_share *s)
{
	if (!s->memory || !s->mine)
		return false;
	return s->mine != MAP_FAILED ? plat_load(s->mine) : s->pid == plat_pid();
}

/* ---- getting it ----------------------------------------------------------------------------------- */

int plat_share_open(struct plat_share *s, const char *name, size_t size)
{
	PRESERVE_ERRNO;
	struct stat st;
	int error;

	s->size = size;
	s->name = name;
	s->fd = create(name, size);
	if (s->fd < 0)
		return s->fd;
	error = identify(s, &st);
	if (!error)
		error = map_share(s, NULL);
	if (error) {
		close_fd(s->fd);
		return error;
	}
	/* Kernels before 5.1 do not have this one; then the same user could write there. */
	fcntl(s->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	fcntl(s->fd, F_ADD_SEALS, F_SEAL_SEAL);
	mark(s);
	return 0;
}

/* A file that is no memfd answers with an error, in which all bits are set. */
static bool sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SIZE_SEALS) == SIZE_SEALS;
}

int plat_share_adopt(struct plat_share *s, const char *name, size_t size, int fd)
{
	PRESERVE_ERRNO;
	struct stat st;
	int error;

	s->size = size;
	s->name = name;
	s->fd = fd;
	error = identify(s, &st);
	if (error)
		return error;
	/* Only what can have been made for this: a sealed memfd of the right size, of the same user. */
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size != size || st.st_uid != geteuid() ||
	    !sealed(fd))
		return -EINVAL;
	error = map_share(s, NULL);
	if (!error)
		mark(s);
	return error;
}

void plat_share_drop(struct plat_share *s)
{
	PRESERVE_ERRNO;

	munmap(s->memory, s->size);
	s->memory = NULL;
}

/* Away from the parent's memory at least. */
static void leave(struct plat_share *s)
{
	if (mmap(s->memory, s->size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		plat_fatal("cannot leave the parent's exported statistics: error %d", errno);
}

int plat_share_renew(struct plat_share *s)
{
	PRESERVE_ERRNO;
	uint64_t dev = s->dev, ino = s->ino;
	int old = s->fd, error = 0;
	struct stat st;

	s->fd = create(s->name, s->size);
	if (s->fd < 0)
		error = s->fd;
	else if (map_share(s, s->memory)) {
		close_fd(s->fd);
		error = -ENOMEM;
	} else
		error = identify(s, &st);
	if (error)
		leave(s);
	/* The parent's, unless the program has closed it, and perhaps opened something else there. */
	if (!fstat(old, &st) && st.st_dev == dev && st.st_ino == ino)
		close_fd(old);
	if (error)
		return error;
	fcntl(s->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	fcntl(s->fd, F_ADD_SEALS, F_SEAL_SEAL);
	mark(s);
	return 0;
}
