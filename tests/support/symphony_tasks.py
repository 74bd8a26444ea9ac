"""What the tests of Symphony run inside it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.support.processes import until

WAIT = 20.0
HOLD_SECONDS = 0.15
HOST = "FAKE_SYMPHONY_HOST"  # of tests/support/fake_symphony
LARGE_BYTES = 1 << 18


def meet(directory: str, count: int) -> int:
    """Wait until so many have been here at once, then how many are after a while. Who comes when the others have gone
    finds that they have met."""
    place = Path(directory) / f"{os.getpid()}-{time.monotonic_ns()}"
    place.touch()
    have_met = Path(f"{directory}-met")
    until(lambda: have_met.exists() or len(os.listdir(directory)) >= count, f"{count} tasks are here at once", WAIT)
    have_met.touch()
    time.sleep(HOLD_SECONDS)
    present = len(os.listdir(directory))
    place.unlink()
    return present


def meet_below(client: Any, directory: str, count: int) -> int:
    """The same, once the rest of them is nested."""
    place = Path(directory) / f"{os.getpid()}-above"
    place.touch()
    present: int = client.submit(meet, directory, count).result(WAIT)
    place.unlink()
    return present


def note_run(log: str, value: int) -> int:
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{value}\n")
    return value


def sleep_long(begun: str, seconds: float) -> str:
    Path(begun).touch()
    time.sleep(seconds)
    return "slept"


def note_host(value: int, log: str, release: str) -> bytes:
    """Where it runs, in one line; then it waits until the file is there. The value is a large one."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{value} {os.environ[HOST]} {os.getpid()}\n")
    until(lambda: os.path.exists(release), "the task may go on", WAIT)
    return bytes([value]) * LARGE_BYTES


def note_host_above(client: Any, log: str, release: str) -> bytes:
    """And a nested task does the same."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"0 {os.environ[HOST]} {os.getpid()}\n")
    value: bytes = client.submit(note_host, 1, log, release).result(WAIT)
    return value


def exit_once(flag: str) -> str:
    """The first time it takes the whole service instance with it."""
    if not os.path.exists(flag):
        Path(flag).touch()
        os._exit(3)
    return "the second time"
