"""What monitors are told of one task besides its state (chapter 14)."""

from __future__ import annotations

from typing import NamedTuple

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_graphs import after
from scaler_conformance.cases.scheduler_watching import snapshot
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Task

case = cases_for("scheduler")
MOST_CHILDREN = 100


class Moments(NamedTuple):
    """How many seconds ago something happened to a task; zero: it has not."""

    submitted: float
    ready: float
    dispatched: float


def explained(peer: Dialer, task: Task, clause: str = "SCH-33") -> Message:
    peer.send("explain", requestId=3, taskId=task.id)
    return peer.expect("explanation", clause=clause)


@case("MON-55", "MON-23")
def a_monitor_is_told_whose_a_task_is(scene: Scene) -> None:
    watcher, worker, client, other = scene.peer("monitor"), scene.worker(credit=2), scene.client(), scene.client()
    (root,), graph = client.submit(1), new_id()
    (held,) = client.submit(1, graphId=graph, parentTask=root.id)
    scene.settle(client, worker)
    worker.expect_dispatch(2)
    (queued,) = other.submit(1)
    other.fence()
    record = explained(watcher, held, "MON-55")["record"]
    told = (record["taskId"], record["functionId"], record["attempt"], record["graphId"], record["parentTask"])
    scene.equal(told, (held.id, held.function, 1, graph, root.id), "id, function, attempt, graph and parent", "MON-55")
    scene.equal(record["argumentBytes"], len(held.parts[0][1]), "argumentBytes", "MON-55")
    owners = [explained(watcher, task, "MON-55")["record"]["clientId"] for task in (held, queued)]
    scene.check(len(set(owners)) == 2 and all(owners), "clientId does not tell one client from another", "MON-55")
    scene.check(not {client.peer_id, other.peer_id} & set(owners), "a client is shown by its peer id", "MON-23")
    scene.equal(explained(client, held)["record"]["taskId"], b"", "taskId of the record for a client", "MON-55")


@case("MON-55", "MON-57", "MON-66", seconds=30.0)
def a_monitor_is_told_of_lost_attempts_also_after_a_success(scene: Scene) -> None:
    watcher, lost, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()
    (task,) = client.submit(1, lostProcessorsLimit=3)
    scene.settle(client, lost)
    lost.expect_dispatch(1)
    scene.equal(explained(watcher, task)["record"]["accounts"], [], "accounts in the first attempt", "MON-55")
    lost.close()
    worker = scene.worker(credit=1)
    scene.pump.until(lambda: bool(explained(watcher, task)["attempt"] == 2), 20.0)
    scene.settle(worker)
    (second,) = worker.expect_dispatch(1)
    worker.credit(1)
    worker.finish(second, status=CODES.STATUS_PROCESSOR_DIED)
    scene.settle(worker)
    (third,) = worker.expect_dispatch(1)
    accounts = explained(watcher, task)["record"]["accounts"]
    scene.equal(len(accounts), 2, "the count of accounts in the third attempt", "MON-55")
    scene.check(any(lost.name in one for one in accounts), "no account names the lost worker", "MON-55")
    worker.finish(third, value=bytes(300))
    scene.settle(worker)
    answer = explained(watcher, task)
    record = answer["record"]
    result = record["resultBytes"], record["isResultStored"]
    scene.equal(result, (300, False), "resultBytes and isResultStored", "MON-66")
    told = (answer["state"], record["taskId"], record["status"], record["attempt"])
    scene.equal(
        told, ("", task.id, CODES.STATUS_SUCCESS, 3), "state, and id, status and attempt of the record", "MON-57"
    )
    scene.equal((record["accounts"], record["worker"]), (accounts, worker.name), "accounts and worker", "MON-57")


