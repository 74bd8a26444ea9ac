"""Processors that die under their tasks (chapter 06)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_endings import begin
from scaler_conformance.play.roles import ClientPeer, WorkerPeer, error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

case = cases_for("scheduler")


@case("SCH-75", "SCH-5")
def a_task_outlives_as_many_processors_as_its_header_allows(scene: Scene) -> None:
    for limit in (1, 2, 4):
        client, worker, (task,) = begin(scene, lostProcessorsLimit=limit)
        worker.credit(1)
        _lose_processors(scene, client, worker, task, limit)
        worker.credit(0)
        worker.fence()


@case("SCH-75")
def three_processors_are_allowed_by_default(scene: Scene) -> None:
    client, worker, (task,) = begin(scene, lostProcessorsLimit=0)
    worker.credit(1)
    _lose_processors(scene, client, worker, task, 3)


def _lose_processors(scene: Scene, client: ClientPeer, worker: WorkerPeer, task: Task, limit: int) -> None:
    """The last of so many deaths is the end of the task."""
    for attempt in range(1, limit):
        scene.equal(task.attempt, attempt, "the attempt", "SCH-5")
        worker.finish(task, status=CODES.STATUS_PROCESSOR_DIED)
        scene.settle(worker, client)
        client.expect_nothing(f"{attempt} of {limit} processors have died", "SCH-75")
        (task,) = worker.expect_dispatch(1, "SCH-75", f"{attempt} of {limit} processors have died")
    worker.finish(task, status=CODES.STATUS_PROCESSOR_DIED)
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_PROCESSOR_DIED, clause="SCH-75")
    worker.expect_nothing("as many processors have died as may", "SCH-75")


@case("SCH-75", "SCH-15")
def a_death_within_the_limit_uses_up_no_retry(scene: Scene) -> None:
    client, worker, (task,) = begin(scene, retries=1, lostProcessorsLimit=2)
    worker.credit(1)
    ends = (
        (CODES.STATUS_PROCESSOR_DIED, "SCH-75", "one of two processors has died"),
        (CODES.STATUS_FAILED, "SCH-75", "the death before used up no retry"),
    )
    for status, clause, why in ends:
        worker.finish(task, status=status)
        scene.settle(worker, client)
        client.expect_nothing(why, clause)
        (task,) = worker.expect_dispatch(1, clause, why)
    worker.finish(task, status=CODES.STATUS_PROCESSOR_DIED)
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_PROCESSOR_DIED, clause="SCH-75")


@case("SCH-75", "CAN-6")
def what_is_being_canceled_does_not_outlive_its_processor(scene: Scene) -> None:
    client, worker, (task,) = begin(scene, lostProcessorsLimit=5)
    client.cancel(task)
    client.fence()
    worker.fence()
    worker.take("cancel")
    worker.credit(1)
    worker.finish(task, status=CODES.STATUS_PROCESSOR_DIED)
    worker.answer_cancel((task.id, CODES.CANCEL_TOO_LATE))
    scene.settle(worker, client, worker)
    client.expect_status(task, CODES.STATUS_PROCESSOR_DIED, clause="SCH-75")
    worker.expect_nothing("it was canceled", "SCH-75")


@case("SCH-40", "SCH-41")
def a_task_that_killed_its_processor_goes_to_another_worker(scene: Scene) -> None:
    client, worker, (task,) = begin(scene, retries=1)
    other = scene.worker(credit=2)
    worker.credit(2)
    worker.finish(task, status=CODES.STATUS_PROCESSOR_DIED)
    scene.settle(worker, other, client)
    worker.expect_dispatch(0, "SCH-40", "another worker has a place for it")
    (again,) = other.expect_dispatch(1, "SCH-40", "its processor died on the other worker")
    other.finish(again, status=CODES.STATUS_PROCESSOR_DIED)
    scene.settle(other, client)
    error = error_of(client.expect_status(task, CODES.STATUS_PROCESSOR_DIED, clause="SCH-15"))
    scene.equal(error["code"], CODES.PROCESSOR_DIED, "the code of the TaskError", "SCH-13")
    scene.equal(len(error["workers"]), 2, "the count of attempts that the error names", "SCH-41")
