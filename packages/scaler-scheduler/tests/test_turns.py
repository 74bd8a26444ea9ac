"""No message of any peer stops the scheduler for long: the worst of each kind, and the steps of the longest turn.

Steps are instructions of the interpreter, counted: some fifty to a microsecond. What runs in C loops, such as cutting
a column of ids, is not counted; it takes a tenth of a millisecond for each thousand tasks. If a kind of message is not
in the table, `test_every_kind_is_in_the_table` fails: write its worst one down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from tests.support.scheduler_story import FUNCTION, WELCOME, peer
from tests.support.steps import steps_of

from scaler_protocol import codes
from scaler_protocol.codec.registry import registry
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import ID_BYTES, GraphId, TaskId, task_id_source
from scaler_protocol.messages import (
    Bye,
    Cancel,
    CancelReply,
    Control,
    Credit,
    DumpRequest,
    Error,
    Explain,
    Explanation,
    GraphRequest,
    Hello,
    Holding,
    KeptResults,
    ManagerOffer,
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
    WorkerOffer,
    WorkerStatus,
)
from scaler_protocol.session import Complained, Lost, Opened, Received
from scaler_protocol.session.bounds import Quota
from scaler_scheduler.core import ALLOWED_MESSAGES, Disconnect, Event, Policy, SchedulerCore, Send, Settled
from scaler_scheduler.core.scaling import controller
from scaler_scheduler.core.tables import families

COUNT = 20_000
MOST_STEPS = 400_000
"""Of one turn. Unsliced, each of these takes 20,000 tasks times some hundreds."""


class Scene:
    """A client `c`, a worker `w` with a place for every task, a manager `m`, and a monitor `o` of an operator."""

    def __init__(self, credit: int = COUNT) -> None:
        self.core = SchedulerCore(Policy(allows_control=True))
        self.ids: list[TaskId] = list(task_id_source()(COUNT))
        offer = WorkerOffer("w", (), credit, 1)
        for hello in (
            Hello(1, 1, codes.ROLE_CLIENT, peer("c")),
            Hello(1, 1, codes.ROLE_WORKER, peer("w"), worker=offer),
            Hello(1, 1, codes.ROLE_MANAGER, peer("m"), manager=ManagerOffer(b"m" * ID_BYTES, "m", (), 1)),
            Hello(1, 1, codes.ROLE_MONITOR, peer("o")),
        ):
            self.core.handle(Opened(hello.peer_id, hello, WELCOME), 0.0)

    def send(self, name: str, message: Message) -> None:
        self.handle(Received(peer(name), 1, message))

    def handle(self, event: Event) -> None:
        self.core.handle(event, 0.0)
        self.work_off()

    def work_off(self) -> None:
        self.core.handle(Settled(), 0.0)
        while self._has_work:
            self.core.handle(Settled(), 0.0)

    @property
    def _has_work(self) -> bool:
        """Some is left over from this turn."""
        return self.core.next_deadline() == 0.0

    def longest_turn(self, event: Event) -> int:
        """In steps, of those that this event takes until nothing is left over."""
        turns = [steps_of(self.core.handle, event, 0.0) + steps_of(self.core.handle, Settled(), 0.0)]
        while self._has_work:
            turns.append(steps_of(self.core.handle, Settled(), 0.0))
            # The others are as long: to trace all of them would take minutes.
            for _ in range(20):
                self.core.handle(Settled(), 0.0)
        return max(turns)


def plain(ids: list[TaskId], **header: Any) -> Submit:
    return Submit(TaskHeader(**header), FUNCTION, b"".join(ids), b"x" * len(ids), join_u32([1] * len(ids)))


def graph(ids: list[TaskId], counts: list[int], needs: list[TaskId], **fields: Any) -> Submit:
    return Submit(
        TaskHeader(graph_id=GraphId(b"g" * ID_BYTES)),
        FUNCTION,
        b"".join(ids),
        b"x" * len(ids),
        join_u32([1] * len(ids)),
        dependency_counts=join_u16(counts),
        dependencies=b"".join(needs),
        **fields,
    )


def chain(ids: list[TaskId]) -> Submit:
    return graph(ids, [0] + [1] * (len(ids) - 1), ids[:-1])


def star(ids: list[TaskId]) -> Submit:
    return graph(ids, [0] + [1] * (len(ids) - 1), ids[:1] * (len(ids) - 1))


def results(ids: list[TaskId], status: int = codes.STATUS_SUCCESS) -> Results:
    statuses = bytes([status]) * len(ids) if status else b""
    return Results(b"".join(ids), b"r" * len(ids), join_u32([1] * len(ids)), statuses=statuses)


def received(name: str, message: Message) -> Received:
    return Received(peer(name), 2, message)


# ---------------------------------------------------------------- what comes before, and the message


def submit_plain(scene: Scene) -> Event:
    return received("c", plain(scene.ids))


def submit_chain(scene: Scene) -> Event:
    return received("c", chain(scene.ids))


def submit_chain_backwards(scene: Scene) -> Event:
    return received("c", graph(scene.ids, [1] * (COUNT - 1) + [0], scene.ids[1:]))


def submit_circle(scene: Scene) -> Event:
    return received("c", graph(scene.ids, [1] * COUNT, scene.ids[1:] + scene.ids[:1]))


def submit_what_takes_over(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    scene.handle(Opened(peer("d"), Hello(1, 1, codes.ROLE_CLIENT, peer("d")), WELCOME))
    return received("d", plain(scene.ids))


def cancel_all(scene: Scene) -> Event:
    scene.send("c", chain(scene.ids))
    return received("c", Cancel(b"", is_all=True))


def cancel_unknown(scene: Scene) -> Event:
    return received("c", Cancel(b"".join(scene.ids)))


def cancel_running(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("c", Cancel(b"".join(scene.ids)))


def give_results(scene: Scene) -> Event:
    return received("c", KeptResults(b"".join(scene.ids[:1_000]), b"", bytes(4_000), graph_id=GraphId(b"g" * ID_BYTES)))


def explain(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids[:1_000], capabilities=()))
    return received("c", Explain(1, scene.ids[999]))


def name_functions(scene: Scene) -> Event:
    return received("c", NameFunctions(b"".join(scene.ids[:10_000]), ("f",) * 10_000))


def shut_down(scene: Scene) -> Event:
    return received("c", Shutdown())


def report_success(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("w", results(scene.ids))


def report_leaves(scene: Scene) -> Event:
    """Each has a task that waits for it."""
    half = COUNT // 2
    scene.send("c", graph(scene.ids, [0] * half + [1] * half, scene.ids[:half]))
    return received("w", results(scene.ids[:half]))


def report_failures(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("w", results(scene.ids, codes.STATUS_FAILED))


def report_unknown(scene: Scene) -> Event:
    return received("w", results(scene.ids))


def report_a_failure_that_many_wait_for(scene: Scene) -> Event:
    scene.send("c", star(scene.ids))
    return received("w", results(scene.ids[:1], codes.STATUS_FAILED))


def report_a_parent(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids[:1]))
    scene.send("c", plain(scene.ids[1:], parent_task=scene.ids[0], depth=1, capabilities=()))
    return received("w", results(scene.ids[:1]))


def cancel_a_parent(scene: Scene) -> Event:
    """All its children are in the queue, each submitted by itself, and there are places for them."""
    scene.send("c", plain(scene.ids[:1]))
    scene.send("w", Credit(limit=0, nested_reserve=0))
    for task_id in scene.ids[1:]:
        scene.core.handle(received("c", plain([task_id], parent_task=scene.ids[0], depth=1)), 0.0)
    scene.work_off()
    scene.core.handle(received("w", Credit(limit=COUNT, nested_reserve=1)), 0.0)
    return received("c", Cancel(scene.ids[0]))


def cancel_a_chain_of_parents(scene: Scene) -> Event:
    """Each task claims an earlier one as its parent, as many times over as is looked at."""
    chains = 2
    scene.send("c", plain(scene.ids[:1]))
    scene.send("w", Credit(limit=0, nested_reserve=0))
    for index, task_id in enumerate(scene.ids[1 : chains * families.GENERATIONS], 1):
        parent = scene.ids[max(0, index - chains)]
        scene.core.handle(received("c", plain([task_id], parent_task=parent, depth=1)), 0.0)
    scene.work_off()
    scene.core.handle(received("w", Credit(limit=COUNT, nested_reserve=1)), 0.0)
    return received("c", Cancel(scene.ids[0]))


def give_back(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("w", Returned(b"".join(scene.ids)))


def present(scene: Scene) -> Event:
    """All that it holds from another scheduler, when their client has submitted all of it."""
    hello = Hello(1, 1, codes.ROLE_WORKER, peer("p"), features=("present-held",), last_server_id=peer("before"))
    scene.core.handle(Opened(peer("p"), hello, replace(WELCOME, features=("present-held",))), 0.0)
    scene.core.tables.workers[peer("w")].limit = 0
    scene.send("c", plain(scene.ids))
    return received("p", Holding(b"".join(scene.ids), clients=peer("c") * COUNT))


def answer_cancels(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    scene.send("c", Cancel(b"", is_all=True))
    return received("w", CancelReply(b"".join(scene.ids), bytes([codes.CANCEL_UNKNOWN]) * COUNT))


def say_status(scene: Scene) -> Event:
    return received("w", WorkerStatus(processors=tuple(ProcessorStatus(number, 1) for number in range(4_096))))


def say_units(scene: Scene) -> Event:
    return received("m", ManagerStatus(max_workers=1 << 30, units=tuple(Unit(f"u{n}", 1) for n in range(4_096))))


def give_credit(scene: Scene) -> Event:
    """The tasks that have waited for a place leave all at once."""
    scene.send("w", Credit(limit=0))
    scene.send("c", plain(scene.ids))
    return received("w", Credit(limit=COUNT))


def print_something(scene: Scene) -> Event:
    return received("w", TaskLog(scene.ids[0], 1, "x" * 1_000))


def ask_for_a_stack(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("c", StackRequest(1, scene.ids[-1]))


def answer_with_a_stack(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return received("w", StackReply(1, scene.ids[-1], text="x" * 60_000))


def cancel_a_client_for_an_operator(scene: Scene) -> Event:
    scene.send("c", chain(scene.ids))
    return received("o", Control(1, codes.CONTROL_CANCEL_CLIENT, scene.core.display_id(peer("c"))))


def refuse_a_dispatch(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    worker = scene.core.tables.workers[peer("w")]
    worker.dispatches[scene.ids[0]] = (7, b"".join(scene.ids))
    return Complained(peer("w"), codes.BAD_BATCH, 7, "no", "BAT-1")


def lose_the_worker(scene: Scene) -> Event:
    scene.send("c", plain(scene.ids))
    return Lost(peer("w"), codes.LEASE_EXPIRED, "silent", False)


def lose_the_client(scene: Scene) -> Event:
    scene.send("c", chain(scene.ids))
    return Lost(peer("c"), codes.OK, "", True)


WORST: dict[Callable[[Scene], Event], type] = {
    submit_plain: Submit,
    submit_chain: Submit,
    submit_chain_backwards: Submit,
    submit_circle: Submit,
    submit_what_takes_over: Submit,
    cancel_all: Cancel,
    cancel_unknown: Cancel,
    cancel_running: Cancel,
    give_results: KeptResults,
    explain: Explain,
    name_functions: NameFunctions,
    shut_down: Shutdown,
    report_success: Results,
    report_leaves: Results,
    report_failures: Results,
    report_unknown: Results,
    report_a_failure_that_many_wait_for: Results,
    report_a_parent: Results,
    cancel_a_parent: Cancel,
    cancel_a_chain_of_parents: Cancel,
    give_back: Returned,
    present: Holding,
    answer_cancels: CancelReply,
    say_status: WorkerStatus,
    say_units: ManagerStatus,
    give_credit: Credit,
    print_something: TaskLog,
    ask_for_a_stack: StackRequest,
    answer_with_a_stack: StackReply,
    cancel_a_client_for_an_operator: Control,
    refuse_a_dispatch: Error,
    lose_the_worker: Bye,
    lose_the_client: Bye,
}
#: What watchers send is asked of the service, which bounds its cost by time (MON-9).
ASKED_OF_THE_SERVICE: frozenset[type] = frozenset({Watch, SnapshotRequest, GraphRequest, DumpRequest})


@pytest.mark.parametrize("prepare", WORST, ids=lambda prepare: prepare.__name__)
def test_no_turn_is_long(prepare: Callable[[Scene], Event]) -> None:
    scene = Scene(1 if prepare in (report_a_parent, report_a_failure_that_many_wait_for) else COUNT)
    event = prepare(scene)
    registry()  # of the codec, which is made once
    steps = scene.longest_turn(event)
    assert steps <= MOST_STEPS, f"{steps} steps in one turn"


@pytest.mark.parametrize("is_dropped", (False, True))
def test_a_place_far_behind_is_looked_for_in_bounded_steps(is_dropped: bool) -> None:
    scene = Scene(credit=0)
    ids = list(task_id_source()(5 * COUNT))
    for start in range(0, len(ids), COUNT):
        scene.send("c", plain(ids[start : start + COUNT]))
    if is_dropped:
        scene.send("c", Cancel(b"".join(ids[: 2 * COUNT : 2])))
    told: list[Explanation] = []

    def ask() -> None:
        scene.core.handle(received("c", Explain(1, ids[-1])), 0.0)
        actions = scene.core.handle(Settled(), 0.0)
        told.extend(one.message for one in actions if isinstance(one, Send) and isinstance(one.message, Explanation))

    assert steps_of(ask) <= MOST_STEPS
    assert told[0].ahead_count <= 5 * COUNT - 1 and (is_dropped or told[0].ahead_count == 5 * COUNT - 1)


def test_managers_and_their_units_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """(LIM-11)"""
    monkeypatch.setattr(controller, "MANAGERS", Quota(0, 2))
    monkeypatch.setattr(controller, "UNITS", Quota(0, 10))
    scene = Scene()
    refused: list[str] = []
    for name in ("n", "o"):
        offer = ManagerOffer(peer(name), name, (), 1)
        scene.core.handle(Opened(peer(name), Hello(1, 1, codes.ROLE_MANAGER, peer(name), manager=offer), WELCOME), 0.0)
        scene.core.handle(received(name, ManagerStatus(max_workers=20, units=(Unit("u", 1),) * 6)), 0.0)
        scene.core.handle(received("m", ManagerStatus(max_workers=20, units=(Unit("v", 1),) * 4)), 0.0)
        actions = scene.core.handle(Settled(), 0.0)
        refused += [one.peer_id.decode().rstrip(".") for one in actions if isinstance(one, Disconnect)]
    assert refused == ["o"]
    scene.core.handle(received("m", ManagerStatus(max_workers=20, units=(Unit("v", 1),) * 5)), 0.0)
    assert Disconnect(peer("m"), codes.OVERLOADED, mock.ANY) in scene.core.handle(Settled(), 0.0)
    limits = [event.subject for event in scene.core.snapshot(0.0).events if event.kind == "limit_reached"]
    assert limits == ["managers", "units"]


def test_every_kind_is_in_the_table() -> None:
    sent = frozenset().union(*ALLOWED_MESSAGES.values())
    assert sent - ASKED_OF_THE_SERVICE <= set(WORST.values())


def test_a_chain_of_parents_does_not_end_the_scheduler() -> None:
    """Each task claims the one before it as its parent: what ends with it ends without a call for each."""
    scene = Scene(credit=0)
    ids = scene.ids[:3_000]
    for index, task_id in enumerate(ids):
        parent = ids[index - 1] if index else TaskId(b"")
        scene.core.handle(received("c", plain([task_id], parent_task=parent)), 0.0)
    scene.send("c", Cancel(ids[0]))
    assert not scene.core.tables.where
