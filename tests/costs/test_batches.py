"""Messages, bytes and steps of whole workloads in the scheduler: what makes it fast is that they are few per task.

The bounds are what was counted; of messages exactly, of bytes and steps and a tenth. `test_steps` has the lone call.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scaler_protocol import codec, codes
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import ID_BYTES, GraphId, PeerId, TaskId
from scaler_protocol.messages import Dispatch, Hello, Results, Submit, TaskHeader, WorkerOffer
from scaler_protocol.session import Opened, Received
from scaler_scheduler.core import Event, Policy, SchedulerCore, Send, Settled
from tests.costs.test_steps import counted
from tests.support.scheduler_story import FUNCTION, WELCOME, peer

CLIENT = peer("c")
ARGUMENT, VALUE = b"argument", b"v" * 5
HEADER = TaskHeader()
OTHER_FUNCTION = b"other".ljust(ID_BYTES, b".")


class Wire:
    """A scheduler between a client and workers, and all that passes through it."""

    def __init__(self, workers: int, credit: int, features: tuple[str, ...] = ()) -> None:
        """`features`: of the workers."""
        self.core = SchedulerCore(Policy())
        self.messages: Counter[str] = Counter()
        self.wire_bytes = self.steps = self.ended_count = self.turns = 0
        self._given: deque[tuple[PeerId, bytes]] = deque()
        self._credit = credit
        self.core.handle(Opened(CLIENT, Hello(1, 1, codes.ROLE_CLIENT, CLIENT), WELCOME), 0.0)
        for number in range(workers):
            offer = WorkerOffer(f"w{number}", (), credit, 1)
            peer_id = peer(offer.name)
            hello, welcome = Hello(1, 1, codes.ROLE_WORKER, peer_id, worker=offer), replace(WELCOME, features=features)
            self.core.handle(Opened(peer_id, hello, welcome), 0.0)

    def submit(self, *batches: Submit) -> None:
        self._wake([(CLIENT, batch) for batch in batches])
        while self.core.next_deadline() == 0.0:  # a large one is accepted in slices
            self._wake(())

    def run(self) -> None:
        """Workers answer each Dispatch with one message, the oldest first, until nobody has anything."""
        while self._given:
            worker, ids = self._given.popleft()
            count = len(ids) // ID_BYTES
            self.ended_count += count
            values = join_u32([len(VALUE)] * count)
            self._wake([(worker, Results(ids, VALUE * count, values, credit=self._credit))])
            while not self._given and self.core.next_deadline() == 0.0:  # what has become ready is placed in slices too
                self._wake(())

    def _wake(self, arrived: Sequence[tuple[PeerId, Any]]) -> None:
        self.turns += 1
        for sender, message in arrived:
            self._note("in", message)
            self._step(Received(sender, 1, message))
        for action in self._step(Settled()):
            assert isinstance(action, Send)
            self._note("out", action.message)
            if isinstance(action.message, Dispatch):
                self._given.append((action.peer_id, action.message.ids))

    def _step(self, event: Event) -> list[Any]:
        actions, steps = counted(self.core.handle, event, 0.0)
        self.steps += steps
        return list(actions)

    def _note(self, way: str, message: Any) -> None:
        envelope, payload = codec.encode(message, 1, 1)
        self.messages[f"{way} {type(message).__name__}"] += 1
        self.wire_bytes += len(envelope) + len(payload)


def task_ids(count: int) -> list[TaskId]:
    return [TaskId(number.to_bytes(ID_BYTES, "little")) for number in range(1, count + 1)]


def batch(ids: Sequence[TaskId]) -> Submit:
    return Submit(HEADER, FUNCTION, join_ids(ids), ARGUMENT * len(ids), join_u32([len(ARGUMENT)] * len(ids)))


def chain(ids: Sequence[TaskId]) -> Submit:
    """Each takes the value of the one before it; only the last is wanted."""
    edges = list(ids[:-1])
    return Submit(
        header=TaskHeader(graph_id=GraphId(b"graph".ljust(ID_BYTES, b"."))),
        functions=FUNCTION,
        ids=join_ids(ids),
        payload=ARGUMENT + join_ids(edges),
        part_sizes=join_u32([len(ARGUMENT)] + [ID_BYTES] * len(edges)),
        part_kinds=bytes([codes.KIND_INLINE] + [codes.KIND_TASK] * len(edges)),
        dependency_counts=join_u16([0] + [1] * len(edges)),
        dependencies=join_ids(edges),
        task_flags=bytes([codes.TASK_UNWANTED] * len(edges) + [0]),
    )


def tree(ids: Sequence[TaskId], functions: bytes = FUNCTION) -> Submit:
    """The first half are leaves; each of the others adds up two that come before it, and only the last is wanted. With
    two functions, leaves have the first and the others the second."""
    leaves = len(ids) // 2 + 1
    sums = len(ids) - leaves
    edges = list(ids[:-1])
    return Submit(
        header=TaskHeader(graph_id=GraphId(b"graph".ljust(ID_BYTES, b"."))),
        functions=functions,
        function_indexes=join_u16([0] * leaves + [1] * sums) if len(functions) > ID_BYTES else b"",
        ids=join_ids(ids),
        payload=ARGUMENT * leaves + join_ids(edges),
        part_sizes=join_u32([len(ARGUMENT)] * leaves + [ID_BYTES] * len(edges)),
        part_counts=join_u16([1] * leaves + [2] * sums),
        part_kinds=bytes([codes.KIND_INLINE] * leaves + [codes.KIND_TASK] * len(edges)),
        dependency_counts=join_u16([0] * leaves + [2] * sums),
        dependencies=join_ids(edges),
        task_flags=bytes([codes.TASK_UNWANTED] * (len(ids) - 1) + [0]),
    )


def expect_about(bound: float, found: float, what: str) -> None:
    assert found <= bound * 1.1, f"{found:g} {what} where {bound:g} were counted"


def test_a_map_of_ten_thousand() -> None:
    wire = Wire(workers=2, credit=1_000)
    wire.submit(batch(task_ids(10_000)))
    wire.run()
    assert wire.ended_count == 10_000
    # The last thousand are shared between both workers.
    assert wire.messages == {"in Submit": 1, "out Dispatch": 11, "in Results": 11, "out Results": 11}
    # Of these, 0.01 for what the history keeps of each message of a worker, which it does 200 times a second at most.
    expect_about(0.098, wire.steps / 10_000, "steps a task")
    expect_about(107, wire.wire_bytes / 10_000, "bytes a task")


def test_a_thousand_submitted_one_by_one() -> None:
    """They arrive together and end apart: no message is for more than one, and none is for less."""
    wire = Wire(workers=2, credit=1_000)
    wire.submit(*[batch([task_id]) for task_id in task_ids(1_000)])
    wire.run()
    assert wire.messages == {"in Submit": 1_000, "out Dispatch": 1_000, "in Results": 1_000, "out Results": 1_000}
    expect_about(71, wire.steps / 1_000, "steps a task")
    expect_about(1_002, wire.wire_bytes / 1_000, "bytes a task")


def test_a_chain_of_five_hundred() -> None:
    """A node is given out, answered, and nobody else hears of it."""
    wire = Wire(workers=2, credit=4)
    wire.submit(chain(task_ids(500)))
    wire.run()
    assert wire.messages == {"in Submit": 1, "out Dispatch": 500, "in Results": 500, "out Results": 1}
    expect_about(124, wire.steps / 500, "steps a node")
    expect_about(571, wire.wire_bytes / 500, "bytes a node")


def test_a_tree_of_a_thousand_leaves() -> None:
    """What becomes ready together leaves together."""
    wire = Wire(workers=2, credit=100)
    wire.submit(tree(task_ids(2_047)))
    wire.run()
    assert wire.ended_count == 2_047
    assert wire.messages == {"in Submit": 1, "out Dispatch": 97, "in Results": 97, "out Results": 1}
    expect_about(10.6, wire.steps / 2_047, "steps a node")
    expect_about(180, wire.wire_bytes / 2_047, "bytes a node")


def test_a_tree_of_eight_thousand_leaves() -> None:
    """It is accepted in slices, which is no reason to take its nodes one by one: that took 20 steps for each. Nor are
    they counted one by one because they have several functions. Each turn costs the server more than a portion."""
    wire = Wire(workers=2, credit=100)
    wire.submit(tree(task_ids(16_383), FUNCTION + OTHER_FUNCTION))
    assert wire.turns == 21
    wire.run()
    assert wire.ended_count == 16_383
    expect_about(5.6, wire.steps / 16_383, "steps a node")
