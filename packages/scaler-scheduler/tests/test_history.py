"""What became of tasks, and what happened to the cluster, as monitors are told of it (MON-32 to MON-36)."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, Story, ids, names, peer, task

from scaler_protocol.codec import encode, encode_task_error
from scaler_protocol.codes import (
    KIND_INLINE,
    LEASE_EXPIRED,
    ROLE_CLIENT,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_REFUSED,
    TASK_RAISED,
)
from scaler_protocol.ids import TaskId, shown_task
from scaler_protocol.keys import Identity
from scaler_protocol.messages import (
    Cancel,
    ClusterEvent,
    Limits,
    NameFunctions,
    Results,
    TaskError,
    TaskFailure,
    TaskSamples,
)
from scaler_protocol.session import Lost
from scaler_scheduler.core import Policy
from scaler_scheduler.core.notes import cluster_events, history
from scaler_scheduler.core.notes.encoded_size import size_of_failure
from scaler_scheduler.core.watching import shapes

ERROR = TaskError(TASK_RAISED, "builtins.ValueError", "larger than 3\nand a second line", "Traceback of ana's program")
PROFILE = struct.pack("<QQQ", 250_000_000, 125_000_000, 4096)


def failed(*tasks: str, error: TaskError = ERROR) -> Results:
    value = encode_task_error(error)
    count = len(tasks)
    return Results(
        ids=ids(tasks),
        statuses=bytes((STATUS_FAILED,)) * count,
        kinds=bytes((KIND_INLINE,)) * count,
        sizes=struct.pack("<I", len(value)) * count,
        profiles=PROFILE * count,
        payload=value * count,
    )


def story_of(*tasks: str, policy: Policy | None = None) -> Story:
    story = Story(policy or Policy())
    story.client("c")
    story.worker("w", credit=1000)
    story.submit("c", list(tasks))
    story.actions()
    return story


def told(story: Story) -> TaskSamples:
    return story.core.task_samples(story.now)


def test_a_failure_is_told_with_its_type_and_first_line() -> None:
    story = story_of("a", "b")
    story.receive("w", failed("a"))
    story.now += 0.5
    (failure,) = told(story).failures
    assert failure == TaskFailure(
        task_id=task("a"), function_id=FUNCTION, client_id=story.core.display_id(peer("c")), worker="w",
        status=STATUS_FAILED, attempt=1, code=TASK_RAISED, type_name="builtins.ValueError",
        first_line="larger than 3", age_seconds=0.5, duration_seconds=0.25, cpu_seconds=0.125, memory_bytes=4096,
        argument_bytes=failure.argument_bytes, submitted_seconds=failure.submitted_seconds,
        dispatched_seconds=failure.dispatched_seconds,
    )  # fmt: skip
    assert told(story).failures == () and told(story).failed_count == 0, "each is told once"
    assert story.core.history(story.now).failures == (failure,), "and is kept"


def test_texts_are_shown_only_where_the_operator_says_so() -> None:
    for shows_texts in (False, True):
        story = story_of("a", policy=Policy(shows_texts=shows_texts))
        story.receive("w", failed("a", error=replace(ERROR, message="x" * 5000, type_name="T" * 5000, text="t" * 9000)))
        (failure,) = told(story).failures
        assert failure.text == ("t" * history.TEXT_CHARACTERS if shows_texts else "")
        assert failure.first_line == "x" * history.LINE_CHARACTERS
        assert failure.type_name == "T" * history.TYPE_CHARACTERS


def test_failures_beyond_the_rate_are_counted() -> None:
    tasks = [f"t{number}" for number in range(3 * history.BURST)]
    story = story_of(*tasks)
    story.receive("w", failed(*tasks))
    while story.core.tables.backlog.jobs:
        story.actions()
    samples = told(story)
    assert len(samples.failures) == history.BURST and samples.failed_count == len(tasks)
    story.submit("c", ["later"])
    story.actions()
    story.now += 1.0
    story.receive("w", failed("later"))
    assert [one.task_id for one in told(story).failures] == [task("later")], "below the rate none is left out"


def test_below_the_rate_none_is_left_out_though_publications_are_late() -> None:
    tasks = [f"t{number}" for number in range(19 * 60)]
    story = story_of(*tasks)
    seen: list[TaskId] = []
    for tenth in range(60):
        story.now += 0.1
        story.receive("w", failed(*tasks[19 * tenth : 19 * tenth + 19]))
        story.actions()
        if tenth % 20 == 19:  # every other second
            seen += [one.task_id for one in told(story).failures]
    assert seen == [task(name) for name in tasks]


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FAILURES_KEPT", 5)
    story = story_of(*(f"t{number}" for number in range(9)))
    for number in range(9):
        story.receive("w", failed(f"t{number}"))
    assert [one.task_id for one in story.core.history(story.now).failures] == [task(f"t{n}") for n in range(4, 9)]
    monkeypatch.setattr(history, "FAILURE_BYTES", 0)
    story.submit("c", ["last"])
    story.actions()
    story.receive("w", failed("last"))
    assert story.core.history(story.now).failures == (), "not even one, if there is no room"


@pytest.mark.parametrize(("text", "fewest"), [("漢" * 1_500, 1_000), ("x" * 9_000, history.FAILURES_KEPT)])
def test_all_that_is_kept_fits_into_one_message(text: str, fewest: int) -> None:
    """Bytes are counted as they travel. The texts of the oldest failures are left out before any failure is."""
    tasks = [f"t{number}" for number in range(history.FAILURES_KEPT)]
    story = story_of(*tasks, policy=Policy(shows_texts=True))
    long = TaskError(TASK_RAISED, "ValueError", text, text, workers=(text,) * 20)
    for start in range(0, len(tasks), history.BURST):
        story.receive("w", failed(*tasks[start : start + history.BURST], error=long))
        while story.core.tables.backlog.jobs:
            story.actions()
        story.core.tables.history.tick()
        story.now += 1.0
    for number in range(cluster_events.EVENTS_KEPT):
        story.core.note("storage_lost", text, f"{number} {text}", story.now)
    story.receive("c", NameFunctions(FUNCTION, (text,)))
    kept, live = story.core.history(story.now), told(story)
    for samples in kept, live:
        assert len(encode(samples)[0]) < Limits().envelope_bytes
        assert len(samples.failures) >= fewest
        assert [one.task_id for one in samples.failures] == [task(name) for name in tasks[-len(samples.failures) :]]
        assert (samples.failures[0].text, samples.failures[-1].text) == ("", text[: history.TEXT_CHARACTERS])
    assert kept.events[-1].number == story.core.events.count


def test_an_error_that_cannot_be_read_is_a_failure_all_the_same() -> None:
    story = story_of("a")
    story.receive("w", replace(failed("a"), sizes=struct.pack("<I", 3), payload=b"???"))
    (failure,) = told(story).failures
    assert failure.task_id == task("a") and "cannot be read" in failure.first_line


def test_how_tasks_of_a_graph_ended() -> None:
    story = Story()
    story.client("c")
    story.worker("w", credit=2)
    story.core.watch(tasks=True, logs=False, graphs=True)
    story.submit_graph("c", {"a": (), "b": (), "c": ("a",), "d": ("c",), "e": ("b",)})
    story.actions()
    story.receive("w", failed("a"))
    story.results("w", ["b"])
    story.actions()
    story.receive("c", Cancel(ids(["e"])))
    story.actions()
    (shape,) = story.core.graph_shapes().graphs
    outcomes = dict(zip(names(shape.ids), shape.outcomes, strict=True))
    assert outcomes["a"] == STATUS_FAILED and outcomes["b"] == 0
    assert outcomes["c"] == outcomes["d"] == STATUS_REFUSED, "they never ran"
    assert shape.failed_count == 3
    samples = told(story)
    assert [one.task_id for one in samples.failures] == [task("a")], "what follows from a failure is none of its own"
    assert samples.failed_count == 1


def test_what_has_failed_is_shown_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a graph that is cut, the first failures are listed, and no more of them than may be."""
    monkeypatch.setattr(shapes, "TASKS_LIMIT", 8)
    story = Story()
    story.client("c")
    story.worker("w", credit=100)
    tasks = [f"t{number}" for number in range(20)]
    story.submit_graph("c", {"sum": tuple(tasks)} | dict.fromkeys(tasks, ()))
    story.actions()
    for name in ("t15", "t1", "t17", "t18"):
        story.receive("w", failed(name))
    story.actions()
    (shape,) = story.core.graph_shapes().graphs
    assert names(shape.ids) == ["sum", "t0", "t1", "t2", "t3", "t4", "t15"], "t15 and t1 failed first"
    assert (shape.task_count, shape.failed_count) == (21, 5)
    assert list(shape.outcomes) == [STATUS_REFUSED, 0, STATUS_FAILED, 0, 0, 0, STATUS_FAILED]
    monkeypatch.setattr(shapes, "TASKS_LIMIT", 21)
    assert len(names(story.core.graph_shapes().graphs[0].ids)) == 21, "one that has room is listed in its order"


