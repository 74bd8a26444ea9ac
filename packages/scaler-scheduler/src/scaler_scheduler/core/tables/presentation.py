"""What workers have presented, and no client has submitted yet: tables only, the rules are in `presenting`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import Duplicate
from scaler_protocol.records import dataclass
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.results import Row
from scaler_scheduler.core.entities.workers import Worker

TASKS_OF_A_WORKER = 1 << 17
"""One of ours holds a thousand tasks, and results of 65,536."""

TASKS_IN_ALL = 1 << 20
"""What is presented beyond that is stopped, and is run again if it is submitted. A task takes about 400 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """The object of an adopted task is being made its present client's. (SCH-70)"""

    request: Duplicate
    worker: Worker
    row: Row


@dataclass(slots=True, eq=False)
class Presented:
    """A task of a worker that no client has submitted in this life of the scheduler."""

    worker: Worker
    attempt: int
    is_ended: bool
    #: the client for which it was dispatched, which owns what the task stores
    owner: PeerId
    #: of that client, as its grant proves; empty where there are no keys (SCH-59)
    family: bytes = b""
    #: how it ended, once that is known
    row: Row | None = None


def _without_keys(owner: PeerId, grant: bytes) -> bytes | None:
    return b""


class Presentation:
    """All that was presented and not adopted."""

    def __init__(self) -> None:
        #: by task and family: with keys, what a worker presents is no obstacle for the tasks of other families
        self.tasks: dict[bytes, Presented] = {}
        #: the same, by the worker; no empty ones
        self.of_worker: dict[Worker, dict[TaskId, Presented]] = {}
        self.value_bytes = 0
        #: of an owner and its grant; None if this is not its grant
        self.family_of: Callable[[PeerId, bytes], bytes | None] = _without_keys
        #: workers that have not presented everything yet -> the credit they will then have
        self.expected: dict[Worker, tuple[int, int]] = {}
        #: adopted tasks, held by the worker that presented them -> who owns what they store
        self.owners: dict[TaskId, PeerId] = {}

        #: owner -> its tasks among these, of both kinds: what they store, or have stored, is not its client's yet
        self._pending: Counter[PeerId] = Counter()
        #: clients that have left while such tasks may store something for them, with their grants (SCH-73)
        self.departed: dict[PeerId, bytes] = {}

        #: request to the storage -> the end of an adopted task that waits for the answer
        self.claims: dict[int, Claim] = {}
        #: worker -> how many ends it has told that no client can be told yet: no client has submitted them, or a claim
        #: was not answered. The worker keeps them, because this scheduler may die as well. (SCH-76)
        self.untold: Counter[Worker] = Counter()
        #: some Results are to be confirmed that no count of ended tasks shows: their tasks had ended another way, or
        #: they are not untold any more
        self.has_other_results = False

        #: workers that have presented everything, and are to be told so
        self.has_presented: list[Worker] = []
        #: workers with the feature have come or gone (HSK-37); this, or some have presented everything
        self.has_changed_presenters = False
        self.has_news = False
        #: a worker has come from there and was lost before it had presented everything: it dials again
        self.has_broken_off = False
        #: workers that have tasks of a predecessor may still come (SCH-65)
        self.is_recovering = False
        #: then at the latest it is over
        self.recovering_until = 0.0
        #: clients that come from there, whose queued tasks are held until it is known who has which (SCH-65)
        self.recovering_clients: dict[Client, None] = {}

    def get(self, task_id: TaskId, family: bytes) -> Presented | None:
        return self.tasks.get(task_id + family)

    def of(self, worker: Worker, task_id: TaskId) -> Presented | None:
        """What this worker has presented of the task."""
        own = self.of_worker.get(worker)
        return None if own is None else own.get(task_id)

    def running_for(self, task_id: TaskId, user: str) -> Presented | None:
        """The task, if a worker of this user has presented it, and has not told how it ended. (SCH-74)"""
        for worker, own in self.of_worker.items():
            presented = own.get(task_id) if worker.user == user else None
            if presented is not None and not presented.is_ended:
                return presented
        return None

    def add(self, task_id: TaskId, presented: Presented) -> None:
        self.tasks[task_id + presented.family] = presented
        self.of_worker.setdefault(presented.worker, {})[task_id] = presented
        self._pending[presented.owner] += 1
        if not presented.is_ended:
            presented.worker.presented_count += 1

    def end(self, presented: Presented) -> None:
        """Its worker has told how it ended."""
        if not presented.is_ended:
            presented.is_ended = True
            presented.worker.presented_count -= 1

    def keep_row(self, presented: Presented, row: Row) -> None:
        """How it ended, until a client submits it. A worker may tell it more than once."""
        if presented.row is None:
            presented.row = row._replace(value=bytes(row.value))
            self.value_bytes += len(row.value)
            self.untold[presented.worker] += 1

    def claim(self, claim: Claim) -> None:
        self.claims[claim.request.request_id] = claim
        self.untold[claim.worker] += 1

    def take_claim(self, request_id: int) -> Claim:
        claim = self.claims.pop(request_id)
        self._tell(claim.worker)
        return claim

    def take(self, task_id: TaskId, presented: Presented) -> None:
        del self.tasks[task_id + presented.family]
        own = self.of_worker[presented.worker]
        del own[task_id]
        if not own:
            del self.of_worker[presented.worker]
        if presented.row is not None:
            self.value_bytes -= len(presented.row.value)
            self._tell(presented.worker)
        if not presented.is_ended:
            presented.worker.presented_count -= 1
        self._release(presented.owner)

    def own(self, task_id: TaskId, owner: PeerId) -> None:
        """The task is adopted; what it stores is this peer's."""
        self.owners[task_id] = owner
        self._pending[owner] += 1

    def disown(self, task_id: TaskId) -> PeerId | None:
        """The task has left the worker that presented it, or has ended there."""
        owner = self.owners.pop(task_id, None)
        if owner is not None:
            self._release(owner)
        return owner

    def is_full(self, worker: Worker) -> bool:
        """No more is taken of this worker, or of any."""
        return len(self.tasks) >= TASKS_IN_ALL or len(self.of_worker.get(worker, ())) >= TASKS_OF_A_WORKER

    def is_pending(self, owner: PeerId) -> bool:
        return owner in self._pending

    def unanswered(self) -> list[Duplicate]:
        """To be sent again in a new session with the storage."""
        return [claim.request for claim in self.claims.values()]

    def pending_owners(self) -> tuple[PeerId, ...]:
        return tuple([owner for owner in self._pending if any(owner)])

    def take_departed(self) -> list[tuple[PeerId, bytes]]:
        """Those whose objects no task needs any more, with their grants."""
        gone = [owner for owner in self.departed if owner not in self._pending]
        return [(owner, self.departed.pop(owner)) for owner in gone]

    def _tell(self, worker: Worker) -> None:
        self.untold[worker] -= 1
        if not self.untold[worker]:
            del self.untold[worker]
            self.has_other_results = self.has_news = True

    def _release(self, owner: PeerId) -> None:
        self._pending[owner] -= 1
        if not self._pending[owner]:
            del self._pending[owner]
