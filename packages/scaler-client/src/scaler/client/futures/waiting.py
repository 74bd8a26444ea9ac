"""Waiting for tasks, also from within one: a task that waits for its children lends its place meanwhile. (WRK-9)"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.client.futures.condition import FutureCondition
from scaler_protocol import task_context, waits

if TYPE_CHECKING:
    from scaler.client.core.records import Outcomes

T = TypeVar("T")


program_exits = waits.Event()
"""The exit hooks of the program run, and will disconnect its clients."""


def stand_still_at_exit() -> None:
    """Does not return in a daemon thread while the program exits: the interpreter stops these threads where they are.
    An error that says that the client is disconnected would be the program's last words, as a traceback of that thread.
    """
    if program_exits.is_set():
        thread = threading.current_thread()
        while thread.daemon and thread is not threading.main_thread():
            waits.Event().wait()


def yielding(wait: Callable[[], T]) -> T:
    """Do this wait; when a task's thread does it, the agent may run other tasks in its place until it is over."""
    context = task_context.current()
    if context is None:
        found = wait()
        stand_still_at_exit()
        return found
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


class Audience:
    """The threads, callbacks and calls that wait for a future before it has ended."""

    __slots__ = ("borrowers", "callbacks", "condition", "failure", "is_lent", "untold", "waiters")

    def __init__(self) -> None:
        self.condition = FutureCondition()
        self.waiters = Waiters()
        self.callbacks: list[Any] = []
        #: the calls that take this one's value as an argument, told when it has ended
        self.borrowers: tuple[Callable[[Outcomes | None], None], ...] = ()
        #: calls use its bytes, so its object is released with this future and not before
        self.is_lent = False
        #: the waiters that were there when it ended, until they are told; None: it runs, or all are told
        self.untold: tuple[Any, ...] | None = None
        #: how a task ended that did not succeed, for calls that take its value
        self.failure: Outcomes | None = None
