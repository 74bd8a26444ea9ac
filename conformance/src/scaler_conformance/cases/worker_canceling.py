"""What a worker says of tasks that were to end early (chapter 09), beside what `worker_running` asks of a Cancel."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import outcomes_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

from .worker_running import call, run, warm

case = cases_for("worker")
ANSWER_SECONDS = 10.0
BEGUN_SECONDS = 0.2
#: For what is only seen of a task that has begun.
TRIES = 3


def begun(scene: Scene, worker: WorkerGuest, milliseconds: bytes) -> Task:
    """A task that yields to nothing. It runs, unless the machine is very busy: another one has just ended there."""
    run(scene, worker, call(scene, "echo", b"first"))
    task = call(scene, "spin_ms", milliseconds)
    worker.dispatch([task], new_id())
    worker.fence()
    scene.pump.for_seconds(BEGUN_SECONDS)
    return task


def outcomes(scene: Scene, worker: WorkerGuest, task: Task, count: int) -> list[int]:
    """Of so many Cancels that named this task, waited for."""
    found: list[int] = []

    def all_answered() -> bool:
        pairs = [pair for message in worker.take("cancelReply") for pair in outcomes_of(message)]
        found.extend(outcome for name, outcome in pairs if name == task.id)
        return len(found) >= count

    scene.pump.until(all_answered, ANSWER_SECONDS)
    worker.fence()
    all_answered()
    scene.equal(len(found), count, f"the count of answers to {count} Cancels of one task", "CAN-1")
    return found


@case("CAN-1", seconds=40.0)
def every_cancel_of_a_running_task_is_answered(scene: Scene) -> None:
    """It does not yield, so it still runs when the second Cancel comes."""
    worker = scene.worker_under_test()
    task = begun(scene, worker, b"15000")
    worker.cancel(task, grace=0.5)
    worker.cancel(task, grace=0.5)
    (result,) = worker.wait_for_results(task, seconds=15.0, clause="CAN-4")
    scene.equal(result.status, CODES.STATUS_CANCELED, "the status", "CAN-2")
    first, _ = outcomes(scene, worker, task, 2)
    scene.equal(first, CODES.CANCEL_CANCELED, "the first outcome")


@case("CAN-1", "CAN-2", "CAN-4", seconds=40.0)
def what_ends_by_itself_within_the_grace_was_not_canceled(scene: Scene) -> None:
    worker = scene.worker_under_test()
    for _ in range(TRIES):
        task = begun(scene, worker, b"700")
        worker.cancel(task, grace=15.0)
        (result,) = worker.wait_for_results(task, seconds=20.0)
        (told,) = outcomes(scene, worker, task, 1)
        if result.status != CODES.STATUS_CANCELED:
            break
    else:
        scene.fail("a task that yields to nothing, and had less to do than its grace, was killed before that", "CAN-4")
    scene.equal(result.status, CODES.STATUS_SUCCESS, "the status", "WRK-2")
    scene.check(told != CODES.CANCEL_CANCELED, "it was answered CANCELED, and its result is a SUCCESS", "CAN-2")
    scene.equal(told, CODES.CANCEL_TOO_LATE, "the outcome of a task that has ended in another way", "CAN-1")


@case("CAN-9", "CAN-1", "LIV-4", seconds=40.0)
def a_cancel_is_answered_while_another_task_runs(scene: Scene) -> None:
    worker = scene.worker_under_test()
    running, stranger = call(scene, "sleep_ms", b"1000"), call(scene, "echo")
    worker.dispatch([running], new_id())
    worker.fence()
    worker.cancel(stranger)
    worker.fence()
    told = worker.cancel_outcomes()
    scene.equal(set(told), {stranger.id}, "the tasks of a Cancel that were answered before the next Pong", "CAN-1")
    scene.equal(told[stranger.id], CODES.CANCEL_UNKNOWN, "the outcome")
    worker.wait_for_results(running)


@case("WRK-8", "CAN-4", "WRK-2", seconds=40.0)
def who_is_killed_takes_no_other_task_along(scene: Scene) -> None:
    """A task that yields to nothing is canceled without any grace; what was to follow it is run all the same."""
    worker = scene.worker_under_test()
    count = max(1, min(8, warm(scene, worker, "spin_ms", b"0") - 1))
    first, *others = [call(scene, "spin_ms", each) for each in (b"20000", *[b"0"] * count)]
    worker.dispatch([first, *others], new_id())
    worker.cancel(first, grace=0.0)
    ended = worker.wait_for_results(first, *others, seconds=20.0, clause="WRK-8")
    scene.equal(ended[0].status, CODES.STATUS_CANCELED, "the status of the canceled task", "CAN-2")
    for result in ended[1:]:
        scene.equal(result.status, CODES.STATUS_SUCCESS, "the status of a task that stood behind it")
