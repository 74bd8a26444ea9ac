"""What a task printed, as the program shows it: every line says where it comes from."""

from __future__ import annotations

from scaler.client.core.actions import Print, Tell
from scaler_protocol.codes import LOG_PREPARATION
from scaler_protocol.ids import TaskId, shown_task
from scaler_protocol.messages import TaskLog


def shown(log: TaskLog) -> Print | Tell:
    """What the program shows of it."""
    return Tell(log.task_id, log.text) if log.stream == LOG_PREPARATION else Print(log.stream, prefixed(log))


def prefixed(log: TaskLog) -> str:
    """Whole lines: output of several tasks comes mixed, and what one has not ended must not run into another's."""
    where = f"worker {log.worker}, " if log.worker else ""
    prefix = f"[{where}task {shown_task(log.task_id)}] "
    return "".join(f"{prefix}{line}\n" for line in log.text.removesuffix("\n").split("\n"))


def number_of(task_id: TaskId) -> int:
    """How many tasks the same client had submitted before this one."""
    return int.from_bytes(task_id[8:], "little")
