"""With keys, no peer reads, replaces, owns or releases an object of another family. (STO-32, STO-33)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId, content_id
from scaler_protocol.keys import ANY_USER, Identity, Keyring, families_of, own_family
from scaler_protocol.messages import (
    Duplicate,
    Get,
    Hello,
    MemoryFile,
    ObjectReply,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    StorageStatusRequest,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import ALLOWED_MESSAGES, CoreLimits, FileOffered, Send, StorageCore, Tick, invariants
from scaler_storage.core.values import StoredValue

KEYRING = Keyring([b"k" * 32])
SERVER = PeerId(b"s" * 16)
ANA, JOE = PeerId(b"a" * 16), PeerId(b"j" * 16)
CHILD, OTHER_CHILD = PeerId(b"c" * 16), PeerId(b"d" * 16)
#: of two programs, and of a client in a task of each
FAMILIES = {ANA: ANA, JOE: JOE, CHILD: ANA, OTHER_CHILD: JOE}
GRANTS = {owner: KEYRING.grant(owner, b"" if owner == family else family) for owner, family in FAMILIES.items()}
OBJECTS = [ObjectId(bytes((48 + number,)) * 16) for number in range(3)]
VALUES = {ANA: b"of ana", JOE: b"of joe"}

owners, objects = st.sampled_from(sorted(FAMILIES)), st.sampled_from(OBJECTS)


def opened(role: int = codes.ROLE_CLIENT, peer_id: PeerId = ANA) -> Opened:
    return Opened(peer_id, Hello(1, 1, role, peer_id), Welcome(1, SERVER, 1, 1))


class Told:
    def __init__(self, limits: CoreLimits | None = None) -> None:
        self.core = StorageCore(limits, read_grant=KEYRING.granted)
        self.now = 0.0
        self.number = 0
        for peer_id in FAMILIES:
            self.core.handle(opened(peer_id=peer_id), 0.0)
        self.core.handle(opened(codes.ROLE_SCHEDULER, SERVER), 0.0)

    def ask(self, kind: type, *fields: Any, peer_id: PeerId = ANA, **named: Any) -> list[Any]:
        """All that is sent."""
        self.number += 1
        message = kind(self.number, *fields, **named)
        event: Any = FileOffered(peer_id, message, "not opened") if kind is PutShared else Received(peer_id, 1, message)
        actions = self.core.handle(event, self.now)
        invariants.check(self.core)
        return [action.message for action in actions if isinstance(action, Send)]

    def put(self, object_id: ObjectId, value: bytes, owner: PeerId = ANA, grant: bytes | None = None) -> int:
        shown = GRANTS[owner] if grant is None else grant
        answers = self.ask(Put, object_id, owner, len(value), 0, value, shown)
        (reply,) = [message for message in answers if message.request_id == self.number]
        code: int = reply.code
        return code

    def get(self, object_id: ObjectId, owner: PeerId, grant: bytes | None = None, wait: float = 0.0) -> Any:
        shown = GRANTS[owner] if grant is None else grant
        answers = self.ask(Get, object_id, wait_seconds=wait, owner=owner, grant=shown)
        return bytes(answers[0].payload) if answers and isinstance(answers[0], Value) else [m.code for m in answers]


def test_no_user_keeps_a_function_from_another() -> None:
    """Its id is the hash of its bytes, which the other may know, too. (STO-30)"""
    told = Told()
    function = b"function of ana"
    known = content_id(function)
    for forged in (b"function of joe", b"of another size"):
        assert told.put(known, forged, JOE) == codes.OK
        assert told.put(known, function) == codes.OK
        assert told.get(known, ANA) == function
        assert told.get(known, JOE) == [codes.NO_SUCH_OBJECT], "it is not the other's: that has not stored it"
        assert told.put(known, forged, JOE) == codes.EXISTS, "and cannot be replaced in turn"
        told.ask(Release, ANA, known, GRANTS[ANA])
    assert not told.core.objects.objects and not told.core.objects.owned


def test_nor_a_large_one() -> None:
    told = Told()
    function = b"large function of ana"
    known = content_id(function)
    told.put(known, b"function of joe", JOE)
    chunks = [(offset, function[offset : offset + 8]) for offset in range(0, len(function), 8)]

    def codes_of_chunks() -> list[int]:
        fields = (known, ANA, len(function))
        return [told.ask(Put, *fields, offset, chunk, GRANTS[ANA])[0].code for offset, chunk in chunks]

    assert codes_of_chunks() == [codes.OK, codes.OK, codes.BAD_CHUNK], "what was not kept is sent again"
    assert codes_of_chunks() == [codes.OK] * 3
    stored = told.core.objects.objects[known]
    assert isinstance(stored.value, StoredValue) and b"".join(stored.value.chunks) == function


def test_what_has_no_content_in_its_id_is_not_replaced() -> None:
    told = Told()
    told.put(OBJECTS[0], b"of ana")
    assert told.put(OBJECTS[0], b"of joe", JOE) == codes.EXISTS
    assert told.get(OBJECTS[0], ANA) == b"of ana"


WRONG = [
    b"",
    bytes(16),
    GRANTS[JOE],
    GRANTS[ANA] + b"\0",
    JOE + GRANTS[ANA],
    GRANTS[CHILD],
    Keyring([b"x" * 32]).grant(ANA),
]


def test_without_its_grant_no_request_names_an_owner() -> None:
    told = Told()
    assert told.put(OBJECTS[0], b"value") == codes.OK
    for wrong in WRONG:
        assert told.put(OBJECTS[1], b"x", grant=wrong) == codes.NOT_ALLOWED
        assert told.get(OBJECTS[0], ANA, wrong) == [codes.NOT_ALLOWED]
        for kind, fields in (
            (Release, (ANA, OBJECTS[0], wrong)),
            (Duplicate, (OBJECTS[0], OBJECTS[1], ANA, 0.0, wrong)),
            (Duplicate, (OBJECTS[0], OBJECTS[1], JOE, 0.0, GRANTS[JOE], ANA, wrong)),
            (PutShared, (OBJECTS[1], ANA, 5, MemoryFile(), wrong)),
        ):
            (reply,) = told.ask(kind, *fields)
            assert reply.code == codes.NOT_ALLOWED and "has not its grant" in reply.text
    assert told.get(OBJECTS[0], ANA) == b"value" and len(told.core.objects.objects) == 1


def test_a_release_without_a_number_and_without_a_right_is_not_answered() -> None:
    told = Told()
    told.put(OBJECTS[0], b"value")
    event = Received(JOE, 1, Release(0, ANA, OBJECTS[0], GRANTS[JOE]))
    assert told.core.handle(event, 0.0) == [] and told.get(OBJECTS[0], ANA) == b"value"


def test_a_family_reads_what_one_of_it_owns_and_no_other_does() -> None:
    told = Told()
    told.put(OBJECTS[0], b"value")
    assert told.get(OBJECTS[0], CHILD) == told.get(OBJECTS[0], ANA) == b"value"
    assert told.get(OBJECTS[0], JOE) == told.get(OBJECTS[0], OTHER_CHILD) == [codes.NO_SUCH_OBJECT]


def test_who_waits_for_what_another_owns_is_served_when_its_own_family_owns_it() -> None:
    told = Told()
    told.put(OBJECTS[0], b"value")
    assert told.get(OBJECTS[0], JOE, wait=30.0) == []
    number = told.number
    answers = told.ask(Put, OBJECTS[0], OTHER_CHILD, 5, 0, b"value", GRANTS[OTHER_CHILD])
    assert [bytes(m.payload) for m in answers if isinstance(m, Value) and m.request_id == number] == [b"value"]


def test_readers_of_another_family_take_no_ones_place() -> None:
    """The places of those that wait for one object are counted by family. (SEC-18)"""
    told = Told(CoreLimits(object_waiters=2))
    for _ in range(2):
        assert told.get(OBJECTS[0], JOE, wait=30.0) == []
    assert told.get(OBJECTS[0], JOE, wait=30.0) == [codes.TOO_MANY]
    assert told.get(OBJECTS[0], OTHER_CHILD, wait=30.0) == [codes.TOO_MANY]
    assert told.get(OBJECTS[0], ANA, wait=30.0) == told.get(OBJECTS[0], CHILD, wait=30.0) == []
    assert told.get(OBJECTS[0], ANA, wait=30.0) == [codes.TOO_MANY]
    answers = told.ask(Put, OBJECTS[0], ANA, 5, 0, b"value", GRANTS[ANA])
    assert [type(message) for message in answers] == [ObjectReply, Value, Value]
    assert [message.request_id for message in answers[1:]] == [5, 6], "in the order in which they came"


def test_what_an_object_is_cannot_be_found_out_by_putting_it() -> None:
    """Who knows the id only, and tries each byte, or each size, is told nothing before all bytes have come. (SEC-17)"""
    told = Told()
    told.put(OBJECTS[0], b"value")

    def begun(first: bytes, size: int) -> int:
        answers = told.ask(Put, OBJECTS[0], JOE, size, 0, first, GRANTS[JOE], peer_id=JOE)
        (reply,) = [message for message in answers if message.request_id == told.number]
        code: int = reply.code
        return code

    assert {begun(bytes((byte,)), 5) for byte in range(256)} == {codes.OK}
    assert {begun(b"v", size) for size in range(2, 20)} == {codes.OK}
    assert {begun(b"value", 5), begun(b"value", 6)} == {codes.OK} and told.get(OBJECTS[0], JOE) == b"value"


def test_a_name_before_hands_on_what_it_had() -> None:
    """A client comes back under another peer id, which is another family. (CLI-11)"""
    told = Told()
    told.put(OBJECTS[0], b"value")
    given = (OBJECTS[0], OBJECTS[0], JOE, 0.0, GRANTS[JOE])
    assert told.ask(Duplicate, *given)[0].code == codes.NO_SUCH_OBJECT
    assert told.ask(Duplicate, *given, ANA, GRANTS[ANA])[0].code == codes.OK
    assert told.get(OBJECTS[0], JOE) == b"value"


def test_the_scheduler_needs_no_grant() -> None:
    told = Told()
    told.put(OBJECTS[0], b"value")
    assert told.ask(Release, ANA, OBJECTS[0], peer_id=SERVER)[0].code == codes.OK
    assert not told.core.objects.objects


class TwoFamilies(RuleBasedStateMachine):
    """Whatever is asked, a family only ever reads what it has itself put there, or has had put."""

    def __init__(self) -> None:
        super().__init__()
        self.told = Told()
        self.readers: dict[int, PeerId] = {}

    def _ask(self, asker: PeerId, kind: type, *fields: Any, **named: Any) -> list[Any]:
        number = self.told.number + 1
        self.readers[number] = FAMILIES[asker]
        answers = self.told.ask(kind, *fields, peer_id=asker, **named)
        for message in answers:
            if isinstance(message, Value):
                family = self.readers[message.request_id]
                assert bytes(message.payload) == VALUES[family], "another family's value"
        return answers

    @rule(owner=owners, object_id=objects, shown=owners)
    def put(self, owner: PeerId, object_id: ObjectId, shown: PeerId) -> None:
        """`shown`: whose grant it has."""
        value = VALUES[FAMILIES[shown]]
        before = self.told.core.objects.owned.get(owner, {}).copy()
        self._ask(shown, Put, object_id, owner, len(value), 0, value, GRANTS[shown])
        if owner != shown:
            assert self.told.core.objects.owned.get(owner, {}) == before

    @rule(asker=owners, owner=owners, object_id=objects, wait=st.sampled_from([0.0, 5.0]))
    def get(self, asker: PeerId, owner: PeerId, object_id: ObjectId, wait: float) -> None:
        self._ask(asker, Get, object_id, wait_seconds=wait, owner=owner, grant=GRANTS[asker])

    @rule(asker=owners, owner=owners, source=objects, name=objects, of=owners, wait=st.sampled_from([0.0, 5.0]))
    def duplicate(
        self, asker: PeerId, owner: PeerId, source: ObjectId, name: ObjectId, of: PeerId, wait: float
    ) -> None:
        """It has only its own grant, and shows it wherever one is wanted."""
        self._ask(asker, Duplicate, source, name, owner, wait, GRANTS[asker], of, GRANTS[asker])

    @rule(asker=owners, owner=owners, object_id=objects)
    def release(self, asker: PeerId, owner: PeerId, object_id: ObjectId) -> None:
        before = {name: ids.copy() for name, ids in self.told.core.objects.owned.items() if name != asker}
        self._ask(asker, Release, owner, object_id, GRANTS[asker])
        after = {name: ids for name, ids in self.told.core.objects.owned.items() if name != asker}
        assert before == after, "what others own"

    @rule(owner=owners, object_id=objects, shown=owners)
    def put_shared(self, owner: PeerId, object_id: ObjectId, shown: PeerId) -> None:
        before = {name: ids.copy() for name, ids in self.told.core.objects.owned.items()}
        size = len(VALUES[FAMILIES[shown]])
        self._ask(shown, PutShared, object_id, owner, size, MemoryFile(), GRANTS[shown])
        assert self.told.core.objects.owned == before, "without its bytes"

    @rule(owner=owners, object_id=objects, first=st.integers(0, 255), size=st.integers(2, 9))
    def begin_to_put(self, owner: PeerId, object_id: ObjectId, first: int, size: int) -> None:
        """A guess of the first byte, or of the size: all are answered in the same way. (SEC-17)"""
        stored = self.told.core.objects.objects.get(object_id)
        answers = self._ask(owner, Put, object_id, owner, size, 0, bytes((first,)), GRANTS[owner])
        assert stored is None or [message.code for message in answers] == [codes.OK]

    @rule(asker=owners, owner=owners)
    def ask_for_numbers(self, asker: PeerId, owner: PeerId) -> None:
        (status,) = self._ask(asker, StorageStatusRequest, owner)
        assert status.owner_objects == status.owner_bytes == b"", (
            "which objects an owner has is the scheduler's to know"
        )

    @rule(owner=owners)
    def leave(self, owner: PeerId) -> None:
        for object_id in list(self.told.core.objects.owned.get(owner, ())):
            self._ask(owner, Release, owner, object_id, GRANTS[owner])

    @rule()
    def wait(self) -> None:
        self.told.now += 3.0
        self.told.core.handle(Tick(), self.told.now)

    @invariant()
    def holds(self) -> None:
        invariants.check(self.told.core)
        for stored in self.told.core.objects.objects.values():
            assert set(stored.families) == {FAMILIES[owner] for owner in stored.owners}  # type: ignore[index]


def test_each_kind_of_message_is_tried() -> None:
    """A new kind needs a rule of its own above."""
    tried = {Put, PutShared, Get, Duplicate, Release, StorageStatusRequest}
    users = (codes.ROLE_CLIENT, codes.ROLE_WORKER, codes.ROLE_MONITOR)
    assert tried == frozenset().union(*(ALLOWED_MESSAGES[role] for role in users))


TestTwoFamilies = TwoFamilies.TestCase
TestTwoFamilies.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_release_owner_is_still_the_schedulers() -> None:
    told = Told()
    told.put(OBJECTS[0], b"value")
    assert told.ask(ReleaseOwner, ANA, peer_id=SERVER)[0].code == codes.OK
    assert told.put(OBJECTS[0], b"value") == codes.OWNER_GONE


def test_a_name_that_another_user_takes_gives_no_right_to_what_it_owned_before() -> None:
    """The scheduler was restarted, and a client of another user took the name first. (OWN-21)"""
    told = Told()
    told.put(OBJECTS[0], b"value")
    taken = KEYRING.grant(ANA, JOE)
    assert told.get(OBJECTS[0], ANA, taken) == [codes.NO_SUCH_OBJECT]
    assert told.put(OBJECTS[1], b"forged", grant=taken) == codes.NOT_ALLOWED
    assert told.ask(Release, ANA, OBJECTS[0], taken)[0].code == codes.NOT_ALLOWED
    duplicated = told.ask(Duplicate, OBJECTS[0], OBJECTS[1], ANA, grant=taken)
    assert [reply.code for reply in duplicated] == [codes.NOT_ALLOWED]
    shared = told.ask(PutShared, OBJECTS[1], ANA, 5, MemoryFile(1, 1, 5), taken)
    assert [reply.code for reply in shared] == [codes.NOT_ALLOWED]
    assert told.get(OBJECTS[0], ANA) == b"value"
    assert told.ask(Release, ANA, OBJECTS[0], GRANTS[ANA])[0].code == codes.OK
    assert told.put(OBJECTS[1], b"of joe", grant=taken) == codes.OK, "nothing is left under that name"


def test_a_client_that_leaves_takes_nothing_of_another_family_with_it() -> None:
    """Its name was another client's before, and that one has not taken over yet what it owns. (OWN-22)"""
    told = Told()
    told.put(OBJECTS[0], b"value")
    told.ask(Put, OBJECTS[1], ANA, 10, 0, b"half", GRANTS[ANA])
    assert told.ask(ReleaseOwner, ANA, KEYRING.grant(ANA, JOE), peer_id=SERVER)[0].code == codes.OK
    assert told.get(OBJECTS[0], ANA) == b"value"
    assert told.ask(Put, OBJECTS[1], ANA, 10, 4, b"whole!", GRANTS[ANA])[0].code == codes.OK
    assert told.ask(ReleaseOwner, ANA, GRANTS[ANA], peer_id=SERVER)[0].code == codes.OK
    assert told.get(OBJECTS[0], JOE) == told.get(OBJECTS[0], ANA) == [codes.NO_SUCH_OBJECT]
    assert told.put(OBJECTS[0], b"value") == codes.OWNER_GONE


