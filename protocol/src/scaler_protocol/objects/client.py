"""ObjectClient: put, get, release and duplicate, for processors and for the user's threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence

from scaler_protocol.addresses import parse_address
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Buffer, StorageStatus
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.link import Link
from scaler_protocol.objects.operations import (
    DuplicateOperation,
    GetOperation,
    NotShared,
    Operation,
    PutOperation,
    PutSharedOperation,
    ReleaseOperation,
    StatusOperation,
)

#: From here on a value is shared where it can be; below, a message with its bytes costs less.
SHARED_BYTES = 256 * 1024


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
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_restart` is called when another storage answers than before: what was put is not there. It is called by
        whoever drives the connection, must not block, and must not use this object itself."""
        parse_address(address)
        self.address = address
        self._role = role
        self._software_name = software_name
        self._timeout_seconds = timeout_seconds
        self._on_restart = on_restart
        #: by process id: what a forked child inherits is its parent's, and must not be touched there
        self._links: dict[int, Link] = {}
        self._finalizer = weakref.finalize(self, _close_own, self._links)

    def put(self, object_id: ObjectId, owner: PeerId, buffers: Sequence[Buffer]) -> None:
        """Store the buffers, one after the other, as one value. They are sent as they are, without a copy, and must
        not change until this returns. An object that exists gains an owner."""
        if not self._put_shared(object_id, owner, buffers):
            self._run(PutOperation(object_id, owner, buffers))

    def get(self, object_id: ObjectId, wait_seconds: float = 0.0) -> Buffer:
        """The value, in memory that may be written to and is nobody else's. Waits for an object that does not exist
        yet; ObjectNotFound if none comes in that time."""
        operation = GetOperation(object_id, wait_seconds, accepts_shared=bool(self._link().shares_memory))
        self._run(operation)
        if operation.shared is not None:
            try:
                return memory_files.open_file(operation.shared.file, operation.shared.total_bytes).content()
            except memory_files.Unreadable:
                # It was released meanwhile, or is there for the storage's own user only.
                operation = GetOperation(object_id, wait_seconds)
                self._run(operation)
        assert operation.value is not None
        return operation.value

    def release(self, owner: PeerId, ids: Sequence[ObjectId], *, wait: bool = True) -> None:
        """This owner needs these objects no longer. With `wait=False` it is done in the background, still in order
        with what this process asks later."""
        if not ids:
            return
        operation = ReleaseOperation(owner, ids)
        if wait:
            self._run(operation)
        else:
            self._link().start(operation)

    def duplicate(self, source: ObjectId, target: ObjectId, owner: PeerId, wait_seconds: float = 0.0) -> None:
        """Make `target` another name of the value of `source`; no bytes move."""
        self._run(DuplicateOperation(source, target, owner, wait_seconds))

    def status(self) -> StorageStatus:
        operation = StatusOperation()
        self._run(operation)
        assert operation.status is not None
        return operation.status

    def close(self) -> None:
        """Calls that are under way in other threads raise StorageUnavailable; later ones connect anew."""
        _close_own(self._links)

    def _put_shared(self, object_id: ObjectId, owner: PeerId, buffers: Sequence[Buffer]) -> bool:
        """False when it has to be put in chunks: small, or where memory is not shared, or when there is none left."""
        total_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
        if total_bytes < SHARED_BYTES or not self._shares_memory():
            return False
        try:
            file = memory_files.create(object_id, buffers)
            self._run(PutSharedOperation(object_id, owner, total_bytes, file.reference()))
        except (OSError, NotShared):
            return False
        return True

    def _shares_memory(self) -> bool:
        link = self._link()
        if link.shares_memory is None and memory_files.FEATURES:
            self.status()  # of no interest: its answer comes in a session
        return bool(link.shares_memory)

    def _run(self, operation: Operation) -> None:
        self._link().run(operation)

    def _link(self) -> Link:
        link = self._links.get(os.getpid())
        if link is None:
            new = Link(self.address, self._role, self._software_name, self._timeout_seconds, self._on_restart)
            # Two threads may come here at once: setdefault is atomic.
            link = self._links.setdefault(os.getpid(), new)
            if link is not new:
                new.close()
        return link


def _close_own(links: dict[int, Link]) -> None:
    link = links.pop(os.getpid(), None)
    if link is not None:
        link.close()
