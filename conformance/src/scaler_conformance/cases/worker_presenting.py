"""What a worker holds outlives its scheduler (WRK-33 to WRK-42, HSK-36, HSK-37, feature `present-held`). A worker may
leave it; what is claimed is held to."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.cases.worker_running import call, is_success
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ENDED, PRESENT_HELD, QUEUED
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import Result, Task

case = cases_for("worker", layer="timing")

NAP = b"1500"
LONGER_THAN_A_NAP_SECONDS = 3.0
SLOW_SECONDS = 20.0
"""When a task that runs counts as stuck."""


def presenting(scene: Scene) -> WorkerGuest:
    """A session in which the feature is in force: the first of this scheduler that knows it."""
    worker = scene.worker_under_test()
    scene.needs_feature(PRESENT_HELD, worker.hello)
    scene.scheduler.features |= {PRESENT_HELD}
    scene.scheduler.generation = 7
    return scene.scheduler.next_session(worker)


def naps(scene: Scene, worker: WorkerGuest, client: bytes) -> list[Task]:
    """As many as it takes; some run and some may wait."""
    tasks = [call(scene, "sleep_ms", NAP, attempt=3) for _ in range(max(1, min(worker.credit, 8)))]
    worker.dispatch(tasks, client)
    worker.fence()
    return tasks


def results_within(scene: Scene, worker: WorkerGuest, rows: list[Result], seconds: float) -> None:
    scene.pump.for_seconds(seconds)
    worker.fence()
    rows.extend(worker.results())


@case("WRK-36", "WRK-35", "WRK-37", "WRK-38", "WRK-42", "HSK-36", "HSK-37", "WRK-40", fresh=True, seconds=60.0)
def what_it_holds_is_presented_to_the_next_scheduler(scene: Scene) -> None:
    worker, client = presenting(scene), new_id()
    ended = call(scene, "echo", b"ended", attempt=2)
    worker.dispatch([ended], client)
    worker.wait_for_results(ended)
    tasks = naps(scene, worker, client)
    worker.send("delivered", resultsCount=0, workerCount=5)
    worker.fence()
    before, generation = scene.scheduler.server_id, scene.scheduler.generation
    again = scene.scheduler.next_session(worker, is_successor=True)
    scene.equal(again.hello["lastServerId"], before, "lastServerId of the Hello", "HSK-36")
    scene.equal(again.hello["generation"], generation, "generation of the Hello", "HSK-36")
    rows = again.presented()
    scene.equal(set(rows), {task.id for task in (ended, *tasks)}, "the tasks of its Holding", "WRK-36")
    for task in (ended, *tasks):
        row = rows[task.id]
        scene.equal((row.attempt, row.client), (task.attempt, client), "attempt and client", "WRK-36")
    scene.equal(rows[ended.id].state, ENDED, "the state of the task that has ended", "WRK-36")
    running = [task for task in tasks if rows[task.id].state != QUEUED]
    scene.check(bool(running), "none of its tasks runs", "WRK-36")
    last = again.holdings()[-1]
    scene.equal(last["workerCount"], 5, "workerCount of the last Holding", "HSK-37")
    grant = again.grant_of(client).get("ownerGrant", b"")
    scene.equal(last["grants"], grant, "the grants of its Holding", "WRK-42")
    found: list[Result] = []

    def have_ended() -> bool:
        """Waits for what runs, as long as the worker's host needs for it."""
        found.extend(again.results())
        return {task.id for task in (ended, *running)} <= {row.id for row in found}

    scene.pump.until(have_ended, SLOW_SECONDS)
    results_within(scene, again, found, LONGER_THAN_A_NAP_SECONDS)
    scene.check(ended.id in {row.id for row in found}, "no result came of the task that had ended", "WRK-37")
    is_success(scene, next(row for row in found if row.id == ended.id), b"ended", "WRK-37")
    begun = {row.id for row in found} - {ended.id}
    scene.equal(begun, {task.id for task in running}, "the tasks that ended before the first Delivered", "WRK-38")
    again.send("delivered")
    rest = [task for task in tasks if task not in running]
    if rest:
        again.wait_for_results(*rest, seconds=20.0, clause="WRK-38")


@case("WRK-35", "WRK-40", fresh=True, seconds=40.0)
def what_was_delivered_is_not_presented(scene: Scene) -> None:
    """And a worker that holds nothing says so."""
    worker = presenting(scene)
    task = call(scene, "echo", b"delivered")
    worker.dispatch([task], new_id())
    worker.wait_for_results(task)
    worker.send("delivered", resultsCount=1)
    worker.fence()
    again = scene.scheduler.next_session(worker, is_successor=True)
    scene.equal(list(again.presented()), [], "the tasks of its Holding", "WRK-40")


@case("WRK-39", "WRK-35", fresh=True, seconds=60.0)
def the_same_scheduler_is_presented_nothing(scene: Scene) -> None:
    """Nor one that does not know the feature: what was held is dropped, as after any lost session."""
    worker, client = presenting(scene), new_id()
    for is_known in (True, False):
        tasks = naps(scene, worker, client)
        if not is_known:
            scene.scheduler.features -= {PRESENT_HELD}
        worker = scene.scheduler.next_session(worker, is_successor=not is_known)
        found: list[Result] = []
        results_within(scene, worker, found, LONGER_THAN_A_NAP_SECONDS)
        held = [message for message in worker.history if message.kind == "holding"]
        scene.equal(len(held), 0, "the count of Holding", "WRK-35" if is_known else "HSK-6")
        scene.equal([row.id for row in found], [], "results of tasks of the lost session", "WRK-39")
        (after,) = [call(scene, "echo", b"after")]
        worker.dispatch([after], client)
        (result,) = worker.wait_for_results(after, clause="WRK-39")
        is_success(scene, result, b"after", "WRK-39")
        scene.check(bool(tasks), "it takes no tasks")


@case("WRK-33", fresh=True, seconds=40.0)
def tasks_of_an_earlier_generation_are_given_back(scene: Scene) -> None:
    worker, client = presenting(scene), new_id()
    generation = scene.scheduler.generation
    for told in (generation, 0, generation + 5):
        task = call(scene, "echo", b"now")
        worker.dispatch([task], client, generation=told)
        worker.wait_for_results(task, clause="WRK-33")
    for told in (generation, 1):
        stale = call(scene, "echo", b"stale")
        worker.dispatch([stale], client, generation=told)
        scene.pump.until(lambda: any(message.kind in ("returned", "results") for message in worker.inbox), 5.0)
        worker.fence()
        scene.equal(worker.returned("WRK-33"), [stale.id], "what was given back", "WRK-33")
        scene.equal(worker.results(), [], "results of a task of an earlier generation", "WRK-33")
