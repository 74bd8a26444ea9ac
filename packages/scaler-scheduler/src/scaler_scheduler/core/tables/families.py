"""Tasks that descend from one that is being canceled: none of them begins any more (CAN-13).

Theory of operation. Children end when their parent has (CAN-7), and not before: a parent that learned of the end of its
children before it is interrupted could end FAILED, and not CANCELED. So between the Cancel and the end of a task its
queued descendants are not taken. They are set aside when their turn comes, and never put back: a task that is being
canceled is never run again, and with its end its children are canceled, then theirs.

All tasks of a chunk have one parent. So the ancestors are looked at once for each chunk that leaves the queue, and
only while something is being canceled. Tasks without a parent cost nothing.
"""

from __future__ import annotations

from collections import OrderedDict

from scaler_protocol.ids import TaskId
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.backlog import Backlog

GENERATIONS = 1_000
"""So many ancestors are looked at. Each of them has a process that waits, if what clients claim is true."""
LOOKS_A_TURN = 2_000
"""Ancestors that are looked at, and tasks that are set aside, in one turn: a few milliseconds."""
REMEMBERED = 10_000
"""Ended tasks, a child of which may still be on its way."""


class Families:
    def __init__(
        self,
        where: dict[TaskId, Chunk | Worker],
        canceling: dict[TaskId, int],
        abandoned: dict[TaskId, int],
        backlog: Backlog,
    ) -> None:
        """Looks ancestors up in these tables, which `Tables` describes."""
        self._where, self._canceling, self._abandoned, self._backlog = where, canceling, abandoned, backlog
        #: ended tasks whose children are canceled, also those that are submitted later; the latest last
        self._ended: OrderedDict[TaskId, None] = OrderedDict()
        #: of this turn. Zero or less: the rest has its turn in the next one
        self.looks_left = LOOKS_A_TURN

    def may_not_begin(self, chunk: Chunk) -> bool:
        """A task from which these descend is being canceled, or has ended and its children are just being canceled."""
        if not chunk.header.parent_task:
            return False
        may_not, looks = self.looked_up(chunk)
        self.looks_left -= looks
        return may_not

    def looked_up(self, chunk: Chunk) -> tuple[bool, int]:
        """The same, and how many ancestors it took. Nothing is changed."""
        task_id = chunk.header.parent_task
        if not (self._canceling or self._abandoned or self._backlog.jobs):
            return False, 0
        for generation in range(1, GENERATIONS + 1):
            if task_id in self._canceling or task_id in self._abandoned:
                return True, generation
            place = self._where.get(task_id)
            if place is None:
                return task_id in self._ended, generation
            task_id = (place.held[task_id] if isinstance(place, Worker) else place).header.parent_task
            if not task_id:
                return False, generation
        return False, GENERATIONS

    def note_end(self, task_id: TaskId) -> None:
        """Its children are canceled from now on."""
        self._ended[task_id] = None
        self._ended.move_to_end(task_id)
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def has_ended(self, parent_task: TaskId) -> bool:
        """Its children are canceled, and it is not here again under its id. (SCH-8)"""
        is_over = parent_task in self._ended or parent_task in self._abandoned
        return is_over and parent_task not in self._where
