"""Objects that outlive the storage, in the core: what is written, what is there again, and what is given to no peer."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.keeping import KeptFile, Shelf, content_of
from tests.support.spilling import File

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.keys import Granted
from scaler_protocol.messages import (
    Duplicate,
    Get,
    Hello,
    LiveOwners,
    MemoryFile,
    ObjectReply,
    Put,
    PutShared,
    Release,
    StorageStatus,
    StorageStatusRequest,
    Welcome,
)
from scaler_protocol.session import Opened, Received
from scaler_storage.core import (
    Copy,
    CoreLimits,
    FileOffered,
    FoundObject,
    Keep,
    Read,
    ReadBack,
    Send,
    StorageCore,
    Tick,
    core,
    invariants,
)
from scaler_storage.core.keeping import DELAY_SECONDS, ROW_BYTES, UNCLAIMED_SECONDS
from scaler_storage.core.limits import UNLIMITED
from scaler_storage.core.spilling import REST_SECONDS, WAIT_SECONDS

LIMITS = CoreLimits(
    entry_bytes=0, memory_bytes=100, disk_bytes=150 + 6 * ROW_BYTES, keeps_objects=True, chunk_bytes=40, copied_bytes=9
)
SCHEDULER = PeerId(b"s" * 16)
OWNERS = [PeerId(bytes((65 + n,)) * 16) for n in range(3)]
OBJECTS = [ObjectId(bytes((97 + n,)) * 16) for n in range(8)]
SIZES = (0, 1, 5, 9, 21, 30, 55, 90)
owners, objects = st.sampled_from(OWNERS), st.sampled_from(OBJECTS)


class Stage:
    """A storage and its directory, over several lives of the storage."""

    def __init__(self, limits: CoreLimits = LIMITS) -> None:
        self.limits = limits
        self.shelf = Shelf()
        self.now = 0.0
        self.number = 0
        self.start()

    def start(self) -> tuple[int, int]:
        """Whatever was being written is not there."""
        self.shelf.keeps.clear()
        self.reads: list[Read] = []
        self.replies: deque[tuple[PeerId, Any]] = deque()
        self.core = StorageCore(self.limits)
        self.core.disk.spilling.file_system_bytes = UNLIMITED
        self.counts = self.core.restore(self.shelf.found(), self.now)
        invariants.check(self.core)
        for peer_id in OWNERS:
            self.open(peer_id, codes.ROLE_CLIENT)
        return self.counts

    def open(self, peer_id: PeerId, role: int) -> None:
        self.handle(Opened(peer_id, Hello(1, 1, role, peer_id), Welcome(1, peer_id, 1, 1)))

    def handle(self, event: Any) -> None:
        for action in self.core.handle(event, self.now):
            if isinstance(action, Keep):
                self.shelf.keeps.append(action)
            elif isinstance(action, Read):
                self.reads.append(action)
            elif isinstance(action, Copy):
                raise AssertionError("no reader here maps memory")
            elif isinstance(action, Send):
                self.replies.append((action.peer_id, action.message))
        invariants.check(self.core)

    def ask(self, peer_id: PeerId, message: Any, event: Any = None) -> Any:
        """The answer, if it came at once; reads are done at once."""
        self.replies.clear()
        self.handle(event or Received(peer_id, 1, message))
        self.read()
        return next((reply for _, reply in self.replies if reply.request_id == message.request_id), None)

    def read(self) -> None:
        while self.reads:
            read = self.reads.pop(0)
            self.handle(ReadBack(read.number, read.file.read(read.offset, read.size)))
            self.handle(Tick())

    def next(self) -> int:
        self.number += 1
        return self.number

    def put(self, one: ObjectId, data: bytes, owner: PeerId = OWNERS[0]) -> int:
        return int(self.ask(owner, Put(self.next(), one, owner, len(data), 0, data)).code)

    def get(self, one: ObjectId, size: int) -> bytes | int:
        """All of it, or the code of a refusal."""
        pieces = b""
        while True:
            reply = self.ask(OWNERS[0], Get(self.next(), one, len(pieces)))
            if isinstance(reply, ObjectReply):
                return reply.code
            pieces += bytes(reply.payload)
            if len(pieces) >= reply.total_bytes:
                return pieces

    def release(self, one: ObjectId, owner: PeerId = OWNERS[0]) -> None:
        assert self.ask(owner, Release(self.next(), owner, one)).code == codes.OK

    def status(self) -> StorageStatus:
        status = self.ask(OWNERS[0], StorageStatusRequest(self.next()))
        assert isinstance(status, StorageStatus)
        return status

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.handle(Tick())

    def keep_all(self) -> None:
        """Until there is nothing left to be written that has room."""
        for _ in range(100):
            self.wait(REST_SECONDS)
            while self.shelf.keeps:
                self.handle(self.shelf.keep())
                self.handle(Tick())
            if self.core.disk.keeping is not None and self.core.disk.keeping.is_idle:
                return
        raise AssertionError("it is never done")


# ---------------------------------------------------------------- told


def test_what_was_put_a_moment_ago_is_there_again() -> None:
    stage = Stage()
    stage.put(OBJECTS[0], b"hello")
    assert not stage.shelf.keeps, "a moment later"
    stage.wait(DELAY_SECONDS)
    (keep,) = stage.shelf.keeps
    assert [value.total_bytes for _, value in keep.values] == [5]
    stage.handle(stage.shelf.keep())
    assert stage.start() == (1, 0)
    assert stage.get(OBJECTS[0], 5) == b"hello"
    assert stage.status().memory_bytes == 0, "it is on the disk until it is read"
    assert stage.put(OBJECTS[0], b"hello") == codes.OK, "its owner puts it again"
    stage.wait(DELAY_SECONDS)
    assert not stage.shelf.keeps, "nothing has changed"


def test_what_comes_and_goes_is_never_written() -> None:
    stage = Stage()
    stage.put(OBJECTS[0], b"hello")
    stage.release(OBJECTS[0])
    stage.wait(DELAY_SECONDS)
    assert not stage.shelf.keeps


def test_a_release_is_written_and_the_file_goes_with_the_last_name() -> None:
    stage = Stage()
    stage.put(OBJECTS[0], b"hello")
    stage.ask(OWNERS[1], Duplicate(stage.next(), OBJECTS[0], OBJECTS[1], OWNERS[1]))
    stage.keep_all()
    stage.release(OBJECTS[0])
    stage.keep_all()
    assert stage.shelf.bytes_taken() == 5 and stage.start() == (1, 0)
    assert stage.get(OBJECTS[1], 5) == b"hello"
    stage.release(OBJECTS[1], OWNERS[1])
    stage.keep_all()
    assert stage.shelf.bytes_taken() == 0 and stage.start() == (0, 0)


def test_a_new_life_of_an_id_is_never_seen_with_owners_of_the_old_one() -> None:
    """A batch takes all that is changed of an object."""
    stage = Stage()
    stage.put(OBJECTS[0], b"first", OWNERS[0])
    stage.keep_all()
    stage.release(OBJECTS[0], OWNERS[0])
    stage.put(OBJECTS[0], b"other", OWNERS[1])
    stage.wait(DELAY_SECONDS)
    stage.handle(stage.shelf.keep())
    assert stage.shelf.state_of(OBJECTS[0]) == (b"other", frozenset({OWNERS[1]}))


def test_values_that_are_kept_leave_memory_without_a_write_and_others_wait_for_the_disk() -> None:
    stage = Stage()
    for one in OBJECTS[:3]:
        stage.put(one, bytes(30))
    stage.wait(DELAY_SECONDS)
    assert stage.ask(OWNERS[0], Put(stage.next(), OBJECTS[3], OWNERS[0], 50, 0, bytes(40))) is None, "it waits"
    stage.handle(stage.shelf.keep())
    stage.handle(Tick())
    assert [reply.code for _, reply in stage.replies] == [codes.OK]
    assert stage.status().memory_bytes <= 100
    assert [stage.get(one, 30) for one in OBJECTS[:3]] == [bytes(30)] * 3


def test_a_directory_without_room_keeps_what_fits_and_says_so() -> None:
    stage = Stage(CoreLimits(entry_bytes=0, disk_bytes=10_000, keeps_objects=True))
    stage.put(OBJECTS[0], bytes(9_000))
    stage.keep_all()
    stage.put(OBJECTS[1], bytes(5_000))
    stage.put(OBJECTS[2], bytes(50))
    stage.keep_all()
    assert set(stage.shelf.objects) == {OBJECTS[0], OBJECTS[2]}
    assert "--disk-limit" in stage.status().disk_trouble
    stage.release(OBJECTS[0])
    stage.keep_all()
    stage.keep_all()
    assert set(stage.shelf.objects) == {OBJECTS[1], OBJECTS[2]} and stage.status().disk_trouble == ""


def test_memory_and_disk_are_full_and_a_put_is_refused_at_once() -> None:
    stage = Stage(CoreLimits(entry_bytes=0, memory_bytes=10_000, disk_bytes=15_000, keeps_objects=True))
    for one in OBJECTS[:2]:
        stage.put(one, bytes(7_000))
        stage.keep_all()
    stage.put(OBJECTS[2], bytes(8_000))
    stage.keep_all()
    reply = stage.ask(OWNERS[1], Put(stage.next(), OBJECTS[3], OWNERS[1], 3_000, 0, bytes(3_000)))
    assert reply.code == codes.STORAGE_FULL and "--disk-limit" in reply.text and OWNERS[0].hex() not in reply.text


def test_owners_that_no_peer_speaks_for_are_released_after_an_hour() -> None:
    stage = Stage()
    for one, owner in zip(OBJECTS, OWNERS, strict=False):
        stage.put(one, b"hello", owner)
    stage.keep_all()
    stage.start()
    stage.open(SCHEDULER, codes.ROLE_SCHEDULER)
    stage.put(OBJECTS[5], b"again", OWNERS[1])
    stage.ask(SCHEDULER, LiveOwners(stage.next(), OWNERS[2], 0, 1))
    stage.wait(UNCLAIMED_SECONDS - 1.0)
    assert len(stage.core.objects.owned) == 3
    stage.wait(1.0)
    assert set(stage.core.objects.owned) == {OWNERS[1], OWNERS[2]}
    stage.keep_all()
    assert stage.start() == (3, 0)


def test_owners_that_no_peer_speaks_for_are_released_some_in_each_turn(monkeypatch) -> None:
    """Each release walks through the uploads and what waits: a hundred thousand at once would stop all others."""
    monkeypatch.setattr(core, "OWNERS_IN_A_SLICE", 8)
    stage = Stage(CoreLimits(entry_bytes=0, disk_bytes=1 << 30, keeps_objects=True))
    many = [PeerId(number.to_bytes(16, "big")) for number in range(1, 18)]
    for number, owner in enumerate(many):
        stage.open(owner, codes.ROLE_CLIENT)
        assert stage.put(ObjectId(owner[::-1]), b"hello", owner) == codes.OK, number
    stage.keep_all()
    stage.start()
    stage.open(SCHEDULER, codes.ROLE_SCHEDULER)
    stage.ask(SCHEDULER, LiveOwners(stage.next(), OWNERS[2], 0, 1))
    left = []
    stage.wait(UNCLAIMED_SECONDS)
    while stage.core.objects.owned:
        left.append(len(stage.core.objects.owned))
        due_at = stage.core.next_deadline()
        assert due_at is not None and due_at <= stage.now
        stage.wait(0.0)
    assert left == [9, 1]


def test_owners_are_spared_while_a_scheduler_has_not_named_its_clients() -> None:
    stage = Stage()
    stage.put(OBJECTS[0], b"hello")
    stage.keep_all()
    stage.start()
    stage.open(SCHEDULER, codes.ROLE_SCHEDULER)
    stage.wait(UNCLAIMED_SECONDS)
    assert set(stage.core.objects.owned) == {OWNERS[0]}


def test_what_is_beyond_the_limits_of_the_next_storage_is_dropped() -> None:
    """So many small objects that their notes alone would fill the memory."""
    stage = Stage(CoreLimits(memory_bytes=100_000, disk_bytes=UNLIMITED, keeps_objects=True))
    for n in range(100):
        stage.put(ObjectId(n.to_bytes(16, "little")), b"hello")
    stage.keep_all()
    stage.limits = CoreLimits(memory_bytes=20_000, disk_bytes=UNLIMITED, keeps_objects=True)
    assert stage.start() == (27, 73)
    stage.keep_all()
    assert len(stage.shelf.objects) == 27 and len(stage.shelf.files) == 27
    assert stage.start() == (27, 0)


def test_a_storage_without_a_limit_of_memory_keeps_as_well() -> None:
    stage = Stage(CoreLimits(disk_bytes=UNLIMITED, keeps_objects=True))
    stage.put(OBJECTS[0], bytes(1_000))
    stage.keep_all()
    assert stage.status().memory_bytes == 1_512, "it stays in memory"
    stage.start()
    assert stage.get(OBJECTS[0], 1_000) == bytes(1_000) and stage.status().memory_bytes == 512


def test_families_are_as_before() -> None:
    """Of a client in a task: its family is that of its program's client. (STO-33)"""
    shelf = Shelf()
    shelf.files = {7: KeptFile(7, b"hello")}
    child = PeerId(b"C" * 16)
    core = StorageCore(LIMITS, read_grant=lambda owner, grant: Granted(grant, b""))
    assert core.restore([FoundObject(OBJECTS[0], shelf.files[7], ((child, OWNERS[0]),))], 0.0) == (1, 0)
    invariants.check(core)
    codes_of = {}
    for owner, family in ((OWNERS[0], OWNERS[0]), (child, OWNERS[0]), (OWNERS[1], OWNERS[1])):
        core.handle(Opened(owner, Hello(1, 1, codes.ROLE_CLIENT, owner), Welcome(1, owner, 1, 1)), 0.0)
        get = Get(1, OBJECTS[0], 5, owner=owner, grant=family)
        (action,) = core.handle(Received(owner, 1, get), 0.0)
        assert isinstance(action, Send)
        codes_of[owner] = action.message.code if isinstance(action.message, ObjectReply) else codes.OK
    assert codes_of == {OWNERS[0]: codes.OK, child: codes.OK, OWNERS[1]: codes.NO_SUCH_OBJECT}


