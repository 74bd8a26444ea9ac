"""Python values as bytes: functions, arguments, return values (VAL-1 to VAL-6).

A serialized value is a plain pickle (protocol 5, by cloudpickle where plain pickle would not do), or, when it has large
buffers such as arrays, the framing

    b"\\xffSV1"   u32 n   u64 sizes x (n + 1): the pickle first, then each buffer   the pickle   the buffers

in which the pickle follows the sizes at once and every buffer begins at a multiple of 64 bytes. No pickle begins with
0xff, so the first byte tells the two apart. Large buffers are never copied here: `dumps` returns them as they are, to
be sent one after another, and `loads` of a bytearray builds the arrays over its memory, writable.

Bytecode inside a pickle is made again by `code_of`, which compares versions first: another version's bytecode would
crash this process, or do something else than the program says. What `dumps` returns tells whether there is any.

A process that unpickles runs what the bytes say: only clients and processors may import this module (SEC-3).
"""

from __future__ import annotations

import functools
import pickle
import threading
from collections import ChainMap
from collections.abc import Iterable, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from struct import Struct
from types import CodeType, FunctionType
from typing import Any, ClassVar

import cloudpickle

from scaler_protocol import classes, definitions
from scaler_protocol.code_tag import CODE_TAG, unreadable
from scaler_protocol.definitions import fields_of_code
from scaler_protocol.messages import Buffer

PROTOCOL = 5
MAGIC = b"\xffSV1"
ALIGNMENT = 64

OUT_OF_BAND_BYTES = 16 * 1024
"""Buffers from this size on travel beside the pickle. Smaller ones cost less inside it than a frame of their own."""

LARGE_BYTES = 64 * 1024
"""A bytes object of this size that is a value, or an argument, by itself travels beside the pickle as well, which would
copy it twice or three times. One inside a list or another object does not: pickle offers no way to take it out."""

_HEAD = Struct("<4sI")
_PLAIN_TYPES = frozenset((int, float, complex, bool, str, bytes, type(None)))
_SMALL_TYPES = _PLAIN_TYPES - {bytes}
_BYTES = frozenset((bytes, bytearray))
_NO_KEYWORDS: dict[str, Any] = {}


class ValueFormatError(Exception):
    """These bytes are no serialized value: the peer that made them is broken."""


class TooLarge(Exception):
    """The arguments of a call do not belong into one payload with those of others."""


class CodeVersionError(Exception):
    """A value carries bytecode of another version of Python than the one that reads it."""


class Notes:
    """What came to light while a value was pickled."""

    __slots__ = ("has_code", "kept")

    def __init__(self) -> None:
        #: there is bytecode in it, which only this version of Python can read
        self.has_code = False
        #: what must live as long as the bytes are of use: see `keep`
        self.kept: list[object] = []

    def add(self, other: Notes) -> None:
        self.has_code = self.has_code or other.has_code
        self.kept += other.kept


class Pieces(list[Buffer]):
    """The pieces of a value about which there is something to note. Of all other values they are a plain list."""

    __slots__ = ("notes",)

    def __init__(self, pieces: Iterable[Buffer], notes: Notes) -> None:
        super().__init__(pieces)
        self.notes = notes


class _Here(threading.local):
    notes: Notes | None = None  #: of the value that this thread pickles now


_here = _Here()


def keep(thing: object) -> None:
    """For a `__reduce__`: the sender of the bytes that are being made keeps this as long as the bytes are of use."""
    if _here.notes is not None:
        _here.notes.kept.append(thing)


def code_of(tag: str, *fields: Any) -> CodeType:
    """Stands in pickles where cloudpickle would name `types.CodeType`."""
    if tag != CODE_TAG:
        raise CodeVersionError(unreadable(tag, (CODE_TAG,), "this process"))
    return CodeType(*fields)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    if _here.notes is not None:
        _here.notes.has_code = True
    return code_of, (CODE_TAG, *fields_of_code(code))