CLIENTS, WORKERS = frozenset({codes.ROLE_CLIENT}), frozenset({codes.ROLE_WORKER})
PROGRAM, HIS_WORKER, HER_WORKER, HER_NEXT = (PeerId(letter * 16) for letter in (b"p", b"w", b"h", b"n"))
HER_FAMILY = own_family(ANA, "ana")
HERS = KEYRING.grant(ANA, HER_FAMILY)
"""The own grant of ana's client. Below: what a worker of joe's and one on the local lane have with its tasks."""
LENT = KEYRING.lend(ANA, HER_FAMILY, families_of("joe"), 0)
LENT_TO_ANY = KEYRING.lend(ANA, HER_FAMILY, ANY_USER, 0)


def of_users() -> Told:
    """Ana has stored something, and joe has a program and a worker."""
    told = Told()
    told.put(OBJECTS[0], b"value", grant=HERS)
    for peer_id, user, roles in (
        (PROGRAM, "joe", CLIENTS),
        (HIS_WORKER, "joe", WORKERS),
        (HER_WORKER, "ana", WORKERS),
        (HER_NEXT, "ana", CLIENTS),
    ):
        identity = Identity(user, roles, False, bytes(32))
        told.core.handle(replace(opened(peer_id=peer_id), identity=identity), told.now)
    return told


