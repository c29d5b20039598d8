/* SPDX-License-Identifier: MIT */
/*
 * Machine files. A line is "name = value"; '#' begins a comment. Times are nanoseconds, or have a unit: ns,
 * us, ms. Every field must be there once, so that a file says all that a result depends on.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../uslub/tool.h"
#include "machine_file.h"

enum kind { NUMBER, TIME };

static const struct field {
	const char *name;
	enum kind kind;
	size_t offset;
	double most;
} fields[] = { { "cpus", NUMBER, offsetof(struct sim_machine, cpus), SIM_CPUS_MAX },
	       { "nodes", NUMBER, offsetof(struct sim_machine, nodes), SIM_NODES_MAX },
	       { "rcu_batch", NUMBER, offsetof(struct sim_machine, rcu_batch), 1000000 },
	       { "rcu_long", NUMBER, offsetof(struct sim_machine, rcu_long), 1000000 },
	       { "work_jitter", NUMBER, offsetof(struct sim_machine, work_jitter), 100 },
	       { "slab_frees", NUMBER, offsetof(struct sim_machine, slab_frees), 1 },
#define FIELD(name, help) { #name, TIME, offsetof(struct sim_machine, name), 1e12 },
	       SIM_COSTS(FIELD)
#undef FIELD
};

#define FIELDS TOOL_COUNT(fields)
#define BLANKS " \t\r\n"

static const struct field *find(const char *name, size_t length)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (strlen(fields[i].name) == length && !memcmp(fields[i].name, name, length))
			return &fields[i];
	return NULL;
}

static bool parse_time(const char *text, double *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 } };
	char *end;

	*ns = strtod(text, &end);
	if (end == text || !isfinite(*ns))
		return false;
	end += strspn(end, BLANKS);
	for (size_t i = 0; i < TOOL_COUNT(units); i++)
		if (!strcmp(end, units[i].name)) {
			*ns *= units[i].ns;
			return true;
		}
	return false;
}

char *machine_set(struct sim_machine *machine, const char *assignment)
{
	const char *equals = strchr(assignment, '=');
	size_t length = equals ? (size_t)(equals - assignment) : strlen(assignment);
	const struct field *field;
	char *at, *end;
	double value;

	while (length && strchr(BLANKS, assignment[length - 1]))
		length--;
	field = find(assignment, length);
	if (!field)
		return tool_format("there is no field '%.*s'", (int)length, assignment);
	if (!equals)
		return tool_format("field '%s' needs a value: %s = VALUE", field->name,
				   field->name);
	equals += 1 + strspn(equals + 1, BLANKS);
	at = (char *)machine + field->offset;
	if (field->kind == NUMBER) {
		value = strtod(equals, &end);
		if (end == equals || *end || !(value >= 0) || value > field->most ||
		    value != (double)(unsigned)value)
			return tool_format("field '%s' takes a whole number from 0 to %.0f, not "
					   "'%s'",
					   field->name, field->most, equals);
		*(unsigned *)at = (unsigned)value;
		return NULL;
	}
	if (!parse_time(equals, &value) || value < 0 || value > field->most)
		return tool_format("field '%s' takes a time in ns, us or ms, not '%s'", field->name,
				   equals);
	*(uint64_t *)at = (uint64_t)(value * (double)SIM_NS + 0.5);
	return NULL;
}

const char *machine_field(const struct sim_machine *machine, unsigned i, double *value)
{
	const char *at;

	if (i >= FIELDS)
		return NULL;
	at = (const char *)machine + fields[i].offset;
	*value = fields[i].kind == NUMBER ? *(const unsigned *)at
					  : (double)*(const uint64_t *)at / (double)SIM_NS;
	return fields[i].name;
}

static char *read_line(struct sim_machine *machine, char *line, bool *seen)
{
	const struct field *field;
	char *message;
	size_t length;

	line[strcspn(line, "#")] = '\0';
	line += strspn(line, BLANKS);
	for (length = strlen(line); length && strchr(BLANKS, line[length - 1]);)
		line[--length] = '\0';
	if (!length)
		return NULL;
	message = machine_set(machine, line);
	if (message)
		return message;
	field = find(line, strcspn(line, "=" BLANKS));
	if (seen[field - fields])
		return tool_format("field '%s' is there twice", field->name);
	seen[field - fields] = true;
	return NULL;
}

static char *read_file(FILE *file, const char *path, struct sim_machine *machine)
{
	bool seen[FIELDS] = { false };
	char line[256], *message, *with_line;

	for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
		if (!strchr(line, '\n') && !feof(file))
			return tool_format("%s:%u: the line is too long", path, number);
		message = read_line(machine, line, seen);
		if (message) {
			with_line = tool_format("%s:%u: %s", path, number, message);
			free(message);
			return with_line;
		}
	}
	if (ferror(file))
		return tool_format("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < FIELDS; i++)
		if (!seen[i])
			return tool_format("%s: field '%s' is missing", path, fields[i].name);
	message = machine_check(machine);
	if (!message)
		return NULL;
	with_line = tool_format("%s: %s", path, message);
	free(message);
	return with_line;
}

/*
 * Where the presets are: in USLUB_MACHINES; beside the program, where it was built; else where they are
 * installed. For the caller to free.
 */
