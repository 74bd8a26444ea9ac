"""Workers that do not reach the storage (chapter 06, Ends)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.roles import error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES

case = cases_for("scheduler")

UNREACHABLE = CODES.STORAGE_UNREACHABLE
ENDS = (CODES.STATUS_REFUSED, CODES.STATUS_FAILED)


@case("SCH-43", "SCH-5")
def a_task_whose_worker_does_not_reach_the_storage_runs_elsewhere(scene: Scene) -> None:
    """Begun or not, and without any retries."""
    client, worker = scene.client(), scene.worker(credit=len(ENDS))
    client.submit(len(ENDS))
    scene.settle(client, worker)
    tasks = worker.expect_dispatch(len(ENDS), "SCH-25")
    other = scene.worker(credit=len(ENDS))
    for task, status in zip(tasks, ENDS, strict=True):
        worker.finish(task, status=status, code=UNREACHABLE)
    scene.settle(worker, other, client)
    client.expect_nothing("the tasks are not at their end")
    again = other.expect_dispatch(len(ENDS), "SCH-43", "another worker is connected")
    scene.equal({task.id for task in again}, {task.id for task in tasks}, "the tasks")
    scene.equal({task.attempt for task in again}, {2}, "their attempts", "SCH-5")
    other.finish(*again)
    scene.settle(other, client)
    for task in tasks:
        client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-43")


@case("SCH-44")
def a_worker_that_does_not_reach_the_storage_rests(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=4)
    other = scene.worker(credit=4)
    client.submit(8)
    scene.settle(client, worker, other)
    tasks = worker.expect_dispatch(4, "SCH-25")
    others = other.expect_dispatch(4, "SCH-25")
    worker.finish(tasks[0], status=CODES.STATUS_REFUSED, code=UNREACHABLE)
    worker.finish(*tasks[1:])
    other.finish(*others[:1])
    scene.settle(worker, other, client)
    (again,) = other.expect_dispatch(1, "SCH-44", "it is the only worker that reaches the storage")
    scene.equal(again.id, tasks[0].id, "the task")
    client.submit(3)
    scene.settle(client, worker, other)
    worker.expect_dispatch(0, "SCH-44", "it does not reach the storage, and another worker takes tasks")


@case("SCH-43", "SCH-13")
def a_task_that_no_worker_can_fetch_ends_with_the_reason(scene: Scene) -> None:
    """With one worker too: if the storage is gone for all, no task waits for ever."""
    client, worker = scene.client(), scene.worker(credit=1)
    (task,) = client.submit(1)
    for attempt in range(1, 100):
        scene.settle(client, worker)
        given = worker.dispatched("SCH-43")
        if not given:
            break
        scene.equal((given[0].id, given[0].attempt), (task.id, attempt), "task and attempt", "SCH-5")
        worker.finish(given[0], status=CODES.STATUS_REFUSED, code=UNREACHABLE)
    scene.settle(worker, client)
    row = client.expect_status(task, CODES.STATUS_REFUSED, clause="SCH-43")
    scene.equal(error_of(row)["code"], UNREACHABLE, "the code of the TaskError", "SCH-13")


@case("SCH-43", "CAN-6")
def a_canceled_task_is_not_run_elsewhere(scene: Scene) -> None:
    client, worker = scene.client(), scene.worker(credit=1)
    (task,) = client.submit(1)
    scene.settle(client, worker)
    (given,) = worker.expect_dispatch(1, "SCH-25")
    other = scene.worker(credit=1)
    client.cancel(task)
    scene.settle(client, worker)
    worker.take("cancel")
    worker.finish(given, status=CODES.STATUS_REFUSED, code=UNREACHABLE)
    scene.settle(worker, other, client)
    other.expect_dispatch(0, "SCH-43", "the task was being canceled")
    client.expect_status(task, CODES.STATUS_REFUSED, clause="CAN-6")
