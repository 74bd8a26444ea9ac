"""From the parts of a task to a call, and from its return value to a result."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from scaler_protocol import classes, values
from scaler_protocol.codes import (
    BAD_BATCH,
    CALL_PACKED,
    CALL_RAW,
    CALL_SEPARATE,
    EXISTS,
    KIND_INLINE,
    KIND_OBJECT,
    NO_SUCH_OBJECT,
    OWNER_GONE,
    QUOTA,
    RESULT_UNREADABLE,
    ROLE_WORKER,
    STORAGE_FULL,
    STORAGE_UNREACHABLE,
)
from scaler_protocol.errors import ObjectNotFound, StorageError, StorageUnavailable
from scaler_protocol.ids import ObjectId, Owner, PeerId, Salt, TaskId, content_id, family_in, result_object_id
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Buffer
from scaler_protocol.objects import ObjectClient
from scaler_protocol.records import dataclass
from scaler_protocol.running.errors import TaskFailed, other_content, unreadable
from scaler_protocol.running.kept import KeptValues
from scaler_protocol.running.loaded import Anew, Shelves
from scaler_protocol.running.named import PREFIX, NamedFunctions
from scaler_protocol.running.state import can_be_shared

OBJECT_WAIT_SECONDS = 30.0
"""A task may overtake its objects on another connection, and a storage that was restarted gets them again from their
client: this long they are waited for. (WRK-3)"""
BROUGHT_OBJECTS = 256
"""So many are kept that came with tasks and were not read: those tasks may have gone elsewhere."""
SILENCE_SECONDS = 60.0
"""A storage that is silent for so long is taken for unreachable, and its task goes to another worker. (WRK-27)"""
SILENCE_AGAIN_SECONDS = 5.0
"""The same while it was silent the last time: other workers are waiting for such tasks."""
GONE_SECONDS = 120.0
"""When it has been silent for so long after that, what needs it fails at once until it answers: else thousands of tasks
would wait these seconds one after the other, each of them several times. (SCH-43)"""

PLAIN_TYPES = frozenset((int, float, complex, bool, str, type(None)))
"""Return values of these types are pickled as they are: cloudpickle would write the same, ten times slower. Not bytes,
which may be large: then they are not copied into a pickle."""

_Answer = TypeVar("_Answer")

Pieces = tuple[tuple[int, bytes], ...]
Parts = bytes | Pieces


@dataclass(frozen=True, slots=True)
class Context:
    """What tasks with equal headers have in common, as the agent sends it once."""

    client: PeerId
    call_format: int
    keywords: tuple[str, ...]
    serializer: ObjectId
    depth: int
    priority: int
    flags: int
    result_salt: Salt
    owner_grant: bytes
    code_set: ObjectId = ObjectId(b"")
    is_plain: bool = field(init=False)  #: PACKED, and pickled by the default serializer: nearly every task
    family: bytes = field(init=False)
    """Those for whom the client's objects may be read, as its grant says; empty where there are no keys."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", family_in(self.owner_grant, self.client))
        object.__setattr__(self, "is_plain", self.call_format == CALL_PACKED and not self.serializer)

    @property
    def owner(self) -> Owner:
        return Owner(self.client, self.owner_grant)


class Place(Protocol):
    """Of a task among those that its worker runs at a time."""

    def block(self) -> None: ...  #: others may have it

    def unblock(self) -> None: ...  #: returns when the task has a place again


