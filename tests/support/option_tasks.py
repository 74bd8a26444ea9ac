"""Tasks that show what an option of a worker or of the scheduler does."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from types import CodeType
from typing import Any

import psutil

from tests.support.tasks import note

_pinned: list[Any] = []
_made: list[CodeType] = []


def full_collections() -> int:
    return gc.get_stats()[2]["collections"]


def fragment(count: int) -> int:
    """Leave so many freed blocks below one that stays in use: the C library keeps them until it is told to trim."""
    blocks = [bytearray(2000) for _ in range(count)]
    _pinned.append(blocks[-1])
    del blocks
    return resident_bytes()


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def process_id() -> int:
    return os.getpid()


def wait_for_suspension(client: Any, child_log: str) -> tuple[bool, bool]:
    """Was this process stopped while its child ran, and is it running again?"""
    future = client.submit(sees_stopped, os.getpid())
    return future.result(), psutil.Process().status() != psutil.STATUS_STOPPED


def sees_stopped(parent_id: int) -> bool:
    parent = psutil.Process(parent_id)
    end_at = time.monotonic() + 10
    while time.monotonic() < end_at:
        if parent.status() == psutil.STATUS_STOPPED:
            return True
        threading.Event().wait(0.01)
    return False


def together(log: str, count: int) -> int:
    """Ends when so many have begun: each needs a process of its own."""
    note(log, str(os.getpid()))
    end_at = time.monotonic() + 60
    while time.monotonic() < end_at:
        with open(log) as file:
            if len(file.readlines()) >= count:
                return os.getpid()
        threading.Event().wait(0.02)
    raise TimeoutError(f"{count} tasks never ran together")


def warn(text: str) -> int:
    logging.warning(text)
    return os.getpid()


def made_so_far(log: str, code: CodeType) -> int:
    """Notes code that this process has not run before: its function was made anew from its bytes.

    Returns how often that has happened in all processes."""
    if not any(one is code for one in _made):
        _made.append(code)
        note(log, "made")
    with open(log) as file:
        return len(file.readlines())


def preloaded(log: str, times: int = 1) -> None:
    for _ in range(times):
        note(log, f"preloaded in {os.getpid()}")


def not_callable_here() -> None:
    raise AssertionError("never called")


NOT_CALLABLE = 5
