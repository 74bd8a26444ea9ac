"""How much one message to the scheduler may carry: the rule for everything that a client cuts. (CLI-4, LIM-1)

A message has to fit by its count of tasks, by its payload and by its columns at once. The limits are those of the
present session: another scheduler, or the same one after a restart, may grant less than what a batch was made for, so
batches are cut when they leave and not only when they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import Limits, TaskHeader

BATCH_TASKS = 8_192
"""More in one message would hold up the scheduler's other peers and save nothing."""
BATCH_BYTES = 8 * 1024 * 1024

TASK_BYTES = 16 + 16 + 8
"""Columns of one task: its id, its function's id, and index, counts, flags and the size of its key."""
PART_BYTES = 5
"""Columns of one part: its size and its kind."""

TEXT_BYTES = 16
"""A text in a list: a pointer, and its bytes in words of eight."""
_ENVELOPE_BYTES = 1024
"""What an envelope has besides columns, keywords and capabilities."""

ONE_PART_BYTES = TASK_BYTES + PART_BYTES


class Bounds(NamedTuple):
    tasks: int
    payload_bytes: int
    column_bytes: int

    @property
    def ids(self) -> int:
        """In a message that has no other columns."""
        return self.column_bytes // ID_BYTES


def bounds_of(limits: Limits) -> Bounds:
    # The other half of an envelope is for the header, and for what the encoding adds.
    return Bounds(
        tasks=min(BATCH_TASKS, limits.batch_tasks),
        payload_bytes=min(BATCH_BYTES, limits.payload_frame_bytes),
        column_bytes=limits.envelope_bytes // 2,
    )


def has_room_for(header: TaskHeader, bounds: Bounds) -> bool:
    """What of a header can be long fits into the half of the envelope that has no columns."""
    names = (*header.keywords, *[one.name for one in header.capabilities])
    size = sum(TEXT_BYTES + 8 + len(name.encode()) for name in names)
    return size <= bounds.column_bytes - _ENVELOPE_BYTES


class Filling:
    """What a message in the making carries so far."""

    __slots__ = ("_bounds", "_column_bytes", "_payload_bytes", "_tasks")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._tasks = self._payload_bytes = self._column_bytes = 0

    def takes(self, tasks: int, payload_bytes: int, column_bytes: int) -> bool:
        """Add so much. False: that is more than fits, and nothing was added."""
        tasks += self._tasks
        payload_bytes += self._payload_bytes
        column_bytes += self._column_bytes
        most = self._bounds
        if tasks > most.tasks or payload_bytes > most.payload_bytes or column_bytes > most.column_bytes:
            return False
        self._tasks, self._payload_bytes, self._column_bytes = tasks, payload_bytes, column_bytes
        return True


def runs_of(weights: Sequence[tuple[int, int]], bounds: Bounds) -> Iterator[tuple[int, int]]:
    """Neighbouring tasks that fit into one message together, as (begin, end). Each task has a weight: the bytes of
    its payload and of its columns. A task that is too large for any message is a run of its own."""
    begin = 0
    filling = Filling(bounds)
    for index, (payload_bytes, column_bytes) in enumerate(weights):
        if not filling.takes(1, payload_bytes, column_bytes):
            if index > begin:
                yield begin, index
            begin, filling = index, Filling(bounds)
            filling.takes(1, payload_bytes, column_bytes)
    if weights:
        yield begin, len(weights)


def pieces_of(column: bytes, most_ids: int) -> Iterator[bytes]:
    """A column of ids, cut for messages that have no other columns, such as a Cancel."""
    for begin in range(0, len(column), ID_BYTES * most_ids):
        yield column[begin : begin + ID_BYTES * most_ids]
