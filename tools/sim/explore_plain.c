/* SPDX-License-Identifier: MIT */
/* This is the explorer without planted bugs in its core. */
#include "explore.h"

const bool ex_can_plant = false;
