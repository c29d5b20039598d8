# SPDX-License-Identifier: MIT
"""The process that tests look at: target.c, and what it says of itself."""
import os
import signal
import subprocess
import time
from clitest import *

NOBODY = 65534
EXPORT_SIZE = 4 << 20


def target_program(static=False):
    return os.environ["TARGET_STATIC" if static else "TARGET"]


class Target:
    """Starts it with USLUB_EXPORT=1 unless told otherwise. `before` is a command that runs it."""

    def __init__(self, *, export="1", before=(), path=None, pass_fds=(), **env):
        if export is not None:
            env["USLUB_EXPORT"] = export
        self.process = subprocess.Popen([*before, path or target_program()], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        pass_fds=pass_fds, env=environment(**env))
        self.ready = self.process.stdout.readline().strip() == "ready"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def tell(self, *words):
        """Has it do something; returns what it answers."""
        reply = ""
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline().strip()
        except BrokenPipeError:
            pass
        check(reply and not reply.startswith("error"), f"the target does {' '.join(map(str, words))}: {reply}")
        return reply

    def end(self):
        """Ends it; returns what it wrote to stderr."""
        if self.process.stdout.closed:
            return ""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.wait()
        with self.process.stdout, self.process.stderr:
            return self.process.stderr.read()

    def wait(self):
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            return self.process.wait()

    def own(self, directory):
        """What it says of itself."""
        path = os.path.join(directory, "own.json")
        self.tell("snapshot", path)
        with open(path, encoding="utf-8") as f:
            return json.load(f)


def quiet_pair(target, directory, pid=None, without=()):
    """What the target says of itself, and what is seen of it, at a moment when nothing changed but `without`."""
    def own():
        document = target.own(directory)
        for c in document["caches"]:
            for name in without:
                c["values"].pop(name)
        return document
    before = own()
    for _ in range(50):
        seen, r = look(pid or target.pid)
        after = own()
        if before == after:
            break
        before = after
        time.sleep(0.01)
    check(before == after, "the target gets quiet")
    return after, seen, r


def look(pid, **env):
    """uslub snapshot --pid: the document, and the result."""
    r = uslub("snapshot", "--pid", str(pid), **env)
    try:
        return json.loads(r.out), r
    except ValueError:
        return {"host": {}, "caches": []}, r


def caches(document):
    return {c["name"]: c for c in document["caches"]}


def exporting(pid):
    """Whether a process has an export mapped; None when that cannot be seen."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            return "/memfd:uslub-export" in f.read()
    except OSError:
        return None


def export_fd(pid):
    """The number of the descriptor of its export, or None."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:uslub-export"):
                return int(fd)
        except OSError:
            pass
    return None


def as_nobody(*command, timeout=60, **env):
    """Runs a command as a user that owns nothing."""
    if os.getuid():
        raise Skip("only root can be another user")
    if not shutil.which("setpriv"):
        raise Skip("setpriv is not installed")
    p = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *command],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False,
                       env=environment(**env), stdin=subprocess.DEVNULL)
    return Result(command, p.returncode, p.stdout, p.stderr)
