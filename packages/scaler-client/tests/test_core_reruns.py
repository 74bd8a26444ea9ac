"""A graph begins again in the same session when a restarted storage has lost values between its nodes. (CLI-23)"""

from __future__ import annotations

from tests.support.client_chains import STORED, begun, chain, kept, lines, messages, node, opened
from tests.support.client_core import (
    GRAPH,
    OBJECT,
    SERVER,
    Told,
    answered,
    completions,
    ended,
    lost,
    names_in,
    succeeded,
    task,
)
from tests.support.client_graphs import graph_of

from scaler.client.core import reruns
from scaler.client.core.actions import Action, Claim, Complete, Release, Send
from scaler.client.core.events import FLUSH, TICKED, CancelRequested, Flush, ObjectsLost, StorageRestarted
from scaler.client.core.outbox import WINDOW_BYTES
from scaler.client.errors import task_error_of
from scaler_protocol import codec, codes, columns
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Cancel, Results, Submit, TaskError
from scaler_protocol.session import Received

CANCELED, TOO_LATE, UNKNOWN = codes.CANCEL_CANCELED, codes.CANCEL_TOO_LATE, codes.CANCEL_UNKNOWN


def cancels(actions: list[Action]) -> list[str]:
    sent = [action.message for action in actions if isinstance(action, Send)]
    assert all(isinstance(message, Cancel) for message in sent)
    return [one.rstrip(b".").decode() for message in sent for one in columns.split_ids(message.ids)]  # type: ignore[union-attr]


def refused(code: int, *names: str) -> Received:
    error = codec.encode_task_error(TaskError(code=code, message="an argument is lost"))
    count = len(names)
    return Received(
        SERVER, 1,
        Results(
            columns.join_ids(map(task, names)), error * count, columns.join_u32([len(error)] * count),
            statuses=bytes([codes.STATUS_REFUSED]) * count, kinds=bytes([codes.KIND_INLINE]) * count,
        ),
    )  # fmt: skip


def missed(*names: str) -> Received:
    return refused(codes.NO_SUCH_OBJECT, *names)


def restarted() -> Told:
    """A chain of which `a` was stored; what came of `b` is not known."""
    told = begun(chain("a", "b", "c", "d"))
    assert told(StorageRestarted()) == [], "nothing is known to be lost"
    return told


def test_a_graph_begins_again_when_a_node_misses_a_value() -> None:
    told = restarted()
    assert cancels(told(missed("b"))) == ["a", "b", "c", "d"]
    assert completions(told(refused(codes.DEPENDENCY_FAILED, "c", "d"))) == {}
    assert lines(told) == [], "an id is legal again when its task has ended"
    assert told(answered(UNKNOWN, "a", "b", "c")) == []
    assert lines(told) == []
    told(answered(UNKNOWN, "d"))
    assert lines(told) == ["submit a b c d sealed"]
    assert completions(told(succeeded("d"))) == {task("d"): codes.STATUS_SUCCESS}
    assert told.core.is_idle


def test_a_known_loss_is_not_waited_for() -> None:
    """The inline value is given; the stored one, and what the scheduler kept of the old run, is made again."""
    told = begun(chain("a", "b", "c", "d"))
    told(kept({"a": b"1"}))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    assert told(StorageRestarted()) == [Claim(((task("b"), ObjectId(STORED)),), is_asked_for=True)]
    assert cancels(told(ObjectsLost((ObjectId(STORED),)))) == ["a", "b", "c", "d"]
    assert told(answered(UNKNOWN, "a", "b")) == []
    told(answered(CANCELED, "c", "d"))
    assert lines(told) == [], "its result is on its way, and would end the new run"
    assert completions(told(ended("d", codes.STATUS_CANCELED))) == {}
    assert lines(told) == ["given a", "submit b c d sealed"]


def test_what_a_restarted_storage_has_kept_is_used() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    told(StorageRestarted())
    assert told(ObjectsLost((OBJECT,))) == [], "another one is lost, which no node needs"
    actions = told(succeeded("c"))
    assert completions(actions) == {task("c"): codes.STATUS_SUCCESS}
    assert Release((ObjectId(STORED),)) in actions, "what was claimed is released with the graph"


def test_small_values_are_no_reason() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": b"2"}))
    assert told(StorageRestarted()) == []
    assert completions(told(succeeded("c"))) == {task("c"): codes.STATUS_SUCCESS}


def test_new_results_are_stored_under_other_ids() -> None:
    """A Release of the old ones may be on its way."""
    told = restarted()
    salts = [batch.message.header.result_salt for graph in told.core._table.graphs.values() for batch in graph.batches]
    told(missed("b"))
    told(refused(codes.DEPENDENCY_FAILED, "d"))
    told(answered(UNKNOWN, "a", "b", "c", "d"))
    again = [message for message in messages(told) if isinstance(message, Submit)]
    assert again
    assert all(len(message.header.result_salt) == 16 for message in again)
    assert {message.header.result_salt for message in again}.isdisjoint(salts)


def test_what_succeeds_meanwhile_has_succeeded() -> None:
    told = begun(graph_of(GRAPH, [node("a", is_wanted=True), node("b"), node("c", "a", "b", is_wanted=True)]))
    told(StorageRestarted())
    told(missed("b"))
    assert completions(told(succeeded("a"))) == {task("a"): codes.STATUS_SUCCESS}
    told(refused(codes.DEPENDENCY_FAILED, "c"))
    told(answered(TOO_LATE, "a"))
    told(answered(UNKNOWN, "b", "c"))
    assert lines(told) == ["given a", "submit b c sealed"]


