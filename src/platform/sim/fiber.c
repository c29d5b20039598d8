/* SPDX-License-Identifier: MIT */
/*
 * Fibers: a stack and a place to go on. The first entry is by makecontext(); from then on _setjmp() and
 * _longjmp() switch, which, unlike swapcontext(), make no system call for the signal mask.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its longjmp() refuses to go to another stack */
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "machine.h"

#define STACK_SIZE ((size_t)128 << 10)

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define ASAN_START(save, to) __sanitizer_start_switch_fiber(save, (to)->stack, STACK_SIZE)
#define ASAN_FINISH(save)    __sanitizer_finish_switch_fiber(save, NULL, NULL)
#else
#define ASAN_START(save, to) ((void)0)
#define ASAN_FINISH(save)    ((void)0)
#endif

struct fiber_context {
	jmp_buf at;
	bool begun;
	void (*fn)(void);
	char *stack;
	ucontext_t first;
	void *fake;
};

static struct fiber_context main_context = { .begun = true };

struct fiber_context *fiber_main(void)
{
	return &main_context;
}

static void enter(void)
{
	extern struct fiber_context *fiber_entered;

	ASAN_FINISH(NULL);
	fiber_entered->fn();
}

struct fiber_context *fiber_entered;

struct fiber_context *fiber_new(void (*fn)(void))
{
	struct fiber_context *c = calloc(1, sizeof(*c));

	if (!c)
		sim_give_up("no memory for a thread");
	c->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->stack == MAP_FAILED)
		sim_give_up("no memory for a thread's stack");
	c->fn = fn;
	getcontext(&c->first);
	c->first.uc_stack.ss_sp = c->stack;
	c->first.uc_stack.ss_size = STACK_SIZE;
	c->first.uc_link = NULL;
	makecontext(&c->first, enter, 0);
	return c;
}

void fiber_free(struct fiber_context *c)
{
	munmap(c->stack, STACK_SIZE);
	free(c);
}

void fiber_switch(struct fiber_context *from, struct fiber_context *to)
{
	if (_setjmp(from->at)) {
		ASAN_FINISH(from->fake);
		return;
	}
	ASAN_START(&from->fake, to);
	if (to->begun)
		_longjmp(to->at, 1);
	to->begun = true;
	fiber_entered = to;
	setcontext(&to->first);
}
