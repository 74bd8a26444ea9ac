"""The scheduler's core, told as stories: events in, exact messages out, invariants after every step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scheduler_story import Story, peer, task

from scaler_protocol.codec import decode_task_error, encode_task_error
from scaler_protocol.codes import (
    BAD_BATCH,
    BAD_GRAPH,
    DEPENDENCY_FAILED,
    DUPLICATE_TASK,
    KIND_OBJECT,
    SESSION_REPLACED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    TASK_RAISED,
)
from scaler_protocol.ids import result_object_id
from scaler_protocol.messages import (
    Cancel,
    Capability,
    Credit,
    Dispatch,
    Release,
    ReleaseOwner,
    Results,
    Returned,
    Shutdown,
    ShutdownReply,
    SnapshotRequest,
    TaskError,
)
from scaler_protocol.session import Lost
from scaler_scheduler.core import Policy, Send, SendStatus, SendToStorage, Stop, StorageOpened, StorageReplied
from scaler_scheduler.core.results import rows
from scaler_scheduler.core.states import TRANSITIONS, IllegalMove, Move, State, target


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c")
    return story


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


# ---------------------------------------------------------------- workers that go


def test_a_lost_worker_gives_its_tasks_back_as_the_next_attempt(story: Story) -> None:
    story.worker("w0")
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.worker("w1")
    story.lost("w0")
    assert story.settle() == ["storage <- Release of c 1 objects"] * 2 + ["w1 <- Dispatch t0 t1 attempt [2, 2]"]


def test_a_result_of_an_older_attempt_is_dropped_and_its_object_released(story: Story) -> None:
    story.worker("w0")
    story.submit("c", ["t0"])
    story.settle()
    story.worker("w1")
    story.lost("w0")
    story.worker("w0")
    story.settle()
    holder, other = ("w0", "w1") if task("t0") in story.core.tables.workers[peer("w0")].held else ("w1", "w0")
    story.results(other, ["t0"], kind=KIND_OBJECT, value=result_object_id(task("t0"), 1))
    story.results(holder, ["t0"], attempt=1)
    assert story.settle() == ["storage <- Release of c 1 objects"]
    story.results(holder, ["t0"], attempt=2)
    assert story.settle() == ["c <- Results t0"]


def test_a_task_that_loses_worker_after_worker_is_given_up(story: Story) -> None:
    story.submit("c", ["poison"])
    for number in range(3):
        story.worker(f"w{number}")
        story.settle()
        story.lost(f"w{number}")
    lines = story.settle()
    assert lines[-1] == "c <- Results poison worker-lost"


def test_an_orderly_goodbye_is_not_counted_as_a_loss(story: Story) -> None:
    story.submit("c", ["t"])
    for number in range(5):
        story.worker(f"w{number}")
        story.settle()
        story.lost(f"w{number}", is_orderly=True)
    story.worker("last")
    assert story.settle()[-1] == "last <- Dispatch t attempt [6]"


def test_a_failed_task_is_retried_as_often_as_asked(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=1)
    story.settle()
    story.results("w", ["t"], status=STATUS_FAILED)
    assert story.settle() == ["w <- Dispatch t attempt [2]"]
    story.results("w", ["t"], status=STATUS_FAILED, attempt=2)
    assert story.settle() == ["c <- Results t failed"]


def test_the_death_of_a_processor_is_not_retried(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=5)
    story.settle()
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED)
    assert story.settle() == ["c <- Results t processor-died"]


# ---------------------------------------------------------------- cancelling


def test_cancel_of_a_queued_task(story: Story) -> None:
    story.submit("c", ["t0", "t1"])
    story.cancel("c", ["t0"])
    assert story.settle() == ["c <- Results t0 canceled", "c <- CancelReply t0 canceled"]
    story.worker("w")
    assert story.settle() == ["w <- Dispatch t1"]


def test_cancel_of_a_running_task_is_answered_when_it_has_ended(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    assert story.settle() == ["w <- Cancel t"]
    story.canceled("w", ["t"])
    assert story.settle() == ["c <- Results t canceled", "c <- CancelReply t canceled"]


def test_a_cancel_that_crosses_the_result_is_too_late(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    story.results("w", ["t"])
    lines = story.settle()
    assert lines == ["w <- Cancel t", "c <- Results t", "c <- CancelReply t too-late"]


def test_cancel_of_what_is_not_there_is_unknown_also_when_it_is_somebody_elses(story: Story) -> None:
    story.client("d")
    story.submit("d", ["theirs"])
    story.cancel("c", ["nothing", "theirs"])
    assert story.settle() == ["c <- CancelReply nothing unknown, theirs unknown"]


def test_a_lost_worker_confirms_a_cancel_by_its_absence(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    story.lost("w")
    assert story.settle() == [
        "storage <- Release of c 1 objects",
        "c <- Results t canceled",
        "c <- CancelReply t canceled",
    ]


def test_children_end_with_their_parent(story: Story) -> None:
    story.worker("w", credit=2)
    story.submit("c", ["parent"])
    story.settle()
    story.client("nested")
    story.submit("nested", ["child0", "child1", "child2"], depth=1, parent_task=task("parent"))
    assert story.settle() == ["w <- Dispatch child0 child1"]
    story.results("w", ["parent"])
    assert set(story.settle()) == {
        "c <- Results parent",
        "nested <- Results child2 canceled",
        "w <- Cancel child0 child1",
    }
    assert story.core.tables.counts[State.CANCELING] == 2
    story.canceled("w", ["child0", "child1"])
    assert "nested <- Results child0 canceled, child1 canceled" in story.settle()


# ---------------------------------------------------------------- clients that go


def test_a_client_that_goes_takes_its_tasks_and_objects_along(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["running", "queued"])
    story.settle()
    story.lost("c")
    assert story.settle() == ["storage <- ReleaseOwner of c", "w <- Cancel running"]
    story.canceled("w", ["running"])
    story.lost("w", is_orderly=True)
    assert story.settle() == []
    assert story.is_empty()


def test_a_task_submitted_again_waits_for_the_end_of_its_earlier_life(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.lost("c")
    story.client("c")
    story.submit("c", ["t"])
    assert story.settle() == ["storage <- ReleaseOwner of c", "w <- Cancel t"]
    story.canceled("w", ["t"])
    assert story.settle() == ["w <- Dispatch t attempt [2]"]
    story.results("w", ["t"], attempt=2)
    assert story.settle() == ["c <- Results t"]


# ---------------------------------------------------------------- graphs


def test_a_chain_runs_in_order_and_passes_its_results_on(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"], "e": ["b", "a"]}, unwanted=["a", "b"])
    assert story.settle() == ["w <- Dispatch a"]
    story.results("w", ["a"])
    assert story.settle() == ["w <- Dispatch b with a"]
    story.results("w", ["b"])
    assert story.settle() == ["w <- Dispatch e with b a"]
    story.results("w", ["e"])
    assert story.settle() == ["c <- Results e"]
    assert not story.core.tables.dependencies.kept


def test_a_failure_ends_everything_that_waited_for_it(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"], "e": ["b"], "other": []}, unwanted=["a", "b"])
    story.settle()
    story.results("w", ["a"], status=STATUS_FAILED)
    assert story.settle() == ["c <- Results a failed, b refused, e refused"]
    story.results("w", ["other"])
    assert story.settle() == ["c <- Results other"]


def test_a_large_intermediate_is_released_with_its_last_user(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"]}, unwanted=["a"])
    story.settle()
    story.results("w", ["a"], kind=KIND_OBJECT, value=result_object_id(task("a"), 1))
    story.settle()
    story.results("w", ["b"])
    actions = story.actions()
    assert SendToStorage(Release(0, peer("c"), result_object_id(task("a"), 1))) in actions


def test_an_unsealed_graph_keeps_results_for_the_batches_to_come(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": []}, sealed=False)
    story.settle()
    story.results("w", ["a"])
    story.settle()
    story.submit_graph("c", {"b": ["a"]})
    assert story.settle() == ["w <- Dispatch b with a"]
    story.results("w", ["b"])
    story.settle()
    assert not story.core.tables.dependencies.kept


def test_a_late_batch_of_a_graph_hears_of_an_early_failure(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": []}, sealed=False)
    story.settle()
    story.results("w", ["a"], status=STATUS_FAILED)
    assert story.settle() == ["c <- Results a failed"]
    story.submit_graph("c", {"b": ["a"], "e": ["b"], "fine": []})
    assert story.settle() == ["w <- Dispatch fine", "c <- Results b refused, e refused"]


def test_a_refused_dependent_is_told_the_story_of_its_cause(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"]})
    story.settle()
    cause = TaskError(code=TASK_RAISED, type_name="ValueError", message="no", text="Traceback …", serialized=b"pickle")
    story.results("w", ["a"], status=STATUS_FAILED, value=encode_task_error(cause))
    (send,) = story.actions()
    assert isinstance(send, Send) and isinstance(send.message, Results)
    _, refused = rows(send.message)
    assert decode_task_error(bytes(refused.value)) == replace(cause, code=DEPENDENCY_FAILED)


def test_inputs_too_large_for_one_dispatch_are_refused_with_advice(story: Story) -> None:
    story.worker("w", payload_limit=100)
    story.submit_graph("c", {"a": [], "b": [], "sum": ["a", "b"]}, unwanted=["a", "b"])
    story.settle()
    story.results("w", ["a", "b"], value=b"x" * 60)
    assert story.settle() == ["c <- Results sum refused"]
    assert not story.core.tables.dependencies.kept


def test_a_client_that_came_back_under_another_id_takes_its_tasks_over(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["running", "queued"])
    story.settle()
    story.client("d")
    story.submit("d", ["running", "queued"])
    assert story.settle() == ["w <- Cancel running", "c <- Results queued canceled"]
    story.canceled("w", ["running"])
    assert story.settle() == ["w <- Dispatch queued"]
    story.results("w", ["queued"])
    assert story.settle() == ["w <- Dispatch running attempt [2]", "d <- Results queued"]


def test_nobody_submits_in_the_name_of_another(story: Story) -> None:
    story.submit("c", ["t"], client=peer("d"))
    assert story.settle() == [f"c <- Error {BAD_BATCH} (SCH-4)"]


def test_a_second_cancel_is_answered_too(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    story.cancel("c", ["t"])
    story.settle()
    story.canceled("w", ["t"])
    assert story.settle()[1:] == ["c <- CancelReply t canceled"] * 2


def test_cancel_of_all_of_nothing_is_answered(story: Story) -> None:
    story.receive("c", Cancel(is_all=True))
    assert story.settle() == ["c <- CancelReply "]


def test_a_gone_owner_is_named_again_until_the_storage_has_answered(story: Story) -> None:
    story.lost("c")
    (first,) = story.actions()
    story.handle(StorageOpened())
    assert story.actions() == [first]
    assert isinstance(first, SendToStorage) and isinstance(first.message, ReleaseOwner)
    story.handle(StorageReplied(first.message.request_id))
    story.handle(StorageOpened())
    assert story.actions() == []


def test_the_objects_of_a_replaced_session_pass_to_the_next(story: Story) -> None:
    story.handle(Lost(peer("c"), SESSION_REPLACED, "another session", False))
    assert story.settle() == []


def test_cancelling_a_dependency_cancels_what_waits_for_it(story: Story) -> None:
    story.submit_graph("c", {"a": [], "b": ["a"]})
    story.cancel("c", ["a"])
    assert story.settle() == ["c <- Results a canceled, b canceled", "c <- CancelReply a canceled"]


# ---------------------------------------------------------------- capabilities and balance


def test_a_task_nobody_can_run_delays_no_other() -> None:
    story = Story(Policy(uses_capabilities=True))
    story.client("c")
    story.submit("c", ["needs-gpu"], capabilities=(Capability("gpu", -1),), priority=9)
    story.submit("c", ["plain"])
    story.worker("cpu")
    assert story.settle() == ["cpu <- Dispatch plain"]
    story.worker("gpu", capabilities={"gpu": -1})
    assert story.settle() == ["gpu <- Dispatch needs-gpu"]


def test_counted_capabilities_count() -> None:
    story = Story(Policy(uses_capabilities=True))
    story.client("c")
    story.worker("w", capabilities={"gpu": 3})
    story.submit("c", ["t0", "t1"], capabilities=(Capability("gpu", 2),))
    assert story.settle() == ["w <- Dispatch t0"]
    story.results("w", ["t0"])
    assert story.settle() == ["w <- Dispatch t1", "c <- Results t0"]


def test_an_idle_worker_gets_what_a_busy_one_has_not_begun(story: Story) -> None:
    story.worker("busy", credit=2)
    story.submit("c", ["running", "waiting"])
    story.settle()
    story.worker("idle")
    story.settle()
    story.now = 1.5
    assert story.settle() == ["busy <- Recall waiting"]
    story.give_back("busy", ["waiting"])
    assert story.settle() == ["idle <- Dispatch waiting"]


def test_a_recall_that_comes_too_late_changes_nothing(story: Story) -> None:
    story.worker("busy", credit=2)
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.worker("idle")
    story.settle()
    story.now = 1.5
    story.settle()
    story.receive("busy", Returned(ids=b""))
    story.results("busy", ["t0", "t1"])
    assert story.settle() == ["c <- Results t0, t1"]


# ---------------------------------------------------------------- the rest


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
    assert story.actions() == [SendStatus(peer("m"), 7)]
    status = story.core.snapshot(story.now)
    assert {count.name: count.value for count in status.task_counts if count.value} == {"dispatched": 2}
    assert [(entry.name, entry.held_count) for entry in status.workers] == [("w", 2)]


def test_an_illegal_move_raises_and_changes_nothing() -> None:
    with pytest.raises(IllegalMove, match="success cannot be moved"):
        target(State.SUCCESS, Move.DISPATCH)


def test_every_unfinished_state_can_be_left_and_no_finished_one_can() -> None:
    sources = {source for source, _ in TRANSITIONS}
    assert sources == {State.NEW, State.WAITING, State.QUEUED, State.DISPATCHED, State.CANCELING}
