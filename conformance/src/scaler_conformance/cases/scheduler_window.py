"""Results for clients that do not read (SCH-45, SCH-46, feature `result-window`). A scheduler may leave it."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.play.roles import ClientPeer, WorkerPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Task

case = cases_for("scheduler")

WINDOW = 10_000
VALUE = bytes(4_000)


def slow_client(scene: Scene) -> ClientPeer:
    """Its window is for three of these values, the last of which may exceed it."""
    client = scene.client(features=["result-window"], resultWindowBytes=WINDOW)
    is_on = "result-window" in client.welcome["features"]
    is_declared = "result-window" in scene.arena.manifest.features
    scene.check(is_on or not is_declared, "the manifest claims `result-window`, the Welcome leaves it out", "HSK-6")
    scene.needs(is_on, "the feature `result-window` is optional, and this scheduler does not name it")
    client.acknowledges = False
    return client


def finish_each(scene: Scene, client: ClientPeer, worker: WorkerPeer, count: int = 8) -> list[Task]:
    """So many tasks of which the client has read nothing, and two more that are queued."""
    tasks = client.submit(count + 2)
    scene.settle(client, worker)
    given = worker.expect_dispatch(count, "SCH-25")
    client.reads_until = client.received_seq
    for task in given:
        worker.finish(task, value=VALUE)
        worker.fence()  # or a scheduler that is busy could send all of them as one message
    return tasks


def read(client: ClientPeer, until: int | None = None) -> None:
    """All that has come, or up to this message."""
    client.reads_until = until
    client.acknowledge()


@case("SCH-45", "LIV-4")
def results_wait_while_their_client_does_not_read(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), slow_client(scene)
    tasks = finish_each(scene, client, worker)
    client.fence()
    sizes = [sum(map(len, message.payload)) for message in client.inbox if message.kind == "results"]
    scene.check(bool(sizes), "no result came, though nothing was on its way", "SCH-45")
    unread = sum(sizes[:-1])
    scene.check(unread < WINDOW, f"more Results were sent while {unread} bytes were not acknowledged", "SCH-45")
    rows = client.results()
    while len(rows) < 8:
        read(client)
        client.pump.until(lambda: any(message.kind == "results" for message in client.inbox), 5.0)
        more = client.results()
        scene.check(bool(more), f"{len(rows)} of 8 results have come, all are acknowledged, and no more leave")
        rows += more
        client.reads_until = client.received_seq
    scene.equal([row.status for row in rows], [CODES.STATUS_SUCCESS] * 8, "the statuses of the results")
    scene.equal({row.id for row in rows}, {task.id for task in tasks[:8]}, "the tasks with a result", "SCH-13")


@case("SCH-46")
def no_task_of_a_client_that_does_not_read_is_begun(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=8), slow_client(scene), scene.client()
    finish_each(scene, client, worker)
    worker.dispatched()  # what left before the window was full
    client.submit(1, priority=9)
    (theirs,) = other.submit(1)
    scene.settle(client, other, worker)
    given = worker.expect_dispatch(1, "SCH-46", "only the other client reads its results")
    scene.equal(given[0].id, theirs.id, "the task that was dispatched", "SCH-46")
    worker.finish(*given)
    scene.settle(worker, other)
    other.expect_status(theirs, CODES.STATUS_SUCCESS)
    client.reads_until = None
    for _ in range(8):
        client.fence()
    worker.fence()
    scene.check(bool(worker.dispatched()), "its client has read all, and its tasks stay queued", "SCH-25")


@case("SCH-45", "SES-18")
def what_is_kept_back_survives_a_resume(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), slow_client(scene)
    finish_each(scene, client, worker)
    client.fence()
    count = len(client.results())
    client.resume()
    client.reads_until = None
    for _ in range(8):
        client.fence()
    scene.equal(count + len(client.results()), 8, "the count of results before and after the resume", "SCH-45")
    scene.settle(worker)
    worker.dispatched()


@case("SCH-45", "LIV-4", "CAN-1")
def answers_pass_by_what_is_kept_back(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), slow_client(scene)
    tasks = finish_each(scene, client, worker)
    client.fence()
    told = {row.id for row in client.results()}
    ended = next(task for task in tasks[:8] if task.id not in told)
    worker.dispatched()
    queued = client.submit(1)
    client.cancel(queued[0], ended)
    client.send("explain", requestId=7, taskId=ended.id)
    client.fence()
    outcomes = dict(client.cancel_outcomes())
    scene.equal(outcomes.get(queued[0].id), CODES.CANCEL_CANCELED, "the outcome of the queued task", "CAN-1")
    scene.equal(outcomes.get(ended.id), CODES.CANCEL_TOO_LATE, "the outcome of a task that has ended", "SCH-45")
    (explanation,) = client.take("explanation")
    scene.equal(explanation["state"], "", "the state of a task that has ended", "SCH-34")


@case("LIV-4", "SCH-13")
def without_a_window_all_results_are_on_their_way(scene: Scene) -> None:
    """A client that has not the feature is sent everything at once, and the Pong comes after it."""
    worker, client = scene.worker(credit=8), scene.client()
    client.acknowledges = False
    finish_each(scene, client, worker)
    client.fence()
    scene.equal(len(client.results()), 8, "the count of results", "LIV-4")


@case("SCH-33", "SCH-46")
def an_explanation_tells_how_much_waits(scene: Scene) -> None:
    worker, client = scene.worker(credit=8), slow_client(scene)
    finish_each(scene, client, worker)
    (late,) = client.submit(1)
    client.send("explain", requestId=9, taskId=late.id)
    client.fence()
    (explanation,) = client.take("explanation")
    scene.equal(explanation["state"], "queued", "the state of a task whose client does not read", "SCH-46")
    scene.check(explanation["unreadBytes"] >= len(VALUE), "the Explanation does not tell how much waits", "SCH-33")
    worker.fence()
