"""No turn of the scheduler takes more steps than it may, however long the queue of one worker is. (LIM-25)

A step is counted by what is seen from outside: a task that leaves for a worker, comes back from one, or is asked back.
"""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scheduler_story import FUNCTION, WELCOME, Story, ids, names, peer

from scaler_protocol.codes import ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import ID_BYTES, TaskId, task_id_source
from scaler_protocol.messages import Dispatch, Hello, Message, Recall, Submit, TaskHeader, WorkerOffer
from scaler_protocol.session import Lost, Opened, Received
from scaler_scheduler.core import Policy, SchedulerCore, Send, Settled
from scaler_scheduler.core.ending.endings import requeue
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.peers import membership
from scaler_scheduler.core.placing.balancing import IDLE_SECONDS
from scaler_scheduler.core.placing.recalling import RECALLED_A_LOOK
from scaler_scheduler.core.tables.tables import PLACED_A_TURN, TASKS_IN_A_MESSAGE

BATCH = 8_192
TASKS = 12 * BATCH


class Cluster:
    """A core without the invariants after each event: to derive them for so many tasks takes seconds."""

    def __init__(self) -> None:
        self.core = SchedulerCore(Policy())
        self.now = 0.0
        self._do(Opened(peer("c"), Hello(1, 1, ROLE_CLIENT, peer("c")), WELCOME))

    def _do(self, event: Opened | Received | Lost | Settled) -> list[Message]:
        return [action.message for action in self.core.handle(event, self.now) if isinstance(action, Send)]

    def submit(self, count: int) -> None:
        tasks = task_id_source()(count)
        for at in range(0, count, BATCH):
            part = tasks[at : at + BATCH]
            submitted = Submit(TaskHeader(), FUNCTION, b"".join(part), b"x" * len(part), join_u32([1] * len(part)))
            self._do(Received(peer("c"), 1, submitted))

    def join(self, name: str, credit: int) -> None:
        hello = Hello(1, 1, ROLE_WORKER, peer(name), worker=WorkerOffer(name, (), credit))
        self._do(Opened(peer(name), hello, WELCOME))

    def lose(self, name: str) -> None:
        self._do(Lost(peer(name), 205, "silent", False))

    def held(self, name: str) -> int:
        return len(self.core.tables.workers[peer(name)].held)

    def turns(self) -> list[list[Message]]:
        """What leaves in each turn, as long as another one is due at once."""
        found = [self._do(Settled())]
        while self.core.next_deadline() == 0.0:
            found.append(self._do(Settled()))
        return found


