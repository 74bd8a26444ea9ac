"""What a storage must not leave behind, forget, or mix up (chapters 12 and 13)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("storage")
GONE, BAD_CHUNK, NO_SUCH, FULL = CODES.OWNER_GONE, CODES.BAD_CHUNK, CODES.NO_SUCH_OBJECT, CODES.STORAGE_FULL
MEBIBYTE = 1 << 20


def _its_session(scene: Scene, writer: StoragePeer, identifier: bytes) -> None:
    writer.leave()


def _its_owner(scene: Scene, writer: StoragePeer, identifier: bytes) -> None:
    scheduler = scene.requester("scheduler")
    scheduler.expect_done(scheduler.release_owner(writer.peer_id))


def _another_upload(scene: Scene, writer: StoragePeer, identifier: bytes) -> None:
    other = scene.requester()
    other.expect_done(other.put(identifier, bytes(900_000), owner=writer.peer_id))
    writer.expect_done(writer.put(identifier, bytes(1000), offset=500_000, total=900_000), clause="STO-10")
    writer.expect_done(writer.release(identifier))


def _a_chunk_out_of_order(scene: Scene, writer: StoragePeer, identifier: bytes) -> None:
    writer.expect_code(writer.put(identifier, bytes(1000), offset=1, total=900_000), BAD_CHUNK, clause="STO-5")


def _a_new_upload(scene: Scene, writer: StoragePeer, identifier: bytes) -> None:
    writer.store(identifier, b"x")
    writer.expect_done(writer.release(identifier))


WAYS: dict[str, tuple[str, Callable[[Scene, StoragePeer, bytes], None]]] = {
    "its session has ended": ("STO-8", _its_session),
    "its owner was released": ("STO-8", _its_owner),
    "another upload was complete first": ("STO-10", _another_upload),
    "a chunk came out of order": ("STO-5", _a_chunk_out_of_order),
    "a new upload has replaced it": ("STO-8", _a_new_upload),
}


@case("STO-8", "STO-10", "STO-5", "STO-16")
def an_upload_that_has_ended_holds_no_memory(scene: Scene) -> None:
    watcher = scene.requester("scheduler")
    before = watcher.status()["memoryBytes"]
    for what, (clause, end) in WAYS.items():
        writer = scene.requester()
        identifier = writer.new_object()
        writer.expect_done(writer.put(identifier, bytes(500_000), total=900_000))
        scene.transcript.note("storage", f"an upload ends: {what}")
        end(scene, writer, identifier)
        left = watcher.status()["memoryBytes"] - before
        scene.check(left == 0, f"memoryBytes still counts {left} bytes of an upload after {what}", clause)


@case("STO-16")
def who_waits_no_longer_is_not_counted(scene: Scene) -> None:
    """One is served, one has left, one waited for an owner who went."""
    watcher = scene.requester("scheduler")
    before = watcher.status()["waiterCount"]
    served, left, owner = scene.requester(), scene.requester(), new_id()
    identifier = served.new_object()
    waiting = served.get(identifier, wait=20)
    left.get(left.new_object(), wait=20)
    in_vain = served.duplicate(served.new_object(), served.new_object(), owner=owner, wait=20)
    scene.settle(served, left)
    scene.equal(watcher.status()["waiterCount"] - before, 3, "the requests that wait")
    served.store(identifier, b"x")
    served.reply(waiting, "STO-7")
    scene.equal(watcher.status()["waiterCount"] - before, 2, "the requests that wait when one was served")
    left.leave()
    scene.equal(watcher.status()["waiterCount"] - before, 1, "the requests that wait when the session of one has ended")
    watcher.expect_done(watcher.release_owner(owner))
    served.expect_code(in_vain, GONE, NO_SUCH, clause="OWN-4")
    scene.equal(watcher.status()["waiterCount"] - before, 0, "the requests that wait when the last has its answer")


@case("STO-16", "STO-9")
def owners_and_bytes_are_counted_while_they_are_there(scene: Scene) -> None:
    """Three objects of one owner and two names of one value, which take no more than two values."""
    peer, owner = scene.requester(), new_id()
    scene.owners.add(owner)
    before = peer.status()
    names = [peer.new_object() for _ in range(3)]
    for name in names:
        peer.store(name, bytes(1000))
    copy = peer.new_object()
    peer.expect_done(peer.duplicate(names[0], copy, owner=owner))
    during = peer.status()
    scene.equal(during["objectCount"] - before["objectCount"], 4, "the objects that were added")
    scene.equal(during["ownerCount"] - before["ownerCount"], 2, "the owners that were added")
    peer.expect_done(peer.release(*names), peer.release(copy, owner=owner))
    after = peer.status()
    for field in ("objectCount", "ownerCount", "memoryBytes"):
        scene.equal(after[field], before[field], f"{field} when all were released")


@case("OWN-1", "STO-9")
def a_duplicate_that_waited_adds_its_owner_to_a_target_that_exists(scene: Scene) -> None:
    peer, owner = scene.requester(), new_id()
    scene.owners.add(owner)
    source, target = peer.new_object(), peer.new_object()
    waiting = peer.duplicate(source, target, owner=owner, wait=20)
    first = peer.duplicate(source, target, wait=20)
    again = peer.duplicate(source, target, owner=owner, wait=20)
    peer.store(source, b"source")
    for each in (waiting, first, again):
        peer.expect_done(each, clause="STO-7")
    peer.expect_done(peer.release(source))
    for left in (owner, peer.peer_id):
        scene.check(peer.is_there(target), f"an owner, {left.hex()}, is left, and the object is gone")
        peer.expect_done(peer.release(target, owner=left))
    scene.check(not peer.is_there(target), "no owner is left, and the object is there", "OWN-3")


@case("STO-31", "STO-7")
def a_duplicate_that_waited_adds_no_owner_to_another_object(scene: Scene) -> None:
    peer, owner = scene.requester(), new_id()
    scene.owners.add(owner)
    source, target = peer.new_object(), peer.new_object()
    waiting = peer.duplicate(source, target, owner=owner, wait=20)
    peer.store(target, b"was faster")
    peer.store(source, b"source")
    peer.expect_code(waiting, CODES.EXISTS)
    scene.check(peer.fetch(target) == b"was faster", "the target was replaced", "STO-9")
    peer.expect_done(peer.release(target))
    scene.check(not peer.is_there(target), "the owner of the Duplicate is one of another object")


@case("STO-9", "STO-4")
def a_duplicate_to_a_target_of_the_same_owner_needs_no_source(scene: Scene) -> None:
    """It is asked again after a lost session, when the source may be gone."""
    peer = scene.requester()
    target = peer.new_object()
    peer.store(target, b"target")
    peer.expect_done(peer.duplicate(peer.new_object(), target, wait=20), clause="STO-9")
    scene.check(peer.fetch(target) == b"target", "the target was replaced")


@case("STO-13", "STO-14", "STO-7")
def who_waited_is_given_what_was_asked_for(scene: Scene) -> None:
    peer, value = scene.requester(), bytes(range(100))
    identifier = peer.new_object()
    middle = peer.get(identifier, offset=10, chunk=5, wait=20)
    end = peer.get(identifier, offset=100, wait=20)
    beyond = peer.get(identifier, offset=101, wait=20)
    peer.store(identifier, value)
    answer = peer.reply(middle, "STO-7")
    scene.equal((answer.kind, answer.body.get("offset")), ("value", 10), "the answer to a Get of 5 bytes from 10")
    piece = answer.payload[0]
    scene.check(0 < len(piece) <= 5 and value[10:].startswith(piece), f"5 bytes from 10 are {piece!r}")
    scene.equal(peer.reply(end, "STO-7").payload, (b"",), "the bytes of a Get at the end")
    peer.expect_code(beyond, BAD_CHUNK, clause="STO-14")


@case("STO-5")
def a_first_chunk_is_not_longer_than_the_whole(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.expect_code(peer.put(identifier, b"a" * 20, total=15), BAD_CHUNK, clause="STO-5")
    scene.check(not peer.is_there(identifier), "what is longer than its totalBytes became an object", "STO-3")


@case("STO-13")
def chunks_can_be_read_from_any_offset(scene: Scene) -> None:
    """Around each place where two chunks met when they were put."""
    peer = scene.requester()
    identifier, value = peer.new_object(), bytes(range(200))
    for offset in range(0, 200, 50):
        peer.expect_done(peer.put(identifier, value[offset : offset + 50], offset=offset, total=200))
    for offset in (0, 49, 50, 51, 99, 100, 149, 150, 199):
        piece = peer.reply(peer.get(identifier, offset=offset, chunk=7)).payload[0]
        scene.check(0 < len(piece) <= 7, f"7 bytes from {offset} of 200 were asked for, and {len(piece)} came")
        scene.check(value[offset:].startswith(piece), f"7 bytes from {offset} were asked for, and other bytes came")


@case("OWN-3")
def who_is_no_owner_releases_nothing(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, b"x")
    other.expect_done(other.release(identifier), other.release(identifier, owner=new_id()))
    scene.check(peer.is_there(identifier), "an object went when others than its owner released it", "OWN-1")


@case("OWN-4")
def whoever_is_gone_stays_gone(scene: Scene) -> None:
    """Also an owner who had nothing when it went, and one who dials the storage again."""
    scheduler, worker, client = scene.requester("scheduler"), scene.requester("worker"), scene.requester()
    stranger = new_id()
    scheduler.expect_done(scheduler.release_owner(stranger), scheduler.release_owner(client.peer_id))
    client.leave()
    client.inbox.clear()
    client.incarnation += 1
    client.open()
    for owner in (stranger, client.peer_id):
        worker.expect_code(worker.put(worker.new_object(), b"late", owner=owner), GONE)


@case("STO-36")
def empty_objects_and_their_owners_take_room(scene: Scene) -> None:
    peer, other = scene.requester(), scene.requester()
    before = peer.status()["memoryBytes"]
    identifiers = [peer.new_object() for _ in range(20)]
    for identifier in identifiers:
        peer.store(identifier, b"")
    for identifier in identifiers[:10]:
        other.store(identifier, b"")
    scene.equal(peer.status()["memoryBytes"] - before, 30 * 512, "what 20 objects and 10 further owners take")
    peer.release(*identifiers)
    other.release(*identifiers)
    other.fence()
    scene.equal(peer.status()["memoryBytes"], before, "memoryBytes after the release")


@case("STO-12", "STO-8", variant="small", seconds=30.0)
def an_upload_that_begins_again_needs_room_once(scene: Scene) -> None:
    """The variant `small` has room for 16 MiB; an upload of 12 MiB begins three times."""
    peer = scene.requester()
    identifier, total = peer.new_object(), 12 * MEBIBYTE
    for clause in ("STO-12", "STO-8", "STO-8"):
        peer.expect_done(peer.put(identifier, bytes(8 * MEBIBYTE), total=total), clause=clause)
    peer.expect_done(peer.put(identifier, bytes(4 * MEBIBYTE), offset=8 * MEBIBYTE, total=total), clause="STO-12")
    scene.check(len(peer.fetch(identifier)) == total, "an object of 12 MiB came back with another size", "STO-13")


@case("STO-12", variant="small", seconds=30.0)
def an_upload_for_which_there_is_no_room_is_discarded(scene: Scene) -> None:
    """Five uploads of 8 MiB grow side by side, and what has come of three is too much; who is refused holds no room."""
    peer = scene.requester()
    before = peer.status()["memoryBytes"]
    growing = {peer.new_object(): 0 for _ in range(5)}
    refused = []
    for _ in range(3):
        for identifier, offset in list(growing.items()):
            request = peer.put(identifier, bytes(2 * MEBIBYTE), offset=offset, total=8 * MEBIBYTE)
            if peer.expect_code(request, CODES.OK, FULL, clause="STO-12")["code"] == CODES.OK:
                growing[identifier] += 2 * MEBIBYTE
                continue
            del growing[identifier]
            refused.append(identifier)
            more = peer.put(identifier, bytes(MEBIBYTE), offset=offset or 1, total=8 * MEBIBYTE)
            peer.expect_code(more, BAD_CHUNK, FULL, clause="STO-12")
    held = sum(growing.values()) // MEBIBYTE
    scene.check(held <= 16, f"a storage of 16 MiB has taken {held} MiB of unfinished uploads", "STO-12")
    for identifier in refused:
        scene.check(not peer.is_there(identifier), "an upload that was refused became an object", "STO-3")
    for identifier in growing:
        peer.expect_code(peer.put(identifier, b"x", offset=1, total=8 * MEBIBYTE), BAD_CHUNK, clause="STO-5")
    scene.equal(peer.status()["memoryBytes"], before, "memoryBytes when all uploads have ended", "STO-12")


@case("SES-25")
def what_is_not_acknowledged_is_handed_over_in_portions(scene: Scene) -> None:
    peer = scene.requester()
    identifier = peer.new_object()
    peer.store(identifier, bytes(1 << 20))
    peer.acknowledges = False
    requests = [peer.get(identifier) for _ in range(64)]
    scene.pump.for_seconds(1.0)
    came = peer.take("value")
    scene.check(0 < len(came) < 64, f"{len(came)} of 64 MiB came without an acknowledgement", "SES-25")
    peer.acknowledges = True
    peer.acknowledge()
    rest = [peer.reply(request, "SES-25") for request in requests[len(came) :]]
    scene.equal([reply.kind for reply in rest], ["value"] * len(rest), "the answers that came later", "SES-25")


@case("STO-4", "STO-13")
def an_owner_may_put_again_what_it_has(scene: Scene) -> None:
    """Its session was lost, or two attempts of a task store their values: those need not be equal."""
    one, two = scene.requester(), scene.requester()
    identifier = one.new_object()
    one.store(identifier, b"first")
    two.expect_done(two.put(identifier, b"other", owner=one.peer_id), clause="STO-4")
    two.expect_done(two.put(identifier, b"he", offset=2, total=5, owner=one.peer_id), clause="STO-4")
    scene.check(one.fetch(identifier) == b"first", "the value was replaced", "STO-4")
    one.expect_done(one.release(identifier))
    scene.check(not one.is_there(identifier), "no owner is left, and the object is there", "OWN-3")


@case("STO-30", "STO-13")
def a_put_of_other_bytes_makes_no_owner(scene: Scene) -> None:
    one, two = scene.requester(), scene.requester()
    identifier = one.new_object()
    one.store(identifier, b"first")
    for bytes_put, owner in ((b"other", two), (b"first and more", two), (b"firs", two), (b"first!", one)):
        two.expect_code(two.put(identifier, bytes_put, owner=owner.peer_id), CODES.EXISTS)
        scene.check(one.fetch(identifier) == b"first", "the value was replaced")
    two.expect_done(two.put(identifier, b"fi", total=5))
    two.expect_code(two.put(identifier, b"RST", offset=2, total=5), CODES.EXISTS)
    one.expect_done(one.release(identifier))
    scene.check(not two.is_there(identifier), "a peer became an owner without the object's bytes")


@case("STO-30", "OWN-1")
def an_owner_is_added_with_the_last_of_the_same_bytes(scene: Scene) -> None:
    one, two = scene.requester(), scene.requester()
    identifier = one.new_object()
    one.store(identifier, b"first")
    two.expect_done(two.put(identifier, b"fi", total=5))
    one.expect_done(one.release(identifier))
    scene.check(not two.is_there(identifier), "a peer became an owner with its first chunk")
    one.store(identifier, b"first")
    two.expect_done(two.put(identifier, b"fir", total=5))
    two.expect_done(two.put(identifier, b"st", offset=3, total=5))
    one.expect_done(one.release(identifier))
    scene.check(two.is_there(identifier), "an owner is left, and the object is gone", "OWN-1")
    two.expect_done(two.release(identifier))
    scene.check(not two.is_there(identifier), "no owner is left, and the object is there", "OWN-3")


@case("MON-53")
def a_scheduler_is_told_of_the_largest_objects(scene: Scene) -> None:
    rich, scheduler = scene.requester(), scene.requester("scheduler")
    sizes = (2**16 - 1, 2**16, 2**18, 2**17)
    ids = [rich.new_object() for _ in sizes]

    def told(asker: StoragePeer, count: int) -> list[tuple[object, ...]]:
        request = asker.next_request()
        asker.send("storageStatusRequest", requestId=request, largestCount=count)
        entries = asker.reply(request).body.get("largest", ())
        return [(one["objectId"], one["owner"], one["ownerCount"], one["totalBytes"]) for one in entries]

    for identifier, size in zip(ids, sizes, strict=True):
        rich.store(identifier, bytes(size))
    expected = [(ids[at], rich.peer_id, 1, sizes[at]) for at in (2, 3, 1)]
    for count in (100, 3, 2, 1, 0):
        scene.equal(told(scheduler, count), expected[:count], f"the {count} largest objects", "MON-53")
    scene.equal(told(rich, 100), [], "the largest objects, told to a client", "MON-53")
    rich.expect_done(rich.release(ids[2]))
    scene.equal(told(scheduler, 100), expected[1:], "the largest objects after the largest was released", "MON-53")


@case("MON-26")
def a_scheduler_is_told_what_owners_have(scene: Scene) -> None:
    """Through everything that makes an owner of an object, or ends that."""
    rich, other, scheduler = scene.requester(), scene.requester(), scene.requester("scheduler")
    owners = (new_id(), rich.peer_id, other.peer_id)

    def expect(*owned: tuple[int, int], asker: StoragePeer = scheduler) -> None:
        request = asker.next_request()
        asker.send("storageStatusRequest", requestId=request, owners=b"".join(owners))
        status = asker.reply(request)
        packed = [struct.pack(f"<{len(column)}Q", *column) for column in zip(*owned, strict=True)] or [b"", b""]
        found = status.body.get("ownerObjects"), status.body.get("ownerBytes")
        scene.equal(found, tuple(packed), "ownerObjects and ownerBytes")

    expect((0, 0), (0, 0), (0, 0))
    first, second, again = rich.new_object(), rich.new_object(), rich.new_object()
    rich.store(first, b"a" * 10)
    rich.store(first, b"a" * 10)
    rich.store(second, b"")
    expect((0, 0), (2, 10), (0, 0))
    other.expect_done(other.put(first, b"a" * 10))
    rich.expect_done(rich.duplicate(first, again))
    expect((0, 0), (3, 20), (1, 10))
    rich.expect_done(rich.release(first))
    rich.expect_done(rich.release(first))
    expect((0, 0), (2, 10), (1, 10))
    scheduler.expect_done(scheduler.release_owner(rich.peer_id))
    expect((0, 0), (0, 0), (1, 10))
    for asker in (other, scene.requester("worker"), scene.requester("monitor")):
        expect(asker=asker)


@case("MON-69", variant="bounded")
def a_scheduler_is_told_what_the_user_of_each_owner_has(scene: Scene) -> None:
    """The variant `bounded` lets each user have 1 MiB."""
    peer, scheduler = scene.requester(), scene.requester("scheduler")

    def told(asker: StoragePeer) -> tuple[int, tuple[int, ...]]:
        request = asker.next_request()
        asker.send("storageStatusRequest", requestId=request, owners=new_id() + peer.peer_id)
        status = asker.reply(request).body
        return status["userLimitBytes"], tuple(one for (one,) in struct.iter_unpack("<Q", status["ownerUserBytes"]))

    scene.equal(
        told(scheduler), (2**20, (0, 0)), "userLimitBytes and ownerUserBytes before there are objects", "MON-69"
    )
    first, second = peer.new_object(), peer.new_object()
    peer.store(first, bytes(10))
    peer.store(second, bytes(20))
    scene.equal(told(scheduler), (2**20, (0, 30)), "userLimitBytes and ownerUserBytes", "MON-69")
    peer.expect_done(peer.release(first))
    scene.equal(told(scheduler)[1], (0, 20), "ownerUserBytes when an object is released", "MON-69")
    for asker in (peer, scene.requester("worker"), scene.requester("monitor")):
        scene.equal(told(asker)[1], (), "ownerUserBytes, told to another role", "MON-69")


@case("MON-69")
def a_storage_without_a_quota_tells_of_none(scene: Scene) -> None:
    peer, scheduler = scene.requester(), scene.requester("scheduler")
    peer.store(peer.new_object(), bytes(10))
    request = scheduler.next_request()
    scheduler.send("storageStatusRequest", requestId=request, owners=peer.peer_id)
    status = scheduler.reply(request).body
    scene.equal((status["userLimitBytes"], status["ownerUserBytes"]), (0, b""), "userLimitBytes and ownerUserBytes")
