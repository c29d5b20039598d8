/* SPDX-License-Identifier: MIT */
/*
 * The sequences of platform/percpu.h as restartable sequences for x86-64. Each stands under its
 * pseudo-code. Read linux/rseq.h and rseq(2) first; in short:
 *
 *  - label 3 is the descriptor {start 1, length to 2, abort 4}; its address in struct rseq arms it;
 *    the kernel disarms it when it finds the thread outside of 1..2;
 *  - interrupted by preemption, migration or a signal between 1 and 2, the thread comes back at 4;
 *  - the instruction before 2 is the commit.
 *
 * struct rseq lies at %fs:offset: cpu_id at 4, rseq_cs at 8. %r11 is scratch throughout.
 *
 * pop and push are `asm goto` without outputs (gcc 12 miscompiles outputs of asm goto), so pop's
 * object comes out through memory. The others have a register for their result and go on at 9.
 */
#ifndef USLUB_LINUX_PERCPU_X86_64_H
#define USLUB_LINUX_PERCPU_X86_64_H

#include "platform/percpu.h"
#include "inject.h"

hidden extern ptrdiff_t plat_rseq_offset; /* see plat_percpu.h */

/* A line of assembly is a line. */
/* clang-format off */

#ifdef USLUB_INJECT
hidden extern uint32_t plat_inject_point, plat_inject_loops, plat_inject_aborts, plat_inject_hits;
#define SEQ_POINT(n)                                                                               \
	"cmpl $" SEQ_STRING(n) ", plat_inject_point(%%rip)\n\t"                                    \
	"jne 77f\n\t"                                                                              \
	"incl plat_inject_hits(%%rip)\n\t"                                                         \
	"movl plat_inject_loops(%%rip), %%r11d\n"                                                  \
	"78:\n\t"                                                                                  \
	"subl $1, %%r11d\n\t"                                                                      \
	"jns 78b\n\t"                                                                              \
	"cmpl $0, plat_inject_aborts(%%rip)\n\t"                                                   \
	"je 77f\n\t"                                                                               \
	"decl plat_inject_aborts(%%rip)\n\t"                                                       \
	"jmp 4f\n"                                                                                 \
	"77:\n\t"
#else
#define SEQ_POINT(n)
#endif

#define SEQ_BEGIN                                                                                  \
	".pushsection __rseq_cs, \"aw\"\n\t"                                                       \
	".balign 32\n"                                                                             \
	"3:\n\t"                                                                                   \
	".long 0, 0\n\t"                                                                           \
	".quad 1f, (2f - 1f), 4f\n\t"                                                              \
	".popsection\n\t"                                                                          \
	"leaq 3b(%%rip), %%r11\n\t"                                                                \
	"movq %%r11, %%fs:8(%[rseq])\n"                                                            \
	"1:\n\t"

/* The abort handler, out of the way; the signature in front of it is an undefined instruction. */
#define SEQ_ABORT(instructions)                                                                    \
	".pushsection __rseq_failure, \"ax\"\n\t"                                                  \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                               \
	".long 0x53053053\n"                                                                       \
	"4:\n\t" instructions "\n\t"                                                               \
	".popsection\n\t"

/* For the sequences that take a CPU: on another one, AGAIN. */
#define SEQ_ON_CPU                                                                                 \
	"movl %[again], %[result]\n\t"                                                             \
	"cmpl %[cpu], %%fs:4(%[rseq])\n\t"                                                         \
	"jne 9f\n\t"                                                                               \
	"movl %[empty], %[result]\n\t"

#define SEQ_END                                                                                    \
	"2:\n\t"                                                                                   \
	"movl %[done], %[result]\n"                                                                \
	"9:\n\t" SEQ_ABORT("movl %[again], %[result]\n\tjmp 9b")

#define SEQ_OPERANDS                                                                               \
	[rseq] "r"(plat_rseq_offset), [cpu] "r"(cpu), [again] "i"(SEQ_AGAIN),                      \
		[empty] "i"(SEQ_EMPTY), [done] "i"(SEQ_DONE), [who] "i"(WORD_WHO),                 \
		[which] "i"(WORD_WHICH_SHIFT)

static inline uint32_t rseq_cpu(void)
{
	uint32_t cpu;

	__asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(plat_rseq_offset));
	return cpu;
}

/*
 * pop and push exist twice: for a cache whose slots follow each other, and, as pop_at and push_at, for a group of
 * caches that has the slots of one CPU in one page: then the slot lies `at` bytes into the page, and no pointer
 * to it has to be loaded first.
 */
