"""ObjectClient: put, get, release and duplicate, for processors and for the user's threads."""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import count

from scaler_protocol import waits
from scaler_protocol.addresses import parse_address
from scaler_protocol.ids import NO_OWNER, ObjectId, Owner, PeerId
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Buffer, StorageStatus
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.link import Link
from scaler_protocol.objects.operations import (
    DuplicateOperation,
    GetOperation,
    MeetOperation,
    NotShared,
    Operation,
    PutOperation,
    PutSharedOperation,
    ReleaseOperation,
    StatusOperation,
)
from scaler_protocol.transport.descriptors import exhaustion_told

#: From here on a value is shared where it can be; below, a message with its bytes costs less.
SHARED_BYTES = 256 * 1024
#: So much is written before the storage is told of it: a message costs as much as half a mebibyte.
TOGETHER_BYTES = 4 * 1024 * 1024
#: An object that overtakes no task by more is missing.
MISSING_SECONDS = 0.1


class ObjectClient:
    """Blocking and safe for any number of threads. Connects at the first call, and again after the storage was away.

    Every wait is bounded: StorageUnavailable is raised when nothing was heard from the storage for `timeout_seconds`.
    A forked child may go on using the object: it gets a connection of its own.
    """

    def __init__(
        self,
        address: str,
        role: int,
        software_name: str,
        timeout_seconds: float = 60.0,
        on_restart: Callable[[], None] | None = None,
        shown: Pass | None = None,
    ) -> None:
        """`on_restart` is called when another storage answers than before: what was put is not there. It is called by
        the thread that drives the connection, must not block, and must not use this object itself. With it, a lost
        session is followed by another also while nothing is asked."""
        parse_address(address)
        self.address = address
        self._role = role
        self._software_name = software_name
        self._timeout_seconds = timeout_seconds
        self._on_restart = on_restart
        self._shown = shown
        #: shared since the storage was last told
        self._piled_bytes = 0
        #: by process id, because what a forked child inherits is its parent's, and must not be touched there; and by
        #: how many of them the thread stands in that asks
        self._links: dict[tuple[int, int], Link] = {}
        self._finalizer = weakref.finalize(self, _close_own, self._links)

    def put(self, object_id: ObjectId, owner: PeerId, buffers: Sequence[Buffer], grant: bytes = b"") -> None:
        """Store the buffers, one after the other, as one value. They are sent as they are, without a copy, and must
        not change until this returns. An object that exists gains an owner."""
        self.start_put(object_id, owner, buffers, grant).finish()  # which asks, unless it was asked before

    def start_put(
        self,
        object_id: ObjectId,
        owner: PeerId,
        buffers: Sequence[Buffer],
        grant: bytes = b"",
        end_at: float = math.inf,
    ) -> PendingPut:
        """The same in two steps, so that others can be begun before this one is answered: several small ones are asked
        for together, at the latest when a caller waits. Where memory is not shared it waits here: then it is the bytes
        that take the time, and not the answer. TimeoutError if they are not stored by `end_at`."""
        named = Owner(owner, grant)
        total_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
        if total_bytes >= SHARED_BYTES and self._shares_memory(end_at):
            try:
                file = memory_files.create(object_id, buffers)
            except OSError:
                pass  # no memory or descriptors left: what is sent in chunks needs neither
            else:
                shared = PutSharedOperation(object_id, named, total_bytes, file)
                link = self._link()
                link.start(shared, is_urgent=self._is_full(total_bytes))
                return PendingPut(link, shared, lambda: PutOperation(object_id, named, buffers), file)
        link = self._link()
        operation = PutOperation(object_id, named, buffers)
        link.run(operation, end_at)
        return PendingPut(link, operation)

    def get(
        self,
        object_id: ObjectId,
        wait_seconds: float = 0.0,
        owner: Owner = NO_OWNER,
        end_at: float = math.inf,
        on_missing: Callable[[], None] | None = None,
    ) -> Buffer:
        """Returns the value, in memory that may be written to and is not shared. Waits for an object that does not
        exist yet, or not for this owner; ObjectNotFound if none comes in that time. TimeoutError if the whole value has
        not come by `end_at`, an instant of `time.monotonic`. `on_missing` is called once if the storage has no such
        object and none comes within `MISSING_SECONDS`; the wait then goes on."""
        link = self._link()
        directory = link.directory
        file = None if directory is None else directory.open(object_id)
        if file is not None:
            return file.content()
        operation = GetOperation(object_id, wait_seconds, lambda: bool(link.shares_memory), owner)
        pending = PendingGet(link, operation)
        if on_missing is not None and pending.is_missing():
            on_missing()
        return pending.finish(end_at)

    def start_get(self, object_id: ObjectId, wait_seconds: float = 0.0, owner: Owner = NO_OWNER) -> PendingGet:
        """The same in two steps, for what is not expected to be there yet: another thread can end the wait."""
        link = self._link()
        is_expected = wait_seconds <= 0
        operation = GetOperation(
            object_id, wait_seconds, lambda: bool(link.shares_memory), owner, is_expected=is_expected
        )
        return PendingGet(link, operation)

    def meet(self) -> None:
        """Until there is a session. From then on `on_restart` tells of every other storage."""
        self._run(MeetOperation())

    def release(self, owner: PeerId, ids: Sequence[ObjectId], *, grant: bytes = b"", wait: bool = True) -> None:
        """This owner needs these objects no longer. With `wait=False` it is done in the background, still in order
        with what this process asks later."""
        if not ids:
            return
        operation = ReleaseOperation(Owner(owner, grant), ids)
        if wait:
            self._run(operation)
        else:
            self._link().start(operation)

    def duplicate(
        self, source: ObjectId, target: ObjectId, owner: PeerId, wait_seconds: float = 0.0, grant: bytes = b""
    ) -> None:
        """Make `target` another name of the value of `source`; no bytes move."""
        self._run(DuplicateOperation(source, target, Owner(owner, grant), wait_seconds))

    def start_duplicate(
        self, source: ObjectId, target: ObjectId, owner: Owner, source_owner: Owner = NO_OWNER
    ) -> PendingPut:
        """The same in two steps, for many at once; ObjectNotFound comes from `finish`. `source_owner`: for whom the
        source is read, if not for `owner`."""
        link = self._link()
        operation = DuplicateOperation(source, target, owner, 0.0, source_owner)
        link.start(operation, is_urgent=False)
        return PendingPut(link, operation)

    def status(self) -> StorageStatus:
        operation = StatusOperation()
        self._run(operation)
        assert operation.status is not None
        return operation.status

    def close(self) -> None:
        """Calls that are under way in other threads raise StorageUnavailable; later ones connect anew."""
        _close_own(self._links)

    def _shares_memory(self, end_at: float) -> bool:
        link = self._link()
        if link.shares_memory is None and memory_files.FEATURES:
            link.run(MeetOperation(), end_at)
        return bool(link.shares_memory)

    def _is_full(self, put_bytes: int) -> bool:
        """Whether with this put so much has piled up that it shall leave. Two threads may both find so, or neither:
        then it leaves with the next."""
        self._piled_bytes += put_bytes
        is_full = self._piled_bytes >= TOGETHER_BYTES
        if is_full:
            self._piled_bytes = 0
        return is_full

    def _run(self, operation: Operation) -> None:
        self._link().run(operation)

    def _link(self) -> Link:
        """Returns the link to use. A handler of a signal, or a destructor, may ask in the middle of a turn of the same
        thread: no answer can come by the link below until it has returned, so it gets another one."""
        link = self._links.get((os.getpid(), 0))
        if link is not None and not waits.is_mine(link.lock):
            return link
        return next(link for depth in count() if not waits.is_mine((link := self._link_at(depth)).lock))

    def _link_at(self, depth: int) -> Link:
        key = os.getpid(), depth
        link = self._links.get(key)
        if link is None:
            with exhaustion_told():
                new = Link(
                    self.address,
                    self._role,
                    self._software_name,
                    self._timeout_seconds,
                    self._on_restart if not depth else None,
                    self._shown,
                )
            # Two threads may come here at once: setdefault is atomic.
            link = self._links.setdefault(key, new)
            if link is not new:
                new.close()
        return link


