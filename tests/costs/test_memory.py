"""Bytes that a program pays for each result it holds, beside the value itself."""

from __future__ import annotations

import gc
import pickle
import sys
import tracemalloc
from typing import Any

from scaler.client.core.records import Outcomes
from scaler.client.future import ScalerFuture
from scaler_protocol.ids import task_id_source

COUNT = 1_000
VALUE = b"v" * 1_024


class Link:
    """As much of a connection as a result needs that came in its message."""

    trusts_results = True

    def wait_for_prints(self) -> None:
        pass

    def fetch_one(self, outcomes: Outcomes, end_at: float) -> Any:
        return outcomes.payload


def held_results() -> list[ScalerFuture]:
    link: Any = Link()
    futures = [ScalerFuture(task_id, link) for task_id in task_id_source()(COUNT)]
    for future in futures:
        data = pickle.dumps(VALUE)
        future.complete(Outcomes((future.task_id,), b"", b"", (len(data),), data, bytes(24)))
    assert all(future.result(0) == VALUE for future in futures)
    return futures


def test_a_held_result() -> None:
    """Its object, its task's id, its profile. Not the bytes it came in, nor locks and lists that nobody asked for."""
    held_results()
    gc.collect()
    tracemalloc.start()
    try:
        futures = held_results()
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    each = (held_bytes - sys.getsizeof(futures)) / COUNT - sys.getsizeof(VALUE)
    assert each <= 300, f"{each:.0f} bytes beside the value where 266 were counted"