def test_few_failures_of_a_batch_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FAILED_KEPT", 2)
    story = Story()
    story.client("c")
    story.worker("w", credit=100)
    story.submit_graph("c", dict.fromkeys("abcd", ()))
    story.actions()
    for name in "cba":
        story.receive("w", failed(name))
    (chunk,) = {story.core.tables.chunk_of(task("d"))}
    assert names(b"".join(chunk.first_failed)) == ["c", "b"]


def test_a_graph_that_ends_between_two_publications_is_shown_once() -> None:
    story = Story()
    story.client("c")
    story.worker("w", credit=9)
    story.core.watch(tasks=True, logs=False, graphs=True)
    story.submit_graph("c", {"a": (), "b": ("a",)})
    story.actions()
    story.receive("w", failed("a"))
    story.actions()
    (shape,) = story.core.graph_shapes().graphs
    assert (shape.unfinished_count, shape.failed_count, shape.canceled_count) == (0, 2, 0)
    assert shape.outcomes == bytes((STATUS_FAILED, STATUS_REFUSED))
    assert story.core.graph_shapes().graphs == ()
    story.core.watch(tasks=False, logs=False)
    story.submit_graph("c", {"x": ()})
    story.actions()
    story.receive("w", failed("x"))
    assert story.core.tables.history.ended_graphs is None, "without a watcher nothing is kept"


