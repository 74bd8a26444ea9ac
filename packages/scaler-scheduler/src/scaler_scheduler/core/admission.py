"""How many tasks may wait for a worker, where the operator has set a bound (SCH-32)."""

from __future__ import annotations

from scaler_protocol.codes import QUEUE_FULL
from scaler_protocol.messages import TaskError
from scaler_scheduler.core import endings
from scaler_scheduler.core.tables import Tables


def refuse_excess(tables: Tables) -> None:
    """Called when everything has been placed that can be. Only what has just arrived is refused, the newest first: a
    task that was accepted, and came back because its worker was lost, keeps its place."""
    arrived, tables.arrived = tables.arrived, []
    limit = tables.policy.waiting_limit
    excess = len(tables.ready) - limit
    if excess > 0:
        tables.events.note_limit("--max-number-of-tasks-waiting", f"{limit} tasks wait: new ones are refused")
    for chunk in reversed(arrived):
        for index in reversed(range(len(chunk.ids))):
            if excess <= 0:
                return
            task_id = chunk.ids[index]
            if tables.where.get(task_id) is chunk and task_id not in tables.dependencies.waiting:
                tables.ready.drop(chunk, index)
                endings.refuse_queued(tables, task_id, chunk, _queue_full(limit))
                excess -= 1


def _queue_full(limit: int) -> TaskError:
    text = (
        f"{limit} tasks wait for a worker already, and the scheduler was told to let no more wait: "
        "add workers, submit more slowly, or raise --max-number-of-tasks-waiting"
    )
    return TaskError(code=QUEUE_FULL, type_name="NoWorkerError", message=text, text=text)
