"""The local channel between an agent and one processor: a socket pair with two small framings.

To the processor: u32 length, then `marshal` of a tuple whose first item says what it is. Both ends are the same
interpreter, forked from one process, and the agent is the trusted end, so the fastest writer of tuples is safe here.

From the processor: a fixed head, then a value. The agent never unpickles, and user code can write anything to any file
descriptor of its process, so this direction is plain numbers, checked, and a surprise costs the processor its life.
Each result is one write, made as soon as it exists: what a dying processor finished is in the socket.
"""

from __future__ import annotations

import marshal
import mmap
import socket
import time
from struct import Struct
from typing import Any

# To the processor. RUN: rows of (number, task id, attempt, context number, function, parts), and how often they take
# the results of which numbers. A row that does so has, for its parts, a list of these numbers and of its pieces, in
# which a piece of kind TASK has the number.
RUN = 1
CONTEXT = 2  # context number, client, call format, keywords, serializer, depth, priority, flags, result salt, grant,
# code set
RESUME = 3
RECLAIM = 4  # serial
CONFIGURE = 5  # scheduler address, storage address, inline bytes, seconds that objects are kept
CODE = 6  # family, id and bytes of a function or serializer that the next slice names: it need not be fetched
DEVICES = 7  # environment: shows its tasks their GPUs. Before its first slice, and never again

# From the processor.
ENDED = 1
READY = 2
BLOCKED = 3
RESUME_WANTED = 4
GAVE_BACK = 5
PRINTED = 6
FETCHED = 7  # family (as the profile), id and bytes of a function or serializer: the agent keeps it for the next one
STACK = 8  # where task `number` is in its code, as text, and the serial of the question
SAMPLES = 9  # trees of calls: where the time of tasks went since the SAMPLES before

HEAD = Struct("<IBBBBQQ")
"""Bytes that follow; what it is; status or stream; value kind; profile bytes; task number; nanoseconds or serial."""
SAMPLING_NS = 500_000_000
LARGEST_BODY = 4 * 1024 * 1024
RECEIVE_BYTES = 64 * 1024
"""For one read. From 128 KiB on, malloc maps pages for each read and unmaps them: 13 of the 15 µs that a small frame
took, twice on the way of each lone call. (decision 0017)"""

_LENGTH = Struct("<I")
_pack_length = _LENGTH.pack


def pack_order(*order: Any) -> bytes:
    """One frame to a processor."""
    body = marshal.dumps(order)
    return _pack_length(len(body)) + body


class OrderReader:
    """Cuts what a processor reads into orders. A task that unblocks reads on from where the main loop had got to."""

    def __init__(self) -> None:
        self._data = b""
        self._position = 0

    def append(self, data: bytes) -> None:
        self._data = self._data[self._position :] + data
        self._position = 0

    def next(self) -> tuple[Any, ...] | None:
        begin = self._position + _LENGTH.size
        if begin > len(self._data):
            return None
        end = begin + _LENGTH.unpack_from(self._data, self._position)[0]
        if end > len(self._data):
            return None
        self._position = end
        order: tuple[Any, ...] = marshal.loads(memoryview(self._data)[begin:end])
        return order


Report = tuple[int, int, int, int, int, bytes, bytes]
"""One frame from a processor: kind, status, value kind, task number, nanoseconds of an ENDED or serial of a GAVE_BACK
or STACK, profile, value."""


class ChannelError(Exception):
    """The processor wrote what it never should. `reports` are those that came before."""

    def __init__(self, text: str, reports: list[Report]) -> None:
        super().__init__(text)
        self.reports = reports


class ReportReader:
    """Cuts what an agent reads from a processor into reports."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> list[Report]:
        """Raises ChannelError."""
        if self._kept:
            data = self._kept + data
        reports: list[Report] = []
        add, unpack, head_bytes = reports.append, HEAD.unpack_from, HEAD.size
        position, size = 0, len(data)
        while size - position >= head_bytes:
            length, kind, status, value_kind, profile_bytes, number, amount = unpack(data, position)
            begin = position + head_bytes
            end = begin + length
            if length > LARGEST_BODY or profile_bytes > length or not ENDED <= kind <= SAMPLES:
                raise ChannelError(f"a frame of kind {kind} and {length} bytes", reports)
            if end > size:
                break
            value_at = begin + profile_bytes
            add((kind, status, value_kind, number, amount, data[begin:value_at], data[value_at:end]))
            position = end
        self._kept = data[position:]
        return reports


def pack_report(
    kind: int, number: int = 0, value: bytes = b"", status: int = 0, value_kind: int = 0, amount: int = 0,
    profile: bytes = b"",
) -> bytes:  # fmt: skip
    head = HEAD.pack(len(profile) + len(value), kind, status, value_kind, len(profile), number, amount)
    return head + profile + value


class SignalPage:
    """Memory that an agent shares with its processors: what a signal to one of them means.

    A signal carries no data and may come late, when the processor is at another task. So each processor has a slot with
    the number of the task to interrupt and the serials of the last reclaim and the last question for the stack: a late
    signal changes nothing. Behind the slots is, for all processors, until when stacks are sampled.
    """

    _SLOT = Struct("=QQQ")
    _UNTIL = Struct("=Q")

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, self._SLOT.size * slots + self._UNTIL.size)
        self._until_at = self._SLOT.size * slots

    def write(self, slot: int, interrupt_number: int, reclaim_serial: int, stack_serial: int = 0) -> None:
        self._SLOT.pack_into(self._memory, slot * self._SLOT.size, interrupt_number, reclaim_serial, stack_serial)

    def read(self, slot: int) -> tuple[int, int]:
        """Number of the task to interrupt and serial of the last reclaim."""
        number, serial, _ = self._SLOT.unpack_from(self._memory, slot * self._SLOT.size)
        return number, serial

    def stack_serial(self, slot: int) -> int:
        """Of the last question for the stack; 0: none was asked."""
        serial: int = self._SLOT.unpack_from(self._memory, slot * self._SLOT.size)[2]
        return serial

    @property
    def sample_until_ns(self) -> int:
        """By `time.monotonic_ns`, which all processes of a host share; 0: no stacks are sampled. (WRK-61)"""
        until: int = self._UNTIL.unpack_from(self._memory, self._until_at)[0]
        return until

    @sample_until_ns.setter
    def sample_until_ns(self, until: int) -> None:
        self._UNTIL.pack_into(self._memory, self._until_at, until)

    def sample_for(self, seconds: float) -> bool:
        """From now on; zero: not any more. True if each processor has to be signalled: one that samples already looks
        at its time again before it ends, unless that is about to happen."""
        now = time.monotonic_ns()
        is_sampling = self.sample_until_ns > now + SAMPLING_NS
        self.sample_until_ns = now + int(seconds * 1e9) if seconds else 0
        return seconds > 0 and not is_sampling


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """The agent's end, which never blocks, and the processor's."""
    agent_end, processor_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    agent_end.setblocking(False)
    return agent_end, processor_end
