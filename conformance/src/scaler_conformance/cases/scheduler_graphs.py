"""Tasks that depend on others (chapter 06, Graphs)."""

from __future__ import annotations

from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ClientPeer, error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, encode_task_error, write_results

case = cases_for("scheduler")


def after(client: ClientPeer, *needed: Task, takes: bool = True) -> Task:
    """A task that depends on these, and takes their values as arguments."""
    (task,) = client.new_tasks(1)
    parts = tuple((CODES.KIND_TASK, each.id) for each in needed) if takes else ((0, b"x"),)
    return replace(task, parts=parts, dependencies=tuple(each.id for each in needed))


@case("SCH-17", "BAT-9", "SCH-18")
def a_dependent_is_given_the_values_it_needs(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    one, two = client.new_tasks(2)
    join = after(client, one, two, one)
    join = replace(join, dependencies=(one.id, two.id))
    client.submit([one, two, join])
    scene.settle(client, worker)
    held = {task.id: task for task in worker.expect_dispatch(2, "SCH-18", "the third waits for these two")}
    worker.finish(held[one.id], value=b"first")
    worker.fence()
    worker.expect_dispatch(0, "SCH-18", "one of its dependencies has not ended")
    stored = result_id(two.id, 1)
    worker.send_batch("results", write_results([Result(two.id, kind=CODES.KIND_OBJECT, value=stored)]))
    worker.fence()
    (last,) = worker.expect_dispatch(1, "SCH-18", "both have succeeded")
    scene.equal(last.parts, join.parts, "the parts", "SCH-17")
    scene.equal(set(last.inputs), {one.id, two.id}, "the inputs, each once", "BAT-9")
    scene.equal(last.inputs[one.id], (CODES.KIND_INLINE, b"first"), "the input of the inline result", "SCH-17")
    scene.equal(last.inputs[two.id], (CODES.KIND_OBJECT, stored), "the input of the result object", "SCH-17")


@case("SCH-17", "BAT-9")
def an_order_without_a_part_brings_no_input(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    (one,) = client.submit(1)
    client.submit([after(client, one, takes=False)])
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1, "SCH-18"))
    worker.fence()
    (task,) = worker.expect_dispatch(1, "SCH-18")
    scene.equal(dict(task.inputs), {}, "the inputs of a task without TASK parts", "BAT-9")


@case("SCH-19")
def the_tasks_behind_a_failure_are_refused(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    (one,) = client.submit(1, graphId=new_id())
    second = after(client, one)
    third = after(client, second, takes=False)
    client.submit([second, third])
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), status=CODES.STATUS_FAILED)
    scene.settle(worker, client, worker)
    rows = {row.id: row for row in client.results()}
    scene.equal(set(rows), {one.id, second.id, third.id}, "the tasks that have ended")
    for task in (second, third):
        scene.equal(rows[task.id].status, CODES.STATUS_REFUSED, "the status of a task behind a failure")
        error = error_of(rows[task.id])
        scene.equal(error["code"], CODES.DEPENDENCY_FAILED, "the code of its TaskError")
        scene.equal((error["typeName"], error["message"]), ("X", "went wrong"), "the error that began it")
    worker.expect_nothing("these tasks are never run")


@case("PAY-2", "SCH-19")
def an_error_that_the_scheduler_makes_keeps_the_limit(scene: Scene) -> None:
    """The first error nearly fills the limit; those of the tasks behind it carry its text and have to fit as well."""
    worker, client = scene.worker(credit=1), scene.client()
    limit = client.welcome["limits"]["inlineBytes"]
    (one,) = client.submit(1)
    (second,) = client.submit([after(client, one)])
    scene.settle(client, worker)
    (given,) = worker.expect_dispatch(1)
    large = {"code": CODES.TASK_RAISED, "typeName": "X", "message": "m" * 900, "text": "t" * (limit - 1300)}
    encoded = encode_task_error(large)
    scene.check(len(encoded) <= limit, "the case itself exceeds the limit")
    rows = [Result(given.id, 1, CODES.STATUS_FAILED, CODES.KIND_INLINE, encoded)]
    worker.send_batch("results", write_results(rows))
    scene.settle(worker, client)
    result = client.expect_status(second, CODES.STATUS_REFUSED, clause="SCH-19")
    scene.check(len(result.value) <= limit, f"a TaskError has {len(result.value)} bytes, {limit} were agreed")
    client.take("results")


