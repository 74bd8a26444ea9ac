"""Tasks that are sent ahead of their time (SCH-36, SCH-37, feature `chains`). A scheduler may leave it."""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_graphs import after
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task, decode_task_error

case = cases_for("scheduler")


def chaining(scene: Scene, credit: int = 5) -> WorkerPeer:
    """A worker that takes tasks ahead of their time."""
    worker = scene.worker(credit=credit, features=["chains"])
    is_on = "chains" in worker.welcome["features"]
    is_declared = "chains" in scene.arena.manifest.features
    scene.check(is_on or not is_declared, "the manifest claims `chains`, and the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `chains` is optional, and this scheduler does not name it")
    return worker


def dispatched_chain(scene: Scene, worker: WorkerPeer, client: ClientPeer) -> tuple[Task, Task]:
    """Two tasks of which one takes the result of the other, both with this worker."""
    (one,) = client.new_tasks(1)
    two = after(client, one)
    client.submit([one, two])
    scene.settle(client, worker)
    given = {task.id: task for task in worker.dispatched("SCH-36")}
    scene.check(one.id in given, "the first task of a chain was not dispatched", "SCH-25")
    scene.needs(two.id in given, "this scheduler sends nothing ahead, which is its right")
    scene.equal(given[two.id].awaited, (one.id,), "what the second awaits", "SCH-36")
    scene.equal(dict(given[two.id].inputs), {}, "the inputs of what takes an awaited result", "BAT-9")
    return given[one.id], given[two.id]


@case("SCH-36", "SCH-17", "BAT-9")
def a_link_of_a_chain_may_go_along(scene: Scene) -> None:
    worker, client = chaining(scene), scene.client()
    one, two = dispatched_chain(scene, worker, client)
    worker.finish(one, two)
    scene.settle(worker, client, worker)
    client.expect_status(one, CODES.STATUS_SUCCESS)
    client.expect_status(two, CODES.STATUS_SUCCESS)
    worker.expect_nothing("both have ended")


@case("SCH-36", "BAT-3")
def only_what_one_worker_holds_goes_ahead(scene: Scene) -> None:
    """Of two links held by two workers, the sum can go to neither."""
    plain, client = scene.worker(credit=1), scene.client()
    (one,) = client.submit(1)
    scene.settle(client, plain)
    (held,) = plain.expect_dispatch(1)
    worker = chaining(scene)
    (two,) = client.submit(1)
    scene.settle(client, worker)
    (other,) = worker.expect_dispatch(1)
    (both,) = client.submit([after(client, one, two)])
    scene.settle(client, worker)
    worker.expect_dispatch(0, "SCH-36", "one of the tasks it depends on is with another worker")
    worker.finish(other)
    plain.finish(held)
    scene.settle(plain, worker, client, worker, plain)
    given = [(task.id, task.awaited) for task in (*worker.dispatched(), *plain.dispatched())]
    scene.equal(given, [(both.id, ())], "what was dispatched in the end, and awaits", "SCH-36")


@case("SCH-36", "CRD-1")
def what_goes_ahead_keeps_the_credit(scene: Scene) -> None:
    worker, client = chaining(scene, credit=2), scene.client()
    (one,) = client.submit(1)
    links = [one]
    for _ in range(4):
        links += client.submit([after(client, links[-1])])
    scene.settle(client, worker)
    given = worker.dispatched("SCH-36")
    scene.check(len(given) <= 2, f"a worker with a credit of 2 was given {len(given)} tasks", "CRD-1")


@case("SCH-37")
def a_link_that_comes_back_waits_again(scene: Scene) -> None:
    worker, client = chaining(scene), scene.client()
    one, two = dispatched_chain(scene, worker, client)
    worker.give_back(two)
    worker.credit(1)
    worker.fence()
    worker.expect_dispatch(0, "SCH-37", "what it depends on has not ended, and there is no place")
    worker.finish(one, value=b"first")
    worker.fence()
    (again,) = worker.expect_dispatch(1, "SCH-37", "what it depends on has succeeded")
    scene.equal((again.id, again.attempt), (two.id, 1), "the task and its attempt", "SCH-5")
    scene.equal(again.awaited, (), "what it awaits now", "SCH-36")
    scene.equal(again.inputs[one.id], (CODES.KIND_INLINE, b"first"), "its input", "SCH-17")


