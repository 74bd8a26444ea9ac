"""How a call is made for a task with flags, and what a task leaves that did not return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler_protocol.codes import FLAG_PROFILING, FLAG_STREAM_OUTPUT, KIND_INLINE, STATUS_FAILED, STATUS_REFUSED
from scaler_protocol.running.errors import Store, TaskFailed, encode_exception
from scaler_protocol.running.output import SendLine, streamed_output
from scaler_protocol.running.profiling import Profile


def call_with_flags(
    flags: int,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    send_line: SendLine,
    is_for_client_only: bool = False,
) -> tuple[Any, bytes]:
    """Returns what the call returns, and its profile: nothing unless the flags ask for one. Raises CallFailed if they
    do and the call raises. `is_for_client_only`: of what it prints, if it streams that."""
    profile = Profile() if flags & FLAG_PROFILING else None
    try:
        if flags & FLAG_STREAM_OUTPUT:
            with streamed_output(send_line, is_for_client_only):
                value = function(*arguments, **keywords)
        else:
            value = function(*arguments, **keywords)
    except BaseException as error:
        if profile is None:
            raise
        raise CallFailed(error, profile.finish()) from error
    return value, profile.finish() if profile else b""


class CallFailed(BaseException):
    """A call raised this error, and cost this profile. It never leaves the caller of `call_with_flags`."""

    def __init__(self, error: BaseException, profile: bytes) -> None:
        self.error = error
        self.profile = profile


def measured_failure(error: BaseException, profile: bytes = b"") -> tuple[BaseException, bytes]:
    """Returns what a task has raised, and its profile: that of its failed call, or this one of a call that returned."""
    return (error.error, error.profile) if type(error) is CallFailed else (error, profile)


def failed_end(error: BaseException, inline_bytes: int, store: Store | None = None) -> tuple[int, int, bytes]:
    """Returns status, kind and value. `store`: for an exception that has no room in the value."""
    is_refused = isinstance(error, TaskFailed) and error.is_refusal
    return STATUS_REFUSED if is_refused else STATUS_FAILED, KIND_INLINE, encode_exception(error, inline_bytes, store)