#define SEQ_FAST_OPERANDS(page_shift)                                                              \
	[rseq] "r"(plat_rseq_offset), [base] "m"(*base), [limit] "m"(*limit),                      \
		[shift] "i"(page_shift), [which] "i"(WORD_WHICH_SHIFT)

/*
 * pop: w = slot->word; if avail(w) = 0: NULL
 *      object = sheaf[which]->objects[avail - 1];  COMMIT word = w + POP
 */
#define SEQ_POP(gate, at)                                                                          \
	SEQ_BEGIN                                                                                  \
	SEQ_POINT(SEQ_POP_ARMED)                                                                   \
	"movl %%fs:4(%[rseq]), %%ecx\n\t"                                                          \
	gate                                                                                       \
	"cmpl %[limit], %%ecx\n\t"                                                                 \
	"jae 5f\n\t"                                                                               \
	"shlq %[shift], %%rcx\n\t"                                                                 \
	"addq %[base], %%rcx\n\t"                                                                  \
	at                                                                                         \
	"movq (%%rcx), %%rdx\n\t"                                                                  \
	SEQ_POINT(SEQ_POP_LOADED)                                                                  \
	"movzbl %%dl, %%eax\n\t"                                                                   \
	"testl %%eax, %%eax\n\t"                                                                   \
	"jz 5f\n\t"                                                                                \
	"movq 8(%%rcx), %%r11\n\t"                                                                 \
	"btl %[which], %%edx\n\t"                                                                  \
	"cmovcq 16(%%rcx), %%r11\n\t"                                                              \
	"movq 24(%%r11, %%rax, 8), %%rax\n\t"                                                      \
	SEQ_POINT(SEQ_POP_READY)                                                                   \
	"addq %[pop], %%rdx\n\t"                                                                   \
	"movq %%rdx, (%%rcx)\n"                                                                    \
	"2:\n"                                                                                     \
	"9:\n\t"                                                                                   \
	SEQ_ABORT("5:\n\txorl %%eax, %%eax\n\tjmp 9b")

static always_inline void *rseq_pop(struct percpu_slot *const *base, const uint32_t *limit,
				    uint32_t gate)
{
	void *object;

	__asm__ volatile(SEQ_POP("orl %[gate], %%ecx\n\t", "")
			 : "=a"(object)
			 : SEQ_FAST_OPERANDS(PCS_SHIFT), [gate] "r"(gate), [pop] "i"(WORD_POP)
			 : "rcx", "rdx", "r11", "cc", "memory");
	return object;
}

static always_inline void *rseq_pop_at(struct percpu_slot *const *base, const uint32_t *limit,
				       size_t at)
{
	void *object;

	__asm__ volatile(SEQ_POP("", "addq %[at], %%rcx\n\t")
			 : "=a"(object)
			 : SEQ_FAST_OPERANDS(PCS_PAGE_SHIFT), [at] "r"(at), [pop] "i"(WORD_POP)
			 : "rcx", "rdx", "r11", "cc", "memory");
	return object;
}

/*
 * push: w = slot->word; if room(w) = 0: EMPTY
 *       sheaf[which]->objects[avail] = object
 *       if sheaf[which]->objects[avail - 1] = object: EMPTY;  COMMIT word = w + PUSH
 * The compare comes last: in front of the store it slows down frees in a row (measured).
 */
#define SEQ_PUSH(at)                                                                               \
	SEQ_BEGIN                                                                                  \
	SEQ_POINT(SEQ_PUSH_ARMED)                                                                  \
	"movl %%fs:4(%[rseq]), %%eax\n\t"                                                          \
	"cmpl %[limit], %%eax\n\t"                                                                 \
	"jae %l[empty]\n\t"                                                                        \
	"shlq %[shift], %%rax\n\t"                                                                 \
	"addq %[base], %%rax\n\t"                                                                  \
	at                                                                                         \
	"movq (%%rax), %%rdx\n\t"                                                                  \
	SEQ_POINT(SEQ_PUSH_LOADED)                                                                 \
	"testl $0xff00, %%edx\n\t"                                                                 \
	"jz %l[empty]\n\t"                                                                         \
	"movq 8(%%rax), %%r11\n\t"                                                                 \
	"btl %[which], %%edx\n\t"                                                                  \
	"cmovcq 16(%%rax), %%r11\n\t"                                                              \
	"movzbl %%dl, %%ecx\n\t"                                                                   \
	"movq %[object], 32(%%r11, %%rcx, 8)\n\t"                                                  \
	"addq %[push], %%rdx\n\t"                                                                  \
	"cmpq %[object], 24(%%r11, %%rcx, 8)\n\t"                                                  \
	"je %l[empty]\n\t"                                                                         \
	SEQ_POINT(SEQ_PUSH_READY)                                                                  \
	"movq %%rdx, (%%rax)\n"                                                                    \
	"2:\n\t"                                                                                   \
	SEQ_ABORT("jmp %l[again]")

