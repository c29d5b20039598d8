/* SPDX-License-Identifier: MIT */
/*
 * USLUB_POLICY is for a program that runs with more rights than who started it: ignored in silence. A copy
 * of the program that belongs to root and has the set-user-ID bit is run by another user; the control is
 * the same copy without the bit.
 *
 * Expect: exit 0
 * Expect: silence
 */
#include <grp.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include "misuse.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define SOMEBODY  65534
#define COMPLAINT "uslub: USLUB_POLICY: unknown policy \"no-such=1\" ignored; see uslub(7)\n"

static char folder[] = "/tmp/uslub-secure-XXXXXX", program[sizeof(folder) + 8];

static int skip(const char *why)
{
	printf("skipped: %s\n", why);
	return 77;
}

/* The copy: 0 or 1 says whether the policy had an effect. */
static int copy(void)
{
	struct uslub_cache *c = cache("victim", SHEAVES);
	uint64_t capacity = stat_of(c, USLUB_STAT_sheaf_capacity);

	uslub_cache_free(c, object(c));
	destroy(c);
	return !getauxval(AT_SECURE) == (capacity == 7) ? capacity == 7 : 3;
}

static void make_copy(void)
{
	char buf[65536];
	int from, to;
	ssize_t n;

	need(mkdtemp(folder));
	sprintf(program, "%s/copy", folder);
	from = open("/proc/self/exe", O_RDONLY);
	to = open(program, O_WRONLY | O_CREAT | O_EXCL, 0755);
	need(from >= 0 && to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		need(write(to, buf, (size_t)n) == n);
	need(!n);
	close(from);
	close(to);
}

#define CANNOT 78

/* Runs the copy with that mode as another user; returns its exit status, and what it says in text. */
static int run_copy(mode_t mode, char *text, size_t size)
{
	char *argv[] = { program, (char *)"copy", NULL };
	char *env[] = { (char *)"USLUB_POLICY=no-such=1;sheaf-capacity=7", NULL };
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	need(!chmod(program, mode) && !chmod(folder, 0755) && !pipe(ends));
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		if (!setgroups(0, NULL) && !setgid(SOMEBODY) && !setuid(SOMEBODY))
			execve(program, argv, env);
		_exit(CANNOT);
	}
	close(ends[1]);
	n = read(ends[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	need(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
	char said[4096], said_secure[4096];
	int plain, secure;

	if (argc == 2 && !strcmp(argv[1], "copy"))
		return copy();
	if (geteuid())
		return skip("only root can make a program run with more rights");
	/* the bit turns on address space randomisation, which may not agree with the sanitizer */
	if (SANITIZED)
		return skip("the sanitizer's shadow may have no place in the copy");
	make_copy();
	plain = run_copy(0755, said, sizeof(said));
	secure = run_copy(04755, said_secure, sizeof(said_secure));
	unlink(program);
	rmdir(folder);
	if (plain == CANNOT || secure == CANNOT)
		return skip("a copy of the program cannot be run as another user");
	if (plain != 1 || strcmp(said, COMPLAINT)) {
		dprintf(STDERR_FILENO, "the plain copy: %d: %s\n", plain, said);
		return 3;
	}
	if (secure == 1 && !strcmp(said_secure, COMPLAINT))
		return skip("the set-user-ID bit has no effect in /tmp");
	if (secure || *said_secure) {
		dprintf(STDERR_FILENO, "the set-user-ID copy: %d: %s\n", secure, said_secure);
		return 3;
	}
	return 0;
}
