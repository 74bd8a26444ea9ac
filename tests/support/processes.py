"""Commands as real processes, and the proof that nothing of them is left.

Every process that a test starts carries a mark in its environment, which its descendants inherit however they are
started and whoever adopts them. So `Stage` finds them all in the process table, also the ones that nobody told of.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil

from scaler_protocol.process.ports import free_ports, is_free
from tests.architecture.sources import ROOT

WAIT = 30.0
"""When a wait counts as stuck. The machine that runs the tests may be busy with others."""

KILLED_SECONDS = 5.0
"""For what a killed process leaves: it is no news any more that something is."""

MARK = "SCALER_TEST_STAGE"


class Command:
    """A process whose two streams are kept as text, line by line."""

    def __init__(self, arguments: list[str], environment: dict[str, str], directory: Path) -> None:
        self.arguments = arguments
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=directory,
            # A Ctrl-C for the tests is not one for what they test, and `interrupt_group` reaches only this.
            start_new_session=True,
        )
        self.lines: list[str] = []
        self.error_lines: list[str] = []
        self._said = threading.Condition()
        streams = ((self.process.stdout, self.lines), (self.process.stderr, self.error_lines))
        self._readers = [threading.Thread(target=self._read, args=one, daemon=True) for one in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._said:
                    lines.append(line.rstrip("\n"))
                    self._said.notify_all()
        with self._said:
            self._said.notify_all()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        """All it has said, errors last."""
        return "\n".join([*self.lines, *self.error_lines])

    def wait_for(self, pattern: str, count: int = 1) -> None:
        """Until so many lines on either stream match; fails at once when the process ends without."""

        def has_said() -> bool:
            return sum(bool(re.search(pattern, line)) for line in [*self.lines, *self.error_lines]) >= count

        end_at = time.monotonic() + WAIT
        with self._said:
            while not has_said():
                left = end_at - time.monotonic()
                is_over = not any(reader.is_alive() for reader in self._readers)
                assert left > 0 and not is_over, f"waited in vain for {pattern!r} from {self.arguments}:\n{self.text}"
                self._said.wait(min(left, 0.2))

    def wait(self, seconds: float = WAIT) -> int:
        """Its exit code, and everything it said has been read."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.arguments} did not end within {seconds:g} s:\n{self.text}") from None
        for reader in self._readers:
            reader.join(seconds)
        return code

    def send(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait()


class Stage:
    """Where one group of tests plays: it starts commands, ends them all, and then nothing may be left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._mark = secrets.token_hex(8)
        self._temporary = directory / "temporary"
        self._temporary.mkdir()
        self._commands: list[Command] = []
        self._ports: list[int] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        """All waits together are bounded by twice WAIT, however many commands are stuck."""
        ends_at = time.monotonic() + WAIT
        commands = reversed(self._commands)  # whoever was started last depends on the others
        stuck = [command for command in commands if not _has_ended(command, ends_at)]
        for command in stuck:
            command.send(signal.SIGKILL)
        leftovers = [f"command {command.arguments}, which had to be killed" for command in stuck]
        leftovers += self._leftovers(KILLED_SECONDS if stuck else WAIT)
        for process in self.processes():
            process.kill()
        if kind is None:
            assert not leftovers, f"left over: {leftovers}"

    # ------------------------------------------------------------ starting

    def environment(self) -> dict[str, str]:
        """Ours, with the mark; temporary files come where this stage looks for what is left of them."""
        path = os.pathsep.join([str(ROOT), *(entry or os.getcwd() for entry in sys.path)])
        return {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            MARK: self._mark,
            "TMPDIR": str(self._temporary),
        }

    def start(self, module: str, *arguments: str) -> Command:
        return self._start([sys.executable, "-m", module, *arguments])

    def start_installed(self, line: str) -> Command:
        """A command line as a user types it, run by the command that installing has made."""
        name, *arguments = shlex.split(line)
        return self._start([str(Path(sys.executable).parent / name), *arguments])

    def start_file(self, path: Path, *arguments: str) -> Command:
        return self._start([sys.executable, str(path), *arguments])

    def start_program_file(self, program: Path, *arguments: str) -> Command:
        return self._start([str(program), *arguments])

    def start_program(self, text: str, *arguments: str) -> Command:
        return self._start([sys.executable, "-c", text, *arguments])

    def _start(self, arguments: list[str]) -> Command:
        command = Command(arguments, self.environment(), self.directory)
        self.take_in(command)
        return command

    def take_in(self, command: Command) -> None:
        """A command that was started elsewhere, with our environment: it is ended with the others."""
        self._commands.append(command)

    def ports(self) -> int:
        """The first of three ports in a row that are free now."""
        port = free_ports(3)
        self._ports += [port, port + 1, port + 2]
        return port

    # ------------------------------------------------------------ what is there

    def processes(self) -> list[psutil.Process]:
        """Every living process with our mark, whoever its parent is now. This one has it not."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_alive = process.status() != psutil.STATUS_ZOMBIE
            return bool(is_alive and process.environ().get(MARK) == self._mark)
        except psutil.Error:
            return False

    def family(self, command: Command) -> list[psutil.Process]:
        parent = psutil.Process(command.pid)
        return [parent, *parent.children(recursive=True)]

    def _leftovers(self, seconds: float) -> list[str]:
        """What has not gone within the bound."""
        found: list[str] = []

        def is_clean() -> bool:
            found[:] = [f"process {process}" for process in self.processes()]
            found.extend(f"port {port}" for port in self._ports if not is_free(port))
            found.extend(f"file {path}" for path in self._temporary.rglob("*"))
            return not found

        until(is_clean, "nothing is left", seconds, is_failure=False)
        return found


def _has_ended(command: Command, ends_at: float) -> bool:
    """By itself or by SIGTERM, also if it was stopped."""
    command.send(signal.SIGTERM)
    command.send(signal.SIGCONT)
    try:
        command.process.wait(max(0.0, ends_at - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def assert_gone(processes: list[psutil.Process], seconds: float = WAIT) -> None:
    """Every one has ended within the bound. What is only not reaped yet has ended."""
    _, left = psutil.wait_procs(processes, timeout=seconds)
    alive = [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert not alive, f"still running after {seconds:g} s: {alive}"


def until(is_true: Callable[[], bool], what: str, seconds: float = WAIT, *, is_failure: bool = True) -> float:
    """For what another process does and no event tells of; how long it took."""
    begun_at = time.monotonic()
    pause = threading.Event()
    while not is_true():
        if time.monotonic() - begun_at > seconds:
            assert not is_failure, f"waited {seconds:g} s in vain until {what}"
            break
        pause.wait(0.01)
    return time.monotonic() - begun_at
