/* SPDX-License-Identifier: MIT */
/*
 * Two snapshots of a cache as a report.
 */
#ifndef TOOLS_SNAPSHOT_ROWS_H
#define TOOLS_SNAPSHOT_ROWS_H

#include "report.h"
#include "snapshot.h"

/*
 * snapshot_rows - a row for each value that one of the two has, and what is derived from both
 *
 * The report has two columns, before and after, and is freed by report_free().
 */
struct report snapshot_rows(const struct snapshot_cache *before,
			    const struct snapshot_cache *after);

#endif /* TOOLS_SNAPSHOT_ROWS_H */
