"""What a scheduler publishes besides its state: samples of tasks, shapes of graphs, logs (chapter 14)."""

from __future__ import annotations

import struct
from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

from .scheduler_graphs import after
from .scheduler_records import explained

case = cases_for("scheduler")
#: About once a second a scheduler looks who watches.
SECONDS = 10.0


@case("MON-10", "MON-18", seconds=40.0)
def samples_are_wanted_while_somebody_watches(scene: Scene) -> None:
    willing, plain = scene.worker(credit=1, features=["samples"]), scene.worker(credit=1)
    scene.needs("samples" in willing.welcome["features"], "the feature `samples` is optional, and it does not name it")
    willing.fence()
    willing.expect_nothing("nobody watches", "MON-10")
    watching = scene.monitor("tasks")
    asked = willing.expect("sampleTasks", clause="MON-10", seconds=SECONDS)
    scene.check(asked["sampleLimit"] > 0, "somebody watches, and sampleLimit is 0")
    row = new_id() + new_id() + struct.pack("<QQII", 2_000, 1_000, 77, 0)
    willing.send("workerStatus", endedCount=3, samples=row)
    scene.pump.until(lambda: any(message["blocks"] for message in watching.of("tasks")), SECONDS)
    blocks = [block for message in watching.of("tasks") for block in message["blocks"]]
    told = [(block["name"], block["endedCount"], block["samples"]) for block in blocks]
    scene.equal(told, [(willing.name, 3, row)], "what was published of one WorkerStatus", "MON-18")
    watching.watch()
    willing.take("sampleTasks")
    asked = willing.expect("sampleTasks", clause="MON-10", seconds=SECONDS)
    scene.equal(asked["sampleLimit"], 0, "sampleLimit when the last watcher has gone")
    plain.fence()
    plain.expect_nothing("its session has no feature `samples`", "MON-10")


@case("MON-12", "MON-18", seconds=30.0)
def a_graph_can_be_drawn(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    graph = new_id()
    one, two = client.new_tasks(2)
    join = after(client, one, two)
    last = after(client, join, one)
    client.submit([one, two, join, last], graphId=graph)
    scene.settle(client, worker)
    held = worker.expect_dispatch(1)
    watching = scene.monitor("graphs")

    def shapes() -> list[Message]:
        return [shape for message in watching.of("graphs") for shape in message["graphs"] if shape["graphId"] == graph]

    scene.pump.until(lambda: bool(shapes()), SECONDS)
    scene.needs(bool(shapes()), f"nothing of this graph was published within {SECONDS:g} s; it may leave out some")
    shape = shapes()[-1]
    ids = ids_of(shape["ids"])
    lengths = [len(shape["states"]), len(shape["functions"]) / 16, len(shape["dependencyCounts"]) / 2]
    scene.equal(lengths, [len(ids)] * 3, "the lengths of states, functions and dependencyCounts")
    counts = struct.unpack(f"<{len(ids)}H", shape["dependencyCounts"])
    indexes = struct.unpack(f"<{len(shape['dependencies']) // 2}H", shape["dependencies"])
    scene.equal(len(indexes), sum(counts), "the count of dependencies")
    scene.check(all(index < len(ids) for index in indexes), "a dependency is the index of no listed task")
    scene.check(set(ids) <= {task.id for task in (one, two, join, last)}, "a task is listed that is not of this graph")
    place, found = 0, {}
    for name, count in zip(ids, counts, strict=True):
        found[name] = {ids[index] for index in indexes[place : place + count]}
        place += count
    for task in (join, last):
        if task.id in found:
            listed = set(task.dependencies) & set(ids)
            scene.equal(found[task.id], listed, "what a listed task depends on, as far as it is listed")
    states = dict(zip(ids, shape["states"], strict=True))
    if held[0].id in states:
        scene.equal(states[held[0].id], 2, "the state of the task that a worker holds")


@case("MON-61", seconds=30.0)
def the_nodes_of_a_graph_have_their_keys(scene: Scene) -> None:
    watcher, asking, client = scene.monitor("graphs"), scene.peer("monitor"), scene.client()
    tasks = [*client.new_tasks(1), *client.new_tasks(1, key="läd".encode()), *client.new_tasks(1, key=b"k" * 64)]
    tasks.append(replace(after(client, *tasks), key=b"\xff"))
    graph = new_id()
    client.submit(tasks, graphId=graph)
    client.fence()
    for task in tasks[:3]:
        record = explained(asking, task, "MON-61")["record"]
        scene.equal(record["key"], task.key.decode(), "the key of a record")

    def shapes() -> list[Message]:
        return [shape for message in watcher.of("graphs") for shape in message["graphs"] if shape["graphId"] == graph]

    scene.pump.until(lambda: bool(shapes()), SECONDS)
    scene.needs(bool(shapes()), f"nothing of this graph was published within {SECONDS:g} s; it may leave out some")
    shape, expected = shapes()[-1], {task.id: task.key for task in tasks}
    listed = [expected[name] for name in ids_of(shape["ids"])]
    scene.equal(shape["keySizes"], bytes(map(len, listed)), "keySizes")
    scene.equal(shape["keys"], b"".join(listed), "keys")


@case("MON-18", seconds=30.0)
def what_tasks_print_is_published(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    watching = scene.monitor("logs")
    (task,) = client.submit(1, flags=CODES.FLAG_STREAM_OUTPUT)
    scene.settle(client, worker)
    worker.expect_dispatch(1)

    def is_told() -> bool:
        # A subscription takes its time to arrive, and nothing says when it has.
        worker.send("taskLog", taskId=task.id, stream=1, text="line")
        worker.fence()
        return bool(watching.of("logs"))

    scene.check(scene.pump.until(is_told, SECONDS), f"nothing was published under `logs` within {SECONDS:g} s")
    for log in watching.of("logs"):
        scene.equal((log["taskId"], log["text"]), (task.id, "line"), "task and text of a TaskLog")
