"""What the workload has workers run. Each task leaves a line when it begins: its name, its process and when."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

from tests.support.tasks import note


def begin(log: str, name: str) -> None:
    """Time is that of CLOCK_MONOTONIC, which all processes and hosts of one kernel have in common."""
    note(log, f"{name} {os.getpid()} {time.monotonic():.3f}")


def step(name: str, seconds: float, log: str) -> str:
    begin(log, name)
    time.sleep(seconds)
    return name


def turned(name: str, data: bytes, seconds: float, log: str) -> bytes:
    begin(log, name)
    time.sleep(seconds)
    return data[::-1]


def joined(name: str, seconds: float, log: str, *inputs: str) -> str:
    begin(log, name)
    time.sleep(seconds)
    return name_of(name, *inputs)


def name_of(name: str, *inputs: str) -> str:
    """Short, whatever the inputs are."""
    return hashlib.blake2b("|".join((name, *inputs)).encode(), digest_size=8).hexdigest()


def parent(client: Any, name: str, seconds: float, log: str) -> str:
    begin(log, name)
    children = [client.submit(step, f"{name}.{number}", seconds, log) for number in range(2)]
    return "+".join(child.result() for child in children)
