"""What monitors are told of tasks that failed, of graphs that did, and of the cluster (chapter 14)."""

from __future__ import annotations

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_graphs import after
from scaler_conformance.cases.scheduler_watching import snapshot
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.monitor import MonitorPeer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("scheduler")
SECONDS = 15.0
LONG = "x" * 2000
BURST = 40


def told(scene: Scene, watcher: MonitorPeer, field: str) -> list[Message]:
    """Of all TaskSamples since the last look that have something in this field."""

    def found() -> list[Message]:
        return [one for one in watcher.of("tasks") if one[field]]

    scene.pump.until(lambda: bool(found()), SECONDS)
    return found()


@case("MON-32", "MON-33", "MON-23", seconds=40.0)
def failures_are_told_one_by_one(scene: Scene) -> None:
    """With their type and first line, and without what follows from them."""
    watcher, worker, client = scene.monitor("tasks"), scene.worker(credit=4), scene.client()
    tasks = client.submit(3)
    scene.settle(client, worker)
    held = worker.expect_dispatch(3)
    message = f"first{LONG}\nsecond line"
    worker.finish(held[0], status=CODES.STATUS_FAILED, typeName=f"T{LONG}", message=message, text="a traceback")
    worker.finish(held[1])
    client.cancel(tasks[2])
    scene.settle(client, worker)
    told(scene, watcher, "failures")
    count = len(watcher.of("tasks"))
    scene.pump.until(lambda: len(watcher.of("tasks")) > count, SECONDS)
    samples = watcher.of("tasks")
    failures = [one for sample in samples for one in sample["failures"]]
    scene.equal([one["taskId"] for one in failures], [held[0].id], "the tasks that are told to have failed", "MON-32")
    failure = failures[0]
    scene.equal(sum(sample["failedCount"] for sample in samples), 1, "failedCount", "MON-32")
    scene.equal((failure["status"], failure["attempt"]), (CODES.STATUS_FAILED, 1), "status and attempt", "MON-32")
    scene.check(failure["clientId"] != client.peer_id, "a client is shown by its peer id", "MON-23")
    name, line = failure["typeName"], failure["firstLine"]
    scene.check(name.startswith("Tx") and len(name) <= 200, "typeName is not that of the error, cut", "MON-33")
    is_line = line.startswith("firstx") and len(line) <= 300 and "\n" not in line
    scene.check(is_line, "firstLine is not the first line of the message, cut", "MON-33")
    scene.equal(failure["text"], "", "the traceback, which no operator has allowed to be shown", "MON-33")


@case("MON-34", seconds=40.0)
def a_monitor_that_comes_afterwards_is_told_of_before(scene: Scene) -> None:
    watcher, worker, client = scene.monitor("tasks"), scene.worker(credit=4), scene.client()
    client.submit(2)
    scene.settle(client, worker)
    held = worker.expect_dispatch(2)
    worker.finish(held[0], status=CODES.STATUS_FAILED)
    worker.finish(held[1])
    scene.settle(client, worker)
    told(scene, watcher, "failures")
    late = scene.monitor(is_watching=False)
    late.watch("tasks", wants_history=True)
    scene.pump.until(lambda: any(one["isHistory"] for one in late.of("tasks")), SECONDS)
    histories = [one for one in late.of("tasks") if one["isHistory"]]
    scene.equal(len(histories), 1, "TaskSamples with isHistory")
    scene.check(held[0].id in [one["taskId"] for one in histories[0]["failures"]], "a task that failed is not told of")
    scene.check(any(one["subject"] == worker.name for one in histories[0]["events"]), "no event names the worker")
    rows = b"".join(block["samples"] for block in histories[0]["blocks"])
    scene.check(held[1].id in rows, "a task that succeeded is not told of")
    scene.check(not any(one["isHistory"] for one in watcher.of("tasks")), "a monitor that did not ask was told, too")


@case("MON-35", seconds=40.0)
def a_graph_shows_how_its_tasks_ended(scene: Scene) -> None:
    watcher, worker, client = scene.monitor("graphs"), scene.worker(credit=4), scene.client()
    scene.pump.until(lambda: bool(watcher.of("graphs")), SECONDS)
    (first,) = client.new_tasks(1)
    second = after(client, first)
    client.submit([first, second], graphId=new_id())
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    worker.finish(held, status=CODES.STATUS_FAILED)
    scene.settle(client, worker)
    scene.pump.until(lambda: any(shape["outcomes"] for one in watcher.of("graphs") for shape in one["graphs"]), SECONDS)
    shapes = [shape for one in watcher.of("graphs") for shape in one["graphs"] if shape["outcomes"]]
    scene.check(bool(shapes), "no graph was described with the outcomes of its tasks")
    shape = shapes[-1]
    scene.equal(len(shape["outcomes"]), len(shape["states"]), "outcomes, beside states")
    outcomes = {shape["ids"][16 * i : 16 * i + 16]: status for i, status in enumerate(shape["outcomes"])}
    scene.equal(outcomes.get(first.id), CODES.STATUS_FAILED, "the outcome of the task that failed")
    scene.equal(outcomes.get(second.id), CODES.STATUS_REFUSED, "the outcome of the task that depends on it")


@case("MON-36", seconds=40.0)
def events_have_names_and_numbers(scene: Scene) -> None:
    watcher = scene.peer("monitor")
    before = snapshot(watcher)["eventCount"]
    worker, client = scene.worker(credit=4), scene.client()
    client.submit(3)
    scene.settle(client, worker)
    worker.expect_dispatch(3)
    worker.leave()
    status = snapshot(watcher)
    events = [one for one in status["events"] if one["subject"] == worker.name and one["number"] > before]
    scene.equal([one["kind"] for one in events], ["worker_joined", "worker_left"], "the events of the worker")
    scene.equal(events[1]["taskCount"], 3, "taskCount")
    numbers = [one["number"] for one in status["events"]]
    scene.equal(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "the numbers of the events")
    scene.equal(status["eventCount"], numbers[-1], "eventCount")


@case("MON-36", seconds=40.0)
def no_event_of_a_burst_is_missing(scene: Scene) -> None:
    """More workers join and leave than a publication shows of what watchers know already."""
    watcher = scene.monitor("status")
    scene.pump.until(lambda: bool(watcher.of("status")), SECONDS)
    before = watcher.of("status")[-1]["eventCount"]
    workers = [scene.worker(credit=1) for _ in range(BURST)]
    for worker in workers:
        worker.leave()
    scene.pump.until(lambda: watcher.of("status")[-1]["eventCount"] >= before + 2 * BURST, SECONDS)
    told = {event["number"] for status in watcher.of("status") for event in status["events"]}
    missing = set(range(before + 1, before + 2 * BURST + 1)) - told
    scene.equal(len(missing), 0, "events that no publication has listed")
