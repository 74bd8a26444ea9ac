"""Values without objects: for programs that do not trust the workers whose results they read.

A pickle may name any function of any module, and reading it calls that function. This reader looks names up in a list
of its own instead. So it makes numbers, texts, bytes and collections of the standard library, whatever the bytes say.
It does not bound the memory that the bytes ask for, beyond the MemoryError that the system answers with.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from scaler_protocol import values
from scaler_protocol.messages import Buffer


class NotPlain(pickle.UnpicklingError):
    """A value that holds more than plain types."""


def loads(data: Buffer) -> Any:
    """As `values.loads`, for plain values only. NotPlain, or whatever unpickling raises, for others."""
    pickled, buffers = values.framed_parts(data)
    return _PlainUnpickler(io.BytesIO(pickled), buffers=buffers).load()


def _bytes(content: Any = b"") -> bytes:
    """Without `bytes(10**12)`, which is that many zeros."""
    return bytes(_checked(content))


def _bytearray(content: Any = b"") -> bytearray:
    return bytearray(_checked(content))


def _checked(content: Any) -> Any:
    if not isinstance(content, bytes | bytearray | memoryview | pickle.PickleBuffer):
        raise NotPlain("bytes that are made of something else than bytes")
    return content


def _deque(items: Iterable[Any] = (), maxlen: int | None = None) -> deque[Any]:
    return deque(items, maxlen)


#: What pickles of plain values name. None of them calls anything that it is given.
_NAMES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "range"): range,
    ("builtins", "slice"): slice,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "deque"): _deque,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        found = _NAMES.get((module, name))
        if found is None:
            raise NotPlain(f"it has a {module}.{name}, and this client reads plain types only (trust_results=False)")
        return found

    def persistent_load(self, _: Any) -> NoReturn:
        raise NotPlain("it refers to something outside itself")
