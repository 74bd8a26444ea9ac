"""Whatever another user's peers send, a user's client and worker are sent the same, and its objects stay.

Two schedulers are sent the same by ana's peers: her client, and the worker of her pool. One of them is also sent what
joe's peers send. Joe has a ticket of each role and knows all of ana's ids. The messages are made from the table of what
each role may send, so a kind of message that is added to the table, and not here, fails the test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.scheduler_story import FUNCTION, WELCOME, Story, peer, task

from scaler_protocol.codes import (
    KIND_INLINE,
    KIND_OBJECT,
    ROLE_CLIENT,
    ROLE_MANAGER,
    ROLE_MONITOR,
    ROLE_WORKER,
    UNIT_RUNNING,
    UNIT_STOPPING,
)
from scaler_protocol.columns import join_u16, join_u32, split_ids
from scaler_protocol.ids import GraphId, PeerId, TaskId
from scaler_protocol.keys import Identity, Keyring, families_of
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Capability,
    Control,
    Credit,
    Dispatch,
    DumpRequest,
    Explain,
    Explanation,
    GraphRequest,
    Hello,
    Holding,
    KeptResults,
    ManagerStatus,
    Message,
    NameFunctions,
    ProcessorStatus,
    Results,
    Returned,
    Shutdown,
    SnapshotRequest,
    StackReply,
    StackRequest,
    Submit,
    TaskHeader,
    TaskLog,
    Unit,
    Watch,
    WorkerStatus,
)
from scaler_protocol.session import Opened
from scaler_scheduler.core import ALLOWED_MESSAGES, Policy, Send, SendToStorage

ANA, JOE = "ana", "joe"
KEYRING = Keyring([bytes(32)])
GRAPH = GraphId(task("graph"))
Draw = Callable[[st.SearchStrategy[Any]], Any]


def identity(user: str) -> Identity:
    return Identity(user, frozenset({ROLE_CLIENT, ROLE_WORKER}), is_operator=False, holder=user.encode().ljust(32))


def pool(user: str) -> tuple[Capability, ...]:
    return (Capability(f"user:{user}", -1),)


class World(Story):
    """A scheduler with both users in it, and what ana's peers and the storage were sent in her name."""

    def __init__(self) -> None:
        super().__init__(Policy(allows_control=True))
        self.core.tables.lend = lambda owner, family, user: KEYRING.lend(owner, family[:16].ljust(16), user, 0)
        self.sent: defaultdict[str, list[Message]] = defaultdict(list)
        for user in (ANA, JOE):
            self.join(user)
        self.manager("manager of joe", identity=identity(JOE))
        monitor_id = peer("monitor of joe")
        self.handle(Opened(monitor_id, Hello(1, 1, ROLE_MONITOR, monitor_id), WELCOME, identity(JOE)))
        self.note()

    def join(self, user: str) -> None:
        self.client(user, identity=identity(user))
        self.core.tables.clients[peer(user)].grant = f"grant of {user}".encode().ljust(16)
        self.worker(f"worker of {user}", credit=3, identity=identity(user))

    def note(self) -> None:
        self.work_off()
        for action in self.actions():
            if isinstance(action, Send):
                self.sent[action.peer_id.rstrip(b".").decode()].append(_without_names(action.message))
            elif isinstance(action, SendToStorage) and getattr(action.message, "owner", b"") == peer(ANA):
                self.sent["storage"].append(replace(action.message, request_id=0))  # type: ignore[type-var]


def _without_names(message: Message) -> Message:
    """What functions are called is for people, and shared by all users (chapter 18)."""
    return replace(message, function_name="") if isinstance(message, Explanation) else message


def batch(user: str, ids: list[TaskId], needs: list[TaskId], **header: Any) -> Submit:
    """Tasks that each take the results of these, if there are any."""
    count = len(ids)
    edges = b"".join(needs) * count
    return Submit(
        TaskHeader(capabilities=pool(user), result_salt=user.encode().ljust(16), **header),  # type: ignore[arg-type]
        FUNCTION,
        b"".join(ids),
        b"x" * count,
        join_u32([1] * count),
        dependency_counts=join_u16([len(needs)] * count) if needs else b"",
        dependencies=edges,
        is_graph_sealed=not needs,
    )


def ended(draw: Draw, ids: list[TaskId]) -> Results:
    kind = draw(st.sampled_from([KIND_INLINE, KIND_OBJECT]))
    attempt = draw(st.integers(1, 3))
    value = bytes(draw(st.sampled_from(ids)))
    count = len(ids)
    return Results(
        b"".join(ids),
        value * count,
        join_u32([16] * count),
        attempts=join_u16([attempt] * count) if attempt > 1 else b"",
        kinds=bytes([kind]) * count if kind else b"",
        credit=draw(st.integers(0, 3)),
    )


