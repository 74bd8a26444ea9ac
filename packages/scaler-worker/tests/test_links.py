"""What an agent makes of the bytes of a processor."""

from __future__ import annotations

from scaler_worker.channel import ENDED, channel_pair, pack_report
from scaler_worker.code import Code
from scaler_worker.core.events import ProcessorBroken, TasksEnded
from scaler_worker.links import ProcessorLink


def test_what_came_before_junk_counts() -> None:
    """Else a task that has succeeded would be blamed for what another one wrote."""
    agent_end, processor_end = channel_pair()
    link = ProcessorLink(1, 0, agent_end, Code())
    processor_end.sendall(pack_report(ENDED, 7, b"value", amount=2_000_000_000) + b"\xff" * 64)
    ended, broken = link.read()
    assert ended == TasksEnded(1, [(7, 0, 0, 2.0, b"value", b"")])
    assert isinstance(broken, ProcessorBroken) and "kind 255" in broken.text
    assert link.is_closed and link.read() == []
    agent_end.close()
    processor_end.close()
