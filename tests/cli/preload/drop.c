/* SPDX-License-Identifier: MIT */
/* A socket that loses one message: "hackbench" must notice, also when it is the last. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
	static int sent;
	const char *which = getenv("DROP");
	ssize_t (*real)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");

	if (__atomic_add_fetch(&sent, 1, __ATOMIC_RELAXED) == atoi(which ? which : "1"))
		return (ssize_t)size;
	return real(fd, bytes, size, flags);
}
