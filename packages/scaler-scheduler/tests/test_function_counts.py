"""What becomes of the tasks of each function, and what their runs took (MON-38 to MON-41, LIM-26)."""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import replace

import pytest
from tests.support.scheduler_story import FUNCTION, GRAPH, Story, ids, peer, task

from scaler_protocol.codes import ROLE_CLIENT, ROLE_WORKER, STATUS_CANCELED, STATUS_FAILED
from scaler_protocol.columns import BUCKET_BOUNDS_MICROSECONDS, BUCKETS, join_u16, join_u32, split_u64
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import (
    ClusterStatus,
    FunctionEntry,
    NameFunctions,
    Results,
    Submit,
    TaskHeader,
    WorkerStatus,
)
from scaler_scheduler.core import invariants
from scaler_scheduler.core.core import FEATURE_CHAINS
from scaler_scheduler.core.entities import workers
from scaler_scheduler.core.notes import function_counts

SEVERAL = [bytes([number]) * ID_BYTES for number in range(1, 4)]


def functions(story: Story) -> dict[bytes, FunctionEntry]:
    invariants.check(story.core)
    return {one.function_id: one for one in story.core.snapshot(story.now).functions}


def batch(names: list[str], of: list[int], **header: object) -> Submit:
    """Tasks of several functions."""
    return Submit(
        TaskHeader(**header),  # type: ignore[arg-type]
        b"".join(SEVERAL),
        ids(names),
        b"x" * len(names),
        join_u32([1] * len(names)),
        function_indexes=join_u16(of),
    )


def lone(name: str, function: bytes) -> Submit:
    return Submit(TaskHeader(), function, ids([name]), b"x", join_u32([1]))


def status(*rows: tuple[bytes, float, float], buckets: tuple[tuple[int, int, int], ...] = ()) -> WorkerStatus:
    return WorkerStatus(
        functions=b"".join(struct.pack("<16sQQ", one, int(1e6 * run), int(1e6 * cpu)) for one, run, cpu in rows),
        function_buckets=b"".join(struct.pack("<HHI", *bucket) for bucket in buckets),
    )


def buckets_of(entry: FunctionEntry) -> dict[int, int]:
    return dict(zip(entry.buckets, split_u64(entry.bucket_counts), strict=True))


def story_with(credit: int = 2) -> Story:
    story = Story()
    story.client("c")
    story.worker("w", credit=credit)
    return story


def test_where_tasks_are_and_how_they_ended() -> None:
    story = story_with()
    story.submit("c", list("abcdef"))
    story.actions()
    story.results("w", ["a"])
    story.receive("w", Results(ids(["b"]), b"", join_u32([0]), statuses=bytes([STATUS_FAILED])))
    story.cancel("c", ["f"])
    story.actions()
    assert functions(story)[FUNCTION] == FunctionEntry(
        FUNCTION, submitted_count=6, dispatched_count=2, success_count=1, failed_count=1, canceled_count=1
    )
    story.receive("c", NameFunctions(FUNCTION, ("price",)))
    story.results("w", ["c", "d"])
    story.actions()
    entry = functions(story)[FUNCTION]
    assert (entry.name, entry.success_count, entry.dispatched_count) == ("price", 3, 1)


def test_tasks_of_one_batch_and_several_functions() -> None:
    story = story_with(credit=3)
    story.receive("c", batch(list("abcdef"), [0, 1, 2, 0, 1, 2]))
    story.actions()
    found = functions(story)
    assert [(found[one].submitted_count, found[one].dispatched_count) for one in map(ObjectId, SEVERAL)] == [(2, 1)] * 3
    story.cancel("c", ["f"])
    story.actions()
    story.results("w", ["a", "b"])
    story.receive("w", Results(ids(["c"]), b"", join_u32([0]), statuses=bytes([STATUS_FAILED])))
    story.actions()
    found = functions(story)
    first, second, third = (found[ObjectId(one)] for one in SEVERAL)
    assert (first.success_count, second.success_count, third.success_count) == (1, 1, 0)
    assert (third.failed_count, third.canceled_count, third.dispatched_count) == (1, 1, 0)


