"""What an idle processor does for its memory."""

from __future__ import annotations

import threading

import pytest

from scaler_worker.channel import SignalPage, channel_pair
from scaler_worker.processor import loop as loop_module
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.loop import ProcessorLoop

WAIT = 20.0


def test_an_idle_processor_collects_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may refer to a client that a task has left when garbage is collected first."""
    monkeypatch.setattr(loop_module, "IDLE_COLLECT_SECONDS", (0.01, 0.2, 0.4))
    agent_end, processor_end = channel_pair()
    collected: list[float] = []

    class Counting(Housekeeping):
        def collect(self, now: float) -> None:
            super().collect(now)
            collected.append(now)
            if len(collected) == len(loop_module.IDLE_COLLECT_SECONDS):
                agent_end.send(b"an order")

    loop = ProcessorLoop(processor_end, SignalPage(1), 0, Counting(60.0, 1 << 30, 0.0))
    with agent_end, processor_end:
        late = threading.Timer(WAIT, agent_end.send, (b"an order",))
        late.start()
        loop._tidy_up()
        late.cancel()
    assert len(collected) == 3 and collected == sorted(collected)