def test_a_stored_value_that_the_program_has_is_made_again_for_the_nodes() -> None:
    """Without claim of the program: the scheduler releases it when no node needs it any more."""
    told = begun(graph_of(GRAPH, [node("a", is_wanted=True), node("b", "a", is_wanted=True)]))
    told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT))
    assert told(StorageRestarted()) == [], "it is among the objects that the program has, which are asked for anyway"
    assert cancels(told(ObjectsLost((OBJECT,)))) == ["a", "b"]
    told(ended("b", codes.STATUS_CANCELED))
    told(answered(CANCELED, "b"))
    told(answered(UNKNOWN, "a"))
    (again,) = messages(told)
    assert isinstance(again, Submit)
    assert names_in(again) == ["a", "b"]
    assert again.task_flags == bytes([codes.TASK_UNWANTED, 0])


def test_a_graph_that_is_not_sent_whole_is_sent_and_canceled_first() -> None:
    """Its last batch seals it at the scheduler."""
    told = Told(is_open=False)
    told(opened())
    told(chain("a", "b", "c", batch_tasks=1))
    (first,) = told(Flush(WINDOW_BYTES - 1))
    assert isinstance(first, Send)
    told(kept({"a": STORED}, kind=codes.KIND_OBJECT))
    told(StorageRestarted())
    assert cancels(told(ObjectsLost((ObjectId(STORED),)))) == ["a"]
    told(answered(UNKNOWN, "a"))
    sent = [action.message for action in told(FLUSH) if isinstance(action, Send)]
    assert [type(message) for message in sent] == [Submit, Cancel, Submit, Cancel]
    told(ended("c", codes.STATUS_CANCELED))
    told(answered(CANCELED, "c", "b"))
    assert lines(told) == ["submit a", "submit b", "submit c sealed"]
    assert completions(told(succeeded("c"))) == {task("c"): codes.STATUS_SUCCESS}


# ------------------------------------------------------------ what ends it


def test_without_a_restart_a_missing_object_is_an_error() -> None:
    """It was released, or never stored: to run its graph again brings nothing back."""
    told = begun(chain("a", "b"))
    assert completions(told(missed("b"))) == {task("b"): codes.STATUS_REFUSED}


def test_it_begins_again_three_times_at_most() -> None:
    told = begun(chain("a", "b"))
    for _ in range(reruns.MOST):
        told(StorageRestarted())
        assert completions(told(missed("b"))) == {}
        told(answered(UNKNOWN, "a", "b"))
        assert lines(told) == ["submit a b sealed"]
    told(StorageRestarted())
    assert completions(told(missed("b"))) == {task("b"): codes.STATUS_REFUSED}


def test_an_error_of_a_node_ends_the_graph_all_the_same() -> None:
    told = restarted()
    told(missed("b"))
    assert completions(told(ended("d", codes.STATUS_FAILED))) == {task("d"): codes.STATUS_FAILED}
    told(answered(UNKNOWN, "a", "b", "c", "d"))
    assert lines(told) == []


def test_its_caller_cancels_it() -> None:
    told = restarted()
    told(missed("b"))
    assert completions(told(CancelRequested((task("d"),)))) == {task("d"): codes.STATUS_CANCELED}
    told(answered(UNKNOWN, "a", "b", "c", "d"))
    assert lines(told) == []


def test_the_session_is_lost_meanwhile() -> None:
    told = restarted()
    told(missed("b"))
    told(lost())
    told(opened())
    assert lines(told) == ["submit a b c d sealed"]
    assert completions(told(succeeded("d"))) == {task("d"): codes.STATUS_SUCCESS}


def test_an_answer_that_does_not_come_is_waited_for_a_bounded_time() -> None:
    told = restarted()
    told(missed("b"))
    deadline = told.core.next_deadline()
    assert deadline is not None
    told.now = deadline
    assert completions(told(TICKED)) == {task("d"): codes.STATUS_FAILED}
    assert told.core.next_deadline() is None


def test_an_argument_that_was_not_kept_ends_it() -> None:
    """No node can make that one again."""
    first = node("a")
    argument = first.submission._replace(
        payload=OBJECT, part_sizes=(len(OBJECT),), part_kinds=bytes([codes.KIND_OBJECT])
    )
    told = begun(graph_of(GRAPH, [first._replace(submission=argument), node("b", "a", is_wanted=True)]))
    told(StorageRestarted())
    assert told(ObjectsLost((OBJECT,))) == []
    assert completions(told(missed("b"))) == {}
    told(answered(UNKNOWN, "a"))
    assert completions(told(answered(UNKNOWN, "b"))) == {task("b"): codes.STATUS_FAILED}


def test_a_graph_ends_with_the_reason_of_the_node_that_was_refused() -> None:
    """Not with that of the nodes which depend on it: theirs only says that another one did not succeed."""
    told = begun(chain("a", "b", "c", "d"))
    actions = told(refused(codes.STORAGE_UNREACHABLE, "b"))
    ends = [task_error_of(action.outcomes) for action in actions if isinstance(action, Complete)]
    assert [error.code for error in ends] == [codes.STORAGE_UNREACHABLE] * len(ends) and ends
    assert completions(told(refused(codes.DEPENDENCY_FAILED, "c", "d"))) == {}, "each future ends once"


def test_a_refusal_whose_reason_is_another_node_tells_nothing_new() -> None:
    told = begun(chain("a", "b", "c", "d"))
    assert completions(told(refused(codes.DEPENDENCY_FAILED, "b"))) == {}
