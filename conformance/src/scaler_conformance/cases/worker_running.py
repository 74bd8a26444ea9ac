"""What a worker makes of tasks (chapter 07). Functions are called by name, with raw bytes."""

from __future__ import annotations

from typing import Any

from scaler_conformance.case import cases_for
from scaler_conformance.play.ids import content_id, named_function, new_id, result_id
from scaler_conformance.play.roles import error_of, ids_of, outcomes_of
from scaler_conformance.play.scheduler import ClientGuest, WorkerGuest
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Result, Task, write_results, write_tasks
from scaler_conformance.wire.codes import STATUSES

case = cases_for("worker")


def call(scene: Scene, function: str, *arguments: bytes, **fields: Any) -> Task:
    """A task nobody has heard of, with inline arguments."""
    parts = tuple((CODES.KIND_INLINE, argument) for argument in arguments)
    task = Task(id=new_id(), function=content_id(named_function(function)), **{"parts": parts, **fields})
    scene.transcript.name(task.id, "t")
    return task


def run(scene: Scene, worker: WorkerGuest, *tasks: Task, **header: Any) -> list[Result]:
    """Dispatch them as far as its credit goes, and wait for all results."""
    client = header.pop("client", None) or new_id()
    results = []
    for task in tasks:  # one after the other: its credit is its own affair
        worker.dispatch([task], client, **header)
        results += worker.wait_for_results(task)
    return results


def is_success(scene: Scene, result: Result, value: bytes, clause: str = "") -> None:
    status = STATUSES.get(result.status, result.status)
    told = "" if result.status == 0 or not result.value else f": {error_of(result)['message'][:200]}"
    scene.check(result.status == CODES.STATUS_SUCCESS, f"the task ended {status}{told}", clause)
    scene.equal((result.kind, result.value), (CODES.KIND_INLINE, value), "kind and value", clause)


@case("WRK-2", "WRK-1", "BAT-1", "BAT-3", "BAT-8", "BAT-11", "CAN-1", "FRM-6", "FRM-7", "EVO-3", "LIM-1")
def every_task_is_reported_once_with_its_attempt(scene: Scene) -> None:
    worker = scene.worker_under_test()
    for attempt in (1, 2, 9):
        task = call(scene, "echo", b"hello", attempt=attempt)
        (result,) = run(scene, worker, task)
        is_success(scene, result, b"hello")
        scene.equal(result.attempt, attempt, "the attempt of the result")
    (empty,) = run(scene, worker, call(scene, "echo", b""))
    is_success(scene, empty, b"", "BAT-11")
    worker.fence()
    scene.equal(worker.results(), [], "further results")
    scene.equal(worker.take("cancelReply"), [], "CancelReplies, and nothing was canceled", "CAN-1")


def warm(scene: Scene, worker: WorkerGuest, function: str = "echo", argument: bytes = b"quick") -> int:
    """Quick tasks, until it takes more than it can run at once; its credit then, at most 20."""
    for _ in range(12):
        tasks = [call(scene, function, argument) for _ in range(max(1, min(worker.credit, 20)))]
        worker.dispatch(tasks, new_id())
        worker.wait_for_results(*tasks)
        worker.fence()
        if worker.credit > 8:
            break
    return min(worker.credit, 20)


@case("WRK-1", "WRK-2")
def what_comes_while_a_task_runs_is_run_too(scene: Scene) -> None:
    worker, client = scene.worker_under_test(), new_id()
    scene.needs(warm(scene, worker) >= 2, "it takes one task at a time")
    first, second = call(scene, "sleep_ms", b"200"), call(scene, "echo", b"second")
    worker.dispatch([first], client)
    worker.fence()
    worker.dispatch([second], client)
    _, result = worker.wait_for_results(first, second, clause="WRK-1")
    is_success(scene, result, b"second")


@case("WRK-2", "BAT-4", "WRK-1", "BAT-2", "BAT-11")
def a_batch_of_many_is_run_to_the_end(scene: Scene) -> None:
    """Warm, so that some results travel together: every third value is empty, and is one all the same."""
    worker = scene.worker_under_test()
    values = [b"%d" % number if number % 3 else b"" for number in range(max(1, warm(scene, worker)))]
    tasks = [call(scene, "echo", value) for value in values]
    worker.dispatch(tasks, new_id())
    for value, result in zip(values, worker.wait_for_results(*tasks), strict=True):
        is_success(scene, result, value, "" if value else "BAT-11")


