"""The scheduler's core, told as stories: events in, exact messages out, invariants after every step."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import FUNCTION, Story, ids, line, peer, task

from scaler_protocol.codec import decode_task_error
from scaler_protocol.codes import (
    BAD_BATCH,
    BAD_GRAPH,
    CREDIT_EXCEEDED,
    DUPLICATE_TASK,
    NOT_ALLOWED,
    STATUS_FAILED,
    TOO_LARGE,
    UNKNOWN_MESSAGE,
)
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import GraphId
from scaler_protocol.messages import (
    Capability,
    Credit,
    Dispatch,
    Returned,
    Shutdown,
    ShutdownReply,
    SnapshotRequest,
    Submit,
    TaskHeader,
)
from scaler_protocol.session import Complained
from scaler_scheduler.core import (
    Asked,
    Numbered,
    Policy,
    Send,
    Stop,
)
from scaler_scheduler.core.entities.results import rows
from scaler_scheduler.core.entities.states import TRANSITIONS, IllegalMove, Move, State, target
from scaler_scheduler.core.placing.balancing import IDLE_SECONDS
from scaler_scheduler.core.placing.recalling import LOOK_SECONDS

# ---------------------------------------------------------------- the plain path


def test_tasks_wait_for_a_worker_and_their_results_reach_the_client(story: Story) -> None:
    story.submit("c", ["t0", "t1"])
    assert story.settle() == []
    story.worker("w")
    assert story.settle() == ["w <- Dispatch t0 t1"]
    story.results("w", ["t0", "t1"])
    assert story.settle() == ["c <- Results t0, t1"]
    story.lost("c", is_orderly=True)
    story.lost("w", is_orderly=True)
    assert story.settle() == ["storage <- ReleaseOwner of c"]
    assert story.is_empty()


def test_a_dispatch_carries_the_arguments_of_its_tasks_and_their_client(story: Story) -> None:
    story.worker("w", credit=2)
    story.submit("c", ["t0", "longer", "t2"])
    (send,) = story.actions()
    assert isinstance(send, Send) and isinstance(send.message, Dispatch)
    assert (bytes(send.message.payload), send.message.header.client) == (b"t0longer", peer("c"))


def test_never_more_than_the_credit(story: Story) -> None:
    story.worker("w", credit=2)
    story.submit("c", range(5))
    assert story.settle() == ["w <- Dispatch 0 1"]
    story.results("w", ["0"], credit=3)
    assert story.settle() == ["w <- Dispatch 2 3", "c <- Results 0"]
    story.receive("w", Credit(limit=0))
    story.results("w", ["1", "2"])
    assert story.settle() == ["c <- Results 1, 2"]


def test_of_equally_loaded_workers_the_one_that_has_just_worked_is_next(story: Story) -> None:
    for name in ("w0", "w1", "w2"):
        story.worker(name)
    story.submit("c", ["a", "b"])
    assert story.settle() == ["w0 <- Dispatch a", "w1 <- Dispatch b"]
    story.results("w0", ["a"])
    story.results("w1", ["b"])
    story.submit("c", ["d"])
    assert story.settle() == ["w1 <- Dispatch d", "c <- Results a, b"]
    story.submit("c", ["e"])
    assert story.settle() == ["w0 <- Dispatch e"]


def test_work_is_spread_over_the_least_loaded(story: Story) -> None:
    story.worker("w0")
    story.submit("c", ["a"])
    assert story.settle() == ["w0 <- Dispatch a"]
    story.worker("w1")
    story.submit("c", ["b"])
    assert story.settle() == ["w1 <- Dispatch b"]
    story.submit("c", range(4))
    assert story.settle() == ["w0 <- Dispatch 0 1", "w1 <- Dispatch 2 3"]


def test_clients_take_turns(story: Story) -> None:
    story.client("d")
    story.submit("c", ["c0", "c1", "c2"])
    story.submit("d", ["d0"])
    story.worker("w", credit=1)
    assert story.settle() == ["w <- Dispatch c0"]
    story.results("w", ["c0"])
    assert story.settle() == ["w <- Dispatch d0", "c <- Results c0"]


def test_deeper_first_then_higher_priority_then_in_order(story: Story) -> None:
    story.submit("c", ["plain"])
    story.submit("c", ["urgent"], priority=5)
    story.submit("c", ["nested"], depth=1, parent_task=task("p"))
    story.worker("w", credit=3, reserve=0)
    assert story.settle() == ["w <- Dispatch nested", "w <- Dispatch urgent", "w <- Dispatch plain"]


def test_the_reserve_is_for_nested_tasks_only(story: Story) -> None:
    story.worker("w", credit=1, reserve=1)
    story.submit("c", ["parent", "other"])
    assert story.settle() == ["w <- Dispatch parent"]
    story.submit("c", ["child"], depth=1, parent_task=task("parent"))
    assert story.settle() == ["w <- Dispatch child"]


def test_results_of_one_settling_leave_as_one_message(story: Story) -> None:
    story.worker("w0", credit=1)
    story.worker("w1", credit=1)
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.results("w1", ["t1"], status=STATUS_FAILED)
    story.results("w0", ["t0"])
    assert story.settle() == ["c <- Results t1 failed, t0"]


# ---------------------------------------------------------------- what is refused


def test_a_batch_with_a_known_task_is_refused_whole(story: Story) -> None:
    story.submit("c", ["t0"])
    story.submit("c", ["t1", "t0"])
    assert story.settle() == [f"c <- Error {DUPLICATE_TASK} (SCH-2)"]
    assert story.core.tables.where.keys() == {task("t0")}


@pytest.mark.parametrize("graph", [{"a": ["nobody"]}, {"a": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["a"]}])
def test_a_graph_that_cannot_run_is_refused_whole(story: Story, graph: dict[str, list[str]]) -> None:
    story.submit_graph("c", {"fine": [], **graph})
    assert story.settle() == [f"c <- Error {BAD_GRAPH} (SCH-16)"]
    assert not story.core.tables.where


# ---------------------------------------------------------------- capabilities and balance


def test_a_task_nobody_can_run_delays_no_other() -> None:
    story = Story()
    story.client("c")
    story.submit("c", ["needs-gpu"], capabilities=(Capability("gpu", -1),), priority=9)
    story.submit("c", ["plain"])
    story.worker("cpu")
    assert story.settle() == ["cpu <- Dispatch plain"]
    story.worker("gpu", capabilities={"gpu": -1})
    assert story.settle() == ["gpu <- Dispatch needs-gpu"]


def test_tasks_of_equal_urgency_may_ask_for_different_things() -> None:
    """Requirements that differ have no order among themselves, also not with equal names."""
    story = Story()
    story.client("c")
    for name, *asked in (("one", ("gpu", 1)), ("two", ("gpu", 2)), ("both", ("gpu", 1), ("big", -1)), ("none",)):
        story.submit("c", [name], capabilities=tuple(Capability(*item) for item in asked))
    story.worker("plain")
    assert story.settle() == ["plain <- Dispatch none"]
    story.worker("gpu", capabilities={"gpu": 1})
    assert story.settle() == ["gpu <- Dispatch one"]


def test_code_goes_only_where_it_can_be_read() -> None:
    """A worker that does not say what it reads is given any. (SCH-39)"""
    story = Story()
    story.client("c")
    story.worker("new", code_tags=("cpython-312", "cpython-313"))
    story.submit("c", ["old code"], code_tag="cpython-311", priority=9)
    story.submit("c", ["new code"], code_tag="cpython-313")
    story.submit("c", ["no code"])
    assert story.settle() == ["new <- Dispatch new code", "new <- Dispatch no code"]
    story.worker("silent")
    assert story.settle() == ["silent <- Dispatch old code"]


def test_code_that_comes_back_goes_to_the_right_worker_again() -> None:
    story = Story()
    story.client("c")
    story.worker("old", code_tags=("cpython-311",))
    story.worker("new", code_tags=("cpython-312",))
    story.submit("c", ["t"], code_tag="cpython-311")
    assert story.settle() == ["old <- Dispatch t"]
    story.lost("old")
    assert not [line for line in story.settle() if "Dispatch" in line]
    story.worker("old again", code_tags=("cpython-311",))
    assert story.settle() == ["old again <- Dispatch t attempt [2]"]


def test_what_goes_ahead_goes_where_its_code_can_be_read() -> None:
    """A task is sent ahead to the worker of the one it depends on, but not if its code is none of that worker's."""
    story = Story()
    story.client("c")
    story.worker("new", credit=1, features=("chains",), code_tags=("cpython-312",))
    graph = {"graph_id": task("graph")}
    story.submit("c", ["first"], **graph)
    story.settle()
    header = TaskHeader(graph_id=GraphId(task("graph")), code_tag="cpython-311")
    sizes, one = join_u32([1]), join_u16([1])
    second = Submit(header, FUNCTION, ids(["second"]), b"x", sizes, dependency_counts=one, dependencies=ids(["first"]))
    story.receive("c", second)
    assert story.settle() == []
    story.results("new", ["first"])
    assert not [line for line in story.settle() if "Dispatch" in line]