static always_inline enum seq_result rseq_push(struct percpu_slot *const *base,
					       const uint32_t *limit, void *object)
{
	__asm__ goto volatile(SEQ_PUSH("")
			      :
			      : SEQ_FAST_OPERANDS(PCS_SHIFT), [object] "r"(object),
				[push] "i"(WORD_PUSH)
			      : "rax", "rcx", "rdx", "r11", "cc", "memory"
			      : empty, again);
	return SEQ_DONE;
empty:
	return SEQ_EMPTY;
again:
	return SEQ_AGAIN;
}

static always_inline enum seq_result rseq_push_at(struct percpu_slot *const *base,
						  const uint32_t *limit, size_t at, void *object)
{
	__asm__ goto volatile(SEQ_PUSH("addq %[at], %%rax\n\t")
			      :
			      : SEQ_FAST_OPERANDS(PCS_PAGE_SHIFT), [at] "r"(at),
				[object] "r"(object), [push] "i"(WORD_PUSH)
			      : "rax", "rcx", "rdx", "r11", "cc", "memory"
			      : empty, again);
	return SEQ_DONE;
empty:
	return SEQ_EMPTY;
again:
	return SEQ_AGAIN;
}

/*
 * pop_n: w = slot->word; k = min(n, avail(w)); k = 0: EMPTY
 *        for i < k: objects[i] = sheaf[which]->objects[avail - 1 - i];  COMMIT word = w + k * POP
 */
static inline enum seq_result rseq_pop_n(unsigned cpu, struct percpu_slot *slot, unsigned n,
					 void **objects, unsigned *done)
{
	unsigned result, k;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_POP_N_LOADED)
			 "movzbl %%dl, %%eax\n\t"
			 "movl %[n], %[k]\n\t"
			 "cmpl %%eax, %[k]\n\t"
			 "cmoval %%eax, %[k]\n\t"
			 "testl %[k], %[k]\n\t"
			 "jz 9f\n\t"
			 "movq 8(%[slot]), %%rcx\n\t"
			 "btl %[which], %%edx\n\t"
			 "cmovcq 16(%[slot]), %%rcx\n\t"
			 "leaq 24(%%rcx, %%rax, 8), %%rcx\n\t"
			 "xorl %%eax, %%eax\n"
			 "6:\n\t"
			 "movq (%%rcx), %%r11\n\t"
			 "movq %%r11, (%[objects], %%rax, 8)\n\t"
			 "subq $8, %%rcx\n\t"
			 "incl %%eax\n\t"
			 "cmpl %[k], %%eax\n\t"
			 "jb 6b\n\t"
			 SEQ_POINT(SEQ_POP_N_READY)
			 "imulq %[pop], %%rax, %%rax\n\t"
			 "addq %%rax, %%rdx\n\t"
			 "movq %%rdx, (%[slot])\n"
			 SEQ_END
			 : [result] "=&r"(result), [k] "=&r"(k)
			 : SEQ_OPERANDS, [slot] "r"(slot), [n] "r"(n), [objects] "r"(objects),
			   [pop] "i"(WORD_POP)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	*done = k;
	return result;
}

/*
 * push_n: w = slot->word; k = min(n, room(w)); k = 0: EMPTY
 *         for i < k: if sheaf[which]->objects[avail + i - 1] = objects[i]: TWICE
 *                    sheaf[which]->objects[avail + i] = objects[i]
 *         COMMIT word = w + k * PUSH
 */
