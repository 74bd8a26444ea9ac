"""Large values in shared memory: the feature `memfd` (chapter 12). Optional; what is claimed is held to."""

from __future__ import annotations

import secrets
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play import memory_file
from scaler_conformance.play.asking import StoragePeer
from scaler_conformance.play.memory_file import MemoryFile, OpenedDirectory
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("storage")
UNREADABLE = getattr(CODES, "UNREADABLE_FILE", 0)


def sharing(scene: Scene, file: MemoryFile) -> StoragePeer:
    """A requester with whom the feature is in force."""
    scene.needs(memory_file.is_possible(), "this system has no memory files")
    is_declared = "memfd" in scene.arena.manifest.features
    peer = scene.requester(features=["memfd"], memoryFile=file.told())
    is_on = "memfd" in peer.welcome["features"]
    scene.check(is_on or not is_declared, "the manifest claims `memfd`, and the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `memfd` is optional, and this storage does not name it")
    return peer


@case("HSK-25", "HSK-6")
def shared_memory_is_off_where_the_file_cannot_be_what_it_says(scene: Scene) -> None:
    scene.needs(memory_file.is_possible(), "this system has no memory files")
    empty, full, unsealed = MemoryFile(), MemoryFile(b"not empty"), MemoryFile(seals=0)
    wrong: dict[str, dict[str, Any]] = {
        "no file": {},
        "another name": empty.told(name=bytes(16)),
        "another process": empty.told(processId=1),
        "a descriptor that is not open": empty.told(descriptor=100_000),
        "a file that is not empty": full.told(),
        "a file without seals": unsealed.told(),
        "standard output": empty.told(descriptor=1),
    }
    try:
        for what, told in wrong.items():
            scene.transcript.note("storage", what)
            peer = scene.requester(features=["memfd"], memoryFile=told)
            scene.check("memfd" not in peer.welcome["features"], f"`memfd` is on, with {what} in the Hello")
        without = scene.requester(memoryFile=empty.told())
        scene.check("memfd" not in without.welcome["features"], "`memfd` is on, and was not offered", "HSK-6")
    finally:
        for file in (empty, full, unsealed):
            file.close()


@case("STO-21", "STO-19", "STO-20")
def an_object_in_shared_memory_is_stored_and_fetched(scene: Scene) -> None:
    key, value = MemoryFile(), b"shared " * 100_000
    file = MemoryFile(value)
    try:
        peer = sharing(scene, key)
        identifier = peer.new_object()
        _put_shared(peer, identifier, file, len(value), CODES.OK, UNREADABLE)
        file.close()  # once it is answered the storage does not need the file any more
        if not peer.is_there(identifier):
            peer.store(identifier, value)
        scene.check(peer.fetch(identifier) == value, "the object came back changed", "STO-21")
        request = peer.next_request()
        peer.send("get", requestId=request, objectId=identifier, acceptsShared=True, **peer.reading())
        answer = peer.reply(request)
        if answer.kind == "sharedValue":
            scene.equal(answer["totalBytes"], len(value), "totalBytes of the SharedValue", "STO-22")
            found, trouble = memory_file.read(answer["file"], len(value))
            scene.check(not trouble, trouble, "STO-19")
            scene.check(found == value, "the shared bytes are others", "STO-19")
    finally:
        key.close()
        file.close()


@case("STO-22")
def who_does_not_ask_for_shared_memory_gets_none(scene: Scene) -> None:
    key, value = MemoryFile(), b"v" * 2_000_000
    file = MemoryFile(value)
    try:
        peer, plain = sharing(scene, key), scene.requester()
        identifier = peer.new_object()
        _put_shared(peer, identifier, file, len(value), CODES.OK, UNREADABLE)
        if peer.is_there(identifier):
            scene.check(plain.fetch(identifier, "STO-22") == value, "the object came back changed", "STO-21")
            scene.check(peer.fetch(identifier, "STO-22") == value, "the object came back changed", "STO-21")
    finally:
        key.close()
        file.close()


@case("STO-20", "STO-21")
def a_file_that_is_not_what_was_said_is_not_read(scene: Scene) -> None:
    key, value = MemoryFile(), b"value"
    good, unsealed = MemoryFile(value), MemoryFile(value, seals=0)
    lacking = [MemoryFile(value, seals=memory_file.ALL_SEALS & ~seal) for seal in memory_file.EACH_SEAL]
    try:
        peer = sharing(scene, key)
        for told, size in (
            (good.told(name=bytes(16)), 5),
            (good.told(descriptor=100_000), 5),
            (good.told(), 6),
            (good.told(), 4),
            (unsealed.told(), 5),
            *((file.told(), 5) for file in lacking),
        ):
            identifier, request = peer.new_object(), peer.next_request()
            body = {"objectId": identifier, "totalBytes": size, "file": told, **peer.granted()}
            peer.send("putShared", payload=None, seq=None, requestId=request, **body)
            peer.expect_code(request, UNREADABLE, clause="STO-20")
            scene.check(not peer.is_there(identifier), "a file that is not what was said became an object")
    finally:
        for file in (key, good, unsealed, *lacking):
            file.close()


