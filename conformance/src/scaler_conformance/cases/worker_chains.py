"""Tasks that come ahead of their time (chapter 07, feature `chains`). Optional; what is claimed is held to."""

from __future__ import annotations

from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.cases.worker_running import call, is_success, warm
from scaler_conformance.play.conversation import ANSWER_SECONDS
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ids_of
from scaler_conformance.play.scheduler import WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task

case = cases_for("worker")
#: A worker whose tasks take their time may give back those that would wait.
TRIES = 5


def chaining(scene: Scene) -> WorkerGuest:
    """The worker, with whom the feature is in force."""
    worker = scene.worker_under_test()
    scene.needs_feature("chains", worker.hello)
    return worker


def behind(scene: Scene, *awaited: Task, function: str = "concat", **fields: Any) -> Task:
    """A task that takes the values of these, which its worker holds."""
    names = tuple(task.id for task in awaited)
    parts = tuple((CODES.KIND_TASK, name) for name in names)
    return call(scene, function, **{"parts": parts, "awaited": names, **fields})


def is_given_back(scene: Scene, worker: WorkerGuest) -> bool:
    """Whether any of it comes back, rather than results."""
    scene.pump.until(lambda: any(m.kind in ("returned", "results") for m in worker.inbox), ANSWER_SECONDS)
    worker.fence()
    return bool(worker.returned("WRK-24"))


def wait_for_returned(scene: Scene, worker: WorkerGuest, *tasks: Task) -> None:
    found: list[bytes] = []

    def all_there() -> bool:
        found.extend(worker.returned("WRK-24"))
        return {task.id for task in tasks} <= set(found)

    is_there = worker.pump.until(all_there, 2 * ANSWER_SECONDS)
    scene.check(is_there, "a task whose time will not come is not given back", "WRK-24")
    scene.equal(sorted(found), sorted(task.id for task in tasks), "the tasks that were given back", "WRK-24")


@case("WRK-23", "WRK-2")
def a_chain_runs_with_the_results_of_its_own(scene: Scene) -> None:
    worker = chaining(scene)
    for _ in range(TRIES):
        warm(scene, worker)
        first = call(scene, "echo", b"a")
        second = behind(scene, first, parts=((CODES.KIND_TASK, first.id), (CODES.KIND_INLINE, b"b")))
        chain = [first, second, behind(scene, first, second)]
        worker.dispatch(chain, new_id())
        if not is_given_back(scene, worker):
            break
        worker.take("results")
    else:
        scene.needs(False, "it gives back what would wait (WRK-20)")
    ends = worker.wait_for_results(*chain, clause="WRK-23")
    for result, value in zip(ends, (b"a", b"ab", b"aab"), strict=True):
        is_success(scene, result, value, "WRK-23")


@case("WRK-23")
def a_task_waits_for_one_of_an_earlier_dispatch(scene: Scene) -> None:
    worker = chaining(scene)
    client, needed = new_id(), new_id()
    slow = call(scene, "sleep_ms", b"20")
    other = call(scene, "echo", b"quick")
    worker.dispatch([slow], client)
    given = {needed: (CODES.KIND_INLINE, b"given,")}
    parts = ((CODES.KIND_TASK, needed), (CODES.KIND_TASK, other.id))
    worker.dispatch([other, behind(scene, slow, other, parts=parts, inputs=given)], client)
    last = behind(scene, slow, parts=((CODES.KIND_INLINE, b"order only"),), function="echo")
    worker.dispatch([last], client)
    order: list[Result] = []

    def all_there() -> bool:
        order.extend(worker.results())
        return len(order) >= 4

    scene.check(worker.pump.until(all_there, 2 * ANSWER_SECONDS), "four results were to come", "WRK-2")
    values = {result.id: result.value for result in order}
    scene.equal(values[last.id], b"order only", "the value of a task that awaits without taking", "WRK-23")
    scene.check(
        b"given,quick" in values.values(), "the inputs were not those of the Dispatch and of the worker", "WRK-23"
    )
    names = [result.id for result in order]
    scene.check(names.index(slow.id) < names.index(last.id), "a task ended before one that it awaits", "WRK-23")


@case("WRK-24", "WRK-2")
def what_awaits_a_failure_is_given_back(scene: Scene) -> None:
    worker = chaining(scene)
    first = call(scene, "fail", b"on purpose")
    second = behind(scene, first)
    third = behind(scene, second)
    worker.dispatch([first, second, third], new_id())
    (result,) = worker.wait_for_results(first)
    scene.equal(result.status, CODES.STATUS_FAILED, "the status", "WRK-2")
    wait_for_returned(scene, worker, second, third)
    worker.fence()
    scene.equal(worker.results(), [], "results of tasks that were given back", "WRK-24")


@case("WRK-24", "CAN-2")
def what_awaits_a_canceled_task_is_given_back(scene: Scene) -> None:
    worker = chaining(scene)
    first = call(scene, "sleep_ms", b"20000")
    second = behind(scene, first)
    worker.dispatch([first, second], new_id())
    worker.cancel(first, grace=0.2)
    (result,) = worker.wait_for_results(first)
    scene.equal(result.status, CODES.STATUS_CANCELED, "the status", "CAN-2")
    wait_for_returned(scene, worker, second)


@case("WRK-24")
def what_awaits_a_stranger_is_given_back(scene: Scene) -> None:
    worker = chaining(scene)
    stranger = call(scene, "echo", b"never dispatched")
    second = behind(scene, stranger)
    third = behind(scene, second)
    worker.dispatch([second, third], new_id())
    wait_for_returned(scene, worker, second, third)


@case("WRK-9", "WRK-24")
def a_recalled_task_takes_along_what_awaits_it(scene: Scene) -> None:
    worker = chaining(scene)
    client = new_id()
    running = [call(scene, "sleep_ms", b"1000") for _ in range(2)]
    queued = call(scene, "echo", b"x")
    follower = behind(scene, queued)
    worker.dispatch([*running, queued, follower], client)
    worker.send("recall", ids=queued.id)
    worker.fence()
    returned = {name for message in worker.take("returned") for name in ids_of(message["ids"])}
    if returned:  # it may have begun
        scene.equal(returned, {queued.id, follower.id}, "what came back", "WRK-24")
        worker.wait_for_results(*running)
    else:
        worker.wait_for_results(*running, queued, follower)
