"""What each function has cost, made of what a scheduler tells (MON-38 to MON-41)."""

from __future__ import annotations

from random import Random

import pytest

from scaler.monitoring import functions_of
from scaler.monitoring.functions import OTHERS, quantile
from scaler.top.formats import duration_text
from scaler_protocol.columns import BUCKET_BOUNDS_SECONDS, BUCKETS, join_u64
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import ClusterStatus, FunctionEntry


def test_functions_of_one_name_are_one() -> None:
    status = ClusterStatus(
        functions=(
            FunctionEntry(
                ObjectId(b"a" * 16), "price", submitted_count=10, dispatched_count=2, success_count=3, failed_count=1,
                canceled_count=1, worker_lost_count=1, refused_count=1, queued_seconds=5.0, run_seconds=2.0,
                buckets=bytes((0, 60)), bucket_counts=join_u64((3, 1)),
            ),
            FunctionEntry(ObjectId(b"b" * 16), submitted_count=1),
            FunctionEntry(
                ObjectId(b"c" * 16), "price", submitted_count=5, success_count=5, run_seconds=1.0, cpu_seconds=0.5,
                buckets=bytes((0,)), bucket_counts=join_u64((5,)),
            ),
            FunctionEntry(submitted_count=7),
        )
    )  # fmt: skip
    price, unnamed, others = functions_of(status)
    assert (price.name, unnamed.name, others.name) == ("price", "62626262", OTHERS)
    assert (price.submitted_count, price.ended_count, price.queued_count, price.not_well_count) == (15, 12, 1, 3)
    assert (price.run_count, price.runs, price.mean_seconds) == (9, {0: 8, 60: 1}, pytest.approx(1 / 3))
    assert price.mean_queued_seconds == pytest.approx(1 / 3)
    assert (others.mean_seconds, others.quantile(0.5)) == (None, None)


def test_columns_that_do_not_agree_are_no_runs() -> None:
    spoiled = [(bytes((1, 2)), join_u64((1,))), (b"", b"x"), (bytes((BUCKETS,)), join_u64((4,)))]
    for buckets, counts in spoiled:
        entry = FunctionEntry(ObjectId(b"a" * 16), buckets=buckets, bucket_counts=counts)
        assert functions_of(ClusterStatus(functions=(entry,)))[0].runs == {}


def test_quantiles_are_in_the_right_bucket() -> None:
    random = Random(7)
    seconds = sorted(10 ** random.uniform(-3, 2) for _ in range(5000))
    runs: dict[int, int] = {}
    for one in seconds:
        bucket = next(at for at, bound in enumerate(BUCKET_BOUNDS_SECONDS) if one <= bound)
        runs[bucket] = runs.get(bucket, 0) + 1
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        found, exact = quantile(runs, share), seconds[min(len(seconds) - 1, int(share * len(seconds)))]
        assert found is not None and found == pytest.approx(exact, rel=0.5)
    assert quantile({BUCKETS - 1: 3}, 0.5) == BUCKET_BOUNDS_SECONDS[-1], (
        "of the last bucket only the lower bound is known"
    )


def test_durations_as_text() -> None:
    texts = [duration_text(one) for one in (None, 0.0, 8.5e-05, 0.0013, 0.25, 2.5, 720.0)]
    assert texts == ["-", "0us", "85us", "1.3ms", "250ms", "2.5s", "12m"]
