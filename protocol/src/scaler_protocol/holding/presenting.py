"""What a worker holds outlives its scheduler: it is presented to the next one. (WRK-10, WRK-33 to WRK-40)

Theory of operation. When the session is lost, the worker cannot tell whether the scheduler has died or has given this
worker up. Until the next Welcome the worker goes on with what it has begun, begins nothing more, and keeps the results.
The Welcome tells: the same scheduler has given the tasks to other workers, so they are dropped here. Another scheduler
has not: Holding, the first message, presents all tasks to it, and results follow as if new.

Queued tasks wait until the scheduler has read Holding, which the first Delivered tells: another worker may have one of
them, with a later attempt, and then a Cancel comes first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from scaler_protocol.codes import HELD_ENDED, HELD_QUEUED, HELD_RUNNING, SESSION_REPLACED, STATUS_CANCELED
from scaler_protocol.columns import join_u16
from scaler_protocol.holding.kept_ends import KeptEnds
from scaler_protocol.holding.results import ResultCollector, Row
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import NO_PEER, Delivered, Holding, Limits
from scaler_protocol.records import dataclass
from scaler_protocol.session import Lost, Opened

FEATURE = "present-held"

MESSAGE_TASKS = 16_384
ROW_BYTES = 16 + 16 + 2 + 1 + 32 + 1
"""With a grant, when each task has another client."""


@dataclass(frozen=True, slots=True)
class _Held:
    task_id: TaskId
    attempt: int
    state: int
    client: PeerId
    grant: bytes


class Presenting:
    """What a worker knows of its present scheduler and of the one before. The tasks themselves are its own affair."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long tasks are kept for a successor of the scheduler; zero: not at all."""
        self._seconds = seconds
        #: the present session, or the last one, has the feature
        self.is_in_force = False
        #: tasks of the queue may begin: there is a session, and nothing is presented in it that its scheduler has not
        #: read
        self.may_begin = False
        #: set while what is held waits for another scheduler: until when
        self.until: float | None = None
        #: the highest that the scheduler of the present session has told (WRK-33)
        self.generation = 0
        #: how many workers the scheduler has told it has (HSK-37)
        self.worker_count = 0
        #: what was presented in this session may not be with the clients yet
        self.awaits_delivery = False
        #: with the scheduler: it has no successor that would be told anything
        self.is_shutting_down = False
        #: results that their clients may not have yet (WRK-40)
        self.kept = KeptEnds()

    def lost(self, event: Lost, now: float) -> bool:
        """True if what is held is kept, for a while. Otherwise no scheduler will want it, and the worker drops it."""
        self.may_begin = False
        if not self.is_in_force or self._seconds <= 0 or event.code == SESSION_REPLACED:
            return False
        self.until = now + self._seconds
        return True

    def drop(self) -> None:
        """The worker has dropped its tasks."""
        self.until = None
        self.kept.clear()

    def opened(
        self, event: Opened, tasks: Mapping[TaskId, Task], begun: Container[TaskId], results: ResultCollector
    ) -> list[Holding]:
        """The first messages of the session. If there are none, this scheduler is presented nothing: the worker drops
        what it has kept for another one."""
        welcome, previous = event.welcome, event.hello.last_server_id
        worker_count, self.worker_count = self.worker_count, 0
        self.is_in_force = FEATURE in welcome.features
        self.generation = welcome.generation
        self.may_begin = True
        self.awaits_delivery = False
        if not self.is_in_force or previous in (NO_PEER, welcome.server_id):
            return []
        self.may_begin = False
        self.until = None
        ended = self._ends(tasks, results)
        for row in ended:
            results.append(row)
        self.awaits_delivery = bool(ended or tasks)
        return list(_messages(_held(tasks, begun, ended), worker_count, welcome.limits))

    def _ends(self, tasks: Container[TaskId], results: ResultCollector) -> list[Row]:
        """How tasks have ended. A task that was tried again counts with its last attempt alone."""
        last = {row[0]: row for row in (*self.kept.take(), *results.take_rows())}
        ended = [row for task_id, row in last.items() if task_id not in tasks]
        return [row for row in ended if row[2] != STATUS_CANCELED and row[6] is not None]

    def delivered(self, message: Delivered, is_holding: bool) -> None:
        """`is_holding`: there are tasks, or results that were not sent."""
        self.kept.delivered(message.results_count)
        self.awaits_delivery = self.awaits_delivery and (is_holding or bool(self.kept))
        self.may_begin = True
        self.worker_count = message.worker_count

    def refuses(self, generation: int) -> str:
        """Why tasks of this generation are given back: another scheduler has followed on the one that dispatches them.
        Empty if they are taken. (WRK-33)"""
        if generation >= self.generation or not generation:
            return ""
        return f"tasks of generation {generation} are given back: generation {self.generation} has begun"

    def has_told(self, results: ResultCollector, is_connected: bool) -> bool:
        """No result waits for a scheduler. Results that may have died with a scheduler are told to its successor, and
        it has told the clients. (WRK-32)"""
        if self.kept and not self.is_shutting_down and (self.awaits_delivery or not is_connected):
            return False
        return is_connected or not len(results)


def _held(tasks: Mapping[TaskId, Task], begun: Container[TaskId], ended: Iterable[Row]) -> Iterator[_Held]:
    for task in tasks.values():
        state = HELD_RUNNING if task.id in begun else HELD_QUEUED
        yield _Held(task.id, task.attempt, state, task.header.client, task.header.owner_grant)
    for task_id, attempt, _, _, _, _, header in ended:
        assert header is not None, "else it is not told"
        yield _Held(task_id, attempt, HELD_ENDED, header.client, header.owner_grant)


def _messages(held: Iterable[_Held], worker_count: int, limits: Limits) -> Iterator[Holding]:
    rows = list(held)
    most = max(1, min(MESSAGE_TASKS, limits.batch_tasks, limits.envelope_bytes // (2 * ROW_BYTES)))
    for start in range(0, len(rows) or 1, most):
        part = rows[start : start + most]
        attempts, states = [row.attempt for row in part], bytes([row.state for row in part])
        grants = {row.client: row.grant for row in part}
        has_grants = any(grants.values())
        yield Holding(
            ids=b"".join([row.task_id for row in part]),
            attempts=join_u16(attempts) if any(attempt != 1 for attempt in attempts) else b"",
            states=states if any(states) else b"",
            clients=b"".join([row.client for row in part]),
            is_last=start + most >= len(rows),
            grants=b"".join(grants.values()),
            grant_sizes=bytes(map(len, grants.values())) if has_grants else b"",
            worker_count=worker_count,
        )