def submitted(draw: Draw, ids: list[TaskId]) -> Submit:
    own = [TaskId(task(f"joe {draw(st.integers(0, 5))}"))]
    needs = draw(st.sampled_from([[], ids[:1]]))
    header: dict[str, Any] = {
        "depth": draw(st.integers(0, 3)),
        "priority": draw(st.integers(-3, 3)),
        "parent_task": draw(st.sampled_from([TaskId(b""), ids[0]])),
        "graph_id": GRAPH if needs else GraphId(b""),
        "client": draw(st.sampled_from([PeerId(b"")] * 5 + [peer(ANA)])),
        "owner_grant": b"grant of ana".ljust(16),
    }
    return batch(JOE, draw(st.sampled_from([own, ids, [*own, *ids]])), needs, **header)


def given(draw: Draw, ids: list[TaskId]) -> KeptResults:
    count = len(ids)
    graph_id = draw(st.sampled_from([GRAPH, GraphId(task("another graph"))]))
    return KeptResults(b"".join(ids), b"x" * count, join_u32([1] * count), graph_id=graph_id)


def reported(draw: Draw, ids: list[TaskId]) -> WorkerStatus:
    processors = tuple(ProcessorStatus(state=draw(st.integers(1, 4)), task_id=one) for one in ids)
    return WorkerStatus(blocked_count=draw(st.integers(0, 2)), queued_count=9, processors=processors)


def units(draw: Draw, ids: list[TaskId]) -> ManagerStatus:
    state = draw(st.sampled_from([UNIT_RUNNING, UNIT_STOPPING]))
    named = draw(st.sampled_from([(), ("worker of ana",), ("worker of joe", "worker of ana")]))
    return ManagerStatus(draw(st.integers(0, 9)), draw(st.integers(0, 3)), (Unit("u", state, "", named),))


#: Of each kind of message, one of joe's: from what it draws and ids of ana's tasks, no two the same.
HOSTILE: dict[type, Callable[[Draw, list[TaskId]], Message]] = {
    Submit: submitted,
    KeptResults: given,
    Cancel: lambda draw, ids: Cancel(b"".join(ids), is_all=draw(st.booleans()), grace_seconds=0.0),
    Explain: lambda draw, ids: Explain(1, draw(st.sampled_from([*ids, TaskId(b"")]))),
    StackRequest: lambda draw, ids: StackRequest(1, draw(st.sampled_from(ids))),
    StackReply: lambda draw, ids: StackReply(draw(st.integers(0, 3)), ids[0], text="forged"),
    Shutdown: lambda draw, ids: Shutdown(),
    NameFunctions: lambda draw, ids: NameFunctions(FUNCTION, ("another name",)),
    Results: ended,
    Credit: lambda draw, ids: Credit(draw(st.integers(0, 5)), draw(st.integers(0, 2))),
    Returned: lambda draw, ids: Returned(b"".join(ids), is_recall_answer=draw(st.booleans())),
    WorkerStatus: reported,
    Holding: lambda draw, ids: Holding(
        b"".join(dict.fromkeys(ids)), clients=peer("c") * len(dict.fromkeys(ids)), is_last=draw(st.booleans())
    ),
    CancelReply: lambda draw, ids: CancelReply(b"".join(ids), bytes([draw(st.integers(0, 2))]) * len(ids)),
    TaskLog: lambda draw, ids: TaskLog(ids[0], 1, "forged"),
    Watch: lambda draw, ids: Watch(("tasks", "logs")),
    SnapshotRequest: lambda draw, ids: SnapshotRequest(1),
    GraphRequest: lambda draw, ids: GraphRequest(1, wants_shape=draw(st.booleans())),
    DumpRequest: lambda draw, ids: DumpRequest(1),
    Control: lambda draw, ids: Control(1, draw(st.integers(0, 4)), draw(st.sampled_from([*ids, TaskId(b"")]))),
    ManagerStatus: units,
}
SENDERS = {
    ROLE_CLIENT: JOE,
    ROLE_WORKER: "worker of joe",
    ROLE_MONITOR: "monitor of joe",
    ROLE_MANAGER: "manager of joe",
}


def test_each_kind_of_message_that_a_role_may_send_is_tried() -> None:
    assert SENDERS.keys() == {role for role, kinds in ALLOWED_MESSAGES.items() if kinds}, (
        "a new role: give joe a peer of it"
    )
    assert HOSTILE.keys() == frozenset().union(*ALLOWED_MESSAGES.values()), "a new kind: say what joe makes of it"


