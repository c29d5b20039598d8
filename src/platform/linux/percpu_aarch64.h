/* SPDX-License-Identifier: MIT */
/*
 * The sequences of platform/percpu.h as restartable sequences for aarch64. Each stands under its
 * pseudo-code. Read linux/rseq.h and rseq(2) first; in short:
 *
 *  - label 3 is the descriptor {start 1, length to 2, abort 4}; its address in struct rseq arms it;
 *    the kernel disarms it when it finds the thread outside of 1..2;
 *  - interrupted by preemption, migration or a signal between 1 and 2, the thread comes back at 4;
 *  - the instruction before 2 is the commit, a plain store.
 *
 * struct rseq lies at tpidr_el0 + offset: cpu_id at 4, rseq_cs at 8. A thread keeps its thread
 * pointer, so the sum comes from outside. All that may change is loaded between 1 and 2, the word
 * with acquire.
 *
 * x9 and x10 are scratch for arming and for the injection points. In the sequences x11 is the slot
 * where they find it themselves, x12 the word; x13 to x15 are what the lines say, as is x10 in push_n.
 *
 * push is `asm goto` without outputs (gcc 12 miscompiles outputs of asm goto). The others have a
 * register for their result and go on at 9.
 */
#ifndef USLUB_LINUX_PERCPU_AARCH64_H
#define USLUB_LINUX_PERCPU_AARCH64_H

#include "platform/percpu.h"
#include "inject.h"

hidden extern ptrdiff_t plat_rseq_offset; /* see plat_percpu.h */

/* A line of assembly is a line. */
/* clang-format off */

#ifdef USLUB_INJECT
hidden extern uint32_t plat_inject_point, plat_inject_loops, plat_inject_aborts, plat_inject_hits;
#define SEQ_POINT(n)                                                                               \
	"adrp x9, plat_inject_point\n\t"                                                           \
	"ldr w9, [x9, :lo12:plat_inject_point]\n\t"                                                \
	"cmp w9, #" SEQ_STRING(n) "\n\t"                                                           \
	"b.ne 77f\n\t"                                                                             \
	"adrp x9, plat_inject_hits\n\t"                                                            \
	"ldr w10, [x9, :lo12:plat_inject_hits]\n\t"                                                \
	"add w10, w10, #1\n\t"                                                                     \
	"str w10, [x9, :lo12:plat_inject_hits]\n\t"                                                \
	"adrp x9, plat_inject_loops\n\t"                                                           \
	"ldr w10, [x9, :lo12:plat_inject_loops]\n"                                                 \
	"78:\n\t"                                                                                  \
	"subs w10, w10, #1\n\t"                                                                    \
	"b.pl 78b\n\t"                                                                             \
	"adrp x9, plat_inject_aborts\n\t"                                                          \
	"ldr w10, [x9, :lo12:plat_inject_aborts]\n\t"                                              \
	"cbz w10, 77f\n\t"                                                                         \
	"sub w10, w10, #1\n\t"                                                                     \
	"str w10, [x9, :lo12:plat_inject_aborts]\n\t"                                              \
	"b 4f\n"                                                                                   \
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
	"adrp x9, 3b\n\t"                                                                          \
	"add x9, x9, :lo12:3b\n\t"                                                                 \
	"str x9, [%[rseq], #8]\n"                                                                  \
	"1:\n\t"

/* The abort handler, out of the way; the signature in front of it is a breakpoint instruction. */
#define SEQ_ABORT(instructions)                                                                    \
	".pushsection __rseq_failure, \"ax\"\n\t"                                                  \
	".inst 0xd428bc00\n"                                                                       \
	"4:\n\t" instructions "\n\t"                                                               \
	".popsection\n\t"

/* For the sequences that take a CPU: on another one, AGAIN. */
#define SEQ_ON_CPU                                                                                 \
	"mov %w[result], %[again]\n\t"                                                             \
	"ldr w13, [%[rseq], #4]\n\t"                                                               \
	"cmp w13, %w[cpu]\n\t"                                                                     \
	"b.ne 9f\n\t"                                                                              \
	"mov %w[result], %[empty]\n\t"

