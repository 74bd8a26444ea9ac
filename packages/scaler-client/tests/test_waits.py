"""Waits of the main thread on Windows, where Ctrl-C is only noticed between waits: played here, on any system."""

from __future__ import annotations

import concurrent.futures
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler_protocol import waits
from scaler_protocol.process.ports import free_ports
from scaler_protocol.transport import watch


class Lock:
    """A lock that no thread releases. It notes how long each wait for it may take."""

    def __init__(self, free_after: int = 10) -> None:
        self.waits: list[float] = []
        self._free_after = free_after

    def acquire(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return len(self.waits) > self._free_after


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_PLATFORM", "win32")
    monkeypatch.setattr(watch, "_new_poll", None)  # Windows has no such thing, so no socket is lent


def test_the_main_thread_waits_in_slices(windows: None) -> None:
    lock: Any = Lock()
    assert waits.acquire(lock, math.inf)
    assert lock.waits == [waits.SLICE_SECONDS] * 11


def test_a_bounded_wait_in_slices_is_bounded(windows: None) -> None:
    lock: Any = Lock()
    assert not waits.acquire(lock, 0.0)
    assert lock.waits == [0.0]


def test_other_threads_and_systems_wait_at_once(windows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    lock: Any = Lock(free_after=0)
    thread = threading.Thread(target=waits.acquire, args=(lock, math.inf))
    thread.start()
    thread.join(WAIT)
    monkeypatch.setattr(waits, "_PLATFORM", "linux")
    assert waits.acquire(lock, math.inf)
    assert lock.waits == [-1, -1]


class Interrupted(KeyboardInterrupt):
    """What Ctrl-C raises between two waits."""


@pytest.fixture
def ctrl_c(windows: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Arms it: after the first slice of the main thread's next wait."""
    is_armed = False
    acquire = waits.acquire

    def interrupted(lock: Any, seconds: float) -> bool:
        nonlocal is_armed
        if is_armed and threading.current_thread() is threading.main_thread():
            is_armed = False
            raise Interrupted
        return acquire(lock, seconds)

    def arm() -> None:
        nonlocal is_armed
        is_armed = True

    monkeypatch.setattr(waits, "acquire", interrupted)
    yield arm


def waits_of(client: Client) -> dict[str, Callable[[], object]]:
    future = client.submit(abs, -1)
    other = client.submit(abs, -2)
    return {
        "result": future.result,
        "exception": lambda: future.exception(WAIT),
        "cancel": lambda: other.cancel(WAIT),
        "map": lambda: client.map(abs, range(100)),
        "get": lambda: client.get({"a": (abs, -1)}, ["a"]),
        "wait": lambda: concurrent.futures.wait([future, other]),
        "as_completed": lambda: list(concurrent.futures.as_completed([future, other], WAIT)),
    }


@pytest.mark.parametrize("name", ("result", "exception", "cancel", "map", "get", "wait", "as_completed"))
def test_ctrl_c_ends_every_wait(name: str, client: Client, cluster: FakeCluster, ctrl_c: Callable[[], None]) -> None:
    cluster.hold()
    wait = waits_of(client)[name]
    eventually(lambda: cluster.held_count() == 2, "the calls are with the cluster")
    with cluster.stuck():
        ctrl_c()
        with pytest.raises(Interrupted):
            wait()
    cluster.release()
    assert client.submit(abs, -4).result(WAIT) == 4


def test_ctrl_c_ends_the_wait_for_a_scheduler(ctrl_c: Callable[[], None]) -> None:
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    ctrl_c()
    with pytest.raises(Interrupted):
        Client(address, timeout_seconds=WAIT, insecure=True)
