"""From a call as the program writes it to a submission: serializing, and what travels where. (CLI-4, BAT-6)

Everything here runs in the caller's thread, so that what cannot be serialized fails at the line that wrote it.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from scaler.client.core.events import Named
from scaler.client.core.records import Collector, Submission
from scaler.client.future import ScalerFuture
from scaler.client.futures.interrupts import pass_on
from scaler.client.io.connection import Connection
from scaler.client.object_reference import CLEARED, FOREIGN, Handle, ObjectReference, StoredObject, new_reference
from scaler.client.objects.functions import StoredFunction
from scaler.client.objects.puts import Puts
from scaler.client.serializer.mixins import Serializer
from scaler.client.submitting import repeats, unserializable
from scaler.client.submitting.along import Along
from scaler.client.submitting.deferred import Call, Deferred
from scaler.client.submitting.functions import FunctionMemory, SentAlong, travels_by_name
from scaler.client.submitting.options import NO_OPTIONS, CallOptions
from scaler.client.submitting.parts import Part, Picklers, check_parts, deserialized
from scaler.client.submitting.pipeline import Pipeline
from scaler.utility.exceptions import MissingObjects
from scaler_protocol import codes, task_context, values
from scaler_protocol.along import FunctionAlong
from scaler_protocol.code_tag import CODE_TAG
from scaler_protocol.ids import TaskId, content_id
from scaler_protocol.messages import NO_OBJECT, Buffer, TaskHeader

_log = logging.getLogger("scaler")

LARGE_BYTES = 64 * 1024 * 1024
"""From this size on, a function or argument is worth a warning: it is probably not what its author thinks it is."""

_CALL_INLINE_BYTES = 1024 * 1024
"""All inline parts of one call together; what goes beyond is stored, so that a batch stays below its limit."""

_FUTURES = frozenset((ScalerFuture, concurrent.futures.Future))
STAND_INS = frozenset((ObjectReference, *_FUTURES))
"""What is replaced by the value it stands for, when it is an argument of its own."""


class Calls:
    """What one client handle knows about its calls: functions and objects it has sent, the headers it uses."""

    def __init__(self, connection: Connection, serializer: Serializer | None, flags: int, owner: object) -> None:
        self.connection = connection
        self.owner = owner
        self.serializer = serializer
        self._flags = flags
        self._memory = FunctionMemory()
        self._along = Along(connection.storage.functions)
        self._headers: dict[object, TaskHeader] = {}
        self._own_serializer: StoredFunction | None = None
        #: of the references that the program still has
        self._handles: WeakSet[Handle] = WeakSet()
        self._is_warned = False
        self._repeats = repeats.Repeats()
        #: of the `map`s that run now: what their threads gather
        self.maps: set[Any] = set()
        #: what the functions import that are used from now on
        self.code_set: StoredFunction | None = None
        self.picklers = Picklers()

    # ------------------------------------------------------------ one call

    def submit(
        self,
        function: StoredFunction,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        options: CallOptions,
        task_id: TaskId,
        collector: Collector,
        pipeline: Pipeline | None = None,
    ) -> int:
        """Send one call: at once, or when the futures among its arguments have ended. Returns the size of its parts in
        bytes. With a pipeline, what has to be stored first need not be there before this returns."""
        plain = None if keywords or self.serializer is not None else values.dumps_plain_call(arguments)
        if plain is not None and len(plain) <= self.connection.inline_bytes:
            header = self.header(options, has_code=function.has_code, code_set=function.code_set)
            self._post_inline(header, function, task_id, plain, collector, function)
            return len(plain)
        futures: dict[int, concurrent.futures.Future[Any]] = {}
        if plain is None and (self.serializer is not None or not _is_plain(arguments, keywords)):
            parts, futures = self._with_stand_ins(arguments, keywords)
        else:
            part = self._packed(arguments, keywords) if plain is None else self._warned([plain])
            if part.size <= self.connection.inline_bytes:
                has_code = function.has_code or part.has_code
                header = self.header(options, has_code=has_code, code_set=function.code_set)
                kept = (function, *part.kept) if part.kept else function
                self._post_inline(header, function, task_id, values.join(part.pieces), collector, kept)
                return part.size
            parts = [part]
        self._check(parts, () if self.serializer is None else tuple(keywords))
        size = sum([part.size for part in parts])
        names = () if self.serializer is None else tuple(keywords)
        header = self.header(options, names, has_code=function.has_code, code_set=function.code_set)
        with self.connection.storage.puts() as puts:
            if futures:
                own = self._taken(parts, puts)
                deferred = Deferred(self, Call(header, function, task_id, own, collector), puts, futures)
            else:
                submission = self._begin(Call(header, function, task_id, parts, collector), puts)
                if pipeline is None:
                    puts.finish()
        # From here on the puts live as long as the call that refers to them.
        if futures:
            deferred.start()
        elif pipeline is not None:
            pipeline.add(submission, puts)
        else:
            self.connection.post(submission)
            puts.hand_over()
        return size

    def _post_inline(
        self,
        header: TaskHeader,
        function: StoredFunction,
        task_id: TaskId,
        part: Buffer,
        collector: Collector,
        kept: object,
    ) -> None:
        """A call that is one part and rides along: nearly every one."""
        ids, sizes = (task_id,), (len(part),)
        self.connection.post(Submission(header, function.object_id, ids, part, sizes, collector, self.owner, kept))

    def _check(self, parts: Sequence[Part], keywords: tuple[str, ...] = ()) -> None:
        assert self.connection.welcome is not None, "a connection is given out when it is open"
        check_parts(len(parts), keywords, self.connection.welcome.limits)

    def has_to_store(self, parts: Sequence[Part]) -> bool:
        """Some of these are too large to ride along, so `submission` will wait for the storage."""
        sizes = [part.size for part in parts if part.kind == codes.KIND_INLINE]
        return sum(sizes) > _CALL_INLINE_BYTES or max(sizes, default=0) > self.connection.inline_bytes

    def pipeline(self) -> Pipeline:
        return Pipeline(lambda ready: self.connection.post(*ready, is_batch=True))

    def submission(self, call: Call, puts: Puts) -> Submission:
        """One task of these parts. Those that are too large to ride along are stored first."""
        self._check(call.parts)
        submission = self._begin(call, puts)
        puts.finish()
        return submission

    def _begin(self, call: Call, puts: Puts) -> Submission:
        """May leave when the puts are finished."""
        header, function, task_id, parts, collector = call
        if not header.code_tag and any(part.has_code for part in parts):
            header = replace(header, code_tag=CODE_TAG)
        parts = self._store_large(parts, puts)
        kept = [one for part in parts for one in part.kept]
        is_plain = len(parts) == 1 and parts[0].kind == codes.KIND_INLINE
        return Submission(
            header=header,
            function=function.object_id,
            ids=(task_id,),
            payload=values.join([piece for part in parts for piece in part.pieces]),
            part_sizes=tuple([part.size for part in parts]),
            collector=collector,
            owner=self.owner,
            part_counts=() if len(parts) == 1 else (len(parts),),
            part_kinds=b"" if is_plain else bytes([part.kind for part in parts]),
            objects=tuple(puts.ids),
            kept=(function, *kept),
        )

    def _packed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Part:
        try:
            pieces = values.dumps_call(arguments, keywords)
        except Exception as error:
            raise unserializable.error_of(arguments, keywords, error) from error
        return self._warned(pieces)

    def _warned(self, pieces: Sequence[Buffer]) -> Part:
        part = Part.of_pieces(pieces)
        if part.size >= LARGE_BYTES:
            self.warn_large("the arguments of a call", part.size)
        return part

    def _with_stand_ins(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[list[Part], dict[int, concurrent.futures.Future[Any]]]:
        """The parts, and which of them are futures that have yet to be taken.

        Packed, part 0 is the call, in which references stand for the parts that follow. A serializer of the program's
        own makes a part of each argument.
        """
        parts: list[Part] = []
        futures: dict[int, concurrent.futures.Future[Any]] = {}
        if self.serializer is not None:
            for name, argument in unserializable.by_name(arguments, keywords):
                if type(argument) in STAND_INS:
                    self._add_stand_in(argument, parts, futures)
                else:
                    parts.append(self._argument_part(name, argument))
            return parts, futures
        parts.append(Part.of_id(b"", codes.KIND_INLINE))  # until it is known what it refers to

        def replaced(argument: Any) -> Any:
            if type(argument) not in STAND_INS:
                return argument
            self._add_stand_in(argument, parts, futures)
            return values.PartReference(len(parts) - 1)

        positional = tuple([replaced(one) for one in arguments])
        parts[0] = self._packed(positional, {name: replaced(one) for name, one in keywords.items()})
        return parts, futures

    def _add_stand_in(
        self, argument: Any, parts: list[Part], futures: dict[int, concurrent.futures.Future[Any]]
    ) -> None:
        if type(argument) is ObjectReference:
            parts.append(self.object_part(argument))
        else:
            futures[len(parts)] = argument
            parts.append(Part.of_id(b"", codes.KIND_INLINE))

    def _argument_part(self, name: int | str, argument: Any) -> Part:
        try:
            return self.value_part(argument)
        except Exception as error:
            pass_on(error)
            raise TypeError(f"{unserializable.named(name, argument)} cannot be serialized: {error}") from error

    def deserialize(self, data: Any) -> Any:
        return deserialized(self.serializer, data, is_trusted=self.connection.trusts_results)

    def value_part(self, value: Any) -> Part:
        """A value as a part of its own. Runs user code."""
        return Part.of_pieces(values.dumps(value) if self.serializer is None else [self.serializer.serialize(value)])

    def _taken(self, parts: list[Part], puts: Puts) -> list[Part]:
        """The same parts for a call that leaves later. The program may change what is in its buffers meanwhile: this
        call has what they were."""
        stored = self._store_large(parts, puts)
        puts.finish()
        return [part._replace(pieces=(bytes(values.join(part.pieces)),)) for part in stored]

    def _store_large(self, parts: Sequence[Part], puts: Puts) -> Sequence[Part]:
        """A part that is stored refers to its `Puts`: an interrupt of the post releases nothing that a task takes."""
        limit = self.connection.inline_bytes
        if len(parts) == 1 and parts[0].size <= limit:
            return parts
        kept: list[Part] = []
        inline_bytes = 0
        for part in parts:
            if part.kind != codes.KIND_INLINE:
                kept.append(part)
            elif part.size > limit or inline_bytes + part.size > _CALL_INLINE_BYTES:
                stored = Part.of_id(puts.start(part.pieces), codes.KIND_OBJECT)
                kept.append(stored._replace(has_code=part.has_code, kept=(*part.kept, puts)))
            else:
                inline_bytes += part.size
                kept.append(part)
        return kept

    # ------------------------------------------------------------ functions

    def function(self, function: Any, *, is_changed: bool = False) -> StoredFunction:
        """Where the cluster finds this function; stores it when it is new there, or may have changed unnoticed."""
        known = self._known(function, is_changed=is_changed)
        return self._stored(function, *self._serialized(function)) if known is None else known

    def callee(
        self, function: Any, arguments: tuple[Any, ...], *, is_changed: bool = False
    ) -> tuple[StoredFunction, tuple[Any, ...]]:
        """The same for a single call, and the arguments of that: a function that is probably used once goes with it."""
        known = None if is_changed else self._memory.latest(function)
        if known is None:
            known = self._known(function, is_changed=is_changed)
        if known is not None:
            return known, arguments
        content, has_code = self._serialized(function)
        if len(content) >= repeats.LARGE_BYTES:
            self._note_repeat(function, len(content))
        if self.serializer is not None or self._is_own(content) or not self._along.takes(function, content):
            return self._stored(function, content, has_code), arguments
        name = self.name_of(function)
        caller, is_new = self._along.caller(name, has_code=has_code)
        self._memory.remember(function, SentAlong(content, has_code))
        if is_new:
            self.connection.post(Named(caller.object_id, name), is_batch=True)
        return caller.importing(self.code_set), (*arguments, FunctionAlong(content))

    def _known(self, function: Any, *, is_changed: bool) -> StoredFunction | None:
        known = None if is_changed else self._memory.recall(function)
        if isinstance(known, SentAlong):
            return self._stored(function, *known)
        if known is None and not callable(function):
            raise TypeError(f"the first argument must be callable, got {type(function).__name__}")
        return known

    def _serialized(self, function: Any) -> tuple[bytes, bool]:
        """Its bytes, and whether there is code in them."""
        try:
            pieces = values.dumps(function if self.serializer is None else _BySerializer(self.serializer, function))
        except Exception as error:
            pass_on(error)
            reason = self.reason_of(function, error)
            raise TypeError(f"the function {self.name_of(function)} cannot be serialized: {reason}") from error
        size = values.size_of(pieces)
        if size >= LARGE_BYTES:
            self.warn_large(f"the function {self.name_of(function)}", size)
        # A serializer of the program's own does not tell what it writes for a function that cannot be imported.
        has_code = values.has_code(pieces) or (self.serializer is not None and not travels_by_name(function))
        return bytes(values.join(pieces)), has_code

    def _note_repeat(self, function: Any, size: int) -> None:
        name = self.name_of(function)
        count = self._repeats.has_to_tell(name, size)
        if count:
            repeats.tell(name, function, count, size)

    def reason_of(self, value: Any, error: Exception) -> str:
        return str(error) if self.serializer is not None else unserializable.reason_of(value, error)

    def _stored(self, function: Any, content: bytes, has_code: bool) -> StoredFunction:
        if self._is_own(content):
            # Its own client keeps it. Not to be remembered: another task may run here when it is called again.
            return StoredFunction(content_id(content), len(content), has_code=has_code, code_set=self.code_set)
        stored, is_new = self.connection.storage.functions.put([content], has_code=has_code)
        if is_new:
            self.connection.post(Named(stored.object_id, self.name_of(function)), is_batch=True)
        stored = stored.importing(self.code_set)
        self._memory.remember(function, stored)
        return stored

    def name_of(self, function: Any) -> str:
        # Never its repr: that of a partial shows all it holds, which may be the very reason why we speak of it.
        function = getattr(function, "func", function)
        return str(getattr(function, "__qualname__", None) or type(function).__qualname__)

    @staticmethod
    def _is_own(content: bytes) -> bool:
        """It is the function of the task that this runs in."""
        context = task_context.current()
        return context is not None and context.function == content_id(content)

    def forget_functions(self) -> None:
        """Each may have changed unnoticed."""
        self._memory.clear()

    # ------------------------------------------------------------ headers

    def header(
        self,
        options: CallOptions = NO_OPTIONS,
        keywords: tuple[str, ...] = (),
        *,
        has_code: bool,
        code_set: StoredFunction | None = None,
    ) -> TaskHeader:
        """Equal calls share one header object: the outbox compares identities."""
        context = task_context.current()
        parent = None if context is None else (context.task_id, context.depth)
        key = (options, keywords, code_set, parent, has_code)
        header = self._headers.get(key)
        if header is None:
            if len(self._headers) > 256:
                self._headers.clear()
            header = self._headers[key] = self._make_header(options, keywords, code_set, has_code=has_code)
        return header

    def _make_header(
        self, options: CallOptions, keywords: tuple[str, ...], code_set: StoredFunction | None, *, has_code: bool
    ) -> TaskHeader:
        header = TaskHeader(
            call_format=codes.CALL_PACKED if self.serializer is None else codes.CALL_SEPARATE,
            keywords=keywords,
            capabilities=options.capabilities,
            priority=options.priority,
            flags=self._flags,
            timeout_seconds=options.timeout_seconds,
            retries=options.retries,
            lost_processors_limit=options.lost_processors_limit,
            code_tag=CODE_TAG if has_code else "",
            result_salt=self.connection.result_salt,
            code_set=NO_OBJECT if code_set is None else code_set.object_id,
        )
        if self.serializer is not None:
            serializer = self._stored_serializer()
            header = replace(header, serializer=serializer.object_id)
            if serializer.has_code:
                header = replace(header, code_tag=CODE_TAG)
        context = task_context.current()
        if context is not None:
            header = replace(header, depth=context.depth + 1, parent_task=context.task_id)
            if not header.code_set and context.code_set:
                # Its own client keeps it, as the function of this task. (CLI-25)
                header = replace(header, code_set=context.code_set)
        return header

    def use_code_set(self, code_set: StoredFunction | None) -> None:
        """For functions that are used from now on. Calls that were made before keep theirs."""
        self.code_set = code_set
        self._memory.clear()
        self._headers.clear()

    def _stored_serializer(self) -> StoredFunction:
        if self._own_serializer is None:
            pieces = values.dumps(self.serializer)
            self._own_serializer, _ = self.connection.storage.functions.put(pieces, has_code=values.has_code(pieces))
        return self._own_serializer

    # ------------------------------------------------------------ objects

    def send_object(self, value: Any, name: str | bytes | None) -> ObjectReference[Any]:
        if name is None:
            name = f"<object {type(value).__name__}>"
        if not isinstance(name, str | bytes):
            raise TypeError(f"the name of an object must be a text, got {name!r}")
        try:
            pieces = [self.serializer.serialize(value)] if self.serializer is not None else values.dumps(value)
        except Exception as error:
            pass_on(error)
            reason = self.reason_of(value, error)
            raise TypeError(f"the object of type {type(value).__name__} cannot be serialized: {reason}") from error
        with self.connection.storage.puts() as puts:
            object_id = puts.start(pieces)
            puts.finish()
            stored = StoredObject(object_id, has_code=values.has_code(pieces))
            self.connection.garbage.add_after(stored, (object_id,))  # and not after the puts any more
        label = name.encode() if isinstance(name, str) else name
        reference = new_reference(label, values.size_of(pieces), stored, self.owner)
        self._handles.add(reference.handle)
        return reference

    def object_part(self, reference: ObjectReference[Any]) -> Part:
        handle = reference.handle
        stored = handle.stored
        if stored is None or handle.owner is not self.owner:
            raise MissingObjects(f"{reference!r} cannot be used here: {handle.fate or FOREIGN}")
        if self.connection.storage.is_lost(stored.object_id):
            raise MissingObjects(
                f"{reference!r} is no longer in the object storage, which was restarted or has taken this client for "
                "lost, and its bytes were not kept here: send it again"
            )
        part = Part.of_id(stored.object_id, codes.KIND_OBJECT)
        return part._replace(has_code=stored.has_code, kept=(stored,))

    def release_references(self) -> None:
        """Every reference given out so far is invalid from now on."""
        while self._handles:
            try:
                handle = self._handles.pop()
            except KeyError:  # another thread has taken the last one, or it has died
                break
            handle.let_go(CLEARED)

    def warn_large(self, what: str, size: int) -> None:
        if self._is_warned:
            return
        self._is_warned = True
        _log.warning(
            "%.0f MiB are sent as %s: if several calls use the same value, send it once with send_object()",
            size / 2**20,
            what,
        )


class _BySerializer:
    """Reads back as what the program's own serializer makes of a function, for code that knows only the default one."""

    def __init__(self, serializer: Serializer, value: Any) -> None:
        self._deserialize = serializer.deserialize
        self._data = serializer.serialize(value)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return self._deserialize, (self._data,)


def _is_plain(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Nothing stands for anything else."""
    return STAND_INS.isdisjoint(map(type, arguments)) and (
        not keywords or STAND_INS.isdisjoint(map(type, keywords.values()))
    )