#define SEQ_END                                                                                    \
	"2:\n\t"                                                                                   \
	"mov %w[result], %[done]\n"                                                                \
	"9:\n\t" SEQ_ABORT("mov %w[result], %[again]\n\tb 9b")

#define SEQ_OPERANDS                                                                               \
	[rseq] "r"(rseq_area()), [cpu] "r"(cpu), [again] "i"(SEQ_AGAIN), [empty] "i"(SEQ_EMPTY),   \
		[done] "i"(SEQ_DONE), [who] "i"(WORD_WHO), [whichbit] "i"(WORD_WHICH),             \
		[which] "i"(WORD_WHICH_SHIFT)

#define SEQ_CLOBBERS "x9", "x10", "x11", "x12", "x13", "x14", "x15", "cc", "memory"

static inline char *rseq_area(void)
{
	return (char *)__builtin_thread_pointer() + plat_rseq_offset;
}

static inline uint32_t rseq_cpu(void)
{
	uint32_t cpu;

	__asm__ volatile("ldr %w0, [%1, #4]" : "=r"(cpu) : "r"(rseq_area()));
	return cpu;
}

/*
 * pop and push exist twice: for a cache whose slots follow each other, and, as pop_at and push_at, for a group of
 * caches that has the slots of one CPU in one page: then the slot lies `at` bytes into the page, and no pointer
 * to it has to be loaded first.
 */
#define SEQ_FAST_OPERANDS(page_shift)                                                              \
	[rseq] "r"(rseq_area()), [base] "m"(*base), [limit] "m"(*limit), [shift] "i"(page_shift),  \
		[which] "i"(WORD_WHICH_SHIFT)

/*
 * pop: w = slot->word; if avail(w) = 0: NULL
 *      object = sheaf[which]->objects[avail - 1];  COMMIT word = w + POP
 */
#define SEQ_POP(gate, at)                                                                          \
	SEQ_BEGIN                                                                                  \
	"mov %[object], xzr\n\t"                                                                   \
	SEQ_POINT(SEQ_POP_ARMED)                                                                   \
	"ldr w11, [%[rseq], #4]\n\t"                                                               \
	gate                                                                                       \
	"ldr w13, %[limit]\n\t"                                                                    \
	"cmp w11, w13\n\t"                                                                         \
	"b.hs 9f\n\t"                                                                              \
	"ldr x13, %[base]\n\t"                                                                     \
	"add x11, x13, x11, lsl %[shift]\n\t"                                                      \
	at                                                                                         \
	"ldar x12, [x11]\n\t"                                                                      \
	SEQ_POINT(SEQ_POP_LOADED)                                                                  \
	"ands x13, x12, #0xff\n\t"                                                                 \
	"b.eq 9f\n\t"                                                                              \
	"ubfx x14, x12, %[which], #1\n\t"                                                          \
	"add x14, x11, x14, lsl #3\n\t"                                                            \
	"ldr x14, [x14, #8]\n\t"                                                                   \
	"add x14, x14, x13, lsl #3\n\t"                                                            \
	"ldr %[object], [x14, #24]\n\t"                                                            \
	SEQ_POINT(SEQ_POP_READY)                                                                   \
	"add x12, x12, %[pop]\n\t"                                                                 \
	"str x12, [x11]\n"                                                                         \
	"2:\n"                                                                                     \
	"9:\n\t"                                                                                   \
	SEQ_ABORT("mov %[object], xzr\n\tb 9b")

static always_inline void *rseq_pop(struct percpu_slot *const *base, const uint32_t *limit,
				    uint32_t gate)
{
	void *object;

	__asm__ volatile(SEQ_POP("orr w11, w11, %w[gate]\n\t", "")
			 : [object] "=&r"(object)
			 : SEQ_FAST_OPERANDS(PCS_SHIFT), [gate] "r"(gate), [pop] "r"(WORD_POP)
			 : SEQ_CLOBBERS);
	return object;
}

static always_inline void *rseq_pop_at(struct percpu_slot *const *base, const uint32_t *limit,
				       size_t at)
{
	void *object;

	__asm__ volatile(SEQ_POP("", "add x11, x11, %[at]\n\t")
			 : [object] "=&r"(object)
			 : SEQ_FAST_OPERANDS(PCS_PAGE_SHIFT), [at] "r"(at), [pop] "r"(WORD_POP)
			 : SEQ_CLOBBERS);
	return object;
}