def test_a_canceled_graph_is_told_as_canceled() -> None:
    story = Story()
    story.client("c")
    story.core.watch(tasks=True, logs=False, graphs=True)
    story.submit_graph("c", {"a": (), "b": ("a",)})
    story.actions()
    story.receive("c", Cancel(b"", is_all=True))
    story.actions()
    (shape,) = story.core.graph_shapes().graphs
    assert (shape.failed_count, shape.canceled_count, shape.outcomes) == (0, 2, bytes((STATUS_CANCELED,)) * 2)


def test_outcomes_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OUTCOMES_KEPT", 1)
    story = Story()
    story.client("c")
    story.submit_graph("c", {"a": (), "b": ("a",), "x": ()})
    story.actions()
    story.receive("c", Cancel(ids(["a"])))
    story.actions()
    story.core.tables.history.tick()
    assert len(story.core.tables.history.outcomes) == 1


def test_the_last_successes_are_there_for_a_monitor_that_comes_afterwards() -> None:
    story = story_of("a", "b", "c")
    story.results("w", ["a"])
    story.now += 2.0
    story.results("w", ["b", "c"])
    samples = story.core.history(story.now + 1.0)
    (block,) = samples.blocks
    rows = list(struct.iter_unpack("<16s16sQQII", block.samples))
    assert samples.is_history and (block.name, block.ended_count) == ("w", 3)
    assert {row[0] for row in rows} <= {task("a"), task("b"), task("c")} and rows[0][0] == task("a")
    assert {row[1] for row in rows} == {FUNCTION} and rows[0][2] == 3_000_000 + rows[0][3]


def test_events_name_what_happened() -> None:
    story = story_of("a", "b")
    story.now += 1.0
    story.handle(Lost(peer("w"), code=LEASE_EXPIRED, text="connection closed", is_orderly=False))
    joined, lost = story.core.snapshot(story.now + 2.0).events
    assert (joined.number, joined.kind, joined.subject) == (1, cluster_events.WORKER_JOINED, "w")
    text = f"connection closed; it held {shown_task(task('a'))}, {shown_task(task('b'))}"
    assert lost == ClusterEvent(2, 2.0, cluster_events.WORKER_LOST, "w", text, 2)
    assert story.core.history(story.now).events[-1].number == story.core.snapshot(story.now).event_count == 2


def test_the_tasks_of_a_lost_client_do_not_run_again() -> None:
    story = story_of("a", "b")
    story.handle(Lost(peer("c"), code=LEASE_EXPIRED, text="connection closed", is_orderly=False))
    event = story.core.snapshot(story.now).events[-1]
    assert (event.kind, event.task_count) == (cluster_events.CLIENT_LOST, 0), "they end with their client (SCH-22)"
    assert event.text == "its 2 unfinished tasks end: connection closed"


