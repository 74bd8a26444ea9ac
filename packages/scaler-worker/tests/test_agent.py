"""A whole worker, agent, zygote and processors, against a scheduler that only does what the test says: calls."""

from __future__ import annotations

import io
import mmap
import os
import sys
import time
from struct import unpack
from typing import Any

import numpy
from tests.support.worker_tasks import double, dumped

from scaler_protocol import values
from scaler_protocol.codes import (
    CALL_RAW,
    CALL_SEPARATE,
    FLAG_PROFILING,
    FLAG_STREAM_OUTPUT,
    KIND_INLINE,
    KIND_OBJECT,
    KIND_TASK,
)
from scaler_protocol.columns import join_ids, join_u16, join_u32
from scaler_protocol.ids import Salt, result_object_id
from scaler_protocol.messages import Dispatch, TaskHeader
from scaler_protocol.running.output import CHARACTERS_PER_SECOND
from scaler_protocol.values import PartReference

# ---------------------------------------------------------------- calls


def test_a_task_runs(cluster: Any, worker: Any) -> None:
    assert cluster.run(double, 21).loaded == 42


def test_many_tiny_tasks_run_each_once_and_in_order(cluster: Any, worker: Any) -> None:
    ids = cluster.dispatch(double, *[(number,) for number in range(3000)])
    results = cluster.wait_results(ids, "3000 results")
    assert [result.loaded for result in results] == [2 * number for number in range(3000)]
    assert list(cluster.results) == ids
    assert max(cluster.credits) > cluster.credits[0], "the queue of tiny tasks grows"


def test_keyword_arguments_builtins_and_lambdas(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda *a, k=0, **kw: (a, k, kw))
    part = b"".join(values.dumps_call((1,), {"k": 2, "z": 3}))
    (task,) = cluster.dispatch_parts(function, [part])
    assert cluster.wait_results([task])[0].loaded == ((1,), 2, {"z": 3})
    assert cluster.run(max, 3, 9, 4).loaded == 9


def test_separate_parts_and_keywords(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda a, b, *, c: (a, b, c))
    parts = [dumped(1), dumped("two"), dumped([3])]
    (task,) = cluster.dispatch_parts(
        function, parts, count=1, part_counts=join_u16([3]), call_format=CALL_SEPARATE, keywords=("c",)
    )  # fmt: skip
    assert cluster.wait_results([task])[0].loaded == (1, "two", [3])


def test_raw_calls_take_and_give_bytes(cluster: Any, worker: Any) -> None:
    function = cluster.storage.put(lambda a, b: b + a)
    (task,) = cluster.dispatch_parts(
        function, [b"\x00world", b"hello"], count=1, part_counts=join_u16([2]), call_format=CALL_RAW
    )  # fmt: skip
    assert cluster.wait_results([task])[0].value == b"hello\x00world"


def test_object_parts_are_fetched_and_arrays_are_writable(cluster: Any, worker: Any) -> None:
    def add_one(array: numpy.ndarray, scale: int) -> float:
        array += 1
        return float(array.sum()) * scale

    array_id = cluster.storage.put(numpy.zeros(100_000))
    call = b"".join(values.dumps_call((PartReference(1),), {"scale": 2}))
    (task,) = cluster.dispatch_parts(
        cluster.storage.put(add_one), [call, array_id], count=1, part_counts=join_u16([2]),
        part_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
    )  # fmt: skip
    assert cluster.wait_results([task])[0].loaded == 200_000.0


def test_results_of_earlier_tasks_are_parts(cluster: Any, worker: Any) -> None:
    earlier = cluster.new_ids(2)
    call = b"".join(values.dumps_call((PartReference(1), PartReference(2)), {}))
    stored = cluster.storage.put("stored")
    batch = Dispatch(
        TaskHeader(client=cluster.client_id),
        cluster.storage.put(lambda a, b: (a, b)),
        join_ids(cluster.new_ids(1)),
        call + b"".join(earlier) + dumped("inline") + stored,
        join_u32([len(call), 16, 16]),
        part_counts=join_u16([3]),
        part_kinds=bytes([KIND_INLINE, KIND_TASK, KIND_TASK]),
        input_ids=join_ids(earlier),
        input_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
        input_sizes=join_u32([len(dumped("inline")), 16]),
    )
    cluster.send(batch)
    cluster.wait_until(lambda: cluster.results, "the result")
    (result,) = cluster.results.values()
    assert result.loaded == ("inline", "stored")


