/* SPDX-License-Identifier: MIT */
/* This is the explorer with planted bugs in its core. */
#include "explore.h"

const bool ex_can_plant = true;
