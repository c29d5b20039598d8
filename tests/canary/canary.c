/* SPDX-License-Identifier: MIT */
/*
 * Does one wrong thing, named by the argument, and exits with 0: only a tool that watches memory
 * finds it.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;
static int shared;

static void *count(void *arg)
{
	for (int i = 0; i < 100000; i++)
		shared++;
	return arg;
}

static void race(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, count, NULL))
		return;
	count(NULL);
	pthread_join(other, NULL);
}

static void address(void)
{
	volatile char *p = malloc(8);
	volatile int past = 8;

	if (p)
		sink = p[past];
	free((void *)p);
}

static void undefined(void)
{
	volatile int big = INT_MAX;

	sink = big + 1;
}

static void leak(void)
{
	void *volatile p = malloc(100);

	if (p)
		memset(p, 1, 100);
	p = NULL;
	sink = p == NULL;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	if (strcmp(argv[1], "race") == 0)
		race();
	else if (strcmp(argv[1], "address") == 0)
		address();
	else if (strcmp(argv[1], "undefined") == 0)
		undefined();
	else
		leak();
	return 0;
}
