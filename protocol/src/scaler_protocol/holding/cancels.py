"""Ending held tasks on request, and saying what became of that. (CAN-1)"""

from __future__ import annotations

from collections.abc import Mapping

from scaler_protocol.codes import CANCEL_TOO_LATE, CANCEL_UNKNOWN, STATUS_CANCELED
from scaler_protocol.columns import join_ids
from scaler_protocol.holding.results import ResultCollector
from scaler_protocol.holding.tasks import StopOrder, Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import CancelReply


class CancelReplies:
    """Every Cancel of a task is answered exactly once: gathered until the round is over, then sent behind the results,
    so that a client that hears "canceled" finds the result already there."""

    def __init__(self) -> None:
        self._replies: list[tuple[TaskId, int]] = []

    def clear(self) -> None:
        self._replies.clear()

    def order(
        self, task_id: TaskId, grace_seconds: float, tasks: Mapping[TaskId, Task], results: ResultCollector
    ) -> Task | None:
        """A Cancel has come. The task that is to be stopped for it; None when there is nothing to do: it is not here,
        which is answered, or it was told to stop before."""
        task = tasks.get(task_id)
        if task is None:
            outcome = CANCEL_TOO_LATE if task_id in results else CANCEL_UNKNOWN
            self._replies.append((task_id, outcome))
            return None
        if task.stop is not None:
            task.stop.reply_count += 1
            return None
        task.stop = StopOrder(STATUS_CANCELED, grace_seconds, reply_count=1)
        return task

    def answer(self, task: Task, outcome: int) -> None:
        """To all peers that asked for the end of this task."""
        if task.stop is not None:
            self._replies += [(task.id, outcome)] * task.stop.reply_count

    def take(self) -> CancelReply | None:
        """Everything gathered so far."""
        if not self._replies:
            return None
        ids, outcomes = zip(*self._replies, strict=True)
        self._replies.clear()
        return CancelReply(join_ids(ids), bytes(outcomes) if any(outcomes) else b"")
