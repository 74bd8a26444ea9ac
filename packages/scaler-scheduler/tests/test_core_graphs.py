"""Tasks that depend on others, and the results that are kept for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, Story, ids, names, peer, task

from scaler_protocol.codec import decode_task_error, encode, encode_task_error
from scaler_protocol.codes import (
    BAD_BATCH,
    DEPENDENCY_FAILED,
    KIND_OBJECT,
    SESSION_REPLACED,
    STATUS_FAILED,
    TASK_RAISED,
)
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import result_object_id
from scaler_protocol.messages import (
    NO_SALT,
    Cancel,
    Dispatch,
    Limits,
    Release,
    ReleaseOwner,
    Results,
    Submit,
    TaskError,
    TaskHeader,
)
from scaler_protocol.session import Lost
from scaler_scheduler.core import Send, SendToStorage, StorageOpened, StorageReplied
from scaler_scheduler.core.entities.results import rows
from scaler_scheduler.core.tables import tables

SMALL_ENVELOPE = Limits(envelope_bytes=64 * 1024)

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


def test_an_order_brings_no_input(story: Story) -> None:
    """A part that is bytes is not looked at, whatever its size. (BAT-9)"""
    story.worker("w")
    first, second = "a" * 16, "b" * 16
    needs = {"dependency_counts": join_u16([0, 1]), "dependencies": task(first)}
    sizes, payload = join_u32([16, 16]), f"{first}{second}".encode()
    story.receive("c", Submit(TaskHeader(), FUNCTION, ids([first, second]), payload, sizes, **needs))  # type: ignore[arg-type]
    assert story.settle() == [f"w <- Dispatch {first}"]
    story.results("w", [first])
    assert story.settle() == [f"w <- Dispatch {second}", f"c <- Results {first}"]


def test_what_has_waited_goes_before_what_could_run_from_the_beginning(story: Story) -> None:
    """A sum of many: its inputs are freed as soon as they can be. (SCH-11)"""
    story.worker("w", credit=2)
    graph = {"a": [], "b": [], "e": [], "f": [], "ab": ["a", "b"], "ef": ["e", "f"], "all": ["ab", "ef"]}
    story.submit_graph("c", graph, unwanted=["a", "b", "e", "f", "ab", "ef"])
    assert story.settle() == ["w <- Dispatch a b"]
    story.results("w", ["a", "b"])
    assert story.settle() == ["w <- Dispatch ab e with a b"]


def test_a_failure_ends_everything_that_waited_for_it(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"], "e": ["b"], "other": []}, unwanted=["a", "b"])
    story.settle()
    story.results("w", ["a"], status=STATUS_FAILED)
    assert story.settle() == ["c <- Results a failed, e refused"], "the client does not wait for b"
    story.results("w", ["other"])
    assert story.settle() == ["c <- Results other"]


def test_what_is_sent_of_a_failing_graph_does_not_grow_with_the_tasks_that_nobody_waits_for(story: Story) -> None:
    """Each of their rows would have the whole error. Those behind a canceled task are told: its Cancel may be answered
    for them as well. (SCH-14, CAN-2)"""
    links = [f"t{number}" for number in range(3000)]
    chain = {link: [before] if before else [] for before, link in zip(["", *links], links, strict=False)}
    story.worker("w", credit=1)
    story.submit_graph("c", chain, unwanted=links[:-1])
    story.work_off()
    assert story.settle() == ["w <- Dispatch t0"]
    story.results("w", ["t0"], status=STATUS_FAILED, value=b"e" * 1000)
    story.work_off()
    assert story.settle() == ["c <- Results t0 failed", "c <- Results t2999 refused"]
    assert not story.core.tables.where
    story.submit_graph("c", {"a": [], "b": ["a"]}, unwanted=["a", "b"])
    story.settle()
    story.cancel("c", ["a"])
    story.settle()
    story.canceled("w", ["a"])
    assert "c <- Results a canceled, b canceled" in story.settle()


def test_a_large_intermediate_is_released_with_its_last_user(story: Story) -> None:
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": ["a"]}, unwanted=["a"])
    story.settle()
    story.results("w", ["a"], kind=KIND_OBJECT, value=result_object_id(task("a"), 1, NO_SALT, peer("c")))
    story.settle()
    story.results("w", ["b"])
    actions = story.actions()
    assert SendToStorage(Release(0, peer("c"), result_object_id(task("a"), 1, NO_SALT, peer("c")))) in actions


def test_very_many_intermediates_are_released_in_parts(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of several batches may keep more than an envelope names. (LIM-1)"""
    monkeypatch.setattr(tables, "IDS_IN_A_MESSAGE", 2)
    story.worker("w")
    story.submit_graph("c", {"a": [], "b": [], "e": [], "sum": ["a", "b", "e"]}, unwanted=["a", "b", "e"])
    story.settle()
    for name in "abe":
        story.results("w", [name], kind=KIND_OBJECT, value=result_object_id(task(name), 1, NO_SALT, peer("c")))
    story.settle()
    story.results("w", ["sum"])
    assert [line for line in story.settle() if line.startswith("storage")] == [
        "storage <- Release of c 2 objects",
        "storage <- Release of c 1 objects",
    ]


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