@case("BAT-1", "BAT-9", "WRK-2")
def columns_are_read_task_by_task(scene: Scene) -> None:
    """One Dispatch with two functions, three counts of parts, two attempts and two inputs."""
    worker = scene.worker_under_test()
    scene.needs(warm(scene, worker) >= 3, "it takes one task at a time")
    one, two = new_id(), new_id()
    given = {one: (CODES.KIND_INLINE, b"one,"), two: (CODES.KIND_INLINE, b"two")}
    inline = tuple((CODES.KIND_INLINE, text) for text in (b"a", b"b", b"c"))
    tasks = [
        call(scene, "concat", parts=inline[:2]),
        call(scene, "reverse", b"drawer", attempt=7),
        call(scene, "concat", parts=((CODES.KIND_TASK, two), *inline, (CODES.KIND_TASK, one)), inputs=given),
    ]
    worker.dispatch(tasks, new_id())
    values = (b"ab", b"reward", b"twoabcone,")
    for result, value in zip(worker.wait_for_results(*tasks), values, strict=True):
        is_success(scene, result, value, "BAT-1")


@case("BAT-6")
def raw_parts_are_the_arguments(scene: Scene) -> None:
    worker = scene.worker_under_test()
    stored, needed = new_id(), new_id()
    scene.storage.store(stored, b"from storage", new_id())
    parts = (
        (CODES.KIND_INLINE, b"inline,"),
        (CODES.KIND_OBJECT, stored),
        (CODES.KIND_INLINE, b""),
        (CODES.KIND_TASK, needed),
    )
    task = call(scene, "concat", parts=parts, inputs={needed: (CODES.KIND_INLINE, b",of a task")})
    (result,) = run(scene, worker, task)
    is_success(scene, result, b"inline,from storage,of a task")


@case("BAT-6")
def an_input_may_be_an_object(scene: Scene) -> None:
    worker = scene.worker_under_test()
    stored, needed = new_id(), new_id()
    scene.storage.store(stored, bytes(200_000), new_id())
    task = call(scene, "echo", parts=((CODES.KIND_TASK, needed),), inputs={needed: (CODES.KIND_OBJECT, stored)})
    (result,) = run(scene, worker, task)
    scene.equal(result.status, CODES.STATUS_SUCCESS, "the status")


@case("BAT-6")
def an_unknown_call_format_is_refused(scene: Scene) -> None:
    worker = scene.worker_under_test()
    for unknown in (77, 200, 777):
        (result,) = run(scene, worker, call(scene, "echo", b"x"), callFormat=unknown)
        scene.equal(result.status, CODES.STATUS_REFUSED, "the status")
        scene.equal(error_of(result)["code"], CODES.BAD_BATCH, "the code of its TaskError")


@case("WRK-4", "BAT-12")
def a_function_that_nobody_knows_is_refused(scene: Scene) -> None:
    worker = scene.worker_under_test()
    for bytes_of_function in (named_function("no-such-function-anywhere"), b"name:\xff\xfe", b"\x80\x00noise"):
        identifier = content_id(bytes_of_function)
        scene.storage.store(identifier, bytes_of_function, new_id())
        task = Task(id=new_id(), function=identifier, parts=((0, b"x"),), attempt=2)
        (result,) = run(scene, worker, task)
        scene.equal(result.status, CODES.STATUS_REFUSED, "the status")
        scene.equal(error_of(result)["code"], CODES.FUNCTION_UNREADABLE, "the code of its TaskError")
    (known,) = run(scene, worker, call(scene, "echo", b"known"))
    is_success(scene, known, b"known", "BAT-12")


@case("STO-29")
def a_function_with_other_bytes_than_its_id_says_is_refused(scene: Scene) -> None:
    """The bytes are a function that every worker has: nothing but the hash tells that they are the wrong ones."""
    worker = scene.worker_under_test()
    identifier = content_id(new_id())
    scene.storage.store(identifier, named_function("echo"), new_id())
    (result,) = run(scene, worker, Task(id=new_id(), function=identifier, parts=((0, b"x"),)))
    scene.equal(result.status, CODES.STATUS_REFUSED, "the status")
    scene.equal(error_of(result)["code"], CODES.FUNCTION_UNREADABLE, "the code of its TaskError")


