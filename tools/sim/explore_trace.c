/* SPDX-License-Identifier: MIT */
/*
 * What was done at each point, kept in a ring, and how it is printed.
 *
 * The core is compiled with -finstrument-functions here, so each thread's stack of functions is known at any
 * point, by name and whatever the compiler has inlined. Names and the build id come from the program's own
 * file.
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cache/internal.h"
#include "../uslub/tool.h"
#include "explore.h"

#define STACKS	    64u /* threads of a schedule, the checker's and the library's among them */
#define STACK_DEPTH 64u

/* ---- symbols -------------------------------------------------------------------------------------- */

struct symbol {
	uintptr_t address;
	size_t size;
	const char *name;
};

static struct symbol *symbols;
static size_t nsymbols;
static char build_id[64] = "unknown";
extern const char __executable_start[] __attribute__((visibility("hidden")));

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void read_build_id(const char *file, const Elf64_Shdr *s)
{
	const Elf64_Nhdr *note = (const void *)(file + s->sh_offset);
	const unsigned char *id = (const unsigned char *)(note + 1) + ((note->n_namesz + 3) & ~3u);

	if (note->n_type != NT_GNU_BUILD_ID)
		return;
	for (unsigned i = 0; i < note->n_descsz && 2 * i + 3 < sizeof(build_id); i++)
		snprintf(build_id + 2 * i, 3, "%02x", id[i]);
}

static void read_symbols(const char *file, const Elf64_Shdr *table, const Elf64_Shdr *strings,
			 uintptr_t base)
{
	const Elf64_Sym *sym = (const void *)(file + table->sh_offset);
	size_t n = table->sh_size / sizeof(*sym);

	symbols = tool_alloc(n, sizeof(*symbols));
	for (size_t i = 0; i < n; i++) {
		unsigned type = ELF64_ST_TYPE(sym[i].st_info);

		if ((type != STT_FUNC && type != STT_OBJECT) || !sym[i].st_value)
			continue;
		symbols[nsymbols].address = base + sym[i].st_value;
		symbols[nsymbols].size = sym[i].st_size;
		symbols[nsymbols++].name = file + strings->sh_offset + sym[i].st_name;
	}
	qsort(symbols, nsymbols, sizeof(*symbols), by_address);
}

void ex_trace_start(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const Elf64_Shdr *sections;
	const Elf64_Ehdr *header;
	struct stat st;
	uintptr_t base;
	const char *file;

	if (fd < 0 || fstat(fd, &st))
		return;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	header = (const void *)file;
	sections = (const void *)(file + header->e_shoff);
	base = header->e_type == ET_DYN ? (uintptr_t)__executable_start : 0;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_type == SHT_NOTE)
			read_build_id(file, &sections[i]);
		else if (sections[i].sh_type == SHT_SYMTAB)
			read_symbols(file, &sections[i], &sections[sections[i].sh_link], base);
	}
}

const char *ex_build_id(void)
{
	return build_id;
}

const void *ex_function(const char *name, size_t *at)
{
	for (size_t i = at ? *at : 0; i < nsymbols; i++)
		if (!strcmp(symbols[i].name, name)) {
			if (at)
				*at = i + 1;
			return (const void *)symbols[i].address;
		}
	return NULL;
}

static const struct symbol *symbol_at(uintptr_t address)
{
	size_t low = 0, high = nsymbols;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	if (!nsymbols || address < symbols[low].address ||
	    address - symbols[low].address >= max(symbols[low].size, (size_t)1))
		return NULL;
	return &symbols[low];
}

const char *ex_function_name(const void *address)
{
	const struct symbol *s = symbol_at((uintptr_t)address);

	return s ? s->name : "?";
}

/* ---- stacks of functions -------------------------------------------------------------------------- */

static struct {
	unsigned depth;
	const void *functions[STACK_DEPTH];
} stacks[STACKS + 1];

static unsigned stack_now(void)
{
	unsigned self = sim_self();

	return self < STACKS ? self : STACKS;
}

void __cyg_profile_func_enter(void *function, void *from);
void __cyg_profile_func_exit(void *function, void *from);

void __cyg_profile_func_enter(void *function, void *from)
{
	unsigned i = stack_now();

	(void)from;
	if (stacks[i].depth < STACK_DEPTH)
		stacks[i].functions[stacks[i].depth] = function;
	stacks[i].depth++;
	ex_probe_entered(function);
}

void __cyg_profile_func_exit(void *function, void *from)
{
	unsigned i = stack_now();

	(void)function;
	(void)from;
	if (stacks[i].depth)
		stacks[i].depth--;
}

const void *ex_now_in(void)
{
	unsigned i = stack_now(), depth = min(stacks[i].depth, STACK_DEPTH);

	return depth ? stacks[i].functions[depth - 1] : NULL;
}

bool ex_under(const void *function)
{
	return ex_thread_under(stack_now(), function);
}

bool ex_thread_under(unsigned i, const void *function)
{
	unsigned depth = min(stacks[i].depth, STACK_DEPTH);

	while (depth--)
		if (stacks[i].functions[depth] == function)
			return true;
	return false;
}

