"""Tasks that came ahead of their time: each begins only when others, held here as well, have succeeded (WRK-23).

Most follow what they await into its slice: the processor runs them with the result that it has just made, and passes
over those whose time has not come because something they await did not succeed. It needs no word for that: from how a
task ended both sides know what follows. A result is at hand for tasks of the same order only, and of the one before its
last, so only those are handed over behind what they await. (decision 0009)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping

from scaler_protocol.codes import KIND_INLINE, KIND_TASK
from scaler_protocol.holding.tasks import Part, Task
from scaler_protocol.ids import TaskId

REMEMBERED_RESULTS = 16
"""One for each time that processors reported ends: the last, which is what the next links of a chain follow."""


class Ahead:
    def __init__(self) -> None:
        #: held, neither in the queue nor in a slice: no processor can begin these yet
        self.waiting: dict[TaskId, Task] = {}
        #: held task -> all whose `awaits` name it, waiting or in a slice
        self.followers: dict[TaskId, dict[TaskId, Task]] = {}
        #: results of ended tasks, oldest first: what follows one may have been on its way here when it ended
        self._ended: OrderedDict[TaskId, Part] = OrderedDict()

    def remember(self, task_id: TaskId, kind: int, value: bytes) -> None:
        self._ended[task_id] = (kind, value)
        if len(self._ended) > REMEMBERED_RESULTS:
            self._ended.popitem(last=False)

    def forget_ended(self, held: Mapping[TaskId, Task]) -> None:
        """Tasks that are here again, in another life: only results of this one count."""
        if held.keys().isdisjoint(self._ended):
            return
        for task_id in [task_id for task_id in self._ended if task_id in held]:
            del self._ended[task_id]

    def add(self, task: Task, held: Container[TaskId]) -> bool:
        """False when something it awaits is not here. It waits, unless all of that has ended."""
        assert task.awaits is not None
        if not all(other in held or other in self._ended for other in task.awaits):
            return False
        for other in list(task.awaits):
            if other in held:
                self.followers.setdefault(other, {})[task.id] = task
            else:
                _take_input(task, other, self._ended[other])
        if task.awaits:
            self.waiting[task.id] = task
        return True

    def ready_behind(self, tasks: list[Task]) -> Iterator[Task]:
        """Waiting tasks that await none but these. The caller adds those it takes: more may then be ready."""
        inside = {task.id for task in tasks}
        for task in tasks:
            inside.add(task.id)
            for follower in self.followers.get(task.id, {}).values():
                assert follower.awaits is not None
                if follower.id in self.waiting and follower.awaits <= inside:
                    yield follower

    def succeeded(self, task_id: TaskId, kind: int, value: bytes) -> list[Task]:
        """No task has to await it any more. The tasks that waited for it and can begin now."""
        free = []
        for follower in self.followers.pop(task_id, {}).values():
            _take_input(follower, task_id, (kind, value))
            if not follower.awaits and self.waiting.pop(follower.id, None) is not None:
                free.append(follower)
        return free

    def ended_otherwise(self, task_id: TaskId) -> list[Task]:
        """All that awaited it, directly or not: they wait here no longer."""
        left: list[Task] = []
        todo = [task_id]
        while todo:
            for follower in list(self.followers.get(todo.pop(), {}).values()):
                self.leave(follower)
                left.append(follower)
                todo.append(follower.id)
        return left

    def leave(self, task: Task) -> None:
        """It goes before what it awaits has ended."""
        self.waiting.pop(task.id, None)
        for other in task.awaits or ():
            followers = self.followers[other]
            del followers[task.id]
            if not followers:
                del self.followers[other]
        task.awaits = None

    def clear(self) -> None:
        self.waiting.clear()
        self.followers.clear()
        self._ended.clear()


def _take_input(task: Task, other: TaskId, result: Part) -> None:
    """This other task has succeeded, and need not be awaited any more."""
    assert task.awaits is not None
    task.awaits.discard(other)
    if not task.awaits:
        task.awaits = None
    if not isinstance(task.parts, bytes):
        parts = tuple([result if part == (KIND_TASK, other) else part for part in task.parts])
        task.parts = parts[0][1] if len(parts) == 1 and parts[0][0] == KIND_INLINE else parts
