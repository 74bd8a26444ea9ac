"""What a worker does that bounds and replaces its processors (chapter 07)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import error_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

from .worker_running import call, is_success, run

case = cases_for("worker", layer="timing")
BOUND_BYTES = 256 << 20
"""The variant `limited` has processors of 256 MiB, and replaces each of them after five tasks."""


@case("WRK-46", variant="limited", seconds=60.0)
def a_task_with_too_much_memory_is_ended(scene: Scene) -> None:
    worker = scene.worker_under_test()
    task = call(scene, "hold_mib", b"600", b"20000", attempt=3)
    worker.dispatch([task], new_id())
    (result,) = worker.wait_for_results(task, seconds=15.0, clause="WRK-46")
    scene.equal(result.status, CODES.STATUS_TIMED_OUT, "the status")
    scene.equal(result.attempt, 3, "the attempt")
    error = error_of(result)
    scene.equal(error["code"], CODES.MEMORY_LIMIT, "the code of its TaskError")
    scene.equal(error["memoryLimitBytes"], BOUND_BYTES, "the bound in it")
    scene.check(
        error["peakMemoryBytes"] >= BOUND_BYTES, f"its memory was {error['peakMemoryBytes']} bytes, which is allowed"
    )
    (after,) = run(scene, worker, call(scene, "hold_mib", b"50", b"0"))
    is_success(scene, after, b"%d" % (50 << 20), "WRK-46")


@case("WRK-45", "WRK-12", variant="limited", seconds=60.0)
def replaced_processors_are_counted(scene: Scene) -> None:
    worker = scene.worker_under_test()
    before = _recycled_count(worker)
    tasks = [call(scene, "echo", b"%d" % number) for number in range(12)]
    for number, result in enumerate(run(scene, worker, *tasks)):
        is_success(scene, result, b"%d" % number)
    is_told = scene.pump.until(lambda: _recycled_count(worker) >= before + 2, 10.0)
    scene.check(is_told, f"twelve tasks have run, and {_recycled_count(worker) - before} replaced processors were told")


def _recycled_count(worker: WorkerGuest) -> int:
    told = [message["recycledCount"] for message in worker.history if message.kind == "workerStatus"]
    return max(told, default=0)
