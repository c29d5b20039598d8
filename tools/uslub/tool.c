/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "tool.h"

const char *tool_name = "uslub";
void (*tool_leave_screen)(void);

static _Thread_local char **diverted;

void tool_divert(char **message)
{
	diverted = message;
	if (message)
		*message = NULL;
}

void tool_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!diverted) {
		fprintf(stderr, "%s: ", tool_name);
		vfprintf(stderr, format, args);
		fputc('\n', stderr);
	} else if (!*diverted && vasprintf(diverted, format, args) < 0) {
		*diverted = NULL;
	}
	va_end(args);
}

static void out_of_memory(void)
{
	tool_divert(NULL);
	tool_error("out of memory");
	exit(TOOL_EXIT_USAGE);
}

void *tool_alloc(size_t n, size_t size)
{
	/* One byte at least, since calloc may answer NULL to a request for nothing. */
	void *memory = calloc(n ? n : 1, size ? size : 1);

	if (!memory)
		out_of_memory();
	return memory;
}

void *tool_grow(void *array, size_t n, size_t size)
{
	array = reallocarray(array, n, size);
	if (!array)
		out_of_memory();
	return array;
}

char *tool_format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	return text;
}

char *tool_copy(const char *text)
{
	return tool_format("%s", text);
}

uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double tool_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

unsigned tool_width(FILE *file)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = columns ? atoi(columns) : 0;

	if (width > 0)
		return (unsigned)width;
	if (isatty(fileno(file)) && !ioctl(fileno(file), TIOCGWINSZ, &size))
		return size.ws_col;
	return 0;
}

bool tool_terminal(FILE *file)
{
	const char *terminal = getenv("TERM");

	return isatty(fileno(file)) && terminal && strcmp(terminal, "dumb");
}

bool tool_colour(FILE *file)
{
	const char *no_colour = getenv("NO_COLOR");

	return !(no_colour && *no_colour) && tool_terminal(file);
}

int tool_print_out(const char *text, size_t size)
{
	errno = 0;
	if (fwrite(text, 1, size, stdout) == size && !fflush(stdout))
		return 0;
	if (errno == EPIPE)
		return 0;
	tool_error("cannot write to standard output: %s", strerror(errno));
	return -1;
}

static int write_all(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t n = write(fd, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Opens what is written to first: a new file beside the real one, or what is there and is no file. */
static int open_output(const char *path, char **temporary)
{
	struct stat st;
	mode_t mask;
	int fd;

	*temporary = NULL;
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return open(path, O_WRONLY | O_CLOEXEC);
	*temporary = tool_format("%s.XXXXXX", path);
	fd = mkostemp(*temporary, O_CLOEXEC);
	if (fd < 0)
		return fd;
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	return fd;
}

int tool_write_file(const char *path, const char *text, size_t size)
{
	char *temporary;
	int fd = open_output(path, &temporary), error = -1;

	if (fd >= 0)
		error = write_all(fd, text, size);
	if (fd >= 0 && close(fd))
		error = -1;
	if (!error && temporary)
		error = rename(temporary, path);
	if (error) {
		tool_error("cannot write %s: %s", path, strerror(errno));
		if (fd >= 0 && temporary)
			unlink(temporary);
	}
	free(temporary);
	return error;
}

/* What @name is called from the root, where it is in this program's directory or @near that; or NULL. */
static char *beside(const char *near, const char *name)
{
	char self[PATH_MAX], *path, *found;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));

	while (n > 0 && self[n - 1] != '/')
		n--;
	if (n <= 0)
		return NULL;
	path = tool_format("%.*s%s/%s", (int)n, self, near, name);
	found = realpath(path, NULL);
	free(path);
	return found;
}

char *tool_installed(const char *near, const char *directory, const char *name, int mode)
{
	char *path = beside(near, name);

	if (path && !access(path, mode))
		return path;
	free(path);
	path = tool_format("%s/%s", directory, name);
	if (!access(path, mode))
		return path;
	free(path);
	tool_error("%s is missing: it is neither in %s, where it is installed, nor beside uslub, "
		   "where it is built",
		   name, directory);
	return NULL;
}

void tool_text_begin(struct tool_text *text)
{
	*text = (struct tool_text){ 0 };
	text->out = open_memstream(&text->text, &text->size);
	if (!text->out)
		out_of_memory();
}

char *tool_text_end(struct tool_text *text)
{
	if (fclose(text->out))
		out_of_memory();
	return text->text;
}

int tool_text_show(struct tool_text *text, const char *path)
{
	char *all = tool_text_end(text);
	int error = path ? tool_write_file(path, all, text->size) : tool_print_out(all, text->size);

	free(all);
	return error ? TOOL_EXIT_USAGE : 0;
}

bool tool_text_help(struct tool_text *text, int key)
{
	if (key != ARGP_KEY_HELP_POST_DOC)
		return false;
	tool_text_begin(text);
	return true;
}
