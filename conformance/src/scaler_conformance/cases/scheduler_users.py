"""Whose clients, workers, tasks and objects there are, as monitors are shown it (chapter 14)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from scaler_conformance.case import cases_for
from scaler_conformance.cases.scheduler_watching import snapshot
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id, result_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, ROLES, Message, Result, write_results
from scaler_conformance.wire.keys import ALL_ROLES, KEY_BYTES

case = cases_for("scheduler")


def _of(scene: Scene, peer: Dialer, user: str, roles: Iterable[int] = ALL_ROLES) -> str:
    """It shows a ticket of this user, in a cluster with keys. What it is to be shown as."""
    file = scene.arena.key_file
    if file is None:
        return ""
    peer.shown = file.key.pass_for(secrets.token_bytes(KEY_BYTES), roles, user=user, is_operator=False)
    return user


def _told(peer: Dialer, task: bytes) -> str:
    peer.send("explain", requestId=1, taskId=task)
    return str(peer.expect("explanation", clause="MON-15")["user"])


@case("MON-25", seconds=30.0)
def users_are_those_of_the_tickets(scene: Scene) -> None:
    """Whatever a peer says of itself."""
    watcher = scene.peer("monitor")
    client, other, worker = scene.client(is_open=False), scene.client(is_open=False), scene.worker(is_open=False)
    manager = scene.peer("manager", is_open=False)
    ana, bo, worked, managed = (
        _of(scene, peer, user) for peer, user in ((client, "ana"), (other, "bö"), (worker, "wim"), (manager, "mia"))
    )
    client.open(software={"name": "user:eve", "host": "eve"})
    other.open()
    claimed = [{"name": "user:eve", "amount": -1}]
    worker.open(worker={"name": worker.name, "credit": 1, "capabilities": claimed})
    manager.open(manager={"managerId": new_id(), "name": "m", "workersPerUnit": 1, "capabilities": claimed})
    first, second = (peer.submit(count) for peer, count in ((client, 1), (other, 2)))
    scene.settle(client, other, worker, manager)
    status = snapshot(watcher)
    tasks = {entry["taskCount"]: entry["user"] for entry in status["clients"] if entry["taskCount"]}
    scene.equal(tasks, {1: ana, 2: bo}, "the users of the clients, by the count of their tasks")
    workers = {entry["name"]: entry["user"] for entry in status["workers"]}
    scene.equal(workers.get(worker.name), worked, "the user of the worker")
    managers = {entry["name"]: entry["user"] for entry in status["managers"]}
    scene.equal(managers.get("m"), managed, "the user of the manager")
    scene.equal([_told(watcher, task.id) for task in (first[0], second[1])], [ana, bo], "the users of explained tasks")
    scene.equal(_told(watcher, new_id()), "", "the user of a task that there is not")


@case("MON-25", seconds=30.0)
def a_client_in_a_task_has_the_user_of_its_program(scene: Scene) -> None:
    """Checks that it is not that of the worker's ticket, by which it is admitted. The same in a task of a task."""
    watcher = scene.peer("monitor")
    client, worker = scene.client(is_open=False), scene.worker(is_open=False)
    ana, _ = _of(scene, client, "ana"), _of(scene, worker, "wim")
    client.open()
    worker.open(worker={"name": worker.name, "credit": 2})
    parent = client.submit(1)[0]
    for count in (2, 3):
        scene.settle(client, worker)
        worker.expect_dispatch(1)
        child = scene.client(is_open=False)
        _of(scene, child, "wim", [ROLES["worker"]])
        child.open(parentTask=parent.id)
        worker.credit(count)
        parent = child.submit(1)[0]
        scene.settle(child, worker)
        scene.equal(_told(watcher, parent.id), ana, "the user of a task that a task has submitted")
        users = [entry["user"] for entry in snapshot(watcher)["clients"] if entry["taskCount"]]
        scene.equal(users, [ana] * count, "the users of the clients, two of them in tasks")


@case("MON-54", seconds=40.0)
def the_largest_objects_are_shown_without_their_ids(scene: Scene) -> None:
    rich, watcher = scene.client(), scene.monitor("status")
    rich.submit(1)
    scene.settle(rich)
    identifier = new_id()
    scene.storage.store(identifier, bytes(2**17), rich.peer_id)

    def largest() -> list[Message]:
        return [one for one in snapshot(watcher)["storage"]["largest"] if one["totalBytes"] == 2**17]

    scene.pump.until(lambda: bool(largest()), 15.0)
    scene.check(bool(largest()), "the storage has told of a large object, and the scheduler does not", "MON-54")
    (client,) = [one["peerId"] for one in snapshot(watcher)["clients"] if one["taskCount"]]
    for entry in largest():
        scene.equal(entry["owner"], client, "the display id of the owner", "MON-54")
        scene.check(entry["objectId"] not in (identifier, b""), "a monitor is told the id of an object", "MON-54")