@case("WRK-26")
def code_that_it_does_not_offer_to_read_is_refused(scene: Scene) -> None:
    """Only of a worker that says what it reads. The function is one that it has: it does not come to that."""
    worker = scene.worker_under_test()
    tags = list(worker.hello["worker"]["codeTags"])
    for tag, is_readable in ((tags[0], True), ("nobody-reads-this", False)) if tags else ():
        (result,) = run(scene, worker, call(scene, "echo", b"x"), codeTag=tag)
        if is_readable:
            is_success(scene, result, b"x")
        else:
            scene.equal(result.status, CODES.STATUS_REFUSED, "the status")
            error = error_of(result)
            scene.equal(error["code"], CODES.FUNCTION_UNREADABLE, "the code of its TaskError")
            scene.check(tag in error["message"], f"the error does not name what was asked for: {error['message']}")


@case("BAT-10", "WRK-2")
def an_error_of_the_function_is_told(scene: Scene) -> None:
    worker = scene.worker_under_test()
    (result,) = run(scene, worker, call(scene, "fail", b"as asked", attempt=2))
    scene.equal(result.status, CODES.STATUS_FAILED, "the status", "WRK-2")
    scene.equal(result.kind, CODES.KIND_INLINE, "the kind of its value")
    error = error_of(result)
    scene.equal(error["code"], CODES.TASK_RAISED, "the code of its TaskError")
    scene.check("as asked" in error["message"], f"the message is {error['message'][:80]!r}, not that of the function")
    scene.check(bool(error["typeName"]), "typeName is empty")


@case("PAY-2", "BAT-10")
def a_huge_error_is_cut(scene: Scene) -> None:
    worker = scene.worker_under_test()
    stored = new_id()
    scene.storage.store(stored, b"m" * 300_000, new_id())
    task = call(scene, "fail", parts=((CODES.KIND_OBJECT, stored),))
    (result,) = run(scene, worker, task)
    scene.equal(result.status, CODES.STATUS_FAILED, "the status", "WRK-2")
    limit = worker.limits_in_force["inlineBytes"]
    scene.check(len(result.value) <= limit, f"the TaskError has {len(result.value)} bytes, {limit} were agreed")
    scene.equal(error_of(result)["code"], CODES.TASK_RAISED, "the code", "BAT-10")


@case("WRK-16", "OWN-6", "OWN-11", "WRK-13", "PAY-1", "STO-1")
def a_large_value_travels_as_an_object(scene: Scene) -> None:
    worker = scene.worker_under_test()
    limit = worker.limits_in_force["inlineBytes"]
    for size, is_object in ((limit, False), (limit + 1, True), (3_000_000, True)):
        task, client = call(scene, "bytes_n", b"%d" % size, attempt=3), new_id()
        (result,) = run(scene, worker, task, client=client)
        scene.equal(result.status, CODES.STATUS_SUCCESS, "the status", "WRK-2")
        if not is_object:
            continue  # a worker may pass smaller ones as objects too
        scene.equal(result.kind, CODES.KIND_OBJECT, f"the kind of a value of {size} bytes")
        scene.equal(result.value, result_id(task.id, 3), "the id of the object", "OWN-6")
        value = scene.storage.values.get(result.value)
        scene.check(value is not None, "the Results came before the object was stored", "WRK-13")
        scene.equal(len(value or b""), size, "the size of the object", "WRK-13")
        owners = scene.storage.owners.get(result.value, set())
        scene.equal(owners, {client}, "the owners of the object", "OWN-11")


@case("OWN-6")
def a_salt_goes_into_the_id_of_a_value(scene: Scene) -> None:
    """Two clients with tasks in one slice of work: each value lies where its own salt says."""
    worker = scene.worker_under_test()
    size = worker.limits_in_force["inlineBytes"] + 1
    for salt in (new_id(), b"", new_id()):
        task = call(scene, "bytes_n", b"%d" % size, attempt=2)
        client = new_id()
        (result,) = run(scene, worker, task, client=client, resultSalt=salt)
        scene.equal(result.kind, CODES.KIND_OBJECT, f"the kind of a value of {size} bytes", "PAY-1")
        scene.equal(
            result.value, result_id(task.id, 2, salt, client), f"the id of the object with the salt {salt.hex()!r}"
        )


