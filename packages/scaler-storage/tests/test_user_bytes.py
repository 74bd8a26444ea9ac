"""The bytes that each user may have in the storage (LIM-36)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from scaler_protocol import codes
from scaler_protocol.columns import split_u64
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.keys import Identity, Keyring, families_of, own_family
from scaler_protocol.messages import (
    Duplicate,
    Hello,
    Message,
    ObjectReply,
    Put,
    Release,
    StorageStatus,
    StorageStatusRequest,
    Welcome,
)
from scaler_protocol.session import Opened, Received
from scaler_storage.core import CoreLimits, Send, StorageCore, invariants
from scaler_storage.core.actions import Action
from scaler_storage.core.objects import ObjectTable
from scaler_storage.core.owners import UserBytes
from scaler_storage.core.values import StoredValue

KEYRING = Keyring([b"k" * 32])
LIMITS = CoreLimits(user_bytes=100)


def name(text: str) -> PeerId:
    return PeerId(text.encode().ljust(16, b"."))


def oid(text: str) -> ObjectId:
    return ObjectId(text.encode().ljust(16, b"."))


class Told:
    """Clients whose ticket says which user they are, and a worker of another user."""

    def __init__(self, limits: CoreLimits = LIMITS, *, has_keys: bool = True) -> None:
        self.core = StorageCore(limits, read_grant=KEYRING.granted if has_keys else None)
        #: the grant of each owner, as its scheduler has made it
        self.grants: dict[str, bytes] = {}
        self.families: dict[str, bytes] = {}
        self.users: dict[str, str] = {}
        self.has_keys = has_keys
        self.count = 0

    def open(self, text: str, user: str = "", role: int = codes.ROLE_CLIENT, *, family: str = "") -> None:
        """`family`: the client in whose task it is, or whose name it had."""
        self.families[text] = own_family(name(family or text), user)
        self.users[text] = user
        self.grants.setdefault(text, KEYRING.grant(name(text), self.families[text]))
        identity = Identity(user, frozenset({role}), False, bytes(32)) if self.has_keys else None
        hello, welcome = Hello(1, 1, role, name(text)), Welcome(1, name("storage"), 1, 1)
        self._handle(Opened(name(text), hello, welcome, identity))

    def _handle(self, event: Opened | Received) -> list[Action]:
        actions = self.core.handle(event, 0.0)
        invariants.check(self.core)
        return actions

    def ask(self, text: str, kind: type[Message], *fields: object, **named: object) -> ObjectReply:
        self.count += 1
        message = kind(self.count, *fields, **named)  # type: ignore[call-arg]
        replies = [one.message for one in self._handle(Received(name(text), 1, message)) if isinstance(one, Send)]
        return next(one for one in replies if getattr(one, "request_id", 0) == self.count)  # type: ignore[return-value]

    def put(self, text: str, key: str, size: int, *, owner: str = "") -> ObjectReply:
        """`owner`: for which a worker puts, with the grant that was lent to the worker's user. (OWN-24)"""
        grant = self.grants[text]
        if owner:
            grant = KEYRING.lend(name(owner), self.families[owner], families_of(self.users[text]), 0)
        return self.ask(text, Put, oid(key), name(owner or text), size, 0, bytes(size), grant=grant)

    def release(self, text: str, key: str) -> None:
        self.ask(text, Release, name(text), bytes(oid(key)), grant=self.grants[text])


@pytest.mark.parametrize("has_keys", [True, False], ids=["keys", "no keys"])
def test_a_put_beyond_the_quota_is_refused_and_what_is_released_gives_room_back(has_keys: bool) -> None:
    told = Told(has_keys=has_keys)
    told.open("c", "ana")
    told.open("d", "ben")
    assert told.put("c", "a", 60).code == codes.OK
    refused = told.put("c", "b", 41)
    assert refused.code == codes.QUOTA and "--user-limit" in refused.text
    assert told.put("c", "b", 40).code == told.put("d", "d", 100).code == codes.OK
    told.release("c", "b")
    assert told.put("c", "e", 41).code == codes.QUOTA
    told.release("c", "a")
    assert told.put("c", "e", 41).code == codes.OK


def test_all_programs_of_a_user_share_its_quota() -> None:
    told = Told()
    told.open("c", "ana")
    told.open("d", "ana")
    assert [told.put("c", "a", 60).code, told.put("d", "b", 60).code] == [codes.OK, codes.QUOTA]


