/* SPDX-License-Identifier: MIT */
/* How names are exported. */
#ifndef USLUB_PRELOAD_PRELOAD_H
#define USLUB_PRELOAD_PRELOAD_H

#define exported __attribute__((visibility("default")))

/* The same function by another name; gcc wants it to have the same attributes, clang knows no way to say so. */
#if __has_attribute(copy)
#define same_as(target) __attribute__((alias(#target), copy(target)))
#else
#define same_as(target) __attribute__((alias(#target)))
#endif

#endif /* USLUB_PRELOAD_PRELOAD_H */