/* ---- the ring ------------------------------------------------------------------------------------- */

void ex_trace_point(enum sim_point point, const volatile void *what)
{
	struct ex_seen *s = &ex_shared->trace[ex_shared->ntrace++ % EX_TRACE_MAX];
	unsigned i = stack_now(), depth = min(stacks[i].depth, STACK_DEPTH);
	uint64_t offset = sim_offset(what);

	s->point = (uint8_t)point;
	s->thread = (uint8_t)i;
	s->cpu = (uint8_t)sim_cpu();
	s->in_memory = offset != UINT64_MAX;
	s->what = s->in_memory ? offset : (uint64_t)(uintptr_t)what;
	s->op = ex_op(i, &s->op_number);
	s->exchanged = s->aborted = s->straggled = false;
	s->child = sim_in_child();
	s->depth = (uint8_t)min(depth, EX_DEPTH);
	memcpy(s->functions, &stacks[i].functions[depth - s->depth],
	       s->depth * sizeof(*s->functions));
}

/* Something came of the point that the thread passed last, which is the last one of all. */
void ex_trace_event(enum sim_event event, uint64_t before, uint64_t after)
{
	struct ex_seen *s = &ex_shared->trace[(ex_shared->ntrace - 1) % EX_TRACE_MAX];

	if (!ex_shared->ntrace)
		return;
	s->before = before;
	s->after = after;
	s->exchanged |= event == SIM_EXCHANGED;
	s->aborted |= event == SIM_ABORTED;
	s->straggled |= event == SIM_STRAGGLED;
}

/* ---- what an address is --------------------------------------------------------------------------- */

static uint64_t pages_from = UINT64_MAX; /* of the descriptors in a segment */

/* Where descriptors lie, from an object of a cache that nobody else sees. */
void ex_trace_learn(void)
{
	struct uslub_cache *c = uslub_cache_create("learn", 1000, NULL);
	void *object = c ? uslub_cache_alloc(c, 0) : NULL;
	struct slab *slab;

	if (object) {
		slab = slab_of(&c->class, object);
		pages_from = ((uintptr_t)slab & (SEGMENT_SIZE - 1)) - 64ull * slab->index;
		uslub_cache_free(c, object);
	}
	uslub_cache_destroy(c);
}

#define IN(base, size) ((base) && (uintptr_t)p - (uintptr_t)(base) < (size))

static bool say_slot(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	size_t offset = (size_t)(p - (const char *)c->slots.first),
	       inside = offset % sizeof(struct pcs);
	const char *field = inside < 24 ? "main" : inside < 48 ? "rcu" : "inflight";

	if (!IN(c->slots.first, c->nslots * sizeof(struct pcs)))
		return false;
	snprintf(text, size, "slot %zu %s%s", offset / sizeof(struct pcs), field,
		 inside >= 48 || inside % 24 < 8 ? "" : " sheaf");
	return true;
}

static bool say_node(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	static const struct {
		size_t at;
		const char *name;
	} fields[] = {
		{ offsetof(struct node, list_lock), "list_lock" },
		{ offsetof(struct node, partial), "partial" },
		{ offsetof(struct node, nr_partial), "nr_partial" },
		{ offsetof(struct node, partial_objects), "partial_objects" },
		{ offsetof(struct node, nr_slabs), "nr_slabs" },
		{ offsetof(struct node, total_objects), "total_objects" },
		{ offsetof(struct node, deferred), "deferred" },
		{ offsetof(struct node, parked_empty), "parked_empty" },
		{ offsetof(struct node, free), "free" },
	};
	size_t offset = (size_t)(p - (const char *)c->nodes), inside = offset % sizeof(*c->nodes);
	unsigned f = 0;

	if (!IN(c->nodes, plat_nnodes() * sizeof(*c->nodes)))
		return false;
	while (f + 1 < array_size(fields) && fields[f + 1].at <= inside)
		f++;
	snprintf(text, size, "node %zu %s", offset / sizeof(*c->nodes), fields[f].name);
	return true;
}

static bool say_barn(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	size_t offset = (size_t)(p - (const char *)c->barns), inside = offset % sizeof(*c->barns);

	if (!IN(c->barns, plat_nnodes() * sizeof(*c->barns)))
		return false;
	snprintf(text, size, "barn %zu %s", offset / sizeof(*c->barns),
		 inside < offsetof(struct barn, max_full)   ? "lock"
		 : inside < offsetof(struct barn, nr_empty) ? "nr_full"
							    : "nr_empty");
	return true;
}

static bool say_shard(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	size_t offset = (size_t)(p - (const char *)c->shards), inside = offset % sizeof(*c->shards);

	if (!IN(c->shards, c->nshards * plat_nnodes() * sizeof(*c->shards)))
		return false;
	snprintf(text, size, "shard %zu %s", offset / sizeof(*c->shards),
		 inside < 8    ? "young"
		 : inside < 16 ? "old"
			       : "count");
	return true;
}