def asked_with(grant: bytes) -> list[tuple[type, tuple[Any, ...], dict[str, Any]]]:
    return [
        (Get, (OBJECTS[0],), {"owner": ANA, "grant": grant}),
        (Put, (OBJECTS[1], ANA, 5, 0, b"value", grant), {}),
        (PutShared, (OBJECTS[1], ANA, 5, MemoryFile(1, 1, 5), grant), {}),
        (Duplicate, (OBJECTS[0], OBJECTS[1], ANA), {"grant": grant}),
        (Release, (ANA, OBJECTS[0], grant), {}),
    ]


@pytest.mark.parametrize(
    ("grant", "sessions"),
    [
        (HERS, {HER_WORKER, HER_NEXT}),
        (LENT, {HIS_WORKER}),
        (LENT_TO_ANY, {HIS_WORKER, HER_WORKER}),
    ],
    ids=["own", "lent", "lent to any worker"],
)
def test_a_grant_is_for_one_user_and_a_lent_one_for_workers(grant: bytes, sessions: set[PeerId]) -> None:
    """A client's own grant is of no use to the worker that has somehow come by it. (STO-32)"""
    told = of_users()
    for peer_id in (PROGRAM, HIS_WORKER, HER_WORKER, HER_NEXT):
        if peer_id in sessions:
            (value,) = told.ask(Get, OBJECTS[0], peer_id=peer_id, owner=ANA, grant=grant)
            assert bytes(value.payload) == b"value"
            continue
        for kind, fields, named in asked_with(grant):
            (reply,) = told.ask(kind, *fields, peer_id=peer_id, **named)
            assert reply.code == codes.NOT_ALLOWED and "another user" in reply.text, kind
    told.core.handle(Lost(PROGRAM, 0, "", True), told.now)
    told.core.handle(opened(peer_id=PROGRAM), told.now)
    invariants.check(told.core)


