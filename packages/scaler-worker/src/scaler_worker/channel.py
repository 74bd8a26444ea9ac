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
from itertools import product
from struct import Struct
from typing import Any

from scaler_protocol.codes import (
    KIND_INLINE,
    KIND_OBJECT,
    LOG_PREPARATION,
    LOG_STDERR,
    LOG_STDOUT,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import PROFILE_BYTES
from scaler_protocol.ids import ID_BYTES
from scaler_worker.core.events import INTERRUPTED

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
_READ_HEAD = Struct("<I4sQQ")
"""The same, with the four small numbers as they stand: all that a processor may write there is in HEADS."""
_RESULT_KINDS = (KIND_INLINE, KIND_OBJECT)
HEADS: dict[bytes, tuple[int, int, int, int]] = {
    bytes(head): head
    for head in (
        *(
            (ENDED, *one)
            for one in product(
                (STATUS_SUCCESS, STATUS_FAILED, STATUS_REFUSED, INTERRUPTED), _RESULT_KINDS, (0, PROFILE_BYTES)
            )
        ),
        *((kind, 0, 0, 0) for kind in (READY, BLOCKED, RESUME_WANTED, GAVE_BACK, STACK, SAMPLES)),
        *((PRINTED, stream, 0, 0) for stream in (LOG_STDOUT, LOG_STDERR, LOG_PREPARATION)),
        *((FETCHED, 0, 0, family_bytes) for family_bytes in range(ID_BYTES + 1)),
    )
}
"""The kind, status or stream, value kind and profile bytes of each head that is allowed, by its four bytes. User code
can write anything to the channel. What goes on to the scheduler from here must be what a scheduler takes (BAT-2)."""
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
        add, unpack, head_bytes, heads = reports.append, _READ_HEAD.unpack_from, HEAD.size, HEADS
        position, size = 0, len(data)
        while size - position >= head_bytes:
            length, written, number, amount = unpack(data, position)
            head = heads.get(written)
            if head is None or length > LARGEST_BODY:
                raise ChannelError(f"a frame of {length} bytes, {_described(written)}", reports)
            kind, status, value_kind, profile_bytes = head
            begin = position + head_bytes
            end = begin + length
            if profile_bytes > length or (value_kind and length - profile_bytes != ID_BYTES):
                raise ChannelError(f"a frame of {length} bytes, {_described(written)}", reports)
            if end > size:
                break
            value_at = begin + profile_bytes
            add((kind, status, value_kind, number, amount, data[begin:value_at], data[value_at:end]))
            position = end
        self._kept = data[position:]
        return reports


def _described(written: bytes) -> str:
    kind, status, value_kind, profile_bytes = written
    return f"kind {kind}, status {status}, value kind {value_kind}, with {profile_bytes} bytes of profile"


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
    signal changes nothing. Behind them the processor itself writes which task it has begun last, and when, and how many
    bytes of values it keeps; the agent writes when it wants these back. Behind the slots is, for all processors, until
    when stacks are sampled.
    """

    _SLOT = Struct("=QQQQQQQ")
    _ORDERS, _BEGUN, _KEPT = Struct("=QQQ"), Struct("=QQ"), Struct("=QQ")
    _UNTIL = Struct("=Q")

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, self._SLOT.size * slots + self._UNTIL.size)
        self._until_at = self._SLOT.size * slots

    def write(self, slot: int, interrupt_number: int, reclaim_serial: int, stack_serial: int = 0) -> None:
        self._ORDERS.pack_into(self._memory, slot * self._SLOT.size, interrupt_number, reclaim_serial, stack_serial)

    def clear(self, slot: int) -> None:
        """For the next processor that gets this slot."""
        self._SLOT.pack_into(self._memory, slot * self._SLOT.size, *[0] * 7)

    def begun_cell(self, slot: int) -> memoryview:
        """Two numbers, for the processor to write: the task that it begins, and nanoseconds by `time.monotonic_ns`. The
        time is written first."""
        start = slot * self._SLOT.size + self._ORDERS.size
        return memoryview(self._memory)[start : start + self._BEGUN.size].cast("Q")

    def begun(self, slot: int) -> tuple[int, float]:
        """The number of the task that the processor has begun last, or 0, and when, in seconds."""
        number, at_ns = self._BEGUN.unpack_from(self._memory, slot * self._SLOT.size + self._ORDERS.size)
        return number, at_ns * 1e-9

    def kept_cells(self, slot: int) -> memoryview:
        """Returns two numbers: how many bytes of values the processor keeps, and whether they are wanted back."""
        start = slot * self._SLOT.size + self._ORDERS.size + self._BEGUN.size
        return memoryview(self._memory)[start : start + self._KEPT.size].cast("Q")

    def read(self, slot: int) -> tuple[int, int]:
        """Number of the task to interrupt and serial of the last reclaim."""
        number, serial, _ = self._ORDERS.unpack_from(self._memory, slot * self._SLOT.size)
        return number, serial

    def stack_serial(self, slot: int) -> int:
        """Of the last question for the stack; 0: none was asked."""
        serial: int = self._ORDERS.unpack_from(self._memory, slot * self._SLOT.size)[2]
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
