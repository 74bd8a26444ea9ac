"""A client in a task, and the interrupts of a processor: the turns of its session are whole."""

from __future__ import annotations

import concurrent.futures
import sys
from types import FrameType
from typing import Any

import pytest

from scaler import Client
from scaler_protocol.transport import BlockingDriver
from scaler_worker.processor.interrupts import can_interrupt
from tests.support.fake_cluster import FakeCluster
from tests.support.processes import WAIT


def test_a_client_of_a_task_is_interrupted_only_where_it_waits() -> None:
    """The turns of its session are the driver's alone: unlike those of a connection to the storage, no frame of a link
    is below them."""
    functions = {one.__code__: one for one in (BlockingDriver.lead, BlockingDriver._turn, BlockingDriver.serve_until)}
    functions |= {BlockingDriver.sleep.__code__: BlockingDriver.sleep}
    found: dict[Any, bool] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in functions:
            found[functions[frame.f_code]] = can_interrupt(frame)

    cluster = FakeCluster()
    try:
        with Client(cluster.address) as client:
            client.submit(abs, -1).result(WAIT)
            cluster.hold()  # so that it waits at the socket
            sys.setprofile(note)
            try:
                with pytest.raises(concurrent.futures.TimeoutError):
                    client.submit(abs, -1).result(0.1)
            finally:
                sys.setprofile(None)
    finally:
        cluster.stop()
    assert found.pop(BlockingDriver.sleep), "it may be interrupted where it waits"
    assert len(found) == 3 and not any(found.values())
