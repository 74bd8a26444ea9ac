"""A storage with keys keeps the objects of clients apart (STO-32, STO-33, STO-47 to STO-49, SEC-17, SEC-18)."""

from __future__ import annotations

import secrets
import time
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.ids import content_id, new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, ROLES
from scaler_conformance.wire.keys import ANY_USER, KEY_BYTES, ClusterKey, families_of, own_family

case = cases_for("storage")
OK, NOT_ALLOWED, NO_SUCH = CODES.OK, CODES.NOT_ALLOWED, CODES.NO_SUCH_OBJECT
BAD_CHUNK = CODES.BAD_CHUNK


def key_of(scene: Scene) -> ClusterKey:
    key = scene.pump.key
    scene.needs(key is not None, "keys are optional, and the manifest does not say `keys = true`")
    assert key is not None
    return key


def requester(scene: Scene, family: bytes = b"") -> StoragePeer:
    """A client in the family of its own, as the clients of programs are, or in that of another."""
    peer = scene.requester()
    peer.family = family
    return peer


def _wrong_grants(scene: Scene, owner: StoragePeer, other: StoragePeer) -> list[bytes]:
    """What does not allow to name this owner."""
    key = key_of(scene)
    right, others = key.grant(owner.peer_id), key.grant(other.peer_id)
    foreign = ClusterKey(bytes(KEY_BYTES)).grant(owner.peer_id)
    changed = bytes([right[0] ^ 1]) + right[1:]
    claimed = [other.peer_id + right, other.peer_id + others, owner.peer_id + right]
    return [b"", bytes(16), others, foreign, changed, right[:-1], right + b"\0", *claimed]


@case("STO-32")
def no_owner_is_named_without_its_grant(scene: Scene) -> None:
    key_of(scene)
    owner, thief = requester(scene), requester(scene)
    identifier, target = owner.new_object(), owner.new_object()
    owner.store(identifier, b"value")
    for grant in _wrong_grants(scene, owner, thief):
        named: dict[str, Any] = {"owner": owner.peer_id, "grant": grant}
        for asked in (
            thief.put(target, b"forged", **named),
            thief.put(identifier, b"value", **named),
            thief.get(identifier, **named),
            thief.get(identifier, wait=5.0, **named),
            thief.duplicate(identifier, target, **named),
            thief.duplicate(identifier, target, sourceOwner=owner.peer_id, sourceGrant=grant),
            thief.release(identifier, **named),
        ):
            thief.expect_code(asked, NOT_ALLOWED)
        thief.release(identifier, is_answered=False, **named)
    thief.fence()
    scene.check(owner.fetch(identifier) == b"value", "the object is changed")
    scene.check(not owner.is_there(target), "what was not allowed was done")
    owner.expect_done(owner.release(identifier))
    scene.check(not owner.is_there(identifier), "a name that was not allowed is an owner")


def _of_user(scene: Scene, user: str, role: str, *, is_operator: bool = False) -> StoragePeer:
    """A peer by a ticket of that user for that role alone, in a family of that user."""
    peer = scene.requester(is_open=False)
    secret = secrets.token_bytes(KEY_BYTES)
    peer.shown = key_of(scene).pass_for(secret, [ROLES[role]], user=user, is_operator=is_operator)
    peer.family = own_family(peer.peer_id, user)
    peer.open()
    return peer