static inline enum seq_result rseq_push_n(unsigned cpu, struct percpu_slot *slot, unsigned n,
					  void *const *objects, unsigned *done)
{
	unsigned result, k;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_PUSH_N_LOADED)
			 "movzbl %%dh, %%eax\n\t"
			 "movl %[n], %[k]\n\t"
			 "cmpl %%eax, %[k]\n\t"
			 "cmoval %%eax, %[k]\n\t"
			 "testl %[k], %[k]\n\t"
			 "jz 9f\n\t"
			 "movq 8(%[slot]), %%rcx\n\t"
			 "btl %[which], %%edx\n\t"
			 "cmovcq 16(%[slot]), %%rcx\n\t"
			 "movzbl %%dl, %%eax\n\t"
			 "leaq 32(%%rcx, %%rax, 8), %%rcx\n\t"
			 "xorl %%eax, %%eax\n\t"
			 "movl %[twice], %[result]\n"
			 "6:\n\t"
			 "movq (%[objects], %%rax, 8), %%r11\n\t"
			 "cmpq %%r11, -8(%%rcx, %%rax, 8)\n\t"
			 "je 9f\n\t"
			 "movq %%r11, (%%rcx, %%rax, 8)\n\t"
			 "incl %%eax\n\t"
			 "cmpl %[k], %%eax\n\t"
			 "jb 6b\n\t"
			 SEQ_POINT(SEQ_PUSH_N_READY)
			 "imulq %[push], %%rax, %%rax\n\t"
			 "addq %%rax, %%rdx\n\t"
			 "movq %%rdx, (%[slot])\n"
			 SEQ_END
			 : [result] "=&r"(result), [k] "=&r"(k)
			 : SEQ_OPERANDS, [slot] "r"(slot), [n] "r"(n), [objects] "r"(objects),
			   [push] "i"(WORD_PUSH), [twice] "i"(SEQ_TWICE)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	*done = k;
	return result;
}

/*
 * The two flips share their middle: %rdx the word, %rax main, %rcx other, on to
 *      main->fill = avail(w) if there is a main; f = other->fill
 *      word = allocs, which turned, avail = f, room = capacity - f
 */
#define SEQ_FLIP_SHEAVES                                                                           \
	"movq 8(%[slot]), %%rax\n\t"                                                               \
	"movq 16(%[slot]), %%rcx\n\t"                                                              \
	"btl %[which], %%edx\n\t"                                                                  \
	"jnc 5f\n\t"                                                                               \
	"xchgq %%rax, %%rcx\n"                                                                     \
	"5:\n\t"                                                                                   \
	"testq %%rcx, %%rcx\n\t"                                                                   \
	"jz 9f\n\t"                                                                                \
	"movl 20(%%rcx), %[fill]\n\t"

#define SEQ_FLIP_OLD_MAIN                                                                          \
	"testq %%rax, %%rax\n\t"                                                                   \
	"jz 6f\n\t"                                                                                \
	"movzbl %%dl, %%r11d\n\t"                                                                  \
	"movl %%r11d, 20(%%rax)\n"                                                                 \
	"6:\n\t"

#define SEQ_FLIP_WORD                                                                              \
	"movl 16(%%rcx), %%eax\n\t"                                                                \
	"subl %[fill], %%eax\n\t"                                                                  \
	"shll $8, %%eax\n\t"                                                                       \
	"orl %[fill], %%eax\n\t"                                                                   \
	"andq $-65536, %%rdx\n\t"                                                                  \
	"btcq %[which], %%rdx\n\t"                                                                 \
	"orq %%rax, %%rdx\n\t"

/*
 * flip_pop: w open and avail(w) = 0; other not NULL and not empty, else EMPTY
 *           object = other->objects[f - 1];  COMMIT word as above, + POP
 */
static inline enum seq_result rseq_flip_pop(unsigned cpu, struct percpu_slot *slot, void **object,
					    int *jump)
{
	unsigned result, fill;
	void *popped;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_FLIP_POP_LOADED)
			 "testl %[who], %%edx\n\t"
			 "jnz 9f\n\t"
			 "testb %%dl, %%dl\n\t"
			 "jnz 9f\n\t"
			 SEQ_FLIP_SHEAVES
			 "testl %[fill], %[fill]\n\t"
			 "jz 9f\n\t"
			 SEQ_FLIP_OLD_MAIN
			 SEQ_POINT(SEQ_FLIP_POP_FILLED)
			 "movl %[fill], %%eax\n\t"
			 "movq 24(%%rcx, %%rax, 8), %[object]\n\t"
			 SEQ_FLIP_WORD
			 SEQ_POINT(SEQ_FLIP_POP_READY)
			 "addq %[pop], %%rdx\n\t"
			 "movq %%rdx, (%[slot])\n"
			 SEQ_END
			 : [result] "=&r"(result), [fill] "=&r"(fill), [object] "=&r"(popped)
			 : SEQ_OPERANDS, [slot] "r"(slot), [pop] "i"(WORD_POP)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	if (result == SEQ_DONE) {
		*object = popped;
		*jump = (int)fill;
	}
	return result;
}

/*
 * flip_push: w open and room(w) = 0; other not NULL and not full, else EMPTY
 *            if there is a main, and main->objects[avail(w) - 1] = object: TWICE
 *            other->objects[f] = object;  COMMIT word as above, + PUSH
 */
