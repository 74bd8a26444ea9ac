"""Large values in shared memory, as those treat them who put and get objects (chapter 12, the feature `memfd`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play import memory_file
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.memory_file import Directory, MemoryFile
from scaler_conformance.play.scheduler import ClientGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result

from .client_calls import answer
from .worker_running import call, run

case = cases_for("worker", "client")
BYTES = 2_000_000


def begin_sharing(scene: Scene) -> None:
    """A new life of the storage, which has the feature: all sessions with it begin again."""
    scene.needs(memory_file.is_possible(), "this system has no memory files")
    scene.needs("memfd" in scene.arena.manifest.features, "the feature `memfd` is optional, and not claimed")
    scene.storage.features = frozenset({"memfd"})
    if scene.role == "worker":
        scene.storage.begin_again()
        scene.arena.store_functions()
    begin(scene)


def begin(scene: Scene) -> None:
    """A client connects once in a case."""
    if scene.role == "client":
        scene.client_under_test()


def client_of(scene: Scene) -> ClientGuest:
    client = scene.scheduler.guest("client")
    assert isinstance(client, ClientGuest)
    return client


def put_large(scene: Scene) -> tuple[bytes | None, bytes]:
    """The testee stores a large argument, the worker a large result: what is in storage, and what should be."""
    if scene.role == "client":
        client = client_of(scene)
        task = scene.testee.submit("echo", b"s" * BYTES)
        (sent,) = client.wait_for_tasks(1)
        kind, identifier = sent.parts[0]
        scene.equal(kind, CODES.KIND_OBJECT, f"the kind of an argument of {BYTES} bytes", "PAY-1")
        scene.pump.until(lambda: identifier in scene.storage.values, 10.0)
        value = scene.storage.values.get(identifier)
        answer(client, Result(sent.id, value=b"done"))
        scene.testee.result(task, clause="CLI-5")
        return value, b"s" * BYTES
    argument = new_id()
    scene.storage.store(argument, b"s" * BYTES, new_id())
    called = call(scene, "reverse", parts=((CODES.KIND_OBJECT, argument),))
    (result,) = run(scene, scene.worker_under_test(), called)
    scene.equal(result.status, CODES.STATUS_SUCCESS, "the status", "WRK-2")
    return scene.storage.values.get(result.value), b"s" * BYTES


def get_large(scene: Scene, value: bytes, clause: str = "STO-23") -> bytes:
    """The testee fetches this as a result, the worker as an argument; as which value it has come there."""
    if scene.role == "client":
        client = client_of(scene)
        task = scene.testee.submit("bytes_n", b"%d" % len(value))
        (sent,) = client.wait_for_tasks(1)
        identifier = result_id(sent.id, 1)
        scene.storage.store(identifier, value, client.peer_id)
        answer(client, Result(sent.id, kind=CODES.KIND_OBJECT, value=identifier))
        return bytes.fromhex(scene.testee.result(task, clause=clause).get("value") or "")
    argument = new_id()
    scene.storage.store(argument, value, new_id())
    called, worker = call(scene, "echo", parts=((CODES.KIND_OBJECT, argument),)), scene.worker_under_test()
    worker.dispatch([called], new_id())
    (result,) = worker.wait_for_results(called, clause=clause)
    scene.equal(result.status, CODES.STATUS_SUCCESS, "the status of a task with a large argument", clause)
    return scene.storage.values.get(result.value, result.value)


@case("STO-24")
def nothing_is_shared_without_the_feature(scene: Scene) -> None:
    """The storage breaks off at a PutShared or a Get with `acceptsShared`."""
    begin(scene)
    stored, expected = put_large(scene)
    scene.check(stored == expected, "a large value is not in storage", "STO-6")
    value = bytes(range(250)) * 4_000
    scene.check(get_large(scene, value) == value, "a large value came back changed", "STO-13")


@case("STO-19", "STO-24", fresh=True)
def what_is_shared_is_sealed(scene: Scene) -> None:
    begin_sharing(scene)
    stored, expected = put_large(scene)
    scene.needs(bool(scene.storage.asked("putShared")), f"it does not share a value of {BYTES} bytes")
    scene.check(stored == expected, "the shared bytes are others than those of the value")


@case("STO-19", fresh=True)
def what_the_storage_cannot_open_is_put_in_chunks(scene: Scene) -> None:
    begin_sharing(scene)
    scene.storage.refuses_files = True
    stored, expected = put_large(scene)
    scene.needs(bool(scene.storage.asked("putShared")), f"it does not share a value of {BYTES} bytes")
    clause = "CLI-3" if scene.role == "client" else "WRK-13"
    scene.check(stored == expected, "a PutShared was answered UNREADABLE_FILE, and the value is not in storage", clause)


@contextmanager
def false_files(value: bytes) -> Iterator[dict[str, dict[str, object]]]:
    """What a storage may be mistaken about. Whoever reads one of them has other bytes."""
    other = b"!" * len(value)
    good, unsealed, short = MemoryFile(other), MemoryFile(other, seals=0), MemoryFile(other[:-1])
    try:
        yield {
            "a file of another name": good.told(name=bytes(16)),
            "a file without seals": unsealed.told(),
            "a file that is too short": short.told(),
            "a descriptor that is not open": good.told(descriptor=100_000),
            "a file of another process": good.told(processId=1),
        }
    finally:
        for file in (good, unsealed, short):
            file.close()


@case("STO-20", "STO-23", fresh=True, seconds=60.0)
def a_file_that_is_not_what_was_said_is_not_read(scene: Scene) -> None:
    begin_sharing(scene)
    value = bytes(range(250)) * 4_000
    with false_files(value) as files:
        for what, told in files.items():
            scene.transcript.note("storage", f"shares {what}")
            scene.storage.false_file = lambda _, told=told: told
            asked = len(scene.storage.requests)
            found = get_large(scene, value)
            gets = [message for _, message in scene.storage.requests[asked:] if message.kind == "get"]
            scene.needs(any(get["acceptsShared"] for get in gets), f"it does not ask for {len(value)} shared bytes")
            scene.check(found[:16] != b"!" * 16, f"{what} was read", "STO-20")
            scene.check(found == value, f"the value came in {what}, and was not fetched in another way", "STO-23")


@case("STO-23", fresh=True)
def what_is_shared_is_read(scene: Scene) -> None:
    begin_sharing(scene)
    value = bytes(range(250)) * 4_000
    scene.check(get_large(scene, value) == value, "a shared value came back changed", "STO-13")


@case("STO-27", fresh=True, seconds=60.0)
def a_directory_is_no_more_than_a_hint(scene: Scene) -> None:
    """Whoever reads another file than that of the object has other bytes."""
    scene.needs(memory_file.is_possible(), "this system has no memory files")
    directory, value = Directory(), bytes(range(250)) * 4_000
    other = b"!" * len(value)
    files: list[MemoryFile] = []

    def made(bytes_of_file: bytes, **how: Any) -> tuple[int, int]:
        files.append(MemoryFile(bytes_of_file, **how))
        return len(value), files[-1].descriptor

    entries: dict[str, Callable[[bytes], tuple[int, int]]] = {
        "a file of another name": lambda _: made(other),
        "a file without seals": lambda identifier: made(other, name=identifier, seals=0),
        "a file that is too short": lambda identifier: made(other[:-1], name=identifier),
        "a descriptor that is not open": lambda _: (len(value), 100_000),
        "a descriptor of something else": lambda _: (len(value), 0),
        "the file of the object": lambda identifier: made(value, name=identifier),
    }
    scene.storage.directory = directory
    try:
        begin_sharing(scene)
        for what, entry in entries.items():
            scene.transcript.note("storage", f"has {what} in its directory")
            scene.storage.listed = entry
            found = get_large(scene, value, "STO-27")
            scene.check(found == value, f"there was {what} in the directory, and other bytes came")
    finally:
        scene.storage.directory = scene.storage.listed = None
        for file in files:
            file.close()
        directory.close()
