"""What runs in Symphony outlives the scheduler: it is presented to the next one. (WRK-33 to WRK-42)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.holder_story import SCHEDULER, cancel_outcomes, names, results, sent
from tests.support.presenting_story import LOST, OTHER, opened, presented
from tests.support.symphony_story import Story, begun

from scaler_protocol.codes import (
    CANCEL_CANCELED,
    FLAG_STREAM_OUTPUT,
    HELD_ENDED,
    HELD_QUEUED,
    HELD_RUNNING,
    NO_SUCH_OBJECT,
    SESSION_REPLACED,
    STATUS_CANCELED,
    STATUS_PROCESSOR_DIED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
)
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import NO_PEER, Credit, Delivered, Holding, Results, Returned, Shutdown
from scaler_protocol.session import Opened
from scaler_symphony.core import events
from scaler_symphony.core.actions import AwaitAcknowledgement, CloseSession, Finish, Remember


def started(places: int = 2, **settings: Any) -> Story:
    """In a session with the feature."""
    story = Story(places, **settings).start()
    story.step(LOST, opened(SCHEDULER, NO_PEER))
    return story


def running(places: int, *tasks: int, **settings: Any) -> Story:
    """Symphony has as many of the tasks as there are places; the others wait."""
    story = started(places, **settings)
    story.dispatch(*tasks)
    story.sent(*tasks[:places])
    return story


def test_what_is_held_is_presented_before_anything_else() -> None:
    story = running(2, 1, 2, 3, 4)
    story.respond(1)
    story.sent(3)
    assert story.step(LOST) == [], "no session of Symphony is closed"
    assert begun(story.respond(2)) == [], "nothing begins without a scheduler (WRK-41)"
    actions = story.step(opened(), after=5.0)
    assert [type(message) for message in _messages(actions)] == [Holding, Credit, Results]
    assert presented(actions) == {1: HELD_ENDED, 2: HELD_ENDED, 3: HELD_RUNNING, 4: HELD_QUEUED}
    assert results(actions) == {1: STATUS_SUCCESS, 2: STATUS_SUCCESS}
    assert begun(actions) == [] and begun(story.step(after=1.0)) == []
    assert begun(story.receive(Delivered())) == [4], "the scheduler has read it (WRK-38)"
    assert results(story.respond(3)) == {3: STATUS_SUCCESS}


def test_what_is_presented_bears_client_grant_and_attempt() -> None:
    client, grant = PeerId(b"p" * 16), b"g" * 32
    story = started()
    story.dispatch(1, client=client, owner_grant=grant)
    story.receive(Delivered(worker_count=7))
    story.step(LOST)
    (holding,) = sent(story.step(opened()), Holding)
    assert (holding.clients, holding.grants, holding.worker_count) == (client, grant, 7)


def test_how_tasks_end_meanwhile_is_told() -> None:
    """However it is that they end."""
    story = started(4)
    other = ObjectId(b"other".ljust(16))
    story.dispatch(1, timeout_seconds=1.0)
    story.dispatch(2)
    story.dispatch(3, function=other)
    story.dispatch(4)
    story.sent(1, 2, 4)
    story.step(LOST)
    assert story.core.next_deadline() == story.now + 7.0, "the time of two runs, and a margin"
    story.step(events.FetchFailed(other, NO_SUCH_OBJECT, "lost"), after=7.0)
    story.respond(2, outcome="the service failed")
    actions = story.step(opened())
    assert presented(actions) == {1: HELD_ENDED, 2: HELD_ENDED, 3: HELD_ENDED, 4: HELD_RUNNING}
    assert results(actions) == {1: STATUS_TIMED_OUT, 2: STATUS_PROCESSOR_DIED, 3: STATUS_REFUSED}


def test_what_is_printed_meanwhile_does_no_harm() -> None:
    story = started()
    story.dispatch(1, flags=FLAG_STREAM_OUTPUT)
    story.sent(1)
    story.step(LOST)
    story.respond(1, outcome=events.Reply(STATUS_SUCCESS, 0, b"", b"", ((1, "line\n"),)))
    assert results(story.step(opened())) == {1: STATUS_SUCCESS}


@pytest.mark.parametrize(
    ("event", "seconds"),
    [(opened(SCHEDULER), 1.0), (opened(has_feature=False), 1.0), (opened(), 60.0)],
    ids=["the same scheduler (WRK-39)", "one without the feature", "too late (WRK-34)"],
)
def test_what_no_scheduler_takes_is_dropped(event: Opened, seconds: float) -> None:
    story = running(1, 1, 2)
    story.step(LOST)
    assert story.core.next_deadline() == story.now + 60.0
    actions = [*story.step(after=seconds), *story.step(event)]
    assert CloseSession(1) in actions, "Symphony runs nothing that others run, too"
    assert presented(actions) == {} and not story.core.tables.tasks
    story.step(events.SessionOpened(2, "102"))
    actions = [*story.dispatch(1), *story.receive(Delivered())]
    assert begun(actions) == [1], "and the next one begins as ever"


def test_some_losses_leave_nothing_to_present() -> None:
    without = Story(1).start()  # the session was without the feature
    without.dispatch(1)
    for story, lost in (
        (running(1, 1, present_seconds=0.0), LOST),
        (running(1, 1), replace(LOST, code=SESSION_REPLACED)),
        (without, LOST),
    ):
        assert CloseSession(1) in story.step(lost)
        assert presented(story.step(opened())) == {}


def test_a_task_that_is_being_canceled_is_not_presented() -> None:
    """Its client counts it as canceled, and will not submit it. Symphony cannot end it, so its place stays taken."""
    story = running(2, 1, 2)
    story.cancel(1, grace=50.0)
    assert CloseSession(1) not in story.step(LOST), "another task runs beside it"
    assert presented(story.step(opened())) == {2: HELD_RUNNING}
    story.receive(Delivered())
    assert begun(story.dispatch(3)) == []
    actions = story.respond(1)
    assert results(actions) == {} and cancel_outcomes(actions) == {} and begun(actions) == [3]


def test_the_session_is_closed_if_all_that_runs_is_being_canceled() -> None:
    story = running(1, 1, 2)
    story.cancel(1, grace=50.0)
    assert CloseSession(1) in story.step(LOST)
    story.step(events.SessionOpened(2, "102"))
    assert presented(story.step(opened())) == {2: HELD_QUEUED}


def test_the_next_scheduler_may_cancel_what_is_presented() -> None:
    """Another worker has it, with a later attempt."""
    story = running(1, 1, 2)
    story.step(LOST, opened())
    actions = story.cancel(2)
    assert results(actions) == {2: STATUS_CANCELED} and cancel_outcomes(actions) == {2: CANCEL_CANCELED}
    actions = [*story.cancel(1, grace=1.0), *story.step(after=1.0)]
    assert CloseSession(1) in actions and cancel_outcomes(actions) == {1: CANCEL_CANCELED}
    assert begun(story.receive(Delivered())) == []


def test_a_symphony_session_that_is_lost_meanwhile() -> None:
    """Its task may have begun, so it is presented as running, and begins again when the scheduler has read that."""
    story = running(1, 1, 2)
    story.step(LOST)
    story.step(events.SessionLost(1, "aborted"))
    story.step(events.SessionOpened(2, "102"))
    assert presented(story.step(opened())) == {1: HELD_RUNNING, 2: HELD_QUEUED}
    assert begun(story.receive(Delivered())) == [1]


def test_without_a_symphony_session_what_has_not_begun_is_not_presented() -> None:
    """It would wait here for long: its client submits it again, and another worker gets it."""
    story = running(1, 1, 2)
    story.step(LOST)
    story.step(events.SessionLost(1, "aborted"))
    assert sent(story.step(events.SessionFailed(2, "no cluster")), Returned) == []
    assert presented(story.step(opened())) == {1: HELD_RUNNING}


def test_a_task_that_could_not_be_sent_wakes_nothing_meanwhile() -> None:
    story = running(2, 1, 2)
    story.step(events.SendFailed(1, story.number(2), "too large"))
    lost_at = story.now
    story.step(LOST)
    assert story.core.next_deadline() == lost_at + 60.0, "it cannot be sent sooner, whatever the pause"


def test_delivered_results_are_not_presented() -> None:
    story = started()
    for name in (1, 2, 3):
        story.dispatch(name)
        story.sent(name)
        story.respond(name)
    story.receive(Delivered(results_count=2))
    story.step(LOST)
    assert presented(story.step(opened())) == {3: HELD_ENDED}
    story.receive(Delivered(results_count=1))
    story.step(replace(LOST, peer_id=OTHER))
    assert presented(story.step(opened(PeerId(b"u" * 16), OTHER))) == {}, "the count begins anew with each session"


def test_one_that_drains_presents_how_its_tasks_ended_and_leaves() -> None:
    """(WRK-32)"""
    story = running(1, 1)
    story.step(LOST, events.DrainRequested(30.0))
    assert not _leaves(story.respond(1)), "its result is not told yet"
    actions = story.step(opened(), after=1.0)
    assert presented(actions) == {1: HELD_ENDED}
    assert AwaitAcknowledgement() not in story.receive(Delivered(0, 1)), "its client has not got the result yet"
    assert AwaitAcknowledgement() in story.receive(Delivered(1, 1))
    assert _leaves(story.step(events.Acknowledged()))


def test_one_that_is_shut_down_with_its_scheduler_leaves_with_it() -> None:
    story = running(1, 1)
    story.respond(1)
    story.receive(Shutdown(50.0))
    assert _leaves(story.step(LOST)), "there is no successor to be told anything"


def test_tasks_of_an_earlier_generation_are_given_back() -> None:
    """(WRK-33)"""
    story = started()
    (returned,) = sent(story.dispatch(1, generation=1), Returned)
    assert names(returned.ids) == [1] and not returned.is_recall_answer
    assert begun(story.dispatch(2, generation=2)) == [2]
    assert Remember(3) in story.dispatch(3, generation=3)
    assert sent(story.dispatch(4), Returned) == [], "one that names none is taken"
    assert sent(story.dispatch(5, generation=2), Returned)


def _leaves(actions: list[Any]) -> bool:
    return any(isinstance(action, Finish) for action in actions)


def _messages(actions: list[Any]) -> list[Any]:
    return [action.message for action in actions if hasattr(action, "message")]
