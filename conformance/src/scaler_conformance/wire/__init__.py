"""Messages to frames and back, for the suite alone: it shares no code with the packages that it judges."""

from .batches import (
    KeptResult,
    Result,
    Task,
    read_kept,
    read_results,
    read_tasks,
    write_kept,
    write_results,
    write_tasks,
)
from .codes import CODES, ROLES, code_name
from .envelope import Message, Unreadable, decode, decode_task_error, encode, encode_task_error

__all__ = [
    "CODES",
    "ROLES",
    "KeptResult",
    "Message",
    "Result",
    "Task",
    "Unreadable",
    "code_name",
    "decode",
    "decode_task_error",
    "encode",
    "encode_task_error",
    "read_kept",
    "read_results",
    "read_tasks",
    "write_kept",
    "write_results",
    "write_tasks",
]
