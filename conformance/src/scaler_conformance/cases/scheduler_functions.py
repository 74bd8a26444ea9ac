"""What monitors are told of functions: how many tasks of each there are, and how long they ran (chapter 14)."""

from __future__ import annotations

import struct
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_watching import counts_of, snapshot
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("scheduler")
ENDED = {"successCount": "success", "failedCount": "failed", "canceledCount": "canceled",
         "workerLostCount": "worker_lost", "refusedCount": "refused"}  # fmt: skip


def entry_of(status: Message, function: bytes) -> dict[str, Any]:
    """Empty if there is none."""
    return next((one for one in status["functions"] if one["functionId"] == function), {})


def buckets_of(entry: dict[str, Any]) -> dict[int, int]:
    return by_bucket(entry["buckets"], entry["bucketCounts"])


def by_bucket(buckets: bytes, counts: bytes) -> dict[int, int]:
    return dict(zip(buckets, struct.unpack(f"<{len(buckets)}Q", counts), strict=True))


def adds_up(scene: Scene, status: Message) -> None:
    counts, entries = counts_of(status), status["functions"]
    for field, name in ENDED.items():
        scene.equal(sum(one[field] for one in entries), counts[name], f"the sum of {field}", "MON-38")
    dispatched = counts["dispatched"] + counts["canceling"]
    scene.equal(sum(one["dispatchedCount"] for one in entries), dispatched, "the sum of dispatchedCount", "MON-38")
    total = sum(one["submittedCount"] for one in entries)
    scene.equal(total, sum(counts.values()), "the sum of submittedCount", "MON-38")


@case("MON-38", "MON-40", seconds=40.0)
def each_task_is_counted_with_its_function(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=4), scene.client()
    earlier, first, second = new_id(), new_id(), new_id()
    adds_up(scene, snapshot(watcher))
    client.submit(client.new_tasks(1, function=earlier))
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1))
    tasks = [*client.submit(client.new_tasks(1, function=first)), *client.submit(client.new_tasks(5, function=first))]
    scene.settle(client, worker)
    held = worker.expect_dispatch(4)
    (last,) = client.submit(client.new_tasks(1, function=second))
    client.fence()
    adds_up(scene, snapshot(watcher))
    client.cancel(tasks[5])
    client.cancel(last)
    client.fence()  # else a worker's place that becomes free is theirs
    worker.finish(held[0])
    worker.finish(held[1], status=CODES.STATUS_FAILED)
    scene.settle(client, worker)
    status = snapshot(watcher)
    adds_up(scene, status)
    one = entry_of(status, first)
    scene.needs(bool(one), "a scheduler may count a function with the others")
    found = [
        one[name] for name in ("submittedCount", "dispatchedCount", "successCount", "failedCount", "canceledCount")
    ]
    scene.equal(found, [6, 3, 1, 1, 1], "submitted, dispatched, success, failed, canceled of a function")
    ids = [entry["functionId"] for entry in status["functions"]]
    scene.equal(len(ids), len(set(ids)), "the number of functions that are listed", "MON-40")
    for other in {earlier, second}.intersection(ids):
        scene.check(ids.index(first) < ids.index(other), "a function without unfinished tasks stands first", "MON-40")
    scene.check(b"" not in ids[:-1], "what is counted together does not stand last", "MON-40")


