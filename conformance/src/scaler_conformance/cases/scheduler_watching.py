"""What monitors are sent, published and asked for (chapter 14), and addresses in the Welcome (chapter 02)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, Task

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
    workers = {entry["name"]: entry for entry in status["workers"]}
    own = [entry for entry in status["clients"] if entry["taskCount"]]
    scene.check(bool(own), "a client that has tasks is not shown")
    scene.check(worker.name in workers, "a worker that is connected is not shown")
    scene.equal([entry["taskCount"] for entry in own], [4], "taskCount of the client")
    entry = workers[worker.name]
    scene.equal((entry["creditLimit"], entry["heldCount"]), (3, 2), "creditLimit and heldCount of the worker")
    first, second = worker.expect_dispatch(2, "SCH-12")
    worker.finish(first, second)
    worker.fence()
    entry = {entry["name"]: entry for entry in snapshot(watcher)["workers"]}[worker.name]
    scene.equal(entry["completedCount"], 2, "completedCount of the worker")
    gone = {own[0]["peerId"], entry["peerId"]}
    client.leave()
    worker.leave()
    status = snapshot(watcher)
    left = {entry["peerId"] for entry in (*status["clients"], *status["workers"])}
    scene.check(not left & gone, "a peer that said Bye is still shown")


@case("MON-18", "MON-2", seconds=30.0)
def the_state_is_published(scene: Scene) -> None:
    watcher, other = scene.monitor(), scene.monitor(is_watching=False)
    other.watch("x-weather")
    scene.pump.until(lambda: len(watcher.published) >= 3, 15.0)
    for message in watcher.published:
        scene.equal((message.kind, message["requestId"]), ("clusterStatus", 0), "kind and requestId", "MON-18")
    numbers = [message["sequence"] for message in watcher.published]
    scene.check(len(numbers) > 1, f"{len(numbers)} messages were published for `status` in 15 s", "MON-18")
    expected = list(range(numbers[0], numbers[0] + len(numbers)))
    scene.equal(numbers, expected, "the sequence numbers", "MON-2")
    other.fence()
    other.expect_nothing("it watches nothing that there is", "MON-18")
    scene.equal(other.published, [], "what was published to a monitor that watches no known topic", "MON-18")


@case("MON-18", seconds=30.0)
def a_watch_replaces_the_one_before(scene: Scene) -> None:
    watcher, all_along = scene.monitor(), scene.monitor()
    scene.pump.until(lambda: bool(watcher.published), 15.0)
    scene.check(bool(watcher.published), "nothing was published for `status` within 15 s")
    watcher.watch("tasks", "x-weather")
    scene.pump.until(lambda: bool(watcher.of("tasks")), 15.0)
    scene.check(bool(watcher.of("tasks")), "nothing was published for `tasks` within 15 s")
    watcher.watch()
    watcher.fence()
    watcher.published.clear()
    before = len(all_along.published)
    scene.pump.until(lambda: len(all_along.published) >= before + 2, 15.0)
    watcher.fence()
    scene.equal(watcher.published, [], "what was published after an empty Watch")


@case("MON-18", seconds=30.0)
def a_resumed_session_goes_on_watching(scene: Scene) -> None:
    watcher = scene.monitor()
    scene.pump.until(lambda: bool(watcher.published), 15.0)
    watcher.resume()
    before = len(watcher.published)
    scene.pump.until(lambda: len(watcher.published) >= before + 2, 15.0)
    scene.check(len(watcher.published) >= before + 2, "nothing was published after the session was resumed")


@case("MON-20", "MON-2", seconds=40.0)
def a_watcher_that_acknowledges_nothing_gets_little(scene: Scene) -> None:
    """Logs come as fast as tasks print; a publication that is left out raises the numbers all the same."""
    worker, client = scene.worker(credit=1), scene.client()
    (task,) = client.submit(1, flags=CODES.FLAG_STREAM_OUTPUT)
    scene.settle(client, worker)
    worker.expect_dispatch(1)
    deaf, well = scene.monitor("status", "logs"), scene.monitor("status")
    for watcher in (deaf, well):
        watcher.fence()
    deaf.acknowledges = deaf.shows_life = False
    for _ in range(8):
        for _ in range(100):
            worker.send("taskLog", taskId=task.id, stream=1, text="x" * 100)
        worker.fence()
        before = len(well.published)
        scene.pump.until(lambda before=before: len(well.published) > before, 5.0)  # type: ignore[misc]
    size = sum(len(message["text"]) for message in deaf.of("logs"))
    told = f"{len(deaf.published)} messages and {size} bytes were published to a monitor that acknowledges none"
    scene.check(len(deaf.published) <= 257 and size <= 1024 * 1024, told, "MON-20")
    deaf.acknowledges = True
    deaf.acknowledge()
    last = len(deaf.of("status"))
    scene.pump.until(lambda: len(deaf.of("status")) > last, 10.0)
    scene.check(len(deaf.of("status")) > last, "nothing was published after all was acknowledged", "MON-20")
    number = deaf.of("status")[-1]["sequence"]
    scene.pump.until(lambda: well.published[-1]["sequence"] >= number, 10.0)
    numbers = [message["sequence"] for message in well.published]
    scene.check(number in numbers, f"one watcher was given {number}, and another {numbers}", "MON-2")


QUESTIONS = (
    ("snapshotRequest", "clusterStatus"),
    ("explain", "explanation"),
    ("dumpRequest", "dumpPart"),
    ("graphRequest", "graphPart"),
)


@case("MON-22", "MON-3", "MON-15", "MON-16", "MON-63")
def questions_are_answered_in_their_order(scene: Scene) -> None:
    watcher = scene.peer("monitor")
    asked = []
    for number in range(1, 17):
        kind, answer = QUESTIONS[number % len(QUESTIONS)]
        watcher.send(kind, requestId=number)
        asked.append((answer, number))
    watcher.fence(seconds=10.0)
    answers = [(message.kind, message["requestId"]) for message in watcher.inbox]
    scene.equal(answers, asked, "the answers")
    watcher.inbox.clear()


@case("MON-22", "LIV-4", seconds=30.0)
def answers_may_wait_for_acknowledgements(scene: Scene) -> None:
    """A Pong comes after them all the same."""
    watcher, count = scene.peer("monitor"), 60
    watcher.acknowledges = False
    for number in range(1, count + 1):
        watcher.send("snapshotRequest", requestId=number)
    watcher.send("ping", nonce=5)
    watcher.pump.until(lambda: watcher.has_pong(5), 1.0)
    while not watcher.has_pong(5):
        before = len(watcher.inbox)
        watcher.acknowledge()
        _wait_for_more(watcher, before)
        scene.check(len(watcher.inbox) > before or watcher.has_pong(5), "no answer came after an acknowledgement")
    answered = [message["requestId"] for message in watcher.take("clusterStatus")]
    scene.equal(answered, list(range(1, count + 1)), "what was answered before the Pong")


def _wait_for_more(watcher: Dialer, before: int) -> None:
    watcher.pump.until(lambda: len(watcher.inbox) > before or watcher.has_pong(5), 5.0)


@case("MON-22", seconds=30.0)
def whoever_asks_without_end_is_answered_or_refused(scene: Scene) -> None:
    """Each question has one answer, or one refusal that names it; the session may end instead."""
    watcher, bystander = scene.peer("monitor"), scene.peer("monitor")
    asked = {watcher.send("snapshotRequest", requestId=number): number for number in range(1, 2_001)}
    snapshot(bystander)
    watcher.pump.until(lambda: not watcher.is_open or len(watcher.inbox) >= len(asked), 20.0)
    if not watcher.is_open:
        watcher.expect_error(CODES.OVERLOADED, fatal=True)
        return
    answered = [message["requestId"] for message in watcher.take("clusterStatus")]
    refused = [asked.get(message["refSeq"], 0) for message in watcher.inbox if message["code"] == CODES.OVERLOADED]
    watcher.inbox.clear()
    scene.equal(sorted(answered + refused), list(asked.values()), "what was answered or refused")
    scene.equal(answered, sorted(answered), "the order of the answers")


@case("MON-23", seconds=30.0)
def peer_ids_are_never_shown(scene: Scene) -> None:
    """Not in a snapshot, nor in what is published, nor in a dump. Display ids are the same everywhere."""
    watcher, other = scene.monitor("status", "tasks", "graphs"), scene.monitor(is_watching=False)
    manager = scene.peer("manager")
    client, idle = scene.client(), scene.client()
    worker = scene.worker(credit=2, features=["samples"])
    secrets = {peer.name: peer.peer_id for peer in (client, idle, worker, manager, watcher, other)}
    (task,) = client.submit(1, graphId=new_id())
    scene.settle(client, worker)
    worker.send("workerStatus", endedCount=1, samples=task.id + new_id() + bytes(24))
    worker.fence()
    scene.pump.until(lambda: bool(watcher.of("graphs") and watcher.of("status")), 15.0)
    first, second = snapshot(watcher), snapshot(other)
    other.send("dumpRequest", requestId=1)
    part = other.expect("dumpPart", clause="MON-16")
    texts = [part["data"]]
    for number in range(1, part["partCount"]):
        other.send("dumpRequest", requestId=number + 1, part=number)
        texts.append(other.expect("dumpPart", clause="MON-16")["data"])
    shown = b"".join(texts) + repr([message.body for message in (*watcher.published, first, second)]).encode()
    for name, secret in secrets.items():
        is_shown = any(form in shown for form in (secret, secret.hex().encode(), repr(secret)[2:-1].encode()))
        scene.check(not is_shown, f"the peer id of {name} is shown to a monitor")
    ids = [{entry["peerId"] for entry in status[part]} for status in (first, second) for part in ("clients", "workers")]
    scene.equal(ids[2:], ids[:2], "the display ids in a second snapshot")
    scene.check(all(len(one) == 16 for each in ids for one in each), "a display id has not 16 bytes")
    scene.equal([len(each) for each in ids[:2]], [len(first["clients"]), len(first["workers"])], "the count of ids")
    drawn = {shape["clientId"] for message in watcher.of("graphs") for shape in message["graphs"]}
    scene.check(drawn <= ids[0], "the client of a graph has another display id than among the clients")


@case("MON-24", "HSK-19", seconds=30.0)
def monitors_are_served_at_their_address(scene: Scene) -> None:
    address = scene.peer("monitor").welcome["monitorAddress"]
    scene.needs(bool(address), "its Welcome names no address for monitors (chapter 14, Freedoms)")
    watcher, near = scene.monitor(address=address, is_open=False), scene.peer("monitor")
    watcher.dial()
    watcher.expect_welcome("MON-24")
    watcher.watch("status")
    scene.equal(snapshot(watcher)["serverId"], snapshot(near)["serverId"], "the server at the monitor's address")
    scene.pump.until(lambda: bool(watcher.published), 15.0)
    scene.check(bool(watcher.published), "nothing was published at the monitor's address within 15 s")


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
    secret, salt = b"an argument, which no monitor may see", b"sixteen of a kind"[:16]
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
    grant = client.welcome["ownerGrant"]  # empty where there are no keys
    is_shown = grant in data or grant.hex().encode() in data.lower()
    scene.check(not grant or not is_shown, "an ownerGrant is in it", "MON-17")
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


@case("SCH-94")
def an_explanation_says_when_its_worker_is_lost(scene: Scene) -> None:
    """Of two held tasks, one of which stops, and of one that is queued and has no worker."""
    worker, client = scene.worker(credit=2), scene.client()
    held, stopping = client.submit(2)
    scene.settle(client, worker)
    worker.expect_dispatch(2, "SCH-25")
    client.cancel(stopping)
    (queued,) = client.submit(1)
    scene.settle(client)
    lease = worker.welcome["timers"]["leaseSeconds"]
    told = []
    for request, task in enumerate((held, stopping, queued)):
        client.send("explain", requestId=request, taskId=task.id)
        told.append(client.expect("explanation", clause="SCH-33")["lostSeconds"])
    for seconds in told[:2]:
        scene.check(0 < seconds <= lease, f"lostSeconds is {seconds}, and the worker's lease {lease}", "SCH-94")
    scene.equal(told[2], 0, "lostSeconds of a queued task", "SCH-94")


@case("MON-67", seconds=30.0)
def a_worker_with_tasks_is_told_with_the_time_since_it_ended_one(scene: Scene) -> None:
    """Sends heartbeats and further tasks, which are no ends. No time is bounded from above, but by one that was told
    before."""
    worker, client, watcher = scene.worker(credit=3), scene.client(), scene.peer("monitor")

    def told(task: Task | None) -> float:
        worker.send("workerStatus")
        worker.fence()
        (entry,) = snapshot(watcher)["workers"]
        if task is not None:
            client.send("explain", requestId=1, taskId=task.id)
            explained = client.expect("explanation", clause="SCH-33")["stillSeconds"]
            what = f"stillSeconds is {explained} in an Explanation, after {entry['stillSeconds']} in a WorkerEntry"
            scene.check(explained >= entry["stillSeconds"] - 0.001, what, "MON-67")
        return float(entry["stillSeconds"])

    scene.pump.for_seconds(0.3)
    scene.equal(told(None), 0.0, "stillSeconds of a worker without tasks", "MON-67")
    first, second = client.submit(2)
    scene.settle(client, worker)
    held = worker.expect_dispatch(2, "SCH-25")
    scene.pump.for_seconds(1.5)
    client.submit(1)
    scene.settle(client, worker)
    before = told(first)
    scene.check(before >= 1.4, f"stillSeconds is {before} though nothing has ended for 1.5 s", "MON-67")
    worker.finish(held[0])
    scene.settle(client, worker)
    after = told(second)
    scene.check(0.0 < after < before, f"stillSeconds is {after} just after an end, and was {before}", "MON-67")
    for task in (*held[1:], *worker.expect_dispatch(1, "SCH-25")):
        worker.finish(task)
    scene.settle(client, worker)
    scene.equal(told(None), 0.0, "stillSeconds of a worker whose tasks have ended", "MON-67")


@case("MON-3", seconds=30.0)
def the_sequence_of_a_snapshot_is_that_of_the_last_publication(scene: Scene) -> None:
    watcher, asking = scene.monitor(), scene.peer("monitor")

    def last() -> int:
        return max((message["sequence"] for message in watcher.published), default=0)

    scene.pump.until(lambda: last() > 0, 15.0)
    before = last()
    sequence = snapshot(asking)["sequence"]
    scene.pump.until(lambda: last() >= sequence, 0.3)  # published before the answer left, it is here by now
    told = f"a snapshot has sequence {sequence}, and what was published lies between {before} and {last()}"
    scene.check(before <= sequence <= last(), told)
