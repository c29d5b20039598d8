/* SPDX-License-Identifier: MIT */
/* A library without malloc, which must not pass for an allocator. */
int nothing;
