"""What an agent makes of the bytes of a processor."""

from __future__ import annotations

import os
import socket
from unittest.mock import Mock

import pytest

from scaler_worker.channel import ENDED, channel_pair, pack_report
from scaler_worker.code import Code
from scaler_worker.core.events import ProcessorBroken, TasksEnded
from scaler_worker.links import ProcessorLink
from scaler_worker.processor.loop import ProcessorLoop


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


def test_a_channel_that_is_reset_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is killed before it has read all leaves no end of file behind, but an error."""
    end = Mock(spec=socket.socket)
    end.fileno.return_value = -1
    end.recv.side_effect = ConnectionResetError
    loop = ProcessorLoop(end, Mock(), 0, Mock())
    loop._running = 1  # it reads on in the middle of a task
    monkeypatch.setattr(os, "_exit", Mock(side_effect=SystemExit))
    with pytest.raises(SystemExit):
        loop._receive()
    os._exit.assert_called_once_with(0)  # type: ignore[attr-defined]
