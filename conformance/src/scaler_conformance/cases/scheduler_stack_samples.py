"""Where the time of tasks goes, for monitors that may see it and for those that may not (chapter 14)."""

from __future__ import annotations

import struct

from scaler_conformance.case import cases_for
from scaler_conformance.play.monitor import MonitorPeer
from scaler_conformance.play.roles import WorkerPeer
from scaler_conformance.scene import Scene

case = cases_for("scheduler")
#: About once a second a scheduler looks which topics are watched.
SECONDS = 10.0
TRUSTING = "trusting"
"""Its operator lets monitors see texts of programs."""
WORKERS = 20


def able_worker(scene: Scene) -> WorkerPeer:
    worker = scene.worker(credit=1, features=["stack-samples"])
    scene.needs(
        "stack-samples" in worker.welcome["features"],
        "the feature `stack-samples` is optional, and it does not name it",
    )
    return worker


@case("MON-47", "MON-18", seconds=40.0)
def no_stacks_are_sampled_unless_the_operator_lets_monitors_see_them(scene: Scene) -> None:
    worker = able_worker(scene)
    worker.fence()
    watching = scene.monitor("stacks")
    scene.pump.until(lambda: len(watching.of("stacks")) >= 2, SECONDS)
    published = watching.of("stacks")
    scene.check(bool(published), f"nothing was published under `stacks` within {SECONDS:g} s", "MON-18")
    for message in published:
        scene.equal((message["isHidden"], message["blocks"]), (True, []), "isHidden and blocks")
    worker.fence()
    worker.expect_nothing("monitors may not see texts", "MON-47")


# ---------------------------------------------------------------- where monitors see texts


def tree_of(size: int, function: bytes = b"f" * 16) -> bytes:
    """A tree of one call, of just so many bytes: frames that the call does not name fill it."""
    room = size - 24 - 8
    frames = [100] * ((room - 100) // 100)
    frames.append(room - sum(frames))
    body = b"".join(struct.pack("<IBB", 1, length - 6, 0) + b"x" * (length - 6) for length in frames)
    made = struct.pack("<16sIHH", function, len(body) + 8, len(frames), 1) + body + struct.pack("<HHI", 0, 0, 5)
    assert len(made) == size
    return made


def asked(worker: WorkerPeer) -> int:
    """Waits until the worker is asked to sample; how many bytes it may tell."""
    request = worker.expect("sampleStacks", clause="MON-45", seconds=SECONDS)
    return int(request["byteLimit"])


def told(worker: WorkerPeer, *trees: bytes) -> None:
    for each in trees:
        worker.send("workerStatus", stackSamples=each)
    worker.fence()


def published(scene: Scene, watching: MonitorPeer, last: bytes) -> list[tuple[str, bytes]]:
    """Names of workers and trees of all blocks, up to the one that is the last."""

    def found() -> list[tuple[str, bytes]]:
        blocks = [block for message in watching.of("stacks") for block in message["blocks"]]
        return [(block["name"], bytes(block["stackSamples"])) for block in blocks]

    scene.pump.until(lambda: last in [trees for _, trees in found()], SECONDS)
    return found()


@case("MON-45", seconds=60.0, variant=TRUSTING)
def able_workers_are_asked_while_a_monitor_watches(scene: Scene) -> None:
    able, plain = able_worker(scene), scene.worker(credit=1)
    other = scene.monitor("status")
    scene.pump.until(lambda: len(other.of("status")) >= 3, SECONDS)
    scene.settle(able, plain)
    able.expect_nothing("no monitor watches `stacks`", "MON-45")
    watching = scene.monitor("stacks")
    request = able.expect("sampleStacks", clause="MON-45", seconds=SECONDS)
    scene.check(0 < request["seconds"] <= 60, f"seconds is {request['seconds']}, and at most 60", "MON-45")
    watching.leave()
    last = able.expect("sampleStacks", clause="MON-45", seconds=SECONDS)
    if last["seconds"]:  # it was sent again before the monitor left
        last = able.expect("sampleStacks", clause="MON-45", seconds=SECONDS)
    scene.equal(last["seconds"], 0.0, "seconds, when no monitor watches any more", "MON-45")
    plain.fence()
    plain.expect_nothing("its session does not have the feature", "MON-45")


@case("MON-46", "MON-45", seconds=40.0, variant=TRUSTING)
def each_status_with_samples_is_a_block(scene: Scene) -> None:
    worker, watching = able_worker(scene), scene.monitor("stacks")
    asked(worker)
    trees = [tree_of(300 + number) for number in range(3)]
    told(worker, *trees)
    blocks = published(scene, watching, trees[-1])
    scene.equal(blocks, [(worker.name, each) for each in trees], "names and trees of the blocks", "MON-46")


@case("MON-48", seconds=40.0, variant=TRUSTING)
def samples_that_were_not_asked_for_are_not_published(scene: Scene) -> None:
    worker = able_worker(scene)
    plain, unasked, last = scene.worker(credit=1), tree_of(300), tree_of(301)
    told(worker, unasked)
    watching = scene.monitor("stacks")
    asked(worker)
    told(plain, unasked)
    told(worker, last)
    scene.equal(published(scene, watching, last), [(worker.name, last)], "names and trees of the blocks", "MON-48")


@case("MON-48", seconds=40.0, variant=TRUSTING)
def samples_that_are_damaged_are_not_published(scene: Scene) -> None:
    worker, watching = able_worker(scene), scene.monitor("stacks")
    asked(worker)
    whole, last = tree_of(300), tree_of(301)
    too_many = whole[:20] + b"\xff\xff" + whole[22:]
    told(worker, whole[:-1], whole[:23], whole + whole[:100], too_many, b"no trees", last)
    scene.equal(published(scene, watching, last), [(worker.name, last)], "names and trees of the blocks", "MON-48")


@case("MON-48", seconds=40.0, variant=TRUSTING)
def samples_are_as_long_as_the_worker_may_tell_and_no_longer(scene: Scene) -> None:
    """Very many workers may be allowed less each."""
    workers = [able_worker(scene) for _ in range(WORKERS)]
    scene.settle(*workers)
    watching = scene.monitor("stacks")
    limits = {worker.name: asked(worker) for worker in workers}
    for worker in workers:
        told(worker, tree_of(limits[worker.name] + 1), tree_of(limits[worker.name]))
    last = tree_of(300)
    told(workers[-1], last)
    for name, trees in published(scene, watching, last):
        told_more = f"{len(trees)} bytes of {name} were published, which may tell {limits[name]}"
        scene.check(len(trees) <= limits[name], told_more, "MON-48")
