"""What a caller asks for, as a row of requests and their replies. Pure: no socket, clock or thread.

An operation is told `restart` when the session is gone and none of its open requests will be answered. All requests
may be repeated without harm, so it simply asks again for what it still needs. (STO-17)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from scaler_protocol import codes
from scaler_protocol.columns import join_ids
from scaler_protocol.errors import ScalerError, StorageError, readable, storage_error
from scaler_protocol.ids import NO_OWNER, ObjectId, Owner, PeerId
from scaler_protocol.messages import (
    Buffer,
    Duplicate,
    Get,
    MemoryFile,
    ObjectReply,
    Put,
    PutShared,
    Release,
    SharedValue,
    StorageStatus,
    StorageStatusRequest,
    Value,
)
from scaler_protocol.objects.buffers import new_buffer

if TYPE_CHECKING:
    from typing_extensions import Self

Request = Put | PutShared | Get | Duplicate | Release | StorageStatusRequest
Reply = Value | SharedValue | ObjectReply | StorageStatus

MEBIBYTE = 1024 * 1024
#: The most that one frame carries (STO-6).
CHUNK_BYTES = 8 * MEBIBYTE
#: Neighbouring buffers smaller than this are joined: a message costs more than copying so little.
JOINED_BYTES = 64 * 1024
#: A Get that waits asks for no more than this at first: when a thousand of them are answered at once, the answers
#: still fit into what a session may have on the way.
WAITING_CHUNK_BYTES = 64 * 1024
#: A wait that is over by the time it is asked for. Zero would be a request of the other kind, which is counted.
SHORTEST_WAIT_SECONDS = 0.001
#: So many ids in one Release. They fit the smallest envelope that a storage may grant. (LIM-2)
RELEASED_IDS = 2_048
#: Earlier than every begin.
NOT_BEGUN = -math.inf


class Operation(ABC):
    def __init__(self) -> None:
        self.is_done = False
        self.error: ScalerError | None = None
        #: rises with every restart: replies to requests of an earlier attempt mean nothing any more
        self.attempt = 0
        #: when the caller began to wait: set when it is begun, or taken from the operation that it is done in place of
        self.started_at = NOT_BEGUN

    @abstractmethod
    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        """What to ask next. Without room, nothing that is answered with or carries a chunk."""

    @abstractmethod
    def handle(self, request: Request, reply: Reply, now: float) -> None:
        """The answer to a request of this attempt."""

    @abstractmethod
    def restart(self) -> None:
        """No open request will be answered: ask anew."""

    def begin_anew(self) -> None:
        """As `restart`, after an interrupt that may have come in the middle of any method here."""
        self.restart()

    def waits_until(self) -> float:
        """Until this instant silence is no bad sign: the storage was asked to wait."""
        return 0.0

    def puts_any(self, owner: PeerId, ids: Container[ObjectId]) -> bool:
        """It stores one of these objects for this owner."""
        return False

    def in_place_of(self, other: Operation) -> Self:
        """The same operation in another way. The patience of its caller does not begin anew."""
        self.started_at = other.started_at
        return self

    def overtake(self) -> None:
        """What it stores is released before all of it was sent: as if it had been stored before."""
        self._succeed()

    def fail(self, error: ScalerError) -> None:
        if not self.is_done:
            self.error = error
            self.is_done = True

    def _succeed(self) -> None:
        self.is_done = True

    def _refused(self, reply: Reply) -> bool:
        """Whether this reply is not the confirmation that was hoped for; then the operation has failed."""
        if not isinstance(reply, ObjectReply):
            self.fail(_nonsense(f"a {type(reply).__name__} where an ObjectReply belongs"))
        elif reply.code != codes.OK:
            self.fail(storage_error(reply.code, readable(reply.text)))
        return self.is_done


class MeetOperation(Operation):
    """Asks nothing: it is done when there is a session, whose Welcome tells what the storage can do."""

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        self._succeed()
        return None

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        raise AssertionError("nothing was asked")

    def restart(self) -> None:
        pass


class PutOperation(Operation):
    def __init__(self, object_id: ObjectId, owner: Owner, buffers: Iterable[Buffer]) -> None:
        super().__init__()
        self._object_id = object_id
        self._owner = owner
        self._chunks = list(plan_chunks(buffers))
        self._total_bytes = sum(memoryview(chunk).nbytes for _, chunk in self._chunks)
        self._next_index = 0
        self._confirmed_count = 0
        self._has_begun_anew = False

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if not has_room or self._next_index == len(self._chunks):
            return None
        offset, chunk = self._chunks[self._next_index]
        self._next_index += 1
        owner, grant = self._owner
        return Put(request_id, self._object_id, owner, self._total_bytes, offset, chunk, grant)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        if isinstance(reply, ObjectReply) and reply.code == codes.BAD_CHUNK and not self._has_begun_anew:
            # Not our mistake: the storage gave up an upload that was idle for long, or the object existed for the
            # first chunks and was released before the last ones. Begin again, once.
            self._has_begun_anew = True
            self.restart()
            return
        if self._refused(reply):
            return
        self._confirmed_count += 1
        if self._confirmed_count == len(self._chunks):
            self._succeed()

    def restart(self) -> None:
        self.attempt += 1
        self._next_index = self._confirmed_count = 0

    def puts_any(self, owner: PeerId, ids: Container[ObjectId]) -> bool:
        return self._owner.peer_id == owner and self._object_id in ids


class NotShared(ScalerError):
    """The storage cannot or will not read this file; the object is to be put in chunks."""


class OfferedFile(Protocol):
    """Is open as long as it is referred to."""

    def reference(self) -> MemoryFile: ...


class PutSharedOperation(Operation):
    """The whole value is in a memory file, which is held open until this is done."""

    def __init__(self, object_id: ObjectId, owner: Owner, total_bytes: int, file: OfferedFile) -> None:
        super().__init__()
        self._object_id = object_id
        self._owner = owner
        self._total_bytes = total_bytes
        self._file: OfferedFile | None = file
        self._is_asked = False

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if self._is_asked or self._file is None:
            return None
        self._is_asked = True
        owner, grant = self._owner
        return PutShared(request_id, self._object_id, owner, self._total_bytes, self._file.reference(), grant)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        if isinstance(reply, ObjectReply) and reply.code == codes.UNREADABLE_FILE:
            self.fail(NotShared(readable(reply.text)))
        elif not self._refused(reply):
            self._succeed()
        self._file = None

    def restart(self) -> None:
        # The next session may be with another storage, and without the feature.
        self.fail(NotShared("the session in which the file was offered is over"))

    def puts_any(self, owner: PeerId, ids: Container[ObjectId]) -> bool:
        return self._owner.peer_id == owner and self._object_id in ids


class GetOperation(Operation):
    """First one chunk, which tells the size; then the rest, side by side, into one allocation. Or, where memory is
    shared, the name of a file, and then it is for the caller to open it."""

    def __init__(
        self,
        object_id: ObjectId,
        wait_seconds: float,
        accepts_shared: Callable[[], bool] = lambda: False,
        owner: Owner = NO_OWNER,
        *,
        is_expected: bool = True,
    ) -> None:
        """`accepts_shared` tells of the session in which is asked; the next one may be without the feature. What is not
        expected to be there yet is waited for from the start, which saves a request."""
        super().__init__()
        self._object_id = object_id
        self._wait_seconds = wait_seconds
        self._accepts_shared = accepts_shared
        self._owner = owner
        self.value: bytearray | None = None
        self.shared: SharedValue | None = None
        self._missing_bytes = 0
        #: ranges to ask for, and (by where they begin) ranges asked for; disjoint, together all that is missing
        self._wanted: deque[tuple[int, int]] = deque([(0, CHUNK_BYTES)] if is_expected else ())
        self._asked: dict[int, int] = {}
        #: wanted ranges that are to be waited for: the storage said that there is no such object
        self._awaited: deque[tuple[int, int]] = deque(() if is_expected else [(0, CHUNK_BYTES)])
        self._waits_until = 0.0

    def without_sharing(self) -> GetOperation:
        return GetOperation(self._object_id, self._wait_seconds, owner=self._owner).in_place_of(self)

    @property
    def _deadline(self) -> float:
        return self.started_at + self._wait_seconds

    def waits_until(self) -> float:
        return self._waits_until

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if self._awaited:
            begin, end = self._awaited.popleft()
            self._asked[begin] = end
            self._waits_until = self._deadline
            wait_seconds = max(self._deadline - now, SHORTEST_WAIT_SECONDS)
            chunk_bytes = min(end - begin, WAITING_CHUNK_BYTES)
            return self._get(request_id, begin, chunk_bytes, wait_seconds)
        if not has_room or not self._wanted:
            return None
        begin, end = self._wanted.popleft()
        self._asked[begin] = end
        return self._get(request_id, begin, end - begin, 0.0)

    def _get(self, request_id: int, begin: int, chunk_bytes: int, wait_seconds: float) -> Get:
        owner, grant = self._owner
        return Get(request_id, self._object_id, begin, chunk_bytes, wait_seconds, self._is_file_welcome, owner, grant)

    @property
    def _is_file_welcome(self) -> bool:
        return self.value is None and self._accepts_shared()

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        assert isinstance(request, Get)
        end = self._asked.pop(request.offset)
        if isinstance(reply, Value):
            self._fill(request, end, reply)
        elif isinstance(reply, SharedValue) and request.accepts_shared and self.value is None:
            self.shared = reply
            self._succeed()
        elif not isinstance(reply, ObjectReply) or reply.code == codes.OK:
            self.fail(_nonsense(f"a {type(reply).__name__} where a Value belongs"))
        elif reply.code == codes.NO_SUCH_OBJECT and now < self._deadline:
            # The usual case is that the object exists, and then the first answer carried a whole chunk. Only now ask
            # the storage to wait, and for little.
            self._awaited.append((request.offset, end))
        else:
            self.fail(storage_error(reply.code, readable(reply.text)))

    def restart(self) -> None:
        self.attempt += 1
        self._wanted.extend(sorted(self._asked.items()))
        self._wanted.extend(self._awaited)
        self._asked.clear()
        self._awaited.clear()
        self._waits_until = 0.0

    def begin_anew(self) -> None:
        """Nothing is taken to be there already: a range may have been lost between two of the tables."""
        self.attempt += 1
        self.value = self.shared = None
        self._missing_bytes = 0
        self._wanted = deque([(0, CHUNK_BYTES)])
        self._asked = {}
        self._awaited = deque()
        self._waits_until = 0.0

    def _fill(self, request: Get, end: int, value: Value) -> None:
        if self.value is None:
            if not self._allocate(value):
                return
            end = min(end, value.total_bytes)
        payload = memoryview(value.payload)
        reached = value.offset + payload.nbytes
        is_expected = value.offset == request.offset and value.total_bytes == len(self.value or b"") and reached <= end
        if not is_expected or (payload.nbytes == 0 and value.total_bytes > 0):
            self.fail(_nonsense(f"bytes {value.offset} to {reached} where {request.offset} to {end} were asked for"))
            return
        assert self.value is not None
        # Through a view: to assign to a slice of a bytearray makes a copy of what is assigned first.
        with memoryview(self.value) as view:
            view[value.offset : reached] = payload
        self._missing_bytes -= payload.nbytes
        if reached < end:
            # The storage answers with what it has in one piece; pieces need not be ours. (STO-13)
            self._wanted.appendleft((reached, end))
        if self._missing_bytes == 0:
            self._succeed()

    def _allocate(self, first: Value) -> bool:
        try:
            self.value = new_buffer(first.total_bytes)
        except MemoryError:
            self.fail(StorageError(f"object {self._object_id.hex()} of {first.total_bytes} bytes does not fit here"))
            return False
        self._missing_bytes = first.total_bytes
        begins = range(CHUNK_BYTES, first.total_bytes, CHUNK_BYTES)
        self._wanted.extend((begin, min(begin + CHUNK_BYTES, first.total_bytes)) for begin in begins)
        return True


class DuplicateOperation(Operation):
    def __init__(
        self, source: ObjectId, target: ObjectId, owner: Owner, wait_seconds: float, source_owner: Owner = NO_OWNER
    ) -> None:
        super().__init__()
        self._source, self._target, self._owner, self._source_owner = source, target, owner, source_owner
        self._wait_seconds = wait_seconds
        self._is_asked = False

    def waits_until(self) -> float:
        return self.started_at + self._wait_seconds

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if self._is_asked:
            return None
        self._is_asked = True
        wait_seconds = max(0.0, self.waits_until() - now)
        owner, grant = self._owner
        return Duplicate(request_id, self._source, self._target, owner, wait_seconds, grant, *self._source_owner)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        if not self._refused(reply):
            self._succeed()

    def restart(self) -> None:
        self.attempt += 1
        self._is_asked = False


class ReleaseOperation(Operation):
    def __init__(self, owner: Owner, ids: Sequence[ObjectId]) -> None:
        super().__init__()
        self._owner = owner
        self._ids = ids
        begins = range(0, max(1, len(ids)), RELEASED_IDS)
        self._columns = [join_ids(ids[begin : begin + RELEASED_IDS]) for begin in begins]
        self._asked_count = self._confirmed_count = 0

    def overtaken(self, operations: Iterable[Operation]) -> list[Operation]:
        """Those of these that store what this one releases: their later chunks would come after the Release."""
        ids = frozenset(self._ids)
        return [one for one in operations if one.puts_any(self._owner.peer_id, ids)]

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if self._asked_count == len(self._columns):
            return None
        self._asked_count += 1
        owner, grant = self._owner
        return Release(request_id, owner, self._columns[self._asked_count - 1], grant)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        if self._refused(reply):
            return
        self._confirmed_count += 1
        if self._confirmed_count == len(self._columns):
            self._succeed()

    def restart(self) -> None:
        self.attempt += 1
        self._asked_count = self._confirmed_count = 0


class StatusOperation(Operation):
    def __init__(self) -> None:
        super().__init__()
        self.status: StorageStatus | None = None
        self._is_asked = False

    def next_request(self, request_id: int, now: float, has_room: bool) -> Request | None:
        if self._is_asked:
            return None
        self._is_asked = True
        return StorageStatusRequest(request_id)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        if isinstance(reply, StorageStatus):
            self.status = reply
            self._succeed()
        elif not self._refused(reply):
            self.fail(_nonsense("a confirmation where a StorageStatus belongs"))

    def restart(self) -> None:
        self.attempt += 1
        self._is_asked = False


def plan_chunks(buffers: Iterable[Buffer]) -> Iterator[tuple[int, Buffer]]:
    """Cut what is large and join what is small, in order; at least one chunk. Large buffers are not copied.

    A chunk never spans two large buffers, since that would mean to copy both.
    """
    offset = 0
    small: list[memoryview] = []
    small_bytes = 0
    for buffer in buffers:
        view = memoryview(buffer)
        if view.nbytes == 0:
            continue
        view = view.cast("B")
        if small and small_bytes + view.nbytes > JOINED_BYTES:
            yield offset, b"".join(small)
            offset += small_bytes
            small, small_bytes = [], 0
        if view.nbytes < JOINED_BYTES:
            small.append(view)
            small_bytes += view.nbytes
            continue
        for begin in range(0, view.nbytes, CHUNK_BYTES):
            yield offset + begin, view[begin : begin + CHUNK_BYTES]
        offset += view.nbytes
    if small or offset == 0:
        yield offset, b"".join(small)


def _nonsense(what: str) -> StorageError:
    return StorageError(f"the object storage answered with {what}: is it of another version?", codes.BAD_ENVELOPE)