# ---------------------------------------------------------------- any order


class KeepingMachine(RuleBasedStateMachine):
    """The law: at each instant a start finds each object as it was at some moment of its life, with all its bytes and
    exactly the owners of that moment; and when nothing is left to be written, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.owners: defaultdict[ObjectId, set[PeerId]] = defaultdict(set)
        self.contents: dict[ObjectId, bytes] = {}
        self.history: defaultdict[ObjectId, set[tuple[bytes, frozenset[PeerId]]]] = defaultdict(set)
        self.lives = 0

    def _follow(self) -> None:
        """The core's tables are the model: that they are right is shown elsewhere."""
        for one, stored in self.stage.core.objects.objects.items():
            if one not in self.contents or self.owners[one] != stored.owners:
                self.owners[one] = set(stored.owners)
                self.history[one].add((self._bytes_of(one), frozenset(stored.owners)))
        for one in [one for one in self.contents if one not in self.stage.core.objects.objects]:
            del self.contents[one]
            self.owners[one] = set()

    def _bytes_of(self, one: ObjectId) -> bytes:
        if one not in self.contents:
            value = self.stage.core.objects.objects[one].value
            place = value.extent
            self.contents[one] = content_of(value) if place is None else place.file.read(0, value.total_bytes)
        return self.contents[one]

    @rule(one=objects, owner=owners)
    def put(self, one: ObjectId, owner: PeerId) -> None:
        """Other bytes in each life."""
        size = SIZES[OBJECTS.index(one)]
        self.lives += 1
        data = self.contents.get(one, bytes((self.lives + n) % 251 for n in range(size)))
        stage = self.stage
        for offset in range(0, max(1, size), LIMITS.chunk_bytes):
            chunk = data[offset : offset + LIMITS.chunk_bytes]
            stage.ask(owner, Put(stage.next(), one, owner, size, offset, chunk))
            if owner in stage.core.work.jobs:
                break  # it waits for room
        self._follow()

    @rule(one=objects, owner=owners)
    def offer(self, one: ObjectId, owner: PeerId) -> None:
        self.lives += 1
        size = SIZES[OBJECTS.index(one)]
        file = File(bytes((self.lives + n) % 251 for n in range(size)), one)
        put = PutShared(self.stage.next(), one, owner, file.size, MemoryFile(1, 2, one))
        self.stage.ask(owner, put, FileOffered(owner, put, file))
        self._follow()

    @rule(one=objects, other=objects, owner=owners)
    def duplicate(self, one: ObjectId, other: ObjectId, owner: PeerId) -> None:
        self.stage.ask(owner, Duplicate(self.stage.next(), one, other, owner))
        self._follow()

    @rule(one=objects, owner=owners)
    def release(self, one: ObjectId, owner: PeerId) -> None:
        self.stage.ask(owner, Release(self.stage.next(), owner, one))
        self._follow()

    @rule(one=objects)
    def get(self, one: ObjectId) -> None:
        if one in self.contents and OWNERS[0] not in self.stage.core.work.jobs:
            assert self.stage.get(one, 0) == self.contents[one]
        self._follow()

    @precondition(lambda self: self.stage.shelf.keeps)
    @rule(data=st.data())
    def kept(self, data: st.DataObject) -> None:
        numbers = [number for number, _ in self.stage.shelf.keeps[0].values]
        failing = data.draw(st.sets(st.sampled_from(numbers), max_size=2)) if numbers else set()
        self.stage.handle(self.stage.shelf.keep(frozenset(failing)))
        self.stage.handle(Tick())
        self.stage.read()
        self._follow()

    @rule(room_bytes=st.sampled_from((0, 25, 1_000_000)))
    def another_program_takes_or_frees_room(self, room_bytes: int) -> None:
        self.stage.shelf.room_bytes = room_bytes

    @precondition(lambda self: self.stage.shelf.keeps)
    @rule()
    def not_kept(self) -> None:
        self.stage.handle(self.stage.shelf.fail())
        self.stage.handle(Tick())
        self._follow()

    @rule(seconds=st.sampled_from((0.1, DELAY_SECONDS, REST_SECONDS, WAIT_SECONDS)))
    def wait(self, seconds: float) -> None:
        self.stage.wait(seconds)
        self.stage.read()
        self._follow()

    @rule(is_last=st.booleans())
    def restart(self, is_last: bool) -> None:
        """`is_last`: it ends in order, and the disk takes all that it has."""
        if is_last:
            self.stage.keep_all()
            self._follow()
            found = {one: self.stage.shelf.state_of(one) for one in self.stage.shelf.objects}
            keeping = self.stage.core.disk.keeping
            assert keeping is not None
            if not keeping.unfit:
                assert found == {one: (self.contents[one], frozenset(self.owners[one])) for one in self.contents}
        self.stage.start()
        self.contents.clear()
        for one in self.stage.core.objects.objects:
            assert self.stage.shelf.state_of(one) in self.history[one]
            assert (self._bytes_of(one), self.stage.core.objects.objects[one].owners) == self.stage.shelf.state_of(one)
        self.owners.clear()
        self._follow()

    @invariant()
    def what_a_start_would_find_was_once_so(self) -> None:
        shelf = self.stage.shelf
        for one, number in shelf.objects.items():
            if number in shelf.files and shelf.owners_of(one):
                assert shelf.state_of(one) in self.history[one], "as it was at some moment"
        assert self.stage.core.memory_bytes <= 100
        assert shelf.bytes_taken() <= 150 + 6 * ROW_BYTES


TestKeeping = KeepingMachine.TestCase
TestKeeping.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
