"""What operators at monitors may have done, and that others may not (MON-49 to MON-52)."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import WELCOME, Story, ids, line, peer, task

from scaler_protocol.codes import (
    CONTROL_CANCEL_CLIENT,
    CONTROL_CANCEL_TASK,
    CONTROL_DONE,
    CONTROL_DRAIN_WORKER,
    CONTROL_NO_OPERATOR,
    CONTROL_NOT_ALLOWED,
    CONTROL_UNKNOWN,
    ROLE_MONITOR,
)
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Cancel, ClusterEvent, Control, ControlReply, Hello, Shutdown
from scaler_protocol.session import Opened
from scaler_scheduler.core import Policy, Send
from scaler_scheduler.core.actions import MonitorLeft
from scaler_scheduler.core.notes.cluster_events import CONTROL
from scaler_scheduler.core.tables.tables import ANSWER_BYTES


def identity(user: str, *, is_operator: bool) -> Identity:
    return Identity(user, frozenset({ROLE_MONITOR}), is_operator, holder=bytes(32))


def watched(policy: Policy, who: Identity | None = None) -> Story:
    """Client `c` has a task `a` at worker `w`, and `b` and `d` in the queue."""
    story = Story(policy)
    story.handle(Opened(peer("m"), Hello(1, 1, ROLE_MONITOR, peer("m")), WELCOME, who))
    story.client("c")
    story.worker("w", credit=1, reserve=0)
    story.submit("c", ["a", "b", "d"])
    story.settle()
    return story


@pytest.fixture
def story() -> Story:
    return watched(Policy(allows_control=True), identity("ana", is_operator=True))


def asked(story: Story, action: int, subject: bytes, grace_seconds: float = 1.0) -> tuple[int, int, list[Send]]:
    """Outcome and count of the answer, and what others are sent."""
    story.receive("m", Control(9, action, subject, grace_seconds))
    story.work_off()
    sent = [one for one in story.actions() if isinstance(one, Send)]
    (answer,) = [one.message for one in sent if one.peer_id == peer("m")]
    assert isinstance(answer, ControlReply) and answer.request_id == 9
    return answer.outcome, answer.task_count, [one for one in sent if one.peer_id != peer("m")]


def shown(story: Story, name: str) -> bytes:
    return story.core.display_id(peer(name))


def events(story: Story) -> list[ClusterEvent]:
    return [event for event in story.core.snapshot(story.now).events if event.kind == CONTROL]


def lines_of(sent: list[Send]) -> list[str]:
    return [line(one) for one in sent]


def test_a_queued_task_ends_and_its_client_is_told_no_more_than_that(story: Story) -> None:
    outcome, count, sent = asked(story, CONTROL_CANCEL_TASK, task("b"))
    assert (outcome, count, lines_of(sent)) == (CONTROL_DONE, 1, ["c <- Results b canceled"])
    (event,) = events(story)
    assert event.text.startswith("ana canceled a task of ") and event.subject


def test_a_running_task_is_canceled_at_its_worker(story: Story) -> None:
    outcome, count, sent = asked(story, CONTROL_CANCEL_TASK, task("a"), grace_seconds=7.0)
    assert (outcome, count, sent) == (CONTROL_DONE, 1, [Send(peer("w"), Cancel(ids(["a"]), grace_seconds=7.0))])
    story.canceled("w", ["a"])
    assert [one for one in story.settle() if one.startswith("c")] == ["c <- Results a canceled"], "and no CancelReply"


def test_a_client_that_cancels_the_same_task_has_its_one_answer(story: Story) -> None:
    asked(story, CONTROL_CANCEL_TASK, task("a"))
    story.cancel("c", ["a"])
    story.canceled("w", ["a"])
    told = [one for one in story.settle() if one.startswith("c")]
    assert told == ["c <- Results a canceled", "c <- CancelReply a canceled"]


def test_all_tasks_of_a_client_end_and_no_queued_one_begins(story: Story) -> None:
    story.client("other")
    story.submit("other", ["x"])
    outcome, count, sent = asked(story, CONTROL_CANCEL_CLIENT, shown(story, "c"))
    assert (outcome, count) == (CONTROL_DONE, 3)
    assert sorted(lines_of(sent)) == ["c <- Results d canceled, b canceled", "w <- Cancel a"]
    story.canceled("w", ["a"])
    assert sorted(story.settle()) == ["c <- Results a canceled", "w <- Dispatch x"]
    story.submit("c", ["e"])
    story.results("w", ["x"])
    assert "w <- Dispatch e" in story.settle(), "the client may go on"
    assert events(story)[-1].text == "ana canceled all 3 unfinished tasks of this client"


def test_a_graph_of_a_client_ends(story: Story) -> None:
    story.submit_graph("c", {"g1": (), "g2": ("g1",), "g3": ("g2",)}, unwanted=("g1", "g2"))
    outcome, count, _ = asked(story, CONTROL_CANCEL_CLIENT, shown(story, "c"))
    assert (outcome, count) == (CONTROL_DONE, 6)
    story.canceled("w", ["a"])
    story.settle()
    story.lost("c", is_orderly=True)
    story.lost("m", is_orderly=True)
    story.lost("w", is_orderly=True)
    story.actions()
    assert story.is_empty()


def test_a_worker_is_asked_to_finish_and_leave(story: Story) -> None:
    outcome, count, sent = asked(story, CONTROL_DRAIN_WORKER, shown(story, "w"), grace_seconds=30.0)
    assert (outcome, count, sent) == (CONTROL_DONE, 1, [Send(peer("w"), Shutdown(30.0))])
    (event,) = events(story)
    assert (event.subject, event.text) == ("w", "ana asked this worker to leave: it holds 1 tasks")


@pytest.mark.parametrize(
    ("action", "subject"),
    [
        (CONTROL_CANCEL_TASK, b""),
        (CONTROL_CANCEL_TASK, task("nobody")),
        (CONTROL_CANCEL_CLIENT, peer("c")),  # what the peer itself is called tells a monitor nothing
        (CONTROL_DRAIN_WORKER, peer("w")),
        (0, task("a")),
        (99, task("a")),
    ],
)
def test_what_is_not_there_is_unknown(story: Story, action: int, subject: bytes) -> None:
    assert asked(story, action, subject) == (CONTROL_UNKNOWN, 0, [])
    assert not events(story)


@pytest.mark.parametrize(
    ("policy", "who", "outcome"),
    [
        (Policy(), None, CONTROL_NOT_ALLOWED),
        (Policy(), identity("ana", is_operator=True), CONTROL_NOT_ALLOWED),
        (Policy(allows_control=True), identity("ana", is_operator=False), CONTROL_NO_OPERATOR),
    ],
)
def test_a_monitor_that_may_not_changes_nothing(policy: Policy, who: Identity | None, outcome: int) -> None:
    story = watched(policy, who)
    of = story.core.display_id
    for action, subject in (
        (CONTROL_CANCEL_TASK, task("a")),
        (CONTROL_CANCEL_CLIENT, of(peer("c"))),
        (CONTROL_DRAIN_WORKER, of(peer("w"))),
        (99, b""),
    ):
        assert asked(story, action, subject) == (outcome, 0, [])
    assert not events(story)


def test_without_keys_only_the_leave_of_the_operator_counts() -> None:
    story = watched(Policy(allows_control=True), None)
    assert asked(story, CONTROL_CANCEL_TASK, task("b"))[0] == CONTROL_DONE
    assert events(story)[0].text.startswith("an operator canceled")


def test_a_monitor_that_has_left_is_remembered_no_more(story: Story) -> None:
    asked(story, CONTROL_CANCEL_TASK, task("b"))
    story.lost("m")
    assert MonitorLeft(peer("m")) in story.actions()
    story.handle(Opened(peer("m"), Hello(1, 1, ROLE_MONITOR, peer("m")), WELCOME, identity("joe", is_operator=False)))
    assert asked(story, CONTROL_CANCEL_TASK, task("d"))[0] == CONTROL_NO_OPERATOR
    charged = story.core.tables.backlog.pressure.answers.total
    story.lost("m")
    assert story.core.tables.backlog.pressure.answers.total == charged - ANSWER_BYTES