/*
 * push: w = slot->word; if room(w) = 0: EMPTY
 *       sheaf[which]->objects[avail] = object
 *       if sheaf[which]->objects[avail - 1] = object: EMPTY;  COMMIT word = w + PUSH
 */
#define SEQ_PUSH(at)                                                                               \
	SEQ_BEGIN                                                                                  \
	SEQ_POINT(SEQ_PUSH_ARMED)                                                                  \
	"ldr w11, [%[rseq], #4]\n\t"                                                               \
	"ldr w13, %[limit]\n\t"                                                                    \
	"cmp w11, w13\n\t"                                                                         \
	"b.hs %l[empty]\n\t"                                                                       \
	"ldr x13, %[base]\n\t"                                                                     \
	"add x11, x13, x11, lsl %[shift]\n\t"                                                      \
	at                                                                                         \
	"ldar x12, [x11]\n\t"                                                                      \
	SEQ_POINT(SEQ_PUSH_LOADED)                                                                 \
	"tst x12, #0xff00\n\t"                                                                     \
	"b.eq %l[empty]\n\t"                                                                       \
	"ubfx x14, x12, %[which], #1\n\t"                                                          \
	"add x14, x11, x14, lsl #3\n\t"                                                            \
	"ldr x14, [x14, #8]\n\t"                                                                   \
	"and x13, x12, #0xff\n\t"                                                                  \
	"add x14, x14, x13, lsl #3\n\t"                                                            \
	"str %[object], [x14, #32]\n\t"                                                            \
	"add x12, x12, %[push]\n\t"                                                                \
	"ldr x13, [x14, #24]\n\t"                                                                  \
	"cmp x13, %[object]\n\t"                                                                   \
	"b.eq %l[empty]\n\t"                                                                       \
	SEQ_POINT(SEQ_PUSH_READY)                                                                  \
	"str x12, [x11]\n"                                                                         \
	"2:\n\t"                                                                                   \
	SEQ_ABORT("b %l[again]")

static always_inline enum seq_result rseq_push(struct percpu_slot *const *base,
					       const uint32_t *limit, void *object)
{
	__asm__ goto volatile(SEQ_PUSH("")
			      :
			      : SEQ_FAST_OPERANDS(PCS_SHIFT), [object] "r"(object),
				[push] "r"(WORD_PUSH)
			      : SEQ_CLOBBERS
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
	__asm__ goto volatile(SEQ_PUSH("add x11, x11, %[at]\n\t")
			      :
			      : SEQ_FAST_OPERANDS(PCS_PAGE_SHIFT), [at] "r"(at),
				[object] "r"(object), [push] "r"(WORD_PUSH)
			      : SEQ_CLOBBERS
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
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_POP_N_LOADED)
			 "and x13, x12, #0xff\n\t"
			 "cmp %w[n], w13\n\t"
			 "csel %w[k], %w[n], w13, lo\n\t"
			 "cbz %w[k], 9f\n\t"
			 "ubfx x14, x12, %[which], #1\n\t"
			 "add x14, %[slot], x14, lsl #3\n\t"
			 "ldr x14, [x14, #8]\n\t"
			 "add x14, x14, x13, lsl #3\n\t"
			 "add x14, x14, #32\n\t"
			 "mov x13, #0\n"
			 "6:\n\t"
			 "ldr x15, [x14, #-8]!\n\t"
			 "str x15, [%[objects], x13, lsl #3]\n\t"
			 "add x13, x13, #1\n\t"
			 "cmp w13, %w[k]\n\t"
			 "b.lo 6b\n\t"
			 SEQ_POINT(SEQ_POP_N_READY)
			 "madd x12, x13, %[pop], x12\n\t"
			 "str x12, [%[slot]]\n"
			 SEQ_END
			 : [result] "=&r"(result), [k] "=&r"(k)
			 : SEQ_OPERANDS, [slot] "r"(slot), [n] "r"(n), [objects] "r"(objects),
			   [pop] "r"(WORD_POP)
			 : SEQ_CLOBBERS);
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
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_PUSH_N_LOADED)
			 "ubfx x13, x12, %[room], #8\n\t"
			 "cmp %w[n], w13\n\t"
			 "csel %w[k], %w[n], w13, lo\n\t"
			 "cbz %w[k], 9f\n\t"
			 "ubfx x14, x12, %[which], #1\n\t"
			 "add x14, %[slot], x14, lsl #3\n\t"
			 "ldr x14, [x14, #8]\n\t"
			 "and x13, x12, #0xff\n\t"
			 "add x14, x14, x13, lsl #3\n\t"
			 "add x14, x14, #32\n\t"
			 "ldr x10, [x14, #-8]\n\t"
			 "mov x13, #0\n\t"
			 "mov %w[result], %[twice]\n"
			 "6:\n\t"
			 "ldr x15, [%[objects], x13, lsl #3]\n\t"
			 "cmp x15, x10\n\t"
			 "b.eq 9f\n\t"
			 "str x15, [x14, x13, lsl #3]\n\t"
			 "mov x10, x15\n\t"
			 "add x13, x13, #1\n\t"
			 "cmp w13, %w[k]\n\t"
			 "b.lo 6b\n\t"
			 SEQ_POINT(SEQ_PUSH_N_READY)
			 "madd x12, x13, %[push], x12\n\t"
			 "str x12, [%[slot]]\n"
			 SEQ_END
			 : [result] "=&r"(result), [k] "=&r"(k)
			 : SEQ_OPERANDS, [slot] "r"(slot), [n] "r"(n), [objects] "r"(objects),
			   [push] "r"(WORD_PUSH), [room] "i"(WORD_ROOM_SHIFT),
			   [twice] "i"(SEQ_TWICE)
			 : SEQ_CLOBBERS);
	*done = k;
	return result;
}

