"""Where the time of tasks goes, as their worker tells it (chapter 07)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

from .worker_running import call

case = cases_for("worker")
BYTES = 32 * 1024
#: With a heartbeat between.
LATE_SECONDS = 8.0

Tree = tuple[bytes, list[tuple[str, str]], int]
"""Function, names and files of its frames, microseconds."""


def telling_worker(scene: Scene) -> WorkerGuest:
    worker = scene.worker_under_test()
    scene.needs_feature("stack-samples", worker.hello)
    return worker


def busy(scene: Scene, worker: WorkerGuest, milliseconds: int) -> Task:
    task = call(scene, "spin_ms", b"%d" % milliseconds)
    worker.dispatch([task], new_id())
    worker.fence()
    return task


def statuses(worker: WorkerGuest, since: int) -> list[bytes]:
    return [message["stackSamples"] for message in worker.history[since:] if message.kind == "workerStatus"]


def told(worker: WorkerGuest, since: int) -> list[bytes]:
    return [samples for samples in statuses(worker, since) if samples]


def tells_nothing(scene: Scene, worker: WorkerGuest, since: int, what: str) -> None:
    scene.pump.until(lambda: len(statuses(worker, since)) >= 2, 15.0)
    scene.equal(told(worker, since), [], f"stackSamples of a worker {what}", "WRK-62")


def trees(scene: Scene, data: bytes) -> Iterator[Tree]:
    at = 0
    while at < len(data):
        scene.check(len(data) - at >= 24, "a tree of stackSamples has no head", "WRK-61")
        function, size, frame_count, node_count = struct.unpack_from("<16sIHH", data, at)
        at += 24
        scene.check(at + size <= len(data), "a tree of stackSamples is longer than stackSamples", "WRK-61")
        end, frames = at + size, []
        for _ in range(frame_count):
            _, name_bytes, file_bytes = struct.unpack_from("<IBB", data, at)
            at += 6
            name, file = data[at : at + name_bytes], data[at + name_bytes : at + name_bytes + file_bytes]
            frames.append((name.decode(), file.decode()))
            at += name_bytes + file_bytes
        scene.equal(end - at, 8 * node_count, "the bytes of the nodes of a tree", "WRK-61")
        nodes = list(struct.iter_unpack("<HHI", data[at:end]))
        for number, (parent, frame, _) in enumerate(nodes):
            scene.check(
                parent <= number and frame < frame_count, "a node names what comes later, or is not there", "WRK-61"
            )
        yield function, frames, sum(microseconds for _, _, microseconds in nodes)
        at = end


def stop(scene: Scene, worker: WorkerGuest) -> None:
    worker.send("sampleStacks", byteLimit=BYTES)
    worker.fence()
    tells_nothing(scene, worker, len(worker.history), "that is asked no more")


@case("WRK-61", "WRK-62", "WRK-63", fresh=True, seconds=90.0)
def the_time_of_running_tasks_is_told_while_it_is_wanted(scene: Scene) -> None:
    worker = telling_worker(scene)
    task = busy(scene, worker, 16_127)
    tells_nothing(scene, worker, 0, "that was not asked")
    worker.send("sampleStacks", seconds=60.0, byteLimit=BYTES)
    scene.pump.until(lambda: len(told(worker, 0)) >= 2, 20.0)
    samples = told(worker, 0)
    scene.check(bool(samples), "a task ran for seconds, and no stackSamples came", "WRK-61")
    for data in samples:
        scene.check(len(data) <= BYTES, f"stackSamples of {len(data)} bytes", "WRK-61")
        for function, frames, microseconds in trees(scene, data):
            scene.equal(function, task.function, "the function of a tree", "WRK-61")
            scene.check(0 < microseconds < 60_000_000, f"{microseconds} microseconds", "WRK-61")
            for name, file in frames:
                scene.check("/" not in file and "16127" not in name, f"a frame is {name} in {file}", "WRK-63")
    stop(scene, worker)
    worker.wait_for_results(task, seconds=30.0)


@case("WRK-61", fresh=True, seconds=60.0)
def no_more_bytes_are_told_than_are_wanted(scene: Scene) -> None:
    worker = telling_worker(scene)
    task = busy(scene, worker, 8_000)
    worker.send("sampleStacks", seconds=60.0, byteLimit=40)
    scene.pump.for_seconds(4.0)
    sizes = [len(data) for data in told(worker, 0)]
    scene.check(max(sizes, default=0) <= 40, f"stackSamples of {sizes} bytes, where 40 may be", "WRK-61")
    stop(scene, worker)
    worker.wait_for_results(task, seconds=30.0)


@case("WRK-62", fresh=True, seconds=90.0)
def a_worker_stops_when_the_time_is_over(scene: Scene) -> None:
    worker = telling_worker(scene)
    task = busy(scene, worker, 16_000)
    worker.send("sampleStacks", seconds=1.0, byteLimit=BYTES)
    worker.fence()
    scene.pump.for_seconds(1.0 + LATE_SECONDS)
    tells_nothing(scene, worker, len(worker.history), "whose time is over")
    (result,) = worker.wait_for_results(task, seconds=30.0)
    scene.equal(result.status, CODES.STATUS_SUCCESS, "the status of a task that was sampled", "WRK-61")
