"""Owners that no scheduler names are released, and no others (chapter 13, feature `live-owners`). A storage may leave
it."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("storage")


def naming_scheduler(scene: Scene) -> StoragePeer:
    scheduler = scene.requester("scheduler", features=["live-owners"])
    is_on = "live-owners" in scheduler.welcome["features"]
    is_declared = "live-owners" in scene.arena.manifest.features
    scene.check(is_on or not is_declared, "the manifest claims `live-owners`, the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `live-owners` is optional, and this storage does not name it")
    return scheduler


def owned(scene: Scene, peer: StoragePeer, count: int) -> list[tuple[bytes, bytes]]:
    """So many owners, and an object of each."""
    pairs = []
    for number in range(count):
        owner, identifier = new_id(), peer.new_object()
        scene.transcript.name(owner, "owner")
        scene.owners.add(owner)
        peer.store(identifier, b"of owner %d" % number, owner=owner)
        pairs.append((owner, identifier))
    return pairs


def left(peer: StoragePeer, pairs: list[tuple[bytes, bytes]]) -> list[bool]:
    peer.fence()
    return [peer.is_there(identifier) for _, identifier in pairs]


def is_released(scene: Scene, worker: StoragePeer, pair: tuple[bytes, bytes], clause: str = "OWN-18") -> None:
    scene.check(not worker.is_there(pair[1]), "an owner was left out twice, and its object is there", clause)
    worker.expect_code(worker.put(worker.new_object(), b"late", owner=pair[0]), CODES.OWNER_GONE, clause=clause)


@case("OWN-18")
def an_owner_that_two_namings_leave_out_is_released(scene: Scene) -> None:
    scheduler, worker = naming_scheduler(scene), scene.requester("worker")
    alive, gone, named_once = pairs = owned(scene, worker, 3)
    scheduler.expect_done(scheduler.name_owners(alive[0]), clause="OWN-18")
    scheduler.fence()
    scene.equal(left(worker, pairs), [True, True, True], "what is there after one naming")
    late = owned(scene, worker, 1)
    scheduler.expect_done(scheduler.name_owners(named_once[0], alive[0]), clause="OWN-18")
    scheduler.fence()
    is_released(scene, worker, gone)
    scheduler.expect_done(scheduler.name_owners(late[0][0], alive[0]), clause="OWN-18")
    scheduler.fence()
    scene.equal(left(worker, [alive, named_once, *late]), [True, True, True], "what is there of the others")


@case("OWN-18")
def without_any_client_nothing_is_kept(scene: Scene) -> None:
    scheduler, worker = naming_scheduler(scene), scene.requester("worker")
    pairs = owned(scene, worker, 2)
    scheduler.expect_done(scheduler.name_owners())
    scheduler.expect_done(scheduler.name_owners())
    scheduler.fence()
    for pair in pairs:
        is_released(scene, worker, pair)
    scene.equal(worker.status()["objectCount"], 0, "the number of objects")


@case("OWN-17", "OWN-18")
def a_naming_has_an_effect_when_it_is_whole(scene: Scene) -> None:
    scheduler, worker = naming_scheduler(scene), scene.requester("worker")
    one, other, gone = pairs = owned(scene, worker, 3)
    for _ in range(2):
        scheduler.expect_done(scheduler.name_owners(one[0], total=3), clause="OWN-17")
        scheduler.expect_done(scheduler.name_owners(new_id(), offset=1, total=3), clause="OWN-17")
        scheduler.fence()
        scene.equal(left(worker, pairs), [True] * 3, "what is there before the last part", "OWN-17")
        scheduler.expect_done(scheduler.name_owners(other[0], offset=2, total=3), clause="OWN-17")
    scheduler.fence()
    scene.equal(left(worker, [one, other]), [True, True], "what is there of those that were named", "OWN-17")
    is_released(scene, worker, gone)


@case("OWN-17")
def a_part_that_does_not_fit_ends_its_naming(scene: Scene) -> None:
    scheduler, worker = naming_scheduler(scene), scene.requester("worker")
    pairs = owned(scene, worker, 3)
    first, second, _ = (owner for owner, _ in pairs)
    scheduler.expect_done(scheduler.name_owners())
    bad_parts: list[tuple[tuple[bytes, ...], int, int]] = [
        ((second,), 2, 3),
        ((second,), 1, 4),
        ((second, first, second), 1, 3),
    ]
    for owners, offset, total in bad_parts:
        scheduler.expect_done(scheduler.name_owners(first, total=3))
        request = scheduler.name_owners(*owners, offset=offset, total=total)
        scheduler.expect_code(request, CODES.BAD_CHUNK, clause="OWN-17")
        rest = scheduler.name_owners(second, first, offset=1, total=3)
        scheduler.expect_code(rest, CODES.BAD_CHUNK, clause="OWN-17")
    scheduler.fence()
    scene.equal(left(worker, pairs), [True] * 3, "what is there after namings that were not whole")


@case("OWN-17", "OWN-18")
def a_naming_is_of_one_session(scene: Scene) -> None:
    scheduler, worker = naming_scheduler(scene), scene.requester("worker")
    pairs = owned(scene, worker, 2)
    scheduler.expect_done(scheduler.name_owners())
    scheduler.expect_done(scheduler.name_owners(pairs[0][0], total=2))
    scheduler.leave()
    scheduler.inbox.clear()
    scheduler.incarnation += 1
    scheduler.open(features=["live-owners"])
    scheduler.expect_code(scheduler.name_owners(pairs[1][0], offset=1, total=2), CODES.BAD_CHUNK, clause="OWN-17")
    scheduler.expect_done(scheduler.name_owners())
    scheduler.fence()
    scene.equal(left(worker, pairs), [True, True], "what is there after the first naming of a session", "OWN-18")


@case("OWN-19", "OWN-18")
def a_client_that_stores_itself_keeps_what_it_has(scene: Scene) -> None:
    """Whether a scheduler knows it or not."""
    scheduler, worker, client = naming_scheduler(scene), scene.requester("worker"), scene.requester()
    putter, copier = pairs = owned(scene, worker, 2)
    client.store(client.new_object(), b"own", owner=putter[0])
    client.expect_done(client.duplicate(copier[1], client.new_object(), owner=copier[0]))
    for _ in range(3):
        scheduler.expect_done(scheduler.name_owners())
    scheduler.fence()
    scene.equal(left(worker, pairs), [True, True], "what is there while the client has its session")
    client.leave()
    for _ in range(2):
        scheduler.expect_done(scheduler.name_owners())
    scheduler.fence()
    for pair in pairs:
        is_released(scene, worker, pair)


@case("OWN-19", "OWN-18")
def a_scheduler_does_not_decide_about_clients_of_another(scene: Scene) -> None:
    one, other, worker = naming_scheduler(scene), naming_scheduler(scene), scene.requester("worker")
    first, second, gone = pairs = owned(scene, worker, 3)
    for _ in range(2):
        one.expect_done(one.name_owners(first[0]))
    one.fence()
    scene.equal(left(worker, pairs), [True] * 3, "what is there while one of two schedulers has not named any owner")
    other.expect_done(other.name_owners(second[0]))
    for _ in range(2):
        one.expect_done(one.name_owners(first[0]))
    one.fence()
    scene.equal(left(worker, [first, second]), [True, True], "what is there of clients of either")
    is_released(scene, worker, gone)
    other.leave()
    for _ in range(2):
        one.expect_done(one.name_owners(first[0]))
    one.fence()
    is_released(scene, worker, second)


@case("HSK-13")
def only_a_scheduler_may_name_owners(scene: Scene) -> None:
    naming_scheduler(scene)
    for role in ("client", "worker"):
        peer = scene.requester(role)
        seq = peer.send("liveOwners", requestId=5, totalCount=0)
        peer.expect_error(CODES.NOT_ALLOWED, ref_seq=seq, fatal=False)
        peer.fence()
        peer.expect_nothing("what is not allowed is refused once", "STO-11")
