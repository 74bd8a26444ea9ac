"""For libraries that ask whether they run inside a task."""

from __future__ import annotations

from scaler_protocol import task_context
from scaler_protocol.task_context import TaskContext


class Processor:
    @staticmethod
    def get_current_processor() -> TaskContext | None:
        """The context of the task this process is running; None outside of tasks."""
        return task_context.current()
