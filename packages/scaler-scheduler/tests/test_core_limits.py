"""What a client is told, in messages that its session takes (LIM-3)."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, names, task

from scaler_protocol.codec import decode, encode
from scaler_protocol.codes import STATUS_FAILED
from scaler_protocol.columns import split_ids
from scaler_protocol.messages import Cancel, CancelReply, Dispatch, Limits, Recall, Results
from scaler_scheduler.core import Send
from scaler_scheduler.core.placing.balancing import IDLE_SECONDS
from scaler_scheduler.core.tables.tables import TASKS_IN_A_MESSAGE, TASKS_TAKEN_IN_A_MESSAGE

TASKS = [f"t{number}" for number in range(4_000)]


def told(story: Story, limits: Limits, kind: type) -> list[str]:
    """The tasks that messages of this kind are about, in order, when a client with such limits has read them all."""
    found = []
    for action in story.actions():
        assert isinstance(action, Send)
        envelope, *payload = encode(action.message)
        message = decode(bytes(envelope), payload, limits).message
        if isinstance(message, kind):
            assert isinstance(message, (Results, CancelReply))
            found += names(message.ids)
    return found


@pytest.mark.parametrize(
    "limits",
    (Limits(batch_tasks=7), Limits(envelope_bytes=64 * 1024), Limits(payload_frame_bytes=100)),
    ids=("tasks", "envelope", "payload"),
)
def test_results_of_one_message_are_cut(story: Story, limits: Limits) -> None:
    story.client("c", limits)
    story.worker("w", credit=len(TASKS))
    story.submit("c", TASKS)
    story.settle()
    story.results("w", TASKS, status=STATUS_FAILED)
    story.work_off()
    assert told(story, limits, Results) == TASKS


def test_results_that_come_together_are_joined_no_further_than_that(story: Story) -> None:
    limits = Limits(batch_tasks=50)
    story.client("c", limits)
    story.worker("w", credit=100)
    story.submit("c", TASKS[:100])
    story.settle()
    for number in range(0, 100, 20):
        story.results("w", TASKS[number : number + 20])
    assert told(story, limits, Results) == TASKS[:100]


def test_what_is_canceled_at_once_is_told_in_parts(story: Story) -> None:
    limits = Limits(envelope_bytes=64 * 1024)
    story.client("c", limits)
    story.submit("c", TASKS)
    story.receive("c", Cancel(is_all=True))
    story.work_off()
    assert sorted(told(story, limits, Results)) == sorted(TASKS)
    story.submit("c", TASKS)
    story.receive("c", Cancel(is_all=True))
    story.work_off()
    assert sorted(told(story, limits, CancelReply)) == sorted(TASKS)


def test_a_worker_with_a_long_queue_is_told_in_parts() -> None:  # LIM-23
    """Of no more tasks in one message than it reads within some milliseconds."""
    story = Story()
    story.is_checked = False
    tasks = [f"t{number}" for number in range(3 * TASKS_IN_A_MESSAGE)]
    story.client("c")
    story.worker("long", credit=len(tasks))
    story.submit("c", tasks)
    story.work_off()
    assert told_workers(story, Dispatch) == [TASKS_IN_A_MESSAGE] * 3
    story.worker("idle", credit=len(tasks))
    story.settle()
    story.now += IDLE_SECONDS
    recalled = told_workers(story, Recall)
    assert max(recalled) == TASKS_TAKEN_IN_A_MESSAGE and sum(recalled) > TASKS_IN_A_MESSAGE
    story.receive("c", Cancel(is_all=True))
    story.work_off()
    canceled = told_workers(story, Cancel)  # what is recalled is canceled as well: it may have begun
    assert max(canceled) == TASKS_TAKEN_IN_A_MESSAGE and sum(canceled) == len(tasks)


def told_workers(story: Story, kind: type) -> list[int]:
    """How many tasks each of the messages of this kind is about."""
    messages = [action.message for action in story.actions() if isinstance(action, Send)]
    return [len(split_ids(message.ids)) for message in messages if isinstance(message, kind)]  # type: ignore[attr-defined]


def test_a_failure_that_ends_very_many(story: Story) -> None:
    """However few a client submits at a time, what waits for one task may be more."""
    limits = Limits(batch_tasks=7)
    story.client("c", limits)
    story.worker("w")
    story.submit_graph("c", {"root": (), **dict.fromkeys(TASKS[:20], ("root",))})
    story.settle()
    story.results("w", ["root"], status=STATUS_FAILED)
    assert sorted(told(story, limits, Results)) == sorted(["root", *TASKS[:20]])
    assert task("root") not in story.core.tables.where
