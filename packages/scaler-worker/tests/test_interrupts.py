"""Signals to a processor at awkward moments: nothing that they say is lost, and nothing is harmed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.worker_tasks import begin, hold

from scaler_protocol.codes import ROLE_WORKER, STATUS_CANCELED
from scaler_protocol.errors import StorageUnavailable
from scaler_protocol.ids import new_object_id
from scaler_protocol.objects import ObjectClient
from scaler_protocol.objects.link import Link
from scaler_protocol.process.ports import free_ports
from scaler_protocol.transport import BlockingDriver
from scaler_protocol.waits import Event
from scaler_worker.channel import GAVE_BACK, RECEIVE_BYTES, ReportReader, SignalPage, channel_pair
from scaler_worker.processor import ProcessorLoop
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.interrupts import can_interrupt
from scaler_worker.zygote import SIGNAL_NUMBER

#: After this the processor is killed instead, which the tests notice.
GRACE_SECONDS = 20.0

ONCE_IMPORTED = """
import signal, socket, sys
if hasattr(sys, "has_been_imported"):
    raise ImportError("cannot load module more than once per process")
sys.has_been_imported = True
reader, writer = socket.socketpair()
writer.setblocking(False)
signal.set_wakeup_fd(writer.fileno())
open({running_path!r}, "w").close()
reader.recv(1)  # until a signal has come
signal.set_wakeup_fd(-1)
"""


def drop_and_wait(path: str) -> None:
    class Dropped:
        def __del__(self) -> None:
            hold(path)

    Dropped()
    time.sleep(300)


def import_and_wait(_path: str) -> None:
    import once_imported  # type: ignore[import-not-found]

    time.sleep(300)
    assert once_imported


def import_again() -> str:
    import once_imported

    return str(once_imported.__name__)


@pytest.fixture
def cancel(cluster: Any) -> Callable[[Any], None]:
    """Ends a task by the interrupt alone."""

    def cancel(task: Any) -> None:
        cluster.cancel(task, grace_seconds=GRACE_SECONDS)
        assert cluster.wait_results([task])[0].status == STATUS_CANCELED

    return cancel


def test_an_interrupt_that_is_lost_in_a_destructor_comes_again(
    cluster: Any, start_worker: Any, cancel: Any, running_path: str
) -> None:
    start_worker(max_processors=1)
    processor_id = cluster.run(os.getpid).loaded
    cancel(begin(cluster, drop_and_wait, running_path))
    assert cluster.run(os.getpid).loaded == processor_id


def test_an_interrupt_does_not_cut_an_import_off(
    cluster: Any,
    start_worker: Any,
    cancel: Any,
    running_path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Extension modules such as numpy's refuse to be imported again."""
    (tmp_path / "once_imported.py").write_text(ONCE_IMPORTED.format(running_path=running_path))
    monkeypatch.syspath_prepend(tmp_path)
    start_worker(max_processors=1)
    processor_id = cluster.run(os.getpid).loaded
    cancel(begin(cluster, import_and_wait, running_path))
    assert cluster.run(import_again).loaded == "once_imported"
    assert cluster.run(os.getpid).loaded == processor_id


def test_a_connection_to_the_storage_is_interrupted_only_where_it_waits() -> None:
    sleeps = (Link.sleep, BlockingDriver.sleep)
    functions = {one.__code__: one for one in (Link.finish, Link._await, BlockingDriver.lead, Event.set, *sleeps)}
    found: dict[Any, bool] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in functions:
            found[functions[frame.f_code]] = can_interrupt(frame)

    client = ObjectClient(f"tcp://127.0.0.1:{free_ports(1)}", ROLE_WORKER, "test", timeout_seconds=0.1)
    sys.setprofile(note)
    try:
        with pytest.raises(StorageUnavailable):
            client.get(new_object_id())
    finally:
        sys.setprofile(None)
        client.close()
    assert found.pop(BlockingDriver.sleep, True) and found.pop(Link.sleep, True)
    assert found and not any(found.values())


class PageOfTwoSignals(SignalPage):
    """The second comes while the first is attended to."""

    def read(self, slot: int) -> tuple[int, int]:
        meaning = super().read(slot)
        if meaning == (0, 1):
            self.write(slot, 0, 2)
            signal.raise_signal(SIGNAL_NUMBER)
        return meaning


def test_two_reclaims_at_nearly_the_same_time_are_both_answered() -> None:
    agent_end, processor_end = channel_pair()
    page = PageOfTwoSignals(1)
    loop = ProcessorLoop(processor_end, page, 0, Housekeeping(60.0, 1 << 30, 0.0))
    before = signal.signal(SIGNAL_NUMBER, loop._on_signal)
    try:
        loop._running = 7
        page.write(0, 0, 1)
        signal.raise_signal(SIGNAL_NUMBER)
    finally:
        signal.signal(SIGNAL_NUMBER, before)
    with agent_end, processor_end:
        reports = ReportReader().feed(agent_end.recv(RECEIVE_BYTES))
    assert [(kind, number, serial) for kind, _, _, number, serial, _, _ in reports] == [
        (GAVE_BACK, 7, 1),
        (GAVE_BACK, 7, 2),
    ]
