"""All tasks of a graph, a part at a time, for a monitor that asks (chapter 14)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import ids_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Task

from .scheduler_graphs import after
from .scheduler_records import explained

case = cases_for("scheduler")
SECONDS = 10.0
#: of which parts that tell the states alone have nothing
COLUMNS = ("ids", "functions", "dependencyCounts", "dependencies", "keySizes", "keys", "functionNames")
WAITING, QUEUED, DISPATCHED, ENDED = 0, 1, 2, 4


class Asking:
    """A monitor that asks for one graph."""

    def __init__(self, scene: Scene, graph: bytes, known: Task) -> None:
        """`known`: an unfinished task of the graph's client."""
        self.scene = scene
        self.monitor = scene.peer("monitor")
        self.graph = graph
        self.client = explained(self.monitor, known, "MON-55")["record"]["clientId"]

    def part(self, first: int, *, shape: bool = True, **other: Any) -> Message:
        named = {"graphId": self.graph, "clientId": self.client, "wantsShape": shape, **other}
        self.monitor.send("graphRequest", requestId=90 + first, first=first, **named)
        answer = self.monitor.expect("graphPart", clause="MON-63", seconds=SECONDS)
        self.scene.equal((answer["requestId"], answer["first"]), (90 + first, first), "requestId and first", "MON-63")
        return answer

    def whole(self, *, shape: bool = True) -> list[Message]:
        """All parts. A scheduler may describe any number of tasks in one."""
        parts, first = [self.part(0, shape=shape)], 0
        while (first := first + len(parts[-1]["graph"]["states"])) < parts[0]["describedCount"]:
            parts.append(self.part(first, shape=shape))
            told = bool(parts[-1]["graph"]["states"])
            self.scene.check(told, f"no task is described at {first}, below describedCount", "MON-63")
        return parts


def states_in(parts: list[Message]) -> list[int]:
    return [state for one in parts for state in one["graph"]["states"]]


@case("MON-63", seconds=30.0)
def a_monitor_is_told_all_tasks_of_a_graph(scene: Scene) -> None:
    worker, client, graph = scene.worker(credit=1), scene.client(), new_id()
    one, two = replace(client.new_tasks(1)[0], key=b"one"), client.new_tasks(1)[0]
    join = replace(after(client, one, two), key="süm".encode())
    client.submit([one, two, join], graphId=graph)
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    asking = Asking(scene, graph, one)
    parts = asking.whole()
    scene.equal(_joined(parts, "ids"), one.id + two.id + join.id, "the ids")
    scene.equal(_joined(parts, "functions"), one.function + two.function + join.function, "the functions")
    counts, needs = _joined(parts, "dependencyCounts"), _joined(parts, "dependencies")
    scene.equal(struct.unpack("<3H", counts), (0, 0, 2), "dependencyCounts")
    scene.equal(struct.unpack("<2H", needs), (0, 1), "dependencies, as places")
    expected = [DISPATCHED if task.id == held.id else QUEUED for task in (one, two)] + [WAITING]
    scene.equal(states_in(parts), expected, "the states")
    told = [(one["describedCount"], one["graph"]["taskCount"], one["graph"]["unfinishedCount"]) for one in parts]
    scene.equal(set(told), {(3, 3, 3)}, "describedCount, taskCount and unfinishedCount")
    alone = asking.part(1, shape=False)
    scene.equal(list(alone["graph"]["states"])[:1], expected[1:2], "the states alone, from the second task on")
    scene.check(not any(alone["graph"][name] for name in COLUMNS), "columns come that were not asked for")
    last = asking.part(2)["graph"]
    scene.equal(ids_of(last["ids"]), [join.id], "the ids from the third task on")
    scene.equal(struct.unpack("<2H", last["dependencies"]), (0, 1), "dependencies on tasks before the part")
    scene.equal((last["keySizes"], last["keys"]), (b"\4", join.key), "the key of the third task", "MON-61")
    scene.equal(asking.part(3)["graph"]["ids"], b"", "what is described behind the last task")
    for unknown in (asking.part(0, graphId=new_id()), asking.part(0, clientId=new_id())):
        told_of = (unknown["order"], unknown["describedCount"], unknown["graph"]["states"])
        scene.equal(told_of, (0, 0, b""), "order, describedCount and states of an unknown graph")


@case("MON-64", "MON-35", seconds=30.0)
def a_task_keeps_its_place_when_others_end_and_come(scene: Scene) -> None:
    """Two batches of a graph. The task of the first ends badly, and then there is a third."""
    client, worker, graph = scene.client(), scene.worker(credit=1), new_id()
    (first,) = client.submit(1, graphId=graph, sealed=False)
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    (second,) = client.submit(1, graphId=graph, sealed=False)
    client.fence()
    asking = Asking(scene, graph, second)
    before = asking.whole()
    scene.equal(states_in(before), [DISPATCHED, QUEUED], "the states at first")
    worker.finish(held, status=CODES.STATUS_FAILED)
    scene.settle(worker, client)
    client.result_of(first)
    worker.expect_dispatch(1)
    (third,) = client.submit(1, graphId=graph)
    client.fence()
    parts = asking.whole()
    scene.equal({one["order"] for one in parts}, {before[0]["order"]}, "the order, which is that of before")
    scene.equal(_joined(parts, "ids"), first.id + second.id + third.id, "the tasks in their places")
    alone = asking.whole(shape=False)
    scene.equal(states_in(alone), [ENDED, DISPATCHED, QUEUED], "the states")
    outcomes = [one["graph"]["outcomes"] or bytes(len(one["graph"]["states"])) for one in alone]
    scene.equal(b"".join(outcomes), bytes((CODES.STATUS_FAILED, 0, 0)), "the outcomes", "MON-35")


def _joined(parts: list[Message], column: str) -> bytes:
    return b"".join(one["graph"][column] for one in parts)
