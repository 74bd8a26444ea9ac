"""Calls whose function travels with them, as their last argument, and not through the storage.

A function that is used once, such as a partial or a closure over the data of one call, would cost a request to store
it, one to fetch it and one to release it: thirty times the call itself. The task names another function instead,
`call`, which every Python worker has. Its bytes carry the name of the function that goes along, so that those who watch
see what runs; all of one name are one object in the storage.
"""

from __future__ import annotations

import pickle
from struct import pack
from typing import Any

from scaler_protocol import values


class FunctionAlong:
    """Stands for a function among the arguments of `call`. It is read with them, before the objects that arguments
    refer to: a call has the classes that the function brings, and an object may bring an older state of them."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return function_of, (self._content,)


def function_of(content: bytes) -> Any:
    """Returns the function of these bytes, in a processor. Raises TaskFailed if they cannot be read."""
    try:
        return values.loads(content)
    except MemoryError:
        raise
    except Exception as error:
        from scaler_protocol.running.errors import unreadable  # clients import this module, and nothing that runs tasks

        raise unreadable("the task's function, which came with the call,", error) from error


def call(*arguments: Any, **keywords: Any) -> Any:
    """Calls the last argument with the others, in a processor."""
    *given, function = arguments
    return function(*given, **keywords)


def caller_of(name: str, *, has_code: bool) -> bytes:
    """The function `call` as bytes; another object in the storage for each name."""
    label = f"{'code' if has_code else 'plain'}:{name}".encode("utf-8", "replace")
    named = pickle.BINUNICODE + pack("<I", len(label)) + label + pickle.POP
    return named + pickle.GLOBAL + f"{call.__module__}\n{call.__qualname__}\n".encode() + pickle.STOP
