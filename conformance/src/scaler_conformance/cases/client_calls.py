"""What a client makes of calls (chapter 05). It is told what to do by JSON lines."""

from __future__ import annotations

import itertools
from typing import Any

import zmq

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import content_id, named_function, result_id
from scaler_conformance.play.roles import ids_of
from scaler_conformance.play.scheduler import ClientGuest
from scaler_conformance.play.storage import StorageHost
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Result, Task, encode_task_error, write_results

case = cases_for("client")


def answer(client: ClientGuest, *results: Result) -> int:
    return client.send_batch("results", write_results(results))


def error_result(task: Task, status: int, code: int, **fields: Any) -> Result:
    value = encode_task_error({"code": code, "typeName": "X", "message": "went wrong", "text": "X", **fields})
    return Result(task.id, 1, status, CODES.KIND_INLINE, value)


@case("CLI-1", "CLI-3", "BAT-1", "BAT-3", "BAT-5", "BAT-7", "BAT-8", "STO-2", "FRM-6", "FRM-7", "EVO-3")
def a_call_by_name_is_submitted(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"hello")
    (sent,) = client.wait_for_tasks(1)
    scene.equal(sent.id, task, "the id of the task in the Submit", "CLI-1")
    scene.equal(sent.header["callFormat"], CODES.CALL_RAW, "callFormat of a call by name", "BAT-6")
    scene.equal(sent.function, content_id(named_function("echo")), "the id of the function", "STO-2")
    scene.equal(_argument(scene, sent, 0), b"hello", "the argument", "BAT-6")
    scene.check(sent.header["client"] in (b"", client.peer_id), "header.client is another's", "SCH-4")
    is_stored = scene.pump.until(lambda: sent.function in scene.storage.values, 5.0)
    scene.check(is_stored, "the function was not put into storage", "CLI-3")
    answer(client, Result(sent.id, value=b"the value"))
    told = scene.testee.result(task, clause="CLI-5")
    scene.equal(
        (told["status"], told["value"]),
        (CODES.STATUS_SUCCESS, b"the value".hex()),
        "what the user sees",
        "CLI-5",
    )


def _argument(scene: Scene, task: Task, number: int) -> bytes:
    """As bytes, whether it rides along or was stored."""
    kind, value = task.parts[number]
    if kind == CODES.KIND_OBJECT:
        scene.pump.until(lambda: value in scene.storage.values, 5.0)
        return scene.storage.values.get(value, b"not stored")
    return value


@case("CLI-1")
def every_task_has_an_id_of_its_own(scene: Scene) -> None:
    client = scene.client_under_test()
    tasks = [scene.testee.submit("echo", b"%d" % number) for number in range(20)]
    sent = client.wait_for_tasks(20)
    scene.equal(len(set(tasks)), 20, "the count of different ids")
    scene.equal({task.id for task in sent}, set(tasks), "the ids in the Submits")
    answer(client, *(Result(task.id, value=b"") for task in sent))
    for task in tasks:
        scene.testee.result(task, clause="CLI-5")


@case("CLI-5", "CLI-2")
def results_come_in_any_order_and_batches(scene: Scene) -> None:
    client = scene.client_under_test()
    tasks = scene.testee.map("echo", [[b"%d" % number] for number in range(12)])
    sent = client.wait_for_tasks(12)
    scene.equal(len({task.id for task in sent}), 12, "the count of tasks, each submitted once", "CLI-2")
    backwards = sorted(sent, key=lambda task: tasks.index(task.id), reverse=True)
    answer(client, Result(backwards[0].id, value=b"alone"))
    answer(client, *(Result(task.id, value=task.id) for task in backwards[1:]))
    for number, task in enumerate(tasks):
        expected = b"alone" if number == 11 else task
        scene.equal(scene.testee.result(task)["value"], expected.hex(), "the value that the user sees")