class Lending:
    """A client of ana's that has stored something, and what workers of joe's have for its tasks."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.key = scene, key_of(scene)
        self.owner = _of_user(scene, "ana", "client")
        self.identifier, self.target = self.owner.new_object(), self.owner.new_object()
        self.owner.store(self.identifier, b"value")

    def own(self) -> dict[str, Any]:
        return {"owner": self.owner.peer_id, "grant": self.key.grant(self.owner.peer_id, self.owner.family)}

    def lent(self, user: bytes, *, ends: int = 0) -> dict[str, Any]:
        grant = self.key.lent(self.owner.peer_id, self.owner.family, user, ends=ends)
        return {"owner": self.owner.peer_id, "grant": grant}

    def is_refused(self, peer: StoragePeer, named: dict[str, Any], clause: str) -> None:
        own = peer.new_object()
        peer.store(own, b"of its own")
        for asked in (
            peer.put(self.target, b"forged", **named),
            peer.get(self.identifier, **named),
            peer.get(self.identifier, wait=5.0, **named),
            peer.duplicate(own, self.target, **named),
            peer.duplicate(self.identifier, self.target, sourceOwner=named["owner"], sourceGrant=named["grant"]),
            peer.release(self.identifier, **named),
        ):
            peer.expect_code(asked, NOT_ALLOWED, clause=clause)
        self.is_as_before()

    def is_as_before(self) -> None:
        is_same = self.owner.fetch(self.identifier) == b"value" and not self.owner.is_there(self.target)
        self.scene.check(is_same, "what was not allowed was done")

    def is_served(self, peer: StoragePeer, named: dict[str, Any], clause: str) -> None:
        reply = peer.reply(peer.get(self.identifier, **named), clause)
        self.scene.equal(reply.kind, "value", "the answer to a Get", clause)


@case("STO-32", "STO-47")
def the_own_grant_of_a_client_is_for_its_user(scene: Scene) -> None:
    """Whichever ticket a program of joe's has that has come by it."""
    lending = Lending(scene)
    for role in ("client", "worker"):
        lending.is_refused(_of_user(scene, "joe", role), lending.own(), "STO-47")
        lending.is_served(_of_user(scene, "ana", role), lending.own(), "STO-47")
    lending.is_served(_of_user(scene, "joe", "client", is_operator=True), lending.own(), "STO-47")


@case("STO-32", "STO-47")
def a_lent_grant_is_for_workers_of_the_user_that_it_names(scene: Scene) -> None:
    """A program of joe's has it from a task that a worker of his was given."""
    lending = Lending(scene)
    ana, joe, eve = (_of_user(scene, user, "worker") for user in ("ana", "joe", "eve"))
    program = _of_user(scene, "joe", "client")
    to_joe, to_any = lending.lent(families_of("joe")), lending.lent(ANY_USER)
    for peer in (ana, eve, program):
        lending.is_refused(peer, to_joe, "STO-47")
    lending.is_refused(program, to_any, "STO-47")
    lending.is_served(joe, to_joe, "STO-47")
    for peer in (ana, joe, eve):
        lending.is_served(peer, to_any, "STO-47")
    lending.is_served(_of_user(scene, "eve", "client", is_operator=True), to_joe, "STO-47")
    joe.expect_done(joe.put(lending.target, b"of a task", **to_joe))
    scene.check(lending.owner.fetch(lending.target) == b"of a task", "what a worker has put is not its client's")


@case("STO-48")
def a_lent_grant_releases_what_workers_of_its_user_have_put(scene: Scene) -> None:
    lending = Lending(scene)
    owner, joe, eve = lending.owner, _of_user(scene, "joe", "worker"), _of_user(scene, "eve", "worker")
    to_joe, to_eve = lending.lent(families_of("joe")), lending.lent(families_of("eve"))
    of_joe, of_eve, copied, again, shared = (owner.new_object() for _ in range(5))
    joe.expect_done(joe.put(of_joe, b"of joe", **to_joe))
    joe.expect_done(joe.put(again, b"first", **to_joe))
    joe.expect_done(joe.duplicate(of_joe, copied, **to_joe))
    joe.expect_done(joe.duplicate(of_joe, shared, **to_joe))
    eve.expect_done(eve.put(of_eve, b"of eve", **to_eve))
    owner.expect_done(owner.put(again, b"first"))
    owner.expect_done(owner.duplicate(of_joe, shared))
    every = (lending.identifier, of_joe, of_eve, copied, again, shared)
    another = _of_user(scene, "joe", "worker")
    another.expect_done(another.release(*every, **to_joe), clause="STO-48")
    found = [owner.is_there(one) for one in every]
    expected = [True, False, True, False, True, True]
    scene.equal(found, expected, "what is left of: the client's, its own, another's, copied, put again, copied again")
    owner.expect_done(owner.release(*every))
    scene.check(not any(map(owner.is_there, every)), "the owner's own grant released not all")


