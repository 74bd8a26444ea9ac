"""The client's way to the object storage."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

from scaler.client.core.records import Definition, Submission
from scaler.client.io.background import Background, weakly
from scaler.client.objects.functions import StoredFunctions
from scaler.client.objects.garbage import Garbage
from scaler.client.objects.holdings import Holdings, Keepsake
from scaler.client.objects.names import Names
from scaler.client.objects.puts import Puts
from scaler.utility.exceptions import MissingObjects, ObjectStorageException, UnauthorizedError
from scaler_protocol import codes, waits
from scaler_protocol.errors import (
    ObjectNotFound,
    OwnerGone,
    ScalerError,
    StorageError,
    StorageQuota,
    StorageUnavailable,
)
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Buffer
from scaler_protocol.objects import NO_OWNER, ObjectClient, Owner, PendingGet, PendingPut
from scaler_protocol.waits import Event

AT_ONCE = 64
"""So many objects are taken over or stored again at a time, before the answers are waited for."""

TAKE_OVER_PAUSES = (0.1, 0.5, 2.0, 5.0)
"""Before a take-over is tried again, which has failed because the storage could not be reached."""

RELEASE_SECONDS = 0.02
"""What is released within so short a time is released together."""

_Result = TypeVar("_Result")

_log = logging.getLogger("scaler")


class StartedPut:
    """An object on its way to the storage."""

    def __init__(
        self, storage: Storage, object_id: ObjectId, owner: PeerId, pieces: Sequence[Buffer], pending: PendingPut
    ) -> None:
        self.object_id = object_id
        self.owner = owner
        self.pieces = pieces
        self._storage = storage
        self._pending = pending

    @property
    def is_done(self) -> bool:
        return self._pending.is_done

    def finish(self, end_at: float = math.inf) -> None:
        """Until it is there; raises what went wrong. Until then its bytes must not change."""
        self._storage.finish_put(self, self._pending, end_at)


class Storage:
    """Puts and gets in the caller's thread; releases, and what a successor needs again, in one of its own."""

    def __init__(
        self,
        owner: PeerId,
        timeout_seconds: float,
        fixed_address: str | None,
        garbage: Garbage,
        shown: Pass | None = None,
    ) -> None:
        self._shown = shown
        self.names = Names(owner, timeout_seconds)
        #: told of objects that are lost, and whether with our session; in a thread of ours
        self.on_lost: Callable[[Sequence[ObjectId], bool], None] = lambda ids, is_session_lost: None
        #: told of a restart of the storage, before anything is put there again; in a thread of ours
        self.on_restarted: Callable[[], None] = lambda: None
        self._timeout_seconds = timeout_seconds
        self._fixed_address = fixed_address
        self._address = fixed_address or ""
        self._lock = waits.RLock()
        self._client: ObjectClient | None = None
        self._is_closed = False
        self._background = Background("scaler-storage")
        #: what is stored by content: functions and serializers
        self.functions = StoredFunctions(partial(self._put, is_essential=True), garbage)
        self.holdings = Holdings()
        self.locks = self._lock, self.names.lock, self.functions.lock, self.holdings.lock  #: that a turn may take
        self._garbage = garbage
        #: to be released; when there is any, a job for that is waiting
        self._unneeded: list[ObjectId] = []
        #: names of sessions before the last Welcome, under which we may still own what we hold
        self._given_up: list[PeerId] = []
        #: how often another storage has answered than before
        self.restarts = 0
        #: a take-over that failed shall not wait any longer: our name has changed, or we leave
        self._retry_now = Event()

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

    def puts(self) -> Puts:
        return Puts(self.start_put, self._garbage)

    def start_put(self, object_id: ObjectId, pieces: Sequence[Buffer]) -> StartedPut:
        return self._start_put(object_id, pieces)

    def is_lost(self, object_id: Buffer) -> bool:
        """It was stored in our name, and is there no more."""
        return self.holdings.is_lost(ObjectId(bytes(object_id)))

    def get(self, object_id: ObjectId, end_at: float) -> Buffer:
        """By our present name, or by one before: what we had then may not have passed to us yet. TimeoutError if it has
        not come by `end_at`."""
        names = [owner for owner in self.names.all() if owner.grant] or [NO_OWNER]
        for owner in names[:-1]:
            try:
                return self._got(object_id, owner, end_at)
            except MissingObjects:
                continue
        return self._got(object_id, names[-1], end_at)

    def _got(self, object_id: ObjectId, owner: Owner, end_at: float) -> Buffer:
        return _translated(lambda: self._connected().get(object_id, owner=owner, end_at=end_at))

    def present_owner(self) -> Owner:
        """Our name, when the scheduler has welcomed it, with its grant."""
        return self.names.welcomed()

    def owner_now(self) -> Owner:
        """Our name, which the scheduler may not have welcomed. Never waits."""
        return self.names.present

    def meet(self) -> None:
        """Until there is a session: `restarts` counts from then on."""
        _translated(lambda: self._connected().meet())

    def start_get(self, object_id: ObjectId, wait_seconds: float, owner: Owner) -> PendingGet:
        """A value that a task stores while it runs. The caller releases it with `release_as`."""
        reader = owner if owner.grant else NO_OWNER
        return _translated(lambda: self._connected().start_get(object_id, wait_seconds, reader))

    def put_as(self, owner: Owner, object_id: ObjectId, pieces: Sequence[Buffer]) -> bool:
        """Is not held: it is gone with this name of ours, and not stored again after a restart of the storage. False:
        the name is gone."""
        try:
            _translated(lambda: self._connected().put(object_id, owner.peer_id, pieces, owner.grant))
        except ObjectStorageException as error:
            if isinstance(error.__cause__, OwnerGone):
                return False
            raise
        return True

    def release_as(self, owner: Owner, ids: Sequence[ObjectId]) -> None:
        """Never waits."""
        if ids:
            self._background.run(partial(self._quietly_release_as, owner, ids))

    def _quietly_release_as(self, owner: Owner, ids: Sequence[ObjectId]) -> None:
        try:
            self._connected().release(owner.peer_id, ids, grant=owner.grant, wait=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not release %d objects: %s", len(ids), error)

    def release(self, ids: Iterable[ObjectId]) -> None:
        """Never waits. An object that cannot be released now goes when this client leaves."""
        with self.functions.lock:
            batch = self.functions.unwanted(ids)
            self.holdings.remove(batch)
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
            self._quietly_release([one for one in self.functions.unwanted(ids) if not self.holdings.is_held(one)])

    def hold(self, results: Iterable[tuple[TaskId, ObjectId]], submission: Submission | Definition | None) -> None:
        """Results that workers have stored in our name."""
        self.holdings.add_results(results, submission)

    def claim(self, results: Sequence[tuple[TaskId, ObjectId]], is_asked_for: bool) -> None:
        """The same for results that the scheduler has kept; perhaps it is to be found out whether they are there."""
        self.hold(results, None)
        if is_asked_for:
            self._background.run(partial(self._ask_for, [object_id for _, object_id in results]))

    def _ask_for(self, ids: Sequence[ObjectId]) -> None:
        try:
            self.look_for(ids)
        except (ObjectStorageException, UnauthorizedError) as error:  # then a node that misses one says so
            _log.debug("could not ask for what a restarted storage may have kept: %s", error)

    def rename(self, owner: PeerId) -> None:
        """The session is over, and its owner's name with it. (CLI-8)"""
        self.names.rename(owner)
        self.holdings.count_again()
        self._retry_now.set()

    def take_over(self, grant: bytes, then: Callable[[PeerId, bool], None]) -> None:
        """The scheduler has welcomed our name. Own, under it, all that we had under earlier ones; then give up those.
        Never waits; `then` is told of it, and before that, perhaps, that it takes long. (CLI-11)"""
        owner, previous = self.names.welcome(grant)
        if previous:
            self._background.run(partial(self._take_over, previous, owner, then))

    def _take_over(self, previous: list[PeerId], owner: PeerId, then: Callable[[PeerId, bool], None]) -> None:
        """Until it is done, or a later name takes over: a storage that cannot be reached may come back, and what
        is not taken over would be lost with the old name, or stay under it."""
        self._given_up += previous
        if self._unneeded:  # an interrupt may have come before a job for that was waiting
            self._release_unneeded()
        late_at = time.monotonic() + self._timeout_seconds
        is_late = False
        for pause in chain(TAKE_OVER_PAUSES, repeat(TAKE_OVER_PAUSES[-1])):
            self._retry_now.clear()
            if self._is_closed or owner != self.names.owner:
                return
            if self._take_over_some(self.holdings.all(), self._given_up, owner):
                self._given_up.clear()
                then(owner, True)
                return
            if not is_late and time.monotonic() >= late_at:
                is_late = True
                then(owner, False)
            self._retry_now.wait(pause)

    def _take_over_some(
        self, held: Sequence[tuple[ObjectId, Keepsake]], previous: Sequence[PeerId], owner: PeerId
    ) -> bool:
        try:
            self._adopt(held, owner, is_session_lost=True)
            for old in previous:
                ids = [object_id for object_id, _ in held]
                self._connected().release(old, ids, grant=self.names.grant(old), wait=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not take over what the old session owned: %s", error)
            return False
        return True

    def _restore_later(self) -> None:
        self.restarts += 1
        self._background.run(self._restore)

    def _restore(self) -> None:
        """The storage was restarted and has lost all that it has not kept. Tasks wait for their functions and arguments
        for a while, so what was kept here comes in time. (CLI-13, STO-42)"""
        self.on_restarted()
        if not self.names.is_welcomed:
            return  # the take-over that comes with the Welcome does the same
        held = self.holdings.all()
        try:
            lost_count = self._adopt(held, self.names.owner, is_session_lost=False)
        except (StorageError, ObjectStorageException) as error:
            _log.debug("could not store again what a restarted storage has lost: %s", error)
            return
        there_count = len(held) - lost_count
        _log.warning("the object storage was restarted: %d objects are there again", there_count)

    def _adopt(
        self,
        held: Sequence[tuple[ObjectId, Keepsake]],
        owner: PeerId,
        *,
        is_session_lost: bool,
        end_at: float = math.inf,
    ) -> int:
        """Own these objects too, and store again what is gone; returns how many are lost. Raises when the storage
        cannot be reached, or has not answered by `end_at`."""
        lost: list[ObjectId] = []
        for begin in range(0, len(held), AT_ONCE):
            lost += self._adopt_some(held[begin : begin + AT_ONCE], owner, end_at)
        lost = self.holdings.lose(lost)
        if lost:
            _log.debug("%d objects are gone with the session", len(lost))
            self.on_lost(lost, is_session_lost)
        return len(lost)

    def _adopt_some(self, held: Sequence[tuple[ObjectId, Keepsake]], owner: PeerId, end_at: float) -> list[ObjectId]:
        """Side by side. Most of it is still there, so first it is only given another owner."""
        client, grant = self._connected(), self.names.grant(owner)
        gone = list(held)
        for source in [name for name in self.names.all() if name.peer_id != owner] or [NO_OWNER]:
            named = Owner(owner, grant)
            started = [(one, kept, client.start_duplicate(one, one, named, source)) for one, kept in gone]
            gone = [(one, kept) for one, kept, pending in started if not _is_found(pending, end_at)]
        puts = []
        for object_id, kept in gone:
            pieces = kept.bytes_again()
            pending = None if pieces is None else client.start_put(object_id, owner, pieces, grant, end_at)
            puts.append((object_id, pending))
        return [object_id for object_id, pending in puts if pending is None or not _is_found(pending, end_at)]

    def look_for(self, ids: Sequence[ObjectId], end_at: float = math.inf) -> None:
        """Afterwards it is known which of these are lost; what was kept of them is there. TimeoutError if the storage
        has not answered by `end_at`."""
        wanted = frozenset(ids)
        held = [(object_id, kept) for object_id, kept in self.holdings.all() if object_id in wanted]
        owner = self.names.welcomed().peer_id
        _translated(lambda: self._adopt(held, owner, is_session_lost=False, end_at=end_at))

    def put_again(self, arguments: dict[ObjectId, Keepsake], end_at: float) -> None:
        """What a finished call took, which is to be made again. MissingObjects if some of it is not kept, TimeoutError
        if it is not there by `end_at`."""
        every = [(object_id, kept.bytes_again()) for object_id, kept in arguments.items()]
        for object_id, pieces in every:
            if pieces is None:
                raise MissingObjects(
                    f"a result is no longer in the object storage, and neither is argument {object_id.hex()} of its "
                    "task: the memory of arrays is not kept for that"
                )
        kept = [(object_id, pieces) for object_id, pieces in every if pieces is not None]
        with self.functions.lock:  # a release of these that is waiting leaves them out from here on, or has left
            for object_id, pieces in kept:
                self.holdings.add(object_id, pieces)
        for started in [self._start_put(object_id, pieces, end_at=end_at) for object_id, pieces in kept]:
            started.finish(end_at)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        self.names.close()
        self._retry_now.set()
        if client is not None:
            client.close()

    def _put(self, object_id: ObjectId, pieces: Sequence[Buffer], *, is_essential: bool = False) -> None:
        self._start_put(object_id, pieces, is_essential=is_essential).finish()

    def _start_put(
        self, object_id: ObjectId, pieces: Sequence[Buffer], *, is_essential: bool = False, end_at: float = math.inf
    ) -> StartedPut:
        owner, grant = self.names.welcomed()
        client = _translated(self._connected)
        # Held before it is there: a session that is lost in the middle moves it too.
        self.holdings.add(object_id, pieces, is_essential=is_essential)
        try:
            try:
                pending = client.start_put(object_id, owner, pieces, grant, end_at)
            except OwnerGone as gone:
                owner, grant = self.names.next_after(owner, gone)
                pending = client.start_put(object_id, owner, pieces, grant, end_at)
        except BaseException as error:
            self.holdings.remove((object_id,))
            if isinstance(error, StorageError):
                raise _told(error) from error
            raise
        return StartedPut(self, object_id, owner, pieces, pending)

    def finish_put(self, put: StartedPut, pending: PendingPut, end_at: float) -> None:
        owner = put.owner
        try:
            try:
                pending.finish(end_at)
            except OwnerGone as gone:
                owner = self.names.next_after(owner, gone).peer_id
                self._put_under(owner, put, end_at)
            if owner != self.names.owner and self.names.is_welcomed:
                # Too late to be taken over, and it may be gone with its name by now. Here its bytes are at hand still.
                self._put_under(self.names.owner, put, end_at)
                self.release_as(Owner(owner, self.names.grant(owner)), (put.object_id,))
        except StorageError as error:
            self.holdings.remove((put.object_id,))
            raise _told(error) from error
        self.holdings.stored(put.object_id, pending.file)

    def _put_under(self, owner: PeerId, put: StartedPut, end_at: float) -> None:
        """Once more."""
        grant = self.names.grant(owner)
        self._connected().start_put(put.object_id, owner, put.pieces, grant, end_at).finish(end_at)

    def _quietly_release(self, ids: list[ObjectId]) -> None:
        self._quietly_release_as(self.names.present, ids)

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
                    on_restart=weakly(self._restore_later),
                    shown=self._shown,
                )
            return self._client


def _translated(call: Callable[[], _Result]) -> _Result:
    """The storage's errors as those that programs know."""
    try:
        return call()
    except ObjectNotFound as error:
        raise MissingObjects(f"the result is no longer in the object storage: {error}") from error
    except StorageError as error:
        raise _told(error) from error


def _told(error: StorageError) -> ScalerError:
    if isinstance(error, StorageQuota):
        return StorageQuota(str(error), error.code)
    kind = UnauthorizedError if error.code == codes.UNAUTHORIZED else ObjectStorageException
    return kind(str(error))


def _is_found(pending: PendingPut, end_at: float) -> bool:
    """Done; False when there is no such object, or no room. Raises when the storage cannot be reached."""
    try:
        pending.finish(end_at)
    except (StorageUnavailable, OwnerGone):  # the name was given up as well: the next take-over will have it
        raise
    except StorageError:
        return False
    return True