/*
 * The two flips share their middle: x12 the word, x13 main, x15 other, on to
 *      main->fill = avail(w) if there is a main; f = other->fill
 *      word = allocs, which turned, avail = f, room = capacity - f
 */
#define SEQ_FLIP_SHEAVES                                                                           \
	"ldp x13, x14, [%[slot], #8]\n\t"                                                          \
	"tst x12, %[whichbit]\n\t"                                                                 \
	"csel x15, x13, x14, ne\n\t"                                                               \
	"csel x13, x14, x13, ne\n\t"                                                               \
	"cbz x15, 9f\n\t"                                                                          \
	"ldr %w[fill], [x15, #20]\n\t"

#define SEQ_FLIP_OLD_MAIN                                                                          \
	"cbz x13, 6f\n\t"                                                                          \
	"and w14, w12, #0xff\n\t"                                                                  \
	"str w14, [x13, #20]\n"                                                                    \
	"6:\n\t"

#define SEQ_FLIP_WORD                                                                              \
	"ldr w14, [x15, #16]\n\t"                                                                  \
	"sub w14, w14, %w[fill]\n\t"                                                               \
	"orr w14, %w[fill], w14, lsl #8\n\t"                                                       \
	"eor x12, x12, %[whichbit]\n\t"                                                            \
	"bfi x12, x14, #0, #16\n\t"

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
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_FLIP_POP_LOADED)
			 "tst x12, %[who]\n\t"
			 "b.ne 9f\n\t"
			 "tst x12, #0xff\n\t"
			 "b.ne 9f\n\t"
			 SEQ_FLIP_SHEAVES
			 "cbz %w[fill], 9f\n\t"
			 SEQ_FLIP_OLD_MAIN
			 SEQ_POINT(SEQ_FLIP_POP_FILLED)
			 "add x14, x15, %x[fill], lsl #3\n\t"
			 "ldr %[object], [x14, #24]\n\t"
			 SEQ_FLIP_WORD
			 SEQ_POINT(SEQ_FLIP_POP_READY)
			 "add x12, x12, %[pop]\n\t"
			 "str x12, [%[slot]]\n"
			 SEQ_END
			 : [result] "=&r"(result), [fill] "=&r"(fill), [object] "=&r"(popped)
			 : SEQ_OPERANDS, [slot] "r"(slot), [pop] "r"(WORD_POP)
			 : SEQ_CLOBBERS);
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
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_FLIP_PUSH_LOADED)
			 "tst x12, %[who]\n\t"
			 "b.ne 9f\n\t"
			 "tst x12, #0xff00\n\t"
			 "b.ne 9f\n\t"
			 "and %w[was], w12, #0xff\n\t"
			 SEQ_FLIP_SHEAVES
			 "ldr w14, [x15, #16]\n\t"
			 "cmp %w[fill], w14\n\t"
			 "b.hs 9f\n\t"
			 "cbz x13, 7f\n\t"
			 "mov %w[result], %[twice]\n\t"
			 "add x14, x13, %x[was], lsl #3\n\t"
			 "ldr x14, [x14, #24]\n\t"
			 "cmp x14, %[object]\n\t"
			 "b.eq 9f\n"
			 "7:\n\t"
			 SEQ_FLIP_OLD_MAIN
			 SEQ_POINT(SEQ_FLIP_PUSH_FILLED)
			 "add x14, x15, %x[fill], lsl #3\n\t"
			 "str %[object], [x14, #32]\n\t"
			 SEQ_FLIP_WORD
			 SEQ_POINT(SEQ_FLIP_PUSH_READY)
			 "add x12, x12, %[push]\n\t"
			 "str x12, [%[slot]]\n"
			 SEQ_END
			 : [result] "=&r"(result), [fill] "=&r"(fill), [was] "=&r"(was)
			 : SEQ_OPERANDS, [slot] "r"(slot), [object] "r"(object),
			   [push] "r"(WORD_PUSH), [twice] "i"(SEQ_TWICE)
			 : SEQ_CLOBBERS);
	if (result == SEQ_DONE)
		*jump = (int)fill - (int)was;
	return result;
}