def test_a_worker_that_is_lost_takes_nothing_along() -> None:
    story = story_with(credit=9)
    story.receive("c", batch(list("abc"), [0, 1, 1]))
    story.actions()
    story.receive("w", status((SEVERAL[1], 2.5, 1.5), buckets=((0, 13, 7), (0, BUCKETS - 1, 1))))
    before = functions(story)[ObjectId(SEVERAL[1])]
    assert (before.run_seconds, before.cpu_seconds, buckets_of(before)) == (2.5, 1.5, {13: 7, BUCKETS - 1: 1})
    assert story.core.tables.workers[peer("w")].status.functions == b"", "monitors are not told of each worker"
    story.lost("w")
    story.work_off()
    assert functions(story)[ObjectId(SEVERAL[1])] == replace(before, dispatched_count=0)
    story.worker("v", credit=9)
    story.actions()
    story.receive("v", status((SEVERAL[1], 1.0, 0.0), buckets=((0, 13, 2),)))
    after = functions(story)[ObjectId(SEVERAL[1])]
    assert (after.run_seconds, buckets_of(after), after.dispatched_count) == (3.5, {13: 9, BUCKETS - 1: 1}, 2)


def test_how_long_tasks_were_queued_and_with_workers() -> None:
    story = story_with(credit=1)
    story.submit("c", ["a", "b"])
    story.actions()
    story.now += 2.0
    entry = functions(story)[FUNCTION]
    assert (entry.queued_seconds, entry.dispatched_seconds) == (2.0, 2.0)
    story.results("w", ["a"])
    story.actions()
    story.now += 3.0
    story.results("w", ["b"])
    story.actions()
    story.now += 10.0
    entry = functions(story)[FUNCTION]
    assert (entry.queued_seconds, entry.dispatched_seconds) == (2.0, 5.0), "from then on neither grows"


def test_a_client_that_goes_while_its_tasks_run() -> None:
    story = story_with()
    story.submit("c", ["a", "b", "c"])
    story.actions()
    story.lost("c")
    story.work_off()
    entry = functions(story)[FUNCTION]
    assert (entry.canceled_count, entry.dispatched_count) == (1, 2), "the worker has not said that they ended"
    story.receive("w", Results(ids(["a"]), b"", join_u32([0]), statuses=bytes([STATUS_CANCELED])))
    story.actions()
    assert functions(story)[FUNCTION].canceled_count == 2


def test_a_graph_that_fails() -> None:
    story = story_with()
    story.submit_graph("c", {"a": (), "b": ("a",), "c": ("b",)})
    story.actions()
    story.receive("w", Results(ids(["a"]), b"", join_u32([0]), statuses=bytes([STATUS_FAILED])))
    story.work_off()
    entry = functions(story)[FUNCTION]
    assert (entry.submitted_count, entry.failed_count, entry.refused_count) == (3, 1, 2)


def test_functions_in_use_come_first_and_the_rest_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_counts, "ROWS_SHOWN", 2)
    story = story_with(credit=9)
    for number, function in enumerate(SEVERAL):
        story.now += 1.0
        story.receive("c", lone(f"t{number}", function))
        story.actions()
        if number:
            story.results("w", [f"t{number}"])
            story.actions()
    shown = story.core.snapshot(story.now).functions
    assert [one.function_id for one in shown] == [SEVERAL[0], SEVERAL[2], b""]
    assert (shown[0].dispatched_count, shown[2].success_count) == (1, 1)