@case("WRK-30")
def a_task_fails_if_another_object_has_the_id_of_its_value(scene: Scene) -> None:
    worker = scene.worker_under_test()
    size = worker.limits_in_force["inlineBytes"] + 1
    for forged in (b"forged", b"f" * size, b"f" * 3_000_000):
        task = call(scene, "bytes_n", b"%d" % max(size, len(forged)))
        scene.storage.store(result_id(task.id, 1), forged, new_id())
        (result,) = run(scene, worker, task)
        scene.equal(result.status, CODES.STATUS_FAILED, "the status")
        scene.equal(error_of(result)["code"], CODES.EXISTS, "the code of its TaskError")


@case("STO-5", "STO-6")
def a_very_large_value_is_put_in_chunks(scene: Scene) -> None:
    worker, client = scene.worker_under_test(), new_id()
    task = call(scene, "bytes_n", b"%d" % (20 << 20))
    before = len(scene.storage.requests)
    (result,) = run(scene, worker, task, client=client)
    puts = [message for _, message in scene.storage.requests[before:] if message.kind == "put"]
    sizes = [len(message.payload[0]) for message in puts]
    scene.check(max(sizes) <= 8 << 20, f"a chunk has {max(sizes)} bytes", "STO-6")
    offsets = [message["offset"] for message in puts]
    expected = [sum(sizes[:number]) for number in range(len(sizes))]
    scene.equal(offsets, expected, "the offsets of the chunks")
    scene.equal(result.kind, CODES.KIND_OBJECT, "the kind of the value", "WRK-16")
    scene.equal(len(scene.storage.values.get(result.value, b"")), 20 << 20, "the size of the object", "WRK-13")


@case("WRK-8", "WRK-2", seconds=40.0)
def a_dead_processor_ends_its_task_only(scene: Scene) -> None:
    worker = scene.worker_under_test()
    (result,) = run(scene, worker, call(scene, "crash", b"3", attempt=4))
    scene.equal(result.status, CODES.STATUS_PROCESSOR_DIED, "the status")
    error = error_of(result)
    scene.equal((error["code"], error["exitCode"]), (CODES.PROCESSOR_DIED, 3), "code and exitCode")
    scene.check(error["peakMemoryBytes"] > 0, "peakMemoryBytes is zero: nobody can tell whether memory was the reason")
    (signaled,) = run(scene, worker, call(scene, "crash"))
    scene.equal(signaled.status, CODES.STATUS_PROCESSOR_DIED, "the status")
    code = error_of(signaled)["exitCode"]
    scene.check(code < 0, f"exitCode is {code}; the processor died by a signal, so it is minus its number")
    (after,) = run(scene, worker, call(scene, "echo", b"alive"))
    is_success(scene, after, b"alive")


@case("WRK-8", seconds=40.0)
def what_else_a_dead_processor_had_is_run_in_another(scene: Scene) -> None:
    worker = scene.worker_under_test()
    count = max(1, warm(scene, worker) - 1)
    tasks = [call(scene, "crash", b"7"), *(call(scene, "echo", b"%d" % number) for number in range(count))]
    worker.dispatch(tasks, new_id())
    died, *others = worker.wait_for_results(*tasks, seconds=20.0)
    scene.equal(died.status, CODES.STATUS_PROCESSOR_DIED, "the status")
    for number, result in enumerate(others):
        is_success(scene, result, b"%d" % number)


@case("WRK-18")
def a_task_is_measured_when_asked(scene: Scene) -> None:
    worker = scene.worker_under_test()
    (result,) = run(scene, worker, call(scene, "sleep_ms", b"50"), flags=CODES.FLAG_PROFILING)
    scene.check(result.profile is not None, "the flag PROFILING is set, and the Results have no profiles")
    assert result.profile is not None
    duration, processor, _ = result.profile
    scene.check(45_000_000 <= duration < 10_000_000_000, f"a task of 50 ms is measured with {duration} ns")
    scene.check(processor <= duration * 4, f"it took {processor} ns of processor time in {duration} ns")


