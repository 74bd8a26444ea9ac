"""What a worker does when time passes, or when its session goes (chapters 07, 09 and 13)."""

from __future__ import annotations

import struct

from scaler_conformance.case import cases_for
from scaler_conformance.play.clock import Stopwatch
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import error_of, ids_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Result, Task
from scaler_conformance.wire.codes import STATUSES

from .worker_running import call, is_success, run

case = cases_for("worker", layer="timing")
SAMPLE_BYTES = 56


@case("WRK-14", "WRK-2", seconds=40.0)
def a_task_that_runs_too_long_is_ended(scene: Scene) -> None:
    worker = scene.worker_under_test()
    for function in ("sleep_ms", "spin_ms"):
        watch = scene.stopwatch()
        task = call(scene, function, b"15000", attempt=5)
        worker.dispatch([task], new_id(), timeoutSeconds=0.5)
        (result,) = worker.wait_for_results(task, seconds=12.0, clause="WRK-14")
        watch.not_before(0.5, "the task was ended", "WRK-14")
        scene.equal(result.status, CODES.STATUS_TIMED_OUT, "the status")
        scene.equal(error_of(result)["code"], CODES.TASK_TIMED_OUT, "the code of its TaskError")
        watch.not_after(6.0, "a task with a timeout of 0.5 s ended")
    (after,) = run(scene, worker, call(scene, "echo", b"next"))
    is_success(scene, after, b"next", "WRK-8")


@case("CAN-4", "CAN-2", seconds=40.0)
def who_does_not_yield_is_killed_after_the_grace(scene: Scene) -> None:
    worker = scene.worker_under_test()
    watch = _canceled_while_it_runs(scene, worker, call(scene, "spin_ms", b"15000"), grace=0.5, seconds=12.0)
    watch.not_after(6.0, "a task that does not yield, and has a grace of 0.5 s, ended")


@case("CAN-4", seconds=40.0)
def who_yields_is_interrupted_long_before_its_grace(scene: Scene) -> None:
    worker = scene.worker_under_test()
    run(scene, worker, call(scene, "echo", b"first"))
    watch = _canceled_while_it_runs(scene, worker, call(scene, "sleep_ms", b"25000"), grace=14.0, seconds=20.0)
    took = f"a task that only sleeps ended {watch.seconds:.1f} s after its Cancel, whose grace was 14 s"
    scene.check(watch.seconds < 12.0, f"{took}: it was not interrupted")


def _canceled_while_it_runs(
    scene: Scene, worker: WorkerGuest, task: Task, *, grace: float, seconds: float
) -> Stopwatch:
    """Begun with the Cancel; its Result is there."""
    worker.dispatch([task], new_id())
    worker.fence()
    scene.pump.for_seconds(0.3)
    watch = scene.stopwatch()
    worker.cancel(task, grace=grace)
    (result,) = worker.wait_for_results(task, seconds=seconds, clause="CAN-4")
    scene.equal(result.status, CODES.STATUS_CANCELED, "the status")
    return watch


@case("CAN-2", "WRK-14", "CAN-1", seconds=40.0)
def result_and_outcome_agree_when_a_task_runs_too_long_and_is_canceled(scene: Scene) -> None:
    """It yields to nothing, so it is told to end for the one reason and then for the other."""
    worker = scene.worker_under_test()
    task = call(scene, "spin_ms", b"15000")
    worker.dispatch([task], new_id(), timeoutSeconds=0.5)
    worker.fence()
    scene.pump.for_seconds(0.8)
    worker.cancel(task, grace=5.0)
    (result,) = worker.wait_for_results(task, seconds=15.0, clause="WRK-14")
    told: dict[bytes, int] = {}

    def is_answered() -> bool:
        told.update(worker.cancel_outcomes())
        return task.id in told

    scene.check(scene.pump.until(is_answered, 5.0), "the Cancel of a task that ran too long was not answered", "CAN-1")
    status = STATUSES.get(result.status, str(result.status))
    is_canceled = told[task.id] == CODES.CANCEL_CANCELED
    scene.equal(is_canceled, status == "CANCELED", f"whether the Cancel was answered CANCELED, with a result {status},")


