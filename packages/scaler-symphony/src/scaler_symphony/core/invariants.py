"""What must hold after every event. Tests call `check`; it derives every index anew."""

from __future__ import annotations

from scaler_symphony.core.agent import SymphonyCore
from scaler_symphony.core.sessions import State
from scaler_symphony.core.tables import Tables


def check(core: SymphonyCore) -> None:
    tables = core.tables
    _check_tasks(tables)
    _check_places(tables)
    assert {run.handle: run.number for run in tables.runs.values() if run.handle} == tables.handles
    assert tables.session.state is State.OPEN or not tables.runs, "runs are in an open session"
    is_kept = tables.is_connected or tables.presenting.until is not None
    assert is_kept or not tables.tasks, "without a scheduler nothing is held, unless it is kept for another one"
    assert tables.is_connected or not tables.presenting.may_begin, "without a scheduler nothing begins"
    assert tables.presenting.until is None or not tables.is_connected, "what is held has been presented, or dropped"
    assert set(tables.mishaps) <= set(tables.tasks)
    assert tables.object_bytes == sum(len(content or b"") for content in tables.objects.values())
    assert not tables.actions, "actions are returned with the event that caused them"
    if not any(not run.handle for run in tables.runs.values()):
        assert not tables.early, "a response waits only for a run whose handle we do not know"


def _check_tasks(tables: Tables) -> None:
    queued = list(tables.queue)
    running = [run.task for run in tables.runs.values() if not run.is_given_up]
    assert sorted(task.id for task in queued + running) == sorted(tables.tasks), "every task is in exactly one place"
    assert all(tables.tasks[task.id] is task for task in queued + running)
    assert all(task.stop is None for task in queued)


def _check_places(tables: Tables) -> None:
    depths = sorted(run.task.header.depth for run in tables.runs.values())
    base = tables.settings.base_concurrency
    assert depths.count(0) <= base, "the base concurrency bounds tasks that are not nested"
    beyond = depths[base:]
    assert beyond == sorted(set(beyond)), "beyond it there is one for each level of nesting"