def cached_of(function: Any, limit: int | None, is_typed: bool) -> Any:
    """Stands in pickles where plain pickle would write the name of a function with `functools.lru_cache`."""
    return functools.lru_cache(limit, is_typed)(function)


def _reduce_cached(function: Any) -> Any:
    """Functions of the main program, and local ones, have no name that the reader could import."""
    found = cloudpickle.cloudpickle._lookup_module_and_qualname(function)  # its own, which it does not apply to these
    if found is not None and not cloudpickle.cloudpickle._is_registered_pickle_by_value(found[0]):
        return function.__reduce__()
    parameters = function.cache_parameters()
    return cached_of, (function.__wrapped__, parameters["maxsize"], parameters["typed"])


def _reduce_cached_property(found: Any) -> tuple[Any, ...]:
    """Up to Python 3.11 it has a lock, which plain pickle refuses."""
    return functools.cached_property, (found.func,), {"attrname": found.attrname}


_own_reducers, *_other_reducers = cloudpickle.Pickler.dispatch_table.maps


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle's, but for code, classes and what `functools` wraps. (definitions.py)"""

    dispatch_table: ClassVar[Any] = ChainMap(
        {
            **_own_reducers,
            **definitions.REDUCERS,
            CodeType: _reduce_code,
            type(functools.lru_cache(len)): _reduce_cached,
            functools.cached_property: _reduce_cached_property,
        },
        *_other_reducers,
    )

    def reducer_override(self, value: Any) -> Any:
        """Returns how to write a class, a function, or what says itself how. Called for nearly each object."""
        kind = type(value)
        if issubclass(kind, type):
            return classes.reduced_once(value, definitions.reduce_class(value))
        if kind is FunctionType:
            return definitions.reduce_function(value, self._dynamic_function_reduce)
        if definitions.reduces_itself(kind) and kind not in self.dispatch_table:
            return definitions.reduce_by_itself(value)
        return NotImplemented


class PartReference:
    """Stands in the (args, kwargs) of a PACKED call for another part of the same task. (BAT-6)"""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[type[PartReference], tuple[int]]:
        return PartReference, (self.index,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartReference) and other.index == self.index

    def __hash__(self) -> int:
        return hash((PartReference, self.index))

    def __repr__(self) -> str:
        return f"PartReference({self.index})"