def test_a_graph_is_sealed_by_its_own_client_only(story: Story) -> None:
    """Three clients have chosen one graph id: each has a graph of its own. (SCH-18)"""
    for name in ("c", "d", "e"):
        story.client(name)
    story.worker("w")
    story.submit_graph("c", {"a": []}, sealed=False)
    story.submit_graph("d", {"x": []}, sealed=False)
    story.settle()
    story.results("w", ["a", "x"])
    story.settle()
    story.submit_graph("e", {"y": []})
    story.lost("d")
    assert "storage <- ReleaseOwner of d" in story.settle()
    story.submit_graph("c", {"b": ["a"]}, sealed=False)
    assert story.settle() == ["w <- Dispatch b with a"]
    story.results("w", ["b", "y"])
    story.submit_graph("c", {"last": ["b"]})
    assert "w <- Dispatch last with b" in story.settle()
    story.results("w", ["last"])
    story.settle()
    assert not story.core.tables.dependencies.kept


def test_watchers_see_the_graphs_of_two_clients_as_two(story: Story) -> None:
    story.client("d")
    story.submit_graph("c", {"a": []})
    story.submit_graph("d", {"x": [], "y": ["x"]})
    shapes = story.core.graph_shapes().graphs
    assert [(shape.client_id, shape.task_count) for shape in shapes] == [
        (story.core.display_id(peer("c")), 1),
        (story.core.display_id(peer("d")), 2),
    ]


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
    story.worker("w", limits=Limits(payload_frame_bytes=100))
    story.submit_graph("c", {"a": [], "b": [], "sum": ["a", "b"]}, unwanted=["a", "b"])
    story.settle()
    story.results("w", ["a", "b"], value=b"x" * 60)
    assert story.settle() == ["c <- Results sum refused"]
    assert not story.core.tables.dependencies.kept


def test_more_inputs_than_an_envelope_names_are_refused_with_advice(story: Story) -> None:
    """However small each is: no other cut of a single task is smaller. (PAY-4)"""
    story.worker("w", credit=5_000, limits=SMALL_ENVELOPE)
    leaves = [f"leaf{number}" for number in range(4_000)]
    story.submit_graph("c", {**dict.fromkeys(leaves, ()), "sum": leaves}, unwanted=leaves)
    story.work_off()
    story.settle()
    story.results("w", leaves)
    story.work_off()
    assert story.settle() == ["c <- Results sum refused"]
    assert not story.core.tables.dependencies.kept


def test_what_is_sent_ahead_fits_into_an_envelope_with_all_it_awaits(story: Story) -> None:
    """(LIM-3)"""
    story.worker("w", credit=5_000, limits=SMALL_ENVELOPE, features=("chains",))
    sums = {f"sum{number}": [f"leaf{number}.{one}" for one in range(16)] for number in range(250)}
    story.submit_graph("c", {**{leaf: () for leaves in sums.values() for leaf in leaves}, **sums})
    story.work_off()
    sent = [action.message for action in story.actions() if isinstance(action, Send)]
    dispatches = [message for message in sent if isinstance(message, Dispatch)]
    assert set(sums) < {name for message in dispatches for name in names(message.ids)}
    assert max(len(encode(message)[0]) for message in dispatches) <= SMALL_ENVELOPE.envelope_bytes


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
