"""How tasks ended, gathered until the round is over and then sent as one message."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.codes import KIND_NONE
from scaler_protocol.columns import PROFILE_BYTES, join_ids, join_u16, join_u32, most_results
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Limits, Results, TaskHeader

MESSAGE_BYTES = 16 * 1024 * 1024
"""Where a message is cut: well below the usual limit of a payload frame (FRM-5)."""
MESSAGE_TASKS = 16_384

Row = tuple[TaskId, int, int, int, bytes, bytes, TaskHeader | None]
"""Task, attempt, status, kind, value, profile or nothing, and where it is of use later, the header of the task."""


class ResultCollector:
    def __init__(self) -> None:
        #: of the present session (LIM-1)
        self.limits = Limits()
        self._rows: list[Row] = []
        self.append = self._rows.append
        """Add one row: bound once, because it is called for every task."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, task_id: TaskId) -> bool:
        return any(row[0] == task_id for row in self._rows)

    def add(
        self, task_id: TaskId, attempt: int, status: int, kind: int, value: bytes, header: TaskHeader | None = None
    ) -> None:
        self.append((task_id, attempt, status, kind, value, b"", header))

    def add_without_value(self, task_id: TaskId, attempt: int, status: int) -> None:
        self.append((task_id, attempt, status, KIND_NONE, b"", b"", None))

    def clear(self) -> None:
        self._rows.clear()

    def take_rows(self) -> list[Row]:
        """What no session has been sent."""
        rows = self._rows[:]
        self._rows.clear()
        return rows

    def take(self, credit: int) -> Iterator[Results]:
        """Everything gathered so far, in as few messages as the session takes."""
        return (message for message, rows in self.take_with_rows(credit))

    def take_with_rows(self, credit: int) -> Iterator[tuple[Results, list[Row]]]:
        """As `take`, and what went into each message."""
        rows = self._rows[:]
        self._rows.clear()
        if len(rows) == 1:
            yield _message_of_one(rows[0], credit), rows
            return
        tasks = min(MESSAGE_TASKS, most_results(self.limits))
        payload_bytes = min(MESSAGE_BYTES, self.limits.payload_frame_bytes)
        start = 0
        for end in _ends(rows, tasks, payload_bytes):
            part = rows[start:end]
            yield _message(part, credit), part
            start = end


def _ends(rows: list[Row], most_tasks: int, most_bytes: int) -> Iterator[int]:
    """Where to cut."""
    if len(rows) <= most_tasks and sum(len(row[4]) for row in rows) <= most_bytes:
        yield from (len(rows),) if rows else ()
        return
    start = size = 0
    for position, row in enumerate(rows):
        if position > start and (size + len(row[4]) > most_bytes or position - start == most_tasks):
            yield position
            start, size = position, 0
        size += len(row[4])
    yield len(rows)


def _message(rows: list[Row], credit: int) -> Results:
    """An empty column says "the default for all" (BAT-2): a batch of plain successes is ids and sizes."""
    ids, attempts, statuses, kinds, values, profiles, _ = zip(*rows, strict=True)
    return Results(
        ids=join_ids(ids),
        payload=b"".join(values),
        sizes=join_u32([len(value) for value in values]),
        attempts=b"" if attempts.count(1) == len(attempts) else join_u16(attempts),
        statuses=bytes(statuses) if any(statuses) else b"",
        kinds=bytes(kinds) if any(kinds) else b"",
        profiles=b"".join(p or bytes(PROFILE_BYTES) for p in profiles) if any(profiles) else b"",
        credit=credit,
    )


def _message_of_one(row: Row, credit: int) -> Results:
    task_id, attempt, status, kind, value, profile, _ = row
    return Results(
        task_id,
        value,
        join_u32((len(value),)),
        b"" if attempt == 1 else join_u16((attempt,)),
        bytes((status,)) if status else b"",
        bytes((kind,)) if kind else b"",
        profile,
        credit,
    )