def test_counted_capabilities_count() -> None:
    story = Story()
    story.client("c")
    story.worker("w", capabilities={"gpu": 3})
    story.submit("c", ["t0", "t1"], capabilities=(Capability("gpu", 2),))
    assert story.settle() == ["w <- Dispatch t0"]
    story.results("w", ["t0"])
    assert story.settle() == ["w <- Dispatch t1", "c <- Results t0"]


def two_looks(story: Story) -> list[str]:
    """What two looks at the balance bring about: one at a worker that has just become idle, one at any."""
    said = []
    for _ in range(2):
        story.now += 1.5
        said += story.settle()
    return said


def test_an_idle_worker_gets_what_a_busy_one_has_not_begun(story: Story) -> None:
    story.worker("busy", credit=2)
    story.submit("c", ["running", "waiting"])
    story.settle()
    story.worker("idle")
    story.settle()
    assert story.core.next_deadline() == story.now + IDLE_SECONDS
    story.now += IDLE_SECONDS
    assert story.settle() == ["busy <- Recall waiting"]
    story.give_back("busy", ["waiting"])
    assert story.settle() == ["idle <- Dispatch waiting"]


def test_a_worker_that_runs_out_of_tasks_gets_others_without_delay(story: Story) -> None:
    """It was given fewer, because another had measured tiny tasks and took many."""
    story.worker("busy", credit=100)
    story.worker("quick", credit=2)
    names = [f"t{number}" for number in range(40)]
    story.submit("c", names)
    story.settle()
    held = list(story.core.tables.workers[peer("quick")].held)
    story.results("quick", [name for name in names if task(name) in held])
    story.settle()
    story.now += IDLE_SECONDS
    (recall,) = story.settle()
    assert recall.startswith("busy <- Recall") and recall.count("t") >= 19


