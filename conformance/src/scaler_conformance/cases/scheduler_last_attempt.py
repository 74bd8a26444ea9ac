"""Numbers that peers choose, at the end of their fields: a task's last attempt (SCH-95), a manager's workers (FRM-21).

A worker may present any attempt, so a scheduler meets the last one without a task that was tried so often.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

from .scheduler_managers import tell
from .scheduler_presenting import Past

case = cases_for("scheduler")

LAST = 65_535
U32 = 2**32 - 1
RECOVERED_SECONDS = 20.0
"""A scheduler that follows on another waits for the workers of that one first. (SCH-65)"""


def adopted(scene: Scene) -> tuple[Past, WorkerPeer, ClientPeer, Task]:
    """A task that a worker has presented in its last attempt, and its client has submitted."""
    past = Past(scene)
    worker, client = past.worker(), past.client()
    (task,) = client.new_tasks(1)
    held = replace(task, attempt=LAST)
    past.holds(worker, held)
    worker.fence()
    worker.take("delivered")
    client.submit([task])
    client.fence()
    return past, worker, client, held


@case("SCH-95", "SCH-43", "SCH-83", fresh=True, seconds=40.0)
def a_task_that_would_run_again_in_its_last_attempt_ends(scene: Scene) -> None:
    for code in (CODES.STORAGE_UNREACHABLE, CODES.OWNER_GONE):
        _, worker, client, held = adopted(scene)
        worker.finish(held, status=CODES.STATUS_FAILED, code=code)
        scene.settle(worker, client, worker)
        scene.equal(worker.dispatched("SCH-95"), [], "what the worker is given after the last attempt", "SCH-95")
        (result,) = client.results()
        told = (result.id, result.status, result.attempt)
        scene.equal(told, (held.id, CODES.STATUS_FAILED, LAST), "the result of the last attempt", "SCH-95")
        worker.leave()


@case("SCH-95", "SCH-7", fresh=True, seconds=40.0)
def a_task_whose_worker_is_lost_in_its_last_attempt_ends(scene: Scene) -> None:
    _, worker, client, held = adopted(scene)
    worker.leave()
    scene.settle(client)
    client.expect_status(held, CODES.STATUS_WORKER_LOST, clause="SCH-95")


@case("SCH-95", "SCH-8", fresh=True, seconds=40.0)
def a_task_that_is_taken_over_in_its_last_attempt_has_it_again(scene: Scene) -> None:
    past, worker, _, held = adopted(scene)
    other = past.client()
    other.submit([replace(held, attempt=1)])
    scene.settle(other, worker)
    worker.finish(held, status=CODES.STATUS_CANCELED)
    scene.pump.until(lambda: any(message.kind == "dispatch" for message in worker.inbox), RECOVERED_SECONDS)
    (again,) = worker.expect_dispatch(1, "SCH-95")
    scene.equal((again.id, again.attempt), (held.id, LAST), "the task and its attempt", "SCH-95")
    worker.finish(again)
    scene.settle(worker, other)
    (result,) = other.results()
    scene.equal((result.id, result.status), (held.id, CODES.STATUS_SUCCESS), "the end of the task", "SCH-95")


@case("FRM-21", fresh=True, seconds=40.0)
def workers_that_are_more_than_a_count_has_room_for(scene: Scene) -> None:
    manager, client = scene.peer("manager", is_open=False), scene.client()
    manager.open(manager={"managerId": new_id(), "workersPerUnit": U32})
    tell(manager, U32, ("u1", 1), ("u2", 1), ("u3", 1))
    (task,) = client.submit(1)
    client.send("explain", requestId=1, taskId=task.id)
    scene.settle(manager, client)
    (answer,) = client.take("explanation")
    scene.equal(answer["startingCount"], U32, "startingCount of the Explanation", "FRM-21")
