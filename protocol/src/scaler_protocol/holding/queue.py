"""The tasks that wait for a processor, in the order they will run: deeper, then priority, then first come (SCH-9)."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskHeader

_Rank = tuple[int, int]


def _rank(header: TaskHeader) -> _Rank:
    return (-header.depth, -header.priority)


class TaskQueue:
    """One first-come queue for each rank that occurs. Deeper first is what lets a waiting parent finish (WRK-6)."""

    def __init__(self) -> None:
        self._ranks: list[_Rank] = []  #: sorted; exactly the keys of `_waiting`
        self._waiting: dict[_Rank, OrderedDict[TaskId, Task]] = {}  #: no empty ones
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Task]:
        for rank in self._ranks:
            yield from self._waiting[rank].values()

    def push_all(self, tasks: list[Task]) -> None:
        """Append tasks that share one header: a batch."""
        if tasks:
            self._at(tasks[0].header).update((task.id, task) for task in tasks)
            self._count += len(tasks)

    def put_back(self, tasks: Iterable[Task]) -> None:
        """Return tasks that were taken and not begun to the front, in their old order."""
        for task in reversed(list(tasks)):
            waiting = self._at(task.header)
            waiting[task.id] = task
            waiting.move_to_end(task.id, last=False)
            self._count += 1

    def first(self) -> Task | None:
        return next(iter(self._waiting[self._ranks[0]].values())) if self._ranks else None

    def pop(self) -> Task:
        """The first of those that wait."""
        rank = self._ranks[0]
        waiting = self._waiting[rank]
        _, task = waiting.popitem(last=False)
        if not waiting:
            del self._waiting[rank], self._ranks[0]
        self._count -= 1
        return task

    def take(self, accepts: Callable[[Task], bool]) -> list[Task]:
        """Pop tasks for as long as they are accepted: in one go, because a slice may have hundreds."""
        taken: list[Task] = []
        while self._ranks:
            rank = self._ranks[0]
            waiting = self._waiting[rank]
            before = len(taken)
            taken += takewhile(accepts, waiting.values())
            if len(taken) - before == len(waiting):
                del self._waiting[rank], self._ranks[0]
                continue
            for task in taken[before:]:
                del waiting[task.id]
            break
        self._count -= len(taken)
        return taken

    def remove(self, task: Task) -> None:
        rank = _rank(task.header)
        del self._waiting[rank][task.id]
        self._shrink(rank)

    def clear(self) -> list[Task]:
        tasks = list(self)
        self._ranks.clear()
        self._waiting.clear()
        self._count = 0
        return tasks

    def _at(self, header: TaskHeader) -> OrderedDict[TaskId, Task]:
        rank = _rank(header)
        if rank not in self._waiting:
            self._waiting[rank] = OrderedDict()
            insort(self._ranks, rank)
        return self._waiting[rank]

    def _shrink(self, rank: _Rank) -> None:
        self._count -= 1
        if not self._waiting[rank]:
            del self._waiting[rank]
            self._ranks.remove(rank)