def test_an_operator_shows_grants_of_every_user() -> None:
    told = of_users()
    operator = Identity("eve", CLIENTS, True, b"")
    told.core.handle(replace(opened(peer_id=PeerId(b"e" * 16)), identity=operator), told.now)
    for grant in (HERS, LENT, LENT_TO_ANY):
        (value,) = told.ask(Get, OBJECTS[0], peer_id=PeerId(b"e" * 16), owner=ANA, grant=grant)
        assert bytes(value.payload) == b"value"


def is_there(told: Told, object_id: ObjectId) -> bool:
    return told.get(object_id, ANA, HERS) != [codes.NO_SUCH_OBJECT]


def test_a_lent_grant_releases_only_what_workers_of_its_user_have_put() -> None:
    """It reads and puts. What its client has stored, or a worker of another user, stays. (STO-47)"""
    told = of_users()
    lent_to_her = KEYRING.lend(ANA, HER_FAMILY, families_of("ana"), 0)
    told.ask(Put, OBJECTS[1], ANA, 5, 0, b"first", LENT, peer_id=HIS_WORKER)
    told.ask(Put, OBJECTS[2], ANA, 5, 0, b"other", lent_to_her, peer_id=HER_WORKER)
    ids = b"".join(OBJECTS)
    assert told.ask(Release, ANA, ids, LENT, peer_id=HIS_WORKER)[0].code == codes.OK
    assert [is_there(told, one) for one in OBJECTS] == [True, False, True]
    many = ids + b"".join(bytes((1 + number % 255,)) * 16 for number in range(300))
    assert told.ask(Release, ANA, many, LENT, peer_id=HIS_WORKER)[0].code == codes.OK, "in slices"
    assert [is_there(told, one) for one in OBJECTS] == [True, False, True]
    assert told.ask(Release, ANA, ids, HERS)[0].code == codes.OK
    assert not told.core.objects.objects


