"""Everything that a configuration file names, in one terminal. When one part ends, all end; its exit code becomes that
of the whole."""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from scaler.cluster.plan import NothingToStartError, Start, plan
from scaler.cluster.process import CommandProcess, require
from scaler_protocol import waits
from scaler_protocol.process import all_secrets
from scaler_protocol.process.ports import answers

READY_SECONDS = 30.0
"""How long one part is waited for before the next is started all the same."""
END_SECONDS = 10.0
_TICK_SECONDS = 0.2

_lock = waits.Lock()


def say(name: str, line: str) -> None:
    with _lock:
        try:
            print(f"{name} | {line}", flush=True)
        except (OSError, ValueError):
            pass  # our output is not read any more; what was started must still be ended


class Part(CommandProcess):
    def __init__(self, start: Start) -> None:
        environment = {**all_secrets(), **start.environment}
        super().__init__(start.name, start.command, environment, lambda line: say(start.name, line))
        self.address = start.address

    def how_it_ended(self) -> str:
        code = self.exitcode or 0
        return f"exit code {code}" if code >= 0 else f"signal {-code}"


class Launch:
    def __init__(self, starts: Sequence[Start]) -> None:
        self._parts = [Part(start) for start in starts]
        self._started: list[Part] = []
        self._ended: queue.SimpleQueue[Part] = queue.SimpleQueue()
        self._signals: list[int] = []

    def run(self) -> int:
        """Until a part ends or a signal comes, and then until all have ended: the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        try:
            first = self._start_all() or self._wait_for_end()
            if first is None:
                say("scaler", f"received {signal.Signals(self._signals[0]).name}: ending everything")
                return 0
            say("scaler", f"{first.name} has ended with {first.how_it_ended()}: ending the others")
            code = first.exitcode or 0
            return code if code >= 0 else 128 - code
        finally:
            self._end_all()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _start_all(self) -> Part | None:
        """One after the other, each when the one before it listens. The part that has ended meanwhile, or None."""
        for part in self._parts:
            if self._signals:
                return None
            part.start()
            self._started.append(part)
            threading.Thread(target=self._watch, args=(part,), daemon=True).start()
            ended = self._until_it_listens(part)
            if ended is not None:
                return ended
        return None

    def _watch(self, part: Part) -> None:
        try:
            part.join()
        except BaseException:
            logging.getLogger("scaler").exception("the end of the %s cannot be waited for: the cluster ends", part.name)
        self._ended.put(part)

    def _until_it_listens(self, part: Part) -> Part | None:
        end_at = time.monotonic() + READY_SECONDS
        while part.address and not answers(part.address) and not self._signals and time.monotonic() < end_at:
            ended = self._next_end(0.05)
            if ended is not None:
                return ended
        return None

    def _wait_for_end(self) -> Part | None:
        while not self._signals:
            # In short waits: on some systems a signal's handler only runs between two.
            ended = self._next_end(_TICK_SECONDS)
            if ended is not None:
                return ended
        return None

    def _next_end(self, seconds: float) -> Part | None:
        try:
            return self._ended.get(timeout=seconds)
        except queue.Empty:
            return None

    def _end_all(self) -> None:
        """In the opposite order. A further signal does not wait for any of them."""
        patience = len(self._signals)
        for part in reversed(self._started):
            part.terminate()
            end_at = time.monotonic() + END_SECONDS
            while part.is_alive() and time.monotonic() < end_at and len(self._signals) <= patience:
                part.join(_TICK_SECONDS)
            if part.is_alive():
                say("scaler", f"{part.name} does not end: killing it")
                part.kill()
            part.join(END_SECONDS)


def launch(path: str) -> int:
    try:
        starts = plan(path, os.environ)
        require(*(start.command[2] for start in starts))
    except (NothingToStartError, ImportError) as error:
        print(f"scaler: error: {error}", file=sys.stderr)
        return 1
    return Launch(starts).run()
