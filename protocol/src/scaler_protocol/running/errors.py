"""What a failed task leaves behind: enough for any language to show it, and for Python to raise it again."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from scaler_protocol import codec, values
from scaler_protocol.codes import (
    BAD_BATCH,
    CODE_SET_REFUSED,
    ENVIRONMENT_FAILED,
    FUNCTION_UNREADABLE,
    NO_SUCH_OBJECT,
    STORAGE_UNREACHABLE,
    TASK_RAISED,
)
from scaler_protocol.ids import STORED, ObjectId
from scaler_protocol.messages import TaskError
from scaler_protocol.raised import portable
from scaler_protocol.unreadable import import_hint, reason_of

MESSAGE_CHARACTERS = 4 * 1024
TEXT_CHARACTERS = 12 * 1024
SPARE_BYTES = 2 * 1024  # of the inline limit, for the frame around the parts

Store = Callable[[bytes], ObjectId]
"""Stores the bytes of an exception in the client's name, and returns their object."""

NOT_BEGUN = frozenset(
    (BAD_BATCH, FUNCTION_UNREADABLE, NO_SUCH_OBJECT, STORAGE_UNREACHABLE, CODE_SET_REFUSED, ENVIRONMENT_FAILED)
)
"""Reasons for which a task's code is not reached: it ends REFUSED, not FAILED (WRK-3, WRK-4, WRK-51, BAT-6)."""

hidden_prefixes: tuple[str, ...] = ()
"""Of file names in tracebacks: where this worker has unpacked the client's own files. The rest is as the client has
it."""

_OWN_PACKAGES = frozenset(("scaler_protocol", "scaler_worker", "scaler_symphony"))
"""Whose frames lie between the processor and the user's code."""


class TaskFailed(Exception):
    """The task cannot be run, or its result cannot be told, for a reason that is not an error of its code. With
    `has_run` its code was reached, whatever the reason."""

    def __init__(self, code: int, text: str, *, has_run: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.is_refusal = code in NOT_BEGUN and not has_run


def unreadable(what: str, error: Exception) -> TaskFailed:
    """For what cannot be made of its bytes, with what to do where that is known (WRK-4)."""
    return TaskFailed(FUNCTION_UNREADABLE, f"{what} cannot be read on this worker: {reason_of(error)}")


def before_call(error: BaseException) -> BaseException:
    """Returns what a task ends with, if this was raised before it had its arguments: whatever reading them raises is
    not the task's own error."""
    if isinstance(error, TaskFailed | MemoryError) or not isinstance(error, Exception):
        return error
    told = unreadable("an argument of the task", error)
    told.__cause__ = error
    return told


def other_content(what: str, object_id: ObjectId) -> TaskFailed:
    """For a function or serializer that has not the bytes of which its id is the hash (STO-29)."""
    text = (
        f"{what} (object {object_id.hex()}) is not used: the storage has other bytes under this id than those whose "
        "hash it is. A client or worker of this cluster has stored them: find out which program that was, and restart "
        "the storage to be rid of them"
    )
    return TaskFailed(FUNCTION_UNREADABLE, text)


def encode_exception(error: BaseException, inline_bytes: int, store: Store | None = None) -> bytes:
    """Returns the TaskError of an exception, of at most `inline_bytes`: texts are cut. An exception that has no room is
    stored; if that cannot be done, the client will raise a RemoteError. (PAY-2)"""
    is_users = not isinstance(error, TaskFailed)
    hint = _with_import_hint(error)
    code = error.code if isinstance(error, TaskFailed) else TASK_RAISED
    shown = error if is_users else (error.__cause__ or error)
    type_name = _cut(_type_name(error) if is_users else "TaskFailed", 256, inline_bytes // 8)
    message = _cut(_text_of(error), MESSAGE_CHARACTERS, inline_bytes // 8)
    text = _cut(_traceback_text(shown) + hint, TEXT_CHARACTERS, inline_bytes // 4)
    serialized = _serialized(error) if is_users else b""
    texts_bytes = sum(len(one.encode()) for one in (type_name, message, text))
    if len(serialized) > inline_bytes - min(SPARE_BYTES, inline_bytes // 4) - texts_bytes:
        serialized = _stored(serialized, store)
    return codec.encode_task_error(TaskError(code, type_name, message, text, serialized))


def _stored(serialized: bytes, store: Store | None) -> bytes:
    try:
        return STORED + store(serialized) if store is not None else b""
    except TaskFailed:  # the storage is full, or cannot be reached
        return b""


def _with_import_hint(error: BaseException) -> str:
    """The exception gets the hint as a note. Returned is what has to be added to the traceback: Python 3.10 has no
    notes. An exception that a nested task raised before has the note already."""
    hint = import_hint(error)
    if not hint or hint in getattr(error, "__notes__", ()):
        return ""
    if sys.version_info < (3, 11):
        return f"{hint}\n"
    error.add_note(hint)
    return ""


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as failure:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"<str() of the exception raised {type(failure).__name__}>"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _cut(text: str, limit: int, most_bytes: int) -> str:
    """Returns the beginning and the end: in a traceback both say more than the middle. Lone surrogates become '?'."""
    cut = text
    if len(text) > limit:
        cut = f"{text[: limit // 2]}\n… {len(text) - limit} characters left out …\n{text[-limit // 2 :]}"
    encoded = cut.encode("utf-8", "replace")
    if len(encoded) <= most_bytes:
        return encoded.decode("utf-8")
    fewer = most_bytes // 4 - 20  # a character has up to four bytes, and the sentence in the middle some as well
    return _cut(text, fewer, most_bytes) if 0 < fewer < limit else encoded[:most_bytes].decode("utf-8", "ignore")


def _traceback_text(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(type(error), error, _users_frames(error.__traceback__)))
        for prefix in hidden_prefixes:
            text = text.replace(prefix, "")
        return text
    except BaseException as failure:  # noqa: BLE001 - as above, and RecursionError of endless chains
        return f"{_type_name(error)} (its traceback could not be formatted: {type(failure).__name__})"


def _users_frames(frames: TracebackType | None) -> TracebackType | None:
    """Without the processor's own frames, which lie before the user's."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").split(".")[0] in _OWN_PACKAGES:
        frames = frames.tb_next
    return frames


def _serialized(error: BaseException) -> bytes:
    """Returns the pickled exception, or nothing if it cannot be read back: the client then raises a RemoteError."""
    try:
        data = b"".join(values.dumps(portable(error)))
        copy = values.loads(data)
        if type(copy) is type(error) or type(copy).__qualname__ == type(error).__qualname__:
            return data
    except BaseException:  # noqa: BLE001 - user code runs in both directions
        pass
    return b""