@case("CLI-5", "SES-10")
def a_result_of_an_unknown_task_is_no_matter(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    answer(client, Result(content_id(b"nobody knows it"), value=b"forged"))
    answer(client, Result(sent.id, value=b"true"))
    scene.equal(scene.testee.result(task)["value"], b"true".hex(), "the value that the user sees")
    client.fence()


@case("CLI-7", "BAT-10")
def every_other_status_is_a_failure(scene: Scene) -> None:
    client = scene.client_under_test()
    ends = {
        CODES.STATUS_FAILED: CODES.TASK_RAISED,
        CODES.STATUS_WORKER_LOST: CODES.WORKER_LOST,
        CODES.STATUS_PROCESSOR_DIED: CODES.PROCESSOR_DIED,
        CODES.STATUS_TIMED_OUT: CODES.TASK_TIMED_OUT,
        CODES.STATUS_REFUSED: CODES.FUNCTION_UNREADABLE,
    }
    for status, code in ends.items():
        task = scene.testee.submit("echo", b"x")
        (sent,) = client.wait_for_tasks(1)
        answer(client, error_result(sent, status, code))
        told = scene.testee.result(task)
        scene.check(told["status"] != CODES.STATUS_SUCCESS, f"the user is told of a success at status {status}")
    task = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    answer(client, error_result(sent, CODES.STATUS_FAILED, 54_321))
    told = scene.testee.result(task)
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "the user is told of a success at an unknown code", "ERR-7")


@case("CLI-10", "PAY-3", "ERR-7")
def a_refused_submit_ends_its_tasks(scene: Scene) -> None:
    """And an error that cannot be read is one with a code only."""
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"x")
    scene.pump.until(lambda: any(message.kind == "submit" for message in client.inbox), 5.0)
    submit = client.expect("submit", clause="CLI-3")
    client.send("error", code=CODES.BAD_BATCH, refSeq=submit.seq, text="refused by the suite", clause="BAT-2")
    told = scene.testee.result(task, clause="CLI-10")
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "the task of a refused Submit succeeded for the user", "CLI-10")
    other = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    answer(client, Result(sent.id, 1, CODES.STATUS_FAILED, CODES.KIND_INLINE, b"no TaskError at all"))
    told = scene.testee.result(other, clause="PAY-3")
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "the user is told of a success", "PAY-3")