@case("WRK-3", seconds=60.0)
def what_is_not_there_yet_is_waited_for(scene: Scene) -> None:
    """A function and an argument that come two seconds after the task."""
    worker = scene.worker_under_test()
    late = new_id()
    task = call(scene, "echo", parts=((CODES.KIND_OBJECT, late),))
    worker.dispatch([task], new_id())
    scene.pump.for_seconds(28.0 if scene.settings.is_full else 2.0)
    scene.equal(worker.results(), [], "results before the argument was there")
    scene.storage.store(late, b"late", new_id())
    (result,) = worker.wait_for_results(task)
    is_success(scene, result, b"late")


@case("WRK-12", "LIV-2")
def it_tells_its_status_about_every_heartbeat(scene: Scene) -> None:
    worker = scene.worker_under_test()
    before = len(worker.history)
    scene.pump.for_seconds(2.5)
    came = sum(message.kind == "workerStatus" for message in worker.history[before:])
    scene.check(2 <= came <= 40, f"{came} WorkerStatus came in ten heartbeats")


@case("WRK-64")
def its_host_has_no_less_memory_than_is_free_there(scene: Scene) -> None:
    worker = scene.worker_under_test()

    def statuses() -> list[Message]:
        return [message for message in worker.history if message.kind == "workerStatus"]

    scene.pump.until(lambda: bool(statuses()), 10.0)
    for status in statuses():
        told, free = status["hostMemoryBytes"], status["hostFreeBytes"]
        scene.check(told == 0 or told >= free, f"hostMemoryBytes is {told}, and {free} of them are free", "WRK-64")


@case("WRK-21", "LIV-9")
def a_ping_is_answered_at_once_while_tasks_run(scene: Scene) -> None:
    worker = scene.worker_under_test()
    task = call(scene, "spin_ms", b"1500")
    worker.dispatch([task], new_id())
    for _ in range(5):
        watch = scene.stopwatch()
        worker.fence(clause="WRK-21")
        watch.not_after(0.5, "a Pong came while a task ran")
    worker.wait_for_results(task)


