# SPDX-License-Identifier: MIT
"""What the tests of the command line share.

A test is a function whose name begins with test_. It runs the program and calls check(); run() calls all
of a script's and exits with 0, with 1 when a check failed, or with 77 when no test could run here.

The program's path is the script's first argument, or in the environment as USLUB.
"""
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PRELOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload")

# as short as a measurement can be: nearly all tests look at the form of the output
QUICK = ["--seconds", "0.05", "--repeat", "1"]

failures = 0
checks = 0
skips = []


class Skip(Exception):
    """The test cannot run here; the reason is the argument."""


def program():
    path = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("USLUB")
    if not path:
        sys.exit("which program? Give its path as an argument, or in USLUB")
    return os.path.abspath(path)


class Result:
    def __init__(self, args, status, out, err):
        self.args, self.status, self.out, self.err = args, status, out, err

    def __str__(self):
        return (f"uslub {' '.join(self.args)}\nexit status {self.status}\n--- stdout\n{self.out[:3000]}"
                f"\n--- stderr\n{self.err[:3000]}")


def environment(**env):
    """The environment of this process without what would change the output, and with `env`."""
    result = {k: v for k, v in os.environ.items()
              if k not in ("COLUMNS", "NO_COLOR", "USLUB_POLICY", "LD_PRELOAD")}
    result.update(env)
    return result


def uslub(*args, timeout=60, **env):
    p = subprocess.run([program(), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=timeout, env=environment(**env), stdin=subprocess.DEVNULL)
    return Result(args, p.returncode, p.stdout, p.stderr)


def on_terminal(*args, columns=100, stdout=True, **env):
    """Runs the program with a terminal as stderr, and as stdout too unless told otherwise."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    p = subprocess.Popen([program(), *args], stdin=subprocess.DEVNULL, stderr=slave,
                         stdout=slave if stdout else subprocess.DEVNULL,
                         env=environment(TERM="xterm", **env))
    os.close(slave)
    text = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        text += chunk
    os.close(master)
    return Result(args, p.wait(), text.decode(), "")


def bench_json(*args, **env):
    """Runs bench with --format json; returns the document and the result."""
    r = uslub("bench", *args, "--format", "json", **env)
    try:
        return json.loads(r.out), r
    except ValueError as e:
        check(False, f"JSON cannot be read: {e}", r)
        return {"runs": []}, r


def check(good, what, result=None):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print(f"FAIL: {what}")
        if result is not None:
            print(result)
    return good


def expect(result, status, *patterns, err=(), empty_out=False):
    """Checks exit status, patterns in the output, patterns in the messages."""
    check(result.status == status, f"exit status {status}", result)
    for p in patterns:
        check(re.search(p, result.out, re.M), f"the output has /{p}/", result)
    for p in err:
        check(re.search(p, result.err, re.M), f"the messages have /{p}/", result)
    if empty_out:
        check(result.out == "", "nothing on standard output", result)


def definitions(path, macro):
    """The first arguments of all uses of a macro in a .def file, and its other arguments as text."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return re.findall(r"^" + macro + r"\(\s*\"?([\w-]+)\"?,\s*([^)]*)", text, re.M)


def workloads():
    return [name for name, _ in definitions("workloads/workloads.def", "WORKLOAD")]


def statistics():
    return [name for name, _ in definitions("include/uslub/stats.def", "USLUB_STAT")]


def sanitized():
    """Whether the program was built with a sanitizer, which brings a malloc of its own."""
    return uslub("bench-worker", "--probe", "--allocator=glibc").status != 0


def installed(name):
    return uslub("bench", "pair", *QUICK, "--allocator", name).status == 0


def compiler():
    """The words of the command that compiles C."""
    found = os.environ.get("CC", "").split() or [shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")]
    if not found[0]:
        raise Skip("there is no C compiler")
    return found


def compile_library(name, directory):
    """Builds preload/NAME.c; returns the path of the shared library."""
    library = os.path.join(directory, f"lib{name}.so")
    subprocess.run([*compiler(), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-fPIC",
                    "-shared", "-I", os.path.join(ROOT, "include"), "-o", library,
                    os.path.join(PRELOAD, name + ".c"), "-ldl"], check=True)
    return library


def run(tests):
    """Runs the tests of a script: pass it globals()."""
    ran = 0
    for name, test in list(tests.items()):
        if not name.startswith("test_"):
            continue
        before = failures
        try:
            with tempfile.TemporaryDirectory() as directory:
                if test.__code__.co_argcount:
                    test(directory)
                else:
                    test()
            ran += 1
            print(f"{'ok' if failures == before else 'not ok'} {name[5:]}")
        except Skip as e:
            skips.append(name)
            print(f"skipped {name[5:]}: {e}")
    print(f"{checks} checks, {failures} failed, {len(skips)} tests skipped")
    sys.exit(1 if failures else 0 if ran else 77)
