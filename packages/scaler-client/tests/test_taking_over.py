"""What a client owned under an earlier name becomes its own under the next, also if the storage cannot be reached for a
while. (CLI-11)"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from tests.support.client_core import call, task

from scaler.client.objects import storage as storages
from scaler.client.objects.garbage import Garbage
from scaler.client.objects.storage import Storage
from scaler.utility.exceptions import UnauthorizedError
from scaler_protocol import codes
from scaler_protocol.errors import ObjectNotFound, StorageError, StorageUnavailable
from scaler_protocol.ids import ObjectId, Owner, PeerId, new_object_id

FIRST, SECOND, THIRD = (PeerId(name.ljust(16, b".")) for name in (b"first", b"second", b"third"))
OBJECT = ObjectId(b"object".ljust(16, b"."))
WAIT = 20.0


class Done:
    """The answer to a request."""

    def finish(self, end_at: float) -> None:
        pass


class Server:
    """Takes what it is asked for, but for the first few times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.on_failure: Callable[[], None] = lambda: None
        self.owners: set[PeerId] = {FIRST}

    def start_duplicate(self, source: ObjectId, target: ObjectId, owner: Owner, source_owner: Owner) -> Done:
        assert source == target == OBJECT
        if self.failures:
            self.failures -= 1
            self.on_failure()
            raise StorageUnavailable("not now")
        self.owners.add(owner.peer_id)
        return Done()

    def release(self, owner: PeerId, ids: Sequence[ObjectId], *, grant: bytes, wait: bool) -> None:
        assert OBJECT in ids
        self.owners.discard(owner)

    def close(self) -> None:
        pass


class Told:
    def __init__(self) -> None:
        self.said: list[tuple[PeerId, bool]] = []
        self.is_complete = threading.Event()

    def __call__(self, owner: PeerId, is_complete: bool) -> None:
        self.said.append((owner, is_complete))
        if is_complete:
            self.is_complete.set()


def storage_at(monkeypatch: pytest.MonkeyPatch, server: Server, timeout_seconds: float = 60.0) -> Storage:
    monkeypatch.setattr(storages, "TAKE_OVER_PAUSES", (0.0,))
    storage = Storage(FIRST, timeout_seconds, "tcp://127.0.0.1:1", Garbage())
    monkeypatch.setattr(storage, "_connected", lambda: server)
    storage.hold([(task("t"), OBJECT)], call("t"))
    return storage