class Objects:
    """Functions, serializers and large values, fetched when first needed. `fetched` is told of the first two."""

    def __init__(
        self,
        named: NamedFunctions | None = None,
        fetched: Callable[[bytes, ObjectId, bytes], None] = lambda *_: None,
        shown: Pass | None = None,
        kept: KeptValues | None = None,
    ) -> None:
        self.storage_address = ""
        self.place: Place | None = None  #: of the task that fetches: lent while an object is missing (WRK-69)
        self.shown = shown
        self._named = NamedFunctions() if named is None else named
        self.retention_seconds = 3600.0  #: WRK-22
        self._renewed_at = 0.0
        self._client: ObjectClient | None = None
        #: when the storage was first found silent, if it has not answered since
        self._silent_since: float | None = None
        #: functions and serializers that came with tasks of a family, and need not be fetched for it
        self.brought: dict[tuple[bytes, ObjectId], bytes] = {}
        self._fetched = fetched
        self.kept = KeptValues() if kept is None else kept
        self._shelves = Shelves()
        self.family = b""
        #: what was loaded for this family. The processor loop looks functions up in it by itself
        self.shelf = self._shelves.use(b"")

    def use_family(self, family: bytes) -> None:
        """Whose tasks come next. (WRK-43)"""
        if family != self.family:
            self.family, self.shelf = family, self._shelves.use(family)

    def use_storage(self, address: str) -> None:
        if address != self.storage_address:
            self.close()
            self.storage_address = address

    def close(self) -> None:
        """Also after an interrupt that may have hit in the middle of a request."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def forget_unused(self, now: float) -> None:
        """Drop what was not used for one to two retention times. Called when idle, so that using costs one look-up."""
        if now >= self._renewed_at + self.retention_seconds:
            self._renewed_at = now
            self._shelves.forget_unused()
            self.brought.clear()

    def bring(self, family: bytes, object_id: ObjectId, content: bytes) -> None:
        """It need not be fetched when a task of this family needs it."""
        self.brought[family, object_id] = content
        if len(self.brought) > BROUGHT_OBJECTS:
            del self.brought[next(iter(self.brought))]

    def seconds_to_forget(self, now: float) -> float | None:
        """Until `forget_unused` has something to do; None while nothing is kept."""
        if not self._shelves:
            return None
        return max(0.0, self._renewed_at + self.retention_seconds - now)

    def load_function(self, object_id: ObjectId, owner: Owner) -> Callable[..., Any]:
        """Returns the function for one call. `owner`: for whom it is fetched, if it was not loaded for that family."""
        count = classes.Count.read
        found, content = self._find(object_id, owner, "function")
        if type(found) is Anew:
            found = self._read(found.content, object_id, "function")
        elif content is not None and not (classes.Count.read == count and can_be_shared(found)):
            self.shelf.loaded[object_id] = Anew(content)
        function: Callable[..., Any] = found
        return function

    def serializer(self, object_id: ObjectId, owner: Owner) -> Any:
        """Returns the serializer of a client, which all its calls share unless its classes travel with it: then a
        call has its own, whose classes are those of the call's function and arguments."""
        found = classes.read.get(object_id)
        if found is None:
            count = classes.Count.read
            found, content = self._find(object_id, owner, "serializer")
            if type(found) is Anew:
                found = self._read(found.content, object_id, "serializer")
                classes.read[object_id] = found
            elif content is not None and classes.Count.read != count:
                self.shelf.loaded[object_id] = Anew(content)
                classes.read[object_id] = found
        return found

    def _find(self, object_id: ObjectId, owner: Owner, what: str) -> tuple[Any, bytes | None]:
        """Returns what is kept under this id; or it is read, and its bytes are returned as well."""
        self.use_family(owner.family)
        shelf = self.shelf
        loaded = shelf.loaded.get(object_id)
        if loaded is None:
            loaded = shelf.take_older(object_id)
        if loaded is not None:
            return loaded, None
        content = self._code(object_id, owner, what)
        loaded = self._read(content, object_id, what)
        shelf.put(object_id, loaded, len(content))
        return loaded, content

    def _code(self, object_id: ObjectId, owner: Owner, what: str) -> bytes:
        """The bytes of a function or serializer, compared with its id. Every peer can compute such an id, so another
        peer can have stored other bytes under it first, or sent them along. (STO-29)"""
        content = self.brought.pop((self.family, object_id), None)
        if content is not None and content_id(content) == object_id:
            return content
        content = bytes(self.fetch(object_id, owner, f"the task's {what}"))
        if content_id(content) != object_id:
            raise other_content(f"the task's {what}", object_id)
        self._fetched(self.family, object_id, content)
        return content

    def _read(self, content: bytes, object_id: ObjectId, what: str) -> Any:
        try:
            return self._named.find(content) if content.startswith(PREFIX) else values.loads(content)
        except (TaskFailed, MemoryError):
            raise
        except Exception as error:
            raise unreadable(f"the task's {what} (object {object_id.hex()})", error) from error

    def fetch(self, object_id: ObjectId, owner: Owner, what: str) -> Buffer:
        try:
            return self._get(object_id, owner)
        except ObjectNotFound as error:
            text = f"{what} (object {object_id.hex()}) is lost, and did not come back within {OBJECT_WAIT_SECONDS:g} s"
            raise TaskFailed(NO_SUCH_OBJECT, text) from error
        except StorageError as error:
            raise TaskFailed(STORAGE_UNREACHABLE, f"{what} cannot be fetched on this worker: {error}") from error

    def _get(self, object_id: ObjectId, owner: Owner) -> Buffer:
        """Gets it. A task that ends without its object takes no place back: it ends with its place lent."""
        place, is_lent = self.place, False

        def lend() -> None:
            nonlocal is_lent
            if place is not None:
                is_lent = True
                place.block()

        value = self.ask(lambda storage: storage.get(object_id, OBJECT_WAIT_SECONDS, owner, on_missing=lend))
        if place is not None and is_lent:
            place.unblock()
        return value

    def store(self, object_id: ObjectId, owner: Owner, buffers: Sequence[Buffer]) -> None:
        """The return value of a task that has run."""
        try:
            self.ask(lambda storage: storage.put(object_id, owner.peer_id, buffers, owner.grant))
        except StorageError as error:
            code = error.code if error.code in (OWNER_GONE, STORAGE_FULL, QUOTA, EXISTS) else STORAGE_UNREACHABLE
            text = f"the task has run, and its return value cannot be stored: {error}"
            raise TaskFailed(code, text, has_run=True) from error

    def ask(self, question: Callable[[ObjectClient], _Answer]) -> _Answer:
        """What the storage answers. Raises StorageError."""
        try:
            answer = question(self._connected())
        except StorageUnavailable:
            now = time.monotonic()
            if self._silent_since is None:
                self._silent_since = now
            if now < self._silent_since + GONE_SECONDS:
                self.close()
            # Else the client stays. It refuses at once what is asked while it has no session, and dials for one.
            raise
        if self._silent_since is not None:
            self._silent_since = None
            self.close()  # the next one is patient again
        return answer

    def _connected(self) -> ObjectClient:
        if self._client is None:
            if not self.storage_address:
                raise StorageError("the scheduler has named no object storage; start it with -osa ADDRESS")
            silence_seconds = SILENCE_SECONDS if self._silent_since is None else SILENCE_AGAIN_SECONDS
            self._client = ObjectClient(
                self.storage_address, ROLE_WORKER, "scaler-worker", silence_seconds, shown=self.shown
            )
        return self._client