@case("STO-21", "OWN-4", "STO-4", "STO-30")
def shared_objects_have_owners_like_others(scene: Scene) -> None:
    key, file = MemoryFile(), MemoryFile(b"value")
    try:
        peer, other, scheduler = sharing(scene, key), scene.requester(), scene.requester("scheduler")
        identifier = peer.new_object()
        other.expect_done(other.put(identifier, b"first", owner=peer.peer_id))
        _put_shared(peer, identifier, file, 5, CODES.OK)
        scene.check(peer.fetch(identifier) == b"first", "the object was replaced", "STO-4")
        foreign = peer.new_object()
        other.store(foreign, b"first")
        for told in (5, 6):
            _put_shared(peer, foreign, file, told, CODES.EXISTS, UNREADABLE, clause="STO-30")
        other.expect_done(other.release(foreign))
        scene.check(not peer.is_there(foreign), "a PutShared of other bytes made an owner", "STO-30")
        scheduler.expect_done(scheduler.release_owner(peer.peer_id))
        _put_shared(peer, peer.new_object(), file, 5, CODES.OWNER_GONE, clause="OWN-4")
    finally:
        key.close()
        file.close()


@case("STO-25", "STO-26")
def what_the_directory_says_is_so(scene: Scene) -> None:
    key, value = MemoryFile(), b"listed " * 100_000
    named, unnamed = secrets.token_bytes(16), secrets.token_bytes(16)
    file, other = MemoryFile(value, name=named), MemoryFile(value)
    try:
        peer = sharing(scene, key)
        scene.needs(len(peer.welcome["directory"]["name"]) == 16, "a directory is optional, and this storage has none")
        directory = OpenedDirectory(peer.welcome["directory"])
        are_sealed = directory.seals & memory_file.TABLE_SEALS == memory_file.TABLE_SEALS
        scene.check(are_sealed, f"the seals of the directory are {directory.seals:#x}", "STO-25")
        for identifier, shared in ((named, file), (unnamed, other)):
            scene.check(directory.find(identifier) is None, "an object stands there before it was put", "STO-25")
            _put_shared(peer, identifier, shared, len(value), CODES.OK, UNREADABLE)
            entry = directory.find(identifier)
            if entry is not None:
                found, trouble = memory_file.read(entry[1], entry[0])
                scene.check(found == value, trouble or "the bytes in the file are others", "STO-25")
            peer.expect_done(peer.release(identifier))
            scene.check(directory.find(identifier) is None, "an object that was deleted stands there", "STO-26")
        directory.close()
    finally:
        for each in (key, file, other):
            each.close()


@case("STO-12", "STO-21", variant="small")
def shared_objects_need_room_like_others(scene: Scene) -> None:
    """The variant `small` has room for 16 MiB, and each of these files has 6."""
    key, files = MemoryFile(), [MemoryFile(bytes(6 << 20)) for _ in range(3)]
    try:
        peer = sharing(scene, key)
        identifiers = [peer.new_object() for _ in files]
        for identifier, file in zip(identifiers, files, strict=True):
            _put_shared(peer, identifier, file, 6 << 20, CODES.OK, CODES.STORAGE_FULL, UNREADABLE)
        count = sum(map(peer.is_there, identifiers))
        scene.check(count <= 2, f"{count} shared objects of 6 MiB are in a storage of 16 MiB", "STO-12")
    finally:
        for file in (key, *files):
            file.close()


@case("STO-35")
def a_file_with_holes_is_refused(scene: Scene) -> None:
    key, files = MemoryFile(), [MemoryFile(b"x", hole_bytes=size) for size in (100_000, 1 << 40)]
    try:
        peer = sharing(scene, key)
        before = peer.status()["memoryBytes"]
        for file in files:
            identifier = peer.new_object()
            _put_shared(peer, identifier, file, file.size, UNREADABLE, clause="STO-35")
            scene.check(not peer.is_there(identifier), "it is stored all the same", "STO-35")
        scene.equal(peer.status()["memoryBytes"], before, "memoryBytes", "STO-35")
    finally:
        for each in (key, *files):
            each.close()


@case("STO-13", "STO-21")
def a_shared_object_can_be_read_in_pieces(scene: Scene) -> None:
    key, value = MemoryFile(), bytes(range(256)) * 2000
    file = MemoryFile(value)
    try:
        peer, reader = sharing(scene, key), scene.requester()
        identifier = peer.new_object()
        _put_shared(peer, identifier, file, len(value), CODES.OK, UNREADABLE)
        if not reader.is_there(identifier):
            return
        for offset, size in ((0, 10), (1, 300), (255, 2), (100_001, 7), (len(value) - 1, 5)):
            piece = reader.reply(reader.get(identifier, offset=offset, chunk=size)).payload[0]
            scene.check(0 < len(piece) <= size, f"{size} bytes from {offset} were asked for, and {len(piece)} came")
            is_right = value[offset:].startswith(piece)
            scene.check(is_right, f"{size} bytes from {offset} were asked for, and others came")
    finally:
        key.close()
        file.close()


def _put_shared(
    peer: StoragePeer, identifier: bytes, file: MemoryFile, size: int, *codes: int, clause: str = "STO-21"
) -> None:
    request = peer.next_request()
    body = {"objectId": identifier, "totalBytes": size, "file": file.told(), **peer.granted()}
    peer.send("putShared", payload=None, seq=None, requestId=request, **body)
    peer.expect_code(request, *codes, clause=clause)