@case("STO-48")
def a_client_in_a_task_releases_all_that_it_owns(scene: Scene) -> None:
    """Its lent grant has the right to release. What its tasks return a worker of another user may have stored."""
    lending = Lending(scene)
    child, eve = _of_user(scene, "joe", "worker"), _of_user(scene, "eve", "worker")
    family, identifier = lending.owner.family, child.new_object()
    own = lending.key.lent(child.peer_id, family, families_of("joe"), may_release=True)
    to_eve = lending.key.lent(child.peer_id, family, families_of("eve"))
    eve.expect_done(eve.put(identifier, b"of eve", owner=child.peer_id, grant=to_eve))
    both = child.release(identifier, lending.identifier, owner=child.peer_id, grant=own)
    child.expect_done(both, clause="STO-48")
    scene.check(not lending.owner.is_there(identifier), "it did not release what it owns")
    lending.is_as_before()


@case("STO-49")
def a_lent_grant_opens_no_session_after_its_end(scene: Scene) -> None:
    lending = Lending(scene)
    joe, long_ago = families_of("joe"), int(time.time()) - 60
    before = _of_user(scene, "joe", "worker")
    lending.is_refused(before, lending.lent(joe, ends=long_ago), "STO-49")
    end = int(time.time()) + 2
    lending.is_served(before, lending.lent(joe, ends=end), "STO-49")
    scene.pump.until(lambda: time.time() > end + 1, 10.0)
    lending.is_refused(_of_user(scene, "joe", "worker"), lending.lent(joe, ends=end), "STO-49")
    lending.is_served(before, lending.lent(joe, ends=end), "STO-49")
    scheduler = scene.requester("scheduler")
    named = lending.lent(joe, ends=end)
    scheduler.expect_done(scheduler.release(lending.identifier, **named), clause="STO-49")


@case("STO-32")
def a_chunk_without_the_grant_ends_no_upload(scene: Scene) -> None:
    key_of(scene)
    owner, thief = requester(scene), requester(scene)
    identifier = owner.new_object()
    owner.expect_done(owner.put(identifier, b"1" * 10, total=20))
    named: dict[str, Any] = {"owner": owner.peer_id, "grant": key_of(scene).grant(thief.peer_id)}
    thief.expect_code(thief.put(identifier, b"x" * 10, offset=10, total=20, **named), NOT_ALLOWED)
    owner.expect_done(owner.put(identifier, b"2" * 10, offset=10, total=20))
    scene.check(owner.fetch(identifier) == b"1" * 10 + b"2" * 10, "the upload was mixed up")


@case("STO-32")
def the_scheduler_names_every_owner(scene: Scene) -> None:
    key_of(scene)
    owner, scheduler = requester(scene), scene.requester("scheduler")
    identifier = owner.new_object()
    owner.store(identifier, b"value")
    scheduler.expect_done(scheduler.release(identifier, owner=owner.peer_id, grant=b""))
    scene.check(not owner.is_there(identifier), "the scheduler has released it, and it is there")


