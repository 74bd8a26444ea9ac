"""Moving what no worker has begun: from busy workers to idle ones (SCH-20), and from workers that stand still to any
that work (SCH-96)."""

from __future__ import annotations

import math

from scaler_protocol.ids import TaskId
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.placing.recalling import LOOK_SECONDS, Standstill, movable, recall
from scaler_scheduler.core.tables.tables import Tables

Advice = list[tuple[Worker, list[TaskId]]]

IDLE_SECONDS = 0.05
"""How long a worker is idle before others are asked for what they have not begun. Idleness between two tasks, or at the
end of a map, is shorter: a question then costs messages and moves nothing."""


class Balancer:
    """Looks when a worker that has just run out of tasks stays idle, and acts at once: its tasks turned out shorter
    than those of others, or it was given fewer. Besides, it looks every `load_balance_seconds` while there are tasks,
    and acts when so many looks in a row have found something to move. Workers that stand still are looked for once a
    second, also where balancing is switched off: without it their tasks would never end."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._seconds = tables.policy.load_balance_seconds
        self._trigger_times = tables.policy.load_balance_trigger_times
        self._found_count = 0
        self._regular_at = 0.0
        self._idle_at = math.inf
        self._standstill = Standstill(tables)
        self._standstill_at = 0.0
        self.look_at = math.inf

    def settle(self, now: float) -> None:
        tables = self._tables
        if not tables.where:
            tables.has_idled = False
            self.look_at = self._idle_at = math.inf
            self._found_count = 0
            return
        if self.look_at == math.inf:
            self._regular_at = now + self._seconds if self._seconds > 0 else math.inf
            self._standstill_at = now + LOOK_SECONDS
        elif now >= self.look_at:
            self._look(now)
        if tables.has_idled:
            tables.has_idled = False
            if self._idle_at == math.inf and self._seconds > 0:
                self._idle_at = now + IDLE_SECONDS
        self.look_at = min(self._regular_at, self._idle_at, self._standstill_at)

    def _look(self, now: float) -> None:
        if now >= self._standstill_at:
            self._standstill_at = now + LOOK_SECONDS
            self._standstill.look(now)
        if now < min(self._regular_at, self._idle_at):
            return
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
                recall(self._tables, worker, ids)


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
        ids = movable(tables, worker, surplus, idle)
        if ids:
            found.append((worker, ids))
            wanted -= len(ids)
    return found
