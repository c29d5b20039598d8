# SPDX-License-Identifier: MIT
"""Traces, read and written as docs/TRACE-FORMAT.md says, without the program's own reader."""
import struct

KINDS = ["malloc", "calloc", "aligned", "realloc", "free"]
HEADER = struct.Struct("<8sIIQQQQQ")
CHECKSUM = struct.Struct("<Q")
MAGIC = b"uslubtrc"


def checksum(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


def seal(data):
    """A trace without its checksum, with it."""
    return data + CHECKSUM.pack(checksum(data))


class Numbers:
    def __init__(self, data):
        self.data, self.at = data, 0

    def next(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value


class Trace:
    """header is a dictionary; events are tuples (kind, thread, object, size, alignment)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        self.data = data
        magic, version, threads, objects, events, peak, left, size = HEADER.unpack_from(data)
        self.header = {"threads": threads, "objects": objects, "events": events, "peak": peak, "left": left}
        self.good = (magic == MAGIC and version == 1 and len(data) == HEADER.size + size + CHECKSUM.size and
                     CHECKSUM.unpack(data[-8:])[0] == checksum(data[:-8]))
        numbers = Numbers(data[HEADER.size:-CHECKSUM.size])
        self.events = []
        thread = 0
        while numbers.at < len(numbers.data):
            head = numbers.next()
            kind = KINDS[head & 7]
            if head & 8:
                thread = numbers.next()
            align = 1 << numbers.next() if kind == "aligned" else 1
            size = numbers.next() if kind != "free" else 0
            self.events.append((kind, thread, head >> 4, size, align))

    def replayed(self):
        """What the header must say, by the events; asserts that no object is used while it is not there."""
        sizes, live, peak, threads, objects = {}, 0, 0, set(), 0
        for kind, thread, number, size, _ in self.events:
            threads.add(thread)
            assert (number in sizes) == (kind in ("realloc", "free")), (kind, number)
            live += size - sizes.pop(number, 0)
            if kind != "free":
                sizes[number] = size
            peak = max(peak, live)
            objects = max(objects, number + 1)
        self.left = list(sizes.values())
        return {"threads": len(threads), "objects": objects, "events": len(self.events), "peak": peak,
                "left": len(sizes)}


def number(value):
    data = b""
    while value > 0x7f:
        data += bytes([value & 0x7f | 0x80])
        value >>= 7
    return data + bytes([value])


def encode(events):
    """The bytes of events (kind, thread, object, size, alignment)."""
    data, before = b"", 0
    for kind, thread, name, size, align in events:
        other = thread != before
        data += number(name << 4 | (8 if other else 0) | KINDS.index(kind))
        if other:
            data += number(thread)
        if kind == "aligned":
            data += number(align.bit_length() - 1)
        if kind != "free":
            data += number(size)
        before = thread
    return data


def header(body, events, threads, objects, left, peak=0, version=1, magic=MAGIC, size=None):
    return HEADER.pack(magic, version, threads, objects, events, peak, left, len(body) if size is None else size)


def trace(events):
    """A whole trace of events."""
    body = encode(events)
    alive = set()
    for kind, _, name, _, _ in events:
        (alive.discard if kind == "free" else alive.add)(name)
    return seal(header(body, len(events), max(e[1] for e in events) + 1, max(e[2] for e in events) + 1,
                       len(alive)) + body)
