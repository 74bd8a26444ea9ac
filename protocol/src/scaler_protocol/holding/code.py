"""Tasks whose code the processors of this worker cannot read (WRK-26)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler_protocol.code_tag import unreadable
from scaler_protocol.codes import FUNCTION_UNREADABLE, KIND_INLINE, STATUS_REFUSED
from scaler_protocol.holding.results import ResultCollector
from scaler_protocol.holding.tasks import Task
from scaler_protocol.messages import TaskError


class CodeGuard:
    """Refuses a batch as a whole, for its tasks have one header. To read another version's code could end a processor,
    so none gets to see it."""

    def __init__(self, worker_name: str, encode_error: Callable[[TaskError], bytes], code_tags: Sequence[str]) -> None:
        self._where = f"worker {worker_name}"
        self._encode_error = encode_error
        self._code_tags = code_tags

    def refuses(self, tasks: Sequence[Task], results: ResultCollector) -> bool:
        """True when they have ended, and are not to be held."""
        tag = tasks[0].header.code_tag
        if not tag or not self._code_tags or tag in self._code_tags:
            return False
        text = f"the task cannot be read: {unreadable(tag, self._code_tags, self._where)}"
        value = self._encode_error(TaskError(code=FUNCTION_UNREADABLE, type_name="TaskFailed", message=text))
        for task in tasks:
            results.add(task.id, task.attempt, STATUS_REFUSED, KIND_INLINE, value, task.header)
        return True