@case("SCH-19")
def the_tasks_behind_other_ends_are_refused_too(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    for status in (CODES.STATUS_TIMED_OUT, CODES.STATUS_PROCESSOR_DIED, CODES.STATUS_REFUSED):
        (one,) = client.submit(1)
        (second,) = client.submit([after(client, one)])
        scene.settle(client, worker)
        worker.finish(*worker.expect_dispatch(1), status=status)
        scene.settle(worker, client)
        client.expect_status(second, CODES.STATUS_REFUSED)
        client.take("results")


@case("SCH-19", "CAN-5")
def the_tasks_behind_a_canceled_one_are_canceled(scene: Scene) -> None:
    worker, client = scene.worker(credit=0), scene.client()
    (one,) = client.submit(1)
    second = after(client, one)
    third = after(client, second)
    client.submit([second, third])
    client.cancel(one)
    client.fence()
    rows = {row.id: row.status for row in client.results()}
    expected = dict.fromkeys((one.id, second.id, third.id), CODES.STATUS_CANCELED)
    scene.equal(rows, expected, "the statuses")
    scene.equal(client.cancel_outcomes(), [(one.id, CODES.CANCEL_CANCELED)], "the CancelReply", "CAN-1")
    worker.credit(5)
    worker.fence()
    worker.expect_nothing("all three have ended", "CAN-5")


@case("SCH-16")
def circles_and_unknown_dependencies_are_refused(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=5), scene.client(), scene.client()
    one, two, three = client.new_tasks(3)
    circle = [replace(one, dependencies=(two.id,)), replace(two, dependencies=(one.id,)), three]
    on_itself = [replace(task, dependencies=(task.id,)) for task in client.new_tasks(1)]
    on_nothing = [replace(task, dependencies=(new_id(),)) for task in client.new_tasks(1)]
    (foreign,) = other.submit(1, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    other.fence()
    on_anothers = [replace(task, dependencies=(foreign.id,)) for task in client.new_tasks(1)]
    for batch in (circle, on_itself, on_nothing, on_anothers):
        seq = client.submit_batch(batch)
        client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False)
    scene.settle(client, worker)
    worker.expect_nothing("all these batches were refused", "SCH-1")


@case("SCH-16")
def a_dependency_that_is_gone_is_refused(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    (one,) = client.submit(1)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1))
    scene.settle(worker, client)
    client.expect_status(one, CODES.STATUS_SUCCESS)
    client.acknowledge()
    client.fence()
    seq = client.submit_batch([after(client, one)])
    client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False)


@case("SCH-30")
def a_part_must_be_among_the_dependencies(scene: Scene) -> None:
    client = scene.client()
    (one,) = client.submit(1)
    (task,) = client.new_tasks(1)
    seq = client.submit_batch([replace(task, parts=((CODES.KIND_TASK, one.id),))])
    client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)


@case("SCH-18")
def results_are_kept_until_the_graph_is_sealed(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    graph = new_id()
    (one,) = client.submit(1, sealed=False, graphId=graph)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), value=b"kept")
    scene.settle(worker, client)
    client.expect_status(one, CODES.STATUS_SUCCESS)
    client.acknowledge()
    (second,) = client.submit([after(client, one)], sealed=False, graphId=graph)
    scene.settle(client, worker)
    client.expect_nothing("the graph is not sealed, so the result is kept")
    (given,) = worker.expect_dispatch(1)
    scene.equal(given.inputs.get(one.id), (CODES.KIND_INLINE, b"kept"), "the input")
    client.submit([after(client, one)], sealed=True, graphId=graph)
    scene.settle(client, worker)
    client.expect_nothing("the batch that seals may still depend on it")
    (last,) = worker.expect_dispatch(1)
    worker.finish(given, last)
    scene.settle(worker, client)
    scene.equal(len(client.results()), 2, "the count of results", "SCH-13")
    client.acknowledge()
    client.fence()
    seq = client.submit_batch([after(client, second)], graphId=graph)
    client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False, clause="SCH-16")