def test_what_a_worker_stores_counts_for_the_user_of_the_client() -> None:
    told = Told()
    told.open("c", "ana")
    told.open("w", "svc", codes.ROLE_WORKER)
    told.open("child", "ana", family="c")
    told.open("d", "ana")
    assert told.put("w", "result", 60, owner="c").code == codes.OK
    assert told.put("w", "nested", 30, owner="child").code == codes.OK
    assert told.put("d", "more", 20).code == told.put("w", "next", 11, owner="c").code == codes.QUOTA
    told.open("x", "svc")
    assert told.put("x", "own", 100).code == codes.OK, "the user of the worker has its own quota"


def test_a_family_has_an_object_once_however_many_of_its_clients_own_it() -> None:
    told = Told()
    told.open("c", "ana")
    told.open("new", "ana", family="c")
    told.put("c", "a", 90)
    grant = told.grants["new"]
    reply = told.ask(
        "new", Duplicate, oid("a"), oid("a"), name("new"), 0.0, grant=grant,
        source_owner=name("c"), source_grant=told.grants["c"],
    )  # fmt: skip
    assert reply.code == codes.OK
    told.release("c", "a")
    assert told.core.by_user is not None and told.core.by_user.of_user[own_family(name("c"), "ana")[:8]] == 90
    copy = told.ask("new", Duplicate, oid("a"), oid("copy"), name("new"), 0.0, grant=grant)
    assert copy.code == codes.QUOTA, "another name counts as another object"


def test_an_upload_needs_room_for_the_whole_value_and_of_two_that_do_not_fit_the_second_is_refused() -> None:
    told = Told()
    told.open("c", "ana")
    owner, grant = name("c"), told.grants["c"]

    def chunk(key: str, total: int, offset: int, size: int) -> int:
        return told.ask("c", Put, oid(key), owner, total, offset, bytes(size), grant=grant).code

    assert chunk("much", 101, 0, 1) == codes.QUOTA
    assert [chunk("a", 70, 0, 40), chunk("b", 70, 0, 40)] == [codes.OK, codes.OK]
    assert [chunk("a", 70, 40, 30), chunk("b", 70, 40, 30)] == [codes.OK, codes.QUOTA]
    assert chunk("b", 30, 0, 10) == chunk("b", 30, 10, 20) == codes.OK
    assert chunk("c", 1, 0, 1) == codes.QUOTA


def test_what_a_storage_of_before_has_kept_counts() -> None:
    by_user = UserBytes(has_keys=True)
    table = ObjectTable(by_user=by_user)
    value = StoredValue(30)
    value.append(bytes(30))
    family = own_family(name("c"), "ana")
    table.restore(oid("a"), value, [(name("c"), family), (name("new"), family)])
    assert by_user.has(own_family(name("d"), "ana")) == 30
    table.release(oid("a"), name("c"))
    table.release(oid("a"), name("new"))
    assert not by_user.of_user


def test_a_scheduler_is_told_what_the_users_of_owners_have() -> None:
    """With a quota alone. Of an owner without objects the user is not known. (MON-69)"""
    for limits, most, had in ((LIMITS, 100, [60, 60, 0, 0]), (CoreLimits(), 0, [])):
        told = Told(limits)
        for client, user in (("c", "ana"), ("d", "ana"), ("e", "ben")):
            told.open(client, user)
        told.put("c", "a", 20)
        told.put("d", "b", 40)
        owners = b"".join(map(name, ("c", "d", "e", "gone")))
        told.open("s", "svc", codes.ROLE_SCHEDULER)
        told.open("w", "svc", codes.ROLE_WORKER)
        for asker, expected in (("s", had), ("w", [])):
            status = told.ask(asker, StorageStatusRequest, owners)
            assert isinstance(status, StorageStatus)
            assert (status.user_limit_bytes, split_u64(status.owner_user_bytes)) == (most, tuple(expected))


@pytest.mark.parametrize("seed", range(10))
def test_no_refusal_depends_on_what_others_have(seed: int) -> None:
    """The law: with several users, each Put is refused exactly if its own user has no room for it."""
    choose = random.Random(seed)
    told = Told()
    users = {"a": "ana", "b": "ana", "c": "ben", "d": "cy"}
    for client, user in users.items():
        told.open(client, user)
    stored: dict[str, list[tuple[str, int]]] = {client: [] for client in users}
    refusals: Counter[str] = Counter()
    for step in range(200):
        client = choose.choice(list(users))
        if choose.random() < 0.35 and stored[client]:
            told.release(client, stored[client].pop(0)[0])
            continue
        size = choose.randint(0, 50)
        had = sum(one for other in users if users[other] == users[client] for _, one in stored[other])
        code = told.put(client, f"{step}", size).code
        assert code == (codes.OK if had + size <= 100 else codes.QUOTA)
        refusals[users[client]] += code != codes.OK
        if code == codes.OK:
            stored[client].append((f"{step}", size))
    assert set(+refusals) == {"ana", "ben", "cy"}