@case("CLI-4", "PAY-1", "LIM-1", "BAT-4", fresh=True)
def batches_keep_the_limits_of_the_session(scene: Scene) -> None:
    scene.scheduler.limits |= {"batchTasks": 3, "inlineBytes": 1024}
    client = scene.client_under_test()
    scene.testee.map("echo", [[b"%d" % number] for number in range(10)])
    big = scene.testee.submit("echo", b"b" * 2000)
    sizes: list[int] = []
    tasks: list[Task] = []

    def all_there() -> bool:
        sizes.extend(len(message["ids"]) // 16 for message in client.inbox if message.kind == "submit")
        tasks.extend(client.submitted("CLI-4"))
        return len(tasks) >= 11

    scene.check(scene.pump.until(all_there, 10.0), f"{len(tasks)} of 11 tasks were submitted", "CLI-3")
    scene.check(max(sizes) <= 3, f"a Submit has {max(sizes)} tasks, 3 were agreed", "CLI-4")
    (sent,) = (task for task in tasks if task.id == big)
    scene.equal(sent.parts[0][0], CODES.KIND_OBJECT, "the kind of a part of 2000 bytes; inlineBytes is 1024", "PAY-1")
    scene.equal(_argument(scene, sent, 0), b"b" * 2000, "the stored argument", "CLI-3")


@case("CLI-3", "OWN-2", "OWN-11", "PAY-1", "STO-1", "BAT-8")
def a_large_argument_is_stored_in_its_own_name(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"l" * 300_000)
    (sent,) = client.wait_for_tasks(1)
    kind, identifier = sent.parts[0]
    scene.equal(kind, CODES.KIND_OBJECT, "the kind of a part of 300000 bytes", "PAY-1")
    scene.equal(_argument(scene, sent, 0), b"l" * 300_000, "the stored argument")
    scene.equal(scene.storage.owners.get(identifier), {client.peer_id}, "the owners of the argument", "OWN-11")
    answer(client, Result(sent.id, value=b"done"))
    scene.testee.result(task)
    gone = scene.pump.until(lambda: identifier not in scene.storage.values, 10.0)
    scene.check(gone, "the argument is still in storage, and no task names it any more", "OWN-2")


@case("OWN-13")
def functions_that_are_used_once_do_not_stay(scene: Scene) -> None:
    client = scene.client_under_test()
    for begin in range(0, 1200, 100):
        tasks = [scene.testee.submit(f"used-once-{number}", b"x") for number in range(begin, begin + 100)]
        answer(client, *(Result(sent.id, value=b"done") for sent in client.wait_for_tasks(100)))
        for task in tasks:
            scene.testee.result(task)
    few = scene.pump.until(lambda: len(scene.storage.values) <= 1024, 5.0)
    scene.check(few, f"{len(scene.storage.values)} functions stay, and no unfinished task names one")


@case("STO-5", "STO-6", "CLI-3")
def a_very_large_argument_is_put_in_chunks(scene: Scene) -> None:
    client, size = scene.client_under_test(), 9 << 20
    task = scene.testee.submit("echo", bytes(size))
    (sent,) = client.wait_for_tasks(1)
    scene.check(_argument(scene, sent, 0) == bytes(size), "the stored argument is another", "CLI-3")
    puts = [message for message in scene.storage.asked("put") if message["objectId"] == sent.parts[0][1]]
    sizes = [len(message.payload[0]) for message in puts]
    scene.check(max(sizes) <= 8 << 20, f"a chunk has {max(sizes)} bytes", "STO-6")
    expected = [sum(sizes[:number]) for number in range(len(sizes))]
    scene.equal([message["offset"] for message in puts], expected, "the offsets of the chunks", "STO-5")
    answer(client, Result(sent.id, value=b"done"))
    scene.testee.result(task)


@case("OWN-10", "STO-13")
def a_result_object_is_fetched_and_released(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("bytes_n", b"3000000")
    (sent,) = client.wait_for_tasks(1)
    identifier, value = result_id(sent.id, 1), bytes(range(250)) * 12_000
    scene.storage.store(identifier, value, client.peer_id)
    answer(client, Result(sent.id, kind=CODES.KIND_OBJECT, value=identifier))
    told = scene.testee.result(task)
    scene.equal(told.get("value"), value.hex(), "the value that the user sees", "STO-13")
    released = scene.pump.until(lambda: identifier not in scene.storage.values, 10.0)
    scene.check(released, "the result object is still in storage, and it was fetched")


@case("CAN-1", "CLI-2")
def a_cancel_names_the_task(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("sleep_ms", b"9000")
    (sent,) = client.wait_for_tasks(1)
    scene.testee.ask("cancel", tasks=[task.hex()])
    cancel = client.expect("cancel")
    scene.check(task in ids_of(cancel["ids"]) or cancel["isAll"], "the Cancel does not name the task")
    answer(client, Result(sent.id, 1, CODES.STATUS_CANCELED, CODES.KIND_NONE, b""))
    client.send("cancelReply", ids=task, outcomes=bytes([CODES.CANCEL_CANCELED]))
    told = scene.testee.result(task)
    scene.equal(told["status"], CODES.STATUS_CANCELED, "the status that the user sees", "CAN-2")


def cancel(scene: Scene, client: ClientGuest) -> bytes:
    """A task that was submitted and then canceled."""
    task = scene.testee.submit("sleep_ms", b"9000")
    client.wait_for_tasks(1)
    scene.testee.ask("cancel", tasks=[task.hex()])
    client.expect("cancel", clause="CAN-1")
    return task


@case("CAN-1", "CLI-5")
def a_cancel_that_came_too_late_changes_nothing(scene: Scene) -> None:
    client = scene.client_under_test()
    task = cancel(scene, client)
    client.send("cancelReply", ids=task, outcomes=bytes([CODES.CANCEL_TOO_LATE]))
    client.fence()
    answer(client, Result(task, value=b"in time"))
    told = scene.testee.result(task, clause="CLI-5")
    scene.equal(
        (told["status"], told.get("value")),
        (CODES.STATUS_SUCCESS, b"in time".hex()),
        "what the user sees",
    )


@case("CAN-10")
def a_task_that_nobody_knows_any_more_has_ended(scene: Scene) -> None:
    client = scene.client_under_test()
    task = cancel(scene, client)
    client.send("cancelReply", ids=task, outcomes=bytes([CODES.CANCEL_UNKNOWN]))
    told = scene.testee.result(task)
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "the user is told of a success of a task that is unknown")


@case("CLI-10", "ERR-5")
def an_error_about_something_else_ends_no_task(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    for number in (0, 60_000):
        client.send("error", code=CODES.UNKNOWN_TASK, refSeq=number, text="about a message that carried no tasks")
    client.fence()
    answer(client, Result(sent.id, value=b"v"))
    told = scene.testee.result(task, clause="CLI-5")
    scene.equal((told["status"], told.get("value")), (CODES.STATUS_SUCCESS, b"v".hex()), "what the user sees")


@case("LIM-1", "CLI-4", "CLI-8", fresh=True, seconds=60.0)
def all_limits_are_kept_when_much_is_sent_at_once(scene: Scene) -> None:
    """What was submitted while nobody answered leaves together: 10 MB of it as parts, and far more ids than fit."""
    floors = {"inlineBytes": 16_384, "payloadFrameBytes": 8 << 20, "envelopeBytes": 65_536}
    scene.scheduler.limits |= floors
    scene.scheduler.timers["leaseSeconds"] = 60.0  # nobody is lost for silence meanwhile
    scene.testee.ask("connect", scheduler=scene.scheduler.address, heartbeat=0.25, lease=60.0)
    client = scene.scheduler.guest("client")
    assert isinstance(client, ClientGuest)
    scene.scheduler.deaf_to = frozenset({"client"})
    client.lose()
    large = scene.testee.map("echo", [[b"p" * 16_000] for _ in range(600)])
    small = scene.testee.map("echo", [[b""] for _ in range(4_500)])
    scene.scheduler.deaf_to = frozenset()
    _begun_again(scene, client).wait_for_tasks(len(small) + len(large), 30.0, "CLI-8")


@case("CLI-4", "LIM-1", fresh=True, seconds=60.0)
def a_map_of_more_than_a_payload_leaves_in_several_batches(scene: Scene) -> None:
    """Twelve megabytes in values that ride along, at once, to a scheduler that takes eight in one payload."""
    scene.scheduler.limits |= {"payloadFrameBytes": 8 << 20, "inlineBytes": 65_536}
    client = scene.client_under_test()
    values = [b"%03d" % number * 20_000 for number in range(200)]
    tasks = scene.testee.map("echo", [[value] for value in values])
    sizes: list[int] = []
    sent: list[Task] = []

    def all_there() -> bool:
        sizes.extend(sum(map(len, message.payload)) for message in client.inbox if message.kind == "submit")
        sent.extend(client.submitted("CLI-4"))
        return len(sent) >= len(tasks)

    scene.check(scene.pump.until(all_there, 20.0), f"{len(sent)} of {len(tasks)} tasks were submitted", "CLI-4")
    scene.check(max(sizes) <= 8 << 20, f"a payload has {max(sizes)} bytes, 8 MiB were agreed", "LIM-1")
    found = {task.id: _argument(scene, task, 0) for task in sent}
    scene.check([found.get(task) for task in tasks] == values, "a task has another argument than it was given", "CLI-4")


@case("CLI-1", fresh=True)
def ids_do_not_come_again_with_the_next_connection(scene: Scene) -> None:
    used: set[bytes] = set()
    for _ in range(2):
        scene.client_under_test()
        tasks = {scene.testee.submit("echo", b"x") for _ in range(3)}
        scene.equal(used & tasks, set(), "the ids that an earlier connection has used")
        used |= tasks
        scene.testee.ask("close")


@case("CLI-20")
def an_id_does_not_follow_from_the_one_before(scene: Scene) -> None:
    client = scene.client_under_test()
    ids: list[bytes] = []
    for number in range(4):
        scene.testee.submit("echo", b"%d" % number)
        (sent,) = client.wait_for_tasks(1)
        ids.append(sent.id)
    for one, other in itertools.pairwise(ids):
        changed = sum(before != after for before, after in zip(one, other, strict=True))
        scene.check(changed >= 4, f"of {other.hex()} only {changed} bytes are not those of {one.hex()}, the id before")


@case("OWN-14")
def each_connection_has_a_salt_of_its_own(scene: Scene) -> None:
    salts: list[bytes] = []
    for _ in range(2):
        client = scene.client_under_test()
        for number in range(2):
            scene.testee.submit("echo", b"%d" % number)
            (sent,) = client.wait_for_tasks(1)
            salts.append(sent.header["resultSalt"])
        scene.testee.ask("close")
    lengths = {len(salt) for salt in salts}
    scene.equal(lengths, {16}, "the lengths of resultSalt")
    first, _, second, _ = salts
    scene.check(first != second, "two connections have one resultSalt")


@case("HSK-18", fresh=True)
def a_storage_without_an_address_is_at_the_next_port(scene: Scene) -> None:
    host, _, port = scene.scheduler.address.rpartition(":")
    try:
        storage = StorageHost(scene.pump, scene.transcript, "storage", f"{host}:{int(port) + 1}")
    except zmq.ZMQError:
        scene.needs(False, "the port after the scheduler's is somebody else's")
    scene.scheduler.storage_address = ""
    client = scene.client_under_test()
    scene.testee.tell("submit", function="echo", arguments=[(b"l" * 300_000).hex()])
    is_stored = scene.pump.until(lambda: any(len(value) == 300_000 for value in storage.values.values()), 10.0)
    scene.check(is_stored, f"a large argument was not put into the storage at port {int(port) + 1}")
    client.wait_for_tasks(1)
    storage.close()


@case("BAT-2", "ERR-1", "ERR-9")
def results_that_break_their_rules_are_refused(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    good = write_results([Result(sent.id, value=b"ok")])
    for columns in ({"sizes": bytes(8)}, {"ids": sent.id * 2}, {"payload": b"too long"}, {"kinds": b"\x63"}):
        seq = client.send_batch("results", {**good, **columns})
        client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)
    client.send_batch("results", good)
    scene.equal(scene.testee.result(task)["value"], b"ok".hex(), "the value that the user sees", "ERR-1")


@case("CLI-8", "CLI-11", "SES-11", "BAT-2", fresh=True, seconds=40.0)
def after_a_lost_session_it_begins_again(scene: Scene) -> None:
    """The scheduler knows nothing of it any more: unfinished tasks come again, under another peerId."""
    client = scene.client_under_test()
    tasks = [scene.testee.submit("echo", argument) for argument in (b"one", b"two", b"three")]
    sent = {task.id: task for task in client.wait_for_tasks(3)}
    answer(client, Result(tasks[0], value=b"done"))
    scene.testee.result(tasks[0])
    client.fence()
    client.lose()
    again = _begun_again(scene, client)
    unfinished = again.wait_for_tasks(2, clause="CLI-8")
    ids = sorted(task.id for task in unfinished)  # in which order is its own affair
    scene.equal(ids, sorted(tasks[1:]), "the unfinished tasks, with their old ids", "CLI-8")
    for task in unfinished:
        scene.equal(task.parts, sent[task.id].parts, "its parts", "CLI-8")
        answer(again, Result(task.id, value=b"at last"))
        scene.equal(scene.testee.result(task.id)["value"], b"at last".hex(), "the value that the user sees", "CLI-8")
    released = scene.pump.until(lambda: client.peer_id not in _owners(scene), 5.0)
    scene.check(released, "it still owns objects under its old peerId", "CLI-11")


def _owners(scene: Scene) -> set[bytes]:
    return {owner for owners in scene.storage.owners.values() for owner in owners}


def _begun_again(scene: Scene, client: ClientGuest) -> ClientGuest:
    """Its session under another peerId."""

    def others() -> list[ClientGuest]:
        every = scene.scheduler.guests
        return [each for each in every if isinstance(each, ClientGuest) and each.peer_id != client.peer_id]

    scene.check(scene.pump.until(lambda: bool(others()), 15.0), "it did not begin again under a new peerId", "CLI-8")
    return others()[0]


@case("CLI-13", "STO-17", fresh=True, seconds=40.0)
def a_storage_that_was_restarted_gets_the_objects_again(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"l" * 300_000)
    (sent,) = client.wait_for_tasks(1)
    _argument(scene, sent, 0)
    identifier = sent.parts[0][1]
    scene.storage.begin_again()
    back = scene.pump.until(lambda: identifier in scene.storage.values, 15.0)
    scene.check(back, "a storage of another serverId did not get what an unfinished task needs")
    answer(client, Result(sent.id, value=b"v"))
    scene.equal(scene.testee.result(task)["value"], b"v".hex(), "the value that the user sees", "CLI-5")


@case("CLI-8", "SES-7")
def a_resumed_session_costs_nothing(scene: Scene) -> None:
    client = scene.client_under_test()
    task = scene.testee.submit("echo", b"x")
    (sent,) = client.wait_for_tasks(1)
    client.end(CODES.SEQUENCE_GAP)
    scene.pump.until(lambda: len(scene.scheduler.hellos) >= 2, 5.0)
    client.fence(clause="SES-18")
    scene.equal(client.submitted(), [], "tasks that were submitted again in a resumed session", "CLI-2")
    answer(client, Result(sent.id, value=b"v"))
    scene.equal(scene.testee.result(task)["value"], b"v".hex(), "the value that the user sees", "CLI-5")


@case("CLI-12", fresh=True, seconds=30.0)
def what_is_unfinished_fails_when_no_session_can_be_had(scene: Scene) -> None:
    """The scheduler falls silent for good; the user has chosen to wait a second for another."""
    client = scene.client_under_test(give_up=1.0)
    task = scene.testee.submit("echo", b"x")
    client.wait_for_tasks(1)
    client.fence()
    scene.scheduler.is_silent = True
    told = scene.testee.result(task, seconds=12.0, clause="CLI-12")
    scene.check(told["status"] != CODES.STATUS_SUCCESS, "the user is told of a success that nobody has reported")
