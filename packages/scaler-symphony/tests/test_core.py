"""The adapter's core: places, sessions, stops, and the end."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, SCHEDULER, cancel_outcomes, names, results, sent, task_id
from tests.support.symphony_story import GOOD, Story, begun

from scaler_protocol import codec
from scaler_protocol.codes import (
    CANCEL_CANCELED,
    CANCEL_TOO_LATE,
    CANCEL_UNKNOWN,
    FLAG_STREAM_OUTPUT,
    NO_SUCH_OBJECT,
    STATUS_CANCELED,
    STATUS_PROCESSOR_DIED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
)
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Credit, Recall, Results, Returned, TaskLog
from scaler_protocol.session import Lost
from scaler_symphony.core import events
from scaler_symphony.core.actions import AwaitAcknowledgement, CloseSession, Fetch, Finish, OpenSession
from scaler_symphony.core.sessions import IllegalMoveError, Move, SymphonySession

# ---------------------------------------------------------------- places


def test_base_concurrency_bounds_tasks_that_are_not_nested() -> None:
    story = Story(2).start()
    assert begun(story.dispatch(1, 2, 3)) == [1, 2]
    story.sent(1, 2)
    assert begun(story.respond(2)) == [3]


def test_a_nested_task_begins_without_a_place() -> None:
    story = Story(1).start()
    assert begun(story.dispatch(1)) == [1]
    assert begun(story.dispatch(2, 3, depth=1)) == [2], "one for each level"
    assert begun(story.dispatch(4, depth=2)) == [4]
    assert begun(story.dispatch(5)) == []
    story.sent(1, 2, 4)
    story.respond(4)
    assert begun(story.respond(2)) == [3], "the deeper one is first, and its level is free"


def test_there_is_always_credit_for_one_more_nested_task() -> None:
    """It may be what all others wait for. (CRD-5)"""
    story = Story(1).start()
    for number in range(40):
        credit = story.core.credit(story.now)
        held = len(story.core.tables.tasks)
        assert credit.limit + credit.nested_reserve > held
        story.dispatch(number + 1, depth=1)
    assert begun(story.dispatch(99, depth=2)) == [99]


def test_more_than_the_queue_holds_is_given_back() -> None:
    story = Story(1, queue_size=4).start()
    actions = story.dispatch(1, 2, 3, 4, 5, 6, depth=1)
    assert begun(actions) == [1]
    assert [names(message.ids) for message in sent(actions, Returned)] == [[5, 6]]


def test_a_function_is_fetched_once_and_goes_with_its_tasks() -> None:
    other = ObjectId(b"other".ljust(16))
    story = Story(2).start()
    fetched = [action for action in story.dispatch(1, 2, function=other) if isinstance(action, Fetch)]
    assert [fetch.object_id for fetch in fetched] == [other]
    assert begun(story.dispatch(3)) == [3], "whose function is here does not wait"
    (sending,) = [action for action in story.step(events.Fetched(other, b"text")) if begun([action])]
    assert sending.brought == {other: b"text"}  # type: ignore[union-attr]


def test_a_large_function_is_left_to_the_service() -> None:
    other = ObjectId(b"other".ljust(16))
    story = Story(2).start()
    story.dispatch(1, function=other)
    (sending,) = [action for action in story.step(events.Fetched(other, None)) if begun([action])]
    assert sending.brought == {}  # type: ignore[union-attr]


def test_a_function_that_does_not_exist() -> None:
    other = ObjectId(b"other".ljust(16))
    story = Story(2).start()
    story.dispatch(1, 2, function=other)
    failed = story.step(events.FetchFailed(other, NO_SUCH_OBJECT, "lost"))
    assert results(failed) == {1: STATUS_REFUSED, 2: STATUS_REFUSED}


def test_a_function_is_fetched_for_each_family_that_names_it() -> None:
    """Another user may know its id without the right to run it, or name one that is not stored. (WRK-43)"""
    other, ana, joe = ObjectId(b"other".ljust(16)), PeerId(b"a" * 16), PeerId(b"j" * 16)
    story = Story(4).start()
    for number, client in enumerate((ana, joe), 1):
        actions = story.dispatch(number, function=other, client=client, owner_grant=bytes(16))
        assert [action.owner.peer_id for action in actions if isinstance(action, Fetch)] == [client]
    failed = story.step(events.FetchFailed(other, NO_SUCH_OBJECT, "lost", joe))
    assert results(failed) == {2: STATUS_REFUSED}, "and the task of the other waits for its own"
    assert begun(story.step(events.Fetched(other, b"text", ana))) == [1]
    inner = story.dispatch(3, function=other, client=PeerId(b"i" * 16), owner_grant=ana + bytes(16))
    assert begun(inner) == [3], "a client in a task is of the family of its program"
    again = story.dispatch(4, function=other, client=joe, owner_grant=bytes(16))
    assert [action.owner.peer_id for action in again if isinstance(action, Fetch)] == [joe]


# ---------------------------------------------------------------- responses


def test_a_response_before_its_handle() -> None:
    story = Story(2).start()
    story.dispatch(1, 2)
    assert results(story.respond(2)) == {}
    assert results(story.sent(2)) == {2: STATUS_SUCCESS}
    assert results(story.step(events.TaskSent(1, story.number(1), "h1"))) == {}
    assert results(story.respond(1)) == {1: STATUS_SUCCESS}


def test_a_response_that_comes_twice() -> None:
    story = Story(2).start()
    story.dispatch(1, 2)
    story.sent(1)
    assert results(story.respond(1)) == {1: STATUS_SUCCESS}
    assert results(story.respond(1)) == {}
    story.sent(2)
    assert not story.core.tables.early, "it is not kept for ever"


def test_output_comes_before_the_result() -> None:
    story = Story(1).start()
    story.dispatch(1, flags=FLAG_STREAM_OUTPUT)
    story.sent(1)
    reply = events.Reply(STATUS_SUCCESS, 0, b"", b"", ((1, "line\n"),))
    kinds = [type(action.message) for action in story.respond(1, outcome=reply) if hasattr(action, "message")]
    assert kinds.index(TaskLog) < kinds.index(Results)


def test_symphony_cannot_run_a_task() -> None:
    story = Story(1).start()
    story.dispatch(1)
    story.sent(1)
    actions = story.respond(1, outcome="the service failed: ImportError: libx.so")
    assert results(actions) == {1: STATUS_PROCESSOR_DIED}
    (message,) = sent(actions, Results)
    assert "libx.so" in codec.decode_task_error(bytes(message.payload)).message


# ---------------------------------------------------------------- sessions


def test_a_lost_session_is_replaced_and_its_tasks_run_again() -> None:
    story = Story(2).start()
    story.dispatch(1, 2, 3)
    story.sent(1)
    actions = story.step(events.SessionLost(1, "aborted"))
    assert CloseSession(1) in actions and OpenSession(2) in actions
    assert sent(actions, Credit)[-1] == Credit(0, 0), "others are the better place meanwhile"
    assert story.queued() == [1, 2, 3]
    assert results(story.step(events.Responded(1, "h1", GOOD))) == {}, "it speaks of a former session"
    assert begun(story.step(events.SessionOpened(2, "102"))) == [1, 2]
    story.sent(1, 2)
    assert results(story.respond(1, 2)) == {1: STATUS_SUCCESS, 2: STATUS_SUCCESS}


def test_a_task_that_sees_three_sessions_die_is_the_reason() -> None:
    story = Story(1).start()
    story.dispatch(1)
    for session in (1, 2):
        story.step(events.SessionLost(session, "aborted"), events.SessionOpened(session + 1, "x"))
        story.step(events.SessionOpened(session + 1, "x"))
    assert results(story.step(events.SessionLost(3, "aborted"))) == {1: STATUS_PROCESSOR_DIED}


def test_without_a_session_others_get_what_has_not_begun() -> None:
    story = Story(1).start()
    story.dispatch(1, 2)
    story.sent(1)
    story.step(events.SessionLost(1, "aborted"))
    actions = story.step(events.SessionFailed(2, "no cluster"))
    assert [names(message.ids) for message in sent(actions, Returned)] == [[2]]
    assert story.queued() == [1], "it may have begun"
    assert OpenSession(3) in story.step(after=1.0)
    assert OpenSession(4) not in story.step(events.SessionFailed(3, "no cluster"), after=1.9)
    assert OpenSession(4) in story.step(after=2.0)


def test_it_gives_up_when_there_is_no_session_for_long() -> None:
    story = Story(1, give_up_seconds=5.0).start()
    story.step(events.SessionLost(1, "aborted"))
    story.step(events.SessionFailed(2, "no cluster"))
    (finish,) = [action for action in story.step(after=5.0) if isinstance(action, Finish)]
    assert finish.is_failure


def test_the_first_session_must_be_had() -> None:
    story = Story(1)
    story.step(events.Started())
    (finish,) = story.step(events.SessionFailed(1, "no such application"))
    assert finish == Finish("cannot open a Symphony session: no such application", is_failure=True)


def test_one_task_that_cannot_be_sent_does_not_disturb_others() -> None:
    story = Story(2).start()
    story.dispatch(1, 2)
    story.sent(1)
    for _ in range(2):
        story.step(events.SendFailed(1, story.number(2), "too large"))
        assert story.running() == [1]
        assert begun(story.step(after=1.0)) == [2]
    failed = story.step(events.SendFailed(1, story.number(2), "too large"))
    assert results(failed) == {2: STATUS_PROCESSOR_DIED} and story.running() == [1]


def test_when_nothing_can_be_sent_it_is_the_session() -> None:
    story = Story(2).start()
    story.dispatch(1, 2)
    story.step(events.SendFailed(1, story.number(1), "not open"))
    assert OpenSession(2) in story.step(events.SendFailed(1, story.number(2), "not open"))
    story.step(events.SessionOpened(2, "102"))
    assert sorted(begun(story.step(after=1.0))) == [1, 2]


def test_a_session_makes_no_other_moves() -> None:
    with pytest.raises(IllegalMoveError):
        SymphonySession().move(Move.OPENED, 0.0)


def test_a_session_that_is_lost_before_we_know_it_open() -> None:
    story = Story(1)
    story.step(events.Started())
    story.step(events.SessionLost(1, "aborted"))
    assert not story.core.tables.session.is_open
    story.step(events.SessionOpened(1, "101"))
    assert not story.core.tables.session.is_open


# ---------------------------------------------------------------- stopping


def test_a_queued_task_is_canceled_at_once() -> None:
    story = Story(1).start()
    story.dispatch(1, 2)
    actions = story.cancel(2, 7)
    assert results(actions) == {2: STATUS_CANCELED}
    assert cancel_outcomes(actions) == {2: CANCEL_CANCELED, 7: CANCEL_UNKNOWN}


def test_a_running_task_beside_others_is_answered_when_it_ends() -> None:
    story = Story(2).start()
    story.dispatch(1, 2)
    story.sent(1, 2)
    assert cancel_outcomes(story.cancel(1)) == {}
    assert story.step(after=100.0) == []
    actions = story.respond(1)
    assert results(actions) == {1: STATUS_SUCCESS} and cancel_outcomes(actions) == {1: CANCEL_TOO_LATE}


def test_when_all_that_runs_is_canceled_the_session_is_closed() -> None:
    story = Story(2).start()
    story.dispatch(1, 2, 3)
    story.sent(1, 2)
    story.cancel(1, grace=1.0)
    story.cancel(2, grace=3.0)
    assert story.core.next_deadline() == story.now + 3.0
    actions = story.step(after=3.0)
    assert CloseSession(1) in actions and OpenSession(2) in actions
    assert results(actions) == {1: STATUS_CANCELED, 2: STATUS_CANCELED}
    assert cancel_outcomes(actions) == {1: CANCEL_CANCELED, 2: CANCEL_CANCELED}
    assert begun(story.step(events.SessionOpened(2, "102"))) == [3]


def test_a_task_that_outlasts_its_timeout_is_reported_and_keeps_its_place() -> None:
    story = Story(2).start()
    story.dispatch(1, timeout_seconds=2.0)
    story.dispatch(2, 3)
    story.sent(1, 2)
    assert results(story.step(after=8.9)) == {}
    actions = story.step(after=0.2)
    assert results(actions) == {1: STATUS_TIMED_OUT} and begun(actions) == []
    assert begun(story.respond(1)) == [3]
    assert results(story.respond(1)) == {}


def test_a_task_that_begins_again_because_its_host_was_taken_away_has_its_time_again() -> None:
    """Symphony does not tell that it does. The service counts the time of each run."""
    story = Story(2).start()
    story.dispatch(1, timeout_seconds=60.0)
    story.sent(1)
    assert results(story.step(after=110.0)) == {}, "50 s on a host that was taken away, and 60 s on another one"
    assert results(story.respond(1)) == {1: STATUS_SUCCESS}


def test_a_task_that_is_given_back_has_not_begun() -> None:
    story = Story(1).start()
    story.dispatch(1, 2)
    story.sent(1)
    (returned,) = sent(story.receive(Recall(join_ids([task_id(1), task_id(2), task_id(9)]))), Returned)
    assert names(returned.ids) == [2] and returned.is_recall_answer
    story.step(events.SessionLost(1, "aborted"))
    (returned,) = sent(story.receive(Recall(join_ids([task_id(1)]))), Returned)
    assert names(returned.ids) == [], "it may have begun in the session that was lost"


# ---------------------------------------------------------------- the scheduler, and the end


def test_a_lost_scheduler_ends_everything() -> None:
    story = Story(2).start()
    story.dispatch(1, 2, 3)
    actions = story.step(Lost(SCHEDULER, 0, "gone", False))
    assert CloseSession(1) in actions and OpenSession(2) in actions
    story.step(events.SessionOpened(2, "102"))
    assert sent(story.step(OPENED), Credit)[0].limit > 0
    assert begun(story.dispatch(1)) == [1]


def test_an_idle_session_survives_the_scheduler() -> None:
    story = Story(2).start()
    assert story.step(Lost(SCHEDULER, 0, "gone", False)) == []


def test_draining() -> None:
    story = Story(1).start()
    story.dispatch(1, 2)
    story.sent(1)
    actions = story.step(events.DrainRequested(10.0))
    assert sent(actions, Credit) == [Credit(0, 0)]
    assert [names(message.ids) for message in sent(actions, Returned)] == [[2]]
    (returned,) = sent(story.dispatch(3), Returned)
    assert names(returned.ids) == [3]
    actions = story.respond(1)
    assert results(actions) == {1: STATUS_SUCCESS} and AwaitAcknowledgement() in actions
    assert not any(isinstance(action, Finish) for action in (*actions, *story.step(after=1.0)))
    assert Finish("drained, 0 tasks given up") in story.step(events.Acknowledged())


def test_a_scheduler_that_acknowledges_nothing() -> None:
    """It is waited for as long as the grace lasts; one that is gone is not."""
    story = Story(1).start()
    assert AwaitAcknowledgement() in story.step(events.DrainRequested(1.0))
    assert Finish("drained, 0 tasks given up") in story.step(after=1.0)
    other = Story(1).start()
    other.step(events.DrainRequested(10.0))
    assert Finish("drained, 0 tasks given up") in other.step(Lost(SCHEDULER, 0, "gone", False))


def test_a_grace_that_is_over() -> None:
    story = Story(1).start()
    story.dispatch(1)
    story.step(events.DrainRequested(1.0))
    assert Finish("drained, 1 tasks given up") in story.step(after=1.0)
