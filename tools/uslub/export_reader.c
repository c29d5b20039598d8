/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>
#include "base/sheaf.h"
#include "export_reader.h"
#include "text.h"
#include "tool.h"

/* Bounds on what is believed. */
#define STATS_MOST     512u
#define LATENCIES_MOST 64u
#define WORDS_MOST     256u
#define NODES_MOST     64u
#define SLOTS_MOST     4160u
#define ELEMENTS_MOST  16384u
#define STRIDE_MOST    (64u << 10)
#define ARRAYS_MOST    ((size_t)64 << 20) /* bytes of a cache's arrays together */
#define TRIES	       100u
#define LINE	       64u
#define PATIENCE_S     20

#define MFD_NAME "/memfd:" EXPORT_NAME

/* ---- a reading must end --------------------------------------------------------------------------- */

/*
 * A page of the process may be served by itself (userfaultfd, FUSE) and so never come; the kernel lets only a
 * fatal signal end such a wait. And sizes that are allowed each by itself can add up to work for hours. So
 * another thread ends the program when a reading takes too long, from its beginning to its end.
 */
static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	unsigned reading; /* nested */
	uint64_t begun;
	int pid;
} patience = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static void *watch(void *unused)
{
	(void)unused;
	for (;;) {
		struct timespec second = { .tv_sec = 1 };
		bool late;

		nanosleep(&second, NULL);
		pthread_mutex_lock(&patience.lock);
		late = patience.reading &&
		       tool_now_ns() - patience.begun > PATIENCE_S * 1000000000ull;
		pthread_mutex_unlock(&patience.lock);
		if (!late)
			continue;
		if (tool_leave_screen)
			tool_leave_screen();
		tool_error("process %d does not let itself be read within %d s", patience.pid,
			   PATIENCE_S);
		_exit(TOOL_EXIT_USAGE);
	}
	return NULL;
}