@case("WRK-19")
def what_a_task_prints_comes_before_its_result(scene: Scene) -> None:
    worker = scene.worker_under_test()
    task = call(scene, "print_text", b"first line\n", b"second line\n", b"no end")
    run(scene, worker, task, flags=CODES.FLAG_STREAM_OUTPUT)
    logs = [message for message in worker.history if message.kind == "taskLog" and message["taskId"] == task.id]
    text = "".join(message["text"] for message in logs if message["stream"] == 1)
    scene.equal(text.rstrip("\n"), "first line\nsecond line\nno end", "what was logged")
    kinds = [message.kind for message in worker.history]
    last_log = max(index for index, message in enumerate(worker.history) if message in logs)
    scene.check("results" in kinds[last_log:], "a TaskLog came after the result of its task")
    (result,) = run(scene, worker, call(scene, "print_text", b"unheard"))
    is_success(scene, result, b"")
    worker.fence()
    scene.check(not any(m.kind == "taskLog" and "unheard" in m["text"] for m in worker.history), "unasked output")


@case("CAN-9", "CAN-1")
def a_cancel_of_an_unknown_task_is_answered_unknown(scene: Scene) -> None:
    worker = scene.worker_under_test()
    one, two = call(scene, "echo"), call(scene, "echo")
    worker.cancel(one, two, one)
    worker.fence()
    told = worker.cancel_outcomes()
    scene.equal(set(told), {one.id, two.id}, "the tasks of a Cancel that were answered", "CAN-1")
    scene.equal(told, dict.fromkeys((one.id, two.id), CODES.CANCEL_UNKNOWN), "the outcomes", "CAN-9")


def canceled(worker: WorkerGuest, *tasks: Task, seconds: float) -> list[Result]:
    """Their results. Whoever says that they are canceled and has none is told so."""
    try:
        return worker.wait_for_results(*tasks, seconds=seconds, clause="CAN-4")
    except Breach as breach:
        replies = [pair for message in worker.inbox if message.kind == "cancelReply" for pair in outcomes_of(message)]
        if breach.clause == "CAN-4" and any(outcome == CODES.CANCEL_CANCELED for _, outcome in replies):
            raise Breach(f"{breach.text}, and it was answered CANCELED", "CAN-2") from None
        raise


@case("CAN-2", "CAN-1", "CAN-4", "WRK-2", seconds=40.0)
def a_running_task_is_interrupted(scene: Scene) -> None:
    worker = scene.worker_under_test()
    task = call(scene, "sleep_ms", b"20000", attempt=3)
    worker.dispatch([task], new_id())
    worker.fence()
    worker.cancel(task, grace=0.5)
    (result,) = canceled(worker, task, seconds=15.0)
    worker.fence()
    scene.equal(result.status, CODES.STATUS_CANCELED, "the status of a canceled task", "CAN-2")
    scene.pump.until(lambda: any(message.kind == "cancelReply" for message in worker.inbox), 5.0)
    scene.equal(worker.cancel_outcomes(), {task.id: CODES.CANCEL_CANCELED}, "the outcome", "CAN-1")
    (after,) = run(scene, worker, call(scene, "echo", b"next"))
    is_success(scene, after, b"next", "WRK-8")


@case("CAN-2", "CAN-1", seconds=40.0)
def a_task_that_has_not_begun_is_canceled(scene: Scene) -> None:
    """More sleepers than it can run at once: some are canceled while they run, some before they begin."""
    worker = scene.worker_under_test()
    tasks = [call(scene, "sleep_ms", b"20000") for _ in range(max(1, worker.credit))]
    worker.dispatch(tasks, new_id())
    worker.fence()
    worker.cancel(*tasks, grace=0.5)
    for result in canceled(worker, *tasks, seconds=20.0):
        scene.equal(result.status, CODES.STATUS_CANCELED, "the status of a canceled task")
    told: dict[bytes, int] = {}

    def all_answered() -> bool:
        told.update(worker.cancel_outcomes())
        return len(told) == len(tasks)

    scene.check(
        scene.pump.until(all_answered, 5.0), f"{len(told)} of {len(tasks)} tasks of a Cancel were answered", "CAN-1"
    )
    scene.equal(set(told.values()), {CODES.CANCEL_CANCELED}, "the outcomes", "CAN-1")


