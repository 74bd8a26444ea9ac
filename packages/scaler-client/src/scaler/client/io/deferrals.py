"""The calls that wait for futures among their arguments, or whose tasks have not ended since. (CLI-14)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scaler.client.core.records import Collector
from scaler_protocol.ids import TaskId


class DeferredCall(Protocol):
    @property
    def collector(self) -> Collector: ...

    @property
    def owner(self) -> object: ...

    @property
    def missing_count(self) -> int: ...

    def cancel(self) -> bool:
        """Its task is not with the core, so the IO thread ends it soon. False: the core has the task, and ends it."""


class Deferrals(dict[TaskId, DeferredCall]):
    """By the task that they will be. Any thread adds and takes out."""

    def of(self, owner: object) -> list[TaskId]:
        return [task_id for task_id, one in tuple(self.items()) if one.owner is owner]

    def collectors_of(self, owner: object) -> list[Collector]:
        return [one.collector for one in tuple(self.values()) if one.owner is owner]

    def cancel(self, ids: Sequence[TaskId]) -> bool:
        """Those of these tasks that are calls of this kind. True: the IO thread will end some of them."""
        is_ending = False
        for one in map(self.get, ids if self else ()):
            if one is not None:  # else another thread has ended it meanwhile, or it is none of these
                is_ending |= one.cancel()
        return is_ending