@case("STO-33")
def an_object_of_another_family_does_not_exist(scene: Scene) -> None:
    key_of(scene)
    owner, other = requester(scene), requester(scene)
    identifier, target = owner.new_object(), owner.new_object()
    owner.store(identifier, b"value")
    other.expect_code(other.get(identifier), NO_SUCH)
    other.expect_code(other.duplicate(identifier, target), NO_SUCH)
    other.expect_done(other.release(identifier))
    scene.check(owner.fetch(identifier) == b"value", "another family released it")
    third = requester(scene)
    third.duplicate(identifier, third.new_object(), wait=20.0)
    waiting = other.get(identifier, wait=20.0)
    named = other.duplicate(identifier, target, wait=20.0)
    other.fence()
    other.expect_nothing("it is another family's")
    other.expect_done(other.put(identifier, b"value"))
    scene.equal(other.reply(waiting, "STO-33").kind, "value", "the answer to the Get that waited")
    other.expect_done(named, clause="STO-33")
    scene.settle(third)
    third.expect_nothing("it is another family's", "STO-33")
    other.expect_done(other.release(identifier))
    other.expect_code(other.get(identifier), NO_SUCH, clause="STO-33")


@case("STO-33", "STO-32")
def a_family_reads_what_one_of_it_owns(scene: Scene) -> None:
    """The client of a program, and a client in one of its tasks."""
    key_of(scene)
    program = requester(scene)
    child, stranger = requester(scene, program.peer_id), requester(scene, new_id())
    first, second = program.new_object(), child.new_object()
    program.store(first, b"of the program")
    child.store(second, b"of the child")
    scene.check(child.fetch(first, "STO-33") == b"of the program", "the child does not read it")
    scene.check(program.fetch(second, "STO-33") == b"of the child", "the program does not read it")
    for identifier in (first, second):
        stranger.expect_code(stranger.get(identifier), NO_SUCH)
    program.expect_done(program.release(first))
    child.expect_code(child.get(first), NO_SUCH)


@case("STO-32", "STO-33")
def a_name_passes_what_it_had_to_the_next(scene: Scene) -> None:
    """A client whose session was lost: by a Duplicate that shows the grants of both names."""
    key = key_of(scene)
    peer, former = requester(scene), new_id()
    scene.owners.add(former)
    identifier = peer.new_object()
    peer.expect_done(peer.put(identifier, b"value", owner=former))
    peer.expect_code(peer.duplicate(identifier, identifier), NO_SUCH)
    source: dict[str, Any] = {"sourceOwner": former, "sourceGrant": key.grant(former)}
    peer.expect_done(peer.duplicate(identifier, identifier, **source))
    peer.expect_done(peer.release(identifier, owner=former))
    scene.check(peer.fetch(identifier) == b"value", "it went with the former name")


def _taken(scene: Scene, owner: StoragePeer) -> dict[str, Any]:
    """The name of this owner, with the grant of a client of another user that has taken it."""
    return {"owner": owner.peer_id, "grant": key_of(scene).grant(owner.peer_id, new_id())}


@case("OWN-21")
def a_name_that_another_user_takes_changes_nothing_that_it_has(scene: Scene) -> None:
    owner, thief = requester(scene), requester(scene)
    taken = _taken(scene, owner)
    identifier, target = owner.new_object(), owner.new_object()
    owner.store(identifier, b"value")
    foreign = thief.new_object()
    thief.store(foreign, b"of the thief")
    thief.expect_code(thief.get(identifier, **taken), NO_SUCH)
    for asked in (
        thief.put(target, b"forged", **taken),
        thief.put(identifier, b"value", **taken),
        thief.duplicate(foreign, target, sourceOwner=thief.peer_id, sourceGrant=_grant(scene, thief), **taken),
        thief.release(identifier, **taken),
    ):
        thief.expect_code(asked, NOT_ALLOWED)
    scene.check(owner.fetch(identifier) == b"value", "the object is changed")
    scene.check(not owner.is_there(target), "what was not allowed was done")
    owner.expect_done(owner.release(identifier))
    thief.expect_done(thief.put(identifier, b"of the thief", **taken), clause="OWN-21")
    scene.owners.add(owner.peer_id)