@pytest.mark.parametrize("kind", [Put, PutShared, Duplicate])
def test_what_an_owner_puts_again_is_its_own(kind: type) -> None:
    """A worker that stores a value first does not keep the right to take it away. (STO-47)"""
    told = of_users()
    told.ask(Put, OBJECTS[1], ANA, 5, 0, b"value", LENT, peer_id=HIS_WORKER)
    again: tuple[Any, ...] = {
        Put: (OBJECTS[1], ANA, 5, 0, b"value", HERS),
        PutShared: (OBJECTS[1], ANA, 5, MemoryFile(1, 1, 5), HERS),
        Duplicate: (OBJECTS[0], OBJECTS[1], ANA, 0.0, HERS),
    }[kind]
    assert told.ask(kind, *again)[0].code == codes.OK
    told.ask(Put, OBJECTS[1], ANA, 5, 0, b"value", LENT, peer_id=HIS_WORKER)
    told.ask(Release, ANA, OBJECTS[1], LENT, peer_id=HIS_WORKER)
    assert is_there(told, OBJECTS[1])


def test_a_client_in_a_task_of_another_user_releases_what_is_its_own() -> None:
    """Its grant is lent, for its user's worker runs it, and has the right to release all that its owner has."""
    told = of_users()
    owner = PeerId(b"i" * 16)
    own = KEYRING.lend(owner, HER_FAMILY, families_of("joe"), 0, may_release=True)
    lent_on = KEYRING.lend(owner, HER_FAMILY, families_of("ana"), 0)
    told.ask(Put, OBJECTS[1], owner, 5, 0, b"value", lent_on, peer_id=HER_WORKER)
    told.ask(Release, owner, b"".join(OBJECTS), own, peer_id=HIS_WORKER)
    assert [is_there(told, one) for one in OBJECTS] == [True, False, False], "and nothing of its program's client"


