"""Objects that outlive the storage (STO-41, STO-44): optional. The variant `keeping` keeps them in {directory}."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scaler_conformance.case import cases_for
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("storage")

KEPT_SECONDS = 10.0
"""A storage keeps an object a moment after it was stored."""
LOOK_SECONDS = 0.05
LARGE = bytes(range(256)) * 4096


def until_kept(scene: Scene, peer: StoragePeer, is_so: Callable[[int], bool], what: str) -> None:
    """`diskBytes` tells what is kept (MON-28)."""
    watch = scene.stopwatch()
    while not is_so(peer.status()["diskBytes"]):
        scene.check(watch.seconds < KEPT_SECONDS, f"{what} is not kept, as diskBytes of its StorageStatus says")
        scene.pump.until(lambda: False, LOOK_SECONDS)


def begin_again(scene: Scene, *, is_killed: bool = True) -> StoragePeer:
    """The storage's next life, with what it has kept, and a reader in it."""
    for peer in scene.peers:
        peer.leave()
        peer.close()
    if is_killed:
        scene.subject.kill()
    scene.start_again(keeps_directory=True)
    return scene.requester()


def stored(scene: Scene, peer: StoragePeer) -> dict[bytes, bytes]:
    """Objects of all sizes, and they are kept."""
    values = {peer.new_object(): value for value in (b"", b"small" * 100, LARGE[: 200 << 10], LARGE * 2)}
    for identifier, value in values.items():
        peer.store(identifier, value)
    total = sum(map(len, values.values()))
    until_kept(scene, peer, lambda size: size >= total, f"an object of {total} bytes in all")
    return values


def check_values(scene: Scene, reader: StoragePeer, values: Mapping[bytes, bytes]) -> None:
    for identifier, value in values.items():
        size = f"an object of {len(value)} bytes"
        scene.check(reader.is_there(identifier), f"{size} was kept, and is not there")
        piece = reader.reply(reader.get(identifier, offset=len(value) // 2, chunk=100), "STO-13").payload[0]
        is_right = value[len(value) // 2 :].startswith(piece) and (bool(piece) or not value)
        scene.check(is_right, f"a piece from the middle of {size} came back changed")
        scene.check(reader.fetch(identifier) == value, f"{size} came back changed")


@case("STO-41", variant="keeping", fresh=True, seconds=60.0)
def what_was_kept_is_there_after_a_kill(scene: Scene) -> None:
    values = stored(scene, scene.requester())
    check_values(scene, begin_again(scene), values)


@case("STO-41", variant="keeping", fresh=True, seconds=60.0)
def what_was_kept_is_there_after_an_end_in_order(scene: Scene) -> None:
    values = stored(scene, scene.requester())
    check_values(scene, begin_again(scene, is_killed=False), values)


@case("STO-41", "OWN-3", variant="keeping", fresh=True, seconds=60.0)
def what_is_kept_has_the_owners_that_it_had(scene: Scene) -> None:
    """No fewer, so that the last of two owners still has it; and no more, so that it goes with the last."""
    first, second, left = scene.requester(), scene.requester(), scene.requester()
    identifier = first.new_object()
    for owner in (first, second, left):
        owner.store(identifier, LARGE)
    until_kept(scene, first, lambda size: size >= len(LARGE), "an object of three owners")
    left.expect_done(left.release(identifier))
    later = first.new_object()
    first.store(later, LARGE * 2)
    until_kept(scene, first, lambda size: size >= 3 * len(LARGE), "an object of two mebibytes")
    reader = begin_again(scene)
    scene.check(reader.is_there(later) and reader.is_there(identifier), "it was kept, and is not there")
    reader.expect_done(reader.release(identifier, owner=first.peer_id))
    scene.check(reader.is_there(identifier), "the second of two owners has not released it, and it is gone")
    reader.expect_done(reader.release(identifier, owner=second.peer_id))
    scene.check(not reader.is_there(identifier), "all its owners have released it, and it is there")


@case("STO-41", variant="keeping", fresh=True, seconds=60.0)
def what_was_released_before_another_was_stored_is_not_there_again(scene: Scene) -> None:
    """The other one is there, so what is there is of a moment after the release."""
    peer = scene.requester()
    released, later = peer.new_object(), peer.new_object()
    peer.store(released, LARGE)
    until_kept(scene, peer, lambda size: size >= len(LARGE), "an object of a mebibyte")
    peer.expect_done(peer.release(released))
    peer.store(later, LARGE * 3)
    until_kept(scene, peer, lambda size: size >= 3 * len(LARGE), "an object of three mebibytes")
    reader = begin_again(scene)
    check_values(scene, reader, {later: LARGE * 3})
    scene.check(not reader.is_there(released), "it was released before, and it is there")


@case("STO-41", variant="keeping", fresh=True, seconds=90.0)
def an_id_that_had_other_bytes_before_has_the_owners_of_its_bytes(scene: Scene) -> None:
    """Killed in the moment after: what is there is of one moment, before it or after it."""
    before, after = LARGE, LARGE[::-1]
    for _ in range(3):
        former, present = scene.requester(), scene.requester()
        identifier = former.new_object()
        former.store(identifier, before)
        until_kept(scene, former, lambda size: size >= len(LARGE), "an object of a mebibyte")
        former.expect_done(former.release(identifier))
        present.store(identifier, after)
        reader = begin_again(scene)
        if not reader.is_there(identifier):
            continue
        value = reader.fetch(identifier)
        scene.check(value in (before, after), "it has the bytes of no moment")
        owner = former if value == before else present
        other = present if value == before else former
        reader.expect_done(reader.release(identifier, owner=other.peer_id))
        scene.check(reader.is_there(identifier), "it went with an owner of other bytes")
        reader.expect_done(reader.release(identifier, owner=owner.peer_id))
        scene.check(not reader.is_there(identifier), "its owner has released it, and it is there")


@case("STO-41", "STO-33", variant="keeping", fresh=True, seconds=60.0)
def what_is_kept_is_of_the_family_that_it_was_of(scene: Scene) -> None:
    scene.needs(scene.pump.key is not None, "keys are optional, and the manifest does not say `keys = true`")
    owner, stranger = scene.requester(), scene.requester()
    owner.family, stranger.family = new_id(), new_id()
    identifier = owner.new_object()
    owner.store(identifier, LARGE)
    until_kept(scene, owner, lambda size: size >= len(LARGE), "an object of a mebibyte")
    reader, family = begin_again(scene), owner.family
    reader.family = stranger.family
    scene.check(not reader.is_there(identifier), "it is there for another family", "STO-33")
    reader.family = family
    check_values(scene, reader, {identifier: LARGE})


@case("STO-44", variant="keeping", fresh=True, seconds=60.0)
def what_was_kept_under_another_key_is_not_served(scene: Scene) -> None:
    scene.needs(scene.pump.key is not None, "keys are optional, and the manifest does not say `keys = true`")
    values = stored(scene, scene.requester())
    for peer in scene.peers:
        peer.leave()
    scene.arena.replace_key()
    reader = begin_again(scene, is_killed=False)
    for identifier in values:
        scene.check(not reader.is_there(identifier), "an object of a cluster with another key is there")
        reader.expect_code(reader.release(identifier), CODES.OK)  # of nothing, which is no error
