"""Values without objects: for programs that do not trust the workers whose results they read.

A pickle may name any function of any module, and reading it calls that function. This reader executes only the opcodes
that plain values need, and looks names up in a list of its own. So it makes numbers, texts, bytes and collections of
the standard library, whatever the bytes say. Three further hazards, each of which a few hundred bytes are enough for:

* BUILD sets attributes of whatever lies on the stack, also of a function that a name stands for, and such a change
  would outlive the value. BUILD and every other opcode that makes objects is refused.
* A name without a call would be a function in the place of a value. It is refused.
* The hash of a tuple recurses in C without a bound, and costs as many steps as the tuple has when it is written out.
  Each key is therefore measured before it is hashed.

The reader is Python's own unpickler in Python, so reading takes about a microsecond for each number or text. It does
not bound the memory of what the bytes really hold.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from scaler_protocol import values
from scaler_protocol.messages import Buffer


class NotPlain(pickle.UnpicklingError):
    """A value that holds more than plain types."""


def loads(data: Buffer) -> Any:
    """Returns what `values.loads` returns, for plain values only. Raises NotPlain, or whatever unpickling raises."""
    pickled, buffers = values.framed_parts(data)
    return _PlainUnpickler(pickled, buffers).load()


def _bytes(content: Any = b"") -> bytes:
    """Without `bytes(10**12)`, which is that many zeros."""
    return bytes(_checked(content))


def _bytearray(content: Any = b"") -> bytearray:
    return bytearray(_checked(content))


def _checked(content: Any) -> Any:
    if not isinstance(content, bytes | bytearray | memoryview | pickle.PickleBuffer):
        raise NotPlain("bytes that are made of something else than bytes")
    return content


def _listed(items: Any) -> Any:
    """Returns the argument of a collection; raises NotPlain for `range(10**12)`, which is that many numbers."""
    if not isinstance(items, list | tuple | set | frozenset | deque):
        raise NotPlain("a collection that is made of something else than a list")
    return items


def _deque(items: Any = (), maxlen: int | None = None) -> deque[Any]:
    return deque(_listed(items), maxlen)


def _set(items: Any = ()) -> set[Any]:
    return set(_listed(items))


def _frozenset(items: Any = ()) -> frozenset[Any]:
    return frozenset(_listed(items))


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict(_listed(items))


#: What pickles of plain values name. None of them calls anything that it is given.
_NAMES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "range"): range,
    ("builtins", "slice"): slice,
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): _frozenset,
    ("collections", "OrderedDict"): _ordered,
    ("collections", "deque"): _deque,
}


_NESTED = 1_000
"""A key is nested so deep at most: far below what ends a process, and as deep as Python's pickler itself goes."""
_KEY_ITEMS = 10_000_000
"""All keys of a value have so many items in all, each counted as often as a hash visits it: a second of hashing."""

#: All opcodes of plain values, in every version of pickle.
_OPCODES = """
    PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4
    FLOAT BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
    BYTEARRAY8 NEXT_BUFFER READONLY_BUFFER EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2
    TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET GLOBAL STACK_GLOBAL REDUCE GET BINGET
    LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE
"""


class _Name:
    """Stands on the stack for a name, until REDUCE calls it. Nothing can be set on it."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)


class _Opcodes(dict[int, Any]):
    def __missing__(self, opcode: int) -> NoReturn:
        raise NotPlain(f"opcode {opcode} makes an object, and this client reads plain types only (trust_results=False)")


_Unpickler: Any = pickle._Unpickler  # in Python, so that its opcodes can be left out one by one


class _PlainUnpickler(_Unpickler):  # type: ignore[misc] # typeshed leaves most of it out
    def __init__(self, data: Buffer, buffers: Iterable[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._key_items = 0
        self._has_names = False

    def load(self) -> Any:
        value = super().load()
        if self._has_names:
            _check_names(value)
        return value

    def find_class(self, module: str, name: str) -> _Name:
        found = _NAMES.get((module, name))
        if found is None:
            raise NotPlain(f"it has a {module}.{name}, and this client reads plain types only (trust_results=False)")
        self._has_names = True
        return _Name(found)

    # ------------------------------------------------------------ opcodes that hash, call, or ask for memory

    def load_setitem(self) -> None:
        self._measure(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        self._measure(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        self._measure(self.stack[::2])
        super().load_dict()

    def load_additems(self) -> None:
        self._measure(self.stack)
        super().load_additems()

    def load_frozenset(self) -> None:
        self._measure(self.stack)
        super().load_frozenset()

    def load_reduce(self) -> None:
        if type(self.stack[-2]) is not _Name:
            raise NotPlain("it calls something that is no name")
        self._measure(self.stack[-1:])
        super().load_reduce()

    def load_bytearray8(self) -> None:
        """Replaces a method that makes the array, full of zeros, before it looks for the bytes."""
        (size,) = struct.unpack("<Q", self.read(8))
        content = bytearray(self.read(size))
        if len(content) < size:
            raise EOFError
        self.append(content)

    def _measure(self, keys: Iterable[Any]) -> None:
        """Raises NotPlain if the hashes of these keys would recurse too deep or take too many steps."""
        level = [key for key in keys if type(key) in _NESTING]
        depth = 0
        while level:
            depth += 1
            inner = []
            for one in level:
                items = (one.start, one.stop, one.step) if type(one) is slice else one
                self._key_items += len(items)
                if self._key_items > _KEY_ITEMS or depth > _NESTED:
                    raise NotPlain("a key that is nested so deep, or has so many items, that it is not hashed")
                inner += [item for item in items if type(item) in _NESTING]
            level = inner


#: What a hash looks into; a list is an argument of a set or an OrderedDict, whose items are keys.
_NESTING = frozenset((tuple, list, slice))


def _opcodes() -> _Opcodes:
    """Returns the methods of this reader by opcode. All other opcodes are refused."""
    codes = [ord(getattr(pickle, name)) for name in _OPCODES.split()]
    return _Opcodes({code: getattr(_PlainUnpickler, _Unpickler.dispatch[code].__name__) for code in codes})


_PlainUnpickler.dispatch = _opcodes()


def _check_names(value: Any) -> None:
    """Raises NotPlain if a name that was not called is a part of this value."""
    seen: set[int] = set()
    rest = [value]
    while rest:
        one = rest.pop()
        if type(one) is _Name:
            raise NotPlain("it has a name in the place of a value")
        if type(one) in _CONTAINERS and id(one) not in seen:
            seen.add(id(one))
            rest += _items_of(one)


_CONTAINERS = frozenset((list, tuple, dict, set, frozenset, deque, OrderedDict, slice))


def _items_of(one: Any) -> Iterable[Any]:
    if isinstance(one, dict):
        return [*one, *one.values()]
    return (one.start, one.stop, one.step) if isinstance(one, slice) else list(one)
