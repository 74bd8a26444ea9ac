"""When a task was submitted, ready and dispatched, as monitors are told of it. (MON-62)"""

from __future__ import annotations

from array import array

import pytest
from tests.support import succession_story
from tests.support.scheduler_story import FUNCTION, Story, peer, task

from scaler_protocol.codes import KIND_OBJECT, STATUS_FAILED, STATUS_REFUSED, STATUS_WORKER_LOST
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import TaskId, task_id_source
from scaler_protocol.messages import Explain, Limits, Submit, TaskFailure, TaskHeader
from scaler_protocol.session import Lost
from scaler_scheduler.core import Policy
from scaler_scheduler.core.entities.moments import NOT_YET, SMALLEST_SECONDS, ago, marked, moment_of
from scaler_scheduler.core.notes import history
from scaler_scheduler.core.notes.history import ROWS_OF_A_MESSAGE

Moments = tuple[float, float, float]


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c")
    return story


def record(story: Story | succession_story.Story, name: object) -> TaskFailure:
    return story.core.explanation(Explain(7, task(name)), story.now).record


def moments(one: TaskFailure) -> Moments:
    """How long ago it was submitted, ready and dispatched."""
    return one.submitted_seconds, one.ready_seconds, one.dispatched_seconds


def about(*seconds: float) -> object:
    return pytest.approx(seconds, abs=1e-5)


def wait(story: Story, seconds: float) -> None:
    """After what has come was handled."""
    story.actions()
    story.now += seconds
    story.actions()


def test_a_task_in_the_queue_and_with_its_worker(story: Story) -> None:
    story.submit("c", ["a"])
    wait(story, 2.0)
    assert moments(record(story, "a")) == about(2.0, 0, 0)
    story.worker("w")
    wait(story, 0.0)
    assert moments(record(story, "a")) == about(2.0, 0, 0) and record(story, "a").dispatched_seconds, "just now"
    wait(story, 3.0)
    assert moments(record(story, "a")) == about(5.0, 0, 3.0)
    story.cancel("c", ["a"])
    wait(story, 1.0)
    assert moments(record(story, "a")) == about(6.0, 0, 4.0), "it is being canceled"


def test_what_happens_in_one_turn_has_happened(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["a"])
    wait(story, 0.0)
    submitted, ready, dispatched = moments(record(story, "a"))
    assert submitted > 0 and dispatched > 0 and not ready


def test_each_task_of_a_batch_has_its_own_dispatch(story: Story) -> None:
    story.submit("c", ["a", "b", "c", "d"])
    for name in ("v", "w"):
        story.worker(name, credit=1)
        wait(story, 1.0)
    told = [moments(record(story, name))[2] for name in "abcd"]
    assert told == about(2.0, 1.0, 0, 0)


