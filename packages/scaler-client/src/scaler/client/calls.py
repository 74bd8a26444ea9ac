"""From a call as the program writes it to a submission: serializing, and what travels where. (CLI-4, BAT-6)

Everything here runs in the caller's thread, so that what cannot be serialized fails at the line that wrote it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from scaler.client.connection import Connection
from scaler.client.core.records import Collector, Submission
from scaler.client.functions import FunctionMemory
from scaler.client.object_reference import ObjectReference
from scaler.client.serializer.mixins import Serializer
from scaler.utility.exceptions import MissingObjects
from scaler_protocol import codes, task_context, values
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Buffer, Capability, TaskHeader

_log = logging.getLogger("scaler")

LARGE_BYTES = 64 * 1024 * 1024
"""From this size on, a function or argument is worth a warning: it is probably not what its author thinks it is."""

_CALL_INLINE_BYTES = 1024 * 1024
"""All inline parts of one call together; what goes beyond is stored, so that a batch stays below its limit."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What a program may ask for besides the call itself."""

    capabilities: tuple[Capability, ...] = ()
    priority: int = 0
    retries: int = 0
    timeout_seconds: float = 0.0


NO_OPTIONS = CallOptions()


class Part(NamedTuple):
    """A part of a call: the pieces of its bytes, or the 16 bytes of an id."""

    pieces: Sequence[Buffer]
    size: int
    kind: int = codes.KIND_INLINE

    @classmethod
    def of_id(cls, number: bytes, kind: int) -> Part:
        return cls((number,), len(number), kind)