@case("MON-59", seconds=40.0)
def results_among_the_largest_objects_have_the_name_of_their_function(scene: Scene) -> None:
    client, worker, watcher = scene.client(), scene.worker(credit=2), scene.monitor("status")
    tasks = client.submit(2)
    scene.settle(client, worker)
    worker.expect_dispatch(2)
    client.send("nameFunctions", ids=tasks[0].function, names=["price"])
    values = {2**17: result_id(tasks[0].id, 1), 2**18: result_id(tasks[1].id, 1), 2**19: new_id()}
    told_ids = ((tasks[0], values[2**17]), (tasks[1], values[2**19]))
    rows = [Result(task.id, kind=CODES.KIND_OBJECT, value=identifier) for task, identifier in told_ids]
    worker.send_batch("results", write_results(rows))
    scene.settle(client, worker)
    for size, identifier in values.items():
        scene.storage.store(identifier, bytes(size), client.peer_id)

    def told() -> dict[int, tuple[int, str]]:
        largest = snapshot(watcher)["storage"]["largest"]
        return {one["totalBytes"]: (one["kind"], one["name"]) for one in largest if one["totalBytes"] in values}

    scene.pump.until(lambda: len(told()) == len(values), 15.0)
    expected = {2**17: (CODES.OBJECT_RESULT, "price"), 2**18: (CODES.OBJECT_OTHER, ""), 2**19: (CODES.OBJECT_OTHER, "")}
    scene.equal(told(), expected, "kind and name: a result, one that was not told, one of another id", "MON-59")


@case("MON-27", seconds=40.0)
def what_a_client_owns_is_shown(scene: Scene) -> None:
    rich, poor, watcher = scene.client(), scene.client(), scene.monitor("status")
    rich.submit(1)
    poor.submit(2)
    scene.settle(rich, poor)
    sizes = (7, 30, 2**16)
    for size in sizes:
        scene.storage.store(new_id(), bytes(size), rich.peer_id)

    def owned() -> dict[int, tuple[int, int]]:
        clients = snapshot(watcher)["clients"]
        return {one["taskCount"]: (one["objectCount"], one["objectBytes"]) for one in clients if one["taskCount"]}

    expected = {1: (len(sizes), sum(sizes)), 2: (0, 0)}
    scene.pump.until(lambda: owned() == expected, 15.0)
    scene.equal(owned(), expected, "objectCount and objectBytes, by the count of tasks")
    asked = scene.storage.asked("storageStatusRequest")
    scene.check(any(rich.peer_id in one["owners"] for one in asked), "the storage was not asked about the client")
    for status in (*watcher.of("status"), snapshot(watcher)):
        columns = status["storage"]["ownerObjects"], status["storage"]["ownerBytes"]
        scene.equal(columns, (b"", b""), "the columns of owners in `storage`")


@case("MON-68", variant="bounded", seconds=30.0)
def users_are_told_with_what_they_have_and_may_have(scene: Scene) -> None:
    """The variant `bounded` lets each user have thirty unfinished tasks. A session without a user is not listed."""
    watcher = scene.peer("monitor")
    first, second, other = (scene.client(is_open=False) for _ in range(3))
    ana, _, bo = (_of(scene, peer, user) for peer, user in ((first, "ana"), (second, "ana"), (other, "bö")))
    for peer in (first, second, other):
        peer.open()
    tasks = first.submit(1) + second.submit(2)
    other.submit(1)
    scene.settle(first, second, other)

    def told() -> dict[str, int]:
        return {one["user"]: one["taskCount"] for one in snapshot(watcher)["users"]}

    scene.equal(told(), {ana: 3, bo: 1} if ana else {}, "the unfinished tasks of users", "MON-68")
    status = snapshot(watcher)
    sizes = {one["user"]: one["taskBytes"] for one in status["users"]}
    scene.check(not ana or sizes[ana] >= 3 * sizes[bo] > 0, f"the bytes of arguments are {sizes}", "MON-68")
    limits = status["userTaskLimit"], status["userTaskBytesLimit"] > 0
    scene.equal(limits, (30, True), "userTaskLimit, and whether there is a userTaskBytesLimit", "MON-68")
    first.cancel(tasks[0])
    scene.settle(first)
    scene.equal(told(), {ana: 2, bo: 1} if ana else {}, "the unfinished tasks when one has ended", "MON-68")


@case("MON-70", seconds=40.0)
def users_are_told_with_what_the_storage_says_of_them(scene: Scene) -> None:
    """Of their clients without objects it says nothing."""
    first, second, watcher = scene.client(is_open=False), scene.client(is_open=False), scene.monitor("status")
    ana, _ = (_of(scene, peer, "ana") for peer in (first, second))
    for peer in (first, second):
        peer.open()
    scene.settle(first, second)
    expected = {ana: 2**40} if ana else {}
    scene.storage.user_limit = 2**41
    scene.storage.user_bytes = {first.peer_id: 2**40}

    def told() -> tuple[int, dict[str, int]]:
        status = snapshot(watcher)
        return status["storage"]["userLimitBytes"], {one["user"]: one["objectBytes"] for one in status["users"]}

    scene.pump.until(lambda: told() == (2**41, expected), 15.0)
    scene.equal(told(), (2**41, expected), "userLimitBytes, and objectBytes by user", "MON-70")
    for status in (*watcher.of("status"), snapshot(watcher)):
        scene.equal(status["storage"]["ownerUserBytes"], b"", "the column of users in `storage`", "MON-70")