static void start_watching(void)
{
	sigset_t all, before;
	pthread_t thread;

	/* Signals are for those who wait for them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, watch, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void begin_reading(int pid)
{
	pthread_once(&patience.once, start_watching);
	pthread_mutex_lock(&patience.lock);
	if (!patience.reading++)
		patience.begun = tool_now_ns();
	patience.pid = pid;
	pthread_mutex_unlock(&patience.lock);
}

static void end_reading(void)
{
	pthread_mutex_lock(&patience.lock);
	patience.reading--;
	pthread_mutex_unlock(&patience.lock);
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void charge(struct export_reader *r, uint64_t address, size_t size)
{
	r->bytes += size;
	if (size)
		r->lines += (address + size - 1) / LINE - address / LINE + 1;
}

bool export_memory(struct export_reader *r, uint64_t address, void *to, size_t size)
{
	struct iovec local = { to, size }, remote = { (void *)(uintptr_t)address, size };
	ssize_t n;

	if (!r->pid || r->memory_errno || address + size < address)
		return false;
	if (!size)
		return true;
	n = process_vm_readv(r->tid, &local, 1, &remote, 1, 0);
	r->calls++;
	charge(r, address, size);
	if (n < 0 && (errno == EPERM || errno == ENOSYS || errno == ESRCH))
		r->memory_errno = errno;
	return n == (ssize_t)size;
}

/* How many whole pieces so many bytes are. */
static unsigned whole_pieces(const struct iovec *pieces, unsigned n, size_t bytes)
{
	unsigned i = 0;

	while (i < n && bytes >= pieces[i].iov_len)
		bytes -= pieces[i++].iov_len;
	return i;
}

void export_memory_v(struct export_reader *r, const struct iovec *local, const struct iovec *remote,
		     unsigned n)
{
	while (n && r->pid && !r->memory_errno) {
		unsigned batch = n < IOV_MAX ? n : IOV_MAX, done;
		ssize_t got;

		got = process_vm_readv(r->tid, local, batch, remote, batch, 0);
		r->calls++;
		if (got < 0 && errno != EFAULT) {
			r->memory_errno = errno;
			return;
		}
		done = got < 0 ? 0 : whole_pieces(local, batch, (size_t)got);
		for (unsigned i = 0; i < done; i++)
			charge(r, (uintptr_t)remote[i].iov_base, remote[i].iov_len);
		if (done < batch) {
			/* That one is not there, though its beginning may be. */
			memset(local[done].iov_base, 0, local[done].iov_len);
			done++;
		}
		local += done;
		remote += done;
		n -= done;
	}
}

bool export_shared(struct export_reader *r, uint64_t offset, void *to, size_t size)
{
	ssize_t n;

	if (offset > EXPORT_SIZE || EXPORT_SIZE - offset < size)
		return false;
	if (r->fd < 0)
		return export_memory(r, r->address + offset, to, size);
	do
		n = pread(r->fd, to, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	r->calls++;
	charge(r, offset, size);
	return n == (ssize_t)size;
}

/* ---- finding a process ---------------------------------------------------------------------------- */

/* Where a process has mapped its export; false: nowhere. */
static bool find_mapping(FILE *maps, uint64_t *address, uint64_t *inode, bool *library)
{
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	*library = false;
	while (!found && getline(&line, &size, maps) > 0) {
		uint64_t from, offset, ino;
		int at = 0;

		if (sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64 " %*s %" SCNu64 " %n", &from,
			   &offset, &ino, &at) != 3 ||
		    !at)
			continue;
		*library |= strstr(line + at, "libuslub") != NULL;
		if (offset || strncmp(line + at, MFD_NAME " ", strlen(MFD_NAME) + 1))
			continue;
		*address = from;
		*inode = ino;
		found = true;
	}
	free(line);
	return found;
}

/* The file behind one of a process's descriptors, if it is the export with that inode; -1: it is not. */
static int open_export(int directory, const char *name, uint64_t inode)
{
	char link[PATH_MAX], again[64];
	ssize_t n = readlinkat(directory, name, link, sizeof(link) - 1);
	struct statfs fs;
	struct stat st;
	int path, fd = -1;

	if (n < 0)
		return -1;
	link[n] = 0;
	if (strncmp(link, MFD_NAME, strlen(MFD_NAME)))
		return -1;
	/* What it is now, perhaps something else than it was: looked at before it is opened for reading. */
	path = openat(directory, name, O_PATH | O_CLOEXEC);
	if (path < 0)
		return -1;
	if (!fstat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == inode && !fstatfs(path, &fs) &&
	    fs.f_type == TMPFS_MAGIC) {
		snprintf(again, sizeof(again), "/proc/self/fd/%d", path);
		fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	close(path);
	return fd;
}

/* -1: the process has closed it, or it cannot be had; its mapping will do. */
static int find_descriptor(int pid, uint64_t inode)
{
	char name[32];
	struct dirent *e;
	int fd = -1;
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/fd", pid);
	dir = opendir(name);
	if (!dir)
		return -1;
	while (fd < 0 && (e = readdir(dir)))
		fd = open_export(dirfd(dir), e->d_name, inode);
	closedir(dir);
	return fd;
}

static FILE *open_maps(int pid)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	return fopen(name, "re");
}

/* Says why a process cannot be read. */
static void explain(int pid, int error, bool library)
{
	if (error == ENOENT || error == ESRCH)
		tool_error("there is no process %d", pid);
	else if (error == EACCES || error == EPERM)
		tool_error("process %d must not be looked at: it is another user's, or protected%s",
			   pid, geteuid() ? "; root may" : "");
	else if (error)
		tool_error("process %d cannot be read: %s", pid, strerror(error));
	else if (library)
		tool_error("process %d uses uslub but does not export its statistics: start it "
			   "with USLUB_EXPORT=1, or by `uslub run'",
			   pid);
	else
		tool_error("process %d does not export statistics of uslub: it does not use "
			   "uslub, or was started without USLUB_EXPORT=1",
			   pid);
}

/* Finds the export of a process by one of its threads; 0, or an error, or -1: there is none. */
static int attach_thread(struct export_reader *r, int tid, bool *library)
{
	FILE *maps = open_maps(tid);
	bool found;

	if (!maps)
		return errno;
	errno = 0;
	found = find_mapping(maps, &r->address, &r->inode, library);
	if (!found && errno) {
		int error = errno;

		fclose(maps);
		return error;
	}
	fclose(maps);
	r->tid = tid;
	return found ? 0 : -1;
}

/* The first thread may have ended, and has no memory then. */
static int attach_other_thread(struct export_reader *r, bool *library)
{
	char name[32];
	struct dirent *e;
	int result = -1;
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/task", r->pid);
	dir = opendir(name);
	while (dir && result && (e = readdir(dir))) {
		if (isdigit((unsigned char)*e->d_name) && atoi(e->d_name) != r->pid)
			result = attach_thread(r, atoi(e->d_name), library);
	}
	if (dir)
		closedir(dir);
	return result;
}

static bool attach(struct export_reader *r, int pid, bool quiet)
{
	bool library = false;
	int error;

	*r = (struct export_reader){ .pid = pid, .fd = -1 };
	error = attach_thread(r, pid, &library);
	if (error == -1 && !library)
		error = attach_other_thread(r, &library);
	if (error) {
		if (!quiet)
			explain(pid, error == -1 ? 0 : error, library);
		return false;
	}
	r->fd = find_descriptor(r->tid, r->inode);
	return true;
}

bool export_same(struct export_reader *r)
{
	struct export_reader again = { .pid = r->pid };
	bool library;

	return !r->pid || (!attach_thread(&again, r->tid, &library) && again.inode == r->inode &&
			   again.address == r->address);
}

/* ---- the header ----------------------------------------------------------------------------------- */

/* The process's own number for itself: it may live in a namespace of its own. */
static unsigned own_pid(int pid)
{
	char name[32], *line = NULL;
	unsigned own = (unsigned)pid;
	size_t size = 0;
	FILE *status;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	status = fopen(name, "re");
	while (status && getline(&line, &size, status) > 0) {
		const char *last = strrchr(line, '\t');

		if (!strncmp(line, "NSpid:", 6) && last)
			own = (unsigned)atoi(last);
	}
	if (status)
		fclose(status);
	free(line);
	return own;
}

/* NULL, or what is wrong with the header. */
static const char *check_header(const struct export_header *h)
{
	uint64_t tables = (uint64_t)(h->stats + (uint64_t)h->figures) * h->stat_bytes;
	uint64_t directory = (uint64_t)h->caches * h->cache_bytes;

	if (h->magic != EXPORT_MAGIC)
		return "it is something else";
	if (h->version > EXPORT_VERSION)
		return "the library in it is newer than this program";
	if (h->bytes != sizeof(*h) || h->arrays != RECIPE_ARRAYS || h->terms != RECIPE_TERMS)
		return "the library in it is of another version than this program";
	if (h->stats > STATS_MOST || h->figures > STATS_MOST ||
	    h->stat_bytes < sizeof(struct export_stat))
		return "the list of statistics makes no sense";
	if (h->stats_offset > EXPORT_SIZE || tables > EXPORT_SIZE - h->stats_offset ||
	    h->figures_offset != h->stats_offset + h->stats * h->stat_bytes)
		return "the list of statistics lies outside";
	if (h->latencies > LATENCIES_MOST || h->latency_words > WORDS_MOST ||
	    h->latencies_offset > EXPORT_SIZE ||
	    h->latencies * sizeof(struct export_latency) > EXPORT_SIZE - h->latencies_offset)
		return "the list of slow paths makes no sense";
	if (h->cache_bytes < sizeof(struct export_cache) || h->caches_offset > EXPORT_SIZE ||
	    directory > EXPORT_SIZE - h->caches_offset)
		return "the directory lies outside";
	if (h->slots > SLOTS_MOST || h->nodes > NODES_MOST || !h->nodes)
		return "the number of CPUs or nodes makes no sense";
	return NULL;
}

/* A recipe of a newer library may use what is not known here. */
static bool understood(const struct recipe *r)
{
	if (r->kind > RECIPE_AGE || r->nterms > RECIPE_TERMS)
		return false;
	for (unsigned i = 0; i < r->nterms; i++) {
		if (r->terms[i].array >= RECIPE_ARRAYS || r->terms[i].use > RECIPE_ROOM)
			return false;
	}
	return true;
}

static bool read_stats(struct export_reader *r)
{
	const struct export_header *h = &r->header;
	unsigned n = h->stats + h->figures;
	char *table = tool_alloc(n, h->stat_bytes);
	bool ok = export_shared(r, h->stats_offset, table, (size_t)n * h->stat_bytes);

	r->stats = tool_alloc(n, sizeof(*r->stats));
	for (unsigned i = 0; i < n; i++) {
		memcpy(&r->stats[i], table + (size_t)i * h->stat_bytes, sizeof(*r->stats));
		r->stats[i].name[sizeof(r->stats[i].name) - 1] = 0;
		if (!understood(&r->stats[i].recipe)) {
			r->stats[i].recipe.kind = RECIPE_NONE;
			r->stats[i].name[0] = 0;
		}
	}
	free(table);
	return ok;
}

static bool read_latencies(struct export_reader *r)
{
	unsigned n = r->header.latencies;
	bool ok;

	r->latencies = tool_alloc(n, sizeof(*r->latencies));
	ok = export_shared(r, r->header.latencies_offset, r->latencies, n * sizeof(*r->latencies));
	for (unsigned i = 0; i < n; i++)
		r->latencies[i].name[sizeof(r->latencies[i].name) - 1] = 0;
	return ok;
}

/* Reads the header, when there is a whole one. */
static bool read_header(struct export_reader *r)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < TRIES; i++) {
		if (!export_shared(r, 0, &r->header, sizeof(r->header)))
			return false;
		if (r->header.pid && r->header.state != EXPORT_MAKING)
			return true;
		/* It is just beginning, or nobody's. */
		if (!r->pid)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

static bool begin(struct export_reader *r)
{
	const char *wrong;

	if (!read_header(r)) {
		tool_error("process %d has ended, or does not let itself be read%s%s", r->pid,
			   r->memory_errno ? ": " : "",
			   r->memory_errno ? strerror(r->memory_errno) : "");
		return false;
	}
	wrong = check_header(&r->header);
	if (wrong) {
		tool_error("what process %d exports cannot be understood: %s", r->pid, wrong);
		return false;
	}
	if (r->header.pid != own_pid(r->pid)) {
		tool_error("process %d has only its parent's statistics mapped: it was made "
			   "without fork handlers",
			   r->pid);
		return false;
	}
	if (read_stats(r) && read_latencies(r))
		return true;
	tool_error("process %d has ended", r->pid);
	return false;
}

/* ---- which process -------------------------------------------------------------------------------- */

bool export_command(int pid, char *text, size_t size)
{
	char name[32];
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/comm", pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	return n > 0;
}

static char *shown_command(int pid)
{
	char command[64];

	export_command(pid, command, sizeof(command));
	return text_shown(command);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void watch_reader(struct export_reader *r)
{
	begin_reading(r->pid);
	r->watched = true;
}

/* Does the process export, and has it any caches? This program itself, run with USLUB_EXPORT=1, has none. */
static bool worth_reading(int pid)
{
	struct export_reader r;
	bool worth;

	if (!attach(&r, pid, true))
		return false;
	watch_reader(&r);
	worth = export_shared(&r, 0, &r.header, sizeof(r.header)) && r.header.caches_used;
	export_close(&r);
	return worth;
}

/* All processes that can be looked at and have something to show. */
static unsigned find_all(int **pids)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	*pids = NULL;
	while (dir && (e = readdir(dir))) {
		int pid = isdigit((unsigned char)*e->d_name) ? atoi(e->d_name) : 0;

		if (pid <= 0 || pid == getpid() || !worth_reading(pid))
			continue;
		*pids = tool_grow(*pids, n + 1, sizeof(**pids));
		(*pids)[n++] = pid;
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(*pids, n, sizeof(**pids), by_number);
	return n;
}

static int only_one(void)
{
	int *pids, pid = 0;
	unsigned n = find_all(&pids);
	char *list = tool_copy("");

	for (unsigned i = 0; i < n && i < 10; i++) {
		char *command = shown_command(pids[i]), *longer;

		longer = tool_format("%s%s%d (%s)", list, i ? ", " : "", pids[i], command);
		free(command);
		free(list);
		list = longer;
	}
	if (n == 1)
		pid = pids[0];
	else if (n)
		tool_error("which process? --pid P; those that export statistics are %s%s", list,
			   n > 10 ? ", ..." : "");
	else
		tool_error("no process exports statistics of uslub: start one with USLUB_EXPORT=1, "
			   "or by `uslub run'; --kernel is for the kernel's");
	free(list);
	free(pids);
	return pid;
}

bool export_open(struct export_reader *r, int pid)
{
	if (!pid)
		pid = only_one();
	if (!pid || !attach(r, pid, false))
		return false;
	watch_reader(r);
	if (begin(r))
		return true;
	export_close(r);
	return false;
}

bool export_open_fd(struct export_reader *r, int fd)
{
	*r = (struct export_reader){ .fd = fd };
	watch_reader(r);
	return read_header(r) && !check_header(&r->header) && read_stats(r) && read_latencies(r);
}

void export_close(struct export_reader *r)
{
	if (r->watched)
		end_reading();
	r->watched = false;
	if (r->fd >= 0)
		close(r->fd);
	free(r->stats);
	free(r->latencies);
	r->fd = -1;
	r->stats = NULL;
	r->latencies = NULL;
}

int export_create(void)
{
	int fd = memfd_create(EXPORT_NAME, MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (!ftruncate(fd, EXPORT_SIZE) && !fchmod(fd, 0600) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return fd;
	close(fd);
	return -1;
}

/* ---- the directory -------------------------------------------------------------------------------- */

unsigned export_entries(const struct export_reader *r)
{
	uint32_t used = r->header.caches_used;

	return used < r->header.caches ? used : r->header.caches;
}

/* So many bytes of an entry, as they were at one moment. */
static bool read_entry(struct export_reader *r, unsigned n, struct export_cache *entry, size_t size)
{
	uint64_t offset = r->header.caches_offset + (uint64_t)n * r->header.cache_bytes;
	uint32_t before, after;

	for (unsigned i = 0; i < TRIES; i++) {
		if (!export_shared(r, offset, &before, sizeof(before)) ||
		    !export_shared(r, offset, entry, size) ||
		    !export_shared(r, offset, &after, sizeof(after)))
			return false;
		entry->name[EXPORT_NAME_MAX - 1] = 0;
		if (before == after && !(before & 1))
			return true;
	}
	return false;
}

bool export_entry(struct export_reader *r, unsigned n, struct export_cache *entry)
{
	return read_entry(r, n, entry, offsetof(struct export_cache, copied));
}

bool export_copies(struct export_reader *r, unsigned n, struct export_cache *entry)
{
	return read_entry(r, n, entry, sizeof(*entry));
}

/* ---- a cache's words ------------------------------------------------------------------------------ */

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool peek(const struct recipe_view *view, uint64_t address, struct recipe_sheaf *sheaf)
{
	const struct export_view *v = container_of(view, struct export_view, view);
	const uint64_t *found;

	if (!v->sheaves_count)
		return false;
	found = bsearch(&address, v->addresses, v->sheaves_count, sizeof(*v->addresses),
			by_address);
	if (!found)
		return false;
	*sheaf = v->sheaves[found - v->addresses];
	return true;
}

/* The first time all recipes are asked, to learn which sheaves they want to see. */
static bool collect(const struct recipe_view *view, uint64_t address, struct recipe_sheaf *sheaf)
{
	struct export_view *v = container_of(view, struct export_view, view);

	(void)sheaf;
	if (v->sheaves_count >= ELEMENTS_MOST)
		return false;
	v->addresses = tool_grow(v->addresses, v->sheaves_count + 1, sizeof(*v->addresses));
	v->addresses[v->sheaves_count++] = address;
	return false;
}

static void read_sheaves(struct export_reader *r, struct export_view *v)
{
	unsigned n = v->sheaves_count;
	struct iovec *local = tool_alloc(n, sizeof(*local)),
		     *remote = tool_alloc(n, sizeof(*remote));
	struct uslub_sheaf *heads = tool_alloc(n, sizeof(*heads));

	if (n)
		qsort(v->addresses, n, sizeof(*v->addresses), by_address);
	for (unsigned i = 0; i < n; i++) {
		local[i] = (struct iovec){ &heads[i], sizeof(*heads) };
		remote[i] = (struct iovec){ (void *)(uintptr_t)v->addresses[i], sizeof(*heads) };
	}
	export_memory_v(r, local, remote, n);
	v->sheaves = tool_alloc(n, sizeof(*v->sheaves));
	for (unsigned i = 0; i < n; i++)
		v->sheaves[i] = (struct recipe_sheaf){ (uintptr_t)heads[i].cache, heads[i].capacity,
						       heads[i].fill };
	free(heads);
	free(remote);
	free(local);
}

static bool sensible(const struct export_elements *e, const struct export_header *h,
		     const struct export_view *v)
{
	return e->stride && e->stride <= STRIDE_MOST && !(e->stride % 8) && !(e->base % 8) &&
	       e->count <= ELEMENTS_MOST && (uint64_t)e->stride * e->count <= ARRAYS_MOST &&
	       (!e->by_slot || (v->used && e->count <= h->slots)); /* the process has no slots */
}

static bool slot_used(const struct export_view *v, unsigned slot)
{
	return v->used[slot / 64] >> slot % 64 & 1;
}

/* Of an array with an element for each slot, the elements of slots in use, runs of them in one piece. */
static void read_by_slot(struct export_reader *r, const struct export_elements *e,
			 const struct export_view *v, char *copy)
{
	struct iovec *local = NULL, *remote = NULL;
	unsigned n = 0;

	for (unsigned from = 0, to; from < e->count; from = to + 1) {
		size_t at = (size_t)from * e->stride, size;

		for (to = from; to < e->count && slot_used(v, to); to++)
			;
		size = (size_t)(to - from) * e->stride;
		if (!size)
			continue;
		local = tool_grow(local, n + 1, sizeof(*local));
		remote = tool_grow(remote, n + 1, sizeof(*remote));
		local[n] = (struct iovec){ copy + at, size };
		remote[n++] = (struct iovec){ (void *)(uintptr_t)(e->base + at), size };
	}
	export_memory_v(r, local, remote, n);
	free(remote);
	free(local);
}

static bool read_array(struct export_reader *r, const struct export_elements *e, unsigned which,
		       struct export_view *v)
{
	size_t size = (size_t)e->stride * e->count;

	if (!e->base || !e->count)
		return true;
	if (!sensible(e, &r->header, v))
		return false;
	if (size > ARRAYS_MOST - v->bytes)
		return false;
	v->bytes += size;
	v->copies[which] = tool_alloc(e->count, e->stride);
	v->view.arrays[which] = (struct recipe_elements){ v->copies[which], e->stride, e->count,
							  e->by_slot ? v->used : NULL };
	if (!e->by_slot)
		return export_memory(r, e->base, v->copies[which], size);
	read_by_slot(r, e, v, v->copies[which]);
	return !r->memory_errno;
}

/* Every array but those that other arrays' copies hold as well. */
static bool read_arrays(struct export_reader *r, const struct export_elements elements[],
			struct export_view *v)
{
	struct recipe_view *view = &v->view;

	for (unsigned i = 0; i < RECIPE_ARRAYS; i++) {
		if (i == RECIPE_FIRST_NODE || i == RECIPE_PROCESS)
			continue;
		if (!read_array(r, &elements[i], i, v))
			return false;
	}
	view->arrays[RECIPE_FIRST_NODE] = view->arrays[RECIPE_NODES];
	if (view->arrays[RECIPE_FIRST_NODE].count)
		view->arrays[RECIPE_FIRST_NODE].count = 1;
	view->process.rseq = r->header.rseq;
	view->arrays[RECIPE_PROCESS] = (struct recipe_elements){ (const char *)&view->process,
								 sizeof(view->process), 1, NULL };
	return true;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool export_view_cache(struct export_reader *r, const struct export_cache *entry,
		       struct export_view *v)
{
	size_t words = (r->header.slots + 63) / 64;

	*v = (struct export_view){ .view = { .self = entry->address, .nodes = r->header.nodes } };
	v->used = tool_alloc(words, sizeof(*v->used));
	if (!export_memory(r, entry->used, v->used, words * sizeof(*v->used)) ||
	    !read_arrays(r, entry->elements, v))
		return false;
	v->view.now = now();
	v->view.peek = collect;
	for (unsigned i = 0; i < r->header.stats; i++)
		recipe_value(&r->stats[i].recipe, &v->view);
	read_sheaves(r, v);
	v->view.peek = peek;
	return !r->memory_errno;
}

bool export_view_figures(struct export_reader *r, struct export_view *v)
{
	*v = (struct export_view){ .view = { .nodes = r->header.nodes } };
	return read_arrays(r, r->header.elements, v);
}

void export_view_free(struct export_view *v)
{
	for (unsigned i = 0; i < RECIPE_ARRAYS; i++)
		free(v->copies[i]);
	free(v->used);
	free(v->sheaves);
	free(v->addresses);
}