class TwoUsers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.alone, self.crowded = World(), World()
        self.submitted: list[TaskId] = []

    def _both(self, sender: str, message: Message) -> None:
        for world in (self.alone, self.crowded):
            world.receive(sender, message)
            world.note()

    @property
    def _held(self) -> list[TaskId]:
        """By ana's worker."""
        return list(self.alone.core.tables.workers[peer("worker of ana")].held)

    # ------------------------------------------------------------ ana

    @rule(count=st.integers(1, 3), is_graph=st.booleans(), data=st.data())
    def ana_submits(self, count: int, is_graph: bool, data: st.DataObject) -> None:
        ids = [TaskId(task(f"ana {len(self.submitted) + number}")) for number in range(count)]
        here = [one for one in self.submitted if one in self.alone.core.tables.where]
        needs = [data.draw(st.sampled_from(here))] if is_graph and here else []
        self.submitted += ids
        self._both(ANA, batch(ANA, ids, needs, graph_id=GRAPH if is_graph else GraphId(b"")))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def ana_cancels(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(self.submitted), min_size=1, max_size=2, unique=True))
        self._both(ANA, Cancel(b"".join(ids), grace_seconds=0.0))

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def ana_asks(self, data: st.DataObject) -> None:
        self._both(ANA, Explain(7, data.draw(st.sampled_from(self.submitted))))

    @precondition(lambda self: self._held)
    @rule(data=st.data(), kind=st.sampled_from([KIND_INLINE, KIND_OBJECT]))
    def anas_worker_ends_one(self, data: st.DataObject, kind: int) -> None:
        one = data.draw(st.sampled_from(self._held))
        kinds = bytes([kind]) if kind else b""
        self._both("worker of ana", Results(one, b"v" * 16, join_u32([16]), kinds=kinds))

    @precondition(lambda self: self._held)
    @rule(data=st.data())
    def anas_worker_gives_one_back(self, data: st.DataObject) -> None:
        self._both("worker of ana", Returned(data.draw(st.sampled_from(self._held)), is_recall_answer=False))

    @precondition(lambda self: self._held)
    @rule(data=st.data())
    def anas_worker_has_one_that_waits(self, data: st.DataObject) -> None:
        blocked = ProcessorStatus(state=3, task_id=data.draw(st.sampled_from(self._held)))
        self._both("worker of ana", WorkerStatus(blocked_count=1, processors=(blocked,)))

    @rule()
    def time_passes(self) -> None:
        for world in (self.alone, self.crowded):
            world.now += 1.5
            world.note()

    # ------------------------------------------------------------ joe

    @precondition(lambda self: self.submitted)
    @rule(data=st.data(), role=st.sampled_from(sorted(SENDERS)))
    def joe_tries(self, data: st.DataObject, role: int) -> None:
        kind = data.draw(st.sampled_from(sorted(ALLOWED_MESSAGES[role], key=lambda one: one.__name__)))
        ids = data.draw(st.lists(st.sampled_from(self.submitted), min_size=1, max_size=3, unique=True))
        self.crowded.receive(SENDERS[role], HOSTILE[kind](data.draw, ids))
        self.crowded.note()

    @precondition(lambda self: self.alone.core.tables.where or self.alone.core.tables.dependencies.kept)
    @rule(data=st.data(), kind=st.sampled_from([Submit, Submit, KeptResults]))
    def joe_submits_what_is_there(self, data: st.DataObject, kind: type) -> None:
        tables = self.alone.core.tables
        one = data.draw(st.sampled_from([*tables.where, *tables.dependencies.kept]))
        self.crowded.receive(JOE, HOSTILE[kind](data.draw, [one]))
        self.crowded.note()

    @precondition(lambda self: self.submitted)
    @rule()
    def joes_peers_come_again(self) -> None:
        self.crowded.lost(JOE)
        self.crowded.lost("worker of joe")
        self.crowded.join(JOE)
        self.crowded.note()

    # ------------------------------------------------------------ the law

    @invariant()
    def ana_notices_nothing(self) -> None:
        for name in (ANA, "worker of ana", "storage"):
            assert self.crowded.sent[name] == self.alone.sent[name], name

    @invariant()
    def joe_is_sent_nothing_of_hers(self) -> None:
        tasks = frozenset(self.submitted)
        for message in self.crowded.sent["worker of joe"]:
            if isinstance(message, Dispatch):
                assert tasks.isdisjoint(split_ids(message.ids)) or message.header.client == peer(JOE)
                lent = KEYRING.granted(message.header.client, message.header.owner_grant)
                assert lent is not None and lent.user == families_of(JOE) and not lent.may_release
        assert not any(isinstance(message, (TaskLog, KeptResults)) for message in self.crowded.sent[JOE])


TestTwoUsers = TwoUsers.TestCase
TestTwoUsers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
