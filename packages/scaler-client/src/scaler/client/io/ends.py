"""Ends of tasks that are known and not told yet: the IO thread tells them, because it cannot be interrupted at it."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from scaler.client.core.actions import Complete
from scaler.client.core.records import Collector, Outcomes, result_objects
from scaler.client.future import ScalerFuture
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.waits import Event

TELL_SECONDS = 1.0
"""How long a thread waits until others are told."""


class Ends:
    """Any thread may add; only the IO thread tells, with the driver's lock."""

    def __init__(self) -> None:
        self._waiting: deque[Complete] = deque()
        #: with results in the storage: its collector is being told, or it is being added
        self.untold: Complete | None = None

    def add(self, end: Complete) -> None:
        self._waiting.append(end)

    def fence(self) -> Event:
        """An event that is set when all ends added so far are told."""
        fence = _Fence()
        self._waiting.append(Complete(fence, Outcomes(())))
        return fence.is_passed

    def tell(self) -> None:
        while self._waiting:
            end = self._waiting.popleft()
            end.collector.complete(end.outcomes)

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


class _Fence:
    def __init__(self) -> None:
        self.is_passed = Event()

    def complete(self, outcomes: Outcomes) -> None:
        self.is_passed.set()
