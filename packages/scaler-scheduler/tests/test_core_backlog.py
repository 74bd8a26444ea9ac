"""However many tasks end at once, no turn of the scheduler is long, and other clients are served in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from tests.support.scheduler_story import FUNCTION, WELCOME, Story, ids, names, peer, task

from scaler_protocol.codes import CANCEL_CANCELED, KIND_TASK, ROLE_CLIENT, ROLE_WORKER, STATUS_CANCELED
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import GraphId, TaskId, task_id_source
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Credit,
    Dispatch,
    Hello,
    Message,
    Results,
    Submit,
    TaskHeader,
    WorkerOffer,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_scheduler.core import Policy, SchedulerCore, Send, Settled, invariants
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.tables.backlog import TURN_STEPS

MILLION = 1_000_000
BATCH = 8_192
MOST_IN_A_TURN = 6 * TURN_STEPS
"""Tasks that end by the column take a sixth of a step each, the others ten steps."""


class Bare:
    """A core without the invariants after each event: to derive them for a million tasks takes seconds."""

    def __init__(self) -> None:
        self.core = SchedulerCore(Policy())
        self.told: list[Message] = []
        self.turns: list[int] = []
        for name in ("c", "d"):
            self._handle(Opened(peer(name), Hello(1, 1, ROLE_CLIENT, peer(name)), WELCOME))

    def _handle(self, event: Opened | Received | Lost | Settled) -> None:
        self.told += [action.message for action in self.core.handle(event, 0.0) if isinstance(action, Send)]

    @property
    def unfinished(self) -> int:
        return len(self.core.tables.where)

    def worker(self, name: str, credit: int) -> None:
        hello = Hello(1, 1, ROLE_WORKER, peer(name), worker=WorkerOffer(name, (), credit))
        self._handle(Opened(peer(name), hello, WELCOME))

    def receive(self, name: str, message: Message) -> None:
        self._handle(Received(peer(name), 1, message))

    def lose(self, name: str) -> None:
        self._handle(Lost(peer(name), 205, "silent for too long", False))

    def turn(self) -> None:
        before = self.unfinished
        self._handle(Settled())
        self.turns.append(before - self.unfinished)

    def take_turns(self) -> None:
        """Until nothing is left over. The deadline says that the next turn is due at once."""
        while self.core.tables.backlog:
            assert self.core.next_deadline() == 0.0
            self.turn()

    def take(self, kind: type) -> list[Message]:
        found = [message for message in self.told if type(message) is kind]
        self.told = []
        return found


def in_batches(story: Bare, tasks: Sequence[TaskId]) -> None:
    for at in range(0, len(tasks), BATCH):
        part = tasks[at : at + BATCH]
        story.receive("c", Submit(TaskHeader(), FUNCTION, b"".join(part), b"x" * len(part), join_u32([1] * len(part))))


def one_by_one(story: Bare, tasks: Sequence[TaskId]) -> None:
    header, one = TaskHeader(), join_u32([1])
    for task_id in tasks:
        story.receive("c", Submit(header, FUNCTION, task_id, b"x", one))


def as_a_chain(story: Bare, tasks: Sequence[TaskId]) -> None:
    """Each depends on the one before it: the end of the first would end all others."""
    before: dict[TaskId, TaskId | None] = {tasks[0]: None, **{after: first for first, after in pairwise(tasks)}}
    for at in range(0, len(tasks), BATCH):
        part = tasks[at : at + BATCH]
        needs = [before[task_id] for task_id in part]
        named = b"".join(one for one in needs if one is not None)
        counts = join_u16([int(one is not None) for one in needs])
        count = len(named) // 16
        story.receive(
            "c",
            Submit(
                header=TaskHeader(graph_id=GraphId(b"g" * 16)),
                functions=FUNCTION,
                ids=b"".join(part),
                payload=named,
                part_counts=counts,
                part_kinds=bytes([KIND_TASK]) * count,
                part_sizes=join_u32([16] * count),
                dependency_counts=counts,
                dependencies=named,
                is_graph_sealed=at + BATCH >= len(tasks),
            ),
        )


def leaves(story: Bare, tasks: Sequence[TaskId]) -> None:
    story.lose("c")


def cancels_all(story: Bare, tasks: Sequence[TaskId]) -> None:
    story.receive("c", Cancel(is_all=True))


def cancels_each(story: Bare, tasks: Sequence[TaskId]) -> None:
    for stop in range(len(tasks), 0, -2 * BATCH):
        story.receive("c", Cancel(b"".join(tasks[max(0, stop - 2 * BATCH) : stop])))


Ending = Callable[[Bare, Sequence[TaskId]], None]


@pytest.mark.parametrize("end", [leaves, cancels_all, cancels_each])
@pytest.mark.parametrize(
    ("submit", "count"), [(in_batches, MILLION), (one_by_one, MILLION // 20), (as_a_chain, MILLION // 20)]
)
def test_no_turn_is_long(submit: Ending, count: int, end: Ending) -> None:
    story = Bare()
    tasks = task_id_source()(count)
    submit(story, tasks)
    story.turn()
    story.take_turns()
    assert story.unfinished == count
    story.turns.clear()
    before = story.unfinished
    end(story, tasks)
    assert before - story.unfinished <= MOST_IN_A_TURN, "the message itself is one turn"
    story.take_turns()
    assert story.unfinished == 0 and story.core.tables.counts[State.CANCELED] == count
    assert max(story.turns) <= MOST_IN_A_TURN
    if end is not leaves:
        named = b"".join(message.ids for message in story.told if isinstance(message, Results))
        assert len(named) == 16 * count, "each has its result"
        answers = [message for message in story.told if isinstance(message, CancelReply)]
        assert sum(len(message.ids) for message in answers) == 16 * count, "and its answer"
        assert all(set(message.outcomes) == {CANCEL_CANCELED} for message in answers)
    story.lose("d")
    story.lose("c") if end is not leaves else None
    story.take_turns()
    assert invariants.is_empty(story.core)


def test_others_are_served_meanwhile() -> None:
    story = Bare()
    story.worker("w", credit=1)
    tasks = task_id_source()(20 * BATCH)
    in_batches(story, tasks)
    story.turn()
    story.take(Dispatch)
    story.lose("c")
    story.receive("d", Submit(TaskHeader(), FUNCTION, task("other"), b"x", join_u32([1])))
    canceled = [message for message in story.told if isinstance(message, Cancel)]
    story.turn()
    canceled += [message for message in story.told if isinstance(message, Cancel)]
    assert [message.ids for message in canceled] == [tasks[0]], "what ran is stopped at once"
    assert story.core.tables.backlog
    statuses = bytes([STATUS_CANCELED])
    story.receive("w", Results(tasks[0], b"", join_u32([0]), statuses=statuses, kinds=b"\2"))
    story.take(Results)
    story.turn()
    (dispatch,) = story.take(Dispatch)
    assert isinstance(dispatch, Dispatch) and dispatch.ids == task("other")
    assert story.core.tables.backlog, "the others are still being forgotten"
    story.take_turns()
    assert list(story.core.tables.where) == [task("other")]


# ---------------------------------------------------------------- small turns, told


@pytest.fixture
def story() -> Story:
    """One task in each turn."""
    story = Story()
    backlog = story.core.tables.backlog
    backlog.turn_steps = backlog.slice_tasks = 1
    story.client("c")
    story.settle()
    return story


def test_none_that_is_to_be_canceled_takes_a_place_that_becomes_free(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["a", "b", "x", "d"])
    assert story.settle() == ["w <- Dispatch a"]
    story.cancel("c", ["a", "b", "d"])
    story.settle()
    story.results("w", ["a"])
    lines = [line for _ in range(8) for line in story.settle()]
    assert [line for line in lines if line.startswith("w")] == ["w <- Dispatch x"]
    assert not story.core.tables.backlog


def test_nor_is_one_sent_ahead_of_its_time(story: Story) -> None:
    story.worker("w", credit=1, features=("chains",))
    story.submit_graph("c", {"a": (), "b": ("a",)})
    assert story.settle() == ["w <- Dispatch a"]
    story.cancel("c", ["b", "nobody", "else"])
    story.receive("w", Credit(limit=5))
    lines = [line for _ in range(8) for line in story.settle()]
    assert not [line for line in lines if line.startswith("w <-")]


def test_a_pong_comes_after_all_that_a_cancel_causes(story: Story) -> None:
    story.submit("c", ["a", "b", "d"])
    story.settle()
    story.cancel("c", ["a", "b", "d"])
    assert story.core.is_busy_with(peer("c")) and not story.core.is_busy_with(peer("other"))
    replies: list[Send] = []
    while story.core.is_busy_with(peer("c")):
        replies += [action for action in story.actions() if isinstance(action, Send)]
    assert isinstance(replies[-1].message, CancelReply) and sorted(names(replies[-1].message.ids)) == ["a", "b", "d"]


def test_a_client_that_comes_back_while_it_is_forgotten(story: Story) -> None:
    """Under another name, with the same tasks: they begin once their former lives are over. (SCH-8)"""
    story.worker("w", credit=1)
    story.submit("c", ["a", "b", "d"])
    assert story.settle() == ["w <- Dispatch a"]
    story.lost("c")
    story.client("c2")
    story.submit("c2", ["a", "b", "d"])
    dispatched: list[str] = []
    for _ in range(20):
        for action in story.actions():
            if isinstance(action, Send) and isinstance(action.message, Cancel):
                story.canceled("w", names(action.message.ids))
            elif isinstance(action, Send) and isinstance(action.message, Dispatch):
                assert action.message.header.client == peer("c2")
                dispatched += names(action.message.ids)
                attempt = int.from_bytes(action.message.attempts or b"\1", "little")
                story.results("w", names(action.message.ids), attempt=attempt)
    assert sorted(dispatched) == ["a", "b", "d"]
    assert not story.core.tables.where and not story.core.tables.backlog


def test_messages_of_one_client_keep_their_order(story: Story) -> None:
    story.submit("c", ["a", "b"])
    story.settle()
    story.cancel("c", ["b", "a"])
    story.submit("c", ["later"])
    story.cancel("c", ["later", "nobody"])
    story.worker("w")
    lines = [line for _ in range(10) for line in story.settle()]
    assert not [line for line in lines if line.startswith("w")]
    assert not story.core.tables.where


def test_the_end_of_a_client_whose_cancel_is_not_done(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["a", "b", "d", "e"])
    story.settle()
    story.cancel("c", ["a", "b", "d"])
    story.lost("c")
    lines = [line for _ in range(12) for line in story.settle()]
    assert not [line for line in lines if line.startswith("c <-")], "no client is there to be told"
    assert "w <- Cancel a" in lines
    story.canceled("w", ["a"])
    story.settle()
    story.lost("w")
    story.settle()
    assert story.is_empty()
    assert ids(["a"]) not in story.core.tables.abandoned
