"""Counted amounts that a blocked task takes, lent to the tasks that it waits for (SCH-47).

A nested task that needs the unit which its waiting parent holds would wait for ever. So while a task is blocked, tasks
that descend from it may take its amounts at its worker. Both count as takers of what is lent: the worker's free amount
is negative meanwhile, and no task of another family is given it.

Workers tell in each WorkerStatus which of their tasks are blocked. What they told may be a moment old: then a task and
its own descendant take one unit together until one of them has ended. No task of another family is affected.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Capability, WorkerStatus
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

BLOCKED = 3
"""As in ProcessorStatus."""


def note_blocked(tables: Tables, worker: Worker, status: WorkerStatus) -> None:
    """These of its tasks are blocked now. Only those that take counted amounts have something to lend."""
    worker.lenders = {
        processor.task_id: None
        for processor in status.processors
        if processor.state == BLOCKED
        and processor.task_id in worker.held
        and _counted(worker, worker.held[processor.task_id].header.capabilities)
    }
    if worker.lenders:
        tables.lending[worker] = None
    else:
        tables.lending.pop(worker, None)


def offer(tables: Tables, chunk: Chunk) -> tuple[Worker, TaskId, int] | None:
    """The worker where tasks of this chunk may borrow from their ancestors, the nearest lender, and for how many tasks
    it is enough."""
    for worker, lenders in _lenders(tables, chunk).items():
        count = min(worker.free(is_nested=True), _enough_for(worker, lenders, chunk.header.capabilities))
        if count > 0 and worker.can_ever_run(chunk.combination.key.requirement):
            return worker, lenders[0], count
    return None


def _lenders(tables: Tables, chunk: Chunk) -> dict[Worker, list[TaskId]]:
    """The blocked ancestors that have something to lend, the nearest first."""
    found: dict[Worker, list[TaskId]] = {}
    seen: set[TaskId] = set()  # a client may claim any parent, also in a circle
    task_id = chunk.header.parent_task
    while task_id and task_id not in seen:
        seen.add(task_id)
        place = tables.where.get(task_id)
        if not isinstance(place, Worker):
            break
        if task_id in place.lenders:
            found.setdefault(place, []).append(task_id)
        task_id = place.held[task_id].header.parent_task
    return found


def _enough_for(worker: Worker, lenders: list[TaskId], needed: Iterable[Capability]) -> int:
    borrowers = [one for one, lender in worker.borrowers.items() if lender in lenders]
    room = 1 << 30
    for item in _counted(worker, needed):
        lent = _taken(worker, lenders, item.name) - _taken(worker, borrowers, item.name)
        room = min(room, (max(lent, 0) + max(worker.free_amounts[item.name], 0)) // item.amount)
    return room


def _taken(worker: Worker, tasks: Iterable[TaskId], name: str) -> int:
    return sum(
        item.amount
        for task_id in tasks
        for item in _counted(worker, worker.held[task_id].header.capabilities)
        if item.name == name
    )


def _counted(worker: Worker, capabilities: Iterable[Capability]) -> list[Capability]:
    """Those of which a task takes an amount at this worker."""
    return [item for item in capabilities if item.amount > 0 and item.name in worker.free_amounts]