@case("SCH-37", "SCH-19")
def a_link_that_comes_back_after_a_failure_is_refused(scene: Scene) -> None:
    for is_before in (True, False):
        worker, client = chaining(scene), scene.client()
        one, two = dispatched_chain(scene, worker, client)
        if is_before:
            worker.give_back(two)
        worker.finish(one, status=CODES.STATUS_FAILED)
        if not is_before:
            worker.give_back(two)
        scene.settle(worker, client, worker)
        client.expect_status(one, CODES.STATUS_FAILED)
        result = client.expect_status(two, CODES.STATUS_REFUSED, clause="SCH-37")
        error = decode_task_error(result.value)
        scene.equal((error["code"], error["message"]), (CODES.DEPENDENCY_FAILED, "went wrong"), "its error", "SCH-19")
        worker.expect_nothing("neither is run again")
        worker.bye()


@case("SCH-37", "SCH-7", "SCH-5")
def a_chain_is_run_again_after_its_worker_was_lost(scene: Scene) -> None:
    worker, client = chaining(scene), scene.client()
    one, two = dispatched_chain(scene, worker, client)
    worker.finish(one, value=b"first")
    scene.settle(worker, client)
    worker.bye()
    scene.settle(client)
    plain = scene.worker(credit=5)
    plain.fence()
    (again,) = plain.expect_dispatch(1, "SCH-7", "only the first of the two has ended")
    scene.equal((again.id, again.attempt), (two.id, 2), "the task and its attempt", "SCH-5")
    scene.equal(again.inputs[one.id], (CODES.KIND_INLINE, b"first"), "its input, kept for it", "SCH-37")
    plain.finish(replace(again))
    scene.settle(plain, client)
    client.expect_status(two, CODES.STATUS_SUCCESS)


@case("SCH-36", "SCH-23")
def what_goes_ahead_needs_its_capabilities(scene: Scene) -> None:
    worker, client = chaining(scene), scene.client()
    (one,) = client.submit(1)
    client.submit([after(client, one)], capabilities=[{"name": "nobody-has-this", "amount": -1}])
    scene.settle(client, worker)
    given = [task.id for task in worker.dispatched("SCH-36")]
    scene.equal(given, [one.id], "what goes to a worker without the capability of the second", "SCH-23")


@case("SCH-36", "SCH-17", "BAT-9")
def what_goes_ahead_has_the_inputs_that_are_there(scene: Scene) -> None:
    """It takes two results: one is known to the scheduler, the other is awaited."""
    plain, client = scene.worker(credit=1), scene.client()
    known, other = client.new_tasks(2)
    client.submit([known], sealed=False, graphId=(graph := new_id()))
    scene.settle(client, plain)
    plain.finish(*plain.expect_dispatch(1), value=b"known")
    plain.credit(0)
    plain.fence()
    worker = chaining(scene)
    both = after(client, known, other)
    client.submit([other, both], graphId=graph)
    scene.settle(client, worker)
    given = {task.id: task for task in worker.dispatched("SCH-36")}
    scene.needs(both.id in given, "this scheduler sends nothing ahead, which is its right")
    scene.equal(given[both.id].awaited, (other.id,), "what it awaits", "SCH-36")
    inputs = {known.id: (CODES.KIND_INLINE, b"known")}
    scene.equal(dict(given[both.id].inputs), inputs, "the inputs of a task that awaits another one too", "SCH-17")


@case("SCH-7", "SCH-36")
def what_has_not_begun_was_not_lost(scene: Scene) -> None:
    """Two workers are lost with both links, of which the second awaits the first; a third with the second alone."""
    client = scene.client()
    worker = chaining(scene)
    one, two = dispatched_chain(scene, worker, client)
    for _ in range(2):
        worker.incarnation += 1
        worker.open(worker={"name": "again", "credit": 0}, features=[])
        worker.fence()
        worker = chaining(scene)
        worker.fence()
        given = {task.id: task for task in worker.dispatched("SCH-7")}
        scene.check(one.id in given, "a task that was lost once or twice is not run again", "SCH-7")
        one = given[one.id]
    worker.finish(one)
    worker.fence()
    scene.check(two.id in given or len(worker.dispatched()) == 1, "its follower is not run", "SCH-25")
    worker.incarnation += 1
    worker.open(worker={"name": "again", "credit": 5}, features=[])
    scene.settle(worker, client)
    client.expect_status(one, CODES.STATUS_SUCCESS, clause="SCH-7")
    client.expect_nothing("the second link was lost once: what it awaited was unfinished when it was lost before")
    (again,) = worker.expect_dispatch(1, "SCH-7", "the second link was lost once")
    scene.equal(again.id, two.id, "the task", "SCH-7")