def arguments_of(parts: Parts, context: Context, objects: Objects) -> tuple[Sequence[Any], dict[str, Any]]:
    """What the function is called with (BAT-6)."""
    pieces: Pieces = ((KIND_INLINE, parts),) if isinstance(parts, bytes) else parts
    if context.call_format == CALL_RAW:
        return _by_place_and_name([bytes(_bytes_of(piece, context, objects)) for piece in pieces], context)
    load = _loader(context, objects)
    if context.call_format == CALL_SEPARATE:
        return _by_place_and_name([load(_bytes_of(piece, context, objects)) for piece in pieces], context)
    if context.call_format != CALL_PACKED:
        raise TaskFailed(BAD_BATCH, f"this worker does not know call format {context.call_format}: upgrade it")
    arguments, keywords = load(_bytes_of(pieces[0], context, objects))
    if len(pieces) > 1:
        arguments = [_resolved(argument, pieces, load, context, objects) for argument in arguments]
        keywords = {name: _resolved(argument, pieces, load, context, objects) for name, argument in keywords.items()}
    return arguments, keywords


def _by_place_and_name(arguments: list[Any], context: Context) -> tuple[list[Any], dict[str, Any]]:
    split = len(arguments) - len(context.keywords)
    return arguments[:split], dict(zip(context.keywords, arguments[split:], strict=True))


