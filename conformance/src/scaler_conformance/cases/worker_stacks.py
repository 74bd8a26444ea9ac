"""Where a running task is in its code, as its worker tells it (chapter 07)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

from .worker_running import call, is_success, run

case = cases_for("worker")
TEXT_BYTES = 64 * 1024


def telling_worker(scene: Scene) -> WorkerGuest:
    worker = scene.worker_under_test()
    scene.needs_feature("stacks", worker.hello)
    return worker


def reply_of(scene: Scene, worker: WorkerGuest, task_id: bytes, request: int) -> Message:
    worker.send("stackRequest", requestId=request, taskId=task_id)
    reply = worker.expect("stackReply", clause="WRK-56", seconds=10.0)
    scene.equal((reply["requestId"], reply["taskId"]), (request, task_id), "requestId and taskId", "WRK-56")
    return reply


@case("WRK-56", "WRK-57", seconds=40.0)
def where_a_running_task_is_can_be_asked(scene: Scene) -> None:
    worker = telling_worker(scene)
    run(scene, worker, call(scene, "echo", b"first"))
    for function in ("sleep_ms", "spin_ms"):
        task = call(scene, function, b"6127")
        worker.dispatch([task], new_id())
        worker.fence()
        scene.pump.for_seconds(0.5)
        reply = reply_of(scene, worker, task.id, 2**63)
        worker.fence(clause="WRK-56")
        known = (CODES.STACK_TAKEN, CODES.STACK_NO_ANSWER)
        scene.check(reply["outcome"] in known, f"the outcome is {reply['outcome']} for a task that runs", "WRK-56")
        text = reply["text"]
        scene.check(len(text.encode()) <= TEXT_BYTES, f"the text has {len(text.encode())} bytes", "WRK-57")
        scene.check("6127" not in text, "the value of an argument is in the text", "WRK-57")
        is_taken = reply["outcome"] == CODES.STACK_TAKEN
        scene.equal(bool(text), is_taken, "whether there is a text", "WRK-56")
        scene.check(reply["runningSeconds"] > 0, "runningSeconds is 0 for a task that runs", "WRK-56")
        (result,) = worker.wait_for_results(task)
        scene.equal(result.status, CODES.STATUS_SUCCESS, "the status of a task that was asked about", "WRK-56")


@case("WRK-56")
def a_task_that_does_not_run_has_no_stack(scene: Scene) -> None:
    worker = telling_worker(scene)
    task = call(scene, "echo", b"done")
    (result,) = run(scene, worker, task)
    is_success(scene, result, b"done")
    for number, task_id in enumerate((task.id, new_id())):
        reply = reply_of(scene, worker, task_id, number)
        scene.equal((reply["outcome"], reply["text"]), (CODES.STACK_NOT_RUNNING, ""), "outcome and text", "WRK-56")