class PendingPut:
    """A put that is under way. Its buffers must not change before it is finished."""

    def __init__(
        self,
        link: Link,
        operation: Operation,
        otherwise: Callable[[], Operation] | None = None,
        file: memory_files.OpenedFile | None = None,
    ) -> None:
        #: where memory is shared: has the bytes as long as a reference to it exists
        self.file = file
        self._link = link
        self._operation = operation
        #: makes what is to be done when the storage cannot read the file
        self._otherwise = otherwise

    @property
    def is_done(self) -> bool:
        """`finish` will not wait, unless it has to send the bytes after all."""
        return self._operation.is_done

    def finish(self, end_at: float = math.inf) -> None:
        """Until the object exists; raises what went wrong, TimeoutError if it does not by `end_at`."""
        try:
            self._link.finish(self._operation, end_at)
        except NotShared:
            assert self._otherwise is not None, "only memory files are refused for not being shared"
            self._link.run(self._otherwise().in_place_of(self._operation), end_at)


class PendingGet:
    """A value that is waited for."""

    def __init__(self, link: Link, operation: GetOperation) -> None:
        self._link = link
        self._operation = operation
        #: a thread has ended the wait; what `finish` raises then means nothing else
        self.is_given_up = False
        link.start(operation, is_urgent=False)

    def is_missing(self) -> bool:
        """Waits until it is done, or its bytes are on their way, or the storage has not had it for `MISSING_SECONDS`.
        Returns whether the last is so."""
        operation = self._operation
        while not operation.is_done and operation.value is None:
            if self._link.wait(operation, time.monotonic() + MISSING_SECONDS):
                return False
            if operation.waits_until():
                return True
        return False

    def finish(self, end_at: float = math.inf) -> Buffer:
        """The value; raises what went wrong: ObjectNotFound if the storage has waited for it in vain, TimeoutError if
        the storage has not answered by then."""
        link, operation = self._link, self._operation
        link.finish(operation, end_at)
        if operation.shared is not None:
            try:
                return memory_files.open_file(operation.shared.file, operation.shared.total_bytes).content()
            except memory_files.Unreadable:
                # It was released meanwhile, or is there for the storage's own user only.
                operation = operation.without_sharing()
                link.start(operation, is_urgent=False)
                link.finish(operation, end_at)
        assert operation.value is not None
        return operation.value

    def give_up(self) -> None:
        """Safe in any thread: the one that waits in `finish` waits no more. The storage waits on for a while."""
        self.is_given_up = True
        self._link.abandon(self._operation)


def _close_own(links: dict[tuple[int, int], Link]) -> None:
    for depth in count():
        link = links.pop((os.getpid(), depth), None)
        if link is None:
            return
        link.close()
