"""Values that a task has before it ends (chapter 07, streams). A worker may leave out the function that has them."""

from __future__ import annotations

import struct

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import content_id, new_id
from scaler_conformance.play.roles import error_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

from .worker_running import call, is_success

case = cases_for("worker")
STORED_SECONDS = 10.0
LATER_SECONDS = 0.3
"""In which a worker that goes on after the result stores something."""
BEGUN, VALUE, CREDIT = range(3)


def named(stream: bytes, kind: int, number: int = 0) -> bytes:
    """WRK-58, WRK-59, WRK-60."""
    return content_id(stream + struct.pack("<BQ", kind, number))


def streaming(scene: Scene) -> WorkerGuest:
    """The worker, which knows a function that streams."""
    worker = scene.worker_under_test()
    _, task = stream_of(scene, window=1, count=0)
    worker.dispatch([task], new_id())
    (result,) = worker.wait_for_results(task)
    is_known = result.status != CODES.STATUS_REFUSED or error_of(result)["code"] != CODES.FUNCTION_UNREADABLE
    scene.needs(is_known, "the function `stream_n` is optional, and this worker does not know it")
    return worker


def stream_of(scene: Scene, window: int, count: int, milliseconds: int = 0, attempt: int = 1) -> tuple[bytes, Task]:
    stream = new_id()
    numbers = (window, count, milliseconds)
    return stream, call(scene, "stream_n", stream, *(b"%d" % number for number in numbers), attempt=attempt)


def numbers_of(scene: Scene, stream: bytes, kind: int, most: int) -> list[int]:
    """Of the objects of this kind that were put, in the order in which they came."""
    numbers = {named(stream, kind, number): number for number in range(most)}
    put = [message["objectId"] for message in scene.storage.asked("put")]
    return [numbers[identifier] for identifier in put if identifier in numbers]


def allow(scene: Scene, stream: bytes, credit: int, client: bytes) -> None:
    scene.storage.store(named(stream, CREDIT, credit), b"", client)


def must_be_waiting(scene: Scene, stream: bytes, credit: int, clause: str) -> None:
    """The worker asks for this credit, so it does nothing else any more."""
    wanted = named(stream, CREDIT, credit)

    def is_asked_for() -> bool:
        return any(message["objectId"] == wanted for message in scene.storage.asked("get"))

    is_so = scene.pump.until(is_asked_for, STORED_SECONDS)
    scene.check(is_so, f"the worker has not asked for credit {credit} within {STORED_SECONDS:g} s", clause)


@case("WRK-58", "WRK-2", "WRK-31", "OWN-11")
def each_value_is_an_object_before_the_result_comes(scene: Scene) -> None:
    worker, client = streaming(scene), new_id()
    stream, task = stream_of(scene, window=100, count=40)
    worker.dispatch([task], client)
    (result,) = worker.wait_for_results(task)
    scene.equal(numbers_of(scene, stream, VALUE, 50), list(range(40)), "the numbers of the values, as they were stored")
    for number in range(40):
        identifier = named(stream, VALUE, number)
        scene.equal(scene.storage.values[identifier], b"%d" % number, f"value {number}")
        scene.equal(scene.storage.owners[identifier], {client}, f"the owners of value {number}", "OWN-11")
    is_success(scene, result, b"40")


@case("WRK-58")
def a_value_is_stored_while_the_task_runs(scene: Scene) -> None:
    worker, client = streaming(scene), new_id()
    stream, task = stream_of(scene, window=2, count=3)
    worker.dispatch([task], client)
    must_be_waiting(scene, stream, 1, "WRK-58")
    scene.equal(worker.results(), [], "results of a task that waits for a credit", "WRK-59")
    allow(scene, stream, 1, client)
    allow(scene, stream, 2, client)  # a worker may wait for room before it learns that there is no other value
    worker.wait_for_results(task)


@case("WRK-59", seconds=60.0)
def no_value_is_stored_beyond_the_window_and_its_credits(scene: Scene) -> None:
    worker, client = streaming(scene), new_id()
    for window, step in ((1, 1), (2, 1), (3, 1), (4, 2), (7, 3)):
        stream, task = stream_of(scene, window, count=window + 2 * step + 1)
        worker.dispatch([task], client)
        for credits_given in range(3):
            must_be_waiting(scene, stream, credits_given + 1, "WRK-59")
            stored = numbers_of(scene, stream, VALUE, 100)
            expected = list(range(window + credits_given * step))
            scene.equal(stored, expected, f"the values with window {window} and {credits_given} credits")
            allow(scene, stream, credits_given + 1, client)
        allow(scene, stream, 4, client)
        worker.wait_for_results(task)
        scene.equal(len(numbers_of(scene, stream, VALUE, 100)), window + 2 * step + 1, "all values", "WRK-58")


@case("WRK-60", "WRK-58")
def a_stream_that_has_begun_elsewhere_does_not_begin(scene: Scene) -> None:
    worker, client = streaming(scene), new_id()
    for attempt in (1, 2):
        stream, task = stream_of(scene, window=10, count=5, attempt=attempt)
        scene.storage.store(named(stream, BEGUN), new_id(), client)
        worker.dispatch([task], client)
        (result,) = worker.wait_for_results(task)
        scene.equal(result.status, CODES.STATUS_FAILED, "the status")
        scene.equal(error_of(result)["code"], CODES.WORKER_LOST, "the code")
        scene.equal(numbers_of(scene, stream, VALUE, 10), [], "the values")


@case("WRK-60")
def a_stream_leaves_its_mark_before_the_first_value(scene: Scene) -> None:
    worker, client = streaming(scene), new_id()
    stream, task = stream_of(scene, window=10, count=1)
    worker.dispatch([task], client)
    worker.wait_for_results(task)
    mark = named(stream, BEGUN)
    put = [message["objectId"] for message in scene.storage.asked("put")]
    scene.check(mark in put, "the object that says that the stream has begun was not stored")
    scene.check(put.index(mark) < put.index(named(stream, VALUE)), "the first value was stored before it")
    scene.equal(len(scene.storage.values[mark]), 16, "the size of this object")
    scene.equal(scene.storage.owners[mark], {client}, "its owners", "OWN-11")


@case("CAN-14", "CAN-4", seconds=40.0)
def nothing_is_stored_behind_the_result_of_a_canceled_stream(scene: Scene) -> None:
    """Also of one that waits for a credit, and then gets it."""
    worker, client = streaming(scene), new_id()
    for window, milliseconds in ((1, 0), (100_000, 5)):
        stream, task = stream_of(scene, min(window, 65_536), 50_000, milliseconds)
        worker.dispatch([task], client)
        wait_for_first(scene, worker, stream)
        worker.cancel(task)
        (result,) = worker.wait_for_results(task, clause="CAN-4")
        scene.equal(result.status, CODES.STATUS_CANCELED, "the status", "CAN-2")
        count = len(numbers_of(scene, stream, VALUE, 60_000))
        for credit in range(1, 5):
            allow(scene, stream, credit, client)
        next_task = call(scene, "echo", b"next")
        worker.dispatch([next_task], client)
        worker.wait_for_results(next_task)
        scene.pump.for_seconds(LATER_SECONDS)
        later = len(numbers_of(scene, stream, VALUE, 60_000))
        scene.equal(later, count, "the values stored some time after the result")


def wait_for_first(scene: Scene, worker: WorkerGuest, stream: bytes) -> None:
    first = named(stream, VALUE)
    is_there = scene.pump.until(lambda: first in scene.storage.values, STORED_SECONDS)
    scene.check(is_there, "the first value was not stored", "WRK-58")
    worker.fence()