@pytest.mark.parametrize("failures", [0, 1, 5])
def test_it_is_tried_until_it_is_done(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    server, told = Server(failures), Told()
    storage = storage_at(monkeypatch, server)
    storage.rename(SECOND)
    storage.take_over(b"", told)
    assert told.is_complete.wait(WAIT)
    assert (told.said, server.owners) == ([(SECOND, True)], {SECOND})


def test_what_waits_for_it_is_told_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    server, told = Server(3), Told()
    storage = storage_at(monkeypatch, server, timeout_seconds=0.0)
    storage.rename(SECOND)
    storage.take_over(b"", told)
    assert told.is_complete.wait(WAIT)
    assert told.said == [(SECOND, False), (SECOND, True)]


def test_a_later_name_takes_over_from_all_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second session is lost while its take-over fails."""
    server, told, later = Server(1), Told(), Told()
    storage = storage_at(monkeypatch, server)

    def lose_session() -> None:
        server.owners.add(SECOND)  # as if a part of it had been done
        storage.rename(THIRD)
        storage.take_over(b"", later)

    server.on_failure = lose_session
    storage.rename(SECOND)
    storage.take_over(b"", told)
    assert later.is_complete.wait(WAIT)
    assert (told.said, later.said) == ([], [(THIRD, True)])
    assert server.owners == {THIRD}


def test_a_client_that_leaves_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server, told = Server(1_000_000), Told()
    storage = storage_at(monkeypatch, server)
    monkeypatch.setattr(storages, "TAKE_OVER_PAUSES", (WAIT,))
    server.on_failure = storage.close
    storage.rename(SECOND)
    storage.take_over(b"", told)
    assert storage._background.wait(WAIT)
    assert (told.said, server.failures) == ([], 999_999)


class Guarded:
    """A storage with keys: it refuses every name without its grant, as it refuses what it has no room for."""

    def __init__(self) -> None:
        self.owners: dict[ObjectId, set[PeerId]] = {}
        #: what is put now comes, and is gone with its name again, before it is answered
        self.is_late = False

    def start_put(
        self, object_id: ObjectId, owner: PeerId, pieces: Sequence[bytes], grant: bytes, end_at: float
    ) -> Answer:
        return Answer() if self.is_late else self._asked(object_id, Owner(owner, grant))

    def start_duplicate(self, source: ObjectId, target: ObjectId, owner: Owner, source_owner: Owner) -> Answer:
        return self._asked(target, owner) if target in self.owners else Answer(ObjectNotFound("no such object"))

    def _asked(self, object_id: ObjectId, owner: Owner) -> Answer:
        if owner.grant != grant_of(owner.peer_id):
            return Answer(StorageError("the request names an owner, and has not its grant", codes.NOT_ALLOWED))
        self.owners.setdefault(object_id, set()).add(owner.peer_id)
        return Answer()

    def release(self, owner: PeerId, ids: Sequence[ObjectId], *, grant: bytes, wait: bool) -> None:
        for object_id in ids:
            self.owners.get(object_id, set()).discard(owner)


class Answer:
    is_done, file = True, None

    def __init__(self, error: StorageError | None = None) -> None:
        self._error = error

    def finish(self, end_at: float) -> None:
        if self._error is not None:
            raise self._error


def grant_of(owner: PeerId) -> bytes:
    return b"grant of " + owner


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> tuple[Storage, Guarded, list[ObjectId]]:
    """A client's way to such a storage, and what is told to be lost."""
    server, lost = Guarded(), list[ObjectId]()
    storage = Storage(FIRST, 60.0, "tcp://127.0.0.1:1", Garbage())
    monkeypatch.setattr(storage, "_connected", lambda: server)
    storage.on_lost = lambda ids, is_session_lost: lost.extend(ids)
    storage.take_over(grant_of(FIRST), Told())
    return storage, server, lost


def nothing_is_lost(guarded: tuple[Storage, Guarded, list[ObjectId]], object_id: ObjectId) -> None:
    """When the second name is welcome, all is its own."""
    storage, server, lost = guarded
    told = Told()
    storage.take_over(grant_of(SECOND), told)
    assert told.is_complete.wait(WAIT)
    assert (lost, server.owners) == ([], {object_id: {SECOND}})


def test_a_put_that_ends_between_two_names_is_not_lost(guarded: tuple[Storage, Guarded, list[ObjectId]]) -> None:
    """The session is lost while the answer is on its way, and the scheduler has not welcomed the next name."""
    storage, _, lost = guarded
    put = storage.start_put(new_object_id(), [b"argument"])
    storage.rename(SECOND)
    put.finish()
    assert storage._background.wait(WAIT)
    assert lost == [] and not storage.is_lost(put.object_id)
    nothing_is_lost(guarded, put.object_id)


def test_a_put_that_ends_after_the_next_name_took_over_is_not_lost(
    guarded: tuple[Storage, Guarded, list[ObjectId]],
) -> None:
    """The memory of an array, of which nothing is kept, is stored under a name that is given up before its answer."""
    storage, server, lost = guarded
    server.is_late = True
    put = storage.start_put(new_object_id(), [bytearray(b"argument")])
    storage.rename(SECOND)
    told = Told()
    storage.take_over(grant_of(SECOND), told)
    assert told.is_complete.wait(WAIT)
    server.is_late = False
    put.finish()
    assert storage._background.wait(WAIT)
    assert (lost, server.owners) == ([], {put.object_id: {SECOND}})


def test_a_storage_that_restarts_between_two_names_loses_nothing_that_is_kept(
    guarded: tuple[Storage, Guarded, list[ObjectId]],
) -> None:
    storage, server, lost = guarded
    put = storage.start_put(new_object_id(), [b"argument"])
    put.finish()
    storage.rename(SECOND)
    server.owners.clear()
    storage._restore_later()
    assert storage._background.wait(WAIT)
    assert lost == []
    nothing_is_lost(guarded, put.object_id)


def test_what_is_looked_for_between_two_names_waits_for_the_next(
    guarded: tuple[Storage, Guarded, list[ObjectId]],
) -> None:
    storage, _, lost = guarded
    put = storage.start_put(new_object_id(), [b"argument"])
    put.finish()
    storage.rename(SECOND)
    welcomed = threading.Timer(0.05, storage.take_over, (grant_of(SECOND), Told()))
    welcomed.start()
    storage.look_for([put.object_id])
    welcomed.join()
    assert lost == []


def test_a_call_that_needs_a_name_dials_and_ends_with_the_refusal(
    guarded: tuple[Storage, Guarded, list[ObjectId]],
) -> None:
    """Not after a timeout, and not with an error of the storage; and not with the refusal of an earlier dial."""
    storage, _, _ = guarded
    storage.rename(SECOND)
    storage.names.refuse(UnauthorizedError("of an earlier dial"))
    for answer in ("the ticket has expired", "the key is another cluster's"):
        storage.names.on_wanted = partial(storage.names.refuse, UnauthorizedError(answer))
        with pytest.raises(UnauthorizedError, match=answer):
            storage.start_put(new_object_id(), [b"argument"])
    storage.names.on_wanted = partial(storage.take_over, grant_of(SECOND), Told())
    storage.start_put(new_object_id(), [b"argument"]).finish()