def test_a_moment_of_idleness_moves_nothing(story: Story) -> None:
    story.worker("busy", credit=2)
    story.worker("quick", credit=1)
    story.submit("c", ["a", "b", "c"])
    story.settle()
    (quick,) = story.core.tables.workers[peer("quick")].held
    story.results("quick", [name for name in "abc" if task(name) == quick])
    story.settle()
    story.submit("c", ["next"])
    assert story.settle() == ["quick <- Dispatch next"]
    story.now += IDLE_SECONDS
    assert story.settle() == []


@pytest.mark.parametrize(("trigger_times", "looks"), [(1, 1), (4, 4)])
def test_how_many_looks_it_takes(trigger_times: int, looks: int) -> None:
    story = Story(Policy(load_balance_trigger_times=trigger_times, load_balance_seconds=0.1))
    story.client("c")
    story.worker("busy", credit=2)
    story.submit("c", ["running", "waiting"])
    story.worker("idle", credit=0)
    story.settle()
    story.now += IDLE_SECONDS
    story.settle()
    story.receive("idle", Credit(limit=1))
    said = []
    while not any(said):
        story.now += 0.2
        said.append(story.settle())
    assert len(said) == looks and said[-1] == ["busy <- Recall waiting"]


def test_no_balancing_when_it_is_switched_off() -> None:
    story = Story(Policy(load_balance_seconds=-1))
    story.client("c")
    story.worker("busy", credit=2)
    story.submit("c", ["running", "waiting"])
    story.settle()
    story.worker("idle")
    assert story.core.next_deadline() == story.now + LOOK_SECONDS, "only whether a worker stands still is looked at"
    assert two_looks(story) == []


def test_what_nobody_can_run_keeps_nobody_from_being_balanced() -> None:
    story = Story()
    story.client("c")
    story.submit("c", ["needs-gpu"], capabilities=(Capability("gpu", -1),))
    story.worker("busy", credit=2)
    story.submit("c", ["running", "waiting"])
    story.settle()
    story.worker("idle")
    assert two_looks(story) == ["busy <- Recall waiting"]


def test_a_recall_that_comes_too_late_changes_nothing(story: Story) -> None:
    story.worker("busy", credit=2)
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.worker("idle")
    two_looks(story)
    story.receive("busy", Returned(ids=b""))
    story.results("busy", ["t0", "t1"])
    assert story.settle() == ["c <- Results t0, t1"]


# ---------------------------------------------------------------- the rest