@case("OWN-22")
def an_owner_that_leaves_takes_nothing_of_another_family_with_it(scene: Scene) -> None:
    owner, scheduler = requester(scene), scene.requester("scheduler")
    taken = _taken(scene, owner)
    first, second = owner.new_object(), owner.new_object()
    owner.store(first, b"value")
    scheduler.expect_done(scheduler.release_owner(owner.peer_id, grant=taken["grant"]))
    scene.check(owner.is_there(first), "what another family has was released")
    owner.expect_done(owner.put(second, b"more"))
    scheduler.expect_done(scheduler.release_owner(owner.peer_id, grant=_grant(scene, owner)))
    is_left = owner.is_there(first) or owner.is_there(second)
    scene.check(not is_left, "its own grant released nothing")
    owner.expect_code(owner.put(first, b"value"), CODES.OWNER_GONE, clause="OWN-4")


def _grant(scene: Scene, owner: StoragePeer) -> bytes:
    return key_of(scene).grant(owner.peer_id)


@case("SEC-17", "STO-30")
def what_an_object_is_is_not_told_byte_by_byte(scene: Scene) -> None:
    """A peer that knows the id alone, and tries a byte, or a size."""
    one, other = scene.requester(), scene.requester()
    identifier = one.new_object()
    one.store(identifier, b"value")
    for first, size in ((b"v", 5), (b"x", 5), (b"v", 4), (b"v", 6), (b"x", 1000), (b"valu", 5), (b"value", 6)):
        other.expect_done(other.put(identifier, first, total=size), clause="SEC-17")
    for chunks, code in (((b"x", b"alue"), CODES.EXISTS), ((b"va", b"lue!"), CODES.EXISTS), ((b"v", b"alue"), OK)):
        size = len(b"".join(chunks))
        other.expect_done(other.put(identifier, chunks[0], total=size), clause="SEC-17")
        last = other.put(identifier, chunks[1], offset=len(chunks[0]), total=size)
        other.expect_code(last, code, clause="STO-30")
    scene.check(one.fetch(identifier) == b"value", "the value was replaced", "STO-30")


@case("STO-30", "STO-2")
def other_bytes_do_not_keep_a_function_from_its_client(scene: Scene) -> None:
    """They were stored first, under the id that everyone can compute."""
    one, other = scene.requester(), scene.requester()
    for size in (10, 20):
        function = new_id() + b"1234"
        identifier = content_id(function)
        other.expect_done(other.put(identifier, b"x" * size), clause="STO-3")
        one.expect_done(one.put(identifier, function), clause="STO-30")
        scene.check(one.fetch(identifier) == function, "the function is not what was put", "STO-30")
        other.expect_code(other.put(identifier, b"x" * size), CODES.EXISTS, clause="STO-30")
    function = new_id() + new_id()
    identifier = content_id(function)
    other.expect_done(other.put(identifier, b"y" * len(function)), clause="STO-3")
    for code in (BAD_CHUNK, OK):
        one.expect_done(one.put(identifier, function[:16], total=32))
        one.expect_code(one.put(identifier, function[16:], offset=16, total=32), code, clause="STO-30")
    scene.check(one.fetch(identifier) == function, "the function is not what was put in chunks", "STO-30")


#: more than an object of our storage has places for
WAITS = 4_200


@case("SEC-18")
def readers_of_one_family_take_no_place_of_anothers(scene: Scene) -> None:
    key_of(scene)
    owner, other = requester(scene), requester(scene)
    identifier = owner.new_object()
    for _ in range(WAITS):
        other.get(identifier, wait=60.0)
    other.fence()
    waiting = owner.get(identifier, wait=60.0)
    owner.fence()
    owner.expect_nothing("its family has no other request that waits")
    owner.expect_done(owner.put(identifier, b"value"))
    scene.equal(owner.reply(waiting, "SEC-18").kind, "value", "the answer to the Get that waited")
