"""An engine's own interpreter, seen from outside: questions with a deadline, and what its processes cost."""

import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
STOP_SECONDS = 30.0
REST_SECONDS = 0.1
"""An engine rests whose processes took at most `REST_CPU_SECONDS` of CPU in this time: a tick of the system's clock."""
REST_CPU_SECONDS = 0.01
SETTLE_SECONDS = 2.0
"""The longest wait for it."""


class EngineFailure(Exception):
    """Why there is no figure: crashed, or out of time."""


class EngineProcess:
    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self.scheduler_id: int | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed in close()
        self._pending = b""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what pip installs is compiled: no start compiles it again
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.driver", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )

    def ask(self, limit_seconds: float, **command: Any) -> dict[str, Any]:
        """The driver's answer. EngineFailure when it dies or takes too long: then this engine is closed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EngineFailure(self._last_words()) from None
        answer: dict[str, Any] = json.loads(self._read_line(time.monotonic() + limit_seconds, limit_seconds))
        return answer

    def _read_line(self, end_at: float, limit_seconds: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            if not select.select([descriptor], [], [], max(0.0, end_at - time.monotonic()))[0]:
                raise EngineFailure(f"no answer within {limit_seconds:g} s")
            piece = os.read(descriptor, 65536)
            if not piece:
                raise EngineFailure(self._last_words())
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"its driver ended: {lines[-1][:300] if lines else 'without a word'}"

    # -------------------------------------------------------------------------------------------------- what it costs

    def processes(self) -> list[psutil.Process]:
        try:
            driver = psutil.Process(self._process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def scheduler(self) -> int | None:
        """The process that schedules, by the command it was started with, where there is one."""
        for process in self.processes():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if any(word.endswith("scaler_scheduler") for word in words):
                return int(process.pid)
        return None

    def cpu_seconds(self) -> dict[int, float]:
        """CPU time so far of each of its processes."""
        found = {}
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            found[process.pid] = times.user + times.system
        return found

    def settle(self) -> None:
        """Wait until the engine rests, so that what one workload leaves to do is not charged to the next: an engine
        that frees a large object at once would be slower in the next row than one that keeps it until it ends."""
        end_at = time.monotonic() + SETTLE_SECONDS
        before = sum(self.cpu_seconds().values())
        while time.monotonic() < end_at:
            time.sleep(REST_SECONDS)
            after = sum(self.cpu_seconds().values())
            if after - before <= REST_CPU_SECONDS:
                return
            before = after

    def memory_bytes(self, with_client: bool) -> int:
        """Proportional set size where the system tells it, so that shared pages count once."""
        total = 0
        for process in self.processes()[0 if with_client else 1 :]:
            try:
                memory = process.memory_full_info()
            except psutil.Error:
                continue
            total += getattr(memory, "pss", memory.uss)
        return total

    # --------------------------------------------------------------------------------------------------------- ending

    def close(self) -> None:
        """Whatever state it is in, afterwards none of its processes is left."""
        family = self.processes()
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        psutil.wait_procs(family, timeout=1.0)
        left = [process for process in family if process.is_running()]
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        psutil.wait_procs(left, timeout=STOP_SECONDS)
        self._process.stdout.close()
        self._process.wait(timeout=STOP_SECONDS)
        self._errors.close()