class Calls:
    """What one client handle knows about its calls: functions and objects it has sent, the headers it uses."""

    def __init__(self, connection: Connection, serializer: Serializer | None, flags: int, owner: object) -> None:
        self.connection = connection
        self.owner = owner
        self.serializer = serializer
        self._flags = flags
        self._lock = threading.Lock()
        self._memory = FunctionMemory()
        self._headers: dict[object, TaskHeader] = {}
        self._serializer_id: ObjectId | None = None
        self._references: set[ObjectId] = set()
        self._is_warned = False
        self.pickler_lock = threading.Lock()
        self.pickler = values.CallPickler()

    # ------------------------------------------------------------ one call

    def single(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        options: CallOptions,
        task_id: TaskId,
        collector: Collector,
    ) -> Submission:
        return self.single_of(self.function_id(function), arguments, keywords, options, task_id, collector)

    def single_of(
        self,
        function_id: ObjectId,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        options: CallOptions,
        task_id: TaskId,
        collector: Collector,
    ) -> Submission:
        if self.serializer is not None:
            header = self.header(options, keywords=tuple(keywords))
            return self.submission(header, function_id, task_id, self._separate(arguments, keywords), collector)
        header = self.header(options)
        parts = self._packed(arguments, keywords)
        if len(parts) > 1 or parts[0].size > self.connection.inline_bytes:
            return self.submission(header, function_id, task_id, parts, collector)
        part = parts[0]
        payload = values.join(part.pieces)
        return Submission(header, function_id, (task_id,), payload, (part.size,), collector, self.owner)

    def submission(
        self,
        header: TaskHeader,
        function_id: ObjectId,
        task_id: TaskId,
        parts: Sequence[Part],
        collector: Collector | None,
    ) -> Submission:
        """One task of these parts. Those that are too large to ride along are stored first."""
        parts, objects = self._store_large(parts)
        is_plain = len(parts) == 1 and parts[0].kind == codes.KIND_INLINE
        return Submission(
            header=header,
            function=function_id,
            ids=(task_id,),
            payload=values.join([piece for part in parts for piece in part.pieces]),
            part_sizes=tuple([part.size for part in parts]),
            collector=collector,
            owner=self.owner,
            part_counts=() if len(parts) == 1 else (len(parts),),
            part_kinds=b"" if is_plain else bytes([part.kind for part in parts]),
            objects=objects,
        )

    def _packed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Part]:
        """Part 0 is the call, in which references stand for the objects that follow as parts."""
        parts: list[Part] = []
        if any(type(one) is ObjectReference for one in (*arguments, *keywords.values())):
            arguments = tuple([self._stand_in(one, parts) for one in arguments])
            keywords = {name: self._stand_in(one, parts) for name, one in keywords.items()}
        try:
            pieces = values.dumps_call(arguments, keywords)
        except Exception as error:
            raise _unserializable(arguments, keywords, error) from error
        size = values.size_of(pieces)
        if size >= LARGE_BYTES:
            self.warn_large("the arguments of a call", size)
        return [Part(pieces, size), *parts]

    def _stand_in(self, argument: Any, parts: list[Part]) -> Any:
        if type(argument) is not ObjectReference:
            return argument
        parts.append(self.object_part(argument))
        return values.PartReference(len(parts))

    def _separate(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Part]:
        """Each argument by the program's own serializer."""
        assert self.serializer is not None
        parts = []
        for name, argument in _by_name(arguments, keywords):
            if type(argument) is ObjectReference:
                parts.append(self.object_part(argument))
                continue
            try:
                data = self.serializer.serialize(argument)
                parts.append(Part((data,), len(data)))
            except Exception as error:
                raise TypeError(f"{_named(name, argument)} cannot be serialized: {error}") from error
        return parts

    def _store_large(self, parts: Sequence[Part]) -> tuple[Sequence[Part], tuple[ObjectId, ...]]:
        limit = self.connection.inline_bytes
        if len(parts) == 1 and parts[0].size <= limit:
            return parts, ()
        kept: list[Part] = []
        objects: list[ObjectId] = []
        inline_bytes = 0
        for part in parts:
            if part.kind != codes.KIND_INLINE:
                kept.append(part)
            elif part.size > limit or inline_bytes + part.size > _CALL_INLINE_BYTES:
                objects.append(self.connection.storage.put(part.pieces))
                kept.append(Part.of_id(objects[-1], codes.KIND_OBJECT))
            else:
                inline_bytes += part.size
                kept.append(part)
        return kept, tuple(objects)

    # ------------------------------------------------------------ functions

    def function_id(self, function: Any) -> ObjectId:
        """Where the cluster finds this function; stores it when it is new there."""
        with self._lock:
            known: ObjectId | None = self._memory.recall(function)
        if known is not None:
            return known
        if not callable(function):
            raise TypeError(f"the first argument must be callable, got {type(function).__name__}")
        try:
            pieces = values.dumps(function if self.serializer is None else _BySerializer(self.serializer, function))
        except Exception as error:
            raise TypeError(f"the function {_name_of(function)} cannot be serialized: {error}") from error
        size = values.size_of(pieces)
        if size >= LARGE_BYTES:
            self.warn_large(f"the function {_name_of(function)}", size)
        object_id = self.connection.storage.put_function(pieces)
        with self._lock:
            self._memory.remember(function, object_id)
        return object_id

    # ------------------------------------------------------------ headers

    def header(self, options: CallOptions = NO_OPTIONS, keywords: tuple[str, ...] = (), flags: int = 0) -> TaskHeader:
        """Equal calls share one header object: the outbox compares identities."""
        context = task_context.current()
        parent = None if context is None else (context.task_id, context.depth)
        key = (options, keywords, flags, parent)
        header = self._headers.get(key)
        if header is None:
            if len(self._headers) > 256:
                self._headers.clear()
            header = self._headers[key] = self._make_header(options, keywords, flags)
        return header

    def _make_header(self, options: CallOptions, keywords: tuple[str, ...], flags: int) -> TaskHeader:
        header = TaskHeader(
            call_format=codes.CALL_PACKED if self.serializer is None else codes.CALL_SEPARATE,
            keywords=keywords,
            capabilities=options.capabilities,
            priority=options.priority,
            flags=self._flags | flags,
            timeout_seconds=options.timeout_seconds,
            retries=options.retries,
        )
        if self.serializer is not None:
            header = replace(header, serializer=self._stored_serializer())
        context = task_context.current()
        if context is not None:
            header = replace(header, depth=context.depth + 1, parent_task=context.task_id)
        return header

    def _stored_serializer(self) -> ObjectId:
        if self._serializer_id is None:
            self._serializer_id = self.connection.storage.put_function(values.dumps(self.serializer))
        return self._serializer_id

    # ------------------------------------------------------------ objects

    def send_object(self, value: Any, name: str | None) -> ObjectReference:
        try:
            pieces = [self.serializer.serialize(value)] if self.serializer is not None else values.dumps(value)
        except Exception as error:
            raise TypeError(f"the object of type {type(value).__name__} cannot be serialized: {error}") from error
        object_id = self.connection.storage.put(pieces)
        with self._lock:
            self._references.add(object_id)
        label = name if name is not None else f"<object {type(value).__name__}>"
        return ObjectReference(label.encode(), values.size_of(pieces), object_id)

    def object_part(self, reference: ObjectReference) -> Part:
        if reference.object_id not in self._references:
            raise MissingObjects(
                f"{reference!r} is not an object of this client: it was cleared, or another client has sent it"
            )
        return Part.of_id(reference.object_id, codes.KIND_OBJECT)

    def release_references(self) -> None:
        """Every reference given out so far is invalid from now on."""
        with self._lock:
            ids, self._references = self._references, set()
        if ids:
            self.connection.storage.release(ids)

    def warn_large(self, what: str, size: int) -> None:
        if self._is_warned:
            return
        self._is_warned = True
        _log.warning(
            "%s has %.0f MiB when serialized: send what is used often once with send_object()", what, size / 2**20
        )


class _BySerializer:
    """Reads back as what the program's own serializer makes of a function, for whoever knows only the default one."""

    def __init__(self, serializer: Serializer, value: Any) -> None:
        self._deserialize = serializer.deserialize
        self._data = serializer.serialize(value)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return self._deserialize, (self._data,)


def capabilities_of(wanted: dict[str, int] | Iterable[str] | None) -> tuple[Capability, ...]:
    """As programs write them, in one order: equal demands make equal headers."""
    if not wanted:
        return ()
    amounts = wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, -1)
    return tuple(Capability(name, amount) for name, amount in sorted(amounts.items()))


def _unserializable(arguments: tuple[Any, ...], keywords: dict[str, Any], error: Exception) -> TypeError:
    """The error for the caller's line: which of the arguments it was, found by trying each alone."""
    for name, argument in _by_name(arguments, keywords):
        try:
            values.dumps(argument)
        except Exception as cause:  # noqa: BLE001
            return TypeError(f"{_named(name, argument)} cannot be serialized: {cause}")
    return TypeError(f"the arguments cannot be serialized: {error}")


def _by_name(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[tuple[int | str, Any]]:
    return [*enumerate(arguments), *keywords.items()]


def _named(name: int | str, argument: Any) -> str:
    where = f"argument {name + 1}" if isinstance(name, int) else f"argument {name!r}"
    return f"{where} (of type {type(argument).__name__})"


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)[:80])
