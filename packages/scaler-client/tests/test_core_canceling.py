"""Canceling, as the client's core decides it: what ends at once, what is gathered, and which answer ends a task."""

from __future__ import annotations

import pytest
from tests.support.client_core import Told, answered, call, completions, ended, lost, names_in, opened, succeeded, task

from scaler.client.core import canceling
from scaler.client.core.actions import Send
from scaler.client.core.events import TICKED, CancelRequested, Cleared
from scaler_protocol import codes, columns
from scaler_protocol.ids import task_id_source
from scaler_protocol.messages import Cancel


def test_what_nobody_knows_of_is_canceled_at_once() -> None:
    told = Told()
    told.submit(call("a"), call("b"))
    assert completions(told(CancelRequested((task("a"),)))) == {task("a"): codes.STATUS_CANCELED}
    assert [names_in(message) for message in told.sent()] == [["b"]]


def test_what_is_sent_is_canceled_by_the_answer() -> None:
    told = Told()
    told.submit(call("a", "b"))
    told.sent()
    assert told(CancelRequested((task("a"),), 2.0)) == []
    assert told(CancelRequested((task("a"),))) == [], "asked once is asked"
    assert told.gathered() == [Cancel(task("a"), grace_seconds=2.0)]
    assert completions(told(answered(codes.CANCEL_CANCELED, "a"))) == {task("a"): codes.STATUS_CANCELED}
    assert told(ended("a", codes.STATUS_CANCELED)) == []


def test_or_by_the_result_that_says_so() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(ended("a", codes.STATUS_CANCELED))) == {task("a"): codes.STATUS_CANCELED}
    assert told(answered(codes.CANCEL_CANCELED, "a")) == []


def test_too_late_leaves_the_task_to_its_result() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert told(answered(codes.CANCEL_TOO_LATE, "a")) == []
    assert completions(told(succeeded("a"))) == {task("a"): codes.STATUS_SUCCESS}


@pytest.mark.parametrize("outcome", [codes.CANCEL_UNKNOWN, 99])
def test_unknown_and_unheard_of_answers_end_the_task(outcome: int) -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(answered(outcome, "a"))) == {task("a"): codes.STATUS_CANCELED}


def test_a_cancel_without_answer_ends_by_itself() -> None:
    told = Told()
    told.submit(call("a"))
    told.sent()
    told(CancelRequested((task("a"),), 1.0))
    answer_by = told.now + 1.0 + canceling.ANSWER_SECONDS
    told.gathered()
    assert told.core.next_deadline() == answer_by
    told.now = answer_by
    assert completions(told(TICKED)) == {task("a"): codes.STATUS_CANCELED}
    assert told.core.next_deadline() is None


def test_clear_ends_the_tasks_of_one_owner() -> None:
    told, me, other = Told(), object(), object()
    told.submit(call("a", owner=me), call("b", owner=other))
    told.sent()
    told.submit(call("c", owner=me))
    actions = told(Cleared(me))
    assert completions(actions) == {task("c"): codes.STATUS_CANCELED}
    assert actions[-1] == Send(Cancel(task("a"), grace_seconds=1.0))


def test_cancels_that_follow_one_another_leave_together() -> None:
    told = Told()
    told.submit(call(*range(100)))
    told.sent()
    for number in range(100):
        assert told(CancelRequested((task(number),))) == []
        told.now += canceling.LONE_QUIET_SECONDS / canceling.LOOKS
        assert told(TICKED) == [], "another one follows"
    assert told.gathered() == [Cancel(b"".join(task(number) for number in range(100)))]


def test_a_thread_that_is_away_for_a_moment_does_not_end_a_burst() -> None:
    told = Told()
    told.submit(call("a", "b", "c"))
    told.sent()
    told(CancelRequested((task("a"),)))
    told(CancelRequested((task("b"),)))
    told.now += canceling.QUIET_SECONDS * 0.9
    assert told(TICKED) == []
    told(CancelRequested((task("c"),)))
    assert told.gathered() == [Cancel(task("a") + task("b") + task("c"))]


@pytest.mark.parametrize("asked", [1, 2])
def test_a_process_that_stands_still_does_not_end_a_burst(asked: int) -> None:
    """For a collection of garbage, or a machine that was suspended: the loop that cancels stood still as well."""
    told = Told()
    told.submit(call("a", "b", "c"))
    told.sent()
    for name in "ab"[:asked]:
        told(CancelRequested((task(name),)))
    told.now += canceling.LONGEST_SECONDS * 0.9
    assert told(TICKED) == []
    told(CancelRequested((task("c"),)))
    assert told.gathered() == [Cancel(b"".join(task(name) for name in ("ab"[:asked] + "c")))]


def test_cancels_without_a_pause_leave_in_the_end() -> None:
    told = Told()
    told.submit(call(*range(1000)))
    told.sent()
    begun_at, number = told.now, 0
    while not (sent := told(TICKED)):
        told(CancelRequested((task(number),)))
        number += 1
        told.now += canceling.QUIET_SECONDS / 2
    assert told.now - begun_at <= canceling.LONGEST_SECONDS + canceling.QUIET_SECONDS
    (send,) = sent
    assert isinstance(send, Send) and isinstance(send.message, Cancel)
    assert len(send.message.ids) == 16 * number


def test_of_more_cancels_than_fit_a_message_the_newest_tasks_leave_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest run: when their places become free, nothing is left that could take them."""
    monkeypatch.setattr(canceling, "CANCEL_IDS", 3)
    ids = task_id_source()(8)
    told = Told()
    told.submit(call("x")._replace(ids=tuple(ids), payload=b"x" * 8, part_sizes=(1,) * 8))
    told.sent()
    for task_id in (ids[4], *ids[:4], *ids[5:]):
        told(CancelRequested((task_id,)))
    named = [columns.split_ids(cancel.ids) for cancel in told.gathered()]
    assert named == [(ids[7], ids[6], ids[5]), (ids[4], ids[3], ids[2]), (ids[1], ids[0])]


def test_clear_does_not_wait_and_takes_what_was_gathered_along() -> None:
    told = Told()
    told.submit(call("a", "b"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert told(Cleared(None)) == [Send(Cancel(task("a") + task("b")))]
    assert told(TICKED) == [], "nothing is sent twice"


def test_cancels_that_were_not_sent_are_of_no_use_to_a_successor() -> None:
    told = Told()
    told.submit(call("a"), call("b"))
    told.sent()
    told(CancelRequested((task("a"),)))
    assert completions(told(lost())) == {task("a"): codes.STATUS_CANCELED}
    told(opened())
    assert [names_in(message) for message in told.sent()] == [["b"]]
    told.now += canceling.LONGEST_SECONDS
    assert told(TICKED) == []