static inline enum seq_result rseq_flip_push(unsigned cpu, struct percpu_slot *slot, void *object,
					     int *jump)
{
	unsigned result, fill, was;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_FLIP_PUSH_LOADED)
			 "testl %[who], %%edx\n\t"
			 "jnz 9f\n\t"
			 "testl $0xff00, %%edx\n\t"
			 "jnz 9f\n\t"
			 "movzbl %%dl, %[was]\n\t"
			 SEQ_FLIP_SHEAVES
			 "cmpl 16(%%rcx), %[fill]\n\t"
			 "jae 9f\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jz 7f\n\t"
			 "movl %[twice], %[result]\n\t"
			 "movl %[was], %%r11d\n\t"
			 "cmpq %[object], 24(%%rax, %%r11, 8)\n\t"
			 "je 9f\n"
			 "7:\n\t"
			 SEQ_FLIP_OLD_MAIN
			 SEQ_POINT(SEQ_FLIP_PUSH_FILLED)
			 "movl %[fill], %%eax\n\t"
			 "movq %[object], 32(%%rcx, %%rax, 8)\n\t"
			 SEQ_FLIP_WORD
			 SEQ_POINT(SEQ_FLIP_PUSH_READY)
			 "addq %[push], %%rdx\n\t"
			 "movq %%rdx, (%[slot])\n"
			 SEQ_END
			 : [result] "=&r"(result), [fill] "=&r"(fill), [was] "=&r"(was)
			 : SEQ_OPERANDS, [slot] "r"(slot), [object] "r"(object),
			   [push] "i"(WORD_PUSH), [twice] "i"(SEQ_TWICE)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	if (result == SEQ_DONE)
		*jump = (int)fill - (int)was;
	return result;
}

/* Into %rax the address of sheaf[!which] of the open slot, else EMPTY. */
#define SEQ_OTHER                                                                                  \
	"testl %[who], %%edx\n\t"                                                                  \
	"jnz 9f\n\t"                                                                               \
	"leaq 16(%[slot]), %%rax\n\t"                                                              \
	"leaq 8(%[slot]), %%rcx\n\t"                                                               \
	"btl %[which], %%edx\n\t"                                                                  \
	"cmovcq %%rcx, %%rax\n\t"

/*
 * take_other: w open, else EMPTY; s = sheaf[!which], NULL: EMPTY;  COMMIT sheaf[!which] = NULL
 */
static inline enum seq_result rseq_take_other(unsigned cpu, struct percpu_slot *slot,
					      struct uslub_sheaf **sheaf)
{
	struct uslub_sheaf *s;
	unsigned result;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_TAKE_LOADED)
			 SEQ_OTHER
			 "movq (%%rax), %[sheaf]\n\t"
			 "testq %[sheaf], %[sheaf]\n\t"
			 "jz 9f\n\t"
			 SEQ_POINT(SEQ_TAKE_READY)
			 "movq $0, (%%rax)\n"
			 SEQ_END
			 : [result] "=&r"(result), [sheaf] "=&r"(s)
			 : SEQ_OPERANDS, [slot] "r"(slot)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	*sheaf = result == SEQ_DONE ? s : NULL;
	return result;
}

/*
 * give_other: w open, else EMPTY; sheaf[!which] NULL, else EMPTY;  COMMIT sheaf[!which] = s
 */
static inline enum seq_result rseq_give_other(unsigned cpu, struct percpu_slot *slot,
					      struct uslub_sheaf *sheaf)
{
	unsigned result;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "movq (%[slot]), %%rdx\n\t"
			 SEQ_POINT(SEQ_GIVE_LOADED)
			 SEQ_OTHER
			 "cmpq $0, (%%rax)\n\t"
			 "jne 9f\n\t"
			 SEQ_POINT(SEQ_GIVE_READY)
			 "movq %[sheaf], (%%rax)\n"
			 SEQ_END
			 : [result] "=&r"(result)
			 : SEQ_OPERANDS, [slot] "r"(slot), [sheaf] "r"(sheaf)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	return result;
}

/* add: COMMIT *counter += n */
static inline enum seq_result rseq_add(unsigned cpu, uint64_t *counter, uint64_t n)
{
	unsigned result;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 SEQ_POINT(SEQ_ADD_READY)
			 "addq %[n], (%[counter])\n"
			 SEQ_END
			 : [result] "=&r"(result)
			 : SEQ_OPERANDS, [counter] "r"(counter), [n] "r"(n)
			 : "rax", "rcx", "rdx", "r11", "cc", "memory");
	return result;
}

/* clang-format on */

#endif /* USLUB_LINUX_PERCPU_X86_64_H */
