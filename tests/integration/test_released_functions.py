"""Ten thousand functions and objects that are used once leave nothing behind. (OWN-2, OWN-13, WRK-22)"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil

from scaler import Client
from tests.support import api_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

FUNCTIONS = 10_000
KILOBYTES = 10
IN_FLIGHT = 500
MOST_BYTES = 12 * 2**20
"""The functions used last stay: 4 MiB each of two kinds. All 10,000 would be 100 MiB."""


class Counter:
    def __init__(self, number: int) -> None:
        self.number = number
        self.data = data_of(number)

    def step(self, value: int) -> int:
        return self.number + value


def data_of(number: int) -> bytes:
    return b"%010d" % number * (KILOBYTES * 102)


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
