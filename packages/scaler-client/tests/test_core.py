"""ClientCore: events in, exact actions out, everything derivable derived again after each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.client_core import (
    FUNCTION,
    FUNCTION_2,
    GRAPH,
    HEADER,
    OBJECT,
    OTHER,
    SERVER,
    TIMEOUT,
    Told,
    Waiter,
    answered,
    call,
    completions,
    ended,
    lost,
    names_in,
    opened,
    succeeded,
    task,
)
from tests.support.client_graphs import GraphNode, graph_of

from scaler.client.core import losses
from scaler.client.core.actions import (
    AnswerShutdown,
    Complete,
    Print,
    Redial,
    Release,
    Send,
)
from scaler.client.core.batching import bounds_of
from scaler.client.core.core import ClientCore
from scaler.client.core.cutting import cut_batch, fits, picked
from scaler.client.core.events import (
    FLUSH,
    TICKED,
    CancelRequested,
    GraphSubmitted,
    Left,
    Numbered,
    ShutdownRequested,
    Ticked,
    Unneeded,
)
from scaler.client.core.records import Outcomes
from scaler.client.core.states import IllegalMove, Move, State, after
from scaler_protocol import codes, columns
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.messages import (
    Cancel,
    Limits,
    Results,
    Shutdown,
    ShutdownReply,
    Submit,
    TaskError,
    TaskHeader,
    TaskLog,
)
from scaler_protocol.session import Complained, Received

# ---------------------------------------------------------------- submitting


def test_one_call_leaves_as_one_small_message() -> None:
    told = Told()
    told.submit(call("a"))
    assert told.sent() == [Submit(HEADER, FUNCTION, task("a"), b"a", columns.join_u32([1]))]
    assert told(FLUSH) == []


def test_what_piles_up_with_equal_headers_leaves_together() -> None:
    told = Told()
    told.submit(call("a"), call("b", header=OTHER), call("c", function=FUNCTION_2), call("d", "e"))
    first, second = told.sent()
    assert (names_in(first), names_in(second)) == (["a", "c", "d", "e"], ["b"])
    assert first.functions == FUNCTION + FUNCTION_2
    assert first.function_indexes == columns.join_u16([0, 1, 0, 0])
    assert first.payload == b"acde"
    assert first.part_sizes == columns.join_u32([1, 1, 1, 1])


def test_equal_headers_need_not_be_the_same_object() -> None:
    told = Told()
    told.submit(call("a", header=TaskHeader(priority=7)), call("b"), call("c", header=TaskHeader(priority=7)))
    assert [names_in(message) for message in told.sent()] == [["a", "c"], ["b"]]


def test_batches_keep_to_the_limits_of_the_session() -> None:
    told = Told(is_open=False)
    told(opened(Limits(batch_tasks=2, payload_frame_bytes=4)))
    told.submit(*[call(name) for name in ("a", "b", "c", "dddd", "e")])
    assert [names_in(message) for message in told.sent()] == [["a", "b"], ["c"], ["dddd"], ["e"]]


def test_mixed_shapes_share_a_batch() -> None:
    told = Told()
    two_parts = call("b")._replace(
        payload=b"x" + OBJECT, part_sizes=(1, 16), part_counts=(2,), part_kinds=bytes((0, codes.KIND_OBJECT))
    )
    told.submit(call("a"), two_parts, call("c", "d"))
    (message,) = told.sent()
    assert message.part_counts == columns.join_u16([1, 2, 1, 1])
    assert message.part_kinds == bytes((0, 0, codes.KIND_OBJECT, 0, 0))
    assert message.part_sizes == columns.join_u32([1, 1, 16, 1, 1])


# ---------------------------------------------------------------- results


def test_results_find_their_collectors() -> None:
    told, one, many = Told(), Waiter(), Waiter()
    told.submit(call("a", collector=one), call("b", "c", collector=many))
    told.sent()
    assert told(succeeded("b", "a")) == [
        Complete(many, Outcomes((task("b"),), sizes=(1,), payload=b"b")),
        Complete(one, Outcomes((task("a"),), sizes=(1,), payload=b"a")),
    ]
    assert told(succeeded("c")) == [Complete(many, Outcomes((task("c"),), sizes=(1,), payload=b"c"))]
    assert told.core.is_idle


def test_a_result_that_comes_twice_is_told_once() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    assert len(told(succeeded("a"))) == 1
    assert told(succeeded("a")) == []
    assert told.core.dropped_count == 1


def test_the_object_of_a_result_nobody_waits_for_is_released() -> None:
    told = Told()
    assert told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT)) == [Release((OBJECT,))]


def test_argument_objects_are_released_when_the_last_of_their_tasks_has_ended() -> None:
    told = Told()
    told.submit(call("a", "b", objects=(OBJECT,)))
    told.sent()
    assert [type(action) for action in told(succeeded("a"))] == [Complete]
    assert told(succeeded("b"))[-1] == Release((OBJECT,))


def test_printed_text_is_passed_on_with_where_it_comes_from() -> None:
    log_id = TaskId(b"a client" + (258).to_bytes(8, "little"))
    assert Told()(Received(SERVER, 1, TaskLog(log_id, 1, "hello\nworld", "w1"))) == [
        Print(1, "[worker w1, task 6120636c:258] hello\n[worker w1, task 6120636c:258] world\n")
    ]
    assert Told()(Received(SERVER, 1, TaskLog(log_id, 2, "\n"))) == [Print(2, "[task 6120636c:258] \n")]


# ---------------------------------------------------------------- sessions that end


def test_a_successor_gets_what_is_unfinished_under_the_same_ids() -> None:
    told = Told()
    told.submit(call("a", "b", "c"), call("d"))
    first = told.sent()
    told(succeeded("b"))
    assert told(lost()) == [Redial()]
    assert told(FLUSH) == []
    assert told(opened()) == []
    (again,) = told.sent()
    assert names_in(first[0]) == ["a", "b", "c", "d"]
    assert names_in(again) == ["a", "c", "d"]
    assert again.payload == b"acd"
    assert completions(told(succeeded("a", "c", "d"))) == {task(name): 0 for name in "acd"}
    assert told.core.is_idle


class Once(Waiter):
    """Of a generator, whose values are streamed."""

    runs_once = True


def test_a_successor_gets_no_task_that_may_have_begun_to_stream() -> None:
    """Until it is sent it has not begun. (CLI-27)"""
    told = Told()
    told.submit(call("a"), call("b", collector=Once()))
    told.sent()
    actions = told(lost())
    assert [one.outcomes.error for one in actions if type(one) is Complete] == [losses.session_lost()]
    told(call("c", collector=Once()))
    assert completions(told(lost())) == {}
    told(opened())
    assert names_in(told.sent()[-1]) == ["a", "c"]
    successor = ClientCore(timeout_seconds=TIMEOUT)
    actions = successor.inherit(told.core, lambda task_id, entry: False, now=1.0)
    assert completions(actions) == dict.fromkeys((task("b"), task("c")), codes.STATUS_FAILED), "b was not told, either"
    assert successor.pending_count == 1, "also when a turn was interrupted"


def test_an_inheritor_releases_what_ended_tasks_took() -> None:
    """Whether the core before it has is unknown: a Release may be repeated. (OWN-3)"""
    told = Told()
    told.submit(call("a", objects=(OBJECT,)), call("b", objects=(ObjectId(bytes(16)),)))
    told.sent()
    told(succeeded("a"))  # its collector was told, and then the turn was interrupted
    heir = ClientCore(timeout_seconds=TIMEOUT)
    assert heir.inherit(told.core, lambda task_id, entry: task_id == task("a"), now=1.0) == [Release((OBJECT,))]
    assert heir.pending_count == 1, "what has not ended needs its own"
    heir = ClientCore(timeout_seconds=TIMEOUT)
    assert heir.inherit(told.core, lambda task_id, entry: False, now=1.0) == [], "it begins again"
    again = {task("a"), task("b")}
    heir = ClientCore(timeout_seconds=TIMEOUT)
    assert heir.inherit(told.core, lambda task_id, entry: False, 1.0, again) == [], "its submission is handled again"
    assert heir.is_idle


def test_an_inheritor_releases_what_an_ended_graph_took() -> None:
    told = Told()
    told(graph_of(GRAPH, [GraphNode(call("a"))], objects=(OBJECT,)))
    told.sent()
    told(succeeded("a"))
    heir = ClientCore(timeout_seconds=TIMEOUT)
    assert heir.inherit(told.core, lambda task_id, entry: True, now=1.0) == [Release((OBJECT,))]


@pytest.mark.parametrize("most_tasks", [100, 2])
def test_a_successor_gets_a_task_that_runs_again_once(most_tasks: int) -> None:
    """One of a batch has ended, its value is lost, and so it was submitted again by itself."""
    told = Told()
    told.submit(call("a", "b", "c", "d"))
    told.sent()
    told(succeeded("a"))
    told.submit(call("a"))
    told(lost())
    told(opened(Limits(batch_tasks=most_tasks)))
    assert sorted(name for one in told.sent() for name in names_in(one)) == ["a", "b", "c", "d"]


def test_when_nobody_comes_back_everything_fails() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(lost())
    told.submit(call("b"))
    assert told.core.next_deadline() == told.now + TIMEOUT
    told.now += TIMEOUT
    actions = told(TICKED)
    assert completions(actions) == {task("a"): codes.STATUS_FAILED, task("b"): codes.STATUS_FAILED}
    (first, *_) = [action for action in actions if isinstance(action, Complete)]
    assert first.outcomes.error == TaskError(codes.LEASE_EXPIRED, message="the scheduler has not come back within 60 s")


def test_when_the_scheduler_has_no_room_any_more_its_reason_is_told() -> None:
    """(ERR-11)"""
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(lost())
    told.now += TIMEOUT
    reason = "this scheduler has 2 sessions, as many as it may: end some, or dial again later"
    (first,) = [action for action in told(Ticked(reason)) if isinstance(action, Complete)]
    assert first.outcomes.error is not None
    text = f"the scheduler had no session for this client for 60 s, and has said: {reason}"
    assert first.outcomes.error.message == text


def test_an_expired_lease_fails_everything_now() -> None:
    """The session layer has waited for as long as the program wants to."""
    told = Told()
    told.submit(call("a"))
    told.sent()
    gone = lost(codes.LEASE_EXPIRED, silent_seconds=TIMEOUT)
    assert completions(told(gone)) == {task("a"): codes.STATUS_FAILED}
    assert told.core.next_deadline() is None
    assert told(opened()) == [], "and the client can be used again"


def test_a_lease_shorter_than_the_timeout_ends_the_session_and_not_the_wait() -> None:
    """The lease is the shorter of what both sides propose. The program has chosen how long it waits."""
    told = Told()
    told.submit(call("a"))
    told.sent()
    assert completions(told(lost(codes.LEASE_EXPIRED, silent_seconds=TIMEOUT / 3))) == {}
    assert told.core.next_deadline() == told.now + TIMEOUT * 2 / 3
    assert told(opened()) == []
    assert [names_in(message) for message in told.sent()] == [["a"]]


def test_leaving_cancels_what_is_pending_and_failing_fails_it() -> None:
    for event, status in ((Left(), codes.STATUS_CANCELED), (Left("broken"), codes.STATUS_FAILED)):
        told = Told()
        told.submit(call("a"))
        told.sent()
        told.submit(call("b"))
        assert completions(told(event)) == {task("a"): status, task("b"): status}


def test_shutdown_is_answered() -> None:
    told = Told()
    assert told(ShutdownRequested(3.0)) == [Send(Shutdown(3.0))]
    assert told(Received(SERVER, 1, ShutdownReply(False, "protected"))) == [AnswerShutdown(False, "protected")]
    assert told(Received(SERVER, 1, ShutdownReply(False, "again"))) == []


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_goodbye_is_an_answer_to_shutdown(is_orderly: bool) -> None:
    told = Told()
    told(ShutdownRequested())
    assert told(lost(text="bye", is_orderly=is_orderly)) == [Redial(), AnswerShutdown(is_orderly, "bye")]


def test_a_refused_batch_has_ended() -> None:
    told = Told()
    told.submit(call("a", "b", objects=(OBJECT,)), call("c", header=OTHER))
    first, second = told.sent()
    told(Numbered(1, first.ids))
    told(Numbered(2, second.ids))
    told(succeeded("a"))
    actions = told(Complained(SERVER, codes.BAD_BATCH, 1, "columns disagree", "BAT-2"))
    assert completions(actions) == {task("b"): codes.STATUS_REFUSED}
    assert actions[0].outcomes.error == TaskError(codes.BAD_BATCH, "refused", "columns disagree")  # type: ignore[union-attr]
    assert actions[1] == Release((OBJECT,))
    assert told(Complained(SERVER, codes.BAD_BATCH, 1, "again", "")) == []
    assert told(Complained(SERVER, codes.OK, 77, "about nothing we know", "")) == []
    assert told.core.pending_count == 1


# ---------------------------------------------------------------- graphs


def graph(*nodes: tuple[str, str, bool], objects: tuple[ObjectId, ...] = (), batch_tasks: int = 100) -> GraphSubmitted:
    """(name, names it depends on, is wanted)"""
    header = TaskHeader(graph_id=GRAPH)
    made = [
        GraphNode(call(name, header=header), tuple(map(task, needs)), is_wanted) for name, needs, is_wanted in nodes
    ]
    return graph_of(GRAPH, made, objects, batch_tasks)


def test_a_graph_leaves_in_order_with_its_dependencies() -> None:
    told = Told()
    assert told(graph(("a", "", False), ("b", "a", False), ("c", "ab", True))) == []
    (message,) = told.sent()
    assert names_in(message) == ["a", "b", "c"]
    assert message.header.graph_id == GRAPH
    assert message.dependency_counts == columns.join_u16([0, 1, 2])
    assert message.dependencies == task("a") + task("a") + task("b")
    assert message.task_flags == bytes((1, 1, 0))
    assert message.is_graph_sealed


def test_a_graph_in_several_batches_is_sealed_by_the_last() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", False), ("c", "ab", True), batch_tasks=2))
    assert [message.is_graph_sealed for message in told.sent()] == [False, True]


def test_tasks_that_are_cut_out_of_a_batch_keep_their_keys() -> None:
    """The batch gives keys to four of its five tasks."""
    (batch,) = graph(*[(name, "", True) for name in "abcde"]).batches
    message = replace(batch.message, key_sizes=bytes((1, 0, 3, 2, 1)), keys=b"ACCCDDE")
    keyed = batch._replace(message=message)
    pieces = [one.message for one in cut_batch(keyed, bounds_of(Limits(batch_tasks=2)))]
    assert [(one.key_sizes, one.keys) for one in pieces] == [(b"\1\0", b"A"), (b"\3\2", b"CCCDD"), (b"\1", b"E")]
    chosen = picked(keyed, [0, 3, 4]).message
    assert (chosen.key_sizes, chosen.keys) == (b"\1\2\1", b"ADDE")
    bare = picked(batch, [0, 3, 4]).message
    assert (bare.key_sizes, bare.keys) == (b"", b"")
    bounds = bounds_of(Limits(envelope_bytes=16 * len(message.ids)))
    assert fits(message, bounds) and not fits(replace(message, keys=bytes(bounds.column_bytes)), bounds)


def test_a_graph_ends_with_its_wanted_tasks() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", True), ("c", "a", True), objects=(OBJECT,)))
    told.sent()
    assert completions(told(succeeded("b"))) == {task("b"): 0}
    assert told(succeeded("c"))[-1] == Release((OBJECT,))
    assert told.core.is_idle


def test_a_failed_task_ends_all_that_is_unfinished_with_its_error() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "", True), ("c", "", True), ("done", "", True), objects=(OBJECT,)))
    told.sent()
    told(succeeded("done"))
    actions = told(ended("b", codes.STATUS_FAILED, codes.KIND_INLINE, b"why"))
    assert completions(actions) == {task("b"): codes.STATUS_FAILED, task("c"): codes.STATUS_FAILED}
    assert [action.outcomes.payload for action in actions if isinstance(action, Complete)] == [b"why", b"why"]
    assert actions[-2:] == [Send(Cancel(task("a") + task("b") + task("c") + task("done"))), Release((OBJECT,))]
    assert told.core.is_idle
    assert told(succeeded("c")) == [], "too late"


def test_the_first_story_of_a_failure_is_told() -> None:
    """Its dependents are refused in the same message, with less to say."""
    told = Told()
    told(graph(("a", "", False), ("b", "a", True)))
    told.sent()
    statuses = bytes((codes.STATUS_PROCESSOR_DIED, codes.STATUS_REFUSED))
    both = Results(task("a") + task("b"), b"diedlost", columns.join_u32([4, 4]), statuses=statuses, kinds=bytes(2))
    (done, *_) = told(Received(SERVER, 1, both))
    assert isinstance(done, Complete) and done.outcomes.ids == (task("b"),)
    assert (done.outcomes.statuses, done.outcomes.payload) == (statuses[:1], b"died")


def test_a_failure_of_what_nobody_waits_for_ends_its_own_graph_only() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", True)))
    told(replace(graph(("x", "", False), ("y", "x", True)), graph_id=GraphId(b"other".ljust(16, b"."))))
    told.sent()
    assert completions(told(ended("x", codes.STATUS_FAILED))) == {task("y"): codes.STATUS_FAILED}
    assert told(ended("nobody", codes.STATUS_FAILED)) == []
    assert completions(told(succeeded("b"))) == {task("b"): 0}


def test_a_result_object_that_others_of_its_graph_may_need_is_released_with_the_graph() -> None:
    told = Told()
    told(graph(("a", "", True), ("b", "a", True)))
    told.sent()
    told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT))
    assert told(Unneeded((OBJECT,))) == []
    assert told(succeeded("b"))[-1] == Release((OBJECT,))
    assert told(Unneeded((OBJECT,))) == [Release((OBJECT,))], "of no graph: at once"


def test_canceling_one_node_cancels_the_graph() -> None:
    told = Told()
    told(graph(("a", "", False), ("b", "a", True), ("c", "a", True)))
    told.sent()
    done = completions(told(CancelRequested((task("c"),))))
    assert done == {task("b"): codes.STATUS_CANCELED, task("c"): codes.STATUS_CANCELED}
    assert told.core.is_idle
    assert told.gathered() == [Cancel(task("a") + task("b") + task("c"), grace_seconds=1.0)]
    assert told(answered(codes.CANCEL_CANCELED, "a", "b", "c")) == []
    assert told(ended("b", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT)) == [Release((OBJECT,))], "it came too late"


def test_a_successor_gets_the_whole_graph() -> None:
    """The finished nodes too: their results are gone with the scheduler that kept them."""
    told = Told()
    told(graph(("a", "", True), ("b", "a", False), ("c", "b", True)))
    told.sent()
    told(succeeded("a"))
    told(lost())
    told(opened())
    (again,) = told.sent()
    assert names_in(again) == ["a", "b", "c"]
    assert again.task_flags == bytes((1, 1, 0)), "nobody wants the result of a twice"
    assert completions(told(succeeded("c"))) == {task("c"): 0}
    assert told.core.is_idle


def test_a_graph_that_ended_is_not_sent_though_it_waits() -> None:
    told = Told()
    told(graph(("a", "", True), ("b", "a", True)))
    told.sent()
    told(succeeded("a"))
    told(lost())
    assert completions(told(CancelRequested((task("b"),)))) == {task("b"): codes.STATUS_CANCELED}
    told(opened())
    assert told(FLUSH) == []


# ---------------------------------------------------------------- moves


def test_an_illegal_move_is_our_own_mistake() -> None:
    with pytest.raises(IllegalMove, match="ENDED cannot SEND"):
        after(State.ENDED, Move.SEND)
