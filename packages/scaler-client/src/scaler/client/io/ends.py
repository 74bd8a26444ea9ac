"""Ends of tasks that are known and not told yet: the IO thread tells them, because it cannot be interrupted at it.

To tell one end may make others, as that of a value ends the calls that wait for it. They are told next, in the same
loop: a long chain of such calls must not become as deep a recursion.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container

from scaler.client.core.actions import Complete
from scaler.client.core.records import Collector, Outcomes, result_objects
from scaler.client.future import ScalerFuture
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.waits import Event

TELL_SECONDS = 1.0
"""How long a thread waits until others are told."""


class Ends:
    """Any thread may add; only the IO thread tells, with the driver's lock. After its end, each thread tells what it
    has added."""

    def __init__(self) -> None:
        #: threads that tell now
        self._telling: set[int] = set()
        self._waiting: deque[Complete] = deque()
        #: with results in the storage: its collector is being told, or it is being added
        self.untold: Complete | None = None

    def add(self, end: Complete) -> None:
        self._waiting.append(end)

    def add_step(self, step: Callable[[], object]) -> None:
        """Something else that cannot be repeated. It comes first, before the fence of a thread that waits for what
        comes of an end."""
        self._waiting.appendleft(Complete(_Step(step), Outcomes(())))

    def fence(self) -> Event:
        """An event that is set when all ends added so far are told, and those that came of them."""
        is_passed = Event()
        self._waiting.append(Complete(_Step(is_passed.set), Outcomes(())))
        return is_passed

    def tell(self) -> None:
        thread = threading.get_ident()
        if thread in self._telling:
            return  # the loop below us goes on with it
        try:
            self._telling.add(thread)
            while self._waiting:
                try:
                    end = self._waiting.popleft()
                except IndexError:  # another thread tells, too
                    return
                end.collector.complete(end.outcomes)
        finally:
            self._telling.discard(thread)

    def ids(self) -> set[TaskId]:
        return {task_id for end in tuple(self._waiting) for task_id in end.outcomes.ids}

    def take_untold(self, told: Container[TaskId]) -> tuple[ObjectId, ...]:
        """After an interrupt: stored results that the program has not been told of, and will not ask for."""
        end, self.untold = self.untold, None
        if end is None or all(task_id in told for task_id in end.outcomes.ids):
            return ()
        collector = end.collector
        is_told = type(collector) is ScalerFuture and collector.done() and not collector.cancelled()
        return () if is_told else result_objects(end.outcomes)

    def collectors(self) -> list[Collector]:
        return [end.collector for end in tuple(self._waiting)]

    def clear(self) -> None:
        self._waiting.clear()


class _Step:
    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step

    def complete(self, outcomes: Outcomes) -> None:
        self._step()
