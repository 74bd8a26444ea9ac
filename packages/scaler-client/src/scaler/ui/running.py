"""Names of the functions of tasks that run now.

A status has the ids of these tasks. A name is asked for once, and only of tasks that run for long, because others have
ended when the answer is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from scaler_protocol.ids import TaskId
from scaler_protocol.messages import ClusterStatus, Explanation, ProcessorStatus

LONG_SECONDS = 1.0
NAMED = 200
"""Of so many tasks, those that run longest, names are known: a page shows as many at once."""
ASKED_AT_ONCE = 20
"""Names are asked for with each status, so a scheduler answers so many questions a second for it."""


class RunningNames:
    """Says what to ask, and keeps the answers as long as their tasks run."""

    def __init__(self) -> None:
        #: by task; empty where there is no answer yet
        self.names: dict[TaskId, str] = {}

    def wanted(self, status: ClusterStatus) -> list[TaskId]:
        """Returns the tasks whose functions are to be asked for now. Each task is returned once."""
        longest = [one.task_id for one in nlargest(NAMED, _running(status), key=lambda one: one.running_seconds)]
        self.names = {task_id: self.names[task_id] for task_id in longest if task_id in self.names}
        asked = [task_id for task_id in longest if task_id not in self.names][:ASKED_AT_ONCE]
        self.names.update(dict.fromkeys(asked, ""))
        return asked

    def told(self) -> dict[str, str]:
        """Returns the known names, by task in hexadecimal digits."""
        return {task_id.hex(): name for task_id, name in self.names.items() if name}

    def heard(self, explanation: Explanation) -> None:
        """Takes an answer. A task that has ended meanwhile has no name."""
        if explanation.task_id in self.names:
            self.names[explanation.task_id] = explanation.function_name


def _running(status: ClusterStatus) -> Iterator[ProcessorStatus]:
    for worker in status.workers:
        for one in worker.status.processors:
            if one.task_id and one.running_seconds >= LONG_SECONDS:
                yield one