def test_a_custom_serializer_reads_and_writes(cluster: Any, worker: Any) -> None:
    class Reversing:
        @staticmethod
        def serialize(value: Any) -> bytes:
            return dumped(value)[::-1]

        @staticmethod
        def deserialize(data: bytes) -> Any:
            assert type(data) is bytes
            return values.loads(data[::-1])

    serializer = cluster.storage.put(Reversing())
    part = b"".join(values.dumps_call((4,), {}))[::-1]
    (task,) = cluster.dispatch_parts(cluster.storage.put(double), [part], serializer=serializer)
    (result,) = cluster.wait_results([task])
    assert values.loads(result.value[::-1]) == 8


def test_a_large_result_becomes_an_object_of_the_client(cluster: Any, worker: Any) -> None:
    salt = Salt(b"s" * 16)
    (task,) = cluster.dispatch(double, (b"x" * 100_000,), result_salt=salt)
    (result,) = cluster.wait_results([task])
    object_id = result_object_id(task, 1, salt, cluster.client_id)
    assert (result.kind, result.value) == (KIND_OBJECT, object_id)
    assert values.loads(cluster.storage.objects[object_id]) == b"x" * 200_000
    assert cluster.storage.owners[object_id] == cluster.client_id


def test_each_processor_draws_its_own_random_numbers(cluster: Any, start_worker: Any) -> None:
    def draw() -> tuple[int, float]:
        import random

        return os.getpid(), random.random()

    start_worker()
    first = cluster.run(draw).loaded
    cluster.run(os._exit, 0)
    second = cluster.run(draw).loaded
    assert first[0] != second[0] and first[1] != second[1]


# ---------------------------------------------------------------- output, profile


def test_what_a_task_prints_is_streamed(cluster: Any, worker: Any) -> None:
    def speak() -> None:
        print("one")
        print("two", file=sys.stderr)
        print("three", end="")

    cluster.run(speak, flags=FLAG_STREAM_OUTPUT)
    assert [(log.stream, log.text) for log in cluster.logs] == [(1, "one\n"), (2, "two\n"), (1, "three")]


def test_streamed_output_is_bounded(cluster: Any, worker: Any) -> None:
    def flood() -> None:
        sys.stdout._stream = io.StringIO()  # type: ignore[attr-defined]  # our own log need not have it
        for _ in range(100_000):
            print("x" * 100)

    begun_at = time.monotonic()
    cluster.run(flood, flags=FLAG_STREAM_OUTPUT)
    most_seconds = time.monotonic() - begun_at + 2  # those that have only begun
    assert sum(len(log.text) for log in cluster.logs) < most_seconds * 1.1 * CHARACTERS_PER_SECOND


def test_profiles(cluster: Any, worker: Any) -> None:
    def work() -> None:
        # Fresh pages of the system. The heap is inherited from this process, and may have a hole of this size.
        with mmap.mmap(-1, 50_000_000) as data:
            for page in range(0, len(data), mmap.PAGESIZE):
                data[page] = 1
            time.sleep(0.05)

    result = cluster.run(work, flags=FLAG_PROFILING)
    duration_ns, cpu_ns, peak_bytes = unpack("<QQQ", result.profile)
    assert duration_ns >= 50_000_000 and 0 < cpu_ns < duration_ns and 40_000_000 < peak_bytes < 80_000_000


def test_memory_that_was_freed_before_a_task_hides_no_peak(cluster: Any, worker: Any) -> None:
    """As after a large argument of another task: the peak of that stands when this one begins."""

    def fill() -> Any:
        memory = mmap.mmap(-1, 100_000_000)
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1
        return memory

    def keep() -> None:
        sys.kept = fill()  # type: ignore[attr-defined]

    def free() -> None:
        sys.kept.close()  # type: ignore[attr-defined]

    def work() -> None:
        fill().close()

    def peak_bytes(function: Any) -> int:
        return int(unpack("<QQQ", cluster.run(function, flags=FLAG_PROFILING).profile)[2])

    assert peak_bytes(int) < 20_000_000
    cluster.run(keep)
    assert peak_bytes(int) < 20_000_000
    cluster.run(free)
    assert 80_000_000 < peak_bytes(work) < 140_000_000
