"""How many tasks may wait for a worker, where the operator has set a bound (SCH-32), and what each user may have.

Of a user count the unfinished tasks and, because a batch keeps its whole payload until its last task has ended, the
payloads of their batches (LIM-35). Without keys, each session is a user."""

from __future__ import annotations

from scaler_protocol.codes import QUEUE_FULL, QUOTA
from scaler_protocol.messages import TaskError
from scaler_scheduler.core.accepting.admitting import Refusal
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.tables.tables import Tables


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


def beyond_quota(tables: Tables, chunk: Chunk) -> Refusal | None:
    """Returns why this batch is not accepted. What other users have does not matter."""
    held, policy = chunk.client.combinations, tables.policy
    tasks, size = len(chunk.ids), len(chunk.batch.payload)
    if held.task_count + tasks <= policy.user_tasks and held.task_bytes + size <= policy.user_task_bytes:
        return None
    # What is submitted again is not refused: its former self ends when this batch is accepted. (SCH-8)
    new = sum(task_id not in tables.where for task_id in chunk.ids)
    if new and held.task_count + new > policy.user_tasks:
        return _exceeded(
            chunk, f"{held.task_count:,} unfinished tasks", f"{policy.user_tasks:,} (--user-tasks)", f"{new:,}"
        )
    if held.task_bytes + size * new // max(1, tasks) > policy.user_task_bytes:
        most = f"{_mebibytes(policy.user_task_bytes)} (--user-task-bytes)"
        return _exceeded(
            chunk, f"{_mebibytes(held.task_bytes)} of arguments of unfinished tasks", most, _mebibytes(size)
        )
    return None


def _exceeded(chunk: Chunk, held: str, most: str, asked: str) -> Refusal:
    user = chunk.client.user
    text = (
        f"{f'user {user}' if user else 'this client'} has {held} at the scheduler, and each user may have {most}: this "
        f"batch with {asked} more was not accepted. Wait until some of the tasks have ended, submit less at a time, or "
        "ask the operator for more"
    )
    return QUOTA, text, "LIM-35"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"
