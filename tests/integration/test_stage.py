"""The stage of the tests with real processes ends within a bound, and says what did not."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.processes import Stage

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def test_commands_that_do_not_end_are_waited_for_together_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wait for each of them would be minutes after a test that has left many."""
    begun_at = time.monotonic()
    with pytest.raises(AssertionError, match="which had to be killed"), Stage(tmp_path) as stage:
        commands = [stage.start_program(DEAF) for _ in range(8)]
        for command in commands:
            command.wait_for("deaf")
        monkeypatch.setattr(processes, "WAIT", 3.0)
        monkeypatch.setattr(processes, "KILLED_SECONDS", 1.0)
        begun_at = time.monotonic()
    assert time.monotonic() - begun_at < 16.0, "8 commands were waited for one after the other"
    assert [command.process.wait(30.0) for command in commands] == [-signal.SIGKILL] * 8


def test_a_stopped_command_ends(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        command = stage.start_program("import time; print('here', flush=True); time.sleep(600)")
        command.wait_for("here")
        command.send(signal.SIGSTOP)
    assert command.process.returncode == -signal.SIGTERM