@case("SCH-18")
def a_graph_is_sealed_by_its_own_client_only(scene: Scene) -> None:
    """Another client chooses the same graph id: what it submits, and that it leaves, concerns its own graph."""
    worker, client = scene.worker(credit=9), scene.client()
    stranger, leaver = scene.client(), scene.client()
    graph = new_id()
    (one,) = client.submit(1, sealed=False, graphId=graph)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), value=b"kept")
    scene.settle(worker, client)
    client.expect_status(one, CODES.STATUS_SUCCESS)
    client.acknowledge()
    leaver.submit(1, sealed=False, graphId=graph)
    stranger.submit(1, sealed=True, graphId=graph)
    leaver.leave()
    scene.settle(stranger, worker)
    worker.finish(*[task for task in worker.dispatched() if task.header["client"] == stranger.peer_id])
    scene.settle(worker, stranger)
    (second,) = client.submit([after(client, one)], sealed=False, graphId=graph)
    scene.settle(client, worker)
    client.expect_nothing("its graph is not sealed: another client's batch, and its end, say nothing of it")
    given = [task for task in worker.dispatched() if task.id == second.id]
    scene.equal([task.inputs.get(one.id) for task in given], [(CODES.KIND_INLINE, b"kept")], "the inputs of the second")


@case("SCH-19", "SCH-18")
def a_failure_of_an_unsealed_graph_is_kept_too(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    graph = new_id()
    (one,) = client.submit(1, sealed=False, graphId=graph)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1), status=CODES.STATUS_FAILED)
    scene.settle(worker, client)
    client.results()
    client.acknowledge()
    client.submit_batch([after(client, one)], graphId=graph)
    scene.settle(client, worker)
    rows = client.results()
    scene.equal([row.status for row in rows], [CODES.STATUS_REFUSED], "the ends of the dependent", "SCH-18")
    client.expect_nothing("how a task of an unsealed graph ended is kept, also when it failed", "SCH-18")
    worker.expect_nothing("its dependency has failed")


@case("SCH-14", "SCH-18", "OWN-5")
def an_unwanted_intermediate_is_released_when_nobody_needs_it(scene: Scene) -> None:
    storage = scene.storage_session()
    worker, client = scene.worker(credit=5), scene.client()
    (one,) = client.new_tasks(1, flags=CODES.TASK_UNWANTED)
    second = after(client, one)
    client.submit([one, second])
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    stored = result_id(one.id, 1)
    worker.send_batch("results", write_results([Result(one.id, kind=CODES.KIND_OBJECT, value=stored)]))
    scene.settle(worker, client, storage)
    client.expect_nothing("the success is not wanted", "SCH-14")
    scene.equal(_released(scene, stored), [], "the Releases of a result that is still needed", "SCH-18")
    (last,) = worker.expect_dispatch(1)
    worker.finish(last)
    scene.settle(worker, storage)
    scene.equal(_released(scene, stored), [client.peer_id], "the owners in whose name it was released", "OWN-5")


def _released(scene: Scene, identifier: bytes) -> list[bytes]:
    return [message["owner"] for message in scene.storage.asked("release") if identifier in message["ids"]]


@case("PAY-4", "BAT-10")
def inputs_that_do_not_fit_are_stored_or_refused(scene: Scene) -> None:
    """A worker takes 8 MiB of payload; the inputs of one task have 9 MiB."""
    storage = scene.storage_session()
    worker, client = scene.worker(credit=200, limits={"payloadFrameBytes": 8 << 20}), scene.client()
    worker.about = "PAY-4"
    needed = client.submit(150, sealed=False, graphId=(graph := new_id()))
    scene.settle(client, worker)
    for task in worker.expect_dispatch(150):
        worker.finish(task, value=b"v" * 61_440)
    scene.settle(worker, client)
    (join,) = client.submit([after(client, *needed)], graphId=graph)
    scene.settle(client, storage, worker, client)
    scene.pump.until(lambda: any(m.kind in ("dispatch",) for m in worker.inbox) or bool(client.inbox), 3.0)
    given = worker.dispatched()
    rows = [row for row in client.results() if row.id == join.id]
    if rows:
        scene.equal(rows[0].status, CODES.STATUS_REFUSED, "the status")
        scene.equal(error_of(rows[0])["code"], CODES.TOO_LARGE, "the code of the TaskError")
    else:
        scene.equal(len(given), 1, "the count of Dispatches, or of results REFUSED")
        scene.check(any(kind == CODES.KIND_OBJECT for kind, _ in given[0].inputs.values()), "no input is an object")
