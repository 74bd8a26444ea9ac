"""The client's way to the object storage."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from scaler.client.io.background import Background
from scaler.client.objects.functions import StoredFunctions
from scaler.client.objects.garbage import Garbage
from scaler.utility.exceptions import MissingObjects, ObjectStorageException
from scaler_protocol import codes, values
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, PeerId, new_object_id
from scaler_protocol.messages import Buffer
from scaler_protocol.objects import ObjectClient, PendingPut

KEPT_BYTES = 256 * 1024 * 1024
"""How many bytes of stored objects are kept here as well, for a storage that has lost them. Only what cannot change
meanwhile is kept: not the memory of the program's arrays."""

RELEASE_SECONDS = 0.02
"""What is released within so short a time is released together."""

_Result = TypeVar("_Result")

_log = logging.getLogger("scaler")


class StartedPut:
    """An object on its way to the storage."""

    def __init__(self, object_id: ObjectId, pending: PendingPut) -> None:
        self.object_id = object_id
        self._pending = pending

    @property
    def is_done(self) -> bool:
        return self._pending.is_done

    def finish(self) -> None:
        """Until it is there; raises what went wrong. Until then its bytes must not change."""
        _translated(self._pending.finish)


class Storage:
    """Puts and gets in the caller's thread; releases, and what a successor needs again, in one of its own."""

    def __init__(self, owner: PeerId, timeout_seconds: float, fixed_address: str | None, garbage: Garbage) -> None:
        self._owner = owner
        self._timeout_seconds = timeout_seconds
        self._fixed_address = fixed_address
        self._address = fixed_address or ""
        self._lock = threading.Lock()
        self._client: ObjectClient | None = None
        self._is_closed = False
        self._background = Background("scaler-storage")
        #: what is stored by content: functions and serializers
        self.functions = StoredFunctions(self._put, garbage)
        #: all that the cluster keeps in our name, with its bytes as far as they are kept here
        self._held: dict[ObjectId, Sequence[Buffer] | None] = {}
        self._kept_bytes = 0
        #: to be released; when there is any, a job for that is waiting
        self._unneeded: list[ObjectId] = []
        #: names under which we may still own what we hold
        self._previous: list[PeerId] = []

    @property
    def address(self) -> str:
        return self._address

    def use(self, address: str) -> None:
        """Where the scheduler says the storage is. An address the program has given wins."""
        if self._fixed_address or not address or address == self._address:
            return
        with self._lock:
            self._address = address
            old, self._client = self._client, None
        if old is not None:
            self._background.run(old.close)

    def put(self, pieces: Sequence[Buffer]) -> ObjectId:
        object_id = new_object_id()
        self._put(object_id, pieces)
        return object_id

    def start_put(self, pieces: Sequence[Buffer]) -> StartedPut:
        """The same, without waiting until it is there."""
        object_id = new_object_id()
        return StartedPut(object_id, self._start_put(object_id, pieces))

    def get(self, object_id: ObjectId) -> Buffer:
        return _translated(lambda: self._connected().get(object_id))

    def release(self, ids: Iterable[ObjectId]) -> None:
        """Never waits. An object that cannot be released now goes when this client leaves."""
        with self.functions.lock:
            batch = self.functions.unwanted(ids)
            for object_id in batch:
                self._kept_bytes -= values.size_of(self._held.pop(object_id, None) or ())
        with self._lock:
            is_scheduled = bool(self._unneeded)
            self._unneeded += batch
        if batch and not is_scheduled:
            self._background.run(self._release_unneeded)

    def _release_unneeded(self) -> None:
        """One request for all that comes within a moment: the results of a map are dropped one by one."""
        time.sleep(RELEASE_SECONDS)
        with self._lock:
            ids, self._unneeded = self._unneeded, []
        # Under this lock no function is wanted again that we are just releasing: what puts it comes after that.
        with self.functions.lock:
            self._quietly_release(self.functions.unwanted(ids))

    def hold(self, ids: Iterable[ObjectId]) -> None:
        """Results that workers have stored in our name."""
        self._held.update(dict.fromkeys(ids))

    def rename(self, owner: PeerId) -> None:
        """The session is over, and its owner's name with it. (CLI-8)"""
        self._previous.append(self._owner)
        self._owner = owner

    def take_over(self, then: Callable[[], None]) -> None:
        """Own, under the new name, all that we had under earlier ones; then give up those. Never waits. (CLI-11)"""
        previous, self._previous = self._previous, []
        if previous:
            self._background.run(partial(self._take_over, previous, self._owner, then))

    def _take_over(self, previous: list[PeerId], owner: PeerId, then: Callable[[], None]) -> None:
        held = list(self._held.items())
        lost_count = sum(not self._adopt(object_id, owner, pieces) for object_id, pieces in held)
        if lost_count:
            _log.debug("%d objects are gone with the session: tasks that need them will fail", lost_count)
        then()
        try:
            for old in previous:
                self._connected().release(old, [object_id for object_id, _ in held], wait=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not release what the old session owned: %s", error)

    def _restore_later(self) -> None:
        self._background.run(self._restore)

    def _restore(self) -> None:
        """The storage was restarted and has nothing any more. Tasks wait for their functions and arguments for a
        while, so what was kept comes in time. (CLI-13)"""
        kept = [(object_id, pieces) for object_id, pieces in list(self._held.items()) if pieces is not None]
        restored_count = sum(self._adopt(object_id, self._owner, pieces) for object_id, pieces in kept)
        _log.warning("the object storage was restarted: %d objects were put there again", restored_count)

    def _adopt(self, object_id: ObjectId, owner: PeerId, pieces: Sequence[Buffer] | None) -> bool:
        """Own this object too; False when it is gone and we have not kept its bytes."""
        try:
            client = self._connected()
            if pieces is None:
                client.duplicate(object_id, object_id, owner)
            else:
                client.put(object_id, owner, pieces)
        except (StorageError, ObjectStorageException):
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _put(self, object_id: ObjectId, pieces: Sequence[Buffer]) -> None:
        pending = self._start_put(object_id, pieces)
        _translated(pending.finish)

    def _start_put(self, object_id: ObjectId, pieces: Sequence[Buffer]) -> PendingPut:
        # Held before it is there: a session that is lost in the middle moves it too.
        size = values.size_of(pieces)
        if size + self._kept_bytes <= KEPT_BYTES and all(map(_is_constant, pieces)):
            self._held[object_id] = pieces
            self._kept_bytes += size
        else:
            self._held[object_id] = None
        return _translated(lambda: self._connected().start_put(object_id, self._owner, pieces))

    def _quietly_release(self, ids: list[ObjectId]) -> None:
        try:
            self._connected().release(self._owner, ids, wait=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not release %d objects: %s", len(ids), error)

    def _connected(self) -> ObjectClient:
        with self._lock:
            if self._client is None:
                if self._is_closed:
                    raise ObjectStorageException("this client is disconnected: make a new one")
                if not self._address:
                    raise ObjectStorageException(
                        "the scheduler has no object storage yet: check that one runs, and that the scheduler was "
                        "given its address (-osa)"
                    )
                self._client = ObjectClient(
                    self._address,
                    role=codes.ROLE_CLIENT,
                    software_name="scaler-client",
                    timeout_seconds=self._timeout_seconds,
                    on_restart=_weakly(self._restore_later),
                )
            return self._client


def _translated(call: Callable[[], _Result]) -> _Result:
    """The storage's errors as those that programs know."""
    try:
        return call()
    except ObjectNotFound as error:
        raise MissingObjects(f"the result is no longer in the object storage: {error}") from error
    except StorageError as error:
        raise ObjectStorageException(str(error)) from error


def _is_constant(piece: Buffer) -> bool:
    """Bytes, or a view of some, as which large ones travel."""
    return type(piece) is bytes or (type(piece) is memoryview and type(piece.obj) is bytes)


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """The connection's own thread must not keep alive whom it belongs to."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call
