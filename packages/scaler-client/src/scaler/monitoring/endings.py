"""How a task ended, in one sentence, as a scheduler or a sample tells it."""

from __future__ import annotations

from scaler.client.futures.ended import duration_text, error_text
from scaler_protocol.errors import readable
from scaler_protocol.messages import TaskFailure

STATUS_NAMES = ("success", "failed", "canceled", "worker_lost", "processor_died", "timed_out", "refused")
_HOW = {
    "success": "it succeeded",
    "failed": "it failed",
    "canceled": "it was canceled",
    "worker_lost": "it was lost with its workers too often",
    "processor_died": "its process died too often",
    "timed_out": "it was stopped",
    "refused": "it was refused",
}


def status_name(status: int) -> str:
    return STATUS_NAMES[status] if status < len(STATUS_NAMES) else str(status)


def ending_text(status: str, seconds: float, worker: str, error: str = "", attempt: int = 1) -> str:
    text = _HOW.get(status, f"it ended as {status}")
    text += f" after {duration_text(seconds)}" if seconds > 0 else ""
    text += f" on {worker}" if worker else ""
    text += f" in attempt {attempt}" if attempt > 1 else ""
    return readable(f"{text}: {error}" if error else text)


def record_text(record: TaskFailure) -> str:
    """Of a task that has ended, with what became of its earlier attempts."""
    error = error_text(record.type_name, record.first_line)
    text = ending_text(status_name(record.status), record.duration_seconds, record.worker, error, record.attempt)
    lost = "; ".join(record.accounts)
    return f"{text} (earlier: {readable(lost)})" if lost else text
