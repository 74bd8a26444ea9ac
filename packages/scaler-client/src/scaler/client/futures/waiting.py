"""Waiting for tasks, also from within one: a task that waits for its children lends its place meanwhile. (WRK-9)"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from scaler_protocol import task_context, waits

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


class WaiterEvent(waits.Event):
    def wait(self, timeout: float | None = None) -> bool:
        if self.is_set():
            return True
        return yielding(lambda: super(WaiterEvent, self).wait(timeout))


class Waiters(list[Any]):
    """The `_waiters` of our futures. `concurrent.futures.wait` and `as_completed` put their waiter in here, while they
    inspect its futures, and later wait for its event. We replace that event by one that lends the task's place while
    it blocks, and which no interrupt leaves locked."""

    def append(self, waiter: Any) -> None:
        if type(waiter.event) is threading.Event:
            waiter.event = WaiterEvent()
        super().append(waiter)
