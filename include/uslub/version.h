/* SPDX-License-Identifier: MIT */
#ifndef USLUB_VERSION_H
#define USLUB_VERSION_H

/* The version of the headers; uslub_version() gives that of the library that was loaded. */
#define USLUB_VERSION_MAJOR  0
#define USLUB_VERSION_MINOR  1
#define USLUB_VERSION_PATCH  0
#define USLUB_VERSION_STRING "0.1.0"

#endif /* USLUB_VERSION_H */