def given_two_dispatches(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.handle(Numbered(peer("w"), 3, ids(["t0", "t1"])))
    story.submit("c", ["t2"])
    story.settle()
    story.handle(Numbered(peer("w"), 4, ids(["t2"])))


def test_the_tasks_of_a_refused_dispatch_end_and_no_others(story: Story) -> None:
    given_two_dispatches(story)
    story.cancel("c", ["t1"])
    story.handle(Complained(peer("w"), BAD_BATCH, 3, "columns disagree", "BAT-2"))
    actions = story.actions()
    assert [line(action) for action in actions] == [
        "w <- Cancel t1",
        "c <- Results t0 refused, t1 canceled",
        "c <- CancelReply t1 canceled",
    ]
    row, _ = rows(actions[1].message)  # type: ignore[union-attr, arg-type]
    error = decode_task_error(bytes(row.value))
    assert (error.code, error.workers) == (BAD_BATCH, ("w",)) and "columns disagree" in error.text
    story.results("w", ["t2"])
    assert story.settle() == ["c <- Results t2"]
    story.submit("c", ["t3"])
    assert story.settle() == ["w <- Dispatch t3"], "it has room again"


def test_the_tasks_that_follow_a_refused_one_end_with_it(story: Story) -> None:
    story.worker("w", features=("chains",))
    story.submit_graph("c", {"a": [], "b": ["a"]})
    assert story.settle() == ["w <- Dispatch a", "w <- Dispatch b"]
    story.handle(Numbered(peer("w"), 1, ids(["a"])))
    story.handle(Numbered(peer("w"), 2, ids(["b"])))
    story.handle(Complained(peer("w"), TOO_LARGE, 1, "too much", "BAT-4"))
    assert story.settle() == ["c <- Results a refused"]
    story.give_back("w", ["b"])
    assert story.settle() == ["c <- Results b refused"]


@pytest.mark.parametrize("code", [UNKNOWN_MESSAGE, CREDIT_EXCEEDED, NOT_ALLOWED, 61_234])
@pytest.mark.parametrize("seq", [2, 3])
def test_other_complaints_of_a_worker_change_nothing(story: Story, code: int, seq: int) -> None:
    """Known ones say what is to be repaired, and unknown ones count by `fatal` alone. (ERR-5)"""
    given_two_dispatches(story)
    story.handle(Complained(peer("w"), code, seq, "?", ""))
    assert story.actions() == []
    story.results("w", ["t0", "t1", "t2"])
    assert story.settle() == ["c <- Results t0, t1, t2"]


def test_a_refusal_of_another_message_than_a_dispatch_changes_nothing(story: Story) -> None:
    given_two_dispatches(story)
    story.handle(Complained(peer("w"), BAD_BATCH, 5, "?", "BAT-2"))
    assert story.actions() == []


def test_what_is_remembered_of_dispatches_is_bounded_by_what_is_held(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["long"])
    story.settle()
    story.handle(Numbered(peer("w"), 1, ids(["long"])))
    story.receive("w", Credit(limit=2))
    worker = story.core.tables.workers[peer("w")]
    for seq in range(2, 1_000):
        story.submit("c", [seq])
        story.settle()
        story.handle(Numbered(peer("w"), seq, ids([seq])))
        story.results("w", [seq])
        assert len(worker.dispatches) < 100
    story.settle()
    story.handle(Complained(peer("w"), BAD_BATCH, 1, "?", "BAT-2"))
    assert story.settle() == ["c <- Results long refused"]


def test_a_complaint_of_a_client_changes_nothing(story: Story) -> None:
    story.handle(Complained(peer("c"), BAD_BATCH, 3, "?", "BAT-2"))
    assert story.actions() == []


def test_shutdown_is_refused_when_protected() -> None:
    story = Story(Policy(is_protected=True))
    story.client("c")
    story.receive("c", Shutdown())
    (send,) = story.actions()
    assert isinstance(send, Send) and isinstance(send.message, ShutdownReply) and not send.message.is_accepted


def test_shutdown_tells_everybody_and_stops_last(story: Story) -> None:
    story.worker("w")
    story.receive("c", Shutdown(grace_seconds=2))
    actions = story.actions()
    assert [type(action) for action in actions] == [Send, Send, Stop]


def test_a_watcher_gets_a_snapshot(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.receive("m", SnapshotRequest(7))
    assert story.actions() == [Asked(peer("m"), 2, SnapshotRequest(7))]
    status = story.core.snapshot(story.now)
    assert {count.name: count.value for count in status.task_counts if count.value} == {"dispatched": 2}
    assert [(entry.name, entry.held_count) for entry in status.workers] == [("w", 2)]


def test_an_illegal_move_raises_and_changes_nothing() -> None:
    with pytest.raises(IllegalMove, match="success cannot be moved"):
        target(State.SUCCESS, Move.DISPATCH)


def test_every_unfinished_state_can_be_left_and_no_finished_one_can() -> None:
    sources = {source for source, _ in TRANSITIONS}
    assert sources == {State.NEW, State.WAITING, State.QUEUED, State.DISPATCHED, State.CANCELING}
