"""How tasks ended, gathered until the round is over and then sent as one message."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.codes import KIND_NONE
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Results

PROFILE_BYTES = 24
MESSAGE_BYTES = 16 * 1024 * 1024
"""Where a message is cut: well below the limit of a payload frame (FRM-5)."""
MESSAGE_TASKS = 16_384


class ResultCollector:
    def __init__(self) -> None:
        self._ids: list[TaskId] = []
        self._attempts: list[int] = []
        self._statuses = bytearray()
        self._kinds = bytearray()
        self._values: list[bytes] = []
        self._profiles: dict[int, bytes] = {}  #: by position: few tasks are profiled

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._ids

    def add(self, task_id: TaskId, attempt: int, status: int, kind: int, value: bytes, profile: bytes = b"") -> None:
        if profile:
            self._profiles[len(self._ids)] = profile
        self._ids.append(task_id)
        self._attempts.append(attempt)
        self._statuses.append(status)
        self._kinds.append(kind)
        self._values.append(value)

    def add_without_value(self, task_id: TaskId, attempt: int, status: int) -> None:
        self.add(task_id, attempt, status, KIND_NONE, b"")

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

    def take(self, credit: int) -> Iterator[Results]:
        """Everything gathered so far, as few messages as the limits allow."""
        start = 0
        for end in self._ends():
            yield self._message(start, end, credit)
            start = end
        self.clear()

    def _ends(self) -> Iterator[int]:
        start = size = 0
        for position, value in enumerate(self._values):
            if position > start and (size + len(value) > MESSAGE_BYTES or position - start == MESSAGE_TASKS):
                yield position
                start, size = position, 0
            size += len(value)
        if self._values:
            yield len(self._values)

    def _message(self, start: int, end: int, credit: int) -> Results:
        """An empty column says "the default for all" (BAT-2): a batch of plain successes is ids and sizes."""
        attempts = self._attempts[start:end]
        statuses = bytes(self._statuses[start:end])
        kinds = bytes(self._kinds[start:end])
        values = self._values[start:end]
        return Results(
            ids=join_ids(self._ids[start:end]),
            payload=b"".join(values),
            sizes=join_u32([len(value) for value in values]),
            attempts=b"" if attempts.count(1) == len(attempts) else join_u16(attempts),
            statuses=statuses if any(statuses) else b"",
            kinds=kinds if any(kinds) else b"",
            profiles=self._profile_column(start, end),
            credit=credit,
        )

    def _profile_column(self, start: int, end: int) -> bytes:
        if not any(start <= position < end for position in self._profiles):
            return b""
        return b"".join(self._profiles.get(position, bytes(PROFILE_BYTES)) for position in range(start, end))