def tasks_in(messages: list[Message], kind: type) -> int:
    found = [message for message in messages if type(message) is kind]
    return sum(len(message.ids) // ID_BYTES for message in found if isinstance(message, (Dispatch, Recall)))


def test_a_worker_with_room_for_very_many_is_given_them_in_turns() -> None:
    cluster = Cluster()
    cluster.submit(TASKS)
    cluster.join("w", 2 * TASKS)
    turns = cluster.turns()
    most = max(tasks_in(turn, Dispatch) for turn in turns)
    assert most <= PLACED_A_TURN + TASKS_IN_A_MESSAGE
    assert sum(tasks_in(turn, Dispatch) for turn in turns) == TASKS == cluster.held("w")


def test_many_workers_with_a_place_each_are_given_theirs_in_turns() -> None:
    cluster = Cluster()
    for number in range(3_000):
        cluster.join(f"w{number}", 1)
    cluster.submit(BATCH)
    turns = cluster.turns()
    assert max(sum(type(message) is Dispatch for message in turn) for turn in turns) < 1_000
    assert sum(tasks_in(turn, Dispatch) for turn in turns) == 3_000, "none is left idle"


def test_the_loss_of_a_worker_with_a_long_queue() -> None:
    """Its tasks come back in slices, the first of them first in the queue, and go to another one in turns."""
    cluster = Cluster()
    cluster.submit(TASKS)
    cluster.join("w", TASKS)
    cluster.turns()
    order = list(cluster.core.tables.workers[peer("w")].held)
    cluster.join("v", TASKS)
    cluster.lose("w")
    tables = cluster.core.tables
    came_back = [tables.counts[State.QUEUED]]
    given = 0
    while tables.backlog:
        given += tasks_in(cluster._do(Settled()), Dispatch)
        came_back.append(tables.counts[State.QUEUED] + given)
    each = [after - before for before, after in pairwise(came_back)]
    assert max(came_back[0], *each) <= tables.backlog.turn_steps // 10
    cluster.turns()
    assert sorted(cluster.core.tables.workers[peer("v")].held) == sorted(order)
    assert set(tables.attempts.values()) == {2}


def test_what_is_remembered_of_a_loss_is_one_object_for_all_its_tasks() -> None:
    """A list for each of a million tasks would make the garbage collector stop the scheduler."""
    cluster = Cluster()
    cluster.submit(BATCH)
    for name in ("w", "v"):
        cluster.join(name, BATCH)
        cluster.turns()
        cluster.lose(name)
        cluster.turns()
    lost = cluster.core.tables.lost_workers
    assert len(lost) == BATCH and len({id(accounts) for accounts in lost.values()}) == 1
    assert next(iter(lost.values())) == ("w: silent", "v: silent")
    gc.collect()
    assert not gc.is_tracked(next(iter(lost.values())))


def test_very_many_are_asked_back_in_several_looks() -> None:
    cluster = Cluster()
    cluster.submit(TASKS)
    cluster.join("busy", TASKS)
    cluster.turns()
    cluster.join("idle", TASKS)
    cluster.turns()
    cluster.now += IDLE_SECONDS
    assert 0 < tasks_in([message for turn in cluster.turns() for message in turn], Recall) <= RECALLED_A_LOOK


@settings(deadline=None, max_examples=60)
@given(
    credits_=st.lists(st.sampled_from((0, 1, 3, 40)), min_size=1, max_size=6),
    tasks=st.integers(1, 80),
    budget=st.integers(1, 40),
)
def test_whatever_the_budget_all_is_placed(credits_: list[int], tasks: int, budget: int) -> None:
    """As many tasks are placed with the smallest budget as without one, and the oldest."""

    def placed(most: int) -> dict[str, list[str]]:
        story = Story()
        story.core.tables.placed_a_turn = most
        story.client("c")
        for number, credit in enumerate(credits_):
            story.worker(f"w{number}", credit=credit)
        story.submit("c", [f"t{number}" for number in range(tasks)])
        story.settle()
        for _ in range(2 * tasks + 2):
            if story.core.next_deadline() != 0.0:
                break
            story.settle()
        workers = story.core.tables.workers.values()
        return {worker.name: names(b"".join(worker.held)) for worker in workers}

    with_budget = placed(budget)
    free = sum(credits_)
    assert sum(map(len, with_budget.values())) == min(tasks, free) == sum(map(len, placed(1 << 30).values()))
    everything = sorted(int(name[1:]) for held in with_budget.values() for name in held)
    assert everything == list(range(min(tasks, free))), "the oldest leave first"


@pytest.mark.parametrize("turns", (0, 1, 5))
def test_a_task_may_leave_a_lost_worker_while_its_queue_is_read(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the storage answers for it (SCH-70): all others come back all the same."""
    monkeypatch.setattr(membership, "HELD_AT_ONCE", 2)
    story = Story()
    tasks = [f"t{number}" for number in range(9)]
    story.client("c")
    story.worker("w", credit=len(tasks))
    story.submit("c", tasks)
    story.settle()
    tables = story.core.tables
    (worker,) = tables.workers.values()
    tables.backlog.turn_steps = tables.backlog.slice_tasks = 1
    story.settle()
    story.lost("w")
    for _ in range(turns):
        story.settle()
    task_id = TaskId(ids(["t0"]))
    requeue(tables, task_id, tables.take_back(worker, task_id), Move.GIVE_BACK)
    story.work_off()
    assert tables.counts[State.QUEUED] == len(tasks) and not worker.held
    story.worker("v", credit=len(tasks))
    story.settle()
    assert sorted(names(b"".join(tables.workers[peer("v")].held))) == tasks
