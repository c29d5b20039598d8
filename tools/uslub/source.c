/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "numbers.h"
#include "source.h"
#include "tool.h"

enum {
	KEY_KERNEL = 0x2000,
	KEY_SYSFS,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Where the figures come from:", 1 },
	{ "pid", 'p', "P", 0, "A running process that exports its statistics", 0 },
	{ "kernel", KEY_KERNEL, NULL, 0, "The kernel: /sys/kernel/slab, or /proc/slabinfo", 0 },
	{ "sysfs", KEY_SYSFS, "DIR", 0, "The kernel, by a copy of /sys/kernel/slab in DIR", 0 },
	{ 0 },
};

void source_arg_pid(struct argp_state *state, const char *arg, int *pid)
{
	uint64_t number;

	if (numbers_parse(arg, 0, &number) || !number || number > INT_MAX)
		argp_error(state, "--pid takes the number of a process, not '%s'", arg);
	else
		*pid = (int)number;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct source *source = state->input;

	switch (key) {
	case 'p':
		source_arg_pid(state, arg, &source->pid);
		break;
	case KEY_SYSFS:
		source->sysfs = arg;
		source->kernel = true;
		break;
	case KEY_KERNEL:
		source->kernel = true;
		break;
	case ARGP_KEY_END:
		if (source->pid && source->kernel)
			argp_error(state, "--pid and --kernel exclude each other");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp source_argp = { .options = options, .parser = parse_option };

bool source_given(const struct source *source)
{
	return source->pid || source->kernel || source->path;
}

struct snapshot *source_read_path(const char *path)
{
	struct stat st;

	if (snapshot_is_slabinfo(path) || (!stat(path, &st) && S_ISDIR(st.st_mode)))
		return snapshot_kernel(path);
	return snapshot_read(path);
}

struct snapshot *source_read(const struct source *source)
{
	if (source->path)
		return source_read_path(source->path);
	if (source->kernel)
		return snapshot_kernel(source->sysfs);
	return snapshot_process(source->pid);
}

char *source_name(const struct source *source, const struct snapshot *snapshot)
{
	const struct snapshot_fact *command = snapshot_fact(snapshot, "command");
	const struct snapshot_fact *release = snapshot_fact(snapshot, "release");
	const struct snapshot_fact *pid = snapshot_fact(snapshot, "pid");

	if (source->path)
		return tool_copy(source->path);
	if (source->sysfs)
		return tool_format("the kernel of %s", source->sysfs);
	if (source->kernel)
		return tool_format("the kernel%s%s", release ? " " : "",
				   release && release->text ? release->text : "");
	return tool_format("process %.0f%s%s%s", pid ? pid->number : source->pid,
			   command ? " (" : "", command && command->text ? command->text : "",
			   command ? ")" : "");
}
