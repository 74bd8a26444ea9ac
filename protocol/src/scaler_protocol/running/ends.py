"""How a call is made for a task with flags, and what a task leaves that did not return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler_protocol.codes import FLAG_PROFILING, FLAG_STREAM_OUTPUT, KIND_INLINE, STATUS_FAILED, STATUS_REFUSED
from scaler_protocol.running.errors import TaskFailed, encode_exception
from scaler_protocol.running.output import SendLine, streamed_output
from scaler_protocol.running.profiling import Profile


def call_with_flags(
    flags: int,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    send_line: SendLine,
) -> tuple[Any, bytes]:
    """What the call returns, and its profile: nothing unless the flags ask for one."""
    profile = Profile() if flags & FLAG_PROFILING else None
    if flags & FLAG_STREAM_OUTPUT:
        with streamed_output(send_line):
            value = function(*arguments, **keywords)
    else:
        value = function(*arguments, **keywords)
    return value, profile.finish() if profile else b""


def failed_end(error: BaseException, inline_bytes: int) -> tuple[int, int, bytes]:
    """Status, kind and value."""
    is_refused = isinstance(error, TaskFailed) and error.is_refusal
    return STATUS_REFUSED if is_refused else STATUS_FAILED, KIND_INLINE, encode_exception(error, inline_bytes)
