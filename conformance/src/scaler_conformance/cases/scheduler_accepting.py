"""What a scheduler takes from clients, and what it refuses (chapters 06 and 08)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.dialer import Dialer
from scaler_conformance.play.ids import new_id
from scaler_conformance.play.roles import RAW, error_of
from scaler_conformance.scene import Scene
from scaler_conformance.wire import CODES, Message, encode, write_tasks

from .scheduler_graphs import after

case = cases_for("scheduler")


@case("SCH-1", "ERR-1")
def a_refused_batch_is_refused_as_a_whole(scene: Scene) -> None:
    """Two good tasks and one that is there already: none of the three is run."""
    worker, client = scene.worker(credit=0), scene.client()
    (task,) = client.submit(1)
    client.fence()
    client.expect_nothing("the first Submit is well-formed")
    seq = client.submit_batch([*client.new_tasks(2), task])
    client.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False, clause="SCH-2")
    client.fence()
    client.expect_nothing("a refused batch is answered once")
    worker.credit(10)
    worker.fence()
    tasks = worker.expect_dispatch(1, "SCH-1", "one task was accepted")
    scene.equal(tasks[0].id, task.id, "the task that is run", "SCH-1")


@case("SCH-2")
def an_id_that_is_unfinished_is_refused(scene: Scene) -> None:
    client = scene.client()
    (task,) = client.submit(1)
    client.fence()
    for _ in range(2):
        seq = client.submit_batch([task])
        client.expect_error(CODES.DUPLICATE_TASK, ref_seq=seq, fatal=False)
        client.fence()
        client.expect_nothing("a refused batch is answered once", "SCH-1")


@case("SCH-2")
def an_id_that_has_ended_may_come_again(scene: Scene) -> None:
    worker, client = scene.worker(credit=1), scene.client()
    (task,) = client.submit(1)
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1))
    scene.settle(worker, client)
    client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-13")
    client.acknowledge()
    client.submit([task])
    scene.settle(client, worker)
    client.expect_nothing("the former task of this id has ended")
    worker.expect_dispatch(1, "SCH-25")


@case("SCH-3")
def a_dispatch_names_its_client(scene: Scene) -> None:
    worker, client = scene.worker(credit=2), scene.client()
    client.submit(1)
    client.submit(1, client=client.peer_id)
    scene.settle(client, worker)
    for task in worker.expect_dispatch(2, "SCH-25"):
        scene.equal(task.header["client"], client.peer_id, "header.client of the Dispatch")


@case("SCH-4")
def tasks_in_the_name_of_another_are_refused(scene: Scene) -> None:
    worker, client, other = scene.worker(credit=1), scene.client(), scene.client()
    for name in (other.peer_id, new_id()):
        seq = client.submit_batch(client.new_tasks(1), client=name)
        client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)
    scene.settle(client, worker)
    worker.expect_nothing("both batches were refused", "SCH-1")


@case("BAT-2", "SCH-1")
def columns_that_disagree_are_refused(scene: Scene) -> None:
    worker, client = scene.worker(credit=5), scene.client()
    good = write_tasks(client.new_tasks(2), {"callFormat": RAW})
    wrong = {
        "an id too few": {"ids": good["ids"][:16]},
        "half an id": {"ids": good["ids"] + bytes(8)},
        "no id": {"ids": b"", "partSizes": b"", "payload": b""},
        "an id twice": {"ids": good["ids"][:16] * 2},
        "no function": {"functions": b""},
        "a function index outside": {"functionIndexes": b"\0\0\1\0"},
        "an index for each of three": {"functionIndexes": bytes(6)},
        "a part kind too many": {"partKinds": bytes(3)},
        "a part kind that nobody knows": {"partKinds": b"\0\x09"},
        "sizes of three parts": {"partSizes": good["partSizes"] + bytes(4)},
        "a size that is cut": {"partSizes": good["partSizes"][:-1]},
        "a payload too short": {"payload": b"x"},
        "a payload too long": {"payload": b"xxx"},
        "sizes that overflow": {"partSizes": b"\xff\xff\xff\xff\3\0\0\0"},
        "counts of one task": {"partCounts": b"\1\0"},
        "a dependency without its count": {"dependencies": bytes(16)},
        "flags of three tasks": {"taskFlags": bytes(3)},
        "a key without its size": {"keys": b"k"},
        "the size of one key": {"keySizes": b"\1", "keys": b"k"},
        "sizes of other keys": {"keySizes": b"\1\2", "keys": b"k"},
    }
    for what, columns in wrong.items():
        scene.transcript.note(client.name, what)
        seq = client.send_batch("submit", {**good, **columns})
        codes = (CODES.BAD_BATCH, CODES.BAD_ENVELOPE) if what == "half an id" else (CODES.BAD_BATCH,)
        client.expect_error(*codes, ref_seq=seq, fatal=False)
    scene.settle(client, worker)
    client.expect_nothing("each batch is refused once", "ERR-1")
    worker.expect_nothing("all batches were refused", "SCH-1")


@case("BAT-5")
def columns_of_a_dispatch_are_refused_in_a_submit(scene: Scene) -> None:
    client = scene.client()
    good = write_tasks(client.new_tasks(1), {"callFormat": RAW})
    for columns in (
        {"attempts": b"\1\0"},
        {"inputIds": new_id(), "inputSizes": b"\1\0\0\0", "payload": b"xx"},
    ):
        seq = client.send_batch("submit", {**good, **columns})
        client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)


@case("BAT-1", "BAT-2")
def columns_written_out_mean_the_same(scene: Scene) -> None:
    """Every column whose items all have the default may be empty or written out."""
    worker, client = scene.worker(credit=5), scene.client()
    tasks = client.new_tasks(2, parts=((0, b"ab"), (0, b"")))
    body = write_tasks(tasks, {"callFormat": RAW})
    body |= {"functionIndexes": bytes(4), "partKinds": bytes(4), "dependencyCounts": bytes(4), "taskFlags": bytes(2)}
    client.send_batch("submit", body)
    scene.settle(client, worker)
    client.expect_nothing("the batch is well-formed")
    for task in worker.expect_dispatch(2):
        scene.equal(task.parts, tasks[0].parts, "the parts of the task")


@case("BAT-13")
def a_long_key_is_refused(scene: Scene) -> None:
    client = scene.client()
    client.submit(client.new_tasks(1, key=b"k" * 64) + client.new_tasks(1))
    client.fence()
    client.expect_nothing("a key of exactly the limit")
    seq = client.submit_batch(client.new_tasks(1) + client.new_tasks(1, key=b"k" * 65))
    client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)


@case("BAT-4")
def a_batch_above_the_agreed_count_is_refused(scene: Scene) -> None:
    client = scene.client(limits={"batchTasks": 3})
    client.submit(3)
    client.fence()
    client.expect_nothing("a batch of exactly the limit")
    seq = client.submit_batch(client.new_tasks(4))
    client.expect_error(CODES.TOO_LARGE, ref_seq=seq, fatal=False)


@case("SES-4")
def many_bytes_are_acknowledged_although_nothing_answers_them(scene: Scene) -> None:
    """A Submit of 36 MB, and nobody to run its tasks."""
    client = scene.client()
    client.fence()
    client.shows_life = False  # a Pong would bring the ack as well
    client.submit(client.new_tasks(600, parts=((0, b"x" * 60_000),)))
    scene.pump.until(lambda: client.acknowledged_seq >= client.sent_seq, 3.0)
    scene.check(client.acknowledged_seq >= client.sent_seq, "36 MB came in, and no ack followed within 3 s")


@case("FRM-8")
def columns_that_are_cut_are_not_read(scene: Scene) -> None:
    """Ids and names of functions, rows of samples, outcomes of a Cancel."""
    client, worker = scene.client(), scene.worker()
    wrong: list[tuple[Dialer, str, dict[str, Any]]] = [
        (client, "nameFunctions", {"ids": new_id() + bytes(8), "names": ["f"]}),
        (client, "nameFunctions", {"ids": new_id(), "names": ["f", "g"]}),
        (worker, "workerStatus", {"samples": bytes(55), "endedCount": 1}),
        (worker, "cancelReply", {"ids": new_id(), "outcomes": bytes(2)}),
    ]
    for peer, kind, body in wrong:
        seq = peer.next_seq()
        frames = encode(Message(kind, body, seq, peer.received_seq))
        peer.refused(frames, f"#{seq}   {kind} with a column that is cut", CODES.BAD_ENVELOPE, ref_seq=seq)


@case("BAT-4", "LIM-1")
def batches_of_any_size_are_accepted_and_kept_within_the_workers_limits(scene: Scene) -> None:
    worker = scene.worker(credit=2000, limits={"batchTasks": 7})
    client = scene.client()
    submitted = client.submit(1) + client.submit(1000)
    scene.settle(client, worker)
    sizes = [len(message["ids"]) // 16 for message in worker.inbox if message.kind == "dispatch"]
    scene.check(max(sizes, default=0) <= 7, f"a Dispatch has {max(sizes, default=0)} tasks, 7 were agreed", "LIM-1")
    tasks = worker.expect_dispatch(1001, "SCH-25")
    scene.equal({task.id for task in tasks}, {task.id for task in submitted}, "the set of tasks", "SCH-25")


@case("LIM-3")
def a_dispatch_keeps_the_limits_of_its_worker(scene: Scene) -> None:
    """Three tasks of four 1 KiB parts each, to a worker whose envelopes and payloads have their floors."""
    floors = {"inlineBytes": 1024, "payloadFrameBytes": 8 << 20, "batchTasks": 1, "envelopeBytes": 65_536}
    worker, client = scene.worker(credit=50, limits=floors), scene.client()
    client.submit(client.new_tasks(20, parts=tuple((0, b"x" * 1024) for _ in range(4))))
    scene.settle(client, worker)
    sizes = {len(message["ids"]) // 16 for message in worker.inbox if message.kind == "dispatch"}
    scene.equal(sizes, {1}, "the counts of tasks in the Dispatches")
    worker.expect_dispatch(20, "SCH-25")


@case("LIM-3")
def a_dispatch_keeps_each_limit_by_itself(scene: Scene) -> None:
    """Tasks of a thousand parts fill an envelope, tasks of one part fill a payload; of both there are few."""
    limits = {"envelopeBytes": 65_536, "payloadFrameBytes": 8 << 20, "batchTasks": 65_536}
    client = scene.client()
    for parts, count in ((((0, b"x"),) * 1000, 40), (((0, b"x" * 60_000),), 300)):
        worker = scene.worker(credit=0, limits=limits)
        client.submit(client.new_tasks(count, parts=parts))
        client.fence()
        worker.credit(count)
        worker.fence()
        worker.finish(*worker.expect_dispatch(count, "SCH-25"))
        worker.leave()


@case("LIM-3")
def the_inputs_of_a_dispatch_keep_the_limits_too(scene: Scene) -> None:
    """Two tasks take 85 results of 60 KB each: one of them fits into a payload, and both together do not."""
    worker, client = scene.worker(credit=0, limits={"payloadFrameBytes": 8 << 20}), scene.client()
    *sources, last = client.new_tasks(171)
    sums = [after(client, *sources[at : at + 85]) for at in (0, 85)]
    client.submit([*sources, last, *(replace(one, dependencies=(*one.dependencies, last.id)) for one in sums)])
    worker.credit(173)
    scene.settle(client, worker)
    held = worker.expect_dispatch(171, "SCH-25")
    for part in (held[:85], held[85:170], held[170:]):
        worker.finish(*part, value=b"v" * 60_000)
    worker.fence()
    worker.expect_dispatch(2, "SCH-18", "all they depend on has succeeded")


@case("LIM-3")
def results_keep_the_limits_of_their_client(scene: Scene) -> None:
    """Twenty tasks end in one message of their worker, for a client that takes seven at a time."""
    worker, client = scene.worker(credit=20), scene.client(limits={"batchTasks": 7})
    client.submit(client.new_tasks(7))
    client.submit(client.new_tasks(7))
    client.submit(client.new_tasks(6))
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(20, "SCH-25"))
    scene.settle(worker, client)
    sizes = [len(message["ids"]) // 16 for message in client.inbox if message.kind == "results"]
    scene.equal(sum(sizes), 20, "the tasks whose end was told", "SCH-13")
    scene.check(max(sizes) <= 7, f"Results have {max(sizes)} tasks, 7 were agreed")


@case("LIM-3")
def a_part_too_large_for_one_worker_goes_to_another(scene: Scene) -> None:
    small = scene.worker(credit=5, limits={"inlineBytes": 1024})
    client = scene.client()
    client.submit(client.new_tasks(1, parts=((0, b"x" * 4096),)))
    scene.settle(client, small)
    small.expect_nothing("inlineBytes of this worker is 1024 and the part has 4096")
    large = scene.worker(credit=1)
    large.fence()
    large.expect_dispatch(1, "SCH-25")


@case("BAT-8")
def references_have_sixteen_bytes(scene: Scene) -> None:
    client = scene.client()
    for kind in (CODES.KIND_OBJECT, CODES.KIND_TASK):
        seq = client.submit_batch(client.new_tasks(1, parts=((kind, b"short"),)))
        client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)


@case("BAT-7")
def a_call_has_the_parts_that_its_format_needs(scene: Scene) -> None:
    client = scene.client()
    seq = client.submit_batch(client.new_tasks(1, parts=((0, b"x"),)), callFormat=1, keywords=["a", "b"])
    client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)
    seq = client.submit_batch(client.new_tasks(1, parts=()), callFormat=0)
    client.expect_error(CODES.BAD_BATCH, ref_seq=seq, fatal=False)


@case("EVO-4", "EVO-5")
def open_values_that_nobody_knows_are_passed_on(scene: Scene) -> None:
    """Call format, header flags and task flags are open: a scheduler forwards what it does not know."""
    worker, client = scene.worker(credit=2), scene.client()
    client.submit(client.new_tasks(1, flags=0b1010_0000), callFormat=4242, flags=0x8000_0001)
    scene.settle(client, worker)
    client.expect_nothing("unknown open values are no error")
    (task,) = worker.expect_dispatch(1)
    scene.equal(task.header["callFormat"], 4242, "callFormat of the Dispatch")
    scene.equal(task.header["flags"], 0x8000_0001, "header.flags of the Dispatch")


@case("EVO-5", "SCH-3", "SCH-38")
def the_header_and_the_parts_reach_the_worker(scene: Scene) -> None:
    worker, client = scene.worker(credit=1, capabilities={"gpu": 4}), scene.client()
    header: dict[str, Any] = {
        "keywords": ["alpha", "beta"],
        "serializer": new_id(),
        "capabilities": [{"name": "gpu", "amount": 1}],
        "priority": -7,
        "flags": 3,
        "timeoutSeconds": 12.5,
        "retries": 0,
        "lostProcessorsLimit": 7,
    }
    sent = client.new_tasks(1, parts=((0, b"one"), (1, new_id()), (0, b"")))
    client.submit(sent, **header)
    scene.settle(client, worker)
    (task,) = worker.expect_dispatch(1, "SCH-25")
    for name, value in header.items():
        scene.equal(task.header[name], value, f"header.{name} of the Dispatch", "EVO-5")
    scene.equal((task.function, task.parts), (sent[0].function, sent[0].parts), "function and parts", "SCH-38")


@case("BAT-3", "BAT-5")
def a_dispatch_has_no_column_of_a_submit(scene: Scene) -> None:
    worker, client = scene.worker(credit=2), scene.client()
    (first,) = client.submit(1)
    client.submit([replace(task, dependencies=(first.id,)) for task in client.new_tasks(1)])
    scene.settle(client, worker)
    worker.finish(*worker.expect_dispatch(1, "SCH-18"))
    worker.fence()
    for message in worker.inbox:
        if message.kind == "dispatch":
            columns = message["dependencyCounts"], message["dependencies"]
            scene.equal(columns, (b"", b""), "the columns of dependencies in a Dispatch", "BAT-3")
    worker.expect_dispatch(1, "SCH-18")


@case("SCH-32", variant="bounded")
def tasks_beyond_the_bound_are_refused_one_by_one(scene: Scene) -> None:
    """The variant `bounded` lets ten tasks wait for a worker."""
    client = scene.client()
    client.submit(8)
    client.fence()
    client.expect_nothing("eight may wait")
    client.submit(5)
    client.fence()
    rows = client.results()
    client.expect_nothing("a Submit beyond the bound is accepted all the same")
    scene.equal(len(rows), 3, "the count of tasks that are refused")
    for row in rows:
        scene.equal(row.status, CODES.STATUS_REFUSED, "the status")
        scene.equal(error_of(row)["code"], CODES.QUEUE_FULL, "the code of the TaskError")
    worker = scene.worker(credit=50)
    worker.fence()
    worker.expect_dispatch(10, "SCH-25")


@case("LIM-35", "SCH-1", variant="bounded")
def a_batch_beyond_the_quota_of_its_user_is_refused_whole(scene: Scene) -> None:
    """The variant `bounded` lets each user have thirty unfinished tasks. Ten wait, and a worker has the others."""
    worker, client = scene.worker(credit=25), scene.client()
    first = client.submit(25)
    scene.settle(client, worker)
    dispatched = worker.expect_dispatch(25, "SCH-25")
    seq = client.submit_batch(client.new_tasks(6))
    client.expect_error(CODES.QUOTA, ref_seq=seq, fatal=False, clause="LIM-35")
    client.submit(5)
    client.fence()
    client.expect_nothing("thirty unfinished tasks are within the quota", "LIM-35")
    worker.finish(*dispatched)
    scene.settle(worker, client)
    for task in first:
        client.expect_status(task, CODES.STATUS_SUCCESS, clause="SCH-1")


@case("CRD-7", "SCH-23", "SCH-38")
def a_batch_of_one_part_or_none_is_passed_on(scene: Scene) -> None:
    """A worker without credit stays connected and gets nothing, until it has credit."""
    worker, client = scene.worker(credit=0), scene.client()
    client.submit(client.new_tasks(1, parts=()))
    scene.settle(client, worker)
    worker.expect_nothing("its credit is zero")
    worker.credit(1)
    worker.fence()
    (task,) = worker.expect_dispatch(1, "SCH-25")
    scene.equal(task.parts, (), "the parts", "SCH-38")