static bool say_counter(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	size_t word = (size_t)(p - (const char *)c->class.counters.words) / 8;

	if (!IN(c->class.counters.words, counters_bytes(&c->class.counters)))
		return false;
	snprintf(text, size, "counter %zu of slot %zu", word % c->class.counters.stride,
		 word / c->class.counters.stride);
	return true;
}

static bool say_cache(char *text, size_t size, const struct uslub_cache *c, const char *p)
{
	if (say_slot(text, size, c, p) || say_node(text, size, c, p) ||
	    say_barn(text, size, c, p) || say_shard(text, size, c, p) ||
	    say_counter(text, size, c, p))
		return true;
	if (!IN(c, sizeof(*c)))
		return false;
	snprintf(text, size, "%s",
		 IN(&c->close_lock, sizeof(c->close_lock)) ? "close_lock"
		 : IN(&c->rcu_queued, 8)		   ? "rcu_queued"
							   : "cache");
	return true;
}

static bool is_descriptor(const struct ex_seen *s, uint64_t *index, uint64_t *inside)
{
	uint64_t offset = s->what & (SEGMENT_SIZE - 1);

	if (!s->in_memory || offset < pages_from || offset >= BLOCK_SIZE)
		return false;
	*index = (offset - pages_from) / 64;
	*inside = (offset - pages_from) % 64;
	return true;
}

static void say_address(char *text, size_t size, const struct ex_seen *s, uintptr_t base)
{
	static const char *const names[] = { "kind", "state", "class", "base",
					     "link", "link",  "next",  "objects" };
	const char *p = (const char *)(s->in_memory ? base + s->what : s->what);
	const struct symbol *symbol;
	struct uslub_cache *c;
	uint64_t index, inside;
	char part[64];

	*text = '\0';
	if (!s->what)
		return;
	if (!s->in_memory) {
		symbol = symbol_at(s->what);
		if (symbol)
			snprintf(text, size, "%s+%zu", symbol->name,
				 (size_t)(s->what - symbol->address));
		else
			snprintf(text, size, "(elsewhere)");
		return;
	}
	list_for_each_entry(c, &registry, link)
		if (say_cache(part, sizeof(part), c, p)) {
			snprintf(text, size, "%s%s%s", c->internal ? c->name : "",
				 c->internal ? " " : "", part);
			return;
		}
	if (is_descriptor(s, &index, &inside))
		snprintf(text, size, "slab %" PRIu64 " %s", index, names[inside / 8]);
	else
		snprintf(text, size, "memory+%#" PRIx64, s->what);
}

static void say_state(char *text, size_t size, uint64_t s)
{
	static const char *const where[] = { "unlisted", "listed", "parked", "?" };

	snprintf(text, size, "%u used%s %s", state_inuse(s), state_head(s) ? "" : " (full)",
		 where[min((unsigned)state_where(s), 3u)]);
}

static void say_result(char *text, size_t size, const struct ex_seen *s)
{
	char before[40], after[40];
	uint64_t index, inside;

	*text = '\0';
	if (s->aborted)
		snprintf(text, size, "aborted");
	else if (s->straggled)
		snprintf(text, size, "committed though closed");
	else if (s->exchanged && is_descriptor(s, &index, &inside) && inside == 8) {
		say_state(before, sizeof(before), s->before);
		say_state(after, sizeof(after), s->after);
		snprintf(text, size, "%s -> %s", before, after);
	} else if (s->exchanged) {
		snprintf(text, size, "exchanged");
	}
}

void ex_trace_print(unsigned last)
{
	static const char *const points[SIM_POINTS] = { "load",	  "store",  "atomic",
							"lock",	  "unlock", "sequence",
							"commit", "yield",  "wait" };
	unsigned kept = min(ex_shared->ntrace, EX_TRACE_MAX), n = min(last, kept);
	char address[160], result[96], op[40];
	uintptr_t base;
	struct uslub_cache *caches[EX_CACHES_MAX];

	base = ex_caches(caches) ? (uintptr_t)caches[0] - (uintptr_t)sim_offset(caches[0]) : 0;
	printf("The last %u points (of %u):\n", n, ex_shared->ntrace);
	for (unsigned i = ex_shared->ntrace - n; i != ex_shared->ntrace; i++) {
		const struct ex_seen *s = &ex_shared->trace[i % EX_TRACE_MAX];

		say_address(address, sizeof(address), s, base);
		say_result(result, sizeof(result), s);
		if (s->op)
			snprintf(op, sizeof(op), "%s #%u", s->op, s->op_number);
		else
			snprintf(op, sizeof(op), "(reclaimer)");
		printf("%7u %s%-2u cpu%u  %-16s %-8s %-24s%s%s  ", i, s->child ? "t'" : "t",
		       s->thread, s->cpu, op, points[s->point], address, *result ? "  " : "",
		       result);
		for (unsigned d = 0; d < s->depth; d++)
			printf("%s%s", d ? " > " : "", ex_function_name(s->functions[d]));
		putchar('\n');
	}
}
