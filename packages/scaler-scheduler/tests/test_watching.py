"""What the scheduler tells those who watch, and that it asks nobody for anything while there are none (MON)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, WELCOME, Story, ids, names, peer, task

from scaler_protocol.codec.checks import SAMPLE_BYTES
from scaler_protocol.codes import ROLE_WORKER, STATUS_FAILED
from scaler_protocol.columns import split_u16
from scaler_protocol.messages import (
    Capability,
    Dispatch,
    Explain,
    FunctionName,
    Hello,
    NameFunctions,
    Recall,
    SampleTasks,
    TaskLog,
    WaitingClass,
    WorkerOffer,
    WorkerStatus,
)
from scaler_protocol.session import Opened
from scaler_scheduler.core import Asked, Policy, PublishLog, Send
from scaler_scheduler.core.notes import names as naming
from scaler_scheduler.core.watching import sampling, shapes

ROW = task("a") + FUNCTION + bytes(SAMPLE_BYTES - 32)


def sampling_worker(story: Story, name: str) -> None:
    hello = Hello(1, 1, ROLE_WORKER, peer(name), worker=WorkerOffer(name, (), 10, 1))
    story.handle(Opened(peer(name), hello, replace(WELCOME, features=("samples",))))


def asked(story: Story) -> list[tuple[bytes, int]]:
    sent = [one for one in story.actions() if isinstance(one, Send) and isinstance(one.message, SampleTasks)]
    return [(one.peer_id, one.message.sample_limit) for one in sent]  # type: ignore[union-attr]


def test_workers_are_asked_for_samples_only_while_somebody_watches() -> None:
    story = Story()
    story.worker("plain")
    sampling_worker(story, "w")
    story.core.watch(tasks=False, logs=False)
    assert asked(story) == []
    story.core.watch(tasks=True, logs=False)
    assert asked(story) == [(peer("w"), sampling.WORKER_LIMIT)]
    story.core.watch(tasks=True, logs=False)
    assert asked(story) == []
    for number in range(9):
        sampling_worker(story, f"w{number}")
    story.core.watch(tasks=True, logs=False)
    limits = dict(asked(story))
    assert len(limits) == 10 and len(set(limits.values())) == 1, "all share what is to be had"
    assert limits[peer("w")] <= sampling.SAMPLES_PER_SECOND * sampling.HEARTBEAT_SECONDS / 10
    story.core.watch(tasks=False, logs=False)
    assert {limit for _, limit in asked(story)} == {0}


def test_samples_are_handed_on_and_not_kept() -> None:
    story = Story()
    story.client("c")
    sampling_worker(story, "w")
    story.receive("c", NameFunctions(FUNCTION, ("square",)))
    story.core.watch(tasks=True, logs=False)
    story.receive("w", WorkerStatus(queued_count=5, ended_count=70, samples=ROW))
    story.now += 0.25
    published = story.core.task_samples(story.now)
    (block,) = published.blocks
    assert (block.name, block.ended_count, block.samples, block.age_seconds) == ("w", 70, ROW, 0.25)
    assert published.function_names == (FunctionName(FUNCTION, "square"),)
    assert story.core.tables.workers[peer("w")].status == WorkerStatus(queued_count=5)
    assert story.core.task_samples(story.now).blocks == ()


def test_samples_that_nobody_asked_for_are_dropped() -> None:
    story = Story()
    sampling_worker(story, "w")
    story.receive("w", WorkerStatus(ended_count=70, samples=ROW))
    story.core.watch(tasks=True, logs=False)
    assert story.core.task_samples(story.now).blocks == ()
    limit = dict(asked(story))[peer("w")]
    story.receive("w", WorkerStatus(ended_count=1, samples=ROW * (limit + 1)))
    (block,) = story.core.task_samples(story.now).blocks
    assert len(block.samples) == SAMPLE_BYTES * limit


def test_a_graph_has_the_states_of_its_tasks() -> None:
    story = Story()
    story.client("c")
    story.worker("w", credit=2)
    story.submit_graph("c", {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)})
    story.actions()
    story.results("w", ["a"])
    (shape,) = story.core.graph_shapes().graphs
    assert (shape.client_id, shape.graph_id, shape.task_count, shape.unfinished_count) == (
        story.core.display_id(peer("c")), task("graph"), 4, 3,
    )  # fmt: skip
    states = dict(zip(names(shape.ids), shape.states, strict=True))
    assert states == {"a": shapes.ENDED, "b": shapes.DISPATCHED, "c": shapes.WAITING, "d": shapes.WAITING}
    assert split_u16(shape.dependency_counts) == (0, 0, 2, 1)
    assert split_u16(shape.dependencies) == (0, 1, 2)


def test_a_large_graph_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "TASKS_LIMIT", 3)
    story = Story()
    story.client("c")
    story.submit_graph("c", {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)})
    (shape,) = story.core.graph_shapes().graphs
    assert shape.task_count == 4 and names(shape.ids) == ["a", "b", "c"]
    assert len(shape.states) == 3 and sum(split_u16(shape.dependency_counts)) == 2


def test_the_tasks_of_a_graph_have_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them, here of each batch the second. To a worker a key does not go."""
    story = Story()
    story.client("c")
    story.worker("w", credit=2)
    story.submit_graph("c", {"a": (), "b": (), "c": ("a", "b")}, keys=[b"", "läd".encode(), b"k" * 64], sealed=False)
    story.submit_graph("c", {"d": (), "e": ("c",)}, keys=[b"", b"\xff"])
    sent = [action.message for action in story.actions() if isinstance(action, Send)]
    assert any(isinstance(one, Dispatch) for one in sent)
    assert not any(one.keys or one.key_sizes for one in sent if isinstance(one, Dispatch))
    (shape,) = story.core.graph_shapes().graphs
    assert shape.key_sizes == bytes((0, 4, 64, 0, 1)) and shape.keys == "läd".encode() + b"k" * 64 + b"\xff"
    record = story.core.explanation(Explain(7, task("e")), story.now).record
    assert record.key == "\N{REPLACEMENT CHARACTER}"
    assert story.core.explanation(Explain(7, task("a")), story.now).record.key == ""
    story.results("w", ["b"], status=STATUS_FAILED)
    (failure,) = story.core.task_samples(story.now).failures
    assert (failure.task_id, failure.key) == (task("b"), "läd")
    monkeypatch.setattr(shapes, "TASKS_LIMIT", 2)
    (shape,) = story.core.graph_shapes().graphs
    keys = dict(zip(names(shape.ids), shape.key_sizes, strict=True))
    assert keys == {"a": 0, "b": 4} and shape.keys == "läd".encode()


