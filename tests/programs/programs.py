# SPDX-License-Identifier: MIT
"""What the tests with real programs share.

MALLOC in the environment is the malloc that the programs get: the path of a library, or nothing for the one that they
have. The library's own is preloaded by `uslub run`, any other by LD_PRELOAD. So every test can be run with any malloc:
it must pass with each that works, and fail with broken_malloc.c.
"""
import hashlib
import random
import signal
import socket
import time
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from clitest import *

OURS = "libuslub-malloc.so"
REPLACED = ("malloc", "free", "calloc", "realloc")

# A program that a faulty malloc has hung is killed after so many seconds.
LIMIT = int(os.environ.get("LIMIT", "100"))


def library():
    """The malloc to be preloaded, or None."""
    path = os.environ.get("MALLOC")
    if not path:
        return None
    if not os.path.exists(path):
        sys.exit(f"MALLOC: there is no {path}")
    return os.path.realpath(path)


def needed(*names, package):
    """The paths of programs; without one of them the test is skipped."""
    paths = [shutil.which(name) for name in names]
    for name, path in zip(names, paths):
        if not path:
            raise Skip(f"{name} is not installed (Debian: {package})")
    return paths


def with_malloc(args, by_run=True):
    """The command and the environment in which a program has the malloc."""
    path = library()
    if not path:
        return list(args), {}
    if by_run and os.path.basename(path) == OURS:
        return [program(), "run", "--", *args], {}
    return list(args), {"LD_PRELOAD": path}


class Program:
    """A program that runs; `plain` leaves it its own malloc, without `by_run` ours is preloaded as others are."""

    def __init__(self, args, *, plain=False, by_run=True, stdin=subprocess.DEVNULL, cwd=None, **env):
        command, preload = (list(args), {}) if plain else with_malloc(args, by_run)
        self.args = args
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
                                        env=environment(**preload, **env), start_new_session=True)

    def end(self, data=None, limit=LIMIT):
        """Waits for its end; returns the result, whose output is bytes."""
        try:
            out, err = self.process.communicate(data, timeout=limit)
            status = self.process.returncode
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.process.communicate()
            status = f"it did not end within {limit} s"
        return Result(self.args, status, out, err.decode("utf-8", "replace"))

    def kill(self):
        """All that it has started, too."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_program(*args, data=None, limit=LIMIT, **how):
    how.setdefault("stdin", subprocess.PIPE if data is not None else subprocess.DEVNULL)
    return Program(args, **how).end(data, limit)


def check_in_force(*args, **env):
    """That a program calls the malloc to be tested: what the dynamic loader says it binds these functions to.

    It is told to run something short, in the same way as the real thing."""
    path = library()
    if not path:
        return
    with tempfile.TemporaryDirectory() as directory:
        r = run_program(*args, LD_DEBUG="bindings", LD_BIND_NOW="1", LD_DEBUG_OUTPUT=os.path.join(directory, "log"),
                        limit=20, **env)
        lines = []
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as f:
                lines += f
    name = re.escape(os.path.basename(os.path.realpath(shutil.which(args[0])))) if os.path.sep not in args[0] else \
        re.escape(args[0])
    for symbol in REPLACED:
        found = {m.group(1) for line in lines
                 for m in [re.search(rf"binding file \S*{name} \[0\] to (\S+) \[0\]: normal symbol `{symbol}'", line)] if m}
        # A program that passes the address of a function on has a place for it, which leads to the same.
        others = {f for f in found - {path} if not re.search(rf"(^|/){name}$", f)}
        check(not others and (path in found or symbol in ("calloc", "realloc")),
              f"{args[0]} calls {symbol} of {path}: {found or 'it is not said'}", r)


def check_mapped(pid, name=None):
    """That a running process has the malloc to be tested, unless it has ended or runs a program of another name."""
    path = library()
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            maps = f.read()
        if path and name in (None, os.path.basename(os.readlink(f"/proc/{pid}/exe"))):
            check(path in maps, f"process {pid} has {path}")
    except OSError:
        pass


def pids_below(pid):
    """The processes that a process has started, and itself."""
    found = [pid]
    for one in found:
        try:
            with open(f"/proc/{one}/task/{one}/children", encoding="utf-8") as f:
                found += map(int, f.read().split())
        except OSError:
            pass
    return found
