"""Why a task waits: what the scheduler says of it (SCH-33 to SCH-35)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, Story, names, peer, task

from scaler_protocol.codes import (
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_SUCCESS,
    UNIT_RUNNING,
    UNIT_STARTING,
)
from scaler_protocol.messages import (
    NO_TASK,
    Capability,
    Explain,
    Explanation,
    ProcessorStatus,
    TaskFailure,
    WorkerStatus,
)
from scaler_scheduler.core import Send
from scaler_scheduler.core.watching import explaining

MOMENTS = ("submitted_seconds", "dispatched_seconds")
GPU = (Capability("gpu", 2),)


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c")
    return story


def ask(story: Story, name: object = None, client: str = "c") -> Explanation:
    story.receive(client, Explain(7, NO_TASK if name is None else task(name)))
    sent = [action for action in story.actions() if isinstance(action, Send)]
    (answer,) = [one.message for one in sent if one.peer_id == peer(client) and isinstance(one.message, Explanation)]
    assert answer.request_id == 7
    return replace(answer, request_id=0)


def test_no_worker_and_the_turn_of_a_task(story: Story) -> None:
    story.submit("c", ["a", "b"])
    story.submit("c", ["urgent"], priority=1)
    assert ask(story, "b") == Explanation(0, task("b"), "queued", ahead_count=2, attempt=1)
    assert ask(story, "urgent").ahead_count == 0
    assert ask(story).task_id == task("urgent"), "nobody can run any of them"


def test_workers_that_are_being_started(story: Story) -> None:
    story.manager("plain")
    story.manager("gpus", capabilities={"gpu": 2}, workers_per_unit=2)
    story.has("plain", u1=UNIT_STARTING)
    story.has("gpus", v1=UNIT_STARTING, v2=UNIT_RUNNING)
    story.submit("c", ["a"])
    story.submit("c", ["b"], capabilities=GPU)
    assert (ask(story, "a").starting_count, ask(story, "b").starting_count) == (3, 2)


def test_the_task_that_none_of_the_workers_could_take(story: Story) -> None:
    story.worker("plain")
    story.worker("small", capabilities={"gpu": 1})
    story.submit("c", ["a"])
    story.submit("c", ["g1", "g2"], capabilities=GPU)
    assert ask(story, "g2") == Explanation(
        0, task("g2"), "queued", ahead_count=1, worker_count=2, attempt=1, capabilities=(Capability("gpu", 2),)
    )
    assert ask(story).task_id == task("g1")
    story.worker("large", capabilities={"gpu": 2})
    assert ask(story) == Explanation(0, worker_count=3)


def test_tasks_that_need_other_workers_are_not_ahead(story: Story) -> None:
    story.worker("plain", credit=0)
    story.submit("c", ["g"], priority=5, capabilities=GPU)
    story.submit("c", ["u"], priority=5)
    story.submit("c", ["a"])
    answer = ask(story, "a")
    assert (answer.ahead_count, answer.worker_count, answer.able_count) == (1, 1, 1)


def test_a_task_that_waits_while_a_worker_takes_none(story: Story) -> None:
    story.worker("w", credit=0)
    story.worker("small", credit=0, capabilities={"gpu": 1})
    story.submit("c", ["a"])
    story.receive("small", WorkerStatus(trouble="no process is left"))
    assert ask(story, "a").trouble == "small: no process is left"
    story.submit("c", ["g"], capabilities=GPU)
    assert not ask(story, "g").trouble, "it is not a worker that could run it"
    story.receive("small", WorkerStatus())
    assert not ask(story, "a").trouble


def test_a_task_that_is_with_a_worker(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["a"])
    held = Explanation(
        0, task("a"), "dispatched", worker_count=1, able_count=1, worker="w", attempt=1, lost_seconds=60.0
    )
    assert ask(story, "a") == held
    story.now = 10.0
    story.receive("w", WorkerStatus(processors=(ProcessorStatus(4711, 2, task_id=task("a"), running_seconds=4.0),)))
    story.now = 11.5
    assert ask(story, "a") == replace(
        held, is_begun=True, running_seconds=5.5, silent_seconds=1.5, lost_seconds=58.5, still_seconds=11.5
    )
    story.cancel("c", ["a"])
    assert ask(story, "a").state == "canceling"


@pytest.mark.parametrize("others", [(), ("beside",)], ids=["one program", "two programs"])
def test_for_how_long_a_worker_has_ended_nothing(story: Story, others: tuple[str, ...]) -> None:
    """Zero without tasks. A report of the end of one, and the first task after a pause, begin anew. (MON-67)"""
    for name in others:
        story.client(name)
    story.worker("w")
    story.now = 100.0

    def told() -> float:
        story.settle()
        (entry,) = story.core.snapshot(story.now).workers
        (dumped,) = (line for line in story.core.dump(story.now) if line["kind"] == "worker")
        assert entry.still_seconds == dumped["still_seconds"]
        return entry.still_seconds

    assert told() == 0.0
    story.submit("c", ["a", "b"])
    assert told() == 0.0
    story.now = 104.0
    story.receive("w", WorkerStatus())
    story.submit("c", ["c"])
    assert told() == 4.0 and ask(story, "b").still_seconds == 4.0, "neither a heartbeat nor a further task is an end"
    story.results("w", ["a"])
    assert told() == 0.0
    story.now = 107.0
    assert told() == 3.0
    story.cancel("c", ["b"])
    story.settle()
    assert ask(story, "b").still_seconds == 3.0
    story.canceled("w", ["b"])
    assert told() == 0.0
    story.now = 109.0
    story.results("w", ["c"])
    assert told() == 0.0
    story.now = 150.0
    assert told() == 0.0
    story.submit("c", ["d"])
    assert told() == 0.0


def test_a_task_that_waits_for_its_children_on_a_silent_worker(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["a"])
    story.client("nested")
    story.submit("nested", ["b", "d"], parent_task=task("a"))
    story.now = 10.0
    story.receive("w", WorkerStatus(processors=(ProcessorStatus(4711, 3, task_id=task("a"), running_seconds=4.0),)))
    answer = ask(story, "a")
    assert (answer.is_begun, answer.is_blocked, answer.child_count, answer.silent_seconds) == (True, True, 2, 0.0)
    story.now = 17.0
    answer = ask(story, "a")
    assert (answer.silent_seconds, answer.lost_seconds) == (7.0, 53.0)
    story.now = 70.5
    assert ask(story, "a").lost_seconds == 0.001, "SCH-94: its loss is due, and was not noticed yet"


def test_a_task_that_waits_for_others(story: Story) -> None:
    story.submit_graph("c", {"a": [], "b": [], "sum": ["a", "b"]})
    answer = ask(story, "sum")
    assert (answer.state, answer.dependency_count) == ("waiting", 2)


def watched(story: Story, name: object) -> Explanation:
    """As a monitor is answered."""
    return story.core.explanation(Explain(7, task(name)), story.now)


def test_a_monitor_is_told_whose_a_task_is_and_of_its_relatives(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.worker("w", credit=2)
    story.submit("c", ["a"])
    story.client("nested")
    story.submit("nested", ["b", "d", "e"], parent_task=task("a"))
    story.actions()
    answer = watched(story, "a")
    of_others = {name: getattr(answer.record, name) for name in ("argument_bytes", *MOMENTS)}
    assert answer.record == TaskFailure(task("a"), FUNCTION, story.core.display_id(peer("c")), attempt=1, **of_others)
    assert answer.record.argument_bytes > 0
    assert (names(answer.children), answer.child_states) == (["b", "d", "e"], bytes((2, 1, 1)))
    assert watched(story, "b").record.parent_task == task("a")
    monkeypatch.setattr(explaining, "CHILDREN_SHOWN", 2)
    assert names(watched(story, "a").children) == ["b", "d"]
    own = ask(story, "a")
    assert (own.record, own.children, own.child_states) == (TaskFailure(), b"", b""), "they are of another client"


def test_what_became_of_lost_attempts_is_told_also_after_a_success(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["a", "b"])
    story.actions()
    story.lost("w")
    story.worker("v")
    story.actions()
    story.results("v", ["a"], status=STATUS_PROCESSOR_DIED, attempt=2)
    story.actions()
    lines = watched(story, "a").record.accounts
    assert watched(story, "a").record.attempt == 3
    assert [line.split(":")[0] for line in lines] == ["w", "attempt 2 on v"]
    story.results("v", ["a"], attempt=3)
    story.actions()
    story.now += 2.0
    answer = watched(story, "a")
    assert (answer.state, answer.record.status, answer.record.attempt) == ("", STATUS_SUCCESS, 3)
    assert (answer.record.accounts, answer.record.worker, answer.record.age_seconds) == (lines, "v", 2.0)
    assert ask(story, "a") == Explanation(0, task("a"), worker_count=1), "a client has its result"
    told = {one.name: one.value for one in story.core.snapshot(story.now).repeat_counts}
    assert told == {"worker_lost": 2, "worker_left": 0, "processor_died": 1, "failed": 0}, "b was lost, too"


def test_a_monitor_is_told_how_a_task_has_ended_as_far_as_it_is_kept(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["good", "bad", "never-run-at-all"])
    story.actions()
    story.results("w", ["good"])
    story.results("w", ["bad"], status=STATUS_FAILED)
    story.actions()
    good, bad = watched(story, "good").record, watched(story, "bad").record
    assert (good.status, good.worker, good.client_id) == (STATUS_SUCCESS, "w", story.core.display_id(peer("c")))
    assert (bad.status, bad.worker, bad.task_id) == (STATUS_FAILED, "w", task("bad"))
    number = int.from_bytes(task("bad")[8:], "little")
    answer = story.core.explanation(Explain(7, task_source=task("bad")[:4], task_number=number), story.now)
    assert (answer.task_id, answer.record) == (task("bad"), bad)
    assert watched(story, "unknown") == Explanation(7, task("unknown"), worker_count=1)


def test_what_is_not_an_unfinished_task_of_the_asker(story: Story) -> None:
    story.client("other")
    story.submit("other", ["theirs"])
    nothing = Explanation(0, task("theirs"))
    assert ask(story, "theirs") == nothing
    assert ask(story, "never") == replace(nothing, task_id=task("never"))
    assert ask(story).task_id == NO_TASK, "what others wait for is none of its business"


def test_a_client_that_has_left_gets_no_answer(story: Story) -> None:
    story.receive("c", Explain(1))
    story.lost("c")
    assert not [one for one in story.actions() if isinstance(one, Send)]
