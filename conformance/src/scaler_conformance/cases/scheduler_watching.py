"""The monitor's stream and its snapshots (chapter 14), and addresses in the Welcome (chapter 02)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message

case = cases_for("scheduler")
LIVING = ("waiting", "queued", "dispatched", "canceling")
ENDED = ("success", "failed", "canceled", "worker_lost", "refused")


def snapshot(peer: Dialer, request: int = 7) -> Message:
    peer.send("snapshotRequest", requestId=request)
    return peer.expect("clusterStatus", clause="MON-3")


def counts_of(status: Message) -> dict[str, int]:
    return {entry["name"]: entry["value"] for entry in status["taskCounts"]}


@case("MON-3")
def a_snapshot_is_answered_with_its_number(scene: Scene) -> None:
    watcher = scene.peer("monitor")
    for request in (0, 1, 2**63):
        status = snapshot(watcher, request)
        scene.equal(status["requestId"], request, "requestId")
        scene.check(len(status["serverId"]) == 16, "serverId is no id", "FRM-8")
    watcher.fence()
    watcher.expect_nothing("each request has one answer")


@case("MON-5", "MON-3")
def tasks_are_counted_by_state(scene: Scene) -> None:
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=2), scene.client()
    before = counts_of(snapshot(watcher))
    missing = [name for name in (*LIVING, *ENDED) if name not in before]
    scene.check(not missing, f"taskCounts has no {', '.join(missing)}")
    tasks = client.submit(5)
    scene.settle(client, worker)
    held = worker.expect_dispatch(2)
    during = counts_of(snapshot(watcher))
    changed = {name: during[name] - before[name] for name in LIVING}
    scene.equal(changed, {"waiting": 0, "queued": 3, "dispatched": 2, "canceling": 0}, "the counts that were added")
    worker.credit(0)
    worker.finish(held[0])
    worker.finish(held[1], status=CODES.STATUS_FAILED)
    client.cancel(*(task for task in tasks if task.id not in (held[0].id, held[1].id)))
    scene.settle(worker, client)
    ends = {"success": 1, "failed": 1, "canceled": 3}
    scene.equal(_added(before, counts_of(snapshot(watcher))), ends, "the counts that were added")


def _added(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in (*LIVING, *ENDED) if after[name] != before[name]}


@case("MON-5")
def ends_are_counted_one_by_one(scene: Scene) -> None:
    """Many in one message, all at once."""
    watcher, worker, client = scene.peer("monitor"), scene.worker(credit=12), scene.client()
    before = counts_of(snapshot(watcher))
    tasks = client.submit(12)
    scene.settle(client, worker)
    held = worker.expect_dispatch(12, "SCH-25")
    client.cancel(tasks[11])
    client.fence()
    worker.finish(*(task for task in held[:7] if task.id != tasks[11].id))
    scene.settle(worker, client)
    expected = {"dispatched": 4, "canceling": 1, "success": 7}
    scene.equal(_added(before, counts_of(snapshot(watcher))), expected, "the counts that were added")


@case("MON-3")
def who_is_there_is_shown(scene: Scene) -> None:
    watcher, client = scene.peer("monitor"), scene.client()
    worker = scene.worker(credit=3, capabilities={"gpu": 2})
    client.submit(4, capabilities=[{"name": "gpu", "amount": 1}])
    scene.settle(client, worker)
    status = snapshot(watcher)
    clients = {entry["peerId"]: entry for entry in status["clients"]}
    workers = {entry["peerId"]: entry for entry in status["workers"]}
    scene.check(client.peer_id in clients, "a client that is connected is not shown")
    scene.check(worker.peer_id in workers, "a worker that is connected is not shown")
    scene.equal(clients[client.peer_id]["taskCount"], 4, "taskCount of the client")
    entry = workers[worker.peer_id]
    scene.equal((entry["creditLimit"], entry["heldCount"]), (3, 2), "creditLimit and heldCount of the worker")
    first, second = worker.expect_dispatch(2, "SCH-12")
    worker.finish(first, second)
    worker.fence()
    entry = {entry["peerId"]: entry for entry in snapshot(watcher)["workers"]}[worker.peer_id]
    scene.equal(entry["completedCount"], 2, "completedCount of the worker")
    client.leave()
    worker.leave()
    status = snapshot(watcher)
    left = {entry["peerId"] for entry in (*status["clients"], *status["workers"])}
    scene.check(not left & {client.peer_id, worker.peer_id}, "somebody who said Bye is still shown")


@case("MON-1", "MON-2", seconds=30.0)
def the_state_is_published(scene: Scene) -> None:
    address = scene.peer("monitor").welcome["monitorAddress"]
    scene.needs(bool(address), "its Welcome says that the monitor is off (chapter 14, Freedoms)")
    watcher = scene.monitor()
    scene.pump.until(lambda: sum(topic == b"status" for topic, _ in watcher.published) >= 3, 15.0)
    for topic, message in watcher.published:
        if topic != b"status":
            continue
        scene.equal(message.kind, "clusterStatus", "what is published under `status`", "MON-1")
        scene.equal((message.seq, message.ack, message["requestId"]), (0, 0, 0), "seq, ack and requestId", "MON-1")
    numbers = [message["sequence"] for topic, message in watcher.published if topic == b"status"]
    scene.check(len(numbers) > 1, f"{len(numbers)} messages were published under `status` in 15 s", "MON-1")
    expected = list(range(numbers[0], numbers[0] + len(numbers)))
    scene.equal(numbers, expected, "the sequence numbers", "MON-2")


@case("HSK-19", "HSK-18")
def addresses_can_be_reached(scene: Scene) -> None:
    for role in ("client", "worker"):
        welcome = scene.peer(role).welcome
        for name in ("storageAddress", "monitorAddress"):
            address = welcome[name]
            is_wild = any(wild in address for wild in ("*", "0.0.0.0", "[::]"))
            scene.check(not is_wild, f"{name} is {address!r}, which nobody can dial")
    address = scene.peer("client").welcome["storageAddress"]
    is_given = address in ("", scene.storage.address)
    scene.check(is_given, f"storageAddress is {address!r}; the scheduler was told {scene.storage.address!r}", "HSK-19")


@case("SCH-33", "SCH-34", "SCH-35")
def a_client_is_told_where_its_task_is(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=1), scene.client(), scene.client()
    held, queued = client.submit(2)
    scene.settle(client, worker)
    held_by_worker = worker.expect_dispatch(1)[0]
    first, second = (held, queued) if held_by_worker.id == held.id else (queued, held)

    def ask(peer: Dialer, task: bytes, request: int) -> Message:
        peer.send("explain", requestId=request, taskId=task)
        answer = peer.expect("explanation", clause="SCH-33")
        scene.equal(answer["requestId"], request, "requestId of the Explanation", "SCH-33")
        return answer

    scene.equal(ask(client, first.id, 1)["state"], "dispatched", "state", "SCH-33")
    scene.equal(ask(client, second.id, 2)["state"], "queued", "state", "SCH-33")
    scene.equal(ask(client, client.new_tasks(1)[0].id, 3)["state"], "", "state of an unknown task", "SCH-34")
    scene.equal(ask(other, first.id, 4)["state"], "", "state of another client's task", "SCH-34")
    scene.equal(ask(client, b"", 5)["taskId"], b"", "taskId when every task has a worker", "SCH-35")
    (stuck,) = client.submit(1, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    answer = ask(client, b"", 6)
    scene.equal(answer["taskId"], stuck.id, "taskId of the task that nobody can take", "SCH-35")
    scene.equal(answer["ableCount"], 0, "ableCount", "SCH-33")


@case("MON-14", "MON-3")
def functions_are_counted(scene: Scene) -> None:
    watcher, client = scene.peer("monitor"), scene.client()
    client.submit(3)
    client.fence()
    status = snapshot(watcher)
    counted = sum(entry["value"] for entry in status["functionCounts"])
    unfinished = sum(counts_of(status)[name] for name in LIVING)
    scene.equal(counted, unfinished, "the sum of functionCounts")


@case("MON-15", "SCH-33")
def a_monitor_may_ask_about_every_clients_task(scene: Scene) -> None:
    watcher, client = scene.peer("monitor"), scene.client()
    (task,) = client.submit(1, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    client.fence()
    watcher.send("explain", requestId=9, taskId=task.id)
    answer = watcher.expect("explanation")
    scene.equal((answer["requestId"], answer["state"]), (9, "queued"), "requestId and state")


@case("MON-16", "MON-17", "OWN-15")
def a_dump_comes_in_parts_and_has_no_values(scene: Scene) -> None:
    """Whoever can read the text finds other things in it; a value would be there as it is, or in hexadecimal digits."""
    secret, salt = b"an argument, and nobody's business", b"sixteen of a kind"[:16]
    watcher, client, worker = scene.peer("monitor"), scene.client(), scene.worker(credit=1)
    client.submit(client.new_tasks(3, parts=((0, secret),)), resultSalt=salt)
    scene.settle(client, worker)

    def part(request: int, number: int) -> Message:
        watcher.send("dumpRequest", requestId=request, part=number)
        answer = watcher.expect("dumpPart", clause="MON-16")
        scene.equal((answer["requestId"], answer["part"]), (request, number), "requestId and part", "MON-16")
        return answer

    first = part(2**40, 0)
    scene.check(first["partCount"] > 0, "partCount is 0 in the first part of a dump", "MON-16")
    data = first["data"] + b"".join(part(number, number)["data"] for number in range(1, first["partCount"]))
    scene.check(secret not in data and secret.hex().encode() not in data.lower(), "an argument is in it", "MON-17")
    scene.check(salt not in data and salt.hex().encode() not in data.lower(), "a resultSalt is in it", "OWN-15")
    scene.equal(part(5, first["partCount"])["partCount"], 0, "partCount when there is no such part", "MON-16")
    other = scene.peer("monitor")
    other.send("dumpRequest", requestId=1, part=1)
    scene.equal(other.expect("dumpPart")["partCount"], 0, "partCount for who has begun no dump", "MON-16")


@case("SCH-33")
def an_explanation_says_where_and_why(scene: Scene) -> None:
    """One task is held, one stops, one waits for another, and two are queued, of which nobody can take the last."""
    worker, idle, client = scene.worker(credit=2), scene.worker(credit=0), scene.client()
    held, stopping = client.submit(2)
    scene.settle(client, worker)
    worker.expect_dispatch(2, "SCH-25")
    client.cancel(stopping)
    first, second = client.submit(2)
    stuck, *_ = client.submit(1, capabilities=[{"name": "nobody-has-this", "amount": -1}])
    waiting, *_ = client.submit([replace(each, dependencies=(held.id, first.id)) for each in client.new_tasks(1)])
    scene.settle(client, idle)
    expected: dict[bytes, dict[str, object]] = {
        held.id: {"state": "dispatched", "worker": worker.name, "attempt": 1},
        stopping.id: {"state": "canceling", "worker": worker.name},
        first.id: {"state": "queued", "aheadCount": 0, "ableCount": 2, "workerCount": 2, "worker": ""},
        second.id: {"state": "queued", "aheadCount": 1},
        stuck.id: {"state": "queued", "ableCount": 0, "workerCount": 2},
        waiting.id: {"state": "waiting", "dependencyCount": 2},
    }
    for request, (task, fields) in enumerate(expected.items()):
        client.send("explain", requestId=request, taskId=task)
        answer = client.expect("explanation", clause="SCH-33")
        for name, value in fields.items():
            what = f"{name} of the Explanation of {scene.transcript.known(task)}, which is {fields['state']},"
            scene.equal(answer[name], value, what, "SCH-33")


@case("MON-3", seconds=30.0)
def the_sequence_of_a_snapshot_is_that_of_the_last_publication(scene: Scene) -> None:
    address = scene.peer("monitor").welcome["monitorAddress"]
    scene.needs(bool(address), "its Welcome says that the monitor is off (chapter 14, Freedoms)")
    watcher, asking = scene.monitor(), scene.peer("monitor")

    def last() -> int:
        return max((message["sequence"] for topic, message in watcher.published if topic == b"status"), default=0)

    scene.pump.until(lambda: last() > 0, 15.0)
    before = last()
    sequence = snapshot(asking)["sequence"]
    scene.pump.until(lambda: last() >= sequence, 0.3)  # published before the answer left, it is here by now
    told = f"a snapshot has sequence {sequence}, and what was published lies between {before} and {last()}"
    scene.check(before <= sequence <= last(), told)
