/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <uslub/stats.h>
#include "base/base.h"

static const struct stat_row {
	const char *name;
	const char *help;
	enum uslub_stat_kind kind;
} rows[USLUB_STAT_COUNT] = {
#define USLUB_STAT(name, kind, help) { #name, help, USLUB_STAT_KIND_##kind },
#include <uslub/stats.def>
#undef USLUB_STAT
};

static const struct stat_row *row(enum uslub_stat which)
{
	return (unsigned)which < USLUB_STAT_COUNT ? &rows[which] : NULL;
}

const char *uslub_stat_name(enum uslub_stat which)
{
	return row(which) ? row(which)->name : NULL;
}

const char *uslub_stat_help(enum uslub_stat which)
{
	return row(which) ? row(which)->help : NULL;
}

int uslub_stat_kind(enum uslub_stat which)
{
	return row(which) ? (int)row(which)->kind : -EINVAL;
}

int uslub_stat_find(const char *name)
{
	if (name)
		for (int i = 0; i < USLUB_STAT_COUNT; i++)
			if (!strcmp(rows[i].name, name))
				return i;
	return -EINVAL;
}
