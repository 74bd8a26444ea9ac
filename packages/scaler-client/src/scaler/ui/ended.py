"""How a task ended, in one sentence, as far as it was told: the scheduler explains only tasks that have not ended."""

from __future__ import annotations

import json

from scaler.client.futures.ended import error_text
from scaler.monitoring.endings import ending_text
from scaler.ui.model import Model
from scaler.ui.samples import TaskRun


def ended_text(model: Model, task_id: str) -> str:
    """Empty: nothing is known of its end. `task_id`: 32 digits."""
    failure = model.failures.of(task_id)
    if failure is not None:
        error = error_text(failure["type"], failure["line"])
        return ending_text(failure["status"], failure["lasted"], failure["worker"], error)
    run = _run_of(model, task_id)
    return "" if run is None else ending_text(run.status, run.seconds, run.worker)


def _run_of(model: Model, task_id: str) -> TaskRun | None:
    """The last one. Only texts that have its digits are read: all of them would hold up every page."""
    _, texts = model.runs.read(model.runs.first, model.runs.end, 1 << 62)
    for text in reversed(texts):
        if task_id.encode() in text:
            found = [TaskRun(*run) for run in json.loads(text) if run[0] == task_id]
            if found:
                return found[-1]
    return None