class _Aside:
    """Pickled in place of large bytes, which it leaves outside; read back as the bytes themselves."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | bytearray) -> None:
        self._value = value

    def __reduce__(self) -> tuple[type[bytes | bytearray], tuple[pickle.PickleBuffer]]:
        return type(self._value), (pickle.PickleBuffer(self._value),)


def _without_bytes(value: object) -> bytes:
    return pickle.dumps(value, PROTOCOL, buffer_callback=lambda _buffer: None)


#: What large bytes leave of their pickle, alone and as the only argument of a call, is always the same.
_ONE_BYTES = _without_bytes(_Aside(b""))
_ONE_ARGUMENT = _without_bytes(((_Aside(b""),), {}))


def dumps(value: object) -> list[Buffer]:
    """The bytes of a value, in pieces to be sent one after another."""
    if _is_large(value):
        if type(value) is bytes:
            return _frame(_ONE_BYTES, [memoryview(value)])
        value = _Aside(value)  # type: ignore[arg-type]
    elif is_plain(value):
        return [pickle.dumps(value, PROTOCOL)]
    buffers: list[pickle.PickleBuffer] = []
    output, outer = BytesIO(), _here.notes
    try:
        notes = _here.notes = Notes()
        _Pickler(output, protocol=PROTOCOL, buffer_callback=_keep_large(buffers)).dump(value)
    finally:
        _here.notes = outer
    pickled = output.getvalue()
    pieces: list[Buffer] = _frame(pickled, [buffer.raw() for buffer in buffers]) if buffers else [pickled]
    if not notes.has_code and not notes.kept:
        return pieces
    if outer is not None:
        outer.add(notes)
    return Pieces(pieces, notes)


def has_code(pieces: Iterable[Buffer]) -> bool:
    """Whether the value that `dumps` made these of can only be read by this version of Python."""
    return type(pieces) is Pieces and pieces.notes.has_code


def loads(data: Buffer) -> Any:
    """The value that `dumps` made these bytes of. A bytearray is not copied: arrays in the value share its memory."""
    if len(data) and data[0] == MAGIC[0]:
        return _load_framed(data)
    return pickle.loads(data)


def is_plain(value: object) -> bool:
    """True for values that plain pickle writes exactly as cloudpickle would, at a tenth of the cost."""
    kind = type(value)
    if kind is tuple:
        return _PLAIN_TYPES.issuperset(map(type, value))  # type: ignore[call-overload]
    return kind in _PLAIN_TYPES


def _is_large(value: object) -> bool:
    return type(value) in _BYTES and len(value) >= LARGE_BYTES  # type: ignore[arg-type]


def size_of(pieces: Iterable[Buffer]) -> int:
    """How many bytes these pieces have together; they are all one-dimensional views of bytes."""
    return sum(map(len, pieces))


def join(pieces: Sequence[Buffer]) -> Buffer:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def load_many(payload: Buffer, sizes: Iterable[int]) -> list[Any]:
    """The values that lie one after another in a payload.

    Each is read by a call of its own: one Unpickler for all would keep its memo between values, and resetting the
    memo of CPython's crashes some releases.
    """
    view = memoryview(payload)
    load = loads
    values = []
    begin = 0
    for size in sizes:
        end = begin + size
        values.append(load(view[begin:end]))
        begin = end
    return values


def dumps_plain_call(arguments: tuple[Any, ...]) -> bytes | None:
    """The part 0 of a PACKED call with plain arguments. None: they are not, or some are bytes, which may be large."""
    return pickle.dumps((arguments, {}), PROTOCOL) if _SMALL_TYPES.issuperset(map(type, arguments)) else None


def dumps_call(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Buffer]:
    """The part 0 of one PACKED call. (BAT-6)"""
    plain = None if keywords else dumps_plain_call(arguments)
    if plain is not None:
        return [plain]
    if len(arguments) == 1 and not keywords and type(arguments[0]) is bytes and _is_large(arguments[0]):
        return _frame(_ONE_ARGUMENT, [memoryview(arguments[0])])
    # One that is given twice is still one object when it is read.
    aside = {id(value): _Aside(value) for value in (*arguments, *keywords.values()) if _is_large(value)}
    if aside:
        arguments = tuple([aside.get(id(value), value) for value in arguments])
        keywords = {name: aside.get(id(value), value) for name, value in keywords.items()}
    return dumps((arguments, keywords))


class CallPickler:
    """Pickles the arguments of many calls of one function into one payload.

    When all arguments are plain, plain pickle does it. Else all calls share one cloudpickle.Pickler, whose memo is
    cleared after each, so that each call can be read alone.
    """

    def __init__(self) -> None:
        self._output = BytesIO()
        self._buffers: list[pickle.PickleBuffer] = []
        self._pickler = _Pickler(self._output, protocol=PROTOCOL, buffer_callback=_keep_large(self._buffers))
        self.failed_index = 0
        """After an exception from `dump`: which of the calls it was."""
        self.notes: Notes | None = None
        """After `dump`: what came to light while they were pickled; None when they are all plain."""

    def dump(self, calls: Sequence[tuple[Any, ...]]) -> tuple[bytes, list[int]]:
        """The payload of n calls (argument tuples, no keywords), and the size of each in it. TooLarge if one of them
        has a large buffer, which is not to be copied: each is to be dumped by `dumps_call` then."""
        if not _SMALL_TYPES.issuperset(map(type, chain.from_iterable(calls))):
            if any(map(_is_large, chain.from_iterable(calls))):
                raise TooLarge
            if not _PLAIN_TYPES.issuperset(map(type, chain.from_iterable(calls))):
                return self._dump_any(calls)
        self.notes = None
        dump = pickle.dumps
        pieces = [dump((arguments, _NO_KEYWORDS), PROTOCOL) for arguments in calls]
        return b"".join(pieces), list(map(len, pieces))

    def _dump_any(self, calls: Sequence[tuple[Any, ...]]) -> tuple[bytes, list[int]]:
        # The C pickler's own `dump`: cloudpickle's only rewords the errors of deep recursion, which callers do anyway.
        output, buffers = self._output, self._buffers
        dump, clear, tell = partial(pickle.Pickler.dump, self._pickler), self._pickler.clear_memo, output.tell
        output.seek(0)
        output.truncate()
        sizes: list[int] = []
        begin = 0
        outer = _here.notes
        try:
            self.notes = _here.notes = Notes()
            for arguments in calls:
                dump((arguments, _NO_KEYWORDS))
                clear()
                if buffers:
                    if sum(buffer.raw().nbytes for buffer in buffers) >= LARGE_BYTES:
                        raise TooLarge
                    self._frame_last(begin)
                end = tell()
                sizes.append(end - begin)
                begin = end
        finally:
            _here.notes = outer
            self.failed_index = len(sizes)
            clear()
            buffers.clear()
        return output.getvalue(), sizes

    def _frame_last(self, begin: int) -> None:
        """Replace the pickle that begins here by its framing together with the large buffers it left out."""
        output = self._output
        framed = _frame(output.getbuffer()[begin:].tobytes(), [buffer.raw() for buffer in self._buffers])
        self._buffers.clear()
        output.seek(begin)
        output.truncate()
        output.writelines(framed)


def _keep_large(buffers: list[pickle.PickleBuffer]) -> Any:
    """A buffer_callback that takes large buffers out of the pickle; what it answers True for stays inside."""

    def callback(buffer: pickle.PickleBuffer) -> bool:
        if memoryview(buffer).nbytes < OUT_OF_BAND_BYTES:
            return True
        buffers.append(buffer)
        return False

    return callback


def _frame(pickled: bytes, buffers: list[memoryview]) -> list[Buffer]:
    sizes = [len(pickled), *map(len, buffers)]
    head = _HEAD.pack(MAGIC, len(buffers)) + Struct(f"<{len(sizes)}Q").pack(*sizes)
    pieces: list[Buffer] = [head, pickled]
    end = len(head) + len(pickled)
    for buffer in buffers:
        padding = -end % ALIGNMENT
        if padding:
            pieces.append(bytes(padding))
        pieces.append(buffer)
        end += padding + len(buffer)
    return pieces


def framed_parts(data: Buffer) -> tuple[Buffer, list[memoryview]]:
    """The pickle of a serialized value, and the buffers beside it."""
    return _framed_parts(data) if len(data) and data[0] == MAGIC[0] else (data, [])


def _load_framed(data: Buffer) -> Any:
    pickled, buffers = _framed_parts(data)
    return pickle.loads(pickled, buffers=buffers)


def _framed_parts(data: Buffer) -> tuple[Buffer, list[memoryview]]:
    # Arrays over read-only memory would be read-only themselves, which users' code does not expect: copy once.
    view = memoryview(data if not memoryview(data).readonly else bytearray(data))
    if len(view) < _HEAD.size or view[:4] != MAGIC:
        raise ValueFormatError("a value begins with 0xff but not with the framing's magic bytes")
    count = _HEAD.unpack_from(view)[1]
    table = Struct(f"<{count + 1}Q")
    begin = _HEAD.size + table.size
    if begin > len(view):
        raise ValueFormatError("a value's table of buffers is longer than the value")
    sizes = table.unpack_from(view, _HEAD.size)
    end = begin + sizes[0]
    pickled = view[begin:end]
    buffers = []
    for size in sizes[1:]:
        begin = end + -end % ALIGNMENT
        end = begin + size
        buffers.append(view[begin:end])
    if end != len(view):
        raise ValueFormatError(f"a value of {len(view)} bytes says that it has {end}")
    return pickled, buffers