def test_the_table_is_bounded_and_loses_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_counts, "ROWS_MAX", 8)
    story = story_with(credit=1000)
    for number in range(100):
        story.now += 1.0
        story.receive("c", lone(f"t{number}", task(f"f{number}")))
        story.actions()
        story.results("w", [f"t{number}"])
        story.actions()
        story.receive("w", status((task(f"f{number}"), 1.0, 0.5), buckets=((0, 20, 1),)))
    found = functions(story)
    assert len(found) == 9 and task("f99") in found
    assert sum(one.success_count for one in found.values()) == 100
    assert sum(one.run_seconds for one in found.values()) == 100.0
    assert found[ObjectId(b"")].success_count == buckets_of(found[ObjectId(b"")])[20] == 92


def test_functions_with_unfinished_tasks_keep_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_counts, "ROWS_MAX", 8)
    story = Story()
    story.client("c")
    for number in range(30):
        story.receive("c", lone(f"t{number}", task(f"f{number}")))
    story.actions()
    found = functions(story)
    assert len(found) == 9 and task("f0") in found and found[ObjectId(b"")].submitted_count == 22
    assert sum(count.value for count in story.core.snapshot(story.now).function_counts) == 30
    story.worker("w", credit=100)
    story.actions()
    story.results("w", [f"t{number}" for number in range(30)])
    story.actions()
    assert functions(story)[ObjectId(b"")].success_count == 22


def test_a_user_with_many_functions_takes_the_place_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_counts, "ROWS_MAX", 8)
    story = Story()
    story.client("ana", identity=Identity("ana", frozenset({ROLE_CLIENT}), is_operator=True, holder=b""))
    story.client("bo", identity=Identity("bo", frozenset({ROLE_CLIENT}), is_operator=True, holder=b""))
    story.worker("w", credit=100)
    story.receive("ana", lone("a", FUNCTION))
    story.actions()
    story.results("w", ["a"])
    for number in range(20):
        story.now += 1.0
        story.receive("bo", lone(f"t{number}", task(f"f{number}")))
        story.actions()
        story.results("w", [f"t{number}"])
        story.actions()
    assert functions(story)[FUNCTION].success_count == 1


def test_many_functions_in_one_batch() -> None:
    names = [f"t{number}" for number in range(600)]
    many = [task(f"f{number}") for number in range(600)]
    story = story_with(credit=600)
    numbers = join_u16(list(range(600)))
    story.receive("c", Submit(TaskHeader(), b"".join(many), ids(names), b"x" * 600, join_u32([1] * 600), numbers))
    story.actions()
    found = functions(story)
    assert len(story.core.tables.functions.rows) == function_counts.ROWS_OF_A_BATCH
    assert found[ObjectId(b"")].submitted_count == 600 - function_counts.ROWS_SHOWN
    story.results("w", names)
    story.work_off()
    assert sum(one.success_count for one in functions(story).values()) == 600


def test_a_graph_of_several_functions_in_slices() -> None:
    """One that is accepted over several turns, and canceled while it runs."""
    story = story_with(credit=5)
    names = [f"t{number}" for number in range(3000)]
    graph = GraphId(b"g" * ID_BYTES)
    submit = batch(names, [number % 3 for number in range(3000)], graph_id=graph)
    counts = [0] + [1] * 2999
    story.receive("c", replace(submit, dependency_counts=join_u16(counts), dependencies=ids(names[:-1])))
    story.work_off()
    story.results("w", ["t0"])
    story.work_off()
    story.cancel("c", names[1500:])
    story.work_off()
    found = functions(story)
    assert sum(one.submitted_count for one in found.values()) == 3000
    assert sum(one.canceled_count for one in found.values()) == 1500


def waits(status: ClusterStatus) -> dict[int, int]:
    return dict(zip(status.queued_buckets, split_u64(status.queued_bucket_counts), strict=True))


