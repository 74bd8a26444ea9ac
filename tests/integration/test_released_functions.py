"""Ten thousand functions and objects that are used once leave nothing behind. (OWN-2, OWN-13, WRK-22)"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError
from tests.support import api_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

FUNCTIONS = 10_000
KILOBYTES = (10, 20)
"""The smaller ones go along with their calls, the larger through the storage."""
IN_FLIGHT = 500
MOST_BYTES = 12 * 2**20
"""The functions used last stay: 4 MiB each of two kinds. All that are stored would be 100 MiB."""


class Counter:
    def __init__(self, number: int) -> None:
        self.number = number
        self.data = data_of(number)

    def step(self, value: int) -> int:
        return self.number + value


def data_of(number: int) -> bytes:
    return b"%010d" % number * (KILOBYTES[number % 2] * 102)


def closure(number: int) -> Callable[[int], int]:
    data = data_of(number)
    return lambda value: int(data[:10]) + value


def function(number: int) -> Callable[[int], Any]:
    if number % 3 == 0:
        return partial(api_tasks.number_of, data_of(number))
    return closure(number) if number % 3 == 1 else Counter(number).step


def memory_of(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


def test_ten_thousand_functions(stage: Stage) -> None:
    cluster = RealCluster(stage, 2)
    with Client(cluster.address) as client:
        use(client, range(FUNCTIONS, FUNCTIONS + 1_000))
        before, begun_at = memory_of(psutil.Process()), time.monotonic()
        use(client, range(FUNCTIONS))
        seconds = time.monotonic() - begun_at
        gc.collect()
        until(lambda: cluster.storage_status().memory_bytes < MOST_BYTES, "the functions are released")
        assert cluster.storage_status().object_count < 1_024
        assert memory_of(psutil.Process()) - before < 3 * MOST_BYTES
        assert seconds < WAIT * 3
    cluster.wait_until_empty()


def use(client: Client, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, IN_FLIGHT):
        part = range(begin, min(begin + IN_FLIGHT, numbers.stop))
        futures = [client.submit(function(number), 1) for number in part]
        assert [future.result(WAIT) for future in futures] == [number + 1 for number in part]


def test_a_thousand_references(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    with Client(cluster.address) as client:
        for number in range(1_000):
            reference = client.send_object(data_of(number) * 10)
            future = client.submit(len, reference)
            if number % 2:
                reference.release()
        assert future.result(WAIT) == len(data_of(999)) * 10
        del reference
        until(lambda: cluster.storage_status().memory_bytes < 2**20, "the objects are released")
    cluster.wait_until_empty()


def test_functions_that_go_along_fail_like_others(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their errors have no frames of ours, and what cannot be read is told as for a function that was stored."""
    cluster = RealCluster(stage, 1)
    with Client(cluster.address) as client:
        failing = client.submit(partial(api_tasks.fail_with, "as asked"))
        with pytest.raises(ValueError, match="as asked") as raised:
            failing.result(WAIT)
        assert "fail_with" in str(raised.value.__cause__) and "along.py" not in str(raised.value.__cause__)
        with pytest.raises(DeserializeObjectError, match=r"function.*only_here"):
            client.submit(partial(_of_a_module_that_workers_lack(tmp_path, monkeypatch), 1)).result(WAIT)
        assert client.submit(nested(3), client, 3).result(WAIT) == 6


def nested(offset: int) -> Callable[[Client, int], int]:
    def step(client: Client, depth: int) -> int:
        return offset if depth == 0 else 1 + int(client.submit(step, client, depth - 1).result())

    return step


def _of_a_module_that_workers_lack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    own = folder / "own"  # workers run in the folder itself
    own.mkdir()
    (own / "only_here.py").write_text("def function(x): return x\n")
    monkeypatch.syspath_prepend(own)
    found: Callable[..., Any] = importlib.import_module("only_here").function
    return found
