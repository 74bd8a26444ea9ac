"""Questions where a task is in its code: asked of its processor, answered in a bounded time (WRK-56)."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, SCHEDULER, sent, task_id
from tests.support.worker_story import Story

from scaler_protocol.codes import STACK_NO_ANSWER, STACK_NOT_RUNNING, STACK_TAKEN, STACK_TOO_MANY
from scaler_protocol.messages import StackReply, StackRequest
from scaler_protocol.session import Lost
from scaler_worker.core.actions import Action, AskStack, LookAtProcess
from scaler_worker.core.events import ProcessorExited, ProcessSeen, StackTaken, TaskBlocked
from scaler_worker.core.stacks import ANSWER_SECONDS, SHARED_LIMIT


@pytest.fixture
def story() -> Story:
    story = Story().start()
    story.dispatch(1)
    return story


def asked(story: Story, name: int = 1, number: int = 7) -> list[Action]:
    return story.receive(StackRequest(number, task_id(name)))


def replies(actions: list[Action]) -> list[tuple[int, int, str]]:
    return [(reply.request_id, reply.outcome, reply.text) for reply in sent(actions, StackReply)]


def test_a_running_task_is_asked_for_its_stack(story: Story) -> None:
    actions = asked(story)
    assert AskStack(1, 1) in actions and not replies(actions)
    story.now += 0.5
    (reply,) = sent(story.step(StackTaken(1, 1, story.number(), "stack")), StackReply)
    assert reply == StackReply(7, task_id(1), STACK_TAKEN, "stack", worker="w", running_seconds=0.5)
    assert not story.step(StackTaken(1, 1, story.number(), "again")), "an answer to no question"


def test_a_task_that_waits_for_its_children_is_asked_too(story: Story) -> None:
    story.step(TaskBlocked(1, story.number()))
    assert AskStack(1, 1) in asked(story)
    (reply,) = sent(story.step(StackTaken(1, 1, story.number(), "stack")), StackReply)
    assert reply.is_blocked


def test_tasks_that_do_not_run_here(story: Story) -> None:
    story.dispatch(2)
    for name in (2, 3):
        assert replies(asked(story, name)) == [(7, STACK_NOT_RUNNING, "")]
    assert not story.core.tables.stacks


def test_one_that_ends_before_it_is_looked_at(story: Story) -> None:
    asked(story)
    assert replies(story.end(1, 1)) == [(7, STACK_NOT_RUNNING, "")]


def test_one_that_was_between_two_tasks(story: Story) -> None:
    asked(story)
    assert replies(story.step(StackTaken(1, 1, 0, ""))) == [(7, STACK_NOT_RUNNING, "")]


def test_a_processor_that_does_not_answer(story: Story) -> None:
    asked(story)
    assert story.core.next_deadline() == story.now + ANSWER_SECONDS
    assert story.step(after=ANSWER_SECONDS / 2) == []
    assert story.step(after=ANSWER_SECONDS / 2) == [LookAtProcess(1, 1001)]
    assert story.core.next_deadline() is None, "what is overdue wakes no shell"
    (reply,) = sent(story.step(ProcessSeen(1, "it sleeps")), StackReply)
    assert (reply.outcome, reply.process, reply.running_seconds) == (STACK_NO_ANSWER, "it sleeps", ANSWER_SECONDS)
    assert not story.step(StackTaken(1, 1, story.number(), "too late"))


def test_a_processor_that_dies_meanwhile(story: Story) -> None:
    asked(story)
    assert replies(story.step(ProcessorExited(1, -9))) == [(7, STACK_NOT_RUNNING, "")]


def test_questions_about_one_task_share_the_answer(story: Story) -> None:
    actions = [action for number in range(SHARED_LIMIT + 1) for action in asked(story, number=number)]
    assert [action for action in actions if isinstance(action, AskStack)] == [AskStack(1, 1)]
    assert replies(actions) == [(SHARED_LIMIT, STACK_TOO_MANY, "")]
    told = replies(story.step(StackTaken(1, 1, story.number(), "stack")))
    assert told == [(number, STACK_TAKEN, "stack") for number in range(SHARED_LIMIT)]


def test_a_lost_session_takes_its_questions_along() -> None:
    story = Story(present_seconds=60.0).start()
    story.dispatch(1)
    asked(story)
    story.step(Lost(SCHEDULER, 0, "gone", False))
    assert not story.core.tables.stacks
    assert story.step(OPENED)
