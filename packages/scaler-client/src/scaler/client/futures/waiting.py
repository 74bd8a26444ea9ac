"""Waiting for tasks, also from within one: a task that waits for its children lends its place meanwhile. (WRK-9)"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from scaler_protocol import task_context

T = TypeVar("T")


def yielding(wait: Callable[[], T]) -> T:
    """Do this wait; when a task's thread does it, the agent may run other tasks in its place until it is over."""
    context = task_context.current()
    if context is None:
        return wait()
    context.block()
    try:
        return wait()
    finally:
        context.unblock()


class YieldingEvent(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return True
        return yielding(lambda: super(YieldingEvent, self).wait(timeout))


class Waiters(list[Any]):
    """The `_waiters` of our futures. concurrent.futures.wait and as_completed put their waiter in here, while they
    hold the locks of all its futures, and wait for its event when they hold none: so the event is what must yield."""

    def append(self, waiter: Any) -> None:
        if type(waiter.event) is threading.Event and task_context.current() is not None:
            waiter.event = YieldingEvent()
        super().append(waiter)