@case("WRK-9", "WRK-15", "WRK-20", seconds=40.0)
def a_recall_has_one_answer_and_what_came_back_is_not_run(scene: Scene) -> None:
    worker = scene.worker_under_test()
    tasks = [call(scene, "sleep_ms", b"100") for _ in range(max(1, warm(scene, worker)))]
    worker.dispatch(tasks, new_id())
    stranger = new_id()
    worker.send("recall", ids=b"".join(task.id for task in tasks) + stranger)
    answer = worker.expect("returned", clause="WRK-9", seconds=10.0)
    scene.equal(answer["isRecallAnswer"], True, "isRecallAnswer")
    back = ids_of(answer["ids"])
    held = [task for task in tasks if task.id not in back]
    scene.check(set(back) <= {task.id for task in tasks}, "tasks came back that were never here")
    worker.wait_for_results(*held, seconds=20.0, clause="WRK-15")
    worker.fence()
    scene.equal(len(worker.take("returned")), 0, "further answers to one Recall")
    scene.equal(worker.results(), [], "results of tasks that came back", "WRK-15")
    worker.send("recall", ids=stranger)
    worker.fence()
    scene.equal([m["ids"] for m in worker.take("returned")], [b""], "the answer to a Recall of what it does not hold")


@case("BAT-2", "BAT-5", "ERR-1", "ERR-9", "SES-16")
def a_dispatch_that_breaks_its_rules_is_refused(scene: Scene) -> None:
    worker, client = scene.worker_under_test(), new_id()
    header = {"callFormat": CODES.CALL_RAW, "client": client, **worker.grant_of(client)}
    good = write_tasks([call(scene, "echo", b"a")], header)
    for columns in (
        {"partSizes": bytes(8)},
        {"ids": good["ids"] * 2},
        {"payload": b"too long"},
        {"functions": b""},
        {"functionIndexes": b"\7\0"},
        {"partKinds": b"\x63"},
        {"attempts": b"\0\0"},
        {"dependencyCounts": b"\1\0", "dependencies": new_id()},
    ):
        seq = worker.send_batch("dispatch", {**good, **columns})
        worker.expect_error(
            CODES.BAD_BATCH, ref_seq=seq, fatal=False, clause="BAT-5" if "dependencies" in columns else ""
        )
    worker.fence()
    scene.equal(worker.results(), [], "results of refused tasks")
    (result,) = run(scene, worker, call(scene, "echo", b"still here"))
    is_success(scene, result, b"still here", "ERR-1")


@case("CRD-2")
def a_dispatch_that_crosses_a_lowered_limit_is_no_error(scene: Scene) -> None:
    """The worker's last message is not acknowledged, so the scheduler may not have known of its limit."""
    worker = scene.worker_under_test()
    tasks = [call(scene, "echo", b"%d" % number) for number in range(max(1, worker.credit))]
    worker.dispatch(tasks, new_id())
    worker.wait_for_results(*tasks, clause="CRD-2")
    worker.fence()
    for error in worker.take("error"):
        scene.fail(f"the worker sent {scene.transcript.describe(error)}")


@case("WRK-6", "CLI-9", "CRD-5", seconds=60.0)
def a_nested_task_runs_in_the_place_of_its_parent(scene: Scene) -> None:
    worker, owner = scene.worker_under_test(), new_id()
    parent = call(scene, "submit_child", b"echo", b"from the child")
    worker.dispatch([parent], owner)
    client = scene.scheduler.guest("client", 20.0, "CLI-9")
    scene.equal(client.hello["parentTask"], parent.id, "parentTask in the Hello of a client inside a task", "CLI-9")
    assert isinstance(client, ClientGuest)
    (child,) = client.wait_for_tasks(1, 20.0, "CLI-9")
    scene.equal(child.header["parentTask"], parent.id, "header.parentTask of the child", "CLI-9")
    scene.equal(child.header["depth"], 1, "header.depth of the child", "CLI-9")
    inner = Task(id=child.id, function=child.function, parts=child.parts)
    header = {name: value for name, value in child.header.items() if name not in ("client", "callFormat")}
    worker.dispatch([inner], client.peer_id, callFormat=child.header["callFormat"], **header)
    found: dict[bytes, Result] = {}

    def step() -> bool:
        for row in worker.results():
            found[row.id] = row
            if row.id == child.id:
                client.send_batch("results", write_results([row]))
        return parent.id in found

    scene.check(scene.pump.until(step, 30.0), "a task that waits for its child did not end", "WRK-6")
    is_success(scene, found[parent.id], b"from the child")
