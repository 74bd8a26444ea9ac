"""Memory, descriptors and processor time of servers, sampled while they are attacked."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from tests.support.processes import Command

SAMPLE_SECONDS = 0.05
KILLED_BYTES = 3 << 29
"""A server that has grown so large is killed: no fuzzing may take the machine's memory."""


@dataclass(frozen=True, slots=True)
class Numbers:
    rss_bytes: int
    descriptors: int
    cpu_seconds: float


class Watch:
    """Of the processes that these commands are, by name. To be closed."""

    def __init__(self, servers: Mapping[str, Command]) -> None:
        self._processes = {name: psutil.Process(command.pid) for name, command in servers.items()}
        self._peaks: dict[str, int] = {}
        self._descriptors: dict[str, int] = {}
        self.killed: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="watch", daemon=True)
        self._thread.start()

    def numbers(self) -> dict[str, Numbers]:
        return {name: found for name in self._processes if (found := self._read(name)) is not None}

    def begin(self) -> None:
        """Peaks count from here."""
        self._peaks = {}
        self._descriptors = {}

    def peaks(self) -> dict[str, int]:
        """The largest memory of each since `begin`."""
        return dict(self._peaks)

    def most_descriptors(self) -> dict[str, int]:
        return dict(self._descriptors)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _read(self, name: str) -> Numbers | None:
        process = self._processes[name]
        try:
            with process.oneshot():
                times = process.cpu_times()
                return Numbers(process.memory_info().rss, process.num_fds(), times.user + times.system)
        except psutil.Error:
            return None

    def _sample(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            for name, process in self._processes.items():
                try:
                    rss, descriptors = process.memory_info().rss, process.num_fds()
                except psutil.Error:
                    continue
                self._peaks[name] = max(self._peaks.get(name, 0), rss)
                self._descriptors[name] = max(self._descriptors.get(name, 0), descriptors)
                if rss > KILLED_BYTES and name not in self.killed:
                    self.killed.append(name)
                    process.kill()


def is_quiet(watch: Watch, seconds: float, share: float, patience: float) -> dict[str, float]:
    """Servers that go on using more of a processor than this share, for longer than `patience`: with what share."""
    end_at = time.monotonic() + patience
    while True:
        before, at = watch.numbers(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - at
        busy = {
            name: used
            for name, now in watch.numbers().items()
            if name in before and (used := (now.cpu_seconds - before[name].cpu_seconds) / passed) > share
        }
        if not busy or time.monotonic() > end_at:
            return busy
