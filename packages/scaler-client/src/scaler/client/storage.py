"""The client's way to the object storage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from functools import partial

from scaler.client.background import Background
from scaler.utility.exceptions import MissingObjects, ObjectStorageException
from scaler_protocol import codes, values
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, PeerId, content_id, new_object_id
from scaler_protocol.messages import Buffer
from scaler_protocol.objects import ObjectClient

_log = logging.getLogger("scaler")


class Storage:
    """Puts and gets in the caller's thread; releases, and what a successor needs again, in one of its own."""

    def __init__(self, owner: PeerId, timeout_seconds: float, fixed_address: str | None) -> None:
        self._owner = owner
        self._timeout_seconds = timeout_seconds
        self._fixed_address = fixed_address
        self._address = fixed_address or ""
        self._lock = threading.Lock()
        self._client: ObjectClient | None = None
        self._background = Background("scaler-storage")
        #: what was stored by content, kept because a successor of the storage will need it again
        self._functions: dict[ObjectId, Sequence[Buffer]] = {}

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

    def put_function(self, pieces: Sequence[Buffer]) -> ObjectId:
        """Store something that is named by its content, once."""
        content = values.join(pieces)
        object_id = content_id(bytes(content))
        if object_id not in self._functions:
            self._put(object_id, [content])
            self._functions[object_id] = [content]
        return object_id

    def put(self, pieces: Sequence[Buffer]) -> ObjectId:
        object_id = new_object_id()
        self._put(object_id, pieces)
        return object_id

    def get(self, object_id: ObjectId) -> bytearray:
        try:
            return self._connected().get(object_id)
        except ObjectNotFound as error:
            raise MissingObjects(f"the result is no longer in the object storage: {error}") from error
        except StorageError as error:
            raise ObjectStorageException(str(error)) from error

    def release(self, ids: Iterable[ObjectId]) -> None:
        """Never waits. An object that cannot be released now goes when this client leaves."""
        batch = list(ids)
        self._background.run(lambda: self._quietly_release(batch))

    def store_again(self, functions: Iterable[ObjectId]) -> None:
        """Never waits: workers wait for a function that is not there yet."""
        for object_id in functions:
            pieces = self._functions.get(object_id)
            if pieces is not None:
                self._background.run(partial(self._put, object_id, pieces))

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _put(self, object_id: ObjectId, pieces: Sequence[Buffer]) -> None:
        try:
            self._connected().put(object_id, self._owner, pieces)
        except StorageError as error:
            raise ObjectStorageException(str(error)) from error

    def _quietly_release(self, ids: list[ObjectId]) -> None:
        try:
            self._connected().release(self._owner, ids, wait=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not release %d objects: %s", len(ids), error)

    def _connected(self) -> ObjectClient:
        with self._lock:
            if self._client is None:
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
                )
            return self._client
