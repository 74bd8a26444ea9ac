"""Results that are kept for other tasks are told to clients and taken from them (SCH-51 to SCH-54, feature
`kept-results`). A scheduler may leave it."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_graphs import after
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, KeptResult, Result, Task, write_results

case = cases_for("scheduler")

TOLD_SECONDS = 5.0
UNWANTED = 1


def told_client(scene: Scene) -> ClientPeer:
    client = scene.client(features=["kept-results"])
    is_on = "kept-results" in client.welcome["features"]
    is_declared = "kept-results" in scene.arena.manifest.features
    scene.check(is_on or not is_declared, "the manifest claims `kept-results`, the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `kept-results` is optional, and this scheduler does not name it")
    return client


def begun(scene: Scene, client: ClientPeer, worker: WorkerPeer, graph: bytes, flags: int = UNWANTED) -> list[Task]:
    """Two tasks, the second of which depends on the first; the first is dispatched."""
    (one,) = client.new_tasks(1, flags=flags)
    two = after(client, one)
    client.submit([one, two], graphId=graph)
    scene.settle(client, worker)
    worker.expect_dispatch(1, "SCH-18")
    return [one, two]


def wait_for_kept(scene: Scene, client: ClientPeer, count: int = 1) -> list[KeptResult]:
    rows: list[KeptResult] = []

    def all_there() -> bool:
        rows.extend(client.kept_results("SCH-52"))
        return len(rows) >= count

    scene.check(scene.pump.until(all_there, TOLD_SECONDS), f"{len(rows)} of {count} kept results were told", "SCH-51")
    return rows


@case("SCH-51", "SCH-52", seconds=30.0)
def results_that_are_needed_are_told_once(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), told_client(scene)
    graph = new_id()
    one, two = begun(scene, client, worker, graph)
    worker.finish(one, value=b"of the first")
    scene.pump.until(lambda: any(message.kind == "keptResults" for message in client.inbox), TOLD_SECONDS)
    graphs = [message["graphId"] for message in client.inbox if message.kind == "keptResults"]
    scene.equal(graphs, [graph], "the graph of what is told", "SCH-51")
    rows = wait_for_kept(scene, client)
    expected = [KeptResult(one.id, CODES.KIND_INLINE, b"of the first")]
    scene.equal(rows, expected, "what the client is told", "SCH-52")
    client.pump.until(lambda: False, 2.5)
    scene.equal(client.kept_results(), [], "what is told of it later", "SCH-52")
    worker.finish(*worker.expect_dispatch(1))
    scene.settle(worker, client)
    client.expect_status(two, CODES.STATUS_SUCCESS)


@case("SCH-52", "SCH-51", seconds=30.0)
def failures_and_clients_without_the_feature_are_passed_over(scene: Scene) -> None:
    """What is told to the last client shows that the others had their turn."""
    worker, plain, client, last = scene.worker(credit=9), scene.client(), told_client(scene), told_client(scene)
    graph = new_id()
    theirs, _ = begun(scene, plain, worker, graph)
    (failing,) = client.new_tasks(1, flags=UNWANTED)
    client.submit([failing], graphId=graph, sealed=False)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    (stored, _) = begun(scene, last, worker, graph)
    worker.finish(theirs)
    worker.finish(failing, status=CODES.STATUS_FAILED)
    value = result_id(stored.id, 1)
    worker.send_batch("results", write_results([Result(stored.id, kind=CODES.KIND_OBJECT, value=value)]))
    rows = wait_for_kept(scene, last)
    scene.equal(rows, [KeptResult(stored.id, CODES.KIND_OBJECT, value)], "what the last client is told", "SCH-52")
    client.pump.until(lambda: False, 1.5)
    scene.equal(client.kept_results(), [], "what is told of a failure", "SCH-52")
    scene.equal([m for m in plain.inbox if m.kind == "keptResults"], [], "what is told without the feature", "SCH-52")
    client.take("results")
    worker.dispatched()


@case("SCH-53", "SCH-52", "SCH-17", "SCH-18", seconds=30.0)
def given_results_are_inputs(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), told_client(scene)
    graph, stored = new_id(), new_id()
    inline, large = client.new_tasks(2)
    client.give(
        graph,
        KeptResult(inline.id, CODES.KIND_INLINE, b"of another life", UNWANTED),
        KeptResult(large.id, CODES.KIND_OBJECT, stored),
    )
    (last,) = client.submit([after(client, inline, large)], graphId=graph)
    scene.settle(client, worker)
    (given,) = worker.expect_dispatch(1, "SCH-53", "all that it depends on was given")
    expected = {inline.id: (CODES.KIND_INLINE, b"of another life"), large.id: (CODES.KIND_OBJECT, stored)}
    scene.equal(dict(given.inputs), expected, "the inputs", "SCH-53")
    client.pump.until(lambda: False, 2.5)
    scene.equal(client.kept_results(), [], "what the client is told of what it gave", "SCH-52")
    worker.finish(given)
    scene.settle(worker, client)
    client.expect_status(last, CODES.STATUS_SUCCESS)
    released = {object_id for request in scene.storage.requests for object_id in _released(request[1])}
    scene.check(stored not in released, "the object of a task that is not UNWANTED was released", "SCH-53")


@case("SCH-53", "OWN-5", seconds=30.0)
def the_object_of_an_unwanted_task_is_released_in_the_end(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), told_client(scene)
    graph, stored = new_id(), new_id()
    (large,) = client.new_tasks(1)
    client.give(graph, KeptResult(large.id, CODES.KIND_OBJECT, stored, UNWANTED))
    client.submit([after(client, large)], graphId=graph)
    scene.settle(client, worker)
    given = worker.expect_dispatch(1, "SCH-53")
    worker.finish(*given)
    scene.settle(worker, client)
    client.take("results")

    def is_released() -> bool:
        return any(stored in _released(message) for _, message in scene.storage.requests)

    scene.check(scene.pump.until(is_released, TOLD_SECONDS), "its object was not released", "SCH-53")


def _released(message: object) -> list[bytes]:
    if getattr(message, "kind", "") != "release":
        return []
    ids = message["ids"]  # type: ignore[index]
    return [ids[at : at + 16] for at in range(0, len(ids), 16)]


@case("SCH-54", "ERR-1")
def what_cannot_be_true_is_refused(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), told_client(scene)
    graph = new_id()
    (running,) = client.submit(1)
    scene.settle(client, worker)
    (new,) = client.new_tasks(1)
    for rows, where in (
        ([KeptResult(new.id, value=b"v"), KeptResult(running.id, value=b"v")], graph),
        ([KeptResult(new.id, value=b"v")], b""),
    ):
        seq = client.give(where, *rows)
        client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False, clause="SCH-54")
    seq = client.submit_batch([after(client, new)], graphId=graph)
    client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, clause="SCH-54")
    client.give(graph, KeptResult(new.id, value=b"v"))
    seq = client.give(graph, KeptResult(new.id, value=b"another"))
    client.expect_error(CODES.BAD_GRAPH, ref_seq=seq, fatal=False, clause="SCH-54")
    worker.finish(*worker.expect_dispatch(1))
    scene.settle(worker, client)
    client.take("results")


@case("SCH-53", "SCH-8", seconds=30.0)
def a_new_session_may_give_what_the_old_one_has(scene: Scene) -> None:
    worker, old = scene.worker(credit=5), told_client(scene)
    graph = new_id()
    one, two = begun(scene, old, worker, graph)
    worker.finish(one, value=b"v")
    worker.fence()
    worker.expect_dispatch(1)
    new = told_client(scene)
    new.give(graph, KeptResult(one.id, value=b"v", flags=UNWANTED))
    new.submit([two], graphId=graph)
    scene.settle(new)
    scene.equal([m["code"] for m in new.inbox if m.kind == "error"], [], "errors of the new session", "SCH-53")
    old.fence()
    old.take("results")
    worker.fence()
    worker.finish(two, status=CODES.STATUS_CANCELED)
    scene.settle(worker, worker)
    (again,) = worker.expect_dispatch(1, "SCH-8")
    scene.equal(dict(again.inputs), {one.id: (CODES.KIND_INLINE, b"v")}, "the inputs", "SCH-53")
    worker.finish(again)
    scene.settle(worker, new)
    new.expect_status(two, CODES.STATUS_SUCCESS)
    worker.take("cancel")
    old.take("keptResults")
