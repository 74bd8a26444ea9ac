"""What may be true of a scheduler: tasks, workers and clients, and for every message all its legal outcomes.

The model is told what the suite does (`submitted`, `reported`, …) and what it sees (`dispatched`, `ended`, …). Where
the specification leaves a choice it follows what it sees; where not, it says what is due, and `settled` compares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from scaler_conformance.play.ids import result_id
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Task

WAITING, QUEUED, DISPATCHED, CANCELING, ENDED = "waiting", "queued", "dispatched", "canceling", "ended"
CANCELED, TOO_LATE = CODES.CANCEL_CANCELED, CODES.CANCEL_TOO_LATE
#: Beyond this many lost workers no deployment runs a task again.
MOST_LOST = 12
_SAME_END = {
    CODES.STATUS_SUCCESS: "ended-success",
    CODES.STATUS_FAILED: "ended-failed",
    CODES.STATUS_CANCELED: "ended-canceled",
    CODES.STATUS_WORKER_LOST: "ended-lost",
    CODES.STATUS_PROCESSOR_DIED: "ended-failed",
    CODES.STATUS_TIMED_OUT: "ended-failed",
    CODES.STATUS_REFUSED: "ended-refused",
}


@dataclass(eq=False)
class ModelTask:
    task: Task
    client: bytes
    depth: int
    priority: int
    retries: int
    #: so many of its processors may die before it ends (SCH-75)
    processors_left: int
    needs: dict[str, int]
    is_unwanted: bool
    state: str = QUEUED
    attempt: int = 1
    worker: bytes = b""
    missing: set[bytes] = field(default_factory=set)
    cancels: int = 0
    lost_with: int = 0
    #: its worker has presented it
    is_adopted: bool = False
    #: its client's session has ended: nothing is said about it any more
    is_orphan: bool = False
    status: int = -1

    @property
    def id(self) -> bytes:
        return self.task.id


@dataclass(eq=False)
class ModelWorker:
    limit: int
    reserve: int
    offers: dict[str, int]
    held: dict[bytes, ModelTask] = field(default_factory=dict)

    def has_place(self, task: ModelTask) -> bool:
        room = self.limit + (self.reserve if task.depth else 0) - len(self.held)
        return room > 0 and self.fits(task)

    def fits(self, task: ModelTask) -> bool:
        """All capabilities, and enough of the counted ones beside what it holds (SCH-12)."""
        for name, amount in task.needs.items():
            offered = self.offers.get(name)
            if offered is None:
                return False
            used = sum(max(held.needs.get(name, 0), 0) for held in self.held.values())
            if offered >= 0 and amount > 0 and used + amount > offered:
                return False
        return True


class SchedulerModel:
    def __init__(self, edges: Counter[str]) -> None:
        self.tasks: dict[bytes, ModelTask] = {}
        self.workers: dict[bytes, ModelWorker] = {}
        self.clients: set[bytes] = set()
        #: due to each client: results as (task, status), replies as (task, outcome)
        self.results: Counter[tuple[bytes, bytes, int]] = Counter()
        self.replies: Counter[tuple[bytes, bytes, int]] = Counter()
        #: due to each worker: tasks it must be told to cancel
        self.told: Counter[tuple[bytes, bytes]] = Counter()
        #: tasks that may have ended WORKER_LOST, if the deployment allows no more
        self.maybe_lost: set[bytes] = set()
        self._edges = edges

    # ------------------------------------------------------------ what the suite does

    def _move(self, task: ModelTask, event: str, state: str) -> None:
        self._edges[f"task-at-scheduler: {task.state} | {event} | {state}"] += 1
        task.state = state if not state.startswith("ended") else ENDED

    def submitted(self, task: ModelTask) -> None:
        self.tasks[task.id] = task
        ended = {name for name in task.missing if self.tasks[name].state == ENDED}
        assert not ended, "the model depends on unfinished tasks only"
        task.state = "new"
        self._move(task, "accepted", WAITING if task.missing else QUEUED)

    def reported(self, worker: bytes, identifier: bytes, attempt: int, status: int) -> None:
        task = self.tasks.get(identifier)
        if (
            task is None
            or task.worker != worker
            or task.attempt != attempt
            or task.state not in (DISPATCHED, CANCELING)
        ):
            return  # SCH-6: dropped
        self._put_down(task)
        if task.state == DISPATCHED and self._is_tried_again(task, status):
            return
        self._end(task, status, "Results")

    def _is_tried_again(self, task: ModelTask, status: int) -> bool:
        if status == CODES.STATUS_PROCESSOR_DIED and task.processors_left > 1:
            task.processors_left -= 1
            event = "Results PROCESSOR_DIED, the limit of dead processors not reached"
        elif status in (CODES.STATUS_FAILED, CODES.STATUS_PROCESSOR_DIED) and task.retries:
            task.retries -= 1
            event = "Results FAILED or PROCESSOR_DIED, retries left"
        else:
            return False
        task.attempt += 1
        self._move(task, event, QUEUED)
        return True

    def presented(self, worker: bytes, identifier: bytes, attempt: int) -> None:
        """A worker of the scheduler before has this task, as this attempt."""
        task = self.tasks[identifier]
        if task.state == QUEUED:
            self._move(task, "a worker has presented it", DISPATCHED)
        elif task.state == DISPATCHED and task.is_adopted and attempt > task.attempt:
            self.told[task.worker, identifier] += 1
            self._put_down(task)
            self._move(task, "another worker presents it, with a higher attempt", DISPATCHED)
        else:
            self.told[worker, identifier] += 1
            return
        task.attempt, task.worker, task.is_adopted = attempt, worker, True
        self.workers[worker].held[identifier] = task
        self.maybe_lost.discard(identifier)

    def returned(self, worker: bytes, identifier: bytes) -> None:
        task = self.tasks.get(identifier)
        if task is None or task.worker != worker or task.state not in (DISPATCHED, CANCELING):
            return
        self._put_down(task)
        if task.state == CANCELING:
            self._end(task, CODES.STATUS_CANCELED, "Returned")
        else:
            self._move(task, "Returned", QUEUED)

    def canceled(self, client: bytes, identifier: bytes) -> int | None:
        """The outcome that is due at once, if any; the rest is noted."""
        task = self.tasks.get(identifier)
        if task is None or task.client != client or task.is_orphan or task.state == ENDED:
            return None
        task.cancels += 1
        if task.state in (WAITING, QUEUED):
            self._end(task, CODES.STATUS_CANCELED, "Cancel")
        elif task.state == DISPATCHED:
            self._move(task, "Cancel", CANCELING)
            self.told[task.worker, task.id] += 1
        else:
            self._move(task, "Cancel", CANCELING)
        return int(CANCELED)

    def worker_gone(self, worker: bytes, *, is_lost: bool) -> None:
        for task in list(self.workers.pop(worker).held.values()):
            task.worker, task.is_adopted = b"", False
            if task.state == CANCELING:
                self._end(task, CODES.STATUS_CANCELED, "its worker is lost or leaves")
                continue
            task.attempt += 1
            if is_lost:
                task.lost_with += 1
                self.maybe_lost.add(task.id)
            self._move(task, "its worker is lost or leaves", QUEUED)

    def client_gone(self, client: bytes) -> None:
        self.clients.discard(client)
        for task in [task for task in self.tasks.values() if task.client == client and task.state != ENDED]:
            task.is_orphan = True
            if task.state in (WAITING, QUEUED):
                self._move(task, "its client's session ends", "ended-canceled")
                task.status = CODES.STATUS_CANCELED
            elif task.state == DISPATCHED:
                self._move(task, "its client's session ends", CANCELING)
                self.told[task.worker, task.id] += 1
        for due in (self.results, self.replies):
            for key in [key for key in due if key[0] == client]:
                del due[key]

    def _put_down(self, task: ModelTask) -> None:
        self.workers[task.worker].held.pop(task.id, None)
        task.worker, task.is_adopted = b"", False

    # ------------------------------------------------------------ ends

    def _end(self, task: ModelTask, status: int, event: str) -> None:
        self._move(task, event, _SAME_END[status])
        task.status = status
        self.maybe_lost.discard(task.id)
        if not task.is_orphan:
            if not (task.is_unwanted and status == CODES.STATUS_SUCCESS):
                self.results[task.client, task.id, status] += 1
            outcome = CANCELED if status == CODES.STATUS_CANCELED else TOO_LATE
            self.replies[task.client, task.id, outcome] += task.cancels
        for other in [other for other in self.tasks.values() if other.state == WAITING and task.id in other.missing]:
            if status == CODES.STATUS_SUCCESS:
                other.missing.discard(task.id)
                if not other.missing:
                    self._move(other, "the last thing it waited for is there", QUEUED)
            else:
                is_canceled = status == CODES.STATUS_CANCELED
                end = CODES.STATUS_CANCELED if is_canceled else CODES.STATUS_REFUSED
                self._end(other, end, "a dependency was canceled" if is_canceled else "a dependency failed")

    # ------------------------------------------------------------ what the suite sees

    def lost(self, identifier: bytes) -> None:
        """A result WORKER_LOST has come: legal when a worker was lost with the task just now."""
        task = self.tasks[identifier]
        if identifier not in self.maybe_lost:
            raise Breach("a task ended WORKER_LOST, and no worker was lost with it", "SCH-7")
        task.state = DISPATCHED
        self._end(task, CODES.STATUS_WORKER_LOST, "its worker is lost, the limit reached")

    def dispatched(self, worker: bytes, given: Task, name: str) -> None:
        task = self.tasks.get(given.id)
        if task is None or task.state != QUEUED:
            state = task.state if task else "unknown"
            raise Breach(f"{name} was dispatched and is {state}", "CAN-6" if state == ENDED else "SCH-31")
        holder = self.workers[worker]
        if given.attempt != task.attempt:
            raise Breach(f"{name} was dispatched as attempt {given.attempt}, and {task.attempt} is its next", "SCH-5")
        if not holder.fits(task):
            text = f"{name} went to a worker without what it asks for, or with too little of it left"
            raise Breach(text, "SCH-12" if any(amount > 0 for amount in task.needs.values()) else "SCH-23")
        if not holder.has_place(task):
            held, limit = len(holder.held), holder.limit
            text = f"{name} (depth {task.depth}) went to a worker that holds {held} tasks; limit {limit}"
            raise Breach(f"{text}, reserve {holder.reserve}", "CRD-4" if holder.reserve else "CRD-1")
        if given.header["client"] != task.client:
            raise Breach(f"{name} was dispatched in another client's name", "SCH-3")
        self._check_inputs(task, given, name)
        holder.held[task.id] = task
        task.worker = worker
        self.maybe_lost.discard(task.id)
        self._move(task, "a worker has a place", DISPATCHED)

    def _check_inputs(self, task: ModelTask, given: Task, name: str) -> None:
        if given.parts != task.task.parts:
            raise Breach(f"the parts of {name} are others than its client's", "EVO-5")
        for kind, value in task.task.parts:
            if kind == CODES.KIND_TASK:
                needed = self.tasks[value]
                if given.inputs.get(value) != (CODES.KIND_INLINE, value_of(value, needed.attempt)):
                    raise Breach(f"{name} was dispatched without the value of a task it depends on", "SCH-17")

    def check_order(self, worker: bytes, given: list[Task], name: str) -> None:
        """Nothing more urgent that this worker could take stayed behind (SCH-9, SCH-10). Counted things aside."""
        tasks = [self.tasks[task.id] for task in given]
        holder = self.workers[worker]
        for task in tasks:
            for other in self.tasks.values():
                if other.state != QUEUED or any(amount > 0 for amount in {**other.needs, **task.needs}.values()):
                    continue
                if (other.depth, other.priority) > (task.depth, task.priority) and holder.fits(other):
                    clause = "SCH-9" if other.depth > task.depth else "SCH-10"
                    raise Breach(f"{name} was given a task while one of more depth or priority waited", clause)
        places = [(task.depth, task.priority) for task in tasks if not task.needs]
        if places != sorted(places, reverse=True):
            raise Breach(f"{name} was given tasks in the order {places} (depth, priority)", "SCH-9")

    def check_conservation(self) -> None:
        for task in self.tasks.values():
            if task.state == QUEUED and any(worker.has_place(task) for worker in self.workers.values()):
                raise Breach("a task is queued while a worker has a place for it", "SCH-25")
            if task.lost_with > MOST_LOST:
                raise Breach(f"a task was lost with {task.lost_with} workers and is still run again", "SCH-7")


def value_of(task: bytes, attempt: int) -> bytes:
    """What the suite's workers answer for a task."""
    return result_id(task, attempt)