@case("MON-39", "MON-40", seconds=40.0)
def what_workers_tell_of_runs_is_added_up(scene: Scene) -> None:
    watcher, client = scene.peer("monitor"), scene.client()
    workers = [scene.worker(credit=1), scene.worker(credit=1)]
    function, unknown = new_id(), new_id()
    client.submit(client.new_tasks(2, function=function))
    scene.settle(client, *workers)
    scene.needs(bool(entry_of(snapshot(watcher), function)), "a scheduler may count a function with the others")
    before = entry_of(snapshot(watcher), b"")
    buckets = struct.pack("<HHI", 0, 0, 2) + struct.pack("<HHI", 0, 13, 3) + struct.pack("<HHI", 1, 60, 1)
    rows = struct.pack("<16sQQ", function, 2_500_000, 1_500_000) + struct.pack("<16sQQ", unknown, 1_000_000, 0)
    for worker in workers:
        worker.send("workerStatus", functions=rows, functionBuckets=buckets)
        worker.fence()
    status = snapshot(watcher)
    told = [entry["status"]["functions"] for entry in status["workers"]]
    scene.equal(b"".join(told), b"", "what a WorkerEntry tells of functions")
    one, others = entry_of(status, function), entry_of(status, b"")
    scene.equal((one["runSeconds"], one["cpuSeconds"]), (5.0, 3.0), "runSeconds and cpuSeconds of two workers")
    scene.equal(buckets_of(one), {0: 4, 13: 6}, "the buckets of two workers")
    scene.check(bool(others), "runs of a function that was not submitted are not counted with the others", "MON-40")
    more = others["runSeconds"] - (before["runSeconds"] if before else 0.0)
    scene.equal(more, 2.0, "runSeconds of the others")
    workers[0].leave()
    scene.settle(client, workers[1])
    scene.equal(buckets_of(entry_of(snapshot(watcher), function)), {0: 4, 13: 6}, "the buckets when a worker has gone")


@case("MON-41", seconds=40.0)
def times_grow_with_the_tasks_that_wait(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()
    function = new_id()
    client.submit(client.new_tasks(1, function=function))
    client.submit(client.new_tasks(3, function=function))
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    before = snapshot(watcher)
    one = entry_of(before, function)
    scene.needs(bool(one), "a scheduler may count a function with the others")
    scene.pump.for_seconds(0.5)
    after = snapshot(watcher)
    seconds = after["uptimeSeconds"] - before["uptimeSeconds"]
    other = entry_of(after, function)
    queued = other["queuedSeconds"] - one["queuedSeconds"]
    dispatched = other["dispatchedSeconds"] - one["dispatchedSeconds"]
    # Both messages are of moments that are a little before and after those that they tell.
    scene.check(abs(queued - 3 * seconds) < 1.0 + 0.2 * seconds, f"queuedSeconds rose by {queued:g} in {seconds:g} s")
    scene.check(dispatched > 0.3, f"dispatchedSeconds rose by {dispatched:g} in {seconds:g} s")
    worker.finish(held)
    scene.settle(client, worker)
    last = entry_of(snapshot(watcher), function)
    scene.check(last["dispatchedSeconds"] >= other["dispatchedSeconds"], "dispatchedSeconds has fallen")
    scene.check(last["queuedSeconds"] >= other["queuedSeconds"], "queuedSeconds has fallen")
    scene.check(one["queuedSeconds"] < 60.0, f"queuedSeconds is {one['queuedSeconds']:g} of tasks that have just come")


@case("MON-60", seconds=40.0)
def the_times_until_tasks_are_dispatched_are_counted(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=3), scene.client()

    def told() -> tuple[int, int, float]:
        """All, those of more than 0.41 s, and their sum."""
        status = snapshot(watcher)
        counts = by_bucket(status["queuedBuckets"], status["queuedBucketCounts"])
        return sum(counts.values()), sum(counts[one] for one in counts if one > 24), status["queuedSeconds"]

    before = told()
    client.submit(4)
    scene.settle(client, worker)
    held = worker.expect_dispatch(3)
    early = told()
    scene.equal(early[0] - before[0], 3, "times that were counted when three tasks were dispatched")
    scene.check(early[2] - before[2] < 120.0, f"three tasks were queued for {early[2] - before[2]:.1f} s together")
    scene.pump.for_seconds(0.5)
    worker.finish(held[0])
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    late = told()
    scene.equal(late[0] - early[0], 1, "times that were counted when the fourth was dispatched")
    scene.equal(late[1] - early[1], 1, "of these, longer ones: it was queued for half a second")
    scene.check(late[2] - early[2] >= 0.5, f"the fourth was queued for {late[2] - early[2]:.3f} s")
