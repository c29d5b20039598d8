/* SPDX-License-Identifier: MIT */
/*
 * A circular doubly linked list whose links lie inside the members. An unlinked member need not be
 * initialised; list_del() leaves it with itself on both sides.
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
	list_init(member);
}

#define list_entry(link, type, member) container_of(link, type, member)

#define list_for_each_entry(pos, head, member)                                                     \
	for (pos = list_entry((head)->next, __typeof__(*pos), member); &pos->member != (head);     \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

#define list_for_each_entry_safe(pos, tmp, head, member)                                           \
	for (pos = list_entry((head)->next, __typeof__(*pos), member),                             \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member);                          \
	     &pos->member != (head);                                                               \
	     pos = tmp, tmp = list_entry(tmp->member.next, __typeof__(*tmp), member))

#endif /* USLUB_BASE_LIST_H */
