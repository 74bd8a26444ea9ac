"""Asking a worker for tasks that it has not begun (SCH-20), and when it is asked because it stands still (SCH-96).

A worker may send its heartbeats and still not do its part: an endless task has its only place, its processors do not
start, or it is stuck. Balancing alone does not help there, because it moves tasks to workers that are *idle*, and
beside a flood of tasks no worker ever is. So a worker that has sent no Results for `STILL_SECONDS` is asked for what it
has not begun, down to the last task, as soon as another worker that works could run it.

What keeps a task from going to and fro: a worker that gave such tasks back rests (as one that does not reach the
storage, SCH-44), and no task is recalled for the sake of a worker that was found to stand still itself, until that one
has ended something. If all stand still, nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import islice

from scaler_protocol.columns import join_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Recall
from scaler_scheduler.core.ending import cut_off
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.requirements import Requirement
from scaler_scheduler.core.entities.workers import Still, Worker
from scaler_scheduler.core.tables.tables import TASKS_TAKEN_IN_A_MESSAGE, Tables

RECALLED_A_LOOK = 8_192
"""The most tasks recalled from one worker at one look. At most twice as many tasks of the worker are checked for
whether they may come back. The next look is not far away. (LIM-25)"""
STILL_SECONDS = 3.0
"""For so long a worker that holds tasks has ended nothing. Longer than a pause of its machine, and than the first
import of most libraries. A wrong guess costs one message, and moves what could not begin."""
LOOK_SECONDS = 1.0
"""Between two looks at all workers: the bound of SCH-96 is exact to so much."""


def movable(tables: Tables, worker: Worker, most: int, others: Collection[Worker]) -> list[TaskId]:
    """Returns up to so many tasks of this worker that one of the others could run, the newest first. Tasks that the
    worker has begun, by its last status, are none of them; nothing comes while a Recall is unanswered."""
    ids: list[TaskId] = []
    if worker.recalling:
        return ids
    has_able: dict[Requirement, bool] = {}
    begun = {processor.task_id for processor in worker.status.processors}
    for task_id in islice(reversed(worker.held), 2 * RECALLED_A_LOOK):
        if len(ids) == min(most, RECALLED_A_LOOK):
            break
        chunk = worker.held[task_id]
        if task_id in tables.canceling or task_id in begun or _is_ahead(tables, task_id, chunk):
            continue
        requirement = chunk.combination.key.requirement
        if requirement not in has_able:
            has_able[requirement] = any(other is not worker and other.can_ever_run(requirement) for other in others)
        if has_able[requirement]:
            ids.append(task_id)
    return ids


def _is_ahead(tables: Tables, task_id: TaskId, chunk: Chunk) -> bool:
    """It could not begin anywhere else either (SCH-36)."""
    return chunk.has_dependencies and bool(tables.unfinished(chunk.dependencies(chunk.index_of[task_id])))


def recall(tables: Tables, worker: Worker, ids: list[TaskId]) -> None:
    """Asks the worker for these tasks. They count as held there until it has answered."""
    worker.recalling.update(ids)
    tables.recalled_count += len(ids)
    for start in range(0, len(ids), TASKS_TAKEN_IN_A_MESSAGE):
        tables.tell(worker.peer_id, Recall(ids=join_ids(ids[start : start + TASKS_TAKEN_IN_A_MESSAGE])))


class Standstill:
    """Notes at each look how far every worker is. Between two looks it costs nothing, whatever ends meanwhile."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: workers that held tasks at the last look -> Results messages of it by then, and since when it has no more
        self._since: dict[Worker, tuple[int, float]] = {}
        self._looked_at = -math.inf
        self._still: dict[Worker, Still] = {}  #: all and only those with `Worker.still`

    def look(self, now: float) -> None:
        """Recalls what workers that stand still have not begun."""
        tables = self._tables
        # After a longer pause between looks: no task was unfinished meanwhile, so every worker begins anew.
        before = self._since if now - self._looked_at < 2 * LOOK_SECONDS else {}
        self._looked_at = now
        for worker in [worker for worker, still in self._still.items() if _has_moved(tables, worker, still)]:
            del self._still[worker]
            worker.still = None
        self._since = since = {}
        for worker in tables.workers.values():
            if worker.held:
                noted = before.get(worker)
                is_as_before = noted is not None and noted[0] == worker.results_count
                since[worker] = noted if noted and is_as_before else (worker.results_count, now)
        if len(tables.workers) < 2 or tables.presentation.is_recovering:
            return
        old = {worker: None for worker, (_, at) in since.items() if now - at >= STILL_SECONDS}
        working = self._working(old) if old else []
        for worker in old if working else ():
            if worker.still is None or now >= worker.still.ask_at:
                self._recall(worker, working, now)

    def _working(self, old: dict[Worker, None]) -> list[Worker]:
        """Workers that take tasks, and end them as far as is known."""
        return [
            worker
            for worker in self._tables.workers.values()
            if cut_off.is_well(worker)
            and worker.still is None
            and (worker not in old or worker.free(is_nested=False) > 0)
        ]

    def _recall(self, worker: Worker, working: list[Worker], now: float) -> None:
        tables = self._tables
        ids = movable(tables, worker, RECALLED_A_LOOK, working)
        if not ids:
            return
        self._still[worker] = worker.still = Still(worker.results_count, now + cut_off.REST_SECONDS)
        recall(tables, worker, ids)


def _has_moved(tables: Tables, worker: Worker, still: Still) -> bool:
    return worker.results_count != still.results_count or tables.workers.get(worker.peer_id) is not worker


def gave_back(tables: Tables, worker: Worker) -> None:
    """A worker that stands still has answered a Recall with tasks: they are not to come again at once."""
    still = worker.still
    if still is not None and not worker.is_cut_off and not worker.is_gone:
        still.rests_until = worker.heard_at + cut_off.REST_SECONDS
        cut_off.let_rest(tables, worker, still.rests_until)
