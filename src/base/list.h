/* SPDX-License-Identifier: MIT */
/*
 * A circular doubly linked list whose links lie inside the members. An unlinked member need not be
 * initialised; list_del() leaves it with itself on both sides. Whoever looks on while a thread stands still
 * in the midst of a change can follow `next` all around.
 */
#ifndef USLUB_BASE_LIST_H
#define USLUB_BASE_LIST_H

#include "base/base.h"

struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_insert(struct list *member, struct list *before, struct list *after)
{
	member->prev = before;
	member->next = after;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	before->next = member;
	after->prev = member;
}

static inline void list_add(struct list *head, struct list *member)
{
	list_insert(member, head, head->next);
}

static inline void list_add_tail(struct list *head, struct list *member)
{
	list_insert(member, head->prev, head);
}

static inline void list_del(struct list *member)
{
	member->prev->next = member->next;
	member->next->prev = member->prev;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	list_init(member);
}

#define list_entry(link, type, member) container_of(link, type, member)

#define list_for_each_entry(pos, head, member)                                                     \
	for (struct list *link_ = (head)->next;                                                    \
	     link_ != (head) && (pos = list_entry(link_, __typeof__(*pos), member), true);         \
	     link_ = link_->next)

/* The same where the body may unlink pos. */
#define list_for_each_entry_safe(pos, head, member)                                                \
	for (struct list *link_ = (head)->next, *next_ = link_->next;                              \
	     link_ != (head) && (pos = list_entry(link_, __typeof__(*pos), member), true);         \
	     link_ = next_, next_ = link_->next)

#endif /* USLUB_BASE_LIST_H */
