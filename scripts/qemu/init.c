/* SPDX-License-Identifier: MIT */
/*
 * The first process of the machine that scripts/qemu-aarch64 boots. It runs the programs listed in
 * /programs, a line for each: seconds it may take, its name, its path and arguments, separated by
 * tabs. It says on the console how each ended, in lines that begin with "@@", and switches the
 * machine off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_ARGS 60

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void mount_all(void)
{
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/tmp", 01777);
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("tmpfs", "/tmp", "tmpfs", 0, NULL) ||
	    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL))
		perror("mount");
	mkdir("/dev/shm", 01777);
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
}

/* Waits for a child, its process group killed when it takes too long. Returns what wait() says. */
static int wait_for(pid_t pid, double seconds, int *late)
{
	double end = now() + seconds;
	int status;

	*late = 0;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };

		if (now() > end && !*late) {
			*late = 1;
			kill(-pid, SIGKILL);
		}
		nanosleep(&pause, NULL);
	}
	return status;
}

static void run(char *line)
{
	char *args[MAX_ARGS + 1] = { NULL };
	char *save;
	char *seconds = strtok_r(line, "\t\n", &save);
	char *name = strtok_r(NULL, "\t\n", &save);
	double start = now();
	int late, status;
	pid_t pid;

	for (int i = 0; i < MAX_ARGS; i++) {
		args[i] = strtok_r(NULL, "\t\n", &save);
		if (!args[i])
			break;
	}
	if (!seconds || !name || !args[0])
		return;
	printf("@@ begin %s\n", name);
	pid = fork();
	if (pid == 0) {
		setsid();
		execv(args[0], args);
		fprintf(stderr, "%s: %s\n", args[0], strerror(errno));
		_exit(127);
	}
	status = wait_for(pid, atof(seconds), &late);
	printf("\n@@ end %s ", name);
	if (late)
		printf("timeout");
	else if (WIFSIGNALED(status))
		printf("signal-%d", WTERMSIG(status));
	else
		printf("%d", WEXITSTATUS(status));
	printf(" %.2f\n", now() - start);
}

int main(void)
{
	char line[4096];
	FILE *list;

	setvbuf(stdout, NULL, _IOLBF, 0);
	mount_all();
	setenv("PATH", "/bin", 1);
	setenv("LD_LIBRARY_PATH", "/lib", 1);
	chdir("/tmp");
	list = fopen("/programs", "r");
	while (list && fgets(line, sizeof(line), list)) {
		if (strncmp(line, "env\t", 4) == 0)
			putenv(strdup(strtok(line + 4, "\n")));
		else
			run(line);
	}
	printf("@@ off\n");
	reboot(RB_POWER_OFF);
	return 0;
}