def _resolved(argument: Any, pieces: Pieces, load: Callable[[Buffer], Any], context: Context, objects: Objects) -> Any:
    if type(argument) is not values.PartReference:
        return argument
    kind, data = pieces[argument.index]
    if kind != KIND_OBJECT:
        return load(data)
    object_id = ObjectId(data)
    # What one family has fetched is not for the tasks of another, which may only know its id. (STO-33)
    key = ObjectId(context.family + object_id)
    value = objects.kept.get(key)
    if value is None:
        fetched = _bytes_of((kind, data), context, objects)
        value = load(fetched)
        objects.kept.offer(key, value, len(fetched))
    return value


def _bytes_of(piece: tuple[int, bytes], context: Context, objects: Objects) -> Buffer:
    kind, data = piece
    return objects.fetch(ObjectId(data), context.owner, "an argument of the task") if kind == KIND_OBJECT else data


def _loader(context: Context, objects: Objects) -> Callable[[Buffer], Any]:
    if not context.serializer:
        return _load_argument
    serializer = objects.serializer(context.serializer, context.owner)
    return lambda data: _load_argument(data, lambda data: serializer.deserialize(bytes(data)))


def _load_argument(data: Buffer, load: Callable[[Buffer], Any] = values.loads) -> Any:
    try:
        return load(data)
    except (TaskFailed, MemoryError):
        raise
    except Exception as error:
        raise unreadable("an argument of the task", error) from error


def result_of(
    value: Any, context: Context, objects: Objects, task_id: TaskId, attempt: int, inline_bytes: int
) -> tuple[int, bytes]:
    """Kind and bytes of a return value: the bytes themselves, or the id of the object they are now (PAY-1)."""
    pieces = serialized(value, context, objects, "task's return value")
    if values.size_of(pieces) <= inline_bytes:
        return KIND_INLINE, b"".join(pieces)
    object_id = result_object_id(task_id, attempt, context.result_salt, context.client)
    objects.store(object_id, context.owner, pieces)
    return KIND_OBJECT, object_id


def store_exception(objects: Objects, context: Context, task_id: TaskId, attempt: int, serialized: bytes) -> ObjectId:
    """Stores it as the result of this attempt, which has no other. Raises TaskFailed. (OWN-10)"""
    object_id = result_object_id(task_id, attempt, context.result_salt, context.client)
    objects.store(object_id, context.owner, [serialized])
    return object_id


def serialized(value: Any, context: Context, objects: Objects, what: str) -> list[Buffer]:
    """Runs user code. `what` the value is, for the error."""
    try:
        if context.call_format == CALL_RAW:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise TypeError(f"a raw call must return bytes, not {type(value).__name__}")
            return [value]
        if context.serializer:
            return [objects.serializer(context.serializer, context.owner).serialize(value)]
        return values.dumps(value)
    except (TaskFailed, MemoryError):
        raise
    except Exception as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        reason = str(error) if context.serializer else _reason_of(value, error)
        text = f"the {what}, a {kind}, cannot be serialized: {type(error).__name__}: {reason}"
        if isinstance(value, Generator):
            text += ". Return list(...) of it, or call the function with client.stream()"
        raise TaskFailed(RESULT_UNREADABLE, text) from error


def _reason_of(value: Any, error: Exception) -> str:
    from scaler_protocol import unpicklable  # after a failure only

    return unpicklable.reason_of(value, error, _failure_of)


def _failure_of(value: Any) -> Exception | None:
    try:
        values.dumps(value)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        return error
    return None