def test_events_are_bounded_and_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    for number in range(cluster_events.EVENTS_KEPT + 5):
        story.core.note("storage_lost", "s" * 500, f"{number}\nrefused " + "x" * 900, story.now)
    kept, shown = story.core.history(story.now).events, story.core.snapshot(story.now).events
    assert len(kept) == cluster_events.EVENTS_KEPT and shown == kept, "watchers know none of them"
    told = story.core.events.count
    assert story.core.snapshot(story.now, told - 40).events == kept[-40:], "all that are new"
    assert story.core.snapshot(story.now, told).events == kept[-cluster_events.EVENTS_SHOWN :]
    assert kept[0].text.startswith("5 refused") and len(kept[0].text) == cluster_events.TEXT_CHARACTERS
    assert len(kept[0].subject) == cluster_events.SUBJECT_CHARACTERS
    for _ in range(3):
        story.core.tables.events.note_limit("tasks", "too many wait")
    assert story.core.snapshot(story.now).event_count == cluster_events.EVENTS_KEPT + 6, (
        "a limit is told of once a while"
    )


# ------------------------------------------------------------ several users

USERS = ("ana", "ben", "cy")


def story_of_users() -> Story:
    story = Story(Policy(shows_texts=True))
    for user in USERS:
        story.client(user, identity=Identity(user, frozenset({ROLE_CLIENT}), False, bytes(32)))
    story.worker("w", credit=1000)
    return story


def fail(story: Story, user: str, *names: str, text: str = "") -> None:
    story.submit(user, list(names))
    story.actions()
    story.receive("w", failed(*names, error=replace(ERROR, text=text)))
    while story.core.tables.backlog.jobs:
        story.actions()


@pytest.mark.parametrize("seed", range(10))
def test_what_a_user_has_of_its_share_is_kept_whatever_others_have(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law: a user keeps all failures, and their texts, as long as it has less than an equal part of the places and
    of the bytes."""
    places, size = 30, 15_000
    monkeypatch.setattr(history, "FAILURES_KEPT", places)
    monkeypatch.setattr(history, "FAILURE_BYTES", size)
    monkeypatch.setattr(history, "WHOLE_KEPT", 2)
    choose = random.Random(seed)
    story = story_of_users()
    modest = {"ben": choose.randint(1, places // 3), "cy": choose.randint(1, 3)}
    had: dict[str, dict[bytes, str]] = {user: {} for user in modest}
    for step in range(150):
        story.now += 0.1
        user = choose.choices(USERS, (8, 1, 1))[0]
        name, text = f"{user}{step}", "x" * choose.choice((0, 100, 4_000) if user == "ana" else (0, 100))
        if user in modest and len(had[user]) == modest[user]:
            continue
        fail(story, user, name, text=text)
        if user in had:
            had[user][task(name)] = text
        kept = story.core.history(story.now).failures
        assert len(kept) <= places and sum(map(size_of_failure, kept)) <= size
        assert list(kept) == sorted(kept, key=lambda one: -one.age_seconds), "the oldest first"
        for one, tasks in had.items():
            own = {failure.task_id: failure.text for failure in kept if failure.user == one}
            assert sum(map(size_of_failure, (each for each in kept if each.user == one))) <= size / len(USERS)
            assert own == tasks, f"what is kept of {one}"


def test_a_user_beyond_the_rate_hides_no_failures_of_others() -> None:
    story = story_of_users()
    fail(story, "ana", *(f"a{number}" for number in range(2 * history.BURST)))
    fail(story, "ben", *(f"b{number}" for number in range(history.FAILURES_OF_EACH + 3)))
    fail(story, "cy", "c0")
    samples = told(story)
    by_user = [sum(one.user == user for one in samples.failures) for user in USERS]
    each = history.FAILURES_OF_EACH
    assert by_user == [history.BURST + each, each, 1]
    assert samples.failed_count == 2 * history.BURST + each + 3 + 1
    story.now += 1.0
    fail(story, "ben", "later")
    assert [one.task_id for one in told(story).failures] == [task("later")]


def test_what_users_have_beyond_the_rate_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BURST", 2)
    story = story_of_users()
    story.core.tables.history._left = 2
    for user in USERS:
        fail(story, user, *(f"{user}{number}" for number in range(4)))
    assert len(told(story).failures) == 4, "twice the rate at most"