def test_how_long_tasks_were_queued_is_counted_at_each_dispatch() -> None:
    story = Story()
    story.client("c")
    story.worker("w", credit=1, reserve=0)
    story.submit("c", ["at once", "later"])
    story.settle()
    assert waits(story.core.snapshot(story.now)) == {0: 1}
    story.now = 2.0
    story.results("w", ["at once"])
    story.settle()
    bucket = bisect_left(BUCKET_BOUNDS_MICROSECONDS, 2_000_000)
    assert waits(story.core.snapshot(story.now)) == {0: 1, bucket: 1}
    story.lost("w")
    story.now = 3.5
    story.worker("v", credit=9)
    story.settle()
    status = story.core.snapshot(story.now)
    assert waits(status) == {0: 1, bucket: 1, bisect_left(BUCKET_BOUNDS_MICROSECONDS, 3_500_000): 1}
    assert status.queued_seconds == 5.5


def ticket(user: str, *, is_operator: bool = False, role: int = ROLE_WORKER) -> Identity:
    return Identity(user, frozenset({role}), is_operator=is_operator, holder=b"")


def run_seconds(story: Story) -> dict[bytes, float]:
    return {function_id: entry.run_seconds for function_id, entry in functions(story).items() if entry.run_seconds}


ASKED, OTHER, UNASKED = SEVERAL


@pytest.mark.parametrize("user", ["svc", "ana"], ids=["another user", "the first user of the function"])
@pytest.mark.parametrize("way", ["lone", "of several functions", "sent ahead"])
def test_a_worker_of_any_user_tells_of_functions_that_it_was_given(user: str, way: str) -> None:
    """And of no other function, of whatever user."""
    story = Story()
    story.client("ana", identity=ticket("ana", role=ROLE_CLIENT))
    story.client("bob", identity=ticket("bob", role=ROLE_CLIENT))
    story.receive("ana", lone("first", ASKED))
    story.receive("ana", lone("foreign", UNASKED))
    story.worker("all")
    story.settle()
    story.results("all", ["first", "foreign"])
    story.lost("all")
    several = batch(["t", "u"], [0, 1])
    if way == "sent ahead":
        several = batch(["t", "u"], [1, 0], graph_id=GRAPH.graph_id)
        several = replace(several, dependency_counts=join_u16([0, 1]), dependencies=ids(["t"]))
    story.receive("bob", lone("t", ASKED) if way == "lone" else several)
    story.worker("w", identity=ticket(user), features=(FEATURE_CHAINS,))
    story.work_off()
    told = status((ASKED, 1.0, 0.5), (UNASKED, 4.0, 2.0), (bytes(ID_BYTES), 8.0, 1.0))
    story.receive("w", told)
    assert run_seconds(story) == {ASKED: 1.0, b"": 12.0}
    story.results("w", ["t"])
    story.settle()
    story.receive("w", told)
    assert run_seconds(story) == {ASKED: 2.0, b"": 24.0}, "also after the task has ended"


def test_an_operators_worker_is_believed_for_each_function() -> None:
    story = Story()
    story.client("ana", identity=ticket("ana", role=ROLE_CLIENT))
    story.worker("w", identity=ticket("svc", is_operator=True), credit=0)
    story.receive("ana", lone("t", ASKED))
    story.receive("w", status((ASKED, 1.0, 0.5)))
    assert run_seconds(story) == {ASKED: 1.0}


def test_so_many_given_functions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GIVEN_FUNCTIONS", 2)
    story = Story()
    story.client("ana", identity=ticket("ana", role=ROLE_CLIENT))
    story.worker("w", credit=9, identity=ticket("svc"))
    for number, function in enumerate(SEVERAL):
        story.receive("ana", lone(f"t{number}", function))
        story.settle()
    assert list(story.core.tables.workers[peer("w")].given_functions) == SEVERAL[1:]
    story.receive("w", status(*((function, 1.0, 0.5) for function in SEVERAL)))
    assert run_seconds(story) == {SEVERAL[1]: 1.0, SEVERAL[2]: 1.0, b"": 1.0}
