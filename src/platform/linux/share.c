/* SPDX-License-Identifier: MIT */
/*
 * Memory that other programs may look at.
 *
 * It is a memfd: a file without a name, to be reached through /proc/PID/fd and /proc/PID/maps only. The kernel
 * then decides who may read it as it decides who may trace the process: the same user, or root. There is no
 * directory in which somebody could plant a file or a link first, nothing to clean up after a process that
 * was killed, and no mount that a container would have to share with its host. Its size is sealed, so that a
 * reader cannot be made to fault.
 *
 * The descriptor is moved above those that programs count on, and closed on exec.
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

#define SEALS	 (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define HIGH_FD	 500
#define LEAST_FD 20

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
	close(fd);
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
	    fcntl(fd, F_ADD_SEALS, SEALS))
		error = -errno;
	if (error) {
		close(fd);
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
	if (error)
		close(s->fd);
	return error;
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
	    (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
		return -EINVAL;
	error = map_share(s, NULL);
	if (error)
		return error;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

void plat_share_drop(struct plat_share *s)
{
	PRESERVE_ERRNO;

	munmap(s->memory, s->size);
	s->memory = NULL;
}

int plat_share_renew(struct plat_share *s)
{
	PRESERVE_ERRNO;
	uint64_t dev = s->dev, ino = s->ino;
	int old = s->fd, error = 0;
	struct stat st;

	s->fd = create(s->name, s->size);
	if (s->fd < 0 || map_share(s, s->memory)) {
		error = s->fd < 0 ? s->fd : -ENOMEM;
		/* Away from the parent's memory at least. */
		if (mmap(s->memory, s->size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			plat_fatal("cannot leave the parent's exported statistics: error %d",
				   errno);
	}
	if (!error)
		error = identify(s, &st);
	/* The parent's, unless the program has closed it, and perhaps opened something else there. */
	if (!fstat(old, &st) && st.st_dev == dev && st.st_ino == ino)
		close(old);
	return error;
}
