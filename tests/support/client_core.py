"""A client's core under its invariants, with short ways to say events and to read actions."""

from __future__ import annotations

from scaler.client.core import canceling, invariants
from scaler.client.core.actions import (
    Action,
    Complete,
    Send,
)
from scaler.client.core.core import ClientCore
from scaler.client.core.events import (
    FLUSH,
    TICKED,
    Event,
)
from scaler.client.core.records import Outcomes, Submission
from scaler_protocol import codes, columns
from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Hello,
    Limits,
    Message,
    Results,
    Submit,
    TaskHeader,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received

SERVER = PeerId(b"server".ljust(16, b"."))
HELLO = Hello(1, 1, codes.ROLE_CLIENT, PeerId(b"client".ljust(16, b".")))
HEADER = TaskHeader()
OTHER = TaskHeader(priority=1)
FUNCTION = ObjectId(b"function".ljust(16, b"."))
FUNCTION_2 = ObjectId(b"function 2".ljust(16, b"."))
OBJECT = ObjectId(b"object".ljust(16, b"."))
GRAPH = GraphId(b"graph".ljust(16, b"."))
TIMEOUT = 60.0


def task(name: object) -> TaskId:
    return TaskId(str(name).encode().ljust(16, b"."))


class Waiter:
    """A collector that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Outcomes] = []

    def complete(self, outcomes: Outcomes) -> None:
        self.told.append(outcomes)


def call(
    *names: object,
    header: TaskHeader = HEADER,
    function: ObjectId = FUNCTION,
    collector: Waiter | None = None,
    owner: object = None,
    objects: tuple[ObjectId, ...] = (),
) -> Submission:
    datas = [str(name).encode() for name in names]
    return Submission(
        header=header,
        function=function,
        ids=tuple(task(name) for name in names),
        payload=b"".join(datas),
        part_sizes=tuple(map(len, datas)),
        collector=collector or Waiter(),
        owner=owner,
        objects=objects,
    )


def opened(limits: Limits | None = None) -> Opened:
    return Opened(SERVER, HELLO, Welcome(1, SERVER, 1, 1, limits=limits or Limits()))


def lost(
    code: int = codes.SHUTTING_DOWN, text: str = "", is_orderly: bool = False, silent_seconds: float = 0.0
) -> Lost:
    return Lost(SERVER, code, text, is_orderly, silent_seconds)


def succeeded(*names: object) -> Received:
    """Each task returns its own name."""
    datas = [str(name).encode() for name in names]
    ids = columns.join_ids(map(task, names))
    return Received(SERVER, 1, Results(ids, b"".join(datas), columns.join_u32([len(data) for data in datas])))


def ended(name: object, status: int, kind: int = codes.KIND_NONE, data: bytes = b"") -> Received:
    sizes = columns.join_u32([len(data)])
    return Received(SERVER, 1, Results(task(name), data, sizes, statuses=bytes((status,)), kinds=bytes((kind,))))


def answered(outcome: int, *names: object) -> Received:
    return Received(SERVER, 1, CancelReply(columns.join_ids(map(task, names)), bytes((outcome,)) * len(names)))


class Told:
    """A core under the invariants, and the clock."""

    def __init__(self, is_open: bool = True) -> None:
        self.core = ClientCore(timeout_seconds=TIMEOUT)
        self.now = 100.0
        if is_open:
            assert self(opened()) == []

    def __call__(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now)
        invariants.check(self.core)
        return actions

    def sent(self) -> list[Submit]:
        actions = self(FLUSH)
        messages = [action.message for action in actions if isinstance(action, Send)]
        assert len(messages) == len(actions)
        assert all(isinstance(message, Submit) for message in messages)
        return messages  # type: ignore[return-value]

    def gathered(self) -> list[Cancel]:
        """The Cancels that leave when no further one is asked for."""
        messages: list[Message] = []
        for _ in range(canceling.LOOKS):
            assert not messages, "all leave at the last look"
            deadline = self.core.next_deadline()
            assert deadline is not None, "nothing was gathered"
            self.now = max(self.now, deadline)
            messages = [action.message for action in self(TICKED) if isinstance(action, Send)]
        assert all(isinstance(message, Cancel) for message in messages)
        return messages  # type: ignore[return-value]

    def submit(self, *submissions: Submission) -> None:
        for submission in submissions:
            assert self(submission) == []


def names_in(submit: Submit) -> list[str]:
    return [one.rstrip(b".").decode() for one in columns.split_ids(submit.ids)]


def completions(actions: list[Action]) -> dict[TaskId, int]:
    """Task -> status, of everything that was completed."""
    found: dict[TaskId, int] = {}
    for action in actions:
        if isinstance(action, Complete):
            statuses = action.outcomes.statuses or bytes(len(action.outcomes.ids))
            for task_id, status in zip(action.outcomes.ids, statuses, strict=True):
                assert task_id not in found, "each task is told exactly once"
                found[task_id] = status
    return found
