"""A whole worker with limits: what its tasks take is what the kernel counts."""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scaler_protocol import values
from scaler_protocol.codes import KIND_INLINE, KIND_OBJECT, MEMORY_LIMIT, STATUS_SUCCESS, STATUS_TIMED_OUT
from scaler_protocol.columns import join_u16
from scaler_protocol.running.kept import most_kept_bytes
from scaler_worker.core import recycling
from scaler_worker.memory import MemoryReader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MIB = 1 << 20
ROOM = 200 * MIB
"""Between what a new processor has and the soft limit. From there to the limit itself it is 50 MiB at least."""


def own_bytes() -> int:
    reader = MemoryReader()
    own = reader.read(os.getpid(), 1, 0.0)
    reader.close()
    return own


def limit_bytes() -> int:
    """Processors are forked from this process, and begin with no more memory than it has."""
    return int((own_bytes() + ROOM) / recycling.SOFT_SHARE)


kept: list[bytearray] = []


def take(mebibytes: int, seconds: float = 0.0) -> int:
    """Filled, so that the kernel has to find room for it."""
    taken = bytearray(b"x") * (mebibytes * MIB)
    time.sleep(seconds)
    return len(taken)


def keep(mebibytes: int) -> int:
    kept.append(bytearray(b"x") * (mebibytes * MIB))
    return os.getpid()


def keep_until(wanted_bytes: int) -> int:
    """A new processor may have less than the process that it was forked from, in which memory has come and gone."""
    kept.append(bytearray(b"x") * (wanted_bytes - own_bytes()))
    return os.getpid()


def take_in_child(mebibytes: int) -> None:
    if os.fork() == 0:
        take(mebibytes, 60.0)
        os._exit(0)
    os.wait()


def share_with_children(mebibytes: int, count: int) -> int:
    """Forked, and none of them writes to what they share."""
    shared = bytearray(b"x") * (mebibytes * MIB)
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            time.sleep(0.5)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return len(shared)


def map_shared(path: str, is_writable: bool) -> int:
    with open(path, "r+b") as file:
        access = mmap.ACCESS_WRITE if is_writable else mmap.ACCESS_READ
        memory = mmap.mmap(file.fileno(), 0, access=access)
        total = sum(memory[at] for at in range(0, len(memory), mmap.PAGESIZE))
        time.sleep(1.2)  # longer than the longest time between two readings
        return total


def process_id() -> int:
    return os.getpid()


@pytest.fixture
def worker(start_worker: Any) -> Any:
    return start_worker(memory_bytes=limit_bytes())


@pytest.mark.parametrize("function, arguments", [(take, (1800, 60.0)), (take_in_child, (1800,))])
def test_a_task_over_the_limit_ends_before_it_has_what_it_wants(
    cluster: Any, start_worker: Any, function: Any, arguments: tuple[Any, ...]
) -> None:
    limit = limit_bytes()
    start_worker(memory_bytes=limit)
    result = cluster.run(function, *arguments)
    error = result.error
    assert (result.status, error.code, error.memory_limit_bytes) == (STATUS_TIMED_OUT, MEMORY_LIMIT, limit)
    assert error.peak_memory_bytes >= limit, error
    assert cluster.run(take, 1).status == STATUS_SUCCESS, "the next processor runs the next task"


def test_below_the_limit_nothing_happens(cluster: Any, worker: Any) -> None:
    pid = cluster.run(process_id).loaded
    assert cluster.run(take, 100).loaded == 100 * MIB
    assert cluster.run(process_id).loaded == pid, "what is free again does not count"


def length(value: bytes) -> int:
    return len(value)


def take_up_to(wanted_bytes: int) -> int:
    """Has so much for longer than the longest time between two readings, and returns what is left of other memory."""
    taken = bytearray(b"x") * (wanted_bytes - own_bytes())
    time.sleep(1.5)
    return own_bytes() - len(taken)


