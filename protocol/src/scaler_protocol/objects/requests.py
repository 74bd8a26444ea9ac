"""All operations of one storage session: who may ask what now, and to whom a reply belongs. Pure, as operations are.

Bounded by the protocol: of requests that carry a chunk or are answered with one, at most eight are open at a time,
over all threads together. (STO-6) Operations take turns, so that a huge object does not hold up the small ones.
"""

from __future__ import annotations

from collections import deque

from scaler_protocol.errors import ScalerError, StorageUnavailable
from scaler_protocol.messages import Get, Message, ObjectReply, Put, SharedValue, StorageStatus, Value
from scaler_protocol.objects.operations import NOT_BEGUN, Operation, ReleaseOperation, Request

OPEN_CHUNKS = 8
#: An operation whose session was lost so often is perhaps the reason why.
SESSIONS_LOST = 10


class ObjectRequests:
    def __init__(self, address: str, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        #: all and only the operations that are not done, in the order they began, with the sessions each has lost
        self.operations: dict[Operation, int] = {}
        #: those that may have something to ask
        self._ready: deque[Operation] = deque()
        #: open requests by id; the number is the attempt they belong to
        self._open: dict[int, tuple[Operation, int, Request]] = {}
        self._open_chunks = 0
        self._last_request_id = 0
        self.is_open = False
        #: when the storage last showed life, as far as requests are concerned
        self._sign_at = 0.0
        #: an operation has waited in vain for the whole timeout, and no session was opened since
        self._is_gone = False

    # ------------------------------------------------------------ from callers

    def begin(self, operation: Operation, now: float) -> None:
        """After one operation has waited for a storage that is gone, the others need not: they fail at once, until a
        storage answers again."""
        if operation.started_at == NOT_BEGUN:
            operation.started_at = now
        if self._is_gone:
            operation.fail(StorageUnavailable(self._silence_text()))
            return
        if not self.is_open:
            operation.restart()  # whatever session it was made for
            if operation.is_done:
                return
        if isinstance(operation, ReleaseOperation):
            for put in operation.overtaken(self.operations):
                del self.operations[put]
                put.overtake()
        self.operations[operation] = 0
        self._ready.append(operation)

    def abandon(self, operation: Operation) -> None:
        """Its caller waits no more; replies that still come are dropped."""
        self.operations.pop(operation, None)
        operation.fail(StorageUnavailable("interrupted"))

    def fail_all(self, error: ScalerError) -> None:
        for operation in self.operations:
            operation.fail(error)
        self._forget_requests()
        self.operations.clear()
        self._ready.clear()

    # ------------------------------------------------------------ from the session

    def opened(self, now: float) -> None:
        self.is_open = True
        self._is_gone = False
        self._sign_at = now

    def lost(self, text: str, now: float, silent_seconds: float = 0.0) -> None:
        """None of the open requests will be answered: all operations ask anew in the next session."""
        self.is_open = False
        self._sign_at = max(self._sign_at, now - silent_seconds)
        self._forget_requests()
        for operation in list(self.operations):
            self.operations[operation] += 1
            if self.operations[operation] >= SESSIONS_LOST:
                operation.fail(StorageUnavailable(f"{SESSIONS_LOST} sessions with the object storage ended: {text}"))
                del self.operations[operation]
            else:
                operation.restart()
                if operation.is_done:
                    del self.operations[operation]
        self._ready = deque(self.operations)

    def interrupted(self, now: float) -> None:
        """As `lost`, by our own doing: an exception came up in the thread that drove, anywhere in here."""
        self.is_open = False
        self._sign_at = now
        self._forget_requests()
        for operation in [one for one in self.operations if not one.is_done]:
            operation.begin_anew()
        self.operations = {one: count for one, count in self.operations.items() if not one.is_done}
        self._ready = deque(self.operations)

    def receive(self, message: Message, now: float) -> None:
        self._sign_at = now
        if not isinstance(message, (Value, SharedValue, ObjectReply, StorageStatus)):
            return  # a newer storage may say more than we ask for (EVO-4)
        operation, attempt, request = self._open.pop(message.request_id, (None, 0, None))
        if operation is None or request is None:
            return  # its caller no longer waits
        self._open_chunks -= _is_chunk(request)
        if operation.is_done or attempt != operation.attempt:
            return
        operation.handle(request, message, now)
        if operation.is_done:
            del self.operations[operation]
        else:
            self._ready.append(operation)

    # ------------------------------------------------------------ to the session

    def take_requests(self, now: float) -> list[Request]:
        """What to send now. What has to wait for room stays at the front."""
        requests: list[Request] = []
        waiting: deque[Operation] = deque()
        while self.is_open and self._ready:
            operation = self._ready.popleft()
            if operation.is_done:
                continue
            has_room = self._open_chunks < OPEN_CHUNKS
            request = operation.next_request(self._last_request_id + 1, now, has_room)
            if request is None:
                if operation.is_done:
                    del self.operations[operation]
                elif not has_room:
                    waiting.append(operation)
                continue
            self._last_request_id += 1
            self._open[request.request_id] = (operation, operation.attempt, request)
            self._open_chunks += _is_chunk(request)
            requests.append(request)
            self._ready.append(operation)
        if self.is_open:
            self._ready = waiting
        return requests

    # ------------------------------------------------------------ time

    def next_deadline(self) -> float | None:
        return min(map(self._due_at, self.operations), default=None)

    def was_stopped(self, now: float) -> None:
        """This process was stopped, or its machine slept: no operation has waited in that time."""
        self._sign_at = now

    def expire(self, now: float) -> None:
        for operation in [operation for operation in self.operations if self._due_at(operation) <= now]:
            operation.fail(StorageUnavailable(self._silence_text()))
            del self.operations[operation]
            self._is_gone = not self.is_open

    def _due_at(self, operation: Operation) -> float:
        """When silence has lasted too long. Each sign of life counts for all: they share one connection."""
        begins_at = max(operation.started_at, self._sign_at)
        if self.is_open:
            begins_at = max(begins_at, operation.waits_until())
        return begins_at + self._timeout_seconds

    def _silence_text(self) -> str:
        if self.is_open:
            return f"the object storage at {self._address} has not answered for {self._timeout_seconds:g} s"
        return (
            f"no object storage answers at {self._address}, for {self._timeout_seconds:g} s now: "
            "is scaler_object_storage_server running there?"
        )

    # ------------------------------------------------------------ inside

    def _forget_requests(self) -> None:
        self._open.clear()
        self._open_chunks = 0

    def check(self) -> None:
        """Re-derive what is kept twice."""
        chunks = sum(_is_chunk(request) for _, _, request in self._open.values())
        assert self._open_chunks == chunks <= OPEN_CHUNKS, "the window is counted"
        assert not any(operation.is_done for operation in self.operations), "what is done is forgotten"


def _is_chunk(request: Request) -> bool:
    """A Get that waits is not counted: it may be open for hours, and asks for little."""
    return isinstance(request, Put) or (isinstance(request, Get) and request.wait_seconds == 0)
