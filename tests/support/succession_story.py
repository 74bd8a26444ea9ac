"""A scheduler that follows on another, and the peers that come from there. (SCH-59 to SCH-74)"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.codec import encode
from scaler_protocol.codes import HELD_RUNNING, ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity, Keyring
from scaler_protocol.messages import (
    Dispatch,
    Hello,
    Holding,
    Message,
    Results,
    Submit,
    TaskHeader,
    Timers,
    Welcome,
    WorkerOffer,
)
from scaler_protocol.session import Opened, Received
from scaler_scheduler.core import (
    FEATURE_PRESENT_HELD,
    Disconnect,
    Policy,
    SchedulerCore,
    Send,
    SendToStorage,
    Settled,
    invariants,
)
from tests.support.scheduler_story import FUNCTION, ids, names, peer, task

OWN = PeerId(b"scheduler".ljust(16, b"."))
FORMER = PeerId(b"predecessor".ljust(16, b"."))
TIMERS = Timers(heartbeat_seconds=2.0, lease_seconds=60.0)
WELCOME = Welcome(1, OWN, 1, 1, features=(FEATURE_PRESENT_HELD,), timers=TIMERS)
OPERATOR = "operator"


def identity_of(user: str) -> Identity:
    roles = frozenset({ROLE_CLIENT, ROLE_WORKER})
    return Identity(user, roles, is_operator=user == OPERATOR, holder=user.encode().ljust(32), expires=0.0)


class Story:
    def __init__(self, keyring: Keyring | None = None) -> None:
        self.keyring = keyring
        #: of each client: messages sent, and those it has acknowledged
        self.progress: dict[PeerId, tuple[int, int]] = {}
        self.core = SchedulerCore(
            Policy(),
            server_id=OWN,
            progress=lambda client_id: self.progress.get(client_id, (0, 0)),
            family_of=self.family_of,
        )
        self.now = 100.0
        #: how many workers each worker says there were
        self.counts: dict[str, int] = {}
        self.disconnected: list[bytes] = []
        self.asked: list[Message] = []

    def family_of(self, owner: PeerId, grant: bytes) -> bytes | None:
        return b"" if self.keyring is None else self.keyring.family_of(owner, grant)

    def grant(self, name: str, family: str = "") -> bytes:
        return b"" if self.keyring is None else self.keyring.grant(peer(name), peer(family) if family else b"")

    def opens(self, hello: Hello, user: str, grant: bytes = b"") -> None:
        identity = identity_of(user) if self.keyring is not None else None
        generation = self.core.meet(hello, is_operator=identity is None or identity.is_operator)
        terms = replace(WELCOME, generation=generation, owner_grant=grant)
        self.core.handle(Opened(hello.peer_id, hello, terms, identity), self.now)

    def client(
        self, name: str, *, former: PeerId = FORMER, generation: int = 1, user: str = "ana", family: str = ""
    ) -> None:
        features = (FEATURE_PRESENT_HELD,)
        hello = Hello(1, 1, ROLE_CLIENT, peer(name), features=features, generation=generation, last_server_id=former)
        self.opens(hello, user, self.grant(name, family))

    def worker(
        self, name: str, *, former: PeerId = FORMER, count: int = 0, credit: int = 5, user: str = OPERATOR
    ) -> None:
        hello = Hello(
            1, 1, ROLE_WORKER, peer(name), features=(FEATURE_PRESENT_HELD,), worker=WorkerOffer(name, credit=credit),
            generation=1, last_server_id=former,
        )  # fmt: skip
        self.counts[name] = count
        self.opens(hello, user)

    def submits(self, client: str, *tasks: str, parent: str = "") -> None:
        header = TaskHeader(parent_task=task(parent)) if parent else TaskHeader()
        self.receive(client, Submit(header, FUNCTION, ids(tasks), b"", join_u32([0] * len(tasks))))

    def holds(
        self,
        worker: str,
        *tasks: str,
        state: int = HELD_RUNNING,
        attempt: int = 1,
        is_last: bool = True,
        grant: bytes | None = None,
    ) -> None:
        """All of them were dispatched for `old`, which the worker proves."""
        count = len(tasks)
        attempts = join_u16([attempt] * count) if attempt > 1 else b""
        grant = self.grant("old") if grant is None else grant
        grant = grant if count else b""
        message = Holding(
            ids(tasks), attempts, bytes([state] * count), peer("old") * count, is_last, grant,
            bytes([len(grant)]) if grant else b"", self.counts[worker],
        )  # fmt: skip
        self.receive(worker, message)

    def ends(self, worker: str, name: str, *, kind: int = 0, value: bytes = b"value", attempt: int = 1) -> None:
        attempts = join_u16([attempt]) if attempt > 1 else b""
        self.receive(worker, Results(task(name), value, join_u32([len(value)]), attempts, kinds=bytes([kind])))

    def receive(self, name: str, message: Message) -> None:
        self.core.handle(Received(peer(name), 1, message), self.now)
        invariants.check(self.core)

    def settle(self, seconds: float = 0.0) -> dict[str, list[Message]]:
        """What each peer is sent after so long."""
        self.now += seconds
        sent: dict[str, list[Message]] = {}
        for action in self.core.handle(Settled(), self.now):
            if isinstance(action, (Send, SendToStorage)):
                encode(action.message)  # every number fits its field (FRM-21)
            if isinstance(action, Send):
                sent.setdefault(action.peer_id.rstrip(b".").decode(), []).append(action.message)
            elif isinstance(action, SendToStorage):
                self.asked.append(action.message)
            elif isinstance(action, Disconnect):
                self.disconnected.append(action.peer_id)
        invariants.check(self.core)
        return sent


def dispatched(messages: list[Message] | None) -> list[str]:
    return [name for one in messages or () if isinstance(one, Dispatch) for name in names(one.ids)]


def adopted(attempt: int = 1) -> Story:
    """A worker presents a task, and its client has come back for it."""
    story = Story()
    story.worker("w", count=1)
    story.holds("w", "t", attempt=attempt)
    story.client("c")
    story.submits("c", "t")
    story.settle()
    return story
