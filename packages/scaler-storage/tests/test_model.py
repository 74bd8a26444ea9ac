"""Any sequence of requests against a model so simple that it is plainly right: a dict of bytes and sets of owners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import (
    Duplicate,
    Get,
    Hello,
    ObjectReply,
    Put,
    Release,
    ReleaseOwner,
    StorageStatus,
    StorageStatusRequest,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import CoreLimits, Send, StorageCore, Tick, invariants

LIMITS = CoreLimits(entry_bytes=0, memory_bytes=40, chunk_bytes=8, session_uploads=2, session_waiters=3, gone_owners=2)
SCHEDULER = PeerId(b"s" * 16)
PEERS = [PeerId(bytes((65 + n,)) * 16) for n in range(3)]
OWNERS = [PeerId(bytes((97 + n,)) * 16) for n in range(3)]
OBJECTS = [ObjectId(bytes((48 + n,)) * 16) for n in range(4)]
# Same id, same bytes: what every writer promises.
CONTENTS = {object_id: bytes(range(length)) for object_id, length in zip(OBJECTS, (0, 1, 5, 19), strict=True)}

peers, owners, objects = st.sampled_from(PEERS), st.sampled_from(OWNERS), st.sampled_from(OBJECTS)
waits = st.sampled_from([0.0, 2.0, 5.0])


class Content:
    """A value; names made by Duplicate share it, so its bytes count once."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class Partial:
    def __init__(self, owner: PeerId, touched_at: float, against: object) -> None:
        self.owner = owner
        #: the object it is compared with, of which nothing is kept; or none
        self.against = against
        self.received_bytes = 0
        #: as that object, so far
        self.is_same = True
        self.touched_at = touched_at


class StorageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = StorageCore(LIMITS)
        self.now = 0.0
        self.number = 0
        self.open: set[PeerId] = set()
        #: the model: what exists and for whom, who is gone, what is coming in
        self.values: dict[ObjectId, Content] = {}
        self.owners: dict[ObjectId, set[PeerId]] = {}
        #: one for each life of an object
        self.lives: dict[ObjectId, object] = {}
        self.gone: list[PeerId] = []
        self.partials: dict[tuple[PeerId, ObjectId], Partial] = {}
        #: requests without an answer yet: number -> (peer, request, deadline)
        self.waiting: dict[int, tuple[PeerId, Get | Duplicate, float]] = {}
        self._open(SCHEDULER, codes.ROLE_SCHEDULER)

    def _open(self, peer_id: PeerId, role: int) -> None:
        hello = Hello(1, 1, role, peer_id)
        assert self.core.handle(Opened(peer_id, hello, Welcome(1, SCHEDULER, 1, 1)), self.now) == []
        self.open.add(peer_id)

    def _ask(self, peer_id: PeerId, message: Any, on_ok: Callable[[], None] = lambda: None) -> Any:
        """The answer to this request, if it came at once. The model follows each answer in the order they come."""
        answer: Any = None
        for action in self.core.handle(Received(peer_id, 1, message), self.now):
            if not isinstance(action, Send):
                continue
            reply: Any = action.message
            if reply.request_id != self.number:
                self._late_answer(action.peer_id, reply)
                continue
            assert action.peer_id == peer_id and answer is None, "one answer, to whom asked"
            answer = reply
            if isinstance(reply, ObjectReply) and reply.code == codes.OK:
                on_ok()
        return answer

    def _late_answer(self, peer_id: PeerId, message: Any) -> None:
        asker, request, deadline = self.waiting.pop(message.request_id)
        assert peer_id == asker
        if isinstance(message, Value):
            assert isinstance(request, Get)
            self._check_value(request, message)
        elif message.code == codes.NO_SUCH_OBJECT:
            assert self.now >= deadline
        elif message.code == codes.BAD_CHUNK:
            assert isinstance(request, Get) and request.offset > len(self.values[request.object_id].data)
        elif message.code == codes.OWNER_GONE:
            assert isinstance(request, Duplicate)
        elif message.code == codes.EXISTS:
            assert isinstance(request, Duplicate) and self._is_other(request)
        else:
            assert isinstance(request, Duplicate) and message.code == codes.OK
            self._model_duplicate(request)

    def _check_value(self, get: Get, value: Value) -> None:
        content = self.values[get.object_id].data
        payload = bytes(value.payload)
        assert (value.total_bytes, value.offset) == (len(content), get.offset)
        assert payload == content[get.offset : get.offset + len(payload)]
        assert payload or get.offset == len(content), "an answer moves the reader on"
        assert len(payload) <= (get.chunk_bytes or LIMITS.chunk_bytes)

    def _model_add(self, object_id: ObjectId, owner: PeerId, value: Content) -> None:
        self.values.setdefault(object_id, value)
        self.lives.setdefault(object_id, object())
        self.owners.setdefault(object_id, set()).add(owner)

    def _is_other(self, request: Duplicate) -> bool:
        target, source = self.values.get(request.target), self.values.get(request.source)
        is_owner = request.owner in self.owners.get(request.target, ())
        return target is not None and source is not None and target is not source and not is_owner

    def _model_duplicate(self, request: Duplicate) -> None:
        known = request.target if request.target in self.values else request.source
        self._model_add(request.target, request.owner, self.values[known])

    @property
    def memory_bytes(self) -> int:
        stored = sum(len(value.data) for value in set(self.values.values()))
        return stored + sum(one.received_bytes for one in self.partials.values() if one.against is None)

    def _is_acceptable(self, peer_id: PeerId, put: Put) -> bool:
        """Of a Put in the name of a peer that is there, and is no owner yet."""
        size, partial = len(put.payload), self.partials.get((peer_id, put.object_id))
        if size > LIMITS.chunk_bytes or put.offset + size > put.total_bytes or (size == 0 and put.total_bytes):
            return False
        if put.offset and (partial is None or (partial.received_bytes, partial.owner) != (put.offset, put.owner)):
            return False
        if put.offset and partial is not None and partial.against is not self.lives.get(put.object_id):
            return False
        if partial is None and sum(key[0] == peer_id for key in self.partials) >= LIMITS.session_uploads:
            return False
        if put.object_id in self.values:
            was_same = put.offset == 0 or partial is None or partial.is_same
            return put.offset + size < put.total_bytes or (was_same and self._is_same(put))
        is_replaced = partial is not None and put.offset == 0 and partial.against is None
        replaced = partial.received_bytes if partial is not None and is_replaced else 0
        return self.memory_bytes - replaced + put.total_bytes - put.offset <= 40

    def _is_same(self, put: Put) -> bool:
        """As the object that exists. The writer is told with the last chunk. (SEC-17)"""
        there = self.values[put.object_id].data
        piece = there[put.offset : put.offset + len(put.payload)]
        return len(there) == put.total_bytes and piece == bytes(put.payload)

    def _put(self, peer_id: PeerId, object_id: ObjectId, owner: PeerId, offset: int, length: int) -> int:
        content = CONTENTS[object_id]
        piece = content[offset : offset + length]
        put = Put(self._next(), object_id, owner, len(content), offset, piece)
        there = self.values.get(object_id)
        is_again = there is not None and owner in self.owners[object_id] and len(there.data) == len(content)
        expected = owner not in self.gone and (is_again or self._is_acceptable(peer_id, put))

        def on_ok() -> None:
            if is_again:
                self.partials.pop((peer_id, object_id), None)
                return
            if offset == 0:
                self.partials[peer_id, object_id] = Partial(owner, self.now, self.lives.get(object_id))
            partial = self.partials[peer_id, object_id]
            partial.received_bytes += len(piece)
            partial.is_same &= partial.against is None or self._is_same(put)
            partial.touched_at = self.now
            if partial.received_bytes == len(content):
                del self.partials[peer_id, object_id]
                self._model_add(object_id, owner, self.values.get(object_id) or Content(content))

        answer = self._ask(peer_id, put, on_ok)
        assert isinstance(answer, ObjectReply)
        assert (answer.code == codes.OK) == expected, answer
        if answer.code != codes.OK:
            self.partials.pop((peer_id, object_id), None)
        return answer.code

    def _model_release(self, object_id: ObjectId, owner: PeerId) -> None:
        left = self.owners.get(object_id, set())
        left.discard(owner)
        if not left:
            self.owners.pop(object_id, None)
            self.values.pop(object_id, None)
            self.lives.pop(object_id, None)

    def _next(self) -> int:
        self.number += 1
        return self.number

    # ------------------------------------------------------------ rules

    @rule(peer_id=peers)
    def come_and_go(self, peer_id: PeerId) -> None:
        if peer_id not in self.open:
            self._open(peer_id, codes.ROLE_CLIENT)
            return
        assert self.core.handle(Lost(peer_id, 0, "", True), self.now) == []
        self.open.remove(peer_id)
        self.waiting = {number: entry for number, entry in self.waiting.items() if entry[0] != peer_id}
        self.partials = {key: partial for key, partial in self.partials.items() if key[0] != peer_id}

    @precondition(lambda self: len(self.open) > 1)
    @rule(data=st.data(), object_id=objects, owner=owners, chunk=st.integers(1, 9))
    def put_chunks(self, data: st.DataObject, object_id: ObjectId, owner: PeerId, chunk: int) -> None:
        """An upload from the beginning, perhaps given up on the way."""
        peer_id = data.draw(st.sampled_from(sorted(self.open)))
        stop_at = data.draw(st.integers(1, 20))
        for offset in range(0, max(1, min(stop_at, len(CONTENTS[object_id]))), chunk):
            if self._put(peer_id, object_id, owner, offset, chunk) != codes.OK:
                return

    @precondition(lambda self: len(self.open) > 1)
    @rule(data=st.data(), object_id=objects, owner=owners, offset=st.integers(0, 20), length=st.integers(0, 9))
    def put_any_chunk(self, data: st.DataObject, object_id: ObjectId, owner: PeerId, offset: int, length: int) -> None:
        self._put(data.draw(st.sampled_from(sorted(self.open))), object_id, owner, offset, length)

    @precondition(lambda self: self.partials)
    @rule(data=st.data(), length=st.integers(1, 8))
    def go_on(self, data: st.DataObject, length: int) -> None:
        peer_id, object_id = data.draw(st.sampled_from(sorted(self.partials)))
        partial = self.partials[peer_id, object_id]
        self._put(peer_id, object_id, partial.owner, partial.received_bytes, length)

    @precondition(lambda self: len(self.open) > 1)
    @rule(data=st.data(), object_id=objects, offset=st.integers(0, 20), chunk=st.integers(0, 9), wait=waits)
    def get(self, data: st.DataObject, object_id: ObjectId, offset: int, chunk: int, wait: float) -> None:
        peer_id = data.draw(st.sampled_from(sorted(self.open)))
        request = Get(self._next(), object_id, offset, chunk, wait)
        existed = object_id in self.values
        answer = self._ask(peer_id, request)
        if isinstance(answer, Value):
            self._check_value(request, answer)
        elif isinstance(answer, ObjectReply) and existed:
            assert answer.code == codes.BAD_CHUNK and offset > len(self.values[object_id].data)
        elif isinstance(answer, ObjectReply):
            assert answer.code == (codes.TOO_MANY if wait else codes.NO_SUCH_OBJECT)
        else:
            assert wait and not existed
            self.waiting[request.request_id] = (peer_id, request, self.now + wait)

    @precondition(lambda self: len(self.open) > 1)
    @rule(data=st.data(), source=objects, name=objects, owner=owners, wait=waits)
    def duplicate(self, data: st.DataObject, source: ObjectId, name: ObjectId, owner: PeerId, wait: float) -> None:
        peer_id = data.draw(st.sampled_from(sorted(self.open)))
        request = Duplicate(self._next(), source, name, owner, wait)
        is_answered = source in self.values or owner in self.owners.get(name, ())
        is_other = self._is_other(request)
        answer = self._ask(peer_id, request, lambda: self._model_duplicate(request))
        if owner in self.gone:
            assert answer.code == codes.OWNER_GONE
        elif is_other:
            assert answer.code == codes.EXISTS
        elif is_answered:
            assert answer == ObjectReply(self.number)
        elif answer is None:
            self.waiting[request.request_id] = (peer_id, request, self.now + wait)
        else:
            assert answer.code == (codes.TOO_MANY if wait else codes.NO_SUCH_OBJECT)

    @rule(object_ids=st.lists(objects, max_size=3), owner=owners)
    def release(self, object_ids: list[ObjectId], owner: PeerId) -> None:
        answer = self._ask(SCHEDULER, Release(self._next(), owner, b"".join(object_ids)))
        assert answer == ObjectReply(self.number)
        for object_id in object_ids:
            self._model_release(object_id, owner)

    @rule(owner=owners)
    def release_owner(self, owner: PeerId) -> None:
        if owner not in self.gone:
            self.gone = [*self.gone, owner][-LIMITS.gone_owners :]
        assert self._ask(SCHEDULER, ReleaseOwner(self._next(), owner)) == ObjectReply(self.number)
        for object_id in list(self.owners):
            self._model_release(object_id, owner)
        self.partials = {key: partial for key, partial in self.partials.items() if partial.owner != owner}
        assert all(not isinstance(r, Duplicate) or r.owner != owner for _, r, _ in self.waiting.values())

    @rule(seconds=st.sampled_from([0.5, 3.0, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for action in self.core.handle(Tick(), self.now):
            self._late_answer(action.peer_id, action.message)
        self.partials = {key: p for key, p in self.partials.items() if p.touched_at + 60.0 > self.now}
        assert all(deadline > self.now for _, _, deadline in self.waiting.values())

    @rule()
    def status(self) -> None:
        status = self._ask(SCHEDULER, StorageStatusRequest(self._next()))
        assert isinstance(status, StorageStatus)
        assert status.object_count == len(self.values)
        assert status.owner_count == len(set().union(*self.owners.values()))
        assert status.memory_bytes == self.memory_bytes
        assert status.waiter_count == len(self.waiting)

    @invariant()
    def holds(self) -> None:
        invariants.check(self.core)


TestStorageMachine = StorageMachine.TestCase
TestStorageMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
