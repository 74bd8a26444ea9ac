"""The clients of a scheduler are named to its storage (SCH-58, OWN-20, feature `live-owners`). It is optional."""

from __future__ import annotations

import time

from scaler_conformance.case import cases_for
from scaler_conformance.play.host import Guest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("scheduler")
timing = cases_for("scheduler", layer="timing")

NAMED_SECONDS = 10.0


def parts(storage: Guest) -> list[Message]:
    return [message for message in storage.history if message.kind == "liveOwners"]


def naming_session(scene: Scene) -> Guest:
    """The session of the scheduler with the storage, which has the feature."""
    storage = scene.storage_session()
    is_declared = "live-owners" in scene.arena.manifest.features
    is_on = "live-owners" in storage.features
    scene.check(is_on or not is_declared, "the manifest claims `live-owners`, the Hello leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `live-owners` is optional, and this scheduler does not name it")
    return storage


def another_session(scene: Scene, storage: Guest) -> Guest:
    scene.transcript.note("storage", "ends the session")
    storage.send("bye", code=CODES.OK)
    storage.forget()
    guests = scene.storage.guests
    came = scene.pump.until(lambda: any(guest.is_open and guest.role == "scheduler" for guest in guests), 15.0)
    scene.check(came, "the scheduler did not dial its storage again")
    again = scene.storage_session()
    scene.check(scene.pump.until(lambda: is_whole(parts(again)), NAMED_SECONDS), "no client was named", "SCH-58")
    return again


def is_whole(naming: list[Message]) -> bool:
    return bool(naming) and sum(len(part["ids"]) // 16 for part in naming) >= naming[0]["totalCount"]


def names(naming: list[Message]) -> set[bytes]:
    ids = b"".join(part["ids"] for part in naming)
    return {ids[at : at + 16] for at in range(0, len(ids), 16)}


@case("SCH-58", seconds=30.0)
def all_clients_with_a_session_are_named(scene: Scene) -> None:
    storage = naming_session(scene)
    one, other, gone = scene.client(), scene.client(), scene.client()
    scene.worker(credit=1)
    gone.leave()
    scene.settle(one, other, storage)
    naming = parts(another_session(scene, storage))
    scene.equal(names(naming), {one.peer_id, other.peer_id}, "the owners that are named")
    offsets = [part["offset"] for part in naming]
    scene.equal(offsets[0], 0, "the offset of the first part", "OWN-17")


@case("SCH-58", seconds=30.0)
def without_clients_there_is_an_empty_naming(scene: Scene) -> None:
    naming = parts(another_session(scene, naming_session(scene)))
    scene.equal([(part["ids"], part["totalCount"]) for part in naming], [(b"", 0)], "the naming of no client")


@timing("OWN-20", "SCH-58", variant="brief", seconds=40.0)
def a_naming_waits_for_the_answer_and_for_a_lease(scene: Scene) -> None:
    """The variant `brief` grants clients a lease of at most 3 s."""
    first = naming_session(scene)
    client = scene.client()
    lease = client.welcome["timers"]["leaseSeconds"]
    scene.storage.unanswered.add("liveOwners")
    try:
        storage = another_session(scene, first)
        (part,) = parts(storage)
        scene.pump.until(lambda: len(parts(storage)) > 1, 2.5 * lease)
        scene.equal(len(parts(storage)), 1, "the count of LiveOwners before the first is answered", "OWN-20")
    finally:
        scene.storage.unanswered.clear()
    storage.send("objectReply", requestId=part["requestId"], code=CODES.OK)
    scene.check(scene.pump.until(lambda: len(parts(storage)) > 1, 2.5 * lease), "clients are named once only", "SCH-58")
    begun_at = time.monotonic()
    scene.check(
        scene.pump.until(lambda: len(parts(storage)) > 2, 2.5 * lease), "clients are named twice only", "SCH-58"
    )
    scene.check(time.monotonic() - begun_at > 0.8 * lease, f"two namings within a lease of {lease:g} s", "OWN-20")
    scene.equal(names(parts(storage)[2:]), {client.peer_id}, "the owners that are named", "SCH-58")
