"""Clients that do not read: their results wait outside of the session, and nothing is run that they would not read."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import GRAPH, Story, peer, task

from scaler_protocol.codes import STATUS_PROCESSOR_DIED
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Explain, Results, TaskLog
from scaler_scheduler.core import Send
from scaler_scheduler.core.tables import delivery

WINDOW = 10_000
VALUE = bytes(6_000)


@pytest.fixture
def story() -> Story:
    """`c` lets 10,000 bytes be on their way; one value of 6,000 is, and nothing was acknowledged."""
    story = Story()
    story.client("c", window=WINDOW)
    story.worker("w", credit=1)
    story.submit("c", range(6))
    assert story.settle() == ["w <- Dispatch 0"]
    story.results("w", [0], value=VALUE)
    assert story.settle() == ["w <- Dispatch 1", "c <- Results 0"]
    story.unacknowledged[peer("c")] = 6_500
    return story


def test_one_message_may_exceed_the_window_and_what_follows_waits(story: Story) -> None:
    story.results("w", [1], value=VALUE)
    assert story.settle() == ["w <- Dispatch 2", "c <- Results 1"]
    story.unacknowledged[peer("c")] = 13_000
    story.results("w", [2], value=VALUE)
    assert story.settle() == ["w <- Dispatch 3"], "what was computed waits; placing had been done by then"
    story.results("w", [3], value=VALUE)
    assert story.settle() == [], "and nothing more is begun"
    story.client("d")
    story.submit("d", ["other"])
    assert story.settle() == ["w <- Dispatch other"], "other clients are not concerned"
    story.results("w", ["other"], value=VALUE)
    assert story.settle() == ["d <- Results other"]


def fill(story: Story) -> None:
    """So that the window of `c` is closed, results 2 and 3 wait, and the worker has nothing."""
    for number in (1, 2, 3):
        story.results("w", [number], value=VALUE)
        story.settle()
        story.unacknowledged[peer("c")] = 13_000


def test_what_waits_leaves_in_order_when_the_client_reads(story: Story) -> None:
    fill(story)
    story.unacknowledged[peer("c")] = 9_000
    assert story.settle() == ["c <- Results 2"], "one may exceed the window"
    story.unacknowledged[peer("c")] = 15_500
    assert story.settle() == []
    story.unacknowledged[peer("c")] = 0
    assert story.settle() == ["c <- Results 3", "w <- Dispatch 4"]
    story.unacknowledged[peer("c")] = 0
    story.results("w", [4])
    story.settle()
    story.results("w", [5])
    assert story.settle() == ["c <- Results 5"]


def test_a_task_that_was_submitted_meanwhile_waits_as_well(story: Story) -> None:
    fill(story)
    story.submit("c", ["late"], priority=9)
    assert story.settle() == []
    story.unacknowledged[peer("c")] = 0
    assert story.settle() == ["c <- Results 2", "c <- Results 3", "w <- Dispatch late"]


def test_answers_pass_by_what_waits(story: Story) -> None:
    fill(story)
    story.cancel("c", ["4", "2", "nothing"])
    story.receive("c", Explain(1, task(5)))
    lines = story.settle()
    assert lines[0] == "c <- CancelReply 4 canceled, 2 too-late, nothing unknown"
    assert lines[1] == "c <- Explanation"
    story.unacknowledged[peer("c")] = 0
    assert story.settle() == ["c <- Results 2", "c <- Results 3"]
    assert story.settle() == ["c <- Results 4 canceled", "w <- Dispatch 5"]


def test_an_explanation_tells_of_it(story: Story) -> None:
    fill(story)
    answer = story.core.explanation(Explain(1, task(5)), story.now)
    assert answer.state == "queued" and 12_000 <= answer.unread_bytes < 20_000


def test_what_a_task_prints_waits_in_its_place(story: Story) -> None:
    story.unacknowledged[peer("c")] = 11_000
    story.results("w", [1], value=VALUE)
    story.settle()
    story.receive("w", TaskLog(task(2), 1, "hello"))
    story.results("w", [2])
    assert story.settle() == []
    story.unacknowledged[peer("c")] = 0
    assert story.settle()[:3] == ["c <- Results 1", "c <- TaskLog", "c <- Results 2"]


def test_a_client_that_leaves_takes_along_what_waits(story: Story) -> None:
    fill(story)
    story.lost("c")
    assert story.settle() == ["storage <- ReleaseOwner of c"]
    story.lost("w", is_orderly=True)
    story.settle()
    assert story.is_empty()


def test_a_client_without_the_feature_is_sent_everything() -> None:
    story = Story()
    story.client("c")
    story.worker("w")
    story.submit("c", range(9))
    story.settle()
    story.unacknowledged[peer("c")] = 1 << 40
    story.results("w", range(9), value=VALUE)
    assert story.settle() == ["c <- Results " + ", ".join(map(str, range(9)))]


def test_followers_and_tasks_whose_processor_died_wait_too() -> None:
    story = Story()
    story.client("c", window=WINDOW)
    story.worker("w", credit=3, features=("chains",))
    story.worker("other", credit=1, features=("chains",))
    story.submit("c", ["a", "b", "die"], retries=1)
    assert story.settle() == ["w <- Dispatch a b", "other <- Dispatch die"]
    story.unacknowledged[peer("c")] = 20_000
    story.results("w", ["a"], value=VALUE)
    story.settle()
    story.results("w", ["b"], value=VALUE)
    story.settle()
    story.submit_graph("c", {"x": [], "y": ["x"]}, header=GRAPH)
    story.results("other", ["die"], status=STATUS_PROCESSOR_DIED)
    assert story.settle() == ["storage <- Release of c 1 objects"]
    story.unacknowledged[peer("c")] = 0
    lines = story.settle()
    assert lines[0] == "c <- Results b"
    assert {"w <- Dispatch die attempt [2]", "other <- Dispatch die attempt [2]"} & set(lines)


def test_while_a_client_keeps_up_its_session_is_hardly_ever_asked() -> None:
    """A window of a hundred thousand bytes: no more than one question for each of these."""
    story = Story()
    asked: list[PeerId] = []

    def ask(peer_id: PeerId) -> int:
        asked.append(peer_id)
        return 0

    story.core.tables.delivery = delivery.Delivery(story.core.tables.ready, ask)
    story.client("c", window=100_000)
    story.worker("w", credit=1)
    story.submit("c", range(500))
    for number in range(500):
        story.settle()
        story.results("w", [number], value=bytes(1_000))
    story.settle()
    assert len(asked) <= 500 * 2_200 // 100_000


def test_all_windows_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When many clients do not read, the windows of further ones are small."""
    monkeypatch.setattr(delivery, "ALL_WINDOWS_BYTES", 50_000)
    monkeypatch.setattr(delivery, "SMALLEST_WINDOW_BYTES", 2_000)
    story = Story()
    story.worker("w", credit=1_000)
    sent = 0
    for name in map(str, range(20)):
        story.client(name, window=WINDOW)
        story.submit(name, [f"{name}.{number}" for number in range(40)])
        story.settle()
        for number in range(40):
            story.results("w", [f"{name}.{number}"], value=bytes(500))
            for action in story.actions():
                if isinstance(action, Send) and isinstance(action.message, Results):
                    story.unacknowledged[action.peer_id] += len(action.message.payload)
                    sent += len(action.message.payload)
    assert sent <= 20 * 2_500 + 40_000, "few have a whole window, all others the smallest"
    assert all(story.unacknowledged[peer(str(number))] >= 1_500 for number in range(20)), "and each of them has that"
