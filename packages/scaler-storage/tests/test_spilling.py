"""Objects that leave memory for the disk: the answers are the same, whatever the disk does."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.spilling import Disk, File

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import (
    Get,
    Hello,
    MemoryFile,
    ObjectReply,
    Put,
    PutShared,
    Release,
    SharedValue,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import CoreLimits, FileOffered, Send, StorageCore, Tick, invariants
from scaler_storage.core.spilling import REST_SECONDS, WAIT_SECONDS

LIMITS = CoreLimits(
    entry_bytes=0,
    memory_bytes=100,
    disk_bytes=150,
    spill_files=6,
    small_bytes=20,
    extent_bytes=30,
    moving_bytes=60,
    chunk_bytes=40,
    copied_bytes=9,
    copies=3,
)
PEERS = [PeerId(bytes((65 + n,)) * 16) for n in range(3)]
OBJECTS = [ObjectId(bytes((97 + n,)) * 16) for n in range(12)]
SIZES = (0, 1, 5, 9, 9, 13, 19, 21, 30, 40, 55, 90)
CONTENTS = {
    object_id: bytes((n * 7 + i) % 251 for i in range(size))
    for n, (object_id, size) in enumerate(zip(OBJECTS, SIZES, strict=True))
}


#: What is put under the same ids by mistake: only the last byte is another.
OTHERS = {object_id: content[:-1] + bytes((content[-1] ^ 255,)) for object_id, content in CONTENTS.items() if content}


class SpillingMachine(RuleBasedStateMachine):
    """Objects have one or two owners. The model follows the order of the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.core = StorageCore(LIMITS)
        self.now = 0.0
        self.number = 0
        self.disk = Disk()
        #: requests of each peer without an answer, in order
        self.unanswered: defaultdict[PeerId, deque[Any]] = defaultdict(deque)
        self.owners: defaultdict[ObjectId, set[PeerId]] = defaultdict(set)
        #: the bytes of the objects that exist
        self.contents: dict[ObjectId, bytes] = {}
        #: objects that had other bytes once: a Get that was asked for then may be answered later
        self.had_others: set[ObjectId] = set()
        self.read_errors = 0
        for peer_id in PEERS:
            self._open(peer_id)

    def _open(self, peer_id: PeerId) -> None:
        self._handle(Opened(peer_id, Hello(1, 1, codes.ROLE_CLIENT, peer_id), Welcome(1, peer_id, 1, 1)))

    def _handle(self, event: Any) -> None:
        for action in self.core.handle(event, self.now):
            if not self.disk.takes(action) and isinstance(action, Send):
                self._answered(action.peer_id, action.message)
        invariants.check(self.core)

    def _answered(self, peer_id: PeerId, reply: Any) -> None:
        request = self.unanswered[peer_id].popleft()
        assert reply.request_id == request.request_id, "answers of one peer come in the order of its requests"
        if isinstance(request, Get):
            self._check_value(request, reply)
        elif isinstance(request, Release):
            assert reply.code == codes.OK
            self.owners[ObjectId(request.ids)].discard(request.owner)
            if not self.owners[ObjectId(request.ids)]:
                self.contents.pop(ObjectId(request.ids), None)
        elif reply.code == codes.OK and self._is_whole(request):
            self._stored(request)
        elif reply.code == codes.EXISTS:
            assert self.contents[request.object_id] != self._content_of(request), "equal bytes make an owner"
        elif reply.code == codes.NO_SUCH_OBJECT:
            assert "cannot be read back" in reply.text, "a Put is compared with what is on the disk"
            self.read_errors -= 1
        else:
            assert reply.code in (codes.OK, codes.STORAGE_FULL, codes.BAD_CHUNK, codes.UNREADABLE_FILE), reply

    def _stored(self, request: Put | PutShared) -> None:
        one, content = request.object_id, self._content_of(request)
        if request.owner in self.owners[one]:
            return
        assert self.contents.setdefault(one, content) == content, "other bytes make no owner"
        self.owners[one].add(request.owner)
        if content != CONTENTS[one]:
            self.had_others.add(one)

    def _content_of(self, request: Put | PutShared) -> bytes:
        return OTHERS[request.object_id] if request.owner == PEERS[2] else CONTENTS[request.object_id]

    def _is_whole(self, request: Put | PutShared) -> bool:
        return isinstance(request, PutShared) or request.offset + len(request.payload) == request.total_bytes

    def _check_value(self, get: Get, reply: Any) -> None:
        contents = [CONTENTS[get.object_id]] + [OTHERS[one] for one in self.had_others if one == get.object_id]
        size = len(contents[0])
        if isinstance(reply, ObjectReply):
            assert reply.code == codes.NO_SUCH_OBJECT
            if "cannot be read back" in reply.text:
                self.read_errors -= 1
            else:
                assert not self.owners[get.object_id], "an object that exists is found"
        elif isinstance(reply, SharedValue):
            assert reply.total_bytes == size and get.accepts_shared
            stored = self.core.objects.get(get.object_id)
            if stored is not None and (file := stored.value.shared) is not None:
                assert reply.file == file.reference() and file.read(0, size) in contents, "the bytes are equal"
        else:
            assert isinstance(reply, Value)
            end = get.offset + len(reply.payload)
            assert any(bytes(reply.payload) == content[get.offset : end] for content in contents), "the bytes are equal"
            assert end > get.offset or end == size

    def _request(self, peer_id: PeerId, request: Any, event: Any = None) -> None:
        self.unanswered[peer_id].append(request)
        self._handle(event or Received(peer_id, 1, request))

    def _next(self) -> int:
        self.number += 1
        return self.number

    # ------------------------------------------------------------ peers

    @rule(peer=st.sampled_from(PEERS), one=st.sampled_from(OBJECTS), owner=st.sampled_from(PEERS))
    def put(self, peer: PeerId, one: ObjectId, owner: PeerId) -> None:
        """All chunks of it, at once. The last owner puts other bytes; those of an object that exists are compared."""
        content = OTHERS.get(one) if owner == PEERS[2] else CONTENTS[one]
        for offset in range(0, max(1, len(content or b"")), LIMITS.chunk_bytes):
            if content is not None:
                chunk = content[offset : offset + LIMITS.chunk_bytes]
                self._request(peer, Put(self._next(), one, owner, len(content), offset, chunk))

    @rule(peer=st.sampled_from(PEERS), one=st.sampled_from(OBJECTS))
    def offer(self, peer: PeerId, one: ObjectId) -> None:
        file = File(CONTENTS[one], one)
        put = PutShared(self._next(), one, PEERS[0], file.size, MemoryFile(1, 2, one))
        self._request(peer, put, FileOffered(peer, put, file))

    @rule(peer=st.sampled_from(PEERS), one=st.sampled_from(OBJECTS), shared=st.booleans(), data=st.data())
    def get(self, peer: PeerId, one: ObjectId, shared: bool, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, len(CONTENTS[one])))
        self._request(peer, Get(self._next(), one, offset, data.draw(st.sampled_from((0, 7))), 0.0, shared))

    @rule(peer=st.sampled_from(PEERS), one=st.sampled_from(OBJECTS), owner=st.sampled_from(PEERS))
    def release(self, peer: PeerId, one: ObjectId, owner: PeerId) -> None:
        self._request(peer, Release(self._next(), owner, one))

    @rule(peer=st.sampled_from(PEERS))
    def lose(self, peer: PeerId) -> None:
        if not self.unanswered[peer]:
            self._handle(Lost(peer, 205, "gone", False))
            self._open(peer)

    # ------------------------------------------------------------ the disk and the clock

    @precondition(lambda self: self.disk.moves)
    @rule(data=st.data())
    def moved(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.disk.moves) - 1))
        self._handle(self.disk.move(number))
        self._handle(Tick())

    @precondition(lambda self: self.disk.moves)
    @rule(error=st.sampled_from(("No space left on device", "Input/output error")))
    def not_moved(self, error: str) -> None:
        self._handle(self.disk.fail(0, error))
        self._handle(Tick())

    @precondition(lambda self: self.disk.reads)
    @rule(is_error=st.sampled_from((False, False, False, True)))
    def read(self, is_error: bool) -> None:
        self.read_errors += is_error
        self._handle(self.disk.read(0, is_error))
        self._handle(Tick())

    @precondition(lambda self: self.disk.copies)
    @rule(data=st.data(), is_error=st.sampled_from((False, False, False, True)))
    def copied(self, data: st.DataObject, is_error: bool) -> None:
        number = data.draw(st.integers(0, len(self.disk.copies) - 1))
        self._handle(self.disk.copy(number, is_error))
        self._handle(Tick())

    @rule(seconds=st.sampled_from((0.0, 0.3, 1.1, REST_SECONDS, WAIT_SECONDS)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._handle(Tick())

    @invariant()
    def limits_hold(self) -> None:
        assert self.core.memory_bytes <= 100
        assert self.disk.bytes_open() <= 150, "files, finished or begun"
        assert self.disk.bytes_copied() <= 100, "copies are dropped"

    def teardown(self) -> None:
        """When the disk has done what it was asked for, nothing waits; and when all is released, nothing is left."""
        for _ in range(200):
            self.now += WAIT_SECONDS / 2
            while self.disk.moves:
                self._handle(self.disk.move(0))
            while self.disk.reads:
                self._handle(self.disk.read(0, is_error=False))
            self._handle(Tick())
            while self.disk.copies:
                self._handle(self.disk.copy(0, is_error=False))
            self._handle(Tick())
            if not any(self.unanswered.values()) and not self.disk.moves and not self.disk.reads:
                break
        assert not any(self.unanswered.values()), "each request was answered"
        for one in OBJECTS:
            for owner in PEERS:
                self._request(PEERS[0], Release(self._next(), owner, one))
        self.now += 1_000.0
        self._handle(Tick())
        assert self.core.memory_bytes == 0 and self.core.disk.spilling.disk_bytes == 0 and not self.core.disk.wanted
        while self.disk.moves:
            self._handle(self.disk.move(0))
        assert self.disk.bytes_open() == self.disk.bytes_copied() == 0, "no file is open any more"
        assert self.read_errors >= 0, "no error was said that was none; several in one upload are said once"


TestSpilling = SpillingMachine.TestCase
TestSpilling.settings = settings(max_examples=120, stateful_step_count=60, deadline=None)