def test_a_task_that_waits_for_others(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit_graph("c", {"a": (), "b": (), "sum": ("a", "b"), "other": ("a", "b")})
    wait(story, 2.0)
    assert moments(record(story, "sum")) == about(2.0, 0, 0)
    story.results("w", ["a"])
    wait(story, 3.0)
    assert moments(record(story, "sum")) == about(5.0, 0, 0), "for one of them"
    story.results("w", ["b"])
    wait(story, 4.0)
    first, second = sorted((record(story, name) for name in ("sum", "other")), key=lambda one: one.dispatched_seconds)
    assert moments(first) == about(9.0, 4.0, 0), "queued"
    assert moments(second) == about(9.0, 4.0, 4.0)


def test_a_task_that_failed(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["other", "a"])
    wait(story, 0.5)
    story.results("w", ["a"], status=STATUS_FAILED)
    wait(story, 2.0)
    expected = about(2.5, 0, 2.5)
    (published,) = story.core.task_samples(story.now).failures
    assert moments(published) == expected and published.age_seconds == 2.0
    assert moments(record(story, "a")) == expected
    wait(story, 10.0)
    (kept,) = story.core.history(story.now).failures
    assert moments(kept) == about(12.5, 0, 12.5) and kept.age_seconds == 12.0


def test_a_task_that_succeeded(story: Story) -> None:
    """Dispatched alone, as part of a batch, and as a whole batch."""
    story.worker("w", credit=3)
    story.submit("c", ["alone"])
    story.submit("c", ["a", "b", "c"])
    wait(story, 1.0)
    story.results("w", ["alone"])
    wait(story, 1.0)
    story.results("w", ["a", "b", "c"])
    story.submit("c", ["d", "e"])
    wait(story, 1.0)
    story.results("w", ["d", "e"])
    wait(story, 1.0)
    told = {name: moments(record(story, name)) for name in ("alone", "a", "c", "d", "e")}
    assert told["alone"] == about(4.0, 0, 4.0) and told["a"] == about(4.0, 0, 4.0)
    assert told["c"] == about(4.0, 0, 3.0)
    assert told["d"] == told["e"] == about(2.0, 0, 2.0)


def test_the_last_successes_of_a_graph_have_their_keys_and_moments(story: Story) -> None:
    story.worker("w", credit=2)
    story.submit_graph("c", {"a": (), "b": ("a",), "c": ("a",)}, keys=[b"load", b"", b"\xff"], unwanted=["a"])
    wait(story, 1.0)
    story.results("w", ["a"])
    wait(story, 1.0)
    story.results("w", ["c", "b"])
    wait(story, 1.0)
    told = {name: record(story, name) for name in "abc"}
    assert {name: one.key for name, one in told.items()} == {"a": "load", "b": "", "c": "\N{REPLACEMENT CHARACTER}"}
    assert moments(told["a"]) == about(3.0, 0, 3.0) and moments(told["c"]) == about(3.0, 2.0, 2.0)


def test_a_success_keeps_none_of_its_batch(story: Story) -> None:
    story.worker("w", credit=100)
    names = [f"t{number}" for number in range(50)]
    story.submit_graph("c", dict.fromkeys(names, ()), keys=[b"k" * 64] * 50)
    wait(story, 1.0)
    story.results("w", names)
    wait(story, 1.0)
    (success,) = story.core.tables.history.successes
    told = success[10]
    assert isinstance(told, history.Told) and len(told.keys) == ROWS_OF_A_MESSAGE
    assert (told.ready[0], told.dispatched[0], told.keys[0]) == (NOT_YET, 0.0, b"k" * 64)
    kept = [one for column in told for one in column]
    assert not any(isinstance(one, memoryview) for one in kept) and len(kept) == len(told) * ROWS_OF_A_MESSAGE


def test_the_sizes_of_arguments_and_values_are_told(story: Story) -> None:  # MON-66
    """Of a value that is stored only that it is. Of a success after a lost attempt, and of the last others."""
    story.worker("w", credit=3)
    story.submit("c", ["a", "b", "c", "d"])
    wait(story, 1.0)
    story.results("w", ["a"], value=b"x" * 70)
    story.results("w", ["b"], kind=KIND_OBJECT, value=bytes(16))
    story.lost("w")
    story.worker("v", credit=1)
    wait(story, 1.0)
    story.results("v", ["c"], attempt=2, value=b"x" * 9)
    wait(story, 1.0)
    told = [record(story, name) for name in "abc"]
    assert [(one.result_bytes, one.is_result_stored) for one in told] == [(70, False), (0, True), (9, False)]
    assert [one.argument_bytes for one in told] == [1, 1, 1]


def test_of_very_many_successes_only_some_are_looked_up(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """That they were submitted is always known. Each second some are looked up again."""
    monkeypatch.setattr(history, "TOLD_PER_SECOND", 1)
    story.worker("w", credit=5)
    story.submit("c", ["a", "b", "c", "d", "e", "f"])
    wait(story, 1.0)
    story.core.tables.history.tick()
    for name in "abcd":
        story.results("w", [name])
        if name == "c":
            story.core.tables.history.tick()
    wait(story, 1.0)
    told = {name: moments(record(story, name)) for name in "abcd"}
    assert [one[0] for one in told.values()] == about(2.0, 2.0, 2.0, 2.0)
    assert [bool(one[2]) for one in told.values()] == [True, False, False, True]


def test_a_second_attempt_has_a_dispatch_of_its_own(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["a", "b"])
    wait(story, 1.0)
    story.lost("w")
    wait(story, 1.0)
    assert moments(record(story, "a")) == about(2.0, 0, 0), "no worker has it"
    story.worker("v", credit=1)
    wait(story, 1.0)
    assert moments(record(story, "a")) == about(3.0, 0, 1.0)
    story.results("v", ["a"], attempt=2)
    wait(story, 1.0)
    recovered = record(story, "a")
    assert moments(recovered) == about(4.0, 0, 2.0) and recovered.accounts and recovered.age_seconds == 1.0


def test_a_task_that_was_lost_too_often() -> None:
    story = Story(Policy(lost_workers_limit=1))
    story.client("c")
    story.worker("w")
    story.submit("c", ["a"])
    wait(story, 1.0)
    story.lost("w")
    wait(story, 2.0)
    lost = record(story, "a")
    assert lost.status == STATUS_WORKER_LOST and moments(lost) == about(3.0, 0, 3.0)


def test_a_task_that_was_refused_was_not_dispatched(story: Story) -> None:
    """It is too large for the worker. A dispatch of an earlier attempt is not the dispatch of this one."""
    story.worker("w")
    story.submit("c", ["a" * 16])
    wait(story, 1.0)
    story.lost("w")
    story.worker("small", limits=Limits(payload_frame_bytes=8))
    wait(story, 1.0)
    refused = record(story, "a" * 16)
    assert refused.status == STATUS_REFUSED and moments(refused) == about(2.0, 0, 0)


def test_what_happened_at_a_predecessor_is_not_known() -> None:
    story = succession_story.Story()
    story.client("c")
    story.submits("c", "t")
    story.worker("w")
    story.holds("w", "t")
    story.settle(5.0)
    assert moments(record(story, "t")) == (0, 0, 0)
    story.ends("w", "t", attempt=1)
    story.settle()


def test_a_task_of_a_predecessor_that_is_dispatched_again() -> None:
    """Only its time in the queue of this scheduler is counted. (MON-60)"""
    story = succession_story.Story()
    story.now = 1000.0
    story.client("c")
    story.submits("c", "t")
    story.worker("w")
    story.holds("w", "t")
    story.settle(5.0)
    story.core.handle(Lost(peer("w"), 205, "silent for too long", False), story.now)
    story.worker("v")
    story.holds("v")
    story.settle(1.0)
    story.settle(2.0)
    assert moments(record(story, "t")) == about(0, 0, 2.0)
    assert story.core.tables.functions.queued_seconds == 6.0


def test_ids_that_rise_by_one_need_no_table(story: Story) -> None:
    """Of a large batch, of which a worker tells a few."""
    story.is_checked = False  # it makes such tables
    ids = task_id_source()(20)
    story.receive("c", Submit(TaskHeader(), FUNCTION, b"".join(ids), b"", join_u32([0] * 20)))
    chunk = story.core.tables.chunk_of(ids[0])
    assert chunk.places(tuple(ids[3:6])) == [3, 4, 5]
    assert chunk.places((ids[9], ids[0], ids[4])) == [9, 0, 4]
    assert "index_of" not in chunk.__dict__
    foreign = [TaskId(bytes(8) + number.to_bytes(8, "little")) for number in (7, 9, 8, 2**64 - 1)]
    story.receive("c", Submit(TaskHeader(), FUNCTION, b"".join(foreign), b"", join_u32([0] * 4)))
    assert story.core.tables.chunk_of(foreign[0]).places((*foreign[1:3], foreign[0], foreign[3])) == [1, 2, 0, 3]


def test_the_column_of_a_batch() -> None:
    assert marked(NOT_YET, 3, range(3), 2.0) == 2.0, "one number for all"
    assert marked(NOT_YET, 20, range(2, 19), 2.0) == array("f", (-1.0, -1.0, *[2.0] * 17, -1.0))
    column = marked(NOT_YET, 4, range(1, 3), 2.0)
    assert column == array("f", (-1.0, 2.0, 2.0, -1.0)) and column.itemsize == 4
    assert marked(column, 4, [3, 0], 3.5) is column
    assert [moment_of(column, index) for index in range(4)] == [3.5, 2.0, 2.0, 3.5]
    assert marked(1.5, 2, [1], 4.0) == array("f", (1.5, 4.0))
    assert ago(NOT_YET, 9.0) == 0.0 and ago(2.0, 9.0) == 7.0 and ago(9.0, 9.0) == SMALLEST_SECONDS
