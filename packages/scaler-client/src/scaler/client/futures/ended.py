"""Texts about how a task ended. What watches uses them too, so nothing here loads what deserializes. (SEC-3)"""

from __future__ import annotations

from scaler_protocol.errors import readable
from scaler_protocol.messages import TaskError

_LINE_CHARACTERS = 300


def duration_text(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"


def failure_text(failure: TaskError | BaseException) -> str:
    """Its type and what it says."""
    return error_text(*_told(failure))


def error_text(type_name: str, message: str) -> str:
    """The type without its module; either may be empty."""
    return ": ".join(filter(None, (type_name.rpartition(".")[2], message)))


def line_of(failure: TaskError | BaseException) -> str:
    """The first line of that."""
    type_name, message = _told(failure)
    first = message.strip().partition("\n")[0]
    return readable(error_text(type_name, first[:_LINE_CHARACTERS]) or "no reason was given")


def _told(failure: TaskError | BaseException) -> tuple[str, str]:
    if isinstance(failure, TaskError):
        return failure.type_name, failure.message
    try:
        return type(failure).__name__, str(failure)
    except Exception:  # noqa: BLE001 whatever a class of the program raises
        return type(failure).__name__, ""
