/* SPDX-License-Identifier: MIT */
/* A system on which only a few threads can be made. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
		   void *arg)
{
	static int made;
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *) = dlsym(RTLD_NEXT, "pthread_create");

	return __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) < 5
		       ? real(thread, attributes, main, arg)
		       : EAGAIN;
}
