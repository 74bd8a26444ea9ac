"""Results that were sent and may have to be sent again, to a successor of the scheduler that got them. (WRK-40)"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaler_protocol.columns import PROFILE_BYTES, offsets, split_ids, split_u16, split_u32
from scaler_protocol.holding.results import Row
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Results, TaskHeader

KEPT_BYTES = 32 * 1024 * 1024
KEPT_TASKS = 65_536
"""What falls out of the ring is run again if the scheduler dies before its client has it."""
TASK_BYTES = 64
"""What a task takes besides its value, about."""


class _Sent(NamedTuple):
    message: Results
    headers: Sequence[TaskHeader | None]
    """Of its tasks, in their order; a single one if all of them have the same."""


class KeptEnds:
    """The latest Results messages of the session, oldest first. The scheduler counts them as they are counted here, and
    tells how many of them are with their clients."""

    def __init__(self) -> None:
        self._messages: deque[_Sent] = deque()
        self._bytes = 0
        self._tasks = 0
        #: how many were sent in this session, or dropped of it
        self._sent_count = 0

    def __len__(self) -> int:
        """Tasks."""
        return self._tasks

    def add(self, message: Results, rows: Sequence[Row]) -> None:
        """The message was sent, and these rows went into it."""
        self._sent_count += 1
        header = rows[0][6]
        is_one = all(row[6] is header for row in rows)
        self._messages.append(_Sent(message, (header,) if is_one else tuple([row[6] for row in rows])))
        self._bytes += _size_of(message)
        self._tasks += len(message.ids) // ID_BYTES
        while self._bytes > KEPT_BYTES or self._tasks > KEPT_TASKS:
            self._drop_first()

    def delivered(self, count: int) -> None:
        """The first so many of this session need not be kept. More than were sent are as many as were."""
        first = self._sent_count - len(self._messages)
        for _ in range(min(count - first, len(self._messages))):
            self._drop_first()

    def take(self) -> list[Row]:
        """All of it, as rows: another session begins, which counts anew."""
        rows = [row for sent in self._messages for row in _rows(*sent)]
        self.clear()
        return rows

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = self._tasks = self._sent_count = 0

    def _drop_first(self) -> None:
        message = self._messages.popleft().message
        self._bytes -= _size_of(message)
        self._tasks -= len(message.ids) // ID_BYTES


def _size_of(message: Results) -> int:
    return len(message.payload) + TASK_BYTES * len(message.ids) // ID_BYTES


def _rows(message: Results, headers: Sequence[TaskHeader | None]) -> Iterator[Row]:
    ids = split_ids(message.ids)
    attempts: Sequence[int] = split_u16(message.attempts) or (1,) * len(ids)
    statuses, kinds = message.statuses or bytes(len(ids)), message.kinds or bytes(len(ids))
    starts, payload = offsets(split_u32(message.sizes)), bytes(message.payload)
    for index, task_id in enumerate(ids):
        value = payload[starts[index] : starts[index + 1]]
        profile = message.profiles[PROFILE_BYTES * index : PROFILE_BYTES * (index + 1)]
        header = headers[index] if len(headers) > 1 else headers[0]
        yield TaskId(task_id), attempts[index], statuses[index], kinds[index], value, profile, header