@case("MON-58", seconds=30.0)
def attempts_that_are_repeated_are_counted(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()

    def counts() -> dict[str, int]:
        return {one["name"]: one["value"] for one in snapshot(watcher)["repeatCounts"]}

    before = counts()
    (task,) = client.submit(1, lostProcessorsLimit=2, retries=1)
    scene.settle(client, worker)
    expected = {"processor_died": 0, "failed": 0, "worker_lost": 0, "worker_left": 0}
    for name, status in (("processor_died", CODES.STATUS_PROCESSOR_DIED), ("failed", CODES.STATUS_FAILED)):
        (held,) = worker.expect_dispatch(1)
        worker.credit(1)
        worker.finish(held, status=status)
        scene.settle(worker)
        expected[name] = 1
        told = {reason: count - before.get(reason, 0) for reason, count in counts().items() if reason in expected}
        scene.equal(told, expected, f"repeatCounts after an attempt that ended as {name}", "MON-58")
    worker.expect_dispatch(1)
    worker.leave()
    scene.equal(counts()["worker_left"] - before["worker_left"], 1, "repeatCounts of a worker that has left", "MON-58")
    other = scene.worker(credit=1)
    scene.settle(other)
    (last,) = other.expect_dispatch(1)
    other.finish(last, status=CODES.STATUS_FAILED)
    scene.settle(other, client)
    client.expect_status(task, CODES.STATUS_FAILED)
    scene.equal(counts()["failed"] - before["failed"], 1, "repeatCounts of the last attempt", "MON-58")


@case("MON-57", "MON-43", "MON-33")
def a_monitor_is_told_how_a_task_has_failed(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    (held,) = worker.expect_dispatch(1)
    worker.finish(held, status=CODES.STATUS_FAILED, typeName="ValueError", message="first\nsecond", text="a traceback")
    scene.settle(worker)
    record = explained(watcher, task)["record"]
    told = (record["taskId"], record["status"], record["typeName"], record["firstLine"])
    scene.equal(told, (task.id, CODES.STATUS_FAILED, "ValueError", "first"), "id, status and error", "MON-57")
    scene.equal(record["text"], "", "the traceback, which no operator has allowed to be shown", "MON-33")
    number = int.from_bytes(task.id[8:], "little")
    watcher.send("explain", requestId=4, taskSource=task.id[:4], taskNumber=number)
    answer = watcher.expect("explanation", clause="MON-43")
    found = (answer["taskId"], answer["record"]["typeName"])
    scene.equal(found, (task.id, "ValueError"), "taskId and error by the short form", "MON-43")
    scene.equal(explained(client, task)["record"]["taskId"], b"", "taskId of the record for a client", "MON-57")


@case("MON-56")
def a_monitor_is_told_the_children_of_a_task(scene: Scene) -> None:
    watcher, worker, client, nested = scene.peer("monitor"), scene.worker(credit=2), scene.client(), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    children = nested.submit(2, parentTask=task.id)
    scene.settle(nested, worker)
    (begun,) = worker.expect_dispatch(1)
    answer = explained(watcher, task)
    listed = [answer["children"][at : at + 16] for at in range(0, len(answer["children"]), 16)]
    scene.equal(sorted(listed), sorted(child.id for child in children), "children", "MON-56")
    states = {child: 2 if child == begun.id else 1 for child in listed}
    scene.equal(dict(zip(listed, answer["childStates"], strict=False)), states, "childStates", "MON-56")
    told = explained(client, task)
    scene.equal((told["children"], told["childStates"]), (b"", b""), "children for a client", "MON-56")
    nested.submit(MOST_CHILDREN, parentTask=task.id)
    nested.fence()
    answer = explained(watcher, task)
    counts = (len(answer["children"]) // 16, len(answer["childStates"]), answer["childCount"])
    scene.equal(counts, (MOST_CHILDREN, MOST_CHILDREN, MOST_CHILDREN + 2), "the counts of children", "MON-56")


@case("MON-62", seconds=30.0)
def a_monitor_is_told_when_a_task_was_submitted_ready_and_dispatched(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=1), scene.client()

    def look(task: Task, what: str, *expected: bool) -> Moments:
        """How long ago each was; `expected`: whether it has happened."""
        record = explained(watcher, task, "MON-62")["record"]
        told = Moments(record["submittedSeconds"], record["readySeconds"], record["dispatchedSeconds"])
        has_happened = tuple(moment > 0 for moment in told)
        scene.equal(has_happened, expected, f"whether {what} was submitted, ready and dispatched")
        order = [moment for moment in told if moment]
        scene.equal(order, sorted(order, reverse=True), f"the moments of {what} in their order")
        return told

    (first,) = client.new_tasks(1)
    (other,) = client.new_tasks(1)
    later = after(client, first)
    client.submit([first, other, later])
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    before = look(first, "the task that a worker has", True, False, True)
    look(other, "the queued task", True, False, False)
    look(later, "the waiting task", True, False, False)
    scene.pump.for_seconds(0.2)
    grown = look(first, "the task that a worker still has", True, False, True)
    scene.check(grown.submitted - before.submitted >= 0.2, "submittedSeconds does not grow with time")
    scene.check(grown.dispatched - before.dispatched >= 0.2, "dispatchedSeconds does not grow with time")
    worker.finish(first)
    scene.settle(worker)
    second, third = (other, later) if worker.expect_dispatch(1)[0].id == other.id else (later, other)
    worker.finish(second)
    scene.settle(worker)
    worker.expect_dispatch(1)
    ended = {True: look(later, "the task that waited", True, True, True)}
    ended[False] = look(other, "the task that was queued", True, False, True)
    for told in ended.values():
        scene.check(told.submitted - (told.ready or told.dispatched) >= 0.2, "a wait of 0.2 s is shorter than that")
    worker.finish(third, status=CODES.STATUS_FAILED)
    scene.settle(worker)
    has_waited = third.id == later.id
    kept = look(third, "the failed task", True, has_waited, True)
    scene.pump.for_seconds(0.2)
    aged = look(third, "the task that failed before", True, has_waited, True)
    scene.check(aged.dispatched - kept.dispatched >= 0.2, "dispatchedSeconds of a failure does not grow with time")
    scene.check(aged.submitted - kept.submitted >= 0.2, "submittedSeconds of a failure does not grow with time")


@case("MON-62", seconds=30.0)
def a_task_that_no_worker_has_any_longer_is_not_dispatched(scene: Scene) -> None:
    watcher, client = scene.peer("monitor"), scene.client()
    (task,) = client.submit(1)
    client.fence()
    scene.pump.for_seconds(0.2)
    worker = scene.worker(credit=1)
    scene.settle(worker)
    worker.expect_dispatch(1)
    record = explained(watcher, task)["record"]
    scene.check(record["dispatchedSeconds"] > 0, "dispatchedSeconds is zero")
    waited = record["submittedSeconds"] - record["dispatchedSeconds"]
    scene.check(waited >= 0.2, f"a task that was queued for 0.2 s has waited for {waited:.3f} s")
    worker.leave()
    client.fence()
    answer = explained(watcher, task)
    told = answer["state"], answer["record"]["submittedSeconds"] > 0, answer["record"]["dispatchedSeconds"]
    scene.equal(told, ("queued", True, 0.0), "state, whether it was submitted, and dispatchedSeconds")
