"""How those who put and get objects deal with a storage that answers little, late, or is another one (chapter 12)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.scene import Scene

from .dialer_shared import begin, get_large
from .worker_running import call

case = cases_for("worker", "client")
workers = cases_for("worker")


@case("STO-13", fresh=True)
def a_value_that_comes_in_small_pieces_is_put_together(scene: Scene) -> None:
    """The storage answers each Get with less than was asked for."""
    begin(scene)
    scene.storage.piece_bytes = 90_000
    value = bytes(range(250)) * 1_600
    scene.check(get_large(scene, value, "STO-13") == value, "a value that came in pieces is not what was stored")


@workers("STO-17", "WRK-13", fresh=True, seconds=60.0)
def an_upload_begins_again_with_another_storage(scene: Scene) -> None:
    """The first chunks have come, unconfirmed, when the storage is started again."""
    worker, client = scene.worker_under_test(), new_id()
    task = call(scene, "bytes_n", b"20000000")
    identifier = result_id(task.id, 1)
    scene.storage.unanswered.add("put")
    worker.dispatch([task], client)
    asked = scene.pump.until(lambda: any(m["objectId"] == identifier for m in scene.storage.asked("put")), 15.0)
    scene.check(asked, "the value was not put", "WRK-16")
    scene.storage.begin_again()
    scene.storage.unanswered.clear()
    scene.arena.store_functions()
    (result,) = worker.wait_for_results(task, seconds=30.0, clause="STO-17")
    scene.equal(result.value, identifier, "the id of the object", "OWN-6")
    scene.equal(len(scene.storage.values.get(identifier, b"")), 20_000_000, "the size of the object")


@workers("STO-6", "STO-11", fresh=True, seconds=60.0)
def at_most_eight_chunks_are_unanswered(scene: Scene) -> None:
    worker = scene.worker_under_test()
    task = call(scene, "bytes_n", b"%d" % (90 << 20))
    scene.storage.unanswered.add("put")
    worker.dispatch([task], new_id())
    scene.pump.until(lambda: len(scene.storage.asked("put")) >= 8, 20.0)
    scene.pump.for_seconds(0.5)
    worker.fence()
    numbers = [message["requestId"] for message in scene.storage.asked("put")]
    scene.check(bool(numbers), "the value was not put", "WRK-16")
    scene.check(len(numbers) <= 8, f"{len(numbers)} chunks were sent, and none of them was answered")
    scene.equal(len(set(numbers)), len(numbers), "the count of different requestIds among open requests", "STO-11")
