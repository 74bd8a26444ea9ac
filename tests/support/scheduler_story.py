"""A scheduler core with invariants on after every event, and words to tell it stories in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from scaler_protocol.codec import encode
from scaler_protocol.codes import (
    CANCEL_CANCELED,
    KIND_INLINE,
    KIND_NONE,
    KIND_TASK,
    ROLE_CLIENT,
    ROLE_MANAGER,
    ROLE_WORKER,
    STATUS_CANCELED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import join_u16, join_u32, split_ids
from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import (
    NO_PEER,
    Cancel,
    CancelReply,
    Capability,
    Dispatch,
    Hello,
    KeptResults,
    Limits,
    ManagerOffer,
    ManagerStatus,
    ManagerTarget,
    Message,
    ProcessorStatus,
    Recall,
    Results,
    Returned,
    Submit,
    TaskHeader,
    Unit,
    Welcome,
    WorkerOffer,
    WorkerStatus,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_scheduler.core import (
    FEATURE_KEPT_RESULTS,
    FEATURE_RESULT_WINDOW,
    Action,
    Event,
    Policy,
    SchedulerCore,
    Send,
    SendToStorage,
    Settled,
    invariants,
)
from scaler_scheduler.core.entities.results import rows

FUNCTION = ObjectId(b"function".ljust(16, b"."))
RUNNING = 2  #: as in ProcessorStatus
WELCOME = Welcome(version=1, server_id=PeerId(b"scheduler".ljust(16, b".")), incarnation=1, session_id=1)


def peer(name: str) -> PeerId:
    return PeerId(name.encode().ljust(16, b"."))


def task(name: object) -> TaskId:
    return TaskId(str(name).encode().ljust(16, b"."))


def ids(names: Iterable[object]) -> bytes:
    return b"".join(task(name) for name in names)


def names(column: bytes) -> list[str]:
    return [task_id.rstrip(b".").decode() for task_id in split_ids(column)]


GRAPH = TaskHeader(graph_id=GraphId(task("graph")))


class Story:
    def __init__(self, policy: Policy | None = None) -> None:
        #: what the sessions keep for clients, because it is not acknowledged
        self.unacknowledged: Counter[PeerId] = Counter()
        #: of clients: the last message that they were sent, and have acknowledged
        self.progress: dict[PeerId, tuple[int, int]] = {}
        self.core = SchedulerCore(
            policy or Policy(),
            self.unacknowledged.__getitem__,
            progress=lambda one: self.progress.get(one, (0, 0)),
        )
        self.now = 0.0
        self.is_checked = True  #: after each event; with many tasks that takes long
        self._actions: list[Action] = []
        self._seq = 0

    # ------------------------------------------------------------ what happens

    def handle(self, event: Event) -> None:
        actions = self.core.handle(event, self.now)
        for action in actions:
            if isinstance(action, (Send, SendToStorage)):
                encode(action.message)  # every number fits its field (FRM-21)
        self._actions += actions
        if self.is_checked:
            invariants.check(self.core)

    def client(
        self,
        name: str,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        *,
        window: int = 0,
        is_told: bool = False,
        identity: Identity | None = None,
        share_weight: int = 100,
        parent: object = None,
    ) -> None:
        """`window`: it lets so many bytes of results be on their way to it; zero: it has not the feature. `is_told`: of
        results that are kept for its tasks. `parent`: the task in which it runs."""
        features = (FEATURE_RESULT_WINDOW,) if window else ()
        features += (FEATURE_KEPT_RESULTS,) if is_told else ()
        hello = Hello(1, 1, ROLE_CLIENT, peer(name), result_window_bytes=window, share_weight=share_weight)
        if parent is not None:
            hello = replace(hello, parent_task=task(parent))
        self.handle(Opened(peer(name), hello, replace(WELCOME, limits=limits, features=features), identity))

    def worker(
        self,
        name: str,
        credit: int = 10,
        reserve: int = 1,
        capabilities: dict[str, int] | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        unit: tuple[str, str] = ("", ""),
        *,
        features: tuple[str, ...] = (),
        code_tags: tuple[str, ...] = (),
        identity: Identity | None = None,
    ) -> None:
        """`unit`: names of the manager that started it, and of the unit."""
        manager_id = peer(unit[0]) if unit[0] else NO_PEER
        offer = WorkerOffer(name, _offered(capabilities), credit, reserve, manager_id, unit[1], code_tags)
        welcome = replace(WELCOME, limits=limits, features=features)
        self.handle(Opened(peer(name), Hello(1, 1, ROLE_WORKER, peer(name), worker=offer), welcome, identity))

    def manager(
        self,
        name: str,
        *,
        as_peer: str = "",
        workers_per_unit: int = 1,
        capabilities: dict[str, int] | None = None,
        identity: Identity | None = None,
    ) -> None:
        offer = ManagerOffer(peer(name), name, _offered(capabilities), workers_per_unit)
        peer_id = peer(as_peer or name)
        self.handle(Opened(peer_id, Hello(1, 1, ROLE_MANAGER, peer_id, manager=offer), WELCOME, identity))

    def has(
        self, manager: str, *, most: int = 8, trouble: str = "", workers: tuple[str, ...] = (), **units: int
    ) -> None:
        """A ManagerStatus: the state of each unit. `workers` are the names of those of each."""
        listed = tuple(Unit(unit_id, state, "", workers) for unit_id, state in units.items())
        self.receive(manager, ManagerStatus(0, most, listed, trouble))

    def lost(self, name: str, *, is_orderly: bool = False) -> None:
        self.handle(Lost(peer(name), 205, "silent for too long", is_orderly))

    def receive(self, name: str, message: Message) -> None:
        self._seq += 1
        self.handle(Received(peer(name), self._seq, message))

    def submit(self, name: str, tasks: Sequence[object], /, **header: object) -> None:
        sizes = join_u32([len(str(one)) for one in tasks])
        payload = "".join(map(str, tasks)).encode()
        self.receive(name, Submit(TaskHeader(**header), FUNCTION, ids(tasks), payload, sizes))  # type: ignore[arg-type]

    def submit_graph(
        self,
        client: str,
        graph: dict[str, Sequence[str]],
        *,
        unwanted: Iterable[str] = (),
        sealed: bool = True,
        header: TaskHeader = GRAPH,
        keys: Sequence[bytes] = (),
    ) -> None:
        """Every task takes the results of those it depends on, and nothing else."""
        edges = [other for others in graph.values() for other in others]
        without_result = set(unwanted)
        self.receive(
            client,
            Submit(
                header=header,
                functions=FUNCTION,
                ids=ids(graph),
                payload=ids(edges),
                part_counts=join_u16([len(others) for others in graph.values()]),
                part_kinds=bytes([KIND_TASK]) * len(edges),
                part_sizes=join_u32([16] * len(edges)),
                dependency_counts=join_u16([len(others) for others in graph.values()]),
                dependencies=ids(edges),
                task_flags=bytes(name in without_result for name in graph),
                is_graph_sealed=sealed,
                key_sizes=bytes(map(len, keys)),
                keys=b"".join(keys),
            ),
        )

    def results(
        self,
        worker: str,
        tasks: Sequence[object],
        *,
        status: int = STATUS_SUCCESS,
        kind: int = KIND_INLINE,
        value: bytes = b"value",
        attempt: int = 1,
        credit: int = 0,
    ) -> None:
        if status == STATUS_CANCELED:
            kind, value = KIND_NONE, b""
        count = len(tasks)
        self.receive(
            worker,
            Results(
                ids=ids(tasks),
                payload=value * count,
                sizes=join_u32([len(value)] * count),
                attempts=join_u16([attempt] * count) if attempt != 1 else b"",
                statuses=bytes([status]) * count if status else b"",
                kinds=bytes([kind]) * count if kind else b"",
                credit=credit,
            ),
        )

    def canceled(self, worker: str, tasks: Sequence[object], attempt: int = 1) -> None:
        """What a worker says about running tasks that it was told to cancel (CAN-4)."""
        self.results(worker, tasks, status=STATUS_CANCELED, attempt=attempt)
        self.receive(worker, CancelReply(ids=ids(tasks), outcomes=bytes([CANCEL_CANCELED]) * len(tasks)))

    def give(
        self,
        client: str,
        results: dict[str, bytes],
        *,
        kind: int = KIND_INLINE,
        unwanted: Iterable[str] = (),
        graph_id: GraphId = GRAPH.graph_id,
    ) -> None:
        """Results that the client has from another session."""
        without_result = set(unwanted)
        self.receive(
            client,
            KeptResults(
                ids=ids(results),
                payload=b"".join(results.values()),
                sizes=join_u32([len(value) for value in results.values()]),
                kinds=bytes([kind]) * len(results) if kind else b"",
                task_flags=bytes(name in without_result for name in results),
                graph_id=graph_id,
            ),
        )

    def cancel(self, client: str, tasks: Sequence[object]) -> None:
        self.receive(client, Cancel(ids=ids(tasks)))

    def runs(self, worker: str, *tasks: object) -> None:
        """A WorkerStatus: it has begun these."""
        processors = tuple(ProcessorStatus(state=RUNNING, task_id=task(one)) for one in tasks)
        self.receive(worker, WorkerStatus(processors=processors))

    def give_back(self, worker: str, tasks: Sequence[object]) -> None:
        self.receive(worker, Returned(ids=ids(tasks)))

    # ------------------------------------------------------------ what comes of it

    def work_off(self) -> None:
        """As many turns as all that has arrived takes. What leaves is kept for `settle` or `actions`."""
        self.handle(Settled())
        while self.core.tables.backlog or self.core.tables.placing_left <= 0:
            self.handle(Settled())

    def settle(self) -> list[str]:
        """Everything that leaves, one readable line per message."""
        self.handle(Settled())
        actions, self._actions = self._actions, []
        return [line(action) for action in actions]

    def actions(self) -> list[Action]:
        self.handle(Settled())
        actions, self._actions = self._actions, []
        return actions

    def is_empty(self) -> bool:
        return invariants.is_empty(self.core)


def _offered(capabilities: dict[str, int] | None) -> tuple[Capability, ...]:
    return tuple(Capability(key, amount) for key, amount in (capabilities or {}).items())


def line(action: Action) -> str:
    if isinstance(action, Send):
        return f"{action.peer_id.rstrip(b'.').decode()} <- {_message(action.message)}"
    if isinstance(action, SendToStorage):
        return f"storage <- {_message(action.message)}"
    return type(action).__name__


_STATUSES = ("", " failed", " canceled", " worker-lost", " processor-died", " timed-out", " refused")


def _message(message: Message) -> str:
    kind = type(message).__name__
    if isinstance(message, Dispatch):
        inputs = f" with {' '.join(names(message.input_ids))}" if message.input_ids else ""
        attempts = f" attempt {list(message.attempts[::2])}" if message.attempts else ""
        return f"Dispatch {' '.join(names(message.ids))}{inputs}{attempts}"
    if isinstance(message, Results):
        return "Results " + ", ".join(names(row.task_id)[0] + _STATUSES[row.status] for row in rows(message))
    if isinstance(message, CancelReply):
        words = ("canceled", "too-late", "unknown")
        outcomes = message.outcomes or bytes(len(message.ids) // 16)
        return "CancelReply " + ", ".join(f"{n} {words[o]}" for n, o in zip(names(message.ids), outcomes, strict=True))
    if isinstance(message, ManagerTarget):
        return f"Target {message.worker_count}" + (f" stop {' '.join(message.stop)}" if message.stop else "")
    if isinstance(message, (Cancel, Recall, KeptResults)):
        return f"{kind} {' '.join(names(message.ids))}"
    if hasattr(message, "owner"):
        released = f" {len(message.ids) // 16} objects" if hasattr(message, "ids") else ""
        return f"{kind} of {message.owner.rstrip(b'.').decode()}{released}"
    if hasattr(message, "clause"):
        return f"Error {message.code} ({message.clause})"
    return kind
