/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include "platform/rank.h"
#include "platform/sim/sim.h"
#include "names.h"

const char *sim_lock_name(unsigned rank)
{
	static const char *const names[SIM_RANKS] = {
		[RANK_REGISTRY] = "registry",	   [RANK_CLOSE] = "remote close",
		[RANK_GRACE] = "grace period",	   [RANK_RECLAIM] = "reclaimed batch",
		[RANK_RESERVE] = "deferred frees", [RANK_BARN] = "barn lock",
		[RANK_LIST] = "list_lock",	   [RANK_SUPPLY] = "page supply",
		[RANK_ARENA] = "metadata",
	};

	return rank < SIM_RANKS ? names[rank] : NULL;
}

const char *sim_time_name(unsigned part)
{
	static const char *const names[SIM_TIMES] = {
		[SIM_TIME_WORK] = "the program's own work",
		[SIM_TIME_SEQUENCE] = "fast paths",
		[SIM_TIME_LOCK] = "waiting for locks",
		[SIM_TIME_LINE] = "waiting for lines",
		[SIM_TIME_OTHER] = "the rest of the allocator",
	};

	return names[part];
}
