"""Moving what no worker has begun from busy workers to idle ones (SCH-20)."""

from __future__ import annotations

import math
from itertools import islice

from scaler_protocol.columns import join_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Recall
from scaler_scheduler.core.chunk import Chunk
from scaler_scheduler.core.tables import TASKS_TAKEN_IN_A_MESSAGE, Tables
from scaler_scheduler.core.workers import Worker

Advice = list[tuple[Worker, list[TaskId]]]


RECALLED_A_LOOK = 8_192
"""Of one worker, and it is looked up of no more than twice as many whether they may come back. The next look is not far
away. (LIM-25)"""
IDLE_SECONDS = 0.05
"""How long a worker is idle before others are asked for what they have not begun. Idleness between two tasks, or at the
end of a map, is shorter: a question then costs messages and moves nothing."""


class Balancer:
    """Looks when a worker that has just run out of tasks stays idle, and acts at once: its tasks turned out shorter
    than those of others, or it was given fewer. Besides, it looks every `load_balance_seconds` while there are tasks,
    and acts when so many looks in a row have found something to move."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seconds = tables.policy.load_balance_seconds
        self._trigger_times = tables.policy.load_balance_trigger_times
        self._found_count = 0
        self._regular_at = 0.0
        self._idle_at = math.inf
        self.look_at = math.inf

    def settle(self, now: float) -> None:
        tables = self._tables
        if self._seconds <= 0 or not tables.where:
            tables.has_idled = False
            self.look_at = self._idle_at = math.inf
            self._found_count = 0
            return
        if self.look_at == math.inf:
            self._regular_at = now + self._seconds
        elif now >= self.look_at:
            self._look(now)
        if tables.has_idled:
            tables.has_idled = False
            if self._idle_at == math.inf:
                self._idle_at = now + IDLE_SECONDS
        self.look_at = min(self._regular_at, self._idle_at)

    def _look(self, now: float) -> None:
        found = advice(self._tables)
        is_due = now >= self._idle_at
        if is_due:
            self._idle_at = math.inf
        if now >= self._regular_at:
            self._regular_at = now + self._seconds
            self._found_count = self._found_count + 1 if found else 0
        if is_due or self._found_count >= self._trigger_times:
            self._found_count = 0
            for worker, ids in found:
                worker.recalling.update(ids)
                self._tables.recalled_count += len(ids)
                for start in range(0, len(ids), TASKS_TAKEN_IN_A_MESSAGE):
                    part = ids[start : start + TASKS_TAKEN_IN_A_MESSAGE]
                    self._tables.tell(worker.peer_id, Recall(ids=join_ids(part)))


def advice(tables: Tables) -> Advice:
    """Which workers to ask for which tasks, when some are idle and others hold more than their share. The newest tasks
    come back first.

    Nothing that is queued here could go to an idle worker, or it would have gone; so what waits for a worker that is
    not there keeps no other task from being balanced. Only what a worker has not begun comes back: an unneeded question
    costs a message and nothing else.
    """
    if len(tables.workers) < 2:
        return []
    idle = [worker for worker in tables.workers.values() if not worker.held and worker.free(is_nested=False) > 0]
    if not idle:
        return []
    wanted = len(idle)
    busy = sorted(tables.workers.values(), key=lambda worker: len(worker.held), reverse=True)
    mean = sum(len(worker.held) for worker in busy) / len(busy)
    found: Advice = []
    for worker in busy:
        surplus = min(len(worker.held) - max(1, int(mean)), max(wanted, int(len(worker.held) - mean)))
        if surplus <= 0 or wanted <= 0:
            break
        ids = _movable(tables, worker, surplus, idle)
        if ids:
            found.append((worker, ids))
            wanted -= len(ids)
    return found


def _is_ahead(tables: Tables, task_id: TaskId, chunk: Chunk) -> bool:
    """It could not begin anywhere else either (SCH-36)."""
    return chunk.has_dependencies and bool(tables.unfinished(chunk.dependencies(chunk.index_of[task_id])))


def _movable(tables: Tables, worker: Worker, surplus: int, idle: list[Worker]) -> list[TaskId]:
    ids: list[TaskId] = []
    if worker.recalling:
        return ids
    for task_id in islice(reversed(worker.held), 2 * RECALLED_A_LOOK):
        if len(ids) == min(surplus, RECALLED_A_LOOK):
            break
        requirement = worker.held[task_id].combination.key.requirement
        if task_id in tables.canceling or _is_ahead(tables, task_id, worker.held[task_id]):
            continue
        if any(other.can_ever_run(requirement) for other in idle):
            ids.append(task_id)
    return ids