/* Into x13 the address of sheaf[!which] of the open slot, else EMPTY. */
#define SEQ_OTHER                                                                                  \
	"tst x12, %[who]\n\t"                                                                      \
	"b.ne 9f\n\t"                                                                              \
	"ubfx x13, x12, %[which], #1\n\t"                                                          \
	"eor x13, x13, #1\n\t"                                                                     \
	"add x13, %[slot], x13, lsl #3\n\t"                                                        \
	"add x13, x13, #8\n\t"

/*
 * take_other: w open, else EMPTY; s = sheaf[!which], NULL: EMPTY;  COMMIT sheaf[!which] = NULL
 */
static inline enum seq_result rseq_take_other(unsigned cpu, struct percpu_slot *slot,
					      struct uslub_sheaf **sheaf)
{
	struct uslub_sheaf *s;
	unsigned result;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_TAKE_LOADED)
			 SEQ_OTHER
			 "ldr %[sheaf], [x13]\n\t"
			 "cbz %[sheaf], 9f\n\t"
			 SEQ_POINT(SEQ_TAKE_READY)
			 "str xzr, [x13]\n"
			 SEQ_END
			 : [result] "=&r"(result), [sheaf] "=&r"(s)
			 : SEQ_OPERANDS, [slot] "r"(slot)
			 : SEQ_CLOBBERS);
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
			 "ldar x12, [%[slot]]\n\t"
			 SEQ_POINT(SEQ_GIVE_LOADED)
			 SEQ_OTHER
			 "ldr x14, [x13]\n\t"
			 "cbnz x14, 9f\n\t"
			 SEQ_POINT(SEQ_GIVE_READY)
			 "str %[sheaf], [x13]\n"
			 SEQ_END
			 : [result] "=&r"(result)
			 : SEQ_OPERANDS, [slot] "r"(slot), [sheaf] "r"(sheaf)
			 : SEQ_CLOBBERS);
	return result;
}

/* add: COMMIT *counter += n */
static inline enum seq_result rseq_add(unsigned cpu, uint64_t *counter, uint64_t n)
{
	unsigned result;

	__asm__ volatile(SEQ_BEGIN SEQ_ON_CPU
			 "ldr x12, [%[counter]]\n\t"
			 "add x12, x12, %[n]\n\t"
			 SEQ_POINT(SEQ_ADD_READY)
			 "str x12, [%[counter]]\n"
			 SEQ_END
			 : [result] "=&r"(result)
			 : SEQ_OPERANDS, [counter] "r"(counter), [n] "r"(n)
			 : SEQ_CLOBBERS);
	return result;
}

/* clang-format on */

#endif /* USLUB_LINUX_PERCPU_AARCH64_H */
