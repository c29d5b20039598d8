/* SPDX-License-Identifier: MIT */
/* A snapshot from what a process exports, for those who have opened it themselves. */
#ifndef TOOLS_SNAPSHOT_PROCESS_H
#define TOOLS_SNAPSHOT_PROCESS_H

#include "export_reader.h"
#include "snapshot.h"

/* snapshot_export - all caches; never NULL, but there may be none */
struct snapshot *snapshot_export(struct export_reader *reader);

#endif /* TOOLS_SNAPSHOT_PROCESS_H */