@case("MON-11", fresh=True, seconds=40.0)
def ended_tasks_are_told_of_when_asked(scene: Scene) -> None:
    worker = scene.worker_under_test()
    scene.needs_feature("samples", worker.hello)
    run(scene, worker, call(scene, "echo", b"unwatched"))
    worker.send("sampleTasks", sampleLimit=3)
    worker.fence()
    before = len(worker.history)
    scene.equal(_told(worker, 0), (0, b""), "endedCount and samples of a worker that was not asked")
    tasks = {task.id: task for task in (call(scene, "echo", b"x") for _ in range(8))}
    run(scene, worker, *tasks.values())
    scene.pump.until(lambda: _told(worker, before)[0] >= len(tasks), 5.0)
    enough = len(_statuses(worker, before)) + 2
    scene.pump.until(lambda: len(_statuses(worker, before)) >= enough, 5.0)
    scene.equal(_told(worker, before)[0], len(tasks), "the sum of endedCount after so many tasks")
    for status in _statuses(worker, before):
        count, rows = status["endedCount"], status["samples"]
        scene.equal(len(rows) % SAMPLE_BYTES, 0, "what is left of samples, in rows of 56 bytes")
        most = min(3, count)
        scene.check(len(rows) // SAMPLE_BYTES <= most, f"{len(rows) // SAMPLE_BYTES} samples, where {most} may be")
        for at in range(0, len(rows), SAMPLE_BYTES):
            scene.check(rows[at : at + 16] in tasks, "a sample is of a task that has not ended since")
            scene.equal(rows[at + 16 : at + 32], tasks[rows[at : at + 16]].function, "the function of a sample")
    worker.send("sampleTasks", sampleLimit=0)
    worker.fence()
    before = len(worker.history)
    run(scene, worker, call(scene, "echo", b"unwatched again"))
    scene.pump.until(lambda: len(_statuses(worker, before)) >= 2, 5.0)
    scene.equal(_told(worker, before), (0, b""), "endedCount and samples of a worker that is asked no more")


@case("WRK-54", fresh=True, seconds=60.0)
def runs_are_counted_by_function(scene: Scene) -> None:
    worker = scene.worker_under_test()
    before = len(worker.history)
    fast = [call(scene, "echo", b"x") for _ in range(8)]
    slow = call(scene, "sleep_ms", b"200")
    run(scene, worker, *fast, slow)
    enough = len(_statuses(worker, before)) + 2
    scene.pump.until(lambda: len(_statuses(worker, before)) >= enough, 5.0)
    counted = _counted(scene, worker, before)
    scene.needs(bool(counted), "a worker need not tell of functions")
    echoes, sleeps = counted.get(fast[0].function, {}), counted.get(slow.function, {})
    scene.equal(sum(echoes.values()), len(fast), "the runs of one function", "WRK-54")
    scene.equal(sum(sleeps.values()), 1, "the runs of another function", "WRK-54")
    scene.check(min(sleeps, default=0) > 20, f"200 ms are counted in bucket {min(sleeps, default=0)}", "WRK-54")
    before = len(worker.history)
    scene.pump.until(lambda: len(_statuses(worker, before)) >= 2, 5.0)
    scene.equal(_counted(scene, worker, before), {}, "the runs that are told when nothing has run", "WRK-54")


def _counted(scene: Scene, worker: WorkerGuest, since: int) -> dict[bytes, dict[int, int]]:
    """By function and bucket, of all WorkerStatus since then."""
    found: dict[bytes, dict[int, int]] = {}
    for status in _statuses(worker, since):
        rows, buckets = status["functions"], status["functionBuckets"]
        scene.equal(
            (len(rows) % 32, len(buckets) % 8), (0, 0), "what is left of functions and functionBuckets", "WRK-54"
        )
        for row, bucket, tasks in struct.iter_unpack("<HHI", buckets):
            own = found.setdefault(rows[32 * row : 32 * row + 16], {})
            own[bucket] = own.get(bucket, 0) + tasks
    return found


def _statuses(worker: WorkerGuest, since: int) -> list[Message]:
    return [message for message in worker.history[since:] if message.kind == "workerStatus"]


def _told(worker: WorkerGuest, since: int) -> tuple[int, bytes]:
    statuses = _statuses(worker, since)
    return sum(status["endedCount"] for status in statuses), b"".join(status["samples"] for status in statuses)


@case("WRK-10", "WRK-1", fresh=True, seconds=40.0)
def a_lost_session_takes_its_tasks_along(scene: Scene) -> None:
    worker = scene.worker_under_test()
    tasks = [call(scene, "sleep_ms", b"1500") for _ in range(max(1, worker.credit))]
    worker.dispatch(tasks, new_id())
    worker.fence()
    again = _lose_session(scene, worker)
    task = call(scene, "echo", b"new life")
    again.dispatch([task], new_id())
    rows: list[Result] = []

    def is_there() -> bool:
        rows.extend(again.results())
        return task.id in {row.id for row in rows}

    scene.check(scene.pump.until(is_there, 10.0), "no result of a task of the new session came within 10 s")
    is_success(scene, next(row for row in rows if row.id == task.id), b"new life")
    scene.pump.for_seconds(2.0)
    again.fence()
    is_there()
    scene.equal([row.id for row in rows if row.id != task.id], [], "results of tasks of the lost session")


def _lose_session(scene: Scene, worker: WorkerGuest) -> WorkerGuest:
    """The scheduler has ended it; the worker asks to resume and is given another."""
    known = len(scene.scheduler.guests)
    worker.lose()
    is_back = scene.pump.until(lambda: len(scene.scheduler.guests) > known, 10.0)
    scene.check(is_back, "it did not begin another session", "SES-11")
    again = scene.worker_under_test()
    scene.pump.until(lambda: again.credit > 0, 10.0)
    return again


@case("OWN-8", fresh=True, seconds=40.0)
def what_it_stored_for_a_lost_session_is_released(scene: Scene) -> None:
    """The storage does not confirm the last chunk before the session with the scheduler is lost."""
    worker, client = scene.worker_under_test(), new_id()
    task = call(scene, "bytes_n", b"300000")
    scene.storage.unanswered.add("put")
    worker.dispatch([task], client)
    identifier = result_id(task.id, 1)
    asked = scene.pump.until(lambda: any(m["objectId"] == identifier for m in scene.storage.asked("put")), 10.0)
    scene.check(asked, "the value was not put", "WRK-16")
    scene.storage.unanswered.clear()
    again = _lose_session(scene, worker)
    scene.storage.store(identifier, b"stored after all", client)
    again.fence()

    def is_released() -> bool:
        return any(identifier in ids_of(message["ids"]) for message in scene.storage.asked("release"))

    scene.check(scene.pump.until(is_released, 10.0), "the object of an attempt that is never reported was not released")


@case("WRK-11", "LIV-8", fresh=True, seconds=40.0)
def it_drains_when_told_to(scene: Scene) -> None:
    worker = scene.worker_under_test()
    tasks = [call(scene, "sleep_ms", b"700") for _ in range(max(1, worker.credit))]
    worker.dispatch(tasks, new_id())
    worker.fence()
    scene.pump.for_seconds(0.3)
    scene.pump.watch = lambda: None
    worker.send("shutdown", graceSeconds=5.0)
    worker.expect("bye", seconds=15.0)
    back = set(worker.returned())
    ended = {row.id: row.status for row in worker.results()}
    names = {task.id for task in tasks}
    scene.equal(back | ended.keys(), names, "the tasks that were given back or have ended")
    scene.equal(back & ended.keys(), set(), "the tasks that were both given back and reported", "WRK-15")
    scene.check(set(ended.values()) <= {CODES.STATUS_SUCCESS}, "a task within its grace did not end by itself")
    scene.equal(worker.credit, 0, "the last limit that it told")
    scene.equal(worker.nested_reserve, 0, "the last nestedReserve that it told")


@case("WRK-11", "CRD-2", "WRK-15", fresh=True, seconds=40.0)
def who_drains_begins_nothing_more(scene: Scene) -> None:
    """A Dispatch that has crossed with the message of a limit of zero."""
    worker = scene.worker_under_test()
    running, late = call(scene, "sleep_ms", b"1500"), call(scene, "echo", b"too late")
    run(scene, worker, call(scene, "echo", b"first"))
    worker.dispatch([running], new_id())
    worker.fence()
    scene.pump.for_seconds(0.3)
    scene.pump.watch = lambda: None
    worker.send("shutdown", graceSeconds=10.0)
    worker.dispatch([late], new_id())
    worker.expect("bye", seconds=20.0)
    back, ended = worker.returned("WRK-20"), [row.id for row in worker.results()]
    scene.check(late.id not in ended, "a task was begun that came after the Shutdown")
    if running.id in ended:  # else it was asked to end so early that it may have left before this came
        scene.equal(back, [late.id], "the tasks that were given back")


@case("WRK-11", "LIV-8", fresh=True, seconds=40.0)
def who_drains_waits_no_longer_than_the_grace(scene: Scene) -> None:
    worker = scene.worker_under_test()
    worker.dispatch([call(scene, "sleep_ms", b"25000")], new_id())
    worker.fence()
    scene.pump.watch = lambda: None
    watch = scene.stopwatch()
    worker.send("shutdown", graceSeconds=0.5)
    worker.expect("bye", seconds=15.0)
    watch.not_after(6.0, "the Bye that follows a Shutdown with a grace of 0.5 s came")


@case("STO-17", "WRK-3", fresh=True, seconds=40.0)
def it_asks_a_storage_that_was_restarted_again(scene: Scene) -> None:
    worker = scene.worker_under_test()
    late = new_id()
    task = call(scene, "echo", parts=((CODES.KIND_OBJECT, late),))
    worker.dispatch([task], new_id())
    asked = scene.pump.until(lambda: any(m["objectId"] == late for m in scene.storage.asked("get")), 10.0)
    scene.check(asked, "the argument was not asked for", "WRK-3")
    scene.storage.begin_again()
    scene.storage.requests.clear()
    scene.arena.store_functions()
    again = scene.pump.until(lambda: any(m["objectId"] == late for m in scene.storage.asked("get")), 15.0)
    scene.check(again, "it did not ask again in the new session with the storage")
    scene.storage.store(late, b"back", new_id())
    (result,) = worker.wait_for_results(task)
    is_success(scene, result, b"back")
