"""How long the tasks of each function ran, as the worker tells it (WRK-54, WRK-55)."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

import pytest
from tests.support.worker_story import LONG, TINY, Story

from scaler_protocol.codes import STATUS_FAILED
from scaler_protocol.columns import BUCKET_BOUNDS_MICROSECONDS, BUCKETS, FUNCTIONS_MAX
from scaler_protocol.ids import ObjectId
from scaler_worker.core import run_times
from scaler_worker.core.events import ProcessorExited
from scaler_worker.core.run_times import OTHERS, RunTimes

PROFILE = struct.pack("<QQQ", 5_000_000, 2_000_000, 4096)


def told(times: RunTimes) -> dict[bytes, tuple[int, int, dict[int, int]]]:
    """By function: microseconds, of the processor, and runs by bucket."""
    functions, buckets = times.take()
    found: dict[bytes, tuple[int, int, dict[int, int]]] = {}
    rows = list(struct.iter_unpack("<16sQQ", functions))
    for function, microseconds, cpu in rows:
        found[function] = microseconds, cpu, {}
    for row, bucket, runs in struct.iter_unpack("<HHI", buckets):
        assert bucket not in found[rows[row][0]][2] and runs, "each bucket once, and none that is empty"
        found[rows[row][0]][2][bucket] = runs
    return found


def test_the_buckets_are_two_for_each_doubling() -> None:
    assert BUCKET_BOUNDS_MICROSECONDS[:6] == (100, 150, 200, 300, 400, 600)
    assert len(BUCKET_BOUNDS_MICROSECONDS) == BUCKETS - 1 and 80_000 < BUCKET_BOUNDS_MICROSECONDS[-1] / 1e6 < 86_400


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.0001, 0), (0.000101, 1), (0.00015, 1), (0.00016, 2), (0.001, 7), (1.0, 27), (1e9, BUCKETS - 1)],
)
def test_in_which_bucket_a_run_is(seconds: float, bucket: int) -> None:
    times = RunTimes()
    times.note(ObjectId(TINY), seconds)
    (row,) = told(times).values()
    assert row[2] == {bucket: 1}


def test_every_run_is_in_one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_times, "NOTES_MAX", 7)
    random = Random(1)
    seconds = [10 ** random.uniform(-6, 5) for _ in range(1000)]
    times = RunTimes()
    for one in seconds:
        times.note(ObjectId(TINY), one, PROFILE)
    ((function, (microseconds, cpu, buckets)),) = told(times).items()
    bounds = [*BUCKET_BOUNDS_MICROSECONDS, float("inf")]
    expected = Counter(next(at for at, bound in enumerate(bounds) if 1e6 * one <= bound) for one in seconds)
    assert (function, buckets, cpu) == (TINY, expected, 2_000_000)
    assert microseconds == pytest.approx(1e6 * sum(seconds))
    assert told(times) == {}, "what is told is not told again"


def test_functions_beyond_the_bound_are_told_together() -> None:
    times = RunTimes()
    for number in range(FUNCTIONS_MAX + 50):
        times.note(ObjectId((number + 1).to_bytes(16, "big")), 0.001)
    found = told(times)
    assert len(found) == FUNCTIONS_MAX + 1 and found[OTHERS][2] == {7: 50}


def test_what_is_not_measured_has_no_processor_time() -> None:
    times = RunTimes()
    times.note(ObjectId(TINY), 0.5)
    times.note(ObjectId(TINY), 0.5, PROFILE)
    assert told(times) == {TINY: (1_000_000, 2_000, {25: 2})}


def test_numbers_that_no_column_has_room_for() -> None:
    times = RunTimes()
    times.note(ObjectId(TINY), 1e30)
    assert told(times)[TINY][0] == 2**64 - 1


def test_ends_and_deaths_are_counted_where_they_happen() -> None:
    story = Story().start()
    story.dispatch(1)
    story.end(1, 1, seconds=0.002)
    story.dispatch(2, function=LONG)
    story.end(1, 2, seconds=0.003, status=STATUS_FAILED)
    story.dispatch(3)
    story.step(ProcessorExited(1, -9), after=0.5)
    found = told(story.core.tables.run_times)
    assert (sum(found[TINY][2].values()), sum(found[LONG][2].values())) == (2, 1)
    assert found[TINY][0] == 502_000, "it ran until its processor died"
