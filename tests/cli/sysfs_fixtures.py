# SPDX-License-Identifier: MIT
"""Trees as /sys/kernel/slab is one, in the forms of several generations of kernels.

tree() makes caches with drawn numbers; write() puts them on the disk. Each cache knows what must be read from it.
The lists are names of files. Those of 7.0 and of the patches that led there are certain; whether a 6.18 kernel
still has the five names in UNCERTAIN is not, so it has none of them here, and older ones have all.
"""
import os
import random

CONSTANTS = """aliases align cache_dma destroy_by_rcu hwcache_align min_partial object_size objs_per_slab order
    poison reclaim_account red_zone remote_node_defrag_ratio sanity_checks slab_size store_user trace usersize
    cpu_partial""".split()
GAUGES = "objects objects_partial partial slabs total_objects cpu_slabs".split()
TEXTS = {"ctor": "init_once+0x0/0x20\n", "shrink": "", "validate": ""}

COMMON_COUNTERS = """alloc_fastpath alloc_slowpath free_fastpath free_slowpath free_add_partial free_remove_partial
    alloc_slab alloc_node_mismatch free_slab order_fallback cmpxchg_double_fail""".split()
CPU_SLAB_COUNTERS = """alloc_from_partial alloc_refill cpuslab_flush deactivate_full deactivate_empty
    deactivate_remote_frees deactivate_bypass cmpxchg_double_cpu_fail cpu_partial_alloc cpu_partial_free
    cpu_partial_node cpu_partial_drain free_frozen""".split()
SHEAF_COUNTERS = """free_rcu_sheaf free_rcu_sheaf_fail sheaf_flush sheaf_refill sheaf_alloc sheaf_free barn_get
    barn_get_fail barn_put barn_put_fail sheaf_prefill_fast sheaf_prefill_slow sheaf_prefill_oversize
    sheaf_return_fast sheaf_return_slow""".split()
UNCERTAIN = ["deactivate_to_head", "deactivate_to_tail"]

COUNTERS = {
    "5.15": COMMON_COUNTERS + CPU_SLAB_COUNTERS + UNCERTAIN,
    "6.6": COMMON_COUNTERS + CPU_SLAB_COUNTERS + UNCERTAIN,
    "6.18": COMMON_COUNTERS + CPU_SLAB_COUNTERS + SHEAF_COUNTERS + ["alloc_cpu_sheaf", "free_cpu_sheaf"],
    "7.0": COMMON_COUNTERS + SHEAF_COUNTERS,
}
MORE_CONSTANTS = {
    "5.15": [],
    "6.6": ["skip_kfence", "failslab"],
    "6.18": ["skip_kfence", "sheaf_capacity"],
    "7.0": ["skip_kfence", "sheaf_capacity"],
}
CPU_SLABS = {"5.15", "6.6", "6.18"}
GENERATIONS = list(COUNTERS)


class Cache:
    """The files of a directory, and what they must be understood as: value, by node, by CPU."""

    def __init__(self):
        self.files, self.expected = dict(TEXTS), {}

    def set(self, name, value, nodes=None, cpus=None, text=None):
        shares = [f" N{i}={v}" for i, v in (nodes or {}).items()]
        shares += [f" C{i}={v}" for i, v in (cpus or {}).items()]
        self.files[name] = f"{value}{''.join(shares)}\n" if text is None else text
        self.expected[name] = (value, nodes or {}, cpus or {})


def spread(rng, places, most):
    """Shares of some places; as in the kernel's files none is 0."""
    return {i: rng.randint(1, most) for i in range(places) if rng.random() < 0.7}


def cache(rng, generation, stats=True, nodes=2, cpus=6, **constants):
    c = Cache()
    size = rng.choice([32, 64, 104, 256, 1000, 4096])
    values = {"aliases": 0, "align": 8, "object_size": size, "slab_size": size, "order": rng.randint(0, 3),
              "objs_per_slab": rng.randint(8, 64), "min_partial": 5, "cpu_partial": 52,
              "remote_node_defrag_ratio": 100, "sheaf_capacity": 32}
    values.update(constants)
    for name in CONSTANTS + MORE_CONSTANTS[generation]:
        c.set(name, values.get(name, 0))
    for name in GAUGES:
        shares = spread(rng, nodes, 10000)
        c.set(name, sum(shares.values()), nodes=shares)
    if generation in CPU_SLABS:
        slabs = spread(rng, cpus, 9)
        half = c.expected["objs_per_slab"][0] / 2
        c.set("slabs_cpu_partial", sum(slabs.values()), cpus=slabs,
              text=f"{int(sum(slabs.values()) * half)}({sum(slabs.values())})" +
              "".join(f" C{i}={int(n * half)}({n})" for i, n in slabs.items()) + "\n")
    else:
        c.set("cpu_slabs", 0)
        c.set("slabs_cpu_partial", 0, text="0(0)\n")
    for name in COUNTERS[generation] if stats else []:
        shares = spread(rng, cpus, 4294967295)
        c.set(name, sum(shares.values()), cpus=shares)
    return c


class Tree:
    """Caches by directory, and links by name: where each leads."""

    def __init__(self, caches, links):
        self.caches, self.links = caches, links

    def write(self, path):
        os.mkdir(path)
        for name, c in self.caches.items():
            os.mkdir(os.path.join(path, name))
            for file, text in c.files.items():
                with open(os.path.join(path, name, file), "wb") as f:
                    f.write(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
        for name, target in self.links.items():
            os.symlink(target, os.path.join(path, name))
        return path

    def write_followed(self, path):
        """As `cp -rL` makes it: directories in place of links."""
        whole = dict(self.caches)
        whole.update({name: self.caches[target] for name, target in self.links.items()})
        return Tree(whole, {}).write(path)

    def names(self):
        """What each cache must be called: {name: aliases}."""
        result = {}
        for directory in self.caches:
            links = sorted(name for name, target in self.links.items() if target == directory)
            if directory.startswith(":") and links:
                result[links[0]] = sorted(links[1:] + [directory])
            else:
                result[directory] = links
        return result


def tree(generation, seed=1, **options):
    rng = random.Random(f"{generation} {seed}")
    caches = {
        "maple_node": cache(rng, generation, align=256, object_size=256, slab_size=256, **options),
        "vm_area_struct": cache(rng, generation, destroy_by_rcu=1, object_size=168, slab_size=192, **options),
        "kmalloc-1k": cache(rng, generation, object_size=1024, slab_size=1024, usersize=1024, **options),
        ":A-0000256": cache(rng, generation, aliases=2, object_size=256, slab_size=256, **options),
        ":0000104": cache(rng, generation, aliases=0, object_size=104, slab_size=104, **options),
        # slab_debug: an object is larger than what was asked for
        "debugged": cache(rng, generation, object_size=64, slab_size=320, red_zone=1, poison=1, store_user=1,
                          sanity_checks=1, **options),
    }
    links = {"filp": ":A-0000256", "cred": ":A-0000256", "pid": ":A-0000256", "task_delay_info": ":0000104"}
    return Tree(caches, links)


SLABINFO = """slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
maple_node          1168   1200    256   16    1 : tunables    0    0    0 : slabdata     75     75      0
ext4 groupinfo 4k     28     28    144   28    4 : tunables    0    0    0 : slabdata      1      1      0
odd_pages              1      9    800    9    3 : tunables    0    0    0 : slabdata      1      1      0
"""