def test_values_that_we_keep_are_given_back_before_a_task_is_ended(cluster: Any, start_worker: Any) -> None:
    limit = limit_bytes()
    size = min(most_kept_bytes(limit) - MIB, ROOM // 4)  # twice that, while it is read, is below the soft limit
    start_worker(memory_bytes=limit)
    value = cluster.storage.put(bytes([1]) * size)
    call = b"".join(values.dumps_call((values.PartReference(1),), {}))
    (first,) = cluster.dispatch_parts(
        cluster.storage.put(length), [call, value], count=1, part_counts=join_u16([2]),
        part_kinds=bytes([KIND_INLINE, KIND_OBJECT]),
    )  # fmt: skip
    (second,) = cluster.dispatch(take_up_to, (limit + size // 2,))
    results = cluster.wait_results([first, second])
    assert results[0].loaded == size
    assert results[1].status == STATUS_SUCCESS, results[1].error
    assert results[1].loaded < limit - size // 2, "what was kept has been given back"


def test_a_processor_that_keeps_memory_is_replaced_between_two_tasks(cluster: Any, start_worker: Any) -> None:
    limit = limit_bytes()
    start_worker(memory_bytes=limit)
    first = cluster.run(keep_until, int(limit * recycling.SOFT_SHARE) + 20 * MIB).loaded
    assert cluster.run(process_id).loaded != first
    assert cluster.run(take, 150).loaded == 150 * MIB, "with what the one before has kept it would be too much"


def test_many_tasks_that_each_leave_some_are_all_run(cluster: Any, start_worker: Any) -> None:
    """In slices of several, and over several processors."""
    limit = limit_bytes()
    start_worker(memory_bytes=limit)
    first = cluster.run(keep_until, int(limit * recycling.SOFT_SHARE) - 100 * MIB).loaded
    ids = cluster.dispatch(keep, *[(5,)] * 120)
    results = cluster.wait_results(ids)
    assert {result.status for result in results} == {STATUS_SUCCESS}
    assert {result.loaded for result in results} - {first}


def test_memory_that_children_share_counts_once(cluster: Any, worker: Any) -> None:
    assert cluster.run(share_with_children, 100, 4).loaded == 100 * MIB


def test_shared_memory_that_a_task_only_reads_is_not_its_own(cluster: Any, start_worker: Any) -> None:
    limit = limit_bytes()
    start_worker(memory_bytes=limit)
    path = Path("/dev/shm") / f"scaler-test-{os.getpid()}"
    try:
        with path.open("wb") as file:
            for _ in range(min(limit // MIB + 20, 1500)):
                file.write(b"\1" * MIB)
        assert cluster.run(map_shared, str(path), False).status == STATUS_SUCCESS
        result = cluster.run(map_shared, str(path), True)
        assert result.error.code == MEMORY_LIMIT, "what it can write it may have written"
    finally:
        path.unlink()


def test_a_processor_is_replaced_after_so_many_tasks(cluster: Any, start_worker: Any) -> None:
    start_worker(tasks_per_processor=3)
    pids = [result.loaded for result in cluster.wait_results(cluster.dispatch(process_id, *[()] * 30))]
    assert all(pids.count(pid) <= 3 for pid in pids) and len(set(pids)) >= 10


def test_replaced_processors_are_told(cluster: Any, start_worker: Any) -> None:
    start_worker(tasks_per_processor=1, heartbeat_seconds=0.05)
    cluster.wait_results(cluster.dispatch(process_id, *[()] * 5))
    cluster.wait_until(
        lambda: cluster.statuses and cluster.statuses[-1].recycled_count >= 5, "five replaced processors"
    )


def test_processors_with_a_limit_are_the_first_that_the_kernel_ends(cluster: Any, worker: Any) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    pid = cluster.run(process_id).loaded
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) > own or own == 1000


def test_the_reader_forgets_and_says_when_a_process_has_ended() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    reader = MemoryReader()
    assert 0 < reader.read(child, 1, 0.0) < 1 << 40
    os.kill(child, 9)
    os.waitpid(child, 0)
    with pytest.raises(OSError):
        reader.read(child, 1, 0.0)
    reader.close()
