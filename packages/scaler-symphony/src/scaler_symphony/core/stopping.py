"""Ending tasks before they are done.

What waits ends at once. What runs cannot be ended alone: Symphony has no call for it. So a canceled task goes on and is
answered TOO_LATE when it ends, with its result; only when everything that runs is to end anyway, the session is closed,
and Symphony ends it all. (CAN-1, CAN-4)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler_protocol.codes import (
    CANCEL_CANCELED,
    CANCEL_TOO_LATE,
    KIND_INLINE,
    STATUS_CANCELED,
    STATUS_TIMED_OUT,
    TASK_TIMED_OUT,
)
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskError
from scaler_symphony.core.actions import CloseSession
from scaler_symphony.core.sessions import Move
from scaler_symphony.core.tables import Run, Tables


def cancel(tables: Tables, ids: Iterable[TaskId], grace_seconds: float, now: float) -> None:
    """Every Cancel of a task is answered exactly once. (CAN-1)"""
    runs = runs_by_task(tables)
    for task_id in ids:
        task = tables.cancel_replies.order(task_id, grace_seconds, tables.tasks, tables.results)
        if task is None:
            continue
        run = runs.get(task_id)
        if run is None:
            tables.queue.remove(task)
            end_canceled(tables, task)
        else:
            run.stop_at = now + grace_seconds


def runs_by_task(tables: Tables) -> dict[TaskId, Run]:
    """Made once for a message: a search for each of its tasks would take as many steps as there are runs."""
    return {run.task.id: run for run in tables.runs.values() if not run.is_given_up}


def enforce(tables: Tables, now: float) -> None:
    for run in list(tables.runs.values()):
        if run.timeout_at is not None and now >= run.timeout_at and not run.is_given_up:
            _time_out(tables, run, now)
    if tables.runs and all(run.stop_at is not None and now >= run.stop_at for run in tables.runs.values()):
        tables.log("closing the Symphony session: all its tasks are canceled or have timed out", is_warning=False)
        for run in list(tables.runs.values()):
            if not run.is_given_up:
                end_canceled(tables, run.task)
        close_session(tables, now)


def deadlines(tables: Tables) -> Iterator[float]:
    for run in tables.runs.values():
        if run.timeout_at is not None and not run.is_given_up:
            yield run.timeout_at
    if tables.runs and all(run.stop_at is not None for run in tables.runs.values()):
        yield max(run.stop_at for run in tables.runs.values() if run.stop_at is not None)


def close_session(tables: Tables, now: float) -> None:
    """With whatever runs in it; the caller has seen to its tasks."""
    tables.actions.append(CloseSession(tables.session.number))
    tables.session.move(Move.CLOSE, now)
    forget_runs(tables)


def forget_runs(tables: Tables) -> None:
    tables.runs.clear()
    tables.handles.clear()
    tables.early.clear()


def end_canceled(tables: Tables, task: Task) -> None:
    """It has left the queue or its run already."""
    tables.forget(task)
    tables.results.add_without_value(task.id, task.attempt, STATUS_CANCELED)
    tables.cancel_replies.answer(task, CANCEL_CANCELED)


def _time_out(tables: Tables, run: Run, now: float) -> None:
    """The client is told; the place stays taken until Symphony answers. (WRK-14)"""
    task = run.task
    run.is_given_up = True
    run.stop_at = now
    text = (
        f"Symphony has had the task for {now - run.begun_at:.0f} s, its timeout is {task.header.timeout_seconds:g} s, "
        f"and it has not yielded; Symphony may go on running it"
    )
    worker = tables.settings.worker_name
    error = TaskError(TASK_TIMED_OUT, "builtins.TimeoutError", text, workers=(worker,))
    tables.forget(task)
    value = tables.settings.encode_error(error)
    tables.results.add(task.id, task.attempt, STATUS_TIMED_OUT, KIND_INLINE, value, task.header)
    tables.cancel_replies.answer(task, CANCEL_TOO_LATE)
