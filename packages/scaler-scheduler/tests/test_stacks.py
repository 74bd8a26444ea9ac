"""Where a running task is in its code: which peers may ask, which worker is asked, that each question has an answer."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, peer, task

from scaler_protocol.codes import (
    STACK_NO_ANSWER,
    STACK_NOT_ALLOWED,
    STACK_NOT_RUNNING,
    STACK_NOT_SUPPORTED,
    STACK_TAKEN,
    STACK_TOO_MANY,
    STACK_UNKNOWN,
)
from scaler_protocol.messages import Explain, Explanation, StackReply, StackRequest
from scaler_scheduler.core import Asked, Policy, Send
from scaler_scheduler.core.watching.stacks import ANSWER_SECONDS, FEATURE_STACKS, PEER_LIMIT, TEXT_BYTES, TOTAL_LIMIT


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c")
    story.worker("w", features=(FEATURE_STACKS,))
    story.submit("c", ["a"])
    story.actions()
    return story


def sent(story: Story, name: str, kind: type) -> list[StackReply]:
    told = [action for action in story.actions() if isinstance(action, Send)]
    return [one.message for one in told if one.peer_id == peer(name) and isinstance(one.message, kind)]  # type: ignore[misc]


def ask(story: Story, name: object = "a", number: int = 7, client: str = "c") -> None:
    story.receive(client, StackRequest(number, task(name)))


def number_of(story: Story, worker: str = "w") -> int:
    (question,) = sent(story, worker, StackRequest)
    return question.request_id


def reply(story: Story, client: str = "c") -> StackReply:
    (answer,) = sent(story, client, StackReply)
    return answer


def test_the_question_goes_to_the_worker_and_its_answer_comes_back(story: Story) -> None:
    ask(story)
    number = number_of(story)
    story.receive("w", StackReply(number, task("x"), STACK_TAKEN, "stack", "process", "liar", "lie", True, 2.5))
    answer = StackReply(7, task("a"), STACK_TAKEN, "stack", "process", "w", "dispatched", True, 2.5)
    assert reply(story) == answer
    story.receive("w", StackReply(number, task("a"), STACK_TAKEN, "again"))
    assert not sent(story, "c", StackReply)
    assert not story.core.stacks.questions


def test_tasks_that_do_not_run(story: Story) -> None:
    story.worker("full", credit=0)
    story.submit("c", ["gpu"], capabilities=())
    story.submit_graph("c", {"one": [], "sum": ["one"]})
    story.client("other")
    story.submit("other", ["theirs"])
    story.actions()
    ask(story, "sum")
    answer = reply(story)
    assert (answer.outcome, answer.state) == (STACK_NOT_RUNNING, "waiting")
    for name in ("theirs", "never"):
        ask(story, name)
        assert reply(story) == StackReply(7, task(name), STACK_UNKNOWN)


def test_a_queued_task() -> None:
    story = Story()
    story.client("c")
    story.submit("c", ["a"])
    ask(story)
    assert reply(story) == StackReply(7, task("a"), STACK_NOT_RUNNING, state="queued")


def test_a_worker_without_the_feature_is_not_asked() -> None:
    story = Story()
    story.client("c")
    story.worker("old")
    story.submit("c", ["a"])
    story.actions()
    ask(story)
    assert reply(story) == StackReply(7, task("a"), STACK_NOT_SUPPORTED, worker="old", state="dispatched")


def test_a_task_that_ends_meanwhile(story: Story) -> None:
    ask(story)
    number = number_of(story)
    story.results("w", ["a"])
    story.receive("w", StackReply(number, task("a"), STACK_NOT_RUNNING))
    assert reply(story) == StackReply(7, task("a"), STACK_NOT_RUNNING, worker="w")


def test_a_worker_that_does_not_answer(story: Story) -> None:
    ask(story)
    deadline = story.core.next_deadline()
    assert deadline is not None and deadline <= story.now + ANSWER_SECONDS
    story.now += ANSWER_SECONDS
    answer = reply(story)
    assert (answer.outcome, answer.worker) == (STACK_NO_ANSWER, "w") and "has not answered" in answer.process
    assert not story.core.stacks.questions


def test_a_worker_that_is_lost(story: Story) -> None:
    ask(story)
    story.lost("w")
    answer = reply(story)
    assert answer.outcome == STACK_NO_ANSWER and "lost" in answer.process


def test_another_worker_cannot_answer(story: Story) -> None:
    story.worker("liar")
    ask(story)
    story.receive("liar", StackReply(number_of(story), task("a"), STACK_TAKEN, "forged"))
    assert not sent(story, "c", StackReply)


@pytest.mark.parametrize("outcome", [STACK_UNKNOWN, STACK_NOT_ALLOWED, STACK_NOT_SUPPORTED, 999])
def test_what_only_a_scheduler_may_say_is_no_answer(story: Story, outcome: int) -> None:
    ask(story)
    story.receive("w", StackReply(number_of(story), task("a"), outcome, "text"))
    answer = reply(story)
    assert (answer.outcome, answer.text) == (STACK_NO_ANSWER, "")


def test_texts_are_bounded(story: Story) -> None:
    ask(story)
    story.receive("w", StackReply(number_of(story), task("a"), STACK_TAKEN, "ü" * TEXT_BYTES, "p" * 10_000))
    answer = reply(story)
    assert len(answer.text.encode()) <= TEXT_BYTES and len(answer.process) <= 500


def test_questions_are_bounded_for_each_peer_and_in_all(story: Story) -> None:
    for number in range(PEER_LIMIT + 1):
        ask(story, number=number)
    actions = story.actions()
    told = [one.message for one in actions if isinstance(one, Send)]
    assert sum(isinstance(one, StackRequest) for one in told) == PEER_LIMIT
    (refused,) = [one for one in told if isinstance(one, StackReply)]
    assert (refused.request_id, refused.outcome) == (PEER_LIMIT, STACK_TOO_MANY)
    for other in range(TOTAL_LIMIT // PEER_LIMIT):
        story.core.stacks.ask(peer(f"m{other}"), StackRequest(1, task("a")), None, story.now)
    assert len(story.core.stacks.questions) <= TOTAL_LIMIT


def test_what_is_asked_for_those_who_leave_is_forgotten(story: Story) -> None:
    story.client("quitter")
    story.worker("w2", features=(FEATURE_STACKS,))
    story.submit("quitter", ["theirs"])
    story.actions()
    ask(story, "theirs", client="quitter")
    story.lost("quitter")
    assert not story.core.stacks.questions


def test_a_monitor_asks_where_texts_are_allowed() -> None:
    for shows_texts in (False, True):
        story = Story(Policy(shows_texts=shows_texts))
        story.client("c")
        story.worker("w", features=(FEATURE_STACKS,))
        story.submit("c", ["a"])
        story.actions()
        answer = story.core.stacks.ask(peer("m"), StackRequest(3, task("a")), None, story.now)
        if shows_texts:
            assert answer.peer_id == peer("w")
            story.receive("w", StackReply(answer.message.request_id, task("a"), STACK_TAKEN, "stack"))  # type: ignore[union-attr]
            assert reply(story, "m").text == "stack"
        else:
            assert answer == Send(peer("m"), StackReply(3, task("a"), STACK_NOT_ALLOWED))


def test_a_monitors_question_is_the_shells(story: Story) -> None:
    story.receive("m", StackRequest(3, task("a")))
    assert any(isinstance(one, Asked) and one.message == StackRequest(3, task("a")) for one in story.actions())


# ------------------------------------------------------------ short forms


def explained(story: Story, source: bytes, number: int, client: str = "c") -> Explanation:
    story.receive(client, Explain(7, task_source=source, task_number=number))
    (answer,) = sent(story, client, Explanation)
    return answer  # type: ignore[return-value]


def a_task(source: bytes, number: int) -> str:
    return (source + b"rand" + number.to_bytes(8, "little")).decode("ascii")


def test_a_task_is_found_by_its_short_form() -> None:
    story = Story()
    story.client("c")
    story.client("other")
    names = [a_task(b"srce", number) for number in (0, 1, 256, 70_000)]
    story.submit("c", names)
    story.submit("other", [a_task(b"srcf", 1), a_task(b"srcf", 5)])
    for name, number in zip(names, (0, 1, 256, 70_000), strict=True):
        answer = explained(story, b"srce", number)
        assert (answer.task_id, answer.state) == (task(name), "queued")
    for source, number in ((b"srce", 2), (b"srcf", 1), (b"none", 0), (b"srce", 2**64 - 1)):
        assert not explained(story, source, number).task_id, "not there, or another client's"
    asked = story.core.explanation(Explain(1, task_source=b"srcf", task_number=5), story.now)
    assert asked.task_id == task(a_task(b"srcf", 5)), "a monitor finds those of all"


def test_a_task_that_has_ended_is_not_found() -> None:
    story = Story()
    story.client("c")
    story.worker("w")
    story.submit("c", [a_task(b"srce", 1), a_task(b"srce", 2)])
    story.actions()
    story.results("w", [a_task(b"srce", 1)])
    assert not explained(story, b"srce", 1).task_id
    assert explained(story, b"srce", 2).task_id == task(a_task(b"srce", 2))
