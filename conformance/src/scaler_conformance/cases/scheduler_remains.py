"""What a scheduler must not leave behind, forget, or mix up (chapters 06, 08, 09 and 13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ClientPeer, error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, write_results

from .scheduler_graphs import after

case = cases_for("scheduler")


def _twice(client: ClientPeer, tasks: list[Task]) -> int:
    (held,) = client.submit(1)
    return client.submit_batch([*tasks, held])


def _circle(client: ClientPeer, tasks: list[Task]) -> int:
    one, two = tasks
    return client.submit_batch([replace(one, dependencies=(two.id,)), replace(two, dependencies=(one.id,))])


def _unknown(client: ClientPeer, tasks: list[Task]) -> int:
    return client.submit_batch([tasks[0], replace(tasks[1], dependencies=(new_id(),))])


def _foreign(client: ClientPeer, tasks: list[Task]) -> int:
    return client.submit_batch(tasks, client=new_id())


def _stray_part(client: ClientPeer, tasks: list[Task]) -> int:
    return client.submit_batch([tasks[0], replace(tasks[1], parts=((CODES.KIND_TASK, tasks[0].id),))])


WAYS: dict[str, Callable[[ClientPeer, list[Task]], int]] = {
    "DUPLICATE_TASK": _twice,
    "a circle": _circle,
    "an unknown dependency": _unknown,
    "another client's name": _foreign,
    "a part that is no dependency": _stray_part,
}


@case("SCH-1")
def nothing_of_a_refused_batch_is_left(scene: Scene) -> None:
    """Its ids are unknown to a Cancel, and free for another batch."""
    for way, submit in WAYS.items():
        client = scene.client()
        tasks = client.new_tasks(2)
        scene.transcript.note(client.name, f"submits two tasks that are refused for {way}")
        seq = submit(client, tasks)
        error = client.expect("error")
        scene.equal(error["refSeq"], seq, f"refSeq of the Error for {way}")
        client.cancel(*tasks)
        client.fence()
        told = {outcome for _, outcome in client.cancel_outcomes()}
        scene.equal(told, {CODES.CANCEL_UNKNOWN}, f"the outcome of a Cancel after a batch was refused for {way}")
        client.expect_nothing("tasks of a refused batch have no end")
        client.submit(tasks)
        client.fence()
        client.expect_nothing(f"the ids of a batch that was refused for {way} are free")


@case("SCH-25")
def no_class_of_tasks_holds_up_another(scene: Scene) -> None:
    """The most urgent ones wait for a worker that is not there."""
    worker, client = scene.worker(credit=5), scene.client()
    client.submit(1, priority=9, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    client.submit(1, priority=5)
    client.submit(1, priority=0)
    client.submit(1, depth=1)
    scene.settle(client, worker)
    worker.expect_dispatch(3, "SCH-25", "only the first asks for what nobody has")


@case("SCH-13")
def a_plain_result_goes_to_its_client_alone(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=1), scene.client(), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1))
    scene.settle(worker, client, other)
    client.expect_status(task, CODES.STATUS_SUCCESS)
    client.expect_nothing("it had one task")
    other.expect_nothing("the result is another client's")


@case("SCH-13", "WRK-18")
def profiles_are_passed_on_whatever_they_are_joined_with(scene: Scene) -> None:
    worker, client = scene.worker(credit=4), scene.client()
    tasks = client.submit(4)
    scene.settle(client, worker)
    held = worker.expect_dispatch(4)
    profiles = {task.id: (number + 1, 10 * number, 7) for number, task in enumerate(held)}
    rows = [Result(task.id, 1, value=b"v", profile=profiles[task.id]) for task in held]
    for one, two in (rows[:2], rows[2:]):
        worker.send_batch("results", write_results([one, two]))
    scene.settle(worker, client)
    told = {row.id: row.profile for row in client.results()}
    scene.equal(told, {task.id: profiles[task.id] for task in tasks}, "the profiles by task")


@case("SCH-17", "BAT-9")
def inputs_are_those_of_each_task_and_come_once(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), scene.client()
    one, two = client.new_tasks(2)
    needing = [after(client, one), after(client, one, two), after(client, two, one)]
    client.submit([one, two, *needing])
    scene.settle(client, worker)
    held = {task.id: task for task in worker.expect_dispatch(2, "SCH-17")}
    worker.finish(held[one.id], value=b"first")
    worker.finish(held[two.id], value=b"the second")
    worker.fence()
    for message in [message for message in worker.inbox if message.kind == "dispatch"]:
        ids = [message["inputIds"][at : at + 16] for at in range(0, len(message["inputIds"]), 16)]
        scene.equal(len(ids), len(set(ids)), "the count of inputs of a Dispatch, each once,", "BAT-9")
    given = {task.id: task for task in worker.expect_dispatch(3, "SCH-17", "both have succeeded")}
    values = {one.id: (CODES.KIND_INLINE, b"first"), two.id: (CODES.KIND_INLINE, b"the second")}
    for task in needing:
        for _, needed in task.parts:
            scene.equal(given[task.id].inputs.get(needed), values[needed], "the input for a TASK part", "SCH-17")


@case("SCH-18")
def a_result_is_kept_until_its_last_dependent_has_ended(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), scene.client()
    one, two = client.new_tasks(2)
    early, late = after(client, one), after(client, one, two)
    client.submit([one, two, early, late])
    scene.settle(client, worker)
    held = {task.id: task for task in worker.expect_dispatch(2)}
    worker.finish(held[one.id], value=b"kept")
    worker.fence()
    worker.finish(*worker.expect_dispatch(1, "SCH-17"))
    worker.finish(held[two.id])
    worker.fence()
    (last,) = worker.expect_dispatch(1, "SCH-18", "its dependencies have succeeded")
    scene.equal(last.inputs.get(one.id), (CODES.KIND_INLINE, b"kept"), "the input that another task had before")


@case("SCH-18")
def a_result_is_kept_while_its_graph_may_grow(scene: Scene) -> None:
    """The first task that took it has ended before the next is submitted."""
    worker, client, graph = scene.worker(credit=2), scene.client(), new_id()
    (one,) = client.submit(1, sealed=False, graphId=graph)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), value=b"kept")
    for is_last in (False, False, True):
        client.submit([after(client, one)], sealed=is_last, graphId=graph)
        scene.settle(client, worker)
        scene.equal(client.take("error"), [], "Errors to a task that depends on a result of an unsealed graph")
        (given,) = worker.expect_dispatch(1, "SCH-18", "its dependency has succeeded, and the graph was not sealed")
        scene.equal(given.inputs.get(one.id), (CODES.KIND_INLINE, b"kept"), "the input", "SCH-17")
        worker.finish(given)
        worker.fence()


@case("OWN-5", "SCH-18")
def what_nobody_wants_of_a_graph_is_released_when_it_is_sealed(scene: Scene) -> None:
    storage = scene.storage_session()
    worker, client, graph = scene.worker(credit=1), scene.client(), new_id()
    (one,) = client.submit(client.new_tasks(1, flags=CODES.TASK_UNWANTED), sealed=False, graphId=graph)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    own = result_id(one.id, 1)
    worker.send_batch("results", write_results([Result(one.id, kind=CODES.KIND_OBJECT, value=own)]))
    scene.settle(worker, client, storage)
    scene.equal(_released(scene, own), [], "Releases before the graph is sealed", "SCH-18")
    client.submit(1, sealed=True, graphId=graph)
    scene.settle(client, storage)
    scene.equal(_released(scene, own), [client.peer_id], "the owners in whose name it was released", "OWN-5")


@case("OWN-7", "OWN-5")
def a_wanted_input_is_left_to_its_client(scene: Scene) -> None:
    storage = scene.storage_session()
    worker, client = scene.worker(credit=5), scene.client()
    (one,) = client.new_tasks(1)
    client.submit([one, after(client, one)])
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    own = result_id(one.id, 1)
    worker.send_batch("results", write_results([Result(one.id, kind=CODES.KIND_OBJECT, value=own)]))
    worker.fence()
    worker.finish(*worker.expect_dispatch(1, "SCH-17"))
    scene.settle(worker, client, storage)
    scene.equal(len(client.results()), 2, "the count of results", "SCH-13")
    scene.equal(_released(scene, own), [], "Releases of a result that its client is to fetch", "OWN-7")


def _released(scene: Scene, identifier: bytes) -> list[bytes]:
    return [message["owner"] for message in scene.storage.asked("release") if identifier in message["ids"]]


@case("CAN-6")
def a_canceled_task_that_its_worker_does_not_know_ends(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    client.cancel(task)
    scene.settle(client, worker)
    worker.take("cancel")
    worker.answer_cancel((task.id, CODES.CANCEL_UNKNOWN))
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_CANCELED, clause="CAN-6")
    scene.equal([name for name, _ in client.cancel_outcomes()], [task.id], "the tasks of the CancelReply", "CAN-1")


@case("SCH-31", "SCH-8")
def a_task_that_comes_again_waits_for_the_worker_that_may_hold_it(scene: Scene) -> None:
    """There is no other worker, and this one has a place."""
    worker, client = scene.worker(credit=2), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    client.incarnation += 1
    client.open()
    client.submit([task])
    scene.settle(client, worker)
    worker.take("cancel")
    worker.expect_dispatch(0, "SCH-31", "it may still hold the former attempt")
    worker.answer_cancel((task.id, CODES.CANCEL_CANCELED))
    worker.finish(task, status=CODES.STATUS_CANCELED)
    worker.fence()
    (again,) = worker.expect_dispatch(1, "SCH-25", "the former attempt has ended")
    scene.check(again.attempt > 1, f"the attempt is {again.attempt} again", "SCH-8")


@case("SCH-33", "SCH-35")
def an_explanation_tells_of_what_was_placed_before(scene: Scene) -> None:
    """Submit and question come together, and a worker is free; a task that asks for too much is hopeless."""
    worker, client = scene.worker(credit=20, capabilities={"gpu": 2}), scene.client()
    for number in range(20):
        (task,) = client.submit(1)
        client.send("explain", requestId=number, taskId=task.id)
    scene.settle(client, worker)
    for answer in client.take("explanation"):
        scene.equal(answer["state"], "dispatched", "state of a task for which there was a place", "SCH-33")
    (stuck,) = client.submit(1, capabilities=[{"name": "gpu", "amount": 3}])
    client.send("explain", requestId=99, taskId=b"")
    client.fence()
    (answer,) = client.take("explanation")
    scene.equal(answer["taskId"], stuck.id, "taskId of the task that needs more than any worker offers", "SCH-35")


@case("SCH-7")
def three_workers_may_be_lost_by_default(scene: Scene) -> None:
    client = scene.client()
    (task,) = client.submit(1)
    for attempt in (1, 2, 3):
        worker = scene.worker(credit=1)
        scene.settle(worker, client)
        why = f"{attempt - 1} workers were lost with it, and 3 may be (start the port with its default)"
        worker.expect_dispatch(1, "SCH-7", why)
        worker.incarnation += 1
        worker.open(worker={"name": "again", "credit": 0})
        scene.settle(worker, client)
    result = client.expect_status(task, CODES.STATUS_WORKER_LOST, clause="SCH-7")
    scene.equal(error_of(result)["code"], CODES.WORKER_LOST, "the code of its TaskError", "SCH-7")