static char *directory(void)
{
	const char *given = getenv("USLUB_MACHINES");
	char program[4096], *beside;
	ssize_t n;

	if (given)
		return tool_copy(given);
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n > 0) {
		program[n] = '\0';
		*strrchr(program, '/') = '\0';
		beside = tool_format("%s/sim/machines", program);
		if (!access(beside, R_OK | X_OK))
			return beside;
		free(beside);
	}
	return tool_copy(USLUB_MACHINES_DIR);
}

char *machine_path(const char *name)
{
	char *folder, *path;

	if (strchr(name, '/'))
		return tool_copy(name);
	folder = directory();
	path = tool_format("%s/%s.machine", folder, name);
	free(folder);
	return path;
}

char *machine_check(const struct sim_machine *machine)
{
	if (!machine->cpus || machine->cpus > SIM_CPUS_MAX)
		return tool_format("a machine has 1 to %u CPUs, not %u", SIM_CPUS_MAX,
				   machine->cpus);
	if (!machine->nodes || machine->nodes > SIM_NODES_MAX || machine->nodes > machine->cpus)
		return tool_format("a machine of %u CPUs has 1 to %u nodes, not %u", machine->cpus,
				   machine->cpus < SIM_NODES_MAX ? machine->cpus : SIM_NODES_MAX,
				   machine->nodes);
	return NULL;
}

char *machine_read(const char *name, struct sim_machine *machine)
{
	char *path, *message, *list;
	const char *base;
	FILE *file;

	memset(machine, 0, sizeof(*machine));
	path = machine_path(name);
	file = fopen(path, "r");
	if (!file && errno == ENOENT && !strchr(name, '/')) {
		list = machine_list();
		message = tool_format("there is no machine '%s'; the machines are: %s, or the path "
				      "of a machine file with a '/' in it",
				      name, list);
		free(list);
	} else if (!file) {
		message = tool_format("%s: %s", path, strerror(errno));
	} else {
		message = read_file(file, path, machine);
		fclose(file);
	}
	base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	snprintf(machine->name, sizeof(machine->name), "%.*s", (int)strcspn(base, "."), base);
	/* It goes into reports and pictures, where some characters mean something. */
	for (char *c = machine->name; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-_+", *c))
			*c = '_';
	free(path);
	return message;
}

static int is_machine(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".machine");
}

char *machine_list(void)
{
	struct dirent **entries;
	char *list = tool_copy(""), *folder = directory();
	int n = scandir(folder, &entries, is_machine, alphasort);

	for (int i = 0; i < n; i++) {
		char *longer = tool_format("%s%s%.*s", list, i ? ", " : "",
					   (int)strcspn(entries[i]->d_name, "."),
					   entries[i]->d_name);

		free(list);
		list = longer;
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	free(folder);
	return list;
}