def test_a_part_of_a_batch_has_its_own_keys() -> None:
    story = Story()
    story.client("c")
    story.submit_graph("c", {"a": (), "b": (), "c": (), "d": ()}, keys=[b"A", b"", b"CC", b"DDD"])
    chunk = story.core.tables.chunk_of(task("a"))
    part = chunk.part([0, 2, 3])
    assert [part.key(index) for index in range(3)] == [b"A", b"CC", b"DDD"]
    assert chunk.part([1]).key(0) == b""


def test_what_waits_for_what() -> None:
    story = Story()
    story.client("c")
    story.worker("w", credit=0)
    gpu = (Capability("gpu", 1),)
    story.submit("c", ["a", "b"])
    story.submit("c", ["g"], priority=3, capabilities=gpu)
    classes = story.core.snapshot(story.now).waiting_classes
    assert classes == (WaitingClass(gpu, 3, 0, 1, 0), WaitingClass((), 0, 0, 2, 1))


def test_a_monitor_may_ask_about_any_task() -> None:
    story = Story()
    story.client("c")
    story.submit("c", ["a"], capabilities=(Capability("gpu"),))
    story.receive("c", NameFunctions(FUNCTION, ("square",)))
    story.actions()
    story.receive("m", Explain(1, task("a")))
    assert any(isinstance(one, Asked) and one.message == Explain(1, task("a")) for one in story.actions())
    answers = [story.core.explanation(Explain(1, task("a")), story.now), story.core.explanation(Explain(2), story.now)]
    assert [(one.request_id, one.task_id, one.state) for one in answers] == [
        (1, task("a"), "queued"),
        (2, task("a"), "queued"),
    ]
    assert answers[0].function_name == "square" and answers[0].capabilities == (Capability("gpu"),)


def test_what_tasks_print_is_published_only_while_somebody_watches() -> None:
    story = Story()
    story.client("c")
    story.worker("w")
    story.submit("c", ["a"])
    story.actions()
    log = TaskLog(task("a"), 1, "hello", "w")
    story.receive("w", log)
    assert PublishLog(log) not in story.actions()
    story.core.watch(tasks=False, logs=True)
    story.receive("w", log)
    assert PublishLog(log) in story.actions()


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "NAMES_LIMIT", 2)
    known = naming.FunctionNames()
    known.learn(NameFunctions(ids("abc"), ("a", "b", "x" * 500)))
    assert [known.of(task(one)) for one in "abc"] == ["", "b", "x" * naming.NAME_CHARACTERS]


def test_users_neither_change_nor_push_out_the_names_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "NAMES_LIMIT", 4)
    known = naming.FunctionNames()
    known.learn(NameFunctions(ids("ab"), ("mine", "mine too")), "ana")
    known.learn(NameFunctions(ids("acdefg"), ("other",) * 6), "ben")
    assert [known.of(task(one)) for one in "ab"] == ["mine", "mine too"]
    assert [known.of(task(one)) for one in "cdefg"] == ["", "", "", "other", "other"]
    known.learn(NameFunctions(ids("a"), ("renamed",)), "ana")
    assert known.of(task("a")) == "renamed"
    known.learn(NameFunctions(ids("a"), ("hers",)), "cleo")
    assert known.of(task("a")) == "renamed" and "cleo" not in known._of_user


def test_forgetting_names_takes_as_long_as_learning_them() -> None:
    """Seconds of processor time if each name that is forgotten is looked for behind all that were forgotten before."""
    known = naming.FunctionNames()
    column = b"".join(number.to_bytes(16, "little") for number in range(100_000))
    begun = time.process_time()
    known.learn(NameFunctions(column, ("f",) * 100_000))
    assert time.process_time() - begun < 1.0
    assert len(known._names) == naming.NAMES_LIMIT


def test_balancing_is_counted() -> None:
    story = Story(Policy(load_balance_seconds=1, load_balance_trigger_times=1))
    story.client("c")
    story.worker("w", credit=10)
    story.submit("c", range(8))
    story.actions()
    story.worker("idle")
    story.actions()
    story.now += 1.1
    recalled = [one.message for one in story.actions() if isinstance(one, Send) and isinstance(one.message, Recall)]
    assert recalled
    assert story.core.snapshot(story.now).recalled_count == sum(len(one.ids) // 16 for one in recalled)
