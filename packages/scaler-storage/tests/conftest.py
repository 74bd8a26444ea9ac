"""A told storage: every event is followed by a check of all invariants, and answers are compared exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import (
    Duplicate,
    Get,
    Hello,
    MemoryFile,
    Message,
    ObjectReply,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    StorageStatus,
    StorageStatusRequest,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import CoreLimits, Enter, Event, FileOffered, StorageCore, Strike, Tick, invariants
from scaler_storage.core.values import SharedFile


def peer(name: str) -> PeerId:
    return PeerId(name.encode().ljust(16, b"."))


def oid(name: str) -> ObjectId:
    return ObjectId(name.encode().ljust(16, b"."))


def name_of(identifier: PeerId | ObjectId) -> str:
    return identifier.rstrip(b".").decode()


class Story:
    """Peers, owners and objects by name; requests are numbered from 1 over the whole story."""

    def __init__(self, limits: CoreLimits) -> None:
        self.core = StorageCore(limits)
        self.now = 1000.0
        self.last_request = 0
        #: what the core has entered and not struck, by name
        self.directory: dict[str, object] = {}

    def handle(self, event: Event) -> list[tuple[str, object]]:
        """What is sent to whom. What was sent before this returns leaves after it."""
        actions = []
        for action in self.core.handle(event, self.now):
            if isinstance(action, Enter):
                self.directory[name_of(action.object_id)] = action.file
            elif isinstance(action, Strike):
                self.directory.pop(name_of(action.object_id), None)
            else:
                actions.append(action)
        invariants.check(self.core)
        return [(name_of(action.peer_id), readable(action.message)) for action in actions]

    def later(self, seconds: float) -> list[tuple[str, object]]:
        self.now += seconds
        return self.handle(Tick())

    def open(self, name: str, role: int = ROLE_CLIENT) -> None:
        hello = Hello(1, 1, role, peer(name))
        assert self.handle(Opened(peer(name), hello, Welcome(1, peer("storage"), 1, 1))) == []

    def lose(self, name: str) -> list[tuple[str, object]]:
        return self.handle(Lost(peer(name), 205, "lease expired", False))

    def request(self, name: str, message: Message) -> list[tuple[str, object]]:
        return self.handle(Received(peer(name), 1, message))

    def _number(self) -> int:
        self.last_request += 1
        return self.last_request

    def put(
        self, name: str, object_name: str, data: bytes, *, owner: str = "c1", total: int | None = None, offset: int = 0
    ) -> list[tuple[str, object]]:
        total = len(data) if total is None else total
        return self.request(name, Put(self._number(), oid(object_name), peer(owner), total, offset, data))

    def get(
        self, name: str, object_name: str, *, offset: int = 0, chunk: int = 0, wait: float = 0.0, shared: bool = False
    ) -> list[tuple[str, object]]:
        return self.request(name, Get(self._number(), oid(object_name), offset, chunk, wait, shared))

    def offer(
        self, name: str, object_name: str, file: SharedFile | str, *, owner: str = "c1"
    ) -> list[tuple[str, object]]:
        """A PutShared, as the shell hands it over: with its file, or the reason why it was not opened."""
        size = 5 if isinstance(file, str) else file.size
        put = PutShared(self._number(), oid(object_name), peer(owner), size, MemoryFile(7, 8, oid(object_name)))
        return self.handle(FileOffered(peer(name), put, file))

    def duplicate(
        self, name: str, source: str, target: str, *, owner: str = "c1", wait: float = 0.0
    ) -> list[tuple[str, object]]:
        return self.request(name, Duplicate(self._number(), oid(source), oid(target), peer(owner), wait))

    def release(self, name: str, *objects: str, owner: str = "c1", silent: bool = False) -> list[tuple[str, object]]:
        number = 0 if silent else self._number()
        return self.request(name, Release(number, peer(owner), b"".join(map(oid, objects))))

    def release_owner(self, name: str, owner: str, *, silent: bool = False) -> list[tuple[str, object]]:
        return self.request(name, ReleaseOwner(0 if silent else self._number(), peer(owner)))

    def status(self, name: str) -> StorageStatus:
        ((to, status),) = self.request(name, StorageStatusRequest(self._number()))
        assert to == name and isinstance(status, StorageStatus)
        return status


def readable(message: Message) -> object:
    """Replies as short tuples, so that expectations fit in a line."""
    if isinstance(message, ObjectReply):
        assert (message.code == 0) == (message.text == ""), "a refusal says why, a confirmation says nothing"
        return ("reply", message.request_id, message.code)
    if isinstance(message, Value):
        return ("value", message.request_id, message.total_bytes, message.offset, bytes(message.payload))
    return message


@pytest.fixture
def limits() -> CoreLimits:
    return CoreLimits(entry_bytes=0)


@pytest.fixture
def story(limits: CoreLimits) -> Iterator[Story]:
    """Client c1, worker w1 and the scheduler s1 are there. In the end everything must be free."""
    told = Story(limits)
    told.open("c1")
    told.open("w1", 2)
    told.open("s1", 3)
    yield told
    for name in sorted(peer_id.rstrip(b".").decode() for peer_id in told.core.roles):
        told.lose(name)
    for owner in sorted(told.core.objects.owned):
        for object_id in sorted(told.core.objects.owned.get(owner, ())):
            told.core._let_go(object_id, owner)
    invariants.check(told.core)
    assert told.core.memory_bytes == 0
    assert not told.core.objects.objects and not told.core.waiters.waiters and not told.core.uploads.uploads
