"""Cancels on their way: gathered for a moment, then sent as few messages, then answered or given up.

A Cancel of a running task frees its place, and the scheduler gives a free place to the next task in line. If each
cancel of `for future in futures: future.cancel()` left by itself, the first would start a task that the second is about
to cancel, and so on: every one of them would begin. So cancels wait until none has been asked for during
`QUIET_SECONDS`, and leave together; the scheduler handles all of them before it fills the places that they free.

The clock alone does not tell that a loop has ended: where the whole process stood still (a collection of garbage, a
machine that was suspended), the loop stood still too. So the quiet time is divided into `LOOKS`, and ends after so many
looks that found no new cancel. However long the process stands still, that is one look.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler.client.core.batching import Bounds, pieces_of
from scaler.client.core.output import number_of
from scaler_protocol import columns
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Cancel

LONE_QUIET_SECONDS = 0.05
"""How long a single cancel waits for a second one."""

QUIET_SECONDS = 0.2
"""How long several cancels wait for another. On a busy machine a thread loses its processor in the middle of a loop for
more than 50 ms, and the loop shall count as one burst."""

LOOKS = 4
"""How many times in a row a look finds no new cancel, before those that were gathered leave."""

LONGEST_SECONDS = 2.0
"""How long cancels wait at most when others follow without a pause: a running task must not live on for ever."""

ANSWER_SECONDS = 30.0
"""How long beyond its grace a Cancel waits for its answer, before the task ends canceled without one. (CAN-2)"""

CANCEL_IDS = 16_384
"""Ids in one Cancel, where the session's envelopes allow it: a scheduler reads so many in a few milliseconds."""


class Cancels:
    def __init__(self) -> None:
        #: pending tasks that are being canceled, and until when the answer is waited for; oldest first
        self.waiting: dict[TaskId, float] = {}
        #: ids that have not been sent yet, by their grace
        self.gathered: dict[float, list[bytes]] = {}
        self._count = 0
        self._first_at = self._looked_at = 0.0
        self._looks = 0

    def ask(self, ids: Iterable[TaskId], column: bytes, grace_seconds: float, now: float) -> None:
        """These pending tasks shall end, and `column` is what to name in the Cancel: of a graph, all of its tasks."""
        if not self.gathered:
            self._first_at = now
        self._looked_at = now
        self._looks = 0
        self._count += len(column) // ID_BYTES
        self.gathered.setdefault(grace_seconds, []).append(column)
        answer_by = now + grace_seconds + ANSWER_SECONDS
        self.waiting.update(dict.fromkeys(ids, answer_by))

    def take(self, bounds: Bounds) -> list[Cancel]:
        """All that was gathered. When it takes several messages, the tasks submitted last are named first: the oldest
        are those that run, and their places are free only when the others cannot take them any more."""
        gathered, self.gathered = self.gathered, {}
        self._count = 0
        most_ids = min(CANCEL_IDS, bounds.ids)
        messages: list[Cancel] = []
        for grace_seconds, parts in gathered.items():
            column = b"".join(parts)
            if len(column) > ID_BYTES * most_ids:
                column = columns.join_ids(sorted(columns.split_ids(column), key=_number, reverse=True))
            messages += [Cancel(ids=ids, grace_seconds=grace_seconds) for ids in pieces_of(column, most_ids)]
        return messages

    def look(self, now: float) -> bool:
        """Whether all that was gathered leaves now."""
        look_at = self._look_at()
        if look_at is None or now < look_at:
            return False
        self._looked_at = now
        self._looks += 1
        return self._looks == LOOKS or now >= self._first_at + LONGEST_SECONDS

    def expired(self, now: float) -> list[TaskId]:
        """Those whose answer has not come in time."""
        found = []
        for task_id, answer_by in self.waiting.items():
            if answer_by > now:
                break
            found.append(task_id)
        return found

    def forget_unsent(self) -> None:
        """The session is over, and the next scheduler has none of these tasks."""
        self.gathered = {}
        self._count = 0

    def next_deadline(self) -> float | None:
        if self.gathered:
            return self._look_at()
        # Cancels wait equally long but for their grace, so the oldest is near enough the first to expire.
        return next(iter(self.waiting.values()), None)

    def _look_at(self) -> float | None:
        if not self.gathered:
            return None
        quiet_seconds = LONE_QUIET_SECONDS if self._count == 1 else QUIET_SECONDS
        return min(self._looked_at + quiet_seconds / LOOKS, self._first_at + LONGEST_SECONDS)


def _number(task_id: bytes) -> int:
    return number_of(TaskId(task_id))