def test_a_lent_grant_opens_no_session_after_its_end() -> None:
    """A session that has begun before goes on: a task may run for longer. (STO-48)"""
    dates = [1_000.0]
    told = of_users()
    told.core = StorageCore(read_grant=KEYRING.granted, date=lambda: dates[0])
    lent = KEYRING.lend(ANA, HER_FAMILY, families_of("joe"), 2_000)
    joe = Identity("joe", WORKERS, False, bytes(32))
    told.core.handle(opened(peer_id=ANA), told.now)
    told.core.handle(opened(codes.ROLE_SCHEDULER, SERVER), told.now)
    told.put(OBJECTS[0], b"value", grant=HERS)
    before, after = PeerId(b"1" * 16), PeerId(b"2" * 16)
    told.core.handle(replace(opened(peer_id=before), identity=joe), told.now)
    dates[0] = 2_000.0
    told.core.handle(replace(opened(peer_id=after), identity=joe), told.now)
    for kind, fields, named in asked_with(lent):
        (reply,) = told.ask(kind, *fields, peer_id=after, **named)
        assert reply.code == codes.NOT_ALLOWED and "had ended when this session began" in reply.text, kind
    (value,) = told.ask(Get, OBJECTS[0], peer_id=before, owner=ANA, grant=lent)
    assert bytes(value.payload) == b"value"
    assert told.ask(ReleaseOwner, ANA, lent, peer_id=SERVER)[0].code == codes.OK, "the scheduler needs no grant"
    assert not told.core.objects.objects
